// Purpose:  the routes: which path and method is which operation, and the query's strict form.
// Owns:     nothing.
// Thread:   any.
// Lifetime: not applicable.
#pragma once

#include <cstdint>
#include <string_view>

#include "aotx/status.h"
#include "http_head.h"

namespace aotx {

enum class Route : uint8_t {
    None,
    Health,
    Ready,
    Metrics,
    Models,
    ChatCompletions,
    Capabilities,
    RequestCreate,
    RequestRead,
    RequestCancel,
    RequestEvents,
    MediaUpload,
    MediaList,
    MediaImport,
    MediaRead,
    MediaRemove,
    Telemetry,
    PolicyRead,
    PolicyWrite
};

struct Target {
    Route route = Route::None;  // None: no such path
    bool method_wrong = false;  // the path exists, this method does not
    std::string_view allow;     // the methods that the path has
    std::string_view handle;    // of a request or media object, as it stands in the path
};

// Find the route of a path. A HEAD is taken as a GET whose answer has no body.
[[nodiscard]] Target target_find(HttpMethod method, std::string_view path) noexcept;

// Whether a route takes a body, and which.
enum class BodyKind : uint8_t { None, Json, Media };
[[nodiscard]] BodyKind route_body(Route route) noexcept;

// Whether a route is served without a credential.
[[nodiscard]] bool route_is_open(Route route) noexcept;

// Read "cursor=DECIMAL" where the route takes it. AOTX_OK; AOTX_ERR_SYNTAX: an unknown or repeated
// key, no decimal, or a query on a route without one.
[[nodiscard]] int query_read(Route route, const HttpHead& head, bool* has_cursor,
                             uint64_t* cursor) noexcept;

}  // namespace aotx
