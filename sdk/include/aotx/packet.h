/* Purpose:  every structure of the broker protocol, as it lies on the wire.
 * Owns:     nothing; all structs are plain bytes that callers copy and never cast onto a buffer.
 * Thread:   any.
 * Lifetime: not applicable.
 *
 * All integers are little endian. Every byte that no field names is zero: receivers check it,
 * senders write it. Enums carry their values; the struct fields are uint32_t so that the width of
 * an enum is never part of the ABI. Enum values are append only: never renumbered, never reused. */
#ifndef AOTX_PACKET_H
#define AOTX_PACKET_H

#include "base.h"

/* The bytes "AOTXAPI1" read as a little-endian word: the first eight bytes of every packet. */
#define AOTX_MAGIC UINT64_C(0x3149504158544f41)

#define AOTX_PACKET_BYTES_MAX 65536u  /* a whole packet, head included */
#define AOTX_HEAD_BYTES 128u          /* the head of every packet */
#define AOTX_PAYLOAD_BYTES_MAX 65408u /* AOTX_PACKET_BYTES_MAX - AOTX_HEAD_BYTES */
#define AOTX_ID_BYTES 16u             /* principals, request and media IDs, lineage */
#define AOTX_DIGEST_BYTES 32u         /* SHA-256 */

/* Operation word at offset 8 of a request. */
enum aotx_operation {
    AOTX_OPERATION_NONE = 0,   /* always refused: catches a zeroed packet */
    AOTX_OPERATION_GRANTS = 1, /* control mailbox only */
    AOTX_OPERATION_INFORMATION = 2,
    AOTX_OPERATION_SUBMIT = 3, /* 202, or no trace */
    AOTX_OPERATION_READ = 4,
    AOTX_OPERATION_CANCEL = 5,
    AOTX_OPERATION_MEDIA = 6,
    AOTX_OPERATION_MEDIA_READ = 7,
    AOTX_OPERATION_TELEMETRY = 8,
    AOTX_OPERATION_MEDIA_LIST = 9,
    AOTX_OPERATION_SHARED_MUTATE = 10,
    AOTX_OPERATION_SHARED_READ = 11,
    AOTX_OPERATION_POLICY = 12,
    AOTX_OPERATION_WATCH = 13, /* answered when any watched request has news; see aotx_watch_row */
    AOTX_OPERATION_DEVICE = 14 /* what serves; see aotx_device_row */
};

/* Model roles. A mask bit is 1 << role. */
enum aotx_model_role {
    AOTX_MODEL_ROLE_LANGUAGE = 2,
    AOTX_MODEL_ROLE_LANGUAGE_Q4 = 3,
    AOTX_MODEL_ROLE_LANGUAGE_AUDIO = 4
};
#define AOTX_MODEL_MASK_LANGUAGE 0x1cu /* every role that a grant may name */

/* Action bits of a grant. */
enum aotx_action {
    AOTX_ACTION_INFER = 1,
    AOTX_ACTION_UPLOAD = 2,
    AOTX_ACTION_FETCH = 4, /* refused without UPLOAD where grants are made */
    AOTX_ACTION_TELEMETRY = 8,
    AOTX_ACTION_SHARED_READ = 16,
    AOTX_ACTION_SHARED_WRITE = 32,
    AOTX_ACTION_SHARED_MANAGE = 64,
    AOTX_ACTION_POLICY_MANAGE = 128
};
#define AOTX_ACTION_MASK_ALL 0xffu

/* Modality bits of a model row. */
enum aotx_modality { AOTX_MODALITY_TEXT = 1, AOTX_MODALITY_IMAGE = 2, AOTX_MODALITY_AUDIO = 4 };

/* Request phase at offset 12 of a reply. */
enum aotx_phase {
    AOTX_PHASE_FREE = 0,
    AOTX_PHASE_QUEUED = 1,
    AOTX_PHASE_PREPARING = 2,
    AOTX_PHASE_RUNNING = 3,
    AOTX_PHASE_COMPLETED = 4, /* this and the two below are terminal */
    AOTX_PHASE_FAILED = 5,
    AOTX_PHASE_CANCELLED = 6
};

