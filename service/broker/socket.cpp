// Purpose:  the socket side of the broker, see socket.h.
// Owns:     nothing.
// Thread:   any.
// Lifetime: not applicable.
#include "service/broker/socket.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

#include "aotx/status.h"
#include "service/base/check.h"

namespace aotx {
namespace {

constexpr int kListenBacklog = 128;
constexpr size_t kDescriptorsMax = 253;  // the most that Linux passes in one packet

sockaddr_un address_of(const std::string& path) noexcept
{
    sockaddr_un address = {};
    AOTX_CHECK(!path.empty() && path.size() < sizeof address.sun_path);
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    return address;
}

int fail(const std::string& path, const char* what, int status, std::string* error)
{
    *error = path + ": " + what;
    if (status == AOTX_ERR_SYSTEM) {
        *error += std::string(": ") + strerror(errno);
    }
    return status;
}

// Remove a socket that nobody listens on. Anything else at this path stays where it is.
int remove_stale(const std::string& path, std::string* error)
{
    struct stat state = {};
    if (lstat(path.c_str(), &state) != 0) {
        return errno == ENOENT ? AOTX_OK : fail(path, "cannot look", AOTX_ERR_SYSTEM, error);
    }
    if (!S_ISSOCK(state.st_mode)) {
        return fail(path, "exists and is no socket", AOTX_ERR_STATE, error);
    }
    const Fd probe(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!probe.valid()) {
        return fail(path, "no socket", AOTX_ERR_SYSTEM, error);
    }
    const sockaddr_un address = address_of(path);
    if (connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ||
        errno == EAGAIN) {
        return fail(path, "another process serves here", AOTX_ERR_STATE, error);
    }
    if (errno != ECONNREFUSED) {
        return fail(path, "cannot tell who listens", AOTX_ERR_SYSTEM, error);
    }
    if (unlink(path.c_str()) != 0 && errno != ENOENT) {
        return fail(path, "cannot remove the old socket", AOTX_ERR_SYSTEM, error);
    }
    return AOTX_OK;
}

// Close whatever descriptors a packet brought. True when there were any.
bool close_descriptors(msghdr* message) noexcept
{
    bool any = false;
    for (cmsghdr* control = CMSG_FIRSTHDR(message); control != nullptr;
         control = CMSG_NXTHDR(message, control)) {
        if (control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        const size_t count = (control->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int descriptor = -1;
            std::memcpy(&descriptor, CMSG_DATA(control) + i * sizeof(int), sizeof descriptor);
            close(descriptor);
            any = true;
        }
    }
    return any;
}

}  // namespace

int socket_listen(const std::string& path, Fd* listener, std::string* error) noexcept
{
    const int stale = remove_stale(path, error);
    if (stale != AOTX_OK) {
        return stale;
    }
    Fd made(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!made.valid()) {
        return fail(path, "no socket", AOTX_ERR_SYSTEM, error);
    }
    const sockaddr_un address = address_of(path);
    // The mask, not a later chmod: the socket must never be open to others, not even for a moment.
    const mode_t kept_mask = umask(0177);
    const int bound = bind(made.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
    umask(kept_mask);
    if (bound != 0) {
        return fail(path, "cannot bind", errno == EADDRINUSE ? AOTX_ERR_STATE : AOTX_ERR_SYSTEM,
                    error);
    }
    if (listen(made.get(), kListenBacklog) != 0) {
        return fail(path, "cannot listen", AOTX_ERR_SYSTEM, error);
    }
    *listener = std::move(made);
    return AOTX_OK;
}

bool socket_peer_is_own(int connection) noexcept
{
    ucred peer = {};
    socklen_t bytes = sizeof peer;
    return getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 &&
           bytes == sizeof peer && peer.uid == geteuid();
}

Received socket_receive(int connection, void* frame, size_t frame_bytes, size_t* bytes) noexcept
{
    iovec part = {frame, frame_bytes};
    // Room for every descriptor that a packet can carry: one that finds no room would still be
    // closed by the kernel, but then the flag would be all that tells.
    alignas(cmsghdr) char control[CMSG_SPACE(kDescriptorsMax * sizeof(int))];
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t got = recvmsg(connection, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0) {
        return errno == EAGAIN || errno == EINTR ? Received::Nothing : Received::Failed;
    }

    const bool any_descriptor = message.msg_controllen != 0 && close_descriptors(&message);
    if (any_descriptor || (message.msg_flags & MSG_CTRUNC) != 0) {
        return Received::Descriptors;
    }
    if ((message.msg_flags & MSG_TRUNC) != 0) {
        return Received::Truncated;
    }
    if (got == 0) {
        return Received::Empty;
    }
    *bytes = static_cast<size_t>(got);
    return Received::Packet;
}

}  // namespace aotx
