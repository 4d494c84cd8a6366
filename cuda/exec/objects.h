// Purpose:  what the handles of flashrt/exec.h point at.
// Owns:     a context owns everything that is made in it, through chains.
// Thread:   one thread at a time per context.
// Lifetime: until its destroy call or that of its context.
#pragma once

#include "backend.h"
#include "rows.h"
#include "variant_table.h"

namespace aotx::exec {

struct Stream {
    void* native;
    bool owned;  // made here, so ended here
};

struct Binding {
    char* port;
    frt_buffer buffer;
};

struct PlanNode {
    frt_graph graph;
    frt_shape_key key;
    int stream_id;
    frt_event done;  // recorded after the node; nullptr until something waits for it
};

struct PlanEdge {
    int node;
    int dependency;
};

// A copy of a name, "" for none; nullptr: no memory.
char* name_copy(const char* name);

}  // namespace aotx::exec

struct frt_buffer_s {
    frt_ctx ctx;
    frt_buffer previous;
    frt_buffer next;
    char* name;
    void* memory;
    size_t bytes;
    bool owned;
};

struct frt_event_s {
    frt_ctx ctx;
    frt_event previous;
    frt_event next;
    void* native;
};

struct frt_graph_s {
    frt_ctx ctx;
    frt_graph previous;
    frt_graph next;
    char* name;
    size_t variants_max;  // 0: no bound
    aotx::exec::VariantTable variants;
    aotx::exec::Rows<aotx::exec::Binding> bindings;
};

struct frt_plan_s {
    frt_ctx ctx;
    frt_plan previous;
    frt_plan next;
    aotx::exec::Rows<aotx::exec::PlanNode> nodes;
    aotx::exec::Rows<aotx::exec::PlanEdge> edges;  // in the order of frt_plan_after
};

struct frt_ctx_s {
    const aotx::exec::Backend* backend;
    aotx::exec::Rows<aotx::exec::Stream> streams;  // index is the stream ID
    frt_buffer buffers;
    frt_event events;
    frt_graph graphs;
    frt_plan plans;

    // nullptr: no such stream.
    const aotx::exec::Stream* stream(int stream_id) const
    {
        const bool known = stream_id >= 0 && static_cast<size_t>(stream_id) < streams.count();
        return known ? &streams[static_cast<size_t>(stream_id)] : nullptr;
    }
};
