// Purpose:  run a compiled chat format over messages. Recursion is bounded by the compiler, steps
//           and memory by constants and the scratch, so that no conversation can run away.
// Owns:     nothing.
// Thread:   any, one scratch each.
// Lifetime: one rendering.
#include <ctime>

#include "aotx/packet.h"
#include "aotx/status.h"
#include "chat/chat_value.h"

namespace aotx {

namespace {

constexpr uint32_t kBindingsMax = 512;
constexpr uint32_t kLoopsMax = 16;
constexpr uint32_t kMacroDepthMax = 8;
constexpr uint64_t kStepsMax = UINT64_C(1) << 24;

// What a body ended with.
enum class Flow { kNext, kBreak, kContinue, kFailed };

struct Binding {
    uint32_t name;
    uint32_t scope;
    ChatValue value;
};

class Evaluator {
public:
    Evaluator(const ChatProgram& program, ChatScratchMemory* scratch,
              const aotx_text_message* messages, uint32_t count, TextReason* reason) noexcept
        : p_(program), s_(scratch), c_{program,  {scratch->arena, scratch->arena_bytes, 0, 0},
                                       messages, nullptr,
                                       count,    reason,
                                       AOTX_OK,  0}
    {
    }

    int run(ChatText* text) noexcept
    {
        if (!join_parts() || !bind_globals()) {
            return c_.result;
        }
        c_.arena.keep();
        if (run_body(p_.body) == Flow::kFailed) {
            return c_.result;
        }
        *text = {s_->text, s_->marks, out_bytes_};
        return AOTX_OK;
    }

private:
    bool join_parts() noexcept;
    bool join_message(const aotx_text_message& message, ChatValue* content) noexcept;
    bool bind_globals() noexcept;
    bool bind(uint32_t name, const ChatValue& value) noexcept;
    const ChatValue* look_up(uint32_t name) const noexcept;
    bool step(const ChatNode& node) noexcept
    {
        c_.line = node.line;
        steps_++;
        return steps_ <= kStepsMax ||
               c_.fail(AOTX_ERR_FULL, "chat template", "takes too many steps, line");
    }
    bool put(const ChatValue& text) noexcept;
    bool capture(uint32_t begin, ChatValue* value) noexcept;

    Flow run_body(uint32_t first) noexcept;
    Flow run_statement(const ChatNode& node, uint32_t number) noexcept;
    Flow run_if(const ChatNode* node) noexcept;
    Flow run_for(const ChatNode& node) noexcept;
    Flow run_items(const ChatNode& node, const ChatValue& list) noexcept;
    bool bind_item(const ChatNode& node, const ChatValue& item) noexcept;
    bool filter_items(const ChatNode& node, ChatValue* list) noexcept;
    bool run_output(const ChatNode& node) noexcept;
    bool set_member(const ChatNode& node) noexcept;
    bool set_block(const ChatNode& node) noexcept;

    bool evaluate(uint32_t number, ChatValue* value) noexcept;
    bool evaluate_simple(const ChatNode& node, ChatValue* value) noexcept;
    bool evaluate_operator(const ChatNode& node, ChatValue* value) noexcept;
    bool evaluate_operands(uint32_t first, ChatValue* values, uint32_t* count) noexcept;
    bool evaluate_add(const ChatNode& node, ChatValue* value) noexcept;
    bool evaluate_join(const ChatNode& node, ChatValue* value) noexcept;
    bool add_values(const ChatValue& left, const ChatValue& right, ChatValue* value) noexcept;
    bool add_lists(const ChatValue& left, const ChatValue& right, ChatValue* value) noexcept;
    bool evaluate_arithmetic(const ChatNode& node, ChatValue* value) noexcept;
    bool evaluate_compare(const ChatNode& node, ChatValue* value) noexcept;
    bool evaluate_list(const ChatNode& node, ChatValue* value) noexcept;
    bool evaluate_arguments(uint32_t first, ChatArguments* arguments) noexcept;
    bool evaluate_call(const ChatNode& node, ChatValue* value) noexcept;
    bool evaluate_space(const ChatArguments& arguments, ChatValue* value) noexcept;
    bool evaluate_dict_call(const ChatArguments& arguments, ChatValue* value) noexcept;
    bool evaluate_range(const ChatArguments& arguments, ChatValue* value) noexcept;
    bool evaluate_invoke(const ChatNode& node, ChatValue* value) noexcept;
    bool bind_parameters(const ChatNode& macro, const ChatArguments& arguments) noexcept;
    bool evaluate_slice(const ChatNode& node, ChatValue* value) noexcept;

