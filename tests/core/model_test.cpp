// Purpose:  the core against a slow and simple model of it, over random packet and step sequences.
// Owns:     nothing.
// Thread:   main.
// Lifetime: one run; a failure prints the seed and the action's number.
#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <memory>
#include <random>

#include "fixture.h"

using namespace core_test;

namespace {

struct RefRequest {
    Id principal;
    Id id;
    uint64_t revision = 0;
    uint64_t deadline_ns = 0;
    uint32_t model = 0;
    uint32_t phase = AOTX_PHASE_QUEUED;
    uint32_t wanted = 0;  // output tokens
    uint32_t limit = 0;   // after clamping
    uint32_t prompt = 0;
    uint32_t fed = 0;
    uint32_t sampled = 0;
    uint32_t finish = 0;
    uint32_t failure = 0;
    uint32_t cancel_requested = 0;
    uint32_t ending = 0;
    uint32_t pages = 0;
    uint64_t ended_at = 0;
    bool reclaimed = false;
    std::string output;

    bool ended() const { return phase >= AOTX_PHASE_COMPLETED; }
};
using Request = std::shared_ptr<RefRequest>;

struct RefWatchRow {
    uint32_t status = 200;
    Request request;
    Id id;
    uint64_t cursor = 0;
    uint32_t known_phase = 0;
    uint32_t known_cancel = 0;

    bool news() const
    {
        return status != 200 || request->output.size() > cursor || request->phase != known_phase ||
               request->cancel_requested != known_cancel;
    }
};

struct RefWatch {
    Id id;
    uint64_t deadline_ns = 0;
    bool released = false;
    std::vector<RefWatchRow> rows;
};

struct RefModel {
    std::deque<Id> ring;
    std::map<Id, std::deque<Request>> queues;
    std::deque<Request> running;  // in the order of their starts
    Request waiting;
    uint32_t slots_busy = 0;
    uint32_t pages_free = 40;
};

class Reference {
public:
    explicit Reference(const aotx::CoreLimits& limits) : limits_(limits) {}

    uint64_t revision = 0;
    std::map<Id, aotx_grant_row> grants;
    std::map<std::pair<Id, Id>, Request> requests;
    std::map<uint32_t, RefWatch> watches;  // by mailbox
    RefModel models[2];

