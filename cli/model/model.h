// Purpose:  the subcommands of `aotxctl model`, each one function.
// Owns:     nothing.
// Thread:   main.
// Lifetime: not applicable.
#pragma once

#include "cli/model/target.h"

namespace aotx::cli {

struct DiffArguments {
    std::string left;
    std::string right;
    std::string left_config = "{}";
    std::string right_config = "{}";
};

struct RunArguments {
    uint32_t ticks = 1;
    uint32_t rate = 0;                 // of WAV outputs whose port states none
    std::vector<std::string> outputs;  // PORT=FILE
};

struct BenchArguments {
    uint32_t ticks = 1000;
    uint32_t warmup = 20;
    std::string svg;  // file for the histogram of ticks
};

struct CheckArguments {
    uint32_t ticks = 200;
    bool all = false;
};

// Each returns an exit code or throws Failure.
int model_inspect(const Context& context, const TargetArguments& target, bool identity_only);
int model_diff(const Context& context, const DiffArguments& arguments);
int model_check(const Context& context, const TargetArguments& target,
                const CheckArguments& arguments);
int model_run(const Context& context, const TargetArguments& target, const RunArguments& arguments);
int model_bench(const Context& context, const TargetArguments& target,
                const BenchArguments& arguments);

}  // namespace aotx::cli
