// Purpose:  the loop's own kernels, compiled for the device.
// Owns:     nothing.
// Thread:   not applicable.
// Lifetime: not applicable.
#include "cuda_tick.cuh"
#include "cuda_tick_list.h"

namespace aotx {

// The device function of a tick kernel's number, or null.
const void* tick_kernel_function(unsigned kernel) noexcept
{
    switch (kernel) {
#define AOTX_KERNEL(name, arguments, function) \
    case kTickKernel_##name:                   \
        return reinterpret_cast<const void*>(&function);
        AOTX_KERNELS_TICK
#undef AOTX_KERNEL
        default:
            return nullptr;
    }
}

}  // namespace aotx
