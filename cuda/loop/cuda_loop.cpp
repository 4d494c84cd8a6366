// Purpose:  the face of the CUDA backend: plan, budget, open, start, stop, close, doorbell,
// replies.
// Owns:     the registered host region, the loop's own memory, the device slab.
// Thread:   as loop.h tags each function.
// Lifetime: loop_open to loop_close.
#include "loop.h"

#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <cstring>
#include <new>

#include "cuda_backend.h"
#include "cuda_state.h"

namespace aotx {

namespace {

constexpr uint64_t kMessagesBytes = AOTX_SUBMIT_MESSAGES_MAX * sizeof(aotx_text_message);
constexpr uint64_t kPartsBytes =
    AOTX_SUBMIT_MESSAGES_MAX * AOTX_SUBMIT_PARTS_MAX * sizeof(aotx_text_part);

uint64_t place(uint64_t* total, uint64_t bytes)
{
    const uint64_t at = *total;
    *total = (at + bytes + 255u) / 256u * 256u;
    return at;
}

uint32_t plain_count(const LoopConfig& config, const CudaPlan& plan)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < config.models_count; i++) {
        count += plan.common.engines[i].batched == nullptr ? 1u : 0u;
    }
    return count;
}

void device_plan(CudaPlan* plan)
{
    core_layout(plan->common.limits, &plan->core);
    plan->core_at = place(&plan->device_bytes, sizeof(Core));
    plan->packet_at = place(&plan->device_bytes, sizeof(CorePacket));
    plan->frame_at = place(&plan->device_bytes, AOTX_PACKET_BYTES_MAX);
    plan->rows_at = place(&plan->device_bytes, kCoreSlotsMax * sizeof(CoreRow));
    plan->counters_at = place(&plan->device_bytes, 2u * sizeof(uint64_t));
    plan->tables_at = place(&plan->device_bytes, plan->core.total_bytes);
}

void region_plan(const LoopConfig& config, CudaPlan* plan)
{
    uint64_t tokens = 0;
    uint64_t steps = 0;
    uint64_t slots = 0;
    for (uint32_t i = 0; i < config.models_count; i++) {
        const CoreModel& model = plan->common.limits.models[i];
        tokens = model.sequence_tokens_max > tokens ? model.sequence_tokens_max : tokens;
        steps = model.step_tokens_max > steps ? model.step_tokens_max : steps;
        slots += model.slots_count;
    }
    (void)place(&plan->region_bytes, sizeof(HostShare));
    plan->ring_at = place(&plan->region_bytes, sizeof(aotx_ring_head));
    plan->mailboxes_at = place(&plan->region_bytes, config.mailboxes_count * sizeof(aotx_mailbox));
    plan->payload_at = place(&plan->region_bytes, config.prompt_bytes_max);
    plan->tokens_at = place(&plan->region_bytes, tokens * sizeof(int32_t));
    plan->steps_at = place(&plan->region_bytes, steps * sizeof(int32_t));
    plan->slots_at = place(&plan->region_bytes, slots * sizeof(CoreSlot));
    plan->bytes_at = place(&plan->region_bytes, uint64_t{kCoreSlotsMax} * kTickTokenBytesMax);
    plan->text_bytes = config.output_bytes_max;
    plan->texts_at =
        place(&plan->region_bytes, uint64_t{plain_count(config, *plan)} * plan->text_bytes);
}

