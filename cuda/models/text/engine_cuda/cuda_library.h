// Purpose:  the door between the text runtime and the shared object that holds the CUDA engine.
// Owns:     nothing; the object stays loaded for the life of the process.
// Thread:   the thread that opens the runtime.
// Lifetime: load time.
//
// Both sides are made by one build: the door checks that they are, then objects cross it.
#pragma once

#include "engine/step_engine.h"

namespace aotx {

constexpr uint32_t kTextEngineVersion = 1;
constexpr const char* kTextEngineSymbol = "aotx_text_engine_v1";
constexpr const char* kTextEngineObject = "libaotx_cuda.so";

// Open an engine on the GPU. Null: *reason says why, as a plain sentence.
// version: kTextEngineVersion; request_bytes: sizeof of what stands behind request.
using TextEngineOpen = StepEngine* (*)(uint32_t version, uint64_t request_bytes,
                                       const StepEngineRequest* request, TextReason* reason);

// Find the shared object beside this one, beside the program or as the system finds it. Null: it is
// not there, *reason says so.
TextEngineOpen cuda_library_find(TextReason* reason) noexcept;

}  // namespace aotx