    const ChatProgram& p_;
    ChatScratchMemory* const s_;
    ChatContext c_;
    uint64_t steps_ = 0;
    uint32_t out_bytes_ = 0;
    Binding bindings_[kBindingsMax];
    uint32_t bindings_count_ = 0;
    uint32_t scope_ = 0;       // 0: the template itself
    uint32_t macro_base_ = 0;  // bindings below it are hidden from a macro, but for scope 0
    uint32_t macro_depth_ = 0;
    ChatLoop loops_[kLoopsMax];
    uint32_t loops_count_ = 0;
};

bool Evaluator::join_message(const aotx_text_message& message, ChatValue* content) noexcept
{
    if (message.role > AOTX_MESSAGE_ROLE_ASSISTANT || message.parts_count == 0 ||
        message.parts == nullptr) {
        return c_.fail(AOTX_ERR_RANGE, "message", "has a bad role or no part, line");
    }
    ChatValue* const parts = static_cast<ChatValue*>(
        c_.arena.take(2 * uint64_t{message.parts_count} * sizeof(ChatValue)));
    if (parts == nullptr) {
        return c_.full();
    }
    uint32_t count = 0;
    for (uint32_t i = 0; i < message.parts_count; i++) {
        const aotx_text_part& part = message.parts[i];
        if (part.kind > AOTX_PART_KIND_AUDIO || (part.data == nullptr && part.bytes != 0)) {
            return c_.fail(AOTX_ERR_RANGE, "message", "has a bad part, line");
        }
        if (part.kind != AOTX_PART_KIND_TEXT) {
            return c_.fail(AOTX_ERR_STATE, "message", "has a part that is not text, line");
        }
        if (i > 0) {
            parts[count++] = chat_string("\n", kTextMarkUser);
        }
        parts[count++] =
            chat_string({reinterpret_cast<const char*>(part.data), part.bytes}, kTextMarkUser);
    }
    *content = parts[0];
    return count == 1 || chat_concat(&c_, parts, count, content);
}

bool Evaluator::join_parts() noexcept
{
    ChatValue* const contents =
        static_cast<ChatValue*>(c_.arena.take(uint64_t{c_.messages_count} * sizeof(ChatValue)));
    if (contents == nullptr) {
        return c_.full();
    }
    for (uint32_t i = 0; i < c_.messages_count; i++) {
        if (!join_message(c_.messages[i], &contents[i])) {
            return false;
        }
    }
    c_.contents = contents;
    return true;
}

bool Evaluator::bind(uint32_t name, const ChatValue& value) noexcept
{
    for (uint32_t i = bindings_count_; i > 0 && bindings_[i - 1].scope == scope_; i--) {
        if (bindings_[i - 1].name == name) {
            bindings_[i - 1].value = value;
            return true;
        }
    }
    if (bindings_count_ == kBindingsMax) {
        return c_.fail(AOTX_ERR_FULL, "chat template", "sets too many names, line");
    }
    bindings_[bindings_count_++] = {name, scope_, value};
    return true;
}

const ChatValue* Evaluator::look_up(uint32_t name) const noexcept
{
    for (uint32_t i = bindings_count_; i > 0; i--) {
        const Binding& binding = bindings_[i - 1];
        if (binding.name == name && (i - 1 >= macro_base_ || binding.scope == 0)) {
            return &binding.value;
        }
    }
    return nullptr;
}

bool Evaluator::bind_globals() noexcept
{
    ChatValue* const items =
        static_cast<ChatValue*>(c_.arena.take(uint64_t{c_.messages_count} * sizeof(ChatValue)));
    if (items == nullptr) {
        return c_.full();
    }
    for (uint32_t i = 0; i < c_.messages_count; i++) {
        items[i] = chat_integer(i);
        items[i].kind = ChatKind::kMessage;
    }
    ChatValue date;  // only so that it is defined; calls never look it up
    date.kind = ChatKind::kFunction;
    return bind(kNameMessages, chat_items(ChatKind::kList, items, c_.messages_count)) &&
           bind(kNameBosToken, chat_string(p_.bos_text, kTextMarkFormat)) &&
           bind(kNameEosToken, chat_string(p_.eos_text, kTextMarkFormat)) &&
           bind(kNameAddGenerationPrompt, chat_bool(true)) && bind(kNameTools, chat_null()) &&
           bind(kNameDocuments, chat_null()) && bind(kNameDate, date);
}

// Append to the result.
bool Evaluator::put(const ChatValue& text) noexcept
{
    if (text.count > s_->prompt_bytes_max - out_bytes_) {
        return c_.fail(AOTX_ERR_FULL, "chat template", "gives more text than a prompt has, line");
    }
    if (text.count == 0) {
        return true;
    }
    std::memcpy(s_->text + out_bytes_, text.text, text.count);
    if (text.marks != nullptr) {
        std::memcpy(s_->marks + out_bytes_, text.marks, text.count);
    } else {
        std::memset(s_->marks + out_bytes_, text.mark, text.count);
    }
    out_bytes_ += text.count;
    return true;
}

// Take what was put since begin back out of the result, as a value.
bool Evaluator::capture(uint32_t begin, ChatValue* value) noexcept
{
    ChatValue text = chat_string({s_->text + begin, out_bytes_ - begin}, kTextMarkFormat);
    text.marks = s_->marks + begin;
    out_bytes_ = begin;
    return chat_concat(&c_, &text, 1, value);
}

Flow Evaluator::run_body(uint32_t first) noexcept
{
    for (uint32_t number = first; number != kNoNode; number = p_.nodes[number].next) {
        const ChatNode& node = p_.nodes[number];
        if (!step(node)) {
            return Flow::kFailed;
        }
        const Flow flow = run_statement(node, number);
        if (flow != Flow::kNext) {
            return flow;
        }
    }
    return Flow::kNext;
}

Flow Evaluator::run_statement(const ChatNode& node, uint32_t number) noexcept
{
    bool good = true;
    ChatValue value;
    switch (node.op) {
        case ChatOp::kText:
            good = put(chat_string({p_.pool.get() + node.a, node.b}, kTextMarkFormat));
            break;
        case ChatOp::kOutput:
            good = run_output(node);
            break;
        case ChatOp::kIf:
            return run_if(&node);
        case ChatOp::kFor:
            return run_for(node);
        case ChatOp::kSet:
            good = evaluate(node.b, &value) && bind(node.a, value);
            break;
        case ChatOp::kSetMember:
            good = set_member(node);
            break;
        case ChatOp::kSetBlock:
            good = set_block(node);
            break;
        case ChatOp::kMacro:
            value = chat_integer(number);
            value.kind = ChatKind::kMacro;
            good = bind(node.a, value);
            break;
        case ChatOp::kBreak:
            return Flow::kBreak;
        case ChatOp::kContinue:
            return Flow::kContinue;
        default:
            good = c_.fail(AOTX_ERR_STATE, "chat template", "has a broken statement, line");
            break;
    }
    return good ? Flow::kNext : Flow::kFailed;
}

bool Evaluator::run_output(const ChatNode& node) noexcept
{
    const uint32_t mark = c_.arena.used;
    const ChatNode& expression = p_.nodes[node.a];
    ChatValue values[kChatOperandsMax];
    uint32_t count = 0;
    if (expression.op == ChatOp::kAdd || expression.op == ChatOp::kJoin) {
        // Long texts go straight to the result instead of through the arena.
        if (!evaluate_operands(expression.a, values, &count)) {
            return false;
        }
    }
    bool strings = count != 0;
    for (uint32_t i = 0; i < count; i++) {
        strings = strings && values[i].is(ChatKind::kString);
    }
    if (!strings) {
        ChatValue value;
        if (!evaluate(node.a, &value) || !chat_to_text(&c_, value, &values[0])) {
            return false;
        }
        count = 1;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!put(values[i])) {
            return false;
        }
    }
    c_.arena.rewind(mark);
    return true;
}

bool Evaluator::set_member(const ChatNode& node) noexcept
{
    const ChatValue* const object = look_up(node.a);
    if (object == nullptr || !object->is(ChatKind::kNamespace)) {
        return c_.fail(AOTX_ERR_STATE, "set", "of a member needs a namespace, line");
    }
    ChatSpace* const space = object->space;
    ChatValue value;
    if (!evaluate(node.c, &value)) {
        return false;
    }
    c_.arena.keep();  // the value outlives the loop around this statement
    for (uint32_t i = 0; i < space->count; i++) {
        if (space->names[i] == node.b) {
            space->values[i] = value;
            return true;
        }
    }
    if (space->count == kChatSpaceMembersMax) {
        return c_.fail(AOTX_ERR_FULL, "a namespace", "has too many members, line");
    }
    space->names[space->count] = node.b;
    space->values[space->count++] = value;
    return true;
}

bool Evaluator::set_block(const ChatNode& node) noexcept
{
    const uint32_t begin = out_bytes_;
    const uint32_t bindings = bindings_count_;
    scope_++;
    const Flow flow = run_body(node.b);
    scope_--;
    bindings_count_ = bindings;
    ChatValue value;
    if (flow != Flow::kNext) {
        return c_.fail(AOTX_ERR_STATE, "break", "inside a set block, line");
    }
    return capture(begin, &value) && bind(node.a, value);
}

Flow Evaluator::run_if(const ChatNode* node) noexcept
{
    for (;;) {
        const uint32_t mark = c_.arena.used;
        ChatValue condition;
        if (!evaluate(node->a, &condition)) {
            return Flow::kFailed;
        }
        const bool holds = chat_truth(condition);
        c_.arena.rewind(mark);
        if (holds) {
            return run_body(node->b);
        }
        if (node->d == 0) {
            return run_body(node->c);
        }
        node = &p_.nodes[node->c];
    }
}

bool Evaluator::bind_item(const ChatNode& node, const ChatValue& item) noexcept
{
    if (node.b == kNameNone) {
        return bind(node.a, item);
    }
    if (!item.is(ChatKind::kList) || item.count != 2) {
        return c_.fail(AOTX_ERR_STATE, "a loop", "over pairs meets something else, line");
    }
    return bind(node.a, item.items[0]) && bind(node.b, item.items[1]);
}

// Only the items for which the loop's condition holds.
bool Evaluator::filter_items(const ChatNode& node, ChatValue* list) noexcept
{
    const uint32_t condition = p_.nodes[node.e].b;
    if (condition == kNoNode) {
        return true;
    }
    ChatValue* const items =
        static_cast<ChatValue*>(c_.arena.take(uint64_t{list->count} * sizeof(ChatValue)));
    if (items == nullptr) {
        return c_.full();
    }
    uint32_t count = 0;
    const uint32_t bindings = bindings_count_;
    scope_++;
    for (uint32_t i = 0; i < list->count; i++) {
        const uint32_t mark = c_.arena.used;
        ChatValue holds;
        if (!bind_item(node, list->items[i]) || !evaluate(condition, &holds)) {
            return false;
        }
        if (chat_truth(holds)) {
            items[count++] = list->items[i];
        }
        c_.arena.rewind(mark);
        bindings_count_ = bindings;
    }
    scope_--;
    *list = chat_items(ChatKind::kList, items, count);
    return true;
}

Flow Evaluator::run_items(const ChatNode& node, const ChatValue& list) noexcept
{
    ChatLoop* const loop = &loops_[loops_count_++];
    *loop = {list.items, list.count, 0, loops_count_};
    ChatValue loop_value;
    loop_value.kind = ChatKind::kLoop;
    loop_value.loop = loop;
    const uint32_t bindings = bindings_count_;
    Flow flow = Flow::kNext;
    scope_++;
    for (uint32_t i = 0; i < list.count; i++) {
        const uint32_t mark = c_.arena.used;
        loop->index = i;
        if (!bind(kNameLoop, loop_value) || !bind_item(node, list.items[i])) {
            return Flow::kFailed;
        }
        flow = run_body(node.d);
        bindings_count_ = bindings;
        c_.arena.rewind(mark);
        if (flow == Flow::kFailed) {
            return flow;
        }
        if (flow == Flow::kBreak) {
            break;
        }
    }
    scope_--;
    loops_count_--;
    return Flow::kNext;
}

Flow Evaluator::run_for(const ChatNode& node) noexcept
{
    const uint32_t mark = c_.arena.used;
    ChatValue iterable;
    ChatValue list;
    if (!evaluate(node.c, &iterable) || !chat_iterate(&c_, iterable, &list) ||
        !filter_items(node, &list)) {
        return Flow::kFailed;
    }
    if (loops_count_ == kLoopsMax) {
        c_.fail(AOTX_ERR_FULL, "loops", "are nested too deep, line");
        return Flow::kFailed;
    }
    const Flow flow = list.count == 0 ? run_body(p_.nodes[node.e].a) : run_items(node, list);
    // A set in the else part lasts, so its memory does too.
    if (list.count != 0) {
        c_.arena.rewind(mark);
    }
    return flow;
}

bool Evaluator::evaluate(uint32_t number, ChatValue* value) noexcept
{
    const ChatNode& node = p_.nodes[number];
    if (!step(node)) {
        return false;
    }
    if (node.op < ChatOp::kMember) {
        return evaluate_simple(node, value);
    }
    ChatValue object;
    ChatValue other;
    ChatArguments arguments;
    switch (node.op) {
        case ChatOp::kMember:
            return evaluate(node.a, &object) && chat_member(&c_, object, p_.names[node.b], value);
        case ChatOp::kIndex:
            return evaluate(node.a, &object) && evaluate(node.b, &other) &&
                   chat_index(&c_, object, other, value);
        case ChatOp::kSlice:
            return evaluate_slice(node, value);
        case ChatOp::kCall:
            return evaluate_call(node, value);
        case ChatOp::kInvoke:
            return evaluate_invoke(node, value);
        case ChatOp::kMethod:
            return evaluate(node.a, &object) && evaluate_arguments(node.c, &arguments) &&
                   chat_method(&c_, static_cast<ChatMethod>(node.b), object, arguments, value);
        case ChatOp::kFilter:
            return evaluate(node.a, &object) && evaluate_arguments(node.c, &arguments) &&
                   chat_filter(&c_, static_cast<ChatFilter>(node.b), object, arguments, value);
        default:
            return evaluate_operator(node, value);
    }
}

bool Evaluator::evaluate_simple(const ChatNode& node, ChatValue* value) noexcept
{
    switch (node.op) {
        case ChatOp::kString:
            *value = chat_string({p_.pool.get() + node.a, node.b}, kTextMarkFormat);
            return true;
        case ChatOp::kInteger:
            *value =
                chat_integer(static_cast<int64_t>(static_cast<uint64_t>(node.b) << 32 | node.a));
            return true;
        case ChatOp::kTrue:
        case ChatOp::kFalse:
            *value = chat_bool(node.op == ChatOp::kTrue);
            return true;
        case ChatOp::kNull:
            *value = chat_null();
            return true;
        case ChatOp::kName: {
            const ChatValue* const found = look_up(node.a);
            *value = found == nullptr ? ChatValue{} : *found;
            return true;
        }
        default:
            return c_.fail(AOTX_ERR_STATE, "chat template", "has a broken expression, line");
    }
}

bool Evaluator::evaluate_operator(const ChatNode& node, ChatValue* value) noexcept
{
    ChatValue left;
    ChatValue right;
    switch (node.op) {
        case ChatOp::kTest: {
            const bool negated = (node.b & static_cast<uint32_t>(ChatTest::kNot)) != 0;
            const uint32_t test = node.b & ~static_cast<uint32_t>(ChatTest::kNot);
            bool holds = false;
            if (!evaluate(node.a, &left) || (node.c != kNoNode && !evaluate(node.c, &right)) ||
                !chat_test(&c_, static_cast<ChatTest>(test), left, right, &holds)) {
                return false;
            }
            *value = chat_bool(holds != negated);
            return true;
        }
        case ChatOp::kNot:
            if (!evaluate(node.a, &left)) {
                return false;
            }
            *value = chat_bool(!chat_truth(left));
            return true;
        case ChatOp::kAnd:
        case ChatOp::kOr:
            if (!evaluate(node.a, value)) {
                return false;
            }
            return chat_truth(*value) == (node.op == ChatOp::kOr) || evaluate(node.b, value);
        case ChatOp::kChoose:
            if (!evaluate(node.a, &left)) {
                return false;
            }
            *value = {};
            if (chat_truth(left)) {
                return evaluate(node.b, value);
            }
            return node.c == kNoNode || evaluate(node.c, value);
        case ChatOp::kAdd:
            return evaluate_add(node, value);
        case ChatOp::kJoin:
            return evaluate_join(node, value);
        case ChatOp::kCompare:
            return evaluate_compare(node, value);
        case ChatOp::kList:
        case ChatOp::kDict:
            return evaluate_list(node, value);
        default:
            return evaluate_arithmetic(node, value);
    }
}

bool Evaluator::evaluate_operands(uint32_t first, ChatValue* values, uint32_t* count) noexcept
{
    *count = 0;
    for (uint32_t number = first; number != kNoNode; number = p_.nodes[number].next) {
        if (*count == kChatOperandsMax) {
            return c_.fail(AOTX_ERR_FULL, "an expression", "has too many operands, line");
        }
        if (!evaluate(p_.nodes[number].b, &values[(*count)++])) {
            return false;
        }
    }
    return true;
}

bool Evaluator::add_lists(const ChatValue& left, const ChatValue& right, ChatValue* value) noexcept
{
    const uint64_t count = uint64_t{left.count} + right.count;
    ChatValue* const items = static_cast<ChatValue*>(c_.arena.take(count * sizeof(ChatValue)));
    if (items == nullptr) {
        return c_.full();
    }
    for (uint32_t i = 0; i < left.count; i++) {
        items[i] = left.items[i];
    }
    for (uint32_t i = 0; i < right.count; i++) {
        items[left.count + i] = right.items[i];
    }
    *value = chat_items(ChatKind::kList, items, static_cast<uint32_t>(count));
    return true;
}

bool Evaluator::add_values(const ChatValue& left, const ChatValue& right, ChatValue* value) noexcept
{
    if (left.is(ChatKind::kString) && right.is(ChatKind::kString)) {
        const ChatValue parts[2] = {left, right};
        return chat_concat(&c_, parts, 2, value);
    }
    if (left.is(ChatKind::kList) && right.is(ChatKind::kList)) {
        return add_lists(left, right, value);
    }
    int64_t sum = 0;
    if (!left.is(ChatKind::kInteger) || !right.is(ChatKind::kInteger) ||
        __builtin_add_overflow(left.integer, right.integer, &sum)) {
        return c_.fail_type("+");
    }
    *value = chat_integer(sum);
    return true;
}

bool Evaluator::evaluate_add(const ChatNode& node, ChatValue* value) noexcept
{
    ChatValue values[kChatOperandsMax];
    uint32_t count = 0;
    if (!evaluate_operands(node.a, values, &count)) {
        return false;
    }
    bool strings = true;
    for (uint32_t i = 0; i < count; i++) {
        strings = strings && values[i].is(ChatKind::kString);
    }
    if (strings) {
        return chat_concat(&c_, values, count, value);
    }
    *value = values[0];
    for (uint32_t i = 1; i < count; i++) {
        const ChatValue left = *value;
        if (!add_values(left, values[i], value)) {
            return false;
        }
    }
    return true;
}

bool Evaluator::evaluate_join(const ChatNode& node, ChatValue* value) noexcept
{
    ChatValue values[kChatOperandsMax];
    uint32_t count = 0;
    if (!evaluate_operands(node.a, values, &count)) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        const ChatValue operand = values[i];
        if (!chat_to_text(&c_, operand, &values[i])) {
            return false;
        }
    }
    return chat_concat(&c_, values, count, value);
}

