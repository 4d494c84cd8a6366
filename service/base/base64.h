// Purpose:  base64 of RFC 4648 with padding: encode, and a strict decode.
// Owns:     nothing.
// Thread:   any.
// Lifetime: not applicable.
#pragma once

#include <cstddef>
#include <cstdint>

namespace aotx {

// Characters that encode bytes_count bytes.
constexpr size_t base64_characters(size_t bytes_count) noexcept
{
    return (bytes_count + 2) / 3 * 4;
}

// Most bytes that this many characters decode to.
constexpr size_t base64_bytes_max(size_t characters) noexcept
{
    return characters / 4 * 3;
}

// Encode. text: char [base64_characters(bytes_count)], no terminator. Returns the characters
// written.
size_t base64_encode(const uint8_t* bytes, size_t bytes_count, char* text) noexcept;

// Decode the whole text. bytes: u8 [base64_bytes_max(characters)]; may be the text itself, as the
// writer never passes the reader. Refused with AOTX_ERR_SYNTAX, bytes unspecified: a length that is
// no multiple of 4, a character outside the alphabet, padding elsewhere than at the end, and
// discarded bits that are not zero, so that one sequence of bytes has one text.
[[nodiscard]] int base64_decode(const char* text, size_t characters, uint8_t* bytes,
                                size_t* bytes_count) noexcept;

}  // namespace aotx
