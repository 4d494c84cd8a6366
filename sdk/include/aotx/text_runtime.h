/* Purpose:  the batched text extension of a model runtime: what a language model offers beyond
 *           plain ports so that a host can run many sequences together.
 * Owns:     nothing; the table belongs to the runtime and lives as long as a reference to it.
 * Thread:   one driver thread at a time calls the verbs of one runtime; properties and token_bytes
 *           may be read by any.
 * Lifetime: found once after open through query_extension, then used until the last reference goes.
 *
 * A runtime answers query_extension(runtime, AOTX_TEXT_RUNTIME_EXTENSION_ID, 1, &table) with this
 * table. The ID is aotx's own and outside the range that the model runtime ABI assigns. All verbs
 * are hot unless their tag says otherwise: no allocation, no lock, no I/O. Status codes are those
 * of the ABI's verbs: 0 ok, -1 invalid, -2 not found, -3 unsupported, -4 shape mismatch, -5
 * insufficient storage, -6 backend. The text of the last failure comes from the runtime's own
 * last_error verb. A refused call changes nothing. */
#ifndef AOTX_TEXT_RUNTIME_H
#define AOTX_TEXT_RUNTIME_H

#include "base.h"

/* The bytes "AOTXTEXT" as a little-endian word. */
#define AOTX_TEXT_RUNTIME_EXTENSION_ID UINT64_C(0x5458455458544f41)
#define AOTX_TEXT_RUNTIME_ABI_VERSION 1u

/* One part of a message. kind is enum aotx_part_kind of packet.h: text is UTF-8 without a
 * terminator; a media part points at the source's 32-byte digest. */
typedef struct aotx_text_part {
    uint32_t kind;
    uint32_t bytes;
    const uint8_t* data;
} aotx_text_part;
AOTX_SIZE(aotx_text_part, 16);
AOTX_FIELD(aotx_text_part, kind, 0, 4);
AOTX_FIELD(aotx_text_part, bytes, 4, 4);
AOTX_FIELD(aotx_text_part, data, 8, 8);

/* One message. role is enum aotx_message_role of packet.h. */
typedef struct aotx_text_message {
    uint32_t role;
    uint32_t parts_count;
    const aotx_text_part* parts;
} aotx_text_message;
AOTX_SIZE(aotx_text_message, 16);
AOTX_FIELD(aotx_text_message, role, 0, 4);
AOTX_FIELD(aotx_text_message, parts_count, 4, 4);
AOTX_FIELD(aotx_text_message, parts, 8, 8);

/* What one sequence does in one step. */
typedef struct aotx_text_row {
    uint32_t sequence;     /* open, < sequences_max, distinct within a step */
    uint32_t tokens_count; /* >= 1; a prefill chunk, or 1 to decode */
    const int32_t* tokens; /* i32 [tokens_count], each in 0..vocab_size-1; appended */
    uint32_t wants_logits; /* 0 or 1: logits after the last of these tokens */
    uint32_t zero_20;
    const float* logits; /* out: f32 [vocab_size], the runtime's, until the next step; or null */
} aotx_text_row;
AOTX_SIZE(aotx_text_row, 32);
AOTX_FIELD(aotx_text_row, sequence, 0, 4);
AOTX_FIELD(aotx_text_row, tokens_count, 4, 4);
AOTX_FIELD(aotx_text_row, tokens, 8, 8);
AOTX_FIELD(aotx_text_row, wants_logits, 16, 4);
AOTX_FIELD(aotx_text_row, zero_20, 20, 4);
AOTX_FIELD(aotx_text_row, logits, 24, 8);

/* How the next token of one row is chosen: argmax with ties to the lower ID at temperature 0, else
 * from the smallest set of the likeliest tokens whose shares of softmax(logits / temperature) reach
 * top_p. uniform is the draw; equal draws from equal logits give equal tokens. */
