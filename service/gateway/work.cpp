// Purpose:  the long operations of the gateway; see work.h.
// Owns:     nothing of its own.
// Thread:   the gateway's.
// Lifetime: not applicable.
#include "work.h"

#include "service/base/check.h"

namespace aotx {
namespace {

constexpr size_t kOutputBytesKept = 64 << 10;  // memory that a free row may hold

}  // namespace

void WorkTable::open(size_t rows_count) noexcept
{
    AOTX_CHECK(rows_ == nullptr);
    rows_ = std::make_unique<Work[]>(rows_count);
    rows_count_ = rows_count;
    place_.resize(rows_count);
    free_.reserve(rows_count);
    used_.reserve(rows_count);
    for (size_t i = rows_count; i > 0; i--) {
        rows_[i - 1].index = static_cast<uint32_t>(i - 1);
        rows_[i - 1].heartbeat.owner = &rows_[i - 1];
        free_.push_back(static_cast<uint32_t>(i - 1));
    }
}

Work* WorkTable::acquire() noexcept
{
    if (free_.empty()) {
        return nullptr;
    }
    const uint32_t index = free_.back();
    free_.pop_back();
    place_[index] = static_cast<uint32_t>(used_.size());
    used_.push_back(index);
    Work* const work = &rows_[index];
    AOTX_CHECK(!work->used());
    work->generation++;
    return work;
}

void WorkTable::release(Work* work) noexcept
{
    AOTX_CHECK(work->used());
    DeadlineQueue::disarm(&work->heartbeat);
    const uint32_t last = used_.back();
    used_[place_[work->index]] = last;
    place_[last] = place_[work->index];
    used_.pop_back();
    free_.push_back(work->index);

    work->generation++;
    work->include_usage = false;
    work->finish_sent = false;
    work->connection = nullptr;
    work->principal = nullptr;
    work->cursor = 0;
    work->known_phase = 0;
    work->known_cancel_requested = 0;
    work->utf8 = Utf8State();
    work->output.clear();
    work->output.trim(kOutputBytesKept);
}

Work* WorkTable::find(uint32_t index, uint32_t generation) noexcept
{
    if (index >= rows_count_ || rows_[index].generation != generation || !rows_[index].used()) {
        return nullptr;
    }
    return &rows_[index];
}

}  // namespace aotx
