// Purpose:  ports and stages of the plain level over the verbs of the batched one.
// Owns:     see plain_ports.h.
// Thread:   see plain_ports.h.
// Lifetime: see plain_ports.h.
#include "plain_ports.h"

#include <cstring>
#include <new>

#include "flashrt/builder.hpp"

namespace aotx {

bool PlainPorts::open(TextRuntime* runtime) noexcept
{
    runtime_ = runtime;
    const uint32_t tokens_max = runtime->properties().sequence_tokens_max;
    prompt_.reset(new (std::nothrow) int32_t[tokens_max]);
    answer_.reset(new (std::nothrow) int32_t[tokens_max]);
    return prompt_ != nullptr && answer_ != nullptr;
}

int PlainPorts::declare(frt_runtime_builder builder) const noexcept
{
    struct Port {
        const char* name;
        uint32_t modality;
        uint32_t dtype;
        uint32_t direction;
        uint32_t required;
        int64_t count;  // -1: varies
    };
    const int64_t vocab = runtime_->properties().vocab_size;
    const Port ports[] = {
        {"prompt", FRT_RT_MOD_TEXT, FRT_RT_DTYPE_U8, FRT_RT_PORT_IN, 0, -1},
        {"tokens", FRT_RT_MOD_TENSOR, FRT_RT_DTYPE_I32, FRT_RT_PORT_IN, 0, -1},
        {"next_token", FRT_RT_MOD_TENSOR, FRT_RT_DTYPE_I32, FRT_RT_PORT_OUT, 0, 1},
        {"logits", FRT_RT_MOD_TENSOR, FRT_RT_DTYPE_F32, FRT_RT_PORT_OUT, 0, vocab},
        {"is_eog", FRT_RT_MOD_TENSOR, FRT_RT_DTYPE_I32, FRT_RT_PORT_OUT, 0, 1},
        {"text", FRT_RT_MOD_TEXT, FRT_RT_DTYPE_U8, FRT_RT_PORT_OUT, 0, -1},
    };
    for (const Port& port : ports) {
        if (frt_runtime_builder_add_port(builder, port.name, port.modality, port.dtype,
                                         FRT_RT_LAYOUT_FLAT, port.direction, FRT_RT_PORT_STAGED,
                                         port.required, &port.count, 1, 0, nullptr, 0, 0) != 0) {
            return -1;
        }
    }
    const char* const stages[] = {"reset", "prefill", "decode"};
    for (uint32_t i = 0; i < 3; i++) {
        const uint32_t before = i - 1;
        if (frt_runtime_builder_add_generic_stage(builder, stages[i], FRT_GENERIC_STAGE_OPAQUE, i,
                                                  i == 0 ? nullptr : &before,
                                                  i == 0 ? 0 : 1) != 0) {
            return -1;
        }
    }
    return 0;
}

int PlainPorts::set_tokens(const void* data, uint64_t bytes) noexcept
{
    const aotx_text_properties& properties = runtime_->properties();
    if (bytes == 0 || bytes % sizeof(int32_t) != 0) {
        return runtime_->fail(kVerbShape, "tokens", "are not whole 32-bit numbers");
    }
    const uint64_t count = bytes / sizeof(int32_t);
    if (count > properties.sequence_tokens_max) {
        return runtime_->fail(kVerbStorage, "tokens", "are more than a sequence takes");
    }
    for (uint64_t i = 0; i < count; i++) {
        int32_t token;
        std::memcpy(&token, static_cast<const uint8_t*>(data) + i * sizeof token, sizeof token);
        if (token < 0 || static_cast<uint32_t>(token) >= properties.vocab_size) {
            return runtime_->fail(kVerbInvalid, "token", "is outside the vocabulary");
        }
    }

    std::memcpy(prompt_.get(), data, bytes);
    prompt_count_ = static_cast<uint32_t>(count);
    runtime_->succeed();
    return kVerbOk;
}

int PlainPorts::set_input(uint32_t port, const void* data, uint64_t bytes) noexcept
{
    if (port != kPortPrompt && port != kPortTokens) {
        return runtime_->fail(kVerbInvalid, "port", "is not an input");
    }
    if (data == nullptr) {
        return runtime_->fail(kVerbInvalid, "data", "is null");
    }
    if (port == kPortTokens) {
        return set_tokens(data, bytes);
    }
    const aotx_text_properties& properties = runtime_->properties();
    if (bytes > properties.prompt_bytes_max) {
        return runtime_->fail(kVerbStorage, "prompt", "is longer than prompt_bytes_max");
    }
    uint32_t count = 0;
    const uint32_t add_start = runtime_->tokenizer().add_bos() ? 1 : 0;
    const int code =
        runtime_->tokenize(static_cast<const uint8_t*>(data), static_cast<uint32_t>(bytes), 0,
                           add_start, prompt_.get(), properties.sequence_tokens_max, &count);
    // A refused prompt may have overwritten the tokens before it, so none are left then.
    prompt_count_ = code == kVerbOk ? count : 0;
    return code;
}

int PlainPorts::reset() noexcept
{
    if (open_) {
        const int code = runtime_->sequence_close(0);
        if (code != kVerbOk) {
            return code;
        }
        open_ = false;
    }
    answer_count_ = 0;
    fed_count_ = 0;
    logits_ = nullptr;
    next_token_ = kTokenNone;
    is_eog_ = 0;
    runtime_->succeed();
    return kVerbOk;
}

int PlainPorts::prefill() noexcept
{
    if (prompt_count_ == 0) {
        return runtime_->fail(kVerbInvalid, "prefill", "has neither a prompt nor tokens");
    }
    int code = reset();
    if (code == kVerbOk) {
        code = runtime_->sequence_open(0, runtime_->properties().sequence_tokens_max);
        open_ = code == kVerbOk;
    }
    return code == kVerbOk ? feed(prompt_.get(), prompt_count_) : code;
}

int PlainPorts::feed(const int32_t* tokens, uint32_t count) noexcept
{
    const aotx_text_properties& properties = runtime_->properties();
    if (count > properties.sequence_tokens_max - fed_count_) {
        return runtime_->fail(kVerbStorage, "sequence", "has no room for these tokens");
    }
    uint32_t done = 0;
    while (done < count) {
        const uint32_t left = count - done;
        aotx_text_row row = {};
        row.tokens_count = left < properties.step_tokens_max ? left : properties.step_tokens_max;
        row.tokens = tokens + done;
        row.wants_logits = row.tokens_count == left ? 1 : 0;
        const int code = runtime_->step(&row, 1);
        if (code != kVerbOk) {
            return code;
        }
        done += row.tokens_count;
        fed_count_ += row.tokens_count;
        logits_ = row.logits;
    }
    return kVerbOk;
}

int PlainPorts::decode() noexcept
{
    if (logits_ == nullptr) {
        return runtime_->fail(kVerbInvalid, "decode", "comes before any prefill");
    }
    int32_t best = 0;
    for (uint32_t i = 1; i < runtime_->properties().vocab_size; i++) {
        if (logits_[i] > logits_[best]) {
            best = static_cast<int32_t>(i);
        }
    }
    const bool ends = (runtime_->tokenizer().flags(best) & kTokenEnd) != 0;
    if (!ends) {
        const int code = feed(&best, 1);
        if (code != kVerbOk) {
            return code;
        }
        answer_[answer_count_++] = best;
    }
    next_token_ = best;
    is_eog_ = ends ? 1 : 0;
    runtime_->succeed();
    return kVerbOk;
}

int PlainPorts::run_stage(uint32_t stage) noexcept
{
    if (stage > kStageDecode) {
        return runtime_->fail(kVerbNotFound, "stage", "is not one of this runtime");
    }
    if (stage == kStageReset) {
        return reset();
    }
    return stage == kStagePrefill ? prefill() : decode();
}

int PlainPorts::step() noexcept
{
    for (uint32_t stage = kStageReset; stage <= kStageDecode; stage++) {
        const int code = run_stage(stage);
        if (code != kVerbOk) {
            return code;
        }
    }
    return kVerbOk;
}

int PlainPorts::put(const void* data, uint64_t bytes, void* out, uint64_t capacity,
                    uint64_t* written) noexcept
{
    *written = bytes;
    if (capacity < bytes) {
        return runtime_->fail(kVerbStorage, "out", "is too small");
    }
    if (bytes != 0) {
        std::memcpy(out, data, bytes);
    }
    runtime_->succeed();
    return kVerbOk;
}

int PlainPorts::put_text(void* out, uint64_t capacity, uint64_t* written) noexcept
{
    uint64_t total = 0;
    for (uint32_t pass = 0; pass < 2; pass++) {
        if (pass == 1 && total > capacity) {
            *written = total;
            return runtime_->fail(kVerbStorage, "out", "is too small");
        }
        total = 0;
        for (uint32_t i = 0; i < answer_count_; i++) {
            const uint8_t* bytes = nullptr;
            uint32_t count = 0;
            uint32_t flags = 0;
            const int code = runtime_->token_bytes(answer_[i], &bytes, &count, &flags);
            if (code != kVerbOk || (flags & AOTX_TEXT_TOKEN_CONTROL) != 0) {
                continue;
            }
            if (pass == 1 && count != 0) {
                std::memcpy(static_cast<uint8_t*>(out) + total, bytes, count);
            }
            total += count;
        }
    }
    *written = total;
    runtime_->succeed();
    return kVerbOk;
}

int PlainPorts::get_output(uint32_t port, void* out, uint64_t capacity, uint64_t* written) noexcept
{
    if (written == nullptr || (out == nullptr && capacity != 0)) {
        return runtime_->fail(kVerbInvalid, "out", "or written is null");
    }
    if (port == kPortText) {
        return put_text(out, capacity, written);
    }
    if (port < kPortNextToken || port > kPortText) {
        return runtime_->fail(kVerbInvalid, "port", "is not an output");
    }
    if (port == kPortLogits && logits_ != nullptr) {
        return put(logits_, uint64_t{runtime_->properties().vocab_size} * sizeof(float), out,
                   capacity, written);
    }
    if (port == kPortLogits || next_token_ == kTokenNone) {
        return runtime_->fail(kVerbInvalid, "port", "has nothing yet");
    }
    const int32_t* const value = port == kPortNextToken ? &next_token_ : &is_eog_;
    return put(value, sizeof *value, out, capacity, written);
}

}  // namespace aotx
