// Purpose:  what the files of the CUDA backend share: the loop object, the turn, the tick.
// Owns:     see Loop.
// Thread:   operator and stepper; the turn is the right to launch a tick and to read its report.
// Lifetime: as loop.h.
//
// The core lives in device memory. A tick (cuda_tick.h) is one launch of one graph; nobody but the
// holder of the turn launches, so the command and the report need no further order than the
// launch's own. Model verbs run on the stepper, without the turn, between two ticks.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "broker_bell.h"
#include "cuda_api.h"
#include "cuda_tick.h"
#include "engine.h"
#include "loop.h"
#include "loop_backend.h"
#include "plan.h"
#include "wait.h"

namespace aotx {

constexpr uint32_t kRestartsMax = 3;  // of the device in one life of the loop

// Offsets of the parts of one piece of memory, counted before it is taken.
struct CudaPlan {
    LimitsPlan common;
    CoreLayout core;
    // device slab
    uint64_t core_at, packet_at, frame_at, rows_at, counters_at, tables_at, device_bytes;
    // host region, registered
    uint64_t ring_at, mailboxes_at, payload_at, tokens_at, steps_at, slots_at, bytes_at, texts_at;
    uint64_t region_bytes;
    // host memory of the loop itself
    uint64_t messages_at, parts_at, text_rows_at, sample_at, transcripts_at, own_bytes;
    uint32_t transcript_bytes;
    uint32_t text_bytes;
};

// The operator and the stepper each wait for a tick on this: the callback behind a launch rings it.
struct CudaWait {
    Bell bell;
    SpinBudget spin;
};

struct CudaLoop {
    const LoopBackend* backend;  // first, as in every backend's loop

    // Constant after open.
    LoopConfig config;
    CudaPlan plan;
    CudaMachine machine;
    uint8_t* own;
    uint8_t* region;
    HostShare* share;
    aotx_ring_head* ring;
    aotx_mailbox* mailboxes;
    TextEngine engines[kLoopModelsMax];

    // The device; rebuilt by a restart.
    CudaCalls calls;
    uint8_t* device;
    void* stream;
    void* executor;
    uint64_t resets;  // of the device, when it was brought up
    TickArgs arguments;
    Program program;
    uint64_t condition_handles[kProgramConditionsMax];

    // Parking, as in the CPU backend.
    alignas(64) std::atomic<uint32_t> operator_parked;
    BrokerBell broker_bell;
    Bell operator_bell;
    Bell stepper_bell;
    std::atomic<uint32_t> stopping;
    std::atomic<uint32_t> serving;  // 0: the device has failed and was not brought back

    // Under the turn.
    alignas(64) pthread_mutex_t turn;
    CudaWait wait;
    uint32_t stepper_parked;
    uint64_t replies_seen;  // of the reply list, when the broker was last looked after
    uint64_t launches;
    uint32_t faults;
    int fault;  // the code of the last one

    // Never held while a launch is waited for, so that whoever asks for figures does not wait for
    // the device.
    mutable pthread_mutex_t told;
    LoopTelemetry telemetry;

    // The stepper's own.
    aotx_text_message* messages;
    aotx_text_part* parts;
    aotx_text_row* text_rows;
    SampleScratch* sample;
    CoreRow rows[kCoreSlotsMax];
    uint64_t activation;  // counts restarts: results of an older one are dropped

    SpinBudget spin;
    pthread_t operator_thread;
    pthread_t stepper_thread;
    uint32_t started;

    explicit CudaLoop(const CudaApi* api) noexcept : calls(api) {}
};

void turn_take(CudaLoop* loop) noexcept;

// Give the turn back and wake the broker if it sleeps and replies were listed.
void turn_give(CudaLoop* loop) noexcept;

// Launch one tick and wait for its end. False: the device failed, was restarted or given up; what
// the report says is void. [turn held]
[[nodiscard]] bool tick_run(CudaLoop* loop, uint32_t plan_model, uint32_t results_model,
                            bool step_failed) noexcept;

// Take and build everything on the device. Returns a CUDA code. [turn held or before start]
[[nodiscard]] int device_up(CudaLoop* loop) noexcept;

// Give all of it back. reset: and everybody else's, unless that has happened since device_up.
void device_down(CudaLoop* loop, bool reset) noexcept;

// The device is lost: end the epoch, answer what is posted with 503, bring it back if it may be.
// One that hangs (kCudaTimedOut) is left alone: every call that gives it back would hang too.
// [turn held]
void device_fault(CudaLoop* loop, int code) noexcept;

void* gpu_operator_main(void* loop);
void* gpu_stepper_main(void* loop);

}  // namespace aotx
