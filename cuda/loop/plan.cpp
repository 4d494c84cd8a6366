// Purpose:  the ranges of a configuration and what the core's limits become from it and the
// runtimes.
// Owns:     nothing.
// Thread:   main.
// Lifetime: before anything is taken.
#include "plan.h"

#include <cstring>

namespace aotx {

namespace {

struct ConfigRange {
    const char* reason;
    uint32_t LoopConfig::*field;
    uint32_t lowest;
    uint32_t highest;
};

constexpr ConfigRange kRanges[] = {
    {"mailboxes is outside 2..1024", &LoopConfig::mailboxes_count, 2, 1024},
    {"principals is outside 1..65536", &LoopConfig::principals_max, 1, 65536},
    {"requests is outside 1..65536", &LoopConfig::requests_max, 1, 65536},
    {"output_bytes is outside 256..1048576", &LoopConfig::output_bytes_max, 256, 1048576},
    {"prompt_bytes is outside 256..65408", &LoopConfig::prompt_bytes_max, 256, 65408},
    {"execution_slots is outside 1..256", &LoopConfig::execution_slots, 1, 256},
    {"request_seconds is outside 1..86400", &LoopConfig::request_seconds_max, 1, 86400},
    {"upload_seconds is outside 1..86400", &LoopConfig::upload_seconds_max, 1, 86400},
    {"grant_active_requests is outside 1..65536", &LoopConfig::grant_active_requests_max, 1, 65536},
    {"prompts is outside 0..65536", &LoopConfig::prompts_max, 0, 65536},
    {"spin_us is outside 0..1000", &LoopConfig::spin_us, 0, 1000},
    {"more than 8 models", &LoopConfig::models_count, 0, kLoopModelsMax},
};

int config_check(const LoopConfig& config, const char** reason)
{
    for (const ConfigRange& range : kRanges) {
        const uint32_t value = config.*range.field;
        if (value < range.lowest || value > range.highest) {
            *reason = range.reason;
            return AOTX_ERR_RANGE;
        }
    }
    if (config.epoch == 0) {
        *reason = "the epoch is 0";
        return AOTX_ERR_RANGE;
    }
    for (uint32_t i = 0; i < config.models_count; i++) {
        const uint32_t role = config.models[i].role;
        if (role >= kCoreRolesMax || (AOTX_MODEL_MASK_LANGUAGE & (1u << role)) == 0) {
            *reason = "a model's role is none of the language roles";
            return AOTX_ERR_RANGE;
        }
        for (uint32_t j = 0; j < i; j++) {
            if (config.models[j].role == role) {
                *reason = "two models have the same role";
                return AOTX_ERR_RANGE;
            }
        }
    }
    return AOTX_OK;
}

int models_plan(const LoopConfig& config, LimitsPlan* plan, const char** reason)
{
    for (uint32_t i = 0; i < config.models_count; i++) {
        CoreModel* const model = &plan->limits.models[i];
        model->role = config.models[i].role;
        std::memcpy(model->sha256, config.models[i].sha256, sizeof model->sha256);
        if (!engine_probe(config.models[i].runtime, &plan->engines[i], model, reason)) {
            return AOTX_ERR_RUNTIME;
        }
        if (model->slots_count > config.execution_slots) {
            model->slots_count = config.execution_slots;
        }
        plan->runtime_bytes += engine_allocation_bytes(plan->engines[i]);
    }
    return AOTX_OK;
}

void limits_fill(const LoopConfig& config, CoreLimits* limits)
{
    limits->mailboxes_count = config.mailboxes_count;
    limits->principals_max = config.principals_max;
    limits->requests_max = config.requests_max;
    limits->prompts_max = config.prompts_max == 0 || config.prompts_max > config.requests_max
                              ? config.requests_max
                              : config.prompts_max;
    limits->output_bytes_max = config.output_bytes_max;
    limits->prompt_bytes_max = config.prompt_bytes_max;
    limits->request_seconds_max = config.request_seconds_max;
    limits->upload_seconds_max = config.upload_seconds_max;
    limits->grant_active_requests_max = config.grant_active_requests_max;
    limits->models_count = config.models_count;
    limits->epoch = config.epoch;
    limits->seed = config.seed;
}

// Printable ASCII, cut to leave a zero byte at the end of the zeroed place.
void text_put(const char* text, uint8_t* place, size_t place_bytes)
{
    for (size_t i = 0; i + 1u < place_bytes && text[i] != '\0'; i++) {
        const bool printable = text[i] >= 0x20 && text[i] < 0x7f;
        place[i] = static_cast<uint8_t>(printable ? text[i] : '?');
    }
}

}  // namespace

void device_row_make(uint32_t kind, const char* name, const char* reason,
                     aotx_device_row* row) noexcept
{
    *row = {};
    row->schema = AOTX_DEVICE_SCHEMA;
    row->kind = kind;
    text_put(name[0] == '\0' ? "unnamed" : name, row->name, sizeof row->name);
    text_put(reason, row->reason, sizeof row->reason);
}

int limits_plan(const LoopConfig& config, LimitsPlan* plan, const char** reason) noexcept
{
    *plan = {};
    const int checked = config_check(config, reason);
    if (checked != AOTX_OK) {
        return checked;
    }
    limits_fill(config, &plan->limits);
    return models_plan(config, plan, reason);
}

}  // namespace aotx
