// Purpose:  rotation, cache, attention, embedding, the choice of a token and the two ends of a step
// against plain references.
// Owns:     nothing.
// Thread:   main.
// Lifetime: one run.
#include "cuda/kernels/cuda/attention.cuh"
#include "cuda/kernels/cuda/kernel_list.h"
#include "cuda/kernels/cuda/sample.cuh"
#include "cuda/kernels/cuda/step.cuh"
#include "cuda/kernels/cuda/token.cuh"

#include <algorithm>
#include <cctype>
#include <functional>
#include <set>

#include "emulator_launch.h"
#include "fixture.h"

namespace {

using aotx::KvView;
using aotx::TextRow;

struct Heads {
    const char* name;
    uint32_t query_heads;
    uint32_t kv_heads;
    uint32_t head_size;
};

// A cache of a few sequences whose pages lie scattered; what no token wrote is not a number.
struct Cache {
    std::vector<uint16_t> pages;
    std::vector<int32_t> table;
    KvView view = {};

    Cache(const Heads& heads, uint32_t sequences, uint32_t sequence_pages, uint32_t layers)
    {
        const uint32_t pages_count = sequences * sequence_pages + 1;
        const size_t halves = size_t{layers} * pages_count * heads.kv_heads * 2 *
                              aotx::kKvPageTokens * heads.head_size;
        pages.assign(halves + 8, 0xffff);
        for (uint32_t i = 0; i < sequences * sequence_pages; i++) {
            table.push_back(static_cast<int32_t>(pages_count - 1 - (i * 7) % (pages_count - 1)));
        }
        std::vector<int32_t> sorted = table;
        std::sort(sorted.begin(), sorted.end());
        REQUIRE(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end());
        const size_t skew = (16 - reinterpret_cast<uintptr_t>(pages.data()) % 16) % 16 / 2;
        view = {pages.data() + skew, table.data(),   sequence_pages,
                pages_count,         heads.kv_heads, heads.head_size};
    }

    size_t place(uint32_t layer, uint32_t sequence, uint32_t position, uint32_t head,
                 uint32_t value) const
    {
        const uint32_t page = static_cast<uint32_t>(
            table[sequence * view.sequence_pages + position / aotx::kKvPageTokens]);
        const size_t block =
            ((size_t{layer} * view.pages_count + page) * view.kv_heads + head) * 2 + value;
        return (block * aotx::kKvPageTokens + position % aotx::kKvPageTokens) * view.head_size;
    }

    void fill(uint32_t layer, uint32_t sequence, uint32_t positions, std::mt19937* random)
    {
        for (uint32_t p = 0; p < positions; p++) {
            for (uint32_t head = 0; head < view.kv_heads; head++) {
                for (uint32_t value = 0; value < 2; value++) {
                    const std::vector<float> cells = random_floats(view.head_size, 1.0f, random);
                    for (uint32_t d = 0; d < view.head_size; d++) {
                        view.pages[place(layer, sequence, p, head, value) + d] = half_of(cells[d]);
                    }
                }
            }
        }
    }

    double cell(uint32_t layer, const TextRow& row, uint32_t position, uint32_t head,
                uint32_t value, uint32_t d) const
    {
        return float_of(view.pages[place(layer, row.sequence, position, head, value) + d]);
    }
};

void plain_attention(const Cache& cache, const Heads& heads, uint32_t layer, const TextRow& row,
                     const float* query, double* out)
{
    for (uint32_t head = 0; head < heads.query_heads; head++) {
        const uint32_t kv_head = head / (heads.query_heads / heads.kv_heads);
        std::vector<double> score(row.position + 1);
        double best = -INFINITY;
        for (uint32_t p = 0; p <= row.position; p++) {
            score[p] = 0;
            for (uint32_t d = 0; d < heads.head_size; d++) {
                score[p] +=
                    query[head * heads.head_size + d] * cache.cell(layer, row, p, kv_head, 0, d);
            }
            best = std::max(best, score[p]);
        }
        double total = 0;
        for (double& s : score) {
            s = std::exp(s - best);
            total += s;
        }
        for (uint32_t d = 0; d < heads.head_size; d++) {
            double sum = 0;
            for (uint32_t p = 0; p <= row.position; p++) {
                sum += score[p] / total * cache.cell(layer, row, p, kv_head, 1, d);
            }
            out[head * heads.head_size + d] = sum;
        }
    }
}

bool run_attention(const aotx::AttentionArgs& args, uint32_t rows)
{
    emu::LaunchShape shape;
    shape.grid = dim3(rows, args.kv.kv_heads, aotx::kAttentionSplits);
    shape.block = dim3(aotx::kAttentionThreads);
    return emu::run<aotx::attention>(shape, args);
}

}  // namespace

