// Purpose:  the scanners of the pre-tokenizers.
// Owns:     nothing.
// Thread:   any.
// Lifetime: not applicable.
#include "tokenizer/pretokenize.h"

#include <utility>

#include "reason.h"
#include "tokenizer/unicode.h"

namespace aotx {

namespace {

constexpr PreOptions kPlain = {0, false, false, false};
constexpr PreOptions kThree = {3, false, true, false};
constexpr PreOptions kOne = {1, false, true, false};
constexpr PreOptions kOneMarks = {1, true, true, false};
constexpr PreOptions kAny = {0, false, true, false};
constexpr PreOptions kOneBare = {1, false, false, false};
constexpr PreOptions kThreeSlash = {3, false, true, true};
constexpr PreOptions kOneSlashBare = {1, false, false, true};

#define GPT                \
    {                      \
        PrePass::kGptWords \
    }
#define DIGITS_GPT                                \
    {                                             \
        PrePass::kDigitSingle, PrePass::kGptWords \
    }
#define LLAMA                \
    {                        \
        PrePass::kLlamaWords \
    }
#define CASED                \
    {                        \
        PrePass::kCasedWords \
    }
#define BRACKET                                                             \
    {                                                                       \
        PrePass::kDigitTriple, PrePass::kHanKanaRun, PrePass::kBracketWords \
    }

constexpr PreRule kRules[] = {
    {"default",
     {PrePass::kPunctuationRun, PrePass::kGptWords, PrePass::kDigitRun, PrePass::kAsciiTriple},
     kPlain,
     false,
     false,
     false},
    {"falcon",
     {PrePass::kTickRun, PrePass::kGptWords, PrePass::kAsciiTriple},
     kPlain,
     false,
     false,
     false},
    {"minicpm5", {PrePass::kDigitTriple, PrePass::kLlamaWords}, kAny, true, false, false},
    {"llama3", LLAMA, kThree, true, true, false},
    {"llama-v3", LLAMA, kThree, true, true, false},
    {"llama-bpe", LLAMA, kThree, true, true, false},
    {"falcon3", LLAMA, kThree, true, true, false},
    {"falcon-h1", LLAMA, kThree, true, true, false},
    {"pixtral", LLAMA, kThree, true, true, false},
    {"midm-2.0", LLAMA, kThree, true, true, false},
    {"lfm2", LLAMA, kThree, true, true, false},
    {"dbrx", LLAMA, kThree, false, false, false},
    {"smaug-bpe", LLAMA, kThree, false, false, false},
    {"chatglm-bpe", LLAMA, kThree, false, false, true},
    {"glm4", LLAMA, kThree, true, false, true},
    {"glm5", LLAMA, kThree, true, false, true},
    {"gpt-2", GPT, kPlain, false, false, false},
    {"phi-2", GPT, kPlain, false, false, false},
    {"gigachat", GPT, kPlain, false, false, false},
    {"a.x-4.0", GPT, kPlain, false, false, false},
    {"mellum", GPT, kPlain, false, false, false},
    {"exaone4", GPT, kPlain, false, false, false},
    {"mpt", GPT, kPlain, false, false, false},
    {"olmo", GPT, kPlain, false, false, false},
    {"jais", GPT, kPlain, false, false, false},
    {"trillion", GPT, kPlain, false, false, false},
    {"granite-docling", GPT, kPlain, false, false, false},
    {"starcoder", DIGITS_GPT, kPlain, false, false, false},
    {"refact", DIGITS_GPT, kPlain, false, false, false},
    {"command-r", DIGITS_GPT, kPlain, false, false, false},
    {"smollm", DIGITS_GPT, kPlain, false, false, false},
    {"codeshell", DIGITS_GPT, kPlain, false, false, false},
    {"exaone", DIGITS_GPT, kPlain, false, false, false},
    {"minerva-7b", DIGITS_GPT, kPlain, false, false, false},
    {"mellum2", DIGITS_GPT, kPlain, false, false, false},
    {"qwen2", LLAMA, kOne, false, false, false},
    {"deepseek-r1-qwen", LLAMA, kOne, false, false, false},
    {"kormo", LLAMA, kOne, false, false, false},
    {"megrez", LLAMA, kOne, false, false, false},
    {"stablelm2", LLAMA, kOne, false, false, false},
    {"hunyuan", LLAMA, kOne, false, false, false},
    {"solar-open", LLAMA, kOne, false, false, false},
    {"grok-2", LLAMA, kOne, false, false, false},
    {"qwen35", LLAMA, kOneMarks, false, false, false},
    {"ufakzeka", LLAMA, kOneBare, false, false, false},
    {"gpt-4o", CASED, kThreeSlash, false, false, false},
    {"llama4", CASED, kThreeSlash, false, false, false},
    {"kanana2", CASED, kThreeSlash, false, false, false},
    {"tekken", CASED, kOneSlashBare, true, true, false},
    {"deepseek-v3", BRACKET, kPlain, false, false, false},
    {"hunyuan-dense", BRACKET, kPlain, false, false, false},
    {"joyai-llm", BRACKET, kPlain, false, false, false},
};

#undef GPT
#undef DIGITS_GPT
#undef LLAMA
#undef CASED
#undef BRACKET

constexpr uint32_t kNoCharacter = UINT32_MAX;

bool is_ascii_letter(uint32_t character) noexcept
{
    return (character | 0x20) >= 'a' && (character | 0x20) <= 'z' && character < 0x80;
}

uint32_t ascii_lower(uint32_t character) noexcept
{
    return character >= 'A' && character <= 'Z' ? character + 32 : character;
}

bool is_break(uint32_t character) noexcept
{
    return character == '\r' || character == '\n';
}

// One piece of the pass before; positions outside it have no character and no class.
struct Piece {
    const uint32_t* characters;
    const uint16_t* classes;
    uint32_t begin;
    uint32_t end;
    PreOptions options;

