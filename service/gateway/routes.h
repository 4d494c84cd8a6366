// Purpose:  what each route does with a request, and with what the device answers to it.
// Owns:     nothing; state lies in the server, its connections and its works.
// Thread:   the gateway's.
// Lifetime: not applicable.
#pragma once

#include <cstdint>
#include <string_view>

#include "refusal.h"
#include "server.h"
#include "target.h"
#include "watch.h"
#include "wire.h"

namespace aotx {

// The functions that Server trusts with its inside. Every handler either answers, starts one
// operation, or makes the answer a stream; it does exactly one of them.
struct Routes {
    using Handler = void (*)(Server&, Connection&, const Reply&);

    static Wires::Hooks wire_hooks(Server* server) noexcept;
    static Watch::Hooks watch_hooks(Server* server) noexcept;

    // The handle in a path. False: no such handle can exist.
    static bool handle_take(Request& request, const Target& target) noexcept;
    // A Last-Event-ID of this very request. False: it is none.
    static bool last_event_take(Request& request, std::string_view value) noexcept;

    // The request is complete; connection.stage is Busy.
    static void dispatch(Server& server, Connection& connection, std::string_view body) noexcept;
    static void submission_release(Connection& connection) noexcept;

    // Begin an operation: the head with everything that all operations share.
    static aotx_request_head& operation_head(Server& server, Connection& connection,
                                             uint32_t operation) noexcept;
    // Send it; handler gets the reply. Refuses when the device is not there.
    template <Handler handler>
    static void operation_start(Server& server, Connection& connection) noexcept;
    static void operation_queue(Server& server, Connection& connection) noexcept;
    // Whether the reply is there at all; refuses when not.
    static bool reply_good(Server& server, Connection& connection, const Reply& reply) noexcept;
    // Whether it also says 200; refuses when not, and repeats the operation when only the grant
    // revision was stale.
    static bool reply_ok(Server& server, Connection& connection, const Reply& reply) noexcept;
    // Whether a 403 came from a stale revision and a newer one is known now.
    static bool stale_take(Server& server, Connection& connection, const Reply& reply) noexcept;
    static bool stale_retry(Server& server, Connection& connection, const Reply& reply) noexcept;

    // routes_info.cpp
    static void health(Server& server, Connection& connection) noexcept;
    static void ready(Server& server, Connection& connection) noexcept;
    static void ready_done(Server& server, Connection& connection, const Reply& reply) noexcept;
    // Keep what the device says of itself. False: the reply is no reply, or says 503, and the
    // connection has been refused.
    static bool device_take(Server& server, Connection& connection, const Reply& reply) noexcept;
    // Read the information of a reply. False: there is none, and the connection has been refused.
    static bool information_take(Server& server, Connection& connection, const Reply& reply,
                                 aotx_information* information) noexcept;
    // The head of the question what serves; it names nobody.
    static void device_head(Server& server, Connection& connection) noexcept;
    static void capabilities_next(Server& server, Connection& connection,
                                  const Reply& reply) noexcept;
    static void metrics(Server& server, Connection& connection) noexcept;
    static void metrics_next(Server& server, Connection& connection, const Reply& reply) noexcept;
    static void metrics_done(Server& server, Connection& connection, const Reply& reply) noexcept;
    // The loop has not answered in time: not ready, or metrics without its own.
    static void probe_expire(Server& server, Connection& connection) noexcept;
    static void metrics_write(Server& server, const aotx_information* device) noexcept;
    static void models_done(Server& server, Connection& connection, const Reply& reply) noexcept;
    static void capabilities_done(Server& server, Connection& connection,
                                  const Reply& reply) noexcept;
    static void telemetry_done(Server& server, Connection& connection, const Reply& reply) noexcept;
    static void policy_write(Server& server, Connection& connection,
                             std::string_view body) noexcept;
    static void policy_done(Server& server, Connection& connection, const Reply& reply) noexcept;

