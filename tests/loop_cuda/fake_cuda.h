// Purpose:  the CUDA calls of the loop's backend, done by the execution shim: device memory is heap
// memory, a launch interprets the program over kernels run on the CPU.
// Owns:     what the backend allocates, counted.
// Thread:   any; the counters are read between calls.
// Lifetime: of the test program.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "cuda/loop/cuda_api.h"

struct FakeCuda {
    aotx::CudaMachine machine = {13000,
                                 13000,
                                 1,
                                 9,
                                 0,
                                 132,
                                 1,
                                 1ull << 37,
                                 "a pretended GPU",
                                 {80, 86, 89, 90, 100, 120},
                                 {100, 120}};
    uint64_t allocations = 0;  // held now
    uint64_t registered = 0;
    uint64_t streams = 0;
    uint64_t executors = 0;
    uint64_t setup_calls = 0;  // ever, of those that are illegal after the seal
    uint64_t launches = 0;
    uint64_t callbacks = 0;
    uint64_t kernels = 0;
    uint64_t resets = 0;
    uint64_t fail_in = 0;     // the launch that counts it down to 0 fails, and all after it
    uint64_t fail_every = 0;  // and every launch whose number is a multiple of this
    int fault = 0;            // sticky, until a reset
    int abandoned = 0;        // somebody's launch never ended
    bool refuse_allocation = false;
    uint64_t reset_in = 0;  // behind the allocation that counts it down to 0 another resets
    // Launches return at once and run one after the other on a thread of their stream, as on a GPU;
    // to be chosen before a stream is opened.
    bool asynchronous = false;
    uint32_t held = 0;   // 1: launches of an asynchronous stream begin and do not end
    uint32_t stuck = 0;  // 1: one did
    // Calls that wait for the whole device, made while a launch was resident on a sound device: on
    // a GPU they stand behind it. Never allowed.
    uint64_t waits = 0;
    const char* waited_for = "";  // the last of them
    uint64_t lazy_loads = 0;      // kernels that were not loaded when the device was opened
    int fill = 0;  // byte of fresh device memory; 0xff makes floats that are no numbers
    bool tracing = false;
    std::vector<uint32_t> trace;  // kernels in the order in which they ran
};

FakeCuda& fake_cuda();

// A counter that loop threads may be changing.
inline uint64_t now_of(uint64_t& word)
{
    return std::atomic_ref<uint64_t>(word).load();
}

// Let the n-th launch from now fail.
inline void fail_in(uint64_t launches)
{
    std::atomic_ref<uint64_t>(fake_cuda().fail_in).store(launches);
}

const aotx::CudaApi* fake_cuda_api();

// Whether the calling thread is inside a launch: what is allocated there is the shim's own.
bool fake_plays();

// Launches that have begun and not ended.
uint64_t fake_resident();

// What a device-wide call of somebody else in the process does: wait for what was launched before.
void fake_foreign_call();

// End what hangs and give back what a backend has left behind because of it.
void fake_abandoned();
