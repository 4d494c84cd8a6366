// Purpose:  the default model against recorded answers of llama.cpp and recorded F32 logits.
// Owns:     nothing.
// Thread:   main and the pool's.
// Lifetime: one run. Exit code 77: no model file ($AOTX_MODEL or .aotx/...), nothing was tested.
//
// Greedy answers equal the recorded ones token by token, or at the first difference the gap between
// our choice and the recorded one is no larger than the peer's own deviation from F32 there. With
// quantised activations the logits are no further from F32 than the peer's; with float activations
// they are within 1e-4 of the largest logit.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "text_runtime.h"

namespace {

constexpr uint32_t kSequences = 16;
constexpr double kFloatTolerance = 1e-4;

struct Golden {
    std::string name;
    std::vector<int32_t> tokens;
    std::vector<int32_t> greedy;
    std::vector<double> deviation;  // of the peer from F32, by position
    std::vector<int32_t> top;       // likeliest tokens of F32 at the first position
    std::vector<double> top_logits;
    double peer_largest = 0;
    double peer_mean = 0;
};

template <typename T>
std::vector<T> numbers(std::istringstream* words)
{
    size_t count = 0;
    *words >> count;
    std::vector<T> values(count);
    for (T& value : values) {
        *words >> value;
    }
    return values;
}

std::vector<Golden> read_golden(const char* path)
{
    std::vector<Golden> rows;
    std::ifstream in(path);
    std::string line;
    while (std::getline(in, line)) {
        std::istringstream words(line);
        std::string kind;
        words >> kind;
        if (kind == "prompt") {
            rows.emplace_back();
            words >> rows.back().name;
        } else if (kind == "tokens") {
            rows.back().tokens = numbers<int32_t>(&words);
        } else if (kind == "greedy") {
            rows.back().greedy = numbers<int32_t>(&words);
        } else if (kind == "deviation") {
            rows.back().deviation = numbers<double>(&words);
        } else if (kind == "peer") {
            words >> rows.back().peer_largest >> rows.back().peer_mean;
        } else if (kind == "top") {
            size_t count = 0;
            words >> count;
            for (size_t i = 0; i < count; i++) {
                int32_t token = 0;
                double logit = 0;
                words >> token >> logit;
                rows.back().top.push_back(token);
                rows.back().top_logits.push_back(logit);
            }
        }
    }
    return rows;
}

uint32_t failures = 0;

void check(bool good, const Golden& row, const char* what, double got, double limit)
{
    if (!good) {
        failures++;
        std::printf("FAILED %s: %s: %g, limit %g\n", row.name.c_str(), what, got, limit);
    }
}

void require(int code, const aotx::TextRuntime& runtime)
{
    if (code != 0) {
        std::printf("FAILED: verb answered %d: %s\n", code, runtime.last_error());
        std::exit(1);
    }
}

// Feed a prompt; the logits after it.
const float* prefill(aotx::TextRuntime* runtime, const Golden& row, uint32_t sequence)
{
    require(runtime->sequence_open(sequence, static_cast<uint32_t>(row.tokens.size()) + 64),
            *runtime);
    const uint32_t count = static_cast<uint32_t>(row.tokens.size());
    aotx_text_row step = {};
    for (uint32_t at = 0; at < count; at += step.tokens_count) {
        const uint32_t left = count - at;
        step = {sequence, left < 256 ? left : 256, row.tokens.data() + at, left <= 256 ? 1u : 0u, 0,
                nullptr};
        require(runtime->step(&step, 1), *runtime);
    }
    return step.logits;
}

// Largest difference from the F32 logits of the likeliest tokens.
double top_deviation(const Golden& row, const float* logits)
{
    double largest = 0;
    for (size_t i = 0; i < row.top.size(); i++) {
        const double got = logits[row.top[i]];
        largest = std::fmax(largest, std::fabs(got - row.top_logits[i]));
    }
    return largest;
}

// One prompt being answered.
struct Running {
    const Golden* golden;
    uint32_t position = 0;
    bool going = true;
};

// Judge the choice at the running position. False when the answers part here.
bool judge(Running* running, const float* logits, uint32_t vocab)
{
    const Golden& golden = *running->golden;
    int32_t best = 0;
    for (uint32_t i = 1; i < vocab; i++) {
        best = logits[i] > logits[best] ? static_cast<int32_t>(i) : best;
    }
    const int32_t recorded = golden.greedy[running->position];
    if (best == recorded) {
        return true;
    }
    const double gap = static_cast<double>(logits[best]) - logits[recorded];
    const double limit = golden.deviation[running->position];
    std::printf("  %s parts at %u: gap %g, the peer's deviation %g\n", golden.name.c_str(),
                running->position, gap, limit);
    check(gap <= limit, golden, "gap of the first difference", gap, limit);
    return false;
}

// Answer up to kSequences prompts together. Returns how many equal the record to its end.
uint32_t answer_together(aotx::TextRuntime* runtime, const Golden* golden, uint32_t count)
{
    const uint32_t vocab = runtime->properties().vocab_size;
    std::vector<Running> running(count);
    for (uint32_t i = 0; i < count; i++) {
        running[i].golden = &golden[i];
        const float* const logits = prefill(runtime, golden[i], i);
        const double got = top_deviation(golden[i], logits);
        check(got <= golden[i].deviation[0], golden[i], "deviation from F32", got,
              golden[i].deviation[0]);
        running[i].going = judge(&running[i], logits, vocab);
    }
    for (;;) {
        std::vector<aotx_text_row> rows;
        std::vector<Running*> of_rows;
        for (uint32_t i = 0; i < count; i++) {
            Running& one = running[i];
            if (!one.going || one.position + 1 >= one.golden->greedy.size()) {
                continue;
            }
            rows.push_back({i, 1, &one.golden->greedy[one.position], 1, 0, nullptr});
            of_rows.push_back(&one);
        }
        if (rows.empty()) {
            break;
        }
        require(runtime->step(rows.data(), static_cast<uint32_t>(rows.size())), *runtime);
        for (size_t i = 0; i < rows.size(); i++) {
            of_rows[i]->position++;
            of_rows[i]->going = judge(of_rows[i], rows[i].logits, vocab);
        }
    }
    uint32_t equal = 0;
    for (uint32_t i = 0; i < count; i++) {
        require(runtime->sequence_close(i), *runtime);
        equal += running[i].going ? 1 : 0;
    }
    return equal;
}

std::string config_of(const std::string& model, const char* activations)
{
    return "{\"model_path\":\"" + model +
           "\",\"sequences\":16,\"kv_tokens\":8192,\"sequence_tokens\":2048,\"activations\":\"" +
           activations + "\"}";
}

void open(aotx::TextRuntime* runtime, const std::string& model, const char* activations)
{
    aotx::TextReason reason;
    if (runtime->open(config_of(model, activations).c_str(), &reason) != 0) {
        std::printf("FAILED: open: %s\n", reason.text);
        std::exit(1);
    }
}

void check_quantised(const std::string& model, const std::vector<Golden>& golden)
{
    aotx::TextRuntime runtime;
    open(&runtime, model, "quantised");
    uint32_t equal = 0;
    for (size_t at = 0; at < golden.size(); at += kSequences) {
        const size_t left = golden.size() - at;
        const uint32_t count = static_cast<uint32_t>(left < kSequences ? left : kSequences);
        equal += answer_together(&runtime, golden.data() + at, count);
    }
    std::printf("quantised: %u of %zu answers equal to their end\n", equal, golden.size());
}

void check_float(const std::string& model, const std::vector<Golden>& golden)
{
    aotx::TextRuntime runtime;
    open(&runtime, model, "float");
    double worst = 0;
    for (const Golden& row : golden) {
        // The long prompts add time and nothing new here.
        if (row.tokens.size() > 128) {
            continue;
        }
        const double got = top_deviation(row, prefill(&runtime, row, 0));
        const double limit = kFloatTolerance * std::fmax(1.0, std::fabs(row.top_logits[0]));
        check(got <= limit, row, "float deviation from F32", got, limit);
        worst = std::fmax(worst, got);
        require(runtime.sequence_close(0), runtime);
    }
    std::printf("float: largest deviation %g\n", worst);
}

}  // namespace

int main()
{
    const char* const given = std::getenv("AOTX_MODEL");
    const std::string model = given != nullptr ? given : ".aotx/SmolLM2-135M-Instruct.Q4_1.gguf";
    if (!std::ifstream(model).good()) {
        std::printf("no model file: skipped\n");
        return 77;
    }
    const std::vector<Golden> golden = read_golden("tests/text/golden/numerics.txt");
    if (golden.size() < 50) {
        std::printf("FAILED: %zu golden prompts, at least 50 expected\n", golden.size());
        return 1;
    }
    check_quantised(model, golden);
    check_float(model, golden);
    std::printf("%u failures\n", failures);
    return failures == 0 ? 0 : 1;
}
