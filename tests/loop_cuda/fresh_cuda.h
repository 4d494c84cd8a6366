// Purpose:  the pretended GPU as it is before each test, and the check that a test gave all of it
// back.
// Owns:     the state of fake_cuda.h.
// Thread:   the test's.
// Lifetime: one object a test, made before the device.
#pragma once

#include <catch2/catch.hpp>

#include "fake_cuda.h"

struct FreshCuda {
    FreshCuda() { fake_cuda() = FakeCuda{}; }
    ~FreshCuda()
    {
        CHECK(fake_cuda().allocations == 0);
        CHECK(fake_cuda().registered == 0);
        CHECK(fake_cuda().streams == 0);
        CHECK(fake_cuda().executors == 0);
        INFO(fake_cuda().waited_for);
        CHECK(fake_cuda().waits == 0);
        fake_cuda() = FakeCuda{};
    }
    FreshCuda(const FreshCuda&) = delete;
    FreshCuda& operator=(const FreshCuda&) = delete;
};
