// Purpose:  no allocation after the seal, over more than a million loop steps with real requests.
// Owns:     the counting allocator of this program.
// Thread:   main, as the broker.
// Lifetime: one run.
//
// The C library's allocator is interposed for the whole process, the loop's threads and the
// runtime's shared object included. Only calls made by the loop's threads count; the test's own
// thread may allocate.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>

#include "harness.h"
#include "tests/text/vocabularies.h"

extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void __libc_free(void* memory);
}

// Whether this thread plays a GPU: what that takes is not the loop's.
#if defined(AOTX_TEST_SHIM)
#include "tests/loop_cuda/fake_cuda.h"
#define AOTX_TEST_PLAYS fake_plays
#else
#define AOTX_TEST_PLAYS() false
#endif

namespace {

std::atomic<bool> counting{false};
std::atomic<uint64_t> calls{0};
thread_local bool is_test_thread = false;

void note()
{
    if (counting.load(std::memory_order_relaxed) && !is_test_thread && !AOTX_TEST_PLAYS()) {
        calls.fetch_add(1, std::memory_order_relaxed);
    }
}

}  // namespace

extern "C" {
void* malloc(size_t bytes)
{
    note();
    return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes)
{
    note();
    return __libc_calloc(count, bytes);
}
void* realloc(void* memory, size_t bytes)
{
    note();
    return __libc_realloc(memory, bytes);
}
void free(void* memory)
{
    note();
    __libc_free(memory);
}
}

using namespace aotx_test;

namespace {

// Fewer steps where AOTX_TEST_STEPS says so, because a step is played and not run.
uint64_t steps_of(uint64_t usual)
{
    const char* const most = std::getenv("AOTX_TEST_STEPS");
    return most == nullptr ? usual : std::min<uint64_t>(usual, std::strtoull(most, nullptr, 10));
}

// Keep some requests running until the loop has done so many steps more.
uint64_t drive(Device* device, const Id& who, uint64_t steps_wanted, uint32_t tokens)
{
    aotx::LoopTelemetry first;
    aotx::LoopTelemetry now;
    aotx::loop_telemetry(device->loop(), &first);
    uint64_t number = 1;
    do {
        const Id id = id_of(number);
        number++;
        REQUIRE(device->submit(who, id, "count with me", tokens).head.status == 202);
        REQUIRE(device->finish(who, id).head.phase >= AOTX_PHASE_COMPLETED);
        aotx::loop_telemetry(device->loop(), &now);
    } while (now.steps - first.steps < steps_wanted);
    return number - 1u;
}

// A Llama of one layer with F32 weights and a byte-level vocabulary, in a file of its own.
class TinyModelFile {
public:
    TinyModelFile()
    {
        const vocabularies::Vocabulary words = vocabularies::byte_level();
        GgufWriter writer = vocabularies::byte_level_writer(words);
        writer.add_string("general.architecture", "llama");
        writer.add_string("tokenizer.chat_template",
                          "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}");
        writer.add_u32("llama.block_count", 1);
        writer.add_u32("llama.context_length", 512);
        writer.add_u32("llama.embedding_length", kWidth);
        writer.add_u32("llama.feed_forward_length", kWidth);
        writer.add_u32("llama.attention.head_count", 2);
        writer.add_u32("llama.attention.head_count_kv", 2);
        writer.add_f32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
        tensor(&writer, "token_embd.weight", words.tokens.size());
        for (const char* name :
             {"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"}) {
            tensor(&writer, std::string("blk.0.") + name + ".weight", kWidth);
        }
        for (const char* name : {"output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"}) {
            tensor(&writer, std::string(name) + ".weight", 1);
        }
        const std::vector<uint8_t> file = writer.finish();
        std::ofstream(path, std::ios::binary)
            .write(reinterpret_cast<const char*>(file.data()),
                   static_cast<std::streamsize>(file.size()));
    }
    ~TinyModelFile() { std::remove(path.c_str()); }
    TinyModelFile(const TinyModelFile&) = delete;
    TinyModelFile& operator=(const TinyModelFile&) = delete;

    const std::string path = "/tmp/aotx_tiny_" + std::to_string(getpid()) + ".gguf";

private:
    static constexpr uint64_t kWidth = 64;

    void tensor(GgufWriter* writer, const std::string& name, uint64_t rows)
    {
        std::vector<uint8_t> bytes;
        for (uint64_t i = 0; i < rows * kWidth; i++) {
            random_ = random_ * 6364136223846793005u + 1442695040888963407u;
            const float unit = static_cast<float>(random_ >> 40) / 8388608.0f - 1.0f;
            GgufWriter::put(&bytes, rows == 1 ? 1.0f + 0.1f * unit : 0.3f * unit);
        }
        const std::vector<uint64_t> dims =
            rows == 1 ? std::vector<uint64_t>{kWidth} : std::vector<uint64_t>{kWidth, rows};
        writer->add_tensor(name, 0, dims, bytes);
    }

    uint64_t random_ = 1;
};

}  // namespace

TEST_CASE("a million steps allocate nothing")
{
    is_test_thread = true;
    const Id ann = id_of(11);
    aotx::LoopConfig config;
    config.output_bytes_max = 1048576;
    const uint64_t steps = steps_of(1000000);
    Device device(config, {R"({"pieces":["61"],"never_end":true,"sequence_tokens":65536})"});
    device.grant(1, {ann});
    counting.store(true);
    const uint64_t requests = drive(&device, ann, steps, static_cast<uint32_t>(steps / 50));
    counting.store(false);
    CHECK(requests >= 50);
    CHECK(calls.load() == 0);
    // The counter counts: a thread that allocates is seen.
    counting.store(true);
    is_test_thread = false;
    void* volatile memory = std::malloc(1);
    std::free(memory);
    is_test_thread = true;
    counting.store(false);
    CHECK(calls.load() == 2);
}

TEST_CASE("cancellations, refusals, watches, several models and the plain level allocate nothing")
{
    is_test_thread = true;
    const Id ann = id_of(11);
    Device device({}, {R"({"pieces":["61","62"],"never_end":true})",
                       R"({"level":"plain","pieces":["63"],"repeat":50})"});
    device.grant(1, {ann});
    calls.store(0);
    counting.store(true);
    for (uint64_t number = 1; number <= 300; number++) {
        const uint32_t role = number % 3u == 0 ? 3u : 2u;
        REQUIRE(device.submit(ann, id_of(number), "go", 40, role).head.status == 202);
        CHECK(device.submit(ann, id_of(number), "go").head.status == 409);
        CHECK(device.read(ann, id_of(number + 5000)).head.status == 404);
        if (number % 4u == 0) {
            device.cancel(ann, id_of(number));
        }
        device.finish(ann, id_of(number));
    }
    counting.store(false);
    CHECK(calls.load() == 0);
}

TEST_CASE("the text runtime renders, steps and names tokens without allocating")
{
    is_test_thread = true;
    const Id ann = id_of(11);
    const TinyModelFile file;
    for (const char* activations : {"quantised", "float"}) {
        const std::string options = "{\"model_path\":\"" + file.path +
                                    "\",\"threads\":2,\"sequences\":4,\"kv_tokens\":2048,"
                                    "\"activations\":\"" +
                                    activations + "\"}";
        Device device({}, {options}, AOTX_TEXT_GGUF_LIBRARY);
        device.grant(1, {ann});
        calls.store(0);
        counting.store(true);
        const uint64_t requests = drive(&device, ann, steps_of(5000), 100);
        counting.store(false);
        CHECK(requests >= steps_of(5000) / 100);
        CHECK(calls.load() == 0);
    }
}
