// Purpose:  the loader's gates against objects of other sizes, versions and honesty, and archived
//           producers and consumers against today's headers.
// Owns:     nothing.
// Thread:   one.
// Lifetime: the test program.
#include "flashrt/loader.hpp"

#include <dlfcn.h>

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "archive/old_consumer.h"
#include "fabricated.h"
#include "guard_page.h"

namespace {

// A hand-made producer whose struct may lie anywhere.
struct Maker {
    Owner owner;
    frt_runtime_export_v1 exp = {};
    frt_runtime_port_desc port = {};
    frt_runtime_buffer_desc buffer = {"b", fabricated<frt_buffer>(5), 64, 1, 0};
    frt_runtime_graph_desc graph = {"g", fabricated<frt_graph>(6), 0, nullptr, 0, 0};
    frt_runtime_stage_desc stage = {};
    frt_generic_stage_desc_v1 plan_stages[2] = {};
    frt_generic_stage_plan_ext_v1 plan = {1, 40, plan_stages, 0, nullptr, run_opaque};
    frt_model_runtime_v1 model = {};

    // From a metadata runtime to one with a device, whose windows a host writes itself and whose
    // graph a stage fires.
    void give_context()
    {
        exp.ctx = fabricated<frt_ctx>(1);
        exp.buffers = &buffer;
        exp.n_buffers = 1;
        exp.graphs = &graph;
        exp.n_graphs = 1;
        model.stages = &stage;
        model.n_stages = 1;
    }
    // In place of legacy stages, a plan of so many stages: the first OPAQUE, the second a graph.
    void give_plan(uint64_t count)
    {
        model.stages = nullptr;
        model.n_stages = 0;
        plan_stages[0] = {"opaque", FRT_GENERIC_STAGE_OPAQUE, 7, 0, nullptr};
        plan_stages[1] = {"graph", FRT_GENERIC_STAGE_GRAPH, 0, 0, nullptr};
        plan.n_stages = count;
        model.query_extension = query_plan;
        offered = &plan;
    }

