// Purpose:  grant frames: the builder's bytes, and every reason for which a frame is refused.
// Owns:     nothing. Thread: main. Lifetime: one run.
#include "aotx/grants.h"

#include <catch2/catch.hpp>
#include <functional>

#include "packets.h"
#include "tests/support/guard_page.h"

namespace {

// Two good rows under revision 5, by offsets of the contract.
Bytes frame()
{
    Bytes bytes = packet(1, 128);
    put64(&bytes, 32, 5);
    put32(&bytes, 76, 2);
    for (size_t row = 0; row < 2; row++) {
        const size_t at = 128 + row * 64;
        fill(&bytes, at, 16, static_cast<uint8_t>(row + 1));
        put64(&bytes, at + 16, 5);
        put32(&bytes, at + 24, 1);    // infer
        put32(&bytes, at + 28, 4);    // language
        put32(&bytes, at + 36, 256);  // output tokens
        put32(&bytes, at + 40, 4);    // active requests
    }
    return bytes;
}

int judge(const Bytes& bytes, aotx_request_head* head)
{
    const GuardCopy guarded(bytes.data(), bytes.size());
    return aotx_grants_check(guarded.bytes(), guarded.size_bytes(), head);
}

TEST_CASE("grant frames")
{
    struct Row {
        const char* name;
        std::function<void(Bytes*)> change;
        int want;
    };
    const Row rows[] = {
        {"good", [](Bytes*) {}, AOTX_OK},
        {"every action", [](Bytes* b) { put32(b, 152, 255); }, AOTX_OK},
        {"every role", [](Bytes* b) { put32(b, 156, 0x1c); }, AOTX_OK},
        {"fetch with upload", [](Bytes* b) { put32(b, 152, 6); }, AOTX_OK},
        {"another operation", [](Bytes* b) { put32(b, 8, 13); }, AOTX_ERR_RANGE},
        {"revision 0",
         [](Bytes* b) {
             put64(b, 32, 0);
             put64(b, 144, 0);
             put64(b, 208, 0);
         },
         AOTX_ERR_STATE},
        {"row of another revision", [](Bytes* b) { put64(b, 208, 6); }, AOTX_ERR_STATE},
        {"zero principal", [](Bytes* b) { fill(b, 128, 16, 0); }, AOTX_ERR_RANGE},
        {"repeated principal", [](Bytes* b) { fill(b, 192, 16, 1); }, AOTX_ERR_SYNTAX},
        {"no action", [](Bytes* b) { put32(b, 152, 0); }, AOTX_ERR_RANGE},
        {"unknown action", [](Bytes* b) { put32(b, 152, 257); }, AOTX_ERR_RANGE},
        {"fetch without upload", [](Bytes* b) { put32(b, 152, 5); }, AOTX_ERR_RANGE},
        {"role 1", [](Bytes* b) { put32(b, 156, 2); }, AOTX_ERR_RANGE},
        {"role 5", [](Bytes* b) { put32(b, 156, 32); }, AOTX_ERR_RANGE},
        {"no output tokens", [](Bytes* b) { put32(b, 164, 0); }, AOTX_ERR_RANGE},
        {"no active requests", [](Bytes* b) { put32(b, 168, 0); }, AOTX_ERR_RANGE},
        {"word 56 of a row", [](Bytes* b) { put64(b, 248, 1); }, AOTX_ERR_NONZERO},
        {"head names a principal", [](Bytes* b) { (*b)[16] = 1; }, AOTX_ERR_NONZERO},
        {"one row more than counted", [](Bytes* b) { put32(b, 76, 1); }, AOTX_ERR_LENGTH},
        {"one row less than counted", [](Bytes* b) { put32(b, 76, 3); }, AOTX_ERR_LENGTH},
        {"a byte short", [](Bytes* b) { b->pop_back(); }, AOTX_ERR_LENGTH},
    };
    for (const Row& row : rows) {
        INFO(row.name);
        Bytes bytes = frame();
        row.change(&bytes);
        aotx_request_head head = {};
        CHECK(judge(bytes, &head) == row.want);
    }
    const Bytes whole = frame();
    for (size_t cut = 0; cut < whole.size(); cut++) {
        aotx_request_head head = {};
        CHECK(judge(Bytes(whole.begin(), whole.begin() + static_cast<long>(cut)), &head) !=
              AOTX_OK);
    }
}

TEST_CASE("the builder writes a frame byte for byte")
{
    aotx_grant_row rows[2] = {};
    for (int i = 0; i < 2; i++) {
        std::memset(rows[i].principal, i + 1, 16);
        rows[i].actions = AOTX_ACTION_INFER;
        rows[i].model_mask = 1u << AOTX_MODEL_ROLE_LANGUAGE;
        rows[i].output_tokens_max = 256;
        rows[i].active_requests_max = 4;
    }
    Bytes bytes(AOTX_PACKET_BYTES_MAX);
    size_t used = 0;
    REQUIRE(aotx_grants_build(5, rows, 2, bytes.data(), &used) == AOTX_OK);
    bytes.resize(used);
    CHECK(bytes == frame());
}

TEST_CASE("a full frame holds 1022 rows")
{
    std::vector<aotx_grant_row> rows(1023);
    for (size_t i = 0; i < rows.size(); i++) {
        rows[i] = {};
        rows[i].principal[0] = static_cast<uint8_t>(i + 1);
        rows[i].principal[1] = static_cast<uint8_t>((i + 1) >> 8);
        rows[i].actions = 1;
        rows[i].model_mask = 4;
        rows[i].output_tokens_max = 1;
        rows[i].active_requests_max = 1;
    }
    Bytes bytes(AOTX_PACKET_BYTES_MAX);
    size_t used = 0;
    CHECK(aotx_grants_build(1, rows.data(), 1022, bytes.data(), &used) == AOTX_OK);
    CHECK(used == 65536);
    CHECK(aotx_grants_build(1, rows.data(), 1023, bytes.data(), &used) == AOTX_ERR_FULL);
}

}  // namespace
