// Purpose:  packets as byte vectors for the SDK's tests, written field by field from offsets of the
//           contract and not from the structs under test.
// Owns:     nothing. Thread: any. Lifetime: not applicable.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

using Bytes = std::vector<uint8_t>;

inline void put32(Bytes* bytes, size_t at, uint32_t value)
{
    for (size_t i = 0; i < 4; i++) {
        (*bytes)[at + i] = static_cast<uint8_t>(value >> (8 * i));
    }
}

inline void put64(Bytes* bytes, size_t at, uint64_t value)
{
    for (size_t i = 0; i < 8; i++) {
        (*bytes)[at + i] = static_cast<uint8_t>(value >> (8 * i));
    }
}

inline void put_float(Bytes* bytes, size_t at, float value)
{
    uint32_t word = 0;
    std::memcpy(&word, &value, sizeof word);
    put32(bytes, at, word);
}

inline void fill(Bytes* bytes, size_t at, size_t count, uint8_t value)
{
    for (size_t i = 0; i < count; i++) {
        (*bytes)[at + i] = value;
    }
}

// A packet with magic, operation and payload length right, everything else zero.
inline Bytes packet(uint32_t operation, size_t payload_bytes)
{
    Bytes bytes(128 + payload_bytes, 0);
    std::memcpy(bytes.data(), "AOTXAPI1", 8);
    put32(&bytes, 8, operation);
    put32(&bytes, 88, static_cast<uint32_t>(payload_bytes));
    return bytes;
}

inline void append32(Bytes* bytes, uint32_t value)
{
    bytes->resize(bytes->size() + 4);
    put32(bytes, bytes->size() - 4, value);
}

inline void append_text(Bytes* bytes, const std::string& text)
{
    bytes->insert(bytes->end(), text.begin(), text.end());
}
