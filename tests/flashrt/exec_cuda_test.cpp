// Purpose:  the execution layer on its CUDA backend, over a CUDA runtime that is pretended on the
//           CPU: the same tables, real captures, and nothing left behind whatever call fails.
// Owns:     nothing.
// Thread:   one.
// Lifetime: the test program.
#include <catch2/catch.hpp>
#include <cstring>
#include <string>

#include "fake_cudart.h"
#include "flashrt/exec.h"

namespace {

struct Context {
    frt_ctx ctx = frt_ctx_create_on("cuda");
    Context() { REQUIRE(ctx != nullptr); }
    ~Context()
    {
        frt_ctx_destroy(ctx);
        CHECK(fake_cudart().alive() == 0);
        CHECK(fake_cudart().strangers == 0);
        CHECK(fake_cudart().error == cudaSuccess);
    }
};

// What a graph of these tests records: one copy between buffers.
struct Copy {
    frt_buffer to;
    frt_buffer from;
    size_t bytes;
};

void record_copy(void* user, void* stream)
{
    const Copy* copy = static_cast<const Copy*>(user);
    cudaMemcpyAsync(frt_buffer_dptr(copy->to), frt_buffer_dptr(copy->from), copy->bytes,
                    cudaMemcpyDeviceToDevice, static_cast<cudaStream_t>(stream));
}

void record_nothing(void*, void*) {}

std::string text_of(frt_ctx ctx, frt_buffer buffer, int stream = 0)
{
    char text[8] = {};
    CHECK(frt_buffer_read(ctx, buffer, 0, text, 7, stream) == FRT_OK);
    return text;
}

}  // namespace

TEST_CASE("CUDA: streams are made, clamped, wrapped and given back", "[exec][cuda]")
{
    cudaStream_t foreign = fake_stream_make();
    {
        Context context;
        CHECK(std::string(frt_ctx_backend(context.ctx)) == "cuda");
        CHECK(fake_cudart().flags == cudaStreamNonBlocking);
        const struct {
            int wanted;
            int got;
        } rows[] = {{0, 0}, {3, 0}, {-2, -2}, {-99, -5}};
        int stream_id = 1;
        for (const auto& row : rows) {
            CHECK(frt_ctx_stream(context.ctx, row.wanted) == stream_id);
            CHECK(fake_cudart().priority == row.got);
            CHECK(frt_ctx_native_stream(context.ctx, stream_id) != nullptr);
            stream_id++;
        }
        CHECK(frt_ctx_wrap_stream(context.ctx, foreign) == stream_id);
        CHECK(frt_ctx_native_stream(context.ctx, stream_id) == foreign);
        CHECK(frt_ctx_wrap_stream(context.ctx, nullptr) == stream_id + 1);
        CHECK(frt_stream_sync(context.ctx, stream_id + 1) == FRT_OK);
        CHECK(fake_cudart().streams == 6);
        frt_ctx_destroy(context.ctx);
        CHECK(fake_cudart().streams == 1);  // what was wrapped is still its owner's
        cudaStreamDestroy(foreign);
        context.ctx = nullptr;
    }
}

TEST_CASE("CUDA: buffers are zeroed, copied in order and given back", "[exec][cuda]")
{
    Context context;
    frt_buffer a = frt_buffer_alloc(context.ctx, "a", 7);
    frt_buffer b = frt_buffer_alloc(context.ctx, "b", 7);
    uint8_t memory[7] = {1, 2, 3, 4, 5, 6, 7};
    frt_buffer wrapped = frt_buffer_wrap(context.ctx, "w", memory, sizeof memory);
    REQUIRE(a != nullptr);
    REQUIRE(b != nullptr);
    REQUIRE(wrapped != nullptr);
    CHECK(fake_cudart().allocations == 2);
    CHECK(text_of(context.ctx, a).empty());
    CHECK(frt_buffer_alloc(context.ctx, "huge", SIZE_MAX) == nullptr);
    CHECK(frt_buffer_write(context.ctx, a, 0, "abcdefg", 7, 0) == FRT_OK);
    CHECK(frt_buffer_copy(context.ctx, b, 2, a, 0, 5, 0) == FRT_OK);
    CHECK(static_cast<char*>(frt_buffer_dptr(b))[2] == 0);  // enqueued, not done
    CHECK(frt_stream_sync(context.ctx, 0) == FRT_OK);
    CHECK(std::memcmp(frt_buffer_dptr(b), "\0\0abcde", 7) == 0);
    CHECK(frt_buffer_copy(context.ctx, b, 3, a, 0, 5, 0) == FRT_ERR_INVALID);
}

