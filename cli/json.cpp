// Purpose:  the JSON writer, and reading through simdjson.
// Owns:     nothing.
// Thread:   main.
// Lifetime: not applicable.
#include "cli/json.h"

#include <simdjson.h>

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

void people(const JsonValue& value, const std::string& indent, std::string* out);

bool is_scalar(const JsonValue& value)
{
    return !value.is_object() && !value.is_list();
}

std::string scalar(const JsonValue& value)
{
    switch (value.kind) {
        case JsonValue::Kind::Null:
            return "none";
        case JsonValue::Kind::Flag:
            return value.flag ? "true" : "false";
        default:
            return escape_controls(value.text, false);
    }
}

void people_list(const JsonValue& list, const std::string& indent, std::string* out)
{
    for (const JsonValue& entry : list.items) {
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

void people(const JsonValue& value, const std::string& indent, std::string* out)
{
    if (value.is_list()) {
        people_list(value, indent, out);
        return;
    }
    if (!value.is_object()) {
        *out += indent + scalar(value) + "\n";
        return;
    }
    for (const auto& [key, member] : value.members) {
        const std::string name = escape_controls(key, false);
        const bool empty = member.is_list() && member.items.empty();
        if (is_scalar(member) || empty) {
            *out += indent + name + ": " + (empty ? "none" : scalar(member)) + "\n";
            continue;
        }
        *out += indent + name + ":\n";
        people(member, indent + "  ", out);
    }
}

// Numbers keep their text: shortest form for integers, as written by the parser's printer else.
void read_number(simdjson::dom::element element, JsonValue* value)
{
    uint64_t number = 0;
    value->kind = JsonValue::Kind::Real;
    value->text = simdjson::minify(element);
    if (element.get(number) == simdjson::SUCCESS) {
        value->kind = JsonValue::Kind::Number;
        value->number = number;
        value->real = static_cast<double>(number);
    } else if (element.get(value->real) != simdjson::SUCCESS) {
        value->real = 0;
    }
}

// The parser has bounded the depth of what is copied here.
JsonValue copied(simdjson::dom::element element)
{
    JsonValue value;
    std::string_view text;
    simdjson::dom::array list;
    simdjson::dom::object object;
    if (element.is_null()) {
        value.kind = JsonValue::Kind::Null;
    } else if (element.get(value.flag) == simdjson::SUCCESS) {
        value.kind = JsonValue::Kind::Flag;
    } else if (element.get(text) == simdjson::SUCCESS) {
        value.kind = JsonValue::Kind::Text;
        value.text = text;
    } else if (element.get(list) == simdjson::SUCCESS) {
        value.kind = JsonValue::Kind::List;
        for (const simdjson::dom::element entry : list) {
            value.items.push_back(copied(entry));
        }
    } else if (element.get(object) == simdjson::SUCCESS) {
        value.kind = JsonValue::Kind::Object;
        for (const auto field : object) {
            value.members.emplace_back(std::string(field.key), copied(field.value));
        }
    } else {
        read_number(element, &value);
    }
    return value;
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

const JsonValue* JsonValue::find(std::string_view name) const
{
    for (const auto& [key, member] : members) {
        if (key == name) {
            return &member;
        }
    }
    return nullptr;
}

std::string JsonValue::text_of(std::string_view name, std::string fallback) const
{
    const JsonValue* const member = find(name);
    return member != nullptr && member->kind == Kind::Text ? member->text : fallback;
}

uint64_t JsonValue::number_of(std::string_view name, uint64_t fallback) const
{
    const JsonValue* const member = find(name);
    uint64_t value = 0;
    if (member == nullptr) {
        return fallback;
    }
    if (member->kind == Kind::Number) {
        return member->number;
    }
    if (member->kind == Kind::Text &&
        aotx_decimal_parse(member->text.data(), member->text.size(), &value) == AOTX_OK) {
        return value;
    }
    return fallback;
}

bool JsonValue::flag_of(std::string_view name, bool fallback) const
{
    const JsonValue* const member = find(name);
    return member != nullptr && member->kind == Kind::Flag ? member->flag : fallback;
}

JsonDocument::JsonDocument(std::string_view text, int code, const std::string& what)
{
    simdjson::dom::parser parser(kDocumentBytesMax);
    const size_t capacity = text.size() < 64 ? 64 : text.size();
    if (text.size() > kDocumentBytesMax ||
        parser.allocate(capacity, kDepthMax) != simdjson::SUCCESS) {
        throw Failure(code, what + " is too large");
    }
    simdjson::dom::element root;
    const auto error = parser.parse(text.data(), text.size(), true).get(root);
    if (error != simdjson::SUCCESS) {
        throw Failure(code, what + " is not JSON: " + simdjson::error_message(error));
    }
    root_ = copied(root);
    minified_ = simdjson::minify(root);
}

std::string json_for_people(const JsonValue& value)
{
    std::string out;
    people(value, "", &out);
    return out;
}

}  // namespace aotx::cli
