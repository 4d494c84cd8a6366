// Purpose:  integer matrix products over packed cells, compiled once per instruction set.
// Owns:     nothing.
// Thread:   any.
// Lifetime: not applicable.
//
// A tile is 16 rows by up to kTileTokens tokens. A lane of an accumulator is one row, so the only
// sums are lane by lane and each result has the same order of operations in every tile shape.
#if defined(AOTX_MATMUL_QUANTISED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef AOTX_MATMUL_QUANTISED_INL_H_
#undef AOTX_MATMUL_QUANTISED_INL_H_
#else
#define AOTX_MATMUL_QUANTISED_INL_H_
#endif

#include <hwy/highway.h>

#include <cstring>

#include "cuda/kernels/cpu/kernels.h"

#undef AOTX_BYTE_DOT
#if HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2 || \
    HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_SSSE3 || HWY_TARGET == HWY_NEON
#define AOTX_BYTE_DOT 1
#else
#define AOTX_BYTE_DOT 0
#endif

HWY_BEFORE_NAMESPACE();
namespace aotx {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if AOTX_BYTE_DOT

using TagU8 = hn::CappedTag<uint8_t, kChunkBytes>;
using TagI8 = hn::Repartition<int8_t, TagU8>;
using TagU16 = hn::Repartition<uint16_t, TagU8>;
using TagI16 = hn::Repartition<int16_t, TagU8>;
using TagI32 = hn::Repartition<int32_t, TagU8>;
using TagF32 = hn::Repartition<float, TagU8>;
using TagF16 = hn::Rebind<hwy::float16_t, TagF32>;
using VecU8 = hn::Vec<TagU8>;
using VecI8 = hn::Vec<TagI8>;
using VecI16 = hn::Vec<TagI16>;
using VecI32 = hn::Vec<TagI32>;
using VecF32 = hn::Vec<TagF32>;

constexpr size_t kVectorBytes = HWY_MAX_BYTES < kChunkBytes ? HWY_MAX_BYTES : kChunkBytes;
constexpr size_t kVectors = kChunkBytes / kVectorBytes;  // a chunk is this many vectors
constexpr size_t kLanes = kVectorBytes / 4;
constexpr int kTileTokens = HWY_MAX_BYTES >= 64 || HWY_TARGET == HWY_NEON ? 4 : 2;

// Sums of two neighbouring products; w unsigned, at most 128, x signed.
HWY_INLINE VecI16 PairDot(VecU8 w, VecI8 x)
{
#if HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_AVX3
    return VecI16{_mm512_maddubs_epi16(w.raw, x.raw)};
#elif HWY_TARGET == HWY_AVX2
    return VecI16{_mm256_maddubs_epi16(w.raw, x.raw)};
#elif HWY_TARGET == HWY_NEON
    const int8x16_t weights = vreinterpretq_s8_u8(w.raw);
    const int16x8_t low = vmull_s8(vget_low_s8(weights), vget_low_s8(x.raw));
    const int16x8_t high = vmull_s8(vget_high_s8(weights), vget_high_s8(x.raw));
    return VecI16(vpaddq_s16(low, high));
#else
    return VecI16{_mm_maddubs_epi16(w.raw, x.raw)};
#endif
}

// Sums of two neighbouring 16-bit numbers, times kFactor.
template <int16_t kFactor>
HWY_INLINE VecI32 PairSum(VecI16 x)
{
#if HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_AVX3
    return VecI32{_mm512_madd_epi16(x.raw, _mm512_set1_epi16(kFactor))};
#elif HWY_TARGET == HWY_AVX2
    return VecI32{_mm256_madd_epi16(x.raw, _mm256_set1_epi16(kFactor))};
#elif HWY_TARGET == HWY_NEON
    return hn::Mul(VecI32(vpaddlq_s16(x.raw)), hn::Set(TagI32(), kFactor));
#else
    return VecI32{_mm_madd_epi16(x.raw, _mm_set1_epi16(kFactor))};
#endif
}

#if HWY_TARGET == HWY_AVX3_DL
// acc + sums of four neighbouring products; w unsigned, x signed. As an instruction of its own,
// because Highway 1.0.3 does not name the feature in its target string; it does check the machine.
HWY_INLINE VecI32 UnsignedDot(VecI32 acc, VecU8 w, VecI8 x)
{
    asm("vpdpbusd %2, %1, %0" : "+v"(acc.raw) : "v"(w.raw), "v"(x.raw));
    return acc;
}
#endif

// acc + sums of four neighbouring products of signed bytes. AVX3_DL adds 128 times the sum of x.
HWY_INLINE VecI32 SignedDot(VecI32 acc, VecU8 w, VecI8 x)
{
    const TagI8 di8;
#if HWY_TARGET == HWY_AVX3_DL
    const TagU8 du8;
    const VecU8 biased = hn::Xor(w, hn::Set(du8, 0x80));
    return UnsignedDot(acc, biased, x);
#elif HWY_TARGET == HWY_AVX3
    const VecI8 weights = hn::BitCast(di8, w);
    const __mmask64 negative = _mm512_movepi8_mask(weights.raw);
    const VecI8 turned{_mm512_mask_sub_epi8(x.raw, negative, _mm512_setzero_si512(), x.raw)};
    const VecU8 absolute{_mm512_abs_epi8(weights.raw)};
    return hn::Add(acc, PairSum<1>(PairDot(absolute, turned)));
#elif HWY_TARGET == HWY_AVX2
    const VecI8 weights = hn::BitCast(di8, w);
    const VecI8 turned{_mm256_sign_epi8(x.raw, weights.raw)};
    return hn::Add(acc, PairSum<1>(PairDot(VecU8{_mm256_abs_epi8(weights.raw)}, turned)));
#elif HWY_TARGET == HWY_NEON
    const int8x16_t weights = vreinterpretq_s8_u8(w.raw);
    const int16x8_t low = vmull_s8(vget_low_s8(weights), vget_low_s8(x.raw));
    const int16x8_t high = vmull_s8(vget_high_s8(weights), vget_high_s8(x.raw));
    const int32x4_t pairs = vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high));
    (void)di8;
    return hn::Add(acc, VecI32(pairs));
