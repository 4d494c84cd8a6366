// Purpose:  the one table from what went wrong to an HTTP status, a type and a code; see refusal.h.
// Owns:     nothing.
// Thread:   any.
// Lifetime: not applicable.
#include "refusal.h"

#include "aotx/packet.h"
#include "aotx/status.h"
#include "service/base/check.h"

namespace aotx {
namespace {

struct CodeRow {
    Code code;
    uint32_t status;
    std::string_view name;
    std::string_view message;
};

constexpr CodeRow kCodes[] = {
    {Code::InvalidApiKey, 401, "invalid_api_key", "The credential is missing or not valid."},
    {Code::InvalidField, 400, "invalid_field", "The request is not valid."},
    {Code::ModelNotFound, 404, "model_not_found", "No such model is available."},
    {Code::RouteNotFound, 404, "route_not_found", "No such route."},
    {Code::Method, 405, "method", "This route does not take this method."},
    {Code::ContentType, 415, "content_type", "The body must be application/json."},
    {Code::MediaType, 415, "media_type", "The body must be image/jpeg or audio/wav."},
    {Code::ContentEncoding, 415, "content_encoding", "The body must not be encoded."},
    {Code::BodyLimit, 413, "body_limit", "The body is too large."},
    {Code::ContextLimit, 413, "context_limit", "The input is too long."},
    {Code::FrameLimit, 413, "frame_limit", "The input does not fit one submission."},
    {Code::MediaLimit, 413, "media_limit", "The media object is too large."},
    {Code::OutputLimit, 413, "output_limit", "The output reached the result's capacity."},
    {Code::BodyTimeout, 408, "body_timeout", "The body did not arrive in time."},
    {Code::HeaderTimeout, 408, "header_timeout", "The request head did not arrive in time."},
    {Code::BodyLength, 400, "body_length", "The body does not have the length that it needs."},
    {Code::Expectation, 417, "expectation", "No expectation is met; send the body at once."},
    {Code::TransportLimit, 429, "transport_limit", "The gateway is at its limit; try again."},
    {Code::DeviceRefused, 503, "device_refused", "The device refused the request."},
    {Code::DeviceConnection, 503, "device_connection", "The device cannot be reached now."},
    {Code::InvalidDeviceResponse, 503, "invalid_device_response", "The device's answer is void."},
    {Code::RequestCancelled, 409, "request_cancelled", "The request was cancelled."},
    {Code::RequestFailed, 500, "request_failed", "The request failed."},
    {Code::MediaState, 409, "media_state", "The media object is not in a fitting state."},
    {Code::MediaRefused, 400, "media_refused", "The media object was refused."},
    {Code::UrlForbidden, 403, "url_forbidden", "This URL may not be imported."},
    {Code::PolicyPermission, 403, "policy_permission", "The grant does not manage the policy."},
    {Code::OriginForbidden, 403, "origin_forbidden", "This origin may not use the service."},
    {Code::HostForbidden, 421, "host_forbidden", "This service does not answer for this host."},
    {Code::ResponseTimeout, 504, "response_timeout", "The device did not answer in time."},
    {Code::InternalError, 500, "internal_error", "The service failed."},
    {Code::HttpSyntax, 400, "http_syntax", "The request is not well-formed HTTP."},
    {Code::HttpVersion, 505, "http_version", "Only HTTP/1.1 is spoken here."},
    {Code::TargetLimit, 414, "target_limit", "The request line is too long."},
    {Code::HeaderLimit, 431, "header_limit", "The request head is too large."},
};

struct StatusRow {
    uint32_t status;
    std::string_view reason;
};

constexpr StatusRow kReasons[] = {
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {410, "Gone"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {417, "Expectation Failed"},
    {421, "Misdirected Request"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
};

std::string_view device_message(uint32_t status)
{
    switch (status) {
        case AOTX_STATUS_BAD_REQUEST:
            return "The device found the request not valid.";
        case AOTX_STATUS_FORBIDDEN:
            return "The grant does not permit this.";
        case AOTX_STATUS_NOT_FOUND:
            return "No such object.";
        case AOTX_STATUS_CONFLICT:
            return "The request does not fit the object's present state.";
        case AOTX_STATUS_GONE:
            return "The runtime epoch of this object has ended.";
        case AOTX_STATUS_TOO_LARGE:
            return "The request exceeds a capacity of the device.";
        case AOTX_STATUS_TOO_MANY:
            return "The device is at its limit; try again.";
        case AOTX_STATUS_UNAVAILABLE:
            return "The device does not offer this now.";
        case AOTX_STATUS_TIMEOUT:
            return "The request's time limit passed.";
        default:
            return {};
    }
}

std::string_view type_of(uint32_t status)
{
    switch (status) {
        case 401:
            return "authentication_error";
        case 403:
            return "permission_error";
        case 429:
            return "rate_limit_error";
        default:
            return status >= 500 ? "server_error" : "invalid_request_error";
    }
}

}  // namespace

Refusal refusal(Code code) noexcept
{
    const CodeRow& row = kCodes[static_cast<size_t>(code)];
    AOTX_CHECK(row.code == code);
    return {row.status, row.name, row.message, {}};
}

Refusal refusal(Code code, std::string_view message, std::string_view param) noexcept
{
    Refusal result = refusal(code);
    result.message = message;
    result.param = param;
    return result;
}

Refusal refusal_of_fault(HttpFault fault) noexcept
{
    switch (fault) {
        case HttpFault::Version:
            return refusal(Code::HttpVersion);
        case HttpFault::TargetLimit:
            return refusal(Code::TargetLimit);
        case HttpFault::HeaderLimit:
            return refusal(Code::HeaderLimit);
        case HttpFault::Host:
            return refusal(Code::HttpSyntax, "Exactly one Host header is required.", "Host");
        case HttpFault::Length:
            return refusal(Code::HttpSyntax, "The body's length must be given once, one way.",
                           "Content-Length");
        case HttpFault::TransferEncoding:
            return refusal(Code::HttpSyntax, "The only transfer coding is chunked, in HTTP/1.1.",
                           "Transfer-Encoding");
        case HttpFault::None:
        case HttpFault::Syntax:
            break;
    }
    AOTX_CHECK(fault == HttpFault::Syntax);
    return refusal(Code::HttpSyntax);
}

Refusal refusal_of_device(uint32_t device_status) noexcept
{
    const std::string_view message = device_message(device_status);
    if (message.empty()) {
        return refusal(Code::InvalidDeviceResponse);
    }
    Refusal result = refusal(Code::DeviceRefused, message);
    result.status = device_status;  // the values are those of HTTP
    return result;
}

static Refusal input_too_long()
{
    return refusal(Code::ContextLimit, "The input is too long for the model.", "messages");
}

Refusal refusal_of_submission(uint32_t device_status, bool has_media) noexcept
{
    if (device_status == AOTX_STATUS_NOT_FOUND && !has_media) {
        return refusal(Code::ModelNotFound, "No such model is available.", "model");
    }
    if (device_status == AOTX_STATUS_TOO_LARGE) {
        return input_too_long();
    }
    return refusal_of_device(device_status);
}

Refusal refusal_of_end(uint32_t phase, uint32_t failure_status, uint32_t output_bytes) noexcept
{
    if (phase == AOTX_PHASE_CANCELLED) {
        return refusal(Code::RequestCancelled);
    }
    switch (failure_status) {
        case AOTX_STATUS_FORBIDDEN:
            return refusal_of_device(failure_status);
        case AOTX_STATUS_CONFLICT:
            return refusal(Code::RequestCancelled);
        case AOTX_STATUS_TOO_LARGE:
            return output_bytes == 0 ? input_too_long() : refusal(Code::OutputLimit);
        case AOTX_STATUS_TIMEOUT:
            return refusal(Code::ResponseTimeout, "The request's time limit passed.");
        default:
            break;
    }
    Refusal result = refusal(Code::RequestFailed);
    if (failure_status == AOTX_STATUS_UNAVAILABLE) {
        result.status = AOTX_STATUS_UNAVAILABLE;
    }
    return result;
}

void refusal_write(const Refusal& refusal, Text* text) noexcept
{
    text->append("{\"error\":{\"message\":");
    text->append_json_string(refusal.message);
    text->append(",\"type\":\"");
    text->append(type_of(refusal.status));
    text->append("\",\"param\":");
    if (refusal.param.empty()) {
        text->append("null");
    } else {
        text->append_json_string(refusal.param);
    }
    text->append(",\"code\":\"");
    text->append(refusal.code);
    text->append("\"}}");
}

std::string_view status_reason(uint32_t status) noexcept
{
    for (const StatusRow& row : kReasons) {
        if (row.status == status) {
            return row.reason;
        }
    }
    return "Status";
}

}  // namespace aotx
