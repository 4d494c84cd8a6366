// Purpose:  the face of the CPU backend: budget, open, start, stop, close, doorbell, replies.
// Owns:     the slab and everything carved from it.
// Thread:   as loop.h tags each function.
// Lifetime: loop_open to loop_close.
#include "loop.h"

#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <new>

#include "loop_backend.h"
#include "loop_state.h"
#include "plan.h"

namespace aotx {

namespace {

// Where each part of the loop lies in the slab.
enum SlabPart {
    kPartLoop = 0,
    kPartRing,
    kPartLists,
    kPartPacket,
    kPartRender,
    kPartStep,
    kPartPlain,
    kPartCore,
    kPartsCount
};

struct SlabPlan {
    uint64_t offset_bytes[kPartsCount];
    uint64_t bytes[kPartsCount];
    uint64_t total_bytes;
    CoreLimits limits;
    CoreLayout core;
    TextEngine engines[kLoopModelsMax];
    uint64_t runtime_bytes;
};

void part_place(SlabPlan* plan, SlabPart part, uint64_t bytes)
{
    plan->offset_bytes[part] = plan->total_bytes;
    plan->bytes[part] = bytes;
    plan->total_bytes = (plan->total_bytes + bytes + 63u) / 64u * 64u;
}

uint32_t list_items(const LoopConfig& config)
{
    uint32_t items = 1;
    while (items < config.mailboxes_count) {
        items *= 2u;
    }
    return items;
}

// Bytes of transcript and text that one plain runtime is lent.
uint32_t transcript_bytes(const LoopConfig& config)
{
    return config.prompt_bytes_max + kTranscriptExtraBytes;
}

uint64_t plain_bytes(const LoopConfig& config, const SlabPlan& plan)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < config.models_count; i++) {
        if (plan.engines[i].batched == nullptr) {
            bytes += transcript_bytes(config) + config.output_bytes_max;
        }
    }
    return bytes;
}

constexpr uint64_t kRenderBytes =
    AOTX_SUBMIT_MESSAGES_MAX * sizeof(aotx_text_message) +
    AOTX_SUBMIT_MESSAGES_MAX * AOTX_SUBMIT_PARTS_MAX * sizeof(aotx_text_part);
constexpr uint64_t kStepBytes =
    kCoreSlotsMax * (sizeof(CoreRow) + sizeof(CoreToken) + sizeof(aotx_text_row)) +
    sizeof(SampleScratch) + 256u;

// Everything about the slab, from the configuration and the runtimes' properties alone.
int slab_plan(const LoopConfig& config, SlabPlan* plan, const char** reason)
{
    *plan = {};
    LimitsPlan common;
    const int planned = limits_plan(config, &common, reason);
    if (planned != AOTX_OK) {
        return planned;
    }
    plan->limits = common.limits;
    std::memcpy(plan->engines, common.engines, sizeof plan->engines);
    plan->runtime_bytes = common.runtime_bytes;
    core_layout(plan->limits, &plan->core);
    part_place(plan, kPartLoop, sizeof(Loop));
    part_place(plan, kPartRing,
               sizeof(aotx_ring_head) + config.mailboxes_count * sizeof(aotx_mailbox));
    part_place(plan, kPartLists, 2u * list_items(config) * sizeof(uint32_t));
    part_place(plan, kPartPacket, sizeof(CorePacket));
    part_place(plan, kPartRender, kRenderBytes);
    part_place(plan, kPartStep, kStepBytes);
    part_place(plan, kPartPlain, plain_bytes(config, *plan));
    part_place(plan, kPartCore, plan->core.total_bytes);
    plan->limits.service_allocation_bytes = plan->total_bytes + plan->runtime_bytes;
    return AOTX_OK;
}

void budget_line(LoopBudget* budget, const char* name, uint64_t bytes)
{
    AOTX_CORE_CHECK(budget->lines_count < kLoopBudgetLinesMax);
    budget->lines[budget->lines_count] = {name, bytes};
    budget->lines_count++;
    budget->total_bytes += bytes;
}

// Hands out aligned pieces of one part.
struct Carver {
    uint8_t* at;
    uint8_t* end;
};

template <typename Item>
Item* carve(Carver* carver, uint64_t count)
{
    Item* const items = reinterpret_cast<Item*>(carver->at);
    carver->at += (count * sizeof(Item) + 15u) / 16u * 16u;
    AOTX_CORE_CHECK(carver->at <= carver->end);
    return items;
}

