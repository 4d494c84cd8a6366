// Purpose:  deadlines without a periodic tick: one queue for each length of time, oldest first.
// Owns:     nothing; nodes live in their owners.
// Thread:   the gateway's.
// Lifetime: a node leaves its queue before its owner goes.
//
// All deadlines of a queue have the same length, so that adding at the end keeps it sorted and
// every operation takes constant time.
#pragma once

#include <cstdint>

#include "service/base/check.h"

namespace aotx {

struct DeadlineNode {
    DeadlineNode* before = nullptr;
    DeadlineNode* after = nullptr;
    uint64_t due_ns = 0;
    void* owner = nullptr;
    class DeadlineQueue* queue = nullptr;  // nullptr: in none
};

class DeadlineQueue {
public:
    void set_length_ns(uint64_t length_ns) noexcept { length_ns_ = length_ns; }

    // Put a node at the end, due length_ns from now; one that is in a queue leaves it first.
    void arm(DeadlineNode* node, uint64_t now_ns) noexcept
    {
        disarm(node);
        node->due_ns = now_ns + length_ns_;
        node->queue = this;
        node->before = last_;
        node->after = nullptr;
        (last_ != nullptr ? last_->after : first_) = node;
        last_ = node;
    }

    // Take a node out of whatever queue it is in.
    static void disarm(DeadlineNode* node) noexcept
    {
        DeadlineQueue* const queue = node->queue;
        if (queue == nullptr) {
            return;
        }
        (node->before != nullptr ? node->before->after : queue->first_) = node->after;
        (node->after != nullptr ? node->after->before : queue->last_) = node->before;
        node->before = nullptr;
        node->after = nullptr;
        node->queue = nullptr;
    }

    // The oldest node, nullptr when there is none.
    DeadlineNode* first() const noexcept { return first_; }

    // The oldest node that is due, nullptr when none is. The caller disarms or arms it again.
    DeadlineNode* due(uint64_t now_ns) const noexcept
    {
        return first_ != nullptr && first_->due_ns <= now_ns ? first_ : nullptr;
    }

private:
    DeadlineNode* first_ = nullptr;
    DeadlineNode* last_ = nullptr;
    uint64_t length_ns_ = 0;
};

}  // namespace aotx
