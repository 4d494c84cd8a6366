// Purpose:  every rule of construction: what a builder takes, what it refuses and why, and what a
//           refusal leaves behind.
// Owns:     nothing.
// Thread:   one.
// Lifetime: the test program.
#include <catch2/catch.hpp>
#include <cstring>
#include <string>

#include "fabricated.h"
#include "flashrt/builder.hpp"

namespace {

using B = frt_runtime_builder;
const int64_t kShape[] = {2, 3};
const uint32_t kZero[] = {0};
const uint32_t kOne[] = {1};
const uint32_t kTwice[] = {0, 0};
const frt_shape_key kKeys[] = {1, 2};
const std::string k98(98, 'p');
const std::string k99(99, 'p');
const std::string k109(109, 'r');
const std::string k110(110, 'r');
const std::string k255(255, 's');
const std::string k256(256, 's');

int port(B b, const char* name, uint32_t update = FRT_RT_PORT_SETUP, frt_buffer buffer = nullptr,
         uint64_t offset = 0, uint64_t bytes = 0)
{
    return frt_runtime_builder_add_port(b, name, 0, 1, 0, 0, update, 0, kShape, 2, 0, buffer,
                                        offset, bytes);
}

int port_enums(B b, uint32_t modality, uint32_t dtype, uint32_t layout, uint32_t direction,
               uint32_t update, uint32_t required)
{
    return frt_runtime_builder_add_port(b, "p", modality, dtype, layout, direction, update,
                                        required, kShape, 2, 0, fabricated<frt_buffer>(9), 0, 4);
}

int graph(B b, const char* name, int stream = 0)
{
    return frt_runtime_builder_add_graph(b, name, fabricated<frt_graph>(3), 0, nullptr, 0, stream);
}

int opaque(B b, const char* name, const uint32_t* after = nullptr, uint32_t count = 0)
{
    return frt_runtime_builder_add_generic_stage(b, name, 1, 5, after, count);
}

int buffer(B b, const char* name, uint64_t bytes = 64)
{
    return frt_runtime_builder_add_buffer(b, name, fabricated<frt_buffer>(7), bytes, 1);
}

struct Row {
    const char* rule;
    int want;
    const char* reason;  // part of the refusal
    int (*act)(B b);
};

// Each on a builder that holds graph "g" on stream 0, stream "main", buffer "b" of 64 bytes.
const Row kRows[] = {
    {"stream: name NULL", -1, "NULL",
     [](B b) { return frt_runtime_builder_add_stream(b, nullptr, 1, 0, nullptr); }},
    {"stream: name empty", -1, "empty",
     [](B b) { return frt_runtime_builder_add_stream(b, "", 1, 0, nullptr); }},
    {"stream: ID negative", -1, "stream_id",
     [](B b) { return frt_runtime_builder_add_stream(b, "s", -1, 0, nullptr); }},
    {"stream: name twice", -1, "twice",
     [](B b) { return frt_runtime_builder_add_stream(b, "main", 1, 0, nullptr); }},
    {"stream: ID twice", -1, "twice",
     [](B b) { return frt_runtime_builder_add_stream(b, "s", 0, 0, nullptr); }},
    {"stream: priority and handle are free", 0, "",
     [](B b) { return frt_runtime_builder_add_stream(b, "s", 1, -9, nullptr); }},
    {"stream: control character", -1, "control",
     [](B b) { return frt_runtime_builder_add_stream(b, "a\x1f", 1, 0, nullptr); }},
    {"graph: name NULL", -1, "NULL", [](B b) { return graph(b, nullptr); }},
    {"graph: name empty", -1, "empty", [](B b) { return graph(b, ""); }},
    {"graph: name twice", -1, "twice", [](B b) { return graph(b, "g"); }},
    {"graph: control character", -1, "control", [](B b) { return graph(b, "a\nb"); }},
    {"graph: long names are fine", 0, "", [](B b) { return graph(b, k256.c_str()); }},
    {"graph: handle NULL", -1, "handle",
     [](B b) { return frt_runtime_builder_add_graph(b, "h", nullptr, 0, nullptr, 0, 0); }},
    {"graph: keys without array", -1, "array",
     [](B b) {
         return frt_runtime_builder_add_graph(b, "h", fabricated<frt_graph>(4), 0, nullptr, 2, 0);
     }},
    {"graph: default key outside the snapshot is the host's choice", 0, "",
     [](B b) {
         return frt_runtime_builder_add_graph(b, "h", fabricated<frt_graph>(4), 9, kKeys, 2, 0);
     }},
    {"buffer: name NULL", -1, "NULL", [](B b) { return buffer(b, nullptr); }},
    {"buffer: name empty", -1, "empty", [](B b) { return buffer(b, ""); }},
    {"buffer: name twice", -1, "twice", [](B b) { return buffer(b, "b"); }},
    {"buffer: handle NULL", -1, "handle",
     [](B b) { return frt_runtime_builder_add_buffer(b, "c", nullptr, 1, 1); }},
    {"buffer: unknown role", -1, "role",
     [](B b) { return frt_runtime_builder_add_buffer(b, "c", fabricated<frt_buffer>(8), 1, 16); }},
    {"buffer: same handle under another name", 0, "", [](B b) { return buffer(b, "c"); }},
    {"region: name NULL", -1, "NULL",
     [](B b) {
         return frt_runtime_builder_add_region(b, nullptr, fabricated<frt_buffer>(7), 0, 8, 1);
     }},
    {"region: name twice", -1, "twice",
     [](B b) {
         frt_runtime_builder_add_region(b, "r", fabricated<frt_buffer>(7), 0, 8, 1);
         return frt_runtime_builder_add_region(b, "r", fabricated<frt_buffer>(7), 8, 8, 1);
     }},
    {"region: NULL buffer", -1, "no buffer",
     [](B b) { return frt_runtime_builder_add_region(b, "r", nullptr, 0, 8, 1); }},
    {"region: no bytes", -1, "no bytes",
     [](B b) {
         return frt_runtime_builder_add_region(b, "r", fabricated<frt_buffer>(7), 0, 0, 1);
     }},
    {"region: unknown flag", -1, "flag",
     [](B b) {
         return frt_runtime_builder_add_region(b, "r", fabricated<frt_buffer>(7), 0, 8, 4);
     }},
    {"region: outside its buffer", -1, "64",
     [](B b) {
         return frt_runtime_builder_add_region(b, "r", fabricated<frt_buffer>(7), 57, 8, 1);
     }},
    {"region: wraps", -1, "overflow",
     [](B b) {
         return frt_runtime_builder_add_region(b, "r", fabricated<frt_buffer>(1), UINT64_MAX, 8, 1);
     }},
    {"region: ends with its buffer", 0, "",
     [](B b) {
         return frt_runtime_builder_add_region(b, "r", fabricated<frt_buffer>(7), 56, 8, 3);
     }},
    {"region: 109 bytes of name", 0, "",
     [](B b) {
         return frt_runtime_builder_add_region(b, k109.c_str(), fabricated<frt_buffer>(7), 0, 8, 3);
     }},
    {"region: 110 bytes of name", -1, "110",
     [](B b) {
         return frt_runtime_builder_add_region(b, k110.c_str(), fabricated<frt_buffer>(7), 0, 8, 3);
     }},
    {"identity: key NULL", -1, "NULL",
     [](B b) { return frt_runtime_builder_add_identity(b, nullptr, "v"); }},
    {"identity: value NULL", -1, "NULL",
     [](B b) { return frt_runtime_builder_add_identity(b, "k", nullptr); }},
    {"identity: taken byte for byte", 0, "",
     [](B b) { return frt_runtime_builder_add_identity(b, "", "a=b\nc"); }},
    {"manifest: NULL", -1, "NULL",
     [](B b) { return frt_runtime_builder_set_manifest(b, nullptr); }},
    {"port: name NULL", -1, "NULL", [](B b) { return port(b, nullptr); }},
    {"port: name empty", -1, "empty", [](B b) { return port(b, ""); }},
    {"port: name twice", -1, "twice",
     [](B b) {
         port(b, "p");
         return port(b, "p");
     }},
    {"port: control character", -1, "control", [](B b) { return port(b, "a\x7f"); }},
    {"port: 98 bytes of name", 0, "", [](B b) { return port(b, k98.c_str()); }},
    {"port: 99 bytes of name", -1, "99", [](B b) { return port(b, k99.c_str()); }},
    {"port: modality", -1, "modality", [](B b) { return port_enums(b, 8, 0, 0, 0, 0, 0); }},
    {"port: dtype", -1, "dtype", [](B b) { return port_enums(b, 0, 6, 0, 0, 0, 0); }},
    {"port: layout", -1, "layout", [](B b) { return port_enums(b, 0, 0, 5, 0, 0, 0); }},
    {"port: direction", -1, "direction", [](B b) { return port_enums(b, 0, 0, 0, 2, 0, 0); }},
    {"port: update", -1, "update", [](B b) { return port_enums(b, 0, 0, 0, 0, 3, 0); }},
    {"port: required", -1, "required", [](B b) { return port_enums(b, 0, 0, 0, 0, 0, 2); }},
    {"port: highest values", 0, "", [](B b) { return port_enums(b, 7, 5, 4, 1, 2, 1); }},
    {"port: rank without shape", -1, "shape",
     [](B b) {
         return frt_runtime_builder_add_port(b, "p", 0, 0, 0, 0, 2, 0, nullptr, 1, 0, nullptr, 0,
                                             0);
     }},
    {"port: rank 0", 0, "",
     [](B b) {
         return frt_runtime_builder_add_port(b, "p", 0, 0, 0, 0, 2, 0, nullptr, 0, 0, nullptr, 0,
                                             0);
     }},
    {"port: dimension below -1", -1, "dimension",
     [](B b) {
         const int64_t shape[] = {-2};
         return frt_runtime_builder_add_port(b, "p", 0, 0, 0, 0, 2, 0, shape, 1, 0, nullptr, 0, 0);
     }},
    {"port: SWAP without a window", -1, "SWAP", [](B b) { return port(b, "p", 0); }},
    {"port: SWAP of no bytes", -1, "SWAP",
     [](B b) { return port(b, "p", 0, fabricated<frt_buffer>(7), 0, 0); }},
    {"port: window outside its buffer", -1, "64",
     [](B b) { return port(b, "p", 0, fabricated<frt_buffer>(7), 1, 64); }},
    {"port: window wraps", -1, "overflow",
     [](B b) { return port(b, "p", 0, fabricated<frt_buffer>(7), UINT64_MAX, 2); }},
    {"port: window over an undeclared buffer", 0, "",
     [](B b) { return port(b, "p", 0, fabricated<frt_buffer>(99), 0, 1 << 20); }},
    {"port: bytes without a buffer", 0, "", [](B b) { return port(b, "p", 2, nullptr, 0, 280); }},
    {"stage: unknown graph", -1, "graph 1",
     [](B b) { return frt_runtime_builder_add_stage(b, 1, nullptr, 0); }},
    {"stage: dependency on itself", -1, "earlier",
     [](B b) { return frt_runtime_builder_add_stage(b, 0, kZero, 1); }},
    {"stage: dependencies without array", -1, "array",
     [](B b) { return frt_runtime_builder_add_stage(b, 0, nullptr, 1); }},
    {"stage: repeated dependencies are harmless", 0, "",
     [](B b) {
         frt_runtime_builder_add_stage(b, 0, nullptr, 0);
         return frt_runtime_builder_add_stage(b, 0, kTwice, 2);
     }},
    {"stage: after a generic plan began", -1, "exclude",
     [](B b) {
         opaque(b, "s");
         return frt_runtime_builder_add_stage(b, 0, nullptr, 0);
     }},
    {"stage: after a runner was set", -1, "exclude",
     [](B b) {
         frt_runtime_builder_set_generic_stage_runner(b, nullptr, fabricated_verbs::run_opaque);
         return frt_runtime_builder_add_stage(b, 0, nullptr, 0);
     }},
    {"plan: after legacy stages", -1, "exclude",
     [](B b) {
         frt_runtime_builder_add_stage(b, 0, nullptr, 0);
         return opaque(b, "s");
     }},
    {"plan: runner after legacy stages", -1, "exclude",
     [](B b) {
         frt_runtime_builder_add_stage(b, 0, nullptr, 0);
         return frt_runtime_builder_set_generic_stage_runner(b, nullptr,
                                                             fabricated_verbs::run_opaque);
     }},
    {"plan: runner NULL", -1, "NULL",
     [](B b) { return frt_runtime_builder_set_generic_stage_runner(b, nullptr, nullptr); }},
    {"plan: runner twice", -1, "already",
     [](B b) {
         frt_runtime_builder_set_generic_stage_runner(b, nullptr, fabricated_verbs::run_opaque);
         return frt_runtime_builder_set_generic_stage_runner(b, nullptr,
                                                             fabricated_verbs::run_opaque);
     }},
    {"plan: name NULL", -1, "NULL", [](B b) { return opaque(b, nullptr); }},
    {"plan: name empty", -1, "empty", [](B b) { return opaque(b, ""); }},
    {"plan: control character", -1, "control", [](B b) { return opaque(b, "a\tb"); }},
    {"plan: 255 bytes of name", 0, "", [](B b) { return opaque(b, k255.c_str()); }},
    {"plan: 256 bytes of name", -1, "256", [](B b) { return opaque(b, k256.c_str()); }},
    {"plan: colon in a name", 0, "", [](B b) { return opaque(b, "a:b"); }},
    {"plan: name twice", -1, "twice",
     [](B b) {
         opaque(b, "s");
         return opaque(b, "s");
     }},
    {"plan: UTF-8 name", 0, "",
     [](B b) { return opaque(b, "\xc3\xa9\xe2\x82\xac\xf0\x9f\xa6\xbe"); }},
    {"plan: overlong", -1, "UTF-8", [](B b) { return opaque(b, "\xc0\xaf"); }},
    {"plan: overlong of three", -1, "UTF-8", [](B b) { return opaque(b, "\xe0\x80\xaf"); }},
    {"plan: surrogate", -1, "UTF-8", [](B b) { return opaque(b, "\xed\xa0\x80"); }},
    {"plan: above U+10FFFF", -1, "UTF-8", [](B b) { return opaque(b, "\xf4\x90\x80\x80"); }},
    {"plan: cut character", -1, "UTF-8", [](B b) { return opaque(b, "a\xe2\x82"); }},
    {"plan: lone continuation", -1, "UTF-8", [](B b) { return opaque(b, "\x80"); }},
    {"plan: unknown kind", -1, "kind",
     [](B b) { return frt_runtime_builder_add_generic_stage(b, "s", 2, 0, nullptr, 0); }},
    {"plan: unknown graph", -1, "graph 1",
     [](B b) { return frt_runtime_builder_add_generic_stage(b, "s", 0, 1, nullptr, 0); }},
    {"plan: references of OPAQUE stages are free", 0, "",
     [](B b) { return frt_runtime_builder_add_generic_stage(b, "s", 1, UINT32_MAX, nullptr, 0); }},
    {"plan: references of OPAQUE stages may repeat", 0, "",
     [](B b) {
         opaque(b, "r");
         return opaque(b, "s");
     }},
    {"plan: future dependency", -1, "earlier", [](B b) { return opaque(b, "s", kOne, 1); }},
    {"plan: repeated dependency", -1, "increasing",
     [](B b) {
         opaque(b, "r");
         opaque(b, "s");
         return opaque(b, "t", kTwice, 2);
     }},
    {"extension: an ID of the ABI", -1, "2^32",
     [](B b) { return frt_runtime_builder_add_extension(b, 2, 1, kZero); }},
    {"extension: version 0", -1, "version",
     [](B b) { return frt_runtime_builder_add_extension(b, UINT64_C(1) << 40, 0, kZero); }},
    {"extension: no table", -1, "table",
     [](B b) { return frt_runtime_builder_add_extension(b, UINT64_C(1) << 40, 1, nullptr); }},
    {"extension: ID twice", -1, "twice",
     [](B b) {
         frt_runtime_builder_add_extension(b, UINT64_C(1) << 40, 1, kZero);
         return frt_runtime_builder_add_extension(b, UINT64_C(1) << 40, 2, kZero);
     }},
};

B usual_builder()
{
    B b = frt_runtime_builder_create(fabricated<frt_ctx>(1));
    REQUIRE(frt_runtime_builder_add_stream(b, "main", 0, 0, nullptr) == 0);
    REQUIRE(graph(b, "g") == 0);
    REQUIRE(buffer(b, "b") == 0);
    return b;
}

}  // namespace

