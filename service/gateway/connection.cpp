// Purpose:  bytes in and out of a connection, and the course of a request on it; see server.h.
// Owns:     nothing of its own.
// Thread:   the gateway's.
// Lifetime: not applicable.
#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "routes.h"
#include "server.h"
#include "service/base/check.h"

namespace aotx {
namespace {

constexpr int kRequestsPerTurn = 32;  // of one pipelining peer before others have their turn
constexpr size_t kChunkedBytesFirst = 64 << 10;
constexpr size_t kDiscardsMax = 64;  // reads of thrown-away input a turn

long plain_read(int fd, char* bytes, size_t bytes_count)
{
    ssize_t got = -1;
    do {
        got = recv(fd, bytes, bytes_count, MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    if (got >= 0) {
        return got;
    }
    return errno == EAGAIN || errno == EWOULDBLOCK ? kIoAgain : kIoFailed;
}

long plain_write(int fd, const char* bytes, size_t bytes_count)
{
    ssize_t sent = -1;
    do {
        sent = send(fd, bytes, bytes_count, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    if (sent >= 0) {
        return sent;
    }
    return errno == EAGAIN || errno == EWOULDBLOCK ? kIoAgain : kIoFailed;
}

long io_write(Connection& connection, const char* bytes, size_t bytes_count)
{
    return connection.tls != nullptr ? tls_write(connection.tls, bytes, bytes_count)
                                     : plain_write(connection.fd, bytes, bytes_count);
}

// "application/json", with parameters that say nothing else than UTF-8.
bool is_json_type(std::string_view type)
{
    const size_t semicolon = type.find(';');
    std::string_view name = type.substr(0, semicolon);
    while (!name.empty() && name.back() == ' ') {
        name.remove_suffix(1);
    }
    if (!text_equal_fold(name, "application/json")) {
        return false;
    }
    if (semicolon == std::string_view::npos) {
        return true;
    }
    std::string_view parameter = type.substr(semicolon + 1);
    while (!parameter.empty() && parameter.front() == ' ') {
        parameter.remove_prefix(1);
    }
    return text_equal_fold(parameter, "charset=utf-8") ||
           text_equal_fold(parameter, "charset=\"utf-8\"");
}

bool is_media_type(std::string_view type)
{
    return text_equal_fold(type, "image/jpeg") || text_equal_fold(type, "audio/wav");
}

}  // namespace

void Server::connection_event(Connection& connection, uint32_t events) noexcept
{
    if ((events & (EPOLLERR | EPOLLHUP)) != 0) {
        connection.broken = true;  // nobody reads any more; the device's work goes on
        settle(connection);
        return;
    }
    // Under TLS either readiness may be what a read or a write waits for.
    const bool any = connection.tls != nullptr;
    connection.hung = connection.hung || (events & EPOLLRDHUP) != 0;
    if ((events & (EPOLLIN | EPOLLRDHUP)) != 0 || any) {
        connection.readable = true;
    }
    if (connection.out != nullptr && ((events & EPOLLOUT) != 0 || any)) {
        send_backlog(connection);
    }
    step(connection);
}

void Server::step(Connection& connection) noexcept
{
    const uint64_t before = counters_.requests;
    while (step_once(connection)) {
        if (counters_.requests - before >= kRequestsPerTurn) {
            if (!connection.listed) {
                connection.listed = true;
                again_.push_back(&connection);
            }
            break;
        }
    }
    settle(connection);
}

bool Server::step_once(Connection& connection) noexcept
{
    if (connection.broken) {
        return false;
    }
    switch (connection.stage) {
        case Stage::Head:
            // A peer that does not read its answers gets no more of them.
            return connection.out == nullptr && head_step(connection);
        case Stage::Body:
            return body_step(connection);
        case Stage::Linger:
            return linger_step(connection);
        case Stage::Free:
        case Stage::Busy:
            break;
    }
    return false;
}

bool Server::head_step(Connection& connection) noexcept
{
    HttpHead head;
    HttpFault fault = HttpFault::None;
    const int parsed =
        http_head_parse(connection.in, connection.in_end, &connection.scan, &head, &fault);
    if (parsed == AOTX_OK) {
        head_take(connection, head);
        return true;
    }
    if (parsed == AOTX_ERR_SYNTAX) {
        counters_.requests++;
        connection.request = Request();
        connection.close_after = true;
        refuse(connection, refusal_of_fault(fault));
        return true;
    }
    if (connection.in_end == connection.in_capacity) {
        return input_grow(connection);
    }
    return input_fill(connection);
}

bool Server::input_grow(Connection& connection) noexcept
{
    AOTX_CHECK(connection.in == connection.inline_in);
    const size_t capacity = kHeadBytesMax + kInlineBytes;
    char* const grown = large_heads_ < kLargeHeadsMax
                            ? static_cast<char*>(std::malloc(capacity + kBodyPadding))
                            : nullptr;
    if (grown == nullptr) {
        connection.request = Request();
        connection.close_after = true;
        refuse(connection, refusal(Code::TransportLimit));
        return true;
    }
    std::memcpy(grown, connection.in, connection.in_end);
    connection.in = grown;
    connection.in_capacity = capacity;
    large_heads_++;
    return true;
}

long Server::io_read(Connection& connection, char* bytes, size_t bytes_count) noexcept
{
    if (!connection.readable) {
        return kIoAgain;
    }
    const long got = connection.tls != nullptr ? tls_read(connection.tls, bytes, bytes_count)
                                               : plain_read(connection.fd, bytes, bytes_count);
    if (got == kIoAgain) {
        connection.readable = false;
    } else if (got == kIoFailed) {
        connection.broken = true;
    } else if (got > 0 && static_cast<size_t>(got) < bytes_count && connection.tls == nullptr &&
               !connection.hung) {
        // Less than asked for: the socket is empty, and the next byte raises a new edge.
        connection.readable = false;
    }
    return got;
}

bool Server::input_fill(Connection& connection) noexcept
{
    const long got = io_read(connection, connection.in + connection.in_end,
                             connection.in_capacity - connection.in_end);
    if (got > 0) {
        if (connection.in_end == 0 && connection.stage == Stage::Head) {
            header_.arm(&connection.stage_deadline, now_ns_);
        }
        connection.in_end += static_cast<size_t>(got);
        return true;
    }
    if (got == 0 && connection.stage == Stage::Body) {
        connection.close_after = true;
        refuse(connection, refusal(Code::BodyLength, "The body ended early."));
        return true;
    }
    connection.broken = connection.broken || got == 0;
    return false;
}

void Server::input_drop(Connection& connection, size_t bytes_count) noexcept
{
    AOTX_CHECK(bytes_count <= connection.in_end);
    connection.in_end -= bytes_count;
    if (connection.in_end != 0) {
        std::memmove(connection.in, connection.in + bytes_count, connection.in_end);
    }
}

void Server::head_take(Connection& connection, const HttpHead& head) noexcept
{
    counters_.requests++;
    DeadlineQueue::disarm(&connection.stage_deadline);
    Request& request = connection.request;
    request = Request();
    request.head_only = head.method == HttpMethod::Head;
    request.version_1_0 = head.version_1_0;
    request.chunked = head.chunked;
    request.content_length = head.content_length;
    request.body_at = head.head_bytes;
    // A body that is here already can be stepped over, whatever becomes of the request.
    const size_t there = connection.in_end - head.head_bytes;
    request.body_complete = !head.chunked && head.content_length <= there;
    request.consumed =
        head.head_bytes + (request.body_complete ? static_cast<size_t>(head.content_length) : 0);
    connection.close_after = head.close || head.version_1_0;

    const Target target = target_find(head.method, head.path);
    if (!head_permitted(connection, head, target) || !target_take(connection, head, target) ||
        !framing_take(connection, head)) {
        return;
    }
    if (route_body(target.route) != BodyKind::None) {
        body_begin(connection);
        return;
    }
    connection.stage = Stage::Busy;
    Routes::dispatch(*this, connection, {});
}

// Host, Origin, route, method and credential, in this order. False: it is refused.
bool Server::head_permitted(Connection& connection, const HttpHead& head,
                            const Target& target) noexcept
{
    if (!host_permitted(host_rule_, head.host)) {
        refuse(connection, refusal(Code::HostForbidden));
        return false;
    }
    if (head.repeated) {
        refuse(connection, refusal(Code::HttpSyntax, "A header stands twice that may not."));
        return false;
    }
    if (head.has_origin && !origin_permitted(host_rule_, head.origin)) {
        refuse(connection, refusal(Code::OriginForbidden));
        return false;
    }
    if (target.route == Route::None) {
        headers_.clear();
        if (target.method_wrong) {
            headers_.append("Allow: ");
            headers_.append(target.allow);
            headers_.append("\r\n");
        }
        refuse(connection, refusal(target.method_wrong ? Code::Method : Code::RouteNotFound));
        return false;
    }
    connection.request.route = target.route;
    if (route_is_open(target.route)) {
        return true;
    }
    connection.request.principal = access_.authenticate(head.authorization);
    if (connection.request.principal == nullptr) {
        counters_.unauthorised++;
        refuse(connection, refusal(Code::InvalidApiKey));
        return false;
    }
    return true;
}

// The handle, the query and the resume header. False: it is refused.
bool Server::target_take(Connection& connection, const HttpHead& head,
                         const Target& target) noexcept
{
    Request& request = connection.request;
    if (!Routes::handle_take(request, target)) {
        refuse(connection, refusal_of_device(AOTX_STATUS_NOT_FOUND));
        return false;
    }
    if (query_read(target.route, head, &request.has_cursor, &request.cursor) != AOTX_OK) {
        refuse(connection,
               refusal(Code::InvalidField, "The query is not valid for this route.", "cursor"));
        return false;
    }
    if (!head.has_last_event_id || target.route != Route::RequestEvents) {
        return true;
    }
    const Refusal invalid =
        refusal(Code::InvalidField, "Not an event of this request, or given beside a cursor.",
                "Last-Event-ID");
    if (request.has_cursor || !Routes::last_event_take(request, head.last_event_id)) {
        refuse(connection, invalid);
        return false;
    }
    return true;
}

// Whether the body is one that this route can take. False: it is refused.
bool Server::framing_take(Connection& connection, const HttpHead& head) noexcept
{
    if (head.has_expect) {
        connection.close_after = true;  // whether the body follows is the peer's secret
        refuse(connection, refusal(Code::Expectation));
        return false;
    }
    const BodyKind kind = route_body(connection.request.route);
    if (kind == BodyKind::None) {
        if (head.chunked || head.content_length != 0) {
            refuse(connection, refusal(Code::BodyLength, "This route takes no body."));
            return false;
        }
        return true;
    }
    if (head.content_encoding.data() != nullptr &&
        !text_equal_fold(head.content_encoding, "identity")) {
        refuse(connection, refusal(Code::ContentEncoding));
        return false;
    }
    if (kind == BodyKind::Json && !is_json_type(head.content_type)) {
        refuse(connection, refusal(Code::ContentType));
        return false;
    }
    if (kind == BodyKind::Media && !is_media_type(head.content_type)) {
        refuse(connection, refusal(Code::MediaType));
        return false;
    }
    if (!head.chunked && head.content_length == 0) {
        refuse(connection, refusal(Code::BodyLength, "A body is required."));
        return false;
    }
    if (head.content_length > body_limit(connection)) {
        refuse(connection, refusal(Code::BodyLimit));
        return false;
    }
    connection.request.media_wav = text_equal_fold(head.content_type, "audio/wav");
    return true;
}

size_t Server::body_limit(const Connection& connection) const noexcept
{
    return route_body(connection.request.route) == BodyKind::Media ? config_.gateway.upload_bytes
                                                                   : config_.gateway.json_bytes;
}

void Server::body_begin(Connection& connection) noexcept
{
    Request& request = connection.request;
    connection.stage = Stage::Body;
    if (request.body_complete) {
        return;  // body_step finds it
    }
    body_.arm(&connection.stage_deadline, now_ns_);
    const size_t length = static_cast<size_t>(request.content_length);
    if (!request.chunked && request.body_at + length <= connection.in_capacity) {
        request.consumed = request.body_at + length;
        return;
    }
    if (body_readers_ >= config_.gateway.body_readers) {
        refuse(connection, refusal(Code::TransportLimit));
        return;
    }
    body_readers_++;
    connection.reads_body = true;
    const size_t first = std::min(kChunkedBytesFirst, body_limit(connection));
    if (!body_reserve(connection, request.chunked ? first : length)) {
        return;
    }
    input_drop(connection, request.body_at);
    request.body_at = 0;
    request.consumed = 0;
    if (!request.chunked) {
        AOTX_CHECK(connection.in_end < length);
        std::memcpy(connection.body.data, connection.in, connection.in_end);
        connection.body.used = connection.in_end;
        connection.in_end = 0;
    }
}

// Make room for capacity bytes of body. False: it is refused.
bool Server::body_reserve(Connection& connection, size_t capacity) noexcept
{
    Body& body = connection.body;
    AOTX_CHECK(capacity > body.capacity);
    const size_t more = capacity - body.capacity;
    char* const grown = body_credit_used_ + more <= config_.gateway.body_credit_bytes
                            ? static_cast<char*>(std::realloc(body.data, capacity + kBodyPadding))
                            : nullptr;
    if (grown == nullptr) {
        connection.close_after = true;
        refuse(connection, refusal(Code::TransportLimit));
        return false;
    }
    body.data = grown;
    body.capacity = capacity;
    body_credit_used_ += more;
    return true;
}

void Server::body_release(Connection& connection) noexcept
{
    if (connection.reads_body) {
        connection.reads_body = false;
        body_readers_--;
    }
    if (connection.body.data != nullptr) {
        std::free(connection.body.data);
        body_credit_used_ -= connection.body.capacity;
    }
    connection.body = Body();
}

bool Server::body_step(Connection& connection) noexcept
{
    const Request& request = connection.request;
    if (connection.body.data == nullptr) {
        if (connection.in_end >= request.consumed) {
            const size_t length = static_cast<size_t>(request.content_length);
            body_complete(connection, {connection.in + request.body_at, length});
            return true;
        }
        return input_fill(connection);
    }
    if (request.chunked) {
        return body_chunks(connection);
    }
    if (connection.body.used == request.content_length) {
        body_complete(connection, {connection.body.data, connection.body.used});
        return true;
    }
    return body_fill(connection);
}

bool Server::body_fill(Connection& connection) noexcept
{
    Body& body = connection.body;
    const size_t left = static_cast<size_t>(connection.request.content_length) - body.used;
    const long got = io_read(connection, body.data + body.used, left);
    if (got > 0) {
        body.used += static_cast<size_t>(got);
        return true;
    }
    if (got == 0) {
        connection.close_after = true;
        refuse(connection, refusal(Code::BodyLength, "The body ended early."));
        return true;
    }
    return false;
}

bool Server::body_chunks(Connection& connection) noexcept
{
    Body& body = connection.body;
    size_t consumed = 0;
    size_t produced = 0;
    const int result =
        chunk_decode(&body.chunks, connection.in, connection.in_end, body.data + body.used,
                     body.capacity - body.used, &consumed, &produced);
    body.used += produced;
    input_drop(connection, consumed);
    if (result == AOTX_OK) {
        body_complete(connection, {body.data, body.used});
        return true;
    }
    if (result == AOTX_ERR_SYNTAX) {
        connection.close_after = true;
        refuse(connection, refusal(Code::HttpSyntax, "The chunked body is not well-formed.",
                                   "Transfer-Encoding"));
        return true;
    }
    if (result == AOTX_ERR_FULL) {
        const size_t limit = body_limit(connection);
        if (body.capacity >= limit) {
            connection.close_after = true;
            refuse(connection, refusal(Code::BodyLimit));
            return true;
        }
        static_cast<void>(body_reserve(connection, std::min(limit, body.capacity * 2)));
        return true;
    }
    return input_fill(connection);
}

void Server::body_complete(Connection& connection, std::string_view body) noexcept
{
    DeadlineQueue::disarm(&connection.stage_deadline);
    if (connection.reads_body) {
        connection.reads_body = false;
        body_readers_--;
    }
    connection.request.body_complete = true;
    connection.stage = Stage::Busy;
    Routes::dispatch(*this, connection, body);
}

void Server::request_end(Connection& connection) noexcept
{
    AOTX_CHECK(connection.operation.state == WireOperation::State::Idle);
    DeadlineQueue::disarm(&connection.operation_deadline);
    DeadlineQueue::disarm(&connection.stage_deadline);
    body_release(connection);
    Routes::submission_release(connection);
    if (connection.work != nullptr) {
        works_.release(connection.work);
        connection.work = nullptr;
    }
    if (connection.close_after || !connection.request.body_complete || stopping_) {
        linger(connection);
        return;
    }
    input_drop(connection, connection.request.consumed);
    connection.request = Request();
    connection.scan = HttpScan();
    connection.stage = Stage::Head;
    if (connection.in != connection.inline_in && connection.in_end <= kInlineBytes) {
        std::memcpy(connection.inline_in, connection.in, connection.in_end);
        std::free(connection.in);
        connection.in = connection.inline_in;
        connection.in_capacity = kInlineBytes;
        large_heads_--;
    }
    (connection.in_end != 0 ? header_ : idle_).arm(&connection.stage_deadline, now_ns_);
}

// Everything is answered and the connection is to close. Closing with unread input would reset it
// and might take the answer along, so the peer's input is thrown away until it closes too.
void Server::linger(Connection& connection) noexcept
{
    connection.stage = Stage::Linger;
    connection.in_end = 0;
    lingers_.arm(&connection.stage_deadline, now_ns_);
    if (connection.out == nullptr && !connection.broken) {
        if (connection.tls != nullptr) {
            tls_end(connection.tls);
        }
        shutdown(connection.fd, SHUT_WR);
    }
}

bool Server::linger_step(Connection& connection) noexcept
{
    for (size_t i = 0; i < kDiscardsMax; i++) {
        const long got = plain_read(connection.fd, scratch_, sizeof scratch_);
        if (got == kIoAgain) {
            connection.readable = false;
            return false;
        }
        if (got <= 0) {
            // The peer may have closed one way only and still read what is left to send.
            connection.broken = got == kIoFailed || connection.out == nullptr;
            return false;
        }
    }
    if (!connection.listed) {
        connection.listed = true;
        again_.push_back(&connection);
    }
    return false;
}

void Server::send_bytes(Connection& connection, const char* bytes, size_t bytes_count) noexcept
{
    size_t sent = 0;
    while (connection.out == nullptr && !connection.broken && sent < bytes_count) {
        const long wrote = io_write(connection, bytes + sent, bytes_count - sent);
        if (wrote == kIoAgain) {
            break;
        }
        connection.broken = wrote == kIoFailed;
        sent += wrote > 0 ? static_cast<size_t>(wrote) : 0;
    }
    if (connection.broken || sent == bytes_count) {
        return;
    }
    const size_t left = bytes_count - sent;
    char* const grown =
        static_cast<char*>(std::realloc(connection.out, connection.out_size + left));
    if (grown == nullptr) {
        connection.broken = true;
        return;
    }
    if (connection.out == nullptr) {
        write_.arm(&connection.write_deadline, now_ns_);
    }
    std::memcpy(grown + connection.out_size, bytes + sent, left);
    connection.out = grown;
    connection.out_size += left;
}

void Server::send_backlog(Connection& connection) noexcept
{
    while (!connection.broken && connection.out_sent < connection.out_size) {
        const long wrote = io_write(connection, connection.out + connection.out_sent,
                                    connection.out_size - connection.out_sent);
        if (wrote == kIoAgain) {
            return;
        }
        connection.broken = wrote == kIoFailed;
        connection.out_sent += wrote > 0 ? static_cast<size_t>(wrote) : 0;
    }
    std::free(connection.out);
    connection.out = nullptr;
    connection.out_size = 0;
    connection.out_sent = 0;
    DeadlineQueue::disarm(&connection.write_deadline);
    if (connection.stage == Stage::Linger) {
        linger(connection);
    } else if (connection.work != nullptr) {
        watch_->touch();  // the reader has room again
    }
}

void Server::settle(Connection& connection) noexcept
{
    if (connection.stage != Stage::Free && connection.broken) {
        close(connection);
    }
}

void Server::close(Connection& connection) noexcept
{
    AOTX_CHECK(connection.stage != Stage::Free);
    for (DeadlineNode* node :
         {&connection.stage_deadline, &connection.write_deadline, &connection.operation_deadline}) {
        DeadlineQueue::disarm(node);
    }
    wires_.forget(&connection.operation);
    body_release(connection);
    Routes::submission_release(connection);
    if (connection.work != nullptr) {
        works_.release(connection.work);
        connection.work = nullptr;
    }
    if (connection.tls != nullptr) {
        tls_free(connection.tls);
        connection.tls = nullptr;
    }
    ::close(connection.fd);
    connection.fd = -1;
    std::free(connection.out);
    connection.out = nullptr;
    connection.out_size = 0;
    connection.out_sent = 0;
    if (connection.in != connection.inline_in) {
        std::free(connection.in);
        connection.in = connection.inline_in;
        connection.in_capacity = kInlineBytes;
        large_heads_--;
    }
    connection.in_end = 0;
    connection.scan = HttpScan();
    connection.request = Request();
    connection.stage = Stage::Free;
    connection.readable = false;
    connection.hung = false;
    connection.broken = false;
    connection.close_after = false;
    connections_free_.push_back(connection.index);
}

void Server::expire(Connection& connection, const DeadlineQueue* queue) noexcept
{
    if (queue == &header_ || queue == &body_) {
        if (queue == &header_) {
            connection.request = Request();
        }
        connection.close_after = true;
        refuse(connection, refusal(queue == &header_ ? Code::HeaderTimeout : Code::BodyTimeout));
    } else if (queue == &operations_) {
        operation_expire(connection);
    } else if (queue == &probes_) {
        wires_.abandon(&connection.operation);
        Routes::probe_expire(*this, connection);
    } else {
        connection.broken = true;  // idle, lingering, or not reading its answer
    }
    step(connection);
}

void Server::operation_expire(Connection& connection) noexcept
{
    const WireOperation& operation = connection.operation;
    if (operation.state == WireOperation::State::Flying &&
        operation.head.operation == AOTX_OPERATION_SUBMIT) {
        // It may have been admitted, so its handle is told.
        connection.request.submitted = true;
        connection.request.epoch = operation.head.runtime_epoch;
    }
    wires_.abandon(&connection.operation);
    const Refusal why = refusal(Code::ResponseTimeout);
    if (connection.request.streaming) {
        Routes::stream_fail(*this, connection, why);
    } else {
        refuse(connection, why);
    }
}

}  // namespace aotx
