// Purpose:  the engine that runs steps on the CPU's kernels.
// Owns:     packed weights, cache and buffers; the worker pool is lent.
// Thread:   as StepEngine.
// Lifetime: as StepEngine; the pool outlives it.
#pragma once

#include <memory>

#include "engine/step_engine.h"
#include "engine_cpu/forward.h"

namespace aotx {

class CpuEngine final : public StepEngine {
public:
    // Null: refused, *reason says why.
    static std::unique_ptr<StepEngine> open(const StepEngineRequest& request, WorkerPool* pool,
                                            TextReason* reason) noexcept;

    const char* device() const noexcept override { return "cpu"; }
    KvPages* pages() noexcept override { return &cache_; }
    uint64_t allocation_bytes() const noexcept override { return allocation_bytes_; }
    bool wide_keys() const noexcept override { return cache_.wide(); }
    bool step(const StepToken* tokens, uint32_t count) noexcept override;
    const float* logits(uint32_t row) const noexcept override { return forward_.logits(row); }
    bool revive(TextReason* reason) noexcept override;

private:
    bool take(const StepEngineRequest& request, WorkerPool* pool, TextReason* reason) noexcept;

    Model model_;
    KvCache cache_;
    Forward forward_;
    uint64_t allocation_bytes_ = 0;
};

}  // namespace aotx
