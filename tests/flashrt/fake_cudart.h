// Purpose:  a CUDA runtime that is pretended on the CPU: streams are queues that run when somebody
//           waits for them, so an order that was not asked for does not hold by itself.
// Owns:     what the backend made and has not given back, counted.
// Thread:   one.
// Lifetime: of the test program.
#pragma once

#include <cstdint>

#include "fake_cudart/cuda_runtime_api.h"

struct FakeCudart {
    int devices = 1;
    int streams = 0;  // each of these: alive now
    int events = 0;
    int graphs = 0;
    int executables = 0;
    int allocations = 0;
    int captures = 0;    // streams that record now
    int strangers = 0;   // calls with a handle that is not alive: a bug of the caller
    int calls = 0;       // of those that may fail
    int fail_at = 0;     // this one fails; 0: none
    int priority = 99;   // of the newest stream
    unsigned flags = 0;  // of the newest stream or event
    bool fails_for_ever = false;
    cudaError_t error = cudaSuccess;  // what cudaGetLastError would hand out

    int alive() const { return streams + events + graphs + executables + allocations; }
};

FakeCudart& fake_cudart();

// Handles that somebody else made: a stream to wrap, an executable that adds one to a byte.
cudaStream_t fake_stream_make();
cudaGraphExec_t fake_executable_make(uint8_t* counter);
