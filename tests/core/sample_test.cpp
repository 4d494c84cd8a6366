// Purpose:  sampling: argmax and ties, shares against a plain computation, nucleus, replay.
// Owns:     nothing.
// Thread:   main.
// Lifetime: one run.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "cuda/core/sample.h"

namespace {

struct Exact {
    std::vector<double> share;   // by token, after temperature, whole vocabulary
    std::vector<int32_t> order;  // most likely first, lower ID among equals
    size_t nucleus = 0;          // tokens of the smallest set that reaches top_p
};

Exact exact_of(const std::vector<float>& logits, float temperature, float top_p)
{
    Exact exact;
    const float best = *std::max_element(logits.begin(), logits.end());
    double mass = 0;
    for (size_t i = 0; i < logits.size(); i++) {
        exact.share.push_back(std::exp(static_cast<double>((logits[i] - best) / temperature)));
        exact.order.push_back(static_cast<int32_t>(i));
        mass += exact.share.back();
    }
    std::stable_sort(exact.order.begin(), exact.order.end(), [&](int32_t left, int32_t right) {
        return logits[static_cast<size_t>(left)] > logits[static_cast<size_t>(right)];
    });
    double sum = 0;
    while (exact.nucleus < exact.order.size()) {
        sum += exact.share[static_cast<size_t>(exact.order[exact.nucleus])] / mass;
        exact.nucleus++;
        if (sum >= static_cast<double>(top_p)) {
            break;
        }
    }
    return exact;
}

std::vector<float> random_logits(uint32_t seed, uint32_t vocab, float spread)
{
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0.0f, spread);
    std::vector<float> logits(vocab);
    for (float& logit : logits) {
        logit = normal(random);
    }
    return logits;
}

int32_t sample(const std::vector<float>& logits, float temperature, float top_p, double uniform)
{
    static aotx::SampleScratch scratch;
    return aotx::core_sample(logits.data(), static_cast<uint32_t>(logits.size()), temperature,
                             top_p, uniform, &scratch);
}

}  // namespace

TEST_CASE("temperature 0 is argmax, ties to the lower ID, NaN never wins")
{
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const float inf = std::numeric_limits<float>::infinity();
    const struct {
        std::vector<float> logits;
        int32_t want;
    } rows[] = {
        {{1, 3, 2}, 1},         {{3, 3, 3}, 0},     {{-5, -2, -2, -9}, 1}, {{nan, 1, 2}, 2},
        {{1, nan, 0}, 0},       {{nan, nan}, 0},    {{-inf, -inf, 0}, 2},  {{0}, 0},
        {{nan, -inf, 4, 4}, 2}, {{inf, inf, 1}, 0},
    };
    for (const auto& row : rows) {
        CHECK(sample(row.logits, 0.0f, 1.0f, 0.7) == row.want);
        CHECK(sample(row.logits, 0.0f, 0.1f, 0.0) == row.want);
    }
}

TEST_CASE("the exponential is close to the library's")
{
    for (float x = 0.0f; x > -90.0f; x -= 0.00371f) {
        const double want = std::exp(static_cast<double>(x));
        const double got = static_cast<double>(aotx::core_exp(x));
        if (x > -87.0f) {
            CHECK(std::fabs(got - want) <= want * 4e-7);
        } else {
            CHECK(got == 0.0);
        }
    }
    CHECK(aotx::core_exp(0.0f) == 1.0f);
    CHECK(aotx::core_exp(std::numeric_limits<float>::quiet_NaN()) == 0.0f);
}

