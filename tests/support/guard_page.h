// Purpose:  copies of test input that end at a page which faults, so that an overread by one byte
// stops the test. Owns:     the mapping of each GuardCopy. Thread:   any, one object each.
// Lifetime: the bytes live as long as the GuardCopy.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

class GuardCopy {
public:
    GuardCopy(const void* bytes, size_t bytes_count) : size_bytes_(bytes_count)
    {
        const size_t page_bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
        const size_t body_bytes = (bytes_count / page_bytes + 1) * page_bytes;
        map_bytes_ = body_bytes + page_bytes;
        map_ = static_cast<char*>(
            mmap(nullptr, map_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        if (map_ == MAP_FAILED || mprotect(map_ + body_bytes, page_bytes, PROT_NONE) != 0) {
            std::abort();
        }
        begin_ = map_ + body_bytes - bytes_count;
        if (bytes_count != 0) {
            std::memcpy(begin_, bytes, bytes_count);
        }
    }
    ~GuardCopy() { munmap(map_, map_bytes_); }
    GuardCopy(const GuardCopy&) = delete;
    GuardCopy& operator=(const GuardCopy&) = delete;

    char* begin() const { return begin_; }
    char* end() const { return begin_ + size_bytes_; }
    const uint8_t* bytes() const { return reinterpret_cast<const uint8_t*>(begin_); }
    size_t size_bytes() const { return size_bytes_; }

private:
    char* map_ = nullptr;
    char* begin_ = nullptr;
    size_t map_bytes_ = 0;
    size_t size_bytes_ = 0;
};
