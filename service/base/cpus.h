// Purpose:  which processors a thread may run on, by the numbers that the kernel gives them.
// Owns:     nothing.
// Thread:   any; cpus_place moves the calling one.
// Lifetime: not applicable.
#pragma once

#include <sched.h>

#include <string_view>

namespace aotx {

constexpr unsigned kCpusMax = CPU_SETSIZE;  // numbers are below

// Read a list such as "0", "0,2" or "1-3,8" as systemd and taskset write it: numbers and ascending
// ranges, no spaces, no number twice. AOTX_ERR_SYNTAX: anything else, the empty list included.
// *cpus is untouched on failure.
[[nodiscard]] int cpus_parse(std::string_view text, cpu_set_t* cpus) noexcept;

// Let the calling thread, and the threads and processes that it starts from now on, run on these
// processors only; an empty list changes nothing. AOTX_ERR_SYNTAX: as cpus_parse; AOTX_ERR_SYSTEM:
// none of them is here or allowed, errno says why.
[[nodiscard]] int cpus_place(std::string_view text) noexcept;

}  // namespace aotx
