/* Purpose:  the names that people and JSON documents use for the values of packet.h and status.h.
 * Owns:     static strings.
 * Thread:   any.
 * Lifetime: the strings live as long as the program.
 *
 * Every function answers "unknown" for a value that has no name, never null. */
#ifndef AOTX_NAMES_H
#define AOTX_NAMES_H

#include "base.h"
#include "packet.h"
#include "status.h"

/* An operation word. */
AOTX_INLINE const char* aotx_operation_name(uint32_t value) AOTX_NOEXCEPT
{
    switch (value) {
        case AOTX_OPERATION_GRANTS:
            return "grants";
        case AOTX_OPERATION_INFORMATION:
            return "information";
        case AOTX_OPERATION_SUBMIT:
            return "submit";
        case AOTX_OPERATION_READ:
            return "read";
        case AOTX_OPERATION_CANCEL:
            return "cancel";
        case AOTX_OPERATION_MEDIA:
            return "media";
        case AOTX_OPERATION_MEDIA_READ:
            return "media_read";
        case AOTX_OPERATION_TELEMETRY:
            return "telemetry";
        case AOTX_OPERATION_MEDIA_LIST:
            return "media_list";
        case AOTX_OPERATION_SHARED_MUTATE:
            return "shared_mutate";
        case AOTX_OPERATION_SHARED_READ:
            return "shared_read";
        case AOTX_OPERATION_POLICY:
            return "policy";
        case AOTX_OPERATION_WATCH:
            return "watch";
        case AOTX_OPERATION_DEVICE:
            return "device";
        default:
            return "unknown";
    }
}

/* A model role. */
AOTX_INLINE const char* aotx_model_role_name(uint32_t value) AOTX_NOEXCEPT
{
    switch (value) {
        case AOTX_MODEL_ROLE_LANGUAGE:
            return "language";
        case AOTX_MODEL_ROLE_LANGUAGE_Q4:
            return "language-q4";
        case AOTX_MODEL_ROLE_LANGUAGE_AUDIO:
            return "language-audio";
        default:
            return "unknown";
    }
}

/* A request phase, as JSON states it. */
AOTX_INLINE const char* aotx_phase_name(uint32_t value) AOTX_NOEXCEPT
{
    switch (value) {
        case AOTX_PHASE_FREE:
            return "free";
        case AOTX_PHASE_QUEUED:
            return "queued";
        case AOTX_PHASE_PREPARING:
            return "preparing";
        case AOTX_PHASE_RUNNING:
            return "running";
        case AOTX_PHASE_COMPLETED:
            return "completed";
        case AOTX_PHASE_FAILED:
            return "failed";
        case AOTX_PHASE_CANCELLED:
            return "cancelled";
        default:
            return "unknown";
    }
}

/* A finish word. */
AOTX_INLINE const char* aotx_finish_name(uint32_t value) AOTX_NOEXCEPT
{
    switch (value) {
        case AOTX_FINISH_NONE:
            return "none";
        case AOTX_FINISH_STOP:
            return "stop";
        case AOTX_FINISH_LENGTH:
            return "length";
        default:
            return "unknown";
    }
}

/* A message role. */
AOTX_INLINE const char* aotx_message_role_name(uint32_t value) AOTX_NOEXCEPT
{
    switch (value) {
        case AOTX_MESSAGE_ROLE_SYSTEM:
            return "system";
        case AOTX_MESSAGE_ROLE_USER:
            return "user";
        case AOTX_MESSAGE_ROLE_ASSISTANT:
            return "assistant";
        default:
            return "unknown";
    }
}

/* A part kind. */
AOTX_INLINE const char* aotx_part_kind_name(uint32_t value) AOTX_NOEXCEPT
{
    switch (value) {
        case AOTX_PART_KIND_TEXT:
            return "text";
        case AOTX_PART_KIND_IMAGE:
            return "image";
        case AOTX_PART_KIND_AUDIO:
            return "audio";
        default:
            return "unknown";
    }
}

