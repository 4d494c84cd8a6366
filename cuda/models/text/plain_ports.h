// Purpose:  the plain level of the runtime contract: one sequence, ports and three opaque stages.
// Owns:     the pending and fed tokens of the one sequence.
// Thread:   the driver thread.
// Lifetime: open after the runtime -> verbs; the runtime outlives it.
//
// Stages. reset: no sequence, no text. prefill: a fresh sequence with the tokens of `prompt` or
// `tokens`, the last one written, which stay as they are. decode: choose the likeliest next token;
// unless it ends the generation, feed it and add its bytes to `text`. next_token and is_eog tell of
// the last decode, logits of the last token fed.
// The sequence takes number 0 of the batched level from prefill to reset, so a host uses one level
// or the other.
#pragma once

#include <cstdint>
#include <memory>

#include "flashrt/model_runtime.h"
#include "text_runtime.h"

namespace aotx {

enum PlainPort : uint32_t {
    kPortPrompt = 0,
    kPortTokens = 1,
    kPortNextToken = 2,
    kPortLogits = 3,
    kPortIsEog = 4,
    kPortText = 5
};

enum PlainStage : uint32_t { kStageReset = 0, kStagePrefill = 1, kStageDecode = 2 };

class PlainPorts {
public:
    // False: no memory.
    [[nodiscard]] bool open(TextRuntime* runtime) noexcept;

    int set_input(uint32_t port, const void* data, uint64_t bytes) noexcept;
    int get_output(uint32_t port, void* out, uint64_t capacity, uint64_t* written) noexcept;
    int run_stage(uint32_t stage) noexcept;
    int step() noexcept;  // the three stages in their order

    // Declare ports and stages. Not 0: refused, frt_runtime_refusal() says why.
    int declare(struct frt_runtime_builder_s* builder) const noexcept;

private:
    int reset() noexcept;
    int prefill() noexcept;
    int feed(const int32_t* tokens, uint32_t count) noexcept;
    int decode() noexcept;
    int set_tokens(const void* data, uint64_t bytes) noexcept;
    int put(const void* data, uint64_t bytes, void* out, uint64_t capacity,
            uint64_t* written) noexcept;
    int put_text(void* out, uint64_t capacity, uint64_t* written) noexcept;

    TextRuntime* runtime_ = nullptr;
    std::unique_ptr<int32_t[]> prompt_;  // [sequence_tokens_max]
    std::unique_ptr<int32_t[]> answer_;  // [sequence_tokens_max] fed by decode
    uint32_t prompt_count_ = 0;
    uint32_t answer_count_ = 0;
    uint32_t fed_count_ = 0;
    bool open_ = false;
    const float* logits_ = nullptr;
    int32_t next_token_ = kTokenNone;
    int32_t is_eog_ = 0;
};

}  // namespace aotx
