// Purpose:  what every command shares: global options, how results are printed, and the list of
//           commands.
// Owns:     the option values of one run.
// Thread:   main.
// Lifetime: from main's start to its end.
#pragma once

#include <string>
#include <string_view>

#include "cli/command.h"
#include "cli/json.h"

namespace aotx::cli {

// Set by the parser before a command's function runs.
struct Context {
    bool json = false;  // --json: one document (or one a line) on standard output
    int exit_code = 0;  // what main returns
};

// Print one document to standard output, a newline behind it. Control characters inside strings
// become JSON escapes, so that a terminal can show any document.
void print_json(std::string_view document);

// Print text for people to standard output; it is escaped already or holds nothing from outside.
void print_text(std::string_view text);

// Print a document that came from the service: as it is with --json, else for people.
void print_document(const Context& context, std::string_view document, const char* what);

// Standard output could not be written (a full disk, a closed pipe): throws Failure.
void flush_output();

// Whole standard input, at most bytes_max; throws Failure when there is more.
std::string read_input(size_t bytes_max);

// A whole file, or standard input for "-"; throws Failure.
std::string read_source(const std::string& path, size_t bytes_max);

// The commands, each in the file of its name.
void add_chat_command(Command& program, Context& context);
void add_request_commands(Command& program, Context& context);
void add_service_commands(Command& program, Context& context);
void add_token_command(Command& program, Context& context);
void add_grants_command(Command& program, Context& context);
void add_packet_command(Command& program, Context& context);
void add_check_command(Command& program, Context& context);

}  // namespace aotx::cli
