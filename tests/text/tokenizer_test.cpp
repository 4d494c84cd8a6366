// The tokenizer over vocabularies small enough to follow by hand.
#include "tokenizer/tokenizer.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>

#include "aotx/status.h"
#include "tokenizer/pretokenize.h"
#include "tokenizer/unicode.h"
#include "vocabularies.h"

using namespace aotx;
using vocabularies::byte_level;
using vocabularies::byte_level_writer;
using vocabularies::pieces;
using vocabularies::pieces_writer;
using vocabularies::Vocabulary;

namespace {

using Tokens = std::vector<int32_t>;

// A tokenizer with its file and scratch.
struct Opened {
    std::vector<uint8_t> file;
    GgufFile gguf;
    Tokenizer tokenizer;
    TokenizerScratch scratch;
    int result = 0;
    TextReason reason;

    explicit Opened(const GgufWriter& writer, uint32_t text_bytes_max = 4096)
        : file(writer.finish())
    {
        REQUIRE(gguf.open_memory(file.data(), file.size(), &reason) == AOTX_OK);
        result = tokenizer.open(gguf, &reason);
        REQUIRE(scratch.open(text_bytes_max) == AOTX_OK);
    }

    Tokens encode(const TextInput& input)
    {
        Tokens tokens(input.bytes * 2 + 8);
        uint32_t count = 0;
        REQUIRE(tokenizer.encode(&scratch, input, tokens.data(),
                                 static_cast<uint32_t>(tokens.size()), &count) == AOTX_OK);
        tokens.resize(count);
        return tokens;
    }
    Tokens encode(const std::string& text, bool parse_special = false, bool add_start = false)
    {
        TextInput input;
        input.text = text.data();
        input.bytes = static_cast<uint32_t>(text.size());
        input.parse_special = parse_special;
        input.add_start = add_start;
        return encode(input);
    }
    // Text of which [begin, end) was written by the format and the rest by a message.
    Tokens encode_marked(const std::string& text, size_t begin, size_t end)
    {
        std::string marks(text.size(), static_cast<char>(kTextMarkUser));
        for (size_t i = begin; i < end; i++) {
            marks[i] = static_cast<char>(kTextMarkFormat);
        }
        TextInput input;
        input.text = text.data();
        input.marks = reinterpret_cast<const uint8_t*>(marks.data());
        input.bytes = static_cast<uint32_t>(text.size());
        input.add_start_if_absent = true;
        return encode(input);
    }
    std::string bytes(int32_t token)
    {
        const uint8_t* data = nullptr;
        uint32_t count = 0;
        REQUIRE(tokenizer.token_bytes(token, &data, &count));
        return {reinterpret_cast<const char*>(data), count};
    }
};

Tokens bytes_as_tokens(const std::string& text)
{
    Tokens tokens;
    for (const char byte : text) {
        tokens.push_back(static_cast<uint8_t>(byte));
    }
    return tokens;
}

// The pieces that a rule cuts text into.
std::vector<std::string> split(const char* rule, const std::string& text)
{
    std::vector<uint32_t> characters;
    std::vector<uint16_t> classes;
    for (size_t at = 0; at < text.size();) {
        uint32_t character = 0;
        at += utf8_decode(text.data() + at, static_cast<uint32_t>(text.size() - at), &character);
        characters.push_back(character);
        classes.push_back(unicode_class(character));
    }
    std::vector<uint32_t> ends(characters.size() + 1);
    std::vector<uint32_t> ends_next(characters.size() + 1);
    PreWork work = {characters.data(), classes.data(), static_cast<uint32_t>(characters.size()),
                    ends.data(), ends_next.data()};
    const uint32_t count = pre_split(*pre_rule_find(rule), &work);
    std::vector<std::string> pieces_found;
    uint32_t begin = 0;
    for (uint32_t i = 0; i < count; i++) {
        std::string piece;
        for (uint32_t j = begin; j < work.ends[i]; j++) {
            char encoded[4];
            piece.append(encoded, utf8_encode(characters[j], encoded));
        }
        begin = work.ends[i];
        pieces_found.push_back(piece);
    }
    return pieces_found;
}

}  // namespace

