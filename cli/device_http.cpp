// Purpose:  the service through its gateway.
// Owns:     the HTTP client.
// Thread:   main.
// Lifetime: one per command.
#include <algorithm>
#include <cstring>

#include "aotx/submit.h"
#include "cli/device.h"
#include "cli/failure.h"
#include "cli/http.h"
#include "cli/interrupt.h"
#include "cli/sse.h"

namespace aotx::cli {
namespace {

constexpr int kReconnectsMax = 10;  // in a row, without a byte of news
constexpr int kReconnectMilliseconds = 50;
constexpr int kReconnectMillisecondsMax = 1000;

// The error that an answer carries, as a Failure.
Failure failure_of(const HttpAnswer& answer, const std::string& base)
{
    if (answer.status == 0) {
        return Failure(kExitUnreachable, base + ": " + answer.failure);
    }
    std::string message = "HTTP status " + std::to_string(answer.status);
    std::string name;
    try {
        const JsonDocument document(answer.body, kExitProtocol, "the error");
        if (const JsonValue* const error = document.root().find("error")) {
            name = error->text_of("code");
            const std::string parameter = error->text_of("param");
            message = error->text_of("message", message);
            message += parameter.empty() ? "" : " (" + parameter + ")";
        }
    } catch (const Failure&) {
        // An answer that is no error document still has its status.
    }
    const uint32_t status = static_cast<uint32_t>(answer.status);
    message += " [" + std::to_string(status) + (name.empty() ? "" : " " + name) + "]";
    return Failure(exit_code_of_status(status), message, status, name);
}

class HttpDevice : public Device {
public:
    HttpDevice(const std::string& base, const std::string& token, const std::string& ca_file)
        : client_(base, token, ca_file), has_token_(!token.empty())
    {
    }

    // Alive and ready are two questions; a service without the second answers only the first.
    std::string health() override
    {
        (void)get("/healthz", 200);
        HttpAnswer ready = client_.call("GET", "/readyz", nullptr);
        JsonWriter json;
        json.begin_object().key("status").text("ok");
        if (ready.status != 404) {
            const std::string text = checked(std::move(ready), 200);
            const JsonDocument document(text, kExitProtocol, "the readiness answer");
            const JsonValue* const device = document.root().find("device");
            if (device != nullptr) {
                json.key("device").text(document.root().text_of("device"));
            }
        }
        return json.end_object().str();
    }
    std::string models() override { return get("/v1/models", 200); }
    std::string capabilities() override { return get("/aotx/v1/capabilities", 200); }
    std::string telemetry() override { return get("/aotx/v1/telemetry", 200); }

    std::string submit(const Submission& submission) override
    {
        return submit_body(body_of(submission));
    }

    std::string submit_body(const std::string& body) override
    {
        return post("/aotx/v1/requests", body, 202);
    }

    std::string read(const std::string& handle, uint64_t cursor) override
    {
        const std::string query = cursor == 0 ? "" : "?cursor=" + std::to_string(cursor);
        return get("/aotx/v1/requests/" + handle + query, 200);
    }

    std::string cancel(const std::string& handle) override
    {
        return post("/aotx/v1/requests/" + handle + "/cancel", "{}", 200);
    }

    RequestState watch(const std::string& handle, uint64_t cursor,
                       const std::function<void(const WatchEvent&)>& take,
                       const std::function<bool()>& interrupted) override;

private:
    std::string get(const std::string& path, long want)
    {
        HttpAnswer answer = client_.call("GET", path, nullptr);
        return checked(std::move(answer), want);
    }

    std::string post(const std::string& path, const std::string& body, long want)
    {
        HttpAnswer answer = client_.call("POST", path, &body);
        return checked(std::move(answer), want);
    }

    std::string checked(HttpAnswer answer, long want)
    {
        // Any success is one: a later version may answer 200 where this one answers 202.
        const bool success = answer.status >= 200 && answer.status < 300 && answer.failure.empty();
        if (answer.status == 401 && !has_token_) {
            throw Failure(kExitUnauthorized,
                          "no token; --token-file, $AOTX_TOKEN, $AOTX_TOKEN_FILE or a file named "
                          "token beside the configuration holds it [401 invalid_api_key]",
                          401, "invalid_api_key");
        }
        if (!success || (answer.status != want && answer.body.empty())) {
            throw failure_of(answer, client_.base());
        }
        return std::move(answer.body);
    }

    std::string body_of(const Submission& submission);

    HttpClient client_;
    bool has_token_;
    std::string first_model_;
};

std::string HttpDevice::body_of(const Submission& submission)
{
    std::string model = submission.model.empty() ? first_model_ : submission.model;
    if (model.empty()) {
        const JsonDocument document(models(), kExitProtocol, "the list of models");
        const JsonValue* const list = document.root().find("data");
        if (list == nullptr || list->items.empty()) {
            throw Failure(kExitNotFound, "the service offers no model to this token");
        }
        first_model_ = list->items[0].text_of("id");
        model = first_model_;
    }
    JsonWriter json;
    json.begin_object().key("model").text(model).key("messages").begin_array();
    for (const ChatMessage& message : submission.messages) {
        json.begin_object().key("role").text(message.role);
        json.key("content").text(message.text).end_object();
    }
    json.end_array();
    if (submission.tokens_max) {
        json.key("max_tokens").number(*submission.tokens_max);
    }
    if (submission.temperature) {
        json.key("temperature").real(*submission.temperature);
    }
    if (submission.top_p) {
        json.key("top_p").real(*submission.top_p);
    }
    return json.end_object().str();
}

// One watch over any number of connections.
class EventFollower {
public:
    EventFollower(HttpClient* client, std::string handle, uint64_t cursor,
                  const std::function<void(const WatchEvent&)>& take,
                  const std::function<bool()>& interrupted)
        : client_(client),
          handle_(std::move(handle)),
          cursor_(cursor),
          take_(take),
          interrupted_(interrupted)
    {
    }