int cuda_plan(const LoopConfig& config, CudaPlan* plan, const char** reason)
{
    *plan = {};
    const int status = limits_plan(config, &plan->common, reason);
    if (status != AOTX_OK) {
        return status;
    }
    for (uint32_t i = 0; i < config.models_count; i++) {
        const aotx_text_runtime_v1* const table = plan->common.engines[i].batched;
        if (table != nullptr && table->properties->token_bytes_max > kTickTokenBytesMax) {
            *reason = "a model has tokens of more than 4096 bytes";
            return AOTX_ERR_RANGE;
        }
    }
    device_plan(plan);
    region_plan(config, plan);
    (void)place(&plan->own_bytes, sizeof(CudaLoop));
    plan->messages_at = place(&plan->own_bytes, kMessagesBytes);
    plan->parts_at = place(&plan->own_bytes, kPartsBytes);
    plan->text_rows_at = place(&plan->own_bytes, kCoreSlotsMax * sizeof(aotx_text_row));
    plan->sample_at = place(&plan->own_bytes, sizeof(SampleScratch));
    plan->transcript_bytes = config.prompt_bytes_max + kTranscriptExtraBytes;
    plan->transcripts_at =
        place(&plan->own_bytes, uint64_t{plain_count(config, *plan)} * plan->transcript_bytes);
    plan->common.limits.service_allocation_bytes =
        plan->device_bytes + plan->region_bytes + plan->own_bytes + plan->common.runtime_bytes;
    return AOTX_OK;
}

void budget_line(LoopBudget* budget, const char* name, uint64_t bytes)
{
    AOTX_CORE_CHECK(budget->lines_count < kLoopBudgetLinesMax);
    budget->lines[budget->lines_count] = {name, bytes};
    budget->lines_count++;
    budget->total_bytes += bytes;
}

int budget(const LoopConfig& config, LoopBudget* out, const char** reason)
{
    CudaPlan plan;
    const int status = cuda_plan(config, &plan, reason);
    if (status != AOTX_OK) {
        return status;
    }
    *out = {};
    budget_line(out, "loop", plan.own_bytes);
    budget_line(out, "mailboxes and shared words (pinned)", plan.region_bytes);
    budget_line(out, "packet arrival (device)", plan.tables_at);
    for (const CoreTable& table : plan.core.tables) {
        budget_line(out, table.name, table.bytes);
    }
    budget_line(out, "model runtimes", plan.common.runtime_bytes);
    budget_line(out, "alignment", plan.common.limits.service_allocation_bytes - out->total_bytes);
    return AOTX_OK;
}

void* take_memory(uint64_t bytes)
{
    void* const map =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return map == MAP_FAILED ? nullptr : map;
}

void engines_carve(CudaLoop* loop)
{
    uint8_t* transcript = loop->own + loop->plan.transcripts_at;
    uint8_t* text = loop->region + loop->plan.texts_at;
    for (uint32_t i = 0; i < loop->config.models_count; i++) {
        loop->engines[i] = loop->plan.common.engines[i];
        if (loop->engines[i].batched != nullptr) {
            continue;
        }
        PlainEngine* const plain = &loop->engines[i].plain;
        plain->transcript = transcript;
        plain->transcript_bytes_max = loop->plan.transcript_bytes;
        plain->text = text;  // in the region, so that the device reads an answer where it lies
        plain->text_bytes_max = loop->plan.text_bytes;
        transcript += loop->plan.transcript_bytes;
        text += loop->plan.text_bytes;
    }
}

void loop_carve(CudaLoop* loop, const LoopConfig& config, const CudaPlan& plan, void* region)
{
    loop->config = config;
    loop->plan = plan;
    loop->own = reinterpret_cast<uint8_t*>(loop);
    loop->region = static_cast<uint8_t*>(region);
    loop->share = new (region) HostShare{};
    loop->ring = reinterpret_cast<aotx_ring_head*>(loop->region + plan.ring_at);
    loop->mailboxes = reinterpret_cast<aotx_mailbox*>(loop->region + plan.mailboxes_at);
    loop->messages = reinterpret_cast<aotx_text_message*>(loop->own + plan.messages_at);
    loop->parts = reinterpret_cast<aotx_text_part*>(loop->own + plan.parts_at);
    loop->text_rows = reinterpret_cast<aotx_text_row*>(loop->own + plan.text_rows_at);
    TickArgs* const arguments = &loop->arguments;
    arguments->host = loop->share;
    arguments->ring = loop->ring;
    arguments->mailboxes = loop->mailboxes;
    arguments->render_payload = loop->region + plan.payload_at;
    arguments->render_tokens = reinterpret_cast<int32_t*>(loop->region + plan.tokens_at);
    arguments->step_tokens = reinterpret_cast<int32_t*>(loop->region + plan.steps_at);
    arguments->slots = reinterpret_cast<CoreSlot*>(loop->region + plan.slots_at);
    loop->sample = reinterpret_cast<SampleScratch*>(loop->own + plan.sample_at);
    loop->spin.max_ns = uint64_t{config.spin_us} * 1000u;
    loop->spin.now_ns = loop->spin.max_ns;
    loop->wait.spin.max_ns = 20000;
    loop->wait.spin.now_ns = 20000;
    loop->ring->schema = AOTX_RING_SCHEMA;
    loop->ring->channels = config.mailboxes_count;
    loop->ring->frame_bytes = AOTX_PACKET_BYTES_MAX;
    loop->ring->epoch = config.epoch;
    pthread_mutex_init(&loop->turn, nullptr);
    pthread_mutex_init(&loop->told, nullptr);
    engines_carve(loop);
}

