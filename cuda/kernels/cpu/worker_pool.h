// Purpose:  a fixed set of threads that runs one function on all of them, with barriers inside.
// Owns:     its threads.
// Thread:   open, run and close on one thread, which takes part as worker 0; barrier and claim on
//           the workers.
// Lifetime: open -> run... -> close (or destruction).
//
// A waiting worker spins for a bounded time and then sleeps in the kernel, so that an idle pool
// uses no CPU.
#pragma once

#include <atomic>
#include <cstdint>

namespace aotx {

constexpr uint32_t kWorkersMax = 256;

class WorkerPool {
public:
    using Function = void (*)(void* context, uint32_t worker);

    WorkerPool() noexcept = default;
    ~WorkerPool();
    WorkerPool(const WorkerPool&) = delete;
    WorkerPool& operator=(const WorkerPool&) = delete;

    // Start workers_count - 1 threads. False when the system refuses one; the pool stays closed.
    // workers_count: 1..kWorkersMax
    [[nodiscard]] bool open(uint32_t workers_count) noexcept;
    void close() noexcept;

    uint32_t workers_count() const noexcept { return workers_count_; }

    // Run function(context, 0..workers_count-1) once each, and return when all have. [hot]
    void run(Function function, void* context) noexcept;

    // Wait until every worker has come here. Everything written before is seen after. [hot]
    void barrier() noexcept;

private:
    struct Thread;
    void main_loop(uint32_t worker) noexcept;
    static void* thread_entry(void* argument) noexcept;

    // Words that workers wait on, each on a line of its own.
    alignas(64) std::atomic<uint32_t> start_{0};
    std::atomic<uint32_t> start_sleepers_{0};
    alignas(64) std::atomic<uint32_t> arrived_{0};
    alignas(64) std::atomic<uint32_t> phase_{0};
    std::atomic<uint32_t> phase_sleepers_{0};
    alignas(64) Function function_ = nullptr;
    void* context_ = nullptr;
    bool stopping_ = false;
    uint32_t workers_count_ = 0;
    Thread* threads_ = nullptr;
};

// Shared-out work: each call takes the next `size` of `count` units, until none is left.
class WorkCounter {
public:
    void reset() noexcept { next_.store(0, std::memory_order_relaxed); }

    // False when no unit is left. [hot, any worker]
    bool claim(uint32_t count, uint32_t size, uint32_t* begin, uint32_t* end) noexcept
    {
        if (next_.load(std::memory_order_relaxed) >= count) {
            return false;
        }
        const uint32_t first = next_.fetch_add(size, std::memory_order_relaxed);
        if (first >= count) {
            return false;
        }
        *begin = first;
        *end = count - first < size ? count : first + size;
        return true;
    }

private:
    alignas(64) std::atomic<uint32_t> next_{0};
};

}  // namespace aotx