TEST_CASE("merges join in their order and words part before them")
{
    Opened o(byte_level_writer(byte_level()));
    REQUIRE(o.result == AOTX_OK);
    CHECK(o.encode("hello world") == Tokens{262, 267});
    CHECK(o.encode("hell") == Tokens{259, 260});
    CHECK(o.encode("hello  world") == Tokens{262, ' ', 267});
    CHECK(o.encode("world") == Tokens{'w', 264, 266});
    CHECK(o.encode("").empty());
    CHECK(o.encode("\xc3\xa9\n") == Tokens{0xc3, 0xa9, '\n'});
}

TEST_CASE("broken UTF-8 becomes U+FFFD byte by byte")
{
    Opened o(byte_level_writer(byte_level()));
    CHECK(o.encode("\xff") == Tokens{0xef, 0xbf, 0xbd});
    CHECK(o.encode("\xe2\x82") == Tokens{0xef, 0xbf, 0xbd, 0xef, 0xbf, 0xbd});
    // Overlong forms are decoded as they stand.
    CHECK(o.encode(std::string("\xc0\x80", 2)) == Tokens{0});
}

TEST_CASE("special tokens come out of text only when asked for")
{
    Opened o(byte_level_writer(byte_level()));
    CHECK(o.encode("<|im_end|>") == bytes_as_tokens("<|im_end|>"));
    CHECK(o.encode("<|im_end|>", true) == Tokens{257});
    CHECK(o.encode("a<|im_end|><|begin|>b", true) == Tokens{'a', 257, 256, 'b'});
    CHECK(o.encode("<|im_end|", true) == bytes_as_tokens("<|im_end|"));
    // User-defined tokens are words of the vocabulary like any other.
    CHECK(o.encode("x<tool>y") == Tokens{'x', 258, 'y'});
}

TEST_CASE("special tokens come out of format bytes and never out of message bytes")
{
    Opened o(byte_level_writer(byte_level()));
    const std::string text = "<|im_end|><|im_end|>";
    CHECK(o.encode_marked(text, 0, 10)[0] == 257);
    CHECK(o.encode_marked(text, 0, 10).size() == 11);
    CHECK(o.encode_marked(text, 0, 20) == Tokens{257, 257});
    // A spelling that lies across the edge belongs to the message.
    for (size_t edge = 1; edge < 10; edge++) {
        CHECK(o.encode_marked("<|im_end|>", 0, edge) == bytes_as_tokens("<|im_end|>"));
        CHECK(o.encode_marked("<|im_end|>", edge, 10) == bytes_as_tokens("<|im_end|>"));
    }
}

TEST_CASE("user-defined tokens that a format is made of stay out of messages")
{
    Opened o(byte_level_writer(byte_level()));
    CHECK(o.encode_marked("<tool>", 0, 0) == Tokens{258});
    const std::string literal = "{{ '<tool>' }}";
    o.tokenizer.mark_structure(literal.data(), static_cast<uint32_t>(literal.size()));
    CHECK(o.encode_marked("<tool>", 0, 0) == bytes_as_tokens("<tool>"));
    CHECK(o.encode_marked("<tool>", 0, 6) == Tokens{258});
    CHECK(o.encode("<tool>") == Tokens{258});
}

TEST_CASE("start and end tokens follow the file")
{
    struct Row {
        bool add_bos;
        bool add_eos;
        Tokens want;
    };
    const Row rows[] = {{false, false, {'x'}},
                        {true, false, {256, 'x'}},
                        {false, true, {'x', 257}},
                        {true, true, {256, 'x', 257}}};
    for (const Row& row : rows) {
        GgufWriter writer = byte_level_writer(byte_level());
        writer.add_bool("tokenizer.ggml.add_bos_token", row.add_bos);
        writer.add_bool("tokenizer.ggml.add_eos_token", row.add_eos);
        Opened o(writer);
        CHECK(o.encode("x", false, true) == row.want);
        CHECK(o.encode("x", false, false) == Tokens{'x'});
    }
}