typedef struct aotx_text_draw {
    float temperature;
    float top_p;
    double uniform; /* in 0..1, 1 excluded */
    int32_t token;  /* out */
    uint32_t zero_20;
} aotx_text_draw;
AOTX_SIZE(aotx_text_draw, 24);
AOTX_FIELD(aotx_text_draw, temperature, 0, 4);
AOTX_FIELD(aotx_text_draw, top_p, 4, 4);
AOTX_FIELD(aotx_text_draw, uniform, 8, 8);
AOTX_FIELD(aotx_text_draw, token, 16, 4);
AOTX_FIELD(aotx_text_draw, zero_20, 20, 4);

/* Token flags of token_bytes. */
enum aotx_text_token_flag {
    AOTX_TEXT_TOKEN_END = 1,    /* ends a generation */
    AOTX_TEXT_TOKEN_CONTROL = 2 /* structure of the format; its bytes are not part of an answer */
};

/* Constant after open. */
typedef struct aotx_text_properties {
    uint32_t struct_size; /* of this struct as the runtime knows it */
    uint32_t vocab_size;
    uint32_t sequences_max; /* open at the same time; sequence numbers are 0..sequences_max-1 */
    uint32_t sequence_tokens_max;
    uint32_t step_tokens_max;  /* over all rows of a step; >= sequences_max */
    uint32_t step_rows_max;    /* >= 1 */
    uint32_t page_tokens;      /* tokens in one KV page */
    uint32_t pages_count;      /* KV pages of the whole pool */
    uint32_t prompt_bytes_max; /* after the message format is applied */
    uint32_t token_bytes_max;  /* longest token_bytes answer */
    uint32_t modalities;       /* enum aotx_modality bits */
    uint32_t zero_44;
    uint64_t allocation_bytes; /* memory taken at open: KV pool, scratch, tables */
    uint64_t mapped_bytes;     /* file memory that is only mapped */
    uint8_t sha256[32];        /* of the model file; zero when there is none */
} aotx_text_properties;
AOTX_SIZE(aotx_text_properties, 96);
AOTX_FIELD(aotx_text_properties, struct_size, 0, 4);
AOTX_FIELD(aotx_text_properties, vocab_size, 4, 4);
AOTX_FIELD(aotx_text_properties, sequences_max, 8, 4);
AOTX_FIELD(aotx_text_properties, sequence_tokens_max, 12, 4);
AOTX_FIELD(aotx_text_properties, step_tokens_max, 16, 4);
AOTX_FIELD(aotx_text_properties, step_rows_max, 20, 4);
AOTX_FIELD(aotx_text_properties, page_tokens, 24, 4);
AOTX_FIELD(aotx_text_properties, pages_count, 28, 4);
AOTX_FIELD(aotx_text_properties, prompt_bytes_max, 32, 4);
AOTX_FIELD(aotx_text_properties, token_bytes_max, 36, 4);
AOTX_FIELD(aotx_text_properties, modalities, 40, 4);
AOTX_FIELD(aotx_text_properties, zero_44, 44, 4);
AOTX_FIELD(aotx_text_properties, allocation_bytes, 48, 8);
AOTX_FIELD(aotx_text_properties, mapped_bytes, 56, 8);
AOTX_FIELD(aotx_text_properties, sha256, 64, 32);

/* The table. It may grow at its end behind struct_size; a host requires AOTX_TEXT_RUNTIME_V1_SIZE
 * bytes and no more. */
