// Purpose:  JSON in and out: a writer for the documents that aotxctl prints, and strict reading of
//           those that it receives.
// Owns:     the text of a JsonWriter, the parsed document of a JsonDocument.
// Thread:   main.
// Lifetime: elements of a document live as long as it does.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

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
    // A value that is JSON already.
    JsonWriter& verbatim(std::string_view value);

    const std::string& str() const { return out_; }

private:
    void separate();
    std::string out_;
    bool needs_comma_ = false;
};

// A parsed document. Depth is bounded, so that no input can exhaust the stack.
class JsonDocument {
public:
    // Throws Failure with the code when the text is not one JSON value; what names the source.
    JsonDocument(std::string_view text, int code, const std::string& what);
    simdjson::dom::element root() const { return root_; }

private:
    std::unique_ptr<simdjson::dom::parser> parser_;
    simdjson::dom::element root_;
};

// Members of an object; the fallback when absent, null or of another type.
std::string json_text(simdjson::dom::element object, const char* name, std::string fallback = {});
uint64_t json_number(simdjson::dom::element object, const char* name, uint64_t fallback = 0);
bool json_flag(simdjson::dom::element object, const char* name, bool fallback = false);

// A document for people: one "name: value" a line, nested values indented.
std::string json_for_people(simdjson::dom::element value);

}  // namespace aotx::cli
