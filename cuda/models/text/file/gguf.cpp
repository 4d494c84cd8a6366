// Purpose:  the GGUF reader. One pass over the head counts and checks, then tables are taken whose
//           size that pass has bounded by the file's own size, then a second pass fills them.
// Owns:     the mapping and the tables of each GgufFile.
// Thread:   as gguf.h.
// Lifetime: as gguf.h.
#include "file/gguf.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "aotx/status.h"

namespace aotx {

namespace {

constexpr uint32_t kVersionMin = 2;
constexpr uint32_t kVersionMax = 3;
constexpr uint32_t kAlignmentDefault = 32;
constexpr uint32_t kAlignmentMax = 1u << 20;
constexpr uint64_t kNameBytesMax = 65535;
constexpr uint64_t kElementsMax = INT64_MAX;
constexpr uint32_t kSlotEmpty = UINT32_MAX;

// Bytes of a fixed-size value; 0 for strings, arrays and unknown types.
uint32_t value_bytes(GgufValueType type) noexcept
{
    switch (type) {
        case GgufValueType::kU8:
        case GgufValueType::kI8:
        case GgufValueType::kBool:
            return 1;
        case GgufValueType::kU16:
        case GgufValueType::kI16:
            return 2;
        case GgufValueType::kU32:
        case GgufValueType::kI32:
        case GgufValueType::kF32:
            return 4;
        case GgufValueType::kU64:
        case GgufValueType::kI64:
        case GgufValueType::kF64:
            return 8;
        case GgufValueType::kString:
        case GgufValueType::kArray:
            break;
    }
    return 0;
}

template <typename T>
T load(const uint8_t* at) noexcept
{
    T value;
    std::memcpy(&value, at, sizeof value);
    return value;
}

uint64_t hash_name(std::string_view name) noexcept
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (const char byte : name) {
        hash = (hash ^ static_cast<uint8_t>(byte)) * UINT64_C(0x100000001b3);
    }
    return hash ^ (hash >> 32);
}

// Slots for count names: a power of two, at most half full.
uint32_t slots_for(uint32_t count) noexcept
{
    uint32_t slots = 8;
    while (slots < count * 2) {
        slots *= 2;
    }
    return slots;
}

struct TypeRow {
    GgufTensorType type;
    GgufBlock block;
    const char* name;
};

constexpr TypeRow kTypes[] = {
    {GgufTensorType::kF32, {1, 4}, "F32"},
    {GgufTensorType::kF16, {1, 2}, "F16"},
    {GgufTensorType::kQ4_0, {32, 18}, "Q4_0"},
    {GgufTensorType::kQ4_1, {32, 20}, "Q4_1"},
    {GgufTensorType::kQ5_0, {32, 22}, "Q5_0"},
    {GgufTensorType::kQ5_1, {32, 24}, "Q5_1"},
    {GgufTensorType::kQ8_0, {32, 34}, "Q8_0"},
    {GgufTensorType::kQ8_1, {32, 36}, "Q8_1"},
    {GgufTensorType::kQ2_K, {256, 84}, "Q2_K"},
    {GgufTensorType::kQ3_K, {256, 110}, "Q3_K"},
    {GgufTensorType::kQ4_K, {256, 144}, "Q4_K"},
    {GgufTensorType::kQ5_K, {256, 176}, "Q5_K"},
    {GgufTensorType::kQ6_K, {256, 210}, "Q6_K"},
    {GgufTensorType::kQ8_K, {256, 292}, "Q8_K"},
    {GgufTensorType::kIQ2_XXS, {256, 66}, "IQ2_XXS"},
    {GgufTensorType::kIQ2_XS, {256, 74}, "IQ2_XS"},
    {GgufTensorType::kIQ3_XXS, {256, 98}, "IQ3_XXS"},
    {GgufTensorType::kIQ1_S, {256, 50}, "IQ1_S"},
    {GgufTensorType::kIQ4_NL, {32, 18}, "IQ4_NL"},
    {GgufTensorType::kIQ3_S, {256, 110}, "IQ3_S"},
    {GgufTensorType::kIQ2_S, {256, 82}, "IQ2_S"},
    {GgufTensorType::kIQ4_XS, {256, 136}, "IQ4_XS"},
    {GgufTensorType::kI8, {1, 1}, "I8"},
    {GgufTensorType::kI16, {1, 2}, "I16"},
    {GgufTensorType::kI32, {1, 4}, "I32"},
    {GgufTensorType::kI64, {1, 8}, "I64"},
    {GgufTensorType::kF64, {1, 8}, "F64"},
    {GgufTensorType::kIQ1_M, {256, 56}, "IQ1_M"},
    {GgufTensorType::kBF16, {1, 2}, "BF16"},
    {GgufTensorType::kTQ1_0, {256, 54}, "TQ1_0"},
    {GgufTensorType::kTQ2_0, {256, 66}, "TQ2_0"},
    {GgufTensorType::kMXFP4, {32, 17}, "MXFP4"},
};

const TypeRow* find_type(GgufTensorType type) noexcept
{
    for (const TypeRow& row : kTypes) {
        if (row.type == type) {
            return &row;
        }
    }
    return nullptr;
}

}  // namespace

