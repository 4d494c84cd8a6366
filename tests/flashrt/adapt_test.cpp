// Purpose:  wrap and override: what they refuse without a trace, what they share, and the order in
//           which things end, also under threads.
// Owns:     nothing.
// Thread:   one, and those that the thread cases start and join.
// Lifetime: the test program.
#include <catch2/catch.hpp>
#include <string>
#include <thread>
#include <vector>

#include "fabricated.h"
#include "flashrt/builder.hpp"

namespace {

using namespace fabricated_verbs;

// An export with two graphs and one buffer of 64 bytes.
frt_runtime_export_v1* make_export(Owner* owner)
{
    frt_runtime_builder b = frt_runtime_builder_create(fabricated<frt_ctx>(1));
    frt_runtime_builder_add_graph(b, "a", fabricated<frt_graph>(2), 0, nullptr, 0, 0);
    frt_runtime_builder_add_graph(b, "b", fabricated<frt_graph>(3), 0, nullptr, 0, 0);
    frt_runtime_builder_add_buffer(b, "w", fabricated<frt_buffer>(4), 64, 1);
    return frt_runtime_builder_finish(b, owner, Owner::retain, Owner::release);
}

frt_model_runtime_v1* make_model(Owner* owner, int* self, bool plan, bool mixed = false)
{
    frt_runtime_builder b = frt_runtime_builder_create(fabricated<frt_ctx>(1));
    frt_runtime_builder_add_graph(b, "a", fabricated<frt_graph>(2), 0, nullptr, 0, 0);
    frt_runtime_builder_add_port(b, "x", 0, 1, 0, 0, 1, 0, nullptr, 0, 0, nullptr, 0, 0);
    if (plan) {
        if (mixed) {
            frt_runtime_builder_add_generic_stage(b, "graph", 0, 0, nullptr, 0);
        }
        frt_runtime_builder_add_generic_stage(b, "only", 1, 37, nullptr, 0);
        frt_runtime_builder_set_generic_stage_runner(b, self, run_opaque);
    } else {
        frt_runtime_builder_add_stage(b, 0, nullptr, 0);
    }
    const frt_model_runtime_verbs verbs = all_verbs();
    return frt_runtime_builder_finish_model(b, &verbs, self, owner, Owner::retain, Owner::release);
}

frt_runtime_port_desc staged_port(const char* name)
{
    return {name, 0, 1, 0, 0, 1, 0, nullptr, 0, 0, nullptr, 0, 0};
}

// A hand-made base whose references are counted.
struct Foreign {
    Owner owner;
    frt_runtime_export_v1 exp = {1,
                                 128,
                                 fabricated<frt_ctx>(1),
                                 nullptr,
                                 0,
                                 nullptr,
                                 1,
                                 nullptr,
                                 0,
                                 nullptr,
                                 0,
                                 0,
                                 "x",
                                 nullptr,
                                 &owner,
                                 Owner::retain,
                                 Owner::release};
    frt_runtime_graph_desc graph = {"g", fabricated<frt_graph>(2), 0, nullptr, 0, 0};
    frt_runtime_port_desc port = staged_port("x");
    frt_runtime_stage_desc stage = {0, 0, nullptr};
    frt_generic_stage_desc_v1 rows[2] = {{"one", 1, 5, 0, nullptr}, {"two", 1, 6, 1, zero}};
    frt_generic_stage_plan_ext_v1 plan = {1, 40, rows, 2, &number, run_opaque};
    uint32_t zero[2] = {0, 0};
    int number = 0;
    int query_code = -3;
    const void* query_table = nullptr;
    frt_model_runtime_v1 model = {
        1,           136,    &exp,          &port,          1,    &stage, 1, this,
        all_verbs(), &owner, Owner::retain, Owner::release, query};

    Foreign() { exp.graphs = &graph; }
    static int query(const frt_model_runtime_v1* runtime, uint64_t, uint32_t, const void** out)
    {
        const Foreign* self = static_cast<const Foreign*>(runtime->self);
        *out = self->query_table;
        return self->query_code;
    }
    void use_plan()
    {
        model.stages = nullptr;
        model.n_stages = 0;
        query_code = 0;
        query_table = &plan;
    }
};

}  // namespace

