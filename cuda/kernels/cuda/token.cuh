// Purpose:  the beginning of a step: a token's embedding, out of a packed matrix.
// Owns:     nothing.
// Thread:   device code.
// Lifetime: one launch.
#pragma once

#include "port.h"
#include "text_args.h"

namespace aotx {

constexpr uint32_t kEmbedThreads = 128;

__device__ __forceinline__ uint32_t plane_bits(const uint8_t* plane, uint32_t word, uint32_t shift,
                                               uint32_t mask)
{
    return reinterpret_cast<const uint32_t*>(plane)[word] >> shift & mask;
}

// The quant at (row, column) of a tile, as weights.h lays it out.
__device__ __forceinline__ uint32_t tile_quant(const uint8_t* tile, uint32_t bits, uint32_t row,
                                               uint32_t column)
{
    const uint32_t inside = column % 16u;
    const uint32_t lane = row % 8u * 4u + inside % 8u / 2u;
    const uint32_t s = column / 16u;
    const uint32_t r = row / 8u + inside / 8u * 2u;
    const uint32_t h = inside % 2u * 16u;
    if (bits >= 16) {
        return plane_bits(tile, s * 128u + lane * 4u + r, h, 0xffffu);
    }
    if (bits == 8) {
        return plane_bits(tile, s / 2u * 128u + lane * 4u + 2u * (s % 2u) + r / 2u,
                          8u * (r % 2u) + h, 255u);
    }
    const uint32_t shift2 = 2u * (4u * (s % 2u) + r) + h;
    const uint32_t low_bits = bits < 4 ? 2u : 4u;
    const uint32_t low = low_bits == 4 ? plane_bits(tile, lane * 4u + s, 4u * r + h, 15u)
                                       : plane_bits(tile, lane * 2u + s / 2u, shift2, 3u);
    const uint8_t* const high = tile + weight_quant_bytes(low_bits);
    if (bits - low_bits == 1) {
        return low | plane_bits(high, lane, 4u * s + r + h, 1u) << low_bits;
    }
    if (bits - low_bits == 2) {
        return low | plane_bits(high, lane * 2u + s / 2u, shift2, 3u) << low_bits;
    }
    return low;
}

// Scale and bias of the group that holds (row, column).
__device__ __forceinline__ void tile_group(const uint8_t* scales, const WeightTraits& traits,
                                           uint32_t row, uint32_t column, float* scale, float* bias)
{
    const uint32_t g = row % 8u;
    const uint32_t upper = row / 8u;
    const uint32_t group = column / traits.group;
    const uint32_t word = traits.scale == kScaleBlock     ? g * 4u + group * 2u + upper
                          : traits.scale == kScaleSuper32 ? g * 4u + 2u + upper
                                                          : 32u + g * 2u + upper;
    const uint32_t both = reinterpret_cast<const uint32_t*>(scales)[word];
    const float d = cu_half_to_float(static_cast<uint16_t>(both));
    const float m = cu_half_to_float(static_cast<uint16_t>(both >> 16u));
    if (traits.scale == kScaleBlock) {
        *scale = d;
        *bias = m;
        return;
    }
    const uint8_t* const small = scales + g * 16u + group * 4u + upper * 2u;
    const float factor = traits.bias ? static_cast<float>(small[0])
                                     : static_cast<float>(static_cast<int8_t>(small[0]));
    *scale = d * factor;
    *bias = -m * static_cast<float>(small[1]);
}

// One weight of a packed matrix as the file means it. [not for hot loops]
__device__ __forceinline__ float weight_at(const WeightView& view, uint32_t row, uint32_t column)
{
    const WeightTraits traits = weight_traits(view.kind);
    const uint8_t* const tile =
        view.tiles + (uint64_t{row / kTileRows} * weight_tiles(view.columns, kTileColumns) +
                      column / kTileColumns) *
                         weight_tile_bytes(view.kind);
    const uint32_t inside_row = row % kTileRows;
    const uint32_t inside_column = column % kTileColumns;
    const uint32_t quant = tile_quant(tile, traits.bits, inside_row, inside_column);
    if (view.kind == kWeightBF16) {
        return cu_bfloat_to_float(static_cast<uint16_t>(quant));
    }
    if (traits.bits >= 16) {
        const float value = cu_half_to_float(static_cast<uint16_t>(quant));
        const uint32_t rest = traits.bits == 32 ? tile_quant(tile + weight_quant_bytes(16), 16,
                                                             inside_row, inside_column)
                                                : 0u;
        return value + cu_half_to_float(static_cast<uint16_t>(rest));
    }
    float scale = 0.0f;
    float bias = 0.0f;
    tile_group(tile + weight_quant_bytes(traits.bits), traits, inside_row, inside_column, &scale,
               &bias);
    const int32_t number = static_cast<int32_t>(quant) - static_cast<int32_t>(traits.zero);
    return fmaf(scale, static_cast<float>(number), bias);
}

__global__ void __launch_bounds__(kEmbedThreads) embed(CU_GRID_CONSTANT const EmbedArgs args)
{
    cu_begin();
    const uint32_t n = blockIdx.x;
    if (n >= *args.count) {
        return;
    }
    const uint32_t token = static_cast<uint32_t>(args.rows[n].token);
    for (uint32_t k = threadIdx.x; k < args.table.columns; k += kEmbedThreads) {
        args.output[uint64_t{n} * args.table.columns + k] =
            weight_at(args.table, token, k) * args.scale;
    }
}

}  // namespace aotx
