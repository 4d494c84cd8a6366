// Purpose:  paged attention against plain loops, and the same bits alone and in company.
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

// Keys and values of one head on pages in a shuffled order.
struct Pages {
    uint32_t head_size;
    bool wide;
    std::vector<uint8_t> pool;
    std::vector<uint32_t> order;
    std::vector<std::vector<float>> keys;
    std::vector<std::vector<float>> values;

    Pages(uint32_t size, bool is_wide, uint32_t count, Random* random)
        : head_size(size), wide(is_wide)
    {
        const uint32_t pages = (count + kKeyPageTokens - 1) / kKeyPageTokens;
        pool.assign((pages + 2) * page_bytes(size, wide), 0);
        for (uint32_t i = 0; i < pages; i++) {
            order.push_back(pages + 1 - i);
        }
        for (uint32_t k = 0; k < count; k++) {
            keys.push_back(random->floats(size));
            values.push_back(random->floats(size));
            uint8_t* const page = pool.data() + order[k / kKeyPageTokens] * page_bytes(size, wide);
            page_store(page, size, k % kKeyPageTokens, keys[k].data(), values[k].data(), wide);
        }
    }

    // As the page holds it.
    double stored(float value) const
    {
        return wide ? value : static_cast<double>(float_from_half(half_from_float(value)));
    }
};

struct Queries {
    std::vector<std::vector<float>> queries;
    std::vector<std::vector<float>> outputs;
    std::vector<uint32_t> counts;
    std::vector<const float*> query_at;
    std::vector<float*> output_at;
    std::vector<float> scratch;

    Queries(const Pages& pages, const std::vector<uint32_t>& keys_counts, Random* random)
        : counts(keys_counts)
    {
        for (size_t i = 0; i < counts.size(); i++) {
            queries.push_back(random->floats(pages.head_size));
            outputs.emplace_back(pages.head_size + 1, std::numeric_limits<float>::quiet_NaN());
        }
        for (size_t i = 0; i < counts.size(); i++) {
            query_at.push_back(queries[i].data());
            output_at.push_back(outputs[i].data());
        }
        scratch.resize(attend_scratch_floats(pages.keys.size()));
    }

    void attend(const KernelTable& kernels, const Pages& pages, uint32_t first, uint32_t rows)
    {
        AttendInput input;
        input.queries = query_at.data() + first;
        input.keys_counts = counts.data() + first;
        input.outputs = output_at.data() + first;
        input.rows = rows;
        input.head_size = pages.head_size;
        input.pool = pages.pool.data();
        input.page_stride_bytes = page_bytes(pages.head_size, pages.wide);
        input.pages = pages.order.data();
        input.wide = pages.wide;
        input.scratch = scratch.data();
        kernels.attend(input);
    }
};

std::vector<double> plain_attention(const Pages& pages, const std::vector<float>& query,
                                    uint32_t count)
{
    std::vector<double> weights(count);
    double largest = -1e300;
    for (uint32_t k = 0; k < count; k++) {
        for (uint32_t d = 0; d < pages.head_size; d++) {
            weights[k] += query[d] * pages.stored(pages.keys[k][d]);
        }
        largest = std::max(largest, weights[k]);
    }
    double sum = 0;
    for (double& weight : weights) {
        weight = std::exp(weight - largest);
        sum += weight;
    }
    std::vector<double> out(pages.head_size);
    for (uint32_t k = 0; k < count; k++) {
        for (uint32_t d = 0; d < pages.head_size; d++) {
            out[d] += weights[k] / sum * pages.stored(pages.values[k][d]);
        }
    }
    return out;
}

}  // namespace

TEST_CASE("attention equals a plain softmax over the stored keys")
{
    aotx_test::for_each_target([](const KernelTable& kernels) {
        Random random(11);
        for (const bool wide : {false, true}) {
            for (const uint32_t head_size : {8u, 40u, 64u, 128u}) {
                INFO(kernels.target << " wide " << wide << " head " << head_size);
                const Pages pages(head_size, wide, 101, &random);
                Queries queries(pages, {1, 2, 31, 32, 33, 64, 65, 100, 101}, &random);
                queries.attend(kernels, pages, 0, 9);
                for (uint32_t r = 0; r < 9; r++) {
                    const std::vector<double> want =
                        plain_attention(pages, queries.queries[r], queries.counts[r]);
                    for (uint32_t d = 0; d < head_size; d++) {
                        CHECK(queries.outputs[r][d] == Approx(want[d]).margin(2e-6));
                    }
                    CHECK(std::isnan(queries.outputs[r][head_size]));
                }
            }
        }
    });
}

TEST_CASE("a query has the same bits alone and in company")
{
    aotx_test::for_each_target([](const KernelTable& kernels) {
        Random random(12);
        const Pages pages(64, false, 200, &random);
        std::vector<uint32_t> counts;
        for (uint32_t i = 0; i < 23; i++) {
            counts.push_back(1 + random.below(200));
        }
        Queries together(pages, counts, &random);
        Queries alone = together;
        for (size_t i = 0; i < counts.size(); i++) {
            alone.output_at[i] = alone.outputs[i].data();
        }
        together.attend(kernels, pages, 0, 23);
        for (uint32_t r = 0; r < 23; r++) {
            alone.attend(kernels, pages, r, 1);
            INFO(kernels.target << " row " << r);
            CHECK(std::memcmp(together.outputs[r].data(), alone.outputs[r].data(),
                              64 * sizeof(float)) == 0);
        }
    });
}

TEST_CASE("a page never holds anything but finite numbers")
{
    const float bad[8] = {INFINITY, -INFINITY, NAN, -NAN, 1e9f, -1e9f, 65504.0f, -0.0f};
    for (const bool wide : {false, true}) {
        std::vector<uint8_t> page(page_bytes(8, wide), 0);
        page_store(page.data(), 8, 31, bad, bad, wide);
        for (size_t i = 0; i < page.size(); i += wide ? 4 : 2) {
            float value;
            if (wide) {
                std::memcpy(&value, page.data() + i, 4);
            } else {
                uint16_t half;
                std::memcpy(&half, page.data() + i, 2);
                value = float_from_half(half);
            }
            CHECK(std::isfinite(value));
        }
    }
}
