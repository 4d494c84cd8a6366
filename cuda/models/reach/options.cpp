// Purpose:  configuration and stage plans of the reach example.
// Owns:     nothing.
// Thread:   the thread that opens.
// Lifetime: the call.
#include <cstring>

#include "reach.h"

namespace aotx::reach {
namespace {

struct Number {
    const char* key;
    int64_t fallback;
    int64_t low;
    int64_t high;
};

constexpr Number kNumbers[] = {
    {"num_views", 2, 1, kViewsMax},      {"chunk", 10, 1, kChunkMax},
    {"num_steps", 4, 1, kStepsMax},      {"prefix_len", 0, 0, kChunkMax},
    {"max_frame_width", 1920, 1, 16384}, {"max_frame_height", 1080, 1, 16384},
    {"seed", 1, 0, INT64_MAX},           {"streams", 1, 1, kStreamsMax},
};

// Where the action stage replays: on a stream of its own when there are two.
const char* action_stream(frt::StagePlanArguments* arguments)
{
    return arguments->get("streams", 1) > 1 ? kStreamNames[1] : kStreamNames[0];
}

int plan_full(void*, frt::StagePlanArguments* arguments, frt::StagePlan* plan)
{
    arguments->get("streams", 1);  // one stage needs one stream, however many there are
    return plan->stage("infer", "infer", {}, "main");
}

int plan_context_action(void*, frt::StagePlanArguments* arguments, frt::StagePlan* plan)
{
    const char* stream = action_stream(arguments);
    const int code = plan->stage("context", "context", {}, "main");
    return code != 0 ? code : plan->stage("action", "decode_only", {"context"}, stream);
}

int plan_rtc_prefix(void*, frt::StagePlanArguments* arguments, frt::StagePlan* plan)
{
    if (arguments->get("prefix_len", 0) < 1) {
        return frt_detail::refuse("context_rtc_prefix_action needs a prefix_len of at least 1");
    }
    const char* stream = action_stream(arguments);
    const int code = plan->stage("context", "context", {}, "main");
    return code != 0 ? code : plan->stage("action", "decode_rtc_prefix", {"context"}, stream);
}

int texts_read(frt::FlatConfig* config, Options* options)
{
    const char* io = nullptr;
    const char* plan = nullptr;
    if (config->text("io", "native", &io) != 0 || config->text("stage_plan", "full", &plan) != 0) {
        return -1;
    }
    options->native = std::strcmp(io, "native") == 0;
    if (!options->native && std::strcmp(io, "raw") != 0) {
        return frt_detail::refuse("configuration: io is neither native nor raw");
    }
    const size_t plan_bytes = std::strlen(plan);
    if (plan_bytes >= sizeof options->stage_plan) {
        return frt_detail::refuse("configuration: there is no stage_plan of that name");
    }
    std::memcpy(options->stage_plan, plan, plan_bytes + 1);
    return 0;
}

}  // namespace

int options_read(const char* config_json, Options* options)
{
    frt::FlatConfig config;
    int64_t values[sizeof kNumbers / sizeof kNumbers[0]] = {};
    if (config.parse(config_json) != 0 || texts_read(&config, options) != 0) {
        return -1;
    }
    for (size_t at = 0; at < sizeof kNumbers / sizeof kNumbers[0]; at++) {
        const Number& number = kNumbers[at];
        if (config.integer(number.key, number.fallback, number.low, number.high, &values[at]) !=
            0) {
            return -1;
        }
    }
    if (config.finish() != 0) {
        return -1;
    }
    options->shape = {static_cast<uint32_t>(values[0]), static_cast<uint32_t>(values[1]),
                      static_cast<uint32_t>(values[2]), static_cast<uint32_t>(values[3])};
    options->frame_width_max = static_cast<uint32_t>(values[4]);
    options->frame_height_max = static_cast<uint32_t>(values[5]);
    options->seed = static_cast<uint64_t>(values[6]);
    options->streams = static_cast<uint32_t>(values[7]);
    if (options->shape.prefix > options->shape.chunk) {
        return frt_detail::refuse("configuration: prefix_len is above chunk");
    }
    return 0;
}

int plans_register(frt::StagePlans* plans)
{
    const struct {
        const char* name;
        frt::StagePlanFactory factory;
    } rows[] = {{"full", plan_full},
                {"context_action", plan_context_action},
                {"context_rtc_prefix_action", plan_rtc_prefix}};
    for (const auto& row : rows) {
        if (plans->add("reach", row.name, row.factory) != 0) {
            return -1;
        }
    }
    return 0;
}

}  // namespace aotx::reach