TEST_CASE("attention equals plain loops at page, tile and split edges")
{
    std::mt19937 random(23);
    const Heads shapes[] = {{"grouped", 6, 2, 32}, {"single", 2, 2, 64}, {"many", 9, 1, 16}};
    for (const Heads& heads : shapes) {
        INFO(heads.name);
        const uint32_t positions = 64 * 17 + 5;
        Cache cache(heads, 2, aotx::weight_tiles(positions, aotx::kKvPageTokens), 2);
        cache.fill(1, 0, positions, &random);
        cache.fill(1, 1, 70, &random);
        const std::vector<TextRow> rows = {{0, 0, 0, 0},    {0, 1, 15, 0}, {0, 0, 16, 0},
                                           {0, 1, 63, 0},   {0, 1, 64, 0}, {0, 0, positions - 1, 0},
                                           {0, 0, 1023, 0}, {0, 0, 5, 0}};
        const uint32_t count =
            static_cast<uint32_t>(rows.size()) - 1;  // the last is not of the step
        const uint32_t width = heads.query_heads * heads.head_size;
        const std::vector<float> query = random_floats(rows.size() * width, 0.4f, &random);
        std::vector<float> out = poisoned(rows.size() * width);
        std::vector<float> partial = poisoned(rows.size() * heads.query_heads *
                                              aotx::kAttentionSplits * (heads.head_size + 2));
        std::vector<uint32_t> tickets(rows.size() * heads.kv_heads, 0);
        aotx::AttentionArgs args = {};
        args.kv = cache.view;
        args.query = query.data();
        args.rows = rows.data();
        args.count = &count;
        args.partial = partial.data();
        args.tickets = tickets.data();
        args.output = out.data();
        args.query_heads = heads.query_heads;
        args.layer = 1;
        REQUIRE(run_attention(args, static_cast<uint32_t>(rows.size())));
        std::vector<double> want(width);
        for (uint32_t n = 0; n < count; n++) {
            plain_attention(cache, heads, 1, rows[n], &query[n * width], want.data());
            for (uint32_t i = 0; i < width; i++) {
                if (!(std::fabs(out[n * width + i] - want[i]) < 2e-5)) {
                    FAIL("row " << n << " item " << i << ": " << out[n * width + i] << " is not "
                                << want[i]);
                }
            }
        }
        REQUIRE(std::isnan(out[count * width]));
        REQUIRE(std::all_of(tickets.begin(), tickets.end(), [](uint32_t t) { return t == 0; }));
    }
}