bool Evaluator::evaluate_arithmetic(const ChatNode& node, ChatValue* value) noexcept
{
    ChatValue left;
    ChatValue right = chat_integer(0);
    const bool single = node.op == ChatOp::kNegate;
    if (!evaluate(node.a, &left) || (!single && !evaluate(node.b, &right))) {
        return false;
    }
    if (!left.is(ChatKind::kInteger) || !right.is(ChatKind::kInteger)) {
        return c_.fail_type("an operator of numbers");
    }
    const int64_t a = left.integer;
    const int64_t b = right.integer;
    int64_t number = 0;
    bool bad = false;
    switch (node.op) {
        case ChatOp::kNegate:
            bad = __builtin_sub_overflow(0, a, &number);
            break;
        case ChatOp::kSubtract:
            bad = __builtin_sub_overflow(a, b, &number);
            break;
        case ChatOp::kMultiply:
            bad = __builtin_mul_overflow(a, b, &number);
            break;
        default: {
            bad = b == 0 || (a == INT64_MIN && b == -1);
            if (bad) {
                break;
            }
            // Rounded down, so that the rest has the divisor's sign.
            const int64_t rest = a % b;
            const bool adjust = rest != 0 && (rest < 0) != (b < 0);
            number =
                node.op == ChatOp::kModulo ? rest + (adjust ? b : 0) : a / b - (adjust ? 1 : 0);
            break;
        }
    }
    if (bad) {
        return c_.fail(AOTX_ERR_STATE, "an operator", "has no result for these numbers, line");
    }
    *value = chat_integer(number);
    return true;
}

