/* Purpose:  submission payloads: write one, walk one, judge one whole.
 * Owns:     nothing; builder and walker point into memory of the caller.
 * Thread:   one builder or walker is used by one thread at a time.
 * Lifetime: builder and walker end with the buffer they point into.
 *
 * A payload is a u32 message count; then for each message a head and its parts; then for each part
 * a head and its bytes. Nothing is aligned, so all words are copied. */
#ifndef AOTX_SUBMIT_H
#define AOTX_SUBMIT_H

#include "base.h"
#include "packet.h"
#include "status.h"

/* Writes a payload front to back. */
typedef struct aotx_submit_builder {
    uint8_t* payload;
    size_t capacity_bytes;
    size_t used_bytes;
    size_t message_at; /* where the open message's head lies */
    uint32_t messages; /* begun so far */
    uint32_t parts;    /* of the open message */
    uint32_t role;     /* of the open message */
    uint32_t zero_44;
} aotx_submit_builder;

/* Begin a payload in a buffer of capacity_bytes, at most AOTX_PAYLOAD_BYTES_MAX of which are used.
 * AOTX_ERR_FULL: not even the message count fits. */
AOTX_INLINE int aotx_submit_begin(aotx_submit_builder* builder, uint8_t* payload,
                                  size_t capacity_bytes) AOTX_NOEXCEPT
{
    const uint32_t none = 0;
    if (capacity_bytes < sizeof none) {
        return AOTX_ERR_FULL;
    }

    aotx_zero(builder, sizeof *builder);
    builder->payload = payload;
    builder->capacity_bytes =
        capacity_bytes < AOTX_PAYLOAD_BYTES_MAX ? capacity_bytes : AOTX_PAYLOAD_BYTES_MAX;
    builder->used_bytes = sizeof none;
    aotx_copy(payload, &none, sizeof none);
    return AOTX_OK;
}

/* Open the next message; it needs at least one part before the next one or the end.
 * AOTX_ERR_RANGE no such role; AOTX_ERR_STATE the open message has no part yet; AOTX_ERR_FULL the
 * buffer or the number of messages is at its end. A refused call changes nothing. */
AOTX_INLINE int aotx_submit_message_add(aotx_submit_builder* builder, uint32_t role) AOTX_NOEXCEPT
{
    const aotx_submit_message message = {role, 0};
    if (role > AOTX_MESSAGE_ROLE_ASSISTANT) {
        return AOTX_ERR_RANGE;
    }
    if (builder->messages != 0u && builder->parts == 0u) {
        return AOTX_ERR_STATE;
    }
    if (builder->messages == AOTX_SUBMIT_MESSAGES_MAX ||
        builder->capacity_bytes - builder->used_bytes < sizeof message) {
        return AOTX_ERR_FULL;
    }

    aotx_copy(builder->payload + builder->used_bytes, &message, sizeof message);
    builder->message_at = builder->used_bytes;
    builder->used_bytes += sizeof message;
    builder->role = role;
    builder->parts = 0;
    builder->messages++;
    aotx_copy(builder->payload, &builder->messages, sizeof builder->messages);
    return AOTX_OK;
}

/* Add a part to the open message. content: u8 [content_bytes]; text is not judged here.
 * AOTX_ERR_STATE no message is open; AOTX_ERR_RANGE no such kind, or media outside a user message;
 * AOTX_ERR_LENGTH a digest of another length; AOTX_ERR_FULL no room. A refused call changes
 * nothing. */
