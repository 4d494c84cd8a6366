// Purpose:  the life of a request row: admission, queues, deadlines, its end and its reclaim.
// Owns:     nothing; the rows are the core's tables.
// Thread:   whoever holds the turn.
// Lifetime: a row is free, then active, then ended and readable, then free again under a new
//           generation.
#pragma once

#include "layout.h"
#include "watch.h"

namespace aotx {

AOTX_INLINE uint32_t core_principal_bucket(const Core* core, const uint8_t principal[16])
{
    const uint64_t words[2] = {core_load64(principal), core_load64(principal + 8)};
    return static_cast<uint32_t>(core_siphash(core->limits.hash_key, words, 2)) &
           (core->grant_buckets_count - 1u);
}

// Row of a principal's grant, or kCoreNone.
AOTX_INLINE uint32_t core_grant_find(const Core* core, const uint8_t principal[16])
{
    uint32_t at = core->grant_buckets[core_principal_bucket(core, principal)];
    while (at != kCoreNone) {
        const CoreGrant* const grant = core_grant_at(core, at);
        if (core_id_equal(grant->row.principal, principal)) {
            return at;
        }
        at = grant->hash_next;
    }
    return kCoreNone;
}

AOTX_INLINE uint32_t core_request_bucket(const Core* core, const uint8_t principal[16],
                                         const uint8_t id[16])
{
    const uint64_t words[4] = {core_load64(principal), core_load64(principal + 8), core_load64(id),
                               core_load64(id + 8)};
    return static_cast<uint32_t>(core_siphash(core->limits.hash_key, words, 4)) &
           (core->request_buckets_count - 1u);
}

// Row of a principal's request, or kCoreNone. Another principal's request is not found.
AOTX_INLINE uint32_t core_request_find(const Core* core, const uint8_t principal[16],
                                       const uint8_t id[16])
{
    uint32_t at = core->request_buckets[core_request_bucket(core, principal, id)];
    while (at != kCoreNone) {
        const CoreRequest* const request = core_request_at(core, at);
        if (core_id_equal(request->id, id) && core_id_equal(request->principal, principal)) {
            return at;
        }
        at = request->hash_next;
    }
    return kCoreNone;
}

AOTX_INLINE void core_list_append(Core* core, CoreList* list, uint32_t index)
{
    CoreRequest* const request = core_request_at(core, index);
    request->previous = list->last;
    request->next = kCoreNone;
    if (list->last == kCoreNone) {
        list->first = index;
    } else {
        core_request_at(core, list->last)->next = index;
    }
    list->last = index;
    list->count++;
}

AOTX_INLINE void core_list_remove(Core* core, CoreList* list, uint32_t index)
{
    CoreRequest* const request = core_request_at(core, index);
    AOTX_CORE_CHECK(list->count > 0);
    if (request->previous == kCoreNone) {
        list->first = request->next;
    } else {
        core_request_at(core, request->previous)->next = request->next;
    }
    if (request->next == kCoreNone) {
        list->last = request->previous;
    } else {
        core_request_at(core, request->next)->previous = request->previous;
    }
    request->previous = kCoreNone;
    request->next = kCoreNone;
    list->count--;
}

AOTX_INLINE void core_deadline_append(Core* core, uint32_t index)
{
    CoreList* const list = &core->state->deadline;
    CoreRequest* const request = core_request_at(core, index);
    request->deadline_previous = list->last;
    request->deadline_next = kCoreNone;
    if (list->last == kCoreNone) {
        list->first = index;
    } else {
        core_request_at(core, list->last)->deadline_next = index;
    }
    list->last = index;
    list->count++;
}

AOTX_INLINE void core_deadline_remove(Core* core, uint32_t index)
{
    CoreList* const list = &core->state->deadline;
    CoreRequest* const request = core_request_at(core, index);
    AOTX_CORE_CHECK(list->count > 0);
    if (request->deadline_previous == kCoreNone) {
        list->first = request->deadline_next;
    } else {
        core_request_at(core, request->deadline_previous)->deadline_next = request->deadline_next;
    }
    if (request->deadline_next == kCoreNone) {
        list->last = request->deadline_previous;
    } else {
        core_request_at(core, request->deadline_next)->deadline_previous =
            request->deadline_previous;
    }
    list->count--;
}

// Put a queue at the end of its model's ring, which is just before the one that is served next.
AOTX_INLINE void core_ring_insert(Core* core, uint32_t model, uint32_t grant)
{
    CoreModelState* const state = &core->state->models[model];
    CoreQueue* const queue = core_queue_at(core, model, grant);
    if (state->ring == kCoreNone) {
        queue->ring_previous = grant;
        queue->ring_next = grant;
        state->ring = grant;
        return;
    }
    CoreQueue* const head = core_queue_at(core, model, state->ring);
    queue->ring_next = state->ring;
    queue->ring_previous = head->ring_previous;
    core_queue_at(core, model, head->ring_previous)->ring_next = grant;
    head->ring_previous = grant;
}

AOTX_INLINE void core_ring_remove(Core* core, uint32_t model, uint32_t grant)
{
    CoreModelState* const state = &core->state->models[model];
    CoreQueue* const queue = core_queue_at(core, model, grant);
    if (queue->ring_next == grant) {
        state->ring = kCoreNone;
    } else {
        core_queue_at(core, model, queue->ring_previous)->ring_next = queue->ring_next;
        core_queue_at(core, model, queue->ring_next)->ring_previous = queue->ring_previous;
        if (state->ring == grant) {
            state->ring = queue->ring_next;
        }
    }
    queue->ring_previous = kCoreNone;
    queue->ring_next = kCoreNone;
}

AOTX_INLINE void core_queue_append(Core* core, uint32_t index)
{
    CoreRequest* const request = core_request_at(core, index);
    CoreQueue* const queue = core_queue_at(core, request->model, request->grant);
    request->previous = queue->last;
    request->next = kCoreNone;
    if (queue->last == kCoreNone) {
        queue->first = index;
        core_ring_insert(core, request->model, request->grant);
    } else {
        core_request_at(core, queue->last)->next = index;
    }
    queue->last = index;
    core->state->queued_count++;
}

// Take a queued request out of its queue. A request of a replaced revision is in no queue any more.
AOTX_INLINE void core_queue_remove(Core* core, uint32_t index)
{
    CoreRequest* const request = core_request_at(core, index);
    core->state->queued_count--;
    if (request->revision != core->state->grants_revision) {
        return;
    }
    CoreQueue* const queue = core_queue_at(core, request->model, request->grant);
    if (request->previous == kCoreNone) {
        queue->first = request->next;
    } else {
        core_request_at(core, request->previous)->next = request->next;
    }
    if (request->next == kCoreNone) {
        queue->last = request->previous;
    } else {
        core_request_at(core, request->next)->previous = request->previous;
    }
    request->previous = kCoreNone;
    request->next = kCoreNone;
    if (queue->first == kCoreNone) {
        core_ring_remove(core, request->model, request->grant);
    }
}

// End a request that is in no queue and no slot any more. The result stays readable until its row
// is reclaimed.
AOTX_INLINE void core_request_end(Core* core, uint32_t index, uint32_t phase, uint32_t failure)
{
    CoreState* const state = core->state;
    CoreRequest* const request = core_request_at(core, index);
    AOTX_CORE_CHECK(core_phase_ended(phase) && !core_phase_ended(request->phase));
    request->phase = phase;
    request->failure_status = failure;
    request->slot = kCoreNone;
    core->prompt_free[state->prompts_free] = request->prompt;
    state->prompts_free++;
    request->prompt = kCoreNone;
    if (request->ending == 0) {
        core_deadline_remove(core, index);
    }
    if (request->revision == state->grants_revision) {
        CoreGrant* const grant = core_grant_at(core, request->grant);
        AOTX_CORE_CHECK(grant->active > 0);
        grant->active--;
    }
    core_list_append(core, &state->ended, index);
    state->completed_count += phase == AOTX_PHASE_COMPLETED ? 1u : 0u;
    state->failed_count += phase == AOTX_PHASE_FAILED ? 1u : 0u;
    state->cancelled_count += phase == AOTX_PHASE_CANCELLED ? 1u : 0u;
    core_request_changed(core, index);
}

// The terminal phase that a failure status belongs to.
AOTX_INLINE uint32_t core_phase_of(uint32_t failure)
{
    return failure == AOTX_STATUS_CONFLICT || failure == AOTX_STATUS_FORBIDDEN
               ? static_cast<uint32_t>(AOTX_PHASE_CANCELLED)
               : static_cast<uint32_t>(AOTX_PHASE_FAILED);
}

// End a request with a failure: at once while it is queued, at the next token while a slot has it.
AOTX_INLINE void core_request_fail(Core* core, uint32_t index, uint32_t failure)
{
    CoreRequest* const request = core_request_at(core, index);
    if (request->phase == AOTX_PHASE_QUEUED) {
        core_queue_remove(core, index);
        core_request_end(core, index, core_phase_of(failure), failure);
        return;
    }
    if (request->ending == 0) {
        core_deadline_remove(core, index);
        request->ending = failure;
    }
}

// Forget an ended result, the row becomes free.
AOTX_INLINE void core_request_reclaim(Core* core, uint32_t index)
{
    CoreState* const state = core->state;
    CoreRequest* const request = core_request_at(core, index);
    AOTX_CORE_CHECK(core_phase_ended(request->phase));
    while (request->watchers != kCoreNone) {
        core_watch_refuse(core, request->watchers, AOTX_STATUS_NOT_FOUND);
    }
    core_list_remove(core, &state->ended, index);
    uint32_t* link =
        &core->request_buckets[core_request_bucket(core, request->principal, request->id)];
    while (*link != index) {
        AOTX_CORE_CHECK(*link != kCoreNone);
        link = &core_request_at(core, *link)->hash_next;
    }
    *link = request->hash_next;
    request->generation++;
    request->phase = AOTX_PHASE_FREE;
    request->hash_next = state->request_free;
    state->request_free = index;
}

// A free row and prompt storage, in use from now on; the caller has seen that there are such.
AOTX_INLINE uint32_t core_request_take(Core* core)
{
    CoreState* const state = core->state;
    if (state->request_free == kCoreNone) {
        core_request_reclaim(core, state->ended.first);
    }
    const uint32_t index = state->request_free;
    CoreRequest* const request = core_request_at(core, index);
    state->request_free = request->hash_next;
    const uint32_t generation = request->generation + 1u;
    core_zero(request, sizeof *request);
    request->generation = generation;
    AOTX_CORE_CHECK(generation % 2u == 1u);
    AOTX_CORE_CHECK(state->prompts_free > 0);
    state->prompts_free--;
    request->prompt = core->prompt_free[state->prompts_free];
    request->slot = kCoreNone;
    request->previous = kCoreNone;
    request->next = kCoreNone;
    request->watchers = kCoreNone;
    return index;
}

AOTX_INLINE bool core_request_room(const Core* core)
{
    const CoreState* const state = core->state;
    return state->prompts_free > 0 && (state->request_free != kCoreNone || state->ended.count > 0);
}

constexpr uint32_t kCoreSweepMax = 64;  // requests ended in one turn at most

// End what has outlived its time or grant, kCoreSweepMax requests at most. Both are found at the
// front of the deadline list, because it is in the order of admission. Returns true when more is
// left for another turn.
AOTX_INLINE bool core_sweep(Core* core, uint64_t now_ns)
{
    CoreState* const state = core->state;
    uint32_t at = state->deadline.first;
    for (uint32_t i = 0; i < kCoreSweepMax; i++) {
        if (at == kCoreNone) {
            return false;
        }
        const CoreRequest* const request = core_request_at(core, at);
        const uint32_t next = request->deadline_next;
        if (state->closed != 0) {
            core_request_fail(core, at, AOTX_STATUS_UNAVAILABLE);
        } else if (request->revision != state->grants_revision) {
            core_request_fail(core, at, AOTX_STATUS_FORBIDDEN);
        } else if (request->deadline_ns <= now_ns) {
            core_request_fail(core, at, AOTX_STATUS_TIMEOUT);
        } else {
            return false;
        }
        at = next;
    }
    return true;
}

// The nearest moment at which core_sweep or core_watch_expire has something to do, UINT64_MAX for
// none.
AOTX_INLINE uint64_t core_deadline_next(const Core* core)
{
    uint64_t nearest = UINT64_MAX;
    if (core->state->deadline.first != kCoreNone) {
        nearest = core_request_at(core, core->state->deadline.first)->deadline_ns;
    }
    for (uint32_t i = 0; i < kCoreWatchesMax && core->state->watches_count > 0; i++) {
        const CoreWatch& watch = core->watches[i];
        if (watch.mailbox != kCoreNone && watch.deadline_ns < nearest) {
            nearest = watch.deadline_ns;
        }
    }
    return nearest;
}

}  // namespace aotx
