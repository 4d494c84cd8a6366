// Purpose:  what peers may do to the gateway: unread bodies, pipelines, limits, deadlines, full
// tables, slow readers, TLS, Unix sockets.
// Owns:     nothing.
// Thread:   the test's.
// Lifetime: one run.
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <sys/syscall.h>

#include <atomic>
#include <csignal>

#include "gateway_fixture.h"

// The C library's send, counted. Not under a sanitizer, which needs its own.
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define COUNTS_SENDS 1
namespace {

// Calls of send() on TCP sockets by every thread but the test's.
std::atomic<uint64_t> tcp_sends{0};
thread_local bool is_test_thread = false;

}  // namespace

extern "C" ssize_t send(int fd, const void* bytes, size_t bytes_count, int flags)
{
    int domain = 0;
    socklen_t length = sizeof domain;
    getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length);
    if (domain == AF_INET && !is_test_thread) {
        tcp_sends++;
    }
    return syscall(SYS_sendto, fd, bytes, bytes_count, flags, nullptr, 0);
}
#endif

namespace {

bool contains(const std::string& text, const std::string& part)
{
    return text.find(part) != std::string::npos;
}

const std::string kHealth = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";

std::string code(const std::string& name)
{
    return "\"code\":\"" + name + "\"";
}

std::string repeat(const std::string& text, size_t times)
{
    std::string joined;
    for (size_t i = 0; i < times; i++) {
        joined += text;
    }
    return joined;
}

}  // namespace

TEST_CASE("a body that was not read never becomes the next request")
{
    Gateway gateway;
    const std::string inner = "GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
    REQUIRE(inner.size() == 44);
    const std::string handle = "/aotx/v1/requests/req-0-0/cancel";
    const std::string json = "\r\nContent-Type: application/json";
    const std::string bearer = "\r\nAuthorization: Bearer " + kTokenOne;
    struct Row {
        const char* name;
        std::string line;
        std::string headers;
        std::string length;
        int status;
    };
    const Row rows[] = {
        {"no token", "POST /v1/chat/completions", json, "44", 401},
        {"unknown route", "POST /v1/nothing", json + bearer, "44", 404},
        {"wrong method", "POST /v1/models", json + bearer, "44", 405},
        {"oversize", "POST /v1/chat/completions", json + bearer, "1073741824", 413},
        {"unknown token", "POST /v1/chat/completions", json + bearer + "x", "44", 401},
        {"invalid handle", "POST " + handle, json + bearer, "44", 404},
        {"content type", "POST /v1/chat/completions", "\r\nContent-Type: text/plain" + bearer, "44",
         415},
        {"a GET with a body", "GET /v1/models", bearer, "44", 400},
        {"foreign origin", "POST /v1/chat/completions",
         json + bearer + "\r\nOrigin: http://evil.example", "44", 403},
    };
    for (const Row& row : rows) {
        INFO(row.name);
        const std::string head = row.line + " HTTP/1.1\r\nHost: 127.0.0.1" + row.headers +
                                 "\r\nContent-Length: " + row.length + "\r\n\r\n";
        for (const bool together : {true, false}) {
            Client client(gateway.port);
            client.send(together ? head + inner : head);
            const Answer refused = client.read();
            CHECK(refused.status == row.status);
            if (refused.header("Connection") == "close") {
                client.send((together ? std::string() : inner) + get("/v1/models"));
                CHECK(client.closes());
                continue;
            }
            CHECK(together);
            const Answer real = client.ask(get("/v1/models"));
            CHECK(real.status == 200);
            CHECK(client.pending().empty());
        }
    }
}

