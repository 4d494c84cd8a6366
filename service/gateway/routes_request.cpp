// Purpose:  requests of the device: submission, output windows, cancellation, the start of events;
// see routes.h.
// Owns:     nothing.
// Thread:   the gateway's.
// Lifetime: not applicable.
#include <algorithm>
#include <cstring>

#include "aotx/handle.h"
#include "aotx/names.h"
#include "routes.h"
#include "service/base/check.h"
#include "service/base/digest.h"

namespace aotx {
namespace {

void request_id_write(Text* text, uint64_t epoch, const uint8_t* id)
{
    char* const handle = text->reserve(AOTX_REQUEST_HANDLE_CHARACTERS);
    aotx_request_handle_format(epoch, id, handle);
    text->commit(AOTX_REQUEST_HANDLE_CHARACTERS);
}

// {} and nothing else.
bool is_empty_object(JsonDocument* document, std::string_view body, JsonReader* reader)
{
    simdjson::dom::object root;
    JsonFields fields;
    return document->open(body, reader, &root) &&
           json_fields_read(root, nullptr, 0, reader, &fields);
}

void submission_fill(Submission* submission, const ChatRequest& chat, bool native)
{
    submission->native = native;
    submission->stream = chat.stream;
    submission->include_usage = chat.include_usage;
    submission->model = chat.model;
    submission->payload.assign(chat.payload, chat.payload + chat.payload_bytes);
    submission->temperature = chat.temperature;
    submission->top_p = chat.top_p;
    submission->media.assign(chat.media, chat.media + chat.media_count);
}

}  // namespace

WorkNews reply_news(const Reply& reply) noexcept
{
    WorkNews news;
    news.phase = reply.head.phase;
    news.model_role = reply.head.model_role;
    news.output_bytes = reply.head.output_bytes;
    news.prompt_tokens = reply.head.prompt_tokens;
    news.sampled_tokens = reply.head.sampled_tokens;
    news.finish = reply.head.finish;
    news.failure_status = reply.head.failure_status;
    news.cancel_requested = reply.head.cancel_requested;
    news.data = reply.payload;
    news.data_bytes = reply.payload_bytes;
    return news;
}

std::string_view finish_name(uint32_t finish) noexcept
{
    if (finish == AOTX_FINISH_STOP) {
        return "stop";
    }
    return finish == AOTX_FINISH_LENGTH ? std::string_view("length") : std::string_view();
}

void usage_write(Text* text, const WorkNews& news) noexcept
{
    text->append("{\"prompt_tokens\":");
    text->append_decimal(news.prompt_tokens);
    text->append(",\"completion_tokens\":");
    text->append_decimal(news.sampled_tokens);
    text->append(",\"total_tokens\":");
    text->append_decimal(uint64_t{news.prompt_tokens} + news.sampled_tokens);
    text->append('}');
}

void request_fields_write(Text* text, uint64_t epoch, const uint8_t* id,
                          const WorkNews& news) noexcept
{
    text->append("\"schema\":\"aotx.request.v1\",\"id\":\"");
    request_id_write(text, epoch, id);
    text->append("\",\"runtime_epoch\":");
    decimal_string_write(text, epoch);
    text->append(",\"model_role\":");
    text->append_decimal(news.model_role);
    text->append(",\"state\":\"");
    text->append(aotx_phase_name(news.phase));
    text->append("\",\"cancel_requested\":");
    text->append_json_bool(news.cancel_requested != 0);
    text->append(",\"status\":");
    text->append_decimal(news.failure_status);
    text->append(",\"persistence\":\"ephemeral\",\"usage\":");
    usage_write(text, news);
    const std::string_view finish = finish_name(news.finish);
    text->append(",\"finish_reason\":");
    if (finish.empty()) {
        text->append("null");
    } else {
        text->append_json_string(finish);
    }
}

void Routes::submit(Server& server, Connection& connection, std::string_view body,
                    bool native) noexcept
{
    ChatRequest chat;
    Refusal why;
    if (!server.reader_->read(body, native, server.config_, &chat, &why)) {
        server.refuse(connection, why);
        server.reader_->close();
        return;
    }
    connection.submission = std::make_unique<Submission>();
    Submission& submission = *connection.submission;
    submission_fill(&submission, chat, native);
    server.reader_->close();
    server.body_release(connection);

    const uint32_t limit = connection.request.principal->output_tokens_max;
    if (limit != 0 && chat.output_tokens > limit) {
        server.refuse(connection, refusal(Code::InvalidField, "Above what the grant permits.",
                                          chat.output_tokens_name));
        return;
    }
    submission.output_tokens = chat.has_output_tokens ? chat.output_tokens : 0;
    if (chat.has_inline_media) {
        operation_head(server, connection, AOTX_OPERATION_INFORMATION);
        operation_start<submit_inline_done>(server, connection);
        return;
    }
    if (!native) {
        connection.work = server.works_.acquire();
        if (connection.work == nullptr) {
            server.refuse(connection, refusal(Code::TransportLimit));
            return;
        }
        connection.work->connection = &connection;
    }
    random_bytes(connection.request.id, sizeof connection.request.id);
    submit_next(server, connection);
}

// Read the digests of media parts one after another, then submit.
void Routes::submit_next(Server& server, Connection& connection) noexcept
{
    Submission& submission = *connection.submission;
    if (submission.media_known < submission.media.size()) {
        aotx_request_head& head = operation_head(server, connection, AOTX_OPERATION_MEDIA_READ);
        std::memcpy(head.id, submission.media[submission.media_known].id, sizeof head.id);
        operation_start<submit_media_done>(server, connection);
        return;
    }
    aotx_request_head& head = operation_head(server, connection, AOTX_OPERATION_SUBMIT);
    head.runtime_epoch = server.epoch_;
    std::memcpy(head.id, connection.request.id, sizeof head.id);
    head.model_role = model_role(server.config_.models[submission.model]);
    // Without a row in the grant file the device refuses anyway; 1 only keeps the packet in form.
    const uint32_t limit = std::max(connection.request.principal->output_tokens_max, 1u);
    head.count = submission.output_tokens != 0 ? submission.output_tokens : limit;
    head.temperature = submission.temperature;
    head.top_p = submission.top_p;
    head.payload_bytes = static_cast<uint32_t>(submission.payload.size());
    connection.operation.payload = submission.payload.data();
    server.counters_.submissions++;
    operation_start<submit_done>(server, connection);
}

void Routes::submit_media_done(Server& server, Connection& connection, const Reply& reply) noexcept
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
    if (state.phase != AOTX_MEDIA_PHASE_READY) {
        server.refuse(connection, refusal(Code::MediaState));
        return;
    }
    Submission& submission = *connection.submission;
    const ChatMedia& media = submission.media[submission.media_known];
    std::memcpy(submission.payload.data() + media.digest_at, state.sha256, sizeof state.sha256);
    submission.media_known++;
    submit_next(server, connection);
}

