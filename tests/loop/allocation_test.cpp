// Purpose:  no allocation after the seal, over more than a million loop steps with real requests.
// Owns:     the counting allocator of this program.
// Thread:   main, as the broker.
// Lifetime: one run.
//
// The C library's allocator is interposed for the whole process, the loop's threads and the
// runtime's shared object included. Only calls made by the loop's threads count; the test's own
// thread may allocate.
#include <atomic>
#include <cstdlib>

#include "harness.h"

extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void __libc_free(void* memory);
}

namespace {

std::atomic<bool> counting{false};
std::atomic<uint64_t> calls{0};
thread_local bool is_test_thread = false;

void note()
{
    if (counting.load(std::memory_order_relaxed) && !is_test_thread) {
        calls.fetch_add(1, std::memory_order_relaxed);
    }
}

}  // namespace

extern "C" {
void* malloc(size_t bytes)
{
    note();
    return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes)
{
    note();
    return __libc_calloc(count, bytes);
}
void* realloc(void* memory, size_t bytes)
{
    note();
    return __libc_realloc(memory, bytes);
}
void free(void* memory)
{
    note();
    __libc_free(memory);
}
}

using namespace aotx_test;

namespace {

// Keep some requests running until the loop has done so many steps more.
uint64_t drive(Device* device, const Id& who, uint64_t steps_wanted, uint32_t tokens)
{
    aotx::LoopTelemetry first;
    aotx::LoopTelemetry now;
    aotx::loop_telemetry(device->loop(), &first);
    uint64_t number = 1;
    do {
        const Id id = id_of(number);
        number++;
        REQUIRE(device->submit(who, id, "count with me", tokens).head.status == 202);
        REQUIRE(device->finish(who, id).head.phase >= AOTX_PHASE_COMPLETED);
        aotx::loop_telemetry(device->loop(), &now);
    } while (now.steps - first.steps < steps_wanted);
    return number - 1u;
}

}  // namespace

TEST_CASE("a million steps allocate nothing")
{
    is_test_thread = true;
    const Id ann = id_of(11);
    aotx::LoopConfig config;
    config.output_bytes_max = 1048576;
    Device device(config, {R"({"pieces":["61"],"never_end":true,"sequence_tokens":65536})"});
    device.grant(1, {ann});
    counting.store(true);
    const uint64_t requests = drive(&device, ann, 1000000, 20000);
    counting.store(false);
    CHECK(requests >= 50);
    CHECK(calls.load() == 0);
    // The counter counts: a thread that allocates is seen.
    counting.store(true);
    is_test_thread = false;
    void* volatile memory = std::malloc(1);
    std::free(memory);
    is_test_thread = true;
    counting.store(false);
    CHECK(calls.load() == 2);
}

TEST_CASE("cancellations, refusals, watches, several models and the plain level allocate nothing")
{
    is_test_thread = true;
    const Id ann = id_of(11);
    Device device({}, {R"({"pieces":["61","62"],"never_end":true})",
                       R"({"level":"plain","pieces":["63"],"repeat":50})"});
    device.grant(1, {ann});
    calls.store(0);
    counting.store(true);
    for (uint64_t number = 1; number <= 300; number++) {
        const uint32_t role = number % 3u == 0 ? 3u : 2u;
        REQUIRE(device.submit(ann, id_of(number), "go", 40, role).head.status == 202);
        CHECK(device.submit(ann, id_of(number), "go").head.status == 409);
        CHECK(device.read(ann, id_of(number + 5000)).head.status == 404);
        if (number % 4u == 0) {
            device.cancel(ann, id_of(number));
        }
        device.finish(ann, id_of(number));
    }
    counting.store(false);
    CHECK(calls.load() == 0);
}