void list_carve(IndexList* list, uint32_t* items, uint32_t items_count)
{
    list->items = items;
    list->mask = items_count - 1u;
    list->tail.store(0, std::memory_order_relaxed);
    list->head.store(0, std::memory_order_relaxed);
}

void ring_build(Loop* loop, const LoopConfig& config)
{
    loop->ring->schema = AOTX_RING_SCHEMA;
    loop->ring->channels = config.mailboxes_count;
    loop->ring->frame_bytes = AOTX_PACKET_BYTES_MAX;
    loop->ring->epoch = config.epoch;
}

void stepper_carve(Loop* loop, const SlabPlan& plan)
{
    uint8_t* const render = loop->slab + plan.offset_bytes[kPartRender];
    Carver carver = {render, render + plan.bytes[kPartRender]};
    loop->messages = carve<aotx_text_message>(&carver, AOTX_SUBMIT_MESSAGES_MAX);
    loop->parts = carve<aotx_text_part>(&carver, AOTX_SUBMIT_MESSAGES_MAX * AOTX_SUBMIT_PARTS_MAX);
    uint8_t* const step = loop->slab + plan.offset_bytes[kPartStep];
    carver = {step, step + plan.bytes[kPartStep]};
    loop->rows = carve<CoreRow>(&carver, kCoreSlotsMax);
    loop->tokens = carve<CoreToken>(&carver, kCoreSlotsMax);
    loop->text_rows = carve<aotx_text_row>(&carver, kCoreSlotsMax);
    loop->sample = carve<SampleScratch>(&carver, 1);
}

void engines_carve(Loop* loop, const LoopConfig& config, const SlabPlan& plan)
{
    uint8_t* at = loop->slab + plan.offset_bytes[kPartPlain];
    loop->models_count = config.models_count;
    for (uint32_t i = 0; i < config.models_count; i++) {
        loop->engines[i].text = plan.engines[i];
        PlainEngine* const plain = &loop->engines[i].text.plain;
        if (plan.engines[i].batched != nullptr) {
            continue;
        }
        plain->transcript = at;
        plain->transcript_bytes_max = transcript_bytes(config);
        at += plain->transcript_bytes_max;
        plain->text = at;
        plain->text_bytes_max = config.output_bytes_max;
        at += plain->text_bytes_max;
    }
}

void loop_build(Loop* loop, const LoopConfig& config, SlabPlan* plan)
{
    uint8_t* const slab = loop->slab;
    loop->slab_bytes = plan->total_bytes;
    loop->seed = config.seed;
    loop->mailboxes_count = config.mailboxes_count;
    uint8_t* const ring = slab + plan->offset_bytes[kPartRing];
    loop->ring = reinterpret_cast<aotx_ring_head*>(ring);
    loop->mailboxes = reinterpret_cast<aotx_mailbox*>(ring + sizeof(aotx_ring_head));
    ring_build(loop, config);
    uint32_t* const lists = reinterpret_cast<uint32_t*>(slab + plan->offset_bytes[kPartLists]);
    const uint32_t items = list_items(config);
    list_carve(&loop->doorbell, lists, items);
    list_carve(&loop->replies, lists + items, items);
    loop->packet = reinterpret_cast<CorePacket*>(slab + plan->offset_bytes[kPartPacket]);
    loop->spin.max_ns = config.spin_us * 1000u;
    loop->spin.now_ns = loop->spin.max_ns;
    stepper_carve(loop, *plan);
    engines_carve(loop, config, *plan);
    core_carve(plan->limits, slab + plan->offset_bytes[kPartCore], &loop->core);
    core_build(&loop->core);
}

// The processor as the kernel names it; name stays as it is where the kernel does not say.
void cpu_name(char* name, size_t name_bytes)
{
    std::FILE* const file = std::fopen("/proc/cpuinfo", "re");
    if (file == nullptr) {
        return;
    }
    char line[256] = {};
    while (std::fgets(line, sizeof line, file) != nullptr) {
        const char* const colon = std::strchr(line, ':');
        if (std::strncmp(line, "model name", 10) == 0 && colon != nullptr) {
            const char* const value = colon + 1 + std::strspn(colon + 1, " \t");
            std::snprintf(name, name_bytes, "%.*s", static_cast<int>(std::strcspn(value, "\n")),
                          value);
            break;
        }
    }
    std::fclose(file);
}

}  // namespace

