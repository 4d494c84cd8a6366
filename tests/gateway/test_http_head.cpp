// Purpose:  the head parser, the chunk decoder and the routes by tables: whole, at every prefix,
// and against a page that faults.
// Owns:     nothing.
// Thread:   the test's.
// Lifetime: one run.
#include <catch2/catch.hpp>
#include <string>

#include "guard_page.h"
#include "service/gateway/http_chunk.h"
#include "service/gateway/http_head.h"
#include "service/gateway/target.h"

using aotx::HttpFault;
using aotx::HttpHead;
using aotx::HttpMethod;
using aotx::HttpScan;

namespace {

struct Parsed {
    int result = 0;
    HttpHead head;
    HttpFault fault = HttpFault::None;
};

// Parse bytes that arrive at once, right before a page that faults.
Parsed parse_whole(const GuardCopy& copy)
{
    Parsed parsed;
    HttpScan scan;
    parsed.result =
        aotx::http_head_parse(copy.begin(), copy.size_bytes(), &scan, &parsed.head, &parsed.fault);
    return parsed;
}

// Parse bytes that arrive one by one.
Parsed parse_trickle(const GuardCopy& copy)
{
    Parsed parsed;
    HttpScan scan;
    parsed.result = AOTX_ERR_NEED_MORE;
    for (size_t cut = 0; cut <= copy.size_bytes() && parsed.result == AOTX_ERR_NEED_MORE; cut++) {
        parsed.result =
            aotx::http_head_parse(copy.begin(), cut, &scan, &parsed.head, &parsed.fault);
    }
    return parsed;
}

std::string head_of(const std::string& lines)
{
    return "GET /a HTTP/1.1\r\n" + lines + "\r\n";
}

}  // namespace

