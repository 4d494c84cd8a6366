// Purpose:  read hyperparameters and tensors of a Llama-family file, and refuse what is not served.
// Owns:     see model_source.h.
// Thread:   see model_source.h.
// Lifetime: see model_source.h.
#include "engine/model_source.h"

#include <new>
#include <string>

#include "aotx/status.h"
#include "cuda/kernels/cpu/packed_matrix.h"

#define AOTX_TRY_MODEL(expression)           \
    do {                                     \
        const int try_status = (expression); \
        if (try_status != AOTX_OK) {         \
            return try_status;               \
        }                                    \
    } while (false)

namespace aotx {

namespace {

// Settings that change the computation and that this runtime does not serve. They are refused
// unless they hold the value that means "off".
struct ForeignKey {
    const char* name;
    float off;
};

constexpr ForeignKey kForeignKeys[] = {
    {"attention.scale", 0.0f},
    {"attention.clamp_kqv", 0.0f},
    {"attention.max_alibi_bias", 0.0f},
    {"logit_scale", 0.0f},
    {"residual_scale", 0.0f},
    {"embedding_scale", 0.0f},
    {"expert_count", 0.0f},
    {"final_logit_softcapping", 0.0f},
    {"attn_logit_softcapping", 0.0f},
};

}  // namespace

// Everything that open needs and nothing keeps.
struct ModelSource::Reader {
    Reader(ModelSource* target, const GgufFile& source, TextReason* words)
        : model(target), file(source), reason(words), used(source.tensors_count(), false)
    {
    }

    ModelSource* model;
    const GgufFile& file;
    TextReason* reason;
    std::string architecture;
    std::vector<bool> used;

