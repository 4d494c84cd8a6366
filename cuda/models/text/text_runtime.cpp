// Purpose:  open a text model and answer the verbs of the batched extension.
// Owns:     see text_runtime.h.
// Thread:   see text_runtime.h.
// Lifetime: see text_runtime.h.
#include "text_runtime.h"

#include <openssl/evp.h>
#include <sched.h>

#include <cstring>
#include <new>

#include "aotx/packet.h"
#include "aotx/status.h"
#include "engine_cpu/cpu_engine.h"

namespace aotx {

namespace {

TextRuntime* runtime_of(void* self)
{
    return static_cast<TextRuntime*>(self);
}

int verb_render(void* self, const aotx_text_message* messages, uint32_t messages_count,
                int32_t* tokens, uint32_t tokens_capacity, uint32_t* tokens_count)
{
    return runtime_of(self)->render(messages, messages_count, tokens, tokens_capacity,
                                    tokens_count);
}

int verb_tokenize(void* self, const uint8_t* text, uint32_t text_bytes, uint32_t parse_special,
                  uint32_t add_start, int32_t* tokens, uint32_t tokens_capacity,
                  uint32_t* tokens_count)
{
    return runtime_of(self)->tokenize(text, text_bytes, parse_special, add_start, tokens,
                                      tokens_capacity, tokens_count);
}

int verb_token_bytes(void* self, int32_t token, const uint8_t** bytes, uint32_t* bytes_count,
                     uint32_t* flags)
{
    return runtime_of(self)->token_bytes(token, bytes, bytes_count, flags);
}

int verb_sequence_open(void* self, uint32_t sequence, uint32_t tokens_max)
{
    return runtime_of(self)->sequence_open(sequence, tokens_max);
}

int verb_sequence_close(void* self, uint32_t sequence)
{
    return runtime_of(self)->sequence_close(sequence);
}

int verb_step(void* self, aotx_text_row* rows, uint32_t rows_count)
{
    return runtime_of(self)->step(rows, rows_count);
}

int verb_step_sample(void* self, aotx_text_row* rows, uint32_t rows_count, aotx_text_draw* draws)
{
    return runtime_of(self)->step_sample(rows, rows_count, draws);
}

// Cores that this process may use.
uint32_t cores_count()
{
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0) {
        return 1;
    }
    const int count = CPU_COUNT(&set);
    return count < 1 ? 1u : static_cast<uint32_t>(count);
}

// Device status of open to a verb code: the one table of this boundary.
int verb_from_open(int status)
{
    switch (status) {
        case AOTX_OK:
            return kVerbOk;
        case AOTX_ERR_NOT_FOUND:
            return kVerbNotFound;
        case AOTX_ERR_RANGE:
            return kVerbUnsupported;
        case AOTX_ERR_SYSTEM:
            return kVerbBackend;
        default:
            return kVerbInvalid;
    }
}

// What StepWorkers asks for, over a pool.
struct SharedWork {
    void (*work)(void* context, uint32_t begin, uint32_t end);
    void* context;
    uint32_t count;
    WorkCounter counter;
};

void workers_run(void* pool, void (*work)(void* context, uint32_t begin, uint32_t end),
                 void* context, uint32_t count)
{
    SharedWork shared = {work, context, count, {}};
    const auto run = [](void* from, uint32_t) {
        SharedWork* const job = static_cast<SharedWork*>(from);
        uint32_t begin = 0;
        uint32_t end = 0;
        while (job->counter.claim(job->count, 1, &begin, &end)) {
            job->work(job->context, begin, end);
        }
    };
    static_cast<WorkerPool*>(pool)->run(run, &shared);
}

bool sha256_of(const uint8_t* data, uint64_t bytes, uint8_t* digest)
{
    unsigned int digest_bytes = 0;
    return EVP_Digest(data, bytes, digest, &digest_bytes, EVP_sha256(), nullptr) == 1;
}

}  // namespace

int TextRuntime::fail(int code, const char* field, const char* what) noexcept
{
    return text_refuse(&reason_, code, field, what);
}