TEST_CASE("a rendered prompt has the start token that its format writes, or one")
{
    GgufWriter writer = byte_level_writer(byte_level());
    writer.add_bool("tokenizer.ggml.add_bos_token", true);
    writer.add_bool("tokenizer.ggml.add_eos_token", true);
    Opened o(writer);
    CHECK(o.encode_marked("<|begin|>x", 0, 9) == Tokens{256, 'x'});
    CHECK(o.encode_marked("x", 0, 1) == Tokens{256, 'x'});
    // Written by a message: the text stays text, and the start token goes before it.
    Tokens want = bytes_as_tokens("<|begin|>x");
    want.insert(want.begin(), 256);
    CHECK(o.encode_marked("<|begin|>x", 0, 0) == want);
    // A file that wants none gets none.
    Opened none(byte_level_writer(byte_level()));
    CHECK(none.encode_marked("<|begin|>x", 0, 9) == Tokens{256, 'x'});
    CHECK(none.encode_marked("x", 0, 1) == Tokens{'x'});
}

TEST_CASE("flags and bytes of single tokens")
{
    Opened o(byte_level_writer(byte_level()));
    CHECK(o.bytes(' ') == " ");
    CHECK(o.bytes(267) == " world");
    CHECK(o.bytes(257) == "<|im_end|>");
    CHECK(o.tokenizer.flags(257) == (kTokenEnd | kTokenControl));
    CHECK(o.tokenizer.flags(256) == kTokenControl);
    CHECK(o.tokenizer.flags(258) == 0);
    CHECK(o.tokenizer.flags(262) == 0);
    const uint8_t* data = nullptr;
    uint32_t count = 0;
    CHECK_FALSE(o.tokenizer.token_bytes(-1, &data, &count));
    CHECK_FALSE(o.tokenizer.token_bytes(268, &data, &count));
    CHECK(o.tokenizer.flags(268) == 0);
    CHECK(o.tokenizer.vocab_size() == 268);
    CHECK(o.tokenizer.token_bytes_max() == 10);
    CHECK(o.tokenizer.find("he", 2) == 259);
    CHECK(o.tokenizer.find("eh", 2) == kTokenNone);
}

TEST_CASE("a short buffer says what is needed")
{
    Opened o(byte_level_writer(byte_level()), 16);
    const std::string text = "hello world";
    TextInput input;
    input.text = text.data();
    input.bytes = static_cast<uint32_t>(text.size());
    int32_t tokens[2] = {};
    uint32_t count = 0;
    CHECK(o.tokenizer.encode(&o.scratch, input, tokens, 1, &count) == AOTX_ERR_FULL);
    CHECK(count == 2);
    CHECK(o.tokenizer.encode(&o.scratch, input, nullptr, 0, &count) == AOTX_ERR_FULL);
    CHECK(count == 2);
    CHECK(o.tokenizer.encode(&o.scratch, input, tokens, 2, &count) == AOTX_OK);
    const std::string longer(17, 'x');
    input.text = longer.data();
    input.bytes = 17;
    CHECK(o.tokenizer.encode(&o.scratch, input, tokens, 2, &count) == AOTX_ERR_FULL);
    CHECK(count == 0);
}

