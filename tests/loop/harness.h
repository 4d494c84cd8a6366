// Purpose:  a loop with scripted runtimes behind real mailboxes, driven the way a broker drives it.
// Owns:     the loop, the runtimes, one packet of scratch.
// Thread:   the test's thread is the broker thread.
// Lifetime: one object a test.
#pragma once

#include <poll.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "aotx/information.h"
#include "aotx/names.h"
#include "aotx/packet_check.h"
#include "aotx/status.h"
#include "aotx/submit.h"
#include "aotx/watch.h"
#include "cuda/loop/loop.h"
#if defined(AOTX_TEST_BACKEND)
#include "cuda/loop/cuda_backend.h"
#endif
#include "flashrt/builder.hpp"
#include "flashrt/loader.hpp"
#include "packets.h"

namespace aotx_test {

using packet_test::Bytes;
using packet_test::grants_packet;
using packet_test::head_of;
using packet_test::Id;
using packet_test::id_of;
using packet_test::packet_of;

struct Message {
    uint32_t role;
    std::string text;
};

inline Bytes submission_of(const std::vector<Message>& messages)
{
    Bytes payload(AOTX_PAYLOAD_BYTES_MAX);
    aotx_submit_builder builder;
    uint32_t bytes = 0;
    REQUIRE(aotx_submit_begin(&builder, payload.data(), payload.size()) == AOTX_OK);
    for (const Message& message : messages) {
        REQUIRE(aotx_submit_message_add(&builder, message.role) == AOTX_OK);
        REQUIRE(aotx_submit_part_add(&builder, AOTX_PART_KIND_TEXT, message.text.data(),
                                     message.text.size()) == AOTX_OK);
    }
    REQUIRE(aotx_submit_end(&builder, &bytes) == AOTX_OK);
    payload.resize(bytes);
    return payload;
}

inline aotx_grant_row grant_of(const Id& principal, uint64_t revision)
{
    return packet_test::grant_of(principal, revision, 100000);
}

struct Reply {
    aotx_reply_head head = {};
    Bytes payload;
    std::string text() const { return std::string(payload.begin(), payload.end()); }
};

inline Reply reply_of(const uint8_t* frame, uint64_t length_bytes)
{
    Reply reply;
    REQUIRE(length_bytes >= sizeof reply.head);
    std::memcpy(&reply.head, frame, sizeof reply.head);
    REQUIRE(reply.head.magic == AOTX_MAGIC);
    REQUIRE(reply.head.payload_bytes == length_bytes - sizeof reply.head);
    reply.payload.assign(frame + sizeof reply.head, frame + length_bytes);
    return reply;
}

struct News {
    aotx_watch_news head = {};
    std::string data;
};

inline std::vector<News> news_of(const Reply& reply)
{
    std::vector<News> list;
    size_t at = 0;
    for (;;) {
        News news;
        const uint8_t* data = nullptr;
        const int result = aotx_watch_news_next(reply.payload.data(), reply.payload.size(), &at,
                                                &news.head, &data);
        if (result == AOTX_ERR_NOT_FOUND) {
            REQUIRE(list.size() == reply.head.output_bytes);
            return list;
        }
        REQUIRE(result == AOTX_OK);
        news.data.assign(reinterpret_cast<const char*>(data), news.head.data_bytes);
        list.push_back(news);
    }
}

class __attribute__((visibility("hidden"))) Device {
public:
    static constexpr uint64_t kEpoch = 7;

