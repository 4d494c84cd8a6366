// Purpose:  a whole model runtime of the plain text level around one small class: its ports, its
//           stages, its verbs and its life. The author says what a prompt becomes, token by token.
// Owns:     the provider, the prompt and the answer, from open to the last release.
// Thread:   begin, next and reason on one driver thread at a time; the destructor on any.
// Lifetime: text_provider_open -> the last release.
//
// Nothing here throws; memory is taken at open alone. docs/providers.md says what the service does
// with such a runtime, and docs/examples/text_runtime.cpp is one.
#ifndef AOTX_TEXT_PROVIDER_HPP
#define AOTX_TEXT_PROVIDER_HPP

#include <cstdint>
#include <cstring>
#include <new>

#include "flashrt/builder.hpp"

namespace aotx {

// One token of an answer. bytes stays the provider's and is read before its next call.
struct TextToken {
    int32_t id;
    const char* bytes;  // [bytes_count], UTF-8, may end inside a character
    uint64_t bytes_count;
};

// What next found.
enum TextNext : int { kTextEnded = 0, kTextToken = 1 };

// What an author writes: one sequence at a time, from a prompt to its tokens.
class TextProvider {
public:
    virtual ~TextProvider() = default;

    // Take in a whole prompt, UTF-8 without a terminator, and forget what was before. It stays
    // readable until the next begin. FRT_VERB_OK; FRT_VERB_SHAPE or FRT_VERB_STORAGE: not one that
    // this model takes; FRT_VERB_BACKEND: the engine failed. [hot]
    virtual int begin(const char* prompt, uint64_t prompt_bytes) noexcept = 0;

    // Choose one token: kTextToken and *token, or kTextEnded. FRT_VERB_STORAGE: the context is
    // full; FRT_VERB_BACKEND: the engine failed. [hot]
    virtual int next(TextToken* token) noexcept = 0;

    // Why the last call failed, a text that lives as long as the provider. [hot]
    virtual const char* reason() const noexcept { return "the engine failed"; }
};

// Name and sizes of a runtime; its memory is taken from them once.
struct TextProviderLimits {
    const char* name;           // identity of the model, e.g. "reverse/1"
    uint64_t prompt_bytes_max;  // of one prompt, at least 1
    uint64_t text_bytes_max;    // of one answer, at least 1
};

namespace detail {

// The runtime around a provider: what text_provider_open makes.
class PlainText {
public:
    enum Port : uint32_t { kPrompt, kNextToken, kIsEog, kText };
    enum Stage : uint32_t { kReset, kPrefill, kDecode };

    PlainText(TextProvider* provider, const TextProviderLimits& limits) noexcept
        : provider_(provider),
          limits_(limits),
          prompt_(new (std::nothrow) char[limits.prompt_bytes_max]),
          text_(new (std::nothrow) char[limits.text_bytes_max])
    {
    }
    ~PlainText()
    {
        delete[] prompt_;
        delete[] text_;
        delete provider_;
    }
    PlainText(const PlainText&) = delete;
    PlainText& operator=(const PlainText&) = delete;

    bool is_whole() const noexcept
    {
        return provider_ != nullptr && prompt_ != nullptr && text_ != nullptr;
    }

    static int set_input(void* self, uint32_t port, const void* data, uint64_t bytes, int) noexcept
    {
        PlainText* const plain = static_cast<PlainText*>(self);
        if (port != kPrompt || (data == nullptr && bytes != 0)) {
            return plain->end(FRT_VERB_INVALID, "only the prompt port takes input");
        }
        if (bytes > plain->limits_.prompt_bytes_max) {
            return plain->end(FRT_VERB_STORAGE, "the prompt is longer than this model takes");
        }
        if (bytes != 0) {
            std::memcpy(plain->prompt_, data, static_cast<size_t>(bytes));
        }
        plain->prompt_bytes_ = bytes;
        plain->state_ = State::kIdle;  // what was begun had the old prompt
        return plain->end(FRT_VERB_OK, "");
    }

    static int get_output(void* self, uint32_t port, void* out, uint64_t capacity,
                          uint64_t* written, int) noexcept
    {
        PlainText* const plain = static_cast<PlainText*>(self);
        const int32_t is_eog = plain->state_ == State::kEnded ? 1 : 0;
        const void* from = port == kText ? static_cast<const void*>(plain->text_) : &is_eog;
        if (port == kNextToken) {
            from = &plain->next_token_;
        }
        if (port == kPrompt || port > kText || out == nullptr || written == nullptr) {
            return plain->end(FRT_VERB_INVALID, "no such output, or nowhere to write it");
        }
        *written = port == kText ? plain->text_bytes_ : sizeof(int32_t);
        if (capacity < *written) {
            return plain->end(FRT_VERB_STORAGE, "the buffer is smaller than the payload");
        }
        std::memcpy(out, from, static_cast<size_t>(*written));
        return plain->end(FRT_VERB_OK, "");
    }

    static int run(void* self, uint32_t stage) noexcept
    {
        PlainText* const plain = static_cast<PlainText*>(self);
        switch (stage) {
            case kReset:
                plain->forget();
                plain->prompt_bytes_ = 0;
                return plain->end(FRT_VERB_OK, "");
            case kPrefill:
                return plain->prefill();
            case kDecode:
                return plain->decode();
            default:
                return plain->end(FRT_VERB_NOT_FOUND, "no such stage");
        }
    }

