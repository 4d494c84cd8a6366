// Purpose:  the CUDA engine of the text runtime, whole (packing, uploads, programs, page lists,
//           logits back), over the execution shim, against the CPU's computation.
// Owns:     nothing.
// Thread:   main and the pool's.
// Lifetime: one run.
#include "engine_cuda/cuda_engine.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <string>

#include "engine_cpu/cpu_engine.h"
#include "tests/loop_cuda/fake_cuda.h"
#include "tests/text/numerics/tiny_model.h"

using namespace aotx;
using aotx_test::Random;
using aotx_test::TinyModel;
using aotx_test::TinyShape;

namespace {

constexpr uint32_t kVocab = TinyModel::kVocab;

TinyShape shape_of(WeightType type, WeightType second)
{
    const bool wide =
        weight_format(type).source_elements == 256 || weight_format(second).source_elements == 256;
    TinyShape shape = {"llama", type, second, 64, 96, 4, 2, 16, 16, false, false, false, 1.0f};
    if (wide) {
        shape.embedding = 256;
        shape.feed_forward = 256;
        shape.head_size = 64;
        shape.rotated = 64;
    }
    return shape;
}

void run_alone(void*, void (*work)(void*, uint32_t, uint32_t), void* context, uint32_t count)
{
    work(context, 0, count);
}

struct Sizes {
    uint32_t sequences = 4;
    uint32_t sequence_tokens = 128;
    uint32_t step_tokens = 40;
    uint32_t kv_tokens = 256;
    uint32_t step_ms_max = 10000;
};

// A model with the CUDA engine over the shim, and the CPU's computation with the same 16-bit keys.
struct Both {
    TextReason reason;
    TinyModel bytes;
    GgufFile file;
    ModelSource source;
    WorkerPool pool;
    Model model;
    KvCache cache;
    Forward forward;
    std::unique_ptr<StepEngine> cuda;

