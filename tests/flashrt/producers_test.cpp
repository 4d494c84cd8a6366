// Purpose:  the shipped example producers, each through the loader as a host uses it.
// Owns:     nothing.
// Thread:   one.
// Lifetime: the test program.
#include <dlfcn.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <string>

#include "flashrt/loader.hpp"

namespace {

bool mapped(const char* library)
{
    void* handle = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
    if (handle != nullptr) {
        dlclose(handle);
    }
    return handle != nullptr;
}

}  // namespace

TEST_CASE("the C producer multiplies", "[producers]")
{
    frt::LoadedModel loaded;
    REQUIRE(loaded.open(SCALE_LIBRARY, "{\"gain\": 2.5}") == frt::LoadStatus::loaded);
    CHECK(loaded.authority() == frt::Authority::step);
    const frt_model_runtime_v1* runtime = loaded.runtime();
    CHECK(runtime->exp->identity ==
          std::string("frt-runtime-identity-v1\nmodel=scale\ngain=2.5\n"
                      "port:0:x:0:1:0:0:1:1:4:-1:0:0\nport:1:y:0:1:0:1:1:0:4:-1:0:0\n"));
    const float x[] = {1, 2, 3, -4};
    float y[4] = {};
    uint64_t written = 0;
    const frt_model_runtime_verbs& verbs = runtime->verbs;
    CHECK(verbs.set_input(runtime->self, 0, x, 15, -1) == FRT_VERB_SHAPE);
    CHECK(verbs.set_input(runtime->self, 0, x, 16, -1) == 0);
    CHECK(verbs.step(runtime->self) == 0);
    CHECK(verbs.get_output(runtime->self, 1, y, 15, &written, -1) == FRT_VERB_STORAGE);
    CHECK(written == 16);
    CHECK(verbs.get_output(runtime->self, 1, y, 16, &written, -1) == 0);
    CHECK(y[3] == -10);
    CHECK(verbs.prepare(runtime->self, 0, 0) == FRT_VERB_UNSUPPORTED);
    loaded.close();
    CHECK_FALSE(mapped(SCALE_LIBRARY));
    CHECK(loaded.open(SCALE_LIBRARY, "{\"gain\": }") == frt::LoadStatus::factory);
    CHECK_FALSE(mapped(SCALE_LIBRARY));
}

TEST_CASE("the metadata provider counts and ranks through its plan", "[producers]")
{
    frt::LoadedModel loaded;
    REQUIRE(loaded.open(LETTERS_LIBRARY, "{}") == frt::LoadStatus::loaded);
    REQUIRE(loaded.authority() == frt::Authority::plan);
    const frt_model_runtime_v1* runtime = loaded.runtime();
    const frt_generic_stage_plan_ext_v1* plan = loaded.plan();
    REQUIRE(plan->n_stages == 2);
    CHECK(runtime->exp->ctx == nullptr);
    CHECK(runtime->n_stages == 0);
    CHECK(plan->stages[0].name == std::string("count"));
    CHECK(plan->stages[1].executor_ref == 4);
    const char* text = "Hello, World";
    CHECK(runtime->verbs.set_input(runtime->self, 0, text, std::strlen(text), -1) == 0);
    for (uint64_t at = 0; at < plan->n_stages; at++) {
        CHECK(plan->run_opaque(plan->stage_self, plan->stages[at].executor_ref) == 0);
    }
    int64_t counts[26] = {};
    char ranked[26] = {};
    uint64_t written = 0;
    CHECK(runtime->verbs.get_output(runtime->self, 1, counts, sizeof counts, &written, -1) == 0);
    CHECK(counts['l' - 'a'] == 3);
    CHECK(runtime->verbs.get_output(runtime->self, 2, ranked, sizeof ranked, &written, -1) == 0);
    CHECK(std::string(ranked, written) == "lodehrw");
    CHECK(plan->run_opaque(plan->stage_self, 5) == FRT_VERB_NOT_FOUND);
    CHECK_FALSE(std::string(runtime->verbs.last_error(runtime->self)).empty());
}

TEST_CASE("the overlay keeps the base's declaration and smooths its actions", "[producers]")
{
    const std::string base_config = R"({\"num_views\":1,\"stage_plan\":\"context_action\"})";
    const std::string config = std::string("{\"base\":\"") + REACH_LIBRARY +
                               "\",\"base_config\":\"" + base_config + "\",\"hold_percent\":75}";
    frt::LoadedModel plain;
    frt::LoadedModel overlay;
    REQUIRE(plain.open(REACH_LIBRARY, R"({"num_views":1,"stage_plan":"context_action"})") ==
            frt::LoadStatus::loaded);
    REQUIRE(overlay.open(OVERLAY_LIBRARY, config.c_str()) == frt::LoadStatus::loaded);
    CHECK(overlay.runtime()->exp->fingerprint == plain.runtime()->exp->fingerprint);
    CHECK(overlay.runtime()->n_stages == 2);
    float values[2][70] = {};
    for (int turn = 0; turn < 2; turn++) {
        const std::string pixels(32 * 32 * 3, static_cast<char>(turn * 90));
        const frt_image_view view = {48, 0, pixels.data(), pixels.size(), 32, 32, 0, 0, 0};
        const float state[7] = {};
        uint64_t written = 0;
        float raw[70] = {};
        const frt_model_runtime_v1* both[] = {plain.runtime(), overlay.runtime()};
        for (const frt_model_runtime_v1* runtime : both) {
            CHECK(runtime->verbs.set_input(runtime->self, 0, "go", 2, -1) == 0);
            CHECK(runtime->verbs.set_input(runtime->self, 1, state, sizeof state, -1) == 0);
            CHECK(runtime->verbs.set_input(runtime->self, 2, &view, sizeof view, -1) == 0);
            CHECK(runtime->verbs.step(runtime->self) == 0);
            float* out = runtime == overlay.runtime() ? values[turn] : raw;
            CHECK(runtime->verbs.get_output(runtime->self, 4, out, sizeof raw, &written, -1) == 0);
        }
        for (size_t at = 0; at < 70; at++) {
            const float want =
                turn == 0 ? raw[at] : 0.75f * values[0][at] + (1.0f - 0.75f) * raw[at];
            CHECK(values[turn][at] == want);
        }
    }
    CHECK(overlay.runtime()->verbs.step(overlay.runtime()->self) == 0);
    CHECK(overlay.runtime()->verbs.set_input(overlay.runtime()->self, 9, nullptr, 0, -1) == -1);
    CHECK_FALSE(std::string(overlay.runtime()->verbs.last_error(overlay.runtime()->self)).empty());
    plain.close();
    CHECK(mapped(REACH_LIBRARY));  // the overlay's own hold
    overlay.close();
    CHECK_FALSE(mapped(REACH_LIBRARY));
    CHECK_FALSE(mapped(OVERLAY_LIBRARY));
    CHECK(overlay.open(OVERLAY_LIBRARY, R"({"base":"/nowhere.so"})") == frt::LoadStatus::factory);
}
