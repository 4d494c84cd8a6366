// Purpose:  the catalogue of rules that the suite checks.
// Owns:     the table.
// Thread:   any.
// Lifetime: constant.
#include "conformance.h"

namespace flashrt::conformance {
namespace {

constexpr Rule kRules[] = {
    // Factory.
    {"factory.symbol", "the shared object exports frt_model_runtime_open_v1"},
    {"factory.exports", "it exports no other function or object"},
    {"factory.opens", "the factory answers 0 and an object for a good configuration"},
    {"factory.null_out", "a NULL out pointer is answered with -1"},
    {"factory.out_cleared", "on failure the answer is negative and *out is NULL"},
    {"factory.null_config", "a NULL configuration is refused, or served, without a crash"},
    {"factory.independent", "two opened runtimes live side by side"},
    {"factory.unloads", "after the last release the library can be closed and opened again"},
    // Gates and layout.
    {"gate.version", "abi_version is 1 in the runtime and in its export"},
    {"gate.size", "struct_size is at least 128, plausible, and ends between two fields"},
    {"gate.export_size", "the export's struct_size is at least 128 and plausible"},
    {"gate.verbs_size", "verbs.struct_size is at least 48 and its reserved field 0"},
    {"gate.required", "exp, retain and release are there, in the runtime and in the export"},
    {"gate.arrays", "an array is NULL exactly when its count is 0"},
    // Identity.
    {"identity.form", "the identity begins with its version line and ends with a newline"},
    {"identity.fingerprint", "the fingerprint is FNV-1a 64 over the identity's bytes"},
    {"identity.records", "graph, region, port and stage records match the declarations"},
    {"identity.stable", "the same configuration gives the same identity again"},
    // Declarations.
    {"stream.names", "stream names are unique and not empty, stream IDs unique and >= 0"},
    {"graph.names", "graph names are unique and not empty, handles not NULL"},
    {"graph.stream", "every graph's stream is in the stream table"},
    {"graph.default_key", "the default key of every graph is captured"},
    {"buffer.names", "buffer names are unique and not empty, handles and roles valid"},
    {"region.window", "regions are named, not empty and inside their buffers; flags known"},
    {"port.names", "port names are unique, 1 to 98 bytes, without control characters"},
    {"port.enums", "modality, dtype, layout, direction, update and required are known values"},
    {"port.shape", "a shape is there when rank > 0, no dimension is below -1"},
    {"port.window", "windows lie inside their buffers; a SWAP port has one"},
    {"port.bytes", "a window holds exactly what dtype and a fixed shape say"},
    {"port.staged_verbs", "a STAGED port has its verb"},
    {"stage.graph", "every stage names a graph of the export"},
    {"stage.order", "a stage depends on earlier stages only"},
    // Authority and extensions.
    {"authority.one", "exactly one of stages, generic plan and step runs the model"},
    {"authority.plan", "a generic plan keeps the rules of its table and has an OPAQUE stage"},
    {"authority.anchor", "step-only and all-OPAQUE runtimes export a metadata anchor"},
    {"export.anchor", "an export without a context has no resources and no arrays"},
    {"query.null", "query_extension answers -1 to NULL arguments and to min_version 0"},
    {"query.unknown", "an unknown ID or a version too new is -3, with the table cleared"},
    {"query.stable", "the same query gives the same table"},
    // Verbs.
    {"verb.callable", "no verb is NULL; an absent one answers -3"},
    {"verb.codes", "verbs answer 0 to -6 and nothing else"},
    {"verb.error_text", "last_error is never NULL and tells something after a failure"},
    {"verb.error_cleared", "last_error is empty after a success"},
    {"verb.unknown_port", "set_input and get_output answer -1 for a port that is not there"},
    {"verb.direction", "an output takes no input and an input gives no output: -1"},
    {"verb.swap", "set_input on a SWAP port answers -3"},
    {"verb.null_data", "NULL data with bytes > 0 answers -1"},
    {"verb.prepare", "prepare answers -2 for a graph or key that is not there, or -3"},
    {"output.need", "a short buffer answers -5, the need in written, and copies nothing"},
    {"output.exact", "a buffer of the needed size is filled, and nothing behind it"},
    {"output.null", "a NULL out is answered with -1 or -5 and never written to"},
    // Payloads.
    {"payload.accept", "a payload that fits the schema is taken"},
    {"payload.size", "a payload of another size than dtype and shape say is refused: -1, -4, -5"},
    {"payload.frames", "a byte count that is no whole number of frames answers -1"},
    {"payload.frame_count", "more or fewer frames than cameras answer -4"},
    {"payload.frame_fields", "a short struct_size or NULL pixels answer -1"},
    {"payload.pixel_format", "an unknown pixel format answers -4"},
    {"payload.stride", "a stride shorter than a row, or negative, answers -4"},
    {"payload.frame_bytes", "a frame of fewer bytes than stride times height answers -5"},
    {"payload.bounds", "set_input reads no byte behind what it was given"},
    {"payload.reuse", "a payload may be overwritten as soon as set_input returns"},
    // Running.
    {"tick.runs", "a tick succeeds once every required port is written"},
    {"tick.repeatable", "the same inputs give the same outputs, bit for bit"},
    {"tick.step_equals_stages", "step does what firing the stages in order does"},
    {"hot.allocations", "set_input, get_output and ticks call no allocator"},
    {"hot.recapture", "ticks and verbs leave the number of graph variants alone"},
    {"hot.rebind", "ticks and verbs move no window and change no declaration"},
    // Lifetime.
    {"lifetime.threads", "retain and release from many threads keep the count"},
    {"lifetime.owner", "retain and release take owner; one reference is there at birth"},
    {"lifetime.export", "a reference on the export keeps it readable"},
    {"lifetime.foreign_thread", "the last release may come from another thread"},
};

}  // namespace

const char* verdict_name(Verdict verdict)
{
    switch (verdict) {
        case Verdict::pass:
            return "pass";
        case Verdict::fail:
            return "FAIL";
        case Verdict::warn:
            return "warn";
        default:
            return "skip";
    }
}

const std::vector<Rule>& rules()
{
    static const std::vector<Rule> table(kRules, kRules + sizeof kRules / sizeof kRules[0]);
    return table;
}

}  // namespace flashrt::conformance