    // routes_request.cpp
    static void submit(Server& server, Connection& connection, std::string_view body,
                       bool native) noexcept;
    static void submit_next(Server& server, Connection& connection) noexcept;
    static void submit_media_done(Server& server, Connection& connection,
                                  const Reply& reply) noexcept;
    static void submit_inline_done(Server& server, Connection& connection,
                                   const Reply& reply) noexcept;
    static void submit_done(Server& server, Connection& connection, const Reply& reply) noexcept;
    static void admitted(Server& server, Connection& connection, const Reply& reply) noexcept;
    static aotx_request_head& handle_head(Server& server, Connection& connection,
                                          uint32_t operation) noexcept;
    static bool window_ok(Server& server, Connection& connection, const Reply& reply,
                          WorkNews* news) noexcept;
    static void request_read(Server& server, Connection& connection) noexcept;
    static void request_read_done(Server& server, Connection& connection,
                                  const Reply& reply) noexcept;
    static void request_cancel(Server& server, Connection& connection,
                               std::string_view body) noexcept;
    static void request_cancel_done(Server& server, Connection& connection,
                                    const Reply& reply) noexcept;
    static void events(Server& server, Connection& connection) noexcept;
    static void events_done(Server& server, Connection& connection, const Reply& reply) noexcept;

    // routes_stream.cpp
    static void heartbeat(Server& server, Work& work) noexcept;
    static void stream_fail(Server& server, Connection& connection, const Refusal& why) noexcept;
    static void chat_begin(Server& server, Work& work) noexcept;
    static void work_news(Server& server, Work& work, const WorkNews& news) noexcept;
    static void work_fail(Server& server, Work& work, const Refusal& why) noexcept;
    static void plain_news(Server& server, Work& work, const WorkNews& news) noexcept;
    static void stream_news(Server& server, Work& work, const WorkNews& news) noexcept;
    static void stream_finish(Server& server, Work& work, const WorkNews& news) noexcept;
    static void events_news(Server& server, Work& work, const WorkNews& news) noexcept;
    static void content_write(Server& server, const Work& work, std::string_view text) noexcept;
    static void chunk_open(Server& server, const Work& work) noexcept;
    static void chunk_close(Server& server, const Work& work) noexcept;

    // routes_media.cpp
    static void media_upload(Server& server, Connection& connection,
                             std::string_view body) noexcept;
    static void media_upload_next(Server& server, Connection& connection) noexcept;
    static void media_upload_done(Server& server, Connection& connection,
                                  const Reply& reply) noexcept;
    static void media_list(Server& server, Connection& connection) noexcept;
    static void media_list_done(Server& server, Connection& connection,
                                const Reply& reply) noexcept;
    static void media_read(Server& server, Connection& connection) noexcept;
    static void media_read_done(Server& server, Connection& connection,
                                const Reply& reply) noexcept;
    static void media_remove(Server& server, Connection& connection) noexcept;
    static void media_remove_done(Server& server, Connection& connection,
                                  const Reply& reply) noexcept;
    static void media_import(Server& server, Connection& connection,
                             std::string_view body) noexcept;
    static void media_import_done(Server& server, Connection& connection,
                                  const Reply& reply) noexcept;
};

// The news in a reply to READ, CANCEL or SUBMIT.
[[nodiscard]] WorkNews reply_news(const Reply& reply) noexcept;

// "stop", "length", or empty for none.
[[nodiscard]] std::string_view finish_name(uint32_t finish) noexcept;

// The fields of aotx.request.v1 up to its output window, without the braces.
void request_fields_write(Text* text, uint64_t epoch, const uint8_t* id,
                          const WorkNews& news) noexcept;

// {"prompt_tokens","completion_tokens","total_tokens"}
void usage_write(Text* text, const WorkNews& news) noexcept;

// A 64-bit number as JSON clients can hold it: "123" with its quotes.
void decimal_string_write(Text* text, uint64_t value) noexcept;

template <Routes::Handler handler>
void Routes::operation_start(Server& server, Connection& connection) noexcept
{
    connection.operation.done = [](WireOperation* operation, const Reply& reply) {
        Connection& owner = *static_cast<Connection*>(operation->owner);
        Server& its_server = *owner.server;
        if (reply.result == AOTX_OK) {
            its_server.epoch_ = reply.head.runtime_epoch;
        }
        handler(its_server, owner, reply);
        its_server.step(owner);
    };
    operation_queue(server, connection);
}

}  // namespace aotx
