// Purpose:  what the ABI costs: a tick through verbs and through a replayed graph over calling the
//           same function directly, and touching a cached key among 1, 1000 and 10000.
// Owns:     nothing.
// Thread:   main.
// Lifetime: one run; prints one table.
//
// usage: bench_abi [--single] [--samples N]
//
// Without --single a sample is a batch of calls, and the figures are nanoseconds per call: the mean
// is exact and its percentiles are those of batches, which no single tick had. With --single every
// call is timed alone, by the processor's counter where that is steady, else by the system's clock,
// and the median cost of a reading is taken off, so that p99.9 is one of a thousand ticks. The
// first row says what two readings with nothing between them spread by: no row can know better, and
// where the counter moves in steps (10 ns on some processors) the figures do, too.
// The kinds take turns, so that noise of the machine meets all of them.
#include <time.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "flashrt/builder.hpp"
#include "flashrt/cpu_recorder.h"

namespace {

constexpr uint64_t kCalls = 100;       // of a batch
constexpr uint64_t kTurnCalls = 1000;  // timed alone before the next kind has its turn
constexpr uint64_t kSamples = 20000;   // batches of a kind, unless told
constexpr uint64_t kSingles = 1000 * 1000;
constexpr uint64_t kCacheKeys[] = {1, 1000, 10000};

struct Work {
    float x[8];
    float y[8];
};

// The tick itself. Not inlined: a producer's function is behind a pointer as well.
__attribute__((noinline)) int tick(void* self)
{
    Work* work = static_cast<Work*>(self);
    for (int at = 0; at < 8; at++) {
        work->y[at] += work->x[at] * 0.5f;
    }
    return 0;
}

int tick_recorded(void* arguments)
{
    return tick(*static_cast<void**>(arguments));
}

const char* no_error(void*)
{
    return "";
}

void record(void* user, void* stream)
{
    const frt_cpu_recorder* recorder = static_cast<const frt_cpu_recorder*>(stream);
    recorder->call(recorder->self, tick_recorded, &user, sizeof user);
}

double now_ns()
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

#if defined(__x86_64__)
// Whether the counter runs at one rate whatever the processor's frequency does.
bool counter_is_steady()
{
    unsigned a = 0;
    unsigned b = 0;
    unsigned c = 0;
    unsigned d = 0;
    return __get_cpuid(0x80000007u, &a, &b, &c, &d) != 0 && (d & (1u << 8)) != 0;
}
// Fenced on both sides: what is timed neither starts before the reading nor ends after it.
uint64_t counter()
{
    _mm_lfence();
    const uint64_t value = __rdtsc();
    _mm_lfence();
    return value;
}
#else
bool counter_is_steady()
{
    return false;
}
uint64_t counter()
{
    return 0;
}
#endif

// Readings around one call.
class Clock {
public:
    Clock() : steady_(counter_is_steady())
    {
        if (!steady_) {
            return;
        }
        const double begin = now_ns();
        const uint64_t from = counter();
        while (now_ns() - begin < 200e6) {
        }
        const uint64_t to = counter();
        ns_per_count_ = (now_ns() - begin) / static_cast<double>(to - from);
    }
    uint64_t read() const { return steady_ ? counter() : static_cast<uint64_t>(now_ns()); }
    double ns_per_count() const { return ns_per_count_; }
    const char* name() const { return steady_ ? "the processor's counter" : "clock_gettime"; }

private:
    bool steady_;
    double ns_per_count_ = 1;
};

enum class What { nothing, function, step, replay };

// One row of the table. For replays, how many keys the graph holds and whether all are touched.
struct Kind {
    What what;
    const char* name;
    size_t cache = 0;  // index into kCacheKeys
    bool round_robin = false;
    std::vector<double> samples = {};
};

std::vector<Kind> kinds(bool single)
{
    std::vector<Kind> rows;
    if (single) {
        rows.push_back({What::nothing, "two readings, nothing taken off"});
    }
    rows.push_back({What::function, "the function itself, through a pointer"});
    rows.push_back({What::step, "verbs.step of a built runtime"});
    rows.push_back({What::replay, "replay, 1 variant"});
    rows.push_back({What::replay, "replay, 1000 variants, always the same", 1, false});
    rows.push_back({What::replay, "replay, 1000 variants, one after another", 1, true});
    rows.push_back({What::replay, "replay, 10000 variants, always the same", 2, false});
    rows.push_back({What::replay, "replay, 10000 variants, one after another", 2, true});
    return rows;
}

class Bench {
public:
    ~Bench()
    {
        if (model_ != nullptr) {
            model_->release(model_->owner);
        }
        frt_ctx_destroy(ctx_);
    }
    bool prepare();
    void run(std::vector<Kind>* rows, bool single, uint64_t samples);

private:
    template <typename Call>
    void measure(Kind* kind, bool single, uint64_t samples, Call call);
    void turn(Kind* kind, bool single, uint64_t samples);