AOTX_INLINE int aotx_submit_part_add(aotx_submit_builder* builder, uint32_t kind,
                                     const void* content, size_t content_bytes) AOTX_NOEXCEPT
{
    aotx_submit_part part = {kind, 0};
    aotx_submit_message message = {builder->role, builder->parts + 1u};
    if (builder->messages == 0u) {
        return AOTX_ERR_STATE;
    }
    if (kind > AOTX_PART_KIND_AUDIO ||
        (kind != AOTX_PART_KIND_TEXT && builder->role != AOTX_MESSAGE_ROLE_USER)) {
        return AOTX_ERR_RANGE;
    }
    if (kind != AOTX_PART_KIND_TEXT && content_bytes != AOTX_DIGEST_BYTES) {
        return AOTX_ERR_LENGTH;
    }
    if (builder->parts == AOTX_SUBMIT_PARTS_MAX ||
        builder->capacity_bytes - builder->used_bytes < sizeof part ||
        builder->capacity_bytes - builder->used_bytes - sizeof part < content_bytes) {
        return AOTX_ERR_FULL;
    }

    part.bytes = (uint32_t)content_bytes;
    aotx_copy(builder->payload + builder->used_bytes, &part, sizeof part);
    builder->used_bytes += sizeof part;
    if (content_bytes != 0u) {
        aotx_copy(builder->payload + builder->used_bytes, content, content_bytes);
    }
    builder->used_bytes += content_bytes;
    builder->parts++;
    aotx_copy(builder->payload + builder->message_at, &message, sizeof message);
    return AOTX_OK;
}

/* End the payload. AOTX_ERR_STATE: no message, or the last one has no part. */
AOTX_INLINE int aotx_submit_end(const aotx_submit_builder* builder,
                                uint32_t* payload_bytes) AOTX_NOEXCEPT
{
    if (builder->messages == 0u || builder->parts == 0u) {
        return AOTX_ERR_STATE;
    }

    *payload_bytes = (uint32_t)builder->used_bytes;
    return AOTX_OK;
}

/* Reads a payload front to back. */
typedef struct aotx_submit_walker {
    const uint8_t* payload;
    size_t payload_bytes;
    size_t at;
    uint32_t messages_left;
    uint32_t parts_left;
    uint32_t role; /* of the current message */
    uint32_t zero_36;
} aotx_submit_walker;

/* Begin to walk. AOTX_ERR_LENGTH no message count; AOTX_ERR_RANGE a count out of 1..64. */
AOTX_INLINE int aotx_submit_walk_begin(aotx_submit_walker* walker, const uint8_t* payload,
                                       size_t payload_bytes) AOTX_NOEXCEPT
{
    uint32_t messages = 0;
    if (payload_bytes < sizeof messages) {
        return AOTX_ERR_LENGTH;
    }
    aotx_copy(&messages, payload, sizeof messages);
    if (messages == 0u || messages > AOTX_SUBMIT_MESSAGES_MAX) {
        return AOTX_ERR_RANGE;
    }

    aotx_zero(walker, sizeof *walker);
    walker->payload = payload;
    walker->payload_bytes = payload_bytes;
    walker->at = sizeof messages;
    walker->messages_left = messages;
    return AOTX_OK;
}

/* Go to the next message; all parts of the one before have been walked.
 * AOTX_ERR_NOT_FOUND   the end: every message and every byte was walked
 * AOTX_ERR_LENGTH      bytes are missing, or are left at the end
 * AOTX_ERR_RANGE       a role that does not exist, or a part count out of 1..32
 * AOTX_ERR_STATE       parts of the current message are left */
AOTX_INLINE int aotx_submit_walk_message(aotx_submit_walker* walker,
                                         aotx_submit_message* message) AOTX_NOEXCEPT
{
    aotx_submit_message copy;
    if (walker->parts_left != 0u) {
        return AOTX_ERR_STATE;
    }
    if (walker->messages_left == 0u) {
        return walker->at == walker->payload_bytes ? AOTX_ERR_NOT_FOUND : AOTX_ERR_LENGTH;
    }
    if (walker->payload_bytes - walker->at < sizeof copy) {
        return AOTX_ERR_LENGTH;
    }
    aotx_copy(&copy, walker->payload + walker->at, sizeof copy);
    if (copy.role > AOTX_MESSAGE_ROLE_ASSISTANT || copy.parts_count == 0u ||
        copy.parts_count > AOTX_SUBMIT_PARTS_MAX) {
        return AOTX_ERR_RANGE;
    }

    walker->at += sizeof copy;
    walker->messages_left--;
    walker->parts_left = copy.parts_count;
    walker->role = copy.role;
    *message = copy;
    return AOTX_OK;
}

