// Purpose:  the scripted model behind script.h.
// Owns:     see script.h.
// Thread:   the stepper of the loop.
// Lifetime: from open to the last release.
#include "script.h"

#include <time.h>

#include <cerrno>

namespace aotx_scripted {

namespace {

constexpr float kSure = 1000.0f;  // logit of the scripted token; the others are 0

struct ByteTable {
    uint8_t bytes[256];
};

constexpr ByteTable byte_table()
{
    ByteTable table = {};
    for (unsigned i = 0; i < 256; i++) {
        table.bytes[i] = static_cast<uint8_t>(i);
    }
    return table;
}

constexpr ByteTable kBytes = byte_table();

void wait_us(uint64_t microseconds)
{
    if (microseconds == 0) {
        return;
    }
    timespec left = {};
    left.tv_sec = static_cast<time_t>(microseconds / 1000000u);
    left.tv_nsec = static_cast<long>(microseconds % 1000000u) * 1000;
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR) {
    }
}

uint32_t decimal_digits(int32_t value, char* digits)
{
    char reversed[12];
    uint32_t count = 0;
    do {
        reversed[count] = static_cast<char>('0' + value % 10);
        count++;
        value /= 10;
    } while (value != 0);
    for (uint32_t i = 0; i < count; i++) {
        digits[i] = reversed[count - 1u - i];
    }
    return count;
}

}  // namespace

bool Script::open(const ScriptOptions& options)
{
    options_ = options;
    properties_.struct_size = sizeof properties_;
    properties_.vocab_size =
        static_cast<uint32_t>(kTokenPiece) + static_cast<uint32_t>(options.pieces.size());
    properties_.sequences_max = options.sequences;
    properties_.sequence_tokens_max = options.sequence_tokens;
    properties_.step_tokens_max = options.step_tokens;
    properties_.step_rows_max = options.step_rows;
    properties_.page_tokens = options.page_tokens;
    properties_.pages_count = options.kv_tokens / options.page_tokens;
    properties_.prompt_bytes_max = options.prompt_bytes;
    properties_.token_bytes_max = 1;
    for (const Piece& piece : options.pieces) {
        const uint32_t bytes = static_cast<uint32_t>(piece.bytes.size());
        properties_.token_bytes_max =
            bytes > properties_.token_bytes_max ? bytes : properties_.token_bytes_max;
    }
    properties_.modalities = AOTX_MODALITY_TEXT;
    sequences_.resize(options.sequences);
    fed_.resize(static_cast<size_t>(options.sequences) * options.sequence_tokens);
    logits_.resize(static_cast<size_t>(options.step_rows) * properties_.vocab_size);
    pages_free_ = properties_.pages_count;
    properties_.allocation_bytes = sequences_.size() * sizeof(Sequence) +
                                   fed_.size() * sizeof(int32_t) + logits_.size() * sizeof(float);
    return true;
}

int Script::fail(int code, const char* text)
{
    last_error_ = text;
    return code;
}

int Script::done()
{
    last_error_ = "";
    return 0;
}

int Script::render(const aotx_text_message* messages, uint32_t messages_count, int32_t* tokens,
                   uint32_t tokens_capacity, uint32_t* tokens_count)
{
    if (messages == nullptr || messages_count == 0 || tokens_count == nullptr) {
        return fail(-1, "render: no messages");
    }
    if (options_.fail_render) {
        return fail(-6, "render: fails as scripted");
    }
    uint64_t needed = 2;
    uint64_t text_bytes = 0;
    for (uint32_t i = 0; i < messages_count; i++) {
        if (messages[i].role > AOTX_MESSAGE_ROLE_ASSISTANT) {
            return fail(-1, "render: no such role");
        }
        needed += 2;
        for (uint32_t j = 0; j < messages[i].parts_count; j++) {
            if (messages[i].parts[j].kind != AOTX_PART_KIND_TEXT) {
                return fail(-3, "render: text only");
            }
            text_bytes += messages[i].parts[j].bytes;
        }
    }
    needed += text_bytes;
    if (text_bytes > options_.prompt_bytes) {
        *tokens_count = 0;
        return fail(-5, "render: the prompt is longer than prompt_bytes");
    }
    *tokens_count = static_cast<uint32_t>(needed);
    if (needed > tokens_capacity) {
        return fail(-5, "render: more tokens than there is room for");
    }
    uint32_t at = 0;
    tokens[at++] = kTokenStart;
    for (uint32_t i = 0; i < messages_count; i++) {
        tokens[at++] = kTokenSystem + static_cast<int32_t>(messages[i].role);
        for (uint32_t j = 0; j < messages[i].parts_count; j++) {
            for (uint32_t k = 0; k < messages[i].parts[j].bytes; k++) {
                tokens[at++] = messages[i].parts[j].data[k];
            }
        }
        tokens[at++] = kTokenMessageEnd;
    }
    tokens[at++] = kTokenSystem + AOTX_MESSAGE_ROLE_ASSISTANT;
    return done();
}

