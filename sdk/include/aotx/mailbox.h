/* Purpose:  the mapped ring between broker and device: one header, then the mailboxes, and the turn
 *           that moves each.
 * Owns:     nothing; the ring is memory of the process that maps it.
 * Thread:   a mailbox has one owner at a time, named by its state word; see each function.
 * Lifetime: the ring outlives every broker and device thread that touches it.
 *
 * The state word is a turn token. Its owner alone may write it, so plain acquire loads and release
 * stores are enough: no read-modify-write crosses between host and device. The pairings carry
 * labels, and docs/mailbox.md argues why these are enough:
 *   T1 broker gives a request (release)  ->  T2 device takes it (acquire)
 *   T3 device gives a reply (release)    ->  T4 broker takes it (acquire) */
#ifndef AOTX_MAILBOX_H
#define AOTX_MAILBOX_H

#include "base.h"
#include "packet.h"

/* Users may include this header inside an extern "C" of their own, and with macros named min and
 * max, as some platform headers define them; the C++ library takes neither. */
#if defined(__CUDACC__)
#pragma push_macro("min")
#pragma push_macro("max")
#undef min
#undef max
extern "C++" {
#include <cuda/atomic>
}
#pragma pop_macro("max")
#pragma pop_macro("min")
#endif

#define AOTX_RING_SCHEMA 1u
#define AOTX_MAILBOX_CONTROL 0u /* index of the mailbox that grants travel on, and no other */

/* Value of a mailbox's state word: whose turn it is. */
enum aotx_turn {
    AOTX_TURN_BROKER = 0,  /* empty, the broker may fill it */
    AOTX_TURN_REQUEST = 1, /* the device may read it */
    AOTX_TURN_REPLY = 2    /* the broker may read the reply */
};

/* Head of the ring. */
typedef struct aotx_ring_head {
    uint32_t schema;      /* AOTX_RING_SCHEMA */
    uint32_t channels;    /* mailboxes that follow, the control mailbox included */
    uint32_t frame_bytes; /* AOTX_PACKET_BYTES_MAX */
    uint32_t zero_12;
    uint64_t closed; /* not 0: the device takes no more requests */
    uint64_t epoch;  /* the running activation */
    uint8_t zero_32[32];
} aotx_ring_head;
AOTX_SIZE(aotx_ring_head, 64);
AOTX_FIELD(aotx_ring_head, schema, 0, 4);
AOTX_FIELD(aotx_ring_head, channels, 4, 4);
AOTX_FIELD(aotx_ring_head, frame_bytes, 8, 4);
AOTX_FIELD(aotx_ring_head, zero_12, 12, 4);
AOTX_FIELD(aotx_ring_head, closed, 16, 8);
AOTX_FIELD(aotx_ring_head, epoch, 24, 8);
AOTX_FIELD(aotx_ring_head, zero_32, 32, 32);

/* One mailbox. */
typedef struct aotx_mailbox {
    uint64_t state;        /* enum aotx_turn */
    uint64_t generation;   /* counts requests; the reply belongs to the generation that asked */
    uint64_t length_bytes; /* of the packet in the frame, head included */
    uint8_t zero_24[40];
    uint8_t frame[65536];
} aotx_mailbox;
AOTX_SIZE(aotx_mailbox, 65600);
AOTX_FIELD(aotx_mailbox, state, 0, 8);
AOTX_FIELD(aotx_mailbox, generation, 8, 8);
AOTX_FIELD(aotx_mailbox, length_bytes, 16, 8);
AOTX_FIELD(aotx_mailbox, zero_24, 24, 40);
AOTX_FIELD(aotx_mailbox, frame, 64, 65536);

/* Read a word that the other side writes. Everything written before the matching aotx_word_store is
 * visible after. */
AOTX_INLINE uint64_t aotx_word_load(const uint64_t* word) AOTX_NOEXCEPT
{
#if defined(__CUDA_ARCH__)
    return cuda::atomic_ref<uint64_t, cuda::thread_scope_system>(*const_cast<uint64_t*>(word))
        .load(cuda::std::memory_order_acquire);
#else
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
#endif
}

/* Write a word that the other side reads; publishes everything written before. The caller is its
 * only writer now. */
AOTX_INLINE void aotx_word_store(uint64_t* word, uint64_t value) AOTX_NOEXCEPT
{
#if defined(__CUDA_ARCH__)
    cuda::atomic_ref<uint64_t, cuda::thread_scope_system>(*word).store(
        value, cuda::std::memory_order_release);
#else
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
#endif
}

/* Order an earlier store before a later load of another word (parking handshake only;
 * docs/mailbox.md, P1 and P2). */
AOTX_INLINE void aotx_fence_full(void) AOTX_NOEXCEPT
{
#if defined(__CUDA_ARCH__)
    cuda::atomic_thread_fence(cuda::std::memory_order_seq_cst, cuda::thread_scope_system);
#else
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

/* Broker: the frame is filled, hand it to the device. [broker thread, turn BROKER] */
AOTX_INLINE void aotx_mailbox_post(aotx_mailbox* box, uint64_t length_bytes) AOTX_NOEXCEPT
{
    box->length_bytes = length_bytes;
    box->generation++;
    /* T1: who sees REQUEST sees the length and every frame byte. */
    aotx_word_store(&box->state, AOTX_TURN_REQUEST);
}

/* Device: is there a request? True hands the frame to the caller. [device thread] */
AOTX_INLINE int aotx_mailbox_take(const aotx_mailbox* box) AOTX_NOEXCEPT
{
    return aotx_word_load(&box->state) == AOTX_TURN_REQUEST; /* T2 */
}

/* Device: the reply is in the frame, hand it back. [device thread, turn REQUEST] */
AOTX_INLINE void aotx_mailbox_reply(aotx_mailbox* box, uint64_t length_bytes) AOTX_NOEXCEPT
{
    box->length_bytes = length_bytes;
    aotx_word_store(&box->state, AOTX_TURN_REPLY); /* T3 */
}

/* Broker: has the reply come? True hands the frame to the caller. [broker thread] */
AOTX_INLINE int aotx_mailbox_replied(const aotx_mailbox* box) AOTX_NOEXCEPT
{
    return aotx_word_load(&box->state) == AOTX_TURN_REPLY; /* T4 */
}

/* Broker: the reply has been sent, the mailbox is empty again. [broker thread, turn REPLY] */
AOTX_INLINE void aotx_mailbox_empty(aotx_mailbox* box) AOTX_NOEXCEPT
{
    aotx_word_store(&box->state, AOTX_TURN_BROKER);
}

#endif