    uint32_t at(uint32_t position) const noexcept
    {
        return position < end ? characters[position] : kNoCharacter;
    }
    uint32_t bits(uint32_t position) const noexcept
    {
        return position < end ? classes[position] : 0u;
    }
    bool is(uint32_t position, uint32_t mask) const noexcept
    {
        return (bits(position) & mask) != 0;
    }
    // Past a run of characters that have one of the bits.
    uint32_t run(uint32_t position, uint32_t mask) const noexcept
    {
        while (is(position, mask)) {
            position++;
        }
        return position;
    }
    // Past a run of characters that are there and have none of the bits.
    uint32_t run_without(uint32_t position, uint32_t mask) const noexcept
    {
        while (position < end && !is(position, mask)) {
            position++;
        }
        return position;
    }
};

// 's 't 'm 'd 're 've 'll at position: its length, or 0.
uint32_t contraction(const Piece& piece, uint32_t position, bool any_case) noexcept
{
    if (piece.at(position) != '\'') {
        return 0;
    }
    uint32_t first = piece.at(position + 1);
    uint32_t second = piece.at(position + 2);
    if (any_case) {
        first = ascii_lower(first);
        second = ascii_lower(second);
    }
    if (first == 's' || first == 't' || first == 'm' || first == 'd') {
        return 2;
    }
    const bool pair = (first == 'r' && second == 'e') || (first == 'v' && second == 'e') ||
                      (first == 'l' && second == 'l');
    return pair ? 3 : 0;
}

// A run of blanks that begins at position. Before other text its last blank is left over for the
// word behind it.
uint32_t match_blanks(const Piece& piece, uint32_t position) noexcept
{
    const uint32_t past = piece.run(position, kUnicodeSpace);
    const bool leave_one = past - position > 1 && past < piece.end;
    return leave_one ? past - 1 : past;
}

// The same where a line break ends a run: everything up to the last break in it goes first.
uint32_t match_breaks(const Piece& piece, uint32_t position) noexcept
{
    const uint32_t past = piece.run(position, kUnicodeSpace);
    for (uint32_t back = past; back > position; back--) {
        if (is_break(piece.at(back - 1))) {
            return back;
        }
    }
    return match_blanks(piece, position);
}

uint32_t match_gpt(const Piece& piece, uint32_t position) noexcept
{
    constexpr uint32_t kOther = kUnicodeSpace | kUnicodeLetter | kUnicodeNumber;
    if (const uint32_t length = contraction(piece, position, false); length != 0) {
        return position + length;
    }
    const uint32_t word = position + (piece.at(position) == ' ' ? 1 : 0);
    if (piece.is(word, kUnicodeLetter)) {
        return piece.run(word, kUnicodeLetter);
    }
    if (piece.is(word, kUnicodeNumber)) {
        return piece.run(word, kUnicodeNumber);
    }
    if (word < piece.end && !piece.is(word, kOther)) {
        return piece.run_without(word, kOther);
    }
    return match_blanks(piece, position);
}

uint32_t match_number(const Piece& piece, uint32_t position) noexcept
{
    const uint32_t past = piece.run(position, kUnicodeNumber);
    const uint32_t limit = piece.options.digits_max;
    return limit != 0 && past - position > limit ? position + limit : past;
}

// " ?[others]+[breaks]*" at position, or position.
uint32_t match_others(const Piece& piece, uint32_t position, uint32_t known) noexcept
{
    const uint32_t word = position + (piece.at(position) == ' ' ? 1 : 0);
    uint32_t past = piece.run_without(word, known);
    if (past == word) {
        return position;
    }
    while (is_break(piece.at(past)) || (piece.options.slash && piece.at(past) == '/')) {
        past++;
    }
    return past;
}

uint32_t match_llama(const Piece& piece, uint32_t position) noexcept
{
    const uint32_t letters =
        kUnicodeLetter | (piece.options.marks ? uint32_t{kUnicodeMark} : uint32_t{0});
    if (piece.options.contractions) {
        if (const uint32_t length = contraction(piece, position, true); length != 0) {
            return position + length;
        }
    }
    if (!is_break(piece.at(position)) && !piece.is(position, kUnicodeNumber)) {
        if (piece.is(position, letters) || piece.is(position + 1, letters)) {
            return piece.run(position + 1, letters);
        }
    }
    if (piece.is(position, kUnicodeNumber)) {
        return match_number(piece, position);
    }
    const uint32_t past = match_others(piece, position, kUnicodeSpace | letters | kUnicodeNumber);
    return past != position ? past : match_breaks(piece, position);
}

// Not a lower-case, respectively upper-case ASCII letter; letters beyond ASCII are both.
bool is_upper(const Piece& piece, uint32_t position) noexcept
{
    const uint32_t character = piece.at(position);
    return piece.is(position, kUnicodeLetter) && !(character >= 'a' && character <= 'z');
}
bool is_lower(const Piece& piece, uint32_t position) noexcept
{
    const uint32_t character = piece.at(position);
    return piece.is(position, kUnicodeLetter) && !(character >= 'A' && character <= 'Z');
}

// Letters from position: upper* lower+, else upper+ lower*. Returns position when there are none.
uint32_t match_cased_letters(const Piece& piece, uint32_t position) noexcept
{
    uint32_t upper_end = position;
    while (is_upper(piece, upper_end)) {
        upper_end++;
    }
    // Give letters back to the lower part until it has its one.
    uint32_t lower = upper_end;
    while (!is_lower(piece, lower) && lower > position) {
        lower--;
    }
    if (!is_lower(piece, lower)) {
        return upper_end;
    }
    while (is_lower(piece, lower)) {
        lower++;
    }
    return lower;
}

uint32_t match_cased(const Piece& piece, uint32_t position) noexcept
{
    constexpr uint32_t kKnown = kUnicodeLetter | kUnicodeNumber;
    const bool prefix = !is_break(piece.at(position)) && !piece.is(position, kKnown);
    const uint32_t word = position + (prefix ? 1 : 0);
    uint32_t past = match_cased_letters(piece, word);
    if (past != word) {
        return piece.options.contractions ? past + contraction(piece, past, true) : past;
    }
    if (piece.is(position, kUnicodeNumber)) {
        return match_number(piece, position);
    }
    past = match_others(piece, position, kUnicodeSpace | kKnown);
    return past != position ? past : match_breaks(piece, position);
}

bool is_ascii_punctuation(uint32_t character) noexcept
{
    return character > ' ' && character < 0x7f && !is_ascii_letter(character) &&
           !(character >= '0' && character <= '9');
}

uint32_t match_bracket(const Piece& piece, uint32_t position) noexcept
{
    constexpr uint32_t kWord = kUnicodeLetter | kUnicodeMark;
    constexpr uint32_t kSigns = kUnicodePunctuation | kUnicodeSymbol;
    if (is_ascii_punctuation(piece.at(position)) && is_ascii_letter(piece.at(position + 1))) {
        uint32_t past = position + 1;
        while (is_ascii_letter(piece.at(past))) {
            past++;
        }
        return past;
    }
    const bool prefix = !is_break(piece.at(position)) &&
                        !piece.is(position, kUnicodeLetter | kSigns) &&
                        piece.is(position + 1, kWord);
    if (prefix || piece.is(position, kWord)) {
        return piece.run(position + (prefix ? 1 : 0), kWord);
    }
    const uint32_t word = position + (piece.at(position) == ' ' ? 1 : 0);
    if (piece.is(word, kSigns)) {
        uint32_t past = piece.run(word, kSigns);
        while (is_break(piece.at(past))) {
            past++;
        }
        return past;
    }
    return match_breaks(piece, position);
}

bool is_sign(uint32_t character, uint32_t bits, bool tick) noexcept
{
    switch (character) {
        case '$':
        case '+':
        case '<':
        case '=':
        case '>':
        case '^':
        case '~':
        case '|':
            return true;
        case '`':
            return tick;
        default:
            // Blanks come first in the collapsed alphabet that the rule is written for.
            return (bits & kUnicodePunctuation) != 0 && (bits & kUnicodeSpace) == 0;
    }
}

uint32_t match_signs(const Piece& piece, uint32_t position, bool tick) noexcept
{
    while (position < piece.end && is_sign(piece.at(position), piece.bits(position), tick)) {
        position++;
    }
    return position;
}

bool is_han_kana(uint32_t character) noexcept
{
    return (character >= 0x4e00 && character <= 0x9fa5) ||
           (character >= 0x3040 && character <= 0x30ff);
}

uint32_t match_ascii_triple(const Piece& piece, uint32_t position) noexcept
{
    for (uint32_t i = 0; i < 3; i++) {
        const uint32_t character = piece.at(position + i);
        if (character < '0' || character > '9') {
            return position;
        }
    }
    return position + 3;
}

uint32_t match_han_kana(const Piece& piece, uint32_t position) noexcept
{
    while (position < piece.end && is_han_kana(piece.at(position))) {
        position++;
    }
    return position;
}

uint32_t match_digits(const Piece& piece, uint32_t position, uint32_t limit) noexcept
{
    uint32_t past = position;
    while (past - position < limit && piece.is(past, kUnicodeNumber)) {
        past++;
    }
    return past;
}

// Where the match at position ends; position itself when there is none.
uint32_t match(PrePass pass, const Piece& piece, uint32_t position) noexcept
{
    switch (pass) {
        case PrePass::kGptWords:
            return match_gpt(piece, position);
        case PrePass::kLlamaWords:
            return match_llama(piece, position);
        case PrePass::kCasedWords:
            return match_cased(piece, position);
        case PrePass::kDigitSingle:
            return match_digits(piece, position, 1);
        case PrePass::kDigitRun:
            return match_digits(piece, position, UINT32_MAX);
        case PrePass::kDigitTriple:
            return match_digits(piece, position, 3);
        case PrePass::kAsciiTriple:
            return match_ascii_triple(piece, position);
        case PrePass::kPunctuationRun:
            return match_signs(piece, position, false);
        case PrePass::kTickRun:
            return match_signs(piece, position, true);
        case PrePass::kHanKanaRun:
            return match_han_kana(piece, position);
        case PrePass::kBracketWords:
            return match_bracket(piece, position);
        case PrePass::kNone:
            break;
    }
    return position;
}

// One pass over one piece. What no match covers stays together up to the next match.
uint32_t split_piece(PrePass pass, const Piece& piece, uint32_t* ends, uint32_t count) noexcept
{
    uint32_t position = piece.begin;
    uint32_t gap = piece.begin;
    while (position < piece.end) {
        const uint32_t past = match(pass, piece, position);
        if (past == position) {
            position++;
            continue;
        }
        if (gap != position) {
            ends[count++] = position;
        }
        ends[count++] = past;
        position = past;
        gap = past;
    }
    if (gap != piece.end) {
        ends[count++] = piece.end;
    }
    return count;
}

}  // namespace

const PreRule* pre_rule_find(std::string_view name) noexcept
{
    for (const PreRule& rule : kRules) {
        if (name == rule.name) {
            return &rule;
        }
    }
    return nullptr;
}

uint32_t pre_split(const PreRule& rule, PreWork* work) noexcept
{
    if (work->count == 0) {
        return 0;
    }
    work->ends[0] = work->count;
    uint32_t pieces = 1;
    for (const PrePass pass : rule.passes) {
        if (pass == PrePass::kNone) {
            break;
        }
        uint32_t count = 0;
        uint32_t begin = 0;
        for (uint32_t i = 0; i < pieces; i++) {
            const Piece piece = {work->characters, work->classes, begin, work->ends[i],
                                 rule.options};
            count = split_piece(pass, piece, work->ends_next, count);
            begin = work->ends[i];
        }
        AOTX_TEXT_CHECK(count <= work->count);
        std::swap(work->ends, work->ends_next);
        pieces = count;
    }
    return pieces;
}

}  // namespace aotx
