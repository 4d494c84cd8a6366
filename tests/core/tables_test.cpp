// Purpose:  what the tables promise: flat cost, fairness, no byte of one principal to another.
// Owns:     nothing.
// Thread:   main.
// Lifetime: one run.
#define AOTX_CORE_METER
#include <algorithm>
#include <catch2/catch.hpp>

#include "fixture.h"

namespace aotx {
unsigned long long core_meter_steps = 0;
}

using namespace core_test;

namespace {

struct Costs {
    std::map<std::string, unsigned long long> highest;
    void note(const char* name, unsigned long long before)
    {
        const unsigned long long cost = aotx::core_meter_steps - before;
        highest[name] = std::max(highest[name], cost);
    }
};

// Fill a table of the given size with ended results and active requests, then measure the rows that
// each operation touches.
Costs costs_of(uint32_t requests_max)
{
    aotx::CoreLimits limits = limits_of(requests_max);
    limits.principals_max = requests_max;
    limits.output_bytes_max = 16;
    limits.prompt_bytes_max = 64;
    limits.grant_active_requests_max = 65536;
    limits.prompts_max = requests_max;
    Device device(limits);
    device.prove_traces = false;
    std::vector<aotx_grant_row> rows;
    const uint64_t principals = std::min<uint64_t>(requests_max, 1000);  // a frame holds 1022
    for (uint64_t i = 0; i < principals; i++) {
        rows.push_back(grant_of(id_of(1000 + i), 1));
        rows.back().active_requests_max = 65536;
    }
    REQUIRE(device.call(grants_packet(1, rows), 0).head.status == 200);
    device.revision = 1;
    Costs costs;
    const uint32_t fill = requests_max + requests_max / 2u;
    for (uint64_t i = 0; i < fill; i++) {
        const Id who = id_of(1000 + i % principals);
        unsigned long long before = aotx::core_meter_steps;
        const uint32_t status = device.submit(who, id_of(100000 + i), "x", 1).head.status;
        costs.note("submit", before);
        REQUIRE(status == 202);
        if (i % 2u == 0) {
            before = aotx::core_meter_steps;
            device.cancel(who, id_of(100000 + i));
            costs.note("cancel", before);
        } else if (i % 4u == 1) {
            before = aotx::core_meter_steps;
            device.close_slots(0);
            device.start(0, 1);
            device.step(0, "y");
            costs.note("step", before);
        }
        if (device.core.state->prompts_free == 0) {
            break;
        }
        before = aotx::core_meter_steps;
        device.read(who, id_of(100000 + i));
        costs.note("read", before);
        aotx_watch_row row;
        aotx_watch_row_make(&row, who.bytes, 1, id_of(100000 + i).bytes, 0, AOTX_PHASE_FREE, 0);
        before = aotx::core_meter_steps;
        device.call(device.watch_packet(id_of(90), {row}), 2);
        device.flush();
        costs.note("watch", before);
    }
    unsigned long long before = aotx::core_meter_steps;
    aotx::core_sweep(&device.core, device.now_ns);
    aotx::core_deadline_next(&device.core);
    costs.note("deadline", before);
    before = aotx::core_meter_steps;
    device.call(packet_of(head_of(AOTX_OPERATION_INFORMATION, id_of(1000), 1), {}));
    costs.note("information", before);
    for (const uint32_t operation : {AOTX_OPERATION_TELEMETRY, AOTX_OPERATION_POLICY}) {
        before = aotx::core_meter_steps;
        device.call(packet_of(head_of(operation, id_of(1000), 1), {}));
        costs.note("telemetry and policy", before);
    }
    before = aotx::core_meter_steps;
    for (aotx_grant_row& row : rows) {
        row.revision = 2;
    }
    REQUIRE(device.call(grants_packet(2, rows), 0).head.status == 200);
    // The frame itself grew with its principals: what one of them costs must not.
    costs.highest["grants, a row"] = (aotx::core_meter_steps - before) / principals;
    before = aotx::core_meter_steps;
    aotx::core_sweep(&device.core, device.now_ns);
    costs.note("sweep after grants", before);
    return costs;
}

}  // namespace

TEST_CASE("the rows that an operation touches do not grow with the tables")
{
    const Costs small = costs_of(256);
    const Costs large = costs_of(65536);
    for (const auto& entry : small.highest) {
        INFO(entry.first << ": " << entry.second << " rows, in the large table "
                         << large.highest.at(entry.first));
        // Hash chains at load one half: a long run meets a chain a little longer than a short one.
        CHECK(large.highest.at(entry.first) <= entry.second + 16u);
    }
    CHECK(large.highest.at("submit") < 64);
    CHECK(large.highest.at("read") < 32);
    CHECK(large.highest.at("sweep after grants") <= aotx::kCoreSweepMax * 16u);
}

