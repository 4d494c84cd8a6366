// Purpose:  the system calls behind memory.h.
// Owns:     see memory.h.
// Thread:   see memory.h.
// Lifetime: see memory.h.
#include "engine/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

namespace aotx {

uint8_t* memory_take(uint64_t bytes) noexcept
{
    void* const memory =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return nullptr;
    }
    madvise(memory, bytes, MADV_HUGEPAGE);
    // Resident now, so that no verb meets a page fault and a lack of memory shows at open. An older
    // kernel without this advice fills the pages when they are first written, which is right too.
#if defined(MADV_POPULATE_WRITE)
    if (madvise(memory, bytes, MADV_POPULATE_WRITE) != 0 && errno == ENOMEM) {
        munmap(memory, bytes);
        return nullptr;
    }
#endif
    return static_cast<uint8_t*>(memory);
}

void memory_free(uint8_t* memory, uint64_t bytes) noexcept
{
    if (memory != nullptr) {
        munmap(memory, bytes);
    }
}

void memory_release_mapped(const uint8_t* data, uint64_t bytes) noexcept
{
    const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    const uint64_t begin = (reinterpret_cast<uint64_t>(data) + page - 1) / page * page;
    const uint64_t end = (reinterpret_cast<uint64_t>(data) + bytes) / page * page;
    if (begin < end) {
        madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
    }
}

}  // namespace aotx
