// Purpose:  a producer that keeps every rule of the ABI, or breaks exactly the one that its
//           configuration names: what the conformance suite must find.
// Owns:     a Broken per runtime.
// Thread:   verbs on one thread; release from any.
// Lifetime: from open until the last release, unless the broken rule says otherwise.
//
// Configuration: {} or {"break": "rule"}; rules of "loader." and "suite." are for their own tests,
// and suite.mixed breaks none: it runs by a plan of a graph and an OPAQUE stage that needs it.
// The object is a hand-made copy of one that the builder made, so that anything in it can be bent.
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

#include <cstring>
#include <new>
#include <string>

#include "flashrt/builder.hpp"
#include "flashrt/config.hpp"
#include "flashrt/cpu_recorder.h"

namespace {

constexpr uint32_t kViews = 2;
constexpr int kUndeclaredStream = 3;  // there, but in no table
constexpr uint32_t kFinish = 91;      // reference of the OPAQUE stage behind the graph
enum PortIndex : uint32_t {
    kX = 0,
    kImages = 1,
    kRaw = 2,
    kY = 3,
    kText = 4,
    kMode = 5,
    kPorts = 6
};

struct Broken {
    std::string rule;
    uint64_t references = 1;
    frt_ctx ctx = nullptr;
    frt_graph graph = nullptr;
    frt_buffer in = nullptr;
    frt_buffer raw = nullptr;
    frt_buffer other = nullptr;
    const frt_model_runtime_v1* base = nullptr;
    frt_model_runtime_v1 model = {};
    frt_runtime_export_v1 exp = {};
    frt_runtime_stream_desc stream = {};
    frt_runtime_graph_desc graphs[1] = {};
    frt_runtime_buffer_desc buffers[2] = {};
    frt_runtime_region_desc regions[1] = {};
    frt_runtime_port_desc ports[kPorts] = {};
    frt_runtime_stage_desc stages[1] = {};
    uint32_t after[1] = {0};
    frt_generic_stage_desc_v1 plan_stages[2] = {};
    frt_generic_stage_plan_ext_v1 plan = {};
    std::string identity;
    std::string error;
    float image_sum[kViews] = {};
    const float* borrowed = nullptr;
    uint32_t ticks = 0;
    char behind = 0;  // what lay behind a payload
    pthread_t opener = {};
    pthread_t capturer = {};  // of hot.recapture: its heap calls are not those of the hot thread
    sem_t capture_wanted = {};
    sem_t capture_done = {};
    bool ends = false;

