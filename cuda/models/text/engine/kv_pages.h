// Purpose:  which sequences are open, how long they are, and which pages of a fixed pool they hold.
// Owns:     the page lists and the list of free pages; the pool itself is the engine's.
// Thread:   one driver thread; pages may be read by any worker of the step that it runs.
// Lifetime: open -> sequences -> close.
//
// Pages are reserved when a sequence opens, so a running sequence never lacks storage.
#pragma once

#include <cstdint>
#include <memory>

namespace aotx {

struct PagesShape {
    uint32_t sequences = 0;
    uint32_t pages = 0;
    uint32_t page_tokens = 0;
    uint32_t sequence_tokens = 0;  // most tokens of one sequence
};

class KvPages {
public:
    // False: not enough memory.
    [[nodiscard]] bool open(const PagesShape& shape) noexcept;
    void close() noexcept;

    // What open would take, bytes.
    static uint64_t allocation_bytes(const PagesShape& shape) noexcept;

    // False: not enough free pages. sequence is closed and in range; tokens_max in
    // 1..sequence_tokens. [hot]
    [[nodiscard]] bool open_sequence(uint32_t sequence, uint32_t tokens_max) noexcept;
    void close_sequence(uint32_t sequence) noexcept;  // [hot]

    bool is_open(uint32_t sequence) const noexcept { return rows_[sequence].tokens_max != 0; }
    uint32_t length(uint32_t sequence) const noexcept { return rows_[sequence].length; }
    uint32_t tokens_max(uint32_t sequence) const noexcept { return rows_[sequence].tokens_max; }
    uint32_t pages_held(uint32_t sequence) const noexcept { return rows_[sequence].pages_count; }
    // Counts the openings of this sequence number, so that an engine sees a list that has changed.
    uint32_t openings(uint32_t sequence) const noexcept { return rows_[sequence].openings; }
    uint32_t pages_free() const noexcept { return free_count_; }
    uint32_t open_count() const noexcept { return open_count_; }
    const PagesShape& pages_shape() const noexcept { return shape_; }
    void append(uint32_t sequence, uint32_t tokens) noexcept { rows_[sequence].length += tokens; }

    // Page numbers of a sequence, in order.
    const uint32_t* pages(uint32_t sequence) const noexcept
    {
        return page_lists_.get() + uint64_t{sequence} * list_pages_;
    }

private:
    struct Row {
        uint32_t tokens_max = 0;  // 0: closed
        uint32_t length = 0;
        uint32_t pages_count = 0;
        uint32_t openings = 0;
    };

    PagesShape shape_;
    uint32_t list_pages_ = 0;
    uint32_t free_count_ = 0;
    uint32_t open_count_ = 0;
    std::unique_ptr<Row[]> rows_;
    std::unique_ptr<uint32_t[]> page_lists_;
    std::unique_ptr<uint32_t[]> free_;  // a stack, so that the pages used last are used next
};

}  // namespace aotx
