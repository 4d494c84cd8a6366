// Purpose:  build a tokenizer's tables from a model file. All memory is taken here, once.
// Owns:     nothing beyond the tables it fills.
// Thread:   one.
// Lifetime: one open.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <new>

#include "aotx/status.h"
#include "tokenizer/tokenizer_tables.h"
#include "tokenizer/unicode.h"

namespace aotx {

uint32_t byte_level_character(uint8_t byte) noexcept
{
    const bool printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
    if (printable) {
        return byte;
    }
    // The others, in order, take the characters from 256 on.
    if (byte <= 0x20) {
        return 256u + byte;
    }
    return byte == 0xad ? 256u + 33 + 34 : 256u + 33 + (byte - 0x7fu);
}

int32_t TokenizerTables::find(std::string_view spelling) const noexcept
{
    const uint64_t hash = text_hash(spelling.data(), spelling.size());
    const uint32_t tag = static_cast<uint32_t>(hash >> 32);
    uint32_t slot = static_cast<uint32_t>(hash) & slots_mask;
    while (slots[slot].token != kNoIndex) {
        if (slots[slot].tag == tag && texts[slots[slot].token] == spelling) {
            return static_cast<int32_t>(slots[slot].token);
        }
        slot = (slot + 1) & slots_mask;
    }
    return kTokenNone;
}

const MergeSlot* TokenizerTables::find_merge(uint32_t left, uint32_t right) const noexcept
{
    uint32_t slot = pair_hash(left, right) & merges_mask;
    while (merges[slot].rank != kNoRank) {
        if (merges[slot].left == left && merges[slot].right == right) {
            return &merges[slot];
        }
        slot = (slot + 1) & merges_mask;
    }
    return nullptr;
}

namespace {

constexpr char kKeyModel[] = "tokenizer.ggml.model";
constexpr char kKeyPre[] = "tokenizer.ggml.pre";
constexpr char kKeyTokens[] = "tokenizer.ggml.tokens";
constexpr char kKeyTypes[] = "tokenizer.ggml.token_type";
constexpr char kKeyScores[] = "tokenizer.ggml.scores";
constexpr char kKeyMerges[] = "tokenizer.ggml.merges";
constexpr uint32_t kMergesMax = 1u << 24;
constexpr uint32_t kEmptyNameBytes = 24;

uint32_t power_of_two_over(uint64_t count) noexcept
{
    uint32_t power = 16;
    while (power < count) {
        power *= 2;
    }
    return power;
}

// Takes an array and counts it. Null when there is no memory.
template <typename T>
bool take(std::unique_ptr<T[]>* array, uint64_t count, uint64_t* allocation_bytes) noexcept
{
    array->reset(new (std::nothrow) T[count]);
    *allocation_bytes += count * sizeof(T);
    return *array != nullptr;
}

// Spellings that merges know and the vocabulary does not, while merges are read.
struct ExtraSpellings {
    std::unique_ptr<uint32_t[]> slots;  // kNoIndex: empty
    uint32_t mask = 0;
    uint32_t count = 0;
    uint32_t count_max = 0;
    uint64_t pool_used = 0;
    uint64_t pool_bytes = 0;
};

class Builder {
public:
    Builder(const GgufFile& file, TokenizerTables* tables, TextReason* reason) noexcept
        : file_(file), t_(tables), reason_(reason)
    {
    }
    int build() noexcept;

private:
    int no_memory() noexcept
    {
        return text_refuse(reason_, AOTX_ERR_SYSTEM, kKeyTokens, "no memory for the tables");
    }
    int missing(const char* key) noexcept
    {
        return text_refuse(reason_, AOTX_ERR_NOT_FOUND, key, "is missing");
    }
    int read_model() noexcept;
    int read_rule() noexcept;
    int read_texts() noexcept;
    int name_empty_tokens(uint32_t empty_count) noexcept;
    int index_texts() noexcept;
    int read_kinds() noexcept;
    int read_scores() noexcept;
    int check_scores(const GgufArray& scores) noexcept;
    int read_byte_tokens() noexcept;
    int read_merges() noexcept;
    int enter_merge(std::string_view line, uint32_t rank) noexcept;
    int enter_byte_symbols() noexcept;
    int shrink_extra_spellings() noexcept;
    uint32_t symbol_of(std::string_view spelling) noexcept;
    int read_flags() noexcept;
    int read_id(const char* key, int32_t* token) noexcept;
    int read_ids() noexcept;
    void find_ends() noexcept;
    void force_control(int32_t token) noexcept;
    void find_fill_in_middle(int32_t* pad, int32_t* repository, int32_t* separator) noexcept;
    void mark_end(int32_t token) noexcept;
    void apply_exceptions() noexcept;
    int collect_specials() noexcept;
    void strip_by_family() noexcept;
    int write_outputs() noexcept;
    uint32_t output_of(uint32_t token, uint8_t* out) const noexcept;

