// Purpose:  the golden packets, from structs to bytes: what the SDK's builders and structs make of
//           the contract's values is the file, byte for byte, and the checks accept it.
// Owns:     nothing. Thread: main. Lifetime: one run.
//
// tests/cli/golden_test.py goes the other way, from bytes to named values.
#include <catch2/catch.hpp>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>

#include "aotx/broker_client.hpp"
#include "aotx/grants.h"
#include "aotx/media.h"
#include "packets.h"

namespace {

const aotx::BrokerPrincipal& who()
{
    static const aotx::BrokerPrincipal principal = [] {
        aotx::BrokerPrincipal made = {};
        std::memset(made.id, 0xa1, sizeof made.id);
        made.grant_revision = 9;
        return made;
    }();
    return principal;
}

const uint8_t kId[16] = {0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77,
                         0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff};
constexpr uint64_t kEpoch = 3;

void digest(uint8_t sha256[32])
{
    for (uint8_t i = 0; i < 32; i++) {
        sha256[i] = i;
    }
}

template <typename Struct>
void append(Bytes* bytes, const Struct& value)
{
    const uint8_t* const begin = reinterpret_cast<const uint8_t*>(&value);
    bytes->insert(bytes->end(), begin, begin + sizeof value);
}

template <typename Head>
Bytes whole(Head head, const Bytes& payload = {})
{
    head.payload_bytes = static_cast<uint32_t>(payload.size());
    Bytes bytes;
    append(&bytes, head);
    bytes.insert(bytes.end(), payload.begin(), payload.end());
    return bytes;
}

aotx_request_head request(uint32_t operation)
{
    aotx_request_head head = {};
    aotx_request_head_begin(&head, operation, who().id, who().grant_revision);
    return head;
}

aotx_reply_head reply(const aotx_request_head& request_head, uint32_t status, uint32_t phase = 0)
{
    aotx_reply_head head = {};
    aotx_reply_head_begin(&head, &request_head, status, kEpoch);
    head.phase = phase;
    return head;
}

Bytes grants()
{
    aotx_grant_row row = {};
    aotx_copy(row.principal, who().id, sizeof row.principal);
    row.actions = AOTX_ACTION_INFER | AOTX_ACTION_UPLOAD | AOTX_ACTION_TELEMETRY;
    row.model_mask = AOTX_MODEL_MASK_LANGUAGE;
    row.output_tokens_max = 4096;
    row.active_requests_max = 16;
    row.media_objects_max = 8;
    row.media_bytes_max = 5000000000;
    Bytes bytes(AOTX_PACKET_BYTES_MAX);
    size_t used = 0;
    REQUIRE(aotx_grants_build(9, &row, 1, bytes.data(), &used) == AOTX_OK);
    bytes.resize(used);
    return bytes;
}

Bytes submit()
{
    uint8_t sha256[32];
    digest(sha256);
    Bytes payload(256);
    aotx_submit_builder builder = {};
    uint32_t used = 0;
    REQUIRE(aotx_submit_begin(&builder, payload.data(), payload.size()) == AOTX_OK);
    REQUIRE(aotx_submit_message_add(&builder, AOTX_MESSAGE_ROLE_SYSTEM) == AOTX_OK);
    REQUIRE(aotx_submit_part_add(&builder, AOTX_PART_KIND_TEXT, "be brief", 8) == AOTX_OK);
    REQUIRE(aotx_submit_message_add(&builder, AOTX_MESSAGE_ROLE_USER) == AOTX_OK);
    REQUIRE(aotx_submit_part_add(&builder, AOTX_PART_KIND_TEXT, "hi", 2) == AOTX_OK);
    REQUIRE(aotx_submit_part_add(&builder, AOTX_PART_KIND_IMAGE, sha256, 32) == AOTX_OK);
    REQUIRE(aotx_submit_end(&builder, &used) == AOTX_OK);
    payload.resize(used);
    aotx::SubmitOptions options;
    options.output_tokens_max = 64;
    options.temperature = 0.5f;
    options.top_p = 0.75f;
    return whole(aotx::submit_head(who(), kEpoch, kId, options, used), payload);
}

Bytes submit_reply()
{
    aotx::SubmitOptions options;
    aotx_reply_head head = reply(aotx::submit_head(who(), kEpoch, kId, options, 0),
                                 AOTX_STATUS_ACCEPTED, AOTX_PHASE_QUEUED);
    head.model_role = AOTX_MODEL_ROLE_LANGUAGE;
    return whole(head);
}

aotx_reply_head window(uint64_t cursor, uint32_t phase)
{
    aotx_reply_head head =
        reply(aotx::read_head(who(), kEpoch, kId, cursor), AOTX_STATUS_OK, phase);
    head.cursor = cursor;
    head.model_role = AOTX_MODEL_ROLE_LANGUAGE;
    head.output_bytes = 8;
    head.prompt_tokens = 11;
    head.sampled_tokens = 4;
    return head;
}

Bytes read_reply_end()
{
    aotx_reply_head head = window(8, AOTX_PHASE_COMPLETED);
    head.sampled_tokens = 5;
    head.finish = AOTX_FINISH_STOP;
    return whole(head);
}

Bytes cancel_reply()
{
    aotx_reply_head head = window(0, AOTX_PHASE_RUNNING);
    head.cancel_requested = 1;
    return whole(head);
}

Bytes information(bool telemetry)
{
    aotx_information facts = {};
    facts.schema = AOTX_INFORMATION_SCHEMA;
    facts.execution_slots_plus_one = 17;
    facts.prompt_bytes_max = 65408;
    facts.sequence_tokens_max = 8192;
    facts.request_entries = 128;
    facts.request_output_bytes_max = 65536;
    facts.mailboxes = 128;
    facts.grant_output_tokens_max = 4096;
    facts.grant_pages_max = 64;
    facts.grant_active_requests_max = 16;
    facts.grant_actions = AOTX_ACTION_INFER | AOTX_ACTION_TELEMETRY;
    facts.model_rows = 1;
    facts.grant_media_objects_max = 8;
    facts.grant_media_bytes_max = 5000000000;
    facts.request_seconds_max = 300;
    facts.upload_seconds_max = 120;
    facts.principal_entries = 256;
    facts.automatic_memory_mask = 1u << AOTX_MODEL_ROLE_LANGUAGE;
    if (telemetry) {
        facts.service_allocation_bytes = 123456789;
        facts.tick = 42;
        facts.clock_ns = 1000000000000000000;
    }
    aotx_model_row row = {AOTX_MODEL_ROLE_LANGUAGE, AOTX_MODALITY_TEXT, {}};
    digest(row.sha256);
    Bytes payload;
    append(&payload, facts);
    append(&payload, row);
    const aotx_request_head head =
        telemetry ? aotx::telemetry_head(who()) : aotx::information_head(who());
    return whole(reply(head, AOTX_STATUS_OK), payload);
}

aotx_request_head media_request(uint32_t operation)
{
    aotx_request_head head = request(operation);
    aotx_copy(head.id, kId, sizeof head.id);
    return head;
}

Bytes media(uint32_t step, uint64_t total_bytes, uint64_t offset_bytes, const Bytes& data)
{
    aotx_media_head head = {};
    head.schema = AOTX_MEDIA_SCHEMA;
    head.step = step;
    aotx_copy(head.transfer_id, kId, sizeof head.transfer_id);
    head.total_bytes = total_bytes;
    head.offset_bytes = offset_bytes;
    head.data_bytes = static_cast<uint32_t>(data.size());
    Bytes payload;
    append(&payload, head);
    payload.insert(payload.end(), data.begin(), data.end());
    return whole(media_request(AOTX_OPERATION_MEDIA), payload);
}

Bytes media_begin()
{
    aotx_media_begin begin = {};
    begin.format = AOTX_MEDIA_FORMAT_JPEG;
    digest(begin.sha256);
    Bytes data;
    append(&data, begin);
    return media(AOTX_MEDIA_STEP_BEGIN, 1000, 0, data);
}

aotx_media_state media_state()
{
    aotx_media_state state = {};
    digest(state.sha256);
    state.bytes = 1000;
    state.phase = AOTX_MEDIA_PHASE_READY;
    state.format = AOTX_MEDIA_FORMAT_WAV;
    state.samples = 16000;
    state.feature_rows = 25;
    return state;
}

Bytes media_read_reply()
{
    Bytes payload;
    append(&payload, media_state());
    return whole(reply(media_request(AOTX_OPERATION_MEDIA_READ), AOTX_STATUS_OK), payload);
}

aotx_request_head media_list()
{
    aotx_request_head head = request(AOTX_OPERATION_MEDIA_LIST);
    head.cursor = 7;
    return head;
}

Bytes media_list_reply()
{
    aotx_media_row row = {};
    aotx_copy(row.id, kId, sizeof row.id);
    row.state = media_state();
    Bytes payload;
    append(&payload, row);
    aotx_reply_head head = reply(media_list(), AOTX_STATUS_OK);
    head.cursor = 12;
    return whole(head, payload);
}

Bytes policy_control()
{
    const aotx_policy_control control = {AOTX_POLICY_SCHEMA, AOTX_POLICY_ACTION_PAUSE, 5};
    aotx_request_head head = request(AOTX_OPERATION_POLICY);
    head.runtime_epoch = kEpoch;
    Bytes payload;
    append(&payload, control);
    return whole(head, payload);
}

Bytes policy_reply()
{
    aotx_policy_state_payload state = {};
    state.schema = AOTX_POLICY_SCHEMA;
    state.abi = 1;
    state.state = AOTX_POLICY_STATE_OFF;
    state.result_status = 200;
    state.control_revision = 1;
    state.source_frontier = 2;
    state.completed = 3;
    state.interrupted = 4;
    state.refused = 5;
    state.decision = 6;
    state.saved_generation = 7;
    state.maximum_ns = 8;
    state.last_ns = 9;
    state.written_bytes = 10;
    state.result_bytes = 11;
    state.reason = AOTX_POLICY_REASON_DISABLED;
    Bytes payload;
    append(&payload, state);
    return whole(reply(request(AOTX_OPERATION_POLICY), AOTX_STATUS_OK), payload);
}

aotx_request_head watch_head()
{
    uint8_t watch_id[16];
    std::memset(watch_id, 0x77, sizeof watch_id);
    return aotx::watch_head(kEpoch, watch_id, 1);
}

Bytes watch()
{
    aotx_watch_row row = {};
    aotx_watch_row_make(&row, who().id, who().grant_revision, kId, 5, AOTX_PHASE_RUNNING, 0);
    CHECK(aotx_watch_row_check(&row) == AOTX_OK);
    Bytes payload;
    append(&payload, row);
    return whole(watch_head(), payload);
}

Bytes watch_reply()
{
    aotx_watch_news news = {};
    aotx_copy(news.id, kId, sizeof news.id);
    news.cursor = 5;
    news.status = AOTX_STATUS_OK;
    news.phase = AOTX_PHASE_RUNNING;
    news.model_role = AOTX_MODEL_ROLE_LANGUAGE;
    news.output_bytes = 8;
    news.prompt_tokens = 11;
    news.sampled_tokens = 4;
    news.data_bytes = 3;
    Bytes payload;
    append(&payload, news);
    append_text(&payload, "abc");
    payload.resize(aotx_watch_news_stride(news.data_bytes));
    aotx_reply_head head = reply(watch_head(), AOTX_STATUS_OK);
    head.output_bytes = 1;
    return whole(head, payload);
}

Bytes device_reply()
{
    aotx_device_row row = {};
    row.schema = AOTX_DEVICE_SCHEMA;
    row.kind = AOTX_DEVICE_KIND_CPU;
    row.restarts = 0;
    std::memcpy(row.name, "CPU", 3);
    std::memcpy(row.reason, "no CUDA driver (35)", 19);
    Bytes payload;
    append(&payload, row);
    return whole(reply(aotx::device_head(), AOTX_STATUS_OK), payload);
}

// name of the file -> the packet as the SDK builds it.
const std::pair<const char*, std::function<Bytes()>> kPackets[] = {
    {"grants", grants},
    {"information", [] { return whole(aotx::information_head(who())); }},
    {"information_reply", [] { return information(false); }},
    {"telemetry", [] { return whole(aotx::telemetry_head(who())); }},
    {"telemetry_reply", [] { return information(true); }},
    {"submit", submit},
    {"submit_reply", submit_reply},
    {"read", [] { return whole(aotx::read_head(who(), kEpoch, kId, 5)); }},
    {"read_reply",
     [] {
         return whole(window(5, AOTX_PHASE_RUNNING), {'a', 'b', 'c'});
     }},
    {"read_reply_end", read_reply_end},
    {"cancel", [] { return whole(aotx::cancel_head(who(), kEpoch, kId)); }},
    {"cancel_reply", cancel_reply},
    {"media_begin", media_begin},
    {"media_chunk",
     [] {
         return media(AOTX_MEDIA_STEP_CHUNK, 1000, 996, {'t', 'a', 'i', 'l'});
     }},
    {"media_end", [] { return media(AOTX_MEDIA_STEP_END, 1000, 1000, {}); }},
    {"media_remove", [] { return media(AOTX_MEDIA_STEP_REMOVE, 0, 0, {}); }},
    {"media_read", [] { return whole(media_request(AOTX_OPERATION_MEDIA_READ)); }},
    {"media_read_reply", media_read_reply},
    {"media_list", [] { return whole(media_list()); }},
    {"media_list_reply", media_list_reply},
    {"policy", [] { return whole(request(AOTX_OPERATION_POLICY)); }},
    {"policy_control", policy_control},
    {"policy_reply", policy_reply},
    {"watch", watch},
    {"watch_reply", watch_reply},
    {"device", [] { return whole(aotx::device_head()); }},
    {"device_reply", device_reply},
};

Bytes golden(const std::string& name)
{
    std::ifstream file("tests/sdk/golden/" + name + ".txt");
    REQUIRE(file);
    Bytes bytes;
    std::string line;
    while (std::getline(file, line)) {
        std::istringstream words(line);
        std::string offset;
        std::string hex;
        words >> offset >> hex;
        if (offset == "#") {
            continue;
        }
        REQUIRE(std::stoul(offset) == bytes.size());
        for (size_t at = 0; at < hex.size(); at += 2) {
            bytes.push_back(static_cast<uint8_t>(std::stoul(hex.substr(at, 2), nullptr, 16)));
        }
    }
    return bytes;
}

TEST_CASE("structs make the golden bytes")
{
    for (const auto& packet : kPackets) {
        INFO(packet.first);
        const Bytes want = golden(packet.first);
        const Bytes got = packet.second();
        CHECK(got == want);
        const bool is_reply = std::string(packet.first).find("_reply") != std::string::npos;
        if (is_reply) {
            aotx_reply_head head = {};
            CHECK(aotx_reply_check(want.data(), want.size(), &head) == AOTX_OK);
            CHECK(std::memcmp(&head, want.data(), sizeof head) == 0);
        } else {
            aotx_request_head head = {};
            CHECK(aotx_request_check(want.data(), want.size(), &head) == AOTX_OK);
            CHECK(aotx_request_shape_check(&head) == AOTX_OK);
            CHECK(std::memcmp(&head, want.data(), sizeof head) == 0);
        }
    }
}

TEST_CASE("every operation that exists has a golden packet")
{
    std::set<uint32_t> seen;
    for (const auto& packet : kPackets) {
        uint32_t word = 0;
        std::memcpy(&word, golden(packet.first).data() + 8, sizeof word);
        seen.insert(word);
    }
    for (uint32_t operation = AOTX_OPERATION_GRANTS; operation <= AOTX_OPERATION_DEVICE;
         operation++) {
        const bool unspecified =
            operation == AOTX_OPERATION_SHARED_MUTATE || operation == AOTX_OPERATION_SHARED_READ;
        CHECK((seen.count(operation) == 1) == !unspecified);
    }
}

}  // namespace
