// Purpose:  the whole text runtime with the CUDA engine behind it: the choice of the device, the
//           contract's refusals, a device that fails and comes back.
// Owns:     a model file in the temporary folder, for one test each.
// Thread:   main and the pool's.
// Lifetime: one run.
#include "text_runtime.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "cuda/core/sample.h"
#include "engine_cuda/cuda_engine.h"
#include "tests/loop_cuda/fake_cuda.h"
#include "tests/text/numerics/tiny_model.h"

using namespace aotx;
using aotx_test::TinyModel;

namespace {

constexpr uint32_t kVocab = TinyModel::kVocab;

// What the shared object's symbol does, over the shim.
StepEngine* open_shim(uint32_t version, uint64_t request_bytes, const StepEngineRequest* request,
                      TextReason* reason)
{
    REQUIRE(version == kTextEngineVersion);
    REQUIRE(request_bytes == sizeof *request);
    return CudaEngine::open(fake_cuda_api(), *request, reason).release();
}

StepEngine* open_nothing(uint32_t, uint64_t, const StepEngineRequest*, TextReason* reason)
{
    (void)text_refuse(reason, 0, "device", "is a GPU that is not here");
    return nullptr;
}

struct ModelFile {
    std::string path;

    ModelFile()
    {
        char name[] = "/tmp/aotx_text_cuda_XXXXXX";
        const int fd = mkstemp(name);
        REQUIRE(fd >= 0);
        path = name;
        const WeightType q8 = WeightType::kQ8_0;
        const TinyModel model(
            {"llama", q8, WeightType::kQ4_1, 64, 96, 4, 2, 16, 16, false, false, false, 1.0f}, 5,
            true);
        REQUIRE(write(fd, model.data(), model.bytes()) == static_cast<ssize_t>(model.bytes()));
        REQUIRE(close(fd) == 0);
    }
    ~ModelFile() { unlink(path.c_str()); }

    std::string config(const std::string& settings) const
    {
        return "{\"model_path\":\"" + path +
               "\",\"threads\":1,\"sequences\":3,\"kv_tokens\":128,\"step_tokens\":16," + settings +
               "}";
    }
};

// Feed tokens to a sequence; empty when the step is refused.
std::vector<float> feed(const aotx_text_runtime_v1* text, uint32_t sequence,
                        const std::vector<int32_t>& tokens)
{
    aotx_text_row row = {sequence, static_cast<uint32_t>(tokens.size()), tokens.data(), 1, 0,
                         nullptr};
    if (text->step(text->self, &row, 1) != 0) {
        return {};
    }
    return {row.logits, row.logits + kVocab};
}

}  // namespace

TEST_CASE("the configuration chooses the device")
{
    fake_cuda() = FakeCuda();
    const ModelFile file;
    const struct {
        const char* device;
        TextEngineOpen door;
        int code;
        const char* serves;
        const char* note;
    } rows[] = {
        {"cpu", &open_shim, 0, "cpu", ""},
        {"cuda", &open_shim, 0, "cuda", ""},
        {"auto", &open_shim, 0, "cuda", ""},
        {"cuda", &open_nothing, kVerbBackend, "", ""},
        {"auto", &open_nothing, 0, "cpu", "device: is a GPU that is not here"},
        {"tpu", &open_shim, kVerbInvalid, "", ""},
    };
    for (const auto& row : rows) {
        INFO(row.device << " " << row.code);
        TextRuntime runtime;
        TextReason reason;
        const std::string config = file.config(std::string("\"device\":\"") + row.device + "\"");
        REQUIRE(runtime.open(config.c_str(), &reason, row.door) == row.code);
        if (row.code != 0) {
            CHECK(std::strlen(reason.text) > 0);
            continue;
        }
        CHECK(std::string(runtime.engine().device()) == row.serves);
        CHECK(std::string(runtime.device_note()) == row.note);
        const bool cuda = std::string(row.serves) == "cuda";
        CHECK(runtime.properties().page_tokens == (cuda ? 16 : 32));
        CHECK(runtime.properties().pages_count == (cuda ? 8 : 4));
    }
    CHECK(fake_cuda().allocations == 0);
}

TEST_CASE("without the shared object the runtime says so or serves on the CPU")
{
    const ModelFile file;
    TextRuntime insists;
    TextReason reason;
    const int code = insists.open(file.config("\"device\":\"cuda\"").c_str(), &reason);
    if (code == 0) {
        WARN("a GPU serves here");
        return;
    }
    CHECK(code == kVerbBackend);
    const std::string why = reason.text;
    CHECK(!why.empty());
    TextRuntime yields;
    REQUIRE(yields.open(file.config("\"device\":\"auto\"").c_str(), &reason) == 0);
    CHECK(std::string(yields.engine().device()) == "cpu");
    CHECK(yields.device_note() == why);
}

