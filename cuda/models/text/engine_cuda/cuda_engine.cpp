// Purpose:  bring the GPU side of the text runtime up, run its steps, bring it back after a fault.
// Owns:     see cuda_engine.h.
// Thread:   see cuda_engine.h.
// Lifetime: see cuda_engine.h.
#include "engine_cuda/cuda_engine.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <new>

#include "aotx/mailbox.h"
#include "engine/memory.h"
#include "engine_cuda/cuda_steps.h"

namespace aotx {

namespace {

constexpr uint64_t kPlaceBytes = 256;
constexpr uint64_t kSpinNs = 20000;
constexpr uint64_t kLookEveryNs = 100000000u;  // a fault rings no bell: look for it this often
constexpr uint32_t kResetsMax = 3;             // of the device by one engine

struct Places {
    uint64_t bytes = 0;

    uint64_t take(uint64_t count, uint64_t item_bytes)
    {
        const uint64_t at = bytes;
        bytes += (count * item_bytes + kPlaceBytes - 1) / kPlaceBytes * kPlaceBytes;
        return at;
    }
};

void step_over(void* bell)
{
    bell_ring(static_cast<Bell*>(bell));
}

}  // namespace

CudaEngine::~CudaEngine()
{
    if (calls_.abandoned()) {
        return;  // the device may still write to the mapped memory and ring the bell: both stay
    }
    down();
    memory_free(host_, layout_.host_bytes);
}

std::unique_ptr<StepEngine> CudaEngine::open(const CudaApi* api, const StepEngineRequest& request,
                                             TextReason* reason) noexcept
{
    std::unique_ptr<CudaEngine> engine(new (std::nothrow) CudaEngine(api));
    if (engine == nullptr || !engine->take(request, reason)) {
        return nullptr;
    }
    return engine;
}

uint64_t CudaEngine::allocation_bytes() const noexcept
{
    return layout_.device_bytes + layout_.host_bytes +
           KvPages::allocation_bytes(pages_.pages_shape()) +
           uint64_t{request_.sequences} * sizeof(uint32_t);
}

// What the attention kernel holds of one kv head in a block's memory.
bool CudaEngine::check(TextReason* reason) noexcept
{
    const uint32_t group = shape_.heads / shape_.kv_heads;
    if (group > kAttentionHeadsMax || group * shape_.head_size > kAttentionItemsMax) {
        (void)text_refuse_number(reason, 0, "attention.head_count",
                                 "is more for one kv head than the GPU serves:", group);
        return false;
    }
    return true;
}

void CudaEngine::lay_out() noexcept
{
    const uint64_t tokens = request_.step_tokens;
    const uint64_t sequences = request_.sequences;
    const PagesShape& pages = pages_.pages_shape();
    const uint64_t query = uint64_t{shape_.heads} * shape_.head_size;
    Places device;
    device.bytes = weights_.bytes();
    layout_.kv = device.take(uint64_t{shape_.layers} * pages.pages * shape_.kv_heads * 2,
                             uint64_t{kKvPageTokens} * shape_.head_size * sizeof(uint16_t));
    layout_.rows = device.take(tokens, sizeof(TextRow));
    layout_.map = device.take(sequences, sizeof(uint32_t));
    layout_.counts = device.take(2, sizeof(uint32_t));
    layout_.page_table = device.take(sequences * sequence_pages_, sizeof(int32_t));
    layout_.residual = device.take(tokens * shape_.embedding, sizeof(float));
    layout_.query = device.take(tokens * query, sizeof(float));
    layout_.attended = device.take(tokens * query, sizeof(float));
    layout_.gate = device.take(tokens * shape_.feed_forward, sizeof(float));
    layout_.logits = device.take(sequences * logits_stride_, sizeof(float));
    layout_.partial = device.take(tokens * shape_.heads * kAttentionSplits,
                                  (shape_.head_size + 2) * sizeof(float));
    layout_.tickets = device.take(tokens * shape_.kv_heads + 1, sizeof(uint32_t));
    layout_.scratch = device.take(sequences, kSampleScratchBytes);
    layout_.device_bytes = device.bytes;
    Places host;
    (void)host.take(1, sizeof(StepOrder));
    layout_.host_rows = host.take(tokens, sizeof(TextRow));
    layout_.host_map = host.take(sequences, sizeof(uint32_t));
    layout_.host_changes = host.take(sequences, sizeof(StepChange));
    layout_.host_pages = host.take(sequences * sequence_pages_, sizeof(int32_t));
    layout_.host_choices = host.take(sequences, sizeof(StepChoice));
    layout_.host_done = host.take(1, sizeof(uint64_t));
    layout_.host_tokens = host.take(sequences, sizeof(int32_t));
    layout_.host_logits = host.take(sequences * logits_stride_, sizeof(float));
    layout_.host_bell = host.take(1, sizeof(Bell));
    layout_.host_bytes = host.bytes;
}

bool CudaEngine::take(const StepEngineRequest& request, TextReason* reason) noexcept
{
    request_ = request;
    shape_ = request.source->shape();
    sequence_pages_ = (request.sequence_tokens + kKvPageTokens - 1) / kKvPageTokens;
    logits_stride_ = (shape_.vocab + 3) / 4 * 4;
    const uint32_t pages = (request.kv_tokens + kKvPageTokens - 1) / kKvPageTokens;
    if (!check(reason) || !weights_.plan(*request.source, request.sequence_tokens, reason)) {
        return false;
    }
    seen_.reset(new (std::nothrow) uint32_t[request.sequences]());
    if (seen_ == nullptr ||
        !pages_.open({request.sequences, pages, kKvPageTokens, request.sequence_tokens})) {
        (void)text_refuse(reason, 0, "memory", "is not enough for this model");
        return false;
    }
    lay_out();
    host_ = memory_take(layout_.host_bytes);
    if (host_ == nullptr) {
        (void)text_refuse(reason, 0, "memory", "is not enough for this model");
        return false;
    }
    bell_ = new (host_ + layout_.host_bell) Bell();
    return up(reason);
}

bool CudaEngine::up(TextReason* reason) noexcept
{
    const CudaApi& api = calls_.setup();
    TextReason words;
    resets_ = calls_.resets();
    int code = api.open_device();
    code = code != 0 ? code : api.register_host(host_, layout_.host_bytes);
    mapped_ = code == 0;
    void* memory = nullptr;
    code = code != 0 ? code : api.allocate(&memory, layout_.device_bytes);
    device_ = static_cast<uint8_t*>(memory);
    code = code != 0 ? code : weights_.upload(api, request_.workers, device_, &words);
    code = code != 0 ? code : api.stream_open(&stream_);
    code = code != 0 ? code : programs_open();
    if (code == 0 && calls_.resets() != resets_) {
        code = kCudaStale;  // reset by another meanwhile: what was taken first is gone
    }
    if (code != 0) {
        if (code == -1) {
            *reason = words;
        } else {
            std::snprintf(reason->text, sizeof reason->text,
                          "the GPU: %s (%d), with %llu bytes of its memory for this model",
                          calls_.text(code), code,
                          static_cast<unsigned long long>(layout_.device_bytes));
        }
        down();
        return false;
    }
    std::memset(seen_.get(), 0, request_.sequences * sizeof(uint32_t));
    calls_.seal();
    return true;
}

// After a fault every one of these may fail again. A reset has taken memory and mapping with it.
void CudaEngine::down() noexcept
{
    calls_.unseal();
    const CudaApi& api = calls_.setup();
    for (const Body& body : bodies_) {
        for (void* const executor : body.executors) {
            (void)api.program_close(executor);
        }
    }
    for (void* const last : {give_, sample_}) {
        if (last != nullptr) {
            (void)api.program_close(last);
        }
    }
    if (stream_ != nullptr) {
        (void)api.stream_close(stream_);
    }
    const bool reset = calls_.resets() != resets_;
    if (device_ != nullptr && !reset) {
        (void)api.release(device_);
    }
    if (mapped_ && !reset) {
        (void)api.unregister_host(host_);
    }
    bodies_.clear();
    give_ = nullptr;
    sample_ = nullptr;
    stream_ = nullptr;
    device_ = nullptr;
    mapped_ = false;
}

int CudaEngine::programs_open() noexcept
{
    StepBuffers buffers = {};
    buffers.order = on_host<StepOrder>(0);
    buffers.host_rows = on_host<TextRow>(layout_.host_rows);
    buffers.host_map = on_host<uint32_t>(layout_.host_map);
    buffers.host_changes = on_host<StepChange>(layout_.host_changes);
    buffers.host_pages = on_host<int32_t>(layout_.host_pages);
    buffers.host_choices = on_host<StepChoice>(layout_.host_choices);
    buffers.host_done = on_host<uint64_t>(layout_.host_done);
    buffers.host_tokens = on_host<int32_t>(layout_.host_tokens);
    buffers.host_logits = on_host<float>(layout_.host_logits);
    buffers.weights = device_;
    buffers.rows = on_device<TextRow>(layout_.rows);
    buffers.map = on_device<uint32_t>(layout_.map);
    buffers.counts = on_device<uint32_t>(layout_.counts);
    buffers.page_table = on_device<int32_t>(layout_.page_table);
    buffers.residual = on_device<float>(layout_.residual);
    buffers.query = on_device<float>(layout_.query);
    buffers.attended = on_device<float>(layout_.attended);
    buffers.gate = on_device<float>(layout_.gate);
    buffers.logits = on_device<float>(layout_.logits);
    buffers.partial = on_device<float>(layout_.partial);
    buffers.tickets = on_device<uint32_t>(layout_.tickets);
    buffers.scratch = on_device<uint8_t>(layout_.scratch);
    buffers.kv = {on_device<uint16_t>(layout_.kv), buffers.page_table, sequence_pages_,
                  pages_.pages_shape().pages,      shape_.kv_heads,    shape_.head_size};
    buffers.sequence_tokens = request_.sequence_tokens;
    buffers.step_tokens = request_.step_tokens;
    buffers.logits_rows = request_.sequences;
    buffers.logits_stride = logits_stride_;
    buffers.vocab = shape_.vocab;

    const CudaApi& api = calls_.setup();
    const uint32_t tickets = request_.step_tokens * shape_.kv_heads + 1;
    const std::vector<uint32_t> zeros(tickets, 0);
    int code = api.upload(buffers.tickets, zeros.data(), tickets * sizeof(uint32_t));
    StepPrograms programs(api, stream_, shape_, weights_, buffers);
    for (uint32_t i = 0; code == 0 && i < step_widths(request_.step_tokens); i++) {
        bodies_.emplace_back();
        bodies_.back().rows = step_width(request_.step_tokens, i);
        code = programs.open_body(bodies_.back().rows, &bodies_.back().executors);
    }
    code = code != 0 ? code : programs.open_give(&give_);
    return code != 0 ? code : programs.open_sample(&sample_);
}

// Write what this step is to do where the device reads it. Returns the wanted rows.
uint32_t CudaEngine::order(const StepToken* tokens, uint32_t count) noexcept
{
    TextRow* const rows = on_host<TextRow>(layout_.host_rows);
    uint32_t* const map = on_host<uint32_t>(layout_.host_map);
    StepChange* const changes = on_host<StepChange>(layout_.host_changes);
    int32_t* const pages = on_host<int32_t>(layout_.host_pages);
    StepOrder order = {};
    order.count = count;
    order.number = ++number_;
    for (uint32_t i = 0; i < count; i++) {
        const StepToken& token = tokens[i];
        rows[i] = {static_cast<int32_t>(token.token), token.sequence, token.position, 0};
        if (token.logits_row != kNoLogits) {
            AOTX_TEXT_CHECK(token.logits_row == order.wanted);
            map[order.wanted++] = i;
        }
        const uint32_t openings = pages_.openings(token.sequence);
        if (seen_[token.sequence] != openings) {
            seen_[token.sequence] = openings;
            const uint32_t held = pages_.pages_held(token.sequence);
            changes[order.changes++] = {token.sequence, held};
            std::memcpy(pages + uint64_t{token.sequence} * sequence_pages_,
                        pages_.pages(token.sequence), held * sizeof(int32_t));
        }
    }
    *on_host<StepOrder>(0) = order;
    return order.wanted;
}

// Wait for the step's word: spin a little, then have the stream ring the bell behind the step.
int CudaEngine::wait() noexcept
{
    const uint64_t* const done = on_host<uint64_t>(layout_.host_done);
    const uint64_t began_ns = clock_now_ns();
    do {
        if (aotx_word_load(done) == number_) {
            return 0;
        }
        spin_pause();
    } while (clock_now_ns() - began_ns < kSpinNs);
    const int code = calls_.callback(stream_, step_over, bell_);
    return code != 0 ? code : sleep(began_ns + uint64_t{request_.step_ms_max} * 1000000u);
}

// An old step's bell may ring late, so what counts is the word.
int CudaEngine::sleep(uint64_t limit_ns) noexcept
{
    const uint64_t* const done = on_host<uint64_t>(layout_.host_done);
    for (;;) {
        const uint32_t count = bell_->count.load(std::memory_order_acquire);
        if (aotx_word_load(done) == number_) {
            return 0;
        }
        const uint64_t now_ns = clock_now_ns();
        if (now_ns >= limit_ns || calls_.abandoned()) {
            return kCudaTimedOut;
        }
        const int code = calls_.query(stream_);
        if (code != kCudaNotReady) {
            return code;
        }
        const uint64_t look_ns = now_ns + kLookEveryNs;
        bell_sleep(bell_, count, look_ns < limit_ns ? look_ns : limit_ns);
    }
}

int CudaEngine::launch(uint32_t count, void* last) noexcept
{
    uint32_t at = 0;
    while (bodies_[at].rows < count) {
        at++;
    }
    for (void* const executor : bodies_[at].executors) {
        const int code = calls_.launch(executor, stream_);
        if (code != 0) {
            return code;
        }
    }
    const int code = calls_.launch(last, stream_);
    return code != 0 ? code : wait();
}

bool CudaEngine::run(uint32_t count, void* last) noexcept
{
    const int code = launch(count, last);
    if (code != 0) {
        std::fprintf(stderr, "aotx: a step of the text runtime failed on the GPU: %s (%d)\n",
                     calls_.text(code), code);
        if (code == kCudaTimedOut) {
            calls_.abandon();
        }
        return false;
    }
    AOTX_TEXT_CHECK(aotx_word_load(on_host<uint64_t>(layout_.host_done)) == number_);
    return true;
}

bool CudaEngine::step(const StepToken* tokens, uint32_t count) noexcept
{
    AOTX_TEXT_CHECK(count >= 1);
    AOTX_TEXT_CHECK(count <= request_.step_tokens);
    if (stream_ == nullptr || calls_.abandoned()) {
        return false;
    }
    (void)order(tokens, count);
    return run(count, give_);
}

bool CudaEngine::step_sample(const StepToken* tokens, uint32_t count, const StepDraw* draws,
                             int32_t* chosen) noexcept
{
    AOTX_TEXT_CHECK(count >= 1);
    AOTX_TEXT_CHECK(count <= request_.step_tokens);
    if (stream_ == nullptr || calls_.abandoned()) {
        return false;
    }
    const uint32_t wanted = order(tokens, count);
    StepChoice* const choices = on_host<StepChoice>(layout_.host_choices);
    for (uint32_t i = 0; i < wanted; i++) {
        choices[i] = {draws[i].temperature, draws[i].top_p, draws[i].uniform};
    }
    if (!run(count, sample_)) {
        return false;
    }
    std::memcpy(chosen, on_host<int32_t>(layout_.host_tokens), wanted * sizeof(int32_t));
    return true;
}

const float* CudaEngine::logits(uint32_t row) const noexcept
{
    return on_host<float>(layout_.host_logits) + uint64_t{row} * logits_stride_;
}

bool CudaEngine::revive(TextReason* reason) noexcept
{
    if (calls_.abandoned()) {
        (void)text_refuse(reason, 0, "device", "does not answer any more; start the service again");
        return false;
    }
    down();
    const uint64_t before = calls_.resets();
    if (up(reason)) {
        return true;
    }
    // The loop brings a failed GPU back, where the loop runs on one; where it does not, nobody else
    // does. What is not the GPU's fault (no memory is left) is not healed by a reset.
    const CudaApi& api = calls_.setup();
    if (calls_.resets() != before || api.open_device() == 0 || faults_ == kResetsMax) {
        return false;
    }
    faults_++;
    (void)api.reset_device(before);
    return up(reason);
}

}  // namespace aotx
