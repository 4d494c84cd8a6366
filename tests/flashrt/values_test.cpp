// Purpose:  names, values, layouts and signatures of the ABI, written down a second time from the
//           contract, so that a header cannot move together with its own asserts.
// Owns:     nothing.
// Thread:   one.
// Lifetime: the test program; nearly all of it is over when it has compiled.
#include <catch2/catch.hpp>
#include <cstring>
#include <type_traits>

#include "flashrt/model_runtime.h"

namespace {

#define VALUE(name, value) \
    static_assert(static_cast<long long>(name) == (value), #name " is " #value)

// Export: roles and region flags are bits.
VALUE(FRT_RT_ROLE_INPUT, 1);
VALUE(FRT_RT_ROLE_OUTPUT, 2);
VALUE(FRT_RT_ROLE_STATE, 4);
VALUE(FRT_RT_ROLE_SCRATCH, 8);
VALUE(FRT_RT_REGION_SNAPSHOT, 1);
VALUE(FRT_RT_REGION_RESTORE, 2);
// Ports.
VALUE(FRT_RT_MOD_TENSOR, 0);
VALUE(FRT_RT_MOD_IMAGE, 1);
VALUE(FRT_RT_MOD_TEXT, 2);
VALUE(FRT_RT_MOD_STATE, 3);
VALUE(FRT_RT_MOD_ACTION, 4);
VALUE(FRT_RT_MOD_AUDIO, 5);
VALUE(FRT_RT_MOD_DEPTH, 6);
VALUE(FRT_RT_MOD_FORCE, 7);
VALUE(FRT_RT_DTYPE_U8, 0);
VALUE(FRT_RT_DTYPE_F32, 1);
VALUE(FRT_RT_DTYPE_F16, 2);
VALUE(FRT_RT_DTYPE_BF16, 3);
VALUE(FRT_RT_DTYPE_I32, 4);
VALUE(FRT_RT_DTYPE_I64, 5);
VALUE(FRT_RT_LAYOUT_FLAT, 0);
VALUE(FRT_RT_LAYOUT_HWC, 1);
VALUE(FRT_RT_LAYOUT_NHWC, 2);
VALUE(FRT_RT_LAYOUT_CHW, 3);
VALUE(FRT_RT_LAYOUT_NCHW, 4);
VALUE(FRT_RT_PIXEL_RGB8, 0);
VALUE(FRT_RT_PIXEL_BGR8, 1);
VALUE(FRT_RT_PIXEL_RGBA8, 2);
VALUE(FRT_RT_PIXEL_BGRA8, 3);
VALUE(FRT_RT_PIXEL_GRAY8, 4);
VALUE(FRT_RT_PORT_IN, 0);
VALUE(FRT_RT_PORT_OUT, 1);
VALUE(FRT_RT_PORT_SWAP, 0);
VALUE(FRT_RT_PORT_STAGED, 1);
VALUE(FRT_RT_PORT_SETUP, 2);
// Plans.
VALUE(FRT_GENERIC_STAGE_GRAPH, 0);
VALUE(FRT_GENERIC_STAGE_OPAQUE, 1);
VALUE(FRT_GENERIC_STAGE_NAME_MAX_BYTES, 255);
VALUE(FRT_GENERIC_STAGE_PLAN_ABI_VERSION, 1);
VALUE(FRT_EXT_GENERIC_STAGE_PLAN_V1, 1);
VALUE(FRT_GENERIC_STAGE_PLAN_EXT_V1_SIZE, 40);
// Versions and the two sizes that a consumer may look for.
VALUE(FRT_RUNTIME_ABI_VERSION, 1);
VALUE(FRT_MODEL_RUNTIME_ABI_VERSION, 1);
VALUE(FRT_MODEL_RUNTIME_V1_BASE_SIZE, 128);
VALUE(FRT_MODEL_RUNTIME_V1_QUERY_EXTENSION_SIZE, 136);
static_assert(std::is_same_v<decltype(FRT_MODEL_RUNTIME_V1_BASE_SIZE), uint32_t>);
static_assert(std::is_same_v<decltype(FRT_MODEL_RUNTIME_V1_QUERY_EXTENSION_SIZE), uint32_t>);
// Verb codes and the codes of the execution layer: two spaces.
VALUE(FRT_VERB_OK, 0);
VALUE(FRT_VERB_INVALID, -1);
VALUE(FRT_VERB_NOT_FOUND, -2);
VALUE(FRT_VERB_UNSUPPORTED, -3);
VALUE(FRT_VERB_SHAPE, -4);
VALUE(FRT_VERB_STORAGE, -5);
VALUE(FRT_VERB_BACKEND, -6);
VALUE(FRT_OK, 0);
VALUE(FRT_ERR_INVALID, -1);
VALUE(FRT_ERR_NO_VARIANT, -2);
VALUE(FRT_ERR_UNBOUND, -3);
VALUE(FRT_ERR_CAPTURE, -4);
VALUE(FRT_ERR_BACKEND, -5);
VALUE(FRT_ERR_OOM, -6);
static_assert(FRT_KEY_INHERIT == UINT64_MAX);
static_assert(std::is_same_v<frt_shape_key, uint64_t>);

#define LAYOUT(type, size_bytes) static_assert(sizeof(type) == (size_bytes) && alignof(type) == 8)
LAYOUT(frt_runtime_stream_desc, 24);
LAYOUT(frt_runtime_graph_desc, 48);
LAYOUT(frt_runtime_buffer_desc, 32);
LAYOUT(frt_runtime_region_desc, 40);
LAYOUT(frt_runtime_export_v1, 128);
LAYOUT(frt_image_view, 48);
LAYOUT(frt_runtime_port_desc, 72);
LAYOUT(frt_runtime_stage_desc, 16);
LAYOUT(frt_generic_stage_desc_v1, 32);
LAYOUT(frt_generic_stage_plan_ext_v1, 40);
LAYOUT(frt_model_runtime_verbs, 48);
LAYOUT(frt_model_runtime_v1, 136);

#define AT(type, field, offset_bytes, field_type)                        \
    static_assert(offsetof(type, field) == (offset_bytes) &&             \
                      std::is_same_v<decltype(type::field), field_type>, \
                  #type "." #field)
AT(frt_runtime_stream_desc, name, 0, const char*);
AT(frt_runtime_stream_desc, stream_id, 8, int);
AT(frt_runtime_stream_desc, priority, 12, int);
AT(frt_runtime_stream_desc, native_handle, 16, void*);
AT(frt_runtime_graph_desc, name, 0, const char*);
AT(frt_runtime_graph_desc, handle, 8, frt_graph);
AT(frt_runtime_graph_desc, default_key, 16, frt_shape_key);
AT(frt_runtime_graph_desc, keys, 24, const frt_shape_key*);
AT(frt_runtime_graph_desc, n_keys, 32, uint64_t);
AT(frt_runtime_graph_desc, stream_id, 40, int);
AT(frt_runtime_buffer_desc, name, 0, const char*);
AT(frt_runtime_buffer_desc, handle, 8, frt_buffer);
AT(frt_runtime_buffer_desc, bytes, 16, uint64_t);
AT(frt_runtime_buffer_desc, role, 24, uint32_t);
AT(frt_runtime_buffer_desc, reserved, 28, uint32_t);
AT(frt_runtime_region_desc, name, 0, const char*);
AT(frt_runtime_region_desc, buffer, 8, frt_buffer);
AT(frt_runtime_region_desc, offset, 16, uint64_t);
AT(frt_runtime_region_desc, bytes, 24, uint64_t);
AT(frt_runtime_region_desc, flags, 32, uint32_t);
AT(frt_runtime_region_desc, reserved, 36, uint32_t);
AT(frt_runtime_export_v1, abi_version, 0, uint32_t);
AT(frt_runtime_export_v1, struct_size, 4, uint32_t);
AT(frt_runtime_export_v1, ctx, 8, frt_ctx);
AT(frt_runtime_export_v1, streams, 16, const frt_runtime_stream_desc*);
AT(frt_runtime_export_v1, n_streams, 24, uint64_t);
AT(frt_runtime_export_v1, graphs, 32, const frt_runtime_graph_desc*);
AT(frt_runtime_export_v1, n_graphs, 40, uint64_t);
AT(frt_runtime_export_v1, buffers, 48, const frt_runtime_buffer_desc*);
AT(frt_runtime_export_v1, n_buffers, 56, uint64_t);
AT(frt_runtime_export_v1, capsule_regions, 64, const frt_runtime_region_desc*);
AT(frt_runtime_export_v1, n_capsule_regions, 72, uint64_t);
AT(frt_runtime_export_v1, fingerprint, 80, uint64_t);
AT(frt_runtime_export_v1, identity, 88, const char*);
AT(frt_runtime_export_v1, manifest_json, 96, const char*);
AT(frt_runtime_export_v1, owner, 104, void*);
AT(frt_runtime_export_v1, retain, 112, void (*)(void*));
AT(frt_runtime_export_v1, release, 120, void (*)(void*));
AT(frt_image_view, struct_size, 0, uint32_t);
AT(frt_image_view, pixel_format, 4, uint32_t);
AT(frt_image_view, data, 8, const void*);
AT(frt_image_view, bytes, 16, uint64_t);
AT(frt_image_view, width, 24, int32_t);
AT(frt_image_view, height, 28, int32_t);
AT(frt_image_view, stride_bytes, 32, int32_t);
AT(frt_image_view, reserved, 36, uint32_t);
AT(frt_image_view, timestamp_ns, 40, uint64_t);
AT(frt_runtime_port_desc, name, 0, const char*);
AT(frt_runtime_port_desc, modality, 8, uint32_t);
AT(frt_runtime_port_desc, dtype, 12, uint32_t);
AT(frt_runtime_port_desc, layout, 16, uint32_t);
AT(frt_runtime_port_desc, direction, 20, uint32_t);
AT(frt_runtime_port_desc, update, 24, uint32_t);
AT(frt_runtime_port_desc, required, 28, uint32_t);
AT(frt_runtime_port_desc, shape, 32, const int64_t*);
AT(frt_runtime_port_desc, rank, 40, uint32_t);
AT(frt_runtime_port_desc, cadence_hint_hz, 44, uint32_t);
AT(frt_runtime_port_desc, buffer, 48, frt_buffer);
AT(frt_runtime_port_desc, offset, 56, uint64_t);
AT(frt_runtime_port_desc, bytes, 64, uint64_t);
AT(frt_runtime_stage_desc, graph, 0, uint32_t);
AT(frt_runtime_stage_desc, n_after, 4, uint32_t);
AT(frt_runtime_stage_desc, after, 8, const uint32_t*);
AT(frt_generic_stage_desc_v1, name, 0, const char*);
AT(frt_generic_stage_desc_v1, executor_kind, 8, uint32_t);
AT(frt_generic_stage_desc_v1, executor_ref, 12, uint32_t);
AT(frt_generic_stage_desc_v1, n_after, 16, uint32_t);
AT(frt_generic_stage_desc_v1, after, 24, const uint32_t*);
AT(frt_generic_stage_plan_ext_v1, abi_version, 0, uint32_t);
AT(frt_generic_stage_plan_ext_v1, struct_size, 4, uint32_t);
AT(frt_generic_stage_plan_ext_v1, stages, 8, const frt_generic_stage_desc_v1*);
AT(frt_generic_stage_plan_ext_v1, n_stages, 16, uint64_t);
AT(frt_generic_stage_plan_ext_v1, stage_self, 24, void*);
AT(frt_generic_stage_plan_ext_v1, run_opaque, 32, int (*)(void*, uint32_t));
AT(frt_model_runtime_verbs, struct_size, 0, uint32_t);
AT(frt_model_runtime_verbs, reserved, 4, uint32_t);
AT(frt_model_runtime_verbs, set_input, 8, int (*)(void*, uint32_t, const void*, uint64_t, int));
AT(frt_model_runtime_verbs, get_output, 16,
   int (*)(void*, uint32_t, void*, uint64_t, uint64_t*, int));
AT(frt_model_runtime_verbs, prepare, 24, int (*)(void*, uint32_t, frt_shape_key));
AT(frt_model_runtime_verbs, step, 32, int (*)(void*));
AT(frt_model_runtime_verbs, last_error, 40, const char* (*)(void*));
AT(frt_model_runtime_v1, abi_version, 0, uint32_t);
AT(frt_model_runtime_v1, struct_size, 4, uint32_t);
AT(frt_model_runtime_v1, exp, 8, const frt_runtime_export_v1*);
AT(frt_model_runtime_v1, ports, 16, const frt_runtime_port_desc*);
AT(frt_model_runtime_v1, n_ports, 24, uint64_t);
AT(frt_model_runtime_v1, stages, 32, const frt_runtime_stage_desc*);
AT(frt_model_runtime_v1, n_stages, 40, uint64_t);
AT(frt_model_runtime_v1, self, 48, void*);
AT(frt_model_runtime_v1, verbs, 56, frt_model_runtime_verbs);
AT(frt_model_runtime_v1, owner, 104, void*);
AT(frt_model_runtime_v1, retain, 112, void (*)(void*));
AT(frt_model_runtime_v1, release, 120, void (*)(void*));
AT(frt_model_runtime_v1, query_extension, 128,
   int (*)(const frt_model_runtime_v1*, uint64_t, uint32_t, const void**));

#define CALL(function, signature) static_assert(std::is_same_v<decltype(&function), signature>)
using Record = void (*)(void*, void*);
CALL(frt_ctx_create, frt_ctx (*)());
CALL(frt_ctx_destroy, void (*)(frt_ctx));
CALL(frt_ctx_stream, int (*)(frt_ctx, int));
CALL(frt_ctx_wrap_stream, int (*)(frt_ctx, void*));
CALL(frt_ctx_event, frt_event (*)(frt_ctx));
CALL(frt_event_destroy, void (*)(frt_event));
CALL(frt_event_record, int (*)(frt_event, int));
CALL(frt_stream_wait, int (*)(frt_ctx, int, frt_event));
CALL(frt_buffer_alloc, frt_buffer (*)(frt_ctx, const char*, size_t));
CALL(frt_buffer_wrap, frt_buffer (*)(frt_ctx, const char*, void*, size_t));
CALL(frt_buffer_dptr, void* (*)(frt_buffer));
CALL(frt_buffer_bytes, size_t (*)(frt_buffer));
CALL(frt_buffer_name, const char* (*)(frt_buffer));
CALL(frt_buffer_copy, int (*)(frt_ctx, frt_buffer, size_t, frt_buffer, size_t, size_t, int));
CALL(frt_graph_create, frt_graph (*)(frt_ctx, const char*, size_t));
CALL(frt_graph_destroy, void (*)(frt_graph));
CALL(frt_graph_capture, int (*)(frt_graph, frt_shape_key, Record, void*));
CALL(frt_graph_adopt, int (*)(frt_graph, frt_shape_key, void*));
CALL(frt_graph_bind, int (*)(frt_graph, const char*, frt_buffer));
CALL(frt_graph_replay, int (*)(frt_graph, frt_shape_key, int));
CALL(frt_graph_has_variant, int (*)(frt_graph, frt_shape_key));
CALL(frt_graph_evict, int (*)(frt_graph, frt_shape_key));
CALL(frt_graph_evict_lru, int (*)(frt_graph));
CALL(frt_graph_variant_count, size_t (*)(frt_graph));
CALL(frt_plan_create, frt_plan (*)(frt_ctx));
CALL(frt_plan_destroy, void (*)(frt_plan));
CALL(frt_plan_add, int (*)(frt_plan, frt_graph, frt_shape_key, int));
CALL(frt_plan_after, int (*)(frt_plan, int, int));
CALL(frt_plan_execute, int (*)(frt_plan, frt_shape_key));
CALL(frt_plan_sync, int (*)(frt_plan));
using B = frt_runtime_builder;
using Owned = void (*)(void*);
CALL(frt_runtime_builder_create, B (*)(frt_ctx));
CALL(frt_model_runtime_builder_create_metadata, B (*)());
CALL(frt_runtime_builder_add_stream, int (*)(B, const char*, int, int, void*));
CALL(frt_runtime_builder_add_graph,
     int (*)(B, const char*, frt_graph, frt_shape_key, const frt_shape_key*, uint64_t, int));
CALL(frt_runtime_builder_add_buffer, int (*)(B, const char*, frt_buffer, uint64_t, uint32_t));
CALL(frt_runtime_builder_add_region,
     int (*)(B, const char*, frt_buffer, uint64_t, uint64_t, uint32_t));
CALL(frt_runtime_builder_add_identity, int (*)(B, const char*, const char*));
CALL(frt_runtime_builder_set_manifest, int (*)(B, const char*));
CALL(frt_runtime_builder_add_port,
     int (*)(B, const char*, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t,
             const int64_t*, uint32_t, uint32_t, frt_buffer, uint64_t, uint64_t));
CALL(frt_runtime_builder_add_stage, int (*)(B, uint32_t, const uint32_t*, uint32_t));
CALL(frt_runtime_builder_add_generic_stage,
     int (*)(B, const char*, uint32_t, uint32_t, const uint32_t*, uint32_t));
CALL(frt_runtime_builder_set_generic_stage_runner, int (*)(B, void*, int (*)(void*, uint32_t)));
CALL(frt_runtime_builder_finish, frt_runtime_export_v1* (*)(B, void*, Owned, Owned));
CALL(frt_runtime_builder_finish_model,
     frt_model_runtime_v1* (*)(B, const frt_model_runtime_verbs*, void*, void*, Owned, Owned));
CALL(frt_model_runtime_wrap,
     frt_model_runtime_v1* (*)(const frt_runtime_export_v1*, const frt_runtime_port_desc*, uint64_t,
                               const frt_runtime_stage_desc*, uint64_t,
                               const frt_model_runtime_verbs*, void*, void*, Owned));
CALL(frt_model_runtime_override_verbs,
     frt_model_runtime_v1* (*)(const frt_model_runtime_v1*, const frt_model_runtime_verbs*, void*,
                               void*, Owned, Owned));
CALL(frt_runtime_fingerprint, uint64_t (*)(const void*, size_t));
static_assert(
    std::is_same_v<frt_runtime_open_v1_fn, int (*)(const char*, frt_runtime_export_v1**)>);
static_assert(
    std::is_same_v<frt_model_runtime_open_v1_fn, int (*)(const char*, frt_model_runtime_v1**)>);

}  // namespace

TEST_CASE("values, layouts and signatures are those of the contract", "[values]")
{
    // What is text cannot be asserted while compiling.
    CHECK(std::strcmp(FRT_RUNTIME_OPEN_V1_SYMBOL, "frt_runtime_open_v1") == 0);
    CHECK(std::strcmp(FRT_MODEL_RUNTIME_OPEN_V1_SYMBOL, "frt_model_runtime_open_v1") == 0);
}
