// Purpose:  a plain F32 computation of a Llama-family model over the dequantised weights: what the
//           runtime and its peers are measured against. Written for reading, not for speed.
//           Long sums run in sixteen parts or in double precision, which keeps its rounding small.
// Owns:     all weights as floats.
// Thread:   one.
// Lifetime: open -> logits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cuda/kernels/cpu/packed_matrix.h"
#include "file/gguf.h"

namespace aotx_test {

struct FloatMatrix {
    uint32_t rows = 0;
    uint32_t columns = 0;
    std::vector<float> weights;  // [rows][columns]
};

// The dequantised weights of a tensor of one or two dimensions; empty when the file has none of
// this name.
FloatMatrix load_matrix(const aotx::GgufFile& file, const std::string& name);

// The matrix that turns states into logits.
FloatMatrix load_output_matrix(const aotx::GgufFile& file);

// x: f32 [tokens][matrix.columns]. Returns f32 [tokens][matrix.rows].
std::vector<float> multiply(const FloatMatrix& matrix, const std::vector<float>& x);

class Reference {
public:
    // Empty when all is well, else what is wrong. Assumes a file that the runtime accepts.
    std::string open(const aotx::GgufFile& file);

    uint32_t vocab() const { return vocab_; }

    // States after tokens first .. last of a sequence that starts at position 0, behind the last
    // norm: what the output matrix is multiplied with.
    // Returns f32 [tokens.size() - first][embedding].
    std::vector<float> states(const std::vector<int32_t>& tokens, size_t first) const;

    // The logits of states. Returns f32 [states][vocab].
    std::vector<float> logits_of(const std::vector<float>& states) const;

    // Both in one call.
    std::vector<float> logits(const std::vector<int32_t>& tokens, size_t first) const
    {
        return logits_of(states(tokens, first));
    }

private:
    using Matrix = FloatMatrix;
    struct Layer {
        Matrix attention_norm, query, key, value, attention_output;
        Matrix query_bias, key_bias, value_bias;
        Matrix feed_forward_norm, gate, up, down;
    };

    std::vector<float> norm(const Matrix& weight, const std::vector<float>& x) const;
    void add_bias(const Matrix& bias, std::vector<float>* x) const;
    void rotate(std::vector<float>* x, uint32_t heads) const;
    std::vector<float> attend(const std::vector<float>& queries, const std::vector<float>& keys,
                              const std::vector<float>& values) const;

    uint32_t layers_count_ = 0;
    uint32_t size_ = 0;
    uint32_t heads_ = 0;
    uint32_t kv_heads_ = 0;
    uint32_t head_size_ = 0;
    uint32_t rotated_ = 0;
    uint32_t vocab_ = 0;
    bool split_ = false;
    float base_ = 10000.0f;
    float position_scale_ = 1.0f;
    float epsilon_ = 0.0f;
    Matrix embedding_, output_, output_norm_, rope_factors_;
    std::vector<Layer> layers_;
};

}  // namespace aotx_test
