// Purpose:  the two ends of the CUDA backend: the table that it offers, the calls that it makes.
// Owns:     nothing.
// Thread:   any.
// Lifetime: static.
#pragma once

#include "cuda_api.h"
#include "loop_backend.h"

namespace aotx {

const LoopBackend* cuda_backend_table() noexcept;

}  // namespace aotx
