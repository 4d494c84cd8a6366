// Purpose:  compose reasons.
// Owns:     nothing.
// Thread:   any.
// Lifetime: not applicable.
#include "reason.h"

#include <cinttypes>

namespace aotx {

namespace {

constexpr size_t kFieldBytesMax = 96;

// The printable picture of a name out of the file, cut to kFieldBytesMax.
void print_field(std::string_view field, char* out) noexcept
{
    size_t length = 0;
    for (const char byte : field) {
        if (length == kFieldBytesMax) {
            break;
        }
        out[length++] = (byte >= 0x20 && byte < 0x7f) ? byte : '?';
    }
    out[length] = '\0';
}

}  // namespace

int text_refuse(TextReason* reason, int result, std::string_view field, const char* what) noexcept
{
    if (reason != nullptr) {
        char name[kFieldBytesMax + 1];
        print_field(field, name);
        std::snprintf(reason->text, sizeof reason->text, "%s: %s", name, what);
    }
    return result;
}

int text_refuse_number(TextReason* reason, int result, std::string_view field, const char* what,
                       uint64_t number) noexcept
{
    if (reason != nullptr) {
        char name[kFieldBytesMax + 1];
        print_field(field, name);
        std::snprintf(reason->text, sizeof reason->text, "%s: %s %" PRIu64, name, what, number);
    }
    return result;
}

}  // namespace aotx
