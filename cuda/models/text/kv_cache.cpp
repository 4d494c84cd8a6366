// Purpose:  hand out and take back pages of the key and value pool.
// Owns:     see kv_cache.h.
// Thread:   see kv_cache.h.
// Lifetime: see kv_cache.h.
#include "kv_cache.h"

#include <new>

#include "model.h"
#include "reason.h"

namespace aotx {

namespace {

uint64_t stride_bytes(const KvShape& shape)
{
    return uint64_t{shape.layers} * shape.kv_heads * page_bytes(shape.head_size, shape.wide);
}

uint32_t pages_for(uint32_t tokens)
{
    return (tokens + kKeyPageTokens - 1) / kKeyPageTokens;
}

}  // namespace

KvCache::~KvCache()
{
    close();
}

uint64_t KvCache::allocation_bytes(const KvShape& shape) noexcept
{
    const uint64_t lists = uint64_t{shape.sequences} * pages_for(shape.sequence_tokens);
    return shape.pages * stride_bytes(shape) + (lists + shape.pages) * sizeof(uint32_t) +
           shape.sequences * sizeof(Row);
}

bool KvCache::open(const KvShape& shape) noexcept
{
    close();
    shape_ = shape;
    page_stride_bytes_ = stride_bytes(shape);
    list_pages_ = pages_for(shape.sequence_tokens);
    pool_bytes_ = shape.pages * page_stride_bytes_;
    rows_.reset(new (std::nothrow) Row[shape.sequences]);
    page_lists_.reset(new (std::nothrow) uint32_t[uint64_t{shape.sequences} * list_pages_]());
    free_.reset(new (std::nothrow) uint32_t[shape.pages]);
    pool_ = memory_take(pool_bytes_);
    if (rows_ == nullptr || page_lists_ == nullptr || free_ == nullptr || pool_ == nullptr) {
        close();
        return false;
    }
    for (uint32_t i = 0; i < shape.pages; i++) {
        free_[i] = shape.pages - 1 - i;
    }
    free_count_ = shape.pages;
    return true;
}

void KvCache::close() noexcept
{
    memory_free(pool_, pool_bytes_);
    pool_ = nullptr;
    pool_bytes_ = 0;
    rows_.reset();
    page_lists_.reset();
    free_.reset();
    free_count_ = 0;
}

bool KvCache::open_sequence(uint32_t sequence, uint32_t tokens_max) noexcept
{
    AOTX_TEXT_CHECK(sequence < shape_.sequences);
    AOTX_TEXT_CHECK(!is_open(sequence));
    AOTX_TEXT_CHECK(tokens_max >= 1);
    AOTX_TEXT_CHECK(tokens_max <= shape_.sequence_tokens);
    const uint32_t pages_count = pages_for(tokens_max);
    if (pages_count > free_count_) {
        return false;
    }
    uint32_t* const list = page_lists_.get() + uint64_t{sequence} * list_pages_;
    for (uint32_t i = 0; i < pages_count; i++) {
        list[i] = free_[--free_count_];
    }
    rows_[sequence] = {tokens_max, 0, pages_count};
    return true;
}

void KvCache::close_sequence(uint32_t sequence) noexcept
{
    AOTX_TEXT_CHECK(sequence < shape_.sequences);
    AOTX_TEXT_CHECK(is_open(sequence));
    Row& row = rows_[sequence];
    const uint32_t* const list = pages(sequence);
    for (uint32_t i = row.pages_count; i > 0; i--) {
        free_[free_count_++] = list[i - 1];
    }
    AOTX_TEXT_CHECK(free_count_ <= shape_.pages);
    row = Row();
}

}  // namespace aotx
