// Purpose:  requests through the whole loop: admission, stepping, output, ends, both levels.
// Owns:     nothing.
// Thread:   main, as the broker.
// Lifetime: one run.
#include "harness.h"

using namespace aotx_test;

namespace {
const Id kAnn = id_of(11);
const Id kBob = id_of(12);
const char* const kFive = R"({"pieces":["61","62","63","64","65"]})";
const char* const kFour = R"({"pieces":["61","62","63","64"]})";
const char* const kEndless = R"({"pieces":[{"hex":"61","delay_ms":2}],"repeat":true})";
}  // namespace

TEST_CASE("a request is admitted, runs and can be read in windows")
{
    for (const char* options :
         {R"({"level":"batched"})", R"({"level":"plain"})", R"({"samples":true})"}) {
        INFO(options);
        Device device({}, {options});
        device.grant(1, {kAnn});
        const Reply admitted = device.submit(kAnn, id_of(1), "hello");
        CHECK(admitted.head.status == 202);
        CHECK(admitted.head.phase == AOTX_PHASE_QUEUED);
        CHECK(admitted.head.runtime_epoch == Device::kEpoch);
        CHECK(std::memcmp(admitted.head.id, id_of(1).bytes, 16) == 0);
        const Reply done = device.finish(kAnn, id_of(1));
        CHECK(done.head.status == 200);
        CHECK(done.head.phase == AOTX_PHASE_COMPLETED);
        CHECK(done.head.finish == AOTX_FINISH_STOP);
        CHECK(done.head.sampled_tokens == 5);
        CHECK(done.text() == "This answer is scripted.");
        for (uint32_t cursor = 0; cursor <= done.payload.size(); cursor++) {
            const Reply window = device.read(kAnn, id_of(1), cursor);
            CHECK(window.head.status == 200);
            CHECK(window.head.cursor == cursor);
            CHECK(window.text() == done.text().substr(cursor));
        }
        CHECK(device.read(kAnn, id_of(1), done.payload.size() + 1u).head.status == 409);
    }
}

TEST_CASE("finish reason: limit, end before the limit, end exactly at it, full context")
{
    const struct {
        const char* name;
        const char* options;
        uint32_t limit;
        uint32_t finish;
        uint32_t sampled;
        const char* text;
    } rows[] = {
        {"never ends", R"({"pieces":["61"],"never_end":true})", 5, AOTX_FINISH_LENGTH, 5, "aaaaa"},
        {"ends before", kFour, 5, AOTX_FINISH_STOP, 4, "abcd"},
        {"ends exactly at the limit", kFive, 5, AOTX_FINISH_LENGTH, 5, "abcde"},
        // start, user, "hi", message end, assistant: 6 tokens of prompt leave 4 of 10.
        {"context full", R"({"pieces":["61"],"never_end":true,"sequence_tokens":10})", 50,
         AOTX_FINISH_LENGTH, 4, "aaaa"},
        // Pages: the pool holds 8 tokens, the prompt takes 6.
        {"pages full",
         R"({"pieces":["61"],"never_end":true,"sequence_tokens":64,"page_tokens":4,"kv_tokens":8})",
         50, AOTX_FINISH_LENGTH, 2, "aa"},
    };
    for (const auto& row : rows) {
        INFO(row.name);
        Device device({}, {row.options});
        device.grant(1, {kAnn});
        REQUIRE(device.submit(kAnn, id_of(1), "hi", row.limit).head.status == 202);
        const Reply done = device.finish(kAnn, id_of(1));
        CHECK(done.head.phase == AOTX_PHASE_COMPLETED);
        CHECK(done.head.finish == row.finish);
        CHECK(done.head.sampled_tokens == row.sampled);
        CHECK(done.head.prompt_tokens == 6);
        CHECK(done.text() == row.text);
    }
}

TEST_CASE("the tokens that are fed are those of the rendered messages")
{
    Device device({}, {R"({"echo":true,"sequences":2,"step_tokens":2})"});
    device.grant(1, {kAnn});
    REQUIRE(device.submit(kAnn, id_of(1), "hi").head.status == 202);
    const Reply done = device.finish(kAnn, id_of(1));
    CHECK(done.text() == "256 258 104 105 260 259");
    CHECK(done.head.prompt_tokens == 6);
}

