// Purpose:  many clients at once over random schedules: everyone gets exactly their own answer.
// Owns:     nothing.
// Thread:   main, as the broker; the loop's own two threads run freely.
// Lifetime: one run; a failure prints the seed.
//
// The scripted runtime answers with the token IDs of the prompt, so every answer is different and
// known beforehand, and a byte in the wrong place cannot hide.
#include <deque>
#include <random>

#include "harness.h"

using namespace aotx_test;

namespace {

std::string echo_of(const std::string& text)
{
    std::string echo = "256 258";
    for (const char byte : text) {
        echo += " " + std::to_string(static_cast<unsigned char>(byte));
    }
    return echo + " 260 259";
}

struct Client {
    Id principal;
    Id id;
    std::string text;
    uint32_t limit = 0;
    bool submitted = false;
    bool cancelled = false;
    bool done = false;
    uint32_t phase = 0;
    uint32_t known_cancel = 0;
    uint32_t finish = 0;
    uint32_t failure = 0;
    uint32_t total = 0;  // output bytes that the device has told of
    std::string output;
};

class Simulation {
public:
    explicit Simulation(uint32_t seed)
        : random_(seed),
          device_(config(seed),
                  {R"({"echo":true,"sequences":6,"step_tokens":12,"kv_tokens":2000})"})
    {
        std::vector<Id> principals;
        for (uint64_t number = 0; number < 5; number++) {
            principals.push_back(id_of(10 + number));
        }
        device_.grant(1, principals);
        for (uint64_t number = 0; number < 120; number++) {
            Client client;
            client.principal = principals[pick(5)];
            client.id = id_of(1000 + number);
            client.text = std::string(1 + pick(40), static_cast<char>('a' + pick(26))) +
                          std::to_string(number);
            client.limit = pick(3) == 0 ? 1 + pick(30) : 4000;
            clients_.push_back(client);
        }
    }

    void run()
    {
        while (!finished()) {
            const uint32_t burst = 1 + pick(6);
            for (uint32_t i = 0; i < burst; i++) {
                act();
            }
            device_.ring();
            device_.gather(pick(3) == 0 ? 20 : 0);
            for (uint32_t mailbox = 1; mailbox < kMailboxes; mailbox++) {
                while (device_.has_reply(mailbox)) {
                    settle(mailbox, device_.take_reply(mailbox));
                }
            }
        }
        for (const Client& client : clients_) {
            INFO(client.text);
            const std::string whole = echo_of(client.text);
            CHECK(client.output == whole.substr(0, client.output.size()));
            if (client.phase == AOTX_PHASE_COMPLETED) {
                const bool cut = client.limit <= whole.size();
                CHECK(client.output == whole.substr(0, client.limit));
                CHECK(client.finish == (cut ? 2u : 1u));
                CHECK(client.failure == 0);
            } else {
                CHECK(client.cancelled);
                CHECK(client.phase == AOTX_PHASE_CANCELLED);
                CHECK(client.failure == 409);
            }
        }
    }

private:
    static constexpr uint32_t kMailboxes = 12;

    struct Flight {
        uint32_t operation = 0;  // 0: the mailbox is free
        std::vector<size_t> rows;
    };

