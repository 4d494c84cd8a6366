// Purpose:  the two levels of text runtime behind engine.h.
// Owns:     nothing.
// Thread:   the stepper.
// Lifetime: as long as the loop.
#include "engine.h"

#include <cstring>

#include "runtime_status.h"

namespace aotx {

namespace {

constexpr uint32_t kPlainSequenceTokens = 65536;  // a plain runtime does not say what it holds

bool table_complete(const aotx_text_runtime_v1& table)
{
    return table.abi_version == AOTX_TEXT_RUNTIME_ABI_VERSION &&
           table.struct_size >= AOTX_TEXT_RUNTIME_V1_SIZE && table.properties != nullptr &&
           table.render != nullptr && table.tokenize != nullptr && table.token_bytes != nullptr &&
           table.sequence_open != nullptr && table.sequence_close != nullptr &&
           table.step != nullptr;
}

bool properties_sane(const aotx_text_properties& properties)
{
    return properties.struct_size >= sizeof properties && properties.vocab_size > 0 &&
           properties.sequences_max > 0 && properties.sequence_tokens_max > 0 &&
           properties.step_tokens_max > 0 && properties.step_rows_max > 0 &&
           properties.page_tokens > 0 && properties.pages_count > 0 &&
           properties.prompt_bytes_max > 0;
}

bool probe_batched(const aotx_text_runtime_v1& table, TextEngine* engine, CoreModel* model,
                   const char** reason)
{
    if (!table_complete(table)) {
        *reason = "the batched text extension is incomplete or of another version";
        return false;
    }
    const aotx_text_properties& properties = *table.properties;
    if (!properties_sane(properties)) {
        *reason = "the batched text extension reports properties out of range";
        return false;
    }
    engine->batched = &table;
    engine->vocab = properties.vocab_size;
    engine->samples =
        table.struct_size >= AOTX_TEXT_RUNTIME_V1_SAMPLE_SIZE && table.step_sample != nullptr ? 1u
                                                                                              : 0u;
    model->modalities = properties.modalities;
    model->slots_count =
        properties.sequences_max < kCoreSlotsMax ? properties.sequences_max : kCoreSlotsMax;
    model->sequence_tokens_max = properties.sequence_tokens_max;
    model->step_tokens_max = properties.step_tokens_max;
    model->step_rows_max = properties.step_rows_max;
    model->page_tokens = properties.page_tokens;
    model->pages_count = properties.pages_count;
    model->prompt_bytes_max = properties.prompt_bytes_max;
    if (core_all_zero(model->sha256, sizeof model->sha256)) {
        std::memcpy(model->sha256, properties.sha256, sizeof model->sha256);
    }
    return true;
}

bool find_port(const frt_model_runtime_v1& runtime, const char* name, uint32_t direction,
               uint32_t* port)
{
    for (uint64_t i = 0; i < runtime.n_ports; i++) {
        const frt_runtime_port_desc& candidate = runtime.ports[i];
        if (candidate.name != nullptr && std::strcmp(candidate.name, name) == 0 &&
            candidate.direction == direction && candidate.update == FRT_RT_PORT_STAGED) {
            *port = static_cast<uint32_t>(i);
            return true;
        }
    }
    return false;
}

bool find_stage(const frt_generic_stage_plan_ext_v1& plan, const char* name, uint32_t* ref)
{
    for (uint64_t i = 0; i < plan.n_stages; i++) {
        const frt_generic_stage_desc_v1& stage = plan.stages[i];
        if (stage.name != nullptr && std::strcmp(stage.name, name) == 0 &&
            stage.executor_kind == FRT_GENERIC_STAGE_OPAQUE) {
            *ref = stage.executor_ref;
            return true;
        }
    }
    return false;
}

bool probe_plain(const frt_model_runtime_v1& runtime, const void* table, TextEngine* engine,
                 CoreModel* model, const char** reason)
{
    PlainEngine* const plain = &engine->plain;
    if (table == nullptr || runtime.verbs.set_input == nullptr ||
        runtime.verbs.get_output == nullptr) {
        *reason = "the runtime has neither the batched text extension nor a generic stage plan";
        return false;
    }
    plain->plan = static_cast<const frt_generic_stage_plan_ext_v1*>(table);
    if (plain->plan->struct_size < FRT_GENERIC_STAGE_PLAN_EXT_V1_SIZE ||
        plain->plan->run_opaque == nullptr || plain->plan->stages == nullptr) {
        *reason = "the runtime's generic stage plan is incomplete";
        return false;
    }
    if (!find_port(runtime, "prompt", FRT_RT_PORT_IN, &plain->prompt_port) ||
        !find_port(runtime, "next_token", FRT_RT_PORT_OUT, &plain->next_token_port) ||
        !find_port(runtime, "is_eog", FRT_RT_PORT_OUT, &plain->is_eog_port) ||
        !find_port(runtime, "text", FRT_RT_PORT_OUT, &plain->text_port)) {
        *reason = "the runtime lacks one of the ports prompt, next_token, is_eog, text";
        return false;
    }
    if (!find_stage(*plain->plan, "reset", &plain->reset_ref) ||
        !find_stage(*plain->plan, "prefill", &plain->prefill_ref) ||
        !find_stage(*plain->plan, "decode", &plain->decode_ref)) {
        *reason = "the runtime lacks one of the stages reset, prefill, decode";
        return false;
    }
    model->modalities = AOTX_MODALITY_TEXT;
    model->slots_count = 1;
    model->sequence_tokens_max = kPlainSequenceTokens;
    model->step_tokens_max = 1;
    model->step_rows_max = 1;
    model->page_tokens = kPlainSequenceTokens;
    model->pages_count = 1;
    model->prompt_bytes_max = AOTX_PAYLOAD_BYTES_MAX;
    return true;
}

// ---- plain level ----

bool transcript_add(PlainEngine* plain, uint32_t* at, const uint8_t* bytes, uint32_t bytes_count)
{
    if (bytes_count > plain->transcript_bytes_max - *at) {
        return false;
    }
    std::memcpy(plain->transcript + *at, bytes, bytes_count);
    *at += bytes_count;
    return true;
}

bool transcript_add_text(PlainEngine* plain, uint32_t* at, const char* text)
{
    return transcript_add(plain, at, reinterpret_cast<const uint8_t*>(text),
                          static_cast<uint32_t>(std::strlen(text)));
}

// The transcript that docs/providers.md specifies: "role: text\n" a message, then "assistant:".
bool transcript_build(PlainEngine* plain, const aotx_text_message* messages,
                      uint32_t messages_count, uint32_t* bytes)
{
    static const char* const names[] = {"system: ", "user: ", "assistant: "};
    bool fits = true;
    *bytes = 0;
    for (uint32_t i = 0; i < messages_count; i++) {
        fits = fits && transcript_add_text(plain, bytes, names[messages[i].role]);
        for (uint32_t j = 0; j < messages[i].parts_count; j++) {
            const aotx_text_part& part = messages[i].parts[j];
            fits = fits && transcript_add(plain, bytes, part.data, part.bytes);
        }
        fits = fits && transcript_add_text(plain, bytes, "\n");
    }
    return fits && transcript_add_text(plain, bytes, "assistant:");
}

int plain_run(const PlainEngine& plain, uint32_t ref)
{
    return plain.plan->run_opaque(plain.plan->stage_self, ref);
}

EngineRender plain_render(TextEngine* engine, const aotx_text_message* messages,
                          uint32_t messages_count, int32_t* tokens)
{
    PlainEngine* const plain = &engine->plain;
    uint32_t bytes = 0;
    if (!transcript_build(plain, messages, messages_count, &bytes)) {
        return {AOTX_STATUS_TOO_LARGE, 0, 0};
    }
    uint32_t status = device_status(CodeSpace::opaque, plain_run(*plain, plain->reset_ref));
    if (status == AOTX_STATUS_NONE) {
        status = device_status(CodeSpace::verb, engine->runtime->verbs.set_input(
                                                    engine->runtime->self, plain->prompt_port,
                                                    plain->transcript, bytes, -1));
    }
    plain->text_bytes = 0;
    tokens[0] = 0;  // stands for the whole prompt, which the runtime keeps itself
    return {status, 1, 0};
}

bool plain_output(const TextEngine& engine, uint32_t port, int32_t* value)
{
    uint64_t written = 0;
    return engine.runtime->verbs.get_output(engine.runtime->self, port, value, sizeof *value,
                                            &written, -1) == FRT_VERB_OK &&
           written == sizeof *value;
}

// The bytes that the last decode added to the answer.
bool plain_piece(TextEngine* engine, CoreToken* token)
{
    PlainEngine* const plain = &engine->plain;
    uint64_t written = 0;
    const int code = engine->runtime->verbs.get_output(
        engine->runtime->self, plain->text_port, plain->text, plain->text_bytes_max, &written, -1);
    if ((code != FRT_VERB_OK && code != FRT_VERB_STORAGE) || written < plain->text_bytes ||
        written > UINT32_MAX) {
        return false;
    }
    // A text beyond the buffer is also beyond the output window: the core refuses it by its length
    // before it looks at a byte.
    token->bytes = plain->text + plain->text_bytes;
    token->bytes_count = static_cast<uint32_t>(written) - plain->text_bytes;
    plain->text_bytes = static_cast<uint32_t>(written);
    return true;
}

bool plain_step(TextEngine* engine, EngineStep* step)
{
    PlainEngine* const plain = &engine->plain;
    const CoreSlot& slot = step->slots[step->rows[0].slot];
    if (slot.fed_tokens < slot.prompt_tokens) {
        const int code = plain_run(*plain, plain->prefill_ref);
        if (device_status(CodeSpace::opaque, code) != AOTX_STATUS_NONE) {
            return false;
        }
    }
    CoreToken* const token = &step->tokens[0];
    *token = {nullptr, 0, 0, 0, 0, 0};
    const uint32_t status = device_status(CodeSpace::decode, plain_run(*plain, plain->decode_ref));
    if (status == AOTX_STATUS_OK) {
        token->full = 1;
        return true;
    }
    int32_t is_end = 0;
    if (status != AOTX_STATUS_NONE || !plain_output(*engine, plain->is_eog_port, &is_end)) {
        return false;
    }
    if (is_end != 0) {
        token->flags = AOTX_TEXT_TOKEN_END;
        return true;
    }
    return plain_output(*engine, plain->next_token_port, &token->token) &&
           plain_piece(engine, token);
}

// ---- batched level ----

double batched_uniform(const EngineStep& step, uint32_t row)
{
    const CoreSlot& slot = step.slots[step.rows[row].slot];
    return core_uniform(step.seed, slot.id, slot.sampled_tokens);
}

// The bytes of the token that was chosen for a row.
void batched_token(const TextEngine& engine, int32_t chosen, CoreToken* token)
{
    token->token = chosen;
    const int code = engine.batched->token_bytes(engine.batched->self, chosen, &token->bytes,
                                                 &token->bytes_count, &token->flags);
    if (device_status(CodeSpace::step, code) != AOTX_STATUS_NONE) {
        token->unreadable = 1;
    }
}

void batched_sample(const TextEngine& engine, const EngineStep& step, uint32_t row)
{
    const CoreSlot& slot = step.slots[step.rows[row].slot];
    CoreToken* const token = &step.tokens[row];
    *token = {nullptr, 0, 0, 0, 0, 0};
    if (step.scratch[row].logits == nullptr) {
        token->unreadable = 1;
        return;
    }
    const int32_t chosen = core_sample(step.scratch[row].logits, engine.vocab, slot.temperature,
                                       slot.top_p, batched_uniform(step, row), step.sample);
    batched_token(engine, chosen, token);
}

// A step of a runtime that chooses tokens where its logits are.
bool batched_step_sample(TextEngine* engine, EngineStep* step)
{
    for (uint32_t i = 0; i < step->rows_count; i++) {
        const CoreSlot& slot = step->slots[step->rows[i].slot];
        engine->draws[i] = {slot.temperature, slot.top_p, 0.0, 0, 0};
        if (step->rows[i].samples != 0) {
            engine->draws[i].uniform = batched_uniform(*step, i);
        }
    }
    const int code = engine->batched->step_sample(engine->batched->self, step->scratch,
                                                  step->rows_count, engine->draws);
    if (device_status(CodeSpace::step, code) != AOTX_STATUS_NONE) {
        return false;
    }
    for (uint32_t i = 0; i < step->rows_count; i++) {
        if (step->rows[i].samples != 0) {
            step->tokens[i] = {nullptr, 0, 0, 0, 0, 0};
            batched_token(*engine, engine->draws[i].token, &step->tokens[i]);
        }
    }
    return true;
}

bool batched_step(TextEngine* engine, EngineStep* step)
{
    for (uint32_t i = 0; i < step->rows_count; i++) {
        const CoreRow& row = step->rows[i];
        step->scratch[i] = {
            row.slot - step->first_slot, row.tokens_count, row.tokens, row.samples, 0, nullptr};
    }
    if (engine->samples != 0) {
        return batched_step_sample(engine, step);
    }
    const int code = engine->batched->step(engine->batched->self, step->scratch, step->rows_count);
    if (device_status(CodeSpace::step, code) != AOTX_STATUS_NONE) {
        return false;
    }
    for (uint32_t i = 0; i < step->rows_count; i++) {
        if (step->rows[i].samples != 0) {
            batched_sample(*engine, *step, i);
        }
    }
    return true;
}

}  // namespace

bool engine_probe(const frt_model_runtime_v1* runtime, TextEngine* engine, CoreModel* model,
                  const char** reason) noexcept
{
    *engine = {};
    engine->runtime = runtime;
    if (runtime == nullptr || runtime->abi_version != FRT_MODEL_RUNTIME_ABI_VERSION ||
        runtime->struct_size < FRT_MODEL_RUNTIME_V1_BASE_SIZE) {
        *reason = "the runtime object is of another version";
        return false;
    }
    if (runtime->struct_size < FRT_MODEL_RUNTIME_V1_QUERY_EXTENSION_SIZE ||
        runtime->query_extension == nullptr) {
        *reason = "the runtime offers no extensions";
        return false;
    }
    const void* table = nullptr;
    if (runtime->query_extension(runtime, AOTX_TEXT_RUNTIME_EXTENSION_ID,
                                 AOTX_TEXT_RUNTIME_ABI_VERSION, &table) == 0 &&
        table != nullptr) {
        return probe_batched(*static_cast<const aotx_text_runtime_v1*>(table), engine, model,
                             reason);
    }
    table = nullptr;
    if (runtime->query_extension(runtime, FRT_EXT_GENERIC_STAGE_PLAN_V1,
                                 FRT_GENERIC_STAGE_PLAN_ABI_VERSION, &table) != 0) {
        table = nullptr;
    }
    return probe_plain(*runtime, table, engine, model, reason);
}

uint64_t engine_allocation_bytes(const TextEngine& engine) noexcept
{
    return engine.batched == nullptr ? 0 : engine.batched->properties->allocation_bytes;
}

EngineRender engine_render(TextEngine* engine, const aotx_text_message* messages,
                           uint32_t messages_count, int32_t* tokens,
                           uint32_t tokens_capacity) noexcept
{
    if (engine->batched == nullptr) {
        return plain_render(engine, messages, messages_count, tokens);
    }
    uint32_t tokens_count = 0;
    const int code = engine->batched->render(engine->batched->self, messages, messages_count,
                                             tokens, tokens_capacity, &tokens_count);
    const uint32_t status = device_status(CodeSpace::verb, code);
    if (status != AOTX_STATUS_NONE) {
        return {status, 0, 0};
    }
    if (tokens_count == 0 || tokens_count > tokens_capacity) {
        return {AOTX_STATUS_UNAVAILABLE, 0, 0};
    }
    return {0, tokens_count, tokens_count};
}

CoreOpening engine_open(TextEngine* engine, uint32_t sequence, uint32_t tokens_max) noexcept
{
    if (engine->batched == nullptr) {
        return kOpeningDone;
    }
    const int code = engine->batched->sequence_open(engine->batched->self, sequence, tokens_max);
    const uint32_t status = device_status(CodeSpace::open, code);
    if (status == AOTX_STATUS_NONE) {
        return kOpeningDone;
    }
    return status == AOTX_STATUS_TOO_MANY ? kOpeningNoRoom : kOpeningFailed;
}

void engine_close(TextEngine* engine, uint32_t sequence) noexcept
{
    if (engine->batched != nullptr) {
        engine->batched->sequence_close(engine->batched->self, sequence);
    }
}

bool engine_step(TextEngine* engine, EngineStep* step) noexcept
{
    return engine->batched == nullptr ? plain_step(engine, step) : batched_step(engine, step);
}

}  // namespace aotx
