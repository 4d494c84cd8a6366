// Purpose:  the default model against recorded answers of llama.cpp and recorded F32 logits.
// Owns:     nothing.
// Thread:   main and the pool's.
// Lifetime: one run. Exit code 77: no model file ($AOTX_MODEL or .aotx/...), nothing was tested.
//
// Greedy answers equal the recorded ones token by token, or at the first difference the gap between
// our choice and the recorded one is no larger than the peer's own deviation from F32 there. After
// the prompt and after 63 recorded tokens of the answer, quantised activations are no further from
// F32 than the peer is, by the largest difference over the whole vocabulary and by the root of the
// mean square. After the prompt, no logit of float activations is further from F32 than 1e-4.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "reference.h"
#include "text_runtime.h"

namespace {

constexpr uint32_t kSequences = 16;
constexpr uint32_t kAnswerTokens = 64;
constexpr double kFloatTolerance = 1e-4;  // absolute

// Over the whole vocabulary.
struct Deviation {
    double largest = 0;
    double root_mean_square = 0;
};

// A position whose logits are known wholly.
struct Whole {
    uint32_t position = 0;
    Deviation peer;
    const float* exact = nullptr;  // F32 logits [vocab]
};

struct Golden {
    std::string name;
    std::vector<int32_t> tokens;
    std::vector<int32_t> greedy;
    std::vector<double> deviation;  // of the peer from F32, by position
    std::vector<Whole> wholes;      // the first position and the last
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
            Whole whole;
            words >> whole.position >> whole.peer.largest >> whole.peer.root_mean_square;
            rows.back().wholes.push_back(whole);
        }
    }
    return rows;
}

