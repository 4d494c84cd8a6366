// Purpose:  commands and options on CLI11.
// Owns:     nothing.
// Thread:   main.
// Lifetime: not applicable.
#include "cli/command.h"

#include <CLI/CLI.hpp>
#include <iostream>

#include "cli/context.h"
#include "cli/exit_codes.h"
#include "cli/terminal.h"

namespace aotx::cli {

Command Command::add(Context& context, const char* name, const char* about, const char* examples,
                     std::function<int()> run)
{
    CLI::App* const command = app_->add_subcommand(name, about);
    command->add_flag("--json", context.json, "print JSON on standard output");
    command->footer(std::string("Examples:\n") + examples);
    command->callback([&context, run = std::move(run)]() { context.exit_code = run(); });
    return Command(command);
}

Command Command::add_family(const char* name, const char* about)
{
    CLI::App* const family = app_->add_subcommand(name, about);
    family->require_subcommand(1);
    return Command(family);
}

Command& Command::flag(const char* names, bool* value, const char* about)
{
    last_ = app_->add_flag(names, *value, about);
    return *this;
}

Command& Command::option(const char* names, std::string* value, const char* about)
{
    last_ = app_->add_option(names, *value, about);
    return *this;
}

Command& Command::option(const char* names, uint32_t* value, const char* about)
{
    last_ = app_->add_option(names, *value, about);
    return *this;
}

Command& Command::option(const char* names, uint64_t* value, const char* about)
{
    last_ = app_->add_option(names, *value, about);
    return *this;
}

Command& Command::option(const char* names, double* value, const char* about)
{
    last_ = app_->add_option(names, *value, about);
    return *this;
}

Command& Command::option(const char* names, std::vector<std::string>* value, const char* about)
{
    last_ = app_->add_option(names, *value, about);
    return *this;
}

Command& Command::required()
{
    last_->required();
    return *this;
}

Command& Command::split_at_commas()
{
    last_->delimiter(',');
    return *this;
}

Command& Command::show_default()
{
    last_->capture_default_str();
    return *this;
}

Command& Command::range(double minimum, double maximum)
{
    last_->check(CLI::Range(minimum, maximum));
    return *this;
}

Command& Command::group(const char* name)
{
    last_->group(name);
    return *this;
}

Program::Program(const char* name, const char* about, const char* version, const char* footer)
    : app_(std::make_unique<CLI::App>(about, name))
{
    app_->set_version_flag("--version", std::string(name) + " " + version);
    app_->footer(footer);
    app_->require_subcommand(1);
}

Program::~Program() = default;

Command Program::root()
{
    return Command(app_.get());
}

int Program::run(int argc, char** argv, const Context& context)
{
    try {
        app_->parse(argc, argv);
        return context.exit_code;
    } catch (const CLI::ParseError& error) {
        // Help and version go to standard output and are done.
        if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {
            return app_->exit(error, std::cout, std::cerr) == 0 ? kExitDone : kExitInternal;
        }
        notice(std::string(error.what()) + " ('aotxctl --help' shows how)");
        return kExitUsage;
    }
}

}  // namespace aotx::cli
