// Purpose:  base64, see base64.h.
// Owns:     nothing.
// Thread:   any.
// Lifetime: not applicable.
#include "service/base/base64.h"

#include <array>

#include "aotx/status.h"

namespace aotx {
namespace {

constexpr char kAlphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr uint8_t kNoDigit = 255;

constexpr std::array<uint8_t, 256> make_digits() noexcept
{
    std::array<uint8_t, 256> digits = {};
    digits.fill(kNoDigit);
    for (uint8_t value = 0; value < 64; value++) {
        digits[static_cast<uint8_t>(kAlphabet[value])] = value;
    }
    return digits;
}
constexpr std::array<uint8_t, 256> kDigits = make_digits();

uint32_t digit_of(char character) noexcept
{
    return kDigits[static_cast<uint8_t>(character)];
}

// The last four characters, of which one or two are padding.
int decode_padded(const char* text, uint8_t* bytes, size_t* at) noexcept
{
    const bool two_bytes = text[2] != '=';
    const uint32_t first = digit_of(text[0]);
    const uint32_t second = digit_of(text[1]);
    const uint32_t third = two_bytes ? digit_of(text[2]) : 0;
    if (first == kNoDigit || second == kNoDigit || third == kNoDigit) {
        return AOTX_ERR_SYNTAX;
    }
    const uint32_t word = first << 18 | second << 12 | third << 6;
    if ((word & (two_bytes ? 0xffu : 0xffffu)) != 0) {
        return AOTX_ERR_SYNTAX;
    }
    bytes[(*at)++] = static_cast<uint8_t>(word >> 16);
    if (two_bytes) {
        bytes[(*at)++] = static_cast<uint8_t>(word >> 8);
    }
    return AOTX_OK;
}

}  // namespace

size_t base64_encode(const uint8_t* bytes, size_t bytes_count, char* text) noexcept
{
    size_t at = 0;
    size_t i = 0;
    for (; i + 3 <= bytes_count; i += 3) {
        const uint32_t word = static_cast<uint32_t>(bytes[i]) << 16 |
                              static_cast<uint32_t>(bytes[i + 1]) << 8 | bytes[i + 2];
        text[at++] = kAlphabet[word >> 18];
        text[at++] = kAlphabet[word >> 12 & 63];
        text[at++] = kAlphabet[word >> 6 & 63];
        text[at++] = kAlphabet[word & 63];
    }
    if (i == bytes_count) {
        return at;
    }

    const bool two_bytes = bytes_count - i == 2;
    const uint32_t word = static_cast<uint32_t>(bytes[i]) << 16 |
                          (two_bytes ? static_cast<uint32_t>(bytes[i + 1]) << 8 : 0);
    text[at++] = kAlphabet[word >> 18];
    text[at++] = kAlphabet[word >> 12 & 63];
    text[at++] = two_bytes ? kAlphabet[word >> 6 & 63] : '=';
    text[at++] = '=';
    return at;
}

int base64_decode(const char* text, size_t characters, uint8_t* bytes, size_t* bytes_count) noexcept
{
    if (characters % 4 != 0) {
        return AOTX_ERR_SYNTAX;
    }
    size_t at = 0;
    for (size_t i = 0; i < characters; i += 4) {
        if (i + 4 == characters && text[i + 3] == '=') {
            if (decode_padded(text + i, bytes, &at) != AOTX_OK) {
                return AOTX_ERR_SYNTAX;
            }
            break;
        }
        const uint32_t first = digit_of(text[i]);
        const uint32_t second = digit_of(text[i + 1]);
        const uint32_t third = digit_of(text[i + 2]);
        const uint32_t fourth = digit_of(text[i + 3]);
        if ((first | second | third | fourth) > 63) {
            return AOTX_ERR_SYNTAX;
        }
        const uint32_t word = first << 18 | second << 12 | third << 6 | fourth;
        bytes[at++] = static_cast<uint8_t>(word >> 16);
        bytes[at++] = static_cast<uint8_t>(word >> 8);
        bytes[at++] = static_cast<uint8_t>(word);
    }
    *bytes_count = at;
    return AOTX_OK;
}

}  // namespace aotx