    bool breaks(const char* name) const { return rule == name; }
};

Broken* newest = nullptr;  // the runtime that a second open wrongly hands out again

Broken* self_of(void* self)
{
    return static_cast<Broken*>(self);
}

int answer(Broken* broken, int code)
{
    broken->error = code == 0 && !broken->breaks("verb.error_cleared") ? "" : "refused";
    if (code != 0 && broken->breaks("verb.error_text")) {
        broken->error.clear();
    }
    return code;
}

int set_images(Broken* broken, const void* data, uint64_t bytes)
{
    if (bytes % sizeof(frt_image_view) != 0 && !broken->breaks("payload.frames")) {
        return -1;
    }
    if (bytes / sizeof(frt_image_view) != kViews && !broken->breaks("payload.frame_count")) {
        return -4;
    }
    const uint64_t count = bytes / sizeof(frt_image_view);
    for (uint64_t at = 0; at < count; at++) {
        frt_image_view view;
        std::memcpy(&view, static_cast<const char*>(data) + at * sizeof view, sizeof view);
        const bool fields = view.struct_size >= 48 && view.data != nullptr;
        if (!fields) {
            return broken->breaks("payload.frame_fields") ? -4 : -1;
        }
        if (view.pixel_format > 4) {
            return broken->breaks("payload.pixel_format") ? 0 : -4;
        }
        if (view.stride_bytes < 0 ||
            (view.stride_bytes > 0 && view.stride_bytes < view.width * 3)) {
            return broken->breaks("payload.stride") ? -1 : -4;
        }
        if (view.bytes <
            static_cast<uint64_t>(view.width * 3) * static_cast<uint64_t>(view.height)) {
            return broken->breaks("payload.frame_bytes") ? 0 : -5;
        }
        broken->image_sum[at % kViews] = static_cast<const uint8_t*>(view.data)[0];
    }
    return 0;
}

int set_x(Broken* broken, const void* data, uint64_t bytes)
{
    if (bytes != 16 && !broken->breaks("payload.size")) {
        return bytes % 4 != 0 ? -1 : -4;
    }
    if (broken->breaks("payload.accept")) {
        return -4;
    }
    if (broken->breaks("payload.reuse")) {
        broken->borrowed = static_cast<const float*>(data);
        return 0;
    }
    if (broken->breaks("payload.bounds")) {
        broken->behind = static_cast<const volatile char*>(data)[bytes];
    }
    std::memcpy(frt_buffer_dptr(broken->in), data, bytes < 16 ? bytes : 16);
    return 0;
}

void record(void* user, void* stream);

void* capture_on_demand(void* argument)
{
    Broken* broken = self_of(argument);
    for (sem_wait(&broken->capture_wanted); !broken->ends; sem_wait(&broken->capture_wanted)) {
        broken->ticks++;
        frt_graph_capture(broken->graph, broken->ticks, record, broken);
        sem_post(&broken->capture_done);
    }
    return nullptr;
}

void capturer_begin(Broken* broken)
{
    if (broken->breaks("hot.recapture")) {
        sem_init(&broken->capture_wanted, 0, 0);
        sem_init(&broken->capture_done, 0, 0);
        pthread_create(&broken->capturer, nullptr, capture_on_demand, broken);
    }
}

void capturer_end(Broken* broken)
{
    if (broken->breaks("hot.recapture")) {
        broken->ends = true;
        sem_post(&broken->capture_wanted);
        pthread_join(broken->capturer, nullptr);
    }
}

int set_input(void* self, uint32_t port, const void* data, uint64_t bytes, int)
{
    Broken* broken = self_of(self);
    if (port >= kPorts) {
        return answer(broken, broken->breaks("verb.unknown_port") ? -2 : -1);
    }
    if (port == kY || port == kText) {
        return answer(broken, broken->breaks("verb.direction") ? 0 : -1);
    }
    if (port == kRaw) {
        return answer(broken, broken->breaks("verb.swap") ? -1 : -3);
    }
    if (port == kMode) {
        return answer(broken, data != nullptr ? 0 : broken->breaks("verb.codes") ? -9 : -1);
    }
    if (data == nullptr && bytes > 0) {
        return answer(broken, broken->breaks("verb.null_data") ? -4 : -1);
    }
    if (broken->breaks("hot.allocations")) {
        void* volatile block = malloc(64);  // volatile: or the compiler drops both calls
        free(block);
    }
    if (broken->breaks("hot.recapture")) {
        sem_post(&broken->capture_wanted);
        sem_wait(&broken->capture_done);
    }
    return answer(broken,
                  port == kX ? set_x(broken, data, bytes) : set_images(broken, data, bytes));
}

// What y is read from: the graph's own result, or what the OPAQUE stage behind it made of that.
frt_buffer result(const Broken* broken)
{
    return broken->breaks("suite.mixed") ? broken->other : broken->raw;
}

int get_output(void* self, uint32_t port, void* out, uint64_t capacity, uint64_t* written, int)
{
    Broken* broken = self_of(self);
    if (port >= kPorts || (port != kY && port != kText)) {
        return answer(broken, -1);
    }
    const uint64_t need = 16;
    if (out == nullptr && broken->breaks("output.null")) {
        return answer(broken, 0);
    }
    if (out == nullptr) {
        return answer(broken, -1);
    }
    *written = need;
    if (capacity < need) {
        if (broken->breaks("output.need")) {
            std::memset(out, 0, capacity);
            return answer(broken, -4);
        }
        return answer(broken, -5);
    }
    std::memcpy(out, frt_buffer_dptr(result(broken)), need);
    if (broken->breaks("output.exact")) {
        std::memset(static_cast<char*>(out) + need, 0, 1);
    }
    return answer(broken, 0);
}

int prepare(void* self, uint32_t graph, frt_shape_key)
{
    Broken* broken = self_of(self);
    while (broken->breaks("suite.hang")) {
        pause();
    }
    return answer(broken, graph == 0 ? 0 : broken->breaks("verb.prepare") ? 0 : -2);
}

int work(void* arguments)
{
    Broken* broken = *static_cast<Broken**>(arguments);
    const float* in = broken->borrowed != nullptr
                          ? broken->borrowed
                          : static_cast<const float*>(frt_buffer_dptr(broken->in));
    float* raw = static_cast<float*>(frt_buffer_dptr(broken->raw));
    broken->ticks++;
    for (int at = 0; at < 4; at++) {
        raw[at] = in[at] * 2.0f + broken->image_sum[0] + broken->image_sum[1];
        raw[at] += broken->breaks("tick.repeatable") ? static_cast<float>(broken->ticks) : 0.0f;
    }
    if (broken->breaks("hot.rebind")) {
        broken->ports[kX].cadence_hint_hz++;
    }
    return broken->breaks("tick.runs") ? -1 : 0;
}

void record(void* user, void* stream)
{
    const frt_cpu_recorder* recorder = static_cast<const frt_cpu_recorder*>(stream);
    recorder->call(recorder->self, work, &user, sizeof user);
}

void finish(Broken* broken)
{
    const float* raw = static_cast<const float*>(frt_buffer_dptr(broken->raw));
    float* other = static_cast<float*>(frt_buffer_dptr(broken->other));
    for (int at = 0; at < 4; at++) {
        other[at] = raw[at] + 1.0f;
    }
}

int step(void* self)
{
    Broken* broken = self_of(self);
    const int code = frt_graph_replay(broken->graph, 0, 0);
    if (broken->breaks("suite.mixed")) {
        finish(broken);
    }
    if (broken->breaks("tick.step_equals_stages")) {
        static_cast<float*>(frt_buffer_dptr(broken->raw))[0] += 1.0f;
    }
    return answer(broken, code == 0 ? 0 : -6);
}

const char* last_error(void* self)
{
    return self_of(self)->error.c_str();
}

int run_opaque(void* stage_self, uint32_t reference)
{
    if (reference == kFinish) {
        finish(self_of(stage_self));
        return 0;
    }
    return frt_graph_replay(self_of(stage_self)->graph, 0, 0) == 0 ? 0 : -6;
}

void retain(void* owner)
{
    Broken* broken = self_of(owner);
    if (broken->breaks("lifetime.threads") && pthread_equal(pthread_self(), broken->opener) == 0) {
        return;  // counts the references of its own thread only
    }
    __atomic_fetch_add(&broken->references, UINT64_C(1), __ATOMIC_RELAXED);
}

void release(void* owner)
{
    Broken* broken = self_of(owner);
    if (__atomic_fetch_sub(&broken->references, UINT64_C(1), __ATOMIC_ACQ_REL) == 1) {
        const bool tied =
            broken->breaks("lifetime.foreign_thread") || broken->breaks("lifetime.threads");
        if (tied && pthread_equal(pthread_self(), broken->opener) == 0) {
            _exit(9);
        }
        capturer_end(broken);
        frt_model_runtime_v1* base = const_cast<frt_model_runtime_v1*>(broken->base);
        base->release(base->owner);
        frt_ctx_destroy(broken->ctx);
        newest = newest == broken ? nullptr : newest;
        delete broken;
    }
}

void retain_nothing(void*) {}
void release_and_end(void*)
{
    _exit(9);
}

int query(const frt_model_runtime_v1* runtime, uint64_t id, uint32_t min_version, const void** out)
{
    const Broken* broken =
        runtime == nullptr ? nullptr : static_cast<const Broken*>(runtime->owner);
    if (out != nullptr) {
        const bool kept = broken != nullptr && broken->breaks("query.unknown") && id != 1;
        *out = kept ? broken : nullptr;
    }
    if (runtime == nullptr || out == nullptr) {
        return -1;
    }
    if (min_version == 0) {
        return broken->breaks("query.null") ? -3 : -1;
    }
    const bool has_plan = broken->plan.n_stages != 0;
    if (id != 1 || min_version > 1 || !has_plan) {
        return broken->breaks("query.stable") && id == 1 && min_version == 1
                   ? (const_cast<Broken*>(broken)->ticks++ % 2 == 0 ? -3 : -1)
                   : -3;
    }
    *out = &broken->plan;
    return 0;
}

// The good object first, through the builder.
const frt_model_runtime_v1* make_good(Broken* broken)
{
    broken->ctx = frt_ctx_create_on("cpu");
    for (int undeclared = 1; undeclared <= kUndeclaredStream; undeclared++) {
        frt_ctx_stream(broken->ctx, 0);
    }
    broken->in = frt_buffer_alloc(broken->ctx, "in", 16);
    broken->raw = frt_buffer_alloc(broken->ctx, "raw", 16);
    broken->other = frt_buffer_alloc(broken->ctx, "other", 16);
    broken->graph = frt_graph_create(broken->ctx, "run", 0);
    frt_graph_capture(broken->graph, 0, record, broken);
    frt_runtime_builder builder = frt_runtime_builder_create(broken->ctx);
    const frt_shape_key keys[] = {0};
    const int64_t four[] = {4};
    const int64_t images[] = {kViews, 8, 8, 3};
    frt_runtime_builder_add_stream(builder, "main", 0, 0, nullptr);
    frt_runtime_builder_add_graph(builder, "run", broken->graph, 0, keys, 1, 0);
    frt_runtime_builder_add_buffer(builder, "in", broken->in, 16, 1);
    frt_runtime_builder_add_buffer(builder, "raw", broken->raw, 16, 2);
    frt_runtime_builder_add_region(builder, "state", broken->raw, 0, 16, 3);
    frt_runtime_builder_add_port(builder, "x", 0, 1, 0, 0, 1, 1, four, 1, 0, broken->in, 0, 16);
    frt_runtime_builder_add_port(builder, "images", 1, 1, 2, 0, 1, 1, images, 4, 0, nullptr, 0, 0);
    frt_runtime_builder_add_port(builder, "raw", 0, 1, 0, 0, 0, 0, four, 1, 0, broken->raw, 0, 16);
    frt_runtime_builder_add_port(builder, "y", 0, 1, 0, 1, 1, 0, four, 1, 0, nullptr, 0, 0);
    frt_runtime_builder_add_port(builder, "text", 2, 0, 0, 1, 1, 0, four, 1, 0, nullptr, 0, 0);
    frt_runtime_builder_add_port(builder, "mode", 0, 1, 0, 0, 2, 0, four, 1, 0, nullptr, 0, 0);
    frt_runtime_builder_add_stage(builder, 0, nullptr, 0);
    const frt_model_runtime_verbs verbs = {48, 0, set_input, get_output, prepare, step, last_error};
    return frt_runtime_builder_finish_model(builder, &verbs, broken, nullptr, nullptr, nullptr);
}

// A copy in which every part may be bent.
void copy_all(Broken* broken)
{
    const frt_model_runtime_v1* base = broken->base;
    broken->model = *base;
    broken->exp = *base->exp;
    broken->stream = base->exp->streams[0];
    broken->graphs[0] = base->exp->graphs[0];
    std::memcpy(broken->buffers, base->exp->buffers, sizeof broken->buffers);
    broken->regions[0] = base->exp->capsule_regions[0];
    std::memcpy(broken->ports, base->ports, sizeof broken->ports);
    broken->stages[0] = base->stages[0];
    broken->identity = base->exp->identity;
    broken->exp.streams = &broken->stream;
    broken->exp.graphs = broken->graphs;
    broken->exp.buffers = broken->buffers;
    broken->exp.capsule_regions = broken->regions;
    broken->exp.owner = broken;
    broken->exp.retain = retain;
    broken->exp.release = release;
    broken->model.exp = &broken->exp;
    broken->model.ports = broken->ports;
    broken->model.stages = broken->stages;
    broken->model.owner = broken;
    broken->model.retain = retain;
    broken->model.release = release;
    broken->model.query_extension = query;
    broken->plan_stages[0] = {"only", FRT_GENERIC_STAGE_OPAQUE, 7, 0, nullptr};
    broken->plan = {1, 40, broken->plan_stages, 0, broken, run_opaque};
    broken->opener = pthread_self();
}

void bend_export(Broken* broken)
{
    frt_runtime_export_v1* exp = &broken->exp;
    exp->struct_size = broken->breaks("gate.export_size") ? 120 : exp->struct_size;
    exp->retain = broken->breaks("gate.required") ? nullptr : exp->retain;
    if (broken->breaks("gate.arrays")) {
        exp->n_capsule_regions = 0;
    }
    broken->stream.name = broken->breaks("stream.names") ? "" : "main";
    broken->graphs[0].name = broken->breaks("graph.names") ? "" : broken->graphs[0].name;
    broken->graphs[0].stream_id = broken->breaks("graph.stream") ? kUndeclaredStream : 0;
    broken->graphs[0].default_key = broken->breaks("graph.default_key") ? 5 : 0;
    broken->buffers[0].role |= broken->breaks("buffer.names") ? 64 : 0;
    broken->regions[0].bytes = broken->breaks("region.window") ? 17 : 16;
    if (broken->breaks("export.anchor")) {
        exp->ctx = nullptr;
    }
    if (broken->breaks("lifetime.export")) {
        exp->retain = retain_nothing;
        exp->release = release_and_end;
    }
}

void bend_model(Broken* broken)
{
    static const int64_t bad_shape[] = {-2};
    frt_model_runtime_v1* model = &broken->model;
    model->abi_version = broken->breaks("gate.version") ? 2 : 1;
    model->struct_size = broken->breaks("gate.size") ? 132 : model->struct_size;
    model->verbs.struct_size = broken->breaks("gate.verbs_size") ? 40 : 48;
    broken->ports[kY].name = broken->breaks("port.names") ? "x" : "y";
    broken->ports[kX].layout = broken->breaks("port.enums") ? 99 : 0;
    broken->ports[kY].shape = broken->breaks("port.shape") ? bad_shape : broken->ports[kY].shape;
    broken->ports[kRaw].offset = broken->breaks("port.window") ? 1 : 0;
    broken->ports[kX].bytes = broken->breaks("port.bytes") ? 12 : 16;
    if (broken->breaks("port.staged_verbs")) {
        model->verbs.get_output = nullptr;
    }
    broken->stages[0].graph = broken->breaks("stage.graph") ? 1 : 0;
    if (broken->breaks("stage.order")) {
        broken->stages[0].n_after = 1;
        broken->stages[0].after = broken->after;
    }
    if (broken->breaks("authority.one")) {
        broken->plan.n_stages = 1;
    }
    if (broken->breaks("authority.plan") || broken->breaks("authority.anchor")) {
        broken->plan.n_stages = 1;
        model->n_stages = 0;
        model->stages = nullptr;
    }
    if (broken->breaks("authority.plan")) {
        broken->plan_stages[0] = {"only", FRT_GENERIC_STAGE_GRAPH, 0, 0, nullptr};
    }
    if (broken->breaks("suite.mixed")) {
        broken->plan_stages[0] = {"run", FRT_GENERIC_STAGE_GRAPH, 0, 0, nullptr};
        broken->plan_stages[1] = {"finish", FRT_GENERIC_STAGE_OPAQUE, kFinish, 1, broken->after};
        broken->plan.n_stages = 2;
        model->n_stages = 0;
        model->stages = nullptr;
    }
    model->verbs.prepare = broken->breaks("verb.callable") ? nullptr : prepare;
    if (broken->breaks("loader.no_release")) {
        model->release = nullptr;
    }
    if (broken->breaks("lifetime.owner")) {
        model->release = retain_nothing;
        model->retain = release_and_end;
    }
}

// The records of what is declared once it is bent: a wrong record is a rule of its own.
std::string bent_records(const Broken& broken)
{
    frt_runtime_builder_s rows;
    rows.graphs.push(broken.graphs[0]);
    for (const frt_runtime_buffer_desc& buffer : broken.buffers) {
        rows.buffers.push(buffer);
    }
    for (uint64_t at = 0; at < broken.exp.n_capsule_regions; at++) {
        rows.regions.push(broken.regions[at]);
    }
    for (const frt_runtime_port_desc& port : broken.ports) {
        rows.ports.push(port);
    }
    for (uint64_t at = 0; at < broken.model.n_stages; at++) {
        rows.stages.push(broken.stages[at]);
    }
    for (uint64_t at = 0; at < broken.plan.n_stages; at++) {
        rows.generic_stages.push(broken.plan_stages[at]);
    }
    size_t bytes = 0;
    char* text = frt_detail::identity_text(rows, &bytes);
    std::string records(text, bytes);
    free(text);
    free(rows.graphs.rows);
    free(rows.buffers.rows);
    free(rows.regions.rows);
    free(rows.ports.rows);
    free(rows.stages.rows);
    free(rows.generic_stages.rows);
    return records;
}

void bend_identity(Broken* broken)
{
    frt_runtime_export_v1* exp = &broken->exp;
    broken->identity = bent_records(*broken);
    if (broken->breaks("identity.form")) {
        broken->identity = "some-identity\n" + broken->identity;
    }
    if (broken->breaks("identity.records")) {
        broken->identity += "port:9:more\n";
    }
    if (broken->breaks("identity.stable")) {
        static int opened = 0;
        opened++;
        const size_t head = broken->identity.find('\n') + 1;
        broken->identity.insert(head, "opened=" + std::to_string(opened) + "\n");
    }
    exp->identity = broken->identity.c_str();
    exp->fingerprint = frt_runtime_fingerprint(broken->identity.data(), broken->identity.size());
    exp->fingerprint += broken->breaks("identity.fingerprint") ? 1 : 0;
}

int open_broken(const char* rule, frt_model_runtime_v1** out)
{
    if (std::string("factory.independent") == rule && newest != nullptr) {
        retain(newest);
        *out = &newest->model;
        return FRT_VERB_OK;
    }
    Broken* broken = new Broken;
    newest = broken;
    broken->rule = rule;
    broken->error.reserve(64);
    broken->base = make_good(broken);
    if (broken->base == nullptr) {
        return FRT_VERB_BACKEND;
    }
    capturer_begin(broken);
    copy_all(broken);
    bend_export(broken);
    bend_model(broken);
    bend_identity(broken);
    *out = &broken->model;
    if (broken->breaks("gate.size") || broken->breaks("loader.no_release")) {
        // Nobody can release these, so a leak checker must still find them, also at exit.
        [[maybe_unused]] static Broken* volatile kept[2];
        kept[broken->breaks("gate.size") ? 0 : 1] = broken;
    }
    return broken->breaks("loader.code_and_object") ? FRT_VERB_SHAPE : FRT_VERB_OK;
}

// The rules about the factory itself. true: this call is answered here.
bool bend_factory(const std::string& rule, int* code)
{
    static int opened = 0;
    opened++;
    // Statics begin anew when the library is loaded again; the environment does not.
    const char* before = getenv("FLASHRT_BROKEN_PRODUCER");
    const bool reloaded = opened == 1 && before != nullptr;
    setenv("FLASHRT_BROKEN_PRODUCER", "loaded", 1);
    *code = FRT_VERB_BACKEND;
    return rule == "factory.opens" || (rule == "factory.unloads" && reloaded);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int frt_model_runtime_open_v1(
    const char* config_json, frt_model_runtime_v1** out)
{
    static std::string rule;  // also for the calls whose configuration is broken on purpose
    frt::FlatConfig config;
    const char* text = "";
    const bool good = config.parse(config_json) == 0 && config.text("break", "", &text) == 0;
    if (good) {
        rule = text;
    }
    if (out == nullptr) {
        return rule == "factory.null_out" ? -3 : -1;
    }
    if (rule != "factory.out_cleared") {
        *out = nullptr;
    }
    if (config_json == nullptr && rule == "factory.null_config") {
        abort();
    }
    if (!good) {
        return FRT_VERB_INVALID;
    }
    if (rule == "loader.no_object") {
        return FRT_VERB_OK;
    }
    int code = 0;
    if (bend_factory(rule, &code)) {
        return code;
    }
    return open_broken(rule.c_str(), out);
}
