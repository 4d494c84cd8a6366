// Purpose:  the core's check on itself, and the meter that shows that costs stay flat.
// Owns:     nothing.
// Thread:   any, host or device.
// Lifetime: not applicable.
//
// A check that fails is a bug of ours, never of a packet. It stays on in release builds and stops
// the process (or the kernel) at once; the core has no I/O, so the place is read from the trap.
#pragma once

#include "aotx/base.h"

#if defined(__CUDA_ARCH__)
#define AOTX_CORE_STOP() __trap()
#else
#define AOTX_CORE_STOP() __builtin_trap()
#endif

#define AOTX_CORE_CHECK(condition) \
    do {                           \
        if (!(condition)) {        \
            AOTX_CORE_STOP();      \
        }                          \
    } while (0)

// Every access to a table row and every turn of a table loop counts one step. Only the cost test
// defines the meter; elsewhere the macro is nothing.
#if defined(AOTX_CORE_METER)
namespace aotx {
extern unsigned long long core_meter_steps;
}
#define AOTX_CORE_STEP() (++::aotx::core_meter_steps)
#else
#define AOTX_CORE_STEP() ((void)0)
#endif
