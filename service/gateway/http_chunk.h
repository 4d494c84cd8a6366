// Purpose:  take the chunked transfer coding off a request body, strictly, however it is cut.
// Owns:     nothing.
// Thread:   any.
// Lifetime: a ChunkState lives as long as the body that it reads.
//
// Chunk extensions and trailers are refused: no client of this service needs them, and they are
// where parsers disagree.
#pragma once

#include <cstddef>
#include <cstdint>

#include "aotx/status.h"

namespace aotx {

enum class ChunkStep : uint8_t { Size, SizeFeed, Data, DataReturn, DataFeed, EndReturn, EndFeed };

struct ChunkState {
    ChunkStep step = ChunkStep::Size;
    uint8_t digits = 0;       // of the size being read, at most 8
    uint64_t left_bytes = 0;  // of the chunk being read
};

// Decode as much as there is.
//
// input     in   char [input_bytes]
// output    out  char [output_bytes]; may be the input itself, as the writer never passes the
//                reader
// consumed, produced  out  written on every result
//
// AOTX_OK             the body is complete; what follows the consumed bytes is the next request.
// AOTX_ERR_NEED_MORE  all input was consumed and the body goes on.
// AOTX_ERR_FULL       the output is full and the body goes on.
// AOTX_ERR_SYNTAX     not a chunked body; the connection must close.
[[nodiscard]] int chunk_decode(ChunkState* state, const char* input, size_t input_bytes,
                               char* output, size_t output_bytes, size_t* consumed,
                               size_t* produced) noexcept;

}  // namespace aotx
