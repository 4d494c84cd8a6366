// Purpose:  the execution layer on the CPU backend: contexts, buffers, events, exact keys with LRU,
//           plans, and the symbols that adopters import.
// Owns:     nothing.
// Thread:   one.
// Lifetime: the test program.
#include <dlfcn.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "conformance/allocation_calls.h"
#include "flashrt/cpu_recorder.h"
#include "flashrt/exec.h"

using flashrt::conformance::allocation_calls;
using flashrt::conformance::allocation_calls_counted;

namespace {

struct Add {
    float* to;
    const float* from;
    float value;
    int answer;
};

int add(void* arguments)
{
    const Add* call = static_cast<const Add*>(arguments);
    *call->to = *call->from + call->value;
    return call->answer;
}

void record_add(void* user, void* stream)
{
    frt_cpu_recorder* recorder = static_cast<frt_cpu_recorder*>(stream);
    REQUIRE(recorder->call(recorder->self, add, user, sizeof(Add)) == 0);
}

void record_nothing(void*, void*) {}

void record_twice(void* user, void* stream)
{
    record_add(user, stream);
    record_add(user, stream);
}

void record_wrongly(void*, void* stream)
{
    frt_cpu_recorder* recorder = static_cast<frt_cpu_recorder*>(stream);
    CHECK(recorder->call(recorder->self, nullptr, nullptr, 0) == FRT_ERR_INVALID);
}

struct Context {
    frt_ctx ctx = frt_ctx_create_on("cpu");
    ~Context() { frt_ctx_destroy(ctx); }
};

}  // namespace

TEST_CASE("a context begins with stream 0 and makes new streams", "[exec]")
{
    Context context;
    REQUIRE(context.ctx != nullptr);
    CHECK(std::string(frt_ctx_backend(context.ctx)) == "cpu");
    CHECK(frt_ctx_stream(context.ctx, 0) == 1);
    CHECK(frt_ctx_stream(context.ctx, -99) == 2);
    CHECK(frt_ctx_wrap_stream(context.ctx, nullptr) == 3);
    CHECK(frt_stream_sync(context.ctx, 3) == FRT_OK);
    CHECK(frt_stream_sync(context.ctx, 4) == FRT_ERR_INVALID);
    CHECK(frt_stream_sync(context.ctx, -1) == FRT_ERR_INVALID);
    CHECK(frt_ctx_stream(nullptr, 0) == FRT_ERR_INVALID);
    CHECK(frt_ctx_create_on("abacus") == nullptr);
    frt_ctx_destroy(nullptr);
}

TEST_CASE("the environment picks the backend of a context", "[exec]")
{
    const struct {
        const char* value;
        const char* backend;  // nullptr: none can be made
    } rows[] = {{"cpu", "cpu"}, {"abacus", nullptr}, {"CPU", nullptr}};
    for (const auto& row : rows) {
        INFO(row.value);
        setenv("FLASHRT_EXEC_BACKEND", row.value, 1);
        frt_ctx ctx = frt_ctx_create();
        CHECK((ctx == nullptr) == (row.backend == nullptr));
        CHECK(std::string(frt_ctx_backend(ctx)) == (row.backend == nullptr ? "" : row.backend));
        frt_ctx_destroy(ctx);
    }
    // Empty is unset: a device where one answers, the CPU where none does.
    setenv("FLASHRT_EXEC_BACKEND", "", 1);
    frt_ctx ctx = frt_ctx_create();
    CHECK(ctx != nullptr);
    frt_ctx_destroy(ctx);
    unsetenv("FLASHRT_EXEC_BACKEND");
    CHECK(frt_ctx_create_on(nullptr) == nullptr);
}

