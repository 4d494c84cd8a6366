// Purpose:  the only spellings that kernel source uses where CUDA and the CPU differ. Under nvcc
// they are CUDA; elsewhere they come from the execution shim that the including target provides as
// "emulator.h", so the same source runs on a CPU in tests.
// Owns:     nothing.
// Thread:   not applicable.
// Lifetime: not applicable.
//
// Rules for kernel source: include this first; no __shared__, no volatile, no raw spin (every wait
// loop calls __nanosleep); 16-bit floats are uint16_t and converted by the functions below; fma is
// written out where its rounding matters.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__CUDACC__)

#include <cooperative_groups.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#define CU_SHARED(type, name, count) __shared__ __align__(16) type name[count]
#define CU_DYN_SHARED(type, name)                                      \
    extern __shared__ __align__(128) unsigned char cu_dynamic_bytes[]; \
    type* const name = reinterpret_cast<type*>(cu_dynamic_bytes)
#define CU_UNROLL _Pragma("unroll")
#define CU_GRID_SYNC() (::cooperative_groups::this_grid().sync())
#define CU_GRID_CONSTANT __grid_constant__

namespace aotx {

__device__ __forceinline__ float cu_half_to_float(uint16_t bits)
{
    return __half2float(__ushort_as_half(bits));
}
__device__ __forceinline__ uint16_t cu_float_to_half(float value)
{
    return __half_as_ushort(__float2half_rn(value));
}
__device__ __forceinline__ float cu_bfloat_to_float(uint16_t bits)
{
    return __uint_as_float(static_cast<uint32_t>(bits) << 16);
}
__device__ __forceinline__ uint16_t cu_float_to_bfloat(float value)
{
    return __bfloat16_as_ushort(__float2bfloat16_rn(value));
}
__device__ __forceinline__ float cu_bits_to_float(uint32_t bits)
{
    return __uint_as_float(bits);
}
// Two halves at once; exact for the small whole numbers it is used on.
__device__ __forceinline__ uint32_t cu_half2_sub(uint32_t left, uint32_t right)
{
    const __half2 difference = __hsub2(*reinterpret_cast<const __half2*>(&left),
                                       *reinterpret_cast<const __half2*>(&right));
    return *reinterpret_cast<const uint32_t*>(&difference);
}
__device__ __forceinline__ float cu_exp(float value)
{
    return expf(value);
}

// d += a * b over one 16 x 8 x 16 tile; fragments as the PTX manual lays them over the lanes.
__device__ __forceinline__ void cu_mma_f16(float* d, const uint32_t* a, const uint32_t* b)
{
#if __CUDA_ARCH__ >= 800
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}
__device__ __forceinline__ void cu_mma_bf16(float* d, const uint32_t* a, const uint32_t* b)
{
#if __CUDA_ARCH__ >= 800
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

// Sixteen bytes of global memory, at an address that is a multiple of 16: the device stops at any
// other, and so does the shim. cu_read16 is for what kernels of the same graph write. What runs
// before cu_begin counts as the kernel's life, so cu_load16 is not for these.
__device__ __forceinline__ uint4 cu_read16(const void* source)
{
    return *static_cast<const uint4*>(source);
}
__device__ __forceinline__ void cu_write16(void* target, uint4 value)
{
    *static_cast<uint4*>(target) = value;
}

// Sixteen bytes from global memory that nobody writes while the kernel runs.
__device__ __forceinline__ uint4 cu_load16(const void* source)
{
    return __ldg(static_cast<const uint4*>(source));
}
__device__ __forceinline__ uint2 cu_load8(const void* source)
{
    return __ldg(static_cast<const uint2*>(source));
}

// Set the condition of a graph's loop or branch. [one thread]
__device__ __forceinline__ void cu_set_condition(uint64_t handle, unsigned value)
{
    cudaGraphSetConditional(static_cast<cudaGraphConditionalHandle>(handle), value);
}

// One ticket of a counter. Everything that the caller's block wrote before is visible to the block
// that sees the last ticket. [one thread, after a block barrier]
__device__ __forceinline__ unsigned cu_take_ticket(unsigned* counter)
{
    __threadfence();
    const unsigned ticket = atomicAdd(counter, 1u);
    __threadfence();
    return ticket;
}

// The first thing that a kernel of a step does, behind loads of what never changes: wait until all
// that the kernel before wrote can be seen, and let the kernel behind begin as far as its own wait.
// Where a graph does not overlap kernels, and before 9.0, both are nothing. [all threads]
__device__ __forceinline__ void cu_begin()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;\n" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;\n" ::);
#endif
}

// Copy 16 bytes to shared memory behind the thread's back; both addresses are aligned to 16. The
// data is there after cu_cp_async_wait of a group that covers it, for others after a barrier too.
__device__ __forceinline__ void cu_cp_async16(void* shared_target, const void* source)
{
#if __CUDA_ARCH__ >= 800
    const unsigned target = static_cast<unsigned>(__cvta_generic_to_shared(shared_target));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(target), "l"(source));
