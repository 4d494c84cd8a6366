// Purpose:  files that people have as payloads that ports take: PNG, WAV, numbers, raw bytes.
// Owns:     nothing.
// Thread:   main.
// Lifetime: not applicable.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace aotx::cli {

struct Picture {
    uint32_t width;
    uint32_t height;
    std::string rgb;  // 3 bytes a pixel, rows packed
};

// Decode a PNG of at most 16384 pixels a side; throws Failure. what names the source.
Picture png_read(std::string_view bytes, const std::string& what);

// Encode 8-bit grey (1 channel), RGB (3) or RGBA (4); throws Failure.
std::string png_write(uint32_t width, uint32_t height, uint32_t channels, std::string_view pixels);

// Samples of a PCM WAV (8, 16, 24 or 32 bits, or f32) as f32, interleaved; throws Failure.
std::string wav_read(std::string_view bytes, const std::string& what);

// A mono f32 WAV.
std::string wav_write(std::string_view f32_samples, uint32_t samples_per_second);

// "1,2.5,3" as elements of a dtype; throws Failure.
std::string numbers_read(const std::string& text, uint32_t dtype, const std::string& what);

// Elements as text, comma separated; rows of `row_elements` one a line, 0 for one line.
std::string numbers_text(std::string_view bytes, uint32_t dtype, uint64_t row_elements);

}  // namespace aotx::cli