    int32_t find(const char* spelling) const noexcept { return t_->find(spelling); }

    const GgufFile& file_;
    TokenizerTables* const t_;
    TextReason* const reason_;
    ExtraSpellings extra_;
};

int Builder::read_model() noexcept
{
    std::string_view model;
    const int result = file_.get_string(kKeyModel, &model, reason_);
    if (result == AOTX_ERR_NOT_FOUND) {
        return missing(kKeyModel);
    }
    if (result != AOTX_OK) {
        return result;
    }
    if (model == "gpt2") {
        t_->byte_level = true;
        t_->bos = 11;
        t_->eos = 11;
        return read_rule();
    }
    if (model == "llama") {
        t_->bos = 1;
        t_->eos = 2;
        t_->unknown = 0;
        t_->add_bos = true;
        t_->add_space_prefix = true;
        return AOTX_OK;
    }
    text_refuse(reason_, AOTX_ERR_RANGE, model, "tokenizer.ggml.model is neither gpt2 nor llama");
    return AOTX_ERR_RANGE;
}

int Builder::read_rule() noexcept
{
    std::string_view name = "default";
    const int result = file_.get_string(kKeyPre, &name, reason_);
    if (result != AOTX_OK && result != AOTX_ERR_NOT_FOUND) {
        return result;
    }
    t_->rule = pre_rule_find(name.empty() ? std::string_view("default") : name);
    if (t_->rule == nullptr) {
        return text_refuse(reason_, AOTX_ERR_RANGE, name,
                           "tokenizer.ggml.pre is a pre-tokenizer that is not known");
    }
    t_->ignore_merges = t_->rule->ignore_merges;
    t_->add_bos = t_->rule->add_bos;
    if (t_->rule->no_bos) {
        t_->bos = kTokenNone;
    }
    return AOTX_OK;
}

int Builder::name_empty_tokens(uint32_t empty_count) noexcept
{
    if (empty_count == 0) {
        return AOTX_OK;
    }
    if (!take(&t_->empty_names, uint64_t{empty_count} * kEmptyNameBytes, &t_->allocation_bytes)) {
        return no_memory();
    }
    char* at = t_->empty_names.get();
    for (uint32_t i = 0; i < t_->vocab_size; i++) {
        if (t_->texts[i].empty()) {
            const int length = std::snprintf(at, kEmptyNameBytes, "[EMPTY_%u]", i);
            t_->texts[i] = {at, static_cast<size_t>(length)};
            at += kEmptyNameBytes;
        }
    }
    return AOTX_OK;
}

int Builder::read_texts() noexcept
{
    GgufArray array;
    const int result = file_.get_array(kKeyTokens, GgufValueType::kString, &array, reason_);
    if (result == AOTX_ERR_NOT_FOUND) {
        return missing(kKeyTokens);
    }
    if (result != AOTX_OK) {
        return result;
    }
    if (array.count == 0 || array.count > kVocabularyMax) {
        return text_refuse_number(reason_, AOTX_ERR_RANGE, kKeyTokens,
                                  "not 1 to 16777216 tokens but", array.count);
    }
    t_->vocab_size = static_cast<uint32_t>(array.count);
    if (!take(&t_->texts, t_->vocab_size, &t_->allocation_bytes)) {
        return no_memory();
    }
    GgufStringCursor cursor(array);
    uint32_t empty_count = 0;
    for (uint32_t i = 0; i < t_->vocab_size; i++) {
        AOTX_TEXT_CHECK(cursor.next(&t_->texts[i]));
        const size_t bytes = t_->texts[i].size();
        if (bytes > kTokenTextBytesMax) {
            return text_refuse_number(reason_, AOTX_ERR_RANGE, kKeyTokens,
                                      "longer than 65535 bytes: token", i);
        }
        empty_count += bytes == 0 ? 1 : 0;
        t_->text_bytes_max = std::max(t_->text_bytes_max, static_cast<uint32_t>(bytes));
    }
    if (const int named = name_empty_tokens(empty_count); named != AOTX_OK) {
        return named;
    }
    return index_texts();
}

int Builder::index_texts() noexcept
{
    const uint32_t slots = power_of_two_over(uint64_t{t_->vocab_size} * 2);
    if (!take(&t_->slots, slots, &t_->allocation_bytes)) {
        return no_memory();
    }
    std::fill_n(t_->slots.get(), slots, TextSlot{0, kNoIndex});
    t_->slots_mask = slots - 1;
    for (uint32_t i = 0; i < t_->vocab_size; i++) {
        const std::string_view text = t_->texts[i];
        if (t_->find(text) != kTokenNone) {
            return text_refuse_number(reason_, AOTX_ERR_RANGE, kKeyTokens,
                                      "spelled like an earlier one: token", i);
        }
        const uint64_t hash = text_hash(text.data(), text.size());
        uint32_t slot = static_cast<uint32_t>(hash) & t_->slots_mask;
        while (t_->slots[slot].token != kNoIndex) {
            slot = (slot + 1) & t_->slots_mask;
        }
        t_->slots[slot] = {static_cast<uint32_t>(hash >> 32), i};
    }
    return AOTX_OK;
}

int Builder::read_kinds() noexcept
{
    constexpr uint16_t kStored[] = {
        0, kKindNormal, kKindUnknown, kKindControl, kKindUserDefined, kKindUnused, kKindByte};
    if (!take(&t_->kinds, t_->vocab_size, &t_->allocation_bytes)) {
        return no_memory();
    }
    std::fill_n(t_->kinds.get(), t_->vocab_size, uint16_t{kKindNormal});
    GgufArray types;
    const int result = file_.get_array(kKeyTypes, GgufValueType::kI32, &types, reason_);
    if (result == AOTX_ERR_NOT_FOUND) {
        return AOTX_OK;
    }
    if (result != AOTX_OK) {
        return result;
    }
    if (types.count < t_->vocab_size) {
        return text_refuse_number(reason_, AOTX_ERR_LENGTH, kKeyTypes,
                                  "fewer than there are tokens,", types.count);
    }
    for (uint32_t i = 0; i < t_->vocab_size; i++) {
        const int64_t stored = gguf_array_integer(types, i);
        t_->kinds[i] = stored >= 0 && stored <= 6 ? kStored[stored] : uint16_t{0};
    }
    return AOTX_OK;
}

int Builder::check_scores(const GgufArray& scores) noexcept
{
    if (scores.count < t_->vocab_size) {
        return text_refuse_number(reason_, AOTX_ERR_LENGTH, kKeyScores,
                                  "fewer than there are tokens,", scores.count);
    }
    for (uint32_t i = 0; i < t_->vocab_size; i++) {
        if (std::isnan(gguf_array_float(scores, i))) {
            return text_refuse_number(reason_, AOTX_ERR_RANGE, kKeyScores, "not a number: token",
                                      i);
        }
    }
    return AOTX_OK;
}

// Scores as ranks: tokens with a higher score get a lower rank, equal scores equal ranks.
int Builder::read_scores() noexcept
{
    if (!take(&t_->score_ranks, t_->vocab_size, &t_->allocation_bytes)) {
        return no_memory();
    }
    std::fill_n(t_->score_ranks.get(), t_->vocab_size, 0u);
    GgufArray scores;
    int result = file_.get_array(kKeyScores, GgufValueType::kF32, &scores, nullptr);
    if (result == AOTX_ERR_RANGE) {
        result = file_.get_array(kKeyScores, GgufValueType::kI32, &scores, reason_);
    }
    if (result == AOTX_ERR_NOT_FOUND) {
        return AOTX_OK;
    }
    if (result != AOTX_OK) {
        return result;
    }
    if (const int checked = check_scores(scores); checked != AOTX_OK) {
        return checked;
    }
    uint64_t temporary_bytes = 0;
    std::unique_ptr<uint32_t[]> order;
    if (!take(&order, t_->vocab_size, &temporary_bytes)) {
        return no_memory();
    }
    for (uint32_t i = 0; i < t_->vocab_size; i++) {
        order[i] = i;
    }
    std::sort(order.get(), order.get() + t_->vocab_size, [&scores](uint32_t a, uint32_t b) {
        return gguf_array_float(scores, a) > gguf_array_float(scores, b);
    });
    uint32_t rank = 0;
    for (uint32_t i = 0; i < t_->vocab_size; i++) {
        if (i > 0 && gguf_array_float(scores, order[i - 1]) > gguf_array_float(scores, order[i])) {
            rank = i;
        }
        t_->score_ranks[order[i]] = rank;
    }
    return AOTX_OK;
}

// What a byte that no piece covers becomes.
int Builder::read_byte_tokens() noexcept
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        char name[8];
        std::snprintf(name, sizeof name, "<0x%02X>", byte);
        const char raw = static_cast<char>(byte);
        int32_t token = t_->find(name);
        if (token == kTokenNone) {
            token = t_->find({&raw, 1});
        }
        if (token == kTokenNone) {
            token = t_->unknown;
        }
        if (token == kTokenNone) {
            return text_refuse(reason_, AOTX_ERR_NOT_FOUND, name,
                               "tokenizer.ggml.tokens lacks this byte and an unknown token");
        }
        t_->byte_tokens[byte] = token;
    }
    return AOTX_OK;
}

