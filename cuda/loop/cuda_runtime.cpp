// Purpose:  the CUDA runtime's calls behind the table of cuda_api.h, and the graph made from a
// program.
// Owns:     executors (an instantiated graph each) and streams, with the count of resets at birth.
// Thread:   as the table tags each call. A reset waits for the calls that run and locks out others.
// Lifetime: of the shared object.
#include <cuda_runtime_api.h>
#include <pthread.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <new>

#include "cuda_backend.h"
#include "cuda_tick_list.h"

namespace aotx {

const void* kernel_function(unsigned kernel) noexcept;
const void* tick_kernel_function(unsigned kernel) noexcept;

namespace {

struct Executor {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    uint64_t born;  // count of resets
};

struct Stream {
    cudaStream_t stream;
    uint64_t born;
};

// Calls that use streams and executors hold the lock shared, a reset holds it alone, so that no
// call meets a handle that dies under it.
pthread_rwlock_t reset_lock = PTHREAD_RWLOCK_INITIALIZER;
std::atomic<uint64_t> resets_count{0};
std::atomic<int> left_alone{0};

struct Shared {
    Shared() { pthread_rwlock_rdlock(&reset_lock); }
    ~Shared() { pthread_rwlock_unlock(&reset_lock); }
    Shared(const Shared&) = delete;
    Shared& operator=(const Shared&) = delete;
};

// [under the lock]
bool alive(uint64_t born)
{
    return born == resets_count.load(std::memory_order_relaxed);
}

// What nvcc was told to build; see CMakeLists.txt.
constexpr int kCodes[kCudaCodesMax] = {AOTX_CUDA_CODES};
constexpr int kPtx[kCudaCodesMax] = {AOTX_CUDA_PTX};

void probe(CudaMachine* machine)
{
    *machine = {};
    std::memcpy(machine->codes, kCodes, sizeof kCodes);
    std::memcpy(machine->ptx, kPtx, sizeof kPtx);
    cuda_loading_choose();  // whoever probes does so before any other call
    // The version calls alone succeed without a driver, so no error is left behind.
    if (cudaDriverGetVersion(&machine->driver_version) != cudaSuccess ||
        cudaRuntimeGetVersion(&machine->runtime_version) != cudaSuccess ||
        machine->driver_version == 0) {
        return;
    }
    int count = 0;
    cudaDeviceProp properties = {};
    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0 ||
        cudaGetDeviceProperties(&properties, 0) != cudaSuccess) {
        (void)cudaGetLastError();
        return;
    }
    machine->device_count = count;
    machine->compute_major = properties.major;
    machine->compute_minor = properties.minor;
    machine->multiprocessors = properties.multiProcessorCount;
    machine->memory_bytes = properties.totalGlobalMem;
    (void)cudaDeviceGetAttribute(&machine->maps_registered,
                                 cudaDevAttrCanUseHostPointerForRegisteredMem, 0);
    std::snprintf(machine->name, sizeof machine->name, "%.63s", properties.name);
}

// A kernel that is asked for is loaded, whatever the loading mode of a process that somebody else
// opened the device in before us.
cudaError_t kernels_load()
{
    cudaError_t code = cudaSuccess;
    cudaFuncAttributes attributes = {};
    for (unsigned i = 0; code == cudaSuccess && kernel_function(i) != nullptr; i++) {
        code = cudaFuncGetAttributes(&attributes, kernel_function(i));
    }
    for (unsigned i = kTickKernelFirst; code == cudaSuccess && tick_kernel_function(i) != nullptr;
         i++) {
        code = cudaFuncGetAttributes(&attributes, tick_kernel_function(i));
    }
    return code;
}

int open_device()
{
    cudaError_t code = cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync | cudaDeviceMapHost);
    code = code != cudaSuccess ? code : cudaSetDevice(0);
    code = code != cudaSuccess ? code : cudaFree(nullptr);
    return code != cudaSuccess ? code : kernels_load();
}

int reset_device(uint64_t seen)
{
    cudaError_t code = cudaSuccess;
    pthread_rwlock_wrlock(&reset_lock);
    if (alive(seen)) {
        code = cudaDeviceReset();
        resets_count.fetch_add(1, std::memory_order_relaxed);
    }
    pthread_rwlock_unlock(&reset_lock);
    return code;
}

void abandon()
{
    left_alone.store(1, std::memory_order_release);
}

int abandoned()
{
    return left_alone.load(std::memory_order_acquire);
}

uint64_t resets()
{
    return resets_count.load(std::memory_order_relaxed);
}

// A memset and a copy from pageable memory are done on the device after the call is back, and a
// stream that does not block does not wait for them.
int settled(cudaError_t code)
{
    return code != cudaSuccess ? code : cudaStreamSynchronize(cudaStreamLegacy);
}

