// Purpose:  packing keeps every weight, and the file's block formats mean what they should.
// Owns:     nothing.
// Thread:   main.
// Lifetime: one run.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "support.h"
#include "tests/support/guard_page.h"

using namespace aotx;
using aotx_test::Matrix;
using aotx_test::Random;

TEST_CASE("half floats convert both ways")
{
    const struct {
        uint16_t half;
        float value;
    } rows[] = {
        {0x0000, 0.0f},     {0x8000, -0.0f},         {0x3c00, 1.0f},
        {0xc000, -2.0f},    {0x7bff, 65504.0f},      {0x0400, 0x1p-14f},
        {0x0001, 0x1p-24f}, {0x83ff, -0x1.ff8p-15f}, {0x3555, 0.333251953125f},
        {0x7c00, INFINITY}, {0xfc00, -INFINITY},
    };
    for (const auto& row : rows) {
        INFO(row.half);
        CHECK(float_from_half(row.half) == row.value);
        CHECK(half_from_float(row.value) == row.half);
    }
    CHECK(std::isnan(float_from_half(0x7e01)));
    CHECK(std::isnan(float_from_half(half_from_float(NAN))));
    // Every finite half survives; halfway values go to the even neighbour.
    for (uint32_t half = 0; half < 0x7c00; half++) {
        CHECK(half_from_float(float_from_half(static_cast<uint16_t>(half))) == half);
    }
    CHECK(half_from_float(1.0f + 0x1p-11f) == 0x3c00);
    CHECK(half_from_float(1.0f + 0x1.8p-10f) == 0x3c02);
    CHECK(half_from_float(65520.0f) == 0x7c00);
    CHECK(half_from_float(65519.0f) == 0x7bff);
}

TEST_CASE("a packed row is the row of the file")
{
    Random random(1);
    for (const WeightType type : aotx_test::kAllTypes) {
        const bool wide = weight_format(type).source_elements == 256;
        const uint32_t columns = wide ? 512 : (weight_is_quantised(type) ? 96 : 37);
        for (const uint32_t rows : {1u, 16u, 35u}) {
            INFO("type " << static_cast<uint32_t>(type) << " rows " << rows);
            const Matrix matrix(type, rows, columns, &random);
            for (uint32_t row = 0; row < rows; row++) {
                std::vector<float> packed(columns);
                packed_row(matrix.packed, row, packed.data());
                CHECK(packed == matrix.row(row));
            }
        }
    }
}

TEST_CASE("shapes that do not fit whole blocks are refused")
{
    PackedMatrix matrix;
    CHECK(packed_matrix_shape(WeightType::kQ4_0, 1, 32, &matrix));
    CHECK_FALSE(packed_matrix_shape(WeightType::kQ4_0, 1, 31, &matrix));
    CHECK_FALSE(packed_matrix_shape(WeightType::kQ4_0, 0, 32, &matrix));
    CHECK_FALSE(packed_matrix_shape(WeightType::kQ6_K, 1, 32, &matrix));
    CHECK_FALSE(packed_matrix_shape(WeightType::kF32, 1, kMatrixColumnsMax + 1, &matrix));
    for (uint32_t number = 0; number < 64; number++) {
        bool known = false;
        for (const WeightType type : aotx_test::kAllTypes) {
            known = known || static_cast<uint32_t>(type) == number;
        }
        CHECK(weight_type_known(number) == known);
    }
}

TEST_CASE("packing reads no byte behind its source")
{
    Random random(2);
    for (const WeightType type : aotx_test::kAllTypes) {
        PackedMatrix matrix;
        REQUIRE(packed_matrix_shape(type, 3, 256, &matrix));
        const std::vector<uint8_t> source = aotx_test::random_source(type, 3, 256, &random);
        const GuardCopy copy(source.data(), source.size());
        std::vector<uint8_t> group(matrix.group_bytes);
        pack_group(matrix, copy.bytes(), 0, group.data());
        std::vector<float> row(256);
        const uint64_t row_bytes = source_row_bytes(type, 256);
        source_row(type, copy.bytes() + 2 * row_bytes, 256, row.data());
    }
}

TEST_CASE("blocks mean what the format's own numpy dequantisers say")
{
    std::ifstream in("tests/kernels/golden/dequantise.txt");
    REQUIRE(in.good());
    uint32_t types = 0;
    std::string line;
    while (std::getline(in, line)) {
        if (line.empty() || line[0] == '#') {
            continue;
        }
        std::istringstream words(line);
        uint32_t number = 0;
        std::string name;
        std::string hex;
        words >> number >> name >> hex;
        INFO(name);
        REQUIRE(weight_type_known(number));
        std::vector<uint8_t> bytes;
        for (size_t i = 0; i < hex.size(); i += 2) {
            bytes.push_back(static_cast<uint8_t>(std::stoul(hex.substr(i, 2), nullptr, 16)));
        }
        std::vector<float> want;
        std::string word;
        while (words >> word) {
            want.push_back(std::strtof(word.c_str(), nullptr));
        }
        const WeightType type = static_cast<WeightType>(number);
        const WeightFormat format = weight_format(type);
        REQUIRE(want.size() == bytes.size() / format.source_bytes * format.source_elements);
        std::vector<float> got(want.size());
        source_row(type, bytes.data(), static_cast<uint32_t>(want.size()), got.data());
        float largest = 0;
        for (const float value : want) {
            largest = std::max(largest, std::fabs(value));
        }
        // The judge and we round scale * code + minimum at different points.
        for (size_t i = 0; i < want.size(); i++) {
            CHECK(std::fabs(got[i] - want[i]) <= 1e-6f * largest);
        }
        types++;
    }
    CHECK(types == 13);
}
