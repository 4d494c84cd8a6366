/* Purpose:  what every header of this SDK needs: inline and assert macros that work alike in C11,
 * C++17 and CUDA. Owns:     nothing. Thread:   not applicable, compile time only. Lifetime: not
 * applicable.
 *
 * The wire format is little endian. The structs of this SDK are the wire format itself, so a
 * big-endian target is refused here instead of being wrong later. */
#ifndef AOTX_BASE_H
#define AOTX_BASE_H

#include <stddef.h>
#include <stdint.h>

#if defined(__BYTE_ORDER__) && (__BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__)
#error "aotx structs are the little-endian wire format; this target is big endian"
#endif

/* AOTX_HOST_DEVICE marks a function that runs on the host and, under nvcc, on the device as well.
 */
#if defined(__CUDACC__)
#define AOTX_HOST_DEVICE __host__ __device__
#else
#define AOTX_HOST_DEVICE
#endif

/* AOTX_INLINE gives one private copy per translation unit, which links from any number of them in C
 * and C++. */
#if defined(__cplusplus)
#define AOTX_INLINE AOTX_HOST_DEVICE static inline
#define AOTX_STATIC_ASSERT(condition, text) static_assert(condition, text)
#define AOTX_NOEXCEPT noexcept
#else
#define AOTX_INLINE static inline
#define AOTX_STATIC_ASSERT(condition, text) _Static_assert(condition, text)
#define AOTX_NOEXCEPT
#endif

/* AOTX_FIELD fixes the offset and the size of one field. Every public struct lists all of its
 * fields this way, so a hole or a reordering cannot pass the compiler. */
#define AOTX_FIELD(type, field, offset_bytes, size_bytes)         \
    AOTX_STATIC_ASSERT(offsetof(type, field) == (offset_bytes),   \
                       #type "." #field " is at " #offset_bytes); \
    AOTX_STATIC_ASSERT(sizeof(((type*)0)->field) == (size_bytes), \
                       #type "." #field " holds " #size_bytes " bytes")

/* AOTX_SIZE fixes the size of a whole struct. */
#define AOTX_SIZE(type, size_bytes) \
    AOTX_STATIC_ASSERT(sizeof(type) == (size_bytes), #type " holds " #size_bytes " bytes")

#endif
