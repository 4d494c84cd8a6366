// Purpose:  how weight matrices lie in device memory: tiles of 16 rows and 64 columns in the
// order in which the lanes of a warp feed them to the tensor cores, still quantised.
// Owns:     nothing; a WeightView borrows device memory.
// Thread:   not applicable.
// Lifetime: not applicable.
//
// A weight is scale * (q - zero) + bias, with one scale and bias for 32 or 16 columns of a row. A
// tile holds first the quants, 128 bytes a bit of width, then the scales. Lane l = 4 * g + t holds
// the elements (row g + 8 * (r & 1), column 16 * s + 2 * t + 8 * (r >> 1) + h) for step s in 0..3,
// register r in 0..3 and half h in 0..1: what m16n8k16 wants in register r of step s.
//   4-bit plane  16 bytes a lane: word s, bits 4 * r + 16 * h
//   8-bit plane  two of 16 bytes: plane s >> 1, word 2 * (s & 1) + (r >> 1), bits 8 * (r & 1) +
// 16 * h 2-bit plane   8 bytes a lane: word s >> 1, bits 2 * (4 * (s & 1) + r) + 16 * h
//   1-bit plane   4 bytes a lane: bits 4 * s + r + 16 * h
//   16-bit plane 64 bytes a lane: plane s, word r, bits 16 * h; F32 has a second one for the rest
// Scales of the pair (g, g + 8) lie together; see kScale*.
#pragma once

#include <cstdint>

#include "aotx/base.h"

namespace aotx {

// Values are those of the GGUF file's tensor types, so that no table stands between.
enum WeightKind : uint32_t {
    kWeightF32 = 0,
    kWeightF16 = 1,
    kWeightQ4_0 = 2,
    kWeightQ4_1 = 3,
    kWeightQ5_0 = 6,
    kWeightQ5_1 = 7,
    kWeightQ8_0 = 8,
    kWeightQ2K = 10,
    kWeightQ3K = 11,
    kWeightQ4K = 12,
    kWeightQ5K = 13,
    kWeightQ6K = 14,
    kWeightBF16 = 30
};

enum WeightScale : uint32_t {
    kScaleNone = 0,
    kScaleBlock = 1,  // per g four words {scale, bias} as halves: group 0 row g, g + 8, group 1 ...
    kScaleSuper32 = 2,  // per g {sc, m, sc, m} of group 0, of group 1, {d, dmin} of g, of g + 8
    kScaleSuper16 = 3   // per g {sc, m, sc, m} of groups 0..3; behind all g, per g two {d, dmin}
};

constexpr uint32_t kTileRows = 16;
constexpr uint32_t kTileColumns = 64;

struct WeightTraits {
    uint32_t bits;      // of one quant; 16 and 32 for floats
    uint32_t zero;      // subtracted from a quant
    uint32_t group;     // columns that share a scale
    WeightScale scale;  // how scales lie
    bool bias;          // bias is not zero
};

AOTX_HOST_DEVICE constexpr WeightTraits weight_traits(uint32_t kind)
{
    switch (kind) {
        case kWeightF32:
            return {32, 0, 0, kScaleNone, false};
        case kWeightF16:
        case kWeightBF16:
            return {16, 0, 0, kScaleNone, false};
        case kWeightQ4_0:
            return {4, 8, 32, kScaleBlock, false};
        case kWeightQ4_1:
            return {4, 0, 32, kScaleBlock, true};
        case kWeightQ5_0:
            return {5, 16, 32, kScaleBlock, false};
        case kWeightQ5_1:
            return {5, 0, 32, kScaleBlock, true};
        case kWeightQ8_0:
            return {8, 128, 32, kScaleBlock, false};
        case kWeightQ2K:
            return {2, 0, 16, kScaleSuper16, true};
        case kWeightQ3K:
            return {3, 4, 16, kScaleSuper16, false};
        case kWeightQ4K:
            return {4, 0, 32, kScaleSuper32, true};
        case kWeightQ5K:
            return {5, 0, 32, kScaleSuper32, true};
        case kWeightQ6K:
            return {6, 32, 16, kScaleSuper16, false};
        default:
            return {0, 0, 0, kScaleNone, false};
    }
}

AOTX_HOST_DEVICE constexpr uint32_t weight_quant_bytes(uint32_t bits)
{
    return 128u * bits;
}

AOTX_HOST_DEVICE constexpr uint32_t weight_tile_bytes(uint32_t kind)
{
    const WeightTraits traits = weight_traits(kind);
    const uint32_t scale_bytes = traits.scale == kScaleNone      ? 0u
                                 : traits.scale == kScaleSuper16 ? 192u
                                                                 : 128u;
    return weight_quant_bytes(traits.bits) + scale_bytes;
}

AOTX_HOST_DEVICE constexpr uint32_t weight_tiles(uint32_t count, uint32_t tile)
{
    return (count + tile - 1u) / tile;
}

// A packed matrix in device memory: [row tiles][column tiles] tiles, aligned to 256 bytes.
struct WeightView {
    const uint8_t* tiles;
    uint32_t kind;
    uint32_t rows;
    uint32_t columns;
    uint32_t zero_20;
};

}  // namespace aotx
