// Purpose:  the content check of submissions: bounds, UTF-8, markers, and no byte read too far.
// Owns:     nothing.
// Thread:   main.
// Lifetime: one run.
#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

#include "aotx/submit.h"
#include "cuda/core/submit.h"
#include "guard_page.h"

namespace {

struct Part {
    uint32_t kind;
    std::string bytes;
};
struct Message {
    uint32_t role;
    std::vector<Part> parts;
};

void word(std::string* out, uint32_t value)
{
    out->append(reinterpret_cast<const char*>(&value), 4);
}

std::string payload_of(const std::vector<Message>& messages)
{
    std::string out;
    word(&out, static_cast<uint32_t>(messages.size()));
    for (const Message& message : messages) {
        word(&out, message.role);
        word(&out, static_cast<uint32_t>(message.parts.size()));
        for (const Part& part : message.parts) {
            word(&out, part.kind);
            word(&out, static_cast<uint32_t>(part.bytes.size()));
            out += part.bytes;
        }
    }
    return out;
}

// At every prefix the check reads no byte behind the end; only the whole may pass.
bool check(const std::string& payload)
{
    for (size_t cut = 0; cut<payload.size(); cut += payload.size()> 600 ? 97 : 1) {
        const GuardCopy copy(payload.data(), cut);
        aotx::CoreSubmission submission;
        CHECK_FALSE(
            aotx::core_submission_check(copy.bytes(), static_cast<uint32_t>(cut), &submission));
    }
    const GuardCopy copy(payload.data(), payload.size());
    aotx::CoreSubmission submission;
    return aotx::core_submission_check(copy.bytes(), static_cast<uint32_t>(payload.size()),
                                       &submission);
}

std::string text(const std::string& bytes)
{
    return payload_of({{1, {{0, bytes}}}});
}

}  // namespace

TEST_CASE("bounds of messages and parts")
{
    const std::string digest(32, 'd');
    const struct {
        const char* name;
        std::string payload;
        bool good;
    } rows[] = {
        {"one text", text("hi"), true},
        {"an empty text", text(""), true},
        {"no message", payload_of({}), false},
        {"64 messages", payload_of(std::vector<Message>(64, {0, {{0, "x"}}})), true},
        {"65 messages", payload_of(std::vector<Message>(65, {0, {{0, "x"}}})), false},
        {"no part", payload_of({{1, {}}}), false},
        {"32 parts", payload_of({{1, std::vector<Part>(32, {0, "x"})}}), true},
        {"33 parts", payload_of({{1, std::vector<Part>(33, {0, "x"})}}), false},
        {"role 2", payload_of({{2, {{0, "x"}}}}), true},
        {"role 3", payload_of({{3, {{0, "x"}}}}), false},
        {"kind 3", payload_of({{1, {{3, "x"}}}}), false},
        {"image in a user message", payload_of({{1, {{1, digest}}}}), true},
        {"audio in a user message", payload_of({{1, {{2, digest}}}}), true},
        {"image in a system message", payload_of({{0, {{1, digest}}}}), false},
        {"audio in an assistant message", payload_of({{2, {{2, digest}}}}), false},
        {"a digest of 31 bytes", payload_of({{1, {{1, std::string(31, 'd')}}}}), false},
        {"a digest of 33 bytes", payload_of({{1, {{1, std::string(33, 'd')}}}}), false},
        {"nothing", "", false},
    };
    for (const auto& row : rows) {
        INFO(row.name);
        CHECK(check(row.payload) == row.good);
    }
    const std::string longer = text("hi") + "x";
    aotx::CoreSubmission submission;
    CHECK_FALSE(aotx::core_submission_check(reinterpret_cast<const uint8_t*>(longer.data()),
                                            static_cast<uint32_t>(longer.size()), &submission));
    // A length that wraps the sum must not pass.
    std::string huge = text("hi");
    huge.replace(16, 4, "\xff\xff\xff\xff", 4);
    CHECK_FALSE(check(huge));
}