#endif
}
__device__ __forceinline__ void cu_cp_async_commit()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;\n" ::);
#endif
}
template <int groups_left>
__device__ __forceinline__ void cu_cp_async_wait()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;\n" ::"n"(groups_left));
#endif
}

}  // namespace aotx

#else

#include "emulator.h"

#define CU_SHARED(type, name, count)                   \
    static thread_local ::emu::SharedSite name##_site; \
    type* const name = static_cast<type*>(             \
        ::emu::shared_site(&name##_site, sizeof(type) * (count), alignof(type)))
#define CU_DYN_SHARED(type, name) type* const name = static_cast<type*>(::emu::shared_dynamic())
#define CU_UNROLL
#define CU_GRID_SYNC() (::emu::grid_barrier(__LINE__))
#define CU_GRID_CONSTANT

namespace aotx {

inline float cu_half_to_float(uint16_t bits)
{
    return ::emu::half_to_float(bits);
}
inline float cu_bfloat_to_float(uint16_t bits)
{
    return ::emu::bfloat_to_float(bits);
}
inline float cu_bits_to_float(uint32_t bits)
{
    return ::emu::from_bits<float>(bits);
}
inline float cu_exp(float value)
{
    return std::exp(value);
}

// Round to nearest, ties to even, as the device does.
inline uint16_t cu_float_to_half(float value)
{
    const uint32_t bits = static_cast<uint32_t>(::emu::to_bits(value));
    const uint32_t sign = bits >> 16 & 0x8000u;
    const uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude >= 0x7f800000u) {
        return static_cast<uint16_t>(sign | (magnitude > 0x7f800000u ? 0x7fffu : 0x7c00u));
    }
    if (magnitude >= 0x477ff000u) {
        return static_cast<uint16_t>(sign | 0x7c00u);
    }
    if (magnitude < 0x38800000u) {  // subnormal: let the float adder round at 2^-24
        const float scaled = ::emu::from_bits<float>(magnitude) * 0x1p24f;
        return static_cast<uint16_t>(sign | static_cast<uint32_t>(std::nearbyint(scaled)));
    }
    const uint32_t odd = magnitude >> 13 & 1;
    return static_cast<uint16_t>(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
}
inline uint16_t cu_float_to_bfloat(float value)
{
    const uint32_t bits = static_cast<uint32_t>(::emu::to_bits(value));
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return static_cast<uint16_t>(bits >> 16 | 0x40u);
    }
    return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

inline uint32_t cu_half2_sub(uint32_t left, uint32_t right)
{
    uint32_t result = 0;
    for (uint32_t shift = 0; shift < 32; shift += 16) {
        const float value = cu_half_to_float(static_cast<uint16_t>(left >> shift)) -
                            cu_half_to_float(static_cast<uint16_t>(right >> shift));
        result |= static_cast<uint32_t>(cu_float_to_half(value)) << shift;
    }
    return result;
}

#define cu_mma_f16(d, a, b) (::aotx::cu_mma((d), (a), (b), false, __LINE__))
#define cu_mma_bf16(d, a, b) (::aotx::cu_mma((d), (a), (b), true, __LINE__))
inline void cu_mma(float* d, const uint32_t* a, const uint32_t* b, bool bfloat, int line)
{
    const ::emu::MmaFragments fragments{d, a, b, bfloat};
    ::emu::warp_mma(&fragments, line);
}

inline uint4 cu_load16(const void* source, int line = __builtin_LINE())
{
    uint4 value;
    ::emu::must_align(source, sizeof value, line);
    std::memcpy(&value, source, sizeof value);
    return value;
}
inline uint4 cu_read16(const void* source, int line = __builtin_LINE())
{
    return cu_load16(source, line);
}
inline void cu_write16(void* target, uint4 value, int line = __builtin_LINE())
{
    ::emu::must_align(target, sizeof value, line);
    std::memcpy(target, &value, sizeof value);
}
inline uint2 cu_load8(const void* source, int line = __builtin_LINE())
{
    uint2 value;
    ::emu::must_align(source, sizeof value, line);
    std::memcpy(&value, source, sizeof value);
    return value;
}

inline void cu_cp_async16(void* shared_target, const void* source)
{
    ::emu::async_copy16(shared_target, source);
}
inline void cu_cp_async_commit()
{
    ::emu::async_commit();
}
template <int groups_left>
inline void cu_cp_async_wait()
{
    ::emu::async_wait(groups_left);
}

inline void cu_begin() {}

// The interpreter's handle is the address of its word.
inline void cu_set_condition(uint64_t handle, unsigned value)
{
    *reinterpret_cast<unsigned*>(handle) = value;
}

inline unsigned cu_take_ticket(unsigned* counter)
{
    return __atomic_fetch_add(counter, 1u, __ATOMIC_ACQ_REL);
}

}  // namespace aotx

#endif
