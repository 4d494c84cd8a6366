// Purpose:  the reference-counted object behind every export and model runtime of this builder:
//           stubs, retain and release, extensions, and the trampolines of an override.
// Owns:     the declarations it was built from, and one reference to whatever it stands on.
// Thread:   retain and release from any thread; everything else as the ABI says.
// Lifetime: one reference at birth; freed by the release that brings the count to zero.
#ifndef FLASHRT_DETAIL_OBJECT_HPP
#define FLASHRT_DETAIL_OBJECT_HPP

#include "declarations.hpp"
#include "gates.hpp"
#include "identity.hpp"
#include "stubs.hpp"

extern "C++" {

namespace frt_detail FRT_HIDDEN {

struct Object {
    uint64_t references;
    frt_runtime_export_v1 own_export;
    frt_model_runtime_v1 model;
    frt_generic_stage_plan_ext_v1 plan;
    bool has_plan;
    Builder* declarations;                   // may be null
    char* identity;                          // of own_export, malloc'd
    const frt_runtime_export_v1* wrapped;    // one reference held, or null
    const frt_model_runtime_v1* base;        // one reference held, or null
    frt_model_runtime_verbs override_verbs;  // as given; called with override_self
    void* override_self;
    bool error_of_base;  // an OPAQUE plan reports through the base's last_error
    void* owner;
    void (*release_owner)(void* owner);
};

inline void object_retain(void* owner)
{
    Object* object = static_cast<Object*>(owner);
    // Relaxed: whoever retains already holds a reference, so nothing is published here.
    __atomic_fetch_add(&object->references, UINT64_C(1), __ATOMIC_RELAXED);
}

inline void object_release(void* owner)
{
    Object* object = static_cast<Object*>(owner);
    // Release: this thread's use comes before the end. Acquire: the end sees all threads' uses.
    if (__atomic_fetch_sub(&object->references, UINT64_C(1), __ATOMIC_ACQ_REL) != 1) {
        return;
    }
    if (object->release_owner != nullptr) {
        object->release_owner(object->owner);
    }
    if (object->wrapped != nullptr) {
        object->wrapped->release(object->wrapped->owner);
    }
    if (object->base != nullptr) {
        object->base->release(object->base->owner);
    }
    builder_free(object->declarations);
    free(object->identity);
    free(object);
}

inline int object_query(const frt_model_runtime_v1* runtime, uint64_t id, uint32_t min_version,
                        const void** out)
{
    if (out != nullptr) {
        *out = nullptr;
    }
    if (runtime == nullptr || out == nullptr || min_version == 0) {
        return FRT_VERB_INVALID;
    }
    const Object* object = static_cast<const Object*>(runtime->owner);
    if (object->base != nullptr) {
        return query_runtime(object->base, id, min_version, out);
    }
    if (id == FRT_EXT_GENERIC_STAGE_PLAN_V1) {
        if (!object->has_plan || min_version > FRT_GENERIC_STAGE_PLAN_ABI_VERSION) {
            return FRT_VERB_UNSUPPORTED;
        }
        *out = &object->plan;
        return FRT_VERB_OK;
    }
    const List<Extension>& extensions = object->declarations->extensions;
    for (size_t at = 0; at < extensions.count; at++) {
        if (extensions.rows[at].id == id && min_version <= extensions.rows[at].version) {
            *out = extensions.rows[at].table;
            return FRT_VERB_OK;
        }
    }
    return FRT_VERB_UNSUPPORTED;
}

// An object without verbs and without anything to stand on; one reference. nullptr: no memory.
inline Object* object_new()
{
    Object* object = static_cast<Object*>(calloc(1, sizeof(Object)));
    if (object == nullptr) {
        refuse_memory();
        return nullptr;
    }
    object->references = 1;
    object->model.abi_version = FRT_MODEL_RUNTIME_ABI_VERSION;
    object->model.struct_size = sizeof object->model;
    object->model.owner = object;
    object->model.retain = object_retain;
    object->model.release = object_release;
    object->model.query_extension = object_query;
    return object;
}

// Fill own_export from the declarations. The lists are final from here on.
inline void object_export(Object* object, Builder* builder, char* identity, size_t identity_bytes)
{
    frt_runtime_export_v1* exp = &object->own_export;
    exp->abi_version = FRT_RUNTIME_ABI_VERSION;
    exp->struct_size = sizeof *exp;
    exp->ctx = builder->ctx;
    exp->streams = builder->streams.array();
    exp->n_streams = builder->streams.count;
    exp->graphs = builder->graphs.array();
    exp->n_graphs = builder->graphs.count;
    exp->buffers = builder->buffers.array();
    exp->n_buffers = builder->buffers.count;
    exp->capsule_regions = builder->regions.array();
    exp->n_capsule_regions = builder->regions.count;
    exp->fingerprint = fnv1a_64(identity, identity_bytes);
    exp->identity = identity;
    exp->manifest_json = builder->manifest;
    exp->owner = object;
    exp->retain = object_retain;
    exp->release = object_release;
    object->identity = identity;
    object->declarations = builder;
}

inline void object_ports_and_stages(Object* object, const Builder* builder)
{
    object->model.ports = builder->ports.array();
    object->model.n_ports = builder->ports.count;
    object->model.stages = builder->stages.array();
    object->model.n_stages = builder->stages.count;
}

// Trampolines: the caller's verbs see the caller's self, the base's last_error the base's.
inline int override_set_input(void* self, uint32_t port, const void* data, uint64_t bytes,
                              int stream)
{
    const Object* object = static_cast<const Object*>(self);
    return object->override_verbs.set_input(object->override_self, port, data, bytes, stream);
}
inline int override_get_output(void* self, uint32_t port, void* out, uint64_t capacity,
                               uint64_t* written, int stream)
{
    const Object* object = static_cast<const Object*>(self);
    return object->override_verbs.get_output(object->override_self, port, out, capacity, written,
                                             stream);
}
inline int override_prepare(void* self, uint32_t graph, frt_shape_key key)
{
    const Object* object = static_cast<const Object*>(self);
    return object->override_verbs.prepare(object->override_self, graph, key);
}
inline int override_step(void* self)
{
    const Object* object = static_cast<const Object*>(self);
    return object->override_verbs.step(object->override_self);
}
inline const char* override_last_error(void* self)
{
    const Object* object = static_cast<const Object*>(self);
    if (object->error_of_base) {
        return object->base->verbs.last_error(object->base->self);
    }
    return object->override_verbs.last_error(object->override_self);
}

inline void object_override(Object* object, const frt_model_runtime_verbs& verbs, void* self)
{
    object->override_verbs = verbs;
    fill_stubs(&object->override_verbs);
    object->override_self = self;
    object->model.self = object;
    object->model.verbs = {sizeof(frt_model_runtime_verbs),
                           0,
                           override_set_input,
                           override_get_output,
                           override_prepare,
                           override_step,
                           override_last_error};
}

}  // namespace FRT_HIDDEN
}  // extern "C++"

#endif
