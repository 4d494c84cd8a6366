// Purpose:  a client of service.sock in C++17: one connection, one request at a time, and one call
//           for each operation that clients use.
// Owns:     the socket and one frame of 64 KiB, both inside the object.
// Thread:   one thread at a time uses a BrokerClient.
// Lifetime: payload pointers of a reply live until the next send, receive or close.
//
// Nothing here throws or allocates, so the header also fits code without exceptions.
#ifndef AOTX_BROKER_CLIENT_HPP
#define AOTX_BROKER_CLIENT_HPP

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "information.h"
#include "packet_check.h"
#include "submit.h"
#include "watch.h"

namespace aotx {

// A reply as it lies in the client's frame.
struct BrokerReply {
    aotx_reply_head head;
    const uint8_t* payload;  // head.payload_bytes bytes
};

// One connection to the broker. The broker keeps only peers of its own user.
class BrokerClient {
public:
    BrokerClient() noexcept = default;
    ~BrokerClient() { close(); }
    BrokerClient(const BrokerClient&) = delete;
    BrokerClient& operator=(const BrokerClient&) = delete;

    // Connect; an open connection is closed first. path: at most 107 bytes, zero-terminated.
    // AOTX_ERR_LENGTH the path is empty or too long; AOTX_ERR_SYSTEM errno says why.
    [[nodiscard]] int connect(const char* path) noexcept
    {
        close();
        sockaddr_un address;
        aotx_zero(&address, sizeof address);
        address.sun_family = AF_UNIX;
        size_t length = 0;
        while (path[length] != 0) {
            if (length + 1 >= sizeof address.sun_path) {
                return AOTX_ERR_LENGTH;
            }
            address.sun_path[length] = path[length];
            length++;
        }
        if (length == 0) {
            return AOTX_ERR_LENGTH;
        }
        fd_ = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        if (fd_ < 0) {
            return AOTX_ERR_SYSTEM;
        }
        if (::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
            const int reason = errno;
            close();
            errno = reason;
            return AOTX_ERR_SYSTEM;
        }
        return AOTX_OK;
    }

    // Close; harmless when closed. A request in flight runs on and its reply goes to nobody.
    void close() noexcept
    {
        if (fd_ >= 0) {
            ::close(fd_);
        }
        fd_ = -1;
        waiting_ = false;
    }

    [[nodiscard]] bool is_open() const noexcept { return fd_ >= 0; }
    [[nodiscard]] bool is_waiting() const noexcept { return waiting_; }

    // The descriptor, for a poll of the caller's own; readable when receive will not wait.
    [[nodiscard]] int fd() const noexcept { return fd_; }

    // Send one request. payload: u8 [head.payload_bytes], may be null when that is 0; it may lie in
    // any memory, and is not kept.
    // AOTX_ERR_STATE    closed, or the reply of the last request has not been received
    // AOTX_ERR_LENGTH   payload_bytes above AOTX_PAYLOAD_BYTES_MAX
    // AOTX_ERR_CLOSED   the broker has gone; the connection is closed
    // AOTX_ERR_SYSTEM   errno says why; the connection is closed
    [[nodiscard]] int send(const aotx_request_head& head, const void* payload) noexcept
    {
        if (fd_ < 0 || waiting_) {
            return AOTX_ERR_STATE;
        }
        if (head.payload_bytes > AOTX_PAYLOAD_BYTES_MAX) {
            return AOTX_ERR_LENGTH;
        }
        iovec parts[2];
        parts[0].iov_base = const_cast<aotx_request_head*>(&head);
        parts[0].iov_len = sizeof head;
        parts[1].iov_base = const_cast<void*>(payload);
        parts[1].iov_len = head.payload_bytes;
        msghdr message;
        aotx_zero(&message, sizeof message);
        message.msg_iov = parts;
        message.msg_iovlen = head.payload_bytes == 0 ? 1 : 2;
        ssize_t sent = 0;
        do {
            sent = ::sendmsg(fd_, &message, MSG_NOSIGNAL);
        } while (sent < 0 && errno == EINTR);
        if (sent < 0) {
            return fail();
        }
        request_ = head;
        waiting_ = true;
        return AOTX_OK;
    }

    // Receive the reply of the request that was sent. timeout_ms: below 0 waits for ever.
    // AOTX_ERR_STATE      no request is in flight
    // AOTX_ERR_NEED_MORE  no reply within the time, or a signal came; call again
    // AOTX_ERR_CLOSED     the broker has gone; the connection is closed
    // AOTX_ERR_LENGTH, AOTX_ERR_MAGIC, AOTX_ERR_NONZERO  no well-formed reply; closed
    // AOTX_ERR_RANGE      a reply that belongs to another request; closed
    // AOTX_ERR_SYSTEM     errno says why; the connection is closed
    [[nodiscard]] int receive(BrokerReply* reply, int timeout_ms) noexcept
    {
        if (fd_ < 0 || !waiting_) {
            return AOTX_ERR_STATE;
        }
        pollfd ready;
        ready.fd = fd_;
        ready.events = POLLIN;
        ready.revents = 0;
        const int polled = ::poll(&ready, 1, timeout_ms);
        if (polled == 0 || (polled < 0 && errno == EINTR)) {
            return AOTX_ERR_NEED_MORE;
        }
        if (polled < 0) {
            return fail();
        }
        return take(reply);
    }

