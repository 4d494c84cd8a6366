// Purpose:  what the checks of the text runtime on a card share: a loaded runtime, a comparison.
// Owns:     a Runtime owns its library and object.
// Thread:   main.
// Lifetime: one check.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "aotx/text_runtime.h"
#include "flashrt/loader.hpp"

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point begin)
{
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

inline void must(int code, const char* what)
{
    if (code != 0) {
        std::printf("%s answered %d\n", what, code);
        std::exit(1);
    }
}

inline const char* device_name()
{
    const char* const given = std::getenv("AOTX_DEVICE_TEXT");
    return given == nullptr ? "cuda" : given;
}

struct Runtime {
    frt::LoadedModel model;
    const aotx_text_runtime_v1* text = nullptr;

    Runtime(const std::string& path, const std::string& settings)
    {
        const std::string config = "{\"model_path\":\"" + path + "\"," + settings + "}";
        if (model.open(AOTX_TEXT_GGUF_LIBRARY, config.c_str()) != frt::LoadStatus::loaded) {
            std::printf("the runtime does not open: %s\n", model.reason());
            std::exit(1);
        }
        const void* table = nullptr;
        must(model.runtime()->query_extension(model.runtime(), AOTX_TEXT_RUNTIME_EXTENSION_ID,
                                              AOTX_TEXT_RUNTIME_ABI_VERSION, &table),
             "query_extension");
        text = static_cast<const aotx_text_runtime_v1*>(table);
    }

    uint32_t vocab() const { return text->properties->vocab_size; }

    // Append tokens to a sequence in steps as large as the runtime takes; the logits behind them.
    const float* feed(uint32_t sequence, const std::vector<int32_t>& tokens) const
    {
        const size_t most = text->properties->step_tokens_max;
        aotx_text_row row = {};
        for (size_t at = 0; at < tokens.size(); at += row.tokens_count) {
            const size_t left = tokens.size() - at;
            row = {sequence,
                   static_cast<uint32_t>(std::min(left, most)),
                   tokens.data() + at,
                   left <= most ? 1u : 0u,
                   0,
                   nullptr};
            must(text->step(text->self, &row, 1), "step");
        }
        return row.logits;
    }
};

inline int32_t likeliest(const float* logits, uint32_t vocab)
{
    return static_cast<int32_t>(std::max_element(logits, logits + vocab) - logits);
}

struct Judged {
    uint32_t prompts = 0;
    uint32_t tokens = 0;
    uint32_t other = 0;  // choices of the card that are not the CPU's
    uint32_t wrong = 0;  // and that no deviation explains
    double deviation = 0;
};

// Compare what both say behind the same tokens. Returns the CPU's choice.
inline int32_t judge(const float* want, const float* got, uint32_t vocab, Judged* judged)
{
    double largest = 0;
    double difference = 0;
    for (uint32_t i = 0; i < vocab; i++) {
        largest = std::max(largest, std::fabs(static_cast<double>(want[i])));
        const double off = std::fabs(static_cast<double>(got[i]) - want[i]);
        difference = off <= difference ? difference : off;  // a NaN is worst
    }
    judged->tokens++;
    judged->deviation =
        difference / largest <= judged->deviation ? judged->deviation : difference / largest;
    const int32_t best = likeliest(want, vocab);
    const int32_t chosen = likeliest(got, vocab);
    judged->other += chosen != best ? 1u : 0u;
    judged->wrong += want[best] - want[chosen] > 2.0 * difference ? 1u : 0u;
    return best;
}

// Small random models of every weight type: logits against the CPU's, and a row alone and in
// company. 0: all hold.
int check_kinds();
