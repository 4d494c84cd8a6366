// Purpose:  the shim behind fake_cuda.h.
// Owns:     executors.
// Thread:   whoever calls; the backend's turn serialises launches.
// Lifetime: of the test program.
#include "fake_cuda.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "cuda/kernels/cuda/attention.cuh"
#include "cuda/kernels/cuda/kernel_list.h"
#include "cuda/kernels/cuda/matmul.cuh"
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

struct Stream {
    uint64_t born;
};

std::mutex held_lock;
std::vector<void*> held;  // device memory that is not released; a reset takes it

int stale(uint64_t born)
{
    return born == now_of(state.resets) ? 0 : kCudaStale;
}

int stream_stale(void* stream)
{
    return stale(static_cast<Stream*>(stream)->born);
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
        if (state.tracing) {
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

int setup()
{
    std::atomic_ref<uint64_t>(state.setup_calls)++;
    return state.fault;
}

void probe(CudaMachine* machine)
{
    *machine = state.machine;
}

int open_device()
{
    return setup();
}

int reset_device()
{
    std::atomic_ref<uint64_t>(state.setup_calls)++;
    std::atomic_ref<uint64_t>(state.resets)++;
    state.fault = 0;
    const std::lock_guard<std::mutex> lock(held_lock);
    for (void* const memory : held) {
        std::free(memory);
        state.allocations--;
    }
    held.clear();
    return 0;
}

int allocate(void** memory, size_t bytes)
{
    if (state.refuse_allocation) {
        return kOutOfMemory;
    }
    *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
    std::memset(*memory, state.fill, bytes);
    state.allocations++;
    const std::lock_guard<std::mutex> lock(held_lock);
    held.push_back(*memory);
    return setup();
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
    return setup();
}

int upload(void* device, const void* host, size_t bytes)
{
    std::memcpy(device, host, bytes);
    return setup();
}

int register_host(void*, size_t)
{
    const int code = setup();
    state.registered += code == 0 ? 1u : 0u;
    return code;
}

int unregister_host(void*)
{
    state.registered -= state.registered != 0 ? 1u : 0u;
    return setup();
}

int stream_open(void** stream)
{
    *stream = new Stream{now_of(state.resets)};
    state.streams++;
    return setup();
}

int stream_close(void* stream)
{
    delete static_cast<Stream*>(stream);
    state.streams--;
    return setup();
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
    return setup();
}

int program_close(void* executor)
{
    delete static_cast<Executor*>(executor);
    state.executors--;
    return setup();
}

int launch(void* made, void* stream)
{
    auto* const executor = static_cast<Executor*>(made);
    if (stale(executor->born) != 0 || stream_stale(stream) != 0) {
        return kCudaStale;
    }
    std::atomic_ref<uint64_t>(state.launches)++;
    std::atomic_ref<uint64_t> left(state.fail_in);
    uint64_t count = left.load();
    if (count != 0 && left.compare_exchange_strong(count, count - 1) && count == 1) {
        state.fault = kFaultLaunch;
    }
    if (state.fault != 0) {
        return state.fault;
    }
    for (size_t i = 0; i < executor->start.size(); i++) {
        executor->conditions[i] = executor->start[i];
    }
    if (!run_children(executor, 0, executor->nodes.size())) {
        std::fprintf(stderr, "kernel: %s\n", emu::last_error());
        state.fault = kFaultLaunch;
    }
    return 0;  // as on a device, what goes wrong in a kernel is told later
}

int callback(void*, void (*function)(void*), void* argument)
{
    if (state.fault == 0) {
        function(argument);
    }
    return 0;
}

int query(void*)
{
    return state.fault;
}

int wait(void* stream)
{
    const int stale = stream_stale(stream);
    return stale != 0 ? stale : state.fault;
}

uint64_t resets()
{
    return now_of(state.resets);
}

const char* text(int code)
{
    return code == 0              ? "no error"
           : code == kOutOfMemory ? "out of memory"
                                  : "unspecified launch failure";
}

constexpr CudaApi kApi = {probe,        open_device,   reset_device,    allocate,    release,
                          upload,       register_host, unregister_host, stream_open, stream_close,
                          program_open, program_close, launch,          callback,    query,
                          text,         wait,          resets};

}  // namespace

FakeCuda& fake_cuda()
{
    return state;
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
