// A tool for comparisons by hand: dump_tokens MODEL STRINGS OUT. STRINGS as golden/strings.py
// writes them; OUT: u32 vocabulary, per token u32 flags, u32 length, bytes; then per string u32
// count, i32 tokens (count 0xffffffff: refused).
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <vector>

#include "aotx/status.h"
#include "tokenizer/tokenizer.h"

namespace {

template <typename T>
void put(std::ofstream* out, T value)
{
    out->write(reinterpret_cast<const char*>(&value), sizeof value);
}

void dump_vocabulary(const aotx::Tokenizer& tokenizer, std::ofstream* out)
{
    put(out, tokenizer.vocab_size());
    for (uint32_t i = 0; i < tokenizer.vocab_size(); i++) {
        const int32_t token = static_cast<int32_t>(i);
        const uint8_t* bytes = nullptr;
        uint32_t count = 0;
        if (!tokenizer.token_bytes(token, &bytes, &count)) {
            return;
        }
        put(out, tokenizer.flags(token));
        put(out, count);
        out->write(reinterpret_cast<const char*>(bytes), count);
    }
}

void dump_strings(const aotx::Tokenizer& tokenizer, const std::vector<char>& strings,
                  std::ofstream* out)
{
    aotx::TokenizerScratch scratch;
    if (scratch.open(1u << 20) != AOTX_OK) {
        return;
    }
    std::vector<int32_t> tokens(1u << 21);
    for (size_t at = 0; at + 8 <= strings.size();) {
        uint32_t head[2];
        std::copy_n(strings.data() + at, sizeof head, reinterpret_cast<char*>(head));
        at += sizeof head;
        aotx::TextInput input;
        input.text = strings.data() + at;
        input.bytes = head[0];
        input.parse_special = (head[1] & 1) != 0;
        input.add_start = (head[1] & 2) != 0;
        at += head[0];
        uint32_t count = 0;
        const int result = tokenizer.encode(&scratch, input, tokens.data(),
                                            static_cast<uint32_t>(tokens.size()), &count);
        put(out, result == AOTX_OK ? count : UINT32_MAX);
        for (uint32_t i = 0; i < count && result == AOTX_OK; i++) {
            put(out, tokens[i]);
        }
    }
}

}  // namespace

int main(int argc, char** argv)
{
    if (argc != 4) {
        std::fprintf(stderr, "usage: dump_tokens MODEL STRINGS OUT\n");
        return 2;
    }
    aotx::GgufFile file;
    aotx::Tokenizer tokenizer;
    aotx::TextReason reason;
    if (file.open(argv[1], &reason) != AOTX_OK || tokenizer.open(file, &reason) != AOTX_OK) {
        std::fprintf(stderr, "%s: %s\n", argv[1], reason.text);
        return 1;
    }
    std::ifstream in(argv[2], std::ios::binary);
    const std::vector<char> strings((std::istreambuf_iterator<char>(in)),
                                    std::istreambuf_iterator<char>());
    std::ofstream out(argv[3], std::ios::binary);
    dump_vocabulary(tokenizer, &out);
    dump_strings(tokenizer, strings, &out);
    return out.good() ? 0 : 1;
}
