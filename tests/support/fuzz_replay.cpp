// Purpose:  run a fuzz target over every file of its corpus once, without libFuzzer, so that CI
// replays what fuzzing
//           found. An empty or missing corpus is a failure: a replay that runs nothing proves
//           nothing.
// Owns:     nothing.
// Thread:   main.
// Lifetime: one run.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size_bytes);

int main(int argc, char** argv)
{
    size_t files = 0;
    for (int i = 1; i < argc; i++) {
        std::error_code error;
        for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i], error)) {
            if (!entry.is_regular_file()) {
                continue;
            }
            std::ifstream in(entry.path(), std::ios::binary);
            const std::vector<char> bytes((std::istreambuf_iterator<char>(in)),
                                          std::istreambuf_iterator<char>());
            // An exact-size heap copy, so that a sanitizer sees any overread.
            const std::vector<uint8_t> copy(bytes.begin(), bytes.end());
            LLVMFuzzerTestOneInput(copy.data(), copy.size());
            files++;
        }
    }
    if (files == 0) {
        std::fprintf(stderr, "fuzz replay: no corpus file found\n");
        return 1;
    }
    std::printf("fuzz replay: %zu files\n", files);
    return 0;
}
