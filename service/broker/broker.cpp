// Purpose:  the broker thread, see broker.h.
// Owns:     the listening socket, every connection, and which mailbox belongs to which connection.
// Thread:   the broker's own, but for open, start, listen, control, stop and close.
// Lifetime: open -> start -> listen -> stop -> close.
#include "service/broker/broker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "aotx/status.h"
#include "service/base/check.h"
#include "service/base/clock.h"
#include "service/base/cpus.h"
#include "service/base/fd.h"
#include "service/base/log.h"
#include "service/broker/socket.h"

namespace aotx {
namespace {

constexpr uint32_t kEventsMax = 64;   // of one epoll turn
constexpr uint32_t kRepliesMax = 64;  // of one burst
constexpr uint32_t kSpinsPerLook = 32;
constexpr int kDeafMs = 100;
constexpr int kSendBufferBytes = 256 * 1024;  // holds a whole packet whatever the system's default

// Values of epoll_event.data.u32 that name no connection; mailbox 0 never has one.
constexpr uint32_t kTokenListener = UINT32_MAX;
constexpr uint32_t kTokenWake = UINT32_MAX - 1;
constexpr uint32_t kTokenReply = UINT32_MAX - 2;

// What a connection's mailbox is doing.
enum class Turn : uint32_t {
    Free,      // no connection, mailbox empty
    Idle,      // connected, nothing in flight
    InFlight,  // connected, a request is with the device
    Orphan     // the peer left, the mailbox waits for its reply
};

struct Connection {
    Fd socket;
    Turn turn = Turn::Free;
    bool is_disarmed = false;  // input arrived early; looked at after the reply
    bool is_slow = false;      // its last reply took longer than a spin
    uint64_t posted_ns = 0;
};

// One packet of broker_control, handed over and back by its state.
enum class ControlTurn : uint32_t { Empty, Given, Posted, Answered, Refused };

struct Control {
    std::atomic<ControlTurn> turn = ControlTurn::Empty;
    bool is_awaited = false;  // the caller's: a reply is still to come
    size_t packet_bytes = 0;
    aotx_reply_head reply = {};
    uint8_t packet[AOTX_PACKET_BYTES_MAX] = {};  // a copy: a caller that gives up may go away
};

struct Counters {
    std::atomic<uint64_t> connections_accepted = 0;
    std::atomic<uint64_t> connections_refused_owner = 0;
    std::atomic<uint64_t> connections_refused_full = 0;
    std::atomic<uint64_t> packets = 0;
    std::atomic<uint64_t> replies = 0;
    std::atomic<uint64_t> replies_orphaned = 0;
    std::atomic<uint64_t> dropped_short = 0;
    std::atomic<uint64_t> dropped_truncated = 0;
    std::atomic<uint64_t> dropped_descriptors = 0;
    std::atomic<uint64_t> dropped_grants = 0;
    std::atomic<uint64_t> dropped_unread = 0;
};

// The broker thread is the only writer, so a load and a store are enough.
void count(std::atomic<uint64_t>* counter) noexcept
{
    counter->store(counter->load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

bool wake(const Fd& event) noexcept
{
    const uint64_t one = 1;
    return write(event.get(), &one, sizeof one) == static_cast<ssize_t>(sizeof one);
}

void drain(const Fd& event) noexcept
{
    uint64_t value = 0;
    [[maybe_unused]] const ssize_t got = read(event.get(), &value, sizeof value);
}

bool watch(const Fd& epoll, int operation, int descriptor, uint32_t events, uint32_t token) noexcept
{
    epoll_event event = {};
    event.events = events;
    event.data.u32 = token;
    return epoll_ctl(epoll.get(), operation, descriptor, &event) == 0;
}

void pause_briefly() noexcept
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

}  // namespace

struct Broker {
    BrokerOptions options;
    BrokerDevice device;
    aotx_ring_head* ring = nullptr;
    Fd epoll;
    Fd wake;
    Fd control_done;
    Fd reserve;  // given up for a moment so that a connection can be accepted and closed
    Fd listener;
    dev_t socket_device = 0;  // which file the socket is, so that stop removes no other's
    ino_t socket_inode = 0;
    bool has_socket = false;
    bool is_deaf = false;  // out of descriptors; looks at the listener again after a while
    pthread_t thread = {};
    bool is_started = false;
    bool is_placed = false;
    cpu_set_t cpus = {};  // where the thread may run, if it is placed
    std::atomic<bool> is_stopping = false;
    std::vector<Connection> connections;  // by mailbox index
    std::vector<uint32_t> free_indices;   // mailboxes without a connection, never grows
    std::vector<uint32_t> posted;         // in this turn; never grows
    uint32_t hopeful = 0;                 // requests in flight whose reply is expected soon
    uint64_t spin_ns = 0;
    uint64_t turn_ns = 0;  // clock at the start of this turn
    Control control;
    Counters counters;
};

namespace {

aotx_mailbox* mailbox_of(Broker* broker, uint32_t index) noexcept
{
    return broker->device.mailbox(broker->device.device, index);
}

bool device_is_closed(const Broker* broker) noexcept
{
    return aotx_word_load(&broker->ring->closed) != 0;
}

void release_mailbox(Broker* broker, uint32_t index) noexcept
{
    Connection& connection = broker->connections[index];
    connection.turn = Turn::Free;
    connection.is_disarmed = false;
    connection.is_slow = false;
    AOTX_CHECK(broker->free_indices.size() < broker->free_indices.capacity());
    broker->free_indices.push_back(index);
}

// The peer is gone, by itself or for what it sent. Its mailbox is free at once, or when the reply
// that it no longer waits for has come.
void drop_connection(Broker* broker, uint32_t index) noexcept
{
    Connection& connection = broker->connections[index];
    connection.socket.reset();  // leaves the epoll set by itself
    if (connection.turn == Turn::InFlight) {
        connection.turn = Turn::Orphan;
        return;
    }
    AOTX_CHECK(connection.turn == Turn::Idle);
    release_mailbox(broker, index);
}

void drop_for(Broker* broker, uint32_t index, std::atomic<uint64_t>* counter,
              const char* reason) noexcept
{
    count(counter);
    log_line(LogLevel::Debug, "broker: connection %u dropped: %s", index, reason);
    drop_connection(broker, index);
}

void post(Broker* broker, uint32_t index, size_t bytes) noexcept
{
    Connection& connection = broker->connections[index];
    AOTX_CHECK(broker->posted.size() < broker->posted.capacity());
    aotx_mailbox_post(mailbox_of(broker, index), bytes);
    connection.turn = Turn::InFlight;
    connection.posted_ns = broker->turn_ns;
    broker->hopeful += connection.is_slow ? 0 : 1;
    broker->posted.push_back(index);
    count(&broker->counters.packets);
}

// One packet of an idle connection, straight into its mailbox.
void take_packet(Broker* broker, uint32_t index, uint32_t events) noexcept
{
    Connection& connection = broker->connections[index];
    aotx_mailbox* const box = mailbox_of(broker, index);
    size_t bytes = 0;
    Counters& counters = broker->counters;
    switch (socket_receive(connection.socket.get(), box->frame, sizeof box->frame, &bytes)) {
        case Received::Nothing:
            return;
        case Received::Failed:
            drop_connection(broker, index);
            return;
        case Received::Truncated:
            drop_for(broker, index, &counters.dropped_truncated, "packet is too long");
            return;
        case Received::Descriptors:
            drop_for(broker, index, &counters.dropped_descriptors, "packet carries descriptors");
            return;
        case Received::Empty:
            if ((events & (EPOLLRDHUP | EPOLLHUP)) != 0) {
                drop_connection(broker, index);  // the end, not a packet of no bytes
            } else {
                drop_for(broker, index, &counters.dropped_short, "packet is empty");
            }
            return;
        case Received::Packet:
            break;
    }
    if (bytes < AOTX_HEAD_BYTES) {
        drop_for(broker, index, &counters.dropped_short, "packet is shorter than its head");
        return;
    }
    uint32_t operation = 0;
    std::memcpy(&operation, box->frame + offsetof(aotx_request_head, operation), sizeof operation);
    if (operation == AOTX_OPERATION_GRANTS) {
        drop_for(broker, index, &counters.dropped_grants, "grants travel elsewhere");
        return;
    }
    if (device_is_closed(broker)) {
        drop_connection(broker, index);
        return;
    }
    post(broker, index, bytes);
}

void connection_event(Broker* broker, uint32_t index, uint32_t events) noexcept
{
    Connection& connection = broker->connections[index];
    if (connection.turn == Turn::Idle) {
        if ((events & (EPOLLIN | EPOLLRDHUP)) != 0) {
            take_packet(broker, index, events);
        } else {
            drop_connection(broker, index);
        }
        return;
    }
    if (connection.turn != Turn::InFlight) {
        return;  // an event of this turn that was overtaken by a drop
    }
    if ((events & (EPOLLHUP | EPOLLERR)) != 0) {
        drop_connection(broker, index);
        return;
    }
    // The frame belongs to the device now. What has come early waits in the socket, and so does
    // the end of a peer that only stopped sending: it still gets its reply.
    AOTX_CHECK(watch(broker->epoll, EPOLL_CTL_MOD, connection.socket.get(), 0, index));
    connection.is_disarmed = true;
}

// The connection is closed by its owner on return.
void refuse_connection(std::atomic<uint64_t>* counter, const char* reason) noexcept
{
    count(counter);
    log_line(LogLevel::Debug, "broker: connection refused: %s", reason);
}

// Look at the listener or not. [broker thread]
void listen_again(Broker* broker, bool is_on) noexcept
{
    broker->is_deaf = !is_on;
    AOTX_CHECK(watch(broker->epoll, EPOLL_CTL_MOD, broker->listener.get(),
                     is_on ? uint32_t{EPOLLIN} : 0u, kTokenListener));
}

// No descriptor is left: give up the reserve for a moment, so that the peer is told instead of
// waiting for ever. When not even that helps, stop looking at the listener for a while, because it
// would wake this thread again and again.
bool refuse_without_descriptor(Broker* broker) noexcept
{
    broker->reserve.reset();
    Fd refused(accept4(broker->listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const bool is_refused = refused.valid();
    if (is_refused) {
        refuse_connection(&broker->counters.connections_refused_full, "no descriptor");
    } else if (errno == EMFILE || errno == ENFILE) {
        listen_again(broker, false);
    }
    refused.reset();  // before the reserve is taken back: it holds the only free number
    broker->reserve.reset(open("/dev/null", O_RDONLY | O_CLOEXEC));
    return is_refused;
}

// Accept one connection. False when none is waiting.
bool accept_one(Broker* broker) noexcept
{
    Fd accepted(accept4(broker->listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!accepted.valid()) {
        if (errno == EMFILE || errno == ENFILE) {
            return refuse_without_descriptor(broker);
        }
        return errno == ECONNABORTED || errno == EINTR;
    }
    if (!socket_peer_is_own(accepted.get())) {
        refuse_connection(&broker->counters.connections_refused_owner, "another user");
        return true;
    }
    if (broker->free_indices.empty()) {
        refuse_connection(&broker->counters.connections_refused_full, "no mailbox");
        return true;
    }
    const uint32_t index = broker->free_indices.back();
    setsockopt(accepted.get(), SOL_SOCKET, SO_SNDBUF, &kSendBufferBytes, sizeof kSendBufferBytes);
    if (!watch(broker->epoll, EPOLL_CTL_ADD, accepted.get(), EPOLLIN | EPOLLRDHUP, index)) {
        refuse_connection(&broker->counters.connections_refused_full, "no room to watch");
        return true;
    }
    broker->free_indices.pop_back();
    Connection& connection = broker->connections[index];
    AOTX_CHECK(connection.turn == Turn::Free);
    connection.socket = std::move(accepted);
    connection.turn = Turn::Idle;
    count(&broker->counters.connections_accepted);
    return true;
}

void control_event(Broker* broker) noexcept
{
    Control& control = broker->control;
    if (control.turn.load(std::memory_order_acquire) != ControlTurn::Given) {
        return;
    }
    if (device_is_closed(broker)) {
        control.turn.store(ControlTurn::Refused, std::memory_order_release);
        AOTX_CHECK(wake(broker->control_done));
        return;
    }
    aotx_mailbox* const box = mailbox_of(broker, AOTX_MAILBOX_CONTROL);
    std::memcpy(box->frame, control.packet, control.packet_bytes);
    control.turn.store(ControlTurn::Posted, std::memory_order_release);
    aotx_mailbox_post(box, control.packet_bytes);
    broker->posted.push_back(AOTX_MAILBOX_CONTROL);
}

void control_reply(Broker* broker) noexcept
{
    aotx_mailbox* const box = mailbox_of(broker, AOTX_MAILBOX_CONTROL);
    Control& control = broker->control;
    std::memcpy(&control.reply, box->frame, sizeof control.reply);
    aotx_mailbox_empty(box);
    control.turn.store(ControlTurn::Answered, std::memory_order_release);
    AOTX_CHECK(wake(broker->control_done));
}

// One reply that the device has given: to its peer, or to nobody.
void return_reply(Broker* broker, uint32_t index) noexcept
{
    aotx_mailbox* const box = mailbox_of(broker, index);
    AOTX_CHECK(aotx_mailbox_replied(box));  // T4
    AOTX_CHECK(box->length_bytes >= AOTX_HEAD_BYTES && box->length_bytes <= sizeof box->frame);
    if (index == AOTX_MAILBOX_CONTROL) {
        control_reply(broker);
        return;
    }

    Connection& connection = broker->connections[index];
    AOTX_CHECK(connection.turn == Turn::InFlight || connection.turn == Turn::Orphan);
    if (!connection.is_slow) {
        broker->hopeful--;
    }
    if (connection.turn == Turn::Orphan) {
        aotx_mailbox_empty(box);
        count(&broker->counters.replies_orphaned);
        release_mailbox(broker, index);
        return;
    }

    connection.is_slow = broker->turn_ns - connection.posted_ns > broker->spin_ns;
    const ssize_t sent =
        send(connection.socket.get(), box->frame, box->length_bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    const bool is_unread = sent < 0 && (errno == EAGAIN || errno == ENOBUFS);
    aotx_mailbox_empty(box);
    connection.turn = Turn::Idle;
    if (is_unread) {
        drop_for(broker, index, &broker->counters.dropped_unread, "peer reads no replies");
        return;
    }
    if (sent < 0) {
        drop_connection(broker, index);
        return;
    }
    count(&broker->counters.replies);
    if (connection.is_disarmed) {
        connection.is_disarmed = false;
        AOTX_CHECK(watch(broker->epoll, EPOLL_CTL_MOD, connection.socket.get(),
                         EPOLLIN | EPOLLRDHUP, index));
    }
}

bool return_replies(Broker* broker) noexcept
{
    uint32_t indices[kRepliesMax];
    bool any = false;
    for (;;) {
        const uint32_t found =
            broker->device.take_replies(broker->device.device, indices, kRepliesMax);
        if (found != 0 && !any) {
            broker->turn_ns = clock_monotonic_ns();
        }
        for (uint32_t i = 0; i < found; i++) {
            return_reply(broker, indices[i]);
        }
        any = any || found != 0;
        if (found < kRepliesMax) {
            return any;
        }
    }
}

// No answer came while spinning: those in flight are slow ones, not worth another spin.
void give_up_hope(Broker* broker) noexcept
{
    for (Connection& connection : broker->connections) {
        if (connection.turn == Turn::InFlight || connection.turn == Turn::Orphan) {
            connection.is_slow = true;
        }
    }
    broker->hopeful = 0;
}

void handle_events(Broker* broker, const epoll_event* events, int events_count) noexcept
{
    broker->turn_ns = clock_monotonic_ns();
    broker->posted.clear();
    for (int i = 0; i < events_count; i++) {
        const uint32_t token = events[i].data.u32;
        if (token == kTokenWake) {
            drain(broker->wake);
            control_event(broker);
        } else if (token == kTokenListener) {
            while (accept_one(broker)) {
            }
        } else if (token != kTokenReply) {
            connection_event(broker, token, events[i].events);
        }
    }
    if (!broker->posted.empty()) {
        broker->device.ring_doorbell(broker->device.device, broker->posted.data(),
                                     static_cast<uint32_t>(broker->posted.size()));
    }
}

// Wait for replies without sleeping, looking at the sockets now and then. Returns the events that
// ended the wait, 0 when a reply did or the time is up.
int spin(Broker* broker, epoll_event* events) noexcept
{
    const uint64_t end_ns = clock_monotonic_ns() + broker->spin_ns;
    do {
        for (uint32_t i = 0; i < kSpinsPerLook; i++) {
            if (return_replies(broker)) {
                return 0;
            }
            pause_briefly();
        }
        const int found = epoll_wait(broker->epoll.get(), events, kEventsMax, 0);
        if (found > 0) {
            return found;
        }
    } while (clock_monotonic_ns() < end_ns);
    give_up_hope(broker);
    return 0;
}

int sleep_until_event(Broker* broker, epoll_event* events) noexcept
{
    if (!broker->device.park(broker->device.device)) {
        return 0;
    }
    const int timeout_ms = broker->is_deaf ? kDeafMs : -1;
    const int found = epoll_wait(broker->epoll.get(), events, kEventsMax, timeout_ms);
    broker->device.awake(broker->device.device);
    AOTX_CHECK(found >= 0 || errno == EINTR);
    if (broker->is_deaf && found <= 0) {
        listen_again(broker, true);
    }
    return found < 0 ? 0 : found;
}

void* broker_thread(void* argument)
{
    Broker* const broker = static_cast<Broker*>(argument);
    epoll_event events[kEventsMax];
    while (!broker->is_stopping.load(std::memory_order_acquire)) {
        const bool any_reply = return_replies(broker);
        int found = 0;
        if (broker->hopeful != 0 && broker->spin_ns != 0) {
            found = spin(broker, events);
        } else if (!any_reply) {
            found = sleep_until_event(broker, events);
        }
        if (found > 0) {
            handle_events(broker, events, found);
        }
    }
    return nullptr;
}

bool prepare(Broker* broker) noexcept
{
    broker->epoll.reset(epoll_create1(EPOLL_CLOEXEC));
    broker->wake.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    broker->control_done.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    broker->reserve.reset(open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!broker->epoll.valid() || !broker->wake.valid() || !broker->control_done.valid() ||
        !broker->reserve.valid()) {
        return false;
    }
    // Edge-triggered: every write of the device is an edge, so nobody needs to read the counter.
    const int reply_fd = broker->device.reply_fd(broker->device.device);
    return watch(broker->epoll, EPOLL_CTL_ADD, broker->wake.get(), EPOLLIN, kTokenWake) &&
           watch(broker->epoll, EPOLL_CTL_ADD, reply_fd, EPOLLIN | EPOLLET, kTokenReply);
}

// A spin only pays when the device can run beside it: on a processor of the process, which the
// calling thread still has whole, or on one that the broker's own thread leaves to it.
bool has_several_cpus(const cpu_set_t* own) noexcept
{
    cpu_set_t all;
    CPU_ZERO(&all);
    if (sched_getaffinity(0, sizeof all, &all) != 0) {
        return false;
    }
    if (own != nullptr) {
        CPU_OR(&all, &all, own);
    }
    return CPU_COUNT(&all) > 1;
}

}  // namespace

int broker_open(const BrokerOptions& options, const BrokerDevice& device, Broker** broker) noexcept
{
    if (options.socket_path.empty() ||
        options.socket_path.size() >= sizeof(sockaddr_un::sun_path) || options.mailboxes < 2 ||
        options.mailboxes > 1024) {
        return AOTX_ERR_RANGE;
    }
    cpu_set_t cpus = {};
    if (!options.cpus.empty() && cpus_parse(options.cpus, &cpus) != AOTX_OK) {
        return AOTX_ERR_RANGE;
    }
    std::unique_ptr<Broker> made = std::make_unique<Broker>();
    made->options = options;
    made->device = device;
    made->ring = device.ring(device.device);
    made->is_placed = !options.cpus.empty();
    made->cpus = cpus;
    made->spin_ns =
        has_several_cpus(made->is_placed ? &cpus : nullptr) ? options.spin_us * kMicrosecondNs : 0;
    made->connections.resize(options.mailboxes);
    made->posted.reserve(options.mailboxes);
    made->free_indices.reserve(options.mailboxes - 1);
    // Low indices are handed out first: their frames are the ones that get touched.
    for (uint32_t index = options.mailboxes - 1; index != AOTX_MAILBOX_CONTROL; index--) {
        made->free_indices.push_back(index);
    }
    AOTX_CHECK(made->ring->channels == options.mailboxes);
    if (!prepare(made.get())) {
        return AOTX_ERR_SYSTEM;
    }
    *broker = made.release();
    return AOTX_OK;
}

int broker_start(Broker* broker) noexcept
{
    AOTX_CHECK(!broker->is_started);
    pthread_attr_t attributes;
    int error = pthread_attr_init(&attributes);
    if (error == 0) {
        if (broker->is_placed) {
            error = pthread_attr_setaffinity_np(&attributes, sizeof broker->cpus, &broker->cpus);
        }
        if (error == 0) {
            error = pthread_create(&broker->thread, &attributes, broker_thread, broker);
        }
        pthread_attr_destroy(&attributes);
    }
    if (error != 0) {
        errno = error;
        return AOTX_ERR_SYSTEM;
    }
    pthread_setname_np(broker->thread, "aotx-broker");
    broker->is_started = true;
    return AOTX_OK;
}

int broker_listen(Broker* broker, std::string* error) noexcept
{
    AOTX_CHECK(broker->is_started && !broker->listener.valid());
    const int status = socket_listen(broker->options.socket_path, &broker->listener, error);
    if (status != AOTX_OK) {
        return status;
    }
    struct stat state = {};
    if (lstat(broker->options.socket_path.c_str(), &state) == 0) {
        broker->socket_device = state.st_dev;
        broker->socket_inode = state.st_ino;
        broker->has_socket = true;
    }
    // The thread sees the listener through the event that this makes possible.
    if (!watch(broker->epoll, EPOLL_CTL_ADD, broker->listener.get(), EPOLLIN, kTokenListener)) {
        *error = broker->options.socket_path + ": cannot watch: " + strerror(errno);
        return AOTX_ERR_SYSTEM;
    }
    return AOTX_OK;
}

int broker_control(Broker* broker, const void* packet, size_t packet_bytes, uint32_t timeout_ms,
                   aotx_reply_head* reply) noexcept
{
    AOTX_CHECK(broker->is_started);
    if (packet_bytes < AOTX_HEAD_BYTES || packet_bytes > AOTX_PACKET_BYTES_MAX) {
        return AOTX_ERR_LENGTH;
    }
    Control& control = broker->control;
    pollfd done = {broker->control_done.get(), POLLIN, 0};
    const int timeout = static_cast<int>(timeout_ms > INT32_MAX ? INT32_MAX : timeout_ms);
    if (control.is_awaited) {
        // An earlier call gave up waiting; its reply must not be taken for this one's.
        if (poll(&done, 1, timeout) != 1) {
            return AOTX_ERR_NEED_MORE;
        }
        drain(broker->control_done);
    }
    std::memcpy(control.packet, packet, packet_bytes);
    control.packet_bytes = packet_bytes;
    control.is_awaited = true;
    control.turn.store(ControlTurn::Given, std::memory_order_release);
    AOTX_CHECK(wake(broker->wake));
    if (poll(&done, 1, timeout) != 1) {
        return AOTX_ERR_NEED_MORE;
    }
    drain(broker->control_done);
    control.is_awaited = false;
    const ControlTurn turn = control.turn.load(std::memory_order_acquire);
    if (turn == ControlTurn::Refused) {
        return AOTX_ERR_CLOSED;
    }
    AOTX_CHECK(turn == ControlTurn::Answered);
    *reply = control.reply;
    return AOTX_OK;
}

void broker_stop(Broker* broker) noexcept
{
    if (!broker->is_started) {
        return;
    }
    broker->is_stopping.store(true, std::memory_order_release);
    AOTX_CHECK(wake(broker->wake));
    pthread_join(broker->thread, nullptr);
    broker->is_started = false;
    broker->listener.reset();
    struct stat state = {};
    const char* const path = broker->options.socket_path.c_str();
    if (broker->has_socket && lstat(path, &state) == 0 && state.st_dev == broker->socket_device &&
        state.st_ino == broker->socket_inode) {
        unlink(path);
    }
    for (Connection& connection : broker->connections) {
        connection.socket.reset();
    }
}

void broker_close(Broker* broker) noexcept
{
    broker_stop(broker);
    delete broker;
}

BrokerCounters broker_counters(const Broker* broker) noexcept
{
    const Counters& from = broker->counters;
    BrokerCounters to = {};
    to.connections_accepted = from.connections_accepted.load(std::memory_order_relaxed);
    to.connections_refused_owner = from.connections_refused_owner.load(std::memory_order_relaxed);
    to.connections_refused_full = from.connections_refused_full.load(std::memory_order_relaxed);
    to.packets = from.packets.load(std::memory_order_relaxed);
    to.replies = from.replies.load(std::memory_order_relaxed);
    to.replies_orphaned = from.replies_orphaned.load(std::memory_order_relaxed);
    to.dropped_short = from.dropped_short.load(std::memory_order_relaxed);
    to.dropped_truncated = from.dropped_truncated.load(std::memory_order_relaxed);
    to.dropped_descriptors = from.dropped_descriptors.load(std::memory_order_relaxed);
    to.dropped_grants = from.dropped_grants.load(std::memory_order_relaxed);
    to.dropped_unread = from.dropped_unread.load(std::memory_order_relaxed);
    return to;
}

}  // namespace aotx
