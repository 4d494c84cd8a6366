// The GGUF reader: what it reads, what it refuses and which field it names.
#include "file/gguf.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <functional>

#include "aotx/status.h"
#include "gguf_writer.h"
#include "guard_page.h"

using namespace aotx;

namespace {

std::vector<uint8_t> bytes_of(size_t count, uint8_t value = 7)
{
    return std::vector<uint8_t>(count, value);
}

// A file with every kind of value and two tensors.
GgufWriter good_writer()
{
    GgufWriter writer;
    writer.add_string("general.architecture", "llama");
    writer.add_u32("number", 42);
    writer.add_i32("negative", -1);
    writer.add_f32("fraction", 0.5f);
    writer.add_bool("flag", true);
    writer.add_strings("words", {"one", "", "three"});
    writer.add_i32s("numbers", {-1, 0, 7});
    writer.add_f32s("fractions", {0.25f, -2.0f});
    writer.add_tensor("a.weight", 0, {4, 2}, bytes_of(32));
    writer.add_tensor("b.weight", 2, {32, 3}, bytes_of(54));
    return writer;
}

int open_copy(const std::vector<uint8_t>& file, TextReason* reason)
{
    const GuardCopy copy(file.data(), file.size());
    GgufFile gguf;
    return gguf.open_memory(copy.bytes(), copy.size_bytes(), reason);
}

// A sanitizer maps memory of its own without end.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kMemoryBounded = false;
#else
constexpr bool kMemoryBounded = true;
#endif

// Open it in a process that may use one second of the processor and 16 MiB more than it has: how a
// file of some bytes would show that it costs more than itself. Its code, or 1 when it was stopped.
int open_bounded(const std::vector<uint8_t>& file)
{
    uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        const rlimit seconds = {1, 1};
        const rlimit bytes = {pages * 4096 + (16u << 20), pages * 4096 + (16u << 20)};
        if (setrlimit(RLIMIT_CPU, &seconds) != 0 ||
            (kMemoryBounded && setrlimit(RLIMIT_AS, &bytes) != 0)) {
            _exit(1);
        }
        TextReason reason;
        GgufFile gguf;
        _exit(-gguf.open_memory(file.data(), file.size(), &reason));
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? -WEXITSTATUS(status) : 1;
}

struct Fault {
    const char* name;
    std::function<std::vector<uint8_t>()> make;
    int want;
    const char* named;  // what the reason must hold
};

std::vector<uint8_t> with(const std::function<void(GgufWriter*)>& change)
{
    GgufWriter writer = good_writer();
    change(&writer);
    return writer.finish();
}

// A nested array: `depth` arrays of one array each.
std::vector<uint8_t> nested_array(uint32_t depth)
{
    std::vector<uint8_t> value;
    for (uint32_t i = 0; i < depth; i++) {
        GgufWriter::put(&value, uint32_t{9});
        GgufWriter::put(&value, uint64_t{1});
    }
    return value;
}

std::vector<uint8_t> head_only(uint64_t tensors, uint64_t keys)
{
    std::vector<uint8_t> file = {'G', 'G', 'U', 'F'};
    GgufWriter::put(&file, uint32_t{3});
    GgufWriter::put(&file, tensors);
    GgufWriter::put(&file, keys);
    return file;
}

std::vector<uint8_t> long_string(uint64_t length)
{
    std::vector<uint8_t> file = head_only(0, 1);
    GgufWriter::put(&file, length);
    file.insert(file.end(), 64, 'x');
    return file;
}

std::vector<uint8_t> string_array(uint64_t count)
{
    std::vector<uint8_t> value;
    GgufWriter::put(&value, uint32_t{8});
    GgufWriter::put(&value, count);
    return value;
}

}  // namespace

TEST_CASE("a right file is read whole")
{
    const std::vector<uint8_t> file = good_writer().finish();
    GgufFile gguf;
    TextReason reason;
    REQUIRE(gguf.open_memory(file.data(), file.size(), &reason) == AOTX_OK);
    CHECK(gguf.version() == 3);
    CHECK(gguf.alignment() == 32);
    CHECK(gguf.keys_count() == 8);
    REQUIRE(gguf.tensors_count() == 2);

    uint32_t number = 0;
    CHECK(gguf.get_u32("number", &number, &reason) == AOTX_OK);
    CHECK(number == 42);
    CHECK(gguf.get_u32("negative", &number, &reason) == AOTX_ERR_RANGE);
    CHECK(std::string(reason.text).find("negative") != std::string::npos);
    CHECK(gguf.get_u32("flag", &number, &reason) == AOTX_ERR_RANGE);
    CHECK(gguf.get_u32("nothing", &number, &reason) == AOTX_ERR_NOT_FOUND);
    CHECK(number == 42);
    float fraction = 0;
    CHECK(gguf.get_f32("fraction", &fraction, &reason) == AOTX_OK);
    CHECK(fraction == 0.5f);
    bool flag = false;
    CHECK(gguf.get_bool("flag", &flag, &reason) == AOTX_OK);
    CHECK(flag);
    std::string_view text;
    CHECK(gguf.get_string("general.architecture", &text, &reason) == AOTX_OK);
    CHECK(text == "llama");
}

