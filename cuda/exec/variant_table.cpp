// Purpose:  the variant table; see variant_table.h.
// Owns:     see variant_table.h.
// Thread:   see variant_table.h.
// Lifetime: see variant_table.h.
#include "variant_table.h"

#include <cstdlib>
#include <new>

namespace aotx::exec {
namespace {

constexpr size_t kBucketsFirst = 16;

// Keys are often small numbers or multiples of a bucket size, so all bits must reach the low ones.
uint64_t mix(uint64_t key)
{
    key ^= key >> 33;
    key *= UINT64_C(0xff51afd7ed558ccd);
    key ^= key >> 33;
    key *= UINT64_C(0xc4ceb9fe1a85ec53);
    return key ^ (key >> 33);
}

}  // namespace

VariantTable::~VariantTable()
{
    while (oldest_ != nullptr) {
        remove(oldest_);
    }
    std::free(buckets_);
}

Variant** VariantTable::bucket(uint64_t key) const
{
    return &buckets_[mix(key) & (buckets_count_ - 1)];
}

Variant* VariantTable::find(uint64_t key) const
{
    if (count_ == 0) {
        return nullptr;
    }
    Variant* at = *bucket(key);
    while (at != nullptr && at->key != key) {
        at = at->bucket_next;
    }
    return at;
}

void VariantTable::use_unlink(Variant* variant)
{
    (variant->newer == nullptr ? newest_ : variant->newer->older) = variant->older;
    (variant->older == nullptr ? oldest_ : variant->older->newer) = variant->newer;
}

void VariantTable::use_link(Variant* variant)
{
    variant->newer = nullptr;
    variant->older = newest_;
    (newest_ == nullptr ? oldest_ : newest_->newer) = variant;
    newest_ = variant;
}

void VariantTable::touch(Variant* variant)
{
    if (variant == newest_) {
        return;
    }
    use_unlink(variant);
    use_link(variant);
}

bool VariantTable::grow()
{
    const size_t wanted = buckets_count_ == 0 ? kBucketsFirst : buckets_count_ * 2;
    Variant** buckets = static_cast<Variant**>(std::calloc(wanted, sizeof(Variant*)));
    if (buckets == nullptr) {
        return false;
    }
    std::free(buckets_);
    buckets_ = buckets;
    buckets_count_ = wanted;
    for (Variant* at = newest_; at != nullptr; at = at->older) {
        Variant** head = bucket(at->key);
        at->bucket_next = *head;
        *head = at;
    }
    return true;
}

Variant* VariantTable::insert(uint64_t key)
{
    if (count_ == buckets_count_ && !grow()) {
        return nullptr;
    }
    Variant* variant = new (std::nothrow) Variant{key, nullptr, false, nullptr, nullptr, nullptr};
    if (variant == nullptr) {
        return nullptr;
    }
    Variant** head = bucket(key);
    variant->bucket_next = *head;
    *head = variant;
    use_link(variant);
    count_++;
    return variant;
}

void VariantTable::remove(Variant* variant)
{
    Variant** at = bucket(variant->key);
    while (*at != variant) {
        at = &(*at)->bucket_next;
    }
    *at = variant->bucket_next;
    use_unlink(variant);
    count_--;
    delete variant;
}

}  // namespace aotx::exec
