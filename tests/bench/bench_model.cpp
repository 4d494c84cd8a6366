// Purpose:  write a language model of random weights and known size as a GGUF file, small enough
//           that what the service adds to a token is not lost in the token itself.
// Owns:     nothing once the file is written.
// Thread:   main.
// Lifetime: one run.
//
// usage: bench_model FILE [EMBEDDING [LAYERS]]
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "gguf_writer.h"
#include "tests/text/vocabularies.h"

namespace {

using Dims = std::vector<uint64_t>;

constexpr uint32_t kFloat32 = 0;  // type numbers of the file format
constexpr uint32_t kHeadSize = 32;
constexpr uint32_t kContext = 2048;

class Weights {
public:
    // Values in -scale..scale, the same ones in every run.
    std::vector<uint8_t> random(uint64_t count, float scale)
    {
        std::vector<uint8_t> bytes;
        for (uint64_t i = 0; i < count; i++) {
            state_ = state_ * 6364136223846793005u + 1442695040888963407u;
            const float unit = static_cast<float>(static_cast<int32_t>(state_ >> 33) - (1 << 30)) /
                               static_cast<float>(1 << 30);
            GgufWriter::put(&bytes, unit * scale);
        }
        return bytes;
    }
    static std::vector<uint8_t> ones(uint64_t count)
    {
        std::vector<uint8_t> bytes;
        for (uint64_t i = 0; i < count; i++) {
            GgufWriter::put(&bytes, 1.0f);
        }
        return bytes;
    }

private:
    uint64_t state_ = 1;
};

void put_shape(GgufWriter* writer, uint32_t embedding, uint32_t layers)
{
    writer->add_string("general.architecture", "llama");
    writer->add_u32("llama.block_count", layers);
    writer->add_u32("llama.context_length", kContext);
    writer->add_u32("llama.embedding_length", embedding);
    writer->add_u32("llama.feed_forward_length", 4 * embedding);
    writer->add_u32("llama.attention.head_count", embedding / kHeadSize);
    writer->add_u32("llama.attention.head_count_kv", embedding / kHeadSize);
    writer->add_u32("llama.rope.dimension_count", kHeadSize);
    writer->add_f32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
    writer->add_f32("llama.rope.freq_base", 10000.0f);
    writer->add_string("tokenizer.chat_template",
                       "{% for m in messages %}{{ m.content }}{% endfor %}");
}

// Rows of what is no printable character stay zero, the end token's too: a logit of zero is never
// the largest, so that every answer runs to its limit and every token can be sent.
std::vector<uint8_t> token_rows(Weights* weights, uint64_t vocabulary, uint32_t embedding)
{
    std::vector<uint8_t> rows = weights->random(vocabulary * embedding, 1.0f);
    for (uint64_t token = 0; token < vocabulary; token++) {
        if (token < 0x20 || token > 0x7e) {
            const size_t bytes = embedding * sizeof(float);
            std::fill_n(rows.begin() + static_cast<std::ptrdiff_t>(token * bytes), bytes, 0);
        }
    }
    return rows;
}

void put_layer(GgufWriter* writer, Weights* weights, const std::string& name, uint64_t size)
{
    const float scale = 0.1f;
    writer->add_tensor(name + "attn_norm.weight", kFloat32, {size}, Weights::ones(size));
    writer->add_tensor(name + "ffn_norm.weight", kFloat32, {size}, Weights::ones(size));
    for (const char* const part : {"attn_q", "attn_k", "attn_v", "attn_output"}) {
        writer->add_tensor(name + part + ".weight", kFloat32, {size, size},
                           weights->random(size * size, scale));
    }
    for (const char* const part : {"ffn_gate", "ffn_up", "ffn_down"}) {
        const bool is_down = std::string(part) == "ffn_down";
        writer->add_tensor(name + part + ".weight", kFloat32,
                           is_down ? Dims{4 * size, size} : Dims{size, 4 * size},
                           weights->random(4 * size * size, scale));
    }
}

}  // namespace

int main(int argc, char** argv)
{
    const uint32_t embedding = argc > 2 ? static_cast<uint32_t>(atoi(argv[2])) : 128;
    const uint32_t layers = argc > 3 ? static_cast<uint32_t>(atoi(argv[3])) : 4;
    if (argc < 2 || embedding == 0 || embedding % kHeadSize != 0 || layers == 0) {
        fprintf(stderr, "usage: bench_model FILE [EMBEDDING [LAYERS]]\n");
        return 2;
    }
    const vocabularies::Vocabulary vocabulary = vocabularies::byte_level();
    GgufWriter writer = vocabularies::byte_level_writer(vocabulary);
    put_shape(&writer, embedding, layers);
    Weights weights;
    writer.add_tensor("token_embd.weight", kFloat32, {embedding, vocabulary.tokens.size()},
                      token_rows(&weights, vocabulary.tokens.size(), embedding));
    writer.add_tensor("output_norm.weight", kFloat32, {embedding}, Weights::ones(embedding));
    for (uint32_t layer = 0; layer < layers; layer++) {
        put_layer(&writer, &weights, "blk." + std::to_string(layer) + ".", embedding);
    }
    const std::vector<uint8_t> file = writer.finish();
    FILE* const out = fopen(argv[1], "wb");
    if (out == nullptr || fwrite(file.data(), 1, file.size(), out) != file.size() ||
        fclose(out) != 0) {
        perror(argv[1]);
        return 1;
    }
    return 0;
}
