// Purpose:  the tables of packet_fields.h, with offsets and sizes from the compiler.
// Owns:     static tables.
// Thread:   any.
// Lifetime: static.
#include "cli/packet_fields.h"

#include <cstddef>
#include <cstring>

#include "aotx/handle.h"
#include "aotx/names.h"
#include "aotx/packet.h"
#include "service/base/check.h"

namespace aotx::cli {
namespace {

#define AOTX_ROW(type, field, kind, names)                                         \
    {                                                                              \
#field, offsetof(type, field), sizeof(type::field), FieldKind::kind, names \
    }

constexpr PacketField k_aotx_request_head[] = {
    AOTX_ROW(aotx_request_head, magic, Text, nullptr),
    AOTX_ROW(aotx_request_head, operation, Name, aotx_operation_name),
    AOTX_ROW(aotx_request_head, zero_12, Zero, nullptr),
    AOTX_ROW(aotx_request_head, principal, Hex, nullptr),
    AOTX_ROW(aotx_request_head, grant_revision, Decimal, nullptr),
    AOTX_ROW(aotx_request_head, runtime_epoch, Decimal, nullptr),
    AOTX_ROW(aotx_request_head, id, Hex, nullptr),
    AOTX_ROW(aotx_request_head, cursor, Decimal, nullptr),
    AOTX_ROW(aotx_request_head, model_role, Name, aotx_model_role_name),
    AOTX_ROW(aotx_request_head, count, Number, nullptr),
    AOTX_ROW(aotx_request_head, temperature, Real, nullptr),
    AOTX_ROW(aotx_request_head, top_p, Real, nullptr),
    AOTX_ROW(aotx_request_head, payload_bytes, Number, nullptr),
    AOTX_ROW(aotx_request_head, zero_92, Zero, nullptr),
};

constexpr PacketField k_aotx_reply_head[] = {
    AOTX_ROW(aotx_reply_head, magic, Text, nullptr),
    AOTX_ROW(aotx_reply_head, status, Name, aotx_device_status_name),
    AOTX_ROW(aotx_reply_head, phase, Name, aotx_phase_name),
    AOTX_ROW(aotx_reply_head, principal, Hex, nullptr),
    AOTX_ROW(aotx_reply_head, grant_revision, Decimal, nullptr),
    AOTX_ROW(aotx_reply_head, runtime_epoch, Decimal, nullptr),
    AOTX_ROW(aotx_reply_head, id, Hex, nullptr),
    AOTX_ROW(aotx_reply_head, cursor, Decimal, nullptr),
    AOTX_ROW(aotx_reply_head, model_role, Name, aotx_model_role_name),
    AOTX_ROW(aotx_reply_head, output_bytes, Number, nullptr),
    AOTX_ROW(aotx_reply_head, prompt_tokens, Number, nullptr),
    AOTX_ROW(aotx_reply_head, sampled_tokens, Number, nullptr),
    AOTX_ROW(aotx_reply_head, payload_bytes, Number, nullptr),
    AOTX_ROW(aotx_reply_head, finish, Name, aotx_finish_name),
    AOTX_ROW(aotx_reply_head, failure_status, Name, aotx_device_status_name),
    AOTX_ROW(aotx_reply_head, cancel_requested, Number, nullptr),
    AOTX_ROW(aotx_reply_head, zero_104, Zero, nullptr),
};

constexpr PacketField k_aotx_submit_message[] = {
    AOTX_ROW(aotx_submit_message, role, Name, aotx_message_role_name),
    AOTX_ROW(aotx_submit_message, parts_count, Number, nullptr),
};

constexpr PacketField k_aotx_submit_part[] = {
    AOTX_ROW(aotx_submit_part, kind, Name, aotx_part_kind_name),
    AOTX_ROW(aotx_submit_part, bytes, Number, nullptr),
};

constexpr PacketField k_aotx_grant_row[] = {
    AOTX_ROW(aotx_grant_row, principal, Hex, nullptr),
    AOTX_ROW(aotx_grant_row, revision, Decimal, nullptr),
    AOTX_ROW(aotx_grant_row, actions, Mask, aotx_action_name),
    AOTX_ROW(aotx_grant_row, model_mask, Roles, nullptr),
    AOTX_ROW(aotx_grant_row, pages_max, Number, nullptr),
    AOTX_ROW(aotx_grant_row, output_tokens_max, Number, nullptr),
    AOTX_ROW(aotx_grant_row, active_requests_max, Number, nullptr),
    AOTX_ROW(aotx_grant_row, media_objects_max, Number, nullptr),
    AOTX_ROW(aotx_grant_row, media_bytes_max, Decimal, nullptr),
    AOTX_ROW(aotx_grant_row, zero_56, Zero, nullptr),
};

constexpr PacketField k_aotx_information[] = {
    AOTX_ROW(aotx_information, schema, Number, nullptr),
    AOTX_ROW(aotx_information, execution_slots_plus_one, Number, nullptr),
    AOTX_ROW(aotx_information, prompt_bytes_max, Number, nullptr),
    AOTX_ROW(aotx_information, sequence_tokens_max, Number, nullptr),
    AOTX_ROW(aotx_information, request_entries, Number, nullptr),
    AOTX_ROW(aotx_information, request_output_bytes_max, Number, nullptr),
    AOTX_ROW(aotx_information, mailboxes, Number, nullptr),
    AOTX_ROW(aotx_information, grant_output_tokens_max, Number, nullptr),
    AOTX_ROW(aotx_information, grant_pages_max, Number, nullptr),
    AOTX_ROW(aotx_information, grant_active_requests_max, Number, nullptr),
    AOTX_ROW(aotx_information, grant_actions, Mask, aotx_action_name),
    AOTX_ROW(aotx_information, model_rows, Number, nullptr),
    AOTX_ROW(aotx_information, media_objects, Number, nullptr),
    AOTX_ROW(aotx_information, image_available, Number, nullptr),
    AOTX_ROW(aotx_information, audio_available, Number, nullptr),
    AOTX_ROW(aotx_information, grant_media_objects_max, Number, nullptr),
    AOTX_ROW(aotx_information, grant_media_bytes_max, Decimal, nullptr),
    AOTX_ROW(aotx_information, service_allocation_bytes, Decimal, nullptr),
    AOTX_ROW(aotx_information, tick, Decimal, nullptr),
    AOTX_ROW(aotx_information, clock_ns, Decimal, nullptr),
    AOTX_ROW(aotx_information, lineage, Hex, nullptr),
    AOTX_ROW(aotx_information, image_pixels_max, Number, nullptr),
    AOTX_ROW(aotx_information, image_dimension_max, Number, nullptr),
    AOTX_ROW(aotx_information, image_patches_max, Number, nullptr),
    AOTX_ROW(aotx_information, image_feature_rows_max, Number, nullptr),
    AOTX_ROW(aotx_information, audio_source_frames_max, Number, nullptr),
    AOTX_ROW(aotx_information, audio_feature_rows_max, Number, nullptr),
    AOTX_ROW(aotx_information, request_seconds_max, Number, nullptr),
    AOTX_ROW(aotx_information, upload_seconds_max, Number, nullptr),
    AOTX_ROW(aotx_information, principal_entries, Number, nullptr),
    AOTX_ROW(aotx_information, request_media_references_max, Number, nullptr),
    AOTX_ROW(aotx_information, shared_available, Number, nullptr),
    AOTX_ROW(aotx_information, automatic_memory_mask, Roles, nullptr),
    AOTX_ROW(aotx_information, zero_160, Zero, nullptr),
};

constexpr PacketField k_aotx_model_row[] = {
    AOTX_ROW(aotx_model_row, role, Name, aotx_model_role_name),
    AOTX_ROW(aotx_model_row, modalities, Mask, aotx_modality_name),
    AOTX_ROW(aotx_model_row, sha256, Hex, nullptr),
};

constexpr PacketField k_aotx_media_head[] = {
    AOTX_ROW(aotx_media_head, schema, Number, nullptr),
    AOTX_ROW(aotx_media_head, step, Name, aotx_media_step_name),
    AOTX_ROW(aotx_media_head, transfer_id, Hex, nullptr),
    AOTX_ROW(aotx_media_head, total_bytes, Decimal, nullptr),
    AOTX_ROW(aotx_media_head, offset_bytes, Decimal, nullptr),
    AOTX_ROW(aotx_media_head, data_bytes, Number, nullptr),
    AOTX_ROW(aotx_media_head, zero_44, Zero, nullptr),
};

constexpr PacketField k_aotx_media_begin[] = {
    AOTX_ROW(aotx_media_begin, format, Name, aotx_media_format_name),
    AOTX_ROW(aotx_media_begin, zero_4, Zero, nullptr),
    AOTX_ROW(aotx_media_begin, sha256, Hex, nullptr),
};

constexpr PacketField k_aotx_media_state[] = {
    AOTX_ROW(aotx_media_state, sha256, Hex, nullptr),
    AOTX_ROW(aotx_media_state, bytes, Decimal, nullptr),
    AOTX_ROW(aotx_media_state, phase, Name, aotx_media_phase_name),
    AOTX_ROW(aotx_media_state, status, Name, aotx_media_status_name),
    AOTX_ROW(aotx_media_state, format, Name, aotx_media_format_name),
    AOTX_ROW(aotx_media_state, samples, Number, nullptr),
    AOTX_ROW(aotx_media_state, feature_rows, Number, nullptr),
    AOTX_ROW(aotx_media_state, zero_60, Zero, nullptr),
};

constexpr PacketField k_aotx_media_row[] = {
    AOTX_ROW(aotx_media_row, id, Hex, nullptr),
    AOTX_ROW(aotx_media_row, state.sha256, Hex, nullptr),
    AOTX_ROW(aotx_media_row, state.bytes, Decimal, nullptr),
    AOTX_ROW(aotx_media_row, state.phase, Name, aotx_media_phase_name),
    AOTX_ROW(aotx_media_row, state.status, Name, aotx_media_status_name),
    AOTX_ROW(aotx_media_row, state.format, Name, aotx_media_format_name),
    AOTX_ROW(aotx_media_row, state.samples, Number, nullptr),
    AOTX_ROW(aotx_media_row, state.feature_rows, Number, nullptr),
    AOTX_ROW(aotx_media_row, state.zero_60, Zero, nullptr),
};

constexpr PacketField k_aotx_policy_control[] = {
    AOTX_ROW(aotx_policy_control, schema, Number, nullptr),
    AOTX_ROW(aotx_policy_control, action, Name, aotx_policy_action_name),
    AOTX_ROW(aotx_policy_control, control_revision, Decimal, nullptr),
};

constexpr PacketField k_aotx_policy_state_payload[] = {
    AOTX_ROW(aotx_policy_state_payload, schema, Number, nullptr),
    AOTX_ROW(aotx_policy_state_payload, abi, Number, nullptr),
    AOTX_ROW(aotx_policy_state_payload, mode, Number, nullptr),
    AOTX_ROW(aotx_policy_state_payload, state, Name, aotx_policy_state_name),
    AOTX_ROW(aotx_policy_state_payload, review_enabled, Number, nullptr),
    AOTX_ROW(aotx_policy_state_payload, pending, Number, nullptr),
    AOTX_ROW(aotx_policy_state_payload, active_rows, Number, nullptr),
    AOTX_ROW(aotx_policy_state_payload, result_status, Number, nullptr),
    AOTX_ROW(aotx_policy_state_payload, control_revision, Decimal, nullptr),
    AOTX_ROW(aotx_policy_state_payload, source_frontier, Decimal, nullptr),
    AOTX_ROW(aotx_policy_state_payload, completed, Decimal, nullptr),
    AOTX_ROW(aotx_policy_state_payload, interrupted, Decimal, nullptr),
    AOTX_ROW(aotx_policy_state_payload, refused, Decimal, nullptr),
    AOTX_ROW(aotx_policy_state_payload, decision, Decimal, nullptr),
    AOTX_ROW(aotx_policy_state_payload, saved_generation, Decimal, nullptr),
    AOTX_ROW(aotx_policy_state_payload, maximum_ns, Decimal, nullptr),
    AOTX_ROW(aotx_policy_state_payload, last_ns, Decimal, nullptr),
    AOTX_ROW(aotx_policy_state_payload, written_bytes, Decimal, nullptr),
    AOTX_ROW(aotx_policy_state_payload, result_bytes, Decimal, nullptr),
    AOTX_ROW(aotx_policy_state_payload, reason, Name, aotx_policy_reason_name),
    AOTX_ROW(aotx_policy_state_payload, zero_124, Zero, nullptr),
};

constexpr PacketField k_aotx_watch_row[] = {
    AOTX_ROW(aotx_watch_row, principal, Hex, nullptr),
    AOTX_ROW(aotx_watch_row, grant_revision, Decimal, nullptr),
    AOTX_ROW(aotx_watch_row, id, Hex, nullptr),
    AOTX_ROW(aotx_watch_row, cursor, Decimal, nullptr),
    AOTX_ROW(aotx_watch_row, known_phase, Name, aotx_phase_name),
    AOTX_ROW(aotx_watch_row, known_cancel_requested, Number, nullptr),
    AOTX_ROW(aotx_watch_row, zero_56, Zero, nullptr),
};

constexpr PacketField k_aotx_watch_news[] = {
    AOTX_ROW(aotx_watch_news, id, Hex, nullptr),
    AOTX_ROW(aotx_watch_news, cursor, Decimal, nullptr),
    AOTX_ROW(aotx_watch_news, row, Number, nullptr),
    AOTX_ROW(aotx_watch_news, status, Name, aotx_device_status_name),
    AOTX_ROW(aotx_watch_news, phase, Name, aotx_phase_name),
    AOTX_ROW(aotx_watch_news, model_role, Name, aotx_model_role_name),
    AOTX_ROW(aotx_watch_news, output_bytes, Number, nullptr),
    AOTX_ROW(aotx_watch_news, prompt_tokens, Number, nullptr),
    AOTX_ROW(aotx_watch_news, sampled_tokens, Number, nullptr),
    AOTX_ROW(aotx_watch_news, finish, Name, aotx_finish_name),
    AOTX_ROW(aotx_watch_news, failure_status, Name, aotx_device_status_name),
    AOTX_ROW(aotx_watch_news, cancel_requested, Number, nullptr),
    AOTX_ROW(aotx_watch_news, data_bytes, Number, nullptr),
    AOTX_ROW(aotx_watch_news, zero_68, Zero, nullptr),
};

constexpr PacketField k_aotx_device_row[] = {
    AOTX_ROW(aotx_device_row, schema, Number, nullptr),
    AOTX_ROW(aotx_device_row, kind, Name, aotx_device_kind_name),
    AOTX_ROW(aotx_device_row, restarts, Number, nullptr),
    AOTX_ROW(aotx_device_row, zero_12, Zero, nullptr),
    AOTX_ROW(aotx_device_row, name, Text, nullptr),
    AOTX_ROW(aotx_device_row, reason, Text, nullptr),
};

#undef AOTX_ROW
#define AOTX_LAYOUT(type)             \
    {                                 \
#type, sizeof(type), k_##type \
    }

constexpr PacketLayout kLayouts[] = {
    AOTX_LAYOUT(aotx_request_head),
    AOTX_LAYOUT(aotx_reply_head),
    AOTX_LAYOUT(aotx_submit_message),
    AOTX_LAYOUT(aotx_submit_part),
    AOTX_LAYOUT(aotx_grant_row),
    AOTX_LAYOUT(aotx_information),
    AOTX_LAYOUT(aotx_model_row),
    AOTX_LAYOUT(aotx_media_head),
    AOTX_LAYOUT(aotx_media_begin),
    AOTX_LAYOUT(aotx_media_state),
    AOTX_LAYOUT(aotx_media_row),
    AOTX_LAYOUT(aotx_policy_control),
    AOTX_LAYOUT(aotx_policy_state_payload),
    AOTX_LAYOUT(aotx_watch_row),
    AOTX_LAYOUT(aotx_watch_news),
    AOTX_LAYOUT(aotx_device_row),
};

#undef AOTX_LAYOUT

uint64_t little_endian(const uint8_t* bytes, uint32_t size_bytes)
{
    uint64_t value = 0;
    for (uint32_t i = 0; i < size_bytes; i++) {
        value |= static_cast<uint64_t>(bytes[i]) << (8 * i);
    }
    return value;
}

std::string hex(const uint8_t* bytes, uint32_t size_bytes)
{
    std::string text(2 * size_bytes, '0');
    aotx_hex_encode(bytes, size_bytes, text.data());
    return text;
}

// A value without a name keeps its number; nothing is hidden behind "unknown".
void write_name(JsonWriter* json, uint32_t value, const char* (*name_of)(uint32_t))
{
    const char* const name = name_of(value);
    std::strcmp(name, "unknown") == 0 ? json->number(value) : json->text(name);
}

void write_mask(JsonWriter* json, uint32_t value, const PacketField& field)
{
    json->begin_array();
    for (uint32_t bit = 0; bit < 32; bit++) {
        if ((value >> bit & 1) == 0) {
            continue;
        }
        if (field.kind == FieldKind::Roles) {
            write_name(json, bit, aotx_model_role_name);
        } else {
            write_name(json, 1u << bit, field.name_of);
        }
    }
    json->end_array();
}

// Text that fills its place or has zero bytes behind it.
std::string_view text_of(const uint8_t* bytes, size_t bytes_count)
{
    while (bytes_count > 0 && bytes[bytes_count - 1] == 0) {
        bytes_count--;
    }
    return {reinterpret_cast<const char*>(bytes), bytes_count};
}

void write_value(JsonWriter* json, const PacketField& field, const uint8_t* bytes)
{
    const uint64_t value = field.size_bytes <= 8 ? little_endian(bytes, field.size_bytes) : 0;
    float real = 0;
    switch (field.kind) {
        case FieldKind::Number:
            json->number(value);
            break;
        case FieldKind::Decimal:
            json->decimal(value);
            break;
        case FieldKind::Real:
            std::memcpy(&real, bytes, sizeof real);
            real == real&& real - real == 0 ? json->real(real) : json->text(std::to_string(real));
            break;
        case FieldKind::Hex:
        case FieldKind::Zero:
            json->text(hex(bytes, field.size_bytes));
            break;
        case FieldKind::Text:
            json->text(text_of(bytes, field.size_bytes));
            break;
        case FieldKind::Name:
            write_name(json, static_cast<uint32_t>(value), field.name_of);
            break;
        case FieldKind::Mask:
        case FieldKind::Roles:
            write_mask(json, static_cast<uint32_t>(value), field);
            break;
    }
}

// The part of a name behind the last dot: members of a nested structure stand for themselves.
std::string_view short_name(const char* name)
{
    const char* const dot = std::strrchr(name, '.');
    return dot == nullptr ? name : dot + 1;
}

}  // namespace

std::span<const PacketLayout> packet_layouts()
{
    return kLayouts;
}

const PacketLayout& packet_layout(std::string_view name)
{
    for (const PacketLayout& layout : kLayouts) {
        if (name == layout.name) {
            return layout;
        }
    }
    AOTX_CHECK(name.empty() && "no such layout");
    std::abort();
}

void write_fields(JsonWriter* json, const PacketLayout& layout, const uint8_t* bytes)
{
    for (const PacketField& field : layout.fields) {
        const uint8_t* const value = bytes + field.offset_bytes;
        if (field.kind == FieldKind::Zero && aotx_is_zero(value, field.size_bytes)) {
            continue;
        }
        json->key(short_name(field.name));
        write_value(json, field, value);
    }
}

}  // namespace aotx::cli
