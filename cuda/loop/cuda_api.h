// Purpose:  every call that the CUDA backends (loop and text runtime) make, in one table of
// pointers: the real runtime fills it where there is one, the execution shim fills it in tests.
// CudaCalls is the only user, and it knows which calls are legal after the seal.
//
// Loop and runtimes share one device, and a reset by one takes what the others have. Streams and
// executors of before a reset answer kCudaStale from then on and may still be closed; memory of
// before it must not be released: look at resets(). A launch of either that does not end in its
// time takes the device from both: whatever gives something back, a reset too, would wait for it.
// Whoever sees that says so (abandon), and from then on nobody asks the device for anything.
// Owns:     nothing; handles belong to the caller.
// Thread:   as tagged; codes are those of the CUDA runtime, 0 is success.
// Lifetime: a table is static.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/core/check.h"
#include "cuda_program.h"

namespace aotx {

constexpr int kCudaCodesMax = 16;

// What the backend must know of a machine before it takes anything.
struct CudaMachine {
    int driver_version;   // 1000 * major + 10 * minor, 0: no driver
    int runtime_version;  // of the library that this was built with
    int device_count;
    int compute_major;
    int compute_minor;
    int multiprocessors;
    int maps_registered;  // 1: host pointers of registered memory are device pointers
    uint64_t memory_bytes;
    char name[64];
    // What the kernels were built for, as 10 * major + minor, ascending, ended by 0; not the
    // machine's: machine code, and PTX that a newer GPU compiles for itself.
    int codes[kCudaCodesMax];
    int ptx[kCudaCodesMax];
};

struct CudaApi {
    // Never fails and leaves no error behind: what cannot be found out stays 0. [before the seal]
    void (*probe)(CudaMachine* machine);
    // Choose device 0, blocking synchronisation, and load every kernel. [before the seal]
    int (*open_device)(void);
    // Give everything back, whosever it is; nothing when there have been more resets than `seen`,
    // so that of two who see one fault only one resets. [after a fault]
    int (*reset_device)(uint64_t seen);
    // Device memory that is zero, and bytes that have arrived, when the call is back: streams of
    // this table do not wait for what is still on its way. [before the seal]
    int (*allocate)(void** memory, size_t bytes);
    int (*release)(void* memory);
    int (*upload)(void* device, const void* host, size_t bytes);
    int (*register_host)(void* memory, size_t bytes);  // mapped, pinned
    int (*unregister_host)(void* memory);
    int (*stream_open)(void** stream);
    int (*stream_close)(void* stream);
    int (*program_open)(const Program* program, void* stream, void** executor);  // once, uploaded
    int (*program_close)(void* executor);
    // Legal after the seal:
    int (*launch)(void* executor, void* stream);
    int (*callback)(void* stream, void (*function)(void*), void* argument);
    int (*query)(void* stream);  // 0 done, kCudaNotReady, or the fault
    const char* (*text)(int code);
    uint64_t (*resets)(void);  // of this process's device, ever
    void (*abandon)(void);     // for the rest of this process
    int (*abandoned)(void);
};

constexpr int kCudaNotReady = 600;
constexpr int kCudaTimedOut = 702;
constexpr int kCudaNoDevice = 100;
constexpr int kCudaNoDriver = 35;
constexpr int kCudaStale = 709;  // the context is destroyed

// The CUDA calls: the runtime's in the shared object, the execution shim's in tests.
const CudaApi* cuda_backend_api() noexcept;

// The table with the seal. After seal() only launch, callback, query and what asks nothing of the
// device are legal, the rest is a bug of ours and stops the process; unseal() is for close and
// restart alone.
class CudaCalls {
public:
    explicit CudaCalls(const CudaApi* api) noexcept : api_(api) {}
    void seal() noexcept { sealed_ = true; }
    void unseal() noexcept { sealed_ = false; }
    bool sealed() const noexcept { return sealed_; }
    // The table, for a call that takes, gives back or changes anything.
    const CudaApi& setup() const noexcept
    {
        AOTX_CORE_CHECK(!sealed_);
        return *api_;
    }
    int launch(void* executor, void* stream) const noexcept
    {
        return api_->launch(executor, stream);
    }
    int callback(void* stream, void (*function)(void*), void* argument) const noexcept
    {
        return api_->callback(stream, function, argument);
    }
    int query(void* stream) const noexcept { return api_->query(stream); }
    void abandon() const noexcept { api_->abandon(); }
    bool abandoned() const noexcept { return api_->abandoned() != 0; }
    uint64_t resets() const noexcept { return api_->resets(); }
    const char* text(int code) const noexcept { return api_->text(code); }

private:
    const CudaApi* api_;
    bool sealed_ = false;
};

// Have all device code loaded when the device is opened: what is loaded at its first use waits for
// the device to be idle. Overrules CUDA_MODULE_LOADING; to be called before the first CUDA call of
// the process. [main thread]
void cuda_loading_choose() noexcept;

// Can this machine run the backend? False with a plain sentence in reason [reason_bytes]. Looks at
// the environment too: CUDA_LAUNCH_BLOCKING=1 would make the host wait for a loop that waits for
// it.
[[nodiscard]] bool cuda_usable(const CudaMachine& machine, char* reason,
                               size_t reason_bytes) noexcept;

}  // namespace aotx