TEST_CASE("query, key and value rows are rotated and land in their pages")
{
    std::mt19937 random(29);
    const Heads heads = {"", 4, 2, 16};
    Cache cache(heads, 2, 3, 2);
    const uint32_t rows_count = (4 + 2 + 2) * 16;
    const uint32_t columns = 64;
    const TestMatrix matrix = make_matrix(golden_rows()[7], rows_count, columns, &random);
    const std::vector<TextRow> rows = {{0, 1, 17, 0}, {0, 0, 0, 0}, {0, 1, 18, 0}};
    const uint32_t count = 3;
    const std::vector<float> input = random_floats(3 * columns, 1.0f, &random);
    const std::vector<float> bias = random_floats(rows_count, 1.0f, &random);
    std::vector<float> turns(48 * 4 * 2);
    for (uint32_t p = 0; p < 48; p++) {
        for (uint32_t i = 0; i < 4; i++) {
            const double angle = p * std::pow(10000.0, -2.0 * i / 8);
            turns[(p * 4 + i) * 2] = static_cast<float>(std::cos(angle));
            turns[(p * 4 + i) * 2 + 1] = static_cast<float>(std::sin(angle));
        }
    }
    std::vector<float> query = poisoned(3 * 64);
    aotx::MatmulArgs args = {};
    args.weight = matrix.view;
    args.input = input.data();
    args.count = &count;
    args.output = query.data();
    args.input_stride = columns;
    args.output_stride = 64;
    args.finish = aotx::kFinishQkv;
    args.kv = cache.view;
    args.rows = rows.data();
    args.turns = turns.data();
    args.bias = bias.data();
    args.query_heads = 4;
    args.rope_size = 8;
    args.layer = 1;
    args.query_scale = 0.25f;
    emu::LaunchShape shape;
    shape.grid = dim3(rows_count / 16, 1);
    shape.block = dim3(aotx::matmul_threads(1));
    REQUIRE(emu::run<aotx::matmul<aotx::kWeightQ8_0, 1>>(shape, args));
    for (uint32_t n = 0; n < count; n++) {
        for (uint32_t row = 0; row < rows_count; row++) {
            const uint32_t pair[2] = {row / 2 * 2, row / 2 * 2 + 1};
            double value[2];
            for (uint32_t i = 0; i < 2; i++) {
                value[i] = bias[pair[i]];
                for (uint32_t k = 0; k < columns; k++) {
                    value[i] += double{input[n * columns + k]} * matrix.at(pair[i], k);
                }
            }
            const uint32_t at = row % 16;
            double want = value[row % 2];
            if (row < 96 && at < 8) {
                const double angle = rows[n].position * std::pow(10000.0, -2.0 * (at / 2) / 8);
                want = row % 2 == 0 ? value[0] * std::cos(angle) - value[1] * std::sin(angle)
                                    : value[0] * std::sin(angle) + value[1] * std::cos(angle);
            }
            const double got =
                row < 64   ? query[n * 64 + row] * 4.0
                : row < 96 ? cache.cell(1, rows[n], rows[n].position, (row - 64) / 16, 0, at)
                           : cache.cell(1, rows[n], rows[n].position, (row - 96) / 16, 1, at);
            REQUIRE(got == Approx(want).epsilon(1e-3).margin(1e-3));
        }
    }
    // Layer 0 and every other position were left alone.
    REQUIRE(std::isnan(cache.cell(0, rows[0], 17, 0, 0, 0)));
    REQUIRE(std::isnan(cache.cell(1, rows[0], 16, 0, 0, 0)));
    REQUIRE(std::isnan(cache.cell(1, rows[0], 19, 1, 1, 15)));
}

TEST_CASE("an embedding is the token's row")
{
    std::mt19937 random(31);
    for (const GoldenRow& golden : golden_rows()) {
        INFO(golden.name);
        const TestMatrix table = make_matrix(golden, 40, 256, &random);
        const std::vector<TextRow> rows = {{39, 0, 0, 0}, {0, 0, 0, 0}, {17, 0, 0, 0}};
        const uint32_t count = 2;
        std::vector<float> out = poisoned(3 * 256);
        const aotx::EmbedArgs args = {table.view, rows.data(), &count, out.data(), 2.0f, 0};
        emu::LaunchShape shape;
        shape.grid = dim3(3);
        shape.block = dim3(aotx::kEmbedThreads);
        REQUIRE(emu::run<aotx::embed>(shape, args));
        for (uint32_t k = 0; k < 256; k++) {
            REQUIRE(out[k] == Approx(2.0f * table.at(39, k)).epsilon(1e-6).margin(1e-7));
            REQUIRE(out[256 + k] == Approx(2.0f * table.at(0, k)).epsilon(1e-6).margin(1e-7));
        }
        REQUIRE(std::isnan(out[512]));
    }
}

namespace {

// One launch of the choice over rows of logits.
std::vector<int32_t> choose(const std::vector<float>& logits, uint32_t vocab, uint32_t stride,
                            const std::vector<aotx::StepChoice>& choices)
{
    const uint32_t rows = static_cast<uint32_t>(choices.size());
    const uint32_t counts[2] = {rows, rows};
    aotx::StepOrder order = {};
    order.number = 9;
    uint32_t ticket = 0;
    uint64_t done = 0;
    std::vector<uint64_t> scratch((rows + 1) * aotx::kSampleScratchBytes / 8, ~0ull);
    std::vector<int32_t> tokens(rows + 1, -1);
    const aotx::SampleArgs args = {&order,         choices.data(), logits.data(), counts, &ticket,
                                   scratch.data(), tokens.data(),  &done,         vocab,  stride};
    emu::LaunchShape shape;
    shape.grid = dim3(rows + 1);  // one block more than there are rows
    shape.block = dim3(aotx::kSampleThreads);
    REQUIRE(emu::run<aotx::sample>(shape, args));
    REQUIRE(done == 9);
    REQUIRE(ticket == 0);
    REQUIRE(tokens[rows] == -1);
    tokens.resize(rows);
    return tokens;
}

}  // namespace

