// Purpose:  the values of a chat format while it is evaluated, and the arena that holds them. A
//           string knows for each of its bytes whether the format or a message wrote it.
// Owns:     nothing; the arena belongs to a ChatScratch.
// Thread:   one evaluation.
// Lifetime: one evaluation.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include "chat/chat_program.h"

namespace aotx {

enum class ChatKind : uint8_t {
    kUndefined = 0,
    kNull = 1,
    kBool = 2,
    kInteger = 3,
    kString = 4,
    kList = 5,
    kDict = 6,       // items: keys and values in turn, count: pairs
    kMessage = 7,    // integer: its number
    kNamespace = 8,  // space
    kLoop = 9,       // loop
    kMacro = 10,     // integer: its node
    kFunction = 11
};

struct ChatSpace;
struct ChatLoop;

struct ChatValue {
    ChatKind kind = ChatKind::kUndefined;
    uint8_t mark = kTextMarkFormat;  // of every byte, when marks is null
    uint8_t zero_2[2] = {};
    uint32_t count = 0;  // bytes, items or pairs
    union {
        int64_t integer = 0;
        const char* text;
        const ChatValue* items;
        ChatSpace* space;
        const ChatLoop* loop;
    };
    const uint8_t* marks = nullptr;

    std::string_view view() const noexcept { return {text, count}; }
    bool is(ChatKind wanted) const noexcept { return kind == wanted; }
    uint8_t mark_at(uint32_t index) const noexcept
    {
        return marks == nullptr ? mark : marks[index];
    }
};

inline ChatValue chat_null() noexcept
{
    ChatValue value;
    value.kind = ChatKind::kNull;
    return value;
}
inline ChatValue chat_bool(bool flag) noexcept
{
    ChatValue value;
    value.kind = ChatKind::kBool;
    value.integer = flag ? 1 : 0;
    return value;
}
inline ChatValue chat_integer(int64_t integer) noexcept
{
    ChatValue value;
    value.kind = ChatKind::kInteger;
    value.integer = integer;
    return value;
}
inline ChatValue chat_string(std::string_view text, uint8_t mark) noexcept
{
    ChatValue value;
    value.kind = ChatKind::kString;
    value.mark = mark;
    value.count = static_cast<uint32_t>(text.size());
    value.text = text.data();
    return value;
}
inline ChatValue chat_items(ChatKind kind, const ChatValue* items, uint32_t count) noexcept
{
    ChatValue value;
    value.kind = kind;
    value.count = count;
    value.items = items;
    return value;
}
// A part of a string; marks go with it.
inline ChatValue chat_part(const ChatValue& whole, size_t begin, size_t bytes) noexcept
{
    ChatValue value = whole;
    value.text = whole.text + begin;
    value.count = static_cast<uint32_t>(bytes);
    value.marks = whole.marks == nullptr ? nullptr : whole.marks + begin;
    return value;
}

constexpr uint32_t kChatSpaceMembersMax = 32;
struct ChatSpace {
    uint32_t count;
    uint32_t names[kChatSpaceMembersMax];
    ChatValue values[kChatSpaceMembersMax];
};

struct ChatLoop {
    const ChatValue* items;
    uint32_t count;
    uint32_t index;
    uint32_t depth;
};

// Bump memory with a floor: nothing below it is given back, because something lasting points there.
struct ChatArena {
    uint8_t* base;
    uint32_t bytes;
    uint32_t used;
    uint32_t floor;

    // Null when it is full.
    void* take(uint64_t wanted) noexcept
    {
        const uint64_t begin = (uint64_t{used} + 15) / 16 * 16;
        if (begin + wanted > bytes) {
            return nullptr;
        }
        used = static_cast<uint32_t>(begin + wanted);
        return base + begin;
    }
    void rewind(uint32_t mark) noexcept { used = mark < floor ? floor : mark; }
    void keep() noexcept { floor = used; }
};

// What evaluation and the library of methods and filters share. Every function that returns bool
// returns false after failing, with result and reason set.
struct ChatContext {
    const ChatProgram& program;
    ChatArena arena;
    const aotx_text_message* messages;
    const ChatValue* contents;  // string of each message
    uint32_t messages_count;
    TextReason* reason;
    int result;
    uint32_t line;

    bool fail(int code, const char* what, const char* why) noexcept;
    bool fail_type(const char* what) noexcept;
    bool full() noexcept;
    // A string of `bytes` bytes to be filled, with marks.
    bool new_string(uint64_t bytes, char** text, uint8_t** marks, ChatValue* value) noexcept;
};

// Arguments of a call, positional first; names are 0 for those.
constexpr uint32_t kChatArgumentsMax = 12;
struct ChatArguments {
    ChatValue values[kChatArgumentsMax];
    uint32_t names[kChatArgumentsMax];
    uint32_t count = 0;
};

bool chat_truth(const ChatValue& value) noexcept;
bool chat_equal(const ChatContext& context, const ChatValue& left, const ChatValue& right) noexcept;
// The text that {{ value }} shows; false for kinds that have none.
bool chat_to_text(ChatContext* context, const ChatValue& value, ChatValue* text) noexcept;
bool chat_concat(ChatContext* context, const ChatValue* parts, uint32_t count,
                 ChatValue* value) noexcept;
// object.name and object[index]; undefined when there is no such member.
bool chat_member(ChatContext* context, const ChatValue& object, std::string_view name,
                 ChatValue* value) noexcept;
bool chat_index(ChatContext* context, const ChatValue& object, const ChatValue& index,
                ChatValue* value) noexcept;
bool chat_slice(ChatContext* context, const ChatValue& object, const ChatValue parts[3],
                ChatValue* value) noexcept;
bool chat_contains(ChatContext* context, const ChatValue& container, const ChatValue& item,
                   bool* found) noexcept;
bool chat_method(ChatContext* context, ChatMethod method, const ChatValue& object,
                 const ChatArguments& arguments, ChatValue* value) noexcept;
bool chat_filter(ChatContext* context, ChatFilter filter, const ChatValue& object,
                 const ChatArguments& arguments, ChatValue* value) noexcept;
bool chat_test(ChatContext* context, ChatTest test, const ChatValue& object,
               const ChatValue& argument, bool* holds) noexcept;
bool chat_to_json(ChatContext* context, const ChatValue& value, int32_t indent,
                  ChatValue* text) noexcept;
// The date of `seconds` since 1970, UTC. Fields: %Y %y %m %d %e %B %b %A %a %H %I %M %S %p %j.
bool chat_date(ChatContext* context, int64_t seconds, std::string_view format,
               ChatValue* text) noexcept;
// A list to walk over: list, keys of a dict, characters of a string.
bool chat_iterate(ChatContext* context, const ChatValue& value, ChatValue* list) noexcept;
// Keys and values in turn of a dict or message.
bool chat_pairs(ChatContext* context, const ChatValue& value, ChatValue* dict) noexcept;

}  // namespace aotx
