// Purpose:  the shim behind fake_cuda.h.
// Owns:     executors, device memory, streams and their threads.
// Thread:   whoever calls; the backend's turn serialises launches.
// Lifetime: of the test program.
#include "fake_cuda.h"

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "cuda/kernels/cuda/attention.cuh"
#include "cuda/kernels/cuda/kernel_list.h"
#include "cuda/kernels/cuda/matmul.cuh"
#include "cuda/kernels/cuda/sample.cuh"
#include "cuda/kernels/cuda/step.cuh"
#include "cuda/kernels/cuda/token.cuh"
#include "cuda/loop/cuda_backend.h"
#include "cuda/loop/cuda_tick.cuh"
#include "cuda/loop/cuda_tick_list.h"
#include "emulator_launch.h"

namespace {

using namespace aotx;

constexpr int kFaultLaunch = 719;  // cudaErrorLaunchFailure
constexpr int kOutOfMemory = 2;

FakeCuda state;

struct Executor {
    std::vector<ProgramNode> nodes;
    std::vector<std::vector<uint8_t>> arguments;
    std::vector<uint32_t> start;
    std::vector<uint32_t> conditions;
    uint64_t born = 0;  // count of resets
};

// Work of an asynchronous stream runs on its thread.
struct Stream {
    struct Work {
        Executor* executor;  // null: a callback
        void (*function)(void*);
        void* argument;
    };
    uint64_t born;
    std::deque<Work> queue;
    std::thread thread;
    uint64_t taken = 0;  // works ever queued
    uint64_t done = 0;   // and ended
    bool ends = false;
};

std::mutex held_lock;  // what is not given back: a reset takes the memory
std::vector<void*> held;
std::vector<std::unique_ptr<void, void (*)(void*)>> lost;
std::set<Executor*> executors;
std::mutex streams_lock;  // of everything in streams, and of resident
std::condition_variable streams_changed;
std::set<Stream*> streams;
uint64_t resident = 0;
bool eager = false;

int stale(uint64_t born)
{
    return born == now_of(state.resets) ? 0 : kCudaStale;
}

int stream_stale(void* stream)
{
    return stale(static_cast<Stream*>(stream)->born);
}

int fault_now()
{
    return std::atomic_ref<int>(state.fault).load();
}

bool run_kernel(const ProgramNode& node, const uint8_t* arguments)
{
    emu::LaunchShape shape;
    shape.grid = dim3(node.grid[0], node.grid[1], node.grid[2]);
    shape.block = dim3(node.block);
    switch (node.kernel) {
#define AOTX_KERNEL(name, type, function)                               \
    case kKernel_##name: {                                              \
        type copy;                                                      \
        std::memcpy(static_cast<void*>(&copy), arguments, sizeof copy); \
        return emu::run<function>(shape, copy);                         \
    }
        AOTX_KERNELS_TEXT
#undef AOTX_KERNEL
#define AOTX_KERNEL(name, type, function)                               \
    case kTickKernel_##name: {                                          \
        type copy;                                                      \
        std::memcpy(static_cast<void*>(&copy), arguments, sizeof copy); \
        return emu::run<function>(shape, copy);                         \
    }
        AOTX_KERNELS_TICK
#undef AOTX_KERNEL
        default:
            return false;
    }
}

bool run_children(Executor* executor, size_t first, size_t end);

bool run_node(Executor* executor, size_t at)
{
    const ProgramNode& node = executor->nodes[at];
    const size_t body = at + 1;
    const size_t end = body + node.body_nodes;
    if (node.kind == kProgramKernel) {
        state.kernels++;
        if (std::atomic_ref<bool>(state.tracing).load()) {
            state.trace.push_back(node.kernel);
        }
        return run_kernel(node, executor->arguments[at].data());
    }
    const uint32_t* const condition = &executor->conditions[node.condition];
    if (node.kind == kProgramIf) {
        return *condition == 0 || run_children(executor, body, end);
    }
    if (node.kind == kProgramSwitch) {
        size_t child = body;
        for (uint32_t i = 0; i < *condition && child < end; i++) {
            child += 1 + executor->nodes[child].body_nodes;
        }
        return child >= end || run_node(executor, child);
    }
    for (uint32_t round = 0; *condition != 0; round++) {
        if (round == kProgramRoundsMax || !run_children(executor, body, end)) {
            return false;
        }
    }
    return true;
}

