// Purpose:  the methods, filters and tests that chat formats may use, and JSON.
// Owns:     nothing.
// Thread:   one evaluation.
// Lifetime: one evaluation.
#include <cinttypes>

#include "aotx/status.h"
#include "chat/chat_value.h"
#include "tokenizer/unicode.h"

namespace aotx {

namespace {

constexpr uint32_t kJsonDepthMax = 16;

// Blanks as str.strip() of the language that chat formats are written for.
bool is_space(uint32_t character) noexcept
{
    return (unicode_class(character) & kUnicodeSpace) != 0 ||
           (character >= 0x1c && character <= 0x1f);
}

// Whether the character that these bytes are is stripped.
bool stripped(const ChatValue* set, const char* text, uint32_t bytes) noexcept
{
    if (set == nullptr) {
        uint32_t character = 0;
        utf8_decode(text, bytes, &character);
        return is_space(character);
    }
    return set->view().find(std::string_view(text, bytes)) != std::string_view::npos;
}

// Without the characters of set, or blanks, at the sides asked for.
ChatValue strip(const ChatValue& text, const ChatValue* set, bool left, bool right) noexcept
{
    uint32_t begin = 0;
    uint32_t end = text.count;
    while (left && begin < end) {
        const uint32_t want = utf8_length(text.text[begin]);
        const uint32_t bytes = want < end - begin ? want : end - begin;
        if (!stripped(set, text.text + begin, bytes)) {
            break;
        }
        begin += bytes;
    }
    while (right && end > begin) {
        uint32_t at = end - 1;
        while (at > begin && (static_cast<uint8_t>(text.text[at]) & 0xc0) == 0x80) {
            at--;
        }
        if (!stripped(set, text.text + at, end - at)) {
            break;
        }
        end = at;
    }
    return chat_part(text, begin, end - begin);
}

enum class Case { kUpper, kLower, kTitle, kCapitalize };

char to_upper(char byte) noexcept
{
    return byte >= 'a' && byte <= 'z' ? static_cast<char>(byte - 32) : byte;
}
char to_lower(char byte) noexcept
{
    return byte >= 'A' && byte <= 'Z' ? static_cast<char>(byte + 32) : byte;
}

// Letters beyond ASCII stay as they are.
bool change_case(ChatContext* context, const ChatValue& text, Case way, ChatValue* value) noexcept
{
    if (!chat_concat(context, &text, 1, value)) {
        return false;
    }
    char* const out = const_cast<char*>(value->text);
    bool word_start = true;
    for (uint32_t i = 0; i < value->count; i++) {
        const char byte = out[i];
        const bool letter = to_upper(byte) != to_lower(byte);
        const bool upper = way == Case::kUpper || (way == Case::kTitle && word_start) ||
                           (way == Case::kCapitalize && i == 0);
        out[i] = upper ? to_upper(byte) : to_lower(byte);
        word_start = !letter;
    }
    return true;
}

bool replace(ChatContext* context, const ChatValue& text, const ChatArguments& arguments,
             ChatValue* value) noexcept
{
    if (arguments.count < 2 || !arguments.values[0].is(ChatKind::kString) ||
        !arguments.values[1].is(ChatKind::kString) || arguments.values[0].count == 0) {
        return context->fail_type("replace");
    }
    const std::string_view from = arguments.values[0].view();
    const ChatValue& to = arguments.values[1];
    uint64_t limit = UINT64_MAX;
    if (arguments.count > 2 && arguments.values[2].integer >= 0) {
        limit = static_cast<uint64_t>(arguments.values[2].integer);
    }
    uint64_t found = 0;
    for (size_t at = 0; found < limit; found++) {
        at = text.view().find(from, at);
        if (at == std::string_view::npos) {
            break;
        }
        at += from.size();
    }
    const uint64_t bytes = text.count - found * from.size() + found * to.count;
    char* out = nullptr;
    uint8_t* marks = nullptr;
    if (!context->new_string(bytes, &out, &marks, value)) {
        return false;
    }
    uint32_t written = 0;
    for (uint32_t at = 0; at < text.count;) {
        const bool match = found > 0 && text.view().compare(at, from.size(), from) == 0;
        const ChatValue piece = match ? to : chat_part(text, at, 1);
        for (uint32_t i = 0; i < piece.count; i++) {
            out[written] = piece.text[i];
            marks[written++] = piece.mark_at(i);
        }
        at += match ? static_cast<uint32_t>(from.size()) : 1;
        found -= match ? 1 : 0;
    }
    return true;
}

// Where the next separator begins and how long it is; npos when there is none. A null separator
// stands for runs of blanks.
size_t find_separator(const ChatValue& text, const ChatValue* separator, size_t from,
                      size_t* length) noexcept
{
    if (separator != nullptr) {
        *length = separator->count;
        return text.view().find(separator->view(), from);
    }
    size_t at = from;
    while (at < text.count && !is_space(static_cast<uint8_t>(text.text[at]))) {
        at++;
    }
    size_t end = at;
    while (end < text.count && is_space(static_cast<uint8_t>(text.text[end]))) {
        end++;
    }
    *length = end - at;
    return at == text.count ? std::string_view::npos : at;
}

bool split(ChatContext* context, const ChatValue& object, const ChatArguments& arguments,
           ChatValue* value) noexcept
{
    const bool by_blanks = arguments.count == 0 || arguments.values[0].is(ChatKind::kNull);
    const ChatValue* const separator = by_blanks ? nullptr : &arguments.values[0];
    if (!by_blanks && (!separator->is(ChatKind::kString) || separator->count == 0)) {
        return context->fail_type("split");
    }
    uint64_t limit = UINT64_MAX;
    if (arguments.count > 1 && arguments.values[1].integer >= 0) {
        limit = static_cast<uint64_t>(arguments.values[1].integer);
    }
    const ChatValue text = by_blanks ? strip(object, nullptr, true, true) : object;
    size_t length = 0;
    uint64_t count = 1;
    for (size_t at = 0; count <= limit; count++) {
        at = find_separator(text, separator, at, &length);
        if (at == std::string_view::npos) {
            break;
        }
        at += length;
    }
    count = by_blanks && text.count == 0 ? 0 : count;
    ChatValue* const items =
        static_cast<ChatValue*>(context->arena.take(count * sizeof(ChatValue)));
    if (items == nullptr) {
        return context->full();
    }
    size_t begin = 0;
    for (uint64_t i = 0; i < count; i++) {
        size_t end = text.count;
        length = 0;
        if (i + 1 < count) {
            end = find_separator(text, separator, begin, &length);
        }
        items[i] = chat_part(text, begin, end - begin);
        begin = end + length;
    }
    *value = chat_items(ChatKind::kList, items, static_cast<uint32_t>(count));
    return true;
}

// split from the right, of which formats use the form with one separator and one split.
bool split_right(ChatContext* context, const ChatValue& object, const ChatArguments& arguments,
                 ChatValue* value) noexcept
{
    if (arguments.count != 2 || !arguments.values[0].is(ChatKind::kString) ||
        arguments.values[0].count == 0 || arguments.values[1].integer != 1) {
        return context->fail_type("rsplit");
    }
    ChatValue* const items = static_cast<ChatValue*>(context->arena.take(2 * sizeof(ChatValue)));
    if (items == nullptr) {
        return context->full();
    }
    const size_t at = object.view().rfind(arguments.values[0].view());
    if (at == std::string_view::npos) {
        items[0] = object;
        *value = chat_items(ChatKind::kList, items, 1);
        return true;
    }
    const size_t behind = at + arguments.values[0].count;
    items[0] = chat_part(object, 0, at);
    items[1] = chat_part(object, behind, object.count - behind);
    *value = chat_items(ChatKind::kList, items, 2);
    return true;
}

// startswith and endswith with one string.
bool has_edge(ChatContext* context, const ChatValue& object, const ChatArguments& arguments,
              bool at_end, ChatValue* value) noexcept
{
    if (arguments.count != 1 || !arguments.values[0].is(ChatKind::kString)) {
        return context->fail_type(at_end ? "endswith" : "startswith");
    }
    const std::string_view edge = arguments.values[0].view();
    const bool fits = edge.size() <= object.count;
    const size_t at = at_end && fits ? object.count - edge.size() : 0;
    *value = chat_bool(fits && object.view().compare(at, edge.size(), edge) == 0);
    return true;
}

// {key: value} as a list of keys, of values or of [key, value].
bool list_pairs(ChatContext* context, ChatMethod method, const ChatValue& object,
                ChatValue* value) noexcept
{
    ChatValue pairs;
    if (!chat_pairs(context, object, &pairs)) {
        return false;
    }
    ChatValue* const items =
        static_cast<ChatValue*>(context->arena.take(uint64_t{pairs.count} * sizeof(ChatValue)));
    if (items == nullptr) {
        return context->full();
    }
    for (uint32_t i = 0; i < pairs.count; i++) {
        if (method == ChatMethod::kItems) {
            items[i] = chat_items(ChatKind::kList, pairs.items + 2 * i, 2);
        } else {
            items[i] = pairs.items[2 * i + (method == ChatMethod::kValues ? 1 : 0)];
        }
    }
    *value = chat_items(ChatKind::kList, items, pairs.count);
    return true;
}

bool get(ChatContext* context, const ChatValue& object, const ChatArguments& arguments,
         ChatValue* value) noexcept
{
    const bool mapping = object.is(ChatKind::kDict) || object.is(ChatKind::kMessage);
    if (!mapping || arguments.count < 1) {
        return context->fail_type("get");
    }
    bool found = false;
    if (!chat_contains(context, object, arguments.values[0], &found)) {
        return false;
    }
    if (!found) {
        *value = arguments.count > 1 ? arguments.values[1] : chat_null();
        return true;
    }
    return chat_index(context, object, arguments.values[0], value);
}

bool string_method(ChatContext* context, ChatMethod method, const ChatValue& object,
                   const ChatArguments& arguments, ChatValue* value) noexcept
{
    const bool with_set = arguments.count > 0 && arguments.values[0].is(ChatKind::kString);
    const ChatValue* const set = with_set ? &arguments.values[0] : nullptr;
    switch (method) {
        case ChatMethod::kStrip:
            *value = strip(object, set, true, true);
            return true;
        case ChatMethod::kStripLeft:
            *value = strip(object, set, true, false);
            return true;
        case ChatMethod::kStripRight:
            *value = strip(object, set, false, true);
            return true;
        case ChatMethod::kSplit:
            return split(context, object, arguments, value);
        case ChatMethod::kSplitRight:
            return split_right(context, object, arguments, value);
        case ChatMethod::kStartsWith:
            return has_edge(context, object, arguments, false, value);
        case ChatMethod::kEndsWith:
            return has_edge(context, object, arguments, true, value);
        case ChatMethod::kUpper:
            return change_case(context, object, Case::kUpper, value);
        case ChatMethod::kLower:
            return change_case(context, object, Case::kLower, value);
        case ChatMethod::kTitle:
            return change_case(context, object, Case::kTitle, value);
        case ChatMethod::kCapitalize:
            return change_case(context, object, Case::kCapitalize, value);
        case ChatMethod::kReplace:
            return replace(context, object, arguments, value);
        case ChatMethod::kFind: {
            if (set == nullptr) {
                return context->fail_type("find");
            }
            const size_t at = object.view().find(set->view());
            *value = chat_integer(at == std::string_view::npos ? -1 : static_cast<int64_t>(at));
            return true;
        }
        default:
            return context->fail_type("a method of mappings");
    }
}

bool length_of(ChatContext* context, const ChatValue& object, ChatValue* value) noexcept
{
    if (object.is(ChatKind::kDict)) {
        *value = chat_integer(object.count);
        return true;
    }
    ChatValue list;
    const uint32_t mark = context->arena.used;
    if (!chat_iterate(context, object, &list)) {
        return false;
    }
    context->arena.rewind(mark);
    *value = chat_integer(list.count);
    return true;
}

bool join(ChatContext* context, const ChatValue& object, const ChatArguments& arguments,
          ChatValue* value) noexcept
{
    ChatValue list;
    if (!chat_iterate(context, object, &list)) {
        return false;
    }
    const bool separated = arguments.count > 0 && arguments.values[0].is(ChatKind::kString);
    const uint64_t parts_max = 2 * uint64_t{list.count} + 1;
    ChatValue* const parts =
        static_cast<ChatValue*>(context->arena.take(parts_max * sizeof(ChatValue)));
    if (parts == nullptr) {
        return context->full();
    }
    uint32_t count = 0;
    for (uint32_t i = 0; i < list.count; i++) {
        if (separated && i > 0) {
            parts[count++] = arguments.values[0];
        }
        if (!chat_to_text(context, list.items[i], &parts[count++])) {
            return false;
        }
    }
    return chat_concat(context, parts, count, value);
}

bool reverse(ChatContext* context, const ChatValue& object, ChatValue* value) noexcept
{
    ChatValue list;
    if (!chat_iterate(context, object, &list)) {
        return false;
    }
    const ChatValue parts[3] = {chat_null(), chat_null(), chat_integer(-1)};
    return chat_slice(context, list, parts, value);
}

bool to_integer(ChatContext* context, const ChatValue& object, ChatValue* value) noexcept
{
    if (object.is(ChatKind::kInteger) || object.is(ChatKind::kBool)) {
        *value = chat_integer(object.integer);
        return true;
    }
    if (!object.is(ChatKind::kString)) {
        return context->fail_type("int");
    }
    int64_t number = 0;
    for (const char byte : strip(object, nullptr, true, true).view()) {
        if (byte < '0' || byte > '9' || number > INT64_MAX / 16) {
            *value = chat_integer(0);
            return true;
        }
        number = number * 10 + (byte - '0');
    }
    *value = chat_integer(number);
    return true;
}

// A test called by its name, as select, reject and their kin do.
bool test_by_name(ChatContext* context, const ChatArguments& arguments, uint32_t first,
                  const ChatValue& item, bool* holds) noexcept
{
    if (arguments.count <= first) {
        *holds = chat_truth(item);
        return true;
    }
    const ChatValue& name = arguments.values[first];
    const uint32_t test = name.is(ChatKind::kString) ? chat_test_find(name.view()) : 0;
    if (test == 0) {
        return context->fail_type("a test by name");
    }
    const ChatValue argument =
        arguments.count > first + 1 ? arguments.values[first + 1] : ChatValue{};
    return chat_test(context, static_cast<ChatTest>(test), item, argument, holds);
}

// selectattr(name), selectattr(name, test), selectattr(name, test, argument).
bool select_by(ChatContext* context, const ChatValue& object, const ChatArguments& arguments,
               bool keep, ChatValue* value) noexcept
{
    ChatValue list;
    if (!chat_iterate(context, object, &list)) {
        return false;
    }
    if (arguments.count < 1 || !arguments.values[0].is(ChatKind::kString)) {
        return context->fail_type("selectattr");
    }
    ChatValue* const items =
        static_cast<ChatValue*>(context->arena.take(uint64_t{list.count} * sizeof(ChatValue)));
    if (items == nullptr) {
        return context->full();
    }
    uint32_t count = 0;
    for (uint32_t i = 0; i < list.count; i++) {
        ChatValue member;
        if (!chat_member(context, list.items[i], arguments.values[0].view(), &member)) {
            return false;
        }
        bool holds = false;
        if (!test_by_name(context, arguments, 1, member, &holds)) {
            return false;
        }
        if (holds == keep) {
            items[count++] = list.items[i];
        }
    }
    *value = chat_items(ChatKind::kList, items, count);
    return true;
}

// select(test, argument) and reject.
bool select(ChatContext* context, const ChatValue& object, const ChatArguments& arguments,
            bool keep, ChatValue* value) noexcept
{
    ChatValue list;
    if (!chat_iterate(context, object, &list)) {
        return false;
    }
    ChatValue* const items =
        static_cast<ChatValue*>(context->arena.take(uint64_t{list.count} * sizeof(ChatValue)));
    if (items == nullptr) {
        return context->full();
    }
    uint32_t count = 0;
    for (uint32_t i = 0; i < list.count; i++) {
        bool holds = false;
        if (!test_by_name(context, arguments, 0, list.items[i], &holds)) {
            return false;
        }
        if (holds == keep) {
            items[count++] = list.items[i];
        }
    }
    *value = chat_items(ChatKind::kList, items, count);
    return true;
}

// map(attribute=name) and map(filter).
bool map(ChatContext* context, const ChatValue& object, const ChatArguments& arguments,
         ChatValue* value) noexcept
{
    ChatValue list;
    if (!chat_iterate(context, object, &list)) {
        return false;
    }
    if (arguments.count != 1 || !arguments.values[0].is(ChatKind::kString)) {
        return context->fail_type("map");
    }
    const std::string_view name = arguments.values[0].view();
    const uint32_t filter = arguments.names[0] == kNameNone ? chat_filter_find(name) : 0;
    const bool member = arguments.names[0] != kNameNone &&
                        context->program.names[arguments.names[0]] == "attribute";
    if (!member && (filter == 0 || static_cast<ChatFilter>(filter) == ChatFilter::kMap)) {
        return context->fail_type("map");
    }
    ChatValue* const items =
        static_cast<ChatValue*>(context->arena.take(uint64_t{list.count} * sizeof(ChatValue)));
    if (items == nullptr) {
        return context->full();
    }
    for (uint32_t i = 0; i < list.count; i++) {
        const bool good = member ? chat_member(context, list.items[i], name, &items[i])
                                 : chat_filter(context, static_cast<ChatFilter>(filter),
                                               list.items[i], ChatArguments{}, &items[i]);
        if (!good) {
            return false;
        }
    }
    *value = chat_items(ChatKind::kList, items, list.count);
    return true;
}

// Keys without regard to case, as the language's dictsort.
bool key_before(const ChatValue& left, const ChatValue& right) noexcept
{
    const uint32_t shorter = left.count < right.count ? left.count : right.count;
    for (uint32_t i = 0; i < shorter; i++) {
        const uint8_t a = static_cast<uint8_t>(to_lower(left.text[i]));
        const uint8_t b = static_cast<uint8_t>(to_lower(right.text[i]));
        if (a != b) {
            return a < b;
        }
    }
    return left.count < right.count;
}

bool sort_pairs(ChatContext* context, const ChatValue& object, ChatValue* value) noexcept
{
    if (!list_pairs(context, ChatMethod::kItems, object, value)) {
        return false;
    }
    ChatValue* const items = const_cast<ChatValue*>(value->items);
    for (uint32_t i = 0; i < value->count; i++) {
        if (!items[i].items[0].is(ChatKind::kString)) {
            return context->fail_type("dictsort");
        }
        const ChatValue pair = items[i];
        uint32_t at = i;
        while (at > 0 && key_before(pair.items[0], items[at - 1].items[0])) {
            items[at] = items[at - 1];
            at--;
        }
        items[at] = pair;
    }
    return true;
}

// Blanks before every line that holds something; before the first one only when told to.
bool indent(ChatContext* context, const ChatValue& text, const ChatArguments& arguments,
            ChatValue* value) noexcept
{
    int64_t width = 4;
    bool first = false;
    for (uint32_t i = 0; i < arguments.count; i++) {
        const std::string_view name = context->program.names[arguments.names[i]];
        if (name == "first" || (name.empty() && i == 1)) {
            first = chat_truth(arguments.values[i]);
        } else if (name == "width" || (name.empty() && i == 0)) {
            width = arguments.values[i].is(ChatKind::kInteger) ? arguments.values[i].integer : -1;
        } else {
            return context->fail_type("indent");
        }
    }
    if (width < 0 || width > 64) {
        return context->fail_type("indent");
    }
    uint64_t lines = 1;
    for (const char byte : text.view()) {
        lines += byte == '\n' ? 1 : 0;
    }
    char* out = nullptr;
    uint8_t* marks = nullptr;
    const uint64_t bytes_max = text.count + lines * static_cast<uint64_t>(width);
    if (!context->new_string(bytes_max, &out, &marks, value)) {
        return false;
    }
    uint32_t written = 0;
    for (uint32_t i = 0; i < text.count; i++) {
        const bool line_start = i == 0 ? first : text.text[i - 1] == '\n';
        const bool blank_line = text.text[i] == '\n' && i != 0;
        for (int64_t j = 0; j < width && line_start && !blank_line; j++) {
            out[written] = ' ';
            marks[written++] = kTextMarkFormat;
        }
        out[written] = text.text[i];
        marks[written++] = text.mark_at(i);
    }
    value->count = written;
    return true;
}

// Writes JSON at `out`, or only counts while out is null.
class JsonWriter {
public:
    JsonWriter(ChatContext* context, int32_t indent, char* out, uint8_t* marks) noexcept
        : context_(context), indent_(indent), out_(out), marks_(marks)
    {
    }
    uint64_t bytes() const noexcept { return used_; }

