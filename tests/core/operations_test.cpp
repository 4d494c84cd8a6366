// Purpose:  every operation's answers, in the contract's order of checks, table by table.
// Owns:     nothing.
// Thread:   main.
// Lifetime: one run.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <memory>

#include "aotx/information.h"
#include "fixture.h"

using namespace core_test;

namespace {

const Id kAnn = id_of(11);
const Id kBob = id_of(12);
const Id kNobody = id_of(99);

constexpr uint32_t kAll[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0xffffffffu};

Bytes plain_packet(uint32_t operation, const Id& principal, uint64_t revision)
{
    return packet_of(head_of(operation, principal, revision), {});
}

}  // namespace

TEST_CASE("length, magic and the head's zero words come before everything else")
{
    Device device;
    device.grant(1, {kAnn});
    for (const uint32_t operation : kAll) {
        INFO(operation);
        const Bytes good = plain_packet(operation, kAnn, 1);
        for (size_t cut = 0; cut < good.size(); cut++) {
            CHECK(device.call(Bytes(good.begin(), good.begin() + static_cast<long>(cut)))
                      .head.status == 400);
        }
        Bytes longer = good;
        longer.push_back(0);
        CHECK(device.call(longer).head.status == 400);
        for (size_t at = 0; at < 8; at++) {
            Bytes bad = good;
            bad[at] ^= 1u;
            CHECK(device.call(bad).head.status == 400);
        }
        for (size_t at = 12; at < 128; at++) {
            if (at >= 16 && at < 92) {
                continue;
            }
            Bytes bad = good;
            bad[at] = 1;
            CHECK(device.call(bad).head.status == 400);
        }
    }
}

TEST_CASE("the grant comes before the shape")
{
    Device device;
    device.grant(1, {kAnn});
    for (const uint32_t operation : kAll) {
        if (operation == AOTX_OPERATION_GRANTS || operation == AOTX_OPERATION_WATCH) {
            continue;
        }
        INFO(operation);
        aotx_request_head head = head_of(operation, kNobody, 1);
        head.model_role = 77;
        CHECK(device.call(packet_of(head, {})).head.status == 403);
        for (const uint64_t revision : {0ull, 2ull, ~0ull}) {
            head = head_of(operation, kAnn, revision);
            CHECK(device.call(packet_of(head, {})).head.status == 403);
        }
        const Reply reply = device.call(packet_of(head, {}));
        CHECK(std::memcmp(reply.head.principal, kAnn.bytes, 16) == 0);
        CHECK(reply.head.grant_revision == ~0ull);
        CHECK(reply.head.phase == 0);
        CHECK(reply.payload.empty());
    }
}

TEST_CASE("what serves is told to anybody, in the one form that the question has")
{
    Device device;
    const Bytes question = packet_of(head_of(AOTX_OPERATION_DEVICE, Id{}, 0), {});
    for (const bool granted : {false, true}) {
        if (granted) {
            device.grant(1, {kAnn});
        }
        const Reply reply = device.call(question);
        CHECK(reply.head.status == 200);
        CHECK(reply.head.runtime_epoch == kEpoch);
        aotx_device_row row = {};
        REQUIRE(aotx_device_check(reply.payload.data(), reply.payload.size(), &row) == AOTX_OK);
        CHECK(std::memcmp(&row, &device.core.limits.device, sizeof row) == 0);
    }
    // Any other form is an operation that nobody knows: 403 without a grant, 400 with one.
    for (size_t at = 16; at < 92; at++) {
        Bytes bad = question;
        bad[at] = 1;
        INFO(at);
        CHECK(device.call(bad).head.status == (at >= 88 ? 400 : 403));
    }
    CHECK(device.call(packet_of(head_of(AOTX_OPERATION_DEVICE, Id{}, 0), {0})).head.status == 403);
    CHECK(device.call(packet_of(head_of(AOTX_OPERATION_DEVICE, kAnn, 1), {})).head.status == 400);
}