bool Evaluator::evaluate_compare(const ChatNode& node, ChatValue* value) noexcept
{
    const uint32_t mark = c_.arena.used;
    ChatValue left;
    ChatValue right;
    if (!evaluate(node.a, &left) || !evaluate(node.b, &right)) {
        return false;
    }
    const ChatCompare compare = static_cast<ChatCompare>(node.c);
    bool holds = false;
    if (compare == ChatCompare::kIn || compare == ChatCompare::kNotIn) {
        if (!chat_contains(&c_, right, left, &holds)) {
            return false;
        }
        holds = holds == (compare == ChatCompare::kIn);
    } else if (compare == ChatCompare::kEqual || compare == ChatCompare::kUnequal) {
        holds = chat_equal(c_, left, right) == (compare == ChatCompare::kEqual);
    } else {
        const bool numbers = left.is(ChatKind::kInteger) && right.is(ChatKind::kInteger);
        const bool strings = left.is(ChatKind::kString) && right.is(ChatKind::kString);
        if (!numbers && !strings) {
            return c_.fail_type("a comparison");
        }
        const int order = strings ? left.view().compare(right.view())
                                  : (left.integer > right.integer) - (left.integer < right.integer);
        holds = compare == ChatCompare::kLess        ? order < 0
                : compare == ChatCompare::kLessEqual ? order <= 0
                : compare == ChatCompare::kGreater   ? order > 0
                                                     : order >= 0;
    }
    c_.arena.rewind(mark);
    *value = chat_bool(holds);
    return true;
}

