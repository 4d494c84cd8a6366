// Purpose:  answers that follow a request of the device: gathered, or as events; see routes.h.
// Owns:     nothing.
// Thread:   the gateway's.
// Lifetime: not applicable.
//
// Everything that one turn brings for a stream leaves in one send. A reader that does not keep up
// stalls only itself: while the socket holds unsent bytes, its row stays out of the watch, and the
// device's window keeps the output.
#include <algorithm>
#include <cstring>

#include "aotx/handle.h"
#include "routes.h"
#include "service/base/check.h"

namespace aotx {
namespace {

// What a frame holds besides its text or bytes, generously: IDs, an alias, field names.
constexpr size_t kFrameOverheadBytes = 1024;
constexpr size_t kEscapeCharactersMax = 6;
constexpr size_t kPieceBytesMin = 64;

// How much raw text fits one event.
size_t text_piece_bytes(size_t event_bytes)
{
    const size_t room = event_bytes > kFrameOverheadBytes ? event_bytes - kFrameOverheadBytes : 0;
    return std::max(room / kEscapeCharactersMax, kPieceBytesMin);
}

// How many output bytes fit one event in base64; a multiple of three.
size_t base64_piece_bytes(size_t event_bytes)
{
    const size_t room = event_bytes > kFrameOverheadBytes ? event_bytes - kFrameOverheadBytes : 0;
    return std::max(room / 4 * 3, kPieceBytesMin / 3 * 3);
}

// The longest start of a valid text that is at most bytes_max and ends at a character.
size_t character_end(std::string_view text, size_t bytes_max)
{
    if (text.size() <= bytes_max) {
        return text.size();
    }
    size_t end = bytes_max;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) {
        end--;
    }
    return end;
}

void request_id_write(Text* text, const Work& work)
{
    char* const handle = text->reserve(AOTX_REQUEST_HANDLE_CHARACTERS);
    aotx_request_handle_format(work.epoch, work.id, handle);
    text->commit(AOTX_REQUEST_HANDLE_CHARACTERS);
}

void completion_head_write(Text* text, const Work& work, std::string_view object,
                           std::string_view alias)
{
    text->append("{\"id\":\"chatcmpl-");
    text->append_hex(work.id, sizeof work.id);
    text->append("\",\"object\":\"");
    text->append(object);
    text->append("\",\"created\":");
    text->append_decimal(work.created);
    text->append(",\"model\":");
    text->append_json_string(alias);
}

void emission_write(Text* text, const Work& work, const WorkNews& news, uint64_t offset,
                    const uint8_t* bytes, size_t bytes_count)
{
    const uint64_t next = offset + bytes_count;
    text->append("event: emission\nid: ");
    request_id_write(text, work);
    text->append(':');
    text->append_decimal(next);
    text->append("\ndata: {\"schema\":\"aotx.emission.v1\",\"request_id\":\"");
    request_id_write(text, work);
    text->append("\",\"runtime_epoch\":");
    decimal_string_write(text, work.epoch);
    text->append(",\"source_kind\":\"model\",\"model_role\":");
    text->append_decimal(news.model_role);
    text->append(",\"offset\":");
    decimal_string_write(text, offset);
    text->append(",\"next_cursor\":");
    decimal_string_write(text, next);
    text->append(",\"encoding\":\"base64\",\"bytes\":\"");
    text->append_base64(bytes, bytes_count);
    text->append("\"}\n\n");
}

Server& server_of(const Work& work)
{
    return *work.connection->server;
}

Refusal watch_refusal(int result, uint32_t device_status)
{
    if (result == AOTX_ERR_CLOSED) {
        return refusal(Code::DeviceConnection);
    }
    return result == AOTX_OK ? refusal_of_device(device_status)
                             : refusal(Code::InvalidDeviceResponse);
}

}  // namespace

Wires::Hooks Routes::wire_hooks(Server* server) noexcept
{
    Wires::Hooks hooks;
    hooks.server = server;
    hooks.watch_done = [](void* its_server, size_t wire, const Reply& reply) {
        static_cast<Server*>(its_server)->watch_->on_reply(wire, reply);
    };
    return hooks;
}