    bool write(const ChatValue& value, uint32_t depth) noexcept
    {
        if (depth > kJsonDepthMax) {
            return context_->fail(AOTX_ERR_STATE, "tojson", "nests too deep, line");
        }
        switch (value.kind) {
            case ChatKind::kString:
                write_string(value);
                return true;
            case ChatKind::kNull:
            case ChatKind::kUndefined:
                put("null");
                return true;
            case ChatKind::kBool:
                put(value.integer != 0 ? "true" : "false");
                return true;
            case ChatKind::kInteger: {
                char digits[24];
                std::snprintf(digits, sizeof digits, "%" PRId64, value.integer);
                put(digits);
                return true;
            }
            case ChatKind::kList:
                return write_list(value, depth);
            default:
                return write_dict(value, depth);
        }
    }

private:
    void put_byte(char byte, uint8_t mark) noexcept
    {
        if (out_ != nullptr) {
            out_[used_] = byte;
            marks_[used_] = mark;
        }
        used_++;
    }
    void put(std::string_view text) noexcept
    {
        for (const char byte : text) {
            put_byte(byte, kTextMarkFormat);
        }
    }
    void break_line(uint32_t depth) noexcept
    {
        if (indent_ < 0) {
            return;
        }
        put("\n");
        for (uint32_t i = 0; i < depth * static_cast<uint32_t>(indent_); i++) {
            put(" ");
        }
    }

