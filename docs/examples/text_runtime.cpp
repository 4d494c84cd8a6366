// Purpose:  a whole text runtime of the plain level: it answers with the prompt read backwards.
// Owns:     one prompt and one answer for each opened object.
// Thread:   one driver thread at a time.
// Lifetime: from open to the last release.
// Build:    c++ -std=c++17 -shared -fPIC -I INCLUDE text_runtime.cpp -o libreverse.so
#include <string>

#include "flashrt/builder.hpp"

enum Port : uint32_t { kPrompt, kNextToken, kIsEog, kText };
enum Stage : uint32_t { kReset, kPrefill, kDecode };
struct Reverse {
    std::string bytes[4];  // of each port
    const char* error = "";
};

static int answer(void* self, int code)
{
    static_cast<Reverse*>(self)->error = code == FRT_VERB_OK ? "" : "no such port, or no room";
    return code;
}

static int set_input(void* self, uint32_t port, const void* data, uint64_t bytes_count, int)
{
    if (port != kPrompt || data == nullptr) {
        return answer(self, FRT_VERB_INVALID);
    }
    static_cast<Reverse*>(self)->bytes[port].assign(static_cast<const char*>(data), bytes_count);
    return answer(self, FRT_VERB_OK);
}

static int get_output(void* self, uint32_t port, void* out, uint64_t room, uint64_t* written, int)
{
    if (port == kPrompt || port > kText || out == nullptr) {
        return answer(self, FRT_VERB_INVALID);
    }
    const std::string& bytes = static_cast<Reverse*>(self)->bytes[port];
    *written = bytes.size();
    bytes.copy(static_cast<char*>(out), room < bytes.size() ? 0 : bytes.size());
    return answer(self, room < bytes.size() ? FRT_VERB_STORAGE : FRT_VERB_OK);
}

static int run(void* self, uint32_t stage)
{
    std::string* const bytes = static_cast<Reverse*>(self)->bytes;
    const size_t done = stage == kDecode ? bytes[kText].size() : 0;
    const bool ends = stage == kDecode && done == bytes[kPrompt].size();
    bytes[kText].resize(done);
    if (stage == kDecode && !ends) {
        bytes[kText] += bytes[kPrompt][bytes[kPrompt].size() - done - 1];
        bytes[kNextToken] = {bytes[kText].back(), 0, 0, 0};  // an I32, little endian
    }
    bytes[kIsEog] = {ends, 0, 0, 0};
    return FRT_VERB_OK;
}

extern "C" __attribute__((visibility("default"))) int frt_model_runtime_open_v1(
    const char* config, frt_model_runtime_v1** out)
{
    const bool is_good = out != nullptr && config != nullptr && strcmp(config, "{}") == 0;
    if (out != nullptr) {
        *out = nullptr;
    }
    if (!is_good) {
        return FRT_VERB_INVALID;
    }
    const frt_runtime_builder made = frt_model_runtime_builder_create_metadata();
    const char* const ports[] = {"prompt", "next_token", "is_eog", "text"};
    for (uint32_t i = kPrompt; i <= kText; i++) {
        const bool is_text = i == kPrompt || i == kText;
        const int64_t length = is_text ? -1 : 1;  // -1: any
        frt_runtime_builder_add_port(made, ports[i], is_text ? FRT_RT_MOD_TEXT : FRT_RT_MOD_TENSOR,
                                     is_text ? FRT_RT_DTYPE_U8 : FRT_RT_DTYPE_I32,
                                     FRT_RT_LAYOUT_FLAT,
                                     i == kPrompt ? FRT_RT_PORT_IN : FRT_RT_PORT_OUT,
                                     FRT_RT_PORT_STAGED, 0, &length, 1, 0, nullptr, 0, 0);
    }
    const char* const stages[] = {"reset", "prefill", "decode"};
    for (uint32_t i = kReset; i <= kDecode; i++) {
        frt_runtime_builder_add_generic_stage(made, stages[i], FRT_GENERIC_STAGE_OPAQUE, i, nullptr,
                                              0);
    }
    Reverse* const model = new Reverse;
    frt_runtime_builder_set_generic_stage_runner(made, model, run);
    const frt_model_runtime_verbs verbs = {
        sizeof verbs, 0, set_input, get_output, nullptr, nullptr, [](void* self) {
            return static_cast<Reverse*>(self)->error;
        }};
    const auto drop = [](void* owner) { delete static_cast<Reverse*>(owner); };
    *out = frt_runtime_builder_finish_model(made, &verbs, model, model, nullptr, drop);
    return *out == nullptr ? FRT_VERB_BACKEND : FRT_VERB_OK;
}
