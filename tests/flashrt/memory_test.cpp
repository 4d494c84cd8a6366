// Purpose:  whichever allocation fails: builder, wrap, override, stage plans, configurations and
//           the execution layer say so, leave nothing behind, and end every owner as often as it
//           began.
// Owns:     nothing.
// Thread:   one.
// Lifetime: the test program.
#include <catch2/catch.hpp>
#include <cstring>
#include <string>

#include "fabricated.h"
#include "failing_heap.h"
#include "flashrt/builder.hpp"
#include "flashrt/config.hpp"
#include "flashrt/cpu_recorder.h"
#include "flashrt/exec.h"
#include "flashrt/loader.hpp"
#include "flashrt/stage_plan.hpp"

namespace {

// Each scenario answers whether everything in it worked. They run with a heap that fails, so they
// hold nothing that allocates but what they try.
using Scenario = bool (*)(Owner* owner);

int split(void*, frt::StagePlanArguments*, frt::StagePlan* plan)
{
    return plan->stage("context", "g0") != 0 ? -1
                                             : plan->stage("action", "g1", {"context"}, "main");
}

// Enough rows for every list to grow a second time.
int declare(frt_runtime_builder b)
{
    const frt_shape_key keys[] = {1, 2, 3};
    const int64_t shape[] = {4, 4};
    char name[8] = {'g', '0', '\0'};
    int code = frt_runtime_builder_add_stream(b, "main", 0, 0, nullptr);
    code |= frt_runtime_builder_add_identity(b, "weights", "0123456789abcdef");
    code |= frt_runtime_builder_set_manifest(b, "{}");
    for (int at = 0; at < 9; at++) {
        name[1] = static_cast<char>('0' + at);
        code |= frt_runtime_builder_add_graph(b, name, fabricated<frt_graph>(3), 0, keys, 3, 0);
        code |= frt_runtime_builder_add_buffer(b, name, fabricated<frt_buffer>(4), 64, 1);
        code |= frt_runtime_builder_add_region(b, name, fabricated<frt_buffer>(4), 0, 8, 3);
        code |= frt_runtime_builder_add_port(b, name, 0, 1, 0, 0, 0, 0, shape, 2, 0,
                                             fabricated<frt_buffer>(4), 0, 64);
    }
    return code;
}

frt_model_runtime_v1* finished(frt_runtime_builder b, Owner* owner)
{
    const frt_model_runtime_verbs verbs = all_verbs();
    frt_model_runtime_v1* model =
        frt_runtime_builder_finish_model(b, &verbs, nullptr, owner, Owner::retain, Owner::release);
    if (model == nullptr) {
        frt_runtime_builder_destroy(b);
    }
    return model;
}

frt_model_runtime_v1* staged_model(Owner* owner)
{
    frt_runtime_builder b = frt_runtime_builder_create(fabricated<frt_ctx>(1));
    frt::StagePlans plans;
    if (b == nullptr || declare(b) != 0 || plans.add("m", "split", split) != 0 ||
        plans.apply("m", "split", {}, b) != 0) {
        frt_runtime_builder_destroy(b);
        return nullptr;
    }
    return finished(b, owner);
}

bool build(Owner* owner)
{
    frt_model_runtime_v1* model = staged_model(owner);
    if (model != nullptr) {
        model->release(model->owner);
    }
    return model != nullptr;
}

bool build_plan(Owner* owner)
{
    static int value = 0;
    frt_runtime_builder b = frt_model_runtime_builder_create_metadata();
    const uint32_t after[] = {0};
    if (b == nullptr || frt_runtime_builder_add_generic_stage(b, "a", 1, 5, nullptr, 0) != 0 ||
        frt_runtime_builder_add_generic_stage(b, "b", 1, 6, after, 1) != 0 ||
        frt_runtime_builder_set_generic_stage_runner(b, &value, fabricated_verbs::run_opaque) !=
            0 ||
        frt_runtime_builder_add_extension(b, UINT64_C(1) << 40, 1, &value) != 0) {
        frt_runtime_builder_destroy(b);
        return false;
    }
    frt_model_runtime_v1* model = finished(b, owner);
    if (model != nullptr) {
        model->release(model->owner);
    }
    return model != nullptr;
}

bool wrap_and_override(Owner* owner)
{
    frt_model_runtime_v1* base = staged_model(owner);
    if (base == nullptr) {
        return false;
    }
    const frt_model_runtime_verbs verbs = all_verbs();
    frt_model_runtime_v1* wrap =
        frt_model_runtime_wrap(base->exp, base->ports, base->n_ports, base->stages, base->n_stages,
                               &verbs, nullptr, nullptr, nullptr);
    frt_model_runtime_v1* over = frt_model_runtime_override_verbs(base, &verbs, nullptr, owner,
                                                                  Owner::retain, Owner::release);
    frt::LoadedModel loaded;  // takes no memory of its own
    const bool adopted = loaded.adopt(base) == frt::LoadStatus::loaded;
    for (frt_model_runtime_v1* model : {wrap, over}) {
        if (model != nullptr) {
            model->release(model->owner);
        }
    }
    base->release(base->owner);
    return adopted && wrap != nullptr && over != nullptr;
}

bool configure(Owner*)
{
    frt::FlatConfig config;
    const char* text = nullptr;
    return config.parse(R"({"a":"x","b":1,"c":2,"d":3,"e":4,"f":5,"g":6,"h":7,"i":8})") == 0 &&
           config.text("a", "", &text) == 0;
}

int one_more(void* arguments)
{
    (**static_cast<int**>(arguments))++;
    return 0;
}

void record_one_more(void* user, void* stream)
{
    const frt_cpu_recorder* recorder = static_cast<const frt_cpu_recorder*>(stream);
    recorder->call(recorder->self, one_more, &user, sizeof user);
}

bool execute(Owner*)
{
    frt_ctx ctx = frt_ctx_create_on("cpu");
    int counter = 0;
    bool done = ctx != nullptr;
    done = frt_ctx_stream(ctx, 0) == 1 && done;
    done = frt_buffer_alloc(ctx, "a", 64) != nullptr && done;
    frt_buffer buffer = frt_buffer_wrap(ctx, "b", &counter, sizeof counter);
    frt_graph graph = frt_graph_create(ctx, "g", 0);
    done = frt_graph_bind(graph, "x", buffer) == FRT_OK && done;
    for (frt_shape_key key = 0; key < 20; key++) {
        const size_t before = frt_graph_variant_count(graph);
        const bool captured = frt_graph_capture(graph, key, record_one_more, &counter) == FRT_OK;
        done = captured && done;
        done = frt_graph_variant_count(graph) == before + (captured ? 1 : 0) && done;
    }
    frt_plan plan = frt_plan_create(ctx);
    done = frt_plan_add(plan, graph, 1, 0) == 0 && frt_plan_add(plan, graph, 2, 1) == 1 && done;
    done = frt_plan_after(plan, 1, 0) == FRT_OK && done;
    done = frt_plan_execute(plan, 0) == FRT_OK && done;
    frt_ctx_destroy(ctx);
    return done && counter == 2;
}

}  // namespace