    Maker()
    {
        exp.abi_version = 1;
        exp.struct_size = sizeof exp;
        exp.identity = "frt-runtime-identity-v1\n";
        exp.owner = &owner;
        exp.retain = Owner::retain;
        exp.release = Owner::release;
        port.name = "x";
        port.update = FRT_RT_PORT_STAGED;
        model.abi_version = 1;
        model.struct_size = sizeof model;
        model.exp = &exp;
        model.ports = &port;
        model.n_ports = 1;
        model.verbs = all_verbs();
        model.owner = &owner;
        model.retain = Owner::retain;
        model.release = Owner::release;
        model.query_extension = query;
    }
    static int query(const frt_model_runtime_v1* runtime, uint64_t, uint32_t, const void** out)
    {
        *out = nullptr;
        return runtime->owner == nullptr ? -1 : -3;
    }
    // One offer is enough: a query sees a copy of the object, never its maker.
    static inline const frt_generic_stage_plan_ext_v1* offered = nullptr;
    static int query_plan(const frt_model_runtime_v1*, uint64_t id, uint32_t min_version,
                          const void** out)
    {
        const bool asked = id == FRT_EXT_GENERIC_STAGE_PLAN_V1 && min_version == 1;
        *out = asked ? offered : nullptr;
        return asked ? 0 : min_version == 0 ? -1 : -3;
    }
    static int run_opaque(void*, uint32_t) { return 0; }
};

struct Gate {
    const char* rule;
    frt::LoadStatus want;
    const char* reason;
    size_t readable_bytes;  // of the object; a fault lies behind
    void (*bend)(Maker* maker);
};

using frt::LoadStatus;

const Gate kGates[] = {
    {"today's size", LoadStatus::loaded, "", 136, [](Maker*) {}},
    {"an older, smaller producer", LoadStatus::loaded, "", 128,
     [](Maker* m) { m->model.struct_size = 128; }},
    {"a newer, larger producer", LoadStatus::loaded, "", 136,
     [](Maker* m) { m->model.struct_size = 200; }},
    {"an optional verb missing", LoadStatus::loaded, "", 136,
     [](Maker* m) { m->model.verbs.prepare = nullptr; }},
    {"no text of errors", LoadStatus::loaded, "", 136,
     [](Maker* m) { m->model.verbs.last_error = nullptr; }},
    {"a tail without a function", LoadStatus::loaded, "", 136,
     [](Maker* m) { m->model.query_extension = nullptr; }},
    {"size 0", LoadStatus::gate, "struct_size", 8, [](Maker* m) { m->model.struct_size = 0; }},
    {"size 127", LoadStatus::gate, "struct_size", 8, [](Maker* m) { m->model.struct_size = 127; }},
    {"a size that lies", LoadStatus::gate, "struct_size", 8,
     [](Maker* m) { m->model.struct_size = 0xDEADBEEFu; }},
    {"a size just above what any version holds", LoadStatus::gate, "struct_size", 8,
     [](Maker* m) { m->model.struct_size = 4104; }},
    {"a size that ends inside a pointer", LoadStatus::gate, "struct_size", 8,
     [](Maker* m) { m->model.struct_size = 132; }},
    {"the next major version", LoadStatus::gate, "abi_version", 8,
     [](Maker* m) { m->model.abi_version = 2; }},
    {"version 0", LoadStatus::gate, "abi_version", 8, [](Maker* m) { m->model.abi_version = 0; }},
    {"no export", LoadStatus::gate, "exp", 136, [](Maker* m) { m->model.exp = nullptr; }},
    {"no retain", LoadStatus::gate, "retain", 136, [](Maker* m) { m->model.retain = nullptr; }},
    {"no release", LoadStatus::gate, "release", 136, [](Maker* m) { m->model.release = nullptr; }},
    {"a required verb missing", LoadStatus::gate, "set_input", 136,
     [](Maker* m) { m->model.verbs.set_input = nullptr; }},
    {"a verbs table of today's size in an older object", LoadStatus::loaded, "", 128,
     [](Maker* m) {
         m->model.struct_size = 128;
         m->model.verbs.struct_size = 48;
     }},
    {"a verbs table that says it is larger", LoadStatus::loaded, "", 136,
     [](Maker* m) { m->model.verbs.struct_size = 56; }},
    {"a verbs table of size 0", LoadStatus::gate, "verbs.struct_size", 136,
     [](Maker* m) { m->model.verbs.struct_size = 0; }},
    {"a verbs table without room for its last verb", LoadStatus::gate, "verbs.struct_size", 136,
     [](Maker* m) { m->model.verbs.struct_size = 40; }},
    {"a verbs size that ends inside a pointer", LoadStatus::gate, "verbs.struct_size", 136,
     [](Maker* m) { m->model.verbs.struct_size = 52; }},
    {"a verbs size that lies", LoadStatus::gate, "verbs.struct_size", 136,
     [](Maker* m) { m->model.verbs.struct_size = 0xDEADBEEFu; }},
    {"ports counted and missing", LoadStatus::gate, "ports", 136,
     [](Maker* m) { m->model.ports = nullptr; }},
    {"an export of another version", LoadStatus::gate, "export.abi_version", 136,
     [](Maker* m) { m->exp.abi_version = 7; }},
    {"an export too short", LoadStatus::gate, "export.struct_size", 136,
     [](Maker* m) { m->exp.struct_size = 120; }},
    {"no identity", LoadStatus::gate, "identity", 136, [](Maker* m) { m->exp.identity = nullptr; }},
    {"a metadata export with a count", LoadStatus::gate, "count", 136,
     [](Maker* m) {
         m->exp.n_graphs = 1;
         m->exp.graphs = reinterpret_cast<const frt_runtime_graph_desc*>(m);
     }},
    {"a metadata export with an array", LoadStatus::gate, "array", 136,
     [](Maker* m) { m->exp.buffers = reinterpret_cast<const frt_runtime_buffer_desc*>(m); }},
    {"an export size that lies", LoadStatus::gate, "export.struct_size", 136,
     [](Maker* m) { m->exp.struct_size = 0xDEADBEEFu; }},
    {"an export size that ends inside a pointer", LoadStatus::gate, "export.struct_size", 136,
     [](Maker* m) { m->exp.struct_size = 132; }},
    {"an export without retain", LoadStatus::gate, "export.retain", 136,
     [](Maker* m) { m->exp.retain = nullptr; }},
    {"an export without release", LoadStatus::gate, "release", 136,
     [](Maker* m) { m->exp.release = nullptr; }},
    {"a port without a name", LoadStatus::gate, "name", 136,
     [](Maker* m) { m->port.name = nullptr; }},
    {"a port of an unknown direction", LoadStatus::gate, "direction", 136,
     [](Maker* m) { m->port.direction = 2; }},
    {"a port of an unknown update class", LoadStatus::gate, "update", 136,
     [](Maker* m) { m->port.update = 3; }},
    {"a port with a rank and no shape", LoadStatus::gate, "shape", 136,
     [](Maker* m) { m->port.rank = 1; }},
    {"a modality that a later version may add", LoadStatus::loaded, "", 136,
     [](Maker* m) { m->port.modality = 99; }},
    {"a SWAP port in a metadata runtime", LoadStatus::gate, "SWAP", 136,
     [](Maker* m) { m->port.update = FRT_RT_PORT_SWAP; }},
    {"a window in a metadata runtime", LoadStatus::gate, "window", 136,
     [](Maker* m) { m->port.bytes = 8; }},
    {"a SWAP port without a window", LoadStatus::gate, "SWAP", 136,
     [](Maker* m) {
         m->give_context();
         m->port.update = FRT_RT_PORT_SWAP;
     }},
    {"a window that leaves its buffer", LoadStatus::gate, "window ends", 136,
     [](Maker* m) {
         m->give_context();
         m->port.update = FRT_RT_PORT_SWAP;
         m->port.buffer = m->buffer.handle;
         m->port.offset = 8;
         m->port.bytes = 64;
     }},
    {"a window that fits", LoadStatus::loaded, "", 136,
     [](Maker* m) {
         m->give_context();
         m->port.update = FRT_RT_PORT_SWAP;
         m->port.buffer = m->buffer.handle;
         m->port.bytes = 64;
     }},
    {"a context and a step alone", LoadStatus::authority, "by step alone", 136,
     [](Maker* m) {
         m->give_context();
         m->model.stages = nullptr;
         m->model.n_stages = 0;
     }},
    {"a context without graphs and a step alone", LoadStatus::authority, "export.ctx", 136,
     [](Maker* m) { m->exp.ctx = fabricated<frt_ctx>(1); }},
    {"a context and OPAQUE stages alone", LoadStatus::authority, "by OPAQUE stages alone", 136,
     [](Maker* m) {
         m->give_context();
         m->give_plan(1);
     }},
    {"a stage of no graph", LoadStatus::gate, "graph", 136,
     [](Maker* m) {
         m->model.stages = &m->stage;
         m->model.n_stages = 1;
     }},
    {"stages counted and missing", LoadStatus::gate, "stages", 136,
     [](Maker* m) { m->model.n_stages = 1; }},
    {"nothing to run", LoadStatus::authority, "step", 136,
     [](Maker* m) { m->model.verbs.step = nullptr; }},
};

bool mapped(const char* library)
{
    void* handle = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
    if (handle != nullptr) {
        dlclose(handle);
    }
    return handle != nullptr;
}

}  // namespace

