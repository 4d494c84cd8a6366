// Purpose:  camera frames to the image window; see image.h.
// Owns:     nothing.
// Thread:   any.
// Lifetime: not applicable.
#include "image.h"

#include <cmath>

namespace aotx::reach {
namespace {

// Where red, green and blue lie in one pixel.
struct PixelLayout {
    int32_t bytes;
    int32_t channel[3];
};

constexpr PixelLayout kLayouts[] = {
    {3, {0, 1, 2}},  // RGB8
    {3, {2, 1, 0}},  // BGR8
    {4, {0, 1, 2}},  // RGBA8
    {4, {2, 1, 0}},  // BGRA8
    {1, {0, 0, 0}},  // GRAY8
};

// The two source pixels around an output pixel and the weight of the second.
struct Between {
    int32_t first;
    int32_t second;
    float part;
};

Between between(uint32_t index, uint32_t count, int32_t source_count)
{
    const float scale = static_cast<float>(source_count) / static_cast<float>(count);
    const float at = (static_cast<float>(index) + 0.5f) * scale - 0.5f;
    const float floor = std::floor(at);
    const int32_t low = static_cast<int32_t>(floor);
    const int32_t last = source_count - 1;
    const int32_t first = low < 0 ? 0 : low;
    const int32_t second = low + 1 < 0 ? 0 : low + 1;
    return {first > last ? last : first, second > last ? last : second, at - floor};
}

int32_t stride_of(const frt_image_view& view)
{
    return view.stride_bytes == 0 ? view.width * kLayouts[view.pixel_format].bytes
                                  : view.stride_bytes;
}

}  // namespace

int image_check(const frt_image_view& view, uint32_t width_max, uint32_t height_max,
                const char** reason)
{
    if (view.struct_size < sizeof view || view.data == nullptr) {
        *reason = "a frame has a short struct_size or no pixels";
        return FRT_VERB_INVALID;
    }
    if (view.pixel_format > FRT_RT_PIXEL_GRAY8) {
        *reason = "a frame has an unknown pixel format";
        return FRT_VERB_SHAPE;
    }
    if (view.width < 1 || view.height < 1 || static_cast<uint32_t>(view.width) > width_max ||
        static_cast<uint32_t>(view.height) > height_max) {
        *reason = "a frame's width or height is out of range";
        return FRT_VERB_SHAPE;
    }
    const int64_t row_bytes = static_cast<int64_t>(view.width) * kLayouts[view.pixel_format].bytes;
    if (view.stride_bytes < 0 || (view.stride_bytes != 0 && view.stride_bytes < row_bytes)) {
        *reason = "a frame's stride is shorter than its rows";
        return FRT_VERB_SHAPE;
    }
    const uint64_t stride = static_cast<uint64_t>(stride_of(view));
    if (view.bytes < stride * static_cast<uint64_t>(view.height)) {
        *reason = "a frame holds fewer bytes than stride times height";
        return FRT_VERB_STORAGE;
    }
    return FRT_VERB_OK;
}

void image_resize(const frt_image_view& view, uint32_t side, float* to)
{
    const PixelLayout& layout = kLayouts[view.pixel_format];
    const uint8_t* pixels = static_cast<const uint8_t*>(view.data);
    const int64_t stride = stride_of(view);
    for (uint32_t y = 0; y < side; y++) {
        const Between rows = between(y, side, view.height);
        const uint8_t* upper = pixels + rows.first * stride;
        const uint8_t* lower = pixels + rows.second * stride;
        for (uint32_t x = 0; x < side; x++) {
            const Between columns = between(x, side, view.width);
            for (uint32_t channel = 0; channel < 3; channel++) {
                const int64_t left =
                    int64_t{columns.first} * layout.bytes + layout.channel[channel];
                const int64_t right =
                    int64_t{columns.second} * layout.bytes + layout.channel[channel];
                const float top = static_cast<float>(upper[left]) * (1.0f - columns.part) +
                                  static_cast<float>(upper[right]) * columns.part;
                const float bottom = static_cast<float>(lower[left]) * (1.0f - columns.part) +
                                     static_cast<float>(lower[right]) * columns.part;
                const float value = top * (1.0f - rows.part) + bottom * rows.part;
                to[(y * side + x) * 3 + channel] = value / 127.5f - 1.0f;
            }
        }
    }
}

}  // namespace aotx::reach
