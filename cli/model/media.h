// Purpose:  what people have as payloads that ports take: PNG and numbers; WAV has wav.h.
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
    std::string pixels;  // one byte a channel, rows packed
};

// Decode a PNG of at most 16384 pixels a side as grey (1 channel), RGB (3) or RGBA (4); throws
// Failure. what names the source.
Picture png_read(std::string_view bytes, uint32_t channels, const std::string& what);

// Encode 8-bit grey (1 channel), RGB (3) or RGBA (4); throws Failure.
std::string png_write(uint32_t width, uint32_t height, uint32_t channels, std::string_view pixels);

// Halves and bfloat16 as bits, rounded to the nearest value, ties to even.
float float_of_half(uint16_t half);
float float_of_brain(uint16_t brain);
uint16_t half_of_float(float value);
uint16_t brain_of_float(float value);

// "1,2.5,3" as elements of a dtype; throws Failure.
std::string numbers_read(const std::string& text, uint32_t dtype, const std::string& what);

// Elements as text, comma separated; rows of `row_elements` one a line, 0 for one line.
std::string numbers_text(std::string_view bytes, uint32_t dtype, uint64_t row_elements);

}  // namespace aotx::cli