    explicit Both(const TinyShape& shape, const Sizes& sizes = {}) : bytes(shape, 5)
    {
        REQUIRE(file.open_memory(bytes.data(), bytes.bytes(), &reason) == 0);
        const int status = source.open(file, &reason);
        INFO(reason.text);
        REQUIRE(status == 0);
        REQUIRE(pool.open(1));
        REQUIRE(model.open(source, &pool, &reason) == 0);
        const ModelShape& of = model.shape();
        REQUIRE(cache.open({of.layers, of.kv_heads, of.head_size, false, sizes.sequences,
                            sizes.kv_tokens / 32, sizes.sequence_tokens}));
        REQUIRE(forward.open(
            model, &cache, &pool,
            {sizes.step_tokens, sizes.sequences, sizes.sequence_tokens, ActivationMode::kFloat}));
        StepEngineRequest request;
        request.source = &source;
        request.workers = {nullptr, &run_alone};
        request.sequences = sizes.sequences;
        request.sequence_tokens = sizes.sequence_tokens;
        request.step_tokens = sizes.step_tokens;
        request.kv_tokens = sizes.kv_tokens;
        request.step_ms_max = sizes.step_ms_max;
        cuda = CudaEngine::open(fake_cuda_api(), request, &reason);
        INFO(reason.text);
        REQUIRE(cuda != nullptr);
    }
};

std::vector<int32_t> random_tokens(uint32_t count, uint64_t seed = 77)
{
    Random random(seed);
    std::vector<int32_t> tokens;
    for (uint32_t i = 0; i < count; i++) {
        tokens.push_back(static_cast<int32_t>(random.below(kVocab)));
    }
    return tokens;
}

// Some tokens of one sequence in a step.
struct Row {
    uint32_t sequence;
    std::vector<int32_t> tokens;
};

std::vector<StepToken> step_of(const KvPages& pages, const std::vector<Row>& rows)
{
    std::vector<StepToken> step;
    uint32_t wanted = 0;
    for (const Row& row : rows) {
        for (size_t i = 0; i < row.tokens.size(); i++) {
            const bool last = i + 1 == row.tokens.size();
            step.push_back({static_cast<uint32_t>(row.tokens[i]), row.sequence,
                            pages.length(row.sequence) + static_cast<uint32_t>(i),
                            last ? wanted++ : kNoLogits});
        }
    }
    return step;
}

using Logits = std::vector<std::vector<float>>;

// Run one step on the CUDA engine: the logits of every row.
Logits cuda_step(Both* both, const std::vector<Row>& rows)
{
    KvPages* const pages = both->cuda->pages();
    const std::vector<StepToken> step = step_of(*pages, rows);
    REQUIRE(both->cuda->step(step.data(), static_cast<uint32_t>(step.size())));
    Logits out;
    for (const Row& row : rows) {
        pages->append(row.sequence, static_cast<uint32_t>(row.tokens.size()));
        const float* const at = both->cuda->logits(static_cast<uint32_t>(out.size()));
        out.emplace_back(at, at + kVocab);
    }
    return out;
}

Logits cpu_step(Both* both, const std::vector<Row>& rows)
{
    const std::vector<StepToken> step = step_of(both->cache, rows);
    both->forward.run(step.data(), static_cast<uint32_t>(step.size()));
    Logits out;
    for (const Row& row : rows) {
        both->cache.append(row.sequence, static_cast<uint32_t>(row.tokens.size()));
        const float* const at = both->forward.logits(static_cast<uint32_t>(out.size()));
        out.emplace_back(at, at + kVocab);
    }
    return out;
}

void open_both(Both* both, uint32_t sequence, uint32_t tokens_max)
{
    REQUIRE(both->cuda->pages()->open_sequence(sequence, tokens_max));
    REQUIRE(both->cache.open_sequence(sequence, tokens_max));
}

void close_both(Both* both, uint32_t sequence)
{
    both->cuda->pages()->close_sequence(sequence);
    both->cache.close_sequence(sequence);
}

// Largest difference, relative to the largest reference value.
double deviation(const Logits& got, const Logits& want)
{
    REQUIRE(got.size() == want.size());
    double largest = 0;
    double difference = 0;
    for (size_t row = 0; row < want.size(); row++) {
        for (size_t i = 0; i < kVocab; i++) {
            REQUIRE(std::isfinite(got[row][i]));
            largest = std::max(largest, std::fabs(static_cast<double>(want[row][i])));
            difference =
                std::max(difference, std::fabs(static_cast<double>(got[row][i]) - want[row][i]));
        }
    }
    return difference / largest;
}

// The best token, and by how much it leads.
struct Best {
    int32_t token;
    float lead;
};

Best best_of(const std::vector<float>& logits)
{
    Best best = {0, 0};
    for (uint32_t i = 1; i < kVocab; i++) {
        if (logits[i] > logits[static_cast<size_t>(best.token)]) {
            best.token = static_cast<int32_t>(i);
        }
    }
    float second = -INFINITY;
    for (uint32_t i = 0; i < kVocab; i++) {
        second = static_cast<int32_t>(i) == best.token ? second : std::max(second, logits[i]);
    }
    best.lead = logits[static_cast<size_t>(best.token)] - second;
    return best;
}

// A prompt, then greedy tokens: logits within the tolerance, tokens equal.
void check_greedy(Both* both, uint32_t prompt, uint32_t steps, double tolerance)
{
    open_both(both, 1, 100);
    std::vector<Row> rows = {{1, random_tokens(prompt)}};
    for (uint32_t i = 0; i < steps; i++) {
        const Logits want = cpu_step(both, rows);
        const Logits got = cuda_step(both, rows);
        CHECK(deviation(got, want) < tolerance);
        const Best best = best_of(want[0]);
        CHECK(best_of(got[0]).token == best.token);
        rows = {{1, {best.token}}};
    }
    close_both(both, 1);
}

}  // namespace

// Largest difference of the logits that is allowed, relative to the largest of them. The device
// keeps 22 bits of an input (16 where weights are bfloats), the CPU 24; both round keys and values
// to halves, and a sum near the middle of two halves may fall to either side.
constexpr double kTolerance = 5e-4;
constexpr double kToleranceBfloat = 2e-3;

TEST_CASE("every weight type computes what the CPU computes")
{
    fake_cuda() = FakeCuda();
    fake_cuda().fill = 0xff;  // fresh device memory holds nothing that could be taken for a number
    for (const WeightType type : aotx_test::kAllTypes) {
        INFO("type " << static_cast<uint32_t>(type));
        Both both(shape_of(type, type));
        check_greedy(&both, 11, 2, type == WeightType::kBF16 ? kToleranceBfloat : kTolerance);
    }
    CHECK(fake_cuda().allocations == 0);
    CHECK(fake_cuda().registered == 0);
    CHECK(fake_cuda().executors == 0);
    CHECK(fake_cuda().streams == 0);
}