TEST_CASE("failures: step, render, output capacity")
{
    aotx::LoopConfig small;
    small.output_bytes_max = 256;
    const struct {
        const char* name;
        const char* options;
        uint32_t failure;
        size_t bytes;
    } rows[] = {
        {"the third step fails", R"({"pieces":["61"],"never_end":true,"fail_step":3})", 503, 2},
        {"render fails", R"({"fail_render":true})", 503, 0},
        {"output capacity", R"({"pieces":["616263"],"never_end":true})", 413, 255},
        {"plain: output capacity", R"({"level":"plain","pieces":["616263"],"never_end":true})", 413,
         255},
        {"plain: the third step fails",
         R"({"level":"plain","pieces":["61"],"never_end":true,"fail_step":3})", 503, 1},
        {"no room for an answer", R"({"sequence_tokens":6})", 413, 0},
    };
    for (const auto& row : rows) {
        INFO(row.name);
        Device device(small, {row.options});
        device.grant(1, {kAnn});
        REQUIRE(device.submit(kAnn, id_of(1), "hi", 1000).head.status == 202);
        const Reply done = device.finish(kAnn, id_of(1));
        CHECK(done.head.phase == AOTX_PHASE_FAILED);
        CHECK(done.head.failure_status == row.failure);
        CHECK(done.head.finish == AOTX_FINISH_NONE);
        CHECK(done.payload.size() == row.bytes);
        // The device goes on: the next request of the same principal is admitted.
        CHECK(device.submit(kAnn, id_of(2), "hi", 1).head.status == 202);
    }
}

TEST_CASE("cancellation ends a running request at the next token and a queued one at once")
{
    aotx::LoopConfig config;
    config.execution_slots = 1;
    Device device(config, {kEndless});
    device.grant(1, {kAnn, kBob});
    REQUIRE(device.submit(kAnn, id_of(1), "x").head.status == 202);
    REQUIRE(device.submit(kBob, id_of(2), "y").head.status == 202);
    const Reply queued = device.cancel(kBob, id_of(2));
    CHECK(queued.head.status == 200);
    CHECK(queued.head.phase == AOTX_PHASE_CANCELLED);
    CHECK(queued.head.failure_status == 409);
    CHECK(queued.head.cancel_requested == 1);
    CHECK(queued.head.sampled_tokens == 0);
    const Reply running = device.cancel(kAnn, id_of(1));
    CHECK(running.head.status == 200);
    CHECK(running.head.cancel_requested == 1);
    const Reply done = device.finish(kAnn, id_of(1));
    CHECK(done.head.phase == AOTX_PHASE_CANCELLED);
    CHECK(done.head.failure_status == 409);
    // The token that was being computed, and none after it.
    CHECK(done.head.sampled_tokens <= running.head.sampled_tokens + 1u);
    CHECK(device.cancel(kAnn, id_of(1)).head.phase == AOTX_PHASE_CANCELLED);
    CHECK(device.cancel(kAnn, id_of(2)).head.status == 404);
}

TEST_CASE("a completed request stays completed")
{
    Device device;
    device.grant(1, {kAnn});
    REQUIRE(device.submit(kAnn, id_of(1), "x").head.status == 202);
    device.finish(kAnn, id_of(1));
    const Reply late = device.cancel(kAnn, id_of(1));
    CHECK(late.head.status == 200);
    CHECK(late.head.phase == AOTX_PHASE_COMPLETED);
    CHECK(late.head.cancel_requested == 0);
}

TEST_CASE("a new grant table ends what the old one admitted")
{
    Device device({}, {kEndless});
    device.grant(1, {kAnn});
    REQUIRE(device.submit(kAnn, id_of(1), "x").head.status == 202);
    device.post(3, device.watch_packet(id_of(77), {device.watch_row(kAnn, id_of(1), 0, 3)}));
    device.take_reply(3);
    device.grant(2, {kAnn});
    CHECK(device.read(kAnn, id_of(1)).head.status == 403);
    aotx::LoopTelemetry telemetry;
    do {
        aotx::loop_telemetry(device.loop(), &telemetry);
    } while (telemetry.requests_cancelled == 0);
    CHECK(telemetry.requests_running == 0);
    CHECK(device.submit(kAnn, id_of(2), "x").head.status == 202);
}

TEST_CASE("the time limit ends queued and running requests with 504")
{
    aotx::LoopConfig config;
    config.execution_slots = 1;
    config.request_seconds_max = 1;
    Device device(config, {kEndless});
    device.grant(1, {kAnn});
    REQUIRE(device.submit(kAnn, id_of(1), "x", 100000).head.status == 202);
    REQUIRE(device.submit(kAnn, id_of(2), "x", 100000).head.status == 202);
    for (uint64_t number = 1; number <= 2; number++) {
        const Reply done = device.finish(kAnn, id_of(number));
        CHECK(done.head.phase == AOTX_PHASE_FAILED);
        CHECK(done.head.failure_status == 504);
    }
}