    RequestState follow()
    {
        int failures = 0;
        for (;;) {
            const HttpAnswer answer = connect_once();
            if (state_.is_terminal()) {
                return state_;
            }
            failures = has_news_ ? 0 : failures + 1;
            // 429 and 5xx pass with time, as a lost connection may; every other refusal is final.
            const bool final = answer.status >= 300 && answer.status < 500 && answer.status != 429;
            const int failures_max = has_connected_ ? kReconnectsMax : 0;
            if (final || failures > failures_max) {
                throw final || answer.status >= 300 ? failure_of(answer, client_->base())
                                                    : lost(answer);
            }
            pause(failures, answer.retry_after_seconds);
        }
    }

private:
    Failure lost(const HttpAnswer& answer) const
    {
        const std::string reason =
            answer.failure.empty() ? "the stream ended early" : answer.failure;
        return Failure(kExitUnreachable, client_->base() + ": " + reason + "; resume with " +
                                             handle_ + ":" + std::to_string(cursor_));
    }

    HttpAnswer connect_once()
    {
        SseParser parser;
        std::vector<std::string> headers = {"Accept: text/event-stream"};
        std::string path = "/aotx/v1/requests/" + handle_ + "/events";
        has_news_ = false;
        // The first connection names its cursor, later ones the last event they have seen.
        if (has_event_) {
            headers.push_back("Last-Event-ID: " + handle_ + ":" + std::to_string(cursor_));
        } else if (cursor_ != 0) {
            path += "?cursor=" + std::to_string(cursor_);
        }
        const auto piece = [&](std::string_view bytes) {
            const bool ok = parser.feed(bytes, [&](const SseEvent& event) { on_event(event); });
            if (!ok) {
                throw Failure(kExitProtocol, "the service sent an endless event");
            }
            return !state_.is_terminal();
        };
        bool stopped = false;
        const HttpAnswer answer = client_->stream(path, headers, guarded(piece), [&]() {
            stopped = !interrupted_();
            return !stopped;
        });
        if (error_ != nullptr) {
            std::rethrow_exception(error_);
        }
        if (stopped) {
            throw Failure(kExitInterrupted, "interrupted");
        }
        has_connected_ = has_connected_ || answer.status == 200;
        return answer;
    }

    // curl is C and must not see an exception: it is kept and thrown behind it.
    std::function<bool(std::string_view)> guarded(std::function<bool(std::string_view)> piece)
    {
        return [this, piece = std::move(piece)](std::string_view bytes) {
            try {
                return piece(bytes);
            } catch (...) {
                error_ = std::current_exception();
                return false;
            }
        };
    }

    void on_event(const SseEvent& event)
    {
        if (state_.is_terminal()) {
            return;
        }
        if (event.name == "emission") {
            emission(event);
        } else if (event.name == "status") {
            const JsonDocument document(event.data, kExitProtocol, "a status event");
            WatchEvent seen;
            seen.document = event.data;
            seen.state = request_state(document.root());
            seen.next_cursor = cursor_;
            // A new connection repeats the state; only a change is news.
            has_news_ = has_news_ || state_.state != seen.state.state;
            state_ = seen.state;
            take_(seen);
        } else if (event.name == "error") {
            HttpAnswer answer;
            answer.status = AOTX_STATUS_UNAVAILABLE;
            answer.body = event.data;
            throw failure_of(answer, client_->base());
        }
    }

    void emission(const SseEvent& event)
    {
        const JsonDocument document(event.data, kExitProtocol, "an emission");
        const uint64_t offset = document.root().number_of("offset", UINT64_MAX);
        WatchEvent seen;
        seen.is_emission = true;
        seen.document = event.data;
        seen.bytes = base64_member(document.root(), "bytes");
        seen.next_cursor = document.root().number_of("next_cursor", UINT64_MAX);
        if (offset != cursor_ || seen.next_cursor != offset + seen.bytes.size()) {
            throw Failure(kExitProtocol, "the event stream skips or repeats output");
        }
        cursor_ = seen.next_cursor;
        has_event_ = true;
        has_news_ = true;
        take_(seen);
    }

    void pause(int failures, uint32_t retry_after_seconds)
    {
        int milliseconds = kReconnectMilliseconds << std::min(failures, 6);
        milliseconds = std::min(milliseconds, kReconnectMillisecondsMax);
        milliseconds = std::max(milliseconds, static_cast<int>(std::min(retry_after_seconds, 30u)) *
                                                  (failures > 0 ? 1000 : 0));
        if (wait_interrupt(milliseconds) && take_interrupt() && !interrupted_()) {
            throw Failure(kExitInterrupted, "interrupted");
        }
    }

    HttpClient* client_;
    std::string handle_;
    uint64_t cursor_;
    const std::function<void(const WatchEvent&)>& take_;
    const std::function<bool()>& interrupted_;
    RequestState state_;
    bool has_event_ = false;
    bool has_connected_ = false;
    bool has_news_ = false;
    std::exception_ptr error_;
};

RequestState HttpDevice::watch(const std::string& handle, uint64_t cursor,
                               const std::function<void(const WatchEvent&)>& take,
                               const std::function<bool()>& interrupted)
{
    return EventFollower(&client_, handle, cursor, take, interrupted).follow();
}

}  // namespace

std::unique_ptr<Device> open_device_http(const ConnectionOptions& options,
                                         const std::optional<Config>& config)
{
    return std::make_unique<HttpDevice>(find_url(options, config), find_token(options),
                                        options.ca_file);
}

}  // namespace aotx::cli
