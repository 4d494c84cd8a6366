// Purpose:  follow the output of all running answers with one WATCH packet at a time.
// Owns:     the watch packet; which rows each of the two watch connections carries.
// Thread:   the gateway's.
// Lifetime: as long as the gateway.
//
// At most one watch is current. When rows are added while it is parked, a newer one with the same
// watch ID goes out on the other connection, which makes the device answer the older one at once.
// When both are out, the change waits for that answer. So news needs no interval, and a change of
// the set needs no round trip before it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "wire.h"
#include "work.h"

namespace aotx {

class Watch {
public:
    struct Hooks {
        void* server = nullptr;
        // Whether this work's reader has room; one that has none is left out of the next watch.
        bool (*wants)(void* server, const Work& work) = nullptr;
        void (*news)(void* server, Work* work, const WorkNews& news) = nullptr;
        // The device refused this row: enum aotx_device_status.
        void (*refused)(void* server, Work* work, uint32_t device_status) = nullptr;
        // The watch itself failed. AOTX_ERR_CLOSED, AOTX_ERR_STATE, or a device status.
        void (*failed)(void* server, int result, uint32_t device_status) = nullptr;
    };

    void open(Wires* wires, WorkTable* works, const Hooks& hooks) noexcept;

    // A row was added, a cursor moved, or a reader has room again.
    void touch() noexcept { dirty_ = true; }

    // At the end of a turn: send the present rows when they changed.
    void flush(uint64_t epoch) noexcept;

    // Wires::Hooks::watch_done.
    void on_reply(size_t wire, const Reply& reply) noexcept;

private:
    struct Row {
        uint32_t index;
        uint32_t generation;
    };

    size_t packet_build(size_t wire, uint64_t epoch) noexcept;
    [[nodiscard]] bool news_read(size_t wire, const Reply& reply) noexcept;
    void news_take(Work* work, const aotx_watch_news& head, const uint8_t* data) noexcept;

    Wires* wires_ = nullptr;
    WorkTable* works_ = nullptr;
    Hooks hooks_;
    bool dirty_ = false;
    uint8_t id_[AOTX_ID_BYTES] = {};
    bool flying_[kWatchWires] = {};
    size_t rows_count_[kWatchWires] = {};
    Row rows_[kWatchWires][AOTX_GRANT_ROWS_MAX];
    alignas(8) uint8_t packet_[AOTX_PACKET_BYTES_MAX];
};

}  // namespace aotx
