// Purpose:  the canonical identity string and its hash, against the vectors that other
//           implementations of the ABI produce.
// Owns:     nothing.
// Thread:   one.
// Lifetime: the test program.
#include <catch2/catch.hpp>
#include <string>
#include <utility>

#include "flashrt/builder.hpp"

namespace {

template <typename Handle>
Handle fabricated(uintptr_t number)
{
    return reinterpret_cast<Handle>(number * 64);
}

int accept_input(void*, uint32_t, const void*, uint64_t, int)
{
    return 0;
}
int no_output(void*, uint32_t, void*, uint64_t, uint64_t*, int)
{
    return 0;
}
int do_step(void*)
{
    return 0;
}
int run_stage(void*, uint32_t)
{
    return 0;
}
const char* no_error(void*)
{
    return "";
}

const frt_model_runtime_verbs kVerbs = {48, 0, accept_input, no_output, nullptr, do_step, no_error};

frt_model_runtime_v1* vector_one(int64_t height, uint64_t window_bytes, int decode_stream)
{
    frt_runtime_builder builder = frt_runtime_builder_create(fabricated<frt_ctx>(1));
    const int64_t images[] = {3, height, 224, 3};
    const int64_t actions[] = {50, 32};
    const uint32_t after[] = {0};
    CHECK(frt_runtime_builder_add_buffer(builder, "actions", fabricated<frt_buffer>(2), 3200, 2) ==
          0);
    CHECK(frt_runtime_builder_add_identity(builder, "model", "unit") == 0);
    CHECK(frt_runtime_builder_add_graph(builder, "encode", fabricated<frt_graph>(3), 0, nullptr, 0,
                                        0) == 0);
    CHECK(frt_runtime_builder_add_graph(builder, "decode", fabricated<frt_graph>(4), 0, nullptr, 0,
                                        decode_stream) == 0);
    CHECK(frt_runtime_builder_add_port(builder, "images", 1, 3, 2, 0, 1, 1, images, 4, 30, nullptr,
                                       0, 0) == 0);
    CHECK(frt_runtime_builder_add_port(builder, "actions", 4, 3, 0, 1, 1, 0, actions, 2, 0,
                                       fabricated<frt_buffer>(2), 0, window_bytes) == 0);
    CHECK(frt_runtime_builder_add_stage(builder, 0, nullptr, 0) == 0);
    CHECK(frt_runtime_builder_add_stage(builder, 1, after, 1) == 0);
    frt_model_runtime_v1* model =
        frt_runtime_builder_finish_model(builder, &kVerbs, nullptr, nullptr, nullptr, nullptr);
    REQUIRE(model != nullptr);
    return model;
}

}  // namespace

TEST_CASE("the fingerprint is FNV-1a with 64 bits", "[identity]")
{
    CHECK(frt_runtime_fingerprint(nullptr, 0) == UINT64_C(0xcbf29ce484222325));
    CHECK(frt_runtime_fingerprint("a", 1) == UINT64_C(0xaf63dc4c8601ec8c));
    CHECK(frt_runtime_fingerprint("foobar", 6) == UINT64_C(0x85944171f73967e8));
}

TEST_CASE("identity of a runtime with legacy stages", "[identity]")
{
    frt_model_runtime_v1* model = vector_one(224, 3200, 0);
    const std::string want =
        "frt-runtime-identity-v1\nmodel=unit\ngraph:encode:0\ngraph:decode:0\n"
        "port:0:images:1:3:2:0:1:1:3,224,224,3:-1:0:0\n"
        "port:1:actions:4:3:0:1:1:0:50,32:0:0:3200\nstage:0:0:\nstage:1:1:0\n";
    CHECK(model->exp->identity == want);
    CHECK(model->exp->fingerprint == UINT64_C(0xd1393a80cdef15b3));
    model->release(model->owner);
}

TEST_CASE("identity of a plain export", "[identity]")
{
    frt_runtime_builder builder = frt_runtime_builder_create(fabricated<frt_ctx>(1));
    const frt_buffer buffer = fabricated<frt_buffer>(2);
    CHECK(frt_runtime_builder_add_identity(builder, "weights_sha256", "abc") == 0);
    CHECK(frt_runtime_builder_add_identity(builder, "quant", "fp8") == 0);
    CHECK(frt_runtime_builder_add_graph(builder, "infer", fabricated<frt_graph>(3), 0, nullptr, 0,
                                        -5) == 0);
    CHECK(frt_runtime_builder_add_region(builder, "r0", buffer, 16, 48, 3) == 0);
    CHECK(frt_runtime_builder_add_region(builder, "r1", buffer, 0, 8, 1) == 0);
    frt_runtime_export_v1* exp = frt_runtime_builder_finish(builder, nullptr, nullptr, nullptr);
    REQUIRE(exp != nullptr);
    CHECK(exp->identity == std::string("frt-runtime-identity-v1\nweights_sha256=abc\nquant=fp8\n"
                                       "graph:infer:-5\nregion:0:r0:16:48:3\n"
                                       "region:1:r1:0:8:1\n"));
    CHECK(exp->fingerprint == UINT64_C(0x0204f2d4a23f8208));
    exp->release(exp->owner);
}

