// Purpose:  what the programs say to their operator: one line a message on standard error.
// Owns:     the name of the program and the lowest level that is written.
// Thread:   any; each line is one write, so that lines of several processes do not mix.
// Lifetime: not applicable.
#pragma once

#include <cstdint>

namespace aotx {

enum class LogLevel : uint32_t { Debug = 0, Info = 1, Warning = 2, Error = 3 };

// Name the program and the lowest level that is written (Info unless told). [main thread, before
// others start] program is a static text.
void log_start(const char* program, LogLevel lowest = LogLevel::Info) noexcept;

// Whether a level is written; spares the work of building what would be dropped.
[[nodiscard]] bool log_enabled(LogLevel level) noexcept;

// Write "<program>: <level>: <text>\n". Control bytes in the text become '?', so that nothing from
// outside can forge a line or reach a terminal. A text over 1000 bytes is cut. errno is kept.
[[gnu::format(printf, 2, 3)]] void log_line(LogLevel level, const char* format, ...) noexcept;

}  // namespace aotx