    void write_string(const ChatValue& text) noexcept
    {
        static constexpr char kFrom[] = "\"\\\n\r\t\b\f";
        static constexpr char kTo[] = "\"\\nrtbf";
        put("\"");
        for (uint32_t i = 0; i < text.count; i++) {
            const char byte = text.text[i];
            const uint8_t mark = text.mark_at(i);
            const char* const found = byte == '\0' ? nullptr : std::strchr(kFrom, byte);
            if (found != nullptr) {
                put_byte('\\', mark);
                put_byte(kTo[found - kFrom], mark);
            } else if (static_cast<uint8_t>(byte) < 0x20) {
                char escape[8];
                std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(byte));
                for (const char* at = escape; *at != '\0'; at++) {
                    put_byte(*at, mark);
                }
            } else {
                put_byte(byte, mark);
            }
        }
        put("\"");
    }

    bool write_list(const ChatValue& list, uint32_t depth) noexcept
    {
        put("[");
        for (uint32_t i = 0; i < list.count; i++) {
            put(i == 0 ? "" : indent_ < 0 ? ", " : ",");
            break_line(depth + 1);
            if (!write(list.items[i], depth + 1)) {
                return false;
            }
        }
        if (list.count != 0) {
            break_line(depth);
        }
        put("]");
        return true;
    }

