// Purpose:  what goes out: heads, bodies, refusals, and the frames of a stream; see server.h.
// Owns:     nothing of its own.
// Thread:   the gateway's.
// Lifetime: not applicable.
//
// An answer is built in one buffer with room in front for its head, so that both leave in one send
// and nothing is copied twice.
#include <cstdio>
#include <cstring>

#include "aotx/handle.h"
#include "routes.h"
#include "server.h"
#include "service/base/check.h"

namespace aotx {
namespace {

constexpr std::string_view kCommon =
    "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nVary: Origin\r\nDate: ";
constexpr std::string_view kEventStream = "text/event-stream";
constexpr size_t kChunkHeadBytesMax = 18;

// "1a2\r\n" right before what it counts. Returns where it starts.
char* chunk_head_write(char* end, size_t bytes_count)
{
    constexpr std::string_view digits = "0123456789abcdef";
    *--end = '\n';
    *--end = '\r';
    do {
        *--end = digits[bytes_count % 16];
        bytes_count /= 16;
    } while (bytes_count != 0);
    return end;
}

}  // namespace

Text& Server::answer_begin() noexcept
{
    answer_.clear();
    static_cast<void>(answer_.reserve(kAnswerHeadBytes));
    answer_.commit(kAnswerHeadBytes);
    return answer_;
}

// Everything of a head that does not depend on the length of the body.
void Server::head_write(const Connection& connection, uint32_t status,
                        std::string_view type) noexcept
{
    const Request& request = connection.request;
    head_.clear();
    if (status == AOTX_STATUS_OK) {
        head_.append("HTTP/1.1 200 OK\r\n");
    } else {
        head_.append("HTTP/1.1 ");
        head_.append_decimal(status);
        head_.append(' ');
        head_.append(status_reason(status));
        head_.append("\r\n");
    }
    head_.append(kCommon);
    head_.append(date_);
    if (!type.empty()) {
        head_.append("\r\nContent-Type: ");
        head_.append(type);
    }
    head_.append("\r\n");
    head_.append(headers_.view());
    headers_.clear();
    if (request.submitted) {
        head_.append("X-Request-ID: ");
        char* const handle = head_.reserve(AOTX_REQUEST_HANDLE_CHARACTERS);
        aotx_request_handle_format(request.epoch, request.id, handle);
        head_.commit(AOTX_REQUEST_HANDLE_CHARACTERS);
        head_.append("\r\n");
    }
    if (connection.close_after || stopping_) {
        head_.append("Connection: close\r\n");
    }
    counters_.answers[status / 100 < 6 ? status / 100 : 0]++;
}

// Send head_ and the last bytes_count bytes of answer_, which leave room for it.
void Server::answer_send(Connection& connection, size_t bytes_count) noexcept
{
    AOTX_CHECK(answer_.size() - bytes_count >= head_.size());
    char* const begin = answer_.writable() + (answer_.size() - bytes_count - head_.size());
    std::memcpy(begin, head_.data(), head_.size());
    send_bytes(connection, begin, head_.size() + bytes_count);
}

void Server::answer_end(Connection& connection, uint32_t status, std::string_view type) noexcept
{
    const size_t content_bytes = answer_.size() - kAnswerHeadBytes;
    // An unread body makes what follows it unreadable, so the connection ends with this answer.
    connection.close_after = connection.close_after || !connection.request.body_complete;
    head_write(connection, status, type);
    head_.append("Content-Length: ");
    head_.append_decimal(content_bytes);
    head_.append("\r\n\r\n");
    if (connection.request.head_only) {
        send_bytes(connection, head_.data(), head_.size());
    } else {
        answer_send(connection, content_bytes);
    }
    answer_.trim(kAnswerBytesKept);
    request_end(connection);
}

void Server::answer_empty(Connection& connection, uint32_t status) noexcept
{
    head_write(connection, status, {});
    head_.append("\r\n");
    send_bytes(connection, head_.data(), head_.size());
    request_end(connection);
}

void Server::refuse(Connection& connection, const Refusal& why) noexcept
{
    AOTX_CHECK(!connection.request.streaming);
    if (why.status == 401) {
        headers_.append("WWW-Authenticate: Bearer\r\n");
    } else if (why.status == 429 || why.status == 503) {
        headers_.append("Retry-After: 1\r\n");
    }
    refusal_write(why, &answer_begin());
    answer_end(connection, why.status);
}

// The next stream_end carries the head of a stream of events.
void Server::stream_begin(Connection& connection) noexcept
{
    connection.request.stream_head_due = true;
    connection.request.streaming = true;
}

// Send what answer_ holds as the next frame of the stream; last: it is the last one.
void Server::stream_end(Connection& connection, bool last) noexcept
{
    Request& request = connection.request;
    const size_t content_bytes = answer_.size() - kAnswerHeadBytes;
    size_t bytes_count = content_bytes;
    connection.close_after = connection.close_after || (last && stopping_);
    if (!request.version_1_0) {
        if (content_bytes != 0) {
            char* const content = answer_.writable() + kAnswerHeadBytes;
            bytes_count += static_cast<size_t>(content - chunk_head_write(content, content_bytes));
            answer_.append("\r\n");
            bytes_count += 2;
        }
        if (last) {
            answer_.append("0\r\n\r\n");
            bytes_count += 5;
        }
    }
    if (request.stream_head_due) {
        request.stream_head_due = false;
        headers_.append("X-Accel-Buffering: no\r\n");
        head_write(connection, AOTX_STATUS_OK, kEventStream);
        head_.append(request.version_1_0 ? std::string_view("\r\n")
                                         : std::string_view("Transfer-Encoding: chunked\r\n\r\n"));
    } else {
        head_.clear();
    }
    static_assert(kChunkHeadBytesMax < kAnswerHeadBytes, "a chunk's head fits in front");
    if (head_.size() + bytes_count != 0) {
        answer_send(connection, bytes_count);
    }
    answer_.trim(kAnswerBytesKept);
    if (last) {
        request_end(connection);
    }
}

}  // namespace aotx
