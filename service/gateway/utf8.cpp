// Purpose:  turn bytes that arrive in any cut into valid UTF-8 text; see utf8.h.
// Owns:     nothing.
// Thread:   any, one state each.
// Lifetime: not applicable.
#include "utf8.h"

#include <string_view>

#include "service/base/check.h"

namespace aotx {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

// Begin a sequence of two to four bytes. False: no sequence begins with this byte.
bool lead_take(Utf8State* state, uint8_t byte)
{
    state->lowest = 0x80;
    state->highest = 0xbf;
    if (byte >= 0xc2 && byte <= 0xdf) {
        state->need = 2;
    } else if (byte >= 0xe0 && byte <= 0xef) {
        state->need = 3;
        state->lowest = byte == 0xe0 ? 0xa0 : 0x80;   // no overlong form
        state->highest = byte == 0xed ? 0x9f : 0xbf;  // no surrogate
    } else if (byte >= 0xf0 && byte <= 0xf4) {
        state->need = 4;
        state->lowest = byte == 0xf0 ? 0x90 : 0x80;
        state->highest = byte == 0xf4 ? 0x8f : 0xbf;  // nothing above U+10FFFF
    } else {
        return false;
    }
    state->bytes[0] = byte;
    state->held = 1;
    return true;
}

}  // namespace

void utf8_step(Utf8State* state, const uint8_t* bytes, size_t bytes_count, Text* text) noexcept
{
    size_t at = 0;
    while (at < bytes_count) {
        AOTX_CHECK(state->held < sizeof state->bytes);
        const uint8_t byte = bytes[at];
        if (state->held != 0) {
            if (byte < state->lowest || byte > state->highest) {
                utf8_end(state, text);
                continue;  // the byte is judged again as the first of a sequence
            }
            state->bytes[state->held++] = byte;
            state->lowest = 0x80;
            state->highest = 0xbf;
            if (state->held == state->need) {
                text->append({reinterpret_cast<const char*>(state->bytes), state->held});
                *state = Utf8State();
            }
            at++;
            continue;
        }
        size_t plain = at;
        while (plain < bytes_count && bytes[plain] < 0x80) {
            plain++;
        }
        text->append({reinterpret_cast<const char*>(bytes + at), plain - at});
        at = plain;
        if (at < bytes_count) {
            if (!lead_take(state, bytes[at])) {
                text->append(kReplacement);
            }
            at++;
        }
    }
}

void utf8_end(Utf8State* state, Text* text) noexcept
{
    if (state->held != 0) {
        text->append(kReplacement);
    }
    *state = Utf8State();
}

}  // namespace aotx
