// Purpose:  the device's side of the loop as the host drives it: bring it up, run a tick, notice a
// fault, bring it back.
// Owns:     the device slab, the stream, the executor.
// Thread:   whoever holds the turn.
// Lifetime: device_up to device_down; again for each restart.
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "cuda_state.h"
#include "cuda_tick_list.h"
#include "trace.h"

namespace aotx {

namespace {

constexpr uint64_t kLookEveryNs = 100000000u;  // a fault rings no bell: look for it this often

template <typename Item>
Item* at(uint8_t* base, uint64_t offset)
{
    return reinterpret_cast<Item*>(base + offset);
}

uint64_t tick_limit_ns(const CudaLoop& loop)
{
    return uint64_t{loop.config.tick_ms_max} * 1000000u;
}

// What lies on the device; the rest is constant and read by the stepper without the turn.
void arguments_fill(CudaLoop* loop)
{
    const CudaPlan& plan = loop->plan;
    TickArgs* const arguments = &loop->arguments;
    arguments->core = at<Core>(loop->device, plan.core_at);
    arguments->packet = at<CorePacket>(loop->device, plan.packet_at);
    arguments->frame = loop->device + plan.frame_at;
    arguments->rows = at<CoreRow>(loop->device, plan.rows_at);
    arguments->counters = at<uint64_t>(loop->device, plan.counters_at);
}

ProgramNode tick_node(const CudaLoop& loop, uint32_t kernel, uint32_t block)
{
    ProgramNode node = {};
    node.kind = kProgramKernel;
    node.kernel = kernel;
    node.grid[0] = node.grid[1] = node.grid[2] = 1;
    node.block = block;
    node.arguments = &loop.arguments;
    node.arguments_bytes = sizeof loop.arguments;
    return node;
}

void program_begin(CudaLoop* loop)
{
    loop->program = {};
    loop->program.condition_handles = &loop->arguments.again;
}

// Run the kernel that fills the tables, through an executor of its own that is closed again.
int tables_build(CudaLoop* loop)
{
    program_begin(loop);
    loop->program.nodes[0] = tick_node(*loop, kTickKernel_tick_build, 32);
    loop->program.nodes_count = 1;
    void* executor = nullptr;
    const CudaApi& api = loop->calls.setup();
    int code = api.program_open(&loop->program, loop->stream, &executor);
    if (code == 0) {
        code = api.launch(executor, loop->stream);
    }
    const uint64_t until_ns = clock_now_ns() + tick_limit_ns(*loop);
    while (code == 0 && (code = api.query(loop->stream)) == kCudaNotReady) {
        code = clock_now_ns() < until_ns ? 0 : kCudaTimedOut;
        spin_pause();
    }
    if (code == kCudaTimedOut) {
        loop->calls.abandon();
        return code;  // closing the executor would wait as well
    }
    if (executor != nullptr) {
        const int closed = api.program_close(executor);
        code = code != 0 ? code : closed;
    }
    return code;
}

// The tick and the loop around it.
int tick_build_program(CudaLoop* loop)
{
    program_begin(loop);
    loop->program.conditions_count = 1;
    loop->program.condition_start[0] = 1;
    ProgramNode* const around = &loop->program.nodes[0];
    around->kind = kProgramWhile;
    around->condition = 0;
    around->body_nodes = 1;
    loop->program.nodes[1] = tick_node(*loop, kTickKernel_tick, kTickThreads);
    loop->program.nodes_count = 2;
    return loop->calls.setup().program_open(&loop->program, loop->stream, &loop->executor);
}

void wait_done(void* wait)
{
    bell_ring(&static_cast<CudaWait*>(wait)->bell);
}

// Wait until the launch has ended: spin a little, then sleep on the callback's bell.
int stream_wait(CudaLoop* loop, uint32_t count)
{
    CudaWait* const wait = &loop->wait;
    const uint64_t limit_ns = clock_now_ns() + tick_limit_ns(*loop);
    const uint64_t until_ns = clock_now_ns() + wait->spin.now_ns;
    while (clock_now_ns() < until_ns) {
        if (wait->bell.count.load(std::memory_order_acquire) != count) {
            spin_paid(&wait->spin);
            return loop->calls.query(loop->stream) == kCudaNotReady
                       ? 0
                       : loop->calls.query(loop->stream);
        }
        spin_pause();
    }
    spin_wasted(&wait->spin);
    while (wait->bell.count.load(std::memory_order_acquire) == count) {
        bell_sleep(&wait->bell, count, clock_now_ns() + kLookEveryNs);
        const int code = loop->calls.query(loop->stream);
        if (code != 0 && code != kCudaNotReady) {
            return code;
        }
        if (clock_now_ns() >= limit_ns) {
            return kCudaTimedOut;
        }
    }
    const int code = loop->calls.query(loop->stream);
    return code == kCudaNotReady ? 0 : code;  // the callback itself may still be on the stream
}

void telemetry_take(CudaLoop* loop)
{
    const TickReport& report = loop->share->report;
    LoopTelemetry* const telemetry = &loop->telemetry;
    pthread_mutex_lock(&loop->told);
    telemetry->steps = report.steps;
    telemetry->operations = report.operations;
    telemetry->requests_completed = report.counters[0];
    telemetry->requests_failed = report.counters[1];
    telemetry->requests_cancelled = report.counters[2];
    telemetry->tokens_prompt = report.counters[3];
    telemetry->tokens_sampled = report.counters[4];
    telemetry->requests_queued = report.queued;
    telemetry->requests_running = report.running;
    pthread_mutex_unlock(&loop->told);
}

// A refusal that the host writes itself, because no device is left to.
void refuse(CudaLoop* loop, uint32_t mailbox)
{
    aotx_mailbox* const box = &loop->mailboxes[mailbox];
    aotx_request_head head = {};
    if (box->length_bytes >= sizeof head) {
        std::memcpy(&head, box->frame, sizeof head);
    }
    aotx_reply_head reply = {};
    reply.magic = AOTX_MAGIC;
    reply.status = AOTX_STATUS_UNAVAILABLE;
    std::memcpy(reply.principal, head.principal, sizeof reply.principal);
    reply.grant_revision = head.grant_revision;
    reply.runtime_epoch = loop->ring->epoch;
    std::memcpy(reply.id, head.id, sizeof reply.id);
    reply.cursor = head.cursor;
    std::memcpy(box->frame, &reply, sizeof reply);
    aotx_mailbox_reply(box, sizeof reply);  // T3
    TickList* const list = &loop->share->replies;
    list->items[list->tail % 1024u] = mailbox;
    aotx_word_store(&list->tail, list->tail + 1u);  // R1
}

// Every mailbox whose turn is the device's is answered, parked watches among them.
void refuse_all(CudaLoop* loop)
{
    TickList* const list = &loop->share->doorbell;
    aotx_word_store(&list->head, aotx_word_load(&list->tail));
    for (uint32_t i = 0; i < loop->config.mailboxes_count; i++) {
        if (aotx_mailbox_take(&loop->mailboxes[i]) != 0) {
            refuse(loop, i);
        }
    }
}

}  // namespace

int device_up(CudaLoop* loop) noexcept
{
    AOTX_TRACE_RANGE("device up", 0);
    const CudaApi& api = loop->calls.setup();
    const CudaPlan& plan = loop->plan;
    CoreLimits limits = plan.common.limits;
    limits.epoch = loop->ring->epoch;
    device_row_make(AOTX_DEVICE_KIND_CUDA, loop->machine.name, "", &limits.device);
    limits.device.restarts = loop->faults;
    void* memory = nullptr;
    loop->resets = loop->calls.resets();
    int code = loop->calls.abandoned() ? kCudaTimedOut : api.open_device();
    code = code != 0 ? code : api.register_host(loop->region, plan.region_bytes);
    code = code != 0 ? code : api.allocate(&memory, plan.device_bytes);
    if (code != 0) {
        return code;
    }
    loop->device = static_cast<uint8_t*>(memory);
    Core core = {};
    core_carve(limits, loop->device + plan.tables_at, &core);
    code = api.upload(loop->device + plan.core_at, &core, sizeof core);
    code = code != 0 ? code : api.stream_open(&loop->stream);
    if (code != 0) {
        return code;
    }
    arguments_fill(loop);
    code = tables_build(loop);
    code = code != 0 ? code : tick_build_program(loop);
    if (code == 0 && loop->calls.resets() != loop->resets) {
        code = kCudaStale;  // reset by another meanwhile: what was taken first is gone
    }
    if (code != 0) {
        return code;
    }
    loop->share->report = {};
    loop->calls.seal();
    loop->serving.store(1, std::memory_order_release);
    return 0;
}

void device_down(CudaLoop* loop, bool reset) noexcept
{
    loop->calls.unseal();
    const CudaApi& api = loop->calls.setup();
    // After a fault every one of these may fail again; the reset behind them takes what is left.
    if (loop->executor != nullptr) {
        (void)api.program_close(loop->executor);
    }
    if (loop->stream != nullptr) {
        (void)api.stream_close(loop->stream);
    }
    const bool gone = loop->calls.resets() != loop->resets;
    if (loop->device != nullptr && !gone) {
        (void)api.release(loop->device);
    }
    if (!gone) {
        (void)api.unregister_host(loop->region);
    }
    loop->executor = nullptr;
    loop->stream = nullptr;
    loop->device = nullptr;
    if (reset) {
        (void)api.reset_device(loop->resets);
    }
}

void device_fault(CudaLoop* loop, int code) noexcept
{
    loop->fault = code;
    loop->faults++;
    loop->activation++;
    loop->serving.store(0, std::memory_order_release);
    std::fprintf(stderr, "aotx: the GPU failed: %s (%d); epoch %llu has ended\n",
                 loop->calls.text(code), code, static_cast<unsigned long long>(loop->ring->epoch));
    if (code == kCudaTimedOut) {
        loop->calls.abandon();
    }
    if (!loop->calls.abandoned()) {
        device_down(loop, true);
    }
    refuse_all(loop);
    pthread_mutex_lock(&loop->told);
    loop->telemetry.requests_queued = 0;
    loop->telemetry.requests_running = 0;
    pthread_mutex_unlock(&loop->told);
    const bool again_may = !loop->calls.abandoned() && loop->config.fresh_epoch != nullptr &&
                           loop->faults <= kRestartsMax;
    const uint64_t epoch =
        again_may ? loop->config.fresh_epoch(loop->config.fresh_epoch_context) : 0;
    if (epoch != 0) {
        aotx_word_store(&loop->ring->epoch, epoch);
        const int again = device_up(loop);
        if (again == 0) {
            std::fprintf(stderr, "aotx: the GPU is back, restart %u of %u\n", loop->faults,
                         kRestartsMax);
            return;
        }
        std::fprintf(stderr, "aotx: the GPU does not come back: %s (%d)\n", loop->calls.text(again),
                     again);
        if (!loop->calls.abandoned()) {
            device_down(loop, true);
        }
    }
    std::fprintf(stderr, "aotx: the GPU stays down; the service refuses until it is restarted\n");
    aotx_word_store(&loop->ring->closed, 1);
}

bool tick_run(CudaLoop* loop, uint32_t plan_model, uint32_t results_model,
              bool step_failed) noexcept
{
    if (loop->serving.load(std::memory_order_acquire) == 0) {
        refuse_all(loop);
        return false;
    }
    AOTX_TRACE_RANGE(plan_model == kCoreNone ? "tick" : "tick and plan", loop->launches);
    TickCommand* const command = &loop->share->command;
    command->now_ns = clock_now_ns();
    command->close = loop->stopping.load(std::memory_order_acquire);
    command->plan_model = plan_model;
    command->results_model = results_model;
    command->step_failed = step_failed ? 1u : 0u;
    loop->launches++;
    const uint32_t count = loop->wait.bell.count.load(std::memory_order_acquire);
    // A step of a model that never ended has taken the device from the loop as well.
    int code =
        loop->calls.abandoned() ? kCudaTimedOut : loop->calls.launch(loop->executor, loop->stream);
    code = code != 0 ? code : loop->calls.callback(loop->stream, wait_done, &loop->wait);
    code = code != 0 ? code : stream_wait(loop, count);
    if (code != 0) {
        device_fault(loop, code);
        return false;
    }
    telemetry_take(loop);
    return true;
}

}  // namespace aotx
