// Purpose:  a device for broker tests: a ring in memory whose replies the test gives by hand or has
// echoed by a thread.
// Owns:     the ring, the reply queue and its eventfd.
// Thread:   the broker thread calls through face(); the test's thread calls the rest.
// Lifetime: longer than the broker that uses it.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <vector>

#include "aotx/mailbox.h"
#include "aotx/packet.h"
#include "service/broker/broker.h"

class FakeDevice {
public:
    explicit FakeDevice(uint32_t mailboxes, bool echoes = true)
        : boxes_(mailboxes), echoes_(echoes), reply_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))
    {
        head_.schema = AOTX_RING_SCHEMA;
        head_.channels = mailboxes;
        head_.frame_bytes = AOTX_PACKET_BYTES_MAX;
    }
    ~FakeDevice() { close(reply_fd_); }
    FakeDevice(const FakeDevice&) = delete;
    FakeDevice& operator=(const FakeDevice&) = delete;

    aotx::BrokerDevice face()
    {
        aotx::BrokerDevice device;
        device.device = this;
        device.ring = [](void* self) noexcept { return &of(self)->head_; };
        device.mailbox = [](void* self, uint32_t index) noexcept {
            return &of(self)->boxes_[index];
        };
        device.ring_doorbell = [](void* self, const uint32_t* indices, uint32_t count) noexcept {
            of(self)->doorbell(indices, count);
        };
        device.take_replies = [](void* self, uint32_t* indices, uint32_t capacity) noexcept {
            return of(self)->take(indices, capacity);
        };
        device.reply_fd = [](void* self) noexcept { return of(self)->reply_fd_; };
        device.park = [](void* self) noexcept { return of(self)->park(); };
        device.awake = [](void* self) noexcept { of(self)->is_parked_ = false; };
        return device;
    }

    // Wait for a request of a device that does not echo; its mailbox index.
    uint32_t wait_request()
    {
        std::unique_lock<std::mutex> lock(mutex_);
        came_.wait(lock, [this] { return !requests_.empty(); });
        const uint32_t index = requests_.front();
        requests_.pop_front();
        return index;
    }

    // Answer the request in a mailbox: its own head with this status.
    void reply(uint32_t index, uint32_t status)
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        give(index, status);
        if (is_parked_) {
            const uint64_t one = 1;
            [[maybe_unused]] const ssize_t put = write(reply_fd_, &one, sizeof one);
        }
    }

    // While the lock lives, the broker waits at its next call here, so that what peers send
    // meanwhile is one burst.
    std::unique_lock<std::mutex> hold() { return std::unique_lock<std::mutex>(mutex_); }

    uint64_t doorbells() const { return doorbells_; }
    uint64_t posts() const { return posts_; }
    void close_ring() { aotx_word_store(&head_.closed, 1); }

private:
    static FakeDevice* of(void* self) { return static_cast<FakeDevice*>(self); }

    void give(uint32_t index, uint32_t status)
    {
        aotx_mailbox& box = boxes_[index];
        std::memcpy(box.frame + 8, &status, sizeof status);
        aotx_mailbox_reply(&box, box.length_bytes);
        replies_.push_back(index);
    }

    void doorbell(const uint32_t* indices, uint32_t count)
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        doorbells_ = doorbells_ + 1;
        for (uint32_t i = 0; i < count; i++) {
            posts_ = posts_ + 1;
            if (!aotx_mailbox_take(&boxes_[indices[i]])) {
                std::abort();
            }
            if (echoes_ || indices[i] == AOTX_MAILBOX_CONTROL) {
                give(indices[i], AOTX_STATUS_OK);
            } else {
                requests_.push_back(indices[i]);
            }
        }
        came_.notify_all();
    }

    uint32_t take(uint32_t* indices, uint32_t capacity)
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        uint32_t count = 0;
        while (count < capacity && !replies_.empty()) {
            indices[count++] = replies_.front();
            replies_.pop_front();
        }
        return count;
    }

    bool park()
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        is_parked_ = replies_.empty();
        return is_parked_;
    }

    aotx_ring_head head_ = {};
    std::vector<aotx_mailbox> boxes_;
    bool echoes_;
    int reply_fd_;
    std::mutex mutex_;
    std::condition_variable came_;
    std::deque<uint32_t> requests_;
    std::deque<uint32_t> replies_;
    std::atomic<bool> is_parked_ = false;
    std::atomic<uint64_t> doorbells_ = 0;
    std::atomic<uint64_t> posts_ = 0;
};
