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
// command.h declares void add_model_command(CLI::App& app, Context& context) in this namespace;
// the build notices the folder, links it and defines AOTX_CLI_MODEL.
void add_commands(CLI::App& app, Context& context)
{
    //    add_chat_command(app, context);
    //    add_request_commands(app, context);
    //    add_service_commands(app, context);
    add_chat_command(app, context);
    add_request_commands(app, context);
    add_service_commands(app, context);
    add_token_command(app, context);
    add_grants_command(app, context);
    add_packet_command(app, context);
    add_check_command(app, context);
#ifdef AOTX_CLI_MODEL
    add_model_command(app, context);
#endif
}

// Help goes to standard output and is done; a wrong command line is one line on standard error.
int usage_end(const CLI::App& app, const CLI::ParseError& error)
{
    if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {
        return app.exit(error, std::cout, std::cerr) == 0 ? kExitDone : kExitInternal;
    }
    notice(std::string(error.what()) + " ('aotxctl --help' shows how)");
    return kExitUsage;
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
    CLI::App app("aotxctl: talk to an aotx device, and prepare what it needs.", "aotxctl");
    app.set_version_flag("--version", std::string("aotxctl ") + AOTX_VERSION);
    app.footer(kExitText);
    app.require_subcommand(1);
    add_commands(app, context);
    try {
        app.parse(argc, argv);
        flush_output();
    } catch (const CLI::ParseError& error) {
        return usage_end(app, error);
    } catch (const Failure& failure) {
        report(context, failure);
        return failure.code();
    }
    return context.exit_code;
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
