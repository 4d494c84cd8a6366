// Purpose:  the compiled form of a chat format: a tree of nodes over one copy of its source. For
//           the files of the chat format alone.
// Owns:     the memory named in each struct.
// Thread:   as chat_template.h.
// Lifetime: as chat_template.h.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "chat/chat_template.h"

namespace aotx {

constexpr uint32_t kNoNode = 0;  // node 0 is never used
constexpr uint32_t kChatSourceBytesMax = 1u << 18;
constexpr uint32_t kChatNamesMax = 1024;
constexpr uint32_t kChatDepthMax = 64;     // of blocks in each other; expressions twice as deep
constexpr uint32_t kChatOperandsMax = 32;  // of one node; more of them nest

enum class ChatOp : uint8_t {
    kNone = 0,
    // Statements; chained by Node::next.
    kText = 1,       // a, b: begin and length in the pool
    kOutput = 2,     // a: expression
    kIf = 3,         // a: condition, b: body, c: body of else, d: 1 when c is an elif
    kFor = 4,        // a: name, b: second name or none, c: iterable, d: body, e: kForMore
    kForMore = 5,    // a: body of else, b: condition of an item
    kSet = 6,        // a: name, b: expression
    kSetMember = 7,  // a: name, b: member name, c: expression
    kSetBlock = 8,   // a: name, b: body
    kMacro = 9,      // a: name, b: parameters, c: body
    kBreak = 10,
    kContinue = 11,
    // Expressions.
    kString = 20,   // a, b: begin and length in the pool
    kInteger = 21,  // a, b: low and high half
    kTrue = 22,
    kFalse = 23,
    kNull = 24,
    kName = 25,      // a: name
    kMember = 26,    // a: object, b: name
    kIndex = 27,     // a: object, b: index
    kSlice = 28,     // a: object, b, c, d: start, stop, step
    kCall = 29,      // a: ChatFunction, b: arguments
    kInvoke = 30,    // a: name of a macro, b: arguments
    kMethod = 31,    // a: object, b: ChatMethod, c: arguments
    kFilter = 32,    // a: object, b: ChatFilter, c: arguments
    kTest = 33,      // a: object, b: ChatTest, c: argument
    kNot = 34,       // a
    kNegate = 35,    // a
    kAnd = 36,       // a, b
    kOr = 37,        // a, b
    kAdd = 38,       // a: chain of operands
    kJoin = 39,      // a: chain of operands, the ~ operator
    kSubtract = 40,  // a, b
    kMultiply = 41,
    kDivide = 42,  // whole-number division
    kModulo = 43,
    kCompare = 44,  // a, b; c: ChatCompare
    kChoose = 45,   // a: condition, b: then, c: else or none
    kList = 46,     // a: chain of items
    kDict = 47,     // a: chain of keys and values in turn
    kArgument = 48  // a: name or 0 when positional, b: expression; also a macro's parameter
};

enum class ChatCompare : uint32_t {
    kEqual = 1,
    kUnequal = 2,
    kLess = 3,
    kLessEqual = 4,
    kGreater = 5,
    kGreaterEqual = 6,
    kIn = 7,
    kNotIn = 8
};

enum class ChatFunction : uint32_t { kRaise = 1, kNamespace = 2, kRange = 3, kDict = 4, kDate = 5 };

enum class ChatMethod : uint32_t {
    kStrip = 1,
    kStripLeft = 2,
    kStripRight = 3,
    kSplit = 4,
    kStartsWith = 5,
    kEndsWith = 6,
    kUpper = 7,
    kLower = 8,
    kTitle = 9,
    kCapitalize = 10,
    kReplace = 11,
    kGet = 12,
    kItems = 13,
    kKeys = 14,
    kValues = 15,
    kFind = 16,
    kSplitRight = 17
};

enum class ChatFilter : uint32_t {
    kTrim = 1,
    kDefault = 2,
    kLength = 3,
    kToJson = 4,
    kString = 5,
    kUpper = 6,
    kLower = 7,
    kCapitalize = 8,
    kTitle = 9,
    kReplace = 10,
    kFirst = 11,
    kLast = 12,
    kJoin = 13,
    kList = 14,
    kInteger = 15,
    kSafe = 16,
    kItems = 17,
    kReverse = 18,
    kSelectBy = 19,
    kRejectBy = 20,
    kSelect = 21,
    kReject = 22,
    kMap = 23,
    kSortPairs = 24,
    kIndent = 25
};

enum class ChatTest : uint32_t {
    kDefined = 1,
    kUndefined = 2,
    kNull = 3,
    kTrue = 4,
    kFalse = 5,
    kBoolean = 6,
    kInteger = 7,
    kNumber = 8,
    kString = 9,
    kMapping = 10,
    kSequence = 11,
    kIterable = 12,
    kOdd = 13,
    kEven = 14,
    kDivisibleBy = 15,
    kEqual = 16,
    kUnequal = 17,
    kIn = 18,
    kNot = 128  // added: the test is negated
};

struct ChatNode {
    ChatOp op;
    uint8_t zero_1[3];
    uint32_t line;
    uint32_t a;
    uint32_t b;
    uint32_t c;
    uint32_t d;
    uint32_t e;
    uint32_t next;
};

// Names that the program itself gives meaning to, in the order in which they are entered.
enum ChatName : uint32_t {
    kNameNone = 0,
    kNameMessages = 1,
    kNameBosToken = 2,
    kNameEosToken = 3,
    kNameAddGenerationPrompt = 4,
    kNameTools = 5,
    kNameDocuments = 6,
    kNameLoop = 7,
    kNameRole = 8,
    kNameContent = 9,
    kNameIndex = 10,
    kNameIndex0 = 11,
    kNameFirst = 12,
    kNameLast = 13,
    kNameLength = 14,
    kNameReverseIndex = 15,
    kNameReverseIndex0 = 16,
    kNamePreviousItem = 17,
    kNameNextItem = 18,
    kNameDate = 19,
    kNameOwnCount = 20
};

struct ChatProgram {
    std::unique_ptr<char[]> source;  // line breaks normalised
    uint32_t source_bytes = 0;
    std::unique_ptr<char[]> pool;  // texts and string literals
    uint32_t pool_bytes = 0;
    std::unique_ptr<ChatNode[]> nodes;
    uint32_t nodes_count = 0;
    uint32_t nodes_max = 0;
    std::unique_ptr<std::string_view[]> names;  // [kChatNamesMax], views into source
    uint32_t names_count = 0;
    uint32_t body = kNoNode;
    std::string_view bos_text;
    std::string_view eos_text;
    uint64_t allocation_bytes = 0;
};

// Compile. program->source is set; everything else is filled. Results as ChatTemplate::open.
[[nodiscard]] int chat_compile(ChatProgram* program, TextReason* reason) noexcept;

// The test or filter of a name, or 0.
uint32_t chat_test_find(std::string_view name) noexcept;
uint32_t chat_filter_find(std::string_view name) noexcept;

// Memory of one rendering. N is prompt_bytes_max.
struct ChatScratchMemory {
    uint32_t prompt_bytes_max = 0;
    int64_t date_seconds = 0;  // what strftime_now tells; 0: the clock
    uint64_t allocation_bytes = 0;
    std::unique_ptr<uint8_t[]> block;
    char* text = nullptr;      // [N]
    uint8_t* marks = nullptr;  // [N]
    uint8_t* arena = nullptr;  // values on the way
    uint32_t arena_bytes = 0;
};

// Evaluate. Results as ChatTemplate::render.
[[nodiscard]] int chat_evaluate(const ChatProgram& program, ChatScratchMemory* scratch,
                                const aotx_text_message* messages, uint32_t messages_count,
                                ChatText* text, TextReason* reason) noexcept;

}  // namespace aotx
