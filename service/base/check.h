// Purpose:  the check for our own bugs, which stays on in release builds.
// Owns:     nothing.
// Thread:   any.
// Lifetime: not applicable.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace aotx {

// Say what was wrong in one line on standard error and stop the process.
[[noreturn]] inline void check_failed(const char* condition, const char* file, int line) noexcept
{
    std::fprintf(stderr, "aotx: check failed: %s at %s:%d\n", condition, file, line);
    std::abort();
}

}  // namespace aotx

// A condition that only a bug of ours can break. Operating errors are values and never come here.
#define AOTX_CHECK(condition)                          \
    (__builtin_expect(static_cast<bool>(condition), 1) \
         ? static_cast<void>(0)                        \
         : ::aotx::check_failed(#condition, __FILE__, __LINE__))