bool Evaluator::evaluate_list(const ChatNode& node, ChatValue* value) noexcept
{
    uint32_t count = 0;
    for (uint32_t number = node.a; number != kNoNode; number = p_.nodes[number].next) {
        count++;
    }
    ChatValue* const items =
        static_cast<ChatValue*>(c_.arena.take(uint64_t{count} * sizeof(ChatValue)));
    if (items == nullptr) {
        return c_.full();
    }
    uint32_t at = 0;
    for (uint32_t number = node.a; number != kNoNode; number = p_.nodes[number].next) {
        items[at] = {};
        if (!evaluate(p_.nodes[number].b, &items[at++])) {
            return false;
        }
    }
    const bool dict = node.op == ChatOp::kDict;
    *value = chat_items(dict ? ChatKind::kDict : ChatKind::kList, items, dict ? count / 2 : count);
    return true;
}

bool Evaluator::evaluate_arguments(uint32_t first, ChatArguments* arguments) noexcept
{
    for (uint32_t number = first; number != kNoNode; number = p_.nodes[number].next) {
        const ChatNode& node = p_.nodes[number];
        if (arguments->count == kChatArgumentsMax) {
            return c_.fail(AOTX_ERR_FULL, "a call", "has too many arguments, line");
        }
        arguments->names[arguments->count] = node.a;
        if (!evaluate(node.b, &arguments->values[arguments->count])) {
            return false;
        }
        arguments->count++;
    }
    return true;
}