// The symbol of a spelling: its token, or a number behind the vocabulary. kNoIndex: no room, which
// the counting before rules out.
uint32_t Builder::symbol_of(std::string_view spelling) noexcept
{
    if (const int32_t token = t_->find(spelling); token != kTokenNone) {
        return static_cast<uint32_t>(token);
    }
    uint32_t slot =
        static_cast<uint32_t>(text_hash(spelling.data(), spelling.size())) & extra_.mask;
    while (extra_.slots[slot] != kNoIndex) {
        if (t_->extra_texts[extra_.slots[slot]] == spelling) {
            return t_->vocab_size + extra_.slots[slot];
        }
        slot = (slot + 1) & extra_.mask;
    }
    AOTX_TEXT_CHECK(extra_.count < extra_.count_max);
    AOTX_TEXT_CHECK(extra_.pool_used + spelling.size() <= extra_.pool_bytes);
    char* const copy = t_->extra_pool.get() + extra_.pool_used;
    std::memcpy(copy, spelling.data(), spelling.size());
    extra_.pool_used += spelling.size();
    t_->extra_texts[extra_.count] = {copy, spelling.size()};
    extra_.slots[slot] = extra_.count;
    return t_->vocab_size + extra_.count++;
}

int Builder::enter_byte_symbols() noexcept
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        char spelling[4];
        const uint32_t length =
            utf8_encode(byte_level_character(static_cast<uint8_t>(byte)), spelling);
        t_->byte_symbols[byte] = symbol_of({spelling, length});
    }
    for (uint32_t byte = 0; byte < 128; byte++) {
        const char raw = static_cast<char>(byte);
        t_->byte_names[byte] = t_->find({&raw, 1});
    }
    return AOTX_OK;
}

