// Purpose:  the worker pool runs everything once, its barrier holds, and idle workers sleep.
// Owns:     nothing.
// Thread:   main and the pool's.
// Lifetime: one run.
#include "cuda/kernels/cpu/worker_pool.h"

#include <time.h>

#include <catch2/catch.hpp>
#include <vector>

using namespace aotx;

namespace {

constexpr uint32_t kPhases = 200;
constexpr uint32_t kUnits = 37;

struct Job {
    WorkerPool* pool;
    std::vector<WorkCounter> counters = std::vector<WorkCounter>(kPhases);
    std::vector<uint32_t> done = std::vector<uint32_t>(kUnits);
    std::vector<uint32_t> wrong;

    explicit Job(WorkerPool* workers) : pool(workers), wrong(workers->workers_count()) {}

    // Each phase raises every unit by one; a worker that finds a unit behind met a leaky barrier.
    static void run(void* context, uint32_t worker)
    {
        Job* const job = static_cast<Job*>(context);
        for (uint32_t phase = 0; phase < kPhases; phase++) {
            uint32_t begin = 0;
            uint32_t end = 0;
            while (job->counters[phase].claim(kUnits, 2, &begin, &end)) {
                for (uint32_t unit = begin; unit < end; unit++) {
                    job->wrong[worker] += job->done[unit] == phase ? 0 : 1;
                    job->done[unit]++;
                }
            }
            job->pool->barrier();
        }
    }
};

// Time for workers to fall asleep, and then to show that they do.
void pause_ms(long milliseconds)
{
    const timespec time = {0, milliseconds * 1'000'000};
    nanosleep(&time, nullptr);
}

uint64_t cpu_ns()
{
    timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000u +
           static_cast<uint64_t>(time.tv_nsec);
}

}  // namespace

TEST_CASE("every unit of every phase runs once, in order")
{
    for (const uint32_t workers : {1u, 2u, 3u, 7u}) {
        INFO(workers);
        WorkerPool pool;
        REQUIRE(pool.open(workers));
        for (uint32_t round = 0; round < 3; round++) {
            Job job(&pool);
            pool.run(&Job::run, &job);
            for (const uint32_t wrong : job.wrong) {
                CHECK(wrong == 0);
            }
            for (const uint32_t done : job.done) {
                CHECK(done == kPhases);
            }
        }
    }
}

TEST_CASE("a pool can be closed and opened again")
{
    WorkerPool pool;
    for (uint32_t round = 0; round < 4; round++) {
        REQUIRE(pool.open(2 + round % 2));
        Job job(&pool);
        pool.run(&Job::run, &job);
        CHECK(job.done[kUnits - 1] == kPhases);
        pool.close();
    }
}

TEST_CASE("idle workers use no CPU")
{
    WorkerPool pool;
    REQUIRE(pool.open(4));
    Job job(&pool);
    pool.run(&Job::run, &job);
    pause_ms(50);
    const uint64_t before = cpu_ns();
    pause_ms(200);
    // A spinning worker would burn hundreds of milliseconds.
    CHECK(cpu_ns() - before < 20'000'000u);
}