int Script::tokenize(const uint8_t* text, uint32_t text_bytes, bool add_start, int32_t* tokens,
                     uint32_t tokens_capacity, uint32_t* tokens_count)
{
    const uint32_t needed = text_bytes + (add_start ? 1u : 0u);
    if (tokens_count == nullptr || (text == nullptr && text_bytes != 0)) {
        return fail(-1, "tokenize: no text");
    }
    *tokens_count = needed;
    if (needed > tokens_capacity) {
        return fail(-5, "tokenize: more tokens than there is room for");
    }
    uint32_t at = 0;
    if (add_start) {
        tokens[at++] = kTokenStart;
    }
    for (uint32_t i = 0; i < text_bytes; i++) {
        tokens[at++] = text[i];
    }
    return done();
}

int Script::token_bytes(int32_t token, const uint8_t** bytes, uint32_t* bytes_count,
                        uint32_t* flags)
{
    if (token < 0 || static_cast<uint32_t>(token) >= vocab()) {
        return -2;
    }
    *flags = 0;
    *bytes_count = 0;
    *bytes = kBytes.bytes;
    if (token < kTokenStart) {
        *bytes = kBytes.bytes + token;
        *bytes_count = 1;
    } else if (token >= kTokenPiece) {
        const Piece& piece = options_.pieces[static_cast<size_t>(token - kTokenPiece)];
        *bytes = reinterpret_cast<const uint8_t*>(piece.bytes.data());
        *bytes_count = static_cast<uint32_t>(piece.bytes.size());
    } else {
        // Structure has a spelling too; a host that prints it shows a fault.
        static const char spelling[] = "<control>";
        *bytes = reinterpret_cast<const uint8_t*>(spelling);
        *bytes_count = sizeof spelling - 1u;
        *flags = AOTX_TEXT_TOKEN_CONTROL;
        *flags |= token == kTokenEnd ? static_cast<uint32_t>(AOTX_TEXT_TOKEN_END) : 0u;
    }
    return 0;
}

int Script::sequence_open(uint32_t sequence, uint32_t tokens_max)
{
    if (sequence >= options_.sequences || sequences_[sequence].tokens_max != 0) {
        return fail(-1, "sequence_open: out of range or open already");
    }
    if (tokens_max == 0 || tokens_max > options_.sequence_tokens) {
        return fail(-4, "sequence_open: more tokens than a sequence holds");
    }
    const uint32_t pages = (tokens_max + options_.page_tokens - 1u) / options_.page_tokens;
    if (pages > pages_free_) {
        return fail(-5, "sequence_open: not enough pages");
    }
    pages_free_ -= pages;
    sequences_[sequence] = Sequence();
    sequences_[sequence].tokens_max = tokens_max;
    return done();
}

int Script::sequence_close(uint32_t sequence)
{
    if (sequence >= options_.sequences || sequences_[sequence].tokens_max == 0) {
        return fail(-1, "sequence_close: not open");
    }
    const uint32_t tokens_max = sequences_[sequence].tokens_max;
    pages_free_ += (tokens_max + options_.page_tokens - 1u) / options_.page_tokens;
    sequences_[sequence].tokens_max = 0;
    return done();
}