int TextRuntime::open(const char* config_json, TextReason* reason,
                      TextEngineOpen cuda_open) noexcept
{
    cuda_open_ = cuda_open;
    TextConfig config;
    if (text_config_parse(config_json, &config, reason) != AOTX_OK) {
        return kVerbInvalid;
    }
    const int status = open_model(config, reason);
    if (status != AOTX_OK) {
        return verb_from_open(status);
    }
    fill_properties(config);
    table_ = {AOTX_TEXT_RUNTIME_ABI_VERSION,
              sizeof table_,
              this,
              &properties_,
              &verb_render,
              &verb_tokenize,
              &verb_token_bytes,
              &verb_sequence_open,
              &verb_sequence_close,
              &verb_step,
              engine_->samples() ? &verb_step_sample : nullptr};
    return kVerbOk;
}

int TextRuntime::open_model(const TextConfig& config, TextReason* reason) noexcept
{
    int status = file_.open(config.model_path.c_str(), reason);
    if (status != AOTX_OK) {
        return status;
    }
    status = tokenizer_.open(file_, reason);
    if (status != AOTX_OK) {
        return status;
    }
    status = format_.open(file_, &tokenizer_, reason);
    if (status != AOTX_OK) {
        return status;
    }
    if (!sha256_of(file_.data(), file_.bytes(), properties_.sha256)) {
        return text_refuse(reason, AOTX_ERR_SYSTEM, "sha256", "could not be computed");
    }
    const uint32_t threads = config.threads != 0 ? config.threads : cores_count();
    if (!pool_.open(threads < kWorkersMax ? threads : kWorkersMax)) {
        return text_refuse(reason, AOTX_ERR_SYSTEM, "threads", "could not be started");
    }
    status = source_.open(file_, reason);
    if (status != AOTX_OK) {
        return status;
    }
    if (tokenizer_.vocab_size() > source_.shape().vocab) {
        return text_refuse(reason, AOTX_ERR_RANGE, "token_embd.weight",
                           "has fewer rows than the vocabulary has tokens");
    }
    status = open_engine(config, reason);
    return status != AOTX_OK ? status : open_memory(config, reason);
}

int TextRuntime::open_engine(const TextConfig& config, TextReason* reason) noexcept
{
    const ModelShape& shape = source_.shape();
    const uint32_t most =
        shape.context_tokens < config.kv_tokens ? shape.context_tokens : config.kv_tokens;
    sequence_tokens_ = config.sequence_tokens == 0 ? most : config.sequence_tokens;
    if (sequence_tokens_ > most) {
        return text_refuse_number(reason, AOTX_ERR_RANGE, "sequence_tokens",
                                  "is above the model's context or kv_tokens:", sequence_tokens_);
    }
    StepEngineRequest request;
    request.source = &source_;
    request.workers = {&pool_, &workers_run};
    request.sequences = config.sequences;
    request.sequence_tokens = sequence_tokens_;
    request.step_tokens = config.step_tokens;
    request.kv_tokens = config.kv_tokens;
    request.activations = config.activations;
    if (config.device != DeviceChoice::kCpu) {
        engine_ = open_cuda(request, reason);
        if (engine_ == nullptr && config.device == DeviceChoice::kCuda) {
            return AOTX_ERR_SYSTEM;
        }
    }
    if (engine_ == nullptr) {
        device_note_ = config.device == DeviceChoice::kAuto ? *reason : TextReason();
        engine_ = CpuEngine::open(request, &pool_, reason);
    }
    if (engine_ == nullptr) {
        return AOTX_ERR_SYSTEM;
    }
    pages_ = engine_->pages();
    return AOTX_OK;
}

std::unique_ptr<StepEngine> TextRuntime::open_cuda(const StepEngineRequest& request,
                                                   TextReason* reason) noexcept
{
    const TextEngineOpen door = cuda_open_ != nullptr ? cuda_open_ : cuda_library_find(reason);
    StepEngine* const engine =
        door == nullptr ? nullptr : door(kTextEngineVersion, sizeof request, &request, reason);
    return std::unique_ptr<StepEngine>(engine);
}

