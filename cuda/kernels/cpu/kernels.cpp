// Purpose:  compile the kernels for every instruction set and choose one table at run time.
// Owns:     one static table per instruction set.
// Thread:   any.
// Lifetime: the whole process.
#include "cuda/kernels/cpu/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cuda/kernels/cpu/kernels.cpp"
#include <hwy/foreach_target.h>
// The rest needs the line above to be first.
#include <hwy/highway.h>

#include "cuda/kernels/cpu/attend-inl.h"
#include "cuda/kernels/cpu/matmul_float-inl.h"
#include "cuda/kernels/cpu/matmul_quantised-inl.h"
#include "cuda/kernels/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace aotx {
namespace HWY_NAMESPACE {

const KernelTable* Table()
{
    static const KernelTable table = {
        hwy::TargetName(HWY_TARGET),
        &Quantise,
        &MatmulQuantised,
        &MatmulFloat,
        &RmsNorm,
        &SiluMultiply,
        &Add,
        &Rotate,
        &Attend,
    };
    return &table;
}

}  // namespace HWY_NAMESPACE
}  // namespace aotx
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <cfloat>
#include <cstring>

#include "cuda/kernels/cpu/check.h"

namespace aotx {

HWY_EXPORT(Table);

const KernelTable& kernel_table()
{
    return *HWY_DYNAMIC_DISPATCH(Table)();
}

namespace {

// Comparisons that are false for not-a-number choose the lower bound.
float clamp(float value, float limit)
{
    const float raised = value > -limit ? value : -limit;
    return raised < limit ? raised : limit;
}

}  // namespace

void page_store(uint8_t* page, uint32_t head_size, uint32_t slot, const float* key,
                const float* value, bool wide)
{
    AOTX_KERNEL_CHECK(slot < kKeyPageTokens);
    constexpr float kHalfMax = 65504.0f;
    const size_t values_at = size_t{kKeyPageTokens} * head_size;
    for (size_t d = 0; d < head_size; d++) {
        const size_t key_at = d * kKeyPageTokens + slot;
        const size_t value_at = values_at + size_t{slot} * head_size + d;
        if (wide) {
            const float pair[2] = {clamp(key[d], FLT_MAX), clamp(value[d], FLT_MAX)};
            std::memcpy(page + 4 * key_at, &pair[0], 4);
            std::memcpy(page + 4 * value_at, &pair[1], 4);
            continue;
        }
        const uint16_t pair[2] = {half_from_float(clamp(key[d], kHalfMax)),
                                  half_from_float(clamp(value[d], kHalfMax))};
        std::memcpy(page + 2 * key_at, &pair[0], 2);
        std::memcpy(page + 2 * value_at, &pair[1], 2);
    }
}

}  // namespace aotx
#endif  // HWY_ONCE
