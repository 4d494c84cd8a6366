// Purpose:  the scripted model as a model runtime: the factory, the batched table, the plain ports.
// Owns:     one Runtime for each opened object.
// Thread:   one driver thread at a time; retain and release from any.
// Lifetime: from open to the last release.
#include <cstring>
#include <new>
#include <string>

#include "flashrt/builder.hpp"
#include "script.h"

namespace aotx_scripted {

namespace {

enum Port : uint32_t {
    kPortPrompt = 0,
    kPortTokens = 1,
    kPortNextToken = 2,
    kPortLogits = 3,
    kPortIsEog = 4,
    kPortText = 5
};
enum Stage : uint32_t { kStageReset = 1, kStagePrefill = 2, kStageDecode = 3 };

// One opened object: the script, and for the plain level the one sequence that it runs.
struct Runtime {
    Script script;
    aotx_text_runtime_v1 table = {};
    std::vector<int32_t> prompt;
    uint32_t prompt_tokens = 0;
    std::string text;
    const float* logits = nullptr;
    int32_t next_token = 0;
    int32_t is_eog = 0;
    bool prefilled = false;
    bool decoded = false;
};

Runtime* runtime_of(void* self)
{
    return static_cast<Runtime*>(self);
}

// ---- batched level ----

int batched_render(void* self, const aotx_text_message* messages, uint32_t messages_count,
                   int32_t* tokens, uint32_t tokens_capacity, uint32_t* tokens_count)
{
    return runtime_of(self)->script.render(messages, messages_count, tokens, tokens_capacity,
                                           tokens_count);
}

int batched_tokenize(void* self, const uint8_t* text, uint32_t text_bytes, uint32_t,
                     uint32_t add_start, int32_t* tokens, uint32_t tokens_capacity,
                     uint32_t* tokens_count)
{
    return runtime_of(self)->script.tokenize(text, text_bytes, add_start != 0, tokens,
                                             tokens_capacity, tokens_count);
}

int batched_token_bytes(void* self, int32_t token, const uint8_t** bytes, uint32_t* bytes_count,
                        uint32_t* flags)
{
    return runtime_of(self)->script.token_bytes(token, bytes, bytes_count, flags);
}

int batched_sequence_open(void* self, uint32_t sequence, uint32_t tokens_max)
{
    return runtime_of(self)->script.sequence_open(sequence, tokens_max);
}

int batched_sequence_close(void* self, uint32_t sequence)
{
    return runtime_of(self)->script.sequence_close(sequence);
}

int batched_step(void* self, aotx_text_row* rows, uint32_t rows_count)
{
    return runtime_of(self)->script.step(rows, rows_count);
}

int32_t likeliest(const float* logits, uint32_t vocab)
{
    int32_t best = 0;
    for (uint32_t i = 1; i < vocab; i++) {
        best = logits[i] > logits[best] ? static_cast<int32_t>(i) : best;
    }
    return best;
}

int batched_step_sample(void* self, aotx_text_row* rows, uint32_t rows_count, aotx_text_draw* draws)
{
    Script* const script = &runtime_of(self)->script;
    const int code = script->step(rows, rows_count);
    for (uint32_t i = 0; code == 0 && i < rows_count; i++) {
        if (rows[i].logits != nullptr) {
            draws[i].token = likeliest(rows[i].logits, script->vocab());
            rows[i].logits = nullptr;
        }
    }
    return code;
}

int no_set_input(void* self, uint32_t, const void*, uint64_t, int)
{
    return runtime_of(self)->script.fail(-3, "the batched level has no ports");
}

int no_get_output(void* self, uint32_t, void*, uint64_t, uint64_t*, int)
{
    return runtime_of(self)->script.fail(-3, "the batched level has no ports");
}

// Nothing comes in through ports and nothing goes out, so a tick of them has nothing to do.
int step_without_ports(void* self)
{
    return runtime_of(self)->script.done();
}

// ---- plain level ----

int plain_set_input(void* self, uint32_t port, const void* data, uint64_t bytes, int)
{
    Runtime* const runtime = runtime_of(self);
    Script* const script = &runtime->script;
    const uint64_t room = script->options().sequence_tokens - 1u;
    if (data == nullptr && bytes != 0) {
        return script->fail(-1, "set_input: no data");
    }
    if (port == kPortPrompt) {
        if (bytes > room) {
            return script->fail(-4, "prompt: longer than a sequence");
        }
        uint32_t count = 0;
        const int code = script->tokenize(
            static_cast<const uint8_t*>(data), static_cast<uint32_t>(bytes), true,
            runtime->prompt.data(), static_cast<uint32_t>(runtime->prompt.size()), &count);
        runtime->prompt_tokens = code == 0 ? count : 0;
        return code;
    }
    if (port != kPortTokens) {
        return script->fail(-1, "set_input: not an input port");
    }
    if (bytes % sizeof(int32_t) != 0 || bytes / sizeof(int32_t) > room) {
        return script->fail(-4, "tokens: not whole, or more than a sequence");
    }
    std::memcpy(runtime->prompt.data(), data, bytes);
    runtime->prompt_tokens = static_cast<uint32_t>(bytes / sizeof(int32_t));
    return script->done();
}

int plain_copy_out(Runtime* runtime, const void* bytes, uint64_t bytes_count, void* out,
                   uint64_t capacity, uint64_t* written)
{
    *written = bytes_count;
    if (out == nullptr || capacity < bytes_count) {
        return runtime->script.fail(-5, "get_output: the buffer is too small");
    }
    std::memcpy(out, bytes, bytes_count);
    return runtime->script.done();
}

int plain_get_output(void* self, uint32_t port, void* out, uint64_t capacity, uint64_t* written,
                     int)
{
    Runtime* const runtime = runtime_of(self);
    if (written == nullptr) {
        return runtime->script.fail(-1, "get_output: no written");
    }
    *written = 0;
    if (port == kPortText) {
        return plain_copy_out(runtime, runtime->text.data(), runtime->text.size(), out, capacity,
                              written);
    }
    if (port == kPortLogits && runtime->logits != nullptr) {
        return plain_copy_out(runtime, runtime->logits, runtime->script.vocab() * sizeof(float),
                              out, capacity, written);
    }
    if ((port == kPortNextToken || port == kPortIsEog) && runtime->decoded) {
        return plain_copy_out(runtime,
                              port == kPortNextToken ? &runtime->next_token : &runtime->is_eog,
                              sizeof(int32_t), out, capacity, written);
    }
    return runtime->script.fail(-1, "get_output: not an output port, or nothing there yet");
}

int plain_feed(Runtime* runtime, const int32_t* tokens, uint32_t tokens_count)
{
    uint32_t fed = 0;
    while (fed < tokens_count) {
        const uint32_t left = tokens_count - fed;
        const uint32_t most = runtime->script.options().step_tokens;
        const uint32_t chunk = left < most ? left : most;
        aotx_text_row row = {0, chunk, tokens + fed, chunk == left ? 1u : 0u, 0, nullptr};
        const int code = runtime->script.step(&row, 1);
        if (code != 0) {
            return code;
        }
        fed += chunk;
        runtime->logits = row.logits;
    }
    return 0;
}

int plain_reset(Runtime* runtime)
{
    if (runtime->prefilled) {
        runtime->script.sequence_close(0);
    }
    runtime->prefilled = false;
    runtime->decoded = false;
    runtime->logits = nullptr;
    runtime->text.clear();
    return runtime->script.done();
}

int plain_prefill(Runtime* runtime)
{
    Script* const script = &runtime->script;
    if (runtime->prompt_tokens == 0) {
        return script->fail(-1, "prefill: no prompt");
    }
    plain_reset(runtime);
    const int code = script->sequence_open(0, script->options().sequence_tokens);
    if (code != 0) {
        return code;
    }
    runtime->prefilled = true;
    return plain_feed(runtime, runtime->prompt.data(), runtime->prompt_tokens);
}

int plain_decode(Runtime* runtime)
{
    Script* const script = &runtime->script;
    if (!runtime->prefilled || runtime->logits == nullptr) {
        return script->fail(-1, "decode: nothing was prefilled");
    }
    const int32_t best = likeliest(runtime->logits, script->vocab());
    const uint8_t* bytes = nullptr;
    uint32_t bytes_count = 0;
    uint32_t flags = 0;
    script->token_bytes(best, &bytes, &bytes_count, &flags);
    const bool ends = (flags & AOTX_TEXT_TOKEN_END) != 0;
    if (!ends) {
        const int code = plain_feed(runtime, &best, 1);
        if (code != 0) {
            return code;
        }
    }
    runtime->next_token = best;
    runtime->is_eog = ends ? 1 : 0;
    runtime->decoded = true;
    if ((flags & AOTX_TEXT_TOKEN_CONTROL) == 0) {
        runtime->text.append(reinterpret_cast<const char*>(bytes), bytes_count);
    }
    return script->done();
}

int plain_run(void* self, uint32_t stage)
{
    Runtime* const runtime = runtime_of(self);
    switch (stage) {
        case kStageReset:
            return plain_reset(runtime);
        case kStagePrefill:
            return plain_prefill(runtime);
        case kStageDecode:
            return plain_decode(runtime);
        default:
            return runtime->script.fail(-2, "no such stage");
    }
}

// ---- construction ----

const char* last_error(void* self)
{
    return runtime_of(self)->script.last_error();
}

void release_runtime(void* owner)
{
    delete runtime_of(owner);
}

int add_port(frt_runtime_builder builder, const char* name, uint32_t modality, uint32_t dtype,
             uint32_t direction, int64_t length)
{
    return frt_runtime_builder_add_port(builder, name, modality, dtype, FRT_RT_LAYOUT_FLAT,
                                        direction, FRT_RT_PORT_STAGED, 0, &length, 1, 0, nullptr, 0,
                                        0);
}

int add_plain(frt_runtime_builder builder, Runtime* runtime)
{
    const uint32_t after_reset = 0;
    const uint32_t after_prefill = 1;
    int code = 0;
    code |= add_port(builder, "prompt", FRT_RT_MOD_TEXT, FRT_RT_DTYPE_U8, FRT_RT_PORT_IN, -1);
    code |= add_port(builder, "tokens", FRT_RT_MOD_TENSOR, FRT_RT_DTYPE_I32, FRT_RT_PORT_IN, -1);
    code |=
        add_port(builder, "next_token", FRT_RT_MOD_TENSOR, FRT_RT_DTYPE_I32, FRT_RT_PORT_OUT, 1);
    code |= add_port(builder, "logits", FRT_RT_MOD_TENSOR, FRT_RT_DTYPE_F32, FRT_RT_PORT_OUT,
                     runtime->script.vocab());
    code |= add_port(builder, "is_eog", FRT_RT_MOD_TENSOR, FRT_RT_DTYPE_I32, FRT_RT_PORT_OUT, 1);
    code |= add_port(builder, "text", FRT_RT_MOD_TEXT, FRT_RT_DTYPE_U8, FRT_RT_PORT_OUT, -1);
    code |= frt_runtime_builder_add_generic_stage(builder, "reset", FRT_GENERIC_STAGE_OPAQUE,
                                                  kStageReset, nullptr, 0);
    code |= frt_runtime_builder_add_generic_stage(builder, "prefill", FRT_GENERIC_STAGE_OPAQUE,
                                                  kStagePrefill, &after_reset, 1);
    code |= frt_runtime_builder_add_generic_stage(builder, "decode", FRT_GENERIC_STAGE_OPAQUE,
                                                  kStageDecode, &after_prefill, 1);
    code |= frt_runtime_builder_set_generic_stage_runner(builder, runtime, plain_run);
    return code;
}

int add_batched(frt_runtime_builder builder, Runtime* runtime)
{
    const bool samples = runtime->script.options().samples;
    runtime->table = {AOTX_TEXT_RUNTIME_ABI_VERSION,
                      samples ? AOTX_TEXT_RUNTIME_V1_SAMPLE_SIZE : AOTX_TEXT_RUNTIME_V1_SIZE,
                      runtime,
                      &runtime->script.properties(),
                      batched_render,
                      batched_tokenize,
                      batched_token_bytes,
                      batched_sequence_open,
                      batched_sequence_close,
                      batched_step,
                      batched_step_sample};
    return frt_runtime_builder_add_extension(builder, AOTX_TEXT_RUNTIME_EXTENSION_ID,
                                             AOTX_TEXT_RUNTIME_ABI_VERSION, &runtime->table);
}

frt_model_runtime_v1* build(Runtime* runtime)
{
    const bool plain = runtime->script.options().plain;
    frt_runtime_builder const builder = frt_model_runtime_builder_create_metadata();
    if (builder == nullptr) {
        return nullptr;
    }
    int code = frt_runtime_builder_add_identity(builder, "provider", "scripted");
    code |= plain ? add_plain(builder, runtime) : add_batched(builder, runtime);
    frt_model_runtime_verbs verbs = {};
    verbs.struct_size = sizeof verbs;
    verbs.set_input = plain ? plain_set_input : no_set_input;
    verbs.get_output = plain ? plain_get_output : no_get_output;
    verbs.step = plain ? nullptr : step_without_ports;
    verbs.last_error = last_error;
    frt_model_runtime_v1* const made =
        code != 0 ? nullptr
                  : frt_runtime_builder_finish_model(builder, &verbs, runtime, runtime, nullptr,
                                                     release_runtime);
    if (made == nullptr) {
        frt_runtime_builder_destroy(builder);
    }
    return made;
}

int open_runtime(const char* config_json, frt_model_runtime_v1** out)
{
    ScriptOptions options;
    const char* reason = nullptr;
    if (!options_read(config_json, &options, &reason)) {
        return -1;
    }
    if (options.fail_open) {
        return -6;
    }
    Runtime* const runtime = new (std::nothrow) Runtime;
    if (runtime == nullptr || !runtime->script.open(options)) {
        delete runtime;
        return -5;
    }
    runtime->prompt.resize(options.sequence_tokens);
    runtime->text.reserve(1u << 20u);
    *out = build(runtime);
    if (*out == nullptr) {
        delete runtime;
        return -6;
    }
    return 0;
}

}  // namespace

}  // namespace aotx_scripted

// The one symbol that this library exports. -1: the options are wrong; -5: no memory; -6: it fails
// as scripted.
extern "C" __attribute__((visibility("default"))) int frt_model_runtime_open_v1(
    const char* config_json, frt_model_runtime_v1** out)
{
    if (out == nullptr) {
        return -1;
    }
    *out = nullptr;
    return aotx_scripted::open_runtime(config_json, out);
}
