// Purpose:  the checks of tests/device/run.sh that need a card: a kernel against double precision,
// calls that must not stand behind a running loop, rates.
// Owns:     what it allocates, until it exits.
// Thread:   main, and one that posts packets.
// Lifetime: one run; exit 0 when the named check holds.
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "cuda/kernels/cuda/matmul.cuh"
#include "cuda/kernels/cuda/pack.h"
#include "cuda/loop/cuda_backend.h"

namespace {

using Clock = std::chrono::steady_clock;

void must(cudaError_t code, const char* what)
{
    if (code != cudaSuccess) {
        std::printf("%s: %s\n", what, cudaGetErrorString(code));
        std::exit(1);
    }
}

double seconds_since(Clock::time_point start)
{
    return std::chrono::duration<double>(Clock::now() - start).count();
}

template <typename Item>
Item* upload(const std::vector<Item>& items)
{
    void* memory = nullptr;
    must(cudaMalloc(&memory, items.size() * sizeof(Item)), "cudaMalloc");
    must(cudaMemcpy(memory, items.data(), items.size() * sizeof(Item), cudaMemcpyHostToDevice),
         "cudaMemcpy");
    return static_cast<Item*>(memory);
}

// A Q8_0 matrix of random blocks, as the file holds it and as values.
struct Matrix {
    uint32_t rows;
    uint32_t columns;
    std::vector<float> values;
    std::vector<uint8_t> packed;
};

Matrix make_matrix(uint32_t rows, uint32_t columns, bool keep_values)
{
    Matrix made = {rows, columns, {}, {}};
    made.packed.resize(aotx::weight_packed_bytes(aotx::kWeightQ8_0, rows, columns));
    std::mt19937 random(41);
    std::vector<uint8_t> row(columns / 32 * 34);
    for (uint32_t r = 0; r < rows; r++) {
        for (uint32_t block = 0; block < columns / 32; block++) {
            uint8_t* const at = &row[block * 34];
            const uint16_t scale = static_cast<uint16_t>(0x2000 + random() % 0x400);  // about 0.01
            std::memcpy(at, &scale, sizeof scale);
            for (uint32_t i = 0; i < 32; i++) {
                at[2 + i] = static_cast<uint8_t>(random());
            }
            for (uint32_t i = 0; keep_values && i < 32; i++) {
                const float d = std::ldexp(1.0f + static_cast<float>(scale & 1023) / 1024.0f, -7);
                made.values.push_back(d * static_cast<float>(static_cast<int8_t>(at[2 + i])));
            }
        }
        if (!aotx::weight_pack_row(aotx::kWeightQ8_0, columns, r, row.data(), made.packed.data())) {
            std::exit(1);
        }
    }
    return made;
}

struct Product {
    aotx::MatmulArgs arguments;
    dim3 grid;
    bool wide;
};

Product make_product(const Matrix& matrix, uint32_t tokens, const std::vector<float>& input,
                     float** output)
{
    Product made = {};
    made.wide = tokens > 8;
    made.grid =
        dim3((matrix.rows + 15) / 16, (tokens + (made.wide ? 31 : 7)) / (made.wide ? 32 : 8));
    *output = upload(std::vector<float>(size_t{tokens} * matrix.rows, NAN));
    made.arguments.weight = {upload(matrix.packed), aotx::kWeightQ8_0, matrix.rows, matrix.columns,
                             0};
    made.arguments.input = upload(input);
    made.arguments.count = upload(std::vector<uint32_t>{tokens});
    made.arguments.output = *output;
    made.arguments.input_stride = matrix.columns;
    made.arguments.output_stride = matrix.rows;
    return made;
}

void launch(const Product& product)
{
    const uint32_t threads = aotx::matmul_threads(product.wide ? 4 : 1);
    if (product.wide) {
        aotx::matmul<aotx::kWeightQ8_0, 4><<<product.grid, threads>>>(product.arguments);
    } else {
        aotx::matmul<aotx::kWeightQ8_0, 1><<<product.grid, threads>>>(product.arguments);
    }
    must(cudaGetLastError(), "launch");
}

std::vector<float> random_input(size_t count)
{
    std::mt19937 random(43);
    std::normal_distribution<float> normal(0.0f, 1.0f);
    std::vector<float> values(count);
    for (float& value : values) {
        value = normal(random);
    }
    return values;
}

int check_kernels(uint32_t rows, uint32_t columns)
{
    const Matrix matrix = make_matrix(rows, columns, true);
    double worst = 0;
    for (const uint32_t tokens : {1u, 7u, 8u, 9u, 33u}) {
        const std::vector<float> input = random_input(size_t{tokens} * columns);
        float* output = nullptr;
        const Product product = make_product(matrix, tokens, input, &output);
        launch(product);
        std::vector<float> got(size_t{tokens} * rows);
        must(cudaMemcpy(got.data(), output, got.size() * sizeof(float), cudaMemcpyDeviceToHost),
             "matmul");
        for (uint32_t n = 0; n < tokens; n++) {
            for (uint32_t r = 0; r < rows; r++) {
                double sum = 0;
                double size = 0;
                for (uint32_t k = 0; k < columns; k++) {
                    const double product_k = double{matrix.values[size_t{r} * columns + k]} *
                                             input[size_t{n} * columns + k];
                    sum += product_k;
                    size += std::fabs(product_k);
                }
                const double error = std::fabs(got[size_t{n} * rows + r] - sum) / size;
                worst = error <= worst ? worst : error;  // a NaN is worst
            }
        }
    }
    std::printf("matmul q8_0: largest error %.2e of the products' sum, allowed 4e-06\n", worst);
    return worst <= 4e-6 ? 0 : 1;
}

double time_of(int repeats, const std::function<void()>& work)
{
    work();
    must(cudaDeviceSynchronize(), "warm-up");
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < repeats; i++) {
        work();
    }
    must(cudaDeviceSynchronize(), "work");
    return seconds_since(start) / repeats;
}

