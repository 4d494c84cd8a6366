// Purpose:  kernels with one planted memory or race bug each, run under a sanitizer that must
// report them, and their correct twins, of which it must say nothing. Owns:     nothing. Thread:
// main. Lifetime: one run; the argument names the bug.
#include <cstdio>
#include <cstring>
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

bool run_race(const char* name, float* floats, unsigned* words)
{
    emu::LaunchShape pair = shape(2, 32);
    pair.cooperative = true;
    if (std::strcmp(name, "barrier") == 0) {
        return emu::run<planted::block_sum<false>>(shape(1, 128), floats, floats + 256);
    }
    if (std::strcmp(name, "fence") == 0) {
        return emu::run<planted::lane_pass<false>>(shape(1, 32), floats);
    }
    if (std::strcmp(name, "blocks") == 0) {
        return emu::run<planted::count_blocks<false>>(shape(2, 32), words);
    }
    if (std::strcmp(name, "publish") == 0) {
        return emu::run<planted::publish<false>>(pair, words, words + 64, words + 128);
    }
    if (std::strcmp(name, "clean") == 0) {
        return emu::run<planted::block_sum<true>>(shape(2, 128), floats, floats + 256) &&
               emu::run<planted::lane_pass<true>>(shape(1, 32), floats) &&
               emu::run<planted::count_blocks<true>>(shape(4, 32), words) &&
               emu::run<planted::shared_overrun<true>>(shape(1, 32), floats) &&
               emu::run<planted::publish<true>>(pair, words, words + 64, words + 128) &&
               emu::run<planted::grid_phases>(pair, words, words + 64) &&
               !emu::run<planted::exited_lane>(shape(1, 32), words) &&
               emu::run<planted::half_warps>(shape(1, 32), words);
    }
    return false;
}

bool run_memory(const char* name, float* floats)
{
    if (std::strcmp(name, "shared") == 0) {
        return emu::run<planted::shared_overrun<false>>(shape(1, 32), floats);
    }
    if (std::strcmp(name, "dynamic") == 0) {
        emu::LaunchShape one = shape(1, 32);
        one.shared_bytes = 128;
        return emu::run<planted::dynamic_overrun>(one, floats, 32u);
    }
    if (std::strcmp(name, "global") == 0) {
        std::vector<float> exact(32);
        return emu::run<planted::global_overrun>(shape(1, 32), exact.data());
    }
    return false;
}

}  // namespace

int main(int argc, char** argv)
{
    if (argc != 2) {
        return 2;
    }
    std::vector<float> floats(512, 1.0f);
    std::vector<unsigned> words(512, 0);
    const bool good =
        run_race(argv[1], floats.data(), words.data()) || run_memory(argv[1], floats.data());
    std::printf("planted %s: %s\n", argv[1], good ? "ran" : emu::last_error());
    return good ? 0 : 1;
}