bool Evaluator::evaluate_space(const ChatArguments& arguments, ChatValue* value) noexcept
{
    ChatSpace* const space = static_cast<ChatSpace*>(c_.arena.take(sizeof(ChatSpace)));
    if (space == nullptr) {
        return c_.full();
    }
    space->count = 0;
    for (uint32_t i = 0; i < arguments.count; i++) {
        if (arguments.names[i] == kNameNone) {
            return c_.fail_type("namespace");
        }
        space->names[space->count] = arguments.names[i];
        space->values[space->count++] = arguments.values[i];
    }
    c_.arena.keep();
    value->kind = ChatKind::kNamespace;
    value->count = 0;
    value->marks = nullptr;
    value->space = space;
    return true;
}

bool Evaluator::evaluate_dict_call(const ChatArguments& arguments, ChatValue* value) noexcept
{
    ChatValue* const items =
        static_cast<ChatValue*>(c_.arena.take(2 * uint64_t{arguments.count} * sizeof(ChatValue)));
    if (items == nullptr) {
        return c_.full();
    }
    for (uint32_t i = 0; i < arguments.count; i++) {
        if (arguments.names[i] == kNameNone) {
            return c_.fail_type("dict");
        }
        items[2 * i] = chat_string(p_.names[arguments.names[i]], kTextMarkFormat);
        items[2 * i + 1] = arguments.values[i];
    }
    *value = chat_items(ChatKind::kDict, items, arguments.count);
    return true;
}