TEST_CASE("wrap keeps the export and copies the descriptors", "[wrap]")
{
    std::atomic<int> clock{0};
    Owner base;
    Owner wrapper;
    base.clock = &clock;
    wrapper.clock = &clock;
    frt_runtime_export_v1* exp = make_export(&base);
    int64_t shape[] = {16};
    char name[] = "window";
    const uint32_t after[] = {0};
    const frt_runtime_port_desc ports[] = {
        {name, 0, 1, 0, 0, 0, 0, shape, 1, 0, fabricated<frt_buffer>(4), 0, 64}};
    const frt_runtime_stage_desc stages[] = {{0, 0, nullptr}, {1, 1, after}};
    const frt_model_runtime_verbs verbs = all_verbs();
    frt_model_runtime_v1* model =
        frt_model_runtime_wrap(exp, ports, 1, stages, 2, &verbs, nullptr, &wrapper, Owner::release);
    REQUIRE(model != nullptr);
    name[0] = 'X';
    shape[0] = 0;
    CHECK(model->exp == exp);
    CHECK(std::string(model->ports[0].name) == "window");
    CHECK(model->ports[0].shape[0] == 16);
    CHECK(model->stages[1].after[0] == 0);
    const void* table = &clock;
    CHECK(model->query_extension(model, 1, 1, &table) == -3);
    CHECK(table == nullptr);
    exp->release(exp->owner);
    CHECK(base.released == 0);
    model->retain(model->owner);
    model->release(model->owner);
    CHECK(wrapper.released == 0);
    model->release(model->owner);
    CHECK(wrapper.released == 1);
    CHECK(base.released == 1);
    CHECK(wrapper.released_at < base.released_at);  // the wrapper first, then the export
}

TEST_CASE("wrap refuses without retaining", "[wrap]")
{
    Owner base;
    frt_runtime_export_v1* exp = make_export(&base);
    const uint32_t self_after[] = {0};
    const frt_runtime_port_desc good = staged_port("x");
    const frt_runtime_port_desc outside = {
        "x", 0, 1, 0, 0, 0, 0, nullptr, 0, 0, fabricated<frt_buffer>(4), 1, 64};
    const frt_runtime_port_desc nameless = staged_port(nullptr);
    const frt_runtime_port_desc twins[] = {good, good};
    const frt_runtime_stage_desc stage = {0, 0, nullptr};
    const frt_runtime_stage_desc bad_graph = {2, 0, nullptr};
    const frt_runtime_stage_desc bad_after = {0, 1, self_after};
    const frt_model_runtime_verbs verbs = all_verbs();
    frt_model_runtime_verbs no_input = verbs;
    no_input.set_input = nullptr;
    frt_runtime_export_v1 bent[8];
    for (frt_runtime_export_v1& one : bent) {
        one = *exp;
    }
    bent[0].abi_version = 2;
    bent[1].struct_size = 127;
    bent[2].struct_size = 0xDEADBEEFu;
    bent[3].retain = nullptr;
    bent[4].release = nullptr;
    bent[5].graphs = nullptr;
    bent[6].identity = nullptr;
    bent[7].struct_size = 132;
    struct Case {
        const char* rule;
        const frt_runtime_export_v1* exp;
        const frt_runtime_port_desc* ports;
        uint64_t n_ports;
        const frt_runtime_stage_desc* stages;
        uint64_t n_stages;
        const frt_model_runtime_verbs* verbs;
    };
    const Case rows[] = {
        {"no export", nullptr, &good, 1, &stage, 1, &verbs},
        {"another version", &bent[0], &good, 1, &stage, 1, &verbs},
        {"a short export", &bent[1], &good, 1, &stage, 1, &verbs},
        {"a size that lies", &bent[2], &good, 1, &stage, 1, &verbs},
        {"no retain", &bent[3], &good, 1, &stage, 1, &verbs},
        {"no release", &bent[4], &good, 1, &stage, 1, &verbs},
        {"graphs counted and missing", &bent[5], &good, 1, &stage, 1, &verbs},
        {"no identity", &bent[6], &good, 1, &stage, 1, &verbs},
        {"a size inside a field", &bent[7], &good, 1, &stage, 1, &verbs},
        {"no stages", exp, &good, 1, &stage, 0, &verbs},
        {"stages counted and missing", exp, &good, 1, nullptr, 1, &verbs},
        {"ports counted and missing", exp, nullptr, 1, &stage, 1, &verbs},
        {"a port without a name", exp, &nameless, 1, &stage, 1, &verbs},
        {"a port twice", exp, twins, 2, &stage, 1, &verbs},
        {"a window outside its buffer", exp, &outside, 1, &stage, 1, &verbs},
        {"STAGED without its verb", exp, &good, 1, &stage, 1, &no_input},
        {"STAGED without any verbs", exp, &good, 1, &stage, 1, nullptr},
        {"an unknown graph", exp, &good, 1, &bad_graph, 1, &verbs},
        {"a dependency on itself", exp, &good, 1, &bad_after, 1, &verbs},
    };
    Owner wrapper;
    for (const Case& row : rows) {
        INFO(row.rule);
        CHECK(frt_model_runtime_wrap(row.exp, row.ports, row.n_ports, row.stages, row.n_stages,
                                     row.verbs, nullptr, &wrapper, Owner::release) == nullptr);
        CHECK(std::string(frt_runtime_refusal()).size() > 0);
    }
    CHECK(wrapper.released == 0);
    exp->release(exp->owner);
    CHECK(base.released == 1);  // so nothing was retained
}