TEST_CASE("the choice of a token is the core's, greedy and drawn")
{
    std::mt19937 random(37);
    const uint32_t vocab = 1531;
    const uint32_t stride = 1532;
    std::vector<aotx::StepChoice> choices = {{0, 1, 0}, {0, 1, 0}, {0, 1, 0}, {1.0f, 0.5f, 0.5}};
    for (const float temperature : {0.2f, 1.0f, 1e-39f}) {
        for (const float top_p : {1e-6f, 0.3f, 0.9f, 0.999f, 1.0f}) {
            for (const double uniform : {1e-6, 0.37, 0.91, 0.9999999999}) {
                choices.push_back({temperature, top_p, uniform});
            }
        }
    }
    const uint32_t rows = static_cast<uint32_t>(choices.size());
    std::vector<float> logits = random_floats(size_t{rows} * stride, 3.0f, &random);
    logits[100] = logits[700] = 50.0f;  // equal bests: the lower token
    std::fill_n(&logits[stride], vocab, NAN);
    logits[stride + 3] = -5.0f;
    std::fill_n(&logits[2 * stride], vocab, NAN);
    std::fill_n(&logits[3 * stride], vocab, 1.25f);  // a crowd of equals
    logits[5 * stride + 7] = NAN;
    logits[6 * stride + 8] = -INFINITY;
    const std::vector<int32_t> tokens = choose(logits, vocab, stride, choices);
    REQUIRE(tokens[0] == 100);
    REQUIRE(tokens[1] == 3);
    REQUIRE(tokens[2] == 0);
    aotx::SampleScratch own;
    for (uint32_t n = 0; n < rows; n++) {
        INFO("row " << n << " temperature " << choices[n].temperature << " top_p "
                    << choices[n].top_p << " uniform " << choices[n].uniform);
        REQUIRE(tokens[n] == aotx::core_sample(&logits[size_t{n} * stride], vocab,
                                               choices[n].temperature, choices[n].top_p,
                                               choices[n].uniform, &own));
    }
}

TEST_CASE("drawn tokens come as often as their shares say")
{
    // Four tokens of shares 8 : 4 : 2 : 1 at temperature 2, among tokens that are out of reach.
    const uint32_t vocab = 40;
    const uint32_t draws = 120;
    std::vector<aotx::StepChoice> choices;
    std::vector<float> logits;
    for (uint32_t n = 0; n < draws; n++) {
        choices.push_back({2.0f, 1.0f, (n + 0.5) / draws});
        std::vector<float> row(vocab, -200.0f);
        for (uint32_t i = 0; i < 4; i++) {
            row[31 - i * 10] = 10.0f + 2.0f * std::log(static_cast<float>(8u >> i));
        }
        logits.insert(logits.end(), row.begin(), row.end());
    }
    const std::vector<int32_t> tokens = choose(logits, vocab, vocab, choices);
    for (uint32_t i = 0; i < 4; i++) {
        const auto count =
            std::count(tokens.begin(), tokens.end(), static_cast<int32_t>(31 - i * 10));
        REQUIRE(count == static_cast<long>(draws * (8u >> i) / 15));
    }
}

