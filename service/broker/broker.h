// Purpose:  the thread between service.sock and the device: accepts the gateway's connections and
// carries packets to mailboxes and replies back. It reads no payload.
// Owns:     the listening socket, every connection, and which mailbox belongs to which connection.
// Thread:   open, listen, control, stop and close on one thread of the caller; the rest is the
// broker's own thread.
// Lifetime: open -> start -> listen -> stop -> close; the device outlives the broker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "aotx/mailbox.h"
#include "aotx/packet.h"

namespace aotx {

// The face of the device that a broker needs, as in the hot loop. Every call comes from the broker
// thread, mailbox and ring also from broker_open.
struct BrokerDevice {
    void* device = nullptr;
    aotx_ring_head* (*ring)(void* device) noexcept = nullptr;
    aotx_mailbox* (*mailbox)(void* device, uint32_t index) noexcept = nullptr;
    // Mailboxes were posted; once a turn, after the last post.
    void (*ring_doorbell)(void* device, const uint32_t* mailbox_indices,
                          uint32_t count) noexcept = nullptr;
    // Up to capacity indices of mailboxes in turn REPLY.
    uint32_t (*take_replies)(void* device, uint32_t* mailbox_indices,
                             uint32_t capacity) noexcept = nullptr;
    // eventfd that becomes readable when replies come while the broker is parked.
    int (*reply_fd)(void* device) noexcept = nullptr;
    // True when the broker may sleep on reply_fd, false when replies are already there.
    bool (*park)(void* device) noexcept = nullptr;
    void (*awake)(void* device) noexcept = nullptr;
};

struct BrokerOptions {
    std::string socket_path;   // 1..107 bytes
    uint32_t mailboxes = 128;  // of the ring, the control mailbox included
    uint32_t spin_us = 20;     // busy wait for a reply before the thread sleeps
    std::string cpus;          // processors of the thread, as cpus_parse takes them; empty: any
};

// What happened, since open. [any thread]
struct BrokerCounters {
    uint64_t connections_accepted;
    uint64_t connections_refused_owner;  // another user's
    uint64_t connections_refused_full;   // no mailbox, or no descriptor
    uint64_t packets;                    // posted to the device
    uint64_t replies;                    // sent to a peer
    uint64_t replies_orphaned;           // arrived after their peer had left
    uint64_t dropped_short;              // under 128 bytes, zero included
    uint64_t dropped_truncated;          // over 65536 bytes
    uint64_t dropped_descriptors;        // carried descriptors
    uint64_t dropped_grants;             // operation 1
    uint64_t dropped_unread;             // the peer does not read its replies
};

struct Broker;

// Take every resource that a broker needs but the socket. AOTX_ERR_RANGE: a path, a count or
// the processors out of range; AOTX_ERR_SYSTEM: no descriptor; errno says why. *broker is untouched
// on failure.
[[nodiscard]] int broker_open(const BrokerOptions& options, const BrokerDevice& device,
                              Broker** broker) noexcept;

// Start the thread on its processors. From now on broker_control works. AOTX_ERR_SYSTEM: no thread,
// or none of its processors is here; errno says why.
[[nodiscard]] int broker_start(Broker* broker) noexcept;

// Make the socket with mode 0600 and accept connections. A socket that nobody listens on any more
// is replaced. AOTX_ERR_STATE: another process listens there, or the path is no socket;
// AOTX_ERR_SYSTEM: errno says why. *error says it in words, the path included.
[[nodiscard]] int broker_listen(Broker* broker, std::string* error) noexcept;

// Send a packet through the control mailbox and wait for its reply head. One call at a time.
// AOTX_ERR_LENGTH: no packet's length; AOTX_ERR_CLOSED: the device takes no more requests;
// AOTX_ERR_NEED_MORE: no reply within timeout_ms, the next call waits for it first.
[[nodiscard]] int broker_control(Broker* broker, const void* packet, size_t packet_bytes,
                                 uint32_t timeout_ms, aotx_reply_head* reply) noexcept;

// Stop accepting, close every connection, remove the socket, join the thread.
void broker_stop(Broker* broker) noexcept;

// Free everything. After stop, or in its place when start failed.
void broker_close(Broker* broker) noexcept;

[[nodiscard]] BrokerCounters broker_counters(const Broker* broker) noexcept;

}  // namespace aotx
