// Purpose:  encode text, and answer for single tokens.
// Owns:     the memory of scratches.
// Thread:   as tokenizer.h.
// Lifetime: as tokenizer.h.
#include "tokenizer/tokenizer.h"

#include <cstring>
#include <new>

#include "aotx/status.h"
#include "tokenizer/merge.h"
#include "tokenizer/tokenizer_tables.h"
#include "tokenizer/unicode.h"

namespace aotx {

namespace {

constexpr char kBlankMark[] = "\xe2\x96\x81";  // how piece vocabularies spell a blank
constexpr uint32_t kBlankMarkBytes = 3;
constexpr uint32_t kTextBytesMaxMax = 1u << 26;

// Hands out the arrays of a block, or only counts them while the block is null.
struct Carver {
    uint8_t* block;
    uint64_t used;

    template <typename T>
    void take(T** array, uint64_t count) noexcept
    {
        used = (used + 63) / 64 * 64;
        if (block != nullptr) {
            *array = reinterpret_cast<T*>(block + used);
        }
        used += count * sizeof(T);
    }
};

void carve(TokenizerScratchMemory* memory, uint64_t n, Carver* carver) noexcept
{
    carver->take(&memory->normal, 3 * n + 8);
    carver->take(&memory->encoded, 2 * n + 8);
    carver->take(&memory->taken, n + 1);
    carver->take(&memory->special_at, n + 1);
    carver->take(&memory->special_seen, kSpecialsMax / 64);
    carver->take(&memory->characters, n + 1);
    carver->take(&memory->classes, n + 1);
    carver->take(&memory->ends, n + 1);
    carver->take(&memory->ends_next, n + 1);
    carver->take(&memory->symbol, n + 8);
    carver->take(&memory->begin, n + 8);
    carver->take(&memory->previous, n + 8);
    carver->take(&memory->next, n + 8);
    carver->take(&memory->rank, n + 8);
    carver->take(&memory->result, n + 8);
    carver->take(&memory->heap, n + 8);
    carver->take(&memory->heap_place, n + 8);
}

// Pairs of byte-level BPE: what the merges say about two symbols.
struct MergePairs {
    const TokenizerTables& tables;
    const TokenizerScratchMemory& scratch;
    uint32_t operator()(uint32_t left, uint32_t right, uint32_t, uint32_t* result) const noexcept
    {
        const MergeSlot* const merge =
            tables.find_merge(scratch.symbol[left], scratch.symbol[right]);
        if (merge == nullptr) {
            return kNoRank;
        }
        *result = merge->result;
        return merge->rank;
    }
};

// Pairs of pieces: two neighbours join when their text together is a token, best score first.
struct ScorePairs {
    const TokenizerTables& tables;
    const TokenizerScratchMemory& scratch;
    uint32_t operator()(uint32_t left, uint32_t, uint32_t text_end, uint32_t* result) const noexcept
    {
        const uint32_t begin = scratch.begin[left];
        if (text_end - begin > tables.text_bytes_max) {
            return kNoRank;
        }
        const int32_t token = tables.find({scratch.normal + begin, text_end - begin});
        if (token == kTokenNone) {
            return kNoRank;
        }
        *result = static_cast<uint32_t>(token);
        return tables.score_ranks[token];
    }
};

// The symbol as a token; a spelling that is none becomes those of its bytes that are tokens.
void put_symbol(const TokenizerTables& tables, uint32_t symbol, TokenSink* sink) noexcept
{
    if (symbol < tables.vocab_size) {
        sink->put(static_cast<int32_t>(symbol));
        return;
    }
    for (const char byte : tables.extra_texts[symbol - tables.vocab_size]) {
        const uint8_t value = static_cast<uint8_t>(byte);
        if (value < 128 && tables.byte_names[value] != kTokenNone) {
            sink->put(tables.byte_names[value]);
        }
    }
}

// The whole word as one token, where the family takes that over merges.
bool put_whole_word(const TokenizerTables& tables, const char* word, uint32_t bytes,
                    TokenizerScratchMemory* scratch, TokenSink* sink) noexcept
{
    if (!tables.ignore_merges || bytes > tables.text_bytes_max || bytes > scratch->text_bytes_max) {
        return false;
    }
    uint32_t length = 0;
    for (uint32_t i = 0; i < bytes; i++) {
        length += utf8_encode(byte_level_character(static_cast<uint8_t>(word[i])),
                              scratch->encoded + length);
    }
    const int32_t token = tables.find({scratch->encoded, length});
    if (token == kTokenNone) {
        return false;
    }
    sink->put(token);
    return true;
}

bool encode_word(const TokenizerTables& tables, const char* word, uint32_t bytes,
                 TokenizerScratchMemory* scratch, TokenSink* sink) noexcept
{
    if (put_whole_word(tables, word, bytes, scratch, sink)) {
        return true;
    }
    if (bytes > scratch->symbols_max) {
        return false;
    }
    for (uint32_t i = 0; i < bytes; i++) {
        scratch->symbol[i] = tables.byte_symbols[static_cast<uint8_t>(word[i])];
        scratch->begin[i] = i;
    }
    const MergePairs pairs = {tables, *scratch};
    Merger<MergePairs>(scratch, bytes, bytes, pairs).run();
    for (uint32_t i = 0; i != kNoIndex; i = scratch->next[i]) {
        put_symbol(tables, scratch->symbol[i], sink);
    }
    return true;
}

}  // namespace

bool encode_byte_level(const TokenizerTables& tables, const char* text, uint32_t bytes,
                       TokenizerScratchMemory* scratch, TokenSink* sink) noexcept
{
    uint32_t count = 0;
    for (uint32_t at = 0; at < bytes;) {
        uint32_t character = 0;
        at += utf8_decode(text + at, bytes - at, &character);
        scratch->characters[count] = character;
        scratch->classes[count] = unicode_class(character);
        count++;
    }
    PreWork work = {scratch->characters, scratch->classes, count, scratch->ends,
                    scratch->ends_next};
    const uint32_t pieces = pre_split(*tables.rule, &work);
    uint32_t character = 0;
    for (uint32_t i = 0; i < pieces; i++) {
        uint32_t length = 0;
        while (character < work.ends[i]) {
            length += utf8_encode(scratch->characters[character], scratch->normal + length);
            character++;
        }
        if (!encode_word(tables, scratch->normal, length, scratch, sink)) {
            return false;
        }
    }
    return true;
}

bool encode_pieces(const TokenizerTables& tables, const char* text, uint32_t bytes, bool prefix,
                   TokenizerScratchMemory* scratch, TokenSink* sink) noexcept
{
    uint32_t length = 0;
    if (prefix) {
        std::memcpy(scratch->normal, kBlankMark, kBlankMarkBytes);
        length = kBlankMarkBytes;
    }
    for (uint32_t i = 0; i < bytes; i++) {
        if (text[i] == ' ') {
            std::memcpy(scratch->normal + length, kBlankMark, kBlankMarkBytes);
            length += kBlankMarkBytes;
        } else {
            scratch->normal[length++] = text[i];
        }
    }
    uint32_t count = 0;
    for (uint32_t at = 0; at < length; count++) {
        const uint32_t want = utf8_length(scratch->normal[at]);
        const uint32_t have = want < length - at ? want : length - at;
        const int32_t token = tables.find({scratch->normal + at, have});
        scratch->symbol[count] = token == kTokenNone ? kNoIndex : static_cast<uint32_t>(token);
        scratch->begin[count] = at;
        at += have;
    }
    AOTX_TEXT_CHECK(count <= scratch->symbols_max);
    const ScorePairs pairs = {tables, *scratch};
    Merger<ScorePairs>(scratch, count, length, pairs).run();
    for (uint32_t i = 0; count != 0 && i != kNoIndex; i = scratch->next[i]) {
        if (scratch->symbol[i] != kNoIndex) {
            sink->put(static_cast<int32_t>(scratch->symbol[i]));
            continue;
        }
        const uint32_t next = scratch->next[i];
        const uint32_t end = next == kNoIndex ? length : scratch->begin[next];
        for (uint32_t at = scratch->begin[i]; at < end; at++) {
            sink->put(tables.byte_tokens[static_cast<uint8_t>(scratch->normal[at])]);
        }
    }
    return true;
}

TokenizerScratch::TokenizerScratch() noexcept = default;
TokenizerScratch::~TokenizerScratch() = default;

int TokenizerScratch::open(uint32_t text_bytes_max) noexcept
{
    AOTX_TEXT_CHECK(memory_ == nullptr);
    if (text_bytes_max > kTextBytesMaxMax) {
        return AOTX_ERR_RANGE;
    }
    std::unique_ptr<TokenizerScratchMemory> memory(new (std::nothrow) TokenizerScratchMemory);
    if (memory == nullptr) {
        return AOTX_ERR_SYSTEM;
    }
    Carver counter = {nullptr, 0};
    carve(memory.get(), text_bytes_max, &counter);
    memory->block.reset(new (std::nothrow) uint8_t[counter.used + 64]);
    if (memory->block == nullptr) {
        return AOTX_ERR_SYSTEM;
    }
    const uintptr_t address = reinterpret_cast<uintptr_t>(memory->block.get());
    Carver carver = {memory->block.get() + (64 - address % 64) % 64, 0};
    carve(memory.get(), text_bytes_max, &carver);
    memory->text_bytes_max = text_bytes_max;
    memory->symbols_max = text_bytes_max + 8;
    memory->allocation_bytes = counter.used + 64 + sizeof(TokenizerScratchMemory);
    memory_ = std::move(memory);
    return AOTX_OK;
}

uint64_t TokenizerScratch::allocation_bytes() const noexcept
{
    return memory_ == nullptr ? 0 : memory_->allocation_bytes;
}

Tokenizer::Tokenizer() noexcept = default;
Tokenizer::~Tokenizer() = default;

void Tokenizer::close() noexcept
{
    tables_.reset();
}

uint32_t Tokenizer::vocab_size() const noexcept
{
    return tables_->vocab_size;
}
int32_t Tokenizer::bos() const noexcept
{
    return tables_->bos;
}
int32_t Tokenizer::eos() const noexcept
{
    return tables_->eos;
}
int32_t Tokenizer::eot() const noexcept
{
    return tables_->eot;
}
bool Tokenizer::add_bos() const noexcept
{
    return tables_->add_bos;
}
bool Tokenizer::add_eos() const noexcept
{
    return tables_->add_eos;
}
uint32_t Tokenizer::token_bytes_max() const noexcept
{
    return tables_->output_bytes_max;
}
uint64_t Tokenizer::allocation_bytes() const noexcept
{
    return tables_->allocation_bytes;
}

bool Tokenizer::token_bytes(int32_t token, const uint8_t** bytes,
                            uint32_t* bytes_count) const noexcept
{
    if (token < 0 || static_cast<uint32_t>(token) >= tables_->vocab_size) {
        return false;
    }
    const uint32_t begin = tables_->output_begin[token];
    *bytes = tables_->output.get() + begin;
    *bytes_count = tables_->output_begin[token + 1] - begin;
    return true;
}

uint32_t Tokenizer::flags(int32_t token) const noexcept
{
    if (token < 0 || static_cast<uint32_t>(token) >= tables_->vocab_size) {
        return 0;
    }
    const uint16_t kind = tables_->kinds[token];
    const bool control = (kind & (kKindControl | kKindUnknown)) != 0;
    return ((kind & kKindEnd) != 0 ? uint32_t{kTokenEnd} : 0u) |
           (control ? uint32_t{kTokenControl} : 0u);
}

int32_t Tokenizer::find(const char* text, uint32_t bytes) const noexcept
{
    return tables_->find({text, bytes});
}

void Tokenizer::mark_structure(const char* literal, uint32_t bytes) noexcept
{
    for (uint32_t i = 0; i < tables_->specials_count; i++) {
        const uint32_t token = static_cast<uint32_t>(tables_->specials[i]);
        const std::string_view text = tables_->text(token);
        // Runs of blanks and plain words stay ordinary text; only spellings like <|user|> and
        // [INST] are structure.
        const bool bracketed = text.size() >= 3 && (text.front() == '<' || text.front() == '[');
        if (bracketed && memmem(literal, bytes, text.data(), text.size()) != nullptr) {
            tables_->kinds[token] |= kKindStructure;
        }
    }
}

namespace {

bool encode_fragment(const TokenizerTables& tables, const TextInput& input, uint32_t begin,
                     uint32_t end, bool first, TokenizerScratchMemory* scratch,
                     TokenSink* sink) noexcept
{
    if (tables.byte_level) {
        return encode_byte_level(tables, input.text + begin, end - begin, scratch, sink);
    }
    return encode_pieces(tables, input.text + begin, end - begin, first && tables.add_space_prefix,
                         scratch, sink);
}

// The text between special tokens, and those tokens. False: over the scratch.
bool encode_body(const TokenizerTables& tables, const TextInput& input,
                 TokenizerScratchMemory* scratch, TokenSink* sink) noexcept
{
    find_specials(tables, input, scratch);
    bool behind_special = true;  // a text begins as if behind one
    uint32_t at = 0;
    while (at < input.bytes) {
        if (scratch->special_at[at] != kTokenNone) {
            const int32_t token = scratch->special_at[at];
            sink->put(token);
            behind_special = true;
            at += static_cast<uint32_t>(tables.texts[token].size());
            continue;
        }
        if (scratch->taken[at] != 0) {
            at++;
            continue;
        }
        const void* const past = std::memchr(scratch->taken + at, 1, input.bytes - at);
        const uint32_t end =
            past == nullptr
                ? input.bytes
                : static_cast<uint32_t>(static_cast<const uint8_t*>(past) - scratch->taken);
        if (!encode_fragment(tables, input, at, end, behind_special, scratch, sink)) {
            return false;
        }
        behind_special = false;
        at = end;
    }
    return true;
}

}  // namespace

int Tokenizer::encode(TokenizerScratch* scratch, const TextInput& input, int32_t* tokens,
                      uint32_t capacity, uint32_t* count) const noexcept
{
    const TokenizerTables& tables = *tables_;
    TokenizerScratchMemory* const memory = scratch->memory_.get();
    AOTX_TEXT_CHECK(!(input.add_start && input.add_start_if_absent));
    *count = 0;
    if (input.bytes > memory->text_bytes_max) {
        return AOTX_ERR_FULL;
    }
    const bool want_start = (input.add_start || input.add_start_if_absent) && tables.add_bos;
    const bool want_end = input.add_start && tables.add_eos;
    if ((want_start && tables.bos == kTokenNone) || (want_end && tables.eos == kTokenNone)) {
        return AOTX_ERR_RANGE;
    }
    TokenSink sink = {tokens, capacity, 0};
    if (want_start && !(input.add_start_if_absent && begins_with_start(input, memory))) {
        sink.put(tables.bos);
    }
    if (!encode_body(tables, input, memory, &sink)) {
        return AOTX_ERR_FULL;
    }
    if (want_end) {
        sink.put(tables.eos);
    }
    *count = sink.count;
    return sink.count > capacity ? AOTX_ERR_FULL : AOTX_OK;
}

bool Tokenizer::begins_with_start(const TextInput& input,
                                  TokenizerScratchMemory* scratch) const noexcept
{
    find_specials(*tables_, input, scratch);
    for (uint32_t at = 0; at < input.bytes; at++) {
        if (scratch->special_at[at] != kTokenNone) {
            return scratch->special_at[at] == tables_->bos;
        }
        // Blanks that a format puts in front do not make a second start token right.
        const char byte = input.text[at];
        if (scratch->taken[at] == 0 && byte != ' ' && byte != '\n') {
            return false;
        }
    }
    return false;
}

}  // namespace aotx