TEST_CASE("refused calls change nothing on the GPU either")
{
    fake_cuda() = FakeCuda();
    const ModelFile file;
    TextRuntime runtime;
    TextReason reason;
    REQUIRE(runtime.open(file.config("\"device\":\"cuda\"").c_str(), &reason, &open_shim) == 0);
    const aotx_text_runtime_v1* const text = runtime.table();
    const std::vector<int32_t> prompt = {3, 1, 4, 1, 5, 9, 2, 6};
    REQUIRE(text->sequence_open(text->self, 0, 40) == 0);
    const std::vector<float> first = feed(text, 0, prompt);
    const std::vector<float> second = feed(text, 0, {7});
    REQUIRE(second.size() == kVocab);
    REQUIRE(text->sequence_close(text->self, 0) == 0);
    REQUIRE(text->sequence_open(text->self, 0, 40) == 0);
    CHECK(feed(text, 0, prompt) == first);
    const uint64_t launches = fake_cuda().launches;
    CHECK(feed(text, 0, {static_cast<int32_t>(kVocab)}).empty());
    CHECK(feed(text, 0, {-1}).empty());
    CHECK(feed(text, 1, {1}).empty());
    CHECK(feed(text, 0, std::vector<int32_t>(17, 1)).empty());
    CHECK(text->sequence_open(text->self, 0, 40) == -1);
    CHECK(text->sequence_open(text->self, 1, 129) == -4);
    CHECK(text->sequence_open(text->self, 1, 81) == -5);
    CHECK(text->sequence_close(text->self, 2) == -1);
    CHECK(fake_cuda().launches == launches);
    CHECK(feed(text, 0, {7}) == second);
}

TEST_CASE("tokens chosen on the device are the core's choice from the same logits")
{
    fake_cuda() = FakeCuda();
    fake_cuda().fill = 0xff;
    const ModelFile file;
    TextRuntime runtime;
    TextReason reason;
    REQUIRE(runtime.open(file.config("\"device\":\"cuda\"").c_str(), &reason, &open_shim) == 0);
    const aotx_text_runtime_v1* const text = runtime.table();
    REQUIRE(text->struct_size >= AOTX_TEXT_RUNTIME_V1_SAMPLE_SIZE);
    REQUIRE(text->step_sample != nullptr);
    const std::vector<int32_t> prompt = {3, 1, 4, 1, 5};
    const int32_t next = 9;
    const std::vector<aotx_text_draw> wanted = {
        {0.0f, 1.0f, 0.3, -7, 0}, {0.7f, 0.8f, 0.6, -7, 0}, {1.5f, 1.0f, 0.2, -7, 0}};
    for (const bool by_device : {false, true}) {
        static std::vector<int32_t> by_host;
        for (uint32_t i = 0; i < 3; i++) {
            REQUIRE(text->sequence_open(text->self, i, 16) == 0);
        }
        aotx_text_row rows[3] = {{0, 5, prompt.data(), 1, 0, nullptr},
                                 {1, 2, prompt.data(), 0, 0, nullptr},
                                 {2, 3, prompt.data(), 1, 0, nullptr}};
        std::vector<aotx_text_draw> draws = wanted;
        std::vector<int32_t> tokens;
        for (uint32_t round = 0; round < 2; round++) {
            if (by_device) {
                REQUIRE(text->step_sample(text->self, rows, 3, draws.data()) == 0);
            } else {
                REQUIRE(text->step(text->self, rows, 3) == 0);
            }
            for (uint32_t i = 0; i < 3; i++) {
                if (rows[i].wants_logits == 1 && !by_device) {
                    SampleScratch scratch;
                    draws[i].token = core_sample(rows[i].logits, kVocab, draws[i].temperature,
                                                 draws[i].top_p, draws[i].uniform, &scratch);
                }
                CHECK((rows[i].logits == nullptr) == (by_device || rows[i].wants_logits == 0));
                tokens.push_back(draws[i].token);
                rows[i] = {i, 1, &next, 1, 0, nullptr};
            }
        }
        CHECK(tokens[1] == -7);  // the row that wanted nothing
        if (by_device) {
            CHECK(tokens == by_host);
        }
        by_host = tokens;
        for (uint32_t i = 0; i < 3; i++) {
            REQUIRE(text->sequence_close(text->self, i) == 0);
        }
    }
    // Draws that are out of range, and none at all.
    REQUIRE(text->sequence_open(text->self, 0, 16) == 0);
    aotx_text_row row = {0, 1, &next, 1, 0, nullptr};
    const aotx_text_draw bad[] = {{-1.0f, 1.0f, 0.5, 0, 0}, {NAN, 1.0f, 0.5, 0, 0},
                                  {1.0f, 0.0f, 0.5, 0, 0},  {1.0f, 1.5f, 0.5, 0, 0},
                                  {1.0f, 1.0f, 1.0, 0, 0},  {1.0f, 1.0f, -0.5, 0, 0}};
    const uint64_t launches = fake_cuda().launches;
    for (aotx_text_draw draw : bad) {
        CHECK(text->step_sample(text->self, &row, 1, &draw) == -1);
    }
    CHECK(text->step_sample(text->self, &row, 1, nullptr) == -1);
    CHECK(fake_cuda().launches == launches);
    TextRuntime cpu;
    REQUIRE(cpu.open(file.config("\"device\":\"cpu\"").c_str(), &reason) == 0);
    CHECK(cpu.table()->step_sample == nullptr);
}

