// Purpose:  the one exported symbol: open a GGUF text model as a model runtime.
// Owns:     an Owner for each runtime, until the last reference goes.
// Thread:   open on any thread; afterwards as model_runtime.h says.
// Lifetime: from frt_model_runtime_open_v1 to the last release.
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <new>

#include "flashrt/builder.hpp"
#include "flashrt/model_runtime.h"
#include "plain_ports.h"
#include "text_runtime.h"

namespace {

struct Owner {
    aotx::TextRuntime runtime;
    aotx::PlainPorts ports;
};

Owner* owner_of(void* self)
{
    return static_cast<Owner*>(self);
}

int verb_set_input(void* self, uint32_t port, const void* data, uint64_t bytes, int stream)
{
    (void)stream;  // the CPU has none
    return owner_of(self)->ports.set_input(port, data, bytes);
}

int verb_get_output(void* self, uint32_t port, void* out, uint64_t capacity, uint64_t* written,
                    int stream)
{
    (void)stream;
    return owner_of(self)->ports.get_output(port, out, capacity, written);
}

int verb_step(void* self)
{
    return owner_of(self)->ports.step();
}

const char* verb_last_error(void* self)
{
    return owner_of(self)->runtime.last_error();
}

int run_opaque(void* self, uint32_t reference)
{
    return owner_of(self)->ports.run_stage(reference);
}

void release_owner(void* owner)
{
    delete owner_of(owner);
}

// What makes two runtimes the same for stored state: the weights and how they are computed.
int add_identity(frt_runtime_builder builder, const aotx::TextRuntime& runtime)
{
    const aotx_text_properties& properties = runtime.properties();
    const char* const keys = runtime.engine().wide_keys() ? "float" : "quantised";
    char digest[65] = {};
    for (uint32_t i = 0; i < 32; i++) {
        std::snprintf(digest + 2 * i, 3, "%02x", properties.sha256[i]);
    }
    const int codes[] = {
        frt_runtime_builder_add_identity(builder, "provider", "aotx_text_gguf"),
        frt_runtime_builder_add_identity(builder, "weights_sha256", digest),
        frt_runtime_builder_add_identity(builder, "activations", keys),
        frt_runtime_builder_add_identity(builder, "device", runtime.engine().device()),
    };
    for (const int code : codes) {
        if (code != 0) {
            return code;
        }
    }
    return 0;
}

// Null: refused, the builder is gone.
frt_model_runtime_v1* build(Owner* owner)
{
    const frt_runtime_builder builder = frt_model_runtime_builder_create_metadata();
    if (builder == nullptr) {
        return nullptr;
    }
    frt_model_runtime_verbs verbs = {};
    verbs.struct_size = sizeof verbs;
    verbs.set_input = &verb_set_input;
    verbs.get_output = &verb_get_output;
    verbs.step = &verb_step;
    verbs.last_error = &verb_last_error;
    frt_model_runtime_v1* model = nullptr;
    if (add_identity(builder, owner->runtime) == 0 && owner->ports.declare(builder) == 0 &&
        frt_runtime_builder_set_generic_stage_runner(builder, owner, &run_opaque) == 0 &&
        frt_runtime_builder_add_extension(builder, AOTX_TEXT_RUNTIME_EXTENSION_ID,
                                          AOTX_TEXT_RUNTIME_ABI_VERSION,
                                          owner->runtime.table()) == 0) {
        model = frt_runtime_builder_finish_model(builder, &verbs, owner, owner, nullptr,
                                                 &release_owner);
    }
    if (model == nullptr) {
        frt_runtime_builder_destroy(builder);
    }
    return model;
}

// A factory has no object to keep the words of a refusal, so they go where an operator reads.
void report(const char* text)
{
    const int fd = STDERR_FILENO;
    dprintf(fd, "aotx_text_gguf: %s\n", text);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int frt_model_runtime_open_v1(
    const char* config_json, frt_model_runtime_v1** out)
{
    if (out == nullptr) {
        return aotx::kVerbInvalid;
    }
    *out = nullptr;
    Owner* const owner = new (std::nothrow) Owner();
    if (owner == nullptr) {
        return aotx::kVerbBackend;
    }
    aotx::TextReason reason;
    const int code = owner->runtime.open(config_json, &reason);
    if (code != aotx::kVerbOk) {
        report(reason.text);
        delete owner;
        return code;
    }
    if (owner->runtime.device_note()[0] != 0) {
        report(owner->runtime.device_note());
        report("the CPU runs the steps");
    } else if (std::strcmp(owner->runtime.engine().device(), "cuda") == 0) {
        report("the GPU runs the steps");
    }
    if (!owner->ports.open(&owner->runtime)) {
        delete owner;
        return aotx::kVerbBackend;
    }
    frt_model_runtime_v1* const model = build(owner);
    if (model == nullptr) {
        report(frt_runtime_refusal());
        delete owner;
        return aotx::kVerbBackend;
    }
    *out = model;
    return aotx::kVerbOk;
}
