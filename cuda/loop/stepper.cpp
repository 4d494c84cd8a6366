// Purpose:  the stepper thread: renders, steps, samples, commits; the only caller of the runtimes.
// Owns:     nothing of its own.
// Thread:   the stepper.
// Lifetime: loop_start to loop_stop.
//
// One round of a model under the turn: end what was cancelled, start what fits, plan. Then without
// the turn: step and sample. Then under the turn: commit, answer the watches, plan again. No other
// thread stands between two steps.
#include "loop_state.h"
#include "trace.h"

namespace aotx {

namespace {

// Close the sequences of ended requests, so that their pages are free for the next start. [turn
// held, given up while the runtime closes]
void stepper_close(Loop* loop, uint32_t model)
{
    for (;;) {
        const uint32_t slot = core_slot_closing(&loop->core, model);
        if (slot == kCoreNone) {
            return;
        }
        if (loop->core.slots[slot].opened != 0) {
            turn_give(loop, true);
            AOTX_TRACE_REQUEST("close", loop->core.slots[slot].id);
            engine_close(&loop->engines[model].text,
                         slot - loop->core.limits.models[model].first_slot);
            turn_take(loop);
        }
        AOTX_TRACE_LIFE_END(slot);
        core_slot_release(&loop->core, model, slot);
    }
}

// Render the prompt of a slot that core_start named. [turn held, given up while it renders]
void stepper_render(Loop* loop, uint32_t model, uint32_t slot)
{
    Core* const core = &loop->core;
    const CoreRequest* const request = core_request_at(core, core->slots[slot].request);
    const uint8_t* const payload = core_prompt_at(core, request->prompt);
    const uint32_t payload_bytes = request->prompt_bytes;
    turn_give(loop, true);
    AOTX_TRACE_LIFE_BEGIN(slot, core->limits.epoch, core->slots[slot].id);
    AOTX_TRACE_REQUEST("render", core->slots[slot].id);
    const uint32_t messages_count =
        core_submission_spread(payload, payload_bytes, loop->messages, loop->parts);
    const EngineRender render = engine_render(
        &loop->engines[model].text, loop->messages, messages_count,
        core_slot_tokens_at(core, model, slot), core->limits.models[model].sequence_tokens_max);
    turn_take(loop);
    core_prepared(core, model, slot, render.failure, render.fed_tokens, render.prompt_tokens);
}

// Open the sequence of the start that waits, if its pages are there. False: it still waits. [turn
// held, given up while the runtime opens]
bool stepper_open(Loop* loop, uint32_t model)
{
    Core* const core = &loop->core;
    if (core->state->models[model].waiting == kCoreNone) {
        return true;
    }
    uint32_t tokens_max = 0;
    const uint32_t slot = core_reserve(core, model, &tokens_max);
    if (slot == kCoreNone) {
        return false;
    }
    turn_give(loop, true);
    AOTX_TRACE_REQUEST("open", core->slots[slot].id);
    const CoreOpening opening = engine_open(
        &loop->engines[model].text, slot - core->limits.models[model].first_slot, tokens_max);
    turn_take(loop);
    core_opened(core, model, slot, opening);
    return core->state->models[model].waiting == kCoreNone;
}

// Start queued requests until the next step has prompt tokens enough. [turn held]
void stepper_start(Loop* loop, uint32_t model)
{
    Core* const core = &loop->core;
    const uint32_t step_tokens = core->limits.models[model].step_tokens_max;
    while (stepper_open(loop, model) && core_prefill_pending(core, model) < step_tokens) {
        const uint32_t slot = core_start(core, model);
        if (slot == kCoreNone) {
            return;
        }
        stepper_render(loop, model, slot);
        stepper_close(loop, model);  // a prompt that could not be rendered has ended
    }
}

// One round of one model. True when there was anything to do. [turn held, given up while the
// runtime works]
bool stepper_round(Loop* loop, uint32_t model)
{
    Core* const core = &loop->core;
    if (core->state->models[model].busy_count == 0 &&
        core->state->models[model].ring == kCoreNone) {
        return false;
    }
    AOTX_TRACE_RANGE("round", model);
    core_sweep(core, clock_now_ns());
    core_slots_sweep(core, model);
    stepper_close(loop, model);
    stepper_start(loop, model);
    const uint32_t rows_count = core_plan(core, model, loop->rows, kCoreSlotsMax);
    if (rows_count > 0) {
        turn_give(loop, true);
        AOTX_TRACE_RANGE("step", rows_count);
        AOTX_TRACE_ROWS(loop->rows, rows_count, core->slots);
        EngineStep step = {loop->rows,
                           loop->tokens,
                           loop->text_rows,
                           rows_count,
                           core->limits.models[model].first_slot,
                           loop->seed,
                           core->slots,
                           loop->sample};
        const bool done = engine_step(&loop->engines[model].text, &step);
        turn_take(loop);
        AOTX_TRACE_RANGE("commit", rows_count);
        core_commit(core, model, loop->rows, loop->tokens, rows_count, done ? 0u : 1u);
    }
    watches_flush(loop);
    return true;
}

// Sleep until the operator rings. Parking and ringing both happen under the turn, so no ring can
// fall between the look and the sleep. [turn held, given up while asleep]
void stepper_park(Loop* loop)
{
    loop->stepper_parked = 1;
    const uint32_t count = loop->stepper_bell.count.load(std::memory_order_seq_cst);
    turn_give(loop, true);
    bell_sleep(&loop->stepper_bell, count, UINT64_MAX);
    turn_take(loop);
    loop->stepper_parked = 0;
}

}  // namespace

void* stepper_main(void* argument)
{
    Loop* const loop = static_cast<Loop*>(argument);
    turn_take(loop);
    for (;;) {
        bool worked = false;
        for (uint32_t model = 0; model < loop->models_count; model++) {
            worked = stepper_round(loop, model) || worked;
        }
        if (worked) {
            continue;
        }
        if (loop->stopping.load(std::memory_order_acquire) != 0) {
            break;
        }
        stepper_park(loop);
    }
    turn_give(loop, true);
    return nullptr;
}

}  // namespace aotx