TEST_CASE("CUDA: an event orders two streams, and nothing else does", "[exec][cuda]")
{
    Context context;
    const int side = frt_ctx_stream(context.ctx, 0);
    frt_buffer from = frt_buffer_alloc(context.ctx, "from", 7);
    frt_buffer to = frt_buffer_alloc(context.ctx, "to", 7);
    frt_buffer last = frt_buffer_alloc(context.ctx, "last", 7);
    frt_event event = frt_ctx_event(context.ctx);
    REQUIRE(event != nullptr);
    CHECK(fake_cudart().flags == cudaEventDisableTiming);
    CHECK(frt_buffer_write(context.ctx, from, 0, "before", 7, 0) == FRT_OK);
    CHECK(frt_buffer_copy(context.ctx, to, 0, from, 0, 7, 0) == FRT_OK);
    CHECK(frt_buffer_copy(context.ctx, last, 0, to, 0, 7, side) == FRT_OK);
    CHECK(text_of(context.ctx, last, side).empty());  // the side stream did not wait
    CHECK(frt_event_record(event, 0) == FRT_OK);
    CHECK(frt_stream_wait(context.ctx, side, event) == FRT_OK);
    CHECK(frt_buffer_copy(context.ctx, last, 0, to, 0, 7, side) == FRT_OK);
    CHECK(text_of(context.ctx, last, side) == "before");
    frt_event_destroy(event);
    CHECK(fake_cudart().events == 0);
}

TEST_CASE("CUDA: captures run at replay, are replaced, evicted and never leak", "[exec][cuda]")
{
    Context context;
    frt_buffer from = frt_buffer_alloc(context.ctx, "from", 7);
    frt_buffer to = frt_buffer_alloc(context.ctx, "to", 7);
    frt_graph graph = frt_graph_create(context.ctx, "g", 2);
    Copy copy = {to, from, 7};
    CHECK(frt_buffer_write(context.ctx, from, 0, "one", 4, 0) == FRT_OK);
    CHECK(frt_graph_capture(graph, 1, record_copy, &copy) == FRT_OK);
    CHECK(text_of(context.ctx, to).empty());  // recorded, not run
    CHECK(frt_graph_replay(graph, 1, 0) == FRT_OK);
    CHECK(text_of(context.ctx, to) == "one");
    CHECK(frt_buffer_write(context.ctx, from, 0, "two", 4, 0) == FRT_OK);
    CHECK(frt_graph_replay(graph, 1, 0) == FRT_OK);
    CHECK(text_of(context.ctx, to) == "two");  // contents are read at replay
    CHECK(frt_graph_replay(graph, 2, 99) == FRT_ERR_NO_VARIANT);
    CHECK(fake_cudart().graphs == 0);  // only the executables stay

    copy.bytes = 1;
    CHECK(frt_graph_capture(graph, 1, record_copy, &copy) == FRT_OK);
    CHECK(fake_cudart().executables == 1);
    CHECK(frt_graph_capture(graph, 2, record_nothing, nullptr) == FRT_OK);
    CHECK(frt_graph_replay(graph, 1, 0) == FRT_OK);
    CHECK(frt_graph_capture(graph, 3, record_nothing, nullptr) == FRT_OK);  // 2 is the oldest
    CHECK(frt_graph_has_variant(graph, 2) == 0);
    CHECK(fake_cudart().executables == 2);
    CHECK(frt_graph_evict(graph, 3) == FRT_OK);
    CHECK(frt_graph_evict_lru(graph) == FRT_OK);
    CHECK(frt_graph_evict_lru(graph) == FRT_ERR_NO_VARIANT);
    CHECK(fake_cudart().executables == 0);

    // A capture that fails, at each of its calls, leaves the table as it was.
    CHECK(frt_graph_capture(graph, 1, record_copy, &copy) == FRT_OK);
    for (const int call : {1, 2, 3, 4}) {  // begin, the producer's own, end, instantiate
        fake_cudart().fail_at = fake_cudart().calls + call;
        CHECK(frt_graph_capture(graph, 1, record_copy, &copy) == FRT_ERR_CAPTURE);
        CHECK(frt_graph_variant_count(graph) == 1);
        CHECK(fake_cudart().executables == 1);
        CHECK(fake_cudart().graphs == 0);
        CHECK(fake_cudart().captures == 0);
        CHECK(fake_cudart().error == cudaSuccess);  // the next unrelated call must not see it
    }
    fake_cudart().fail_at = fake_cudart().calls + 1;
    CHECK(frt_graph_replay(graph, 1, 0) == FRT_ERR_BACKEND);
    CHECK(frt_graph_replay(graph, 1, 0) == FRT_OK);
}

TEST_CASE("CUDA: adopted executables are launched and stay their owner's", "[exec][cuda]")
{
    uint8_t counter = 0;
    cudaGraphExec_t foreign = fake_executable_make(&counter);
    frt_ctx ctx = frt_ctx_create_on("cuda");
    frt_graph graph = frt_graph_create(ctx, "g", 1);
    CHECK(frt_graph_adopt(graph, 1, foreign) == FRT_OK);
    CHECK(frt_graph_replay(graph, 1, 0) == FRT_OK);
    CHECK(frt_stream_sync(ctx, 0) == FRT_OK);
    CHECK(counter == 1);
    CHECK(frt_graph_adopt(graph, 2, foreign) == FRT_OK);  // evicts key 1
    CHECK(frt_graph_evict(graph, 2) == FRT_OK);
    CHECK(frt_graph_adopt(graph, 3, foreign) == FRT_OK);
    frt_ctx_destroy(ctx);
    CHECK(fake_cudart().executables == 1);
    cudaGraphExecDestroy(foreign);
    CHECK(fake_cudart().alive() == 0);
    CHECK(fake_cudart().strangers == 0);
}

