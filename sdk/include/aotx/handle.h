/* Purpose:  text form of request and media handles: format and strict parse.
 * Owns:     nothing.
 * Thread:   any.
 * Lifetime: not applicable.
 *
 *   request  req-<16 lower-case hex digits: epoch>-<32 lower-case hex digits: identity>
 *   media    media-<32 lower-case hex digits: identity>
 *   event    <request handle>:<decimal cursor without leading zeros>
 *
 * The epoch's digits are the number, most significant first; the identity's digits are its bytes in
 * order. A handle is a name and not a credential. */
#ifndef AOTX_HANDLE_H
#define AOTX_HANDLE_H

#include "base.h"
#include "status.h"

#define AOTX_REQUEST_HANDLE_CHARACTERS 53u   /* "req-" 16 "-" 32, without a terminator */
#define AOTX_MEDIA_HANDLE_CHARACTERS 38u     /* "media-" 32 */
#define AOTX_EVENT_HANDLE_CHARACTERS_MAX 74u /* request handle, ":" and at most 20 digits */

/* Write bytes as 2 * bytes_count lower-case digits, without a terminator. */
AOTX_INLINE void aotx_hex_encode(const uint8_t* bytes, size_t bytes_count, char* text) AOTX_NOEXCEPT
{
    for (size_t i = 0; i < bytes_count; i++) {
        const unsigned high = (unsigned)bytes[i] >> 4u;
        const unsigned low = (unsigned)bytes[i] & 15u;
        text[2u * i] = (char)(high < 10u ? '0' + (int)high : 'a' + (int)high - 10);
        text[2u * i + 1u] = (char)(low < 10u ? '0' + (int)low : 'a' + (int)low - 10);
    }
}

/* Value of one lower-case hex digit, or -1. */
AOTX_INLINE int aotx_hex_digit(char digit) AOTX_NOEXCEPT
{
    if (digit >= '0' && digit <= '9') {
        return digit - '0';
    }
    if (digit >= 'a' && digit <= 'f') {
        return digit - 'a' + 10;
    }
    return -1;
}

/* Parse 2 * bytes_count lower-case hex digits. AOTX_ERR_SYNTAX leaves bytes unspecified. */
AOTX_INLINE int aotx_hex_decode(const char* text, uint8_t* bytes, size_t bytes_count) AOTX_NOEXCEPT
{
    for (size_t i = 0; i < bytes_count; i++) {
        const int high = aotx_hex_digit(text[2u * i]);
        const int low = aotx_hex_digit(text[2u * i + 1u]);
        if (high < 0 || low < 0) {
            return AOTX_ERR_SYNTAX;
        }
        bytes[i] = (uint8_t)(high * 16 + low);
    }
    return AOTX_OK;
}

/* Write a request handle. text: char [AOTX_REQUEST_HANDLE_CHARACTERS], no terminator is written. */
AOTX_INLINE void aotx_request_handle_format(uint64_t epoch, const uint8_t id[16],
                                            char* text) AOTX_NOEXCEPT
{
    uint8_t epoch_bytes[8];
    for (unsigned i = 0; i < 8u; i++) {
        epoch_bytes[i] = (uint8_t)(epoch >> (56u - 8u * i));
    }
    text[0] = 'r';
    text[1] = 'e';
    text[2] = 'q';
    text[3] = '-';
    aotx_hex_encode(epoch_bytes, 8u, text + 4);
    text[20] = '-';
    aotx_hex_encode(id, 16u, text + 21);
}

/* Parse a request handle of exactly AOTX_REQUEST_HANDLE_CHARACTERS. epoch and id are untouched on
 * failure. AOTX_ERR_LENGTH another length; AOTX_ERR_SYNTAX anything else that differs from the form
 * above. */