    // Send and wait for the reply, through signals. Errors of both; timeout_ms as in receive, after
    // which the connection is closed, so that a late reply cannot meet another request.
    [[nodiscard]] int call(const aotx_request_head& head, const void* payload, BrokerReply* reply,
                           int timeout_ms = -1) noexcept
    {
        int result = send(head, payload);
        if (result != AOTX_OK) {
            return result;
        }
        do {
            result = receive(reply, timeout_ms);
        } while (result == AOTX_ERR_NEED_MORE && timeout_ms < 0);
        if (result == AOTX_ERR_NEED_MORE) {
            close();
        }
        return result;
    }

private:
    int take(BrokerReply* reply) noexcept
    {
        iovec part;
        part.iov_base = frame_;
        part.iov_len = sizeof frame_;
        msghdr message;
        aotx_zero(&message, sizeof message);
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        ssize_t got = 0;
        do {
            got = ::recvmsg(fd_, &message, MSG_CMSG_CLOEXEC);
        } while (got < 0 && errno == EINTR);
        if (got < 0) {
            return fail();
        }
        // A reply is never empty, so zero bytes can only be the end.
        if (got == 0) {
            close();
            return AOTX_ERR_CLOSED;
        }
        aotx_reply_head head;
        int result = (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0
                         ? AOTX_ERR_LENGTH
                         : aotx_reply_check(frame_, static_cast<size_t>(got), &head);
        if (result == AOTX_OK && !aotx_reply_matches(&request_, &head)) {
            result = AOTX_ERR_RANGE;
        }
        if (result != AOTX_OK) {
            close();
            return result;
        }

        waiting_ = false;
        reply->head = head;
        reply->payload = frame_ + AOTX_HEAD_BYTES;
        return AOTX_OK;
    }

    int fail() noexcept
    {
        const int reason = errno;
        close();
        errno = reason;
        return reason == EPIPE || reason == ECONNRESET ? AOTX_ERR_CLOSED : AOTX_ERR_SYSTEM;
    }

    int fd_ = -1;
    bool waiting_ = false;
    aotx_request_head request_ = {};
    alignas(8) uint8_t frame_[AOTX_PACKET_BYTES_MAX] = {};
};

// Heads for the operations of clients; send them with BrokerClient::call.
struct BrokerPrincipal {
    uint8_t id[16];
    uint64_t grant_revision;
};

// Asks for the device's limits and models and for the caller's grant.
inline aotx_request_head information_head(const BrokerPrincipal& who) noexcept
{
    aotx_request_head head;
    aotx_request_head_begin(&head, AOTX_OPERATION_INFORMATION, who.id, who.grant_revision);
    return head;
}

// As information, with memory, ticks and clock; the grant must have the telemetry action.
inline aotx_request_head telemetry_head(const BrokerPrincipal& who) noexcept
{
    aotx_request_head head;
    aotx_request_head_begin(&head, AOTX_OPERATION_TELEMETRY, who.id, who.grant_revision);
    return head;
}

// Asks what serves; it needs no grant.
inline aotx_request_head device_head() noexcept
{
    aotx_request_head head;
    aotx_request_head_begin(&head, AOTX_OPERATION_DEVICE, nullptr, 0);
    return head;
}

// What a submission says beside its messages.
struct SubmitOptions {
    uint32_t model_role = AOTX_MODEL_ROLE_LANGUAGE;
    uint32_t output_tokens_max = 0;  // > 0
    float temperature = 1.0f;        // 0..2
    float top_p = 1.0f;              // 0 < p <= 1
};

// id: the request's identity, random and not zero. payload_bytes from aotx_submit_end.
inline aotx_request_head submit_head(const BrokerPrincipal& who, uint64_t runtime_epoch,
                                     const uint8_t id[16], const SubmitOptions& options,
                                     uint32_t payload_bytes) noexcept
{
    aotx_request_head head;
    aotx_request_head_begin(&head, AOTX_OPERATION_SUBMIT, who.id, who.grant_revision);
    head.runtime_epoch = runtime_epoch;
    aotx_copy(head.id, id, sizeof head.id);
    head.model_role = options.model_role;
    head.count = options.output_tokens_max;
    head.temperature = options.temperature;
    head.top_p = options.top_p;
    head.payload_bytes = payload_bytes;
    return head;
}

// Asks for a request's state and its output from byte cursor on.
inline aotx_request_head read_head(const BrokerPrincipal& who, uint64_t runtime_epoch,
                                   const uint8_t id[16], uint64_t cursor) noexcept
{
    aotx_request_head head;
    aotx_request_head_begin(&head, AOTX_OPERATION_READ, who.id, who.grant_revision);
    head.runtime_epoch = runtime_epoch;
    aotx_copy(head.id, id, sizeof head.id);
    head.cursor = cursor;
    return head;
}

// Cancels a request; again, or after its end, it changes nothing.
inline aotx_request_head cancel_head(const BrokerPrincipal& who, uint64_t runtime_epoch,
                                     const uint8_t id[16]) noexcept
{
    aotx_request_head head;
    aotx_request_head_begin(&head, AOTX_OPERATION_CANCEL, who.id, who.grant_revision);
    head.runtime_epoch = runtime_epoch;
    aotx_copy(head.id, id, sizeof head.id);
    return head;
}

// The payload is rows of aotx_watch_row, rows_count <= AOTX_WATCH_ROWS_MAX. watch_id: one for the
// life of a watching peer, random; a newer watch of the same ID answers the older one.
inline aotx_request_head watch_head(uint64_t runtime_epoch, const uint8_t watch_id[16],
                                    uint32_t rows_count) noexcept
{
    aotx_request_head head;
    aotx_request_head_begin(&head, AOTX_OPERATION_WATCH, nullptr, 0);
    head.runtime_epoch = runtime_epoch;
    aotx_copy(head.id, watch_id, sizeof head.id);
    head.count = rows_count;
    head.payload_bytes = rows_count * static_cast<uint32_t>(sizeof(aotx_watch_row));
    return head;
}

}  // namespace aotx

#endif
