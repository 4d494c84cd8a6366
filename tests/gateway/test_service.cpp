// Purpose:  every route of the gateway against a device that keeps the contract.
// Owns:     nothing.
// Thread:   the test's.
// Lifetime: one run.
#include <fcntl.h>

#include "gateway_fixture.h"
#include "service/base/base64.h"

namespace {

bool contains(const std::string& text, const std::string& part)
{
    return text.find(part) != std::string::npos;
}

std::string content_of(const std::vector<std::string>& lines)
{
    std::string joined;
    for (const std::string& line : lines) {
        const size_t at = line.find("\"delta\":{\"content\":\"");
        if (at != std::string::npos) {
            const size_t begin = at + 20;
            joined += line.substr(begin, line.find("\"}", begin) - begin);
        }
    }
    return joined;
}

}  // namespace

TEST_CASE("health is served without a credential and carries the common headers")
{
    Gateway gateway;
    Client client(gateway.port);
    for (int i = 0; i < 3; i++) {
        const Answer answer = client.ask("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
        CHECK(answer.status == 200);
        CHECK(answer.body == "{\"status\":\"ok\"}");
        CHECK(answer.header("Cache-Control") == "no-store");
        CHECK(answer.header("X-Content-Type-Options") == "nosniff");
        CHECK(answer.header("Vary") == "Origin");
        CHECK(answer.header("Content-Type") == "application/json");
    }
    // A HEAD has no body, so what follows its head is the next answer.
    client.send(
        "HEAD /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
        "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    REQUIRE(client.wait_for("\r\n\r\n{\"status\":\"ok\"}"));
    CHECK(contains(client.pending(), "Content-Length: 15\r\n\r\nHTTP/1.1 200 OK\r\n"));
}

TEST_CASE("models, capabilities, telemetry and policy tell what the device tells")
{
    Gateway gateway;
    const Answer models = gateway.ask(get("/v1/models"));
    CHECK(models.status == 200);
    CHECK(models.body ==
          "{\"object\":\"list\",\"data\":[{\"id\":\"tiny\",\"object\":\"model\",\"created\":"
          "1700000000,\"owned_by\":\"aotx\",\"automatic_memory\":false}]}");
    const Answer capabilities = gateway.ask(get("/aotx/v1/capabilities"));
    CHECK(capabilities.status == 200);
    CHECK(contains(capabilities.body, "\"schema\":\"aotx.capabilities.v1\""));
    CHECK(contains(capabilities.body, "\"runtime_epoch\":\"81985529216486895\""));
    CHECK(contains(capabilities.body, "\"lineage\":null"));
    CHECK(contains(capabilities.body, "\"execution_slots\":16"));
    CHECK(contains(capabilities.body, "\"input\":[\"text\"]"));
    const Answer telemetry = gateway.ask(get("/aotx/v1/telemetry"));
    CHECK(telemetry.body ==
          "{\"schema\":\"aotx.telemetry.v1\",\"runtime_epoch\":\"81985529216486895\",\"lineage\":"
          "null,\"sample\":{\"service_allocation_bytes\":\"123456789\",\"tick\":\"42\","
          "\"clock_nanoseconds\":\"18446744073709551615\"},\"affect\":null,\"expression\":null}");
    CHECK(gateway.ask(get("/aotx/v1/telemetry", kTokenBare)).status == 403);
    const Answer policy = gateway.ask(get("/aotx/v1/policy"));
    CHECK(policy.status == 200);
    CHECK(contains(policy.body, "\"state\":\"off\""));
    CHECK(contains(policy.body, "\"reason\":\"disabled\""));
    const std::string write =
        "{\"action\":\"pause\",\"epoch\":\"81985529216486895\",\"control_revision\":\"0\"}";
    CHECK(gateway.ask(post("/aotx/v1/policy", write)).status == 503);
    const Answer forbidden = gateway.ask(post("/aotx/v1/policy", write, kTokenBare));
    CHECK(forbidden.status == 403);
    CHECK(contains(forbidden.body, "\"code\":\"policy_permission\""));
    const Answer metrics = gateway.ask(get("/metrics"));
    CHECK(metrics.status == 200);
    CHECK(contains(metrics.body, "aotx_device_up 1\n"));
    CHECK(gateway.ask(get("/metrics", kTokenBare)).status == 403);
}

TEST_CASE("capabilities, readiness and metrics say which device serves, and why")
{
    Gateway gateway;
    CHECK(contains(gateway.ask(get("/aotx/v1/capabilities")).body,
                   "\"device\":{\"kind\":\"cpu\",\"name\":\"a \\\"fake\\\" CPU\",\"restarts\":2,"
                   "\"reason\":\"no CUDA driver (35)\"}"));
    Client client(gateway.port);
    const std::string ready = "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    CHECK(client.ask(ready).body == "{\"status\":\"ready\",\"device\":\"cpu\"}");
    const std::string metrics = gateway.ask(get("/metrics")).body;
    CHECK(contains(metrics, "aotx_device_info{kind=\"cpu\"} 1\n"));
    CHECK(contains(metrics, "aotx_device_restarts_total 2\n"));
    gateway.device->down = true;
    CHECK(client.ask(ready).status == 503);
    gateway.device->down = false;
    // A device that does not know the question serves all the same.
    gateway.device->knows_device = false;
    CHECK(client.ask(ready).body == "{\"status\":\"ready\"}");
    CHECK(contains(gateway.ask(get("/aotx/v1/capabilities")).body, "\"device\":null"));
    CHECK(!contains(gateway.ask(get("/metrics")).body, "aotx_device_info"));
}

TEST_CASE("a model without a publication time has the one of its file")
{
    std::string path;
    Gateway gateway([&](aotx::Config& config) {
        path = config.device.grants_path + ".model";
        std::ofstream(path) << "weights";
        const timespec times[2] = {{1600000000, 0}, {1600000000, 0}};
        REQUIRE(utimensat(AT_FDCWD, path.c_str(), times, 0) == 0);
        config.models[0].published_at = 0;
        config.models[0].path = path;
    });
    CHECK(contains(gateway.ask(get("/v1/models")).body, "\"created\":1600000000,"));
    CHECK(contains(gateway.ask(get("/aotx/v1/capabilities")).body, "\"published_at\":1600000000,"));
}

TEST_CASE("a plain completion waits for the end and answers once")
{
    Gateway gateway;
    Client client(gateway.port);
    client.send(post("/v1/chat/completions", chat_body(",\"max_tokens\":5")));
    REQUIRE(gateway.device->wait_requests(1));
    gateway.device->produce("Paris ");
    gateway.device->produce("\"is\"\n it.");
    gateway.device->complete(AOTX_FINISH_LENGTH);
    const Answer answer = client.read();
    CHECK(answer.status == 200);
    CHECK(contains(answer.body, "\"content\":\"Paris \\\"is\\\"\\n it.\""));
    CHECK(contains(answer.body, "\"finish_reason\":\"length\""));
    CHECK(contains(answer.body,
                   "\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":2,"
                   "\"total_tokens\":9}"));
    const FakeRequest request = gateway.device->last();
    CHECK(request.output_tokens == 5);
    CHECK(answer.header("X-Request-ID") == "req-0123456789abcdef-" + hex_of(request.id.data(), 16));
    CHECK(contains(answer.body, "\"id\":\"chatcmpl-" + hex_of(request.id.data(), 16) + "\""));
    // The packet: one message, user, one text part of five bytes.
    CHECK(request.payload == std::string("\1\0\0\0\1\0\0\0\1\0\0\0\0\0\0\0\5\0\0\0hello", 25));
    // The same connection goes on.
    CHECK(client.ask(get("/v1/models")).status == 200);
}

TEST_CASE("a streamed completion: role, content, finish, usage, end mark")
{
    Gateway gateway;
    Client client(gateway.port);
    client.send(post("/v1/chat/completions",
                     chat_body(",\"stream\":true,\"stream_options\":{\"include_usage\":true}")));
    REQUIRE(gateway.device->wait_requests(1));
    REQUIRE(client.wait_for("\"role\":\"assistant\""));
    gateway.device->produce("\xf0\x9f");
    gateway.device->produce("\x98\x80");
    REQUIRE(client.wait_for("\xf0\x9f\x98\x80"));  // before the end: nothing waits for more
    gateway.device->produce("\xe4");
    gateway.device->produce("\xbd\xa0");
    gateway.device->produce("\xe4");
    gateway.device->complete(AOTX_FINISH_STOP);
    const Answer answer = client.read();
    CHECK(answer.status == 200);
    CHECK(answer.header("Content-Type") == "text/event-stream");
    CHECK(answer.header("X-Accel-Buffering") == "no");
    CHECK(answer.header("X-Request-ID").size() == 53);
    const std::vector<std::string> lines = data_lines(answer.body);
    REQUIRE(lines.size() >= 5);
    CHECK(contains(lines.front(), "\"delta\":{\"role\":\"assistant\",\"content\":\"\"}"));
    CHECK(content_of(lines) == "\xf0\x9f\x98\x80\xe4\xbd\xa0\xef\xbf\xbd");
    CHECK(lines.back() == "[DONE]");
    const std::string& usage = lines[lines.size() - 2];
    CHECK(contains(usage, "\"choices\":[]"));
    CHECK(contains(usage, "\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":5,"));
    const std::string& finish = lines[lines.size() - 3];
    CHECK(contains(finish, "\"delta\":{},\"finish_reason\":\"stop\""));
    size_t finishes = 0;
    for (size_t i = 0; i + 2 < lines.size(); i++) {
        CHECK(contains(lines[i], "\"usage\":null"));
        finishes += contains(lines[i], "\"finish_reason\":null") ? 0 : 1;
    }
    CHECK(finishes == 1);
    CHECK(client.ask(get("/v1/models")).status == 200);
}

TEST_CASE("usage comes only when it is asked for")
{
    Gateway gateway;
    gateway.device->on_submit = [](FakeRequest& request) {
        request.output = "ok";
        request.sampled_tokens = 1;
        request.phase = AOTX_PHASE_COMPLETED;
        request.finish = AOTX_FINISH_STOP;
    };
    for (const char* more :
         {",\"stream\":true", ",\"stream\":true,\"stream_options\":{\"include_usage\":false}"}) {
        const Answer answer = gateway.ask(post("/v1/chat/completions", chat_body(more)));
        CHECK(answer.status == 200);
        CHECK(!contains(answer.body, "usage"));
        CHECK(data_lines(answer.body).back() == "[DONE]");
    }
    const Answer refused = gateway.ask(
        post("/v1/chat/completions",
             chat_body(",\"stream\":false,\"stream_options\":{\"include_usage\":true}")));
    CHECK(refused.status == 400);
    CHECK(contains(refused.body, "\"param\":\"stream_options\""));
}

TEST_CASE("a token limit above the grant's is refused under the name that it came by")
{
    Gateway gateway;  // its grants permit 100
    for (const std::string name : {"max_tokens", "max_completion_tokens"}) {
        for (const char* path : {"/v1/chat/completions", "/aotx/v1/requests"}) {
            const Answer answer = gateway.ask(post(path, chat_body(",\"" + name + "\":101")));
            CHECK(answer.status == 400);
            CHECK(contains(answer.body, "\"param\":\"" + name + "\""));
            CHECK(gateway.device->request_count() == 0);
        }
    }
}

TEST_CASE("a fault or a cancellation is an error and never a finish")
{
    struct Row {
        uint32_t phase;
        uint32_t status;
        int http;
        const char* code;
        const char* output = "partial";
    };
    const Row rows[] = {{AOTX_PHASE_CANCELLED, 409, 409, "request_cancelled"},
                        {AOTX_PHASE_FAILED, 503, 503, "request_failed"},
                        {AOTX_PHASE_FAILED, 504, 504, "response_timeout"},
                        {AOTX_PHASE_FAILED, 413, 413, "output_limit"},
                        {AOTX_PHASE_FAILED, 413, 413, "context_limit", ""},
                        {AOTX_PHASE_FAILED, 403, 403, "device_refused"}};
    for (const Row& row : rows) {
        Gateway gateway;
        gateway.device->on_submit = [&](FakeRequest& request) {
            request.output = row.output;
            request.phase = row.phase;
            request.failure = row.status;
        };
        const Answer plain = gateway.ask(post("/v1/chat/completions", chat_body()));
        CHECK(plain.status == row.http);
        CHECK(contains(plain.body, std::string("\"code\":\"") + row.code + "\""));
        CHECK(plain.header("X-Request-ID").size() == 53);
        const Answer stream =
            gateway.ask(post("/v1/chat/completions", chat_body(",\"stream\":true")));
        CHECK(stream.status == 200);
        const std::vector<std::string> lines = data_lines(stream.body);
        CHECK(content_of(lines) == row.output);
        CHECK(contains(lines.back(), std::string("\"code\":\"") + row.code + "\""));
        CHECK(!contains(stream.body, "\"finish_reason\":\""));
    }
}

TEST_CASE("native: admission, windows at every cursor, cancellation")
{
    Gateway gateway;
    const Answer admitted = gateway.ask(post("/aotx/v1/requests", chat_body()));
    REQUIRE(admitted.status == 202);
    const std::string handle = admitted.header("X-Request-ID");
    CHECK(admitted.body == "{\"schema\":\"aotx.admission.v1\",\"id\":\"" + handle +
                               "\",\"runtime_epoch\":\"81985529216486895\",\"state\":\"accepted\","
                               "\"persistence\":\"ephemeral\",\"media\":[]}");
    gateway.device->produce("\xf0\x9f\x98\x80z");
    Client client(gateway.port);
    const Answer read = client.ask(get("/aotx/v1/requests/" + handle));
    CHECK(read.body ==
          "{\"schema\":\"aotx.request.v1\",\"id\":\"" + handle +
              "\",\"runtime_epoch\":\"81985529216486895\",\"model_role\":2,\"state\":\"running\","
              "\"cancel_requested\":false,\"status\":0,\"persistence\":\"ephemeral\",\"usage\":"
              "{\"prompt_tokens\":7,\"completion_tokens\":1,\"total_tokens\":8},"
              "\"finish_reason\":null,\"output\":{\"encoding\":\"base64\",\"bytes\":\"8J+YgHo=\","
              "\"cursor\":\"0\",\"next_cursor\":\"5\",\"total_bytes\":\"5\"}}");
    CHECK(contains(client.ask(get("/aotx/v1/requests/" + handle + "?cursor=2")).body,
                   "\"bytes\":\"mIB6\",\"cursor\":\"2\",\"next_cursor\":\"5\""));
    CHECK(contains(client.ask(get("/aotx/v1/requests/" + handle + "?cursor=5")).body,
                   "\"bytes\":\"\",\"cursor\":\"5\""));
    CHECK(client.ask(get("/aotx/v1/requests/" + handle + "?cursor=6")).status == 409);
    for (const char* query : {"?cursor=", "?cursor=01", "?cursor=-1", "?cursor=1&cursor=1", "?x=1",
                              "?cursor=18446744073709551616", "?"}) {
        CHECK(client.ask(get("/aotx/v1/requests/" + handle + query)).status == 400);
    }
    for (int i = 0; i < 2; i++) {
        const Answer cancel = client.ask(post("/aotx/v1/requests/" + handle + "/cancel", "{}"));
        CHECK(cancel.status == 200);
        CHECK(contains(cancel.body, "\"cancel_requested\":true"));
        CHECK(contains(cancel.body, "\"state\":\"running\""));
    }
    CHECK(client.ask(post("/aotx/v1/requests/" + handle + "/cancel", "{\"a\":1}")).status == 400);
}

TEST_CASE("native: windows of every width at every byte, wherever characters are cut")
{
    Gateway gateway;
    const std::string handle = gateway.submit();
    const std::string whole = "\xf0\x9f\x98\x80\xe4\xbd\xa0\xe4";
    Client client(gateway.port);
    for (size_t cursor = 0; cursor <= whole.size(); cursor++) {
        for (const size_t width : {size_t{1}, size_t{2}, size_t{3}, size_t{5}}) {
            const std::string window = whole.substr(cursor, width);
            gateway.device->change(
                [&](FakeRequest& request) { request.output = whole.substr(0, cursor) + window; });
            const Answer answer = client.ask(
                get("/aotx/v1/requests/" + handle + "?cursor=" + std::to_string(cursor)));
            std::string base64(aotx::base64_characters(window.size()), '\0');
            aotx::base64_encode(reinterpret_cast<const uint8_t*>(window.data()), window.size(),
                                base64.data());
            CHECK(contains(answer.body, "\"bytes\":\"" + base64 + "\",\"cursor\":\"" +
                                            std::to_string(cursor) + "\",\"next_cursor\":\"" +
                                            std::to_string(cursor + window.size()) + "\""));
        }
    }
}

TEST_CASE("a handle of somebody else looks like one that never was")
{
    Gateway gateway;
    const std::string handle = gateway.submit();
    std::string upper = handle;
    for (char& byte : upper) {
        byte = byte >= 'a' && byte <= 'f' ? static_cast<char>(byte - 32) : byte;
    }
    std::string other = handle;
    other.back() = other.back() == '0' ? '1' : '0';
    const std::string gone = "req-0000000000000001" + handle.substr(20);
    const std::string paths[] = {handle, other, upper, handle + "%30", handle + "0"};
    std::string first;
    for (const std::string& path : paths) {
        for (const char* suffix : {"", "?cursor=0", "/events", "/events?cursor=0"}) {
            const Answer answer = gateway.ask(get("/aotx/v1/requests/" + path + suffix, kTokenTwo));
            CHECK(answer.status == 404);
            first = first.empty() ? answer.body : first;
            CHECK(answer.body == first);
        }
        const Answer cancel =
            gateway.ask(post("/aotx/v1/requests/" + path + "/cancel", "{}", kTokenTwo));
        CHECK(cancel.status == 404);
        CHECK(cancel.body == first);
    }
    CHECK(gateway.ask(get("/aotx/v1/requests/" + handle + "/")).status == 404);
    CHECK(gateway.ask(get("/aotx/v1/requests/" + gone)).status == 410);
    CHECK(gateway.ask(get("/aotx/v1/requests/" + handle)).status == 200);
    CHECK(gateway.device->cancels == 0);
}

TEST_CASE("events: emissions, one terminal status, resume at every byte in both forms")
{
    Gateway gateway;
    const std::string handle = gateway.submit();
    Client client(gateway.port);
    client.send(get("/aotx/v1/requests/" + handle + "/events"));
    REQUIRE(client.wait_for("\"state\":\"queued\""));
    gateway.device->produce("abc");
    REQUIRE(client.wait_for("\"bytes\":\"YWJj\""));
    gateway.device->produce("defg");
    gateway.device->complete(AOTX_FINISH_STOP);
    const Answer answer = client.read();
    CHECK(contains(answer.body,
                   "event: emission\nid: " + handle +
                       ":3\ndata: {\"schema\":\"aotx.emission.v1\","
                       "\"request_id\":\"" +
                       handle +
                       "\",\"runtime_epoch\":\"81985529216486895\",\"source_kind\":\"model\","
                       "\"model_role\":2,\"offset\":\"0\",\"next_cursor\":\"3\",\"encoding\":"
                       "\"base64\",\"bytes\":\"YWJj\"}\n\n"));
    CHECK(contains(answer.body, "id: " + handle + ":7\n"));
    const size_t terminal = answer.body.find("\"state\":\"completed\"");
    CHECK(terminal != std::string::npos);
    CHECK(answer.body.find("\"state\":\"completed\"", terminal + 1) == std::string::npos);
    CHECK(terminal > answer.body.rfind("event: emission"));
    CHECK(!contains(answer.body, "[DONE]"));
    const char* const rest[] = {
        "YWJjZGVmZw==", "YmNkZWZn", "Y2RlZmc=", "ZGVmZw==", "ZWZn", "Zmc=", "Zw=="};
    for (int cursor = 0; cursor <= 7; cursor++) {
        const std::string number = std::to_string(cursor);
        const Answer by_query =
            gateway.ask(get("/aotx/v1/requests/" + handle + "/events?cursor=" + number));
        const Answer by_header =
            gateway.ask(get("/aotx/v1/requests/" + handle + "/events", kTokenOne,
                            "Last-Event-ID: " + handle + ":" + number + "\r\n"));
        CHECK(by_query.body == by_header.body);
        if (cursor < 7) {
            CHECK(contains(by_query.body, std::string("\"bytes\":\"") + rest[cursor] + "\""));
        } else {
            CHECK(!contains(by_query.body, "emission"));
        }
        CHECK(contains(by_query.body, "\"state\":\"completed\""));
    }
    const std::string event_id = "Last-Event-ID: " + handle + ":1\r\n";
    CHECK(gateway.ask(get("/aotx/v1/requests/" + handle + "/events?cursor=1", kTokenOne, event_id))
              .status == 400);
    CHECK(gateway.ask(get("/aotx/v1/requests/" + handle + "/events?cursor=8")).status == 409);
    CHECK(gateway
              .ask(get("/aotx/v1/requests/" + handle + "/events", kTokenOne,
                       "Last-Event-ID: junk\r\n"))
              .status == 400);
}

TEST_CASE("a reader that leaves cancels nothing; a half-closed one gets its answer")
{
    Gateway gateway;
    {
        Client client(gateway.port);
        client.send(post("/v1/chat/completions", chat_body(",\"stream\":true")));
        REQUIRE(client.wait_for("assistant"));
        client.reset();
    }
    gateway.device->produce("text");
    Client half(gateway.port);
    half.send(post("/v1/chat/completions", chat_body()));
    half.finish_sending();
    REQUIRE(gateway.device->wait_requests(2));
    gateway.device->produce("for the half-closed");
    gateway.device->complete(AOTX_FINISH_STOP);
    CHECK(contains(half.read().body, "for the half-closed"));
    CHECK(half.closes());
    CHECK(gateway.device->cancels == 0);
}

TEST_CASE("the device goes away and comes back")
{
    Gateway gateway;
    const std::string handle = gateway.submit();
    Client stream(gateway.port);
    stream.send(post("/v1/chat/completions", chat_body(",\"stream\":true")));
    REQUIRE(stream.wait_for("assistant"));
    Client plain(gateway.port);
    plain.send(post("/v1/chat/completions", chat_body()));
    REQUIRE(gateway.device->wait_requests(3));
    CHECK(gateway.ask("GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n").status == 200);
    gateway.device->stop();
    const Answer cut = stream.read();
    CHECK(contains(data_lines(cut.body).back(), "\"code\":\"device_connection\""));
    const Answer lost = plain.read();
    CHECK(lost.status == 503);
    CHECK(lost.header("X-Request-ID").size() == 53);
    CHECK(lost.header("Retry-After") == "1");
    CHECK(gateway.ask("GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n").status == 503);
    CHECK(gateway.ask("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").status == 200);
    CHECK(contains(gateway.ask(get("/metrics")).body, "aotx_device_up 0"));
    gateway.device->restart(kEpoch + 1);
    int status = 0;
    for (int i = 0; i < 400 && status != 200; i++) {
        status = gateway.ask("GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n").status;
        poll(nullptr, 0, 10);
    }
    CHECK(status == 200);
    CHECK(gateway.ask(get("/aotx/v1/requests/" + handle)).status == 410);
    CHECK(gateway.submit().compare(0, 20, "req-0123456789abcdf0") == 0);
}

TEST_CASE("a gateway that was killed serves every handle of the same epoch")
{
    Gateway gateway;
    const std::string handle = gateway.submit();
    gateway.device->produce("before");
    gateway.stop();
    gateway.start();
    gateway.device->produce("after");
    gateway.device->complete(AOTX_FINISH_STOP);
    const Answer answer = gateway.ask(get("/aotx/v1/requests/" + handle + "/events?cursor=6"));
    CHECK(contains(answer.body, "\"bytes\":\"YWZ0ZXI=\""));
}

TEST_CASE("a new grant revision is taken over without a restart")
{
    Gateway gateway;
    CHECK(gateway.ask(get("/v1/models")).status == 200);
    gateway.grants_write(2);
    gateway.device_grants(2);
    CHECK(gateway.ask(get("/v1/models")).status == 200);  // by the refusal of the stale one
    gateway.submit();
    CHECK(gateway.device->last().revision == 2);
    gateway.grants_write(3);
    gateway.device_grants(3);
    gateway.server->reload();
    CHECK(gateway.ask(get("/v1/models")).status == 200);
}

TEST_CASE("a submission under a stale grant is sent again as the new one has it")
{
    // The gateway has heard nothing of the device yet, so the epoch is news to it as well.
    Gateway gateway;
    gateway.grants_write(2, 50);
    gateway.device_grants(2);
    const std::string handle = gateway.submit();
    CHECK(handle.compare(0, 21, "req-0123456789abcdef-") == 0);
    CHECK(gateway.device->last().revision == 2);
    CHECK(gateway.device->last().output_tokens == 50);
}

TEST_CASE("refusals of a submission")
{
    struct Row {
        uint32_t device;
        int status;
        const char* code;
        const char* type;
    };
    const Row rows[] = {{400, 400, "device_refused", "invalid_request_error"},
                        {404, 404, "model_not_found", "invalid_request_error"},
                        {409, 409, "device_refused", "invalid_request_error"},
                        {413, 413, "context_limit", "invalid_request_error"},
                        {429, 429, "device_refused", "rate_limit_error"},
                        {503, 503, "device_refused", "server_error"},
                        {999, 503, "invalid_device_response", "server_error"}};
    Gateway gateway;
    for (const Row& row : rows) {
        gateway.device->submit_status = row.device;
        for (const char* path : {"/v1/chat/completions", "/aotx/v1/requests"}) {
            const Answer answer = gateway.ask(post(path, chat_body()));
            CHECK(answer.status == row.status);
            CHECK(contains(answer.body, std::string("\"code\":\"") + row.code + "\""));
            CHECK(contains(answer.body, std::string("\"type\":\"") + row.type + "\""));
            const bool later = row.status == 429 || row.status == 503;
            CHECK(answer.header("Retry-After") == (later ? "1" : ""));
        }
    }
}

TEST_CASE("media routes check shape and grant, then tell the device's answer")
{
    Gateway gateway;
    const std::string id = "media-0123456789abcdef0123456789abcdef";
    CHECK(gateway.ask(get("/aotx/v1/media")).status == 503);
    CHECK(gateway.ask(get("/aotx/v1/media?cursor=0", kTokenBare)).status == 403);
    CHECK(gateway.ask(get("/aotx/v1/media/" + id)).status == 503);
    CHECK(gateway.ask(get("/aotx/v1/media/media-xyz")).status == 404);
    CHECK(gateway
              .ask("DELETE /aotx/v1/media/" + id +
                   " HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer " + kTokenOne +
                   "\r\n\r\n")
              .status == 503);
    const std::string upload =
        "POST /aotx/v1/media HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer " + kTokenOne +
        "\r\nContent-Type: ";
    CHECK(gateway.ask(upload + "image/jpeg\r\nContent-Length: 3\r\n\r\nabc").status == 503);
    CHECK(contains(gateway.ask(upload + "image/png\r\nContent-Length: 3\r\n\r\nabc").body,
                   "\"code\":\"media_type\""));
    CHECK(
        gateway.ask(post("/aotx/v1/media/import", "{\"url\":\"https://example.com/a\"}")).status ==
        503);
    CHECK(gateway
              .ask(post("/aotx/v1/media/import", "{\"url\":\"https://example.com/a\"}", kTokenBare))
              .status == 403);
    CHECK(contains(gateway.ask(post("/aotx/v1/media/import", "{\"url\":\"file:///etc/x\"}")).body,
                   "\"code\":\"url_forbidden\""));
    const std::string native =
        "{\"model\":\"tiny\",\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"media\","
        "\"media_id\":\"" +
        id + "\",\"modality\":\"image\"}]}]}";
    CHECK(gateway.ask(post("/aotx/v1/requests", native)).status == 503);
    CHECK(gateway.ask(post("/v1/chat/completions", native)).status == 400);
    const std::string image =
        "{\"model\":\"tiny\",\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":"
        "\"image_url\",\"image_url\":{\"url\":\"data:image/jpeg;base64,/9j/4A==\"}}]}]}";
    CHECK(gateway.ask(post("/v1/chat/completions", image)).status == 503);
    CHECK(gateway.ask(post("/v1/chat/completions", image, kTokenBare)).status == 403);
}
