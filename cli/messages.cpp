// Purpose:  read messages.
// Owns:     nothing.
// Thread:   main.
// Lifetime: not applicable.
#include "cli/messages.h"

#include <unistd.h>

#include "aotx/submit.h"
#include "cli/context.h"
#include "cli/failure.h"
#include "cli/terminal.h"

namespace aotx::cli {
namespace {

std::string content_of(const JsonValue& message, const std::string& what)
{
    const JsonValue* const content = message.find("content");
    if (content == nullptr) {
        throw Failure(kExitInput, what + ": a message has no content");
    }
    if (!content->is_list()) {
        return content->text;
    }
    std::string text;
    for (const JsonValue& part : content->items) {
        if (part.text_of("type") != "text") {
            throw Failure(kExitInput, what + ": only text parts are understood here");
        }
        text += part.text_of("text");
    }
    return text;
}

}  // namespace

std::vector<ChatMessage> messages_of(const JsonValue& list, const std::string& what)
{
    if (!list.is_list()) {
        throw Failure(kExitInput, what + " is no JSON array of messages");
    }
    std::vector<ChatMessage> messages;
    for (const JsonValue& entry : list.items) {
        const std::string role = entry.text_of("role");
        if (role != "system" && role != "user" && role != "assistant") {
            throw Failure(kExitInput, what + ": a role is system, user or assistant");
        }
        messages.push_back({role, content_of(entry, what)});
    }
    return messages;
}

std::string message_text(const std::string& given)
{
    std::string text = given;
    if (given.empty() || given == "-") {
        if (given.empty() && is_terminal(STDIN_FILENO)) {
            throw Failure(kExitUsage, "what to say? a message, or - for standard input");
        }
        text = read_input(kInputBytesMax);
        if (!text.empty() && text.back() == '\n') {
            text.pop_back();
        }
    }
    check_text(text);
    return text;
}

void check_text(const std::string& text)
{
    if (text.empty()) {
        throw Failure(kExitUsage, "the message is empty");
    }
    if (!aotx_utf8_is_valid(reinterpret_cast<const uint8_t*>(text.data()), text.size())) {
        throw Failure(kExitUsage, "the message is not UTF-8");
    }
}

void add_control_options(Command* command, ControlOptions* options)
{
    command->option("--model", &options->model, "alias; default: the first that is offered");
    command->option("--system", &options->system, "system message");
    command->option("--max-tokens", &options->tokens_max, "most tokens of the answer")
        .range(1, 4294967295.0);
    command->option("--temperature", &options->temperature, "0..2").range(0, 2);
    command->option("--top-p", &options->top_p, "above 0 and up to 1").range(0, 1);
}

Submission submission_of(const ControlOptions& options)
{
    Submission submission;
    submission.model = options.model;
    if (options.tokens_max != 0) {
        submission.tokens_max = options.tokens_max;
    }
    if (options.temperature >= 0) {
        submission.temperature = options.temperature;
    }
    if (options.top_p == 0) {
        throw Failure(kExitUsage, "--top-p is above 0");
    }
    if (options.top_p > 0) {
        submission.top_p = options.top_p;
    }
    if (!options.system.empty()) {
        check_text(options.system);
        submission.messages.push_back({"system", options.system});
    }
    return submission;
}

}  // namespace aotx::cli
