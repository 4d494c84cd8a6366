// Purpose:  printing and reading for all commands.
// Owns:     nothing.
// Thread:   main.
// Lifetime: not applicable.
#include "cli/context.h"

#include <errno.h>
#include <unistd.h>

#include <cstring>

#include "aotx/status.h"
#include "cli/failure.h"
#include "service/base/file.h"

namespace aotx::cli {

void print_json(std::string_view document)
{
    std::string out;
    for (size_t at = 0; at < document.size(); at++) {
        const unsigned char byte = static_cast<unsigned char>(document[at]);
        const unsigned char next =
            at + 1 < document.size() ? static_cast<unsigned char>(document[at + 1]) : 0;
        char escape[8];
        if (byte == 0x7f) {
            out += "\\u007f";
        } else if (byte == 0xc2 && next >= 0x80 && next < 0xa0) {
            std::snprintf(escape, sizeof escape, "\\u00%02x", next);
            out += escape;
            at++;
        } else {
            out += document[at];
        }
    }
    out += '\n';
    std::fwrite(out.data(), 1, out.size(), stdout);
}

void print_text(std::string_view text)
{
    std::fwrite(text.data(), 1, text.size(), stdout);
}

void print_document(const Context& context, std::string_view document, const char* what)
{
    const JsonDocument parsed(document, kExitProtocol, what);
    if (context.json) {
        print_json(parsed.minified());
    } else {
        print_text(json_for_people(parsed.root()));
    }
}

void flush_output()
{
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
        throw Failure(kExitInternal,
                      std::string("standard output cannot be written: ") + std::strerror(errno));
    }
}

std::string read_input(size_t bytes_max)
{
    std::string text;
    char piece[65536];
    for (;;) {
        const ssize_t got = ::read(STDIN_FILENO, piece, sizeof piece);
        if (got < 0 && errno == EINTR) {
            throw Failure(kExitInterrupted, "interrupted");
        }
        if (got < 0) {
            throw Failure(kExitInput,
                          std::string("standard input cannot be read: ") + std::strerror(errno));
        }
        if (got == 0) {
            return text;
        }
        text.append(piece, static_cast<size_t>(got));
        if (text.size() > bytes_max) {
            throw Failure(kExitInput,
                          "standard input is longer than " + std::to_string(bytes_max) + " bytes");
        }
    }
}

std::string read_source(const std::string& path, size_t bytes_max)
{
    if (path == "-") {
        return read_input(bytes_max);
    }
    std::string text;
    const int result = file_read(path.c_str(), bytes_max, &text);
    if (result == AOTX_ERR_NOT_FOUND) {
        throw Failure(kExitInput, path + ": there is no such file");
    }
    if (result == AOTX_ERR_LENGTH) {
        throw Failure(kExitInput, path + ": larger than " + std::to_string(bytes_max) + " bytes");
    }
    if (result != AOTX_OK) {
        throw Failure(kExitInput, path + ": " + std::strerror(errno));
    }
    return text;
}

}  // namespace aotx::cli
