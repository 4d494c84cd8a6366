// Purpose:  SHA-256, comparison in constant time, and random bytes.
// Owns:     nothing.
// Thread:   any.
// Lifetime: not applicable.
#pragma once

#include <cstddef>
#include <cstdint>

namespace aotx {

constexpr size_t kSha256Bytes = 32;

// SHA-256 of the bytes. digest: u8 [32].
void sha256(const void* bytes, size_t bytes_count, uint8_t* digest) noexcept;

// SHA-256 of a whole regular file, mapped for the time of the call. AOTX_ERR_SYSTEM: it cannot be
// opened or mapped, or is no regular file; errno says why. digest is untouched then.
[[nodiscard]] int sha256_file(const char* path, uint8_t* digest) noexcept;

// Whether two ranges are equal, in a time that does not depend on where they differ.
[[nodiscard]] bool equal_in_constant_time(const void* left, const void* right,
                                          size_t bytes_count) noexcept;

// Fill with random bytes of the kernel, fit for tokens and identities. Never fails: without
// randomness the process stops.
void random_bytes(void* bytes, size_t bytes_count) noexcept;

}  // namespace aotx
