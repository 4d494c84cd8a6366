// Purpose:  a gateway on a free port with a fake device behind it, and a plain client to ask it.
// Owns:     a scratch folder, the server's thread, the device.
// Thread:   the test's; the server and the device have their own.
// Lifetime: one test case each.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "aotx/handle.h"
#include "fake_device.h"
#include "service/base/digest.h"
#include "service/gateway/server.h"

constexpr uint64_t kEpoch = 0x0123456789abcdef;
inline const std::string kTokenOne = "token-one-0123456789-0123456789-abcdef";
inline const std::string kTokenTwo = "token-two-0123456789-0123456789-abcdef";
inline const std::string kTokenBare = "token-bare-0123456789-0123456789-abcde";  // infer only
constexpr uint32_t kActionsAll = AOTX_ACTION_MASK_ALL;

struct Answer {
    int status = 0;
    std::string head;
    std::string body;  // chunks joined
    bool closed = false;

    std::string header(const std::string& name) const
    {
        const size_t at = head.find("\r\n" + name + ": ");
        if (at == std::string::npos) {
            return {};
        }
        const size_t value = at + name.size() + 4;
        return head.substr(value, head.find("\r\n", value) - value);
    }
};

class Client {
public:
    explicit Client(uint16_t port)
    {
        fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_in address = {};
        address.sin_family = AF_INET;
        address.sin_port = htons(port);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        const int yes = 1;
        setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        connected_ = connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    }
    ~Client() { close(); }
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;

