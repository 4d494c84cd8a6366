// Purpose:  request heads: what every request is judged by, and the table of header words.
// Owns:     nothing. Thread: main. Lifetime: one run.
#include "aotx/packet_check.h"

#include <catch2/catch.hpp>
#include <functional>

#include "packets.h"
#include "tests/support/guard_page.h"

namespace {

int check(const Bytes& bytes, aotx_request_head* head)
{
    const GuardCopy guarded(bytes.data(), bytes.size());
    return aotx_request_check(guarded.bytes(), guarded.size_bytes(), head);
}

TEST_CASE("a request head is judged in the order of the contract")
{
    struct Row {
        const char* name;
        std::function<void(Bytes*)> change;
        int want;
    };
    const Row rows[] = {
        {"well formed", [](Bytes*) {}, AOTX_OK},
        {"a head byte short", [](Bytes* b) { b->resize(127); }, AOTX_ERR_LENGTH},
        {"empty", [](Bytes* b) { b->clear(); }, AOTX_ERR_LENGTH},
        {"payload one byte short", [](Bytes* b) { b->pop_back(); }, AOTX_ERR_LENGTH},
        {"payload one byte long", [](Bytes* b) { b->push_back(0); }, AOTX_ERR_LENGTH},
        {"length word wraps", [](Bytes* b) { put32(b, 88, 0xffffff80u); }, AOTX_ERR_LENGTH},
        {"length before magic",
         [](Bytes* b) {
             (*b)[0] = 'B';
             b->push_back(0);
         },
         AOTX_ERR_LENGTH},
        {"another magic", [](Bytes* b) { (*b)[7] = '2'; }, AOTX_ERR_MAGIC},
        {"magic before reserved",
         [](Bytes* b) {
             (*b)[0] = 'B';
             (*b)[127] = 1;
         },
         AOTX_ERR_MAGIC},
        {"word 12", [](Bytes* b) { (*b)[12] = 1; }, AOTX_ERR_NONZERO},
        {"byte 92", [](Bytes* b) { (*b)[92] = 1; }, AOTX_ERR_NONZERO},
        {"byte 127", [](Bytes* b) { (*b)[127] = 0x80; }, AOTX_ERR_NONZERO},
    };
    for (const Row& row : rows) {
        INFO(row.name);
        Bytes bytes = packet(AOTX_OPERATION_SUBMIT, 8);
        row.change(&bytes);
        aotx_request_head head = {};
        std::memset(&head, 0xa5, sizeof head);
        const aotx_request_head before = head;
        CHECK(check(bytes, &head) == row.want);
        if (row.want != AOTX_OK) {
            CHECK(std::memcmp(&head, &before, sizeof head) == 0);
        }
    }
}

TEST_CASE("the largest packet passes and one byte more does not")
{
    aotx_request_head head = {};
    Bytes bytes = packet(AOTX_OPERATION_SUBMIT, 65408);
    CHECK(check(bytes, &head) == AOTX_OK);
    CHECK(head.payload_bytes == 65408);
    bytes = packet(AOTX_OPERATION_SUBMIT, 65409);
    CHECK(check(bytes, &head) == AOTX_ERR_LENGTH);
}

TEST_CASE("every prefix of a packet is refused")
{
    const Bytes whole = packet(AOTX_OPERATION_SUBMIT, 40);
    aotx_request_head head = {};
    for (size_t cut = 0; cut < whole.size(); cut++) {
        CHECK(check(Bytes(whole.begin(), whole.begin() + static_cast<long>(cut)), &head) ==
              AOTX_ERR_LENGTH);
    }
}

// Header words by byte range, as spec tables name them: what each operation must leave zero.
struct Zeros {
    uint32_t operation;
    std::vector<std::pair<size_t, size_t>> ranges;  // first and last byte
    size_t payload_bytes;                           // one that the operation takes
    std::vector<size_t> payload_refused;
};

const Zeros kZeros[] = {
    {2, {{40, 71}, {72, 87}}, 0, {1, 64, 65408}},
    {8, {{40, 71}, {72, 87}}, 0, {1}},
    {3, {{64, 71}}, 100, {}},
    {4, {{72, 87}}, 0, {1, 16}},
    {5, {{72, 87}}, 0, {1}},
    {6, {{40, 47}, {64, 71}, {72, 87}}, 64, {}},
    {7, {{40, 47}, {64, 71}, {72, 87}}, 0, {1}},
    {9, {{40, 63}, {72, 87}}, 0, {1}},
    {10, {{72, 87}}, 0, {}},
    {11, {{72, 87}}, 0, {}},
    {12, {{48, 71}, {72, 87}}, 16, {1, 15, 17, 64}},
    {12, {{40, 47}, {48, 71}, {72, 87}}, 0, {}},
    {13, {{16, 39}, {64, 71}, {72, 75}, {80, 87}}, 0, {1, 63, 64}},
    {1, {{16, 31}, {40, 71}, {72, 75}, {80, 87}}, 0, {1, 63, 64}},
};

int shape(const Bytes& bytes)
{
    aotx_request_head head = {};
    REQUIRE(check(bytes, &head) == AOTX_OK);
    return aotx_request_shape_check(&head);
}

TEST_CASE("each operation leaves its unused header words zero")
{
    for (const Zeros& row : kZeros) {
        INFO("operation " << row.operation);
        Bytes bytes = packet(row.operation, row.payload_bytes);
        CHECK(shape(bytes) == AOTX_OK);
        std::vector<bool> zero(128, false);
        for (const auto& range : row.ranges) {
            for (size_t at = range.first; at <= range.second; at++) {
                zero[at] = true;
            }
        }
        for (size_t at = 16; at < 88; at++) {
            const bool counts_rows = row.operation == 1 || row.operation == 13;
            if (counts_rows && at >= 76 && at < 80) {
                continue;
            }
            INFO("byte " << at);
            bytes = packet(row.operation, row.payload_bytes);
            bytes[at] = 1;
            CHECK(shape(bytes) == (zero[at] ? AOTX_ERR_NONZERO : AOTX_OK));
        }
        for (const size_t payload_bytes : row.payload_refused) {
            INFO("payload " << payload_bytes);
            CHECK(shape(packet(row.operation, payload_bytes)) == AOTX_ERR_LENGTH);
        }
    }
}

TEST_CASE("rows and payload agree where an operation counts rows")
{
    for (const uint32_t operation : {1u, 13u}) {
        for (const size_t rows : {size_t{0}, size_t{1}, size_t{1022}}) {
            Bytes bytes = packet(operation, rows * 64);
            put32(&bytes, 76, static_cast<uint32_t>(rows));
            CHECK(shape(bytes) == AOTX_OK);
            put32(&bytes, 76, static_cast<uint32_t>(rows + 1));
            CHECK(shape(bytes) == AOTX_ERR_LENGTH);
        }
        Bytes bytes = packet(operation, 0);
        put32(&bytes, 76, 0x04000000u);  // times 64 is 2^32
        CHECK(shape(bytes) == AOTX_ERR_LENGTH);
    }
}

TEST_CASE("operations without a name are refused")
{
    for (const uint32_t operation : {0u, 15u, 16u, 255u, 0xffffffffu}) {
        CHECK(shape(packet(operation, 0)) == AOTX_ERR_RANGE);
    }
}

TEST_CASE("a reply echoes what its request named")
{
    uint8_t principal[16];
    std::memset(principal, 7, sizeof principal);
    aotx_request_head request = {};
    aotx_request_head_begin(&request, AOTX_OPERATION_READ, principal, 42);
    request.id[15] = 9;
    aotx_reply_head reply = {};
    aotx_reply_head_begin(&reply, &request, AOTX_STATUS_OK, 77);
    CHECK(reply.magic == request.magic);
    CHECK(reply.status == 200);
    CHECK(reply.runtime_epoch == 77);
    CHECK(aotx_reply_matches(&request, &reply));
    aotx_reply_head other = reply;
    other.id[0] = 1;
    CHECK_FALSE(aotx_reply_matches(&request, &other));
    other = reply;
    other.principal[3] = 1;
    CHECK_FALSE(aotx_reply_matches(&request, &other));
    other = reply;
    other.grant_revision = 43;
    CHECK_FALSE(aotx_reply_matches(&request, &other));
}

}  // namespace
