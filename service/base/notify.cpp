// Purpose:  messages to a supervisor, see notify.h.
// Owns:     nothing.
// Thread:   any.
// Lifetime: not applicable.
#include "service/base/notify.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace aotx {
namespace {

constexpr size_t kMessageBytesMax = 1024;

// The address that a name stands for: a path, or with a leading '@' an abstract one.
bool address_of(const std::string& name, sockaddr_un* address, socklen_t* bytes) noexcept
{
    *address = {};
    if (name.size() < 2 || name.size() >= sizeof address->sun_path ||
        (name.front() != '/' && name.front() != '@')) {
        return false;
    }
    address->sun_family = AF_UNIX;
    std::memcpy(address->sun_path, name.data(), name.size());
    const bool is_path = name.front() == '/';
    if (!is_path) {
        address->sun_path[0] = '\0';
    }
    // An abstract name has no terminator: every byte that is counted belongs to it.
    *bytes =
        static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size() + (is_path ? 1 : 0));
    return true;
}

bool has_line(const char* text, size_t bytes, const char* wanted) noexcept
{
    const std::string message = "\n" + std::string(text, bytes) + "\n";
    return message.find("\n" + std::string(wanted) + "\n") != std::string::npos;
}

}  // namespace

void notify_send(const char* message) noexcept
{
    const char* const name = std::getenv("NOTIFY_SOCKET");
    sockaddr_un address = {};
    socklen_t address_bytes = 0;
    if (name == nullptr || !address_of(name, &address, &address_bytes)) {
        return;
    }
    const Fd socket_out(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    // A supervisor that does not listen is no reason to stop.
    static_cast<void>(sendto(socket_out.get(), message, std::strlen(message), MSG_NOSIGNAL,
                             reinterpret_cast<const sockaddr*>(&address), address_bytes));
}

Fd notify_listen(std::string* name) noexcept
{
    Fd made(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int on = 1;
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    socklen_t bytes = sizeof address;
    // Binding to the family alone lets the kernel choose a free abstract name.
    if (!made.valid() || setsockopt(made.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0 ||
        bind(made.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address.sun_family) !=
            0 ||
        getsockname(made.get(), reinterpret_cast<sockaddr*>(&address), &bytes) != 0) {
        return Fd();
    }
    const size_t characters = bytes - offsetof(sockaddr_un, sun_path) - 1;
    *name = "@" + std::string(address.sun_path + 1, characters);
    return made;
}

bool notify_is_ready(const Fd& socket, pid_t process) noexcept
{
    bool is_ready = false;
    for (;;) {
        char text[kMessageBytesMax];
        alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred)) + CMSG_SPACE(16 * sizeof(int))];
        iovec part = {text, sizeof text};
        msghdr message = {};
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        message.msg_control = control;
        message.msg_controllen = sizeof control;
        const ssize_t got = recvmsg(socket.get(), &message, MSG_CMSG_CLOEXEC);
        if (got < 0) {
            return is_ready;
        }
        bool is_its = false;
        for (cmsghdr* item = CMSG_FIRSTHDR(&message); item != nullptr;
             item = CMSG_NXTHDR(&message, item)) {
            if (item->cmsg_level == SOL_SOCKET && item->cmsg_type == SCM_CREDENTIALS) {
                ucred sender = {};
                std::memcpy(&sender, CMSG_DATA(item), sizeof sender);
                is_its = sender.pid == process;
            } else if (item->cmsg_level == SOL_SOCKET && item->cmsg_type == SCM_RIGHTS) {
                const size_t count = (item->cmsg_len - CMSG_LEN(0)) / sizeof(int);
                for (size_t i = 0; i < count; i++) {
                    int descriptor = -1;
                    std::memcpy(&descriptor, CMSG_DATA(item) + i * sizeof(int), sizeof descriptor);
                    close(descriptor);
                }
            }
        }
        is_ready = is_ready || (is_its && has_line(text, static_cast<size_t>(got), "READY=1"));
    }
}

}  // namespace aotx
