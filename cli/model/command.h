// Purpose:  `aotxctl model`: look at model runtimes, prove them, run them, measure them.
// Owns:     nothing.
// Thread:   main.
// Lifetime: not applicable.
#pragma once

#include "cli/context.h"

namespace aotx::cli {

// Register `model` with its subcommands inspect, check, run, bench and diff.
void add_model_command(Command& program, Context& context);

}  // namespace aotx::cli