TEST_CASE("text is strict UTF-8")
{
    const struct {
        const char* name;
        std::string bytes;
        bool good;
    } rows[] = {
        {"ascii", "plain text of more than eight bytes", true},
        {"nul", std::string("a\0b", 3), true},
        {"two bytes", "\xc3\xa9", true},
        {"three bytes", "\xe4\xbd\xa0", true},
        {"four bytes", "\xf0\x9f\x98\x80", true},
        {"highest", "\xf4\x8f\xbf\xbf", true},
        {"above the highest", "\xf4\x90\x80\x80", false},
        {"surrogate", "\xed\xa0\x80", false},
        {"before the surrogates", "\xed\x9f\xbf", true},
        {"overlong two", "\xc0\x80", false},
        {"overlong two, c1", "\xc1\xbf", false},
        {"overlong three", "\xe0\x9f\xbf", false},
        {"overlong four", "\xf0\x8f\xbf\xbf", false},
        {"lone continuation", "\x80", false},
        {"lead at the end", "abc\xe4\xbd", false},
        {"lead then ascii", "\xc3z", false},
        {"fe", "\xfe", false},
        {"ff", "12345678\xff", false},
    };
    for (const auto& row : rows) {
        INFO(row.name);
        CHECK(check(text(row.bytes)) == row.good);
        CHECK(check(text("0123456789abcdef" + row.bytes + "z")) ==
              (row.good && row.name != std::string("never")));
    }
    // A character must not span two parts.
    CHECK_FALSE(check(payload_of({{1, {{0, "\xc3"}, {0, "\xa9"}}}})));
}

TEST_CASE("the texts of media markers are refused, also where neighbours join")
{
    for (const std::string marker : {"[image:", "[audio:"}) {
        CHECK_FALSE(check(text(marker)));
        CHECK_FALSE(check(text("0123456789" + marker + "x]")));
        CHECK_FALSE(check(text("[[[" + marker)));
        CHECK(check(text(marker.substr(0, 6))));
        CHECK(check(text(marker.substr(1))));
        for (size_t cut = 0; cut <= marker.size(); cut++) {
            INFO(marker << " cut at " << cut);
            const std::string head = "some text before it " + marker.substr(0, cut);
            const std::string tail = marker.substr(cut) + " and behind";
            CHECK_FALSE(check(payload_of({{1, {{0, head}, {0, tail}}}})));
            CHECK_FALSE(check(payload_of({{1, {{0, head}, {0, ""}, {0, tail}}}})));
            if (cut != 0 && cut != marker.size()) {
                CHECK(check(payload_of({{1, {{0, head}}}, {1, {{0, tail}}}})));
                CHECK(check(payload_of({{1, {{0, head}, {1, std::string(32, 'd')}, {0, tail}}}})));
            }
        }
    }
    CHECK(check(text("[imagine: [audit: [IMAGE: [image [audio")));
    CHECK_FALSE(check(text("[aimage: [image:")));
    CHECK_FALSE(check(text("[i[image:")));
}

TEST_CASE("the check agrees with the SDK's on random bytes and spreads what it passed")
{
    std::mt19937 engine(7);
    const auto random = [&engine]() { return static_cast<uint32_t>(engine()); };
    const char* const pieces[] = {"[",
                                  "image:",
                                  "audio:",
                                  "[image",
                                  "x",
                                  "\xc3\xa9",
                                  "\xe4\xbd\xa0",
                                  "\xff",
                                  "some longer plain text ",
                                  ""};
    uint32_t passed = 0;
    for (uint32_t round = 0; round < 20000; round++) {
        std::vector<Message> messages;
        for (uint32_t i = 1 + random() % 3u; i > 0; i--) {
            Message message = {static_cast<uint32_t>(random() % 3u), {}};
            for (uint32_t j = 1 + random() % 3u; j > 0; j--) {
                std::string bytes;
                for (uint32_t k = random() % 4u; k > 0; k--) {
                    bytes += pieces[random() % (random() % 4u == 0 ? 10u : 7u)];
                }
                message.parts.push_back({0, bytes});
            }
            messages.push_back(message);
        }
        std::string payload = payload_of(messages);
        if (random() % 4u == 0) {
            payload[random() % payload.size()] ^= static_cast<char>(1u << (random() % 8u));
        }
        const uint8_t* const bytes = reinterpret_cast<const uint8_t*>(payload.data());
        const uint32_t count = static_cast<uint32_t>(payload.size());
        aotx::CoreSubmission submission;
        uint32_t media_parts = 0;
        const bool ours = aotx::core_submission_check(bytes, count, &submission);
        CHECK(ours == (aotx_submit_check(bytes, count, &media_parts) == AOTX_OK));
        if (!ours) {
            continue;
        }
        passed++;
        std::vector<aotx_text_message> spread(64);
        std::vector<aotx_text_part> parts(64 * 32);
        const uint32_t spread_count =
            aotx::core_submission_spread(bytes, count, spread.data(), parts.data());
        std::vector<Message> again;
        for (uint32_t i = 0; i < spread_count; i++) {
            Message message = {spread[i].role, {}};
            for (uint32_t j = 0; j < spread[i].parts_count; j++) {
                const aotx_text_part& part = spread[i].parts[j];
                message.parts.push_back(
                    {part.kind, std::string(reinterpret_cast<const char*>(part.data), part.bytes)});
            }
            again.push_back(message);
        }
        CHECK(payload_of(again) == payload);
    }
    CHECK(passed > 5000);
}
