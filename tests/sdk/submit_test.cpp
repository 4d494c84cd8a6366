// Purpose:  submission payloads: builder, walker and judge, by tables, at every prefix, and against
//           a page that faults.
// Owns:     nothing. Thread: main. Lifetime: one run.
#include "aotx/submit.h"

#include <catch2/catch.hpp>
#include <limits>

#include "packets.h"
#include "tests/support/guard_page.h"

namespace {

struct Part {
    uint32_t kind;
    std::string content;
};
struct Message {
    uint32_t role;
    std::vector<Part> parts;
};

Bytes payload_of(const std::vector<Message>& messages)
{
    Bytes bytes;
    append32(&bytes, static_cast<uint32_t>(messages.size()));
    for (const Message& message : messages) {
        append32(&bytes, message.role);
        append32(&bytes, static_cast<uint32_t>(message.parts.size()));
        for (const Part& part : message.parts) {
            append32(&bytes, part.kind);
            append32(&bytes, static_cast<uint32_t>(part.content.size()));
            append_text(&bytes, part.content);
        }
    }
    return bytes;
}

int judge(const Bytes& bytes, uint32_t* media)
{
    const GuardCopy guarded(bytes.data(), bytes.size());
    return aotx_submit_check(guarded.bytes(), guarded.size_bytes(), media);
}

const std::string kDigest(32, 'd');

TEST_CASE("submission payloads")
{
    struct Row {
        const char* name;
        std::vector<Message> messages;
        int want;
        uint32_t media;
    };
    const Row rows[] = {
        {"one word", {{1, {{0, "hello"}}}}, AOTX_OK, 0},
        {"a conversation",
         {{0, {{0, "be brief"}}}, {1, {{0, "hi"}}}, {2, {{0, "hello"}}}, {1, {{0, "and?"}}}},
         AOTX_OK,
         0},
        {"an empty part", {{1, {{0, ""}}}}, AOTX_OK, 0},
        {"emoji", {{1, {{0, "\xf0\x9f\x98\x80"}}}}, AOTX_OK, 0},
        {"a picture", {{1, {{0, "see"}, {1, kDigest}, {2, kDigest}}}}, AOTX_OK, 2},
        {"no message", {}, AOTX_ERR_RANGE, 0},
        {"no part", {{1, {}}}, AOTX_ERR_RANGE, 0},
        {"unknown role", {{3, {{0, "x"}}}}, AOTX_ERR_RANGE, 0},
        {"unknown kind", {{1, {{3, "x"}}}}, AOTX_ERR_RANGE, 0},
        {"picture from the system", {{0, {{1, kDigest}}}}, AOTX_ERR_RANGE, 0},
        {"picture from the assistant", {{2, {{1, kDigest}}}}, AOTX_ERR_RANGE, 0},
        {"short digest", {{1, {{1, std::string(31, 'd')}}}}, AOTX_ERR_LENGTH, 0},
        {"long digest", {{1, {{2, std::string(33, 'd')}}}}, AOTX_ERR_LENGTH, 0},
        {"a byte that is no UTF-8", {{1, {{0, "\xff"}}}}, AOTX_ERR_SYNTAX, 0},
        {"cut in a character", {{1, {{0, "\xf0\x9f\x98"}}}}, AOTX_ERR_SYNTAX, 0},
        {"character over two parts", {{1, {{0, "\xf0\x9f"}, {0, "\x98\x80"}}}}, AOTX_ERR_SYNTAX, 0},
        {"surrogate", {{1, {{0, "\xed\xa0\x80"}}}}, AOTX_ERR_SYNTAX, 0},
        {"overlong", {{1, {{0, "\xc0\xaf"}}}}, AOTX_ERR_SYNTAX, 0},
        {"above the last character", {{1, {{0, "\xf4\x90\x80\x80"}}}}, AOTX_ERR_SYNTAX, 0},
        {"image marker", {{1, {{0, "a [image: b"}}}}, AOTX_ERR_SYNTAX, 0},
        {"audio marker", {{0, {{0, "[audio:"}}}}, AOTX_ERR_SYNTAX, 0},
        {"almost a marker", {{1, {{0, "[image [audio [imaudio: [Image:"}}}}, AOTX_OK, 0},
        {"marker behind a false start", {{1, {{0, "[im[image:"}}}}, AOTX_ERR_SYNTAX, 0},
        {"marker joined from two parts", {{1, {{0, "[ima"}, {0, "ge:"}}}}, AOTX_ERR_SYNTAX, 0},
        {"joined over an empty part",
         {{1, {{0, "["}, {0, ""}, {0, "audio:"}}}},
         AOTX_ERR_SYNTAX,
         0},
        {"a picture between the halves",
         {{1, {{0, "[ima"}, {1, kDigest}, {0, "ge:"}}}},
         AOTX_OK,
         1},
        {"two messages do not join", {{1, {{0, "[ima"}}}, {1, {{0, "ge:"}}}}, AOTX_OK, 0},
        {"most messages", std::vector<Message>(64, {1, {{0, "x"}}}), AOTX_OK, 0},
        {"one message too many", std::vector<Message>(65, {1, {{0, "x"}}}), AOTX_ERR_RANGE, 0},
        {"most parts", {{1, std::vector<Part>(32, {0, "x"})}}, AOTX_OK, 0},
        {"one part too many", {{1, std::vector<Part>(33, {0, "x"})}}, AOTX_ERR_RANGE, 0},
    };
    for (const Row& row : rows) {
        INFO(row.name);
        const Bytes bytes = payload_of(row.messages);
        uint32_t media = 99;
        CHECK(judge(bytes, &media) == row.want);
        CHECK(media == (row.want == AOTX_OK ? row.media : 99));
        for (size_t cut = 0; cut < bytes.size(); cut++) {
            const Bytes prefix(bytes.begin(), bytes.begin() + static_cast<long>(cut));
            CHECK(judge(prefix, &media) != AOTX_OK);
        }
        Bytes longer = bytes;
        longer.push_back(0);
        CHECK(judge(longer, &media) != AOTX_OK);
    }
}

TEST_CASE("lengths that lie are refused without reading behind the payload")
{
    for (const uint32_t lie : {6u, 0x7fffffffu, 0xfffffff8u, 0xffffffffu}) {
        Bytes bytes = payload_of({{1, {{0, "hello"}}}});
        put32(&bytes, 16, lie);
        uint32_t media = 0;
        CHECK(judge(bytes, &media) == AOTX_ERR_LENGTH);
    }
}

TEST_CASE("the builder writes what the contract draws, and the walker reads it back")
{
    uint8_t buffer[256];
    aotx_submit_builder builder = {};
    REQUIRE(aotx_submit_begin(&builder, buffer, sizeof buffer) == AOTX_OK);
    uint32_t bytes = 0;
    CHECK(aotx_submit_end(&builder, &bytes) == AOTX_ERR_STATE);
    CHECK(aotx_submit_part_add(&builder, 0, "x", 1) == AOTX_ERR_STATE);
    REQUIRE(aotx_submit_message_add(&builder, 0) == AOTX_OK);
    CHECK(aotx_submit_message_add(&builder, 1) == AOTX_ERR_STATE);
    CHECK(aotx_submit_end(&builder, &bytes) == AOTX_ERR_STATE);
    CHECK(aotx_submit_part_add(&builder, 1, kDigest.data(), 32) == AOTX_ERR_RANGE);
    REQUIRE(aotx_submit_part_add(&builder, 0, "be brief", 8) == AOTX_OK);
    REQUIRE(aotx_submit_message_add(&builder, 1) == AOTX_OK);
    CHECK(aotx_submit_part_add(&builder, 2, "short", 5) == AOTX_ERR_LENGTH);
    CHECK(aotx_submit_part_add(&builder, 3, "x", 1) == AOTX_ERR_RANGE);
    REQUIRE(aotx_submit_part_add(&builder, 0, "hi", 2) == AOTX_OK);
    REQUIRE(aotx_submit_part_add(&builder, 1, kDigest.data(), 32) == AOTX_OK);
    CHECK(aotx_submit_message_add(&builder, 3) == AOTX_ERR_RANGE);
    REQUIRE(aotx_submit_end(&builder, &bytes) == AOTX_OK);
    const Bytes want = payload_of({{0, {{0, "be brief"}}}, {1, {{0, "hi"}, {1, kDigest}}}});
    CHECK(Bytes(buffer, buffer + bytes) == want);

    aotx_submit_walker walker = {};
    aotx_submit_message message = {};
    aotx_submit_part part = {};
    const uint8_t* content = nullptr;
    REQUIRE(aotx_submit_walk_begin(&walker, buffer, bytes) == AOTX_OK);
    REQUIRE(aotx_submit_walk_message(&walker, &message) == AOTX_OK);
    CHECK(message.role == 0);
    CHECK(aotx_submit_walk_message(&walker, &message) == AOTX_ERR_STATE);
    REQUIRE(aotx_submit_walk_part(&walker, &part, &content) == AOTX_OK);
    CHECK(std::string(content, content + part.bytes) == "be brief");
    CHECK(aotx_submit_walk_part(&walker, &part, &content) == AOTX_ERR_NOT_FOUND);
    REQUIRE(aotx_submit_walk_message(&walker, &message) == AOTX_OK);
    CHECK(message.parts_count == 2);
    REQUIRE(aotx_submit_walk_part(&walker, &part, &content) == AOTX_OK);
    REQUIRE(aotx_submit_walk_part(&walker, &part, &content) == AOTX_OK);
    CHECK(part.kind == 1);
    CHECK(aotx_submit_walk_message(&walker, &message) == AOTX_ERR_NOT_FOUND);
}

TEST_CASE("the builder never writes behind its buffer")
{
    const Bytes want = payload_of({{1, {{0, "hello"}}}});
    for (size_t capacity = 0; capacity <= want.size(); capacity++) {
        const Bytes blank(capacity, 0xee);
        const GuardCopy guarded(blank.data(), blank.size());
        uint8_t* const buffer = reinterpret_cast<uint8_t*>(guarded.begin());
        aotx_submit_builder builder = {};
        int result = aotx_submit_begin(&builder, buffer, capacity);
        if (result == AOTX_OK) {
            result = aotx_submit_message_add(&builder, 1);
        }
        if (result == AOTX_OK) {
            result = aotx_submit_part_add(&builder, 0, "hello", 5);
        }
        CHECK(result == (capacity == want.size() ? AOTX_OK : AOTX_ERR_FULL));
    }
}

TEST_CASE("sampling words of a submission")
{
    const float infinity = std::numeric_limits<float>::infinity();
    const float nan = std::numeric_limits<float>::quiet_NaN();
    struct Row {
        float temperature;
        float top_p;
        uint32_t count;
        uint8_t id;
        int want;
    };
    const Row rows[] = {
        {1.0f, 1.0f, 1, 1, AOTX_OK},
        {0.0f, 0.000001f, 1, 1, AOTX_OK},
        {2.0f, 1.0f, 0xffffffffu, 1, AOTX_OK},
        {-0.0001f, 1.0f, 1, 1, AOTX_ERR_RANGE},
        {2.0001f, 1.0f, 1, 1, AOTX_ERR_RANGE},
        {1.0f, 0.0f, 1, 1, AOTX_ERR_RANGE},
        {1.0f, 1.0001f, 1, 1, AOTX_ERR_RANGE},
        {1.0f, -1.0f, 1, 1, AOTX_ERR_RANGE},
        {nan, 1.0f, 1, 1, AOTX_ERR_RANGE},
        {1.0f, nan, 1, 1, AOTX_ERR_RANGE},
        {infinity, 1.0f, 1, 1, AOTX_ERR_RANGE},
        {1.0f, infinity, 1, 1, AOTX_ERR_RANGE},
        {1.0f, 1.0f, 0, 1, AOTX_ERR_RANGE},
        {1.0f, 1.0f, 1, 0, AOTX_ERR_RANGE},
    };
    for (const Row& row : rows) {
        INFO(row.temperature << " " << row.top_p << " " << row.count);
        aotx_request_head head = {};
        head.temperature = row.temperature;
        head.top_p = row.top_p;
        head.count = row.count;
        head.id[3] = row.id;
        CHECK(aotx_submit_head_check(&head) == row.want);
    }
}

}  // namespace
