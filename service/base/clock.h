// Purpose:  the monotonic clock, in nanoseconds.
// Owns:     nothing.
// Thread:   any.
// Lifetime: not applicable.
#pragma once

#include <time.h>

#include <cstdint>

namespace aotx {

constexpr uint64_t kSecondNs = 1000000000;
constexpr uint64_t kMillisecondNs = 1000000;
constexpr uint64_t kMicrosecondNs = 1000;

// Nanoseconds of CLOCK_MONOTONIC: never steps back, whatever happens to the wall clock.
inline uint64_t clock_monotonic_ns() noexcept
{
    timespec now = {};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<uint64_t>(now.tv_sec) * kSecondNs + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace aotx
