// Purpose:  worker threads, their barrier, and the bounded spin before they sleep.
// Owns:     the threads.
// Thread:   see worker_pool.h.
// Lifetime: see worker_pool.h.
#include "worker_pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>
#include <new>

#include "check.h"

namespace aotx {

namespace {

constexpr int64_t kSpinNs = 20'000;
constexpr uint32_t kSpinsPerClockRead = 64;

int64_t now_ns()
{
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

void pause_cpu()
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

uint32_t* futex_word(std::atomic<uint32_t>* word)
{
    return reinterpret_cast<uint32_t*>(word);
}

void futex_wake_all(std::atomic<uint32_t>* word)
{
    syscall(SYS_futex, futex_word(word), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

// Until *word differs from value: spin, then sleep. The sleeper count is raised before the last
// look at the word and the waker writes the word before it looks at the count (both sequentially
// consistent), so a wake-up is never lost.
void wait_while(std::atomic<uint32_t>* word, uint32_t value, std::atomic<uint32_t>* sleepers)
{
    const int64_t until_ns = now_ns() + kSpinNs;
    do {
        for (uint32_t i = 0; i < kSpinsPerClockRead; i++) {
            if (word->load(std::memory_order_acquire) != value) {
                return;
            }
            pause_cpu();
        }
    } while (now_ns() < until_ns);
    sleepers->fetch_add(1, std::memory_order_seq_cst);
    while (word->load(std::memory_order_seq_cst) == value) {
        syscall(SYS_futex, futex_word(word), FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
    }
    sleepers->fetch_sub(1, std::memory_order_relaxed);
}

void advance(std::atomic<uint32_t>* word, std::atomic<uint32_t>* sleepers)
{
    word->fetch_add(1, std::memory_order_seq_cst);
    if (sleepers->load(std::memory_order_seq_cst) != 0) {
        futex_wake_all(word);
    }
}

}  // namespace

struct WorkerPool::Thread {
    WorkerPool* pool;
    uint32_t worker;
    pthread_t handle;
};

WorkerPool::~WorkerPool()
{
    close();
}

bool WorkerPool::open(uint32_t workers_count) noexcept
{
    AOTX_KERNEL_CHECK(workers_count_ == 0);
    AOTX_KERNEL_CHECK(workers_count >= 1);
    AOTX_KERNEL_CHECK(workers_count <= kWorkersMax);
    threads_ = new (std::nothrow) Thread[workers_count];
    if (threads_ == nullptr) {
        return false;
    }
    stopping_ = false;
    start_.store(0, std::memory_order_relaxed);
    workers_count_ = 1;
    for (uint32_t worker = 1; worker < workers_count; worker++) {
        threads_[worker] = {this, worker, {}};
        Thread* const thread = &threads_[worker];
        if (pthread_create(&thread->handle, nullptr, &thread_entry, thread) != 0) {
            close();
            return false;
        }
        workers_count_++;
    }
    return true;
}

void WorkerPool::close() noexcept
{
    if (workers_count_ == 0) {
        return;
    }
    stopping_ = true;
    advance(&start_, &start_sleepers_);
    for (uint32_t worker = 1; worker < workers_count_; worker++) {
        pthread_join(threads_[worker].handle, nullptr);
    }
    delete[] threads_;
    threads_ = nullptr;
    workers_count_ = 0;
}

void* WorkerPool::thread_entry(void* argument) noexcept
{
    Thread* const thread = static_cast<Thread*>(argument);
    thread->pool->main_loop(thread->worker);
    return nullptr;
}

void WorkerPool::main_loop(uint32_t worker) noexcept
{
    // Threads start before the first run, so every one has seen the word at 0 or later; the count
    // of runs is what each follows.
    uint32_t seen = 0;
    for (;;) {
        wait_while(&start_, seen, &start_sleepers_);
        seen++;
        if (stopping_) {
            return;
        }
        function_(context_, worker);
        barrier();
    }
}

void WorkerPool::run(Function function, void* context) noexcept
{
    AOTX_KERNEL_CHECK(workers_count_ >= 1);
    if (workers_count_ == 1) {
        function(context, 0);
        return;
    }
    function_ = function;
    context_ = context;
    advance(&start_, &start_sleepers_);
    function(context, 0);
    barrier();
}

void WorkerPool::barrier() noexcept
{
    if (workers_count_ == 1) {
        return;
    }
    const uint32_t phase = phase_.load(std::memory_order_relaxed);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == workers_count_) {
        arrived_.store(0, std::memory_order_relaxed);
        advance(&phase_, &phase_sleepers_);
        return;
    }
    wait_while(&phase_, phase, &phase_sleepers_);
}

}  // namespace aotx
