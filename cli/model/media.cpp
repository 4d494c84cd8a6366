// Purpose:  PNG and number payloads; see media.h.
// Owns:     nothing.
// Thread:   main.
// Lifetime: not applicable.
#include "cli/model/media.h"

#include <errno.h>
#include <png.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "cli/failure.h"
#include "cli/model/bytes.h"
#include "flashrt/model_runtime.h"

namespace aotx::cli {
namespace {

constexpr uint32_t kSideMax = 16384;

std::string number_text(std::string_view bytes, uint32_t dtype)
{
    char text[32];
    switch (dtype) {
        case FRT_RT_DTYPE_U8:
            return std::to_string(static_cast<uint8_t>(bytes[0]));
        case FRT_RT_DTYPE_I32:
            return std::to_string(value_at<int32_t>(bytes, 0));
        case FRT_RT_DTYPE_I64:
            return std::to_string(value_at<int64_t>(bytes, 0));
        case FRT_RT_DTYPE_F32:
            std::snprintf(text, sizeof text, "%.9g",
                          static_cast<double>(value_at<float>(bytes, 0)));
            return text;
        case FRT_RT_DTYPE_F16:
            std::snprintf(text, sizeof text, "%.5g",
                          static_cast<double>(float_of_half(value_at<uint16_t>(bytes, 0))));
            return text;
        default:
            std::snprintf(text, sizeof text, "%.4g",
                          static_cast<double>(float_of_brain(value_at<uint16_t>(bytes, 0))));
            return text;
    }
}

uint32_t png_format(uint32_t channels)
{
    return channels == 1 ? PNG_FORMAT_GRAY : channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_RGBA;
}

size_t element_bytes(uint32_t dtype)
{
    constexpr size_t bytes[] = {1, 4, 2, 2, 4, 8};
    return dtype <= FRT_RT_DTYPE_I64 ? bytes[dtype] : 1;
}

// The range of an integer type; false for the others.
bool integer_range(uint32_t dtype, int64_t* low, int64_t* high)
{
    *low = dtype == FRT_RT_DTYPE_U8 ? 0 : dtype == FRT_RT_DTYPE_I32 ? INT32_MIN : INT64_MIN;
    *high = dtype == FRT_RT_DTYPE_U8    ? UINT8_MAX
            : dtype == FRT_RT_DTYPE_I32 ? INT32_MAX
                                        : INT64_MAX;
    return dtype == FRT_RT_DTYPE_U8 || dtype == FRT_RT_DTYPE_I32 || dtype == FRT_RT_DTYPE_I64;
}

void append_integer(std::string* bytes, int64_t value, uint32_t dtype)
{
    if (dtype == FRT_RT_DTYPE_U8) {
        append_value(bytes, static_cast<uint8_t>(value));
    } else if (dtype == FRT_RT_DTYPE_I32) {
        append_value(bytes, static_cast<int32_t>(value));
    } else {
        append_value(bytes, value);
    }
}

void append_real(std::string* bytes, float value, uint32_t dtype)
{
    if (dtype == FRT_RT_DTYPE_F32) {
        append_value(bytes, value);
    } else {
        append_value(bytes,
                     dtype == FRT_RT_DTYPE_F16 ? half_of_float(value) : brain_of_float(value));
    }
}

}  // namespace

float float_of_half(uint16_t half)
{
    const int exponent = (half >> 10) & 31;
    const float fraction = static_cast<float>(half & 1023) / 1024.0f;
    float value =
        exponent == 0 ? std::ldexp(fraction, -14) : std::ldexp(1.0f + fraction, exponent - 15);
    if (exponent == 31) {
        value = fraction == 0 ? INFINITY : NAN;
    }
    return (half & 0x8000) != 0 ? -value : value;
}

float float_of_brain(uint16_t brain)
{
    const uint32_t word = static_cast<uint32_t>(brain) << 16;
    float value = 0;
    std::memcpy(&value, &word, sizeof value);
    return value;
}

uint16_t half_of_float(float value)
{
    uint32_t word = 0;
    std::memcpy(&word, &value, sizeof word);
    const uint32_t sign = (word >> 16) & 0x8000;
    const uint32_t magnitude = word & 0x7fffffff;
    if (magnitude > 0x7f800000) {
        return static_cast<uint16_t>(sign | 0x7e00);  // not a number
    }
    if (magnitude >= 0x477ff000) {
        return static_cast<uint16_t>(sign | 0x7c00);  // rounds beyond 65504
    }
    if (magnitude < 0x38800000) {
        // Below 2^-14 halves step by 2^-24.
        const float steps = std::nearbyint(std::fabs(value) * 16777216.0f);
        return static_cast<uint16_t>(sign | static_cast<uint32_t>(steps));
    }
    const uint32_t rounded = magnitude + 0xfff + ((magnitude >> 13) & 1);
    return static_cast<uint16_t>(sign | ((rounded - 0x38000000) >> 13));
}

uint16_t brain_of_float(float value)
{
    uint32_t word = 0;
    std::memcpy(&word, &value, sizeof word);
    if ((word & 0x7fffffff) > 0x7f800000) {
        return static_cast<uint16_t>((word >> 16) | 0x40);  // stays not a number
    }
    return static_cast<uint16_t>((word + 0x7fff + ((word >> 16) & 1)) >> 16);
}

Picture png_read(std::string_view bytes, uint32_t channels, const std::string& what)
{
    png_image image = {};
    image.version = PNG_IMAGE_VERSION;
    if (png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()) == 0) {
        throw Failure(kExitInput, what + ": " + image.message);
    }
    image.format = png_format(channels);
    if (image.width > kSideMax || image.height > kSideMax) {
        png_image_free(&image);
        throw Failure(kExitInput, what + ": the picture is larger than 16384 pixels a side");
    }
    Picture picture = {image.width, image.height, std::string(PNG_IMAGE_SIZE(image), '\0')};
    if (png_image_finish_read(&image, nullptr, picture.pixels.data(), 0, nullptr) == 0) {
        throw Failure(kExitInput, what + ": " + image.message);
    }
    return picture;
}

