// Purpose:  `aotxctl model run` and `check`: feed, tick, write; and prove a producer.
// Owns:     nothing.
// Thread:   main.
// Lifetime: not applicable.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "cli/failure.h"
#include "cli/model/media.h"
#include "cli/model/model.h"
#include "cli/model/wav.h"
#include "cli/terminal.h"
#include "conformance/allocation_calls.h"
#include "service/base/file.h"

namespace aotx::cli {
namespace {

bool ends_with(const std::string& text, const char* end)
{
    const size_t bytes = std::strlen(end);
    return text.size() >= bytes && text.compare(text.size() - bytes, bytes, end) == 0;
}

// A WAV file in the port's own channels and rate. rate: what to say when the port states none.
std::string wav_form(const frt_runtime_port_desc& port, const std::string& file,
                     const std::string& payload, uint32_t rate)
{
    SoundForm form = sound_form(port);
    const std::string what = file + ": port '" + port.name + "'";
    if (form.channels == 0) {
        throw Failure(kExitUsage, what + " does not state its channels");
    }
    form.frames_per_second = form.frames_per_second != 0 ? form.frames_per_second : rate;
    if (form.frames_per_second == 0) {
        throw Failure(kExitUsage, what + " does not state its samples a second: give --rate");
    }
    return wav_write(payload, form, file);
}

// The payload in the form that the file's name asks for.
std::string file_form(const frt_runtime_port_desc& port, const std::string& file,
                      const std::string& payload, uint32_t rate)
{
    if (ends_with(file, ".wav")) {
        return wav_form(port, file, payload, rate);
    }
    if (ends_with(file, ".png")) {
        const bool fits = port.dtype == FRT_RT_DTYPE_U8 && port.rank == 3 && port.shape[0] > 0 &&
                          port.shape[1] > 0 && port.shape[2] > 0 && port.shape[2] <= 4 &&
                          port.shape[2] != 2;
        if (!fits) {
            throw Failure(kExitUsage, file +
                                          ": only U8 outputs [height, width, 1, 3 or 4] "
                                          "become PNG files");
        }
        return png_write(static_cast<uint32_t>(port.shape[1]), static_cast<uint32_t>(port.shape[0]),
                         static_cast<uint32_t>(port.shape[2]), payload);
    }
    if (ends_with(file, ".txt") && port.modality != FRT_RT_MOD_TEXT) {
        const uint64_t row =
            port.rank > 1 ? static_cast<uint64_t>(std::max<int64_t>(port.shape[port.rank - 1], 0))
                          : 0;
        return numbers_text(payload, port.dtype, row) + "\n";
    }
    return payload;
}

void write_file(const std::string& path, const std::string& bytes)
{
    if (file_replace(path, bytes, 0644) != AOTX_OK) {
        throw Failure(kExitInput, path + ": " + std::strerror(errno));
    }
}

// Elements as a JSON array; what JSON has no number for (not a number, infinity) becomes null, and
// whole numbers beyond 2^53 become text.
void numbers_json(const std::string& payload, uint32_t dtype, JsonWriter* json)
{
    constexpr double kExactMax = 9007199254740992.0;
    json->begin_array();
    std::string text = numbers_text(payload, dtype, 1);
    size_t at = 0;
    while (at < text.size()) {
        const size_t end = std::min(text.find('\n', at), text.size());
        const std::string one = text.substr(at, end - at);
        const double value = std::strtod(one.c_str(), nullptr);
        at = end + 1;
        if (!std::isfinite(value)) {
            json->null();
        } else if (dtype == FRT_RT_DTYPE_I64 && std::fabs(value) > kExactMax) {
            json->text(one);
        } else if (value >= 0 && value == std::floor(value) && value < kExactMax) {
            json->number(static_cast<uint64_t>(value));
        } else {
            json->real(value);
        }
    }
    json->end_array();
}

void print_output(const Context& context, const frt_runtime_port_desc& port,
                  const std::string& payload, JsonWriter* json)
{
    const bool text = port.modality == FRT_RT_MOD_TEXT;
    if (context.json) {
        json->key(port.name);
        if (text) {
            json->text(payload);
        } else {
            numbers_json(payload, port.dtype, json);
        }
        return;
    }
    const uint64_t row =
        port.rank > 1 ? static_cast<uint64_t>(std::max<int64_t>(port.shape[port.rank - 1], 0)) : 0;
    print_text(escape_controls(port.name, false) + " " + shape_text(port) + " " +
               dtype_word(port.dtype) + "\n");
    print_text(escape_controls(text ? payload : numbers_text(payload, port.dtype, row), true) +
               "\n");
}

void run_ticks(Target* target, uint32_t ticks)
{
    const std::string refusal = target->driver().feed(1);
    if (!refusal.empty()) {
        throw Failure(kExitRefused, refusal);
    }
    for (uint32_t at = 0; at < ticks; at++) {
        const int code = target->driver().tick();
        if (code != 0) {
            throw Failure(kExitUnavailable, "tick " + std::to_string(at) + " answers " +
                                                target->tick_code_text(code) + ": " +
                                                target->error());
        }
    }
}

const char* rule_text(const std::string& id)
{
    for (const flashrt::conformance::Rule& rule : flashrt::conformance::rules()) {
        if (id == rule.id) {
            return rule.text;
        }
    }
    return "";
}

void print_findings(const std::vector<flashrt::conformance::Finding>& findings, bool all)
{
    using flashrt::conformance::Verdict;
    uint32_t counts[4] = {};
    for (const flashrt::conformance::Finding& finding : findings) {
        counts[static_cast<int>(finding.verdict)]++;
        if (!all && (finding.verdict == Verdict::pass || finding.verdict == Verdict::skip)) {
            continue;
        }
        std::string id = finding.rule;
        id.resize(std::max<size_t>(id.size(), 24), ' ');
        print_text(std::string(verdict_name(finding.verdict)) + "  " + id + " " +
                   rule_text(finding.rule) + "\n");
        if (!finding.text.empty()) {
            print_text("        -> " + escape_controls(finding.text, false) + "\n");
        }
    }
    print_text(std::to_string(counts[0]) + " rules hold, " + std::to_string(counts[1]) +
               " broken, " + std::to_string(counts[2]) + " warnings, " + std::to_string(counts[3]) +
               " not checked\n");
}

void print_findings_json(const std::vector<flashrt::conformance::Finding>& findings)
{
    JsonWriter json;
    json.begin_object().key("conforms").boolean(!flashrt::conformance::failed(findings));
    json.key("findings").begin_array();
    for (const flashrt::conformance::Finding& finding : findings) {
        json.begin_object().key("rule").text(finding.rule);
        json.key("verdict").text(verdict_name(finding.verdict));
        json.key("says").text(rule_text(finding.rule)).key("seen").text(finding.text).end_object();
    }
    json.end_array().end_object();
    print_json(json.str());
}

}  // namespace

int model_run(const Context& context, const TargetArguments& arguments, const RunArguments& run)
{
    Target target(arguments);
    run_ticks(&target, run.ticks);
    for (const std::string& output : run.outputs) {
        const size_t equals = output.find('=');
        if (equals == std::string::npos) {
            throw Failure(kExitUsage, "--out takes PORT=FILE");
        }
        const uint32_t port = target.port(output.substr(0, equals));
        std::string payload;
        if (!target.driver().output(port, &payload)) {
            throw Failure(kExitRefused, "port '" + output.substr(0, equals) +
                                            "' gives no output: " + target.error());
        }
        const std::string file = output.substr(equals + 1);
        const uint32_t rate = run.rate != 0 ? run.rate : target.input_rate();
        write_file(file, file_form(target.model()->ports[port], file, payload, rate));
    }
    if (!run.outputs.empty()) {
        return kExitDone;
    }
    JsonWriter json;
    json.begin_object();
    for (uint32_t port = 0; port < target.model()->n_ports; port++) {
        std::string payload;
        if (target.driver().output(port, &payload)) {
            print_output(context, target.model()->ports[port], payload, &json);
        }
    }
    json.end_object();
    if (context.json) {
        print_json(json.str());
    }
    return kExitDone;
}

int model_check(const Context& context, const TargetArguments& arguments,
                const CheckArguments& check)
{
    flashrt::conformance::Options options;
    options.library = arguments.library.find('/') == std::string::npos ? "./" + arguments.library
                                                                       : arguments.library;
    options.config = arguments.config;
    options.ticks = check.ticks;
    options.allocation_calls = flashrt::conformance::allocation_calls_counted()
                                   ? flashrt::conformance::allocation_calls
                                   : nullptr;
    // The inputs are read through a loaded model, which keeps their pixels until the end.
    std::unique_ptr<Target> target;
    if (!arguments.inputs.empty()) {
        target = std::make_unique<Target>(arguments);
        options.feeds = target->subject().options.feeds;
    }
    const std::vector<flashrt::conformance::Finding> findings = flashrt::conformance::run(options);
    if (context.json) {
        print_findings_json(findings);
    } else {
        print_findings(findings, check.all);
    }
    return flashrt::conformance::failed(findings) ? kExitProtocol : kExitDone;
}

}  // namespace aotx::cli
