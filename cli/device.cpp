// Purpose:  what both ways to the service share.
// Owns:     nothing.
// Thread:   main.
// Lifetime: not applicable.
#include "cli/device.h"

#include "aotx/handle.h"
#include "aotx/packet.h"
#include "cli/failure.h"
#include "service/base/base64.h"

namespace aotx::cli {

RequestState request_state(const JsonValue& document)
{
    RequestState state;
    state.state = document.text_of("state");
    state.cancel_requested = document.flag_of("cancel_requested");
    state.failure_status = static_cast<uint32_t>(document.number_of("status"));
    state.finish = document.text_of("finish_reason");
    if (const JsonValue* const usage = document.find("usage")) {
        state.prompt_tokens = usage->number_of("prompt_tokens");
        state.completion_tokens = usage->number_of("completion_tokens");
    }
    if (state.state.empty()) {
        throw Failure(kExitProtocol, "the service sent a request without a state");
    }
    return state;
}

std::string base64_member(const JsonValue& object, const char* name)
{
    const std::string text = object.text_of(name);
    std::vector<uint8_t> bytes(base64_bytes_max(text.size()));
    size_t bytes_count = 0;
    if (base64_decode(text.data(), text.size(), bytes.data(), &bytes_count) != AOTX_OK) {
        throw Failure(kExitProtocol, "the service sent output that is not base64");
    }
    return std::string(bytes.begin(), bytes.begin() + static_cast<long>(bytes_count));
}

void check_handle(const std::string& handle)
{
    uint64_t epoch = 0;
    uint8_t id[AOTX_ID_BYTES] = {};
    if (aotx_request_handle_parse(handle.data(), handle.size(), &epoch, id) != AOTX_OK) {
        throw Failure(kExitUsage, "a request handle is req-<16 hex digits>-<32 hex digits>");
    }
}

std::unique_ptr<Device> open_device(const ConnectionOptions& options)
{
    const std::optional<Config> config = find_config(options.config);
    if (!options.socket.empty() || options.direct) {
        return open_device_socket(options, config);
    }
    return open_device_http(options, config);
}

}  // namespace aotx::cli