// The spellings were counted generously; keep what is used.
int Builder::shrink_extra_spellings() noexcept
{
    std::unique_ptr<std::string_view[]> texts;
    std::unique_ptr<char[]> pool;
    if (!take(&texts, uint64_t{extra_.count} + 1, &t_->allocation_bytes) ||
        !take(&pool, extra_.pool_used + 1, &t_->allocation_bytes)) {
        return no_memory();
    }
    std::memcpy(pool.get(), t_->extra_pool.get(), extra_.pool_used);
    for (uint32_t i = 0; i < extra_.count; i++) {
        const std::string_view text = t_->extra_texts[i];
        texts[i] = {pool.get() + (text.data() - t_->extra_pool.get()), text.size()};
    }
    t_->extra_texts = std::move(texts);
    t_->extra_pool = std::move(pool);
    return AOTX_OK;
}

// "left right": the first blank behind the first byte parts them.
int Builder::enter_merge(std::string_view line, uint32_t rank) noexcept
{
    const size_t blank = line.size() < 2 ? std::string_view::npos : line.find(' ', 1);
    if (blank == std::string_view::npos || blank + 1 == line.size()) {
        return AOTX_OK;  // joins nothing that a text can hold
    }
    const std::string_view left = line.substr(0, blank);
    const std::string_view right = line.substr(blank + 1);
    char joined[2 * kTokenTextBytesMax];
    std::memcpy(joined, left.data(), left.size());
    std::memcpy(joined + left.size(), right.data(), right.size());
    const MergeSlot merge = {symbol_of(left), symbol_of(right), rank,
                             symbol_of({joined, left.size() + right.size()})};
    uint32_t slot = pair_hash(merge.left, merge.right) & t_->merges_mask;
    while (t_->merges[slot].rank != kNoRank) {
        if (t_->merges[slot].left == merge.left && t_->merges[slot].right == merge.right) {
            return AOTX_OK;  // the earlier one counts
        }
        slot = (slot + 1) & t_->merges_mask;
    }
    t_->merges[slot] = merge;
    return AOTX_OK;
}

