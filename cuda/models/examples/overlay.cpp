// Purpose:  native verbs over another producer's declaration: ports, stages, graphs and identity
//           stay the base's, actions come out smoothed. The override path, end to end.
// Owns:     an Overlay owns the loaded base; base and library go when the last reference does.
// Thread:   verbs from one driver thread at a time; release from any.
// Lifetime: from open until the last reference goes.
//
// Configuration: {"base": "libsomething.so", "base_config": "{...}", "hold_percent": 0..99}. Each
// value of an ACTION output becomes hold_percent of what it was last time and the rest new.
#include <cstring>
#include <new>

#include "flashrt/builder.hpp"
#include "flashrt/config.hpp"
#include "flashrt/loader.hpp"

namespace {

constexpr size_t kSmoothedValuesMax = 4096;

struct Overlay {
    uint64_t references;
    frt::LoadedModel base;
    // The base as the override sees it: the same object, but its release comes here, because the
    // base's library must be closed after the base's own release and not before.
    frt_model_runtime_v1 shared;
    frt_runtime_export_v1 shared_export;  // likewise
    float hold;
    bool held;
    float smoothed[kSmoothedValuesMax];
    const char* error;  // nullptr: ask the base
};

Overlay* overlay_of(void* pointer)
{
    return static_cast<Overlay*>(pointer);
}

void overlay_retain(void* owner)
{
    __atomic_fetch_add(&overlay_of(owner)->references, UINT64_C(1), __ATOMIC_RELAXED);
}

void overlay_release(void* owner)
{
    if (__atomic_fetch_sub(&overlay_of(owner)->references, UINT64_C(1), __ATOMIC_ACQ_REL) == 1) {
        delete overlay_of(owner);  // closes the base, then its library
    }
}

int overlay_query(const frt_model_runtime_v1* runtime, uint64_t id, uint32_t min_version,
                  const void** out)
{
    const frt_model_runtime_v1* base = overlay_of(runtime->owner)->base.runtime();
    return base->query_extension(base, id, min_version, out);
}

int set_input(void* self, uint32_t port, const void* data, uint64_t bytes, int stream)
{
    Overlay* overlay = overlay_of(self);
    const frt_model_runtime_v1* base = overlay->base.runtime();
    overlay->error = nullptr;
    return base->verbs.set_input(base->self, port, data, bytes, stream);
}

int get_output(void* self, uint32_t port, void* out, uint64_t capacity, uint64_t* written,
               int stream)
{
    Overlay* overlay = overlay_of(self);
    const frt_model_runtime_v1* base = overlay->base.runtime();
    overlay->error = nullptr;
    const int code = base->verbs.get_output(base->self, port, out, capacity, written, stream);
    if (code != FRT_VERB_OK || base->ports[port].modality != FRT_RT_MOD_ACTION) {
        return code;
    }
    if (*written > sizeof overlay->smoothed) {
        overlay->error = "the action chunk is larger than the overlay smooths";
        return FRT_VERB_SHAPE;
    }
    for (uint64_t at = 0; at < *written / sizeof(float); at++) {
        float value = 0;
        char* place = static_cast<char*>(out) + at * sizeof value;
        std::memcpy(&value, place, sizeof value);
        const float before = overlay->held ? overlay->smoothed[at] : value;
        value = overlay->hold * before + (1.0f - overlay->hold) * value;
        overlay->smoothed[at] = value;
        std::memcpy(place, &value, sizeof value);
    }
    overlay->held = true;
    return FRT_VERB_OK;
}

int prepare(void* self, uint32_t graph, frt_shape_key key)
{
    const frt_model_runtime_v1* base = overlay_of(self)->base.runtime();
    overlay_of(self)->error = nullptr;
    return base->verbs.prepare(base->self, graph, key);
}

int step(void* self)
{
    const frt_model_runtime_v1* base = overlay_of(self)->base.runtime();
    overlay_of(self)->error = nullptr;
    return base->verbs.step(base->self);
}

const char* last_error(void* self)
{
    const Overlay* overlay = overlay_of(self);
    const frt_model_runtime_v1* base = overlay->base.runtime();
    return overlay->error != nullptr ? overlay->error : base->verbs.last_error(base->self);
}

// An ACTION output of another type than f32 could not be smoothed.
bool actions_are_floats(const frt_model_runtime_v1* base)
{
    for (uint64_t at = 0; at < base->n_ports; at++) {
        if (base->ports[at].modality == FRT_RT_MOD_ACTION &&
            base->ports[at].dtype != FRT_RT_DTYPE_F32) {
            return false;
        }
    }
    return true;
}

int overlay_open(const char* library, const char* base_config, int64_t hold_percent,
                 frt_model_runtime_v1** out)
{
    Overlay* overlay = new (std::nothrow) Overlay{};
    if (overlay == nullptr) {
        return FRT_VERB_BACKEND;
    }
    overlay->references = 1;
    overlay->hold = static_cast<float>(hold_percent) / 100.0f;
    if (overlay->base.open(library, base_config) != frt::LoadStatus::loaded ||
        !actions_are_floats(overlay->base.runtime())) {
        overlay_release(overlay);
        return FRT_VERB_NOT_FOUND;
    }
    overlay->shared = *overlay->base.runtime();
    overlay->shared.owner = overlay;
    overlay->shared.retain = overlay_retain;
    overlay->shared.release = overlay_release;
    overlay->shared.query_extension = overlay_query;
    overlay->shared_export = *overlay->shared.exp;
    overlay->shared_export.struct_size = sizeof overlay->shared_export;
    overlay->shared_export.owner = overlay;
    overlay->shared_export.retain = overlay_retain;
    overlay->shared_export.release = overlay_release;
    overlay->shared.exp = &overlay->shared_export;
    const frt_model_runtime_verbs verbs = {sizeof verbs, 0,    set_input, get_output,
                                           prepare,      step, last_error};
    *out = frt_model_runtime_override_verbs(&overlay->shared, &verbs, overlay, nullptr, nullptr,
                                            nullptr);
    overlay_release(overlay);  // the override holds it now, or nobody does
    return *out == nullptr ? FRT_VERB_UNSUPPORTED : FRT_VERB_OK;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int frt_model_runtime_open_v1(
    const char* config_json, frt_model_runtime_v1** out)
{
    if (out == nullptr) {
        return FRT_VERB_INVALID;
    }
    *out = nullptr;
    frt::FlatConfig config;
    const char* base = nullptr;
    const char* base_config = nullptr;
    int64_t hold_percent = 0;
    if (config.parse(config_json) != 0 || config.text("base", nullptr, &base) != 0 ||
        config.text("base_config", "{}", &base_config) != 0 ||
        config.integer("hold_percent", 50, 0, 99, &hold_percent) != 0 || config.finish() != 0 ||
        base == nullptr) {
        return FRT_VERB_INVALID;
    }
    return overlay_open(base, base_config, hold_percent, out);
}
