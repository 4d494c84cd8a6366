// Purpose:  the fields of every wire structure with their names, for printing.
// Owns:     static tables.
// Thread:   any.
// Lifetime: static.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "cli/json.h"

namespace aotx::cli {

enum class FieldKind : uint32_t {
    Number,   // u32 or u64
    Decimal,  // u64 shown as a decimal string
    Real,     // f32
    Hex,      // bytes
    Text,     // bytes that are text
    Name,     // u32 with names for its values
    Mask,     // u32, names for its bits
    Roles,    // u32, bit 1 << role
    Zero,     // must be zero; shown only when it is not
};

struct PacketField {
    const char* name;
    uint32_t offset_bytes;
    uint32_t size_bytes;
    FieldKind kind;
    const char* (*name_of)(uint32_t);  // of Name and Mask
};

struct PacketLayout {
    const char* name;  // of the C type
    uint32_t size_bytes;
    std::span<const PacketField> fields;
};

// Every structure that travels in a packet.
std::span<const PacketLayout> packet_layouts();

// One of them by the name of its C type; a wrong name is a bug and stops the program.
const PacketLayout& packet_layout(std::string_view name);

// Write the members of one structure; bytes holds layout.size_bytes. No braces are written.
void write_fields(JsonWriter* json, const PacketLayout& layout, const uint8_t* bytes);

}  // namespace aotx::cli
