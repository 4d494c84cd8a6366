// Purpose:  one owner for a file descriptor.
// Owns:     the descriptor of each Fd.
// Thread:   any, one object each.
// Lifetime: the descriptor is closed with its Fd.
#pragma once

#include <unistd.h>

namespace aotx {

class Fd {
public:
    Fd() noexcept = default;
    explicit Fd(int descriptor) noexcept : descriptor_(descriptor) {}
    Fd(Fd&& other) noexcept : descriptor_(other.release()) {}
    Fd& operator=(Fd&& other) noexcept
    {
        reset(other.release());
        return *this;
    }
    Fd(const Fd&) = delete;
    Fd& operator=(const Fd&) = delete;
    ~Fd() { reset(); }

    int get() const noexcept { return descriptor_; }
    bool valid() const noexcept { return descriptor_ >= 0; }

    // Give the descriptor away; the caller closes it.
    [[nodiscard]] int release() noexcept
    {
        const int descriptor = descriptor_;
        descriptor_ = -1;
        return descriptor;
    }

    // Close what is held and hold another, -1 for none.
    void reset(int descriptor = -1) noexcept
    {
        // close() is not repeated on EINTR: on Linux the descriptor is gone either way.
        if (descriptor_ >= 0) {
            ::close(descriptor_);
        }
        descriptor_ = descriptor;
    }

private:
    int descriptor_ = -1;
};

}  // namespace aotx