#else
    const VecI8 weights = hn::BitCast(di8, w);
    const VecI8 turned{_mm_sign_epi8(x.raw, weights.raw)};
    return hn::Add(acc, PairSum<1>(PairDot(VecU8{_mm_abs_epi8(weights.raw)}, turned)));
#endif
}

// Unsigned codes of step kStep of a cell, vector v of its chunk.
template <WeightType kType, uint32_t kStep>
HWY_INLINE VecU8 Codes(const uint8_t* cell, size_t v)
{
    constexpr WeightFormat kFormat = weight_format(kType);
    constexpr uint32_t kLowSteps = 8 / kFormat.low_bits;
    constexpr int kLowShift = static_cast<int>(kFormat.low_bits * (kStep % kLowSteps));
    const TagU8 du8;
    const TagU16 du16;
    const uint8_t* const low_at = cell + kChunkBytes * (kStep / kLowSteps) + v * kVectorBytes;
    VecU8 codes = hn::Load(du8, low_at);
    if constexpr (kFormat.low_bits < 8) {
        if constexpr (kLowShift != 0) {
            codes = hn::BitCast(du8, hn::ShiftRight<kLowShift>(hn::BitCast(du16, codes)));
        }
        codes = hn::And(codes, hn::Set(du8, (1u << kFormat.low_bits) - 1u));
    }
    if constexpr (kFormat.high_bits != 0) {
        constexpr uint32_t kHighSteps = 8 / kFormat.high_bits;
        constexpr int kShift = static_cast<int>(kFormat.low_bits) -
                               static_cast<int>(kFormat.high_bits * (kStep % kHighSteps));
        constexpr uint32_t kMask = ((1u << kFormat.high_bits) - 1u) << kFormat.low_bits;
        const uint8_t* const high_at = cell + kChunkBytes * kFormat.low_bits +
                                       kChunkBytes * (kStep / kHighSteps) + v * kVectorBytes;
        auto bits = hn::BitCast(du16, hn::Load(du8, high_at));
        if constexpr (kShift > 0) {
            bits = hn::ShiftLeft<kShift>(bits);
        } else if constexpr (kShift < 0) {
            bits = hn::ShiftRight<-kShift>(bits);
        }
        codes = hn::Or(codes, hn::And(hn::BitCast(du8, bits), hn::Set(du8, kMask)));
    }
    return codes;
}

HWY_INLINE VecI8 BroadcastStep(const int8_t* codes, uint32_t step)
{
    int32_t four;
    std::memcpy(&four, codes + 4 * step, sizeof four);
    return hn::BitCast(TagI8(), hn::Set(TagI32(), four));
}