TEST_CASE("shapes and features of the family compute what the CPU computes")
{
    fake_cuda() = FakeCuda();
    fake_cuda().fill = 0xff;
    for (const auto& row : aotx_test::tiny_family()) {
        INFO(row.name);
        Both both(row.shape);
        check_greedy(&both, 17, 1, kTolerance);
    }
}

TEST_CASE("a row has the same bits alone, in company, in chunks, and in any width")
{
    fake_cuda() = FakeCuda();
    Both both(shape_of(WeightType::kQ4_1, WeightType::kF16), {8, 128, 70, 1024});
    KvPages* const pages = both.cuda->pages();
    const std::vector<int32_t> prompt = random_tokens(35);
    const std::vector<int32_t> other = random_tokens(60, 3);
    Logits alone;
    REQUIRE(pages->open_sequence(0, 100));
    alone.push_back(cuda_step(&both, {{0, prompt}})[0]);
    for (uint32_t i = 0; i < 3; i++) {
        alone.push_back(cuda_step(&both, {{0, {prompt[i]}}})[0]);
    }
    for (uint32_t sequence = 1; sequence < 8; sequence++) {
        REQUIRE(pages->open_sequence(sequence, 60));
    }
    // The same tokens in sequence 5: its prompt in three chunks, others prefill and decode around.
    const std::vector<int32_t> first(prompt.begin(), prompt.begin() + 2);
    const std::vector<int32_t> second(prompt.begin() + 2, prompt.begin() + 22);
    const std::vector<int32_t> third(prompt.begin() + 22, prompt.end());
    (void)cuda_step(&both, {{5, first}, {1, {7}}});
    (void)cuda_step(&both, {{2, {9, 8, 7}}, {5, second}, {3, {1}}});
    const std::vector<int32_t> many(other.begin(), other.begin() + 40);
    Logits company;
    company.push_back(cuda_step(&both, {{4, many}, {5, third}, {1, {3}}})[1]);
    company.push_back(cuda_step(&both, {{5, {prompt[0]}}, {6, {1, 2, 3, 4, 5, 6, 7, 8, 9}}})[0]);
    company.push_back(
        cuda_step(&both, {{1, {1}}, {2, {2}}, {3, {3}}, {4, {4}}, {6, {5}}, {5, {prompt[1]}}})[5]);
    company.push_back(cuda_step(&both, {{7, many}, {1, {8}}, {5, {prompt[2]}}})[2]);
    for (size_t i = 0; i < alone.size(); i++) {
        INFO("step " << i);
        CHECK(std::memcmp(alone[i].data(), company[i].data(), kVocab * sizeof(float)) == 0);
    }
}

TEST_CASE("pages go from sequence to sequence and nobody sees what lay there")
{
    fake_cuda() = FakeCuda();
    fake_cuda().fill = 0xff;
    // Eight pages of 16 tokens: two sequences of 64 tokens and no more.
    Both both(shape_of(WeightType::kQ8_0, WeightType::kF32), {4, 96, 40, 128});
    KvPages* const pages = both.cuda->pages();
    const std::vector<int32_t> prompt = random_tokens(37);
    REQUIRE(pages->open_sequence(0, 64));
    REQUIRE(pages->open_sequence(1, 64));
    REQUIRE_FALSE(pages->open_sequence(2, 1));
    const std::vector<float> want = cuda_step(&both, {{0, prompt}})[0];
    (void)cuda_step(&both, {{1, random_tokens(40, 9)}});
    // Another number, other pages, the same numbers reopened, in turns.
    for (uint32_t round = 0; round < 4; round++) {
        INFO("round " << round);
        const uint32_t sequence = round % 3;
        pages->close_sequence(round == 0 ? 0 : (round - 1) % 3);
        if (round == 1) {
            pages->close_sequence(1);
            REQUIRE(pages->open_sequence(3, 30));
            (void)cuda_step(&both, {{3, {5, 6}}});
        }
        REQUIRE(pages->open_sequence(sequence, 64));
        CHECK(cuda_step(&both, {{sequence, prompt}})[0] == want);
    }
}

