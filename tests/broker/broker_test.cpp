// Purpose:  the broker against its contract: packets, drops, descriptors, orphans, room, socket.
// Owns:     a directory of its own under the temporary one, a fake device, peers.
// Thread:   main, beside the broker's.
// Lifetime: one run.
#include "service/broker/broker.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "aotx/status.h"
#include "fake_device.h"
#include "service/base/fd.h"

using namespace aotx;

namespace {

// A broker with its device and directory.
class Bench {
public:
    explicit Bench(uint32_t mailboxes, bool echoes = true, uint32_t spin_us = 20)
        : device(mailboxes, echoes)
    {
        char name[] = "/tmp/aotx_broker_XXXXXX";
        REQUIRE(mkdtemp(name) != nullptr);
        directory = name;
        options.socket_path = directory + "/service.sock";
        options.mailboxes = mailboxes;
        options.spin_us = spin_us;
        REQUIRE(broker_open(options, device.face(), &broker) == AOTX_OK);
        REQUIRE(broker_start(broker) == AOTX_OK);
        std::string error;
        REQUIRE(broker_listen(broker, &error) == AOTX_OK);
    }
    ~Bench()
    {
        broker_close(broker);
        CHECK(rmdir(directory.c_str()) == 0);  // empty: the socket went with its broker
    }
    Bench(const Bench&) = delete;
    Bench& operator=(const Bench&) = delete;

