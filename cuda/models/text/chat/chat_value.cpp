// Purpose:  what values do: truth, equality, text, members, slices, iteration.
// Owns:     nothing.
// Thread:   one evaluation.
// Lifetime: one evaluation.
#include "chat/chat_value.h"

#include <cinttypes>

#include "aotx/packet.h"
#include "aotx/status.h"
#include "tokenizer/unicode.h"

namespace aotx {

namespace {

constexpr uint32_t kEqualDepthMax = 16;

std::string_view role_text(uint32_t role) noexcept
{
    switch (role) {
        case AOTX_MESSAGE_ROLE_SYSTEM:
            return "system";
        case AOTX_MESSAGE_ROLE_ASSISTANT:
            return "assistant";
        default:
            return "user";
    }
}

bool equal_at(const ChatContext& context, const ChatValue& left, const ChatValue& right,
              uint32_t depth) noexcept
{
    const auto numeric = [](const ChatValue& value) {
        return value.is(ChatKind::kInteger) || value.is(ChatKind::kBool);
    };
    if (numeric(left) && numeric(right)) {
        return left.integer == right.integer;
    }
    if (left.kind != right.kind || depth > kEqualDepthMax) {
        return false;
    }
    switch (left.kind) {
        case ChatKind::kUndefined:
        case ChatKind::kNull:
            return true;
        case ChatKind::kString:
            return left.view() == right.view();
        case ChatKind::kMessage: {
            const uint64_t a = static_cast<uint64_t>(left.integer);
            const uint64_t b = static_cast<uint64_t>(right.integer);
            return context.messages[a].role == context.messages[b].role &&
                   context.contents[a].view() == context.contents[b].view();
        }
        case ChatKind::kList:
        case ChatKind::kDict: {
            if (left.count != right.count) {
                return false;
            }
            const uint32_t items = left.is(ChatKind::kDict) ? 2 * left.count : left.count;
            for (uint32_t i = 0; i < items; i++) {
                if (!equal_at(context, left.items[i], right.items[i], depth + 1)) {
                    return false;
                }
            }
            return true;
        }
        default:
            return left.integer == right.integer;
    }
}

// Bytes of the character at `at`.
uint32_t character_bytes(const ChatValue& text, uint32_t at) noexcept
{
    const uint32_t want = utf8_length(text.text[at]);
    return want < text.count - at ? want : text.count - at;
}

uint32_t characters_count(const ChatValue& text) noexcept
{
    uint32_t count = 0;
    for (uint32_t at = 0; at < text.count; count++) {
        at += character_bytes(text, at);
    }
    return count;
}

// Where character number `index` begins; the end when there are not as many.
uint32_t character_begin(const ChatValue& text, uint32_t index) noexcept
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < index && at < text.count; i++) {
        at += character_bytes(text, at);
    }
    return at;
}

bool member_of_loop(ChatContext* context, const ChatLoop& loop, std::string_view name,
                    ChatValue* value) noexcept
{
    const int64_t index = loop.index;
    const int64_t count = loop.count;
    if (name == "index") {
        *value = chat_integer(index + 1);
    } else if (name == "index0") {
        *value = chat_integer(index);
    } else if (name == "first") {
        *value = chat_bool(index == 0);
    } else if (name == "last") {
        *value = chat_bool(index + 1 == count);
    } else if (name == "length") {
        *value = chat_integer(count);
    } else if (name == "revindex") {
        *value = chat_integer(count - index);
    } else if (name == "revindex0") {
        *value = chat_integer(count - index - 1);
    } else if (name == "depth") {
        *value = chat_integer(loop.depth);
    } else if (name == "previtem") {
        *value = index > 0 ? loop.items[index - 1] : ChatValue{};
    } else if (name == "nextitem") {
        *value = index + 1 < count ? loop.items[index + 1] : ChatValue{};
    } else {
        return context->fail(AOTX_ERR_STATE, "loop", "has no such member, line");
    }
    return true;
}

void member_of_message(const ChatContext& context, const ChatValue& object, std::string_view name,
                       ChatValue* value) noexcept
{
    const uint64_t number = static_cast<uint64_t>(object.integer);
    if (name == "role") {
        *value = chat_string(role_text(context.messages[number].role), kTextMarkFormat);
    } else if (name == "content") {
        *value = context.contents[number];
    } else {
        *value = {};
    }
}

