// Purpose:  `aotxctl chat`: a conversation on a terminal, or one question and its answer.
// Owns:     the conversation.
// Thread:   main.
// Lifetime: one run.
#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include <cstring>

#include "aotx/packet.h"
#include "cli/connection.h"
#include "cli/context.h"
#include "cli/device.h"
#include "cli/failure.h"
#include "cli/interrupt.h"
#include "cli/messages.h"
#include "cli/terminal.h"
#include "service/base/clock.h"

namespace aotx::cli {
namespace {

struct ChatArguments {
    ConnectionOptions connection;
    ControlOptions controls;
    std::string message;
    std::string message_option;
    bool raw = false;
    bool stats = false;
};

// What one exchange came to.
struct Exchange {
    std::string handle;
    std::string text;
    RequestState end;
    double first_seconds = 0;
    double all_seconds = 0;
};

double seconds_since(uint64_t start_ns)
{
    return static_cast<double>(clock_monotonic_ns() - start_ns) / 1e9;
}

// Submit the conversation and stream the answer. Ctrl-C cancels exactly this request and waits for
// its end; a second one leaves at once.
Exchange exchange(Device* device, const Submission& submission, TextSink* sink)
{
    const uint64_t start_ns = clock_monotonic_ns();
    Exchange result;
    const std::string admission = device->submit(submission);
    const JsonDocument document(admission, kExitProtocol, "the admission");
    result.handle = document.root().text_of("id");
    check_handle(result.handle);
    int interrupts = 0;
    const auto interrupted = [&]() {
        interrupts++;
        if (interrupts > 1) {
            return false;
        }
        (void)device->cancel(result.handle);
        return true;
    };
    result.end = device->watch(
        result.handle, 0,
        [&](const WatchEvent& event) {
            if (!event.is_emission) {
                return;
            }
            if (result.text.empty()) {
                result.first_seconds = seconds_since(start_ns);
            }
            result.text += event.bytes;
            if (sink != nullptr) {
                sink->write(event.bytes);
            }
        },
        interrupted);
    result.all_seconds = seconds_since(start_ns);
    return result;
}

void print_stats(const Exchange& result)
{
    std::fprintf(stderr,
                 "aotxctl: %llu prompt tokens, %llu sampled, first text %.3f s, all %.3f s\n",
                 static_cast<unsigned long long>(result.end.prompt_tokens),
                 static_cast<unsigned long long>(result.end.completion_tokens),
                 result.first_seconds, result.all_seconds);
}

// Say on standard error why an answer is not whole.
void print_end(const RequestState& end)
{
    if (end.state == "cancelled") {
        notice("cancelled");
    } else if (end.state == "failed") {
        notice("the request failed [" + std::to_string(end.failure_status) + "]");
    } else if (end.finish == "length" && is_terminal(STDERR_FILENO)) {
        notice("the answer was cut at the token limit");
    }
}

void print_exchange_json(const Exchange& result)
{
    JsonWriter json;
    json.begin_object().key("schema").text("aotxctl.chat.v1").key("id").text(result.handle);
    json.key("state").text(result.end.state).key("status").number(result.end.failure_status);
    json.key("finish_reason");
    result.end.finish.empty() ? json.null() : json.text(result.end.finish);
    json.key("usage").begin_object().key("prompt_tokens").number(result.end.prompt_tokens);
    json.key("completion_tokens").number(result.end.completion_tokens).end_object();
    json.key("text").text(result.text).end_object();
    print_json(json.str());
    flush_output();
}

// One answer to standard output in the form that the options ask for.
Exchange answer(const Context& context, const ChatArguments& arguments, Device* device,
                const Submission& submission)
{
    TextSink sink(stdout, arguments.raw);
    Exchange result = exchange(device, submission, context.json ? nullptr : &sink);
    sink.finish();
    if (context.json) {
        print_exchange_json(result);
    } else {
        print_text(sink.at_line_start() && !result.text.empty() ? "" : "\n");
        flush_output();
    }
    if (arguments.stats) {
        print_stats(result);
    }
    if (!context.json) {
        print_end(result.end);
    }
    return result;
}

// Reads lines of a terminal, and notices Ctrl-C while it waits.
class LineReader {
public:
    enum class Got { Line, End, Interrupt };

