// Purpose:  repack file blocks into interleaved groups, and read single rows of either form.
// Owns:     nothing.
// Thread:   any.
// Lifetime: see packed_matrix.h.
#include "packed_matrix.h"

#include <cmath>
#include <cstring>

#include "check.h"

namespace aotx {

namespace {

// One cell of one row, as codes and scales.
struct CellValues {
    uint8_t codes[kCellColumns];  // signed for 8-bit types
    float scale[2];               // of each half of 16 columns
    float minimum[2];
};

uint16_t load_u16(const uint8_t* at)
{
    uint16_t value;
    std::memcpy(&value, at, sizeof value);
    return value;
}

uint32_t load_u32(const uint8_t* at)
{
    uint32_t value;
    std::memcpy(&value, at, sizeof value);
    return value;
}

// The 6-bit scale and minimum of sub-block j of Q4_K and Q5_K.
void k4_scale(const uint8_t* scales, uint32_t j, uint8_t* scale, uint8_t* minimum)
{
    if (j < 4) {
        *scale = scales[j] & 63;
        *minimum = scales[j + 4] & 63;
        return;
    }
    *scale = static_cast<uint8_t>((scales[j + 4] & 15) | ((scales[j - 4] >> 6) << 4));
    *minimum = static_cast<uint8_t>((scales[j + 4] >> 4) | ((scales[j] >> 6) << 4));
}

// The 6-bit scale of sub-block j of Q3_K, without its bias of 32.
uint8_t k3_scale(const uint8_t* scales, uint32_t j)
{
    const uint32_t low = j < 8 ? scales[j] & 15u : scales[j - 8] >> 4;
    const uint32_t high = (scales[8 + j % 4] >> (2 * (j / 4))) & 3u;
    return static_cast<uint8_t>(low | (high << 4));
}

// Codes of one cell of the types with blocks of 32.
void codes_of_32(WeightType type, const uint8_t* block, uint8_t* codes)
{
    const WeightFormat format = weight_format(type);
    const uint32_t scales_bytes = format.has_minimum ? 4 : 2;
    if (format.low_bits == 8) {
        std::memcpy(codes, block + scales_bytes, kCellColumns);
        return;
    }
    const uint8_t* const low = block + scales_bytes + 4 * format.high_bits;
    const uint32_t high = format.high_bits != 0 ? load_u32(block + scales_bytes) : 0;
    for (uint32_t i = 0; i < 16; i++) {
        codes[i] = static_cast<uint8_t>((low[i] & 15u) | (((high >> i) & 1u) << 4));
        codes[i + 16] = static_cast<uint8_t>((low[i] >> 4) | (((high >> (i + 16)) & 1u) << 4));
    }
}

// Codes of cell 0..7 of a block of 256.
void codes_of_256(WeightType type, const uint8_t* block, uint32_t cell, uint8_t* codes)
{
    for (uint32_t i = 0; i < kCellColumns; i++) {
        const uint32_t n = cell / 4;
        const uint32_t j = cell % 4;
        uint32_t code = 0;
        switch (type) {
            case WeightType::kQ2_K:
                code = (block[16 + 32 * n + i] >> (2 * j)) & 3u;
                break;
            case WeightType::kQ3_K:
                code = (block[32 + 32 * n + i] >> (2 * j)) & 3u;
                code |= ((block[i] >> cell) & 1u) << 2;
                break;
            case WeightType::kQ4_K:
                code = (block[16 + 32 * (cell / 2) + i] >> (4 * (cell % 2))) & 15u;
                break;
            case WeightType::kQ5_K:
                code = (block[48 + 32 * (cell / 2) + i] >> (4 * (cell % 2))) & 15u;
                code |= ((block[16 + i] >> cell) & 1u) << 4;
                break;
            case WeightType::kQ6_K:
                code = (block[64 * n + 32 * (j % 2) + i] >> (4 * (j / 2))) & 15u;
                code |= ((block[128 + 32 * n + i] >> (2 * j)) & 3u) << 4;
                break;
            default:
                AOTX_KERNEL_CHECK(false);
        }
        codes[i] = static_cast<uint8_t>(code);
    }
}

// Where the two f16 scales lie in a block of the file.
uint32_t scale_offset(WeightType type)
{
    switch (type) {
        case WeightType::kQ2_K:
            return 80;
        case WeightType::kQ3_K:
            return 108;
        case WeightType::kQ6_K:
            return 208;
        default:
            return 0;
    }
}

// Byte sub-scales of one cell of a K type, as they are packed: two bytes a row.
void sub_scales(WeightType type, const uint8_t* block, uint32_t cell, uint8_t* first,
                uint8_t* second)
{
    switch (type) {
        case WeightType::kQ2_K:
            *first = block[2 * cell];
            *second = block[2 * cell + 1];
            return;
        case WeightType::kQ3_K:
            *first = static_cast<uint8_t>(k3_scale(block + 96, 2 * cell) - 32);
            *second = static_cast<uint8_t>(k3_scale(block + 96, 2 * cell + 1) - 32);
            return;
        case WeightType::kQ6_K:
            *first = block[192 + 2 * cell];
            *second = block[192 + 2 * cell + 1];
            return;
        default:
            k4_scale(block + 4, cell, first, second);
    }
}

// Scales and minima of one cell from the header's two floats and the two sub-scale bytes.
void cell_scales(WeightType type, float scale, float minimum, uint8_t first, uint8_t second,
                 CellValues* values)
{
    const WeightFormat format = weight_format(type);
    if (format.header_cells == 1) {
        values->scale[0] = scale;
    } else if (type == WeightType::kQ2_K) {
        values->scale[0] = scale * static_cast<float>(first & 15);
        values->scale[1] = scale * static_cast<float>(second & 15);
        values->minimum[0] = -(minimum * static_cast<float>(first >> 4));
        values->minimum[1] = -(minimum * static_cast<float>(second >> 4));
        return;
    } else if (format.has_minimum) {
        values->scale[0] = scale * static_cast<float>(first);
        minimum = -(minimum * static_cast<float>(second));
    } else {
        values->scale[0] = scale * static_cast<float>(static_cast<int8_t>(first));
        values->scale[1] = scale * static_cast<float>(static_cast<int8_t>(second));
    }
    if (format.sub_columns == kCellColumns) {
        values->scale[1] = values->scale[0];
    }
    const float offset = static_cast<float>(format.offset);
    for (uint32_t half = 0; half < 2; half++) {
        values->minimum[half] = format.has_minimum ? minimum : -offset * values->scale[half];
    }
}

void cell_floats(WeightType type, const CellValues& values, float* out)
{
    const bool is_signed = weight_format(type).low_bits == 8;
    for (uint32_t i = 0; i < kCellColumns; i++) {
        const float code = is_signed ? static_cast<float>(static_cast<int8_t>(values.codes[i]))
                                     : static_cast<float>(values.codes[i]);
        out[i] = values.scale[i / 16] * code + values.minimum[i / 16];
    }
}

// Put the codes of one row into the chunks of a cell, which starts zeroed.
void place_codes(const WeightFormat& format, const uint8_t* codes, uint32_t row, uint8_t* cell)
{
    const uint32_t low_mask = (1u << format.low_bits) - 1u;
    uint8_t* const high = cell + kGroupRows * kCellColumns / 8 * format.low_bits;
    const uint32_t low_steps = 8 / format.low_bits;
    const uint32_t high_steps = format.high_bits == 0 ? 8 : 8 / format.high_bits;
    for (uint32_t i = 0; i < kCellColumns; i++) {
        const uint32_t step = i / 4;
        const uint32_t byte = 4 * row + i % 4;
        const uint32_t low = (codes[i] & low_mask) << (format.low_bits * (step % low_steps));
        uint8_t* const low_at = cell + kChunkBytes * (step / low_steps) + byte;
        *low_at = static_cast<uint8_t>(*low_at | low);
        if (format.high_bits != 0) {
            const uint32_t bits = static_cast<uint32_t>(codes[i]) >> format.low_bits;
            uint8_t* const at = high + kChunkBytes * (step / high_steps) + byte;
            *at = static_cast<uint8_t>(*at | (bits << (format.high_bits * (step % high_steps))));
        }
    }
}

// The inverse of place_codes.
void take_codes(const WeightFormat& format, const uint8_t* cell, uint32_t row, uint8_t* codes)
{
    const uint32_t low_mask = (1u << format.low_bits) - 1u;
    const uint8_t* const high = cell + kGroupRows * kCellColumns / 8 * format.low_bits;
    const uint32_t low_steps = 8 / format.low_bits;
    const uint32_t high_steps = format.high_bits == 0 ? 8 : 8 / format.high_bits;
    for (uint32_t i = 0; i < kCellColumns; i++) {
        const uint32_t step = i / 4;
        const uint32_t byte = 4 * row + i % 4;
        const uint32_t low = cell[kChunkBytes * (step / low_steps) + byte];
        uint32_t code = (low >> (format.low_bits * (step % low_steps))) & low_mask;
        if (format.high_bits != 0) {
            const uint32_t bits = high[kChunkBytes * (step / high_steps) + byte];
            const uint32_t mask = (1u << format.high_bits) - 1u;
            code |= ((bits >> (format.high_bits * (step % high_steps))) & mask) << format.low_bits;
        }
        codes[i] = static_cast<uint8_t>(code);
    }
}

void store_u16(uint8_t* at, uint16_t value)
{
    std::memcpy(at, &value, sizeof value);
}

// Pack one row of a quantised group; the group starts zeroed, which is what padding rows stay.
void pack_quantised_row(WeightType type, const uint8_t* source, uint32_t columns, uint32_t row,
                        uint8_t* group)
{
    const WeightFormat format = weight_format(type);
    const uint32_t blocks = columns / format.source_elements;
    for (uint32_t b = 0; b < blocks; b++) {
        const uint8_t* const block = source + uint64_t{b} * format.source_bytes;
        uint8_t* const header = group + uint64_t{b} * header_stride_bytes(format);
        store_u16(header + 2 * row, load_u16(block + scale_offset(type)));
        if (format.has_minimum) {
            store_u16(header + 32 + 2 * row, load_u16(block + scale_offset(type) + 2));
        }
        for (uint32_t cell = 0; cell < format.header_cells; cell++) {
            uint8_t* const at = header + format.header_bytes + cell * cell_bytes(format);
            uint8_t codes[kCellColumns];
            if (format.header_cells == 1) {
                codes_of_32(type, block, codes);
            } else {
                codes_of_256(type, block, cell, codes);
                uint8_t* const scales = at + cell_code_bytes(format);
                sub_scales(type, block, cell, scales + row, scales + 16 + row);
            }
            place_codes(format, codes, row, at);
        }
    }
}

float source_float(WeightType type, const uint8_t* at)
{
    if (type == WeightType::kF32) {
        float value;
        std::memcpy(&value, at, sizeof value);
        return value;
    }
    if (type == WeightType::kF16) {
        return float_from_half(load_u16(at));
    }
    const uint32_t bits = static_cast<uint32_t>(load_u16(at)) << 16;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

}  // namespace

float float_from_half(uint16_t half)
{
    const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
    const uint32_t exponent = (half >> 10) & 31u;
    const uint32_t fraction = half & 0x3ffu;
    uint32_t bits = 0;
    if (exponent == 31) {
        bits = sign | 0x7f800000u | (fraction << 13);
    } else if (exponent != 0) {
        bits = sign | ((exponent + 112) << 23) | (fraction << 13);
    } else {
        // Zero or subnormal: an exact product, so no case is needed for its leading bit.
        const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
        std::memcpy(&bits, &magnitude, sizeof bits);
        bits |= sign;
    }
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

uint16_t half_from_float(float value)
{
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    const uint32_t sign = (bits >> 16) & 0x8000u;
    const uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {
        return static_cast<uint16_t>(sign | 0x7e00u);
    }
    if (magnitude >= 0x477ff000u) {
        return static_cast<uint16_t>(sign | 0x7c00u);
    }
    if (magnitude < 0x38800000u) {
        // Below the smallest normal half: adding 0.5 rounds at the right bit.
        float absolute;
        std::memcpy(&absolute, &magnitude, sizeof absolute);
        const float shifted = absolute + 0.5f;
        uint32_t shifted_bits;
        std::memcpy(&shifted_bits, &shifted, sizeof shifted_bits);
        return static_cast<uint16_t>(sign | (shifted_bits - 0x3f000000u));
    }
    const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

bool weight_type_known(uint32_t number)
{
    if (number > 30) {
        return false;
    }
    return weight_format(static_cast<WeightType>(number)).source_bytes != 0;
}

bool packed_matrix_shape(WeightType type, uint32_t rows, uint32_t columns, PackedMatrix* matrix)
{
    const WeightFormat format = weight_format(type);
    if (rows == 0 || rows > kMatrixColumnsMax || columns == 0 || columns > kMatrixColumnsMax) {
        return false;
    }
    if (columns % format.source_elements != 0) {
        return false;
    }

    matrix->type = type;
    matrix->rows = rows;
    matrix->columns = columns;
    matrix->groups = (rows + kGroupRows - 1) / kGroupRows;
    matrix->data = nullptr;
    if (format.low_bits == 0) {
        matrix->group_bytes = uint64_t{columns} * kGroupRows * format.source_bytes;
    } else {
        const uint64_t headers = columns / format.source_elements;
        matrix->group_bytes = headers * header_stride_bytes(format);
    }
    return true;
}

uint64_t packed_matrix_bytes(const PackedMatrix& matrix)
{
    return matrix.groups * matrix.group_bytes;
}

uint64_t source_row_bytes(WeightType type, uint32_t columns)
{
    const WeightFormat format = weight_format(type);
    return uint64_t{columns / format.source_elements} * format.source_bytes;
}

void pack_group(const PackedMatrix& matrix, const uint8_t* source, uint32_t group, uint8_t* target)
{
    AOTX_KERNEL_CHECK(group < matrix.groups);
    const WeightFormat format = weight_format(matrix.type);
    const uint64_t row_bytes = source_row_bytes(matrix.type, matrix.columns);
    std::memset(target, 0, matrix.group_bytes);
    for (uint32_t row = 0; row < kGroupRows; row++) {
        const uint64_t source_index = uint64_t{group} * kGroupRows + row;
        if (source_index >= matrix.rows) {
            return;
        }
        const uint8_t* const from = source + source_index * row_bytes;
        if (format.low_bits != 0) {
            pack_quantised_row(matrix.type, from, matrix.columns, row, target);
            continue;
        }
        const uint32_t element_bytes = format.source_bytes;
        for (uint64_t column = 0; column < matrix.columns; column++) {
            std::memcpy(target + (column * kGroupRows + row) * element_bytes,
                        from + column * element_bytes, element_bytes);
        }
    }
}

void packed_cell(const PackedMatrix& matrix, uint32_t row, uint32_t cell, float* out)
{
    const WeightFormat format = weight_format(matrix.type);
    const uint8_t* const group = matrix.data + (row / kGroupRows) * matrix.group_bytes;
    const uint32_t lane = row % kGroupRows;
    const uint8_t* const header =
        group + uint64_t{cell / format.header_cells} * header_stride_bytes(format);
    const uint8_t* const at =
        header + format.header_bytes + (cell % format.header_cells) * cell_bytes(format);
    CellValues values;
    take_codes(format, at, lane, values.codes);
    const float scale = float_from_half(load_u16(header + 2 * lane));
    const float minimum =
        format.has_minimum ? float_from_half(load_u16(header + 32 + 2 * lane)) : 0.0f;
    const uint8_t* const scales = at + cell_code_bytes(format) + lane;
    const bool has_sub = format.scale_bytes != 0;
    cell_scales(matrix.type, scale, minimum, has_sub ? scales[0] : uint8_t{0},
                has_sub ? scales[16] : uint8_t{0}, &values);
    cell_floats(matrix.type, values, out);
}

void packed_row(const PackedMatrix& matrix, uint32_t row, float* out)
{
    AOTX_KERNEL_CHECK(row < matrix.rows);
    const WeightFormat format = weight_format(matrix.type);
    const uint8_t* const group = matrix.data + (row / kGroupRows) * matrix.group_bytes;
    const uint32_t lane = row % kGroupRows;
    if (format.low_bits == 0) {
        for (uint64_t column = 0; column < matrix.columns; column++) {
            const uint64_t index = column * kGroupRows + lane;
            out[column] = source_float(matrix.type, group + index * format.source_bytes);
        }
        return;
    }
    for (uint32_t c = 0; c < matrix.columns / kCellColumns; c++) {
        packed_cell(matrix, row, c, out + uint64_t{c} * kCellColumns);
    }
}

void source_row(WeightType type, const uint8_t* row, uint32_t columns, float* out)
{
    const WeightFormat format = weight_format(type);
    if (format.low_bits == 0) {
        for (uint64_t column = 0; column < columns; column++) {
            out[column] = source_float(type, row + column * format.source_bytes);
        }
        return;
    }
    for (uint32_t c = 0; c < columns / kCellColumns; c++) {
        const uint32_t within = c % format.header_cells;
        const uint8_t* const block = row + uint64_t{c / format.header_cells} * format.source_bytes;
        const uint8_t* const scales = block + scale_offset(type);
        CellValues values;
        uint8_t first = 0;
        uint8_t second = 0;
        if (format.header_cells == 1) {
            codes_of_32(type, block, values.codes);
        } else {
            codes_of_256(type, block, within, values.codes);
            sub_scales(type, block, within, &first, &second);
        }
        const float minimum = format.has_minimum ? float_from_half(load_u16(scales + 2)) : 0.0f;
        cell_scales(type, float_from_half(load_u16(scales)), minimum, first, second, &values);
        cell_floats(type, values, out + uint64_t{c} * kCellColumns);
    }
}

}  // namespace aotx
