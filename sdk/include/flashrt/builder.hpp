// Purpose:  the builder, wrap and override of the model runtime ABI, header only, behind the C
//           names of runtime.h and model_runtime.h.
// Owns:     nothing beyond the builders and objects that callers hold.
// Thread:   a builder belongs to one thread at a time; retain and release from any thread.
// Lifetime: see the C headers.
//
// C++17; compiles with and without exceptions and RTTI, and may be included by any number of
// translation units. Every definition is hidden, so two shared objects never share one. C and other
// languages link libflashrt_runtime.so instead, which is this file compiled once.
#ifndef FLASHRT_BUILDER_HPP
#define FLASHRT_BUILDER_HPP

#include "detail/declarations.hpp"
#include "detail/gates.hpp"
#include "detail/identity.hpp"
#include "detail/object.hpp"

extern "C++" {

#if defined(FRT_BUILDER_SHARED_LIBRARY)
#define FRT_BUILDER_FUNCTION extern "C" __attribute__((visibility("default")))
#else
#define FRT_BUILDER_FUNCTION extern "C" inline __attribute__((visibility("hidden")))
#endif

namespace frt_detail FRT_HIDDEN {

inline int refuse_null_builder()
{
    return refuse("the builder is NULL");
}

inline int refuse_in_metadata(const char* kind)
{
    return refuse("a metadata runtime holds no %s", kind);
}

// A copy of the caller's table; all NULL when there is none or it is too short to be one.
inline int read_verbs(const frt_model_runtime_verbs* given, frt_model_runtime_verbs* verbs)
{
    *verbs = {};
    if (given == nullptr || given->struct_size < sizeof *verbs) {
        return 0;
    }
    if (!is_size(given->struct_size, sizeof *verbs)) {
        return refuse("verbs.struct_size is %u, which no version holds", given->struct_size);
    }
    *verbs = *given;
    return 0;
}

// What only the finished declarations can show: streams and windows may come in any order.
inline int check_resources(const Builder& builder)
{
    for (size_t at = 0; at < builder.graphs.count && builder.streams.count > 0; at++) {
        const frt_runtime_graph_desc& graph = builder.graphs.rows[at];
        bool found = false;
        for (size_t stream = 0; stream < builder.streams.count; stream++) {
            found = found || builder.streams.rows[stream].stream_id == graph.stream_id;
        }
        if (!found) {
            return refuse("graph '%.100s' replays on stream %d, which is not declared", graph.name,
                          graph.stream_id);
        }
    }
    const List<frt_runtime_buffer_desc>& buffers = builder.buffers;
    for (size_t at = 0; at < builder.regions.count; at++) {
        const frt_runtime_region_desc& region = builder.regions.rows[at];
        if (check_window("region", region.name, region.buffer, region.offset, region.bytes,
                         buffers.rows, buffers.count) != 0) {
            return -1;
        }
    }
    for (size_t at = 0; at < builder.ports.count; at++) {
        const frt_runtime_port_desc& port = builder.ports.rows[at];
        if (check_window("port", port.name, port.buffer, port.offset, port.bytes, buffers.rows,
                         buffers.count) != 0) {
            return -1;
        }
    }
    return 0;
}

// Exactly one of legacy stages, generic plan, step alone.
inline int check_authority(const Builder& builder, const frt_model_runtime_verbs& verbs)
{
    if (!builder.plan_started) {
        if (builder.stages.count == 0 && verbs.step == nullptr) {
            return refuse("nothing runs this model: no stages, no generic plan, no step");
        }
        return 0;
    }
    bool any_opaque = false;
    for (size_t at = 0; at < builder.generic_stages.count; at++) {
        any_opaque =
            any_opaque || builder.generic_stages.rows[at].executor_kind == FRT_GENERIC_STAGE_OPAQUE;
    }
    if (!any_opaque) {
        return refuse("the generic plan has no OPAQUE stage; graphs alone are legacy stages");
    }
    if (builder.run_opaque == nullptr) {
        return refuse("the generic plan has no runner");
    }
    if (verbs.last_error == nullptr) {
        return refuse("a generic plan needs a last_error of the producer");
    }
    return 0;
}

inline int add_port(Builder* builder, const frt_runtime_port_desc& given)
{
    frt_runtime_port_desc port = given;
    if (check_name("port", port.name, kPortNameBytesMax, builder->ports.rows,
                   builder->ports.count) != 0 ||
        check_port(port, builder->metadata) != 0 ||
        check_window("port", port.name, port.buffer, port.offset, port.bytes, builder->buffers.rows,
                     builder->buffers.count) != 0) {
        return -1;
    }
    port.name = keep_text(builder, given.name);
    if (port.name == nullptr || !keep_array(builder, given.shape, given.rank, &port.shape) ||
        !builder->ports.push(port)) {
        return refuse_memory();
    }
    return 0;
}

inline int add_stage(Builder* builder, uint64_t graphs_count, const frt_runtime_stage_desc& given)
{
    if (given.graph >= graphs_count) {
        return refuse("stage %zu names graph %u of %llu", builder->stages.count, given.graph,
                      static_cast<unsigned long long>(graphs_count));
    }
    if (check_after("stage", builder->stages.count, given.after, given.n_after, false) != 0) {
        return -1;
    }
    frt_runtime_stage_desc stage = given;
    if (!keep_array(builder, given.after, given.n_after, &stage.after) ||
        !builder->stages.push(stage)) {
        return refuse_memory();
    }
    return 0;
}

// Make the object and its export from a checked builder. Retains the owner as the last thing.
inline Object* seal(Builder* builder, void* owner, void (*retain_owner)(void* owner),
                    void (*release_owner)(void* owner))
{
    size_t identity_bytes = 0;
    char* identity = identity_text(*builder, &identity_bytes);
    if (identity == nullptr) {
        refuse_memory();
        return nullptr;
    }
    Object* object = object_new();
    if (object == nullptr) {
        free(identity);
        return nullptr;
    }
    object_export(object, builder, identity, identity_bytes);
    object->owner = owner;
    object->release_owner = release_owner;
    if (retain_owner != nullptr) {
        retain_owner(owner);
    }
    return object;
}

// What an override may stand on: legacy stages, or a plan of OPAQUE stages alone.
inline int check_override_base(const frt_model_runtime_v1* base, bool* opaque)
{
    *opaque = false;
    const frt_generic_stage_plan_ext_v1* plan = nullptr;
    if (gate_model(base) != 0 || check_foreign_ports(base) != 0 ||
        check_foreign_stages(base) != 0 || query_plan(base, &plan) != 0) {
        return -1;
    }
    if (plan == nullptr) {
        return base->n_stages > 0 ? 0 : refuse("the base runs by step alone; its verbs are it");
    }
    if (base->n_stages > 0) {
        return refuse("the base has legacy stages and a generic plan");
    }
    bool any_graph = false;
    if (check_foreign_plan(base, plan, &any_graph, opaque) != 0) {
        return -1;
    }
    return any_graph ? refuse("the base's plan mixes graphs and OPAQUE stages") : 0;
}

// Ports and stages of a wrap, copied into a builder of their own. nullptr: refused.
inline Builder* wrap_declarations(const frt_runtime_export_v1* exp,
                                  const frt_runtime_port_desc* ports, uint64_t n_ports,
                                  const frt_runtime_stage_desc* stages, uint64_t n_stages)
{
    Builder* builder = builder_new(exp->ctx, false);
    if (builder == nullptr) {
        return nullptr;
    }
    int code = 0;
    for (uint64_t at = 0; at < n_ports && code == 0; at++) {
        code = add_port(builder, ports[at]);
        if (code == 0) {
            code = check_window("port", ports[at].name, ports[at].buffer, ports[at].offset,
                                ports[at].bytes, exp->buffers, exp->n_buffers);
        }
    }
    for (uint64_t at = 0; at < n_stages && code == 0; at++) {
        code = add_stage(builder, exp->n_graphs, stages[at]);
    }
    if (code != 0) {
        builder_free(builder);
        return nullptr;
    }
    return builder;
}

}  // namespace FRT_HIDDEN

FRT_BUILDER_FUNCTION const char* frt_runtime_refusal(void)
{
    return frt_detail::refusal_text();
}

FRT_BUILDER_FUNCTION uint64_t frt_runtime_fingerprint(const void* data, size_t bytes)
{
    return frt_detail::fnv1a_64(data, bytes);
}

FRT_BUILDER_FUNCTION frt_runtime_builder frt_runtime_builder_create(frt_ctx ctx)
{
    if (ctx == nullptr) {
        frt_detail::refuse("the context is NULL");
        return nullptr;
    }
    return frt_detail::builder_new(ctx, false);
}

FRT_BUILDER_FUNCTION frt_runtime_builder frt_model_runtime_builder_create_metadata(void)
{
    return frt_detail::builder_new(nullptr, true);
}

FRT_BUILDER_FUNCTION void frt_runtime_builder_destroy(frt_runtime_builder builder)
{
    frt_detail::builder_free(builder);
}

FRT_BUILDER_FUNCTION int frt_runtime_builder_add_stream(frt_runtime_builder builder,
                                                        const char* name, int stream_id,
                                                        int priority, void* native_handle)
{
    using namespace frt_detail;
    if (builder == nullptr) {
        return refuse_null_builder();
    }
    if (builder->metadata) {
        return refuse_in_metadata("streams");
    }
    if (check_name("stream", name, SIZE_MAX, builder->streams.rows, builder->streams.count) != 0) {
        return -1;
    }
    if (stream_id < 0) {
        return refuse("stream '%.100s': stream_id is %d", name, stream_id);
    }
    for (size_t at = 0; at < builder->streams.count; at++) {
        if (builder->streams.rows[at].stream_id == stream_id) {
            return refuse("stream_id %d is declared twice", stream_id);
        }
    }
    frt_runtime_stream_desc stream = {keep_text(builder, name), stream_id, priority, native_handle};
    if (stream.name == nullptr || !builder->streams.push(stream)) {
        return refuse_memory();
    }
    return 0;
}

FRT_BUILDER_FUNCTION int frt_runtime_builder_add_graph(frt_runtime_builder builder,
                                                       const char* name, frt_graph handle,
                                                       frt_shape_key default_key,
                                                       const frt_shape_key* keys, uint64_t n_keys,
                                                       int stream_id)
{
    using namespace frt_detail;
    if (builder == nullptr) {
        return refuse_null_builder();
    }
    if (builder->metadata) {
        return refuse_in_metadata("graphs");
    }
    if (check_name("graph", name, SIZE_MAX, builder->graphs.rows, builder->graphs.count) != 0) {
        return -1;
    }
    if (handle == nullptr) {
        return refuse("graph '%.100s': the handle is NULL", name);
    }
    if (n_keys > 0 && keys == nullptr) {
        return refuse("graph '%.100s': %llu keys and no array", name,
                      static_cast<unsigned long long>(n_keys));
    }
    frt_runtime_graph_desc graph = {nullptr, handle, default_key, nullptr, n_keys, stream_id};
    graph.name = keep_text(builder, name);
    if (graph.name == nullptr || !keep_array(builder, keys, n_keys, &graph.keys) ||
        !builder->graphs.push(graph)) {
        return refuse_memory();
    }
    return 0;
}

FRT_BUILDER_FUNCTION int frt_runtime_builder_add_buffer(frt_runtime_builder builder,
                                                        const char* name, frt_buffer handle,
                                                        uint64_t bytes, uint32_t role)
{
    using namespace frt_detail;
    if (builder == nullptr) {
        return refuse_null_builder();
    }
    if (builder->metadata) {
        return refuse_in_metadata("buffers");
    }
    if (check_name("buffer", name, SIZE_MAX, builder->buffers.rows, builder->buffers.count) != 0) {
        return -1;
    }
    if (handle == nullptr) {
        return refuse("buffer '%.100s': the handle is NULL", name);
    }
    if ((role & ~kRoleBits) != 0) {
        return refuse("buffer '%.100s': unknown role bits in %u", name, role);
    }
    frt_runtime_buffer_desc buffer = {keep_text(builder, name), handle, bytes, role, 0};
    if (buffer.name == nullptr || !builder->buffers.push(buffer)) {
        return refuse_memory();
    }
    return 0;
}

FRT_BUILDER_FUNCTION int frt_runtime_builder_add_region(frt_runtime_builder builder,
                                                        const char* name, frt_buffer buffer,
                                                        uint64_t offset, uint64_t bytes,
                                                        uint32_t flags)
{
    using namespace frt_detail;
    if (builder == nullptr) {
        return refuse_null_builder();
    }
    if (builder->metadata) {
        return refuse_in_metadata("regions");
    }
    if (check_name("region", name, kRegionNameBytesMax, builder->regions.rows,
                   builder->regions.count) != 0) {
        return -1;
    }
    if (buffer == nullptr || bytes == 0) {
        return refuse("region '%.100s': no buffer or no bytes", name);
    }
    if ((flags & ~kRegionBits) != 0) {
        return refuse("region '%.100s': unknown flag bits in %u", name, flags);
    }
    if (check_window("region", name, buffer, offset, bytes, builder->buffers.rows,
                     builder->buffers.count) != 0) {
        return -1;
    }
    frt_runtime_region_desc region = {keep_text(builder, name), buffer, offset, bytes, flags, 0};
    if (region.name == nullptr || !builder->regions.push(region)) {
        return refuse_memory();
    }
    return 0;
}

FRT_BUILDER_FUNCTION int frt_runtime_builder_add_identity(frt_runtime_builder builder,
                                                          const char* key, const char* value)
{
    using namespace frt_detail;
    if (builder == nullptr) {
        return refuse_null_builder();
    }
    if (key == nullptr || value == nullptr) {
        return refuse("an identity key or value is NULL");
    }
    Text* pairs = &builder->pairs;
    const size_t before = pairs->bytes.count;
    pairs->add(key);
    pairs->add("=");
    pairs->add(value);
    pairs->add("\n");
    if (pairs->failed) {
        pairs->failed = false;
        pairs->bytes.count = before;
        return refuse_memory();
    }
    return 0;
}

FRT_BUILDER_FUNCTION int frt_runtime_builder_set_manifest(frt_runtime_builder builder,
                                                          const char* json)
{
    using namespace frt_detail;
    if (builder == nullptr) {
        return refuse_null_builder();
    }
    if (json == nullptr) {
        return refuse("the manifest is NULL");
    }
    const char* copy = keep_text(builder, json);
    if (copy == nullptr) {
        return refuse_memory();
    }
    builder->manifest = copy;
    return 0;
}

FRT_BUILDER_FUNCTION int frt_runtime_builder_add_port(
    frt_runtime_builder builder, const char* name, uint32_t modality, uint32_t dtype,
    uint32_t layout, uint32_t direction, uint32_t update, uint32_t required, const int64_t* shape,
    uint32_t rank, uint32_t cadence_hint_hz, frt_buffer buffer, uint64_t offset, uint64_t bytes)
{
    if (builder == nullptr) {
        return frt_detail::refuse_null_builder();
    }
    const frt_runtime_port_desc port = {name,   modality, dtype, layout, direction,
                                        update, required, shape, rank,   cadence_hint_hz,
                                        buffer, offset,   bytes};
    return frt_detail::add_port(builder, port);
}

FRT_BUILDER_FUNCTION int frt_runtime_builder_add_stage(frt_runtime_builder builder, uint32_t graph,
                                                       const uint32_t* after, uint32_t n_after)
{
    using namespace frt_detail;
    if (builder == nullptr) {
        return refuse_null_builder();
    }
    if (builder->metadata) {
        return refuse_in_metadata("legacy stages");
    }
    if (builder->plan_started) {
        return refuse("legacy stages and a generic plan exclude each other");
    }
    return add_stage(builder, builder->graphs.count, {graph, n_after, after});
}

FRT_BUILDER_FUNCTION int frt_runtime_builder_add_generic_stage(
    frt_runtime_builder builder, const char* name, uint32_t executor_kind, uint32_t executor_ref,
    const uint32_t* after, uint32_t n_after)
{
    using namespace frt_detail;
    if (builder == nullptr) {
        return refuse_null_builder();
    }
    if (builder->stages.count > 0) {
        return refuse("legacy stages and a generic plan exclude each other");
    }
    frt_generic_stage_desc_v1 stage = {name, executor_kind, executor_ref, n_after, after};
    if (check_generic_stage(stage, builder->graphs.count, builder->generic_stages.rows,
                            builder->generic_stages.count) != 0) {
        return -1;
    }
    stage.name = keep_text(builder, name);
    if (stage.name == nullptr || !keep_array(builder, after, n_after, &stage.after) ||
        !builder->generic_stages.push(stage)) {
        return refuse_memory();
    }
    builder->plan_started = true;
    return 0;
}

FRT_BUILDER_FUNCTION int frt_runtime_builder_set_generic_stage_runner(
    frt_runtime_builder builder, void* stage_self,
    int (*run_opaque)(void* stage_self, uint32_t executor_ref))
{
    using namespace frt_detail;
    if (builder == nullptr) {
        return refuse_null_builder();
    }
    if (builder->stages.count > 0) {
        return refuse("legacy stages and a generic plan exclude each other");
    }
    if (run_opaque == nullptr || builder->run_opaque != nullptr) {
        return refuse("the runner is %s", run_opaque == nullptr ? "NULL" : "set already");
    }
    builder->stage_self = stage_self;
    builder->run_opaque = run_opaque;
    builder->plan_started = true;
    return 0;
}

FRT_BUILDER_FUNCTION int frt_runtime_builder_add_extension(frt_runtime_builder builder,
                                                           uint64_t extension_id, uint32_t version,
                                                           const void* table)
{
    using namespace frt_detail;
    if (builder == nullptr) {
        return refuse_null_builder();
    }
    if (extension_id < kOwnExtensionIdMin) {
        return refuse("extension IDs below 2^32 are assigned by the ABI");
    }
    if (version == 0 || table == nullptr) {
        return refuse("an extension needs a version above 0 and a table");
    }
    for (size_t at = 0; at < builder->extensions.count; at++) {
        if (builder->extensions.rows[at].id == extension_id) {
            return refuse("an extension ID is given twice");
        }
    }
    if (!builder->extensions.push({extension_id, version, table})) {
        return refuse_memory();
    }
    return 0;
}

FRT_BUILDER_FUNCTION frt_runtime_export_v1* frt_runtime_builder_finish(
    frt_runtime_builder builder, void* owner, void (*retain_owner)(void* owner),
    void (*release_owner)(void* owner))
{
    using namespace frt_detail;
    if (builder == nullptr) {
        refuse_null_builder();
        return nullptr;
    }
    if (builder->metadata) {
        refuse("a metadata builder makes model runtimes only");
        return nullptr;
    }
    if (builder->ports.count > 0 || builder->stages.count > 0 || builder->plan_started ||
        builder->extensions.count > 0) {
        refuse("ports, stages and extensions need frt_runtime_builder_finish_model");
        return nullptr;
    }
    if (check_resources(*builder) != 0) {
        return nullptr;
    }
    Object* object = seal(builder, owner, retain_owner, release_owner);
    return object == nullptr ? nullptr : &object->own_export;
}

FRT_BUILDER_FUNCTION frt_model_runtime_v1* frt_runtime_builder_finish_model(
    frt_runtime_builder builder, const frt_model_runtime_verbs* verbs, void* self, void* owner,
    void (*retain_owner)(void* owner), void (*release_owner)(void* owner))
{
    using namespace frt_detail;
    if (builder == nullptr) {
        refuse_null_builder();
        return nullptr;
    }
    frt_model_runtime_verbs copy = {};
    if (read_verbs(verbs, &copy) != 0 ||
        check_staged_verbs(builder->ports.rows, builder->ports.count, copy) != 0 ||
        check_authority(*builder, copy) != 0 || check_resources(*builder) != 0) {
        return nullptr;
    }
    Object* object = seal(builder, owner, retain_owner, release_owner);
    if (object == nullptr) {
        return nullptr;
    }
    object->model.exp = &object->own_export;
    object_ports_and_stages(object, builder);
    object->model.self = self;
    object->model.verbs = copy;
    fill_stubs(&object->model.verbs);
    object->has_plan = builder->plan_started;
    object->plan = {FRT_GENERIC_STAGE_PLAN_ABI_VERSION,
                    FRT_GENERIC_STAGE_PLAN_EXT_V1_SIZE,
                    builder->generic_stages.array(),
                    builder->generic_stages.count,
                    builder->stage_self,
                    builder->run_opaque};
    return &object->model;
}

FRT_BUILDER_FUNCTION frt_model_runtime_v1* frt_model_runtime_wrap(
    const frt_runtime_export_v1* exp, const frt_runtime_port_desc* ports, uint64_t n_ports,
    const frt_runtime_stage_desc* stages, uint64_t n_stages, const frt_model_runtime_verbs* verbs,
    void* self, void* wrapper_owner, void (*wrapper_release)(void* wrapper_owner))
{
    using namespace frt_detail;
    if (gate_export(exp) != 0) {
        return nullptr;
    }
    if (exp->ctx == nullptr) {
        refuse("a metadata export cannot be wrapped");
        return nullptr;
    }
    if (n_stages == 0 || stages == nullptr || (n_ports > 0 && ports == nullptr)) {
        refuse("no stages, or an array is NULL although its count is not 0");
        return nullptr;
    }
    frt_model_runtime_verbs copy = {};
    if (read_verbs(verbs, &copy) != 0) {
        return nullptr;
    }
    Builder* declarations = wrap_declarations(exp, ports, n_ports, stages, n_stages);
    if (declarations == nullptr) {
        return nullptr;
    }
    // After the declarations, whose checks have looked at every name.
    if (check_staged_verbs(ports, n_ports, copy) != 0) {
        builder_free(declarations);
        return nullptr;
    }
    Object* object = object_new();
    if (object == nullptr) {
        builder_free(declarations);
        return nullptr;
    }
    object->declarations = declarations;
    object->model.exp = exp;
    object_ports_and_stages(object, declarations);
    object->model.self = self;
    object->model.verbs = copy;
    fill_stubs(&object->model.verbs);
    object->owner = wrapper_owner;
    object->release_owner = wrapper_release;
    object->wrapped = exp;
    exp->retain(exp->owner);
    return &object->model;
}

FRT_BUILDER_FUNCTION frt_model_runtime_v1* frt_model_runtime_override_verbs(
    const frt_model_runtime_v1* base, const frt_model_runtime_verbs* verbs, void* self, void* owner,
    void (*retain_owner)(void* owner), void (*release_owner)(void* owner))
{
    using namespace frt_detail;
    bool opaque = false;
    frt_model_runtime_verbs copy = {};
    if (check_override_base(base, &opaque) != 0 || read_verbs(verbs, &copy) != 0 ||
        check_staged_verbs(base->ports, base->n_ports, copy) != 0) {
        return nullptr;
    }
    Object* object = object_new();
    if (object == nullptr) {
        return nullptr;
    }
    object->model.exp = base->exp;
    object->model.ports = base->ports;
    object->model.n_ports = base->n_ports;
    object->model.stages = base->stages;
    object->model.n_stages = base->n_stages;
    object_override(object, copy, self);
    object->error_of_base = opaque;
    object->owner = owner;
    object->release_owner = release_owner;
    object->base = base;
    base->retain(base->owner);
    if (retain_owner != nullptr) {
        retain_owner(owner);
    }
    return &object->model;
}

}  // extern "C++"

#endif
