// Purpose:  the emulator's own tests: correct kernels give what a device would give, broken ones
// are named. The memory and race bugs that only a sanitizer can see are in planted.cpp. Owns:
// nothing. Thread:   main. Lifetime: one run.
#include <catch2/catch.hpp>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "emulator_launch.h"
#include "test_kernels.h"

namespace {

emu::LaunchShape shape(unsigned blocks, unsigned threads)
{
    emu::LaunchShape result;
    result.grid = dim3(blocks);
    result.block = dim3(threads);
    return result;
}

struct Seeds {
    explicit Seeds(uint64_t seed) { emu::set_seed(seed); }
    ~Seeds() { emu::set_seed(0); }
};

}  // namespace

TEST_CASE("threads of a block meet at barriers, in any order")
{
    for (uint64_t seed = 0; seed < 4; seed++) {
        const Seeds seeds(seed);
        std::vector<float> in(3 * 128);
        for (size_t i = 0; i < in.size(); i++) {
            in[i] = static_cast<float>(i);
        }
        std::vector<float> out(3, NAN);
        REQUIRE(emu::run<planted::block_sum<true>>(shape(3, 128), in.data(), out.data()));
        for (unsigned b = 0; b < 3; b++) {
            REQUIRE(out[b] == 128.0f * 128.0f * static_cast<float>(b) + 8128.0f);
        }
    }
}

TEST_CASE("warp operations answer as the programming guide says")
{
    for (uint64_t seed = 0; seed < 3; seed++) {
        const Seeds seeds(seed);
        std::vector<unsigned> out(288, 77);
        REQUIRE(emu::run<planted::votes>(shape(1, 32), out.data()));
        for (unsigned t = 0; t < 32; t++) {
            REQUIRE(out[t] == 0xaaaaaaaau);
            REQUIRE(out[32 + t] == 1);
            REQUIRE(out[64 + t] == 0);
            REQUIRE(out[96 + t] == 5);
            REQUIRE(out[128 + t] == 1);
            REQUIRE(out[160 + t] == 0);
            REQUIRE(out[192 + t] == (t < 3 ? t : t - 3));
            REQUIRE(out[224 + t] == (t + 3 > 31 ? t : t + 3));
            REQUIRE(out[256 + t] == 9);
        }
        std::vector<unsigned> halves(32, 0);
        REQUIRE(emu::run<planted::half_warps>(shape(1, 32), halves.data()));
        REQUIRE(halves[0] == 120);
        REQUIRE(halves[31] == 376);
    }
}

TEST_CASE("a tensor-core product matches the plain product of the fragments")
{
    std::vector<uint32_t> a(32 * 4);
    std::vector<uint32_t> b(32 * 2);
    double plain_a[16][16];
    double plain_b[16][8];
    for (unsigned lane = 0; lane < 32; lane++) {
        const unsigned group = lane / 4;
        const unsigned pair = lane % 4 * 2;
        for (unsigned r = 0; r < 4; r++) {
            const unsigned row = group + (r % 2) * 8;
            const unsigned column = pair + (r / 2) * 8;
            const float low = static_cast<float>(row) * 0.25f - static_cast<float>(column);
            const float high = static_cast<float>(row * column % 7) * 0.5f;
            a[lane * 4 + r] = aotx::cu_float_to_half(low) |
                              static_cast<uint32_t>(aotx::cu_float_to_half(high)) << 16;
            plain_a[row][column] = low;
            plain_a[row][column + 1] = high;
        }
        for (unsigned r = 0; r < 2; r++) {
            const unsigned row = pair + r * 8;
            const float low = static_cast<float>(row + group) * 0.125f;
            const float high = 1.0f - static_cast<float>(group);
            b[lane * 2 + r] = aotx::cu_float_to_half(low) |
                              static_cast<uint32_t>(aotx::cu_float_to_half(high)) << 16;
            plain_b[row][group] = low;
            plain_b[row + 1][group] = high;
        }
    }
    std::vector<float> d(32 * 4, NAN);
    REQUIRE(emu::run<planted::one_product>(shape(1, 32), a.data(), b.data(), d.data()));
    for (unsigned lane = 0; lane < 32; lane++) {
        for (unsigned i = 0; i < 4; i++) {
            double want = 1.0 + i;
            for (unsigned k = 0; k < 16; k++) {
                want += plain_a[lane / 4 + i / 2 * 8][k] * plain_b[k][lane % 4 * 2 + i % 2];
            }
            REQUIRE(d[lane * 4 + i] == Approx(want).epsilon(1e-5));
        }
    }
}

