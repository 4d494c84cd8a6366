// Purpose:  the one matrix kernel of the text runtime: quantised weights times a batch of rows on
// the tensor cores, with the norm before it and the finish after it in the same launch.
// Owns:     nothing.
// Thread:   device code; one block for 16 weight rows and 8 * columns8 tokens: 256 threads where
// that is 8, so that enough weights are on their way to fill the memory's width, else 128.
// Lifetime: one launch.
//
// Quants enter the product as whole numbers, which halves hold exactly, and scales are applied to
// the sums of a group in 32 bits. An input enters as a half and a second half for what the first
// lost. So the result stays close to a 32-bit computation. A row is summed in eight chains, tile i
// in chain i % 8, and the chains in their order, whatever the block's width: a token gets the same
// bits alone, in company, in any chunk.
#pragma once

#include "port.h"
#include "text_args.h"

namespace aotx {

constexpr uint32_t kMatmulChains = 8;

// Warps and threads of a block for 8 * columns8 tokens, and the lanes that it stages at a time.
AOTX_HOST_DEVICE constexpr uint32_t matmul_warps(uint32_t columns8)
{
    return columns8 == 1 ? 8u : 4u;
}
AOTX_HOST_DEVICE constexpr uint32_t matmul_threads(uint32_t columns8)
{
    return matmul_warps(columns8) * 32u;
}
AOTX_HOST_DEVICE constexpr uint32_t matmul_staged(uint32_t columns8)
{
    return columns8 == 1 ? 1024u : 2048u;
}

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

// Staged input of one step, one token and a quarter of its 16 columns: two registers and two of the
// rest. Tokens that the block does not have are not staged; their lanes read another's.
struct StagedLane {
    uint32_t first[2];
    uint32_t rest[2];
};

// Where the lanes of a block find what is staged: [steps][live][4] lanes and [steps][live] sums.
template <uint32_t columns8>
struct StagedView {
    const StagedLane* lanes;
    const float* sums;
    uint32_t live;                       // tokens that the block has
    uint32_t place[columns8];            // of this lane's tokens among the lanes of a step
    uint32_t sums_place[columns8 * 2u];  // of the tokens that this lane's results belong to
};

template <uint32_t columns8>
__device__ __forceinline__ StagedView<columns8> staged_view(const StagedLane* lanes,
                                                            const float* sums, uint32_t live)
{
    const uint32_t lane = threadIdx.x % 32u;
    StagedView<columns8> view;
    view.lanes = lanes;
    view.sums = sums;
    view.live = live;
    CU_UNROLL
    for (uint32_t n = 0; n < columns8; n++) {
        const uint32_t token = n * 8u + lane / 4u;
        view.place[n] = (token < live ? token : live - 1u) * 4u + lane % 4u;
        CU_UNROLL
        for (uint32_t i = 0; i < 2; i++) {
            const uint32_t column = n * 8u + lane % 4u * 2u + i;
            view.sums_place[n * 2u + i] = column < live ? column : live - 1u;
        }
    }
    return view;
}

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

// Add one tile's products to sum [columns8][4]. first_step: of the tile among those staged.
template <uint32_t kind, uint32_t columns8>
__device__ __forceinline__ void tile_accumulate(const TileWords<kind>& words,
                                                const StagedView<columns8>& staged,
                                                uint32_t first_step, float (*sum)[4])
{
    constexpr WeightTraits traits = TileWords<kind>::traits;
    constexpr uint32_t steps = traits.group == 0 ? 4u : traits.group / 16u;
    CU_UNROLL
    for (uint32_t group = 0; group < 4u / steps; group++) {
        float part[columns8][4] = {};
        CU_UNROLL
        for (uint32_t step = 0; step < steps; step++) {
            const uint32_t s = group * steps + step;
            const StagedLane* const lanes = staged.lanes + (first_step + s) * staged.live * 4u;
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
                tile_product<kind>(part[n], a, a_rest, lanes[staged.place[n]]);
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
                    const uint32_t place = staged.sums_place[n * 2u + i % 2u];
                    float input = 0.0f;
                    CU_UNROLL
                    for (uint32_t step = 0; step < steps; step++) {
                        const uint32_t s = first_step + group * steps + step;
                        input += staged.sums[s * staged.live + place];
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

__device__ __forceinline__ float norm_square(uint32_t bits, float sum)
{
    const float value = cu_bits_to_float(bits);
    return fmaf(value, value, sum);
}

// Sum of squares of a row, this lane's part. How it is read depends on the matrix alone.
__device__ __forceinline__ float norm_part(const MatmulArgs& args, const float* row, uint32_t lane)
{
    float sum = 0.0f;
    if (args.weight.columns % 4u == 0 && args.input_stride % 4u == 0) {
        for (uint32_t k = lane * 4u; k < args.weight.columns; k += 128u) {
            const uint4 four = cu_read16(row + k);
            sum = norm_square(four.w,
                              norm_square(four.z, norm_square(four.y, norm_square(four.x, sum))));
        }
        return sum;
    }
    for (uint32_t k = lane; k < args.weight.columns; k += 32u) {
        sum = fmaf(row[k], row[k], sum);
    }
    return sum;
}

// 1 / RMS of the block's tokens, one warp a token.
template <uint32_t columns8>
__device__ __forceinline__ void matmul_norms(const MatmulArgs& args, uint32_t first, uint32_t live,
                                             float* norms)
{
    const uint32_t lane = threadIdx.x % 32u;
    for (uint32_t n = threadIdx.x / 32u; n < live; n += matmul_warps(columns8)) {
        float sum = 0.0f;
        if (args.norm != nullptr) {
            sum = norm_part(
                args, args.input + uint64_t{matmul_input_row(args, first + n)} * args.input_stride,
                lane);
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

// Halves end at 65504, and a larger input, an infinite one too, counts as that: as a half it would
// be infinite, and what it lost no number. Bfloats reach as far as 32 bits. What is no number stays
// so, which is why this is not written with fminf and fmaxf.
template <uint32_t kind>
__device__ __forceinline__ float stage_bound(float value)
{
    if constexpr (kind == kWeightBF16) {
        return value;
    } else {
        const float low = value < -65504.0f ? -65504.0f : value;
        return low > 65504.0f ? 65504.0f : low;
    }
}

// One lane of one token and step. sum: of its inputs.
template <uint32_t kind>
__device__ __forceinline__ StagedLane stage_lane(const MatmulArgs& args, const float* row,
                                                 uint32_t k, float norm, float* sum)
{
    float value[4] = {};
    CU_UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t at = k + i % 2u + i / 2u * 8u;
        if (at < args.weight.columns) {
            const float weight = args.norm == nullptr ? 1.0f : args.norm[at];
            value[i] = stage_bound<kind>(row[at] * norm * weight);
        }
    }
    StagedLane made;
    CU_UNROLL
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t pair = stage_pair<kind>(value[i * 2u], value[i * 2u + 1u]);
        made.first[i] = pair;
        made.rest[i] = stage_pair<kind>(value[i * 2u] - stage_back<kind>(pair, 0),
                                        value[i * 2u + 1u] - stage_back<kind>(pair, 16));
    }
    *sum = value[0] + value[1] + (value[2] + value[3]);
    return made;
}

// Bring `steps` steps of 16 columns into shared memory in the lanes' order. [all threads]
template <uint32_t kind, uint32_t columns8>
__device__ __forceinline__ void matmul_stage(const MatmulArgs& args, uint32_t first, uint32_t live,
                                             uint32_t column, uint32_t steps, const float* norms,
                                             StagedLane* staged, float* sums)
{
    const uint32_t items = steps * live * 4u;
    for (uint32_t base = 0; base < items; base += matmul_threads(columns8)) {
        const uint32_t item = base + threadIdx.x;
        const uint32_t n = item / 4u % live;
        float sum = 0.0f;
        if (item < items) {
            const uint32_t k = column + item / 4u / live * 16u + item % 4u * 2u;
            const float* const row =
                args.input + uint64_t{matmul_input_row(args, first + n)} * args.input_stride;
            staged[item] = stage_lane<kind>(args, row, k, norms[n], &sum);
        }
        if constexpr (TileWords<kind>::traits.bias) {
            sum += __shfl_xor_sync(0xffffffffu, sum, 1);
            sum += __shfl_xor_sync(0xffffffffu, sum, 2);
            if (item < items && item % 4u == 0) {
                sums[item / 4u] = sum;
            }
        }
    }
}

// What the chains of the block summed, added in their order. [16 rows][tokens] a chain
template <uint32_t tokens>
__device__ __forceinline__ float matmul_value(const float* parts, uint32_t row, uint32_t n)
{
    float sum = parts[row * tokens + n];
    CU_UNROLL
    for (uint32_t chain = 1; chain < kMatmulChains; chain++) {
        sum += parts[(chain * kTileRows + row) * tokens + n];
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

template <uint32_t columns8>
__device__ __forceinline__ void matmul_finish(const MatmulArgs& args, uint32_t first,
                                              uint32_t count, const float* parts)
{
    constexpr uint32_t tokens = columns8 * 8u;
    const uint32_t tile = blockIdx.x;
    const uint32_t wide = args.finish <= kFinishUp ? 16u : 8u;
    for (uint32_t item = threadIdx.x; item < wide * tokens; item += matmul_threads(columns8)) {
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

// The sums of a warp: of its one chain in a narrow block, of chains `warp` and `warp + 4` in a wide
// one. Tiles come to the two in turns, so the sums change places after each.
template <uint32_t columns8>
struct ChainSums {
    static constexpr uint32_t chains = kMatmulChains / matmul_warps(columns8);
    float sum[chains][columns8][4];

    __device__ __forceinline__ void turn()
    {
        if constexpr (chains == 2) {
            CU_UNROLL
            for (uint32_t n = 0; n < columns8; n++) {
                CU_UNROLL
                for (uint32_t i = 0; i < 4; i++) {
                    const float other = sum[1][n][i];
                    sum[1][n][i] = sum[0][n][i];
                    sum[0][n][i] = other;
                }
            }
        }
    }
};

// Write a warp's sums where matmul_value finds them. turned: the two have changed places.
template <uint32_t columns8>
__device__ __forceinline__ void matmul_parts(const ChainSums<columns8>& sums, uint32_t turned,
                                             float* parts)
{
    constexpr uint32_t tokens = columns8 * 8u;
    const uint32_t lane = threadIdx.x % 32u;
    const uint32_t warp = threadIdx.x / 32u;
    CU_UNROLL
    for (uint32_t c = 0; c < ChainSums<columns8>::chains; c++) {
        const uint32_t chain = warp + matmul_warps(columns8) * (c ^ turned);
        CU_UNROLL
        for (uint32_t n = 0; n < columns8; n++) {
            CU_UNROLL
            for (uint32_t i = 0; i < 4; i++) {
                const uint32_t row = lane / 4u + i / 2u * 8u;
                parts[(chain * kTileRows + row) * tokens + n * 8u + lane % 4u * 2u + i % 2u] =
                    sums.sum[c][n][i];
            }
        }
    }
}

template <uint32_t kind, uint32_t columns8>
__global__ void __launch_bounds__(matmul_threads(columns8), columns8 == 1 ? 2 : 3)
    matmul(CU_GRID_CONSTANT const MatmulArgs args)
{
    constexpr uint32_t tokens = columns8 * 8u;
    constexpr uint32_t warps = matmul_warps(columns8);
    constexpr uint32_t capacity = matmul_staged(columns8);
    const uint32_t first = blockIdx.y * tokens;
    CU_SHARED(StagedLane, staged, capacity);
    CU_SHARED(float, sums, capacity / 4u);
    CU_SHARED(float, norms, tokens);
    static_assert(kMatmulChains * kTileRows * tokens * sizeof(float) <=
                  capacity * sizeof(StagedLane));
    const uint32_t lane = threadIdx.x % 32u;
    const uint32_t warp = threadIdx.x / 32u;
    const uint32_t tiles = weight_tiles(args.weight.columns, kTileColumns);
    constexpr uint32_t tile_bytes = weight_tile_bytes(kind);
    const uint8_t* const line = args.weight.tiles + uint64_t{blockIdx.x} * tiles * tile_bytes;
    // Tiles that are on their way while one is multiplied, the first of them while the kernel
    // before still runs; many rows need no more than one. Blocks that may have no row load none.
    constexpr uint32_t ahead = columns8 == 1 ? 2u : 1u;
    TileWords<kind> next = {};
    TileWords<kind> later = {};
    if (blockIdx.y == 0 && warp < tiles) {
        tile_load<kind>(&next, line + uint64_t{warp} * tile_bytes, lane);
    }
    if (ahead == 2u && blockIdx.y == 0 && warp + warps < tiles) {
        tile_load<kind>(&later, line + uint64_t{warp + warps} * tile_bytes, lane);
    }
    cu_begin();
    const uint32_t count = *args.count;
    if (first >= count) {
        return;
    }
    const uint32_t live = count - first < tokens ? count - first : tokens;
    const uint32_t chunk = capacity / (16u * live) / warps * warps;  // tiles staged together
    if (blockIdx.y != 0 && warp < tiles) {
        tile_load<kind>(&next, line + uint64_t{warp} * tile_bytes, lane);
    }
    if (ahead == 2u && blockIdx.y != 0 && warp + warps < tiles) {
        tile_load<kind>(&later, line + uint64_t{warp + warps} * tile_bytes, lane);
    }
    ChainSums<columns8> chain = {};
    uint32_t turned = 0;
    const StagedView<columns8> view = staged_view<columns8>(staged, sums, live);
    matmul_norms<columns8>(args, first, live, norms);
    for (uint32_t base = 0; base < tiles; base += chunk) {
        const uint32_t here = tiles - base < chunk ? tiles - base : chunk;
        __syncthreads();
        matmul_stage<kind, columns8>(args, first, live, base * kTileColumns, here * 4u, norms,
                                     staged, sums);
        __syncthreads();
        for (uint32_t tile = warp; tile < here; tile += warps) {
            const TileWords<kind> words = next;
            if constexpr (columns8 == 1) {
                next = later;
            }
            const uint32_t following = base + tile + ahead * warps;
            if (following < tiles) {
                tile_load<kind>(columns8 == 1 ? &later : &next,
                                line + uint64_t{following} * tile_bytes, lane);
            }
            tile_accumulate<kind, columns8>(words, view, tile * 4u, chain.sum[0]);
            chain.turn();
            turned ^= ChainSums<columns8>::chains - 1u;
        }
    }
    __syncthreads();
    float* const parts = reinterpret_cast<float*>(staged);  // what was staged is used up
    matmul_parts<columns8>(chain, turned, parts);
    __syncthreads();
    matmul_finish<columns8>(args, first, count, parts);
}

}  // namespace aotx
