// Purpose:  a fresh epoch for each activation, whatever happened to the process or the clock.
// Owns:     the lock on the state directory, as an Fd of the caller.
// Thread:   main.
// Lifetime: once at start.
#pragma once

#include <cstdint>
#include <string>

#include "service/base/fd.h"

namespace aotx {

// Make the directory when it is missing and lock it for this process; the lock lasts as long as
// *lock. AOTX_ERR_STATE: another process holds it; AOTX_ERR_SYSTEM: it cannot be made or opened.
// *error says it in words.
[[nodiscard]] int state_lock(const std::string& directory, Fd* lock, std::string* error) noexcept;

// Take the next epoch: one above the stored one, or the present time in seconds when that is
// higher, so that even a lost directory repeats none. It is on the disk before it is returned.
// AOTX_ERR_SYNTAX: the stored one cannot be read as a number; AOTX_ERR_RANGE: no number is left;
// AOTX_ERR_SYSTEM: it cannot be stored. *error says it in words, *epoch is untouched then.
// [the directory is locked]
[[nodiscard]] int epoch_next(const std::string& directory, uint64_t now_seconds, uint64_t* epoch,
                             std::string* error) noexcept;

}  // namespace aotx