void member_of_dict(const ChatValue& object, std::string_view name, ChatValue* value) noexcept
{
    *value = {};
    for (uint32_t i = 0; i < object.count; i++) {
        const ChatValue& key = object.items[2 * i];
        if (key.is(ChatKind::kString) && key.view() == name) {
            *value = object.items[2 * i + 1];
        }
    }
}

void member_of_space(const ChatContext& context, const ChatSpace& space, std::string_view name,
                     ChatValue* value) noexcept
{
    *value = {};
    for (uint32_t i = 0; i < space.count; i++) {
        if (context.program.names[space.names[i]] == name) {
            *value = space.values[i];
        }
    }
}

// Python's rules for the ends of a slice.
struct SliceBounds {
    int64_t start;
    int64_t stop;
    int64_t step;
};

int64_t clamp(int64_t value, int64_t low, int64_t high) noexcept
{
    return value < low ? low : value > high ? high : value;
}

bool slice_bounds(ChatContext* context, const ChatValue parts[3], int64_t count,
                  SliceBounds* bounds) noexcept
{
    for (uint32_t i = 0; i < 3; i++) {
        const bool taken = parts[i].is(ChatKind::kInteger) || parts[i].is(ChatKind::kNull);
        if (!taken) {
            return context->fail_type("a slice");
        }
    }
    const int64_t step = parts[2].is(ChatKind::kInteger) ? parts[2].integer : 1;
    bounds->step = clamp(step, -INT32_MAX, INT32_MAX);
    if (bounds->step == 0) {
        return context->fail(AOTX_ERR_STATE, "a slice", "has step 0, line");
    }
    const bool forward = bounds->step > 0;
    const int64_t low = forward ? 0 : -1;
    const int64_t high = forward ? count : count - 1;
    const auto place = [&](const ChatValue& part, int64_t otherwise) {
        if (!part.is(ChatKind::kInteger)) {
            return otherwise;
        }
        const int64_t wrapped = part.integer < 0 ? part.integer + count : part.integer;
        return clamp(wrapped, low, high);
    };
    bounds->start = place(parts[0], forward ? low : high);
    bounds->stop = place(parts[1], forward ? high : low);
    return true;
}

int64_t slice_count(const SliceBounds& bounds) noexcept
{
    if (bounds.step > 0) {
        return bounds.start < bounds.stop
                   ? (bounds.stop - bounds.start + bounds.step - 1) / bounds.step
                   : 0;
    }
    return bounds.start > bounds.stop
               ? (bounds.start - bounds.stop - bounds.step - 1) / -bounds.step
               : 0;
}

bool slice_string(ChatContext* context, const ChatValue& object, const ChatValue parts[3],
                  ChatValue* value) noexcept
{
    SliceBounds bounds;
    if (!slice_bounds(context, parts, characters_count(object), &bounds)) {
        return false;
    }
    if (bounds.step != 1) {
        return context->fail(AOTX_ERR_STATE, "a slice", "of a string has a step, line");
    }
    if (bounds.start >= bounds.stop) {
        *value = chat_part(object, 0, 0);
        return true;
    }
    const uint32_t begin = character_begin(object, static_cast<uint32_t>(bounds.start));
    const uint32_t end = character_begin(object, static_cast<uint32_t>(bounds.stop));
    *value = chat_part(object, begin, end - begin);
    return true;
}

}  // namespace

bool ChatContext::fail(int code, const char* what, const char* why) noexcept
{
    if (result == AOTX_OK) {
        result = text_refuse_number(reason, code, what, why, line);
    }
    return false;
}

bool ChatContext::fail_type(const char* what) noexcept
{
    return fail(AOTX_ERR_STATE, what, "does not take a value of this kind, line");
}

bool ChatContext::full() noexcept
{
    return fail(AOTX_ERR_FULL, "chat template", "needs more memory than a prompt has, line");
}

