// Purpose:  one operation through service.sock against a bare SEQPACKET echo of the same sizes,
//           round by round in one run, so that the ratio holds when the machine's speed drifts.
// Owns:     the echo process, and both sockets.
// Thread:   one client thread; the echo is a process of its own, as the service is.
// Lifetime: one run, some seconds.
//
// usage: bench_operation SERVICE_SOCKET GRANT_FILE ROUNDS CLIENT_CPU ECHO_CPU
// Both peers must run where the service does, or the ratio compares placements and not programs; a
// CPU of -1 leaves the choice to the kernel.
#include <sched.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "aotx/packet.h"
#include "aotx/status.h"

namespace {

using Clock = std::chrono::steady_clock;

struct Spread {
    double p50_us;
    double p99_us;
};

int socket_connect(const char* path)
{
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    strncpy(address.sun_path, path, sizeof address.sun_path - 1);
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
        perror(path);
        exit(1);
    }
    return fd;
}

void place(int cpu)
{
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    if (cpu < 0) {
        return;
    }
    CPU_SET(static_cast<unsigned>(cpu), &cpus);
    if (sched_setaffinity(0, sizeof cpus, &cpus) != 0) {
        perror("sched_setaffinity");
        exit(1);
    }
}

// The bare echo: a blocking receive, a send of the reply's size.
pid_t echo_start(int fd, size_t reply_bytes, int cpu)
{
    const pid_t child = fork();
    if (child != 0) {
        return child;
    }
    place(cpu);
    std::vector<char> frame(65536);
    while (recv(fd, frame.data(), frame.size(), 0) > 0) {
        send(fd, frame.data(), reply_bytes, MSG_NOSIGNAL);
    }
    _exit(0);
}

aotx_request_head request_make(const char* grant_path)
{
    std::ifstream in(grant_path, std::ios::binary);
    aotx_request_head grants = {};
    aotx_grant_row row = {};
    in.read(reinterpret_cast<char*>(&grants), sizeof grants);
    in.read(reinterpret_cast<char*>(&row), sizeof row);
    if (!in || grants.magic != AOTX_MAGIC) {
        fprintf(stderr, "%s: not a grant file\n", grant_path);
        exit(1);
    }
    aotx_request_head head = {};
    head.magic = AOTX_MAGIC;
    head.operation = AOTX_OPERATION_INFORMATION;
    memcpy(head.principal, row.principal, sizeof head.principal);
    head.grant_revision = row.revision;
    return head;
}

ssize_t exchange(int fd, const aotx_request_head& head, std::vector<char>* frame)
{
    send(fd, &head, sizeof head, MSG_NOSIGNAL);
    return recv(fd, frame->data(), frame->size(), 0);
}

Spread round_run(int fd, const aotx_request_head& head, int operations, std::vector<char>* frame)
{
    std::vector<double> times;
    times.reserve(static_cast<size_t>(operations));
    for (int i = 0; i < operations; i++) {
        const Clock::time_point begin = Clock::now();
        if (exchange(fd, head, frame) <= 0) {
            fprintf(stderr, "the peer closed\n");
            exit(1);
        }
        times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
    }
    std::sort(times.begin(), times.end());
    return {times[times.size() / 2], times[times.size() * 99 / 100]};
}

double median(std::vector<double> values)
{
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv)
{
    if (argc != 6) {
        fprintf(stderr,
                "usage: bench_operation SERVICE_SOCKET GRANT_FILE ROUNDS CLIENT_CPU ECHO_CPU\n");
        return 2;
    }
    const int rounds = atoi(argv[3]);
    const int operations = 2000;
    const aotx_request_head head = request_make(argv[2]);
    std::vector<char> frame(65536);

    const int service = socket_connect(argv[1]);
    const ssize_t reply_bytes = exchange(service, head, &frame);
    aotx_reply_head reply = {};
    memcpy(&reply, frame.data(), sizeof reply);
    if (reply_bytes < static_cast<ssize_t>(sizeof reply) || reply.status != AOTX_STATUS_OK) {
        fprintf(stderr, "information answered %u\n", reply.status);
        return 1;
    }
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        perror("socketpair");
        return 1;
    }
    const pid_t echo = echo_start(pair[1], static_cast<size_t>(reply_bytes), atoi(argv[5]));
    place(atoi(argv[4]));
    close(pair[1]);

    std::vector<double> floor_us, service_us, ratio, ratio_p99;
    for (int i = 0; i < rounds; i++) {
        const Spread bare = round_run(pair[0], head, operations, &frame);
        const Spread full = round_run(service, head, operations, &frame);
        floor_us.push_back(bare.p50_us);
        service_us.push_back(full.p50_us);
        ratio.push_back(full.p50_us / bare.p50_us);
        ratio_p99.push_back(full.p99_us / bare.p99_us);
        printf(
            "round %d: echo p50 %.1f us p99 %.1f us, service p50 %.1f us p99 %.1f us, ratio %.2f\n",
            i, bare.p50_us, bare.p99_us, full.p50_us, full.p99_us, ratio.back());
    }
    printf(
        "median of %d rounds: echo p50 %.1f us, service p50 %.1f us, ratio p50 %.2f, ratio p99 "
        "%.2f\n",
        rounds, median(floor_us), median(service_us), median(ratio), median(ratio_p99));
    kill(echo, SIGTERM);
    return 0;
}
