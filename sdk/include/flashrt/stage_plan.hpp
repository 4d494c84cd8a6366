// Purpose:  stage plans by name: how a producer cuts its work into stages, chosen when it exports.
// Owns:     a registry owns its entries, a plan its stages.
// Thread:   one at a time; register while the shared object sets itself up.
// Lifetime: plans live only from the factory call until they are resolved.
//
// A plan names graphs and streams; resolving it against a builder turns the names into indices and
// adds the stages. The plan's own name never crosses the ABI: a host sees stages and dependencies.
#ifndef FLASHRT_STAGE_PLAN_HPP
#define FLASHRT_STAGE_PLAN_HPP

#include "detail/declarations.hpp"

extern "C++" {

#include <initializer_list>

namespace frt {

// Numbers that whoever exports hands to a plan's factory, for example a chunk size.
struct StagePlanArgument {
    const char* key;
    int64_t value;
};

// The arguments of one export, by key.
class StagePlanArguments {
public:
    StagePlanArguments() = default;
    StagePlanArguments(const StagePlanArgument* rows, uint32_t count) : rows_(rows), count_(count)
    {
    }
    // The value of a key, or the fallback. At most 32 arguments.
    int64_t get(const char* key, int64_t fallback)
    {
        for (uint32_t at = 0; at < count_; at++) {
            if (strcmp(rows_[at].key, key) == 0) {
                used_ |= UINT32_C(1) << (at % 32);
                return rows_[at].value;
            }
        }
        return fallback;
    }
    // The first argument that no factory asked for, or nullptr.
    const char* unused() const
    {
        for (uint32_t at = 0; at < count_; at++) {
            if (at >= 32 || (used_ & (UINT32_C(1) << at)) == 0) {
                return rows_[at].key;
            }
        }
        return nullptr;
    }

private:
    const StagePlanArgument* rows_ = nullptr;
    uint32_t count_ = 0;
    uint32_t used_ = 0;
};

// The stages of one plan, in their sequential order.
class StagePlan {
public:
    StagePlan() : strings_(frt_detail::builder_new(nullptr, true)) {}
    ~StagePlan()
    {
        free(stages_.rows);
        frt_detail::builder_free(strings_);
    }
    StagePlan(const StagePlan&) = delete;
    StagePlan& operator=(const StagePlan&) = delete;

    // Append a stage. after: names of earlier stages. stream: the stream that the graph must be
    // placed on, or nullptr for whichever it is. -1: refused, see frt_runtime_refusal.
    int stage(const char* name, const char* graph, std::initializer_list<const char*> after = {},
              const char* stream = nullptr);

    // Check the whole plan against a builder, then add its stages; all of them or none. -1: an
    // empty plan, an unknown graph or stream, a stream that is not the graph's, or what the
    // builder refuses.
    int resolve(frt_runtime_builder builder) const;

private:
    struct Row {
        const char* name;
        const char* graph;
        const char* stream;
        const uint32_t* after;
        uint32_t n_after;
    };

    int find(const char* name, uint32_t* index) const;
    int graph_index(const frt_runtime_builder_s& builder, const Row& row, uint32_t* index) const;

    frt_detail::List<Row> stages_;
    frt_detail::Builder* strings_;  // keeps the copies
};

// Fill in a plan. 0, or -1 after frt_detail::refuse.
using StagePlanFactory = int (*)(void* self, StagePlanArguments* arguments, StagePlan* plan);

// Plans by model and name. Model code and customer code register here alike.
class StagePlans {
public:
    StagePlans() = default;
    ~StagePlans() { free(rows_.rows); }
    StagePlans(const StagePlans&) = delete;
    StagePlans& operator=(const StagePlans&) = delete;

    // model "" serves every model that has no plan of this name itself. The strings are borrowed.
    // -1: null, empty name, or registered already.
    int add(const char* model, const char* name, StagePlanFactory factory, void* self = nullptr);

    // Build the plan and resolve it against the builder. -1: unknown plan, an argument that the
    // plan does not know, or what StagePlan::resolve refuses.
    int apply(const char* model, const char* name, StagePlanArguments arguments,
              frt_runtime_builder builder) const;

private:
    struct Row {
        const char* model;
        const char* name;
        StagePlanFactory factory;
        void* self;
    };

    const Row* find(const char* model, const char* name) const;

    frt_detail::List<Row> rows_;
};

inline int StagePlan::find(const char* name, uint32_t* index) const
{
    for (size_t at = 0; at < stages_.count; at++) {
        if (strcmp(stages_.rows[at].name, name) == 0) {
            *index = static_cast<uint32_t>(at);
            return 0;
        }
    }
    return -1;
}

inline int StagePlan::stage(const char* name, const char* graph,
                            std::initializer_list<const char*> after, const char* stream)
{
    using namespace frt_detail;
    if (strings_ == nullptr) {
        return refuse_memory();
    }
    if (check_name("stage", name, SIZE_MAX, stages_.rows, stages_.count) != 0) {
        return -1;
    }
    if (graph == nullptr) {
        return refuse("stage '%.100s' names no graph", name);
    }
    List<uint32_t> indices;
    for (const char* earlier : after) {
        uint32_t index = 0;
        if (earlier == nullptr || find(earlier, &index) != 0) {
            free(indices.rows);
            return refuse("stage '%.100s' comes after '%.100s', which is not an earlier stage",
                          name, earlier == nullptr ? "" : earlier);
        }
        if (!indices.push(index)) {
            free(indices.rows);
            return refuse_memory();
        }
    }
    Row row = {keep_text(strings_, name), keep_text(strings_, graph), nullptr, nullptr,
               static_cast<uint32_t>(indices.count)};
    bool kept = row.name != nullptr && row.graph != nullptr &&
                keep_array(strings_, indices.rows, indices.count, &row.after);
    free(indices.rows);
    if (stream != nullptr) {
        row.stream = keep_text(strings_, stream);
        kept = kept && row.stream != nullptr;
    }
    return kept && stages_.push(row) ? 0 : refuse_memory();
}

inline int StagePlan::graph_index(const frt_runtime_builder_s& builder, const Row& row,
                                  uint32_t* index) const
{
    using namespace frt_detail;
    const frt_runtime_graph_desc* graph = nullptr;
    for (size_t at = 0; at < builder.graphs.count; at++) {
        if (strcmp(builder.graphs.rows[at].name, row.graph) == 0) {
            graph = &builder.graphs.rows[at];
            *index = static_cast<uint32_t>(at);
        }
    }
    if (graph == nullptr) {
        return refuse("stage '%.100s' names graph '%.100s', which is not declared", row.name,
                      row.graph);
    }
    if (row.stream == nullptr) {
        return 0;
    }
    for (size_t at = 0; at < builder.streams.count; at++) {
        if (strcmp(builder.streams.rows[at].name, row.stream) != 0) {
            continue;
        }
        if (builder.streams.rows[at].stream_id != graph->stream_id) {
            return refuse("stage '%.100s' wants stream '%.100s', but its graph replays on %d",
                          row.name, row.stream, graph->stream_id);
        }
        return 0;
    }
    return refuse("stage '%.100s' names stream '%.100s', which is not declared", row.name,
                  row.stream);
}

inline int StagePlan::resolve(frt_runtime_builder builder) const
{
    using namespace frt_detail;
    if (builder == nullptr || stages_.count == 0) {
        return refuse(builder == nullptr ? "the builder is NULL" : "the plan has no stages");
    }
    if (builder->metadata || builder->plan_started || builder->stages.count > 0) {
        return refuse("the builder has stages already or takes none");
    }
    uint32_t graph = 0;
    for (size_t at = 0; at < stages_.count; at++) {
        if (graph_index(*builder, stages_.rows[at], &graph) != 0) {
            return -1;
        }
    }
    for (size_t at = 0; at < stages_.count; at++) {
        const Row& row = stages_.rows[at];
        frt_runtime_stage_desc stage = {0, row.n_after, nullptr};
        if (graph_index(*builder, row, &stage.graph) != 0 ||
            !keep_array(builder, row.after, row.n_after, &stage.after) ||
            !builder->stages.push(stage)) {
            builder->stages.count = 0;
            return refuse_memory();
        }
    }
    return 0;
}

inline const StagePlans::Row* StagePlans::find(const char* model, const char* name) const
{
    const Row* general = nullptr;
    for (size_t at = 0; at < rows_.count; at++) {
        const Row& row = rows_.rows[at];
        if (strcmp(row.name, name) != 0) {
            continue;
        }
        if (strcmp(row.model, model) == 0) {
            return &row;
        }
        general = row.model[0] == '\0' ? &row : general;
    }
    return general;
}

inline int StagePlans::add(const char* model, const char* name, StagePlanFactory factory,
                           void* self)
{
    using namespace frt_detail;
    if (model == nullptr || name == nullptr || name[0] == '\0' || factory == nullptr) {
        return refuse("a stage plan needs a model, a name and a factory");
    }
    const Row* known = find(model, name);
    if (known != nullptr && strcmp(known->model, model) == 0) {
        return refuse("stage plan '%.100s' of model '%.100s' is registered already", name, model);
    }
    return rows_.push({model, name, factory, self}) ? 0 : refuse_memory();
}

inline int StagePlans::apply(const char* model, const char* name, StagePlanArguments arguments,
                             frt_runtime_builder builder) const
{
    using namespace frt_detail;
    const Row* row = model == nullptr || name == nullptr ? nullptr : find(model, name);
    if (row == nullptr) {
        return refuse("model '%.100s' has no stage plan '%.100s'", model == nullptr ? "" : model,
                      name == nullptr ? "" : name);
    }
    StagePlan plan;
    if (row->factory(row->self, &arguments, &plan) != 0) {
        return -1;
    }
    if (arguments.unused() != nullptr) {
        return refuse("stage plan '%.100s' takes no argument '%.100s'", name, arguments.unused());
    }
    return plan.resolve(builder);
}

}  // namespace FRT_HIDDEN
}  // extern "C++"

#endif
