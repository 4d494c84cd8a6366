// Purpose:  how a command says that it cannot go on: an exit code and a sentence for people.
// Owns:     its text.
// Thread:   main.
// Lifetime: from the throw to main, which prints it.
#pragma once

#include <stdexcept>
#include <string>

#include "cli/exit_codes.h"

namespace aotx::cli {

class Failure : public std::runtime_error {
public:
    // text is one sentence without the program's name; it may hold bytes from outside, which are
    // escaped when it is printed. status and name come from the service when it gave them.
    Failure(int code, const std::string& text, uint32_t status = 0, std::string name = {})
        : std::runtime_error(text), code_(code), status_(status), name_(std::move(name))
    {
    }

    int code() const { return code_; }
    uint32_t status() const { return status_; }
    const std::string& name() const { return name_; }

private:
    int code_;
    uint32_t status_;
    std::string name_;
};

}  // namespace aotx::cli
