/* Purpose:  the execution layer of the model runtime ABI: contexts, streams, events, buffers, graph
 *           caches with exact keys, and plans. Mechanism only: nothing here knows a model.
 * Owns:     nothing; a context owns every object that was created in it.
 * Thread:   no call locks; one thread at a time drives one context and everything that it owns.
 * Lifetime: a handle is valid until its own destroy call or the destruction of its context.
 *
 * Plain C11, also valid as C++ and CUDA. Names, values and layouts are frozen: append only. The
 * functions are implemented by libflashrt_exec.so, on CUDA or on the CPU, chosen when a context is
 * created. Handles belong to the library that made them; two such libraries in one process do not
 * mix. Calls that return int answer with an frt_status. */
#ifndef FLASHRT_EXEC_H
#define FLASHRT_EXEC_H

#include <stddef.h>
#include <stdint.h>

/* Layout asserts. Every public struct lists all of its fields, so no hole can appear unseen. */
#if defined(__cplusplus)
#define FRT_STATIC_ASSERT(condition, text) static_assert(condition, text)
#else
#define FRT_STATIC_ASSERT(condition, text) _Static_assert(condition, text)
#endif
#define FRT_FIELD(type, field, offset_bytes, size_bytes)         \
    FRT_STATIC_ASSERT(offsetof(type, field) == (offset_bytes),   \
                      #type "." #field " is at " #offset_bytes); \
    FRT_STATIC_ASSERT(sizeof(((type*)0)->field) == (size_bytes), \
                      #type "." #field " holds " #size_bytes " bytes")
#define FRT_SIZE(type, size_bytes) \
    FRT_STATIC_ASSERT(sizeof(type) == (size_bytes), #type " holds " #size_bytes " bytes")

FRT_STATIC_ASSERT(sizeof(void*) == 8, "the ABI is defined for 64-bit pointers");
FRT_STATIC_ASSERT(sizeof(int) == 4, "the ABI is defined for 32-bit int");

#if defined(__cplusplus)
extern "C" {
#endif

typedef struct frt_ctx_s* frt_ctx;
typedef struct frt_buffer_s* frt_buffer;
typedef struct frt_graph_s* frt_graph;
typedef struct frt_plan_s* frt_plan;
typedef struct frt_event_s* frt_event;

/* Which variant of a graph: compared for equality only. What a key means is the producer's. */
typedef uint64_t frt_shape_key;
FRT_STATIC_ASSERT(sizeof(frt_shape_key) == 8, "frt_shape_key holds 8 bytes");

/* In a plan node: use the key that frt_plan_execute is given. */
#define FRT_KEY_INHERIT ((frt_shape_key)~0ull)

/* Answers of this layer. ABI: append only. No struct and no signature holds the enum type, so its
 * width is not part of the ABI. */
typedef enum frt_status {
    FRT_OK = 0,
    FRT_ERR_INVALID = -1,    /* an argument is null, out of range or of another context */
    FRT_ERR_NO_VARIANT = -2, /* the graph holds no variant under this key */
    FRT_ERR_UNBOUND = -3,    /* reserved; no call answers it */
    FRT_ERR_CAPTURE = -4,    /* capture or instantiation failed */
    FRT_ERR_BACKEND = -5,    /* the device or the recorded work failed */
    FRT_ERR_OOM = -6         /* no memory */
} frt_status;

/* ---- contexts and streams ---- */

/* A context with stream 0. NULL when no backend can make one.
 * [setup] [allocates] The environment variable FLASHRT_EXEC_BACKEND picks "cpu" or "cuda"; without
 * it, CUDA when it was built in and a device answers, else the CPU. */
frt_ctx frt_ctx_create(void);

/* A context on one backend, "cpu" or "cuda", whatever the environment says. NULL: not built in, or
 * no device. Added by this implementation. [setup] [allocates] */
frt_ctx frt_ctx_create_on(const char* backend);

/* "cpu" or "cuda"; "" without a context. Added by this implementation. [hot] */
const char* frt_ctx_backend(frt_ctx ctx);

/* Waits for the work of the streams that the context made, then frees everything that it owns.
 * Wrapped streams, wrapped memory and adopted graphs are left alone. NULL is allowed. [setup] */
void frt_ctx_destroy(frt_ctx ctx);

/* A new stream; returns its ID, > 0. priority 0 is normal, more negative is higher, clamped to what
 * the device has. FRT_ERR_INVALID without a context, FRT_ERR_BACKEND when none can be made. */
int frt_ctx_stream(frt_ctx ctx, int priority);

/* Enter a stream that someone else owns; returns its ID. native NULL is the default stream.
 * Must not run while another thread replays in this context. */
int frt_ctx_wrap_stream(frt_ctx ctx, void* native);

/* The backend's handle of a stream, for export; NULL when it is the default stream or unknown.
 * Added by this implementation. [hot] */
void* frt_ctx_native_stream(frt_ctx ctx, int stream_id);

/* Wait until everything enqueued on the stream is done. -1, or -5 when that work failed. Added by
 * this implementation. */
int frt_stream_sync(frt_ctx ctx, int stream_id);

/* ---- events ---- */

/* An event of the context, for order between streams; NULL on failure. [setup] [allocates] */
frt_event frt_ctx_event(frt_ctx ctx);
void frt_event_destroy(frt_event event);

/* The event stands for everything enqueued on the stream so far. -1 null or unknown stream, -5
 * backend. [hot] */
int frt_event_record(frt_event event, int stream_id);

/* Work enqueued on the stream after this call waits for the event. -1, -5. [hot] */
int frt_stream_wait(frt_ctx ctx, int stream_id, frt_event event);

/* ---- buffers (device memory; on the CPU backend, host memory) ---- */

/* bytes of memory, 256-byte aligned, owned by the context and zeroed. NULL: no context, bytes 0 or
 * no memory. name may be NULL; it is copied. [setup] [allocates] */
frt_buffer frt_buffer_alloc(frt_ctx ctx, const char* name, size_t bytes);

/* A buffer over memory of the caller, which must outlive the context. NULL: no context or no
 * memory given. [setup] [allocates] */
frt_buffer frt_buffer_wrap(frt_ctx ctx, const char* name, void* device_pointer, size_t bytes);

/* NULL, 0 and "" for a null buffer. [hot] */
void* frt_buffer_dptr(frt_buffer buffer);
size_t frt_buffer_bytes(frt_buffer buffer);
const char* frt_buffer_name(frt_buffer buffer);

/* Enqueue a copy between two buffers. Both ranges are checked first. -1 null, out of range or
 * unknown stream; -5 backend. [hot] */
int frt_buffer_copy(frt_ctx ctx, frt_buffer destination, size_t destination_offset,
                    frt_buffer source, size_t source_offset, size_t bytes, int stream_id);

/* Copy between a buffer and host memory, in stream order; done when the call returns. -1 null, out
 * of range or unknown stream; -5 backend. Added by this implementation. [hot] */
int frt_buffer_write(frt_ctx ctx, frt_buffer destination, size_t offset, const void* host,
                     size_t bytes, int stream_id);
int frt_buffer_read(frt_ctx ctx, frt_buffer source, size_t offset, void* host, size_t bytes,
                    int stream_id);

/* ---- graphs: a table of executables under exact keys ---- */

/* An empty table. variants_max 0 is unbounded; otherwise inserting above it drops the variant
 * that was least recently replayed or inserted. NULL without a context. [setup] [allocates] */
frt_graph frt_graph_create(frt_ctx ctx, const char* name, size_t variants_max);
void frt_graph_destroy(frt_graph graph);

/* Record work under a key; an existing variant of that key is replaced. record is called once with
 * the native stream to enqueue on (on the CPU backend: the recorder of cpu_recorder.h). -1 null;
 * -4 nothing could be captured or a call of record failed, and the table is as it was. [warm]
 * [allocates] */
int frt_graph_capture(frt_graph graph, frt_shape_key key, void (*record)(void* user, void* stream),
                      void* user);

/* Enter an executable that someone else owns; it is never freed here. -1 null. [warm] */
int frt_graph_adopt(frt_graph graph, frt_shape_key key, void* executable);

/* Remember which buffer serves a name; the last call wins. Bookkeeping only. -1 null. [warm] */
int frt_graph_bind(frt_graph graph, const char* port, frt_buffer buffer);

/* The buffer that was bound to a name, or NULL. Added by this implementation. [warm] */
frt_buffer frt_graph_bound(frt_graph graph, const char* port);

/* Enqueue the variant of this key and mark it most recent. -2 no such key, said before the stream
 * is looked at; -1 null or unknown stream; -5 launch failed. [hot] [no allocation] */
int frt_graph_replay(frt_graph graph, frt_shape_key key, int stream_id);

/* 1 or 0. [hot] */
int frt_graph_has_variant(frt_graph graph, frt_shape_key key);

/* Drop one variant: -2 when absent, -1 null. Never while it may be in flight. [warm] */
int frt_graph_evict(frt_graph graph, frt_shape_key key);

/* Drop the least recently replayed or inserted variant: -2 when empty, -1 null. [warm] */
int frt_graph_evict_lru(frt_graph graph);

size_t frt_graph_variant_count(frt_graph graph);

/* ---- plans: several replays with order between streams ---- */

frt_plan frt_plan_create(frt_ctx ctx);
void frt_plan_destroy(frt_plan plan);

/* Append a node; returns its index, or -1. key may be FRT_KEY_INHERIT. [setup] */
int frt_plan_add(frt_plan plan, frt_graph graph, frt_shape_key key, int stream_id);

/* node runs after dependency. -1 when either is out of range or dependency is not earlier: nodes
 * are enqueued in the order of their addition, so a later one cannot be waited for. [setup]
 * [allocates] */
int frt_plan_after(frt_plan plan, int node, int dependency);

/* Enqueue every node in the order of their addition; the first failure is returned. [hot] */
int frt_plan_execute(frt_plan plan, frt_shape_key key);

/* Wait until the work of every stream that the plan uses is done. -5 when it failed. */
int frt_plan_sync(frt_plan plan);

#if defined(__cplusplus)
}
#endif

#endif
