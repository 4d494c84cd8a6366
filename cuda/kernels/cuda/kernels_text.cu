// Purpose:  the transformer kernels, compiled for the device.
// Owns:     nothing.
// Thread:   not applicable.
// Lifetime: not applicable.
#include "attention.cuh"
#include "kernel_list.h"
#include "matmul.cuh"
#include "sample.cuh"
#include "step.cuh"
#include "token.cuh"

namespace aotx {

// The device function of a kernel number, or null.
const void* kernel_function(unsigned kernel) noexcept
{
    switch (kernel) {
#define AOTX_KERNEL(name, arguments, function) \
    case kKernel_##name:                       \
        return reinterpret_cast<const void*>(&function);
        AOTX_KERNELS_TEXT
#undef AOTX_KERNEL
        default:
            return nullptr;
    }
}

}  // namespace aotx
