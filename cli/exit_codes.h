// Purpose:  the exit codes of aotxctl, and the one table that turns a device status into one.
// Owns:     nothing.
// Thread:   any.
// Lifetime: not applicable.
#pragma once

#include <cstdint>

#include "aotx/status.h"

namespace aotx::cli {

// Stable: scripts depend on them. Append only.
enum ExitCode : int {
    kExitDone = 0,
    kExitInternal = 1,       // something that has no code of its own
    kExitUsage = 2,          // arguments that make no sense; nothing was done
    kExitInput = 3,          // a file or configuration that is missing or wrong
    kExitUnreachable = 4,    // no service answers there
    kExitProtocol = 5,       // something answers, but not as the contract says
    kExitRefused = 10,       // 400 and other refusals of what was asked
    kExitUnauthorized = 11,  // 401, 403
    kExitNotFound = 12,      // 404
    kExitConflict = 13,      // 409
    kExitGone = 14,          // 410: the epoch has ended
    kExitTooLarge = 15,      // 413
    kExitBusy = 16,          // 429: later may work
    kExitUnavailable = 17,   // 5xx: the device or this function is not there
    kExitTimeout = 18,       // 408, 504
    kExitCancelled = 19,     // the request ended by cancellation
    kExitInterrupted = 130,  // Ctrl-C
};

// The translation table, device or HTTP status to exit code.
constexpr int exit_code_of_status(uint32_t status) noexcept
{
    switch (status) {
        case AOTX_STATUS_OK:
        case AOTX_STATUS_ACCEPTED:
            return kExitDone;
        case 401:
        case AOTX_STATUS_FORBIDDEN:
            return kExitUnauthorized;
        case AOTX_STATUS_NOT_FOUND:
            return kExitNotFound;
        case AOTX_STATUS_CONFLICT:
            return kExitConflict;
        case AOTX_STATUS_GONE:
            return kExitGone;
        case AOTX_STATUS_TOO_LARGE:
            return kExitTooLarge;
        case AOTX_STATUS_TOO_MANY:
            return kExitBusy;
        case 408:
        case AOTX_STATUS_TIMEOUT:
            return kExitTimeout;
        default:
            return status >= 500 ? kExitUnavailable : kExitRefused;
    }
}

// The exit code of a request that ended: its phase word and failure status.
constexpr int exit_code_of_end(const char* state, uint32_t failure_status) noexcept
{
    const bool completed = state[0] == 'c' && state[1] == 'o';
    const bool cancelled = state[0] == 'c' && state[1] == 'a';
    if (completed) {
        return kExitDone;
    }
    return cancelled ? static_cast<int>(kExitCancelled) : exit_code_of_status(failure_status);
}

}  // namespace aotx::cli