int allocate(void** memory, size_t bytes)
{
    const cudaError_t code = cudaMalloc(memory, bytes);
    return code != cudaSuccess ? code : settled(cudaMemset(*memory, 0, bytes));
}

int release(void* memory)
{
    return cudaFree(memory);
}

int upload(void* device, const void* host, size_t bytes)
{
    return settled(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice));
}

int register_host(void* memory, size_t bytes)
{
    return cudaHostRegister(memory, bytes, cudaHostRegisterMapped | cudaHostRegisterPortable);
}

int unregister_host(void* memory)
{
    return cudaHostUnregister(memory);
}

int stream_open(void** stream)
{
    const Shared shared;
    Stream* const made = new (std::nothrow) Stream{};
    if (made == nullptr) {
        return cudaErrorMemoryAllocation;
    }
    made->born = resets();
    const cudaError_t code = cudaStreamCreateWithFlags(&made->stream, cudaStreamNonBlocking);
    if (code != cudaSuccess) {
        delete made;
        return code;
    }
    *stream = made;
    return cudaSuccess;
}

int stream_close(void* stream)
{
    const Shared shared;
    Stream* const made = static_cast<Stream*>(stream);
    const cudaError_t code =
        alive(made->born) ? cudaStreamDestroy(made->stream) : cudaErrorContextIsDestroyed;
    delete made;
    return code;
}

// overlaps: both are kernels of a program that overlaps them.
cudaError_t node_add(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* before,
                     bool overlaps, cudaGraphNodeParams* params)
{
    const size_t count = *before == nullptr ? 0 : 1;
#if CUDART_VERSION >= 13000
    cudaGraphEdgeData edge = {};
    edge.from_port = cudaGraphKernelNodePortProgrammatic;
    edge.type = cudaGraphDependencyTypeProgrammatic;
    return cudaGraphAddNode(node, graph, before, overlaps && count != 0 ? &edge : nullptr, count,
                            params);
#else
    (void)overlaps;
    return cudaGraphAddNode(node, graph, before, count, params);
#endif
}

cudaError_t kernel_add(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* before,
                       bool overlaps, const ProgramNode& from)
{
    const void* const function = from.kernel >= kTickKernelFirst ? tick_kernel_function(from.kernel)
                                                                 : kernel_function(from.kernel);
    if (function == nullptr) {
        return cudaErrorInvalidDeviceFunction;
    }
    void* arguments[] = {const_cast<void*>(from.arguments)};
    cudaGraphNodeParams params = {};
    params.type = cudaGraphNodeTypeKernel;
    params.kernel.func = const_cast<void*>(function);
    params.kernel.gridDim = dim3(from.grid[0], from.grid[1], from.grid[2]);
    params.kernel.blockDim = dim3(from.block);
    params.kernel.kernelParams = arguments;
    return node_add(node, graph, before, overlaps, &params);
}

uint32_t children_count(const Program& program, uint32_t first, uint32_t end)
{
    uint32_t count = 0;
    for (uint32_t i = first; i < end; i += 1u + program.nodes[i].body_nodes) {
        count++;
    }
    return count;
}

cudaError_t children_add(const Program& program, uint32_t first, uint32_t end, bool overlaps,
                         cudaGraph_t graph);

cudaError_t branch_add(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* before,
                       const Program& program, uint32_t at)
{
    const ProgramNode& from = program.nodes[at];
    const uint32_t first = at + 1u;
    const uint32_t end = first + from.body_nodes;
    const bool chooses = from.kind == kProgramSwitch;
    cudaGraphNodeParams params = {};
    params.type = cudaGraphNodeTypeConditional;
    params.conditional.handle = program.condition_handles[from.condition];
    params.conditional.type = from.kind == kProgramWhile ? cudaGraphCondTypeWhile
                              : chooses                  ? cudaGraphCondTypeSwitch
                                                         : cudaGraphCondTypeIf;
    params.conditional.size = chooses ? children_count(program, first, end) : 1u;
    cudaError_t code = node_add(node, graph, before, false, &params);
    if (code != cudaSuccess || !chooses) {
        return code != cudaSuccess
                   ? code
                   : children_add(program, first, end, false, params.conditional.phGraph_out[0]);
    }
    uint32_t body = 0;
    for (uint32_t i = first; i < end && code == cudaSuccess;
         i += 1u + program.nodes[i].body_nodes) {
        code = children_add(program, i, i + 1u + program.nodes[i].body_nodes, false,
                            params.conditional.phGraph_out[body]);
        body++;
    }
    return code;
}

