// Purpose:  a device that answers packets as the contract says, for tests of the gateway alone.
// Tests decide what a request produces, and when.
// Owns:     its socket, its thread and its tables.
// Thread:   one of its own; the public functions may be called from any.
// Lifetime: from construction to destruction; restart() is a new activation.
#pragma once

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "aotx/packet.h"
#include "aotx/status.h"

struct FakeRequest {
    std::array<uint8_t, 16> principal = {};
    std::array<uint8_t, 16> id = {};
    uint64_t revision = 0;
    uint32_t role = 0;
    uint32_t output_tokens = 0;
    float temperature = 0;
    float top_p = 0;
    std::string payload;  // of the submission
    std::string output;
    uint32_t phase = AOTX_PHASE_QUEUED;
    uint32_t finish = 0;
    uint32_t failure = 0;
    uint32_t cancel_requested = 0;
    uint32_t prompt_tokens = 7;
    uint32_t sampled_tokens = 0;
};

class FakeDevice {
public:
    using Guard = std::lock_guard<std::mutex>;

    // on_submit runs inside the device, before the answer; it may fill and finish the request.
    std::function<void(FakeRequest&)> on_submit;
    // When set: the status of the next submissions instead of 202.
    std::atomic<uint32_t> submit_status{0};
    // When set: requests get no answer at all.
    std::atomic<bool> mute{false};
    // When set: the device says 503 of itself. When not: it does not know that question.
    std::atomic<bool> down{false};
    std::atomic<bool> knows_device{true};
    // When set: replies carry a wrong magic.
    std::atomic<bool> garble{false};
    std::atomic<uint64_t> operations{0};
    std::atomic<uint64_t> watches{0};
    std::atomic<uint64_t> cancels{0};

    FakeDevice(std::string path, uint64_t epoch) : path_(std::move(path)), epoch_(epoch)
    {
        start();
    }
    ~FakeDevice() { stop(); }
    FakeDevice(const FakeDevice&) = delete;
    FakeDevice& operator=(const FakeDevice&) = delete;

    // A grant row as the device holds it.
    void grant(const uint8_t* principal, uint32_t actions, uint32_t model_mask, uint64_t revision)
    {
        const Guard guard(mutex_);
        aotx_grant_row row = {};
        std::memcpy(row.principal, principal, 16);
        row.revision = revision;
        row.actions = actions;
        row.model_mask = model_mask;
        row.output_tokens_max = 1000;
        grants_[key(principal)] = row;
    }

    // End this activation (sockets closed, requests gone) and, when told, begin another.
    void stop()
    {
        if (thread_.joinable()) {
            stopping_ = true;
            wake();
            thread_.join();
            close(wake_);  // not in the thread: it could be gone before the line above has written
        }
    }
    void restart(uint64_t epoch)
    {
        stop();
        const Guard guard(mutex_);
        requests_.clear();
        epoch_ = epoch;
        start();
    }

    // Change the newest request under the lock, then let watches see it.
    void change(const std::function<void(FakeRequest&)>& how)
    {
        {
            const Guard guard(mutex_);
            how(requests_.back());
        }
        wake();
    }
    void change_all(const std::function<void(FakeRequest&)>& how)
    {
        {
            const Guard guard(mutex_);
            for (FakeRequest& request : requests_) {
                how(request);
            }
        }
        wake();
    }
    // Produce bytes as one token each call.
    void produce(const std::string& bytes)
    {
        change([&](FakeRequest& request) {
            request.phase = AOTX_PHASE_RUNNING;
            request.output += bytes;
            request.sampled_tokens++;
        });
    }
    void complete(uint32_t finish)
    {
        change([&](FakeRequest& request) {
            request.phase = AOTX_PHASE_COMPLETED;
            request.finish = finish;
        });
    }
    void fail(uint32_t phase, uint32_t status)
    {
        change([&](FakeRequest& request) {
            request.phase = phase;
            request.failure = status;
        });
    }
    size_t request_count()
    {
        const Guard guard(mutex_);
        return requests_.size();
    }
    FakeRequest last()
    {
        const Guard guard(mutex_);
        return requests_.back();
    }
    // Wait until n requests were admitted.
    bool wait_requests(size_t n)
    {
        for (int i = 0; i < 2000; i++) {
            if (request_count() >= n) {
                return true;
            }
            poll(nullptr, 0, 2);
        }
        return false;
    }

private:
    using Key = std::array<uint8_t, 16>;
    struct Peer {
        int fd = -1;
        bool watching = false;
        std::string watch;  // its packet
    };

