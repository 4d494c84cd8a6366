// Purpose:  what reaches a terminal and what does not: control bytes, colours, prompts.
// Owns:     nothing but the decoder state of each TextSink.
// Thread:   main.
// Lifetime: a TextSink lives as long as one text is written.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace aotx::cli {

// Open /dev/null on standard descriptors that were closed by the caller, so that no file that is
// opened later takes their place. Once, before anything else is opened.
void keep_standard_descriptors();

bool is_terminal(int descriptor);

// Whether a terminal on this descriptor takes colours: none with NO_COLOR or TERM=dumb.
bool takes_colour(int descriptor);

// The text with every control character written as \xNN, and invalid UTF-8 as U+FFFD. Newline and
// tab stay when keep_lines is set. For messages, tables and everything else that people read.
std::string escape_controls(std::string_view text, bool keep_lines);

// The text with invalid UTF-8 as U+FFFD, and nothing else changed.
std::string utf8_repaired(std::string_view text);

// Writes a model's bytes to standard output as they come. On a terminal control characters are
// escaped unless raw is set, and a character that is cut between two pieces waits for its rest;
// in a pipe or file bytes pass unchanged.
class TextSink {
public:
    TextSink(FILE* out, bool raw);
    void write(std::string_view bytes);
    // The text is complete: a dangling part of a character becomes U+FFFD on a terminal.
    void finish();
    // Whether the last byte written was a newline, or nothing was written.
    bool at_line_start() const { return at_line_start_; }

private:
    FILE* out_;
    bool escapes_;
    bool at_line_start_ = true;
    std::string pending_;
};

// One line to standard error in the form "aotxctl: text", escaped.
void notice(std::string_view text);

}  // namespace aotx::cli
