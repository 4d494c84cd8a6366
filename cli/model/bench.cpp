// Purpose:  `aotxctl model bench`: latency percentiles per verb, per tick and per stage, jitter, a
//           histogram.
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

// When a host pays for it: hot verbs and the tick in every round, a stage as a part of the tick,
// cold verbs outside ticks.
enum class Phase { hot, stage, cold };

const char* phase_word(Phase phase)
{
    return phase == Phase::hot ? "hot" : phase == Phase::stage ? "stage" : "cold";
}

// All times of one thing that was measured, microseconds.
struct Series {
    std::string name;
    Phase phase;
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

// One run of the command: what is measured, and how often.
class Bench {
public:
    Bench(Target* target, const BenchArguments& arguments);

    void run();
    // Sorted times of all that was measured; what was not has none.
    const std::vector<Series>& all() const { return all_; }
    const Series& tick() const { return all_[model_->n_ports]; }

private:
    void check(int code) const;
    void feed();
    void round(bool record);
    void measure_stages();
    void measure_step();
    void measure_cold();
    Series* add(const std::string& name, Phase phase);
    // arguments_.ticks times of one call that answers a code; before() is not timed. A call that is
    // not supported has no times.
    template <typename Before, typename Call>
    void measure(const std::string& name, Phase phase, Before before, Call call);