TEST_CASE("a chunked body that is refused closes the connection")
{
    Gateway gateway;
    Client client(gateway.port);
    client.send(
        "POST /v1/nothing HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        "2c\r\nGET /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n\r\n0\r\n\r\n");
    const Answer refused = client.read();
    CHECK(refused.status == 404);
    CHECK(refused.header("Connection") == "close");
    CHECK(client.closes());
}

TEST_CASE("nesting is refused and hurts nobody")
{
    Gateway gateway;
    const std::string bodies[] = {
        "{\"model\":\"m\",\"x\":" + repeat("[", 100000) + repeat("]", 100000) + "}",
        "{\"model\":\"m\",\"messages\":" + repeat("[", 3000), repeat("{\"a\":", 5000),
        "{\"model\":\"m\",\"messages\":" + repeat("[", 3000) + repeat("]", 3000) + "}"};
    for (const std::string& body : bodies) {
        for (const char* path : {"/v1/chat/completions", "/aotx/v1/requests", "/aotx/v1/policy",
                                 "/aotx/v1/media/import"}) {
            const Answer answer = gateway.ask(post(path, body));
            CHECK(answer.status == 400);
            CHECK(contains(answer.body, code("invalid_field")));
        }
    }
    CHECK(gateway.ask(kHealth).status == 200);
}

TEST_CASE("a host that is not ours is refused before anything else")
{
    Gateway gateway;
    const std::string port = std::to_string(gateway.port);
    for (const char* path : {"/healthz", "/readyz", "/metrics", "/v1/models", "/none"}) {
        for (const char* host : {"evil.example", ":8080", "localhost.evil.example",
                                 "127.0.0.1.evil.example", "[::1].evil.example"}) {
            const Answer answer =
                gateway.ask(std::string("GET ") + path + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n");
            CHECK(answer.status == 421);
        }
        for (const char* hosts : {"", "Host: localhost\r\nHost: localhost\r\n"}) {
            const Answer answer =
                gateway.ask(std::string("GET ") + path + " HTTP/1.1\r\n" + hosts + "\r\n");
            CHECK(answer.status == 400);
            CHECK(answer.header("Connection") == "close");
        }
    }
    for (const std::string& host :
         {"localhost:" + port, "127.0.0.1:" + port, "[::1]:" + port, "LOCALHOST:" + port}) {
        CHECK(gateway.ask("GET /healthz HTTP/1.1\r\nHost: " + host + "\r\n\r\n").status == 200);
    }
}

TEST_CASE("framing that is refused says why")
{
    Gateway gateway;
    const std::string start =
        "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        "Authorization: Bearer " +
        kTokenOne + "\r\n";
    const std::string json = start + "Content-Type: application/json\r\n";
    struct Row {
        std::string bytes;
        int status;
        const char* code;
    };
    const Row rows[] = {
        {"GET / HTTP/1.1\nHost: a\n\n", 400, "http_syntax"},
        {"GET /" + std::string(9000, 'a') + " HTTP/1.1\r\n", 414, "target_limit"},
        {kHealth.substr(0, kHealth.size() - 2) + "A: " + std::string(17000, 'b'), 431,
         "header_limit"},
        {"GET / HTTP/3.0\r\nHost: a\r\n\r\n", 505, "http_version"},
        {json + "Expect: 100-continue\r\nContent-Length: 10\r\n\r\n", 417, "expectation"},
        {json + "Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}", 415, "content_encoding"},
        {json + "Content-Length: 0\r\n\r\n", 400, "body_length"},
        {json + "\r\n", 400, "body_length"},
        {json + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}", 400, "http_syntax"},
        {json + "Transfer-Encoding: chunked\r\n\r\n2;x=y\r\n{}\r\n0\r\n\r\n", 400, "http_syntax"},
        {start + "Content-Length: 2\r\n\r\n{}", 415, "content_type"},
        {start + "Content-Type: application/json; charset=latin1\r\nContent-Length: 2\r\n\r\n{}",
         415, "content_type"},
        {start + "Content-Type: application/jsonx\r\nContent-Length: 2\r\n\r\n{}", 415,
         "content_type"},
        {json + "Authorization: Bearer " + kTokenTwo + "\r\nContent-Length: 2\r\n\r\n{}", 400,
         "http_syntax"},
        {json + "Content-Length: 8388609\r\n\r\n", 413, "body_limit"},
        {"GET /v1/models?api_key=" + kTokenOne + " HTTP/1.1\r\nHost: localhost\r\n\r\n", 401,
         "invalid_api_key"},
        {"GET /healthz?a=b HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "invalid_field"},
    };
    for (const Row& row : rows) {
        INFO(row.bytes.substr(0, 200));
        const Answer answer = gateway.ask(row.bytes);
        CHECK(answer.status == row.status);
        CHECK(contains(answer.body, code(row.code)));
        CHECK(answer.header("Cache-Control") == "no-store");
    }
    CHECK(gateway.ask("GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n")
              .header("WWW-Authenticate") == "Bearer");
    CHECK(gateway.ask("PUT /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n").header("Allow") ==
          "GET, HEAD");
}

TEST_CASE("pipelined requests are answered in order, bodies and streams among them")
{
    Gateway gateway;
    gateway.device->on_submit = [](FakeRequest& request) {
        request.output = "ok";
        request.sampled_tokens = 1;
        request.phase = AOTX_PHASE_COMPLETED;
        request.finish = AOTX_FINISH_STOP;
    };
    std::string all;
    for (int i = 0; i < 40; i++) {
        all += kHealth + get("/v1/models") + post("/v1/chat/completions", chat_body()) +
               post("/v1/chat/completions", chat_body(",\"stream\":true"));
    }
    Client client(gateway.port);
    std::thread sender([&] { client.send(all); });
    for (int i = 0; i < 40; i++) {
        CHECK(client.read().body == "{\"status\":\"ok\"}");
        CHECK(contains(client.read().body, "\"object\":\"list\""));
        CHECK(contains(client.read().body, "\"object\":\"chat.completion\""));
        CHECK(data_lines(client.read().body).back() == "[DONE]");
    }
    sender.join();
}

TEST_CASE("a request may come byte by byte, and its body in chunks")
{
    Gateway gateway;
    Client client(gateway.port);
    const std::string whole = post("/aotx/v1/requests", chat_body());
    for (const char byte : whole) {
        client.send(std::string(1, byte));
    }
    CHECK(client.read().status == 202);
    const std::string start =
        "POST /aotx/v1/requests HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        "Authorization: Bearer " +
        kTokenOne +
        "\r\nContent-Type: application/json; charset=UTF-8\r\n"
        "Transfer-Encoding: chunked\r\n\r\n";
    std::string chunks;
    const std::string body = chat_body();
    for (size_t at = 0; at < body.size(); at += 10) {
        const std::string piece = body.substr(at, 10);
        char size[8];
        snprintf(size, sizeof size, "%zx\r\n", piece.size());
        chunks += size + piece + "\r\n";
    }
    chunks += "0\r\n\r\n";
    client.send(start);
    for (const char byte : chunks) {
        client.send(std::string(1, byte));
    }
    CHECK(client.read().status == 202);
    client.send(start + chunks + kHealth);  // what follows is the next request
    CHECK(client.read().status == 202);
    CHECK(client.read().body == "{\"status\":\"ok\"}");
}

TEST_CASE("bodies of every size around the buffers' edges")
{
    Gateway gateway;
    Client client(gateway.port);
    const std::string shell =
        "{\"model\":\"tiny\",\"messages\":[{\"role\":\"user\",\"content\":\"\"}]}";
    for (const size_t fill : {size_t{1}, size_t{3700}, size_t{3800}, size_t{3900}, size_t{4000},
                              size_t{4096}, size_t{20000}, size_t{60000}, size_t{65000}}) {
        std::string body = shell;
        body.insert(body.size() - 4, std::string(fill, 'a'));
        CHECK(client.ask(post("/aotx/v1/requests", body)).status == 202);
        CHECK(gateway.device->last().payload.size() == fill + 20);
        CHECK(client.ask(kHealth).status == 200);
    }
    std::string large = shell;
    large.insert(large.size() - 4, std::string(2 << 20, 'a'));
    CHECK(contains(client.ask(post("/aotx/v1/requests", large)).body, code("frame_limit")));
    CHECK(client.ask(kHealth).status == 200);
}

TEST_CASE("a body that ends early, and a chunked body that is too large")
{
    Gateway gateway([](aotx::Config& config) { config.gateway.json_bytes = 100000; });
    const std::string start =
        "POST /aotx/v1/requests HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        "Authorization: Bearer " +
        kTokenOne + "\r\nContent-Type: application/json\r\n";
    for (const char* length : {"10", "100000"}) {
        Client client(gateway.port);
        client.send(start + "Content-Length: " + length + "\r\n\r\n{");
        client.finish_sending();
        const Answer answer = client.read();
        CHECK(answer.status == 400);
        CHECK(contains(answer.body, code("body_length")));
    }
    Client client(gateway.port);
    client.send(start + "Transfer-Encoding: chunked\r\n\r\n");
    const std::string piece = "2710\r\n" + std::string(10000, ' ') + "\r\n";
    for (int i = 0; i < 11; i++) {
        client.send(piece);
    }
    const Answer answer = client.read();
    CHECK(answer.status == 413);
    CHECK(contains(answer.body, code("body_limit")));
}

TEST_CASE("a small limit holds for chunked bodies too")
{
    Gateway gateway([](aotx::Config& config) { config.gateway.json_bytes = 2000; });
    const std::string start =
        "POST /aotx/v1/requests HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        "Authorization: Bearer " +
        kTokenOne + "\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (const size_t bytes : {size_t{2000}, size_t{2001}}) {
        std::string body = chat_body();
        body.insert(body.size() - 1, std::string(bytes - body.size(), ' '));
        char length[16];
        snprintf(length, sizeof length, "%zx\r\n", bytes);
        const Answer answer = gateway.ask(start + length + body + "\r\n0\r\n\r\n");
        CHECK(answer.status == (bytes == 2000 ? 202 : 413));
    }
}

TEST_CASE("no more bodies at once than readers and credit allow")
{
    Gateway gateway([](aotx::Config& config) {
        config.gateway.body_readers = 2;
        config.gateway.body_credit_bytes = 300000;
    });
    const std::string start =
        "POST /aotx/v1/requests HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        "Authorization: Bearer " +
        kTokenOne + "\r\nContent-Type: application/json\r\nContent-Length: ";
    {
        Client greedy(gateway.port);
        const Answer refused = greedy.ask(start + "400000\r\n\r\n");
        CHECK(refused.status == 429);
        CHECK(contains(refused.body, code("transport_limit")));
        CHECK(refused.header("Retry-After") == "1");
    }
    Client first(gateway.port);
    Client second(gateway.port);
    first.send(start + "100000\r\n\r\n");
    second.send(start + "100000\r\n\r\n");
    CHECK(gateway.ask(kHealth).status == 200);
    CHECK(gateway.ask(start + "100000\r\n\r\n").status == 429);
    // Bodies that fit a connection's own buffer need no reader.
    CHECK(gateway.ask(post("/aotx/v1/requests", chat_body())).status == 202);
    first.reset();
    int status = 429;
    for (int i = 0; i < 400 && status == 429; i++) {
        std::string body = chat_body();
        body.insert(body.size() - 1, std::string(20000, ' '));
        status = gateway.ask(post("/aotx/v1/requests", body)).status;
        poll(nullptr, 0, 5);
    }
    CHECK(status == 202);
}

TEST_CASE("deadlines of a head, a body and an operation")
{
    Gateway gateway([](aotx::Config& config) {
        config.gateway.header_seconds = 1;
        config.gateway.body_seconds = 1;
        config.gateway.operation_seconds = 1;
        config.gateway.idle_seconds = 1;
    });
    Client silent(gateway.port);
    Client head(gateway.port);
    head.send("GET /healthz HTTP/1.1\r\nHost: ");
    Client body(gateway.port);
    body.send("POST /aotx/v1/requests HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer " +
              kTokenOne + "\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{");
    Client plain(gateway.port);
    plain.send(post("/v1/chat/completions", chat_body()));
    Client stream(gateway.port);
    stream.send(post("/v1/chat/completions", chat_body(",\"stream\":true")));
    const Answer head_late = head.read();
    CHECK(head_late.status == 408);
    CHECK(contains(head_late.body, code("header_timeout")));
    CHECK(head_late.header("Connection") == "close");
    const Answer body_late = body.read();
    CHECK(body_late.status == 408);
    CHECK(contains(body_late.body, code("body_timeout")));
    const Answer plain_late = plain.read();
    CHECK(plain_late.status == 504);
    CHECK(contains(plain_late.body, code("response_timeout")));
    CHECK(plain_late.header("X-Request-ID").size() == 53);
    CHECK(contains(data_lines(stream.read().body).back(), code("response_timeout")));
    CHECK(silent.closes());
    CHECK(gateway.device->cancels == 0);
}

TEST_CASE("a device that hangs costs one connection to it and an answer in time")
{
    Gateway gateway([](aotx::Config& config) { config.gateway.operation_seconds = 1; });
    CHECK(gateway.ask(get("/v1/models")).status == 200);
    gateway.device->mute = true;
    // A submission that got no answer may have been admitted: its handle is told all the same.
    Client submits(gateway.port);
    submits.send(post("/v1/chat/completions", chat_body()));
    const Answer unknown = submits.read();
    CHECK(unknown.status == 504);
    CHECK(contains(unknown.body, code("response_timeout")));
    CHECK(unknown.header("X-Request-ID").compare(0, 21, "req-0123456789abcdef-") == 0);
    std::vector<std::unique_ptr<Client>> clients;
    for (int i = 0; i < 20; i++) {  // more than there are connections to the device
        clients.push_back(std::make_unique<Client>(gateway.port));
        clients.back()->send(get("/v1/models"));
    }
    for (const auto& client : clients) {
        const int status = client->read().status;
        CHECK((status == 504 || status == 503));
    }
    gateway.device->mute = false;
    int status = 0;
    for (int i = 0; i < 400 && status != 200; i++) {
        status = gateway.ask(get("/v1/models")).status;
        poll(nullptr, 0, 10);
    }
    CHECK(status == 200);
}

TEST_CASE("a loop that is silent is not ready, and metrics come without it")
{
    Gateway gateway;  // operations may take 300 s here, probes may not
    const std::string ready = "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    CHECK(gateway.ask(ready).status == 200);
    gateway.device->mute = true;
    const Answer silent = gateway.ask(ready);
    CHECK(silent.status == 503);
    CHECK(contains(silent.body, code("device_connection")));
    const Answer metrics = gateway.ask(get("/metrics"));
    CHECK(metrics.status == 200);
    CHECK(contains(metrics.body, "aotx_device_up 0\n"));
    gateway.device->mute = false;
    int status = 0;
    for (int i = 0; i < 400 && status != 200; i++) {
        status = gateway.ask(ready).status;
        poll(nullptr, 0, 10);
    }
    CHECK(status == 200);
}

TEST_CASE("an answer that is void is not passed on")
{
    Gateway gateway;
    gateway.device->garble = true;
    const Answer answer = gateway.ask(get("/v1/models"));
    CHECK(answer.status == 503);
    CHECK(contains(answer.body, code("invalid_device_response")));
    gateway.device->garble = false;
    int status = 0;
    for (int i = 0; i < 400 && status != 200; i++) {
        status = gateway.ask(get("/v1/models")).status;
        poll(nullptr, 0, 10);
    }
    CHECK(status == 200);
}

TEST_CASE("a full table gives up silent connections, then unfinished heads, and then says no")
{
    Gateway gateway([](aotx::Config& config) {
        config.gateway.connections = 4;
        config.gateway.work = 4;
    });
    Client silent(gateway.port);
    Client slow(gateway.port);
    slow.send("GET /healthz");
    Client stream_one(gateway.port);
    stream_one.send(post("/v1/chat/completions", chat_body(",\"stream\":true")));
    REQUIRE(stream_one.wait_for("assistant"));
    Client stream_two(gateway.port);
    stream_two.send(post("/v1/chat/completions", chat_body(",\"stream\":true")));
    REQUIRE(stream_two.wait_for("assistant"));
    Client third(gateway.port);
    third.send(post("/v1/chat/completions", chat_body(",\"stream\":true")));
    REQUIRE(third.wait_for("assistant"));
    CHECK(silent.closes());
    Client fourth(gateway.port);
    fourth.send(post("/v1/chat/completions", chat_body(",\"stream\":true")));
    REQUIRE(fourth.wait_for("assistant"));
    CHECK(slow.closes());
    Client fifth(gateway.port);
    const Answer full = fifth.read();
    CHECK(full.status == 429);
    CHECK(contains(full.body, code("transport_limit")));
    CHECK(full.body.size() == std::stoul(full.header("Content-Length")));
    CHECK(fifth.closes());
    // Nobody's work suffered.
    gateway.device->complete(AOTX_FINISH_STOP);
    CHECK(fourth.wait_for("[DONE]"));
    CHECK(gateway.ask(kHealth).status == 200);
}

TEST_CASE("no more answers that follow a request than there is work")
{
    Gateway gateway([](aotx::Config& config) { config.gateway.work = 1; });
    Client stream(gateway.port);
    stream.send(post("/v1/chat/completions", chat_body(",\"stream\":true")));
    REQUIRE(stream.wait_for("assistant"));
    const Answer full = gateway.ask(post("/v1/chat/completions", chat_body()));
    CHECK(full.status == 429);
    CHECK(contains(full.body, code("transport_limit")));
    const std::string handle = gateway.submit();
    CHECK(gateway.ask(get("/aotx/v1/requests/" + handle + "/events")).status == 429);
    CHECK(gateway.ask(get("/aotx/v1/requests/" + handle)).status == 200);
    CHECK(gateway.device->request_count() == 2);
}

TEST_CASE("a reader that stalls stalls only itself, and loses nothing")
{
    Gateway gateway;
    Client slow(gateway.port);
    slow.send(post("/v1/chat/completions", chat_body(",\"stream\":true")));
    REQUIRE(gateway.device->wait_requests(1));
    std::string expected;
    for (int i = 0; i < 300; i++) {
        // Far more than the sockets of both sides hold.
        const std::string piece = std::to_string(i % 10) + std::string(50000, 'x');
        expected += piece;
        gateway.device->produce(piece);
    }
    CHECK(gateway.ask(kHealth).status == 200);
    gateway.device->complete(AOTX_FINISH_STOP);
    const Answer answer = slow.read();
    std::string joined;
    for (const std::string& line : data_lines(answer.body)) {
        const size_t at = line.find("\"delta\":{\"content\":\"");
        if (at != std::string::npos) {
            joined += line.substr(at + 20, line.find("\"}", at) - at - 20);
        }
    }
    CHECK((joined == expected));  // too long to be printed
    CHECK(data_lines(answer.body).back() == "[DONE]");
}

TEST_CASE("a reader that takes nothing is let go after the write deadline")
{
    Gateway gateway([](aotx::Config& config) {
        config.gateway.write_seconds = 1;
        config.gateway.heartbeat_seconds = 1;
    });
    const std::string handle = gateway.submit();
    gateway.device->change([](FakeRequest& request) { request.output.assign(60000, 'x'); });
    Client client(gateway.port);
    const int small = 4096;
    setsockopt(client.fd(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    std::string asks;
    for (int i = 0; i < 200; i++) {
        asks += get("/aotx/v1/requests/" + handle);
    }
    client.send(asks);
    // Nothing is read until the deadline has passed: then what comes ends before all answers.
    poll(nullptr, 0, 2500);
    size_t answers = 0;
    while (answers < 200 && client.read().status == 200) {
        answers++;
    }
    CHECK(answers < 200);
}

TEST_CASE("heartbeats: a bare comment line on /v1, a whole comment frame on events")
{
    Gateway gateway([](aotx::Config& config) { config.gateway.heartbeat_seconds = 1; });
    Client chat(gateway.port);
    chat.send(post("/v1/chat/completions", chat_body(",\"stream\":true")));
    REQUIRE(gateway.device->wait_requests(1));
    Client events(gateway.port);
    const std::string handle = gateway.submit();
    events.send(get("/aotx/v1/requests/" + handle + "/events"));
    REQUIRE(chat.wait_for("\r\n: keep-alive\n\r\n"));
    REQUIRE(events.wait_for(": keep-alive\n\n"));
    for (int i = 0; i < 2; i++) {
        gateway.device->produce("done");
    }
    gateway.device->complete(AOTX_FINISH_STOP);
    CHECK(contains(events.read().body, "\"state\":\"completed\""));
    // On /v1 every frame, by its blank line, holds a data line.
    chat.reset();
    CHECK_FALSE(contains(chat.pending(), "keep-alive\n\n"));
    CHECK_FALSE(contains(chat.pending(), "\nid:"));
    CHECK_FALSE(contains(chat.pending(), "\nretry:"));
}

TEST_CASE("HTTP/1.0 gets whole answers and a closed connection")
{
    Gateway gateway;
    gateway.device->on_submit = [](FakeRequest& request) {
        request.output = "ok";
        request.phase = AOTX_PHASE_COMPLETED;
        request.finish = AOTX_FINISH_STOP;
    };
    Client client(gateway.port);
    client.send("GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n");
    const Answer answer = client.read();
    CHECK(answer.body == "{\"status\":\"ok\"}");
    CHECK(answer.header("Connection") == "close");
    CHECK(client.closes());
    std::string old = post("/v1/chat/completions", chat_body(",\"stream\":true"));
    old.replace(old.find("HTTP/1.1"), 8, "HTTP/1.0");
    Client stream(gateway.port);
    stream.send(old);
    REQUIRE(stream.wait_for("data: [DONE]\n\n"));
    CHECK_FALSE(contains(stream.pending(), "chunked"));
    stream.take_pending();
    CHECK(stream.closes());
}

TEST_CASE("two hundred streams get every token, in one watch at a time")
{
    Gateway gateway([](aotx::Config& config) {
        config.gateway.connections = 512;
        config.gateway.work = 256;
    });
    gateway.device->on_submit = [](FakeRequest& request) {
        request.output = "a";
        request.phase = AOTX_PHASE_RUNNING;
    };
    std::vector<std::unique_ptr<Client>> clients;
    for (int i = 0; i < 200; i++) {
        clients.push_back(std::make_unique<Client>(gateway.port));
        clients.back()->send(post("/v1/chat/completions", chat_body(",\"stream\":true")));
    }
    for (const auto& client : clients) {
        REQUIRE(client->wait_for("\"content\":\"a\""));
    }
    for (const std::string piece : {"b", "c", "d"}) {
        gateway.device->change_all([&](FakeRequest& request) { request.output += piece; });
        for (const auto& client : clients) {
            REQUIRE(client->wait_for("\"content\":\"" + piece + "\""));
        }
    }
    gateway.device->change_all([](FakeRequest& request) {
        request.phase = AOTX_PHASE_COMPLETED;
        request.finish = AOTX_FINISH_STOP;
    });
    for (const auto& client : clients) {
        CHECK(client->wait_for("data: [DONE]"));
    }
}

#if defined(COUNTS_SENDS)
TEST_CASE("everything that a turn has for a client leaves in one send")
{
    is_test_thread = true;
    Gateway gateway;
    Client client(gateway.port);
    uint64_t before = tcp_sends;
    CHECK(client.ask(kHealth).status == 200);
    CHECK(tcp_sends - before == 1);

    before = tcp_sends;
    client.send(post("/v1/chat/completions",
                     chat_body(",\"stream\":true,\"stream_options\":{\"include_usage\":true}")));
    REQUIRE(client.wait_for("assistant"));
    CHECK(tcp_sends - before == 1);
    for (uint64_t pieces = 1; pieces <= 20; pieces++) {
        gateway.device->produce("piece");
        REQUIRE(client.wait_for("piece"));
        client.take_pending();
        CHECK(tcp_sends - before == 1 + pieces);
    }
    // The last text, the finish, the usage and the end mark are news of one step.
    gateway.device->change([](FakeRequest& request) {
        request.output += "last";
        request.sampled_tokens++;
        request.phase = AOTX_PHASE_COMPLETED;
        request.finish = AOTX_FINISH_STOP;
    });
    REQUIRE(client.wait_for("[DONE]"));
    CHECK(contains(client.pending(), "last"));
    CHECK(tcp_sends - before == 22);

    before = tcp_sends;
    client.take_pending();
    client.send(post("/v1/chat/completions", chat_body()));
    REQUIRE(gateway.device->wait_requests(2));
    gateway.device->produce("one");
    gateway.device->produce("two");
    gateway.device->complete(AOTX_FINISH_STOP);
    CHECK(contains(client.read().body, "onetwo"));
    CHECK(tcp_sends - before == 1);
}
#endif

TEST_CASE("stopping lets an answer in progress end")
{
    Gateway gateway;
    Client client(gateway.port);
    client.send(post("/v1/chat/completions", chat_body()));
    REQUIRE(gateway.device->wait_requests(1));
    std::thread finisher([&] {
        gateway.device->produce("end");
        gateway.device->complete(AOTX_FINISH_STOP);
    });
    gateway.stop();
    finisher.join();
    const Answer answer = client.read();
    CHECK(answer.status == 200);
    Client late(gateway.port);
    CHECK_FALSE(late.connected());
}

TEST_CASE("a Unix socket serves the same, after a kill too, and goes with the gateway")
{
    std::string path;
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    const auto change = [&](aotx::Config& config) {
        path = config.device.socket_path.substr(0, config.device.socket_path.rfind('/')) +
               "/http.sock";
        config.gateway.bind = "unix:" + path;
        std::memcpy(address.sun_path, path.c_str(), path.size());
        // What a gateway leaves behind that was killed.
        const int left = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        REQUIRE(bind(left, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
        close(left);
    };
    Gateway gateway(change);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct stat state = {};
    REQUIRE(stat(path.c_str(), &state) == 0);
    CHECK((state.st_mode & 07777) == 0660);
    REQUIRE(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(send(fd, kHealth.data(), kHealth.size(), MSG_NOSIGNAL) > 0);
    char bytes[1024];
    const ssize_t got = recv(fd, bytes, sizeof bytes, 0);
    REQUIRE(got > 0);
    CHECK(contains(std::string(bytes, static_cast<size_t>(got)), "{\"status\":\"ok\"}"));
    close(fd);
    gateway.stop();
    CHECK(access(path.c_str(), F_OK) != 0);
}

TEST_CASE("an address that others reach needs a certificate")
{
    Gateway gateway({}, false);
    aotx::Config config = gateway.config;
    config.gateway.bind = "0.0.0.0:0";
    aotx::Server server;
    std::string error;
    CHECK(server.open(config, &error) == AOTX_ERR_RANGE);
    CHECK(contains(error, "certificate"));
    for (const char* bind : {"localhost:1", "127.0.0.1", "127.0.0.1:http", ":::1", "unix:"}) {
        config.gateway.bind = bind;
        aotx::Server other;
        CHECK(other.open(config, &error) != AOTX_OK);
    }
}

namespace {

// A self-signed certificate in two files of the folder.
void certificate_make(const std::string& certificate_path, const std::string& key_path)
{
    EVP_PKEY* const key = EVP_EC_gen("P-256");
    X509* const certificate = X509_new();
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    X509_set_pubkey(certificate, key);
    X509_NAME* const name = X509_get_subject_name(certificate);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>("localhost"), -1, -1, 0);
    X509_set_issuer_name(certificate, name);
    X509_sign(certificate, key, EVP_sha256());
    FILE* file = fopen(certificate_path.c_str(), "w");
    PEM_write_X509(file, certificate);
    fclose(file);
    file = fopen(key_path.c_str(), "w");
    PEM_write_PrivateKey(file, key, nullptr, nullptr, 0, nullptr, nullptr);
    fclose(file);
    X509_free(certificate);
    EVP_PKEY_free(key);
}

std::string tls_ask(uint16_t port, const std::string& bytes, const std::string& until)
{
    Client client(port);
    SSL_CTX* const context = SSL_CTX_new(TLS_client_method());
    SSL* const session = SSL_new(context);
    SSL_set_fd(session, client.fd());
    std::string in;
    if (SSL_connect(session) == 1) {
        SSL_write(session, bytes.data(), static_cast<int>(bytes.size()));
        char buffer[4096];
        while (in.find(until) == std::string::npos) {
            const int got = SSL_read(session, buffer, sizeof buffer);
            if (got <= 0) {
                break;
            }
            in.append(buffer, static_cast<size_t>(got));
        }
    }
    SSL_free(session);
    SSL_CTX_free(context);
    return in;
}

}  // namespace

TEST_CASE("TLS: the same answers, large ones and streams too, and no plain text")
{
    signal(SIGPIPE, SIG_IGN);
    Gateway gateway([](aotx::Config& config) {
        const std::string folder =
            config.device.socket_path.substr(0, config.device.socket_path.rfind('/'));
        config.gateway.certificate_path = folder + "/certificate.pem";
        config.gateway.key_path = folder + "/key.pem";
        certificate_make(config.gateway.certificate_path, config.gateway.key_path);
    });
    CHECK(contains(tls_ask(gateway.port, kHealth, "ok\"}"), "HTTP/1.1 200 OK"));
    gateway.device->on_submit = [](FakeRequest& request) {
        request.output = std::string(60000, 'x') + "end";
        request.phase = AOTX_PHASE_COMPLETED;
        request.finish = AOTX_FINISH_STOP;
    };
    const std::string plain =
        tls_ask(gateway.port, post("/v1/chat/completions", chat_body()), "total_tokens");
    CHECK(contains(plain, "xxxend\""));
    const std::string stream = tls_ask(
        gateway.port, post("/v1/chat/completions", chat_body(",\"stream\":true")), "[DONE]");
    CHECK(contains(stream, "data: [DONE]"));
    std::string body = chat_body();
    body.insert(body.size() - 1, std::string(300000, ' '));
    CHECK(contains(tls_ask(gateway.port, post("/aotx/v1/requests", body), "}"), "202 Accepted"));
    Client naked(gateway.port);
    naked.send(kHealth);
    naked.fill();
    CHECK_FALSE(contains(naked.pending(), "HTTP/1.1 200"));
}