    bool write_dict(const ChatValue& value, uint32_t depth) noexcept
    {
        ChatValue dict;
        if (!chat_pairs(context_, value, &dict)) {
            return false;
        }
        put("{");
        for (uint32_t i = 0; i < dict.count; i++) {
            put(i == 0 ? "" : indent_ < 0 ? ", " : ",");
            break_line(depth + 1);
            ChatValue key;
            if (!chat_to_text(context_, dict.items[2 * i], &key)) {
                return false;
            }
            write_string(key);
            put(": ");
            if (!write(dict.items[2 * i + 1], depth + 1)) {
                return false;
            }
        }
        if (dict.count != 0) {
            break_line(depth);
        }
        put("}");
        return true;
    }

    ChatContext* const context_;
    const int32_t indent_;
    char* const out_;
    uint8_t* const marks_;
    uint64_t used_ = 0;
};

int32_t json_indent(const ChatContext& context, const ChatArguments& arguments) noexcept
{
    for (uint32_t i = 0; i < arguments.count; i++) {
        const bool named = arguments.names[i] != kNameNone &&
                           context.program.names[arguments.names[i]] == "indent";
        const bool small = arguments.values[i].is(ChatKind::kInteger) &&
                           arguments.values[i].integer >= 0 && arguments.values[i].integer <= 16;
        if (named && small) {
            return static_cast<int32_t>(arguments.values[i].integer);
        }
    }
    return -1;
}

bool default_of(const ChatValue& object, const ChatArguments& arguments, ChatValue* value) noexcept
{
    const bool any_false = arguments.count > 1 && chat_truth(arguments.values[1]);
    const bool replaced = object.is(ChatKind::kUndefined) || (any_false && !chat_truth(object));
    *value = !replaced             ? object
             : arguments.count > 0 ? arguments.values[0]
                                   : chat_string("", kTextMarkFormat);
    return true;
}

bool end_of_list(ChatContext* context, const ChatValue& object, bool last,
                 ChatValue* value) noexcept
{
    ChatValue list;
    if (!chat_iterate(context, object, &list)) {
        return false;
    }
    *value = list.count == 0 ? ChatValue{} : list.items[last ? list.count - 1 : 0];
    return true;
}

bool text_filter(ChatContext* context, ChatFilter filter, const ChatValue& object,
                 const ChatArguments& arguments, ChatValue* value) noexcept
{
    ChatValue text;
    if (!chat_to_text(context, object, &text)) {
        return false;
    }
    switch (filter) {
        case ChatFilter::kTrim: {
            const bool with_set = arguments.count > 0 && arguments.values[0].is(ChatKind::kString);
            *value = strip(text, with_set ? &arguments.values[0] : nullptr, true, true);
            return true;
        }
        case ChatFilter::kUpper:
            return change_case(context, text, Case::kUpper, value);
        case ChatFilter::kLower:
            return change_case(context, text, Case::kLower, value);
        case ChatFilter::kCapitalize:
            return change_case(context, text, Case::kCapitalize, value);
        case ChatFilter::kTitle:
            return change_case(context, text, Case::kTitle, value);
        case ChatFilter::kReplace:
            return replace(context, text, arguments, value);
        case ChatFilter::kIndent:
            return indent(context, text, arguments, value);
        default:
            *value = text;
            return true;
    }
}

}  // namespace

