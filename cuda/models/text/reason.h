// Purpose:  the sentence that says why a model file was refused, and the check for our own bugs.
// Owns:     nothing.
// Thread:   any, one object each.
// Lifetime: the caller's.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace aotx {

// One sentence, without a line break, that names the field at fault. Long names are cut.
struct TextReason {
    char text[256] = {};
};

// Write "field: what" into reason. Control bytes and bytes above 0x7e of field, which comes from
// the file, are shown as '?'. Returns result, so that a refusal is one statement.
int text_refuse(TextReason* reason, int result, std::string_view field, const char* what) noexcept;

// The same with a number behind the words: "field: what NUMBER".
int text_refuse_number(TextReason* reason, int result, std::string_view field, const char* what,
                       uint64_t number) noexcept;

// A bug of ours, never a bad file: stays on in release builds.
[[noreturn]] inline void text_check_failed(const char* condition, const char* file,
                                           int line) noexcept
{
    std::fprintf(stderr, "aotx: check failed at %s:%d: %s\n", file, line, condition);
    std::abort();
}
#define AOTX_TEXT_CHECK(condition)                                   \
    do {                                                             \
        if (!(condition)) {                                          \
            aotx::text_check_failed(#condition, __FILE__, __LINE__); \
        }                                                            \
    } while (false)

}  // namespace aotx
