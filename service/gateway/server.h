// Purpose:  the gateway: one epoll thread that speaks HTTP to clients and packets to the broker.
// Owns:     the listener, every connection, the wires, and the buffers that they share.
// Thread:   one; stop() and reload() may be called from any thread or signal handler.
// Lifetime: open, run, then it may go; no answer outlives it.
//
// A request in progress keeps what it needs in its Connection. Handlers either answer at once or
// start an operation of the device and return; its reply continues in another handler. Nothing here
// waits.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "access.h"
#include "chat_request.h"
#include "deadline.h"
#include "http_chunk.h"
#include "http_head.h"
#include "refusal.h"
#include "service/base/fd.h"
#include "service/config/config.h"
#include "target.h"
#include "text.h"
#include "tls.h"
#include "watch.h"
#include "wire.h"
#include "work.h"

namespace aotx {

// What a parser may read past the end of a body.
constexpr size_t kBodyPadding = simdjson::SIMDJSON_PADDING;
constexpr size_t kInlineBytes = 4096;           // input that a connection holds without asking
constexpr size_t kLargeHeadsMax = 64;           // connections whose head needs more than that
constexpr size_t kAnswerHeadBytes = 1024;       // room in front of an answer for its head
constexpr size_t kAnswerBytesKept = 256 << 10;  // memory of the answer buffer between answers

enum class Stage : uint8_t {
    Free,
    Head,    // between requests, or a head is arriving
    Body,    // a body is arriving
    Busy,    // the device works on it, or its answer is being streamed
    Linger,  // everything is answered; what still arrives is thrown away until the peer closes
};

// One request as its handlers need it.
struct Request {
    Route route = Route::None;
    bool head_only = false;
    bool version_1_0 = false;
    bool chunked = false;
    bool has_cursor = false;
    bool submitted = false;  // a submission left for the device; id and epoch name it
    bool retried = false;    // once, after a stale revision or epoch
    bool streaming = false;  // the answer is a stream of events, its head out or due
    bool stream_head_due = false;
    uint64_t cursor = 0;
    uint64_t epoch = 0;
    uint8_t id[AOTX_ID_BYTES] = {};
    Principal* principal = nullptr;
    size_t consumed = 0;  // bytes of the input buffer that belong to this request
    size_t body_at = 0;   // of a body that lies in the input buffer
    uint64_t content_length = 0;
    bool body_complete = false;
    bool media_wav = false;  // an upload is WAV, else JPEG
};

// What a completion or native request carries from its body to its admission.
struct Submission {
    bool native = false;
    bool stream = false;
    bool include_usage = false;
    size_t model = 0;
    std::vector<uint8_t> payload;  // kept for a retry, and while media digests are read
    uint32_t output_tokens = 0;    // 0: as many as the grant permits
    float temperature = 1.0f;
    float top_p = 1.0f;
    std::vector<ChatMedia> media;
    size_t media_known = 0;  // digests that stand in the payload
    // An upload uses the payload for its packets, and these:
    const uint8_t* upload = nullptr;
    uint64_t upload_bytes = 0;
    uint64_t upload_sent = 0;
    uint8_t upload_sha256[AOTX_DIGEST_BYTES] = {};
};

struct Body {
    char* data = nullptr;  // from malloc, nullptr: it lies in the input buffer
    size_t capacity = 0;   // without the padding
    size_t used = 0;
    ChunkState chunks;
};

struct Connection {
    class Server* server = nullptr;
    uint32_t index = 0;
    uint32_t generation = 0;
    int fd = -1;
    Stage stage = Stage::Free;
    bool readable = false;     // epoll said so and a read has not found the end since
    bool hung = false;         // epoll saw the end of the peer's data; a read will find it
    bool broken = false;       // of no more use; closed when the turn's work on it is done
    bool close_after = false;  // after this answer
    bool listed = false;       // in the list of connections to look at again this turn
    bool reads_body = false;   // counts as a body reader
    ssl_st* tls = nullptr;

    char* in = nullptr;
    size_t in_capacity = 0;
    size_t in_end = 0;
    HttpScan scan;
    Request request;
    Body body;
    std::unique_ptr<Submission> submission;
    Work* work = nullptr;
    WireOperation operation;

    char* out = nullptr;  // what the socket did not take, from malloc
    size_t out_size = 0;
    size_t out_sent = 0;

    DeadlineNode stage_deadline;  // idle, header, body or linger
    DeadlineNode write_deadline;
    DeadlineNode operation_deadline;

    char inline_in[kInlineBytes + kBodyPadding];
};

struct Counters {
    uint64_t connections_accepted = 0;
    uint64_t connections_evicted = 0;
    uint64_t connections_refused = 0;
    uint64_t requests = 0;
    uint64_t answers[6] = {};  // by the first digit of the status
    uint64_t submissions = 0;
    uint64_t stream_bytes = 0;  // output bytes of the device that streams carried
    uint64_t unauthorised = 0;
};

class Server {
public:
    Server() noexcept = default;
    ~Server();
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;

    // Bind and connect. AOTX_OK, or AOTX_ERR_SYSTEM and AOTX_ERR_RANGE with *error for a person.
    // The device need not be there yet.
    [[nodiscard]] int open(const Config& config, std::string* error) noexcept;
    // Serve until stop(). AOTX_OK.
    int run() noexcept;
    // Take no new connection, let answers in progress end for a while, then return from run().
    void stop() noexcept;
    // Read the grant file again.
    void reload() noexcept;
    // The TCP port that it listens on, for a bind address with port 0; 0 on a Unix socket.
    uint16_t port() const noexcept { return port_; }

private:
    friend struct Routes;

