// Purpose:  the device as its process sees it, see device.h.
// Owns:     nothing.
// Thread:   main.
// Lifetime: not applicable.
#include "service/aotxd/device.h"

#include <errno.h>

#include <cinttypes>
#include <cstring>

#include "aotx/grants.h"
#include "aotx/status.h"
#include "service/base/check.h"
#include "service/base/file.h"
#include "service/base/log.h"

namespace aotx {
namespace {

constexpr uint32_t kGrantsMs = 10000;
constexpr double kMebibyte = 1024.0 * 1024.0;

Loop* loop_of(void* device) noexcept
{
    return static_cast<Loop*>(device);
}

const char* read_reason(int status) noexcept
{
    switch (status) {
        case AOTX_ERR_NOT_FOUND:
            return "there is no grant file";
        case AOTX_ERR_STATE:
            return "must belong to the service's user and be writable by nobody else";
        case AOTX_ERR_LENGTH:
            return "is larger than a grant frame";
        default:
            return strerror(errno);
    }
}

const char* frame_reason(int status) noexcept
{
    switch (status) {
        case AOTX_ERR_LENGTH:
            return "is cut off or too long";
        case AOTX_ERR_MAGIC:
            return "is no grant frame";
        case AOTX_ERR_NONZERO:
            return "has a byte that must be zero";
        case AOTX_ERR_SYNTAX:
            return "names a principal twice";
        case AOTX_ERR_STATE:
            return "has rows of another revision, or revision 0";
        default:
            return "has a value out of range";
    }
}

}  // namespace

LoopConfig loop_config(const Config& config, const std::vector<Model>& models, uint64_t epoch,
                       uint64_t seed) noexcept
{
    LoopConfig loop;
    loop.mailboxes_count = config.device.mailboxes;
    loop.principals_max = config.device.principals;
    loop.requests_max = config.device.requests;
    loop.prompts_max = config.device.prompts;
    loop.output_bytes_max = config.device.output_bytes;
    loop.prompt_bytes_max = config.device.prompt_bytes;
    loop.execution_slots = config.device.execution_slots;
    loop.request_seconds_max = config.device.request_seconds;
    loop.upload_seconds_max = config.device.upload_seconds;
    loop.grant_active_requests_max = config.device.active_requests;
    loop.spin_us = config.device.spin_us;
    loop.epoch = epoch;
    loop.seed = seed;
    AOTX_CHECK(models.size() <= kLoopModelsMax);
    for (const Model& model : models) {
        LoopModel& to = loop.models[loop.models_count++];
        to.role = model.role;
        to.runtime = model.loaded->runtime();
        std::memcpy(to.sha256, model.sha256, sizeof to.sha256);
    }
    return loop;
}

void budget_print(const LoopBudget& budget, uint64_t mapped_bytes, bool as_json, FILE* out) noexcept
{
    if (as_json) {
        std::fputs("{\"budget\":[", out);
        for (uint32_t i = 0; i < budget.lines_count; i++) {
            std::fprintf(out, "%s{\"name\":\"%s\",\"bytes\":%" PRIu64 "}", i == 0 ? "" : ",",
                         budget.lines[i].name, budget.lines[i].bytes);
        }
        std::fprintf(out, "],\"total_bytes\":%" PRIu64 ",\"mapped_bytes\":%" PRIu64 "}\n",
                     budget.total_bytes, mapped_bytes);
        return;
    }
    std::fputs("memory budget in bytes\n", out);
    for (uint32_t i = 0; i < budget.lines_count; i++) {
        std::fprintf(out, "  %-28s %14" PRIu64 "\n", budget.lines[i].name, budget.lines[i].bytes);
    }
    std::fprintf(out, "  %-28s %14" PRIu64 "  (%.1f MiB)\n", "sum", budget.total_bytes,
                 static_cast<double>(budget.total_bytes) / kMebibyte);
    std::fprintf(out, "model files mapped beside it   %14" PRIu64 "  (%.1f MiB)\n", mapped_bytes,
                 static_cast<double>(mapped_bytes) / kMebibyte);
}

BrokerDevice broker_device(Loop* loop) noexcept
{
    BrokerDevice device;
    device.device = loop;
    device.ring = [](void* self) noexcept { return loop_ring(loop_of(self)); };
    device.mailbox = [](void* self, uint32_t index) noexcept {
        return loop_mailbox(loop_of(self), index);
    };
    device.ring_doorbell = [](void* self, const uint32_t* indices, uint32_t count) noexcept {
        loop_ring_doorbell(loop_of(self), indices, count);
    };
    device.take_replies = [](void* self, uint32_t* indices, uint32_t capacity) noexcept {
        return loop_take_replies(loop_of(self), indices, capacity);
    };
    device.reply_fd = [](void* self) noexcept { return loop_reply_fd(loop_of(self)); };
    device.park = [](void* self) noexcept { return loop_broker_park(loop_of(self)); };
    device.awake = [](void* self) noexcept { loop_broker_awake(loop_of(self)); };
    return device;
}

int grants_install(const std::string& path, Broker* broker, std::string* installed,
                   std::string* error) noexcept
{
    std::string frame;
    const int read_status = file_read_private(path.c_str(), AOTX_PACKET_BYTES_MAX, &frame);
    if (read_status != AOTX_OK) {
        *error = path + ": " + read_reason(read_status);
        return read_status;
    }
    // The device judges it as well; this says what is wrong with it.
    aotx_request_head head = {};
    const int frame_status =
        aotx_grants_check(reinterpret_cast<const uint8_t*>(frame.data()), frame.size(), &head);
    if (frame_status != AOTX_OK) {
        *error = path + ": " + frame_reason(frame_status);
        return frame_status;
    }

    aotx_reply_head reply = {};
    const int sent = broker_control(broker, frame.data(), frame.size(), kGrantsMs, &reply);
    if (sent != AOTX_OK) {
        *error = path + ": the device did not answer";
        return sent;
    }
    if (reply.status == AOTX_STATUS_BAD_REQUEST && frame == *installed) {
        log_line(LogLevel::Info, "grants of revision %" PRIu64 " are installed already",
                 head.grant_revision);
        return AOTX_OK;
    }
    if (reply.status != AOTX_STATUS_OK) {
        *error = path + ": the device refuses it with " + std::to_string(reply.status) +
                 "; its revision must rise and its limits must be within the device's";
        return AOTX_ERR_RANGE;
    }
    log_line(LogLevel::Info, "grants of revision %" PRIu64 " installed for %u principals",
             head.grant_revision, head.count);
    *installed = frame;
    return AOTX_OK;
}

}  // namespace aotx