std::string png_write(uint32_t width, uint32_t height, uint32_t channels, std::string_view pixels)
{
    png_image image = {};
    image.version = PNG_IMAGE_VERSION;
    image.width = width;
    image.height = height;
    image.format = png_format(channels);
    if (pixels.size() < PNG_IMAGE_SIZE(image)) {
        throw Failure(kExitInput, "there are fewer pixels than width times height");
    }
    png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
    std::string bytes(size, '\0');
    if (png_image_write_to_memory(&image, bytes.data(), &size, 0, pixels.data(), 0, nullptr) == 0) {
        throw Failure(kExitInternal, std::string("no PNG: ") + image.message);
    }
    bytes.resize(size);
    return bytes;
}

std::string numbers_read(const std::string& text, uint32_t dtype, const std::string& what)
{
    std::string bytes;
    int64_t low = 0;
    int64_t high = 0;
    const bool is_integer = integer_range(dtype, &low, &high);
    const char* at = text.c_str();
    while (*at != '\0') {
        char* end = nullptr;
        errno = 0;
        const long long whole = is_integer ? std::strtoll(at, &end, 10) : 0;
        const float real = is_integer ? 0.0f : std::strtof(at, &end);
        if (end == at || (*end != '\0' && *end != ',')) {
            throw Failure(kExitUsage, what + ": '" + at + "' does not begin with " +
                                          (is_integer ? "a whole number" : "a number"));
        }
        if (is_integer && (errno == ERANGE || whole < low || whole > high)) {
            throw Failure(kExitUsage, what + ": '" + at + "' begins with a number outside " +
                                          std::to_string(low) + " to " + std::to_string(high));
        }
        is_integer ? append_integer(&bytes, whole, dtype) : append_real(&bytes, real, dtype);
        at = *end == ',' ? end + 1 : end;
    }
    return bytes;
}

std::string numbers_text(std::string_view bytes, uint32_t dtype, uint64_t row_elements)
{
    std::string text;
    const size_t each = element_bytes(dtype);
    for (size_t at = 0; (at + 1) * each <= bytes.size(); at++) {
        const bool new_row = at > 0 && row_elements != 0 && at % row_elements == 0;
        text += at == 0 ? "" : new_row ? "\n" : ", ";
        text += number_text(bytes.substr(at * each), dtype);
    }
    return text;
}

}  // namespace aotx::cli
