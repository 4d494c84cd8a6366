// Purpose:  the small kernels around the matrix products: norms, gates, rotation, activation codes.
// Owns:     nothing.
// Thread:   any.
// Lifetime: not applicable.
#if defined(AOTX_VECTOR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef AOTX_VECTOR_INL_H_
#undef AOTX_VECTOR_INL_H_
#else
#define AOTX_VECTOR_INL_H_
#endif

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <cmath>
#include <cstring>

#include "cuda/kernels/cpu/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace aotx {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using WideTag = hn::CappedTag<float, 16>;
constexpr size_t kWideLanes = hn::MaxLanes(WideTag());

void Quantise(const float* x, uint32_t columns, ActivationBlock* out)
{
    const WideTag df;
    const hn::RebindToSigned<WideTag> di;
    const hn::Rebind<int8_t, WideTag> dbyte;
    constexpr size_t kHalfVectors = 16 / kWideLanes;
    for (uint32_t first = 0; first < columns; first += kCellColumns) {
        auto peak = hn::Zero(df);
        for (uint32_t i = 0; i < kCellColumns; i += kWideLanes) {
            peak = hn::Max(peak, hn::Abs(hn::LoadU(df, x + first + i)));
        }
        const float largest = hn::GetLane(hn::MaxOfLanes(df, peak));
        constexpr float kMax = static_cast<float>(kCodeMax);
        const float scale = largest / kMax;
        const float inverse = largest > 0.0f ? kMax / largest : 0.0f;
        const auto factor = hn::Set(df, inverse);
        const auto step = hn::Set(df, 1.0f / kPlaneStep);
        out->scale = scale;
        for (uint32_t half = 0; half < 2; half++) {
            auto sums = hn::Zero(di);
            for (size_t v = 0; v < kHalfVectors; v++) {
                const size_t at = 16 * half + v * kWideLanes;
                const auto codes = hn::NearestInt(hn::Mul(hn::LoadU(df, x + first + at), factor));
                const auto high = hn::NearestInt(hn::Mul(hn::ConvertTo(df, codes), step));
                const auto low = hn::Sub(codes, hn::Mul(high, hn::Set(di, kPlaneStep)));
                sums = hn::Add(sums, codes);
                hn::StoreU(hn::DemoteTo(dbyte, high), dbyte, out->high + at);
                hn::StoreU(hn::DemoteTo(dbyte, low), dbyte, out->low + at);
            }
            const int32_t code_sum = hn::GetLane(hn::SumOfLanes(di, sums));
            out->half_code_sum[half] = code_sum;
            out->half_sum[half] = scale * static_cast<float>(code_sum);
        }
        out->code_sum = out->half_code_sum[0] + out->half_code_sum[1];
        out->sum = scale * static_cast<float>(out->code_sum);
        std::memset(out->zero, 0, sizeof out->zero);
        out++;
    }
}

void RmsNorm(const float* x, const float* weight, uint32_t count, float epsilon, float* out)
{
    const WideTag df;
    auto squares = hn::Zero(df);
    uint32_t i = 0;
    for (; i + kWideLanes <= count; i += kWideLanes) {
        const auto value = hn::LoadU(df, x + i);
        squares = hn::MulAdd(value, value, squares);
    }
    float sum = hn::GetLane(hn::SumOfLanes(df, squares));
    for (; i < count; i++) {
        sum += x[i] * x[i];
    }
    const float factor = 1.0f / std::sqrt(sum / static_cast<float>(count) + epsilon);
    const auto factors = hn::Set(df, factor);
    for (i = 0; i + kWideLanes <= count; i += kWideLanes) {
        const auto scaled = hn::Mul(hn::LoadU(df, x + i), factors);
        hn::StoreU(hn::Mul(scaled, hn::LoadU(df, weight + i)), df, out + i);
    }
    for (; i < count; i++) {
        out[i] = x[i] * factor * weight[i];
    }
}

void SiluMultiply(float* gate, const float* up, uint32_t count)
{
    const WideTag df;
    const hn::CappedTag<float, 1> d1;
    const auto one = hn::Set(df, 1.0f);
    uint32_t i = 0;
    for (; i + kWideLanes <= count; i += kWideLanes) {
        const auto x = hn::LoadU(df, gate + i);
        const auto divisor = hn::Add(one, hn::Exp(df, hn::Neg(x)));
        hn::StoreU(hn::Mul(hn::Div(x, divisor), hn::LoadU(df, up + i)), df, gate + i);
    }
    for (; i < count; i++) {
        const auto x = hn::LoadU(d1, gate + i);
        const auto divisor = hn::Add(hn::Set(d1, 1.0f), hn::Exp(d1, hn::Neg(x)));
        hn::StoreU(hn::Mul(hn::Div(x, divisor), hn::LoadU(d1, up + i)), d1, gate + i);
    }
}

void Add(float* x, const float* bias, uint32_t count)
{
    const WideTag df;
    uint32_t i = 0;
    for (; i + kWideLanes <= count; i += kWideLanes) {
        hn::StoreU(hn::Add(hn::LoadU(df, x + i), hn::LoadU(df, bias + i)), df, x + i);
    }
    for (; i < count; i++) {
        x[i] += bias[i];
    }
}

void Rotate(float* head, const float* table, uint32_t pairs, bool split)
{
    for (uint32_t i = 0; i < pairs; i++) {
        float* const first = head + (split ? i : 2 * i);
        float* const second = split ? head + i + pairs : first + 1;
        const float cosine = table[2 * i];
        const float sine = table[2 * i + 1];
        const float x = *first;
        const float y = *second;
        *first = x * cosine - y * sine;
        *second = x * sine + y * cosine;
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace aotx
HWY_AFTER_NAMESPACE();

#endif  // include guard
