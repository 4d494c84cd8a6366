// Purpose:  server-sent events, piece by piece as they arrive.
// Owns:     the unfinished line and event of each SseParser.
// Thread:   main.
// Lifetime: one connection each.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace aotx::cli {

struct SseEvent {
    std::string name;  // "message" when the stream names none
    std::string id;    // last ID that the stream has set
    std::string data;  // data lines, joined by newlines
};

// Follows the event stream format: LF, CR and CRLF end lines, comments and unknown fields are
// skipped, an event without data is dropped.
class SseParser {
public:
    // Feed bytes; take is called for every event that they complete. False when one line or event
    // exceeds the bound, after which the stream cannot be followed.
    [[nodiscard]] bool feed(std::string_view bytes,
                            const std::function<void(const SseEvent&)>& take);

private:
    void line(std::string_view text, const std::function<void(const SseEvent&)>& take);

    std::string line_;
    std::string name_;
    std::string id_;
    std::string data_;
    bool has_data_ = false;
    bool skips_newline_ = false;
};

}  // namespace aotx::cli
