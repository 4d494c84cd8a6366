// Purpose:  float matrix products over packed groups, compiled once per instruction set.
// Owns:     nothing.
// Thread:   any.
// Lifetime: not applicable.
#if defined(AOTX_MATMUL_FLOAT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef AOTX_MATMUL_FLOAT_INL_H_
#undef AOTX_MATMUL_FLOAT_INL_H_
#else
#define AOTX_MATMUL_FLOAT_INL_H_
#endif

#include <hwy/highway.h>

#include "cuda/kernels/cpu/matmul_quantised-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aotx {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using RowTag = hn::CappedTag<float, kGroupRows>;
using RowVec = hn::Vec<RowTag>;
constexpr size_t kRowLanes = hn::MaxLanes(RowTag());
constexpr size_t kRowVectors = kGroupRows / kRowLanes;
constexpr int kFloatTokens = kRowVectors <= 1 ? 8 : (kRowVectors <= 4 ? 4 : 1);
// Sums are closed every so many columns, so that rounding grows with the square root of pieces.
constexpr uint32_t kPieceColumns = 64;

// The 16 weights of one column, vector v of them.
template <WeightType kType>
HWY_INLINE RowVec ColumnWeights(const uint8_t* group, size_t column, size_t v)
{
    const RowTag df;
    const size_t index = column * kGroupRows + v * kRowLanes;
    if constexpr (kType == WeightType::kF32) {
        return hn::LoadU(df, reinterpret_cast<const float*>(group) + index);
    } else if constexpr (kType == WeightType::kF16) {
        const hn::Rebind<hwy::float16_t, RowTag> dh;
        return hn::PromoteTo(df,
                             hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(group) + index));
    } else {
        const hn::Rebind<hwy::bfloat16_t, RowTag> dh;
        return hn::PromoteTo(
            df, hn::LoadU(dh, reinterpret_cast<const hwy::bfloat16_t*>(group) + index));
    }
}

HWY_INLINE void StoreFloatRows(const RowVec (&total)[kRowVectors], uint32_t rows_count, float* out,
                               bool add)
{
    const RowTag df;
    HWY_ALIGN float rows[kGroupRows];
    for (size_t v = 0; v < kRowVectors; v++) {
        hn::Store(total[v], df, rows + v * kRowLanes);
    }
    const uint32_t count = HWY_MIN(rows_count, kGroupRows);
    for (uint32_t row = 0; row < count; row++) {
        out[row] = add ? rows[row] + out[row] : rows[row];
    }
}

template <WeightType kType, int kTokens>
HWY_NOINLINE void TileFloat(const uint8_t* group, uint32_t columns, const float* x, size_t x_stride,
                            uint32_t rows_count, const MatmulOutput& out)
{
    const RowTag df;
    RowVec total[kTokens][kRowVectors];
    for (int t = 0; t < kTokens; t++) {
        for (size_t v = 0; v < kRowVectors; v++) {
            total[t][v] = hn::Zero(df);
        }
    }
    for (uint32_t first = 0; first < columns; first += kPieceColumns) {
        const uint32_t end = HWY_MIN(columns, first + kPieceColumns);
        RowVec piece[kTokens][kRowVectors];
        for (int t = 0; t < kTokens; t++) {
            for (size_t v = 0; v < kRowVectors; v++) {
                piece[t][v] = hn::Zero(df);
            }
        }
        for (uint32_t column = first; column < end; column++) {
            RowVec w[kRowVectors];
            for (size_t v = 0; v < kRowVectors; v++) {
                w[v] = ColumnWeights<kType>(group, column, v);
            }
            for (int t = 0; t < kTokens; t++) {
                const RowVec input = hn::Set(df, x[static_cast<size_t>(t) * x_stride + column]);
                for (size_t v = 0; v < kRowVectors; v++) {
                    piece[t][v] = hn::MulAdd(w[v], input, piece[t][v]);
                }
            }
        }
        for (int t = 0; t < kTokens; t++) {
            for (size_t v = 0; v < kRowVectors; v++) {
                total[t][v] = hn::Add(total[t][v], piece[t][v]);
            }
        }
    }
    for (int t = 0; t < kTokens; t++) {
        StoreFloatRows(total[t], rows_count, out.data + static_cast<size_t>(t) * out.stride,
                       out.add);
    }
}

// All tokens against one group of float weights.
template <WeightType kType>
HWY_INLINE void GroupFloat(const uint8_t* group, uint32_t columns, const float* x, size_t x_stride,
                           uint32_t tokens, uint32_t rows_count, const MatmulOutput& out)
{
    MatmulOutput at = out;
    while (tokens >= kFloatTokens) {
        TileFloat<kType, kFloatTokens>(group, columns, x, x_stride, rows_count, at);
        x += kFloatTokens * x_stride;
        at.data += kFloatTokens * at.stride;
        tokens -= kFloatTokens;
    }
    while (tokens > 0) {
        TileFloat<kType, 1>(group, columns, x, x_stride, rows_count, at);
        x += x_stride;
        at.data += at.stride;
        tokens--;
    }
}

