// Purpose:  lay out the kernels of a step.
// Owns:     see cuda_steps.h.
// Thread:   see cuda_steps.h.
// Lifetime: see cuda_steps.h.
#include "engine_cuda/cuda_steps.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <new>

#include "cuda/kernels/cuda/kernel_list.h"

namespace aotx {

namespace {

constexpr uint32_t kBlockThreads = 128;
constexpr uint32_t kNarrowThreads = 256;       // of a narrow product
constexpr uint32_t kSampleBlockThreads = 256;  // of the choice
constexpr uint32_t kNarrowRows = 8;            // of a narrow product's block
constexpr uint32_t kWideRows = 32;
constexpr uint32_t kTakeBlocks = 4;
constexpr uint32_t kGiveBlocks = 128;
constexpr int kNoMemory = 2;  // cudaErrorMemoryAllocation

uint32_t matmul_kernel(uint32_t kind, bool wide)
{
    switch (kind) {
#define AOTX_STEP_KIND(kind, name) \
    case kind:                     \
        return wide ? kKernel_matmul_##name##_wide : kKernel_matmul_##name##_narrow;
        AOTX_STEP_KIND(kWeightF32, f32)
        AOTX_STEP_KIND(kWeightF16, f16)
        AOTX_STEP_KIND(kWeightBF16, bf16)
        AOTX_STEP_KIND(kWeightQ4_0, q4_0)
        AOTX_STEP_KIND(kWeightQ4_1, q4_1)
        AOTX_STEP_KIND(kWeightQ5_0, q5_0)
        AOTX_STEP_KIND(kWeightQ5_1, q5_1)
        AOTX_STEP_KIND(kWeightQ8_0, q8_0)
        AOTX_STEP_KIND(kWeightQ2K, q2k)
        AOTX_STEP_KIND(kWeightQ3K, q3k)
        AOTX_STEP_KIND(kWeightQ4K, q4k)
        AOTX_STEP_KIND(kWeightQ5K, q5k)
        AOTX_STEP_KIND(kWeightQ6K, q6k)
#undef AOTX_STEP_KIND
        default:
            text_check_failed("a kind that was planned", __FILE__, __LINE__);
    }
}

}  // namespace

uint32_t step_width(uint32_t step_tokens, uint32_t index) noexcept
{
    const uint64_t wide = index == 0 ? kNarrowRows : uint64_t{kWideRows} << (index - 1);
    return static_cast<uint32_t>(std::min<uint64_t>(wide, step_tokens));
}

uint32_t step_widths(uint32_t step_tokens) noexcept
{
    uint32_t count = 1;
    while (step_width(step_tokens, count - 1) < step_tokens) {
        count++;
    }
    return count;
}

StepPrograms::StepPrograms(const CudaApi& api, void* stream, const ModelShape& shape,
                           const CudaWeights& weights, const StepBuffers& buffers) noexcept
    : api_(api), stream_(stream), shape_(shape), weights_(weights), buffers_(buffers)
{
}

template <typename Args>
void StepPrograms::add(uint32_t kernel, uint32_t x, uint32_t y, uint32_t z, const Args& args,
                       uint32_t block) noexcept
{
    ProgramNode node = {};
    node.kind = kProgramKernel;
    node.kernel = kernel;
    node.grid[0] = x;
    node.grid[1] = y;
    node.grid[2] = z;
    node.block = block;
    node.arguments_bytes = sizeof args;
    nodes_.push_back(node);
    arguments_.emplace_back();
    std::memcpy(static_cast<void*>(&arguments_.back()), &args, sizeof args);
}

// Make executors of what was added, as many kernels each as a program holds.
int StepPrograms::flush(std::vector<void*>* executors) noexcept
{
    const std::unique_ptr<Program> program(new (std::nothrow) Program());
    if (program == nullptr) {
        return kNoMemory;
    }
    for (size_t first = 0; first < nodes_.size(); first += program->nodes_count) {
        *program = {};
        program->condition_handles = &no_handles_;
        program->overlaps = 1;
        program->nodes_count =
            static_cast<uint32_t>(std::min<size_t>(nodes_.size() - first, kProgramNodesMax));
        for (uint32_t i = 0; i < program->nodes_count; i++) {
            program->nodes[i] = nodes_[first + i];
            program->nodes[i].arguments = &arguments_[first + i];
        }
        void* executor = nullptr;
        const int code = api_.program_open(program.get(), stream_, &executor);
        if (code != 0) {
            return code;
        }
        executors->push_back(executor);
    }
    nodes_.clear();
    arguments_.clear();
    return 0;
}

uint32_t* StepPrograms::last_ticket() const noexcept
{
    return &buffers_.tickets[uint64_t{buffers_.step_tokens} * shape_.kv_heads];
}

const float* StepPrograms::vector_at(uint64_t offset) const noexcept
{
    return reinterpret_cast<const float*>(buffers_.weights + offset);
}

MatmulArgs StepPrograms::product(const DeviceMatrix& matrix, const float* input,
                                 uint32_t input_stride, float* output,
                                 uint32_t output_stride) const noexcept
{
    MatmulArgs args = {};
    args.weight = {buffers_.weights + matrix.offset, matrix.kind, matrix.rows, matrix.columns, 0};
    args.input = input;
    args.input_stride = input_stride;
    args.output = output;
    args.output_stride = output_stride;
    args.count = &buffers_.counts[0];
    args.epsilon = shape_.norm_epsilon;
    args.finish = kFinishStore;
    return args;
}

void StepPrograms::add_product(const DeviceMatrix& matrix, const MatmulArgs& args,
                               uint32_t rows) noexcept
{
    const bool wide = rows > kNarrowRows;
    add(matmul_kernel(matrix.kind, wide), weight_tiles(matrix.rows, kTileRows),
        weight_tiles(rows, wide ? kWideRows : kNarrowRows), 1, args,
        wide ? kBlockThreads : kNarrowThreads);
}

void StepPrograms::add_take() noexcept
{
    StepTakeArgs args = {};
    args.order = buffers_.order;
    args.host_rows = buffers_.host_rows;
    args.host_map = buffers_.host_map;
    args.host_changes = buffers_.host_changes;
    args.host_pages = buffers_.host_pages;
    args.rows = buffers_.rows;
    args.map = buffers_.map;
    args.counts = buffers_.counts;
    args.page_table = buffers_.page_table;
    args.sequence_pages = buffers_.kv.sequence_pages;
    add(kKernel_step_take, kTakeBlocks, 1, 1, args);
}

void StepPrograms::add_embed(uint32_t rows) noexcept
{
    const DeviceMatrix& table = weights_.embedding();
    EmbedArgs args = {};
    args.table = {buffers_.weights + table.offset, table.kind, table.rows, table.columns, 0};
    args.rows = buffers_.rows;
    args.count = &buffers_.counts[0];
    args.output = buffers_.residual;
    args.scale = 1.0f;
    add(kKernel_embed, rows, 1, 1, args);
}

void StepPrograms::add_qkv(uint32_t index, uint32_t rows) noexcept
{
    const DeviceLayer& layer = weights_.layer(index);
    for (uint32_t i = 0; i < layer.qkv_count; i++) {
        MatmulArgs args = product(layer.qkv[i], buffers_.residual, shape_.embedding, buffers_.query,
                                  shape_.heads * shape_.head_size);
        args.norm = vector_at(layer.attention_norm);
        args.finish = kFinishQkv;
        args.kv = buffers_.kv;
        args.rows = buffers_.rows;
        args.turns = vector_at(weights_.turns());
        args.bias = layer.bias == kNoOffset ? nullptr : vector_at(layer.bias);
        args.row_offset = layer.qkv_row[i];
        args.query_heads = shape_.heads;
        args.rope_size = shape_.rotated;
        args.layer = index;
        args.query_scale = 1.0f / std::sqrt(static_cast<float>(shape_.head_size));
        add_product(layer.qkv[i], args, rows);
    }
}

void StepPrograms::add_attention(uint32_t index, uint32_t rows) noexcept
{
    AttentionArgs args = {};
    args.kv = buffers_.kv;
    args.query = buffers_.query;
    args.rows = buffers_.rows;
    args.count = &buffers_.counts[0];
    args.partial = buffers_.partial;
    args.tickets = buffers_.tickets;
    args.output = buffers_.attended;
    args.query_heads = shape_.heads;
    args.layer = index;
    const uint32_t tiles = weight_tiles(buffers_.sequence_tokens, kAttentionTile);
    add(kKernel_attention, rows, shape_.kv_heads, std::min(tiles, kAttentionSplits), args);
}

void StepPrograms::add_feed_forward(uint32_t index, uint32_t rows) noexcept
{
    const DeviceLayer& layer = weights_.layer(index);
    for (uint32_t i = 0; i < layer.gate_count; i++) {
        MatmulArgs args = product(layer.gate[i], buffers_.residual, shape_.embedding, buffers_.gate,
                                  shape_.feed_forward);
        args.norm = vector_at(layer.feed_forward_norm);
        args.finish = layer.gate_count == 1 ? kFinishGate : i == 0 ? kFinishStore : kFinishUp;
        add_product(layer.gate[i], args, rows);
    }
    MatmulArgs args = product(layer.down, buffers_.gate, shape_.feed_forward, buffers_.residual,
                              shape_.embedding);
    args.finish = kFinishAdd;
    add_product(layer.down, args, rows);
}

void StepPrograms::add_layer(uint32_t index, uint32_t rows) noexcept
{
    const DeviceLayer& layer = weights_.layer(index);
    add_qkv(index, rows);
    add_attention(index, rows);
    MatmulArgs args = product(layer.attention_output, buffers_.attended,
                              shape_.heads * shape_.head_size, buffers_.residual, shape_.embedding);
    args.finish = kFinishAdd;
    add_product(layer.attention_output, args, rows);
    add_feed_forward(index, rows);
}

void StepPrograms::add_output(uint32_t rows) noexcept
{
    MatmulArgs args = product(weights_.output(), buffers_.residual, shape_.embedding,
                              buffers_.logits, buffers_.logits_stride);
    args.norm = vector_at(weights_.output_norm());
    args.input_map = buffers_.map;
    args.count = &buffers_.counts[1];
    add_product(weights_.output(), args, std::min(rows, buffers_.logits_rows));
}

int StepPrograms::open_body(uint32_t rows, std::vector<void*>* executors) noexcept
{
    add_take();
    add_embed(rows);
    for (uint32_t i = 0; i < shape_.layers; i++) {
        add_layer(i, rows);
    }
    add_output(rows);
    return flush(executors);
}

int StepPrograms::open_give(void** executor) noexcept
{
    StepGiveArgs args = {};
    args.order = buffers_.order;
    args.logits = buffers_.logits;
    args.counts = buffers_.counts;
    args.ticket = last_ticket();
    args.host_logits = buffers_.host_logits;
    args.host_done = buffers_.host_done;
    args.stride = buffers_.logits_stride;
    add(kKernel_step_give, kGiveBlocks, 1, 1, args);
    return flush_one(executor);
}

int StepPrograms::open_sample(void** executor) noexcept
{
    SampleArgs args = {};
    args.order = buffers_.order;
    args.choices = buffers_.host_choices;
    args.logits = buffers_.logits;
    args.counts = buffers_.counts;
    args.ticket = last_ticket();
    args.scratch = buffers_.scratch;
    args.tokens = buffers_.host_tokens;
    args.host_done = buffers_.host_done;
    args.vocab = buffers_.vocab;
    args.stride = buffers_.logits_stride;
    add(kKernel_sample, buffers_.logits_rows, 1, 1, args, kSampleBlockThreads);
    return flush_one(executor);
}

int StepPrograms::flush_one(void** executor) noexcept
{
    std::vector<void*> made;
    const int code = flush(&made);
    if (code == 0) {
        *executor = made[0];
    }
    return code;
}

}  // namespace aotx
