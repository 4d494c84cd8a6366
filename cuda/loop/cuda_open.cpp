// Purpose:  the symbol of the CUDA shared object that offers the loop's backend.
// Owns:     nothing.
// Thread:   main.
// Lifetime: of the shared object.
#include "cuda_backend.h"

extern "C" __attribute__((visibility("default"))) const aotx::LoopBackend* aotx_loop_backend_v1(
    char* reason, uint64_t reason_bytes)
{
    aotx::CudaMachine machine;
    aotx::cuda_backend_api()->probe(&machine);
    return aotx::cuda_usable(machine, reason, reason_bytes) ? aotx::cuda_backend_table() : nullptr;
}
