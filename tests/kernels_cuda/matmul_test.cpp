// Purpose:  the matrix kernel against plain loops in double precision, for every kind of weight,
// odd shapes, norms and finishes; and the promise that a row's bits do not depend on its company.
// Owns:     nothing.
// Thread:   main.
// Lifetime: one run.
#include "cuda/kernels/cuda/matmul.cuh"
#include "cuda/kernels/cuda/token.cuh"

#include "emulator_launch.h"
#include "fixture.h"

namespace {

using aotx::MatmulArgs;

template <uint32_t columns8>
bool run_matmul(const MatmulArgs& args, uint32_t tokens)
{
    emu::LaunchShape shape;
    shape.grid = dim3(aotx::weight_tiles(args.weight.rows, aotx::kTileRows),
                      aotx::weight_tiles(tokens, columns8 * 8));
    shape.block = dim3(aotx::matmul_threads(columns8));
    switch (args.weight.kind) {
#define AOTX_TEST_KIND(kind) \
    case aotx::kind:         \
        return emu::run<aotx::matmul<aotx::kind, columns8>>(shape, args);
        AOTX_TEST_KIND(kWeightF32)
        AOTX_TEST_KIND(kWeightF16)
        AOTX_TEST_KIND(kWeightBF16)
        AOTX_TEST_KIND(kWeightQ4_0)
        AOTX_TEST_KIND(kWeightQ4_1)
        AOTX_TEST_KIND(kWeightQ5_0)
        AOTX_TEST_KIND(kWeightQ5_1)
        AOTX_TEST_KIND(kWeightQ8_0)
        AOTX_TEST_KIND(kWeightQ2K)
        AOTX_TEST_KIND(kWeightQ3K)
        AOTX_TEST_KIND(kWeightQ4K)
        AOTX_TEST_KIND(kWeightQ5K)
        AOTX_TEST_KIND(kWeightQ6K)
#undef AOTX_TEST_KIND
        default:
            return false;
    }
}

bool run_either(const MatmulArgs& args, uint32_t tokens, bool wide)
{
    return wide ? run_matmul<4>(args, tokens) : run_matmul<1>(args, tokens);
}

struct Reference {
    std::vector<double> value;  // [tokens][rows]
    std::vector<double> size;   // sum of the products' magnitudes: what errors are measured in
};

Reference plain_product(const TestMatrix& matrix, const std::vector<float>& input,
                        const std::vector<float>* norm, uint32_t tokens)
{
    Reference made;
    for (uint32_t n = 0; n < tokens; n++) {
        const float* const row = &input[size_t{n} * matrix.columns];
        double square = 0;
        for (uint32_t k = 0; k < matrix.columns; k++) {
            square += double{row[k]} * row[k];
        }
        const double scale =
            norm == nullptr ? 1.0 : 1.0 / std::sqrt(square / matrix.columns + 1e-5);
        for (uint32_t r = 0; r < matrix.rows; r++) {
            double sum = 0;
            double size = 0;
            for (uint32_t k = 0; k < matrix.columns; k++) {
                const double x = row[k] * scale * (norm == nullptr ? 1.0 : double{(*norm)[k]});
                sum += x * matrix.at(r, k);
                size += std::fabs(x * matrix.at(r, k));
            }
            made.value.push_back(sum);
            made.size.push_back(size);
        }
    }
    return made;
}

__global__ void read_weights(const aotx::WeightView view, float* out)
{
    for (uint32_t i = threadIdx.x; i < view.rows * view.columns; i += blockDim.x) {
        out[i] = aotx::weight_at(view, i / view.columns, i % view.columns);
    }
}

}  // namespace

TEST_CASE("every kind of weight survives packing as the file's own decoder reads it")
{
    std::mt19937 random(7);
    for (const GoldenRow& golden : golden_rows()) {
        INFO(golden.name);
        const TestMatrix matrix = make_matrix(golden, 21, 512, &random);
        std::vector<float> out = poisoned(matrix.values.size());
        emu::LaunchShape shape;
        shape.block = dim3(32);
        REQUIRE(emu::run<read_weights>(shape, matrix.view, out.data()));
        for (size_t i = 0; i < out.size(); i++) {
            if (out[i] != Approx(matrix.values[i]).epsilon(1e-6).margin(1e-7)) {
                FAIL("weight " << i << ": " << out[i] << " is not " << matrix.values[i]);
            }
        }
    }
    REQUIRE(golden_rows().size() == 13);
}

