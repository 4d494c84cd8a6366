// Purpose:  the arrival of a packet: one copy of its head and, where it matters, of its payload,
//           with every check that needs no table. What cannot change is then judged under the turn.
// Owns:     nothing; each answering thread lends its own CorePacket.
// Thread:   any, one CorePacket each; no turn needed.
// Lifetime: from core_stage to the answer.
#pragma once

#include "layout.h"
#include "submit.h"

namespace aotx {

constexpr uint32_t kCoreStageBuckets = 2048;

// A packet that has arrived. Only this copy is judged and used; the frame may change under a peer
// that breaks the turn.
struct CorePacket {
    aotx_request_head head;
    uint32_t length_bytes;    // of the packet, as the mailbox says
    uint32_t length_ok;       // 1: length and payload_bytes agree
    uint32_t payload_status;  // 200, or 400 for a payload that breaks its form
    CoreSubmission submission;
    uint16_t buckets[kCoreStageBuckets];
    uint16_t next[AOTX_GRANT_ROWS_MAX];
    alignas(8) uint8_t payload[AOTX_PAYLOAD_BYTES_MAX];
};

// Row of a payload that consists of rows of 64 bytes.
template <typename Row>
AOTX_INLINE Row core_payload_row(const CorePacket& packet, uint32_t index)
{
    static_assert(sizeof(Row) == 64, "rows of a payload hold 64 bytes");
    Row row;
    core_copy(&row, packet.payload + static_cast<uint64_t>(index) * sizeof row, sizeof row);
    return row;
}

// The limits that a single grant row must keep.
AOTX_INLINE bool core_grant_row_check(const Core& core, const aotx_grant_row& row,
                                      uint64_t revision)
{
    const uint32_t fetch_alone = row.actions & (AOTX_ACTION_FETCH | AOTX_ACTION_UPLOAD);
    return !core_all_zero(row.principal, AOTX_ID_BYTES) && row.revision == revision &&
           row.actions != 0 && (row.actions & ~AOTX_ACTION_MASK_ALL) == 0 &&
           fetch_alone != AOTX_ACTION_FETCH && (row.model_mask & ~AOTX_MODEL_MASK_LANGUAGE) == 0 &&
           (core.pages_ceiling == 0 || row.pages_max <= core.pages_ceiling) &&
           row.output_tokens_max > 0 && row.output_tokens_max <= kCoreOutputTokensMax &&
           row.active_requests_max > 0 &&
           row.active_requests_max <= core.limits.grant_active_requests_max && row.zero_56 == 0;
}

// True when no two rows name one principal.
AOTX_INLINE bool core_grant_rows_distinct(const Core& core, CorePacket* packet)
{
    const uint16_t none = 0xffff;
    for (uint32_t i = 0; i < kCoreStageBuckets; i++) {
        packet->buckets[i] = none;
    }
    for (uint32_t i = 0; i < packet->head.count; i++) {
        const aotx_grant_row row = core_payload_row<aotx_grant_row>(*packet, i);
        const uint64_t words[2] = {core_load64(row.principal), core_load64(row.principal + 8)};
        const uint32_t bucket =
            static_cast<uint32_t>(core_siphash(core.limits.hash_key, words, 2)) &
            (kCoreStageBuckets - 1u);
        for (uint16_t at = packet->buckets[bucket]; at != none; at = packet->next[at]) {
            const aotx_grant_row other = core_payload_row<aotx_grant_row>(*packet, at);
            if (core_id_equal(other.principal, row.principal)) {
                return false;
            }
        }
        packet->next[i] = packet->buckets[bucket];
        packet->buckets[bucket] = static_cast<uint16_t>(i);
    }
    return true;
}

AOTX_INLINE bool core_grants_check(const Core& core, CorePacket* packet)
{
    const aotx_request_head& head = packet->head;
    if (head.count > AOTX_GRANT_ROWS_MAX || head.count > core.limits.principals_max ||
        head.payload_bytes != head.count * sizeof(aotx_grant_row)) {
        return false;
    }
    for (uint32_t i = 0; i < head.count; i++) {
        if (!core_grant_row_check(core, core_payload_row<aotx_grant_row>(*packet, i),
                                  head.grant_revision)) {
            return false;
        }
    }
    return core_grant_rows_distinct(core, packet);
}

AOTX_INLINE bool core_watch_check(const CorePacket& packet)
{
    const aotx_request_head& head = packet.head;
    if (head.count > kCoreWatchRowsMax ||
        head.payload_bytes != head.count * sizeof(aotx_watch_row)) {
        return false;
    }
    for (uint32_t i = 0; i < head.count; i++) {
        const aotx_watch_row row = core_payload_row<aotx_watch_row>(packet, i);
        if (row.known_phase > AOTX_PHASE_CANCELLED || row.known_cancel_requested > 1u ||
            row.zero_56 != 0) {
            return false;
        }
    }
    return true;
}

AOTX_INLINE bool core_media_check(const CorePacket& packet)
{
    aotx_media_head media;
    const uint32_t payload_bytes = packet.head.payload_bytes;
    if (payload_bytes < sizeof media) {
        return false;
    }
    core_copy(&media, packet.payload, sizeof media);
    if (media.schema != AOTX_MEDIA_SCHEMA || !core_id_equal(media.transfer_id, packet.head.id) ||
        core_all_zero(packet.head.id, AOTX_ID_BYTES) ||
        media.data_bytes != payload_bytes - sizeof media ||
        !core_all_zero(media.zero_44, sizeof media.zero_44)) {
        return false;
    }
    if (media.step == AOTX_MEDIA_STEP_CHUNK) {
        return media.data_bytes >= 1u && media.data_bytes <= AOTX_MEDIA_CHUNK_BYTES_MAX;
    }
    if (media.step != AOTX_MEDIA_STEP_BEGIN) {
        return (media.step == AOTX_MEDIA_STEP_END || media.step == AOTX_MEDIA_STEP_REMOVE) &&
               media.data_bytes == 0;
    }
    aotx_media_begin begin;
    if (media.data_bytes != sizeof begin || media.total_bytes == 0 || media.offset_bytes != 0) {
        return false;
    }
    core_copy(&begin, packet.payload + sizeof media, sizeof begin);
    return (begin.format == AOTX_MEDIA_FORMAT_JPEG || begin.format == AOTX_MEDIA_FORMAT_WAV) &&
           core_all_zero(begin.zero_4, sizeof begin.zero_4);
}

AOTX_INLINE bool core_policy_check(const CorePacket& packet)
{
    if (packet.head.payload_bytes == 0) {
        return true;
    }
    aotx_policy_control control;
    if (packet.head.payload_bytes != sizeof control) {
        return false;
    }
    core_copy(&control, packet.payload, sizeof control);
    return control.schema == AOTX_POLICY_SCHEMA && control.action >= AOTX_POLICY_ACTION_PAUSE &&
           control.action <= AOTX_POLICY_ACTION_REVIEW_OFF;
}

// Does the payload have the form of its operation?
AOTX_INLINE bool core_payload_check(const Core& core, CorePacket* packet)
{
    switch (packet->head.operation) {
        case AOTX_OPERATION_GRANTS:
            return core_grants_check(core, packet);
        case AOTX_OPERATION_SUBMIT:
            return core_submission_check(packet->payload, packet->head.payload_bytes,
                                         &packet->submission);
        case AOTX_OPERATION_WATCH:
            return core_watch_check(*packet);
        case AOTX_OPERATION_MEDIA:
            return core_media_check(*packet);
        case AOTX_OPERATION_POLICY:
            return core_policy_check(*packet);
        case AOTX_OPERATION_SHARED_MUTATE:
        case AOTX_OPERATION_SHARED_READ:
            return true;  // answered with an error whatever they carry
        default:
            return packet->head.payload_bytes == 0;
    }
}

// Copy a packet out of its frame and check all that needs no table. frame: 65536 bytes.
AOTX_INLINE void core_stage(const Core& core, const uint8_t* frame, uint64_t length_bytes,
                            CorePacket* packet)
{
    packet->length_bytes =
        length_bytes > AOTX_PACKET_BYTES_MAX ? 0 : static_cast<uint32_t>(length_bytes);
    packet->length_ok = 0;
    packet->payload_status = AOTX_STATUS_BAD_REQUEST;
    packet->submission = {0, 0, 0};
    core_zero(&packet->head, sizeof packet->head);
    if (packet->length_bytes < sizeof packet->head) {
        return;
    }
    core_copy(&packet->head, frame, sizeof packet->head);
    if (packet->head.payload_bytes != packet->length_bytes - sizeof packet->head) {
        return;
    }
    packet->length_ok = 1;
    core_copy(packet->payload, frame + sizeof packet->head, packet->head.payload_bytes);
    if (core_payload_check(core, packet)) {
        packet->payload_status = AOTX_STATUS_OK;
    }
}

}  // namespace aotx