    Clock clock_;
    Work work_ = {{1, 2, 3, 4, 5, 6, 7, 8}, {}};
    frt_ctx ctx_ = nullptr;
    frt_graph graphs_[3] = {};
    uint64_t next_key_[3] = {};
    frt_model_runtime_v1* model_ = nullptr;
    int (*volatile direct_)(void*) = tick;
};

bool Bench::prepare()
{
    ctx_ = frt_ctx_create_on("cpu");
    for (size_t cache = 0; cache < 3; cache++) {
        graphs_[cache] = frt_graph_create(ctx_, "graph", 0);
        for (uint64_t key = 0; key < kCacheKeys[cache]; key++) {
            if (frt_graph_capture(graphs_[cache], key, record, &work_) != FRT_OK) {
                return false;
            }
        }
    }
    const frt_model_runtime_verbs verbs = {48, 0, nullptr, nullptr, nullptr, tick, no_error};
    model_ = frt_runtime_builder_finish_model(frt_model_runtime_builder_create_metadata(), &verbs,
                                              &work_, nullptr, nullptr, nullptr);
    std::printf("clock: %s\n", clock_.name());
    return model_ != nullptr;
}

// samples times: one call timed alone, or the mean of a batch of them. Counts are kept as they are
// read and become nanoseconds at the end.
template <typename Call>
void Bench::measure(Kind* kind, bool single, uint64_t samples, Call call)
{
    int code = 0;
    for (uint64_t sample = 0; sample < samples; sample++) {
        const uint64_t calls = single ? 1 : kCalls;
        const uint64_t begin = clock_.read();
        for (uint64_t at = 0; at < calls; at++) {
            code |= call();
        }
        const uint64_t end = clock_.read();
        kind->samples.push_back(static_cast<double>(end - begin) / static_cast<double>(calls));
    }
    if (code != 0) {
        std::abort();
    }
}

void Bench::turn(Kind* kind, bool single, uint64_t samples)
{
    switch (kind->what) {
        case What::nothing:
            measure(kind, single, samples, [] { return 0; });
            break;
        case What::function:
            measure(kind, single, samples, [this] { return direct_(&work_); });
            break;
        case What::step:
            measure(kind, single, samples, [this] { return model_->verbs.step(model_->self); });
            break;
        case What::replay: {
            const frt_graph graph = graphs_[kind->cache];
            const uint64_t keys = kCacheKeys[kind->cache];
            uint64_t key = kind->round_robin ? next_key_[kind->cache] : keys / 2;
            const uint64_t stride = kind->round_robin ? 1 : 0;
            measure(kind, single, samples, [=, &key] {
                const int code = frt_graph_replay(graph, key, 0);
                key = key + stride == keys ? 0 : key + stride;
                return code;
            });
            next_key_[kind->cache] = kind->round_robin ? key : next_key_[kind->cache];
            break;
        }
    }
}

void Bench::run(std::vector<Kind>* rows, bool single, uint64_t samples)
{
    const uint64_t each = single ? kTurnCalls : 1;
    for (Kind& row : *rows) {
        row.samples.reserve(samples + each);
        turn(&row, single, each);  // warm
        row.samples.clear();
    }
    for (uint64_t done = 0; done < samples; done += each) {
        for (Kind& row : *rows) {
            turn(&row, single, std::min(each, samples - done));
        }
    }
    double reading = 0;
    for (Kind& row : *rows) {
        std::sort(row.samples.begin(), row.samples.end());
        if (row.what == What::nothing) {
            reading = row.samples[row.samples.size() / 2];
        }
        const double off = row.what == What::nothing ? 0 : reading;
        for (double& sample : row.samples) {
            sample = std::max(sample - off, 0.0) * clock_.ns_per_count();
        }
    }
}

void print(const std::vector<Kind>& rows, bool single)
{
    std::printf("%-44s %8s %8s %8s %8s\n",
                single ? "nanoseconds, calls timed alone" : "ns per call", "p50", "p99", "p99.9",
                "mean");
    for (const Kind& row : rows) {
        const std::vector<double>& all = row.samples;
        const auto at = [&all](double part) {
            return all[static_cast<size_t>(part * static_cast<double>(all.size() - 1))];
        };
        double sum = 0;
        for (const double sample : all) {
            sum += sample;
        }
        std::printf("%-44s %8.1f %8.1f %8.1f %8.1f\n", row.name, at(0.5), at(0.99), at(0.999),
                    sum / static_cast<double>(all.size()));
    }
}

}  // namespace

int main(int count, char** words)
{
    bool single = false;
    uint64_t samples = 0;
    for (int at = 1; at < count; at++) {
        if (std::strcmp(words[at], "--single") == 0) {
            single = true;
        } else if (std::strcmp(words[at], "--samples") == 0 && at + 1 < count) {
            at++;
            samples = std::strtoull(words[at], nullptr, 10);
        } else {
            std::fprintf(stderr, "usage: bench_abi [--single] [--samples N]\n");
            return 2;
        }
    }
    samples = samples != 0 ? samples : single ? kSingles : kSamples;
    const auto bench = std::make_unique<Bench>();
    if (!bench->prepare()) {
        std::fprintf(stderr, "bench_abi: the graphs or the runtime cannot be made\n");
        return 1;
    }
    std::vector<Kind> rows = kinds(single);
    bench->run(&rows, single, samples);
    print(rows, single);
    return 0;
}
