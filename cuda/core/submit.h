// Purpose:  the content of a submission: is it well formed, what does it hold.
// Owns:     nothing.
// Thread:   any, host or device; reads only the caller's copy of the payload.
// Lifetime: not applicable.
#pragma once

#include "aotx/packet.h"
#include "aotx/status.h"
#include "aotx/text_runtime.h"
#include "bytes.h"
#include "check.h"

namespace aotx {

// What a well-formed submission holds.
struct CoreSubmission {
    uint32_t messages_count;
    uint32_t media_parts;
    uint32_t text_bytes;
};

// Strict UTF-8 as a step machine, so that a text may be walked in pieces. Overlong forms,
// surrogates and code points above U+10FFFF are refused at their second byte.
struct CoreUtf8 {
    uint32_t left;  // continuation bytes still to come
    uint8_t low;    // range of the next one
    uint8_t high;
};

AOTX_INLINE bool core_utf8_lead(CoreUtf8* utf8, uint8_t byte)
{
    utf8->low = 0x80;
    utf8->high = 0xbf;
    if (byte < 0x80) {
        return true;
    }
    if (byte >= 0xc2 && byte <= 0xdf) {
        utf8->left = 1;
        return true;
    }
    if (byte >= 0xe0 && byte <= 0xef) {
        utf8->left = 2;
        utf8->low = byte == 0xe0 ? 0xa0 : 0x80;
        utf8->high = byte == 0xed ? 0x9f : 0xbf;
        return true;
    }
    if (byte >= 0xf0 && byte <= 0xf4) {
        utf8->left = 3;
        utf8->low = byte == 0xf0 ? 0x90 : 0x80;
        utf8->high = byte == 0xf4 ? 0x8f : 0xbf;
        return true;
    }
    return false;
}

AOTX_INLINE bool core_utf8_step(CoreUtf8* utf8, uint8_t byte)
{
    if (utf8->left == 0) {
        return core_utf8_lead(utf8, byte);
    }
    if (byte < utf8->low || byte > utf8->high) {
        return false;
    }
    utf8->low = 0x80;
    utf8->high = 0xbf;
    utf8->left--;
    return true;
}

// Finds "[image:" and "[audio:" in a text that comes in pieces. '[' occurs only at their start, so
// a mismatch never has to look back.
struct CoreMarker {
    uint32_t matched;  // bytes of a marker seen so far
    uint32_t audio;    // which of the two, once matched > 1
};

constexpr uint32_t kCoreMarkerBytes = 7;

// True when the byte completes a marker.
AOTX_INLINE bool core_marker_step(CoreMarker* marker, uint8_t byte)
{
    const char image[kCoreMarkerBytes] = {'[', 'i', 'm', 'a', 'g', 'e', ':'};
    const char audio[kCoreMarkerBytes] = {'[', 'a', 'u', 'd', 'i', 'o', ':'};
    if (byte == '[') {
        marker->matched = 1;
        return false;
    }
    if (marker->matched == 0) {
        return false;
    }
    if (marker->matched == 1) {
        marker->audio = byte == 'a' ? 1u : 0u;
    }
    const char* const want = marker->audio != 0 ? audio : image;
    marker->matched =
        byte == static_cast<uint8_t>(want[marker->matched]) ? marker->matched + 1u : 0;
    return marker->matched == kCoreMarkerBytes;
}

// True when none of eight bytes is '[' or above 0x7f: nothing to look at.
AOTX_INLINE bool core_text_plain(uint64_t word)
{
    const uint64_t ones = 0x0101010101010101u;
    const uint64_t tops = 0x8080808080808080u;
    const uint64_t brackets = word ^ (ones * static_cast<uint64_t>('['));
    return ((word | ((brackets - ones) & ~brackets)) & tops) == 0;
}

// Check one text part: whole UTF-8, no marker, also none that began in the part before.
AOTX_INLINE bool core_text_check(const uint8_t* text, uint32_t text_bytes, CoreMarker* marker)
{
    CoreUtf8 utf8 = {0, 0x80, 0xbf};
    uint32_t at = 0;
    while (at < text_bytes) {
        if (utf8.left == 0 && marker->matched == 0) {
            while (text_bytes - at >= 8u && core_text_plain(core_load64(text + at))) {
                at += 8u;
            }
            if (at == text_bytes) {
                break;
            }
        }
        if (!core_utf8_step(&utf8, text[at]) || core_marker_step(marker, text[at])) {
            return false;
        }
        at++;
    }
    return utf8.left == 0;
}

// A walk over a payload; at never passes bytes.
struct CoreWalk {
    const uint8_t* payload;
    uint32_t bytes;
    uint32_t at;
};

AOTX_INLINE bool core_walk_word(CoreWalk* walk, uint32_t* word)
{
    if (walk->bytes - walk->at < 4u) {
        return false;
    }
    *word = core_load32(walk->payload + walk->at);
    walk->at += 4u;
    return true;
}

AOTX_INLINE bool core_part_check(CoreWalk* walk, uint32_t role, CoreMarker* marker,
                                 CoreSubmission* submission)
{
    uint32_t kind = 0;
    uint32_t bytes = 0;
    if (!core_walk_word(walk, &kind) || !core_walk_word(walk, &bytes) ||
        bytes > walk->bytes - walk->at) {
        return false;
    }
    if (kind == AOTX_PART_KIND_TEXT) {
        if (!core_text_check(walk->payload + walk->at, bytes, marker)) {
            return false;
        }
        submission->text_bytes += bytes;
    } else {
        if ((kind != AOTX_PART_KIND_IMAGE && kind != AOTX_PART_KIND_AUDIO) ||
            role != AOTX_MESSAGE_ROLE_USER || bytes != AOTX_DIGEST_BYTES) {
            return false;
        }
        marker->matched = 0;
        submission->media_parts++;
    }
    walk->at += bytes;
    return true;
}

AOTX_INLINE bool core_message_check(CoreWalk* walk, CoreSubmission* submission)
{
    uint32_t role = 0;
    uint32_t parts = 0;
    if (!core_walk_word(walk, &role) || !core_walk_word(walk, &parts) ||
        role > AOTX_MESSAGE_ROLE_ASSISTANT || parts < 1u || parts > AOTX_SUBMIT_PARTS_MAX) {
        return false;
    }
    CoreMarker marker = {0, 0};
    for (uint32_t i = 0; i < parts; i++) {
        if (!core_part_check(walk, role, &marker, submission)) {
            return false;
        }
    }
    return true;
}

// Is the payload a submission, whole and with nothing behind it? submission is written only then.
AOTX_INLINE bool core_submission_check(const uint8_t* payload, uint32_t payload_bytes,
                                       CoreSubmission* submission)
{
    CoreWalk walk = {payload, payload_bytes, 0};
    CoreSubmission found = {0, 0, 0};
    if (!core_walk_word(&walk, &found.messages_count) || found.messages_count < 1u ||
        found.messages_count > AOTX_SUBMIT_MESSAGES_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < found.messages_count; i++) {
        if (!core_message_check(&walk, &found)) {
            return false;
        }
    }
    if (walk.at != payload_bytes) {
        return false;
    }

    *submission = found;
    return true;
}

// Spread a checked payload into messages and parts that point into it. messages
// [AOTX_SUBMIT_MESSAGES_MAX], parts [AOTX_SUBMIT_MESSAGES_MAX * AOTX_SUBMIT_PARTS_MAX]. Returns the
// messages.
AOTX_INLINE uint32_t core_submission_spread(const uint8_t* payload, uint32_t payload_bytes,
                                            aotx_text_message* messages, aotx_text_part* parts)
{
    CoreWalk walk = {payload, payload_bytes, 0};
    uint32_t messages_count = 0;
    AOTX_CORE_CHECK(core_walk_word(&walk, &messages_count));
    AOTX_CORE_CHECK(messages_count <= AOTX_SUBMIT_MESSAGES_MAX);
    for (uint32_t i = 0; i < messages_count; i++) {
        aotx_text_message* const message = &messages[i];
        AOTX_CORE_CHECK(core_walk_word(&walk, &message->role));
        AOTX_CORE_CHECK(core_walk_word(&walk, &message->parts_count));
        AOTX_CORE_CHECK(message->parts_count <= AOTX_SUBMIT_PARTS_MAX);
        message->parts = parts;
        for (uint32_t j = 0; j < message->parts_count; j++) {
            AOTX_CORE_CHECK(core_walk_word(&walk, &parts->kind));
            AOTX_CORE_CHECK(core_walk_word(&walk, &parts->bytes));
            AOTX_CORE_CHECK(parts->bytes <= walk.bytes - walk.at);
            parts->data = payload + walk.at;
            walk.at += parts->bytes;
            parts++;
        }
    }
    return messages_count;
}

}  // namespace aotx