    explicit Device(aotx::LoopConfig config = {}, const std::vector<std::string>& options = {"{}"},
                    const char* library = AOTX_SCRIPTED_LIBRARY)
    {
        const uint32_t roles[] = {AOTX_MODEL_ROLE_LANGUAGE, AOTX_MODEL_ROLE_LANGUAGE_Q4,
                                  AOTX_MODEL_ROLE_LANGUAGE_AUDIO};
        config.epoch = kEpoch;
        for (const std::string& option : options) {
            runtimes_.push_back(std::make_unique<frt::LoadedModel>());
            const frt::LoadStatus loaded = runtimes_.back()->open(library, option.c_str());
            INFO(runtimes_.back()->reason());
            REQUIRE(loaded == frt::LoadStatus::loaded);
            config.models[config.models_count].role = roles[config.models_count];
            config.models[config.models_count].runtime = runtimes_.back()->runtime();
            config.models_count++;
        }
#if defined(AOTX_TEST_BACKEND)
        config.backend = AOTX_TEST_BACKEND();  // the same tests over another backend
#endif
        const char* reason = "";
        const int opened = aotx::loop_open(config, &loop_, &reason);
        INFO(reason);
        REQUIRE(opened == AOTX_OK);
        REQUIRE(aotx::loop_start(loop_) == AOTX_OK);
    }
    ~Device()
    {
        if (!stopped_) {
            aotx::loop_stop(loop_);
        }
        aotx::loop_close(loop_);
    }
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;

    aotx::Loop* loop()
    {
        return loop_;
    }
    void stop()
    {
        aotx::loop_stop(loop_);
        stopped_ = true;
    }

    // Fill a mailbox and hand it over; several posts may share one bell.
    void post(uint32_t mailbox, const Bytes& packet, bool bell = true)
    {
        aotx_mailbox* const box = aotx::loop_mailbox(loop_, mailbox);
        REQUIRE(aotx_word_load(&box->state) == AOTX_TURN_BROKER);
        std::memcpy(box->frame, packet.data(), packet.size());
        aotx_mailbox_post(box, packet.size());
        posted_.push_back(mailbox);
        if (bell) {
            ring();
        }
    }
    void ring()
    {
        aotx::loop_ring_doorbell(loop_, posted_.data(), static_cast<uint32_t>(posted_.size()));
        posted_.clear();
    }

    // Wait for replies the way the broker does: take, park, sleep on the eventfd, take again.
    // False: nothing came in time.
    bool gather(int timeout_ms)
    {
        for (;;) {
            uint32_t indices[64];
            const uint32_t count = aotx::loop_take_replies(loop_, indices, 64);
            for (uint32_t i = 0; i < count; i++) {
                aotx_mailbox* const box = aotx::loop_mailbox(loop_, indices[i]);
                REQUIRE(aotx_mailbox_replied(box) == 1);
                if (replies_.size() <= indices[i]) {
                    replies_.resize(indices[i] + 1u);
                }
                replies_[indices[i]].push_back(reply_of(box->frame, box->length_bytes));
                aotx_mailbox_empty(box);
            }
            if (count > 0) {
                return true;
            }
            if (!aotx::loop_broker_park(loop_)) {
                continue;
            }
            pollfd fd = {aotx::loop_reply_fd(loop_), POLLIN, 0};
            const int ready = poll(&fd, 1, timeout_ms);
            aotx::loop_broker_awake(loop_);
            uint64_t rings = 0;
            static_cast<void>(!::read(fd.fd, &rings, sizeof rings));  // poll waits for readiness
            if (ready == 0) {
                return false;
            }
        }
    }
    bool has_reply(uint32_t mailbox) const
    {
        return mailbox < replies_.size() && !replies_[mailbox].empty();
    }
    Reply take_reply(uint32_t mailbox, int timeout_ms = 60000)
    {
        while (!has_reply(mailbox)) {
            REQUIRE(gather(timeout_ms));
        }
        const Reply reply = replies_[mailbox].front();
        replies_[mailbox].erase(replies_[mailbox].begin());
        return reply;
    }
    Reply call(const Bytes& packet, uint32_t mailbox = 1)
    {
        post(mailbox, packet);
        return take_reply(mailbox);
    }