TEST_CASE("16-bit floats round to nearest even over every half and bfloat neighbourhood")
{
    for (uint32_t bits = 0; bits < 65536; bits++) {
        const uint16_t half = static_cast<uint16_t>(bits);
        const float value = aotx::cu_half_to_float(half);
        if (std::isnan(value)) {
            REQUIRE(std::isnan(aotx::cu_half_to_float(aotx::cu_float_to_half(value))));
            continue;
        }
        REQUIRE(aotx::cu_float_to_half(value) == half);
        const float brain = aotx::cu_bfloat_to_float(half);
        if (!std::isnan(brain)) {
            REQUIRE(aotx::cu_float_to_bfloat(brain) == half);
        }
    }
    REQUIRE(aotx::cu_float_to_half(1.0f + 0x1p-11f) == 0x3c00);    // tie, even stays
    REQUIRE(aotx::cu_float_to_half(1.0f + 0x1.8p-10f) == 0x3c02);  // tie, odd goes up
    REQUIRE(aotx::cu_float_to_half(65520.0f) == 0x7c00);           // rounds to infinity
    REQUIRE(aotx::cu_float_to_half(65519.0f) == 0x7bff);
    REQUIRE(aotx::cu_float_to_half(0x1p-25f) == 0);    // tie at zero
    REQUIRE(aotx::cu_float_to_half(0x1.8p-24f) == 2);  // tie in subnormals
}

TEST_CASE("asynchronous copies arrive at the wait that covers them and not before")
{
    alignas(16) float in[256];
    for (int i = 0; i < 256; i++) {
        in[i] = static_cast<float>(i);
    }
    std::vector<float> out(256, -1.0f);
    REQUIRE(
        emu::run<planted::staged_copy<0>>(shape(1, 32), static_cast<const float*>(in), out.data()));
    REQUIRE(std::memcmp(in, out.data(), sizeof in) == 0);
    REQUIRE(
        emu::run<planted::staged_copy<1>>(shape(1, 32), static_cast<const float*>(in), out.data()));
    REQUIRE(out[3] == 3.0f);
    REQUIRE(std::isnan(out[4]));
}

TEST_CASE("a cooperative grid passes its barrier together")
{
    for (uint64_t seed = 0; seed < 3; seed++) {
        const Seeds seeds(seed);
        emu::LaunchShape grid = shape(6, 64);
        grid.cooperative = true;
        std::vector<unsigned> cells(6, 0);
        std::vector<unsigned> out(18, 99);
        REQUIRE(emu::run<planted::grid_phases>(grid, cells.data(), out.data()));
        for (unsigned b = 0; b < 6; b++) {
            for (unsigned round = 0; round < 3; round++) {
                REQUIRE(out[b * 3 + round] == round + (b + 1) % 6);
            }
        }
        unsigned data = 0;
        unsigned flag = 0;
        unsigned seen = 0;
        grid.grid = dim3(2);
        REQUIRE(emu::run<planted::publish<true>>(grid, &data, &flag, &seen));
        REQUIRE(seen == 42);
    }
}

TEST_CASE("what shared memory was not written reads as not a number")
{
    std::vector<float> out(32, 0.0f);
    REQUIRE(emu::run<planted::read_unwritten>(shape(1, 32), out.data()));
    for (const float value : out) {
        REQUIRE(std::isnan(value));
    }
}