TEST_CASE("a builder takes what the contract allows and says why it refuses", "[construct]")
{
    for (const Row& row : kRows) {
        INFO(row.rule);
        B b = usual_builder();
        CHECK(row.act(b) == row.want);
        if (row.want != 0) {
            INFO(frt_runtime_refusal());
            CHECK(std::string(frt_runtime_refusal()).find(row.reason) != std::string::npos);
            // Nothing of the refused call stays: the identity of what is left has no new record.
            const frt_model_runtime_verbs verbs = all_verbs();
            frt_model_runtime_v1* model =
                frt_runtime_builder_finish_model(b, &verbs, nullptr, nullptr, nullptr, nullptr);
            if (model != nullptr) {
                CHECK(model->n_ports <= 1);  // the first of two of one name
                CHECK(model->exp->n_capsule_regions <= 1);
                CHECK(model->exp->n_buffers == 1);
                CHECK(model->exp->n_graphs == 1);
                model->release(model->owner);
                continue;
            }
        }
        frt_runtime_builder_destroy(b);
    }
}

TEST_CASE("calls without a builder or a context are refused", "[construct]")
{
    CHECK(frt_runtime_builder_create(nullptr) == nullptr);
    CHECK(frt_runtime_builder_add_stream(nullptr, "s", 0, 0, nullptr) == -1);
    CHECK(graph(nullptr, "g") == -1);
    CHECK(buffer(nullptr, "b") == -1);
    CHECK(port(nullptr, "p") == -1);
    CHECK(opaque(nullptr, "s") == -1);
    CHECK(frt_runtime_builder_add_region(nullptr, "r", nullptr, 0, 1, 1) == -1);
    CHECK(frt_runtime_builder_add_identity(nullptr, "k", "v") == -1);
    CHECK(frt_runtime_builder_set_manifest(nullptr, "{}") == -1);
    CHECK(frt_runtime_builder_add_stage(nullptr, 0, nullptr, 0) == -1);
    CHECK(frt_runtime_builder_add_extension(nullptr, UINT64_C(1) << 40, 1, kZero) == -1);
    CHECK(frt_runtime_builder_set_generic_stage_runner(nullptr, nullptr,
                                                       fabricated_verbs::run_opaque) == -1);
    CHECK(frt_runtime_builder_finish(nullptr, nullptr, nullptr, nullptr) == nullptr);
    CHECK(frt_runtime_builder_finish_model(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr) ==
          nullptr);
    frt_runtime_builder_destroy(nullptr);
}