TEST_CASE("a step's order arrives whole, and touches nothing beside it")
{
    std::mt19937 random(59);
    const uint32_t rows_max = 300;
    for (uint32_t round = 0; round < 12; round++) {
        const uint32_t sequences = 1 + static_cast<uint32_t>(random() % 6);
        const uint32_t sequence_pages = 1 + static_cast<uint32_t>(random() % 300);
        aotx::StepOrder order = {};
        order.count = round == 0 ? 0 : static_cast<uint32_t>(random() % rows_max);
        order.wanted = order.count == 0 ? 0 : static_cast<uint32_t>(random() % order.count);
        order.changes = static_cast<uint32_t>(random() % (sequences + 1));
        std::vector<TextRow> host_rows(order.count);
        for (TextRow& row : host_rows) {
            row = {static_cast<int32_t>(random() % 100000), static_cast<uint32_t>(random()),
                   static_cast<uint32_t>(random()), 0};
        }
        std::vector<uint32_t> host_map(order.wanted);
        std::generate(host_map.begin(), host_map.end(), std::ref(random));
        std::vector<int32_t> host_pages(size_t{sequences} * sequence_pages);
        std::generate(host_pages.begin(), host_pages.end(),
                      [&random] { return static_cast<int32_t>(random() % 1000); });
        std::vector<aotx::StepChange> changes;
        std::vector<int32_t> want(host_pages.size(), -7);
        for (uint32_t i = 0; i < order.changes; i++) {
            changes.push_back({i, static_cast<uint32_t>(random() % (sequence_pages + 1))});
            std::copy_n(&host_pages[size_t{i} * sequence_pages], changes[i].pages,
                        &want[size_t{i} * sequence_pages]);
        }
        std::vector<TextRow> rows(rows_max, TextRow{9, 9, 9, 9});
        std::vector<uint32_t> map(rows_max, 9);
        std::vector<uint32_t> counts(3, 9);
        std::vector<int32_t> table(host_pages.size(), -7);
        const aotx::StepTakeArgs args = {&order,
                                         host_rows.data(),
                                         host_map.data(),
                                         changes.data(),
                                         host_pages.data(),
                                         rows.data(),
                                         map.data(),
                                         counts.data(),
                                         table.data(),
                                         sequence_pages,
                                         0};
        emu::LaunchShape shape;
        shape.grid = dim3(1 + static_cast<uint32_t>(random() % 4));
        shape.block = dim3(aotx::kStepThreads);
        REQUIRE(emu::run<aotx::step_take>(shape, args));
        REQUIRE(counts == std::vector<uint32_t>{order.count, order.wanted, 9});
        const size_t row_bytes = host_rows.size() * sizeof(TextRow);
        REQUIRE((row_bytes == 0 || std::memcmp(rows.data(), host_rows.data(), row_bytes) == 0));
        REQUIRE(rows[order.count].token == 9);
        REQUIRE(std::equal(host_map.begin(), host_map.end(), map.begin()));
        REQUIRE(map[order.wanted] == 9);
        REQUIRE(table == want);
    }
}

TEST_CASE("logits are given back before the step's number, and no more than were wanted")
{
    std::mt19937 random(61);
    for (uint32_t round = 0; round < 12; round++) {
        const uint32_t stride = 4 * (1 + static_cast<uint32_t>(random() % 200));
        const uint32_t wanted = static_cast<uint32_t>(random() % 9);
        const std::vector<uint32_t> counts = {100, wanted};
        const std::vector<float> logits = random_floats(size_t{9} * stride, 1.0f, &random);
        aotx::StepOrder order = {};
        order.number = 1000 + round;
        uint32_t ticket = 0;
        uint64_t done = 0;
        // 16-byte words are written: the place has their alignment, as mapped memory has.
        std::vector<uint4> place(size_t{9} * stride / 4, uint4{~0u, ~0u, ~0u, ~0u});
        const aotx::StepGiveArgs args = {&order,
                                         logits.data(),
                                         counts.data(),
                                         &ticket,
                                         reinterpret_cast<float*>(place.data()),
                                         &done,
                                         stride,
                                         0};
        emu::LaunchShape shape;
        shape.grid = dim3(1 + static_cast<uint32_t>(random() % 5));
        shape.block = dim3(aotx::kStepThreads);
        REQUIRE(emu::run<aotx::step_give>(shape, args));
        const size_t bytes = size_t{wanted} * stride * sizeof(float);
        REQUIRE((bytes == 0 || std::memcmp(place.data(), logits.data(), bytes) == 0));
        REQUIRE(place[size_t{wanted} * stride / 4].x == ~0u);
        REQUIRE(done == order.number);
        REQUIRE(ticket == 0);
    }
}

// A kernel that is added to the list must be compared with a reference, here or with the matrices.
TEST_CASE("every kernel of the list is compared with a plain reference")
{
    std::set<std::string> compared = {"step_take", "step_give", "embed", "attention", "sample"};
    for (const GoldenRow& golden : golden_rows()) {
        std::string name;
        for (const char letter : golden.name) {
            name += static_cast<char>(std::tolower(letter));
        }
        if (name.find("_k") != std::string::npos) {
            name.erase(name.find('_'), 1);  // q4_k is q4k in the list
        }
        compared.insert("matmul_" + name + "_narrow");
        compared.insert("matmul_" + name + "_wide");
    }
    std::set<std::string> listed;
#define AOTX_KERNEL(name, arguments, function) listed.insert(#name);
    AOTX_KERNELS_TEXT
#undef AOTX_KERNEL
    REQUIRE(listed == compared);
}
