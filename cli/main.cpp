// Purpose:  aotxctl: parse the command line, run one command, turn what it says into an exit code.
// Owns:     nothing.
// Thread:   main.
// Lifetime: the process.
#include <signal.h>

#include <cstdio>
#include <exception>

#include "cli/context.h"
#include "cli/failure.h"
#include "cli/terminal.h"
#ifdef AOTX_CLI_MODEL
#include "cli/model/command.h"
#endif

namespace aotx::cli {
namespace {

constexpr const char* kExitText =
    "Exit codes:\n"
    "  0 done, 1 internal, 2 usage, 3 bad input or configuration, 4 unreachable, 5 bad answer,\n"
    "  10 refused, 11 no authority, 12 not found, 13 conflict, 14 ended epoch, 15 too large,\n"
    "  16 busy, 17 unavailable, 18 time limit, 19 cancelled, 130 interrupted\n\n"
    "'aotxctl COMMAND --help' shows options and examples of one command.\n";

// The one list of commands. A family of commands that lives in a folder of its own registers here:
// `aotxctl model` is cli/model/, whose CMakeLists.txt defines the library aotx_cli_model and whose
// command.h declares void add_model_command(Command& program, Context& context) in this namespace;
// the build notices the folder, links it and defines AOTX_CLI_MODEL.
void add_commands(Command program, Context& context)
{
    add_chat_command(program, context);
    add_request_commands(program, context);
    add_service_commands(program, context);
    add_token_command(program, context);
    add_grants_command(program, context);
    add_packet_command(program, context);
    add_check_command(program, context);
#ifdef AOTX_CLI_MODEL
    add_model_command(program, context);
#endif
}

void report(const Context& context, const Failure& failure)
{
    std::fflush(stdout);
    if (context.json) {
        JsonWriter json;
        json.begin_object().key("error").begin_object();
        json.key("message").text(failure.what()).key("exit_code");
        json.number(static_cast<uint64_t>(failure.code())).key("status");
        failure.status() == 0 ? json.null() : json.number(failure.status());
        json.key("code");
        failure.name().empty() ? json.null() : json.text(failure.name());
        json.end_object().end_object();
        print_json(json.str());
        return;
    }
    notice(failure.what());
}

int run(int argc, char** argv)
{
    Context context;
    Program program("aotxctl", "aotxctl: talk to an aotx device, and prepare what it needs.",
                    AOTX_VERSION, kExitText);
    add_commands(program.root(), context);
    try {
        const int code = program.run(argc, argv, context);
        flush_output();
        return code;
    } catch (const Failure& failure) {
        report(context, failure);
        return failure.code();
    }
}

}  // namespace
}  // namespace aotx::cli

int main(int argc, char** argv)
{
    aotx::cli::keep_standard_descriptors();
    signal(SIGPIPE, SIG_IGN);
    try {
        return aotx::cli::run(argc, argv);
    } catch (const std::exception& error) {
        aotx::cli::notice(error.what());
        return aotx::cli::kExitInternal;
    }
}