Watch::Hooks Routes::watch_hooks(Server* server) noexcept
{
    Watch::Hooks hooks;
    hooks.server = server;
    hooks.wants = [](void*, const Work& work) {
        const Connection& connection = *work.connection;
        // principal: before admission there is nothing to watch yet.
        return work.principal != nullptr && connection.out == nullptr && !connection.broken;
    };
    hooks.news = [](void* its_server, Work* work, const WorkNews& news) {
        Connection& connection = *work->connection;
        work_news(*static_cast<Server*>(its_server), *work, news);
        static_cast<Server*>(its_server)->step(connection);
    };
    hooks.refused = [](void* its_server, Work* work, uint32_t device_status) {
        Connection& connection = *work->connection;
        work_fail(*static_cast<Server*>(its_server), *work, refusal_of_device(device_status));
        static_cast<Server*>(its_server)->step(connection);
    };
    hooks.failed = [](void* its_server, int result, uint32_t device_status) {
        Server& self = *static_cast<Server*>(its_server);
        for (size_t i = self.works_.used_count(); i > 0; i--) {
            Work& work = *self.works_.used(i - 1);
            if (work.principal == nullptr) {
                continue;  // its operation learns of the loss by itself
            }
            Connection& connection = *work.connection;
            work_fail(self, work, watch_refusal(result, device_status));
            self.step(connection);
        }
        self.watch_->touch();
    };
    return hooks;
}

void Routes::heartbeat(Server& server, Work& work) noexcept
{
    Connection& connection = *work.connection;
    if (connection.out != nullptr) {
        return;  // the reader has not taken what is there; more would tell it nothing
    }
    // Clients of /v1 parse every frame that a blank line ends, so there it is a bare comment line.
    server.answer_begin().append(work.kind == WorkKind::Events
                                     ? std::string_view(": keep-alive\n\n")
                                     : std::string_view(": keep-alive\n"));
    server.stream_end(connection, false);
    server.step(connection);
}

void Routes::stream_fail(Server& server, Connection& connection, const Refusal& why) noexcept
{
    AOTX_CHECK(connection.request.streaming);
    AOTX_CHECK(connection.work != nullptr);
    Text& text = server.answer_begin();
    text.append(connection.work->kind == WorkKind::Events ? std::string_view("event: error\ndata: ")
                                                          : std::string_view("data: "));
    refusal_write(why, &text);
    text.append("\n\n");
    server.stream_end(connection, true);
}

void Routes::work_fail(Server& server, Work& work, const Refusal& why) noexcept
{
    Connection& connection = *work.connection;
    if (connection.request.streaming) {
        stream_fail(server, connection, why);
    } else {
        server.refuse(connection, why);
    }
}

void Routes::work_news(Server& server, Work& work, const WorkNews& news) noexcept
{
    AOTX_CHECK(&server == &server_of(work));
    if (work.cursor + news.data_bytes > news.output_bytes) {
        work_fail(server, work, refusal(Code::InvalidDeviceResponse));
        return;
    }
    work.model_role = news.model_role;
    server.counters_.stream_bytes += news.data_bytes;
    switch (work.kind) {
        case WorkKind::Plain:
            return plain_news(server, work, news);
        case WorkKind::Stream:
            return stream_news(server, work, news);
        case WorkKind::Events:
            return events_news(server, work, news);
    }
}

