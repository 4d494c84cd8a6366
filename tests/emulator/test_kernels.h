// Purpose:  small kernels for the emulator's own tests; each planted bug has its correct twin.
// Owns:     nothing.
// Thread:   device code.
// Lifetime: not applicable.
#pragma once

#include "cuda/kernels/cuda/port.h"

namespace planted {

using namespace aotx;

// Sum of 128 values through shared memory. fenced false leaves out the barrier between the steps.
template <bool fenced>
__global__ void block_sum(const float* in, float* out)
{
    CU_SHARED(float, cell, 128);
    const unsigned t = threadIdx.x;
    cell[t] = in[blockIdx.x * 128 + t];
    for (unsigned half = 64; half > 0; half /= 2) {
        if (fenced) {
            __syncthreads();
        }
        if (t < half) {
            cell[t] += cell[t + half];
        }
    }
    if (t == 0) {
        out[blockIdx.x] = cell[0];
    }
}

// Pass a value to the next lane through shared memory. A shuffle is no memory fence.
template <bool fenced>
__global__ void lane_pass(float* out)
{
    CU_SHARED(float, cell, 32);
    const unsigned t = threadIdx.x;
    cell[t] = static_cast<float>(t);
    if (fenced) {
        __syncwarp();
    } else {
        (void)__shfl_xor_sync(0xffffffffu, t, 1);
    }
    out[t] = cell[(t + 1) % 32];
}

template <bool atomic>
__global__ void count_blocks(unsigned* out)
{
    if (threadIdx.x == 0) {
        if (atomic) {
            atomicAdd(out, 1u);
        } else {
            out[0] += 1;
        }
    }
}

template <bool inside>
__global__ void shared_overrun(float* out)
{
    CU_SHARED(float, cell, 32);
    const unsigned t = threadIdx.x;
    cell[inside ? t : t + 1] = 1.0f;
    __syncthreads();
    out[t] = cell[t];
}

__global__ void dynamic_overrun(float* out, unsigned count)
{
    CU_DYN_SHARED(float, cell);
    cell[threadIdx.x + count] = 1.0f;
    out[threadIdx.x] = cell[threadIdx.x];
}

__global__ void global_overrun(float* out)
{
    out[threadIdx.x + 1] = 1.0f;
}

__global__ void read_unwritten(float* out)
{
    CU_SHARED(float, cell, 32);
    __syncthreads();
    out[threadIdx.x] = cell[threadIdx.x];
}

// Wide words at byte `first` of the memory.
__global__ void wide_load(const uint8_t* in, unsigned* out, unsigned first)
{
    out[threadIdx.x] = cu_load16(in + first + threadIdx.x * 16u).y;
}

__global__ void narrow_load(const uint8_t* in, unsigned* out, unsigned first)
{
    out[threadIdx.x] = cu_load8(in + first + threadIdx.x * 8u).y;
}

__global__ void wide_store(uint8_t* out, unsigned first)
{
    cu_write16(out + first + threadIdx.x * 16u, uint4{1, 2, 3, threadIdx.x});
}

__global__ void diverged_barrier()
{
    if (threadIdx.x % 2 == 0) {
        __syncthreads();
    } else {
        __syncthreads();
    }
}

__global__ void missing_lane(unsigned* out)
{
    if (threadIdx.x == 5) {
        __syncthreads();
    }
    out[threadIdx.x] = __shfl_xor_sync(0xffffffffu, threadIdx.x, 1);
    __syncthreads();
}

__global__ void exited_lane(unsigned* out)
{
    if (threadIdx.x == 5) {
        return;
    }
    out[threadIdx.x] = __shfl_xor_sync(0xffffffffu, threadIdx.x, 1);
}

__global__ void mixed_operations(unsigned* out)
{
    if (threadIdx.x < 16) {
        out[threadIdx.x] = __shfl_xor_sync(0xffffffffu, threadIdx.x, 1);
    } else {
        out[threadIdx.x] = __ballot_sync(0xffffffffu, 1);
    }
}

__global__ void outside_own_mask(unsigned* out)
{
    out[threadIdx.x] = __shfl_xor_sync(0x0000ffffu, threadIdx.x, 1);
}

__global__ void half_warps(unsigned* out)
{
    const unsigned mask = threadIdx.x < 16 ? 0x0000ffffu : 0xffff0000u;
    unsigned sum = threadIdx.x;
    for (int step = 8; step > 0; step /= 2) {
        sum += __shfl_xor_width_sync(mask, sum, step, 16);
    }
    out[threadIdx.x] = sum;
}

// Publish a value to a second block. released false stores the flag without release order.
template <bool released>
__global__ void publish(unsigned* data, unsigned* flag, unsigned* out)
{
    if (threadIdx.x != 0) {
        return;
    }
    if (blockIdx.x == 0) {
        data[0] = 42;
        __atomic_store_n(flag, 1u, released ? __ATOMIC_RELEASE : __ATOMIC_RELAXED);
        return;
    }
    while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) == 0) {
        __nanosleep(100);
    }
    out[0] = data[0];
}

