/* Purpose:  media and policy payloads: judge those that arrive, walk lists.
 * Owns:     nothing.
 * Thread:   any.
 * Lifetime: not applicable. */
#ifndef AOTX_MEDIA_H
#define AOTX_MEDIA_H

#include "base.h"
#include "packet.h"
#include "status.h"

/* Judge a media head, and for BEGIN what follows it.
 *
 * payload  in,  u8 [payload_bytes] of a MEDIA request; id is the packet head's
 * head     out, begin out for a BEGIN step only; written only on success
 *
 * AOTX_ERR_LENGTH   shorter than the head, data of another length, or a length its step refuses
 * AOTX_ERR_NONZERO  a byte that must be zero
 * AOTX_ERR_RANGE    another schema or step, the transfer ID differs from id or is zero, BEGIN with
 *                   an offset, without bytes, or with a format that is neither JPEG nor WAV */
AOTX_INLINE int aotx_media_check(const uint8_t* payload, size_t payload_bytes, const uint8_t id[16],
                                 aotx_media_head* head, aotx_media_begin* begin) AOTX_NOEXCEPT
{
    aotx_media_head copy;
    aotx_media_begin start;
    if (payload_bytes < sizeof copy) {
        return AOTX_ERR_LENGTH;
    }
    aotx_copy(&copy, payload, sizeof copy);
    if (copy.data_bytes != payload_bytes - sizeof copy) {
        return AOTX_ERR_LENGTH;
    }
    if (!aotx_is_zero(copy.zero_44, sizeof copy.zero_44)) {
        return AOTX_ERR_NONZERO;
    }
    if (copy.schema != AOTX_MEDIA_SCHEMA || copy.step < AOTX_MEDIA_STEP_BEGIN ||
        copy.step > AOTX_MEDIA_STEP_REMOVE || aotx_is_zero(id, AOTX_ID_BYTES) ||
        !aotx_is_equal(copy.transfer_id, id, AOTX_ID_BYTES)) {
        return AOTX_ERR_RANGE;
    }
    if (copy.step == AOTX_MEDIA_STEP_BEGIN) {
        if (copy.data_bytes != sizeof start) {
            return AOTX_ERR_LENGTH;
        }
        aotx_copy(&start, payload + sizeof copy, sizeof start);
        if (!aotx_is_zero(start.zero_4, sizeof start.zero_4)) {
            return AOTX_ERR_NONZERO;
        }
        if (copy.offset_bytes != 0u || copy.total_bytes == 0u ||
            (start.format != AOTX_MEDIA_FORMAT_JPEG && start.format != AOTX_MEDIA_FORMAT_WAV)) {
            return AOTX_ERR_RANGE;
        }
        *begin = start;
    } else if (copy.step == AOTX_MEDIA_STEP_CHUNK) {
        if (copy.data_bytes == 0u || copy.data_bytes > AOTX_MEDIA_CHUNK_BYTES_MAX) {
            return AOTX_ERR_LENGTH;
        }
    } else if (copy.data_bytes != 0u) {
        return AOTX_ERR_LENGTH;
    }

    *head = copy;
    return AOTX_OK;
}

/* Judge the state of a source in a reply. AOTX_ERR_LENGTH not 64 bytes; AOTX_ERR_NONZERO word 60;
 * AOTX_ERR_RANGE a phase, status or format that does not exist. state: written only on success. */
AOTX_INLINE int aotx_media_state_check(const uint8_t* payload, size_t payload_bytes,
                                       aotx_media_state* state) AOTX_NOEXCEPT
{
    aotx_media_state copy;
    if (payload_bytes != sizeof copy) {
        return AOTX_ERR_LENGTH;
    }
    aotx_copy(&copy, payload, sizeof copy);
    if (copy.zero_60 != 0u) {
        return AOTX_ERR_NONZERO;
    }
    if (copy.phase > AOTX_MEDIA_PHASE_REFUSED || copy.status > AOTX_MEDIA_STATUS_POOL_PRESSURE ||
        copy.format > AOTX_MEDIA_FORMAT_PCM) {
        return AOTX_ERR_RANGE;
    }

    *state = copy;
    return AOTX_OK;
}

/* Read row index of a media list. AOTX_ERR_NOT_FOUND at the end; AOTX_ERR_LENGTH when the payload
 * is not whole rows; otherwise as aotx_media_state_check. */
AOTX_INLINE int aotx_media_list_row(const uint8_t* payload, size_t payload_bytes, uint32_t index,
                                    aotx_media_row* row) AOTX_NOEXCEPT
{
    aotx_media_row copy;
    if (payload_bytes % sizeof copy != 0u) {
        return AOTX_ERR_LENGTH;
    }
    if (index >= payload_bytes / sizeof copy) {
        return AOTX_ERR_NOT_FOUND;
    }
    aotx_copy(&copy, payload + (size_t)index * sizeof copy, sizeof copy);
    const int result = aotx_media_state_check(payload + (size_t)index * sizeof copy + AOTX_ID_BYTES,
                                              sizeof copy.state, &copy.state);
    if (result != AOTX_OK) {
        return result;
    }

    *row = copy;
    return AOTX_OK;
}

/* Judge the payload of a policy write. AOTX_ERR_LENGTH not 16 bytes; AOTX_ERR_RANGE another schema,
 * or an action that does not exist. */
AOTX_INLINE int aotx_policy_control_check(const uint8_t* payload, size_t payload_bytes,
                                          aotx_policy_control* control) AOTX_NOEXCEPT
{
    aotx_policy_control copy;
    if (payload_bytes != sizeof copy) {
        return AOTX_ERR_LENGTH;
    }
    aotx_copy(&copy, payload, sizeof copy);
    if (copy.schema != AOTX_POLICY_SCHEMA || copy.action < AOTX_POLICY_ACTION_PAUSE ||
        copy.action > AOTX_POLICY_ACTION_REVIEW_OFF) {
        return AOTX_ERR_RANGE;
    }

    *control = copy;
    return AOTX_OK;
}

/* Judge the payload of a policy reply. AOTX_ERR_LENGTH not 160 bytes; AOTX_ERR_NONZERO bytes
 * 124..159; AOTX_ERR_RANGE another schema, or a state, flag or reason that does not exist. */
AOTX_INLINE int aotx_policy_state_check(const uint8_t* payload, size_t payload_bytes,
                                        aotx_policy_state_payload* state) AOTX_NOEXCEPT
{
    aotx_policy_state_payload copy;
    if (payload_bytes != sizeof copy) {
        return AOTX_ERR_LENGTH;
    }
    aotx_copy(&copy, payload, sizeof copy);
    if (!aotx_is_zero(copy.zero_124, sizeof copy.zero_124)) {
        return AOTX_ERR_NONZERO;
    }
    if (copy.schema != AOTX_POLICY_SCHEMA || copy.state > AOTX_POLICY_STATE_RECORDING ||
        copy.review_enabled > 1u || copy.reason > AOTX_POLICY_REASON_DISABLED) {
        return AOTX_ERR_RANGE;
    }

    *state = copy;
    return AOTX_OK;
}

#endif
