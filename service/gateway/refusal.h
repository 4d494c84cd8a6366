// Purpose:  the one table from what went wrong to an HTTP status, a type and a code, and from the
// device's status to the same.
// Owns:     nothing.
// Thread:   any.
// Lifetime: not applicable.
#pragma once

#include <cstdint>
#include <string_view>

#include "http_head.h"
#include "text.h"

namespace aotx {

enum class Code : uint8_t {
    InvalidApiKey,
    InvalidField,
    ModelNotFound,
    RouteNotFound,
    Method,
    ContentType,
    MediaType,
    ContentEncoding,
    BodyLimit,
    ContextLimit,
    FrameLimit,
    MediaLimit,
    OutputLimit,
    BodyTimeout,
    HeaderTimeout,
    BodyLength,
    Expectation,
    TransportLimit,
    DeviceRefused,
    DeviceConnection,
    InvalidDeviceResponse,
    RequestCancelled,
    RequestFailed,
    MediaState,
    MediaRefused,
    UrlForbidden,
    PolicyPermission,
    OriginForbidden,
    HostForbidden,
    ResponseTimeout,
    InternalError,
    HttpSyntax,
    HttpVersion,
    TargetLimit,
    HeaderLimit
};

// One failure as a client sees it. The texts are static or outlive the answer; none comes from
// inside the service.
struct Refusal {
    uint32_t status = 500;
    std::string_view code = "internal_error";
    std::string_view message = "The service failed.";
    std::string_view param;  // empty: null
};

// The row of a code; status, code and its general message.
[[nodiscard]] Refusal refusal(Code code) noexcept;
// The same with a message of its own and, where a field is meant, its name.
[[nodiscard]] Refusal refusal(Code code, std::string_view message,
                              std::string_view param = {}) noexcept;

// Why a head was refused. fault is not None.
[[nodiscard]] Refusal refusal_of_fault(HttpFault fault) noexcept;

// What the device answered: enum aotx_device_status, not 200 or 202. A status that the contract
// does not know becomes invalid_device_response.
[[nodiscard]] Refusal refusal_of_device(uint32_t device_status) noexcept;

// The same for a submission, where some statuses mean something of their own. has_media: the
// submission named media.
[[nodiscard]] Refusal refusal_of_submission(uint32_t device_status, bool has_media) noexcept;

// How a request that the device held ended: phase is failed or cancelled, failure_status as in the
// reply. A 413 before the first byte of output is the input's.
[[nodiscard]] Refusal refusal_of_end(uint32_t phase, uint32_t failure_status,
                                     uint32_t output_bytes) noexcept;

// {"error":{"message","type","param","code"}}
void refusal_write(const Refusal& refusal, Text* text) noexcept;

// "Not Found" for 404; "Status" for what has no name here.
[[nodiscard]] std::string_view status_reason(uint32_t status) noexcept;

}  // namespace aotx
