// Purpose:  the conformance suite against producers that break exactly one rule each, and against
//           the shipped ones, which break none.
// Owns:     nothing.
// Thread:   one; the suite forks.
// Lifetime: the test program.
#include "conformance/conformance.h"

#include <catch2/catch.hpp>
#include <set>

#include "conformance/allocation_calls.h"

using namespace flashrt::conformance;

namespace {

std::vector<Finding> run_on(const std::string& library, const std::string& config)
{
    Options options;
    options.library = library;
    options.config = config;
    options.ticks = 50;
    options.group_seconds = 60;
    options.allocation_calls = allocation_calls_counted() ? allocation_calls : nullptr;
    return run(options);
}

std::string broken_rules(const std::vector<Finding>& findings)
{
    std::string text;
    for (const Finding& finding : findings) {
        if (finding.verdict == Verdict::fail || finding.verdict == Verdict::warn) {
            text += std::string(verdict_name(finding.verdict)) + " " + finding.rule + ": " +
                    finding.text + "\n";
        }
    }
    return text;
}

Verdict verdict_on(const std::vector<Finding>& findings, const std::string& rule)
{
    for (const Finding& finding : findings) {
        if (finding.rule == rule) {
            return finding.verdict;
        }
    }
    return Verdict::skip;
}

}  // namespace

TEST_CASE("rules have unique names and a sentence", "[conformance]")
{
    std::set<std::string> seen;
    for (const Rule& rule : rules()) {
        INFO(rule.id);
        CHECK(seen.insert(rule.id).second);
        CHECK(std::string(rule.text).size() > 10);
    }
}

TEST_CASE("the shipped producers keep every rule", "[conformance]")
{
    const std::string overlay =
        std::string("{\"base\":\"") + REACH_LIBRARY + "\",\"hold_percent\":0}";
    const struct {
        const char* library;
        std::string config;
    } rows[] = {{BROKEN_LIBRARY, "{}"},
                {REACH_LIBRARY, "{}"},
                {REACH_LIBRARY, R"({"io":"raw"})"},
                {REACH_LIBRARY, R"({"stage_plan":"context_rtc_prefix_action","prefix_len":2})"},
                {SCALE_LIBRARY, R"({"gain":2})"},
                {LETTERS_LIBRARY, "{}"},
                {OVERLAY_LIBRARY, overlay}};
    for (const auto& row : rows) {
        INFO(row.library << " " << row.config);
        CHECK(broken_rules(run_on(row.library, row.config)) == "");
    }
}

TEST_CASE("a broken rule is found and named", "[conformance]")
{
    // Judged mildly, because hosts can live with it.
    const std::set<std::string> warned = {"verb.error_cleared", "tick.repeatable",
                                          "port.bytes",         "payload.accept",
                                          "authority.anchor",   "factory.exports"};
    for (const Rule& rule : rules()) {
        const std::string id = rule.id;
        if (id == "hot.allocations" && !allocation_calls_counted()) {
            continue;
        }
        const char* library = id == "factory.symbol"    ? RUNTIME_LIBRARY
                              : id == "factory.exports" ? LEAKY_LIBRARY
                                                        : BROKEN_LIBRARY;
        const std::string config =
            id == "factory.exports" ? R"({"gain":2})" : "{\"break\":\"" + id + "\"}";
        const std::vector<Finding> findings = run_on(library, config);
        INFO(id << "\n" << broken_rules(findings));
        const Verdict want = warned.count(id) != 0 ? Verdict::warn : Verdict::fail;
        CHECK(verdict_on(findings, id) == want);
        for (const Finding& finding : findings) {
            // A tick replays default keys: one that is not captured cannot be replayed.
            const bool follows =
                finding.rule == id || (id == "graph.default_key" && finding.rule == "tick.runs");
            CHECK(
                (follows || finding.verdict == Verdict::pass || finding.verdict == Verdict::skip));
        }
    }
}

TEST_CASE("files that are no producers are named as such", "[conformance]")
{
    const char* rows[] = {"/nowhere.so", "/etc/passwd", RUNTIME_LIBRARY};
    for (const char* row : rows) {
        INFO(row);
        const std::vector<Finding> findings = run_on(row, "{}");
        CHECK(verdict_on(findings, "factory.symbol") == Verdict::fail);
    }
}