int loop_budget(const LoopConfig& config, LoopBudget* budget, const char** reason) noexcept
{
    if (config.backend != nullptr) {
        return config.backend->budget(config, budget, reason);
    }
    SlabPlan plan;
    const int status = slab_plan(config, &plan, reason);
    if (status != AOTX_OK) {
        return status;
    }

    *budget = {};
    budget_line(budget, "loop", plan.bytes[kPartLoop]);
    budget_line(budget, "mailboxes", plan.bytes[kPartRing]);
    budget_line(budget, "doorbell and reply lists", plan.bytes[kPartLists]);
    budget_line(budget, "packet arrival", plan.bytes[kPartPacket]);
    budget_line(budget, "render scratch", plan.bytes[kPartRender]);
    budget_line(budget, "step scratch", plan.bytes[kPartStep]);
    budget_line(budget, "plain runtimes", plan.bytes[kPartPlain]);
    for (const CoreTable& table : plan.core.tables) {
        budget_line(budget, table.name, table.bytes);
    }
    budget_line(budget, "model runtimes", plan.runtime_bytes);
    budget_line(budget, "alignment", plan.total_bytes + plan.runtime_bytes - budget->total_bytes);
    return AOTX_OK;
}

int loop_open(const LoopConfig& config, Loop** loop, const char** reason) noexcept
{
    if (config.backend != nullptr) {
        return config.backend->open(config, loop, reason);
    }
    SlabPlan plan;
    const int status = slab_plan(config, &plan, reason);
    if (status != AOTX_OK) {
        return status;
    }
    char name[sizeof(aotx_device_row::name)] = "CPU";
    cpu_name(name, sizeof name);
    device_row_make(AOTX_DEVICE_KIND_CPU, name, config.cpu_reason, &plan.limits.device);
    if (getrandom(plan.limits.hash_key, sizeof plan.limits.hash_key, 0) !=
        static_cast<ssize_t>(sizeof plan.limits.hash_key)) {
        *reason = "the system gave no random bytes";
        return AOTX_ERR_SYSTEM;
    }
    const int reply_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (reply_fd < 0) {
        *reason = "the system gave no eventfd";
        return AOTX_ERR_SYSTEM;
    }
    void* const map =
        mmap(nullptr, plan.total_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) {
        close(reply_fd);
        *reason = "the system gave no memory for the slab";
        return AOTX_ERR_SYSTEM;
    }

    Loop* const made = new (map) Loop{};
    made->slab = static_cast<uint8_t*>(map);
    made->broker_bell.fd = reply_fd;
    pthread_mutex_init(&made->turn, nullptr);
    pthread_mutex_init(&made->operating, nullptr);
    loop_build(made, config, &plan);
    *loop = made;
    return AOTX_OK;
}

