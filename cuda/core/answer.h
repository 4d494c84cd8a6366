// Purpose:  the operations: every check in the contract's order, then the effect, then the reply.
// Owns:     nothing.
// Thread:   whoever holds the turn.
// Lifetime: one packet.
//
// A handler returns a status. Whatever it returns but 200 and 202 has changed nothing: each handler
// does its checks first and its effects after the blank line that follows them.
#pragma once

#include "aotx/mailbox.h"
#include "requests.h"
#include "stage.h"
#include "watch.h"

namespace aotx {

// One packet being answered.
struct CoreCall {
    Core* core;
    const CorePacket* packet;
    const CoreGrant* grant;  // of the caller; null for GRANTS, WATCH and DEVICE
    uint32_t grant_index;
    uint32_t mailbox;
    uint64_t now_ns;
    aotx_reply_head reply;
    uint8_t* payload;  // of the reply, in the frame
    uint32_t parked;   // 1: the answer comes later
};

// The words that only SUBMIT may use; count stands apart because GRANTS and WATCH use it too.
AOTX_INLINE bool core_head_plain(const aotx_request_head& head)
{
    return head.model_role == 0 && core_float_bits(head.temperature) == 0 &&
           core_float_bits(head.top_p) == 0;
}

AOTX_INLINE bool core_head_no_id(const aotx_request_head& head)
{
    return core_all_zero(head.id, AOTX_ID_BYTES);
}

// Does the head use only the words that its operation may use?
AOTX_INLINE bool core_head_check(const aotx_request_head& head)
{
    const bool plain = core_head_plain(head) && head.count == 0;
    switch (head.operation) {
        case AOTX_OPERATION_GRANTS:
            return core_head_plain(head) && core_all_zero(head.principal, AOTX_ID_BYTES) &&
                   head.runtime_epoch == 0 && core_head_no_id(head) && head.cursor == 0;
        case AOTX_OPERATION_WATCH:
            return core_head_plain(head) && core_all_zero(head.principal, AOTX_ID_BYTES) &&
                   head.grant_revision == 0 && !core_head_no_id(head) && head.cursor == 0;
        case AOTX_OPERATION_DEVICE:
            return plain && core_all_zero(head.principal, AOTX_ID_BYTES) &&
                   head.grant_revision == 0 && head.runtime_epoch == 0 && core_head_no_id(head) &&
                   head.cursor == 0;
        case AOTX_OPERATION_INFORMATION:
        case AOTX_OPERATION_TELEMETRY:
            return plain && head.runtime_epoch == 0 && core_head_no_id(head) && head.cursor == 0;
        case AOTX_OPERATION_SUBMIT:
            return true;
        case AOTX_OPERATION_READ:
        case AOTX_OPERATION_CANCEL:
        case AOTX_OPERATION_SHARED_MUTATE:
        case AOTX_OPERATION_SHARED_READ:
            return plain;
        case AOTX_OPERATION_MEDIA:
        case AOTX_OPERATION_MEDIA_READ:
            return plain && head.runtime_epoch == 0 && head.cursor == 0;
        case AOTX_OPERATION_MEDIA_LIST:
            return plain && head.runtime_epoch == 0 && core_head_no_id(head);
        case AOTX_OPERATION_POLICY:
            return plain && core_head_no_id(head) && head.cursor == 0 &&
                   (head.payload_bytes != 0 || head.runtime_epoch == 0);
        default:
            return false;
    }
}

// Install the staged rows in place of the old table.
AOTX_INLINE void core_grants_install(Core* core, const CorePacket& packet)
{
    CoreState* const state = core->state;
    for (uint32_t i = 0; i < state->grants_count; i++) {
        const CoreGrant* const grant = core_grant_at(core, i);
        core->grant_buckets[core_principal_bucket(core, grant->row.principal)] = kCoreNone;
        for (uint32_t model = 0; model < core->limits.models_count; model++) {
            *core_queue_at(core, model, i) = {kCoreNone, kCoreNone, kCoreNone, kCoreNone};
        }
    }
    for (uint32_t model = 0; model < core->limits.models_count; model++) {
        state->models[model].ring = kCoreNone;
    }
    for (uint32_t i = 0; i < packet.head.count; i++) {
        CoreGrant* const grant = core_grant_at(core, i);
        grant->row = core_payload_row<aotx_grant_row>(packet, i);
        grant->active = 0;
        uint32_t* const bucket =
            &core->grant_buckets[core_principal_bucket(core, grant->row.principal)];
        grant->hash_next = *bucket;
        *bucket = i;
    }
    state->grants_count = packet.head.count;
    state->grants_revision = packet.head.grant_revision;
}

AOTX_INLINE uint32_t core_answer_grants(CoreCall* call)
{
    Core* const core = call->core;
    if (call->mailbox != AOTX_MAILBOX_CONTROL) {
        return AOTX_STATUS_FORBIDDEN;
    }
    if (!core_head_check(call->packet->head) || call->packet->payload_status != AOTX_STATUS_OK ||
        call->packet->head.grant_revision <= core->state->grants_revision) {
        return AOTX_STATUS_BAD_REQUEST;
    }

    core_grants_install(core, *call->packet);
    core_watch_revoke(core);
    return AOTX_STATUS_OK;
}

// What a grant sees of the device.
AOTX_INLINE void core_information_fill(const CoreCall& call, aotx_information* information)
{
    const CoreLimits& limits = call.core->limits;
    const aotx_grant_row& grant = call.grant->row;
    core_zero(information, sizeof *information);
    information->schema = AOTX_INFORMATION_SCHEMA;
    information->execution_slots_plus_one = call.core->slots_count + 1u;
    information->prompt_bytes_max = limits.prompt_bytes_max;
    information->request_entries = limits.requests_max;
    information->request_output_bytes_max = limits.output_bytes_max;
    information->mailboxes = limits.mailboxes_count;
    information->grant_output_tokens_max = grant.output_tokens_max;
    information->grant_pages_max =
        grant.pages_max == 0 ? call.core->pages_ceiling : grant.pages_max;
    information->grant_active_requests_max = grant.active_requests_max;
    information->grant_actions = grant.actions;
    information->request_seconds_max = limits.request_seconds_max;
    information->upload_seconds_max = limits.upload_seconds_max;
    information->principal_entries = limits.principals_max;
    information->request_media_references_max = kCoreMediaReferencesMax;
}

// INFORMATION and TELEMETRY differ in three words.
AOTX_INLINE uint32_t core_answer_information(CoreCall* call)
{
    const CoreLimits& limits = call->core->limits;
    const bool telemetry = call->packet->head.operation == AOTX_OPERATION_TELEMETRY;
    if (telemetry && (call->grant->row.actions & AOTX_ACTION_TELEMETRY) == 0) {
        return AOTX_STATUS_FORBIDDEN;
    }

    aotx_information information;
    core_information_fill(*call, &information);
    uint32_t sequence_tokens = 0;
    for (uint32_t i = 0; i < limits.models_count; i++) {
        const CoreModel& model = limits.models[i];
        if ((call->grant->row.model_mask & (1u << model.role)) == 0) {
            continue;
        }
        // With several models the smallest bound holds for every one of them.
        if (sequence_tokens == 0 || model.sequence_tokens_max < sequence_tokens) {
            sequence_tokens = model.sequence_tokens_max;
        }
        if (model.prompt_bytes_max < information.prompt_bytes_max) {
            information.prompt_bytes_max = model.prompt_bytes_max;
        }
        aotx_model_row row;
        core_zero(&row, sizeof row);
        row.role = model.role;
        row.modalities = model.modalities;
        core_copy(row.sha256, model.sha256, sizeof row.sha256);
        core_copy(call->payload + sizeof information + information.model_rows * sizeof row, &row,
                  sizeof row);
        information.model_rows++;
    }
    information.sequence_tokens_max = sequence_tokens;
    if (telemetry) {
        information.service_allocation_bytes = limits.service_allocation_bytes;
        information.tick = call->core->state->tick;
        information.clock_ns = call->now_ns;
    }
    core_copy(call->payload, &information, sizeof information);
    call->reply.payload_bytes =
        static_cast<uint32_t>(sizeof information + information.model_rows * sizeof(aotx_model_row));
    return AOTX_STATUS_OK;
}

// What serves is no secret among those who reach the broker: no grant is asked for.
AOTX_INLINE uint32_t core_answer_device(CoreCall* call)
{
    const aotx_device_row& device = call->core->limits.device;
    core_copy(call->payload, &device, sizeof device);
    call->reply.payload_bytes = sizeof device;
    return AOTX_STATUS_OK;
}

// Put the state of a request into the reply's head.
AOTX_INLINE void core_reply_request(CoreCall* call, uint32_t index)
{
    const CoreRequest* const request = core_request_at(call->core, index);
    call->reply.phase = request->phase;
    call->reply.model_role = call->core->limits.models[request->model].role;
    call->reply.output_bytes = request->output_bytes;
    call->reply.prompt_tokens = request->prompt_tokens;
    call->reply.sampled_tokens = request->sampled_tokens;
    call->reply.finish = request->finish;
    call->reply.failure_status = request->failure_status;
    call->reply.cancel_requested = request->cancel_requested;
}

// The value checks of a submission, in the contract's order up to 429.
AOTX_INLINE uint32_t core_submit_check(const CoreCall& call)
{
    const aotx_request_head& head = call.packet->head;
    const CoreGrant& grant = *call.grant;
    const Core& core = *call.core;
    if ((grant.row.actions & AOTX_ACTION_INFER) == 0) {
        return AOTX_STATUS_FORBIDDEN;
    }
    if (head.runtime_epoch != core.limits.epoch) {
        return AOTX_STATUS_GONE;
    }
    const bool temperature_ok =
        head.temperature >= 0.0f && head.temperature <= AOTX_OUTPUT_TEMPERATURE_MAX;
    const bool top_p_ok = head.top_p > 0.0f && head.top_p <= 1.0f;
    if (core_head_no_id(head) || head.cursor != 0 || !temperature_ok || !top_p_ok ||
        head.count == 0 || head.count > grant.row.output_tokens_max ||
        call.packet->payload_status != AOTX_STATUS_OK) {
        return AOTX_STATUS_BAD_REQUEST;
    }
    const uint32_t model =
        head.model_role < kCoreRolesMax ? core.model_of_role[head.model_role] : kCoreNone;
    if (model == kCoreNone || (grant.row.model_mask & (1u << head.model_role)) == 0) {
        return AOTX_STATUS_NOT_FOUND;
    }
    if (call.packet->submission.media_parts > kCoreMediaReferencesMax) {
        return AOTX_STATUS_TOO_LARGE;
    }
    if (call.packet->submission.media_parts != 0) {
        return AOTX_STATUS_NOT_FOUND;  // this device holds no source
    }
    if (core_request_find(&core, head.principal, head.id) != kCoreNone) {
        return AOTX_STATUS_CONFLICT;
    }
    if (head.payload_bytes > core.limits.prompt_bytes_max ||
        call.packet->submission.text_bytes > core.limits.models[model].prompt_bytes_max) {
        return AOTX_STATUS_TOO_LARGE;
    }
    if (core.state->closed != 0) {
        return AOTX_STATUS_UNAVAILABLE;
    }
    if (grant.active >= grant.row.active_requests_max || !core_request_room(&core)) {
        return AOTX_STATUS_TOO_MANY;
    }
    return AOTX_STATUS_ACCEPTED;
}

AOTX_INLINE uint32_t core_answer_submit(CoreCall* call)
{
    const uint32_t status = core_submit_check(*call);
    if (status != AOTX_STATUS_ACCEPTED) {
        return status;
    }

    Core* const core = call->core;
    const aotx_request_head& head = call->packet->head;
    const uint32_t index = core_request_take(core);
    CoreRequest* const request = core_request_at(core, index);
    core_copy(request->principal, head.principal, sizeof request->principal);
    core_copy(request->id, head.id, sizeof request->id);
    request->revision = head.grant_revision;
    request->deadline_ns = call->now_ns + core->limits.request_seconds_max * kCoreSecond;
    request->phase = AOTX_PHASE_QUEUED;
    request->model = core->model_of_role[head.model_role];
    request->grant = call->grant_index;
    request->temperature = head.temperature;
    request->top_p = head.top_p;
    request->output_tokens_max = head.count;
    request->pages_max = call->grant->row.pages_max;
    request->prompt_bytes = head.payload_bytes;
    core_copy(core_prompt_at(core, request->prompt), call->packet->payload, head.payload_bytes);
    uint32_t* const bucket =
        &core->request_buckets[core_request_bucket(core, request->principal, request->id)];
    request->hash_next = *bucket;
    *bucket = index;
    core_deadline_append(core, index);
    core_queue_append(core, index);
    core_grant_at(core, call->grant_index)->active++;
    core_reply_request(call, index);
    return AOTX_STATUS_ACCEPTED;
}

// The request that a READ or CANCEL names, with the checks that both share.
AOTX_INLINE uint32_t core_request_named(const CoreCall& call, uint32_t* index)
{
    const aotx_request_head& head = call.packet->head;
    const Core& core = *call.core;
    if (head.runtime_epoch != core.limits.epoch) {
        return AOTX_STATUS_GONE;
    }
    const uint32_t found = core_request_find(&core, head.principal, head.id);
    if (found == kCoreNone) {
        return AOTX_STATUS_NOT_FOUND;
    }
    const CoreRequest* const request = core_request_at(&core, found);
    const uint32_t role = core.limits.models[request->model].role;
    if (request->revision != head.grant_revision ||
        (call.grant->row.model_mask & (1u << role)) == 0) {
        return AOTX_STATUS_FORBIDDEN;
    }
    *index = found;
    return AOTX_STATUS_OK;
}

AOTX_INLINE uint32_t core_answer_read(CoreCall* call)
{
    uint32_t index = kCoreNone;
    const uint32_t status = core_request_named(*call, &index);
    if (status != AOTX_STATUS_OK) {
        return status;
    }
    const CoreRequest* const request = core_request_at(call->core, index);
    const uint64_t cursor = call->packet->head.cursor;
    if (cursor > request->output_bytes) {
        return AOTX_STATUS_CONFLICT;
    }

    const uint32_t left = request->output_bytes - static_cast<uint32_t>(cursor);
    const uint32_t bytes = left < AOTX_PAYLOAD_BYTES_MAX ? left : AOTX_PAYLOAD_BYTES_MAX;
    core_copy(call->payload, core_output_at(call->core, index) + cursor, bytes);
    call->reply.payload_bytes = bytes;
    core_reply_request(call, index);
    return AOTX_STATUS_OK;
}

AOTX_INLINE uint32_t core_answer_cancel(CoreCall* call)
{
    Core* const core = call->core;
    uint32_t index = kCoreNone;
    const uint32_t status = core_request_named(*call, &index);
    if (status != AOTX_STATUS_OK) {
        return status;
    }
    if (call->packet->head.cursor != 0) {
        return AOTX_STATUS_CONFLICT;
    }

    CoreRequest* const request = core_request_at(core, index);
    if (!core_phase_ended(request->phase) && request->cancel_requested == 0) {
        request->cancel_requested = 1;
        core_request_fail(core, index, AOTX_STATUS_CONFLICT);
        core_request_changed(core, index);
    }
    core_reply_request(call, index);
    return AOTX_STATUS_OK;
}

AOTX_INLINE uint32_t core_answer_media(CoreCall* call)
{
    const bool upload = (call->grant->row.actions & AOTX_ACTION_UPLOAD) != 0;
    return upload ? AOTX_STATUS_UNAVAILABLE : AOTX_STATUS_FORBIDDEN;
}

AOTX_INLINE uint32_t core_answer_policy(CoreCall* call)
{
    const uint32_t actions = call->grant->row.actions;
    if (call->packet->head.payload_bytes == 0) {
        if ((actions & (AOTX_ACTION_TELEMETRY | AOTX_ACTION_POLICY_MANAGE)) == 0) {
            return AOTX_STATUS_FORBIDDEN;
        }

        aotx_policy_state_payload policy;
        core_zero(&policy, sizeof policy);
        policy.schema = AOTX_POLICY_SCHEMA;
        policy.state = AOTX_POLICY_STATE_OFF;
        policy.reason = AOTX_POLICY_REASON_DISABLED;
        core_copy(call->payload, &policy, sizeof policy);
        call->reply.payload_bytes = sizeof policy;
        return AOTX_STATUS_OK;
    }
    if ((actions & AOTX_ACTION_POLICY_MANAGE) == 0) {
        return AOTX_STATUS_FORBIDDEN;
    }
    if (call->packet->head.runtime_epoch != call->core->limits.epoch) {
        return AOTX_STATUS_GONE;
    }
    aotx_policy_control control;
    core_copy(&control, call->packet->payload, sizeof control);
    // Nothing has ever been accepted, so the revision is 0.
    return control.control_revision != 0 ? AOTX_STATUS_CONFLICT : AOTX_STATUS_UNAVAILABLE;
}

// Why a watch row is refused, or 200 with the request that it names.
AOTX_INLINE uint32_t core_watch_row_status(const Core& core, const aotx_watch_row& row,
                                           uint32_t* index)
{
    const uint32_t grant = core_grant_find(&core, row.principal);
    if (grant == kCoreNone || row.grant_revision != core.state->grants_revision) {
        return AOTX_STATUS_FORBIDDEN;
    }
    const uint32_t found = core_request_find(&core, row.principal, row.id);
    if (found == kCoreNone) {
        return AOTX_STATUS_NOT_FOUND;
    }
    const CoreRequest* const request = core_request_at(&core, found);
    const uint32_t role = core.limits.models[request->model].role;
    const uint32_t mask = core_grant_at(&core, grant)->row.model_mask;
    if (request->revision != row.grant_revision || (mask & (1u << role)) == 0) {
        return AOTX_STATUS_FORBIDDEN;
    }
    if (row.cursor > request->output_bytes) {
        return AOTX_STATUS_CONFLICT;
    }
    *index = found;
    return AOTX_STATUS_OK;
}

AOTX_INLINE void core_watch_row_add(Core* core, uint32_t watch, uint32_t row_index,
                                    const aotx_watch_row& row)
{
    const uint32_t node_index = watch * kCoreWatchRowsMax + row_index;
    CoreWatchNode* const node = core_node_at(core, node_index);
    core_zero(node, sizeof *node);
    core_copy(node->id, row.id, sizeof node->id);
    node->cursor = row.cursor;
    node->watch = watch;
    node->row = row_index;
    node->known_phase = row.known_phase;
    node->known_cancel_requested = row.known_cancel_requested;
    node->request = kCoreNone;
    uint32_t index = kCoreNone;
    node->status = core_watch_row_status(*core, row, &index);
    if (node->status != AOTX_STATUS_OK) {
        core_watch_news(core, node_index);
        return;
    }
    CoreRequest* const request = core_request_at(core, index);
    node->request = index;
    node->previous = kCoreNone;
    node->next = request->watchers;
    if (node->next != kCoreNone) {
        core_node_at(core, node->next)->previous = node_index;
    }
    request->watchers = node_index;
    if (core_watch_behind(*node, *request)) {
        core_watch_news(core, node_index);
    }
}

AOTX_INLINE uint32_t core_answer_watch(CoreCall* call)
{
    Core* const core = call->core;
    const aotx_request_head& head = call->packet->head;
    if (!core_head_check(head) || call->packet->payload_status != AOTX_STATUS_OK) {
        return AOTX_STATUS_BAD_REQUEST;
    }
    if (head.runtime_epoch != core->limits.epoch) {
        return AOTX_STATUS_GONE;
    }
    const uint32_t older = core_watch_find(core, head.id);
    const uint32_t index = core_watch_free(core);
    if (head.count != 0 && index == kCoreNone) {
        return AOTX_STATUS_TOO_MANY;
    }

    if (older != kCoreNone) {
        core_watch_ready(core, older);
    }
    if (head.count == 0) {
        return AOTX_STATUS_OK;
    }
    CoreWatch* const watch = &core->watches[index];
    core_zero(watch, sizeof *watch);
    core_copy(watch->id, head.id, sizeof watch->id);
    watch->mailbox = call->mailbox;
    watch->rows_count = head.count;
    watch->deadline_ns = call->now_ns + core->limits.request_seconds_max * kCoreSecond;
    watch->news_first = kCoreNone;
    watch->news_last = kCoreNone;
    core->state->watches_count++;
    for (uint32_t i = 0; i < head.count; i++) {
        core_watch_row_add(core, index, i, core_payload_row<aotx_watch_row>(*call->packet, i));
    }
    if (core->state->closed != 0) {
        core_watch_ready(core, index);
    }
    call->parked = 1;
    return AOTX_STATUS_OK;
}

// The operations that need a grant, once the caller has one and its packet has its form.
AOTX_INLINE uint32_t core_answer_granted(CoreCall* call)
{
    switch (call->packet->head.operation) {
        case AOTX_OPERATION_INFORMATION:
        case AOTX_OPERATION_TELEMETRY:
            return core_answer_information(call);
        case AOTX_OPERATION_SUBMIT:
            return core_answer_submit(call);
        case AOTX_OPERATION_READ:
            return core_answer_read(call);
        case AOTX_OPERATION_CANCEL:
            return core_answer_cancel(call);
        case AOTX_OPERATION_MEDIA:
            return core_answer_media(call);
        case AOTX_OPERATION_POLICY:
            return core_answer_policy(call);
        default:
            return AOTX_STATUS_UNAVAILABLE;  // media reads, shared resources
    }
}

AOTX_INLINE uint32_t core_answer_status(CoreCall* call)
{
    const aotx_request_head& head = call->packet->head;
    if (call->packet->length_ok == 0 || head.magic != AOTX_MAGIC || head.zero_12 != 0 ||
        !core_all_zero(head.zero_92, sizeof head.zero_92)) {
        return AOTX_STATUS_BAD_REQUEST;
    }
    if (head.operation == AOTX_OPERATION_GRANTS) {
        return core_answer_grants(call);
    }
    if (head.operation == AOTX_OPERATION_WATCH) {
        return core_answer_watch(call);
    }
    // In any form but its own it is judged like an operation that nobody knows.
    if (head.operation == AOTX_OPERATION_DEVICE && core_head_check(head) &&
        call->packet->payload_status == AOTX_STATUS_OK) {
        return core_answer_device(call);
    }
    call->grant_index = core_grant_find(call->core, head.principal);
    if (call->grant_index == kCoreNone ||
        head.grant_revision != call->core->state->grants_revision) {
        return AOTX_STATUS_FORBIDDEN;
    }
    call->grant = core_grant_at(call->core, call->grant_index);
    // A submission's content is judged behind its epoch, with its other values.
    const bool payload_first = head.operation != AOTX_OPERATION_SUBMIT;
    if (!core_head_check(head) ||
        (payload_first && call->packet->payload_status != AOTX_STATUS_OK)) {
        return AOTX_STATUS_BAD_REQUEST;
    }
    return core_answer_granted(call);
}

// Answer a staged packet. The reply is written into frame (65536 bytes), its length is returned; 0
// means that the packet is parked and core_watch_next names it later.
AOTX_INLINE uint32_t core_answer(Core* core, const CorePacket& packet, uint32_t mailbox,
                                 uint64_t now_ns, uint8_t* frame)
{
    CoreCall call;
    core_zero(&call.reply, sizeof call.reply);
    call.core = core;
    call.packet = &packet;
    call.grant = nullptr;
    call.grant_index = kCoreNone;
    call.mailbox = mailbox;
    call.now_ns = now_ns;
    call.payload = frame + sizeof call.reply;
    call.parked = 0;
    const uint32_t status = core_answer_status(&call);
    if (call.parked != 0) {
        return 0;
    }
    const aotx_request_head& head = packet.head;
    call.reply.magic = AOTX_MAGIC;
    call.reply.status = status;
    core_copy(call.reply.principal, head.principal, sizeof call.reply.principal);
    call.reply.grant_revision = head.grant_revision;
    call.reply.runtime_epoch = core->limits.epoch;
    core_copy(call.reply.id, head.id, sizeof call.reply.id);
    call.reply.cursor = head.operation == AOTX_OPERATION_MEDIA_LIST ? 0 : head.cursor;
    core_copy(frame, &call.reply, sizeof call.reply);
    return static_cast<uint32_t>(sizeof call.reply) + call.reply.payload_bytes;
}

}  // namespace aotx
