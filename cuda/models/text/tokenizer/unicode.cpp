// Purpose:  UTF-8 and character classes.
// Owns:     nothing.
// Thread:   any.
// Lifetime: not applicable.
#include "tokenizer/unicode.h"

#include "tokenizer/unicode_table.h"

namespace aotx {

namespace {

constexpr uint32_t kCharacterMax = 0x10ffff;

bool is_space(uint32_t character) noexcept
{
    if (character < 0x80) {
        return character == ' ' || (character >= 9 && character <= 13);
    }
    return character == 0x85 || character == 0xa0 || character == 0x1680 ||
           (character >= 0x2000 && character <= 0x200a) || character == 0x2028 ||
           character == 0x2029 || character == 0x202f || character == 0x205f || character == 0x3000;
}

uint16_t look_up(uint32_t character) noexcept
{
    uint32_t low = 0;
    uint32_t high = kUnicodeRunsCount;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (kUnicodeRuns[middle] >> 8 <= character) {
            low = middle;
        } else {
            high = middle;
        }
    }
    const uint32_t space = is_space(character) ? kUnicodeSpace : 0;
    return static_cast<uint16_t>((kUnicodeRuns[low] & 0xff) | space);
}

// The first 0x800 characters, which most text is made of, without a search.
struct Near {
    static constexpr uint32_t kCount = 0x800;
    uint16_t classes[kCount];
    Near() noexcept
    {
        for (uint32_t i = 0; i < kCount; i++) {
            classes[i] = look_up(i);
        }
    }
};
const Near kNear;

bool is_tail(char byte) noexcept
{
    return (static_cast<uint8_t>(byte) & 0xc0) == 0x80;
}

uint32_t bits(char byte, uint32_t mask) noexcept
{
    return static_cast<uint8_t>(byte) & mask;
}

}  // namespace

uint16_t unicode_class(uint32_t character) noexcept
{
    if (character < Near::kCount) {
        return kNear.classes[character];
    }
    return character > kCharacterMax ? uint16_t{0} : look_up(character);
}

uint32_t utf8_decode(const char* text, uint32_t bytes, uint32_t* character) noexcept
{
    const uint32_t first = static_cast<uint8_t>(text[0]);
    if (first < 0x80) {
        *character = first;
        return 1;
    }
    *character = kReplacement;
    const uint32_t length = first < 0xc0 || first >= 0xf8 ? 1 : utf8_length(text[0]);
    if (length == 1 || length > bytes) {
        return 1;
    }
    for (uint32_t i = 1; i < length; i++) {
        if (!is_tail(text[i])) {
            return 1;
        }
    }
    if (length == 2) {
        *character = (first & 0x1f) << 6 | bits(text[1], 0x3f);
    } else if (length == 3) {
        *character = (first & 0x0f) << 12 | bits(text[1], 0x3f) << 6 | bits(text[2], 0x3f);
    } else {
        const uint32_t value = (first & 0x07) << 18 | bits(text[1], 0x3f) << 12 |
                               bits(text[2], 0x3f) << 6 | bits(text[3], 0x3f);
        *character = value > kCharacterMax ? kReplacement : value;
    }
    return length;
}

uint32_t utf8_encode(uint32_t character, char* out) noexcept
{
    if (character < 0x80) {
        out[0] = static_cast<char>(character);
        return 1;
    }
    if (character < 0x800) {
        out[0] = static_cast<char>(0xc0 | character >> 6);
        out[1] = static_cast<char>(0x80 | (character & 0x3f));
        return 2;
    }
    if (character < 0x10000) {
        out[0] = static_cast<char>(0xe0 | character >> 12);
        out[1] = static_cast<char>(0x80 | (character >> 6 & 0x3f));
        out[2] = static_cast<char>(0x80 | (character & 0x3f));
        return 3;
    }
    out[0] = static_cast<char>(0xf0 | character >> 18);
    out[1] = static_cast<char>(0x80 | (character >> 12 & 0x3f));
    out[2] = static_cast<char>(0x80 | (character >> 6 & 0x3f));
    out[3] = static_cast<char>(0x80 | (character & 0x3f));
    return 4;
}

}  // namespace aotx
