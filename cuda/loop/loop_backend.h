// Purpose:  the functions of loop.h as a table, for a backend that lives in a shared object.
// Owns:     nothing.
// Thread:   as loop.h.
// Lifetime: of the shared object, which is never unloaded.
#pragma once

#include "loop.h"

namespace aotx {

constexpr uint32_t kLoopBackendVersion = 1;

// Every backend's Loop begins with a pointer to its table; the CPU's is null.
struct LoopBackend {
    uint32_t version;
    uint32_t zero_4;
    const char* name;
    int (*budget)(const LoopConfig& config, LoopBudget* budget, const char** reason);
    int (*open)(const LoopConfig& config, Loop** loop, const char** reason);
    int (*start)(Loop* loop);
    void (*stop)(Loop* loop);
    void (*close)(Loop* loop);
    aotx_ring_head* (*ring)(Loop* loop);
    aotx_mailbox* (*mailbox)(Loop* loop, uint32_t index);
    void (*ring_doorbell)(Loop* loop, const uint32_t* mailbox_indices, uint32_t count);
    uint32_t (*take_replies)(Loop* loop, uint32_t* mailbox_indices, uint32_t capacity);
    int (*reply_fd)(const Loop* loop);
    bool (*broker_park)(Loop* loop);
    void (*broker_awake)(Loop* loop);
    void (*telemetry)(const Loop* loop, LoopTelemetry* telemetry);
    bool (*serving)(const Loop* loop);
};

// What a backend's shared object exports under kLoopBackendSymbol. Returns its table when this
// machine can run it, else null with a plain sentence in reason.
using LoopBackendOpen = const LoopBackend* (*)(char* reason, uint64_t reason_bytes);
constexpr const char* kLoopBackendSymbol = "aotx_loop_backend_v1";

}  // namespace aotx