int TextRuntime::open_memory(const TextConfig& config, TextReason* reason) noexcept
{
    step_tokens_max_ = config.step_tokens;
    step_tokens_.reset(new (std::nothrow) StepToken[config.step_tokens]);
    in_step_.reset(new (std::nothrow) uint8_t[config.sequences]());
    draws_.reset(new (std::nothrow) StepDraw[config.sequences]());
    chosen_.reset(new (std::nothrow) int32_t[config.sequences]());
    if (step_tokens_ == nullptr || in_step_ == nullptr || draws_ == nullptr || chosen_ == nullptr ||
        tokenizer_scratch_.open(kPromptBytesMax) != AOTX_OK ||
        chat_scratch_.open(kPromptBytesMax) != AOTX_OK) {
        return text_refuse(reason, AOTX_ERR_SYSTEM, "memory", "is not enough for this model");
    }
    return AOTX_OK;
}

void TextRuntime::fill_properties(const TextConfig& config) noexcept
{
    properties_.struct_size = sizeof properties_;
    properties_.vocab_size = source_.shape().vocab;
    properties_.sequences_max = config.sequences;
    properties_.sequence_tokens_max = sequence_tokens_;
    properties_.step_tokens_max = step_tokens_max_;
    properties_.step_rows_max = config.sequences;
    properties_.page_tokens = pages_->pages_shape().page_tokens;
    properties_.pages_count = pages_->pages_free();
    properties_.prompt_bytes_max = kPromptBytesMax;
    properties_.token_bytes_max = tokenizer_.token_bytes_max();
    properties_.modalities = AOTX_MODALITY_TEXT;
    properties_.allocation_bytes =
        engine_->allocation_bytes() + source_.allocation_bytes() + tokenizer_.allocation_bytes() +
        tokenizer_scratch_.allocation_bytes() + format_.allocation_bytes() +
        chat_scratch_.allocation_bytes() + file_.table_bytes() +
        uint64_t{step_tokens_max_} * sizeof(StepToken) +
        config.sequences * (1 + sizeof(StepDraw) + sizeof(int32_t));
    properties_.mapped_bytes = file_.bytes();
}

int TextRuntime::render(const aotx_text_message* messages, uint32_t messages_count, int32_t* tokens,
                        uint32_t tokens_capacity, uint32_t* tokens_count) noexcept
{
    if (tokens_count == nullptr || (tokens == nullptr && tokens_capacity != 0)) {
        return fail(kVerbInvalid, "tokens", "is null");
    }
    if (!format_.present()) {
        return fail(kVerbUnsupported, "tokenizer.chat_template", "is not in this model");
    }
    const int status =
        chat_encode(format_, &chat_scratch_, tokenizer_, &tokenizer_scratch_, messages,
                    messages_count, tokens, tokens_capacity, tokens_count, &reason_);
    switch (status) {
        case AOTX_OK:
            succeed();
            return kVerbOk;
        case AOTX_ERR_FULL:
            return fail(kVerbStorage, "tokens", "are more than there is room for");
        case AOTX_ERR_STATE:
            return kVerbUnsupported;
        default:
            return fail(kVerbInvalid, "messages", "are empty or hold a bad role or kind");
    }
}

int TextRuntime::tokenize(const uint8_t* text, uint32_t text_bytes, uint32_t parse_special,
                          uint32_t add_start, int32_t* tokens, uint32_t tokens_capacity,
                          uint32_t* tokens_count) noexcept
{
    const bool null_text = text == nullptr && text_bytes != 0;
    const bool null_tokens = tokens == nullptr && tokens_capacity != 0;
    if (tokens_count == nullptr || null_text || null_tokens) {
        return fail(kVerbInvalid, "text", "or tokens is null");
    }
    if (parse_special > 1 || add_start > 1) {
        return fail(kVerbInvalid, "parse_special", "or add_start is neither 0 nor 1");
    }
    TextInput input;
    input.text = reinterpret_cast<const char*>(text);
    input.bytes = text_bytes;
    input.parse_special = parse_special == 1;
    input.add_start = add_start == 1;
    const int status =
        tokenizer_.encode(&tokenizer_scratch_, input, tokens, tokens_capacity, tokens_count);
    if (status == AOTX_ERR_FULL) {
        return fail(kVerbStorage, "tokens", "are more than there is room for");
    }
    if (status != AOTX_OK) {
        return fail(kVerbInvalid, "add_start", "needs a start token, which this model lacks");
    }
    succeed();
    return kVerbOk;
}