GgufBlock gguf_block(GgufTensorType type) noexcept
{
    const TypeRow* const row = find_type(type);
    return row == nullptr ? GgufBlock{0, 0} : row->block;
}

const char* gguf_tensor_type_name(GgufTensorType type) noexcept
{
    const TypeRow* const row = find_type(type);
    return row == nullptr ? "unknown" : row->name;
}

bool GgufStringCursor::next(std::string_view* text) noexcept
{
    if (left_ == 0) {
        return false;
    }
    const uint64_t bytes = load<uint64_t>(at_);
    *text = {reinterpret_cast<const char*>(at_ + 8), static_cast<size_t>(bytes)};
    at_ += 8 + bytes;
    left_--;
    return true;
}

struct GgufFile::Key {
    std::string_view name;
    GgufValueType type;
    GgufValueType element_type;  // of an array
    uint64_t count;              // 1, or the array's
    const uint8_t* data;         // of the value; behind an array's head
    const uint8_t* end;
};

// Walks the head of the file. Nothing is read before its bytes are known to be there.
struct GgufFile::Parser {
    const uint8_t* begin;
    const uint8_t* at;
    const uint8_t* end;
    TextReason* reason;

    uint64_t left() const noexcept { return static_cast<uint64_t>(end - at); }

    int take_u32(std::string_view field, uint32_t* value) noexcept
    {
        if (left() < 4) {
            return text_refuse(reason, AOTX_ERR_LENGTH, field, "the file ends inside it");
        }
        *value = load<uint32_t>(at);
        at += 4;
        return AOTX_OK;
    }

    int take_u64(std::string_view field, uint64_t* value) noexcept
    {
        if (left() < 8) {
            return text_refuse(reason, AOTX_ERR_LENGTH, field, "the file ends inside it");
        }
        *value = load<uint64_t>(at);
        at += 8;
        return AOTX_OK;
    }

    int take_string(std::string_view field, uint64_t bytes_max, std::string_view* text) noexcept
    {
        uint64_t bytes = 0;
        if (const int result = take_u64(field, &bytes); result != AOTX_OK) {
            return result;
        }
        if (bytes > left()) {
            return text_refuse_number(reason, AOTX_ERR_LENGTH, field,
                                      "string longer than the file, bytes", bytes);
        }
        if (bytes > bytes_max) {
            return text_refuse_number(reason, AOTX_ERR_RANGE, field, "name too long, bytes", bytes);
        }
        *text = {reinterpret_cast<const char*>(at), static_cast<size_t>(bytes)};
        at += bytes;
        return AOTX_OK;
    }

    // The elements of a string array: every length is walked once, so that later walks are safe.
    int skip_strings(std::string_view field, uint64_t count) noexcept
    {
        if (count > left() / 8) {
            return text_refuse_number(reason, AOTX_ERR_LENGTH, field,
                                      "array longer than the file, elements", count);
        }
        std::string_view text;
        for (uint64_t i = 0; i < count; i++) {
            if (const int result = take_string(field, UINT64_MAX, &text); result != AOTX_OK) {
                return result;
            }
        }
        return AOTX_OK;
    }

    int skip_bools(std::string_view field, uint64_t count) noexcept
    {
        for (uint64_t i = 0; i < count; i++) {
            if (at[i] > 1) {
                return text_refuse_number(reason, AOTX_ERR_RANGE, field,
                                          "bool is neither 0 nor 1 but", at[i]);
            }
        }
        at += count;
        return AOTX_OK;
    }