TEST_CASE("arrays are walked and typed")
{
    const std::vector<uint8_t> file = good_writer().finish();
    GgufFile gguf;
    TextReason reason;
    REQUIRE(gguf.open_memory(file.data(), file.size(), &reason) == AOTX_OK);
    GgufArray array;
    REQUIRE(gguf.get_array("words", GgufValueType::kString, &array, &reason) == AOTX_OK);
    CHECK(array.count == 3);
    GgufStringCursor cursor(array);
    std::string_view text;
    std::vector<std::string> words;
    while (cursor.next(&text)) {
        words.emplace_back(text);
    }
    CHECK(words == std::vector<std::string>{"one", "", "three"});
    CHECK(gguf.get_array("words", GgufValueType::kI32, &array, &reason) == AOTX_ERR_RANGE);
    REQUIRE(gguf.get_array("numbers", GgufValueType::kI32, &array, &reason) == AOTX_OK);
    CHECK(gguf_array_integer(array, 0) == -1);
    CHECK(gguf_array_integer(array, 2) == 7);
    REQUIRE(gguf.get_array("fractions", GgufValueType::kF32, &array, &reason) == AOTX_OK);
    CHECK(gguf_array_float(array, 1) == -2.0f);
}

TEST_CASE("tensors have their place, size and shape")
{
    const std::vector<uint8_t> file = good_writer().finish();
    GgufFile gguf;
    TextReason reason;
    REQUIRE(gguf.open_memory(file.data(), file.size(), &reason) == AOTX_OK);
    const GgufTensor* const tensor = gguf.find_tensor("b.weight");
    REQUIRE(tensor != nullptr);
    CHECK(tensor->type == GgufTensorType::kQ4_0);
    CHECK(tensor->dims_count == 2);
    CHECK(tensor->dims[0] == 32);
    CHECK(tensor->dims[1] == 3);
    CHECK(tensor->dims[2] == 1);
    CHECK(tensor->elements == 96);
    CHECK(tensor->bytes == 54);
    CHECK(tensor->data[53] == 7);
    CHECK((tensor->data - file.data()) % 32 == 0);
    CHECK(gguf.find_tensor("c.weight") == nullptr);
}