/* Go to the next part of the current message. content points into the payload.
 * AOTX_ERR_NOT_FOUND no part is left; AOTX_ERR_LENGTH bytes are missing, or a digest of another
 * length; AOTX_ERR_RANGE a kind that does not exist, or media outside a user message. */
AOTX_INLINE int aotx_submit_walk_part(aotx_submit_walker* walker, aotx_submit_part* part,
                                      const uint8_t** content) AOTX_NOEXCEPT
{
    aotx_submit_part copy;
    if (walker->parts_left == 0u) {
        return AOTX_ERR_NOT_FOUND;
    }
    if (walker->payload_bytes - walker->at < sizeof copy) {
        return AOTX_ERR_LENGTH;
    }
    aotx_copy(&copy, walker->payload + walker->at, sizeof copy);
    if (copy.kind > AOTX_PART_KIND_AUDIO ||
        (copy.kind != AOTX_PART_KIND_TEXT && walker->role != AOTX_MESSAGE_ROLE_USER)) {
        return AOTX_ERR_RANGE;
    }
    if (copy.bytes > walker->payload_bytes - walker->at - sizeof copy ||
        (copy.kind != AOTX_PART_KIND_TEXT && copy.bytes != AOTX_DIGEST_BYTES)) {
        return AOTX_ERR_LENGTH;
    }

    *part = copy;
    *content = walker->payload + walker->at + sizeof copy;
    walker->at += sizeof copy + copy.bytes;
    walker->parts_left--;
    return AOTX_OK;
}

/* 1 when the text is UTF-8 without overlong forms, surrogates or values above U+10FFFF. */
AOTX_INLINE int aotx_utf8_is_valid(const uint8_t* text, size_t text_bytes) AOTX_NOEXCEPT
{
    size_t at = 0;
    while (at < text_bytes) {
        const unsigned lead = text[at];
        unsigned low = 0x80u; /* bounds of the second byte; they carry all special cases */
        unsigned high = 0xbfu;
        size_t more = 0;
        if (lead < 0x80u) {
            at++;
            continue;
        }
        if (lead >= 0xc2u && lead <= 0xdfu) {
            more = 1;
        } else if (lead >= 0xe0u && lead <= 0xefu) {
            more = 2;
            low = lead == 0xe0u ? 0xa0u : 0x80u;
            high = lead == 0xedu ? 0x9fu : 0xbfu;
        } else if (lead >= 0xf0u && lead <= 0xf4u) {
            more = 3;
            low = lead == 0xf0u ? 0x90u : 0x80u;
            high = lead == 0xf4u ? 0x8fu : 0xbfu;
        } else {
            return 0;
        }
        if (text_bytes - at <= more || text[at + 1u] < low || text[at + 1u] > high) {
            return 0;
        }
        for (size_t i = 2; i <= more; i++) {
            if ((text[at + i] & 0xc0u) != 0x80u) {
                return 0;
            }
        }
        at += more + 1u;
    }
    return 1;
}

/* Looks for the two media markers, "[image:" and "[audio:", across neighbouring text parts. Start
 * state is 0, and again after a media part and for each message. */
