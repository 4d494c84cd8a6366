// Purpose:  the reach runtime object: buffers, graphs, ports and verbs around the network.
// Owns:     a Reach owns its execution context, and with it every buffer and graph.
// Thread:   one driver thread at a time; release from any.
// Lifetime: from open until the last reference to its model runtime goes.
#pragma once

#include "flashrt/config.hpp"
#include "flashrt/stage_plan.hpp"
#include "network.h"

namespace aotx::reach {

// "main" is the context's own stream 0; the action stage may have one of its own.
constexpr uint32_t kStreamsMax = 2;
constexpr const char* kStreamNames[kStreamsMax] = {"main", "action"};

// What the configuration chose; see docs of the producer for the keys.
struct Options {
    bool native;  // images, prompt, state and actions STAGED; else raw SWAP tensors
    char stage_plan[32];
    Shape shape;
    uint32_t frame_width_max;
    uint32_t frame_height_max;
    uint64_t seed;
    uint32_t streams;
};

// 0, or -1 with the reason in frt_runtime_refusal.
int options_read(const char* config_json, Options* options);

// Register the built-in plans: full, context_action, context_rtc_prefix_action.
int plans_register(frt::StagePlans* plans);

// Ports in the order of their declaration.
enum class Port : uint32_t {
    prompt = 0,
    state = 1,
    images = 2,
    noise = 3,
    actions = 4,
    actions_raw = 5,
    previous = 6,
    count = 7
};

constexpr size_t kErrorBytes = 256;

struct Reach {
    Options options;
    Weights weights;
    Windows windows;
    frt_ctx ctx;
    frt_buffer images;
    frt_buffer text;
    frt_buffer state;
    frt_buffer noise;
    frt_buffer previous;
    frt_buffer context;
    frt_buffer actions;
    frt_buffer scratch;
    frt_graph graphs[4];
    uint32_t graphs_count;
    int streams[kStreamsMax];                        // IDs of the context, as exported
    int graph_streams[4];                            // by graph
    Port ports[static_cast<uint32_t>(Port::count)];  // by port index
    uint32_t ports_count;
    uint32_t stage_graphs[2];
    uint32_t stages_count;
    bool crosses_streams;                              // a stage waits for one of another stream
    bool written[static_cast<uint32_t>(Port::count)];  // STAGED inputs, by Port
    char error[kErrorBytes];
};

// The verbs, for finish_model. self is a Reach.
frt_model_runtime_verbs verbs();

}  // namespace aotx::reach