int loop_start(Loop* loop) noexcept
{
    if (loop->backend != nullptr) {
        return loop->backend->start(loop);
    }
    AOTX_CORE_CHECK(loop->started == 0);
    if (pthread_create(&loop->operator_thread, nullptr, operator_main, loop) != 0) {
        return AOTX_ERR_SYSTEM;
    }
    if (pthread_create(&loop->stepper_thread, nullptr, stepper_main, loop) != 0) {
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

void loop_stop(Loop* loop) noexcept
{
    if (loop->backend != nullptr) {
        loop->backend->stop(loop);
        return;
    }
    AOTX_CORE_CHECK(loop->started == 1);
    aotx_word_store(&loop->ring->closed, 1);
    turn_take(loop);
    core_close(&loop->core);
    loop->stopping.store(1, std::memory_order_seq_cst);
    turn_give(loop, false);
    bell_ring(&loop->operator_bell);
    bell_ring(&loop->stepper_bell);
    pthread_join(loop->operator_thread, nullptr);
    pthread_join(loop->stepper_thread, nullptr);
    loop->started = 2;
}

void loop_close(Loop* loop) noexcept
{
    if (loop->backend != nullptr) {
        loop->backend->close(loop);
        return;
    }
    AOTX_CORE_CHECK(loop->started != 1);
    pthread_mutex_destroy(&loop->turn);
    pthread_mutex_destroy(&loop->operating);
    close(loop->broker_bell.fd);
    const uint64_t slab_bytes = loop->slab_bytes;
    munmap(loop->slab, slab_bytes);
}

aotx_ring_head* loop_ring(Loop* loop) noexcept
{
    if (loop->backend != nullptr) {
        return loop->backend->ring(loop);
    }
    return loop->ring;
}

aotx_mailbox* loop_mailbox(Loop* loop, uint32_t index) noexcept
{
    if (loop->backend != nullptr) {
        return loop->backend->mailbox(loop, index);
    }
    AOTX_CORE_CHECK(index < loop->mailboxes_count);
    return &loop->mailboxes[index];
}

void loop_ring_doorbell(Loop* loop, const uint32_t* mailbox_indices, uint32_t count) noexcept
{
    if (loop->backend != nullptr) {
        loop->backend->ring_doorbell(loop, mailbox_indices, count);
        return;
    }
    IndexList* const list = &loop->doorbell;
    uint32_t tail = list->tail.load(std::memory_order_relaxed);
    for (uint32_t i = 0; i < count; i++) {
        AOTX_CORE_CHECK(mailbox_indices[i] < loop->mailboxes_count);
        list->items[tail & list->mask] = mailbox_indices[i];
        tail++;
    }
    list->tail.store(tail, std::memory_order_release);  // D1
    if (operator_help(loop)) {
        return;
    }
    // P1, broker side: the list is written, now look whether the operator sleeps.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (loop->operator_parked.load(std::memory_order_relaxed) != 0) {
        bell_ring(&loop->operator_bell);
    }
}

uint32_t loop_take_replies(Loop* loop, uint32_t* mailbox_indices, uint32_t capacity) noexcept
{
    if (loop->backend != nullptr) {
        return loop->backend->take_replies(loop, mailbox_indices, capacity);
    }
    IndexList* const list = &loop->replies;
    uint32_t head = list->head.load(std::memory_order_relaxed);
    const uint32_t tail = list->tail.load(std::memory_order_acquire);  // R2
    uint32_t count = 0;
    while (head != tail && count < capacity) {
        mailbox_indices[count] = list->items[head & list->mask];
        count++;
        head++;
    }
    list->head.store(head, std::memory_order_relaxed);
    return count;
}

int loop_reply_fd(const Loop* loop) noexcept
{
    if (loop->backend != nullptr) {
        return loop->backend->reply_fd(loop);
    }
    return loop->broker_bell.fd;
}

bool loop_broker_park(Loop* loop) noexcept
{
    if (loop->backend != nullptr) {
        return loop->backend->broker_park(loop);
    }
    broker_bell_park(&loop->broker_bell);
    const uint32_t tail = loop->replies.tail.load(std::memory_order_acquire);
    if (tail == loop->replies.head.load(std::memory_order_relaxed)) {
        return true;
    }
    broker_bell_leave(&loop->broker_bell);
    return false;
}

void loop_broker_awake(Loop* loop) noexcept
{
    if (loop->backend != nullptr) {
        loop->backend->broker_awake(loop);
        return;
    }
    broker_bell_leave(&loop->broker_bell);
}

void loop_telemetry(const Loop* loop, LoopTelemetry* telemetry) noexcept
{
    if (loop->backend != nullptr) {
        loop->backend->telemetry(loop, telemetry);
        return;
    }
    pthread_mutex_lock(&loop->turn);
    const CoreState& state = *loop->core.state;
    telemetry->steps = state.tick;
    telemetry->operations = loop->operations;
    telemetry->tokens_prompt = state.prompt_tokens_count;
    telemetry->tokens_sampled = state.sampled_tokens_count;
    telemetry->requests_queued = state.queued_count;
    telemetry->requests_running = state.running_count;
    telemetry->requests_completed = state.completed_count;
    telemetry->requests_failed = state.failed_count;
    telemetry->requests_cancelled = state.cancelled_count;
    pthread_mutex_unlock(&loop->turn);
}

bool loop_serving(const Loop* loop) noexcept
{
    return loop->backend == nullptr || loop->backend->serving(loop);
}

const char* loop_device(const Loop* loop) noexcept
{
    return loop->backend == nullptr ? "cpu" : loop->backend->name;
}

}  // namespace aotx