// All F32 logits of the recorded states, in the order of the file. The rows will point into them.
std::vector<float> read_exact(const char* path, const std::string& model, std::vector<Golden>* rows)
{
    aotx::TextReason reason;
    aotx::GgufFile file;
    if (file.open(model.c_str(), &reason) != 0) {
        std::printf("FAILED: open: %s\n", reason.text);
        std::exit(1);
    }
    const aotx_test::FloatMatrix output = aotx_test::load_output_matrix(file);
    std::vector<float> states(rows->size() * 2 * output.columns);
    std::ifstream in(path, std::ios::binary);
    const auto bytes = static_cast<std::streamsize>(states.size() * sizeof(float));
    if (!in.read(reinterpret_cast<char*>(states.data()), bytes) || in.peek() != EOF) {
        std::printf("FAILED: %s is not of the recorded prompts\n", path);
        std::exit(1);
    }
    std::vector<float> logits = aotx_test::multiply(output, states);
    const float* next = logits.data();
    for (Golden& row : *rows) {
        if (row.wholes.size() != 2 || row.greedy.size() != kAnswerTokens ||
            row.deviation.size() != kAnswerTokens) {
            std::printf("FAILED: %s is not recorded wholly\n", row.name.c_str());
            std::exit(1);
        }
        for (Whole& whole : row.wholes) {
            whole.exact = next;
            next += output.rows;
        }
    }
    return logits;
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

Deviation deviation(const Whole& whole, const float* logits, uint32_t vocab)
{
    Deviation found;
    double squares = 0;
    for (uint32_t i = 0; i < vocab; i++) {
        const double difference = std::fabs(static_cast<double>(logits[i]) - whole.exact[i]);
        // A logit that is no number must not pass.
        const double seen = std::isnan(difference) ? HUGE_VAL : difference;
        found.largest = std::fmax(found.largest, seen);
        squares += difference * difference;
    }
    found.root_mean_square = std::sqrt(squares / vocab);
    return found;
}

// One prompt being answered. Behind the first difference it is fed the recorded answer.
struct Running {
    const Golden* golden;
    uint32_t position = 0;
    bool equal = true;
};

Deviation worst;     // of quantised activations
double closest = 0;  // largest part of the peer's deviation that ours came to

void compare_whole(const Running& running, const float* logits, uint32_t vocab)
{
    const Golden& golden = *running.golden;
    for (const Whole& whole : golden.wholes) {
        if (whole.position != running.position) {
            continue;
        }
        const Deviation own = deviation(whole, logits, vocab);
        const Deviation& peer = whole.peer;
        check(own.largest <= peer.largest, golden, "largest deviation", own.largest, peer.largest);
        check(own.root_mean_square <= peer.root_mean_square, golden, "mean deviation",
              own.root_mean_square, peer.root_mean_square);
        worst.largest = std::fmax(worst.largest, own.largest);
        worst.root_mean_square = std::fmax(worst.root_mean_square, own.root_mean_square);
        closest = std::fmax(closest, own.largest / peer.largest);
        closest = std::fmax(closest, own.root_mean_square / peer.root_mean_square);
    }
}

// Judge the logits of the running position.
void judge(Running* running, const float* logits, uint32_t vocab)
{
    compare_whole(*running, logits, vocab);
    if (!running->equal) {
        return;
    }
    const Golden& golden = *running->golden;
    int32_t best = 0;
    for (uint32_t i = 1; i < vocab; i++) {
        best = logits[i] > logits[best] ? static_cast<int32_t>(i) : best;
    }
    const int32_t recorded = golden.greedy[running->position];
    if (best == recorded) {
        return;
    }
    const double gap = static_cast<double>(logits[best]) - logits[recorded];
    const double limit = golden.deviation[running->position];
    std::printf("  %s parts at %u: gap %g, the peer's deviation %g\n", golden.name.c_str(),
                running->position, gap, limit);
    check(gap <= limit, golden, "gap of the first difference", gap, limit);
    running->equal = false;
}

// Answer up to kSequences prompts together. Returns how many equal the record to its end.
uint32_t answer_together(aotx::TextRuntime* runtime, const Golden* golden, uint32_t count)
{
    const uint32_t vocab = runtime->properties().vocab_size;
    std::vector<Running> running(count);
    for (uint32_t i = 0; i < count; i++) {
        running[i].golden = &golden[i];
        judge(&running[i], prefill(runtime, golden[i], i), vocab);
    }
    for (uint32_t position = 1; position < kAnswerTokens; position++) {
        std::vector<aotx_text_row> rows;
        for (uint32_t i = 0; i < count; i++) {
            rows.push_back({i, 1, &golden[i].greedy[position - 1], 1, 0, nullptr});
        }
        require(runtime->step(rows.data(), count), *runtime);
        for (uint32_t i = 0; i < count; i++) {
            running[i].position = position;
            judge(&running[i], rows[i].logits, vocab);
        }
    }
    uint32_t equal = 0;
    for (uint32_t i = 0; i < count; i++) {
        require(runtime->sequence_close(i), *runtime);
        equal += running[i].equal ? 1 : 0;
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
    std::printf(
        "quantised: largest deviation %g, root of mean square %g, at most %g of the peer's\n",
        worst.largest, worst.root_mean_square, closest);
}

void check_float(const std::string& model, const std::vector<Golden>& golden)
{
    aotx::TextRuntime runtime;
    open(&runtime, model, "float");
    const uint32_t vocab = runtime.properties().vocab_size;
    double largest = 0;
    for (const Golden& row : golden) {
        const Deviation own = deviation(row.wholes[0], prefill(&runtime, row, 0), vocab);
        check(own.largest <= kFloatTolerance, row, "float deviation from F32", own.largest,
              kFloatTolerance);
        largest = std::fmax(largest, own.largest);
        require(runtime.sequence_close(0), runtime);
    }
    std::printf("float: largest deviation %g\n", largest);
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
    std::vector<Golden> golden = read_golden("tests/text/golden/numerics.txt");
    if (golden.size() < 50) {
        std::printf("FAILED: %zu golden prompts, at least 50 expected\n", golden.size());
        return 1;
    }
    const std::vector<float> exact =
        read_exact("tests/text/golden/numerics_states.bin", model, &golden);
    check_quantised(model, golden);
    check_float(model, golden);
    std::printf("%u failures\n", failures);
    return failures == 0 ? 0 : 1;
}
