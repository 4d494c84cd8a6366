// Purpose:  the shape of a Llama-family model and where its weights lie in the file, checked, for
//           whatever engine packs them.
// Owns:     the vectors (norms, biases, rotation factors) as floats; matrices stay in the file.
// Thread:   open on one thread; read-only afterwards, any thread.
// Lifetime: open -> engines. The GgufFile outlives it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/memory.h"
#include "file/gguf.h"
#include "reason.h"

namespace aotx {

constexpr uint32_t kLayersMax = 1024;
constexpr uint32_t kHeadSizeMax = 1024;

struct ModelShape {
    uint32_t layers = 0;
    uint32_t embedding = 0;  // elements of the residual stream
    uint32_t feed_forward = 0;
    uint32_t heads = 0;
    uint32_t kv_heads = 0;   // divides heads
    uint32_t head_size = 0;  // a multiple of 8
    uint32_t rotated = 0;    // leading elements of a head that are rotated; even
    uint32_t vocab = 0;
    uint32_t context_tokens = 0;
    bool rotate_split = false;  // pairs are halves apart instead of neighbours
    float norm_epsilon = 0;
    float rope_base = 0;
    float rope_scale = 1;  // positions are divided by it
};

// A matrix as the file holds it: rows of whole blocks of its type, one behind the other.
struct MatrixSource {
    const uint8_t* data = nullptr;
    uint64_t bytes = 0;
    uint32_t type = 0;  // of the file, one that the kernels know
    uint32_t rows = 0;
    uint32_t columns = 0;
};

// A vector as floats; null: the model has none.
struct VectorSource {
    const float* data = nullptr;
    uint32_t count = 0;
};

struct LayerSource {
    VectorSource attention_norm;
    VectorSource feed_forward_norm;
    MatrixSource query;
    MatrixSource key;
    MatrixSource value;
    MatrixSource attention_output;
    MatrixSource gate;
    MatrixSource up;
    MatrixSource down;
    VectorSource query_bias;
    VectorSource key_bias;
    VectorSource value_bias;
};

class ModelSource {
public:
    ModelSource() noexcept = default;
    ModelSource(const ModelSource&) = delete;
    ModelSource& operator=(const ModelSource&) = delete;

    // Check the file and find its weights. AOTX_ERR_NOT_FOUND a key or tensor is missing;
    // AOTX_ERR_RANGE a value, shape or feature that this runtime does not serve; AOTX_ERR_SYSTEM no
    // memory. reason names the field.
    [[nodiscard]] int open(const GgufFile& file, TextReason* reason) noexcept;

    const ModelShape& shape() const noexcept { return shape_; }
    const LayerSource& layer(uint32_t index) const noexcept { return layers_[index]; }
    const MatrixSource& output() const noexcept { return output_; }
    // The token embedding; the same data as output() when the model has no matrix of its own there.
    const MatrixSource& embedding() const noexcept { return embedding_; }
    bool shares_embedding() const noexcept { return embedding_.data == output_.data; }
    const VectorSource& output_norm() const noexcept { return output_norm_; }
    // Factors that divide the rotation frequencies, [rotated / 2].
    const VectorSource& rope_factors() const noexcept { return rope_factors_; }
    uint64_t allocation_bytes() const noexcept { return vectors_bytes_; }

    // Let the pages that lie wholly inside a matrix leave the resident set; the file keeps them.
    void release(const MatrixSource& matrix) const noexcept
    {
        if (mapped_) {
            memory_release_mapped(matrix.data, matrix.bytes);
        }
    }

private:
    struct Reader;

    ModelShape shape_;
    std::unique_ptr<LayerSource[]> layers_;
    MatrixSource output_;
    MatrixSource embedding_;
    VectorSource output_norm_;
    VectorSource rope_factors_;
    std::vector<std::unique_ptr<float[]>> vectors_;
    uint64_t vectors_bytes_ = 0;
    bool mapped_ = false;
};

}  // namespace aotx