/* Finish word at offset 92 of a reply. */
enum aotx_finish { AOTX_FINISH_NONE = 0, AOTX_FINISH_STOP = 1, AOTX_FINISH_LENGTH = 2 };

/* Roles and part kinds of a submission. */
enum aotx_message_role {
    AOTX_MESSAGE_ROLE_SYSTEM = 0,
    AOTX_MESSAGE_ROLE_USER = 1,
    AOTX_MESSAGE_ROLE_ASSISTANT = 2
};
enum aotx_part_kind { AOTX_PART_KIND_TEXT = 0, AOTX_PART_KIND_IMAGE = 1, AOTX_PART_KIND_AUDIO = 2 };

/* Media. */
enum aotx_media_phase {
    AOTX_MEDIA_PHASE_FREE = 0,
    AOTX_MEDIA_PHASE_RECEIVE = 1,
    AOTX_MEDIA_PHASE_HASH = 2,
    AOTX_MEDIA_PHASE_WAIT = 3,
    AOTX_MEDIA_PHASE_DECODE = 4,
    AOTX_MEDIA_PHASE_ENCODE = 5,
    AOTX_MEDIA_PHASE_READY = 6,
    AOTX_MEDIA_PHASE_REFUSED = 7
};
/* Why a source or upload is what it is. */
enum aotx_media_status {
    AOTX_MEDIA_STATUS_NONE = 0,
    AOTX_MEDIA_STATUS_INVALID = 1,
    AOTX_MEDIA_STATUS_LIMIT = 2,
    AOTX_MEDIA_STATUS_DIGEST_MISMATCH = 3,
    AOTX_MEDIA_STATUS_CANCELLED = 4,
    AOTX_MEDIA_STATUS_CODEC = 5,
    AOTX_MEDIA_STATUS_ENCODER = 6,
    AOTX_MEDIA_STATUS_UNAVAILABLE = 7,
    AOTX_MEDIA_STATUS_LEASED = 8,
    AOTX_MEDIA_STATUS_ZERO_SIGNAL = 9,
    AOTX_MEDIA_STATUS_AUDIO_FORMAT = 10,
    AOTX_MEDIA_STATUS_AUDIO_NOT_FINITE = 11,
    AOTX_MEDIA_STATUS_POOL_PRESSURE = 12
};
/* What a source holds. */
enum aotx_media_format {
    AOTX_MEDIA_FORMAT_JPEG = 1,
    AOTX_MEDIA_FORMAT_RGB8 = 2, /* inside the device only */
    AOTX_MEDIA_FORMAT_WAV = 3,
    AOTX_MEDIA_FORMAT_PCM = 4 /* inside the device only */
};
/* What one MEDIA packet does. */
enum aotx_media_step {
    AOTX_MEDIA_STEP_BEGIN = 1,
    AOTX_MEDIA_STEP_CHUNK = 2,
    AOTX_MEDIA_STEP_END = 3,
    AOTX_MEDIA_STEP_REMOVE = 4 /* cancels an upload, or removes a source */
};
#define AOTX_MEDIA_CHUNK_BYTES_MAX 8192u

/* Policy. */
enum aotx_policy_action {
    AOTX_POLICY_ACTION_PAUSE = 1,
    AOTX_POLICY_ACTION_RESUME = 2,
    AOTX_POLICY_ACTION_STOP = 3,
    AOTX_POLICY_ACTION_REVIEW_ON = 4,
    AOTX_POLICY_ACTION_REVIEW_OFF = 5
};
/* What the policy does now. */
enum aotx_policy_state {
    AOTX_POLICY_STATE_OFF = 0,
    AOTX_POLICY_STATE_QUIET = 1,
    AOTX_POLICY_STATE_ACTIVE = 2,
    AOTX_POLICY_STATE_PAUSED = 3,
    AOTX_POLICY_STATE_STOPPED = 4,
    AOTX_POLICY_STATE_ERROR = 5,
    AOTX_POLICY_STATE_RECORDING = 6
};
/* Why the policy is in its state. */
enum aotx_policy_reason {
    AOTX_POLICY_REASON_QUIET = 0,
    AOTX_POLICY_REASON_FOREGROUND = 1,
    AOTX_POLICY_REASON_PAUSED = 2,
    AOTX_POLICY_REASON_CAPACITY = 3,
    AOTX_POLICY_REASON_ACTIVE = 4,
    AOTX_POLICY_REASON_DISABLED = 5
};