TEST_CASE("each operation refuses the header words that it does not use")
{
    struct Range {
        size_t begin;
        size_t end;
    };
    const struct {
        uint32_t operation;
        std::vector<Range> zero;
        size_t payload_bytes;  // one that the operation does not take
    } rows[] = {
        {AOTX_OPERATION_INFORMATION, {{40, 88}}, 1},
        {AOTX_OPERATION_TELEMETRY, {{40, 88}}, 1},
        {AOTX_OPERATION_READ, {{72, 88}}, 1},
        {AOTX_OPERATION_CANCEL, {{72, 88}}, 1},
        {AOTX_OPERATION_MEDIA_READ, {{40, 48}, {64, 88}}, 1},
        {AOTX_OPERATION_MEDIA_LIST, {{40, 64}, {72, 88}}, 1},
        {AOTX_OPERATION_POLICY, {{40, 88}}, 15},
        {AOTX_OPERATION_SHARED_MUTATE, {{72, 88}}, 0},
        {AOTX_OPERATION_SHARED_READ, {{72, 88}}, 0},
    };
    Device device;
    device.grant(1, {kAnn});
    for (const auto& row : rows) {
        INFO(row.operation);
        const Bytes good = plain_packet(row.operation, kAnn, 1);
        CHECK(device.call(good).head.status != 400);
        for (const Range& range : row.zero) {
            for (size_t at = range.begin; at < range.end; at++) {
                Bytes bad = good;
                bad[at] = 1;
                CHECK(device.call(bad).head.status == 400);
            }
        }
        if (row.payload_bytes != 0) {
            CHECK(device.call(packet_of(head_of(row.operation, kAnn, 1), Bytes(row.payload_bytes)))
                      .head.status == 400);
        }
    }
    for (const uint32_t unknown : {0u, 14u, 1000u, 0xffffffffu}) {
        CHECK(device.call(plain_packet(unknown, kAnn, 1)).head.status == 400);
    }
}

TEST_CASE("submissions: every refusal, and the first of two faults wins in the contract's order")
{
    struct Fault {
        const char* name;
        uint32_t status;
        void (*make)(aotx_request_head* head, Bytes* payload);
    };
    // In the order in which the contract lists the answers: of two faults the earlier one is told.
    const Fault faults[] = {
        {"wrong epoch", 410, [](aotx_request_head* head, Bytes*) { head->runtime_epoch++; }},
        {"zero ID", 400, [](aotx_request_head* head, Bytes*) { std::memset(head->id, 0, 16); }},
        {"cursor", 400, [](aotx_request_head* head, Bytes*) { head->cursor = 1; }},
        {"temperature below 0", 400,
         [](aotx_request_head* head, Bytes*) { head->temperature = -0.5f; }},
        {"temperature above 2", 400,
         [](aotx_request_head* head, Bytes*) { head->temperature = 2.001f; }},
        {"temperature NaN", 400,
         [](aotx_request_head* head, Bytes*) {
             head->temperature = std::numeric_limits<float>::quiet_NaN();
         }},
        {"temperature infinite", 400,
         [](aotx_request_head* head, Bytes*) {
             head->temperature = std::numeric_limits<float>::infinity();
         }},
        {"top_p 0", 400, [](aotx_request_head* head, Bytes*) { head->top_p = 0.0f; }},
        {"top_p above 1", 400, [](aotx_request_head* head, Bytes*) { head->top_p = 1.01f; }},
        {"top_p NaN", 400,
         [](aotx_request_head* head, Bytes*) {
             head->top_p = std::numeric_limits<float>::quiet_NaN();
         }},
        {"limit 0", 400, [](aotx_request_head* head, Bytes*) { head->count = 0; }},
        {"limit above the grant", 400, [](aotx_request_head* head, Bytes*) { head->count = 1001; }},
        {"bad payload", 400, [](aotx_request_head*, Bytes* payload) { payload->push_back(0); }},
        {"unknown role", 404, [](aotx_request_head* head, Bytes*) { head->model_role = 9; }},
        {"huge role", 404, [](aotx_request_head* head, Bytes*) { head->model_role = ~0u; }},
        {"role not loaded", 404,
         [](aotx_request_head* head, Bytes*) {
             head->model_role = AOTX_MODEL_ROLE_LANGUAGE_AUDIO;
         }},
        {"ID in use", 409,
         [](aotx_request_head* head, Bytes*) { std::memcpy(head->id, id_of(1).bytes, 16); }},
        {"too long for the model", 413,
         [](aotx_request_head*, Bytes* payload) {
             *payload = submission_of(std::string(1001, 'x'));
         }},
    };
    Device device;
    device.grant(1, {kAnn, kBob});
    REQUIRE(device.submit(kAnn, id_of(1)).head.status == 202);
    const size_t count = sizeof faults / sizeof faults[0];
    for (size_t i = 0; i < count; i++) {
        for (size_t j = i; j < count; j++) {
            INFO(faults[i].name << " and " << faults[j].name);
            aotx_request_head head = device.submit_head(kAnn, id_of(2));
            Bytes payload = submission_of("hi");
            faults[i].make(&head, &payload);
            faults[j].make(&head, &payload);
            // The later of two faults may undo the earlier one when both set the same word.
            const uint32_t status = device.call(packet_of(head, payload)).head.status;
            CHECK((status == faults[i].status || status == faults[j].status));
            if (faults[i].status != faults[j].status && status == faults[j].status) {
                CHECK((faults[i].status == 404 || std::string(faults[i].name) == "zero ID" ||
                       std::string(faults[i].name) == "bad payload"));
            }
        }
    }
    // Another principal may use the same ID, and does not see the first one's request.
    CHECK(device.submit(kBob, id_of(1)).head.status == 202);
    device.audit();
}

