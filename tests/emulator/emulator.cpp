// Purpose:  the execution shim behind emulator.h.
// Owns:     the pool of drivers; each owns its fibers' stacks and its arena.
// Thread:   a driver belongs to one OS thread while a block runs; fibers never move between them.
// Lifetime: drivers are kept for ever, since a TSan fiber cannot be destroyed safely.
//
// This file is compiled without sanitizers: what it does must not look like accesses of the kernel.
// It tells them about fibers, memory and ordering through their interfaces instead.
#include "emulator.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#if !defined(EMU_ASAN)
#define EMU_ASAN 0
#endif
#if !defined(EMU_TSAN)
#define EMU_TSAN 0
#endif

extern "C" {
#if EMU_ASAN
void __sanitizer_start_switch_fiber(void** fake_stack_save, const void* bottom, size_t size);
void __sanitizer_finish_switch_fiber(void* fake_stack, const void** bottom_old, size_t* size_old);
void __asan_poison_memory_region(void const volatile* address, size_t size);
void __asan_unpoison_memory_region(void const volatile* address, size_t size);
#endif
#if EMU_TSAN
void* __tsan_get_current_fiber(void);
void* __tsan_create_fiber(unsigned flags);
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
void __tsan_acquire(void* address);
void __tsan_release(void* address);
#endif
void emu_switch(void** save, void* load);
}

#if !defined(__x86_64__)
#error "the emulator's context switch is written for x86-64; add one for this processor"
#endif
asm(R"(
.text
.globl emu_switch
.type emu_switch, @function
emu_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size emu_switch, .-emu_switch
)");

