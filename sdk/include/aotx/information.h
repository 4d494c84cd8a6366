/* Purpose:  information, telemetry and device payloads: judge those that arrive.
 * Owns:     nothing.
 * Thread:   any.
 * Lifetime: not applicable. */
#ifndef AOTX_INFORMATION_H
#define AOTX_INFORMATION_H

#include "base.h"
#include "packet.h"
#include "status.h"

#define AOTX_INFORMATION_HEAD_BYTES 192u
#define AOTX_INFORMATION_MODEL_ROWS_MAX 1630u /* what fits behind the head in one payload */

/* Copy model row index out of a payload that aotx_information_check accepted. */
AOTX_INLINE void aotx_information_model(const uint8_t* payload, uint32_t index,
                                        aotx_model_row* row) AOTX_NOEXCEPT
{
    aotx_copy(row, payload + AOTX_INFORMATION_HEAD_BYTES + (size_t)index * sizeof *row,
              sizeof *row);
}

/* Judge the model rows: language roles, each once, at least text, no unknown modality; the memory
 * mask names none that is not among them. */
AOTX_INLINE int aotx_information_models_check(const uint8_t* payload,
                                              const aotx_information* information) AOTX_NOEXCEPT
{
    uint32_t seen_mask = 0;
    for (uint32_t i = 0; i < information->model_rows; i++) {
        aotx_model_row row;
        aotx_information_model(payload, i, &row);
        if (row.role > AOTX_MODEL_ROLE_LANGUAGE_AUDIO ||
            ((1u << row.role) & AOTX_MODEL_MASK_LANGUAGE) == 0u ||
            ((1u << row.role) & seen_mask) != 0u || (row.modalities & ~7u) != 0u ||
            (row.modalities & AOTX_MODALITY_TEXT) == 0u) {
            return AOTX_ERR_RANGE;
        }
        seen_mask |= 1u << row.role;
    }
    return (information->automatic_memory_mask & ~seen_mask) == 0u ? AOTX_OK : AOTX_ERR_RANGE;
}

/* Judge an information or telemetry payload and copy its head out.
 *
 * payload      in,  u8 [payload_bytes]
 * information  out, written only on success; model_rows rows follow, see aotx_information_model
 *
 * AOTX_ERR_LENGTH   not the head plus its model rows
 * AOTX_ERR_NONZERO  bytes 160..191
 * AOTX_ERR_RANGE    another schema, a flag that is neither 0 nor 1, no execution slot word, or a
 *                   model row out of range */
AOTX_INLINE int aotx_information_check(const uint8_t* payload, size_t payload_bytes,
                                       aotx_information* information) AOTX_NOEXCEPT
{
    aotx_information copy;
    if (payload_bytes < sizeof copy || payload_bytes > AOTX_PAYLOAD_BYTES_MAX) {
        return AOTX_ERR_LENGTH;
    }
    aotx_copy(&copy, payload, sizeof copy);
    if (copy.model_rows > AOTX_INFORMATION_MODEL_ROWS_MAX ||
        payload_bytes != sizeof copy + copy.model_rows * sizeof(aotx_model_row)) {
        return AOTX_ERR_LENGTH;
    }
    if (!aotx_is_zero(copy.zero_160, sizeof copy.zero_160)) {
        return AOTX_ERR_NONZERO;
    }
    if (copy.schema != AOTX_INFORMATION_SCHEMA || copy.execution_slots_plus_one == 0u ||
        copy.image_available > 1u || copy.audio_available > 1u || copy.shared_available > 1u ||
        (copy.grant_actions & ~AOTX_ACTION_MASK_ALL) != 0u) {
        return AOTX_ERR_RANGE;
    }
    const int models = aotx_information_models_check(payload, &copy);
    if (models != AOTX_OK) {
        return models;
    }

    *information = copy;
    return AOTX_OK;
}

/* 1 when text is printable ASCII and zero behind it, the last byte zero. */
AOTX_INLINE int aotx_device_text_check(const uint8_t* text, size_t text_bytes) AOTX_NOEXCEPT
{
    size_t at = 0;
    while (at < text_bytes && text[at] >= 0x20u && text[at] < 0x7fu) {
        at++;
    }
    return at < text_bytes && aotx_is_zero(text + at, text_bytes - at);
}

/* Judge the payload of a DEVICE reply and copy it out.
 *
 * payload  in,  u8 [payload_bytes]
 * device   out, written only on success; name and reason end with a zero byte
 *
 * AOTX_ERR_LENGTH   not one row
 * AOTX_ERR_NONZERO  bytes 12..15
 * AOTX_ERR_RANGE    another schema, an unknown kind, no name, a text of another form, or a reason
 *                   though the CPU does not serve */
AOTX_INLINE int aotx_device_check(const uint8_t* payload, size_t payload_bytes,
                                  aotx_device_row* device) AOTX_NOEXCEPT
{
    aotx_device_row copy;
    if (payload_bytes != sizeof copy) {
        return AOTX_ERR_LENGTH;
    }
    aotx_copy(&copy, payload, sizeof copy);
    if (copy.zero_12 != 0u) {
        return AOTX_ERR_NONZERO;
    }
    if (copy.schema != AOTX_DEVICE_SCHEMA || copy.kind < AOTX_DEVICE_KIND_CPU ||
        copy.kind > AOTX_DEVICE_KIND_CUDA || copy.name[0] == 0u ||
        !aotx_device_text_check(copy.name, sizeof copy.name) ||
        !aotx_device_text_check(copy.reason, sizeof copy.reason) ||
        (copy.reason[0] != 0u && copy.kind != AOTX_DEVICE_KIND_CPU)) {
        return AOTX_ERR_RANGE;
    }

    *device = copy;
    return AOTX_OK;
}

#endif
