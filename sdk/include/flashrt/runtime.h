/* Purpose:  the export of the model runtime ABI: what a producer shares of its streams, graphs,
 *           buffers and state regions, under one identity; and the builder that makes it.
 * Owns:     nothing; an export is owned through its own retain and release.
 * Thread:   retain and release from any thread; a builder belongs to one thread at a time.
 * Lifetime: everything reachable from an export is valid while a reference to it is held.
 *
 * Plain C11, also valid as C++ and CUDA. Frozen: fields, values and names are only ever appended.
 * The functions come either from builder.hpp (C++17, header only) or from libflashrt_runtime.so. */
#ifndef FLASHRT_RUNTIME_H
#define FLASHRT_RUNTIME_H

#include "exec.h"

#if defined(__cplusplus)
extern "C" {
#endif

#define FRT_RUNTIME_ABI_VERSION 1u

/* What a buffer is for; bits. */
enum frt_rt_role {
    FRT_RT_ROLE_INPUT = 1,
    FRT_RT_ROLE_OUTPUT = 2,
    FRT_RT_ROLE_STATE = 4,
    FRT_RT_ROLE_SCRATCH = 8
};

/* What a host may do with a region; bits. */
enum frt_rt_region { FRT_RT_REGION_SNAPSHOT = 1, FRT_RT_REGION_RESTORE = 2 };

/* A stream that graphs replay on. */
typedef struct frt_runtime_stream_desc {
    const char* name;
    int stream_id;       /* the ID inside the context, >= 0 */
    int priority;        /* 0 normal, more negative is higher */
    void* native_handle; /* of the backend, borrowed; NULL is the default stream */
} frt_runtime_stream_desc;
FRT_SIZE(frt_runtime_stream_desc, 24);
FRT_FIELD(frt_runtime_stream_desc, name, 0, 8);
FRT_FIELD(frt_runtime_stream_desc, stream_id, 8, 4);
FRT_FIELD(frt_runtime_stream_desc, priority, 12, 4);
FRT_FIELD(frt_runtime_stream_desc, native_handle, 16, 8);

/* A graph and the keys that it held when it was exported. Four bytes of padding follow. */
typedef struct frt_runtime_graph_desc {
    const char* name;
    frt_graph handle;
    frt_shape_key default_key;
    const frt_shape_key* keys; /* [n_keys]; NULL when n_keys is 0 */
    uint64_t n_keys;
    int stream_id; /* where it replays */
} frt_runtime_graph_desc;
FRT_SIZE(frt_runtime_graph_desc, 48);
FRT_FIELD(frt_runtime_graph_desc, name, 0, 8);
FRT_FIELD(frt_runtime_graph_desc, handle, 8, 8);
FRT_FIELD(frt_runtime_graph_desc, default_key, 16, 8);
FRT_FIELD(frt_runtime_graph_desc, keys, 24, 8);
FRT_FIELD(frt_runtime_graph_desc, n_keys, 32, 8);
FRT_FIELD(frt_runtime_graph_desc, stream_id, 40, 4);

/* A named buffer and what it is for. */
typedef struct frt_runtime_buffer_desc {
    const char* name;
    frt_buffer handle;
    uint64_t bytes;
    uint32_t role;     /* enum frt_rt_role bits */
    uint32_t reserved; /* 0 */
} frt_runtime_buffer_desc;
FRT_SIZE(frt_runtime_buffer_desc, 32);
FRT_FIELD(frt_runtime_buffer_desc, name, 0, 8);
FRT_FIELD(frt_runtime_buffer_desc, handle, 8, 8);
FRT_FIELD(frt_runtime_buffer_desc, bytes, 16, 8);
FRT_FIELD(frt_runtime_buffer_desc, role, 24, 4);
FRT_FIELD(frt_runtime_buffer_desc, reserved, 28, 4);

/* A window of state that a host may save and bring back. Restored by position, so order counts. */
typedef struct frt_runtime_region_desc {
    const char* name;
    frt_buffer buffer;
    uint64_t offset;
    uint64_t bytes;    /* > 0 */
    uint32_t flags;    /* enum frt_rt_region bits */
    uint32_t reserved; /* 0 */
} frt_runtime_region_desc;
FRT_SIZE(frt_runtime_region_desc, 40);
FRT_FIELD(frt_runtime_region_desc, name, 0, 8);
FRT_FIELD(frt_runtime_region_desc, buffer, 8, 8);
FRT_FIELD(frt_runtime_region_desc, offset, 16, 8);
FRT_FIELD(frt_runtime_region_desc, bytes, 24, 8);
FRT_FIELD(frt_runtime_region_desc, flags, 32, 4);
FRT_FIELD(frt_runtime_region_desc, reserved, 36, 4);

/* The export. retain and release take owner, never the struct's own address. */
typedef struct frt_runtime_export_v1 {
    uint32_t abi_version; /* FRT_RUNTIME_ABI_VERSION */
    uint32_t struct_size; /* 128 */
    frt_ctx ctx;          /* NULL only in a metadata export, which holds no resources at all */
    const frt_runtime_stream_desc* streams; /* every array is NULL when its count is 0 */
    uint64_t n_streams;
    const frt_runtime_graph_desc* graphs;
    uint64_t n_graphs;
    const frt_runtime_buffer_desc* buffers;
    uint64_t n_buffers;
    const frt_runtime_region_desc* capsule_regions;
    uint64_t n_capsule_regions;
    uint64_t fingerprint;      /* frt_runtime_fingerprint over the bytes of identity */
    const char* identity;      /* the canonical string; never NULL */
    const char* manifest_json; /* NULL when never set; not part of the identity */
    void* owner;
    void (*retain)(void* owner);
    void (*release)(void* owner);
} frt_runtime_export_v1;
FRT_SIZE(frt_runtime_export_v1, 128);
FRT_FIELD(frt_runtime_export_v1, abi_version, 0, 4);
FRT_FIELD(frt_runtime_export_v1, struct_size, 4, 4);
FRT_FIELD(frt_runtime_export_v1, ctx, 8, 8);
FRT_FIELD(frt_runtime_export_v1, streams, 16, 8);
FRT_FIELD(frt_runtime_export_v1, n_streams, 24, 8);
FRT_FIELD(frt_runtime_export_v1, graphs, 32, 8);
FRT_FIELD(frt_runtime_export_v1, n_graphs, 40, 8);
FRT_FIELD(frt_runtime_export_v1, buffers, 48, 8);
FRT_FIELD(frt_runtime_export_v1, n_buffers, 56, 8);
FRT_FIELD(frt_runtime_export_v1, capsule_regions, 64, 8);
FRT_FIELD(frt_runtime_export_v1, n_capsule_regions, 72, 8);
FRT_FIELD(frt_runtime_export_v1, fingerprint, 80, 8);
FRT_FIELD(frt_runtime_export_v1, identity, 88, 8);
FRT_FIELD(frt_runtime_export_v1, manifest_json, 96, 8);
FRT_FIELD(frt_runtime_export_v1, owner, 104, 8);
FRT_FIELD(frt_runtime_export_v1, retain, 112, 8);
FRT_FIELD(frt_runtime_export_v1, release, 120, 8);

/* ---- builder ----
 *
 * Collects declarations, checks each, and turns into an export or a model runtime. Builder calls
 * answer 0 or -1; a refused call changes nothing and leaves its reason in frt_runtime_refusal. All
 * strings and arrays are copied. Handles are borrowed: they are never called, only passed on.
 * [setup] [allocates] */
typedef struct frt_runtime_builder_s* frt_runtime_builder;

/* NULL without a context, or without memory. */
frt_runtime_builder frt_runtime_builder_create(frt_ctx ctx);

/* name is not empty, unlike the other streams' and without control characters; stream_id >= 0 and
 * unlike the others'. Refused by a metadata builder. */
int frt_runtime_builder_add_stream(frt_runtime_builder builder, const char* name, int stream_id,
                                   int priority, void* native_handle);

/* name as above; handle not NULL; keys not NULL when n_keys > 0. When the builder ends up with any
 * stream, stream_id must name one of them, which finish checks. Refused by a metadata builder. */
int frt_runtime_builder_add_graph(frt_runtime_builder builder, const char* name, frt_graph handle,
                                  frt_shape_key default_key, const frt_shape_key* keys,
                                  uint64_t n_keys, int stream_id);

/* name as above; handle not NULL; bytes its true size; role only known bits. */
int frt_runtime_builder_add_buffer(frt_runtime_builder builder, const char* name, frt_buffer handle,
                                   uint64_t bytes, uint32_t role);

/* name as above and at most 109 bytes; bytes > 0; inside the buffer when that is declared; flags
 * only known bits. */
int frt_runtime_builder_add_region(frt_runtime_builder builder, const char* name, frt_buffer buffer,
                                   uint64_t offset, uint64_t bytes, uint32_t flags);

/* A line "key=value" of the identity, in the order of the calls, taken byte for byte. Producers
 * put digests of their weights, precision, kernel version and hardware here. */
int frt_runtime_builder_add_identity(frt_runtime_builder builder, const char* key,
                                     const char* value);

/* Free text for people and tools; the last call wins; not part of the identity. */
int frt_runtime_builder_set_manifest(frt_runtime_builder builder, const char* json);

/* Turn the builder into an export with one reference, which the caller holds. retain_owner(owner)
 * runs once here, release_owner(owner) once when the last reference goes; both may be NULL.
 * NULL, the builder still usable and nothing retained, when it holds ports or stages, when it is a
 * metadata builder, or when a graph's stream or a window does not fit. Success consumes it. */
frt_runtime_export_v1* frt_runtime_builder_finish(frt_runtime_builder builder, void* owner,
                                                  void (*retain_owner)(void* owner),
                                                  void (*release_owner)(void* owner));

/* Free a builder that did not become anything. NULL is allowed. Added by this implementation. */
void frt_runtime_builder_destroy(frt_runtime_builder builder);

/* Why the most recent refused call of this thread was refused: one sentence that names the object
 * and the rule; "" before the first. Valid until the thread's next call. Never NULL. Added by this
 * implementation. */
const char* frt_runtime_refusal(void);

/* FNV-1a, 64 bits, over exactly these bytes. data may be NULL when bytes is 0. [hot] */
uint64_t frt_runtime_fingerprint(const void* data, size_t bytes);

/* Symbol convention for a shared object that offers exports without verbs. */
#define FRT_RUNTIME_OPEN_V1_SYMBOL "frt_runtime_open_v1"
typedef int (*frt_runtime_open_v1_fn)(const char* config_json, frt_runtime_export_v1** out);

#if defined(__cplusplus)
}
#endif

#endif
