// Purpose:  PNG, WAV and number payloads; see media.h.
// Owns:     nothing.
// Thread:   main.
// Lifetime: not applicable.
#include "cli/model/media.h"

#include <png.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "cli/failure.h"
#include "flashrt/model_runtime.h"

namespace aotx::cli {
namespace {

constexpr uint32_t kSideMax = 16384;
constexpr uint16_t kWavPcm = 1;
constexpr uint16_t kWavFloat = 3;
constexpr uint16_t kWavExtensible = 0xfffe;

template <typename Value>
Value read_value(std::string_view bytes, size_t at)
{
    Value value = {};
    std::memcpy(&value, bytes.data() + at, sizeof value);
    return value;
}

template <typename Value>
void append(std::string* bytes, Value value)
{
    bytes->append(reinterpret_cast<const char*>(&value), sizeof value);
}

// One chunk of a RIFF file by its four letters; empty when absent or cut.
std::string_view wav_chunk(std::string_view bytes, std::string_view name)
{
    size_t at = 12;
    while (at + 8 <= bytes.size()) {
        const uint32_t chunk_bytes = read_value<uint32_t>(bytes, at + 4);
        if (chunk_bytes > bytes.size() - at - 8) {
            return {};
        }
        if (bytes.substr(at, 4) == name) {
            return bytes.substr(at + 8, chunk_bytes);
        }
        at += 8 + size_t{chunk_bytes} + chunk_bytes % 2;
    }
    return {};
}

// Sample `index` of PCM data as -1..1.
float wav_sample(std::string_view data, size_t index, uint32_t sample_bytes, bool is_float)
{
    const char* at = data.data() + index * sample_bytes;
    if (is_float) {
        float value = 0;
        std::memcpy(&value, at, sizeof value);
        return value;
    }
    if (sample_bytes == 1) {
        return (static_cast<float>(static_cast<uint8_t>(*at)) - 128.0f) / 128.0f;
    }
    uint32_t word = 0;
    std::memcpy(reinterpret_cast<char*>(&word) + (4 - sample_bytes), at, sample_bytes);
    return static_cast<float>(static_cast<int32_t>(word)) / 2147483648.0f;
}

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

std::string number_text(std::string_view bytes, uint32_t dtype)
{
    char text[32];
    switch (dtype) {
        case FRT_RT_DTYPE_U8:
            return std::to_string(static_cast<uint8_t>(bytes[0]));
        case FRT_RT_DTYPE_I32:
            return std::to_string(read_value<int32_t>(bytes, 0));
        case FRT_RT_DTYPE_I64:
            return std::to_string(read_value<int64_t>(bytes, 0));
        case FRT_RT_DTYPE_F32:
            std::snprintf(text, sizeof text, "%.9g",
                          static_cast<double>(read_value<float>(bytes, 0)));
            return text;
        case FRT_RT_DTYPE_F16:
            std::snprintf(text, sizeof text, "%.5g",
                          static_cast<double>(float_of_half(read_value<uint16_t>(bytes, 0))));
            return text;
        default:
            std::snprintf(text, sizeof text, "%.4g",
                          static_cast<double>(float_of_brain(read_value<uint16_t>(bytes, 0))));
            return text;
    }
}

size_t element_bytes(uint32_t dtype)
{
    constexpr size_t bytes[] = {1, 4, 2, 2, 4, 8};
    return dtype <= FRT_RT_DTYPE_I64 ? bytes[dtype] : 1;
}

void append_number(std::string* bytes, double value, int64_t whole, uint32_t dtype)
{
    const float real = static_cast<float>(value);
    uint32_t word = 0;
    std::memcpy(&word, &real, sizeof word);
    switch (dtype) {
        case FRT_RT_DTYPE_U8:
            append(bytes, static_cast<uint8_t>(whole));
            return;
        case FRT_RT_DTYPE_I32:
            append(bytes, static_cast<int32_t>(whole));
            return;
        case FRT_RT_DTYPE_I64:
            append(bytes, whole);
            return;
        case FRT_RT_DTYPE_F32:
            append(bytes, real);
            return;
        default:
            append(bytes, static_cast<uint16_t>(word >> 16));  // BF16, cut
    }
}

}  // namespace

Picture png_read(std::string_view bytes, const std::string& what)
{
    png_image image = {};
    image.version = PNG_IMAGE_VERSION;
    if (png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()) == 0) {
        throw Failure(kExitInput, what + ": " + image.message);
    }
    image.format = PNG_FORMAT_RGB;
    if (image.width > kSideMax || image.height > kSideMax) {
        png_image_free(&image);
        throw Failure(kExitInput, what + ": the picture is larger than 16384 pixels a side");
    }
    Picture picture = {image.width, image.height, std::string(PNG_IMAGE_SIZE(image), '\0')};
    if (png_image_finish_read(&image, nullptr, picture.rgb.data(), 0, nullptr) == 0) {
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
    image.format = channels == 1   ? PNG_FORMAT_GRAY
                   : channels == 3 ? PNG_FORMAT_RGB
                                   : PNG_FORMAT_RGBA;
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

std::string wav_read(std::string_view bytes, const std::string& what)
{
    if (bytes.size() < 12 || bytes.substr(0, 4) != "RIFF" || bytes.substr(8, 4) != "WAVE") {
        throw Failure(kExitInput, what + ": this is no WAV file");
    }
    const std::string_view format = wav_chunk(bytes, "fmt ");
    const std::string_view data = wav_chunk(bytes, "data");
    if (format.size() < 16) {
        throw Failure(kExitInput, what + ": the WAV file has no format");
    }
    uint16_t kind = read_value<uint16_t>(format, 0);
    if (kind == kWavExtensible && format.size() >= 26) {
        kind = read_value<uint16_t>(format, 24);
    }
    const uint16_t bits = read_value<uint16_t>(format, 14);
    const bool is_float = kind == kWavFloat && bits == 32;
    const bool is_pcm = kind == kWavPcm && (bits == 8 || bits == 16 || bits == 24 || bits == 32);
    if (!is_float && !is_pcm) {
        throw Failure(kExitInput, what + ": samples of this kind are not understood");
    }
    std::string samples;
    for (size_t at = 0; at < data.size() / (bits / 8u); at++) {
        append(&samples, wav_sample(data, at, bits / 8u, is_float));
    }
    return samples;
}

std::string wav_write(std::string_view f32_samples, uint32_t samples_per_second)
{
    const uint32_t data_bytes = static_cast<uint32_t>(f32_samples.size());
    std::string bytes = "RIFF";
    append(&bytes, uint32_t{36} + data_bytes);
    bytes += "WAVEfmt ";
    append(&bytes, uint32_t{16});
    append(&bytes, kWavFloat);
    append(&bytes, uint16_t{1});
    append(&bytes, samples_per_second);
    append(&bytes, samples_per_second * 4);
    append(&bytes, uint16_t{4});
    append(&bytes, uint16_t{32});
    bytes += "data";
    append(&bytes, data_bytes);
    bytes += f32_samples;
    return bytes;
}

std::string numbers_read(const std::string& text, uint32_t dtype, const std::string& what)
{
    std::string bytes;
    const char* at = text.c_str();
    if (dtype == FRT_RT_DTYPE_F16) {
        throw Failure(kExitUsage, what + ": give F16 values as a file of raw bytes");
    }
    while (*at != '\0') {
        char* end = nullptr;
        const double value = std::strtod(at, &end);
        if (end == at || (*end != '\0' && *end != ',')) {
            throw Failure(kExitUsage, what + ": '" + at + "' does not begin with a number");
        }
        append_number(&bytes, value, std::strtoll(at, nullptr, 10), dtype);
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
