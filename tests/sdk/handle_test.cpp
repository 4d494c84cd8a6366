// Purpose:  the text form of handles: tables, every prefix, every wrong character, a guard page.
// Owns:     nothing. Thread: main. Lifetime: one run.
#include "aotx/handle.h"

#include <catch2/catch.hpp>

#include "packets.h"
#include "tests/support/guard_page.h"

namespace {

const std::string kRequest = "req-0000000000000001-00000000000000000000000000000002";
const std::string kMedia = "media-000102030405060708090a0b0c0d0e0f";

int parse_request(const std::string& text, uint64_t* epoch, uint8_t id[16])
{
    const GuardCopy guarded(text.data(), text.size());
    return aotx_request_handle_parse(guarded.begin(), text.size(), epoch, id);
}

TEST_CASE("request handles")
{
    struct Row {
        std::string text;
        int want;
        uint64_t epoch;
        uint8_t last;
    };
    const Row rows[] = {
        {kRequest, AOTX_OK, 1, 2},
        {"req-fedcba9876543210-000000000000000000000000000000ff", AOTX_OK, 0xfedcba9876543210u,
         255},
        {"req-ffffffffffffffff-ffffffffffffffffffffffffffffffff", AOTX_OK, UINT64_MAX, 255},
        {"req-0000000000000000-00000000000000000000000000000000", AOTX_OK, 0, 0},
        {"REQ-0000000000000001-00000000000000000000000000000002", AOTX_ERR_SYNTAX, 0, 0},
        {"req-000000000000000A-00000000000000000000000000000002", AOTX_ERR_SYNTAX, 0, 0},
        {"req_0000000000000001-00000000000000000000000000000002", AOTX_ERR_SYNTAX, 0, 0},
        {"req-0000000000000001_00000000000000000000000000000002", AOTX_ERR_SYNTAX, 0, 0},
        {"req-00000000000000001-0000000000000000000000000000002", AOTX_ERR_SYNTAX, 0, 0},
        {" " + kRequest.substr(1), AOTX_ERR_SYNTAX, 0, 0},
        {kRequest + " ", AOTX_ERR_LENGTH, 0, 0},
        {kRequest + "/", AOTX_ERR_LENGTH, 0, 0},
        {"", AOTX_ERR_LENGTH, 0, 0},
    };
    for (const Row& row : rows) {
        INFO(row.text);
        uint64_t epoch = 77;
        uint8_t id[16] = {};
        CHECK(parse_request(row.text, &epoch, id) == row.want);
        CHECK(epoch == (row.want == AOTX_OK ? row.epoch : 77));
        CHECK(id[15] == (row.want == AOTX_OK ? row.last : 0));
        if (row.want == AOTX_OK) {
            char text[AOTX_REQUEST_HANDLE_CHARACTERS];
            aotx_request_handle_format(epoch, id, text);
            CHECK(std::string(text, sizeof text) == row.text);
        }
    }
}

TEST_CASE("a handle with one byte changed is another handle or none")
{
    for (size_t at = 0; at < kRequest.size(); at++) {
        for (int byte = 0; byte < 256; byte++) {
            std::string text = kRequest;
            text[at] = static_cast<char>(byte);
            uint64_t epoch = 0;
            uint8_t id[16] = {};
            const bool digit = (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'f');
            const bool fixed = at < 4 || at == 20;
            const bool fits = fixed ? text == kRequest : digit;
            REQUIRE((parse_request(text, &epoch, id) == AOTX_OK) == fits);
            char again[AOTX_REQUEST_HANDLE_CHARACTERS];
            aotx_request_handle_format(epoch, id, again);
            REQUIRE((std::string(again, sizeof again) == text) == fits);
        }
    }
}

TEST_CASE("every prefix of a handle is refused by its length")
{
    uint64_t epoch = 0;
    uint64_t cursor = 0;
    uint8_t id[16] = {};
    for (size_t cut = 0; cut < kRequest.size(); cut++) {
        CHECK(parse_request(kRequest.substr(0, cut), &epoch, id) == AOTX_ERR_LENGTH);
    }
    for (size_t cut = 0; cut < kMedia.size(); cut++) {
        const GuardCopy guarded(kMedia.data(), cut);
        CHECK(aotx_media_handle_parse(guarded.begin(), cut, id) == AOTX_ERR_LENGTH);
    }
    const std::string event = kRequest + ":12";
    for (size_t cut = 0; cut <= kRequest.size() + 1; cut++) {
        const GuardCopy guarded(event.data(), cut);
        CHECK(aotx_event_handle_parse(guarded.begin(), cut, &epoch, id, &cursor) ==
              AOTX_ERR_LENGTH);
    }
}

TEST_CASE("media handles")
{
    uint8_t id[16] = {};
    const GuardCopy good(kMedia.data(), kMedia.size());
    REQUIRE(aotx_media_handle_parse(good.begin(), good.size_bytes(), id) == AOTX_OK);
    for (uint8_t i = 0; i < 16; i++) {
        CHECK(id[i] == i);
    }
    char text[AOTX_MEDIA_HANDLE_CHARACTERS];
    aotx_media_handle_format(id, text);
    CHECK(std::string(text, sizeof text) == kMedia);
    for (const char* wrong :
         {"media_000102030405060708090a0b0c0d0e0f", "Media-000102030405060708090a0b0c0d0e0f",
          "media-000102030405060708090A0b0c0d0e0f", "media-000102030405060708090g0b0c0d0e0f"}) {
        const GuardCopy guarded(wrong, 38);
        CHECK(aotx_media_handle_parse(guarded.begin(), 38, id) == AOTX_ERR_SYNTAX);
    }
    CHECK(aotx_media_handle_parse(kRequest.data(), kRequest.size(), id) == AOTX_ERR_LENGTH);
}

TEST_CASE("event handles and their decimal cursors")
{
    struct Row {
        const char* tail;
        int want;
        uint64_t cursor;
    };
    const Row rows[] = {
        {":0", AOTX_OK, 0},
        {":3", AOTX_OK, 3},
        {":18446744073709551615", AOTX_OK, UINT64_MAX},
        {":18446744073709551616", AOTX_ERR_RANGE, 0},
        {":99999999999999999999", AOTX_ERR_RANGE, 0},
        {":184467440737095516150", AOTX_ERR_LENGTH, 0},
        {":", AOTX_ERR_LENGTH, 0},
        {"", AOTX_ERR_LENGTH, 0},
        {":00", AOTX_ERR_SYNTAX, 0},
        {":01", AOTX_ERR_SYNTAX, 0},
        {":-1", AOTX_ERR_SYNTAX, 0},
        {":+1", AOTX_ERR_SYNTAX, 0},
        {": 1", AOTX_ERR_SYNTAX, 0},
        {":1 ", AOTX_ERR_SYNTAX, 0},
        {":1x", AOTX_ERR_SYNTAX, 0},
        {";1", AOTX_ERR_SYNTAX, 0},
    };
    for (const Row& row : rows) {
        INFO(row.tail);
        const std::string text = kRequest + row.tail;
        const GuardCopy guarded(text.data(), text.size());
        uint64_t epoch = 0;
        uint64_t cursor = 55;
        uint8_t id[16] = {};
        CHECK(aotx_event_handle_parse(guarded.begin(), text.size(), &epoch, id, &cursor) ==
              row.want);
        CHECK(cursor == (row.want == AOTX_OK ? row.cursor : 55));
        CHECK(epoch == (row.want == AOTX_OK ? 1 : 0));
    }
}

}  // namespace
