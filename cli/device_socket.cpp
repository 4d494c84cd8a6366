// Purpose:  the service straight through service.sock, with the documents that the gateway would
//           send.
// Owns:     two broker connections: one for calls, one for the watch.
// Thread:   main.
// Lifetime: one per command.
#include <errno.h>
#include <poll.h>

#include <cstring>

#include "aotx/broker_client.hpp"
#include "aotx/grants.h"
#include "aotx/handle.h"
#include "aotx/names.h"
#include "cli/device.h"
#include "cli/failure.h"
#include "cli/interrupt.h"
#include "cli/messages.h"
#include "service/base/base64.h"
#include "service/base/digest.h"
#include "service/base/file.h"

namespace aotx::cli {
namespace {

std::string hex(const uint8_t* bytes, size_t bytes_count)
{
    std::string text(2 * bytes_count, '0');
    aotx_hex_encode(bytes, bytes_count, text.data());
    return text;
}

std::string base64(const uint8_t* bytes, size_t bytes_count)
{
    std::string text(base64_characters(bytes_count), '=');
    base64_encode(bytes, bytes_count, text.data());
    return text;
}

Failure failure_of_status(uint32_t status, const char* doing)
{
    std::string text = std::string("the device refuses ") + doing + " [" + std::to_string(status) +
                       " " + aotx_device_status_name(status) + "]";
    if (status == AOTX_STATUS_FORBIDDEN) {
        text += ": no grant, another grant revision, or a missing action";
    }
    return Failure(exit_code_of_status(status), text, status, aotx_device_status_name(status));
}

// The members that a request's state has in every document.
struct StateWords {
    uint32_t phase;
    uint32_t model_role;
    uint32_t prompt_tokens;
    uint32_t sampled_tokens;
    uint32_t finish;
    uint32_t failure_status;
    uint32_t cancel_requested;
};

void write_state(JsonWriter* json, const std::string& handle, uint64_t epoch,
                 const StateWords& words)
{
    json->key("schema").text("aotx.request.v1").key("id").text(handle);
    json->key("runtime_epoch").decimal(epoch).key("model_role").number(words.model_role);
    json->key("state").text(aotx_phase_name(words.phase));
    json->key("cancel_requested").boolean(words.cancel_requested != 0);
    json->key("status").number(words.failure_status).key("persistence").text("ephemeral");
    json->key("usage").begin_object().key("prompt_tokens").number(words.prompt_tokens);
    json->key("completion_tokens").number(words.sampled_tokens).key("total_tokens");
    json->number(uint64_t{words.prompt_tokens} + words.sampled_tokens).end_object();
    json->key("finish_reason");
    words.finish == AOTX_FINISH_NONE ? json->null() : json->text(aotx_finish_name(words.finish));
}

class SocketDevice : public Device {
public:
    SocketDevice(std::string path, const BrokerPrincipal& who, std::optional<Config> config)
        : path_(std::move(path)), who_(who), config_(std::move(config))
    {
    }

    std::string health() override;
    std::string models() override;
    std::string capabilities() override;
    std::string telemetry() override;
    std::string submit(const Submission& submission) override;
    std::string submit_body(const std::string& body) override;
    std::string read(const std::string& handle, uint64_t cursor) override;
    std::string cancel(const std::string& handle) override;
    RequestState watch(const std::string& handle, uint64_t cursor,
                       const std::function<void(const WatchEvent&)>& take,
                       const std::function<bool()>& interrupted) override;

private:
    struct Facts {
        uint64_t epoch = 0;
        aotx_information information = {};
        std::vector<aotx_model_row> models;
    };

    BrokerReply call(const aotx_request_head& head, const void* payload, const char* doing);
    void connect(BrokerClient* client);
    Facts facts(uint32_t operation);
    aotx_device_row device();
    std::string alias_of(uint32_t role) const;
    uint32_t role_of(const std::string& model, const Facts& known) const;
    std::string request_document(const std::string& handle, const BrokerReply& reply,
                                 bool with_output) const;
    void await_news(BrokerClient* client, BrokerReply* reply,
                    const std::function<bool()>& interrupted);
    void on_news(const std::string& handle, uint64_t epoch, const BrokerReply& reply,
                 aotx_watch_row* row, RequestState* state,
                 const std::function<void(const WatchEvent&)>& take);