    // server.cpp: the turn
    [[nodiscard]] int listen_open(std::string* error) noexcept;
    [[nodiscard]] int listen_unix(const std::string& path, std::string* error) noexcept;
    [[nodiscard]] int listen_tcp(std::string* error) noexcept;
    void listen_end() noexcept;
    void turn(int timeout_ms) noexcept;
    void event_take(uint64_t tag, uint32_t events) noexcept;
    int timeout_ms() noexcept;
    void time_take() noexcept;
    void accept_all() noexcept;
    void accept_one(int fd) noexcept;
    [[nodiscard]] bool evict_one() noexcept;
    void deadlines_take() noexcept;
    void spin() noexcept;
    void wake_take() noexcept;
    void stop_take() noexcept;

    // connection.cpp: bytes in and out, and the course of a request
    void connection_event(Connection& connection, uint32_t events) noexcept;
    void step(Connection& connection) noexcept;
    [[nodiscard]] bool step_once(Connection& connection) noexcept;
    [[nodiscard]] bool head_step(Connection& connection) noexcept;
    [[nodiscard]] bool body_step(Connection& connection) noexcept;
    [[nodiscard]] bool linger_step(Connection& connection) noexcept;
    [[nodiscard]] bool input_fill(Connection& connection) noexcept;
    [[nodiscard]] bool input_grow(Connection& connection) noexcept;
    void input_drop(Connection& connection, size_t bytes_count) noexcept;
    void body_begin(Connection& connection) noexcept;
    [[nodiscard]] bool body_reserve(Connection& connection, size_t capacity) noexcept;
    [[nodiscard]] bool body_fill(Connection& connection) noexcept;
    [[nodiscard]] bool body_chunks(Connection& connection) noexcept;
    void body_complete(Connection& connection, std::string_view body) noexcept;
    void body_release(Connection& connection) noexcept;
    size_t body_limit(const Connection& connection) const noexcept;
    long io_read(Connection& connection, char* bytes, size_t bytes_count) noexcept;
    void head_take(Connection& connection, const HttpHead& head) noexcept;
    [[nodiscard]] bool head_permitted(Connection& connection, const HttpHead& head,
                                      const Target& target) noexcept;
    [[nodiscard]] bool target_take(Connection& connection, const HttpHead& head,
                                   const Target& target) noexcept;
    [[nodiscard]] bool framing_take(Connection& connection, const HttpHead& head) noexcept;
    void request_end(Connection& connection) noexcept;
    void settle(Connection& connection) noexcept;
    void close(Connection& connection) noexcept;
    void linger(Connection& connection) noexcept;
    void send_bytes(Connection& connection, const char* bytes, size_t bytes_count) noexcept;
    void send_backlog(Connection& connection) noexcept;
    void expire(Connection& connection, const DeadlineQueue* queue) noexcept;
    void operation_expire(Connection& connection) noexcept;

    // answer.cpp: what goes out
    Text& answer_begin() noexcept;
    void answer_end(Connection& connection, uint32_t status,
                    std::string_view type = "application/json") noexcept;
    void answer_empty(Connection& connection, uint32_t status) noexcept;
    void refuse(Connection& connection, const Refusal& why) noexcept;
    void stream_begin(Connection& connection) noexcept;
    void stream_end(Connection& connection, bool last) noexcept;
    void head_write(const Connection& connection, uint32_t status, std::string_view type) noexcept;
    void answer_send(Connection& connection, size_t bytes_count) noexcept;

    Config config_;
    HostRule host_rule_;
    Access access_;
    Fd epoll_;
    Fd listener_;
    Fd wake_;
    Fd spare_;  // given up for a moment when descriptors run out, to refuse a peer politely
    uint16_t port_ = 0;
    std::string unix_path_;  // of the socket that was made; removed at the end
    ssl_ctx_st* tls_ = nullptr;

    Connection* connections_ = nullptr;  // config_.gateway.connections of them, mapped
    size_t connections_bytes_ = 0;
    std::vector<uint32_t> connections_free_;
    std::vector<Connection*> again_;      // to be looked at again next turn
    std::vector<Connection*> again_now_;  // this turn

    Wires wires_;
    WorkTable works_;
    std::unique_ptr<Watch> watch_;
    std::unique_ptr<ChatReader> reader_;
    JsonDocument document_;  // bodies that are no messages
    uint64_t epoch_ = 0;
    aotx_device_row device_ = {};  // as last told; schema 0: never, or the device does not know
    uint64_t grants_read_ns_ = 0;
    uint64_t wires_due_ns_ = 0;

    DeadlineQueue idle_;
    DeadlineQueue header_;
    DeadlineQueue body_;
    DeadlineQueue write_;
    DeadlineQueue operations_;
    DeadlineQueue probes_;  // operations of readiness and metrics
    DeadlineQueue heartbeats_;
    DeadlineQueue lingers_;

    uint64_t now_ns_ = 0;
    uint64_t unix_s_ = 0;
    char date_[32] = {};
    std::string health_;
    Text answer_;
    Text headers_;  // lines that the next answer's head carries besides those of every answer
    Text head_;
    Text decoded_;
    size_t body_readers_ = 0;
    size_t body_credit_used_ = 0;
    size_t large_heads_ = 0;
    Counters counters_;
    bool stopping_ = false;
    uint64_t stop_ns_ = 0;
    std::atomic<bool> stop_asked_{false};
    std::atomic<bool> reload_asked_{false};
    char scratch_[16384];
};

}  // namespace aotx