    int skip_fixed(std::string_view field, GgufValueType type, uint64_t count) noexcept
    {
        const uint32_t bytes = value_bytes(type);
        if (bytes == 0) {
            return text_refuse_number(reason, AOTX_ERR_RANGE, field, "unknown value type",
                                      static_cast<uint32_t>(type));
        }
        if (count > left() / bytes) {
            return text_refuse_number(reason, AOTX_ERR_LENGTH, field,
                                      "longer than the file, elements", count);
        }
        if (type == GgufValueType::kBool) {
            return skip_bools(field, count);
        }
        at += count * bytes;
        return AOTX_OK;
    }

    int take_array(Key* key) noexcept
    {
        uint32_t element_type = 0;
        if (const int result = take_u32(key->name, &element_type); result != AOTX_OK) {
            return result;
        }
        if (const int result = take_u64(key->name, &key->count); result != AOTX_OK) {
            return result;
        }
        key->element_type = static_cast<GgufValueType>(element_type);
        key->data = at;
        if (key->element_type == GgufValueType::kArray) {
            return text_refuse(reason, AOTX_ERR_RANGE, key->name, "arrays of arrays are not taken");
        }
        if (key->element_type == GgufValueType::kString) {
            return skip_strings(key->name, key->count);
        }
        return skip_fixed(key->name, key->element_type, key->count);
    }

    int take_key(Key* key) noexcept
    {
        if (const int result = take_string("metadata key", kNameBytesMax, &key->name);
            result != AOTX_OK) {
            return result;
        }
        if (key->name.empty()) {
            return text_refuse(reason, AOTX_ERR_RANGE, "metadata key", "empty name");
        }
        uint32_t type = 0;
        if (const int result = take_u32(key->name, &type); result != AOTX_OK) {
            return result;
        }
        key->type = static_cast<GgufValueType>(type);
        key->element_type = key->type;
        key->count = 1;
        key->data = at;
        int result = AOTX_OK;
        if (key->type == GgufValueType::kArray) {
            result = take_array(key);
        } else if (key->type == GgufValueType::kString) {
            std::string_view text;
            result = take_string(key->name, UINT64_MAX, &text);
        } else {
            result = skip_fixed(key->name, key->type, 1);
        }
        key->end = at;
        return result;
    }

    int take_dims(GgufTensor* tensor) noexcept
    {
        tensor->elements = 1;
        for (uint32_t i = 0; i < kGgufDimsMax; i++) {
            tensor->dims[i] = 1;
        }
        for (uint32_t i = 0; i < tensor->dims_count; i++) {
            if (const int result = take_u64(tensor->name, &tensor->dims[i]); result != AOTX_OK) {
                return result;
            }
            if (tensor->dims[i] == 0) {
                return text_refuse_number(reason, AOTX_ERR_RANGE, tensor->name,
                                          "dims: 0 at position", i);
            }
            if (tensor->dims[i] > kElementsMax / tensor->elements) {
                return text_refuse_number(reason, AOTX_ERR_RANGE, tensor->name,
                                          "dims: their product overflows at position", i);
            }
            tensor->elements *= tensor->dims[i];
        }
        return AOTX_OK;
    }

    // Size and place. The offset is kept in data until the place of the tensor data is known.
    int take_extent(GgufTensor* tensor, uint64_t* offset) noexcept
    {
        uint32_t type = 0;
        if (const int result = take_u32(tensor->name, &type); result != AOTX_OK) {
            return result;
        }
        tensor->type = static_cast<GgufTensorType>(type);
        const GgufBlock block = gguf_block(tensor->type);
        if (block.elements == 0) {
            return text_refuse_number(reason, AOTX_ERR_RANGE, tensor->name, "type: unknown", type);
        }
        if (tensor->dims[0] % block.elements != 0) {
            return text_refuse_number(reason, AOTX_ERR_RANGE, tensor->name,
                                      "dims: a row is not whole blocks, elements", tensor->dims[0]);
        }
        const uint64_t blocks = tensor->elements / block.elements;
        if (blocks > kElementsMax / block.bytes) {
            return text_refuse(reason, AOTX_ERR_RANGE, tensor->name, "dims: its size overflows");
        }
        tensor->bytes = blocks * block.bytes;
        return take_u64(tensor->name, offset);
    }