// Every table's Loop is the backend's own type behind one name.
CudaLoop* cuda_of(Loop* face)
{
    return reinterpret_cast<CudaLoop*>(face);
}

const CudaLoop* cuda_of(const Loop* face)
{
    return reinterpret_cast<const CudaLoop*>(face);
}

int open_failed(CudaLoop* loop, void* own, const CudaPlan& plan, void* region, int reply_fd)
{
    if (loop != nullptr) {
        pthread_mutex_destroy(&loop->turn);
        pthread_mutex_destroy(&loop->told);
    }
    if (own != nullptr) {
        munmap(own, plan.own_bytes);
    }
    if (region != nullptr) {
        munmap(region, plan.region_bytes);
    }
    if (reply_fd >= 0) {
        close(reply_fd);
    }
    return AOTX_ERR_SYSTEM;
}

int open(const LoopConfig& config, Loop** loop, const char** reason)
{
    CudaPlan plan;
    cuda_loading_choose();
    const int status = cuda_plan(config, &plan, reason);
    if (status != AOTX_OK) {
        return status;
    }
    uint64_t* const key = plan.common.limits.hash_key;
    const int reply_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    void* const own = take_memory(plan.own_bytes);
    void* const region = take_memory(plan.region_bytes);
    if (reply_fd < 0 || own == nullptr || region == nullptr ||
        getrandom(key, sizeof plan.common.limits.hash_key, 0) !=
            static_cast<ssize_t>(sizeof plan.common.limits.hash_key)) {
        *reason = "the system gave no memory, eventfd or random bytes for the loop";
        return open_failed(nullptr, own, plan, region, reply_fd);
    }
    CudaLoop* const made = new (own) CudaLoop(cuda_backend_api());
    made->backend = cuda_backend_table();
    made->broker_bell.fd = reply_fd;
    made->calls.setup().probe(&made->machine);
    loop_carve(made, config, plan, region);
    const int code = device_up(made);
    if (code != 0) {
        *reason = made->calls.text(code);
        if (code == kCudaTimedOut) {
            close(reply_fd);
            return AOTX_ERR_SYSTEM;  // as in loop_end: what hangs keeps its memory
        }
        device_down(made, false);  // a model may be on the device already, and well
        return open_failed(made, own, plan, region, reply_fd);
    }
    *loop = reinterpret_cast<Loop*>(made);
    return AOTX_OK;
}

int start(Loop* face)
{
    CudaLoop* const loop = cuda_of(face);
    AOTX_CORE_CHECK(loop->started == 0);
    if (pthread_create(&loop->operator_thread, nullptr, gpu_operator_main, loop) != 0) {
        return AOTX_ERR_SYSTEM;
    }
    if (pthread_create(&loop->stepper_thread, nullptr, gpu_stepper_main, loop) != 0) {
        loop->stopping.store(1, std::memory_order_release);
        bell_ring(&loop->operator_bell);
        pthread_join(loop->operator_thread, nullptr);
        return AOTX_ERR_SYSTEM;
    }
    pthread_setname_np(loop->operator_thread, "aotx-operator");
    pthread_setname_np(loop->stepper_thread, "aotx-stepper");
    loop->started = 1;
    return AOTX_OK;
}

