// Purpose:  graph caches and plans of flashrt/exec.h.
// Owns:     see objects.h.
// Thread:   one thread at a time per context; evict only when nothing is in flight.
// Lifetime: see objects.h.
#include <cstring>
#include <new>

#include "objects.h"

namespace aotx::exec {
namespace {

void executable_end(frt_graph graph, const Variant& variant)
{
    if (!variant.adopted) {
        graph->ctx->backend->executable_end(variant.executable);
    }
}

void variant_drop(frt_graph graph, Variant* variant)
{
    executable_end(graph, *variant);
    graph->variants.remove(variant);
}

// Enter an executable under a key, replacing what is there, then keep the bound. On failure the
// table is as it was and the executable still the caller's.
int variant_put(frt_graph graph, frt_shape_key key, void* executable, bool adopted)
{
    Variant* variant = graph->variants.find(key);
    if (variant != nullptr) {
        executable_end(graph, *variant);
        graph->variants.touch(variant);
    } else {
        variant = graph->variants.insert(key);
        if (variant == nullptr) {
            return FRT_ERR_OOM;
        }
    }
    variant->executable = executable;
    variant->adopted = adopted;
    if (graph->variants_max > 0 && graph->variants.count() > graph->variants_max) {
        variant_drop(graph, graph->variants.oldest());
    }
    return FRT_OK;
}

bool node_known(frt_plan plan, int node)
{
    return node >= 0 && static_cast<size_t>(node) < plan->nodes.count();
}

// Let a node's stream wait for the events of its dependencies.
int node_wait(frt_plan plan, int node)
{
    const PlanNode& waiting = plan->nodes[static_cast<size_t>(node)];
    for (size_t index = 0; index < plan->edges.count(); index++) {
        if (plan->edges[index].node != node) {
            continue;
        }
        const PlanNode& before = plan->nodes[static_cast<size_t>(plan->edges[index].dependency)];
        const int status = frt_stream_wait(plan->ctx, waiting.stream_id, before.done);
        if (status != FRT_OK) {
            return status;
        }
    }
    return FRT_OK;
}

}  // namespace
}  // namespace aotx::exec

using aotx::exec::Binding;
using aotx::exec::PlanNode;
using aotx::exec::Stream;
using aotx::exec::Variant;