int Builder::read_merges() noexcept
{
    GgufArray array;
    const int result = file_.get_array(kKeyMerges, GgufValueType::kString, &array, reason_);
    if (result == AOTX_ERR_NOT_FOUND) {
        return missing(kKeyMerges);
    }
    if (result != AOTX_OK) {
        return result;
    }
    if (array.count > kMergesMax) {
        return text_refuse_number(reason_, AOTX_ERR_RANGE, kKeyMerges, "too many,", array.count);
    }
    std::string_view line;
    uint64_t bytes = 0;
    for (GgufStringCursor cursor(array); cursor.next(&line);) {
        if (line.size() > kTokenTextBytesMax) {
            return text_refuse(reason_, AOTX_ERR_RANGE, kKeyMerges, "one exceeds 65535 bytes");
        }
        bytes += line.size();
    }
    const uint32_t count = static_cast<uint32_t>(array.count);
    uint64_t temporary_bytes = 0;
    extra_.count_max = 3 * count + 256;
    extra_.pool_bytes = 2 * bytes + 512;
    extra_.mask = power_of_two_over(uint64_t{extra_.count_max} * 2) - 1;
    const uint32_t slots = power_of_two_over(uint64_t{count} * 3 / 2 + 1);
    if (!take(&extra_.slots, uint64_t{extra_.mask} + 1, &temporary_bytes) ||
        !take(&t_->extra_texts, extra_.count_max, &temporary_bytes) ||
        !take(&t_->extra_pool, extra_.pool_bytes, &temporary_bytes) ||
        !take(&t_->merges, slots, &t_->allocation_bytes)) {
        return no_memory();
    }
    std::fill_n(extra_.slots.get(), extra_.mask + 1, kNoIndex);
    std::fill_n(t_->merges.get(), slots, MergeSlot{0, 0, kNoRank, 0});
    t_->merges_mask = slots - 1;
    if (const int entered = enter_byte_symbols(); entered != AOTX_OK) {
        return entered;
    }
    uint32_t rank = 0;
    for (GgufStringCursor cursor(array); cursor.next(&line); rank++) {
        if (const int entered = enter_merge(line, rank); entered != AOTX_OK) {
            return entered;
        }
    }
    return shrink_extra_spellings();
}

int Builder::read_flags() noexcept
{
    const struct {
        const char* key;
        bool* flag;
    } rows[] = {{"tokenizer.ggml.add_bos_token", &t_->add_bos},
                {"tokenizer.ggml.add_eos_token", &t_->add_eos},
                {"tokenizer.ggml.add_space_prefix", &t_->add_space_prefix}};
    for (const auto& row : rows) {
        const int result = file_.get_bool(row.key, row.flag, reason_);
        if (result != AOTX_OK && result != AOTX_ERR_NOT_FOUND) {
            return result;
        }
    }
    return AOTX_OK;
}

// A token that the file names, over the family's default. A number outside the vocabulary, which
// converters write for "none", leaves the default.
int Builder::read_id(const char* key, int32_t* token) noexcept
{
    if (*token != kTokenNone && static_cast<uint32_t>(*token) >= t_->vocab_size) {
        *token = kTokenNone;
    }
    uint32_t stored = 0;
    const int result = file_.get_u32(key, &stored, reason_);
    if (result == AOTX_ERR_NOT_FOUND) {
        return AOTX_OK;
    }
    if (result != AOTX_OK) {
        return result;
    }
    if (stored < t_->vocab_size) {
        *token = static_cast<int32_t>(stored);
    }
    return AOTX_OK;
}

void Builder::force_control(int32_t token) noexcept
{
    t_->kinds[token] |= kKindControl;
}

void Builder::mark_end(int32_t token) noexcept
{
    if (token != kTokenNone) {
        t_->kinds[token] |= kKindEnd;
    }
}

// Fill-in-the-middle tokens that a file does not name are known by their spelling. Three of the
// kinds end a generation.
void Builder::find_fill_in_middle(int32_t* pad, int32_t* repository, int32_t* separator) noexcept
{
    static const char* const kPrefix[] = {"<|fim_prefix|>",
                                          "<fim-prefix>",
                                          "<fim_prefix>",
                                          "<\xef\xbd\x9c"
                                          "fim\xe2\x96\x81"
                                          "begin\xef\xbd\x9c>",
                                          "<PRE>",
                                          "\xe2\x96\x81<PRE>",
                                          "<|code_prefix|>",
                                          "<|prefix|>"};
    static const char* const kSuffix[] = {"<|fim_suffix|>",
                                          "<fim-suffix>",
                                          "<fim_suffix>",
                                          "<\xef\xbd\x9c"
                                          "fim\xe2\x96\x81"
                                          "hole\xef\xbd\x9c>",
                                          "<SUF>",
                                          "\xe2\x96\x81<SUF>",
                                          "<|code_suffix|>",
                                          "<|suffix|>"};
    static const char* const kMiddle[] = {"<|fim_middle|>",
                                          "<fim-middle>",
                                          "<fim_middle>",
                                          "<\xef\xbd\x9c"
                                          "fim\xe2\x96\x81"
                                          "end\xef\xbd\x9c>",
                                          "<MID>",
                                          "\xe2\x96\x81<MID>",
                                          "<|code_middle|>",
                                          "<|middle|>"};
    static const char* const kPad[] = {"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"};
    static const char* const kRepository[] = {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>",
                                              "<REPO>", "<reponame>"};
    static const char* const kSeparator[] = {"<|file_sep|>"};
    int32_t prefix = kTokenNone;
    int32_t suffix = kTokenNone;
    int32_t middle = kTokenNone;
    read_id("tokenizer.ggml.fim_pre_token_id", &prefix);
    read_id("tokenizer.ggml.prefix_token_id", &prefix);
    read_id("tokenizer.ggml.fim_suf_token_id", &suffix);
    read_id("tokenizer.ggml.suffix_token_id", &suffix);
    read_id("tokenizer.ggml.fim_mid_token_id", &middle);
    read_id("tokenizer.ggml.middle_token_id", &middle);
    const auto by_spelling = [this](const char* const* names, size_t count, int32_t* token) {
        for (size_t i = 0; i < count && *token == kTokenNone; i++) {
            *token = find(names[i]);
            if (*token != kTokenNone) {
                force_control(*token);
            }
        }
    };
    by_spelling(kPrefix, std::size(kPrefix), &prefix);
    by_spelling(kSuffix, std::size(kSuffix), &suffix);
    by_spelling(kMiddle, std::size(kMiddle), &middle);
    by_spelling(kPad, std::size(kPad), pad);
    by_spelling(kRepository, std::size(kRepository), repository);
    by_spelling(kSeparator, std::size(kSeparator), separator);
}

