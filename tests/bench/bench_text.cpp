// Purpose:  the text runtime alone, without a service around it: prefill and decode, one sequence
//           or many, as tokens a second.
// Owns:     the loaded runtime.
// Thread:   one, plus the runtime's own.
// Lifetime: one run.
//
// usage: bench_text LIBRARY MODEL THREADS PROMPT_TOKENS DECODE_TOKENS SEQUENCES [ACTIVATIONS]
// Prints one line of JSON. Every sequence gets the same number of prompt tokens, fed in steps as
// large as the runtime takes; then all decode together, greedily.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "aotx/text_runtime.h"
#include "cuda/core/sample.h"
#include "flashrt/loader.hpp"

namespace {

using Clock = std::chrono::steady_clock;

struct Options {
    int prompt_tokens, decode_tokens, sequences;
};

double seconds_since(Clock::time_point begin)
{
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Of the calling thread alone: what other programs take from it does not count.
double processor_seconds()
{
    timespec now = {};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

void must(int code, const char* what)
{
    if (code != 0) {
        fprintf(stderr, "bench_text: %s answered %d\n", what, code);
        exit(1);
    }
}

// Tokens without meaning that differ from each other and between sequences.
std::vector<int32_t> prompt_make(uint32_t vocab, int sequence, int tokens)
{
    std::vector<int32_t> prompt;
    for (int i = 0; i < tokens; i++) {
        const uint32_t mixed = static_cast<uint32_t>(sequence * 131 + i) * 2654435761u;
        prompt.push_back(static_cast<int32_t>(100 + mixed % (vocab - 200)));
    }
    return prompt;
}

// Feed one prompt; returns the first token of its answer.
int32_t prefill(const aotx_text_runtime_v1& text, uint32_t sequence,
                const std::vector<int32_t>& prompt)
{
    const size_t chunk_max = text.properties->step_tokens_max;
    aotx_text_row row = {};
    for (size_t at = 0; at < prompt.size(); at += row.tokens_count) {
        const size_t left = prompt.size() - at;
        row.sequence = sequence;
        row.tokens_count = static_cast<uint32_t>(left < chunk_max ? left : chunk_max);
        row.tokens = prompt.data() + at;
        row.wants_logits = left <= chunk_max ? 1 : 0;
        must(text.step(text.self, &row, 1), "step");
    }
    return aotx::core_argmax(row.logits, text.properties->vocab_size);
}

void decode(const aotx_text_runtime_v1& text, int steps, std::vector<int32_t>* tokens)
{
    std::vector<aotx_text_row> rows(tokens->size());
    for (int step = 0; step < steps; step++) {
        for (size_t i = 0; i < rows.size(); i++) {
            rows[i] = {static_cast<uint32_t>(i), 1, &(*tokens)[i], 1, 0, nullptr};
        }
        must(text.step(text.self, rows.data(), static_cast<uint32_t>(rows.size())), "step");
        for (size_t i = 0; i < rows.size(); i++) {
            (*tokens)[i] = aotx::core_argmax(rows[i].logits, text.properties->vocab_size);
        }
    }
}

void run(const aotx_text_runtime_v1& text, const Options& options)
{
    std::vector<int32_t> tokens;
    const Clock::time_point prefill_begin = Clock::now();
    for (int i = 0; i < options.sequences; i++) {
        const uint32_t sequence = static_cast<uint32_t>(i);
        must(text.sequence_open(
                 text.self, sequence,
                 static_cast<uint32_t>(options.prompt_tokens + options.decode_tokens + 1)),
             "sequence_open");
        tokens.push_back(prefill(
            text, sequence, prompt_make(text.properties->vocab_size, i, options.prompt_tokens)));
    }
    const double prefill_seconds = seconds_since(prefill_begin);
    const Clock::time_point decode_begin = Clock::now();
    const double processor_begin = processor_seconds();
    decode(text, options.decode_tokens, &tokens);
    const double decode_seconds = seconds_since(decode_begin);
    const double decode_processor_seconds = processor_seconds() - processor_begin;
    printf(
        "{\"prefill_per_second\":%.1f,\"decode_per_second\":%.1f,\"token_ms\":%.4f,"
        "\"token_processor_ms\":%.4f}\n",
        options.sequences * options.prompt_tokens / prefill_seconds,
        options.sequences * options.decode_tokens / decode_seconds,
        decode_seconds * 1000 / options.decode_tokens,
        decode_processor_seconds * 1000 / options.decode_tokens);
}

}  // namespace

int main(int argc, char** argv)
{
    if (argc < 7) {
        fprintf(stderr,
                "usage: bench_text LIBRARY MODEL THREADS PROMPT_TOKENS DECODE_TOKENS SEQUENCES "
                "[ACTIVATIONS]\n");
        return 2;
    }
    const std::string config = std::string("{\"model_path\":\"") + argv[2] +
                               "\",\"threads\":" + argv[3] + ",\"activations\":\"" +
                               (argc > 7 ? argv[7] : "quantised") + "\"}";
    frt::LoadedModel model;
    if (model.open(argv[1], config.c_str()) != frt::LoadStatus::loaded) {
        fprintf(stderr, "bench_text: %s\n", model.reason());
        return 1;
    }
    const void* table = nullptr;
    must(model.runtime()->query_extension(model.runtime(), AOTX_TEXT_RUNTIME_EXTENSION_ID,
                                          AOTX_TEXT_RUNTIME_ABI_VERSION, &table),
         "query_extension");
    run(*static_cast<const aotx_text_runtime_v1*>(table),
        {atoi(argv[4]), atoi(argv[5]), atoi(argv[6])});
    return 0;
}