extern "C" {

frt_graph frt_graph_create(frt_ctx ctx, const char* name, size_t variants_max)
{
    char* copy = ctx == nullptr ? nullptr : aotx::exec::name_copy(name);
    frt_graph graph = copy == nullptr
                          ? nullptr
                          : new (std::nothrow)
                                frt_graph_s{ctx, nullptr, nullptr, copy, variants_max, {}, {}};
    if (graph == nullptr) {
        std::free(copy);
        return nullptr;
    }
    aotx::exec::chain_add(&ctx->graphs, graph);
    return graph;
}

void frt_graph_destroy(frt_graph graph)
{
    if (graph == nullptr) {
        return;
    }
    while (graph->variants.count() > 0) {
        aotx::exec::variant_drop(graph, graph->variants.oldest());
    }
    for (size_t index = 0; index < graph->bindings.count(); index++) {
        std::free(graph->bindings[index].port);
    }
    aotx::exec::chain_remove(&graph->ctx->graphs, graph);
    std::free(graph->name);
    delete graph;
}

int frt_graph_capture(frt_graph graph, frt_shape_key key, void (*record)(void* user, void* stream),
                      void* user)
{
    if (graph == nullptr || record == nullptr) {
        return FRT_ERR_INVALID;
    }
    const aotx::exec::Backend* backend = graph->ctx->backend;
    void* executable = nullptr;
    const int status = backend->capture(graph->ctx->stream(0)->native, record, user, &executable);
    if (status != FRT_OK) {
        return status;
    }
    const int entered = aotx::exec::variant_put(graph, key, executable, false);
    if (entered != FRT_OK) {
        backend->executable_end(executable);
    }
    return entered;
}

int frt_graph_adopt(frt_graph graph, frt_shape_key key, void* executable)
{
    if (graph == nullptr || executable == nullptr) {
        return FRT_ERR_INVALID;
    }
    return aotx::exec::variant_put(graph, key, executable, true);
}

int frt_graph_bind(frt_graph graph, const char* port, frt_buffer buffer)
{
    if (graph == nullptr || port == nullptr || buffer == nullptr) {
        return FRT_ERR_INVALID;
    }
    for (size_t index = 0; index < graph->bindings.count(); index++) {
        if (std::strcmp(graph->bindings[index].port, port) == 0) {
            graph->bindings[index].buffer = buffer;
            return FRT_OK;
        }
    }
    char* copy = aotx::exec::name_copy(port);
    if (copy == nullptr || !graph->bindings.push({copy, buffer})) {
        std::free(copy);
        return FRT_ERR_OOM;
    }
    return FRT_OK;
}

frt_buffer frt_graph_bound(frt_graph graph, const char* port)
{
    if (graph == nullptr || port == nullptr) {
        return nullptr;
    }
    for (size_t index = 0; index < graph->bindings.count(); index++) {
        const Binding& binding = graph->bindings[index];
        if (std::strcmp(binding.port, port) == 0) {
            return binding.buffer;
        }
    }
    return nullptr;
}

int frt_graph_replay(frt_graph graph, frt_shape_key key, int stream_id)
{
    if (graph == nullptr) {
        return FRT_ERR_INVALID;
    }
    Variant* variant = graph->variants.find(key);
    if (variant == nullptr) {
        return FRT_ERR_NO_VARIANT;
    }
    const Stream* stream = graph->ctx->stream(stream_id);
    if (stream == nullptr) {
        return FRT_ERR_INVALID;
    }
    graph->variants.touch(variant);
    return graph->ctx->backend->launch(variant->executable, variant->adopted, stream->native);
}

int frt_graph_has_variant(frt_graph graph, frt_shape_key key)
{
    return graph != nullptr && graph->variants.find(key) != nullptr ? 1 : 0;
}

int frt_graph_evict(frt_graph graph, frt_shape_key key)
{
    if (graph == nullptr) {
        return FRT_ERR_INVALID;
    }
    Variant* variant = graph->variants.find(key);
    if (variant == nullptr) {
        return FRT_ERR_NO_VARIANT;
    }
    aotx::exec::variant_drop(graph, variant);
    return FRT_OK;
}

int frt_graph_evict_lru(frt_graph graph)
{
    if (graph == nullptr) {
        return FRT_ERR_INVALID;
    }
    if (graph->variants.count() == 0) {
        return FRT_ERR_NO_VARIANT;
    }
    aotx::exec::variant_drop(graph, graph->variants.oldest());
    return FRT_OK;
}

size_t frt_graph_variant_count(frt_graph graph)
{
    return graph == nullptr ? 0 : graph->variants.count();
}

frt_plan frt_plan_create(frt_ctx ctx)
{
    frt_plan plan =
        ctx == nullptr ? nullptr : new (std::nothrow) frt_plan_s{ctx, nullptr, nullptr, {}, {}};
    if (plan != nullptr) {
        aotx::exec::chain_add(&ctx->plans, plan);
    }
    return plan;
}

void frt_plan_destroy(frt_plan plan)
{
    if (plan == nullptr) {
        return;
    }
    for (size_t index = 0; index < plan->nodes.count(); index++) {
        frt_event_destroy(plan->nodes[index].done);
    }
    aotx::exec::chain_remove(&plan->ctx->plans, plan);
    delete plan;
}

int frt_plan_add(frt_plan plan, frt_graph graph, frt_shape_key key, int stream_id)
{
    if (plan == nullptr || graph == nullptr || graph->ctx != plan->ctx ||
        plan->ctx->stream(stream_id) == nullptr) {
        return FRT_ERR_INVALID;
    }
    if (!plan->nodes.push({graph, key, stream_id, nullptr})) {
        return FRT_ERR_OOM;
    }
    return static_cast<int>(plan->nodes.count() - 1);
}

int frt_plan_after(frt_plan plan, int node, int dependency)
{
    if (plan == nullptr || !aotx::exec::node_known(plan, node) ||
        !aotx::exec::node_known(plan, dependency) || dependency >= node) {
        return FRT_ERR_INVALID;
    }
    PlanNode& before = plan->nodes[static_cast<size_t>(dependency)];
    if (before.done == nullptr) {
        // Made here once, so that executing the plan makes none.
        before.done = frt_ctx_event(plan->ctx);
        if (before.done == nullptr) {
            return FRT_ERR_BACKEND;
        }
    }
    return plan->edges.push({node, dependency}) ? FRT_OK : FRT_ERR_OOM;
}

int frt_plan_execute(frt_plan plan, frt_shape_key key)
{
    if (plan == nullptr) {
        return FRT_ERR_INVALID;
    }
    for (size_t index = 0; index < plan->nodes.count(); index++) {
        const PlanNode& node = plan->nodes[index];
        int status = aotx::exec::node_wait(plan, static_cast<int>(index));
        if (status == FRT_OK) {
            const frt_shape_key used = node.key == FRT_KEY_INHERIT ? key : node.key;
            status = frt_graph_replay(node.graph, used, node.stream_id);
        }
        if (status == FRT_OK && node.done != nullptr) {
            status = frt_event_record(node.done, node.stream_id);
        }
        if (status != FRT_OK) {
            return status;
        }
    }
    return FRT_OK;
}

int frt_plan_sync(frt_plan plan)
{
    if (plan == nullptr) {
        return FRT_ERR_INVALID;
    }
    for (size_t index = 0; index < plan->nodes.count(); index++) {
        const int status = frt_stream_sync(plan->ctx, plan->nodes[index].stream_id);
        if (status != FRT_OK) {
            return status;
        }
    }
    return FRT_OK;
}

}  // extern "C"
