// Purpose:  run the reference over token sequences, for the script that records golden files.
// Owns:     nothing.
// Thread:   main.
// Lifetime: one run.
//
// reference MODEL OUT < SEQUENCES: a sequence is a line "first count token...". OUT gets, in order,
// the f32 logits after tokens first .. count-1 of each.
#include <cstdio>
#include <iostream>
#include <sstream>

#include "reference.h"

int main(int argc, char** argv)
{
    if (argc != 3) {
        std::fprintf(stderr, "usage: reference MODEL OUT < SEQUENCES\n");
        return 2;
    }
    aotx::TextReason reason;
    aotx::GgufFile file;
    aotx_test::Reference reference;
    const std::string error =
        file.open(argv[1], &reason) == 0 ? reference.open(file) : std::string(reason.text);
    FILE* const out = error.empty() ? std::fopen(argv[2], "wb") : nullptr;
    if (out == nullptr) {
        std::fprintf(stderr, "reference: %s\n", error.empty() ? "cannot write" : error.c_str());
        return 1;
    }
    std::string line;
    while (std::getline(std::cin, line)) {
        std::istringstream words(line);
        size_t first = 0;
        size_t count = 0;
        words >> first >> count;
        std::vector<int32_t> tokens(count);
        for (int32_t& token : tokens) {
            words >> token;
        }
        const std::vector<float> logits = reference.logits(tokens, first);
        std::fwrite(logits.data(), sizeof(float), logits.size(), out);
        std::fflush(out);
    }
    return std::fclose(out) == 0 ? 0 : 1;
}