TEST_CASE("a step takes nothing, and only launches")
{
    fake_cuda() = FakeCuda();
    Both both(shape_of(WeightType::kQ4_0, WeightType::kQ4_0));
    KvPages* const pages = both.cuda->pages();
    const uint64_t setup_calls = fake_cuda().setup_calls;
    REQUIRE(fake_cuda().allocations == 1);
    REQUIRE(fake_cuda().registered == 1);
    for (uint32_t round = 0; round < 3; round++) {
        REQUIRE(pages->open_sequence(0, 40));
        (void)cuda_step(&both, {{0, random_tokens(1 + round * 15)}});
        const uint64_t launches = fake_cuda().launches;
        (void)cuda_step(&both, {{0, {3}}});
        CHECK(fake_cuda().launches == launches + 2);
        pages->close_sequence(0);
    }
    CHECK(fake_cuda().setup_calls == setup_calls);
}

namespace {

void fail_step(Both* both, uint32_t sequence)
{
    fail_in(1);
    const std::vector<StepToken> step = step_of(*both->cuda->pages(), {{sequence, {4}}});
    CHECK_FALSE(both->cuda->step(step.data(), 1));
    CHECK_FALSE(both->cuda->step(step.data(), 1));
    both->cuda->pages()->close_sequence(sequence);
}

}  // namespace

TEST_CASE("a fault ends the steps until the device is revived, reset by another or not")
{
    fake_cuda() = FakeCuda();
    Both both(shape_of(WeightType::kQ4_0, WeightType::kQ4_0));
    KvPages* const pages = both.cuda->pages();
    const std::vector<int32_t> prompt = random_tokens(9);
    // Three faults that the engine has to end itself, and any number that another has ended.
    const bool by_another[] = {true, false, true, false, false, true, true};
    uint64_t resets = 0;
    for (const bool reset_by_another : by_another) {
        INFO("reset " << reset_by_another);
        REQUIRE(pages->open_sequence(1, 40));
        const std::vector<float> want = cuda_step(&both, {{1, prompt}})[0];
        fail_step(&both, 1);
        if (reset_by_another) {
            REQUIRE(fake_cuda_api()->reset_device(resets) == 0);
            REQUIRE(fake_cuda_api()->reset_device(resets) == 0);  // the second to see it
            const std::vector<StepToken> step = step_of(*pages, {{1, {4}}});
            CHECK_FALSE(both.cuda->step(step.data(), 1));
        }
        REQUIRE(both.cuda->revive(&both.reason));
        CHECK(fake_cuda().resets == ++resets);
        REQUIRE(pages->open_sequence(2, 40));
        CHECK(cuda_step(&both, {{2, prompt}})[0] == want);
        pages->close_sequence(2);
    }
    REQUIRE(pages->open_sequence(1, 40));
    fail_step(&both, 1);
    CHECK_FALSE(both.cuda->revive(&both.reason));
    CHECK(std::strstr(both.reason.text, "unspecified launch failure (719)") != nullptr);
    CHECK(fake_cuda().resets == resets);
    REQUIRE(fake_cuda_api()->reset_device(resets) == 0);
    REQUIRE(both.cuda->revive(&both.reason));
    CHECK(fake_cuda().allocations == 1);
    CHECK(fake_cuda().registered == 1);
}

TEST_CASE("a device without room for the revived is not reset, and a reset meanwhile is noticed")
{
    fake_cuda() = FakeCuda();
    Both both(shape_of(WeightType::kQ4_0, WeightType::kQ4_0));
    KvPages* const pages = both.cuda->pages();
    REQUIRE(pages->open_sequence(1, 40));
    fail_step(&both, 1);
    REQUIRE(fake_cuda_api()->reset_device(0) == 0);
    fake_cuda().refuse_allocation = true;
    CHECK_FALSE(both.cuda->revive(&both.reason));
    CHECK(std::strstr(both.reason.text, "out of memory (2)") != nullptr);
    CHECK(fake_cuda().resets == 1);
    fake_cuda().refuse_allocation = false;
    fake_cuda().reset_in = 1;
    CHECK_FALSE(both.cuda->revive(&both.reason));
    CHECK(fake_cuda().resets == 2);
    CHECK(fake_cuda().allocations == 0);
    CHECK(fake_cuda().executors == 0);
    CHECK(fake_cuda().streams == 0);
    REQUIRE(both.cuda->revive(&both.reason));
    REQUIRE(pages->open_sequence(2, 40));
    (void)cuda_step(&both, {{2, random_tokens(9)}});
}