    int take_tensor(GgufTensor* tensor, uint64_t* offset) noexcept
    {
        if (const int result = take_string("tensor name", kNameBytesMax, &tensor->name);
            result != AOTX_OK) {
            return result;
        }
        if (tensor->name.empty()) {
            return text_refuse(reason, AOTX_ERR_RANGE, "tensor name", "empty name");
        }
        if (const int result = take_u32(tensor->name, &tensor->dims_count); result != AOTX_OK) {
            return result;
        }
        if (tensor->dims_count < 1 || tensor->dims_count > kGgufDimsMax) {
            return text_refuse_number(reason, AOTX_ERR_RANGE, tensor->name,
                                      "n_dims: not 1 to 4 but", tensor->dims_count);
        }
        if (const int result = take_dims(tensor); result != AOTX_OK) {
            return result;
        }
        return take_extent(tensor, offset);
    }

    int check_magic(uint32_t* version) noexcept
    {
        if (left() < 4 || std::memcmp(at, "GGUF", 4) != 0) {
            return text_refuse(reason, AOTX_ERR_MAGIC, "magic", "not a GGUF file");
        }
        at += 4;
        if (const int result = take_u32("version", version); result != AOTX_OK) {
            return result;
        }
        if (*version < kVersionMin || *version > kVersionMax) {
            const bool swapped = (*version & 0xffff) == 0 && *version != 0;
            return text_refuse_number(
                reason, AOTX_ERR_RANGE, "version",
                swapped ? "big-endian files are not read; stored" : "not 2 or 3 but", *version);
        }
        return AOTX_OK;
    }

    int take_count(std::string_view field, uint32_t maximum, uint32_t* count) noexcept
    {
        uint64_t stored = 0;
        if (const int result = take_u64(field, &stored); result != AOTX_OK) {
            return result;
        }
        if (stored > maximum) {
            return text_refuse_number(reason, AOTX_ERR_RANGE, field, "too many,", stored);
        }
        *count = static_cast<uint32_t>(stored);
        return AOTX_OK;
    }
};

namespace {

constexpr uint64_t kKeyBytesMin = 8 + 1 + 4 + 1;
constexpr uint64_t kTensorBytesMin = 8 + 1 + 4 + 8 + 4 + 8;

// Enter every row's name into an open-addressing index. A name that is there twice is refused.
template <typename Row>
int index_names(const Row* rows, uint32_t count, const char* what,
                std::unique_ptr<uint32_t[]>* index, uint32_t* mask, TextReason* reason) noexcept
{
    const uint32_t slots = slots_for(count);
    index->reset(new (std::nothrow) uint32_t[slots]);
    if (*index == nullptr) {
        return text_refuse(reason, AOTX_ERR_SYSTEM, what, "no memory for the index");
    }
    std::fill_n(index->get(), slots, kSlotEmpty);
    *mask = slots - 1;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t slot = static_cast<uint32_t>(hash_name(rows[i].name)) & *mask;
        while ((*index)[slot] != kSlotEmpty) {
            if (rows[(*index)[slot]].name == rows[i].name) {
                return text_refuse(reason, AOTX_ERR_RANGE, rows[i].name, what);
            }
            slot = (slot + 1) & *mask;
        }
        (*index)[slot] = i;
    }
    return AOTX_OK;
}

template <typename Row>
const Row* find_row(const Row* rows, const uint32_t* index, uint32_t mask,
                    std::string_view name) noexcept
{
    if (index == nullptr) {
        return nullptr;
    }
    uint32_t slot = static_cast<uint32_t>(hash_name(name)) & mask;
    while (index[slot] != kSlotEmpty) {
        if (rows[index[slot]].name == name) {
            return &rows[index[slot]];
        }
        slot = (slot + 1) & mask;
    }
    return nullptr;
}

// Integers of any width; false for other types.
bool load_integer(GgufValueType type, const uint8_t* at, int64_t* value) noexcept
{
    switch (type) {
        case GgufValueType::kU8:
            *value = load<uint8_t>(at);
            return true;
        case GgufValueType::kI8:
            *value = load<int8_t>(at);
            return true;
        case GgufValueType::kU16:
            *value = load<uint16_t>(at);
            return true;
        case GgufValueType::kI16:
            *value = load<int16_t>(at);
            return true;
        case GgufValueType::kU32:
            *value = load<uint32_t>(at);
            return true;
        case GgufValueType::kI32:
            *value = load<int32_t>(at);
            return true;
        case GgufValueType::kU64:
            // Above INT64_MAX becomes negative, which no caller takes.
            *value = static_cast<int64_t>(load<uint64_t>(at));
            return true;
        case GgufValueType::kI64:
            *value = load<int64_t>(at);
            return true;
        default:
            return false;
    }
}

}  // namespace

