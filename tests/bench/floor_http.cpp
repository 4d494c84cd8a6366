// Purpose:  the floor that HTTP benchmarks divide by: a one-thread epoll server which answers
//           every request head with the same 200 bytes of JSON, and nothing else.
// Owns:     its listener and its connections.
// Thread:   one.
// Lifetime: until killed.
//
// usage: floor_http PORT
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

std::string response_make()
{
    std::string body = "{\"object\":\"floor\",\"pad\":\"";
    body.append(200 - body.size() - 2, 'x');
    body += "\"}";
    return "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 200\r\n\r\n" +
           body;
}

int listener_open(int port)
{
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const int one = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
        listen(fd, 1024) != 0) {
        perror("floor_http");
        exit(1);
    }
    return fd;
}

void watch(int epoll, int fd)
{
    epoll_event event = {};
    event.events = EPOLLIN;
    event.data.fd = fd;
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

// A head that arrives in parts is not the floor's business: the benchmark client sends whole heads.
void serve(int fd, const std::string& response)
{
    char in[4096];
    const ssize_t got = recv(fd, in, sizeof in, 0);
    if (got <= 0) {
        close(fd);
        return;
    }
    if (send(fd, response.data(), response.size(), MSG_NOSIGNAL) < 0) {
        close(fd);
    }
}

}  // namespace

int main(int argc, char** argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: floor_http PORT\n");
        return 2;
    }
    const std::string response = response_make();
    const int listener = listener_open(atoi(argv[1]));
    const int epoll = epoll_create1(EPOLL_CLOEXEC);
    watch(epoll, listener);
    epoll_event events[256];
    for (;;) {
        const int ready = epoll_wait(epoll, events, 256, -1);
        for (int i = 0; i < ready; i++) {
            if (events[i].data.fd != listener) {
                serve(events[i].data.fd, response);
                continue;
            }
            const int fd = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
            if (fd >= 0) {
                const int one = 1;
                setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
                watch(epoll, fd);
            }
        }
    }
}