    Request find(const Id& principal, const Id& id) const
    {
        const auto found = requests.find({principal, id});
        return found == requests.end() ? nullptr : found->second;
    }
    uint32_t active(const Id& principal) const
    {
        uint32_t count = 0;
        for (const auto& entry : requests) {
            const RefRequest& request = *entry.second;
            count +=
                !request.ended() && request.revision == revision && request.principal == principal
                    ? 1u
                    : 0u;
        }
        return count;
    }
    uint32_t living() const
    {
        uint32_t count = 0;
        for (const auto& entry : requests) {
            count += entry.second->ended() ? 0u : 1u;
        }
        return count;
    }
    uint32_t submit(const Id& principal, const Id& id, uint32_t role, uint32_t wanted,
                    uint64_t now_ns)
    {
        const auto grant = grants.find(principal);
        if (grant == grants.end()) {
            return 403;
        }
        if (wanted == 0 || wanted > grant->second.output_tokens_max) {
            return 400;
        }
        if (role > AOTX_MODEL_ROLE_LANGUAGE_Q4 || (grant->second.model_mask & (1u << role)) == 0) {
            return 404;
        }
        if (find(principal, id) != nullptr) {
            return 409;
        }
        if (active(principal) >= grant->second.active_requests_max ||
            living() >= limits_.prompts_max) {
            return 429;
        }
        if (requests.size() == limits_.requests_max && !reclaim()) {
            return 429;
        }
        Request request = std::make_shared<RefRequest>();
        request->principal = principal;
        request->id = id;
        request->revision = revision;
        request->deadline_ns = now_ns + limits_.request_seconds_max * aotx::kCoreSecond;
        request->model = role - AOTX_MODEL_ROLE_LANGUAGE;
        request->wanted = wanted;
        requests[{principal, id}] = request;
        RefModel* const model = &models[request->model];
        if (model->queues[principal].empty()) {
            model->ring.push_back(principal);
        }
        model->queues[principal].push_back(request);
        return 202;
    }
    void end(const Request& request, uint32_t phase, uint32_t failure)
    {
        request->phase = phase;
        request->failure = failure;
        request->ended_at = ++ends_;
    }
    void fail(const Request& request, uint32_t failure)
    {
        if (request->phase == AOTX_PHASE_QUEUED) {
            unqueue(request);
            end(request, failure == 403 || failure == 409 ? 6 : 5, failure);
        } else if (request->ending == 0) {
            request->ending = failure;
        }
    }
    void unqueue(const Request& request)
    {
        RefModel* const model = &models[request->model];
        std::deque<Request>* const queue = &model->queues[request->principal];
        for (auto at = queue->begin(); at != queue->end(); ++at) {
            if (*at == request) {
                queue->erase(at);
                if (queue->empty()) {
                    drop(&model->ring, request->principal);
                }
                return;
            }
        }
    }
    void replace(uint64_t new_revision, const std::map<Id, aotx_grant_row>& rows)
    {
        revision = new_revision;
        grants = rows;
        for (RefModel& model : models) {
            model.ring.clear();
            model.queues.clear();
        }
        for (auto& entry : watches) {
            for (RefWatchRow& row : entry.second.rows) {
                row.status = row.status == 200 ? 403 : row.status;
            }
        }
    }
    void sweep(uint64_t now_ns)
    {
        std::vector<Request> order;
        for (const auto& entry : requests) {
            order.push_back(entry.second);
        }
        std::sort(order.begin(), order.end(), [](const Request& left, const Request& right) {
            return left->deadline_ns < right->deadline_ns;
        });
        for (const Request& request : order) {
            if (request->ended() || request->ending != 0) {
                continue;
            }
            if (request->revision != revision) {
                fail(request, 403);
            } else if (request->deadline_ns <= now_ns) {
                fail(request, 504);
            }
        }
    }

private:
    static void drop(std::deque<Id>* ring, const Id& principal)
    {
        for (auto at = ring->begin(); at != ring->end(); ++at) {
            if (*at == principal) {
                ring->erase(at);
                return;
            }
        }
    }
    bool reclaim()
    {
        auto oldest = requests.end();
        for (auto at = requests.begin(); at != requests.end(); ++at) {
            if (at->second->ended() &&
                (oldest == requests.end() || at->second->ended_at < oldest->second->ended_at)) {
                oldest = at;
            }
        }
        if (oldest == requests.end()) {
            return false;
        }
        for (auto& entry : watches) {
            for (RefWatchRow& row : entry.second.rows) {
                if (row.status == 200 && row.request == oldest->second) {
                    row.status = 404;
                }
            }
        }
        oldest->second->reclaimed = true;
        requests.erase(oldest);
        return true;
    }

    aotx::CoreLimits limits_;
    uint64_t ends_ = 0;
};

class Walk {
public:
    explicit Walk(uint32_t seed) : random_(seed), limits_(limits()), device_(limits_), ref_(limits_)
    {
    }

    void run(uint32_t actions)
    {
        replace_grants();
        for (uint32_t i = 0; i < actions; i++) {
            INFO("action " << i);
            act();
            check_watches();
            if (i % 16 == 0) {
                device_.audit();
            }
        }
        for (const auto& entry : ref_.requests) {
            compare_read(entry.second, 0);
        }
    }

private:
    static aotx::CoreLimits limits()
    {
        aotx::CoreLimits limits = limits_of(12);
        limits.prompts_max = 10;
        limits.output_bytes_max = 40;
        return limits;
    }
    uint32_t pick(uint32_t below) { return static_cast<uint32_t>(random_() % below); }
    Id principal() { return id_of(10 + pick(4)); }
    Id request_id() { return id_of(100 + pick(24)); }

