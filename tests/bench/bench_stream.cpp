// Purpose:  chat completions from many clients at once, streamed or plain: time to the first
//           token, time a token, tokens a second over all clients.
// Owns:     its connections.
// Thread:   one, on epoll, so that the client costs the two cores little.
// Lifetime: one run.
//
// usage: bench_stream PORT TOKEN MODEL CLIENTS TOKENS REQUESTS stream|plain [PROMPT_WORDS]
// Prints one line of JSON. Each client keeps its connection and starts its next request when the
// last one ends.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

double milliseconds(Clock::time_point begin, Clock::time_point end)
{
    return std::chrono::duration<double, std::milli>(end - begin).count();
}

struct Options {
    int port, clients, tokens, requests, prompt_words;
    std::string token, model;
    bool stream;
};

struct Client {
    int fd = -1;
    std::string in;
    Clock::time_point begin, first;
    bool has_first = false;
};

struct Totals {
    std::vector<double> first_ms, total_ms, token_ms;
    long tokens = 0;
    long prompt_tokens = 0;  // of the last plain answer
    int started = 0, done = 0, failed = 0;
};

int client_connect(int port)
{
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
        perror("connect");
        exit(1);
    }
    const int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

// A prompt that differs for each request, so that no cache of prompts can answer it.
std::string request_make(const Options& options, int number)
{
    std::string prompt = "Request " + std::to_string(number) + ": count";
    for (int i = 0; i < options.prompt_words; i++) {
        prompt += " " + std::to_string((number * 7919 + i * 104729) % 997);
    }
    const std::string body =
        "{\"model\":\"" + options.model +
        "\",\"temperature\":0,\"max_tokens\":" + std::to_string(options.tokens) +
        (options.stream ? ",\"stream\":true" : "") +
        ",\"messages\":[{\"role\":\"user\",\"content\":\"" + prompt + "\"}]}";
    return "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(options.port) +
           "\r\nAuthorization: Bearer " + options.token +
           "\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
           "\r\n\r\n" + body;
}

