// Purpose:  camera frames to the network's image window: every pixel format, any size and stride.
// Owns:     nothing.
// Thread:   any; windows are the caller's.
// Lifetime: not applicable.
#pragma once

#include <cstdint>

#include "flashrt/model_runtime.h"

namespace aotx::reach {

// Check one frame. 0, or the verb code and a static text that tells what is wrong:
// -1 struct_size below 48 or no pixels; -4 unknown format, a dimension that is not 1..side_max, a
// stride that is negative or shorter than a row; -5 fewer bytes than stride * height.
int image_check(const frt_image_view& view, uint32_t width_max, uint32_t height_max,
                const char** reason);

// Resize a checked frame to side x side RGB: bilinear with half-pixel centres, edges clamped, each
// value v / 127.5 - 1. to: f32 [side, side, 3]. GRAY8 gives three equal values; alpha is dropped.
// [hot] [no allocation]
void image_resize(const frt_image_view& view, uint32_t side, float* to);

}  // namespace aotx::reach