TEST_CASE("a metadata builder refuses every resource", "[construct][metadata]")
{
    B b = frt_model_runtime_builder_create_metadata();
    CHECK(frt_runtime_builder_add_stream(b, "s", 0, 0, nullptr) == -1);
    CHECK(graph(b, "g") == -1);
    CHECK(buffer(b, "b") == -1);
    CHECK(frt_runtime_builder_add_region(b, "r", fabricated<frt_buffer>(1), 0, 8, 1) == -1);
    CHECK(frt_runtime_builder_add_stage(b, 0, nullptr, 0) == -1);
    CHECK(frt_runtime_builder_add_generic_stage(b, "g", 0, 0, nullptr, 0) == -1);
    CHECK(port(b, "p", FRT_RT_PORT_SWAP, fabricated<frt_buffer>(1), 0, 8) == -1);
    CHECK(port(b, "p", FRT_RT_PORT_STAGED, nullptr, 0, 8) == -1);
    CHECK(port(b, "p", FRT_RT_PORT_STAGED, nullptr, 8, 0) == -1);
    CHECK(port(b, "p", FRT_RT_PORT_STAGED) == 0);
    CHECK(frt_runtime_builder_set_manifest(b, "{}") == 0);
    CHECK(frt_runtime_builder_finish(b, nullptr, nullptr, nullptr) == nullptr);
    Owner owner;
    const frt_model_runtime_verbs verbs = all_verbs();
    frt_model_runtime_v1* model =
        frt_runtime_builder_finish_model(b, &verbs, nullptr, &owner, Owner::retain, Owner::release);
    REQUIRE(model != nullptr);  // step alone is its authority
    const frt_runtime_export_v1* exp = model->exp;
    CHECK(exp->ctx == nullptr);
    CHECK(exp->streams == nullptr);
    CHECK(exp->graphs == nullptr);
    CHECK(exp->buffers == nullptr);
    CHECK(exp->capsule_regions == nullptr);
    CHECK(exp->n_streams + exp->n_graphs + exp->n_buffers + exp->n_capsule_regions == 0);
    CHECK(exp->fingerprint != 0);
    CHECK(std::string(exp->manifest_json) == "{}");
    const frt_runtime_stage_desc stage = {0, 0, nullptr};
    CHECK(frt_model_runtime_wrap(exp, nullptr, 0, &stage, 1, &verbs, nullptr, nullptr, nullptr) ==
          nullptr);
    CHECK(frt_model_runtime_override_verbs(model, &verbs, nullptr, nullptr, nullptr, nullptr) ==
          nullptr);  // a base that runs by step alone
    CHECK(owner.retained == 1);
    CHECK(owner.released == 0);
    model->release(model->owner);
    CHECK(owner.released == 1);
}