void request_start(const Options& options, Client* client, Totals* totals)
{
    const std::string request = request_make(options, totals->started++);
    client->in.clear();
    client->has_first = false;
    client->begin = Clock::now();
    if (send(client->fd, request.data(), request.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(request.size())) {
        perror("send");
        exit(1);
    }
}

bool answer_is_whole(const Options& options, const std::string& in)
{
    const size_t head = in.find("\r\n\r\n");
    if (head == std::string::npos) {
        return false;
    }
    if (options.stream && in.compare(0, 12, "HTTP/1.1 200") == 0) {
        // Only its end is looked at: searching all of a long answer at each token would make this
        // client the slowest part of what it measures.
        constexpr std::string_view kEnd = "data: [DONE]\n\n\r\n0\r\n\r\n";
        return in.size() > kEnd.size() &&
               in.compare(in.size() - kEnd.size(), kEnd.size(), kEnd) == 0;
    }
    const size_t length = in.find("Content-Length: ");
    return length != std::string::npos &&
           in.size() >= head + 4 + strtoul(in.c_str() + length + 16, nullptr, 10);
}

// Tokens of an answer: the usage of a plain one, the asked-for number of a streamed one that ran
// to its limit.
long answer_tokens(const Options& options, const std::string& in)
{
    const size_t usage = in.find("\"completion_tokens\":");
    if (usage != std::string::npos) {
        return strtol(in.c_str() + usage + 20, nullptr, 10);
    }
    if (in.find("\"finish_reason\":\"length\"") != std::string::npos) {
        return options.tokens;
    }
    long events = 0;
    for (size_t at = in.find("\"delta\":{\"content\""); at != std::string::npos;
         at = in.find("\"delta\":{\"content\"", at + 1)) {
        events++;
    }
    return events;
}

void answer_count(const Options& options, const Client& client, Totals* totals)
{
    totals->done++;
    if (client.in.compare(0, 12, "HTTP/1.1 200") != 0) {
        totals->failed++;
        fprintf(stderr, "%.*s\n", 300, client.in.c_str());
        return;
    }
    const Clock::time_point end = Clock::now();
    const long tokens = answer_tokens(options, client.in);
    totals->tokens += tokens;
    const size_t prompt = client.in.find("\"prompt_tokens\":");
    if (prompt != std::string::npos) {
        totals->prompt_tokens = strtol(client.in.c_str() + prompt + 16, nullptr, 10);
    }
    totals->total_ms.push_back(milliseconds(client.begin, end));
    if (client.has_first) {
        totals->first_ms.push_back(milliseconds(client.begin, client.first));
        if (tokens > 1) {
            totals->token_ms.push_back(milliseconds(client.first, end) /
                                       static_cast<double>(tokens - 1));
        }
    }
}

bool client_read(const Options& options, Client* client)
{
    char buffer[65536];
    const ssize_t got = recv(client->fd, buffer, sizeof buffer, 0);
    if (got <= 0) {
        fprintf(stderr, "connection closed early\n");
        exit(1);
    }
    client->in.append(buffer, static_cast<size_t>(got));
    if (!client->has_first && client->in.find("\"delta\":{\"content\":\"") != std::string::npos) {
        client->has_first = true;
        client->first = Clock::now();
    }
    return answer_is_whole(options, client->in);
}

double percentile(std::vector<double> values, double part)
{
    if (values.empty()) {
        return 0;
    }
    std::sort(values.begin(), values.end());
    return values[static_cast<size_t>(part * static_cast<double>(values.size() - 1))];
}

void run(const Options& options, Totals* totals)
{
    std::vector<Client> clients(static_cast<size_t>(options.clients));
    const int epoll = epoll_create1(EPOLL_CLOEXEC);
    for (size_t i = 0; i < clients.size(); i++) {
        clients[i].fd = client_connect(options.port);
        epoll_event event = {};
        event.events = EPOLLIN;
        event.data.u64 = i;
        epoll_ctl(epoll, EPOLL_CTL_ADD, clients[i].fd, &event);
        if (totals->started < options.requests) {
            request_start(options, &clients[i], totals);
        }
    }
    epoll_event events[256];
    while (totals->done < options.requests) {
        const int ready = epoll_wait(epoll, events, 256, 60000);
        if (ready == 0) {
            fprintf(stderr, "nothing in 60 s\n");
            exit(1);
        }
        for (int i = 0; i < ready; i++) {
            Client* client = &clients[events[i].data.u64];
            if (!client_read(options, client)) {
                continue;
            }
            answer_count(options, *client, totals);
            if (totals->started < options.requests) {
                request_start(options, client, totals);
            }
        }
    }
}

}  // namespace

int main(int argc, char** argv)
{
    if (argc < 8) {
        fprintf(
            stderr,
            "usage: bench_stream PORT TOKEN MODEL CLIENTS TOKENS REQUESTS stream|plain [WORDS]\n");
        return 2;
    }
    const Options options = {atoi(argv[1]),
                             atoi(argv[4]),
                             atoi(argv[5]),
                             atoi(argv[6]),
                             argc > 8 ? atoi(argv[8]) : 20,
                             argv[2],
                             argv[3],
                             strcmp(argv[7], "stream") == 0};
    Totals totals;
    const Clock::time_point begin = Clock::now();
    run(options, &totals);
    const double seconds = milliseconds(begin, Clock::now()) / 1000;
    printf(
        "{\"clients\":%d,\"mode\":\"%s\",\"requests\":%d,\"failed\":%d,\"tokens\":%ld,\"tokens_per_"
        "second\":%.1f,"
        "\"first_ms_p50\":%.3f,\"first_ms_p99\":%.3f,\"total_ms_p50\":%.3f,\"token_ms_p50\":%.4f,"
        "\"prompt_tokens\":%ld}\n",
        options.clients, argv[7], totals.done, totals.failed, totals.tokens,
        static_cast<double>(totals.tokens) / seconds, percentile(totals.first_ms, 0.5),
        percentile(totals.first_ms, 0.99), percentile(totals.total_ms, 0.5),
        percentile(totals.token_ms, 0.5), totals.prompt_tokens);
    return totals.failed == 0 ? 0 : 1;
}