TEST_CASE("gates judge version and size from both sides and name the field", "[loader][gate]")
{
    for (const Gate& row : kGates) {
        INFO(row.rule);
        Maker maker;
        row.bend(&maker);
        GuardCopy copy(&maker.model, row.readable_bytes);
        const auto* model = reinterpret_cast<const frt_model_runtime_v1*>(copy.begin());
        frt::LoadedModel loaded;
        CHECK(loaded.adopt(model) == row.want);
        INFO(loaded.reason());
        CHECK(std::string(loaded.reason()).find(row.reason) != std::string::npos);
        if (row.want != LoadStatus::loaded) {
            CHECK(loaded.runtime() == nullptr);
            CHECK(maker.owner.retained == 0);
            continue;
        }
        // Whatever the producer left out can be called and answers "unsupported".
        const frt_model_runtime_v1* runtime = loaded.runtime();
        const void* table = &maker;
        CHECK(runtime->query_extension(runtime, 1, 1, &table) == -3);
        CHECK(table == nullptr);
        CHECK(runtime->query_extension(runtime, 1, 0, &table) == -1);
        const int prepared = maker.model.verbs.prepare == nullptr ? -3 : 0;
        CHECK(runtime->verbs.prepare(runtime->self, 0, 0) == prepared);
        CHECK(runtime->verbs.last_error(runtime->self) != nullptr);
        CHECK(maker.owner.retained == 1);
        CHECK(loaded.adopt(model) == LoadStatus::arguments);
        loaded.close();
        CHECK(maker.owner.released == 1);
        loaded.close();
        CHECK(maker.owner.released == 1);
    }
}