TEST_CASE("limits that are no multiples of anything serve like round ones")
{
    aotx::LoopConfig config;
    config.prompt_bytes_max = 1021;
    config.prompts_max = 7;
    config.output_bytes_max = 997;
    const char* const options = R"({"echo":true,"sequences":3,"sequence_tokens":61})";
    Device device(config, {options, options});
    device.grant(1, {kAnn});
    for (uint64_t number = 1; number <= 6; number++) {
        const std::string text(5, static_cast<char>('a' + number));
        REQUIRE(device.submit(kAnn, id_of(number), text, 50, 2u + number % 2u).head.status == 202);
    }
    for (uint64_t number = 1; number <= 6; number++) {
        const Reply done = device.finish(kAnn, id_of(number));
        CHECK(done.head.phase == AOTX_PHASE_COMPLETED);
        std::string letters;
        for (int i = 0; i < 5; i++) {
            letters += " " + std::to_string('a' + static_cast<int>(number));
        }
        CHECK(done.text() == "256 258" + letters + " 260 259");
    }
}

TEST_CASE("many requests of several models run side by side")
{
    Device device({}, {R"({"pieces":["61","62"],"repeat":20})", R"({"pieces":["63"],"repeat":30})",
                       R"({"level":"plain","pieces":["64"],"repeat":10})"});
    device.grant(1, {kAnn, kBob});
    std::string ab;
    for (int i = 0; i < 20; i++) {
        ab += "ab";
    }
    const std::string wanted[] = {ab, std::string(30, 'c'), std::string(10, 'd')};
    for (uint64_t number = 1; number <= 60; number++) {
        const Id& principal = number % 2 == 0 ? kAnn : kBob;
        const uint32_t role = 2u + static_cast<uint32_t>(number % 3u);
        REQUIRE(device.submit(principal, id_of(number), "go", 1000, role).head.status == 202);
    }
    for (uint64_t number = 1; number <= 60; number++) {
        const Id& principal = number % 2 == 0 ? kAnn : kBob;
        CHECK(device.finish(principal, id_of(number)).text() == wanted[number % 3u]);
    }
}

TEST_CASE("stopping answers what is parked and ends what runs")
{
    Device device({}, {kEndless});
    device.grant(1, {kAnn});
    REQUIRE(device.submit(kAnn, id_of(1), "x", 100000).head.status == 202);
    device.post(3, device.watch_packet(id_of(77), {device.watch_row(kAnn, id_of(1), 0, 0)}));
    device.take_reply(3);
    device.post(3, device.watch_packet(id_of(78), {}));
    device.take_reply(3);
    device.post(4, device.watch_packet(id_of(79), {device.watch_row(kAnn, id_of(1), 0, 3)}));
    device.stop();
    while (device.gather(0)) {
    }
    CHECK(device.has_reply(4));
    aotx::LoopTelemetry telemetry;
    aotx::loop_telemetry(device.loop(), &telemetry);
    CHECK(telemetry.requests_failed == 1);
}

TEST_CASE("the loop says what runs it, and why")
{
    aotx::LoopConfig config;
    config.cpu_reason =
        "no CUDA driver (35), says\na \x80 line that is far longer than the place "
        "that a packet has for it, so that it is cut: ----------------------------"
        "--------------------------------------------------";
    Device device(config);
    aotx_request_head head;
    aotx_request_head_begin(&head, AOTX_OPERATION_DEVICE, nullptr, 0);
    const Reply reply = device.call(packet_of(head, {}));
    REQUIRE(reply.head.status == 200);
    aotx_device_row row = {};
    REQUIRE(aotx_device_check(reply.payload.data(), reply.payload.size(), &row) == AOTX_OK);
    const bool cpu = std::string(aotx::loop_device(device.loop())) == "cpu";
    CHECK(aotx_device_kind_name(row.kind) == std::string(cpu ? "cpu" : "cuda"));
    CHECK(row.restarts == 0);
    const std::string reason = reinterpret_cast<const char*>(row.reason);
    CHECK(reason.size() == (cpu ? 175u : 0u));
    CHECK((!cpu || reason.find("no CUDA driver (35), says?a ? line") == 0));
}

TEST_CASE("the third-party example loads and serves unchanged")
{
    Device device({}, {"{}"}, AOTX_EXAMPLE_LIBRARY);
    device.grant(1, {kAnn});
    for (uint64_t number = 1; number <= 3; number++) {
        REQUIRE(device.submit(kAnn, id_of(number), "abc").head.status == 202);
        const Reply done = device.finish(kAnn, id_of(number));
        // The plain level's transcript, "user: abc\nassistant:", read backwards.
        CHECK(done.text() == ":tnatsissa\ncba :resu");
        CHECK(done.head.finish == AOTX_FINISH_STOP);
    }
}
