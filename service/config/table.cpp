// Purpose:  the rows of the configuration table, see table.h.
// Owns:     the rows, constant.
// Thread:   any.
// Lifetime: static.
#include "service/config/table.h"

namespace aotx {
namespace {

constexpr uint64_t kPathCharactersMax = 4000;
constexpr uint64_t kKibibyte = 1024;
constexpr uint64_t kMebibyte = 1024 * 1024;

template <typename Section, typename Slot>
constexpr ConfigKey<Section> number(const char* name, Slot Section::*slot, uint64_t minimum,
                                    uint64_t maximum, const char* about)
{
    return {name, slot, minimum, maximum, TextForm::Any, "", false, about};
}

template <typename Section, typename Slot>
constexpr ConfigKey<Section> text(const char* name, Slot Section::*slot, TextForm form,
                                  uint64_t minimum, uint64_t maximum, bool is_required,
                                  const char* about)
{
    return {name, slot, minimum, maximum, form, "", is_required, about};
}

template <typename Section>
constexpr ConfigKey<Section> choice(const char* name, std::string Section::*slot,
                                    const char* choices, bool is_required, const char* about)
{
    return {name, slot, 1, 32, TextForm::Choice, choices, is_required, about};
}

template <typename Section>
constexpr ConfigKey<Section> path(const char* name, std::string Section::*slot, uint64_t minimum,
                                  uint64_t maximum, const char* about)
{
    return {name, slot, minimum, maximum, TextForm::Path, "", false, about};
}

template <typename Section>
constexpr ConfigKey<Section> cpus(std::string Section::*slot, const char* about)
{
    return {"cpus", slot, 0, 64, TextForm::Cpus, "", false, about};
}

using D = DeviceConfig;
const ConfigKey<D> kDeviceKeys[] = {
    path("socket_path", &D::socket_path, 1, kSocketPathBytesMax,
         "Where the broker listens. The socket gets mode 0600."),
    path("grants_path", &D::grants_path, 1, kPathCharactersMax,
         "The grant file, a whole grants packet. It must belong to the service's user and be "
         "writable by nobody else."),
    path("state_dir", &D::state_dir, 1, kPathCharactersMax,
         "Directory of what outlives the process: the counter from which each activation takes its "
         "epoch. It is made when it is missing."),
    choice("device", &D::device, "auto|cpu|cuda", false,
           "What runs the device core, and the steps of GGUF models. `auto` takes a usable GPU and "
           "else the CPU."),
    number("mailboxes", &D::mailboxes, 2, 1024,
           "Mailboxes of the ring, the control mailbox included. Each broker connection holds one; "
           "each takes 64 KiB."),
    number("principals", &D::principals, 1, 65536, "Entries of the grant table."),
    number("requests", &D::requests, 1, 65536,
           "Entries of the request table, running and retained results together."),
    number("prompts", &D::prompts, 0, 65536,
           "Requests of these that may be waiting or running; 0 for all of them. Each takes "
           "`prompt_bytes`."),
    number("output_bytes", &D::output_bytes, 256, kMebibyte,
           "Bytes of output that one request can produce; a request that reaches them ends with "
           "413."),
    number("prompt_bytes", &D::prompt_bytes, 256, 65408,
           "Bytes of a submission that are kept until its request has ended."),
    number("execution_slots", &D::execution_slots, 1, 256,
           "Requests that run at the same time; a runtime that takes fewer sequences lowers it."),
    number("active_requests", &D::active_requests, 1, 65536,
           "Ceiling of the active requests that a grant may allow its principal."),
    number("request_seconds", &D::request_seconds, 1, 86400,
           "Seconds that a request may take, its time in the queue included; then it ends with "
           "504."),
    number("upload_seconds", &D::upload_seconds, 1, 86400,
           "Seconds that a media upload may stay incomplete."),
    number("stop_seconds", &D::stop_seconds, 0, 3600,
           "Seconds that answers in progress get to end when the service is told to stop."),
    number("spin_us", &D::spin_us, 0, 1000,
           "Microseconds that a loop thread waits busily before it sleeps."),
    cpus(&D::cpus,
         "Processors that the device process may use, as `0,2-3`; empty for any. The gateway that "
         "it starts inherits them unless it has its own."),
};

using B = BrokerConfig;
const ConfigKey<B> kBrokerKeys[] = {
    number("spin_us", &B::spin_us, 0, 1000,
           "Microseconds that the broker waits busily for a reply before it sleeps."),
    cpus(&B::cpus,
         "Processors that the broker's thread may use, as `0,2-3`; empty for those of the device. "
         "The one that the gateway uses makes a hop between the two cheapest."),
};

using G = GatewayConfig;
const ConfigKey<G> kGatewayKeys[] = {
    number("enabled", &G::enabled, 0, 1, "Whether the device process starts the gateway."),
    path("program_path", &G::program_path, 0, kPathCharactersMax,
         "The gateway's program; empty for `aotx-gateway` beside the device process's own."),
    text("bind", &G::bind, TextForm::Address, 3, 112, false,
         "Address and port to listen on; IPv6 in brackets, port 0 for any free one. Anything but a "
         "loopback address needs a certificate and a key. Or `unix:` and the whole path of a "
         "socket, at most 107 bytes, which gets mode 0660 and speaks plain HTTP."),
    path("certificate_path", &G::certificate_path, 0, kPathCharactersMax,
         "PEM file with the certificate chain; with it the gateway speaks TLS. Empty for plain "
         "HTTP."),
    path("key_path", &G::key_path, 0, kPathCharactersMax,
         "PEM file with the certificate's private key."),
    text("hosts", &G::hosts, TextForm::Host, 0, 32, false,
         "Names, each with an optional port, that a Host header may carry besides the loopback "
         "names and the bound address."),
    number("connections", &G::connections, 1, 65536, "Client connections at the same time."),
    number("body_readers", &G::body_readers, 1, 4096,
           "Request bodies that are read at the same time."),
    number("json_bytes", &G::json_bytes, kKibibyte, 64 * kMebibyte, "Bytes of a JSON body."),
    number("upload_bytes", &G::upload_bytes, kKibibyte, 1024 * kMebibyte, "Bytes of a media body."),
    number("body_credit_bytes", &G::body_credit_bytes, kKibibyte, 16384 * kMebibyte,
           "Bytes of all bodies together that are held at the same time."),
    number("work", &G::work, 1, 65536,
           "Operations and streams that are active at the same time; more are answered 429."),
    number("fetches", &G::fetches, 1, 64, "HTTPS imports at the same time."),
    number("wire_connections", &G::wire_connections, 3, 512,
           "Connections to the broker. Two of them carry the news of all streams; each takes a "
           "mailbox."),
    number("header_seconds", &G::header_seconds, 1, 3600,
           "Seconds from the first byte of a request to the end of its head."),
    number("body_seconds", &G::body_seconds, 1, 3600, "Seconds that a request body may take."),
    number("write_seconds", &G::write_seconds, 1, 3600,
           "Seconds that a client may leave an answer unread before its connection is closed."),
    number("idle_seconds", &G::idle_seconds, 1, 86400,
           "Seconds that a connection may stay open between two requests."),
    number("operation_seconds", &G::operation_seconds, 1, 86400,
           "Seconds that a client's call may take until its answer is complete; then 504."),
    number("heartbeat_seconds", &G::heartbeat_seconds, 1, 3600,
           "Seconds of silence after which a stream carries a heartbeat."),
    number("event_bytes", &G::event_bytes, 4 * kKibibyte, kMebibyte,
           "Bytes of one event of a stream."),
    number("spin_us", &G::spin_us, 0, 1000,
           "Microseconds that the gateway waits busily for work before it sleeps."),
    cpus(&G::cpus, "Processors that the gateway may use, as `0,2-3`; empty for any."),
};

using M = ModelConfig;
const ConfigKey<M> kModelKeys[] = {
    text("alias", &M::alias, TextForm::Alias, 1, 64, true,
         "The name under which clients ask for the model; unique."),
    choice("role", &M::role, "language|language-q4|language-audio", true,
           "The role that requests carry and that grants permit; one model a role."),
    text("library", &M::library, TextForm::Library, 1, kPathCharactersMax, false,
         "Shared object that exports `frt_model_runtime_open_v1`. A name without a slash is looked "
         "for among the project's own libraries."),
    path("path", &M::path, 0, kPathCharactersMax,
         "The model file. Its SHA-256 is what capabilities report."),
    text("options", &M::options, TextForm::Any, 0, 65536, false,
         "JSON that the library is opened with, as it stands; for libraries other than the GGUF "
         "text runtime. Empty: the JSON is made of `path` and the keys below, which are then that "
         "runtime's."),
    number("published_at", &M::published_at, 0, 253402300799,
           "Unix time in seconds that the model list reports; 0 for the time of the model file."),
    number("threads", &M::threads, 0, 1024, "Threads that compute; 0 for one a core."),
    number("sequences", &M::sequences, 1, 256, "Sequences that are open at the same time."),
    number("kv_tokens", &M::kv_tokens, 16, 16777216,
           "Tokens that the key-value cache holds, all sequences together."),
    number("sequence_tokens", &M::sequence_tokens, 0, 16777216,
           "Tokens that one sequence can hold; 0 for the smaller of the model's context and "
           "`kv_tokens`."),
    number("step_tokens", &M::step_tokens, 1, 65536,
           "Tokens that one model step takes, prompts and answers together."),
    choice("activations", &M::activations, "quantised|float", false,
           "How activations meet quantised weights on the CPU: `float` is exact and slower."),
};

using P = PrincipalConfig;
const ConfigKey<P> kPrincipalKeys[] = {
    text("name", &P::name, TextForm::Alias, 1, 64, true, "The name in logs; unique."),
    text("id", &P::id, TextForm::Hex, 32, 32, true,
         "The principal's ID, as grants name it: 32 lower-case hex digits, not all zero; unique."),
    text("token_sha256", &P::token_sha256, TextForm::Hex, 1, kTokenHashesMax, true,
         "SHA-256 of each valid token, as 64 lower-case hex digits; several while tokens rotate. "
         "`aotxctl token new` makes a token and its hash."),
};

}  // namespace

const ConfigSection<D> kDeviceSection = {
    "device", false, "The device process: where it lives and how large its tables are.",
    kDeviceKeys};
const ConfigSection<B> kBrokerSection = {
    "broker", false, "The thread that carries packets between the socket and the device.",
    kBrokerKeys};
const ConfigSection<G> kGatewaySection = {"gateway", false, "The HTTP side, a process of its own.",
                                          kGatewayKeys};
const ConfigSection<M> kModelSection = {"models", true, "One entry a model, at most 8.",
                                        kModelKeys};
const ConfigSection<P> kPrincipalSection = {
    "principals", true,
    "One entry a caller, at most 1022. What a caller may do stands in the grant file.",
    kPrincipalKeys};

}  // namespace aotx