TEST_CASE("nothing is made without a context, and NULL is nothing to destroy", "[exec]")
{
    CHECK(frt_ctx_wrap_stream(nullptr, nullptr) == FRT_ERR_INVALID);
    CHECK(frt_ctx_native_stream(nullptr, 0) == nullptr);
    CHECK(frt_ctx_event(nullptr) == nullptr);
    CHECK(frt_buffer_alloc(nullptr, "a", 8) == nullptr);
    CHECK(frt_graph_create(nullptr, "g", 0) == nullptr);
    CHECK(frt_plan_create(nullptr) == nullptr);
    CHECK(frt_graph_capture(nullptr, 0, record_nothing, nullptr) == FRT_ERR_INVALID);
    CHECK(frt_graph_replay(nullptr, 0, 0) == FRT_ERR_INVALID);
    CHECK(frt_graph_bound(nullptr, "x") == nullptr);
    CHECK(frt_plan_sync(nullptr) == FRT_ERR_INVALID);
    frt_graph_destroy(nullptr);
    Context context;
    frt_buffer nameless = frt_buffer_alloc(context.ctx, nullptr, 8);
    CHECK(std::string(frt_buffer_name(nameless)).empty());
    CHECK(frt_graph_create(context.ctx, nullptr, 0) != nullptr);
}

TEST_CASE("buffers answer for themselves and copies stay inside", "[exec]")
{
    Context context;
    frt_buffer a = frt_buffer_alloc(context.ctx, "a", 64);
    char memory[32] = "0123456789";
    frt_buffer b = frt_buffer_wrap(context.ctx, "b", memory, sizeof memory);
    REQUIRE(a != nullptr);
    REQUIRE(b != nullptr);
    CHECK(frt_buffer_alloc(context.ctx, "none", 0) == nullptr);
    CHECK(frt_buffer_alloc(context.ctx, "huge", SIZE_MAX) == nullptr);
    CHECK(frt_buffer_wrap(context.ctx, "none", nullptr, 8) == nullptr);
    CHECK(frt_buffer_dptr(b) == memory);
    CHECK(frt_buffer_bytes(a) == 64);
    CHECK(std::string(frt_buffer_name(a)) == "a");
    CHECK(frt_buffer_dptr(nullptr) == nullptr);
    CHECK(frt_buffer_bytes(nullptr) == 0);
    CHECK(std::string(frt_buffer_name(nullptr)).empty());
    CHECK(reinterpret_cast<uintptr_t>(frt_buffer_dptr(a)) % 256 == 0);
    const std::vector<char> zero(64, 0);
    CHECK(std::memcmp(frt_buffer_dptr(a), zero.data(), 64) == 0);

    const struct {
        const char* name;
        size_t to, from, bytes;
        int stream, want;
    } rows[] = {{"whole", 32, 0, 32, 0, FRT_OK},
                {"nothing at the end", 64, 32, 0, 0, FRT_OK},
                {"over the destination", 33, 0, 32, 0, FRT_ERR_INVALID},
                {"over the source", 0, 1, 32, 0, FRT_ERR_INVALID},
                {"offset wraps", SIZE_MAX, 0, 2, 0, FRT_ERR_INVALID},
                {"bytes wrap", 8, 0, SIZE_MAX, 0, FRT_ERR_INVALID},
                {"unknown stream", 0, 0, 1, 9, FRT_ERR_INVALID}};
    for (const auto& row : rows) {
        INFO(row.name);
        CHECK(frt_buffer_copy(context.ctx, a, row.to, b, row.from, row.bytes, row.stream) ==
              row.want);
    }
    CHECK(std::memcmp(static_cast<char*>(frt_buffer_dptr(a)) + 32, memory, 32) == 0);
    char back[4] = {};
    CHECK(frt_buffer_write(context.ctx, a, 60, "abcd", 4, 0) == FRT_OK);
    CHECK(frt_buffer_read(context.ctx, a, 60, back, 4, 0) == FRT_OK);
    CHECK(std::memcmp(back, "abcd", 4) == 0);
    CHECK(frt_buffer_write(context.ctx, a, 61, "abcd", 4, 0) == FRT_ERR_INVALID);
    CHECK(frt_buffer_read(context.ctx, a, 61, back, 4, 0) == FRT_ERR_INVALID);
}

