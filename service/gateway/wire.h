// Purpose:  the gateway's connections to the broker: one request in flight on each, a queue of
// those that wait.
// Owns:     the sockets.
// Thread:   the gateway's.
// Lifetime: as long as the gateway; connections come and go with the device process.
//
// The first kWatchWires connections carry WATCH packets only, so that a parked watch never holds up
// an operation; see watch.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "aotx/packet.h"
#include "aotx/status.h"
#include "service/base/fd.h"

namespace aotx {

constexpr size_t kWatchWires = 2;
constexpr size_t kNoWire = ~static_cast<size_t>(0);

// What came back. The payload lives until the handler returns.
struct Reply {
    // AOTX_OK: a well-formed reply to this request; AOTX_ERR_CLOSED: the connection went away, the
    // request may or may not have reached the device; AOTX_ERR_STATE: an answer that is void.
    int result = AOTX_ERR_CLOSED;
    aotx_reply_head head = {};
    const uint8_t* payload = nullptr;
    size_t payload_bytes = 0;
};

// One request to the device. It lies in its owner, which gives it to Wires::start and must not
// touch it until done is called or Wires::forget has been.
struct WireOperation {
    aotx_request_head head = {};
    const uint8_t* payload = nullptr;  // head.payload_bytes bytes of the owner's, kept until done
    void (*done)(WireOperation* operation, const Reply& reply) = nullptr;
    void* owner = nullptr;

    WireOperation* before = nullptr;  // the queue's
    WireOperation* after = nullptr;
    size_t wire = kNoWire;
    enum class State : uint8_t { Idle, Waiting, Flying } state = State::Idle;
};

class Wires {
public:
    // What the server does with the events of these sockets.
    struct Hooks {
        void* server = nullptr;
        // A watch wire delivered a packet, or went away (reply.result != AOTX_OK).
        void (*watch_done)(void* server, size_t wire, const Reply& reply) = nullptr;
    };

    Wires() noexcept = default;
    ~Wires();
    Wires(const Wires&) = delete;
    Wires& operator=(const Wires&) = delete;

    // Remember what to connect to and try once. tag_base: wire i is epoll data tag_base + i.
    void open(int epoll_fd, uint64_t tag_base, const std::string& path, size_t wires_count,
              const Hooks& hooks, uint64_t now_ns) noexcept;

    // Whether operations can be started: at least one connection for them stands.
    bool connected() const noexcept { return operation_wires_open_ != 0; }
    bool watch_connected(size_t wire) const noexcept { return wires_[wire].fd.valid(); }
    size_t count() const noexcept { return wires_.size(); }
    size_t waiting_count() const noexcept { return waiting_count_; }
    size_t flying_count() const noexcept { return flying_count_; }

    // Queue an operation; flush() sends it. Only while connected().
    void start(WireOperation* operation) noexcept;
    // The owner has gone or waits no longer. A reply that still comes is dropped.
    void forget(WireOperation* operation) noexcept;
    // As forget, and give up the connection of a request that is in flight: it may hang.
    void abandon(WireOperation* operation) noexcept;
    // Send what waits on the connections that are free, all in one burst.
    void flush() noexcept;

    // Send a WATCH packet on a watch wire. False: the wire is gone (watch_done was called).
    [[nodiscard]] bool watch_send(size_t wire, const void* packet, size_t packet_bytes) noexcept;

    // Epoll said something about wire i.
    void on_event(size_t wire) noexcept;

    // Connect what is missing when it is time. Returns when to call again, 0 for never.
    uint64_t reconnect(uint64_t now_ns) noexcept;

private:
    struct Wire {
        Fd fd;
        bool proved = false;  // has carried a reply, so a loss is news and not a refusal
        bool flying = false;  // a request is out; its owner may have forgotten it
        WireOperation* operation = nullptr;
        aotx_request_head sent = {};  // what the reply has to match
    };

    bool connect_one(size_t wire) noexcept;
    void lose(size_t wire, int result) noexcept;
    void queue_fail() noexcept;
    bool send_operation(size_t wire, WireOperation* operation) noexcept;
    void deliver(size_t wire, const Reply& reply) noexcept;
    void unlink(WireOperation* operation) noexcept;

    std::string path_;
    std::vector<Wire> wires_;
    Hooks hooks_;
    int epoll_fd_ = -1;
    uint64_t tag_base_ = 0;
    size_t operation_wires_open_ = 0;
    size_t missing_ = 0;
    uint64_t retry_ns_ = 0;  // when to connect what is missing
    uint64_t backoff_ns_ = 0;
    WireOperation* first_ = nullptr;
    WireOperation* last_ = nullptr;
    size_t waiting_count_ = 0;
    size_t flying_count_ = 0;
    size_t next_free_ = kWatchWires;
    alignas(8) uint8_t frame_[AOTX_PACKET_BYTES_MAX];
};

}  // namespace aotx
