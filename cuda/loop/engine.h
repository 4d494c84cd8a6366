// Purpose:  one face over the two levels of text runtime: batched extension, plain ports.
// Owns:     nothing; runtime and scratch memory are lent.
// Thread:   the stepper alone calls the verbs; engine_probe runs at open.
// Lifetime: as long as the loop.
#pragma once

#include "aotx/text_runtime.h"
#include "cuda/core/sample.h"
#include "cuda/core/schedule.h"
#include "flashrt/model_runtime.h"

namespace aotx {

// The plain level: port and stage numbers found by name, and the answer so far.
struct PlainEngine {
    uint32_t prompt_port;
    uint32_t next_token_port;
    uint32_t is_eog_port;
    uint32_t text_port;
    uint32_t reset_ref;
    uint32_t prefill_ref;
    uint32_t decode_ref;
    const frt_generic_stage_plan_ext_v1* plan;
    uint8_t* transcript;  // lent, [transcript_bytes_max]
    uint32_t transcript_bytes_max;
    uint8_t* text;  // lent, [text_bytes_max]
    uint32_t text_bytes_max;
    uint32_t text_bytes;  // already handed to the core
};

struct TextEngine {
    const frt_model_runtime_v1* runtime;
    const aotx_text_runtime_v1* batched;  // null at the plain level
    uint32_t vocab;
    uint32_t samples;                     // 1: the runtime chooses the tokens itself
    aotx_text_draw draws[kCoreSlotsMax];  // of the step that runs, where it does
    PlainEngine plain;
};

// Memory that one engine wants from the slab.
constexpr uint32_t kTranscriptExtraBytes = 2048;  // role names and line ends of 64 messages

// Find out which level a runtime offers and what it can do. False: neither; *reason says what is
// missing (static text). model: everything but role and sha256 when the runtime does not know its.
[[nodiscard]] bool engine_probe(const frt_model_runtime_v1* runtime, TextEngine* engine,
                                CoreModel* model, const char** reason) noexcept;

// Bytes that the runtime says it took at open.
uint64_t engine_allocation_bytes(const TextEngine& engine) noexcept;

// What a rendering gave.
struct EngineRender {
    uint32_t failure;        // 0, or the status that ends the request
    uint32_t fed_tokens;     // written to tokens
    uint32_t prompt_tokens;  // as told to the client
};

// Render a message array into tokens [tokens_capacity].
EngineRender engine_render(TextEngine* engine, const aotx_text_message* messages,
                           uint32_t messages_count, int32_t* tokens,
                           uint32_t tokens_capacity) noexcept;

CoreOpening engine_open(TextEngine* engine, uint32_t sequence, uint32_t tokens_max) noexcept;
void engine_close(TextEngine* engine, uint32_t sequence) noexcept;

// Scratch of a step, lent by the loop.
struct EngineStep {
    const CoreRow* rows;
    CoreToken* tokens;       // out, one a row
    aotx_text_row* scratch;  // [rows_count]
    uint32_t rows_count;
    uint32_t first_slot;  // of the model: sequence = slot - first_slot
    uint64_t seed;
    const CoreSlot* slots;
    SampleScratch* sample;
};

// Run one step and choose a token for each row that samples. False: the backend failed.
[[nodiscard]] bool engine_step(TextEngine* engine, EngineStep* step) noexcept;

}  // namespace aotx