TEST_CASE("heads that are refused, and why")
{
    struct Row {
        const char* name;
        std::string head;
        HttpFault fault;
    };
    const std::string host = "Host: a\r\n";
    const Row rows[] = {
        {"bare LF after the request line", "GET / HTTP/1.1\nHost: a\r\n\r\n", HttpFault::Syntax},
        {"bare LF after a header", "GET / HTTP/1.1\r\nHost: a\n\r\n", HttpFault::Syntax},
        {"bare LF as the end", "GET / HTTP/1.1\r\nHost: a\r\n\n", HttpFault::Syntax},
        {"bare CR in a value", head_of(host + "A: b\rc\r\n"), HttpFault::Syntax},
        {"CR CR LF", "GET / HTTP/1.1\r\r\nHost: a\r\n\r\n", HttpFault::Syntax},
        {"empty line first", "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", HttpFault::Syntax},
        {"folded header", head_of(host + "A: b\r\n c\r\n"), HttpFault::Syntax},
        {"folded by a tab", head_of(host + "A: b\r\n\tc\r\n"), HttpFault::Syntax},
        {"blank before the colon", head_of("Host : a\r\n"), HttpFault::Syntax},
        {"no colon", head_of(host + "A\r\n"), HttpFault::Syntax},
        {"no name", head_of(host + ": b\r\n"), HttpFault::Syntax},
        {"NUL in a value", head_of(host + std::string("A: b\0c\r\n", 8)), HttpFault::Syntax},
        {"DEL in a value", head_of(host + "A: \x7f\r\n"), HttpFault::Syntax},
        {"a separator in a name", head_of(host + "A(b): c\r\n"), HttpFault::Syntax},
        {"no target", "GET HTTP/1.1\r\nHost: a\r\n\r\n", HttpFault::Syntax},
        {"two blanks", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n", HttpFault::Syntax},
        {"a blank in the target", "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", HttpFault::Syntax},
        {"a blank behind the version", "GET / HTTP/1.1 \r\nHost: a\r\n\r\n", HttpFault::Syntax},
        {"a tab for a blank", "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", HttpFault::Syntax},
        {"absolute form", "GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n", HttpFault::Syntax},
        {"authority form", "CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", HttpFault::Syntax},
        {"asterisk form", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", HttpFault::Syntax},
        {"a fragment", "GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", HttpFault::Syntax},
        {"a byte above ASCII in the target", "GET /\xc3\xa4 HTTP/1.1\r\nHost: a\r\n\r\n",
         HttpFault::Syntax},
        {"no method", " / HTTP/1.1\r\nHost: a\r\n\r\n", HttpFault::Syntax},
        {"lower-case version", "GET / http/1.1\r\nHost: a\r\n\r\n", HttpFault::Syntax},
        {"HTTP/2", "GET / HTTP/2.0\r\nHost: a\r\n\r\n", HttpFault::Version},
        {"HTTP/1.2", "GET / HTTP/1.2\r\nHost: a\r\n\r\n", HttpFault::Version},
        {"TLS on a plain port", "\x16\x03\x01\x02\r\n\r\n", HttpFault::Syntax},
        {"no Host", "GET / HTTP/1.1\r\n\r\n", HttpFault::Host},
        {"no Host in HTTP/1.0", "GET / HTTP/1.0\r\n\r\n", HttpFault::Host},
        {"two Hosts", head_of("Host: a\r\nHost: a\r\n"), HttpFault::Host},
        {"two lengths", head_of(host + "Content-Length: 1\r\nContent-Length: 1\r\n"),
         HttpFault::Length},
        {"a list of lengths", head_of(host + "Content-Length: 1, 1\r\n"), HttpFault::Length},
        {"a signed length", head_of(host + "Content-Length: +1\r\n"), HttpFault::Length},
        {"a negative length", head_of(host + "Content-Length: -1\r\n"), HttpFault::Length},
        {"a hexadecimal length", head_of(host + "Content-Length: 0x1\r\n"), HttpFault::Length},
        {"an empty length", head_of(host + "Content-Length:\r\n"), HttpFault::Length},
        {"a length of 19 digits", head_of(host + "Content-Length: 1000000000000000000\r\n"),
         HttpFault::Length},
        {"length and chunked",
         head_of(host + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"), HttpFault::Length},
        {"chunked and length",
         head_of(host + "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n"), HttpFault::Length},
        {"two codings", head_of(host + "Transfer-Encoding: gzip, chunked\r\n"),
         HttpFault::TransferEncoding},
        {"another coding", head_of(host + "Transfer-Encoding: identity\r\n"),
         HttpFault::TransferEncoding},
        {"a coding with a tail", head_of(host + "Transfer-Encoding: chunked;a=b\r\n"),
         HttpFault::TransferEncoding},
        {"a coding in disguise",
         head_of(host + "Transfer-Encoding: \x0b"
                        "chunked\r\n"),
         HttpFault::Syntax},
        {"chunked twice",
         head_of(host + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
         HttpFault::TransferEncoding},
        {"chunked in HTTP/1.0", "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
         HttpFault::TransferEncoding},
    };
    for (const Row& row : rows) {
        INFO(row.name);
        const GuardCopy copy(row.head.data(), row.head.size());
        const Parsed whole = parse_whole(copy);
        CHECK(whole.result == AOTX_ERR_SYNTAX);
        CHECK(whole.fault == row.fault);
        const Parsed trickle = parse_trickle(copy);
        CHECK(trickle.result == AOTX_ERR_SYNTAX);
        CHECK(trickle.fault == row.fault);
        for (size_t cut = 0; cut < row.head.size(); cut++) {
            const GuardCopy part(row.head.data(), cut);
            CHECK(parse_whole(part).result != AOTX_OK);
        }
    }
}

TEST_CASE("a whole head: every part of it, and no prefix of it")
{
    const std::string text =
        "POST /v1/x?cursor=5&a=%20 HTTP/1.1\r\n"
        "hOST:\t localhost:8081 \t\r\n"
        "Authorization: Bearer abc\r\n"
        "Content-Type: application/json\r\n"
        "Content-Length: 007\r\n"
        "Origin: null\r\n"
        "Expect: 100-continue\r\n"
        "Last-Event-ID: x:1\r\n"
        "Connection: keep-alive, Close\r\n"
        "X-Other: \xc3\xa4\r\n"
        "X-Empty:\r\n"
        "\r\n";
    const std::string more = text + "payload";
    for (size_t cut = 0; cut < text.size(); cut++) {
        const GuardCopy part(text.data(), cut);
        CHECK(parse_whole(part).result == AOTX_ERR_NEED_MORE);
    }
    const GuardCopy copy(more.data(), more.size());
    for (const Parsed& parsed : {parse_whole(copy), parse_trickle(copy)}) {
        REQUIRE(parsed.result == AOTX_OK);
        const HttpHead& head = parsed.head;
        CHECK(head.method == HttpMethod::Post);
        CHECK(head.path == "/v1/x");
        CHECK(head.query == "cursor=5&a=%20");
        CHECK(head.host == "localhost:8081");
        CHECK(head.authorization == "Bearer abc");
        CHECK(head.content_type == "application/json");
        CHECK(head.content_length == 7);
        CHECK(head.origin == "null");
        CHECK(head.has_origin);
        CHECK(head.has_expect);
        CHECK(head.last_event_id == "x:1");
        CHECK(head.close);
        CHECK_FALSE(head.chunked);
        CHECK_FALSE(head.repeated);
        CHECK(head.head_bytes == text.size());
    }
}

TEST_CASE("keep-alive is the default of 1.1 and has to be asked for in 1.0")
{
    struct Row {
        const char* text;
        bool close;
    };
    const Row rows[] = {{"GET / HTTP/1.1\r\nHost: a\r\n\r\n", false},
                        {"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", true},
                        {"GET / HTTP/1.0\r\nHost: a\r\n\r\n", true},
                        {"GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n", false}};
    for (const Row& row : rows) {
        const GuardCopy copy(row.text, std::char_traits<char>::length(row.text));
        const Parsed parsed = parse_whole(copy);
        REQUIRE(parsed.result == AOTX_OK);
        CHECK(parsed.head.close == row.close);
    }
}

TEST_CASE("heads at their limits, one below and one above")
{
    struct Row {
        const char* name;
        std::string head;
        int result;
        HttpFault fault;
    };
    const std::string line_begin = "GET /";
    const std::string line_end = " HTTP/1.1";
    const size_t path = aotx::kRequestLineMax - line_begin.size() - line_end.size();
    const std::string longest = line_begin + std::string(path, 'a') + line_end;
    const std::string longer = line_begin + std::string(path + 1, 'a') + line_end;
    std::string lines = "Host: a\r\n";
    for (size_t i = 1; i < aotx::kHeaderLinesMax; i++) {
        lines += "A: b\r\n";
    }
    const std::string shell = head_of("Host: a\r\nA: \r\n");
    const std::string room(aotx::kHeadBytesMax - shell.size(), 'b');
    const Row rows[] = {
        {"longest request line", longest + "\r\nHost: a\r\n\r\n", AOTX_OK, HttpFault::None},
        {"longer request line", longer + "\r\nHost: a\r\n\r\n", AOTX_ERR_SYNTAX,
         HttpFault::TargetLimit},
        {"a request line without end", "GET /" + std::string(9000, 'a'), AOTX_ERR_SYNTAX,
         HttpFault::TargetLimit},
        {"most lines", head_of(lines), AOTX_OK, HttpFault::None},
        {"more lines", head_of(lines + "A: b\r\n"), AOTX_ERR_SYNTAX, HttpFault::HeaderLimit},
        {"longest head", head_of("Host: a\r\nA: " + room + "\r\n"), AOTX_OK, HttpFault::None},
        {"longer head", head_of("Host: a\r\nA: " + room + "b\r\n"), AOTX_ERR_SYNTAX,
         HttpFault::HeaderLimit},
        {"a header without end", "GET / HTTP/1.1\r\nA: " + std::string(17000, 'b'), AOTX_ERR_SYNTAX,
         HttpFault::HeaderLimit},
    };
    for (const Row& row : rows) {
        INFO(row.name);
        const GuardCopy copy(row.head.data(), row.head.size());
        for (const Parsed& parsed : {parse_whole(copy), parse_trickle(copy)}) {
            CHECK(parsed.result == row.result);
            CHECK(parsed.fault == row.fault);
        }
    }
}

TEST_CASE("a header that may stand once and stands twice is noticed")
{
    for (const char* name :
         {"Authorization", "Content-Type", "Content-Encoding", "Origin", "Last-Event-ID"}) {
        const std::string line = std::string(name) + ": a\r\n";
        const std::string text = head_of("Host: a\r\n" + line + line);
        const GuardCopy copy(text.data(), text.size());
        const Parsed parsed = parse_whole(copy);
        REQUIRE(parsed.result == AOTX_OK);
        CHECK(parsed.head.repeated);
    }
}

namespace {

struct Decoded {
    int result = AOTX_ERR_NEED_MORE;
    std::string body;
    size_t consumed = 0;
};

// Decode with the input in pieces and the output in portions of the given sizes.
Decoded decode(const std::string& text, size_t piece_bytes, size_t room_bytes)
{
    Decoded decoded;
    aotx::ChunkState state;
    while (decoded.result == AOTX_ERR_NEED_MORE || decoded.result == AOTX_ERR_FULL) {
        const std::string piece = text.substr(decoded.consumed, piece_bytes);
        if (piece.empty()) {
            break;
        }
        const GuardCopy copy(piece.data(), piece.size());
        std::string room(room_bytes, '\0');
        size_t consumed = 0;
        size_t produced = 0;
        decoded.result = aotx::chunk_decode(&state, copy.begin(), copy.size_bytes(), room.data(),
                                            room.size(), &consumed, &produced);
        decoded.body += room.substr(0, produced);
        decoded.consumed += consumed;
    }
    return decoded;
}

}  // namespace

TEST_CASE("chunked bodies, whole and in every cut")
{
    struct Row {
        const char* name;
        std::string text;
        int result;
        std::string body;
        size_t consumed;
    };
    const Row rows[] = {
        {"empty", "0\r\n\r\nGET", AOTX_OK, "", 5},
        {"two chunks", "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\nX", AOTX_OK, "abcde", 20},
        {"capital digits", "A\r\n0123456789\r\n0\r\n\r\n", AOTX_OK, "0123456789", 20},
        {"small digits", "a\r\n0123456789\r\n0\r\n\r\n", AOTX_OK, "0123456789", 20},
        {"leading zeros", "0003\r\nabc\r\n0000\r\n\r\n", AOTX_OK, "abc", 19},
        {"CRLF inside", "4\r\n\r\n\r\n\r\n0\r\n\r\n", AOTX_OK, "\r\n\r\n", 14},
        {"no end", "3\r\nabc\r\n", AOTX_ERR_NEED_MORE, "abc", 8},
        {"extension", "3;a=b\r\nabc\r\n0\r\n\r\n", AOTX_ERR_SYNTAX, "", 1},
        {"blank in the size", "3 \r\nabc\r\n0\r\n\r\n", AOTX_ERR_SYNTAX, "", 1},
        {"no size", "\r\nabc", AOTX_ERR_SYNTAX, "", 0},
        {"sign", "+3\r\nabc\r\n0\r\n\r\n", AOTX_ERR_SYNTAX, "", 0},
        {"prefix", "0x3\r\nabc\r\n0\r\n\r\n", AOTX_ERR_SYNTAX, "", 1},
        {"nine digits", "000000003\r\nabc", AOTX_ERR_SYNTAX, "", 8},
        {"bare LF after the size", "3\nabc\r\n0\r\n\r\n", AOTX_ERR_SYNTAX, "", 1},
        {"bare LF after the data", "3\r\nabc\n0\r\n\r\n", AOTX_ERR_SYNTAX, "abc", 6},
        {"data longer than its size", "3\r\nabcd\r\n0\r\n\r\n", AOTX_ERR_SYNTAX, "abc", 6},
        {"trailer", "0\r\nA: b\r\n\r\n", AOTX_ERR_SYNTAX, "", 3},
        {"bare LF at the end", "0\r\n\n", AOTX_ERR_SYNTAX, "", 3},
    };
    for (const Row& row : rows) {
        INFO(row.name);
        for (size_t piece = 1; piece <= row.text.size(); piece++) {
            for (const size_t room : {size_t{1}, size_t{2}, size_t{100}}) {
                const Decoded decoded = decode(row.text, piece, room);
                CHECK(decoded.result == row.result);
                CHECK(decoded.body == row.body);
                CHECK(decoded.consumed == row.consumed);
            }
        }
    }
}

TEST_CASE("a chunk of four gigabytes is counted and not stored")
{
    aotx::ChunkState state;
    const std::string text = "ffffffff\r\nabc";
    char room[16];
    size_t consumed = 0;
    size_t produced = 0;
    CHECK(aotx::chunk_decode(&state, text.data(), text.size(), room, sizeof room, &consumed,
                             &produced) == AOTX_ERR_NEED_MORE);
    CHECK(produced == 3);
    CHECK(state.left_bytes == 0xffffffffu - 3);
}

TEST_CASE("routes by method and path")
{
    using aotx::Route;
    struct Row {
        HttpMethod method;
        const char* path;
        Route route;
        bool method_wrong;
        const char* handle;
    };
    const Row rows[] = {
        {HttpMethod::Get, "/healthz", Route::Health, false, ""},
        {HttpMethod::Head, "/healthz", Route::Health, false, ""},
        {HttpMethod::Post, "/healthz", Route::None, true, ""},
        {HttpMethod::Get, "/healthz/", Route::None, false, ""},
        {HttpMethod::Get, "/Healthz", Route::None, false, ""},
        {HttpMethod::Get, "//healthz", Route::None, false, ""},
        {HttpMethod::Get, "/", Route::None, false, ""},
        {HttpMethod::Get, "/readyz", Route::Ready, false, ""},
        {HttpMethod::Get, "/metrics", Route::Metrics, false, ""},
        {HttpMethod::Get, "/v1/models", Route::Models, false, ""},
        {HttpMethod::Get, "/v1/models/tiny", Route::None, false, ""},
        {HttpMethod::Get, "/v1/chat/completions", Route::None, true, ""},
        {HttpMethod::Post, "/v1/chat/completions", Route::ChatCompletions, false, ""},
        {HttpMethod::Post, "/v1/embeddings", Route::None, false, ""},
        {HttpMethod::Post, "/aotx/v1/requests", Route::RequestCreate, false, ""},
        {HttpMethod::Get, "/aotx/v1/requests/abc", Route::RequestRead, false, "abc"},
        {HttpMethod::Get, "/aotx/v1/requests/", Route::None, false, ""},
        {HttpMethod::Get, "/aotx/v1/requests/a/b", Route::None, false, ""},
        {HttpMethod::Post, "/aotx/v1/requests/abc/cancel", Route::RequestCancel, false, "abc"},
        {HttpMethod::Get, "/aotx/v1/requests/abc/cancel", Route::None, true, "abc"},
        {HttpMethod::Get, "/aotx/v1/requests/abc/events", Route::RequestEvents, false, "abc"},
        {HttpMethod::Head, "/aotx/v1/requests/abc/events", Route::None, true, "abc"},
        {HttpMethod::Get, "/aotx/v1/requests//events", Route::None, false, ""},
        {HttpMethod::Get, "/aotx/v1/media", Route::MediaList, false, ""},
        {HttpMethod::Post, "/aotx/v1/media", Route::MediaUpload, false, ""},
        {HttpMethod::Post, "/aotx/v1/media/import", Route::MediaImport, false, ""},
        {HttpMethod::Delete, "/aotx/v1/media/abc", Route::MediaRemove, false, "abc"},
        {HttpMethod::Other, "/aotx/v1/media/abc", Route::None, true, "abc"},
        {HttpMethod::Get, "/aotx/v1/policy", Route::PolicyRead, false, ""},
        {HttpMethod::Post, "/aotx/v1/policy", Route::PolicyWrite, false, ""},
        {HttpMethod::Get, "/aotx/v1/telemetry", Route::Telemetry, false, ""},
        {HttpMethod::Get, "/aotx/v1/capabilities", Route::Capabilities, false, ""},
    };
    for (const Row& row : rows) {
        INFO(row.path);
        const aotx::Target target = aotx::target_find(row.method, row.path);
        CHECK(target.route == row.route);
        CHECK(target.method_wrong == row.method_wrong);
        if (row.route != Route::None) {
            CHECK(target.handle == row.handle);
        }
    }
}