GgufFile::GgufFile() noexcept = default;
GgufFile::~GgufFile()
{
    close();
}

void GgufFile::close() noexcept
{
    if (mapped_) {
        munmap(const_cast<uint8_t*>(data_), bytes_);
    }
    data_ = nullptr;
    bytes_ = 0;
    mapped_ = false;
    version_ = 0;
    alignment_ = 0;
    keys_count_ = 0;
    tensors_count_ = 0;
    table_bytes_ = 0;
    keys_.reset();
    tensors_.reset();
    key_index_.reset();
    tensor_index_.reset();
}

int GgufFile::open(const char* path, TextReason* reason) noexcept
{
    AOTX_TEXT_CHECK(data_ == nullptr);
    const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return text_refuse(reason, AOTX_ERR_SYSTEM, path, "cannot be opened");
    }
    struct stat status;
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
        ::close(fd);
        return text_refuse(reason, AOTX_ERR_SYSTEM, path, "not a regular file");
    }
    if (status.st_size == 0) {
        ::close(fd);
        return text_refuse(reason, AOTX_ERR_MAGIC, "magic", "the file is empty");
    }
    const uint64_t bytes = static_cast<uint64_t>(status.st_size);
    void* const map = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
    ::close(fd);
    if (map == MAP_FAILED) {
        return text_refuse(reason, AOTX_ERR_SYSTEM, path, "cannot be mapped");
    }
    const int result = open_memory(static_cast<const uint8_t*>(map), bytes, reason);
    if (result != AOTX_OK) {
        munmap(map, bytes);
        return result;
    }
    mapped_ = true;
    return AOTX_OK;
}

int GgufFile::open_memory(const uint8_t* data, uint64_t bytes, TextReason* reason) noexcept
{
    AOTX_TEXT_CHECK(data_ == nullptr);
    Parser parser = {data, data, data + bytes, reason};
    const int result = read_head(&parser);
    if (result != AOTX_OK) {
        close();
        return result;
    }
    data_ = data;
    bytes_ = bytes;
    return AOTX_OK;
}

int GgufFile::read_head(Parser* parser) noexcept
{
    if (const int result = parser->check_magic(&version_); result != AOTX_OK) {
        return result;
    }
    if (const int result = parser->take_count("tensor_count", kGgufTensorsMax, &tensors_count_);
        result != AOTX_OK) {
        return result;
    }
    if (const int result = parser->take_count("kv_count", kGgufKeysMax, &keys_count_);
        result != AOTX_OK) {
        return result;
    }
    if (keys_count_ > parser->left() / kKeyBytesMin) {
        return text_refuse_number(parser->reason, AOTX_ERR_LENGTH, "kv_count",
                                  "more than the file can hold,", keys_count_);
    }
    if (tensors_count_ > parser->left() / kTensorBytesMin) {
        return text_refuse_number(parser->reason, AOTX_ERR_LENGTH, "tensor_count",
                                  "more than the file can hold,", tensors_count_);
    }
    if (const int result = read_keys(parser); result != AOTX_OK) {
        return result;
    }
    if (const int result = read_alignment(parser->reason); result != AOTX_OK) {
        return result;
    }
    return read_tensors(parser);
}

int GgufFile::read_keys(Parser* parser) noexcept
{
    keys_.reset(new (std::nothrow) Key[keys_count_ + 1]);
    if (keys_ == nullptr) {
        return text_refuse(parser->reason, AOTX_ERR_SYSTEM, "kv_count", "no memory");
    }
    for (uint32_t i = 0; i < keys_count_; i++) {
        if (const int result = parser->take_key(&keys_[i]); result != AOTX_OK) {
            return result;
        }
    }
    const int result = index_names(keys_.get(), keys_count_, "key appears twice", &key_index_,
                                   &key_index_mask_, parser->reason);
    table_bytes_ += (keys_count_ + 1) * sizeof(Key) + (key_index_mask_ + 1) * sizeof(uint32_t);
    return result;
}

