// Purpose:  the one matrix kernel of the text runtime: quantised weights times a batch of rows on
// the tensor cores, with the norm before it and the finish after it in the same launch.
// Owns:     nothing.
// Thread:   device code; 128 threads a block, one block for 16 weight rows and 8 * columns8 tokens.
// Lifetime: one launch.
//
// Quants enter the product as whole numbers, which halves hold exactly, and scales are applied to
// the sums of a group in 32 bits. An input enters as a half and a second half for what the first
// lost. So the result stays close to a 32-bit computation, and the order in which a row is summed
// depends on nothing but its length: a token gets the same bits alone, in company, in any chunk.
#pragma once

#include "port.h"
#include "text_args.h"

namespace aotx {

constexpr uint32_t kMatmulThreads = 128;
constexpr uint32_t kMatmulWarps = 4;

// The words of one tile that a lane holds.
template <uint32_t kind>
struct TileWords {
    static constexpr WeightTraits traits = weight_traits(kind);
    static constexpr uint32_t low_bits = traits.bits == 3 || traits.bits == 2 ? 2u
                                         : traits.bits < 8                    ? 4u
                                                                              : traits.bits;
    static constexpr uint32_t high_bits = traits.bits - low_bits;
    uint32_t low[low_bits];
    uint32_t high[high_bits == 0 ? 1 : high_bits];
    uint32_t scale[traits.scale == kScaleNone ? 1 : traits.scale == kScaleSuper16 ? 6 : 4];
};

__device__ __forceinline__ void tile_load16(uint32_t* words, const uint8_t* source)
{
    const uint4 loaded = cu_load16(source);
    words[0] = loaded.x;
    words[1] = loaded.y;
    words[2] = loaded.z;
    words[3] = loaded.w;
}

__device__ __forceinline__ void tile_load8(uint32_t* words, const uint8_t* source)
{
    const uint2 loaded = cu_load8(source);
    words[0] = loaded.x;
    words[1] = loaded.y;
}

template <uint32_t kind>
__device__ __forceinline__ void tile_load(TileWords<kind>* words, const uint8_t* tile,
                                          uint32_t lane)
{
    using Words = TileWords<kind>;
    constexpr uint32_t low_bits = Words::low_bits;
    if constexpr (low_bits == 2) {
        tile_load8(words->low, tile + lane * 8u);
    } else {
        CU_UNROLL
        for (uint32_t plane = 0; plane < low_bits / 4u; plane++) {
            tile_load16(words->low + plane * 4u, tile + plane * 512u + lane * 16u);
        }
    }
    const uint8_t* const high = tile + weight_quant_bytes(low_bits);
    if constexpr (Words::high_bits == 1) {
        words->high[0] = *reinterpret_cast<const uint32_t*>(high + lane * 4u);
    } else if constexpr (Words::high_bits == 2) {
        tile_load8(words->high, high + lane * 8u);
    }
    const uint8_t* const scales = tile + weight_quant_bytes(Words::traits.bits);
    if constexpr (Words::traits.scale != kScaleNone) {
        tile_load16(words->scale, scales + lane / 4u * 16u);
    }
    if constexpr (Words::traits.scale == kScaleSuper16) {
        tile_load8(words->scale + 4, scales + 128u + lane / 4u * 8u);
    }
}

// Register r of step s as two halves (or two bfloats for a bfloat matrix). part 1: the rest of F32.
template <uint32_t kind>
__device__ __forceinline__ uint32_t tile_register(const TileWords<kind>& words, uint32_t s,
                                                  uint32_t r, uint32_t part)
{
    using Words = TileWords<kind>;
    if constexpr (Words::traits.bits >= 16) {
        return words.low[part * 16u + s * 4u + r];
    } else {
        uint32_t value;
        if constexpr (Words::low_bits == 8) {
            value = words.low[s / 2u * 4u + 2u * (s % 2u) + r / 2u] >> (8u * (r % 2u)) & 0xff00ffu;
        } else if constexpr (Words::low_bits == 4) {
            value = words.low[s] >> (4u * r) & 0xf000fu;
        } else {
            value = words.low[s / 2u] >> (2u * (4u * (s % 2u) + r)) & 0x30003u;
        }
        if constexpr (Words::high_bits == 1) {
            value |= (words.high[0] >> (4u * s + r) & 0x10001u) << Words::low_bits;
        } else if constexpr (Words::high_bits == 2) {
            value |= (words.high[s / 2u] >> (2u * (4u * (s % 2u) + r)) & 0x30003u)
                     << Words::low_bits;
        }
        // 0x6400 is 1024 as a half, so the lowest ten bits count from there.
        constexpr uint32_t zero = 0x6400u + Words::traits.zero;
        return cu_half2_sub(value | 0x64006400u, zero | zero << 16u);
    }
}

struct GroupScale {
    float scale[2];  // of rows g and g + 8
    float bias[2];
};

template <uint32_t kind>
__device__ __forceinline__ float tile_small_scale(uint32_t byte)
{
    if constexpr (TileWords<kind>::traits.bias) {
        return static_cast<float>(byte);
    } else {
        return static_cast<float>(static_cast<int8_t>(static_cast<uint8_t>(byte)));
    }
}

template <uint32_t kind>
__device__ __forceinline__ GroupScale tile_scale(const TileWords<kind>& words, uint32_t group)
{
    constexpr WeightScale form = TileWords<kind>::traits.scale;
    GroupScale result = {};
    CU_UNROLL
    for (uint32_t upper = 0; upper < 2; upper++) {
        const uint32_t both = form == kScaleBlock     ? words.scale[group * 2u + upper]
                              : form == kScaleSuper32 ? words.scale[2u + upper]
                                                      : words.scale[4u + upper];
        const float d = cu_half_to_float(static_cast<uint16_t>(both));
        const float m = cu_half_to_float(static_cast<uint16_t>(both >> 16u));
        if constexpr (form == kScaleBlock) {
            result.scale[upper] = d;
            result.bias[upper] = m;
        } else {
            const uint32_t small = words.scale[group] >> (16u * upper);
            result.scale[upper] = d * tile_small_scale<kind>(small & 255u);
            result.bias[upper] = -m * static_cast<float>(small >> 8u & 255u);
        }
    }
    return result;
}

// Staged input of one step and 8 tokens: per lane two registers and two of the rest.
struct StagedLane {
    uint32_t first[2];
    uint32_t rest[2];
};

template <uint32_t kind>
__device__ __forceinline__ void tile_product(float* sum, const uint32_t* a, const uint32_t* a_rest,
                                             const StagedLane& b)
{
    if constexpr (kind == kWeightBF16) {
        cu_mma_bf16(sum, a, b.first);
        cu_mma_bf16(sum, a, b.rest);
    } else {
        cu_mma_f16(sum, a, b.first);
        cu_mma_f16(sum, a, b.rest);
    }
    if constexpr (kind == kWeightF32) {
        cu_mma_f16(sum, a_rest, b.first);
    }
}

// Add one tile's products to sum [columns8][4]. staged: of the tile's four steps; sums: of the
// inputs of each step and token, [4][columns8][8].
template <uint32_t kind, uint32_t columns8>
__device__ __forceinline__ void tile_accumulate(const TileWords<kind>& words,
                                                const StagedLane* staged, const float* sums,
                                                uint32_t lane, float (*sum)[4])
{
    constexpr WeightTraits traits = TileWords<kind>::traits;
    constexpr uint32_t steps = traits.group == 0 ? 4u : traits.group / 16u;
    CU_UNROLL
    for (uint32_t group = 0; group < 4u / steps; group++) {
        float part[columns8][4] = {};
        CU_UNROLL
        for (uint32_t step = 0; step < steps; step++) {
            const uint32_t s = group * steps + step;
            uint32_t a[4];
            uint32_t a_rest[4] = {};
            CU_UNROLL
            for (uint32_t r = 0; r < 4; r++) {
                a[r] = tile_register<kind>(words, s, r, 0);
                if constexpr (kind == kWeightF32) {
                    a_rest[r] = tile_register<kind>(words, s, r, 1);
                }
            }
            CU_UNROLL
            for (uint32_t n = 0; n < columns8; n++) {
                tile_product<kind>(part[n], a, a_rest, staged[(s * columns8 + n) * 32u + lane]);
            }
        }
        GroupScale scale = {{1.0f, 1.0f}, {0.0f, 0.0f}};
        if constexpr (traits.scale != kScaleNone) {
            scale = tile_scale<kind>(words, group);
        }
        CU_UNROLL
        for (uint32_t n = 0; n < columns8; n++) {
            CU_UNROLL
            for (uint32_t i = 0; i < 4; i++) {
                sum[n][i] = fmaf(scale.scale[i / 2u], part[n][i], sum[n][i]);
                if constexpr (traits.bias) {
                    const uint32_t column = lane % 4u * 2u + i % 2u;
                    float input = 0.0f;
                    CU_UNROLL
                    for (uint32_t step = 0; step < steps; step++) {
                        const uint32_t s = group * steps + step;
                        input += sums[(s * columns8 + n) * 8u + column];
                    }
                    sum[n][i] = fmaf(scale.bias[i / 2u], input, sum[n][i]);
                }
            }
        }
    }
}

__device__ __forceinline__ uint32_t matmul_input_row(const MatmulArgs& args, uint32_t n)
{
    return args.input_map == nullptr ? n : args.input_map[n];
}

// 1 / RMS of every token of the block, one warp a token.
template <uint32_t tokens>
__device__ __forceinline__ void matmul_norms(const MatmulArgs& args, uint32_t first, uint32_t count,
                                             float* norms)
{
    const uint32_t lane = threadIdx.x % 32u;
    for (uint32_t n = threadIdx.x / 32u; n < tokens; n += kMatmulWarps) {
        float sum = 0.0f;
        if (args.norm != nullptr && first + n < count) {
            const float* const row =
                args.input + uint64_t{matmul_input_row(args, first + n)} * args.input_stride;
            for (uint32_t k = lane; k < args.weight.columns; k += 32u) {
                sum = fmaf(row[k], row[k], sum);
            }
        }
        CU_UNROLL
        for (int step = 16; step > 0; step /= 2) {
            sum += __shfl_xor_sync(0xffffffffu, sum, step);
        }
        if (lane == 0) {
            const float mean = sum / static_cast<float>(args.weight.columns);
            norms[n] = args.norm == nullptr ? 1.0f : 1.0f / sqrtf(mean + args.epsilon);
        }
    }
}

template <uint32_t kind>
__device__ __forceinline__ uint32_t stage_pair(float low, float high)
{
    if constexpr (kind == kWeightBF16) {
        return cu_float_to_bfloat(low) | static_cast<uint32_t>(cu_float_to_bfloat(high)) << 16u;
    } else {
        return cu_float_to_half(low) | static_cast<uint32_t>(cu_float_to_half(high)) << 16u;
    }
}

template <uint32_t kind>
__device__ __forceinline__ float stage_back(uint32_t pair, uint32_t shift)
{
    const uint16_t bits = static_cast<uint16_t>(pair >> shift);
    if constexpr (kind == kWeightBF16) {
        return cu_bfloat_to_float(bits);
    } else {
        return cu_half_to_float(bits);
    }
}

// Halves end at 65504; a larger input would become infinite where 32 bits hold it.
__device__ __forceinline__ float stage_bound(float value)
{
    return fminf(fmaxf(value, -65504.0f), 65504.0f);
}

// Bring kSteps steps of 16 columns into shared memory in the lanes' order.
template <uint32_t kind, uint32_t columns8, uint32_t steps>
__device__ __forceinline__ void matmul_stage(const MatmulArgs& args, uint32_t first, uint32_t count,
                                             uint32_t column, const float* norms,
                                             StagedLane* staged, float* sums)
{
    for (uint32_t item = threadIdx.x; item < steps * columns8 * 32u; item += kMatmulThreads) {
        const uint32_t lane = item % 32u;
        const uint32_t n = item / 32u % columns8 * 8u + lane / 4u;
        const uint32_t k = column + item / 32u / columns8 * 16u + lane % 4u * 2u;
        float value[4] = {};
        if (first + n < count) {
            const float* const row =
                args.input + uint64_t{matmul_input_row(args, first + n)} * args.input_stride;
            CU_UNROLL
            for (uint32_t i = 0; i < 4; i++) {
                const uint32_t at = k + i % 2u + i / 2u * 8u;
                if (at < args.weight.columns) {
                    const float weight = args.norm == nullptr ? 1.0f : args.norm[at];
                    value[i] = stage_bound(row[at] * norms[n] * weight);
                }
            }
        }
        StagedLane lane_words;
        CU_UNROLL
        for (uint32_t i = 0; i < 2; i++) {
            const uint32_t pair = stage_pair<kind>(value[i * 2u], value[i * 2u + 1u]);
            lane_words.first[i] = pair;
            lane_words.rest[i] = stage_pair<kind>(value[i * 2u] - stage_back<kind>(pair, 0),
                                                  value[i * 2u + 1u] - stage_back<kind>(pair, 16));
        }
        staged[item] = lane_words;
        if constexpr (TileWords<kind>::traits.bias) {
            float sum = value[0] + value[1] + (value[2] + value[3]);
            sum += __shfl_xor_sync(0xffffffffu, sum, 1);
            sum += __shfl_xor_sync(0xffffffffu, sum, 2);
            if (lane % 4u == 0) {
                sums[item / 4u] = sum;
            }
        }
    }
}

// What the four warps of the block summed, added in their order. [16 rows][tokens] a warp
template <uint32_t tokens>
__device__ __forceinline__ float matmul_value(const float* parts, uint32_t row, uint32_t n)
{
    float sum = parts[row * tokens + n];
    CU_UNROLL
    for (uint32_t warp = 1; warp < kMatmulWarps; warp++) {
        sum += parts[(warp * kTileRows + row) * tokens + n];
    }
    return sum;
}

__device__ __forceinline__ uint64_t kv_place(const KvView& kv, uint32_t layer, const TextRow& row,
                                             uint32_t head, uint32_t value)
{
    const uint32_t page = static_cast<uint32_t>(
        kv.page_table[row.sequence * kv.sequence_pages + row.position / kKvPageTokens]);
    const uint64_t block =
        ((uint64_t{layer} * kv.pages_count + page) * kv.kv_heads + head) * 2u + value;
    return (block * kKvPageTokens + row.position % kKvPageTokens) * kv.head_size;
}

// Rotate a pair of query or key rows, and put it where it belongs.
__device__ __forceinline__ void finish_qkv(const MatmulArgs& args, uint32_t n, uint32_t row,
                                           float even, float odd)
{
    const TextRow info = args.rows[n];
    const uint32_t head_size = args.kv.head_size;
    const uint32_t query_rows = args.query_heads * head_size;
    const uint32_t key_rows = args.kv.kv_heads * head_size;
    const uint32_t at = row % head_size;
    if (args.bias != nullptr) {
        even += args.bias[row];
        odd += args.bias[row + 1u];
    }
    if (row < query_rows + key_rows && at < args.rope_size) {
        const float* const turn =
            args.turns + (uint64_t{info.position} * (args.rope_size / 2u) + at / 2u) * 2u;
        const float turned = even * turn[0] - odd * turn[1];
        odd = even * turn[1] + odd * turn[0];
        even = turned;
    }
    if (row < query_rows) {
        float* const query = args.output + uint64_t{n} * args.output_stride + row;
        query[0] = even * args.query_scale;
        query[1] = odd * args.query_scale;
        return;
    }
    const uint32_t inside = row - query_rows;
    const uint32_t value = inside >= key_rows ? 1u : 0u;
    const uint32_t head = (inside - value * key_rows) / head_size;
    uint16_t* const cell = args.kv.pages + kv_place(args.kv, args.layer, info, head, value) + at;
    cell[0] = cu_float_to_half(even);
    cell[1] = cu_float_to_half(odd);
}

__device__ __forceinline__ float finish_silu(float gate)
{
    return gate / (1.0f + cu_exp(-gate));
}

__device__ __forceinline__ void finish_row(uint32_t finish, float value, float* place)
{
    if (finish == kFinishStore) {
        *place = value;
    } else {
        *place = finish == kFinishAdd ? *place + value : finish_silu(*place) * value;
    }
}

template <uint32_t tokens>
__device__ __forceinline__ void matmul_finish(const MatmulArgs& args, uint32_t first,
                                              uint32_t count, const float* parts)
{
    const uint32_t tile = blockIdx.x;
    const uint32_t wide = args.finish <= kFinishUp ? 16u : 8u;
    for (uint32_t item = threadIdx.x; item < wide * tokens; item += kMatmulThreads) {
        const uint32_t n = item / wide;
        const uint32_t row = item % wide;
        if (first + n >= count) {
            continue;
        }
        float* const line = args.output + uint64_t{first + n} * args.output_stride;
        if (args.finish <= kFinishUp) {
            const uint32_t at = tile * kTileRows + row;
            if (at < args.weight.rows) {
                finish_row(args.finish, matmul_value<tokens>(parts, row, n), &line[at]);
            }
        } else if (args.finish == kFinishGate) {
            const uint32_t at = tile * 8u + row;
            if (at < args.weight.rows / 2u) {
                const float gate = matmul_value<tokens>(parts, row, n);
                const float up = matmul_value<tokens>(parts, row + 8u, n);
                line[at] = finish_silu(gate) * up;
            }
        } else {
            const uint32_t at = tile * kTileRows + row * 2u;
            if (at < args.weight.rows) {
                finish_qkv(args, first + n, args.row_offset + at,
                           matmul_value<tokens>(parts, row * 2u, n),
                           matmul_value<tokens>(parts, row * 2u + 1u, n));
            }
        }
    }
}

template <uint32_t kind, uint32_t columns8>
__global__ void __launch_bounds__(kMatmulThreads, columns8 == 1 ? 4 : 3)
    matmul(CU_GRID_CONSTANT const MatmulArgs args)
{
    constexpr uint32_t tokens = columns8 * 8u;
    constexpr uint32_t chunk = columns8 == 1 ? 8u : 4u;  // tiles staged together
    const uint32_t count = *args.count;
    const uint32_t first = blockIdx.y * tokens;
    if (first >= count) {
        return;
    }
    CU_SHARED(StagedLane, staged, chunk * 4u * columns8 * 32u);
    CU_SHARED(float, sums, chunk * 4u * tokens);
    CU_SHARED(float, norms, tokens);
    CU_SHARED(float, parts, kMatmulWarps* kTileRows* tokens);
    const uint32_t lane = threadIdx.x % 32u;
    const uint32_t warp = threadIdx.x / 32u;
    const uint32_t tiles = weight_tiles(args.weight.columns, kTileColumns);
    constexpr uint32_t tile_bytes = weight_tile_bytes(kind);
    const uint8_t* const line = args.weight.tiles + uint64_t{blockIdx.x} * tiles * tile_bytes;
    float sum[columns8][4] = {};
    TileWords<kind> next = {};
    if (warp < tiles) {
        tile_load<kind>(&next, line + uint64_t{warp} * tile_bytes, lane);
    }
    matmul_norms<tokens>(args, first, count, norms);
    for (uint32_t base = 0; base < tiles; base += chunk) {
        __syncthreads();
        matmul_stage<kind, columns8, chunk * 4u>(args, first, count, base * kTileColumns, norms,
                                                 staged, sums);
        __syncthreads();
        for (uint32_t tile = warp; tile < chunk && base + tile < tiles; tile += kMatmulWarps) {
            const TileWords<kind> words = next;
            const uint32_t following = base + tile + kMatmulWarps;
            if (following < tiles) {
                tile_load<kind>(&next, line + uint64_t{following} * tile_bytes, lane);
            }
            tile_accumulate<kind, columns8>(words, staged + tile * 4u * columns8 * 32u,
                                            sums + tile * 4u * tokens, lane, sum);
        }
    }
    CU_UNROLL
    for (uint32_t n = 0; n < columns8; n++) {
        CU_UNROLL
        for (uint32_t i = 0; i < 4; i++) {
            const uint32_t row = lane / 4u + i / 2u * 8u;
            parts[(warp * kTileRows + row) * tokens + n * 8u + lane % 4u * 2u + i % 2u] = sum[n][i];
        }
    }
    __syncthreads();
    matmul_finish<tokens>(args, first, count, parts);
}

}  // namespace aotx