__global__ void grid_phases(unsigned* cells, unsigned* out)
{
    const unsigned b = blockIdx.x;
    for (unsigned round = 0; round < 3; round++) {
        if (threadIdx.x == 0) {
            cells[b] = round + b;
        }
        CU_GRID_SYNC();
        if (threadIdx.x == 1) {
            out[b * 3 + round] = cells[(b + 1) % gridDim.x];
        }
        CU_GRID_SYNC();
    }
}

__global__ void leave_grid(unsigned* out)
{
    if (blockIdx.x == 1) {
        return;
    }
    CU_GRID_SYNC();
    out[0] = 1;
}

// One chunk of 16 floats a thread; groups_left 0 waits for all, 1 forgets the last group.
template <int groups_left>
__global__ void staged_copy(const float* in, float* out)
{
    CU_SHARED(float, cell, 32 * 8);
    const unsigned t = threadIdx.x;
    for (unsigned part = 0; part < 2; part++) {
        cu_cp_async16(&cell[t * 8 + part * 4], in + t * 8 + part * 4);
        cu_cp_async_commit();
    }
    cu_cp_async_wait<groups_left>();
    for (unsigned i = 0; i < 8; i++) {
        out[t * 8 + i] = cell[t * 8 + i];
    }
    cu_cp_async_wait<0>();
}

__global__ void one_product(const uint32_t* a, const uint32_t* b, float* d)
{
    const unsigned t = threadIdx.x;
    float sum[4] = {1.0f, 2.0f, 3.0f, 4.0f};
    cu_mma_f16(sum, a + t * 4, b + t * 2);
    for (unsigned i = 0; i < 4; i++) {
        d[t * 4 + i] = sum[i];
    }
}

__global__ void spin_for_ever(unsigned* word)
{
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) == 0) {
        __nanosleep(100);
    }
}

__global__ void votes(unsigned* out)
{
    const unsigned t = threadIdx.x;
    const unsigned odd = t % 2;
    out[t] = __ballot_sync(0xffffffffu, odd);
    out[32 + t] = static_cast<unsigned>(__any_sync(0xffffffffu, t == 7));
    out[64 + t] = static_cast<unsigned>(__all_sync(0xffffffffu, t != 7));
    out[96 + t] = static_cast<unsigned>(__syncthreads_count(t < 5));
    out[128 + t] = static_cast<unsigned>(__syncthreads_or(t == 31));
    out[160 + t] = static_cast<unsigned>(__syncthreads_and(t == 31));
    out[192 + t] = __shfl_up_sync(0xffffffffu, t, 3);
    out[224 + t] = __shfl_down_sync(0xffffffffu, t, 3);
    out[256 + t] = __shfl_sync(0xffffffffu, t, 9);
}

}  // namespace planted