    static const char* last_error(void* self) noexcept
    {
        return static_cast<PlainText*>(self)->error_;
    }

private:
    enum class State { kIdle, kRunning, kEnded };

    int end(int code, const char* error) noexcept
    {
        error_ = error;
        return code;
    }
    void forget() noexcept
    {
        state_ = State::kIdle;
        text_bytes_ = 0;
        next_token_ = 0;
    }
    int prefill() noexcept
    {
        forget();
        const int code = provider_->begin(prompt_, prompt_bytes_);
        if (code != FRT_VERB_OK) {
            return end(code, provider_->reason());
        }
        state_ = State::kRunning;
        return end(FRT_VERB_OK, "");
    }
    int decode() noexcept
    {
        if (state_ == State::kIdle) {
            return end(FRT_VERB_INVALID, "decode comes after prefill");
        }
        if (state_ == State::kEnded) {
            return end(FRT_VERB_OK, "");
        }
        TextToken token = {0, nullptr, 0};
        const int found = provider_->next(&token);
        if (found < 0) {
            return end(found, provider_->reason());
        }
        if (found == kTextEnded) {
            state_ = State::kEnded;
            return end(FRT_VERB_OK, "");
        }
        if (token.bytes_count > limits_.text_bytes_max - text_bytes_) {
            return end(FRT_VERB_STORAGE, "the answer is longer than this model gives");
        }
        if (token.bytes_count != 0) {
            std::memcpy(text_ + text_bytes_, token.bytes, static_cast<size_t>(token.bytes_count));
        }
        text_bytes_ += token.bytes_count;
        next_token_ = token.id;
        return end(FRT_VERB_OK, "");
    }

    TextProvider* const provider_;
    const TextProviderLimits limits_;
    char* const prompt_;
    char* const text_;
    uint64_t prompt_bytes_ = 0;
    uint64_t text_bytes_ = 0;
    int32_t next_token_ = 0;
    State state_ = State::kIdle;
    const char* error_ = "";
};

inline int plain_declare(frt_runtime_builder builder, const char* name, PlainText* plain) noexcept
{
    constexpr struct {
        const char* name;
        uint32_t modality, dtype, direction;
        int64_t length;  // -1: any
    } kPorts[] = {{"prompt", FRT_RT_MOD_TEXT, FRT_RT_DTYPE_U8, FRT_RT_PORT_IN, -1},
                  {"next_token", FRT_RT_MOD_TENSOR, FRT_RT_DTYPE_I32, FRT_RT_PORT_OUT, 1},
                  {"is_eog", FRT_RT_MOD_TENSOR, FRT_RT_DTYPE_I32, FRT_RT_PORT_OUT, 1},
                  {"text", FRT_RT_MOD_TEXT, FRT_RT_DTYPE_U8, FRT_RT_PORT_OUT, -1}};
    constexpr const char* kStages[] = {"reset", "prefill", "decode"};
    int code = frt_runtime_builder_add_identity(builder, "model", name);
    for (const auto& port : kPorts) {
        code |= frt_runtime_builder_add_port(builder, port.name, port.modality, port.dtype,
                                             FRT_RT_LAYOUT_FLAT, port.direction, FRT_RT_PORT_STAGED,
                                             0, &port.length, 1, 0, nullptr, 0, 0);
    }
    for (uint32_t stage = 0; stage < 3; stage++) {
        code |= frt_runtime_builder_add_generic_stage(builder, kStages[stage],
                                                      FRT_GENERIC_STAGE_OPAQUE, stage, nullptr, 0);
    }
    code |= frt_runtime_builder_set_generic_stage_runner(builder, plain, PlainText::run);
    return code;
}

inline void plain_drop(void* plain) noexcept
{
    delete static_cast<PlainText*>(plain);
}

}  // namespace detail

// Make a runtime of the provider, which is taken over whatever the answer is; null counts as one
// that found no memory. FRT_VERB_OK and *out, one reference; FRT_VERB_INVALID: a limit of 0 or no
// out; FRT_VERB_BACKEND: no memory. On failure *out is null and the provider is gone. [open]
inline int text_provider_open(TextProvider* provider, const TextProviderLimits& limits,
                              frt_model_runtime_v1** out) noexcept
{
    if (out != nullptr) {
        *out = nullptr;
    }
    if (out == nullptr || limits.name == nullptr || limits.prompt_bytes_max == 0 ||
        limits.text_bytes_max == 0) {
        delete provider;
        return FRT_VERB_INVALID;
    }
    detail::PlainText* const plain = new (std::nothrow) detail::PlainText(provider, limits);
    if (plain == nullptr) {
        delete provider;
        return FRT_VERB_BACKEND;
    }
    const frt_runtime_builder builder = frt_model_runtime_builder_create_metadata();
    if (builder != nullptr && plain->is_whole() &&
        detail::plain_declare(builder, limits.name, plain) == 0) {
        const frt_model_runtime_verbs verbs = {
            sizeof verbs, 0,       detail::PlainText::set_input, detail::PlainText::get_output,
            nullptr,      nullptr, detail::PlainText::last_error};
        *out = frt_runtime_builder_finish_model(builder, &verbs, plain, plain, nullptr,
                                                detail::plain_drop);
    }
    if (*out == nullptr) {
        frt_runtime_builder_destroy(builder);
        detail::plain_drop(plain);
        return FRT_VERB_BACKEND;
    }
    return FRT_VERB_OK;
}

}  // namespace aotx

#endif
