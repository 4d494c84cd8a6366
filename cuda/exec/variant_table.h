// Purpose:  the variants of one graph under exact keys, with the order of their last use.
// Owns:     its rows and buckets; executables belong to the graph.
// Thread:   one at a time.
// Lifetime: that of its graph.
#pragma once

#include <cstddef>
#include <cstdint>

namespace aotx::exec {

struct Variant {
    uint64_t key;
    void* executable;
    bool adopted;
    Variant* bucket_next;
    Variant* newer;
    Variant* older;
};

// A hash table with a chain from the most to the least recently used row. find, touch and remove
// take constant time; touch allocates nothing.
class VariantTable {
public:
    VariantTable() = default;
    ~VariantTable();
    VariantTable(const VariantTable&) = delete;
    VariantTable& operator=(const VariantTable&) = delete;

    // nullptr: no such key. [hot]
    Variant* find(uint64_t key) const;
    // Make a row the most recent one. [hot]
    void touch(Variant* variant);
    // A new row for a key that is not there, as the most recent one. nullptr: no memory.
    Variant* insert(uint64_t key);
    // Take a row out and free it.
    void remove(Variant* variant);
    // nullptr when empty.
    Variant* oldest() const { return oldest_; }
    size_t count() const { return count_; }

private:
    bool grow();
    void use_unlink(Variant* variant);
    void use_link(Variant* variant);
    Variant** bucket(uint64_t key) const;

    Variant** buckets_ = nullptr;
    size_t buckets_count_ = 0;  // a power of two, at least as many as rows
    size_t count_ = 0;
    Variant* newest_ = nullptr;
    Variant* oldest_ = nullptr;
};

}  // namespace aotx::exec
