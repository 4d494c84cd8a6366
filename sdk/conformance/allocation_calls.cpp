// Purpose:  count the heap calls of a thread, for programs that link this file: their definitions
//           of the allocator come before the C library's, for every shared object in the process.
// Owns:     nothing.
// Thread:   counts are per thread.
// Lifetime: the program.
#include "allocation_calls.h"

#include <cerrno>
#include <cstddef>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FLASHRT_COUNTED 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define FLASHRT_COUNTED 0
#endif
#endif
#if !defined(FLASHRT_COUNTED)
#define FLASHRT_COUNTED 1
#endif

namespace {
thread_local uint64_t calls = 0;
}

namespace flashrt::conformance {

uint64_t allocation_calls()
{
    return calls;
}
bool allocation_calls_counted()
{
    return FLASHRT_COUNTED == 1;
}

}  // namespace flashrt::conformance

#if FLASHRT_COUNTED
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
    calls += memory != nullptr ? 1 : 0;
    __libc_free(memory);
}
}
#endif
