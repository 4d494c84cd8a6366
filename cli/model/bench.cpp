// Purpose:  `aotxctl model bench`: latency percentiles per verb and per tick, jitter, a histogram.
// Owns:     nothing.
// Thread:   main.
// Lifetime: not applicable.
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "cli/failure.h"
#include "cli/model/model.h"
#include "cli/terminal.h"
#include "service/base/file.h"

namespace aotx::cli {
namespace {

constexpr uint32_t kBuckets = 60;

double now_us()
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

// All times of one thing that was measured, microseconds.
struct Series {
    std::string name;
    std::vector<double> times_us;

    double percentile(double part) const
    {
        const double rank = std::ceil(part * static_cast<double>(times_us.size()));
        const size_t index = rank < 1 ? 0 : static_cast<size_t>(rank) - 1;
        return times_us[std::min(index, times_us.size() - 1)];
    }
    double mean() const
    {
        double sum = 0;
        for (const double time : times_us) {
            sum += time;
        }
        return sum / static_cast<double>(times_us.size());
    }
    // Standard deviation: how far one tick lies from another.
    double jitter() const
    {
        const double middle = mean();
        double sum = 0;
        for (const double time : times_us) {
            sum += (time - middle) * (time - middle);
        }
        return std::sqrt(sum / static_cast<double>(times_us.size()));
    }
};

struct Column {
    const char* name;
    double part;
};

constexpr Column kColumns[] = {
    {"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}, {"max", 1.0}};

bool is_hot_input(const frt_runtime_port_desc& port)
{
    return port.direction == FRT_RT_PORT_IN && port.update == FRT_RT_PORT_STAGED;
}

bool is_hot_output(const frt_runtime_port_desc& port)
{
    return port.direction == FRT_RT_PORT_OUT && port.update == FRT_RT_PORT_STAGED;
}

std::vector<Series> empty_series(const frt_model_runtime_v1* model)
{
    std::vector<Series> all;
    for (uint64_t at = 0; at < model->n_ports; at++) {
        const frt_runtime_port_desc& port = model->ports[at];
        const char* verb = is_hot_input(port)    ? "set_input "
                           : is_hot_output(port) ? "get_output "
                                                 : "";
        all.push_back({verb + std::string(verb[0] == '\0' ? "" : port.name), {}});
    }
    all.push_back({"tick", {}});
    return all;
}

// One round, its times appended when record is set.
void round(Target* target, std::vector<std::string>* room, std::vector<Series>* all, bool record)
{
    const frt_model_runtime_v1* model = target->model();
    int code = 0;
    for (uint32_t at = 0; at < model->n_ports; at++) {
        if (is_hot_input(model->ports[at])) {
            const std::string& payload = target->driver().payload(at);
            const double begin = now_us();
            code |= target->driver().set(at, payload.data(), payload.size());
            const double end = now_us();
            if (record) {
                (*all)[at].times_us.push_back(end - begin);
            }
        }
    }
    const double begin = now_us();
    code |= target->driver().tick();
    const double end = now_us();
    if (record) {
        all->back().times_us.push_back(end - begin);
    }
    for (uint32_t at = 0; at < model->n_ports; at++) {
        if (is_hot_output(model->ports[at])) {
            uint64_t written = 0;
            std::string& out = (*room)[at];
            const double from = now_us();
            code |= model->verbs.get_output(model->self, at, out.data(), out.size(), &written, -1);
            const double to = now_us();
            if (record) {
                (*all)[at].times_us.push_back(to - from);
            }
        }
    }
    if (code != 0) {
        throw Failure(kExitUnavailable, "a verb or a tick fails: " + target->error());
    }
}

std::string text_of(double value)
{
    char text[32];
    std::snprintf(text, sizeof text, "%.2f", value);
    return text;
}

std::string padded_left(std::string text, size_t width)
{
    return text.size() >= width ? text : std::string(width - text.size(), ' ') + text;
}

void print_table(const std::vector<Series>& all)
{
    std::string head = "microseconds";
    head.resize(28, ' ');
    for (const Column& column : kColumns) {
        head += padded_left(column.name, 11);
    }
    print_text(head + padded_left("mean", 11) + padded_left("jitter", 11) + "\n");
    for (const Series& series : all) {
        if (series.times_us.empty()) {
            continue;
        }
        std::string line = escape_controls(series.name, false);
        line.resize(std::max<size_t>(line.size(), 28), ' ');
        for (const Column& column : kColumns) {
            line += padded_left(text_of(series.percentile(column.part)), 11);
        }
        print_text(line + padded_left(text_of(series.mean()), 11) +
                   padded_left(text_of(series.jitter()), 11) + "\n");
    }
}

void print_series_json(const std::vector<Series>& all, uint32_t ticks)
{
    JsonWriter json;
    json.begin_object().key("ticks").number(ticks).key("unit").text("us");
    json.key("series").begin_array();
    for (const Series& series : all) {
        if (series.times_us.empty()) {
            continue;
        }
        json.begin_object().key("name").text(series.name);
        for (const Column& column : kColumns) {
            json.key(column.name).real(series.percentile(column.part));
        }
        json.key("mean").real(series.mean()).key("jitter").real(series.jitter()).end_object();
    }
    json.end_array().end_object();
    print_json(json.str());
}

// Ticks per bucket of equal width on a logarithmic axis, from the fastest to the slowest.
std::string histogram_svg(const Series& ticks)
{
    const double low = std::log(std::max(ticks.times_us.front(), 0.001));
    const double high = std::max(std::log(std::max(ticks.times_us.back(), 0.001)), low + 1e-6);
    uint32_t counts[kBuckets] = {};
    uint32_t highest = 1;
    for (const double time : ticks.times_us) {
        const double part = (std::log(std::max(time, 0.001)) - low) / (high - low);
        const uint32_t bucket = std::min(static_cast<uint32_t>(part * kBuckets), kBuckets - 1);
        counts[bucket]++;
        highest = std::max(highest, counts[bucket]);
    }
    std::string svg =
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"680\" height=\"320\" "
        "font-family=\"sans-serif\" font-size=\"12\">\n"
        "<rect width=\"680\" height=\"320\" fill=\"white\"/>\n"
        "<text x=\"40\" y=\"20\">tick latency, microseconds (log), " +
        std::to_string(ticks.times_us.size()) + " ticks</text>\n";
    for (uint32_t bucket = 0; bucket < kBuckets; bucket++) {
        const double bar = 240.0 * counts[bucket] / highest;
        svg += "<rect x=\"" + text_of(40 + bucket * 10) + "\" y=\"" + text_of(280 - bar) +
               "\" width=\"9\" height=\"" + text_of(bar) + "\" fill=\"#3b6ea5\"/>\n";
    }
    for (const Column& column : kColumns) {
        const double value = ticks.percentile(column.part);
        const double at = 40 + 600 * (std::log(std::max(value, 0.001)) - low) / (high - low);
        svg += "<line x1=\"" + text_of(at) + "\" y1=\"30\" x2=\"" + text_of(at) +
               "\" y2=\"285\" stroke=\"#b23a3a\"/><text x=\"" + text_of(at) +
               "\" y=\"300\" text-anchor=\"middle\">" + column.name + " " + text_of(value) +
               "</text>\n";
    }
    return svg + "</svg>\n";
}

}  // namespace

int model_bench(const Context& context, const TargetArguments& arguments,
                const BenchArguments& bench)
{
    Target target(arguments);
    const frt_model_runtime_v1* model = target.model();
    const std::string refusal = target.driver().feed(1);
    if (!refusal.empty()) {
        throw Failure(kExitRefused, refusal);
    }
    std::vector<Series> all = empty_series(model);
    std::vector<std::string> room(model->n_ports);
    for (Series& series : all) {
        series.times_us.reserve(bench.ticks);  // nothing is allocated between two readings
    }
    for (uint32_t at = 0; at < model->n_ports; at++) {
        std::string payload;
        if (is_hot_output(model->ports[at]) && target.driver().output(at, &payload)) {
            room[at].resize(payload.size() + 4096);
        }
    }
    for (uint32_t at = 0; at < bench.warmup + bench.ticks; at++) {
        round(&target, &room, &all, at >= bench.warmup);
    }
    for (Series& series : all) {
        std::sort(series.times_us.begin(), series.times_us.end());
    }
    if (!bench.svg.empty() && file_replace(bench.svg, histogram_svg(all.back()), 0644) != AOTX_OK) {
        throw Failure(kExitInput, bench.svg + ": " + std::strerror(errno));
    }
    if (context.json) {
        print_series_json(all, bench.ticks);
    } else {
        print_table(all);
    }
    return kExitDone;
}

}  // namespace aotx::cli
