// Purpose:  the programs of a step: which kernels run, over which arguments, for each width.
// Owns:     nothing; executors go to the caller.
// Thread:   the thread that opens the engine.
// Lifetime: while the device is brought up.
//
// A width is the most rows that its launches have blocks for; how many rows a step has is read on
// the device, and blocks without a row leave. A row's bits are the same in every width.
#pragma once

#include <vector>

#include "engine_cuda/cuda_weights.h"

namespace aotx {

// Everything that the kernels read and write, but weights.
struct StepBuffers {
    // mapped host memory
    StepOrder* order;
    TextRow* host_rows;
    uint32_t* host_map;
    StepChange* host_changes;
    int32_t* host_pages;
    StepChoice* host_choices;
    uint64_t* host_done;
    int32_t* host_tokens;
    float* host_logits;
    // device memory; weights is what offsets in CudaWeights count from
    uint8_t* weights;
    TextRow* rows;
    uint32_t* map;
    uint32_t* counts;
    int32_t* page_table;
    float* residual;
    float* query;
    float* attended;
    float* gate;
    float* logits;
    float* partial;
    uint32_t* tickets;  // [step_tokens * kv_heads + 1], the last one is the last kernel's
    uint8_t* scratch;   // [logits_rows][kSampleScratchBytes]
    KvView kv;
    uint32_t sequence_tokens;
    uint32_t step_tokens;
    uint32_t logits_rows;
    uint32_t logits_stride;
    uint32_t vocab;
};

// Widths: 8, then 32 and doubled, the last one step_tokens.
uint32_t step_widths(uint32_t step_tokens) noexcept;
uint32_t step_width(uint32_t step_tokens, uint32_t index) noexcept;

class StepPrograms {
public:
    StepPrograms(const CudaApi& api, void* stream, const ModelShape& shape,
                 const CudaWeights& weights, const StepBuffers& buffers) noexcept;

    // From the order to the logits in device memory, for up to `rows` rows. A program holds so many
    // kernels and no more, so a deep model takes several. A CUDA code.
    [[nodiscard]] int open_body(uint32_t rows, std::vector<void*>* executors) noexcept;

    // From the logits to the host, or to chosen tokens. A CUDA code.
    [[nodiscard]] int open_give(void** executor) noexcept;
    [[nodiscard]] int open_sample(void** executor) noexcept;

private:
    // Arguments of any kernel, kept until the executor has copied them.
    union Arguments {
        StepTakeArgs take;
        StepGiveArgs give;
        SampleArgs sample;
        EmbedArgs embed;
        MatmulArgs matmul;
        AttentionArgs attention;
    };

    template <typename Args>
    void add(uint32_t kernel, uint32_t x, uint32_t y, uint32_t z, const Args& args,
             uint32_t block = 128) noexcept;
    void add_product(const DeviceMatrix& matrix, const MatmulArgs& args, uint32_t rows) noexcept;
    MatmulArgs product(const DeviceMatrix& matrix, const float* input, uint32_t input_stride,
                       float* output, uint32_t output_stride) const noexcept;
    const float* vector_at(uint64_t offset) const noexcept;
    uint32_t* last_ticket() const noexcept;
    void add_take() noexcept;
    void add_embed(uint32_t rows) noexcept;
    void add_layer(uint32_t index, uint32_t rows) noexcept;
    void add_qkv(uint32_t index, uint32_t rows) noexcept;
    void add_attention(uint32_t index, uint32_t rows) noexcept;
    void add_feed_forward(uint32_t index, uint32_t rows) noexcept;
    void add_output(uint32_t rows) noexcept;
    int flush(std::vector<void*>* executors) noexcept;
    int flush_one(void** executor) noexcept;

    const CudaApi& api_;
    void* stream_;
    const ModelShape& shape_;
    const CudaWeights& weights_;
    const StepBuffers& buffers_;
    std::vector<ProgramNode> nodes_;
    std::vector<Arguments> arguments_;
    uint64_t no_handles_ = 0;
};

}  // namespace aotx