TEST_CASE("a long step is slept through, and one that never ends is a device that is left alone")
{
    fake_cuda() = FakeCuda();
    fake_cuda().asynchronous = true;
    {
        Sizes sizes;
        sizes.step_ms_max = 30000;
        Both both(shape_of(WeightType::kQ4_0, WeightType::kQ4_0), sizes);
        KvPages* const pages = both.cuda->pages();
        REQUIRE(pages->open_sequence(1, 40));
        (void)cuda_step(&both, {{1, random_tokens(9)}});
        CHECK(now_of(fake_cuda().callbacks) == 1);
        fail_step(&both, 1);  // and a fault on a stream is noticed
        REQUIRE(both.cuda->revive(&both.reason));
    }
    CHECK(fake_cuda().allocations == 0);
    {
        Sizes sizes;
        sizes.step_ms_max = 200;
        Both both(shape_of(WeightType::kQ4_0, WeightType::kQ4_0), sizes);
        KvPages* const pages = both.cuda->pages();
        REQUIRE(pages->open_sequence(1, 40));
        const uint64_t setup = now_of(fake_cuda().setup_calls);
        const uint64_t resets = now_of(fake_cuda().resets);
        std::atomic_ref<uint32_t>(fake_cuda().held).store(1);
        const std::vector<StepToken> step = step_of(*pages, {{1, {4}}});
        CHECK_FALSE(both.cuda->step(step.data(), 1));
        CHECK(fake_cuda_api()->abandoned() == 1);
        const uint64_t launches = now_of(fake_cuda().launches);
        CHECK_FALSE(both.cuda->step(step.data(), 1));
        CHECK(now_of(fake_cuda().launches) == launches);
        pages->close_sequence(1);
        CHECK_FALSE(both.cuda->revive(&both.reason));
        CHECK(std::strstr(both.reason.text, "does not answer any more") != nullptr);
        both.cuda.reset();                                // as when the service stops
        CHECK(now_of(fake_cuda().setup_calls) == setup);  // each would wait for the step
        CHECK(now_of(fake_cuda().resets) == resets);
    }
    fake_abandoned();
    fake_cuda() = FakeCuda();
}

TEST_CASE("what the GPU cannot hold is refused with the reason")
{
    fake_cuda() = FakeCuda();
    Both both(shape_of(WeightType::kQ8_0, WeightType::kQ8_0));
    StepEngineRequest request;
    request.source = &both.source;
    request.workers = {nullptr, &run_alone};
    request.sequences = 1;
    request.sequence_tokens = 32;
    request.step_tokens = 1;
    request.kv_tokens = 32;
    const uint64_t allocations = fake_cuda().allocations;
    fake_cuda().refuse_allocation = true;
    CHECK(CudaEngine::open(fake_cuda_api(), request, &both.reason) == nullptr);
    CHECK(std::strstr(both.reason.text, "out of memory (2)") != nullptr);
    fake_cuda().refuse_allocation = false;
    CHECK(fake_cuda().allocations == allocations);
    CHECK(fake_cuda().registered == 1);
    // Seventeen query heads of one kv head.
    const WeightType f16 = WeightType::kF16;
    const TinyModel bytes({"llama", f16, f16, 64, 32, 17, 1, 8, 8, false, false, false, 1.0f}, 3);
    GgufFile file;
    ModelSource source;
    REQUIRE(file.open_memory(bytes.data(), bytes.bytes(), &both.reason) == 0);
    REQUIRE(source.open(file, &both.reason) == 0);
    request.source = &source;
    CHECK(CudaEngine::open(fake_cuda_api(), request, &both.reason) == nullptr);
    CHECK(std::strstr(both.reason.text, "head_count") != nullptr);
    // The narrowest step there is.
    request.source = &both.source;
    CHECK(CudaEngine::open(fake_cuda_api(), request, &both.reason) != nullptr);
}