TEST_CASE("a failed device answers -6 until everything is closed and it is back")
{
    fake_cuda() = FakeCuda();
    const ModelFile file;
    TextRuntime runtime;
    TextReason reason;
    REQUIRE(runtime.open(file.config("\"device\":\"cuda\"").c_str(), &reason, &open_shim) == 0);
    const aotx_text_runtime_v1* const text = runtime.table();
    REQUIRE(text->sequence_open(text->self, 0, 40) == 0);
    REQUIRE(text->sequence_open(text->self, 1, 40) == 0);
    const std::vector<float> want = feed(text, 0, {3, 1, 4});
    fail_in(1);
    const int32_t token = 5;
    aotx_text_row row = {1, 1, &token, 1, 0, nullptr};
    CHECK(text->step(text->self, &row, 1) == -6);
    CHECK(row.logits == nullptr);
    CHECK(text->step(text->self, &row, 1) == -6);
    CHECK(text->sequence_open(text->self, 2, 8) == -6);
    CHECK(std::strstr(runtime.last_error(), "close what is open") != nullptr);
    REQUIRE(text->sequence_close(text->self, 0) == 0);
    REQUIRE(text->sequence_close(text->self, 1) == 0);
    CHECK(fake_cuda().resets == 0);
    REQUIRE(text->sequence_open(text->self, 2, 40) == 0);
    CHECK(feed(text, 2, {3, 1, 4}) == want);
    CHECK(fake_cuda().resets == 1);  // the fault sticks until then
}

// By hand, since the shim needs a minute a token: AOTX_MODEL=file text_cuda_test '[model]'.
TEST_CASE("the real model says the same on both engines", "[.][model]")
{
    const char* const path = std::getenv("AOTX_MODEL");
    REQUIRE(path != nullptr);
    fake_cuda() = FakeCuda();
    const std::string config = std::string("{\"model_path\":\"") + path +
                               "\",\"sequences\":1,\"kv_tokens\":64,\"step_tokens\":16,";
    TextRuntime cuda;
    TextRuntime cpu;
    TextReason reason;
    REQUIRE(cuda.open((config + "\"device\":\"cuda\"}").c_str(), &reason, &open_shim) == 0);
    REQUIRE(cpu.open((config + "\"activations\":\"float\"}").c_str(), &reason) == 0);
    const uint32_t vocab = cpu.properties().vocab_size;
    std::vector<int32_t> next = {1, 4093, 198, 1780, 314};
    for (TextRuntime* const runtime : {&cuda, &cpu}) {
        REQUIRE(runtime->sequence_open(0, 32) == 0);
    }
    for (uint32_t i = 0; i < 3; i++) {
        aotx_text_row rows[2];
        for (uint32_t side = 0; side < 2; side++) {
            rows[side] = {0, static_cast<uint32_t>(next.size()), next.data(), 1, 0, nullptr};
            REQUIRE((side == 0 ? cuda : cpu).step(&rows[side], 1) == 0);
        }
        double largest = 0;
        double difference = 0;
        for (uint32_t at = 0; at < vocab; at++) {
            largest = std::max(largest, std::fabs(static_cast<double>(rows[1].logits[at])));
            difference = std::max(difference, std::fabs(static_cast<double>(rows[0].logits[at]) -
                                                        rows[1].logits[at]));
        }
        WARN("step " << i << ": deviation " << difference / largest);
        CHECK(difference / largest < 1e-2);
        const int32_t best = core_argmax(rows[1].logits, vocab);
        CHECK(core_argmax(rows[0].logits, vocab) == best);
        next = {best};
    }
}
