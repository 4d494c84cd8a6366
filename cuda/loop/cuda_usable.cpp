// Purpose:  decide in plain words whether a machine can run the CUDA backend.
// Owns:     nothing.
// Thread:   main.
// Lifetime: before anything is taken.
#include <stdlib.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cuda_api.h"

namespace aotx {

namespace {

constexpr int kDriverLowest = 12040;  // loops and branches in graphs

bool blocking_launches()
{
    const char* const value = std::getenv("CUDA_LAUNCH_BLOCKING");
    return value != nullptr && value[0] != '\0' && std::strcmp(value, "0") != 0;
}

// Machine code runs on its own generation, from its own step on.
bool holds_code(const CudaMachine& machine)
{
    for (int i = 0; i < kCudaCodesMax && machine.codes[i] != 0; i++) {
        if (machine.codes[i] / 10 == machine.compute_major &&
            machine.codes[i] % 10 <= machine.compute_minor) {
            return true;
        }
    }
    return false;
}

// PTX runs on what is at least as new, through a driver at least as new as the compiler.
bool holds_ptx(const CudaMachine& machine)
{
    const int capability = machine.compute_major * 10 + machine.compute_minor;
    for (int i = 0; i < kCudaCodesMax && machine.ptx[i] != 0; i++) {
        if (machine.ptx[i] <= capability) {
            return true;
        }
    }
    return false;
}

bool kernels_usable(const CudaMachine& machine, char* reason, size_t reason_bytes)
{
    if (holds_code(machine)) {
        return true;
    }
    const int capability = machine.compute_major * 10 + machine.compute_minor;
    if (capability < machine.codes[0]) {
        std::snprintf(reason, reason_bytes,
                      "%s has compute capability %d.%d, this build needs %d.%d or later",
                      machine.name, machine.compute_major, machine.compute_minor,
                      machine.codes[0] / 10, machine.codes[0] % 10);
        return false;
    }
    if (!holds_ptx(machine)) {
        std::snprintf(reason, reason_bytes,
                      "%s has compute capability %d.%d, for which this build has no code",
                      machine.name, machine.compute_major, machine.compute_minor);
        return false;
    }
    if (machine.driver_version < machine.runtime_version) {
        std::snprintf(reason, reason_bytes,
                      "%s is newer than this build, and compiles for it only with a driver for "
                      "CUDA %d.%d or later",
                      machine.name, machine.runtime_version / 1000,
                      machine.runtime_version % 1000 / 10);
        return false;
    }
    return true;
}

}  // namespace

void cuda_loading_choose() noexcept
{
    setenv("CUDA_MODULE_LOADING", "EAGER", 1);
}

bool cuda_usable(const CudaMachine& machine, char* reason, size_t reason_bytes) noexcept
{
    if (machine.driver_version == 0) {
        std::snprintf(reason, reason_bytes, "no CUDA driver (%d)", kCudaNoDriver);
        return false;
    }
    const int lowest = machine.runtime_version / 1000 * 1000 > kDriverLowest
                           ? machine.runtime_version / 1000 * 1000
                           : kDriverLowest;
    if (machine.driver_version < lowest) {
        std::snprintf(reason, reason_bytes,
                      "the CUDA driver serves %d.%d, this build needs %d.%d or later",
                      machine.driver_version / 1000, machine.driver_version % 1000 / 10,
                      lowest / 1000, lowest % 1000 / 10);
        return false;
    }
    if (machine.device_count == 0) {
        std::snprintf(reason, reason_bytes, "a CUDA driver, but no GPU (%d)", kCudaNoDevice);
        return false;
    }
    if (!kernels_usable(machine, reason, reason_bytes)) {
        return false;
    }
    if (machine.maps_registered == 0) {
        std::snprintf(reason, reason_bytes, "%s cannot use host memory at its own addresses",
                      machine.name);
        return false;
    }
    if (blocking_launches()) {
        std::snprintf(reason, reason_bytes,
                      "CUDA_LAUNCH_BLOCKING is set; the loop cannot run with it, unset it");
        return false;
    }
    return true;
}

}  // namespace aotx
