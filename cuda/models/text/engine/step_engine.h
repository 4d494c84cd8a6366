// Purpose:  what runs the steps of a text runtime: one face over the CPU's kernels and the GPU's.
// Owns:     nothing; an engine owns its weights, its keys and values, its buffers.
// Thread:   the driver thread; open and revive may use the workers that the request lends.
// Lifetime: opened once at load, destroyed with the runtime; the source outlives it.
//
// One call a step: nothing here is called for a token or an element. The front (file, tokenizer,
// format, judging of calls) is the same for every engine, so a step that reaches one is well
// formed: its tokens are in the vocabulary, its sequences open and with room.
#pragma once

#include <cstdint>
#include <memory>

#include "config.h"
#include "engine/kv_pages.h"
#include "engine/model_source.h"
#include "reason.h"

namespace aotx {

// One token of a step. Those of one sequence lie together, in order of their positions.
struct StepToken {
    uint32_t token;
    uint32_t sequence;
    uint32_t position;
    uint32_t logits_row;  // kNoLogits or the row of logits that it fills: 0, 1, ... in this order
};
constexpr uint32_t kNoLogits = ~0u;

// How the token of one wanted row is chosen; see aotx_text_draw.
struct StepDraw {
    float temperature;
    float top_p;
    double uniform;
};

// Work shared out over the threads of the runtime. [open and revive]
struct StepWorkers {
    void* self;
    // Call work(context, begin, end) for pieces of 0..count until all are done.
    void (*run)(void* self, void (*work)(void* context, uint32_t begin, uint32_t end),
                void* context, uint32_t count);
};

struct StepEngineRequest {
    const ModelSource* source = nullptr;
    StepWorkers workers = {};
    uint32_t sequences = 0;        // open at the same time; rows of logits of one step, at most
    uint32_t sequence_tokens = 0;  // positions, at most
    uint32_t step_tokens = 0;      // tokens of one step, at most
    uint32_t kv_tokens = 0;        // that all sequences together can hold
    ActivationMode activations = ActivationMode::kQuantised;
    uint32_t step_ms_max = 10000;  // a GPU that takes longer for one step has failed
};

class StepEngine {
public:
    virtual ~StepEngine() = default;

    virtual const char* device() const noexcept = 0;  // "cpu" or "cuda"
    // The sequences and their pages; the runtime opens, closes and appends, the engine reads.
    virtual KvPages* pages() noexcept = 0;
    virtual uint64_t allocation_bytes() const noexcept = 0;  // taken at open, weights included
    virtual bool wide_keys() const noexcept = 0;             // 32 bits instead of 16

    // Compute all tokens, store their keys and values, and fill the wanted rows of logits. count in
    // 1..step_tokens. False: the device failed; it stays failed until revive. [hot]
    [[nodiscard]] virtual bool step(const StepToken* tokens, uint32_t count) noexcept = 0;

    // f32 [vocab] of the last step, valid until the next. [hot]
    virtual const float* logits(uint32_t row) const noexcept = 0;

    // Whether step_sample may be called.
    virtual bool samples() const noexcept { return false; }

    // As step, but choose a token for every wanted row instead of handing logits out. draws and
    // chosen: [wanted rows]. [hot]
    [[nodiscard]] virtual bool step_sample(const StepToken* tokens, uint32_t count,
                                           const StepDraw* draws, int32_t* chosen) noexcept
    {
        (void)tokens;
        (void)count;
        (void)draws;
        (void)chosen;
        return false;
    }

    // Bring a failed device back, with no sequence open. False: it stays failed, *reason says why.
    [[nodiscard]] virtual bool revive(TextReason* reason) noexcept = 0;
};

}  // namespace aotx
