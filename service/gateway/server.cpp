// Purpose:  the gateway's turn: epoll, accepting, deadlines; see server.h.
// Owns:     nothing of its own.
// Thread:   the gateway's.
// Lifetime: not applicable.
#include "server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "routes.h"
#include "service/base/check.h"
#include "service/base/clock.h"
#include "service/base/log.h"

namespace aotx {
namespace {

// Epoll data: what kind of thing in the upper half, which one in the lower.
constexpr uint64_t kTagListener = uint64_t{1} << 56;
constexpr uint64_t kTagWake = uint64_t{2} << 56;
constexpr uint64_t kTagWire = uint64_t{3} << 56;
constexpr uint64_t kTagConnection = uint64_t{4} << 56;
constexpr uint64_t kTagMask = uint64_t{0xff} << 56;

constexpr int kEventsMax = 256;
constexpr int kAcceptsMax = 64;  // a turn, so that a flood of peers starves nobody
constexpr int kBacklog = 1024;
constexpr uint64_t kLingerNs = 2 * kSecondNs;
constexpr uint64_t kProbeNs = 2 * kSecondNs;  // how long a loop may be silent and be called ready
constexpr uint64_t kDrainNs = 5 * kSecondNs;  // for answers in progress after stop()
constexpr size_t kDescriptorsSpare = 64;

uint64_t connection_tag(const Connection& connection)
{
    const uint64_t generation = connection.generation & 0xffffffu;
    return kTagConnection | generation << 32 | connection.index;
}

bool is_loopback(const sockaddr* address)
{
    if (address->sa_family == AF_INET) {
        sockaddr_in v4;
        std::memcpy(&v4, address, sizeof v4);
        return (ntohl(v4.sin_addr.s_addr) >> 24) == 127;
    }
    if (address->sa_family != AF_INET6) {
        return false;
    }
    sockaddr_in6 v6;
    std::memcpy(&v6, address, sizeof v6);
    return IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr) != 0;
}

// "127.0.0.1:8081" or "[::1]:8081"; no names, so that nothing is looked up.
bool address_parse(const std::string& bind, sockaddr_storage* address, socklen_t* length)
{
    const size_t colon = bind.rfind(':');
    if (colon == std::string::npos) {
        return false;
    }
    std::string name = bind.substr(0, colon);
    if (name.size() >= 2 && name.front() == '[' && name.back() == ']') {
        name = name.substr(1, name.size() - 2);
    }
    addrinfo hints = {};
    hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const std::string port = bind.substr(colon + 1);
    if (getaddrinfo(name.empty() ? nullptr : name.c_str(), port.c_str(), &hints, &found) != 0) {
        return false;
    }
    std::memcpy(address, found->ai_addr, found->ai_addrlen);
    *length = found->ai_addrlen;
    freeaddrinfo(found);
    return true;
}

// When a file was last written, 0 for one that cannot be seen.
uint64_t file_written_s(const std::string& path)
{
    struct stat state = {};
    const bool seen = !path.empty() && stat(path.c_str(), &state) == 0 && state.st_mtime > 0;
    return seen ? static_cast<uint64_t>(state.st_mtime) : 0;
}

void descriptors_raise(size_t wanted)
{
    rlimit limit = {};
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < wanted) {
        limit.rlim_cur = std::min<rlim_t>(wanted, limit.rlim_max);
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

bool epoll_add(int epoll_fd, int fd, uint32_t events, uint64_t tag)
{
    epoll_event event = {};
    event.events = events;
    event.data.u64 = tag;
    return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace

Server::~Server()
{
    for (size_t i = 0; connections_ != nullptr && i < config_.gateway.connections; i++) {
        if (connections_[i].stage != Stage::Free) {
            close(connections_[i]);
        }
        connections_[i].~Connection();
    }
    if (connections_ != nullptr) {
        munmap(connections_, connections_bytes_);
    }
    if (tls_ != nullptr) {
        tls_close(tls_);
    }
    listen_end();
}

// Whoever binds next must not find its own file removed, so the file goes before the listener.
void Server::listen_end() noexcept
{
    if (!unix_path_.empty()) {
        unlink(unix_path_.c_str());
        unix_path_.clear();
    }
    listener_.reset();
}

int Server::open(const Config& config, std::string* error) noexcept
{
    AOTX_CHECK(connections_ == nullptr);
    config_ = config;
    for (ModelConfig& model : config_.models) {
        if (model.published_at == 0) {
            model.published_at = file_written_s(model.path);
        }
    }
    const GatewayConfig& gateway = config_.gateway;
    access_.open(config_);
    if (access_.grants_load() != AOTX_OK) {
        log_line(LogLevel::Warning, "no grant file that can be used yet");
    }
    descriptors_raise(gateway.connections + gateway.wire_connections + kDescriptorsSpare);
    epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
    wake_.reset(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    spare_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!epoll_.valid() || !wake_.valid() || !spare_.valid() ||
        !epoll_add(epoll_.get(), wake_.get(), EPOLLIN, kTagWake)) {
        *error = "no descriptors";
        return AOTX_ERR_SYSTEM;
    }
    const int listening = listen_open(error);
    if (listening != AOTX_OK) {
        return listening;
    }
    connections_bytes_ = gateway.connections * sizeof(Connection);
    void* const map = mmap(nullptr, connections_bytes_, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED) {
        *error = "no memory for the connections";
        return AOTX_ERR_SYSTEM;
    }
    // Pages of connections that never were stay untouched: each is built when it is first used.
    connections_ = static_cast<Connection*>(map);
    for (uint32_t i = gateway.connections; i > 0; i--) {
        connections_free_.push_back(i - 1);
    }
    idle_.set_length_ns(gateway.idle_seconds * kSecondNs);
    header_.set_length_ns(gateway.header_seconds * kSecondNs);
    body_.set_length_ns(gateway.body_seconds * kSecondNs);
    write_.set_length_ns(gateway.write_seconds * kSecondNs);
    operations_.set_length_ns(gateway.operation_seconds * kSecondNs);
    probes_.set_length_ns(std::min(kProbeNs, gateway.operation_seconds * kSecondNs));
    heartbeats_.set_length_ns(gateway.heartbeat_seconds * kSecondNs);
    lingers_.set_length_ns(kLingerNs);

    works_.open(std::min<size_t>(gateway.work, AOTX_GRANT_ROWS_MAX));
    watch_ = std::make_unique<Watch>();
    reader_ = std::make_unique<ChatReader>();
    watch_->open(&wires_, &works_, Routes::watch_hooks(this));
    time_take();
    wires_.open(epoll_.get(), kTagWire, config_.device.socket_path,
                std::max<size_t>(gateway.wire_connections, kWatchWires + 1),
                Routes::wire_hooks(this), now_ns_);
    return AOTX_OK;
}

int Server::listen_open(std::string* error) noexcept
{
    const std::string& bind = config_.gateway.bind;
    host_rule_.names = config_.gateway.hosts;
    const int result = address_is_unix(bind) ? listen_unix(bind.substr(kUnixAddress.size()), error)
                                             : listen_tcp(error);
    if (result != AOTX_OK) {
        return result;
    }
    if (listen(listener_.get(), kBacklog) != 0 ||
        !epoll_add(epoll_.get(), listener_.get(), EPOLLIN, kTagListener)) {
        *error = "cannot listen on " + bind;
        return AOTX_ERR_SYSTEM;
    }
    return AOTX_OK;
}

int Server::listen_unix(const std::string& path, std::string* error) noexcept
{
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    if (path.empty() || path.size() >= sizeof address.sun_path) {
        *error = "the path of the Unix socket is empty or too long";
        return AOTX_ERR_RANGE;
    }
    std::memcpy(address.sun_path, path.data(), path.size());
    listener_.reset(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    // A socket file that nobody listens on is left over from a run that was killed.
    Fd probe(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const auto* const where = reinterpret_cast<const sockaddr*>(&address);
    if (probe.valid() && connect(probe.get(), where, sizeof address) != 0 &&
        errno == ECONNREFUSED) {
        unlink(path.c_str());
    }
    const mode_t mask = umask(0117);  // mode 0660: the group may connect
    const bool bound = listener_.valid() && bind(listener_.get(), where, sizeof address) == 0;
    umask(mask);
    if (!bound) {
        *error = "cannot bind the Unix socket";
        return AOTX_ERR_SYSTEM;
    }
    unix_path_ = path;
    host_rule_.loopback = true;
    return AOTX_OK;
}

int Server::listen_tcp(std::string* error) noexcept
{
    const GatewayConfig& gateway = config_.gateway;
    sockaddr_storage address = {};
    socklen_t length = 0;
    if (!address_parse(gateway.bind, &address, &length)) {
        *error = "gateway.bind is no numeric address with a port: " + gateway.bind;
        return AOTX_ERR_RANGE;
    }
    const auto* const where = reinterpret_cast<const sockaddr*>(&address);
    host_rule_.loopback = is_loopback(where);
    if (!gateway.certificate_path.empty()) {
        tls_ = tls_open(gateway.certificate_path, gateway.key_path, error);
        if (tls_ == nullptr) {
            return AOTX_ERR_RANGE;
        }
    } else if (!host_rule_.loopback) {
        *error = "an address other than loopback needs a certificate and key";
        return AOTX_ERR_RANGE;
    }
    const int yes = 1;
    listener_.reset(
        socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
    if (!listener_.valid() ||
        setsockopt(listener_.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
        setsockopt(listener_.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes) != 0 ||
        bind(listener_.get(), where, length) != 0) {
        *error = "cannot bind " + gateway.bind + ": " + std::strerror(errno);
        return AOTX_ERR_SYSTEM;
    }
    sockaddr_storage bound = {};
    socklen_t bound_length = sizeof bound;
    getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&bound), &bound_length);
    sockaddr_in v4;
    std::memcpy(&v4, &bound, sizeof v4);  // the port is at the same place in both families
    port_ = ntohs(v4.sin_port);
    return AOTX_OK;
}

int Server::run() noexcept
{
    while (true) {
        turn(timeout_ms());
        if (stopping_ &&
            (connections_free_.size() == config_.gateway.connections || now_ns_ >= stop_ns_)) {
            return AOTX_OK;
        }
    }
}

void Server::turn(int timeout_ms) noexcept
{
    epoll_event events[kEventsMax];
    const int count = epoll_wait(epoll_.get(), events, kEventsMax, timeout_ms);
    AOTX_CHECK(count >= 0 || errno == EINTR);
    time_take();
    for (int i = 0; i < count; i++) {
        event_take(events[i].data.u64, events[i].events);
    }
    again_.swap(again_now_);
    for (Connection* const connection : again_now_) {
        connection->listed = false;
        step(*connection);
    }
    again_now_.clear();
    deadlines_take();
    wires_due_ns_ = wires_.reconnect(now_ns_);
    wires_.flush();
    watch_->flush(epoch_);
    spin();
}

void Server::spin() noexcept
{
    const uint64_t spin_ns = config_.gateway.spin_us * kMicrosecondNs;
    if (spin_ns == 0 || wires_.flying_count() == 0) {
        return;
    }
    // A short busy wait while the device answers: cheaper than a sleep and a wake-up.
    const uint64_t until_ns = clock_monotonic_ns() + spin_ns;
    epoll_event event;
    do {
        if (epoll_wait(epoll_.get(), &event, 1, 0) > 0) {
            time_take();
            event_take(event.data.u64, event.events);
            wires_.flush();
            watch_->flush(epoch_);
        }
    } while (clock_monotonic_ns() < until_ns && wires_.flying_count() != 0);
}

void Server::event_take(uint64_t tag, uint32_t events) noexcept
{
    const uint64_t kind = tag & kTagMask;
    if (kind == kTagConnection) {
        Connection& connection = connections_[tag & 0xffffffffu];
        // A slot that was closed and used again this turn is another connection.
        if (connection.stage != Stage::Free && connection_tag(connection) == tag) {
            connection_event(connection, events);
        }
    } else if (kind == kTagWire) {
        wires_.on_event(tag & ~kTagMask);
    } else if (kind == kTagListener) {
        accept_all();
    } else if (kind == kTagWake) {
        wake_take();
    }
}

void Server::time_take() noexcept
{
    now_ns_ = clock_monotonic_ns();
    timespec wall = {};
    clock_gettime(CLOCK_REALTIME_COARSE, &wall);
    if (static_cast<uint64_t>(wall.tv_sec) == unix_s_) {
        return;
    }
    unix_s_ = static_cast<uint64_t>(wall.tv_sec);
    tm parts = {};
    gmtime_r(&wall.tv_sec, &parts);
    strftime(date_, sizeof date_, "%a, %d %b %Y %H:%M:%S GMT", &parts);
    health_.clear();
}

int Server::timeout_ms() noexcept
{
    if (!again_.empty()) {
        return 0;
    }
    uint64_t due_ns = wires_due_ns_ != 0 ? wires_due_ns_ : UINT64_MAX;
    for (const DeadlineQueue* queue :
         {&idle_, &header_, &body_, &write_, &operations_, &probes_, &heartbeats_, &lingers_}) {
        if (queue->first() != nullptr) {
            due_ns = std::min(due_ns, queue->first()->due_ns);
        }
    }
    if (stopping_) {
        due_ns = std::min(due_ns, stop_ns_);
    }
    if (due_ns == UINT64_MAX) {
        return -1;
    }
    const uint64_t now_ns = clock_monotonic_ns();
    const uint64_t left_ns = due_ns > now_ns ? due_ns - now_ns : 0;
    return static_cast<int>(
        std::min<uint64_t>((left_ns + kMillisecondNs - 1) / kMillisecondNs, 60 * 1000));
}

void Server::accept_all() noexcept
{
    for (int i = 0; i < kAcceptsMax; i++) {
        const int fd = accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            accept_one(fd);
            continue;
        }
        if (errno == EMFILE || errno == ENFILE) {
            // Without this the same peer would wake us for ever.
            spare_.reset();
            Fd refused(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
            refused.reset();
            spare_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
            counters_.connections_refused++;
        }
        if (errno != ECONNABORTED && errno != EINTR) {
            return;
        }
    }
}

bool Server::evict_one() noexcept
{
    // First who waits without a word, longest first; then who has begun a head, longest first.
    for (const DeadlineQueue* queue : {&idle_, &header_}) {
        if (queue->first() != nullptr) {
            counters_.connections_evicted++;
            close(*static_cast<Connection*>(queue->first()->owner));
            return true;
        }
    }
    return false;
}

void Server::accept_one(int fd) noexcept
{
    if (connections_free_.empty() && !evict_one()) {
        // Everyone here has a request in progress. TLS peers are only closed.
        constexpr std::string_view full =
            "HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/json\r\n"
            "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nVary: Origin\r\n"
            "Retry-After: 1\r\nConnection: close\r\nContent-Length: 127\r\n\r\n"
            "{\"error\":{\"message\":\"The gateway is at its limit; try again.\","
            "\"type\":\"rate_limit_error\",\"param\":null,\"code\":\"transport_limit\"}}";
        counters_.connections_refused++;
        Fd refused(fd);
        if (tls_ == nullptr) {
            send(fd, full.data(), full.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
            shutdown(fd, SHUT_WR);
            // What has arrived must be read, or closing resets and the answer is lost.
            static_cast<void>(recv(fd, scratch_, sizeof scratch_, MSG_DONTWAIT));
        }
        return;
    }
    const uint32_t index = connections_free_.back();
    connections_free_.pop_back();
    Connection* const connection = &connections_[index];
    if (connection->in == nullptr) {
        new (connection) Connection();
        connection->server = this;
        connection->index = index;
        connection->in = connection->inline_in;
        connection->in_capacity = kInlineBytes;
        for (DeadlineNode* node : {&connection->stage_deadline, &connection->write_deadline,
                                   &connection->operation_deadline}) {
            node->owner = connection;
        }
        connection->operation.owner = connection;
    }
    connection->generation++;
    connection->fd = fd;
    connection->stage = Stage::Head;
    counters_.connections_accepted++;
    if (tls_ != nullptr) {
        connection->tls = tls_accept(tls_, fd);
    }
    const uint32_t events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
    idle_.arm(&connection->stage_deadline, now_ns_);
    if ((tls_ != nullptr && connection->tls == nullptr) ||
        !epoll_add(epoll_.get(), fd, events, connection_tag(*connection))) {
        close(*connection);
    }
}

void Server::deadlines_take() noexcept
{
    for (DeadlineQueue* queue :
         {&idle_, &header_, &body_, &write_, &operations_, &probes_, &lingers_}) {
        while (DeadlineNode* const node = queue->due(now_ns_)) {
            DeadlineQueue::disarm(node);
            expire(*static_cast<Connection*>(node->owner), queue);
        }
    }
    while (DeadlineNode* const node = heartbeats_.due(now_ns_)) {
        heartbeats_.arm(node, now_ns_);
        Routes::heartbeat(*this, *static_cast<Work*>(node->owner));
    }
}

void Server::stop() noexcept
{
    stop_asked_.store(true, std::memory_order_release);
    const uint64_t one = 1;
    static_cast<void>(!write(wake_.get(), &one, sizeof one));
}

void Server::reload() noexcept
{
    reload_asked_.store(true, std::memory_order_release);
    const uint64_t one = 1;
    static_cast<void>(!write(wake_.get(), &one, sizeof one));
}

void Server::wake_take() noexcept
{
    uint64_t count = 0;
    static_cast<void>(!read(wake_.get(), &count, sizeof count));
    if (reload_asked_.exchange(false, std::memory_order_acquire)) {
        const bool good = access_.grants_load() == AOTX_OK;
        log_line(good ? LogLevel::Info : LogLevel::Error,
                 good ? "grants read again" : "the grant file cannot be used; the old one stays");
    }
    if (stop_asked_.load(std::memory_order_acquire) && !stopping_) {
        stop_take();
    }
}

void Server::stop_take() noexcept
{
    stopping_ = true;
    stop_ns_ = now_ns_ + kDrainNs;
    listen_end();
    for (const DeadlineQueue* queue : {&idle_, &header_, &lingers_}) {
        while (queue->first() != nullptr) {
            close(*static_cast<Connection*>(queue->first()->owner));
        }
    }
}

}  // namespace aotx
