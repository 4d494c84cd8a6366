// Purpose:  read a GGUF file (versions 2 and 3) from a read-only mapping: metadata and tensors.
//           Every count, size, offset and type is checked at open, before anything uses it.
// Owns:     the mapping and two index tables; every view it hands out points into the mapping.
// Thread:   open and close on one thread; lookups from any thread afterwards.
// Lifetime: open -> lookups -> close (or destruction). Views die with the file.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "reason.h"

namespace aotx {

// Type of a metadata value, as stored.
enum class GgufValueType : uint32_t {
    kU8 = 0,
    kI8 = 1,
    kU16 = 2,
    kI16 = 3,
    kU32 = 4,
    kI32 = 5,
    kF32 = 6,
    kBool = 7,
    kString = 8,
    kArray = 9,
    kU64 = 10,
    kI64 = 11,
    kF64 = 12
};

// Type of a tensor's elements, as stored. 4, 5, 31 to 33 and 36 to 38 are retired.
enum class GgufTensorType : uint32_t {
    kF32 = 0,
    kF16 = 1,
    kQ4_0 = 2,
    kQ4_1 = 3,
    kQ5_0 = 6,
    kQ5_1 = 7,
    kQ8_0 = 8,
    kQ8_1 = 9,
    kQ2_K = 10,
    kQ3_K = 11,
    kQ4_K = 12,
    kQ5_K = 13,
    kQ6_K = 14,
    kQ8_K = 15,
    kIQ2_XXS = 16,
    kIQ2_XS = 17,
    kIQ3_XXS = 18,
    kIQ1_S = 19,
    kIQ4_NL = 20,
    kIQ3_S = 21,
    kIQ2_S = 22,
    kIQ4_XS = 23,
    kI8 = 24,
    kI16 = 25,
    kI32 = 26,
    kI64 = 27,
    kF64 = 28,
    kIQ1_M = 29,
    kBF16 = 30,
    kTQ1_0 = 34,
    kTQ2_0 = 35,
    kMXFP4 = 39
};

constexpr uint32_t kGgufDimsMax = 4;
constexpr uint32_t kGgufKeysMax = 65536;     // more is refused
constexpr uint32_t kGgufTensorsMax = 65536;  // more is refused

// Elements and bytes of one block of a type; zero elements when the type is unknown.
struct GgufBlock {
    uint32_t elements;
    uint32_t bytes;
};
GgufBlock gguf_block(GgufTensorType type) noexcept;
const char* gguf_tensor_type_name(GgufTensorType type) noexcept;

// One tensor. dims[0] is the contiguous one (a row); unused dims are 1; their product fits 63 bits.
// data holds `bytes` bytes inside the mapping and, in a mapped file, is aligned as the file says.
struct GgufTensor {
    std::string_view name;
    GgufTensorType type;
    uint32_t dims_count;
    uint64_t dims[kGgufDimsMax];
    uint64_t elements;
    uint64_t bytes;
    const uint8_t* data;
};

// An array value. Read numbers with at(); strings with a GgufStringCursor.
struct GgufArray {
    GgufValueType type;
    uint64_t count;
    const uint8_t* data;  // packed little endian, no alignment promised
    const uint8_t* end;   // of the bytes that hold the array
};

// Walks the strings of an array in order. open has checked every length.
class GgufStringCursor {
public:
    explicit GgufStringCursor(const GgufArray& array) noexcept : at_(array.data), left_(array.count)
    {
    }
    // False at the end.
    bool next(std::string_view* text) noexcept;

private:
    const uint8_t* at_;
    uint64_t left_;
};

class GgufFile {
public:
    GgufFile() noexcept;
    ~GgufFile();
    GgufFile(const GgufFile&) = delete;
    GgufFile& operator=(const GgufFile&) = delete;

    // Map the file and check all of it. AOTX_ERR_SYSTEM the file cannot be opened or mapped, or no
    // memory; AOTX_ERR_MAGIC not a GGUF file; AOTX_ERR_SYNTAX, AOTX_ERR_RANGE, AOTX_ERR_LENGTH a
    // fault, reason names the field. The object stays closed on failure.
    [[nodiscard]] int open(const char* path, TextReason* reason) noexcept;

    // The same over bytes that the caller keeps alive. Tensor data are aligned as far as data is.
    [[nodiscard]] int open_memory(const uint8_t* data, uint64_t bytes, TextReason* reason) noexcept;

    void close() noexcept;

    const uint8_t* data() const noexcept { return data_; }
    uint64_t bytes() const noexcept { return bytes_; }
    uint32_t version() const noexcept { return version_; }
    uint32_t alignment() const noexcept { return alignment_; }
    // Whether data is a mapping of a file, whose pages the system can give back.
    bool is_mapped() const noexcept { return mapped_; }
    // Memory that open took beside the mapping.
    uint64_t table_bytes() const noexcept { return table_bytes_; }

    uint32_t keys_count() const noexcept { return keys_count_; }
    uint32_t tensors_count() const noexcept { return tensors_count_; }
    const GgufTensor& tensor(uint32_t index) const noexcept;  // index < tensors_count()
    // Null when there is none of that name.
    const GgufTensor* find_tensor(std::string_view name) const noexcept;

    bool has(std::string_view key) const noexcept;
    // Typed lookups. AOTX_OK; AOTX_ERR_NOT_FOUND no such key, *value untouched, reason untouched;
    // AOTX_ERR_RANGE another type or a value that does not fit, reason names the key.
    // Integers of any width and sign are taken when the value fits.
    [[nodiscard]] int get_u32(std::string_view key, uint32_t* value,
                              TextReason* reason) const noexcept;
    [[nodiscard]] int get_f32(std::string_view key, float* value,
                              TextReason* reason) const noexcept;
    [[nodiscard]] int get_bool(std::string_view key, bool* value,
                               TextReason* reason) const noexcept;
    [[nodiscard]] int get_string(std::string_view key, std::string_view* value,
                                 TextReason* reason) const noexcept;
    [[nodiscard]] int get_array(std::string_view key, GgufValueType element_type, GgufArray* value,
                                TextReason* reason) const noexcept;

private:
    struct Key;
    struct Parser;
    const Key* find_key(std::string_view key) const noexcept;
    int read_head(Parser* parser) noexcept;
    int read_keys(Parser* parser) noexcept;
    int read_alignment(TextReason* reason) noexcept;
    int read_tensors(Parser* parser) noexcept;
    int place_tensors(Parser* parser, const uint64_t* offsets) noexcept;
    int check_overlap(TextReason* reason) noexcept;

    const uint8_t* data_ = nullptr;
    uint64_t bytes_ = 0;
    bool mapped_ = false;
    uint32_t version_ = 0;
    uint32_t alignment_ = 0;
    uint32_t keys_count_ = 0;
    uint32_t tensors_count_ = 0;
    uint64_t table_bytes_ = 0;
    std::unique_ptr<Key[]> keys_;
    std::unique_ptr<GgufTensor[]> tensors_;
    std::unique_ptr<uint32_t[]> key_index_;  // open addressing, size a power of two; ~0 is empty
    std::unique_ptr<uint32_t[]> tensor_index_;
    uint32_t key_index_mask_ = 0;
    uint32_t tensor_index_mask_ = 0;
};

// Element of a number array, as 64-bit integer or as float. index < array.count; the array's type
// is an integer type, or F32 or F64.
int64_t gguf_array_integer(const GgufArray& array, uint64_t index) noexcept;
float gguf_array_float(const GgufArray& array, uint64_t index) noexcept;

}  // namespace aotx
