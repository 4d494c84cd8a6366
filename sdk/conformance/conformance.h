// Purpose:  the conformance suite of the model runtime ABI: prove any producer, or name the rules
//           that it breaks.
// Owns:     nothing; each run loads the producer in child processes of its own.
// Thread:   one run at a time, from a program without other threads, because it forks.
// Lifetime: the call.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace flashrt::conformance {

enum class Verdict { pass, fail, warn, skip };

// "pass", "FAIL", "warn" or "skip".
const char* verdict_name(Verdict verdict);

// A rule of the contract: its name, as findings cite it, and what it says.
struct Rule {
    const char* id;
    const char* text;
};

// All rules that the suite checks, in the order of their groups.
const std::vector<Rule>& rules();

struct Finding {
    Verdict verdict;
    std::string rule;
    std::string text;  // what was seen; empty for a plain pass
};

// Payload for one port, instead of a made-up one. For IMAGE and DEPTH ports: an array of
// frt_image_view whose pixels stay valid; a file cannot hold such pointers and is refused there.
struct Feed {
    std::string port;
    std::string bytes;
    bool is_file = false;
};

struct Options {
    std::string library;
    std::string config = "{}";
    std::vector<Feed> feeds;
    uint32_t ticks = 200;          // of the hot checks
    uint32_t threads = 8;          // of the lifetime checks
    uint32_t group_seconds = 120;  // a group that takes longer has hung
    // Heap calls of the calling thread so far, from a program that interposes the allocator;
    // nullptr: the allocation rules are skipped.
    uint64_t (*allocation_calls)() = nullptr;
};

// Run every group. A producer that crashes or hangs fails the rule that was being checked, and the
// suite goes on with the next group.
std::vector<Finding> run(const Options& options);

// Whether any finding is a failure.
bool failed(const std::vector<Finding>& findings);

}  // namespace flashrt::conformance
