/* Purpose:  what a record callback of frt_graph_capture is given on the CPU backend, where a graph
 *           is a list of recorded calls that every replay runs again in order.
 * Owns:     nothing.
 * Thread:   the recorder is used inside the callback only, by the thread that captures.
 * Lifetime: a recorder ends with the callback; what it recorded lives as long as the variant.
 *
 * Plain C11, also valid as C++ and CUDA. Part of this implementation, not of the frozen ABI: it may
 * grow behind struct_size. A producer asks frt_ctx_backend which backend it records for. */
#ifndef FLASHRT_CPU_RECORDER_H
#define FLASHRT_CPU_RECORDER_H

#include "exec.h"

#if defined(__cplusplus)
extern "C" {
#endif

/* Work of one call: 0 is success, anything else ends the replay with FRT_ERR_BACKEND. */
typedef int (*frt_cpu_work)(void* arguments);

/* Where the CPU backend's stream of a capture takes its calls. */
typedef struct frt_cpu_recorder {
    uint32_t struct_size; /* 24 */
    uint32_t reserved;    /* 0 */
    void* self;
    /* Append a call. arguments_bytes bytes are copied, 16-byte aligned; every replay passes the
     * same copy. 0, or FRT_ERR_OOM, after which the capture fails as a whole. [warm] [allocates] */
    int (*call)(void* self, frt_cpu_work work, const void* arguments, size_t arguments_bytes);
} frt_cpu_recorder;
FRT_SIZE(frt_cpu_recorder, 24);
FRT_FIELD(frt_cpu_recorder, struct_size, 0, 4);
FRT_FIELD(frt_cpu_recorder, reserved, 4, 4);
FRT_FIELD(frt_cpu_recorder, self, 8, 8);
FRT_FIELD(frt_cpu_recorder, call, 16, 8);

/* What frt_graph_adopt takes on the CPU backend; borrowed until it is evicted. */
typedef struct frt_cpu_executable {
    frt_cpu_work work;
    void* arguments;
} frt_cpu_executable;
FRT_SIZE(frt_cpu_executable, 16);
FRT_FIELD(frt_cpu_executable, work, 0, 8);
FRT_FIELD(frt_cpu_executable, arguments, 8, 8);

#if defined(__cplusplus)
}
#endif

#endif
