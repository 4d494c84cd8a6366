// Purpose:  the escaping of control characters, and standard descriptors.
// Owns:     nothing.
// Thread:   main.
// Lifetime: not applicable.
#include "cli/terminal.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace aotx::cli {
namespace {

constexpr const char* kReplacement = "\xef\xbf\xbd";

// Length of the character that starts at text[0]: its bytes, 0 when more are needed to know, -1
// when no character starts so.
int character_bytes(std::string_view text)
{
    const auto byte = [&](size_t at) { return static_cast<unsigned char>(text[at]); };
    const unsigned lead = byte(0);
    if (lead < 0x80) {
        return 1;
    }
    const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead < 0xc2 || lead > 0xf4) {
        return -1;
    }
    const unsigned low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    const unsigned high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    for (size_t i = 1; i < length; i++) {
        if (i == text.size()) {
            return 0;
        }
        const bool fits = i == 1 ? byte(i) >= low && byte(i) <= high : (byte(i) & 0xc0) == 0x80;
        if (!fits) {
            return -1;
        }
    }
    return static_cast<int>(length);
}

bool is_control(std::string_view character)
{
    const unsigned first = static_cast<unsigned char>(character[0]);
    if (character.size() == 1) {
        return first < 0x20 || first == 0x7f;
    }
    // U+0080..U+009F: terminals may take them as the start of a sequence. Direction overrides and
    // isolates (U+202A..U+202E, U+2066..U+2069) could make a line read as what it is not.
    const unsigned second = static_cast<unsigned char>(character[1]);
    if (character.size() == 2) {
        return first == 0xc2 && second < 0xa0;
    }
    const unsigned third = character.size() == 3 ? static_cast<unsigned char>(character[2]) : 0;
    return first == 0xe2 && ((second == 0x80 && third >= 0xaa && third <= 0xae) ||
                             (second == 0x81 && third >= 0xa6 && third <= 0xa9));
}

void append_escaped(std::string* out, std::string_view character)
{
    for (const char byte : character) {
        char text[8];
        std::snprintf(text, sizeof text, "\\x%02x", static_cast<unsigned char>(byte));
        *out += text;
    }
}

// Escape all whole characters of text; returns the bytes used.
size_t escape_whole(std::string_view text, bool keep_lines, std::string* out)
{
    size_t at = 0;
    while (at < text.size()) {
        const int length = character_bytes(text.substr(at));
        if (length == 0) {
            break;
        }
        if (length < 0) {
            *out += kReplacement;
            at++;
            continue;
        }
        const std::string_view character = text.substr(at, static_cast<size_t>(length));
        const bool kept = keep_lines && (character == "\n" || character == "\t");
        if (!kept && is_control(character)) {
            append_escaped(out, character);
        } else {
            out->append(character);
        }
        at += static_cast<size_t>(length);
    }
    return at;
}

}  // namespace

void keep_standard_descriptors()
{
    for (int descriptor = 0; descriptor <= 2; descriptor++) {
        if (::fcntl(descriptor, F_GETFD) >= 0) {
            continue;
        }
        // Lower descriptors are open by now, so open returns this one.
        if (::open("/dev/null", O_RDWR) != descriptor) {
            std::abort();
        }
    }
}

bool is_terminal(int descriptor)
{
    return ::isatty(descriptor) == 1;
}

bool takes_colour(int descriptor)
{
    const char* const no_colour = std::getenv("NO_COLOR");
    const char* const term = std::getenv("TERM");
    const bool dumb = term == nullptr || std::strcmp(term, "dumb") == 0 || term[0] == '\0';
    return is_terminal(descriptor) && !dumb && (no_colour == nullptr || no_colour[0] == '\0');
}

std::string escape_controls(std::string_view text, bool keep_lines)
{
    std::string out;
    if (escape_whole(text, keep_lines, &out) != text.size()) {
        out += kReplacement;
    }
    return out;
}

std::string utf8_repaired(std::string_view text)
{
    std::string out;
    for (size_t at = 0; at < text.size();) {
        const int length = character_bytes(text.substr(at));
        if (length <= 0) {
            out += kReplacement;
            at++;
            continue;
        }
        out += text.substr(at, static_cast<size_t>(length));
        at += static_cast<size_t>(length);
    }
    return out;
}

TextSink::TextSink(FILE* out, bool raw) : out_(out), escapes_(!raw && is_terminal(fileno(out))) {}

void TextSink::write(std::string_view bytes)
{
    if (bytes.empty()) {
        return;
    }
    at_line_start_ = bytes.back() == '\n';
    if (!escapes_) {
        std::fwrite(bytes.data(), 1, bytes.size(), out_);
        std::fflush(out_);
        return;
    }
    pending_.append(bytes);
    std::string shown;
    const size_t used = escape_whole(pending_, true, &shown);
    pending_.erase(0, used);
    std::fwrite(shown.data(), 1, shown.size(), out_);
    std::fflush(out_);
}

void TextSink::finish()
{
    if (!pending_.empty()) {
        std::fputs(kReplacement, out_);
        pending_.clear();
    }
    std::fflush(out_);
}

void notice(std::string_view text)
{
    const std::string line = "aotxctl: " + escape_controls(text, false) + "\n";
    std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace aotx::cli
