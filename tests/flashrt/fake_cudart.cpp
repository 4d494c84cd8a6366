// Purpose:  the CUDA runtime behind fake_cudart.h.
// Owns:     see there.
// Thread:   one.
// Lifetime: of the test program.
#include "fake_cudart.h"

#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <set>
#include <vector>

using Work = std::function<void()>;

struct FakeGraph {
    std::vector<Work> works;
};
struct FakeGraphExec {
    std::vector<Work> works;
};
struct FakeStream {
    std::deque<Work> queue;
    FakeGraph* capture = nullptr;
};
struct FakeEvent {
    FakeStream* stream = nullptr;  // where it was recorded last
    uint64_t recorded = 0;
    uint64_t reached = 0;
};

namespace {

FakeCudart state;
FakeStream default_stream;
std::set<const void*> alive;

FakeStream* of(cudaStream_t stream)
{
    return stream == nullptr ? &default_stream : stream;
}

bool known(const void* handle)
{
    const bool is_known =
        handle == nullptr || handle == &default_stream || alive.count(handle) != 0;
    state.strangers += is_known ? 0 : 1;
    return is_known;
}

cudaError_t answer(cudaError_t error)
{
    state.error = error == cudaSuccess ? state.error : error;
    return error;
}

// Whether this call is the one that fails.
bool fails()
{
    state.calls++;
    return state.fail_at != 0 &&
           (state.calls == state.fail_at || (state.fails_for_ever && state.calls > state.fail_at));
}

void run_one(FakeStream* stream)
{
    const Work work = stream->queue.front();
    stream->queue.pop_front();
    work();
}

void drain(FakeStream* stream)
{
    while (!stream->queue.empty()) {
        run_one(stream);
    }
}

void enqueue(FakeStream* stream, Work work)
{
    if (stream->capture != nullptr) {
        stream->capture->works.push_back(std::move(work));
    } else {
        stream->queue.push_back(std::move(work));
    }
}

template <typename Handle>
Handle born(Handle handle, int* count)
{
    alive.insert(handle);
    (*count)++;
    return handle;
}

template <typename Handle>
void ended(Handle handle, int* count)
{
    if (known(handle) && handle != nullptr) {
        alive.erase(handle);
        (*count)--;
        delete handle;
    }
}

std::vector<FakeStream*> streams;

void drain_all()
{
    drain(&default_stream);
    for (FakeStream* stream : streams) {
        drain(stream);
    }
}

}  // namespace

FakeCudart& fake_cudart()
{
    return state;
}

cudaStream_t fake_stream_make()
{
    streams.push_back(born(new FakeStream, &state.streams));
    return streams.back();
}

cudaGraphExec_t fake_executable_make(uint8_t* counter)
{
    FakeGraphExec* ready = born(new FakeGraphExec, &state.executables);
    ready->works.push_back([counter] { (*counter)++; });
    return ready;
}

cudaError_t cudaGetLastError()
{
    const cudaError_t error = state.error;
    state.error = cudaSuccess;
    return error;
}

cudaError_t cudaGetDeviceCount(int* count)
{
    *count = state.devices;
    return fails() ? answer(cudaErrorUnknown) : cudaSuccess;
}

cudaError_t cudaDeviceSynchronize()
{
    drain_all();
    return fails() ? answer(cudaErrorUnknown) : cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest)
{
    *least = 0;
    *greatest = -5;
    return fails() ? answer(cudaErrorUnknown) : cudaSuccess;
}

cudaError_t cudaMalloc(void** memory, size_t bytes)
{
    if (fails() || bytes > (size_t{1} << 40)) {
        return answer(cudaErrorMemoryAllocation);
    }
    *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
    std::memset(*memory, 0xa5, bytes);
    alive.insert(*memory);
    state.allocations++;
    return cudaSuccess;
}

cudaError_t cudaFree(void* memory)
{
    drain_all();
    if (known(memory) && memory != nullptr) {
        alive.erase(memory);
        state.allocations--;
        std::free(memory);
    }
    return cudaSuccess;
}

cudaError_t cudaMemset(void* memory, int value, size_t bytes)
{
    if (fails()) {
        return answer(cudaErrorUnknown);
    }
    enqueue(&default_stream, [=] { std::memset(memory, value, bytes); });
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream)
{
    if (fails() || !known(stream)) {
        return answer(cudaErrorUnknown);
    }
    enqueue(of(stream), [=] { std::memmove(to, from, bytes); });
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority)
{
    if (fails()) {
        return answer(cudaErrorUnknown);
    }
    state.flags = flags;
    state.priority = priority;
    *stream = fake_stream_make();
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    if (!known(stream)) {
        return answer(cudaErrorUnknown);
    }
    drain(of(stream));
    std::erase(streams, stream);
    ended(stream, &state.streams);
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    if (!known(stream)) {
        return answer(cudaErrorUnknown);
    }
    drain(of(stream));
    return fails() ? answer(cudaErrorUnknown) : cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned)
{
    if (fails() || !known(stream) || !known(event)) {
        return answer(cudaErrorUnknown);
    }
    const uint64_t wanted = event->recorded;
    FakeStream* source = event->stream;
    enqueue(of(stream), [=] {
        while (event->reached < wanted) {
            run_one(source);
        }
    });
    return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode)
{
    if (fails() || stream == nullptr || !known(stream) || stream->capture != nullptr) {
        return answer(cudaErrorUnknown);
    }
    stream->capture = born(new FakeGraph, &state.graphs);
    state.captures++;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph)
{
    *graph = stream->capture;
    stream->capture = nullptr;
    state.captures--;
    if (fails()) {
        ended(*graph, &state.graphs);
        *graph = nullptr;
        return answer(cudaErrorUnknown);
    }
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags)
{
    if (fails()) {
        return answer(cudaErrorUnknown);
    }
    state.flags = flags;
    *event = born(new FakeEvent, &state.events);
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    drain_all();
    ended(event, &state.events);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    if (fails() || !known(event) || !known(stream)) {
        return answer(cudaErrorUnknown);
    }
    event->recorded++;
    event->stream = of(stream);
    enqueue(of(stream), [event, at = event->recorded] { event->reached = at; });
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* ready, cudaGraph_t graph,
                                          unsigned long long)
{
    if (fails() || !known(graph)) {
        return answer(cudaErrorUnknown);
    }
    *ready = born(new FakeGraphExec{graph->works}, &state.executables);
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    ended(graph, &state.graphs);
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t ready)
{
    drain_all();
    ended(ready, &state.executables);
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t ready, cudaStream_t stream)
{
    if (fails() || !known(ready) || !known(stream)) {
        return answer(cudaErrorUnknown);
    }
    for (const Work& work : ready->works) {
        enqueue(of(stream), work);
    }
    return cudaSuccess;
}
