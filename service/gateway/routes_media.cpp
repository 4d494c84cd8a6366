// Purpose:  private media sources: upload, list, state, removal, import; see routes.h.
// Owns:     nothing.
// Thread:   the gateway's.
// Lifetime: not applicable.
//
// An upload is a sequence of operations over the body that the gateway holds: begin, chunks, end.
// The device decides whether it takes media at all.
#include <algorithm>
#include <cstring>

#include "aotx/handle.h"
#include "routes.h"
#include "service/base/check.h"
#include "service/base/digest.h"

namespace aotx {
namespace {

std::string_view media_phase_name(uint32_t phase)
{
    constexpr std::string_view names[] = {"free",   "receive", "hash",  "wait",
                                          "decode", "encode",  "ready", "refused"};
    return phase < std::size(names) ? names[phase] : std::string_view("unknown");
}

std::string_view media_status_name(uint32_t status)
{
    constexpr std::string_view names[] = {
        "none",         "invalid",          "limit",        "digest_mismatch", "cancelled",
        "codec",        "encoder",          "unavailable",  "leased",          "zero_signal",
        "audio_format", "audio_not_finite", "pool_pressure"};
    return status < std::size(names) ? names[status] : std::string_view("unknown");
}

std::string_view media_format_name(uint32_t format)
{
    constexpr std::string_view names[] = {"none", "jpeg", "rgb8", "wav", "pcm"};
    return format < std::size(names) ? names[format] : std::string_view("unknown");
}

void media_write(Text* text, const uint8_t* id, const aotx_media_state& state)
{
    text->append("{\"id\":\"");
    char* const handle = text->reserve(AOTX_MEDIA_HANDLE_CHARACTERS);
    aotx_media_handle_format(id, handle);
    text->commit(AOTX_MEDIA_HANDLE_CHARACTERS);
    text->append("\",\"sha256\":\"");
    text->append_hex(state.sha256, sizeof state.sha256);
    text->append("\",\"bytes\":");
    decimal_string_write(text, state.bytes);
    text->append(",\"phase\":\"");
    text->append(media_phase_name(state.phase));
    text->append("\",\"status\":\"");
    text->append(media_status_name(state.status));
    text->append("\",\"format\":\"");
    text->append(media_format_name(state.format));
    text->append("\",\"samples\":");
    text->append_decimal(state.samples);
    text->append(",\"rows\":");
    text->append_decimal(state.feature_rows);
    text->append('}');
}

// What the device said no to, in the codes of media.
Refusal media_refusal(uint32_t device_status)
{
    switch (device_status) {
        case AOTX_STATUS_BAD_REQUEST:
            return refusal(Code::MediaRefused);
        case AOTX_STATUS_CONFLICT:
            return refusal(Code::MediaState);
        case AOTX_STATUS_TOO_LARGE:
            return refusal(Code::MediaLimit);
        default:
            return refusal_of_device(device_status);
    }
}

// Build the next packet of an upload. Returns the step.
uint32_t upload_packet_build(const Connection& connection, Submission* submission)
{
    aotx_media_head head = {};
    head.schema = AOTX_MEDIA_SCHEMA;
    std::memcpy(head.transfer_id, connection.request.id, sizeof head.transfer_id);
    head.total_bytes = submission->upload_bytes;
    head.offset_bytes = submission->upload_sent;
    const uint64_t left = submission->upload_bytes - submission->upload_sent;
    if (submission->media_known == 0) {
        head.step = AOTX_MEDIA_STEP_BEGIN;
        head.data_bytes = sizeof(aotx_media_begin);
    } else if (left != 0) {
        head.step = AOTX_MEDIA_STEP_CHUNK;
        head.data_bytes =
            static_cast<uint32_t>(std::min<uint64_t>(left, AOTX_MEDIA_CHUNK_BYTES_MAX));
    } else {
        head.step = AOTX_MEDIA_STEP_END;
    }
    submission->payload.resize(sizeof head + head.data_bytes);
    std::memcpy(submission->payload.data(), &head, sizeof head);
    uint8_t* const data = submission->payload.data() + sizeof head;
    if (head.step == AOTX_MEDIA_STEP_BEGIN) {
        aotx_media_begin begin = {};
        begin.format =
            connection.request.media_wav ? AOTX_MEDIA_FORMAT_WAV : AOTX_MEDIA_FORMAT_JPEG;
        std::memcpy(begin.sha256, submission->upload_sha256, sizeof begin.sha256);
        std::memcpy(data, &begin, sizeof begin);
    } else if (head.step == AOTX_MEDIA_STEP_CHUNK) {
        std::memcpy(data, submission->upload + submission->upload_sent, head.data_bytes);
    }
    return head.step;
}

}  // namespace

void Routes::media_upload(Server& server, Connection& connection, std::string_view body) noexcept
{
    connection.submission = std::make_unique<Submission>();
    Submission& submission = *connection.submission;
    submission.upload = reinterpret_cast<const uint8_t*>(body.data());
    submission.upload_bytes = body.size();
    sha256(body.data(), body.size(), submission.upload_sha256);
    random_bytes(connection.request.id, sizeof connection.request.id);
    media_upload_next(server, connection);
}

void Routes::media_upload_next(Server& server, Connection& connection) noexcept
{
    Submission& submission = *connection.submission;
    const uint32_t step = upload_packet_build(connection, &submission);
    AOTX_CHECK(step <= AOTX_MEDIA_STEP_END);
    aotx_request_head& head = operation_head(server, connection, AOTX_OPERATION_MEDIA);
    std::memcpy(head.id, connection.request.id, sizeof head.id);
    head.payload_bytes = static_cast<uint32_t>(submission.payload.size());
    connection.operation.payload = submission.payload.data();
    operation_start<media_upload_done>(server, connection);
}

void Routes::media_upload_done(Server& server, Connection& connection, const Reply& reply) noexcept
{
    if (!reply_good(server, connection, reply) || stale_retry(server, connection, reply)) {
        return;
    }
    aotx_media_state state;
    if (reply.head.status != AOTX_STATUS_OK) {
        server.refuse(connection, media_refusal(reply.head.status));
        return;
    }
    if (reply.payload_bytes != sizeof state) {
        server.refuse(connection, refusal(Code::InvalidDeviceResponse));
        return;
    }
    std::memcpy(&state, reply.payload, sizeof state);
    Submission& submission = *connection.submission;
    aotx_media_head sent;
    std::memcpy(&sent, submission.payload.data(), sizeof sent);
    if (sent.step == AOTX_MEDIA_STEP_END) {
        media_write(&server.answer_begin(), connection.request.id, state);
        server.answer_end(connection, 201);
        return;
    }
    submission.media_known = 1;  // begun
    submission.upload_sent += sent.step == AOTX_MEDIA_STEP_CHUNK ? sent.data_bytes : 0;
    media_upload_next(server, connection);
}

void Routes::media_list(Server& server, Connection& connection) noexcept
{
    aotx_request_head& head = operation_head(server, connection, AOTX_OPERATION_MEDIA_LIST);
    head.cursor = connection.request.cursor;
    operation_start<media_list_done>(server, connection);
}

void Routes::media_list_done(Server& server, Connection& connection, const Reply& reply) noexcept
{
    if (!reply_ok(server, connection, reply)) {
        return;
    }
    if (reply.payload_bytes % sizeof(aotx_media_row) != 0) {
        server.refuse(connection, refusal(Code::InvalidDeviceResponse));
        return;
    }
    Text& text = server.answer_begin();
    text.append("{\"schema\":\"aotx.media-list.v1\",\"runtime_epoch\":");
    decimal_string_write(&text, reply.head.runtime_epoch);
    text.append(",\"data\":[");
    for (size_t at = 0; at < reply.payload_bytes; at += sizeof(aotx_media_row)) {
        aotx_media_row row;
        std::memcpy(&row, reply.payload + at, sizeof row);
        text.append(at == 0 ? std::string_view() : std::string_view(","));
        media_write(&text, row.id, row.state);
    }
    text.append("],\"next_cursor\":");
    if (reply.head.cursor == 0) {
        text.append("null");
    } else {
        decimal_string_write(&text, reply.head.cursor);
    }
    text.append(",\"consistency\":\"current\"}");
    server.answer_end(connection, AOTX_STATUS_OK);
}

void Routes::media_read(Server& server, Connection& connection) noexcept
{
    aotx_request_head& head = operation_head(server, connection, AOTX_OPERATION_MEDIA_READ);
    std::memcpy(head.id, connection.request.id, sizeof head.id);
    operation_start<media_read_done>(server, connection);
}

void Routes::media_read_done(Server& server, Connection& connection, const Reply& reply) noexcept
{
    if (!reply_ok(server, connection, reply)) {
        return;
    }
    aotx_media_state state;
    if (reply.payload_bytes != sizeof state) {
        server.refuse(connection, refusal(Code::InvalidDeviceResponse));
        return;
    }
    std::memcpy(&state, reply.payload, sizeof state);
    media_write(&server.answer_begin(), connection.request.id, state);
    server.answer_end(connection, AOTX_STATUS_OK);
}

void Routes::media_remove(Server& server, Connection& connection) noexcept
{
    aotx_media_head remove = {};
    remove.schema = AOTX_MEDIA_SCHEMA;
    remove.step = AOTX_MEDIA_STEP_REMOVE;
    std::memcpy(remove.transfer_id, connection.request.id, sizeof remove.transfer_id);
    connection.submission = std::make_unique<Submission>();
    connection.submission->payload.resize(sizeof remove);
    std::memcpy(connection.submission->payload.data(), &remove, sizeof remove);
    aotx_request_head& head = operation_head(server, connection, AOTX_OPERATION_MEDIA);
    std::memcpy(head.id, connection.request.id, sizeof head.id);
    head.payload_bytes = sizeof remove;
    connection.operation.payload = connection.submission->payload.data();
    operation_start<media_remove_done>(server, connection);
}

void Routes::media_remove_done(Server& server, Connection& connection, const Reply& reply) noexcept
{
    if (!reply_good(server, connection, reply) || stale_retry(server, connection, reply)) {
        return;
    }
    if (reply.head.status != AOTX_STATUS_OK) {
        server.refuse(connection, media_refusal(reply.head.status));
        return;
    }
    server.answer_empty(connection, 204);
}

void Routes::media_import(Server& server, Connection& connection, std::string_view body) noexcept
{
    constexpr std::string_view names[] = {"url"};
    constexpr std::string_view scheme = "https://";
    constexpr size_t url_bytes_max = 2048;
    JsonReader reader;
    simdjson::dom::object root;
    JsonFields fields;
    std::string_view url;
    bool good = server.document_.open(body, &reader, &root) &&
                json_fields_read(root, names, std::size(names), &reader, &fields);
    if (good && (!fields.has(0) || fields.values[0].get_string().get(url) != simdjson::SUCCESS ||
                 url.size() > url_bytes_max)) {
        good = reader.fail("Must be a URL of at most 2048 bytes.", "url");
    }
    if (good && url.substr(0, scheme.size()) != scheme) {
        good = reader.fail(refusal(Code::UrlForbidden));
    }
    if (!good) {
        server.refuse(connection, reader.refusal);
    }
    server.document_.close();
    if (good) {
        operation_head(server, connection, AOTX_OPERATION_INFORMATION);
        operation_start<media_import_done>(server, connection);
    }
}

// Say who may not, and that this service imports nothing.
void Routes::media_import_done(Server& server, Connection& connection, const Reply& reply) noexcept
{
    if (!reply_ok(server, connection, reply)) {
        return;
    }
    aotx_information information;
    if (reply.payload_bytes < sizeof information) {
        server.refuse(connection, refusal(Code::InvalidDeviceResponse));
        return;
    }
    std::memcpy(&information, reply.payload, sizeof information);
    constexpr uint32_t needed = AOTX_ACTION_UPLOAD | AOTX_ACTION_FETCH;
    const bool permitted = (information.grant_actions & needed) == needed;
    server.refuse(connection,
                  refusal_of_device(permitted ? AOTX_STATUS_UNAVAILABLE : AOTX_STATUS_FORBIDDEN));
}

}  // namespace aotx