    bool connected() const { return connected_; }
    int fd() const { return fd_; }
    void close()
    {
        if (fd_ >= 0) {
            ::close(fd_);
            fd_ = -1;
        }
    }
    void reset()
    {
        const linger hard = {1, 0};
        setsockopt(fd_, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
        close();
    }
    void finish_sending() { shutdown(fd_, SHUT_WR); }

    void send(const std::string& bytes)
    {
        size_t at = 0;
        while (at < bytes.size()) {
            const ssize_t sent = ::send(fd_, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
            if (sent <= 0) {
                return;
            }
            at += static_cast<size_t>(sent);
        }
    }

    // More bytes into the buffer. False: the peer closed, or nothing came in time.
    bool fill(int timeout_ms = 10000)
    {
        pollfd item = {fd_, POLLIN, 0};
        if (poll(&item, 1, timeout_ms) <= 0) {
            return false;
        }
        char bytes[65536];
        const ssize_t got = recv(fd_, bytes, sizeof bytes, 0);
        if (got <= 0) {
            closed_ = true;
            return false;
        }
        in_.append(bytes, static_cast<size_t>(got));
        return true;
    }
    // Wait until the text stands in what has arrived and not been taken.
    bool wait_for(const std::string& text)
    {
        while (in_.find(text) == std::string::npos) {
            if (!fill()) {
                return false;
            }
        }
        return true;
    }
    const std::string& pending() const { return in_; }
    std::string take_pending()
    {
        std::string taken;
        taken.swap(in_);
        return taken;
    }
    // Whether the peer closes with nothing more to say.
    bool closes()
    {
        while (fill()) {
        }
        return closed_ && in_.empty();
    }

    // One whole answer.
    Answer read()
    {
        Answer answer;
        while (in_.find("\r\n\r\n") == std::string::npos) {
            if (!fill()) {
                answer.closed = true;
                return answer;
            }
        }
        const size_t end = in_.find("\r\n\r\n") + 4;
        answer.head = in_.substr(0, end - 2);
        in_.erase(0, end);
        answer.status = std::atoi(answer.head.c_str() + 9);
        const std::string length = answer.header("Content-Length");
        if (answer.header("Transfer-Encoding") == "chunked") {
            read_chunks(&answer);
        } else if (!length.empty()) {
            const size_t bytes = std::strtoul(length.c_str(), nullptr, 10);
            while (in_.size() < bytes && fill()) {
            }
            answer.body = in_.substr(0, bytes);
            in_.erase(0, bytes);
        }
        return answer;
    }

    // The next chunk of a stream; empty at its end.
    std::string read_chunk()
    {
        while (in_.find("\r\n") == std::string::npos) {
            if (!fill()) {
                return {};
            }
        }
        const size_t bytes = std::strtoul(in_.c_str(), nullptr, 16);
        const size_t begin = in_.find("\r\n") + 2;
        while (in_.size() < begin + bytes + 2) {
            if (!fill()) {
                return {};
            }
        }
        const std::string chunk = in_.substr(begin, bytes);
        in_.erase(0, begin + bytes + 2);
        return chunk;
    }

    Answer ask(const std::string& bytes)
    {
        send(bytes);
        return read();
    }

private:
    void read_chunks(Answer* answer)
    {
        while (true) {
            const std::string chunk = read_chunk();
            if (chunk.empty()) {
                return;
            }
            answer->body += chunk;
        }
    }

    int fd_ = -1;
    bool connected_ = false;
    bool closed_ = false;
    std::string in_;
};

inline std::string hex_of(const uint8_t* bytes, size_t count)
{
    std::string text(2 * count, '\0');
    aotx_hex_encode(bytes, count, text.data());
    return text;
}

inline std::string token_sha256(const std::string& token)
{
    uint8_t digest[32];
    aotx::sha256(token.data(), token.size(), digest);
    return hex_of(digest, sizeof digest);
}

inline std::string get(const std::string& target, const std::string& token = kTokenOne,
                       const std::string& more = "")
{
    return "GET " + target + " HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer " + token +
           "\r\n" + more + "\r\n";
}

inline std::string post(const std::string& target, const std::string& body,
                        const std::string& token = kTokenOne)
{
    return "POST " + target + " HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer " + token +
           "\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
           "\r\n\r\n" + body;
}

inline std::string chat_body(const std::string& more = "")
{
    return "{\"model\":\"tiny\",\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]" + more +
           "}";
}

// The value of every "data:" line of a stream.
inline std::vector<std::string> data_lines(const std::string& stream)
{
    std::vector<std::string> lines;
    size_t at = 0;
    while (at < stream.size()) {
        const size_t end = stream.find('\n', at);
        const std::string line = stream.substr(at, end - at);
        if (line.compare(0, 6, "data: ") == 0) {
            lines.push_back(line.substr(6));
        }
        at = end == std::string::npos ? stream.size() : end + 1;
    }
    return lines;
}

class Gateway {
public:
    using Change = std::function<void(aotx::Config&)>;

    explicit Gateway(const Change& change = {}, bool with_device = true)
    {
        char folder[] = "/tmp/aotx-gateway-test-XXXXXX";
        folder_ = mkdtemp(folder);
        config.device.socket_path = folder_ + "/service.sock";
        config.device.grants_path = folder_ + "/grants.bin";
        config.gateway.bind = "127.0.0.1:0";
        aotx::ModelConfig model;
        model.alias = "tiny";
        model.role = "language";
        model.published_at = 1700000000;
        config.models.push_back(model);
        for (const std::string& token : {kTokenOne, kTokenTwo, kTokenBare}) {
            aotx::PrincipalConfig principal;
            principal.name = token.substr(0, 9);
            principal.id = token_sha256(token + "id").substr(0, 32);
            principal.token_sha256 = {token_sha256(token)};
            config.principals.push_back(principal);
        }
        if (change) {
            change(config);
        }
        grants_write(1);
        if (with_device) {
            device_start(kEpoch);
        }
        start();
    }
    ~Gateway()
    {
        stop();
        device.reset();
        const std::string command = "rm -rf " + folder_;
        static_cast<void>(!system(command.c_str()));
    }

    void start()
    {
        server = std::make_unique<aotx::Server>();
        std::string error;
        REQUIRE(server->open(config, &error) == AOTX_OK);
        port = server->port();
        thread_ = std::thread([this] { server->run(); });
    }
    void stop()
    {
        if (thread_.joinable()) {
            server->stop();
            thread_.join();
        }
        server.reset();
    }

    void device_start(uint64_t epoch)
    {
        device = std::make_unique<FakeDevice>(config.device.socket_path, epoch);
        device_grants(1);
    }
    void device_grants(uint64_t revision)
    {
        for (size_t i = 0; i < config.principals.size(); i++) {
            uint8_t id[16];
            aotx::principal_id(config.principals[i], id);
            device->grant(id, i == 2 ? uint32_t{AOTX_ACTION_INFER} : kActionsAll, 4, revision);
        }
    }
    void grants_write(uint64_t revision, uint32_t output_tokens_max = 100)
    {
        std::string frame;
        for (size_t i = 0; i < config.principals.size(); i++) {
            aotx_grant_row row = {};
            aotx::principal_id(config.principals[i], row.principal);
            row.revision = revision;
            row.actions = i == 2 ? uint32_t{AOTX_ACTION_INFER} : kActionsAll;
            row.model_mask = 4;
            row.output_tokens_max = output_tokens_max;
            row.active_requests_max = 8;
            frame.append(reinterpret_cast<const char*>(&row), sizeof row);
        }
        aotx_request_head head = {};
        head.magic = AOTX_MAGIC;
        head.operation = AOTX_OPERATION_GRANTS;
        head.grant_revision = revision;
        head.count = static_cast<uint32_t>(config.principals.size());
        head.payload_bytes = static_cast<uint32_t>(frame.size());
        frame.insert(0, reinterpret_cast<const char*>(&head), sizeof head);
        std::ofstream out(config.device.grants_path, std::ios::binary);
        out << frame;
        out.close();
        chmod(config.device.grants_path.c_str(), 0600);
    }

    Answer ask(const std::string& bytes)
    {
        Client client(port);
        return client.ask(bytes);
    }

    // Submit on the native route; returns the handle.
    std::string submit(const std::string& token = kTokenOne)
    {
        const Answer answer = ask(post("/aotx/v1/requests", chat_body(), token));
        REQUIRE(answer.status == 202);
        return answer.header("X-Request-ID");
    }

    aotx::Config config;
    std::unique_ptr<FakeDevice> device;
    std::unique_ptr<aotx::Server> server;
    uint16_t port = 0;

private:
    std::string folder_;
    std::thread thread_;
};
