// Purpose:  the decoders of the file's block formats behind pack.h.
// Owns:     nothing.
// Thread:   any.
// Lifetime: not applicable.
#include "pack.h"

#include <cstring>

namespace aotx {

namespace {

// One decoded block: quants as the file numbers them, scales as it stores them.
struct Block {
    uint8_t quant[256];
    uint16_t d;
    uint16_t m;  // bias of a plain block, dmin of a super block; half bits
    uint8_t scale[16];
    uint8_t minimum[16];
};

struct Format {
    uint32_t kind;
    uint32_t columns;
    uint32_t bytes;
    void (*decode)(const uint8_t* source, Block* block);
};

uint16_t load16(const uint8_t* source)
{
    uint16_t value;
    std::memcpy(&value, source, sizeof value);
    return value;
}

uint32_t load32(const uint8_t* source)
{
    uint32_t value;
    std::memcpy(&value, source, sizeof value);
    return value;
}

void nibbles(const uint8_t* quants, uint32_t high, Block* block)
{
    for (uint32_t i = 0; i < 16; i++) {
        block->quant[i] = static_cast<uint8_t>((quants[i] & 15u) | (high >> i & 1u) << 4u);
        block->quant[i + 16] =
            static_cast<uint8_t>(quants[i] >> 4u | (high >> (i + 16u) & 1u) << 4u);
    }
}

void decode_q4_0(const uint8_t* source, Block* block)
{
    block->d = load16(source);
    nibbles(source + 2, 0, block);
}

void decode_q4_1(const uint8_t* source, Block* block)
{
    block->d = load16(source);
    block->m = load16(source + 2);
    nibbles(source + 4, 0, block);
}

void decode_q5_0(const uint8_t* source, Block* block)
{
    block->d = load16(source);
    nibbles(source + 6, load32(source + 2), block);
}

void decode_q5_1(const uint8_t* source, Block* block)
{
    block->d = load16(source);
    block->m = load16(source + 2);
    nibbles(source + 8, load32(source + 4), block);
}

void decode_q8_0(const uint8_t* source, Block* block)
{
    block->d = load16(source);
    for (uint32_t i = 0; i < 32; i++) {
        block->quant[i] = static_cast<uint8_t>(source[2 + i] ^ 0x80u);  // two's complement + 128
    }
}

void decode_q2k(const uint8_t* source, Block* block)
{
    const uint8_t* const quants = source + 16;
    for (uint32_t i = 0; i < 256; i++) {
        const uint32_t shift = i % 128u / 32u * 2u;
        block->quant[i] = quants[i / 128u * 32u + i % 32u] >> shift & 3u;
    }
    for (uint32_t i = 0; i < 16; i++) {
        block->scale[i] = source[i] & 15u;
        block->minimum[i] = source[i] >> 4u;
    }
    block->d = load16(source + 80);
    block->m = load16(source + 82);
}

void decode_q3k(const uint8_t* source, Block* block)
{
    const uint8_t* const quants = source + 32;
    const uint8_t* const scales = source + 96;
    for (uint32_t i = 0; i < 256; i++) {
        const uint32_t shift = i % 128u / 32u * 2u;
        const uint32_t low = quants[i / 128u * 32u + i % 32u] >> shift & 3u;
        const uint32_t high = source[i % 32u] >> (i / 32u) & 1u;
        block->quant[i] = static_cast<uint8_t>(low | high << 2u);
    }
    for (uint32_t i = 0; i < 16; i++) {
        const uint32_t low = i < 8 ? scales[i] & 15u : scales[i - 8] >> 4u;
        const uint32_t high = scales[8 + i % 4u] >> (i / 4u * 2u) & 3u;
        block->scale[i] = static_cast<uint8_t>((low | high << 4u) - 32u);  // signed, as a byte
    }
    block->d = load16(source + 108);
}

// Scales and minima of the kinds with 8 groups: twelve bytes hold sixteen 6-bit numbers.
void decode_scales8(const uint8_t* source, Block* block)
{
    for (uint32_t i = 0; i < 4; i++) {
        block->scale[i] = source[i] & 63u;
        block->minimum[i] = source[i + 4] & 63u;
        block->scale[i + 4] = static_cast<uint8_t>((source[i + 8] & 15u) | (source[i] >> 6u) << 4u);
        block->minimum[i + 4] =
            static_cast<uint8_t>(source[i + 8] >> 4u | (source[i + 4] >> 6u) << 4u);
    }
}

void decode_q4k(const uint8_t* source, Block* block)
{
    block->d = load16(source);
    block->m = load16(source + 2);
    decode_scales8(source + 4, block);
    for (uint32_t i = 0; i < 256; i++) {
        const uint8_t byte = source[16 + i / 64u * 32u + i % 32u];
        block->quant[i] = i % 64u < 32u ? byte & 15u : byte >> 4u;
    }
}

void decode_q5k(const uint8_t* source, Block* block)
{
    block->d = load16(source);
    block->m = load16(source + 2);
    decode_scales8(source + 4, block);
    for (uint32_t i = 0; i < 256; i++) {
        const uint8_t byte = source[48 + i / 64u * 32u + i % 32u];
        const uint32_t high = source[16 + i % 32u] >> (i / 32u) & 1u;
        block->quant[i] =
            static_cast<uint8_t>((i % 64u < 32u ? byte & 15u : byte >> 4u) | high << 4u);
    }
}

void decode_q6k(const uint8_t* source, Block* block)
{
    for (uint32_t i = 0; i < 256; i++) {
        const uint32_t half = i / 128u;
        const uint32_t part = i % 128u / 32u;
        const uint8_t low = source[half * 64u + part % 2u * 32u + i % 32u];
        const uint32_t high = source[128 + half * 32u + i % 32u] >> (part * 2u) & 3u;
        block->quant[i] = static_cast<uint8_t>((part < 2 ? low & 15u : low >> 4u) | high << 4u);
    }
    std::memcpy(block->scale, source + 192, 16);
    block->d = load16(source + 208);
}

constexpr Format kFormats[] = {
    {kWeightF32, 1, 4, nullptr},        {kWeightF16, 1, 2, nullptr},
    {kWeightBF16, 1, 2, nullptr},       {kWeightQ4_0, 32, 18, decode_q4_0},
    {kWeightQ4_1, 32, 20, decode_q4_1}, {kWeightQ5_0, 32, 22, decode_q5_0},
    {kWeightQ5_1, 32, 24, decode_q5_1}, {kWeightQ8_0, 32, 34, decode_q8_0},
    {kWeightQ2K, 256, 84, decode_q2k},  {kWeightQ3K, 256, 110, decode_q3k},
    {kWeightQ4K, 256, 144, decode_q4k}, {kWeightQ5K, 256, 176, decode_q5k},
    {kWeightQ6K, 256, 210, decode_q6k},
};

const Format* format_of(uint32_t kind)
{
    for (const Format& format : kFormats) {
        if (format.kind == kind) {
            return &format;
        }
    }
    return nullptr;
}

void or32(uint8_t* at, uint32_t bits)
{
    const uint32_t word = load32(at) | bits;
    std::memcpy(at, &word, sizeof word);
}

void put16(uint8_t* at, uint16_t bits)
{
    std::memcpy(at, &bits, sizeof bits);
}

// Where an element lies: lane, step, register and half, as weights.h draws them.
struct Place {
    uint32_t lane;
    uint32_t s;
    uint32_t r;
    uint32_t h;
};

Place place_of(uint32_t row, uint32_t column)
{
    const uint32_t inside = column % 16u;
    Place place;
    place.lane = row % 8u * 4u + inside % 8u / 2u;
    place.s = column / 16u;
    place.r = row / 8u + inside / 8u * 2u;
    place.h = inside % 2u;
    return place;
}

void put_plane4(uint8_t* plane, const Place& at, uint32_t value)
{
    or32(plane + at.lane * 16u + at.s * 4u, value << (4u * at.r + 16u * at.h));
}

void put_plane2(uint8_t* plane, const Place& at, uint32_t value)
{
    or32(plane + at.lane * 8u + at.s / 2u * 4u,
         value << (2u * (4u * (at.s % 2u) + at.r) + 16u * at.h));
}

void put_plane1(uint8_t* plane, const Place& at, uint32_t value)
{
    or32(plane + at.lane * 4u, value << (4u * at.s + at.r + 16u * at.h));
}

void put_quant(uint8_t* tile, uint32_t bits, const Place& at, uint32_t value)
{
    if (bits == 8) {
        or32(tile + at.s / 2u * 512u + at.lane * 16u + (2u * (at.s % 2u) + at.r / 2u) * 4u,
             value << (8u * (at.r % 2u) + 16u * at.h));
        return;
    }
    uint32_t low_bits = 4;
    if (bits >= 4) {
        put_plane4(tile, at, value & 15u);
    } else {
        put_plane2(tile, at, value & 3u);
        low_bits = 2;
    }
    uint8_t* const high = tile + weight_quant_bytes(low_bits);
    if (bits - low_bits == 1) {
        put_plane1(high, at, value >> low_bits);
    } else if (bits - low_bits == 2) {
        put_plane2(high, at, value >> low_bits);
    }
}

void put_scales(uint8_t* scales, WeightScale form, uint32_t row, const Block& block,
                uint32_t first_group)
{
    const uint32_t g = row % 8u;
    const uint32_t upper = row / 8u;
    if (form == kScaleBlock) {
        put16(scales + g * 16u + first_group * 8u + upper * 4u, block.d);
        put16(scales + g * 16u + first_group * 8u + upper * 4u + 2u, block.m);
        return;
    }
    const uint32_t groups = form == kScaleSuper16 ? 4 : 2;
    for (uint32_t i = 0; i < groups; i++) {
        scales[g * 16u + i * 4u + upper * 2u] = block.scale[first_group + i];
        scales[g * 16u + i * 4u + upper * 2u + 1u] = block.minimum[first_group + i];
    }
    uint8_t* const both = form == kScaleSuper16 ? scales + 128u + g * 8u + upper * 4u
                                                : scales + g * 16u + 8u + upper * 4u;
    put16(both, block.d);
    put16(both + 2, block.m);
}

uint16_t half_of(float value)
{
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    const uint32_t sign = bits >> 16u & 0x8000u;
    const uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude < 0x38800000u) {
        float absolute;
        std::memcpy(&absolute, &magnitude, sizeof absolute);
        const float shifted = absolute + 0.5f;  // rounds at 2^-24, where halves below 2^-14 end
        uint32_t rounded;
        std::memcpy(&rounded, &shifted, sizeof rounded);
        return static_cast<uint16_t>(sign | (rounded - 0x3f000000u));
    }
    const uint32_t odd = magnitude >> 13u & 1u;
    return static_cast<uint16_t>(sign | (magnitude - 0x38000000u + 0xfffu + odd) >> 13u);
}

float float_of_half(uint16_t bits)
{
    const uint32_t magnitude = bits & 0x7fffu;
    float value;
    if (magnitude < 0x400u) {
        value = static_cast<float>(magnitude) * 0x1p-24f;
    } else {
        const uint32_t word = (magnitude << 13u) + 0x38000000u;
        std::memcpy(&value, &word, sizeof value);
    }
    return (bits & 0x8000u) != 0 ? -value : value;
}

bool pack_float(uint32_t kind, const uint8_t* source, const Place& at, uint8_t* tile)
{
    uint8_t* const first = tile + at.s * 512u + at.lane * 16u + at.r * 4u + at.h * 2u;
    if (kind != kWeightF32) {
        put16(first, load16(source));
        return true;
    }
    float value;
    std::memcpy(&value, source, sizeof value);
    if (!(value >= -65504.0f && value <= 65504.0f)) {
        return false;
    }
    const uint16_t high = half_of(value);
    put16(first, high);
    put16(first + weight_quant_bytes(16), half_of(value - float_of_half(high)));
    return true;
}

}  // namespace

