// Purpose:  the layers of a Llama-family transformer, shared out over the workers of a pool.
// Owns:     see forward.h.
// Thread:   see forward.h.
// Lifetime: see forward.h.
//
// Every worker runs the same sequence of phases. In a phase the units of work (groups of 16 rows of
// a matrix, tokens, or tokens by KV heads) are claimed one by one from a counter of that phase, and
// a barrier ends it. Which worker computes a unit never changes its result.
#include "engine_cpu/forward.h"

#include <cmath>
#include <cstring>
#include <new>

#include "engine/memory.h"
#include "engine/rope.h"

namespace aotx {

namespace {

constexpr uint64_t kAlignment = 64;
// Up to this many rows every worker prepares the inputs of a product for itself, which costs less
// than a barrier.
constexpr uint32_t kPrivateRows = 4;
constexpr uint32_t kSharedRowsUnit = 4;
constexpr uint32_t kBlockTokens = 16;       // tokens of one attention unit
constexpr uint32_t kStoreTokens = 8;        // tokens of one rotation unit
constexpr uint64_t kUnitBytes = 96 * 1024;  // weights of one unit: they stay in the private caches
constexpr uint32_t kUnitsOfWorker = 6;      // units that a worker should find in one product
constexpr uint32_t kCountersOfLayer = 12;

// The next piece of one allocation; null while only counting.
template <typename T>
T* take(uint8_t* memory, uint64_t* offset, uint64_t count)
{
    const uint64_t at = *offset;
    *offset += (count * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
    return memory == nullptr ? nullptr : reinterpret_cast<T*>(memory + at);
}

uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}
uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

}  // namespace

// The inputs of a matrix product, in the forms that its matrices take.
struct Forward::Input {
    const float* floats = nullptr;
    const ActivationBlock* codes = nullptr;
    uint32_t columns = 0;
};

// What one worker writes to alone.
struct Forward::Worker {
    float* matmul_scratch;  // [16][columns_max]
    float* attend_scratch;
    float* row;              // [columns_max]
    float* floats;           // [kPrivateRows][columns_max]
    ActivationBlock* codes;  // [kPrivateRows][columns_max / 32]
    const float** queries;   // [kBlockTokens * head_group]
    float** outputs;
    uint32_t* keys_counts;
    uint32_t counter;  // phases with a counter that it has passed
    uint32_t rows;     // rows of the products of its current phase
};

Forward::~Forward()
{
    close();
}

void Forward::carve(uint8_t* memory, uint64_t* bytes) noexcept
{
    const ModelShape& shape = model_->shape();
    const uint64_t tokens = shape_.step_tokens;
    const uint64_t rows = shape_.logits_rows;
    const uint64_t blocks_max = (columns_max_ + kCellColumns - 1) / kCellColumns;
    uint64_t at = 0;
    residual_ = take<float>(memory, &at, tokens * shape.embedding);
    wanted_ = take<float>(memory, &at, rows * shape.embedding);
    qkv_ = take<float>(memory, &at, tokens * qkv_size_);
    attended_ = take<float>(memory, &at, tokens * query_size_);
    gate_ = take<float>(memory, &at, tokens * shape.feed_forward);
    up_ = take<float>(memory, &at, tokens * shape.feed_forward);
    logits_ = take<float>(memory, &at, rows * logits_stride_);
    shared_floats_ = take<float>(memory, &at, tokens * columns_max_);
    shared_codes_ = take<ActivationBlock>(memory, &at, tokens * blocks_max);
    rope_ = take<float>(memory, &at, uint64_t{shape_.sequence_tokens} * shape.rotated);
    counters_ = take<WorkCounter>(memory, &at, counters_count_);
    workers_ = take<Worker>(memory, &at, pool_->workers_count());
    const uint64_t pairs = uint64_t{kBlockTokens} * head_group_;
    for (uint32_t i = 0; i < pool_->workers_count(); i++) {
        Worker worker = {};
        worker.matmul_scratch = take<float>(memory, &at, uint64_t{kGroupRows} * columns_max_);
        worker.attend_scratch =
            take<float>(memory, &at, attend_scratch_floats(shape_.sequence_tokens));
        worker.row = take<float>(memory, &at, columns_max_);
        worker.floats = take<float>(memory, &at, uint64_t{kPrivateRows} * columns_max_);
        worker.codes = take<ActivationBlock>(memory, &at, kPrivateRows * blocks_max);
        worker.queries = take<const float*>(memory, &at, pairs);
        worker.outputs = take<float*>(memory, &at, pairs);
        worker.keys_counts = take<uint32_t>(memory, &at, pairs);
        if (workers_ != nullptr) {
            workers_[i] = worker;
        }
    }
    *bytes = at;
}

bool Forward::open(const Model& model, KvCache* cache, WorkerPool* pool,
                   const ForwardShape& shape) noexcept
{
    close();
    const ModelShape& of_model = model.shape();
    model_ = &model;
    cache_ = cache;
    pool_ = pool;
    kernels_ = &kernel_table();
    shape_ = shape;
    head_group_ = of_model.heads / of_model.kv_heads;
    query_size_ = of_model.heads * of_model.head_size;
    key_size_ = of_model.kv_heads * of_model.head_size;
    qkv_size_ = query_size_ + 2 * key_size_;
    columns_max_ = larger(larger(of_model.embedding, of_model.feed_forward), query_size_);
    logits_stride_ = (of_model.vocab + kGroupRows - 1) / kGroupRows * kGroupRows;
    counters_count_ = of_model.layers * kCountersOfLayer + kCountersOfLayer;
    uint64_t bytes = 0;
    carve(nullptr, &bytes);
    memory_ = memory_take(bytes);
    if (memory_ == nullptr) {
        return false;
    }
    memory_bytes_ = bytes;
    carve(memory_, &bytes);
    for (uint32_t i = 0; i < counters_count_; i++) {
        new (&counters_[i]) WorkCounter();
    }
    rope_fill(of_model, model.rope_factors(), shape.sequence_tokens, rope_);
    return true;
}

void Forward::close() noexcept
{
    memory_free(memory_, memory_bytes_);
    memory_ = nullptr;
    memory_bytes_ = 0;
}

void Forward::run(const StepToken* tokens, uint32_t count) noexcept
{
    AOTX_TEXT_CHECK(count >= 1);
    AOTX_TEXT_CHECK(count <= shape_.step_tokens);
    tokens_ = tokens;
    tokens_count_ = count;
    wanted_count_ = 0;
    prefill_ = false;
    for (uint32_t i = 0; i < count; i++) {
        AOTX_TEXT_CHECK(tokens[i].position < shape_.sequence_tokens);
        if (tokens[i].logits_row != kNoLogits) {
            AOTX_TEXT_CHECK(tokens[i].logits_row == wanted_count_);
            wanted_count_++;
        }
        prefill_ = prefill_ || (i > 0 && tokens[i].sequence == tokens[i - 1].sequence);
    }
    AOTX_TEXT_CHECK(wanted_count_ <= shape_.logits_rows);
    for (uint32_t i = 0; i < counters_count_; i++) {
        counters_[i].reset();
    }
    pool_->run(&run_worker, this);
}

void Forward::run_worker(void* context, uint32_t worker) noexcept
{
    static_cast<Forward*>(context)->run_all(worker);
}

void Forward::run_all(uint32_t worker) noexcept
{
    workers_[worker].counter = 0;
    workers_[worker].rows = tokens_count_;
    embed(worker);
    pool_->barrier();
    for (uint32_t layer = 0; layer < model_->shape().layers; layer++) {
        run_layer(worker, layer);
    }
    if (wanted_count_ != 0) {
        run_output(worker);
    }
}

WorkCounter* Forward::next_counter(uint32_t worker) noexcept
{
    const uint32_t index = workers_[worker].counter++;
    AOTX_TEXT_CHECK(index < counters_count_);
    return &counters_[index];
}

void Forward::embed(uint32_t worker) noexcept
{
    const uint32_t size = model_->shape().embedding;
    WorkCounter* const counter = next_counter(worker);
    uint32_t begin = 0;
    uint32_t end = 0;
    while (counter->claim(tokens_count_, 1, &begin, &end)) {
        model_->embed(tokens_[begin].token, residual_ + uint64_t{begin} * size);
    }
}

bool Forward::by_codes(const PackedMatrix& matrix) const noexcept
{
    return shape_.activations == ActivationMode::kQuantised && weight_is_quantised(matrix.type);
}

void Forward::prepare_row(const float* row, const float* norm, uint32_t columns, float* floats,
                          ActivationBlock* codes) noexcept
{
    const float* input = row;
    if (norm != nullptr) {
        kernels_->rms_norm(row, norm, columns, model_->shape().norm_epsilon, floats);
        input = floats;
    }
    if (codes != nullptr) {
        kernels_->quantise(input, columns, codes);
    }
}

Forward::Input Forward::prepare(uint32_t worker, const float* rows, const float* norm,
                                uint32_t columns, bool floats, bool codes) noexcept
{
    Worker& own = workers_[worker];
    if (norm == nullptr && !codes) {
        return {rows, nullptr, columns};
    }
    const uint64_t blocks = columns / kCellColumns;
    const bool alone = own.rows <= kPrivateRows;
    float* const out_floats = alone ? own.floats : shared_floats_;
    ActivationBlock* const out_codes = alone ? own.codes : shared_codes_;
    Input input;
    input.columns = columns;
    input.floats = norm == nullptr ? rows : out_floats;
    input.codes = codes ? out_codes : nullptr;
    uint32_t begin = 0;
    uint32_t end = own.rows;
    WorkCounter* const counter = alone ? nullptr : next_counter(worker);
    while (alone || counter->claim(own.rows, kSharedRowsUnit, &begin, &end)) {
        for (uint64_t i = begin; i < end; i++) {
            float* const target = floats ? out_floats + i * columns : own.row;
            prepare_row(rows + i * columns, norm, columns, target,
                        codes ? out_codes + i * blocks : nullptr);
        }
        if (alone) {
            return input;
        }
    }
    pool_->barrier();
    return input;
}

void Forward::multiply(uint32_t worker, const PackedMatrix& matrix, uint32_t begin, uint32_t end,
                       const Input& input, const MatmulOutput& out) noexcept
{
    const Worker& own = workers_[worker];
    if (by_codes(matrix)) {
        kernels_->matmul_quantised(matrix, begin, end, input.codes, input.columns / kCellColumns,
                                   own.rows, out);
        return;
    }
    kernels_->matmul_float(matrix, begin, end, input.floats, input.columns, own.rows,
                           own.matmul_scratch, out);
}

uint32_t Forward::unit_groups(const PackedMatrix& matrix) const noexcept
{
    const uint64_t fit = kUnitBytes / matrix.group_bytes + 1;
    if (pool_->workers_count() == 1) {
        return static_cast<uint32_t>(fit);
    }
    const uint32_t fair = matrix.groups / (pool_->workers_count() * kUnitsOfWorker) + 1;
    return fit < fair ? static_cast<uint32_t>(fit) : fair;
}

void Forward::multiply_shared(uint32_t worker, const PackedMatrix& matrix, const Input& input,
                              float* out, size_t stride, bool add) noexcept
{
    WorkCounter* const counter = next_counter(worker);
    const uint32_t unit = unit_groups(matrix);
    uint32_t begin = 0;
    uint32_t end = 0;
    while (counter->claim(matrix.groups, unit, &begin, &end)) {
        multiply(worker, matrix, begin, end, input, {out + begin * kGroupRows, stride, add});
    }
}

// Add biases, turn queries and key of one token and KV head, and store key and value.
void Forward::rotate_and_store(uint32_t layer, uint32_t token, uint32_t kv_head) noexcept
{
    const ModelShape& shape = model_->shape();
    const ModelLayer& weights = model_->layer(layer);
    const uint32_t size = shape.head_size;
    const StepToken& at = tokens_[token];
    float* const row = qkv_ + uint64_t{token} * qkv_size_;
    float* const key = row + query_size_ + kv_head * size;
    float* const value = key + key_size_;
    const uint64_t query_at = uint64_t{kv_head} * head_group_ * size;
    const float* const turn = rope_ + uint64_t{at.position} * shape.rotated;
    if (weights.query_bias != nullptr) {
        kernels_->add(row + query_at, weights.query_bias + query_at, head_group_ * size);
    }
    if (weights.key_bias != nullptr) {
        kernels_->add(key, weights.key_bias + kv_head * size, size);
    }
    if (weights.value_bias != nullptr) {
        kernels_->add(value, weights.value_bias + kv_head * size, size);
    }
    const float scale = 1.0f / std::sqrt(static_cast<float>(size));
    for (uint32_t head = 0; head < head_group_; head++) {
        float* const query = row + query_at + head * size;
        kernels_->rotate(query, turn, shape.rotated / 2, shape.rotate_split);
        for (uint32_t i = 0; i < size; i++) {
            query[i] *= scale;
        }
    }
    kernels_->rotate(key, turn, shape.rotated / 2, shape.rotate_split);
    const uint32_t page = cache_->pages(at.sequence)[at.position / kKeyPageTokens];
    uint8_t* const target = cache_->base(layer, kv_head) + page * cache_->page_stride_bytes();
    page_store(target, size, at.position % kKeyPageTokens, key, value, cache_->wide());
}

// Attention of the tokens first .. first + count - 1, all of one sequence. In the last layer only
// tokens that want logits go on, and their rows move together.
void Forward::attend_token_block(uint32_t worker, uint32_t layer, uint32_t first, uint32_t count,
                                 uint32_t kv_head) noexcept
{
    const ModelShape& shape = model_->shape();
    Worker& own = workers_[worker];
    const bool last = layer + 1 == shape.layers;
    const uint64_t query_at = uint64_t{kv_head} * head_group_ * shape.head_size;
    uint32_t rows = 0;
    for (uint32_t token = first; token < first + count; token++) {
        const StepToken& at = tokens_[token];
        if (last && at.logits_row == kNoLogits) {
            continue;
        }
        const uint64_t to = last ? at.logits_row : token;
        for (uint32_t head = 0; head < head_group_; head++) {
            const uint64_t element = query_at + head * shape.head_size;
            own.queries[rows] = qkv_ + uint64_t{token} * qkv_size_ + element;
            own.outputs[rows] = attended_ + to * query_size_ + element;
            own.keys_counts[rows] = at.position + 1;
            rows++;
        }
        if (last && kv_head == 0) {
            std::memcpy(wanted_ + to * shape.embedding,
                        residual_ + uint64_t{token} * shape.embedding,
                        shape.embedding * sizeof(float));
        }
    }
    if (rows == 0) {
        return;
    }
    AttendInput input;
    input.queries = own.queries;
    input.keys_counts = own.keys_counts;
    input.outputs = own.outputs;
    input.rows = rows;
    input.head_size = shape.head_size;
    input.pool = cache_->base(layer, kv_head);
    input.page_stride_bytes = cache_->page_stride_bytes();
    input.pages = cache_->pages(tokens_[first].sequence);
    input.wide = cache_->wide();
    input.scratch = own.attend_scratch;
    kernels_->attend(input);
}

void Forward::attention(uint32_t worker, uint32_t layer) noexcept
{
    const uint32_t kv_heads = model_->shape().kv_heads;
    uint32_t begin = 0;
    uint32_t end = 0;
    if (!prefill_) {
        // Every token is its sequence's only one, so a unit needs no key of another unit.
        WorkCounter* const counter = next_counter(worker);
        while (counter->claim(tokens_count_ * kv_heads, 1, &begin, &end)) {
            rotate_and_store(layer, begin / kv_heads, begin % kv_heads);
            attend_token_block(worker, layer, begin / kv_heads, 1, begin % kv_heads);
        }
        return;
    }
    WorkCounter* const store_counter = next_counter(worker);
    while (store_counter->claim(tokens_count_, kStoreTokens, &begin, &end)) {
        for (uint32_t token = begin; token < end; token++) {
            for (uint32_t kv_head = 0; kv_head < kv_heads; kv_head++) {
                rotate_and_store(layer, token, kv_head);
            }
        }
    }
    pool_->barrier();
    const uint32_t blocks = (tokens_count_ + kBlockTokens - 1) / kBlockTokens;
    WorkCounter* const counter = next_counter(worker);
    while (counter->claim(blocks * kv_heads, 1, &begin, &end)) {
        uint32_t token = begin / kv_heads * kBlockTokens;
        const uint32_t stop = smaller(tokens_count_, token + kBlockTokens);
        while (token < stop) {
            uint32_t next = token + 1;
            while (next < stop && tokens_[next].sequence == tokens_[token].sequence) {
                next++;
            }
            attend_token_block(worker, layer, token, next - token, begin % kv_heads);
            token = next;
        }
    }
}

void Forward::feed_forward(uint32_t worker, const ModelLayer& layer, const Input& input) noexcept
{
    const uint32_t wide = model_->shape().feed_forward;
    WorkCounter* const counter = next_counter(worker);
    const uint32_t unit = unit_groups(layer.gate);
    const uint32_t rows = workers_[worker].rows;
    uint32_t begin = 0;
    uint32_t end = 0;
    while (counter->claim(layer.gate.groups, unit, &begin, &end)) {
        const uint64_t column = begin * kGroupRows;
        multiply(worker, layer.gate, begin, end, input, {gate_ + column, wide, false});
        multiply(worker, layer.up, begin, end, input, {up_ + column, wide, false});
        const uint32_t count = smaller(wide, end * kGroupRows) - begin * kGroupRows;
        for (uint64_t row = 0; row < rows; row++) {
            const uint64_t at = row * wide + column;
            kernels_->silu_multiply(gate_ + at, up_ + at, count);
        }
    }
}

void Forward::run_layer(uint32_t worker, uint32_t layer) noexcept
{
    const ModelShape& shape = model_->shape();
    const ModelLayer& weights = model_->layer(layer);
    const bool last = layer + 1 == shape.layers;
    const bool codes_in =
        by_codes(weights.query) || by_codes(weights.key) || by_codes(weights.value);
    const bool floats_in =
        !by_codes(weights.query) || !by_codes(weights.key) || !by_codes(weights.value);
    Input input =
        prepare(worker, residual_, weights.attention_norm, shape.embedding, floats_in, codes_in);
    multiply_shared(worker, weights.query, input, qkv_, qkv_size_, false);
    multiply_shared(worker, weights.key, input, qkv_ + query_size_, qkv_size_, false);
    multiply_shared(worker, weights.value, input, qkv_ + query_size_ + key_size_, qkv_size_, false);
    pool_->barrier();
    attention(worker, layer);
    pool_->barrier();
    if (last) {
        workers_[worker].rows = wanted_count_;
    }
    if (workers_[worker].rows == 0) {
        return;
    }
    float* const residual = last ? wanted_ : residual_;
    const bool codes_attended = by_codes(weights.attention_output);
    input = prepare(worker, attended_, nullptr, query_size_, !codes_attended, codes_attended);
    multiply_shared(worker, weights.attention_output, input, residual, shape.embedding, true);
    pool_->barrier();
    input = prepare(worker, residual, weights.feed_forward_norm, shape.embedding,
                    !by_codes(weights.gate) || !by_codes(weights.up),
                    by_codes(weights.gate) || by_codes(weights.up));
    feed_forward(worker, weights, input);
    pool_->barrier();
    const bool codes_down = by_codes(weights.down);
    input = prepare(worker, gate_, nullptr, shape.feed_forward, !codes_down, codes_down);
    multiply_shared(worker, weights.down, input, residual, shape.embedding, true);
    pool_->barrier();
}

void Forward::run_output(uint32_t worker) noexcept
{
    const PackedMatrix& output = model_->output();
    const bool codes = by_codes(output);
    const Input input =
        prepare(worker, wanted_, model_->output_norm(), model_->shape().embedding, !codes, codes);
    multiply_shared(worker, output, input, logits_, logits_stride_, false);
}

}  // namespace aotx