void stop(Loop* face)
{
    CudaLoop* const loop = cuda_of(face);
    AOTX_CORE_CHECK(loop->started == 1);
    aotx_word_store(&loop->ring->closed, 1);
    loop->stopping.store(1, std::memory_order_seq_cst);
    bell_ring(&loop->operator_bell);
    bell_ring(&loop->stepper_bell);
    pthread_join(loop->operator_thread, nullptr);
    pthread_join(loop->stepper_thread, nullptr);
    loop->started = 2;
}

void loop_end(Loop* face)
{
    CudaLoop* const loop = cuda_of(face);
    AOTX_CORE_CHECK(loop->started != 1);
    if (loop->calls.abandoned()) {
        close(loop->broker_bell.fd);
        return;  // the device may still write to the region and ring the bell: both stay
    }
    device_down(loop, false);
    const CudaPlan plan = loop->plan;
    void* const own = loop->own;
    (void)open_failed(loop, own, plan, loop->region, loop->broker_bell.fd);
}

aotx_ring_head* ring(Loop* face)
{
    CudaLoop* const loop = cuda_of(face);
    return loop->ring;
}

aotx_mailbox* mailbox(Loop* face, uint32_t index)
{
    CudaLoop* const loop = cuda_of(face);
    AOTX_CORE_CHECK(index < loop->config.mailboxes_count);
    return &loop->mailboxes[index];
}

void ring_doorbell(Loop* face, const uint32_t* mailbox_indices, uint32_t count)
{
    CudaLoop* const loop = cuda_of(face);
    TickList* const list = &loop->share->doorbell;
    uint64_t tail = list->tail;  // the broker is its only writer
    for (uint32_t i = 0; i < count; i++) {
        AOTX_CORE_CHECK(mailbox_indices[i] < loop->config.mailboxes_count);
        list->items[tail % 1024u] = mailbox_indices[i];
        tail++;
    }
    aotx_word_store(&list->tail, tail);  // D1
    // P1, broker side: the list is written, now look whether the operator sleeps.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (loop->operator_parked.load(std::memory_order_relaxed) != 0) {
        bell_ring(&loop->operator_bell);
    }
}

uint32_t take_replies(Loop* face, uint32_t* mailbox_indices, uint32_t capacity)
{
    CudaLoop* const loop = cuda_of(face);
    TickList* const list = &loop->share->replies;
    uint64_t head = list->head;
    const uint64_t tail = aotx_word_load(&list->tail);  // R2
    uint32_t count = 0;
    while (head != tail && count < capacity) {
        mailbox_indices[count] = list->items[head % 1024u];
        count++;
        head++;
    }
    list->head = head;
    return count;
}

int reply_fd(const Loop* face)
{
    const CudaLoop* const loop = cuda_of(face);
    return loop->broker_bell.fd;
}

bool broker_park(Loop* face)
{
    CudaLoop* const loop = cuda_of(face);
    broker_bell_park(&loop->broker_bell);
    if (aotx_word_load(&loop->share->replies.tail) == loop->share->replies.head) {
        return true;
    }
    broker_bell_leave(&loop->broker_bell);
    return false;
}

void broker_awake(Loop* face)
{
    CudaLoop* const loop = cuda_of(face);
    broker_bell_leave(&loop->broker_bell);
}

void telemetry(const Loop* face, LoopTelemetry* out)
{
    const CudaLoop* const loop = cuda_of(face);
    pthread_mutex_lock(&loop->told);
    *out = loop->telemetry;
    pthread_mutex_unlock(&loop->told);
}

bool serving(const Loop* face)
{
    const CudaLoop* const loop = cuda_of(face);
    return loop->serving.load(std::memory_order_acquire) != 0;
}

constexpr LoopBackend kTable = {kLoopBackendVersion,
                                0,
                                "cuda",
                                budget,
                                open,
                                start,
                                stop,
                                loop_end,
                                ring,
                                mailbox,
                                ring_doorbell,
                                take_replies,
                                reply_fd,
                                broker_park,
                                broker_awake,
                                telemetry,
                                serving};

}  // namespace

const LoopBackend* cuda_backend_table() noexcept
{
    return &kTable;
}

}  // namespace aotx