namespace {

// One random matrix and batch against plain loops.
void check_product(const GoldenRow& golden, uint32_t rows, uint32_t columns, uint32_t tokens,
                   bool wide, std::mt19937* random)
{
    INFO(golden.name << " rows " << rows << " columns " << columns << " tokens " << tokens
                     << (wide ? " wide" : " narrow"));
    const TestMatrix matrix = make_matrix(golden, rows, columns, random);
    const std::vector<float> input = random_floats(size_t{tokens} * columns, 1.0f, random);
    const std::vector<float> norm = random_floats(columns, 1.0f, random);
    const Reference want = plain_product(matrix, input, wide ? &norm : nullptr, tokens);
    std::vector<float> out = poisoned(size_t{tokens} * rows);
    MatmulArgs args = {};
    args.weight = matrix.view;
    args.input = input.data();
    args.count = &tokens;
    args.norm = wide ? norm.data() : nullptr;
    args.output = out.data();
    args.input_stride = columns;
    args.output_stride = rows;
    args.epsilon = 1e-5f;
    REQUIRE(run_either(args, tokens, wide));
    const double allowed = golden.name == "BF16" ? 4e-5 : 4e-6;
    for (size_t i = 0; i < out.size(); i++) {
        if (!(std::fabs(out[i] - want.value[i]) <= allowed * want.size[i] + 1e-6)) {
            FAIL("output " << i << ": " << out[i] << " is not " << want.value[i]);
        }
    }
}

}  // namespace

TEST_CASE("a product equals plain loops for every kind, shape and batch")
{
    std::mt19937 random(11);
    for (const GoldenRow& golden : golden_rows()) {
        const uint32_t block = aotx::weight_block_columns(golden.kind);
        check_product(golden, 16, block == 256 ? 256 : 96, 3, false, &random);
        check_product(golden, 37, block == 256 ? 256 : 352, 11, true, &random);
        for (const bool wide : {false, true}) {
            const uint32_t rows = 1 + static_cast<uint32_t>(random() % 40);
            const uint32_t blocks = 1 + static_cast<uint32_t>(random() % (block == 256 ? 3 : 12));
            const uint32_t tokens = 1 + static_cast<uint32_t>(random() % (wide ? 40 : 18));
            check_product(golden, rows, blocks * block, tokens, wide, &random);
        }
    }
}

TEST_CASE("an input beyond halves counts as the last of them, and what is no number stays so")
{
    std::mt19937 random(17);
    for (const GoldenRow& golden : golden_rows()) {
        INFO(golden.name);
        const uint32_t columns = 256;
        const uint32_t rows = 16;
        const uint32_t tokens = 4;
        const bool bfloat = golden.name == "BF16";
        const TestMatrix matrix = make_matrix(golden, rows, columns, &random);
        std::vector<float> input = random_floats(size_t{tokens} * columns, 1.0f, &random);
        input[5] = 3e6f;
        input[columns + 7] = -70000.0f;
        input[2 * columns + 9] = NAN;
        std::vector<float> bounded = input;
        if (!bfloat) {
            bounded[5] = 65504.0f;
            bounded[columns + 7] = -65504.0f;
        }
        const Reference want = plain_product(matrix, bounded, nullptr, tokens);
        std::vector<float> out = poisoned(size_t{tokens} * rows);
        MatmulArgs args = {};
        args.weight = matrix.view;
        args.input = input.data();
        args.count = &tokens;
        args.output = out.data();
        args.input_stride = columns;
        args.output_stride = rows;
        REQUIRE(run_either(args, tokens, false));
        const double allowed = bfloat ? 4e-5 : 4e-6;
        for (size_t i = 0; i < out.size(); i++) {
            if (i / rows == 2) {
                REQUIRE(std::isnan(out[i]));
            } else if (!(std::fabs(out[i] - want.value[i]) <= allowed * want.size[i] + 1e-6)) {
                FAIL("output " << i << ": " << out[i] << " is not " << want.value[i]);
            }
        }
    }
}

TEST_CASE("a row's bits are the same alone, in company, and in either width")
{
    std::mt19937 random(13);
    for (const GoldenRow& golden : golden_rows()) {
        if (golden.name != "Q4_1" && golden.name != "Q6_K" && golden.name != "BF16") {
            continue;
        }
        INFO(golden.name);
        const uint32_t columns = 512;
        const uint32_t tokens = 9;
        const TestMatrix matrix = make_matrix(golden, 16, columns, &random);
        const std::vector<float> input = random_floats(size_t{tokens} * columns, 1.0f, &random);
        const std::vector<float> norm = random_floats(columns, 1.0f, &random);
        std::vector<float> together = poisoned(size_t{tokens} * 16);
        std::vector<float> alone = poisoned(size_t{tokens} * 16);
        MatmulArgs args = {};
        args.weight = matrix.view;
        args.input = input.data();
        args.count = &tokens;
        args.norm = norm.data();
        args.output = together.data();
        args.input_stride = columns;
        args.output_stride = 16;
        REQUIRE(run_matmul<4>(args, tokens));
        for (uint32_t n = 0; n < tokens; n++) {
            const uint32_t one = 1;
            args.input = &input[size_t{n} * columns];
            args.output = &alone[size_t{n} * 16];
            args.count = &one;
            REQUIRE(run_matmul<1>(args, 1));
        }
        REQUIRE(std::memcmp(alone.data(), together.data(), alone.size() * sizeof(float)) == 0);
    }
}