    FakeDevice device;
    std::string directory;
    BrokerOptions options;
    Broker* broker = nullptr;
};

Fd connect_to(const std::string& path)
{
    Fd peer(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    REQUIRE(connect(peer.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    return peer;
}

std::vector<uint8_t> packet_of(size_t bytes, uint32_t operation = AOTX_OPERATION_INFORMATION)
{
    std::vector<uint8_t> packet(bytes, 0x5a);
    if (bytes >= 12) {
        std::memcpy(packet.data() + 8, &operation, sizeof operation);
    }
    return packet;
}

bool send_packet(const Fd& peer, const std::vector<uint8_t>& packet)
{
    return send(peer.get(), packet.data(), packet.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(packet.size());
}

// Bytes of the reply, 0 when the broker has closed the connection. Waits for either.
size_t receive_reply(const Fd& peer, std::vector<uint8_t>* reply = nullptr)
{
    std::vector<uint8_t> bytes(AOTX_PACKET_BYTES_MAX + 1);
    const ssize_t got = recv(peer.get(), bytes.data(), bytes.size(), 0);
    if (got <= 0) {
        return 0;
    }
    bytes.resize(static_cast<size_t>(got));
    if (reply != nullptr) {
        *reply = bytes;
    }
    return bytes.size();
}

bool answers(const Fd& peer, size_t bytes = AOTX_HEAD_BYTES)
{
    return send_packet(peer, packet_of(bytes)) && receive_reply(peer) == bytes;
}

// What the kernel says of the processors of this process's thread of that name.
std::string processors_of(const std::string& name)
{
    DIR* const directory = opendir("/proc/self/task");
    std::string found;
    while (const dirent* const entry = readdir(directory)) {
        const std::string task = std::string("/proc/self/task/") + entry->d_name;
        std::string line;
        std::ifstream(task + "/comm") >> line;
        if (line != name) {
            continue;
        }
        std::ifstream status(task + "/status");
        while (std::getline(status, line)) {
            if (line.rfind("Cpus_allowed_list:", 0) == 0) {
                found = line.substr(line.find('\t') + 1);
            }
        }
    }
    closedir(directory);
    return found;
}

size_t open_descriptors()
{
    DIR* const directory = opendir("/proc/self/fd");
    size_t count = 0;
    while (readdir(directory) != nullptr) {
        count++;
    }
    closedir(directory);
    return count;
}

// Send a packet that carries this many descriptors; false when the kernel refuses.
bool send_descriptors(const Fd& peer, size_t descriptors, size_t bytes)
{
    const Fd carried(open("/dev/null", O_RDONLY | O_CLOEXEC));
    std::vector<uint8_t> packet = packet_of(bytes);
    std::vector<int> numbers(descriptors, carried.get());
    std::vector<char> control(CMSG_SPACE(descriptors * sizeof(int)));
    iovec part = {packet.data(), packet.size()};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(descriptors * sizeof(int));
    std::memcpy(CMSG_DATA(rights), numbers.data(), descriptors * sizeof(int));
    return sendmsg(peer.get(), &message, MSG_NOSIGNAL) >= 0;
}

// A connection that is refused for want of room sees its end; retry until one is answered.
Fd connect_answered(const std::string& path)
{
    for (;;) {
        Fd peer = connect_to(path);
        if (answers(peer)) {
            return peer;
        }
    }
}

}  // namespace

TEST_CASE("the broker's thread runs where it is told to, or does not start")
{
    cpu_set_t here;
    REQUIRE(sched_getaffinity(0, sizeof here, &here) == 0);
    unsigned first = 0;
    while (!CPU_ISSET(first, &here)) {
        first++;
    }
    FakeDevice device(8, true);
    BrokerOptions options;
    options.socket_path = "/tmp/aotx_broker_unused.sock";
    options.mailboxes = 8;
    Broker* broker = nullptr;
    options.cpus = "no";
    CHECK(broker_open(options, device.face(), &broker) == AOTX_ERR_RANGE);
    options.cpus = "1023";
    REQUIRE(broker_open(options, device.face(), &broker) == AOTX_OK);
    errno = 0;
    CHECK(broker_start(broker) == AOTX_ERR_SYSTEM);
    CHECK(errno == EINVAL);
    broker_close(broker);

    options.cpus = std::to_string(first);
    REQUIRE(broker_open(options, device.face(), &broker) == AOTX_OK);
    REQUIRE(broker_start(broker) == AOTX_OK);
    CHECK(processors_of("aotx-broker") == options.cpus);
    broker_close(broker);
}

TEST_CASE("packets of every allowed size come back whole")
{
    for (const uint32_t spin_us : {0u, 20u}) {
        Bench bench(8, true, spin_us);
        const Fd peer = connect_to(bench.options.socket_path);
        for (const size_t bytes : {128u, 129u, 4096u, 65535u, 65536u}) {
            std::vector<uint8_t> reply;
            REQUIRE(send_packet(peer, packet_of(bytes)));
            REQUIRE(receive_reply(peer, &reply) == bytes);
            std::vector<uint8_t> wanted = packet_of(bytes);
            const uint32_t status = AOTX_STATUS_OK;
            std::memcpy(wanted.data() + 8, &status, sizeof status);
            CHECK(reply == wanted);
        }
        CHECK(bench.device.posts() == 5);
    }
}

TEST_CASE("the socket is its owner's alone")
{
    Bench bench(8);
    struct stat state = {};
    REQUIRE(stat(bench.options.socket_path.c_str(), &state) == 0);
    CHECK(S_ISSOCK(state.st_mode));
    CHECK((state.st_mode & 07777) == 0600);
    CHECK(state.st_uid == geteuid());
}

TEST_CASE("a packet that breaks the rules costs its peer the connection, and nobody else's")
{
    Bench bench(8);
    const Fd other = connect_to(bench.options.socket_path);
    REQUIRE(answers(other));
    const uint64_t posts = bench.device.posts();
    const struct {
        const char* name;
        size_t bytes;
        uint32_t operation;
    } rows[] = {{"no byte", 0, 0},
                {"one byte", 1, 0},
                {"a head less one", 127, AOTX_OPERATION_INFORMATION},
                {"one byte too many", 65537, AOTX_OPERATION_INFORMATION},
                {"far too long", 150000, AOTX_OPERATION_INFORMATION},
                {"grants", 192, AOTX_OPERATION_GRANTS}};
    for (const auto& row : rows) {
        INFO(row.name);
        const Fd peer = connect_to(bench.options.socket_path);
        REQUIRE(send_packet(peer, packet_of(row.bytes, row.operation)));
        CHECK(receive_reply(peer) == 0);
        CHECK(bench.device.posts() == posts);
    }
    CHECK(answers(other));
    const BrokerCounters counters = broker_counters(bench.broker);
    CHECK(counters.dropped_short == 3);
    CHECK(counters.dropped_truncated == 2);
    CHECK(counters.dropped_grants == 1);
}

TEST_CASE("lengths in a head are the device's business, as are unknown operations")
{
    Bench bench(8);
    const Fd peer = connect_to(bench.options.socket_path);
    for (const uint32_t operation : {0u, 2u, 13u, 14u, 0xffffffffu}) {
        REQUIRE(send_packet(peer, packet_of(200, operation)));
        CHECK(receive_reply(peer) == 200);
    }
}

TEST_CASE("the end of a connection is no empty packet")
{
    Bench bench(8);
    for (int round = 0; round < 50; round++) {
        const Fd peer = connect_to(bench.options.socket_path);
        REQUIRE(answers(peer));
    }
    const Fd last = connect_answered(bench.options.socket_path);
    CHECK(broker_counters(bench.broker).dropped_short == 0);
}

TEST_CASE("descriptors that come with a packet are closed, whatever their number")
{
    Bench bench(8);
    const Fd other = connect_to(bench.options.socket_path);
    REQUIRE(answers(other));
    const size_t before = open_descriptors();
    for (const size_t descriptors : {1u, 2u, 3u, 16u, 253u}) {
        for (const size_t bytes : {1u, 128u, 65537u}) {
            INFO(descriptors << " descriptors, " << bytes << " bytes");
            const Fd peer = connect_answered(bench.options.socket_path);
            REQUIRE(send_descriptors(peer, descriptors, bytes));
            CHECK(receive_reply(peer) == 0);
        }
    }
    REQUIRE(answers(other));
    CHECK(open_descriptors() == before);
    CHECK(broker_counters(bench.broker).dropped_descriptors == 15);
}

TEST_CASE("a thousand packets with descriptors leave none behind, also under a low limit")
{
    Bench bench(8);
    const Fd other = connect_to(bench.options.socket_path);
    REQUIRE(answers(other));
    const size_t before = open_descriptors();
    rlimit kept = {};
    REQUIRE(getrlimit(RLIMIT_NOFILE, &kept) == 0);
    for (int round = 0; round < 1000; round++) {
        if (round == 500) {
            // Room for a peer and its descriptor here, hardly any for what arrives.
            const rlimit low = {before + 5, kept.rlim_max};
            REQUIRE(setrlimit(RLIMIT_NOFILE, &low) == 0);
        }
        const Fd peer = connect_answered(bench.options.socket_path);
        REQUIRE(send_descriptors(peer, 1 + static_cast<size_t>(round) % 3, 128));
        REQUIRE(receive_reply(peer) == 0);
    }
    REQUIRE(setrlimit(RLIMIT_NOFILE, &kept) == 0);
    REQUIRE(answers(other));
    CHECK(open_descriptors() == before);
}

TEST_CASE("without descriptors a peer is refused and the broker goes on")
{
    Bench bench(8);
    const Fd other = connect_to(bench.options.socket_path);
    REQUIRE(answers(other));
    rlimit kept = {};
    REQUIRE(getrlimit(RLIMIT_NOFILE, &kept) == 0);
    Fd late(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    const int lowest_free = dup(0);
    close(lowest_free);
    const rlimit none = {static_cast<rlim_t>(lowest_free), kept.rlim_max};
    REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    bench.options.socket_path.copy(address.sun_path, sizeof address.sun_path - 1);
    CHECK(connect(late.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    CHECK(receive_reply(late) == 0);
    CHECK(answers(other));
    REQUIRE(setrlimit(RLIMIT_NOFILE, &kept) == 0);
    const Fd again = connect_answered(bench.options.socket_path);
    CHECK(broker_counters(bench.broker).connections_refused_full >= 1);
}

TEST_CASE("without even its reserve the broker waits for better times, and does not spin")
{
    Bench bench(8);
    const Fd other = connect_to(bench.options.socket_path);
    REQUIRE(answers(other));
    rlimit kept = {};
    REQUIRE(getrlimit(RLIMIT_NOFILE, &kept) == 0);
    const Fd late(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    const rlimit none = {3, kept.rlim_max};
    REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    bench.options.socket_path.copy(address.sun_path, sizeof address.sun_path - 1);
    CHECK(connect(late.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    CHECK(answers(other));
    REQUIRE(setrlimit(RLIMIT_NOFILE, &kept) == 0);
    CHECK(answers(late));
}

TEST_CASE("one connection holds one mailbox, and a full ring refuses")
{
    Bench bench(4);
    std::vector<Fd> peers;
    for (int i = 0; i < 3; i++) {
        peers.push_back(connect_to(bench.options.socket_path));
        REQUIRE(answers(peers.back()));
    }
    const Fd refused = connect_to(bench.options.socket_path);
    CHECK(receive_reply(refused) == 0);
    peers.pop_back();
    const Fd fourth = connect_answered(bench.options.socket_path);
    for (const Fd& peer : peers) {
        CHECK(answers(peer));
    }
}

TEST_CASE("a mailbox whose peer has left stays taken until its reply came, which reaches nobody")
{
    Bench bench(2, false);
    Fd leaver = connect_to(bench.options.socket_path);
    REQUIRE(send_packet(leaver, packet_of(200)));
    const uint32_t index = bench.device.wait_request();
    leaver.reset();

    // The only mailbox is an orphan: every newcomer is refused.
    for (int round = 0; round < 20; round++) {
        const Fd refused = connect_to(bench.options.socket_path);
        CHECK(receive_reply(refused) == 0);
    }
    bench.device.reply(index, 299);

    // The next peer gets the mailbox and its own reply, not the old one.
    std::vector<uint8_t> reply;
    for (bool is_done = false; !is_done;) {
        const Fd peer = connect_to(bench.options.socket_path);
        if (!send_packet(peer, packet_of(300))) {
            continue;
        }
        pollfd wait = {peer.get(), POLLIN, 0};
        if (bench.device.posts() < 2) {
            poll(&wait, 1, 50);
        }
        if (bench.device.posts() == 2) {
            CHECK(bench.device.wait_request() == index);
            bench.device.reply(index, 200);
            REQUIRE(receive_reply(peer, &reply) == 300);
            is_done = true;
        }
    }
    uint32_t status = 0;
    std::memcpy(&status, reply.data() + 8, sizeof status);
    CHECK(status == 200);
    CHECK(broker_counters(bench.broker).replies_orphaned == 1);
}

TEST_CASE("a peer that only stops sending still gets its reply")
{
    Bench bench(4, false);
    const Fd peer = connect_to(bench.options.socket_path);
    REQUIRE(send_packet(peer, packet_of(128)));
    const uint32_t index = bench.device.wait_request();
    REQUIRE(shutdown(peer.get(), SHUT_WR) == 0);
    bench.device.reply(index, 200);
    CHECK(receive_reply(peer) == 128);
    CHECK(receive_reply(peer) == 0);
}

TEST_CASE("a packet that comes early waits for the reply before it, and packets keep their order")
{
    Bench bench(4, false);
    const Fd peer = connect_to(bench.options.socket_path);
    REQUIRE(send_packet(peer, packet_of(128)));
    const uint32_t index = bench.device.wait_request();
    REQUIRE(send_packet(peer, packet_of(129)));
    REQUIRE(send_packet(peer, packet_of(130)));
    // Another connection is served meanwhile.
    const Fd other = connect_to(bench.options.socket_path);
    REQUIRE(send_packet(other, packet_of(200)));
    bench.device.reply(bench.device.wait_request(), 200);
    CHECK(receive_reply(other) == 200);
    CHECK(bench.device.posts() == 2);
    for (const size_t bytes : {128u, 129u, 130u}) {
        bench.device.reply(index, 200);
        CHECK(receive_reply(peer) == bytes);
        if (bytes != 130) {
            CHECK(bench.device.wait_request() == index);
        }
    }
}

TEST_CASE("a peer that reads no replies loses its connection")
{
    Bench bench(4);
    const Fd peer = connect_to(bench.options.socket_path);
    const timeval patience = {10, 0};
    REQUIRE(setsockopt(peer.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) == 0);
    bool is_dropped = false;
    for (int i = 0; i < 100 && !is_dropped; i++) {
        is_dropped = !send_packet(peer, packet_of(65536));
    }
    CHECK(is_dropped);
    CHECK(broker_counters(bench.broker).dropped_unread == 1);
}

TEST_CASE("a burst of packets rings once")
{
    for (const uint32_t spin_us : {0u, 20u}) {
        Bench bench(64, false, spin_us);
        std::vector<Fd> peers;
        for (int i = 0; i < 63; i++) {
            peers.push_back(connect_to(bench.options.socket_path));
        }
        std::unique_lock<std::mutex> held = bench.device.hold();
        for (const Fd& peer : peers) {
            REQUIRE(send_packet(peer, packet_of(128)));
        }
        held.unlock();
        for (size_t i = 0; i < peers.size(); i++) {
            bench.device.reply(bench.device.wait_request(), 200);
        }
        for (const Fd& peer : peers) {
            CHECK(receive_reply(peer) == 128);
        }
        CHECK(bench.device.posts() == 63);
        // The first packet may have woken the broker before the others came.
        CHECK(bench.device.doorbells() <= 2);
    }
}

TEST_CASE("control packets travel beside the connections")
{
    Bench bench(2);
    const std::vector<uint8_t> packet = packet_of(192, AOTX_OPERATION_GRANTS);
    aotx_reply_head reply = {};
    for (int round = 0; round < 100; round++) {
        REQUIRE(broker_control(bench.broker, packet.data(), packet.size(), 60000, &reply) ==
                AOTX_OK);
        CHECK(reply.status == 200);
    }
    CHECK(broker_control(bench.broker, packet.data(), 127, 1, &reply) == AOTX_ERR_LENGTH);
    CHECK(broker_control(bench.broker, packet.data(), 65537, 1, &reply) == AOTX_ERR_LENGTH);
    bench.device.close_ring();
    CHECK(broker_control(bench.broker, packet.data(), packet.size(), 60000, &reply) ==
          AOTX_ERR_CLOSED);
}

TEST_CASE("a closed device takes no packet")
{
    Bench bench(4);
    const Fd peer = connect_to(bench.options.socket_path);
    REQUIRE(answers(peer));
    bench.device.close_ring();
    REQUIRE(send_packet(peer, packet_of(128)));
    CHECK(receive_reply(peer) == 0);
    CHECK(bench.device.posts() == 1);
}

TEST_CASE("the socket's path: what is there already decides")
{
    FakeDevice device(4);
    char directory[] = "/tmp/aotx_path_XXXXXX";
    REQUIRE(mkdtemp(directory) != nullptr);
    BrokerOptions options;
    options.mailboxes = 4;
    options.socket_path = std::string(directory) + "/s";
    std::string error;

    SECTION("a socket that nobody serves is replaced")
    {
        {
            const Fd stale(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
            sockaddr_un address = {};
            address.sun_family = AF_UNIX;
            options.socket_path.copy(address.sun_path, sizeof address.sun_path - 1);
            REQUIRE(bind(stale.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
        }
        Broker* broker = nullptr;
        REQUIRE(broker_open(options, device.face(), &broker) == AOTX_OK);
        REQUIRE(broker_start(broker) == AOTX_OK);
        CHECK(broker_listen(broker, &error) == AOTX_OK);
        CHECK(answers(connect_to(options.socket_path)));
        broker_close(broker);
    }
    SECTION("a socket that another serves is left alone")
    {
        FakeDevice device_other(4);
        Broker* first = nullptr;
        Broker* second = nullptr;
        REQUIRE(broker_open(options, device.face(), &first) == AOTX_OK);
        REQUIRE(broker_start(first) == AOTX_OK);
        REQUIRE(broker_listen(first, &error) == AOTX_OK);
        REQUIRE(broker_open(options, device_other.face(), &second) == AOTX_OK);
        REQUIRE(broker_start(second) == AOTX_OK);
        CHECK(broker_listen(second, &error) == AOTX_ERR_STATE);
        broker_close(second);
        CHECK(answers(connect_to(options.socket_path)));
        broker_close(first);
    }
    SECTION("a file that is no socket is never removed")
    {
        const Fd file(open(options.socket_path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
        Broker* broker = nullptr;
        REQUIRE(broker_open(options, device.face(), &broker) == AOTX_OK);
        REQUIRE(broker_start(broker) == AOTX_OK);
        CHECK(broker_listen(broker, &error) == AOTX_ERR_STATE);
        broker_close(broker);
        CHECK(unlink(options.socket_path.c_str()) == 0);
    }
    SECTION("a path that is too long is refused before anything is made")
    {
        Broker* broker = nullptr;
        options.socket_path = "/" + std::string(107, 'x');
        CHECK(broker_open(options, device.face(), &broker) == AOTX_ERR_RANGE);
        options.socket_path.clear();
        CHECK(broker_open(options, device.face(), &broker) == AOTX_ERR_RANGE);
        CHECK(broker == nullptr);
    }
    CHECK(rmdir(directory) == 0);
}

TEST_CASE("another user's connection is closed at once")
{
    if (geteuid() != 0) {
        WARN("needs root to become another user; skipped");
        return;
    }
    Bench bench(4);
    // The mode keeps others out already; open it up so that the credentials alone decide.
    REQUIRE(chmod(bench.directory.c_str(), 0755) == 0);
    REQUIRE(chmod(bench.options.socket_path.c_str(), 0666) == 0);
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    bench.options.socket_path.copy(address.sun_path, sizeof address.sun_path - 1);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        char byte = 0;
        const int peer = setuid(65534) == 0 ? socket(AF_UNIX, SOCK_SEQPACKET, 0) : -1;
        const bool is_connected =
            connect(peer, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
        _exit(is_connected && recv(peer, &byte, 1, 0) <= 0 ? 0 : 1);
    }
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    CHECK(broker_counters(bench.broker).connections_refused_owner == 1);
    CHECK(bench.device.posts() == 0);
    CHECK(answers(connect_to(bench.options.socket_path)));
}

TEST_CASE("an idle broker uses no processor time")
{
    Bench bench(8);
    const Fd peer = connect_to(bench.options.socket_path);
    REQUIRE(answers(peer));
    // The thread's own clock: between two looks it may not run at all, once it has gone to sleep.
    poll(nullptr, 0, 100);
    rusage before = {};
    rusage after = {};
    getrusage(RUSAGE_SELF, &before);
    poll(nullptr, 0, 300);
    getrusage(RUSAGE_SELF, &after);
    CHECK(after.ru_nvcsw + after.ru_nivcsw - before.ru_nvcsw - before.ru_nivcsw <= 5);
}

TEST_CASE("many peers at once, coming and going, each get their own bytes")
{
    Bench bench(16);
    std::vector<std::thread> threads;
    std::atomic<uint32_t> wrong = 0;
    for (uint32_t number = 0; number < 8; number++) {
        threads.emplace_back([&bench, &wrong, number] {
            for (uint32_t round = 0; round < 300; round++) {
                sockaddr_un address = {};
                address.sun_family = AF_UNIX;
                bench.options.socket_path.copy(address.sun_path, sizeof address.sun_path - 1);
                const Fd peer(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
                if (connect(peer.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) !=
                    0) {
                    continue;
                }
                std::vector<uint8_t> packet(128 + round, static_cast<uint8_t>(number));
                for (int turn = 0; turn < 3; turn++) {
                    const bool leaves = round % 3 == 2 && turn == 2;
                    if (!send_packet(peer, packet) || leaves) {
                        break;
                    }
                    std::vector<uint8_t> reply;
                    const size_t got = receive_reply(peer, &reply);
                    wrong += got != 0 && (got != packet.size() || reply.back() != number) ? 1 : 0;
                }
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    CHECK(wrong == 0);
    CHECK(answers(connect_answered(bench.options.socket_path)));
}