AOTX_INLINE int aotx_marker_step(unsigned* state, const uint8_t* text,
                                 size_t text_bytes) AOTX_NOEXCEPT
{
    /* State 1..6: that many characters of a marker were seen; + 8 when it is the audio one. Both
     * start with "[" and hold no other "[", so a mismatch restarts at 0 or 1. */
    const char image[8] = {'[', 'i', 'm', 'a', 'g', 'e', ':', 0};
    const char audio[8] = {'[', 'a', 'u', 'd', 'i', 'o', ':', 0};
    unsigned now = *state;
    for (size_t i = 0; i < text_bytes; i++) {
        const unsigned seen = now & 7u;
        const uint8_t byte = text[i];
        if (byte == (uint8_t)'[') {
            now = 1;
        } else if (seen == 1u && (byte == (uint8_t)'i' || byte == (uint8_t)'a')) {
            now = byte == (uint8_t)'i' ? 2u : 10u;
        } else if (seen >= 2u && byte == (uint8_t)(now < 8u ? image[seen] : audio[seen])) {
            now++;
        } else {
            now = 0;
        }
        if ((now & 7u) == 7u) {
            *state = 0;
            return 1;
        }
    }
    *state = now;
    return 0;
}

/* Judge one message's parts: each well formed, text valid UTF-8 and without a media marker. Media
 * parts are counted into media_parts. Errors as aotx_submit_check. */
AOTX_INLINE int aotx_submit_message_check(aotx_submit_walker* walker,
                                          uint32_t* media_parts) AOTX_NOEXCEPT
{
    unsigned marker = 0;
    for (;;) {
        aotx_submit_part part;
        const uint8_t* content = NULL;
        const int result = aotx_submit_walk_part(walker, &part, &content);
        if (result == AOTX_ERR_NOT_FOUND) {
            return AOTX_OK;
        }
        if (result != AOTX_OK) {
            return result;
        }
        if (part.kind != AOTX_PART_KIND_TEXT) {
            (*media_parts)++;
            marker = 0;
            continue;
        }
        if (!aotx_utf8_is_valid(content, part.bytes) ||
            aotx_marker_step(&marker, content, part.bytes)) {
            return AOTX_ERR_SYNTAX;
        }
    }
}

/* Judge a whole submission payload. Everything that fails here is a 400 of the device.
 * media_parts  out: media parts in it; written only on success
 *
 * AOTX_ERR_LENGTH  bytes are missing or left over, or a digest of another length
 * AOTX_ERR_RANGE   a count, role or kind out of range, or media outside a user message
 * AOTX_ERR_SYNTAX  text that is not UTF-8, or that holds a media marker */
AOTX_INLINE int aotx_submit_check(const uint8_t* payload, size_t payload_bytes,
                                  uint32_t* media_parts) AOTX_NOEXCEPT
{
    aotx_submit_walker walker;
    aotx_submit_message message;
    uint32_t media = 0;
    int result = aotx_submit_walk_begin(&walker, payload, payload_bytes);
    while (result == AOTX_OK) {
        result = aotx_submit_walk_message(&walker, &message);
        if (result == AOTX_OK) {
            result = aotx_submit_message_check(&walker, &media);
        }
    }
    if (result != AOTX_ERR_NOT_FOUND) {
        return result;
    }

    *media_parts = media;
    return AOTX_OK;
}

/* Judge the head words that belong to a submission: a nonzero ID, an output
 * limit above 0, temperature 0..2 and top_p in (0, 1], both finite. AOTX_ERR_RANGE otherwise. */
AOTX_INLINE int aotx_submit_head_check(const aotx_request_head* head) AOTX_NOEXCEPT
{
    /* Written so that a NaN fails every comparison it meets. */
    const int temperature_ok =
        head->temperature >= 0.0f && head->temperature <= AOTX_OUTPUT_TEMPERATURE_MAX;
    const int top_p_ok = head->top_p > 0.0f && head->top_p <= 1.0f;
    if (aotx_is_zero(head->id, AOTX_ID_BYTES) || head->count == 0u || !temperature_ok ||
        !top_p_ok) {
        return AOTX_ERR_RANGE;
    }
    return AOTX_OK;
}

#endif