    void grant(uint64_t revision, const std::vector<Id>& principals)
    {
        std::vector<aotx_grant_row> rows;
        for (const Id& principal : principals) {
            rows.push_back(grant_of(principal, revision));
        }
        revision_ = revision;
        REQUIRE(call(grants_packet(revision, rows), AOTX_MAILBOX_CONTROL).head.status == 200);
    }
    Bytes submit_packet(const Id& principal, const Id& id, const std::string& text,
                        uint32_t tokens = 1000, uint32_t role = AOTX_MODEL_ROLE_LANGUAGE)
    {
        aotx_request_head head = head_of(AOTX_OPERATION_SUBMIT, principal, revision_);
        head.runtime_epoch = kEpoch;
        std::memcpy(head.id, id.bytes, 16);
        head.model_role = role;
        head.count = tokens;
        head.temperature = 0.0f;
        head.top_p = 1.0f;
        return packet_of(head, submission_of({{AOTX_MESSAGE_ROLE_USER, text}}));
    }
    Bytes request_packet(uint32_t operation, const Id& principal, const Id& id, uint64_t cursor = 0)
    {
        aotx_request_head head = head_of(operation, principal, revision_);
        head.runtime_epoch = kEpoch;
        std::memcpy(head.id, id.bytes, 16);
        head.cursor = cursor;
        return packet_of(head, {});
    }
    Reply submit(const Id& principal, const Id& id, const std::string& text, uint32_t tokens = 1000,
                 uint32_t role = AOTX_MODEL_ROLE_LANGUAGE)
    {
        return call(submit_packet(principal, id, text, tokens, role));
    }
    Reply read(const Id& principal, const Id& id, uint64_t cursor = 0)
    {
        return call(request_packet(AOTX_OPERATION_READ, principal, id, cursor));
    }
    Reply cancel(const Id& principal, const Id& id)
    {
        return call(request_packet(AOTX_OPERATION_CANCEL, principal, id));
    }
    Bytes watch_packet(const Id& watch, const std::vector<aotx_watch_row>& rows)
    {
        aotx_request_head head;
        aotx_request_head_begin(&head, AOTX_OPERATION_WATCH, nullptr, 0);
        head.runtime_epoch = kEpoch;
        std::memcpy(head.id, watch.bytes, 16);
        head.count = static_cast<uint32_t>(rows.size());
        Bytes payload(rows.size() * sizeof(aotx_watch_row));
        if (!rows.empty()) {
            std::memcpy(payload.data(), rows.data(), payload.size());
        }
        return packet_of(head, payload);
    }
    aotx_watch_row watch_row(const Id& principal, const Id& id, uint64_t cursor, uint32_t phase,
                             uint32_t cancel_requested = 0)
    {
        aotx_watch_row row;
        aotx_watch_row_make(&row, principal.bytes, revision_, id.bytes, cursor, phase,
                            cancel_requested);
        return row;
    }

    // Watch one request to its end without polling. Returns the last reply of a read.
    Reply finish(const Id& principal, const Id& id)
    {
        uint32_t phase = 0;
        uint32_t cancel_requested = 0;
        uint64_t cursor = 0;
        while (phase < AOTX_PHASE_COMPLETED) {
            const Reply reply =
                call(watch_packet(id_of(990000),
                                  {watch_row(principal, id, cursor, phase, cancel_requested)}),
                     2);
            for (const News& news : news_of(reply)) {
                REQUIRE(news.head.status == 200);
                phase = news.head.phase;
                cancel_requested = news.head.cancel_requested;
                cursor += news.head.data_bytes;
            }
        }
        return read(principal, id);
    }

private:
    std::vector<std::unique_ptr<frt::LoadedModel>> runtimes_;
    aotx::Loop* loop_ = nullptr;
    std::vector<uint32_t> posted_;
    std::vector<std::vector<Reply>> replies_;
    uint64_t revision_ = 0;
    bool stopped_ = false;
};

}  // namespace aotx_test