constexpr const char* kEotNames[] = {"<|eot_id|>",
                                     "<|im_end|>",
                                     "<|end|>",
                                     "<end_of_turn>",
                                     "<|endoftext|>",
                                     "<|end_of_text|>",
                                     "<EOT>",
                                     "_<EOT>",
                                     "[EOT]",
                                     "<\xef\xbd\x9c"
                                     "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>",
                                     "<end_of_utterance>"};
constexpr const char* kEndNames[] = {"<|eot_id|>",
                                     "<|im_end|>",
                                     "<|end|>",
                                     "<|return|>",
                                     "<|call|>",
                                     "<|flush|>",
                                     "<|calls|>",
                                     "<end_of_turn>",
                                     "<|endoftext|>",
                                     "</s>",
                                     "<|eom_id|>",
                                     "<EOT>",
                                     "_<EOT>",
                                     "[EOT]",
                                     "[EOS]",
                                     "<|end_of_text|>",
                                     "<end_of_utterance>",
                                     "<eos>",
                                     "<turn|>",
                                     "<|tool_response>",
                                     "<\xef\xbd\x9c"
                                     "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>",
                                     "[e~["};

int Builder::read_ids() noexcept
{
    int32_t eom = kTokenNone;
    int32_t pad = kTokenNone;
    int32_t repository = kTokenNone;
    int32_t separator = kTokenNone;
    const struct {
        const char* key;
        int32_t* token;
    } rows[] = {{"tokenizer.ggml.bos_token_id", &t_->bos},
                {"tokenizer.ggml.eos_token_id", &t_->eos},
                {"tokenizer.ggml.eot_token_id", &t_->eot},
                {"tokenizer.ggml.eom_token_id", &eom},
                {"tokenizer.ggml.unknown_token_id", &t_->unknown},
                {"tokenizer.ggml.fim_pad_token_id", &pad},
                {"tokenizer.ggml.fim_rep_token_id", &repository},
                {"tokenizer.ggml.fim_sep_token_id", &separator}};
    for (const auto& row : rows) {
        if (const int result = read_id(row.key, row.token); result != AOTX_OK) {
            return result;
        }
    }
    for (size_t i = 0; i < std::size(kEotNames) && t_->eot == kTokenNone; i++) {
        t_->eot = find(kEotNames[i]);
        if (t_->eot != kTokenNone) {
            force_control(t_->eot);
        }
    }
    if (eom == kTokenNone) {
        eom = find("<|eom_id|>");
    }
    find_fill_in_middle(&pad, &repository, &separator);
    for (const int32_t token : {pad, repository, separator}) {
        mark_end(token);
    }
    find_ends();
    for (const int32_t token : {t_->eos, t_->eot, eom}) {
        mark_end(token);
    }
    apply_exceptions();
    return AOTX_OK;
}

void Builder::find_ends() noexcept
{
    for (const char* const name : kEndNames) {
        if (const int32_t token = find(name); token != kTokenNone) {
            mark_end(token);
            force_control(token);
        }
    }
    // Parts of a format whose text answers carry.
    for (const char* const name : {"<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"}) {
        if (const int32_t token = find(name); token != kTokenNone) {
            const uint16_t end = t_->kinds[token] & kKindEnd;
            t_->kinds[token] = static_cast<uint16_t>(kKindUserDefined | end);
        }
    }
}

