// Purpose:  the seam between the execution layer's tables and what does the work: memory, streams,
//           events, captured executables.
// Owns:     nothing; the tables own what a backend hands out and give it back.
// Thread:   one thread at a time per context.
// Lifetime: a backend is a constant of the program.
#pragma once

#include <cstddef>

#include "flashrt/exec.h"

namespace aotx::exec {

// Handles of a backend are plain pointers; what they point at is its own business. Calls that
// return int answer with an frt_status.
class Backend {
public:
    virtual const char* name() const = 0;
    // Whether a context can work here at all: a device answers.
    virtual bool available() const = 0;

    // nullptr: no memory. The memory is zeroed and 256-byte aligned.
    virtual void* memory_take(size_t bytes) const = 0;
    virtual void memory_give(void* memory) const = 0;

    // *native may come out NULL, which is the default stream.
    virtual int stream_make(int priority, void** native) const = 0;
    virtual void stream_end(void* native) const = 0;
    virtual int stream_sync(void* native) const = 0;

    virtual int event_make(void** native) const = 0;
    virtual void event_end(void* native) const = 0;
    virtual int event_record(void* native, void* stream) const = 0;
    virtual int stream_wait(void* stream, void* event) const = 0;

    // Ranges are checked by the caller. copy enqueues; write and read are done at return.
    virtual int copy(void* to, const void* from, size_t bytes, void* stream) const = 0;
    virtual int write(void* to, const void* host, size_t bytes, void* stream) const = 0;
    virtual int read(void* host, const void* from, size_t bytes, void* stream) const = 0;

    // Run record once and keep what it enqueued. FRT_ERR_CAPTURE leaves nothing behind.
    virtual int capture(void* stream, void (*record)(void* user, void* stream), void* user,
                        void** executable) const = 0;
    // Only for executables of capture, never for adopted ones.
    virtual void executable_end(void* executable) const = 0;
    virtual int launch(void* executable, bool adopted, void* stream) const = 0;

protected:
    ~Backend() = default;
};

const Backend* cpu_backend();
// nullptr when this build has no CUDA.
const Backend* cuda_backend();

}  // namespace aotx::exec
