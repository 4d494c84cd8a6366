// Purpose:  keys and values of all sequences on the CPU, in pages of 32 tokens from one fixed pool.
// Owns:     the pool, beside what KvPages owns.
// Thread:   as KvPages; the addresses of pages may be used by any worker of the step that it runs.
// Lifetime: open -> sequences -> close.
#pragma once

#include <cstdint>

#include "cuda/kernels/cpu/kernels.h"
#include "engine/kv_pages.h"

namespace aotx {

struct KvShape {
    uint32_t layers = 0;
    uint32_t kv_heads = 0;
    uint32_t head_size = 0;
    bool wide = false;  // f32 instead of f16
    uint32_t sequences = 0;
    uint32_t pages = 0;
    uint32_t sequence_tokens = 0;  // most tokens of one sequence
};

class KvCache : public KvPages {
public:
    KvCache() noexcept = default;
    ~KvCache();
    KvCache(const KvCache&) = delete;
    KvCache& operator=(const KvCache&) = delete;

    // Take all memory. False when there is not enough.
    [[nodiscard]] bool open(const KvShape& shape) noexcept;
    void close() noexcept;

    // What open would take, bytes.
    static uint64_t allocation_bytes(const KvShape& shape) noexcept;

    // Where page 0 of one layer and head lies, and how far the next page is.
    uint8_t* base(uint32_t layer, uint32_t kv_head) const noexcept
    {
        const uint64_t index = uint64_t{layer} * shape_.kv_heads + kv_head;
        return pool_ + index * page_bytes(shape_.head_size, shape_.wide);
    }
    uint64_t page_stride_bytes() const noexcept { return page_stride_bytes_; }
    bool wide() const noexcept { return shape_.wide; }

private:
    KvShape shape_;
    uint64_t page_stride_bytes_ = 0;
    uint8_t* pool_ = nullptr;
    uint64_t pool_bytes_ = 0;
};

}  // namespace aotx
