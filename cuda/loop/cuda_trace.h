// Purpose:  NVTX ranges: what a profiler shows on the host's line while the loop runs.
// Owns:     nothing.
// Thread:   any.
// Lifetime: a range lasts as long as its scope.
//
// Built in only with AOTX_TRACE and where the header exists; otherwise a range is nothing at all.
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

namespace aotx {

class TraceRange {
public:
    TraceRange(const char* name, uint64_t payload) noexcept
    {
        nvtxEventAttributes_t attributes = {};
        attributes.version = NVTX_VERSION;
        attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
        attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
        attributes.message.ascii = name;
        attributes.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
        attributes.payload.ullValue = payload;
        nvtxRangePushEx(&attributes);
    }
    ~TraceRange() { nvtxRangePop(); }
    TraceRange(const TraceRange&) = delete;
    TraceRange& operator=(const TraceRange&) = delete;
};

}  // namespace aotx

#define AOTX_TRACE_JOIN(left, right) left##right
#define AOTX_TRACE_NAME(line) AOTX_TRACE_JOIN(trace_range_, line)
#define AOTX_TRACE_RANGE(name, payload) \
    const ::aotx::TraceRange AOTX_TRACE_NAME(__LINE__)((name), (payload))
#else
#define AOTX_TRACE_RANGE(name, payload) static_cast<void>(0)
#endif