TEST_CASE("override shares declarations and replaces the verbs", "[override]")
{
    std::atomic<int> clock{0};
    Owner base_owner;
    Owner native_owner;
    base_owner.clock = &clock;
    native_owner.clock = &clock;
    int base_self = 1;
    int native_self = 7;
    frt_model_runtime_v1* base = make_model(&base_owner, &base_self, false);
    const frt_model_runtime_verbs verbs = {48, 0, set_input, nullptr, nullptr, nullptr, nullptr};
    frt_model_runtime_v1* model = frt_model_runtime_override_verbs(
        base, &verbs, &native_self, &native_owner, Owner::retain, Owner::release);
    REQUIRE(model != nullptr);
    CHECK(native_owner.retained == 1);
    CHECK(model->exp == base->exp);
    CHECK(model->ports == base->ports);
    CHECK(model->stages == base->stages);
    CHECK(model->exp->fingerprint == base->exp->fingerprint);
    base->release(base->owner);
    CHECK(base_owner.released == 0);
    CHECK(model->verbs.set_input(model->self, 0, nullptr, 0, -1) == 7);
    CHECK(model->verbs.step(model->self) == -3);  // the base's verbs do not show through
    CHECK(std::string(model->verbs.last_error(model->self)) != "the base's text");
    model->release(model->owner);
    CHECK(native_owner.released == 1);
    CHECK(base_owner.released == 1);
    CHECK(native_owner.released_at < base_owner.released_at);
}

TEST_CASE("override of an OPAQUE plan serves the base's plan and error", "[override]")
{
    Owner base_owner;
    int base_self = 100;
    int native_self = 7;
    frt_model_runtime_v1* base = make_model(&base_owner, &base_self, true);
    const void* want = nullptr;
    REQUIRE(base->query_extension(base, 1, 1, &want) == 0);
    const frt_model_runtime_verbs verbs = all_verbs();
    frt_model_runtime_v1* model =
        frt_model_runtime_override_verbs(base, &verbs, &native_self, nullptr, nullptr, nullptr);
    REQUIRE(model != nullptr);
    base->release(base->owner);
    const void* got = nullptr;
    CHECK(model->query_extension(model, 1, 1, &got) == 0);
    CHECK(got == want);
    const auto* plan = static_cast<const frt_generic_stage_plan_ext_v1*>(got);
    CHECK(plan->stage_self == &base_self);
    CHECK(plan->run_opaque(plan->stage_self, plan->stages[0].executor_ref) == 137);
    CHECK(std::string(model->verbs.last_error(model->self)) == "the base's text");
    CHECK(model->query_extension(model, 1, 2, &got) == -3);
    CHECK(model->query_extension(model, 1, 0, &got) == -1);
    model->release(model->owner);
    CHECK(base_owner.released == 1);

    frt_model_runtime_v1* mixed = make_model(&base_owner, &base_self, true, true);
    REQUIRE(mixed != nullptr);
    CHECK(frt_model_runtime_override_verbs(mixed, &verbs, nullptr, nullptr, nullptr, nullptr) ==
          nullptr);
    mixed->release(mixed->owner);
}

