// Purpose:  build small GGUF files in memory, right ones and wrong ones, for the tests of every
//           reader of them.
// Owns:     the bytes of each writer.
// Thread:   any, one object each.
// Lifetime: add keys and tensors, then finish() once.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

class GgufWriter {
public:
    // Values that the head states; change them to lie.
    uint32_t version = 3;
    uint64_t tensors_count_lie = 0;  // added to the true count
    uint64_t keys_count_lie = 0;
    uint32_t alignment = 32;  // of the tensor data; add_u32("general.alignment") is separate

    void add_u32(const std::string& key, uint32_t value)
    {
        begin_key(key, 4);
        put(&keys_, value);
    }
    void add_i32(const std::string& key, int32_t value)
    {
        begin_key(key, 5);
        put(&keys_, value);
    }
    void add_f32(const std::string& key, float value)
    {
        begin_key(key, 6);
        put(&keys_, value);
    }
    void add_bool(const std::string& key, bool value)
    {
        begin_key(key, 7);
        keys_.push_back(value ? 1 : 0);
    }
    void add_string(const std::string& key, const std::string& value)
    {
        begin_key(key, 8);
        put_string(&keys_, value);
    }
    void add_strings(const std::string& key, const std::vector<std::string>& values)
    {
        begin_array(key, 8, values.size());
        for (const std::string& value : values) {
            put_string(&keys_, value);
        }
    }
    void add_i32s(const std::string& key, const std::vector<int32_t>& values)
    {
        begin_array(key, 5, values.size());
        for (const int32_t value : values) {
            put(&keys_, value);
        }
    }
    void add_f32s(const std::string& key, const std::vector<float>& values)
    {
        begin_array(key, 6, values.size());
        for (const float value : values) {
            put(&keys_, value);
        }
    }
    // A key whose value is given as it stands in the file.
    void add_raw(const std::string& key, uint32_t type, const std::vector<uint8_t>& value)
    {
        begin_key(key, type);
        keys_.insert(keys_.end(), value.begin(), value.end());
    }

    // A tensor whose data follows the one before, padded. dims_count may lie about dims.
    void add_tensor(const std::string& name, uint32_t type, const std::vector<uint64_t>& dims,
                    const std::vector<uint8_t>& data)
    {
        add_tensor_at(name, type, static_cast<uint32_t>(dims.size()), dims, data_.size());
        data_.insert(data_.end(), data.begin(), data.end());
        while (data_.size() % alignment != 0) {
            data_.push_back(0);
        }
    }
    void add_tensor_at(const std::string& name, uint32_t type, uint32_t dims_count,
                       const std::vector<uint64_t>& dims, uint64_t offset)
    {
        tensors_count_++;
        put_string(&tensors_, name);
        put(&tensors_, dims_count);
        for (const uint64_t dim : dims) {
            put(&tensors_, dim);
        }
        put(&tensors_, type);
        put(&tensors_, offset);
    }
    void add_data(size_t bytes) { data_.insert(data_.end(), bytes, 0); }

    std::vector<uint8_t> finish() const
    {
        std::vector<uint8_t> file = {'G', 'G', 'U', 'F'};
        put(&file, version);
        put(&file, tensors_count_ + tensors_count_lie);
        put(&file, keys_count_ + keys_count_lie);
        file.insert(file.end(), keys_.begin(), keys_.end());
        file.insert(file.end(), tensors_.begin(), tensors_.end());
        if (tensors_count_ != 0) {
            while (file.size() % alignment != 0) {
                file.push_back(0);
            }
            file.insert(file.end(), data_.begin(), data_.end());
        }
        return file;
    }

    template <typename T>
    static void put(std::vector<uint8_t>* out, T value)
    {
        uint8_t bytes[sizeof value];
        std::memcpy(bytes, &value, sizeof value);
        out->insert(out->end(), bytes, bytes + sizeof value);
    }
    static void put_string(std::vector<uint8_t>* out, const std::string& text)
    {
        put(out, static_cast<uint64_t>(text.size()));
        out->insert(out->end(), text.begin(), text.end());
    }

private:
    void begin_key(const std::string& key, uint32_t type)
    {
        keys_count_++;
        put_string(&keys_, key);
        put(&keys_, type);
    }
    void begin_array(const std::string& key, uint32_t element_type, uint64_t count)
    {
        begin_key(key, 9);
        put(&keys_, element_type);
        put(&keys_, count);
    }

    uint64_t keys_count_ = 0;
    uint64_t tensors_count_ = 0;
    std::vector<uint8_t> keys_;
    std::vector<uint8_t> tensors_;
    std::vector<uint8_t> data_;
};
