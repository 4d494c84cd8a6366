// Purpose:  the engine that runs steps on the CPU's kernels.
// Owns:     see cpu_engine.h.
// Thread:   see cpu_engine.h.
// Lifetime: see cpu_engine.h.
#include "engine_cpu/cpu_engine.h"

#include <new>

#include "aotx/status.h"

namespace aotx {

bool CpuEngine::take(const StepEngineRequest& request, WorkerPool* pool,
                     TextReason* reason) noexcept
{
    if (model_.open(*request.source, pool, reason) != AOTX_OK) {
        return false;
    }
    const ModelShape& shape = model_.shape();
    const uint32_t pages = (request.kv_tokens + kKeyPageTokens - 1) / kKeyPageTokens;
    const KvShape kv = {shape.layers,           shape.kv_heads,
                        shape.head_size,        request.activations == ActivationMode::kFloat,
                        request.sequences,      pages,
                        request.sequence_tokens};
    const ForwardShape forward = {request.step_tokens, request.sequences, request.sequence_tokens,
                                  request.activations};
    if (!cache_.open(kv) || !forward_.open(model_, &cache_, pool, forward)) {
        (void)text_refuse(reason, 0, "memory", "is not enough for this model");
        return false;
    }
    allocation_bytes_ =
        KvCache::allocation_bytes(kv) + model_.allocation_bytes() + forward_.allocation_bytes();
    return true;
}

std::unique_ptr<StepEngine> CpuEngine::open(const StepEngineRequest& request, WorkerPool* pool,
                                            TextReason* reason) noexcept
{
    std::unique_ptr<CpuEngine> engine(new (std::nothrow) CpuEngine());
    if (engine == nullptr || !engine->take(request, pool, reason)) {
        return nullptr;
    }
    return engine;
}

bool CpuEngine::step(const StepToken* tokens, uint32_t count) noexcept
{
    forward_.run(tokens, count);
    return true;
}

bool CpuEngine::revive(TextReason* reason) noexcept
{
    (void)reason;
    return true;  // a CPU that computes wrongly is not noticed here
}

}  // namespace aotx
