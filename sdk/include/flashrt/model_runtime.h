/* Purpose:  the model runtime ABI: ports, stages, verbs and extensions around an export, and the
 *           calls that build, wrap and override such an object.
 * Owns:     nothing; a model runtime is owned through its own retain and release.
 * Thread:   retain and release from any thread; verbs from one driver thread at a time.
 * Lifetime: everything reachable from a model runtime is valid while a reference to it is held.
 *
 * Plain C11, also valid as C++ and CUDA. Frozen: fields, values and names are only ever appended.
 * A consumer looks at abi_version and struct_size first and touches no byte past struct_size. It
 * requires FRT_MODEL_RUNTIME_V1_BASE_SIZE and probes everything that lies behind.
 *
 * The hot contract: set_input, get_output, step and host writes into SWAP windows never allocate,
 * never capture and never rebind a pointer; only the contents of buffers change. */
#ifndef FLASHRT_MODEL_RUNTIME_H
#define FLASHRT_MODEL_RUNTIME_H

#include "runtime.h"

#if defined(__cplusplus)
extern "C" {
#endif

#define FRT_MODEL_RUNTIME_ABI_VERSION 1u

/* What a port carries. STATE is proprioception; internal windows are TENSOR. */
enum frt_rt_modality {
    FRT_RT_MOD_TENSOR = 0,
    FRT_RT_MOD_IMAGE = 1,
    FRT_RT_MOD_TEXT = 2,
    FRT_RT_MOD_STATE = 3,
    FRT_RT_MOD_ACTION = 4,
    FRT_RT_MOD_AUDIO = 5,
    FRT_RT_MOD_DEPTH = 6,
    FRT_RT_MOD_FORCE = 7
};

/* Element type on the device side. */
enum frt_rt_dtype {
    FRT_RT_DTYPE_U8 = 0,
    FRT_RT_DTYPE_F32 = 1,
    FRT_RT_DTYPE_F16 = 2,
    FRT_RT_DTYPE_BF16 = 3,
    FRT_RT_DTYPE_I32 = 4,
    FRT_RT_DTYPE_I64 = 5
};

/* Order of a tensor's dimensions: batch N, height H, width W, channels C. */
enum frt_rt_layout {
    FRT_RT_LAYOUT_FLAT = 0,
    FRT_RT_LAYOUT_HWC = 1,
    FRT_RT_LAYOUT_NHWC = 2,
    FRT_RT_LAYOUT_CHW = 3,
    FRT_RT_LAYOUT_NCHW = 4
};

/* Bytes of one pixel, in memory order. */
enum frt_rt_pixel {
    FRT_RT_PIXEL_RGB8 = 0,
    FRT_RT_PIXEL_BGR8 = 1,
    FRT_RT_PIXEL_RGBA8 = 2,
    FRT_RT_PIXEL_BGRA8 = 3,
    FRT_RT_PIXEL_GRAY8 = 4
};

enum frt_rt_port_direction { FRT_RT_PORT_IN = 0, FRT_RT_PORT_OUT = 1 };

/* How a port is updated. SWAP: the host writes or reads the raw window itself. STAGED: through
 * set_input or get_output, at any time outside a running step; a promise to accept hot updates.
 * SETUP: only outside ticks. */
enum frt_rt_port_update { FRT_RT_PORT_SWAP = 0, FRT_RT_PORT_STAGED = 1, FRT_RT_PORT_SETUP = 2 };

/* One camera frame in host memory. set_input on an IMAGE or DEPTH port takes an array of them, in
 * the declared camera order. The pixels may be reused as soon as the call returns. */
typedef struct frt_image_view {
    uint32_t struct_size;  /* 48 */
    uint32_t pixel_format; /* enum frt_rt_pixel */
    const void* data;
    uint64_t bytes; /* at least stride * height */
    int32_t width;  /* pixels */
    int32_t height;
    int32_t stride_bytes; /* from row to row; 0: packed */
    uint32_t reserved;    /* 0 */
    uint64_t timestamp_ns;
} frt_image_view;
FRT_SIZE(frt_image_view, 48);
FRT_FIELD(frt_image_view, struct_size, 0, 4);
FRT_FIELD(frt_image_view, pixel_format, 4, 4);
FRT_FIELD(frt_image_view, data, 8, 8);
FRT_FIELD(frt_image_view, bytes, 16, 8);
FRT_FIELD(frt_image_view, width, 24, 4);
FRT_FIELD(frt_image_view, height, 28, 4);
FRT_FIELD(frt_image_view, stride_bytes, 32, 4);
FRT_FIELD(frt_image_view, reserved, 36, 4);
FRT_FIELD(frt_image_view, timestamp_ns, 40, 8);

/* One dynamic input or output. */
typedef struct frt_runtime_port_desc {
    const char* name;
    uint32_t modality;    /* enum frt_rt_modality */
    uint32_t dtype;       /* enum frt_rt_dtype */
    uint32_t layout;      /* enum frt_rt_layout */
    uint32_t direction;   /* enum frt_rt_port_direction */
    uint32_t update;      /* enum frt_rt_port_update */
    uint32_t required;    /* 1: must be written before the first tick */
    const int64_t* shape; /* [rank]; -1 varies by bucket; of a STAGED output: the host payload */
    uint32_t rank;
    uint32_t cadence_hint_hz; /* advice only; not part of the identity */
    frt_buffer buffer;        /* NULL: no raw window */
    uint64_t offset;          /* of the window in the buffer, bytes */
    uint64_t bytes;
} frt_runtime_port_desc;
FRT_SIZE(frt_runtime_port_desc, 72);
FRT_FIELD(frt_runtime_port_desc, name, 0, 8);
FRT_FIELD(frt_runtime_port_desc, modality, 8, 4);
FRT_FIELD(frt_runtime_port_desc, dtype, 12, 4);
FRT_FIELD(frt_runtime_port_desc, layout, 16, 4);
FRT_FIELD(frt_runtime_port_desc, direction, 20, 4);
FRT_FIELD(frt_runtime_port_desc, update, 24, 4);
FRT_FIELD(frt_runtime_port_desc, required, 28, 4);
FRT_FIELD(frt_runtime_port_desc, shape, 32, 8);
FRT_FIELD(frt_runtime_port_desc, rank, 40, 4);
FRT_FIELD(frt_runtime_port_desc, cadence_hint_hz, 44, 4);
FRT_FIELD(frt_runtime_port_desc, buffer, 48, 8);
FRT_FIELD(frt_runtime_port_desc, offset, 56, 8);
FRT_FIELD(frt_runtime_port_desc, bytes, 64, 8);

/* One schedulable stage: a graph of the export and the earlier stages it waits for, within one
 * iteration. Array order is a valid sequential order. The stream is that of the graph. */
typedef struct frt_runtime_stage_desc {
    uint32_t graph;
    uint32_t n_after;
    const uint32_t* after; /* [n_after], each < this stage's index */
} frt_runtime_stage_desc;
FRT_SIZE(frt_runtime_stage_desc, 16);
FRT_FIELD(frt_runtime_stage_desc, graph, 0, 4);
FRT_FIELD(frt_runtime_stage_desc, n_after, 4, 4);
FRT_FIELD(frt_runtime_stage_desc, after, 8, 8);

/* ---- verbs ----
 *
 * What a consumer may call. In a runtime that this builder made, no entry is NULL: a verb that the
 * producer lacks answers -3. Codes, see enum frt_verb_code. After a failure last_error tells why;
 * after a success it is empty. This struct lies inside frt_model_runtime_v1: it never grows. */
enum frt_verb_code {
    FRT_VERB_OK = 0,
    FRT_VERB_INVALID = -1,     /* null, unknown port, wrong direction, malformed payload */
    FRT_VERB_NOT_FOUND = -2,   /* no such graph, variant or file */
    FRT_VERB_UNSUPPORTED = -3, /* this runtime does not do that */
    FRT_VERB_SHAPE = -4,       /* a count, dimension, stride or format differs from the schema */
    FRT_VERB_STORAGE = -5,     /* a buffer is too small */
    FRT_VERB_BACKEND = -6      /* the device or the engine failed */
};

/* The verbs; what each may answer is above. */
typedef struct frt_model_runtime_verbs {
    uint32_t struct_size; /* 48 */
    uint32_t reserved;    /* 0 */
    /* Write a STAGED input. data: see the payload table in docs. stream: an exported stream_id, or
     * -1 for the port's own. [hot] */
    int (*set_input)(void* self, uint32_t port, const void* data, uint64_t bytes, int stream);
    /* Read a STAGED output; done when it returns. -5: capacity is short, *written is the need and
     * nothing was copied. [hot] */
    int (*get_output)(void* self, uint32_t port, void* out, uint64_t capacity, uint64_t* written,
                      int stream);
    /* Make sure that a graph holds a variant for this key. Never inside a tick. [warm] */
    int (*prepare)(void* self, uint32_t graph, frt_shape_key key);
    /* Fire all stages in their declared order, or the whole work of a runtime without a plan.
     * [hot] */
    int (*step)(void* self);
    /* Text of the most recent failure, owned by the producer, never NULL. */
    const char* (*last_error)(void* self);
} frt_model_runtime_verbs;
FRT_SIZE(frt_model_runtime_verbs, 48);
FRT_FIELD(frt_model_runtime_verbs, struct_size, 0, 4);
FRT_FIELD(frt_model_runtime_verbs, reserved, 4, 4);
FRT_FIELD(frt_model_runtime_verbs, set_input, 8, 8);
FRT_FIELD(frt_model_runtime_verbs, get_output, 16, 8);
FRT_FIELD(frt_model_runtime_verbs, prepare, 24, 8);
FRT_FIELD(frt_model_runtime_verbs, step, 32, 8);
FRT_FIELD(frt_model_runtime_verbs, last_error, 40, 8);

struct frt_model_runtime_v1;

/* Find an extension table. *out is set to NULL first. -1: runtime or out NULL, or min_version 0;
 * -3: not offered in that version. 0: *out is the same table at every call, valid as long as a
 * reference is held. IDs below 2^32 are assigned by the ABI; a project's own lie above. */
typedef int (*frt_model_runtime_query_extension_fn)(const struct frt_model_runtime_v1* runtime,
                                                    uint64_t extension_id, uint32_t min_version,
                                                    const void** out_extension);

/* The object. Exactly one of these is what a consumer runs: the legacy stages; a generic plan
 * (extension 1); or step alone. retain and release take owner, never the struct's address. */
typedef struct frt_model_runtime_v1 {
    uint32_t abi_version; /* FRT_MODEL_RUNTIME_ABI_VERSION */
    uint32_t struct_size; /* 136; 128 from producers that know no tail */
    const frt_runtime_export_v1* exp;
    const frt_runtime_port_desc* ports; /* NULL when n_ports is 0 */
    uint64_t n_ports;
    const frt_runtime_stage_desc* stages; /* NULL when n_stages is 0 */
    uint64_t n_stages;
    void* self; /* first argument of every verb */
    frt_model_runtime_verbs verbs;
    void* owner;
    void (*retain)(void* owner);
    void (*release)(void* owner);
    /* The tail: each field has a size macro below that is probed before the field is touched. */
    frt_model_runtime_query_extension_fn query_extension;
} frt_model_runtime_v1;
FRT_SIZE(frt_model_runtime_v1, 136);
FRT_FIELD(frt_model_runtime_v1, abi_version, 0, 4);
FRT_FIELD(frt_model_runtime_v1, struct_size, 4, 4);
FRT_FIELD(frt_model_runtime_v1, exp, 8, 8);
FRT_FIELD(frt_model_runtime_v1, ports, 16, 8);
FRT_FIELD(frt_model_runtime_v1, n_ports, 24, 8);
FRT_FIELD(frt_model_runtime_v1, stages, 32, 8);
FRT_FIELD(frt_model_runtime_v1, n_stages, 40, 8);
FRT_FIELD(frt_model_runtime_v1, self, 48, 8);
FRT_FIELD(frt_model_runtime_v1, verbs, 56, 48);
FRT_FIELD(frt_model_runtime_v1, owner, 104, 8);
FRT_FIELD(frt_model_runtime_v1, retain, 112, 8);
FRT_FIELD(frt_model_runtime_v1, release, 120, 8);
FRT_FIELD(frt_model_runtime_v1, query_extension, 128, 8);

/* End of release: the only size that a consumer may require. */
#define FRT_MODEL_RUNTIME_V1_BASE_SIZE                           \
    ((uint32_t)(offsetof(struct frt_model_runtime_v1, release) + \
                sizeof(((struct frt_model_runtime_v1*)0)->release)))
/* End of query_extension. */
#define FRT_MODEL_RUNTIME_V1_QUERY_EXTENSION_SIZE                        \
    ((uint32_t)(offsetof(struct frt_model_runtime_v1, query_extension) + \
                sizeof(((struct frt_model_runtime_v1*)0)->query_extension)))
FRT_STATIC_ASSERT(FRT_MODEL_RUNTIME_V1_BASE_SIZE == 128, "the prefix holds 128 bytes");
FRT_STATIC_ASSERT(FRT_MODEL_RUNTIME_V1_QUERY_EXTENSION_SIZE == 136, "the first tail ends at 136");

/* ---- extension 1: the generic stage plan ---- */

#define FRT_EXT_GENERIC_STAGE_PLAN_V1 UINT64_C(1)
#define FRT_GENERIC_STAGE_PLAN_ABI_VERSION 1u
#define FRT_GENERIC_STAGE_NAME_MAX_BYTES 255u

/* What runs a stage. */
enum frt_generic_stage_executor {
    FRT_GENERIC_STAGE_GRAPH = 0, /* executor_ref is a graph index of the export */
    FRT_GENERIC_STAGE_OPAQUE = 1 /* executor_ref is passed to run_opaque, unchanged */
};

/* The stride is frozen. Four bytes of padding lie before after. */
typedef struct frt_generic_stage_desc_v1 {
    const char* name; /* unique, UTF-8, 1..255 bytes, no control characters */
    uint32_t executor_kind;
    uint32_t executor_ref;
    uint32_t n_after;
    const uint32_t* after; /* [n_after], strictly increasing, each < this stage's index */
} frt_generic_stage_desc_v1;
FRT_SIZE(frt_generic_stage_desc_v1, 32);
FRT_FIELD(frt_generic_stage_desc_v1, name, 0, 8);
FRT_FIELD(frt_generic_stage_desc_v1, executor_kind, 8, 4);
FRT_FIELD(frt_generic_stage_desc_v1, executor_ref, 12, 4);
FRT_FIELD(frt_generic_stage_desc_v1, n_after, 16, 4);
FRT_FIELD(frt_generic_stage_desc_v1, after, 24, 8);

/* At least one stage is OPAQUE; plans of graphs alone are legacy stages. */
typedef struct frt_generic_stage_plan_ext_v1 {
    uint32_t abi_version; /* FRT_GENERIC_STAGE_PLAN_ABI_VERSION */
    uint32_t struct_size; /* 40; may grow at its end */
    const frt_generic_stage_desc_v1* stages;
    uint64_t n_stages;
    void* stage_self;
    /* Do one OPAQUE stage and return when it is done. May allocate. The failure's text is that of
     * the runtime's last_error. */
    int (*run_opaque)(void* stage_self, uint32_t executor_ref);
} frt_generic_stage_plan_ext_v1;
FRT_SIZE(frt_generic_stage_plan_ext_v1, 40);
FRT_FIELD(frt_generic_stage_plan_ext_v1, abi_version, 0, 4);
FRT_FIELD(frt_generic_stage_plan_ext_v1, struct_size, 4, 4);
FRT_FIELD(frt_generic_stage_plan_ext_v1, stages, 8, 8);
FRT_FIELD(frt_generic_stage_plan_ext_v1, n_stages, 16, 8);
FRT_FIELD(frt_generic_stage_plan_ext_v1, stage_self, 24, 8);
FRT_FIELD(frt_generic_stage_plan_ext_v1, run_opaque, 32, 8);
#define FRT_GENERIC_STAGE_PLAN_EXT_V1_SIZE ((uint32_t)sizeof(frt_generic_stage_plan_ext_v1))

/* ---- construction; rules of runtime.h's builder apply ---- */

/* A builder for a runtime without graph resources: no context, streams, graphs, buffers, regions,
 * windows or SWAP ports. Its export is an anchor for identity and lifetime. NULL: no memory. */
frt_runtime_builder frt_model_runtime_builder_create_metadata(void);

/* name not empty, unlike other ports', at most 98 bytes, no control characters; every enum known;
 * required 0 or 1; shape not NULL when rank > 0, no dimension below -1; offset + bytes does not
 * wrap and lies inside the buffer when that is declared; a SWAP port has a buffer and bytes > 0. */
int frt_runtime_builder_add_port(frt_runtime_builder builder, const char* name, uint32_t modality,
                                 uint32_t dtype, uint32_t layout, uint32_t direction,
                                 uint32_t update, uint32_t required, const int64_t* shape,
                                 uint32_t rank, uint32_t cadence_hint_hz, frt_buffer buffer,
                                 uint64_t offset, uint64_t bytes);

/* A legacy stage: graph is already declared, every dependency is an earlier stage. Not next to a
 * generic plan and not in a metadata builder. */
int frt_runtime_builder_add_stage(frt_runtime_builder builder, uint32_t graph,
                                  const uint32_t* after, uint32_t n_after);

/* A stage of the generic plan; rules as in frt_generic_stage_desc_v1. Not next to legacy stages;
 * no GRAPH stage in a metadata builder. */
int frt_runtime_builder_add_generic_stage(frt_runtime_builder builder, const char* name,
                                          uint32_t executor_kind, uint32_t executor_ref,
                                          const uint32_t* after, uint32_t n_after);

/* Who runs the OPAQUE stages; once. From here on the builder has a generic plan. */
int frt_runtime_builder_set_generic_stage_runner(frt_runtime_builder builder, void* stage_self,
                                                 int (*run_opaque)(void* stage_self,
                                                                   uint32_t executor_ref));

/* Offer a table of one's own through query_extension. extension_id >= 2^32 and new; version >= 1;
 * the table is borrowed and must live as long as the runtime. Added by this implementation. */
int frt_runtime_builder_add_extension(frt_runtime_builder builder, uint64_t extension_id,
                                      uint32_t version, const void* table);

/* Turn the builder into a model runtime with one reference, which the caller holds; export and
 * runtime share one count. verbs is copied; NULL, or a table shorter than 48 bytes, means no verbs;
 * absent verbs become stubs that answer -3. NULL, the builder still usable and nothing retained,
 * when: a STAGED port lacks its verb; there is no authority or more than one; a generic plan is
 * empty, has no OPAQUE stage, no runner or no last_error; or what frt_runtime_builder_finish
 * refuses of graphs and windows. Success consumes the builder. */
frt_model_runtime_v1* frt_runtime_builder_finish_model(frt_runtime_builder builder,
                                                       const frt_model_runtime_verbs* verbs,
                                                       void* self, void* owner,
                                                       void (*retain_owner)(void* owner),
                                                       void (*release_owner)(void* owner));

/* Put ports, stages and verbs around someone's export, which is retained; the identity is
 * inherited. Descriptors are copied. At the end wrapper_release(wrapper_owner) runs first, then the
 * export is released. NULL, nothing retained: an export that fails its gates or is metadata only,
 * no stages, or what add_port, add_stage and finish_model refuse. */
frt_model_runtime_v1* frt_model_runtime_wrap(
    const frt_runtime_export_v1* exp, const frt_runtime_port_desc* ports, uint64_t n_ports,
    const frt_runtime_stage_desc* stages, uint64_t n_stages, const frt_model_runtime_verbs* verbs,
    void* self, void* wrapper_owner, void (*wrapper_release)(void* wrapper_owner));

/* Keep a runtime's declarations and identity and replace its verbs. The base is retained; ports,
 * stages and export are shared with it. A generic plan must be OPAQUE alone: it stays the base's,
 * with the base's runner and last_error. NULL, nothing retained: a base that fails its gates or
 * runs by step alone, a malformed or mixed plan, two authorities, a STAGED port without its verb.
 * At the end release_owner(owner) runs first, then the base is released. */
frt_model_runtime_v1* frt_model_runtime_override_verbs(const frt_model_runtime_v1* base,
                                                       const frt_model_runtime_verbs* verbs,
                                                       void* self, void* owner,
                                                       void (*retain_owner)(void* owner),
                                                       void (*release_owner)(void* owner));

/* Symbol convention: a shared object that is a producer exports this one symbol. 0: *out holds one
 * reference. Negative: *out is NULL. Set NULL at entry; a NULL out is -1; nothing is thrown. */
#define FRT_MODEL_RUNTIME_OPEN_V1_SYMBOL "frt_model_runtime_open_v1"
typedef int (*frt_model_runtime_open_v1_fn)(const char* config_json, frt_model_runtime_v1** out);

#if defined(__cplusplus)
}
#endif

#endif