void Builder::apply_exceptions() noexcept
{
    const auto ends = [this](const char* name) {
        const int32_t token = find(name);
        return token != kTokenNone && (t_->kinds[token] & kKindEnd) != 0;
    };
    // Formats in which <|end|> closes a part and not the answer.
    const bool call = ends("<|call|>") || ends("<|calls|>");
    if (call && (ends("<|return|>") || ends("<|flush|>")) && ends("<|end|>")) {
        t_->kinds[find("<|end|>")] = kKindUserDefined;
    }
    // Vocabularies in which </s> is a word like any other.
    if ((ends("<|tool_response>") || ends("<|plamo:eos|>")) && ends("</s>")) {
        t_->kinds[find("</s>")] = kKindNormal;
    }
}

int Builder::collect_specials() noexcept
{
    constexpr uint16_t kMask = kKindControl | kKindUserDefined | kKindUnknown;
    for (uint32_t i = 0; i < t_->vocab_size; i++) {
        t_->specials_count += (t_->kinds[i] & kMask) != 0 ? 1 : 0;
    }
    if (t_->specials_count > kSpecialsMax) {
        return text_refuse_number(reason_, AOTX_ERR_RANGE, kKeyTypes,
                                  "more than 65536 special tokens,", t_->specials_count);
    }
    if (!take(&t_->specials, uint64_t{t_->specials_count} + 1, &t_->allocation_bytes) ||
        !take(&t_->specials_by_text, uint64_t{t_->specials_count} + 1, &t_->allocation_bytes)) {
        return no_memory();
    }
    uint32_t count = 0;
    for (uint32_t i = 0; i < t_->vocab_size; i++) {
        if ((t_->kinds[i] & kMask) != 0) {
            t_->specials_by_text[count] = count;
            t_->specials[count++] = static_cast<int32_t>(i);
        }
    }
    const TokenizerTables& tables = *t_;
    std::sort(t_->specials.get(), t_->specials.get() + count, [&tables](int32_t a, int32_t b) {
        const size_t bytes_a = tables.texts[a].size();
        const size_t bytes_b = tables.texts[b].size();
        return bytes_a != bytes_b ? bytes_a > bytes_b : a < b;
    });
    const auto spelling = [&tables](uint32_t order) {
        return tables.texts[tables.specials[order]];
    };
    std::sort(t_->specials_by_text.get(), t_->specials_by_text.get() + count,
              [&spelling](uint32_t a, uint32_t b) { return spelling(a) < spelling(b); });
    uint32_t row = 0;
    for (uint32_t byte = 0; byte <= 256; byte++) {
        while (row < count && static_cast<uint8_t>(spelling(t_->specials_by_text[row])[0]) < byte) {
            row++;
        }
        t_->special_first[byte] = row;
    }
    return AOTX_OK;
}

// The one family whose special tokens swallow the blanks behind them, which files do not say.
void Builder::strip_by_family() noexcept
{
    std::string_view name;
    if (file_.get_string("general.name", &name, nullptr) != AOTX_OK || name.size() > 256) {
        return;
    }
    char lower[256 + 1] = {};
    for (size_t i = 0; i < name.size(); i++) {
        lower[i] = name[i] >= 'A' && name[i] <= 'Z' ? static_cast<char>(name[i] + 32) : name[i];
    }
    if (std::strstr(lower, "phi-3") == nullptr && std::strstr(lower, "phi3") == nullptr) {
        return;
    }
    for (uint32_t i = 0; i < t_->specials_count; i++) {
        t_->kinds[t_->specials[i]] |= kKindStripRight;
    }
    for (const char* const kept : {"<unk>", "<s>", "<|endoftext|>"}) {
        if (const int32_t token = find(kept); token != kTokenNone) {
            t_->kinds[token] &= static_cast<uint16_t>(~kKindStripRight);
        }
    }
}

// The byte that a character of a byte-level spelling stands for; -1 when it stands for none.
int byte_of_character(uint32_t character) noexcept
{
    if (character < 256) {
        const uint8_t byte = static_cast<uint8_t>(character);
        return byte_level_character(byte) == byte ? byte : -1;
    }
    if (character <= 256 + 0x20) {
        return static_cast<int>(character - 256);
    }
    if (character < 256 + 33 + 34) {
        return static_cast<int>(character - 256 - 33 + 0x7f);
    }
    if (character == 256 + 33 + 34) {
        return 0xad;
    }
    return -1;
}

uint32_t copy_spelling(std::string_view text, uint8_t* out) noexcept
{
    std::memcpy(out, text.data(), text.size());
    return static_cast<uint32_t>(text.size());
}

// A byte-level spelling decoded; one with foreign characters stands for itself.
uint32_t decode_byte_level(std::string_view text, uint8_t* out) noexcept
{
    uint32_t length = 0;
    for (size_t at = 0; at < text.size();) {
        uint32_t character = 0;
        at += utf8_decode(text.data() + at, static_cast<uint32_t>(text.size() - at), &character);
        const int byte = byte_of_character(character);
        if (byte < 0) {
            return copy_spelling(text, out);
        }
        out[length++] = static_cast<uint8_t>(byte);
    }
    return length;
}