/* What runs the device core. */
enum aotx_device_kind { AOTX_DEVICE_KIND_CPU = 1, AOTX_DEVICE_KIND_CUDA = 2 };

/* Head of a request packet. The payload follows it. */
typedef struct aotx_request_head {
    uint64_t magic;     /* AOTX_MAGIC */
    uint32_t operation; /* enum aotx_operation */
    uint32_t zero_12;
    uint8_t principal[16];
    uint64_t grant_revision;
    uint64_t runtime_epoch; /* request operations and policy writes; else 0 */
    uint8_t id[16];         /* request, media or watch ID */
    uint64_t cursor;        /* READ: output byte; MEDIA_LIST: table position */
    uint32_t model_role;    /* SUBMIT: enum aotx_model_role */
    uint32_t count;         /* SUBMIT: output token limit; GRANTS, WATCH: rows */
    float temperature;      /* SUBMIT: 0..2 */
    float top_p;            /* SUBMIT: 0 < p <= 1 */
    uint32_t payload_bytes; /* 0..AOTX_PAYLOAD_BYTES_MAX */
    uint8_t zero_92[36];
} aotx_request_head;
AOTX_SIZE(aotx_request_head, 128);
AOTX_FIELD(aotx_request_head, magic, 0, 8);
AOTX_FIELD(aotx_request_head, operation, 8, 4);
AOTX_FIELD(aotx_request_head, zero_12, 12, 4);
AOTX_FIELD(aotx_request_head, principal, 16, 16);
AOTX_FIELD(aotx_request_head, grant_revision, 32, 8);
AOTX_FIELD(aotx_request_head, runtime_epoch, 40, 8);
AOTX_FIELD(aotx_request_head, id, 48, 16);
AOTX_FIELD(aotx_request_head, cursor, 64, 8);
AOTX_FIELD(aotx_request_head, model_role, 72, 4);
AOTX_FIELD(aotx_request_head, count, 76, 4);
AOTX_FIELD(aotx_request_head, temperature, 80, 4);
AOTX_FIELD(aotx_request_head, top_p, 84, 4);
AOTX_FIELD(aotx_request_head, payload_bytes, 88, 4);
AOTX_FIELD(aotx_request_head, zero_92, 92, 36);

/* Head of a reply packet. Magic, principal, revision and ID are those of the request. */
typedef struct aotx_reply_head {
    uint64_t magic;
    uint32_t status; /* enum aotx_device_status */
    uint32_t phase;  /* enum aotx_phase */
    uint8_t principal[16];
    uint64_t grant_revision;
    uint64_t runtime_epoch; /* the epoch that is running */
    uint8_t id[16];
    uint64_t cursor; /* the requested cursor; MEDIA_LIST: next position, 0 at the end */
    uint32_t model_role;
    uint32_t output_bytes; /* total so far; WATCH: rows in the payload */
    uint32_t prompt_tokens;
    uint32_t sampled_tokens;
    uint32_t payload_bytes;
    uint32_t finish;           /* enum aotx_finish */
    uint32_t failure_status;   /* enum aotx_device_status, 0 without a failure */
    uint32_t cancel_requested; /* 0 or 1 */
    uint8_t zero_104[24];
} aotx_reply_head;
AOTX_SIZE(aotx_reply_head, 128);
AOTX_FIELD(aotx_reply_head, magic, 0, 8);
AOTX_FIELD(aotx_reply_head, status, 8, 4);
AOTX_FIELD(aotx_reply_head, phase, 12, 4);
AOTX_FIELD(aotx_reply_head, principal, 16, 16);
AOTX_FIELD(aotx_reply_head, grant_revision, 32, 8);
AOTX_FIELD(aotx_reply_head, runtime_epoch, 40, 8);
AOTX_FIELD(aotx_reply_head, id, 48, 16);
AOTX_FIELD(aotx_reply_head, cursor, 64, 8);
AOTX_FIELD(aotx_reply_head, model_role, 72, 4);
AOTX_FIELD(aotx_reply_head, output_bytes, 76, 4);
AOTX_FIELD(aotx_reply_head, prompt_tokens, 80, 4);
AOTX_FIELD(aotx_reply_head, sampled_tokens, 84, 4);
AOTX_FIELD(aotx_reply_head, payload_bytes, 88, 4);
AOTX_FIELD(aotx_reply_head, finish, 92, 4);
AOTX_FIELD(aotx_reply_head, failure_status, 96, 4);
AOTX_FIELD(aotx_reply_head, cancel_requested, 100, 4);
AOTX_FIELD(aotx_reply_head, zero_104, 104, 24);