    void act()
    {
        device_.now_ns += pick(1000);
        const uint32_t what = pick(100);
        if (what < 30) {
            submit();
        } else if (what < 42) {
            read();
        } else if (what < 52) {
            cancel();
        } else if (what < 53) {
            replace_grants();
        } else if (what < 55) {
            device_.now_ns += limits_.request_seconds_max * aotx::kCoreSecond / 2u;
        } else if (what < 65) {
            aotx::core_sweep(&device_.core, device_.now_ns);
            ref_.sweep(device_.now_ns);
            aotx::core_watch_expire(&device_.core, device_.now_ns);
            for (auto& entry : ref_.watches) {
                entry.second.released =
                    entry.second.released || entry.second.deadline_ns <= device_.now_ns;
            }
        } else if (what < 75) {
            watch();
        } else {
            model_round(pick(2));
        }
    }
    void replace_grants()
    {
        const uint64_t revision = ref_.revision + 1u + pick(3);
        std::map<Id, aotx_grant_row> rows;
        std::vector<aotx_grant_row> list;
        for (uint64_t number = 10; number < 13; number++) {
            if (pick(8) == 0) {
                continue;
            }
            aotx_grant_row row = grant_of(id_of(number), revision);
            row.model_mask = pick(6) == 0 ? 4u : AOTX_MODEL_MASK_LANGUAGE;
            row.output_tokens_max = 20;
            row.active_requests_max = 3 + pick(4);
            row.pages_max = pick(3) == 0 ? 4 : 0;
            rows[id_of(number)] = row;
            list.push_back(row);
        }
        REQUIRE(device_.call(grants_packet(revision, list), 0).head.status == 200);
        device_.revision = revision;
        ref_.replace(revision, rows);
    }
    void submit()
    {
        const Id who = principal();
        const Id id = request_id();
        const uint32_t role = 2 + pick(3);
        const uint32_t wanted = pick(22);
        const uint32_t status = ref_.submit(who, id, role, wanted, device_.now_ns);
        const Reply reply = device_.submit(who, id, "hello", wanted, role);
        REQUIRE(reply.head.status == status);
    }
    void compare_head(const aotx_reply_head& head, const RefRequest& request)
    {
        REQUIRE(head.phase == request.phase);
        REQUIRE(head.output_bytes == request.output.size());
        REQUIRE(head.prompt_tokens == (request.phase >= AOTX_PHASE_PREPARING ? request.prompt : 0));
        REQUIRE(head.sampled_tokens == request.sampled);
        REQUIRE(head.finish == request.finish);
        REQUIRE(head.failure_status == request.failure);
        REQUIRE(head.cancel_requested == request.cancel_requested);
        REQUIRE(head.model_role == request.model + 2u);
    }
    // What a read or cancellation of this name must answer.
    uint32_t named(const Id& who, const Id& id, Request* request)
    {
        if (ref_.grants.count(who) == 0) {
            return 403;
        }
        *request = ref_.find(who, id);
        if (*request == nullptr) {
            return 404;
        }
        const uint32_t mask = ref_.grants[who].model_mask;
        if ((*request)->revision != ref_.revision ||
            (mask & (1u << ((*request)->model + 2u))) == 0) {
            return 403;
        }
        return 200;
    }
    void compare_read(const Request& request, uint64_t cursor)
    {
        Request found;
        uint32_t status = named(request->principal, request->id, &found);
        if (status == 200 && cursor > request->output.size()) {
            status = 409;
        }
        const Reply reply = device_.read(request->principal, request->id, cursor);
        REQUIRE(reply.head.status == status);
        if (status == 200) {
            compare_head(reply.head, *request);
            REQUIRE(reply.text() == request->output.substr(cursor));
        }
    }
    void read()
    {
        RefRequest name;
        name.principal = principal();
        name.id = request_id();
        const Request found = ref_.find(name.principal, name.id);
        compare_read(found == nullptr ? std::make_shared<RefRequest>(name) : found, pick(6));
    }
    void cancel()
    {
        const Id who = principal();
        const Id id = request_id();
        Request request;
        const uint32_t status = named(who, id, &request);
        if (status == 200 && !request->ended() && request->cancel_requested == 0) {
            request->cancel_requested = 1;
            ref_.fail(request, 409);
        }
        const Reply reply = device_.cancel(who, id);
        REQUIRE(reply.head.status == status);
        if (status == 200) {
            compare_head(reply.head, *request);
        }
    }
    void watch()
    {
        const uint32_t mailbox = 1 + pick(7);
        if (ref_.watches.count(mailbox) != 0) {
            return;
        }
        RefWatch fresh;
        fresh.id = id_of(900 + pick(4));
        fresh.deadline_ns = device_.now_ns + limits_.request_seconds_max * aotx::kCoreSecond;
        std::vector<aotx_watch_row> rows;
        for (uint32_t i = pick(4); i > 0; i--) {
            const Id who = principal();
            RefWatchRow row;
            row.id = request_id();
            row.cursor = pick(4);
            row.status = named(who, row.id, &row.request);
            if (row.status == 200) {
                row.known_phase = pick(4) == 0 ? 0 : row.request->phase;
                row.known_cancel = row.request->cancel_requested;
                row.status = row.cursor > row.request->output.size() ? 409 : 200;
            }
            aotx_watch_row wire;
            aotx_watch_row_make(&wire, who.bytes, ref_.revision, row.id.bytes, row.cursor,
                                row.known_phase, row.known_cancel);
            rows.push_back(wire);
            fresh.rows.push_back(row);
        }
        for (auto& entry : ref_.watches) {
            entry.second.released = entry.second.released || entry.second.id == fresh.id;
        }
        const Reply reply = device_.call(device_.watch_packet(fresh.id, rows), mailbox);
        REQUIRE(reply.parked == !rows.empty());
        if (!rows.empty()) {
            ref_.watches[mailbox] = fresh;
        }
    }
    void check_watches()
    {
        const std::map<uint32_t, Reply> replies = device_.flush();
        for (auto at = ref_.watches.begin(); at != ref_.watches.end();) {
            bool due = at->second.released;
            for (const RefWatchRow& row : at->second.rows) {
                due = due || row.news();
            }
            INFO("mailbox " << at->first);
            REQUIRE(replies.count(at->first) == (due ? 1u : 0u));
            if (!due) {
                ++at;
                continue;
            }
            check_watch(at->second, replies.at(at->first));
            at = ref_.watches.erase(at);
        }
        for (const auto& entry : replies) {
            REQUIRE(entry.second.head.status == 200);
        }
    }
    void check_watch(const RefWatch& watch, const Reply& reply)
    {
        REQUIRE(std::memcmp(reply.head.id, watch.id.bytes, 16) == 0);
        std::set<uint32_t> told;
        size_t at = 0;
        aotx_watch_news news;
        const uint8_t* data = nullptr;
        while (aotx_watch_news_next(reply.payload.data(), reply.payload.size(), &at, &news,
                                    &data) == AOTX_OK) {
            REQUIRE(news.row < watch.rows.size());
            REQUIRE(told.insert(news.row).second);
            const RefWatchRow& row = watch.rows[news.row];
            REQUIRE(row.news());
            REQUIRE(news.status == row.status);
            REQUIRE(news.cursor == row.cursor);
            REQUIRE(std::memcmp(news.id, row.id.bytes, 16) == 0);
            if (row.status == 200) {
                REQUIRE(news.phase == row.request->phase);
                REQUIRE(news.output_bytes == row.request->output.size());
                REQUIRE(std::string(reinterpret_cast<const char*>(data), news.data_bytes) ==
                        row.request->output.substr(row.cursor));
            }
        }
        REQUIRE(at == reply.payload.size());
        for (uint32_t i = 0; i < watch.rows.size(); i++) {
            REQUIRE(told.count(i) == (watch.rows[i].news() ? 1u : 0u));
        }
    }