TEST_CASE("CUDA: a plan waits across streams for what it declares", "[exec][cuda]")
{
    Context context;
    const int side = frt_ctx_stream(context.ctx, 0);
    frt_buffer chain[3];
    for (frt_buffer& buffer : chain) {
        buffer = frt_buffer_alloc(context.ctx, "chain", 7);
    }
    Copy copies[] = {{chain[1], chain[0], 7}, {chain[2], chain[1], 7}};
    frt_graph graphs[2];
    for (int at = 0; at < 2; at++) {
        graphs[at] = frt_graph_create(context.ctx, "g", 0);
        REQUIRE(frt_graph_capture(graphs[at], 5, record_copy, &copies[at]) == FRT_OK);
    }
    for (const bool declared : {false, true}) {
        frt_plan plan = frt_plan_create(context.ctx);
        CHECK(frt_plan_add(plan, graphs[0], FRT_KEY_INHERIT, 0) == 0);
        CHECK(frt_plan_add(plan, graphs[1], 5, side) == 1);
        CHECK((!declared || frt_plan_after(plan, 1, 0) == FRT_OK));
        CHECK(frt_buffer_write(context.ctx, chain[0], 0, declared ? "late" : "soon", 5, 0) ==
              FRT_OK);
        CHECK(frt_plan_execute(plan, 5) == FRT_OK);
        // The side stream is waited for alone, so only a declared wait brings the first copy along.
        CHECK(text_of(context.ctx, chain[2], side) == (declared ? "late" : ""));
        CHECK(frt_plan_sync(plan) == FRT_OK);
        frt_plan_destroy(plan);
    }
    CHECK(fake_cudart().events == 0);
}

TEST_CASE("CUDA: whichever call fails, the answer is a code and nothing is left", "[exec][cuda]")
{
    const auto scenario = [] {
        frt_ctx ctx = frt_ctx_create_on("cuda");
        const int side = frt_ctx_stream(ctx, -1);
        frt_buffer from = frt_buffer_alloc(ctx, "from", 7);
        frt_buffer to = frt_buffer_alloc(ctx, "to", 7);
        Copy copy = {to, from, 7};
        frt_graph graph = frt_graph_create(ctx, "g", 1);
        int worst = frt_buffer_write(ctx, from, 0, "abc", 4, 0);
        if (from != nullptr && to != nullptr) {
            worst |= frt_graph_capture(graph, 0, record_copy, &copy);
            worst |= frt_graph_capture(graph, 1, record_copy, &copy);
        }
        frt_plan plan = frt_plan_create(ctx);
        worst |= frt_plan_add(plan, graph, 1, 0) | frt_plan_add(plan, graph, 1, side);
        worst |= frt_plan_after(plan, 1, 0);
        worst |= frt_plan_execute(plan, 0) | frt_plan_sync(plan);
        char text[4] = {};
        worst |= frt_buffer_read(ctx, to, 0, text, 4, 0);
        frt_ctx_destroy(ctx);
        return worst | (std::strcmp(text, "abc") == 0 ? 0 : -1);
    };
    FakeCudart& fake = fake_cudart();
    fake.calls = 0;
    fake.fail_at = 0;
    CHECK(scenario() >= 0);
    const int calls = fake.calls;
    CHECK(calls > 25);
    constexpr int kDestroyCalls = 2;  // the last ones: destroying waits for both streams, silently
    for (const bool for_ever : {false, true}) {
        for (int at = 1; at <= calls; at++) {
            INFO("call " << at << " of " << calls << (for_ever ? " and all after it" : ""));
            fake.calls = 0;
            fake.fail_at = at;
            fake.fails_for_ever = for_ever;
            const int worst = scenario();
            CHECK((worst < 0 || at > calls - kDestroyCalls));
            CHECK(fake.alive() == 0);
            CHECK(fake.captures == 0);
            CHECK(fake.strangers == 0);
            CHECK(fake.error == cudaSuccess);
        }
    }
    fake.fail_at = 0;
    fake.fails_for_ever = false;
}

TEST_CASE("CUDA: a machine without a device serves on the CPU", "[exec][cuda]")
{
    fake_cudart().devices = 0;
    CHECK(frt_ctx_create_on("cuda") == nullptr);
    frt_ctx ctx = frt_ctx_create();
    CHECK(std::string(frt_ctx_backend(ctx)) == "cpu");
    frt_ctx_destroy(ctx);
    fake_cudart().devices = 1;
    ctx = frt_ctx_create();
    CHECK(std::string(frt_ctx_backend(ctx)) == "cuda");
    frt_ctx_destroy(ctx);
    CHECK(fake_cudart().alive() == 0);
}
