// Purpose:  keys and values of all sequences, in pages of 32 tokens from one fixed pool.
// Owns:     the pool, the page lists and the list of free pages.
// Thread:   one driver thread for open_sequence, close_sequence and append; the addresses of pages
//           may be used by any worker of the step that it runs.
// Lifetime: open -> sequences -> close.
//
// Pages are reserved when a sequence opens, so a running sequence never lacks storage.
#pragma once

#include <cstdint>
#include <memory>

#include "cuda/kernels/cpu/kernels.h"

namespace aotx {

struct KvShape {
    uint32_t layers = 0;
    uint32_t kv_heads = 0;
    uint32_t head_size = 0;
    bool wide = false;  // f32 instead of f16
    uint32_t sequences = 0;
    uint32_t pages = 0;
    uint32_t sequence_tokens = 0;  // most tokens of one sequence
};

class KvCache {
public:
    KvCache() noexcept = default;
    ~KvCache();
    KvCache(const KvCache&) = delete;
    KvCache& operator=(const KvCache&) = delete;

    // Take all memory. False when there is not enough.
    [[nodiscard]] bool open(const KvShape& shape) noexcept;
    void close() noexcept;

    // What open would take, bytes.
    static uint64_t allocation_bytes(const KvShape& shape) noexcept;

    // False: not enough free pages. sequence is closed and in range; tokens_max in
    // 1..sequence_tokens. [hot]
    [[nodiscard]] bool open_sequence(uint32_t sequence, uint32_t tokens_max) noexcept;
    void close_sequence(uint32_t sequence) noexcept;  // [hot]

    bool is_open(uint32_t sequence) const noexcept { return rows_[sequence].tokens_max != 0; }
    uint32_t length(uint32_t sequence) const noexcept { return rows_[sequence].length; }
    uint32_t tokens_max(uint32_t sequence) const noexcept { return rows_[sequence].tokens_max; }
    uint32_t pages_free() const noexcept { return free_count_; }
    void append(uint32_t sequence, uint32_t tokens) noexcept { rows_[sequence].length += tokens; }

    // Page numbers of a sequence, in order.
    const uint32_t* pages(uint32_t sequence) const noexcept
    {
        return page_lists_.get() + uint64_t{sequence} * list_pages_;
    }
    // Where page 0 of one layer and head lies, and how far the next page is.
    uint8_t* base(uint32_t layer, uint32_t kv_head) const noexcept
    {
        const uint64_t index = uint64_t{layer} * shape_.kv_heads + kv_head;
        return pool_ + index * page_bytes(shape_.head_size, shape_.wide);
    }
    uint64_t page_stride_bytes() const noexcept { return page_stride_bytes_; }
    bool wide() const noexcept { return shape_.wide; }

private:
    struct Row {
        uint32_t tokens_max = 0;  // 0: closed
        uint32_t length = 0;
        uint32_t pages_count = 0;
    };

    KvShape shape_;
    uint64_t page_stride_bytes_ = 0;
    uint32_t list_pages_ = 0;
    uint32_t free_count_ = 0;
    uint8_t* pool_ = nullptr;
    uint64_t pool_bytes_ = 0;
    std::unique_ptr<Row[]> rows_;
    std::unique_ptr<uint32_t[]> page_lists_;
    std::unique_ptr<uint32_t[]> free_;  // a stack, so that the pages used last are used next
};

}  // namespace aotx