uint32_t decode_blanks(std::string_view text, uint8_t* out) noexcept
{
    uint32_t length = 0;
    for (size_t at = 0; at < text.size();) {
        if (text.compare(at, 3, "\xe2\x96\x81") == 0) {
            out[length++] = ' ';
            at += 3;
        } else {
            out[length++] = static_cast<uint8_t>(text[at++]);
        }
    }
    return length;
}

int hex_digit(char digit) noexcept
{
    if (digit >= '0' && digit <= '9') {
        return digit - '0';
    }
    const char upper = digit >= 'a' && digit <= 'f' ? static_cast<char>(digit - 32) : digit;
    return upper >= 'A' && upper <= 'F' ? upper - 'A' + 10 : -1;
}

uint32_t decode_byte_name(std::string_view text, uint8_t* out) noexcept
{
    if (text.size() != 6 || text.substr(0, 3) != "<0x" || hex_digit(text[3]) < 0 ||
        hex_digit(text[4]) < 0) {
        return copy_spelling(text, out);
    }
    out[0] = static_cast<uint8_t>(hex_digit(text[3]) * 16 + hex_digit(text[4]));
    return 1;
}

uint32_t Builder::output_of(uint32_t token, uint8_t* out) const noexcept
{
    constexpr uint16_t kVerbatim = kKindControl | kKindUnknown | kKindUserDefined;
    const std::string_view text = t_->texts[token];
    const uint16_t kind = t_->kinds[token];
    if ((kind & kVerbatim) != 0) {
        return copy_spelling(text, out);
    }
    if ((kind & kKindNormal) != 0) {
        return t_->byte_level ? decode_byte_level(text, out) : decode_blanks(text, out);
    }
    return (kind & kKindByte) != 0 ? decode_byte_name(text, out) : 0;
}

int Builder::write_outputs() noexcept
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < t_->vocab_size; i++) {
        bytes += t_->texts[i].size();
    }
    if (bytes > UINT32_MAX) {
        return text_refuse_number(reason_, AOTX_ERR_RANGE, kKeyTokens,
                                  "4 GiB of spellings or more,", bytes);
    }
    if (!take(&t_->output_begin, uint64_t{t_->vocab_size} + 1, &t_->allocation_bytes) ||
        !take(&t_->output, bytes + 1, &t_->allocation_bytes)) {
        return no_memory();
    }
    uint32_t at = 0;
    for (uint32_t i = 0; i < t_->vocab_size; i++) {
        t_->output_begin[i] = at;
        const uint32_t length = output_of(i, t_->output.get() + at);
        t_->output_bytes_max = std::max(t_->output_bytes_max, length);
        at += length;
    }
    t_->output_begin[t_->vocab_size] = at;
    return AOTX_OK;
}

int Builder::build() noexcept
{
    using Step = int (Builder::*)() noexcept;
    constexpr Step kCommon[] = {&Builder::read_model, &Builder::read_texts, &Builder::read_kinds,
                                &Builder::read_flags, &Builder::read_ids};
    constexpr Step kByteLevel[] = {&Builder::read_merges};
    constexpr Step kPieces[] = {&Builder::read_scores, &Builder::read_byte_tokens};
    constexpr Step kEnd[] = {&Builder::collect_specials, &Builder::write_outputs};
    for (const Step step : kCommon) {
        if (const int result = (this->*step)(); result != AOTX_OK) {
            return result;
        }
    }
    const Step* const own = t_->byte_level ? kByteLevel : kPieces;
    const size_t own_count = t_->byte_level ? std::size(kByteLevel) : std::size(kPieces);
    for (size_t i = 0; i < own_count; i++) {
        if (const int result = (this->*own[i])(); result != AOTX_OK) {
            return result;
        }
    }
    for (const Step step : kEnd) {
        if (const int result = (this->*step)(); result != AOTX_OK) {
            return result;
        }
    }
    strip_by_family();
    return AOTX_OK;
}

}  // namespace

int Tokenizer::open(const GgufFile& file, TextReason* reason) noexcept
{
    AOTX_TEXT_CHECK(tables_ == nullptr);
    std::unique_ptr<TokenizerTables> tables(new (std::nothrow) TokenizerTables);
    if (tables == nullptr) {
        return text_refuse(reason, AOTX_ERR_SYSTEM, "tokenizer", "no memory");
    }
    tables->allocation_bytes = sizeof(TokenizerTables);
    const int result = Builder(file, tables.get(), reason).build();
    if (result == AOTX_OK) {
        tables_ = std::move(tables);
    }
    return result;
}

}  // namespace aotx
