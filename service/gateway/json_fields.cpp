// Purpose:  read JSON objects by a table of known fields; see json_fields.h.
// Owns:     nothing of its own.
// Thread:   one thread a document.
// Lifetime: not applicable.
#include "json_fields.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>

#include "service/base/check.h"

namespace aotx {
namespace {

using simdjson::dom::element;

constexpr size_t kKeyBytesShown = 64;  // of an unknown field, in the error's param

// A text that simdjson let pass holds a surrogate only where an escape named a lone one.
bool has_surrogate(std::string_view text)
{
    size_t at = text.find('\xed');
    while (at != std::string_view::npos) {
        if (at + 1 < text.size() && static_cast<unsigned char>(text[at + 1]) >= 0xa0) {
            return true;
        }
        at = text.find('\xed', at + 1);
    }
    return false;
}

// Depth is bounded by the parser, so this recursion is too.
bool value_check(const element& value, size_t depth, JsonReader* reader)
{
    AOTX_CHECK(depth <= kJsonDepthMax);
    std::string_view text;
    if (value.get_string().get(text) == simdjson::SUCCESS) {
        return !has_surrogate(text) || reader->fail("The body holds a lone surrogate.");
    }
    simdjson::dom::array list;
    if (value.get_array().get(list) == simdjson::SUCCESS) {
        for (const element item : list) {
            if (!value_check(item, depth + 1, reader)) {
                return false;
            }
        }
        return true;
    }
    simdjson::dom::object object;
    if (value.get_object().get(object) != simdjson::SUCCESS) {
        return true;
    }
    size_t keys = 0;
    for (const simdjson::dom::key_value_pair field : object) {
        if (++keys > kJsonKeysMax) {
            return reader->fail("An object of the body has too many keys.");
        }
        if (has_surrogate(field.key)) {
            return reader->fail("The body holds a lone surrogate.");
        }
        if (!value_check(field.value, depth + 1, reader)) {
            return false;
        }
    }
    return true;
}

std::string_view parse_message(simdjson::error_code error)
{
    switch (error) {
        case simdjson::UTF8_ERROR:
            return "The body is not valid UTF-8.";
        case simdjson::DEPTH_ERROR:
            return "The body is nested too deeply.";
        case simdjson::NUMBER_ERROR:
            return "The body holds a number out of range.";
        case simdjson::STRING_ERROR:
        case simdjson::UNESCAPED_CHARS:
        case simdjson::UNCLOSED_STRING:
            return "The body holds a string that is not well-formed.";
        default:
            return "The body is not valid JSON.";
    }
}

// How much of a valid text fits without a cut inside a character: an answer is valid UTF-8 too.
size_t whole_characters(std::string_view text, size_t bytes_max)
{
    size_t end = std::min(text.size(), bytes_max);
    while (end != 0 && end < text.size() &&
           (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) {
        end--;
    }
    return end;
}

}  // namespace

void JsonPath::append(std::string_view text) noexcept
{
    const size_t take = whole_characters(text, sizeof text_ - length_);
    std::memcpy(text_ + length_, text.data(), take);
    length_ += take;
}

size_t JsonPath::enter(std::string_view field) noexcept
{
    const size_t before = length_;
    if (length_ != 0) {
        append(".");
    }
    append(field);
    return before;
}

size_t JsonPath::enter(size_t index) noexcept
{
    const size_t before = length_;
    char text[24];
    const int written = std::snprintf(text, sizeof text, "[%zu]", index);
    append({text, static_cast<size_t>(written)});
    return before;
}

bool JsonReader::fail(std::string_view message, std::string_view field) noexcept
{
    if (!field.empty()) {
        path.enter(field);
    }
    refusal = aotx::refusal(Code::InvalidField, message, path.view());
    return false;
}

bool JsonReader::fail(const Refusal& why) noexcept
{
    refusal = why;
    return false;
}

bool JsonDocument::open(std::string_view text, JsonReader* reader,
                        simdjson::dom::object* root) noexcept
{
    AOTX_CHECK(large_ == nullptr);
    if (text.empty()) {
        return reader->fail("The body is empty.");
    }
    if (text.front() == '\xef') {
        return reader->fail("The body is not valid JSON.");  // a byte order mark is none
    }
    simdjson::dom::parser* parser = &small_;
    if (text.size() > kSmallBytes) {
        large_ = new (std::nothrow) simdjson::dom::parser();
        AOTX_CHECK(large_ != nullptr);
        parser = large_;
    }
    // The parser counts the document itself as one level.
    const size_t capacity = std::max(text.size(), kSmallBytes);
    if (parser->capacity() < capacity &&
        parser->allocate(capacity, kJsonDepthMax + 1) != simdjson::SUCCESS) {
        return reader->fail(refusal(Code::TransportLimit));
    }
    element document;
    const simdjson::error_code error = parser->parse(text.data(), text.size(), false).get(document);
    if (error != simdjson::SUCCESS) {
        return reader->fail(parse_message(error));
    }
    if (document.get_object().get(*root) != simdjson::SUCCESS) {
        return reader->fail("The body must be one JSON object.");
    }
    return value_check(document, 0, reader);
}

void JsonDocument::close() noexcept
{
    delete large_;
    large_ = nullptr;
}

bool json_fields_read(const simdjson::dom::object& object, const std::string_view* names,
                      size_t names_count, JsonReader* reader, JsonFields* fields) noexcept
{
    AOTX_CHECK(names_count <= kJsonFieldsMax);
    uint32_t seen = 0;
    for (const simdjson::dom::key_value_pair field : object) {
        const std::string_view* const name = std::find(names, names + names_count, field.key);
        const size_t index = static_cast<size_t>(name - names);
        if (index == names_count) {
            return reader->fail("Unknown field.",
                                field.key.substr(0, whole_characters(field.key, kKeyBytesShown)));
        }
        if ((seen & (1u << index)) != 0) {
            return reader->fail("Repeated field.", field.key);
        }
        seen |= 1u << index;
        if (!field.value.is_null()) {
            fields->present |= 1u << index;
            fields->values[index] = field.value;
        }
    }
    return true;
}

}  // namespace aotx
