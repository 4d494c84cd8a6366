/* Purpose:  grant frames: build one, and judge one as strictly as the device does. A grant file is
 *           exactly such a frame.
 * Owns:     nothing.
 * Thread:   any.
 * Lifetime: not applicable. */
#ifndef AOTX_GRANTS_H
#define AOTX_GRANTS_H

#include "base.h"
#include "packet.h"
#include "packet_check.h"
#include "status.h"

/* Judge one row for itself; revision is the head's.
 * AOTX_ERR_NONZERO  word 56
 * AOTX_ERR_STATE    another revision than the head's
 * AOTX_ERR_RANGE    zero principal, no action or an unknown one, FETCH without UPLOAD, a role that
 *                   is no language role, no output tokens, no active requests */
AOTX_INLINE int aotx_grant_row_check(const aotx_grant_row* row, uint64_t revision) AOTX_NOEXCEPT
{
    const int fetch_alone =
        (row->actions & AOTX_ACTION_FETCH) != 0u && (row->actions & AOTX_ACTION_UPLOAD) == 0u;
    if (row->zero_56 != 0u) {
        return AOTX_ERR_NONZERO;
    }
    if (row->revision != revision) {
        return AOTX_ERR_STATE;
    }
    if (aotx_is_zero(row->principal, AOTX_ID_BYTES) || row->actions == 0u ||
        (row->actions & ~AOTX_ACTION_MASK_ALL) != 0u || fetch_alone ||
        (row->model_mask & ~AOTX_MODEL_MASK_LANGUAGE) != 0u || row->output_tokens_max == 0u ||
        row->active_requests_max == 0u) {
        return AOTX_ERR_RANGE;
    }
    return AOTX_OK;
}

/* Copy one row out of a grant payload; index < rows_count of its head. */
AOTX_INLINE void aotx_grant_row_get(const uint8_t* payload, uint32_t index,
                                    aotx_grant_row* row) AOTX_NOEXCEPT
{
    aotx_copy(row, payload + (size_t)index * sizeof *row, sizeof *row);
}

/* Judge a whole grant frame that nobody writes any more. Device ceilings and the installed revision
 * are the device's to compare.
 *
 * packet  in,  u8 [packet_bytes]
 * head    out, written only on success; head->count rows follow the head
 *
 * AOTX_ERR_LENGTH, AOTX_ERR_MAGIC, AOTX_ERR_NONZERO as aotx_request_check and the shape check
 * AOTX_ERR_STATE     revision 0, or a row of another revision
 * AOTX_ERR_RANGE     another operation, or a row out of range
 * AOTX_ERR_SYNTAX    two rows name one principal
 * Cost: rows squared, at most 1022 * 1021 / 2 comparisons of 16 bytes. */
AOTX_INLINE int aotx_grants_check(const uint8_t* packet, size_t packet_bytes,
                                  aotx_request_head* head) AOTX_NOEXCEPT
{
    aotx_request_head copy;
    int result = aotx_request_check(packet, packet_bytes, &copy);
    if (result == AOTX_OK && copy.operation != AOTX_OPERATION_GRANTS) {
        result = AOTX_ERR_RANGE;
    }
    if (result == AOTX_OK) {
        result = aotx_request_shape_check(&copy);
    }
    if (result == AOTX_OK && copy.grant_revision == 0u) {
        result = AOTX_ERR_STATE;
    }
    if (result != AOTX_OK) {
        return result;
    }
    const uint8_t* const payload = packet + AOTX_HEAD_BYTES;
    for (uint32_t i = 0; i < copy.count; i++) {
        aotx_grant_row row;
        aotx_grant_row_get(payload, i, &row);
        result = aotx_grant_row_check(&row, copy.grant_revision);
        if (result != AOTX_OK) {
            return result;
        }
        for (uint32_t j = 0; j < i; j++) {
            if (aotx_is_equal(payload + (size_t)j * sizeof row, row.principal, AOTX_ID_BYTES)) {
                return AOTX_ERR_SYNTAX;
            }
        }
    }

    *head = copy;
    return AOTX_OK;
}

/* Build a grant frame. The rows' revision words are written from revision.
 *
 * rows          in,  [rows_count], rows_count <= AOTX_GRANT_ROWS_MAX
 * packet        out, u8 [AOTX_PACKET_BYTES_MAX]; unspecified on failure
 * packet_bytes  out, written only on success
 *
 * AOTX_ERR_FULL too many rows; otherwise what aotx_grants_check says of the result. */
AOTX_INLINE int aotx_grants_build(uint64_t revision, const aotx_grant_row* rows,
                                  uint32_t rows_count, uint8_t* packet,
                                  size_t* packet_bytes) AOTX_NOEXCEPT
{
    aotx_request_head head;
    if (rows_count > AOTX_GRANT_ROWS_MAX) {
        return AOTX_ERR_FULL;
    }
    aotx_request_head_begin(&head, AOTX_OPERATION_GRANTS, NULL, revision);
    head.count = rows_count;
    head.payload_bytes = rows_count * (uint32_t)sizeof(aotx_grant_row);
    aotx_copy(packet, &head, sizeof head);
    for (uint32_t i = 0; i < rows_count; i++) {
        aotx_grant_row row = rows[i];
        row.revision = revision;
        aotx_copy(packet + AOTX_HEAD_BYTES + (size_t)i * sizeof row, &row, sizeof row);
    }
    const size_t bytes = AOTX_HEAD_BYTES + (size_t)head.payload_bytes;
    const int result = aotx_grants_check(packet, bytes, &head);
    if (result != AOTX_OK) {
        return result;
    }

    *packet_bytes = bytes;
    return AOTX_OK;
}

#endif
