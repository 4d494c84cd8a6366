// Purpose:  see reference.h.
// Owns:     see reference.h.
// Thread:   one.
// Lifetime: see reference.h.
#include "reference.h"

#include <cmath>

namespace aotx_test {

using aotx::GgufTensor;

FloatMatrix load_matrix(const aotx::GgufFile& file, const std::string& name)
{
    FloatMatrix matrix;
    const GgufTensor* const tensor = file.find_tensor(name);
    if (tensor == nullptr) {
        return matrix;
    }
    const auto type = static_cast<aotx::WeightType>(tensor->type);
    matrix.columns = static_cast<uint32_t>(tensor->dims[0]);
    matrix.rows = static_cast<uint32_t>(tensor->dims[1]);
    matrix.weights.resize(uint64_t{matrix.rows} * matrix.columns);
    const uint64_t row_bytes = aotx::source_row_bytes(type, matrix.columns);
    for (uint64_t row = 0; row < matrix.rows; row++) {
        aotx::source_row(type, tensor->data + row * row_bytes, matrix.columns,
                         matrix.weights.data() + row * matrix.columns);
    }
    return matrix;
}

FloatMatrix load_output_matrix(const aotx::GgufFile& file)
{
    FloatMatrix own = load_matrix(file, "output.weight");
    return own.weights.empty() ? load_matrix(file, "token_embd.weight") : own;
}

std::string Reference::open(const aotx::GgufFile& file)
{
    aotx::TextReason reason;
    std::string_view name;
    if (file.get_string("general.architecture", &name, &reason) != 0) {
        return "no architecture";
    }
    const std::string prefix = std::string(name) + ".";
    int status = file.get_u32(prefix + "block_count", &layers_count_, &reason);
    status |= file.get_u32(prefix + "embedding_length", &size_, &reason);
    status |= file.get_u32(prefix + "attention.head_count", &heads_, &reason);
    status |= file.get_f32(prefix + "attention.layer_norm_rms_epsilon", &epsilon_, &reason);
    if (status != 0) {
        return "a key is missing";
    }
    // Keys that may be absent keep what stands in front of them.
    kv_heads_ = heads_;
    head_size_ = size_ / heads_;
    status = file.get_u32(prefix + "attention.head_count_kv", &kv_heads_, &reason);
    status = file.get_u32(prefix + "attention.key_length", &head_size_, &reason);
    rotated_ = head_size_;
    status = file.get_u32(prefix + "rope.dimension_count", &rotated_, &reason);
    status = file.get_f32(prefix + "rope.freq_base", &base_, &reason);
    status = file.get_f32(prefix + "rope.scaling.factor", &position_scale_, &reason);
    split_ = name == "qwen2";
    embedding_ = load_matrix(file, "token_embd.weight");
    output_ = load_matrix(file, "output.weight");
    output_norm_ = load_matrix(file, "output_norm.weight");
    rope_factors_ = load_matrix(file, "rope_freqs.weight");
    vocab_ = embedding_.rows;
    for (uint32_t i = 0; i < layers_count_; i++) {
        const std::string block = "blk." + std::to_string(i) + ".";
        layers_.push_back(
            {load_matrix(file, block + "attn_norm.weight"),
             load_matrix(file, block + "attn_q.weight"), load_matrix(file, block + "attn_k.weight"),
             load_matrix(file, block + "attn_v.weight"),
             load_matrix(file, block + "attn_output.weight"),
             load_matrix(file, block + "attn_q.bias"), load_matrix(file, block + "attn_k.bias"),
             load_matrix(file, block + "attn_v.bias"), load_matrix(file, block + "ffn_norm.weight"),
             load_matrix(file, block + "ffn_gate.weight"),
             load_matrix(file, block + "ffn_up.weight"),
             load_matrix(file, block + "ffn_down.weight")});
    }
    return "";
}

std::vector<float> multiply(const FloatMatrix& matrix, const std::vector<float>& x)
{
    const size_t tokens = x.size() / matrix.columns;
    const size_t columns = matrix.columns;
    std::vector<float> out(tokens * matrix.rows);
    for (size_t row = 0; row < matrix.rows; row++) {
        const float* const weights = matrix.weights.data() + row * columns;
        for (size_t token = 0; token < tokens; token++) {
            const float* const input = x.data() + token * columns;
            // Sixteen running sums, so that a compiler can use vectors and rounding stays small.
            float sums[16] = {};
            size_t i = 0;
            for (; i + 16 <= columns; i += 16) {
                for (size_t lane = 0; lane < 16; lane++) {
                    sums[lane] += weights[i + lane] * input[i + lane];
                }
            }
            double sum = 0;
            for (const float part : sums) {
                sum += part;
            }
            for (; i < columns; i++) {
                sum += static_cast<double>(weights[i]) * input[i];
            }
            out[token * matrix.rows + row] = static_cast<float>(sum);
        }
    }
    return out;
}

std::vector<float> Reference::norm(const Matrix& weight, const std::vector<float>& x) const
{
    std::vector<float> out(x.size());
    for (size_t at = 0; at < x.size(); at += size_) {
        double squares = 0;
        for (size_t i = 0; i < size_; i++) {
            squares += static_cast<double>(x[at + i]) * x[at + i];
        }
        const double factor = 1.0 / std::sqrt(squares / size_ + static_cast<double>(epsilon_));
        for (size_t i = 0; i < size_; i++) {
            out[at + i] = static_cast<float>(x[at + i] * factor * weight.weights[i]);
        }
    }
    return out;
}

void Reference::add_bias(const Matrix& bias, std::vector<float>* x) const
{
    for (size_t i = 0; i < x->size() && !bias.weights.empty(); i++) {
        (*x)[i] += bias.weights[i % bias.weights.size()];
    }
}

void Reference::rotate(std::vector<float>* x, uint32_t heads) const
{
    const size_t row_size = size_t{heads} * head_size_;
    const uint32_t pairs = rotated_ / 2;
    for (size_t position = 0; position < x->size() / row_size; position++) {
        for (uint32_t head = 0; head < heads; head++) {
            float* const at = x->data() + position * row_size + head * head_size_;
            for (uint32_t i = 0; i < pairs; i++) {
                double angle = static_cast<double>(position) /
                               static_cast<double>(position_scale_) *
                               std::pow(static_cast<double>(base_), -2.0 * i / rotated_);
                if (!rope_factors_.weights.empty()) {
                    angle /= static_cast<double>(rope_factors_.weights[i]);
                }
                float* const first = split_ ? at + i : at + 2 * i;
                float* const second = split_ ? at + i + pairs : first + 1;
                const double a = *first;
                const double b = *second;
                *first = static_cast<float>(a * std::cos(angle) - b * std::sin(angle));
                *second = static_cast<float>(a * std::sin(angle) + b * std::cos(angle));
            }
        }
    }
}

std::vector<float> Reference::attend(const std::vector<float>& queries,
                                     const std::vector<float>& keys,
                                     const std::vector<float>& values) const
{
    const size_t query_row = size_t{heads_} * head_size_;
    const size_t key_row = size_t{kv_heads_} * head_size_;
    const size_t tokens = queries.size() / query_row;
    const double scale = 1.0 / std::sqrt(static_cast<double>(head_size_));
    std::vector<float> out(queries.size());
    std::vector<double> weights(tokens);
    std::vector<double> sums(head_size_);
    for (size_t token = 0; token < tokens; token++) {
        for (size_t head = 0; head < heads_; head++) {
            const size_t key_at = head / (heads_ / kv_heads_) * head_size_;
            const float* const query = queries.data() + token * query_row + head * head_size_;
            double largest = -1e300;
            for (size_t k = 0; k <= token; k++) {
                const float* const key = keys.data() + k * key_row + key_at;
                double score = 0;
                for (size_t i = 0; i < head_size_; i++) {
                    score += static_cast<double>(query[i]) * key[i];
                }
                weights[k] = score * scale;
                largest = std::fmax(largest, weights[k]);
            }
            double total = 0;
            sums.assign(head_size_, 0.0);
            for (size_t k = 0; k <= token; k++) {
                const double weight = std::exp(weights[k] - largest);
                const float* const value = values.data() + k * key_row + key_at;
                total += weight;
                for (size_t i = 0; i < head_size_; i++) {
                    sums[i] += weight * value[i];
                }
            }
            for (size_t i = 0; i < head_size_; i++) {
                out[token * query_row + head * head_size_ + i] =
                    static_cast<float>(sums[i] / total);
            }
        }
    }
    return out;
}

std::vector<float> Reference::states(const std::vector<int32_t>& tokens, size_t first) const
{
    std::vector<float> x;
    for (const int32_t token : tokens) {
        const auto row = embedding_.weights.begin() + int64_t{token} * size_;
        x.insert(x.end(), row, row + size_);
    }
    const auto add = [&x](const std::vector<float>& more) {
        for (size_t i = 0; i < x.size(); i++) {
            x[i] += more[i];
        }
    };
    for (const Layer& layer : layers_) {
        const std::vector<float> input = norm(layer.attention_norm, x);
        std::vector<float> queries = multiply(layer.query, input);
        std::vector<float> keys = multiply(layer.key, input);
        std::vector<float> values = multiply(layer.value, input);
        add_bias(layer.query_bias, &queries);
        add_bias(layer.key_bias, &keys);
        add_bias(layer.value_bias, &values);
        rotate(&queries, heads_);
        rotate(&keys, kv_heads_);
        add(multiply(layer.attention_output, attend(queries, keys, values)));
        const std::vector<float> wide_input = norm(layer.feed_forward_norm, x);
        std::vector<float> gate = multiply(layer.gate, wide_input);
        const std::vector<float> up = multiply(layer.up, wide_input);
        for (size_t i = 0; i < gate.size(); i++) {
            const double value = gate[i];
            gate[i] = static_cast<float>(value / (1.0 + std::exp(-value)) * up[i]);
        }
        add(multiply(layer.down, gate));
    }
    const std::vector<float> wanted(x.begin() + static_cast<int64_t>(first * size_), x.end());
    return norm(output_norm_, wanted);
}

std::vector<float> Reference::logits_of(const std::vector<float>& states) const
{
    return multiply(output_.weights.empty() ? embedding_ : output_, states);
}

}  // namespace aotx_test
