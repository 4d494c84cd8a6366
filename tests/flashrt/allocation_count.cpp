// Purpose:  the counting allocator of allocation_count.h: the program's own definitions come before
//           those of the C library, for every shared object in it.
// Owns:     nothing.
// Thread:   any.
// Lifetime: the program.
#include "allocation_count.h"

#include <cerrno>
#include <cstddef>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNTED 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define COUNTED 0
#endif
#endif
#if !defined(COUNTED)
#define COUNTED 1
#endif

static thread_local uint64_t calls = 0;

uint64_t allocation_calls()
{
    return calls;
}
bool allocation_calls_counted()
{
    return COUNTED == 1;
}

#if COUNTED
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t align_bytes, size_t bytes);
void __libc_free(void* memory);

void* malloc(size_t bytes)
{
    calls++;
    return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes)
{
    calls++;
    return __libc_calloc(count, bytes);
}
void* realloc(void* memory, size_t bytes)
{
    calls++;
    return __libc_realloc(memory, bytes);
}
void* aligned_alloc(size_t align_bytes, size_t bytes)
{
    calls++;
    return __libc_memalign(align_bytes, bytes);
}
int posix_memalign(void** memory, size_t align_bytes, size_t bytes)
{
    calls++;
    *memory = __libc_memalign(align_bytes, bytes);
    return *memory == nullptr ? ENOMEM : 0;
}
void free(void* memory)
{
    calls++;
    __libc_free(memory);
}
}
#endif