TEST_CASE("broken kernels are named, and the next launch is clean")
{
    std::vector<unsigned> out(256, 0);
    std::vector<float> floats(256, 0.0f);
    unsigned* const words = out.data();
    struct Row {
        const char* name;
        bool (*run)(unsigned*, float*);
        const char* text;
    };
    const Row rows[] = {
        {"diverged barrier",
         [](unsigned*, float*) { return emu::run<planted::diverged_barrier>(shape(1, 64)); },
         "different barriers"},
        {"missing lane",
         [](unsigned* w, float*) { return emu::run<planted::missing_lane>(shape(1, 32), w); },
         "deadlock: thread 0 waits for shuffle xor"},
        {"exited lane",
         [](unsigned* w, float*) { return emu::run<planted::exited_lane>(shape(1, 32), w); },
         "has exited"},
        {"mixed operations",
         [](unsigned* w, float*) { return emu::run<planted::mixed_operations>(shape(1, 32), w); },
         "different warp operations"},
        {"outside its own mask",
         [](unsigned* w, float*) { return emu::run<planted::outside_own_mask>(shape(1, 32), w); },
         "mask leaves it out"},
        {"grid barrier without a cooperative launch",
         [](unsigned* w, float*) { return emu::run<planted::leave_grid>(shape(1, 32), w); },
         "not cooperative"},
        {"dynamic memory that the launch does not give",
         [](unsigned*, float* f) { return emu::run<planted::dynamic_overrun>(shape(1, 1), f, 0u); },
         "the launch gives none"},
    };
    for (uint64_t seed = 0; seed < 3; seed++) {
        const Seeds seeds(seed);
        for (const Row& row : rows) {
            INFO(row.name << " seed " << seed);
            emu::clear_error();
            REQUIRE_FALSE(row.run(words, floats.data()));
            INFO(emu::last_error());
            if (seed == 0 || std::strncmp(row.text, "deadlock", 8) != 0) {
                REQUIRE(std::string(emu::last_error()).find(row.text) != std::string::npos);
            }
            REQUIRE(emu::run<planted::half_warps>(shape(1, 32), words));
            REQUIRE(out[0] == 120);
        }
    }
}

TEST_CASE("wide words at an address that the device does not take are named")
{
    alignas(16) uint8_t bytes[16 * 33] = {};
    unsigned words[32] = {};
    bytes[16 + 4] = 7;
    struct Row {
        const char* name;
        unsigned align;
        bool (*run)(uint8_t*, unsigned*, unsigned);
    };
    const Row rows[] = {
        {"load of 16", 16,
         [](uint8_t* b, unsigned* w, unsigned first) {
             return emu::run<planted::wide_load>(shape(1, 32), b, w, first);
         }},
        {"load of 8", 8,
         [](uint8_t* b, unsigned* w, unsigned first) {
             return emu::run<planted::narrow_load>(shape(1, 32), b, w, first);
         }},
        {"store of 16", 16,
         [](uint8_t* b, unsigned*, unsigned first) {
             return emu::run<planted::wide_store>(shape(1, 32), b, first);
         }},
    };
    for (const Row& row : rows) {
        for (unsigned first = 0; first <= 16; first++) {
            INFO(row.name << " at byte " << first);
            emu::clear_error();
            REQUIRE(row.run(bytes, words, first) == (first % row.align == 0));
            REQUIRE((std::string(emu::last_error()).find("not aligned to its size") !=
                     std::string::npos) == (first % row.align != 0));
        }
    }
    REQUIRE(bytes[16 + 4] == 2);
}

TEST_CASE("a block that leaves a cooperative grid, and a launch no device takes, are refused")
{
    unsigned word = 0;
    emu::LaunchShape grid = shape(2, 32);
    grid.cooperative = true;
    REQUIRE_FALSE(emu::run<planted::leave_grid>(grid, &word));
    REQUIRE(std::string(emu::last_error()).find("left the grid") != std::string::npos);
    REQUIRE_FALSE(emu::run<planted::half_warps>(shape(1, 1025), &word));
    REQUIRE_FALSE(emu::run<planted::half_warps>(shape(0, 32), &word));
    emu::LaunchShape large = shape(1, 1);
    large.shared_bytes = 49153;
    float value = 0;
    REQUIRE_FALSE(emu::run<planted::dynamic_overrun>(large, &value, 0u));
    REQUIRE(std::string(emu::last_error()).find("over the limit") != std::string::npos);
}

TEST_CASE("a wait that nothing can end is reported")
{
    unsigned word = 0;
    REQUIRE_FALSE(emu::run<planted::spin_for_ever>(shape(1, 1), &word));
    REQUIRE(std::string(emu::last_error()).find("only spins") != std::string::npos);
}
