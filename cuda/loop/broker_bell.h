// Purpose:  how the device wakes the broker: P2 of docs/mailbox.md, one copy for both backends.
// Owns:     nothing; the descriptor belongs to the loop.
// Thread:   as each function says.
// Lifetime: that of the loop.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "cuda/core/check.h"

namespace aotx {

struct BrokerBell {
    alignas(64) std::atomic<uint32_t> parked{0};  // written by the broker: odd while parked
    alignas(64) uint32_t rung = 0;                // value of parked that has been rung for
    int fd = -1;                                  // eventfd, not blocking
};

// Whether the broker sleeps and nobody has rung for that yet. The reply list was written before.
// [under the turn]
inline bool broker_bell_due(BrokerBell* bell) noexcept
{
    // P2, device side: the list is written, now look whether the broker sleeps.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    const uint32_t parked = bell->parked.load(std::memory_order_relaxed);
    if (parked % 2u == 0 || parked == bell->rung) {
        return false;
    }
    bell->rung = parked;
    return true;
}

// Wake the broker. One system call. [any thread, not under the turn]
inline void broker_bell_ring(const BrokerBell& bell) noexcept
{
    const uint64_t one = 1;
    // The counter cannot overflow: one ring a parking.
    while (write(bell.fd, &one, sizeof one) != sizeof one) {
    }
}

// The broker is about to sleep; whoever calls looks at the reply list once more behind it, and
// leaves again if there is something. [broker]
inline void broker_bell_park(BrokerBell* bell) noexcept
{
    const uint32_t word = bell->parked.load(std::memory_order_relaxed);
    AOTX_CORE_CHECK(word % 2u == 0);
    bell->parked.store(word + 1u, std::memory_order_relaxed);
    // P2, broker side: parked is written, now look once more for replies.
    std::atomic_thread_fence(std::memory_order_seq_cst);
}

// The broker is awake, if it was parked. [broker]
inline void broker_bell_leave(BrokerBell* bell) noexcept
{
    const uint32_t word = bell->parked.load(std::memory_order_relaxed);
    if (word % 2u == 1u) {
        bell->parked.store(word + 1u, std::memory_order_relaxed);
    }
}

}  // namespace aotx
