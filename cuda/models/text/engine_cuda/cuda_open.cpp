// Purpose:  the symbol of the CUDA shared object that opens a text engine.
// Owns:     nothing.
// Thread:   as cuda_library.h.
// Lifetime: of the shared object.
#include "engine_cuda/cuda_engine.h"
#include "engine_cuda/cuda_library.h"

extern "C" __attribute__((visibility("default"))) aotx::StepEngine* aotx_text_engine_v1(
    uint32_t version, uint64_t request_bytes, const aotx::StepEngineRequest* request,
    aotx::TextReason* reason)
{
    if (version != aotx::kTextEngineVersion || request_bytes != sizeof *request) {
        (void)aotx::text_refuse(reason, 0, "device", "cuda is of another build than this runtime");
        return nullptr;
    }
    aotx::CudaMachine machine;
    const aotx::CudaApi* const api = aotx::cuda_backend_api();
    api->probe(&machine);
    if (!aotx::cuda_usable(machine, reason->text, sizeof reason->text)) {
        return nullptr;
    }
    return aotx::CudaEngine::open(api, *request, reason).release();
}
