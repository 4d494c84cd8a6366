// Purpose:  weights as the CPU kernels read them: groups of 16 rows, interleaved so that one vector
//           lane is one row and no kernel ever sums across lanes.
// Owns:     nothing; the packed bytes belong to the caller.
// Thread:   any; packing different groups of one matrix is safe at the same time.
// Lifetime: pack every group once at open, then read only.
//
// A matrix maps `columns` inputs to `rows` outputs. Rows are padded with zeros to whole groups.
//
// Float types: element [column][row of 16], in the type of the file.
// Quantised types: one cell holds 16 rows by 32 columns. Its codes lie in chunks of 64 bytes, byte
// 4 * row + (column % 4); step s covers columns 4s..4s+3 of the cell:
//   4 low bits: chunk s / 2, low nibble for even s          (4 chunks)
//   2 low bits: chunk s / 4, bits 2 * (s % 4)               (2 chunks)
//   8 bits:     chunk s, signed                             (8 chunks)
//   1 high bit: bit s of one chunk; 2 high bits: chunk s / 4, bits 2 * (s % 4)
// Scales of the file stay as they are, only regrouped: a header of f16 [16] (and a second f16 [16]
// where the type has a minimum) in front of every cell, or of every 8 cells for the K types, which
// then have byte [16] sub-scales behind the codes of each cell.
// The value is scale * code + minimum; types without a minimum have one of -offset * scale.
#pragma once

#include <cstddef>
#include <cstdint>

namespace aotx {

// Numbers as GGUF files write them.
enum class WeightType : uint32_t {
    kF32 = 0,
    kF16 = 1,
    kQ4_0 = 2,
    kQ4_1 = 3,
    kQ5_0 = 6,
    kQ5_1 = 7,
    kQ8_0 = 8,
    kQ2_K = 10,
    kQ3_K = 11,
    kQ4_K = 12,
    kQ5_K = 13,
    kQ6_K = 14,
    kBF16 = 30
};

constexpr uint32_t kGroupRows = 16;
constexpr uint32_t kCellColumns = 32;
constexpr uint32_t kChunkBytes = 64;
constexpr uint32_t kMatrixColumnsMax = 1u << 20;

// The shape of one weight type. Constant expressions, so that kernels specialise on it.
struct WeightFormat {
    uint32_t source_elements;  // of one block in the file; 1 for float types
    uint32_t source_bytes;
    uint32_t low_bits;  // 0 for float types
    uint32_t high_bits;
    uint32_t sub_columns;   // columns that share one scale: 16 or 32
    uint32_t header_cells;  // cells behind one header
    uint32_t header_bytes;
    uint32_t scale_bytes;  // behind the codes of each cell
    bool has_minimum;
    int32_t offset;  // of types without a minimum
};

constexpr WeightFormat weight_format(WeightType type)
{
    switch (type) {
        case WeightType::kF32:
            return {1, 4, 0, 0, 0, 0, 0, 0, false, 0};
        case WeightType::kF16:
        case WeightType::kBF16:
            return {1, 2, 0, 0, 0, 0, 0, 0, false, 0};
        case WeightType::kQ4_0:
            return {32, 18, 4, 0, 32, 1, 32, 0, false, 8};
        case WeightType::kQ4_1:
            return {32, 20, 4, 0, 32, 1, 64, 0, true, 0};
        case WeightType::kQ5_0:
            return {32, 22, 4, 1, 32, 1, 32, 0, false, 16};
        case WeightType::kQ5_1:
            return {32, 24, 4, 1, 32, 1, 64, 0, true, 0};
        case WeightType::kQ8_0:
            return {32, 34, 8, 0, 32, 1, 32, 0, false, 0};
        case WeightType::kQ2_K:
            return {256, 84, 2, 0, 16, 8, 64, 32, true, 0};
        case WeightType::kQ3_K:
            return {256, 110, 2, 1, 16, 8, 32, 32, false, 4};
        case WeightType::kQ4_K:
            return {256, 144, 4, 0, 32, 8, 64, 32, true, 0};
        case WeightType::kQ5_K:
            return {256, 176, 4, 1, 32, 8, 64, 32, true, 0};
        case WeightType::kQ6_K:
            return {256, 210, 4, 2, 16, 8, 32, 32, false, 32};
    }
    return {};
}

constexpr bool weight_is_quantised(WeightType type)
{
    return weight_format(type).low_bits != 0;
}

// Bytes of the codes of one cell.
constexpr uint32_t cell_code_bytes(const WeightFormat& format)
{
    return kGroupRows * kCellColumns / 8 * (format.low_bits + format.high_bits);
}

constexpr uint32_t cell_bytes(const WeightFormat& format)
{
    return cell_code_bytes(format) + format.scale_bytes;
}

// Bytes of one header with its cells: a whole super block of 16 rows.
constexpr uint32_t header_stride_bytes(const WeightFormat& format)
{
    return format.header_bytes + format.header_cells * cell_bytes(format);
}

// Whether a number from a file names a type that the kernels know.
bool weight_type_known(uint32_t number);

struct PackedMatrix {
    WeightType type = WeightType::kF32;
    uint32_t rows = 0;
    uint32_t columns = 0;
    uint32_t groups = 0;  // ceil(rows / 16)
    uint64_t group_bytes = 0;
    const uint8_t* data = nullptr;  // [groups][group_bytes], aligned to 64
};

// Shape a matrix; data stays null. False when columns does not fit whole blocks of the type, or a
// dimension is 0 or over kMatrixColumnsMax.
[[nodiscard]] bool packed_matrix_shape(WeightType type, uint32_t rows, uint32_t columns,
                                       PackedMatrix* matrix);

// Total bytes of the packed form.
uint64_t packed_matrix_bytes(const PackedMatrix& matrix);

// Bytes of one row in the file.
uint64_t source_row_bytes(WeightType type, uint32_t columns);

// Pack one group.
// source  in,  [rows][source_row_bytes], no alignment needed
// target  out, [group_bytes] of that group
void pack_group(const PackedMatrix& matrix, const uint8_t* source, uint32_t group, uint8_t* target);

// One row of packed weights as floats. out: f32 [columns]. [hot]
void packed_row(const PackedMatrix& matrix, uint32_t row, float* out);

// 32 columns of one row of a quantised matrix. out: f32 [32]. [hot]
void packed_cell(const PackedMatrix& matrix, uint32_t row, uint32_t cell, float* out);

// One row as the file has it, as floats. out: f32 [columns]. [hot]
void source_row(WeightType type, const uint8_t* row, uint32_t columns, float* out);

float float_from_half(uint16_t half);
uint16_t half_from_float(float value);  // nearest even; overflow becomes infinity

}  // namespace aotx