#if AOTX_BYTE_DOT
template <WeightType kType, uint32_t kStep>
HWY_INLINE void DequantiseSteps(const uint8_t* header, const uint8_t* cell, float* out)
{
    if constexpr (kStep < 8) {
        constexpr WeightFormat kFormat = weight_format(kType);
        constexpr uint32_t kSub = kFormat.sub_columns == kCellColumns ? 0 : kStep / 4;
        const TagI32 di32;
        const TagF32 df;
        for (size_t v = 0; v < kVectors; v++) {
            VecF32 scale;
            VecF32 minimum;
            Scales<kType, kSub>(header, cell, v, &scale, &minimum);
            if constexpr (!kFormat.has_minimum) {
                minimum = hn::Mul(scale, hn::Set(df, -static_cast<float>(kFormat.offset)));
            }
            auto codes = hn::BitCast(di32, Codes<kType, kStep>(cell, v));
            for (uint32_t i = 0; i < 4; i++) {
                // Byte i of every lane, with its sign where codes are signed.
                auto code = hn::And(codes, hn::Set(di32, 255));
                if constexpr (kFormat.low_bits == 8) {
                    code = hn::ShiftRight<24>(hn::ShiftLeft<24>(code));
                }
                const VecF32 value = hn::MulAdd(scale, hn::ConvertTo(df, code), minimum);
                hn::StoreU(value, df, out + (4 * kStep + i) * kGroupRows + v * kLanes);
                codes = hn::ShiftRight<8>(codes);
            }
        }
        DequantiseSteps<kType, kStep + 1>(header, cell, out);
    }
}

// One group as floats [columns][16].
template <WeightType kType>
void DequantiseGroup(const uint8_t* group, uint32_t cells, float* out)
{
    constexpr WeightFormat kFormat = weight_format(kType);
    const uint8_t* header = group;
    for (uint32_t first = 0; first < cells; first += kFormat.header_cells) {
        const uint8_t* cell = header + kFormat.header_bytes;
        for (uint32_t c = 0; c < kFormat.header_cells; c++) {
            DequantiseSteps<kType, 0>(header, cell, out);
            out += kGroupRows * kCellColumns;
            cell += cell_bytes(kFormat);
        }
        header = cell;
    }
}
#endif

void DequantiseAny(const PackedMatrix& matrix, uint32_t group, float* out)
{
    const uint32_t cells = matrix.columns / kCellColumns;
#if AOTX_BYTE_DOT
    const uint8_t* const data = matrix.data + group * matrix.group_bytes;
#define AOTX_DEQUANTISE_CASE(type)                           \
    case WeightType::type:                                   \
        DequantiseGroup<WeightType::type>(data, cells, out); \
        return
    switch (matrix.type) {
        AOTX_DEQUANTISE_CASE(kQ4_0);
        AOTX_DEQUANTISE_CASE(kQ4_1);
        AOTX_DEQUANTISE_CASE(kQ5_0);
        AOTX_DEQUANTISE_CASE(kQ5_1);
        AOTX_DEQUANTISE_CASE(kQ8_0);
        AOTX_DEQUANTISE_CASE(kQ2_K);
        AOTX_DEQUANTISE_CASE(kQ3_K);
        AOTX_DEQUANTISE_CASE(kQ4_K);
        AOTX_DEQUANTISE_CASE(kQ5_K);
        AOTX_DEQUANTISE_CASE(kQ6_K);
        case WeightType::kF32:
        case WeightType::kF16:
        case WeightType::kBF16:
            break;
    }
#undef AOTX_DEQUANTISE_CASE
    HWY_ABORT("dequantise: not a quantised type");
#else
    for (uint32_t row = 0; row < kGroupRows; row++) {
        const uint32_t index = group * kGroupRows + row;
        for (uint32_t c = 0; c < cells; c++) {
            float values[kCellColumns] = {};
            if (index < matrix.rows) {
                packed_cell(matrix, index, c, values);
            }
            for (uint32_t i = 0; i < kCellColumns; i++) {
                out[(size_t{c} * kCellColumns + i) * kGroupRows + row] = values[i];
            }
        }
    }
#endif
}

void MatmulFloat(const PackedMatrix& matrix, uint32_t group_begin, uint32_t group_end,
                 const float* x, size_t x_stride, uint32_t tokens, float* scratch,
                 const MatmulOutput& out)
{
    for (uint32_t group = group_begin; group < group_end; group++) {
        const uint8_t* const data = matrix.data + group * matrix.group_bytes;
        const uint32_t rows_count = matrix.rows - group * kGroupRows;
        MatmulOutput at = out;
        at.data += uint64_t{group - group_begin} * kGroupRows;
        switch (matrix.type) {
            case WeightType::kF32:
                GroupFloat<WeightType::kF32>(data, matrix.columns, x, x_stride, tokens, rows_count,
                                             at);
                break;
            case WeightType::kF16:
                GroupFloat<WeightType::kF16>(data, matrix.columns, x, x_stride, tokens, rows_count,
                                             at);
                break;
            case WeightType::kBF16:
                GroupFloat<WeightType::kBF16>(data, matrix.columns, x, x_stride, tokens, rows_count,
                                              at);
                break;
            default:
                DequantiseAny(matrix, group, scratch);
                GroupFloat<WeightType::kF32>(reinterpret_cast<const uint8_t*>(scratch),
                                             matrix.columns, x, x_stride, tokens, rows_count, at);
        }
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace aotx
HWY_AFTER_NAMESPACE();

#endif  // include guard
