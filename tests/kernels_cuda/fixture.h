// Purpose:  what the kernel tests share: golden rows of every tensor type, random matrices made of
// their blocks, poisoned outputs.
// Owns:     the golden rows, read once.
// Thread:   main.
// Lifetime: of the test program.
#pragma once

#include <catch2/catch.hpp>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "cuda/kernels/cuda/pack.h"

struct GoldenRow {
    std::string name;
    uint32_t kind = 0;
    std::vector<uint8_t> bytes;
    std::vector<float> values;  // what the file's own decoder makes of them
};

inline std::vector<uint8_t> bytes_of_hex(const std::string& text)
{
    std::vector<uint8_t> bytes(text.size() / 2);
    for (size_t i = 0; i < bytes.size(); i++) {
        bytes[i] = static_cast<uint8_t>(std::stoul(text.substr(i * 2, 2), nullptr, 16));
    }
    return bytes;
}

inline const std::vector<GoldenRow>& golden_rows()
{
    static const std::vector<GoldenRow> rows = [] {
        std::vector<GoldenRow> made;
        std::ifstream in("tests/kernels_cuda/golden_blocks.txt");
        std::string line;
        while (std::getline(in, line)) {
            std::istringstream words(line);
            GoldenRow row;
            std::string raw;
            std::string values;
            words >> row.name >> row.kind >> raw >> values;
            row.bytes = bytes_of_hex(raw);
            const std::vector<uint8_t> floats = bytes_of_hex(values);
            row.values.resize(floats.size() / 4);
            std::memcpy(row.values.data(), floats.data(), floats.size());
            made.push_back(row);
        }
        return made;
    }();
    return rows;
}

// A matrix as a file holds it, packed, with its values.
struct TestMatrix {
    uint32_t rows = 0;
    uint32_t columns = 0;
    std::vector<float> values;
    std::vector<uint8_t> packed;
    aotx::WeightView view = {};

    float at(uint32_t row, uint32_t column) const { return values[row * columns + column]; }
};

// Random blocks of the golden row, in random order.
inline TestMatrix make_matrix(const GoldenRow& golden, uint32_t rows, uint32_t columns,
                              std::mt19937* random)
{
    TestMatrix made;
    made.rows = rows;
    made.columns = columns;
    made.values.resize(size_t{rows} * columns);
    made.packed.resize(aotx::weight_packed_bytes(golden.kind, rows, columns));
    REQUIRE(!made.packed.empty());
    const uint32_t block_columns = aotx::weight_block_columns(golden.kind);
    const uint32_t block_bytes = aotx::weight_block_bytes(golden.kind);
    const uint32_t choices = static_cast<uint32_t>(golden.values.size()) / block_columns;
    std::vector<uint8_t> row_bytes(size_t{columns} / block_columns * block_bytes);
    for (uint32_t row = 0; row < rows; row++) {
        for (uint32_t block = 0; block < columns / block_columns; block++) {
            const uint32_t choice = static_cast<uint32_t>((*random)() % choices);
            std::memcpy(&row_bytes[size_t{block} * block_bytes],
                        &golden.bytes[size_t{choice} * block_bytes], block_bytes);
            std::memcpy(&made.values[size_t{row} * columns + block * block_columns],
                        &golden.values[size_t{choice} * block_columns],
                        block_columns * sizeof(float));
        }
        REQUIRE(
            aotx::weight_pack_row(golden.kind, columns, row, row_bytes.data(), made.packed.data()));
    }
    made.view = {made.packed.data(), golden.kind, rows, columns, 0};
    return made;
}

// Halves on the host, whoever compiles: nvcc's own are for the device.
#if defined(__CUDACC__)
inline uint16_t half_of(float value)
{
    return __half_as_ushort(__float2half_rn(value));
}
inline float float_of(uint16_t half)
{
    return __half2float(__ushort_as_half(half));
}
#else
inline uint16_t half_of(float value)
{
    return aotx::cu_float_to_half(value);
}
inline float float_of(uint16_t half)
{
    return aotx::cu_half_to_float(half);
}
#endif

inline std::vector<float> random_floats(size_t count, float scale, std::mt19937* random)
{
    std::normal_distribution<float> normal(0.0f, scale);
    std::vector<float> values(count);
    for (float& value : values) {
        value = normal(*random);
    }
    return values;
}

inline std::vector<float> poisoned(size_t count)
{
    return std::vector<float>(count, NAN);
}