#define AOTX_SUBMIT_MESSAGES_MAX 64u
#define AOTX_SUBMIT_PARTS_MAX 32u /* in one message */
#define AOTX_OUTPUT_TEMPERATURE_MAX 2.0f
/* Submission payload: u32 message count, then per message this head, then per part a part head and
 * its bytes. Nothing is aligned or padded between them. */
typedef struct aotx_submit_message {
    uint32_t role;        /* enum aotx_message_role */
    uint32_t parts_count; /* 1..AOTX_SUBMIT_PARTS_MAX */
} aotx_submit_message;
AOTX_SIZE(aotx_submit_message, 8);
AOTX_FIELD(aotx_submit_message, role, 0, 4);
AOTX_FIELD(aotx_submit_message, parts_count, 4, 4);

/* Head of one part; its bytes follow. */
typedef struct aotx_submit_part {
    uint32_t kind;  /* enum aotx_part_kind */
    uint32_t bytes; /* of the content that follows; 32 for a digest */
} aotx_submit_part;
AOTX_SIZE(aotx_submit_part, 8);
AOTX_FIELD(aotx_submit_part, kind, 0, 4);
AOTX_FIELD(aotx_submit_part, bytes, 4, 4);

#define AOTX_GRANT_ROWS_MAX 1022u
/* One row of a grant table. A grant file is a whole GRANTS packet: head, then rows. */
typedef struct aotx_grant_row {
    uint8_t principal[16];        /* not zero, unique in the table */
    uint64_t revision;            /* the head's grant_revision */
    uint32_t actions;             /* enum aotx_action bits, not zero */
    uint32_t model_mask;          /* 1 << enum aotx_model_role */
    uint32_t pages_max;           /* KV pages a request may hold; 0 selects the device's ceiling */
    uint32_t output_tokens_max;   /* > 0 */
    uint32_t active_requests_max; /* > 0 */
    uint32_t media_objects_max;
    uint64_t media_bytes_max;
    uint64_t zero_56;
} aotx_grant_row;
AOTX_SIZE(aotx_grant_row, 64);
AOTX_FIELD(aotx_grant_row, principal, 0, 16);
AOTX_FIELD(aotx_grant_row, revision, 16, 8);
AOTX_FIELD(aotx_grant_row, actions, 24, 4);
AOTX_FIELD(aotx_grant_row, model_mask, 28, 4);
AOTX_FIELD(aotx_grant_row, pages_max, 32, 4);
AOTX_FIELD(aotx_grant_row, output_tokens_max, 36, 4);
AOTX_FIELD(aotx_grant_row, active_requests_max, 40, 4);
AOTX_FIELD(aotx_grant_row, media_objects_max, 44, 4);
AOTX_FIELD(aotx_grant_row, media_bytes_max, 48, 8);
AOTX_FIELD(aotx_grant_row, zero_56, 56, 8);