TEST_CASE("submissions: actions, masks, media digests")
{
    Device device;
    std::vector<aotx_grant_row> rows = {grant_of(kAnn, 1), grant_of(kBob, 1)};
    rows[0].actions = AOTX_ACTION_TELEMETRY;
    rows[1].model_mask = 1u << AOTX_MODEL_ROLE_LANGUAGE_Q4;
    REQUIRE(device.call(grants_packet(1, rows), 0).head.status == 200);
    device.revision = 1;
    CHECK(device.submit(kAnn, id_of(1)).head.status == 403);
    CHECK(device.submit(kBob, id_of(1)).head.status == 404);
    CHECK(device.submit(kBob, id_of(1), "hi", 10, AOTX_MODEL_ROLE_LANGUAGE_Q4).head.status == 202);
    Bytes payload(4 + 8 + 8 + 32);
    const uint32_t words[] = {1, AOTX_MESSAGE_ROLE_USER, 1, AOTX_PART_KIND_IMAGE, 32};
    std::memcpy(payload.data(), words, sizeof words);
    aotx_request_head head = device.submit_head(kBob, id_of(2), 10, AOTX_MODEL_ROLE_LANGUAGE_Q4);
    CHECK(device.call(packet_of(head, payload)).head.status == 404);
}

TEST_CASE("429: the grant's active requests, prompt storage, the request table")
{
    aotx::CoreLimits limits = limits_of(4);
    limits.prompts_max = 3;
    Device device(limits);
    std::vector<aotx_grant_row> rows = {grant_of(kAnn, 1), grant_of(kBob, 1)};
    rows[0].active_requests_max = 2;
    REQUIRE(device.call(grants_packet(1, rows), 0).head.status == 200);
    device.revision = 1;
    CHECK(device.submit(kAnn, id_of(1)).head.status == 202);
    CHECK(device.submit(kAnn, id_of(2)).head.status == 202);
    CHECK(device.submit(kAnn, id_of(3)).head.status == 429);
    CHECK(device.submit(kBob, id_of(3)).head.status == 202);
    CHECK(device.submit(kBob, id_of(4)).head.status == 429);
    // An end makes room for its principal, and the oldest result goes when the table is full.
    CHECK(device.cancel(kAnn, id_of(2)).head.phase == AOTX_PHASE_CANCELLED);
    CHECK(device.cancel(kAnn, id_of(1)).head.phase == AOTX_PHASE_CANCELLED);
    CHECK(device.submit(kAnn, id_of(5)).head.status == 202);
    CHECK(device.read(kAnn, id_of(2)).head.status == 200);
    CHECK(device.submit(kAnn, id_of(6)).head.status == 202);
    CHECK(device.read(kAnn, id_of(2)).head.status == 404);
    CHECK(device.read(kAnn, id_of(1)).head.status == 200);
    device.audit();
}

