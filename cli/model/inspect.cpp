// Purpose:  `aotxctl model inspect` and `diff`: what a runtime declares, and where two differ.
// Owns:     nothing.
// Thread:   main.
// Lifetime: not applicable.
#include <algorithm>
#include <map>

#include "cli/failure.h"
#include "cli/model/model.h"
#include "cli/terminal.h"

namespace aotx::cli {
namespace {

// One stage of either kind, ready to be drawn.
struct StageRow {
    std::string name;
    std::string executor;
    std::vector<uint32_t> after;
    uint32_t level;  // the longest way to it
};

std::string hex64(uint64_t value)
{
    char text[24];
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
    return text;
}

std::string padded(std::string text, size_t width)
{
    text.resize(std::max(width, text.size()), ' ');
    return text;
}

std::string trimmed(const std::string& text)
{
    return text.substr(0, text.find_last_not_of(' ') + 1);
}

std::vector<StageRow> stage_rows(const Target& target)
{
    std::vector<StageRow> rows;
    const frt_model_runtime_v1* model = target.model();
    for (uint64_t at = 0; at < model->n_stages; at++) {
        const frt_runtime_stage_desc& stage = model->stages[at];
        const frt_runtime_graph_desc& graph = model->exp->graphs[stage.graph];
        rows.push_back({graph.name,
                        "stream " + std::to_string(graph.stream_id),
                        {stage.after, stage.after + stage.n_after},
                        0});
    }
    const frt_generic_stage_plan_ext_v1* plan = target.subject().adopted.plan();
    for (uint64_t at = 0; plan != nullptr && at < plan->n_stages; at++) {
        const frt_generic_stage_desc_v1& stage = plan->stages[at];
        const bool opaque = stage.executor_kind == FRT_GENERIC_STAGE_OPAQUE;
        rows.push_back({stage.name,
                        (opaque ? "OPAQUE ref " : "graph ") + std::to_string(stage.executor_ref),
                        {stage.after, stage.after + stage.n_after},
                        0});
    }
    for (StageRow& row : rows) {
        for (const uint32_t before : row.after) {
            row.level = std::max(row.level, rows[before].level + 1);
        }
    }
    return rows;
}

// Levels from top to bottom; stages of one level may run side by side.
std::string drawn(const std::vector<StageRow>& rows)
{
    std::string text;
    uint32_t deepest = 0;
    for (const StageRow& row : rows) {
        deepest = std::max(deepest, row.level);
    }
    for (uint32_t level = 0; level <= deepest && !rows.empty(); level++) {
        std::string boxes = "   ";
        std::string edges = "   ";
        for (size_t at = 0; at < rows.size(); at++) {
            if (rows[at].level != level) {
                continue;
            }
            std::string from;
            for (const uint32_t before : rows[at].after) {
                from += (from.empty() ? "" : ",") + std::to_string(before);
            }
            const std::string box =
                "[" + std::to_string(at) + " " + rows[at].name + " | " + rows[at].executor + "]";
            const std::string edge = from.empty() ? "" : "  | from " + from;
            const size_t width = std::max(box.size(), edge.size()) + 3;
            boxes += padded(box, width);
            edges += padded(edge, width);
        }
        if (level > 0) {
            text += trimmed(edges) + "\n     v\n";
        }
        text += trimmed(boxes) + "\n";
    }
    return text;
}

const char* authority_word(frt::Authority authority)
{
    switch (authority) {
        case frt::Authority::stages:
            return "stages";
        case frt::Authority::plan:
            return "generic plan";
        default:
            return "step";
    }
}

void print_ports(const frt_model_runtime_v1* model)
{
    print_text("ports\n");
    for (uint64_t at = 0; at < model->n_ports; at++) {
        const frt_runtime_port_desc& port = model->ports[at];
        std::string line =
            "  " + padded(std::to_string(at), 3) + padded(escape_controls(port.name, false), 20) +
            padded(direction_word(port.direction), 4) + padded(update_word(port.update), 7) +
            padded(modality_word(port.modality), 7) + padded(dtype_word(port.dtype), 5) +
            padded(layout_word(port.layout), 5) + padded(shape_text(port), 18);
        line += port.required == 1 ? " required" : "";
        if (port.buffer != nullptr) {
            line += " window " + std::to_string(port.offset) + "+" + std::to_string(port.bytes);
        }
        if (port.cadence_hint_hz != 0) {
            line += " " + std::to_string(port.cadence_hint_hz) + " Hz";
        }
        print_text(line + "\n");
    }
}

void print_export(const frt_runtime_export_v1* exp)
{
    for (uint64_t at = 0; at < exp->n_streams; at++) {
        print_text("stream  " + std::to_string(exp->streams[at].stream_id) + " " +
                   escape_controls(exp->streams[at].name, false) + ", priority " +
                   std::to_string(exp->streams[at].priority) + "\n");
    }
    for (uint64_t at = 0; at < exp->n_graphs; at++) {
        const frt_runtime_graph_desc& graph = exp->graphs[at];
        print_text("graph   " + padded(escape_controls(graph.name, false), 20) + " stream " +
                   std::to_string(graph.stream_id) + ", " + std::to_string(graph.n_keys) +
                   " keys, default " + std::to_string(graph.default_key) + "\n");
    }
    for (uint64_t at = 0; at < exp->n_buffers; at++) {
        const frt_runtime_buffer_desc& buffer = exp->buffers[at];
        const std::string roles = std::string((buffer.role & 1) != 0 ? " input" : "") +
                                  ((buffer.role & 2) != 0 ? " output" : "") +
                                  ((buffer.role & 4) != 0 ? " state" : "") +
                                  ((buffer.role & 8) != 0 ? " scratch" : "");
        print_text("buffer  " + padded(escape_controls(buffer.name, false), 20) + " " +
                   std::to_string(buffer.bytes) + " bytes," + roles + "\n");
    }
    for (uint64_t at = 0; at < exp->n_capsule_regions; at++) {
        const frt_runtime_region_desc& region = exp->capsule_regions[at];
        print_text("region  " + padded(escape_controls(region.name, false), 20) + " " +
                   std::to_string(region.offset) + "+" + std::to_string(region.bytes) +
                   ((region.flags & 1) != 0 ? " snapshot" : "") +
                   ((region.flags & 2) != 0 ? " restore" : "") + "\n");
    }
}

void print_json_of(const Target& target)
{
    const frt_model_runtime_v1* model = target.model();
    JsonWriter json;
    json.begin_object().key("abi_version").number(model->abi_version);
    json.key("struct_size").number(target.subject().adopted.original()->struct_size);
    json.key("authority").text(authority_word(target.subject().adopted.authority()));
    json.key("fingerprint").text(hex64(model->exp->fingerprint));
    json.key("identity").text(model->exp->identity).key("ports").begin_array();
    for (uint64_t at = 0; at < model->n_ports; at++) {
        const frt_runtime_port_desc& port = model->ports[at];
        json.begin_object().key("name").text(port.name);
        json.key("modality").text(modality_word(port.modality));
        json.key("dtype").text(dtype_word(port.dtype));
        json.key("layout").text(layout_word(port.layout));
        json.key("direction").text(direction_word(port.direction));
        json.key("update").text(update_word(port.update));
        json.key("required").boolean(port.required == 1).key("shape").begin_array();
        for (uint32_t axis = 0; axis < port.rank; axis++) {
            json.real(static_cast<double>(port.shape[axis]));
        }
        json.end_array().key("bytes").number(port.bytes).end_object();
    }
    json.end_array().key("stages").begin_array();
    for (const StageRow& row : stage_rows(target)) {
        json.begin_object().key("name").text(row.name).key("executor").text(row.executor);
        json.key("after").begin_array();
        for (const uint32_t before : row.after) {
            json.number(before);
        }
        json.end_array().end_object();
    }
    json.end_array().end_object();
    print_json(json.str());
}

// The identity's lines under keys by which two identities compare.
std::map<std::string, std::string> identity_rows(const std::string& identity)
{
    std::map<std::string, std::string> rows;
    size_t at = 0;
    while (at < identity.size()) {
        const size_t end = std::min(identity.find('\n', at), identity.size());
        const std::string line = identity.substr(at, end - at);
        at = end + 1;
        const bool record = line.compare(0, 5, "port:") == 0 || line.compare(0, 6, "graph:") == 0 ||
                            line.compare(0, 7, "region:") == 0 ||
                            line.compare(0, 6, "stage:") == 0 ||
                            line.compare(0, 10, "gstage-v1:") == 0;
        const size_t cut = record ? line.find(':', line.find(':') + 1) : line.find('=');
        const std::string key = line.substr(0, cut);
        rows[key] = cut == std::string::npos ? "" : line.substr(cut + 1);
    }
    return rows;
}

// Where a difference of this record comes from, in words.
const char* meaning(const std::string& key)
{
    if (key.compare(0, 5, "port:") == 0) {
        return "the schema or the window of a port";
    }
    if (key.compare(0, 6, "graph:") == 0) {
        return "a graph, or the stream it replays on";
    }
    if (key.compare(0, 7, "region:") == 0) {
        return "the layout of the state itself";
    }
    if (key.compare(0, 6, "stage:") == 0 || key.compare(0, 7, "gstage-") == 0) {
        return "how the work is cut into stages";
    }
    return "a property that the producer declares";
}

struct Difference {
    std::string key;
    std::string left;
    std::string right;
};

std::vector<Difference> differences(const std::string& left, const std::string& right)
{
    std::vector<Difference> found;
    const std::map<std::string, std::string> a = identity_rows(left);
    const std::map<std::string, std::string> b = identity_rows(right);
    for (const auto& [key, value] : a) {
        const auto other = b.find(key);
        if (other == b.end()) {
            found.push_back({key, value, "(absent)"});
        } else if (other->second != value) {
            found.push_back({key, value, other->second});
        }
    }
    for (const auto& [key, value] : b) {
        if (a.find(key) == a.end()) {
            found.push_back({key, "(absent)", value});
        }
    }
    return found;
}

// An identity from a saved text file, or from a producer.
std::string identity_of(const std::string& source, const std::string& config)
{
    const bool is_text = source.size() > 4 && source.compare(source.size() - 4, 4, ".txt") == 0;
    if (is_text) {
        return read_source(source, size_t{1} << 24);
    }
    TargetArguments arguments;
    arguments.library = source;
    arguments.config = config;
    return Target(arguments).model()->exp->identity;
}

}  // namespace

int model_inspect(const Context& context, const TargetArguments& arguments, bool identity_only)
{
    const Target target(arguments);
    const frt_model_runtime_v1* model = target.model();
    if (identity_only) {
        print_text(escape_controls(model->exp->identity, true));
        return kExitDone;
    }
    if (context.json) {
        print_json_of(target);
        return kExitDone;
    }
    print_text("runtime ABI " + std::to_string(model->abi_version) + ", struct of " +
               std::to_string(target.subject().adopted.original()->struct_size) +
               " bytes, run by " + authority_word(target.subject().adopted.authority()) +
               (model->exp->ctx == nullptr ? ", metadata only\n" : "\n"));
    print_ports(model);
    print_export(model->exp);
    const std::vector<StageRow> rows = stage_rows(target);
    if (!rows.empty()) {
        print_text("stages\n" + escape_controls(drawn(rows), true));
    }
    if (model->exp->manifest_json != nullptr) {
        print_text("manifest " + escape_controls(model->exp->manifest_json, false) + "\n");
    }
    print_text("fingerprint " + hex64(model->exp->fingerprint) + " over\n");
    print_text(escape_controls(model->exp->identity, true));
    return kExitDone;
}

int model_diff(const Context& context, const DiffArguments& arguments)
{
    const std::string left = identity_of(arguments.left, arguments.left_config);
    const std::string right = identity_of(arguments.right, arguments.right_config);
    const std::vector<Difference> found = differences(left, right);
    if (context.json) {
        JsonWriter json;
        json.begin_object().key("equal").boolean(left == right).key("differences").begin_array();
        for (const Difference& row : found) {
            json.begin_object().key("record").text(row.key).key("left").text(row.left);
            json.key("right").text(row.right).key("meaning").text(meaning(row.key)).end_object();
        }
        json.end_array().end_object();
        print_json(json.str());
    } else {
        for (const Difference& row : found) {
            print_text(escape_controls(row.key, false) + "   (" + meaning(row.key) + ")\n" +
                       "  left   " + escape_controls(row.left, false) + "\n" + "  right  " +
                       escape_controls(row.right, false) + "\n");
        }
        const bool reordered = found.empty() && left != right;
        print_text(left == right ? "equal: state of one is accepted by the other\n"
                   : reordered   ? "the records are equal but their order differs, so state of "
                                   "one is refused by the other\n"
                                 : "different: state saved under one fingerprint is refused by "
                                   "the other\n");
    }
    return left == right ? kExitDone : kExitConflict;
}

}  // namespace aotx::cli
