// Purpose:  read a list of processors and move a thread, see cpus.h.
// Owns:     nothing.
// Thread:   any.
// Lifetime: not applicable.
#include "service/base/cpus.h"

#include <cstdint>

#include "aotx/handle.h"
#include "aotx/status.h"

namespace aotx {
namespace {

bool number_read(std::string_view text, unsigned* number) noexcept
{
    uint64_t value = 0;
    if (aotx_decimal_parse(text.data(), text.size(), &value) != AOTX_OK || value >= kCpusMax) {
        return false;
    }
    *number = static_cast<unsigned>(value);
    return true;
}

// "N" or "N-M".
bool range_add(std::string_view text, cpu_set_t* cpus) noexcept
{
    const size_t dash = text.find('-');
    const bool is_range = dash != std::string_view::npos;
    unsigned first = 0;
    if (!number_read(text.substr(0, dash), &first)) {
        return false;
    }
    unsigned last = first;
    if (is_range && (!number_read(text.substr(dash + 1), &last) || last <= first)) {
        return false;
    }
    for (unsigned cpu = first; cpu <= last; cpu++) {
        if (CPU_ISSET(cpu, cpus)) {
            return false;
        }
        CPU_SET(cpu, cpus);
    }
    return true;
}

}  // namespace

int cpus_parse(std::string_view text, cpu_set_t* cpus) noexcept
{
    cpu_set_t found;
    CPU_ZERO(&found);
    for (;;) {
        const size_t comma = text.find(',');
        if (!range_add(text.substr(0, comma), &found)) {
            return AOTX_ERR_SYNTAX;
        }
        if (comma == std::string_view::npos) {
            break;
        }
        text = text.substr(comma + 1);
    }
    *cpus = found;
    return AOTX_OK;
}

int cpus_place(std::string_view text) noexcept
{
    if (text.empty()) {
        return AOTX_OK;
    }
    cpu_set_t cpus;
    const int status = cpus_parse(text, &cpus);
    if (status != AOTX_OK) {
        return status;
    }
    return sched_setaffinity(0, sizeof cpus, &cpus) == 0 ? AOTX_OK : AOTX_ERR_SYSTEM;
}

}  // namespace aotx
