// Purpose:  the execution layer on the CPU: streams run at once on the calling thread, a graph is a
//           list of recorded calls.
// Owns:     nothing; memory and recordings belong to whoever took them.
// Thread:   the caller's; there is no other.
// Lifetime: constant.
//
// Work is done when the call that enqueues it returns. So every order between streams that a
// program may ask for holds by itself, and events have nothing to wait for.
#include <cstdlib>
#include <cstring>
#include <new>

#include "backend.h"
#include "flashrt/cpu_recorder.h"

namespace aotx::exec {
namespace {

constexpr size_t kMemoryAlignBytes = 256;

// One recorded call; its arguments follow in the same block.
struct alignas(16) Call {
    Call* next;
    frt_cpu_work work;
};

// What a capture produced.
struct Recording {
    Call* first = nullptr;
    Call* last = nullptr;
    bool failed = false;
};

void* call_arguments(Call* call)
{
    return call + 1;
}

void recording_free(Recording* recording)
{
    Call* call = recording->first;
    while (call != nullptr) {
        Call* next = call->next;
        std::free(call);
        call = next;
    }
    delete recording;
}

int record_call(void* self, frt_cpu_work work, const void* arguments, size_t arguments_bytes)
{
    Recording* recording = static_cast<Recording*>(self);
    if (work == nullptr || (arguments == nullptr && arguments_bytes > 0)) {
        recording->failed = true;
        return FRT_ERR_INVALID;
    }
    Call* call = nullptr;
    if (arguments_bytes < SIZE_MAX - sizeof(Call)) {
        call = static_cast<Call*>(std::malloc(sizeof(Call) + arguments_bytes));
    }
    if (call == nullptr) {
        recording->failed = true;
        return FRT_ERR_OOM;
    }
    call->next = nullptr;
    call->work = work;
    if (arguments_bytes > 0) {
        std::memcpy(call_arguments(call), arguments, arguments_bytes);
    }
    (recording->last == nullptr ? recording->first : recording->last->next) = call;
    recording->last = call;
    return FRT_OK;
}

class CpuBackend final : public Backend {
public:
    const char* name() const override { return "cpu"; }
    bool available() const override { return true; }

    void* memory_take(size_t bytes) const override
    {
        if (bytes > SIZE_MAX - kMemoryAlignBytes) {
            return nullptr;
        }
        const size_t whole = (bytes + kMemoryAlignBytes - 1) / kMemoryAlignBytes;
        void* memory = std::aligned_alloc(kMemoryAlignBytes, whole * kMemoryAlignBytes);
        if (memory != nullptr) {
            std::memset(memory, 0, whole * kMemoryAlignBytes);
        }
        return memory;
    }
    void memory_give(void* memory) const override { std::free(memory); }

    int stream_make(int, void** native) const override
    {
        *native = nullptr;
        return FRT_OK;
    }
    void stream_end(void*) const override {}
    int stream_sync(void*) const override { return FRT_OK; }

    int event_make(void** native) const override
    {
        *native = nullptr;
        return FRT_OK;
    }
    void event_end(void*) const override {}
    int event_record(void*, void*) const override { return FRT_OK; }
    int stream_wait(void*, void*) const override { return FRT_OK; }

    int copy(void* to, const void* from, size_t bytes, void*) const override
    {
        std::memmove(to, from, bytes);  // two windows of one buffer may overlap
        return FRT_OK;
    }
    int write(void* to, const void* host, size_t bytes, void* stream) const override
    {
        return copy(to, host, bytes, stream);
    }
    int read(void* host, const void* from, size_t bytes, void* stream) const override
    {
        return copy(host, from, bytes, stream);
    }

    int capture(void*, void (*record)(void* user, void* stream), void* user,
                void** executable) const override
    {
        Recording* recording = new (std::nothrow) Recording;
        if (recording == nullptr) {
            return FRT_ERR_CAPTURE;
        }
        frt_cpu_recorder recorder = {sizeof(frt_cpu_recorder), 0, recording, record_call};
        record(user, &recorder);
        if (recording->failed) {
            recording_free(recording);
            return FRT_ERR_CAPTURE;
        }
        *executable = recording;
        return FRT_OK;
    }
    void executable_end(void* executable) const override
    {
        recording_free(static_cast<Recording*>(executable));
    }
    int launch(void* executable, bool adopted, void*) const override
    {
        if (adopted) {
            const auto* foreign = static_cast<const frt_cpu_executable*>(executable);
            return foreign->work(foreign->arguments) == 0 ? FRT_OK : FRT_ERR_BACKEND;
        }
        for (Call* call = static_cast<Recording*>(executable)->first; call != nullptr;
             call = call->next) {
            if (call->work(call_arguments(call)) != 0) {
                return FRT_ERR_BACKEND;
            }
        }
        return FRT_OK;
    }
};

const CpuBackend kCpuBackend;

}  // namespace

const Backend* cpu_backend()
{
    return &kCpuBackend;
}

}  // namespace aotx::exec
