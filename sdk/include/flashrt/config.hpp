// Purpose:  read the config_json of a factory: one flat JSON object of strings, integers, booleans
//           and nulls, where an unknown or doubled key is an error.
// Owns:     a FlatConfig owns its copy of the text.
// Thread:   one at a time.
// Lifetime: strings that it hands out live as long as the FlatConfig.
//
// C++17, header only, no exceptions; memory comes from malloc.
#ifndef FLASHRT_CONFIG_HPP
#define FLASHRT_CONFIG_HPP

#include "detail/declarations.hpp"

extern "C++" {

namespace frt {

// One parsed configuration; it keeps its texts until it goes.
class FlatConfig {
public:
    FlatConfig() = default;
    ~FlatConfig()
    {
        free(rows_.rows);
        free(text_);
    }
    FlatConfig(const FlatConfig&) = delete;
    FlatConfig& operator=(const FlatConfig&) = delete;

    // 0, or -1 with the reason in frt_runtime_refusal: not one flat object, a fraction, a number
    // beyond 64 bits, an array or object as a value, an escape other than \" \\ \/ \b \f \n \r \t,
    // a control character in a string, or a key given twice.
    int parse(const char* json);

    // Each returns 0 and the value, or the fallback when the key is absent or null; -1 when the
    // value is of another kind or outside the range.
    int text(const char* key, const char* fallback, const char** value);
    int integer(const char* key, int64_t fallback, int64_t low, int64_t high, int64_t* value);
    int boolean(const char* key, bool fallback, bool* value);

    // 0 when every key was asked for; -1 names the first that was not. Call it last.
    int finish() const;

private:
    enum class Kind : uint32_t { null, text, integer, boolean };
    struct Row {
        const char* name;
        const char* text;
        int64_t integer;
        Kind kind;
        bool used;
    };

    int fail(const char* what) const
    {
        return frt_detail::refuse("configuration, byte %zu: %s", static_cast<size_t>(at_ - text_),
                                  what);
    }
    void skip_blanks()
    {
        while (*at_ == ' ' || *at_ == '\t' || *at_ == '\n' || *at_ == '\r') {
            at_++;
        }
    }
    bool take_word(const char* word)
    {
        const size_t bytes = strlen(word);
        if (strncmp(at_, word, bytes) != 0) {
            return false;
        }
        at_ += bytes;
        return true;
    }
    int parse_string(const char** out);
    int parse_integer(int64_t* out);
    int parse_value(Row* row);
    int parse_member();
    Row* find(const char* key);

    char* text_ = nullptr;
    char* at_ = nullptr;
    frt_detail::List<Row> rows_;
};

inline int FlatConfig::parse_string(const char** out)
{
    if (*at_ != '"') {
        return fail("a string is expected");
    }
    at_++;
    char* to = at_;  // decoded in place: escapes only shrink
    *out = to;
    while (*at_ != '"') {
        if (static_cast<unsigned char>(*at_) < 0x20) {
            return fail("a string ends with a control character or not at all");
        }
        if (*at_ != '\\') {
            *to++ = *at_++;
            continue;
        }
        // No statics: one in an inline function would keep a library that holds it from unloading.
        const char* const from = "\"\\/bfnrt";
        const char* const into = "\"\\/\b\f\n\r\t";
        const char* found = at_[1] == '\0' ? nullptr : strchr(from, at_[1]);
        if (found == nullptr) {
            return fail("an escape that this format does not take");
        }
        *to++ = into[found - from];
        at_ += 2;
    }
    at_++;
    *to = '\0';
    return 0;
}

inline int FlatConfig::parse_integer(int64_t* out)
{
    const bool negative = *at_ == '-';
    at_ += negative ? 1 : 0;
    if (*at_ < '0' || *at_ > '9') {
        return fail("a value is expected: a string, an integer, true, false or null");
    }
    if (*at_ == '0' && at_[1] >= '0' && at_[1] <= '9') {
        return fail("a number begins with a needless zero");
    }
    uint64_t magnitude = 0;
    const uint64_t limit = static_cast<uint64_t>(INT64_MAX) + (negative ? 1 : 0);
    while (*at_ >= '0' && *at_ <= '9') {
        const uint64_t digit = static_cast<uint64_t>(*at_ - '0');
        if (magnitude > (limit - digit) / 10) {
            return fail("a number does not fit 64 bits");
        }
        magnitude = magnitude * 10 + digit;
        at_++;
    }
    if (*at_ == '.' || *at_ == 'e' || *at_ == 'E') {
        return fail("a number is not whole");
    }
    *out = static_cast<int64_t>(negative ? UINT64_C(0) - magnitude : magnitude);
    return 0;
}

inline int FlatConfig::parse_value(Row* row)
{
    if (*at_ == '"') {
        row->kind = Kind::text;
        return parse_string(&row->text);
    }
    if (take_word("null")) {
        row->kind = Kind::null;
        return 0;
    }
    row->kind = Kind::boolean;
    row->integer = *at_ == 't' ? 1 : 0;
    if (take_word("true") || take_word("false")) {
        return 0;
    }
    row->kind = Kind::integer;
    return parse_integer(&row->integer);
}

inline int FlatConfig::parse_member()
{
    Row row = {};
    if (parse_string(&row.name) != 0) {
        return -1;
    }
    for (size_t index = 0; index < rows_.count; index++) {
        if (strcmp(rows_.rows[index].name, row.name) == 0) {
            return fail("a key is given twice");
        }
    }
    skip_blanks();
    if (*at_ != ':') {
        return fail("a colon is expected");
    }
    at_++;
    skip_blanks();
    if (parse_value(&row) != 0) {
        return -1;
    }
    return rows_.push(row) ? 0 : frt_detail::refuse_memory();
}

inline int FlatConfig::parse(const char* json)
{
    if (json == nullptr || text_ != nullptr) {
        return frt_detail::refuse("the configuration is %s", json == nullptr ? "NULL" : "read");
    }
    const size_t bytes = strlen(json);
    text_ = static_cast<char*>(malloc(bytes + 1));
    if (text_ == nullptr) {
        return frt_detail::refuse_memory();
    }
    memcpy(text_, json, bytes + 1);
    at_ = text_;
    skip_blanks();
    if (*at_ != '{') {
        return fail("an object is expected");
    }
    at_++;
    skip_blanks();
    bool more = *at_ != '}';
    while (more) {
        if (parse_member() != 0) {
            return -1;
        }
        skip_blanks();
        more = *at_ == ',';
        if (!more && *at_ != '}') {
            return fail("a comma or the end of the object is expected");
        }
        at_ += more ? 1 : 0;
        skip_blanks();
    }
    at_++;
    skip_blanks();
    return *at_ == '\0' ? 0 : fail("something follows the object");
}

inline FlatConfig::Row* FlatConfig::find(const char* key)
{
    for (size_t index = 0; index < rows_.count; index++) {
        Row* row = &rows_.rows[index];
        if (strcmp(row->name, key) == 0) {
            row->used = true;
            return row->kind == Kind::null ? nullptr : row;
        }
    }
    return nullptr;
}

inline int FlatConfig::text(const char* key, const char* fallback, const char** value)
{
    const Row* row = find(key);
    *value = fallback;
    if (row == nullptr) {
        return 0;
    }
    if (row->kind != Kind::text) {
        return frt_detail::refuse("configuration: %s is not a string", key);
    }
    *value = row->text;
    return 0;
}

inline int FlatConfig::integer(const char* key, int64_t fallback, int64_t low, int64_t high,
                               int64_t* value)
{
    const Row* row = find(key);
    *value = fallback;
    if (row == nullptr) {
        return 0;
    }
    if (row->kind != Kind::integer || row->integer < low || row->integer > high) {
        return frt_detail::refuse("configuration: %s is not an integer from %lld to %lld", key,
                                  static_cast<long long>(low), static_cast<long long>(high));
    }
    *value = row->integer;
    return 0;
}

inline int FlatConfig::boolean(const char* key, bool fallback, bool* value)
{
    const Row* row = find(key);
    *value = fallback;
    if (row == nullptr) {
        return 0;
    }
    if (row->kind != Kind::boolean) {
        return frt_detail::refuse("configuration: %s is neither true nor false", key);
    }
    *value = row->integer != 0;
    return 0;
}

inline int FlatConfig::finish() const
{
    for (size_t index = 0; index < rows_.count; index++) {
        if (!rows_.rows[index].used) {
            return frt_detail::refuse("configuration: there is no key %.100s",
                                      rows_.rows[index].name);
        }
    }
    return 0;
}

}  // namespace FRT_HIDDEN
}  // extern "C++"

#endif