bool Evaluator::evaluate_range(const ChatArguments& arguments, ChatValue* value) noexcept
{
    constexpr int64_t kLimit = 1 << 20;
    bool good = arguments.count >= 1 && arguments.count <= 3;
    for (uint32_t i = 0; i < arguments.count; i++) {
        good = good && arguments.values[i].is(ChatKind::kInteger) &&
               arguments.values[i].integer >= -kLimit && arguments.values[i].integer <= kLimit;
    }
    if (!good) {
        return c_.fail_type("range");
    }
    const int64_t start = arguments.count > 1 ? arguments.values[0].integer : 0;
    const int64_t stop = arguments.values[arguments.count > 1 ? 1 : 0].integer;
    const int64_t step = arguments.count > 2 ? arguments.values[2].integer : 1;
    if (step == 0) {
        return c_.fail_type("range");
    }
    const int64_t span = step > 0 ? stop - start : start - stop;
    const int64_t size = step > 0 ? step : -step;
    const uint64_t count = span <= 0 ? 0 : static_cast<uint64_t>((span + size - 1) / size);
    ChatValue* const items = static_cast<ChatValue*>(c_.arena.take(count * sizeof(ChatValue)));
    if (items == nullptr) {
        return c_.full();
    }
    for (uint64_t i = 0; i < count; i++) {
        items[i] = chat_integer(start + static_cast<int64_t>(i) * step);
    }
    *value = chat_items(ChatKind::kList, items, static_cast<uint32_t>(count));
    return true;
}

