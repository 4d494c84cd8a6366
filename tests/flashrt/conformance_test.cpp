// Purpose:  the conformance suite against producers that break exactly one rule each, and against
//           the shipped ones, which break none.
// Owns:     nothing.
// Thread:   one; the suite forks.
// Lifetime: the test program.
#include "conformance/conformance.h"

#include <dlfcn.h>
#include <elf.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>

#include "conformance/allocation_calls.h"
#include "conformance/subject.h"

using namespace flashrt::conformance;

namespace {

std::vector<Finding> run_on(const std::string& library, const std::string& config,
                            uint32_t ticks = 50)
{
    Options options;
    options.library = library;
    options.config = config;
    options.ticks = ticks;
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

// A graph, and an OPAQUE stage that works on what it wrote.
constexpr const char* kMixed = R"({"break":"suite.mixed"})";

// A stream that runs what was launched when it is waited for, as a device may.
struct LazyStream {
    int (*replay)(frt_graph graph, frt_shape_key key, int stream_id);
    frt_graph graph;
    frt_shape_key key;
    int launches;
    int waits;
};
LazyStream lazy;

int lazy_replay(frt_graph graph, frt_shape_key key, int)
{
    lazy.graph = graph;
    lazy.key = key;
    lazy.launches++;
    return FRT_OK;
}

int lazy_sync(frt_ctx, int stream_id)
{
    lazy.waits++;
    const frt_graph graph = lazy.graph;
    lazy.graph = nullptr;
    return graph == nullptr ? FRT_OK : lazy.replay(graph, lazy.key, stream_id);
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
                {BROKEN_LIBRARY, kMixed},
                {REACH_LIBRARY, "{}"},
                {REACH_LIBRARY, R"({"io":"raw"})"},
                {REACH_LIBRARY, R"({"stage_plan":"context_action","streams":2})"},
                {REACH_LIBRARY, R"({"stage_plan":"context_rtc_prefix_action","prefix_len":2})"},
                {SCALE_LIBRARY, R"({"gain":2})"},
                {LETTERS_LIBRARY, "{}"},
                {TEXT_EXAMPLE_LIBRARY, "{}"},
                {SCRIPTED_LIBRARY, "{}"},
                {SCRIPTED_LIBRARY, R"({"level":"plain"})"},
                {OVERLAY_LIBRARY, overlay}};
    for (const auto& row : rows) {
        INFO(row.library << " " << row.config);
        CHECK(broken_rules(run_on(row.library, row.config)) == "");
    }
}

#if defined(TEXT_LIBRARY)
TEST_CASE("the text runtime keeps every rule, where its model file is", "[conformance]")
{
    const char* given = std::getenv("AOTX_MODEL");
    const std::string model = given != nullptr ? given : ".aotx/SmolLM2-135M-Instruct.Q4_1.gguf";
    if (!std::ifstream(model)) {
        return;
    }
    // Small, because every group opens the model anew.
    const std::string config =
        "{\"model_path\":\"" + model + "\",\"threads\":1,\"kv_tokens\":256,\"sequences\":1}";
    CHECK(broken_rules(run_on(TEXT_LIBRARY, config, 1)) == "");
}
#endif

TEST_CASE("a broken rule is found and named", "[conformance]")
{
    // Judged mildly, because hosts can live with it.
    const std::set<std::string> warned = {"verb.error_cleared", "tick.repeatable", "port.bytes",
                                          "payload.accept", "factory.exports"};
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

TEST_CASE("a million ticks of legacy stages and of a mixed plan keep the hot rules",
          "[conformance]")
{
    const uint32_t ticks = allocation_calls_counted() ? 1000 * 1000 : 10 * 1000;
    for (const char* config : {"{}", kMixed}) {
        INFO(config);
        const std::vector<Finding> findings = run_on(BROKEN_LIBRARY, config, ticks);
        CHECK(broken_rules(findings) == "");
        for (const char* rule : {"hot.recapture", "hot.rebind", "tick.runs"}) {
            CHECK(verdict_on(findings, rule) == Verdict::pass);
        }
        CHECK(verdict_on(findings, "hot.allocations") ==
              (allocation_calls_counted() ? Verdict::pass : Verdict::skip));
    }
}

TEST_CASE("a mixed plan waits for its graph before the OPAQUE stage behind it", "[conformance]")
{
    Options options;
    options.library = BROKEN_LIBRARY;
    options.config = kMixed;
    Report report(-1);
    Subject subject(options, &report);
    REQUIRE(subject.ready());
    REQUIRE(subject.adopted.authority() == frt::Authority::plan);
    Driver driver(&subject);
    const auto outputs_of = [&](uint32_t variant) {
        CHECK(driver.feed(variant) == "");
        CHECK(driver.tick() == 0);
        return driver.outputs();
    };
    const std::vector<std::string> one = outputs_of(1);
    const std::vector<std::string> two = outputs_of(2);
    CHECK(one != two);
    lazy = {subject.exec.replay, nullptr, 0, 0, 0};
    subject.exec.replay = lazy_replay;
    const auto sync = subject.exec.stream_sync;
    subject.exec.stream_sync = lazy_sync;
    CHECK(outputs_of(1) == one);
    CHECK(outputs_of(2) == two);
    CHECK(lazy.launches == 2);
    CHECK(lazy.waits == 2);
    // The fixture can tell: a host that does not wait gets something else.
    subject.exec.stream_sync = nullptr;
    CHECK(outputs_of(1) != one);
    subject.exec.stream_sync = sync;
}

TEST_CASE("a file is no payload of frames: its bytes would be followed as pointers",
          "[conformance]")
{
    Options options;
    options.library = BROKEN_LIBRARY;
    options.ticks = 1;
    options.feeds.push_back({"images", std::string(2 * sizeof(frt_image_view), '\x5a'), true});
    const std::vector<Finding> findings = run(options);
    CHECK_FALSE(failed(findings));
    CHECK(verdict_on(findings, "payload.accept") == Verdict::warn);
    CHECK(broken_rules(findings).find("a file holds none") != std::string::npos);
}

TEST_CASE("a producer that hangs fails the rule that was being checked, and the rest goes on",
          "[conformance]")
{
    Options options;
    options.library = BROKEN_LIBRARY;
    options.config = R"({"break":"suite.hang"})";
    options.group_seconds = 1;
    const std::vector<Finding> findings = run(options);
    CHECK(broken_rules(findings) == "FAIL verb.prepare: the producer did not return in time\n");
    CHECK(verdict_on(findings, "lifetime.foreign_thread") == Verdict::pass);
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

TEST_CASE("the libraries export the contract and nothing else, under their own names", "[symbols]")
{
    const std::set<std::string> runtime = {
        "frt_runtime_builder_create", "frt_model_runtime_builder_create_metadata",
        "frt_runtime_builder_add_stream", "frt_runtime_builder_add_graph",
        "frt_runtime_builder_add_buffer", "frt_runtime_builder_add_region",
        "frt_runtime_builder_add_identity", "frt_runtime_builder_set_manifest",
        "frt_runtime_builder_add_port", "frt_runtime_builder_add_stage",
        "frt_runtime_builder_add_generic_stage", "frt_runtime_builder_set_generic_stage_runner",
        "frt_runtime_builder_finish", "frt_runtime_builder_finish_model", "frt_model_runtime_wrap",
        "frt_model_runtime_override_verbs", "frt_runtime_fingerprint",
        // Added by this implementation.
        "frt_runtime_builder_destroy", "frt_runtime_builder_add_extension", "frt_runtime_refusal"};
    const std::set<std::string> exec = {
        "frt_ctx_create", "frt_ctx_destroy", "frt_ctx_stream", "frt_ctx_wrap_stream",
        "frt_ctx_event", "frt_event_destroy", "frt_event_record", "frt_stream_wait",
        "frt_buffer_alloc", "frt_buffer_wrap", "frt_buffer_dptr", "frt_buffer_bytes",
        "frt_buffer_name", "frt_buffer_copy", "frt_graph_create", "frt_graph_destroy",
        "frt_graph_capture", "frt_graph_adopt", "frt_graph_bind", "frt_graph_replay",
        "frt_graph_has_variant", "frt_graph_evict", "frt_graph_evict_lru",
        "frt_graph_variant_count", "frt_plan_create", "frt_plan_destroy", "frt_plan_add",
        "frt_plan_after", "frt_plan_execute", "frt_plan_sync",
        // Added by this implementation.
        "frt_ctx_create_on", "frt_ctx_backend", "frt_ctx_native_stream", "frt_stream_sync",
        "frt_buffer_write", "frt_buffer_read", "frt_graph_bound"};
    const struct {
        const char* path;
        const char* soname;
        const std::set<std::string>& want;
    } rows[] = {{RUNTIME_LIBRARY, "libflashrt_runtime.so", runtime},
                {EXEC_LIBRARY, "libflashrt_exec.so", exec}};
    for (const auto& row : rows) {
        INFO(row.path);
        const std::vector<std::string> names = exported_symbols(row.path);
        CHECK(std::set<std::string>(names.begin(), names.end()) == row.want);
        void* library = dlopen(row.path, RTLD_NOW | RTLD_LOCAL);
        REQUIRE(library != nullptr);
        void* by_name = dlopen(row.soname, RTLD_NOW | RTLD_NOLOAD);
        CHECK(by_name == library);
        // The builder never calls a handle, so its library needs no execution layer.
        CHECK((dlsym(library, "frt_graph_replay") != nullptr) == (row.want == exec));
        dlclose(by_name);
        dlclose(library);
    }
}

TEST_CASE("a symbol table that lies about its size is read to the end of the file", "[symbols]")
{
    std::ifstream stream(RUNTIME_LIBRARY, std::ios::binary);
    const std::string whole((std::istreambuf_iterator<char>(stream)),
                            std::istreambuf_iterator<char>());
    const std::string path = "/tmp/flashrt_symbols_" + std::to_string(getpid());
    const auto read = [&](const std::string& bytes) {
        std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
        return exported_symbols(path).size();
    };
    const size_t count = read(whole);
    CHECK(count == 20);
    Elf64_Ehdr head;
    std::memcpy(&head, whole.data(), sizeof head);
    for (const uint64_t lie : {UINT64_MAX, UINT64_C(1) << 62, UINT64_C(1)}) {
        std::string bent = whole;
        for (uint32_t at = 0; at < head.e_shnum; at++) {
            char* section = bent.data() + head.e_shoff + at * sizeof(Elf64_Shdr);
            std::memcpy(section + offsetof(Elf64_Shdr, sh_size), &lie, sizeof lie);
        }
        INFO(lie);
        CHECK(read(bent) >= (lie > 1 ? count : 0));
    }
    for (size_t cut = 0; cut < sizeof head + 8; cut++) {
        CHECK(read(whole.substr(0, cut)) == 0);
    }
    std::remove(path.c_str());
}
