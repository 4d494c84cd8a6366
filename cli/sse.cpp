// Purpose:  the parser of event streams.
// Owns:     nothing.
// Thread:   main.
// Lifetime: not applicable.
#include "cli/sse.h"

namespace aotx::cli {
namespace {

constexpr size_t kEventBytesMax = 1 << 20;

}  // namespace

bool SseParser::feed(std::string_view bytes, const std::function<void(const SseEvent&)>& take)
{
    for (const char byte : bytes) {
        const bool second_half = skips_newline_ && byte == '\n';
        skips_newline_ = byte == '\r';
        if (second_half) {
            continue;
        }
        if (byte == '\r' || byte == '\n') {
            line(line_, take);
            line_.clear();
            continue;
        }
        line_ += byte;
        if (line_.size() + data_.size() > kEventBytesMax) {
            return false;
        }
    }
    return true;
}

void SseParser::line(std::string_view text, const std::function<void(const SseEvent&)>& take)
{
    if (text.empty()) {
        if (has_data_) {
            take({name_.empty() ? "message" : name_, id_, data_});
        }
        name_.clear();
        data_.clear();
        has_data_ = false;
        return;
    }
    const size_t colon = text.find(':');
    if (colon == 0) {
        return;
    }
    const std::string_view field = text.substr(0, colon);
    std::string_view value = colon == std::string_view::npos ? "" : text.substr(colon + 1);
    if (!value.empty() && value.front() == ' ') {
        value.remove_prefix(1);
    }
    if (field == "event") {
        name_ = value;
    } else if (field == "data") {
        data_ += has_data_ ? "\n" : "";
        data_ += value;
        has_data_ = true;
    } else if (field == "id" && value.find('\0') == std::string_view::npos) {
        id_ = value;
    }
}

}  // namespace aotx::cli
