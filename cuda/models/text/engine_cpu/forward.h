// Purpose:  one step of a transformer over many sequences: prefill chunks and decodes together.
// Owns:     every buffer of the computation, taken at open.
// Thread:   open, run and close on the driver thread; the workers of the pool run inside run.
// Lifetime: open -> run... -> close. Model, cache and pool outlive it.
#pragma once

#include <cstdint>
#include <memory>

#include "config.h"
#include "cuda/kernels/cpu/kernels.h"
#include "cuda/kernels/cpu/worker_pool.h"
#include "engine/step_engine.h"
#include "engine_cpu/kv_cache.h"
#include "engine_cpu/model.h"

namespace aotx {

struct ForwardShape {
    uint32_t step_tokens = 0;      // tokens of one step, at most
    uint32_t logits_rows = 0;      // rows of logits of one step, at most
    uint32_t sequence_tokens = 0;  // positions, at most
    ActivationMode activations = ActivationMode::kQuantised;
};

class Forward {
public:
    Forward() noexcept = default;
    ~Forward();
    Forward(const Forward&) = delete;
    Forward& operator=(const Forward&) = delete;

    [[nodiscard]] bool open(const Model& model, KvCache* cache, WorkerPool* pool,
                            const ForwardShape& shape) noexcept;
    void close() noexcept;
    uint64_t allocation_bytes() const noexcept { return memory_bytes_; }

    // Compute all tokens and store their keys and values. tokens: [count], those of one sequence
    // together and in order of their positions; logits rows 0..n-1 in this order. [hot]
    void run(const StepToken* tokens, uint32_t count) noexcept;

    // f32 [vocab], valid until the next run.
    const float* logits(uint32_t row) const noexcept
    {
        return logits_ + uint64_t{row} * logits_stride_;
    }

private:
    struct Input;
    struct Worker;

    void carve(uint8_t* memory, uint64_t* bytes) noexcept;
    static void run_worker(void* context, uint32_t worker) noexcept;
    void run_all(uint32_t worker) noexcept;
    void run_layer(uint32_t worker, uint32_t layer) noexcept;
    void run_output(uint32_t worker) noexcept;
    void embed(uint32_t worker) noexcept;
    void attention(uint32_t worker, uint32_t layer) noexcept;
    void attend_token_block(uint32_t worker, uint32_t layer, uint32_t first, uint32_t count,
                            uint32_t kv_head) noexcept;
    void rotate_and_store(uint32_t layer, uint32_t token, uint32_t kv_head) noexcept;
    void feed_forward(uint32_t worker, const ModelLayer& layer, const Input& input) noexcept;
    Input prepare(uint32_t worker, const float* rows, const float* norm, uint32_t columns,
                  bool floats, bool codes) noexcept;
    void prepare_row(const float* row, const float* norm, uint32_t columns, float* floats,
                     ActivationBlock* codes) noexcept;
    void multiply(uint32_t worker, const PackedMatrix& matrix, uint32_t begin, uint32_t end,
                  const Input& input, const MatmulOutput& out) noexcept;
    void multiply_shared(uint32_t worker, const PackedMatrix& matrix, const Input& input,
                         float* out, size_t stride, bool add) noexcept;
    bool by_codes(const PackedMatrix& matrix) const noexcept;
    uint32_t unit_groups(const PackedMatrix& matrix) const noexcept;
    WorkCounter* next_counter(uint32_t worker) noexcept;

    const Model* model_ = nullptr;
    KvCache* cache_ = nullptr;
    WorkerPool* pool_ = nullptr;
    const KernelTable* kernels_ = nullptr;
    ForwardShape shape_;
    uint32_t head_group_ = 0;  // query heads of one KV head
    uint32_t query_size_ = 0;  // elements of all query heads
    uint32_t key_size_ = 0;
    uint32_t qkv_size_ = 0;
    uint32_t columns_max_ = 0;
    uint32_t logits_stride_ = 0;
    uint32_t counters_count_ = 0;

    uint8_t* memory_ = nullptr;
    uint64_t memory_bytes_ = 0;
    float* residual_ = nullptr;  // [step_tokens][embedding]
    float* wanted_ = nullptr;    // [logits_rows][embedding]
    float* qkv_ = nullptr;       // [step_tokens][qkv_size]
    float* attended_ = nullptr;  // [step_tokens][query_size]
    float* gate_ = nullptr;      // [step_tokens][feed_forward]
    float* up_ = nullptr;
    float* logits_ = nullptr;                  // [logits_rows][logits_stride]
    float* shared_floats_ = nullptr;           // [step_tokens][columns_max]
    ActivationBlock* shared_codes_ = nullptr;  // [step_tokens][columns_max / 32]
    float* rope_ = nullptr;                    // [sequence_tokens][rotated / 2][2]
    WorkCounter* counters_ = nullptr;
    Worker* workers_ = nullptr;

    // Of the step that runs.
    const StepToken* tokens_ = nullptr;
    uint32_t tokens_count_ = 0;
    uint32_t rows_count_ = 0;  // rows of the matrix products: all tokens, later the wanted ones
    uint32_t wanted_count_ = 0;
    bool prefill_ = false;  // some sequence has more than one token
};

}  // namespace aotx