AOTX_INLINE int aotx_request_handle_parse(const char* text, size_t characters, uint64_t* epoch,
                                          uint8_t id[16]) AOTX_NOEXCEPT
{
    uint8_t bytes[24];
    if (characters != AOTX_REQUEST_HANDLE_CHARACTERS) {
        return AOTX_ERR_LENGTH;
    }
    if (text[0] != 'r' || text[1] != 'e' || text[2] != 'q' || text[3] != '-' || text[20] != '-') {
        return AOTX_ERR_SYNTAX;
    }
    if (aotx_hex_decode(text + 4, bytes, 8u) != AOTX_OK ||
        aotx_hex_decode(text + 21, bytes + 8, 16u) != AOTX_OK) {
        return AOTX_ERR_SYNTAX;
    }

    *epoch = 0;
    for (unsigned i = 0; i < 8u; i++) {
        *epoch = (*epoch << 8u) | bytes[i];
    }
    for (unsigned i = 0; i < 16u; i++) {
        id[i] = bytes[8u + i];
    }
    return AOTX_OK;
}

/* Write a media handle. text: char [AOTX_MEDIA_HANDLE_CHARACTERS], no terminator is written. */
AOTX_INLINE void aotx_media_handle_format(const uint8_t id[16], char* text) AOTX_NOEXCEPT
{
    const char prefix[6] = {'m', 'e', 'd', 'i', 'a', '-'};
    for (unsigned i = 0; i < 6u; i++) {
        text[i] = prefix[i];
    }
    aotx_hex_encode(id, 16u, text + 6);
}

/* Parse a media handle of exactly AOTX_MEDIA_HANDLE_CHARACTERS. id is untouched on failure. Errors
 * as above. */
AOTX_INLINE int aotx_media_handle_parse(const char* text, size_t characters,
                                        uint8_t id[16]) AOTX_NOEXCEPT
{
    const char prefix[6] = {'m', 'e', 'd', 'i', 'a', '-'};
    uint8_t bytes[16];
    if (characters != AOTX_MEDIA_HANDLE_CHARACTERS) {
        return AOTX_ERR_LENGTH;
    }
    for (unsigned i = 0; i < 6u; i++) {
        if (text[i] != prefix[i]) {
            return AOTX_ERR_SYNTAX;
        }
    }
    if (aotx_hex_decode(text + 6, bytes, 16u) != AOTX_OK) {
        return AOTX_ERR_SYNTAX;
    }

    for (unsigned i = 0; i < 16u; i++) {
        id[i] = bytes[i];
    }
    return AOTX_OK;
}

/* Parse a decimal u64 of the whole text: digits only, no sign, no leading zero except "0" itself.
 * value is untouched on failure. AOTX_ERR_SYNTAX not such a number; AOTX_ERR_RANGE above 2^64-1. */
AOTX_INLINE int aotx_decimal_parse(const char* text, size_t characters,
                                   uint64_t* value) AOTX_NOEXCEPT
{
    uint64_t sum = 0;
    if (characters == 0u || (text[0] == '0' && characters != 1u)) {
        return AOTX_ERR_SYNTAX;
    }
    for (size_t i = 0; i < characters; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return AOTX_ERR_SYNTAX;
        }
        const uint64_t digit = (uint64_t)(text[i] - '0');
        if (sum > (UINT64_MAX - digit) / 10u) {
            return AOTX_ERR_RANGE;
        }
        sum = sum * 10u + digit;
    }

    *value = sum;
    return AOTX_OK;
}

/* Parse an event handle, "<request handle>:<cursor>". Outputs are untouched on failure. Errors as
 * above. */
AOTX_INLINE int aotx_event_handle_parse(const char* text, size_t characters, uint64_t* epoch,
                                        uint8_t id[16], uint64_t* cursor) AOTX_NOEXCEPT
{
    uint64_t cursor_value = 0;
    if (characters <= AOTX_REQUEST_HANDLE_CHARACTERS + 1u ||
        characters > AOTX_EVENT_HANDLE_CHARACTERS_MAX) {
        return AOTX_ERR_LENGTH;
    }
    if (text[AOTX_REQUEST_HANDLE_CHARACTERS] != ':') {
        return AOTX_ERR_SYNTAX;
    }
    const size_t number_at = AOTX_REQUEST_HANDLE_CHARACTERS + 1u;
    const int number = aotx_decimal_parse(text + number_at, characters - number_at, &cursor_value);
    if (number != AOTX_OK) {
        return number;
    }
    const int handle = aotx_request_handle_parse(text, AOTX_REQUEST_HANDLE_CHARACTERS, epoch, id);
    if (handle != AOTX_OK) {
        return handle;
    }

    *cursor = cursor_value;
    return AOTX_OK;
}

#endif