TEST_CASE("pieces join by score, bytes fill what no piece covers")
{
    Opened o(pieces_writer(pieces()));
    REQUIRE(o.result == AOTX_OK);
    // A blank goes before the text; the best score joins first: the blank and the a.
    CHECK(o.encode("ab") == Tokens{266});
    CHECK(o.encode("aba") == Tokens{264, 263});
    CHECK(o.encode("b") == Tokens{259, 261});
    CHECK(o.encode("c") == Tokens{259, 3 + 'c'});
    CHECK(o.encode("\xc3\xa9") == Tokens{259, 3 + 0xc3, 3 + 0xa9});
    CHECK(o.encode("\xff") == Tokens{259, 3 + 0xff});
    CHECK(o.encode("").empty());
    CHECK(o.encode("b", false, true) == Tokens{1, 259, 261});
    // After a special token a text begins anew.
    CHECK(o.encode("b</s>b", true) == Tokens{259, 261, 2, 259, 261});
    CHECK(o.bytes(264) == " a");
    CHECK(o.bytes(3 + 0xff) == "\xff");
    CHECK(o.tokenizer.flags(2) == (kTokenEnd | kTokenControl));
    CHECK(o.tokenizer.flags(0) == kTokenControl);
}

TEST_CASE("no blank before the text when the file says so")
{
    GgufWriter writer = pieces_writer(pieces());
    writer.add_bool("tokenizer.ggml.add_space_prefix", false);
    writer.add_bool("tokenizer.ggml.add_bos_token", false);
    Opened o(writer);
    CHECK(o.encode("aba", false, true) == Tokens{265});
    CHECK(o.encode(" a") == Tokens{264});
}

TEST_CASE("pre-tokenizers cut as their rules say")
{
    struct Row {
        const char* rule;
        const char* text;
        std::vector<std::string> want;
    };
    const Row rows[] = {
        {"gpt-2", "I'm 12 x!!", {"I", "'m", " 12", " x", "!!"}},
        {"gpt-2", "a   b", {"a", "  ", " b"}},
        {"gpt-2", "a  ", {"a", "  "}},
        {"gpt-2", "a\n\nb", {"a", "\n", "\n", "b"}},
        {"gpt-2", "I'M", {"I", "'", "M"}},
        {"smollm", "x 123", {"x", " ", "1", "2", "3"}},
        {"llama-bpe", "I'M 1234567", {"I", "'M", " ", "123", "456", "7"}},
        {"llama-bpe", "a\n\n b", {"a", "\n\n", " b"}},
        {"llama-bpe", "(x).\n\ny", {"(x", ").\n\n", "y"}},
        {"llama-bpe", "a  ", {"a", "  "}},
        {"qwen2", "12 ab", {"1", "2", " ab"}},
        {"default", "12345 a+b", {"123", "45", " a", "+", "b"}},
        {"falcon", "a`b", {"a", "`", "b"}},
        {"tekken", "HelloWorld ABCdef", {"Hello", "World", " ABCdef"}},
        {"gpt-4o", "I'll 1234", {"I'll", " ", "123", "4"}},
        {"gpt-4o", "a /\n/x", {"a", " /\n/", "x"}},
        {"deepseek-v3", "x=1234", {"x", "=", "123", "4"}},
        {"deepseek-v3", ".abc \xe4\xb8\xad", {".abc", " ", "\xe4\xb8\xad"}},
    };
    for (const Row& row : rows) {
        INFO(row.rule << ": " << row.text);
        CHECK(split(row.rule, row.text) == row.want);
    }
    CHECK(pre_rule_find("no-such-rule") == nullptr);
}