TEST_CASE("reads and cancellations: epoch, owner, cursor")
{
    Device device;
    device.grant(1, {kAnn, kBob});
    REQUIRE(device.submit(kAnn, id_of(1)).head.status == 202);
    device.start(0, 3);
    device.step(0, "abc");
    for (const uint32_t operation : {AOTX_OPERATION_READ, AOTX_OPERATION_CANCEL}) {
        aotx_request_head head = device.request_head(operation, kAnn, id_of(1));
        head.runtime_epoch = kEpoch + 1;
        CHECK(device.call(packet_of(head, {})).head.status == 410);
        head.runtime_epoch = 0;
        CHECK(device.call(packet_of(head, {})).head.status == 410);
        head = device.request_head(operation, kBob, id_of(1));
        const Reply foreign = device.call(packet_of(head, {}));
        head = device.request_head(operation, kBob, id_of(2));
        const Reply unknown = device.call(packet_of(head, {}));
        CHECK(foreign.head.status == 404);
        CHECK(unknown.head.status == 404);
        CHECK(foreign.payload == unknown.payload);
    }
    CHECK(device.read(kAnn, id_of(1), 3).text().empty());
    CHECK(device.read(kAnn, id_of(1), 2).text() == "c");
    CHECK(device.read(kAnn, id_of(1), 4).head.status == 409);
    CHECK(device.read(kAnn, id_of(1), ~0ull).head.status == 409);
    CHECK(device.cancel(kAnn, id_of(1), 1).head.status == 409);
    const Reply state = device.read(kAnn, id_of(1));
    CHECK(state.head.phase == AOTX_PHASE_RUNNING);
    CHECK(state.head.model_role == AOTX_MODEL_ROLE_LANGUAGE);
    CHECK(state.head.output_bytes == 3);
    CHECK(state.head.prompt_tokens == 3);
    CHECK(state.head.sampled_tokens == 1);
}

TEST_CASE("grants: every refusal keeps the old table whole")
{
    struct Fault {
        const char* name;
        void (*make)(std::vector<aotx_grant_row>* rows);
    };
    const Fault faults[] = {
        {"zero principal",
         [](std::vector<aotx_grant_row>* rows) { std::memset((*rows)[1].principal, 0, 16); }},
        {"repeated principal",
         [](std::vector<aotx_grant_row>* rows) {
             std::memcpy((*rows)[1].principal, (*rows)[0].principal, 16);
         }},
        {"another revision", [](std::vector<aotx_grant_row>* rows) { (*rows)[1].revision++; }},
        {"no action", [](std::vector<aotx_grant_row>* rows) { (*rows)[1].actions = 0; }},
        {"unknown action", [](std::vector<aotx_grant_row>* rows) { (*rows)[1].actions |= 256; }},
        {"fetch without upload",
         [](std::vector<aotx_grant_row>* rows) { (*rows)[1].actions = AOTX_ACTION_FETCH; }},
        {"a role below the language roles",
         [](std::vector<aotx_grant_row>* rows) { (*rows)[1].model_mask = 2; }},
        {"a role above the language roles",
         [](std::vector<aotx_grant_row>* rows) { (*rows)[1].model_mask = 32; }},
        {"no output", [](std::vector<aotx_grant_row>* rows) { (*rows)[1].output_tokens_max = 0; }},
        {"no active requests",
         [](std::vector<aotx_grant_row>* rows) { (*rows)[1].active_requests_max = 0; }},
        {"too many active requests",
         [](std::vector<aotx_grant_row>* rows) { (*rows)[1].active_requests_max = 65; }},
        {"too many pages", [](std::vector<aotx_grant_row>* rows) { (*rows)[1].pages_max = 17; }},
        {"a reserved byte", [](std::vector<aotx_grant_row>* rows) { (*rows)[1].zero_56 = 1; }},
    };
    Device device;
    device.grant(5, {kAnn});
    const Bytes probe = packet_of(head_of(AOTX_OPERATION_INFORMATION, kAnn, 5), {});
    for (const Fault& fault : faults) {
        INFO(fault.name);
        std::vector<aotx_grant_row> rows = {grant_of(kBob, 6), grant_of(kNobody, 6)};
        fault.make(&rows);
        CHECK(device.call(grants_packet(6, rows), 0).head.status == 400);
        CHECK(device.call(probe).head.status == 200);
    }
    const std::vector<aotx_grant_row> good = {grant_of(kBob, 6)};
    CHECK(device.call(grants_packet(6, good), 1).head.status == 403);
    std::vector<aotx_grant_row> stale = {grant_of(kBob, 5)};
    CHECK(device.call(grants_packet(5, stale), 0).head.status == 400);
    Bytes miscounted = grants_packet(6, good);
    miscounted[offsetof(aotx_request_head, count)] = 2;
    CHECK(device.call(miscounted, 0).head.status == 400);
    std::vector<aotx_grant_row> many;
    for (uint64_t i = 0; i < 9; i++) {
        many.push_back(grant_of(id_of(100 + i), 6));
    }
    CHECK(device.call(grants_packet(6, many), 0).head.status == 400);
    CHECK(device.call(probe).head.status == 200);
    many.pop_back();
    CHECK(device.call(grants_packet(6, many), 0).head.status == 200);
    CHECK(device.call(probe).head.status == 403);
    CHECK(device.call(grants_packet(7, {}), 0).head.status == 200);
    device.audit();
}

