// Purpose:  the real CUDA backend under the name that the loop's tests ask for.
// Owns:     nothing; the shared object stays loaded.
// Thread:   main.
// Lifetime: of the test program.
#include <cstdio>
#include <cstdlib>

#include "cuda/loop/cuda_backend.h"

namespace aotx {

const LoopBackend* cuda_backend_table() noexcept
{
    static const LoopBackend* const table = [] {
        char reason[512] = {};
        const LoopBackend* const loaded =
            loop_backend_load(AOTX_CUDA_LIBRARY, reason, sizeof reason);
        if (loaded == nullptr) {
            std::fprintf(stderr, "%s\n", reason);
            std::exit(1);
        }
        return loaded;
    }();
    return table;
}

}  // namespace aotx
