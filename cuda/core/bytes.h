// Purpose:  the few byte helpers that the core needs in place of a library: copy, compare, hash.
// Owns:     nothing.
// Thread:   any, host or device.
// Lifetime: not applicable.
#pragma once

#include "aotx/base.h"

namespace aotx {

AOTX_INLINE void core_copy(void* to, const void* from, uint64_t bytes)
{
    uint8_t* const target = static_cast<uint8_t*>(to);
    const uint8_t* const source = static_cast<const uint8_t*>(from);
    for (uint64_t i = 0; i < bytes; i++) {
        target[i] = source[i];
    }
}

AOTX_INLINE void core_zero(void* to, uint64_t bytes)
{
    uint8_t* const target = static_cast<uint8_t*>(to);
    for (uint64_t i = 0; i < bytes; i++) {
        target[i] = 0;
    }
}

AOTX_INLINE bool core_all_zero(const uint8_t* bytes, uint32_t bytes_count)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < bytes_count; i++) {
        sum |= bytes[i];
    }
    return sum == 0;
}

AOTX_INLINE bool core_id_equal(const uint8_t* left, const uint8_t* right)
{
    uint32_t difference = 0;
    for (uint32_t i = 0; i < 16; i++) {
        difference |= static_cast<uint32_t>(left[i] ^ right[i]);
    }
    return difference == 0;
}

AOTX_INLINE uint64_t core_load64(const uint8_t* bytes)
{
    uint64_t value = 0;
    core_copy(&value, bytes, sizeof value);
    return value;
}

AOTX_INLINE uint32_t core_load32(const uint8_t* bytes)
{
    uint32_t value = 0;
    core_copy(&value, bytes, sizeof value);
    return value;
}

AOTX_INLINE uint32_t core_float_bits(float value)
{
    uint32_t bits = 0;
    core_copy(&bits, &value, sizeof bits);
    return bits;
}

AOTX_INLINE float core_bits_float(uint32_t bits)
{
    float value = 0;
    __builtin_memcpy(&value, &bits, sizeof value);  // a loop over bytes would keep callers scalar
    return value;
}

AOTX_INLINE uint64_t core_rotate(uint64_t value, uint32_t bits)
{
    return (value << bits) | (value >> (64u - bits));
}

// The four words of a SipHash state.
struct CoreSip {
    uint64_t v0, v1, v2, v3;
};

AOTX_INLINE void core_sip_round(CoreSip* sip)
{
    sip->v0 += sip->v1;
    sip->v2 += sip->v3;
    sip->v1 = core_rotate(sip->v1, 13) ^ sip->v0;
    sip->v3 = core_rotate(sip->v3, 16) ^ sip->v2;
    sip->v0 = core_rotate(sip->v0, 32);
    sip->v2 += sip->v1;
    sip->v0 += sip->v3;
    sip->v1 = core_rotate(sip->v1, 17) ^ sip->v2;
    sip->v3 = core_rotate(sip->v3, 21) ^ sip->v0;
    sip->v2 = core_rotate(sip->v2, 32);
}

// SipHash-2-4 of whole 64-bit words, little endian, under a 128-bit key. Keyed, because peers pick
// the IDs that the tables hash: without the key nobody can aim at one bucket.
AOTX_INLINE uint64_t core_siphash(const uint64_t key[2], const uint64_t* words,
                                  uint32_t words_count)
{
    CoreSip sip = {key[0] ^ 0x736f6d6570736575u, key[1] ^ 0x646f72616e646f6du,
                   key[0] ^ 0x6c7967656e657261u, key[1] ^ 0x7465646279746573u};
    for (uint32_t i = 0; i < words_count; i++) {
        sip.v3 ^= words[i];
        core_sip_round(&sip);
        core_sip_round(&sip);
        sip.v0 ^= words[i];
    }
    const uint64_t last = static_cast<uint64_t>(words_count * 8u) << 56u;
    sip.v3 ^= last;
    core_sip_round(&sip);
    core_sip_round(&sip);
    sip.v0 ^= last;
    sip.v2 ^= 0xffu;
    for (uint32_t i = 0; i < 4; i++) {
        core_sip_round(&sip);
    }
    return sip.v0 ^ sip.v1 ^ sip.v2 ^ sip.v3;
}

}  // namespace aotx