TEST_CASE("a replaced revision ends its requests and hides their results")
{
    Device device;
    device.grant(1, {kAnn, kBob});
    for (uint64_t number = 1; number <= 6; number++) {
        REQUIRE(device.submit(kAnn, id_of(number)).head.status == 202);
    }
    device.start(0, 3);
    device.start(0, 3);
    device.step(0, "x");
    device.cancel(kAnn, id_of(6));
    device.grant(2, {kAnn});
    device.audit();
    for (uint64_t number = 1; number <= 6; number++) {
        CHECK(device.read(kAnn, id_of(number)).head.status == 403);
        CHECK(device.cancel(kAnn, id_of(number)).head.status == 403);
    }
    CHECK(device.submit(kAnn, id_of(20)).head.status == 202);
    CHECK(aotx::core_sweep(&device.core, device.now_ns) == false);
    device.close_slots(0);
    device.audit();
    CHECK(device.core.state->cancelled_count == 6);
    CHECK(device.core.state->running_count == 0);
    CHECK(device.core.state->queued_count == 1);
    device.run(0, "y");
    CHECK(device.read(kAnn, id_of(20)).text() == std::string(10, 'y'));
}

TEST_CASE("information and telemetry say what the grant sees")
{
    Device device;
    std::vector<aotx_grant_row> rows = {grant_of(kAnn, 1), grant_of(kBob, 1)};
    rows[0].model_mask = 1u << AOTX_MODEL_ROLE_LANGUAGE_Q4;
    rows[0].pages_max = 3;
    rows[1].actions = AOTX_ACTION_INFER;
    REQUIRE(device.call(grants_packet(1, rows), 0).head.status == 200);
    const Reply reply = device.call(packet_of(head_of(AOTX_OPERATION_INFORMATION, kAnn, 1), {}));
    REQUIRE(reply.payload.size() == 192 + 40);
    aotx_information information;
    std::memcpy(&information, reply.payload.data(), sizeof information);
    CHECK(information.schema == 1);
    CHECK(information.execution_slots_plus_one == 9);
    CHECK(information.prompt_bytes_max == 1000);
    CHECK(information.sequence_tokens_max == 64);
    CHECK(information.request_entries == 16);
    CHECK(information.request_output_bytes_max == 256);
    CHECK(information.mailboxes == 8);
    CHECK(information.grant_output_tokens_max == 1000);
    CHECK(information.grant_pages_max == 3);
    CHECK(information.grant_active_requests_max == 64);
    CHECK(information.grant_actions == AOTX_ACTION_MASK_ALL);
    CHECK(information.model_rows == 1);
    CHECK(information.request_seconds_max == 300);
    CHECK(information.upload_seconds_max == 120);
    CHECK(information.principal_entries == 8);
    CHECK(information.tick == 0);
    CHECK(information.clock_ns == 0);
    aotx_model_row model;
    std::memcpy(&model, reply.payload.data() + 192, sizeof model);
    CHECK(model.role == AOTX_MODEL_ROLE_LANGUAGE_Q4);
    CHECK(model.modalities == AOTX_MODALITY_TEXT);
    const Reply telemetry = device.call(packet_of(head_of(AOTX_OPERATION_TELEMETRY, kAnn, 1), {}));
    std::memcpy(&information, telemetry.payload.data(), sizeof information);
    CHECK(information.service_allocation_bytes == 12345);
    CHECK(information.clock_ns == device.now_ns);
    CHECK(device.call(packet_of(head_of(AOTX_OPERATION_TELEMETRY, kBob, 1), {})).head.status ==
          403);
    // The ceiling stands for 0 pages: 64 tokens in pages of 4.
    const Reply bob = device.call(packet_of(head_of(AOTX_OPERATION_INFORMATION, kBob, 1), {}));
    REQUIRE(bob.payload.size() == 192 + 80);
    std::memcpy(&information, bob.payload.data(), sizeof information);
    CHECK(information.grant_pages_max == 16);
}

