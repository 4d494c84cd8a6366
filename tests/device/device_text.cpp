// Purpose:  the checks of tests/device/run.sh for the text runtime on a card: its tokens and logits
// against the CPU runtime's, and how fast it decodes.
// Owns:     loaded runtimes; a model file of random weights, while it runs.
// Thread:   main and the runtimes' own.
// Lifetime: one run; exit 0 when the named check holds.
//
// usage: device_text kinds | numerics MODEL | speed MODEL | billion [COPY_GB_PER_SECOND]
// AOTX_DEVICE_TEXT=cpu checks this program itself on a machine without a card.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "device_text.h"
#include "tests/support/gguf_writer.h"

namespace {

constexpr double kNumericsSeconds = 60.0;
constexpr double kTolerance = 1e-2;  // of the largest logit: keys and values have 16 bits there
constexpr uint32_t kAnswerTokens = 16;

// ---- numerics ----

std::vector<std::vector<int32_t>> prompts_read()
{
    std::vector<std::vector<int32_t>> prompts;
    std::ifstream in("tests/text/golden/numerics.txt");
    std::string line;
    while (std::getline(in, line)) {
        std::istringstream words(line);
        std::string kind;
        size_t count = 0;
        words >> kind;
        if (kind != "tokens" || !(words >> count)) {
            continue;
        }
        prompts.emplace_back(count);
        for (int32_t& token : prompts.back()) {
            words >> token;
        }
    }
    return prompts;
}

int check_numerics(const std::string& path)
{
    const std::string common = "\"sequences\":1,\"kv_tokens\":2048,\"step_tokens\":256,";
    const Runtime cpu(path, common + "\"activations\":\"float\",\"device\":\"cpu\"");
    const Runtime card(path, common + "\"device\":\"" + device_name() + "\"");
    const Clock::time_point begin = Clock::now();
    Judged judged;
    for (const std::vector<int32_t>& prompt : prompts_read()) {
        if (seconds_since(begin) > kNumericsSeconds) {
            break;
        }
        const uint32_t most = static_cast<uint32_t>(prompt.size()) + kAnswerTokens;
        must(cpu.text->sequence_open(cpu.text->self, 0, most), "sequence_open");
        must(card.text->sequence_open(card.text->self, 0, most), "sequence_open");
        std::vector<int32_t> next = prompt;
        for (uint32_t i = 0; i < kAnswerTokens; i++) {
            const float* const want = cpu.feed(0, next);
            next = {judge(want, card.feed(0, next), cpu.vocab(), &judged)};
        }
        must(cpu.text->sequence_close(cpu.text->self, 0), "sequence_close");
        must(card.text->sequence_close(card.text->self, 0), "sequence_close");
        judged.prompts++;
    }
    std::printf(
        "%u prompts, %u tokens: %u choices differ, %u beyond the deviation; largest %.1e "
        "of %.0e allowed\n",
        judged.prompts, judged.tokens, judged.other, judged.wrong, judged.deviation, kTolerance);
    return judged.prompts > 0 && judged.wrong == 0 && judged.deviation <= kTolerance ? 0 : 1;
}

// ---- speed ----

constexpr uint32_t kPromptTokens = 128;
constexpr uint32_t kBatchMost = 64;
constexpr double kCopyShareGoal = 0.7;

std::vector<int32_t> prompt_make(uint32_t vocab, uint32_t sequence, uint32_t count)
{
    std::vector<int32_t> prompt;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t mixed = (sequence * 131u + i) * 2654435761u;
        prompt.push_back(static_cast<int32_t>(mixed % (vocab / 2u) + vocab / 4u));
    }
    return prompt;
}

// One greedy step of all sequences; tokens come from the device where it chooses them.
void decode(const Runtime& runtime, std::vector<aotx_text_row>* rows,
            std::vector<aotx_text_draw>* draws, std::vector<int32_t>* tokens)
{
    const aotx_text_runtime_v1& text = *runtime.text;
    const uint32_t count = static_cast<uint32_t>(tokens->size());
    const bool samples =
        text.struct_size >= AOTX_TEXT_RUNTIME_V1_SAMPLE_SIZE && text.step_sample != nullptr;
    for (uint32_t i = 0; i < count; i++) {
        (*rows)[i] = {i, 1, &(*tokens)[i], 1, 0, nullptr};
        (*draws)[i] = {0.0f, 1.0f, 0.0, 0, 0};
    }
    must(samples ? text.step_sample(text.self, rows->data(), count, draws->data())
                 : text.step(text.self, rows->data(), count),
         "step");
    for (uint32_t i = 0; i < count; i++) {
        (*tokens)[i] = samples ? (*draws)[i].token : likeliest((*rows)[i].logits, runtime.vocab());
    }
}