namespace emu {

constinit thread_local const ThreadView* current_view = nullptr;

namespace {

constexpr size_t kPageBytes = 4096;
constexpr size_t kStackBytes = (EMU_ASAN || EMU_TSAN) ? 256 * 1024 : 64 * 1024;
constexpr size_t kArenaBytes = 1024 * 1024;
constexpr size_t kArenaGapBytes = 64;
constexpr unsigned kWarpsMax = kBlockThreadsMax / kWarpLanes;
constexpr unsigned kAsyncMax = 256;
constexpr unsigned kQueueSlots = 2048;
constexpr uint64_t kIdleYieldsMax = 20'000'000;

void acquire_order([[maybe_unused]] void* word)
{
#if EMU_TSAN
    __tsan_acquire(word);
#endif
}
void release_order([[maybe_unused]] void* word)
{
#if EMU_TSAN
    __tsan_release(word);
#endif
}

struct Killed {};

enum class State : int { kReady, kBarrier, kGrid, kWarp, kDone };

struct Context {
    void* stack_pointer = nullptr;
    const void* bottom = nullptr;
    size_t bytes = 0;
    void* fake_stack = nullptr;
    void* tsan = nullptr;
};

struct Fiber {
    Context context;
    ThreadView view;
    unsigned linear = 0;
    State state = State::kDone;
    WarpOp op = WarpOp::kNone;
    unsigned mask = 0;
    uint64_t payload = 0;
    int argument = 0;
    int width = 32;
    int line = 0;
    uint64_t result = 0;
    AsyncCopy async[kAsyncMax];
    unsigned async_group[kAsyncMax];
    unsigned async_count = 0;
    unsigned async_groups = 0;  // committed so far
};

// Ordering words of a block. They live in the arena, which TSan forgets between blocks, so that no
// block orders another.
struct ArenaHead {
    uint64_t barrier[2];
    uint64_t warp[kWarpsMax][2];
};

struct Grid {
    const LaunchShape* shape = nullptr;
    void (*entry)(const void*) = nullptr;
    const void* argument = nullptr;
    uint64_t start = 0;  // ordering words: launch -> threads, threads -> return of the launch
    uint64_t end = 0;
    uint64_t sync[2] = {};
    unsigned blocks = 0;
    unsigned arrived = 0;
    unsigned finished = 0;
    unsigned generation = 0;
    int failed = 0;
    char error[2048] = {};
};

struct Driver {
    Context main;
    Context* previous = nullptr;
    std::vector<Fiber*> fibers;
    Fiber* by_thread[kBlockThreadsMax] = {};
    Fiber* running = nullptr;
    Grid* grid = nullptr;
    unsigned threads = 0;
    unsigned live = 0;
    uint16_t queue[kQueueSlots] = {};
    unsigned queue_head = 0;
    unsigned queue_count = 0;
    unsigned barrier_count = 0;
    unsigned barrier_phase = 0;
    int barrier_line = 0;
    State barrier_kind = State::kBarrier;
    Reduce barrier_reduce = Reduce::kNone;
    int sum_or = 0;
    int sum_and = 1;
    int sum_count = 0;
    int barrier_result = 0;
    unsigned warp_phase[kWarpsMax] = {};
    bool killing = false;
    char* arena = nullptr;
    size_t arena_used = 0;
    size_t arena_payload = 0;
    void* dynamic = nullptr;
    uint64_t blocks_run = 0;
    uint64_t idle_yields = 0;
    uint64_t random = 0;
};

constinit thread_local Driver* current_driver = nullptr;
constinit thread_local uint64_t block_epoch = 0;  // counted per OS thread, as sites are
constinit thread_local char error_text[2048] = {};

uint64_t seed_from_environment()
{
    const char* text = std::getenv("CUEMU_SEED");
    return text == nullptr ? 0 : std::strtoull(text, nullptr, 10);
}
uint64_t seed_value = seed_from_environment();

int pool_lock = 0;
std::vector<Driver*>* pool = nullptr;

Driver* pool_take()
{
    while (__atomic_exchange_n(&pool_lock, 1, __ATOMIC_ACQUIRE) != 0) {
        sched_yield();
    }
    Driver* driver = nullptr;
    if (pool != nullptr && !pool->empty()) {
        driver = pool->back();
        pool->pop_back();
    }
    __atomic_store_n(&pool_lock, 0, __ATOMIC_RELEASE);
    return driver != nullptr ? driver : new Driver;
}

void pool_give(Driver* driver)
{
    while (__atomic_exchange_n(&pool_lock, 1, __ATOMIC_ACQUIRE) != 0) {
        sched_yield();
    }
    if (pool == nullptr) {
        pool = new std::vector<Driver*>;
    }
    pool->push_back(driver);
    __atomic_store_n(&pool_lock, 0, __ATOMIC_RELEASE);
}

// Mapped by the system call itself, so that TSan does not take the new pages for a write.
void* map_raw(void* wanted, size_t bytes)
{
    const int flags =
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (wanted != nullptr ? MAP_FIXED_NOREPLACE : 0);
    const long address = syscall(SYS_mmap, wanted, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (address == -1 && wanted != nullptr) {
        return map_raw(nullptr, bytes);
    }
    if (address == -1) {
        std::fprintf(stderr, "emulator: no memory for %zu bytes\n", bytes);
        std::abort();
    }
    return reinterpret_cast<void*>(address);
}

// memset is intercepted by the sanitizers even when this file is not instrumented.
void fill(void* target, int byte, size_t bytes)
{
    asm volatile("rep stosb" : "+D"(target), "+c"(bytes) : "a"(byte) : "memory");
}

void jump(Driver* driver, Context* from, Context* to)
{
    driver->previous = from;
#if EMU_ASAN
    __sanitizer_start_switch_fiber(&from->fake_stack, to->bottom, to->bytes);
#endif
#if EMU_TSAN
    __tsan_switch_to_fiber(to->tsan, 1);  // 1: the switch orders nothing
#endif
    emu_switch(&from->stack_pointer, to->stack_pointer);
#if EMU_ASAN
    Context* const previous = driver->previous;
    __sanitizer_finish_switch_fiber(from->fake_stack, &previous->bottom, &previous->bytes);
#endif
}

void enqueue(Driver* driver, Fiber* fiber)
{
    fiber->state = State::kReady;
    driver->queue[(driver->queue_head + driver->queue_count) % kQueueSlots] =
        static_cast<uint16_t>(fiber->linear);
    driver->queue_count++;
}

Fiber* dequeue(Driver* driver)
{
    if (driver->queue_count == 0) {
        return nullptr;
    }
    if (seed_value != 0) {
        driver->random = driver->random * 6364136223846793005u + 1442695040888963407u;
        const unsigned pick = static_cast<unsigned>(driver->random >> 33) % driver->queue_count;
        uint16_t& a = driver->queue[driver->queue_head];
        uint16_t& b = driver->queue[(driver->queue_head + pick) % kQueueSlots];
        const uint16_t saved = a;
        a = b;
        b = saved;
    }
    const uint16_t thread = driver->queue[driver->queue_head];
    driver->queue_head = (driver->queue_head + 1) % kQueueSlots;
    driver->queue_count--;
    return driver->by_thread[thread];
}

// Leave the running fiber until somebody makes it ready again. The waiting state is already set.
void park(Driver* driver)
{
    Fiber* const self = driver->running;
    Fiber* const next = dequeue(driver);
    if (next == self) {
        return;
    }
    if (next == nullptr) {
        jump(driver, &self->context, &driver->main);
    } else {
        driver->running = next;
        current_view = &next->view;
        jump(driver, &self->context, &next->context);
    }
}

// Wait, then die when the block is being taken down.
void park_or_die(Driver* driver)
{
    park(driver);
    if (driver->killing) {
        throw Killed{};
    }
}

void record(Driver* driver, const char* text)
{
    if (driver->killing) {
        return;
    }
    driver->killing = true;
    Grid* const grid = driver->grid;
    if (__atomic_exchange_n(&grid->failed, 1, __ATOMIC_ACQ_REL) == 0) {
        std::snprintf(grid->error, sizeof grid->error, "%s", text);
    }
}

[[noreturn]] void raise(Driver* driver, const char* text)
{
    record(driver, text);
    throw Killed{};
}

const char* op_name(WarpOp op)
{
    static const char* const names[] = {
        "none",         "__syncwarp",         "shuffle by index", "shuffle up",
        "shuffle down", "shuffle xor",        "ballot",           "any",
        "all",          "tensor-core product"};
    return names[static_cast<int>(op)];
}

void barrier_clear(Driver* driver)
{
    driver->barrier_count = 0;
    driver->barrier_line = 0;
    driver->sum_or = 0;
    driver->sum_and = 1;
    driver->sum_count = 0;
}

void barrier_release(Driver* driver, const Fiber* self)
{
    const int results[] = {0, driver->sum_or, driver->sum_and, driver->sum_count};
    driver->barrier_result = results[static_cast<int>(driver->barrier_reduce)];
    driver->barrier_phase++;
    barrier_clear(driver);
    for (unsigned t = 0; t < driver->threads; t++) {
        Fiber* const fiber = driver->by_thread[t];
        if (fiber != self && (fiber->state == State::kBarrier || fiber->state == State::kGrid)) {
            enqueue(driver, fiber);
        }
    }
}

// All threads of this block have come to the grid barrier: meet the other blocks.
const char* grid_meet(Driver* driver)
{
    Grid* const grid = driver->grid;
    const unsigned generation = __atomic_load_n(&grid->generation, __ATOMIC_ACQUIRE);
    if (__atomic_add_fetch(&grid->arrived, 1, __ATOMIC_ACQ_REL) == grid->blocks) {
        __atomic_store_n(&grid->arrived, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&grid->generation, generation + 1, __ATOMIC_RELEASE);
        return nullptr;
    }
    while (__atomic_load_n(&grid->generation, __ATOMIC_ACQUIRE) == generation) {
        if (__atomic_load_n(&grid->failed, __ATOMIC_ACQUIRE) != 0) {
            return "another block failed";
        }
        if (__atomic_load_n(&grid->finished, __ATOMIC_ACQUIRE) != 0) {
            return "a block left the grid before its barrier";
        }
        sched_yield();
    }
    return nullptr;
}

bool lane_reads(WarpOp op, int lane, int argument, int width, int* source)
{
    const int segment = lane & ~(width - 1);
    *source = lane;
    if (op == WarpOp::kIndex) {
        *source = segment | (argument & (width - 1));
    } else if (op == WarpOp::kUp && lane - argument >= segment) {
        *source = lane - argument;
    } else if (op == WarpOp::kDown && lane + argument < segment + width) {
        *source = lane + argument;
    } else if (op == WarpOp::kXor && (lane ^ argument) < segment + width) {
        *source = lane ^ argument;
    }
    return op == WarpOp::kIndex || op == WarpOp::kUp || op == WarpOp::kDown || op == WarpOp::kXor;
}

float fragment(uint32_t word, unsigned index, bool bfloat)
{
    const uint16_t bits = static_cast<uint16_t>(word >> (index * 16));
    return bfloat ? bfloat_to_float(bits) : half_to_float(bits);
}

// m16n8k16, row times column, as the PTX manual lays the fragments over the lanes.
void mma_tile(Fiber* const* lanes)
{
    float a[16][16];
    float b[16][8];
    for (unsigned lane = 0; lane < kWarpLanes; lane++) {
        MmaFragments parts;
        std::memcpy(&parts, reinterpret_cast<const void*>(lanes[lane]->payload), sizeof parts);
        const unsigned group = lane / 4;
        const unsigned pair = lane % 4 * 2;
        for (unsigned i = 0; i < 2; i++) {
            a[group][pair + i] = fragment(parts.a[0], i, parts.bfloat);
            a[group + 8][pair + i] = fragment(parts.a[1], i, parts.bfloat);
            a[group][pair + 8 + i] = fragment(parts.a[2], i, parts.bfloat);
            a[group + 8][pair + 8 + i] = fragment(parts.a[3], i, parts.bfloat);
            b[pair + i][group] = fragment(parts.b[0], i, parts.bfloat);
            b[pair + 8 + i][group] = fragment(parts.b[1], i, parts.bfloat);
        }
    }
    float c[16][8] = {};
    for (unsigned row = 0; row < 16; row++) {
        for (unsigned k = 0; k < 16; k++) {
            for (unsigned column = 0; column < 8; column++) {
                c[row][column] += a[row][k] * b[k][column];
            }
        }
    }
    for (unsigned lane = 0; lane < kWarpLanes; lane++) {
        const auto* parts = reinterpret_cast<const MmaFragments*>(lanes[lane]->payload);
        for (unsigned i = 0; i < 4; i++) {
            parts->d[i] += c[lane / 4 + (i / 2) * 8][lane % 4 * 2 + i % 2];
        }
    }
}

struct WarpMeeting {
    Fiber* lanes[kWarpLanes];
    unsigned present;  // lanes of the mask that take part
};

// True when every lane of self's mask has come or exited. text is set when they cannot meet.
bool warp_met(Driver* driver, const Fiber* self, WarpMeeting* meeting, const char** text)
{
    const unsigned first = self->linear / kWarpLanes * kWarpLanes;
    bool all = true;
    meeting->present = 0;
    for (unsigned lane = 0; lane < kWarpLanes; lane++) {
        meeting->lanes[lane] = nullptr;
        if ((self->mask >> lane & 1) == 0 || first + lane >= driver->threads) {
            continue;
        }
        Fiber* const other = driver->by_thread[first + lane];
        if (other->state == State::kDone) {
            continue;
        }
        if (other->state != State::kWarp) {
            all = false;
            continue;
        }
        if (other->op != self->op || other->mask != self->mask) {
            *text = other->op != self->op ? "lanes met at different warp operations"
                                          : "lanes met at one warp operation with different masks";
            return false;
        }
        meeting->lanes[lane] = other;
        meeting->present |= 1u << lane;
    }
    return all;
}

const char* warp_compute(Fiber* self, const WarpMeeting* meeting)
{
    unsigned ballot = 0;
    for (unsigned lane = 0; lane < kWarpLanes; lane++) {
        if (meeting->lanes[lane] != nullptr && meeting->lanes[lane]->payload != 0) {
            ballot |= 1u << lane;
        }
    }
    if (self->op == WarpOp::kMma) {
        if (meeting->present != 0xffffffffu) {
            return "a tensor-core product needs all 32 lanes";
        }
        mma_tile(meeting->lanes);
        return nullptr;
    }
    for (unsigned lane = 0; lane < kWarpLanes; lane++) {
        Fiber* const fiber = meeting->lanes[lane];
        if (fiber == nullptr) {
            continue;
        }
        int source = 0;
        if (lane_reads(fiber->op, static_cast<int>(lane), fiber->argument, fiber->width, &source)) {
            if (source < 0 || source >= 32 || (meeting->present >> source & 1) == 0) {
                return "a shuffle reads a lane that takes no part or has exited";
            }
            fiber->result = meeting->lanes[source]->payload;
        } else if (fiber->op == WarpOp::kBallot) {
            fiber->result = ballot;
        } else if (fiber->op == WarpOp::kAny) {
            fiber->result = ballot != 0;
        } else {
            fiber->result = ballot == meeting->present;
        }
    }
    return nullptr;
}

// Complete the operation that self waits for, if every lane is there. True when it is done; self is
// not made ready when it is the running fiber.
bool warp_try(Driver* driver, Fiber* self, const char** text)
{
    WarpMeeting meeting;
    if (!warp_met(driver, self, &meeting, text)) {
        return false;
    }
    *text = warp_compute(self, &meeting);
    if (*text != nullptr) {
        return false;
    }
    if (self->op == WarpOp::kSync) {
        driver->warp_phase[self->linear / kWarpLanes]++;
    }
    for (Fiber* const fiber : meeting.lanes) {
        if (fiber == nullptr) {
            continue;
        }
        if (fiber == driver->running) {
            fiber->state = State::kReady;
        } else {
            enqueue(driver, fiber);
        }
    }
    return true;
}

// A thread has ended: others may have waited only for it.
void finish_thread(Driver* driver, Fiber* self)
{
    self->state = State::kDone;
    driver->live--;
    if (driver->killing) {
        return;
    }
    const unsigned first = self->linear / kWarpLanes * kWarpLanes;
    for (unsigned t = first; t < first + kWarpLanes && t < driver->threads; t++) {
        Fiber* const fiber = driver->by_thread[t];
        const char* text = nullptr;
        if (fiber->state == State::kWarp) {
            (void)warp_try(driver, fiber, &text);
        }
        if (text != nullptr) {
            record(driver, text);
            return;
        }
    }
    if (driver->barrier_count != 0 && driver->barrier_count == driver->live) {
        if (driver->barrier_kind == State::kGrid) {
            const char* const text = grid_meet(driver);
            if (text != nullptr) {
                record(driver, text);
                return;
            }
        }
        barrier_release(driver, nullptr);
    }
}

void run_thread(Driver* driver, Fiber* self)
{
    Grid* const grid = driver->grid;
    acquire_order(&grid->start);
    try {
        if (!driver->killing) {
            grid->entry(grid->argument);
            if (self->async_count != 0) {
                record(driver, "a thread ended with asynchronous copies that nothing waited for");
            }
        }
    } catch (const Killed&) {
        // The stack is unwound; what remains is bookkeeping outside the handler.
    }
    release_order(&grid->end);
}

// Not inlined: a driver may serve another OS thread next time, so no thread-local address may be
// kept.
__attribute__((noinline)) void fiber_turn()
{
    Driver* const driver = current_driver;
    run_thread(driver, driver->running);
    finish_thread(driver, driver->running);
    park(driver);
}

// Owns no locals: it never returns, and what it left on the stack would look like a redzone to the
// next thread that this fiber serves.
void fiber_main()
{
#if EMU_ASAN
    __sanitizer_finish_switch_fiber(nullptr, &current_driver->previous->bottom,
                                    &current_driver->previous->bytes);
#endif
    for (;;) {
        fiber_turn();
    }
}

Fiber* fiber_create()
{
    Fiber* const fiber = new Fiber;
    char* const memory = static_cast<char*>(map_raw(nullptr, kStackBytes + kPageBytes));
    (void)syscall(SYS_mprotect, memory, kPageBytes, PROT_NONE);
    fiber->context.bottom = memory + kPageBytes;
    fiber->context.bytes = kStackBytes;
#if EMU_TSAN
    fiber->context.tsan = __tsan_create_fiber(0);
#endif
#if EMU_ASAN
    __asan_unpoison_memory_region(memory + kPageBytes, kStackBytes);
#endif
    // Six registers, then the return address; 16-byte alignment as after a call.
    void** top = reinterpret_cast<void**>(memory + kPageBytes + kStackBytes);
    *--top = nullptr;
    *--top = reinterpret_cast<void*>(&fiber_main);
    for (int i = 0; i < 6; i++) {
        *--top = nullptr;
    }
    fiber->context.stack_pointer = top;
    return fiber;
}

void* arena_take(Driver* driver, size_t bytes, size_t align)
{
    const size_t limit = driver->grid->shape->shared_limit;
    const size_t begin = (driver->arena_used + kArenaGapBytes + align - 1) / align * align;
    driver->arena_payload += bytes;
    if (driver->arena_payload > limit || begin + bytes + kArenaGapBytes > kArenaBytes) {
        return nullptr;
    }
    char* const memory = driver->arena + begin;
#if EMU_ASAN
    __asan_unpoison_memory_region(memory, bytes);
#endif
    fill(memory, 0xff, bytes);
    driver->arena_used = begin + bytes;
    return memory;
}

void arena_reset(Driver* driver)
{
    if (driver->arena == nullptr) {
        driver->arena = static_cast<char*>(map_raw(nullptr, kArenaBytes));
    } else if (EMU_TSAN) {
        char* const old = driver->arena;
        munmap(old, kArenaBytes);  // TSan sees this and forgets the block's accesses
        driver->arena = static_cast<char*>(map_raw(old, kArenaBytes));
    }
#if EMU_ASAN
    __asan_poison_memory_region(driver->arena, kArenaBytes);
#endif
    driver->arena_used = sizeof(ArenaHead);
    driver->arena_payload = 0;
}

ArenaHead* arena_head(Driver* driver)
{
    return reinterpret_cast<ArenaHead*>(driver->arena);
}

void describe_waits(const Driver* driver, char* text, size_t bytes)
{
    size_t used = static_cast<size_t>(std::snprintf(text, bytes, "deadlock:"));
    unsigned shown = 0;
    for (unsigned t = 0; t < driver->threads && shown < 8; t++) {
        const Fiber* const fiber = driver->by_thread[t];
        if (fiber->state == State::kDone || used >= bytes) {
            continue;
        }
        const char* const what = fiber->state == State::kBarrier ? "the block barrier"
                                 : fiber->state == State::kGrid  ? "the grid barrier"
                                                                 : op_name(fiber->op);
        used += static_cast<size_t>(std::snprintf(text + used, bytes - used,
                                                  " thread %u waits for %s at line %d;", t, what,
                                                  fiber->line));
        shown++;
    }
}

void take_down(Driver* driver)
{
    driver->killing = true;
    for (unsigned t = 0; t < driver->threads; t++) {
        Fiber* const fiber = driver->by_thread[t];
        if (fiber->state != State::kDone && fiber->state != State::kReady) {
            enqueue(driver, fiber);
        }
    }
}

void drive(Driver* driver)
{
    while (driver->live != 0) {
        Fiber* const next = dequeue(driver);
        if (next != nullptr) {
            driver->running = next;
            current_view = &next->view;
            jump(driver, &driver->main, &next->context);
            if (driver->killing) {
                take_down(driver);
            }
            continue;
        }
        char text[2048];
        describe_waits(driver, text, sizeof text);
        record(driver, text);
        take_down(driver);
    }
    current_view = nullptr;
    driver->running = nullptr;
}

void place_threads(Driver* driver, uint3 block)
{
    const LaunchShape& shape = *driver->grid->shape;
    for (unsigned t = 0; t < driver->threads; t++) {
        // Under TSan equal thread numbers of different blocks must not share one fiber, or their
        // accesses would look like one thread's.
        const size_t turn = EMU_TSAN ? driver->blocks_run : 0;
        Fiber* const fiber = driver->fibers[(t + turn) % driver->fibers.size()];
        driver->by_thread[t] = fiber;
        fiber->linear = t;
        fiber->view.thread = {t % shape.block.x, t / shape.block.x % shape.block.y,
                              t / shape.block.x / shape.block.y};
        fiber->view.block = block;
        fiber->view.block_dim = {shape.block.x, shape.block.y, shape.block.z};
        fiber->view.grid_dim = {shape.grid.x, shape.grid.y, shape.grid.z};
        fiber->async_count = 0;
        fiber->async_groups = 0;
        fiber->op = WarpOp::kNone;
    }
}

void run_block(Driver* driver, uint3 block)
{
    const LaunchShape& shape = *driver->grid->shape;
    driver->threads = shape.block.x * shape.block.y * shape.block.z;
    const bool grows = driver->fibers.size() < driver->threads;
    while (driver->fibers.size() < driver->threads) {
        driver->fibers.push_back(fiber_create());
    }
    if (grows) {
        release_order(&driver->grid->start);  // a new allocation counts as a write
    }
    driver->live = driver->threads;
    driver->queue_head = 0;
    driver->queue_count = 0;
    driver->killing = false;
    driver->idle_yields = 0;
    driver->random = seed_value * 2654435761u + driver->blocks_run;
    barrier_clear(driver);
    arena_reset(driver);
    block_epoch++;
    place_threads(driver, block);
    driver->dynamic =
        shape.shared_bytes == 0 ? nullptr : arena_take(driver, shape.shared_bytes, 128);
    if (shape.shared_bytes != 0 && driver->dynamic == nullptr) {
        record(driver, "dynamic shared memory is over the limit of the launch");
    }
    for (unsigned t = 0; t < driver->threads; t++) {
        enqueue(driver, driver->by_thread[t]);
    }
    drive(driver);
    driver->blocks_run++;
}

void bind(Driver* driver, Grid* grid)
{
    driver->grid = grid;
    current_driver = driver;
#if EMU_TSAN
    driver->main.tsan = __tsan_get_current_fiber();
    release_order(&grid->start);  // the OS thread's own thread-local memory counts as written by it
#endif
}

void run_cooperative(Grid* grid)
{
    std::vector<std::thread> threads;
    const dim3 dims = grid->shape->grid;
    for (unsigned index = 0; index < grid->blocks; index++) {
        threads.emplace_back([grid, dims, index] {
            Driver* const driver = pool_take();
            bind(driver, grid);
            run_block(driver, {index % dims.x, index / dims.x % dims.y, index / dims.x / dims.y});
            __atomic_add_fetch(&grid->finished, 1, __ATOMIC_ACQ_REL);
            current_driver = nullptr;
            pool_give(driver);
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
}

void run_plain(Grid* grid)
{
    Driver* const driver = pool_take();
    bind(driver, grid);
    const dim3 dims = grid->shape->grid;
    for (unsigned index = 0; index < grid->blocks && grid->failed == 0; index++) {
        run_block(driver, {index % dims.x, index / dims.x % dims.y, index / dims.x / dims.y});
    }
    current_driver = nullptr;
    pool_give(driver);
}

}  // namespace

bool launch(const LaunchShape& shape, void (*entry)(const void*), const void* argument)
{
    const unsigned threads = shape.block.x * shape.block.y * shape.block.z;
    const uint64_t blocks = uint64_t{shape.grid.x} * shape.grid.y * shape.grid.z;
    if (current_driver != nullptr || threads == 0 || threads > kBlockThreadsMax || blocks == 0 ||
        blocks > 0x7fffffff || shape.grid.y > 65535 || shape.grid.z > 65535) {
        std::snprintf(error_text, sizeof error_text, "launch shape is not one that a device takes");
        return false;
    }
    Grid* const grid = new Grid;
    grid->shape = &shape;
    grid->entry = entry;
    grid->argument = argument;
    grid->blocks = static_cast<unsigned>(blocks);
    release_order(&grid->start);
    if (shape.cooperative) {
        run_cooperative(grid);
    } else {
        run_plain(grid);
    }
    acquire_order(&grid->end);
    const bool good = grid->failed == 0;
    if (!good) {
        std::snprintf(error_text, sizeof error_text, "%s", grid->error);
    }
    delete grid;
    return good;
}

const char* last_error()
{
    return error_text;
}
void clear_error()
{
    error_text[0] = '\0';
}
void set_seed(uint64_t seed)
{
    seed_value = seed;
}

void fail(const char* text, int line)
{
    char report[512];
    std::snprintf(report, sizeof report, "%s (line %d, thread %u)", text, line,
                  current_driver->running->linear);
    raise(current_driver, report);
}

void* shared_site(SharedSite* site, size_t bytes, size_t align)
{
    Driver* const driver = current_driver;
    if (site->epoch != block_epoch) {
        site->memory = arena_take(driver, bytes, align < 16 ? 16 : align);
        site->epoch = block_epoch;
        if (site->memory == nullptr) {
            raise(driver, "static shared memory is over the limit of the launch");
        }
    }
    return site->memory;
}

void* shared_dynamic()
{
    if (current_driver->dynamic == nullptr) {
        raise(current_driver, "dynamic shared memory used, but the launch gives none");
    }
    return current_driver->dynamic;
}

static void barrier_arrive(Driver* driver, Fiber* self, State kind, Reduce reduce, int line)
{
    if (driver->killing) {
        throw Killed{};
    }
    self->line = line;
    if (driver->barrier_count == 0) {
        driver->barrier_line = line;
        driver->barrier_kind = kind;
        driver->barrier_reduce = reduce;
    } else if (driver->barrier_line != line || driver->barrier_kind != kind) {
        char text[160];
        std::snprintf(
            text, sizeof text,
            "threads of one block are at different barriers: line %d and line %d (thread %u)",
            driver->barrier_line, line, self->linear);
        raise(driver, text);
    }
    driver->barrier_count++;
    driver->idle_yields = 0;
}

int block_barrier(Reduce reduce, int predicate, int line)
{
    Driver* const driver = current_driver;
    Fiber* const self = driver->running;
    barrier_arrive(driver, self, State::kBarrier, reduce, line);
    driver->sum_or |= predicate != 0;
    driver->sum_and &= predicate != 0;
    driver->sum_count += predicate != 0;
    uint64_t* const word = &arena_head(driver)->barrier[driver->barrier_phase % 2];
    release_order(word);
    if (driver->barrier_count == driver->live) {
        barrier_release(driver, self);
    } else {
        self->state = State::kBarrier;
        park_or_die(driver);
    }
    acquire_order(word);
    return driver->barrier_result;
}

void grid_barrier(int line)
{
    Driver* const driver = current_driver;
    Fiber* const self = driver->running;
    Grid* const grid = driver->grid;
    if (!grid->shape->cooperative) {
        raise(driver, "grid barrier in a launch that is not cooperative");
    }
    barrier_arrive(driver, self, State::kGrid, Reduce::kNone, line);
    uint64_t* const word = &grid->sync[__atomic_load_n(&grid->generation, __ATOMIC_ACQUIRE) % 2];
    release_order(word);
    if (driver->barrier_count == driver->live) {
        const char* const text = grid_meet(driver);
        if (text != nullptr) {
            raise(driver, text);
        }
        barrier_release(driver, self);
    } else {
        self->state = State::kGrid;
        park_or_die(driver);
    }
    acquire_order(word);
}

void yield_thread()
{
    Driver* const driver = current_driver;
    if (driver == nullptr) {
        sched_yield();
        return;
    }
    if (driver->killing || __atomic_load_n(&driver->grid->failed, __ATOMIC_ACQUIRE) != 0) {
        driver->killing = true;
        throw Killed{};
    }
    if (++driver->idle_yields > kIdleYieldsMax) {
        raise(driver, "the block only spins: nothing that it waits for can come");
    }
    if (driver->idle_yields % 64 == 0) {
        sched_yield();
    }
    enqueue(driver, driver->running);
    park_or_die(driver);
}

uint64_t warp_collect(WarpOp op, unsigned mask, uint64_t value, int argument, int width, int line)
{
    Driver* const driver = current_driver;
    Fiber* const self = driver->running;
    if (driver->killing) {
        throw Killed{};
    }
    if ((mask >> (self->linear % kWarpLanes) & 1) == 0) {
        fail("a lane calls a warp operation whose mask leaves it out", line);
    }
    if (width <= 0 || width > 32 || (width & (width - 1)) != 0) {
        fail("shuffle width is not a power of two up to 32", line);
    }
    self->op = op;
    self->mask = mask;
    self->payload = value;
    self->argument = argument;
    self->width = width;
    self->line = line;
    self->state = State::kWarp;
    const unsigned warp = self->linear / kWarpLanes;
    uint64_t* const word = &arena_head(driver)->warp[warp][driver->warp_phase[warp] % 2];
    if (op == WarpOp::kSync) {
        release_order(word);
    }
    const char* text = nullptr;
    const bool met = warp_try(driver, self, &text);
    if (text != nullptr) {
        self->state = State::kReady;
        fail(text, line);
    }
    if (!met) {
        park_or_die(driver);
    }
    if (op == WarpOp::kSync) {
        acquire_order(word);
    }
    driver->idle_yields = 0;
    return self->result;
}

void warp_mma(const MmaFragments* fragments, int line)
{
    (void)warp_collect(WarpOp::kMma, 0xffffffffu, reinterpret_cast<uint64_t>(fragments), 0, 32,
                       line);
}

float half_to_float(uint16_t bits)
{
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
    const uint32_t exponent = bits >> 10 & 31;
    const uint32_t fraction = bits & 1023;
    if (exponent == 0) {
        const float value = static_cast<float>(fraction) * 0x1p-24f;
        return sign != 0 ? -value : value;
    }
    const uint32_t high = exponent == 31 ? 255 : exponent + 112;
    return from_bits<float>(sign | high << 23 | fraction << 13);
}

float bfloat_to_float(uint16_t bits)
{
    return from_bits<float>(static_cast<uint32_t>(bits) << 16);
}

void async_copy16(void* shared_target, const void* source)
{
    Fiber* const self = current_driver->running;
    if (self->async_count == kAsyncMax) {
        fail("more asynchronous copies open than the emulator holds", 0);
    }
    if ((reinterpret_cast<uintptr_t>(shared_target) | reinterpret_cast<uintptr_t>(source)) % 16 !=
        0) {
        fail("asynchronous copy of 16 bytes from or to an address that is not aligned to 16", 0);
    }
    self->async[self->async_count] = {shared_target, source};
    self->async_group[self->async_count] = self->async_groups;
    self->async_count++;
}

void async_commit()
{
    current_driver->running->async_groups++;
}

unsigned async_due(unsigned groups_left, AsyncCopy* due, unsigned capacity)
{
    Fiber* const self = current_driver->running;
    unsigned taken = 0;
    unsigned kept = 0;
    for (unsigned i = 0; i < self->async_count; i++) {
        const bool covered = self->async_group[i] + groups_left < self->async_groups;
        if (covered && taken < capacity) {
            due[taken++] = self->async[i];
        } else {
            self->async[kept] = self->async[i];
            self->async_group[kept] = self->async_group[i];
            kept++;
        }
    }
    self->async_count = kept;
    return taken;
}

}  // namespace emu
