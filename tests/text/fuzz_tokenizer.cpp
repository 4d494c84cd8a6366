// Any text: the tokens stand for exactly its bytes, message text gives no special token, and a
// short buffer is told what is needed. Byte 0 of the input picks the options.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "aotx/status.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/unicode.h"
#include "vocabularies.h"

using namespace aotx;

namespace {

void require(bool holds)
{
    if (!holds) {
        std::abort();
    }
}

struct Subject {
    std::vector<uint8_t> file;
    GgufFile gguf;
    Tokenizer tokenizer;
    TokenizerScratch scratch;

    explicit Subject(const GgufWriter& writer) : file(writer.finish())
    {
        TextReason reason;
        require(gguf.open_memory(file.data(), file.size(), &reason) == AOTX_OK);
        require(tokenizer.open(gguf, &reason) == AOTX_OK);
        require(scratch.open(1u << 16) == AOTX_OK);
    }
};

GgufWriter plain_pieces()
{
    GgufWriter writer = vocabularies::pieces_writer(vocabularies::pieces());
    writer.add_bool("tokenizer.ggml.add_space_prefix", false);
    return writer;
}

// Well formed as decoders of the tokenizers see it: no byte was replaced.
bool is_clean(const std::string& text)
{
    for (size_t at = 0; at < text.size();) {
        uint32_t character = 0;
        char encoded[4];
        const uint32_t bytes =
            utf8_decode(text.data() + at, static_cast<uint32_t>(text.size() - at), &character);
        if (utf8_encode(character, encoded) != bytes || text.compare(at, bytes, encoded, bytes)) {
            return false;
        }
        at += bytes;
    }
    return true;
}

void check(Subject* subject, const std::string& text, bool parse_special, bool bytes_kept)
{
    const std::vector<uint8_t> marks(text.size() + 1, kTextMarkUser);
    std::vector<int32_t> tokens(3 * text.size() + 4);
    for (const bool marked : {false, true}) {
        TextInput input;
        input.text = text.data();
        input.bytes = static_cast<uint32_t>(text.size());
        input.parse_special = parse_special;
        input.marks = marked ? marks.data() : nullptr;
        uint32_t count = 0;
        const int result = subject->tokenizer.encode(&subject->scratch, input, tokens.data(),
                                                     static_cast<uint32_t>(tokens.size()), &count);
        if (result == AOTX_ERR_FULL && count == 0) {
            return;  // over the scratch
        }
        require(result == AOTX_OK);
        std::string back;
        for (uint32_t i = 0; i < count; i++) {
            const uint8_t* bytes = nullptr;
            uint32_t length = 0;
            require(subject->tokenizer.token_bytes(tokens[i], &bytes, &length));
            back.append(reinterpret_cast<const char*>(bytes), length);
            require(!marked || (subject->tokenizer.flags(tokens[i]) & kTokenControl) == 0);
        }
        require(!bytes_kept || back == text);
        uint32_t needed = 0;
        require(count == 0 || subject->tokenizer.encode(&subject->scratch, input, tokens.data(),
                                                        count - 1, &needed) == AOTX_ERR_FULL);
        require(count == 0 || needed == count);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size_bytes)
{
    static const char* const kRules[] = {"gpt-2",   "smollm", "llama-bpe", "qwen2",
                                         "default", "tekken", "gpt-4o",    "deepseek-v3"};
    static const std::vector<std::unique_ptr<Subject>> subjects = [] {
        std::vector<std::unique_ptr<Subject>> made;
        for (const char* const rule : kRules) {
            made.push_back(std::make_unique<Subject>(
                vocabularies::byte_level_writer(vocabularies::byte_level(), rule)));
        }
        made.push_back(std::make_unique<Subject>(plain_pieces()));
        return made;
    }();
    if (size_bytes < 1) {
        return 0;
    }
    const std::string text(reinterpret_cast<const char*>(data) + 1, size_bytes - 1);
    const bool parse_special = (data[0] & 0x80) != 0;
    const size_t chosen = (data[0] & 0x7f) % subjects.size();
    const bool pieces = chosen + 1 == subjects.size();
    // Pieces spell a blank with a character of their own, which then reads back as a blank, and
    // which a broken sequence before it may tear.
    const bool spelled = pieces && text.find("\xe2\x96\x81") != std::string::npos;
    const bool kept = is_clean(text) && !spelled;
    check(subjects[chosen].get(), text, parse_special, kept);
    return 0;
}
