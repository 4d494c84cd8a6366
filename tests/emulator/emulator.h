// Purpose:  run CUDA kernel source on the CPU: blocks, threads as fibers, shared memory, barriers,
// warp operations, atomics, cp.async, the m16n8k16 tensor-core product, cooperative grids.
// Owns:     one driver per OS thread that runs blocks: fiber stacks, a shared arena, a ready queue;
// drivers are pooled for the life of the process.
// Thread:   launch from any thread; a plain launch runs its blocks one after another on the calling
// thread, a cooperative launch gives every block an OS thread of its own.
// Lifetime: of the process.
//
// A kernel that breaks the rules of the device (a barrier that not all threads reach, a shuffle
// that reads a lane which takes no part, a wait that nothing can end) makes launch() answer false,
// and last_error() names what each thread waits for. Nothing here orders memory more than CUDA
// does, so ThreadSanitizer finds the races that a device would have; see tests/emulator/README.md.
#pragma once

#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>

struct uint3 {
    unsigned x, y, z;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(8) uint2 {
    unsigned x, y;
};
struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_in = 1, unsigned y_in = 1, unsigned z_in = 1)
        : x(x_in), y(y_in), z(z_in)
    {
    }
};

namespace emu {

constexpr unsigned kWarpLanes = 32;
constexpr unsigned kBlockThreadsMax = 1024;

// What a running thread sees of itself. Written by the driver before the thread starts.
struct ThreadView {
    uint3 thread;
    uint3 block;
    uint3 block_dim;
    uint3 grid_dim;
};

extern constinit thread_local const ThreadView* current_view;

// How a launch is made.
struct LaunchShape {
    dim3 grid;
    dim3 block;
    size_t shared_bytes = 0;      // dynamic shared memory
    bool cooperative = false;     // every block gets an OS thread, grid_sync works
    size_t shared_limit = 49152;  // static and dynamic together; 232448 after opting in
};

// Run entry(argument) once per thread of the grid. False when a thread broke a rule; last_error()
// says which. Pending shared memory, stacks and tool state are clean afterwards either way.
bool launch(const LaunchShape& shape, void (*entry)(const void*), const void* argument);

// Report of the last failed launch of this OS thread; empty when none failed since clear_error().
const char* last_error();
void clear_error();

// Order in which ready threads run: 0 is round robin, any other value a random interleaving.
// Starts from the environment variable CUEMU_SEED.
void set_seed(uint64_t seed);

// Shared memory.
struct SharedSite {
    uint64_t epoch = 0;
    void* memory = nullptr;
};
void* shared_site(SharedSite* site, size_t bytes, size_t align);
void* shared_dynamic();

// Barriers. line and file name the place for reports.
enum class Reduce : int { kNone, kOr, kAnd, kCount };
int block_barrier(Reduce reduce, int predicate, int line);
void grid_barrier(int line);
void yield_thread();
[[noreturn]] void fail(const char* text, int line);

// The device takes a wide word only at a multiple of its size.
inline void must_align(const void* address, size_t bytes, int line)
{
    if (reinterpret_cast<uintptr_t>(address) % bytes != 0) {
        fail("a wide load or store at an address that is not aligned to its size", line);
    }
}

// Warp operations. Every lane of mask that has not exited must come with the same operation.
enum class WarpOp : int { kNone, kSync, kIndex, kUp, kDown, kXor, kBallot, kAny, kAll, kMma };
uint64_t warp_collect(WarpOp op, unsigned mask, uint64_t value, int argument, int width, int line);

// The tensor-core product: every lane brings its fragments, the last to come computes the tile.
struct MmaFragments {
    float* d;
    const uint32_t* a;
    const uint32_t* b;
    bool bfloat;
};
void warp_mma(const MmaFragments* fragments, int line);

float half_to_float(uint16_t bits);
float bfloat_to_float(uint16_t bits);

// Asynchronous copies: they happen at the wait that covers them, not before.
void async_copy16(void* shared_target, const void* source);
void async_commit();
// Copies due when at most groups_left groups may stay open; the caller copies them itself, so that
// the sanitizers see the accesses as the thread's own.
struct AsyncCopy {
    void* target;
    const void* source;
};
unsigned async_due(unsigned groups_left, AsyncCopy* due, unsigned capacity);

template <typename T>
uint64_t to_bits(T value)
{
    static_assert(sizeof(T) <= 8);
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    return bits;
}

template <typename T>
T from_bits(uint64_t bits)
{
    T value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

template <typename T>
T shuffle(WarpOp op, unsigned mask, T value, int argument, int width, int line)
{
    return from_bits<T>(warp_collect(op, mask, to_bits(value), argument, width, line));
}

inline void async_wait(unsigned groups_left)
{
    AsyncCopy due[64];
    unsigned count;
    while ((count = async_due(groups_left, due, 64)) != 0) {
        for (unsigned i = 0; i < count; i++) {
            std::memcpy(due[i].target, due[i].source, 16);
        }
    }
}

}  // namespace emu

#define threadIdx (::emu::current_view->thread)
#define blockIdx (::emu::current_view->block)
#define blockDim (::emu::current_view->block_dim)
#define gridDim (::emu::current_view->grid_dim)

#define __global__ inline
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#ifndef __restrict__
#define __restrict__ __restrict
#endif

#define __syncthreads() ((void)::emu::block_barrier(::emu::Reduce::kNone, 0, __LINE__))
#define __syncthreads_or(p) (::emu::block_barrier(::emu::Reduce::kOr, (p), __LINE__))
#define __syncthreads_and(p) (::emu::block_barrier(::emu::Reduce::kAnd, (p), __LINE__))
#define __syncthreads_count(p) (::emu::block_barrier(::emu::Reduce::kCount, (p), __LINE__))
#define __syncwarp(...) (::emu::sync_warp(__LINE__ __VA_OPT__(, ) __VA_ARGS__))
#define __shfl_sync(mask, value, lane) \
    (::emu::shuffle(::emu::WarpOp::kIndex, (mask), (value), (lane), 32, __LINE__))
#define __shfl_up_sync(mask, value, by) \
    (::emu::shuffle(::emu::WarpOp::kUp, (mask), (value), (by), 32, __LINE__))
#define __shfl_down_sync(mask, value, by) \
    (::emu::shuffle(::emu::WarpOp::kDown, (mask), (value), (by), 32, __LINE__))
#define __shfl_xor_sync(mask, value, lanes) \
    (::emu::shuffle(::emu::WarpOp::kXor, (mask), (value), (lanes), 32, __LINE__))
#define __shfl_xor_width_sync(mask, value, lanes, width) \
    (::emu::shuffle(::emu::WarpOp::kXor, (mask), (value), (lanes), (width), __LINE__))
#define __ballot_sync(mask, p) \
    (static_cast<unsigned>(    \
        ::emu::warp_collect(::emu::WarpOp::kBallot, (mask), (p) ? 1 : 0, 0, 32, __LINE__)))
#define __any_sync(mask, p) \
    (static_cast<int>(      \
        ::emu::warp_collect(::emu::WarpOp::kAny, (mask), (p) ? 1 : 0, 0, 32, __LINE__)))
#define __all_sync(mask, p) \
    (static_cast<int>(      \
        ::emu::warp_collect(::emu::WarpOp::kAll, (mask), (p) ? 1 : 0, 0, 32, __LINE__)))
#define __nanosleep(ns) (::emu::yield_thread())

namespace emu {
inline void sync_warp(int line, unsigned mask = 0xffffffffu)
{
    (void)warp_collect(WarpOp::kSync, mask, 0, 0, 32, line);
}
}  // namespace emu

inline void __threadfence()
{
    std::atomic_thread_fence(std::memory_order_seq_cst);
}
inline void __threadfence_system()
{
    std::atomic_thread_fence(std::memory_order_seq_cst);
}
inline void __threadfence_block()
{
    std::atomic_thread_fence(std::memory_order_seq_cst);
}

inline unsigned atomicAdd(unsigned* word, unsigned value)
{
    return __atomic_fetch_add(word, value, __ATOMIC_RELAXED);
}
inline int atomicAdd(int* word, int value)
{
    return __atomic_fetch_add(word, value, __ATOMIC_RELAXED);
}
inline unsigned long long atomicAdd(unsigned long long* word, unsigned long long value)
{
    return __atomic_fetch_add(word, value, __ATOMIC_RELAXED);
}
inline float atomicAdd(float* word, float value)
{
    unsigned seen = __atomic_load_n(reinterpret_cast<unsigned*>(word), __ATOMIC_RELAXED);
    for (;;) {
        const float sum = emu::from_bits<float>(seen) + value;
        const unsigned next = static_cast<unsigned>(emu::to_bits(sum));
        if (__atomic_compare_exchange_n(reinterpret_cast<unsigned*>(word), &seen, next, false,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
            return emu::from_bits<float>(seen);
        }
    }
}
inline unsigned atomicExch(unsigned* word, unsigned value)
{
    return __atomic_exchange_n(word, value, __ATOMIC_RELAXED);
}
inline unsigned atomicCAS(unsigned* word, unsigned expected, unsigned value)
{
    __atomic_compare_exchange_n(word, &expected, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return expected;
}
inline unsigned atomicMax(unsigned* word, unsigned value)
{
    unsigned seen = __atomic_load_n(word, __ATOMIC_RELAXED);
    while (seen < value && !__atomic_compare_exchange_n(word, &seen, value, false, __ATOMIC_RELAXED,
                                                        __ATOMIC_RELAXED)) {
    }
    return seen;
}
