// Purpose:  open the reach example: take buffers, record graphs, declare everything, hand it out.
// Owns:     see reach.h.
// Thread:   open on any thread; the object as the ABI says.
// Lifetime: see reach.h.
#include "reach.h"

#include <cstdio>
#include <cstring>
#include <new>

#include "flashrt/builder.hpp"
#include "flashrt/cpu_recorder.h"

namespace aotx::reach {
namespace {

constexpr const char* kGraphNames[] = {"infer", "context", "decode_only", "decode_rtc_prefix"};
using Work = int (*)(void* arguments);

// A recorded call gets the address of a copy of the Reach pointer.
const Reach& called(void* arguments)
{
    return **static_cast<Reach**>(arguments);
}

int work_context(void* arguments)
{
    const Reach& reach = called(arguments);
    context_run(reach.weights, reach.options.shape, reach.windows);
    return 0;
}

int work_decode(void* arguments)
{
    const Reach& reach = called(arguments);
    action_run(reach.weights, reach.options.shape, reach.windows, false);
    return 0;
}

int work_decode_prefix(void* arguments)
{
    const Reach& reach = called(arguments);
    action_run(reach.weights, reach.options.shape, reach.windows, true);
    return 0;
}

int work_infer(void* arguments)
{
    work_context(arguments);
    return work_decode(arguments);
}

constexpr Work kGraphWork[] = {work_infer, work_context, work_decode, work_decode_prefix};

struct Recording {
    Reach* reach;
    Work work;
};

void record(void* user, void* stream)
{
    const Recording* recording = static_cast<const Recording*>(user);
    const frt_cpu_recorder* recorder = static_cast<const frt_cpu_recorder*>(stream);
    recorder->call(recorder->self, recording->work, &recording->reach, sizeof recording->reach);
}

void reach_free(void* owner)
{
    Reach* reach = static_cast<Reach*>(owner);
    frt_ctx_destroy(reach->ctx);
    delete reach;
}

int buffers_take(Reach* reach)
{
    const Shape& shape = reach->options.shape;
    const size_t action_bytes = size_t{shape.chunk} * kActionValues * sizeof(float);
    const struct {
        frt_buffer* buffer;
        const char* name;
        size_t bytes;
    } rows[] = {
        {&reach->images, "images", size_t{shape.views} * kImageValues * sizeof(float)},
        {&reach->text, "text", kPromptBytes},
        {&reach->state, "state", kStateValues * sizeof(float)},
        {&reach->noise, "noise", action_bytes},
        {&reach->previous, "prev_action_chunk", action_bytes},
        {&reach->context, "context", size_t{shape.tokens()} * 2 * kWidth * sizeof(float)},
        {&reach->actions, "actions", action_bytes},
        {&reach->scratch, "scratch", 2 * kTokensMax * kWidth * sizeof(float)},
    };
    for (const auto& row : rows) {
        *row.buffer = frt_buffer_alloc(reach->ctx, row.name, row.bytes);
        if (*row.buffer == nullptr) {
            return frt_detail::refuse_memory();
        }
    }
    reach->windows = {static_cast<const float*>(frt_buffer_dptr(reach->images)),
                      static_cast<const uint8_t*>(frt_buffer_dptr(reach->text)),
                      static_cast<const float*>(frt_buffer_dptr(reach->state)),
                      static_cast<const float*>(frt_buffer_dptr(reach->noise)),
                      static_cast<const float*>(frt_buffer_dptr(reach->previous)),
                      static_cast<float*>(frt_buffer_dptr(reach->context)),
                      static_cast<float*>(frt_buffer_dptr(reach->actions)),
                      static_cast<float*>(frt_buffer_dptr(reach->scratch))};
    return 0;
}

int streams_make(Reach* reach)
{
    for (uint32_t at = 1; at < reach->options.streams; at++) {
        reach->streams[at] = frt_ctx_stream(reach->ctx, 0);
        if (reach->streams[at] < 0) {
            return frt_detail::refuse_memory();
        }
    }
    // Decoding follows the context and moves aside; the whole inference is one graph on "main".
    const int action = reach->streams[reach->options.streams - 1];
    reach->graph_streams[2] = action;
    reach->graph_streams[3] = action;
    return 0;
}

int graphs_record(Reach* reach)
{
    // The prefix graph exists only where a prefix is configured: its length is fixed here.
    reach->graphs_count = reach->options.shape.prefix > 0 ? 4 : 3;
    for (uint32_t at = 0; at < reach->graphs_count; at++) {
        Recording recording = {reach, kGraphWork[at]};
        reach->graphs[at] = frt_graph_create(reach->ctx, kGraphNames[at], 0);
        if (reach->graphs[at] == nullptr ||
            frt_graph_capture(reach->graphs[at], 0, record, &recording) != FRT_OK) {
            return frt_detail::refuse("graph %s cannot be captured", kGraphNames[at]);
        }
    }
    return 0;
}

int declare_identity(const Reach& reach, frt_runtime_builder builder)
{
    const Options& options = reach.options;
    char digest[32];
    char numbers[6][16];
    const uint32_t values[] = {options.shape.views,  options.shape.chunk, options.shape.steps,
                               options.shape.prefix, kActionValues,       kRobotValues};
    for (size_t at = 0; at < 6; at++) {
        std::snprintf(numbers[at], sizeof numbers[at], "%u", values[at]);
    }
    const uint64_t hash = frt_runtime_fingerprint(&reach.weights, sizeof reach.weights);
    std::snprintf(digest, sizeof digest, "%016llx", static_cast<unsigned long long>(hash));
    const struct {
        const char* key;
        const char* value;
    } pairs[] = {{"model", "reach"},
                 {"producer", "aotx.reach/1"},
                 {"hardware", "cpu"},
                 {"precision", "f32"},
                 {"weights_fnv1a64", digest},
                 {"io", options.native ? "native" : "raw"},
                 {"stage_plan", options.stage_plan},
                 {"num_views", numbers[0]},
                 {"chunk_size", numbers[1]},
                 {"num_steps", numbers[2]},
                 {"prefix_len", numbers[3]},
                 {"model_action_dim", numbers[4]},
                 {"robot_action_dim", numbers[5]}};
    for (const auto& pair : pairs) {
        if (frt_runtime_builder_add_identity(builder, pair.key, pair.value) != 0) {
            return -1;
        }
    }
    return frt_runtime_builder_set_manifest(builder, options.native
                                                         ? "{\"model\":\"reach\",\"io\":\"native\"}"
                                                         : "{\"model\":\"reach\",\"io\":\"raw\"}");
}

int declare_resources(const Reach& reach, frt_runtime_builder builder)
{
    const struct {
        const char* name;
        frt_buffer buffer;
        uint32_t role;
    } buffers[] = {{"images", reach.images, FRT_RT_ROLE_INPUT},
                   {"text", reach.text, FRT_RT_ROLE_INPUT},
                   {"state", reach.state, FRT_RT_ROLE_INPUT},
                   {"noise", reach.noise, FRT_RT_ROLE_INPUT | FRT_RT_ROLE_STATE},
                   {"prev_action_chunk", reach.previous, FRT_RT_ROLE_INPUT | FRT_RT_ROLE_STATE},
                   {"context", reach.context, FRT_RT_ROLE_SCRATCH},
                   {"actions", reach.actions, FRT_RT_ROLE_OUTPUT | FRT_RT_ROLE_STATE}};
    int code = 0;
    for (uint32_t at = 0; at < reach.options.streams; at++) {
        const int id = reach.streams[at];
        code |= frt_runtime_builder_add_stream(builder, kStreamNames[at], id, 0,
                                               frt_ctx_native_stream(reach.ctx, id));
    }
    for (const auto& row : buffers) {
        code |= frt_runtime_builder_add_buffer(builder, row.name, row.buffer,
                                               frt_buffer_bytes(row.buffer), row.role);
    }
    const frt_shape_key keys[] = {0};
    for (uint32_t at = 0; at < reach.graphs_count; at++) {
        code |= frt_runtime_builder_add_graph(builder, kGraphNames[at], reach.graphs[at], 0, keys,
                                              1, reach.graph_streams[at]);
    }
    const uint32_t both = FRT_RT_REGION_SNAPSHOT | FRT_RT_REGION_RESTORE;
    code |= frt_runtime_builder_add_region(builder, "rollout_boundary", reach.noise, 0,
                                           frt_buffer_bytes(reach.noise), both);
    code |= frt_runtime_builder_add_region(builder, "action_chunk", reach.actions, 0,
                                           frt_buffer_bytes(reach.actions), both);
    return code;
}

// What one port declares. buffer: the SWAP window, or the staging window of images.
struct PortRow {
    Port port;
    const char* name;
    uint32_t modality;
    uint32_t dtype;
    uint32_t layout;
    uint32_t direction;
    uint32_t update;
    uint32_t required;
    const int64_t* shape;
    uint32_t rank;
    uint32_t cadence_hint_hz;
    frt_buffer buffer;
    uint64_t bytes;
};

int declare_ports(Reach* reach, frt_runtime_builder builder)
{
    const Shape& shape = reach->options.shape;
    const bool native = reach->options.native;
    const uint32_t update = native ? FRT_RT_PORT_STAGED : FRT_RT_PORT_SWAP;
    const int64_t prompt[] = {native ? -1 : int64_t{kPromptBytes}};
    const int64_t state[] = {kStateValues};
    const int64_t images[] = {shape.views, kImageSide, kImageSide, kChannels};
    const int64_t actions[] = {shape.chunk, kRobotValues};
    const int64_t raw[] = {shape.chunk, kActionValues};
    const uint64_t raw_bytes = frt_buffer_bytes(reach->noise);
    const PortRow rows[] = {
        {Port::prompt, "prompt", native ? FRT_RT_MOD_TEXT : FRT_RT_MOD_TENSOR, FRT_RT_DTYPE_U8,
         FRT_RT_LAYOUT_FLAT, FRT_RT_PORT_IN, update, 1, prompt, 1, 0,
         native ? nullptr : reach->text, native ? 0 : uint64_t{kPromptBytes}},
        {Port::state, "state", native ? FRT_RT_MOD_STATE : FRT_RT_MOD_TENSOR, FRT_RT_DTYPE_F32,
         FRT_RT_LAYOUT_FLAT, FRT_RT_PORT_IN, update, 1, state, 1, 30,
         native ? nullptr : reach->state, native ? 0 : frt_buffer_bytes(reach->state)},
        {Port::images, "images", native ? FRT_RT_MOD_IMAGE : FRT_RT_MOD_TENSOR, FRT_RT_DTYPE_F32,
         FRT_RT_LAYOUT_NHWC, FRT_RT_PORT_IN, update, 1, images, 4, 30, reach->images,
         frt_buffer_bytes(reach->images)},
        {Port::noise, "noise", FRT_RT_MOD_TENSOR, FRT_RT_DTYPE_F32, FRT_RT_LAYOUT_FLAT,
         FRT_RT_PORT_IN, FRT_RT_PORT_SWAP, 1, raw, 2, 0, reach->noise, raw_bytes},
        {Port::actions, "actions", FRT_RT_MOD_ACTION, FRT_RT_DTYPE_F32, FRT_RT_LAYOUT_FLAT,
         FRT_RT_PORT_OUT, FRT_RT_PORT_STAGED, 0, actions, 2, 10, nullptr,
         uint64_t{shape.chunk} * kRobotValues * sizeof(float)},
        {Port::actions_raw, "actions_raw", FRT_RT_MOD_TENSOR, FRT_RT_DTYPE_F32, FRT_RT_LAYOUT_FLAT,
         FRT_RT_PORT_OUT, FRT_RT_PORT_SWAP, 0, raw, 2, 0, reach->actions, raw_bytes},
        {Port::previous, "prev_action_chunk", FRT_RT_MOD_TENSOR, FRT_RT_DTYPE_F32,
         FRT_RT_LAYOUT_FLAT, FRT_RT_PORT_IN, FRT_RT_PORT_SWAP, 1, raw, 2, 0, reach->previous,
         raw_bytes},
    };
    for (const PortRow& row : rows) {
        // The chunk before matters only to a plan that keeps a prefix of it; raw mode has no verb.
        if ((row.port == Port::previous && shape.prefix == 0) ||
            (row.port == Port::actions && !native)) {
            continue;
        }
        if (frt_runtime_builder_add_port(builder, row.name, row.modality, row.dtype, row.layout,
                                         row.direction, row.update, row.required, row.shape,
                                         row.rank, row.cadence_hint_hz, row.buffer, 0,
                                         row.bytes) != 0) {
            return -1;
        }
        reach->ports[reach->ports_count] = row.port;
        reach->ports_count++;
    }
    return 0;
}

int declare_stages(const Reach& reach, frt_runtime_builder builder)
{
    frt::StagePlans plans;
    if (plans_register(&plans) != 0) {
        return -1;
    }
    const frt::StagePlanArgument arguments[] = {{"streams", reach.options.streams},
                                                {"prefix_len", reach.options.shape.prefix}};
    const uint32_t count = reach.options.shape.prefix > 0 ? 2 : 1;
    return plans.apply("reach", reach.options.stage_plan, {arguments, count}, builder);
}

// Builder in, runtime out; the builder is gone either way.
frt_model_runtime_v1* declare_all(Reach* reach, frt_runtime_builder builder)
{
    frt_model_runtime_v1* runtime = nullptr;
    if (declare_identity(*reach, builder) == 0 && declare_resources(*reach, builder) == 0 &&
        declare_ports(reach, builder) == 0 && declare_stages(*reach, builder) == 0) {
        const frt_model_runtime_verbs table = verbs();
        runtime =
            frt_runtime_builder_finish_model(builder, &table, reach, reach, nullptr, reach_free);
    }
    if (runtime == nullptr) {
        frt_runtime_builder_destroy(builder);
        return nullptr;
    }
    reach->stages_count = static_cast<uint32_t>(runtime->n_stages);
    for (uint32_t at = 0; at < reach->stages_count; at++) {
        const frt_runtime_stage_desc& stage = runtime->stages[at];
        reach->stage_graphs[at] = stage.graph;
        for (uint32_t before = 0; before < stage.n_after; before++) {
            reach->crosses_streams |=
                reach->graph_streams[stage.graph] !=
                reach->graph_streams[reach->stage_graphs[stage.after[before]]];
        }
    }
    return runtime;
}

int reach_open(const char* config_json, frt_model_runtime_v1** out)
{
    Options options = {};
    if (options_read(config_json, &options) != 0) {
        return FRT_VERB_INVALID;
    }
    Reach* reach = new (std::nothrow) Reach{};
    if (reach == nullptr) {
        return FRT_VERB_BACKEND;
    }
    reach->options = options;
    weights_make(options.seed, &reach->weights);
    reach->ctx = frt_ctx_create_on("cpu");
    if (reach->ctx == nullptr || buffers_take(reach) != 0 || streams_make(reach) != 0 ||
        graphs_record(reach) != 0) {
        reach_free(reach);
        return FRT_VERB_BACKEND;
    }
    frt_runtime_builder builder = frt_runtime_builder_create(reach->ctx);
    frt_model_runtime_v1* runtime = builder == nullptr ? nullptr : declare_all(reach, builder);
    if (runtime == nullptr) {
        reach_free(reach);
        return FRT_VERB_INVALID;
    }
    *out = runtime;
    return FRT_VERB_OK;
}

}  // namespace
}  // namespace aotx::reach

extern "C" __attribute__((visibility("default"))) int frt_model_runtime_open_v1(
    const char* config_json, frt_model_runtime_v1** out)
{
    if (out == nullptr) {
        return FRT_VERB_INVALID;
    }
    *out = nullptr;
    return aotx::reach::reach_open(config_json, out);
}
