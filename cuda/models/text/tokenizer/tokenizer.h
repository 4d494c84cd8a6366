// Purpose:  text to tokens and back with the model file's own tokenizer: byte-level BPE with its
//           pre-tokenizer, or SentencePiece-style pieces with scores. Same tokens as llama.cpp.
// Owns:     the tables built at open; a scratch object owns what encoding writes to.
// Thread:   open on one thread; afterwards read-only and for any thread, one scratch each.
// Lifetime: open -> encode and token_bytes -> close. Token bytes live as long as the tokenizer;
//           the GgufFile must outlive it.
#pragma once

#include <cstdint>

#include "file/gguf.h"
#include "reason.h"

namespace aotx {

constexpr int32_t kTokenNone = -1;

// Mark of one byte of rendered text: who wrote it.
enum TextMark : uint8_t { kTextMarkUser = 0, kTextMarkFormat = 1 };

// Bits of Tokenizer::flags; values of enum aotx_text_token_flag.
enum TokenFlag : uint32_t { kTokenEnd = 1, kTokenControl = 2 };

// Text to encode. marks null: `parse_special` holds for all of it. marks given, one per byte: the
// text of a special token becomes that token only where every byte of it carries kTextMarkFormat,
// whatever parse_special says.
struct TextInput {
    const char* text = nullptr;
    const uint8_t* marks = nullptr;
    uint32_t bytes = 0;
    bool parse_special = false;
    bool add_start = false;  // begin and end as the file says: add_bos and add_eos rules
    // Chat rule, used with marks: a start token goes first when the file wants one (add_bos) and
    // the tokens do not begin with it already; never an end token. Not with add_start.
    bool add_start_if_absent = false;
};

struct TokenizerTables;
struct TokenizerScratchMemory;

// Working memory of one encoding at a time; sized once, then never grows.
class TokenizerScratch {
public:
    TokenizerScratch() noexcept;
    ~TokenizerScratch();
    TokenizerScratch(const TokenizerScratch&) = delete;
    TokenizerScratch& operator=(const TokenizerScratch&) = delete;

    // Room for texts of up to text_bytes_max bytes. AOTX_ERR_SYSTEM: no memory.
    [[nodiscard]] int open(uint32_t text_bytes_max) noexcept;
    uint64_t allocation_bytes() const noexcept;

private:
    friend class Tokenizer;
    std::unique_ptr<TokenizerScratchMemory> memory_;
};

class Tokenizer {
public:
    Tokenizer() noexcept;
    ~Tokenizer();
    Tokenizer(const Tokenizer&) = delete;
    Tokenizer& operator=(const Tokenizer&) = delete;

    // Build the tables from the file. AOTX_ERR_NOT_FOUND a required key is missing,
    // AOTX_ERR_RANGE, AOTX_ERR_SYNTAX a bad or unsupported value, AOTX_ERR_SYSTEM no memory; reason
    // names the field.
    [[nodiscard]] int open(const GgufFile& file, TextReason* reason) noexcept;
    void close() noexcept;

    uint32_t vocab_size() const noexcept;
    int32_t bos() const noexcept;  // kTokenNone when the file names none; likewise below
    int32_t eos() const noexcept;
    int32_t eot() const noexcept;
    bool add_bos() const noexcept;
    bool add_eos() const noexcept;
    uint32_t token_bytes_max() const noexcept;  // longest answer of token_bytes
    uint64_t allocation_bytes() const noexcept;

    // Bytes that the token stands for in a text; for a control token the text of its name. False
    // outside the vocabulary. [hot, any thread]
    [[nodiscard]] bool token_bytes(int32_t token, const uint8_t** bytes,
                                   uint32_t* bytes_count) const noexcept;
    // TokenFlag bits. 0 outside the vocabulary. [hot, any thread]
    uint32_t flags(int32_t token) const noexcept;
    // The token whose text is exactly this, as the vocabulary spells it; kTokenNone.
    int32_t find(const char* text, uint32_t bytes) const noexcept;

    // A token of kind "user defined" is matched in any text, unless its spelling is structure of
    // the chat format: ChatTemplate::open names those here, and they then count as special.
    void mark_structure(const char* literal, uint32_t bytes) noexcept;

    // Encode. tokens: i32 [capacity], its content is undefined unless AOTX_OK. *count: tokens
    // written; on AOTX_ERR_FULL the number needed, or 0 when the text exceeds the scratch.
    // AOTX_ERR_RANGE add_start asked for but the file names no start token. [hot: no allocation]
    [[nodiscard]] int encode(TokenizerScratch* scratch, const TextInput& input, int32_t* tokens,
                             uint32_t capacity, uint32_t* count) const noexcept;

private:
    bool begins_with_start(const TextInput& input, TokenizerScratchMemory* scratch) const noexcept;

    std::unique_ptr<TokenizerTables> tables_;
};

}  // namespace aotx
