/* Purpose:  packet heads: build them, and judge those that arrive. Both ends use the same
 *           functions, so that a sender cannot write what its receiver refuses.
 * Owns:     nothing.
 * Thread:   any.
 * Lifetime: not applicable.
 *
 * A frame may lie in memory that another process still writes. Every function here copies first and
 * judges the copy; outputs are untouched on failure. */
#ifndef AOTX_PACKET_CHECK_H
#define AOTX_PACKET_CHECK_H

#include "base.h"
#include "packet.h"
#include "status.h"

/* Start a request head: magic, operation, principal and revision; everything else zero.
 * principal: u8 [16], or null for the operations that name none (GRANTS, WATCH). */
AOTX_INLINE void aotx_request_head_begin(aotx_request_head* head, uint32_t operation,
                                         const uint8_t* principal,
                                         uint64_t grant_revision) AOTX_NOEXCEPT
{
    aotx_zero(head, sizeof *head);
    head->magic = AOTX_MAGIC;
    head->operation = operation;
    head->grant_revision = grant_revision;
    if (principal != NULL) {
        aotx_copy(head->principal, principal, AOTX_ID_BYTES);
    }
}

/* Start the reply to a request: the echoed fields and the status; everything else zero. */
AOTX_INLINE void aotx_reply_head_begin(aotx_reply_head* head, const aotx_request_head* request,
                                       uint32_t status, uint64_t runtime_epoch) AOTX_NOEXCEPT
{
    aotx_zero(head, sizeof *head);
    head->magic = AOTX_MAGIC;
    head->status = status;
    head->grant_revision = request->grant_revision;
    head->runtime_epoch = runtime_epoch;
    aotx_copy(head->principal, request->principal, AOTX_ID_BYTES);
    aotx_copy(head->id, request->id, AOTX_ID_BYTES);
}

/* Copy the head of a request packet out of its frame and judge what every request has in common, in
 * the order of the contract.
 *
 * packet  in,  u8 [packet_bytes], the whole packet
 * head    out, written only on success
 *
 * AOTX_ERR_LENGTH   shorter than a head, longer than a packet, or not head plus payload_bytes
 * AOTX_ERR_MAGIC    another magic
 * AOTX_ERR_NONZERO  word 12 or bytes 92..127 */
AOTX_INLINE int aotx_request_check(const uint8_t* packet, size_t packet_bytes,
                                   aotx_request_head* head) AOTX_NOEXCEPT
{
    aotx_request_head copy;
    if (packet_bytes < AOTX_HEAD_BYTES || packet_bytes > AOTX_PACKET_BYTES_MAX) {
        return AOTX_ERR_LENGTH;
    }
    aotx_copy(&copy, packet, sizeof copy);
    if (copy.payload_bytes != packet_bytes - AOTX_HEAD_BYTES) {
        return AOTX_ERR_LENGTH;
    }
    if (copy.magic != AOTX_MAGIC) {
        return AOTX_ERR_MAGIC;
    }
    if (copy.zero_12 != 0u || !aotx_is_zero(copy.zero_92, sizeof copy.zero_92)) {
        return AOTX_ERR_NONZERO;
    }

    *head = copy;
    return AOTX_OK;
}

/* The same for a reply packet. AOTX_ERR_NONZERO: bytes 104..127. */
AOTX_INLINE int aotx_reply_check(const uint8_t* packet, size_t packet_bytes,
                                 aotx_reply_head* head) AOTX_NOEXCEPT
{
    aotx_reply_head copy;
    if (packet_bytes < AOTX_HEAD_BYTES || packet_bytes > AOTX_PACKET_BYTES_MAX) {
        return AOTX_ERR_LENGTH;
    }
    aotx_copy(&copy, packet, sizeof copy);
    if (copy.payload_bytes != packet_bytes - AOTX_HEAD_BYTES) {
        return AOTX_ERR_LENGTH;
    }
    if (copy.magic != AOTX_MAGIC) {
        return AOTX_ERR_MAGIC;
    }
    if (!aotx_is_zero(copy.zero_104, sizeof copy.zero_104)) {
        return AOTX_ERR_NONZERO;
    }

    *head = copy;
    return AOTX_OK;
}

/* 1 when the reply belongs to the request: principal, revision and ID are echoed. */
AOTX_INLINE int aotx_reply_matches(const aotx_request_head* request,
                                   const aotx_reply_head* reply) AOTX_NOEXCEPT
{
    return request->grant_revision == reply->grant_revision &&
           aotx_is_equal(request->principal, reply->principal, AOTX_ID_BYTES) &&
           aotx_is_equal(request->id, reply->id, AOTX_ID_BYTES);
}

/* What an operation's head and payload length may hold. */
struct aotx_shape {
    uint32_t known;         /* 0: no such operation */
    uint32_t words_72_87;   /* 1: model role, count, temperature and top_p may be set */
    uint32_t count;         /* 1: the count alone may be set */
    uint32_t principal;     /* 1: principal and revision may be set */
    uint32_t epoch;         /* 1: the runtime epoch may be set */
    uint32_t id;            /* 1: the ID may be set */
    uint32_t cursor;        /* 1: the cursor may be set */
    uint32_t payload_bytes; /* largest payload */
};

