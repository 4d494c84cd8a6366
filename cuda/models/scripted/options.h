// Purpose:  the options of the scripted runtime and their strict JSON reader.
// Owns:     the strings and pieces of one ScriptOptions.
// Thread:   the opening thread.
// Lifetime: from open to the last release.
//
// Keys, all optional: level "batched"|"plain"; pieces, a list of hex strings or of objects with
// one of hex, base64, text and an optional delay_ms; delays_ms, a list of numbers beside pieces;
// repeat, how often the pieces are emitted (a number, or true for without end); never_end true is
// the same as repeat true; echo true answers with the decimal IDs of the tokens that were fed;
// fail_step N fails the Nth step; fail_render, fail_open true; samples true: the runtime chooses
// tokens itself (the likeliest) and hands no logits out; prefill_us_per_token; step_us; sequences;
// sequence_tokens; step_tokens; step_rows; page_tokens; kv_tokens; prompt_bytes. An unknown or
// repeated key is refused.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace aotx_scripted {

struct Piece {
    std::string bytes;
    uint32_t delay_ms = 0;  // before it
};

constexpr uint64_t kRepeatForever = UINT64_MAX;

struct ScriptOptions {
    bool plain = false;
    std::vector<Piece> pieces;
    uint64_t repeat = 1;
    bool echo = false;
    uint64_t fail_step = 0;  // 0: none
    bool fail_render = false;
    bool fail_open = false;
    bool samples = false;
    uint32_t prefill_us_per_token = 0;
    uint32_t step_us = 0;
    uint32_t sequences = 32;
    uint32_t sequence_tokens = 4096;
    uint32_t step_tokens = 256;
    uint32_t step_rows = 0;  // 0: as many as sequences
    uint32_t page_tokens = 16;
    uint32_t kv_tokens = 0;  // 0: sequences * sequence_tokens
    uint32_t prompt_bytes = 65408;
};

// False: *reason says what is wrong (static text).
bool options_read(const char* json, ScriptOptions* options, const char** reason);

}  // namespace aotx_scripted
