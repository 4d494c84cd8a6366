// Purpose:  what the service tells about itself: health, models, capabilities, telemetry, metrics,
// policy; see routes.h.
// Owns:     nothing.
// Thread:   the gateway's.
// Lifetime: not applicable.
#include <cstring>

#include "aotx/handle.h"
#include "aotx/information.h"
#include "aotx/names.h"
#include "routes.h"
#include "service/base/check.h"

namespace aotx {
namespace {

constexpr std::string_view kMetricsType = "text/plain; version=0.0.4; charset=utf-8";

bool is_zero(const uint8_t* bytes, size_t bytes_count)
{
    uint8_t any = 0;
    for (size_t i = 0; i < bytes_count; i++) {
        any = static_cast<uint8_t>(any | bytes[i]);
    }
    return any == 0;
}

// Information with the model rows behind it. False: the payload has another form.
bool information_read(const Reply& reply, aotx_information* information)
{
    if (reply.payload_bytes < sizeof *information) {
        return false;
    }
    std::memcpy(information, reply.payload, sizeof *information);
    return information->schema == AOTX_INFORMATION_SCHEMA &&
           information->model_rows <= AOTX_PAYLOAD_BYTES_MAX / sizeof(aotx_model_row) &&
           reply.payload_bytes ==
               sizeof *information + information->model_rows * sizeof(aotx_model_row);
}

aotx_model_row model_row(const Reply& reply, size_t index)
{
    aotx_model_row row;
    std::memcpy(&row, reply.payload + sizeof(aotx_information) + index * sizeof row, sizeof row);
    return row;
}

// Call write(model, row) for every configured model that the device has loaded and the grant
// permits, with a comma between two.
template <typename Write>
void models_write(Text* text, const Config& config, const Reply& reply,
                  const aotx_information& information, Write write)
{
    bool first = true;
    for (const ModelConfig& model : config.models) {
        for (uint32_t i = 0; i < information.model_rows; i++) {
            const aotx_model_row row = model_row(reply, i);
            if (row.role == model_role(model)) {
                text->append(first ? std::string_view() : std::string_view(","));
                first = false;
                write(model, row);
            }
        }
    }
}

bool has_automatic_memory(const aotx_information& information, uint32_t role)
{
    return role < 32 && (information.automatic_memory_mask & (1u << role)) != 0;
}

void number_field(Text* text, std::string_view name, uint64_t value)
{
    text->append(",\"");
    text->append(name);
    text->append("\":");
    text->append_decimal(value);
}

void string_number_field(Text* text, std::string_view name, uint64_t value)
{
    text->append(",\"");
    text->append(name);
    text->append("\":");
    decimal_string_write(text, value);
}

void lineage_write(Text* text, const aotx_information& information)
{
    text->append(",\"lineage\":");
    if (is_zero(information.lineage, sizeof information.lineage)) {
        text->append("null");
        return;
    }
    text->append('"');
    text->append_hex(information.lineage, sizeof information.lineage);
    text->append('"');
}

std::string_view device_text(const uint8_t* text)
{
    return reinterpret_cast<const char*>(text);  // aotx_device_check saw the zero byte
}

void device_write(Text* text, const aotx_device_row& device)
{
    text->append(",\"device\":");
    if (device.schema == 0) {
        text->append("null");
        return;
    }
    text->append("{\"kind\":\"");
    text->append(aotx_device_kind_name(device.kind));
    text->append("\",\"name\":");
    text->append_json_string(device_text(device.name));
    number_field(text, "restarts", device.restarts);
    text->append(",\"reason\":");
    if (device.reason[0] == 0) {
        text->append("null");
    } else {
        text->append_json_string(device_text(device.reason));
    }
    text->append('}');
}

void inputs_write(Text* text, uint32_t modalities)
{
    struct Name {
        uint32_t bit;
        std::string_view name;
    };
    constexpr Name names[] = {{AOTX_MODALITY_TEXT, "text"},
                              {AOTX_MODALITY_IMAGE, "image"},
                              {AOTX_MODALITY_AUDIO, "audio"}};
    bool first = true;
    text->append('[');
    for (const Name& name : names) {
        if ((modalities & name.bit) != 0) {
            text->append(first ? std::string_view("\"") : std::string_view(",\""));
            text->append(name.name);
            text->append('"');
            first = false;
        }
    }
    text->append(']');
}

void listed_model_write(Text* text, const ModelConfig& model, bool automatic_memory)
{
    text->append("{\"id\":");
    text->append_json_string(model.alias);
    text->append(",\"object\":\"model\",\"created\":");
    text->append_decimal(model.published_at);
    text->append(",\"owned_by\":\"aotx\",\"automatic_memory\":");
    text->append_json_bool(automatic_memory);
    text->append('}');
}

void capability_model_write(Text* text, const ModelConfig& model, const aotx_model_row& row,
                            const aotx_information& information)
{
    text->append("{\"id\":");
    text->append_json_string(model.alias);
    text->append(",\"role\":");
    text->append_decimal(row.role);
    text->append(",\"sha256\":\"");
    text->append_hex(row.sha256, sizeof row.sha256);
    text->append("\",\"input\":");
    inputs_write(text, row.modalities);
    text->append(",\"published_at\":");
    text->append_decimal(model.published_at);
    text->append(",\"automatic_memory\":");
    text->append_json_bool(has_automatic_memory(information, row.role));
    text->append(",\"controls\":[]}");
}

void device_limits_write(Text* text, const aotx_information& information)
{
    const uint32_t slots = information.execution_slots_plus_one;
    text->append("\"execution_slots\":");
    text->append_decimal(slots == 0 ? 0 : slots - 1);
    number_field(text, "wrapped_prompt_bytes", information.prompt_bytes_max);
    number_field(text, "sequence_tokens", information.sequence_tokens_max);
    number_field(text, "request_entries", information.request_entries);
    number_field(text, "output_bytes", information.request_output_bytes_max);
    number_field(text, "service_channels", information.mailboxes);
    number_field(text, "output_tokens", information.grant_output_tokens_max);
    number_field(text, "kv_pages_per_request", information.grant_pages_max);
    number_field(text, "active_requests", information.grant_active_requests_max);
    number_field(text, "media_objects", information.media_objects);
    number_field(text, "private_media_objects", information.grant_media_objects_max);
    string_number_field(text, "private_media_bytes", information.grant_media_bytes_max);
    number_field(text, "image_pixels", information.image_pixels_max);
    number_field(text, "image_dimension", information.image_dimension_max);
    number_field(text, "image_patches", information.image_patches_max);
    number_field(text, "image_feature_rows", information.image_feature_rows_max);
    number_field(text, "audio_source_frames", information.audio_source_frames_max);
    number_field(text, "audio_feature_rows", information.audio_feature_rows_max);
    number_field(text, "device_request_seconds", information.request_seconds_max);
    number_field(text, "device_upload_seconds", information.upload_seconds_max);
    number_field(text, "principal_entries", information.principal_entries);
    number_field(text, "media_references", information.request_media_references_max);
}

void gateway_limits_write(Text* text, const GatewayConfig& gateway)
{
    number_field(text, "connections", gateway.connections);
    number_field(text, "body_readers", gateway.body_readers);
    number_field(text, "json_bytes", gateway.json_bytes);
    number_field(text, "upload_bytes", gateway.upload_bytes);
    number_field(text, "body_credit", gateway.body_credit_bytes);
    number_field(text, "work", gateway.work);
    number_field(text, "fetches", gateway.fetches);
    number_field(text, "write_seconds", gateway.write_seconds);
    number_field(text, "body_seconds", gateway.body_seconds);
    number_field(text, "header_seconds", gateway.header_seconds);
    number_field(text, "operation_seconds", gateway.operation_seconds);
    number_field(text, "event_bytes", gateway.event_bytes);
    number_field(text, "wire_connections", gateway.wire_connections);
}

void features_write(Text* text, const aotx_information& information)
{
    const bool media = information.image_available != 0 || information.audio_available != 0;
    const bool telemetry = (information.grant_actions & AOTX_ACTION_TELEMETRY) != 0;
    text->append(
        ",\"features\":{\"control_selection\":false,\"chat_completions\":true,"
        "\"streaming\":true,\"private_media\":");
    text->append_json_bool(media && (information.grant_actions & AOTX_ACTION_UPLOAD) != 0);
    text->append(",\"https_import\":false,\"telemetry\":");
    text->append_json_bool(telemetry);
    text->append(
        ",\"continuing_ccir\":false,\"persistent_requests\":false,\"embeddings\":false,"
        "\"responses\":false,\"tools\":false,\"expression\":false,\"presence\":false}");
    text->append(
        ",\"retention\":{\"requests\":\"bounded_device_results\","
        "\"restart\":\"expire_requests\",\"media\":\"explicit_removal\","
        "\"shared_operations\":null},\"shared_api\":null,\"media_types\":[");
    text->append(information.image_available != 0 ? std::string_view("\"image/jpeg\"")
                                                  : std::string_view());
    text->append(information.image_available != 0 && information.audio_available != 0
                     ? std::string_view(",")
                     : std::string_view());
    text->append(information.audio_available != 0 ? std::string_view("\"audio/wav\"")
                                                  : std::string_view());
    text->append("]}");
}

std::string_view policy_state_name(uint32_t state)
{
    constexpr std::string_view names[] = {"off",     "quiet", "active",   "paused",
                                          "stopped", "error", "recording"};
    return state < std::size(names) ? names[state] : std::string_view("unknown");
}

std::string_view policy_reason_name(uint32_t reason)
{
    constexpr std::string_view names[] = {"quiet",    "foreground", "paused",
                                          "capacity", "active",     "disabled"};
    return reason < std::size(names) ? names[reason] : std::string_view("unknown");
}

bool policy_action(std::string_view name, uint32_t* action)
{
    struct Row {
        std::string_view name;
        uint32_t action;
    };
    constexpr Row rows[] = {{"pause", AOTX_POLICY_ACTION_PAUSE},
                            {"resume", AOTX_POLICY_ACTION_RESUME},
                            {"stop", AOTX_POLICY_ACTION_STOP},
                            {"review-on", AOTX_POLICY_ACTION_REVIEW_ON},
                            {"review-off", AOTX_POLICY_ACTION_REVIEW_OFF}};
    for (const Row& row : rows) {
        if (row.name == name) {
            *action = row.action;
            return true;
        }
    }
    return false;
}

bool decimal_string_get(const JsonFields& fields, size_t index, uint64_t* value)
{
    std::string_view text;
    return fields.has(index) && fields.values[index].get_string().get(text) == simdjson::SUCCESS &&
           aotx_decimal_parse(text.data(), text.size(), value) == AOTX_OK;
}

struct PolicyBody {
    uint32_t action = 0;
    uint64_t epoch = 0;
    uint64_t control_revision = 0;
};

bool policy_body_read(JsonDocument* document, std::string_view body, JsonReader* reader,
                      PolicyBody* policy)
{
    constexpr std::string_view names[] = {"action", "epoch", "control_revision"};
    simdjson::dom::object root;
    JsonFields fields;
    if (!document->open(body, reader, &root) ||
        !json_fields_read(root, names, std::size(names), reader, &fields)) {
        return false;
    }
    std::string_view action;
    if (!fields.has(0) || fields.values[0].get_string().get(action) != simdjson::SUCCESS ||
        !policy_action(action, &policy->action)) {
        return reader->fail("Must be pause, resume, stop, review-on or review-off.", "action");
    }
    if (!decimal_string_get(fields, 1, &policy->epoch)) {
        return reader->fail("Must be a decimal string.", "epoch");
    }
    if (!decimal_string_get(fields, 2, &policy->control_revision)) {
        return reader->fail("Must be a decimal string.", "control_revision");
    }
    return true;
}

void metric(Text* text, std::string_view name, std::string_view kind, std::string_view help,
            uint64_t value)
{
    text->append("# HELP ");
    text->append(name);
    text->append(' ');
    text->append(help);
    text->append("\n# TYPE ");
    text->append(name);
    text->append(' ');
    text->append(kind);
    text->append('\n');
    text->append(name);
    text->append(' ');
    text->append_decimal(value);
    text->append('\n');
}

// Which device serves, as last told to anybody who asked.
void device_metrics_write(Text* text, const aotx_device_row& device)
{
    if (device.schema == 0) {
        return;
    }
    text->append(
        "# HELP aotx_device_info What runs the device core.\n"
        "# TYPE aotx_device_info gauge\naotx_device_info{kind=\"");
    text->append(aotx_device_kind_name(device.kind));
    text->append("\"} 1\n");
    metric(text, "aotx_device_restarts_total", "counter",
           "Times that a failed device was brought back.", device.restarts);
}

}  // namespace

void Routes::health(Server& server, Connection& connection) noexcept
{
    if (connection.close_after || connection.request.head_only || server.stopping_) {
        server.answer_begin().append("{\"status\":\"ok\"}");
        server.answer_end(connection, AOTX_STATUS_OK);
        return;
    }
    if (server.health_.empty()) {
        // Asked often and always the same within a second: built once.
        server.head_write(connection, AOTX_STATUS_OK, "application/json");
        server.counters_.answers[2]--;
        server.head_.append("Content-Length: 15\r\n\r\n{\"status\":\"ok\"}");
        server.health_.assign(server.head_.data(), server.head_.size());
    }
    server.counters_.answers[2]++;
    server.send_bytes(connection, server.health_.data(), server.health_.size());
    server.request_end(connection);
}

void Routes::ready(Server& server, Connection& connection) noexcept
{
    // The loop has to answer; one that does not know the question is as ready as any.
    device_head(server, connection);
    operation_start<ready_done>(server, connection);
}

void Routes::ready_done(Server& server, Connection& connection, const Reply& reply) noexcept
{
    if (!device_take(server, connection, reply)) {
        return;
    }
    Text& text = server.answer_begin();
    text.append("{\"status\":\"ready\"");
    if (server.device_.schema != 0) {
        text.append(",\"device\":\"");
        text.append(aotx_device_kind_name(server.device_.kind));
        text.append('"');
    }
    text.append('}');
    server.answer_end(connection, AOTX_STATUS_OK);
}

void Routes::device_head(Server& server, Connection& connection) noexcept
{
    aotx_request_head& head = operation_head(server, connection, AOTX_OPERATION_DEVICE);
    std::memset(head.principal, 0, sizeof head.principal);
    head.grant_revision = 0;
}

bool Routes::device_take(Server& server, Connection& connection, const Reply& reply) noexcept
{
    if (!reply_good(server, connection, reply)) {
        return false;
    }
    if (reply.head.status == AOTX_STATUS_UNAVAILABLE) {
        server.refuse(connection, refusal_of_device(reply.head.status));
        return false;
    }
    if (reply.head.status != AOTX_STATUS_OK ||
        aotx_device_check(reply.payload, reply.payload_bytes, &server.device_) != AOTX_OK) {
        server.device_ = {};
    }
    return true;
}

void Routes::capabilities_next(Server& server, Connection& connection, const Reply& reply) noexcept
{
    if (!device_take(server, connection, reply)) {
        return;
    }
    operation_head(server, connection, AOTX_OPERATION_INFORMATION);
    operation_start<capabilities_done>(server, connection);
}

bool Routes::information_take(Server& server, Connection& connection, const Reply& reply,
                              aotx_information* information) noexcept
{
    if (!reply_ok(server, connection, reply)) {
        return false;
    }
    if (!information_read(reply, information)) {
        server.refuse(connection, refusal(Code::InvalidDeviceResponse));
        return false;
    }
    return true;
}

void Routes::models_done(Server& server, Connection& connection, const Reply& reply) noexcept
{
    aotx_information information;
    if (!information_take(server, connection, reply, &information)) {
        return;
    }
    Text& text = server.answer_begin();
    text.append("{\"object\":\"list\",\"data\":[");
    models_write(&text, server.config_, reply, information,
                 [&](const ModelConfig& model, const aotx_model_row& row) {
                     listed_model_write(&text, model, has_automatic_memory(information, row.role));
                 });
    text.append("]}");
    server.answer_end(connection, AOTX_STATUS_OK);
}

void Routes::capabilities_done(Server& server, Connection& connection, const Reply& reply) noexcept
{
    aotx_information information;
    if (!information_take(server, connection, reply, &information)) {
        return;
    }
    Text& text = server.answer_begin();
    text.append("{\"schema\":\"aotx.capabilities.v1\",\"runtime_epoch\":");
    decimal_string_write(&text, reply.head.runtime_epoch);
    lineage_write(&text, information);
    text.append(",\"mode\":\"inference\"");
    device_write(&text, server.device_);
    text.append(",\"models\":[");
    models_write(&text, server.config_, reply, information,
                 [&](const ModelConfig& model, const aotx_model_row& row) {
                     capability_model_write(&text, model, row, information);
                 });
    text.append("],\"limits\":{");
    device_limits_write(&text, information);
    gateway_limits_write(&text, server.config_.gateway);
    text.append('}');
    features_write(&text, information);
    server.answer_end(connection, AOTX_STATUS_OK);
}

void Routes::telemetry_done(Server& server, Connection& connection, const Reply& reply) noexcept
{
    aotx_information information;
    if (!information_take(server, connection, reply, &information)) {
        return;
    }
    Text& text = server.answer_begin();
    text.append("{\"schema\":\"aotx.telemetry.v1\",\"runtime_epoch\":");
    decimal_string_write(&text, reply.head.runtime_epoch);
    lineage_write(&text, information);
    text.append(",\"sample\":{\"service_allocation_bytes\":");
    decimal_string_write(&text, information.service_allocation_bytes);
    string_number_field(&text, "tick", information.tick);
    string_number_field(&text, "clock_nanoseconds", information.clock_ns);
    text.append("},\"affect\":null,\"expression\":null}");
    server.answer_end(connection, AOTX_STATUS_OK);
}

void Routes::policy_write(Server& server, Connection& connection, std::string_view body) noexcept
{
    JsonReader reader;
    PolicyBody policy;
    const bool good = policy_body_read(&server.document_, body, &reader, &policy);
    if (!good) {
        server.refuse(connection, reader.refusal);
    }
    server.document_.close();
    if (!good) {
        return;
    }
    const aotx_policy_control control = {AOTX_POLICY_SCHEMA, policy.action,
                                         policy.control_revision};
    connection.submission = std::make_unique<Submission>();
    connection.submission->payload.resize(sizeof control);
    std::memcpy(connection.submission->payload.data(), &control, sizeof control);
    aotx_request_head& head = operation_head(server, connection, AOTX_OPERATION_POLICY);
    head.runtime_epoch = policy.epoch;
    head.payload_bytes = sizeof control;
    connection.operation.payload = connection.submission->payload.data();
    operation_start<policy_done>(server, connection);
}

void Routes::policy_done(Server& server, Connection& connection, const Reply& reply) noexcept
{
    if (!reply_good(server, connection, reply) || stale_retry(server, connection, reply)) {
        return;
    }
    if (reply.head.status == AOTX_STATUS_FORBIDDEN) {
        server.refuse(connection, refusal(Code::PolicyPermission));
        return;
    }
    if (!reply_ok(server, connection, reply)) {
        return;
    }
    aotx_policy_state_payload policy;
    if (reply.payload_bytes != sizeof policy) {
        server.refuse(connection, refusal(Code::InvalidDeviceResponse));
        return;
    }
    std::memcpy(&policy, reply.payload, sizeof policy);
    Text& text = server.answer_begin();
    text.append("{\"schema\":\"aotx.policy.v1\",\"epoch\":");
    decimal_string_write(&text, reply.head.runtime_epoch);
    number_field(&text, "abi", policy.abi);
    number_field(&text, "mode", policy.mode);
    text.append(",\"state\":\"");
    text.append(policy_state_name(policy.state));
    text.append("\",\"review_enabled\":");
    text.append_json_bool(policy.review_enabled != 0);
    number_field(&text, "pending", policy.pending);
    number_field(&text, "active_rows", policy.active_rows);
    number_field(&text, "status", policy.result_status);
    text.append(",\"reason\":\"");
    text.append(policy_reason_name(policy.reason));
    text.append('"');
    string_number_field(&text, "control_revision", policy.control_revision);
    string_number_field(&text, "source_frontier", policy.source_frontier);
    string_number_field(&text, "completed", policy.completed);
    string_number_field(&text, "interrupted", policy.interrupted);
    string_number_field(&text, "refused", policy.refused);
    string_number_field(&text, "decision", policy.decision);
    string_number_field(&text, "saved_generation", policy.saved_generation);
    string_number_field(&text, "maximum_ns", policy.maximum_ns);
    string_number_field(&text, "last_ns", policy.last_ns);
    string_number_field(&text, "written_bytes", policy.written_bytes);
    string_number_field(&text, "result_bytes", policy.result_bytes);
    text.append('}');
    server.answer_end(connection, AOTX_STATUS_OK);
}

void Routes::metrics(Server& server, Connection& connection) noexcept
{
    if ((connection.request.principal->actions & AOTX_ACTION_TELEMETRY) == 0) {
        server.refuse(connection, refusal_of_device(AOTX_STATUS_FORBIDDEN));
        return;
    }
    if (!server.wires_.connected()) {
        // The gateway's own figures matter most when the device is gone.
        server.answer_begin();
        metrics_write(server, nullptr);
        server.answer_end(connection, AOTX_STATUS_OK, kMetricsType);
        return;
    }
    device_head(server, connection);
    operation_start<metrics_next>(server, connection);
}

void Routes::metrics_next(Server& server, Connection& connection, const Reply& reply) noexcept
{
    // Whatever came of it, the scrape goes on: the figures matter most when something is wrong.
    const bool good =
        reply.result == AOTX_OK && reply.head.status == AOTX_STATUS_OK &&
        aotx_device_check(reply.payload, reply.payload_bytes, &server.device_) == AOTX_OK;
    if (!good) {
        server.device_ = {};
    }
    if (!server.wires_.connected()) {
        server.answer_begin();
        metrics_write(server, nullptr);
        server.answer_end(connection, AOTX_STATUS_OK, kMetricsType);
        return;
    }
    operation_head(server, connection, AOTX_OPERATION_TELEMETRY);
    operation_start<metrics_done>(server, connection);
}

void Routes::metrics_done(Server& server, Connection& connection, const Reply& reply) noexcept
{
    aotx_information information;
    const bool good = reply.result == AOTX_OK && reply.head.status == AOTX_STATUS_OK &&
                      information_read(reply, &information);
    if (reply.result == AOTX_OK && reply.head.status == AOTX_STATUS_FORBIDDEN) {
        static_cast<void>(reply_ok(server, connection, reply));  // a fresher grant, or 403
        return;
    }
    server.answer_begin();
    metrics_write(server, good ? &information : nullptr);
    server.answer_end(connection, AOTX_STATUS_OK, kMetricsType);
}

void Routes::probe_expire(Server& server, Connection& connection) noexcept
{
    if (connection.request.route == Route::Ready) {
        server.refuse(connection, refusal(Code::DeviceConnection));
        return;
    }
    server.answer_begin();
    metrics_write(server, nullptr);
    server.answer_end(connection, AOTX_STATUS_OK, kMetricsType);
}

void Routes::metrics_write(Server& server, const aotx_information* device) noexcept
{
    Text& text = server.answer_;
    const Counters& counters = server.counters_;
    const size_t open = server.config_.gateway.connections - server.connections_free_.size();
    metric(&text, "aotx_gateway_connections", "gauge", "Client connections now.", open);
    metric(&text, "aotx_gateway_connections_accepted_total", "counter",
           "Client connections accepted.", counters.connections_accepted);
    metric(&text, "aotx_gateway_connections_evicted_total", "counter",
           "Connections without a whole request that gave way to new ones.",
           counters.connections_evicted);
    metric(&text, "aotx_gateway_connections_refused_total", "counter",
           "Connections refused because all were busy.", counters.connections_refused);
    metric(&text, "aotx_gateway_requests_total", "counter", "Request heads taken.",
           counters.requests);
    metric(&text, "aotx_gateway_unauthorised_total", "counter",
           "Requests without a valid credential.", counters.unauthorised);
    text.append(
        "# HELP aotx_gateway_answers_total Answers by the first digit of their status.\n"
        "# TYPE aotx_gateway_answers_total counter\n");
    for (size_t digit = 2; digit < std::size(counters.answers); digit++) {
        text.append("aotx_gateway_answers_total{class=\"");
        text.append_decimal(digit);
        text.append("xx\"} ");
        text.append_decimal(counters.answers[digit]);
        text.append('\n');
    }
    metric(&text, "aotx_gateway_submissions_total", "counter", "Submissions sent to the device.",
           counters.submissions);
    metric(&text, "aotx_gateway_output_bytes_total", "counter",
           "Output bytes that answers followed.", counters.stream_bytes);
    metric(&text, "aotx_gateway_work", "gauge", "Answers that follow a request now.",
           server.works_.used_count());
    metric(&text, "aotx_gateway_operations_waiting", "gauge",
           "Operations that wait for a connection to the device.", server.wires_.waiting_count());
    metric(&text, "aotx_gateway_operations_flying", "gauge",
           "Operations that the device has not answered.", server.wires_.flying_count());
    device_metrics_write(&text, server.device_);
    metric(&text, "aotx_device_up", "gauge", "Whether the device answered this scrape.",
           device != nullptr ? 1 : 0);
    if (device == nullptr) {
        return;
    }
    metric(&text, "aotx_device_allocation_bytes", "gauge",
           "Bytes that the service allocated on the device.", device->service_allocation_bytes);
    metric(&text, "aotx_device_ticks_total", "counter", "Ticks of the device loop.", device->tick);
}

}  // namespace aotx
