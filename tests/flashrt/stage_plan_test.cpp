// Purpose:  stage plans by name: registration, resolution against a builder, and every refusal;
//           and the flat configuration that factories read.
// Owns:     nothing.
// Thread:   one.
// Lifetime: the test program.
#include "flashrt/stage_plan.hpp"

#include <catch2/catch.hpp>
#include <string>

#include "fabricated.h"
#include "flashrt/builder.hpp"
#include "flashrt/config.hpp"
#include "guard_page.h"

namespace {

// Streams main (0) and side (1); graphs infer and context on main, decode on side.
frt_runtime_builder make_builder()
{
    frt_runtime_builder b = frt_runtime_builder_create(fabricated<frt_ctx>(1));
    frt_runtime_builder_add_stream(b, "main", 0, 0, nullptr);
    frt_runtime_builder_add_stream(b, "side", 1, 0, nullptr);
    frt_runtime_builder_add_graph(b, "infer", fabricated<frt_graph>(2), 0, nullptr, 0, 0);
    frt_runtime_builder_add_graph(b, "context", fabricated<frt_graph>(3), 0, nullptr, 0, 0);
    frt_runtime_builder_add_graph(b, "decode", fabricated<frt_graph>(4), 0, nullptr, 0, 1);
    return b;
}

using frt::StagePlan;
using frt::StagePlanArguments;

int split(void*, StagePlanArguments*, StagePlan* plan)
{
    return plan->stage("context", "context") != 0
               ? -1
               : plan->stage("action", "decode", {"context"}, "side");
}

int chunks(void* self, StagePlanArguments* arguments, StagePlan* plan)
{
    const int64_t count = arguments->get("chunks", 2);
    const char* names[] = {"one", "two", "three"};
    CHECK(self != nullptr);
    int code = plan->stage(names[0], "infer");
    for (int64_t at = 1; at < count && code == 0; at++) {
        code = plan->stage(names[at], "infer", {names[at - 1]});
    }
    return code;
}

struct Row {
    const char* rule;
    const char* reason;  // "" when the plan resolves
    int (*fill)(StagePlan* plan);
};

const Row kRows[] = {
    {"one stage", "", [](StagePlan* p) { return p->stage("all", "infer"); }},
    {"no stages", "no stages", [](StagePlan*) { return 0; }},
    {"a name twice", "twice",
     [](StagePlan* p) { return p->stage("all", "infer") != 0 ? -1 : p->stage("all", "context"); }},
    {"an empty name", "empty", [](StagePlan* p) { return p->stage("", "infer"); }},
    {"an unknown graph", "graph 'nope'", [](StagePlan* p) { return p->stage("all", "nope"); }},
    {"no graph", "no graph", [](StagePlan* p) { return p->stage("all", nullptr); }},
    {"an unknown stream", "stream 'nope'",
     [](StagePlan* p) { return p->stage("all", "infer", {}, "nope"); }},
    {"another stream than the graph's", "replays on 0",
     [](StagePlan* p) { return p->stage("all", "infer", {}, "side"); }},
    {"a dependency on a later stage", "not an earlier",
     [](StagePlan* p) { return p->stage("context", "context", {"action"}); }},
    {"a dependency on itself", "not an earlier",
     [](StagePlan* p) { return p->stage("context", "context", {"context"}); }},
};

}  // namespace

TEST_CASE("a plan resolves whole or not at all, with its reason", "[stage_plan]")
{
    for (const Row& row : kRows) {
        INFO(row.rule);
        frt_runtime_builder b = make_builder();
        StagePlan plan;
        const bool good = row.reason[0] == '\0';
        const bool resolved = row.fill(&plan) == 0 && plan.resolve(b) == 0;
        CHECK(resolved == good);
        if (!good) {
            INFO(frt_runtime_refusal());
            CHECK(std::string(frt_runtime_refusal()).find(row.reason) != std::string::npos);
            // A plain export takes no stages, so its success shows that none is left.
            frt_runtime_export_v1* exp = frt_runtime_builder_finish(b, nullptr, nullptr, nullptr);
            REQUIRE(exp != nullptr);
            exp->release(exp->owner);
            continue;
        }
        frt_runtime_builder_destroy(b);
    }
}

