// Purpose:  the device as its process sees it: configuration to loop, loop to broker, grants.
// Owns:     nothing; the loop and the broker belong to the caller.
// Thread:   main.
// Lifetime: not applicable.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "cuda/loop/loop.h"
#include "service/aotxd/models.h"
#include "service/broker/broker.h"
#include "service/config/config.h"

namespace aotx {

// The capacities of a configuration with the models that were loaded for it.
[[nodiscard]] LoopConfig loop_config(const Config& config, const std::vector<Model>& models,
                                     uint64_t epoch, uint64_t seed) noexcept;

// Print a budget line by line with its sum, and what the model files map beside it.
void budget_print(const LoopBudget& budget, uint64_t mapped_bytes, bool as_json,
                  FILE* out) noexcept;

// The face that the broker needs of a loop.
[[nodiscard]] BrokerDevice broker_device(Loop* loop) noexcept;

// Install the grant file through the control mailbox. AOTX_ERR_NOT_FOUND: there is none; any other
// value: it cannot be trusted, is no grant frame, or the device refuses it; *error says it in
// words. The grants that were installed stay then. *installed is the frame that was installed last,
// empty at first; that a device which still has it refuses it again is AOTX_OK.
[[nodiscard]] int grants_install(const std::string& path, Broker* broker, std::string* installed,
                                 std::string* error) noexcept;

}  // namespace aotx