int GgufFile::read_alignment(TextReason* reason) noexcept
{
    alignment_ = kAlignmentDefault;
    const Key* const key = find_key("general.alignment");
    if (key == nullptr) {
        return AOTX_OK;
    }
    if (key->type != GgufValueType::kU32) {
        return text_refuse_number(reason, AOTX_ERR_RANGE, key->name, "not of type u32 but of",
                                  static_cast<uint32_t>(key->type));
    }
    alignment_ = load<uint32_t>(key->data);
    const bool power_of_two = (alignment_ & (alignment_ - 1)) == 0;
    if (alignment_ < 8 || alignment_ > kAlignmentMax || !power_of_two) {
        return text_refuse_number(reason, AOTX_ERR_RANGE, key->name,
                                  "not a power of two from 8 to 1048576 but", alignment_);
    }
    return AOTX_OK;
}

int GgufFile::read_tensors(Parser* parser) noexcept
{
    tensors_.reset(new (std::nothrow) GgufTensor[tensors_count_ + 1]);
    const std::unique_ptr<uint64_t[]> offsets(new (std::nothrow) uint64_t[tensors_count_ + 1]);
    if (tensors_ == nullptr || offsets == nullptr) {
        return text_refuse(parser->reason, AOTX_ERR_SYSTEM, "tensor_count", "no memory");
    }
    for (uint32_t i = 0; i < tensors_count_; i++) {
        if (const int result = parser->take_tensor(&tensors_[i], &offsets[i]); result != AOTX_OK) {
            return result;
        }
    }
    if (const int result = index_names(tensors_.get(), tensors_count_, "tensor name appears twice",
                                       &tensor_index_, &tensor_index_mask_, parser->reason);
        result != AOTX_OK) {
        return result;
    }
    table_bytes_ +=
        (tensors_count_ + 1) * sizeof(GgufTensor) + (tensor_index_mask_ + 1) * sizeof(uint32_t);
    return place_tensors(parser, offsets.get());
}

int GgufFile::place_tensors(Parser* parser, const uint64_t* offsets) noexcept
{
    if (tensors_count_ == 0) {
        return AOTX_OK;
    }
    const uint64_t head_bytes = static_cast<uint64_t>(parser->at - parser->begin);
    const uint64_t file_bytes = static_cast<uint64_t>(parser->end - parser->begin);
    const uint64_t data_begin = (head_bytes + alignment_ - 1) / alignment_ * alignment_;
    const uint64_t data_bytes = data_begin > file_bytes ? 0 : file_bytes - data_begin;
    for (uint32_t i = 0; i < tensors_count_; i++) {
        GgufTensor* const tensor = &tensors_[i];
        if (offsets[i] % alignment_ != 0) {
            return text_refuse_number(parser->reason, AOTX_ERR_RANGE, tensor->name,
                                      "offset: not a multiple of the alignment,", offsets[i]);
        }
        if (offsets[i] > data_bytes || tensor->bytes > data_bytes - offsets[i]) {
            return text_refuse_number(parser->reason, AOTX_ERR_LENGTH, tensor->name,
                                      "offset: the tensor ends behind the file, offset",
                                      offsets[i]);
        }
        tensor->data = parser->begin + data_begin + offsets[i];
    }
    return check_overlap(parser->reason);
}

int GgufFile::check_overlap(TextReason* reason) noexcept
{
    const std::unique_ptr<uint32_t[]> order(new (std::nothrow) uint32_t[tensors_count_]);
    if (order == nullptr) {
        return text_refuse(reason, AOTX_ERR_SYSTEM, "tensor_count", "no memory");
    }
    for (uint32_t i = 0; i < tensors_count_; i++) {
        order[i] = i;
    }
    std::sort(order.get(), order.get() + tensors_count_,
              [this](uint32_t a, uint32_t b) { return tensors_[a].data < tensors_[b].data; });
    for (uint32_t i = 1; i < tensors_count_; i++) {
        const GgufTensor& before = tensors_[order[i - 1]];
        const GgufTensor& tensor = tensors_[order[i]];
        if (before.data + before.bytes > tensor.data) {
            return text_refuse(reason, AOTX_ERR_RANGE, tensor.name,
                               "offset: overlaps another tensor");
        }
    }
    return AOTX_OK;
}