/* The contract's table of header words, one row an operation. */
AOTX_INLINE struct aotx_shape aotx_shape_of(uint32_t operation) AOTX_NOEXCEPT
{
    const struct aotx_shape none = {0, 0, 0, 0, 0, 0, 0, 0};
    const struct aotx_shape grants = {1, 0, 1, 0, 0, 0, 0, AOTX_PAYLOAD_BYTES_MAX};
    const struct aotx_shape information = {1, 0, 0, 1, 0, 0, 0, 0};
    const struct aotx_shape submit = {1, 1, 1, 1, 1, 1, 0, AOTX_PAYLOAD_BYTES_MAX};
    const struct aotx_shape request = {1, 0, 0, 1, 1, 1, 1, 0};
    const struct aotx_shape media = {1, 0, 0, 1, 0, 1, 0, AOTX_PAYLOAD_BYTES_MAX};
    const struct aotx_shape media_read = {1, 0, 0, 1, 0, 1, 0, 0};
    const struct aotx_shape media_list = {1, 0, 0, 1, 0, 0, 1, 0};
    const struct aotx_shape shared = {1, 0, 0, 1, 1, 1, 1, AOTX_PAYLOAD_BYTES_MAX};
    const struct aotx_shape policy = {1, 0, 0, 1, 1, 0, 0, 16};
    const struct aotx_shape watch = {1, 0, 1, 0, 1, 1, 0, AOTX_PAYLOAD_BYTES_MAX};
    const struct aotx_shape device = {1, 0, 0, 0, 0, 0, 0, 0};
    switch (operation) {
        case AOTX_OPERATION_GRANTS:
            return grants;
        case AOTX_OPERATION_INFORMATION:
        case AOTX_OPERATION_TELEMETRY:
            return information;
        case AOTX_OPERATION_SUBMIT:
            return submit;
        case AOTX_OPERATION_READ:
        case AOTX_OPERATION_CANCEL:
            return request;
        case AOTX_OPERATION_MEDIA:
            return media;
        case AOTX_OPERATION_MEDIA_READ:
            return media_read;
        case AOTX_OPERATION_MEDIA_LIST:
            return media_list;
        case AOTX_OPERATION_SHARED_MUTATE:
        case AOTX_OPERATION_SHARED_READ:
            return shared;
        case AOTX_OPERATION_POLICY:
            return policy;
        case AOTX_OPERATION_WATCH:
            return watch;
        case AOTX_OPERATION_DEVICE:
            return device;
        default:
            return none;
    }
}

/* Judge the shape of an operation, which the device answers with 400 after the grant check. The
 * head has passed aotx_request_check. Values inside the payload are judged by the operation.
 *
 * AOTX_ERR_RANGE    no such operation
 * AOTX_ERR_NONZERO  a header word that this operation does not use
 * AOTX_ERR_LENGTH   a payload that this operation does not take, or not one per counted row */
AOTX_INLINE int aotx_request_shape_check(const aotx_request_head* head) AOTX_NOEXCEPT
{
    const struct aotx_shape shape = aotx_shape_of(head->operation);
    const uint8_t* const sampling = (const uint8_t*)&head->temperature;
    const int has_names = !aotx_is_zero(head->principal, AOTX_ID_BYTES) || head->grant_revision;
    const int is_grants = head->operation == AOTX_OPERATION_GRANTS;
    if (!shape.known) {
        return AOTX_ERR_RANGE;
    }
    if ((!shape.words_72_87 && (head->model_role != 0u || !aotx_is_zero(sampling, 8u))) ||
        (!shape.count && head->count != 0u) || (!shape.epoch && head->runtime_epoch != 0u) ||
        (!shape.id && !aotx_is_zero(head->id, AOTX_ID_BYTES)) ||
        (!shape.cursor && head->cursor != 0u)) {
        return AOTX_ERR_NONZERO;
    }
    /* A grant packet names its revision in the head, and its principals in the rows. */
    if (!shape.principal && has_names &&
        !(is_grants && aotx_is_zero(head->principal, AOTX_ID_BYTES))) {
        return AOTX_ERR_NONZERO;
    }
    if (head->payload_bytes > shape.payload_bytes) {
        return AOTX_ERR_LENGTH;
    }
    if (head->operation == AOTX_OPERATION_POLICY && head->payload_bytes == 0u &&
        head->runtime_epoch != 0u) {
        return AOTX_ERR_NONZERO;
    }
    if (head->operation == AOTX_OPERATION_POLICY && head->payload_bytes != 0u &&
        head->payload_bytes != sizeof(aotx_policy_control)) {
        return AOTX_ERR_LENGTH;
    }
    /* Rows of grants and of watches have the same size; a wrapped product cannot fit a payload. */
    if (!shape.words_72_87 && shape.count &&
        (head->count > AOTX_GRANT_ROWS_MAX ||
         head->payload_bytes != head->count * sizeof(aotx_grant_row))) {
        return AOTX_ERR_LENGTH;
    }
    return AOTX_OK;
}

/* 1 when a request in this phase has ended. */
AOTX_INLINE int aotx_phase_is_terminal(uint32_t phase) AOTX_NOEXCEPT
{
    return phase == AOTX_PHASE_COMPLETED || phase == AOTX_PHASE_FAILED ||
           phase == AOTX_PHASE_CANCELLED;
}

/* Judge the words of a request's state in a reply: a phase and finish that exist, a flag that is 0
 * or 1, and a window that lies within the output. AOTX_ERR_RANGE otherwise. */
AOTX_INLINE int aotx_reply_state_check(const aotx_reply_head* head) AOTX_NOEXCEPT
{
    if (head->phase > AOTX_PHASE_CANCELLED || head->finish > AOTX_FINISH_LENGTH ||
        head->cancel_requested > 1u) {
        return AOTX_ERR_RANGE;
    }
    if (head->cursor > head->output_bytes ||
        head->payload_bytes > head->output_bytes - head->cursor) {
        return AOTX_ERR_RANGE;
    }
    return AOTX_OK;
}

#endif
