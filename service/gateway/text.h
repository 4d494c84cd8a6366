// Purpose:  build answers: an append-only text whose memory is kept between answers.
// Owns:     the memory of each Text.
// Thread:   one thread an object.
// Lifetime: as long as its owner; clear() keeps the memory, trim() gives a large one back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace aotx {

class Text {
public:
    Text() noexcept = default;
    ~Text();
    Text(const Text&) = delete;
    Text& operator=(const Text&) = delete;

    const char* data() const noexcept { return data_; }
    char* writable() noexcept { return data_; }
    size_t size() const noexcept { return size_; }
    std::string_view view() const noexcept { return {data_, size_}; }

    void clear() noexcept { size_ = 0; }
    // Shorten to size_bytes, which is at most size().
    void truncate(size_t size_bytes) noexcept;
    // Give the memory back when it is larger than capacity_bytes_max; the text is empty then.
    void trim(size_t capacity_bytes_max) noexcept;
    // At least bytes_count writable bytes behind the text; commit() makes them part of it. Without
    // memory the process stops: every text of this program has a bound of its own.
    [[nodiscard]] char* reserve(size_t bytes_count) noexcept;
    void commit(size_t bytes_count) noexcept;

    void append(std::string_view text) noexcept;
    void append(char byte) noexcept;
    void append_decimal(uint64_t value) noexcept;
    void append_hex(const uint8_t* bytes, size_t bytes_count) noexcept;
    void append_base64(const uint8_t* bytes, size_t bytes_count) noexcept;
    // The inside of a JSON string. text is valid UTF-8.
    void append_json(std::string_view text) noexcept;
    // A whole JSON string with its quotes.
    void append_json_string(std::string_view text) noexcept;
    void append_json_bool(bool value) noexcept;

private:
    char* data_ = nullptr;
    size_t size_ = 0;
    size_t capacity_ = 0;
};

}  // namespace aotx
