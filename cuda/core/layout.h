// Purpose:  the tables of the device core: their rows, their capacities and where each lies in one
//           slab.
// Owns:     nothing; the slab belongs to the loop that carved it.
// Thread:   whoever holds the turn (see cuda/loop); the limits are constant after core_carve.
// Lifetime: as long as the slab.
//
// Rows name each other by index, never by pointer, so a slab built on the host may be copied to a
// device as it is and carved there again at its new address.
#pragma once

#include "aotx/packet.h"
#include "aotx/status.h"
#include "aotx/text_runtime.h"
#include "bytes.h"
#include "check.h"

namespace aotx {

constexpr uint32_t kCoreNone = 0xffffffffu;  // no row
constexpr uint32_t kCoreModelsMax = 8;
constexpr uint32_t kCoreRolesMax = 8;         // model roles are below this
constexpr uint32_t kCoreSlotsMax = 256;       // execution slots of one model
constexpr uint32_t kCoreWatchesMax = 16;      // watches parked at the same time
constexpr uint32_t kCoreWatchRowsMax = 1022;  // rows of one watch: what a packet holds
constexpr uint32_t kCoreMediaReferencesMax = 16;
constexpr uint32_t kCoreOutputTokensMax = 1u << 20;  // ceiling of a grant's output tokens
constexpr uint64_t kCoreSecond = 1000000000u;        // in nanoseconds

// One loaded model: constants that the loop took from its runtime.
struct CoreModel {
    uint32_t role;  // enum aotx_model_role
    uint32_t modalities;
    uint8_t sha256[32];
    uint32_t slots_count;  // execution slots; at most the runtime's sequences_max
    uint32_t first_slot;   // set by core_carve
    uint32_t sequence_tokens_max;
    uint32_t step_tokens_max;
    uint32_t step_rows_max;
    uint32_t page_tokens;
    uint32_t pages_count;
    uint32_t prompt_bytes_max;
    uint64_t first_slot_token;  // set by core_carve: index of its first slot's tokens
};

// Capacities and constants of one activation.
struct CoreLimits {
    uint32_t mailboxes_count;
    uint32_t principals_max;
    uint32_t requests_max;
    uint32_t prompts_max;  // requests that have not ended
    uint32_t output_bytes_max;
    uint32_t prompt_bytes_max;
    uint32_t request_seconds_max;
    uint32_t upload_seconds_max;
    uint32_t grant_active_requests_max;
    uint32_t models_count;
    uint64_t epoch;
    uint64_t seed;         // of the sampling generator
    uint64_t hash_key[2];  // of the ID tables
    uint64_t service_allocation_bytes;
    aotx_device_row device;  // what runs the core
    CoreModel models[kCoreModelsMax];
};

// A grant as installed, with what the scheduler knows of its principal.
struct CoreGrant {
    aotx_grant_row row;
    uint32_t hash_next;
    uint32_t active;  // requests of this revision that have not ended
};

// The queue of one principal for one model, and its place in that model's ring. A queue is in the
// ring exactly while it holds a request.
struct CoreQueue {
    uint32_t first, last;               // requests
    uint32_t ring_previous, ring_next;  // grants
};

struct CoreRequest {
    uint8_t principal[16];
    uint8_t id[16];
    uint64_t revision;  // of the grant that admitted it
    uint64_t deadline_ns;
    uint32_t generation;  // odd while the row is in use
    uint32_t phase;       // enum aotx_phase
    uint32_t model;       // index
    uint32_t grant;       // row of its principal; only while revision is installed
    float temperature;
    float top_p;
    uint32_t output_tokens_max;
    uint32_t pages_max;
    uint32_t prompt;  // prompt storage, kCoreNone once ended
    uint32_t prompt_bytes;
    uint32_t prompt_tokens;
    uint32_t sampled_tokens;
    uint32_t output_bytes;
    uint32_t finish;
    uint32_t failure_status;
    uint32_t cancel_requested;
    uint32_t ending;  // failure status that ends it at the next token; 0 none
    uint32_t slot;    // while preparing or running
    uint32_t hash_next;
    uint32_t previous, next;                    // queue while queued, else list of ended requests
    uint32_t deadline_previous, deadline_next;  // while it has not ended and ending is 0
    uint32_t watchers;                          // first watch node
};

// What an execution slot does.
enum CoreSlotState {
    kSlotFree = 0,
    kSlotPreparing = 1,  // the loop renders the prompt
    kSlotWaiting = 2,    // rendered, waits for pages
    kSlotOpening = 3,    // pages taken, the loop opens the sequence
    kSlotRunning = 4,
    kSlotClosing = 5  // ended, the loop closes the sequence
};

// An execution slot: one sequence of one model. Everything but the state is constant while a step
// runs, so the loop may read it without the turn.
struct CoreSlot {
    uint32_t state;  // enum CoreSlotState
    uint32_t request;
    uint8_t id[16];  // sampling identity
    float temperature;
    float top_p;
    uint32_t prompt_tokens;  // to feed
    uint32_t fed_tokens;
    uint32_t sampled_tokens;
    uint32_t output_tokens_max;  // after clamping to the context
    uint32_t pages;              // held
    uint32_t opened;             // 1: the runtime knows the sequence
    int32_t last_token;
    uint32_t previous, next;  // circle of running slots, or free list
};

// One row of a parked watch.
struct CoreWatchNode {
    uint8_t id[16];
    uint64_t cursor;
    uint32_t request;  // kCoreNone when refused
    uint32_t watch;
    uint32_t row;
    uint32_t status;  // 200, or the refusal
    uint32_t known_phase;
    uint32_t known_cancel_requested;
    uint32_t previous, next;  // in the request's list of watchers
    uint32_t news_next;
    uint32_t news;  // 1: in the watch's list of news
};

struct CoreWatch {
    uint8_t id[16];
    uint64_t deadline_ns;
    uint32_t mailbox;  // kCoreNone while free
    uint32_t rows_count;
    uint32_t news_first, news_last, news_count;
    uint32_t ready;  // 1: in the list of watches to answer
    uint32_t ready_next;
    uint32_t zero;
};

struct CoreList {
    uint32_t first, last, count;
};

struct CoreModelState {
    uint32_t ring;  // grant whose queue is served next; kCoreNone when nothing is queued
    uint32_t free_slot;
    uint32_t running;  // circle of running slots, oldest first
    uint32_t running_count;
    uint32_t waiting;  // slot that waits for pages; the order of starts holds behind it
    uint32_t pages_free;
    uint32_t closing_count;
    uint32_t busy_count;  // slots not free
};

// The scalars that change.
struct CoreState {
    uint64_t grants_revision;
    uint64_t tick;  // model steps committed
    uint32_t grants_count;
    uint32_t request_free;  // first free row
    CoreList ended;         // requests that have ended, the one longest ago first
    CoreList deadline;      // requests that have not and whose ending is 0, the earliest first
    uint32_t prompts_free;  // entries of prompt_free
    uint32_t ready_first, ready_last;  // watches to answer
    uint32_t watches_count;
    uint32_t queued_count;
    uint32_t running_count;  // preparing and running
    uint32_t closed;         // 1: admits nothing more
    uint64_t completed_count;
    uint64_t failed_count;
    uint64_t cancelled_count;
    uint64_t prompt_tokens_count;
    uint64_t sampled_tokens_count;
    CoreModelState models[kCoreModelsMax];
};

// Where a table lies in the slab.
struct CoreTable {
    const char* name;
    uint64_t offset_bytes;
    uint64_t bytes;
};

enum CoreTableIndex {
    kTableState = 0,
    kTableGrants,
    kTableGrantBuckets,
    kTableRequests,
    kTableRequestBuckets,
    kTableQueues,
    kTablePrompts,
    kTablePromptFree,
    kTableOutputs,
    kTableSlots,
    kTableSlotTokens,
    kTableWatches,
    kTableWatchNodes,
    kCoreTablesCount
};

// The slab's plan: computed before anything is taken.
struct CoreLayout {
    CoreTable tables[kCoreTablesCount];
    uint64_t total_bytes;
};

// The core: limits and the places of its tables. Constant after core_carve.
struct Core {
    CoreLimits limits;
    uint32_t model_of_role[kCoreRolesMax];  // index, kCoreNone when not loaded
    uint32_t slots_count;
    uint32_t grant_buckets_count;  // powers of two
    uint32_t request_buckets_count;
    uint32_t pages_ceiling;  // of a grant; 0 when no model says one
    CoreState* state;
    CoreGrant* grants;
    uint32_t* grant_buckets;
    CoreRequest* requests;
    uint32_t* request_buckets;
    CoreQueue* queues;  // [models_count][principals_max]
    uint8_t* prompts;   // [prompts_max][core_prompt_stride]
    uint32_t* prompt_free;
    uint8_t* outputs;  // [requests_max][output_bytes_max]
    CoreSlot* slots;
    int32_t* slot_tokens;  // per model [slots_count][core_slot_stride]
    CoreWatch* watches;
    CoreWatchNode* watch_nodes;  // [kCoreWatchesMax][kCoreWatchRowsMax]
};

// Bytes from one kept prompt to the next, and i32 from the tokens of one slot to those of the next:
// what a GPU copies begins at a multiple of 16 bytes whatever the limits are.
AOTX_INLINE uint64_t core_prompt_stride(const CoreLimits& limits)
{
    return (static_cast<uint64_t>(limits.prompt_bytes_max) + 15u) / 16u * 16u;
}

AOTX_INLINE uint64_t core_slot_stride(const CoreModel& model)
{
    return (static_cast<uint64_t>(model.sequence_tokens_max) + 3u) / 4u * 4u;
}

AOTX_INLINE uint32_t core_buckets_for(uint32_t rows)
{
    uint32_t buckets = 2;
    while (buckets < 2u * rows) {
        buckets *= 2u;
    }
    return buckets;
}

AOTX_INLINE void core_table_place(CoreLayout* layout, CoreTableIndex index, const char* name,
                                  uint64_t bytes)
{
    layout->tables[index].name = name;
    layout->tables[index].offset_bytes = layout->total_bytes;
    layout->tables[index].bytes = bytes;
    layout->total_bytes = (layout->total_bytes + bytes + 63u) / 64u * 64u;
}

// Plan the slab. The limits have been checked by the caller.
AOTX_INLINE void core_layout(const CoreLimits& limits, CoreLayout* layout)
{
    uint64_t slots = 0;
    uint64_t slot_tokens = 0;
    for (uint32_t i = 0; i < limits.models_count; i++) {
        slots += limits.models[i].slots_count;
        slot_tokens += limits.models[i].slots_count * core_slot_stride(limits.models[i]);
    }
    const uint64_t requests = limits.requests_max;
    const uint64_t grants = limits.principals_max;
    layout->total_bytes = 0;
    core_table_place(layout, kTableState, "state", sizeof(CoreState));
    core_table_place(layout, kTableGrants, "grants", grants * sizeof(CoreGrant));
    core_table_place(layout, kTableGrantBuckets, "grant index",
                     core_buckets_for(limits.principals_max) * sizeof(uint32_t));
    core_table_place(layout, kTableRequests, "requests", requests * sizeof(CoreRequest));
    core_table_place(layout, kTableRequestBuckets, "request index",
                     core_buckets_for(limits.requests_max) * sizeof(uint32_t));
    core_table_place(layout, kTableQueues, "queues",
                     limits.models_count * grants * sizeof(CoreQueue));
    core_table_place(layout, kTablePrompts, "prompts",
                     limits.prompts_max * core_prompt_stride(limits));
    core_table_place(layout, kTablePromptFree, "prompt index",
                     limits.prompts_max * sizeof(uint32_t));
    core_table_place(layout, kTableOutputs, "output windows", requests * limits.output_bytes_max);
    core_table_place(layout, kTableSlots, "execution slots", slots * sizeof(CoreSlot));
    core_table_place(layout, kTableSlotTokens, "prompt tokens", slot_tokens * sizeof(int32_t));
    core_table_place(layout, kTableWatches, "watches", kCoreWatchesMax * sizeof(CoreWatch));
    core_table_place(
        layout, kTableWatchNodes, "watch rows",
        static_cast<uint64_t>(kCoreWatchesMax) * kCoreWatchRowsMax * sizeof(CoreWatchNode));
}

template <typename Row>
AOTX_INLINE Row* core_table_at(const CoreLayout& layout, CoreTableIndex index, uint8_t* slab)
{
    return reinterpret_cast<Row*>(slab + layout.tables[index].offset_bytes);
}

// What follows from the limits alone: slots, roles, ceilings.
AOTX_INLINE void core_derive(Core* core)
{
    core->slots_count = 0;
    core->pages_ceiling = 0;
    for (uint32_t role = 0; role < kCoreRolesMax; role++) {
        core->model_of_role[role] = kCoreNone;
    }
    uint64_t token = 0;
    for (uint32_t i = 0; i < core->limits.models_count; i++) {
        CoreModel* const model = &core->limits.models[i];
        AOTX_CORE_CHECK(model->role < kCoreRolesMax);
        AOTX_CORE_CHECK(model->page_tokens > 0 && model->sequence_tokens_max > 0);
        AOTX_CORE_CHECK(model->slots_count > 0 && model->slots_count <= kCoreSlotsMax);
        core->model_of_role[model->role] = i;
        model->first_slot = core->slots_count;
        model->first_slot_token = token;
        core->slots_count += model->slots_count;
        token += model->slots_count * core_slot_stride(*model);
        const uint32_t whole =
            (model->sequence_tokens_max + model->page_tokens - 1u) / model->page_tokens;
        const uint32_t pages = whole < model->pages_count ? whole : model->pages_count;
        core->pages_ceiling = pages > core->pages_ceiling ? pages : core->pages_ceiling;
    }
}

// Set the places of the tables. slab: core_layout's total_bytes, aligned to 64; its content is not
// touched.
AOTX_INLINE void core_carve(const CoreLimits& limits, uint8_t* slab, Core* core)
{
    CoreLayout layout;
    core_layout(limits, &layout);
    core->limits = limits;
    core_derive(core);
    core->grant_buckets_count = core_buckets_for(limits.principals_max);
    core->request_buckets_count = core_buckets_for(limits.requests_max);
    core->state = core_table_at<CoreState>(layout, kTableState, slab);
    core->grants = core_table_at<CoreGrant>(layout, kTableGrants, slab);
    core->grant_buckets = core_table_at<uint32_t>(layout, kTableGrantBuckets, slab);
    core->requests = core_table_at<CoreRequest>(layout, kTableRequests, slab);
    core->request_buckets = core_table_at<uint32_t>(layout, kTableRequestBuckets, slab);
    core->queues = core_table_at<CoreQueue>(layout, kTableQueues, slab);
    core->prompts = core_table_at<uint8_t>(layout, kTablePrompts, slab);
    core->prompt_free = core_table_at<uint32_t>(layout, kTablePromptFree, slab);
    core->outputs = core_table_at<uint8_t>(layout, kTableOutputs, slab);
    core->slots = core_table_at<CoreSlot>(layout, kTableSlots, slab);
    core->slot_tokens = core_table_at<int32_t>(layout, kTableSlotTokens, slab);
    core->watches = core_table_at<CoreWatch>(layout, kTableWatches, slab);
    core->watch_nodes = core_table_at<CoreWatchNode>(layout, kTableWatchNodes, slab);
}

AOTX_INLINE void core_build_slots(Core* core)
{
    for (uint32_t i = 0; i < core->limits.models_count; i++) {
        const CoreModel& model = core->limits.models[i];
        CoreModelState* const state = &core->state->models[i];
        state->ring = kCoreNone;
        state->running = kCoreNone;
        state->waiting = kCoreNone;
        state->pages_free = model.pages_count;
        state->free_slot = model.first_slot;
        for (uint32_t slot = 0; slot < model.slots_count; slot++) {
            CoreSlot* const row = &core->slots[model.first_slot + slot];
            row->request = kCoreNone;
            row->next = slot + 1u < model.slots_count ? model.first_slot + slot + 1u : kCoreNone;
        }
    }
}

// Fill the tables of a carved slab whose bytes are all zero: everything free, nothing granted.
AOTX_INLINE void core_build(Core* core)
{
    CoreState* const state = core->state;
    for (uint32_t i = 0; i < core->grant_buckets_count; i++) {
        core->grant_buckets[i] = kCoreNone;
    }
    for (uint32_t i = 0; i < core->request_buckets_count; i++) {
        core->request_buckets[i] = kCoreNone;
    }
    for (uint32_t i = 0; i < core->limits.requests_max; i++) {
        core->requests[i].prompt = kCoreNone;
        core->requests[i].slot = kCoreNone;
        core->requests[i].watchers = kCoreNone;
        core->requests[i].hash_next = i + 1u < core->limits.requests_max ? i + 1u : kCoreNone;
    }
    for (uint32_t i = 0; i < core->limits.prompts_max; i++) {
        core->prompt_free[i] = core->limits.prompts_max - 1u - i;
    }
    for (uint32_t i = 0; i < core->limits.models_count * core->limits.principals_max; i++) {
        core->queues[i] = {kCoreNone, kCoreNone, kCoreNone, kCoreNone};
    }
    for (uint32_t i = 0; i < kCoreWatchesMax; i++) {
        core->watches[i].mailbox = kCoreNone;
    }
    state->request_free = 0;
    state->prompts_free = core->limits.prompts_max;
    state->ended = {kCoreNone, kCoreNone, 0};
    state->deadline = {kCoreNone, kCoreNone, 0};
    state->ready_first = kCoreNone;
    state->ready_last = kCoreNone;
    core_build_slots(core);
}

// Row accessors: every use of a table row goes through one, so that the meter sees it.
AOTX_INLINE CoreRequest* core_request_at(const Core* core, uint32_t index)
{
    AOTX_CORE_STEP();
    AOTX_CORE_CHECK(index < core->limits.requests_max);
    return &core->requests[index];
}

AOTX_INLINE CoreGrant* core_grant_at(const Core* core, uint32_t index)
{
    AOTX_CORE_STEP();
    AOTX_CORE_CHECK(index < core->limits.principals_max);
    return &core->grants[index];
}

AOTX_INLINE CoreQueue* core_queue_at(const Core* core, uint32_t model, uint32_t grant)
{
    AOTX_CORE_STEP();
    AOTX_CORE_CHECK(model < core->limits.models_count && grant < core->limits.principals_max);
    return &core->queues[model * core->limits.principals_max + grant];
}

AOTX_INLINE CoreSlot* core_slot_at(const Core* core, uint32_t index)
{
    AOTX_CORE_STEP();
    AOTX_CORE_CHECK(index < core->slots_count);
    return &core->slots[index];
}

AOTX_INLINE CoreWatchNode* core_node_at(const Core* core, uint32_t index)
{
    AOTX_CORE_STEP();
    AOTX_CORE_CHECK(index < kCoreWatchesMax * kCoreWatchRowsMax);
    return &core->watch_nodes[index];
}

AOTX_INLINE uint8_t* core_output_at(const Core* core, uint32_t request)
{
    return core->outputs + static_cast<uint64_t>(request) * core->limits.output_bytes_max;
}

AOTX_INLINE uint8_t* core_prompt_at(const Core* core, uint32_t prompt)
{
    AOTX_CORE_CHECK(prompt < core->limits.prompts_max);
    return core->prompts + prompt * core_prompt_stride(core->limits);
}

// Tokens of a slot: i32 [sequence_tokens_max of its model], aligned to 16 bytes.
AOTX_INLINE int32_t* core_slot_tokens_at(const Core* core, uint32_t model, uint32_t slot)
{
    const CoreModel& row = core->limits.models[model];
    AOTX_CORE_CHECK(slot >= row.first_slot && slot < row.first_slot + row.slots_count);
    return core->slot_tokens + row.first_slot_token +
           (slot - row.first_slot) * core_slot_stride(row);
}

AOTX_INLINE bool core_phase_ended(uint32_t phase)
{
    return phase >= AOTX_PHASE_COMPLETED;
}

}  // namespace aotx
