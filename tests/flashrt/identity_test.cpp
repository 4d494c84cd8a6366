// Purpose:  the canonical identity string and its hash, against the vectors that other
//           implementations of the ABI produce.
// Owns:     nothing.
// Thread:   one.
// Lifetime: the test program.
#include <catch2/catch.hpp>
#include <string>

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
