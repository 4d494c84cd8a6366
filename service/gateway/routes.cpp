// Purpose:  from a complete request to its handler, and what all operations share; see routes.h.
// Owns:     nothing.
// Thread:   the gateway's.
// Lifetime: not applicable.
#include "routes.h"

#include <cstring>

#include "aotx/handle.h"
#include "service/base/check.h"
#include "service/base/clock.h"

namespace aotx {
namespace {

constexpr uint64_t kGrantsReadNsMin = 100 * kMillisecondNs;  // between two looks at the file

bool is_request_route(Route route)
{
    return route == Route::RequestRead || route == Route::RequestCancel ||
           route == Route::RequestEvents;
}

bool is_media_object_route(Route route)
{
    return route == Route::MediaRead || route == Route::MediaRemove;
}

}  // namespace

bool Routes::handle_take(Request& request, const Target& target) noexcept
{
    const std::string_view handle = target.handle;
    if (is_request_route(target.route)) {
        return aotx_request_handle_parse(handle.data(), handle.size(), &request.epoch,
                                         request.id) == AOTX_OK;
    }
    if (is_media_object_route(target.route)) {
        return aotx_media_handle_parse(handle.data(), handle.size(), request.id) == AOTX_OK;
    }
    return true;
}

bool Routes::last_event_take(Request& request, std::string_view value) noexcept
{
    uint64_t epoch = 0;
    uint64_t cursor = 0;
    uint8_t id[AOTX_ID_BYTES];
    if (aotx_event_handle_parse(value.data(), value.size(), &epoch, id, &cursor) != AOTX_OK ||
        epoch != request.epoch || std::memcmp(id, request.id, sizeof id) != 0) {
        return false;
    }
    request.has_cursor = true;
    request.cursor = cursor;
    return true;
}

void Routes::submission_release(Connection& connection) noexcept
{
    connection.submission.reset();
}

aotx_request_head& Routes::operation_head(Server& server, Connection& connection,
                                          uint32_t operation) noexcept
{
    aotx_request_head& head = connection.operation.head;
    head = {};
    head.magic = AOTX_MAGIC;
    head.operation = operation;
    if (connection.request.principal != nullptr) {
        std::memcpy(head.principal, connection.request.principal->id, sizeof head.principal);
        head.grant_revision = server.access_.revision();
    }
    connection.operation.payload = nullptr;
    return head;
}

void Routes::operation_queue(Server& server, Connection& connection) noexcept
{
    if (!server.wires_.connected()) {
        server.refuse(connection, refusal(Code::DeviceConnection));
        return;
    }
    if (connection.operation_deadline.queue == nullptr) {
        const Route route = connection.request.route;
        const bool is_probe = route == Route::Ready || route == Route::Metrics;
        (is_probe ? server.probes_ : server.operations_)
            .arm(&connection.operation_deadline, server.now_ns_);
    }
    server.wires_.start(&connection.operation);
}

bool Routes::reply_good(Server& server, Connection& connection, const Reply& reply) noexcept
{
    if (reply.result != AOTX_OK) {
        server.refuse(connection,
                      refusal(reply.result == AOTX_ERR_STATE ? Code::InvalidDeviceResponse
                                                             : Code::DeviceConnection));
        return false;
    }
    return true;
}

bool Routes::stale_take(Server& server, Connection& connection, const Reply& reply) noexcept
{
    Request& request = connection.request;
    if (reply.head.status != AOTX_STATUS_FORBIDDEN || request.retried) {
        return false;
    }
    if (server.now_ns_ - server.grants_read_ns_ >= kGrantsReadNsMin) {
        server.grants_read_ns_ = server.now_ns_;
        static_cast<void>(server.access_.grants_load());  // the old one stays when it fails
    }
    if (connection.operation.head.grant_revision == server.access_.revision()) {
        return false;
    }
    request.retried = true;
    return true;
}

bool Routes::stale_retry(Server& server, Connection& connection, const Reply& reply) noexcept
{
    if (!stale_take(server, connection, reply)) {
        return false;
    }
    connection.operation.head.grant_revision = server.access_.revision();
    operation_queue(server, connection);
    return true;
}

bool Routes::reply_ok(Server& server, Connection& connection, const Reply& reply) noexcept
{
    if (!reply_good(server, connection, reply)) {
        return false;
    }
    if (reply.head.status == AOTX_STATUS_OK) {
        return true;
    }
    if (!stale_retry(server, connection, reply)) {
        server.refuse(connection, refusal_of_device(reply.head.status));
    }
    return false;
}

void Routes::dispatch(Server& server, Connection& connection, std::string_view body) noexcept
{
    AOTX_CHECK(connection.stage == Stage::Busy);
    switch (connection.request.route) {
        case Route::Health:
            return health(server, connection);
        case Route::RequestRead:
            return request_read(server, connection);
        case Route::ChatCompletions:
            return submit(server, connection, body, false);
        case Route::RequestCreate:
            return submit(server, connection, body, true);
        case Route::RequestCancel:
            return request_cancel(server, connection, body);
        case Route::RequestEvents:
            return events(server, connection);
        case Route::Models:
            operation_head(server, connection, AOTX_OPERATION_INFORMATION);
            return operation_start<models_done>(server, connection);
        case Route::Capabilities:
            device_head(server, connection);
            return operation_start<capabilities_next>(server, connection);
        case Route::Telemetry:
            operation_head(server, connection, AOTX_OPERATION_TELEMETRY);
            return operation_start<telemetry_done>(server, connection);
        case Route::PolicyRead:
            operation_head(server, connection, AOTX_OPERATION_POLICY);
            return operation_start<policy_done>(server, connection);
        case Route::PolicyWrite:
            return policy_write(server, connection, body);
        case Route::Ready:
            return ready(server, connection);
        case Route::Metrics:
            return metrics(server, connection);
        case Route::MediaUpload:
            return media_upload(server, connection, body);
        case Route::MediaList:
            return media_list(server, connection);
        case Route::MediaImport:
            return media_import(server, connection, body);
        case Route::MediaRead:
            return media_read(server, connection);
        case Route::MediaRemove:
            return media_remove(server, connection);
        case Route::None:
            break;
    }
    AOTX_CHECK(false);
}

void decimal_string_write(Text* text, uint64_t value) noexcept
{
    text->append('"');
    text->append_decimal(value);
    text->append('"');
}

}  // namespace aotx