void Routes::plain_news(Server& server, Work& work, const WorkNews& news) noexcept
{
    Connection& connection = *work.connection;
    work.output.append({reinterpret_cast<const char*>(news.data), news.data_bytes});
    work.cursor += news.data_bytes;
    work.known_phase = news.phase;
    work.known_cancel_requested = news.cancel_requested;
    if (!news.terminal() || work.cursor < news.output_bytes) {
        return;
    }
    const std::string_view finish = finish_name(news.finish);
    if (news.phase != AOTX_PHASE_COMPLETED || finish.empty()) {
        server.refuse(connection,
                      news.phase == AOTX_PHASE_COMPLETED
                          ? refusal(Code::InvalidDeviceResponse)
                          : refusal_of_end(news.phase, news.failure_status, news.output_bytes));
        return;
    }
    server.decoded_.clear();
    utf8_step(&work.utf8, reinterpret_cast<const uint8_t*>(work.output.data()), work.output.size(),
              &server.decoded_);
    utf8_end(&work.utf8, &server.decoded_);
    Text& text = server.answer_begin();
    completion_head_write(&text, work, "chat.completion", server.config_.models[work.model].alias);
    text.append(",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":");
    text.append_json_string(server.decoded_.view());
    text.append(",\"refusal\":null},\"logprobs\":null,\"finish_reason\":");
    text.append_json_string(finish);
    text.append("}],\"usage\":");
    usage_write(&text, news);
    text.append('}');
    server.answer_end(connection, AOTX_STATUS_OK);
    server.decoded_.trim(kAnswerBytesKept);
}

void Routes::chunk_open(Server& server, const Work& work) noexcept
{
    server.answer_.append("data: ");
    completion_head_write(&server.answer_, work, "chat.completion.chunk",
                          server.config_.models[work.model].alias);
}

void Routes::chunk_close(Server& server, const Work& work) noexcept
{
    server.answer_.append(work.include_usage ? std::string_view(",\"usage\":null}\n\n")
                                             : std::string_view("}\n\n"));
}

void Routes::chat_begin(Server& server, Work& work) noexcept
{
    Connection& connection = *work.connection;
    server.stream_begin(connection);
    Text& text = server.answer_begin();
    chunk_open(server, work);
    text.append(
        ",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},"
        "\"finish_reason\":null}]");
    chunk_close(server, work);
    server.stream_end(connection, false);
    server.heartbeats_.arm(&work.heartbeat, server.now_ns_);
}

void Routes::content_write(Server& server, const Work& work, std::string_view text) noexcept
{
    const size_t piece_bytes = text_piece_bytes(server.config_.gateway.event_bytes);
    while (!text.empty()) {
        const size_t take = character_end(text, piece_bytes);
        chunk_open(server, work);
        server.answer_.append(",\"choices\":[{\"index\":0,\"delta\":{\"content\":");
        server.answer_.append_json_string(text.substr(0, take));
        server.answer_.append("},\"finish_reason\":null}]");
        chunk_close(server, work);
        text.remove_prefix(take);
    }
}

void Routes::stream_news(Server& server, Work& work, const WorkNews& news) noexcept
{
    Connection& connection = *work.connection;
    server.decoded_.clear();
    utf8_step(&work.utf8, news.data, news.data_bytes, &server.decoded_);
    work.cursor += news.data_bytes;
    work.known_phase = news.phase;
    work.known_cancel_requested = news.cancel_requested;
    const bool end = news.terminal() && work.cursor == news.output_bytes;
    if (end) {
        utf8_end(&work.utf8, &server.decoded_);
    }
    if (!end && server.decoded_.size() == 0) {
        return;
    }
    server.answer_begin();
    content_write(server, work, server.decoded_.view());
    if (end) {
        stream_finish(server, work, news);
    }
    server.heartbeats_.arm(&work.heartbeat, server.now_ns_);
    server.stream_end(connection, end);
    server.decoded_.trim(kAnswerBytesKept);
}

// The frames behind the last content: finish, usage and the end mark, or one error.
void Routes::stream_finish(Server& server, Work& work, const WorkNews& news) noexcept
{
    Text& text = server.answer_;
    const std::string_view finish = finish_name(news.finish);
    if (news.phase != AOTX_PHASE_COMPLETED || finish.empty()) {
        text.append("data: ");
        refusal_write(news.phase == AOTX_PHASE_COMPLETED
                          ? refusal(Code::InvalidDeviceResponse)
                          : refusal_of_end(news.phase, news.failure_status, news.output_bytes),
                      &text);
        text.append("\n\n");
        return;
    }
    chunk_open(server, work);
    text.append(",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":");
    text.append_json_string(finish);
    text.append("}]");
    chunk_close(server, work);
    if (work.include_usage) {
        chunk_open(server, work);
        text.append(",\"choices\":[],\"usage\":");
        usage_write(&text, news);
        text.append("}\n\n");
    }
    text.append("data: [DONE]\n\n");
}

void Routes::events_news(Server& server, Work& work, const WorkNews& news) noexcept
{
    Connection& connection = *work.connection;
    Text& text = server.answer_begin();
    const size_t piece_bytes = base64_piece_bytes(server.config_.gateway.event_bytes);
    for (size_t at = 0; at < news.data_bytes; at += piece_bytes) {
        const size_t take = std::min(piece_bytes, news.data_bytes - at);
        emission_write(&text, work, news, work.cursor + at, news.data + at, take);
    }
    work.cursor += news.data_bytes;
    const bool end = news.terminal() && work.cursor == news.output_bytes;
    const bool changed =
        news.phase != work.known_phase || news.cancel_requested != work.known_cancel_requested;
    // A terminal state is told once, after the last byte.
    if (end || (changed && !news.terminal())) {
        text.append("event: status\ndata: {");
        request_fields_write(&text, work.epoch, work.id, news);
        text.append("}\n\n");
        work.known_phase = news.phase;
        work.known_cancel_requested = news.cancel_requested;
    }
    server.heartbeats_.arm(&work.heartbeat, server.now_ns_);
    server.stream_end(connection, end);
}

}  // namespace aotx