// Tokens a second of one batch, after a warm-up.
double decode_rate(const Runtime& runtime, uint32_t batch, uint32_t steps)
{
    const aotx_text_runtime_v1& text = *runtime.text;
    std::vector<int32_t> tokens;
    for (uint32_t i = 0; i < batch; i++) {
        must(text.sequence_open(text.self, i, kPromptTokens + steps + 8), "sequence_open");
        const float* const logits = runtime.feed(i, prompt_make(runtime.vocab(), i, kPromptTokens));
        tokens.push_back(likeliest(logits, runtime.vocab()));
    }
    std::vector<aotx_text_row> rows(batch);
    std::vector<aotx_text_draw> draws(batch);
    for (uint32_t i = 0; i < 4; i++) {
        decode(runtime, &rows, &draws, &tokens);
    }
    const Clock::time_point begin = Clock::now();
    for (uint32_t i = 0; i < steps; i++) {
        decode(runtime, &rows, &draws, &tokens);
    }
    const double rate = batch * steps / seconds_since(begin);
    for (uint32_t i = 0; i < batch; i++) {
        must(text.sequence_close(text.self, i), "sequence_close");
    }
    return rate;
}

double prefill_rate(const Runtime& runtime)
{
    const aotx_text_runtime_v1& text = *runtime.text;
    const std::vector<int32_t> prompt = prompt_make(runtime.vocab(), 3, 1024);
    double best = 0;
    for (uint32_t i = 0; i < 3; i++) {
        must(text.sequence_open(text.self, 0, 1024), "sequence_open");
        const Clock::time_point begin = Clock::now();
        (void)runtime.feed(0, prompt);
        best = std::max(best, static_cast<double>(prompt.size()) / seconds_since(begin));
        must(text.sequence_close(text.self, 0), "sequence_close");
    }
    return best;
}

// Both rates are bytes that cross the memory's wires in a second: those of the weights are read, a
// copy's are read and written, and both are counted. Below the goal is a failure; without a copy
// rate nothing is judged, which is exit status 77 on a card.
int judge_rate(double weight_rate, double copy_rate)
{
    if (copy_rate <= 0) {
        std::printf("batch 1: %.0f GB/s of weights; not judged, no copy rate was given\n",
                    weight_rate / 1e9);
        return std::strcmp(device_name(), "cuda") == 0 ? 77 : 0;
    }
    const double share = weight_rate / copy_rate;
    std::printf(
        "batch 1: %.0f GB/s of weights read, %.1f %% of the %.0f GB/s that a copy reads and "
        "writes, goal %.0f %%\n",
        weight_rate / 1e9, share * 100, copy_rate / 1e9, kCopyShareGoal * 100);
    return share >= kCopyShareGoal ? 0 : 1;
}

// weight_bytes: that a token at batch 1 must read; 0: not told.
int check_speed(const std::string& path, double weight_bytes, double copy_bytes)
{
    const bool card = std::strcmp(device_name(), "cuda") == 0;
    const Runtime runtime(path, std::string("\"sequences\":64,\"kv_tokens\":32768,"
                                            "\"step_tokens\":256,\"device\":\"") +
                                    device_name() + "\"");
    std::printf("prefill of 1024 tokens: %.0f tokens/s\n", prefill_rate(runtime));
    std::string line;
    double alone = 0;
    for (const uint32_t batch : {1u, 8u, 32u, kBatchMost}) {
        const double rate = decode_rate(runtime, batch, card ? 128 : 2);
        alone = batch == 1 ? rate : alone;
        char part[64];
        std::snprintf(part, sizeof part, " %u: %.0f", batch, rate);
        line += part;
    }
    std::printf("decode tokens/s at batch%s\n", line.c_str());
    return weight_bytes > 0 ? judge_rate(alone * weight_bytes, copy_bytes) : 0;
}

// ---- a billion parameters ----

struct Shape {
    uint32_t layers, embedding, feed_forward, heads, kv_heads, vocab;
};

// Random Q8_0 blocks with small scales.
std::vector<uint8_t> blocks_make(uint64_t elements, uint64_t* state)
{
    std::vector<uint8_t> bytes(elements / 32 * 34);
    for (size_t at = 0; at < bytes.size(); at += 34) {
        for (size_t i = 0; i < 32; i += 8) {
            *state ^= *state << 13;
            *state ^= *state >> 7;
            *state ^= *state << 17;
            std::memcpy(&bytes[at + 2 + i], state, 8);
        }
        const uint16_t scale = static_cast<uint16_t>(0x0c00 + (*state >> 54));  // about 0.0003
        std::memcpy(&bytes[at], &scale, sizeof scale);
    }
    return bytes;
}

struct Model {
    GgufWriter writer;
    uint64_t state = 88172645463325252u;
    uint64_t matrix_bytes = 0;

