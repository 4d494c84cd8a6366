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

std::string content_of(simdjson::dom::element message, const std::string& what)
{
    simdjson::dom::array parts;
    simdjson::dom::element content;
    if (message["content"].get(content) != simdjson::SUCCESS) {
        throw Failure(kExitInput, what + ": a message has no content");
    }
    if (content.get(parts) != simdjson::SUCCESS) {
        return json_text(message, "content");
    }
    std::string text;
    for (const simdjson::dom::element part : parts) {
        if (json_text(part, "type") != "text") {
            throw Failure(kExitInput, what + ": only text parts are understood here");
        }
        text += json_text(part, "text");
    }
    return text;
}

}  // namespace

std::vector<ChatMessage> messages_of(simdjson::dom::element list, const std::string& what)
{
    simdjson::dom::array entries;
    if (list.get(entries) != simdjson::SUCCESS) {
        throw Failure(kExitInput, what + " is no JSON array of messages");
    }
    std::vector<ChatMessage> messages;
    for (const simdjson::dom::element entry : entries) {
        const std::string role = json_text(entry, "role");
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

void add_control_options(CLI::App* command, ControlOptions* options)
{
    command->add_option("--model", options->model, "alias; default: the first that is offered");
    command->add_option("--system", options->system, "system message");
    command->add_option("--max-tokens", options->tokens_max, "most tokens of the answer")
        ->check(CLI::Range(1u, 4294967295u));
    command->add_option("--temperature", options->temperature, "0..2")->check(CLI::Range(0.0, 2.0));
    command->add_option("--top-p", options->top_p, "above 0 and up to 1")
        ->check(CLI::Range(0.0, 1.0));
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