TEST_CASE("override refuses hostile bases without retaining", "[override]")
{
    struct Case {
        const char* rule;
        void (*bend)(Foreign* base);
    };
    const Case refused[] = {
        {"another version", [](Foreign* f) { f->model.abi_version = 2; }},
        {"127 bytes", [](Foreign* f) { f->model.struct_size = 127; }},
        {"0 bytes", [](Foreign* f) { f->model.struct_size = 0; }},
        {"a size inside a field", [](Foreign* f) { f->model.struct_size = 132; }},
        {"a size that lies", [](Foreign* f) { f->model.struct_size = 0xDEADBEEFu; }},
        {"no export", [](Foreign* f) { f->model.exp = nullptr; }},
        {"no retain", [](Foreign* f) { f->model.retain = nullptr; }},
        {"no release", [](Foreign* f) { f->model.release = nullptr; }},
        {"ports counted and missing", [](Foreign* f) { f->model.ports = nullptr; }},
        {"stages counted and missing", [](Foreign* f) { f->model.stages = nullptr; }},
        {"a stage of no graph", [](Foreign* f) { f->stage.graph = 1; }},
        {"a port without a name", [](Foreign* f) { f->port.name = ""; }},
        {"a verbs table too short", [](Foreign* f) { f->model.verbs.struct_size = 40; }},
        {"a verbs size that lies", [](Foreign* f) { f->model.verbs.struct_size = 0xDEADBEEFu; }},
        {"a SWAP port without a window", [](Foreign* f) { f->port.update = FRT_RT_PORT_SWAP; }},
        {"step alone",
         [](Foreign* f) {
             f->model.stages = nullptr;
             f->model.n_stages = 0;
         }},
        {"a query that fails strangely", [](Foreign* f) { f->query_code = -1; }},
        {"success without a table", [](Foreign* f) { f->query_code = 0; }},
        {"failure with a table", [](Foreign* f) { f->query_table = &f->plan; }},
        {"stages and a plan",
         [](Foreign* f) {
             f->query_code = 0;
             f->query_table = &f->plan;
         }},
        {"plan: version 0", [](Foreign* f) { f->use_plan(), f->plan.abi_version = 0; }},
        {"plan: short", [](Foreign* f) { f->use_plan(), f->plan.struct_size = 39; }},
        {"plan: a size inside a field",
         [](Foreign* f) { f->use_plan(), f->plan.struct_size = 44; }},
        {"plan: empty", [](Foreign* f) { f->use_plan(), f->plan.n_stages = 0; }},
        {"plan: no array", [](Foreign* f) { f->use_plan(), f->plan.stages = nullptr; }},
        {"plan: no runner", [](Foreign* f) { f->use_plan(), f->plan.run_opaque = nullptr; }},
        {"plan: no last_error",
         [](Foreign* f) { f->use_plan(), f->model.verbs.last_error = nullptr; }},
        {"plan: unknown kind", [](Foreign* f) { f->use_plan(), f->rows[1].executor_kind = 2; }},
        {"plan: a graph", [](Foreign* f) { f->use_plan(), f->rows[1].executor_kind = 0; }},
        {"plan: a graph that exists",
         [](Foreign* f) {
             f->use_plan(), f->rows[1].executor_kind = 0;
             f->rows[1].executor_ref = 0;
         }},
        {"plan: no dependency array",
         [](Foreign* f) { f->use_plan(), f->rows[1].after = nullptr; }},
        {"plan: forward dependency", [](Foreign* f) { f->use_plan(), f->zero[0] = 1; }},
        {"plan: doubled dependency", [](Foreign* f) { f->use_plan(), f->rows[1].n_after = 2; }},
        {"plan: doubled name", [](Foreign* f) { f->use_plan(), f->rows[1].name = "one"; }},
        {"plan: name NULL", [](Foreign* f) { f->use_plan(), f->rows[0].name = nullptr; }},
        {"plan: name not UTF-8", [](Foreign* f) { f->use_plan(), f->rows[0].name = "\xff"; }},
    };
    const frt_model_runtime_verbs verbs = all_verbs();
    Owner native;
    for (const Case& row : refused) {
        INFO(row.rule);
        Foreign base;
        row.bend(&base);
        CHECK(frt_model_runtime_override_verbs(&base.model, &verbs, nullptr, &native, Owner::retain,
                                               Owner::release) == nullptr);
        CHECK(base.owner.retained == 0);
        CHECK(native.retained == 0);
    }
    const Case taken[] = {
        {"as it is", [](Foreign*) {}},
        {"a prefix of 128 bytes", [](Foreign* f) { f->model.struct_size = 128; }},
        {"a tail without a function", [](Foreign* f) { f->model.query_extension = nullptr; }},
        {"a longer tail", [](Foreign* f) { f->model.struct_size = 144; }},
        {"a plan of OPAQUE stages", [](Foreign* f) { f->use_plan(); }},
        {"a plan with a longer table", [](Foreign* f) { f->use_plan(), f->plan.struct_size = 48; }},
    };
    for (const Case& row : taken) {
        INFO(row.rule);
        Foreign base;
        row.bend(&base);
        frt_model_runtime_v1* model = frt_model_runtime_override_verbs(
            &base.model, &verbs, nullptr, &native, Owner::retain, Owner::release);
        REQUIRE(model != nullptr);
        CHECK(base.owner.retained == 1);
        // A base without a tail, or without a plan, offers nothing.
        const void* table = &row;
        const bool has_plan = base.query_code == 0;
        CHECK(model->query_extension(model, 1, 1, &table) == (has_plan ? 0 : -3));
        CHECK(table == (has_plan ? &base.plan : nullptr));
        model->release(model->owner);
        CHECK(base.owner.released == 1);
    }
    Foreign base;
    frt_model_runtime_verbs no_input = verbs;
    no_input.set_input = nullptr;
    CHECK(frt_model_runtime_override_verbs(&base.model, &no_input, nullptr, nullptr, nullptr,
                                           nullptr) == nullptr);
    CHECK(frt_model_runtime_override_verbs(nullptr, &verbs, nullptr, nullptr, nullptr, nullptr) ==
          nullptr);
}

