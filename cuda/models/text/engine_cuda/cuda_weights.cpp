// Purpose:  plan, pack and upload the weights of the CUDA engine.
// Owns:     see cuda_weights.h.
// Thread:   see cuda_weights.h.
// Lifetime: see cuda_weights.h.
#include "engine_cuda/cuda_weights.h"

#include <atomic>
#include <memory>
#include <new>

#include "cuda/kernels/cuda/pack.h"
#include "engine/rope.h"

namespace aotx {

namespace {

constexpr uint64_t kPlaceBytes = 256;

DeviceMatrix matrix_of(const MatrixSource& source)
{
    DeviceMatrix matrix;
    matrix.kind = source.type;
    matrix.rows = source.rows;
    matrix.columns = source.columns;
    matrix.pieces[0] = {&source, 0, RowOrder::kPlain};
    matrix.pieces_count = 1;
    return matrix;
}

// Where row `at` of a head lies when pairs are neighbours, and back: elements beyond the rotated
// ones stay.
uint32_t turned_to(uint32_t at, uint32_t rotated)
{
    const uint32_t half = rotated / 2;
    return at >= rotated ? at : at < half ? 2 * at : 2 * (at - half) + 1;
}
uint32_t turned_from(uint32_t at, uint32_t rotated)
{
    return at >= rotated ? at : at / 2 + (at % 2) * (rotated / 2);
}

// The row of a piece that becomes row `row` of the device matrix. False: not of this piece.
bool row_of_piece(const WeightPiece& piece, const ModelShape& shape, uint32_t row, uint32_t* from)
{
    if (piece.order == RowOrder::kGate || piece.order == RowOrder::kUp) {
        const uint32_t upper = piece.order == RowOrder::kUp ? 1 : 0;
        *from = row / kTileRows * 8 + row % 8;
        return row % kTileRows / 8 == upper && *from < piece.source->rows;
    }
    if (row < piece.first || row - piece.first >= piece.source->rows) {
        return false;
    }
    *from = row - piece.first;
    if (piece.order == RowOrder::kTurned) {
        const uint32_t head = *from / shape.head_size * shape.head_size;
        *from = head + turned_from(*from - head, shape.rotated);
    }
    return true;
}

// One matrix while the workers pack it, a row of tiles at a time.
struct Packing {
    const DeviceMatrix* matrix;
    const ModelShape* shape;
    uint64_t row_bytes;  // of the file
    uint8_t* target;
    std::atomic<bool> bad{false};
};

void pack_tiles(void* context, uint32_t begin, uint32_t end)
{
    Packing* const job = static_cast<Packing*>(context);
    const DeviceMatrix& matrix = *job->matrix;
    for (uint32_t row = begin * kTileRows; row < end * kTileRows; row++) {
        for (uint32_t i = 0; i < matrix.pieces_count; i++) {
            uint32_t from = 0;
            if (!row_of_piece(matrix.pieces[i], *job->shape, row, &from)) {
                continue;
            }
            const uint8_t* const source = matrix.pieces[i].source->data + from * job->row_bytes;
            if (!weight_pack_row(matrix.kind, matrix.columns, row, source, job->target)) {
                job->bad.store(true, std::memory_order_relaxed);
            }
        }
    }
}

int upload_vector(const CudaApi& api, const VectorSource& vector, uint8_t* target)
{
    return api.upload(target, vector.data, uint64_t{vector.count} * sizeof(float));
}

}  // namespace

uint64_t CudaWeights::place(uint64_t bytes) noexcept
{
    const uint64_t offset = bytes_;
    bytes_ += (bytes + kPlaceBytes - 1) / kPlaceBytes * kPlaceBytes;
    return offset;
}

bool CudaWeights::add_matrix(DeviceMatrix* matrix, TextReason* reason) noexcept
{
    matrix->bytes = weight_packed_bytes(matrix->kind, matrix->rows, matrix->columns);
    if (matrix->bytes == 0) {
        (void)text_refuse_number(reason, 0, "tensor",
                                 "has a type that the GPU does not serve:", matrix->kind);
        return false;
    }
    matrix->offset = place(matrix->bytes);
    return true;
}

bool CudaWeights::plan_qkv(const LayerSource& from, DeviceLayer* layer, TextReason* reason) noexcept
{
    const MatrixSource* const sources[3] = {&from.query, &from.key, &from.value};
    const RowOrder turned = source_->shape().rotate_split ? RowOrder::kTurned : RowOrder::kPlain;
    uint32_t row = 0;
    for (uint32_t i = 0; i < 3; i++) {
        const RowOrder order = i == 2 ? RowOrder::kPlain : turned;
        DeviceMatrix* last = layer->qkv_count == 0 ? nullptr : &layer->qkv[layer->qkv_count - 1];
        if (last == nullptr || last->kind != sources[i]->type) {
            layer->qkv_row[layer->qkv_count] = row;
            last = &layer->qkv[layer->qkv_count++];
            last->kind = sources[i]->type;
            last->columns = sources[i]->columns;
        }
        last->pieces[last->pieces_count++] = {sources[i], last->rows, order};
        last->rows += sources[i]->rows;
        row += sources[i]->rows;
    }
    for (uint32_t i = 0; i < layer->qkv_count; i++) {
        if (!add_matrix(&layer->qkv[i], reason)) {
            return false;
        }
    }
    return true;
}

bool CudaWeights::plan_gate(const LayerSource& from, DeviceLayer* layer,
                            TextReason* reason) noexcept
{
    if (from.gate.type != from.up.type) {
        layer->gate_count = 2;
        layer->gate[0] = matrix_of(from.gate);
        layer->gate[1] = matrix_of(from.up);
        return add_matrix(&layer->gate[0], reason) && add_matrix(&layer->gate[1], reason);
    }
    layer->gate_count = 1;
    DeviceMatrix* const both = &layer->gate[0];
    both->kind = from.gate.type;
    both->columns = from.gate.columns;
    both->rows = 2 * from.gate.rows;
    both->pieces[0] = {&from.gate, 0, RowOrder::kGate};
    both->pieces[1] = {&from.up, 0, RowOrder::kUp};
    both->pieces_count = 2;
    return add_matrix(both, reason);
}

bool CudaWeights::plan_layer(const LayerSource& from, DeviceLayer* layer,
                             TextReason* reason) noexcept
{
    const ModelShape& shape = source_->shape();
    layer->attention_norm = place(from.attention_norm.count * sizeof(float));
    layer->feed_forward_norm = place(from.feed_forward_norm.count * sizeof(float));
    if (from.query_bias.data != nullptr || from.key_bias.data != nullptr ||
        from.value_bias.data != nullptr) {
        const uint64_t rows = uint64_t{shape.heads + 2 * shape.kv_heads} * shape.head_size;
        layer->bias = place(rows * sizeof(float));
    }
    layer->attention_output = matrix_of(from.attention_output);
    layer->down = matrix_of(from.down);
    return plan_qkv(from, layer, reason) && add_matrix(&layer->attention_output, reason) &&
           plan_gate(from, layer, reason) && add_matrix(&layer->down, reason);
}

bool CudaWeights::plan(const ModelSource& source, uint32_t sequence_tokens,
                       TextReason* reason) noexcept
{
    source_ = &source;
    sequence_tokens_ = sequence_tokens;
    const ModelShape& shape = source.shape();
    output_ = matrix_of(source.output());
    if (!add_matrix(&output_, reason)) {
        return false;
    }
    if (!source.shares_embedding()) {
        embedding_ = matrix_of(source.embedding());
        if (!add_matrix(&embedding_, reason)) {
            return false;
        }
    }
    output_norm_ = place(source.output_norm().count * sizeof(float));
    turns_ = place(uint64_t{sequence_tokens} * shape.rotated * sizeof(float));
    layers_.resize(shape.layers);
    for (uint32_t i = 0; i < shape.layers; i++) {
        if (!plan_layer(source.layer(i), &layers_[i], reason)) {
            return false;
        }
    }
    return true;
}

int CudaWeights::upload_matrix(const CudaApi& api, const StepWorkers& workers,
                               const DeviceMatrix& matrix, uint8_t* device,
                               TextReason* reason) const noexcept
{
    const std::unique_ptr<uint8_t[]> packed(new (std::nothrow) uint8_t[matrix.bytes]());
    if (packed == nullptr) {
        return text_refuse_number(reason, -1, "weights", "need memory, bytes:", matrix.bytes);
    }
    Packing job;
    job.matrix = &matrix;
    job.shape = &source_->shape();
    job.row_bytes = uint64_t{matrix.columns} / weight_block_columns(matrix.kind) *
                    weight_block_bytes(matrix.kind);
    job.target = packed.get();
    workers.run(workers.self, &pack_tiles, &job, weight_tiles(matrix.rows, kTileRows));
    if (job.bad.load(std::memory_order_relaxed)) {
        return text_refuse(reason, -1, "tensor", "holds a weight beyond 16-bit floats");
    }
    for (uint32_t i = 0; i < matrix.pieces_count; i++) {
        source_->release(*matrix.pieces[i].source);
    }
    return api.upload(device + matrix.offset, packed.get(), matrix.bytes);
}

int CudaWeights::upload_bias(const CudaApi& api, uint32_t index, uint8_t* device) const noexcept
{
    const ModelShape& shape = source_->shape();
    const LayerSource& from = source_->layer(index);
    const VectorSource* const parts[3] = {&from.query_bias, &from.key_bias, &from.value_bias};
    const uint32_t counts[3] = {shape.heads * shape.head_size, shape.kv_heads * shape.head_size,
                                shape.kv_heads * shape.head_size};
    std::vector<float> bias(counts[0] + counts[1] + counts[2], 0.0f);
    uint32_t first = 0;
    for (uint32_t part = 0; part < 3; part++) {
        for (uint32_t row = 0; row < parts[part]->count; row++) {
            uint32_t to = row;
            if (shape.rotate_split && part < 2) {
                const uint32_t head = row / shape.head_size * shape.head_size;
                to = head + turned_to(row - head, shape.rotated);
            }
            bias[first + to] = parts[part]->data[row];
        }
        first += counts[part];
    }
    return api.upload(device + layers_[index].bias, bias.data(), bias.size() * sizeof(float));
}

int CudaWeights::upload_turns(const CudaApi& api, uint8_t* device) const noexcept
{
    const ModelShape& shape = source_->shape();
    std::vector<float> turns(uint64_t{sequence_tokens_} * shape.rotated);
    rope_fill(shape, source_->rope_factors().data, sequence_tokens_, turns.data());
    return api.upload(device + turns_, turns.data(), turns.size() * sizeof(float));
}

int CudaWeights::upload_layer(const CudaApi& api, const StepWorkers& workers, uint32_t index,
                              uint8_t* device, TextReason* reason) const noexcept
{
    const DeviceLayer& layer = layers_[index];
    const LayerSource& from = source_->layer(index);
    int code = upload_vector(api, from.attention_norm, device + layer.attention_norm);
    if (code == 0) {
        code = upload_vector(api, from.feed_forward_norm, device + layer.feed_forward_norm);
    }
    if (code == 0 && layer.bias != kNoOffset) {
        code = upload_bias(api, index, device);
    }
    for (uint32_t i = 0; i < layer.qkv_count && code == 0; i++) {
        code = upload_matrix(api, workers, layer.qkv[i], device, reason);
    }
    for (uint32_t i = 0; i < layer.gate_count && code == 0; i++) {
        code = upload_matrix(api, workers, layer.gate[i], device, reason);
    }
    if (code == 0) {
        code = upload_matrix(api, workers, layer.attention_output, device, reason);
    }
    return code != 0 ? code : upload_matrix(api, workers, layer.down, device, reason);
}

int CudaWeights::upload(const CudaApi& api, const StepWorkers& workers, uint8_t* device,
                        TextReason* reason) const noexcept
{
    int code = upload_matrix(api, workers, output_, device, reason);
    if (code == 0 && embedding_.offset != kNoOffset) {
        code = upload_matrix(api, workers, embedding_, device, reason);
    }
    code = code != 0 ? code : upload_vector(api, source_->output_norm(), device + output_norm_);
    code = code != 0 ? code : upload_turns(api, device);
    for (uint32_t i = 0; i < layers_.size() && code == 0; i++) {
        code = upload_layer(api, workers, i, device, reason);
    }
    return code;
}

}  // namespace aotx