    std::string path_;
    BrokerPrincipal who_;
    std::optional<Config> config_;
    BrokerClient client_;
    BrokerClient watcher_;
};

void SocketDevice::connect(BrokerClient* client)
{
    if (client->is_open()) {
        return;
    }
    const int result = client->connect(path_.c_str());
    if (result == AOTX_ERR_LENGTH) {
        throw Failure(kExitUsage, path_ + ": a socket path has 1 to 107 bytes");
    }
    if (result != AOTX_OK) {
        throw Failure(kExitUnreachable, path_ + ": " + std::strerror(errno));
    }
}

BrokerReply SocketDevice::call(const aotx_request_head& head, const void* payload,
                               const char* doing)
{
    connect(&client_);
    BrokerReply reply = {};
    const int result = client_.call(head, payload, &reply);
    if (result == AOTX_ERR_CLOSED) {
        throw Failure(kExitUnreachable, path_ + ": the broker has closed the connection");
    }
    if (result == AOTX_ERR_SYSTEM) {
        throw Failure(kExitUnreachable, path_ + ": " + std::strerror(errno));
    }
    if (result != AOTX_OK) {
        throw Failure(kExitProtocol, path_ + ": a reply is wrong: " + aotx_result_text(result));
    }
    if (reply.head.status != AOTX_STATUS_OK && reply.head.status != AOTX_STATUS_ACCEPTED) {
        throw failure_of_status(reply.head.status, doing);
    }
    return reply;
}

SocketDevice::Facts SocketDevice::facts(uint32_t operation)
{
    const bool telemetry = operation == AOTX_OPERATION_TELEMETRY;
    const aotx_request_head head = telemetry ? telemetry_head(who_) : information_head(who_);
    const BrokerReply reply = call(head, nullptr, telemetry ? "telemetry" : "information");
    Facts known;
    const int result =
        aotx_information_check(reply.payload, reply.head.payload_bytes, &known.information);
    if (result != AOTX_OK) {
        throw Failure(kExitProtocol, std::string("the device's information is wrong: ") +
                                         aotx_result_text(result));
    }
    known.epoch = reply.head.runtime_epoch;
    for (uint32_t i = 0; i < known.information.model_rows; i++) {
        aotx_model_row row = {};
        aotx_information_model(reply.payload, i, &row);
        known.models.push_back(row);
    }
    return known;
}

// A role has the alias that the configuration gives it, else its own name.
std::string SocketDevice::alias_of(uint32_t role) const
{
    if (config_) {
        for (const ModelConfig& model : config_->models) {
            if (model_role(model) == role) {
                return model.alias;
            }
        }
    }
    return aotx_model_role_name(role);
}

uint32_t SocketDevice::role_of(const std::string& model, const Facts& known) const
{
    for (const aotx_model_row& row : known.models) {
        if (model.empty() || model == alias_of(row.role) ||
            model == aotx_model_role_name(row.role)) {
            return row.role;
        }
    }
    if (model.empty()) {
        throw Failure(kExitNotFound, "the device offers no model to this principal");
    }
    throw Failure(kExitNotFound, "the device offers no model named " + model, AOTX_STATUS_NOT_FOUND,
                  "model_not_found");
}

// What serves; needs no grant.
aotx_device_row SocketDevice::device()
{
    const BrokerReply reply = call(device_head(), nullptr, "the device");
    aotx_device_row row = {};
    const int result = aotx_device_check(reply.payload, reply.head.payload_bytes, &row);
    if (result != AOTX_OK) {
        throw Failure(kExitProtocol, std::string("what the device says of itself is wrong: ") +
                                         aotx_result_text(result));
    }
    return row;
}

std::string device_text(const uint8_t* text)
{
    return reinterpret_cast<const char*>(text);  // aotx_device_check saw the zero byte
}

std::string SocketDevice::health()
{
    (void)facts(AOTX_OPERATION_INFORMATION);
    JsonWriter json;
    json.begin_object().key("status").text("ok");
    json.key("device").text(aotx_device_kind_name(device().kind));
    return json.end_object().str();
}

std::string SocketDevice::models()
{
    const Facts known = facts(AOTX_OPERATION_INFORMATION);
    JsonWriter json;
    json.begin_object().key("object").text("list").key("data").begin_array();
    for (const aotx_model_row& row : known.models) {
        const bool memory = (known.information.automatic_memory_mask >> row.role & 1) != 0;
        json.begin_object().key("id").text(alias_of(row.role)).key("object").text("model");
        json.key("created").number(0).key("owned_by").text("aotx");
        json.key("automatic_memory").boolean(memory).end_object();
    }
    return json.end_array().end_object().str();
}

void write_models(JsonWriter* json, const std::vector<aotx_model_row>& rows, uint32_t memory_mask,
                  const std::function<std::string(uint32_t)>& alias_of)
{
    json->key("models").begin_array();
    for (const aotx_model_row& row : rows) {
        json->begin_object().key("id").text(alias_of(row.role)).key("role").number(row.role);
        json->key("sha256").text(hex(row.sha256, sizeof row.sha256)).key("input").begin_array();
        for (uint32_t bit = AOTX_MODALITY_TEXT; bit <= AOTX_MODALITY_AUDIO; bit <<= 1) {
            if ((row.modalities & bit) != 0) {
                json->text(aotx_modality_name(bit));
            }
        }
        json->end_array().key("automatic_memory").boolean((memory_mask >> row.role & 1) != 0);
        json->end_object();
    }
    json->end_array();
}

void write_limits(JsonWriter* json, const aotx_information& facts)
{
    const struct {
        const char* name;
        uint32_t value;
    } rows[] = {
        {"execution_slots", facts.execution_slots_plus_one - 1},
        {"wrapped_prompt_bytes", facts.prompt_bytes_max},
        {"sequence_tokens", facts.sequence_tokens_max},
        {"request_entries", facts.request_entries},
        {"output_bytes", facts.request_output_bytes_max},
        {"service_channels", facts.mailboxes},
        {"output_tokens", facts.grant_output_tokens_max},
        {"kv_pages_per_request", facts.grant_pages_max},
        {"active_requests", facts.grant_active_requests_max},
        {"media_objects", facts.media_objects},
        {"private_media_objects", facts.grant_media_objects_max},
        {"image_pixels", facts.image_pixels_max},
        {"image_dimension", facts.image_dimension_max},
        {"image_patches", facts.image_patches_max},
        {"image_feature_rows", facts.image_feature_rows_max},
        {"audio_source_frames", facts.audio_source_frames_max},
        {"audio_feature_rows", facts.audio_feature_rows_max},
        {"device_request_seconds", facts.request_seconds_max},
        {"device_upload_seconds", facts.upload_seconds_max},
        {"principal_entries", facts.principal_entries},
        {"media_references", facts.request_media_references_max},
    };
    json->key("limits").begin_object();
    for (const auto& row : rows) {
        json->key(row.name).number(row.value);
    }
    json->key("private_media_bytes").decimal(facts.grant_media_bytes_max).end_object();
}

void write_lineage(JsonWriter* json, const uint8_t lineage[16])
{
    json->key("lineage");
    aotx_is_zero(lineage, 16) ? json->null() : json->text(hex(lineage, 16));
}

void write_device(JsonWriter* json, const aotx_device_row& device)
{
    json->key("device").begin_object().key("kind").text(aotx_device_kind_name(device.kind));
    json->key("name").text(device_text(device.name)).key("restarts").number(device.restarts);
    json->key("reason");
    device.reason[0] == 0 ? json->null() : json->text(device_text(device.reason));
    json->end_object();
}

std::string SocketDevice::capabilities()
{
    const Facts known = facts(AOTX_OPERATION_INFORMATION);
    JsonWriter json;
    json.begin_object().key("schema").text("aotx.capabilities.v1");
    json.key("runtime_epoch").decimal(known.epoch);
    write_lineage(&json, known.information.lineage);
    json.key("mode").text("inference");
    write_device(&json, device());
    write_models(&json, known.models, known.information.automatic_memory_mask,
                 [this](uint32_t role) { return alias_of(role); });
    write_limits(&json, known.information);
    json.key("actions").begin_array();
    for (uint32_t bit = 1; bit <= AOTX_ACTION_POLICY_MANAGE; bit <<= 1) {
        if ((known.information.grant_actions & bit) != 0) {
            json.text(aotx_action_name(bit));
        }
    }
    return json.end_array().end_object().str();
}

std::string SocketDevice::telemetry()
{
    const Facts known = facts(AOTX_OPERATION_TELEMETRY);
    JsonWriter json;
    json.begin_object().key("schema").text("aotx.telemetry.v1");
    json.key("runtime_epoch").decimal(known.epoch);
    write_lineage(&json, known.information.lineage);
    json.key("sample").begin_object().key("service_allocation_bytes");
    json.decimal(known.information.service_allocation_bytes).key("tick");
    json.decimal(known.information.tick).key("clock_nanoseconds");
    json.decimal(known.information.clock_ns).end_object();
    return json.key("affect").null().key("expression").null().end_object().str();
}

uint32_t message_role(const std::string& role)
{
    for (uint32_t i = AOTX_MESSAGE_ROLE_SYSTEM; i <= AOTX_MESSAGE_ROLE_ASSISTANT; i++) {
        if (role == aotx_message_role_name(i)) {
            return i;
        }
    }
    throw Failure(kExitUsage, "no message role has the name " + role);
}

// The payload in buffer; its bytes are returned.
uint32_t build_payload(const std::vector<ChatMessage>& messages, std::vector<uint8_t>* buffer)
{
    aotx_submit_builder builder = {};
    buffer->resize(AOTX_PAYLOAD_BYTES_MAX);
    int result = aotx_submit_begin(&builder, buffer->data(), buffer->size());
    for (const ChatMessage& message : messages) {
        if (result == AOTX_OK) {
            result = aotx_submit_message_add(&builder, message_role(message.role));
        }
        if (result == AOTX_OK) {
            result = aotx_submit_part_add(&builder, AOTX_PART_KIND_TEXT, message.text.data(),
                                          message.text.size());
        }
    }
    if (result == AOTX_ERR_FULL) {
        throw Failure(kExitTooLarge, "the conversation does not fit one packet",
                      AOTX_STATUS_TOO_LARGE, "frame_limit");
    }
    uint32_t payload_bytes = 0;
    if (result == AOTX_OK) {
        result = aotx_submit_end(&builder, &payload_bytes);
    }
    uint32_t media = 0;
    if (result == AOTX_OK) {
        result = aotx_submit_check(buffer->data(), payload_bytes, &media);
    }
    if (result != AOTX_OK) {
        throw Failure(kExitUsage,
                      std::string("these messages would be refused: ") + aotx_result_text(result));
    }
    return payload_bytes;
}

std::string SocketDevice::submit(const Submission& submission)
{
    const Facts known = facts(AOTX_OPERATION_INFORMATION);
    std::vector<uint8_t> payload;
    const uint32_t payload_bytes = build_payload(submission.messages, &payload);
    SubmitOptions options;
    options.model_role = role_of(submission.model, known);
    options.output_tokens_max =
        submission.tokens_max.value_or(known.information.grant_output_tokens_max);
    options.temperature = static_cast<float>(submission.temperature.value_or(1.0));
    options.top_p = static_cast<float>(submission.top_p.value_or(1.0));
    uint8_t id[AOTX_ID_BYTES] = {};
    random_bytes(id, sizeof id);
    const aotx_request_head head = submit_head(who_, known.epoch, id, options, payload_bytes);
    if (aotx_submit_head_check(&head) != AOTX_OK) {
        throw Failure(kExitUsage,
                      "--max-tokens is above 0, --temperature 0..2, --top-p above 0 "
                      "and up to 1");
    }
    (void)call(head, payload.data(), "the submission");
    std::string handle(AOTX_REQUEST_HANDLE_CHARACTERS, '0');
    aotx_request_handle_format(known.epoch, id, handle.data());
    JsonWriter json;
    json.begin_object().key("schema").text("aotx.admission.v1").key("id").text(handle);
    json.key("runtime_epoch").decimal(known.epoch).key("state").text("accepted");
    json.key("persistence").text("ephemeral").key("media").begin_array().end_array();
    return json.end_object().str();
}

std::string SocketDevice::submit_body(const std::string& body)
{
    const JsonDocument document(body, kExitInput, "the body");
    const JsonValue& root = document.root();
    Submission submission;
    if (!root.is_object()) {
        throw Failure(kExitInput, "the body is no JSON object");
    }
    for (const auto& [name, value] : root.members) {
        const bool is_number = value.kind == JsonValue::Kind::Number;
        const bool is_real = is_number || value.kind == JsonValue::Kind::Real;
        if (name == "model" && value.kind == JsonValue::Kind::Text) {
            submission.model = value.text;
        } else if (name == "messages") {
            submission.messages = messages_of(value, "messages");
        } else if ((name == "max_tokens" || name == "max_completion_tokens") && is_number &&
                   value.number <= UINT32_MAX) {
            submission.tokens_max = static_cast<uint32_t>(value.number);
        } else if (name == "temperature" && is_real) {
            submission.temperature = value.real;
        } else if (name == "top_p" && is_real) {
            submission.top_p = value.real;
        } else {
            throw Failure(kExitInput, "service.sock takes no field " + name + " of this kind");
        }
    }
    return submit(submission);
}

std::string SocketDevice::request_document(const std::string& handle, const BrokerReply& reply,
                                           bool with_output) const
{
    const aotx_reply_head& head = reply.head;
    const StateWords words = {head.phase,           head.model_role, head.prompt_tokens,
                              head.sampled_tokens,  head.finish,     head.failure_status,
                              head.cancel_requested};
    JsonWriter json;
    json.begin_object();
    write_state(&json, handle, head.runtime_epoch, words);
    if (with_output) {
        json.key("output").begin_object().key("encoding").text("base64");
        json.key("bytes").text(base64(reply.payload, head.payload_bytes));
        json.key("cursor").decimal(head.cursor);
        json.key("next_cursor").decimal(head.cursor + head.payload_bytes);
        json.key("total_bytes").decimal(head.output_bytes).end_object();
    }
    return json.end_object().str();
}

void parse_handle(const std::string& handle, uint64_t* epoch, uint8_t id[16])
{
    check_handle(handle);
    (void)aotx_request_handle_parse(handle.data(), handle.size(), epoch, id);
}

std::string SocketDevice::read(const std::string& handle, uint64_t cursor)
{
    uint64_t epoch = 0;
    uint8_t id[AOTX_ID_BYTES] = {};
    parse_handle(handle, &epoch, id);
    const BrokerReply reply = call(read_head(who_, epoch, id, cursor), nullptr, "the read");
    if (aotx_reply_state_check(&reply.head) != AOTX_OK) {
        throw Failure(kExitProtocol, "the device's reply contradicts itself");
    }
    return request_document(handle, reply, true);
}

std::string SocketDevice::cancel(const std::string& handle)
{
    uint64_t epoch = 0;
    uint8_t id[AOTX_ID_BYTES] = {};
    parse_handle(handle, &epoch, id);
    const BrokerReply reply = call(cancel_head(who_, epoch, id), nullptr, "the cancellation");
    return request_document(handle, reply, false);
}

void SocketDevice::await_news(BrokerClient* client, BrokerReply* reply,
                              const std::function<bool()>& interrupted)
{
    for (;;) {
        pollfd ready[2] = {{client->fd(), POLLIN, 0}, {interrupt_descriptor(), POLLIN, 0}};
        const int polled = ::poll(ready, 2, -1);
        if (take_interrupt() && !interrupted()) {
            throw Failure(kExitInterrupted, "interrupted");
        }
        if (polled <= 0 || ready[0].revents == 0) {
            continue;
        }
        const int result = client->receive(reply, 0);
        if (result == AOTX_ERR_NEED_MORE) {
            continue;
        }
        if (result != AOTX_OK) {
            throw Failure(result == AOTX_ERR_CLOSED ? kExitUnreachable : kExitProtocol,
                          path_ + ": " + aotx_result_text(result));
        }
        if (reply->head.status != AOTX_STATUS_OK) {
            throw failure_of_status(reply->head.status, "the watch");
        }
        return;
    }
}

void SocketDevice::on_news(const std::string& handle, uint64_t epoch, const BrokerReply& reply,
                           aotx_watch_row* row, RequestState* state,
                           const std::function<void(const WatchEvent&)>& take)
{
    size_t at = 0;
    aotx_watch_news news = {};
    const uint8_t* data = nullptr;
    int result = AOTX_OK;
    while ((result = aotx_watch_news_next(reply.payload, reply.head.payload_bytes, &at, &news,
                                          &data)) == AOTX_OK) {
        if (news.status != AOTX_STATUS_OK) {
            throw failure_of_status(news.status, "the watch");
        }
        if (news.cursor != row->cursor || !aotx_is_equal(news.id, row->id, AOTX_ID_BYTES)) {
            throw Failure(kExitProtocol, "the device's news belong to another place");
        }
        if (news.data_bytes != 0) {
            JsonWriter json;
            json.begin_object().key("schema").text("aotx.emission.v1");
            json.key("request_id").text(handle).key("runtime_epoch").decimal(epoch);
            json.key("source_kind").text("model").key("model_role").number(news.model_role);
            json.key("offset").decimal(row->cursor);
            json.key("next_cursor").decimal(row->cursor + news.data_bytes);
            json.key("encoding").text("base64").key("bytes").text(base64(data, news.data_bytes));
            row->cursor += news.data_bytes;
            WatchEvent event;
            event.is_emission = true;
            event.document = json.end_object().str();
            event.bytes.assign(reinterpret_cast<const char*>(data), news.data_bytes);
            event.next_cursor = row->cursor;
            take(event);
        }
        const bool all_read = row->cursor == news.output_bytes;
        const bool ended = aotx_phase_is_terminal(news.phase) != 0;
        const bool changed =
            news.phase != row->known_phase || news.cancel_requested != row->known_cancel_requested;
        // The end is told once, after the last byte; until then its phase stays unknown here, so
        // that the device keeps answering.
        if (changed && (!ended || all_read)) {
            JsonWriter json;
            json.begin_object();
            write_state(&json, handle, epoch,
                        {news.phase, news.model_role, news.prompt_tokens, news.sampled_tokens,
                         news.finish, news.failure_status, news.cancel_requested});
            WatchEvent event;
            event.document = json.end_object().str();
            event.next_cursor = row->cursor;
            event.state =
                request_state(JsonDocument(event.document, kExitProtocol, "the state").root());
            row->known_phase = news.phase;
            row->known_cancel_requested = news.cancel_requested;
            *state = event.state;
            take(event);
        }
    }
    if (result != AOTX_ERR_NOT_FOUND) {
        throw Failure(kExitProtocol,
                      std::string("the device's news are wrong: ") + aotx_result_text(result));
    }
}

RequestState SocketDevice::watch(const std::string& handle, uint64_t cursor,
                                 const std::function<void(const WatchEvent&)>& take,
                                 const std::function<bool()>& interrupted)
{
    uint64_t epoch = 0;
    uint8_t id[AOTX_ID_BYTES] = {};
    uint8_t watch_id[AOTX_ID_BYTES] = {};
    parse_handle(handle, &epoch, id);
    random_bytes(watch_id, sizeof watch_id);
    aotx_watch_row row = {};
    aotx_watch_row_make(&row, who_.id, who_.grant_revision, id, cursor, AOTX_PHASE_FREE, 0);
    RequestState state;
    while (!state.is_terminal()) {
        connect(&watcher_);
        BrokerReply reply = {};
        const int sent = watcher_.send(watch_head(epoch, watch_id, 1), &row);
        if (sent != AOTX_OK) {
            throw Failure(kExitUnreachable, path_ + ": " + aotx_result_text(sent));
        }
        await_news(&watcher_, &reply, interrupted);
        on_news(handle, epoch, reply, &row, &state, take);
    }
    return state;
}

// The revision that the device has installed, as far as the grant file tells, after a look whether
// it names the principal at all.
uint64_t revision_of(const std::string& path, const uint8_t id[16])
{
    std::string text;
    const int read = file_read(path.c_str(), AOTX_PACKET_BYTES_MAX, &text);
    if (read != AOTX_OK) {
        throw Failure(kExitInput, path + ": the grant file cannot be read; --grants or --revision");
    }
    const uint8_t* const bytes = reinterpret_cast<const uint8_t*>(text.data());
    aotx_request_head head = {};
    if (aotx_grants_check(bytes, text.size(), &head) != AOTX_OK) {
        throw Failure(kExitInput, path + " is no grant file");
    }
    for (uint32_t i = 0; i < head.count; i++) {
        aotx_grant_row row = {};
        aotx_grant_row_get(bytes + AOTX_HEAD_BYTES, i, &row);
        if (aotx_is_equal(row.principal, id, AOTX_ID_BYTES)) {
            return head.grant_revision;
        }
    }
    throw Failure(kExitUnauthorized, path + " grants nothing to this principal");
}

}  // namespace

std::unique_ptr<Device> open_device_socket(const ConnectionOptions& options,
                                           const std::optional<Config>& config)
{
    std::string path = options.socket;
    if (path.empty()) {
        path = need_config(options.config).device.socket_path;
    }
    BrokerPrincipal who = {};
    find_principal(config, options.principal, who.id);
    who.grant_revision = options.revision;
    if (who.grant_revision == 0) {
        const std::string grants = !options.grants.empty() ? options.grants
                                   : config                ? config->device.grants_path
                                                           : "";
        if (grants.empty()) {
            throw Failure(kExitUsage,
                          "which grant revision? --grants FILE, --revision or --config");
        }
        who.grant_revision = revision_of(grants, who.id);
    }
    return std::make_unique<SocketDevice>(path, who, config);
}

}  // namespace aotx::cli