int Script::check_row(const aotx_text_row* rows, uint32_t index)
{
    const aotx_text_row& row = rows[index];
    if (row.sequence >= options_.sequences || sequences_[row.sequence].tokens_max == 0 ||
        row.tokens_count == 0 || row.tokens == nullptr || row.wants_logits > 1u ||
        row.zero_20 != 0) {
        return fail(-1, "step: a bad row");
    }
    for (uint32_t i = 0; i < index; i++) {
        if (rows[i].sequence == row.sequence) {
            return fail(-1, "step: a sequence twice");
        }
    }
    for (uint32_t i = 0; i < row.tokens_count; i++) {
        if (row.tokens[i] < 0 || static_cast<uint32_t>(row.tokens[i]) >= vocab()) {
            return fail(-1, "step: a token outside the vocabulary");
        }
    }
    const Sequence& sequence = sequences_[row.sequence];
    if (row.tokens_count > sequence.tokens_max - sequence.tokens_count) {
        return fail(-5, "step: more tokens than the sequence was opened for");
    }
    return 0;
}

int Script::check_step(const aotx_text_row* rows, uint32_t rows_count)
{
    if (rows == nullptr || rows_count == 0) {
        return fail(-1, "step: no rows");
    }
    if (rows_count > options_.step_rows) {
        return fail(-4, "step: more rows than a step takes");
    }
    uint64_t tokens = 0;
    for (uint32_t i = 0; i < rows_count; i++) {
        const int code = check_row(rows, i);
        if (code != 0) {
            return code;
        }
        tokens += rows[i].tokens_count;
    }
    return tokens > options_.step_tokens ? fail(-4, "step: more tokens than a step takes") : 0;
}

// The byte of "id id id" that comes next, over the prompt as it was fed.
int32_t Script::echo_token(const Sequence& sequence, const int32_t* fed)
{
    uint64_t left = sequence.produced;
    for (uint32_t i = 0; i < sequence.prompt_tokens; i++) {
        char digits[12];
        uint32_t count = decimal_digits(fed[i], digits);
        if (i + 1u < sequence.prompt_tokens) {
            digits[count] = ' ';
            count++;
        }
        if (left < count) {
            return digits[left];
        }
        left -= count;
    }
    return kTokenEnd;
}

int32_t Script::next_token(Sequence* sequence, const int32_t* fed, uint32_t* delay_ms)
{
    if (sequence->produced == 0) {
        sequence->prompt_tokens = sequence->tokens_count;
    }
    if (options_.echo) {
        return echo_token(*sequence, fed);
    }
    const uint64_t pieces = options_.pieces.size();
    const bool endless = options_.repeat == kRepeatForever && pieces > 0;
    if (!endless && sequence->produced >= pieces * options_.repeat) {
        return kTokenEnd;
    }
    const uint64_t piece = sequence->produced % pieces;
    const uint32_t piece_delay_ms = options_.pieces[piece].delay_ms;
    *delay_ms = piece_delay_ms > *delay_ms ? piece_delay_ms : *delay_ms;
    return kTokenPiece + static_cast<int32_t>(piece);
}

int Script::step(aotx_text_row* rows, uint32_t rows_count)
{
    const int checked = check_step(rows, rows_count);
    if (checked != 0) {
        return checked;
    }
    steps_++;
    if (options_.fail_step != 0 && steps_ == options_.fail_step) {
        return fail(-6, "step: fails as scripted");
    }
    uint32_t delay_ms = 0;
    uint64_t prefill_tokens = 0;
    for (uint32_t i = 0; i < rows_count; i++) {
        Sequence* const sequence = &sequences_[rows[i].sequence];
        int32_t* const fed =
            fed_.data() + static_cast<size_t>(rows[i].sequence) * options_.sequence_tokens;
        for (uint32_t j = 0; j < rows[i].tokens_count; j++) {
            fed[sequence->tokens_count] = rows[i].tokens[j];
            sequence->tokens_count++;
        }
        prefill_tokens += sequence->produced == 0 ? rows[i].tokens_count : 0u;
        rows[i].logits = nullptr;
        if (rows[i].wants_logits != 0) {
            float* const logits = logits_.data() + static_cast<size_t>(i) * vocab();
            const int32_t token = next_token(sequence, fed, &delay_ms);
            sequence->produced++;
            for (uint32_t j = 0; j < vocab(); j++) {
                logits[j] = 0.0f;
            }
            logits[token] = kSure;
            rows[i].logits = logits;
        }
    }
    wait_us(delay_ms * 1000ull + options_.step_us + prefill_tokens * options_.prefill_us_per_token);
    return done();
}

}  // namespace aotx_scripted