TEST_CASE("one principal's queue does not keep another's waiting")
{
    const Id greedy = id_of(11);
    const Id modest = id_of(12);
    aotx::CoreLimits limits = limits_of(80);
    Device device(limits);
    device.grant(1, {greedy, modest});
    for (uint64_t i = 0; i < 60; i++) {
        REQUIRE(device.submit(greedy, id_of(100 + i), "x", 1).head.status == 202);
    }
    REQUIRE(device.submit(modest, id_of(1), "x", 1).head.status == 202);
    REQUIRE(device.submit(modest, id_of(2), "x", 1).head.status == 202);
    // Starts alternate: the modest one's two requests are among the first four.
    for (uint32_t i = 0; i < 4; i++) {
        REQUIRE(device.start(0, 1));
    }
    CHECK(device.read(modest, id_of(1)).head.phase == AOTX_PHASE_RUNNING);
    CHECK(device.read(modest, id_of(2)).head.phase == AOTX_PHASE_RUNNING);
    CHECK(device.read(greedy, id_of(101)).head.phase == AOTX_PHASE_RUNNING);
    CHECK(device.read(greedy, id_of(102)).head.phase == AOTX_PHASE_QUEUED);
    device.audit();
}

TEST_CASE("a start that waits for pages is not overtaken")
{
    aotx::CoreLimits limits = limits_of();
    limits.models[0].pages_count = 17;
    Device device(limits);
    device.grant(1, {id_of(11), id_of(12)});
    REQUIRE(device.submit(id_of(11), id_of(1), "x", 8).head.status == 202);
    REQUIRE(device.start(0, 8));  // 4 pages
    REQUIRE(device.submit(id_of(11), id_of(2), "x", 10).head.status == 202);
    REQUIRE(device.submit(id_of(12), id_of(3), "x", 1).head.status == 202);
    REQUIRE(device.start(0, 54));     // 16 pages: 13 are free
    CHECK_FALSE(device.start(0, 1));  // fits, and must wait
    CHECK(device.read(id_of(12), id_of(3)).head.phase == AOTX_PHASE_QUEUED);
    CHECK(device.read(id_of(11), id_of(2)).head.phase == AOTX_PHASE_PREPARING);
    while (device.read(id_of(11), id_of(1)).head.phase == AOTX_PHASE_RUNNING) {
        device.step(0, "y");
    }
    device.close_slots(0);
    CHECK(device.start(0, 1));
    CHECK(device.read(id_of(11), id_of(2)).head.phase == AOTX_PHASE_RUNNING);
    device.audit();
}

TEST_CASE("steps with fewer rows than sequences serve them in turn, prompts too")
{
    aotx::CoreLimits limits = limits_of();
    limits.models[0].step_rows_max = 1;
    Device device(limits);
    device.grant(1, {id_of(11)});
    for (uint64_t i = 1; i <= 3; i++) {
        REQUIRE(device.submit(id_of(11), id_of(i), "x", 10).head.status == 202);
        REQUIRE(device.start(0, 30));
    }
    for (uint32_t i = 0; i < 12; i++) {
        CHECK(device.step(0, "y") == 1);
    }
    // 12 steps are 4 for each: two for the prompt of 30 at 16 a step, then 3 tokens.
    for (uint64_t i = 1; i <= 3; i++) {
        CHECK(device.read(id_of(11), id_of(i)).head.sampled_tokens == 3);
    }
}

TEST_CASE("2000 rounds of row reuse: no byte of one principal reaches another")
{
    aotx::CoreLimits limits = limits_of(3);
    limits.prompts_max = 3;
    limits.principals_max = 4;
    Device device(limits);
    device.prove_traces = false;
    const std::vector<Id> principals = {id_of(11), id_of(12), id_of(13)};
    device.grant(1, principals);
    uint64_t next = 1000;
    for (uint32_t round = 0; round < 2000; round++) {
        const Id& who = principals[round % 3u];
        const Id& other = principals[(round + 1u) % 3u];
        const Id id = id_of(next++);
        const char mark = static_cast<char>('a' + round % 26u);
        const std::string marker(1 + round % 7u, mark);
        REQUIRE(device.submit(who, id, "prompt of " + std::to_string(round), 3).head.status == 202);
        device.close_slots(0);
        REQUIRE(device.start(0, 1 + round % 5u));
        const uint32_t tokens = round % 5u;
        for (uint32_t i = 0; i < tokens; i++) {
            device.step(0, marker, i == 2 ? 1u : 0u);
        }
        if (tokens < 3) {
            device.cancel(who, id);
            device.step(0, "must not appear");
        }
        device.close_slots(0);
        const Reply own = device.read(who, id);
        REQUIRE(own.head.status == 200);
        for (const uint8_t byte : own.payload) {
            REQUIRE(byte == static_cast<uint8_t>(mark));
        }
        REQUIRE(own.payload.size() == std::min(tokens, 2u) * marker.size());
        REQUIRE(device.read(other, id).head.status == 404);
        REQUIRE(device.read(other, id).payload.empty());
        // The same ID under another principal is another request, with nothing of the first one.
        if (round % 3u == 0) {
            REQUIRE(device.submit(other, id, "x", 1).head.status == 202);
            REQUIRE(device.read(other, id).payload.empty());
            device.cancel(other, id);
        }
    }
    device.audit();
}

