// Purpose:  softmax attention over paged keys and values, compiled once per instruction set.
// Owns:     nothing.
// Thread:   any.
// Lifetime: not applicable.
//
// Keys of a page are stored transposed, so that a vector lane is one key in the scores and one
// element of the value in the sums: nothing is summed across lanes except the softmax divisor.
#if defined(AOTX_ATTEND_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef AOTX_ATTEND_INL_H_
#undef AOTX_ATTEND_INL_H_
#else
#define AOTX_ATTEND_INL_H_
#endif

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <limits>

#include "cuda/kernels/cpu/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace aotx {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using KeyTag = hn::CappedTag<float, 16>;
using KeyVec = hn::Vec<KeyTag>;
constexpr size_t kKeyLanes = hn::MaxLanes(KeyTag());
constexpr size_t kKeyVectors = kKeyPageTokens / kKeyLanes;
constexpr uint32_t kAttendRows = kKeyVectors <= 2 ? 4 : (kKeyVectors <= 4 ? 3 : 1);

template <bool kWide, class D>
HWY_INLINE hn::Vec<D> LoadElements(D df, const uint8_t* base, size_t index)
{
    if constexpr (kWide) {
        return hn::LoadU(df, reinterpret_cast<const float*>(base) + index);
    } else {
        const hn::Rebind<hwy::float16_t, D> dh;
        return hn::PromoteTo(df,
                             hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(base) + index));
    }
}

// Scores of kRows queries against the 32 keys of one page.
template <bool kWide, uint32_t kRows>
HWY_INLINE void PageScores(const AttendInput& in, uint32_t first, const uint8_t* page,
                           float* scores, size_t stride)
{
    const KeyTag df;
    KeyVec sum[kRows][kKeyVectors];
    for (uint32_t r = 0; r < kRows; r++) {
        for (size_t v = 0; v < kKeyVectors; v++) {
            sum[r][v] = hn::Zero(df);
        }
    }
    for (uint32_t d = 0; d < in.head_size; d++) {
        KeyVec keys[kKeyVectors];
        for (size_t v = 0; v < kKeyVectors; v++) {
            keys[v] = LoadElements<kWide>(df, page, d * kKeyPageTokens + v * kKeyLanes);
        }
        for (uint32_t r = 0; r < kRows; r++) {
            const KeyVec query = hn::Set(df, in.queries[first + r][d]);
            for (size_t v = 0; v < kKeyVectors; v++) {
                sum[r][v] = hn::MulAdd(keys[v], query, sum[r][v]);
            }
        }
    }
    for (uint32_t r = 0; r < kRows; r++) {
        for (size_t v = 0; v < kKeyVectors; v++) {
            hn::StoreU(sum[r][v], df, scores + r * stride + v * kKeyLanes);
        }
    }
}

// Turn scores into weights in place; all from count to padded becomes 0. Returns the divisor.
HWY_INLINE float SoftmaxRow(float* scores, uint32_t count, uint32_t padded)
{
    const KeyTag df;
    const uint32_t own = (count + kKeyPageTokens - 1) / kKeyPageTokens * kKeyPageTokens;
    for (uint32_t i = count; i < own; i++) {
        scores[i] = -std::numeric_limits<float>::infinity();
    }
    auto peak = hn::LoadU(df, scores);
    for (uint32_t i = kKeyLanes; i < own; i += kKeyLanes) {
        peak = hn::Max(peak, hn::LoadU(df, scores + i));
    }
    const auto largest = hn::MaxOfLanes(df, peak);
    auto sum = hn::Zero(df);
    for (uint32_t i = 0; i < own; i += kKeyLanes) {
        const auto weight = hn::Exp(df, hn::Sub(hn::LoadU(df, scores + i), largest));
        sum = hn::Add(sum, weight);
        hn::StoreU(weight, df, scores + i);
    }
    for (uint32_t i = own; i < padded; i++) {
        scores[i] = 0.0f;
    }
    return hn::GetLane(hn::SumOfLanes(df, sum));
}