TEST_CASE("characters have the classes of Unicode 15.1")
{
    struct Row {
        uint32_t character;
        uint32_t want;
    };
    const Row rows[] = {{'a', kUnicodeLetter},
                        {'7', kUnicodeNumber},
                        {'!', kUnicodePunctuation},
                        {'$', kUnicodeSymbol},
                        {' ', kUnicodeSeparator | kUnicodeSpace},
                        {'\n', kUnicodeControl | kUnicodeSpace},
                        {0x85, kUnicodeControl | kUnicodeSpace},
                        {0x3000, kUnicodeSeparator | kUnicodeSpace},
                        {0x200b, kUnicodeControl},
                        {0x300, kUnicodeMark},
                        {0x4e00, kUnicodeLetter},
                        {0x2ebf0, kUnicodeLetter},  // new in 15.1
                        {0x1e4f0, kUnicodeNumber},  // new in 15.0
                        {0x1f600, kUnicodeSymbol},
                        {0x378, kUnicodeUnassigned},
                        {0x10ffff, kUnicodeUnassigned},
                        {0xd800, kUnicodeControl},
                        {0x110000, 0}};
    for (const Row& row : rows) {
        INFO(row.character);
        CHECK(unicode_class(row.character) == row.want);
    }
}

namespace {

// The merge rule in its plainest form: join the leftmost of the best-ranked pairs, again and again.
std::vector<std::string> merge_plainly(const Vocabulary& v, std::vector<std::string> parts)
{
    for (;;) {
        size_t best_rank = v.merges.size();
        size_t best = 0;
        for (size_t i = 0; i + 1 < parts.size(); i++) {
            for (size_t rank = 0; rank < best_rank; rank++) {
                if (v.merges[rank] == parts[i] + " " + parts[i + 1]) {
                    best_rank = rank;
                    best = i;
                }
            }
        }
        if (best_rank == v.merges.size()) {
            return parts;
        }
        parts[best] += parts[best + 1];
        parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    }
}

}  // namespace

TEST_CASE("words of every length are joined as the plain rule says")
{
    Vocabulary v = byte_level();
    for (const char* pair : {"a b", "b a", "ab a", "a a", "aa b", "ab ab", "ba ba", "aba b"}) {
        const std::string text = pair;
        const size_t blank = text.find(' ');
        v.merges.push_back(text);
        const std::string joined = text.substr(0, blank) + text.substr(blank + 1);
        // Two merges may give one spelling; it is one token all the same.
        bool known = false;
        for (const std::string& token : v.tokens) {
            known = known || token == joined;
        }
        if (!known) {
            v.add(joined);
        }
    }
    Opened o(byte_level_writer(v));
    REQUIRE(o.result == AOTX_OK);
    uint64_t state = 42;
    for (int round = 0; round < 300; round++) {
        std::string word;
        std::vector<std::string> parts;
        const size_t length = 1 + static_cast<size_t>(round % 60);
        for (size_t i = 0; i < length; i++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            word += (state >> 60) % 2 == 0 ? 'a' : 'b';
            parts.emplace_back(1, word.back());
        }
        Tokens want;
        for (const std::string& part : merge_plainly(v, parts)) {
            want.push_back(o.tokenizer.find(part.data(), static_cast<uint32_t>(part.size())));
        }
        INFO(word);
        CHECK(o.encode(word) == want);
    }
}

TEST_CASE("a word of 60 kilobytes is encoded like any other")
{
    Opened o(byte_level_writer(byte_level()), 65536);
    std::string word;
    Tokens want;
    for (int i = 0; i < 12000; i++) {
        word += "hello";
        want.push_back(262);
    }
    CHECK(o.encode(word) == want);
    Opened p(pieces_writer(pieces()), 65536);
    CHECK(p.encode(std::string(60000, 'c')).size() == 60001);
}

TEST_CASE("ends of a generation are known by key and by spelling")
{
    Vocabulary v = byte_level();
    const int32_t eot = v.add("<|eot_id|>", vocabularies::kControl);
    const int32_t turn = v.add("<end_of_turn>");  // a converter forgot its kind
    const int32_t other = v.add("<|other|>", vocabularies::kControl);
    GgufWriter writer = byte_level_writer(v);
    writer.add_u32("tokenizer.ggml.eom_token_id", static_cast<uint32_t>(other));
    Opened o(writer);
    REQUIRE(o.result == AOTX_OK);
    CHECK(o.tokenizer.flags(eot) == (kTokenEnd | kTokenControl));
    CHECK(o.tokenizer.flags(turn) == (kTokenEnd | kTokenControl));
    CHECK(o.tokenizer.flags(other) == (kTokenEnd | kTokenControl));
    CHECK(o.tokenizer.eos() == 257);
    CHECK(o.tokenizer.bos() == 256);
}

