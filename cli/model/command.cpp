// Purpose:  register `aotxctl model` and its subcommands.
// Owns:     nothing.
// Thread:   main.
// Lifetime: not applicable.
#include "cli/model/command.h"

#include <memory>

#include "cli/model/model.h"

namespace aotx::cli {
namespace {

// Values of one subcommand's options, alive as long as its callback.
template <typename Own>
struct Arguments {
    TargetArguments target;
    Own own;
};

void add_inspect(Command& model, Context& context)
{
    const auto arguments = std::make_shared<Arguments<bool>>();
    arguments->own = false;
    Command command = model.add(
        context, "inspect", "show ports, stages, streams, regions and identity",
        "  aotxctl model inspect libaotx_reach.so\n"
        "  aotxctl model inspect libaotx_reach.so --config '{\"stage_plan\":\"context_action\"}'\n"
        "  aotxctl model inspect libaotx_reach.so --identity > before.txt\n",
        [&context, arguments]() {
            return model_inspect(context, arguments->target, arguments->own);
        });
    add_target_options(&command, &arguments->target, false);
    command.flag("--identity", &arguments->own, "print the identity alone");
}

void add_check(Command& model, Context& context)
{
    const auto arguments = std::make_shared<Arguments<CheckArguments>>();
    Command command =
        model.add(context, "check", "prove a producer against the ABI; findings name their rule",
                  "  aotxctl model check libmine.so --config '{}'\n"
                  "  aotxctl model check libmine.so --in prompt=text:hello --all\n",
                  [&context, arguments]() {
                      return model_check(context, arguments->target, arguments->own);
                  });
    add_target_options(&command, &arguments->target, true);
    command.option("--ticks", &arguments->own.ticks, "ticks of the hot checks")
        .show_default()
        .range(1, 100000000);
    command.flag("--all", &arguments->own.all, "also show rules that hold or were skipped");
}

void add_run(Command& model, Context& context)
{
    const auto arguments = std::make_shared<Arguments<RunArguments>>();
    Command command = model.add(
        context, "run", "feed the ports, tick, show or write the outputs",
        "  aotxctl model run libaotx_reach.so --in images=front.png,wrist.png \\\n"
        "      --in 'prompt=text:reach for the cup' --in state=num:0,0,0,-1,0,1,0.04\n"
        "  aotxctl model run libmine.so --in audio=hello.wav --ticks 3 --out audio=answer.wav\n",
        [&context, arguments]() { return model_run(context, arguments->target, arguments->own); });
    add_target_options(&command, &arguments->target, true);
    command.option("--ticks", &arguments->own.ticks, "how often to tick").show_default();
    command.option("--out", &arguments->own.outputs,
                   "PORT=FILE; .png, .wav and .txt are written as such, else raw bytes");
    command
        .option("--rate", &arguments->own.rate,
                "samples a second of .wav outputs whose port states none; without it, those of "
                "the .wav inputs")
        .range(1, 1000000);
}

void add_bench(Command& model, Context& context)
{
    const auto arguments = std::make_shared<Arguments<BenchArguments>>();
    Command command = model.add(
        context, "bench", "latency percentiles of every verb, of the tick and of its stages",
        "  aotxctl model bench libaotx_reach.so --ticks 10000 --svg ticks.svg\n",
        [&context, arguments]() {
            return model_bench(context, arguments->target, arguments->own);
        });
    add_target_options(&command, &arguments->target, true);
    command
        .option("--ticks", &arguments->own.ticks,
                "ticks that count, and calls of each stage and cold verb")
        .show_default()
        .range(1, 100000000);
    command.option("--warmup", &arguments->own.warmup, "ticks before them").show_default();
    command.option("--svg", &arguments->own.svg, "write the histogram of ticks here");
}

void add_diff(Command& model, Context& context)
{
    const auto arguments = std::make_shared<DiffArguments>();
    Command command =
        model.add(context, "diff", "two identities side by side: why is this state refused?",
                  "  aotxctl model diff a.so b.so\n"
                  "  aotxctl model diff before.txt libmine.so --right-config '{\"io\":\"raw\"}'\n",
                  [&context, arguments]() { return model_diff(context, *arguments); });
    command.option("left", &arguments->left, "producer, or identity saved as .txt").required();
    command.option("right", &arguments->right, "the other one").required();
    command.option("--left-config", &arguments->left_config, "configuration of the left one")
        .show_default();
    command.option("--right-config", &arguments->right_config, "of the right one").show_default();
}

}  // namespace

void add_model_command(Command& program, Context& context)
{
    Command model = program.add_family("model", "look at, prove and run model runtimes");
    add_inspect(model, context);
    add_check(model, context);
    add_run(model, context);
    add_bench(model, context);
    add_diff(model, context);
}

}  // namespace aotx::cli