TEST_CASE("finish refuses what an export cannot hold and keeps the builder", "[construct][finish]")
{
    const struct {
        const char* rule;
        int (*add)(B b);
        const char* reason;
    } rows[] = {
        {"a port", [](B b) { return port(b, "p"); }, "finish_model"},
        {"a stage", [](B b) { return frt_runtime_builder_add_stage(b, 0, nullptr, 0); },
         "finish_model"},
        {"a generic stage", [](B b) { return opaque(b, "s"); }, "finish_model"},
        {"a runner alone",
         [](B b) {
             return frt_runtime_builder_set_generic_stage_runner(b, nullptr,
                                                                 fabricated_verbs::run_opaque);
         },
         "finish_model"},
        {"an undeclared stream", [](B b) { return graph(b, "h", 4); }, "stream 4"},
    };
    for (const auto& row : rows) {
        INFO(row.rule);
        B b = usual_builder();
        REQUIRE(row.add(b) == 0);
        Owner owner;
        CHECK(frt_runtime_builder_finish(b, &owner, Owner::retain, Owner::release) == nullptr);
        CHECK(std::string(frt_runtime_refusal()).find(row.reason) != std::string::npos);
        CHECK(owner.retained == 0);
        CHECK(owner.released == 0);
        CHECK(frt_runtime_builder_add_identity(b, "still", "usable") == 0);
        frt_runtime_builder_destroy(b);
    }
    // Windows are judged again at the end, when the buffer came later.
    B late = frt_runtime_builder_create(fabricated<frt_ctx>(1));
    REQUIRE(frt_runtime_builder_add_region(late, "r", fabricated<frt_buffer>(7), 60, 8, 1) == 0);
    REQUIRE(buffer(late, "b") == 0);
    CHECK(frt_runtime_builder_finish(late, nullptr, nullptr, nullptr) == nullptr);
    frt_runtime_builder_destroy(late);
    // An export without anything is fine.
    B empty = frt_runtime_builder_create(fabricated<frt_ctx>(1));
    frt_runtime_export_v1* exp = frt_runtime_builder_finish(empty, nullptr, nullptr, nullptr);
    REQUIRE(exp != nullptr);
    CHECK(exp->abi_version == 1);
    CHECK(exp->struct_size == 128);
    CHECK(exp->manifest_json == nullptr);
    exp->release(exp->owner);
}

