// Purpose:  the routes; see target.h.
// Owns:     nothing.
// Thread:   any.
// Lifetime: not applicable.
#include "target.h"

#include "aotx/handle.h"

namespace aotx {
namespace {

// A path is fixed, or it is "<before><handle><after>" with a handle that holds no slash.
struct RouteRow {
    std::string_view before;
    bool has_handle;
    std::string_view after;
    std::string_view allow;
    Route get;
    Route post;
    Route remove;
};

constexpr RouteRow kRoutes[] = {
    {"/healthz", false, "", "GET, HEAD", Route::Health, Route::None, Route::None},
    {"/aotx/v1/requests/", true, "", "GET, HEAD", Route::RequestRead, Route::None, Route::None},
    {"/v1/models", false, "", "GET, HEAD", Route::Models, Route::None, Route::None},
    {"/v1/chat/completions", false, "", "POST", Route::None, Route::ChatCompletions, Route::None},
    {"/aotx/v1/capabilities", false, "", "GET, HEAD", Route::Capabilities, Route::None,
     Route::None},
    {"/aotx/v1/requests", false, "", "POST", Route::None, Route::RequestCreate, Route::None},
    {"/aotx/v1/requests/", true, "/cancel", "POST", Route::None, Route::RequestCancel, Route::None},
    {"/aotx/v1/requests/", true, "/events", "GET", Route::RequestEvents, Route::None, Route::None},
    {"/aotx/v1/media", false, "", "GET, HEAD, POST", Route::MediaList, Route::MediaUpload,
     Route::None},
    {"/aotx/v1/media/import", false, "", "POST", Route::None, Route::MediaImport, Route::None},
    {"/aotx/v1/media/", true, "", "GET, HEAD, DELETE", Route::MediaRead, Route::None,
     Route::MediaRemove},
    {"/aotx/v1/telemetry", false, "", "GET, HEAD", Route::Telemetry, Route::None, Route::None},
    {"/aotx/v1/policy", false, "", "GET, HEAD, POST", Route::PolicyRead, Route::PolicyWrite,
     Route::None},
    {"/readyz", false, "", "GET, HEAD", Route::Ready, Route::None, Route::None},
    {"/metrics", false, "", "GET, HEAD", Route::Metrics, Route::None, Route::None},
};

bool row_matches(const RouteRow& row, std::string_view path, std::string_view* handle)
{
    if (!row.has_handle) {
        return path == row.before;
    }
    if (path.size() <= row.before.size() + row.after.size() ||
        path.substr(0, row.before.size()) != row.before ||
        path.substr(path.size() - row.after.size()) != row.after) {
        return false;
    }
    *handle = path.substr(row.before.size(), path.size() - row.before.size() - row.after.size());
    return handle->find('/') == std::string_view::npos;
}

Route route_of(const RouteRow& row, HttpMethod method)
{
    switch (method) {
        case HttpMethod::Get:
            return row.get;
        case HttpMethod::Head:
            return row.get == Route::RequestEvents ? Route::None : row.get;
        case HttpMethod::Post:
            return row.post;
        case HttpMethod::Delete:
            return row.remove;
        case HttpMethod::Other:
            break;
    }
    return Route::None;
}

}  // namespace

Target target_find(HttpMethod method, std::string_view path) noexcept
{
    Target target;
    for (const RouteRow& row : kRoutes) {
        std::string_view handle;
        if (row_matches(row, path, &handle)) {
            target.route = route_of(row, method);
            target.method_wrong = target.route == Route::None;
            target.allow = row.allow;
            target.handle = handle;
            break;
        }
    }
    return target;
}

BodyKind route_body(Route route) noexcept
{
    switch (route) {
        case Route::ChatCompletions:
        case Route::RequestCreate:
        case Route::RequestCancel:
        case Route::MediaImport:
        case Route::PolicyWrite:
            return BodyKind::Json;
        case Route::MediaUpload:
            return BodyKind::Media;
        default:
            return BodyKind::None;
    }
}

bool route_is_open(Route route) noexcept
{
    return route == Route::Health || route == Route::Ready;
}

int query_read(Route route, const HttpHead& head, bool* has_cursor, uint64_t* cursor) noexcept
{
    constexpr std::string_view key = "cursor=";
    if (!head.has_query) {
        return AOTX_OK;
    }
    const bool takes_cursor =
        route == Route::RequestRead || route == Route::RequestEvents || route == Route::MediaList;
    if (!takes_cursor || head.query.substr(0, key.size()) != key) {
        return AOTX_ERR_SYNTAX;
    }
    // A second key would need an "&", which is no digit.
    const std::string_view value = head.query.substr(key.size());
    if (aotx_decimal_parse(value.data(), value.size(), cursor) != AOTX_OK) {
        return AOTX_ERR_SYNTAX;
    }
    *has_cursor = true;
    return AOTX_OK;
}

}  // namespace aotx