    static Key key(const uint8_t* bytes)
    {
        Key result;
        std::memcpy(result.data(), bytes, 16);
        return result;
    }

    void start()
    {
        stopping_ = false;
        ::unlink(path_.c_str());
        listener_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        sockaddr_un address = {};
        address.sun_family = AF_UNIX;
        std::memcpy(address.sun_path, path_.c_str(), path_.size());
        if (bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
            listen(listener_, 128) != 0) {
            std::abort();
        }
        thread_ = std::thread([this] { run(); });
    }

    void wake()
    {
        const uint64_t one = 1;
        static_cast<void>(!write(wake_, &one, sizeof one));
    }

    void run()
    {
        while (!stopping_) {
            std::vector<pollfd> polls = {{listener_, POLLIN, 0}, {wake_, POLLIN, 0}};
            for (const Peer& peer : peers_) {
                polls.push_back({peer.fd, POLLIN, 0});
            }
            poll(polls.data(), polls.size(), -1);
            const Guard guard(mutex_);
            if ((polls[1].revents & POLLIN) != 0) {
                uint64_t count = 0;
                static_cast<void>(!read(wake_, &count, sizeof count));
            }
            size_t i = 2;
            for (auto peer = peers_.begin(); peer != peers_.end(); i++) {
                const bool gone = polls[i].revents != 0 && !receive(*peer);
                if (gone) {
                    close(peer->fd);
                    peer = peers_.erase(peer);
                } else {
                    ++peer;
                }
            }
            if ((polls[0].revents & POLLIN) != 0) {
                peers_.push_back({accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC), false, {}});
            }
            for (Peer& peer : peers_) {
                watch_answer(peer, false);
            }
        }
        for (const Peer& peer : peers_) {
            close(peer.fd);
        }
        peers_.clear();
        close(listener_);
        ::unlink(path_.c_str());
    }

    bool receive(Peer& peer)
    {
        std::string packet(AOTX_PACKET_BYTES_MAX, '\0');
        const ssize_t got = recv(peer.fd, packet.data(), packet.size(), 0);
        if (got < static_cast<ssize_t>(sizeof(aotx_request_head))) {
            return false;
        }
        packet.resize(static_cast<size_t>(got));
        operations++;
        if (mute) {
            return true;
        }
        aotx_request_head head;
        std::memcpy(&head, packet.data(), sizeof head);
        if (head.operation == AOTX_OPERATION_WATCH) {
            watches++;
            for (Peer& other : peers_) {
                aotx_request_head parked = {};
                if (other.watching) {
                    std::memcpy(&parked, other.watch.data(), sizeof parked);
                }
                if (other.watching && std::memcmp(parked.id, head.id, 16) == 0) {
                    watch_answer(other, true);
                }
            }
            peer.watching = true;
            peer.watch = packet;
            return true;
        }
        answer(peer.fd, head, packet.substr(sizeof head));
        return true;
    }

    void send_reply(int fd, aotx_reply_head reply, const std::string& payload)
    {
        reply.magic = garble ? 1 : AOTX_MAGIC;
        reply.runtime_epoch = epoch_;
        reply.payload_bytes = static_cast<uint32_t>(payload.size());
        std::string packet(reinterpret_cast<const char*>(&reply), sizeof reply);
        packet += payload;
        send(fd, packet.data(), packet.size(), MSG_NOSIGNAL);
    }

    FakeRequest* find(const uint8_t* principal, const uint8_t* id)
    {
        for (FakeRequest& request : requests_) {
            if (request.principal == key(principal) && request.id == key(id)) {
                return &request;
            }
        }
        return nullptr;
    }

    static aotx_reply_head echo(const aotx_request_head& head, uint32_t status)
    {
        aotx_reply_head reply = {};
        reply.status = status;
        std::memcpy(reply.principal, head.principal, 16);
        reply.grant_revision = head.grant_revision;
        std::memcpy(reply.id, head.id, 16);
        reply.cursor = head.cursor;
        return reply;
    }

    static void state_fill(const FakeRequest& request, aotx_reply_head* reply)
    {
        reply->phase = request.phase;
        reply->model_role = request.role;
        reply->output_bytes = static_cast<uint32_t>(request.output.size());
        reply->prompt_tokens = request.prompt_tokens;
        reply->sampled_tokens = request.sampled_tokens;
        reply->finish = request.finish;
        reply->failure_status = request.failure;
        reply->cancel_requested = request.cancel_requested;
    }

    void device(int fd, const aotx_request_head& head)
    {
        aotx_device_row row = {};
        row.schema = AOTX_DEVICE_SCHEMA;
        row.kind = AOTX_DEVICE_KIND_CPU;
        row.restarts = 2;
        std::memcpy(row.name, "a \"fake\" CPU", 12);
        std::memcpy(row.reason, "no CUDA driver (35)", 19);
        send_reply(
            fd, echo(head, down ? 503 : 200),
            down ? std::string() : std::string(reinterpret_cast<const char*>(&row), sizeof row));
    }

    void answer(int fd, const aotx_request_head& head, const std::string& payload)
    {
        if (head.operation == AOTX_OPERATION_DEVICE && knows_device) {
            device(fd, head);
            return;
        }
        const auto grant = grants_.find(key(head.principal));
        if (grant == grants_.end() || grant->second.revision != head.grant_revision) {
            send_reply(fd, echo(head, 403), {});
            return;
        }
        switch (head.operation) {
            case AOTX_OPERATION_INFORMATION:
            case AOTX_OPERATION_TELEMETRY:
                return information(fd, head, grant->second);
            case AOTX_OPERATION_SUBMIT:
                return submit(fd, head, payload, grant->second);
            case AOTX_OPERATION_READ:
            case AOTX_OPERATION_CANCEL:
                return read_or_cancel(fd, head);
            case AOTX_OPERATION_POLICY:
                return policy(fd, head, payload, grant->second);
            case AOTX_OPERATION_MEDIA:
            case AOTX_OPERATION_MEDIA_READ:
            case AOTX_OPERATION_MEDIA_LIST:
                send_reply(
                    fd, echo(head, (grant->second.actions & AOTX_ACTION_UPLOAD) != 0 ? 503 : 403),
                    {});
                return;
            default:
                send_reply(fd, echo(head, 400), {});
        }
    }

    void information(int fd, const aotx_request_head& head, const aotx_grant_row& grant)
    {
        const bool telemetry = head.operation == AOTX_OPERATION_TELEMETRY;
        if (telemetry && (grant.actions & AOTX_ACTION_TELEMETRY) == 0) {
            send_reply(fd, echo(head, 403), {});
            return;
        }
        aotx_information information = {};
        information.schema = AOTX_INFORMATION_SCHEMA;
        information.execution_slots_plus_one = 17;
        information.grant_actions = grant.actions;
        information.grant_output_tokens_max = grant.output_tokens_max;
        information.request_output_bytes_max = 65536;
        information.service_allocation_bytes = telemetry ? 123456789 : 0;
        information.tick = telemetry ? 42 : 0;
        information.clock_ns = telemetry ? 18446744073709551615u : 0;
        std::string payload;
        for (uint32_t role = 2; role <= 4; role++) {
            if ((grant.model_mask & (1u << role) & 4u) != 0) {
                aotx_model_row row = {};
                row.role = role;
                row.modalities = AOTX_MODALITY_TEXT;
                std::memset(row.sha256, 0xab, sizeof row.sha256);
                payload.append(reinterpret_cast<const char*>(&row), sizeof row);
                information.model_rows++;
            }
        }
        payload.insert(0, reinterpret_cast<const char*>(&information), sizeof information);
        send_reply(fd, echo(head, 200), payload);
    }

    void submit(int fd, const aotx_request_head& head, const std::string& payload,
                const aotx_grant_row& grant)
    {
        uint32_t status = submit_status;
        if (head.runtime_epoch != epoch_) {
            status = 410;
        } else if (status == 0 && (grant.actions & AOTX_ACTION_INFER) == 0) {
            status = 403;
        } else if (status == 0 && (grant.model_mask & (1u << head.model_role)) == 0) {
            status = 404;
        }
        if (status != 0) {
            send_reply(fd, echo(head, status), {});
            return;
        }
        FakeRequest request;
        request.principal = key(head.principal);
        request.id = key(head.id);
        request.revision = head.grant_revision;
        request.role = head.model_role;
        request.output_tokens = head.count;
        request.temperature = head.temperature;
        request.top_p = head.top_p;
        request.payload = payload;
        if (on_submit) {
            on_submit(request);
        }
        requests_.push_back(request);
        aotx_reply_head reply = echo(head, 202);
        reply.phase = AOTX_PHASE_QUEUED;
        reply.model_role = head.model_role;
        send_reply(fd, reply, {});
    }

    void read_or_cancel(int fd, const aotx_request_head& head)
    {
        if (head.runtime_epoch != epoch_) {
            send_reply(fd, echo(head, 410), {});
            return;
        }
        FakeRequest* const request = find(head.principal, head.id);
        if (request == nullptr) {
            send_reply(fd, echo(head, 404), {});
            return;
        }
        if (head.cursor > request->output.size()) {
            send_reply(fd, echo(head, 409), {});
            return;
        }
        std::string window;
        if (head.operation == AOTX_OPERATION_CANCEL) {
            cancels++;
            if (request->phase < AOTX_PHASE_COMPLETED) {
                request->cancel_requested = 1;
            }
        } else {
            window = request->output.substr(head.cursor, AOTX_PAYLOAD_BYTES_MAX);
        }
        aotx_reply_head reply = echo(head, 200);
        state_fill(*request, &reply);
        send_reply(fd, reply, window);
    }

    void policy(int fd, const aotx_request_head& head, const std::string& payload,
                const aotx_grant_row& grant)
    {
        if (!payload.empty()) {
            const bool permitted = (grant.actions & AOTX_ACTION_POLICY_MANAGE) != 0;
            send_reply(fd, echo(head, permitted ? 503 : 403), {});
            return;
        }
        aotx_policy_state_payload state = {};
        state.schema = 1;
        state.abi = 1;
        state.reason = AOTX_POLICY_REASON_DISABLED;
        send_reply(fd, echo(head, 200),
                   std::string(reinterpret_cast<const char*>(&state), sizeof state));
    }

    // Answer a parked watch when it has news, or when a newer one replaces it.
    void watch_answer(Peer& peer, bool replaced)
    {
        if (!peer.watching || mute) {
            return;
        }
        aotx_request_head head;
        std::memcpy(&head, peer.watch.data(), sizeof head);
        if (head.runtime_epoch != epoch_) {
            peer.watching = false;
            send_reply(peer.fd, echo(head, 410), {});
            return;
        }
        std::string payload;
        uint32_t rows = 0;
        for (uint32_t i = 0; i < head.count; i++) {
            aotx_watch_row row;
            std::memcpy(&row, peer.watch.data() + sizeof head + i * sizeof row, sizeof row);
            rows += news(row, i, &payload) ? 1 : 0;
        }
        if (rows == 0 && !replaced && head.count != 0) {
            return;
        }
        aotx_reply_head reply = echo(head, 200);
        reply.output_bytes = rows;
        peer.watching = false;
        send_reply(peer.fd, reply, payload);
    }

    bool news(const aotx_watch_row& row, uint32_t index, std::string* payload)
    {
        aotx_watch_news news = {};
        std::memcpy(news.id, row.id, 16);
        news.cursor = row.cursor;
        news.row = index;
        const FakeRequest* const request = find(row.principal, row.id);
        std::string data;
        if (request == nullptr) {
            news.status = 404;
        } else if (row.cursor > request->output.size()) {
            news.status = 409;
        } else {
            data = request->output.substr(row.cursor);
            if (data.empty() && request->phase == row.known_phase &&
                request->cancel_requested == row.known_cancel_requested) {
                return false;
            }
            const size_t room = AOTX_PAYLOAD_BYTES_MAX - payload->size();
            if (room < sizeof news + 16) {
                return false;
            }
            data.resize(std::min(data.size(), (room - sizeof news) / 8 * 8));
            aotx_reply_head state = {};
            state_fill(*request, &state);
            news.status = 200;
            news.phase = state.phase;
            news.model_role = state.model_role;
            news.output_bytes = state.output_bytes;
            news.prompt_tokens = state.prompt_tokens;
            news.sampled_tokens = state.sampled_tokens;
            news.finish = state.finish;
            news.failure_status = state.failure_status;
            news.cancel_requested = state.cancel_requested;
            news.data_bytes = static_cast<uint32_t>(data.size());
        }
        payload->append(reinterpret_cast<const char*>(&news), sizeof news);
        payload->append(data);
        payload->append((8 - data.size() % 8) % 8, '\0');
        return true;
    }

    std::string path_;
    uint64_t epoch_;
    std::mutex mutex_;
    std::thread thread_;
    std::atomic<bool> stopping_{false};
    int listener_ = -1;
    int wake_ = -1;
    std::list<Peer> peers_;
    std::list<FakeRequest> requests_;
    std::map<Key, aotx_grant_row> grants_;
};