// Inline media would be uploaded first; say who may not, and that the device takes none.
void Routes::submit_inline_done(Server& server, Connection& connection, const Reply& reply) noexcept
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
    const bool permitted = (information.grant_actions & AOTX_ACTION_UPLOAD) != 0;
    server.refuse(connection,
                  refusal_of_device(permitted ? AOTX_STATUS_UNAVAILABLE : AOTX_STATUS_FORBIDDEN));
}

void Routes::submit_done(Server& server, Connection& connection, const Reply& reply) noexcept
{
    Request& request = connection.request;
    request.submitted = true;
    request.epoch = connection.operation.head.runtime_epoch;
    if (!reply_good(server, connection, reply)) {
        return;
    }
    if (reply.head.status == AOTX_STATUS_ACCEPTED) {
        request.epoch = reply.head.runtime_epoch;
        admitted(server, connection, reply);
        return;
    }
    if (reply.head.status == AOTX_STATUS_GONE && !request.retried &&
        reply.head.runtime_epoch != connection.operation.head.runtime_epoch) {
        // A new activation that we had not heard of; nothing was admitted.
        request.retried = true;
        submit_next(server, connection);
        return;
    }
    if (stale_take(server, connection, reply)) {
        // Built anew: the epoch may be new to us too, and with the grant the token limit.
        submit_next(server, connection);
        return;
    }
    const bool has_media = !connection.submission->media.empty();
    server.refuse(connection, refusal_of_submission(reply.head.status, has_media));
}

void Routes::admitted(Server& server, Connection& connection, const Reply& reply) noexcept
{
    const Request& request = connection.request;
    const Submission& submission = *connection.submission;
    if (submission.native) {
        Text& text = server.answer_begin();
        text.append("{\"schema\":\"aotx.admission.v1\",\"id\":\"");
        request_id_write(&text, request.epoch, request.id);
        text.append("\",\"runtime_epoch\":");
        decimal_string_write(&text, request.epoch);
        text.append(",\"state\":\"accepted\",\"persistence\":\"ephemeral\",\"media\":[]}");
        server.answer_end(connection, AOTX_STATUS_ACCEPTED);
        return;
    }
    Work& work = *connection.work;
    work.kind = submission.stream ? WorkKind::Stream : WorkKind::Plain;
    work.include_usage = submission.include_usage;
    work.principal = request.principal;
    work.revision = reply.head.grant_revision;
    work.epoch = request.epoch;
    std::memcpy(work.id, request.id, sizeof work.id);
    work.known_phase = reply.head.phase;
    work.model = submission.model;
    work.created = server.unix_s_;
    submission_release(connection);
    server.watch_->touch();
    if (work.kind == WorkKind::Stream) {
        chat_begin(server, work);
    }
}

