// Purpose:  JSON in and out: a writer for the documents that aotxctl prints, and strict reading of
//           those that it receives.
// Owns:     the text of a JsonWriter, the values of a JsonDocument.
// Thread:   main.
// Lifetime: values live as long as the document they belong to.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace aotx::cli {

// Writes one value front to back; commas are put by the writer. Misuse is a bug and shows in the
// tests as a text that does not parse.
class JsonWriter {
public:
    JsonWriter& begin_object();
    JsonWriter& end_object();
    JsonWriter& begin_array();
    JsonWriter& end_array();
    JsonWriter& key(std::string_view name);
    // Bytes that are no UTF-8 become U+FFFD, control characters become escapes.
    JsonWriter& text(std::string_view value);
    JsonWriter& number(uint64_t value);
    JsonWriter& real(double value);
    JsonWriter& boolean(bool value);
    JsonWriter& null();
    // A 64-bit value as a decimal string, as the contract writes them.
    JsonWriter& decimal(uint64_t value) { return text(std::to_string(value)); }

    const std::string& str() const { return out_; }

private:
    JsonWriter& verbatim(std::string_view value);
    void separate();
    std::string out_;
    bool needs_comma_ = false;
};

// One value of a document that was read.
struct JsonValue {
    enum class Kind : uint32_t { Null, Flag, Number, Real, Text, List, Object };

    Kind kind = Kind::Null;
    bool flag = false;
    uint64_t number = 0;
    double real = 0;   // of a Number too
    std::string text;  // of a Text; of numbers as they were written
    std::vector<JsonValue> items;
    std::vector<std::pair<std::string, JsonValue>> members;

    bool is_list() const { return kind == Kind::List; }
    bool is_object() const { return kind == Kind::Object; }

    // The member of an object, or null.
    const JsonValue* find(std::string_view name) const;

    // Members of an object; the fallback when absent, null or of another type. number also reads
    // decimal strings, as which 64-bit values travel.
    std::string text_of(std::string_view name, std::string fallback = {}) const;
    uint64_t number_of(std::string_view name, uint64_t fallback = 0) const;
    bool flag_of(std::string_view name, bool fallback = false) const;
};

// A parsed document. Size and depth are bounded, so that no input can exhaust memory or stack.
class JsonDocument {
public:
    // Throws Failure with the code when the text is not one JSON value; what names the source.
    JsonDocument(std::string_view text, int code, const std::string& what);
    const JsonValue& root() const { return root_; }
    // The text without blanks.
    const std::string& minified() const { return minified_; }

private:
    JsonValue root_;
    std::string minified_;
};

// A document for people: one "name: value" a line, nested values indented.
std::string json_for_people(const JsonValue& value);

}  // namespace aotx::cli
