// Purpose:  parse the head of an HTTP/1.1 request, strictly, from a buffer that may not hold it all
// yet.
// Owns:     nothing; every view of an HttpHead points into the caller's buffer.
// Thread:   any.
// Lifetime: an HttpHead lives as long as the bytes that it was parsed from.
//
// Strict means: CRLF line ends only, no folding, no blank before a colon, no control bytes, one
// Host, one length. What two parsers could read in two ways is refused, as that is what request
// smuggling lives on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "aotx/status.h"

namespace aotx {

constexpr size_t kHeadBytesMax = 16384;   // request line and headers together; over it 431
constexpr size_t kRequestLineMax = 8192;  // without its CRLF; over it 414
constexpr size_t kHeaderLinesMax = 64;    // over it 431

enum class HttpMethod : uint8_t { Get, Head, Post, Delete, Other };

// Why a head is refused. The refusal table gives each its status and code.
enum class HttpFault : uint8_t {
    None,
    Syntax,           // a byte where the grammar has no such byte
    Version,          // neither HTTP/1.1 nor HTTP/1.0
    TargetLimit,      // the request line is too long
    HeaderLimit,      // the head is too long or has too many lines
    Host,             // no Host, or more than one
    Length,           // Content-Length twice, not a number, or beside Transfer-Encoding
    TransferEncoding  // a transfer coding other than "chunked", or chunked in HTTP/1.0
};

struct HttpHead {
    HttpMethod method = HttpMethod::Other;
    bool version_1_0 = false;
    bool close = false;  // the peer wants the connection closed after the answer
    bool chunked = false;
    bool has_length = false;
    bool has_expect = false;
    bool has_origin = false;
    bool has_last_event_id = false;
    bool repeated = false;  // a header that may stand once stood twice (not Host or a length)
    uint64_t content_length = 0;
    std::string_view path;
    std::string_view query;  // after "?", empty when there is none
    bool has_query = false;
    std::string_view host;
    std::string_view authorization;
    std::string_view content_type;
    std::string_view content_encoding;
    std::string_view origin;
    std::string_view last_event_id;
    size_t head_bytes = 0;  // where the body starts
};

// Where the search for the end of a head stands, so that a slow trickle is never scanned twice.
struct HttpScan {
    size_t at = 0;          // bytes looked at
    size_t line_start = 0;  // of the line that holds at
    uint32_t lines = 0;     // complete lines so far
};

// Look for the end of a head and, once it is there, parse it.
//
// bytes   in      char [bytes_count], from the first byte of the request
// scan    in/out  zeroed before the first call for a request; kept between calls
// head    out     written only on AOTX_OK
// fault   out     written only on AOTX_ERR_SYNTAX
//
// AOTX_OK             the head is complete; the body starts at head->head_bytes.
// AOTX_ERR_NEED_MORE  so far so good, the end has not arrived.
// AOTX_ERR_SYNTAX     refused; nothing that follows can be trusted, so the connection must close.
[[nodiscard]] int http_head_parse(const char* bytes, size_t bytes_count, HttpScan* scan,
                                  HttpHead* head, HttpFault* fault) noexcept;

// Whether two texts are equal when ASCII letters match in both cases.
[[nodiscard]] bool text_equal_fold(std::string_view left, std::string_view right) noexcept;

}  // namespace aotx
