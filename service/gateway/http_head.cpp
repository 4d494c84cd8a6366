// Purpose:  parse the head of an HTTP/1.1 request; see http_head.h.
// Owns:     nothing.
// Thread:   any.
// Lifetime: not applicable.
#include "http_head.h"

#include <array>
#include <cstring>

#include "service/base/check.h"

namespace aotx {
namespace {

constexpr uint8_t kToken = 1;   // may stand in a method or a header name
constexpr uint8_t kValue = 2;   // may stand in a header value, blanks included
constexpr uint8_t kTarget = 4;  // may stand in a request target

constexpr bool is_token_byte(unsigned byte)
{
    constexpr std::string_view others = "!#$%&'*+-.^_`|~";
    if ((byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') ||
        (byte >= 'a' && byte <= 'z')) {
        return true;
    }
    for (const char other : others) {
        if (byte == static_cast<unsigned char>(other)) {
            return true;
        }
    }
    return false;
}

constexpr std::array<uint8_t, 256> make_classes()
{
    std::array<uint8_t, 256> classes = {};
    for (unsigned byte = 0; byte < 256; byte++) {
        uint8_t kind = 0;
        if (is_token_byte(byte)) {
            kind |= kToken;
        }
        if (byte == '\t' || (byte >= 0x20 && byte != 0x7f)) {
            kind |= kValue;
        }
        if (byte > 0x20 && byte < 0x7f && byte != '#') {
            kind |= kTarget;
        }
        classes[byte] = kind;
    }
    return classes;
}

constexpr std::array<uint8_t, 256> kClasses = make_classes();

bool has_class(char byte, uint8_t kind)
{
    return (kClasses[static_cast<unsigned char>(byte)] & kind) != 0;
}

char lower(char byte)
{
    return byte >= 'A' && byte <= 'Z' ? static_cast<char>(byte + ('a' - 'A')) : byte;
}

std::string_view trim(std::string_view text)
{
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) {
        text.remove_prefix(1);
    }
    while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) {
        text.remove_suffix(1);
    }
    return text;
}

HttpMethod method_of(std::string_view name)
{
    if (name == "GET") {
        return HttpMethod::Get;
    }
    if (name == "POST") {
        return HttpMethod::Post;
    }
    if (name == "DELETE") {
        return HttpMethod::Delete;
    }
    return name == "HEAD" ? HttpMethod::Head : HttpMethod::Other;
}

// method SP origin-form SP HTTP-version, without the CRLF.
HttpFault request_line_parse(std::string_view line, HttpHead* head)
{
    size_t at = 0;
    while (at < line.size() && has_class(line[at], kToken)) {
        at++;
    }
    if (at == 0 || at == line.size() || line[at] != ' ') {
        return HttpFault::Syntax;
    }
    head->method = method_of(line.substr(0, at));
    const size_t target_at = ++at;
    while (at < line.size() && has_class(line[at], kTarget)) {
        at++;
    }
    const std::string_view target = line.substr(target_at, at - target_at);
    if (target.empty() || target.front() != '/' || at == line.size() || line[at] != ' ') {
        return HttpFault::Syntax;
    }
    const std::string_view version = line.substr(at + 1);
    head->version_1_0 = version == "HTTP/1.0";
    if (version != "HTTP/1.1" && !head->version_1_0) {
        return version.substr(0, 5) == "HTTP/" && version.size() == 8 ? HttpFault::Version
                                                                      : HttpFault::Syntax;
    }
    const size_t mark = target.find('?');
    head->path = target.substr(0, mark);
    head->has_query = mark != std::string_view::npos;
    head->query = head->has_query ? target.substr(mark + 1) : std::string_view();
    return HttpFault::None;
}

// Content-Length = 1*DIGIT; at most 18 digits, so that no sum can overflow.
bool length_parse(std::string_view value, uint64_t* length)
{
    if (value.empty() || value.size() > 18) {
        return false;
    }
    uint64_t sum = 0;
    for (const char digit : value) {
        if (digit < '0' || digit > '9') {
            return false;
        }
        sum = sum * 10 + static_cast<uint64_t>(digit - '0');
    }
    *length = sum;
    return true;
}

// Connection = comma list of tokens; only "close" and "keep-alive" mean something here.
void connection_parse(std::string_view value, bool* close, bool* keep_alive)
{
    while (!value.empty()) {
        const size_t comma = value.find(',');
        const std::string_view token = trim(value.substr(0, comma));
        *close = *close || text_equal_fold(token, "close");
        *keep_alive = *keep_alive || text_equal_fold(token, "keep-alive");
        value = comma == std::string_view::npos ? std::string_view() : value.substr(comma + 1);
    }
}

struct HeaderState {
    bool has_host = false;
    bool has_transfer_encoding = false;
    bool keep_alive = false;
};

void take_once(std::string_view value, std::string_view* slot, bool* repeated)
{
    if (slot->data() != nullptr) {
        *repeated = true;
    }
    *slot = value;
}

HttpFault framing_header_take(std::string_view name, std::string_view value, HttpHead* head,
                              HeaderState* state)
{
    if (text_equal_fold(name, "host")) {
        if (state->has_host) {
            return HttpFault::Host;
        }
        state->has_host = true;
        head->host = value;
    } else if (text_equal_fold(name, "content-length")) {
        if (head->has_length || !length_parse(value, &head->content_length)) {
            return HttpFault::Length;
        }
        head->has_length = true;
    } else if (text_equal_fold(name, "transfer-encoding")) {
        if (state->has_transfer_encoding || !text_equal_fold(value, "chunked")) {
            return HttpFault::TransferEncoding;
        }
        state->has_transfer_encoding = true;
        head->chunked = true;
    }
    return HttpFault::None;
}

void plain_header_take(std::string_view name, std::string_view value, HttpHead* head,
                       HeaderState* state)
{
    if (text_equal_fold(name, "authorization")) {
        take_once(value, &head->authorization, &head->repeated);
    } else if (text_equal_fold(name, "content-type")) {
        take_once(value, &head->content_type, &head->repeated);
    } else if (text_equal_fold(name, "content-encoding")) {
        take_once(value, &head->content_encoding, &head->repeated);
    } else if (text_equal_fold(name, "connection")) {
        connection_parse(value, &head->close, &state->keep_alive);
    } else if (text_equal_fold(name, "expect")) {
        head->has_expect = true;
    } else if (text_equal_fold(name, "origin")) {
        head->has_origin = true;
        take_once(value, &head->origin, &head->repeated);
    } else if (text_equal_fold(name, "last-event-id")) {
        head->has_last_event_id = true;
        take_once(value, &head->last_event_id, &head->repeated);
    }
}

// name ":" OWS value OWS, without the CRLF.
HttpFault header_parse(std::string_view line, HttpHead* head, HeaderState* state)
{
    size_t at = 0;
    while (at < line.size() && has_class(line[at], kToken)) {
        at++;
    }
    if (at == 0 || at == line.size() || line[at] != ':') {
        return HttpFault::Syntax;  // folding and a blank before the colon end here
    }
    const std::string_view name = line.substr(0, at);
    for (const char byte : line.substr(at + 1)) {
        if (!has_class(byte, kValue)) {
            return HttpFault::Syntax;
        }
    }
    const std::string_view value = trim(line.substr(at + 1));
    const HttpFault fault = framing_header_take(name, value, head, state);
    if (fault == HttpFault::None) {
        plain_header_take(name, value, head, state);
    }
    return fault;
}

HttpFault head_parse(std::string_view text, HttpHead* head)
{
    size_t end = text.find("\r\n");
    AOTX_CHECK(end != std::string_view::npos);
    HttpFault fault = request_line_parse(text.substr(0, end), head);
    HeaderState state;
    size_t at = end + 2;
    while (fault == HttpFault::None && at + 2 < text.size()) {
        end = text.find("\r\n", at);
        AOTX_CHECK(end != std::string_view::npos);
        fault = header_parse(text.substr(at, end - at), head, &state);
        at = end + 2;
    }
    if (fault != HttpFault::None) {
        return fault;
    }
    if (!state.has_host) {
        return HttpFault::Host;
    }
    if (head->chunked && head->version_1_0) {
        return HttpFault::TransferEncoding;
    }
    if (head->chunked && head->has_length) {
        return HttpFault::Length;
    }
    head->close = head->close || (head->version_1_0 && !state.keep_alive);
    return HttpFault::None;
}

// Judge one more line end at scan->at - 1. Returns a fault, or None with *done when it was the
// empty line.
HttpFault line_end_take(const char* bytes, HttpScan* scan, bool* done)
{
    const size_t line_bytes = scan->at - scan->line_start;  // with its line feed
    if (line_bytes < 2 || bytes[scan->at - 2] != '\r') {
        return HttpFault::Syntax;
    }
    if (line_bytes == 2) {
        *done = scan->lines != 0;
        return *done ? HttpFault::None : HttpFault::Syntax;
    }
    if (scan->lines == 0 && line_bytes - 2 > kRequestLineMax) {
        return HttpFault::TargetLimit;
    }
    scan->lines++;
    scan->line_start = scan->at;
    return scan->lines > kHeaderLinesMax + 1 ? HttpFault::HeaderLimit : HttpFault::None;
}

}  // namespace

