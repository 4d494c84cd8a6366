// Purpose:  hand out and take back pages of the key and value pool.
// Owns:     see kv_pages.h.
// Thread:   see kv_pages.h.
// Lifetime: see kv_pages.h.
#include "engine/kv_pages.h"

#include <new>

#include "reason.h"

namespace aotx {

namespace {

uint32_t pages_for(const PagesShape& shape, uint32_t tokens)
{
    return (tokens + shape.page_tokens - 1) / shape.page_tokens;
}

}  // namespace

uint64_t KvPages::allocation_bytes(const PagesShape& shape) noexcept
{
    const uint64_t lists = uint64_t{shape.sequences} * pages_for(shape, shape.sequence_tokens);
    return (lists + shape.pages) * sizeof(uint32_t) + shape.sequences * sizeof(Row);
}

bool KvPages::open(const PagesShape& shape) noexcept
{
    close();
    shape_ = shape;
    list_pages_ = pages_for(shape, shape.sequence_tokens);
    rows_.reset(new (std::nothrow) Row[shape.sequences]);
    page_lists_.reset(new (std::nothrow) uint32_t[uint64_t{shape.sequences} * list_pages_]());
    free_.reset(new (std::nothrow) uint32_t[shape.pages]);
    if (rows_ == nullptr || page_lists_ == nullptr || free_ == nullptr) {
        close();
        return false;
    }
    for (uint32_t i = 0; i < shape.pages; i++) {
        free_[i] = shape.pages - 1 - i;
    }
    free_count_ = shape.pages;
    return true;
}

void KvPages::close() noexcept
{
    rows_.reset();
    page_lists_.reset();
    free_.reset();
    free_count_ = 0;
    open_count_ = 0;
}

bool KvPages::open_sequence(uint32_t sequence, uint32_t tokens_max) noexcept
{
    AOTX_TEXT_CHECK(sequence < shape_.sequences);
    AOTX_TEXT_CHECK(!is_open(sequence));
    AOTX_TEXT_CHECK(tokens_max >= 1);
    AOTX_TEXT_CHECK(tokens_max <= shape_.sequence_tokens);
    const uint32_t pages_count = pages_for(shape_, tokens_max);
    if (pages_count > free_count_) {
        return false;
    }
    uint32_t* const list = page_lists_.get() + uint64_t{sequence} * list_pages_;
    for (uint32_t i = 0; i < pages_count; i++) {
        list[i] = free_[--free_count_];
    }
    rows_[sequence] = {tokens_max, 0, pages_count, rows_[sequence].openings + 1};
    open_count_++;
    return true;
}

void KvPages::close_sequence(uint32_t sequence) noexcept
{
    AOTX_TEXT_CHECK(sequence < shape_.sequences);
    AOTX_TEXT_CHECK(is_open(sequence));
    Row& row = rows_[sequence];
    const uint32_t* const list = pages(sequence);
    for (uint32_t i = row.pages_count; i > 0; i--) {
        free_[free_count_++] = list[i - 1];
    }
    AOTX_TEXT_CHECK(free_count_ <= shape_.pages);
    row = {0, 0, 0, row.openings};
    open_count_--;
}

}  // namespace aotx