    Got next(std::string* line)
    {
        for (;;) {
            const size_t newline = buffer_.find('\n');
            if (newline != std::string::npos) {
                *line = buffer_.substr(0, newline);
                buffer_.erase(0, newline + 1);
                return Got::Line;
            }
            pollfd ready[2] = {{STDIN_FILENO, POLLIN, 0}, {interrupt_descriptor(), POLLIN, 0}};
            const int polled = ::poll(ready, 2, -1);
            if (take_interrupt()) {
                return Got::Interrupt;
            }
            if (polled <= 0 || ready[0].revents == 0) {
                continue;
            }
            char piece[4096];
            const ssize_t got = ::read(STDIN_FILENO, piece, sizeof piece);
            if (got < 0 && errno == EINTR) {
                continue;
            }
            if (got <= 0) {
                return Got::End;
            }
            buffer_.append(piece, static_cast<size_t>(got));
        }
    }

private:
    std::string buffer_;
};

void prompt()
{
    if (!is_terminal(STDERR_FILENO)) {
        return;
    }
    std::fputs(takes_colour(STDERR_FILENO) ? "\x1b[1m> \x1b[0m" : "> ", stderr);
}

// Keep the number of messages within what one submission takes: the oldest exchange goes first,
// the system message stays.
void trim(std::vector<ChatMessage>* messages)
{
    const size_t fixed = !messages->empty() && messages->front().role == "system" ? 1 : 0;
    while (messages->size() > AOTX_SUBMIT_MESSAGES_MAX && messages->size() >= fixed + 2) {
        messages->erase(messages->begin() + static_cast<long>(fixed),
                        messages->begin() + static_cast<long>(fixed) + 2);
        notice("the oldest exchange is forgotten: a conversation holds 64 messages");
    }
}

// One turn of a conversation. An exchange that failed leaves no trace in it, so that the next line
// starts from what both sides know.
void turn(const Context& context, const ChatArguments& arguments, Device* device,
          Submission* conversation, const std::string& line)
{
    try {
        check_text(line);
        conversation->messages.push_back({"user", line});
        trim(&conversation->messages);
        const Exchange result = answer(context, arguments, device, *conversation);
        if (result.text.empty() || result.end.state == "failed") {
            conversation->messages.pop_back();
            return;
        }
        // An answer that was cut may end inside a character, and no message may.
        conversation->messages.push_back({"assistant", utf8_repaired(result.text)});
    } catch (const Failure& failure) {
        if (failure.code() == kExitInterrupted || failure.code() == kExitUnauthorized) {
            throw;
        }
        if (!conversation->messages.empty() && conversation->messages.back().role == "user") {
            conversation->messages.pop_back();
        }
        notice(failure.what());
        if (failure.code() == kExitTooLarge) {
            notice("the conversation has grown too long; /clear starts a new one");
        }
    }
}

int converse(const Context& context, const ChatArguments& arguments, Device* device,
             Submission conversation)
{
    const std::vector<ChatMessage> opening = conversation.messages;
    LineReader reader;
    if (is_terminal(STDERR_FILENO)) {
        std::fputs(
            "/clear forgets the conversation, /exit or Ctrl-D ends, Ctrl-C stops an answer\n",
            stderr);
    }
    for (;;) {
        std::string line;
        prompt();
        const LineReader::Got got = reader.next(&line);
        if (got != LineReader::Got::Line) {
            std::fputs(is_terminal(STDERR_FILENO) ? "\n" : "", stderr);
            return got == LineReader::Got::End ? kExitDone : kExitInterrupted;
        }
        if (!line.empty() && line.back() == '\r') {
            line.pop_back();
        }
        if (line == "/exit" || line == "/quit") {
            return kExitDone;
        }
        if (line == "/clear") {
            conversation.messages = opening;
        } else if (line.find_first_not_of(" \t") != std::string::npos) {
            turn(context, arguments, device, &conversation, line);
        }
    }
}

int chat(const Context& context, const ChatArguments& arguments)
{
    Submission conversation = submission_of(arguments.controls);
    if (!arguments.message.empty() && !arguments.message_option.empty()) {
        throw Failure(kExitUsage, "one message, as an argument or with --message");
    }
    const std::string given =
        arguments.message.empty() ? arguments.message_option : arguments.message;
    if (given.empty() && is_terminal(STDIN_FILENO)) {
        catch_interrupts();
        const std::unique_ptr<Device> device = open_device(arguments.connection);
        return converse(context, arguments, device.get(), std::move(conversation));
    }
    conversation.messages.push_back({"user", message_text(given)});
    catch_interrupts();
    const std::unique_ptr<Device> device = open_device(arguments.connection);
    const Exchange result = answer(context, arguments, device.get(), conversation);
    return exit_code_of_end(result.end.state.c_str(), result.end.failure_status);
}

}  // namespace

void add_chat_command(Command& program, Context& context)
{
    const auto arguments = std::make_shared<ChatArguments>();
    Command command =
        program.add(context, "chat", "talk with a model; the answer appears as it is made",
                    "  aotxctl chat\n"
                    "  aotxctl chat 'What is the capital of France?'\n"
                    "  git diff | aotxctl chat --system 'Describe this change in one line'\n"
                    "  aotxctl chat --message 'Hello' --json --temperature 0\n",
                    [&context, arguments]() { return chat(context, *arguments); });
    command.option("message", &arguments->message, "ask this and end; - is standard input");
    command.option("-m,--message", &arguments->message_option, "the same as an option");
    command.flag("--raw", &arguments->raw, "let control bytes reach the terminal");
    command.flag("--stats", &arguments->stats, "tokens and times on standard error");
    add_control_options(&command, &arguments->controls);
    add_connection_options(&command, &arguments->connection);
}

}  // namespace aotx::cli
