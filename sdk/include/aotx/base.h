/* Purpose:  what every header of this SDK needs: macros that work alike in C11, C++17 and CUDA, and
 *           the two byte loops that stand in for the string library.
 * Owns:     nothing.
 * Thread:   any.
 * Lifetime: not applicable.
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

/* AOTX_HOST_DEVICE marks a function that runs on the host and, under nvcc, on the device too. */
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

/* Copy bytes between objects that do not overlap. The SDK needs no string library, so that it also
 * compiles for freestanding and device targets; compilers turn the built-in into plain moves. */
AOTX_INLINE void aotx_copy(void* to, const void* from, size_t bytes_count) AOTX_NOEXCEPT
{
#if defined(__CUDA_ARCH__)
    uint8_t* const target = (uint8_t*)to;
    const uint8_t* const source = (const uint8_t*)from;
    for (size_t i = 0; i < bytes_count; i++) {
        target[i] = source[i];
    }
#else
    __builtin_memcpy(to, from, bytes_count);
#endif
}

/* Set bytes to zero. */
AOTX_INLINE void aotx_zero(void* to, size_t bytes_count) AOTX_NOEXCEPT
{
#if defined(__CUDA_ARCH__)
    uint8_t* const target = (uint8_t*)to;
    for (size_t i = 0; i < bytes_count; i++) {
        target[i] = 0;
    }
#else
    __builtin_memset(to, 0, bytes_count);
#endif
}

/* 1 when every byte is zero, else 0. Reads all of them, so the time does not tell which. */
AOTX_INLINE int aotx_is_zero(const void* bytes, size_t bytes_count) AOTX_NOEXCEPT
{
    const uint8_t* const source = (const uint8_t*)bytes;
    unsigned seen = 0;
    for (size_t i = 0; i < bytes_count; i++) {
        seen |= source[i];
    }
    return seen == 0u;
}

/* 1 when both hold the same bytes, else 0. Reads all of them. */
AOTX_INLINE int aotx_is_equal(const void* left, const void* right, size_t bytes_count) AOTX_NOEXCEPT
{
    const uint8_t* const a = (const uint8_t*)left;
    const uint8_t* const b = (const uint8_t*)right;
    unsigned seen = 0;
    for (size_t i = 0; i < bytes_count; i++) {
        seen |= (unsigned)a[i] ^ (unsigned)b[i];
    }
    return seen == 0u;
}

#endif
