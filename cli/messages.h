// Purpose:  messages out of files and command lines.
// Owns:     nothing.
// Thread:   main.
// Lifetime: not applicable.
#pragma once

#include <string>
#include <vector>

#include "cli/device.h"

namespace aotx::cli {

constexpr size_t kInputBytesMax = 1 << 20;  // far above what one packet holds

// A JSON array of {"role", "content"}; content is text or a list of text parts, which are joined.
// Throws Failure.
std::vector<ChatMessage> messages_of(const JsonValue& list, const std::string& what);

// The text of a message on the command line; "-" or nothing at all takes standard input unless that
// is a terminal. One newline at the end of standard input is not part of it. Throws Failure.
std::string message_text(const std::string& given);

// Throws Failure unless the text is UTF-8 and not empty.
void check_text(const std::string& text);

// Controls of a submission as options of a command.
struct ControlOptions {
    std::string model;
    std::string system;
    uint32_t tokens_max = 0;  // 0: not given
    double temperature = -1;  // below 0: not given
    double top_p = -1;        // below 0: not given
};
void add_control_options(Command* command, ControlOptions* options);
Submission submission_of(const ControlOptions& options);

}  // namespace aotx::cli
