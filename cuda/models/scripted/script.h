// Purpose:  the scripted model itself: a byte tokenizer, sequences that follow the script, steps.
// Owns:     every table, all taken at open.
// Thread:   the stepper of the loop; one thread at a time.
// Lifetime: from open to the last release.
//
// Tokens: 0..255 are bytes; 256 starts a text; 257, 258, 259 open a system, user, assistant
// message; 260 closes a message; 261 ends an answer; 262 and up are the pieces, one token each.
// A message array is rendered as 256, then for each message its opener, its bytes, 260, then 259.
#pragma once

#include <cstdint>
#include <vector>

#include "aotx/packet.h"
#include "aotx/text_runtime.h"
#include "options.h"

namespace aotx_scripted {

constexpr int32_t kTokenStart = 256;
constexpr int32_t kTokenSystem = 257;
constexpr int32_t kTokenMessageEnd = 260;
constexpr int32_t kTokenEnd = 261;
constexpr int32_t kTokenPiece = 262;

class Script {
public:
    bool open(const ScriptOptions& options);

    const ScriptOptions& options() const { return options_; }
    const aotx_text_properties& properties() const { return properties_; }
    uint32_t vocab() const { return properties_.vocab_size; }
    const char* last_error() const { return last_error_; }

    int fail(int code, const char* text);
    int done();
    int render(const aotx_text_message* messages, uint32_t messages_count, int32_t* tokens,
               uint32_t tokens_capacity, uint32_t* tokens_count);
    int tokenize(const uint8_t* text, uint32_t text_bytes, bool add_start, int32_t* tokens,
                 uint32_t tokens_capacity, uint32_t* tokens_count);
    int token_bytes(int32_t token, const uint8_t** bytes, uint32_t* bytes_count, uint32_t* flags);
    int sequence_open(uint32_t sequence, uint32_t tokens_max);
    int sequence_close(uint32_t sequence);
    int step(aotx_text_row* rows, uint32_t rows_count);

private:
    struct Sequence {
        uint32_t tokens_max = 0;  // 0: not open
        uint32_t tokens_count = 0;
        uint32_t prompt_tokens = 0;
        uint64_t produced = 0;
    };

    int check_row(const aotx_text_row* rows, uint32_t index);
    int check_step(const aotx_text_row* rows, uint32_t rows_count);
    int32_t next_token(Sequence* sequence, const int32_t* fed, uint32_t* delay_ms);
    int32_t echo_token(const Sequence& sequence, const int32_t* fed);

    ScriptOptions options_;
    aotx_text_properties properties_ = {};
    std::vector<Sequence> sequences_;
    std::vector<int32_t> fed_;   // [sequences][sequence_tokens]
    std::vector<float> logits_;  // [step_rows][vocab]
    uint32_t pages_free_ = 0;
    uint64_t steps_ = 0;
    const char* last_error_ = "";
};

}  // namespace aotx_scripted
