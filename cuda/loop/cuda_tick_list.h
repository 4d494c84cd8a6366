// Purpose:  the kernels of the loop itself, numbered behind those of kernel_list.h.
// Owns:     nothing.
// Thread:   not applicable.
// Lifetime: not applicable.
#pragma once

// AOTX_KERNEL(name, arguments, function)
#define AOTX_KERNELS_TICK                         \
    AOTX_KERNEL(tick_build, TickArgs, tick_build) \
    AOTX_KERNEL(tick, TickArgs, tick)

namespace aotx {

enum TickKernel : unsigned {
    kTickKernelFirst = 1000,
#define AOTX_KERNEL(name, arguments, function) kTickKernel_##name,
    AOTX_KERNELS_TICK
#undef AOTX_KERNEL
};

}  // namespace aotx