/* A media phase. */
AOTX_INLINE const char* aotx_media_phase_name(uint32_t value) AOTX_NOEXCEPT
{
    switch (value) {
        case AOTX_MEDIA_PHASE_FREE:
            return "free";
        case AOTX_MEDIA_PHASE_RECEIVE:
            return "receive";
        case AOTX_MEDIA_PHASE_HASH:
            return "hash";
        case AOTX_MEDIA_PHASE_WAIT:
            return "wait";
        case AOTX_MEDIA_PHASE_DECODE:
            return "decode";
        case AOTX_MEDIA_PHASE_ENCODE:
            return "encode";
        case AOTX_MEDIA_PHASE_READY:
            return "ready";
        case AOTX_MEDIA_PHASE_REFUSED:
            return "refused";
        default:
            return "unknown";
    }
}

/* A media status. */
AOTX_INLINE const char* aotx_media_status_name(uint32_t value) AOTX_NOEXCEPT
{
    switch (value) {
        case AOTX_MEDIA_STATUS_NONE:
            return "none";
        case AOTX_MEDIA_STATUS_INVALID:
            return "invalid";
        case AOTX_MEDIA_STATUS_LIMIT:
            return "limit";
        case AOTX_MEDIA_STATUS_DIGEST_MISMATCH:
            return "digest_mismatch";
        case AOTX_MEDIA_STATUS_CANCELLED:
            return "cancelled";
        case AOTX_MEDIA_STATUS_CODEC:
            return "codec";
        case AOTX_MEDIA_STATUS_ENCODER:
            return "encoder";
        case AOTX_MEDIA_STATUS_UNAVAILABLE:
            return "unavailable";
        case AOTX_MEDIA_STATUS_LEASED:
            return "leased";
        case AOTX_MEDIA_STATUS_ZERO_SIGNAL:
            return "zero_signal";
        case AOTX_MEDIA_STATUS_AUDIO_FORMAT:
            return "audio_format";
        case AOTX_MEDIA_STATUS_AUDIO_NOT_FINITE:
            return "audio_not_finite";
        case AOTX_MEDIA_STATUS_POOL_PRESSURE:
            return "pool_pressure";
        default:
            return "unknown";
    }
}

/* A media format. */
AOTX_INLINE const char* aotx_media_format_name(uint32_t value) AOTX_NOEXCEPT
{
    switch (value) {
        case AOTX_MEDIA_FORMAT_JPEG:
            return "jpeg";
        case AOTX_MEDIA_FORMAT_RGB8:
            return "rgb8";
        case AOTX_MEDIA_FORMAT_WAV:
            return "wav";
        case AOTX_MEDIA_FORMAT_PCM:
            return "pcm";
        default:
            return "unknown";
    }
}

/* A step of an upload. */
AOTX_INLINE const char* aotx_media_step_name(uint32_t value) AOTX_NOEXCEPT
{
    switch (value) {
        case AOTX_MEDIA_STEP_BEGIN:
            return "begin";
        case AOTX_MEDIA_STEP_CHUNK:
            return "chunk";
        case AOTX_MEDIA_STEP_END:
            return "end";
        case AOTX_MEDIA_STEP_REMOVE:
            return "remove";
        default:
            return "unknown";
    }
}

/* A policy action. */
AOTX_INLINE const char* aotx_policy_action_name(uint32_t value) AOTX_NOEXCEPT
{
    switch (value) {
        case AOTX_POLICY_ACTION_PAUSE:
            return "pause";
        case AOTX_POLICY_ACTION_RESUME:
            return "resume";
        case AOTX_POLICY_ACTION_STOP:
            return "stop";
        case AOTX_POLICY_ACTION_REVIEW_ON:
            return "review-on";
        case AOTX_POLICY_ACTION_REVIEW_OFF:
            return "review-off";
        default:
            return "unknown";
    }
}

/* A policy state. */
AOTX_INLINE const char* aotx_policy_state_name(uint32_t value) AOTX_NOEXCEPT
{
    switch (value) {
        case AOTX_POLICY_STATE_OFF:
            return "off";
        case AOTX_POLICY_STATE_QUIET:
            return "quiet";
        case AOTX_POLICY_STATE_ACTIVE:
            return "active";
        case AOTX_POLICY_STATE_PAUSED:
            return "paused";
        case AOTX_POLICY_STATE_STOPPED:
            return "stopped";
        case AOTX_POLICY_STATE_ERROR:
            return "error";
        case AOTX_POLICY_STATE_RECORDING:
            return "recording";
        default:
            return "unknown";
    }
}