int TextRuntime::token_bytes(int32_t token, const uint8_t** bytes, uint32_t* bytes_count,
                             uint32_t* flags) noexcept
{
    // Any thread: nothing of the runtime is written here, the last error included.
    if (bytes == nullptr || bytes_count == nullptr || flags == nullptr) {
        return kVerbInvalid;
    }
    if (!tokenizer_.token_bytes(token, bytes, bytes_count)) {
        return kVerbNotFound;
    }
    *flags = tokenizer_.flags(token);
    return kVerbOk;
}

int TextRuntime::sequence_open(uint32_t sequence, uint32_t tokens_max) noexcept
{
    if (sequence >= properties_.sequences_max || pages_->is_open(sequence)) {
        return fail(kVerbInvalid, "sequence", "is open already or out of range");
    }
    if (tokens_max == 0 || tokens_max > sequence_tokens_) {
        return fail(kVerbShape, "tokens_max", "is 0 or above sequence_tokens_max");
    }
    if (failed_ && revive() != kVerbOk) {
        return kVerbBackend;
    }
    if (!pages_->open_sequence(sequence, tokens_max)) {
        return fail(kVerbStorage, "pages", "are not enough for another sequence");
    }
    succeed();
    return kVerbOk;
}

// Bring the engine's device back. What was open lost its keys and values with it, so all of that
// must have been closed before.
int TextRuntime::revive() noexcept
{
    if (pages_->open_count() != 0) {
        return fail(kVerbBackend, "device", "has failed; close what is open first");
    }
    if (!engine_->revive(&reason_)) {
        return kVerbBackend;
    }
    failed_ = false;
    return kVerbOk;
}

int TextRuntime::sequence_close(uint32_t sequence) noexcept
{
    if (sequence >= properties_.sequences_max || !pages_->is_open(sequence)) {
        return fail(kVerbInvalid, "sequence", "is not open");
    }
    pages_->close_sequence(sequence);
    succeed();
    return kVerbOk;
}

// Judge a whole step before anything is touched.
int TextRuntime::check_step(const aotx_text_row* rows, uint32_t rows_count) noexcept
{
    if (rows == nullptr || rows_count == 0) {
        return fail(kVerbInvalid, "rows", "is empty");
    }
    if (rows_count > properties_.step_rows_max) {
        return fail(kVerbShape, "rows", "are more than a step takes");
    }
    std::memset(in_step_.get(), 0, properties_.sequences_max);
    uint64_t tokens_total = 0;
    for (uint32_t i = 0; i < rows_count; i++) {
        const aotx_text_row& row = rows[i];
        if (row.sequence >= properties_.sequences_max || !pages_->is_open(row.sequence) ||
            in_step_[row.sequence] != 0) {
            return fail(kVerbInvalid, "sequence", "of a row is closed, out of range or doubled");
        }
        in_step_[row.sequence] = 1;
        if (row.tokens_count == 0 || row.tokens == nullptr || row.wants_logits > 1 ||
            row.zero_20 != 0) {
            return fail(kVerbInvalid, "row", "has no tokens or a field out of range");
        }
        tokens_total += row.tokens_count;
        if (tokens_total > step_tokens_max_) {
            return fail(kVerbShape, "tokens", "are more than a step takes");
        }
        for (uint32_t t = 0; t < row.tokens_count; t++) {
            if (row.tokens[t] < 0 ||
                static_cast<uint32_t>(row.tokens[t]) >= properties_.vocab_size) {
                return fail(kVerbInvalid, "token", "is outside the vocabulary");
            }
        }
        const uint64_t after = uint64_t{pages_->length(row.sequence)} + row.tokens_count;
        if (after > pages_->tokens_max(row.sequence)) {
            return fail(kVerbStorage, "sequence", "has no room for these tokens");
        }
    }
    return kVerbOk;
}

