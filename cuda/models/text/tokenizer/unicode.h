// Purpose:  UTF-8 decoding as tokenizers do it, and the classes of characters.
// Owns:     nothing.
// Thread:   any.
// Lifetime: not applicable.
#pragma once

#include <cstdint>

namespace aotx {

// Class bits of a character, from its general category; kUnicodeSpace beside one of them.
enum UnicodeClass : uint16_t {
    kUnicodeUnassigned = 0x001,
    kUnicodeNumber = 0x002,
    kUnicodeLetter = 0x004,
    kUnicodeSeparator = 0x008,
    kUnicodeMark = 0x010,
    kUnicodePunctuation = 0x020,
    kUnicodeSymbol = 0x040,
    kUnicodeControl = 0x080,
    kUnicodeSpace = 0x100
};

constexpr uint32_t kReplacement = 0xfffd;

// Class bits of a character up to 0x10ffff; 0 above.
uint16_t unicode_class(uint32_t character) noexcept;

// One character from text, of which `bytes` > 0 remain. Returns the bytes it takes. A byte that
// begins no whole sequence gives U+FFFD and takes 1; overlong forms and surrogates are decoded as
// they stand, because tokenizers do; a value above 0x10ffff gives U+FFFD.
uint32_t utf8_decode(const char* text, uint32_t bytes, uint32_t* character) noexcept;

// Writes 1 to 4 bytes and returns how many.
uint32_t utf8_encode(uint32_t character, char* out) noexcept;

// Bytes that a sequence takes, by its first byte alone; 1 for a byte that begins none.
inline uint32_t utf8_length(char first) noexcept
{
    const uint32_t byte = static_cast<uint8_t>(first);
    return byte < 0xc0 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}

}  // namespace aotx