TEST_CASE("every fault is refused with its field named")
{
    const Fault faults[] = {
        {"empty", [] { return std::vector<uint8_t>(); }, AOTX_ERR_MAGIC, "magic"},
        {"not a model", [] { return bytes_of(64); }, AOTX_ERR_MAGIC, "magic"},
        {"version 1", [] { return with([](GgufWriter* w) { w->version = 1; }); }, AOTX_ERR_RANGE,
         "version"},
        {"version 4", [] { return with([](GgufWriter* w) { w->version = 4; }); }, AOTX_ERR_RANGE,
         "version"},
        {"big endian", [] { return with([](GgufWriter* w) { w->version = 3u << 24; }); },
         AOTX_ERR_RANGE, "big-endian"},
        {"2^60 tensors in 24 bytes", [] { return head_only(UINT64_C(1) << 60, 0); }, AOTX_ERR_RANGE,
         "tensor_count"},
        {"2^60 keys in 24 bytes", [] { return head_only(0, UINT64_C(1) << 60); }, AOTX_ERR_RANGE,
         "kv_count"},
        {"65536 tensors in 24 bytes", [] { return head_only(65536, 0); }, AOTX_ERR_LENGTH,
         "tensor_count"},
        {"65536 keys in 24 bytes", [] { return head_only(0, 65536); }, AOTX_ERR_LENGTH, "kv_count"},
        {"one key more than there are",
         [] { return with([](GgufWriter* w) { w->keys_count_lie = 1; }); }, AOTX_ERR_RANGE, ""},
        {"a key of 2^63 bytes", [] { return long_string(UINT64_C(1) << 63); }, AOTX_ERR_LENGTH,
         "metadata key"},
        {"a key of 2^64-1 bytes", [] { return long_string(UINT64_MAX); }, AOTX_ERR_LENGTH,
         "metadata key"},
        {"a text of 2^63 bytes",
         [] {
             return with([](GgufWriter* w) {
                 w->add_raw("odd", 8, {0, 0, 0, 0, 0, 0, 0, 0x80, 'x'});
             });
         },
         AOTX_ERR_LENGTH, "odd"},
        {"an empty key", [] { return with([](GgufWriter* w) { w->add_u32("", 1); }); },
         AOTX_ERR_RANGE, "metadata key"},
        {"a key that is there twice",
         [] { return with([](GgufWriter* w) { w->add_u32("number", 1); }); }, AOTX_ERR_RANGE,
         "number"},
        {"an unknown value type",
         [] { return with([](GgufWriter* w) { w->add_raw("odd", 13, {}); }); }, AOTX_ERR_RANGE,
         "odd"},
        {"value type 255", [] { return with([](GgufWriter* w) { w->add_raw("odd", 255, {}); }); },
         AOTX_ERR_RANGE, "odd"},
        {"a bool of 2", [] { return with([](GgufWriter* w) { w->add_raw("odd", 7, {2}); }); },
         AOTX_ERR_RANGE, "odd"},
        {"an array of arrays",
         [] { return with([](GgufWriter* w) { w->add_raw("odd", 9, nested_array(1)); }); },
         AOTX_ERR_RANGE, "odd"},
        {"arrays nested 10000 deep",
         [] { return with([](GgufWriter* w) { w->add_raw("odd", 9, nested_array(10000)); }); },
         AOTX_ERR_RANGE, "odd"},
        {"an array of 2^61 strings",
         [] {
             return with(
                 [](GgufWriter* w) { w->add_raw("odd", 9, string_array(UINT64_C(1) << 61)); });
         },
         AOTX_ERR_LENGTH, "odd"},
        {"n_dims 0",
         [] { return with([](GgufWriter* w) { w->add_tensor_at("t", 0, 0, {}, 128); }); },
         AOTX_ERR_RANGE, "n_dims"},
        {"n_dims 9",
         [] {
             return with([](GgufWriter* w) {
                 w->add_tensor_at("t", 0, 9, {1, 1, 1, 1, 1, 1, 1, 1, 1}, 128);
             });
         },
         AOTX_ERR_RANGE, "n_dims"},
        {"n_dims 2^32-1",
         [] { return with([](GgufWriter* w) { w->add_tensor_at("t", 0, UINT32_MAX, {1}, 128); }); },
         AOTX_ERR_RANGE, "n_dims"},
        {"a product that wraps",
         [] {
             return with([](GgufWriter* w) {
                 w->add_tensor_at("t", 24, 2, {(UINT64_C(1) << 42) + 1, UINT64_C(1) << 22}, 128);
             });
         },
         AOTX_ERR_RANGE, "dims"},
        {"a dim of 2^64-1",
         [] {
             return with([](GgufWriter* w) { w->add_tensor_at("t", 0, 2, {UINT64_MAX, 2}, 128); });
         },
         AOTX_ERR_RANGE, "dims"},
        {"a size that overflows",
         [] {
             return with(
                 [](GgufWriter* w) { w->add_tensor_at("t", 28, 1, {UINT64_C(1) << 62}, 128); });
         },
         AOTX_ERR_RANGE, "size"},
        {"a dim of 0",
         [] { return with([](GgufWriter* w) {
                  w->add_tensor_at("t", 0, 2, {4, 0}, 128);
              }); },
         AOTX_ERR_RANGE, "dims"},
        {"tensor type 255",
         [] { return with([](GgufWriter* w) { w->add_tensor_at("t", 255, 1, {4}, 128); }); },
         AOTX_ERR_RANGE, "type"},
        {"a retired tensor type",
         [] { return with([](GgufWriter* w) { w->add_tensor_at("t", 4, 1, {32}, 128); }); },
         AOTX_ERR_RANGE, "type"},
        {"a row of half a block",
         [] { return with([](GgufWriter* w) {
                  w->add_tensor_at("t", 2, 2, {16, 2}, 128);
              }); },
         AOTX_ERR_RANGE, "blocks"},
        {"two tensors of one name",
         [] { return with([](GgufWriter* w) { w->add_tensor("a.weight", 0, {1}, bytes_of(4)); }); },
         AOTX_ERR_RANGE, "a.weight"},
        {"a tensor without a name",
         [] { return with([](GgufWriter* w) { w->add_tensor("", 0, {1}, bytes_of(4)); }); },
         AOTX_ERR_RANGE, "tensor name"},
        {"tensors that overlap",
         [] { return with([](GgufWriter* w) { w->add_tensor_at("t", 0, 1, {4}, 32); }); },
         AOTX_ERR_RANGE, "overlaps"},
        {"an offset off the alignment",
         [] { return with([](GgufWriter* w) { w->add_tensor_at("t", 0, 1, {1}, 36); }); },
         AOTX_ERR_RANGE, "offset"},
        {"a tensor behind the file",
         [] { return with([](GgufWriter* w) { w->add_tensor_at("t", 0, 1, {4}, 4096); }); },
         AOTX_ERR_LENGTH, "offset"},
        {"an offset of 2^64-32",
         [] {
             return with([](GgufWriter* w) { w->add_tensor_at("t", 0, 1, {4}, UINT64_MAX - 31); });
         },
         AOTX_ERR_LENGTH, "offset"},
        {"alignment 0",
         [] { return with([](GgufWriter* w) { w->add_u32("general.alignment", 0); }); },
         AOTX_ERR_RANGE, "general.alignment"},
        {"alignment 3",
         [] { return with([](GgufWriter* w) { w->add_u32("general.alignment", 3); }); },
         AOTX_ERR_RANGE, "general.alignment"},
        {"alignment 2^31",
         [] { return with([](GgufWriter* w) { w->add_u32("general.alignment", 1u << 31); }); },
         AOTX_ERR_RANGE, "general.alignment"},
        {"alignment of the wrong type",
         [] { return with([](GgufWriter* w) { w->add_string("general.alignment", "32"); }); },
         AOTX_ERR_RANGE, "general.alignment"},
    };
    for (const Fault& fault : faults) {
        INFO(fault.name);
        TextReason reason;
        const int got = open_copy(fault.make(), &reason);
        INFO(reason.text);
        CHECK(open_bounded(fault.make()) == got);
        if (fault.named[0] == '\0') {
            CHECK(got != AOTX_OK);  // what lies behind the last key decides which fault it is
        } else {
            CHECK(got == fault.want);
        }
        CHECK(reason.text[0] != '\0');
        CHECK(std::string(reason.text).find(fault.named) != std::string::npos);
    }
}