bool ChatContext::new_string(uint64_t bytes, char** text, uint8_t** marks,
                             ChatValue* value) noexcept
{
    *text = static_cast<char*>(arena.take(bytes));
    *marks = *text == nullptr ? nullptr : static_cast<uint8_t*>(arena.take(bytes));
    if (*marks == nullptr) {
        return full();
    }
    *value = chat_string({*text, static_cast<size_t>(bytes)}, kTextMarkFormat);
    value->marks = *marks;
    return true;
}

bool chat_truth(const ChatValue& value) noexcept
{
    switch (value.kind) {
        case ChatKind::kUndefined:
        case ChatKind::kNull:
            return false;
        case ChatKind::kBool:
        case ChatKind::kInteger:
            return value.integer != 0;
        case ChatKind::kString:
        case ChatKind::kList:
        case ChatKind::kDict:
            return value.count != 0;
        default:
            return true;
    }
}

bool chat_equal(const ChatContext& context, const ChatValue& left, const ChatValue& right) noexcept
{
    return equal_at(context, left, right, 0);
}

bool chat_to_text(ChatContext* context, const ChatValue& value, ChatValue* text) noexcept
{
    switch (value.kind) {
        case ChatKind::kString:
            *text = value;
            return true;
        case ChatKind::kUndefined:
            *text = chat_string("", kTextMarkFormat);
            return true;
        case ChatKind::kNull:
            *text = chat_string("None", kTextMarkFormat);
            return true;
        case ChatKind::kBool:
            *text = chat_string(value.integer != 0 ? "True" : "False", kTextMarkFormat);
            return true;
        case ChatKind::kInteger: {
            char digits[24];
            const int length = std::snprintf(digits, sizeof digits, "%" PRId64, value.integer);
            char* copy = nullptr;
            uint8_t* marks = nullptr;
            if (!context->new_string(static_cast<uint64_t>(length), &copy, &marks, text)) {
                return false;
            }
            std::memcpy(copy, digits, static_cast<size_t>(length));
            text->marks = nullptr;
            return true;
        }
        default:
            return context->fail(AOTX_ERR_STATE, "a list or mapping", "is shown as text, line");
    }
}

bool chat_concat(ChatContext* context, const ChatValue* parts, uint32_t count,
                 ChatValue* value) noexcept
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        bytes += parts[i].count;
    }
    char* text = nullptr;
    uint8_t* marks = nullptr;
    if (!context->new_string(bytes, &text, &marks, value)) {
        return false;
    }
    uint32_t at = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (parts[i].count == 0) {
            continue;
        }
        std::memcpy(text + at, parts[i].text, parts[i].count);
        if (parts[i].marks != nullptr) {
            std::memcpy(marks + at, parts[i].marks, parts[i].count);
        } else {
            std::memset(marks + at, parts[i].mark, parts[i].count);
        }
        at += parts[i].count;
    }
    return true;
}

bool chat_member(ChatContext* context, const ChatValue& object, std::string_view name,
                 ChatValue* value) noexcept
{
    switch (object.kind) {
        case ChatKind::kMessage:
            member_of_message(*context, object, name, value);
            return true;
        case ChatKind::kDict:
            member_of_dict(object, name, value);
            return true;
        case ChatKind::kNamespace:
            member_of_space(*context, *object.space, name, value);
            return true;
        case ChatKind::kLoop:
            return member_of_loop(context, *object.loop, name, value);
        case ChatKind::kUndefined:
            return context->fail(AOTX_ERR_STATE, "an undefined value",
                                 "is asked for a member, line");
        default:
            *value = {};
            return true;
    }
}

bool chat_index(ChatContext* context, const ChatValue& object, const ChatValue& index,
                ChatValue* value) noexcept
{
    if (index.is(ChatKind::kString)) {
        return chat_member(context, object, index.view(), value);
    }
    const bool ordered = object.is(ChatKind::kList) || object.is(ChatKind::kString);
    if (!index.is(ChatKind::kInteger) || !ordered) {
        return context->fail_type("an index");
    }
    const bool is_string = object.is(ChatKind::kString);
    const int64_t count = is_string ? characters_count(object) : object.count;
    const int64_t place = index.integer < 0 ? index.integer + count : index.integer;
    *value = {};
    if (place < 0 || place >= count) {
        return true;
    }
    if (!is_string) {
        *value = object.items[place];
        return true;
    }
    const uint32_t begin = character_begin(object, static_cast<uint32_t>(place));
    *value = chat_part(object, begin, character_bytes(object, begin));
    return true;
}

