// Purpose:  what the files of the CPU backend share: the loop object and the turn.
// Owns:     see Loop.
// Thread:   operator and stepper, under the turn where a field says so.
// Lifetime: as loop.h.
//
// Labels of the pairings, argued in docs/mailbox.md:
//   T1 -> T2  a request's bytes, broker to operator     (mailbox.h)
//   T3 -> T4  a reply's bytes, operator or stepper to broker
//   D1 -> D2  the posted list: broker writes doorbell.tail, operator reads it
//   R1 -> R2  the reply list: the turn's holder writes replies.tail, broker reads it
//   P1        parking of the operator: parked, fence, look again / list, fence, look at parked
//   P2        parking of the broker: the same with the roles exchanged
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "aotx/mailbox.h"
#include "cuda/core/answer.h"
#include "cuda/core/schedule.h"
#include "broker_bell.h"
#include "engine.h"
#include "loop.h"
#include "wait.h"

namespace aotx {

// A list of mailbox numbers from one side to the other. Each mailbox is in it at most once, so it
// never overflows. tail and head run freely.
struct IndexList {
    uint32_t* items;
    uint32_t mask;
    alignas(64) std::atomic<uint32_t> tail;
    alignas(64) std::atomic<uint32_t> head;
};

// One model as the loop runs it.
struct LoopEngine {
    TextEngine text;
};

struct Loop {
    const LoopBackend* backend;  // null: this is the CPU's own loop; see loop_backend.h

    // Constant after open.
    Core core;
    uint8_t* slab;
    uint64_t slab_bytes;
    aotx_ring_head* ring;
    aotx_mailbox* mailboxes;
    uint32_t mailboxes_count;
    uint64_t seed;
    uint32_t models_count;
    LoopEngine engines[kLoopModelsMax];

    // Lists, one writer and one reader each.
    IndexList doorbell;  // written by the broker (D1), read by the operator (D2)
    IndexList replies;   // written under the turn (R1), read by the broker (R2)

    // Parking. Each word has one writer; a bell may be rung by anyone.
    alignas(64) std::atomic<uint32_t> operator_parked;  // written by the operator
    BrokerBell broker_bell;
    Bell operator_bell;
    Bell stepper_bell;
    std::atomic<uint32_t> stopping;

    // Under the turn.
    alignas(64) mutable pthread_mutex_t turn;
    uint32_t stepper_parked;
    uint32_t replies_pending;  // 1: replies were listed since the broker was last woken
    uint64_t operations;

    // Under operating: the right to answer what has been posted. The broker takes it when it is
    // free and answers its own burst, which spares two thread switches an operation; otherwise
    // the operator has it and the broker rings.
    pthread_mutex_t operating;
    CorePacket* packet;
    uint64_t operator_deadline_ns;  // what the operator sleeps until, or is about to

    // The operator's own.
    SpinBudget spin;

    // The stepper's own.
    aotx_text_message* messages;  // [AOTX_SUBMIT_MESSAGES_MAX]
    aotx_text_part* parts;        // [AOTX_SUBMIT_MESSAGES_MAX * AOTX_SUBMIT_PARTS_MAX]
    CoreRow* rows;                // [kCoreSlotsMax]
    CoreToken* tokens;            // [kCoreSlotsMax]
    aotx_text_row* text_rows;     // [kCoreSlotsMax]
    SampleScratch* sample;

    pthread_t operator_thread;
    pthread_t stepper_thread;
    uint32_t started;
};

// Take the turn: the right to touch the core, the reply list and the fields marked so.
void turn_take(Loop* loop) noexcept;

// Give the turn back. wake_broker: replies listed so far are announced if the broker is parked.
void turn_give(Loop* loop, bool wake_broker) noexcept;

// Hand a finished frame back to the broker (T3) and list it (R1). [turn held]
void reply_post(Loop* loop, uint32_t mailbox, uint32_t length_bytes) noexcept;

// Answer every watch that is ready. [turn held]
void watches_flush(Loop* loop) noexcept;

// Answer everything that has been posted, on the calling thread. False, and nothing done, when the
// operator is at it or the loop is stopping; then the operator has to be rung. [broker thread]
[[nodiscard]] bool operator_help(Loop* loop) noexcept;

void* operator_main(void* loop);
void* stepper_main(void* loop);

}  // namespace aotx
