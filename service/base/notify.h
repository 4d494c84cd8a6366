// Purpose:  tell the supervisor of this process how it is, in the form that systemd reads.
// Owns:     nothing.
// Thread:   any.
// Lifetime: not applicable.
#pragma once

#include <string>

#include "service/base/fd.h"

namespace aotx {

// Send one message, for example "READY=1", to the socket that $NOTIFY_SOCKET names. Without the
// variable, or when nobody listens, nothing happens.
void notify_send(const char* message) noexcept;

// A socket on which a child can do the same; *name is what its NOTIFY_SOCKET must say. Invalid
// when the system gives none; errno says why.
[[nodiscard]] Fd notify_listen(std::string* name) noexcept;

// Whether one of the waiting messages of the process is "READY=1"; all of them are read. Messages
// of any other process count for nothing.
[[nodiscard]] bool notify_is_ready(const Fd& socket, pid_t process) noexcept;

}  // namespace aotx