TEST_CASE(
    "a plan is taken over a context when it names a graph, and without one when it names none",
    "[loader][authority]")
{
    for (const bool context : {true, false}) {
        INFO("context " << context);
        Maker maker;
        if (context) {
            maker.give_context();
        }
        maker.give_plan(context ? 2 : 1);
        frt::LoadedModel loaded;
        REQUIRE(loaded.adopt(&maker.model) == LoadStatus::loaded);
        CHECK(loaded.authority() == frt::Authority::plan);
        CHECK(loaded.plan() == &maker.plan);
        CHECK(std::string(loaded.reason()).empty());
        CHECK(maker.owner.retained == 1);
    }
}

TEST_CASE("a refused export or plan is not read behind its stamp", "[loader][gate]")
{
    const struct {
        const char* rule;
        uint32_t version;
        uint32_t size;
    } rows[] = {
        {"another version", 2, 128}, {"too short", 1, 32}, {"a size that lies", 1, 0xDEADBEEFu}};
    for (const auto& row : rows) {
        INFO(row.rule);
        const uint32_t stamp[] = {row.version, row.size};
        GuardCopy copy(stamp, sizeof stamp);
        Maker exporter;
        exporter.model.exp = reinterpret_cast<const frt_runtime_export_v1*>(copy.begin());
        frt::LoadedModel loaded;
        CHECK(loaded.adopt(&exporter.model) == LoadStatus::gate);
        CHECK(exporter.owner.retained == 0);
        if (row.version != 1) {
            continue;  // a plan's table of a later version is a longer one, and is taken
        }
        static const void* table;
        table = copy.begin();
        Maker planner;
        planner.model.query_extension = [](const frt_model_runtime_v1*, uint64_t, uint32_t,
                                           const void** out) {
            *out = table;
            return 0;
        };
        CHECK(loaded.adopt(&planner.model) == LoadStatus::authority);
        CHECK(std::string(loaded.reason()).find("table") != std::string::npos);
        CHECK(planner.owner.retained == 0);
    }
}

TEST_CASE("an archived producer runs under today's loader, its end unreadable", "[loader][archive]")
{
    frt::LoadedModel loaded;
    REQUIRE(loaded.open(OLD_PRODUCER, "{}") == LoadStatus::loaded);
    CHECK(loaded.original()->struct_size == 128);
    const frt_model_runtime_v1* runtime = loaded.runtime();
    const float x = 21;
    float y = 0;
    uint64_t written = 0;
    CHECK(runtime->verbs.set_input(runtime->self, 0, &x, sizeof x, -1) == 0);
    CHECK(runtime->verbs.step(runtime->self) == 0);
    CHECK(runtime->verbs.get_output(runtime->self, 0, &y, sizeof y, &written, -1) == 0);
    CHECK(y == 42);
    CHECK(runtime->verbs.prepare(runtime->self, 0, 0) == -3);
    const void* table = nullptr;
    CHECK(runtime->query_extension(runtime, 1, 1, &table) == -3);
    loaded.close();
    CHECK_FALSE(mapped(OLD_PRODUCER));
}

TEST_CASE("archived consumers and producers in all four pairs", "[loader][archive]")
{
    const struct {
        const char* pair;
        const char* library;
        const char* config;
        int exact_size;
        int want;
    } rows[] = {
        {"old producer, prefix consumer", OLD_PRODUCER, "{}", 0, 0},
        {"old producer, exact consumer", OLD_PRODUCER, "{}", 1, 0},
        {"new producer, prefix consumer", SCALE_LIBRARY, "{\"gain\": 2}", 0, 0},
        {"new producer, exact consumer: must be rebuilt", SCALE_LIBRARY, "{\"gain\": 2}", 1, 3}};
    for (const auto& row : rows) {
        INFO(row.pair);
        float y = 0;
        CHECK(old_consumer_run(row.library, row.config, row.exact_size, 4, &y) == row.want);
        if (row.want == 0) {
            CHECK(y == 8);
        }
    }
}