    int key_u32(const char* name, uint32_t low, uint32_t high, bool required, uint32_t* value);
    int key_f32(const char* name, float* value);
    int read_shape();
    int read_heads();
    int read_rope();
    int refuse_foreign();
    int find(const std::string& name, bool required, const GgufTensor** tensor);
    int add_matrix(const std::string& name, uint32_t rows, uint32_t columns, MatrixSource* matrix);
    int add_vector(const std::string& name, uint32_t count, bool required, VectorSource* vector);
    int check_dims(const GgufTensor& tensor, uint64_t columns, uint64_t rows);
    int read_layer(uint32_t index, LayerSource* layer);
    int read_tensors();
    int refuse_unused();
};

int ModelSource::Reader::key_u32(const char* name, uint32_t low, uint32_t high, bool required,
                                 uint32_t* value)
{
    const std::string key = architecture + "." + name;
    const int status = file.get_u32(key, value, reason);
    if (status == AOTX_ERR_NOT_FOUND) {
        return required ? text_refuse(reason, status, key, "is missing") : AOTX_OK;
    }
    AOTX_TRY_MODEL(status);
    if (*value < low || *value > high) {
        return text_refuse_number(reason, AOTX_ERR_RANGE, key, "is out of range:", *value);
    }
    return AOTX_OK;
}

int ModelSource::Reader::key_f32(const char* name, float* value)
{
    const std::string key = architecture + "." + name;
    const int status = file.get_f32(key, value, reason);
    return status == AOTX_ERR_NOT_FOUND ? AOTX_OK : status;
}

int ModelSource::Reader::read_heads()
{
    ModelShape& shape = model->shape_;
    AOTX_TRY_MODEL(key_u32("attention.head_count", 1, 4096, true, &shape.heads));
    shape.kv_heads = shape.heads;
    AOTX_TRY_MODEL(key_u32("attention.head_count_kv", 1, 4096, false, &shape.kv_heads));
    if (shape.heads % shape.kv_heads != 0) {
        return text_refuse_number(reason, AOTX_ERR_RANGE, architecture + ".attention.head_count_kv",
                                  "does not divide the heads:", shape.kv_heads);
    }
    shape.head_size = shape.embedding / shape.heads;
    const bool has_size = file.has(architecture + ".attention.key_length");
    if (!has_size && shape.embedding % shape.heads != 0) {
        return text_refuse_number(reason, AOTX_ERR_RANGE, architecture + ".attention.head_count",
                                  "does not divide the embedding:", shape.heads);
    }
    AOTX_TRY_MODEL(key_u32("attention.key_length", 8, kHeadSizeMax, false, &shape.head_size));
    uint32_t value_size = shape.head_size;
    AOTX_TRY_MODEL(key_u32("attention.value_length", 8, kHeadSizeMax, false, &value_size));
    if (value_size != shape.head_size || shape.head_size % 8 != 0 ||
        shape.head_size > kHeadSizeMax) {
        return text_refuse_number(reason, AOTX_ERR_RANGE, architecture + ".attention.key_length",
                                  "is a head size that is not served:", shape.head_size);
    }
    return AOTX_OK;
}

int ModelSource::Reader::read_rope()
{
    ModelShape& shape = model->shape_;
    shape.rotated = shape.head_size;
    AOTX_TRY_MODEL(key_u32("rope.dimension_count", 2, shape.head_size, false, &shape.rotated));
    if (shape.rotated % 2 != 0) {
        return text_refuse_number(reason, AOTX_ERR_RANGE, architecture + ".rope.dimension_count",
                                  "is odd:", shape.rotated);
    }
    shape.rope_base = 10000.0f;
    AOTX_TRY_MODEL(key_f32("rope.freq_base", &shape.rope_base));
    if (!(shape.rope_base > 0.0f)) {
        return text_refuse(reason, AOTX_ERR_RANGE, architecture + ".rope.freq_base",
                           "is not above 0");
    }
    std::string_view kind = "none";
    const std::string key = architecture + ".rope.scaling.type";
    const int status = file.get_string(key, &kind, reason);
    if (status != AOTX_OK && status != AOTX_ERR_NOT_FOUND) {
        return status;
    }
    float factor = 0.0f;
    AOTX_TRY_MODEL(key_f32("rope.scale_linear", &factor));
    AOTX_TRY_MODEL(key_f32("rope.scaling.factor", &factor));
    const bool linear = kind == "linear" || (status == AOTX_ERR_NOT_FOUND && factor != 0.0f);
    if (!linear && kind != "none") {
        return text_refuse(reason, AOTX_ERR_RANGE, key, "is a scaling that is not served");
    }
    if (linear && factor != 0.0f) {
        if (!(factor > 0.0f)) {
            return text_refuse(reason, AOTX_ERR_RANGE, architecture + ".rope.scaling.factor",
                               "is not above 0");
        }
        shape.rope_scale = factor;
    }
    return AOTX_OK;
}

int ModelSource::Reader::refuse_foreign()
{
    for (const ForeignKey& foreign : kForeignKeys) {
        const std::string key = architecture + "." + foreign.name;
        float value = foreign.off;
        uint32_t whole = 0;
        if (!file.has(key)) {
            continue;
        }
        const bool is_whole = file.get_u32(key, &whole, reason) == AOTX_OK;
        if (is_whole ? whole != 0 : file.get_f32(key, &value, reason) != AOTX_OK) {
            return text_refuse(reason, AOTX_ERR_RANGE, key, "is a feature that is not served");
        }
        if (!is_whole && value != foreign.off) {
            return text_refuse(reason, AOTX_ERR_RANGE, key, "is a feature that is not served");
        }
    }
    bool causal = true;
    const std::string key = architecture + ".attention.causal";
    const int status = file.get_bool(key, &causal, reason);
    if (status != AOTX_ERR_NOT_FOUND && (status != AOTX_OK || !causal)) {
        return text_refuse(reason, AOTX_ERR_RANGE, key, "is a feature that is not served");
    }
    return AOTX_OK;
}

int ModelSource::Reader::read_shape()
{
    std::string_view name;
    const int status = file.get_string("general.architecture", &name, reason);
    if (status == AOTX_ERR_NOT_FOUND) {
        return text_refuse(reason, status, "general.architecture", "is missing");
    }
    AOTX_TRY_MODEL(status);
    if (name != "llama" && name != "qwen2") {
        return text_refuse(reason, AOTX_ERR_RANGE, "general.architecture",
                           "is neither llama nor qwen2");
    }
    architecture = std::string(name);
    ModelShape& shape = model->shape_;
    shape.rotate_split = architecture == "qwen2";
    AOTX_TRY_MODEL(key_u32("block_count", 1, kLayersMax, true, &shape.layers));
    AOTX_TRY_MODEL(key_u32("embedding_length", 8, 1u << 17, true, &shape.embedding));
    AOTX_TRY_MODEL(key_u32("feed_forward_length", 1, 1u << 18, true, &shape.feed_forward));
    AOTX_TRY_MODEL(key_u32("context_length", 1, 1u << 26, true, &shape.context_tokens));
    AOTX_TRY_MODEL(read_heads());
    AOTX_TRY_MODEL(read_rope());
    const std::string key = architecture + ".attention.layer_norm_rms_epsilon";
    const int epsilon_status = file.get_f32(key, &shape.norm_epsilon, reason);
    if (epsilon_status == AOTX_ERR_NOT_FOUND) {
        return text_refuse(reason, epsilon_status, key, "is missing");
    }
    AOTX_TRY_MODEL(epsilon_status);
    if (!(shape.norm_epsilon >= 0.0f && shape.norm_epsilon < 1.0f)) {
        return text_refuse(reason, AOTX_ERR_RANGE, key, "is out of range");
    }
    return refuse_foreign();
}

int ModelSource::Reader::find(const std::string& name, bool required, const GgufTensor** tensor)
{
    *tensor = file.find_tensor(name);
    if (*tensor == nullptr) {
        return required ? text_refuse(reason, AOTX_ERR_NOT_FOUND, name, "is missing") : AOTX_OK;
    }
    for (uint32_t i = 0; i < file.tensors_count(); i++) {
        if (&file.tensor(i) == *tensor) {
            used[i] = true;
        }
    }
    return AOTX_OK;
}

int ModelSource::Reader::check_dims(const GgufTensor& tensor, uint64_t columns, uint64_t rows)
{
    if (tensor.dims[0] != columns || tensor.dims[1] != rows || tensor.dims[2] != 1 ||
        tensor.dims[3] != 1) {
        return text_refuse_number(reason, AOTX_ERR_RANGE, tensor.name,
                                  "has another shape than the model; its rows should be", rows);
    }
    return AOTX_OK;
}

int ModelSource::Reader::add_matrix(const std::string& name, uint32_t rows, uint32_t columns,
                                    MatrixSource* matrix)
{
    const GgufTensor* tensor = nullptr;
    AOTX_TRY_MODEL(find(name, true, &tensor));
    AOTX_TRY_MODEL(check_dims(*tensor, columns, rows));
    const uint32_t number = static_cast<uint32_t>(tensor->type);
    PackedMatrix check;
    if (!weight_type_known(number) ||
        !packed_matrix_shape(static_cast<WeightType>(number), rows, columns, &check)) {
        return text_refuse(reason, AOTX_ERR_RANGE, name, "has a type that is not served");
    }
    *matrix = {tensor->data, tensor->bytes, number, rows, columns};
    return AOTX_OK;
}

int ModelSource::Reader::add_vector(const std::string& name, uint32_t count, bool required,
                                    VectorSource* vector)
{
    const GgufTensor* tensor = nullptr;
    AOTX_TRY_MODEL(find(name, required, &tensor));
    if (tensor == nullptr) {
        return AOTX_OK;
    }
    AOTX_TRY_MODEL(check_dims(*tensor, count, 1));
    const WeightType type = static_cast<WeightType>(tensor->type);
    if (!weight_type_known(static_cast<uint32_t>(tensor->type)) || weight_is_quantised(type)) {
        return text_refuse(reason, AOTX_ERR_RANGE, name, "has a type that is not served");
    }
    std::unique_ptr<float[]> floats(new (std::nothrow) float[count]);
    if (floats == nullptr) {
        return text_refuse(reason, AOTX_ERR_SYSTEM, name, "finds no memory");
    }
    source_row(type, tensor->data, count, floats.get());
    *vector = {floats.get(), count};
    model->vectors_.push_back(std::move(floats));
    model->vectors_bytes_ += uint64_t{count} * sizeof(float);
    return AOTX_OK;
}

int ModelSource::Reader::read_layer(uint32_t index, LayerSource* layer)
{
    const ModelShape& shape = model->shape_;
    const std::string prefix = "blk." + std::to_string(index) + ".";
    const uint32_t query_size = shape.heads * shape.head_size;
    const uint32_t key_size = shape.kv_heads * shape.head_size;
    const uint32_t wide = shape.feed_forward;
    const uint32_t size = shape.embedding;
    AOTX_TRY_MODEL(add_vector(prefix + "attn_norm.weight", size, true, &layer->attention_norm));
    AOTX_TRY_MODEL(add_matrix(prefix + "attn_q.weight", query_size, size, &layer->query));
    AOTX_TRY_MODEL(add_matrix(prefix + "attn_k.weight", key_size, size, &layer->key));
    AOTX_TRY_MODEL(add_matrix(prefix + "attn_v.weight", key_size, size, &layer->value));
    AOTX_TRY_MODEL(add_vector(prefix + "attn_q.bias", query_size, false, &layer->query_bias));
    AOTX_TRY_MODEL(add_vector(prefix + "attn_k.bias", key_size, false, &layer->key_bias));
    AOTX_TRY_MODEL(add_vector(prefix + "attn_v.bias", key_size, false, &layer->value_bias));
    AOTX_TRY_MODEL(
        add_matrix(prefix + "attn_output.weight", size, query_size, &layer->attention_output));
    AOTX_TRY_MODEL(add_vector(prefix + "ffn_norm.weight", size, true, &layer->feed_forward_norm));
    AOTX_TRY_MODEL(add_matrix(prefix + "ffn_gate.weight", wide, size, &layer->gate));
    AOTX_TRY_MODEL(add_matrix(prefix + "ffn_up.weight", wide, size, &layer->up));
    return add_matrix(prefix + "ffn_down.weight", size, wide, &layer->down);
}

int ModelSource::Reader::read_tensors()
{
    ModelShape& shape = model->shape_;
    const GgufTensor* tensor = nullptr;
    AOTX_TRY_MODEL(find("token_embd.weight", true, &tensor));
    if (tensor->dims[1] < 2 || tensor->dims[1] > kMatrixColumnsMax) {
        return text_refuse_number(reason, AOTX_ERR_RANGE, tensor->name,
                                  "has a vocabulary out of range:", tensor->dims[1]);
    }
    shape.vocab = static_cast<uint32_t>(tensor->dims[1]);
    const GgufTensor* separate = nullptr;
    AOTX_TRY_MODEL(find("output.weight", false, &separate));
    const char* const output = separate != nullptr ? "output.weight" : "token_embd.weight";
    AOTX_TRY_MODEL(add_matrix(output, shape.vocab, shape.embedding, &model->output_));
    AOTX_TRY_MODEL(
        add_matrix("token_embd.weight", shape.vocab, shape.embedding, &model->embedding_));
    AOTX_TRY_MODEL(add_vector("output_norm.weight", shape.embedding, true, &model->output_norm_));
    AOTX_TRY_MODEL(
        add_vector("rope_freqs.weight", shape.rotated / 2, false, &model->rope_factors_));
    for (uint32_t i = 0; i < shape.layers; i++) {
        AOTX_TRY_MODEL(read_layer(i, &model->layers_[i]));
    }
    return refuse_unused();
}

// A tensor that nobody reads is a feature of the model that would be lost.
int ModelSource::Reader::refuse_unused()
{
    for (uint32_t i = 0; i < file.tensors_count(); i++) {
        if (!used[i]) {
            return text_refuse(reason, AOTX_ERR_RANGE, file.tensor(i).name,
                               "is a tensor that this runtime does not know");
        }
    }
    return AOTX_OK;
}

int ModelSource::open(const GgufFile& file, TextReason* reason) noexcept
{
    Reader reader(this, file, reason);
    mapped_ = file.is_mapped();
    AOTX_TRY_MODEL(reader.read_shape());
    layers_.reset(new (std::nothrow) LayerSource[shape_.layers]);
    if (layers_ == nullptr) {
        return text_refuse(reason, AOTX_ERR_SYSTEM, "layers", "find no memory");
    }
    return reader.read_tensors();
}

}  // namespace aotx
