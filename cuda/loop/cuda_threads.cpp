// Purpose:  the two threads of the CUDA backend: the operator launches ticks for packets and
// deadlines, the stepper runs the verbs that a tick names and launches the next.
// Owns:     nothing of their own.
// Thread:   operator and stepper.
// Lifetime: loop_start to loop_stop.
#include <unistd.h>

#include <cstring>

#include "cuda_state.h"
#include "trace.h"

namespace aotx {

void turn_take(CudaLoop* loop) noexcept
{
    pthread_mutex_lock(&loop->turn);
}

void turn_give(CudaLoop* loop) noexcept
{
    bool ring = false;
    const uint64_t replies = aotx_word_load(&loop->share->replies.tail);
    if (replies != loop->replies_seen) {
        loop->replies_seen = replies;
        ring = broker_bell_due(&loop->broker_bell);
    }
    pthread_mutex_unlock(&loop->turn);
    if (ring) {
        broker_bell_ring(loop->broker_bell);
    }
}

namespace {

// ---- operator ----

// One tick. Returns the next deadline, 0 when there is more to do at once.
uint64_t operator_tick(CudaLoop* loop)
{
    turn_take(loop);
    const bool done = tick_run(loop, kCoreNone, kCoreNone, false);
    const TickReport& report = loop->share->report;
    const uint64_t deadline_ns = !done                     ? UINT64_MAX
                                 : report.posted_left != 0 ? 0
                                                           : report.deadline_ns;
    const bool wake = loop->stepper_parked != 0 && done && report.work != 0;
    if (wake) {
        loop->stepper_parked = 0;
    }
    turn_give(loop);
    if (wake) {
        bell_ring(&loop->stepper_bell);
    }
    return deadline_ns;
}

bool operator_posted(const CudaLoop* loop)
{
    const TickList& list = loop->share->doorbell;
    return aotx_word_load(&list.tail) != aotx_word_load(&list.head);
}

bool operator_spin(CudaLoop* loop)
{
    if (loop->spin.now_ns == 0) {
        return false;
    }
    const uint64_t until_ns = clock_now_ns() + loop->spin.now_ns;
    do {
        for (uint32_t i = 0; i < 16; i++) {
            if (operator_posted(loop)) {
                spin_paid(&loop->spin);
                return true;
            }
            spin_pause();
        }
    } while (clock_now_ns() < until_ns);
    spin_wasted(&loop->spin);
    return false;
}

void operator_park(CudaLoop* loop, uint64_t deadline_ns)
{
    loop->operator_parked.store(1, std::memory_order_relaxed);
    // P1, device side: parked is written, now look once more for work.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    const uint32_t count = loop->operator_bell.count.load(std::memory_order_seq_cst);
    if (!operator_posted(loop) && loop->stopping.load(std::memory_order_relaxed) == 0) {
        bell_sleep(&loop->operator_bell, count, deadline_ns);
    }
    loop->operator_parked.store(0, std::memory_order_relaxed);
}

// ---- stepper ----

// What the stepper carries from one tick to the next.
struct Round {
    uint32_t results_model;
    bool step_failed;
    uint64_t activation;
};

void run_render(CudaLoop* loop, uint32_t model, TickVerb* verb)
{
    const uint32_t messages_count = core_submission_spread(loop->region + loop->plan.payload_at,
                                                           verb->size, loop->messages, loop->parts);
    const EngineRender render = engine_render(
        &loop->engines[model], loop->messages, messages_count, loop->arguments.render_tokens,
        loop->plan.common.limits.models[model].sequence_tokens_max);
    verb->result = render.failure;
    verb->fed_tokens = render.fed_tokens;
    verb->prompt_tokens = render.prompt_tokens;
}

uint32_t first_slot(const CudaLoop* loop, uint32_t model)
{
    uint32_t slot = 0;
    for (uint32_t i = 0; i < model; i++) {
        slot += loop->plan.common.limits.models[i].slots_count;
    }
    return slot;
}

void run_verbs(CudaLoop* loop, uint32_t model, uint32_t verbs_count)
{
    HostShare* const share = loop->share;
    const uint32_t first = first_slot(loop, model);
    for (uint32_t i = 0; i < verbs_count; i++) {
        TickVerb* const verb = &share->verbs[i];
        if (verb->kind == kTickVerbClose) {
            AOTX_TRACE_REQUEST("close", verb->id);
            engine_close(&loop->engines[model], verb->slot - first);
            AOTX_TRACE_LIFE_END(verb->slot);
        } else if (verb->kind == kTickVerbOpen) {
            AOTX_TRACE_REQUEST("open", verb->id);
            verb->result = engine_open(&loop->engines[model], verb->slot - first, verb->size);
        } else {
            AOTX_TRACE_LIFE_BEGIN(verb->slot, aotx_word_load(&loop->ring->epoch), verb->id);
            AOTX_TRACE_REQUEST("render", verb->id);
            run_render(loop, model, verb);
        }
    }
}

// Token bytes lie in the runtime's memory; the device reads them from the registered region.
void tokens_bring(CudaLoop* loop, uint32_t model, uint32_t rows_count)
{
    HostShare* const share = loop->share;
    if (loop->engines[model].batched == nullptr) {
        return;
    }
    for (uint32_t i = 0; i < rows_count; i++) {
        CoreToken* const token = &share->tokens[i];
        if (share->rows[i].samples == 0 || token->unreadable != 0) {
            continue;
        }
        if (token->bytes_count > kTickTokenBytesMax) {
            token->unreadable = 1;
            continue;
        }
        uint8_t* const place =
            loop->region + loop->plan.bytes_at + uint64_t{i} * kTickTokenBytesMax;
        if (token->bytes_count != 0) {
            std::memcpy(place, token->bytes, token->bytes_count);
        }
        token->bytes = place;
    }
}

bool run_step(CudaLoop* loop, uint32_t model, uint32_t rows_count)
{
    HostShare* const share = loop->share;
    AOTX_TRACE_RANGE("step", rows_count);
    std::memcpy(loop->rows, share->rows, rows_count * sizeof loop->rows[0]);
    EngineStep step = {loop->rows,
                       share->tokens,
                       loop->text_rows,
                       rows_count,
                       first_slot(loop, model),
                       loop->config.seed,
                       loop->arguments.slots,
                       loop->sample};
    AOTX_TRACE_ROWS(loop->rows, rows_count, loop->arguments.slots);
    if (!engine_step(&loop->engines[model], &step)) {
        return false;
    }
    tokens_bring(loop, model, rows_count);
    return true;
}

// The device came back empty: the runtimes' sequences go too.
void sequences_drop(CudaLoop* loop)
{
    for (uint32_t model = 0; model < loop->config.models_count; model++) {
        for (uint32_t i = 0; i < loop->plan.common.limits.models[model].slots_count; i++) {
            engine_close(&loop->engines[model], i);
            AOTX_TRACE_LIFE_END(first_slot(loop, model) + i);
        }
    }
}

// One tick for one model and the verbs that it names. True when there was anything to do. [turn
// held, given up while the runtime works]
bool stepper_round(CudaLoop* loop, uint32_t model, Round* round)
{
    if (round->activation != loop->activation) {
        round->activation = loop->activation;
        round->results_model = kCoreNone;
        sequences_drop(loop);
    }
    const Round carried = *round;
    round->results_model = kCoreNone;
    round->step_failed = false;
    if (!tick_run(loop, model, carried.results_model, carried.step_failed)) {
        return false;
    }
    const TickReport& report = loop->share->report;
    const bool worked = report.worked != 0;
    if (report.verbs_count != 0 || report.rows_count != 0) {
        const uint32_t rows_count = report.rows_count;
        const uint32_t verbs_count = report.verbs_count;
        const uint64_t activation = loop->activation;
        turn_give(loop);
        run_verbs(loop, model, verbs_count);
        const bool failed = rows_count != 0 && !run_step(loop, model, rows_count);
        turn_take(loop);
        *round = {activation == loop->activation ? model : kCoreNone, failed, activation};
    }
    return worked;
}

void stepper_park(CudaLoop* loop)
{
    loop->stepper_parked = 1;
    const uint32_t count = loop->stepper_bell.count.load(std::memory_order_seq_cst);
    turn_give(loop);
    bell_sleep(&loop->stepper_bell, count, UINT64_MAX);
    turn_take(loop);
    loop->stepper_parked = 0;
}

}  // namespace

void* gpu_operator_main(void* argument)
{
    CudaLoop* const loop = static_cast<CudaLoop*>(argument);
    while (loop->stopping.load(std::memory_order_acquire) == 0) {
        const uint64_t deadline_ns = operator_tick(loop);
        if (deadline_ns == 0 || operator_spin(loop)) {
            continue;
        }
        operator_park(loop, deadline_ns);
    }
    // Stopping: the tick closes the core; end what is queued, answer what was posted, then leave.
    while (operator_tick(loop) == 0) {
    }
    return nullptr;
}

void* gpu_stepper_main(void* argument)
{
    CudaLoop* const loop = static_cast<CudaLoop*>(argument);
    Round round = {kCoreNone, false, 0};
    turn_take(loop);
    for (;;) {
        bool worked = false;
        for (uint32_t model = 0; model < loop->config.models_count; model++) {
            worked = stepper_round(loop, model, &round) || worked;
        }
        if (worked) {
            continue;
        }
        if (loop->stopping.load(std::memory_order_acquire) != 0) {
            break;
        }
        stepper_park(loop);
    }
    turn_give(loop);
    return nullptr;
}

}  // namespace aotx
