// Purpose:  the broker client against a peer that answers rightly, wrongly, late or not at all.
// Owns:     a socket in a scratch folder. Thread: two. Lifetime: one run.
#include "aotx/broker_client.hpp"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <functional>
#include <memory>
#include <semaphore>
#include <thread>

#include "packets.h"

namespace {

using aotx::BrokerClient;
using aotx::BrokerReply;

// A seqpacket listener that takes one connection and lets a function answer each packet.
class Peer {
public:
    using Answer = std::function<Bytes(const Bytes&)>;

    explicit Peer(Answer answer)
    {
        char name[] = "/tmp/aotx-client-XXXXXX";
        REQUIRE(mkdtemp(name) != nullptr);
        folder_ = name;
        path_ = folder_ + "/s";
        listener_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        sockaddr_un address = {};
        address.sun_family = AF_UNIX;
        path_.copy(address.sun_path, sizeof address.sun_path - 1);
        REQUIRE(bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
        REQUIRE(listen(listener_, 4) == 0);
        thread_ = std::thread([this, answer = std::move(answer)]() { serve(answer); });
    }
    ~Peer()
    {
        shutdown(listener_, SHUT_RDWR);
        thread_.join();
        ::close(listener_);
        unlink(path_.c_str());
        rmdir(folder_.c_str());
    }
    const char* path() const { return path_.c_str(); }

private:
    // An empty answer closes the connection.
    void serve(const Answer& answer)
    {
        for (;;) {
            const int peer = accept(listener_, nullptr, nullptr);
            if (peer < 0) {
                return;
            }
            Bytes packet(70000);
            for (;;) {
                packet.resize(70000);
                const ssize_t got = recv(peer, packet.data(), packet.size(), 0);
                if (got <= 0) {
                    break;
                }
                packet.resize(static_cast<size_t>(got));
                const Bytes reply = answer(packet);
                if (reply.empty() || ::send(peer, reply.data(), reply.size(), MSG_NOSIGNAL) < 0) {
                    break;
                }
            }
            ::close(peer);
        }
    }

    std::string folder_;
    std::string path_;
    int listener_ = -1;
    std::thread thread_;
};

// A good reply of three payload bytes to any request.
Bytes good(const Bytes& request_bytes)
{
    aotx_request_head request = {};
    std::memcpy(&request, request_bytes.data(), sizeof request);
    aotx_reply_head reply = {};
    aotx_reply_head_begin(&reply, &request, AOTX_STATUS_OK, 5);
    reply.payload_bytes = 3;
    Bytes bytes(sizeof reply + 3);
    std::memcpy(bytes.data(), &reply, sizeof reply);
    std::memcpy(bytes.data() + sizeof reply, "abc", 3);
    return bytes;
}

aotx_request_head question()
{
    aotx::BrokerPrincipal who = {};
    who.id[0] = 1;
    who.grant_revision = 4;
    const uint8_t id[16] = {9};
    return aotx::read_head(who, 5, id, 0);
}

TEST_CASE("call and reply, many times over one connection")
{
    const Peer peer(good);
    const auto client = std::make_unique<BrokerClient>();
    BrokerReply reply = {};
    CHECK(client->call(question(), nullptr, &reply) == AOTX_ERR_STATE);
    REQUIRE(client->connect(peer.path()) == AOTX_OK);
    for (int i = 0; i < 100; i++) {
        REQUIRE(client->call(question(), nullptr, &reply) == AOTX_OK);
        CHECK(reply.head.runtime_epoch == 5);
        CHECK(std::string(reply.payload, reply.payload + reply.head.payload_bytes) == "abc");
    }
    CHECK(client->receive(&reply, 0) == AOTX_ERR_STATE);
}

TEST_CASE("the largest payload arrives whole, and one byte more is not sent")
{
    size_t seen = 0;
    const Peer peer([&](const Bytes& bytes) {
        seen = bytes.size();
        return good(bytes);
    });
    const auto client = std::make_unique<BrokerClient>();
    REQUIRE(client->connect(peer.path()) == AOTX_OK);
    Bytes payload(AOTX_PAYLOAD_BYTES_MAX + 1, 7);
    aotx_request_head head = question();
    head.payload_bytes = AOTX_PAYLOAD_BYTES_MAX + 1;
    CHECK(client->send(head, payload.data()) == AOTX_ERR_LENGTH);
    head.payload_bytes = AOTX_PAYLOAD_BYTES_MAX;
    BrokerReply reply = {};
    CHECK(client->call(head, payload.data(), &reply) == AOTX_OK);
    CHECK(seen == 65536);
}

TEST_CASE("replies that break a rule close the connection")
{
    struct Row {
        const char* name;
        std::function<void(Bytes*)> change;
        int want;
    };
    const Row rows[] = {
        {"short", [](Bytes* b) { b->resize(100); }, AOTX_ERR_LENGTH},
        {"cut", [](Bytes* b) { b->pop_back(); }, AOTX_ERR_LENGTH},
        {"longer than a packet", [](Bytes* b) { b->resize(65537); }, AOTX_ERR_LENGTH},
        {"magic", [](Bytes* b) { (*b)[0] = 'x'; }, AOTX_ERR_MAGIC},
        {"reserved", [](Bytes* b) { (*b)[110] = 1; }, AOTX_ERR_NONZERO},
        {"another ID", [](Bytes* b) { (*b)[48] = 8; }, AOTX_ERR_RANGE},
        {"another principal", [](Bytes* b) { (*b)[16] = 8; }, AOTX_ERR_RANGE},
        {"another revision", [](Bytes* b) { (*b)[32] = 8; }, AOTX_ERR_RANGE},
        {"none", [](Bytes* b) { b->clear(); }, AOTX_ERR_CLOSED},
    };
    for (const Row& row : rows) {
        INFO(row.name);
        const Peer peer([&](const Bytes& bytes) {
            Bytes reply = good(bytes);
            row.change(&reply);
            return reply;
        });
        const auto client = std::make_unique<BrokerClient>();
        REQUIRE(client->connect(peer.path()) == AOTX_OK);
        BrokerReply reply = {};
        CHECK(client->call(question(), nullptr, &reply) == row.want);
        CHECK_FALSE(client->is_open());
        CHECK(client->connect(peer.path()) == AOTX_OK);
    }
}

TEST_CASE("a late reply is waited for, or the connection goes")
{
    std::counting_semaphore<8> gate(0);
    const Peer peer([&](const Bytes& bytes) {
        gate.acquire();
        return good(bytes);
    });
    const auto client = std::make_unique<BrokerClient>();
    REQUIRE(client->connect(peer.path()) == AOTX_OK);
    BrokerReply reply = {};
    REQUIRE(client->send(question(), nullptr) == AOTX_OK);
    CHECK(client->is_waiting());
    CHECK(client->send(question(), nullptr) == AOTX_ERR_STATE);
    CHECK(client->receive(&reply, 0) == AOTX_ERR_NEED_MORE);
    gate.release();
    CHECK(client->receive(&reply, -1) == AOTX_OK);
    CHECK(client->call(question(), nullptr, &reply, 1) == AOTX_ERR_NEED_MORE);
    gate.release();
    CHECK_FALSE(client->is_open());
}

TEST_CASE("paths that cannot be a socket")
{
    const auto client = std::make_unique<BrokerClient>();
    CHECK(client->connect("") == AOTX_ERR_LENGTH);
    CHECK(client->connect(std::string(108, 'x').c_str()) == AOTX_ERR_LENGTH);
    CHECK(client->connect(("/" + std::string(106, 'x')).c_str()) == AOTX_ERR_SYSTEM);
    CHECK(errno == ENOENT);
    CHECK_FALSE(client->is_open());
}

}  // namespace