TEST_CASE("events order streams of their own context only", "[exec]")
{
    Context one;
    Context other;
    frt_event event = frt_ctx_event(one.ctx);
    REQUIRE(event != nullptr);
    CHECK(frt_event_record(event, 0) == FRT_OK);
    CHECK(frt_event_record(event, 1) == FRT_ERR_INVALID);
    CHECK(frt_event_record(nullptr, 0) == FRT_ERR_INVALID);
    CHECK(frt_stream_wait(one.ctx, 0, event) == FRT_OK);
    CHECK(frt_stream_wait(one.ctx, 7, event) == FRT_ERR_INVALID);
    CHECK(frt_stream_wait(other.ctx, 0, event) == FRT_ERR_INVALID);
    CHECK(frt_stream_wait(one.ctx, 0, nullptr) == FRT_ERR_INVALID);
    frt_event_destroy(event);
    frt_event_destroy(nullptr);
}

TEST_CASE("a graph replays what was captured under exactly this key", "[exec]")
{
    Context context;
    float from = 1;
    float to = 0;
    Add call = {&to, &from, 2, 0};
    frt_graph graph = frt_graph_create(context.ctx, "g", 0);
    REQUIRE(graph != nullptr);
    CHECK(frt_graph_capture(graph, 7, nullptr, nullptr) == FRT_ERR_INVALID);
    CHECK(frt_graph_capture(graph, 7, record_wrongly, nullptr) == FRT_ERR_CAPTURE);
    CHECK(frt_graph_variant_count(graph) == 0);
    CHECK(frt_graph_capture(graph, 7, record_add, &call) == FRT_OK);
    CHECK(to == 0);  // capture records; it does not run
    call.value = 100;
    CHECK(frt_graph_replay(graph, 7, 0) == FRT_OK);
    CHECK(to == 3);  // the arguments were copied at capture
    from = 5;
    CHECK(frt_graph_replay(graph, 7, 0) == FRT_OK);
    CHECK(to == 7);                                               // contents are read at replay
    CHECK(frt_graph_replay(graph, 8, 99) == FRT_ERR_NO_VARIANT);  // before the stream is looked at
    CHECK(frt_graph_replay(graph, 7, 99) == FRT_ERR_INVALID);
    CHECK(frt_graph_has_variant(graph, 7) == 1);
    CHECK(frt_graph_has_variant(graph, 8) == 0);
    CHECK(frt_graph_has_variant(nullptr, 8) == 0);

    CHECK(frt_graph_capture(graph, 7, record_twice, &call) == FRT_OK);  // replaced
    CHECK(frt_graph_variant_count(graph) == 1);
    CHECK(frt_graph_replay(graph, 7, 0) == FRT_OK);
    CHECK(to == 105);
    call.answer = -1;
    CHECK(frt_graph_capture(graph, 7, record_add, &call) == FRT_OK);
    CHECK(frt_graph_replay(graph, 7, 0) == FRT_ERR_BACKEND);
    CHECK(frt_graph_capture(graph, 9, record_nothing, nullptr) == FRT_OK);
    CHECK(frt_graph_replay(graph, 9, 0) == FRT_OK);
}

TEST_CASE("adopted executables are run and never freed", "[exec]")
{
    Context context;
    float from = 1;
    float to = 0;
    Add call = {&to, &from, 4, 0};
    const frt_cpu_executable executable = {add, &call};
    frt_graph graph = frt_graph_create(context.ctx, "g", 1);
    void* borrowed = const_cast<frt_cpu_executable*>(&executable);
    CHECK(frt_graph_adopt(graph, 1, nullptr) == FRT_ERR_INVALID);
    CHECK(frt_graph_adopt(graph, 1, borrowed) == FRT_OK);
    CHECK(frt_graph_replay(graph, 1, 0) == FRT_OK);
    CHECK(to == 5);
    CHECK(frt_graph_adopt(graph, 2, borrowed) == FRT_OK);  // evicts key 1
    CHECK(frt_graph_has_variant(graph, 1) == 0);
    CHECK(frt_graph_evict(graph, 2) == FRT_OK);
}

