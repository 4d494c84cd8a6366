// Purpose:  random inputs, plain references and instruction set selection for kernel tests.
// Owns:     nothing.
// Thread:   main.
// Lifetime: one test.
#pragma once

#include <hwy/targets.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "cuda/kernels/cpu/kernels.h"

namespace aotx_test {

// A small generator with a fixed sequence for a seed.
class Random {
public:
    explicit Random(uint64_t seed) : state_(seed * 2862933555777941757u + 3037000493u) {}

    uint64_t next()
    {
        state_ ^= state_ << 13;
        state_ ^= state_ >> 7;
        state_ ^= state_ << 17;
        return state_;
    }
    uint32_t below(uint32_t limit) { return static_cast<uint32_t>((next() >> 20) % limit); }
    // In -1..1.
    float unit()
    {
        return static_cast<float>(static_cast<int32_t>(next() >> 33) - (1 << 30)) /
               static_cast<float>(1 << 30);
    }
    std::vector<float> floats(size_t count)
    {
        std::vector<float> values(count);
        for (float& value : values) {
            value = unit();
        }
        return values;
    }

private:
    uint64_t state_;
};

// Call body once for every instruction set of this machine, with kernel_table() bound to it.
template <typename Body>
void for_each_target(const Body& body)
{
    const int64_t all = hwy::SupportedTargets();
    for (int64_t rest = all & HWY_TARGETS; rest != 0; rest &= rest - 1) {
        hwy::SetSupportedTargetsForTest(rest & (~rest + 1));
        hwy::GetChosenTarget().Update(hwy::SupportedTargets());
        body(aotx::kernel_table());
    }
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

constexpr aotx::WeightType kAllTypes[] = {
    aotx::WeightType::kF32,  aotx::WeightType::kF16,  aotx::WeightType::kBF16,
    aotx::WeightType::kQ4_0, aotx::WeightType::kQ4_1, aotx::WeightType::kQ5_0,
    aotx::WeightType::kQ5_1, aotx::WeightType::kQ8_0, aotx::WeightType::kQ2_K,
    aotx::WeightType::kQ3_K, aotx::WeightType::kQ4_K, aotx::WeightType::kQ5_K,
    aotx::WeightType::kQ6_K,
};

inline void put_half(uint8_t* at, float value)
{
    const uint16_t half = aotx::half_from_float(value);
    std::memcpy(at, &half, sizeof half);
}

// Random blocks of a type as a file holds them: any codes, scales of a sensible size.
inline std::vector<uint8_t> random_source(aotx::WeightType type, uint32_t rows, uint32_t columns,
                                          Random* random)
{
    using aotx::WeightType;
    const aotx::WeightFormat format = aotx::weight_format(type);
    const uint64_t bytes = rows * aotx::source_row_bytes(type, columns);
    std::vector<uint8_t> source(bytes);
    for (uint8_t& byte : source) {
        byte = static_cast<uint8_t>(random->next() >> 24);
    }
    for (uint64_t at = 0; at < bytes; at += format.source_bytes) {
        uint8_t* const block = source.data() + at;
        if (type == WeightType::kF32) {
            const float value = random->unit();
            std::memcpy(block, &value, sizeof value);
        } else if (type == WeightType::kF16) {
            put_half(block, random->unit());
        } else if (type == WeightType::kBF16) {
            const float value = random->unit();
            std::memcpy(block, reinterpret_cast<const uint8_t*>(&value) + 2, 2);
        } else {
            const uint32_t scales_at = type == WeightType::kQ2_K   ? 80
                                       : type == WeightType::kQ3_K ? 108
                                       : type == WeightType::kQ6_K ? 208
                                                                   : 0;
            const float size = format.source_elements == 256 ? 0.001f : 0.02f;
            put_half(block + scales_at, size * random->unit());
            if (format.has_minimum) {
                put_half(block + scales_at + 2, size * random->unit());
            }
        }
    }
    return source;
}

// A packed matrix with the source it came from.
struct Matrix {
    aotx::PackedMatrix packed;
    std::vector<uint8_t> source;
    std::vector<uint8_t> bytes;

    Matrix(aotx::WeightType type, uint32_t rows, uint32_t columns, Random* random)
    {
        if (!aotx::packed_matrix_shape(type, rows, columns, &packed)) {
            std::abort();
        }
        source = random_source(type, rows, columns, random);
        bytes.resize(aotx::packed_matrix_bytes(packed) + 64);
        const uint64_t base = reinterpret_cast<uint64_t>(bytes.data());
        uint8_t* const data = bytes.data() + (64 - base % 64) % 64;
        for (uint32_t group = 0; group < packed.groups; group++) {
            aotx::pack_group(packed, source.data(), group, data + group * packed.group_bytes);
        }
        packed.data = data;
    }

    std::vector<float> row(uint32_t index) const
    {
        std::vector<float> out(packed.columns);
        const uint64_t row_bytes = aotx::source_row_bytes(packed.type, packed.columns);
        aotx::source_row(packed.type, source.data() + index * row_bytes, packed.columns,
                         out.data());
        return out;
    }
};

}  // namespace aotx_test
