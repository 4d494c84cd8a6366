// Purpose:  the allocator behind failing_heap.h; its definitions come before the C library's.
// Owns:     nothing.
// Thread:   counts are per thread.
// Lifetime: the program.
#include "failing_heap.h"

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HEAP_CAN_FAIL 0
#else
#define HEAP_CAN_FAIL 1
#endif

namespace {

thread_local uint64_t allocations = 0;
thread_local int64_t blocks = 0;
thread_local uint64_t failing = 0;
thread_local bool failing_for_ever = false;

}  // namespace

bool heap_can_fail()
{
    return HEAP_CAN_FAIL == 1;
}

void heap_fail(uint64_t nth, bool for_ever)
{
    allocations = 0;
    blocks = 0;
    failing = nth;
    failing_for_ever = for_ever;
}

uint64_t heap_allocations()
{
    return allocations;
}

int64_t heap_blocks()
{
    return blocks;
}

#if HEAP_CAN_FAIL
namespace {

bool fails()
{
    allocations++;
    return failing != 0 && (allocations == failing || (failing_for_ever && allocations > failing));
}

void* taken(void* memory)
{
    blocks += memory != nullptr ? 1 : 0;
    return memory;
}

}  // namespace

extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t align_bytes, size_t bytes);
void __libc_free(void* memory);

void* malloc(size_t bytes)
{
    return fails() ? nullptr : taken(__libc_malloc(bytes));
}
void* calloc(size_t count, size_t bytes)
{
    return fails() ? nullptr : taken(__libc_calloc(count, bytes));
}
void* realloc(void* memory, size_t bytes)
{
    if (fails()) {
        return nullptr;
    }
    return memory == nullptr ? taken(__libc_malloc(bytes)) : __libc_realloc(memory, bytes);
}
void* aligned_alloc(size_t align_bytes, size_t bytes)
{
    return fails() ? nullptr : taken(__libc_memalign(align_bytes, bytes));
}
void free(void* memory)
{
    blocks -= memory != nullptr ? 1 : 0;
    __libc_free(memory);
}
}
#endif