// Nodes of one body run one behind the other.
cudaError_t children_add(const Program& program, uint32_t first, uint32_t end, bool overlaps,
                         cudaGraph_t graph)
{
    cudaGraphNode_t before = nullptr;
    for (uint32_t i = first; i < end; i += 1u + program.nodes[i].body_nodes) {
        cudaGraphNode_t node = nullptr;
        const cudaError_t code = program.nodes[i].kind == kProgramKernel
                                     ? kernel_add(&node, graph, &before, overlaps, program.nodes[i])
                                     : branch_add(&node, graph, &before, program, i);
        if (code != cudaSuccess) {
            return code;
        }
        before = node;
    }
    return cudaSuccess;
}

cudaError_t graph_make(const Program& program, bool overlaps, cudaStream_t stream, Executor* made)
{
    cudaError_t code = cudaGraphCreate(&made->graph, 0);
    for (uint32_t i = 0; i < program.conditions_count && code == cudaSuccess; i++) {
        cudaGraphConditionalHandle handle = 0;
        code = cudaGraphConditionalHandleCreate(&handle, made->graph, program.condition_start[i],
                                                cudaGraphCondAssignDefault);
        program.condition_handles[i] = handle;
    }
    code = code != cudaSuccess
               ? code
               : children_add(program, 0, program.nodes_count, overlaps, made->graph);
    code = code != cudaSuccess ? code : cudaGraphInstantiate(&made->exec, made->graph, 0);
    return code != cudaSuccess ? code : cudaGraphUpload(made->exec, stream);
}

// [under the lock]
int executor_free(Executor* made)
{
    cudaError_t code = cudaSuccess;
    if (!alive(made->born)) {
        delete made;
        return cudaErrorContextIsDestroyed;
    }
    if (made->exec != nullptr) {
        code = cudaGraphExecDestroy(made->exec);
    }
    if (made->graph != nullptr) {
        const cudaError_t destroyed = cudaGraphDestroy(made->graph);
        code = code != cudaSuccess ? code : destroyed;
    }
    delete made;
    return code;
}

int program_close(void* executor)
{
    const Shared shared;
    return executor_free(static_cast<Executor*>(executor));
}

// Kernels may begin before the one in front of them has ended from 9.0 on.
bool device_overlaps()
{
    int major = 0;
    return cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0) == cudaSuccess &&
           major >= 9;
}

int program_open(const Program* program, void* stream, void** executor)
{
    const Shared shared;
    const Stream* const on = static_cast<const Stream*>(stream);
    const char* reason = "";
    if (!program_check(*program, &reason)) {
        return cudaErrorInvalidValue;
    }
    if (!alive(on->born)) {
        return cudaErrorContextIsDestroyed;
    }
    const bool may_overlap = program->overlaps != 0 && device_overlaps();
    cudaError_t code = cudaSuccess;
    for (const bool overlaps : {true, false}) {
        if (overlaps && !may_overlap) {
            continue;
        }
        Executor* const made = new (std::nothrow) Executor{};
        if (made == nullptr) {
            return cudaErrorMemoryAllocation;
        }
        made->born = on->born;
        code = graph_make(*program, overlaps, on->stream, made);
        if (code == cudaSuccess) {
            *executor = made;
            return cudaSuccess;
        }
        // A driver that takes no such edges takes the plain ones.
        (void)executor_free(made);
        (void)cudaGetLastError();
    }
    return code;
}

int launch(void* executor, void* stream)
{
    const Shared shared;
    const Executor* const made = static_cast<const Executor*>(executor);
    const Stream* const on = static_cast<const Stream*>(stream);
    return alive(made->born) && alive(on->born) ? cudaGraphLaunch(made->exec, on->stream)
                                                : cudaErrorContextIsDestroyed;
}

int callback(void* stream, void (*function)(void*), void* argument)
{
    const Shared shared;
    const Stream* const on = static_cast<const Stream*>(stream);
    return alive(on->born) ? cudaLaunchHostFunc(on->stream, function, argument)
                           : cudaErrorContextIsDestroyed;
}

int query(void* stream)
{
    const Shared shared;
    const Stream* const on = static_cast<const Stream*>(stream);
    return alive(on->born) ? cudaStreamQuery(on->stream) : cudaErrorContextIsDestroyed;
}

const char* text(int code)
{
    return cudaGetErrorString(static_cast<cudaError_t>(code));
}

constexpr CudaApi kApi = {probe,        open_device,   reset_device,    allocate,    release,
                          upload,       register_host, unregister_host, stream_open, stream_close,
                          program_open, program_close, launch,          callback,    query,
                          text,         resets,        abandon,         abandoned};
static_assert(kCudaNotReady == cudaErrorNotReady);
static_assert(kCudaNoDevice == cudaErrorNoDevice);
static_assert(kCudaTimedOut == cudaErrorLaunchTimeout);
static_assert(kCudaNoDriver == cudaErrorInsufficientDriver);
static_assert(kCudaStale == cudaErrorContextIsDestroyed);

}  // namespace

const CudaApi* cuda_backend_api() noexcept
{
    return &kApi;
}

}  // namespace aotx