    // ---- the scheduler ----

    void end_slot(const Request& request, uint32_t phase, uint32_t failure)
    {
        RefModel* const model = &ref_.models[request->model];
        for (auto at = model->running.begin(); at != model->running.end(); ++at) {
            if (*at == request) {
                model->running.erase(at);
                break;
            }
        }
        if (model->waiting == request) {
            model->waiting = nullptr;
        }
        model->slots_busy--;
        model->pages_free += request->pages;
        request->pages = 0;
        ref_.end(request, phase, failure);
    }
    void fail_slot(const Request& request, uint32_t failure)
    {
        end_slot(request, failure == 403 || failure == 409 ? 6 : 5, failure);
    }
    // Requests of one model in the order of their slots, which is the order in which a sweep ends
    // them.
    std::vector<Request> by_slot(uint32_t model)
    {
        std::vector<Request> list;
        const aotx::CoreModel& row = device_.core.limits.models[model];
        for (uint32_t i = row.first_slot; i < row.first_slot + row.slots_count; i++) {
            const uint32_t index = device_.core.slots[i].request;
            if (index != aotx::kCoreNone) {
                Id who;
                Id id;
                std::memcpy(who.bytes, device_.core.requests[index].principal, 16);
                std::memcpy(id.bytes, device_.core.requests[index].id, 16);
                list.push_back(ref_.find(who, id));
            }
        }
        return list;
    }
    void model_round(uint32_t index)
    {
        for (const Request& request : by_slot(index)) {
            if (request->ending != 0) {
                fail_slot(request, request->ending);
            }
        }
        device_.close_slots(index);
        for (uint32_t i = pick(4); i > 0; i--) {
            start(index);
        }
        step(index);
        device_.close_slots(index);
    }
    void open_waiting(uint32_t index)
    {
        RefModel* const model = &ref_.models[index];
        if (model->waiting == nullptr) {
            return;
        }
        const uint32_t pages = (model->waiting->prompt + model->waiting->limit + 3u) / 4u;
        if (pages > model->pages_free) {
            return;
        }
        model->pages_free -= pages;
        model->waiting->pages = pages;
        model->waiting->phase = AOTX_PHASE_RUNNING;
        model->running.push_back(model->waiting);
        model->waiting = nullptr;
    }
    void start(uint32_t index)
    {
        RefModel* const model = &ref_.models[index];
        const uint32_t prompt = 1 + pick(63);
        const uint32_t failure = pick(20) == 0 ? 503 : 0;
        open_waiting(index);
        const bool can = !model->ring.empty() && model->slots_busy < 4 && model->waiting == nullptr;
        Request request;
        if (can) {
            const Id who = model->ring.front();
            model->ring.pop_front();
            request = model->queues[who].front();
            model->queues[who].pop_front();
            if (!model->queues[who].empty()) {
                model->ring.push_back(who);
            }
            model->slots_busy++;
            request->phase = AOTX_PHASE_PREPARING;
        }
        const aotx::CoreModelState& core_state = device_.core.state->models[index];
        INFO("ring " << core_state.ring << " free slot " << core_state.free_slot << " waiting "
                     << core_state.waiting << " pages " << core_state.pages_free << " reference "
                     << model->pages_free << " busy " << core_state.busy_count);
        REQUIRE(device_.start(index, prompt, failure) == can);
        if (!can) {
            return;
        }
        const uint32_t pages = ref_.grants[request->principal].pages_max == 0 ? 40 : 4;
        const uint32_t room = std::min<uint32_t>(pages * 4u, 64u);
        if (failure != 0 || prompt >= room) {
            fail_slot(request, failure != 0 ? failure : 413);
            device_.close_slots(index);
            return;
        }
        request->prompt = prompt;
        request->limit = std::min(request->wanted, room - prompt);
        model->waiting = request;
        open_waiting(index);
    }
    void step(uint32_t index)
    {
        RefModel* const model = &ref_.models[index];
        struct Expected {
            Request request;
            uint32_t tokens;
            bool samples;
        };
        std::vector<Expected> expected;
        uint32_t left = 16;
        for (const Request& request : model->running) {
            if (request->fed == request->prompt) {
                expected.push_back({request, 1, true});
                left--;
            }
        }
        for (const Request& request : model->running) {
            if (request->fed < request->prompt && left > 0) {
                const uint32_t chunk = std::min(left, request->prompt - request->fed);
                expected.push_back({request, chunk, chunk == request->prompt - request->fed});
                left -= chunk;
            }
        }
        aotx::CoreRow rows[8];
        aotx::CoreToken tokens[8];
        const uint32_t count = aotx::core_plan(&device_.core, index, rows, 8);
        REQUIRE(count == expected.size());
        std::vector<std::string> bytes(count);
        const bool failed = pick(40) == 0;
        for (uint32_t i = 0; i < count; i++) {
            const aotx::CoreSlot& slot = device_.core.slots[rows[i].slot];
            REQUIRE(std::memcmp(slot.id, expected[i].request->id.bytes, 16) == 0);
            REQUIRE(rows[i].tokens_count == expected[i].tokens);
            REQUIRE((rows[i].samples != 0) == expected[i].samples);
            if (slot.fed_tokens < slot.prompt_tokens) {
                REQUIRE(rows[i].tokens[0] == static_cast<int32_t>(expected[i].request->fed));
            }
            bytes[i] = std::string(pick(7), static_cast<char>('a' + pick(26)));
            const uint32_t kind = pick(24);
            const uint32_t flags = kind == 0 ? 3u : kind == 1 ? 1u : kind == 2 ? 2u : 0u;
            tokens[i] = {reinterpret_cast<const uint8_t*>(bytes[i].data()),
                         static_cast<uint32_t>(bytes[i].size()),
                         flags,
                         7,
                         kind == 3 ? 1u : 0u,
                         kind == 4 ? 1u : 0u};
        }
        for (uint32_t i = 0; i < count; i++) {
            const Request& request = expected[i].request;
            if (request->ending != 0) {
                fail_slot(request, request->ending);
                continue;
            }
            if (failed) {
                fail_slot(request, 503);
                continue;
            }
            if (request->fed < request->prompt) {
                request->fed += expected[i].tokens;
            }
            if (expected[i].samples) {
                commit(request, tokens[i], bytes[i]);
            }
        }
        if (count > 0) {
            aotx::core_commit(&device_.core, index, rows, tokens, count, failed ? 1u : 0u);
        }
    }
    void commit(const Request& request, const aotx::CoreToken& token, const std::string& bytes)
    {
        if (token.unreadable != 0) {
            fail_slot(request, 503);
        } else if (token.full != 0) {
            request->finish = AOTX_FINISH_LENGTH;
            end_slot(request, AOTX_PHASE_COMPLETED, 0);
        } else if ((token.flags & AOTX_TEXT_TOKEN_END) != 0) {
            request->finish = AOTX_FINISH_STOP;
            end_slot(request, AOTX_PHASE_COMPLETED, 0);
        } else if ((token.flags & AOTX_TEXT_TOKEN_CONTROL) == 0 &&
                   request->output.size() + bytes.size() > limits_.output_bytes_max) {
            fail_slot(request, 413);
        } else {
            request->output += (token.flags & AOTX_TEXT_TOKEN_CONTROL) == 0 ? bytes : "";
            request->sampled++;
            if (request->sampled == request->limit) {
                request->finish = AOTX_FINISH_LENGTH;
                end_slot(request, AOTX_PHASE_COMPLETED, 0);
            }
        }
    }

    std::mt19937 random_;
    aotx::CoreLimits limits_;
    Device device_;
    Reference ref_;
};

}  // namespace

TEST_CASE("the core does what the simple model does")
{
    for (uint32_t seed = 1; seed <= 60; seed++) {
        INFO("seed " << seed);
        Walk walk(seed);
        walk.run(1500);
    }
}
