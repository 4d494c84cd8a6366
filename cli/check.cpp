// Purpose:  `aotxctl check`: judge a configuration and print the memory it will take; starts
//           nothing that serves.
// Owns:     nothing.
// Thread:   main.
// Lifetime: not applicable.
//
// The device program itself counts the budget (aotxd --check), so that the two cannot differ.
#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include <climits>
#include <cstring>
#include <memory>

#include "cli/connection.h"
#include "cli/context.h"
#include "cli/failure.h"
#include "cli/terminal.h"

namespace aotx::cli {
namespace {

struct CheckArguments {
    std::string config;
    std::string program;
};

std::string device_program(const std::string& given)
{
    if (!given.empty()) {
        return given;
    }
    char self[PATH_MAX];
    const ssize_t length = ::readlink("/proc/self/exe", self, sizeof self);
    if (length > 0 && length < static_cast<ssize_t>(sizeof self)) {
        const std::string path(self, static_cast<size_t>(length));
        const std::string beside = path.substr(0, path.rfind('/') + 1) + "aotxd";
        if (::access(beside.c_str(), X_OK) == 0) {
            return beside;
        }
    }
    return "aotxd";
}

// Run the device program and wait; its output is the command's output.
int run_check(const std::string& program, const std::string& config, bool json)
{
    std::vector<const char*> words = {program.c_str(), "--check", "--config", config.c_str()};
    if (json) {
        words.push_back("--json");
    }
    words.push_back(nullptr);
    std::fflush(stdout);
    const pid_t child = ::fork();
    if (child < 0) {
        throw Failure(kExitInternal, std::string("fork: ") + std::strerror(errno));
    }
    if (child == 0) {
        ::execvp(words[0], const_cast<char* const*>(words.data()));
        ::_exit(127);
    }
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127) {
        throw Failure(kExitUnavailable, program + " cannot be run; --program names it");
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? kExitDone : kExitInput;
}

int check(const Context& context, const CheckArguments& arguments)
{
    const std::string path = config_path(arguments.config);
    // Judged here first: a wrong line is named even where the device program is not installed.
    (void)need_config(arguments.config);
    return run_check(device_program(arguments.program), path, context.json);
}

}  // namespace

void add_check_command(Command& program, Context& context)
{
    const auto arguments = std::make_shared<CheckArguments>();
    Command command = program.add(
        context, "check", "judge a configuration and print its memory budget; starts nothing",
        "  aotxctl check --config aotx.toml\n  aotxctl check --config aotx.toml --json\n",
        [&context, arguments]() { return check(context, *arguments); });
    command.option("--config", &arguments->config, "configuration, or $AOTX_CONFIG");
    command.option("--program", &arguments->program, "aotxd; default: the one beside aotxctl");
}

}  // namespace aotx::cli