const GgufTensor& GgufFile::tensor(uint32_t index) const noexcept
{
    AOTX_TEXT_CHECK(index < tensors_count_);
    return tensors_[index];
}

const GgufTensor* GgufFile::find_tensor(std::string_view name) const noexcept
{
    return find_row(tensors_.get(), tensor_index_.get(), tensor_index_mask_, name);
}

const GgufFile::Key* GgufFile::find_key(std::string_view key) const noexcept
{
    return find_row(keys_.get(), key_index_.get(), key_index_mask_, key);
}

bool GgufFile::has(std::string_view key) const noexcept
{
    return find_key(key) != nullptr;
}

int GgufFile::get_u32(std::string_view key, uint32_t* value, TextReason* reason) const noexcept
{
    const Key* const row = find_key(key);
    if (row == nullptr) {
        return AOTX_ERR_NOT_FOUND;
    }
    int64_t stored = 0;
    if (!load_integer(row->type, row->data, &stored)) {
        return text_refuse(reason, AOTX_ERR_RANGE, key, "not an integer");
    }
    if (stored < 0 || stored > UINT32_MAX) {
        return text_refuse(reason, AOTX_ERR_RANGE, key, "outside 0 to 4294967295");
    }
    *value = static_cast<uint32_t>(stored);
    return AOTX_OK;
}

int GgufFile::get_f32(std::string_view key, float* value, TextReason* reason) const noexcept
{
    const Key* const row = find_key(key);
    if (row == nullptr) {
        return AOTX_ERR_NOT_FOUND;
    }
    if (row->type == GgufValueType::kF32) {
        *value = load<float>(row->data);
        return AOTX_OK;
    }
    if (row->type == GgufValueType::kF64) {
        *value = static_cast<float>(load<double>(row->data));
        return AOTX_OK;
    }
    return text_refuse(reason, AOTX_ERR_RANGE, key, "not a float");
}

int GgufFile::get_bool(std::string_view key, bool* value, TextReason* reason) const noexcept
{
    const Key* const row = find_key(key);
    if (row == nullptr) {
        return AOTX_ERR_NOT_FOUND;
    }
    if (row->type != GgufValueType::kBool) {
        return text_refuse(reason, AOTX_ERR_RANGE, key, "not a bool");
    }
    *value = *row->data != 0;
    return AOTX_OK;
}

int GgufFile::get_string(std::string_view key, std::string_view* value,
                         TextReason* reason) const noexcept
{
    const Key* const row = find_key(key);
    if (row == nullptr) {
        return AOTX_ERR_NOT_FOUND;
    }
    if (row->type != GgufValueType::kString) {
        return text_refuse(reason, AOTX_ERR_RANGE, key, "not a string");
    }
    *value = {reinterpret_cast<const char*>(row->data + 8),
              static_cast<size_t>(load<uint64_t>(row->data))};
    return AOTX_OK;
}

int GgufFile::get_array(std::string_view key, GgufValueType element_type, GgufArray* value,
                        TextReason* reason) const noexcept
{
    const Key* const row = find_key(key);
    if (row == nullptr) {
        return AOTX_ERR_NOT_FOUND;
    }
    if (row->type != GgufValueType::kArray || row->element_type != element_type) {
        return text_refuse_number(reason, AOTX_ERR_RANGE, key, "not an array with elements of type",
                                  static_cast<uint32_t>(element_type));
    }
    *value = {row->element_type, row->count, row->data, row->end};
    return AOTX_OK;
}

int64_t gguf_array_integer(const GgufArray& array, uint64_t index) noexcept
{
    AOTX_TEXT_CHECK(index < array.count);
    int64_t value = 0;
    AOTX_TEXT_CHECK(load_integer(array.type, array.data + index * value_bytes(array.type), &value));
    return value;
}

float gguf_array_float(const GgufArray& array, uint64_t index) noexcept
{
    AOTX_TEXT_CHECK(index < array.count);
    if (array.type == GgufValueType::kF64) {
        return static_cast<float>(load<double>(array.data + index * 8));
    }
    if (array.type == GgufValueType::kF32) {
        return load<float>(array.data + index * 4);
    }
    return static_cast<float>(gguf_array_integer(array, index));
}

}  // namespace aotx