TEST_CASE("finish_model refuses, retains nothing and can be tried again", "[construct][finish]")
{
    struct Case {
        const char* rule;
        void (*add)(B b);
        frt_model_runtime_verbs verbs;
        const char* reason;
    };
    using namespace fabricated_verbs;
    const auto staged_in = [](B b) { port(b, "p", FRT_RT_PORT_STAGED); };
    const auto staged_out = [](B b) {
        frt_runtime_builder_add_port(b, "o", 0, 1, 0, 1, 1, 0, nullptr, 0, 0, nullptr, 0, 0);
    };
    const auto nothing = [](B) {};
    const auto plan = [](B b) {
        opaque(b, "s");
        frt_runtime_builder_set_generic_stage_runner(b, nullptr, run_opaque);
    };
    const Case rows[] = {
        {"STAGED input without set_input",
         staged_in,
         {48, 0, nullptr, get_output, prepare, step, last_error},
         "set_input"},
        {"STAGED output without get_output",
         staged_out,
         {48, 0, set_input, nullptr, prepare, step, last_error},
         "get_output"},
        {"a table too short to be one counts as none",
         staged_in,
         {40, 0, set_input, get_output, prepare, step, last_error},
         "set_input"},
        {"a size that lies",
         nothing,
         {0xDEADBEEFu, 0, set_input, get_output, prepare, step, last_error},
         "struct_size"},
        {"a size that ends inside a verb",
         nothing,
         {52, 0, set_input, get_output, prepare, step, last_error},
         "struct_size"},
        {"no authority",
         nothing,
         {48, 0, set_input, get_output, prepare, nullptr, last_error},
         "nothing runs"},
        {"a plan without last_error",
         plan,
         {48, 0, set_input, get_output, prepare, step, nullptr},
         "last_error"},
        {"a plan without a runner", [](B b) { opaque(b, "s"); }, all_verbs(), "runner"},
        {"a runner without a plan",
         [](B b) { frt_runtime_builder_set_generic_stage_runner(b, nullptr, run_opaque); },
         all_verbs(), "OPAQUE"},
        {"a plan of graphs alone",
         [](B b) {
             frt_runtime_builder_add_generic_stage(b, "s", 0, 0, nullptr, 0);
             frt_runtime_builder_set_generic_stage_runner(b, nullptr, run_opaque);
         },
         all_verbs(), "OPAQUE"},
        {"an undeclared stream", [](B b) { graph(b, "h", 4); }, all_verbs(), "stream 4"},
    };
    for (const Case& row : rows) {
        INFO(row.rule);
        B b = usual_builder();
        row.add(b);
        Owner owner;
        CHECK(frt_runtime_builder_finish_model(b, &row.verbs, nullptr, &owner, Owner::retain,
                                               Owner::release) == nullptr);
        INFO(frt_runtime_refusal());
        CHECK(std::string(frt_runtime_refusal()).find(row.reason) != std::string::npos);
        CHECK(owner.retained == 0);
        CHECK(owner.released == 0);
        // The missing piece makes the same builder whole, where one piece is what is missing.
        frt_runtime_builder_add_stream(b, "late", 4, 0, nullptr);
        opaque(b, "more");
        frt_runtime_builder_set_generic_stage_runner(b, nullptr, run_opaque);
        const frt_model_runtime_verbs verbs = all_verbs();
        frt_model_runtime_v1* model = frt_runtime_builder_finish_model(
            b, &verbs, nullptr, &owner, Owner::retain, Owner::release);
        REQUIRE(model != nullptr);
        CHECK(owner.retained == 1);
        model->release(model->owner);
        CHECK(owner.released == 1);
    }
}