TEST_CASE("the finishes add, gate and pick rows")
{
    std::mt19937 random(17);
    const GoldenRow& golden = golden_rows()[7];
    REQUIRE(golden.name == "Q8_0");
    const uint32_t tokens = 2;
    const TestMatrix matrix = make_matrix(golden, 32, 64, &random);
    const std::vector<float> input = random_floats(5 * 64, 1.0f, &random);
    std::vector<float> plain = poisoned(2 * 32);
    MatmulArgs args = {};
    args.weight = matrix.view;
    args.input = input.data();
    args.count = &tokens;
    args.output = plain.data();
    args.input_stride = 64;
    args.output_stride = 32;
    REQUIRE(run_matmul<1>(args, tokens));
    std::vector<float> added(2 * 32, 1.0f);
    args.finish = aotx::kFinishAdd;
    args.output = added.data();
    REQUIRE(run_matmul<1>(args, tokens));
    std::vector<float> gated = poisoned(2 * 16);
    args.finish = aotx::kFinishGate;
    args.output = gated.data();
    args.output_stride = 16;
    REQUIRE(run_matmul<1>(args, tokens));
    for (uint32_t n = 0; n < tokens; n++) {
        for (uint32_t row = 0; row < 32; row++) {
            REQUIRE(added[n * 32 + row] == plain[n * 32 + row] + 1.0f);
        }
        for (uint32_t row = 0; row < 16; row++) {
            const double gate = plain[n * 32 + row / 8 * 16 + row % 8];
            const double up = plain[n * 32 + row / 8 * 16 + row % 8 + 8];
            REQUIRE(gated[n * 16 + row] == Approx(gate / (1 + std::exp(-gate)) * up).epsilon(1e-5));
        }
    }
    // Gates stored before by another matrix: here the same values.
    std::vector<float> raised = plain;
    args.finish = aotx::kFinishUp;
    args.output = raised.data();
    args.output_stride = 32;
    REQUIRE(run_matmul<1>(args, tokens));
    for (size_t i = 0; i < plain.size(); i++) {
        REQUIRE(
            raised[i] ==
            Approx(plain[i] / (1 + std::exp(-plain[i])) * plain[i]).epsilon(1e-5).margin(1e-30));
    }
    const uint32_t map[2] = {4, 1};
    std::vector<float> picked = poisoned(2 * 32);
    args.finish = aotx::kFinishStore;
    args.output = picked.data();
    args.output_stride = 32;
    args.input_map = map;
    REQUIRE(run_matmul<1>(args, tokens));
    std::vector<float> all = poisoned(5 * 32);
    const uint32_t five = 5;
    args.input_map = nullptr;
    args.count = &five;
    args.output = all.data();
    REQUIRE(run_matmul<1>(args, five));
    REQUIRE(std::memcmp(&picked[0], &all[4 * 32], 32 * sizeof(float)) == 0);
    REQUIRE(std::memcmp(&picked[32], &all[1 * 32], 32 * sizeof(float)) == 0);
}

TEST_CASE("a matrix that cannot be packed is refused")
{
    REQUIRE(aotx::weight_packed_bytes(99, 16, 64) == 0);
    REQUIRE(aotx::weight_packed_bytes(aotx::kWeightQ4_0, 16, 33) == 0);
    REQUIRE(aotx::weight_packed_bytes(aotx::kWeightQ4K, 16, 128) == 0);
    const float large = 70000.0f;
    std::vector<uint8_t> tiles(aotx::weight_packed_bytes(aotx::kWeightF32, 1, 1));
    uint8_t bytes[4];
    std::memcpy(bytes, &large, sizeof bytes);
    REQUIRE_FALSE(aotx::weight_pack_row(aotx::kWeightF32, 1, 0, bytes, tiles.data()));
    REQUIRE_FALSE(aotx::weight_pack_row(99, 1, 0, bytes, tiles.data()));
}
