// Purpose:  every judge of packets on the same bytes: a payload that the submission judge accepts
//           is rebuilt to the same bytes from what the walker says; grants likewise.
// Owns:     nothing. Thread: main. Lifetime: one run.
#include <cstdlib>
#include <cstring>
#include <vector>

#include "aotx/grants.h"
#include "aotx/information.h"
#include "aotx/media.h"
#include "aotx/submit.h"
#include "aotx/watch.h"

namespace {

void require(bool condition)
{
    if (!condition) {
        std::abort();
    }
}

// Walk an accepted payload and build it anew.
void rebuild(const uint8_t* payload, size_t payload_bytes)
{
    std::vector<uint8_t> again(AOTX_PAYLOAD_BYTES_MAX);
    aotx_submit_builder builder = {};
    aotx_submit_walker walker = {};
    aotx_submit_message message = {};
    aotx_submit_part part = {};
    const uint8_t* content = nullptr;
    require(aotx_submit_begin(&builder, again.data(), again.size()) == AOTX_OK);
    require(aotx_submit_walk_begin(&walker, payload, payload_bytes) == AOTX_OK);
    while (aotx_submit_walk_message(&walker, &message) == AOTX_OK) {
        require(aotx_submit_message_add(&builder, message.role) == AOTX_OK);
        while (aotx_submit_walk_part(&walker, &part, &content) == AOTX_OK) {
            require(content >= payload && content + part.bytes <= payload + payload_bytes);
            require(aotx_submit_part_add(&builder, part.kind, content, part.bytes) == AOTX_OK);
        }
    }
    uint32_t again_bytes = 0;
    require(aotx_submit_end(&builder, &again_bytes) == AOTX_OK);
    require(again_bytes == payload_bytes);
    require(std::memcmp(again.data(), payload, payload_bytes) == 0);
}

void grants(const uint8_t* packet, size_t packet_bytes)
{
    aotx_request_head head = {};
    if (aotx_grants_check(packet, packet_bytes, &head) != AOTX_OK) {
        return;
    }
    std::vector<aotx_grant_row> rows(head.count);
    for (uint32_t i = 0; i < head.count; i++) {
        aotx_grant_row_get(packet + AOTX_HEAD_BYTES, i, &rows[i]);
    }
    std::vector<uint8_t> again(AOTX_PACKET_BYTES_MAX);
    size_t again_bytes = 0;
    require(aotx_grants_build(head.grant_revision, rows.data(), head.count, again.data(),
                              &again_bytes) == AOTX_OK);
    require(again_bytes == packet_bytes);
    require(std::memcmp(again.data(), packet, packet_bytes) == 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size_bytes)
{
    uint32_t media_parts = 0;
    if (size_bytes <= AOTX_PAYLOAD_BYTES_MAX &&
        aotx_submit_check(data, size_bytes, &media_parts) == AOTX_OK) {
        rebuild(data, size_bytes);
    }
    grants(data, size_bytes);
    aotx_request_head request = {};
    if (aotx_request_check(data, size_bytes, &request) == AOTX_OK) {
        require(request.payload_bytes + AOTX_HEAD_BYTES == size_bytes);
        (void)aotx_request_shape_check(&request);
    }
    aotx_reply_head reply = {};
    if (aotx_reply_check(data, size_bytes, &reply) == AOTX_OK) {
        (void)aotx_reply_state_check(&reply);
    }
    aotx_information information = {};
    if (aotx_information_check(data, size_bytes, &information) == AOTX_OK) {
        require(size_bytes == AOTX_INFORMATION_HEAD_BYTES + 40 * information.model_rows);
    }
    aotx_device_row device = {};
    if (aotx_device_check(data, size_bytes, &device) == AOTX_OK) {
        require(device.name[sizeof device.name - 1] == 0);
        require(device.reason[sizeof device.reason - 1] == 0);
    }
    size_t at = 0;
    size_t before = 0;
    aotx_watch_news news = {};
    const uint8_t* bytes = nullptr;
    while (aotx_watch_news_next(data, size_bytes, &at, &news, &bytes) == AOTX_OK) {
        require(at > before && at <= size_bytes);
        require(bytes + news.data_bytes <= data + size_bytes);
        before = at;
    }
    const uint8_t id[16] = {0x00, 0x11, 0x22, 0x33};
    aotx_media_head head = {};
    aotx_media_begin begin = {};
    (void)aotx_media_check(data, size_bytes, id, &head, &begin);
    aotx_media_row row = {};
    for (uint32_t i = 0; aotx_media_list_row(data, size_bytes, i, &row) == AOTX_OK; i++) {
        require((i + 1) * sizeof row <= size_bytes);
    }
    return 0;
}
