// Purpose:  the service as the commands see it, whether it is reached through the gateway or
//           straight through service.sock. Both answer with the same JSON documents.
// Owns:     nothing; implementations own their connections.
// Thread:   main.
// Lifetime: one per command.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/connection.h"
#include "cli/json.h"

namespace aotx::cli {

struct ChatMessage {
    std::string role;  // system, user or assistant
    std::string text;  // UTF-8
};

// What is submitted: messages and controls, or a whole body that is passed on.
struct Submission {
    std::string model;  // alias; empty: the first that the grant permits
    std::vector<ChatMessage> messages;
    std::optional<uint32_t> tokens_max;
    std::optional<double> temperature;
    std::optional<double> top_p;
};

struct RequestState {
    std::string state;
    bool cancel_requested = false;
    uint32_t failure_status = 0;
    std::string finish;  // empty: none
    uint64_t prompt_tokens = 0;
    uint64_t completion_tokens = 0;

    bool is_terminal() const
    {
        return state == "completed" || state == "failed" || state == "cancelled";
    }
};

// Fields of an aotx.request.v1 document or a status event.
RequestState request_state(const JsonValue& document);

// One thing that a watched request did.
struct WatchEvent {
    bool is_emission = false;
    std::string document;  // the JSON as it came
    std::string bytes;     // of an emission
    uint64_t next_cursor = 0;
    RequestState state;  // of a status
};

// Every member throws Failure with the exit code that fits.
class Device {
public:
    virtual ~Device() = default;
    virtual std::string health() = 0;
    virtual std::string models() = 0;
    virtual std::string capabilities() = 0;
    virtual std::string telemetry() = 0;
    // Admit; the document is aotx.admission.v1.
    virtual std::string submit(const Submission& submission) = 0;
    // Admit a body of POST /aotx/v1/requests as it is.
    virtual std::string submit_body(const std::string& body) = 0;
    // aotx.request.v1 with the output window at the cursor.
    virtual std::string read(const std::string& handle, uint64_t cursor) = 0;
    virtual std::string cancel(const std::string& handle) = 0;
    // Follow a request from a cursor to its end, through lost connections. interrupted is called
    // for every Ctrl-C and may cancel; it returns false to stop watching, which throws Failure.
    virtual RequestState watch(const std::string& handle, uint64_t cursor,
                               const std::function<void(const WatchEvent&)>& take,
                               const std::function<bool()>& interrupted) = 0;
};

// Through service.sock with --socket or --direct, else through the gateway.
std::unique_ptr<Device> open_device(const ConnectionOptions& options);

std::unique_ptr<Device> open_device_http(const ConnectionOptions& options,
                                         const std::optional<Config>& config);
std::unique_ptr<Device> open_device_socket(const ConnectionOptions& options,
                                           const std::optional<Config>& config);

// Decode a base64 member; throws Failure when it is none.
std::string base64_member(const JsonValue& object, const char* name);

// Judge a handle before it is sent anywhere; throws Failure.
void check_handle(const std::string& handle);

}  // namespace aotx::cli