int check_rates()
{
    const size_t bytes = size_t{1} << 30;
    void* from = nullptr;
    void* to = nullptr;
    must(cudaMalloc(&from, bytes), "cudaMalloc");
    must(cudaMalloc(&to, bytes), "cudaMalloc");
    const double copy = time_of(
        10, [&] { must(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice), "copy"); });
    const double rate = 2.0 * static_cast<double>(bytes) / copy;
    std::printf("copy: %.0f GB/s read and written\n", rate / 1e9);
    must(cudaFree(from), "cudaFree");
    must(cudaFree(to), "cudaFree");
    const Matrix matrix = make_matrix(16384, 8192, false);
    for (const uint32_t tokens : {1u, 8u, 32u}) {
        float* output = nullptr;
        const Product product =
            make_product(matrix, tokens, random_input(size_t{tokens} * matrix.columns), &output);
        const double time = time_of(50, [&] { launch(product); });
        const double share = static_cast<double>(matrix.packed.size()) / time / rate;
        std::printf("matmul q8_0 16384 x 8192, batch %u: %.1f us, %.0f %% of the copy rate\n",
                    tokens, time * 1e6, share * 100);
    }
    return 0;
}

// A context of its own beside the loop's, made and ended through the driver.
void second_context()
{
    using Create = int (*)(void**, unsigned, int);
    using Destroy = int (*)(void*);
    void* create = nullptr;
    void* destroy = nullptr;
    void* context = nullptr;
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    must(cudaGetDriverEntryPointByVersion("cuCtxCreate", &create, 11040, cudaEnableDefault, &found),
         "cuCtxCreate");
    must(cudaGetDriverEntryPointByVersion("cuCtxDestroy", &destroy, 11040, cudaEnableDefault,
                                          &found),
         "cuCtxDestroy");
    if (create == nullptr || destroy == nullptr ||
        reinterpret_cast<Create>(create)(&context, 0, 0) != 0 ||
        reinterpret_cast<Destroy>(destroy)(context) != 0) {
        std::printf("no second context\n");
        std::exit(1);
    }
    must(cudaSetDevice(0), "back to the first context");
}

// A loop that answers packets all the time, and calls that must not wait for its end.
int check_waits()
{
    const aotx::LoopBackend* const backend = aotx::cuda_backend_table();
    aotx::LoopConfig config;
    config.epoch = 1;
    aotx::Loop* loop = nullptr;
    const char* reason = "";
    if (backend->open(config, &loop, &reason) != 0 || backend->start(loop) != 0) {
        std::printf("the loop does not start: %s\n", reason);
        return 1;
    }
    std::atomic<bool> ends = false;
    std::thread broker([&] {
        const uint32_t index = 1;
        aotx_mailbox* const box = backend->mailbox(loop, index);
        while (!ends) {
            std::memset(box->frame, 0, 128);
            aotx_mailbox_post(box, 128);
            backend->ring_doorbell(loop, &index, 1);
            uint32_t replied = 0;
            while (backend->take_replies(loop, &replied, 1) == 0) {
                std::this_thread::yield();
            }
            aotx_mailbox_empty(box);
        }
    });
    struct Call {
        const char* name;
        std::function<void()> work;
    };
    void* memory = nullptr;
    cudaStream_t stream = nullptr;
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    const Call calls[] = {
        {"pinned allocation", [&] { must(cudaMallocHost(&memory, 1 << 20), "pinned"); }},
        {"pinned free", [&] { must(cudaFreeHost(memory), "pinned free"); }},
        {"device allocation", [&] { must(cudaMalloc(&memory, 1 << 20), "device"); }},
        {"device free", [&] { must(cudaFree(memory), "device free"); }},
        {"memory query", [&] { must(cudaMemGetInfo(&free_bytes, &total_bytes), "query"); }},
        {"second stream",
         [&] { must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream"); }},
        {"second context", second_context},
        // Of a module that is not the loop's, as a plugin's would be.
        {"first use of another kernel", [&] { (void)check_kernels(32, 64); }},
    };
    int slow = 0;
    for (const Call& call : calls) {
        const Clock::time_point start = Clock::now();
        call.work();
        const double time = seconds_since(start);
        std::printf("%s: %.3f s\n", call.name, time);
        slow += time > 10.0 ? 1 : 0;
    }
    ends = true;
    broker.join();
    const Clock::time_point start = Clock::now();
    backend->stop(loop);
    backend->close(loop);
    std::printf("stop: %.3f s; %d calls over 10 s\n", seconds_since(start), slow);
    return slow == 0 && seconds_since(start) < 10.0 ? 0 : 1;
}

}  // namespace

int main(int count, char** words)
{
    const std::string check = count == 2 ? words[1] : "";
    (void)aotx::cuda_backend_table();  // ends with a sentence when this machine cannot
    if (check == "machine") {
        std::printf("the CUDA backend can run here\n");
        return 0;
    }
    if (check == "short") {
        return check_kernels(48, 128);
    }
    if (check == "rates") {
        return check_rates();
    }
    if (check == "waits") {
        return check_waits();
    }
    std::printf("usage: device_check machine|short|waits|rates\n");
    return 2;
}
