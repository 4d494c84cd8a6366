// Purpose:  the execution shim's launch, done by a real device: the kernels' own tests, unchanged,
// run on a card. What they hand to a kernel lies in memory that both sides can address, see
// device_kernels.cu.
// Owns:     nothing.
// Thread:   one.
// Lifetime: one launch.
#pragma once

#include <cuda_runtime.h>

#include <cstdio>

namespace emu {

struct LaunchShape {
    dim3 grid;
    dim3 block;
    size_t shared_bytes = 0;
};

template <auto kernel, typename... Arguments>
bool run(const LaunchShape& shape, Arguments... arguments)
{
    kernel<<<shape.grid, shape.block, shape.shared_bytes>>>(arguments...);
    const cudaError_t launched = cudaGetLastError();
    const cudaError_t code = launched != cudaSuccess ? launched : cudaDeviceSynchronize();
    if (code != cudaSuccess) {
        std::printf("launch: %s\n", cudaGetErrorString(code));
    }
    return code == cudaSuccess;
}

}  // namespace emu
