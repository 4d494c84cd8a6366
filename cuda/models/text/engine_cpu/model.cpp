// Purpose:  pack the weights of a model for the CPU kernels.
// Owns:     the arena.
// Thread:   see model.h.
// Lifetime: see model.h.
#include "engine_cpu/model.h"

#include <cstring>
#include <new>
#include <vector>

#include "aotx/status.h"
#include "engine/memory.h"

namespace aotx {

namespace {

constexpr uint64_t kArenaAlignment = 64;

uint64_t aligned(uint64_t bytes)
{
    return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

}  // namespace

// Everything that open needs and nothing keeps.
struct Model::Loader {
    Loader(Model* target, const ModelSource& from, WorkerPool* workers)
        : model(target), source(from), pool(workers)
    {
    }

    // A matrix or vector and where it goes in the arena.
    struct Piece {
        const MatrixSource* from;
        PackedMatrix* matrix;  // or
        const VectorSource* floats;
        const float** vector;
        uint64_t arena_offset;
    };

    Model* model;
    const ModelSource& source;
    WorkerPool* pool;
    std::vector<Piece> pieces;
    uint64_t arena_bytes = 0;
    WorkCounter counter;
    const Piece* packing = nullptr;

    void add_matrix(const MatrixSource& from, PackedMatrix* matrix);
    void add_vector(const VectorSource& from, const float** vector);
    void add_layer(const LayerSource& from, ModelLayer* layer);
    void add_all();
    void pack(const Piece& piece);
    static void pack_worker(void* context, uint32_t worker);
};

void Model::Loader::add_matrix(const MatrixSource& from, PackedMatrix* matrix)
{
    const bool fits =
        packed_matrix_shape(static_cast<WeightType>(from.type), from.rows, from.columns, matrix);
    AOTX_TEXT_CHECK(fits);  // the source was checked when it was read
    pieces.push_back({&from, matrix, nullptr, nullptr, arena_bytes});
    arena_bytes += aligned(packed_matrix_bytes(*matrix));
}

void Model::Loader::add_vector(const VectorSource& from, const float** vector)
{
    if (from.data == nullptr) {
        return;
    }
    pieces.push_back({nullptr, nullptr, &from, vector, arena_bytes});
    arena_bytes += aligned(uint64_t{from.count} * sizeof(float));
}

void Model::Loader::add_layer(const LayerSource& from, ModelLayer* layer)
{
    add_vector(from.attention_norm, &layer->attention_norm);
    add_matrix(from.query, &layer->query);
    add_matrix(from.key, &layer->key);
    add_matrix(from.value, &layer->value);
    add_vector(from.query_bias, &layer->query_bias);
    add_vector(from.key_bias, &layer->key_bias);
    add_vector(from.value_bias, &layer->value_bias);
    add_matrix(from.attention_output, &layer->attention_output);
    add_vector(from.feed_forward_norm, &layer->feed_forward_norm);
    add_matrix(from.gate, &layer->gate);
    add_matrix(from.up, &layer->up);
    add_matrix(from.down, &layer->down);
}

void Model::Loader::add_all()
{
    add_matrix(source.output(), &model->output_);
    add_vector(source.output_norm(), &model->output_norm_);
    add_vector(source.rope_factors(), &model->rope_factors_);
    for (uint32_t i = 0; i < source.shape().layers; i++) {
        add_layer(source.layer(i), &model->layers_[i]);
    }
}

void Model::Loader::pack_worker(void* context, uint32_t worker)
{
    (void)worker;
    Loader* const loader = static_cast<Loader*>(context);
    const Piece& piece = *loader->packing;
    uint8_t* const target = loader->model->arena_ + piece.arena_offset;
    uint32_t begin = 0;
    uint32_t end = 0;
    while (loader->counter.claim(piece.matrix->groups, 4, &begin, &end)) {
        for (uint32_t group = begin; group < end; group++) {
            pack_group(*piece.matrix, piece.from->data, group,
                       target + group * piece.matrix->group_bytes);
        }
    }
}

void Model::Loader::pack(const Piece& piece)
{
    uint8_t* const target = model->arena_ + piece.arena_offset;
    if (piece.matrix == nullptr) {
        float* const floats = reinterpret_cast<float*>(target);
        std::memcpy(floats, piece.floats->data, uint64_t{piece.floats->count} * sizeof(float));
        *piece.vector = floats;
        return;
    }
    piece.matrix->data = target;
    packing = &piece;
    counter.reset();
    pool->run(&pack_worker, this);
    source.release(*piece.from);
}

Model::~Model()
{
    close();
}

int Model::open(const GgufFile& file, WorkerPool* pool, TextReason* reason) noexcept
{
    ModelSource source;
    const int status = source.open(file, reason);
    return status != AOTX_OK ? status : open(source, pool, reason);
}

int Model::open(const ModelSource& source, WorkerPool* pool, TextReason* reason) noexcept
{
    close();
    shape_ = source.shape();
    layers_.reset(new (std::nothrow) ModelLayer[shape_.layers]);
    if (layers_ == nullptr) {
        return text_refuse(reason, AOTX_ERR_SYSTEM, "layers", "find no memory");
    }
    Loader loader(this, source, pool);
    loader.add_all();
    arena_ = memory_take(loader.arena_bytes);
    if (arena_ == nullptr) {
        close();
        return text_refuse_number(reason, AOTX_ERR_SYSTEM, "weights",
                                  "need memory, bytes:", loader.arena_bytes);
    }
    arena_bytes_ = loader.arena_bytes;
    if (!source.shares_embedding()) {
        embedding_source_ = source.embedding();
    }
    for (const Loader::Piece& piece : loader.pieces) {
        loader.pack(piece);
    }
    return AOTX_OK;
}

void Model::close() noexcept
{
    memory_free(arena_, arena_bytes_);
    arena_ = nullptr;
    arena_bytes_ = 0;
    layers_.reset();
    shape_ = ModelShape();
    output_ = PackedMatrix();
    output_norm_ = nullptr;
    rope_factors_ = nullptr;
    embedding_source_ = MatrixSource();
}

void Model::embed(uint32_t token, float* out) const noexcept
{
    AOTX_TEXT_CHECK(token < shape_.vocab);
    if (embedding_source_.data == nullptr) {
        packed_row(output_, token, out);
        return;
    }
    const WeightType type = static_cast<WeightType>(embedding_source_.type);
    const uint64_t row_bytes = source_row_bytes(type, shape_.embedding);
    source_row(type, embedding_source_.data + token * row_bytes, shape_.embedding, out);
}

}  // namespace aotx
