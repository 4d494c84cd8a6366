// Purpose:  the CPU kernels of a transformer as one table of functions, chosen at run time for the
//           machine's instruction set.
// Owns:     static tables.
// Thread:   any; every kernel works on its arguments alone.
// Lifetime: the whole process.
//
// Every result element is computed by one fixed order of operations that depends on nothing but its
// own inputs: not on how many rows are computed together and not on who computes them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "packed_matrix.h"

namespace aotx {

// 32 activations as 16-bit codes in two planes of bytes: value = scale * (255 * high + low), both
// planes in -127..127. Two planes keep outliers from drowning their block, which single bytes do:
// with single bytes the answer of a small model can hang on the rounding.
struct ActivationBlock {
    int8_t high[kCellColumns];
    int8_t low[kCellColumns];
    float scale;
    float sum;          // scale * code_sum
    int32_t code_sum;   // of all 255 * high + low
    float half_sum[2];  // the same for each half of 16
    int32_t half_code_sum[2];
    int32_t zero[9];
};
constexpr int32_t kPlaneStep = 255;
constexpr int32_t kCodeMax = 127 * kPlaneStep + 127;
static_assert(sizeof(ActivationBlock) == 128, "an activation block is two cache lines");

// Rows of a result: [tokens][stride] floats.
struct MatmulOutput {
    float* data;
    size_t stride;
    bool add;  // add to what is there instead of replacing it
};

constexpr uint32_t kKeyPageTokens = 32;  // keys that one KV page holds

// Queries of one KV head over one sequence's pages.
// A page of one head is: keys [head_size][32], then values [32][head_size]; f16, or f32 when wide.
struct AttendInput {
    const float* const* queries;  // [rows] f32 [head_size], scaled already
    const uint32_t* keys_counts;  // [rows] keys that each row sees, >= 1
    float* const* outputs;        // [rows] f32 [head_size]
    uint32_t rows;
    uint32_t head_size;   // a multiple of 8
    const uint8_t* pool;  // page p of this head starts at pool + p * page_stride_bytes
    uint64_t page_stride_bytes;
    const uint32_t* pages;  // page numbers of the sequence, in order
    bool wide;
    float* scratch;  // f32 [attend_scratch_floats]
};

// Scratch that attend needs for rows that see up to keys_count_max keys.
constexpr size_t attend_scratch_floats(size_t keys_count_max)
{
    const size_t page = kKeyPageTokens;
    return 4 * ((keys_count_max + page - 1) / page * page);
}

struct KernelTable {
    const char* target;  // name of the instruction set

    // x: f32 [columns], columns a multiple of 32; out: [columns / 32]. Not-a-number input gives
    // undefined codes but touches nothing else.
    void (*quantise)(const float* x, uint32_t columns, ActivationBlock* out);

    // Rows 16 * group_begin .. of matrix times tokens quantised inputs. Quantised types only.
    // x: [tokens][x_stride_blocks]
    void (*matmul_quantised)(const PackedMatrix& matrix, uint32_t group_begin, uint32_t group_end,
                             const ActivationBlock* x, size_t x_stride_blocks, uint32_t tokens,
                             const MatmulOutput& out);

    // The same with float activations and any type. x: f32 [tokens][x_stride];
    // scratch: f32 [16 * columns], aligned to 64, used by quantised types only.
    void (*matmul_float)(const PackedMatrix& matrix, uint32_t group_begin, uint32_t group_end,
                         const float* x, size_t x_stride, uint32_t tokens, float* scratch,
                         const MatmulOutput& out);

    // out[i] = x[i] / sqrt(mean(x^2) + epsilon) * weight[i]; out may be x.
    void (*rms_norm)(const float* x, const float* weight, uint32_t count, float epsilon,
                     float* out);

    // gate[i] = gate[i] / (1 + exp(-gate[i])) * up[i]
    void (*silu_multiply)(float* gate, const float* up, uint32_t count);

    // x[i] += bias[i]
    void (*add)(float* x, const float* bias, uint32_t count);

    // Rotate pairs of one head in place. table: f32 [pairs][2] cosine and sine. split false: pair i
    // is elements 2i and 2i+1; true: elements i and i + pairs.
    void (*rotate)(float* head, const float* table, uint32_t pairs, bool split);

    // Softmax attention, see AttendInput.
    void (*attend)(const AttendInput& input);
};

// The table of the best instruction set that this machine has (or that a test has selected through
// hwy::SetSupportedTargetsForTest).
const KernelTable& kernel_table();

// Store one key and one value of head_size floats at token slot 0..31 of a page. Values outside the
// element's range are clamped and not-a-number becomes the lowest value, so that a page always
// holds finite numbers. [hot]
void page_store(uint8_t* page, uint32_t head_size, uint32_t slot, const float* key,
                const float* value, bool wide);

// Bytes of one page of one head.
constexpr uint64_t page_bytes(uint32_t head_size, bool wide)
{
    return uint64_t{2} * kKeyPageTokens * head_size * (wide ? 4 : 2);
}

}  // namespace aotx
