// Purpose:  the one face of the hot loop, whatever backend runs it: budget, open, seal, run, stop.
// Owns:     the slab with every table and window, the mapped ring, the loop's threads.
// Thread:   open, start, stop and close on the main thread; the rest as tagged.
// Lifetime: open -> start -> stop -> close, once each; the runtimes in LoopConfig outlive the loop.
#pragma once

#include <cstddef>
#include <cstdint>

#include "aotx/mailbox.h"
#include "flashrt/model_runtime.h"

namespace aotx {

constexpr uint32_t kLoopModelsMax = 8;

// One loaded model, bound to the role under which requests name it.
struct LoopModel {
    uint32_t role = 0;                              // enum aotx_model_role
    const frt_model_runtime_v1* runtime = nullptr;  // borrowed; batched extension or plain ports
    uint8_t sha256[32] = {};                        // of the model file
};

struct LoopBackend;

// Capacities. Checked by loop_budget; ranges and defaults are those of docs/configuration.md.
struct LoopConfig {
    uint32_t mailboxes_count = 128;      // 2..1024, the control mailbox included
    uint32_t principals_max = 256;       // 1..65536
    uint32_t requests_max = 128;         // 1..65536, running plus retained
    uint32_t output_bytes_max = 65536;   // 256..1048576, per request
    uint32_t prompt_bytes_max = 65408;   // 256..65408, submission payload kept per active request
    uint32_t execution_slots = 16;       // 1..256; capped by the runtime's sequences_max
    uint32_t request_seconds_max = 300;  // 1..86400, queueing included, then 504
    uint32_t upload_seconds_max = 120;   // 1..86400
    uint32_t prompts_max = 0;            // requests that have not ended; 0: as many as requests_max
    uint32_t grant_active_requests_max = 128;  // ceiling of a grant's active requests
    uint32_t tick_ms_max = 10000;              // a GPU that answers later than this has failed
    uint32_t spin_us = 20;                     // 0..1000, busy wait before a loop thread sleeps
    uint64_t epoch = 0;                        // of this activation; not 0
    uint64_t seed = 0;                         // of the sampling generator
    // A device that failed is brought back under a new epoch, if this gives one; null or 0: it
    // stays down. Called by a loop thread.
    uint64_t (*fresh_epoch)(void* context) noexcept = nullptr;
    void* fresh_epoch_context = nullptr;
    const LoopBackend* backend = nullptr;  // from loop_backend_load; null: the CPU
    // Why the CPU serves although a GPU was allowed, a plain sentence; empty when it was not.
    // Copied by loop_open, ignored when another backend runs.
    const char* cpu_reason = "";
    LoopModel models[kLoopModelsMax] = {};
    uint32_t models_count = 0;  // 0..kLoopModelsMax
};

// One line of the printed budget.
struct LoopBudgetLine {
    const char* name;
    uint64_t bytes;
};

constexpr uint32_t kLoopBudgetLinesMax = 24;

// Memory of the device, counted before anything is taken; the lines' sum is total_bytes. loop_open
// takes all of it but the line "model runtimes", which the runtimes took when they were opened.
struct LoopBudget {
    LoopBudgetLine lines[kLoopBudgetLinesMax];
    uint32_t lines_count;
    uint64_t total_bytes;
};

// Counters for metrics, one snapshot. [any thread]
struct LoopTelemetry {
    uint64_t steps;       // model steps run
    uint64_t operations;  // packets answered
    uint64_t tokens_prompt;
    uint64_t tokens_sampled;
    uint32_t requests_queued;
    uint32_t requests_running;
    uint64_t requests_completed;
    uint64_t requests_failed;
    uint64_t requests_cancelled;
};

struct Loop;

// Count the memory of a configuration. AOTX_ERR_RANGE: a value out of range; AOTX_ERR_RUNTIME: a
// model's runtime offers neither level. *reason names what (static text).
[[nodiscard]] int loop_budget(const LoopConfig& config, LoopBudget* budget,
                              const char** reason) noexcept;

// Take the slab and build every table, then seal: nothing is allocated after this returns. [main
// thread] AOTX_ERR_RANGE as loop_budget; AOTX_ERR_SYSTEM no memory or no eventfd; AOTX_ERR_RUNTIME
// a runtime offers neither the batched extension nor the plain ports. *reason is a static text.
// *loop is untouched on failure.
[[nodiscard]] int loop_open(const LoopConfig& config, Loop** loop, const char** reason) noexcept;

// Start the loop's threads. [main thread, once, after open]
[[nodiscard]] int loop_start(Loop* loop) noexcept;

// Stop admitting, end what runs with 503, answer what was posted, join the threads. A model step
// that is being computed is waited for. Replies may still be taken afterwards. [main thread, once]
void loop_stop(Loop* loop) noexcept;

// Free everything. [main thread, after stop or a failed start]
void loop_close(Loop* loop) noexcept;

// Find the backend of a GPU in its shared object (null: beside this program, in ../lib or as the
// system finds libaotx_cuda.so), look at the machine, and return it; or null, and why in reason
// [reason_bytes] as a plain sentence. Takes nothing but the shared object, which stays. [main
// thread, before open]
const LoopBackend* loop_backend_load(const char* path, char* reason, size_t reason_bytes) noexcept;

// False once the device has failed and was not brought back. [any thread]
[[nodiscard]] bool loop_serving(const Loop* loop) noexcept;

// What runs the core: "cpu" or "cuda". [any thread]
const char* loop_device(const Loop* loop) noexcept;

// The mapped ring: a head, then config.mailboxes_count mailboxes.
aotx_ring_head* loop_ring(Loop* loop) noexcept;
aotx_mailbox* loop_mailbox(Loop* loop, uint32_t index) noexcept;

// Tell the loop that mailboxes were posted; once per burst, after the last post. The CPU's loop may
// answer them before this returns, on the calling thread. mailbox_indices names the posted ones, so
// that the loop scans no other. [broker thread]
void loop_ring_doorbell(Loop* loop, const uint32_t* mailbox_indices, uint32_t count) noexcept;

// Replies that have come. Up to capacity indices of mailboxes in turn REPLY. [broker thread]
uint32_t loop_take_replies(Loop* loop, uint32_t* mailbox_indices, uint32_t capacity) noexcept;

// eventfd that rings when replies come while the broker is parked. Every ring is an edge and nobody
// here reads the counter, so that a wake costs no call for it: wait for edges (EPOLLET), or read it
// before a wait for readiness. [broker thread]
int loop_reply_fd(const Loop* loop) noexcept;

// The broker is about to sleep on loop_reply_fd: true when it may, false when replies are already
// there. After true, the broker sleeps, then calls loop_broker_awake. The device rings once for
// each parking, after the last reply of a burst. [broker thread]
[[nodiscard]] bool loop_broker_park(Loop* loop) noexcept;
void loop_broker_awake(Loop* loop) noexcept;

// Snapshot of the counters. [any thread]
void loop_telemetry(const Loop* loop, LoopTelemetry* telemetry) noexcept;

}  // namespace aotx
