// Purpose:  one open GGUF text model: the verbs of the batched extension and of the plain ports.
// Owns:     the file mapping, tokenizer, format, engine and worker threads.
// Thread:   one driver thread at a time; token_bytes from any.
// Lifetime: open -> verbs -> close (or destruction).
#pragma once

#include <cstdint>
#include <memory>

#include "aotx/text_runtime.h"
#include "chat/chat_template.h"
#include "config.h"
#include "cuda/kernels/cpu/worker_pool.h"
#include "engine/model_source.h"
#include "engine/step_engine.h"
#include "engine_cuda/cuda_library.h"
#include "file/gguf.h"
#include "tokenizer/tokenizer.h"

namespace aotx {

// Codes of the verbs of a model runtime.
enum VerbStatus : int {
    kVerbOk = 0,
    kVerbInvalid = -1,
    kVerbNotFound = -2,
    kVerbUnsupported = -3,
    kVerbShape = -4,
    kVerbStorage = -5,
    kVerbBackend = -6
};

constexpr uint32_t kPromptBytesMax = 1u << 20;

class TextRuntime {
public:
    TextRuntime() noexcept = default;
    TextRuntime(const TextRuntime&) = delete;
    TextRuntime& operator=(const TextRuntime&) = delete;

    // Open a model. kVerbInvalid a bad configuration; kVerbNotFound a file, key or tensor that is
    // not there; kVerbUnsupported a model that is not served; kVerbBackend no memory, threads or
    // device. reason says why. cuda_open: null, or what opens the CUDA engine instead of the shared
    // object that cuda_library_find would load.
    [[nodiscard]] int open(const char* config_json, TextReason* reason,
                           TextEngineOpen cuda_open = nullptr) noexcept;

    // Why the CPU serves although a GPU was asked for; empty when it was not, or serves.
    const char* device_note() const noexcept { return device_note_.text; }

    const aotx_text_runtime_v1* table() const noexcept { return &table_; }
    const aotx_text_properties& properties() const noexcept { return properties_; }
    const StepEngine& engine() const noexcept { return *engine_; }
    const Tokenizer& tokenizer() const noexcept { return tokenizer_; }
    const char* last_error() const noexcept { return reason_.text; }

    // The verbs; contracts in aotx/text_runtime.h.
    int render(const aotx_text_message* messages, uint32_t messages_count, int32_t* tokens,
               uint32_t tokens_capacity, uint32_t* tokens_count) noexcept;
    int tokenize(const uint8_t* text, uint32_t text_bytes, uint32_t parse_special,
                 uint32_t add_start, int32_t* tokens, uint32_t tokens_capacity,
                 uint32_t* tokens_count) noexcept;
    int token_bytes(int32_t token, const uint8_t** bytes, uint32_t* bytes_count,
                    uint32_t* flags) noexcept;
    int sequence_open(uint32_t sequence, uint32_t tokens_max) noexcept;
    int sequence_close(uint32_t sequence) noexcept;
    int step(aotx_text_row* rows, uint32_t rows_count) noexcept;
    int step_sample(aotx_text_row* rows, uint32_t rows_count, aotx_text_draw* draws) noexcept;

    // Keep words for last_error and return the code.
    int fail(int code, const char* field, const char* what) noexcept;
    void succeed() noexcept { reason_.text[0] = 0; }

private:
    int open_model(const TextConfig& config, TextReason* reason) noexcept;
    int open_engine(const TextConfig& config, TextReason* reason) noexcept;
    std::unique_ptr<StepEngine> open_cuda(const StepEngineRequest& request,
                                          TextReason* reason) noexcept;
    int open_memory(const TextConfig& config, TextReason* reason) noexcept;
    int revive() noexcept;
    void fill_properties(const TextConfig& config) noexcept;
    int check_step(const aotx_text_row* rows, uint32_t rows_count) noexcept;
    int check_draws(const aotx_text_row* rows, uint32_t rows_count,
                    const aotx_text_draw* draws) noexcept;
    uint32_t fill_step(const aotx_text_row* rows, uint32_t rows_count) noexcept;

    GgufFile file_;
    Tokenizer tokenizer_;
    TokenizerScratch tokenizer_scratch_;
    ChatTemplate format_;
    ChatScratch chat_scratch_;
    WorkerPool pool_;
    ModelSource source_;
    std::unique_ptr<StepEngine> engine_;
    KvPages* pages_ = nullptr;  // the engine's
    std::unique_ptr<StepToken[]> step_tokens_;
    std::unique_ptr<StepDraw[]> draws_;   // [sequences] of the wanted rows
    std::unique_ptr<int32_t[]> chosen_;   // [sequences]
    std::unique_ptr<uint8_t[]> in_step_;  // [sequences] mark of a row of the step being checked
    uint32_t step_tokens_max_ = 0;
    uint32_t sequence_tokens_ = 0;
    bool failed_ = false;  // the engine's device, until it is revived
    TextReason reason_;
    TextReason device_note_;
    TextEngineOpen cuda_open_ = nullptr;
    aotx_text_properties properties_ = {};
    aotx_text_runtime_v1 table_ = {};
};

}  // namespace aotx
