// Purpose:  cut text into the words that byte-level BPE then works on, by the rules that a model
//           file names in tokenizer.ggml.pre. Each rule is a hand-written scanner: linear in the
//           text, without recursion.
// Owns:     nothing.
// Thread:   any.
// Lifetime: not applicable.
#pragma once

#include <cstdint>
#include <string_view>

namespace aotx {

// One scanner. A pass cuts each piece of the pass before into smaller pieces.
enum class PrePass : uint8_t {
    kNone = 0,
    kGptWords = 1,        // contractions, words, numbers, the rest; one blank in front
    kLlamaWords = 2,      // any one character in front of a word, line breaks apart
    kCasedWords = 3,      // the same, also cut where lower case meets upper case
    kDigitSingle = 4,     // each number character by itself
    kDigitRun = 5,        // runs of number characters
    kDigitTriple = 6,     // up to three number characters
    kAsciiTriple = 7,     // exactly three ASCII digits
    kPunctuationRun = 8,  // runs of punctuation and $+<=>^~|
    kTickRun = 9,         // the same and `
    kHanKanaRun = 10,     // runs of Han, Hiragana and Katakana
    kBracketWords = 11    // punctuation before a word joins it; marks are letters
};

// How words are cut under kLlamaWords and kCasedWords.
struct PreOptions {
    uint32_t digits_max;  // number characters in one word; 0: no limit
    bool marks;           // combining marks count as letters
    bool contractions;    // 's, 't, 're, 've, 'm, 'll, 'd in either case
    bool slash;           // / may follow punctuation like a line break
};

// What a file's name for its pre-tokenizer means.
struct PreRule {
    const char* name;
    PrePass passes[4];
    PreOptions options;
    bool ignore_merges;  // a word that is a token is that token, whatever the merges say
    bool add_bos;        // unless the file says otherwise
    bool no_bos;         // the family has no start token unless the file names one
};

// Null: the name is not known.
const PreRule* pre_rule_find(std::string_view name) noexcept;

// A text as characters with their classes, and two arrays for piece ends that passes use in turn.
// Every array holds `capacity` entries.
struct PreWork {
    const uint32_t* characters;
    const uint16_t* classes;
    uint32_t count;
    uint32_t* ends;
    uint32_t* ends_next;
};

// Cut. Returns the number of pieces; work->ends holds where each ends (exclusive), ascending, the
// last one being count. The two end arrays may have changed places.
uint32_t pre_split(const PreRule& rule, PreWork* work) noexcept;

}  // namespace aotx