bool text_equal_fold(std::string_view left, std::string_view right) noexcept
{
    if (left.size() != right.size()) {
        return false;
    }
    for (size_t i = 0; i < left.size(); i++) {
        if (lower(left[i]) != lower(right[i])) {
            return false;
        }
    }
    return true;
}

int http_head_parse(const char* bytes, size_t bytes_count, HttpScan* scan, HttpHead* head,
                    HttpFault* fault) noexcept
{
    AOTX_CHECK(scan->at <= bytes_count);
    AOTX_CHECK(scan->line_start <= scan->at);
    bool done = false;
    HttpFault found = HttpFault::None;
    while (!done && found == HttpFault::None) {
        const void* feed = bytes_count == scan->at
                               ? nullptr
                               : std::memchr(bytes + scan->at, '\n', bytes_count - scan->at);
        if (feed == nullptr) {
            scan->at = bytes_count;
            break;
        }
        scan->at = static_cast<size_t>(static_cast<const char*>(feed) - bytes) + 1;
        found = line_end_take(bytes, scan, &done);
    }
    if (found == HttpFault::None && scan->lines == 0 && scan->at > kRequestLineMax + 1) {
        found = HttpFault::TargetLimit;
    }
    if (found == HttpFault::None && scan->at > kHeadBytesMax) {
        found = HttpFault::HeaderLimit;
    }
    HttpHead parsed;
    if (found == HttpFault::None && done) {
        found = head_parse(std::string_view(bytes, scan->at), &parsed);
    }
    if (found != HttpFault::None) {
        *fault = found;
        return AOTX_ERR_SYNTAX;
    }
    if (!done) {
        return AOTX_ERR_NEED_MORE;
    }
    parsed.head_bytes = scan->at;
    *head = parsed;
    return AOTX_OK;
}

}  // namespace aotx
