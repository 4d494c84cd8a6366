// Purpose:  build answers; see text.h.
// Owns:     nothing of its own.
// Thread:   one thread an object.
// Lifetime: not applicable.
#include "text.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "aotx/handle.h"
#include "service/base/base64.h"
#include "service/base/check.h"

namespace aotx {
namespace {

constexpr size_t kTextBytesMin = 4096;
constexpr size_t kDecimalDigitsMax = 20;

bool is_plain(char byte)
{
    return static_cast<unsigned char>(byte) >= 0x20 && byte != '"' && byte != '\\' && byte != 0x7f;
}

// The escape of one byte that may not stand in a JSON string as it is. Returns its characters.
size_t escape_write(char byte, char* out)
{
    const std::string_view shorts = "\"\"\\\\\bb\ff\nn\rr\tt";
    for (size_t i = 0; i < shorts.size(); i += 2) {
        if (byte == shorts[i]) {
            out[0] = '\\';
            out[1] = shorts[i + 1];
            return 2;
        }
    }
    std::memcpy(out, "\\u00", 4);
    const uint8_t value = static_cast<uint8_t>(byte);
    aotx_hex_encode(&value, 1, out + 4);
    return 6;
}

}  // namespace

Text::~Text()
{
    std::free(data_);
}

void Text::truncate(size_t size_bytes) noexcept
{
    AOTX_CHECK(size_bytes <= size_);
    size_ = size_bytes;
}

void Text::trim(size_t capacity_bytes_max) noexcept
{
    size_ = 0;
    if (capacity_ > capacity_bytes_max) {
        std::free(data_);
        data_ = nullptr;
        capacity_ = 0;
    }
}

char* Text::reserve(size_t bytes_count) noexcept
{
    if (capacity_ - size_ < bytes_count) {
        const size_t wanted = std::max({size_ + bytes_count, capacity_ * 2, kTextBytesMin});
        char* const grown = static_cast<char*>(std::realloc(data_, wanted));
        AOTX_CHECK(grown != nullptr);
        data_ = grown;
        capacity_ = wanted;
    }
    return data_ + size_;
}

void Text::commit(size_t bytes_count) noexcept
{
    AOTX_CHECK(bytes_count <= capacity_ - size_);
    size_ += bytes_count;
}

void Text::append(std::string_view text) noexcept
{
    if (!text.empty()) {
        std::memcpy(reserve(text.size()), text.data(), text.size());
        size_ += text.size();
    }
}

void Text::append(char byte) noexcept
{
    *reserve(1) = byte;
    size_++;
}

void Text::append_decimal(uint64_t value) noexcept
{
    char digits[kDecimalDigitsMax];
    size_t at = sizeof digits;
    do {
        digits[--at] = static_cast<char>('0' + value % 10);
        value /= 10;
    } while (value != 0);
    append({digits + at, sizeof digits - at});
}

void Text::append_hex(const uint8_t* bytes, size_t bytes_count) noexcept
{
    aotx_hex_encode(bytes, bytes_count, reserve(2 * bytes_count));
    size_ += 2 * bytes_count;
}

void Text::append_base64(const uint8_t* bytes, size_t bytes_count) noexcept
{
    size_ += base64_encode(bytes, bytes_count, reserve(base64_characters(bytes_count)));
}

void Text::append_json(std::string_view text) noexcept
{
    constexpr size_t escape_characters_max = 6;
    char* const begin = reserve(text.size() * escape_characters_max);
    char* out = begin;
    size_t at = 0;
    while (at < text.size()) {
        size_t plain = at;
        while (plain < text.size() && is_plain(text[plain])) {
            plain++;
        }
        std::memcpy(out, text.data() + at, plain - at);
        out += plain - at;
        at = plain;
        if (at < text.size()) {
            out += escape_write(text[at], out);
            at++;
        }
    }
    size_ += static_cast<size_t>(out - begin);
}

void Text::append_json_string(std::string_view text) noexcept
{
    append('"');
    append_json(text);
    append('"');
}

void Text::append_json_bool(bool value) noexcept
{
    append(value ? std::string_view("true") : std::string_view("false"));
}

}  // namespace aotx
