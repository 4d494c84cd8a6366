// Purpose:  the execution layer on CUDA: captured stream work as executable graphs.
// Owns:     nothing; streams, events, memory and graphs belong to whoever took them.
// Thread:   one thread at a time per context.
// Lifetime: constant.
//
// Compiled only where the CUDA toolkit is; whether a device answers is asked at run time.
#include <cuda_runtime_api.h>

#include "backend.h"

namespace aotx::exec {
namespace {

int status_of(cudaError_t error)
{
    if (error == cudaSuccess) {
        return FRT_OK;
    }
    cudaGetLastError();  // take the error out, or the next unrelated call would report it
    return FRT_ERR_BACKEND;
}

cudaStream_t stream_of(void* native)
{
    return static_cast<cudaStream_t>(native);
}

class CudaBackend final : public Backend {
public:
    const char* name() const override { return "cuda"; }
    bool available() const override
    {
        int count = 0;
        return status_of(cudaGetDeviceCount(&count)) == FRT_OK && count > 0;
    }

    void* memory_take(size_t bytes) const override
    {
        void* memory = nullptr;
        if (status_of(cudaMalloc(&memory, bytes)) != FRT_OK) {
            return nullptr;
        }
        // Stream 0 of the program; waited for, because streams of a context do not follow it.
        if (status_of(cudaMemset(memory, 0, bytes)) != FRT_OK ||
            status_of(cudaDeviceSynchronize()) != FRT_OK) {
            cudaFree(memory);
            return nullptr;
        }
        return memory;
    }
    void memory_give(void* memory) const override { status_of(cudaFree(memory)); }

    int stream_make(int priority, void** native) const override
    {
        int least = 0;
        int greatest = 0;
        if (status_of(cudaDeviceGetStreamPriorityRange(&least, &greatest)) != FRT_OK) {
            return FRT_ERR_BACKEND;
        }
        const int low_clamped = priority > least ? least : priority;
        const int clamped = low_clamped < greatest ? greatest : low_clamped;
        cudaStream_t stream = nullptr;
        const int status =
            status_of(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, clamped));
        *native = stream;
        return status;
    }
    void stream_end(void* native) const override
    {
        status_of(cudaStreamDestroy(stream_of(native)));
    }
    int stream_sync(void* native) const override
    {
        return status_of(cudaStreamSynchronize(stream_of(native)));
    }

    int event_make(void** native) const override
    {
        cudaEvent_t event = nullptr;
        const int status = status_of(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
        *native = event;
        return status;
    }
    void event_end(void* native) const override
    {
        status_of(cudaEventDestroy(static_cast<cudaEvent_t>(native)));
    }
    int event_record(void* native, void* stream) const override
    {
        return status_of(cudaEventRecord(static_cast<cudaEvent_t>(native), stream_of(stream)));
    }
    int stream_wait(void* stream, void* event) const override
    {
        return status_of(
            cudaStreamWaitEvent(stream_of(stream), static_cast<cudaEvent_t>(event), 0));
    }

    int copy(void* to, const void* from, size_t bytes, void* stream) const override
    {
        return status_of(
            cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_of(stream)));
    }
    int write(void* to, const void* host, size_t bytes, void* stream) const override
    {
        const int status =
            status_of(cudaMemcpyAsync(to, host, bytes, cudaMemcpyHostToDevice, stream_of(stream)));
        return status == FRT_OK ? stream_sync(stream) : status;
    }
    int read(void* host, const void* from, size_t bytes, void* stream) const override
    {
        const int status = status_of(
            cudaMemcpyAsync(host, from, bytes, cudaMemcpyDeviceToHost, stream_of(stream)));
        return status == FRT_OK ? stream_sync(stream) : status;
    }

    int capture(void* stream, void (*record)(void* user, void* stream), void* user,
                void** executable) const override
    {
        cudaGetLastError();  // what is found below came from record
        // Relaxed: record may allocate or touch other streams while it sets itself up.
        if (status_of(cudaStreamBeginCapture(stream_of(stream), cudaStreamCaptureModeRelaxed)) !=
            FRT_OK) {
            return FRT_ERR_CAPTURE;
        }
        record(user, stream);
        // record answers nothing, so a call of its that failed shows here or in a graph that
        // lacks it.
        const int recorded = status_of(cudaGetLastError());
        cudaGraph_t graph = nullptr;
        if (status_of(cudaStreamEndCapture(stream_of(stream), &graph)) != FRT_OK ||
            graph == nullptr) {
            return FRT_ERR_CAPTURE;
        }
        cudaGraphExec_t ready = nullptr;
        const int status = recorded != FRT_OK
                               ? recorded
                               : status_of(cudaGraphInstantiateWithFlags(&ready, graph, 0));
        status_of(cudaGraphDestroy(graph));
        if (status != FRT_OK) {
            return FRT_ERR_CAPTURE;
        }
        *executable = ready;
        return FRT_OK;
    }
    void executable_end(void* executable) const override
    {
        status_of(cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(executable)));
    }
    int launch(void* executable, bool, void* stream) const override
    {
        return status_of(
            cudaGraphLaunch(static_cast<cudaGraphExec_t>(executable), stream_of(stream)));
    }
};

const CudaBackend kCudaBackend;

}  // namespace

const Backend* cuda_backend()
{
    return &kCudaBackend;
}

}  // namespace aotx::exec
