// Purpose:  small random models as GGUF files in memory.
// Owns:     the bytes.
// Thread:   main.
// Lifetime: one test.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "file/gguf.h"
#include "tests/kernels/support.h"

namespace aotx_test {

struct TinyShape {
    const char* architecture;
    aotx::WeightType type;         // of the matrices
    aotx::WeightType second_type;  // of attn_v and ffn_down, as mixed files have
    uint32_t embedding;
    uint32_t feed_forward;
    uint32_t heads;
    uint32_t kv_heads;
    uint32_t head_size;
    uint32_t rotated;
    bool separate_output;
    bool bias;
    bool rope_factors;
    float rope_scale;                                   // 1: none
    aotx::WeightType up_type = aotx::WeightType::kF32;  // of ffn_up; kF32: as the others
};

// The shapes and features that every engine must compute.
struct TinyFamilyRow {
    const char* name;
    TinyShape shape;
};
inline std::vector<TinyFamilyRow> tiny_family()
{
    const aotx::WeightType f16 = aotx::WeightType::kF16;
    const aotx::WeightType q4 = aotx::WeightType::kQ4_0;
    const aotx::WeightType q8 = aotx::WeightType::kQ8_0;
    return {
        {"one kv head", {"llama", q8, q8, 64, 96, 4, 1, 16, 16, false, false, false, 1.0f}},
        {"all kv heads", {"llama", q8, q8, 64, 96, 4, 4, 16, 16, false, false, false, 1.0f}},
        {"head of 8", {"llama", q8, q8, 64, 96, 8, 4, 8, 8, false, false, false, 1.0f}},
        {"head of 40", {"llama", f16, f16, 120, 50, 3, 3, 40, 40, false, false, false, 1.0f}},
        {"part rotated", {"llama", q4, q8, 64, 96, 4, 2, 16, 8, false, false, false, 1.0f}},
        {"wide heads", {"llama", q4, q8, 64, 96, 4, 2, 32, 32, false, false, false, 1.0f}},
        {"own output", {"llama", q4, q8, 64, 96, 4, 2, 16, 16, true, false, false, 1.0f}},
        {"mixed floats", {"llama", q4, f16, 64, 96, 4, 2, 16, 16, true, false, false, 1.0f}},
        {"factors", {"llama", q8, q8, 64, 96, 4, 2, 16, 16, false, false, true, 1.0f}},
        {"linear scaling", {"llama", q8, q8, 64, 96, 4, 2, 16, 16, false, false, false, 4.0f}},
        {"qwen2", {"qwen2", q8, q8, 64, 96, 4, 2, 16, 16, true, true, false, 1.0f}},
        {"qwen2, part rotated", {"qwen2", q8, q4, 64, 96, 4, 2, 16, 8, true, true, false, 1.0f}},
        {"llama with bias", {"llama", q8, q4, 64, 96, 4, 2, 16, 16, false, true, false, 1.0f}},
        {"ups of another type",
         {"llama", q4, q8, 64, 96, 4, 2, 16, 16, false, false, false, 1.0f, q8}},
    };
}

class TinyModel {
public:
    static constexpr uint32_t kLayers = 2;
    static constexpr uint32_t kVocab = 97;

    // spoken: with a vocabulary, so that the whole runtime opens it.
    TinyModel(const TinyShape& shape, uint64_t seed, bool spoken = false) : random_(seed)
    {
        if (spoken) {
            put_vocabulary();
        }
        const std::string prefix = std::string(shape.architecture) + ".";
        put_text("general.architecture", shape.architecture);
        put_u32(prefix + "block_count", kLayers);
        put_u32(prefix + "context_length", 256);
        put_u32(prefix + "embedding_length", shape.embedding);
        put_u32(prefix + "feed_forward_length", shape.feed_forward);
        put_u32(prefix + "attention.head_count", shape.heads);
        put_u32(prefix + "attention.head_count_kv", shape.kv_heads);
        put_u32(prefix + "attention.key_length", shape.head_size);
        put_u32(prefix + "attention.value_length", shape.head_size);
        put_u32(prefix + "rope.dimension_count", shape.rotated);
        put_f32(prefix + "attention.layer_norm_rms_epsilon", 1e-5f);
        put_f32(prefix + "rope.freq_base", 1000.0f);
        if (shape.rope_scale != 1.0f) {
            put_text(prefix + "rope.scaling.type", "linear");
            put_f32(prefix + "rope.scaling.factor", shape.rope_scale);
        }
        put_tensors(shape);
        finish();
    }

