// Purpose:  `aotxctl submit`, `read`, `watch` and `cancel`: requests by their handles.
// Owns:     nothing.
// Thread:   main.
// Lifetime: not applicable.
#include <unistd.h>

#include "aotx/handle.h"
#include "aotx/packet.h"
#include "cli/connection.h"
#include "cli/context.h"
#include "cli/device.h"
#include "cli/failure.h"
#include "cli/interrupt.h"
#include "cli/messages.h"
#include "cli/terminal.h"

namespace aotx::cli {
namespace {

struct SubmitArguments {
    ConnectionOptions connection;
    ControlOptions controls;
    std::string message;
    std::string messages_file;
    std::string body_file;
};

struct HandleArguments {
    ConnectionOptions connection;
    std::string handle;
    uint64_t cursor = 0;
    bool raw = false;
};

int submit(const Context& context, const SubmitArguments& arguments)
{
    std::string document;
    if (!arguments.body_file.empty()) {
        const std::string body = read_source(arguments.body_file, size_t{8} << 20);
        const JsonDocument parsed(body, kExitInput, arguments.body_file);
        document = open_device(arguments.connection)->submit_body(body);
    } else {
        Submission submission = submission_of(arguments.controls);
        if (arguments.messages_file.empty()) {
            submission.messages.push_back({"user", message_text(arguments.message)});
        } else {
            const std::string text = read_source(arguments.messages_file, kInputBytesMax);
            const JsonDocument parsed(text, kExitInput, arguments.messages_file);
            for (ChatMessage& message : messages_of(parsed.root(), arguments.messages_file)) {
                submission.messages.push_back(std::move(message));
            }
        }
        document = open_device(arguments.connection)->submit(submission);
    }
    const JsonDocument admission(document, kExitProtocol, "the admission");
    const std::string handle = admission.root().text_of("id");
    check_handle(handle);
    context.json ? print_json(admission.minified()) : print_text(handle + "\n");
    return kExitDone;
}

int read(const Context& context, const HandleArguments& arguments)
{
    check_handle(arguments.handle);
    const std::unique_ptr<Device> device = open_device(arguments.connection);
    if (context.json) {
        print_document(context, device->read(arguments.handle, arguments.cursor), "the request");
        return kExitDone;
    }
    TextSink sink(stdout, arguments.raw);
    uint64_t cursor = arguments.cursor;
    uint64_t total = 0;
    RequestState state;
    do {
        const std::string text = device->read(arguments.handle, cursor);
        const JsonDocument document(text, kExitProtocol, "the request");
        const JsonValue* const output = document.root().find("output");
        if (output == nullptr) {
            throw Failure(kExitProtocol, "the request has no output window");
        }
        const std::string bytes = base64_member(*output, "bytes");
        const uint64_t next = output->number_of("next_cursor");
        total = output->number_of("total_bytes");
        if (next != cursor + bytes.size() || (next == cursor && next < total)) {
            throw Failure(kExitProtocol, "the output window contradicts itself");
        }
        sink.write(bytes);
        cursor = next;
        state = request_state(document.root());
    } while (cursor < total);
    sink.finish();
    if (is_terminal(STDERR_FILENO)) {
        std::fprintf(stderr, "%s[%s, %llu tokens]\n", sink.at_line_start() ? "" : "\n",
                     escape_controls(state.state, false).c_str(),
                     static_cast<unsigned long long>(state.completion_tokens));
    }
    return kExitDone;
}

// "<handle>:<cursor>" says both; a cursor of its own must not be given then.
void split_event(HandleArguments* arguments)
{
    uint64_t epoch = 0;
    uint64_t cursor = 0;
    uint8_t id[AOTX_ID_BYTES] = {};
    const std::string& text = arguments->handle;
    if (aotx_event_handle_parse(text.data(), text.size(), &epoch, id, &cursor) != AOTX_OK) {
        return;
    }
    if (arguments->cursor != 0) {
        throw Failure(kExitUsage, "the handle names a cursor already");
    }
    arguments->cursor = cursor;
    arguments->handle.resize(AOTX_REQUEST_HANDLE_CHARACTERS);
}

int watch(const Context& context, HandleArguments arguments)
{
    split_event(&arguments);
    check_handle(arguments.handle);
    catch_interrupts();
    const std::unique_ptr<Device> device = open_device(arguments.connection);
    TextSink sink(stdout, arguments.raw);
    const auto take = [&](const WatchEvent& event) {
        if (context.json) {
            print_json(event.document);
            flush_output();
        } else if (event.is_emission) {
            sink.write(event.bytes);
        }
    };
    // Watching ends with Ctrl-C; the request goes on, as it does when a reader leaves.
    const RequestState end =
        device->watch(arguments.handle, arguments.cursor, take, []() { return false; });
    sink.finish();
    if (!context.json && is_terminal(STDOUT_FILENO) && !sink.at_line_start()) {
        print_text("\n");
    }
    return exit_code_of_end(end.state.c_str(), end.failure_status);
}

int cancel(const Context& context, const HandleArguments& arguments)
{
    check_handle(arguments.handle);
    const std::string text = open_device(arguments.connection)->cancel(arguments.handle);
    const JsonDocument document(text, kExitProtocol, "the request");
    if (context.json) {
        print_json(document.minified());
        return kExitDone;
    }
    const RequestState state = request_state(document.root());
    const bool coming = state.cancel_requested && !state.is_terminal();
    print_text(escape_controls(state.state, false) +
               (coming ? ", cancellation requested\n" : "\n"));
    return kExitDone;
}

void add_submit(Command& program, Context& context)
{
    const auto arguments = std::make_shared<SubmitArguments>();
    Command command =
        program.add(context, "submit", "admit a request and print its handle; does not wait",
                    "  aotxctl submit 'What is the capital of France?'\n"
                    "  aotxctl submit --messages conversation.json --max-tokens 64\n"
                    "  aotxctl watch $(aotxctl submit 'Tell me a story')\n",
                    [&context, arguments]() { return submit(context, *arguments); });
    command.option("message", &arguments->message, "what to say; - is standard input");
    command.option("--messages", &arguments->messages_file,
                   "JSON array of {\"role\",\"content\"}, or -");
    command.option("--file", &arguments->body_file,
                   "whole JSON body of POST /aotx/v1/requests, or -");
    add_control_options(&command, &arguments->controls);
    add_connection_options(&command, &arguments->connection);
}

void add_handle_command(Command& program, Context& context, const char* name, const char* about,
                        const char* examples, int (*run)(const Context&, HandleArguments))
{
    const auto arguments = std::make_shared<HandleArguments>();
    Command command = program.add(context, name, about, examples, [&context, arguments, run]() {
        return run(context, *arguments);
    });
    command.option("handle", &arguments->handle, "request handle").required();
    if (std::string(name) != "cancel") {
        command.option("--cursor", &arguments->cursor, "first output byte");
        command.flag("--raw", &arguments->raw, "let control bytes reach the terminal");
    }
    add_connection_options(&command, &arguments->connection);
}

}  // namespace

void add_request_commands(Command& program, Context& context)
{
    add_submit(program, context);
    add_handle_command(program, context, "read", "the output that is there now",
                       "  aotxctl read $HANDLE\n  aotxctl read $HANDLE --cursor 100 --json\n",
                       [](const Context& c, HandleArguments a) { return read(c, a); });
    add_handle_command(program, context, "watch",
                       "follow a request to its end, through lost connections",
                       "  aotxctl watch $HANDLE\n  aotxctl watch $HANDLE:100 --json\n",
                       [](const Context& c, HandleArguments a) { return watch(c, std::move(a)); });
    add_handle_command(program, context, "cancel", "end a request; harmless when it has ended",
                       "  aotxctl cancel $HANDLE\n",
                       [](const Context& c, HandleArguments a) { return cancel(c, a); });
}

}  // namespace aotx::cli
