// Purpose:  memory that is there before the first step: taken whole, resident, given back whole.
// Owns:     nothing; the caller frees what it took.
// Thread:   any.
// Lifetime: load time.
#pragma once

#include <cstdint>

namespace aotx {

// Anonymous memory, zeroed, on huge pages where the system gives them, all of it resident. Null
// when the system has not enough. Freed with memory_free.
uint8_t* memory_take(uint64_t bytes) noexcept;
void memory_free(uint8_t* memory, uint64_t bytes) noexcept;

// Let the pages that lie wholly inside a part of a mapped file leave the resident set.
void memory_release_mapped(const uint8_t* data, uint64_t bytes) noexcept;

}  // namespace aotx
