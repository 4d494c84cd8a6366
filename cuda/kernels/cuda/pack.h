// Purpose:  bring rows of a GGUF tensor into the tile order of weights.h. Lossless: quants and
// scales are moved, not computed anew.
// Owns:     nothing.
// Thread:   any; rows of one tile on one thread.
// Lifetime: model load, before the seal.
#pragma once

#include <cstddef>

#include "weights.h"

namespace aotx {

// Columns of one block of the file's format, and its bytes. 0 for a kind that is not known.
uint32_t weight_block_columns(uint32_t kind) noexcept;
uint32_t weight_block_bytes(uint32_t kind) noexcept;

// Bytes of a packed matrix; 0 when the kind is unknown or columns do not fill whole blocks.
uint64_t weight_packed_bytes(uint32_t kind, uint32_t rows, uint32_t columns) noexcept;

// Put one row into its place. source: the row as the file holds it, columns / block_columns blocks.
// tiles: weight_packed_bytes, zero before the first row. False: a float weight does not fit the
// device's 16-bit floats, or the kind is unknown; nothing else fails.
[[nodiscard]] bool weight_pack_row(uint32_t kind, uint32_t columns, uint32_t row,
                                   const uint8_t* source, uint8_t* tiles) noexcept;

}  // namespace aotx
