// Purpose:  turn bytes that arrive in any cut into valid UTF-8 text.
// Owns:     nothing.
// Thread:   any, one state each.
// Lifetime: a Utf8State lives as long as its stream.
//
// What is no UTF-8 becomes U+FFFD, one for each maximal piece of a broken sequence, so that the
// joined text is the same however the bytes were cut.
#pragma once

#include <cstddef>
#include <cstdint>

#include "text.h"

namespace aotx {

struct Utf8State {
    uint8_t bytes[4] = {};  // of a sequence that is not complete
    uint8_t held = 0;
    uint8_t need = 0;       // of the whole sequence
    uint8_t lowest = 0x80;  // range of the next byte
    uint8_t highest = 0xbf;
};

// Append the text of the next bytes to *text; up to three bytes stay in the state.
void utf8_step(Utf8State* state, const uint8_t* bytes, size_t bytes_count, Text* text) noexcept;

// The stream has ended: a sequence that stayed incomplete becomes one U+FFFD. Leaves a fresh state.
void utf8_end(Utf8State* state, Text* text) noexcept;

}  // namespace aotx