    const uint8_t* data() const { return reinterpret_cast<const uint8_t*>(words_.data()); }
    uint64_t bytes() const { return bytes_; }

private:
    void put_tensors(const TinyShape& shape)
    {
        const uint32_t query = shape.heads * shape.head_size;
        const uint32_t key = shape.kv_heads * shape.head_size;
        const uint32_t size = shape.embedding;
        const uint32_t wide = shape.feed_forward;
        put_matrix("token_embd.weight", shape.type, kVocab, size);
        if (shape.separate_output) {
            put_matrix("output.weight", shape.second_type, kVocab, size);
        }
        put_vector("output_norm.weight", size, 1.0f);
        if (shape.rope_factors) {
            put_vector("rope_freqs.weight", shape.rotated / 2, 3.0f);
        }
        for (uint32_t i = 0; i < kLayers; i++) {
            const std::string block = "blk." + std::to_string(i) + ".";
            put_vector(block + "attn_norm.weight", size, 1.0f);
            put_vector(block + "ffn_norm.weight", size, 1.0f);
            put_matrix(block + "attn_q.weight", shape.type, query, size);
            put_matrix(block + "attn_k.weight", shape.type, key, size);
            put_matrix(block + "attn_v.weight", shape.second_type, key, size);
            put_matrix(block + "attn_output.weight", shape.type, size, query);
            put_matrix(block + "ffn_gate.weight", shape.type, wide, size);
            const bool own = shape.up_type != aotx::WeightType::kF32;
            put_matrix(block + "ffn_up.weight", own ? shape.up_type : shape.type, wide, size);
            put_matrix(block + "ffn_down.weight", shape.second_type, size, wide);
            if (shape.bias) {
                put_vector(block + "attn_q.bias", query, 0.0f);
                put_vector(block + "attn_k.bias", key, 0.0f);
                put_vector(block + "attn_v.bias", key, 0.0f);
            }
        }
    }

    template <typename T>
    static void append(std::vector<uint8_t>* out, T value)
    {
        const auto* const at = reinterpret_cast<const uint8_t*>(&value);
        out->insert(out->end(), at, at + sizeof value);
    }
    static void append_string(std::vector<uint8_t>* out, const std::string& text)
    {
        append(out, uint64_t{text.size()});
        out->insert(out->end(), text.begin(), text.end());
    }
    void put_key(const std::string& key, aotx::GgufValueType type)
    {
        append_string(&keys_, key);
        append(&keys_, static_cast<uint32_t>(type));
        keys_count_++;
    }
    void put_text(const std::string& key, const std::string& value)
    {
        put_key(key, aotx::GgufValueType::kString);
        append_string(&keys_, value);
    }
    void put_u32(const std::string& key, uint32_t value)
    {
        put_key(key, aotx::GgufValueType::kU32);
        append(&keys_, value);
    }
    void put_f32(const std::string& key, float value)
    {
        put_key(key, aotx::GgufValueType::kF32);
        append(&keys_, value);
    }
    void put_array(const std::string& key, aotx::GgufValueType type)
    {
        put_key(key, aotx::GgufValueType::kArray);
        append(&keys_, static_cast<uint32_t>(type));
        append(&keys_, uint64_t{kVocab});
    }
    // One token for what is not known, then names that no text holds.
    void put_vocabulary()
    {
        put_text("tokenizer.ggml.model", "llama");
        put_array("tokenizer.ggml.tokens", aotx::GgufValueType::kString);
        for (uint32_t i = 0; i < kVocab; i++) {
            append_string(&keys_, i == 0 ? "<unk>" : "token" + std::to_string(i));
        }
        put_array("tokenizer.ggml.token_type", aotx::GgufValueType::kI32);
        for (uint32_t i = 0; i < kVocab; i++) {
            append(&keys_, i == 0 ? 2 : 1);
        }
        put_array("tokenizer.ggml.scores", aotx::GgufValueType::kF32);
        for (uint32_t i = 0; i < kVocab; i++) {
            append(&keys_, 0.0f);
        }
    }
    void put_tensor(const std::string& name, aotx::WeightType type, uint32_t rows, uint32_t columns,
                    const std::vector<uint8_t>& bytes)
    {
        append_string(&infos_, name);
        append(&infos_, rows == 1 ? 1u : 2u);
        append(&infos_, uint64_t{columns});
        if (rows != 1) {
            append(&infos_, uint64_t{rows});
        }
        append(&infos_, static_cast<uint32_t>(type));
        append(&infos_, uint64_t{data_.size()});
        data_.insert(data_.end(), bytes.begin(), bytes.end());
        data_.resize((data_.size() + 31) / 32 * 32);
        tensors_count_++;
    }
    void put_matrix(const std::string& name, aotx::WeightType type, uint32_t rows, uint32_t columns)
    {
        put_tensor(name, type, rows, columns, random_source(type, rows, columns, &random_));
    }
    void put_vector(const std::string& name, uint32_t count, float middle)
    {
        std::vector<uint8_t> bytes;
        for (uint32_t i = 0; i < count; i++) {
            append(&bytes, middle + 0.5f * random_.unit());
        }
        put_tensor(name, aotx::WeightType::kF32, 1, count, bytes);
    }
    void finish()
    {
        std::vector<uint8_t> file = {'G', 'G', 'U', 'F'};
        append(&file, uint32_t{3});
        append(&file, tensors_count_);
        append(&file, keys_count_);
        file.insert(file.end(), keys_.begin(), keys_.end());
        file.insert(file.end(), infos_.begin(), infos_.end());
        file.resize((file.size() + 31) / 32 * 32);
        file.insert(file.end(), data_.begin(), data_.end());
        bytes_ = file.size();
        words_.resize((bytes_ + 7) / 8);
        std::memcpy(words_.data(), file.data(), bytes_);
    }

    Random random_;
    std::vector<uint8_t> keys_;
    std::vector<uint8_t> infos_;
    std::vector<uint8_t> data_;
    uint64_t keys_count_ = 0;
    uint64_t tensors_count_ = 0;
    uint64_t bytes_ = 0;
    std::vector<uint64_t> words_;
};

}  // namespace aotx_test
