// Purpose:  what host and device say to each other: the commands of one tick, its report, the verbs
// that it wants run, and where both sides find the rest.
// Owns:     nothing; HostShare is the registered region, DeviceShare lies in the device's slab.
// Thread:   the host's words are written by the thread that holds the turn, before the launch; the
// device's during it; the lists and mailboxes at any time, by the pairings of mailbox.h.
// Lifetime: from open to close.
//
// A tick answers what was posted, keeps deadlines, and, for the stepper, takes the results of the
// verbs of the last tick, then names the next: sequences to close and to open, a prompt to render,
// a step to run. The verbs of a model runtime run on the host between two ticks.
#pragma once

#include "aotx/mailbox.h"
#include "cuda/core/answer.h"
#include "cuda/core/schedule.h"

namespace aotx {

constexpr uint32_t kTickThreads = 128;
constexpr uint32_t kTickMailboxesMax = 64;  // answered in one round
constexpr uint32_t kTickRoundsMax = 16;     // rounds of one launch: bounds how long a tick takes
constexpr uint32_t kTickVerbsMax = kCoreSlotsMax + 1u;
constexpr uint32_t kTickTokenBytesMax = 4096;

// A list of mailbox numbers. tail and head run freely, each with one writer; each mailbox is in a
// list at most once, so a list never overflows.
struct TickList {
    uint64_t tail;
    uint64_t zero_8[7];
    uint64_t head;
    uint64_t zero_72[7];
    uint32_t items[1024];
};

enum TickVerbKind : uint32_t { kTickVerbClose = 1, kTickVerbOpen = 2, kTickVerbRender = 3 };

struct TickVerb {
    uint32_t kind;
    uint32_t slot;
    uint32_t size;    // open: tokens_max; render: bytes of the payload
    uint32_t result;  // in: open: CoreOpening; render: failure
    uint32_t fed_tokens;
    uint32_t prompt_tokens;
    uint8_t id[16];  // of the request
};

// Written by the host before a launch.
struct TickCommand {
    uint64_t now_ns;
    uint32_t close;          // 1: admit nothing more, end what runs
    uint32_t plan_model;     // the stepper's tick of this model; kCoreNone for the operator's
    uint32_t results_model;  // whose verbs and step have been run; kCoreNone: none
    uint32_t step_failed;
};

// Written by the device before the launch ends.
struct TickReport {
    uint64_t deadline_ns;  // 0: more is overdue already
    uint64_t operations;
    uint64_t counters[5];  // completed, failed, cancelled, prompt tokens, sampled tokens
    uint64_t steps;
    uint32_t queued;
    uint32_t running;
    uint32_t posted_left;  // 1: mailboxes are still posted
    uint32_t work;         // 1: some model has something to do
    uint32_t worked;       // stepper: this model had something to do
    uint32_t verbs_count;
    uint32_t rows_count;
    uint32_t zero_84;
};

// The registered host region. Mailboxes and the variable parts follow it at the offsets given.
struct HostShare {
    TickCommand command;
    alignas(64) TickReport report;
    alignas(64) TickList doorbell;  // written by the broker (D1), read by the device (D2)
    alignas(64) TickList replies;   // written by the device (R1), read by the broker (R2)
    alignas(64) TickVerb verbs[kTickVerbsMax];
    CoreRow rows[kCoreSlotsMax];      // tokens point into step_tokens
    CoreToken tokens[kCoreSlotsMax];  // bytes point into token_bytes, or a plain runtime's text
};

// What the kernels are given: one struct, copied into the program.
struct TickArgs {
    Core* core;  // device memory, as all but what is named host
    CorePacket* packet;
    uint8_t* frame;  // [65536] scratch of a packet, then of its reply
    CoreRow* rows;   // [kCoreSlotsMax] of the running step
    HostShare* host;
    aotx_ring_head* ring;     // host
    aotx_mailbox* mailboxes;  // host
    uint8_t* render_payload;  // host, [prompt_bytes_max]
    int32_t* render_tokens;   // host, [largest sequence_tokens_max]
    int32_t* step_tokens;     // host, [largest step_tokens_max]
    CoreSlot* slots;          // host, [slots of all models]: the slots of the planned rows
    uint64_t again;           // condition of the loop around the tick
    uint64_t* counters;       // device, [2]: operations, rounds of this launch
};

}  // namespace aotx
