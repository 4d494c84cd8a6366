// Purpose:  commands and their options, without the parser's headers: these are large, and one file
//           is enough to compile them.
// Owns:     nothing; the parser owns commands, the commands' arguments are the caller's.
// Thread:   main.
// Lifetime: a Command is a name for something that lives as long as its Program.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace aotx::cli {

struct Context;

// A command, or a family of commands. Options write into variables that outlive the parsing; names
// are "--long", "-s,--long", or a bare word for a positional argument.
class Command {
public:
    // A command of this family whose function returns an exit code or throws Failure. Every command
    // takes --json and shows examples, one a line, below its help.
    Command add(Context& context, const char* name, const char* about, const char* examples,
                std::function<int()> run);
    // A family: it needs one of its commands and does nothing alone.
    Command add_family(const char* name, const char* about);

    Command& flag(const char* names, bool* value, const char* about);
    Command& option(const char* names, std::string* value, const char* about);
    Command& option(const char* names, uint32_t* value, const char* about);
    Command& option(const char* names, uint64_t* value, const char* about);
    Command& option(const char* names, double* value, const char* about);
    // Repeatable.
    Command& option(const char* names, std::vector<std::string>* value, const char* about);

    // About the option that was added last:
    Command& required();
    Command& split_at_commas();
    Command& show_default();
    Command& range(double minimum, double maximum);
    Command& group(const char* name);

private:
    friend class Program;
    explicit Command(CLI::App* app) : app_(app) {}

    CLI::App* app_;
    CLI::Option* last_ = nullptr;
};

// The whole command line.
class Program {
public:
    Program(const char* name, const char* about, const char* version, const char* footer);
    ~Program();
    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;

    // The family of all commands.
    Command root();

    // Parse and run the command that was named. Prints help and version. Returns an exit code;
    // Failure of a command passes through.
    int run(int argc, char** argv, const Context& context);

private:
    std::unique_ptr<CLI::App> app_;
};

}  // namespace aotx::cli