#define AOTX_INFORMATION_SCHEMA 1u
/* Payload of an INFORMATION or TELEMETRY reply; model rows follow it. */
typedef struct aotx_information {
    uint32_t schema;                   /* AOTX_INFORMATION_SCHEMA */
    uint32_t execution_slots_plus_one; /* clients subtract one */
    uint32_t prompt_bytes_max;         /* after the message format is applied */
    uint32_t sequence_tokens_max;
    uint32_t request_entries;
    uint32_t request_output_bytes_max;
    uint32_t mailboxes; /* the control mailbox included */
    uint32_t grant_output_tokens_max;
    uint32_t grant_pages_max;
    uint32_t grant_active_requests_max;
    uint32_t grant_actions;
    uint32_t model_rows;
    uint32_t media_objects;
    uint32_t image_available; /* 0 or 1 */
    uint32_t audio_available; /* 0 or 1 */
    uint32_t grant_media_objects_max;
    uint64_t grant_media_bytes_max;    /* capped by the device */
    uint64_t service_allocation_bytes; /* TELEMETRY; else 0, as the next two */
    uint64_t tick;
    uint64_t clock_ns;
    uint8_t lineage[16]; /* zero when there is none */
    uint32_t image_pixels_max;
    uint32_t image_dimension_max;
    uint32_t image_patches_max;
    uint32_t image_feature_rows_max;
    uint32_t audio_source_frames_max;
    uint32_t audio_feature_rows_max;
    uint32_t request_seconds_max;
    uint32_t upload_seconds_max;
    uint32_t principal_entries;
    uint32_t request_media_references_max;
    uint32_t shared_available;      /* 0 or 1, for this grant */
    uint32_t automatic_memory_mask; /* role bits; only of visible models */
    uint8_t zero_160[32];
} aotx_information;
AOTX_SIZE(aotx_information, 192);
AOTX_FIELD(aotx_information, schema, 0, 4);
AOTX_FIELD(aotx_information, execution_slots_plus_one, 4, 4);
AOTX_FIELD(aotx_information, prompt_bytes_max, 8, 4);
AOTX_FIELD(aotx_information, sequence_tokens_max, 12, 4);
AOTX_FIELD(aotx_information, request_entries, 16, 4);
AOTX_FIELD(aotx_information, request_output_bytes_max, 20, 4);
AOTX_FIELD(aotx_information, mailboxes, 24, 4);
AOTX_FIELD(aotx_information, grant_output_tokens_max, 28, 4);
AOTX_FIELD(aotx_information, grant_pages_max, 32, 4);
AOTX_FIELD(aotx_information, grant_active_requests_max, 36, 4);
AOTX_FIELD(aotx_information, grant_actions, 40, 4);
AOTX_FIELD(aotx_information, model_rows, 44, 4);
AOTX_FIELD(aotx_information, media_objects, 48, 4);
AOTX_FIELD(aotx_information, image_available, 52, 4);
AOTX_FIELD(aotx_information, audio_available, 56, 4);
AOTX_FIELD(aotx_information, grant_media_objects_max, 60, 4);
AOTX_FIELD(aotx_information, grant_media_bytes_max, 64, 8);
AOTX_FIELD(aotx_information, service_allocation_bytes, 72, 8);
AOTX_FIELD(aotx_information, tick, 80, 8);
AOTX_FIELD(aotx_information, clock_ns, 88, 8);
AOTX_FIELD(aotx_information, lineage, 96, 16);
AOTX_FIELD(aotx_information, image_pixels_max, 112, 4);
AOTX_FIELD(aotx_information, image_dimension_max, 116, 4);
AOTX_FIELD(aotx_information, image_patches_max, 120, 4);
AOTX_FIELD(aotx_information, image_feature_rows_max, 124, 4);
AOTX_FIELD(aotx_information, audio_source_frames_max, 128, 4);
AOTX_FIELD(aotx_information, audio_feature_rows_max, 132, 4);
AOTX_FIELD(aotx_information, request_seconds_max, 136, 4);
AOTX_FIELD(aotx_information, upload_seconds_max, 140, 4);
AOTX_FIELD(aotx_information, principal_entries, 144, 4);
AOTX_FIELD(aotx_information, request_media_references_max, 148, 4);
AOTX_FIELD(aotx_information, shared_available, 152, 4);
AOTX_FIELD(aotx_information, automatic_memory_mask, 156, 4);
AOTX_FIELD(aotx_information, zero_160, 160, 32);

