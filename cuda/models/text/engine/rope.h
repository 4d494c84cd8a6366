// Purpose:  the turns of rotary positions, made once at open.
// Owns:     nothing.
// Thread:   any.
// Lifetime: load time.
#pragma once

#include <cstdint>

#include "engine/model_source.h"

namespace aotx {

// Cosine and sine of every position and pair. factors: null, or what divides the frequencies,
// [rotated / 2]. table: out, f32 [positions][rotated / 2][cosine, sine].
void rope_fill(const ModelShape& shape, const float* factors, uint32_t positions,
               float* table) noexcept;

}  // namespace aotx
