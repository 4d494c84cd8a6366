// Purpose:  the gateway's connections to the broker; see wire.h.
// Owns:     nothing of its own.
// Thread:   the gateway's.
// Lifetime: not applicable.
#include "wire.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

#include <algorithm>
#include <cstring>

#include "service/base/check.h"
#include "service/base/clock.h"
#include "service/base/log.h"

namespace aotx {
namespace {

constexpr uint64_t kBackoffNsMin = 10 * kMillisecondNs;
constexpr uint64_t kBackoffNsMax = kSecondNs;

// Whether a reply is the answer to this request: everything that the contract echoes.
bool reply_matches(const aotx_request_head& sent, const aotx_reply_head& reply)
{
    return reply.magic == AOTX_MAGIC &&
           std::memcmp(reply.principal, sent.principal, sizeof sent.principal) == 0 &&
           reply.grant_revision == sent.grant_revision &&
           std::memcmp(reply.id, sent.id, sizeof sent.id) == 0;
}

bool is_zero(const uint8_t* bytes, size_t bytes_count)
{
    uint8_t any = 0;
    for (size_t i = 0; i < bytes_count; i++) {
        any = static_cast<uint8_t>(any | bytes[i]);
    }
    return any == 0;
}

// Judge a packet of the broker. AOTX_OK fills *reply.
int reply_read(const aotx_request_head& sent, const uint8_t* frame, size_t frame_bytes,
               Reply* reply)
{
    aotx_reply_head head;
    if (frame_bytes < sizeof head) {
        return AOTX_ERR_STATE;
    }
    std::memcpy(&head, frame, sizeof head);
    if (!reply_matches(sent, head) || head.payload_bytes != frame_bytes - sizeof head ||
        !is_zero(head.zero_104, sizeof head.zero_104)) {
        return AOTX_ERR_STATE;
    }
    reply->result = AOTX_OK;
    reply->head = head;
    reply->payload = frame + sizeof head;
    reply->payload_bytes = head.payload_bytes;
    return AOTX_OK;
}

}  // namespace

Wires::~Wires()
{
    while (first_ != nullptr) {
        forget(first_);
    }
}

void Wires::open(int epoll_fd, uint64_t tag_base, const std::string& path, size_t wires_count,
                 const Hooks& hooks, uint64_t now_ns) noexcept
{
    AOTX_CHECK(wires_.empty());
    AOTX_CHECK(wires_count > kWatchWires);
    epoll_fd_ = epoll_fd;
    tag_base_ = tag_base;
    path_ = path;
    hooks_ = hooks;
    wires_ = std::vector<Wire>(wires_count);
    missing_ = wires_count;
    retry_ns_ = now_ns;
    backoff_ns_ = kBackoffNsMin;
    reconnect(now_ns);
}

bool Wires::connect_one(size_t index) noexcept
{
    Wire& wire = wires_[index];
    AOTX_CHECK(!wire.fd.valid());
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    AOTX_CHECK(path_.size() < sizeof address.sun_path);
    std::memcpy(address.sun_path, path_.data(), path_.size());
    Fd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!fd.valid() ||
        connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        return false;
    }
    epoll_event event = {};
    event.events = EPOLLIN | EPOLLRDHUP;
    event.data.u64 = tag_base_ + index;
    if (epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd.get(), &event) != 0) {
        return false;
    }
    wire.fd = static_cast<Fd&&>(fd);
    wire.proved = false;
    wire.flying = false;
    wire.operation = nullptr;
    missing_--;
    operation_wires_open_ += index >= kWatchWires ? 1 : 0;
    return true;
}

uint64_t Wires::reconnect(uint64_t now_ns) noexcept
{
    if (missing_ == 0) {
        return 0;
    }
    if (now_ns < retry_ns_) {
        return retry_ns_;
    }
    for (size_t i = 0; i < wires_.size(); i++) {
        if (!wires_[i].fd.valid() && !connect_one(i)) {
            break;  // nobody listens, so the others would fail alike
        }
    }
    // Only a reply sets this back: a broker that takes connections and drops them is no peer yet.
    backoff_ns_ = std::min(backoff_ns_ * 2, kBackoffNsMax);
    if (missing_ == 0) {
        log_line(LogLevel::Info, "connected to the device, %zu connections", wires_.size());
        return 0;
    }
    retry_ns_ = now_ns + backoff_ns_;
    return retry_ns_;
}

void Wires::start(WireOperation* operation) noexcept
{
    AOTX_CHECK(operation->state == WireOperation::State::Idle);
    AOTX_CHECK(operation->done != nullptr);
    AOTX_CHECK(connected());
    operation->state = WireOperation::State::Waiting;
    operation->before = last_;
    operation->after = nullptr;
    (last_ != nullptr ? last_->after : first_) = operation;
    last_ = operation;
    waiting_count_++;
}

void Wires::unlink(WireOperation* operation) noexcept
{
    (operation->before != nullptr ? operation->before->after : first_) = operation->after;
    (operation->after != nullptr ? operation->after->before : last_) = operation->before;
    operation->before = nullptr;
    operation->after = nullptr;
    waiting_count_--;
}