TEST_CASE("variants leave in the order of their last replay or insertion", "[exec]")
{
    Context context;
    frt_graph graph = frt_graph_create(context.ctx, "g", 3);
    for (frt_shape_key key = 1; key <= 3; key++) {
        CHECK(frt_graph_capture(graph, key, record_nothing, nullptr) == FRT_OK);
    }
    CHECK(frt_graph_replay(graph, 1, 0) == FRT_OK);  // now 2 is the oldest
    CHECK(frt_graph_has_variant(graph, 2) == 1);     // looking does not touch
    CHECK(frt_graph_capture(graph, 4, record_nothing, nullptr) == FRT_OK);
    CHECK(frt_graph_has_variant(graph, 2) == 0);
    CHECK(frt_graph_variant_count(graph) == 3);
    CHECK(frt_graph_capture(graph, 3, record_nothing, nullptr) == FRT_OK);  // 1 is the oldest
    CHECK(frt_graph_evict_lru(graph) == FRT_OK);
    CHECK(frt_graph_has_variant(graph, 1) == 0);
    CHECK(frt_graph_evict(graph, 1) == FRT_ERR_NO_VARIANT);
    CHECK(frt_graph_evict(graph, 4) == FRT_OK);
    CHECK(frt_graph_evict_lru(graph) == FRT_OK);
    CHECK(frt_graph_evict_lru(graph) == FRT_ERR_NO_VARIANT);
    CHECK(frt_graph_evict(nullptr, 1) == FRT_ERR_INVALID);
    CHECK(frt_graph_evict_lru(nullptr) == FRT_ERR_INVALID);
    CHECK(frt_graph_variant_count(nullptr) == 0);
}

TEST_CASE("touching one of a thousand keys allocates nothing, a new key does", "[exec]")
{
    Context context;
    frt_graph graph = frt_graph_create(context.ctx, "g", 0);
    constexpr frt_shape_key kKeys = 1000;
    for (frt_shape_key key = 0; key < kKeys; key++) {
        REQUIRE(frt_graph_capture(graph, key << 32, record_nothing, nullptr) == FRT_OK);
    }
    CHECK(frt_graph_variant_count(graph) == kKeys);
    const uint64_t before = allocation_calls();
    int failures = 0;
    for (uint64_t turn = 0; turn < 1000 * 1000; turn++) {
        failures += frt_graph_replay(graph, (turn * 7919 % kKeys) << 32, 0) != FRT_OK;
    }
    const uint64_t after = allocation_calls();
    CHECK(failures == 0);
    CHECK(after == before);
    REQUIRE(frt_graph_capture(graph, 5, record_nothing, nullptr) == FRT_OK);
    if (allocation_calls_counted()) {
        CHECK(allocation_calls() > after);
    }
}

TEST_CASE("bindings remember the last buffer of a name", "[exec]")
{
    Context context;
    frt_graph graph = frt_graph_create(context.ctx, "g", 0);
    frt_buffer a = frt_buffer_alloc(context.ctx, "a", 8);
    frt_buffer b = frt_buffer_alloc(context.ctx, "b", 8);
    CHECK(frt_graph_bind(graph, "x", a) == FRT_OK);
    CHECK(frt_graph_bind(graph, "x", b) == FRT_OK);
    CHECK(frt_graph_bound(graph, "x") == b);
    CHECK(frt_graph_bound(graph, "y") == nullptr);
    CHECK(frt_graph_bind(graph, nullptr, a) == FRT_ERR_INVALID);
    CHECK(frt_graph_bind(graph, "x", nullptr) == FRT_ERR_INVALID);
}

