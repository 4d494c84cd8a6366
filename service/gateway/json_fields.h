// Purpose:  read JSON objects by a table of known fields: no unknown field, no repeated one.
// Owns:     nothing; a JsonFields points into the document that it was read from.
// Thread:   one thread a document.
// Lifetime: as long as the document.
#pragma once

#include <simdjson.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "refusal.h"

namespace aotx {

constexpr size_t kJsonDepthMax = 8;
constexpr size_t kJsonKeysMax = 128;
constexpr size_t kJsonFieldsMax = 16;  // that one table may list
constexpr size_t kJsonPathBytesMax = 128;

// Where in the body a value stands, as "messages[0].content[1].text", for the error's param.
class JsonPath {
public:
    // Go one step down; returns the length to go back to.
    size_t enter(std::string_view field) noexcept;
    size_t enter(size_t index) noexcept;
    void leave(size_t length) noexcept { length_ = length; }
    std::string_view view() const noexcept { return {text_, length_}; }

private:
    void append(std::string_view text) noexcept;

    char text_[kJsonPathBytesMax] = {};
    size_t length_ = 0;
};

// What reading carries along: the path, and the first refusal.
struct JsonReader {
    JsonPath path;
    Refusal refusal;

    // Refuse the value at the path, or one of its fields. Returns false, for "return fail(...)".
    bool fail(std::string_view message, std::string_view field = {}) noexcept;
    bool fail(const Refusal& why) noexcept;
};

// One document at a time. Memory for documents up to kSmallBytes stays; larger ones give theirs
// back with close().
class JsonDocument {
public:
    static constexpr size_t kSmallBytes = 64 << 10;

    // Parse one object with nothing behind it. text is followed by simdjson::SIMDJSON_PADDING
    // readable bytes. On failure the reader holds the refusal: syntax, invalid UTF-8, a lone
    // surrogate, too deep, too many keys, no object.
    [[nodiscard]] bool open(std::string_view text, JsonReader* reader,
                            simdjson::dom::object* root) noexcept;
    void close() noexcept;

private:
    simdjson::dom::parser small_;
    simdjson::dom::parser* large_ = nullptr;
};

struct JsonFields {
    simdjson::dom::element values[kJsonFieldsMax];
    uint32_t present = 0;  // bit i: names[i] is there and not null

    bool has(size_t index) const noexcept { return (present & (1u << index)) != 0; }
};

// Read the fields of an object whose names are listed. A null counts as absent.
[[nodiscard]] bool json_fields_read(const simdjson::dom::object& object,
                                    const std::string_view* names, size_t names_count,
                                    JsonReader* reader, JsonFields* fields) noexcept;

}  // namespace aotx