bool chat_to_json(ChatContext* context, const ChatValue& value, int32_t indent,
                  ChatValue* text) noexcept
{
    JsonWriter counter(context, indent, nullptr, nullptr);
    if (!counter.write(value, 0)) {
        return false;
    }
    char* out = nullptr;
    uint8_t* marks = nullptr;
    if (!context->new_string(counter.bytes(), &out, &marks, text)) {
        return false;
    }
    JsonWriter writer(context, indent, out, marks);
    return writer.write(value, 0);
}

bool chat_method(ChatContext* context, ChatMethod method, const ChatValue& object,
                 const ChatArguments& arguments, ChatValue* value) noexcept
{
    if (object.is(ChatKind::kString)) {
        return string_method(context, method, object, arguments, value);
    }
    switch (method) {
        case ChatMethod::kGet:
            return get(context, object, arguments, value);
        case ChatMethod::kItems:
        case ChatMethod::kKeys:
        case ChatMethod::kValues:
            return list_pairs(context, method, object, value);
        default:
            return context->fail_type("a method of strings");
    }
}

bool chat_filter(ChatContext* context, ChatFilter filter, const ChatValue& object,
                 const ChatArguments& arguments, ChatValue* value) noexcept
{
    switch (filter) {
        case ChatFilter::kDefault:
            return default_of(object, arguments, value);
        case ChatFilter::kLength:
            return length_of(context, object, value);
        case ChatFilter::kToJson:
            return chat_to_json(context, object, json_indent(*context, arguments), value);
        case ChatFilter::kFirst:
            return end_of_list(context, object, false, value);
        case ChatFilter::kLast:
            return end_of_list(context, object, true, value);
        case ChatFilter::kJoin:
            return join(context, object, arguments, value);
        case ChatFilter::kList:
            return chat_iterate(context, object, value);
        case ChatFilter::kInteger:
            return to_integer(context, object, value);
        case ChatFilter::kItems:
            return list_pairs(context, ChatMethod::kItems, object, value);
        case ChatFilter::kReverse:
            return reverse(context, object, value);
        case ChatFilter::kSelectBy:
            return select_by(context, object, arguments, true, value);
        case ChatFilter::kRejectBy:
            return select_by(context, object, arguments, false, value);
        case ChatFilter::kSelect:
            return select(context, object, arguments, true, value);
        case ChatFilter::kReject:
            return select(context, object, arguments, false, value);
        case ChatFilter::kMap:
            return map(context, object, arguments, value);
        case ChatFilter::kSortPairs:
            return sort_pairs(context, object, value);
        default:
            return text_filter(context, filter, object, arguments, value);
    }
}