bool chat_slice(ChatContext* context, const ChatValue& object, const ChatValue parts[3],
                ChatValue* value) noexcept
{
    if (object.is(ChatKind::kString)) {
        return slice_string(context, object, parts, value);
    }
    if (!object.is(ChatKind::kList)) {
        return context->fail_type("a slice");
    }
    SliceBounds bounds;
    if (!slice_bounds(context, parts, object.count, &bounds)) {
        return false;
    }
    const int64_t count = slice_count(bounds);
    if (bounds.step == 1) {
        *value = chat_items(ChatKind::kList, object.items + (count == 0 ? 0 : bounds.start),
                            static_cast<uint32_t>(count));
        return true;
    }
    ChatValue* const items = static_cast<ChatValue*>(
        context->arena.take(static_cast<uint64_t>(count) * sizeof(ChatValue)));
    if (items == nullptr) {
        return context->full();
    }
    for (int64_t i = 0; i < count; i++) {
        items[i] = object.items[bounds.start + i * bounds.step];
    }
    *value = chat_items(ChatKind::kList, items, static_cast<uint32_t>(count));
    return true;
}

bool chat_contains(ChatContext* context, const ChatValue& container, const ChatValue& item,
                   bool* found) noexcept
{
    *found = false;
    switch (container.kind) {
        case ChatKind::kString:
            if (!item.is(ChatKind::kString)) {
                return context->fail_type("in");
            }
            *found = container.view().find(item.view()) != std::string_view::npos;
            return true;
        case ChatKind::kList:
            for (uint32_t i = 0; i < container.count && !*found; i++) {
                *found = chat_equal(*context, container.items[i], item);
            }
            return true;
        case ChatKind::kDict:
            for (uint32_t i = 0; i < container.count && !*found; i++) {
                *found = chat_equal(*context, container.items[2 * i], item);
            }
            return true;
        case ChatKind::kMessage:
            *found =
                item.is(ChatKind::kString) && (item.view() == "role" || item.view() == "content");
            return true;
        case ChatKind::kUndefined:
            return true;
        default:
            return context->fail_type("in");
    }
}

bool chat_pairs(ChatContext* context, const ChatValue& value, ChatValue* dict) noexcept
{
    if (value.is(ChatKind::kDict)) {
        *dict = value;
        return true;
    }
    if (!value.is(ChatKind::kMessage)) {
        return context->fail_type("items");
    }
    ChatValue* const items = static_cast<ChatValue*>(context->arena.take(4 * sizeof(ChatValue)));
    if (items == nullptr) {
        return context->full();
    }
    items[0] = chat_string("role", kTextMarkFormat);
    items[2] = chat_string("content", kTextMarkFormat);
    member_of_message(*context, value, "role", &items[1]);
    member_of_message(*context, value, "content", &items[3]);
    *dict = chat_items(ChatKind::kDict, items, 2);
    return true;
}

bool chat_iterate(ChatContext* context, const ChatValue& value, ChatValue* list) noexcept
{
    if (value.is(ChatKind::kList)) {
        *list = value;
        return true;
    }
    if (value.is(ChatKind::kUndefined)) {
        *list = chat_items(ChatKind::kList, nullptr, 0);
        return true;
    }
    const bool is_string = value.is(ChatKind::kString);
    ChatValue pairs;
    if (!is_string && !chat_pairs(context, value, &pairs)) {
        return false;
    }
    const uint32_t count = is_string ? characters_count(value) : pairs.count;
    ChatValue* const items =
        static_cast<ChatValue*>(context->arena.take(uint64_t{count} * sizeof(ChatValue)));
    if (items == nullptr) {
        return context->full();
    }
    uint32_t at = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (is_string) {
            const uint32_t bytes = character_bytes(value, at);
            items[i] = chat_part(value, at, bytes);
            at += bytes;
        } else {
            items[i] = pairs.items[2 * i];
        }
    }
    *list = chat_items(ChatKind::kList, items, count);
    return true;
}

}  // namespace aotx
