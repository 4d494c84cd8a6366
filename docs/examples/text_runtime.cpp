// Purpose:  a whole text runtime of the plain level: it answers with the prompt read backwards.
// Owns:     one prompt and one answer for each opened object.
// Thread:   one driver thread at a time.
// Lifetime: from open to the last release.
// Build:    c++ -std=c++17 -shared -fPIC -I INCLUDE text_runtime.cpp -o libreverse.so
#include <algorithm>
#include <string>

#include "flashrt/builder.hpp"

enum Port : uint32_t { kPrompt, kNextToken, kIsEog, kText };
enum Stage : uint32_t { kReset, kPrefill, kDecode };
struct Reverse {
    std::string prompt, text;
    int32_t next_token = 0, is_eog = 0;
};

static int set_input(void* self, uint32_t port, const void* data, uint64_t bytes, int)
{
    if (port != kPrompt) {
        return FRT_VERB_INVALID;
    }
    static_cast<Reverse*>(self)->prompt.assign(static_cast<const char*>(data), bytes);
    return FRT_VERB_OK;
}

static int get_output(void* self, uint32_t port, void* out, uint64_t room, uint64_t* bytes, int)
{
    const Reverse& model = *static_cast<Reverse*>(self);
    const int32_t* const word = port == kIsEog ? &model.is_eog : &model.next_token;
    const char* const from =
        port == kText ? model.text.data() : reinterpret_cast<const char*>(word);
    *bytes = port == kText ? model.text.size() : sizeof *word;
    if (room < *bytes) {
        return FRT_VERB_STORAGE;
    }
    std::copy_n(from, *bytes, static_cast<char*>(out));
    return FRT_VERB_OK;
}

static int run(void* self, uint32_t stage)
{
    Reverse* const model = static_cast<Reverse*>(self);
    if (stage != kDecode) {
        model->text.clear();
        return FRT_VERB_OK;
    }
    model->is_eog = model->text.size() == model->prompt.size();
    if (model->is_eog == 0) {
        model->text += *(model->prompt.rbegin() + static_cast<long>(model->text.size()));
        model->next_token = static_cast<unsigned char>(model->text.back());
    }
    return FRT_VERB_OK;
}

extern "C" int frt_model_runtime_open_v1(const char*, frt_model_runtime_v1** out)
{
    const int64_t any = -1, one = 1;
    Reverse* const model = new Reverse;
    frt_runtime_builder const made = frt_model_runtime_builder_create_metadata();
    const auto port = [&](const char* name, uint32_t modality, uint32_t type, uint32_t direction) {
        frt_runtime_builder_add_port(
            made, name, modality, type, FRT_RT_LAYOUT_FLAT, direction, FRT_RT_PORT_STAGED, 0,
            modality == FRT_RT_MOD_TEXT ? &any : &one, 1, 0, nullptr, 0, 0);
    };
    port("prompt", FRT_RT_MOD_TEXT, FRT_RT_DTYPE_U8, FRT_RT_PORT_IN);
    port("next_token", FRT_RT_MOD_TENSOR, FRT_RT_DTYPE_I32, FRT_RT_PORT_OUT);
    port("is_eog", FRT_RT_MOD_TENSOR, FRT_RT_DTYPE_I32, FRT_RT_PORT_OUT);
    port("text", FRT_RT_MOD_TEXT, FRT_RT_DTYPE_U8, FRT_RT_PORT_OUT);
    uint32_t stage = 0;
    for (const char* name : {"reset", "prefill", "decode"}) {
        frt_runtime_builder_add_generic_stage(made, name, FRT_GENERIC_STAGE_OPAQUE, stage++,
                                              nullptr, 0);
    }
    frt_runtime_builder_set_generic_stage_runner(made, model, run);
    frt_model_runtime_verbs verbs = {};
    verbs.struct_size = sizeof verbs;
    verbs.set_input = set_input;
    verbs.get_output = get_output;
    verbs.last_error = [](void*) { return "not an input port, or a short buffer"; };
    *out = frt_runtime_builder_finish_model(made, &verbs, model, model, nullptr, [](void* owner) {
        delete static_cast<Reverse*>(owner);
    });
    return *out == nullptr ? -6 : 0;
}
