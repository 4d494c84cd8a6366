// Purpose:  watches: parked packets that wait for news of requests, and the news they get.
// Owns:     nothing; the rows are the core's tables.
// Thread:   whoever holds the turn.
// Lifetime: a watch lives from its packet to its answer.
//
// A request keeps a list of the rows that watch it. A change walks that list alone, so a step costs
// what has changed and not what is watched.
#pragma once

#include "layout.h"

namespace aotx {

AOTX_INLINE void core_watch_ready(Core* core, uint32_t index)
{
    CoreState* const state = core->state;
    CoreWatch* const watch = &core->watches[index];
    if (watch->ready != 0) {
        return;
    }
    watch->ready = 1;
    watch->ready_next = kCoreNone;
    if (state->ready_last == kCoreNone) {
        state->ready_first = index;
    } else {
        core->watches[state->ready_last].ready_next = index;
    }
    state->ready_last = index;
}

// Put a row into its watch's list of news.
AOTX_INLINE void core_watch_news(Core* core, uint32_t node_index)
{
    CoreWatchNode* const node = core_node_at(core, node_index);
    if (node->news != 0) {
        return;
    }
    CoreWatch* const watch = &core->watches[node->watch];
    node->news = 1;
    node->news_next = kCoreNone;
    if (watch->news_last == kCoreNone) {
        watch->news_first = node_index;
    } else {
        core_node_at(core, watch->news_last)->news_next = node_index;
    }
    watch->news_last = node_index;
    watch->news_count++;
    core_watch_ready(core, node->watch);
}

AOTX_INLINE bool core_watch_behind(const CoreWatchNode& node, const CoreRequest& request)
{
    return request.output_bytes > node.cursor || request.phase != node.known_phase ||
           request.cancel_requested != node.known_cancel_requested;
}

// A request has changed: tell the rows that are now behind it.
AOTX_INLINE void core_request_changed(Core* core, uint32_t index)
{
    const CoreRequest* const request = core_request_at(core, index);
    uint32_t at = request->watchers;
    while (at != kCoreNone) {
        const CoreWatchNode* const node = core_node_at(core, at);
        if (core_watch_behind(*node, *request)) {
            core_watch_news(core, at);
        }
        at = node->next;
    }
}

AOTX_INLINE void core_watch_unlink(Core* core, uint32_t node_index)
{
    CoreWatchNode* const node = core_node_at(core, node_index);
    if (node->request == kCoreNone) {
        return;
    }
    if (node->previous == kCoreNone) {
        core_request_at(core, node->request)->watchers = node->next;
    } else {
        core_node_at(core, node->previous)->next = node->next;
    }
    if (node->next != kCoreNone) {
        core_node_at(core, node->next)->previous = node->previous;
    }
    node->request = kCoreNone;
}

// Refuse a row from now on: its request has gone or its grant was replaced.
AOTX_INLINE void core_watch_refuse(Core* core, uint32_t node_index, uint32_t status)
{
    core_watch_unlink(core, node_index);
    core_node_at(core, node_index)->status = status;
    core_watch_news(core, node_index);
}

// The grants were replaced: every row of every watch names a revision that is no more.
AOTX_INLINE void core_watch_revoke(Core* core)
{
    for (uint32_t i = 0; i < kCoreWatchesMax; i++) {
        if (core->watches[i].mailbox == kCoreNone) {
            continue;
        }
        for (uint32_t row = 0; row < core->watches[i].rows_count; row++) {
            const uint32_t node = i * kCoreWatchRowsMax + row;
            if (core_node_at(core, node)->status == AOTX_STATUS_OK) {
                core_watch_refuse(core, node, AOTX_STATUS_FORBIDDEN);
            }
        }
    }
}

// The watch with this ID that has not been answered yet, or kCoreNone.
AOTX_INLINE uint32_t core_watch_find(const Core* core, const uint8_t id[16])
{
    for (uint32_t i = 0; i < kCoreWatchesMax; i++) {
        const CoreWatch& watch = core->watches[i];
        if (watch.mailbox != kCoreNone && watch.ready == 0 && core_id_equal(watch.id, id)) {
            return i;
        }
    }
    return kCoreNone;
}

AOTX_INLINE uint32_t core_watch_free(const Core* core)
{
    for (uint32_t i = 0; i < kCoreWatchesMax; i++) {
        if (core->watches[i].mailbox == kCoreNone) {
            return i;
        }
    }
    return kCoreNone;
}

// Answer the watches whose time has passed, so that a peer that has gone does not hold its mailbox.
AOTX_INLINE void core_watch_expire(Core* core, uint64_t now_ns)
{
    if (core->state->watches_count == 0) {
        return;
    }
    for (uint32_t i = 0; i < kCoreWatchesMax; i++) {
        const CoreWatch& watch = core->watches[i];
        if (watch.mailbox != kCoreNone && watch.deadline_ns <= now_ns) {
            core_watch_ready(core, i);
        }
    }
}

// Answer every watch now; the device stops.
AOTX_INLINE void core_watch_close(Core* core)
{
    for (uint32_t i = 0; i < kCoreWatchesMax; i++) {
        if (core->watches[i].mailbox != kCoreNone) {
            core_watch_ready(core, i);
        }
    }
}

// Write one row's news at payload. Returns the bytes written, 0 when the row finds no room.
AOTX_INLINE uint32_t core_watch_write(const Core* core, const CoreWatchNode& node, uint8_t* payload,
                                      uint32_t room_bytes, uint32_t data_bytes_max)
{
    aotx_watch_news news;
    core_zero(&news, sizeof news);
    if (room_bytes < sizeof news) {
        return 0;
    }
    core_copy(news.id, node.id, sizeof news.id);
    news.cursor = node.cursor;
    news.row = node.row;
    news.status = node.status;
    if (node.status == AOTX_STATUS_OK) {
        const CoreRequest* const request = core_request_at(core, node.request);
        const uint32_t room = (room_bytes - static_cast<uint32_t>(sizeof news)) / 8u * 8u;
        uint32_t data = request->output_bytes - static_cast<uint32_t>(node.cursor);
        data = data < data_bytes_max ? data : data_bytes_max;
        data = data < room ? data : room;
        news.phase = request->phase;
        news.model_role = core->limits.models[request->model].role;
        news.output_bytes = request->output_bytes;
        news.prompt_tokens = request->prompt_tokens;
        news.sampled_tokens = request->sampled_tokens;
        news.finish = request->finish;
        news.failure_status = request->failure_status;
        news.cancel_requested = request->cancel_requested;
        news.data_bytes = data;
        core_copy(payload + sizeof news, core_output_at(core, node.request) + node.cursor, data);
    }
    core_copy(payload, &news, sizeof news);
    uint32_t bytes = static_cast<uint32_t>(sizeof news) + news.data_bytes;
    for (; bytes % 8u != 0; bytes++) {
        payload[bytes] = 0;
    }
    return bytes;
}

// Take the watch out of every list and free its row.
AOTX_INLINE void core_watch_release(Core* core, uint32_t index)
{
    CoreWatch* const watch = &core->watches[index];
    for (uint32_t row = 0; row < watch->rows_count; row++) {
        const uint32_t node = index * kCoreWatchRowsMax + row;
        core_watch_unlink(core, node);
        core_node_at(core, node)->news = 0;
    }
    watch->mailbox = kCoreNone;
    watch->rows_count = 0;
    watch->ready = 0;
    core->state->watches_count--;
}

// The mailbox of the next watch to answer, or kCoreNone.
AOTX_INLINE uint32_t core_watch_next(const Core* core)
{
    const uint32_t index = core->state->ready_first;
    return index == kCoreNone ? kCoreNone : core->watches[index].mailbox;
}

// Build the answer of the watch that core_watch_next names, free it, return the packet's length.
// frame: the watch's mailbox frame, 65536 bytes.
AOTX_INLINE uint32_t core_watch_answer(Core* core, uint8_t* frame)
{
    CoreState* const state = core->state;
    const uint32_t index = state->ready_first;
    AOTX_CORE_CHECK(index != kCoreNone);
    CoreWatch* const watch = &core->watches[index];
    state->ready_first = watch->ready_next;
    if (state->ready_first == kCoreNone) {
        state->ready_last = kCoreNone;
    }
    aotx_reply_head head;
    core_zero(&head, sizeof head);
    head.magic = AOTX_MAGIC;
    head.status = AOTX_STATUS_OK;
    head.runtime_epoch = core->limits.epoch;
    core_copy(head.id, watch->id, sizeof head.id);
    // A fair share for each row that has news, so that one long result does not keep the others
    // out of every packet.
    const uint32_t rows = watch->news_count == 0 ? 1u : watch->news_count;
    const uint32_t share = AOTX_PAYLOAD_BYTES_MAX / rows;
    const uint32_t head_bytes = static_cast<uint32_t>(sizeof(aotx_watch_news));
    const uint32_t data_bytes_max = share > head_bytes + 64u ? share - head_bytes : 64u;
    for (uint32_t at = watch->news_first; at != kCoreNone;) {
        const CoreWatchNode* const node = core_node_at(core, at);
        const uint32_t written =
            core_watch_write(core, *node, frame + AOTX_HEAD_BYTES + head.payload_bytes,
                             AOTX_PAYLOAD_BYTES_MAX - head.payload_bytes, data_bytes_max);
        if (written == 0) {
            break;
        }
        head.payload_bytes += written;
        head.output_bytes++;
        at = node->news_next;
    }
    core_copy(frame, &head, sizeof head);
    core_watch_release(core, index);
    return AOTX_HEAD_BYTES + head.payload_bytes;
}

}  // namespace aotx
