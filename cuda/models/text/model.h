// Purpose:  the weights and the shape of a Llama-family model, ready for the CPU kernels.
// Owns:     one arena with every packed matrix and vector.
// Thread:   open and close on one thread; read-only in between, any thread.
// Lifetime: open -> forward passes -> close. The GgufFile must outlive it only when the embedding
//           is read in place (embedding_source is not null).
#pragma once

#include <cstdint>
#include <memory>

#include "cuda/kernels/cpu/packed_matrix.h"
#include "cuda/kernels/cpu/worker_pool.h"
#include "gguf.h"
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

struct ModelLayer {
    const float* attention_norm = nullptr;  // f32 [embedding]
    const float* feed_forward_norm = nullptr;
    PackedMatrix query;
    PackedMatrix key;
    PackedMatrix value;
    PackedMatrix attention_output;
    PackedMatrix gate;
    PackedMatrix up;
    PackedMatrix down;
    const float* query_bias = nullptr;  // null: none
    const float* key_bias = nullptr;
    const float* value_bias = nullptr;
};

// A matrix or vector of the file and where it goes in the arena.
struct ModelTensor {
    const GgufTensor* source;
    PackedMatrix* matrix;  // or
    const float** vector;
    uint64_t arena_offset;
};

class Model {
public:
    Model() noexcept = default;
    ~Model();
    Model(const Model&) = delete;
    Model& operator=(const Model&) = delete;

    // Check the file and pack its weights on the pool. Pages of the file that were read are given
    // back. AOTX_ERR_NOT_FOUND a key or tensor is missing; AOTX_ERR_RANGE a value, shape or feature
    // that this runtime does not serve; AOTX_ERR_SYSTEM no memory. reason names the field.
    [[nodiscard]] int open(const GgufFile& file, WorkerPool* pool, TextReason* reason) noexcept;
    void close() noexcept;

    const ModelShape& shape() const noexcept { return shape_; }
    const ModelLayer& layer(uint32_t index) const noexcept { return layers_[index]; }
    const PackedMatrix& output() const noexcept { return output_; }
    const float* output_norm() const noexcept { return output_norm_; }
    // Factors that divide the rotation frequencies, f32 [rotated / 2]; null: none.
    const float* rope_factors() const noexcept { return rope_factors_; }
    uint64_t allocation_bytes() const noexcept { return arena_bytes_; }

    // One row of the token embedding. out: f32 [embedding]; token < vocab. [hot, any thread]
    void embed(uint32_t token, float* out) const noexcept;

private:
    struct Loader;

    ModelShape shape_;
    std::unique_ptr<ModelLayer[]> layers_;
    PackedMatrix output_;
    const float* output_norm_ = nullptr;
    const float* rope_factors_ = nullptr;
    const GgufTensor* embedding_source_ = nullptr;  // null: the output matrix is the embedding
    uint8_t* arena_ = nullptr;
    uint64_t arena_bytes_ = 0;
};

// Anonymous memory, zeroed, on huge pages where the system gives them, all of it resident. Null
// when the system has not enough. Freed with memory_free.
uint8_t* memory_take(uint64_t bytes) noexcept;
void memory_free(uint8_t* memory, uint64_t bytes) noexcept;

}  // namespace aotx
