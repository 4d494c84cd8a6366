// Purpose:  join neighbouring symbols, best pair first, until no pair is left: the heart of both
//           tokenizers. Short words by a scan, long ones by a heap, so that no text is quadratic.
// Owns:     nothing; works in the arrays of a TokenizerScratchMemory.
// Thread:   any, one scratch each.
// Lifetime: one word.
#pragma once

#include "tokenizer/tokenizer_tables.h"

namespace aotx {

// Symbols 0..count-1 are in scratch (symbol, begin); text_end is where the last one's text ends.
// Pairs is a callable (left index, right index, text end of right, *result) -> rank, or kNoRank.
template <typename Pairs>
class Merger {
public:
    Merger(TokenizerScratchMemory* scratch, uint32_t count, uint32_t text_end,
           const Pairs& pairs) noexcept
        : s_(scratch), count_(count), text_end_(text_end), pairs_(pairs)
    {
    }

    // Afterwards the symbols left are 0, next[0], next[next[0]], ... up to kNoIndex.
    void run() noexcept
    {
        for (uint32_t i = 0; i < count_; i++) {
            s_->previous[i] = i == 0 ? kNoIndex : i - 1;
            s_->next[i] = i + 1 == count_ ? kNoIndex : i + 1;
        }
        for (uint32_t i = 0; i < count_; i++) {
            look(i);
        }
        if (count_ <= kScanMax) {
            run_scan();
        } else {
            run_heap();
        }
    }

private:
    static constexpr uint32_t kScanMax = 24;

    uint32_t text_end_of(uint32_t index) const noexcept
    {
        const uint32_t next = s_->next[index];
        return next == kNoIndex ? text_end_ : s_->begin[next];
    }

    void look(uint32_t left) noexcept
    {
        const uint32_t right = s_->next[left];
        s_->rank[left] = kNoRank;
        if (right != kNoIndex) {
            s_->rank[left] = pairs_(left, right, text_end_of(right), &s_->result[left]);
        }
    }

    // Joins left with its next symbol, which leaves the chain. Returns the one that left.
    uint32_t join(uint32_t left) noexcept
    {
        const uint32_t right = s_->next[left];
        s_->symbol[left] = s_->result[left];
        s_->next[left] = s_->next[right];
        if (s_->next[left] != kNoIndex) {
            s_->previous[s_->next[left]] = left;
        }
        return right;
    }

    void run_scan() noexcept
    {
        for (;;) {
            uint32_t best = kNoIndex;
            uint32_t best_rank = kNoRank;
            for (uint32_t i = 0; i != kNoIndex; i = s_->next[i]) {
                if (s_->rank[i] < best_rank) {
                    best = i;
                    best_rank = s_->rank[i];
                }
            }
            if (best == kNoIndex) {
                return;
            }
            join(best);
            look(best);
            if (s_->previous[best] != kNoIndex) {
                look(s_->previous[best]);
            }
        }
    }

    bool before(uint32_t a, uint32_t b) const noexcept
    {
        return s_->rank[a] != s_->rank[b] ? s_->rank[a] < s_->rank[b] : a < b;
    }

    void place(uint32_t at, uint32_t index) noexcept
    {
        s_->heap[at] = index;
        s_->heap_place[index] = at;
    }

    void sift_up(uint32_t at) noexcept
    {
        const uint32_t index = s_->heap[at];
        while (at > 0) {
            const uint32_t parent = (at - 1) / 2;
            if (!before(index, s_->heap[parent])) {
                break;
            }
            place(at, s_->heap[parent]);
            at = parent;
        }
        place(at, index);
    }

    void sift_down(uint32_t at) noexcept
    {
        const uint32_t index = s_->heap[at];
        for (;;) {
            uint32_t child = 2 * at + 1;
            if (child >= heap_count_) {
                break;
            }
            if (child + 1 < heap_count_ && before(s_->heap[child + 1], s_->heap[child])) {
                child++;
            }
            if (!before(s_->heap[child], index)) {
                break;
            }
            place(at, s_->heap[child]);
            at = child;
        }
        place(at, index);
    }

    void remove(uint32_t index) noexcept
    {
        const uint32_t at = s_->heap_place[index];
        if (at == kNoIndex) {
            return;
        }
        s_->heap_place[index] = kNoIndex;
        heap_count_--;
        if (at == heap_count_) {
            return;
        }
        place(at, s_->heap[heap_count_]);
        sift_down(at);
        sift_up(s_->heap_place[s_->heap[at]]);
    }

    // The pair that begins at index has changed: put it where its rank belongs.
    void refresh(uint32_t index) noexcept
    {
        remove(index);
        look(index);
        if (s_->rank[index] == kNoRank) {
            return;
        }
        place(heap_count_, index);
        heap_count_++;
        sift_up(heap_count_ - 1);
    }

    void run_heap() noexcept
    {
        heap_count_ = 0;
        for (uint32_t i = 0; i < count_; i++) {
            s_->heap_place[i] = kNoIndex;
            if (s_->rank[i] != kNoRank) {
                place(heap_count_, i);
                heap_count_++;
            }
        }
        for (uint32_t at = heap_count_ / 2; at > 0; at--) {
            sift_down(at - 1);
        }
        while (heap_count_ > 0) {
            const uint32_t best = s_->heap[0];
            remove(s_->next[best]);
            join(best);
            refresh(best);
            if (s_->previous[best] != kNoIndex) {
                refresh(s_->previous[best]);
            }
        }
    }

    TokenizerScratchMemory* const s_;
    const uint32_t count_;
    const uint32_t text_end_;
    const Pairs& pairs_;
    uint32_t heap_count_ = 0;
};

}  // namespace aotx