bool run_children(Executor* executor, size_t first, size_t end)
{
    for (size_t at = first; at < end; at += 1 + executor->nodes[at].body_nodes) {
        if (!run_node(executor, at)) {
            return false;
        }
    }
    return true;
}

// A call that waits for the whole device. Legal on a device that has failed, or has nothing to do.
int setup(const char* name)
{
    std::atomic_ref<uint64_t>(state.setup_calls)++;
    if (fake_resident() != 0 && fault_now() == 0) {
        std::atomic_ref<uint64_t>(state.waits)++;
        state.waited_for = name;
    }
    return fault_now();
}

void resident_add(uint64_t change)
{
    const std::lock_guard<std::mutex> guard(streams_lock);
    resident += change;
    streams_changed.notify_all();
}

thread_local bool playing = false;

void run_executor(Executor* executor)
{
    std::atomic_ref<uint64_t> left(state.fail_in);
    uint64_t count = left.load();
    if (count != 0 && left.compare_exchange_strong(count, count - 1) && count == 1) {
        std::atomic_ref<int>(state.fault).store(kFaultLaunch);
    }
    if (state.fail_every != 0 && now_of(state.launches) % state.fail_every == 0) {
        std::atomic_ref<int>(state.fault).store(kFaultLaunch);
    }
    if (fault_now() != 0) {
        return;
    }
    playing = true;
    for (size_t i = 0; i < executor->start.size(); i++) {
        executor->conditions[i] = executor->start[i];
    }
    if (!run_children(executor, 0, executor->nodes.size())) {
        std::fprintf(stderr, "kernel: %s\n", emu::last_error());
        std::atomic_ref<int>(state.fault).store(kFaultLaunch);
    }
    playing = false;
}

void stream_main(Stream* stream)
{
    std::unique_lock<std::mutex> guard(streams_lock);
    for (;;) {
        streams_changed.wait(guard, [stream] { return stream->ends || !stream->queue.empty(); });
        if (stream->queue.empty()) {
            return;
        }
        const Stream::Work work = stream->queue.front();
        stream->queue.pop_front();
        const bool held_now = std::atomic_ref<uint32_t>(state.held).load() != 0;
        if (work.executor != nullptr && held_now) {
            std::atomic_ref<uint32_t>(state.stuck).store(1);
            streams_changed.wait(guard, [stream] { return stream->ends; });
        }
        guard.unlock();
        if (work.executor != nullptr) {
            run_executor(work.executor);
        } else if (fault_now() == 0) {
            work.function(work.argument);
        }
        guard.lock();
        resident -= work.executor != nullptr ? 1u : 0u;
        stream->done++;
        streams_changed.notify_all();
    }
}

void stream_push(Stream* stream, const Stream::Work& work)
{
    const std::lock_guard<std::mutex> guard(streams_lock);
    stream->queue.push_back(work);
    resident += work.executor != nullptr ? 1u : 0u;
    stream->taken++;
    streams_changed.notify_all();
}

// Let the thread run to the end of its queue and take it back.
void stream_end(Stream* stream)
{
    {
        const std::lock_guard<std::mutex> guard(streams_lock);
        stream->ends = true;
        streams.erase(stream);
        streams_changed.notify_all();
    }
    if (stream->thread.joinable()) {
        stream->thread.join();
    }
    delete stream;
}