bool chat_test(ChatContext* context, ChatTest test, const ChatValue& object,
               const ChatValue& argument, bool* holds) noexcept
{
    const bool integer = object.is(ChatKind::kInteger);
    const bool mapping = object.is(ChatKind::kDict) || object.is(ChatKind::kMessage);
    const bool sequence = object.is(ChatKind::kList) || object.is(ChatKind::kString) || mapping;
    switch (test) {
        case ChatTest::kDefined:
            *holds = !object.is(ChatKind::kUndefined);
            return true;
        case ChatTest::kUndefined:
            *holds = object.is(ChatKind::kUndefined);
            return true;
        case ChatTest::kNull:
            *holds = object.is(ChatKind::kNull);
            return true;
        case ChatTest::kTrue:
            *holds = object.is(ChatKind::kBool) && object.integer != 0;
            return true;
        case ChatTest::kFalse:
            *holds = object.is(ChatKind::kBool) && object.integer == 0;
            return true;
        case ChatTest::kBoolean:
            *holds = object.is(ChatKind::kBool);
            return true;
        case ChatTest::kInteger:
            *holds = integer;
            return true;
        case ChatTest::kNumber:
            *holds = integer || object.is(ChatKind::kBool);
            return true;
        case ChatTest::kString:
            *holds = object.is(ChatKind::kString);
            return true;
        case ChatTest::kMapping:
            *holds = mapping;
            return true;
        case ChatTest::kSequence:
            *holds = sequence || object.is(ChatKind::kUndefined);
            return true;
        case ChatTest::kIterable:
            *holds = sequence || object.is(ChatKind::kUndefined);
            return true;
        case ChatTest::kEqual:
            *holds = chat_equal(*context, object, argument);
            return true;
        case ChatTest::kUnequal:
            *holds = !chat_equal(*context, object, argument);
            return true;
        case ChatTest::kIn:
            return chat_contains(context, argument, object, holds);
        default:
            break;
    }
    const bool divides = test == ChatTest::kDivisibleBy;
    const int64_t divisor = divides ? argument.integer : 2;
    const bool known = integer && (!divides || argument.is(ChatKind::kInteger));
    if (!known || divisor == 0 || divisor == -1) {
        return context->fail_type("a test of numbers");
    }
    *holds = (object.integer % divisor == 0) == (test != ChatTest::kOdd);
    return true;
}

}  // namespace aotx
