// Purpose:  how many heap calls the calling thread made; see allocation_calls.cpp.
// Owns:     nothing.
// Thread:   counts are per thread.
// Lifetime: the program.
#pragma once

#include <cstdint>

namespace flashrt::conformance {

// Calls of malloc, calloc, realloc, aligned_alloc, posix_memalign and free since the thread began.
uint64_t allocation_calls();

// false under a sanitizer, which brings its own allocator: there nothing is counted.
bool allocation_calls_counted();

}  // namespace flashrt::conformance