    static aotx::LoopConfig config(uint32_t seed)
    {
        aotx::LoopConfig config;
        config.mailboxes_count = kMailboxes;
        config.requests_max = 200;
        config.spin_us = seed % 2u == 0 ? 0 : 20;
        config.execution_slots = 1 + seed % 6u;
        return config;
    }
    uint32_t pick(uint32_t below) { return static_cast<uint32_t>(random_() % below); }
    bool finished() const
    {
        for (const Client& client : clients_) {
            if (!client.done) {
                return false;
            }
        }
        return true;
    }
    void act()
    {
        const uint32_t mailbox = 1 + pick(kMailboxes - 1);
        if (flights_[mailbox].operation != 0) {
            return;
        }
        const size_t number = pick(static_cast<uint32_t>(clients_.size()));
        Client* const client = &clients_[number];
        if (!client->submitted) {
            client->submitted = true;
            start(
                mailbox, AOTX_OPERATION_SUBMIT, {number},
                device_.submit_packet(client->principal, client->id, client->text, client->limit));
        } else if (pick(30) == 0 && client->phase != 0) {
            client->cancelled = true;
            start(mailbox, AOTX_OPERATION_CANCEL, {number},
                  device_.request_packet(AOTX_OPERATION_CANCEL, client->principal, client->id));
        } else if (client->phase != 0) {
            watch(mailbox);
        }
    }
    void watch(uint32_t mailbox)
    {
        std::vector<size_t> numbers;
        std::vector<aotx_watch_row> rows;
        for (size_t i = 0; i < clients_.size(); i++) {
            const Client& client = clients_[i];
            if (client.phase != 0 && !client.done) {
                numbers.push_back(i);
                rows.push_back(device_.watch_row(client.principal, client.id, client.output.size(),
                                                 client.phase, client.known_cancel));
            }
        }
        start(mailbox, AOTX_OPERATION_WATCH, numbers, device_.watch_packet(id_of(77), rows));
    }
    void start(uint32_t mailbox, uint32_t operation, const std::vector<size_t>& rows,
               const Bytes& packet)
    {
        flights_[mailbox] = {operation, rows};
        device_.post(mailbox, packet, false);
    }
    void settle(uint32_t mailbox, const Reply& reply)
    {
        const Flight flight = flights_[mailbox];
        flights_[mailbox] = Flight();
        if (flight.operation == AOTX_OPERATION_WATCH) {
            REQUIRE(reply.head.status == 200);
            for (const News& news : news_of(reply)) {
                REQUIRE(news.head.status == 200);
                apply(&clients_[flight.rows[news.head.row]], news);
            }
            return;
        }
        Client* const client = &clients_[flight.rows[0]];
        if (flight.operation == AOTX_OPERATION_SUBMIT) {
            REQUIRE((reply.head.status == 202 || reply.head.status == 429));
            client->submitted = reply.head.status == 202;
            client->phase = client->submitted ? 1u : 0u;
        } else {
            REQUIRE(reply.head.status == 200);
        }
    }
    // Two watches may overlap; each tells the bytes from its own cursor.
    void apply(Client* client, const News& news)
    {
        REQUIRE(news.head.cursor <= client->output.size());
        const std::string again = client->output.substr(news.head.cursor);
        const size_t shared = std::min(again.size(), news.data.size());
        REQUIRE(again.compare(0, shared, news.data, 0, shared) == 0);
        client->output += news.data.substr(shared);
        client->known_cancel = std::max(client->known_cancel, news.head.cancel_requested);
        if (news.head.phase >= client->phase) {
            client->phase = news.head.phase;
            client->finish = news.head.finish;
            client->failure = news.head.failure_status;
        }
        client->total = std::max(client->total, news.head.output_bytes);
        client->done =
            client->phase >= AOTX_PHASE_COMPLETED && client->output.size() == client->total;
    }

    std::mt19937 random_;
    Device device_;
    std::vector<Client> clients_;
    Flight flights_[kMailboxes];
};

}  // namespace

TEST_CASE("clients at once: each gets exactly its own answer")
{
    for (uint32_t seed = 1; seed <= 8; seed++) {
        INFO("seed " << seed);
        Simulation simulation(seed);
        simulation.run();
    }
}

TEST_CASE("an idle loop uses no processor time")
{
    Device device;
    device.grant(1, {id_of(11)});
    REQUIRE(device.submit(id_of(11), id_of(1), "x").head.status == 202);
    device.finish(id_of(11), id_of(1));
    // Both threads sleep without a timer, so what the process uses is this thread's sleep alone.
    const auto used_ns = []() {
        timespec time = {};
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
        return static_cast<uint64_t>(time.tv_sec) * 1000000000u +
               static_cast<uint64_t>(time.tv_nsec);
    };
    poll(nullptr, 0, 20);
    const uint64_t before_ns = used_ns();
    poll(nullptr, 0, 500);
    CHECK(used_ns() - before_ns < 5000000u);
}