TEST_CASE("watches answer with fair shares when many rows have news")
{
    aotx::CoreLimits limits = limits_of(40);
    limits.output_bytes_max = 40000;
    Device device(limits);
    device.prove_traces = false;
    device.grant(1, {id_of(11)});
    std::vector<aotx_watch_row> rows;
    for (uint64_t i = 1; i <= 4; i++) {
        REQUIRE(device.submit(id_of(11), id_of(i), "x", 10).head.status == 202);
        REQUIRE(device.start(0, 1));
    }
    const std::string large(30000, 'z');
    device.step(0, large);
    for (uint64_t i = 1; i <= 4; i++) {
        aotx_watch_row row;
        aotx_watch_row_make(&row, id_of(11).bytes, 1, id_of(i).bytes, 0, AOTX_PHASE_RUNNING, 0);
        rows.push_back(row);
    }
    REQUIRE(device.call(device.watch_packet(id_of(90), rows), 3).parked);
    const std::map<uint32_t, Reply> replies = device.flush();
    const Reply& reply = replies.at(3);
    CHECK(reply.head.output_bytes == 4);
    size_t at = 0;
    aotx_watch_news news;
    const uint8_t* data = nullptr;
    while (aotx_watch_news_next(reply.payload.data(), reply.payload.size(), &at, &news, &data) ==
           AOTX_OK) {
        CHECK(news.data_bytes > 16000);
        CHECK(news.output_bytes == 30000);
    }
}

TEST_CASE("watches: form, epoch, replacement, release, the table's end")
{
    Device device;
    device.grant(1, {id_of(11)});
    REQUIRE(device.submit(id_of(11), id_of(1), "x", 10).head.status == 202);
    aotx_watch_row row;
    aotx_watch_row_make(&row, id_of(11).bytes, 1, id_of(1).bytes, 0, AOTX_PHASE_QUEUED, 0);
    const Bytes good = device.watch_packet(id_of(90), {row});
    for (size_t at = 16; at < 92; at++) {
        const bool used = (at >= 40 && at < 64) || (at >= 76 && at < 80) || at >= 88;
        if (!used) {
            Bytes bad = good;
            bad[at] = 1;
            CHECK(device.call(bad).head.status == 400);
        }
    }
    Bytes bad = good;
    bad[128 + 56] = 1;
    CHECK(device.call(bad).head.status == 400);
    bad = good;
    bad[128 + 48] = 7;
    CHECK(device.call(bad).head.status == 400);
    bad = good;
    bad[128 + 52] = 2;
    CHECK(device.call(bad).head.status == 400);
    bad = good;
    std::memset(bad.data() + 48, 0, 16);
    CHECK(device.call(bad).head.status == 400);
    bad = good;
    bad[40]++;
    CHECK(device.call(bad).head.status == 410);
    REQUIRE(device.call(good, 2).parked);
    CHECK(device.flush().empty());
    REQUIRE(device.call(good, 3).parked);
    std::map<uint32_t, Reply> replies = device.flush();
    REQUIRE(replies.size() == 1);
    CHECK(replies.at(2).head.output_bytes == 0);
    CHECK(device.call(device.watch_packet(id_of(90), {}), 2).head.status == 200);
    replies = device.flush();
    CHECK(replies.count(3) == 1);
    for (uint32_t i = 0; i < aotx::kCoreWatchesMax; i++) {
        REQUIRE(device.call(device.watch_packet(id_of(200 + i), {row}), 100 + i).parked);
    }
    CHECK(device.call(device.watch_packet(id_of(300), {row}), 2).head.status == 429);
    device.cancel(id_of(11), id_of(1));
    CHECK(device.flush().size() == aotx::kCoreWatchesMax);
    device.now_ns += 1;
    REQUIRE(device.submit(id_of(11), id_of(2), "x", 10).head.status == 202);
    aotx_watch_row_make(&row, id_of(11).bytes, 1, id_of(2).bytes, 0, AOTX_PHASE_QUEUED, 0);
    REQUIRE(device.call(device.watch_packet(id_of(90), {row}), 2).parked);
    aotx::core_watch_expire(&device.core, device.now_ns + 299 * aotx::kCoreSecond);
    CHECK(device.flush().empty());
    aotx::core_watch_expire(&device.core, device.now_ns + 300 * aotx::kCoreSecond);
    CHECK(device.flush().size() == 1);
}
