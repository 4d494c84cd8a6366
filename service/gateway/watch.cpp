// Purpose:  follow the output of all running answers; see watch.h.
// Owns:     nothing of its own.
// Thread:   the gateway's.
// Lifetime: not applicable.
#include "watch.h"

#include <cstring>

#include "service/base/check.h"
#include "service/base/digest.h"

namespace aotx {
namespace {

constexpr size_t kRowsMax = AOTX_PAYLOAD_BYTES_MAX / sizeof(aotx_watch_row);
static_assert(kRowsMax == AOTX_GRANT_ROWS_MAX, "a watch holds as many rows as a grant table");

constexpr size_t kNewsAlign = 8;

WorkNews work_news(const aotx_watch_news& head)
{
    WorkNews news;
    news.phase = head.phase;
    news.model_role = head.model_role;
    news.output_bytes = head.output_bytes;
    news.prompt_tokens = head.prompt_tokens;
    news.sampled_tokens = head.sampled_tokens;
    news.finish = head.finish;
    news.failure_status = head.failure_status;
    news.cancel_requested = head.cancel_requested;
    return news;
}

}  // namespace

void Watch::open(Wires* wires, WorkTable* works, const Hooks& hooks) noexcept
{
    wires_ = wires;
    works_ = works;
    hooks_ = hooks;
    random_bytes(id_, sizeof id_);
}

size_t Watch::packet_build(size_t wire, uint64_t epoch) noexcept
{
    size_t rows = 0;
    for (size_t i = 0; i < works_->used_count() && rows < kRowsMax; i++) {
        const Work& work = *works_->used(i);
        if (!hooks_.wants(hooks_.server, work)) {
            continue;
        }
        aotx_watch_row row = {};
        std::memcpy(row.principal, work.principal->id, sizeof row.principal);
        row.grant_revision = work.revision;
        std::memcpy(row.id, work.id, sizeof row.id);
        row.cursor = work.cursor;
        row.known_phase = work.known_phase;
        row.known_cancel_requested = work.known_cancel_requested;
        std::memcpy(packet_ + AOTX_HEAD_BYTES + rows * sizeof row, &row, sizeof row);
        rows_[wire][rows] = {work.index, work.generation};
        rows++;
    }
    aotx_request_head head = {};
    head.magic = AOTX_MAGIC;
    head.operation = AOTX_OPERATION_WATCH;
    head.runtime_epoch = epoch;
    std::memcpy(head.id, id_, sizeof head.id);
    head.count = static_cast<uint32_t>(rows);
    head.payload_bytes = static_cast<uint32_t>(rows * sizeof(aotx_watch_row));
    std::memcpy(packet_, &head, sizeof head);
    rows_count_[wire] = rows;
    return rows;
}

void Watch::flush(uint64_t epoch) noexcept
{
    if (!dirty_ || works_->used_count() == 0) {
        return;
    }
    size_t wire = 0;
    while (wire < kWatchWires && (flying_[wire] || !wires_->watch_connected(wire))) {
        wire++;
    }
    if (wire == kWatchWires) {
        return;  // the older of the two is being answered; then there is room
    }
    const size_t rows = packet_build(wire, epoch);
    dirty_ = false;
    if (rows == 0) {
        return;
    }
    flying_[wire] = true;
    if (!wires_->watch_send(wire, packet_, AOTX_HEAD_BYTES + rows * sizeof(aotx_watch_row))) {
        flying_[wire] = false;
    }
}

void Watch::on_reply(size_t wire, const Reply& reply) noexcept
{
    AOTX_CHECK(wire < kWatchWires);
    flying_[wire] = false;
    if (reply.result != AOTX_OK) {
        hooks_.failed(hooks_.server, reply.result, 0);
    } else if (reply.head.status != AOTX_STATUS_OK) {
        hooks_.failed(hooks_.server, AOTX_OK, reply.head.status);
    } else if (!news_read(wire, reply)) {
        hooks_.failed(hooks_.server, AOTX_ERR_STATE, 0);
    }
}

bool Watch::news_read(size_t wire, const Reply& reply) noexcept
{
    size_t at = 0;
    for (uint32_t i = 0; i < reply.head.output_bytes; i++) {
        aotx_watch_news head;
        if (reply.payload_bytes - at < sizeof head) {
            return false;
        }
        std::memcpy(&head, reply.payload + at, sizeof head);
        at += sizeof head;
        const size_t padded = (head.data_bytes + kNewsAlign - 1) / kNewsAlign * kNewsAlign;
        if (head.data_bytes > reply.payload_bytes || reply.payload_bytes - at < padded ||
            head.row >= rows_count_[wire] || head.zero_68 != 0) {
            return false;
        }
        const Row row = rows_[wire][head.row];
        Work* const work = works_->find(row.index, row.generation);
        // A row whose answer has ended meanwhile is no news, nor is one whose reader has no room.
        if (work != nullptr && hooks_.wants(hooks_.server, *work)) {
            if (std::memcmp(head.id, work->id, sizeof head.id) != 0) {
                return false;
            }
            news_take(work, head, reply.payload + at);
        }
        at += padded;
    }
    // While a newer watch is out, the device answers it as soon as it knows more; only without one
    // is there nothing parked any more.
    dirty_ = dirty_ || !flying_[1 - wire];
    return at == reply.payload_bytes;
}

void Watch::news_take(Work* work, const aotx_watch_news& head, const uint8_t* data) noexcept
{
    if (head.status != AOTX_STATUS_OK) {
        hooks_.refused(hooks_.server, work, head.status);
        return;
    }
    // Both watches may have carried this row, so that the older answer repeats known bytes.
    const uint64_t end = head.cursor + head.data_bytes;
    if (head.cursor > work->cursor || end > head.output_bytes) {
        hooks_.refused(hooks_.server, work, AOTX_STATUS_NONE);
        return;
    }
    WorkNews news = work_news(head);
    if (end > work->cursor) {
        const size_t known = static_cast<size_t>(work->cursor - head.cursor);
        news.data = data + known;
        news.data_bytes = head.data_bytes - known;
    }
    hooks_.news(hooks_.server, work, news);
}

}  // namespace aotx
