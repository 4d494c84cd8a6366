// Purpose:  the verbs of the reach example: checks first, then effects, never an allocation.
// Owns:     nothing.
// Thread:   one driver thread at a time.
// Lifetime: constant.
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "image.h"
#include "reach.h"

namespace aotx::reach {
namespace {

// Where a robot of this kind moves: 1st and 99th percentile of each joint, radians.
constexpr float kStateLow[kStateValues] = {-2.6f, -1.8f, -2.6f, -3.0f, -2.6f, 0.0f, 0.0f};
constexpr float kStateHigh[kStateValues] = {2.6f, 1.8f, 2.6f, 0.0f, 2.6f, 3.6f, 0.08f};
// Mean and spread of each action value.
constexpr float kActionMean[kRobotValues] = {0.0f, 0.0f, 0.05f, 0.0f, 0.0f, 0.0f, 0.5f};
constexpr float kActionSpread[kRobotValues] = {0.3f, 0.3f, 0.3f, 0.5f, 0.5f, 0.5f, 0.5f};

__attribute__((format(printf, 3, 4))) int fail(Reach* reach, int code, const char* format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(reach->error, sizeof reach->error, format, arguments);
    va_end(arguments);
    return code;
}

int done(Reach* reach)
{
    reach->error[0] = '\0';
    return FRT_VERB_OK;
}

int set_prompt(Reach* reach, const void* data, uint64_t bytes)
{
    if (bytes > kPromptBytes) {
        return fail(reach, FRT_VERB_SHAPE, "the prompt holds %llu bytes, at most %u",
                    static_cast<unsigned long long>(bytes), kPromptBytes);
    }
    const char* text = static_cast<const char*>(data);
    char copy[kPromptBytes + 1] = {};
    if (bytes > 0) {
        std::memcpy(copy, text, bytes);
    }
    if (std::strlen(copy) != bytes || !frt_detail::is_utf8(copy)) {
        return fail(reach, FRT_VERB_INVALID, "the prompt is not UTF-8 or holds a zero byte");
    }
    std::memcpy(frt_buffer_dptr(reach->text), copy, kPromptBytes);
    return done(reach);
}

int set_state(Reach* reach, const void* data, uint64_t bytes)
{
    if (bytes % sizeof(float) != 0) {
        return fail(reach, FRT_VERB_INVALID, "the state is not a whole number of f32 values");
    }
    if (bytes != kStateValues * sizeof(float)) {
        return fail(reach, FRT_VERB_SHAPE, "the state holds %llu values, not %u",
                    static_cast<unsigned long long>(bytes / sizeof(float)), kStateValues);
    }
    float values[kStateValues];
    std::memcpy(values, data, sizeof values);
    for (uint32_t at = 0; at < kStateValues; at++) {
        if (!std::isfinite(values[at])) {
            return fail(reach, FRT_VERB_INVALID, "state value %u is not a finite number", at);
        }
        const float unit = (values[at] - kStateLow[at]) / (kStateHigh[at] - kStateLow[at]);
        const float wide = unit * 2.0f - 1.0f;
        values[at] = std::fmin(std::fmax(wide, -1.0f), 1.0f);
    }
    std::memcpy(frt_buffer_dptr(reach->state), values, sizeof values);
    return done(reach);
}

int set_images(Reach* reach, const void* data, uint64_t bytes)
{
    const uint32_t views = reach->options.shape.views;
    if (bytes % sizeof(frt_image_view) != 0) {
        return fail(reach, FRT_VERB_INVALID, "the payload is not an array of frt_image_view");
    }
    if (bytes / sizeof(frt_image_view) != views) {
        return fail(reach, FRT_VERB_SHAPE, "%llu frames came, %u cameras are declared",
                    static_cast<unsigned long long>(bytes / sizeof(frt_image_view)), views);
    }
    frt_image_view frames[kViewsMax];
    std::memcpy(frames, data, bytes);
    for (uint32_t view = 0; view < views; view++) {
        const char* reason = nullptr;
        const int code = image_check(frames[view], reach->options.frame_width_max,
                                     reach->options.frame_height_max, &reason);
        if (code != FRT_VERB_OK) {
            return fail(reach, code, "camera %u: %s", view, reason);
        }
    }
    float* to = static_cast<float*>(frt_buffer_dptr(reach->images));
    for (uint32_t view = 0; view < views; view++) {
        image_resize(frames[view], kImageSide, to + view * kImageValues);
    }
    return done(reach);
}

// An exported stream, or -1 for the port's own. The CPU is done when a verb returns, so which one
// changes nothing.
bool stream_known(const Reach& reach, int stream)
{
    for (uint32_t at = 0; at < reach.options.streams; at++) {
        if (stream == reach.streams[at]) {
            return true;
        }
    }
    return stream == -1;
}

int set_input(void* self, uint32_t port, const void* data, uint64_t bytes, int stream)
{
    Reach* reach = static_cast<Reach*>(self);
    if (port >= reach->ports_count || !stream_known(*reach, stream)) {
        return fail(reach, FRT_VERB_INVALID, "there is no port %u or no stream %d", port, stream);
    }
    const Port kind = reach->ports[port];
    if (kind == Port::actions || kind == Port::actions_raw) {
        return fail(reach, FRT_VERB_INVALID, "port %u is an output", port);
    }
    if (!reach->options.native || kind == Port::noise || kind == Port::previous) {
        return fail(reach, FRT_VERB_UNSUPPORTED, "port %u is SWAP: write the window", port);
    }
    if (data == nullptr && bytes > 0) {
        return fail(reach, FRT_VERB_INVALID, "the payload is NULL");
    }
    int code = FRT_VERB_OK;
    if (kind == Port::prompt) {
        code = set_prompt(reach, data, bytes);
    } else if (kind == Port::state) {
        code = set_state(reach, data, bytes);
    } else {
        code = set_images(reach, data, bytes);
    }
    reach->written[static_cast<uint32_t>(kind)] |= code == FRT_VERB_OK;
    return code;
}

int get_output(void* self, uint32_t port, void* out, uint64_t capacity, uint64_t* written,
               int stream)
{
    Reach* reach = static_cast<Reach*>(self);
    if (port >= reach->ports_count || !stream_known(*reach, stream)) {
        return fail(reach, FRT_VERB_INVALID, "there is no port %u or no stream %d", port, stream);
    }
    if (reach->ports[port] == Port::actions_raw) {
        return fail(reach, FRT_VERB_UNSUPPORTED, "port %u is SWAP: read the window", port);
    }
    if (reach->ports[port] != Port::actions) {
        return fail(reach, FRT_VERB_INVALID, "port %u is an input", port);
    }
    if (out == nullptr || written == nullptr) {
        return fail(reach, FRT_VERB_INVALID, "out or written is NULL");
    }
    const uint32_t chunk = reach->options.shape.chunk;
    const uint64_t need = uint64_t{chunk} * kRobotValues * sizeof(float);
    *written = need;
    if (capacity < need) {
        return fail(reach, FRT_VERB_STORAGE, "actions need %llu bytes",
                    static_cast<unsigned long long>(need));
    }
    const float* raw = reach->windows.actions;
    for (uint32_t row = 0; row < chunk; row++) {
        float values[kRobotValues];
        for (uint32_t at = 0; at < kRobotValues; at++) {
            const float unit = std::fmin(std::fmax(raw[row * kActionValues + at], -1.0f), 1.0f);
            values[at] = unit * kActionSpread[at] + kActionMean[at];
        }
        std::memcpy(static_cast<char*>(out) + row * sizeof values, values, sizeof values);
    }
    return done(reach);
}

int prepare(void* self, uint32_t graph, frt_shape_key key)
{
    Reach* reach = static_cast<Reach*>(self);
    if (graph >= reach->graphs_count || frt_graph_has_variant(reach->graphs[graph], key) == 0) {
        return fail(reach, FRT_VERB_NOT_FOUND, "graph %u has no variant under key %llu", graph,
                    static_cast<unsigned long long>(key));
    }
    return done(reach);
}

int step(void* self)
{
    Reach* reach = static_cast<Reach*>(self);
    if (reach->crosses_streams) {
        // A step replays on streams and waits for none, so only the host can order two of them.
        return fail(reach, FRT_VERB_UNSUPPORTED,
                    "a stage waits for one of another stream: fire the stages");
    }
    const Port staged[] = {Port::prompt, Port::state, Port::images};
    for (const Port port : staged) {
        if (reach->options.native && !reach->written[static_cast<uint32_t>(port)]) {
            return fail(reach, FRT_VERB_INVALID, "port %u was never written",
                        static_cast<uint32_t>(port));
        }
    }
    for (uint32_t at = 0; at < reach->stages_count; at++) {
        const int status = frt_graph_replay(reach->graphs[reach->stage_graphs[at]], 0,
                                            reach->graph_streams[reach->stage_graphs[at]]);
        if (status != FRT_OK) {
            return fail(reach, FRT_VERB_BACKEND, "stage %u: the replay answered %d", at, status);
        }
    }
    return done(reach);
}

const char* last_error(void* self)
{
    return static_cast<Reach*>(self)->error;
}

}  // namespace

frt_model_runtime_verbs verbs()
{
    return {sizeof(frt_model_runtime_verbs), 0, set_input, get_output, prepare, step, last_error};
}

}  // namespace aotx::reach