TEST_CASE("a built runtime round-trips its declarations and fills stubs", "[construct][finish]")
{
    B b = usual_builder();
    int value = 41;
    const uint64_t own = UINT64_C(0x5458455458544f41);
    char name[] = "changing";
    int64_t shape[] = {4, 5};
    REQUIRE(frt_runtime_builder_add_port(b, name, 3, 1, 0, 0, 2, 1, shape, 2, 30, nullptr, 0, 0) ==
            0);
    REQUIRE(frt_runtime_builder_add_extension(b, own, 3, &value) == 0);
    REQUIRE(frt_runtime_builder_set_manifest(b, "first") == 0);
    REQUIRE(frt_runtime_builder_set_manifest(b, "second") == 0);
    name[0] = 'X';
    shape[0] = 99;
    frt_model_runtime_verbs verbs = {96,     7, nullptr, nullptr, nullptr, fabricated_verbs::step,
                                     nullptr};
    frt_model_runtime_v1* model =
        frt_runtime_builder_finish_model(b, &verbs, &value, nullptr, nullptr, nullptr);
    REQUIRE(model != nullptr);
    CHECK(model->abi_version == 1);
    CHECK(model->struct_size == 136);
    CHECK(model->verbs.struct_size == 48);
    CHECK(model->verbs.reserved == 0);
    CHECK(model->self == &value);
    CHECK(model->owner == model->exp->owner);
    CHECK(model->stages == nullptr);
    CHECK(std::string(model->exp->manifest_json) == "second");
    REQUIRE(model->n_ports == 1);
    CHECK(std::string(model->ports[0].name) == "changing");
    CHECK(model->ports[0].shape[0] == 4);
    CHECK(model->ports[0].cadence_hint_hz == 30);
    CHECK(model->verbs.set_input(model->self, 0, nullptr, 0, -1) == -3);
    CHECK(model->verbs.get_output(model->self, 0, nullptr, 0, nullptr, -1) == -3);
    CHECK(model->verbs.prepare(model->self, 0, 0) == -3);
    CHECK(model->verbs.step(model->self) == 0);
    CHECK(std::strlen(model->verbs.last_error(model->self)) > 0);

    const void* const poison = &value;
    const struct {
        const char* rule;
        uint64_t id;
        uint32_t version;
        int want;
        const void* table;
    } rows[] = {
        {"offered", own, 1, 0, &value},           {"offered in this version", own, 3, 0, &value},
        {"version too new", own, 4, -3, nullptr}, {"unknown ID", own + 1, 1, -3, nullptr},
        {"no plan", 1, 1, -3, nullptr},           {"version 0", own, 0, -1, nullptr}};
    for (const auto& row : rows) {
        INFO(row.rule);
        const void* table = poison;
        CHECK(model->query_extension(model, row.id, row.version, &table) == row.want);
        CHECK(table == row.table);
    }
    const void* table = poison;
    CHECK(model->query_extension(nullptr, own, 1, &table) == -1);
    CHECK(table == nullptr);
    CHECK(model->query_extension(model, own, 1, nullptr) == -1);
    model->release(model->owner);
}