// A program that this shim is loaded into is told by its environment what to pretend.
uint64_t environment(const char* name, uint64_t otherwise)
{
    const char* const value = std::getenv(name);
    return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

void environment_take()
{
    CudaMachine& machine = state.machine;
    machine.driver_version = static_cast<int>(
        environment("AOTX_FAKE_DRIVER", static_cast<uint64_t>(machine.driver_version)));
    machine.device_count = static_cast<int>(
        environment("AOTX_FAKE_COUNT", static_cast<uint64_t>(machine.device_count)));
    state.refuse_allocation = state.refuse_allocation || environment("AOTX_FAKE_REFUSE", 0) != 0;
    state.fail_every = environment("AOTX_FAKE_FAIL_EVERY", state.fail_every);
}

void probe(CudaMachine* machine)
{
    environment_take();
    *machine = state.machine;
}

int open_device()
{
    const char* const mode = std::getenv("CUDA_MODULE_LOADING");
    eager = mode != nullptr && std::strcmp(mode, "EAGER") == 0;
    return setup("open_device");
}

int reset_device(uint64_t seen)
{
    (void)setup("reset_device");
    if (seen != now_of(state.resets)) {
        return 0;
    }
    std::atomic_ref<uint64_t>(state.resets)++;
    std::atomic_ref<int>(state.fault).store(0);
    const std::lock_guard<std::mutex> lock(held_lock);
    for (void* const memory : held) {
        std::free(memory);
        state.allocations--;
    }
    held.clear();
    state.registered = 0;
    return 0;
}

int allocate(void** memory, size_t bytes)
{
    if (state.refuse_allocation) {
        return kOutOfMemory;
    }
    *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
    std::memset(*memory, state.fill, bytes);
    if (state.reset_in != 0 && --state.reset_in == 0) {
        // Somebody else's reset: what was just given is not to be released, and yet written to.
        std::atomic_ref<uint64_t>(state.resets)++;
        lost.emplace_back(*memory, std::free);
        state.registered = 0;
        return setup("allocate");
    }
    state.allocations++;
    const std::lock_guard<std::mutex> lock(held_lock);
    held.push_back(*memory);
    return setup("allocate");
}

int release(void* memory)
{
    const std::lock_guard<std::mutex> lock(held_lock);
    const auto found = std::find(held.begin(), held.end(), memory);
    if (found == held.end()) {
        std::fprintf(stderr, "released device memory that nobody holds\n");
        std::abort();
    }
    held.erase(found);
    std::free(memory);
    state.allocations--;
    return setup("release");
}

int upload(void* device, const void* host, size_t bytes)
{
    std::memcpy(device, host, bytes);
    return setup("upload");
}

int register_host(void*, size_t)
{
    const int code = setup("register_host");
    state.registered += code == 0 ? 1u : 0u;
    return code;
}

int unregister_host(void*)
{
    state.registered -= state.registered != 0 ? 1u : 0u;
    return setup("unregister_host");
}

int stream_open(void** opened)
{
    auto* const stream = new Stream{};
    stream->born = now_of(state.resets);
    if (state.asynchronous) {
        stream->thread = std::thread(stream_main, stream);
    }
    {
        const std::lock_guard<std::mutex> guard(streams_lock);
        streams.insert(stream);
    }
    *opened = stream;
    state.streams++;
    return setup("stream_open");
}

int stream_close(void* stream)
{
    const int code = setup("stream_close");
    stream_end(static_cast<Stream*>(stream));
    state.streams--;
    return code;
}

int program_open(const Program* program, void*, void** made)
{
    const char* reason = "";
    if (!program_check(*program, &reason)) {
        std::fprintf(stderr, "program: %s\n", reason);
        return 1;
    }
    auto* const executor = new Executor;
    executor->born = now_of(state.resets);
    state.lazy_loads += eager ? 0u : program->nodes_count;
    executor->conditions.resize(program->conditions_count);
    for (uint32_t i = 0; i < program->conditions_count; i++) {
        executor->start.push_back(program->condition_start[i]);
        program->condition_handles[i] = reinterpret_cast<uint64_t>(&executor->conditions[i]);
    }
    for (uint32_t i = 0; i < program->nodes_count; i++) {
        const ProgramNode& node = program->nodes[i];
        const auto* const bytes = static_cast<const uint8_t*>(node.arguments);
        executor->nodes.push_back(node);
        executor->arguments.emplace_back(bytes, bytes + node.arguments_bytes);
    }
    *made = executor;
    state.executors++;
    const std::lock_guard<std::mutex> lock(held_lock);
    executors.insert(executor);
    return setup("program_open");
}

int program_close(void* made)
{
    const int code = setup("program_close");
    auto* const executor = static_cast<Executor*>(made);
    const std::lock_guard<std::mutex> lock(held_lock);
    executors.erase(executor);
    delete executor;
    state.executors--;
    return code;
}

int launch(void* made, void* stream)
{
    auto* const executor = static_cast<Executor*>(made);
    if (stale(executor->born) != 0 || stream_stale(stream) != 0) {
        return kCudaStale;
    }
    std::atomic_ref<uint64_t>(state.launches)++;
    if (fault_now() != 0) {
        return fault_now();
    }
    if (state.asynchronous) {
        stream_push(static_cast<Stream*>(stream), {executor, nullptr, nullptr});
        return 0;
    }
    resident_add(1);
    run_executor(executor);
    resident_add(~uint64_t{0});
    return 0;  // as on a device, what goes wrong in a kernel is told later
}

int callback(void* stream, void (*function)(void*), void* argument)
{
    if (stream_stale(stream) != 0) {
        return kCudaStale;
    }
    std::atomic_ref<uint64_t>(state.callbacks)++;
    if (state.asynchronous) {
        stream_push(static_cast<Stream*>(stream), {nullptr, function, argument});
    } else if (fault_now() == 0) {
        function(argument);
    }
    return 0;
}

int query(void* opened)
{
    if (opened != nullptr && stream_stale(opened) != 0) {
        return kCudaStale;
    }
    if (fault_now() != 0) {
        return fault_now();
    }
    const std::lock_guard<std::mutex> guard(streams_lock);
    const auto* const stream = static_cast<Stream*>(opened);
    return stream == nullptr || stream->done == stream->taken ? 0 : kCudaNotReady;
}

uint64_t resets()
{
    return now_of(state.resets);
}

void abandon()
{
    std::atomic_ref<int>(state.abandoned).store(1);
}

int abandoned()
{
    return std::atomic_ref<int>(state.abandoned).load();
}

const char* text(int code)
{
    return code == 0               ? "no error"
           : code == kOutOfMemory  ? "out of memory"
           : code == kCudaTimedOut ? "the launch timed out"
                                   : "unspecified launch failure";
}

constexpr CudaApi kApi = {probe,        open_device,   reset_device,    allocate,    release,
                          upload,       register_host, unregister_host, stream_open, stream_close,
                          program_open, program_close, launch,          callback,    query,
                          text,         resets,        abandon,         abandoned};

}  // namespace