TEST_CASE("eight threads retain and release, and every owner ends once", "[lifetime][threads]")
{
    Owner base_owner;
    Owner native_owner;
    Owner export_owner;
    int self = 0;
    frt_runtime_export_v1* exp = make_export(&export_owner);
    frt_model_runtime_v1* base = make_model(&base_owner, &self, false);
    const frt_model_runtime_verbs verbs = all_verbs();
    const frt_runtime_stage_desc stage = {0, 0, nullptr};
    frt_model_runtime_v1* wrap =
        frt_model_runtime_wrap(exp, nullptr, 0, &stage, 1, &verbs, nullptr, nullptr, nullptr);
    frt_model_runtime_v1* over = frt_model_runtime_override_verbs(
        base, &verbs, nullptr, &native_owner, Owner::retain, Owner::release);
    REQUIRE(wrap != nullptr);
    REQUIRE(over != nullptr);
    constexpr int kThreads = 8;
    constexpr int kRounds = 2000;
    for (int at = 0; at < kThreads; at++) {
        base->retain(base->owner);
        over->retain(over->owner);
        wrap->retain(wrap->owner);
        exp->retain(exp->owner);
    }
    std::vector<std::thread> threads;
    for (int at = 0; at < kThreads; at++) {
        threads.emplace_back([=] {
            for (int round = 0; round < kRounds; round++) {
                over->retain(over->owner);
                base->exp->retain(base->exp->owner);
                wrap->retain(wrap->owner);
                wrap->release(wrap->owner);
                base->release(base->owner);
                over->release(over->owner);
            }
            exp->release(exp->owner);  // this thread's own references, in another order each
            wrap->release(wrap->owner);
            over->release(over->owner);
            base->release(base->owner);
        });
    }
    base->release(base->owner);
    over->release(over->owner);
    exp->release(exp->owner);
    wrap->release(wrap->owner);
    for (std::thread& thread : threads) {
        thread.join();
    }
    CHECK(base_owner.released == 1);
    CHECK(native_owner.released == 1);
    CHECK(export_owner.released == 1);
}

TEST_CASE("an export and its runtime share one count", "[lifetime]")
{
    Owner owner;
    int self = 0;
    frt_model_runtime_v1* model = make_model(&owner, &self, false);
    const frt_runtime_export_v1* exp = model->exp;
    CHECK(owner.retained == 1);
    CHECK(model->owner == exp->owner);
    exp->retain(exp->owner);
    model->release(model->owner);
    CHECK(owner.released == 0);
    CHECK(model->n_ports == 1);  // a reference to either keeps both
    exp->release(exp->owner);
    CHECK(owner.released == 1);
}
