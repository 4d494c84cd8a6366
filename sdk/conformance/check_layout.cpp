// Purpose:  the groups that look at what a producer hands out: factory, gates, identity,
//           declarations, authority.
// Owns:     nothing.
// Thread:   one.
// Lifetime: the call.
#include <cstring>
#include <set>

#include "flashrt/builder.hpp"
#include "subject.h"

namespace flashrt::conformance {
namespace {

const char* safe(const char* text)
{
    return text == nullptr ? "(null)" : text;
}

// "" for a good name, else what is wrong with it.
std::string name_trouble(const char* name, size_t bytes_max, std::set<std::string>* seen)
{
    if (name == nullptr || name[0] == '\0') {
        return "a name is NULL or empty";
    }
    if (std::strlen(name) > bytes_max) {
        return std::string("a name is longer than ") + std::to_string(bytes_max) + " bytes";
    }
    if (frt_detail::has_control_byte(name)) {
        return "a name holds a control character";
    }
    if (!seen->insert(name).second) {
        return std::string("'") + name + "' is used twice";
    }
    return "";
}

void report_trouble(Report* report, const char* rule, const std::string& trouble)
{
    report->check(rule, trouble.empty(), "%s", trouble.c_str());
}

void check_out_pointer(Subject* subject)
{
    Report* report = subject->report;
    report->begin("factory.null_out");
    const int null_out = subject->factory(subject->options.config.c_str(), nullptr);
    report->check("factory.null_out", null_out == -1, "the answer is %d", null_out);

    report->begin("factory.out_cleared");
    frt_model_runtime_v1* out = reinterpret_cast<frt_model_runtime_v1*>(uintptr_t{64});
    const int code = subject->factory("{\"\x01 is no configuration", &out);
    report->check("factory.out_cleared", code < 0 && out == nullptr, "the answer is %d, *out %s",
                  code, out == nullptr ? "NULL" : "not NULL");

    report->begin("factory.null_config");
    out = nullptr;
    const int without = subject->factory(nullptr, &out);
    report->check("factory.null_config", (without < 0) == (out == nullptr),
                  "the answer is %d, *out %s", without, out == nullptr ? "NULL" : "not NULL");
    if (out != nullptr) {
        subject->release(out);
    }
}

// Arrays against counts.
std::string array_trouble(const frt_model_runtime_v1* model)
{
    const frt_runtime_export_v1* exp = model->exp;
    const struct {
        const char* name;
        const void* array;
        uint64_t count;
    } rows[] = {{"ports", model->ports, model->n_ports},
                {"stages", model->stages, model->n_stages},
                {"exp.streams", exp->streams, exp->n_streams},
                {"exp.graphs", exp->graphs, exp->n_graphs},
                {"exp.buffers", exp->buffers, exp->n_buffers},
                {"exp.capsule_regions", exp->capsule_regions, exp->n_capsule_regions}};
    for (const auto& row : rows) {
        if ((row.array == nullptr) != (row.count == 0)) {
            return std::string(row.name) +
                   (row.count == 0 ? ": count 0 and an array" : ": a count and no array");
        }
    }
    return "";
}

// The records of what is declared, by the rules of the canonical string.
std::string declared_records(const frt_model_runtime_v1* model, bool with_ports)
{
    frt_runtime_builder_s builder;
    const frt_runtime_export_v1* exp = model->exp;
    for (uint64_t at = 0; at < exp->n_graphs; at++) {
        builder.graphs.push(exp->graphs[at]);
    }
    for (uint64_t at = 0; at < exp->n_buffers; at++) {
        builder.buffers.push(exp->buffers[at]);
    }
    for (uint64_t at = 0; at < exp->n_capsule_regions; at++) {
        builder.regions.push(exp->capsule_regions[at]);
    }
    for (uint64_t at = 0; with_ports && at < model->n_ports; at++) {
        builder.ports.push(model->ports[at]);
    }
    for (uint64_t at = 0; with_ports && at < model->n_stages; at++) {
        builder.stages.push(model->stages[at]);
    }
    const frt_generic_stage_plan_ext_v1* plan = nullptr;
    if (with_ports && frt_detail::query_plan(model, &plan) == 0 && plan != nullptr) {
        for (uint64_t at = 0; at < plan->n_stages; at++) {
            builder.generic_stages.push(plan->stages[at]);
        }
    }
    size_t bytes = 0;
    char* text = frt_detail::identity_text(builder, &bytes);
    std::string records = text == nullptr ? "" : std::string(text, bytes);
    free(text);
    free(builder.graphs.rows);
    free(builder.buffers.rows);
    free(builder.regions.rows);
    free(builder.ports.rows);
    free(builder.stages.rows);
    free(builder.generic_stages.rows);
    return records.substr(records.find('\n') + 1);
}

bool ends_with(const std::string& text, const std::string& end)
{
    return text.size() >= end.size() &&
           text.compare(text.size() - end.size(), end.size(), end) == 0;
}

void check_identity(Subject* subject, const frt_model_runtime_v1* model)
{
    Report* report = subject->report;
    report->begin("identity.form");
    const std::string head = "frt-runtime-identity-v1\n";
    const std::string identity = safe(model->exp->identity);
    report->check("identity.form",
                  identity.compare(0, head.size(), head) == 0 && identity.back() == '\n',
                  "it begins with '%.40s'", identity.c_str());
    const uint64_t hash = frt_runtime_fingerprint(identity.data(), identity.size());
    report->check("identity.fingerprint", hash == model->exp->fingerprint,
                  "%016llx is stated, %016llx follows from the identity",
                  static_cast<unsigned long long>(model->exp->fingerprint),
                  static_cast<unsigned long long>(hash));
    report->begin("identity.records");
    // A wrapped export keeps its own identity, which knows no ports.
    const bool whole = ends_with(identity, declared_records(model, true));
    report->check("identity.records", whole || ends_with(identity, declared_records(model, false)),
                  "the identity does not end with the records of what is declared");
    report->begin("identity.stable");
    frt_model_runtime_v1* again = subject->open();
    report->check(
        "identity.stable",
        again != nullptr && again->exp != nullptr && identity == safe(again->exp->identity),
        "a second open gives another identity, or nothing");
    if (again != nullptr) {
        subject->release(again);
    }
}

void check_stamps(Report* report, const frt_model_runtime_v1* model)
{
    const frt_runtime_export_v1* exp = model->exp;
    report->check("gate.version", exp->abi_version == FRT_RUNTIME_ABI_VERSION,
                  "export.abi_version is %u", exp->abi_version);
    report->check("gate.export_size",
                  exp->struct_size >= sizeof *exp && exp->struct_size % 8 == 0 &&
                      exp->struct_size <= frt_detail::kStructSizeMax,
                  "export.struct_size is %u", exp->struct_size);
    report->check("gate.verbs_size",
                  model->verbs.struct_size >= sizeof model->verbs && model->verbs.reserved == 0 &&
                      model->verbs.struct_size <= frt_detail::kStructSizeMax,
                  "verbs.struct_size is %u, reserved %u", model->verbs.struct_size,
                  model->verbs.reserved);
}

void check_streams_and_graphs(Subject* subject, const frt_runtime_export_v1* exp)
{
    Report* report = subject->report;
    std::string trouble;
    std::set<std::string> names;
    std::set<int> streams;
    for (uint64_t at = 0; at < exp->n_streams && trouble.empty(); at++) {
        trouble = name_trouble(exp->streams[at].name, SIZE_MAX, &names);
        const int id = exp->streams[at].stream_id;
        const bool is_new = streams.insert(id).second;  // also of a stream with a bad name
        if (trouble.empty() && (id < 0 || !is_new)) {
            trouble = "stream ID " + std::to_string(id) + " is negative or used twice";
        }
    }
    report_trouble(report, "stream.names", trouble);
    names.clear();
    trouble.clear();
    std::string unplaced;
    std::string uncaptured;
    for (uint64_t at = 0; at < exp->n_graphs && trouble.empty(); at++) {
        const frt_runtime_graph_desc& graph = exp->graphs[at];
        trouble = name_trouble(graph.name, SIZE_MAX, &names);
        if (trouble.empty() && graph.handle == nullptr) {
            trouble = std::string("graph '") + graph.name + "' has no handle";
        }
        if (streams.count(graph.stream_id) == 0) {
            unplaced = std::string("graph '") + safe(graph.name) + "' replays on stream " +
                       std::to_string(graph.stream_id);
        }
        if (trouble.empty() && subject->exec.has_variant != nullptr &&
            subject->exec.has_variant(graph.handle, graph.default_key) == 0) {
            uncaptured = std::string("graph '") + graph.name + "' has no variant under its default";
        }
    }
    report_trouble(report, "graph.names", trouble);
    report_trouble(report, "graph.stream", unplaced);
    if (subject->exec.has_variant == nullptr && exp->n_graphs > 0) {
        report->skip("graph.default_key", "the producer links no execution library");
    } else {
        report_trouble(report, "graph.default_key", uncaptured);
    }
}

void check_memory(Subject* subject, const frt_runtime_export_v1* exp)
{
    std::string trouble;
    std::set<std::string> names;
    for (uint64_t at = 0; at < exp->n_buffers && trouble.empty(); at++) {
        const frt_runtime_buffer_desc& buffer = exp->buffers[at];
        trouble = name_trouble(buffer.name, SIZE_MAX, &names);
        if (trouble.empty() && (buffer.handle == nullptr || buffer.reserved != 0 ||
                                (buffer.role & ~frt_detail::kRoleBits) != 0)) {
            trouble = std::string("buffer '") + buffer.name + "': handle, role or reserved";
        }
        if (trouble.empty() && subject->exec.buffer_bytes != nullptr &&
            subject->exec.buffer_bytes(buffer.handle) != buffer.bytes) {
            trouble = std::string("buffer '") + buffer.name + "' states another size than it has";
        }
    }
    report_trouble(subject->report, "buffer.names", trouble);
    names.clear();
    trouble.clear();
    for (uint64_t at = 0; at < exp->n_capsule_regions && trouble.empty(); at++) {
        const frt_runtime_region_desc& region = exp->capsule_regions[at];
        trouble = name_trouble(region.name, frt_detail::kRegionNameBytesMax, &names);
        if (trouble.empty() && (region.buffer == nullptr || region.bytes == 0 ||
                                (region.flags & ~frt_detail::kRegionBits) != 0)) {
            trouble = std::string("region '") + region.name + "': buffer, bytes or flags";
        }
        if (trouble.empty() &&
            frt_detail::check_window("region", region.name, region.buffer, region.offset,
                                     region.bytes, exp->buffers, exp->n_buffers) != 0) {
            trouble = frt_runtime_refusal();
        }
    }
    report_trouble(subject->report, "region.window", trouble);
}

std::string window_trouble(const frt_runtime_port_desc& port, const frt_runtime_export_v1* exp)
{
    if (port.update == FRT_RT_PORT_SWAP && (port.buffer == nullptr || port.bytes == 0)) {
        return std::string("SWAP port '") + port.name + "' has no window";
    }
    if (frt_detail::check_window("port", port.name, port.buffer, port.offset, port.bytes,
                                 exp->buffers, exp->n_buffers) != 0) {
        return frt_runtime_refusal();
    }
    return "";
}

void check_ports(Report* report, const frt_model_runtime_v1* model)
{
    std::set<std::string> names;
    std::string name, enums, shape, window, bytes, verbs;
    for (uint64_t at = 0; at < model->n_ports && name.empty(); at++) {
        const frt_runtime_port_desc& port = model->ports[at];
        name = name_trouble(port.name, frt_detail::kPortNameBytesMax, &names);
        if (!name.empty()) {
            continue;
        }
        if (frt_detail::check_port_enums(port) != 0) {
            enums = frt_runtime_refusal();
            continue;
        }
        for (uint32_t axis = 0; port.shape != nullptr && axis < port.rank; axis++) {
            shape = port.shape[axis] < -1 ? std::string("port '") + port.name + "'" : shape;
        }
        if (port.rank > 0 && port.shape == nullptr) {
            shape = std::string("port '") + port.name + "' has a rank and no shape";
            continue;
        }
        const std::string trouble = window_trouble(port, model->exp);
        window = trouble.empty() ? window : trouble;
        const uint64_t fixed = shape_elements(port) * dtype_bytes(port.dtype);
        if (port.buffer != nullptr && fixed != 0 && port.bytes != fixed) {
            bytes = std::string("port '") + port.name + "' has a window of " +
                    std::to_string(port.bytes) + " bytes for " + std::to_string(fixed);
        }
    }
    report_trouble(report, "port.names", name);
    report_trouble(report, "port.enums", enums);
    report_trouble(report, "port.shape", shape);
    report_trouble(report, "port.window", window);
    if (bytes.empty()) {
        report->check("port.bytes", true, " ");
    } else {
        report->warn("port.bytes", "%s", bytes.c_str());
    }
    if (!name.empty()) {
        return;  // the next check writes names into its reason
    }
    report->begin("port.staged_verbs");
    const bool staged =
        frt_detail::check_staged_verbs(model->ports, model->n_ports, model->verbs) == 0;
    report->check("port.staged_verbs", staged, "%s", frt_runtime_refusal());
}

void check_query(Report* report, const frt_model_runtime_v1* model)
{
    if (model->struct_size < FRT_MODEL_RUNTIME_V1_QUERY_EXTENSION_SIZE ||
        model->query_extension == nullptr) {
        report->skip("query.null", "a prefix-only runtime has no query_extension");
        return;
    }
    const frt_model_runtime_query_extension_fn query = model->query_extension;
    const uint64_t plan = FRT_EXT_GENERIC_STAGE_PLAN_V1;
    const void* const poison = report;
    report->begin("query.null");
    const void* table = poison;
    const bool null_out = query(model, plan, 1, nullptr) == -1;
    const bool null_model = query(nullptr, plan, 1, &table) == -1 && table == nullptr;
    table = poison;
    const bool version_zero = query(model, plan, 0, &table) == -1 && table == nullptr;
    report->check("query.null", null_out && null_model && version_zero,
                  "out NULL %s, runtime NULL %s, min_version 0 %s", null_out ? "ok" : "wrong",
                  null_model ? "ok" : "wrong", version_zero ? "ok" : "wrong");
    report->begin("query.unknown");
    table = poison;
    const bool unknown = query(model, UINT64_C(0x7fffffff), 1, &table) == -3 && table == nullptr;
    table = poison;
    const bool too_new = query(model, plan, UINT32_MAX, &table) == -3 && table == nullptr;
    report->check("query.unknown", unknown && too_new, "unknown ID %s, version too new %s",
                  unknown ? "ok" : "wrong", too_new ? "ok" : "wrong");
    report->begin("query.stable");
    const void* again = nullptr;
    const int first = query(model, plan, 1, &table);
    const int second = query(model, plan, 1, &again);
    report->check("query.stable", first == second && table == again,
                  "the answers are %d and %d, the tables %s", first, second,
                  table == again ? "equal" : "differ");
}

}  // namespace

void check_factory(Subject* subject)
{
    Report* report = subject->report;
    if (!subject->load()) {
        return;
    }
    report->check("factory.symbol", true, " ");
    report->begin("factory.exports");
    std::string others;
    for (const std::string& name : exported_symbols(subject->options.library)) {
        if (name != FRT_MODEL_RUNTIME_OPEN_V1_SYMBOL) {
            others += (others.empty() ? "" : ", ") + name;
        }
    }
    if (others.empty()) {
        report->check("factory.exports", true, " ");
    } else {
        report->warn("factory.exports", "also exported: %s", others.c_str());
    }
    report->begin("factory.opens");
    frt_model_runtime_v1* runtime = nullptr;
    const int code = subject->factory(subject->options.config.c_str(), &runtime);
    if (!report->check("factory.opens", code == 0 && runtime != nullptr,
                       "the answer is %d, *out %s", code,
                       runtime == nullptr ? "NULL" : "not NULL")) {
        return;
    }
    if (frt_detail::gate_model_stamp(runtime) != 0 || runtime->release == nullptr) {
        return;  // the gates group names what is wrong
    }
    check_out_pointer(subject);
    report->begin("factory.independent");
    frt_model_runtime_v1* second = subject->open();
    report->check("factory.independent", second != nullptr && second != runtime,
                  "a second open gives %s", second == nullptr ? "nothing" : "the same object");
    subject->release(runtime);
    if (second != nullptr) {
        subject->release(second);
    }
    report->begin("factory.unloads");
    if (!subject->unload()) {
        report->warn("factory.unloads", "the library stays in the process");
        return;
    }
    report->check("factory.unloads", subject->load() && (runtime = subject->open()) != nullptr,
                  "it does not open again");
    if (runtime != nullptr) {
        subject->release(runtime);
    }
}

void check_layout(Subject* subject)
{
    Report* report = subject->report;
    if (!subject->load()) {
        return;
    }
    report->begin("gate.version");
    frt_model_runtime_v1* model = subject->open();
    if (model == nullptr) {
        return;
    }
    if (!report->check("gate.version", model->abi_version == FRT_MODEL_RUNTIME_ABI_VERSION,
                       "abi_version is %u", model->abi_version) ||
        !report->check("gate.size", frt_detail::gate_model_stamp(model) == 0, "struct_size is %u",
                       model->struct_size)) {
        return;
    }
    const frt_runtime_export_v1* exp = model->exp;
    if (!report->check("gate.required",
                       exp != nullptr && model->retain != nullptr && model->release != nullptr &&
                           exp->retain != nullptr && exp->release != nullptr,
                       "exp, retain or release is NULL")) {
        return;
    }
    check_stamps(report, model);
    report->begin("gate.arrays");
    report_trouble(report, "gate.arrays", array_trouble(model));
    check_identity(subject, model);
    report->begin("gate.required");
    subject->release(model);
}

void check_declarations(Subject* subject)
{
    if (!subject->load()) {
        return;
    }
    frt_model_runtime_v1* model = subject->open();
    if (model == nullptr || frt_detail::gate_model(model) != 0) {
        return;
    }
    Report* report = subject->report;
    report->begin("stream.names");
    check_streams_and_graphs(subject, model->exp);
    report->begin("buffer.names");
    check_memory(subject, model->exp);
    report->begin("port.names");
    check_ports(report, model);
    report->begin("stage.graph");
    std::string graph;
    for (uint64_t at = 0; at < model->n_stages; at++) {
        if (model->stages[at].graph >= model->exp->n_graphs) {
            graph = "stage " + std::to_string(at) + " names graph " +
                    std::to_string(model->stages[at].graph);
        }
    }
    report_trouble(report, "stage.graph", graph);
    std::string order;
    for (uint64_t at = 0; at < model->n_stages; at++) {
        const frt_runtime_stage_desc& stage = model->stages[at];
        if (frt_detail::check_after("stage", at, stage.after, stage.n_after, false) != 0) {
            order = frt_runtime_refusal();
        }
    }
    report_trouble(report, "stage.order", order);
    subject->release(model);
}

void check_authority(Subject* subject)
{
    if (!subject->load()) {
        return;
    }
    frt_model_runtime_v1* model = subject->open();
    if (model == nullptr || frt_detail::gate_model(model) != 0) {
        return;
    }
    Report* report = subject->report;
    check_query(report, model);
    report->begin("authority.one");
    const frt_generic_stage_plan_ext_v1* plan = nullptr;
    const bool asked = frt_detail::query_plan(model, &plan) == 0;
    const bool step = model->verbs.step != nullptr;
    report->check("authority.one",
                  asked && !(plan != nullptr && model->n_stages > 0) &&
                      (plan != nullptr || model->n_stages > 0 || step),
                  "%s",
                  !asked            ? frt_runtime_refusal()
                  : plan != nullptr ? "stages and a generic plan"
                                    : "no stages, no plan and no step");
    bool any_graph = false;
    bool any_opaque = false;
    if (plan != nullptr) {
        report->check("authority.plan",
                      frt_detail::check_foreign_plan(model, plan, &any_graph, &any_opaque) == 0,
                      "%s", frt_runtime_refusal());
    } else {
        report->skip("authority.plan", "there is no generic plan");
    }
    report->check("export.anchor", frt_detail::gate_anchor(model->exp) == 0, "%s",
                  frt_runtime_refusal());
    report->check("authority.anchor",
                  frt_detail::check_resources_run(model->exp, model->n_stages > 0 || any_graph,
                                                  plan != nullptr) == 0,
                  "%s", frt_runtime_refusal());
    subject->release(model);
}

}  // namespace flashrt::conformance
