// Purpose:  every kernel of the device, once: its number, its name, its arguments, its function.
// The nvcc table, the emulator's table and the ptxas report are all made from this list.
// Owns:     nothing.
// Thread:   not applicable.
// Lifetime: not applicable.
#pragma once

// AOTX_KERNEL(name, arguments, function)
#define AOTX_KERNEL_PAIR(name, kind)                                   \
    AOTX_KERNEL(matmul_##name##_narrow, MatmulArgs, (matmul<kind, 1>)) \
    AOTX_KERNEL(matmul_##name##_wide, MatmulArgs, (matmul<kind, 4>))

#define AOTX_KERNELS_TEXT                            \
    AOTX_KERNEL(step_take, StepTakeArgs, step_take)  \
    AOTX_KERNEL(step_give, StepGiveArgs, step_give)  \
    AOTX_KERNEL(embed, EmbedArgs, embed)             \
    AOTX_KERNEL(attention, AttentionArgs, attention) \
    AOTX_KERNEL(sample, SampleArgs, sample)          \
    AOTX_KERNEL_PAIR(f32, kWeightF32)                \
    AOTX_KERNEL_PAIR(f16, kWeightF16)                \
    AOTX_KERNEL_PAIR(bf16, kWeightBF16)              \
    AOTX_KERNEL_PAIR(q4_0, kWeightQ4_0)              \
    AOTX_KERNEL_PAIR(q4_1, kWeightQ4_1)              \
    AOTX_KERNEL_PAIR(q5_0, kWeightQ5_0)              \
    AOTX_KERNEL_PAIR(q5_1, kWeightQ5_1)              \
    AOTX_KERNEL_PAIR(q8_0, kWeightQ8_0)              \
    AOTX_KERNEL_PAIR(q2k, kWeightQ2K)                \
    AOTX_KERNEL_PAIR(q3k, kWeightQ3K)                \
    AOTX_KERNEL_PAIR(q4k, kWeightQ4K)                \
    AOTX_KERNEL_PAIR(q5k, kWeightQ5K)                \
    AOTX_KERNEL_PAIR(q6k, kWeightQ6K)

namespace aotx {

enum Kernel : unsigned {
#define AOTX_KERNEL(name, arguments, function) kKernel_##name,
    AOTX_KERNELS_TEXT
#undef AOTX_KERNEL
};

}  // namespace aotx
