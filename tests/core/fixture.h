// Purpose:  a core in a slab of its own, with no loop: packets in, replies out, a stepper by hand.
//           Every call also proves that a refusal leaves no trace in the slab.
// Owns:     the slab and its audit.
// Thread:   the test's.
// Lifetime: one object a test.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "aotx/packet_check.h"
#include "aotx/submit.h"
#include "aotx/watch.h"
#include "cuda/core/answer.h"
#include "cuda/core/schedule.h"
#include "packets.h"

// A fixture is used by tests and by fuzz targets, so a broken property throws and says where.
#define CORE_REQUIRE(condition)                                                    \
    do {                                                                           \
        if (!(condition)) {                                                        \
            throw std::logic_error(std::string(#condition) + " at " __FILE__ ":" + \
                                   std::to_string(__LINE__));                      \
        }                                                                          \
    } while (0)

namespace core_test {

using packet_test::Bytes;
using packet_test::grants_packet;
using packet_test::head_of;
using packet_test::Id;
using packet_test::id_of;
using packet_test::packet_of;

constexpr uint64_t kEpoch = 7;

inline aotx::CoreModel model_of(uint32_t role)
{
    aotx::CoreModel model = {};
    model.role = role;
    model.modalities = AOTX_MODALITY_TEXT;
    model.slots_count = 4;
    model.sequence_tokens_max = 64;
    model.step_tokens_max = 16;
    model.step_rows_max = 4;
    model.page_tokens = 4;
    model.pages_count = 40;
    model.prompt_bytes_max = 1000;
    return model;
}

inline aotx::CoreLimits limits_of(uint32_t requests_max = 16)
{
    aotx::CoreLimits limits = {};
    limits.mailboxes_count = 8;
    limits.principals_max = 8;
    limits.requests_max = requests_max;
    limits.prompts_max = requests_max;
    limits.output_bytes_max = 256;
    limits.prompt_bytes_max = 2048;
    limits.request_seconds_max = 300;
    limits.upload_seconds_max = 120;
    limits.device = {AOTX_DEVICE_SCHEMA, AOTX_DEVICE_KIND_CPU, 1, 0, {'x', ' ', 'y'}, {'z'}};
    limits.grant_active_requests_max = 64;
    limits.models_count = 2;
    limits.epoch = kEpoch;
    limits.seed = 1;
    limits.hash_key[0] = 2;
    limits.hash_key[1] = 3;
    limits.service_allocation_bytes = 12345;
    limits.models[0] = model_of(AOTX_MODEL_ROLE_LANGUAGE);
    limits.models[1] = model_of(AOTX_MODEL_ROLE_LANGUAGE_Q4);
    return limits;
}

struct Reply {
    aotx_reply_head head = {};
    Bytes payload;
    bool parked = false;
    std::string text() const { return std::string(payload.begin(), payload.end()); }
};

inline Bytes submission_of(const std::string& text, uint32_t role = AOTX_MESSAGE_ROLE_USER)
{
    Bytes payload(20 + text.size());
    const uint32_t words[] = {1, role, 1, AOTX_PART_KIND_TEXT, static_cast<uint32_t>(text.size())};
    std::memcpy(payload.data(), words, sizeof words);
    std::memcpy(payload.data() + sizeof words, text.data(), text.size());
    return payload;
}

inline aotx_grant_row grant_of(const Id& principal, uint64_t revision)
{
    return packet_test::grant_of(principal, revision, 1000);
}

class Device {
public:
    explicit Device(const aotx::CoreLimits& limits = limits_of())
    {
        aotx::CoreLayout layout;
        aotx::core_layout(limits, &layout);
        slab_.resize(layout.total_bytes / 8u);
        aotx::core_carve(limits, reinterpret_cast<uint8_t*>(slab_.data()), &core);
        aotx::core_build(&core);
        packet_.reset(new aotx::CorePacket());
        frame_.resize(AOTX_PACKET_BYTES_MAX);
    }

    aotx::Core core;
    uint64_t now_ns = 1000;
    uint64_t revision = 0;
    bool prove_traces = true;

    // Answer a packet. Operations that only look, and refusals, must leave every byte of the slab.
    Reply call(const Bytes& packet, uint32_t mailbox = 1)
    {
        const std::vector<uint64_t> before = prove_traces ? slab_ : std::vector<uint64_t>();
        std::copy(packet.begin(), packet.end(), frame_.begin());
        aotx::core_stage(core, frame_.data(), packet.size(), packet_.get());
        const uint32_t length = aotx::core_answer(&core, *packet_, mailbox, now_ns, frame_.data());
        Reply reply;
        if (length == 0) {
            reply.parked = true;
            return reply;
        }
        reply = take(length);
        const uint32_t operation = packet_->head.operation;
        const bool changes =
            reply.head.status < 300 &&
            (operation == AOTX_OPERATION_GRANTS || operation == AOTX_OPERATION_SUBMIT ||
             operation == AOTX_OPERATION_CANCEL || operation == AOTX_OPERATION_WATCH);
        CORE_REQUIRE(!prove_traces || changes ||
                     std::memcmp(before.data(), slab_.data(), slab_.size() * 8u) == 0);
        return reply;
    }

    // Replies of the watches that are ready, by mailbox.
    std::map<uint32_t, Reply> flush()
    {
        std::map<uint32_t, Reply> replies;
        for (;;) {
            const uint32_t mailbox = aotx::core_watch_next(&core);
            if (mailbox == aotx::kCoreNone) {
                return replies;
            }
            const uint32_t length = aotx::core_watch_answer(&core, frame_.data());
            CORE_REQUIRE(replies.count(mailbox) == 0);
            replies[mailbox] = take(length);
        }
    }

    void grant(uint64_t new_revision, const std::vector<Id>& principals)
    {
        std::vector<aotx_grant_row> rows;
        for (const Id& principal : principals) {
            rows.push_back(grant_of(principal, new_revision));
        }
        CORE_REQUIRE(call(grants_packet(new_revision, rows), 0).head.status == 200);
        revision = new_revision;
    }
    aotx_request_head submit_head(const Id& principal, const Id& id, uint32_t tokens = 10,
                                  uint32_t role = AOTX_MODEL_ROLE_LANGUAGE)
    {
        aotx_request_head head = head_of(AOTX_OPERATION_SUBMIT, principal, revision);
        head.runtime_epoch = kEpoch;
        std::memcpy(head.id, id.bytes, 16);
        head.model_role = role;
        head.count = tokens;
        head.temperature = 1.0f;
        head.top_p = 1.0f;
        return head;
    }
    aotx_request_head request_head(uint32_t operation, const Id& principal, const Id& id,
                                   uint64_t cursor = 0)
    {
        aotx_request_head head = head_of(operation, principal, revision);
        head.runtime_epoch = kEpoch;
        std::memcpy(head.id, id.bytes, 16);
        head.cursor = cursor;
        return head;
    }
    Reply submit(const Id& principal, const Id& id, const std::string& text = "hi",
                 uint32_t tokens = 10, uint32_t role = AOTX_MODEL_ROLE_LANGUAGE)
    {
        return call(packet_of(submit_head(principal, id, tokens, role), submission_of(text)));
    }
    Reply read(const Id& principal, const Id& id, uint64_t cursor = 0)
    {
        return call(packet_of(request_head(AOTX_OPERATION_READ, principal, id, cursor), {}));
    }
    Reply cancel(const Id& principal, const Id& id, uint64_t cursor = 0)
    {
        return call(packet_of(request_head(AOTX_OPERATION_CANCEL, principal, id, cursor), {}));
    }
    Bytes watch_packet(const Id& watch, const std::vector<aotx_watch_row>& rows)
    {
        aotx_request_head head;
        aotx_request_head_begin(&head, AOTX_OPERATION_WATCH, nullptr, 0);
        head.runtime_epoch = kEpoch;
        std::memcpy(head.id, watch.bytes, 16);
        head.count = static_cast<uint32_t>(rows.size());
        Bytes payload(rows.size() * sizeof(aotx_watch_row));
        if (!rows.empty()) {
            std::memcpy(payload.data(), rows.data(), payload.size());
        }
        return packet_of(head, payload);
    }

    // ---- a stepper by hand ----

    // Close what has ended; with it its pages and slot come back.
    void close_slots(uint32_t model)
    {
        aotx::core_slots_sweep(&core, model);
        for (;;) {
            const uint32_t slot = aotx::core_slot_closing(&core, model);
            if (slot == aotx::kCoreNone) {
                return;
            }
            aotx::core_slot_release(&core, model, slot);
        }
    }
    // Start one queued request whose prompt renders to the given number of tokens. False: none.
    bool start(uint32_t model, uint32_t prompt_tokens, uint32_t failure = 0)
    {
        open(model);
        const uint32_t slot = aotx::core_start(&core, model);
        if (slot == aotx::kCoreNone) {
            return false;
        }
        int32_t* const tokens = aotx::core_slot_tokens_at(&core, model, slot);
        for (uint32_t i = 0; i < prompt_tokens && i < 64; i++) {
            tokens[i] = static_cast<int32_t>(i);
        }
        aotx::core_prepared(&core, model, slot, failure, prompt_tokens, prompt_tokens);
        open(model);
        return true;
    }
    void open(uint32_t model)
    {
        uint32_t tokens_max = 0;
        const uint32_t slot = aotx::core_reserve(&core, model, &tokens_max);
        if (slot != aotx::kCoreNone) {
            aotx::core_opened(&core, model, slot, aotx::kOpeningDone);
        }
    }
    // One step in which every row that samples gets the same token. Returns the rows.
    uint32_t step(uint32_t model, const std::string& bytes, uint32_t flags = 0, bool failed = false)
    {
        aotx::CoreRow rows[64];
        aotx::CoreToken tokens[64];
        const uint32_t rows_count = aotx::core_plan(&core, model, rows, 64);
        for (uint32_t i = 0; i < rows_count; i++) {
            tokens[i] = {reinterpret_cast<const uint8_t*>(bytes.data()),
                         static_cast<uint32_t>(bytes.size()),
                         flags,
                         1,
                         0,
                         0};
        }
        if (rows_count > 0) {
            aotx::core_commit(&core, model, rows, tokens, rows_count, failed ? 1u : 0u);
        }
        return rows_count;
    }
    // Run a model until nothing is left: each answer gets tokens of these bytes.
    void run(uint32_t model, const std::string& bytes)
    {
        for (;;) {
            close_slots(model);
            while (start(model, 3)) {
            }
            if (step(model, bytes) == 0) {
                return;
            }
        }
    }

    // Every table agrees with every other. Throws where it does not.
    void audit() const;

    const std::vector<uint64_t>& slab() const { return slab_; }

private:
    Reply take(uint32_t length)
    {
        Reply reply;
        CORE_REQUIRE(length >= AOTX_HEAD_BYTES && length <= AOTX_PACKET_BYTES_MAX);
        CORE_REQUIRE(aotx_reply_check(frame_.data(), length, &reply.head) == AOTX_OK);
        reply.payload.assign(frame_.begin() + AOTX_HEAD_BYTES, frame_.begin() + length);
        CORE_REQUIRE(reply.head.runtime_epoch == kEpoch);
        return reply;
    }

    std::vector<uint64_t> slab_;
    std::unique_ptr<aotx::CorePacket> packet_;
    Bytes frame_;
};

inline void audit_list(const aotx::Core& core, const aotx::CoreList& list, bool deadline,
                       std::set<uint32_t>* found)
{
    uint32_t previous = aotx::kCoreNone;
    uint32_t at = list.first;
    for (uint32_t i = 0; i < list.count; i++) {
        CORE_REQUIRE(at < core.limits.requests_max);
        const aotx::CoreRequest& request = core.requests[at];
        CORE_REQUIRE((deadline ? request.deadline_previous : request.previous) == previous);
        CORE_REQUIRE(found->insert(at).second);
        previous = at;
        at = deadline ? request.deadline_next : request.next;
    }
    CORE_REQUIRE(at == aotx::kCoreNone && list.last == previous);
}

inline void audit_model(const aotx::Core& core, uint32_t model, std::set<uint32_t>* queued)
{
    const aotx::CoreModelState& state = core.state->models[model];
    const aotx::CoreModel& limits = core.limits.models[model];
    uint32_t pages = state.pages_free;
    uint32_t busy = 0;
    uint32_t running = 0;
    uint32_t closing = 0;
    for (uint32_t i = limits.first_slot; i < limits.first_slot + limits.slots_count; i++) {
        const aotx::CoreSlot& slot = core.slots[i];
        pages += slot.pages;
        busy += slot.state != aotx::kSlotFree ? 1u : 0u;
        running += slot.state == aotx::kSlotRunning ? 1u : 0u;
        closing += slot.state == aotx::kSlotClosing ? 1u : 0u;
        CORE_REQUIRE((slot.state == aotx::kSlotWaiting) == (state.waiting == i));
        if (slot.request != aotx::kCoreNone) {
            CORE_REQUIRE(core.requests[slot.request].slot == i);
        }
    }
    CORE_REQUIRE(pages == limits.pages_count);
    CORE_REQUIRE(busy == state.busy_count && running == state.running_count);
    CORE_REQUIRE(closing == state.closing_count);
    uint32_t at = state.ring;
    uint32_t turns = 0;
    while (at != aotx::kCoreNone && (turns == 0 || at != state.ring)) {
        const aotx::CoreQueue& queue = core.queues[model * core.limits.principals_max + at];
        CORE_REQUIRE(queue.first != aotx::kCoreNone);
        for (uint32_t row = queue.first; row != aotx::kCoreNone; row = core.requests[row].next) {
            CORE_REQUIRE(core.requests[row].phase == AOTX_PHASE_QUEUED);
            CORE_REQUIRE(core.requests[row].grant == at && core.requests[row].model == model);
            CORE_REQUIRE(queued->insert(row).second);
        }
        at = queue.ring_next;
        turns++;
        CORE_REQUIRE(turns <= core.limits.principals_max);
    }
}

inline void Device::audit() const
{
    const aotx::CoreState& state = *core.state;
    std::set<uint32_t> seen;
    audit_list(core, state.ended, false, &seen);
    for (const uint32_t index : seen) {
        CORE_REQUIRE(aotx::core_phase_ended(core.requests[index].phase));
    }
    const size_t ended = seen.size();
    for (uint32_t at = state.request_free; at != aotx::kCoreNone;
         at = core.requests[at].hash_next) {
        CORE_REQUIRE(core.requests[at].phase == AOTX_PHASE_FREE);
        CORE_REQUIRE(core.requests[at].generation % 2u == 0u);
        CORE_REQUIRE(seen.insert(at).second);
    }
    std::set<uint32_t> dated;
    audit_list(core, state.deadline, true, &dated);
    std::vector<uint32_t> active(core.limits.principals_max);
    uint32_t active_count = 0;
    for (uint32_t i = 0; i < core.limits.requests_max; i++) {
        const aotx::CoreRequest& request = core.requests[i];
        const bool lives =
            request.phase >= AOTX_PHASE_QUEUED && !aotx::core_phase_ended(request.phase);
        CORE_REQUIRE(lives != (seen.count(i) == 1));
        CORE_REQUIRE((lives && request.ending == 0) == (dated.count(i) == 1));
        CORE_REQUIRE(lives == (request.prompt != aotx::kCoreNone));
        CORE_REQUIRE(request.output_bytes <= core.limits.output_bytes_max);
        if (lives) {
            active_count++;
            if (request.revision == state.grants_revision) {
                active[request.grant]++;
            }
        }
        if (request.phase != AOTX_PHASE_FREE) {
            CORE_REQUIRE(aotx::core_request_find(&core, request.principal, request.id) == i);
        }
    }
    CORE_REQUIRE(ended + active_count <= core.limits.requests_max);
    CORE_REQUIRE(state.prompts_free == core.limits.prompts_max - active_count);
    for (uint32_t i = 0; i < state.grants_count; i++) {
        CORE_REQUIRE(core.grants[i].active == active[i]);
        CORE_REQUIRE(aotx::core_grant_find(&core, core.grants[i].row.principal) == i);
    }
    std::set<uint32_t> queued;
    for (uint32_t model = 0; model < core.limits.models_count; model++) {
        audit_model(core, model, &queued);
    }
    uint32_t queued_count = 0;
    for (uint32_t i = 0; i < core.limits.requests_max; i++) {
        const aotx::CoreRequest& request = core.requests[i];
        queued_count += request.phase == AOTX_PHASE_QUEUED ? 1u : 0u;
        CORE_REQUIRE((request.phase == AOTX_PHASE_QUEUED &&
                      request.revision == state.grants_revision) == (queued.count(i) == 1));
    }
    CORE_REQUIRE(queued_count == state.queued_count);
}

}  // namespace core_test
