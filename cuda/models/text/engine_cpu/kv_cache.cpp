// Purpose:  the memory of the CPU's keys and values.
// Owns:     see kv_cache.h.
// Thread:   see kv_cache.h.
// Lifetime: see kv_cache.h.
#include "engine_cpu/kv_cache.h"

#include "engine/memory.h"

namespace aotx {

namespace {

uint64_t stride_bytes(const KvShape& shape)
{
    return uint64_t{shape.layers} * shape.kv_heads * page_bytes(shape.head_size, shape.wide);
}

PagesShape pages_of(const KvShape& shape)
{
    return {shape.sequences, shape.pages, kKeyPageTokens, shape.sequence_tokens};
}

}  // namespace

KvCache::~KvCache()
{
    close();
}

uint64_t KvCache::allocation_bytes(const KvShape& shape) noexcept
{
    return shape.pages * stride_bytes(shape) + KvPages::allocation_bytes(pages_of(shape));
}

bool KvCache::open(const KvShape& shape) noexcept
{
    close();
    shape_ = shape;
    page_stride_bytes_ = stride_bytes(shape);
    pool_bytes_ = shape.pages * page_stride_bytes_;
    pool_ = memory_take(pool_bytes_);
    if (pool_ == nullptr || !KvPages::open(pages_of(shape))) {
        close();
        return false;
    }
    return true;
}

void KvCache::close() noexcept
{
    memory_free(pool_, pool_bytes_);
    pool_ = nullptr;
    pool_bytes_ = 0;
    KvPages::close();
}

}  // namespace aotx