// One number for the plane with weight 255 and the plane with weight 1.
HWY_INLINE VecI32 JoinPlanes(VecI32 high, VecI32 low)
{
    // 255 = 256 - 1
    return hn::Add(hn::Sub(hn::ShiftLeft<8>(high), high), low);
}

// Steps whose 16-bit sums cannot overflow: each adds at most 2 * 127 * the largest code.
template <WeightType kType>
constexpr uint32_t StepsPerFlush()
{
    constexpr WeightFormat kFormat = weight_format(kType);
    constexpr uint32_t kWeightMax = (1u << (kFormat.low_bits + kFormat.high_bits)) - 1u;
    constexpr uint32_t kFit = 32767u / (2u * 127u * kWeightMax);
    constexpr uint32_t kSub = kFormat.sub_columns / 4;
    return kFit >= kSub ? kSub : (kFit >= 4 ? 4 : 2);
}

template <WeightType kType, int kTokens, uint32_t kStep, uint32_t kEnd, bool kFirst>
HWY_INLINE void AddSteps(const uint8_t* cell, const ActivationBlock* const (&x)[kTokens],
                         VecI16 (&high)[kTokens][kVectors], VecI16 (&low)[kTokens][kVectors])
{
    if constexpr (kStep < kEnd) {
        VecU8 w[kVectors];
        for (size_t v = 0; v < kVectors; v++) {
            w[v] = Codes<kType, kStep>(cell, v);
        }
        for (int t = 0; t < kTokens; t++) {
            const VecI8 four_high = BroadcastStep(x[t]->high, kStep);
            for (size_t v = 0; v < kVectors; v++) {
                const VecI16 products = PairDot(w[v], four_high);
                high[t][v] = kFirst ? products : hn::Add(high[t][v], products);
            }
            const VecI8 four_low = BroadcastStep(x[t]->low, kStep);
            for (size_t v = 0; v < kVectors; v++) {
                const VecI16 products = PairDot(w[v], four_low);
                low[t][v] = kFirst ? products : hn::Add(low[t][v], products);
            }
        }
        AddSteps<kType, kTokens, kStep + 1, kEnd, false>(cell, x, high, low);
    }
}

#if HWY_TARGET == HWY_AVX3_DL
template <WeightType kType, int kTokens, uint32_t kStep, uint32_t kEnd>
HWY_INLINE void AddDotSteps(const uint8_t* cell, const ActivationBlock* const (&x)[kTokens],
                            VecI32 (&high)[kTokens][kVectors], VecI32 (&low)[kTokens][kVectors])
{
    if constexpr (kStep < kEnd) {
        for (size_t v = 0; v < kVectors; v++) {
            const VecU8 w = Codes<kType, kStep>(cell, v);
            for (int t = 0; t < kTokens; t++) {
                high[t][v] = UnsignedDot(high[t][v], w, BroadcastStep(x[t]->high, kStep));
                low[t][v] = UnsignedDot(low[t][v], w, BroadcastStep(x[t]->low, kStep));
            }
        }
        AddDotSteps<kType, kTokens, kStep + 1, kEnd>(cell, x, high, low);
    }
}
#endif

// Whole sums of the columns kStep * 4 .. kEnd * 4 of a cell.
template <WeightType kType, int kTokens, uint32_t kStep, uint32_t kEnd, bool kFirst>
HWY_INLINE void SumSteps(const uint8_t* cell, const ActivationBlock* const (&x)[kTokens],
                         VecI32 (&sum)[kTokens][kVectors])
{
#if HWY_TARGET == HWY_AVX3_DL
    VecI32 high[kTokens][kVectors];
    VecI32 low[kTokens][kVectors];
    for (int t = 0; t < kTokens; t++) {
        for (size_t v = 0; v < kVectors; v++) {
            high[t][v] = hn::Zero(TagI32());
            low[t][v] = hn::Zero(TagI32());
        }
    }
    AddDotSteps<kType, kTokens, kStep, kEnd>(cell, x, high, low);
    for (int t = 0; t < kTokens; t++) {
        for (size_t v = 0; v < kVectors; v++) {
            sum[t][v] = JoinPlanes(high[t][v], low[t][v]);
        }
    }
#else
    if constexpr (kStep < kEnd) {
        constexpr uint32_t kFlush = StepsPerFlush<kType>();
        VecI16 high[kTokens][kVectors];
        VecI16 low[kTokens][kVectors];
        AddSteps<kType, kTokens, kStep, kStep + kFlush, true>(cell, x, high, low);
        for (int t = 0; t < kTokens; t++) {
            for (size_t v = 0; v < kVectors; v++) {
                const VecI32 part = hn::Add(PairSum<kPlaneStep>(high[t][v]), PairSum<1>(low[t][v]));
                sum[t][v] = kFirst ? part : hn::Add(sum[t][v], part);
            }
        }
        SumSteps<kType, kTokens, kStep + kFlush, kEnd, false>(cell, x, sum);
    }
#endif
}

