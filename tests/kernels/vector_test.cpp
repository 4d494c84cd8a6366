// Purpose:  norms, activations, rotation and activation codes against plain loops.
// Owns:     nothing.
// Thread:   main.
// Lifetime: one run.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "support.h"

using namespace aotx;
using aotx_test::Random;

namespace {

constexpr uint32_t kCounts[] = {1, 3, 8, 15, 16, 17, 64, 100, 576};

}  // namespace

TEST_CASE("activation codes are the nearest ones and their sums are right")
{
    aotx_test::for_each_target([](const KernelTable& kernels) {
        INFO(kernels.target);
        Random random(3);
        std::vector<float> x = random.floats(96);
        for (uint32_t i = 32; i < 64; i++) {
            x[i] = 0.0f;
        }
        x[70] = -1000.0f;
        std::vector<ActivationBlock> blocks(3);
        kernels.quantise(x.data(), 96, blocks.data());
        for (uint32_t b = 0; b < 3; b++) {
            float largest = 0;
            int32_t sums[2] = {0, 0};
            for (uint32_t i = 0; i < 32; i++) {
                largest = std::max(largest, std::fabs(x[32 * b + i]));
                sums[i / 16] += kPlaneStep * blocks[b].high[i] + blocks[b].low[i];
            }
            CHECK(blocks[b].scale == Approx(largest / static_cast<float>(kCodeMax)));
            CHECK(blocks[b].code_sum == sums[0] + sums[1]);
            CHECK(blocks[b].sum == Approx(blocks[b].scale * static_cast<float>(sums[0] + sums[1])));
            for (uint32_t half = 0; half < 2; half++) {
                CHECK(blocks[b].half_code_sum[half] == sums[half]);
                CHECK(blocks[b].half_sum[half] ==
                      Approx(blocks[b].scale * static_cast<float>(sums[half])));
            }
            for (uint32_t i = 0; i < 32; i++) {
                const int32_t code = kPlaneStep * blocks[b].high[i] + blocks[b].low[i];
                const float value = blocks[b].scale * static_cast<float>(code);
                CHECK(std::fabs(value - x[32 * b + i]) <= 0.51f * blocks[b].scale);
                CHECK(blocks[b].high[i] >= -127);
                CHECK(blocks[b].low[i] >= -127);
            }
        }
    });
}

TEST_CASE("the root mean square norm equals a plain loop")
{
    aotx_test::for_each_target([](const KernelTable& kernels) {
        Random random(4);
        for (const uint32_t count : kCounts) {
            INFO(kernels.target << " count " << count);
            const std::vector<float> x = random.floats(count);
            const std::vector<float> weight = random.floats(count);
            std::vector<float> out(count + 1, std::numeric_limits<float>::quiet_NaN());
            kernels.rms_norm(x.data(), weight.data(), count, 1e-5f, out.data());
            double squares = 0;
            for (const float value : x) {
                squares += static_cast<double>(value) * value;
            }
            const double factor = 1.0 / std::sqrt(squares / count + 1e-5);
            for (uint32_t i = 0; i < count; i++) {
                CHECK(out[i] == Approx(x[i] * factor * weight[i]).epsilon(1e-6).margin(1e-7));
            }
            CHECK(std::isnan(out[count]));
            std::vector<float> same = x;
            kernels.rms_norm(same.data(), weight.data(), count, 1e-5f, same.data());
            CHECK(std::memcmp(same.data(), out.data(), count * sizeof(float)) == 0);
        }
    });
}

TEST_CASE("gated activation and sums equal plain loops")
{
    aotx_test::for_each_target([](const KernelTable& kernels) {
        Random random(5);
        for (const uint32_t count : kCounts) {
            INFO(kernels.target << " count " << count);
            std::vector<float> gate = random.floats(count + 1);
            for (float& value : gate) {
                value *= 30.0f;
            }
            const std::vector<float> before = gate;
            const std::vector<float> up = random.floats(count);
            kernels.silu_multiply(gate.data(), up.data(), count);
            for (uint32_t i = 0; i < count; i++) {
                const double x = before[i];
                const double want = x / (1.0 + std::exp(-x)) * up[i];
                CHECK(gate[i] == Approx(want).epsilon(2e-6).margin(1e-12));
            }
            CHECK(gate[count] == before[count]);
            std::vector<float> sum = before;
            kernels.add(sum.data(), up.data(), count);
            for (uint32_t i = 0; i < count; i++) {
                CHECK(sum[i] == before[i] + up[i]);
            }
            CHECK(sum[count] == before[count]);
        }
    });
}

TEST_CASE("rotation turns neighbouring or split pairs and leaves the rest")
{
    aotx_test::for_each_target([](const KernelTable& kernels) {
        Random random(6);
        for (const bool split : {false, true}) {
            for (const uint32_t pairs : {1u, 3u, 8u, 12u, 32u}) {
                INFO(kernels.target << " split " << split << " pairs " << pairs);
                const std::vector<float> before = random.floats(2 * pairs + 4);
                const std::vector<float> table = random.floats(2 * pairs);
                std::vector<float> head = before;
                kernels.rotate(head.data(), table.data(), pairs, split);
                for (uint32_t i = 0; i < pairs; i++) {
                    const uint32_t a = split ? i : 2 * i;
                    const uint32_t b = split ? i + pairs : 2 * i + 1;
                    const double c = table[2 * i];
                    const double s = table[2 * i + 1];
                    CHECK(head[a] == Approx(before[a] * c - before[b] * s).margin(1e-6));
                    CHECK(head[b] == Approx(before[a] * s + before[b] * c).margin(1e-6));
                }
                for (uint32_t i = 2 * pairs; i < before.size(); i++) {
                    CHECK(head[i] == before[i]);
                }
            }
        }
    });
}