bool Evaluator::evaluate_call(const ChatNode& node, ChatValue* value) noexcept
{
    ChatArguments arguments;
    if (!evaluate_arguments(node.b, &arguments)) {
        return false;
    }
    *value = {};
    switch (static_cast<ChatFunction>(node.a)) {
        case ChatFunction::kRaise: {
            const bool told = arguments.count == 1 && arguments.values[0].is(ChatKind::kString);
            if (c_.result == AOTX_OK) {
                c_.result =
                    text_refuse(c_.reason, AOTX_ERR_STATE,
                                told ? arguments.values[0].view() : std::string_view("the format"),
                                "refused by the model's chat format");
            }
            return false;
        }
        case ChatFunction::kNamespace:
            return evaluate_space(arguments, value);
        case ChatFunction::kRange:
            return evaluate_range(arguments, value);
        case ChatFunction::kDict:
            return evaluate_dict_call(arguments, value);
        case ChatFunction::kDate: {
            if (arguments.count != 1 || !arguments.values[0].is(ChatKind::kString)) {
                return c_.fail_type("strftime_now");
            }
            const int64_t now = s_->date_seconds != 0 ? s_->date_seconds : time(nullptr);
            return chat_date(&c_, now, arguments.values[0].view(), value);
        }
    }
    return c_.fail_type("a function");
}

bool Evaluator::bind_parameters(const ChatNode& macro, const ChatArguments& arguments) noexcept
{
    uint32_t place = 0;
    for (uint32_t number = macro.b; number != kNoNode; number = p_.nodes[number].next) {
        const ChatNode& parameter = p_.nodes[number];
        ChatValue value;
        bool given = place < arguments.count && arguments.names[place] == kNameNone;
        if (given) {
            value = arguments.values[place];
        }
        for (uint32_t i = 0; i < arguments.count && !given; i++) {
            if (arguments.names[i] == parameter.a) {
                value = arguments.values[i];
                given = true;
            }
        }
        if (!given && parameter.b != kNoNode && !evaluate(parameter.b, &value)) {
            return false;
        }
        if (!bind(parameter.a, value)) {
            return false;
        }
        place++;
    }
    return true;
}

bool Evaluator::evaluate_invoke(const ChatNode& node, ChatValue* value) noexcept
{
    const ChatValue* const found = look_up(node.a);
    if (found == nullptr || !found->is(ChatKind::kMacro)) {
        return c_.fail(AOTX_ERR_STATE, "a call", "of something that is not defined here, line");
    }
    const ChatNode& macro = p_.nodes[found->integer];
    ChatArguments arguments;
    if (!evaluate_arguments(node.b, &arguments)) {
        return false;
    }
    if (macro_depth_ == kMacroDepthMax) {
        return c_.fail(AOTX_ERR_FULL, "macros", "call each other too deep, line");
    }
    const uint32_t begin = out_bytes_;
    const uint32_t bindings = bindings_count_;
    const uint32_t base = macro_base_;
    macro_base_ = bindings_count_;
    macro_depth_++;
    scope_++;
    const bool good = bind_parameters(macro, arguments) && run_body(macro.c) == Flow::kNext;
    scope_--;
    macro_depth_--;
    macro_base_ = base;
    bindings_count_ = bindings;
    return good && capture(begin, value);
}

bool Evaluator::evaluate_slice(const ChatNode& node, ChatValue* value) noexcept
{
    ChatValue object;
    ChatValue parts[3] = {chat_null(), chat_null(), chat_null()};
    if (!evaluate(node.a, &object)) {
        return false;
    }
    const uint32_t numbers[3] = {node.b, node.c, node.d};
    for (uint32_t i = 0; i < 3; i++) {
        if (numbers[i] != kNoNode && !evaluate(numbers[i], &parts[i])) {
            return false;
        }
    }
    return chat_slice(&c_, object, parts, value);
}

}  // namespace

int chat_evaluate(const ChatProgram& program, ChatScratchMemory* scratch,
                  const aotx_text_message* messages, uint32_t messages_count, ChatText* text,
                  TextReason* reason) noexcept
{
    Evaluator evaluator(program, scratch, messages, messages_count, reason);
    return evaluator.run(text);
}

}  // namespace aotx