TEST_CASE("draws stay inside the nucleus and reach all of it")
{
    for (uint32_t seed = 1; seed <= 12; seed++) {
        const uint32_t vocab = seed % 3u == 0 ? 5000 : 40;
        const float spread = seed % 2u == 0 ? 0.3f : 3.0f;
        const std::vector<float> logits = random_logits(seed, vocab, spread);
        for (const float top_p : {0.05f, 0.5f, 0.9f, 0.999f, 1.0f}) {
            for (const float temperature : {0.5f, 1.0f, 2.0f}) {
                INFO("seed " << seed << " top_p " << top_p << " temperature " << temperature);
                const Exact exact = exact_of(logits, temperature, top_p);
                const std::set<int32_t> wide(
                    exact.order.begin(),
                    exact.order.begin() +
                        static_cast<long>(std::min<size_t>(exact.nucleus + 1, exact.order.size())));
                std::set<int32_t> met;
                for (uint32_t i = 0; i < 400; i++) {
                    const int32_t token = sample(logits, temperature, top_p, i / 400.0);
                    // One token more is within what single precision may move the border by.
                    REQUIRE(wide.count(token) == 1);
                    met.insert(token);
                }
                CHECK(met.count(exact.order[0]) ==
                      (exact.nucleus < 300 ? 1u : met.count(exact.order[0])));
            }
        }
    }
}

TEST_CASE("frequencies follow the shares")
{
    const std::vector<float> logits = random_logits(3, 20, 1.0f);
    const Exact exact = exact_of(logits, 0.8f, 0.95f);
    double mass = 0;
    for (size_t i = 0; i < exact.nucleus; i++) {
        mass += exact.share[static_cast<size_t>(exact.order[i])];
    }
    std::vector<uint32_t> counts(logits.size());
    const uint32_t draws = 50000;
    for (uint32_t i = 0; i < draws; i++) {
        const double uniform = (i + 0.5) / draws;
        counts[static_cast<size_t>(sample(logits, 0.8f, 0.95f, uniform))]++;
    }
    for (size_t i = 0; i < exact.nucleus; i++) {
        const size_t token = static_cast<size_t>(exact.order[i]);
        CHECK(std::fabs(counts[token] / static_cast<double>(draws) - exact.share[token] / mass) <
              5e-5);
    }
}

TEST_CASE("equal logits, one sure token, minus infinity, huge vocabularies")
{
    const std::vector<float> equal(3000, 1.5f);
    std::set<int32_t> met;
    for (uint32_t i = 0; i < 3000; i++) {
        met.insert(sample(equal, 1.0f, 1.0f, (i + 0.5) / 3000.0));
    }
    CHECK(met.size() >= 2998);
    for (uint32_t i = 0; i < 100; i++) {
        CHECK(sample(equal, 1.0f, 0.5f, i / 100.0) <= 1500);
    }
    std::vector<float> sure(200, 0.0f);
    sure[77] = 1000.0f;
    std::vector<float> masked(200, -std::numeric_limits<float>::infinity());
    masked[5] = 0.25f;
    for (uint32_t i = 0; i < 100; i++) {
        CHECK(sample(sure, 2.0f, 1.0f, i / 100.0) == 77);
        CHECK(sample(masked, 1.0f, 0.9f, i / 100.0) == 5);
        CHECK(sample(masked, 1e-30f, 1.0f, i / 100.0) == 5);
    }
    const std::vector<float> large = random_logits(9, 200000, 2.0f);
    CHECK(sample(large, 1.0f, 1e-6f, 0.999) ==
          aotx::core_argmax(large.data(), static_cast<uint32_t>(large.size())));
}

TEST_CASE("a draw is a pure function of seed, request and token index")
{
    uint8_t id[16] = {1, 2, 3};
    uint8_t other[16] = {1, 2, 4};
    CHECK(aotx::core_uniform(5, id, 0) == aotx::core_uniform(5, id, 0));
    CHECK(aotx::core_uniform(5, id, 0) != aotx::core_uniform(5, id, 1));
    CHECK(aotx::core_uniform(5, id, 0) != aotx::core_uniform(6, id, 0));
    CHECK(aotx::core_uniform(5, id, 0) != aotx::core_uniform(5, other, 0));
    double sum = 0;
    uint32_t tenths[10] = {};
    for (uint32_t i = 0; i < 100000; i++) {
        const double uniform = aotx::core_uniform(5, id, i);
        REQUIRE((uniform >= 0.0 && uniform < 1.0));
        sum += uniform;
        tenths[static_cast<uint32_t>(uniform * 10.0)]++;
    }
    CHECK(std::fabs(sum / 100000.0 - 0.5) < 0.005);
    for (const uint32_t count : tenths) {
        CHECK(count > 9500);
        CHECK(count < 10500);
    }
}
