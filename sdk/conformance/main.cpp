// Purpose:  flashrt-check: the conformance suite as a program of its own, for SDK users.
// Owns:     nothing.
// Thread:   main.
// Lifetime: the process.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include "allocation_calls.h"
#include "conformance.h"

namespace {

using namespace flashrt::conformance;

constexpr const char* kUsage =
    "usage: flashrt-check LIBRARY [--config JSON] [--feed PORT=FILE]... [--ticks N] [--all]\n"
    "       flashrt-check --rules\n"
    "Checks a shared object that exports frt_model_runtime_open_v1 against the model runtime ABI.\n"
    "Prints every finding that is not a pass (--all: every one), each with the rule it is about.\n"
    "exit: 0 every rule holds, 1 a rule is broken, 2 usage\n";

int usage()
{
    std::fputs(kUsage, stderr);
    return 2;
}

bool add_feed(const char* argument, Options* options)
{
    const char* equals = std::strchr(argument, '=');
    if (equals == nullptr) {
        return false;
    }
    std::ifstream file(equals + 1, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(file)),
                            std::istreambuf_iterator<char>());
    options->feeds.push_back({std::string(argument, equals), bytes, true});
    return static_cast<bool>(file);
}

// At least 1: no tick at all would hold every hot rule.
bool parse_ticks(const char* text, uint32_t* ticks)
{
    char* end = nullptr;
    const unsigned long value = std::strtoul(text, &end, 10);
    *ticks = static_cast<uint32_t>(value);
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && value > 0 && value <= 100000000;
}

bool parse(int argc, char** argv, Options* options, bool* all)
{
    for (int at = 1; at < argc; at++) {
        const std::string argument = argv[at];
        const bool more = at + 1 < argc;
        if (argument == "--all") {
            *all = true;
        } else if (argument == "--config" && more) {
            options->config = argv[++at];
        } else if (argument == "--ticks" && more) {
            if (!parse_ticks(argv[++at], &options->ticks)) {
                return false;
            }
        } else if (argument == "--feed" && more) {
            if (!add_feed(argv[++at], options)) {
                return false;
            }
        } else if (argument[0] == '-' || !options->library.empty()) {
            return false;
        } else {
            options->library = argument;
        }
    }
    return !options->library.empty();
}

int print_rules()
{
    for (const Rule& rule : rules()) {
        std::printf("%-24s %s\n", rule.id, rule.text);
    }
    return 0;
}

const char* text_of(const std::string& id)
{
    for (const Rule& rule : rules()) {
        if (id == rule.id) {
            return rule.text;
        }
    }
    return "";
}

}  // namespace

int main(int argc, char** argv)
{
    if (argc == 2 && std::strcmp(argv[1], "--rules") == 0) {
        return print_rules();
    }
    Options options;
    bool all = false;
    if (!parse(argc, argv, &options, &all)) {
        return usage();
    }
    options.allocation_calls = allocation_calls_counted() ? allocation_calls : nullptr;
    const std::vector<Finding> findings = run(options);
    uint32_t counts[4] = {};
    for (const Finding& finding : findings) {
        counts[static_cast<int>(finding.verdict)]++;
        if (all || finding.verdict == Verdict::fail || finding.verdict == Verdict::warn) {
            std::printf("%-4s  %-24s %s%s%s\n", verdict_name(finding.verdict), finding.rule.c_str(),
                        text_of(finding.rule), finding.text.empty() ? "" : "\n          -> ",
                        finding.text.c_str());
        }
    }
    std::printf("%u rules hold, %u broken, %u warnings, %u not checked\n", counts[0], counts[1],
                counts[2], counts[3]);
    return failed(findings) ? 1 : 0;
}