int TextRuntime::check_draws(const aotx_text_row* rows, uint32_t rows_count,
                             const aotx_text_draw* draws) noexcept
{
    if (draws == nullptr) {
        return fail(kVerbInvalid, "draws", "is null");
    }
    for (uint32_t i = 0; i < rows_count; i++) {
        const aotx_text_draw& draw = draws[i];
        if (rows[i].wants_logits == 1 &&
            (!(draw.temperature >= 0.0f) || !(draw.top_p > 0.0f && draw.top_p <= 1.0f) ||
             !(draw.uniform >= 0.0 && draw.uniform < 1.0))) {
            return fail(kVerbInvalid, "draw", "of a row has a field out of range");
        }
    }
    return kVerbOk;
}

// Lay the rows' tokens out for the engine. Returns how many.
uint32_t TextRuntime::fill_step(const aotx_text_row* rows, uint32_t rows_count) noexcept
{
    uint32_t count = 0;
    uint32_t logits_rows = 0;
    for (uint32_t i = 0; i < rows_count; i++) {
        const aotx_text_row& row = rows[i];
        const uint32_t position = pages_->length(row.sequence);
        for (uint32_t t = 0; t < row.tokens_count; t++) {
            const bool wanted = row.wants_logits == 1 && t + 1 == row.tokens_count;
            step_tokens_[count++] = {static_cast<uint32_t>(row.tokens[t]), row.sequence,
                                     position + t, wanted ? logits_rows++ : kNoLogits};
        }
    }
    return count;
}

int TextRuntime::step(aotx_text_row* rows, uint32_t rows_count) noexcept
{
    const int code = check_step(rows, rows_count);
    if (code != kVerbOk) {
        return code;
    }
    if (failed_) {
        return fail(kVerbBackend, "device", "has failed");
    }

    const uint32_t count = fill_step(rows, rows_count);
    if (!engine_->step(step_tokens_.get(), count)) {
        failed_ = true;
        return fail(kVerbBackend, "device", "has failed in a step");
    }
    uint32_t logits_rows = 0;
    for (uint32_t i = 0; i < rows_count; i++) {
        pages_->append(rows[i].sequence, rows[i].tokens_count);
        rows[i].logits = rows[i].wants_logits == 1 ? engine_->logits(logits_rows++) : nullptr;
    }
    succeed();
    return kVerbOk;
}

int TextRuntime::step_sample(aotx_text_row* rows, uint32_t rows_count,
                             aotx_text_draw* draws) noexcept
{
    int code = check_step(rows, rows_count);
    code = code != kVerbOk ? code : check_draws(rows, rows_count, draws);
    if (code != kVerbOk) {
        return code;
    }
    if (failed_) {
        return fail(kVerbBackend, "device", "has failed");
    }

    uint32_t wanted = 0;
    for (uint32_t i = 0; i < rows_count; i++) {
        if (rows[i].wants_logits == 1) {
            draws_[wanted++] = {draws[i].temperature, draws[i].top_p, draws[i].uniform};
        }
    }
    const uint32_t count = fill_step(rows, rows_count);
    if (!engine_->step_sample(step_tokens_.get(), count, draws_.get(), chosen_.get())) {
        failed_ = true;
        return fail(kVerbBackend, "device", "has failed in a step");
    }
    wanted = 0;
    for (uint32_t i = 0; i < rows_count; i++) {
        pages_->append(rows[i].sequence, rows[i].tokens_count);
        rows[i].logits = nullptr;
        if (rows[i].wants_logits == 1) {
            draws[i].token = chosen_[wanted++];
        }
    }
    succeed();
    return kVerbOk;
}

}  // namespace aotx