/* One loaded model that the grant permits. */
typedef struct aotx_model_row {
    uint32_t role;       /* enum aotx_model_role */
    uint32_t modalities; /* enum aotx_modality bits */
    uint8_t sha256[32];  /* of the model file */
} aotx_model_row;
AOTX_SIZE(aotx_model_row, 40);
AOTX_FIELD(aotx_model_row, role, 0, 4);
AOTX_FIELD(aotx_model_row, modalities, 4, 4);
AOTX_FIELD(aotx_model_row, sha256, 8, 32);

#define AOTX_MEDIA_SCHEMA 1u
/* Head of a MEDIA payload; the data follows it. */
typedef struct aotx_media_head {
    uint32_t schema;         /* AOTX_MEDIA_SCHEMA */
    uint32_t step;           /* enum aotx_media_step */
    uint8_t transfer_id[16]; /* the packet head's ID */
    uint64_t total_bytes;
    uint64_t offset_bytes;
    uint32_t data_bytes; /* BEGIN: 48; CHUNK: 1..8192; else 0 */
    uint8_t zero_44[20];
} aotx_media_head;
AOTX_SIZE(aotx_media_head, 64);
AOTX_FIELD(aotx_media_head, schema, 0, 4);
AOTX_FIELD(aotx_media_head, step, 4, 4);
AOTX_FIELD(aotx_media_head, transfer_id, 8, 16);
AOTX_FIELD(aotx_media_head, total_bytes, 24, 8);
AOTX_FIELD(aotx_media_head, offset_bytes, 32, 8);
AOTX_FIELD(aotx_media_head, data_bytes, 40, 4);
AOTX_FIELD(aotx_media_head, zero_44, 44, 20);

/* Data of a BEGIN step. */
typedef struct aotx_media_begin {
    uint32_t format; /* enum aotx_media_format: JPEG or WAV */
    uint8_t zero_4[12];
    uint8_t sha256[32]; /* of the whole object */
} aotx_media_begin;
AOTX_SIZE(aotx_media_begin, 48);
AOTX_FIELD(aotx_media_begin, format, 0, 4);
AOTX_FIELD(aotx_media_begin, zero_4, 4, 12);
AOTX_FIELD(aotx_media_begin, sha256, 16, 32);

/* Payload of a MEDIA or MEDIA_READ reply. */
typedef struct aotx_media_state {
    uint8_t sha256[32];
    uint64_t bytes;
    uint32_t phase;  /* enum aotx_media_phase */
    uint32_t status; /* enum aotx_media_status */
    uint32_t format; /* enum aotx_media_format */
    uint32_t samples;
    uint32_t feature_rows;
    uint32_t zero_60;
} aotx_media_state;
AOTX_SIZE(aotx_media_state, 64);
AOTX_FIELD(aotx_media_state, sha256, 0, 32);
AOTX_FIELD(aotx_media_state, bytes, 32, 8);
AOTX_FIELD(aotx_media_state, phase, 40, 4);
AOTX_FIELD(aotx_media_state, status, 44, 4);
AOTX_FIELD(aotx_media_state, format, 48, 4);
AOTX_FIELD(aotx_media_state, samples, 52, 4);
AOTX_FIELD(aotx_media_state, feature_rows, 56, 4);
AOTX_FIELD(aotx_media_state, zero_60, 60, 4);

/* One row of a MEDIA_LIST reply. */
typedef struct aotx_media_row {
    uint8_t id[16];
    aotx_media_state state;
} aotx_media_row;
AOTX_SIZE(aotx_media_row, 80);
AOTX_FIELD(aotx_media_row, id, 0, 16);
AOTX_FIELD(aotx_media_row, state, 16, 64);

#define AOTX_POLICY_SCHEMA 1u
/* Payload of a POLICY write; a read has none. */
typedef struct aotx_policy_control {
    uint32_t schema;           /* AOTX_POLICY_SCHEMA */
    uint32_t action;           /* enum aotx_policy_action */
    uint64_t control_revision; /* the revision that the caller saw */
} aotx_policy_control;
AOTX_SIZE(aotx_policy_control, 16);
AOTX_FIELD(aotx_policy_control, schema, 0, 4);
AOTX_FIELD(aotx_policy_control, action, 4, 4);
AOTX_FIELD(aotx_policy_control, control_revision, 8, 8);

