// Purpose:  what every backend of the loop plans first: the checked configuration, the runtimes'
// engines, the core's limits.
// Owns:     nothing.
// Thread:   main.
// Lifetime: before anything is taken.
#pragma once

#include "cuda/core/layout.h"
#include "engine.h"
#include "loop.h"

namespace aotx {

struct LimitsPlan {
    CoreLimits limits;  // service_allocation_bytes is the backend's to add
    TextEngine engines[kLoopModelsMax];
    uint64_t runtime_bytes;  // that the runtimes took when they were opened
};

// AOTX_ERR_RANGE or AOTX_ERR_RUNTIME as loop_open; *reason is a static text.
[[nodiscard]] int limits_plan(const LoopConfig& config, LimitsPlan* plan,
                              const char** reason) noexcept;

// Name what runs the core: kind is an enum aotx_device_kind, name and reason are cut and made
// printable as the packet wants them.
void device_row_make(uint32_t kind, const char* name, const char* reason,
                     aotx_device_row* row) noexcept;

}  // namespace aotx
