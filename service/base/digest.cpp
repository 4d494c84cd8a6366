// Purpose:  digests and randomness, see digest.h.
// Owns:     nothing.
// Thread:   any.
// Lifetime: not applicable.
#include "service/base/digest.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <cstring>

#include "aotx/status.h"
#include "service/base/check.h"
#include "service/base/fd.h"

namespace aotx {

void sha256(const void* bytes, size_t bytes_count, uint8_t* digest) noexcept
{
    SHA256(static_cast<const unsigned char*>(bytes), bytes_count, digest);
}

int sha256_file(const char* path, uint8_t* digest) noexcept
{
    const Fd file(open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY));
    struct stat state = {};
    if (!file.valid() || fstat(file.get(), &state) != 0) {
        return AOTX_ERR_SYSTEM;
    }
    if (!S_ISREG(state.st_mode)) {
        errno = EINVAL;
        return AOTX_ERR_SYSTEM;
    }
    const size_t bytes_count = static_cast<size_t>(state.st_size);
    if (bytes_count == 0) {
        sha256("", 0, digest);
        return AOTX_OK;
    }

    void* const map = mmap(nullptr, bytes_count, PROT_READ, MAP_PRIVATE, file.get(), 0);
    if (map == MAP_FAILED) {
        return AOTX_ERR_SYSTEM;
    }
    sha256(map, bytes_count, digest);
    munmap(map, bytes_count);
    return AOTX_OK;
}

bool equal_in_constant_time(const void* left, const void* right, size_t bytes_count) noexcept
{
    return CRYPTO_memcmp(left, right, bytes_count) == 0;
}

void random_bytes(void* bytes, size_t bytes_count) noexcept
{
    uint8_t* at = static_cast<uint8_t*>(bytes);
    size_t left = bytes_count;
    while (left > 0) {
        const ssize_t got = getrandom(at, left, 0);
        AOTX_CHECK(got > 0 || errno == EINTR);
        if (got > 0) {
            at += got;
            left -= static_cast<size_t>(got);
        }
    }
}

}  // namespace aotx
