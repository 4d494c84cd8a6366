// Purpose:  the mailbox as two threads use it: every byte written before a turn is given is seen
//           after it is taken, and the layout of the ring is the contract's.
// Owns:     nothing. Thread: two. Lifetime: one run.
#include "aotx/mailbox.h"

#include <catch2/catch.hpp>
#include <memory>
#include <thread>

#include "packets.h"

namespace {

constexpr uint64_t kRounds = 20000;

// Both sides of one round write a frame that says which round and which side it was.
void stamp(uint8_t* frame, uint64_t round, uint8_t side, uint64_t bytes_count)
{
    for (uint64_t i = 0; i < bytes_count; i++) {
        frame[i] = static_cast<uint8_t>(round * 7 + i * 3 + side);
    }
}

bool is_stamped(const uint8_t* frame, uint64_t round, uint8_t side, uint64_t bytes_count)
{
    for (uint64_t i = 0; i < bytes_count; i++) {
        if (frame[i] != static_cast<uint8_t>(round * 7 + i * 3 + side)) {
            return false;
        }
    }
    return true;
}

TEST_CASE("a turn carries everything that was written before it")
{
    const auto box = std::make_unique<aotx_mailbox>();
    uint64_t device_wrong = 0;
    std::thread device([&]() {
        for (uint64_t round = 0; round < kRounds; round++) {
            while (!aotx_mailbox_take(box.get())) {
                std::this_thread::yield();
            }
            const bool right = box->generation == round + 1 &&
                               box->length_bytes == round % 97 + 1 &&
                               is_stamped(box->frame, round, 1, box->length_bytes);
            device_wrong += right ? 0 : 1;
            stamp(box->frame, round, 2, round % 89 + 1);
            aotx_mailbox_reply(box.get(), round % 89 + 1);
        }
    });
    uint64_t broker_wrong = 0;
    for (uint64_t round = 0; round < kRounds; round++) {
        stamp(box->frame, round, 1, round % 97 + 1);
        aotx_mailbox_post(box.get(), round % 97 + 1);
        while (!aotx_mailbox_replied(box.get())) {
            std::this_thread::yield();
        }
        const bool right = box->length_bytes == round % 89 + 1 && box->generation == round + 1 &&
                           is_stamped(box->frame, round, 2, box->length_bytes);
        broker_wrong += right ? 0 : 1;
        aotx_mailbox_empty(box.get());
    }
    device.join();
    CHECK(device_wrong == 0);
    CHECK(broker_wrong == 0);
}

TEST_CASE("the state word goes around in one order")
{
    const auto box = std::make_unique<aotx_mailbox>();
    CHECK(box->state == 0);
    CHECK_FALSE(aotx_mailbox_take(box.get()));
    aotx_mailbox_post(box.get(), 128);
    CHECK(box->state == 1);
    CHECK(aotx_mailbox_take(box.get()));
    CHECK_FALSE(aotx_mailbox_replied(box.get()));
    aotx_mailbox_reply(box.get(), 200);
    CHECK(box->state == 2);
    CHECK_FALSE(aotx_mailbox_take(box.get()));
    CHECK(aotx_mailbox_replied(box.get()));
    aotx_mailbox_empty(box.get());
    CHECK(box->state == 0);
}

TEST_CASE("the ring lies as the contract draws it")
{
    Bytes bytes(64 + 65600, 0);
    put32(&bytes, 0, 1);
    put32(&bytes, 4, 128);
    put32(&bytes, 8, 65536);
    put64(&bytes, 16, 1);
    put64(&bytes, 24, 9);
    put64(&bytes, 64, 2);
    put64(&bytes, 72, 5);
    put64(&bytes, 80, 128);
    bytes[64 + 64] = 'A';
    aotx_ring_head head = {};
    std::memcpy(&head, bytes.data(), sizeof head);
    CHECK(head.schema == AOTX_RING_SCHEMA);
    CHECK(head.channels == 128);
    CHECK(head.frame_bytes == AOTX_PACKET_BYTES_MAX);
    CHECK(head.closed == 1);
    CHECK(head.epoch == 9);
    const auto box = std::make_unique<aotx_mailbox>();
    std::memcpy(box.get(), bytes.data() + 64, sizeof *box);
    CHECK(box->state == AOTX_TURN_REPLY);
    CHECK(box->generation == 5);
    CHECK(box->length_bytes == 128);
    CHECK(box->frame[0] == 'A');
}

}  // namespace