    Target* target_;
    const BenchArguments& arguments_;
    const frt_model_runtime_v1* model_;
    std::vector<std::string> room_;  // of outputs, by port
    std::vector<Series> all_;        // the ports in their order, the tick, then the rest
};

Bench::Bench(Target* target, const BenchArguments& arguments)
    : target_(target), arguments_(arguments), model_(target->model()), room_(model_->n_ports)
{
    for (uint32_t at = 0; at < model_->n_ports; at++) {
        const frt_runtime_port_desc& port = model_->ports[at];
        const char* verb = is_hot_input(port)    ? "set_input "
                           : is_hot_output(port) ? "get_output "
                                                 : "";
        add(verb + std::string(verb[0] == '\0' ? "" : port.name), Phase::hot);
        std::string payload;
        if (is_hot_output(port) && target->driver().output(at, &payload)) {
            room_[at].resize(payload.size() + 4096);
        }
    }
    add("tick", Phase::hot);
}

Series* Bench::add(const std::string& name, Phase phase)
{
    all_.push_back({name, phase, {}});
    all_.back().times_us.reserve(arguments_.ticks);  // nothing is allocated between two readings
    return &all_.back();
}

void Bench::check(int code) const
{
    if (code != 0) {
        throw Failure(kExitUnavailable, "a verb or a tick fails: " + target_->error());
    }
}

void Bench::feed()
{
    for (uint32_t at = 0; at < model_->n_ports; at++) {
        if (is_hot_input(model_->ports[at])) {
            const std::string& payload = target_->driver().payload(at);
            check(target_->driver().set(at, payload.data(), payload.size()));
        }
    }
}

// One round, its times appended when record is set.
void Bench::round(bool record)
{
    int code = 0;
    for (uint32_t at = 0; at < model_->n_ports; at++) {
        if (is_hot_input(model_->ports[at])) {
            const std::string& payload = target_->driver().payload(at);
            const double begin = now_us();
            code |= target_->driver().set(at, payload.data(), payload.size());
            const double end = now_us();
            if (record) {
                all_[at].times_us.push_back(end - begin);
            }
        }
    }
    const double begin = now_us();
    code |= target_->driver().tick();
    const double end = now_us();
    if (record) {
        all_[model_->n_ports].times_us.push_back(end - begin);
    }
    for (uint32_t at = 0; at < model_->n_ports; at++) {
        if (is_hot_output(model_->ports[at])) {
            uint64_t written = 0;
            std::string& out = room_[at];
            const double from = now_us();
            code |=
                model_->verbs.get_output(model_->self, at, out.data(), out.size(), &written, -1);
            const double to = now_us();
            if (record) {
                all_[at].times_us.push_back(to - from);
            }
        }
    }
    check(code);
}

template <typename Before, typename Call>
void Bench::measure(const std::string& name, Phase phase, Before before, Call call)
{
    before();
    const int offered = call();
    if (offered == FRT_VERB_UNSUPPORTED) {
        return;
    }
    check(offered);
    Series* series = add(name, phase);
    for (uint32_t at = 0; at < arguments_.ticks; at++) {
        before();
        const double begin = now_us();
        const int code = call();
        series->times_us.push_back(now_us() - begin);
        check(code);
    }
}

// Each stage of a tick by itself, in rounds of their own so that the tick is not disturbed.
void Bench::measure_stages()
{
    flashrt::conformance::Driver& driver = target_->driver();
    const size_t first = all_.size();
    for (uint64_t at = 0; at < driver.stages(); at++) {
        add(std::string("stage ") + driver.stage_name(at), Phase::stage);
    }
    for (uint32_t turn = 0; driver.stages() > 0 && turn < arguments_.ticks; turn++) {
        feed();
        for (uint64_t at = 0; at < driver.stages(); at++) {
            const double begin = now_us();
            const int code = driver.run_stage(at);
            all_[first + at].times_us.push_back(now_us() - begin);
            check(code);
        }
    }
}

// Where stages make the tick, step is a second way to the same work.
void Bench::measure_step()
{
    if (target_->driver().stages() > 0 &&
        target_->subject().adopted.original()->verbs.step != nullptr) {
        measure(
            "step", Phase::hot, [this] { feed(); },
            [this] { return model_->verbs.step(model_->self); });
    }
}

void Bench::measure_cold()
{
    const auto nothing = [] {};
    for (uint32_t at = 0; at < model_->exp->n_graphs; at++) {
        const frt_runtime_graph_desc& graph = model_->exp->graphs[at];
        measure(std::string("prepare ") + graph.name, Phase::cold, nothing, [this, at, &graph] {
            return model_->verbs.prepare(model_->self, at, graph.default_key);
        });
    }
    measure("last_error", Phase::cold, nothing, [this] {
        return model_->verbs.last_error(model_->self) != nullptr ? 0 : FRT_VERB_BACKEND;
    });
}

void Bench::run()
{
    for (uint32_t at = 0; at < arguments_.warmup + arguments_.ticks; at++) {
        round(at >= arguments_.warmup);
    }
    measure_stages();
    measure_step();
    measure_cold();
    for (Series& series : all_) {
        std::sort(series.times_us.begin(), series.times_us.end());
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

void print_head(const std::string& title)
{
    std::string head = title;
    head.resize(28, ' ');
    for (const Column& column : kColumns) {
        head += padded_left(column.name, 11);
    }
    print_text(head + padded_left("mean", 11) + padded_left("jitter", 11) + "\n");
}

// A table of each phase that has something in it.
void print_tables(const std::vector<Series>& all)
{
    for (const Phase phase : {Phase::hot, Phase::stage, Phase::cold}) {
        bool any = false;
        for (const Series& series : all) {
            if (series.times_us.empty() || series.phase != phase) {
                continue;
            }
            if (!any) {
                print_head(std::string(phase_word(phase)) + ", microseconds");
            }
            any = true;
            std::string line = escape_controls(series.name, false);
            line.resize(std::max<size_t>(line.size(), 28), ' ');
            for (const Column& column : kColumns) {
                line += padded_left(text_of(series.percentile(column.part)), 11);
            }
            print_text(line + padded_left(text_of(series.mean()), 11) +
                       padded_left(text_of(series.jitter()), 11) + "\n");
        }
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
        json.key("phase").text(phase_word(series.phase));
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
    const std::string refusal = target.driver().feed(1);
    if (!refusal.empty()) {
        throw Failure(kExitRefused, refusal);
    }
    Bench measured(&target, bench);
    measured.run();
    if (!bench.svg.empty() &&
        file_replace(bench.svg, histogram_svg(measured.tick()), 0644) != AOTX_OK) {
        throw Failure(kExitInput, bench.svg + ": " + std::strerror(errno));
    }
    if (context.json) {
        print_series_json(measured.all(), bench.ticks);
    } else {
        print_tables(measured.all());
    }
    return kExitDone;
}

}  // namespace aotx::cli
