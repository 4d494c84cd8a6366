// Purpose:  the forward pass of small random models against the plain F32 reference: every weight
//           type, both architectures, and every way to cut a sequence into steps.
// Owns:     nothing.
// Thread:   main and the pool's.
// Lifetime: one run.
#include "engine_cpu/forward.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "reference.h"
#include "tiny_model.h"

using namespace aotx;
using aotx_test::Random;
using aotx_test::Reference;
using aotx_test::TinyModel;
using aotx_test::TinyShape;

namespace {

// A model ready to run, with both computations.
struct Both {
    TextReason reason;
    TinyModel bytes;
    GgufFile file;
    Reference reference;
    WorkerPool pool;
    Model model;
    KvCache cache;
    Forward forward;

    Both(const TinyShape& shape, ActivationMode mode, bool wide, uint32_t threads) : bytes(shape, 5)
    {
        REQUIRE(file.open_memory(bytes.data(), bytes.bytes(), &reason) == 0);
        REQUIRE(reference.open(file) == "");
        REQUIRE(pool.open(threads));
        const int status = model.open(file, &pool, &reason);
        INFO(reason.text);
        REQUIRE(status == 0);
        const ModelShape& of = model.shape();
        REQUIRE(cache.open({of.layers, of.kv_heads, of.head_size, wide, 3, 12, 128}));
        REQUIRE(forward.open(model, &cache, &pool, {64, 64, 128, mode}));
    }

    // Logits after each token, fed in chunks of the given size.
    std::vector<float> run(const std::vector<int32_t>& tokens, uint32_t chunk)
    {
        REQUIRE(cache.open_sequence(1, 128));
        std::vector<float> all;
        for (uint32_t at = 0; at < tokens.size(); at += chunk) {
            std::vector<StepToken> step;
            for (uint32_t i = at; i < tokens.size() && i < at + chunk; i++) {
                step.push_back({static_cast<uint32_t>(tokens[i]), 1, i, i - at});
            }
            forward.run(step.data(), static_cast<uint32_t>(step.size()));
            cache.append(1, static_cast<uint32_t>(step.size()));
            for (uint32_t i = 0; i < step.size(); i++) {
                all.insert(all.end(), forward.logits(i), forward.logits(i) + TinyModel::kVocab);
            }
        }
        cache.close_sequence(1);
        return all;
    }
};

std::vector<int32_t> random_tokens(uint32_t count)
{
    Random random(77);
    std::vector<int32_t> tokens;
    for (uint32_t i = 0; i < count; i++) {
        tokens.push_back(static_cast<int32_t>(random.below(TinyModel::kVocab)));
    }
    return tokens;
}

// Largest difference, relative to the largest reference value.
double deviation(const std::vector<float>& got, const std::vector<float>& want)
{
    REQUIRE(got.size() == want.size());
    double largest = 0;
    double difference = 0;
    for (size_t i = 0; i < want.size(); i++) {
        REQUIRE(std::isfinite(got[i]));
        largest = std::max(largest, std::fabs(static_cast<double>(want[i])));
        difference = std::max(difference, std::fabs(static_cast<double>(got[i]) - want[i]));
    }
    return difference / largest;
}

// Float activations, then 16-bit codes alone, then with f16 keys and values, whose rounding is by
// far the largest: these random models have much sharper attention than trained ones.
void check_all(const TinyShape& shape, const std::vector<int32_t>& tokens)
{
    const uint32_t count = static_cast<uint32_t>(tokens.size());
    Both floats(shape, ActivationMode::kFloat, true, 2);
    const std::vector<float> want = floats.reference.logits(tokens, 0);
    CHECK(deviation(floats.run(tokens, count), want) < 4e-5);
    Both codes(shape, ActivationMode::kQuantised, true, 1);
    CHECK(deviation(codes.run(tokens, count), want) < 6e-3);
    Both halves(shape, ActivationMode::kQuantised, false, 2);
    CHECK(deviation(halves.run(tokens, count), want) < 4e-2);
}

TinyShape shape_of(WeightType type)
{
    const bool wide = weight_format(type).source_elements == 256;
    TinyShape shape = {"llama", type, type, 64, 96, 4, 2, 16, 16, false, false, false, 1.0f};
    if (wide) {
        shape.embedding = 256;
        shape.feed_forward = 512;
        shape.head_size = 64;
        shape.rotated = 64;
    }
    return shape;
}

}  // namespace

TEST_CASE("every weight type computes what the reference computes")
{
    const std::vector<int32_t> tokens = random_tokens(40);
    for (const WeightType type : aotx_test::kAllTypes) {
        INFO("type " << static_cast<uint32_t>(type));
        check_all(shape_of(type), tokens);
    }
}

TEST_CASE("shapes and features of the family compute what the reference computes")
{
    const std::vector<int32_t> tokens = random_tokens(37);
    for (const auto& row : aotx_test::tiny_family()) {
        INFO(row.name);
        check_all(row.shape, tokens);
    }
}

TEST_CASE("the bits do not depend on how a sequence is cut into steps")
{
    const std::vector<int32_t> tokens = random_tokens(70);
    for (const ActivationMode mode : {ActivationMode::kFloat, ActivationMode::kQuantised}) {
        for (const WeightType type : {WeightType::kF32, WeightType::kQ4_1, WeightType::kQ6_K}) {
            Both both(shape_of(type), mode, mode == ActivationMode::kFloat, 2);
            const std::vector<float> want = both.run(tokens, 64);
            for (const uint32_t chunk : {1u, 2u, 3u, 5u, 16u, 33u}) {
                INFO("type " << static_cast<uint32_t>(type) << " chunk " << chunk);
                const std::vector<float> got = both.run(tokens, chunk);
                CHECK(std::memcmp(got.data(), want.data(), want.size() * sizeof(float)) == 0);
            }
        }
    }
}

TEST_CASE("models that are not served are refused with the field named")
{
    const TinyShape good = shape_of(WeightType::kF16);
    const struct {
        const char* name;
        const char* architecture;
        uint32_t heads;
        uint32_t kv_heads;
        uint32_t head_size;
        const char* words;
    } rows[] = {
        {"architecture", "gpt2", 4, 2, 16, "general.architecture"},
        {"kv heads", "llama", 4, 3, 16, "head_count_kv"},
        {"head size", "llama", 4, 2, 12, "key_length"},
    };
    for (const auto& row : rows) {
        INFO(row.name);
        TinyShape shape = good;
        shape.architecture = row.architecture;
        shape.heads = row.heads;
        shape.kv_heads = row.kv_heads;
        shape.head_size = row.head_size;
        const TinyModel bytes(shape, 1);
        TextReason reason;
        GgufFile file;
        REQUIRE(file.open_memory(bytes.data(), bytes.bytes(), &reason) == 0);
        WorkerPool pool;
        REQUIRE(pool.open(1));
        Model model;
        CHECK(model.open(file, &pool, &reason) != 0);
        INFO(reason.text);
        CHECK(std::strstr(reason.text, row.words) != nullptr);
    }
}