void Wires::forget(WireOperation* operation) noexcept
{
    if (operation->state == WireOperation::State::Waiting) {
        unlink(operation);
    } else if (operation->state == WireOperation::State::Flying) {
        wires_[operation->wire].operation = nullptr;
    }
    operation->state = WireOperation::State::Idle;
    operation->wire = kNoWire;
}

void Wires::abandon(WireOperation* operation) noexcept
{
    const size_t wire = operation->wire;
    const bool flying = operation->state == WireOperation::State::Flying;
    forget(operation);
    if (flying) {
        lose(wire, AOTX_ERR_CLOSED);
    }
}

bool Wires::send_operation(size_t index, WireOperation* operation) noexcept
{
    Wire& wire = wires_[index];
    iovec parts[2] = {{&operation->head, sizeof operation->head},
                      {const_cast<uint8_t*>(operation->payload), operation->head.payload_bytes}};
    msghdr message = {};
    message.msg_iov = parts;
    message.msg_iovlen = operation->head.payload_bytes != 0 ? 2 : 1;
    ssize_t sent = -1;
    do {
        sent = sendmsg(wire.fd.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (sent < 0 && errno == EINTR);
    if (sent < 0) {
        return false;
    }
    wire.sent = operation->head;
    wire.operation = operation;
    wire.flying = true;
    flying_count_++;
    operation->wire = index;
    operation->state = WireOperation::State::Flying;
    return true;
}

void Wires::flush() noexcept
{
    const size_t wires_count = wires_.size() - kWatchWires;
    size_t looked = 0;
    while (first_ != nullptr && looked < wires_count) {
        const size_t index = next_free_;
        if (!wires_[index].fd.valid() || wires_[index].flying) {
            next_free_ = next_free_ + 1 == wires_.size() ? kWatchWires : next_free_ + 1;
            looked++;
            continue;
        }
        looked = 0;
        WireOperation* const operation = first_;
        unlink(operation);
        if (!send_operation(index, operation)) {
            // It never left, so the caller can be told so at once.
            operation->state = WireOperation::State::Idle;
            operation->done(operation, Reply());
            lose(index, AOTX_ERR_CLOSED);
        }
    }
}

bool Wires::watch_send(size_t index, const void* packet, size_t packet_bytes) noexcept
{
    AOTX_CHECK(index < kWatchWires);
    Wire& wire = wires_[index];
    AOTX_CHECK(wire.fd.valid() && !wire.flying);
    std::memcpy(&wire.sent, packet, sizeof wire.sent);
    wire.flying = true;
    flying_count_++;
    ssize_t sent = -1;
    do {
        sent = send(wire.fd.get(), packet, packet_bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (sent < 0 && errno == EINTR);
    if (sent < 0) {
        lose(index, AOTX_ERR_CLOSED);
        return false;
    }
    return true;
}

void Wires::deliver(size_t index, const Reply& reply) noexcept
{
    Wire& wire = wires_[index];
    if (index < kWatchWires) {
        hooks_.watch_done(hooks_.server, index, reply);
        return;
    }
    WireOperation* const operation = wire.operation;
    wire.operation = nullptr;
    if (operation != nullptr) {
        operation->state = WireOperation::State::Idle;
        operation->wire = kNoWire;
        operation->done(operation, reply);
    }
}

void Wires::lose(size_t index, int result) noexcept
{
    Wire& wire = wires_[index];
    if (!wire.fd.valid()) {
        return;
    }
    wire.fd.reset();
    missing_++;
    operation_wires_open_ -= index >= kWatchWires ? 1 : 0;
    flying_count_ -= wire.flying ? 1 : 0;
    const bool flying = wire.flying;
    wire.flying = false;
    retry_ns_ = wire.proved ? clock_monotonic_ns() : retry_ns_;
    if (!wire.proved) {
        retry_ns_ = std::max(retry_ns_, clock_monotonic_ns() + backoff_ns_);
    }
    if (missing_ == 1) {
        log_line(LogLevel::Warning, "lost a connection to the device");
    }
    if (flying || index < kWatchWires) {
        Reply reply;
        reply.result = result;
        deliver(index, reply);
    }
    if (operation_wires_open_ == 0) {
        queue_fail();
    }
}

void Wires::queue_fail() noexcept
{
    while (first_ != nullptr) {
        WireOperation* const operation = first_;
        forget(operation);
        operation->done(operation, Reply());
    }
}

void Wires::on_event(size_t index) noexcept
{
    Wire& wire = wires_[index];
    if (!wire.fd.valid()) {
        return;
    }
    iovec part = {frame_, sizeof frame_};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    const ssize_t received = recvmsg(wire.fd.get(), &message, MSG_DONTWAIT);
    if (received < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (received <= 0) {
        lose(index, AOTX_ERR_CLOSED);
        return;
    }
    Reply reply;
    const bool cut = (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0;
    if (cut || !wire.flying ||
        reply_read(wire.sent, frame_, static_cast<size_t>(received), &reply) != AOTX_OK) {
        log_line(LogLevel::Error, "the device answered out of form; reconnecting");
        lose(index, AOTX_ERR_STATE);
        return;
    }
    wire.flying = false;
    wire.proved = true;
    backoff_ns_ = kBackoffNsMin;
    flying_count_--;
    next_free_ = index >= kWatchWires ? index : next_free_;
    deliver(index, reply);
}

}  // namespace aotx