typedef struct aotx_text_runtime_v1 {
    uint32_t abi_version; /* AOTX_TEXT_RUNTIME_ABI_VERSION */
    uint32_t struct_size;
    void* self; /* first argument of every verb */
    const aotx_text_properties* properties;

    /* Apply the model's own message format, with the opening of an answer behind it, and tokenize
     * the whole. Special tokens come from the format alone, never out of message text. [hot]
     *
     * messages      in,  [messages_count >= 1]
     * tokens        out, i32 [tokens_capacity]; written only on success
     * tokens_count  out: tokens written; on -5 the number needed, or 0 when the prompt exceeds
     *               prompt_bytes_max
     *
     * -1 null or empty input, or a role or kind out of range; -3 a part kind or message order that
     * the format does not take; -5 too long. */
    int (*render)(void* self, const aotx_text_message* messages, uint32_t messages_count,
                  int32_t* tokens, uint32_t tokens_capacity, uint32_t* tokens_count);

    /* Tokenize plain text. parse_special 0 or 1: whether the text of special tokens becomes those
     * tokens; add_start 0 or 1: begin as the file says a text begins. Same results as render.
     * [hot] */
    int (*tokenize)(void* self, const uint8_t* text, uint32_t text_bytes, uint32_t parse_special,
                    uint32_t add_start, int32_t* tokens, uint32_t tokens_capacity,
                    uint32_t* tokens_count);

    /* Bytes of one token, borrowed from the runtime for its life, and its flags. -2 outside the
     * vocabulary. [hot, any thread] */
    int (*token_bytes)(void* self, int32_t token, const uint8_t** bytes, uint32_t* bytes_count,
                       uint32_t* flags);

    /* Take a sequence number into use with room for tokens_max tokens: ceil(tokens_max /
     * page_tokens) pages are held until it is closed, so a running sequence never lacks storage. -1
     * already open or out of range; -4 tokens_max 0 or over sequence_tokens_max; -5 not enough
     * pages. [hot] */
    int (*sequence_open)(void* self, uint32_t sequence, uint32_t tokens_max);

    /* Give the number and its pages back. -1 not open. [hot] */
    int (*sequence_close)(void* self, uint32_t sequence);

    /* Append every row's tokens to its sequence and compute the wanted logits. A row's result does
     * not depend on the other rows. -1 a bad row; -4 more tokens or rows than a step takes; -5 a
     * row beyond its tokens_max; in these cases nothing was appended. -6 the backend failed: every
     * sequence of the step is undefined until closed. [hot] */
    int (*step)(void* self, aotx_text_row* rows, uint32_t rows_count);

    /* Optional: there when struct_size reaches AOTX_TEXT_RUNTIME_V1_SAMPLE_SIZE and it is not null.
     * As step, but the runtime also chooses a token for every row that wants logits, and hands no
     * logits out: they are null. For a runtime whose logits are far from the host.
     *
     * draws  in and out, [rows_count]; those of rows that want no logits are left alone
     *
     * As step; -1 also a temperature below 0 or not a number, top_p outside 0..1 or 0, or a uniform
     * out of its range, of a row that wants logits. [hot] */
    int (*step_sample)(void* self, aotx_text_row* rows, uint32_t rows_count, aotx_text_draw* draws);
} aotx_text_runtime_v1;
AOTX_SIZE(aotx_text_runtime_v1, 80);
AOTX_FIELD(aotx_text_runtime_v1, abi_version, 0, 4);
AOTX_FIELD(aotx_text_runtime_v1, struct_size, 4, 4);
AOTX_FIELD(aotx_text_runtime_v1, self, 8, 8);
AOTX_FIELD(aotx_text_runtime_v1, properties, 16, 8);
AOTX_FIELD(aotx_text_runtime_v1, render, 24, 8);
AOTX_FIELD(aotx_text_runtime_v1, tokenize, 32, 8);
AOTX_FIELD(aotx_text_runtime_v1, token_bytes, 40, 8);
AOTX_FIELD(aotx_text_runtime_v1, sequence_open, 48, 8);
AOTX_FIELD(aotx_text_runtime_v1, sequence_close, 56, 8);
AOTX_FIELD(aotx_text_runtime_v1, step, 64, 8);
AOTX_FIELD(aotx_text_runtime_v1, step_sample, 72, 8);
#define AOTX_TEXT_RUNTIME_V1_SIZE 72u
#define AOTX_TEXT_RUNTIME_V1_SAMPLE_SIZE 80u

#endif
