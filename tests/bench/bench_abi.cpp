// Purpose:  what the ABI costs: a tick through verbs and through a replayed graph over calling the
//           same function directly, and touching one of a thousand cached keys.
// Owns:     nothing.
// Thread:   main.
// Lifetime: one run; prints one table.
//
// One reading of the clock costs more than one call, so each sample is a batch and the figures are
// nanoseconds per call, percentiles over the batches. The kinds take turns batch by batch, so that
// noise of the machine meets all of them.
#include <dlfcn.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "flashrt/builder.hpp"
#include "flashrt/cpu_recorder.h"

namespace {

constexpr int kBatches = 20000;
constexpr int kCalls = 100;  // per batch
constexpr uint64_t kKeys = 1000;

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

template <typename Call>
void batch(std::vector<double>* samples, Call call)
{
    const double begin = now_ns();
    int code = 0;
    for (int at = 0; at < kCalls; at++) {
        code |= call(at);
    }
    samples->push_back((now_ns() - begin) / kCalls);
    if (code != 0) {
        std::abort();
    }
}

void print(const char* name, std::vector<double>* samples)
{
    std::sort(samples->begin(), samples->end());
    const auto at = [samples](double part) {
        return (*samples)[static_cast<size_t>(part * static_cast<double>(samples->size() - 1))];
    };
    std::printf("%-44s %8.1f %8.1f %8.1f\n", name, at(0.5), at(0.99), at(0.999));
}

}  // namespace

int main()
{
    Work work = {{1, 2, 3, 4, 5, 6, 7, 8}, {}};
    frt_ctx ctx = frt_ctx_create_on("cpu");
    frt_graph one = frt_graph_create(ctx, "one", 0);
    frt_graph many = frt_graph_create(ctx, "many", 0);
    bool ready = frt_graph_capture(one, 0, record, &work) == FRT_OK;
    for (uint64_t key = 0; key < kKeys; key++) {
        ready = ready && frt_graph_capture(many, key, record, &work) == FRT_OK;
    }
    frt_runtime_builder builder = frt_model_runtime_builder_create_metadata();
    const frt_model_runtime_verbs verbs = {48, 0, nullptr, nullptr, nullptr, tick, no_error};
    frt_model_runtime_v1* model =
        frt_runtime_builder_finish_model(builder, &verbs, &work, nullptr, nullptr, nullptr);
    if (!ready || model == nullptr) {
        return 1;
    }
    int (*volatile direct)(void*) = tick;
    std::vector<double> samples[4];
    for (int turn = 0; turn < kBatches; turn++) {
        batch(&samples[0], [&](int) { return direct(&work); });
        batch(&samples[1], [&](int) { return model->verbs.step(model->self); });
        batch(&samples[2], [&](int) { return frt_graph_replay(one, 0, 0); });
        batch(&samples[3], [&](int at) {
            const uint64_t key = static_cast<uint64_t>(turn * kCalls + at) * 7919 % kKeys;
            return frt_graph_replay(many, key, 0);
        });
    }
    std::printf("%-44s %8s %8s %8s\n", "nanoseconds per call", "p50", "p99", "p99.9");
    print("the function itself, through a pointer", &samples[0]);
    print("verbs.step of a built runtime", &samples[1]);
    print("replay of the only variant", &samples[2]);
    print("replay, going through 1000 variants", &samples[3]);
    model->release(model->owner);
    frt_ctx_destroy(ctx);
    return 0;
}
