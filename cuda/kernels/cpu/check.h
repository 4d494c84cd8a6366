// Purpose:  the check for our own bugs in CPU kernels; it stays on in release builds.
// Owns:     nothing.
// Thread:   any.
// Lifetime: not applicable.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace aotx {

[[noreturn]] inline void kernel_check_failed(const char* condition, const char* file, int line)
{
    std::fprintf(stderr, "aotx: check failed at %s:%d: %s\n", file, line, condition);
    std::abort();
}

}  // namespace aotx

#define AOTX_KERNEL_CHECK(condition)                                   \
    do {                                                               \
        if (!(condition)) {                                            \
            aotx::kernel_check_failed(#condition, __FILE__, __LINE__); \
        }                                                              \
    } while (false)
