// Purpose:  what a consumer must see before it touches an object that someone else made: versions,
//           sizes with a lower and an upper bound, required fields, plans and their one authority.
// Owns:     nothing; no check retains anything.
// Thread:   any; the refusal text is per thread.
// Lifetime: not applicable.
#ifndef FLASHRT_DETAIL_GATES_HPP
#define FLASHRT_DETAIL_GATES_HPP

#include "declarations.hpp"

extern "C++" {

namespace frt_detail FRT_HIDDEN {

// A struct_size that some version may have: not below what is needed, not above what any will hold,
// and not ending inside a field.
inline bool is_size(uint32_t struct_size, size_t needed_bytes)
{
    return struct_size >= needed_bytes && struct_size <= kStructSizeMax && struct_size % 8 == 0;
}

inline int check_staged_verbs(const frt_runtime_port_desc* ports, uint64_t count,
                              const frt_model_runtime_verbs& verbs)
{
    for (uint64_t at = 0; at < count; at++) {
        const frt_runtime_port_desc& port = ports[at];
        if (port.update != FRT_RT_PORT_STAGED) {
            continue;
        }
        if (port.direction == FRT_RT_PORT_IN && verbs.set_input == nullptr) {
            return refuse("port '%.100s' is a STAGED input and there is no set_input", port.name);
        }
        if (port.direction == FRT_RT_PORT_OUT && verbs.get_output == nullptr) {
            return refuse("port '%.100s' is a STAGED output and there is no get_output", port.name);
        }
    }
    return 0;
}

inline int gate_export(const frt_runtime_export_v1* exp)
{
    if (exp == nullptr) {
        return refuse("the export is NULL");
    }
    if (exp->abi_version != FRT_RUNTIME_ABI_VERSION) {
        return refuse("export.abi_version is %u, not %u", exp->abi_version,
                      FRT_RUNTIME_ABI_VERSION);
    }
    if (!is_size(exp->struct_size, sizeof *exp)) {
        return refuse("export.struct_size is %u", exp->struct_size);
    }
    if (exp->retain == nullptr || exp->release == nullptr) {
        return refuse("export.retain or export.release is NULL");
    }
    if ((exp->n_streams > 0 && exp->streams == nullptr) ||
        (exp->n_graphs > 0 && exp->graphs == nullptr) ||
        (exp->n_buffers > 0 && exp->buffers == nullptr) ||
        (exp->n_capsule_regions > 0 && exp->capsule_regions == nullptr)) {
        return refuse("an array of the export is NULL although its count is not 0");
    }
    if (exp->identity == nullptr) {
        return refuse("export.identity is NULL");
    }
    return 0;
}

// A metadata export holds no resources at all, and no array of none.
inline int gate_anchor(const frt_runtime_export_v1* exp)
{
    if (exp->ctx != nullptr) {
        return 0;
    }
    if (exp->n_streams != 0 || exp->n_graphs != 0 || exp->n_buffers != 0 ||
        exp->n_capsule_regions != 0) {
        return refuse("export.ctx is NULL, so no count may be above 0");
    }
    if (exp->streams != nullptr || exp->graphs != nullptr || exp->buffers != nullptr ||
        exp->capsule_regions != nullptr) {
        return refuse("export.ctx is NULL, so every array is NULL");
    }
    return 0;
}

// Who exports a context names its graphs in stages: a host cannot schedule, wait for or snapshot
// work over resources that it is shown and never told to run.
inline int check_resources_run(const frt_runtime_export_v1* exp, bool runs_graphs, bool has_plan)
{
    if (exp->ctx == nullptr || runs_graphs) {
        return 0;
    }
    return refuse(
        "export.ctx is not NULL, so stages must name its graphs: a runtime that runs by "
        "%s exports a metadata anchor",
        has_plan ? "OPAQUE stages alone" : "step alone");
}

// Version and size: what must hold before any other field may be read.
inline int gate_model_stamp(const frt_model_runtime_v1* model)
{
    if (model == nullptr) {
        return refuse("the model runtime is NULL");
    }
    if (model->abi_version != FRT_MODEL_RUNTIME_ABI_VERSION) {
        return refuse("abi_version is %u, not %u", model->abi_version,
                      FRT_MODEL_RUNTIME_ABI_VERSION);
    }
    if (!is_size(model->struct_size, FRT_MODEL_RUNTIME_V1_BASE_SIZE)) {
        return refuse("struct_size is %u", model->struct_size);
    }
    return 0;
}

inline int gate_model(const frt_model_runtime_v1* model)
{
    if (gate_model_stamp(model) != 0) {
        return -1;
    }
    if (model->exp == nullptr || model->retain == nullptr || model->release == nullptr) {
        return refuse("%s is NULL", model->exp == nullptr      ? "exp"
                                    : model->retain == nullptr ? "retain"
                                                               : "release");
    }
    if ((model->n_ports > 0 && model->ports == nullptr) ||
        (model->n_stages > 0 && model->stages == nullptr)) {
        return refuse("ports or stages is NULL although its count is not 0");
    }
    // Frozen at 48: a table that says less lacks verbs that this struct would be read for.
    if (!is_size(model->verbs.struct_size, sizeof model->verbs)) {
        return refuse("verbs.struct_size is %u", model->verbs.struct_size);
    }
    return gate_export(model->exp);
}

// A host writes windows itself, so a window that is not there or not all there is a wild write.
inline int check_foreign_window(const frt_model_runtime_v1* model,
                                const frt_runtime_port_desc& port)
{
    const bool is_swap = port.update == FRT_RT_PORT_SWAP;
    const bool has_window = port.buffer != nullptr || port.offset != 0 || port.bytes != 0;
    if (model->exp->ctx == nullptr && (is_swap || has_window)) {
        return refuse("port '%.100s': a metadata runtime has no windows and no SWAP ports",
                      port.name);
    }
    if (is_swap && (port.buffer == nullptr || port.bytes == 0)) {
        return refuse("port '%.100s': a SWAP port is a window, and this one has none", port.name);
    }
    return check_window("port", port.name, port.buffer, port.offset, port.bytes,
                        model->exp->buffers, model->exp->n_buffers);
}

// Ports of a foreign object. Modality, dtype and layout may be newer than this header, and a host
// that does not know them leaves the port alone; direction and update decide what a host does.
inline int check_foreign_ports(const frt_model_runtime_v1* model)
{
    for (uint64_t at = 0; at < model->n_ports; at++) {
        const frt_runtime_port_desc& port = model->ports[at];
        if (port.name == nullptr || port.name[0] == '\0') {
            return refuse("port %llu has no name", static_cast<unsigned long long>(at));
        }
        if (port.direction > FRT_RT_PORT_OUT || port.update > FRT_RT_PORT_SETUP) {
            return refuse("port '%.100s': direction %u, update %u", port.name, port.direction,
                          port.update);
        }
        if (port.rank > 0 && port.shape == nullptr) {
            return refuse("port '%.100s': rank is %u and shape is NULL", port.name, port.rank);
        }
        if (check_foreign_window(model, port) != 0) {
            return -1;
        }
    }
    return 0;
}

inline int check_foreign_stages(const frt_model_runtime_v1* model)
{
    for (uint64_t at = 0; at < model->n_stages; at++) {
        const frt_runtime_stage_desc& stage = model->stages[at];
        if (stage.graph >= model->exp->n_graphs) {
            return refuse("stage %llu names graph %u of %llu", static_cast<unsigned long long>(at),
                          stage.graph, static_cast<unsigned long long>(model->exp->n_graphs));
        }
        if (check_after("stage", at, stage.after, stage.n_after, false) != 0) {
            return -1;
        }
    }
    return 0;
}

inline int query_runtime(const frt_model_runtime_v1* runtime, uint64_t id, uint32_t min_version,
                         const void** out)
{
    if (runtime->struct_size < FRT_MODEL_RUNTIME_V1_QUERY_EXTENSION_SIZE ||
        runtime->query_extension == nullptr) {
        return FRT_VERB_UNSUPPORTED;
    }
    // The object itself, never a copy: its query may find its own state through the address.
    return runtime->query_extension(runtime, id, min_version, out);
}

// Ask a foreign object for its generic plan. 0 with *plan NULL: it has none.
inline int query_plan(const frt_model_runtime_v1* model, const frt_generic_stage_plan_ext_v1** plan)
{
    *plan = nullptr;
    const void* table = nullptr;
    const int code = query_runtime(model, FRT_EXT_GENERIC_STAGE_PLAN_V1,
                                   FRT_GENERIC_STAGE_PLAN_ABI_VERSION, &table);
    if (code == FRT_VERB_UNSUPPORTED && table == nullptr) {
        return 0;
    }
    if (code != FRT_VERB_OK || table == nullptr) {
        return refuse("query_extension answered %d with%s a table", code,
                      table == nullptr ? "out" : "");
    }
    *plan = static_cast<const frt_generic_stage_plan_ext_v1*>(table);
    return 0;
}

// The whole table by the rules of the builder; *any_graph and *any_opaque tell its kinds.
inline int check_foreign_plan(const frt_model_runtime_v1* model,
                              const frt_generic_stage_plan_ext_v1* plan, bool* any_graph,
                              bool* any_opaque)
{
    *any_graph = false;
    *any_opaque = false;
    if (plan->abi_version < FRT_GENERIC_STAGE_PLAN_ABI_VERSION ||
        !is_size(plan->struct_size, FRT_GENERIC_STAGE_PLAN_EXT_V1_SIZE)) {
        return refuse("the generic plan's table has version %u and size %u", plan->abi_version,
                      plan->struct_size);
    }
    if (plan->stages == nullptr || plan->n_stages == 0) {
        return refuse("the generic plan is empty");
    }
    if (plan->run_opaque == nullptr) {
        return refuse("the generic plan has no runner");
    }
    if (model->verbs.last_error == nullptr) {
        return refuse("a generic plan needs a last_error of the producer");
    }
    for (uint64_t at = 0; at < plan->n_stages; at++) {
        if (check_generic_stage(plan->stages[at], model->exp->n_graphs, plan->stages, at) != 0) {
            return -1;
        }
        const bool opaque = plan->stages[at].executor_kind == FRT_GENERIC_STAGE_OPAQUE;
        *any_opaque = *any_opaque || opaque;
        *any_graph = *any_graph || !opaque;
    }
    if (!*any_opaque) {
        return refuse("the generic plan has no OPAQUE stage; graphs alone are legacy stages");
    }
    return 0;
}

}  // namespace FRT_HIDDEN
}  // extern "C++"

#endif
