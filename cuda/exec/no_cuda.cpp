// Purpose:  what a build without the CUDA toolkit has in the place of its backend.
// Owns:     nothing.
// Thread:   any.
// Lifetime: constant.
#include "backend.h"

namespace aotx::exec {

const Backend* cuda_backend()
{
    return nullptr;
}

}  // namespace aotx::exec