    void matrix(const std::string& name, uint64_t rows, uint64_t columns)
    {
        const std::vector<uint8_t> blocks = blocks_make(rows * columns, &state);
        matrix_bytes += blocks.size();
        writer.add_tensor(name, 8, {columns, rows}, blocks);
    }
    void ones(const std::string& name, uint32_t count)
    {
        const std::vector<float> values(count, 1.0f);
        std::vector<uint8_t> bytes(count * sizeof(float));
        std::memcpy(bytes.data(), values.data(), bytes.size());
        writer.add_tensor(name, 0, {count}, bytes);
    }
    void head(const Shape& shape)
    {
        writer.add_string("general.architecture", "llama");
        writer.add_u32("llama.block_count", shape.layers);
        writer.add_u32("llama.context_length", 4096);
        writer.add_u32("llama.embedding_length", shape.embedding);
        writer.add_u32("llama.feed_forward_length", shape.feed_forward);
        writer.add_u32("llama.attention.head_count", shape.heads);
        writer.add_u32("llama.attention.head_count_kv", shape.kv_heads);
        writer.add_f32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
        std::vector<std::string> tokens = {"<unk>"};
        while (tokens.size() < shape.vocab) {
            tokens.push_back("t" + std::to_string(tokens.size()));
        }
        std::vector<int32_t> types(shape.vocab, 1);
        types[0] = 2;
        writer.add_string("tokenizer.ggml.model", "llama");
        writer.add_strings("tokenizer.ggml.tokens", tokens);
        writer.add_i32s("tokenizer.ggml.token_type", types);
        writer.add_f32s("tokenizer.ggml.scores", std::vector<float>(shape.vocab, 0.0f));
    }
    // The output matrix is the embedding, so every matrix is read for every token.
    void weights(const Shape& shape)
    {
        const uint32_t key = shape.embedding / shape.heads * shape.kv_heads;
        matrix("token_embd.weight", shape.vocab, shape.embedding);
        ones("output_norm.weight", shape.embedding);
        for (uint32_t i = 0; i < shape.layers; i++) {
            const std::string block = "blk." + std::to_string(i) + ".";
            ones(block + "attn_norm.weight", shape.embedding);
            ones(block + "ffn_norm.weight", shape.embedding);
            matrix(block + "attn_q.weight", shape.embedding, shape.embedding);
            matrix(block + "attn_k.weight", key, shape.embedding);
            matrix(block + "attn_v.weight", key, shape.embedding);
            matrix(block + "attn_output.weight", shape.embedding, shape.embedding);
            matrix(block + "ffn_gate.weight", shape.feed_forward, shape.embedding);
            matrix(block + "ffn_up.weight", shape.feed_forward, shape.embedding);
            matrix(block + "ffn_down.weight", shape.embedding, shape.feed_forward);
        }
    }
};

int check_billion(double copy_bytes)
{
    const bool card = std::strcmp(device_name(), "cuda") == 0;
    const Shape shape = card ? Shape{18, 2048, 8192, 32, 8, 49152}  // 1.2 billion
                             : Shape{2, 256, 512, 8, 2, 1024};
    const char* const folder = std::getenv("TMPDIR");
    std::string path = std::string(folder == nullptr ? "/tmp" : folder) + "/aotx_billion_XXXXXX";
    const int fd = mkstemp(path.data());
    if (fd < 0) {
        std::printf("no file for the weights\n");
        return 1;
    }
    uint64_t matrix_bytes = 0;
    {
        Model model;
        model.head(shape);
        model.weights(shape);
        matrix_bytes = model.matrix_bytes;
        const std::vector<uint8_t> file = model.writer.finish();
        size_t written = 0;
        while (written < file.size()) {
            const ssize_t now = write(fd, file.data() + written, file.size() - written);
            if (now <= 0) {
                unlink(path.c_str());
                std::printf("no room for the weights: %zu bytes\n", file.size());
                return 1;
            }
            written += static_cast<size_t>(now);
        }
        close(fd);
    }
    std::printf("%.2f billion random parameters in Q8_0\n",
                static_cast<double>(matrix_bytes) / 34 * 32 / 1e9);
    const int result = check_speed(path, static_cast<double>(matrix_bytes), copy_bytes);
    unlink(path.c_str());
    return result;
}

}  // namespace

int main(int count, char** words)
{
    const std::string check = count >= 2 ? words[1] : "";
    if (check == "kinds" && count == 2) {
        return check_kinds();
    }
    if (check == "numerics" && count == 3) {
        return check_numerics(words[2]);
    }
    if (check == "speed" && count == 3) {
        return check_speed(words[2], 0, 0);
    }
    if (check == "billion" && count <= 3) {
        return check_billion(count == 3 ? std::atof(words[2]) * 1e9 : 0);
    }
    std::printf("usage: device_text kinds | numerics MODEL | speed MODEL | billion [COPY_GB/S]\n");
    return 2;
}