// Weighted sums of kVecs vectors of value elements from `element` on, over all keys.
template <bool kWide, uint32_t kRows, class D, size_t kVecs>
HWY_INLINE void ValueSums(D df, const AttendInput& in, uint32_t first, uint32_t element,
                          uint32_t pages, const float* weights, size_t stride,
                          const float* divisors)
{
    constexpr size_t kLanes = hn::MaxLanes(D());
    hn::Vec<D> sum[kRows][kVecs];
    for (uint32_t r = 0; r < kRows; r++) {
        for (size_t v = 0; v < kVecs; v++) {
            sum[r][v] = hn::Zero(df);
        }
    }
    constexpr size_t kElementBytes = kWide ? 4 : 2;
    const size_t keys_bytes = size_t{kKeyPageTokens} * in.head_size * kElementBytes;
    for (uint32_t p = 0; p < pages; p++) {
        const uint8_t* const page = in.pool + in.pages[p] * in.page_stride_bytes + keys_bytes;
        for (uint32_t k = 0; k < kKeyPageTokens; k++) {
            hn::Vec<D> value[kVecs];
            for (size_t v = 0; v < kVecs; v++) {
                const size_t index = size_t{k} * in.head_size + element + v * kLanes;
                value[v] = LoadElements<kWide>(df, page, index);
            }
            for (uint32_t r = 0; r < kRows; r++) {
                const auto weight = hn::Set(df, weights[r * stride + p * kKeyPageTokens + k]);
                for (size_t v = 0; v < kVecs; v++) {
                    sum[r][v] = hn::MulAdd(value[v], weight, sum[r][v]);
                }
            }
        }
    }
    for (uint32_t r = 0; r < kRows; r++) {
        const auto inverse = hn::Set(df, 1.0f / divisors[r]);
        for (size_t v = 0; v < kVecs; v++) {
            hn::StoreU(hn::Mul(sum[r][v], inverse), df,
                       in.outputs[first + r] + element + v * kLanes);
        }
    }
}

template <bool kWide, uint32_t kRows>
HWY_NOINLINE void AttendTile(const AttendInput& in, uint32_t first)
{
    uint32_t keys_max = 0;
    for (uint32_t r = 0; r < kRows; r++) {
        keys_max = HWY_MAX(keys_max, in.keys_counts[first + r]);
    }
    const uint32_t pages = (keys_max + kKeyPageTokens - 1) / kKeyPageTokens;
    const uint32_t padded = pages * kKeyPageTokens;
    for (uint32_t p = 0; p < pages; p++) {
        const uint8_t* const page = in.pool + in.pages[p] * in.page_stride_bytes;
        PageScores<kWide, kRows>(in, first, page, in.scratch + p * kKeyPageTokens, padded);
    }
    float divisors[kRows];
    for (uint32_t r = 0; r < kRows; r++) {
        divisors[r] =
            SoftmaxRow(in.scratch + size_t{r} * padded, in.keys_counts[first + r], padded);
    }
    constexpr uint32_t kWideElements = kKeyPageTokens;
    uint32_t element = 0;
    for (; element + kWideElements <= in.head_size; element += kWideElements) {
        ValueSums<kWide, kRows, KeyTag, kKeyVectors>(KeyTag(), in, first, element, pages,
                                                     in.scratch, padded, divisors);
    }
    using SmallTag = hn::CappedTag<float, 8>;
    constexpr size_t kSmallVectors = 8 / hn::MaxLanes(SmallTag());
    for (; element < in.head_size; element += 8) {
        ValueSums<kWide, kRows, SmallTag, kSmallVectors>(SmallTag(), in, first, element, pages,
                                                         in.scratch, padded, divisors);
    }
}

template <bool kWide>
void AttendAll(const AttendInput& in)
{
    uint32_t first = 0;
    while (first < in.rows) {
        const uint32_t left = in.rows - first;
        if (kAttendRows >= 4 && left >= 4) {
            AttendTile<kWide, kAttendRows >= 4 ? 4 : 1>(in, first);
            first += 4;
        } else if (kAttendRows >= 3 && left >= 3) {
            AttendTile<kWide, kAttendRows >= 3 ? 3 : 1>(in, first);
            first += 3;
        } else if (kAttendRows >= 2 && left >= 2) {
            AttendTile<kWide, kAttendRows >= 2 ? 2 : 1>(in, first);
            first += 2;
        } else {
            AttendTile<kWide, 1>(in, first);
            first += 1;
        }
    }
}

void Attend(const AttendInput& in)
{
    if (in.wide) {
        AttendAll<true>(in);
    } else {
        AttendAll<false>(in);
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace aotx
HWY_AFTER_NAMESPACE();

#endif  // include guard