TEST_CASE("a bad vocabulary is refused with its field named")
{
    struct Row {
        const char* name;
        std::function<GgufWriter()> make;
        const char* named;
    };
    const auto without_types = [](const Vocabulary& v, const std::string& model) {
        GgufWriter writer;
        writer.add_string("tokenizer.ggml.model", model);
        writer.add_strings("tokenizer.ggml.tokens", v.tokens);
        return writer;
    };
    const Row rows[] = {
        {"no model", [] { return GgufWriter(); }, "tokenizer.ggml.model"},
        {"another model", [&] { return without_types(byte_level(), "bert"); }, "bert"},
        {"no merges", [&] { return without_types(byte_level(), "gpt2"); }, "tokenizer.ggml.merges"},
        {"unknown rule", [] { return byte_level_writer(byte_level(), "odd-rule"); }, "odd-rule"},
        {"no tokens",
         [] {
             GgufWriter writer;
             writer.add_string("tokenizer.ggml.model", "llama");
             return writer;
         },
         "tokenizer.ggml.tokens"},
        {"none at all", [] { return pieces_writer(Vocabulary()); }, "tokenizer.ggml.tokens"},
        {"a token twice",
         [] {
             Vocabulary v = pieces();
             v.add("ab");
             return pieces_writer(v);
         },
         "tokenizer.ggml.tokens"},
        {"too few kinds",
         [] {
             Vocabulary v = pieces();
             v.types.pop_back();
             return pieces_writer(v);
         },
         "tokenizer.ggml.token_type"},
        {"too few scores",
         [] {
             Vocabulary v = pieces();
             v.scores.pop_back();
             return pieces_writer(v);
         },
         "tokenizer.ggml.scores"},
        {"a score that is no number",
         [] {
             Vocabulary v = pieces();
             v.scores[5] = std::nanf("");
             return pieces_writer(v);
         },
         "tokenizer.ggml.scores"},
        {"a start token that is a word",
         [] {
             GgufWriter writer = pieces_writer(pieces());
             writer.add_string("tokenizer.ggml.bos_token_id", "1");
             return writer;
         },
         "tokenizer.ggml.bos_token_id"},
    };
    for (const Row& row : rows) {
        INFO(row.name);
        Opened o(row.make());
        CHECK(o.result != AOTX_OK);
        INFO(o.reason.text);
        CHECK(std::string(o.reason.text).find(row.named) != std::string::npos);
    }
}

TEST_CASE("numbers outside the vocabulary leave the family's own tokens")
{
    GgufWriter writer = pieces_writer(pieces());
    writer.add_u32("tokenizer.ggml.bos_token_id", UINT32_MAX);
    writer.add_u32("tokenizer.ggml.eos_token_id", 100000);
    Opened o(writer);
    REQUIRE(o.result == AOTX_OK);
    CHECK(o.tokenizer.bos() == 1);
    CHECK(o.tokenizer.eos() == 2);
}

TEST_CASE("merges that name unknown spellings are harmless")
{
    Vocabulary v = byte_level();
    v.merges.push_back("x y");  // joins to a spelling that is no token
    v.merges.push_back("xy z");
    v.merges.push_back("no-blank");
    v.merges.push_back(" ");
    v.merges.push_back("");
    v.merges.push_back("h e");  // again, and later: the first one counts
    Opened o(byte_level_writer(v));
    REQUIRE(o.result == AOTX_OK);
    // What is no token falls back to its bytes.
    CHECK(o.encode("xyz") == Tokens{'x', 'y', 'z'});
    CHECK(o.encode("hello") == Tokens{262});
}
