// Purpose:  matrix products against plain loops, and the same bits in every tile shape.
// Owns:     nothing.
// Thread:   main.
// Lifetime: one run.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "support.h"

using namespace aotx;
using aotx_test::Matrix;
using aotx_test::Random;

namespace {

constexpr float kPoison = std::numeric_limits<float>::quiet_NaN();

struct Shape {
    uint32_t rows;
    uint32_t cells;  // of 32 columns; K types take the next multiple of 8
    uint32_t tokens;
};

constexpr Shape kShapes[] = {
    {16, 1, 1}, {1, 1, 3}, {17, 2, 4}, {47, 9, 5}, {32, 18, 7}, {64, 3, 66}, {33, 8, 13},
};

uint32_t columns_of(WeightType type, const Shape& shape)
{
    const uint32_t cells =
        weight_format(type).source_elements == 256 ? (shape.cells + 7) / 8 * 8 : shape.cells;
    return cells * kCellColumns;
}

std::vector<ActivationBlock> quantised(const KernelTable& kernels, const std::vector<float>& x,
                                       uint32_t columns)
{
    std::vector<ActivationBlock> blocks(x.size() / kCellColumns);
    for (size_t at = 0; at < x.size(); at += columns) {
        kernels.quantise(x.data() + at, columns, blocks.data() + at / kCellColumns);
    }
    return blocks;
}

// What the blocks stand for, exactly.
std::vector<double> values_of(const std::vector<ActivationBlock>& blocks)
{
    std::vector<double> values;
    for (const ActivationBlock& block : blocks) {
        for (uint32_t i = 0; i < kCellColumns; i++) {
            const int32_t code = kPlaneStep * block.high[i] + block.low[i];
            values.push_back(static_cast<double>(block.scale) * code);
        }
    }
    return values;
}

// Compare [tokens][stride] results with sums of products in double; the tolerance is relative to
// the sum of magnitudes, as rounding is. Elements behind the rows must keep their poison.
void check_product(const Matrix& matrix, const std::vector<double>& x,
                   const std::vector<float>& out, size_t stride, uint32_t tokens, double tolerance)
{
    const uint32_t columns = matrix.packed.columns;
    uint32_t wrong = 0;
    for (uint32_t row = 0; row < matrix.packed.rows; row++) {
        const std::vector<float> weights = matrix.row(row);
        for (uint32_t token = 0; token < tokens; token++) {
            double sum = 0;
            double size = 1e-9;
            for (uint32_t i = 0; i < columns; i++) {
                const double product = weights[i] * x[uint64_t{token} * columns + i];
                sum += product;
                size += std::fabs(product);
            }
            const double got = out[token * stride + row];
            wrong += std::fabs(got - sum) <= tolerance * size ? 0 : 1;
        }
    }
    CHECK(wrong == 0);
    uint32_t touched = 0;
    for (uint32_t token = 0; token < tokens; token++) {
        for (size_t i = matrix.packed.rows; i < stride; i++) {
            touched += std::isnan(out[token * stride + i]) ? 0 : 1;
        }
    }
    CHECK(touched == 0);
}

}  // namespace

TEST_CASE("quantised products equal sums over the dequantised weights")
{
    aotx_test::for_each_target([](const KernelTable& kernels) {
        Random random(7);
        for (const WeightType type : aotx_test::kAllTypes) {
            if (!weight_is_quantised(type)) {
                continue;
            }
            for (const Shape& shape : kShapes) {
                const uint32_t columns = columns_of(type, shape);
                INFO(kernels.target << " type " << static_cast<uint32_t>(type) << " rows "
                                    << shape.rows << " columns " << columns << " tokens "
                                    << shape.tokens);
                const Matrix matrix(type, shape.rows, columns, &random);
                const auto blocks =
                    quantised(kernels, random.floats(uint64_t{shape.tokens} * columns), columns);
                const size_t stride = shape.rows + 5;
                std::vector<float> out(stride * shape.tokens, kPoison);
                kernels.matmul_quantised(matrix.packed, 0, matrix.packed.groups, blocks.data(),
                                         columns / kCellColumns, shape.tokens,
                                         {out.data(), stride, false});
                check_product(matrix, values_of(blocks), out, stride, shape.tokens, 2e-6);
            }
        }
    });
}

