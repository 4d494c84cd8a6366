// Purpose:  tiny vocabularies for tests, built as model files in memory.
// Owns:     nothing.
// Thread:   any.
// Lifetime: not applicable.
#pragma once

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "gguf_writer.h"

namespace vocabularies {

constexpr int32_t kNormal = 1;
constexpr int32_t kUnknown = 2;
constexpr int32_t kControl = 3;
constexpr int32_t kUserDefined = 4;
constexpr int32_t kByte = 6;

// The spelling of a byte in byte-level vocabularies, written out again here so that the tests do
// not lean on the code that they test: printable bytes stand for themselves, the other 68 take the
// characters from 256 on, in order.
inline std::string byte_spelling(int byte)
{
    int character = byte;
    const auto printable = [](int b) {
        return (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || (b >= 0xae && b <= 0xff);
    };
    if (!printable(byte)) {
        character = 256;
        for (int other = 0; other < byte; other++) {
            character += printable(other) ? 0 : 1;
        }
    }
    if (character < 0x80) {
        return std::string(1, static_cast<char>(character));
    }
    return {static_cast<char>(0xc0 | (character >> 6)), static_cast<char>(0x80 | (character & 63))};
}

struct Vocabulary {
    std::vector<std::string> tokens;
    std::vector<int32_t> types;
    std::vector<float> scores;
    std::vector<std::string> merges;

    int32_t add(const std::string& text, int32_t type = kNormal, float score = 0)
    {
        tokens.push_back(text);
        types.push_back(type);
        scores.push_back(score);
        return static_cast<int32_t>(tokens.size()) - 1;
    }
    // A merge, and its result as a token.
    int32_t join(const std::string& left, const std::string& right)
    {
        merges.push_back(left + " " + right);
        return add(left + right);
    }
};

// Tokens 0 to 255 are the bytes; then <|start|> 256, <|end|> 257, <tool> 258 (user defined), and
// words by merges.
inline Vocabulary byte_level()
{
    Vocabulary v;
    for (int byte = 0; byte < 256; byte++) {
        v.add(byte_spelling(byte));
    }
    v.add("<|begin|>", kControl);
    v.add("<|im_end|>", kControl);
    v.add("<tool>", kUserDefined);
    const std::string blank = byte_spelling(' ');
    v.join("h", "e");             // 259
    v.join("l", "l");             // 260
    v.join("ll", "o");            // 261
    v.join("he", "llo");          // 262
    v.join(blank, "w");           // 263
    v.join("o", "r");             // 264
    v.join(blank + "w", "or");    // 265
    v.join("l", "d");             // 266
    v.join(blank + "wor", "ld");  // 267
    return v;
}

inline GgufWriter byte_level_writer(const Vocabulary& v, const std::string& pre = "gpt-2")
{
    GgufWriter writer;
    writer.add_string("tokenizer.ggml.model", "gpt2");
    writer.add_string("tokenizer.ggml.pre", pre);
    writer.add_strings("tokenizer.ggml.tokens", v.tokens);
    writer.add_i32s("tokenizer.ggml.token_type", v.types);
    writer.add_strings("tokenizer.ggml.merges", v.merges);
    writer.add_u32("tokenizer.ggml.bos_token_id", 256);
    writer.add_u32("tokenizer.ggml.eos_token_id", 257);
    return writer;
}

constexpr char kBlank[] = "\xe2\x96\x81";

// <unk> 0, <s> 1, </s> 2, bytes 3 to 258, then pieces.
inline Vocabulary pieces()
{
    Vocabulary v;
    v.add("<unk>", kUnknown);
    v.add("<s>", kControl);
    v.add("</s>", kControl);
    for (int byte = 0; byte < 256; byte++) {
        char name[8];
        std::snprintf(name, sizeof name, "<0x%02X>", byte);
        v.add(name, kByte);
    }
    const std::string blank = kBlank;
    v.add(blank, kNormal, -10);        // 259
    v.add("a", kNormal, -11);          // 260
    v.add("b", kNormal, -12);          // 261
    v.add("ab", kNormal, -2);          // 262
    v.add("ba", kNormal, -3);          // 263
    v.add(blank + "a", kNormal, -1);   // 264
    v.add("aba", kNormal, -4);         // 265
    v.add(blank + "ab", kNormal, -5);  // 266
    return v;
}

inline GgufWriter pieces_writer(const Vocabulary& v)
{
    GgufWriter writer;
    writer.add_string("tokenizer.ggml.model", "llama");
    writer.add_strings("tokenizer.ggml.tokens", v.tokens);
    writer.add_i32s("tokenizer.ggml.token_type", v.types);
    writer.add_f32s("tokenizer.ggml.scores", v.scores);
    return writer;
}

}  // namespace vocabularies
