// Purpose:  one line a message, see log.h.
// Owns:     the name of the program and the lowest level that is written.
// Thread:   any.
// Lifetime: not applicable.
#include "service/base/log.h"

#include <errno.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>

namespace aotx {
namespace {

constexpr size_t kLineBytesMax = 1024;
const char* program_name = "aotx";
LogLevel lowest_level = LogLevel::Info;

const char* level_name(LogLevel level) noexcept
{
    constexpr const char* kNames[] = {"debug", "info", "warning", "error"};
    return kNames[static_cast<uint32_t>(level)];
}

}  // namespace

void log_start(const char* program, LogLevel lowest) noexcept
{
    program_name = program;
    lowest_level = lowest;
}

bool log_enabled(LogLevel level) noexcept
{
    return level >= lowest_level;
}

void log_line(LogLevel level, const char* format, ...) noexcept
{
    if (!log_enabled(level)) {
        return;
    }
    const int kept_errno = errno;
    char line[kLineBytesMax];
    const size_t head = static_cast<size_t>(
        std::snprintf(line, sizeof line, "%.32s: %s: ", program_name, level_name(level)));
    std::va_list arguments;
    va_start(arguments, format);
    errno = kept_errno;  // %m in a format means the caller's
    const int wanted = std::vsnprintf(line + head, sizeof line - head - 1, format, arguments);
    va_end(arguments);
    size_t end = head + (wanted < 0 ? 0 : static_cast<size_t>(wanted));
    if (end > sizeof line - 2) {
        end = sizeof line - 2;
    }
    for (size_t i = head; i < end; i++) {
        const unsigned char byte = static_cast<unsigned char>(line[i]);
        if (byte < 0x20 || byte == 0x7f) {
            line[i] = '?';
        }
    }
    line[end++] = '\n';
    // Nobody is left to tell when standard error itself fails.
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line, end);
    errno = kept_errno;
}

}  // namespace aotx