TEST_CASE("whichever allocation fails is told and leaves nothing behind", "[memory]")
{
    if (!heap_can_fail()) {
        return;
    }
    const struct {
        const char* name;
        Scenario run;
    } rows[] = {{"build", build},
                {"build a plan", build_plan},
                {"wrap and override", wrap_and_override},
                {"configure", configure},
                {"execute", execute}};
    for (const auto& row : rows) {
        Owner good;
        heap_fail(0, false);
        const bool works = row.run(&good);
        const uint64_t allocations = heap_allocations();
        const int64_t blocks = heap_blocks();
        INFO(row.name << ", " << allocations << " allocations");
        CHECK(works);
        CHECK(blocks == 0);
        CHECK(allocations > 1);
        CHECK(good.retained == good.released);
        for (uint64_t turn = 0; turn < 2 * allocations; turn++) {
            Owner owner;
            heap_fail(turn / 2 + 1, turn % 2 != 0);
            const bool done = row.run(&owner);
            const int64_t left = heap_blocks();
            heap_fail(0, false);
            INFO("allocation " << turn / 2 + 1 << (turn % 2 != 0 ? " and all after it" : ""));
            CHECK_FALSE(done);
            CHECK(left == 0);
            CHECK(owner.retained == owner.released);
        }
    }
}