// The head of an operation on the request that the path names.
aotx_request_head& Routes::handle_head(Server& server, Connection& connection,
                                       uint32_t operation) noexcept
{
    const Request& request = connection.request;
    aotx_request_head& head = operation_head(server, connection, operation);
    head.runtime_epoch = request.epoch;
    std::memcpy(head.id, request.id, sizeof head.id);
    return head;
}

// The news of a reply to READ. False: it was refused, or reaches past the output that it states,
// and the connection has its answer.
bool Routes::window_ok(Server& server, Connection& connection, const Reply& reply,
                       WorkNews* news) noexcept
{
    if (!reply_ok(server, connection, reply)) {
        return false;
    }
    *news = reply_news(reply);
    if (connection.request.cursor + news->data_bytes > news->output_bytes) {
        server.refuse(connection, refusal(Code::InvalidDeviceResponse));
        return false;
    }
    return true;
}

void Routes::request_read(Server& server, Connection& connection) noexcept
{
    handle_head(server, connection, AOTX_OPERATION_READ).cursor = connection.request.cursor;
    operation_start<request_read_done>(server, connection);
}

void Routes::request_read_done(Server& server, Connection& connection, const Reply& reply) noexcept
{
    WorkNews news;
    if (!window_ok(server, connection, reply, &news)) {
        return;
    }
    const Request& request = connection.request;
    Text& text = server.answer_begin();
    text.append('{');
    request_fields_write(&text, request.epoch, request.id, news);
    text.append(",\"output\":{\"encoding\":\"base64\",\"bytes\":\"");
    text.append_base64(news.data, news.data_bytes);
    text.append("\",\"cursor\":");
    decimal_string_write(&text, request.cursor);
    text.append(",\"next_cursor\":");
    decimal_string_write(&text, request.cursor + news.data_bytes);
    text.append(",\"total_bytes\":");
    decimal_string_write(&text, news.output_bytes);
    text.append("}}");
    server.answer_end(connection, AOTX_STATUS_OK);
}

void Routes::request_cancel(Server& server, Connection& connection, std::string_view body) noexcept
{
    JsonReader reader;
    const bool empty = is_empty_object(&server.document_, body, &reader);
    if (!empty) {
        server.refuse(connection, reader.refusal);
    }
    server.document_.close();
    if (!empty) {
        return;
    }
    handle_head(server, connection, AOTX_OPERATION_CANCEL);
    operation_start<request_cancel_done>(server, connection);
}

void Routes::request_cancel_done(Server& server, Connection& connection,
                                 const Reply& reply) noexcept
{
    if (!reply_ok(server, connection, reply)) {
        return;
    }
    Text& text = server.answer_begin();
    text.append('{');
    request_fields_write(&text, connection.request.epoch, connection.request.id, reply_news(reply));
    text.append('}');
    server.answer_end(connection, AOTX_STATUS_OK);
}

void Routes::events(Server& server, Connection& connection) noexcept
{
    connection.work = server.works_.acquire();
    if (connection.work == nullptr) {
        server.refuse(connection, refusal(Code::TransportLimit));
        return;
    }
    connection.work->connection = &connection;
    handle_head(server, connection, AOTX_OPERATION_READ).cursor = connection.request.cursor;
    operation_start<events_done>(server, connection);
}

void Routes::events_done(Server& server, Connection& connection, const Reply& reply) noexcept
{
    WorkNews news;
    if (!window_ok(server, connection, reply, &news)) {
        return;
    }
    const Request& request = connection.request;
    Work& work = *connection.work;
    work.kind = WorkKind::Events;
    work.principal = request.principal;
    work.revision = reply.head.grant_revision;
    work.epoch = request.epoch;
    std::memcpy(work.id, request.id, sizeof work.id);
    work.cursor = request.cursor;
    work.known_phase = AOTX_PHASE_FREE;  // so that the first news always tells the state
    server.stream_begin(connection);
    server.watch_->touch();
    work_news(server, work, news);
}

}  // namespace aotx