/* Payload of a POLICY reply. */
typedef struct aotx_policy_state_payload {
    uint32_t schema;
    uint32_t abi;
    uint32_t mode;
    uint32_t state; /* enum aotx_policy_state */
    uint32_t review_enabled;
    uint32_t pending;
    uint32_t active_rows;
    uint32_t result_status;
    uint64_t control_revision;
    uint64_t source_frontier;
    uint64_t completed;
    uint64_t interrupted;
    uint64_t refused;
    uint64_t decision;
    uint64_t saved_generation;
    uint64_t maximum_ns;
    uint64_t last_ns;
    uint64_t written_bytes;
    uint64_t result_bytes;
    uint32_t reason; /* enum aotx_policy_reason */
    uint8_t zero_124[36];
} aotx_policy_state_payload;
AOTX_SIZE(aotx_policy_state_payload, 160);
AOTX_FIELD(aotx_policy_state_payload, schema, 0, 4);
AOTX_FIELD(aotx_policy_state_payload, abi, 4, 4);
AOTX_FIELD(aotx_policy_state_payload, mode, 8, 4);
AOTX_FIELD(aotx_policy_state_payload, state, 12, 4);
AOTX_FIELD(aotx_policy_state_payload, review_enabled, 16, 4);
AOTX_FIELD(aotx_policy_state_payload, pending, 20, 4);
AOTX_FIELD(aotx_policy_state_payload, active_rows, 24, 4);
AOTX_FIELD(aotx_policy_state_payload, result_status, 28, 4);
AOTX_FIELD(aotx_policy_state_payload, control_revision, 32, 8);
AOTX_FIELD(aotx_policy_state_payload, source_frontier, 40, 8);
AOTX_FIELD(aotx_policy_state_payload, completed, 48, 8);
AOTX_FIELD(aotx_policy_state_payload, interrupted, 56, 8);
AOTX_FIELD(aotx_policy_state_payload, refused, 64, 8);
AOTX_FIELD(aotx_policy_state_payload, decision, 72, 8);
AOTX_FIELD(aotx_policy_state_payload, saved_generation, 80, 8);
AOTX_FIELD(aotx_policy_state_payload, maximum_ns, 88, 8);
AOTX_FIELD(aotx_policy_state_payload, last_ns, 96, 8);
AOTX_FIELD(aotx_policy_state_payload, written_bytes, 104, 8);
AOTX_FIELD(aotx_policy_state_payload, result_bytes, 112, 8);
AOTX_FIELD(aotx_policy_state_payload, reason, 120, 4);
AOTX_FIELD(aotx_policy_state_payload, zero_124, 124, 36);

/* WATCH (operation 13): output without polling.
 *
 * Request head: principal and grant_revision zero (each row carries its own), runtime_epoch the
 * running one (else 410), id a watch ID that the peer chose at random, cursor 0, words 72
 * and 80..87 zero, count = rows (0..1022), payload 64 * rows. The device parks the packet and
 * answers, status 200, as soon as any row has news: output beyond its cursor, a phase or
 * cancellation flag other than the known ones, or a refusal. A row that is already behind is
 * answered at once. A newer watch with the same ID replaces the older one, which is answered at
 * once (possibly with no row), so two connections suffice to change the set at any time. With no
 * row at all it only releases.
 *
 * Reply head: cursor 0, output_bytes = rows in the payload. Payload: rows with news, each an
 * aotx_watch_news head, its output bytes, and zero bytes up to a multiple of 8. Rows that find no
 * room come with the next watch. */
