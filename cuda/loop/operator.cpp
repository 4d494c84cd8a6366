// Purpose:  operating: takes posted packets, answers them, keeps the deadlines.
// Owns:     nothing of its own.
// Thread:   the operator, or the broker that helps; the turn and reply helpers also the stepper.
// Lifetime: loop_start to loop_stop.
#include "loop_state.h"
#include "trace.h"

namespace aotx {

void turn_take(Loop* loop) noexcept
{
    pthread_mutex_lock(&loop->turn);
}

void turn_give(Loop* loop, bool wake_broker) noexcept
{
    bool ring = false;
    if (wake_broker && loop->replies_pending != 0) {
        loop->replies_pending = 0;
        ring = broker_bell_due(&loop->broker_bell);
    }
    pthread_mutex_unlock(&loop->turn);
    if (ring) {
        broker_bell_ring(loop->broker_bell);
    }
}

void reply_post(Loop* loop, uint32_t mailbox, uint32_t length_bytes) noexcept
{
    aotx_mailbox_reply(&loop->mailboxes[mailbox], length_bytes);  // T3
    IndexList* const list = &loop->replies;
    const uint32_t tail = list->tail.load(std::memory_order_relaxed);
    list->items[tail & list->mask] = mailbox;
    list->tail.store(tail + 1u, std::memory_order_release);  // R1
    loop->replies_pending = 1;
}

void watches_flush(Loop* loop) noexcept
{
    for (;;) {
        const uint32_t mailbox = core_watch_next(&loop->core);
        if (mailbox == kCoreNone) {
            return;
        }
        const uint32_t length = core_watch_answer(&loop->core, loop->mailboxes[mailbox].frame);
        reply_post(loop, mailbox, length);
    }
}

namespace {

// Packets of one burst: behind them deadlines and the stepper get their turn.
constexpr uint32_t kDrainMax = 64;

// Answer one posted mailbox. The copy and its checks need no turn; the rest is short.
void operator_answer(Loop* loop, uint32_t mailbox)
{
    aotx_mailbox* const box = &loop->mailboxes[mailbox];
    if (aotx_mailbox_take(box) == 0) {  // T2
        return;
    }
    AOTX_TRACE_RANGE("answer", mailbox);
    core_stage(loop->core, box->frame, box->length_bytes, loop->packet);
    turn_take(loop);
    const uint32_t length =
        core_answer(&loop->core, *loop->packet, mailbox, clock_now_ns(), box->frame);
    loop->operations++;
    if (length != 0) {
        reply_post(loop, mailbox, length);
    }
    watches_flush(loop);
    turn_give(loop, false);
}

// Mailboxes that have been posted, kDrainMax at most. True when more are there.
bool operator_drain(Loop* loop)
{
    IndexList* const list = &loop->doorbell;
    uint32_t head = list->head.load(std::memory_order_relaxed);
    for (uint32_t i = 0; i < kDrainMax; i++) {
        if (head == list->tail.load(std::memory_order_acquire)) {  // D2
            return false;
        }
        const uint32_t mailbox = list->items[head & list->mask];
        head++;
        list->head.store(head, std::memory_order_release);
        AOTX_CORE_CHECK(mailbox < loop->mailboxes_count);
        operator_answer(loop, mailbox);
    }
    return true;
}

// End what is overdue, answer what that changed, wake the stepper if it has work, and announce the
// replies of the burst with one ring. Returns the next deadline; 0 when more is overdue already.
uint64_t operator_settle(Loop* loop)
{
    turn_take(loop);
    const uint64_t now_ns = clock_now_ns();
    const bool more = core_sweep(&loop->core, now_ns);
    core_watch_expire(&loop->core, now_ns);
    watches_flush(loop);
    const uint64_t deadline_ns = more ? 0 : core_deadline_next(&loop->core);
    const bool wake_stepper = loop->stepper_parked != 0 && core_work(&loop->core);
    if (wake_stepper) {
        loop->stepper_parked = 0;
    }
    turn_give(loop, true);
    if (wake_stepper) {
        bell_ring(&loop->stepper_bell);
    }
    return deadline_ns;
}

bool operator_spin(Loop* loop)
{
    const uint32_t head = loop->doorbell.head.load(std::memory_order_relaxed);
    if (loop->spin.now_ns == 0) {
        return false;
    }
    const uint64_t until_ns = clock_now_ns() + loop->spin.now_ns;
    do {
        for (uint32_t i = 0; i < 16; i++) {
            if (loop->doorbell.tail.load(std::memory_order_relaxed) != head) {
                spin_paid(&loop->spin);
                return true;
            }
            spin_pause();
        }
    } while (clock_now_ns() < until_ns);
    spin_wasted(&loop->spin);
    return false;
}

// count: of the bell, read before the deadline was settled, so that a helper's earlier deadline is
// not slept through.
void operator_park(Loop* loop, uint32_t count, uint64_t deadline_ns)
{
    loop->operator_parked.store(1, std::memory_order_relaxed);
    // P1, device side: parked is written, now look once more for work.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    const uint32_t tail = loop->doorbell.tail.load(std::memory_order_relaxed);
    const bool idle = tail == loop->doorbell.head.load(std::memory_order_relaxed) &&
                      loop->stopping.load(std::memory_order_relaxed) == 0;
    if (idle) {
        bell_sleep(&loop->operator_bell, count, deadline_ns);
    }
    loop->operator_parked.store(0, std::memory_order_relaxed);
}

}  // namespace

bool operator_help(Loop* loop) noexcept
{
    if (loop->stopping.load(std::memory_order_acquire) != 0 ||
        pthread_mutex_trylock(&loop->operating) != 0) {
        return false;
    }
    uint64_t deadline_ns = 0;
    bool more = true;
    while (more || deadline_ns == 0) {
        more = operator_drain(loop);
        deadline_ns = operator_settle(loop);
    }
    const bool earlier = deadline_ns < loop->operator_deadline_ns;
    pthread_mutex_unlock(&loop->operating);
    if (earlier) {
        bell_ring(&loop->operator_bell);  // it sleeps too long
    }
    return true;
}

void* operator_main(void* argument)
{
    Loop* const loop = static_cast<Loop*>(argument);
    while (loop->stopping.load(std::memory_order_acquire) == 0) {
        pthread_mutex_lock(&loop->operating);
        const uint32_t count = loop->operator_bell.count.load(std::memory_order_seq_cst);
        const bool more = operator_drain(loop);
        const uint64_t deadline_ns = operator_settle(loop);
        loop->operator_deadline_ns = deadline_ns;
        pthread_mutex_unlock(&loop->operating);
        if (more || deadline_ns == 0 || operator_spin(loop)) {
            continue;
        }
        operator_park(loop, count, deadline_ns);
    }
    // Stopping: end what is queued, answer what has been posted, then leave.
    pthread_mutex_lock(&loop->operating);
    while (operator_settle(loop) == 0) {
    }
    while (operator_drain(loop)) {
    }
    operator_settle(loop);
    pthread_mutex_unlock(&loop->operating);
    return nullptr;
}

}  // namespace aotx