TEST_CASE("two loads of one library are independent, and the last one unmaps it", "[loader]")
{
    frt::LoadedModel one;
    frt::LoadedModel two;
    REQUIRE(one.open(SCALE_LIBRARY, "{\"gain\": 2}") == LoadStatus::loaded);
    REQUIRE(two.open(SCALE_LIBRARY, "{\"gain\": 3}") == LoadStatus::loaded);
    CHECK(one.open(SCALE_LIBRARY, "{\"gain\": 3}") == LoadStatus::arguments);
    one.close();
    CHECK(mapped(SCALE_LIBRARY));
    CHECK(two.runtime()->verbs.step(two.runtime()->self) == 0);
    two.close();
    CHECK_FALSE(mapped(SCALE_LIBRARY));
}

TEST_CASE("files that are no producers are refused with a reason", "[loader]")
{
    const struct {
        const char* rule;
        const char* path;
        const char* config;
        LoadStatus want;
    } rows[] = {{"no path", nullptr, "{}", LoadStatus::arguments},
                {"empty path", "", "{}", LoadStatus::arguments},
                {"no configuration", SCALE_LIBRARY, nullptr, LoadStatus::arguments},
                {"no file", "/nowhere/libnothing.so", "{}", LoadStatus::library},
                {"no library", "/etc/passwd", "{}", LoadStatus::library},
                {"a symbol that nobody defines", UNRESOLVED_PRODUCER, "{}", LoadStatus::library},
                {"no symbol", RUNTIME_LIBRARY, "{}", LoadStatus::symbol},
                {"the producer refuses", SCALE_LIBRARY, "{}", LoadStatus::factory}};
    for (const auto& row : rows) {
        INFO(row.rule);
        frt::LoadedModel loaded;
        CHECK(loaded.open(row.path, row.config) == row.want);
        CHECK(std::string(loaded.reason()).size() > 0);
        CHECK(loaded.runtime() == nullptr);
        CHECK_FALSE(mapped(SCALE_LIBRARY));
    }
}

TEST_CASE("what a factory hands out is judged, released and unloaded", "[loader]")
{
    const struct {
        const char* rule;
        const char* breaks;
        LoadStatus want;
        int factory_code;
        bool stays_mapped;  // what cannot be released keeps its code
    } rows[] = {
        {"a failure without an object", "factory.opens", LoadStatus::factory, -6, false},
        {"a failure and an object", "loader.code_and_object", LoadStatus::factory, -4, false},
        {"success without an object", "loader.no_object", LoadStatus::factory, 0, false},
        {"an export that fails its gate", "gate.required", LoadStatus::gate, 0, false},
        {"two authorities", "authority.one", LoadStatus::authority, 0, false},
        {"a plan without an OPAQUE stage", "authority.plan", LoadStatus::authority, 0, false},
        {"graphs that nothing fires", "authority.anchor", LoadStatus::authority, 0, false},
        {"nothing wrong", "", LoadStatus::loaded, 0, false},
        {"a stamp that cannot be trusted", "gate.size", LoadStatus::gate, 0, true},
        {"no release", "loader.no_release", LoadStatus::gate, 0, true},
    };
    for (const auto& row : rows) {
        INFO(row.rule);
        const std::string config = std::string("{\"break\":\"") + row.breaks + "\"}";
        frt::LoadedModel loaded;
        CHECK(loaded.open(BROKEN_LIBRARY, config.c_str()) == row.want);
        CHECK(loaded.factory_code() == row.factory_code);
        CHECK(std::string(loaded.reason()).empty() == (row.want == LoadStatus::loaded));
        // LOCAL: no producer's factory is visible to the rest of the process.
        CHECK(dlsym(RTLD_DEFAULT, FRT_MODEL_RUNTIME_OPEN_V1_SYMBOL) == nullptr);
        loaded.close();
        CHECK(mapped(BROKEN_LIBRARY) == row.stays_mapped);
    }
}
