// Purpose:  how a thread of the loop waits: a bounded spin, then sleep on a futex word.
// Owns:     nothing.
// Thread:   each Bell has one sleeper and any number of ringers.
// Lifetime: not applicable.
#pragma once

#include <atomic>
#include <cstdint>

namespace aotx {

// Monotonic nanoseconds.
uint64_t clock_now_ns() noexcept;

// Hint to the processor that this thread only waits.
inline void spin_pause() noexcept
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

// A word to sleep on. The sleeper reads the count, looks once more for work, then sleeps only if
// the count is still the same; so a ring between look and sleep is not lost.
struct Bell {
    std::atomic<uint32_t> count{0};
};

// Sleep until the bell rings after count was read, or until deadline_ns (UINT64_MAX: none) on the
// monotonic clock. May return early.
void bell_sleep(Bell* bell, uint32_t count, uint64_t deadline_ns) noexcept;

// Wake the sleeper. One system call.
void bell_ring(Bell* bell) noexcept;

// How long to spin before sleeping: long while spinning pays, short while it does not.
struct SpinBudget {
    uint64_t max_ns = 0;
    uint64_t now_ns = 0;
};

void spin_paid(SpinBudget* budget) noexcept;
void spin_wasted(SpinBudget* budget) noexcept;

}  // namespace aotx
