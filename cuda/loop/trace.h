// Purpose:  NVTX ranges: what a profiler shows on the host's lines while the loop runs.
// Owns:     the ranges of requests that are alive, one an execution slot.
// Thread:   any; the life of a request is begun and ended by the stepper.
// Lifetime: a range lasts as long as its scope; a life from the rendering of the prompt until its
// sequence is closed.
//
// Built in only with AOTX_TRACE and where the header exists; otherwise every macro is nothing at
// all and its arguments are not evaluated.
#pragma once

#if !defined(AOTX_TRACE)
#define AOTX_TRACE 0
#endif
#if AOTX_TRACE && defined(__has_include)
#if __has_include(<nvtx3/nvToolsExt.h>)
#define AOTX_TRACE_ON 1
#endif
#endif
#if !defined(AOTX_TRACE_ON)
#define AOTX_TRACE_ON 0
#endif

#if AOTX_TRACE_ON
#include <nvtx3/nvToolsExt.h>

#include <cstdint>

#include "aotx/handle.h"
#include "cuda/core/schedule.h"

namespace aotx {

// The first 16 hex digits of a request's ID, as its handle shows them behind the epoch.
inline uint64_t trace_handle(const uint8_t* id) noexcept
{
    uint64_t digits = 0;
    for (uint32_t i = 0; i < 8; i++) {
        digits = digits << 8 | id[i];
    }
    return digits;
}

inline nvtxEventAttributes_t trace_event(const char* name, uint64_t payload) noexcept
{
    nvtxEventAttributes_t attributes = {};
    attributes.version = NVTX_VERSION;
    attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
    attributes.message.ascii = name;
    attributes.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
    attributes.payload.ullValue = payload;
    return attributes;
}

class TraceRange {
public:
    TraceRange(const char* name, uint64_t payload) noexcept
    {
        const nvtxEventAttributes_t attributes = trace_event(name, payload);
        nvtxRangePushEx(&attributes);
    }
    ~TraceRange() { nvtxRangePop(); }
    TraceRange(const TraceRange&) = delete;
    TraceRange& operator=(const TraceRange&) = delete;
};

// One mark for each request in a step.
inline void trace_rows(const CoreRow* rows, uint32_t rows_count, const CoreSlot* slots) noexcept
{
    for (uint32_t i = 0; i < rows_count; i++) {
        const nvtxEventAttributes_t attributes =
            trace_event("row", trace_handle(slots[rows[i].slot].id));
        nvtxMarkEx(&attributes);
    }
}

// A range is 0 while its slot is free.
inline nvtxRangeId_t trace_lives[kCoreModelsMax * kCoreSlotsMax];

inline void trace_life_end(uint32_t slot) noexcept
{
    if (trace_lives[slot] != 0) {
        nvtxRangeEnd(trace_lives[slot]);
        trace_lives[slot] = 0;
    }
}

// Named by the whole handle, so that the row of a request is found by searching for it.
inline void trace_life_begin(uint32_t slot, uint64_t epoch, const uint8_t* id) noexcept
{
    char handle[AOTX_REQUEST_HANDLE_CHARACTERS + 1u] = {};
    aotx_request_handle_format(epoch, id, handle);
    const nvtxEventAttributes_t attributes = trace_event(handle, trace_handle(id));
    trace_life_end(slot);
    trace_lives[slot] = nvtxRangeStartEx(&attributes);
}

}  // namespace aotx

#define AOTX_TRACE_JOIN(left, right) left##right
#define AOTX_TRACE_NAME(line) AOTX_TRACE_JOIN(trace_range_, line)
#define AOTX_TRACE_RANGE(name, payload) \
    const ::aotx::TraceRange AOTX_TRACE_NAME(__LINE__)((name), (payload))
#define AOTX_TRACE_REQUEST(name, id) AOTX_TRACE_RANGE(name, ::aotx::trace_handle(id))
#define AOTX_TRACE_ROWS(rows, count, slots) ::aotx::trace_rows((rows), (count), (slots))
#define AOTX_TRACE_LIFE_BEGIN(slot, epoch, id) ::aotx::trace_life_begin((slot), (epoch), (id))
#define AOTX_TRACE_LIFE_END(slot) ::aotx::trace_life_end(slot)
#else
#define AOTX_TRACE_RANGE(name, payload) static_cast<void>(0)
#define AOTX_TRACE_REQUEST(name, id) static_cast<void>(0)
#define AOTX_TRACE_ROWS(rows, count, slots) static_cast<void>(0)
#define AOTX_TRACE_LIFE_BEGIN(slot, epoch, id) static_cast<void>(0)
#define AOTX_TRACE_LIFE_END(slot) static_cast<void>(0)
#endif