// The same for signed bytes.
template <int kTokens, uint32_t kStep>
HWY_INLINE void AddSigned(const uint8_t* cell, const ActivationBlock* const (&x)[kTokens],
                          VecI32 (&high)[kTokens][kVectors], VecI32 (&low)[kTokens][kVectors])
{
    if constexpr (kStep < 8) {
        VecU8 w[kVectors];
        for (size_t v = 0; v < kVectors; v++) {
            w[v] = Codes<WeightType::kQ8_0, kStep>(cell, v);
        }
        for (int t = 0; t < kTokens; t++) {
            const VecI8 four_high = BroadcastStep(x[t]->high, kStep);
            const VecI8 four_low = BroadcastStep(x[t]->low, kStep);
            for (size_t v = 0; v < kVectors; v++) {
                const VecI32 zero = hn::Zero(TagI32());
                high[t][v] = SignedDot(kStep == 0 ? zero : high[t][v], w[v], four_high);
                low[t][v] = SignedDot(kStep == 0 ? zero : low[t][v], w[v], four_low);
            }
        }
        AddSigned<kTokens, kStep + 1>(cell, x, high, low);
    }
}

template <int kTokens>
HWY_INLINE void SumSigned(const uint8_t* cell, const ActivationBlock* const (&x)[kTokens],
                          VecI32 (&sum)[kTokens][kVectors])
{
    VecI32 high[kTokens][kVectors];
    VecI32 low[kTokens][kVectors];
    AddSigned<kTokens, 0>(cell, x, high, low);
    for (int t = 0; t < kTokens; t++) {
        for (size_t v = 0; v < kVectors; v++) {
            sum[t][v] = JoinPlanes(high[t][v], low[t][v]);
        }
    }
}

HWY_INLINE VecF32 LoadHalves(const uint8_t* at, size_t v)
{
    const auto* const halves = reinterpret_cast<const hwy::float16_t*>(at) + v * kLanes;
    return hn::PromoteTo(TagF32(), hn::Load(TagF16(), halves));
}

template <typename T>
HWY_INLINE VecF32 LoadBytes(const uint8_t* at, size_t v)
{
    const hn::Rebind<T, TagI32> dbyte;
    const auto bytes = hn::LoadU(dbyte, reinterpret_cast<const T*>(at) + v * kLanes);
    return hn::ConvertTo(TagF32(), hn::PromoteTo(TagI32(), bytes));
}

// Scale and minimum of sub-block kSub of a cell, for the rows of vector v.
template <WeightType kType, uint32_t kSub>
HWY_INLINE void Scales(const uint8_t* header, const uint8_t* cell, size_t v, VecF32* scale,
                       VecF32* minimum)
{
    constexpr WeightFormat kFormat = weight_format(kType);
    const uint8_t* const bytes = cell + cell_code_bytes(kFormat);
    *scale = LoadHalves(header, v);
    *minimum = kFormat.has_minimum ? LoadHalves(header + 32, v) : hn::Zero(TagF32());
    if constexpr (kType == WeightType::kQ2_K) {
        const hn::Rebind<uint8_t, TagI32> dbyte;
        const auto pair = hn::LoadU(dbyte, bytes + 16 * kSub + v * kLanes);
        const auto both = hn::PromoteTo(TagI32(), pair);
        const auto low = hn::And(both, hn::Set(TagI32(), 15));
        *scale = hn::Mul(*scale, hn::ConvertTo(TagF32(), low));
        const auto high = hn::ConvertTo(TagF32(), hn::ShiftRight<4>(both));
        *minimum = hn::Neg(hn::Mul(*minimum, high));
    } else if constexpr (kFormat.scale_bytes != 0 && kFormat.has_minimum) {
        *scale = hn::Mul(*scale, LoadBytes<uint8_t>(bytes, v));
        *minimum = hn::Neg(hn::Mul(*minimum, LoadBytes<uint8_t>(bytes + 16, v)));
    } else if constexpr (kFormat.scale_bytes != 0) {
        *scale = hn::Mul(*scale, LoadBytes<int8_t>(bytes + 16 * kSub, v));
    }
}

