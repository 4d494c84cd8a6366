/* Purpose:  watches: the news of many requests in one packet. Build the rows, judge them, walk and
 *           write the news.
 * Owns:     nothing.
 * Thread:   any.
 * Lifetime: not applicable. */
#ifndef AOTX_WATCH_H
#define AOTX_WATCH_H

#include "base.h"
#include "packet.h"
#include "packet_check.h"
#include "status.h"

#define AOTX_WATCH_ROWS_MAX 1022u

/* Bytes of one entry of news with its padding. */
AOTX_INLINE size_t aotx_watch_news_stride(uint32_t data_bytes) AOTX_NOEXCEPT
{
    return sizeof(aotx_watch_news) + (((size_t)data_bytes + 7u) & ~(size_t)7u);
}

/* Fill one watch row. */
AOTX_INLINE void aotx_watch_row_make(aotx_watch_row* row, const uint8_t principal[16],
                                     uint64_t grant_revision, const uint8_t id[16], uint64_t cursor,
                                     uint32_t known_phase,
                                     uint32_t known_cancel_requested) AOTX_NOEXCEPT
{
    aotx_zero(row, sizeof *row);
    aotx_copy(row->principal, principal, AOTX_ID_BYTES);
    aotx_copy(row->id, id, AOTX_ID_BYTES);
    row->grant_revision = grant_revision;
    row->cursor = cursor;
    row->known_phase = known_phase;
    row->known_cancel_requested = known_cancel_requested;
}

/* Judge one watch row for itself. AOTX_ERR_NONZERO word 56; AOTX_ERR_RANGE a phase or flag that
 * does not exist. Who owns the request is the device's to say. */
AOTX_INLINE int aotx_watch_row_check(const aotx_watch_row* row) AOTX_NOEXCEPT
{
    if (row->zero_56 != 0u) {
        return AOTX_ERR_NONZERO;
    }
    if (row->known_phase > AOTX_PHASE_CANCELLED || row->known_cancel_requested > 1u) {
        return AOTX_ERR_RANGE;
    }
    return AOTX_OK;
}

/* Read the next entry of news.
 *
 * payload  in, u8 [payload_bytes] of a watch reply
 * at       in and out: where to read, 0 at first; moved behind the entry on success
 * news     out; data points at news->data_bytes bytes inside the payload
 *
 * AOTX_ERR_NOT_FOUND  the end
 * AOTX_ERR_LENGTH     an entry that ends behind the payload
 * AOTX_ERR_NONZERO    padding or word 68
 * AOTX_ERR_RANGE      a phase, finish or flag that does not exist, or data outside the output */
AOTX_INLINE int aotx_watch_news_next(const uint8_t* payload, size_t payload_bytes, size_t* at,
                                     aotx_watch_news* news, const uint8_t** data) AOTX_NOEXCEPT
{
    aotx_watch_news copy;
    if (*at == payload_bytes) {
        return AOTX_ERR_NOT_FOUND;
    }
    if (*at > payload_bytes || payload_bytes - *at < sizeof copy) {
        return AOTX_ERR_LENGTH;
    }
    aotx_copy(&copy, payload + *at, sizeof copy);
    const size_t stride = aotx_watch_news_stride(copy.data_bytes);
    if (copy.data_bytes > AOTX_PAYLOAD_BYTES_MAX || stride > payload_bytes - *at) {
        return AOTX_ERR_LENGTH;
    }
    const uint8_t* const bytes = payload + *at + sizeof copy;
    if (copy.zero_68 != 0u ||
        !aotx_is_zero(bytes + copy.data_bytes, stride - sizeof copy - copy.data_bytes)) {
        return AOTX_ERR_NONZERO;
    }
    const int refused = copy.status != AOTX_STATUS_OK;
    if (copy.phase > AOTX_PHASE_CANCELLED || copy.finish > AOTX_FINISH_LENGTH ||
        copy.cancel_requested > 1u || (refused && copy.data_bytes != 0u) ||
        (!refused &&
         (copy.cursor > copy.output_bytes || copy.data_bytes > copy.output_bytes - copy.cursor))) {
        return AOTX_ERR_RANGE;
    }

    *news = copy;
    *data = bytes;
    *at += stride;
    return AOTX_OK;
}

#endif
