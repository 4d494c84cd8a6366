// Purpose:  the turns of rotary positions. Exact at every 32nd position, in between turned on in
// double precision, far below the last bit of a float.
// Owns:     nothing.
// Thread:   any.
// Lifetime: load time.
#include "engine/rope.h"

#include <cmath>

namespace aotx {

namespace {

constexpr uint32_t kRopeExactEvery = 32;

}  // namespace

void rope_fill(const ModelShape& shape, const float* factors, uint32_t positions,
               float* table) noexcept
{
    const uint32_t pairs = shape.rotated / 2;
    for (uint32_t i = 0; i < pairs; i++) {
        const double exponent = -2.0 * i / shape.rotated;
        double step = std::pow(static_cast<double>(shape.rope_base), exponent);
        step /= static_cast<double>(shape.rope_scale);
        if (factors != nullptr) {
            step /= static_cast<double>(factors[i]);
        }
        const double step_cosine = std::cos(step);
        const double step_sine = std::sin(step);
        double cosine = 1.0;
        double sine = 0.0;
        for (uint64_t position = 0; position < positions; position++) {
            if (position % kRopeExactEvery == 0) {
                cosine = std::cos(step * static_cast<double>(position));
                sine = std::sin(step * static_cast<double>(position));
            }
            float* const at = table + 2 * (position * pairs + i);
            at[0] = static_cast<float>(cosine);
            at[1] = static_cast<float>(sine);
            const double turned = cosine * step_cosine - sine * step_sine;
            sine = cosine * step_sine + sine * step_cosine;
            cosine = turned;
        }
    }
}

}  // namespace aotx
