// Purpose:  take the chunked transfer coding off a request body; see http_chunk.h.
// Owns:     nothing.
// Thread:   any.
// Lifetime: not applicable.
#include "http_chunk.h"

#include <algorithm>
#include <cstring>

namespace aotx {
namespace {

constexpr uint8_t kSizeDigitsMax = 8;

int hex_value(char digit)
{
    if (digit >= '0' && digit <= '9') {
        return digit - '0';
    }
    if (digit >= 'a' && digit <= 'f') {
        return digit - 'a' + 10;
    }
    return digit >= 'A' && digit <= 'F' ? digit - 'A' + 10 : -1;
}

bool size_digit_take(ChunkState* state, char byte)
{
    const int value = hex_value(byte);
    if (value >= 0 && state->digits < kSizeDigitsMax) {
        state->left_bytes = state->left_bytes * 16 + static_cast<uint64_t>(value);
        state->digits++;
        return true;
    }
    if (byte == '\r' && state->digits != 0) {
        state->step = ChunkStep::SizeFeed;
        return true;
    }
    return false;
}

// One byte of framing. False: it does not belong there.
bool framing_take(ChunkState* state, char byte)
{
    switch (state->step) {
        case ChunkStep::Size:
            return size_digit_take(state, byte);
        case ChunkStep::SizeFeed:
            state->step = state->left_bytes == 0 ? ChunkStep::EndReturn : ChunkStep::Data;
            return byte == '\n';
        case ChunkStep::DataReturn:
            state->step = ChunkStep::DataFeed;
            return byte == '\r';
        case ChunkStep::DataFeed:
            state->step = ChunkStep::Size;
            state->digits = 0;
            return byte == '\n';
        case ChunkStep::EndReturn:
            state->step = ChunkStep::EndFeed;
            return byte == '\r';
        case ChunkStep::EndFeed:
            return byte == '\n';
        case ChunkStep::Data:
            break;
    }
    return false;
}

}  // namespace

int chunk_decode(ChunkState* state, const char* input, size_t input_bytes, char* output,
                 size_t output_bytes, size_t* consumed, size_t* produced) noexcept
{
    size_t read = 0;
    size_t written = 0;
    int result = AOTX_ERR_NEED_MORE;
    while (read < input_bytes && result == AOTX_ERR_NEED_MORE) {
        if (state->step == ChunkStep::Data) {
            const size_t room = output_bytes - written;
            const size_t there = std::min<size_t>(input_bytes - read, state->left_bytes);
            const size_t take = std::min(room, there);
            std::memmove(output + written, input + read, take);
            read += take;
            written += take;
            state->left_bytes -= take;
            if (state->left_bytes == 0) {
                state->step = ChunkStep::DataReturn;
            } else if (take == room) {
                result = AOTX_ERR_FULL;
            }
            continue;
        }
        const bool last = state->step == ChunkStep::EndFeed;
        if (!framing_take(state, input[read])) {
            result = AOTX_ERR_SYNTAX;
            continue;
        }
        read++;
        result = last ? AOTX_OK : AOTX_ERR_NEED_MORE;
    }
    *consumed = read;
    *produced = written;
    return result;
}

}  // namespace aotx
