// Purpose:  the tick: one block that takes packets, answers them, keeps deadlines and plans.
// Owns:     nothing.
// Thread:   device code; 128 threads. Thread 0 holds the core, all of them copy.
// Lifetime: one launch.
#pragma once

#include "cuda/kernels/cuda/port.h"
#include "cuda_tick.h"

namespace aotx {

static_assert(offsetof(aotx_mailbox, frame) % 16u == 0 && sizeof(aotx_mailbox) % 16u == 0);

// Copy by the whole block, the last bytes one by one; both pointers are aligned to 16. Ends with a
// barrier.
__device__ __forceinline__ void tick_copy(void* to, const void* from, uint64_t bytes)
{
    uint8_t* const narrow_to = static_cast<uint8_t*>(to);
    const uint8_t* const narrow_from = static_cast<const uint8_t*>(from);
    const uint64_t wide = bytes / 16u;
    for (uint64_t i = threadIdx.x; i < wide; i += kTickThreads) {
        cu_write16(narrow_to + i * 16u, cu_read16(narrow_from + i * 16u));
    }
    for (uint64_t i = wide * 16u + threadIdx.x; i < bytes; i += kTickThreads) {
        narrow_to[i] = narrow_from[i];
    }
    __syncthreads();
}

// Hand the reply in the scratch frame back in its mailbox (T3) and list it (R1). [all threads]
__device__ __forceinline__ void tick_reply(const TickArgs& args, uint32_t mailbox, uint32_t length)
{
    aotx_mailbox* const box = &args.mailboxes[mailbox];
    tick_copy(box->frame, args.frame, length);
    if (threadIdx.x == 0) {
        __threadfence_system();
        aotx_mailbox_reply(box, length);  // T3
        TickList* const list = &args.host->replies;
        const uint64_t tail = list->tail;
        list->items[tail % 1024u] = mailbox;
        aotx_word_store(&list->tail, tail + 1u);  // R1
    }
    __syncthreads();
}

// Answer every watch that is ready. word: one shared word a block may pass around.
__device__ __forceinline__ void tick_watches(const TickArgs& args, uint32_t* word)
{
    for (;;) {
        if (threadIdx.x == 0) {
            word[0] = core_watch_next(args.core);
            word[1] = word[0] == kCoreNone ? 0u : core_watch_answer(args.core, args.frame);
        }
        __syncthreads();
        const uint32_t mailbox = word[0];
        const uint32_t length = word[1];
        __syncthreads();
        if (mailbox == kCoreNone) {
            return;
        }
        tick_reply(args, mailbox, length);
    }
}

constexpr uint32_t kTickNotPosted = 0xffffffffu;  // listed, but not the device's turn

// The next posted mailbox, or kCoreNone, and its packet's length. [thread 0]
__device__ __forceinline__ uint32_t tick_posted(const TickArgs& args, uint32_t* length)
{
    TickList* const list = &args.host->doorbell;
    const uint64_t head = list->head;           // ours alone
    if (head == aotx_word_load(&list->tail)) {  // D2
        return kCoreNone;
    }
    const uint32_t mailbox = list->items[head % 1024u];
    aotx_word_store(&list->head, head + 1u);  // the operator looks at it while it spins
    AOTX_CORE_CHECK(mailbox < args.core->limits.mailboxes_count);
    const aotx_mailbox* const box = &args.mailboxes[mailbox];
    if (aotx_mailbox_take(box) == 0) {  // T2
        *length = kTickNotPosted;
        return mailbox;
    }
    const uint64_t bytes = box->length_bytes;
    *length = bytes > AOTX_PACKET_BYTES_MAX ? 0u : static_cast<uint32_t>(bytes);
    return mailbox;
}

// Answer one posted mailbox. False when none is posted. [all threads]
__device__ __forceinline__ bool tick_answer(const TickArgs& args, uint32_t* word)
{
    if (threadIdx.x == 0) {
        word[1] = 0;
        word[0] = tick_posted(args, &word[1]);
    }
    __syncthreads();
    const uint32_t mailbox = word[0];
    const uint32_t bytes = word[1];
    __syncthreads();
    if (mailbox == kCoreNone) {
        return false;
    }
    if (bytes == kTickNotPosted) {
        return true;
    }
    tick_copy(args.frame, args.mailboxes[mailbox].frame, bytes);
    if (threadIdx.x == 0) {
        core_stage(*args.core, args.frame, bytes, args.packet);
        word[1] =
            core_answer(args.core, *args.packet, mailbox, args.host->command.now_ns, args.frame);
        args.counters[0]++;
    }
    __syncthreads();
    const uint32_t length = word[1];
    __syncthreads();
    if (length != 0) {
        tick_reply(args, mailbox, length);
    }
    tick_watches(args, word);
    return true;
}

// Take what the host's verbs gave. [all threads]
__device__ __forceinline__ void tick_results(const TickArgs& args, uint32_t model, bool* no_room)
{
    const HostShare* const host = args.host;
    for (uint32_t i = 0; i < host->report.verbs_count; i++) {
        const TickVerb verb = host->verbs[i];
        if (verb.kind == kTickVerbRender) {
            tick_copy(core_slot_tokens_at(args.core, model, verb.slot), args.render_tokens,
                      uint64_t{verb.fed_tokens} * sizeof(int32_t));
        }
        if (threadIdx.x != 0) {
            continue;
        }
        if (verb.kind == kTickVerbClose) {
            core_slot_release(args.core, model, verb.slot);
        } else if (verb.kind == kTickVerbOpen) {
            const CoreOpening opening = static_cast<CoreOpening>(verb.result);
            core_opened(args.core, model, verb.slot, opening);
            *no_room = args.core->state->models[model].waiting != kCoreNone;
        } else {
            core_prepared(args.core, model, verb.slot, verb.result, verb.fed_tokens,
                          verb.prompt_tokens);
        }
    }
    if (threadIdx.x == 0 && host->report.rows_count != 0) {
        core_commit(args.core, model, args.rows, host->tokens, host->report.rows_count,
                    host->command.step_failed);
    }
    __syncthreads();
}

__device__ __forceinline__ void tick_verb(const TickArgs& args, uint32_t kind, uint32_t slot,
                                          uint32_t size)
{
    TickReport* const report = &args.host->report;
    AOTX_CORE_CHECK(report->verbs_count < kTickVerbsMax);
    TickVerb* const verb = &args.host->verbs[report->verbs_count];
    *verb = {kind, slot, size, 0, 0, 0, {}};
    core_copy(verb->id, core_slot_at(args.core, slot)->id, sizeof verb->id);
    report->verbs_count++;
}

// Name the sequences to close; what the runtime never knew is free at once. [thread 0]
__device__ __forceinline__ void tick_closings(const TickArgs& args, uint32_t model)
{
    Core* const core = args.core;
    const CoreModel& limits = core->limits.models[model];
    for (uint32_t i = 0; i < limits.slots_count; i++) {
        CoreSlot* const slot = core_slot_at(core, limits.first_slot + i);
        if (slot->state != kSlotClosing) {
            continue;
        }
        if (slot->opened != 0) {
            tick_verb(args, kTickVerbClose, limits.first_slot + i, 0);
        } else {
            core_slot_release(core, model, limits.first_slot + i);
        }
    }
}

// Open or start one request, if the next step still has prompt tokens to take. Returns the slot
// whose prompt must be rendered, or kCoreNone. opening: a sequence was named for opening. [thread
// 0]
__device__ __forceinline__ uint32_t tick_start(const TickArgs& args, uint32_t model, bool no_room,
                                               bool* opening)
{
    Core* const core = args.core;
    if (core->state->models[model].waiting != kCoreNone) {
        uint32_t tokens_max = 0;
        const uint32_t slot = no_room ? kCoreNone : core_reserve(core, model, &tokens_max);
        if (slot != kCoreNone) {
            tick_verb(args, kTickVerbOpen, slot, tokens_max);
            *opening = true;
        }
        return kCoreNone;
    }
    if (core_prefill_pending(core, model) >= core->limits.models[model].step_tokens_max) {
        return kCoreNone;
    }
    const uint32_t slot = core_start(core, model);
    if (slot != kCoreNone) {
        const CoreRequest* const request = core_request_at(core, core->slots[slot].request);
        tick_verb(args, kTickVerbRender, slot, request->prompt_bytes);
    }
    return slot;
}

// Plan the step and lay its rows out for the host. [all threads]
__device__ __forceinline__ void tick_plan(const TickArgs& args, uint32_t model, uint32_t* word)
{
    if (threadIdx.x == 0) {
        word[0] = core_plan(args.core, model, args.rows, kCoreSlotsMax);
        args.host->report.rows_count = word[0];
    }
    __syncthreads();
    const uint32_t rows_count = word[0];
    uint32_t first = 0;
    for (uint32_t i = 0; i < rows_count; i++) {
        const CoreRow row = args.rows[i];
        for (uint32_t t = threadIdx.x; t < row.tokens_count; t += kTickThreads) {
            args.step_tokens[first + t] = row.tokens[t];
        }
        if (threadIdx.x == 0) {
            args.host->rows[i] = {row.slot, row.tokens_count, args.step_tokens + first,
                                  row.samples};
            args.slots[row.slot] = args.core->slots[row.slot];
        }
        first += row.tokens_count;
    }
    __syncthreads();
}

// One round of one model: results in, verbs and a step out. [all threads]
__device__ __forceinline__ void tick_model(const TickArgs& args, uint32_t* word)
{
    const TickCommand command = args.host->command;
    const uint32_t model = command.plan_model;
    Core* const core = args.core;
    bool no_room = false;
    if (command.results_model != kCoreNone) {
        tick_results(args, command.results_model, &no_room);
        no_room = no_room && command.results_model == model;
    }
    if (threadIdx.x == 0) {
        TickReport* const report = &args.host->report;
        report->verbs_count = 0;
        report->rows_count = 0;
        const CoreModelState& state = core->state->models[model];
        report->worked = state.busy_count != 0 || state.ring != kCoreNone ? 1u : 0u;
        word[0] = kCoreNone;
        word[1] = 0;
        if (report->worked != 0) {
            core_sweep(core, command.now_ns);
            core_slots_sweep(core, model);
            tick_closings(args, model);
            bool opening = false;
            word[0] = tick_start(args, model, no_room, &opening);
            word[1] = opening || word[0] != kCoreNone ? 0u : 1u;
        }
    }
    __syncthreads();
    const uint32_t render = word[0];
    const bool plans = word[1] != 0;
    __syncthreads();
    if (render != kCoreNone) {
        const CoreRequest* const request = core_request_at(core, core->slots[render].request);
        tick_copy(args.render_payload, core_prompt_at(core, request->prompt),
                  request->prompt_bytes);
    }
    if (plans) {
        tick_plan(args, model, word);
    }
}

// What the host is told at the end of a tick. [thread 0]
__device__ __forceinline__ void tick_report(const TickArgs& args, bool overdue)
{
    const Core* const core = args.core;
    const CoreState& state = *core->state;
    TickReport* const report = &args.host->report;
    report->deadline_ns = overdue ? 0 : core_deadline_next(core);
    report->operations = args.counters[0];
    report->counters[0] = state.completed_count;
    report->counters[1] = state.failed_count;
    report->counters[2] = state.cancelled_count;
    report->counters[3] = state.prompt_tokens_count;
    report->counters[4] = state.sampled_tokens_count;
    report->steps = state.tick;
    report->queued = state.queued_count;
    report->running = state.running_count;
    report->work = core_work(core) ? 1u : 0u;
}

// Fill the tables of a fresh device slab.
__global__ void __launch_bounds__(32) tick_build(CU_GRID_CONSTANT const TickArgs args)
{
    if (threadIdx.x == 0) {
        core_build(args.core);
        args.counters[0] = 0;
        args.counters[1] = 0;
    }
}

// Take what was posted, up to a bound; the loop around this kernel runs it again while more is
// there. The first round of a launch also does the stepper's part.
__global__ void __launch_bounds__(kTickThreads) tick(CU_GRID_CONSTANT const TickArgs args)
{
    CU_SHARED(uint32_t, word, 2);
    Core* const core = args.core;
    const bool first = args.counters[1] == 0;
    if (threadIdx.x == 0 && first && args.host->command.close != 0 && core->state->closed == 0) {
        core_close(core);
    }
    __syncthreads();
    bool posted = true;
    for (uint32_t i = 0; i < kTickMailboxesMax && posted; i++) {
        posted = tick_answer(args, word);
    }
    if (first && args.host->command.plan_model != kCoreNone) {
        tick_model(args, word);
    }
    if (threadIdx.x == 0) {
        const uint64_t now_ns = args.host->command.now_ns;
        word[0] = core_sweep(core, now_ns) ? 1u : 0u;
        core_watch_expire(core, now_ns);
    }
    __syncthreads();
    const bool overdue = word[0] != 0;
    __syncthreads();
    tick_watches(args, word);
    if (threadIdx.x == 0) {
        tick_report(args, overdue);
        const TickList& list = args.host->doorbell;
        const bool left = aotx_word_load(&list.tail) != list.head;
        const bool again = left && args.counters[1] + 1u < kTickRoundsMax;
        args.host->report.posted_left = left ? 1u : 0u;
        args.counters[1] = again ? args.counters[1] + 1u : 0u;
        cu_set_condition(args.again, again ? 1u : 0u);
    }
}

}  // namespace aotx
