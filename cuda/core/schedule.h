// Purpose:  which request runs next and what each step computes: starts, pages, rows, commits.
// Owns:     nothing; the rows are the core's tables.
// Thread:   whoever holds the turn; only the stepper calls these.
// Lifetime: a slot goes free -> preparing -> (waiting) -> opening -> running -> closing -> free.
//
// Batching is continuous: a queued request joins the next step when a slot is free, a finished one
// leaves at once. Between principals the ring turns by one at each start, so nobody waits longer
// than one request of every other principal. Starts keep their order: while one waits for pages,
// none overtakes it, so a long prompt cannot starve.
#pragma once

#include "requests.h"

namespace aotx {

// What one row of a step produced, before it is committed.
struct CoreToken {
    const uint8_t* bytes;  // of the token
    uint32_t bytes_count;
    uint32_t flags;       // enum aotx_text_token_flag
    int32_t token;        // what the next step is fed
    uint32_t unreadable;  // 1: the runtime could not name the token
    uint32_t full;        // 1: the runtime's context is full, there is no token
};

// One row of a step's plan.
struct CoreRow {
    uint32_t slot;
    uint32_t tokens_count;
    const int32_t* tokens;
    uint32_t samples;  // 1: a token follows from its logits
};

AOTX_INLINE void core_running_insert(Core* core, uint32_t model, uint32_t index)
{
    CoreModelState* const state = &core->state->models[model];
    CoreSlot* const slot = core_slot_at(core, index);
    state->running_count++;
    if (state->running == kCoreNone) {
        slot->previous = index;
        slot->next = index;
        state->running = index;
        return;
    }
    CoreSlot* const head = core_slot_at(core, state->running);
    slot->next = state->running;
    slot->previous = head->previous;
    core_slot_at(core, head->previous)->next = index;
    head->previous = index;
}

AOTX_INLINE void core_running_remove(Core* core, uint32_t model, uint32_t index)
{
    CoreModelState* const state = &core->state->models[model];
    CoreSlot* const slot = core_slot_at(core, index);
    AOTX_CORE_CHECK(state->running_count > 0);
    state->running_count--;
    if (slot->next == index) {
        state->running = kCoreNone;
        return;
    }
    core_slot_at(core, slot->previous)->next = slot->next;
    core_slot_at(core, slot->next)->previous = slot->previous;
    if (state->running == index) {
        state->running = slot->next;
    }
}

// End the request of a slot; the slot closes next.
AOTX_INLINE void core_slot_end(Core* core, uint32_t model, uint32_t index, uint32_t phase,
                               uint32_t failure)
{
    CoreModelState* const state = &core->state->models[model];
    CoreSlot* const slot = core_slot_at(core, index);
    if (slot->state == kSlotRunning) {
        core_running_remove(core, model, index);
    }
    if (state->waiting == index) {
        state->waiting = kCoreNone;
    }
    core->state->running_count--;
    core_request_end(core, slot->request, phase, failure);
    slot->state = kSlotClosing;
    slot->request = kCoreNone;
    state->closing_count++;
}

AOTX_INLINE void core_slot_fail(Core* core, uint32_t model, uint32_t index, uint32_t failure)
{
    core_slot_end(core, model, index, core_phase_of(failure), failure);
}

// End the slots whose requests were cancelled, timed out or lost their grant. The loop calls it
// between steps; a slot that it is just rendering or opening is left to the call that follows.
AOTX_INLINE void core_slots_sweep(Core* core, uint32_t model)
{
    const CoreModel& row = core->limits.models[model];
    for (uint32_t i = row.first_slot; i < row.first_slot + row.slots_count; i++) {
        const CoreSlot* const slot = core_slot_at(core, i);
        if (slot->state != kSlotRunning && slot->state != kSlotWaiting) {
            continue;
        }
        const uint32_t ending = core_request_at(core, slot->request)->ending;
        if (ending != 0) {
            core_slot_fail(core, model, i, ending);
        }
    }
}

// The next slot whose sequence the loop has to close, kCoreNone when there is none.
AOTX_INLINE uint32_t core_slot_closing(const Core* core, uint32_t model)
{
    const CoreModel& row = core->limits.models[model];
    if (core->state->models[model].closing_count == 0) {
        return kCoreNone;
    }
    for (uint32_t i = row.first_slot; i < row.first_slot + row.slots_count; i++) {
        if (core_slot_at(core, i)->state == kSlotClosing) {
            return i;
        }
    }
    return kCoreNone;
}

// A closed slot is free again and its pages are back.
AOTX_INLINE void core_slot_release(Core* core, uint32_t model, uint32_t index)
{
    CoreModelState* const state = &core->state->models[model];
    CoreSlot* const slot = core_slot_at(core, index);
    AOTX_CORE_CHECK(slot->state == kSlotClosing);
    state->pages_free += slot->pages;
    state->closing_count--;
    state->busy_count--;
    core_zero(slot, sizeof *slot);
    slot->request = kCoreNone;
    slot->next = state->free_slot;
    state->free_slot = index;
}

// Take the next queued request of a model into a slot: it is preparing, the loop renders it next.
// kCoreNone when nothing is queued, no slot is free, or a start waits for pages.
AOTX_INLINE uint32_t core_start(Core* core, uint32_t model)
{
    CoreModelState* const state = &core->state->models[model];
    if (state->ring == kCoreNone || state->free_slot == kCoreNone || state->waiting != kCoreNone) {
        return kCoreNone;
    }
    const uint32_t grant = state->ring;
    const CoreQueue* const queue = core_queue_at(core, model, grant);
    const uint32_t request_index = queue->first;
    state->ring = queue->ring_next;  // the next start is another principal's
    core_queue_remove(core, request_index);
    CoreRequest* const request = core_request_at(core, request_index);
    const uint32_t index = state->free_slot;
    CoreSlot* const slot = core_slot_at(core, index);
    state->free_slot = slot->next;
    core_zero(slot, sizeof *slot);
    slot->state = kSlotPreparing;
    slot->request = request_index;
    core_copy(slot->id, request->id, sizeof slot->id);
    slot->temperature = request->temperature;
    slot->top_p = request->top_p;
    slot->previous = kCoreNone;
    slot->next = kCoreNone;
    state->busy_count++;
    core->state->running_count++;
    request->slot = index;
    request->phase = AOTX_PHASE_PREPARING;
    core_request_changed(core, request_index);
    return index;
}

// Tokens that the answer of a rendered prompt may have: what was asked, cut to the context and to
// the pages that the grant and the pool allow. 0 when the prompt leaves no room at all.
AOTX_INLINE uint32_t core_output_room(const CoreModel& model, const CoreRequest& request,
                                      uint32_t prompt_tokens)
{
    uint32_t pages = model.pages_count;
    if (request.pages_max != 0 && request.pages_max < pages) {
        pages = request.pages_max;
    }
    const uint64_t paged = static_cast<uint64_t>(pages) * model.page_tokens;
    const uint64_t room = paged < model.sequence_tokens_max
                              ? paged
                              : static_cast<uint64_t>(model.sequence_tokens_max);
    if (prompt_tokens >= room) {
        return 0;
    }
    const uint64_t left = room - prompt_tokens;
    return left < request.output_tokens_max ? static_cast<uint32_t>(left)
                                            : request.output_tokens_max;
}

// The loop has rendered a slot's prompt: failure 0 and its tokens, or the status that ends it.
// fed_tokens are fed to the model; prompt_tokens are what the client is told.
AOTX_INLINE void core_prepared(Core* core, uint32_t model, uint32_t index, uint32_t failure,
                               uint32_t fed_tokens, uint32_t prompt_tokens)
{
    CoreSlot* const slot = core_slot_at(core, index);
    AOTX_CORE_CHECK(slot->state == kSlotPreparing);
    CoreRequest* const request = core_request_at(core, slot->request);
    const CoreModel& row = core->limits.models[model];
    if (request->ending != 0) {
        core_slot_fail(core, model, index, request->ending);
        return;
    }
    if (failure != 0) {
        core_slot_fail(core, model, index, failure);
        return;
    }
    AOTX_CORE_CHECK(fed_tokens > 0 && fed_tokens <= row.sequence_tokens_max);
    const uint32_t room = core_output_room(row, *request, fed_tokens);
    if (room == 0) {
        core_slot_fail(core, model, index, AOTX_STATUS_TOO_LARGE);
        return;
    }
    request->prompt_tokens = prompt_tokens;
    slot->prompt_tokens = fed_tokens;
    slot->output_tokens_max = room;
    slot->state = kSlotWaiting;
    core->state->models[model].waiting = index;
    core->state->prompt_tokens_count += prompt_tokens;
}

// Give the waiting slot its pages if they are there: it is opening, the loop opens its sequence for
// *tokens_max tokens next. kCoreNone when none waits or the pages are not there.
AOTX_INLINE uint32_t core_reserve(Core* core, uint32_t model, uint32_t* tokens_max)
{
    CoreModelState* const state = &core->state->models[model];
    const uint32_t index = state->waiting;
    if (index == kCoreNone) {
        return kCoreNone;
    }
    CoreSlot* const slot = core_slot_at(core, index);
    const uint32_t tokens = slot->prompt_tokens + slot->output_tokens_max;
    const uint32_t page_tokens = core->limits.models[model].page_tokens;
    const uint32_t pages = (tokens + page_tokens - 1u) / page_tokens;
    if (pages > state->pages_free) {
        return kCoreNone;
    }
    state->pages_free -= pages;
    slot->pages = pages;
    slot->state = kSlotOpening;
    state->waiting = kCoreNone;
    *tokens_max = tokens;
    return index;
}

// What became of an opening.
enum CoreOpening {
    kOpeningDone = 0,
    kOpeningNoRoom = 1,  // the runtime lacks pages now; try again when a sequence has closed
    kOpeningFailed = 2
};

AOTX_INLINE void core_opened(Core* core, uint32_t model, uint32_t index, CoreOpening opening)
{
    CoreModelState* const state = &core->state->models[model];
    CoreSlot* const slot = core_slot_at(core, index);
    AOTX_CORE_CHECK(slot->state == kSlotOpening);
    if (opening == kOpeningNoRoom && state->running_count > 0) {
        state->pages_free += slot->pages;
        slot->pages = 0;
        slot->state = kSlotWaiting;
        state->waiting = index;
        return;
    }
    if (opening != kOpeningDone) {
        core_slot_fail(core, model, index, AOTX_STATUS_UNAVAILABLE);
        return;
    }
    slot->opened = 1;
    slot->state = kSlotRunning;
    core_running_insert(core, model, index);
    CoreRequest* const request = core_request_at(core, slot->request);
    request->phase = AOTX_PHASE_RUNNING;
    core_request_changed(core, slot->request);
}

// Tokens of prompts that are still to be fed.
AOTX_INLINE uint64_t core_prefill_pending(const Core* core, uint32_t model)
{
    const CoreModelState& state = core->state->models[model];
    uint64_t tokens = 0;
    uint32_t at = state.running;
    for (uint32_t i = 0; i < state.running_count; i++) {
        const CoreSlot* const slot = core_slot_at(core, at);
        tokens += slot->prompt_tokens - slot->fed_tokens;
        at = slot->next;
    }
    return tokens;
}

// A step being planned.
struct CorePlan {
    CoreRow* rows;
    uint32_t rows_count;
    uint32_t rows_max;
    uint32_t tokens_left;
};

// Give a slot its row: one token of an answer, or as much of its prompt as the step still takes.
// False when the step is full.
AOTX_INLINE bool core_plan_row(Core* core, uint32_t model, uint32_t index, CorePlan* plan)
{
    if (plan->rows_count == plan->rows_max || plan->tokens_left == 0) {
        return false;
    }
    const CoreSlot* const slot = core_slot_at(core, index);
    const bool prefill = slot->fed_tokens < slot->prompt_tokens;
    const uint32_t left = prefill ? slot->prompt_tokens - slot->fed_tokens : 1u;
    const uint32_t chunk = left < plan->tokens_left ? left : plan->tokens_left;
    const int32_t* const tokens =
        prefill ? core_slot_tokens_at(core, model, index) + slot->fed_tokens : &slot->last_token;
    plan->rows[plan->rows_count] = {index, chunk, tokens, chunk == left ? 1u : 0u};
    plan->rows_count++;
    plan->tokens_left -= chunk;
    return true;
}

// Plan the next step: first every running answer by one token, then prompts in chunks, oldest
// first, until the step is full. When a step has fewer rows than sequences run, they take turns
// instead, whatever they do. rows [rows_capacity]. Returns the rows.
AOTX_INLINE uint32_t core_plan(Core* core, uint32_t model, CoreRow* rows, uint32_t rows_capacity)
{
    CoreModelState* const state = &core->state->models[model];
    const CoreModel& limits = core->limits.models[model];
    CorePlan plan = {rows, 0,
                     limits.step_rows_max < rows_capacity ? limits.step_rows_max : rows_capacity,
                     limits.step_tokens_max};
    const bool turns = state->running_count > plan.rows_max;
    for (uint32_t pass = 0; pass < (turns ? 1u : 2u); pass++) {
        uint32_t at = state->running;
        for (uint32_t i = 0; i < state->running_count; i++) {
            const CoreSlot* const slot = core_slot_at(core, at);
            const bool prefill = slot->fed_tokens < slot->prompt_tokens;
            if ((turns || prefill == (pass == 1)) && !core_plan_row(core, model, at, &plan)) {
                break;
            }
            at = slot->next;
        }
        if (turns) {
            state->running = at;  // the first that found no row is the first of the next step
        }
    }
    return plan.rows_count;
}

// Append a token to its request. Returns the failure that ends it, or 0.
AOTX_INLINE uint32_t core_output_append(Core* core, uint32_t index, const CoreToken& token)
{
    CoreRequest* const request = core_request_at(core, index);
    if ((token.flags & AOTX_TEXT_TOKEN_CONTROL) != 0) {
        return 0;
    }
    if (token.bytes_count > core->limits.output_bytes_max - request->output_bytes) {
        return AOTX_STATUS_TOO_LARGE;  // a whole token or nothing
    }
    core_copy(core_output_at(core, index) + request->output_bytes, token.bytes, token.bytes_count);
    request->output_bytes += token.bytes_count;
    return 0;
}

// Commit what a row that sampled has produced.
AOTX_INLINE void core_commit_token(Core* core, uint32_t model, uint32_t index,
                                   const CoreToken& token)
{
    CoreSlot* const slot = core_slot_at(core, index);
    const uint32_t request_index = slot->request;
    CoreRequest* const request = core_request_at(core, request_index);
    if (token.unreadable != 0) {
        core_slot_fail(core, model, index, AOTX_STATUS_UNAVAILABLE);
        return;
    }
    if (token.full != 0 || (token.flags & AOTX_TEXT_TOKEN_END) != 0) {
        request->finish = token.full != 0 ? AOTX_FINISH_LENGTH : AOTX_FINISH_STOP;
        core_slot_end(core, model, index, AOTX_PHASE_COMPLETED, 0);
        return;
    }
    const uint32_t failure = core_output_append(core, request_index, token);
    if (failure != 0) {
        core_slot_fail(core, model, index, failure);
        return;
    }
    slot->last_token = token.token;
    slot->sampled_tokens++;
    request->sampled_tokens++;
    core->state->sampled_tokens_count++;
    if (slot->sampled_tokens == slot->output_tokens_max) {
        request->finish = AOTX_FINISH_LENGTH;
        core_slot_end(core, model, index, AOTX_PHASE_COMPLETED, 0);
        return;
    }
    core_request_changed(core, request_index);
}

// Commit a step: rows as planned, one token for each row that samples. step_failed 1 ends every
// request of the step, because its sequences are undefined.
AOTX_INLINE void core_commit(Core* core, uint32_t model, const CoreRow* rows,
                             const CoreToken* tokens, uint32_t rows_count, uint32_t step_failed)
{
    core->state->tick++;
    for (uint32_t i = 0; i < rows_count; i++) {
        CoreSlot* const slot = core_slot_at(core, rows[i].slot);
        AOTX_CORE_CHECK(slot->state == kSlotRunning);
        const uint32_t ending = core_request_at(core, slot->request)->ending;
        if (ending != 0) {
            core_slot_fail(core, model, rows[i].slot, ending);
            continue;
        }
        if (step_failed != 0) {
            core_slot_fail(core, model, rows[i].slot, AOTX_STATUS_UNAVAILABLE);
            continue;
        }
        if (slot->fed_tokens < slot->prompt_tokens) {
            slot->fed_tokens += rows[i].tokens_count;
        }
        if (rows[i].samples != 0) {
            core_commit_token(core, model, rows[i].slot, tokens[i]);
        }
    }
}

// Is there anything for the stepper to do?
AOTX_INLINE bool core_work(const Core* core)
{
    for (uint32_t i = 0; i < core->limits.models_count; i++) {
        const CoreModelState& state = core->state->models[i];
        if (state.busy_count > 0 || state.ring != kCoreNone) {
            return true;
        }
    }
    return false;
}

// End everything with 503 and admit nothing more. Queued requests end in core_sweep, running ones
// at their next token.
AOTX_INLINE void core_close(Core* core)
{
    core->state->closed = 1;
    core_watch_close(core);
}

}  // namespace aotx
