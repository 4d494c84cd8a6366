// Purpose:  the JSON writer, and reading through simdjson.
// Owns:     nothing.
// Thread:   main.
// Lifetime: not applicable.
#include "cli/json.h"

#include <cstdio>

#include "aotx/handle.h"
#include "cli/failure.h"
#include "cli/terminal.h"

namespace aotx::cli {
namespace {

constexpr size_t kDepthMax = 64;
constexpr size_t kDocumentBytesMax = size_t{64} << 20;

std::string quoted(std::string_view value)
{
    std::string out = "\"";
    for (size_t at = 0; at < value.size();) {
        const unsigned char byte = static_cast<unsigned char>(value[at]);
        char text[8];
        if (byte == '"' || byte == '\\') {
            out += '\\';
            out += static_cast<char>(byte);
            at++;
        } else if (byte < 0x20 || byte == 0x7f) {
            std::snprintf(text, sizeof text, "\\u%04x", byte);
            out += byte == '\n' ? "\\n" : byte == '\t' ? "\\t" : text;
            at++;
        } else if (byte < 0x80) {
            out += static_cast<char>(byte);
            at++;
        } else {
            size_t end = at;
            while (end < value.size() && static_cast<unsigned char>(value[end]) >= 0x80) {
                end++;
            }
            out += utf8_repaired(value.substr(at, end - at));
            at = end;
        }
    }
    return out + "\"";
}

void people(simdjson::dom::element value, const std::string& indent, std::string* out);

std::string scalar(simdjson::dom::element value)
{
    std::string_view text;
    if (value.get(text) == simdjson::SUCCESS) {
        return escape_controls(text, false);
    }
    if (value.is_null()) {
        return "none";
    }
    return simdjson::minify(value);
}

bool is_scalar(simdjson::dom::element value)
{
    return !value.is_object() && !value.is_array();
}

void people_list(simdjson::dom::array list, const std::string& indent, std::string* out)
{
    for (const simdjson::dom::element entry : list) {
        if (is_scalar(entry)) {
            *out += indent + "- " + scalar(entry) + "\n";
            continue;
        }
        std::string body;
        people(entry, indent + "  ", &body);
        if (body.size() > indent.size()) {
            body[indent.size()] = '-';
        }
        *out += body;
    }
}

void people(simdjson::dom::element value, const std::string& indent, std::string* out)
{
    simdjson::dom::array list;
    simdjson::dom::object object;
    if (value.get(list) == simdjson::SUCCESS) {
        people_list(list, indent, out);
        return;
    }
    if (value.get(object) != simdjson::SUCCESS) {
        *out += indent + scalar(value) + "\n";
        return;
    }
    for (const auto field : object) {
        const std::string name = escape_controls(field.key, false);
        simdjson::dom::array entries;
        const bool empty = field.value.get(entries) == simdjson::SUCCESS && entries.size() == 0;
        if (is_scalar(field.value) || empty) {
            *out += indent + name + ": " + (empty ? "none" : scalar(field.value)) + "\n";
            continue;
        }
        *out += indent + name + ":\n";
        people(field.value, indent + "  ", out);
    }
}

}  // namespace

void JsonWriter::separate()
{
    if (needs_comma_) {
        out_ += ',';
    }
    needs_comma_ = true;
}

JsonWriter& JsonWriter::begin_object()
{
    separate();
    out_ += '{';
    needs_comma_ = false;
    return *this;
}

JsonWriter& JsonWriter::end_object()
{
    out_ += '}';
    needs_comma_ = true;
    return *this;
}

JsonWriter& JsonWriter::begin_array()
{
    separate();
    out_ += '[';
    needs_comma_ = false;
    return *this;
}

JsonWriter& JsonWriter::end_array()
{
    out_ += ']';
    needs_comma_ = true;
    return *this;
}

JsonWriter& JsonWriter::key(std::string_view name)
{
    separate();
    out_ += quoted(name) + ":";
    needs_comma_ = false;
    return *this;
}

JsonWriter& JsonWriter::text(std::string_view value)
{
    return verbatim(quoted(value));
}

JsonWriter& JsonWriter::number(uint64_t value)
{
    return verbatim(std::to_string(value));
}

JsonWriter& JsonWriter::real(double value)
{
    char text[32];
    std::snprintf(text, sizeof text, "%.9g", value);
    return verbatim(text);
}

JsonWriter& JsonWriter::boolean(bool value)
{
    return verbatim(value ? "true" : "false");
}

JsonWriter& JsonWriter::null()
{
    return verbatim("null");
}

JsonWriter& JsonWriter::verbatim(std::string_view value)
{
    separate();
    out_ += value;
    return *this;
}

JsonDocument::JsonDocument(std::string_view text, int code, const std::string& what)
    : parser_(std::make_unique<simdjson::dom::parser>(kDocumentBytesMax))
{
    const size_t capacity = text.size() < 64 ? 64 : text.size();
    if (text.size() > kDocumentBytesMax ||
        parser_->allocate(capacity, kDepthMax) != simdjson::SUCCESS) {
        throw Failure(code, what + " is too large");
    }
    const auto error = parser_->parse(text.data(), text.size(), true).get(root_);
    if (error != simdjson::SUCCESS) {
        throw Failure(code, what + " is not JSON: " + simdjson::error_message(error));
    }
}

std::string json_text(simdjson::dom::element object, const char* name, std::string fallback)
{
    std::string_view value;
    if (object[name].get(value) != simdjson::SUCCESS) {
        return fallback;
    }
    return std::string(value);
}

uint64_t json_number(simdjson::dom::element object, const char* name, uint64_t fallback)
{
    uint64_t value = 0;
    if (object[name].get(value) == simdjson::SUCCESS) {
        return value;
    }
    // 64-bit values travel as decimal strings.
    std::string_view text;
    if (object[name].get(text) == simdjson::SUCCESS &&
        aotx_decimal_parse(text.data(), text.size(), &value) == AOTX_OK) {
        return value;
    }
    return fallback;
}

bool json_flag(simdjson::dom::element object, const char* name, bool fallback)
{
    bool value = false;
    return object[name].get(value) == simdjson::SUCCESS ? value : fallback;
}

std::string json_for_people(simdjson::dom::element value)
{
    std::string out;
    people(value, "", &out);
    return out;
}

}  // namespace aotx::cli