/* A policy reason. */
AOTX_INLINE const char* aotx_policy_reason_name(uint32_t value) AOTX_NOEXCEPT
{
    switch (value) {
        case AOTX_POLICY_REASON_QUIET:
            return "quiet";
        case AOTX_POLICY_REASON_FOREGROUND:
            return "foreground";
        case AOTX_POLICY_REASON_PAUSED:
            return "paused";
        case AOTX_POLICY_REASON_CAPACITY:
            return "capacity";
        case AOTX_POLICY_REASON_ACTIVE:
            return "active";
        case AOTX_POLICY_REASON_DISABLED:
            return "disabled";
        default:
            return "unknown";
    }
}

/* A device status. */
AOTX_INLINE const char* aotx_device_status_name(uint32_t value) AOTX_NOEXCEPT
{
    switch (value) {
        case AOTX_STATUS_NONE:
            return "none";
        case AOTX_STATUS_OK:
            return "ok";
        case AOTX_STATUS_ACCEPTED:
            return "accepted";
        case AOTX_STATUS_BAD_REQUEST:
            return "bad_request";
        case AOTX_STATUS_FORBIDDEN:
            return "forbidden";
        case AOTX_STATUS_NOT_FOUND:
            return "not_found";
        case AOTX_STATUS_CONFLICT:
            return "conflict";
        case AOTX_STATUS_GONE:
            return "gone";
        case AOTX_STATUS_TOO_LARGE:
            return "too_large";
        case AOTX_STATUS_TOO_MANY:
            return "too_many";
        case AOTX_STATUS_UNAVAILABLE:
            return "unavailable";
        case AOTX_STATUS_TIMEOUT:
            return "timeout";
        default:
            return "unknown";
    }
}

/* One action bit. */
AOTX_INLINE const char* aotx_action_name(uint32_t value) AOTX_NOEXCEPT
{
    switch (value) {
        case AOTX_ACTION_INFER:
            return "infer";
        case AOTX_ACTION_UPLOAD:
            return "upload";
        case AOTX_ACTION_FETCH:
            return "fetch";
        case AOTX_ACTION_TELEMETRY:
            return "telemetry";
        case AOTX_ACTION_SHARED_READ:
            return "shared_read";
        case AOTX_ACTION_SHARED_WRITE:
            return "shared_write";
        case AOTX_ACTION_SHARED_MANAGE:
            return "shared_manage";
        case AOTX_ACTION_POLICY_MANAGE:
            return "policy_manage";
        default:
            return "unknown";
    }
}

/* One modality bit. */
AOTX_INLINE const char* aotx_modality_name(uint32_t value) AOTX_NOEXCEPT
{
    switch (value) {
        case AOTX_MODALITY_TEXT:
            return "text";
        case AOTX_MODALITY_IMAGE:
            return "image";
        case AOTX_MODALITY_AUDIO:
            return "audio";
        default:
            return "unknown";
    }
}

/* A result of an SDK function, in words. */
AOTX_INLINE const char* aotx_result_text(int result) AOTX_NOEXCEPT
{
    switch (result) {
        case AOTX_OK:
            return "ok";
        case AOTX_ERR_NEED_MORE:
            return "more input is needed";
        case AOTX_ERR_LENGTH:
            return "a length does not match what it describes";
        case AOTX_ERR_MAGIC:
            return "it does not start with AOTXAPI1";
        case AOTX_ERR_NONZERO:
            return "a byte that must be zero is not";
        case AOTX_ERR_SYNTAX:
            return "it does not follow its grammar";
        case AOTX_ERR_RANGE:
            return "a value is outside its range";
        case AOTX_ERR_NOT_FOUND:
            return "no such object";
        case AOTX_ERR_STATE:
            return "the call does not fit the state";
        case AOTX_ERR_FULL:
            return "a fixed capacity is reached";
        case AOTX_ERR_RUNTIME:
            return "a model runtime failed";
        case AOTX_ERR_SYSTEM:
            return "the operating system refused";
        case AOTX_ERR_CLOSED:
            return "the peer has gone";
        default:
            return "unknown";
    }
}

/* What runs the device core. */
AOTX_INLINE const char* aotx_device_kind_name(uint32_t value) AOTX_NOEXCEPT
{
    switch (value) {
        case AOTX_DEVICE_KIND_CPU:
            return "cpu";
        case AOTX_DEVICE_KIND_CUDA:
            return "cuda";
        default:
            return "unknown";
    }
}

#endif
