// Purpose:  the futex calls behind wait.h.
// Owns:     nothing.
// Thread:   any.
// Lifetime: not applicable.
#include "wait.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>

namespace aotx {

namespace {
constexpr uint64_t kSecond = 1000000000u;
constexpr uint64_t kSpinFloorNs = 1000;
}  // namespace

uint64_t clock_now_ns() noexcept
{
    timespec now = {};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<uint64_t>(now.tv_sec) * kSecond + static_cast<uint64_t>(now.tv_nsec);
}

void bell_sleep(Bell* bell, uint32_t count, uint64_t deadline_ns) noexcept
{
    timespec until = {};
    timespec* limit = nullptr;
    if (deadline_ns != UINT64_MAX) {
        until.tv_sec = static_cast<time_t>(deadline_ns / kSecond);
        until.tv_nsec = static_cast<long>(deadline_ns % kSecond);
        limit = &until;
    }
    syscall(SYS_futex, &bell->count, FUTEX_WAIT_BITSET_PRIVATE, count, limit, nullptr,
            FUTEX_BITSET_MATCH_ANY);
}

void bell_ring(Bell* bell) noexcept
{
    bell->count.fetch_add(1, std::memory_order_seq_cst);
    syscall(SYS_futex, &bell->count, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

void spin_paid(SpinBudget* budget) noexcept
{
    const uint64_t longer = budget->now_ns * 2u;
    budget->now_ns = longer < budget->max_ns ? longer : budget->max_ns;
}

void spin_wasted(SpinBudget* budget) noexcept
{
    const uint64_t shorter = budget->now_ns / 2u;
    budget->now_ns = shorter > kSpinFloorNs ? shorter : kSpinFloorNs;
    if (budget->now_ns > budget->max_ns) {
        budget->now_ns = budget->max_ns;
    }
}

}  // namespace aotx
