// Purpose:  the CUDA runtime's calls behind the table of cuda_api.h, the graph made from a program,
// and the one symbol that the shared object exports.
// Owns:     executors: an instantiated graph each.
// Thread:   as the table tags each call.
// Lifetime: of the shared object.
#include <cuda_runtime_api.h>
#include <stdlib.h>

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
};

void probe(CudaMachine* machine)
{
    *machine = {};
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

int open_device()
{
    // All device code is loaded now: a first use later would wait for the loop to pause.
    setenv("CUDA_MODULE_LOADING", "EAGER", 1);
    cudaError_t code = cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync | cudaDeviceMapHost);
    code = code != cudaSuccess ? code : cudaSetDevice(0);
    return code != cudaSuccess ? code : cudaFree(nullptr);
}

int reset_device()
{
    return cudaDeviceReset();
}

int allocate(void** memory, size_t bytes)
{
    const cudaError_t code = cudaMalloc(memory, bytes);
    return code != cudaSuccess ? code : cudaMemset(*memory, 0, bytes);
}

int release(void* memory)
{
    return cudaFree(memory);
}

int upload(void* device, const void* host, size_t bytes)
{
    return cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice);
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
    return cudaStreamCreateWithFlags(reinterpret_cast<cudaStream_t*>(stream),
                                     cudaStreamNonBlocking);
}

int stream_close(void* stream)
{
    return cudaStreamDestroy(static_cast<cudaStream_t>(stream));
}

cudaError_t node_add(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* before,
                     cudaGraphNodeParams* params)
{
    const size_t count = *before == nullptr ? 0 : 1;
#if CUDART_VERSION >= 13000
    return cudaGraphAddNode(node, graph, before, nullptr, count, params);
#else
    return cudaGraphAddNode(node, graph, before, count, params);
#endif
}

cudaError_t kernel_add(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* before,
                       const ProgramNode& from)
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
    return node_add(node, graph, before, &params);
}

uint32_t children_count(const Program& program, uint32_t first, uint32_t end)
{
    uint32_t count = 0;
    for (uint32_t i = first; i < end; i += 1u + program.nodes[i].body_nodes) {
        count++;
    }
    return count;
}

cudaError_t children_add(const Program& program, uint32_t first, uint32_t end, cudaGraph_t graph);

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
    cudaError_t code = node_add(node, graph, before, &params);
    if (code != cudaSuccess || !chooses) {
        return code != cudaSuccess
                   ? code
                   : children_add(program, first, end, params.conditional.phGraph_out[0]);
    }
    uint32_t body = 0;
    for (uint32_t i = first; i < end && code == cudaSuccess;
         i += 1u + program.nodes[i].body_nodes) {
        code = children_add(program, i, i + 1u + program.nodes[i].body_nodes,
                            params.conditional.phGraph_out[body]);
        body++;
    }
    return code;
}

// Nodes of one body run one behind the other.
cudaError_t children_add(const Program& program, uint32_t first, uint32_t end, cudaGraph_t graph)
{
    cudaGraphNode_t before = nullptr;
    for (uint32_t i = first; i < end; i += 1u + program.nodes[i].body_nodes) {
        cudaGraphNode_t node = nullptr;
        const cudaError_t code = program.nodes[i].kind == kProgramKernel
                                     ? kernel_add(&node, graph, &before, program.nodes[i])
                                     : branch_add(&node, graph, &before, program, i);
        if (code != cudaSuccess) {
            return code;
        }
        before = node;
    }
    return cudaSuccess;
}

cudaError_t graph_make(const Program& program, cudaStream_t stream, Executor* made)
{
    cudaError_t code = cudaGraphCreate(&made->graph, 0);
    for (uint32_t i = 0; i < program.conditions_count && code == cudaSuccess; i++) {
        cudaGraphConditionalHandle handle = 0;
        code = cudaGraphConditionalHandleCreate(&handle, made->graph, program.condition_start[i],
                                                cudaGraphCondAssignDefault);
        program.condition_handles[i] = handle;
    }
    code = code != cudaSuccess ? code : children_add(program, 0, program.nodes_count, made->graph);
    code = code != cudaSuccess ? code : cudaGraphInstantiate(&made->exec, made->graph, 0);
    return code != cudaSuccess ? code : cudaGraphUpload(made->exec, stream);
}

int program_close(void* executor)
{
    Executor* const made = static_cast<Executor*>(executor);
    cudaError_t code = cudaSuccess;
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

int program_open(const Program* program, void* stream, void** executor)
{
    const char* reason = "";
    if (!program_check(*program, &reason)) {
        return cudaErrorInvalidValue;
    }
    Executor* const made = new (std::nothrow) Executor{};
    if (made == nullptr) {
        return cudaErrorMemoryAllocation;
    }
    const cudaError_t code = graph_make(*program, static_cast<cudaStream_t>(stream), made);
    if (code != cudaSuccess) {
        (void)program_close(made);
        return code;
    }
    *executor = made;
    return cudaSuccess;
}

int launch(void* executor, void* stream)
{
    return cudaGraphLaunch(static_cast<Executor*>(executor)->exec,
                           static_cast<cudaStream_t>(stream));
}

int callback(void* stream, void (*function)(void*), void* argument)
{
    return cudaLaunchHostFunc(static_cast<cudaStream_t>(stream), function, argument);
}

int query(void* stream)
{
    return cudaStreamQuery(static_cast<cudaStream_t>(stream));
}

const char* text(int code)
{
    return cudaGetErrorString(static_cast<cudaError_t>(code));
}

constexpr CudaApi kApi = {probe,       open_device,  reset_device,  allocate,
                          release,     upload,       register_host, unregister_host,
                          stream_open, stream_close, program_open,  program_close,
                          launch,      callback,     query,         text};
static_assert(kCudaNotReady == cudaErrorNotReady);
static_assert(kCudaNoDevice == cudaErrorNoDevice);
static_assert(kCudaNoDriver == cudaErrorInsufficientDriver);

}  // namespace

const CudaApi* cuda_backend_api() noexcept
{
    return &kApi;
}

}  // namespace aotx

extern "C" __attribute__((visibility("default"))) const aotx::LoopBackend* aotx_loop_backend_v1(
    char* reason, uint64_t reason_bytes)
{
    aotx::CudaMachine machine;
    aotx::cuda_backend_api()->probe(&machine);
    return aotx::cuda_usable(machine, reason, reason_bytes) ? aotx::cuda_backend_table() : nullptr;
}
