// The golden tokenization of the default model. Exits 77, which ctest shows as skipped, when the
// model file is not there.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "aotx/status.h"
#include "tokenizer/tokenizer.h"

namespace {

constexpr int kSkipped = 77;
constexpr char kGolden[] = "tests/text/golden/smollm2_tokens.bin";
constexpr char kModel[] = ".aotx/SmolLM2-135M-Instruct.Q4_1.gguf";
constexpr uint32_t kParseSpecial = 1;
constexpr uint32_t kAddStart = 2;
constexpr uint32_t kStringsMin = 10000;

uint32_t fnv(const std::vector<int32_t>& tokens, uint32_t count)
{
    uint32_t value = 0x811c9dc5u;
    for (uint32_t i = 0; i < count; i++) {
        uint8_t bytes[4];
        std::memcpy(bytes, &tokens[i], sizeof bytes);
        for (const uint8_t byte : bytes) {
            value = (value ^ byte) * 0x01000193u;
        }
    }
    return value;
}

template <typename T>
T take(const std::vector<char>& data, size_t* at)
{
    T value;
    std::memcpy(&value, data.data() + *at, sizeof value);
    *at += sizeof value;
    return value;
}

// Strings whose tokens differ; each of the first few is told about.
uint32_t compare(const aotx::Tokenizer& tokenizer, const std::vector<char>& golden)
{
    aotx::TokenizerScratch scratch;
    if (scratch.open(65536) != AOTX_OK) {
        return 1;
    }
    size_t at = 8;
    const uint32_t count = take<uint32_t>(golden, &at);
    std::vector<int32_t> tokens(65536);
    uint32_t wrong = count < kStringsMin ? 1 : 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint16_t head = take<uint16_t>(golden, &at);
        const uint16_t want_count = take<uint16_t>(golden, &at);
        const uint32_t want_hash = take<uint32_t>(golden, &at);
        aotx::TextInput input;
        input.text = golden.data() + at;
        input.bytes = head >> 2;
        input.parse_special = (head & kParseSpecial) != 0;
        input.add_start = (head & kAddStart) != 0;
        at += input.bytes;
        uint32_t got = 0;
        const int result = tokenizer.encode(&scratch, input, tokens.data(), 65536, &got);
        if (result != AOTX_OK || got != want_count || fnv(tokens, got) != want_hash) {
            wrong++;
            if (wrong <= 5) {
                std::fprintf(stderr, "string %u: %u tokens, want %u: %.*s\n", i, got, want_count,
                             static_cast<int>(input.bytes), input.text);
            }
        }
    }
    std::printf("%u strings, %u wrong\n", count, wrong);
    return wrong;
}

}  // namespace

int main()
{
    const char* const given = std::getenv("AOTX_MODEL");
    const std::string model = given != nullptr ? given : kModel;
    if (!std::ifstream(model).good()) {
        std::printf("skipped: no model file at %s\n", model.c_str());
        return kSkipped;
    }
    std::ifstream in(kGolden, std::ios::binary);
    const std::vector<char> golden((std::istreambuf_iterator<char>(in)),
                                   std::istreambuf_iterator<char>());
    if (golden.size() < 12 || std::memcmp(golden.data(), "AOTXTOK1", 8) != 0) {
        std::fprintf(stderr, "%s is missing or broken\n", kGolden);
        return 1;
    }
    aotx::GgufFile file;
    aotx::Tokenizer tokenizer;
    aotx::TextReason reason;
    if (file.open(model.c_str(), &reason) != AOTX_OK || tokenizer.open(file, &reason) != AOTX_OK) {
        std::fprintf(stderr, "%s: %s\n", model.c_str(), reason.text);
        return 1;
    }
    return compare(tokenizer, golden) == 0 ? 0 : 1;
}