TEST_CASE("float products equal sums over the dequantised weights")
{
    aotx_test::for_each_target([](const KernelTable& kernels) {
        Random random(8);
        for (const WeightType type : aotx_test::kAllTypes) {
            for (const Shape& shape : kShapes) {
                // Float types take any number of columns.
                const uint32_t odd = weight_is_quantised(type) ? 0 : 3;
                const uint32_t columns = columns_of(type, shape) + odd;
                INFO(kernels.target << " type " << static_cast<uint32_t>(type) << " rows "
                                    << shape.rows << " columns " << columns << " tokens "
                                    << shape.tokens);
                const Matrix matrix(type, shape.rows, columns, &random);
                const std::vector<float> x = random.floats(uint64_t{shape.tokens} * columns);
                const size_t stride = shape.rows + 5;
                std::vector<float> out(stride * shape.tokens, kPoison);
                std::vector<float> scratch(uint64_t{kGroupRows} * columns + 16, kPoison);
                kernels.matmul_float(matrix.packed, 0, matrix.packed.groups, x.data(), columns,
                                     shape.tokens, scratch.data(), {out.data(), stride, false});
                check_product(matrix, {x.begin(), x.end()}, out, stride, shape.tokens, 2e-6);
            }
        }
    });
}

TEST_CASE("a result has the same bits alone and in company")
{
    aotx_test::for_each_target([](const KernelTable& kernels) {
        Random random(9);
        for (const WeightType type : aotx_test::kAllTypes) {
            const Shape shape = {47, 8, 70};
            const uint32_t columns = columns_of(type, shape);
            const uint32_t blocks_count = columns / kCellColumns;
            INFO(kernels.target << " type " << static_cast<uint32_t>(type));
            const Matrix matrix(type, shape.rows, columns, &random);
            const std::vector<float> x = random.floats(uint64_t{shape.tokens} * columns);
            const auto blocks = quantised(kernels, x, columns);
            std::vector<float> scratch(uint64_t{kGroupRows} * columns + 16);
            const bool codes = weight_is_quantised(type);
            std::vector<float> whole(shape.rows * shape.tokens);
            std::vector<float> alone(shape.rows * shape.tokens);
            const auto multiply = [&](uint32_t group, uint32_t end, uint32_t token, uint32_t count,
                                      float* out) {
                const MatmulOutput target = {out + token * shape.rows + group * kGroupRows,
                                             shape.rows, false};
                kernels.matmul_float(matrix.packed, group, end, x.data() + token * columns, columns,
                                     count, scratch.data(), target);
                if (codes) {
                    kernels.matmul_quantised(matrix.packed, group, end,
                                             blocks.data() + token * blocks_count, blocks_count,
                                             count, target);
                }
            };
            multiply(0, matrix.packed.groups, 0, shape.tokens, whole.data());
            for (uint32_t token = 0; token < shape.tokens; token++) {
                for (uint32_t group = 0; group < matrix.packed.groups; group++) {
                    multiply(group, group + 1, token, 1, alone.data());
                }
            }
            CHECK(std::memcmp(whole.data(), alone.data(), whole.size() * sizeof(float)) == 0);
        }
    });
}

TEST_CASE("a product can be added to what is there")
{
    aotx_test::for_each_target([](const KernelTable& kernels) {
        Random random(10);
        for (const uint32_t rows : {16u, 21u}) {
            const Matrix matrix(WeightType::kQ4_1, rows, 64, &random);
            const std::vector<float> x = random.floats(64);
            const auto blocks = quantised(kernels, x, 64);
            const std::vector<float> before = random.floats(rows);
            std::vector<float> product(rows);
            std::vector<float> sum = before;
            kernels.matmul_quantised(matrix.packed, 0, matrix.packed.groups, blocks.data(), 2, 1,
                                     {product.data(), rows, false});
            kernels.matmul_quantised(matrix.packed, 0, matrix.packed.groups, blocks.data(), 2, 1,
                                     {sum.data(), rows, true});
            for (uint32_t row = 0; row < rows; row++) {
                CHECK(sum[row] == product[row] + before[row]);
            }
        }
    });
}