TEST_CASE("plans are chosen by model and name, and only indices cross", "[stage_plan]")
{
    frt::StagePlans plans;
    int self = 0;
    REQUIRE(plans.add("vla", "split", split) == 0);
    REQUIRE(plans.add("", "chunks", chunks, &self) == 0);
    CHECK(plans.add("vla", "split", split) == -1);
    CHECK(plans.add("vla", "", split) == -1);
    CHECK(plans.add(nullptr, "x", split) == -1);
    CHECK(plans.add("vla", "x", nullptr) == -1);
    frt_runtime_builder b = make_builder();
    CHECK(plans.apply("vla", "nope", {}, b) == -1);
    CHECK(plans.apply("other", "split", {}, b) == -1);
    const frt::StagePlanArgument unknown = {"size", 3};
    CHECK(plans.apply("vla", "split", {&unknown, 1}, b) == -1);
    CHECK(std::string(frt_runtime_refusal()).find("size") != std::string::npos);
    REQUIRE(plans.apply("vla", "split", {}, b) == 0);
    CHECK(plans.apply("vla", "split", {}, b) == -1);  // the stages are there already
    const frt_model_runtime_verbs verbs = all_verbs();
    frt_model_runtime_v1* model =
        frt_runtime_builder_finish_model(b, &verbs, nullptr, nullptr, nullptr, nullptr);
    REQUIRE(model != nullptr);
    REQUIRE(model->n_stages == 2);
    CHECK(model->stages[0].graph == 1);
    CHECK(model->stages[1].graph == 2);
    REQUIRE(model->stages[1].n_after == 1);
    CHECK(model->stages[1].after[0] == 0);
    const std::string identity = model->exp->identity;
    CHECK(identity.find("stage:0:1:\nstage:1:2:0\n") != std::string::npos);
    CHECK(identity.find("split") == std::string::npos);
    model->release(model->owner);

    frt_runtime_builder three = make_builder();
    const frt::StagePlanArgument count = {"chunks", 3};
    REQUIRE(plans.apply("any model", "chunks", {&count, 1}, three) == 0);
    model = frt_runtime_builder_finish_model(three, &verbs, nullptr, nullptr, nullptr, nullptr);
    REQUIRE(model != nullptr);
    CHECK(model->n_stages == 3);
    CHECK(model->stages[2].after[0] == 1);
    model->release(model->owner);
}

TEST_CASE("flat configurations are read strictly", "[config]")
{
    const struct {
        const char* rule;
        const char* json;
        int parse;
    } rows[] = {{"empty object", " { } ", 0},
                {"all kinds", R"({"a":"x","b":-5,"c":true,"d":null})", 0},
                {"escapes", R"({"a":"\"\\\/\b\f\n\r\t"})", 0},
                {"nothing", "", -1},
                {"an array", "[]", -1},
                {"open object", R"({"a":1)", -1},
                {"trailing comma", R"({"a":1,})", -1},
                {"no colon", R"({"a" 1})", -1},
                {"no comma", R"({"a":1 "b":2})", -1},
                {"key twice", R"({"a":1,"a":2})", -1},
                {"fraction", R"({"a":1.0})", -1},
                {"exponent", R"({"a":1e3})", -1},
                {"needless zero", R"({"a":01})", -1},
                {"plus", R"({"a":+1})", -1},
                {"largest", R"({"a":9223372036854775807})", 0},
                {"too large", R"({"a":9223372036854775808})", -1},
                {"smallest", R"({"a":-9223372036854775808})", 0},
                {"too small", R"({"a":-9223372036854775809})", -1},
                {"nested", R"({"a":{}})", -1},
                {"list value", R"({"a":[1]})", -1},
                {"unicode escape", R"({"a":"\u0041"})", -1},
                {"open string", R"({"a":"x)", -1},
                {"control character", "{\"a\":\"x\ny\"}", -1},
                {"open escape", "{\"a\":\"\\", -1},
                {"behind the object", R"({"a":1} 2)", -1}};
    for (const auto& row : rows) {
        INFO(row.rule);
        const std::string whole = row.json;
        for (size_t cut = 0; cut <= whole.size(); cut++) {
            const GuardCopy copy((whole.substr(0, cut) + '\0').data(), cut + 1);
            frt::FlatConfig config;
            const int code = config.parse(copy.begin());
            const bool blank_tail = whole.find_first_not_of(' ', cut) == std::string::npos;
            if (cut == whole.size()) {
                CHECK(code == row.parse);
            } else if (row.parse == 0 && !blank_tail) {
                CHECK(code == -1);
            }
        }
    }
    frt::FlatConfig config;
    REQUIRE(config.parse(R"({"n":7,"s":"\"q\\","b":false,"z":null,"more":1})") == 0);
    int64_t number = 0;
    const char* text = nullptr;
    bool flag = true;
    CHECK(config.integer("n", 1, 0, 7, &number) == 0);
    CHECK(number == 7);
    CHECK(config.integer("n", 1, 8, 9, &number) == -1);
    CHECK(config.integer("absent", 5, 0, 9, &number) == 0);
    CHECK(number == 5);
    CHECK(config.integer("z", 6, 0, 9, &number) == 0);
    CHECK(number == 6);
    CHECK(config.integer("s", 6, 0, 9, &number) == -1);
    CHECK(config.text("s", "", &text) == 0);
    CHECK(std::string(text) == "\"q\\");
    CHECK(config.text("n", "", &text) == -1);
    CHECK(config.boolean("b", true, &flag) == 0);
    CHECK_FALSE(flag);
    CHECK(config.boolean("n", true, &flag) == -1);
    CHECK(config.finish() == -1);  // "more" was never asked for
    CHECK(config.integer("more", 0, 0, 9, &number) == 0);
    CHECK(config.finish() == 0);
}