TEST_CASE("another alignment moves the tensor data")
{
    GgufWriter writer;
    writer.alignment = 64;
    writer.add_u32("general.alignment", 64);
    writer.add_tensor("a", 0, {2}, bytes_of(8, 1));
    writer.add_tensor("b", 0, {2}, bytes_of(8, 2));
    const std::vector<uint8_t> file = writer.finish();
    GgufFile gguf;
    TextReason reason;
    REQUIRE(gguf.open_memory(file.data(), file.size(), &reason) == AOTX_OK);
    CHECK(gguf.alignment() == 64);
    CHECK((gguf.find_tensor("a")->data - file.data()) % 64 == 0);
    CHECK(gguf.find_tensor("b")->data - gguf.find_tensor("a")->data == 64);
    CHECK(gguf.find_tensor("b")->data[0] == 2);
}

TEST_CASE("every shorter file is refused and nothing is read behind its end")
{
    const std::vector<uint8_t> file = good_writer().finish();
    // The padding behind the last tensor may go: its bytes belong to nobody.
    const size_t needed = file.size() - 10;
    for (size_t cut = 0; cut < needed; cut++) {
        const std::vector<uint8_t> part(file.begin(),
                                        file.begin() + static_cast<std::ptrdiff_t>(cut));
        TextReason reason;
        REQUIRE(open_copy(part, &reason) != AOTX_OK);
        REQUIRE(reason.text[0] != '\0');
    }
    TextReason reason;
    CHECK(open_copy(file, &reason) == AOTX_OK);
}

TEST_CASE("names out of a file are printed harmlessly")
{
    TextReason reason;
    const std::vector<uint8_t> file =
        with([](GgufWriter* w) { w->add_raw("bad\x1b[31m\n\xff", 200, {}); });
    CHECK(open_copy(file, &reason) == AOTX_ERR_RANGE);
    CHECK(std::string(reason.text).find("bad?[31m??") == 0);
}

TEST_CASE("files that cannot be opened are told apart")
{
    TextReason reason;
    GgufFile gguf;
    CHECK(gguf.open("/nonexistent/model.gguf", &reason) == AOTX_ERR_SYSTEM);
    CHECK(gguf.open("/", &reason) == AOTX_ERR_SYSTEM);
    CHECK(gguf.open("/dev/null", &reason) == AOTX_ERR_SYSTEM);
}