TEST_CASE("media, shared and policy operations are refused in the contract's order")
{
    Device device;
    std::vector<aotx_grant_row> rows = {grant_of(kAnn, 1), grant_of(kBob, 1)};
    rows[1].actions = AOTX_ACTION_INFER;
    REQUIRE(device.call(grants_packet(1, rows), 0).head.status == 200);
    device.revision = 1;
    aotx_media_head media = {};
    media.schema = 1;
    media.step = AOTX_MEDIA_STEP_BEGIN;
    std::memcpy(media.transfer_id, id_of(5).bytes, 16);
    media.total_bytes = 100;
    media.data_bytes = 48;
    aotx_media_begin begin = {};
    begin.format = AOTX_MEDIA_FORMAT_WAV;
    const auto packet = [&](const Id& principal) {
        aotx_request_head head = head_of(AOTX_OPERATION_MEDIA, principal, 1);
        std::memcpy(head.id, id_of(5).bytes, 16);
        Bytes payload(sizeof media + media.data_bytes);
        std::memcpy(payload.data(), &media, sizeof media);
        std::memcpy(payload.data() + sizeof media, &begin,
                    media.data_bytes < sizeof begin ? media.data_bytes : sizeof begin);
        return packet_of(head, payload);
    };
    CHECK(device.call(packet(kAnn)).head.status == 503);
    CHECK(device.call(packet(kBob)).head.status == 403);
    begin.format = AOTX_MEDIA_FORMAT_PCM;
    CHECK(device.call(packet(kAnn)).head.status == 400);
    begin.format = AOTX_MEDIA_FORMAT_JPEG;
    media.offset_bytes = 1;
    CHECK(device.call(packet(kAnn)).head.status == 400);
    media = {1, AOTX_MEDIA_STEP_CHUNK, {}, 100, 7, 8192, {}};
    std::memcpy(media.transfer_id, id_of(5).bytes, 16);
    CHECK(device.call(packet(kAnn)).head.status == 503);
    media.data_bytes = 8193;
    CHECK(device.call(packet(kAnn)).head.status == 400);
    media.step = AOTX_MEDIA_STEP_END;
    media.data_bytes = 0;
    CHECK(device.call(packet(kAnn)).head.status == 503);
    media.schema = 2;
    CHECK(device.call(packet(kAnn)).head.status == 400);
    for (const uint32_t operation : {AOTX_OPERATION_MEDIA_READ, AOTX_OPERATION_MEDIA_LIST,
                                     AOTX_OPERATION_SHARED_MUTATE, AOTX_OPERATION_SHARED_READ}) {
        CHECK(device.call(plain_packet(operation, kAnn, 1)).head.status == 503);
    }
    const Reply policy = device.call(plain_packet(AOTX_OPERATION_POLICY, kAnn, 1));
    REQUIRE(policy.head.status == 200);
    REQUIRE(policy.payload.size() == 160);
    aotx_policy_state_payload state;
    std::memcpy(&state, policy.payload.data(), sizeof state);
    CHECK(state.schema == 1);
    CHECK(state.state == AOTX_POLICY_STATE_OFF);
    CHECK(state.reason == AOTX_POLICY_REASON_DISABLED);
    CHECK(device.call(plain_packet(AOTX_OPERATION_POLICY, kBob, 1)).head.status == 403);
    const struct {
        aotx_policy_control control;
        const Id& principal;
        uint64_t epoch;
        uint32_t status;
    } writes[] = {
        {{1, 1, 0}, kAnn, kEpoch, 503}, {{2, 1, 0}, kAnn, kEpoch, 400},
        {{1, 0, 0}, kAnn, kEpoch, 400}, {{1, 6, 0}, kAnn, kEpoch, 400},
        {{1, 1, 1}, kAnn, kEpoch, 409}, {{1, 1, 0}, kAnn, kEpoch + 1, 410},
        {{1, 1, 0}, kBob, kEpoch, 403},
    };
    for (const auto& write : writes) {
        aotx_request_head head = head_of(AOTX_OPERATION_POLICY, write.principal, 1);
        head.runtime_epoch = write.epoch;
        Bytes payload(16);
        std::memcpy(payload.data(), &write.control, 16);
        CHECK(device.call(packet_of(head, payload)).head.status == write.status);
    }
}
