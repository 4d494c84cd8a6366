// Purpose:  the weights and the shape of a Llama-family model, ready for the CPU kernels.
// Owns:     one arena with every packed matrix and vector.
// Thread:   open and close on one thread; read-only in between, any thread.
// Lifetime: open -> forward passes -> close. The GgufFile must outlive it only when the embedding
//           is read in place (embedding_source_ has data).
#pragma once

#include <cstdint>
#include <memory>

#include "cuda/kernels/cpu/packed_matrix.h"
#include "cuda/kernels/cpu/worker_pool.h"
#include "engine/model_source.h"
#include "file/gguf.h"
#include "reason.h"

namespace aotx {

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

class Model {
public:
    Model() noexcept = default;
    ~Model();
    Model(const Model&) = delete;
    Model& operator=(const Model&) = delete;

    // Pack the weights of a source on the pool. Pages of the file that were read are given back.
    // AOTX_ERR_SYSTEM no memory.
    [[nodiscard]] int open(const ModelSource& source, WorkerPool* pool,
                           TextReason* reason) noexcept;
    // The same from the file itself; refuses what ModelSource::open refuses.
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
    MatrixSource embedding_source_;  // null: the output matrix is the embedding
    uint8_t* arena_ = nullptr;
    uint64_t arena_bytes_ = 0;
};

}  // namespace aotx