FakeCuda& fake_cuda()
{
    return state;
}

bool fake_plays()
{
    return playing;
}

uint64_t fake_resident()
{
    const std::lock_guard<std::mutex> guard(streams_lock);
    return resident;
}

void fake_foreign_call()
{
    std::unique_lock<std::mutex> guard(streams_lock);
    std::map<const Stream*, uint64_t> before;
    for (const Stream* const stream : streams) {
        before[stream] = stream->taken;
    }
    streams_changed.wait(guard, [&before] {
        return std::all_of(streams.begin(), streams.end(), [&before](const Stream* stream) {
            return before.count(stream) == 0 || stream->done >= before[stream];
        });
    });
}

void fake_abandoned()
{
    std::atomic_ref<uint32_t>(state.held).store(0);
    while (!streams.empty()) {
        stream_end(*streams.begin());
    }
    for (void* const memory : held) {
        std::free(memory);
    }
    for (Executor* const executor : executors) {
        delete executor;
    }
    held.clear();
    executors.clear();
    state.allocations = 0;
    state.registered = 0;
    state.streams = 0;
    state.executors = 0;
}

const CudaApi* fake_cuda_api()
{
    return &kApi;
}

namespace aotx {

const CudaApi* cuda_backend_api() noexcept
{
    return &kApi;
}

}  // namespace aotx