// Add one sub-block of one cell to the float sums.
template <WeightType kType, int kTokens, uint32_t kSub>
HWY_INLINE void AddSub(const uint8_t* header, const uint8_t* cell,
                       const ActivationBlock* const (&x)[kTokens],
                       VecF32 (&total)[kTokens][kVectors])
{
    constexpr WeightFormat kFormat = weight_format(kType);
    constexpr bool kWhole = kFormat.sub_columns == kCellColumns;
    constexpr uint32_t kSteps = kFormat.sub_columns / 4;
    VecI32 sum[kTokens][kVectors];
    if constexpr (kFormat.low_bits == 8) {
        SumSigned<kTokens>(cell, x, sum);
    } else {
        SumSteps<kType, kTokens, kSub * kSteps, (kSub + 1) * kSteps, true>(cell, x, sum);
    }
    constexpr int32_t kBias = HWY_TARGET == HWY_AVX3_DL && kFormat.low_bits == 8 ? 128 : 0;
    constexpr int32_t kOffset = kFormat.offset + kBias;
    for (size_t v = 0; v < kVectors; v++) {
        VecF32 scale;
        VecF32 minimum;
        Scales<kType, kSub>(header, cell, v, &scale, &minimum);
        for (int t = 0; t < kTokens; t++) {
            VecI32 whole = sum[t][v];
            if constexpr (kOffset != 0) {
                const int32_t codes = kWhole ? x[t]->code_sum : x[t]->half_code_sum[kSub];
                whole = hn::Sub(whole, hn::Set(TagI32(), kOffset * codes));
            }
            const VecF32 both = hn::Mul(scale, hn::Set(TagF32(), x[t]->scale));
            total[t][v] = hn::MulAdd(hn::ConvertTo(TagF32(), whole), both, total[t][v]);
            if constexpr (kFormat.has_minimum) {
                const float inputs = kWhole ? x[t]->sum : x[t]->half_sum[kSub];
                total[t][v] = hn::MulAdd(minimum, hn::Set(TagF32(), inputs), total[t][v]);
            }
        }
    }
}

// Store 16 results of one token; rows_count of them exist.
HWY_INLINE void StoreRows(const VecF32 (&total)[kVectors], uint32_t rows_count, float* out,
                          bool add)
{
    const TagF32 df;
    if (HWY_LIKELY(rows_count >= kGroupRows)) {
        for (size_t v = 0; v < kVectors; v++) {
            VecF32 value = total[v];
            if (add) {
                value = hn::Add(value, hn::LoadU(df, out + v * kLanes));
            }
            hn::StoreU(value, df, out + v * kLanes);
        }
        return;
    }
    HWY_ALIGN float rows[kGroupRows];
    for (size_t v = 0; v < kVectors; v++) {
        hn::StoreU(total[v], df, rows + v * kLanes);
    }
    for (uint32_t row = 0; row < rows_count; row++) {
        out[row] = add ? rows[row] + out[row] : rows[row];
    }
}

template <WeightType kType, int kTokens>
HWY_NOINLINE void TileQuantised(const uint8_t* group, uint32_t cells, const ActivationBlock* x,
                                size_t x_stride, uint32_t rows_count, const MatmulOutput& out)
{
    constexpr WeightFormat kFormat = weight_format(kType);
    VecF32 total[kTokens][kVectors];
    const ActivationBlock* at[kTokens];
    for (int t = 0; t < kTokens; t++) {
        at[t] = x + static_cast<size_t>(t) * x_stride;
        for (size_t v = 0; v < kVectors; v++) {
            total[t][v] = hn::Zero(TagF32());
        }
    }
    const uint8_t* header = group;
    for (uint32_t first = 0; first < cells; first += kFormat.header_cells) {
        const uint8_t* cell = header + kFormat.header_bytes;
        for (uint32_t c = 0; c < kFormat.header_cells; c++) {
            AddSub<kType, kTokens, 0>(header, cell, at, total);
            if constexpr (kFormat.sub_columns != kCellColumns) {
                AddSub<kType, kTokens, 1>(header, cell, at, total);
            }
            cell += cell_bytes(kFormat);
            for (int t = 0; t < kTokens; t++) {
                at[t]++;
            }
        }
        header = cell;
    }
    for (int t = 0; t < kTokens; t++) {
        StoreRows(total[t], rows_count, out.data + static_cast<size_t>(t) * out.stride, out.add);
    }
}