TEST_CASE("identity of a metadata runtime with a generic plan", "[identity]")
{
    frt_runtime_builder builder = frt_model_runtime_builder_create_metadata();
    const int64_t any[] = {-1};
    const uint32_t after[] = {0};
    CHECK(frt_runtime_builder_add_identity(builder, "provider", "llama_cpp") == 0);
    CHECK(frt_runtime_builder_add_port(builder, "prompt", 2, 0, 0, 0, 1, 1, any, 1, 0, nullptr, 0,
                                       0) == 0);
    CHECK(frt_runtime_builder_add_port(builder, "scalar", 0, 1, 0, 0, 2, 0, nullptr, 0, 0, nullptr,
                                       0, 0) == 0);
    CHECK(frt_runtime_builder_add_generic_stage(builder, "context", 1, 4, nullptr, 0) == 0);
    CHECK(frt_runtime_builder_add_generic_stage(builder, "action", 1, 91, after, 1) == 0);
    CHECK(frt_runtime_builder_set_generic_stage_runner(builder, nullptr, run_stage) == 0);
    frt_model_runtime_v1* model =
        frt_runtime_builder_finish_model(builder, &kVerbs, nullptr, nullptr, nullptr, nullptr);
    REQUIRE(model != nullptr);
    CHECK(model->exp->identity ==
          std::string("frt-runtime-identity-v1\nprovider=llama_cpp\n"
                      "port:0:prompt:2:0:0:0:1:1:-1:-1:0:0\nport:1:scalar:0:1:0:0:2:0::-1:0:0\n"
                      "gstage-v1:0:7:context:1:4:0:\ngstage-v1:1:6:action:1:91:1:0\n"));
    CHECK(model->exp->fingerprint == UINT64_C(0x96c3588f95bafc4a));
    model->release(model->owner);
}

TEST_CASE("the fingerprint follows schema, windows and stream placement", "[identity]")
{
    const struct {
        const char* name;
        int64_t height;
        uint64_t window_bytes;
        int decode_stream;
    } rows[] = {{"image height", 225, 3200, 0},
                {"window bytes", 224, 3199, 0},
                {"graph stream", 224, 3200, 1}};
    for (const auto& row : rows) {
        INFO(row.name);
        frt_model_runtime_v1* model = vector_one(row.height, row.window_bytes, row.decode_stream);
        CHECK(model->exp->fingerprint != UINT64_C(0xd1393a80cdef15b3));
        model->release(model->owner);
    }
}

namespace {

// Everything that a builder can be told, for the question of what the fingerprint follows.
struct Declared {
    const char* pair = "v";
    const char* second_pair = "w";
    const char* stream_name = "main";
    int priority = 0;
    void* native = nullptr;
    const char* graph_name = "g";
    uintptr_t graph_handle = 3;
    frt_shape_key default_key = 0;
    uint64_t n_keys = 0;
    const char* buffer_name = "b";
    uint64_t buffer_bytes = 64;
    uint32_t role = 1;
    uintptr_t region_handle = 2;
    bool regions_swapped = false;
    uint32_t flags = 3;
    uint32_t required = 0;
    uint32_t cadence_hz = 0;
    bool window_declared = true;
    uint32_t stages = 1;
    const char* manifest = "{}";
    uintptr_t context = 1;
};

uint64_t fingerprint_of(const Declared& d)
{
    frt_runtime_builder b = frt_runtime_builder_create(fabricated<frt_ctx>(d.context));
    const frt_shape_key keys[] = {5, 6};
    const int64_t shape[] = {4};
    const uint32_t after[] = {0};
    const frt_buffer buffer = fabricated<frt_buffer>(2);
    int code = frt_runtime_builder_add_identity(b, "k", d.pair);
    code |= frt_runtime_builder_add_identity(b, "k", d.second_pair);  // a key may come twice
    code |= frt_runtime_builder_add_stream(b, d.stream_name, 0, d.priority, d.native);
    code |= frt_runtime_builder_add_graph(b, d.graph_name, fabricated<frt_graph>(d.graph_handle),
                                          d.default_key, keys, d.n_keys, 0);
    code |= frt_runtime_builder_add_buffer(b, d.buffer_name, buffer, d.buffer_bytes, d.role);
    const char* regions[] = {d.regions_swapped ? "s" : "r", d.regions_swapped ? "r" : "s"};
    for (const char* region : regions) {
        code |= frt_runtime_builder_add_region(b, region, fabricated<frt_buffer>(d.region_handle),
                                               0, 8, d.flags);
    }
    code |= frt_runtime_builder_add_port(b, "p", 0, 1, 0, 0, 0, d.required, shape, 1, d.cadence_hz,
                                         d.window_declared ? buffer : fabricated<frt_buffer>(77), 0,
                                         16);
    for (uint32_t at = 0; at < d.stages; at++) {
        code |= frt_runtime_builder_add_stage(b, 0, after, at);
    }
    code |= frt_runtime_builder_set_manifest(b, d.manifest);
    CHECK(code == 0);
    frt_model_runtime_v1* model =
        frt_runtime_builder_finish_model(b, &kVerbs, nullptr, nullptr, nullptr, nullptr);
    REQUIRE(model != nullptr);
    const uint64_t fingerprint = model->exp->fingerprint;
    model->release(model->owner);
    return fingerprint;
}

}  // namespace

