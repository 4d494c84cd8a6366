// Purpose:  replies and their payloads: information, watch news, media and policy states.
// Owns:     nothing. Thread: main. Lifetime: one run.
#include <catch2/catch.hpp>
#include <functional>

#include "aotx/information.h"
#include "aotx/media.h"
#include "aotx/names.h"
#include "aotx/packet_check.h"
#include "aotx/watch.h"
#include "packets.h"
#include "tests/support/guard_page.h"

namespace {

struct Change {
    const char* name;
    std::function<void(Bytes*)> change;
    int want;
};

Bytes information()
{
    Bytes bytes(192 + 40, 0);
    put32(&bytes, 0, 1);
    put32(&bytes, 4, 17);
    put32(&bytes, 44, 1);
    put32(&bytes, 192, 2);
    put32(&bytes, 196, 1);
    return bytes;
}

TEST_CASE("information payloads")
{
    const Change rows[] = {
        {"good", [](Bytes*) {}, AOTX_OK},
        {"schema 2", [](Bytes* b) { put32(b, 0, 2); }, AOTX_ERR_RANGE},
        {"no slot word", [](Bytes* b) { put32(b, 4, 0); }, AOTX_ERR_RANGE},
        {"a row more than counted", [](Bytes* b) { put32(b, 44, 0); }, AOTX_ERR_LENGTH},
        {"a row less than counted", [](Bytes* b) { put32(b, 44, 2); }, AOTX_ERR_LENGTH},
        {"a count that wraps", [](Bytes* b) { put32(b, 44, 0x66666667u); }, AOTX_ERR_LENGTH},
        {"image flag 2", [](Bytes* b) { put32(b, 52, 2); }, AOTX_ERR_RANGE},
        {"shared flag 2", [](Bytes* b) { put32(b, 152, 2); }, AOTX_ERR_RANGE},
        {"unknown action", [](Bytes* b) { put32(b, 40, 256); }, AOTX_ERR_RANGE},
        {"reserved 160", [](Bytes* b) { (*b)[160] = 1; }, AOTX_ERR_NONZERO},
        {"reserved 191", [](Bytes* b) { (*b)[191] = 1; }, AOTX_ERR_NONZERO},
        {"memory of a visible role", [](Bytes* b) { put32(b, 156, 4); }, AOTX_OK},
        {"memory of another role", [](Bytes* b) { put32(b, 156, 8); }, AOTX_ERR_RANGE},
        {"a role that is no language role", [](Bytes* b) { put32(b, 192, 5); }, AOTX_ERR_RANGE},
        {"a role beyond a shift", [](Bytes* b) { put32(b, 192, 34); }, AOTX_ERR_RANGE},
        {"an unknown modality", [](Bytes* b) { put32(b, 196, 9); }, AOTX_ERR_RANGE},
        {"a model without text", [](Bytes* b) { put32(b, 196, 2); }, AOTX_ERR_RANGE},
        {"one role twice",
         [](Bytes* b) {
             put32(b, 44, 2);
             b->insert(b->end(), b->begin() + 192, b->begin() + 232);
         },
         AOTX_ERR_RANGE},
    };
    for (const Change& row : rows) {
        INFO(row.name);
        Bytes bytes = information();
        row.change(&bytes);
        const GuardCopy guarded(bytes.data(), bytes.size());
        aotx_information head = {};
        CHECK(aotx_information_check(guarded.bytes(), guarded.size_bytes(), &head) == row.want);
    }
    const Bytes whole = information();
    for (size_t cut = 0; cut < whole.size(); cut++) {
        const GuardCopy guarded(whole.data(), cut);
        aotx_information head = {};
        CHECK(aotx_information_check(guarded.bytes(), cut, &head) == AOTX_ERR_LENGTH);
    }
}

// A row as a device without a usable GPU tells it.
Bytes device()
{
    Bytes bytes(256, 0);
    put32(&bytes, 0, 1);
    put32(&bytes, 4, 1);
    fill(&bytes, 16, 63, 'n');
    fill(&bytes, 80, 175, ' ');
    return bytes;
}

TEST_CASE("what a device says of itself")
{
    const Change rows[] = {
        {"good", [](Bytes*) {}, AOTX_OK},
        {"no reason", [](Bytes* b) { fill(b, 80, 176, 0); }, AOTX_OK},
        {"cuda", [](Bytes* b) { put32(b, 4, 2), fill(b, 80, 176, 0); }, AOTX_OK},
        {"cuda with a reason", [](Bytes* b) { put32(b, 4, 2); }, AOTX_ERR_RANGE},
        {"another schema", [](Bytes* b) { put32(b, 0, 2); }, AOTX_ERR_RANGE},
        {"no kind", [](Bytes* b) { put32(b, 4, 0); }, AOTX_ERR_RANGE},
        {"an unknown kind", [](Bytes* b) { put32(b, 4, 3); }, AOTX_ERR_RANGE},
        {"word 12", [](Bytes* b) { put32(b, 12, 1); }, AOTX_ERR_NONZERO},
        {"no name", [](Bytes* b) { fill(b, 16, 63, 0); }, AOTX_ERR_RANGE},
        {"a name without an end", [](Bytes* b) { (*b)[79] = 'n'; }, AOTX_ERR_RANGE},
        {"a reason without an end", [](Bytes* b) { (*b)[255] = 'n'; }, AOTX_ERR_RANGE},
        {"a byte behind the end", [](Bytes* b) { (*b)[40] = 0; }, AOTX_ERR_RANGE},
        {"a control byte", [](Bytes* b) { (*b)[20] = 0x1f; }, AOTX_ERR_RANGE},
        {"a byte that is no ASCII", [](Bytes* b) { (*b)[20] = 0x80; }, AOTX_ERR_RANGE},
        {"longer", [](Bytes* b) { b->push_back(0); }, AOTX_ERR_LENGTH},
    };
    for (const Change& row : rows) {
        INFO(row.name);
        Bytes bytes = device();
        row.change(&bytes);
        const GuardCopy guarded(bytes.data(), bytes.size());
        aotx_device_row seen = {};
        CHECK(aotx_device_check(guarded.bytes(), guarded.size_bytes(), &seen) == row.want);
    }
    const Bytes whole = device();
    for (size_t cut = 0; cut < whole.size(); cut++) {
        const GuardCopy guarded(whole.data(), cut);
        aotx_device_row seen = {};
        CHECK(aotx_device_check(guarded.bytes(), cut, &seen) == AOTX_ERR_LENGTH);
    }
}

// One entry with three bytes of data, output 10 so far, starting at byte 7.
Bytes news()
{
    Bytes bytes(72 + 8, 0);
    put64(&bytes, 16, 7);
    put32(&bytes, 28, 200);
    put32(&bytes, 32, 3);
    put32(&bytes, 36, 2);
    put32(&bytes, 40, 10);
    put32(&bytes, 64, 3);
    fill(&bytes, 72, 3, 'x');
    return bytes;
}

TEST_CASE("news of a watch")
{
    const Change rows[] = {
        {"good", [](Bytes*) {}, AOTX_OK},
        {"padding", [](Bytes* b) { (*b)[75] = 1; }, AOTX_ERR_NONZERO},
        {"word 68", [](Bytes* b) { put32(b, 68, 1); }, AOTX_ERR_NONZERO},
        {"data behind the payload", [](Bytes* b) { put32(b, 64, 9); }, AOTX_ERR_LENGTH},
        {"a length that wraps", [](Bytes* b) { put32(b, 64, 0xfffffffcu); }, AOTX_ERR_LENGTH},
        {"data behind the output", [](Bytes* b) { put32(b, 64, 4); }, AOTX_ERR_RANGE},
        {"cursor behind the output", [](Bytes* b) { put64(b, 16, 11); }, AOTX_ERR_RANGE},
        {"a phase that is none", [](Bytes* b) { put32(b, 32, 7); }, AOTX_ERR_RANGE},
        {"a finish that is none", [](Bytes* b) { put32(b, 52, 3); }, AOTX_ERR_RANGE},
        {"refused with data", [](Bytes* b) { put32(b, 28, 404); }, AOTX_ERR_RANGE},
    };
    for (const Change& row : rows) {
        INFO(row.name);
        Bytes bytes = news();
        row.change(&bytes);
        const GuardCopy guarded(bytes.data(), bytes.size());
        size_t at = 0;
        aotx_watch_news head = {};
        const uint8_t* data = nullptr;
        CHECK(aotx_watch_news_next(guarded.bytes(), bytes.size(), &at, &head, &data) == row.want);
        CHECK(at == (row.want == AOTX_OK ? 80 : 0));
    }
    Bytes two = news();
    const Bytes one = news();
    two.insert(two.end(), one.begin(), one.end());
    size_t at = 0;
    aotx_watch_news head = {};
    const uint8_t* data = nullptr;
    CHECK(aotx_watch_news_next(two.data(), two.size(), &at, &head, &data) == AOTX_OK);
    CHECK(aotx_watch_news_next(two.data(), two.size(), &at, &head, &data) == AOTX_OK);
    CHECK(std::string(data, data + head.data_bytes) == "xxx");
    CHECK(aotx_watch_news_next(two.data(), two.size(), &at, &head, &data) == AOTX_ERR_NOT_FOUND);
    for (size_t cut = 1; cut < one.size(); cut++) {
        const GuardCopy guarded(one.data(), cut);
        at = 0;
        CHECK(aotx_watch_news_next(guarded.bytes(), cut, &at, &head, &data) == AOTX_ERR_LENGTH);
    }
}

Bytes media(uint32_t step, size_t data_bytes)
{
    Bytes bytes(64 + data_bytes, 0);
    put32(&bytes, 0, 1);
    put32(&bytes, 4, step);
    fill(&bytes, 8, 16, 3);
    put64(&bytes, 24, 1000);
    put32(&bytes, 40, static_cast<uint32_t>(data_bytes));
    if (step == 1 && data_bytes == 48) {
        put32(&bytes, 64, 1);
    }
    return bytes;
}

TEST_CASE("media steps")
{
    struct Row {
        const char* name;
        Bytes bytes;
        std::function<void(Bytes*)> change;
        int want;
    };
    const auto keep = [](Bytes*) {};
    const Row rows[] = {
        {"begin", media(1, 48), keep, AOTX_OK},
        {"chunk", media(2, 1), keep, AOTX_OK},
        {"largest chunk", media(2, 8192), keep, AOTX_OK},
        {"end", media(3, 0), keep, AOTX_OK},
        {"remove", media(4, 0), keep, AOTX_OK},
        {"begin with 47", media(1, 47), keep, AOTX_ERR_LENGTH},
        {"begin with 49", media(1, 49), keep, AOTX_ERR_LENGTH},
        {"empty chunk", media(2, 0), keep, AOTX_ERR_LENGTH},
        {"chunk too long", media(2, 8193), keep, AOTX_ERR_LENGTH},
        {"end with data", media(3, 1), keep, AOTX_ERR_LENGTH},
        {"remove with data", media(4, 1), keep, AOTX_ERR_LENGTH},
        {"step 0", media(0, 0), keep, AOTX_ERR_RANGE},
        {"step 5", media(5, 0), keep, AOTX_ERR_RANGE},
        {"schema 2", media(3, 0), [](Bytes* b) { put32(b, 0, 2); }, AOTX_ERR_RANGE},
        {"another ID", media(3, 0), [](Bytes* b) { (*b)[8] = 4; }, AOTX_ERR_RANGE},
        {"reserved 63", media(3, 0), [](Bytes* b) { (*b)[63] = 4; }, AOTX_ERR_NONZERO},
        {"format PCM", media(1, 48), [](Bytes* b) { put32(b, 64, 4); }, AOTX_ERR_RANGE},
        {"format WAV", media(1, 48), [](Bytes* b) { put32(b, 64, 3); }, AOTX_OK},
        {"begin at an offset", media(1, 48), [](Bytes* b) { put64(b, 32, 1); }, AOTX_ERR_RANGE},
        {"begin of nothing", media(1, 48), [](Bytes* b) { put64(b, 24, 0); }, AOTX_ERR_RANGE},
        {"reserved of begin", media(1, 48), [](Bytes* b) { (*b)[79] = 1; }, AOTX_ERR_NONZERO},
    };
    uint8_t id[16];
    std::memset(id, 3, sizeof id);
    for (const Row& row : rows) {
        INFO(row.name);
        Bytes bytes = row.bytes;
        row.change(&bytes);
        aotx_media_head head = {};
        aotx_media_begin begin = {};
        const GuardCopy guarded(bytes.data(), bytes.size());
        CHECK(aotx_media_check(guarded.bytes(), bytes.size(), id, &head, &begin) == row.want);
        for (size_t cut = 0; cut < bytes.size() && cut < 120; cut++) {
            const GuardCopy part(bytes.data(), cut);
            CHECK(aotx_media_check(part.bytes(), cut, id, &head, &begin) == AOTX_ERR_LENGTH);
        }
    }
}

TEST_CASE("media states, lists and policy payloads")
{
    Bytes state(64, 0);
    put32(&state, 40, 6);
    put32(&state, 48, 1);
    aotx_media_state seen = {};
    CHECK(aotx_media_state_check(state.data(), 64, &seen) == AOTX_OK);
    CHECK(aotx_media_state_check(state.data(), 63, &seen) == AOTX_ERR_LENGTH);
    put32(&state, 40, 8);
    CHECK(aotx_media_state_check(state.data(), 64, &seen) == AOTX_ERR_RANGE);
    Bytes list(160, 0);
    aotx_media_row row = {};
    CHECK(aotx_media_list_row(list.data(), 160, 1, &row) == AOTX_OK);
    CHECK(aotx_media_list_row(list.data(), 160, 2, &row) == AOTX_ERR_NOT_FOUND);
    CHECK(aotx_media_list_row(list.data(), 159, 0, &row) == AOTX_ERR_LENGTH);
    CHECK(aotx_media_list_row(list.data(), 0, 0, &row) == AOTX_ERR_NOT_FOUND);

    Bytes control(16, 0);
    aotx_policy_control wanted = {};
    for (uint32_t action = 0; action < 8; action++) {
        put32(&control, 0, 1);
        put32(&control, 4, action);
        const int want = action >= 1 && action <= 5 ? AOTX_OK : AOTX_ERR_RANGE;
        CHECK(aotx_policy_control_check(control.data(), 16, &wanted) == want);
    }
    CHECK(aotx_policy_control_check(control.data(), 15, &wanted) == AOTX_ERR_LENGTH);
    Bytes policy(160, 0);
    put32(&policy, 0, 1);
    put32(&policy, 120, 5);
    aotx_policy_state_payload state_seen = {};
    CHECK(aotx_policy_state_check(policy.data(), 160, &state_seen) == AOTX_OK);
    policy[159] = 1;
    CHECK(aotx_policy_state_check(policy.data(), 160, &state_seen) == AOTX_ERR_NONZERO);
}

TEST_CASE("reply heads and their state words")
{
    Bytes bytes = packet(200, 3);
    put32(&bytes, 12, 3);
    put64(&bytes, 64, 7);
    put32(&bytes, 76, 10);
    aotx_reply_head head = {};
    REQUIRE(aotx_reply_check(bytes.data(), bytes.size(), &head) == AOTX_OK);
    CHECK(aotx_reply_state_check(&head) == AOTX_OK);
    head.output_bytes = 9;
    CHECK(aotx_reply_state_check(&head) == AOTX_ERR_RANGE);
    head.output_bytes = 6;
    CHECK(aotx_reply_state_check(&head) == AOTX_ERR_RANGE);
    bytes[104] = 1;
    CHECK(aotx_reply_check(bytes.data(), bytes.size(), &head) == AOTX_ERR_NONZERO);
    for (size_t cut = 0; cut < bytes.size(); cut++) {
        const GuardCopy guarded(bytes.data(), cut);
        CHECK(aotx_reply_check(guarded.bytes(), cut, &head) == AOTX_ERR_LENGTH);
    }
}

TEST_CASE("every value has the name of the contract and others are unknown")
{
    CHECK(std::string(aotx_phase_name(4)) == "completed");
    CHECK(std::string(aotx_phase_name(7)) == "unknown");
    CHECK(std::string(aotx_model_role_name(3)) == "language-q4");
    CHECK(std::string(aotx_operation_name(12)) == "policy");
    CHECK(std::string(aotx_operation_name(0)) == "unknown");
    CHECK(std::string(aotx_finish_name(2)) == "length");
    CHECK(std::string(aotx_result_text(AOTX_ERR_MAGIC)).find("AOTXAPI1") != std::string::npos);
}

}  // namespace
