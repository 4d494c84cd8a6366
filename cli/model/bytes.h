// Purpose:  numbers in raw bytes, in this machine's order, wherever they lie.
// Owns:     nothing.
// Thread:   any.
// Lifetime: not applicable.
#pragma once

#include <cstring>
#include <string>
#include <string_view>

namespace aotx::cli {

// at + sizeof(Value) must lie within bytes.
template <typename Value>
Value value_at(std::string_view bytes, size_t at)
{
    Value value = {};
    std::memcpy(&value, bytes.data() + at, sizeof value);
    return value;
}

template <typename Value>
void append_value(std::string* bytes, Value value)
{
    bytes->append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace aotx::cli
