// Purpose:  the reach producer through the loader: ports, payload rules, and a split replay that is
//           bit for bit the full one.
// Owns:     nothing.
// Thread:   one.
// Lifetime: the test program.
#include <dlfcn.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "conformance/allocation_calls.h"
#include "flashrt/cpu_recorder.h"
#include "flashrt/exec.h"
#include "flashrt/loader.hpp"

using flashrt::conformance::allocation_calls;

namespace {

// Calls of the execution layer that belong to setup, by anybody in this process.
struct SetupCalls {
    uint64_t captures;
    uint64_t binds;
    uint64_t buffers;
};
SetupCalls setup;

template <typename Function>
Function next(const char* name)
{
    return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

// In place of the library's own for it and for every producer: a program's symbols come first.
int frt_graph_capture(frt_graph graph, frt_shape_key key, void (*record)(void*, void*), void* user)
{
    setup.captures++;
    return next<decltype(&frt_graph_capture)>("frt_graph_capture")(graph, key, record, user);
}

int frt_graph_adopt(frt_graph graph, frt_shape_key key, void* exec)
{
    setup.captures++;
    return next<decltype(&frt_graph_adopt)>("frt_graph_adopt")(graph, key, exec);
}

int frt_graph_bind(frt_graph graph, const char* port, frt_buffer buffer)
{
    setup.binds++;
    return next<decltype(&frt_graph_bind)>("frt_graph_bind")(graph, port, buffer);
}

frt_buffer frt_buffer_alloc(frt_ctx ctx, const char* name, size_t bytes)
{
    setup.buffers++;
    return next<decltype(&frt_buffer_alloc)>("frt_buffer_alloc")(ctx, name, bytes);
}

frt_buffer frt_buffer_wrap(frt_ctx ctx, const char* name, void* memory, size_t bytes)
{
    setup.buffers++;
    return next<decltype(&frt_buffer_wrap)>("frt_buffer_wrap")(ctx, name, memory, bytes);
}

namespace {

constexpr size_t kChunk = 10;
constexpr size_t kModelValues = 16;
constexpr size_t kRobotValues = 7;

// A frame of one pixel format, its pixels a fixed pattern of the position.
struct Frame {
    std::vector<uint8_t> pixels;
    frt_image_view view;

    Frame(uint32_t format, int32_t width, int32_t height, int32_t padding)
    {
        static const int32_t bytes[] = {3, 3, 4, 4, 1};
        static const int order[][3] = {{0, 1, 2}, {2, 1, 0}, {0, 1, 2}, {2, 1, 0}, {0, 0, 0}};
        const int32_t stride = width * bytes[format] + padding;
        pixels.assign(static_cast<size_t>(stride * height), 0xee);
        for (int32_t y = 0; y < height; y++) {
            for (int32_t x = 0; x < width; x++) {
                uint8_t* pixel = pixels.data() + y * stride + x * bytes[format];
                for (int channel = 0; channel < 3; channel++) {
                    const int seen = format == FRT_RT_PIXEL_GRAY8 ? 0 : channel;
                    pixel[order[format][channel]] = static_cast<uint8_t>(x * 7 + y * 3 + seen * 50);
                }
            }
        }
        view = {sizeof view,
                format,
                pixels.data(),
                pixels.size(),
                width,
                height,
                padding == 0 ? 0 : stride,
                0,
                0};
    }
};

struct Model {
    frt::LoadedModel loaded;
    const frt_model_runtime_v1* runtime = nullptr;

    explicit Model(const std::string& config)
    {
        const frt::LoadStatus status = loaded.open("build-independent", "");
        CHECK(status == frt::LoadStatus::library);  // a failed open leaves the object usable
        INFO(config);
        REQUIRE(loaded.open(REACH_LIBRARY, config.c_str()) == frt::LoadStatus::loaded);
        runtime = loaded.runtime();
    }
    uint32_t port(const char* name) const
    {
        for (uint32_t at = 0; at < runtime->n_ports; at++) {
            if (std::strcmp(runtime->ports[at].name, name) == 0) {
                return at;
            }
        }
        FAIL("no port " << name);
        return 0;
    }
    float* window(const char* name) const
    {
        const frt_runtime_port_desc& desc = runtime->ports[port(name)];
        return reinterpret_cast<float*>(static_cast<char*>(frt_buffer_dptr(desc.buffer)) +
                                        desc.offset);
    }
    int set(const char* name, const void* data, uint64_t bytes) const
    {
        return runtime->verbs.set_input(runtime->self, port(name), data, bytes, -1);
    }
    std::string error() const { return runtime->verbs.last_error(runtime->self); }
    int step() const { return runtime->verbs.step(runtime->self); }

    // Every input with fixed values that depend on `turn`.
    void feed(int turn) const
    {
        const std::string prompt = "reach for cup " + std::to_string(turn);
        const float state[kRobotValues] = {
            0.1f * static_cast<float>(turn), -0.5f, 1, -1, 0, 2, 0.04f};
        const Frame frames[] = {Frame(FRT_RT_PIXEL_RGB8, 40 + turn, 30, 0),
                                Frame(FRT_RT_PIXEL_BGRA8, 64, 48, 12)};
        const frt_image_view views[] = {frames[0].view, frames[1].view};
        REQUIRE(set("prompt", prompt.data(), prompt.size()) == 0);
        REQUIRE(set("state", state, sizeof state) == 0);
        REQUIRE(set("images", views, sizeof views) == 0);
        float* noise = window("noise");
        for (size_t at = 0; at < kChunk * kModelValues; at++) {
            noise[at] = std::sin(static_cast<float>(at) + static_cast<float>(turn));
        }
    }
    std::vector<float> actions() const
    {
        std::vector<float> values(kChunk * kRobotValues);
        uint64_t written = 0;
        const int code = runtime->verbs.get_output(runtime->self, port("actions"), values.data(),
                                                   values.size() * sizeof(float), &written, -1);
        REQUIRE(code == 0);
        CHECK(written == values.size() * sizeof(float));
        return values;
    }
};

bool same_bytes(const std::vector<float>& a, const std::vector<float>& b)
{
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace

TEST_CASE("a split replay is bit for bit the full replay", "[reach][stages]")
{
    Model full(R"({"stage_plan":"full"})");
    Model split(R"({"stage_plan":"context_action"})");
    CHECK(full.runtime->n_stages == 1);
    REQUIRE(split.runtime->n_stages == 2);
    CHECK(split.runtime->stages[1].n_after == 1);
    CHECK(split.runtime->stages[1].after[0] == 0);
    CHECK(full.runtime->exp->fingerprint != split.runtime->exp->fingerprint);
    std::vector<float> before;
    for (int turn = 0; turn < 8; turn++) {
        full.feed(turn);
        split.feed(turn);
        REQUIRE(full.step() == 0);
        // The split one is fired stage by stage, as a scheduling host does.
        for (uint64_t at = 0; at < split.runtime->n_stages; at++) {
            const frt_runtime_graph_desc& graph =
                split.runtime->exp->graphs[split.runtime->stages[at].graph];
            REQUIRE(frt_graph_replay(graph.handle, graph.default_key, graph.stream_id) == 0);
        }
        const std::vector<float> actions = full.actions();
        CHECK(same_bytes(actions, split.actions()));
        CHECK(std::memcmp(full.window("actions_raw"), split.window("actions_raw"),
                          kChunk * kModelValues * sizeof(float)) == 0);
        CHECK_FALSE(same_bytes(actions, before));  // the inputs matter
        before = actions;
    }
}

TEST_CASE("a plan over two streams is the host's to order, and step refuses it", "[reach][stages]")
{
    Model full(R"({"stage_plan":"full","streams":2})");
    Model split(R"({"stage_plan":"context_action","streams":2})");
    const frt_runtime_export_v1& exp = *split.runtime->exp;
    REQUIRE(exp.n_streams == 2);
    REQUIRE(split.runtime->n_stages == 2);
    const frt_runtime_graph_desc* graphs[] = {&exp.graphs[split.runtime->stages[0].graph],
                                              &exp.graphs[split.runtime->stages[1].graph]};
    CHECK(graphs[0]->stream_id == exp.streams[0].stream_id);
    CHECK(graphs[1]->stream_id == exp.streams[1].stream_id);
    full.feed(3);
    split.feed(3);
    REQUIRE(full.step() == 0);  // one stage crosses nothing
    const std::vector<float> before = split.actions();
    CHECK(split.step() == FRT_VERB_UNSUPPORTED);
    CHECK(split.error().find("fire the stages") != std::string::npos);
    CHECK(same_bytes(split.actions(), before));
    frt_event handed = frt_ctx_event(exp.ctx);
    REQUIRE(frt_graph_replay(graphs[0]->handle, 0, graphs[0]->stream_id) == FRT_OK);
    REQUIRE(frt_event_record(handed, graphs[0]->stream_id) == FRT_OK);
    REQUIRE(frt_stream_wait(exp.ctx, graphs[1]->stream_id, handed) == FRT_OK);
    REQUIRE(frt_graph_replay(graphs[1]->handle, 0, graphs[1]->stream_id) == FRT_OK);
    frt_event_destroy(handed);
    CHECK(same_bytes(split.actions(), full.actions()));
}

TEST_CASE("a verb takes the stream of its export or -1, and no other", "[reach][payload]")
{
    const float state[kRobotValues] = {};
    float out[kChunk * kRobotValues];
    uint64_t written = 0;
    for (const int streams : {1, 2}) {
        Model model("{\"streams\":" + std::to_string(streams) + "}");
        const frt_model_runtime_v1& runtime = *model.runtime;
        REQUIRE(runtime.exp->n_streams == static_cast<uint64_t>(streams));
        for (const int stream : {-2, -1, 0, 1, 2, INT32_MAX, INT32_MIN}) {
            INFO("stream " << stream << " of " << streams);
            const int want = stream >= -1 && stream < streams ? 0 : FRT_VERB_INVALID;
            CHECK(runtime.verbs.set_input(runtime.self, model.port("state"), state, sizeof state,
                                          stream) == want);
            CHECK(model.error().empty() == (want == 0));
            CHECK(runtime.verbs.get_output(runtime.self, model.port("actions"), out, sizeof out,
                                           &written, stream) == want);
        }
    }
}

TEST_CASE("a chunking plan keeps the prefix of the chunk before", "[reach][stages]")
{
    Model model(R"({"stage_plan":"context_rtc_prefix_action","prefix_len":3})");
    Model plain(R"({"stage_plan":"context_action"})");
    model.feed(1);
    plain.feed(1);
    float* previous = model.window("prev_action_chunk");
    for (size_t at = 0; at < kChunk * kModelValues; at++) {
        previous[at] = 0.01f * static_cast<float>(at);
    }
    REQUIRE(model.step() == 0);
    REQUIRE(plain.step() == 0);
    const float* raw = model.window("actions_raw");
    CHECK(std::memcmp(raw, previous, 3 * kModelValues * sizeof(float)) == 0);
    CHECK(std::memcmp(raw + 3 * kModelValues, plain.window("actions_raw") + 3 * kModelValues,
                      7 * kModelValues * sizeof(float)) == 0);
}

TEST_CASE("raw and native faces compute the same", "[reach]")
{
    Model native(R"({"stage_plan":"full"})");
    Model raw(R"({"stage_plan":"full","io":"raw"})");
    native.feed(3);
    REQUIRE(native.step() == 0);
    for (const char* name : {"images", "noise"}) {
        const frt_runtime_port_desc& desc = raw.runtime->ports[raw.port(name)];
        CHECK(desc.update == FRT_RT_PORT_SWAP);
        std::memcpy(raw.window(name), native.window(name), desc.bytes);
    }
    std::memcpy(raw.window("prompt"), "reach for cup 3", 15);
    // The native face normalises the state; the raw window holds what came out of that.
    const float low[] = {-2.6f, -1.8f, -2.6f, -3.0f, -2.6f, 0.0f, 0.0f};
    const float high[] = {2.6f, 1.8f, 2.6f, 0.0f, 2.6f, 3.6f, 0.08f};
    const float state[] = {0.1f * 3.0f, -0.5f, 1, -1, 0, 2, 0.04f};
    for (size_t at = 0; at < kRobotValues; at++) {
        const float unit = (state[at] - low[at]) / (high[at] - low[at]);
        raw.window("state")[at] = unit * 2.0f - 1.0f;
    }
    REQUIRE(raw.step() == 0);
    CHECK(std::memcmp(native.window("actions_raw"), raw.window("actions_raw"),
                      kChunk * kModelValues * sizeof(float)) == 0);
    CHECK(raw.set("images", nullptr, 0) == FRT_VERB_UNSUPPORTED);
    CHECK(raw.error().find("write the window") != std::string::npos);
}

TEST_CASE("all pixel formats and strides give the same picture", "[reach][payload]")
{
    Model model(R"({"num_views":1})");
    const float* window = model.window("images");
    std::vector<float> want;
    for (const uint32_t format : {0u, 1u, 2u, 3u}) {
        for (const int32_t padding : {0, 5, 64}) {
            const Frame frame(format, 50, 37, padding);
            REQUIRE(model.set("images", &frame.view, sizeof frame.view) == 0);
            const std::vector<float> got(window, window + 32 * 32 * 3);
            want = want.empty() ? got : want;
            INFO("format " << format << " padding " << padding);
            CHECK(same_bytes(got, want));
        }
    }
    const Frame gray(FRT_RT_PIXEL_GRAY8, 32, 32, 0);
    REQUIRE(model.set("images", &gray.view, sizeof gray.view) == 0);
    for (size_t pixel = 0; pixel < 32 * 32; pixel++) {
        const float value = static_cast<float>(gray.pixels[pixel]) / 127.5f - 1.0f;
        CHECK(window[pixel * 3] == value);  // 32 to 32: nothing to interpolate
        CHECK(window[pixel * 3 + 2] == value);
    }
}

TEST_CASE("image payloads are checked before anything is touched", "[reach][payload]")
{
    Model model("{}");
    model.feed(0);
    const std::vector<float> before(model.window("images"), model.window("images") + 32 * 32 * 6);
    const Frame good(FRT_RT_PIXEL_RGB8, 16, 16, 0);
    const struct {
        const char* name;
        int want;
        void (*change)(frt_image_view* view);
    } rows[] = {
        {"struct_size short", -1, [](frt_image_view* view) { view->struct_size = 47; }},
        {"no pixels", -1, [](frt_image_view* view) { view->data = nullptr; }},
        {"unknown format", -4, [](frt_image_view* view) { view->pixel_format = 5; }},
        {"width 0", -4, [](frt_image_view* view) { view->width = 0; }},
        {"height negative", -4, [](frt_image_view* view) { view->height = -1; }},
        {"too wide", -4, [](frt_image_view* view) { view->width = 1921; }},
        {"stride below a row", -4, [](frt_image_view* view) { view->stride_bytes = 47; }},
        {"stride negative", -4, [](frt_image_view* view) { view->stride_bytes = -48; }},
        {"bytes short by one", -5, [](frt_image_view* view) { view->bytes -= 1; }},
        {"stride times height over bytes", -5,
         [](frt_image_view* view) { view->stride_bytes = 49; }},
    };
    for (const auto& row : rows) {
        INFO(row.name);
        frt_image_view views[] = {good.view, good.view};
        row.change(&views[1]);
        CHECK(model.set("images", views, sizeof views) == row.want);
        CHECK_FALSE(model.error().empty());
        CHECK(std::memcmp(model.window("images"), before.data(), before.size() * sizeof(float)) ==
              0);
    }
    const frt_image_view views[] = {good.view, good.view, good.view};
    CHECK(model.set("images", views, sizeof views[0]) == FRT_VERB_SHAPE);
    CHECK(model.set("images", views, sizeof views) == FRT_VERB_SHAPE);
    CHECK(model.set("images", views, sizeof views[0] + 1) == FRT_VERB_INVALID);
    CHECK(model.set("images", views, sizeof views[0] * 2) == 0);
    CHECK(model.error().empty());
}

TEST_CASE("prompt, state and actions keep their payload rules", "[reach][payload]")
{
    Model model("{}");
    const std::string long_prompt(129, 'a');
    const float state[8] = {};
    float bad_state[7] = {};
    bad_state[3] = NAN;
    CHECK(model.step() == FRT_VERB_INVALID);  // required ports were never written
    CHECK(model.set("prompt", long_prompt.data(), 129) == FRT_VERB_SHAPE);
    CHECK(model.set("prompt", long_prompt.data(), 128) == 0);
    CHECK(model.set("prompt", "\xff", 1) == FRT_VERB_INVALID);
    CHECK(model.set("prompt", nullptr, 1) == FRT_VERB_INVALID);
    CHECK(model.set("prompt", nullptr, 0) == 0);
    CHECK(model.set("state", state, 27) == FRT_VERB_INVALID);
    CHECK(model.set("state", state, 32) == FRT_VERB_SHAPE);
    CHECK(model.set("state", bad_state, 28) == FRT_VERB_INVALID);
    CHECK(model.set("state", state, 28) == 0);
    CHECK(model.set("noise", state, 28) == FRT_VERB_UNSUPPORTED);
    CHECK(model.set("actions", state, 28) == FRT_VERB_INVALID);
    const frt_model_runtime_verbs& verbs = model.runtime->verbs;
    void* self = model.runtime->self;
    CHECK(verbs.set_input(self, 99, state, 28, -1) == FRT_VERB_INVALID);
    CHECK(verbs.set_input(self, model.port("state"), state, 28, 5) == FRT_VERB_INVALID);
    CHECK(verbs.set_input(self, model.port("state"), state, 28, 0) == 0);

    const uint32_t actions = model.port("actions");
    char out[512];
    std::memset(out, 0x5a, sizeof out);
    uint64_t written = 0;
    CHECK(verbs.get_output(self, actions, out, 279, &written, -1) == FRT_VERB_STORAGE);
    CHECK(written == 280);
    CHECK(out[0] == 0x5a);
    CHECK(verbs.get_output(self, actions, out, 280, &written, -1) == 0);
    CHECK(out[280] == 0x5a);
    CHECK(verbs.get_output(self, actions, nullptr, 280, &written, -1) == FRT_VERB_INVALID);
    CHECK(verbs.get_output(self, model.port("actions_raw"), out, 280, &written, -1) ==
          FRT_VERB_UNSUPPORTED);
    CHECK(verbs.get_output(self, 0, out, 280, &written, -1) == FRT_VERB_INVALID);
    CHECK(verbs.prepare(self, 0, 0) == 0);
    CHECK(verbs.prepare(self, 0, 1) == FRT_VERB_NOT_FOUND);
    CHECK(verbs.prepare(self, 99, 0) == FRT_VERB_NOT_FOUND);
}

TEST_CASE("hot verbs and ticks of reach allocate nothing and capture nothing", "[reach][hot]")
{
    Model model("{}");
    model.feed(0);
    const Frame frames[] = {Frame(0, 64, 48, 0), Frame(1, 64, 48, 3)};
    const frt_image_view views[] = {frames[0].view, frames[1].view};
    const float state[7] = {};
    float out[kChunk * kRobotValues];
    uint64_t written = 0;
    const frt_model_runtime_verbs& verbs = model.runtime->verbs;
    void* self = model.runtime->self;
    const uint32_t ports[] = {model.port("images"), model.port("state"), model.port("actions")};
    const float* images_window = model.window("images");
    const uint64_t before = allocation_calls();
    int failures = 0;
    for (int turn = 0; turn < 300; turn++) {
        failures += verbs.set_input(self, ports[0], views, sizeof views, -1);
        failures += verbs.set_input(self, ports[1], state, sizeof state, -1);
        failures += verbs.set_input(self, ports[1], state, 3, -1) == FRT_VERB_INVALID ? 0 : 1;
        failures += verbs.step(self);
        failures += verbs.get_output(self, ports[2], out, sizeof out, &written, -1);
    }
    CHECK(allocation_calls() == before);
    CHECK(failures == 0);
    CHECK(model.window("images") == images_window);
    for (uint64_t at = 0; at < model.runtime->exp->n_graphs; at++) {
        CHECK(frt_graph_variant_count(model.runtime->exp->graphs[at].handle) == 1);
    }
}

TEST_CASE("a million ticks of a producer call no allocator", "[hot]")
{
    frt::LoadedModel loaded;
    REQUIRE(loaded.open(SCALE_LIBRARY, "{\"gain\": 2}") == frt::LoadStatus::loaded);
    const frt_model_runtime_v1* runtime = loaded.runtime();
    const frt_model_runtime_verbs& verbs = runtime->verbs;
    float x[] = {1, 2, 3, 4};
    float y[4] = {};
    uint64_t written = 0;
    int failures = 0;
    const frt_runtime_port_desc before = runtime->ports[0];
    const uint64_t calls = allocation_calls();
    for (int turn = 0; turn < 1000 * 1000; turn++) {
        x[0] = static_cast<float>(turn % 1000);
        failures += verbs.set_input(runtime->self, 0, x, sizeof x, -1);
        failures += verbs.step(runtime->self);
        failures += verbs.get_output(runtime->self, 1, y, sizeof y, &written, -1);
        failures += y[0] == 2 * x[0] ? 0 : 1;
    }
    CHECK(allocation_calls() == calls);
    CHECK(failures == 0);
    CHECK(std::memcmp(&before, &runtime->ports[0], sizeof before) == 0);
}

namespace {

int count_up(void* arguments)
{
    (**static_cast<uint64_t**>(arguments))++;
    return 0;
}

void record_count(void* user, void* stream)
{
    const frt_cpu_recorder* recorder = static_cast<const frt_cpu_recorder*>(stream);
    REQUIRE(recorder->call(recorder->self, count_up, &user, sizeof user) == 0);
}

}  // namespace

TEST_CASE("a million replays capture nothing and bind nothing anew", "[hot]")
{
    frt_ctx ctx = frt_ctx_create_on("cpu");
    uint64_t count = 0;
    frt_buffer buffer = frt_buffer_alloc(ctx, "w", 64);
    frt_graph graphs[2] = {frt_graph_create(ctx, "a", 0), frt_graph_create(ctx, "b", 0)};
    for (frt_graph graph : graphs) {
        REQUIRE(frt_graph_bind(graph, "w", buffer) == FRT_OK);
        REQUIRE(frt_graph_capture(graph, 0, record_count, &count) == FRT_OK);
    }
    const void* window = frt_buffer_dptr(buffer);
    const uint64_t calls = allocation_calls();
    int failures = 0;
    for (int turn = 0; turn < 1000 * 1000; turn++) {
        failures += frt_graph_replay(graphs[0], 0, 0);
        failures += frt_graph_replay(graphs[1], 0, 0);
    }
    CHECK(allocation_calls() == calls);
    CHECK(failures == 0);
    CHECK(count == 2000 * 1000);
    for (frt_graph graph : graphs) {
        CHECK(frt_graph_variant_count(graph) == 1);
        CHECK(frt_graph_bound(graph, "w") == buffer);
    }
    CHECK(frt_buffer_dptr(buffer) == window);
    frt_ctx_destroy(ctx);
}

namespace {

template <typename Row>
void append_rows(std::string* all, const Row* rows, uint64_t count)
{
    all->append(reinterpret_cast<const char*>(rows), count * sizeof(Row));
}

// Everything that a host may hold on to: descriptors, windows, where their memory lies, variants.
std::string held(const frt_model_runtime_v1& runtime)
{
    const frt_runtime_export_v1& exp = *runtime.exp;
    std::string all;
    append_rows(&all, &runtime, 1);
    append_rows(&all, &exp, 1);
    append_rows(&all, exp.streams, exp.n_streams);
    append_rows(&all, exp.graphs, exp.n_graphs);
    append_rows(&all, exp.buffers, exp.n_buffers);
    append_rows(&all, exp.capsule_regions, exp.n_capsule_regions);
    append_rows(&all, runtime.ports, runtime.n_ports);
    append_rows(&all, runtime.stages, runtime.n_stages);
    for (uint64_t at = 0; at < exp.n_buffers; at++) {
        void* memory = frt_buffer_dptr(exp.buffers[at].handle);
        const size_t bytes = frt_buffer_bytes(exp.buffers[at].handle);
        append_rows(&all, &memory, 1);
        append_rows(&all, &bytes, 1);
    }
    for (uint64_t at = 0; at < exp.n_graphs; at++) {
        const size_t variants = frt_graph_variant_count(exp.graphs[at].handle);
        const int has = frt_graph_has_variant(exp.graphs[at].handle, exp.graphs[at].default_key);
        append_rows(&all, &variants, 1);
        append_rows(&all, &has, 1);
        for (uint64_t port = 0; port < runtime.n_ports; port++) {
            const frt_buffer bound =
                frt_graph_bound(exp.graphs[at].handle, runtime.ports[port].name);
            append_rows(&all, &bound, 1);
        }
    }
    return all + exp.identity;
}

constexpr int kPhases = 16;  // noises that take turns
constexpr int kWholeEvery = 100;

// Ticks as a host with a slow camera makes them: new noise into its window, a new state, the action
// stage, the actions; every hundredth also a frame, a prompt and the whole plan. Failures and
// outputs that differ from those of the same noise before are counted.
int drive(const Model& model, int ticks)
{
    const frt_model_runtime_v1& runtime = *model.runtime;
    const frt_model_runtime_verbs& verbs = runtime.verbs;
    const frt_runtime_graph_desc& action = runtime.exp->graphs[runtime.stages[1].graph];
    const uint32_t ports[] = {model.port("prompt"), model.port("images"), model.port("state"),
                              model.port("actions")};
    const Frame frame(FRT_RT_PIXEL_BGR8, 64, 48, 3);
    const float state[kRobotValues] = {0.1f, 0.2f, 0.3f, -0.4f, 0.5f, 0.6f, 0.01f};
    float* noise = model.window("noise");
    float first[kPhases][kRobotValues];
    float out[kRobotValues];
    uint64_t written = 0;
    int failures = 0;
    const uint64_t calls = allocation_calls();
    for (int turn = 0; turn < ticks; turn++) {
        const int phase = turn % kPhases;
        for (size_t at = 0; at < kModelValues; at++) {
            noise[at] = static_cast<float>(phase) * 0.1f - static_cast<float>(at) * 0.05f;
        }
        failures += verbs.set_input(runtime.self, ports[2], state, sizeof state, -1);
        if (turn % kWholeEvery == 0) {
            failures += verbs.set_input(runtime.self, ports[0], "reach", 5, -1);
            failures += verbs.set_input(runtime.self, ports[1], &frame.view, sizeof frame.view, 0);
            failures += verbs.step(runtime.self);
        } else {
            failures += frt_graph_replay(action.handle, action.default_key, action.stream_id);
        }
        failures +=
            verbs.get_output(runtime.self, ports[3], out, sizeof out, &written, action.stream_id);
        if (turn < kPhases) {
            std::memcpy(first[phase], out, sizeof out);
        }
        failures += std::memcmp(first[phase], out, sizeof out) == 0 ? 0 : 1;
    }
    CHECK(allocation_calls() == calls);
    CHECK(std::memcmp(first[0], first[1], sizeof out) != 0);  // the window matters
    return failures;
}

}  // namespace

TEST_CASE("a million ticks over graphs, windows and STAGED ports set nothing up anew", "[hot]")
{
    setup = {};
    Model model(R"({"stage_plan":"context_action","num_views":1,"chunk":1,"num_steps":1})");
    const SetupCalls opened = setup;
    CHECK(opened.captures == 3);  // the counters see a producer's calls
    CHECK(opened.buffers == 8);
    const std::string before = held(*model.runtime);
    const bool counted = flashrt::conformance::allocation_calls_counted();
    CHECK(drive(model, counted ? 1000 * 1000 : 10 * 1000) == 0);  // a sanitizer takes its time
    CHECK(held(*model.runtime) == before);
    CHECK(setup.captures == opened.captures);
    CHECK(setup.binds == opened.binds);
    CHECK(setup.buffers == opened.buffers);
}

TEST_CASE("bad configurations are refused and leave nothing", "[reach]")
{
    const char* rows[] = {"",
                          "[]",
                          "{",
                          R"({"io":"python"})",
                          R"({"io":1})",
                          R"({"stage_plan":"nope"})",
                          R"({"num_views":0})",
                          R"({"num_views":4})",
                          R"({"num_views":1.5})",
                          R"({"num_views":1,"num_views":2})",
                          R"({"unknown":1})",
                          R"({"streams":0})",
                          R"({"streams":3})",
                          R"({"prefix_len":11})",
                          R"({"stage_plan":"full","prefix_len":3})",
                          R"({"stage_plan":"context_rtc_prefix_action"})",
                          R"({"chunk":99999999999999999999})",
                          R"({"chunk":10} x)"};
    for (const char* row : rows) {
        INFO(row);
        frt::LoadedModel loaded;
        CHECK(loaded.open(REACH_LIBRARY, row) == frt::LoadStatus::factory);
        CHECK(loaded.factory_code() == FRT_VERB_INVALID);
        CHECK(loaded.runtime() == nullptr);
    }
}
