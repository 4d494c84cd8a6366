// Purpose:  a heap that fails on demand, for the question of what a lack of memory leaves behind.
// Owns:     nothing.
// Thread:   counts are per thread.
// Lifetime: the test program.
#pragma once

#include <cstdint>

// false under a sanitizer, which brings its own allocator: there nothing fails.
bool heap_can_fail();

// From now on the nth allocation of this thread fails, and all after it where for_ever is set; 0:
// none does. Begins to count allocations and blocks anew.
void heap_fail(uint64_t nth, bool for_ever);

// Since heap_fail: allocations tried, and blocks taken and not given back.
uint64_t heap_allocations();
int64_t heap_blocks();