TEST_CASE("the fingerprint follows deployment and nothing else", "[identity]")
{
    const struct {
        const char* what;
        bool follows;
        void (*change)(Declared* d);
    } rows[] = {
        {"a producer's pair", true, [](Declared* d) { d->pair = "u"; }},
        {"the order of pairs", true, [](Declared* d) { std::swap(d->pair, d->second_pair); }},
        {"a graph's name", true, [](Declared* d) { d->graph_name = "h"; }},
        {"the order of regions", true, [](Declared* d) { d->regions_swapped = true; }},
        {"a region's flags", true, [](Declared* d) { d->flags = 1; }},
        {"a port's schema", true, [](Declared* d) { d->required = 1; }},
        {"a window over another buffer", true, [](Declared* d) { d->window_declared = false; }},
        {"the cut into stages", true, [](Declared* d) { d->stages = 2; }},
        {"a stream's name", false, [](Declared* d) { d->stream_name = "other"; }},
        {"a stream's priority", false, [](Declared* d) { d->priority = -3; }},
        {"a native stream", false, [](Declared* d) { d->native = &d->native; }},
        {"a graph's handle", false, [](Declared* d) { d->graph_handle = 9; }},
        {"the default key", false, [](Declared* d) { d->default_key = 5; }},
        {"the captured keys", false, [](Declared* d) { d->n_keys = 2; }},
        {"a buffer's name", false, [](Declared* d) { d->buffer_name = "c"; }},
        {"a buffer's size", false, [](Declared* d) { d->buffer_bytes = 128; }},
        {"a buffer's role", false, [](Declared* d) { d->role = 8; }},
        {"a region's handle", false, [](Declared* d) { d->region_handle = 55; }},
        {"the cadence", false, [](Declared* d) { d->cadence_hz = 30; }},
        {"the manifest", false, [](Declared* d) { d->manifest = "other"; }},
        {"the context", false, [](Declared* d) { d->context = 8; }},
    };
    const uint64_t before = fingerprint_of({});
    for (const auto& row : rows) {
        INFO(row.what);
        Declared changed;
        row.change(&changed);
        CHECK((fingerprint_of(changed) != before) == row.follows);
    }
}

TEST_CASE("the longest names leave every record whole", "[identity]")
{
    frt_runtime_builder builder = frt_runtime_builder_create(fabricated<frt_ctx>(1));
    const std::string region(109, 'r');
    const std::string port(98, 'p');
    const std::string graph(300, 'g');
    const frt_buffer buffer = fabricated<frt_buffer>(2);
    CHECK(frt_runtime_builder_add_graph(builder, graph.c_str(), fabricated<frt_graph>(3), 0,
                                        nullptr, 0, INT32_MIN) == 0);
    CHECK(frt_runtime_builder_add_region(builder, region.c_str(), buffer, 0, UINT64_MAX, 3) == 0);
    CHECK(frt_runtime_builder_add_port(builder, port.c_str(), 7, 5, 4, 1, 2, 1, nullptr, 0, 0,
                                       buffer, UINT64_MAX - 1, 1) == 0);
    frt_model_runtime_v1* model =
        frt_runtime_builder_finish_model(builder, &kVerbs, nullptr, nullptr, nullptr, nullptr);
    REQUIRE(model != nullptr);
    CHECK(model->exp->identity == "frt-runtime-identity-v1\ngraph:" + graph +
                                      ":-2147483648\nregion:0:" + region +
                                      ":0:18446744073709551615:3\nport:0:" + port +
                                      ":7:5:4:1:2:1::-1:18446744073709551614:1\n");
    model->release(model->owner);
}

TEST_CASE("wrap and override inherit the identity", "[identity]")
{
    frt_model_runtime_v1* base = vector_one(224, 3200, 0);
    const frt_runtime_stage_desc stage = {0, 0, nullptr};
    const frt_runtime_port_desc port = {"added", 0, 1, 0, 0, 2, 0, nullptr, 0, 0, nullptr, 0, 0};
    frt_model_runtime_v1* wrap =
        frt_model_runtime_wrap(base->exp, &port, 1, &stage, 1, &kVerbs, nullptr, nullptr, nullptr);
    frt_model_runtime_v1* over =
        frt_model_runtime_override_verbs(base, &kVerbs, nullptr, nullptr, nullptr, nullptr);
    REQUIRE(wrap != nullptr);
    REQUIRE(over != nullptr);
    CHECK(wrap->exp->fingerprint == UINT64_C(0xd1393a80cdef15b3));  // its port is not in it
    CHECK(over->exp->fingerprint == UINT64_C(0xd1393a80cdef15b3));
    wrap->release(wrap->owner);
    over->release(over->owner);
    base->release(base->owner);
}
