// Purpose:  run the reference over token sequences, for the script that records golden files.
// Owns:     nothing.
// Thread:   main.
// Lifetime: one run.
//
// reference MODEL LOGITS STATES < SEQUENCES: a sequence is a line "first count token...". In order,
// LOGITS and STATES get the f32 logits and states after tokens first .. count-1 of each.
#include <cstdio>
#include <iostream>
#include <sstream>

#include "reference.h"

int main(int argc, char** argv)
{
    if (argc != 4) {
        std::fprintf(stderr, "usage: reference MODEL LOGITS STATES < SEQUENCES\n");
        return 2;
    }
    aotx::TextReason reason;
    aotx::GgufFile file;
    aotx_test::Reference reference;
    const std::string error =
        file.open(argv[1], &reason) == 0 ? reference.open(file) : std::string(reason.text);
    FILE* const logits_out = error.empty() ? std::fopen(argv[2], "wb") : nullptr;
    FILE* const states_out = error.empty() ? std::fopen(argv[3], "wb") : nullptr;
    if (logits_out == nullptr || states_out == nullptr) {
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
        const std::vector<float> states = reference.states(tokens, first);
        const std::vector<float> logits = reference.logits_of(states);
        std::fwrite(logits.data(), sizeof(float), logits.size(), logits_out);
        std::fwrite(states.data(), sizeof(float), states.size(), states_out);
    }
    const bool closed = std::fclose(logits_out) == 0;
    return std::fclose(states_out) == 0 && closed ? 0 : 1;
}