// Tokens whose activations stay in the second-level cache while groups go by.
constexpr uint32_t kChunkTokens = 64;

template <WeightType kType>
void MatmulTyped(const PackedMatrix& matrix, uint32_t group_begin, uint32_t group_end,
                 const ActivationBlock* x, size_t x_stride, uint32_t tokens,
                 const MatmulOutput& out)
{
    const uint32_t cells = matrix.columns / kCellColumns;
    for (uint32_t first = 0; first < tokens; first += kChunkTokens) {
        const uint32_t end = HWY_MIN(tokens, first + kChunkTokens);
        for (uint32_t group = group_begin; group < group_end; group++) {
            const uint8_t* const weights = matrix.data + group * matrix.group_bytes;
            const uint32_t rows_count = matrix.rows - group * kGroupRows;
            MatmulOutput at = out;
            at.data += uint64_t{group - group_begin} * kGroupRows + first * out.stride;
            const ActivationBlock* input = x + first * x_stride;
            uint32_t left = end - first;
            while (left >= kTileTokens) {
                TileQuantised<kType, kTileTokens>(weights, cells, input, x_stride, rows_count, at);
                input += kTileTokens * x_stride;
                at.data += kTileTokens * out.stride;
                left -= kTileTokens;
            }
            if (kTileTokens > 2 && left == 3) {
                TileQuantised<kType, 3>(weights, cells, input, x_stride, rows_count, at);
            } else if (left == 2) {
                TileQuantised<kType, 2>(weights, cells, input, x_stride, rows_count, at);
            } else if (left == 1) {
                TileQuantised<kType, 1>(weights, cells, input, x_stride, rows_count, at);
            }
        }
    }
}

void MatmulQuantised(const PackedMatrix& matrix, uint32_t group_begin, uint32_t group_end,
                     const ActivationBlock* x, size_t x_stride, uint32_t tokens,
                     const MatmulOutput& out)
{
#define AOTX_MATMUL_CASE(type)                                                                   \
    case WeightType::type:                                                                       \
        MatmulTyped<WeightType::type>(matrix, group_begin, group_end, x, x_stride, tokens, out); \
        return
    switch (matrix.type) {
        AOTX_MATMUL_CASE(kQ4_0);
        AOTX_MATMUL_CASE(kQ4_1);
        AOTX_MATMUL_CASE(kQ5_0);
        AOTX_MATMUL_CASE(kQ5_1);
        AOTX_MATMUL_CASE(kQ8_0);
        AOTX_MATMUL_CASE(kQ2_K);
        AOTX_MATMUL_CASE(kQ3_K);
        AOTX_MATMUL_CASE(kQ4_K);
        AOTX_MATMUL_CASE(kQ5_K);
        AOTX_MATMUL_CASE(kQ6_K);
        case WeightType::kF32:
        case WeightType::kF16:
        case WeightType::kBF16:
            break;
    }
#undef AOTX_MATMUL_CASE
    HWY_ABORT("matmul_quantised: not a quantised type");
}

#else  // !AOTX_BYTE_DOT

// Instruction sets without byte products: plain loops over single rows.
void MatmulQuantised(const PackedMatrix& matrix, uint32_t group_begin, uint32_t group_end,
                     const ActivationBlock* x, size_t x_stride, uint32_t tokens,
                     const MatmulOutput& out)
{
    const uint32_t cells = matrix.columns / kCellColumns;
    const uint32_t row_begin = group_begin * kGroupRows;
    const uint32_t row_end = HWY_MIN(matrix.rows, group_end * kGroupRows);
    for (uint32_t row = row_begin; row < row_end; row++) {
        for (uint32_t t = 0; t < tokens; t++) {
            float total = 0;
            for (uint32_t c = 0; c < cells; c++) {
                const ActivationBlock& block = x[t * x_stride + c];
                float w[kCellColumns];
                packed_cell(matrix, row, c, w);
                float sum = 0;
                for (uint32_t i = 0; i < kCellColumns; i++) {
                    const int32_t code = kPlaneStep * block.high[i] + block.low[i];
                    sum += w[i] * static_cast<float>(code);
                }
                total += sum * block.scale;
            }
            float* const at = out.data + t * out.stride + (row - row_begin);
            *at = out.add ? *at + total : total;
        }
    }
}

#endif  // AOTX_BYTE_DOT

}  // namespace HWY_NAMESPACE
}  // namespace aotx
HWY_AFTER_NAMESPACE();

#endif  // include guard
