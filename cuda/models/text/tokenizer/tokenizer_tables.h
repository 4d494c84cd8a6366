// Purpose:  what a tokenizer knows after open and what an encoding works in. For the files of the
//           tokenizer alone.
// Owns:     the memory named in each struct.
// Thread:   as tokenizer.h.
// Lifetime: as tokenizer.h.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "tokenizer/pretokenize.h"
#include "tokenizer/tokenizer.h"

namespace aotx {

constexpr uint32_t kNoRank = UINT32_MAX;
constexpr uint32_t kNoIndex = UINT32_MAX;
constexpr uint32_t kVocabularyMax = 1u << 24;
constexpr uint32_t kTokenTextBytesMax = 65535;
constexpr uint32_t kSpecialsMax = 65536;

// Kind of a token, from tokenizer.ggml.token_type and from its text.
enum TokenKind : uint16_t {
    kKindNormal = 0x01,
    kKindUnknown = 0x02,
    kKindControl = 0x04,
    kKindUserDefined = 0x08,
    kKindUnused = 0x10,
    kKindByte = 0x20,
    kKindStripLeft = 0x40,   // blanks before it vanish
    kKindStripRight = 0x80,  // blanks behind it vanish
    kKindStructure = 0x100,  // user defined, but part of the chat format
    kKindEnd = 0x200
};

// Text of the vocabulary to token: open addressing, half full at most.
struct TextSlot {
    uint32_t tag;    // high half of the hash
    uint32_t token;  // kNoIndex: empty
};

// What joining two symbols gives. Symbols below vocab_size are tokens; others are spellings that
// only merges know.
struct MergeSlot {
    uint32_t left;
    uint32_t right;
    uint32_t rank;  // kNoRank: empty
    uint32_t result;
};

struct TokenizerTables {
    bool byte_level = false;
    const PreRule* rule = nullptr;
    bool add_bos = false;
    bool add_eos = false;
    bool add_space_prefix = false;
    bool ignore_merges = false;
    uint32_t vocab_size = 0;
    uint32_t text_bytes_max = 0;    // longest spelling
    uint32_t output_bytes_max = 0;  // longest answer of token_bytes
    uint64_t allocation_bytes = 0;
    int32_t bos = kTokenNone;
    int32_t eos = kTokenNone;
    int32_t eot = kTokenNone;
    int32_t unknown = kTokenNone;

    std::unique_ptr<std::string_view[]> texts;  // [vocab_size]
    std::unique_ptr<uint16_t[]> kinds;          // [vocab_size]
    std::unique_ptr<char[]> empty_names;        // spellings of tokens that the file left empty
    std::unique_ptr<uint32_t[]> output_begin;   // [vocab_size + 1]
    std::unique_ptr<uint8_t[]> output;          // bytes of every token, one behind the other
    std::unique_ptr<TextSlot[]> slots;
    uint32_t slots_mask = 0;

    // Byte-level BPE.
    uint32_t byte_symbols[256] = {};
    std::unique_ptr<MergeSlot[]> merges;
    uint32_t merges_mask = 0;
    std::unique_ptr<std::string_view[]> extra_texts;  // [symbol - vocab_size]
    std::unique_ptr<char[]> extra_pool;
    int32_t byte_names[128] = {};  // token spelled by one ASCII byte, or kTokenNone

    // SentencePiece style.
    std::unique_ptr<uint32_t[]> score_ranks;  // [vocab_size]; lower joins earlier
    int32_t byte_tokens[256] = {};

    // Tokens that may be matched before anything else: longest first, and by spelling.
    std::unique_ptr<int32_t[]> specials;
    std::unique_ptr<uint32_t[]> specials_by_text;  // indices into specials
    uint32_t specials_count = 0;
    uint32_t special_first[257] = {};  // where spellings with a first byte begin in by_text

    std::string_view text(uint32_t token) const noexcept { return texts[token]; }
    int32_t find(std::string_view text) const noexcept;
    const MergeSlot* find_merge(uint32_t left, uint32_t right) const noexcept;
};

inline uint64_t text_hash(const char* data, size_t bytes) noexcept
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < bytes; i++) {
        hash = (hash ^ static_cast<uint8_t>(data[i])) * UINT64_C(0x100000001b3);
    }
    return hash ^ (hash >> 29);
}

inline uint32_t pair_hash(uint32_t left, uint32_t right) noexcept
{
    const uint64_t both = static_cast<uint64_t>(left) << 32 | right;
    return static_cast<uint32_t>((both * UINT64_C(0x9e3779b97f4a7c15)) >> 32);
}

// The character by which byte-level vocabularies spell a byte.
uint32_t byte_level_character(uint8_t byte) noexcept;

// Memory of one encoding. N is text_bytes_max.
struct TokenizerScratchMemory {
    uint32_t text_bytes_max = 0;
    uint64_t allocation_bytes = 0;
    std::unique_ptr<uint8_t[]> block;
    char* normal = nullptr;            // [3 N + 8] one fragment, as the model's rules write it
    char* encoded = nullptr;           // [2 N + 8] one word in its byte-level spelling
    uint8_t* taken = nullptr;          // [N] the byte belongs to a special token or vanishes
    int32_t* special_at = nullptr;     // [N] the special token that begins here, or kTokenNone
    uint64_t* special_seen = nullptr;  // [kSpecialsMax / 64] bit by place in specials
    uint32_t* characters = nullptr;    // [N]
    uint16_t* classes = nullptr;       // [N]
    uint32_t* ends = nullptr;          // [N + 1]
    uint32_t* ends_next = nullptr;     // [N + 1]
    uint32_t symbols_max = 0;          // N + 8
    uint32_t* symbol = nullptr;        // [symbols_max] this and the arrays below
    uint32_t* begin = nullptr;         // of the symbol's text
    uint32_t* previous = nullptr;
    uint32_t* next = nullptr;
    uint32_t* rank = nullptr;    // of joining it with the next one
    uint32_t* result = nullptr;  // symbol that this gives
    uint32_t* heap = nullptr;
    uint32_t* heap_place = nullptr;
};

// Where tokens go: counts on beyond the capacity, so that the caller learns what is needed.
struct TokenSink {
    int32_t* tokens;
    uint32_t capacity;
    uint32_t count;
    void put(int32_t token) noexcept
    {
        if (count < capacity) {
            tokens[count] = token;
        }
        count++;
    }
};

// Find the special tokens of a text: fills scratch->taken and special_at for input.bytes bytes.
void find_specials(const TokenizerTables& tables, const TextInput& input,
                   TokenizerScratchMemory* scratch) noexcept;

// Encode text without special tokens. False: it exceeds the scratch.
[[nodiscard]] bool encode_byte_level(const TokenizerTables& tables, const char* text,
                                     uint32_t bytes, TokenizerScratchMemory* scratch,
                                     TokenSink* sink) noexcept;
[[nodiscard]] bool encode_pieces(const TokenizerTables& tables, const char* text, uint32_t bytes,
                                 bool prefix, TokenizerScratchMemory* scratch,
                                 TokenSink* sink) noexcept;

}  // namespace aotx