typedef struct aotx_watch_row {
    uint8_t principal[16];
    uint64_t grant_revision;
    uint8_t id[16];       /* request ID */
    uint64_t cursor;      /* first output byte not yet held */
    uint32_t known_phase; /* enum aotx_phase as last seen; 0 asks for the present state */
    uint32_t known_cancel_requested; /* as last seen */
    uint64_t zero_56;
} aotx_watch_row;
AOTX_SIZE(aotx_watch_row, 64);
AOTX_FIELD(aotx_watch_row, principal, 0, 16);
AOTX_FIELD(aotx_watch_row, grant_revision, 16, 8);
AOTX_FIELD(aotx_watch_row, id, 24, 16);
AOTX_FIELD(aotx_watch_row, cursor, 40, 8);
AOTX_FIELD(aotx_watch_row, known_phase, 48, 4);
AOTX_FIELD(aotx_watch_row, known_cancel_requested, 52, 4);
AOTX_FIELD(aotx_watch_row, zero_56, 56, 8);

/* Head of one row of news in a WATCH reply; its output bytes follow. */
typedef struct aotx_watch_news {
    uint8_t id[16];  /* request ID */
    uint64_t cursor; /* the row's cursor: where the bytes below start */
    uint32_t row;    /* index of the row in the watch packet */
    uint32_t status; /* 200, or why the row is refused: 403, 404, 409 */
    uint32_t phase;  /* this and the fields below as in aotx_reply_head; zero when refused */
    uint32_t model_role;
    uint32_t output_bytes; /* total so far */
    uint32_t prompt_tokens;
    uint32_t sampled_tokens;
    uint32_t finish;
    uint32_t failure_status;
    uint32_t cancel_requested;
    uint32_t data_bytes; /* output bytes that follow this head */
    uint32_t zero_68;
} aotx_watch_news;
AOTX_SIZE(aotx_watch_news, 72);
AOTX_FIELD(aotx_watch_news, id, 0, 16);
AOTX_FIELD(aotx_watch_news, cursor, 16, 8);
AOTX_FIELD(aotx_watch_news, row, 24, 4);
AOTX_FIELD(aotx_watch_news, status, 28, 4);
AOTX_FIELD(aotx_watch_news, phase, 32, 4);
AOTX_FIELD(aotx_watch_news, model_role, 36, 4);
AOTX_FIELD(aotx_watch_news, output_bytes, 40, 4);
AOTX_FIELD(aotx_watch_news, prompt_tokens, 44, 4);
AOTX_FIELD(aotx_watch_news, sampled_tokens, 48, 4);
AOTX_FIELD(aotx_watch_news, finish, 52, 4);
AOTX_FIELD(aotx_watch_news, failure_status, 56, 4);
AOTX_FIELD(aotx_watch_news, cancel_requested, 60, 4);
AOTX_FIELD(aotx_watch_news, data_bytes, 64, 4);
AOTX_FIELD(aotx_watch_news, zero_68, 68, 4);

#define AOTX_DEVICE_SCHEMA 1u
/* DEVICE (operation 14): which hardware runs the device core, and why.
 *
 * An INFORMATION payload has no room that its receivers do not require to be zero, so this is an
 * operation of its own. It needs no grant: principal and grant_revision are zero, as is every other
 * word of the request head but magic and operation, and there is no payload. In any other form,
 * and by a device that does not know it, it is answered like an unknown operation: 403 without a
 * grant, 400 with one. Reply: status 200, one aotx_device_row. */
typedef struct aotx_device_row {
    uint32_t schema;   /* AOTX_DEVICE_SCHEMA */
    uint32_t kind;     /* enum aotx_device_kind */
    uint32_t restarts; /* times that a failed device was brought back since the service began */
    uint32_t zero_12;
    uint8_t name[64];    /* of the hardware; printable ASCII, zero behind it */
    uint8_t reason[176]; /* why the CPU serves although a GPU might have; else zero, form as name */
} aotx_device_row;
AOTX_SIZE(aotx_device_row, 256);
AOTX_FIELD(aotx_device_row, schema, 0, 4);
AOTX_FIELD(aotx_device_row, kind, 4, 4);
AOTX_FIELD(aotx_device_row, restarts, 8, 4);
AOTX_FIELD(aotx_device_row, zero_12, 12, 4);
AOTX_FIELD(aotx_device_row, name, 16, 64);
AOTX_FIELD(aotx_device_row, reason, 80, 176);

#endif