uint32_t weight_block_columns(uint32_t kind) noexcept
{
    const Format* const format = format_of(kind);
    return format == nullptr ? 0 : format->columns;
}

uint32_t weight_block_bytes(uint32_t kind) noexcept
{
    const Format* const format = format_of(kind);
    return format == nullptr ? 0 : format->bytes;
}

uint64_t weight_packed_bytes(uint32_t kind, uint32_t rows, uint32_t columns) noexcept
{
    const Format* const format = format_of(kind);
    if (format == nullptr || columns == 0 || columns % format->columns != 0) {
        return 0;
    }
    return uint64_t{weight_tiles(rows, kTileRows)} * weight_tiles(columns, kTileColumns) *
           weight_tile_bytes(kind);
}

bool weight_pack_row(uint32_t kind, uint32_t columns, uint32_t row, const uint8_t* source,
                     uint8_t* tiles) noexcept
{
    const Format* const format = format_of(kind);
    if (format == nullptr) {
        return false;
    }
    const WeightTraits traits = weight_traits(kind);
    const uint64_t tile_bytes = weight_tile_bytes(kind);
    uint8_t* const line =
        tiles + row / kTileRows * uint64_t{weight_tiles(columns, kTileColumns)} * tile_bytes;
    Block block = {};
    for (uint32_t column = 0; column < columns; column++) {
        uint8_t* const tile = line + column / kTileColumns * tile_bytes;
        const Place at = place_of(row % kTileRows, column % kTileColumns);
        const uint32_t inside = column % format->columns;
        const uint8_t* const from = source + column / format->columns * format->bytes;
        if (format->decode == nullptr) {
            if (!pack_float(kind, from, at, tile)) {
                return false;
            }
            continue;
        }
        if (inside == 0) {
            format->decode(from, &block);
        }
        put_quant(tile, traits.bits, at, block.quant[inside]);
        const uint32_t span = traits.scale == kScaleBlock ? 32u : kTileColumns;
        if (column % span == 0) {
            const uint32_t first =
                traits.scale == kScaleBlock ? column / 32u % 2u : inside / traits.group;
            put_scales(tile + weight_quant_bytes(traits.bits), traits.scale, row % kTileRows, block,
                       first);
        }
    }
    return true;
}

}  // namespace aotx