TEST_CASE("a plan replays its nodes in order over two streams", "[exec]")
{
    Context context;
    Context other;
    float values[4] = {1, 0, 0, 0};
    Add calls[3] = {{&values[1], &values[0], 1, 0},
                    {&values[2], &values[1], 10, 0},
                    {&values[3], &values[2], 100, 0}};
    frt_graph graphs[3];
    for (int i = 0; i < 3; i++) {
        graphs[i] = frt_graph_create(context.ctx, "g", 0);
        REQUIRE(frt_graph_capture(graphs[i], i == 1 ? 42 : 7, record_add, &calls[i]) == FRT_OK);
    }
    const int second = frt_ctx_stream(context.ctx, 0);
    frt_plan plan = frt_plan_create(context.ctx);
    CHECK(frt_plan_add(plan, graphs[0], FRT_KEY_INHERIT, 0) == 0);
    CHECK(frt_plan_add(plan, graphs[1], 42, second) == 1);
    CHECK(frt_plan_add(plan, graphs[2], FRT_KEY_INHERIT, 0) == 2);
    CHECK(frt_plan_add(plan, graphs[2], 7, 9) == FRT_ERR_INVALID);
    CHECK(frt_plan_add(plan, nullptr, 7, 0) == FRT_ERR_INVALID);
    CHECK(frt_plan_after(plan, 1, 0) == FRT_OK);
    CHECK(frt_plan_after(plan, 2, 1) == FRT_OK);
    CHECK(frt_plan_after(plan, 1, 1) == FRT_ERR_INVALID);
    CHECK(frt_plan_after(plan, 1, 2) == FRT_ERR_INVALID);
    CHECK(frt_plan_after(plan, 3, 0) == FRT_ERR_INVALID);
    CHECK(frt_plan_after(plan, -1, 0) == FRT_ERR_INVALID);
    const uint64_t before = allocation_calls();
    const int executed = frt_plan_execute(plan, 7);
    const int synced = frt_plan_sync(plan);
    CHECK(allocation_calls() == before);
    CHECK(executed == FRT_OK);
    CHECK(synced == FRT_OK);
    CHECK(values[3] == 112);
    CHECK(frt_plan_execute(plan, 8) == FRT_ERR_NO_VARIANT);
    CHECK(frt_plan_execute(nullptr, 7) == FRT_ERR_INVALID);
    frt_graph foreign = frt_graph_create(other.ctx, "g", 0);
    CHECK(frt_plan_add(plan, foreign, 7, 0) == FRT_ERR_INVALID);
    frt_plan_destroy(plan);
    frt_plan_destroy(nullptr);
}

TEST_CASE("the library exports what adopters and producers import", "[exec]")
{
    const char* names[] = {"frt_ctx_create",      "frt_ctx_destroy",     "frt_ctx_stream",
                           "frt_ctx_wrap_stream", "frt_ctx_event",       "frt_event_destroy",
                           "frt_event_record",    "frt_stream_wait",     "frt_buffer_alloc",
                           "frt_buffer_wrap",     "frt_buffer_dptr",     "frt_buffer_bytes",
                           "frt_buffer_name",     "frt_buffer_copy",     "frt_graph_create",
                           "frt_graph_destroy",   "frt_graph_capture",   "frt_graph_adopt",
                           "frt_graph_bind",      "frt_graph_replay",    "frt_graph_has_variant",
                           "frt_graph_evict",     "frt_graph_evict_lru", "frt_graph_variant_count",
                           "frt_plan_create",     "frt_plan_destroy",    "frt_plan_add",
                           "frt_plan_after",      "frt_plan_execute",    "frt_plan_sync"};
    void* library = dlopen("libflashrt_exec.so", RTLD_NOW | RTLD_NOLOAD);  // found by its SONAME
    REQUIRE(library != nullptr);
    for (const char* name : names) {
        INFO(name);
        CHECK(dlsym(library, name) != nullptr);
    }
    dlclose(library);
}
