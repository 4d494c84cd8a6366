// Purpose:  the socket side of the broker: making service.sock and receiving one packet safely.
// Owns:     nothing.
// Thread:   any.
// Lifetime: not applicable.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "service/base/fd.h"

namespace aotx {

// Bind and listen on path with mode 0600. Errors and *error as broker_listen.
[[nodiscard]] int socket_listen(const std::string& path, Fd* listener, std::string* error) noexcept;

// Whether the peer has this process's effective user ID.
[[nodiscard]] bool socket_peer_is_own(int connection) noexcept;

enum class Received : uint32_t {
    Packet,       // *bytes were written
    Nothing,      // none is waiting
    Empty,        // zero bytes: a packet of no bytes, or the end; the events of the socket tell
    Truncated,    // the packet was larger than the frame; its head must not be believed
    Descriptors,  // it carried descriptors, all closed by now, or lost some
    Failed        // the connection is broken
};

// Receive one packet into a frame of frame_bytes. Descriptors that come along are closed at once,
// however many there are.
[[nodiscard]] Received socket_receive(int connection, void* frame, size_t frame_bytes,
                                      size_t* bytes) noexcept;

}  // namespace aotx
