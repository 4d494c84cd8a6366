// Purpose:  compile a chat format: a lexer and a recursive-descent parser of bounded depth. What
//           the evaluator lacks is refused here, with its name and line.
// Owns:     nothing beyond the program it fills.
// Thread:   one.
// Lifetime: one compilation.
#include <cstring>
#include <new>

#include "aotx/status.h"
#include "chat/chat_program.h"

namespace aotx {

namespace {

enum class Lex : uint8_t { kName, kInteger, kString, kSign, kEnd };

struct Token {
    Lex kind = Lex::kEnd;
    std::string_view text;  // of a string literal: what stands between its quotes
    uint32_t line = 0;
};

struct NamedId {
    const char* name;
    uint32_t id;
};

constexpr uint32_t id_of(ChatMethod method) noexcept
{
    return static_cast<uint32_t>(method);
}
constexpr uint32_t id_of(ChatFilter filter) noexcept
{
    return static_cast<uint32_t>(filter);
}
constexpr uint32_t id_of(ChatTest test) noexcept
{
    return static_cast<uint32_t>(test);
}
constexpr uint32_t id_of(ChatFunction function) noexcept
{
    return static_cast<uint32_t>(function);
}
constexpr uint32_t id_of(ChatCompare compare) noexcept
{
    return static_cast<uint32_t>(compare);
}

constexpr NamedId kFunctions[] = {{"raise_exception", id_of(ChatFunction::kRaise)},
                                  {"namespace", id_of(ChatFunction::kNamespace)},
                                  {"range", id_of(ChatFunction::kRange)},
                                  {"dict", id_of(ChatFunction::kDict)},
                                  {"strftime_now", id_of(ChatFunction::kDate)}};

constexpr NamedId kMethods[] = {{"strip", id_of(ChatMethod::kStrip)},
                                {"lstrip", id_of(ChatMethod::kStripLeft)},
                                {"rstrip", id_of(ChatMethod::kStripRight)},
                                {"split", id_of(ChatMethod::kSplit)},
                                {"rsplit", id_of(ChatMethod::kSplitRight)},
                                {"startswith", id_of(ChatMethod::kStartsWith)},
                                {"endswith", id_of(ChatMethod::kEndsWith)},
                                {"upper", id_of(ChatMethod::kUpper)},
                                {"lower", id_of(ChatMethod::kLower)},
                                {"title", id_of(ChatMethod::kTitle)},
                                {"capitalize", id_of(ChatMethod::kCapitalize)},
                                {"replace", id_of(ChatMethod::kReplace)},
                                {"find", id_of(ChatMethod::kFind)},
                                {"get", id_of(ChatMethod::kGet)},
                                {"items", id_of(ChatMethod::kItems)},
                                {"keys", id_of(ChatMethod::kKeys)},
                                {"values", id_of(ChatMethod::kValues)}};

constexpr NamedId kFilters[] = {{"trim", id_of(ChatFilter::kTrim)},
                                {"default", id_of(ChatFilter::kDefault)},
                                {"d", id_of(ChatFilter::kDefault)},
                                {"length", id_of(ChatFilter::kLength)},
                                {"count", id_of(ChatFilter::kLength)},
                                {"tojson", id_of(ChatFilter::kToJson)},
                                {"string", id_of(ChatFilter::kString)},
                                {"upper", id_of(ChatFilter::kUpper)},
                                {"lower", id_of(ChatFilter::kLower)},
                                {"capitalize", id_of(ChatFilter::kCapitalize)},
                                {"title", id_of(ChatFilter::kTitle)},
                                {"replace", id_of(ChatFilter::kReplace)},
                                {"first", id_of(ChatFilter::kFirst)},
                                {"last", id_of(ChatFilter::kLast)},
                                {"join", id_of(ChatFilter::kJoin)},
                                {"list", id_of(ChatFilter::kList)},
                                {"int", id_of(ChatFilter::kInteger)},
                                {"safe", id_of(ChatFilter::kSafe)},
                                {"items", id_of(ChatFilter::kItems)},
                                {"reverse", id_of(ChatFilter::kReverse)},
                                {"selectattr", id_of(ChatFilter::kSelectBy)},
                                {"rejectattr", id_of(ChatFilter::kRejectBy)},
                                {"select", id_of(ChatFilter::kSelect)},
                                {"reject", id_of(ChatFilter::kReject)},
                                {"map", id_of(ChatFilter::kMap)},
                                {"dictsort", id_of(ChatFilter::kSortPairs)},
                                {"indent", id_of(ChatFilter::kIndent)}};

constexpr NamedId kTests[] = {{"defined", id_of(ChatTest::kDefined)},
                              {"undefined", id_of(ChatTest::kUndefined)},
                              {"none", id_of(ChatTest::kNull)},
                              {"true", id_of(ChatTest::kTrue)},
                              {"false", id_of(ChatTest::kFalse)},
                              {"boolean", id_of(ChatTest::kBoolean)},
                              {"integer", id_of(ChatTest::kInteger)},
                              {"number", id_of(ChatTest::kNumber)},
                              {"string", id_of(ChatTest::kString)},
                              {"mapping", id_of(ChatTest::kMapping)},
                              {"sequence", id_of(ChatTest::kSequence)},
                              {"iterable", id_of(ChatTest::kIterable)},
                              {"odd", id_of(ChatTest::kOdd)},
                              {"even", id_of(ChatTest::kEven)},
                              {"divisibleby", id_of(ChatTest::kDivisibleBy)},
                              {"equalto", id_of(ChatTest::kEqual)},
                              {"eq", id_of(ChatTest::kEqual)},
                              {"ne", id_of(ChatTest::kUnequal)},
                              {"in", id_of(ChatTest::kIn)}};

template <size_t count>
uint32_t find_id(const NamedId (&rows)[count], std::string_view name) noexcept
{
    for (const NamedId& row : rows) {
        if (name == row.name) {
            return row.id;
        }
    }
    return 0;
}

constexpr const char* kOwnNames[] = {
    "",         "messages",  "bos_token", "eos_token", "add_generation_prompt",
    "tools",    "documents", "loop",      "role",      "content",
    "index",    "index0",    "first",     "last",      "length",
    "revindex", "revindex0", "previtem",  "nextitem",  "strftime_now"};
static_assert(std::size(kOwnNames) == kNameOwnCount);

bool is_name_start(char byte) noexcept
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || byte == '_';
}
bool is_digit(char byte) noexcept
{
    return byte >= '0' && byte <= '9';
}
bool is_blank(char byte) noexcept
{
    return byte == ' ' || (byte >= 9 && byte <= 13);
}

// Parses into program; failed() once anything was refused, after which every call returns kNoNode.
class Parser {
public:
    Parser(ChatProgram* program, TextReason* reason) noexcept
        : p_(program), reason_(reason), source_(program->source.get(), program->source_bytes)
    {
    }

    int run() noexcept
    {
        for (uint32_t i = 1; i < kNameOwnCount; i++) {
            p_->names[i] = kOwnNames[i];
        }
        p_->names_count = kNameOwnCount;
        p_->nodes_count = 1;
        p_->body = parse_body();
        if (!failed() && !stop_.empty()) {
            refuse(stop_, "closes nothing");
        }
        check_invocations();
        return result_;
    }

private:
    bool failed() const noexcept { return result_ != AOTX_OK; }

    uint32_t refuse(std::string_view what, const char* why, int result = AOTX_ERR_SYNTAX) noexcept
    {
        if (!failed()) {
            result_ = text_refuse_number(reason_, result, what, why, token_.line);
        }
        at_ = source_.size();
        token_ = {};
        return kNoNode;
    }
    uint32_t unsupported(std::string_view what, const char* why) noexcept
    {
        return refuse(what, why, AOTX_ERR_RANGE);
    }

    uint32_t add(ChatOp op, uint32_t a = 0, uint32_t b = 0, uint32_t c = 0, uint32_t d = 0,
                 uint32_t e = 0) noexcept
    {
        if (failed()) {
            return kNoNode;
        }
        if (p_->nodes_count == p_->nodes_max) {
            return refuse("chat template", "has too many parts at line", AOTX_ERR_RANGE);
        }
        p_->nodes[p_->nodes_count] = {op, {}, token_.line, a, b, c, d, e, kNoNode};
        return p_->nodes_count++;
    }

    // Chains of nodes in order.
    struct Chain {
        uint32_t head = kNoNode;
        uint32_t tail = kNoNode;
    };
    void append(Chain* chain, uint32_t node) noexcept
    {
        if (node == kNoNode) {
            return;
        }
        if (chain->head == kNoNode) {
            chain->head = node;
        } else {
            p_->nodes[chain->tail].next = node;
        }
        chain->tail = node;
    }

    uint32_t name_id(std::string_view name) noexcept
    {
        for (uint32_t i = 1; i < p_->names_count; i++) {
            if (p_->names[i] == name) {
                return i;
            }
        }
        if (p_->names_count == kChatNamesMax) {
            refuse(name, "is one name too many at line", AOTX_ERR_RANGE);
            return kNameNone;
        }
        p_->names[p_->names_count] = name;
        return p_->names_count++;
    }

    uint32_t pool_copy(std::string_view text, uint32_t* begin) noexcept
    {
        *begin = p_->pool_bytes;
        std::memcpy(p_->pool.get() + p_->pool_bytes, text.data(), text.size());
        p_->pool_bytes += static_cast<uint32_t>(text.size());
        return static_cast<uint32_t>(text.size());
    }

    void count_lines(size_t begin, size_t end) noexcept
    {
        for (size_t i = begin; i < end; i++) {
            line_ += source_[i] == '\n' ? 1 : 0;
        }
    }

    uint32_t parse_body() noexcept;
    size_t find_tag(size_t from) const noexcept;
    uint32_t take_text(size_t end) noexcept;
    void skip_comment() noexcept;
    void open_tag(size_t end) noexcept;
    void close_tag(bool is_block) noexcept;
    bool at_tag_end() noexcept;
    void lex() noexcept;
    void lex_string(char quote) noexcept;
    bool lex_end() noexcept;

    bool is(std::string_view sign) const noexcept
    {
        return token_.kind == Lex::kSign && token_.text == sign;
    }
    bool is_word(std::string_view word) const noexcept
    {
        return token_.kind == Lex::kName && token_.text == word;
    }
    bool accept(std::string_view sign) noexcept
    {
        if (!is(sign)) {
            return false;
        }
        lex();
        return true;
    }
    bool accept_word(std::string_view word) noexcept
    {
        if (!is_word(word)) {
            return false;
        }
        lex();
        return true;
    }
    void expect(std::string_view sign) noexcept
    {
        if (!accept(sign)) {
            refuse(sign, "is missing at line");
        }
    }
    std::string_view expect_name() noexcept
    {
        const std::string_view name = token_.text;
        if (token_.kind != Lex::kName) {
            refuse("a name", "is missing at line");
            return {};
        }
        lex();
        return name;
    }

    uint32_t parse_statement() noexcept;
    uint32_t parse_if() noexcept;
    uint32_t parse_for() noexcept;
    uint32_t parse_set() noexcept;
    uint32_t parse_macro() noexcept;
    void expect_close(std::string_view word) noexcept;

    uint32_t parse_expression() noexcept;
    uint32_t parse_or() noexcept;
    uint32_t parse_and() noexcept;
    uint32_t parse_not() noexcept;
    uint32_t parse_compare() noexcept;
    uint32_t parse_add() noexcept;
    uint32_t parse_join() noexcept;
    uint32_t parse_multiply() noexcept;
    uint32_t parse_unary(bool with_filter) noexcept;
    uint32_t parse_primary() noexcept;
    uint32_t parse_group() noexcept;
    uint32_t parse_constant() noexcept;
    uint32_t parse_string() noexcept;
    uint32_t parse_integer() noexcept;
    uint32_t parse_list(std::string_view end) noexcept;
    uint32_t parse_dict() noexcept;
    uint32_t parse_postfix(uint32_t node) noexcept;
    uint32_t parse_filters(uint32_t node) noexcept;
    uint32_t parse_member(uint32_t node) noexcept;
    uint32_t parse_subscript(uint32_t node) noexcept;
    uint32_t parse_arguments() noexcept;
    uint32_t parse_call(uint32_t node) noexcept;
    uint32_t parse_filter(uint32_t node) noexcept;
    uint32_t parse_test(uint32_t node) noexcept;
    void check_invocations() noexcept;

    ChatProgram* const p_;
    TextReason* const reason_;
    const std::string_view source_;
    size_t at_ = 0;
    uint32_t line_ = 1;
    int result_ = AOTX_OK;
    Token token_;
    uint32_t braces_ = 0;    // open brackets inside a tag
    bool in_block_ = false;  // the tag is {% %}
    bool strip_next_ = false;
    bool keep_break_ = false;  // the tag before ended with +
                               // the tag before ended with -
    bool line_start_ = true;   // the text to come begins a line
    uint32_t depth_ = 0;
    uint32_t loops_ = 0;
    std::string_view stop_;  // the word that ended a body
};

// One level deeper for the life of the guard.
struct DepthGuard {
    uint32_t* depth;
    explicit DepthGuard(uint32_t* counter) noexcept : depth(counter) { (*depth)++; }
    ~DepthGuard() { (*depth)--; }
    DepthGuard(const DepthGuard&) = delete;
    DepthGuard& operator=(const DepthGuard&) = delete;
};

size_t Parser::find_tag(size_t from) const noexcept
{
    for (size_t i = from; i + 1 < source_.size(); i++) {
        if (source_[i] == '{' &&
            (source_[i + 1] == '{' || source_[i + 1] == '%' || source_[i + 1] == '#')) {
            return i;
        }
    }
    return source_.size();
}

// The text from at_ to a tag, with the blanks gone that tags beside it take.
uint32_t Parser::take_text(size_t end) noexcept
{
    size_t begin = at_;
    size_t stop = end;
    if (strip_next_) {
        while (begin < stop && is_blank(source_[begin])) {
            begin++;
        }
    }
    const char sign = end + 2 < source_.size() ? source_[end + 2] : '\0';
    const bool is_block = end + 1 < source_.size() && source_[end + 1] != '{';
    if (end < source_.size() && sign == '-') {
        while (stop > begin && is_blank(source_[stop - 1])) {
            stop--;
        }
    } else if (end < source_.size() && is_block && sign != '+') {
        // A block that stands first in its line takes the blanks before it.
        size_t line = stop;
        while (line > begin && source_[line - 1] != '\n' && is_blank(source_[line - 1])) {
            line--;
        }
        const bool from_break = line > at_ && source_[line - 1] == '\n';
        if (from_break || (line == begin && begin == at_ && line_start_)) {
            stop = line;
        }
    }
    count_lines(at_, end);
    at_ = end;
    strip_next_ = false;
    if (stop == begin) {
        return kNoNode;
    }
    uint32_t pool_begin = 0;
    const uint32_t length = pool_copy(source_.substr(begin, stop - begin), &pool_begin);
    return add(ChatOp::kText, pool_begin, length);
}

// Behind a tag: a dash strips what follows, and a block takes the line break behind it.
void Parser::close_tag(bool is_block) noexcept
{
    line_start_ = false;
    if (is_block && !strip_next_ && !keep_break_ && at_ < source_.size() && source_[at_] == '\n') {
        at_++;
        line_++;
        line_start_ = true;
    }
}

void Parser::skip_comment() noexcept
{
    const size_t end = source_.find("#}", at_ + 2);
    if (end == std::string_view::npos) {
        token_.line = line_;
        refuse("{#", "is not closed at line");
        return;
    }
    count_lines(at_, end);
    strip_next_ = end > at_ + 2 && source_[end - 1] == '-';
    keep_break_ = end > at_ + 2 && source_[end - 1] == '+';
    at_ = end + 2;
    close_tag(true);
}

void Parser::open_tag(size_t end) noexcept
{
    in_block_ = source_[end + 1] == '%';
    at_ = end + 2;
    if (at_ < source_.size() && (source_[at_] == '-' || source_[at_] == '+')) {
        at_++;
    }
    braces_ = 0;
    lex();
}

// A run of text and tags up to a word that this level does not know, left in stop_.
uint32_t Parser::parse_body() noexcept
{
    Chain chain;
    stop_ = {};
    DepthGuard guard(&depth_);
    if (depth_ > kChatDepthMax) {
        return unsupported("blocks", "are nested too deep at line");
    }
    while (!failed() && at_ < source_.size()) {
        const size_t tag = find_tag(at_);
        token_.line = line_;
        append(&chain, take_text(tag));
        if (tag == source_.size()) {
            break;
        }
        if (source_[tag + 1] == '#') {
            skip_comment();
            continue;
        }
        open_tag(tag);
        if (in_block_) {
            const uint32_t node = parse_statement();
            if (!stop_.empty()) {
                return chain.head;
            }
            append(&chain, node);
            continue;
        }
        const uint32_t line = token_.line;
        const uint32_t value = parse_expression();
        const uint32_t node = add(ChatOp::kOutput, value);
        if (node != kNoNode) {
            p_->nodes[node].line = line;
        }
        append(&chain, node);
        if (!at_tag_end()) {
            refuse(token_.text, "is not expected in {{ }} at line");
        }
    }
    return chain.head;
}

// True at the end of the tag, which is then closed.
bool Parser::at_tag_end() noexcept
{
    if (failed() || token_.kind != Lex::kEnd) {
        return false;
    }
    close_tag(in_block_);
    return true;
}

// The signs that end a tag, where no bracket is open.
bool Parser::lex_end() noexcept
{
    const std::string_view rest = source_.substr(at_);
    const std::string_view end = in_block_ ? "%}" : "}}";
    const bool dash =
        rest.size() > 2 && (rest[0] == '-' || rest[0] == '+') && rest.substr(1, 2) == end;
    if (!dash && (braces_ != 0 || rest.substr(0, 2) != end)) {
        return false;
    }
    strip_next_ = dash && rest[0] == '-';
    keep_break_ = dash && rest[0] == '+';
    at_ += dash ? 3 : 2;
    token_.kind = Lex::kEnd;
    token_.text = {};
    return true;
}

void Parser::lex_string(char quote) noexcept
{
    const size_t begin = at_ + 1;
    size_t end = begin;
    while (end < source_.size() && source_[end] != quote) {
        end += source_[end] == '\\' ? 2 : 1;
    }
    if (end >= source_.size()) {
        refuse("a string", "is not closed at line");
        return;
    }
    token_.kind = Lex::kString;
    token_.text = source_.substr(begin, end - begin);
    count_lines(begin, end);
    at_ = end + 1;
}

// The next token of a tag into token_.
void Parser::lex() noexcept
{
    while (at_ < source_.size() && is_blank(source_[at_])) {
        line_ += source_[at_] == '\n' ? 1 : 0;
        at_++;
    }
    token_.line = line_;
    if (at_ >= source_.size()) {
        refuse(in_block_ ? "{%" : "{{", "is not closed at line");
        return;
    }
    if (lex_end()) {
        return;
    }
    const char byte = source_[at_];
    size_t end = at_ + 1;
    if (byte == '\'' || byte == '"') {
        lex_string(byte);
        return;
    }
    if (is_name_start(byte)) {
        while (end < source_.size() && (is_name_start(source_[end]) || is_digit(source_[end]))) {
            end++;
        }
        token_.kind = Lex::kName;
    } else if (is_digit(byte)) {
        while (end < source_.size() && (is_digit(source_[end]) || source_[end] == '_')) {
            end++;
        }
        token_.kind = Lex::kInteger;
    } else {
        static constexpr std::string_view kPairs[] = {"==", "!=", "<=", ">=", "//", "**"};
        for (const std::string_view pair : kPairs) {
            end = source_.substr(at_, 2) == pair ? at_ + 2 : end;
        }
        token_.kind = Lex::kSign;
        const bool opens = byte == '(' || byte == '[' || byte == '{';
        const bool closes = byte == ')' || byte == ']' || byte == '}';
        braces_ += opens ? 1 : 0;
        braces_ -= closes && braces_ > 0 ? 1 : 0;
    }
    token_.text = source_.substr(at_, end - at_);
    at_ = end;
}

// Words that end or part a body, for the statement that holds it.
bool is_stop_word(std::string_view word) noexcept
{
    static constexpr std::string_view kWords[] = {"endif",  "else",   "elif",
                                                  "endfor", "endset", "endmacro"};
    for (const std::string_view stop : kWords) {
        if (word == stop) {
            return true;
        }
    }
    return false;
}

uint32_t Parser::parse_statement() noexcept
{
    if (token_.kind != Lex::kName) {
        return refuse("a statement", "is missing at line");
    }
    const std::string_view word = token_.text;
    if (is_stop_word(word)) {
        stop_ = word;
        lex();
        return kNoNode;
    }
    lex();
    uint32_t node = kNoNode;
    if (word == "if") {
        node = parse_if();
    } else if (word == "for") {
        node = parse_for();
    } else if (word == "set") {
        node = parse_set();
    } else if (word == "macro") {
        node = parse_macro();
    } else if (word == "break" || word == "continue") {
        if (loops_ == 0) {
            return refuse(word, "stands outside a loop at line");
        }
        node = add(word == "break" ? ChatOp::kBreak : ChatOp::kContinue);
    } else if (word != "generation" && word != "endgeneration") {
        // The two only mark what an assistant wrote, for training.
        return unsupported(word, "is a statement that is not supported, line");
    }
    if (!failed() && !at_tag_end()) {
        return refuse(token_.text, "is not expected in {% %} at line");
    }
    return node;
}

// A body was left by stop_: it must be this word, whose tag the statement then ends with.
void Parser::expect_close(std::string_view word) noexcept
{
    if (!failed() && stop_ != word) {
        refuse(word, "is missing before line");
    }
    stop_ = {};
}

uint32_t Parser::parse_if() noexcept
{
    uint32_t first = kNoNode;
    uint32_t previous = kNoNode;
    for (;;) {
        const uint32_t condition = parse_expression();
        const uint32_t node = add(ChatOp::kIf, condition);
        if (!at_tag_end()) {
            return refuse(token_.text, "is not expected in {% if %} at line");
        }
        const uint32_t body = parse_body();
        if (failed()) {
            return kNoNode;
        }
        p_->nodes[node].b = body;
        if (previous == kNoNode) {
            first = node;
        } else {
            p_->nodes[previous].c = node;
            p_->nodes[previous].d = 1;
        }
        previous = node;
        if (stop_ != "elif") {
            break;
        }
        stop_ = {};
    }
    if (stop_ == "else") {
        stop_ = {};
        if (!at_tag_end()) {
            return refuse(token_.text, "is not expected in {% else %} at line");
        }
        const uint32_t otherwise = parse_body();
        if (!failed()) {
            p_->nodes[previous].c = otherwise;
        }
    }
    expect_close("endif");
    return first;
}

uint32_t Parser::parse_for() noexcept
{
    const uint32_t first = name_id(expect_name());
    uint32_t second = kNameNone;
    if (accept(",")) {
        second = name_id(expect_name());
    }
    if (!accept_word("in")) {
        return refuse("in", "is missing in {% for %} at line");
    }
    const uint32_t iterable = parse_or();
    uint32_t condition = kNoNode;
    if (accept_word("if")) {
        condition = parse_expression();
    }
    if (is_word("recursive")) {
        return unsupported("recursive", "loops are not supported, line");
    }
    const uint32_t node = add(ChatOp::kFor, first, second, iterable);
    if (!at_tag_end()) {
        return refuse(token_.text, "is not expected in {% for %} at line");
    }
    loops_++;
    const uint32_t body = parse_body();
    loops_--;
    uint32_t otherwise = kNoNode;
    if (stop_ == "else") {
        stop_ = {};
        if (!at_tag_end()) {
            return refuse(token_.text, "is not expected in {% else %} at line");
        }
        otherwise = parse_body();
    }
    expect_close("endfor");
    const uint32_t more = add(ChatOp::kForMore, otherwise, condition);
    if (!failed()) {
        p_->nodes[node].d = body;
        p_->nodes[node].e = more;
    }
    return node;
}

uint32_t Parser::parse_set() noexcept
{
    const uint32_t name = name_id(expect_name());
    if (accept(".")) {
        const uint32_t member = name_id(expect_name());
        expect("=");
        const uint32_t value = parse_expression();
        return add(ChatOp::kSetMember, name, member, value);
    }
    if (is(",")) {
        return unsupported("set", "of several names is not supported, line");
    }
    if (accept("=")) {
        const uint32_t value = parse_expression();
        return add(ChatOp::kSet, name, value);
    }
    const uint32_t node = add(ChatOp::kSetBlock, name);
    if (!at_tag_end()) {
        return unsupported(token_.text, "in a {% set %} block is not supported, line");
    }
    const uint32_t body = parse_body();
    expect_close("endset");
    if (!failed()) {
        p_->nodes[node].b = body;
    }
    return node;
}

uint32_t Parser::parse_macro() noexcept
{
    const uint32_t name = name_id(expect_name());
    expect("(");
    Chain parameters;
    while (!failed() && !is(")")) {
        const uint32_t parameter = name_id(expect_name());
        uint32_t value = kNoNode;
        if (accept("=")) {
            value = parse_expression();
        }
        append(&parameters, add(ChatOp::kArgument, parameter, value));
        if (!is(")")) {
            expect(",");
        }
    }
    expect(")");
    const uint32_t node = add(ChatOp::kMacro, name, parameters.head);
    if (!at_tag_end()) {
        return refuse(token_.text, "is not expected in {% macro %} at line");
    }
    const uint32_t loops = loops_;
    loops_ = 0;
    const uint32_t body = parse_body();
    loops_ = loops;
    expect_close("endmacro");
    if (!failed()) {
        p_->nodes[node].c = body;
    }
    return node;
}

uint32_t Parser::parse_expression() noexcept
{
    DepthGuard guard(&depth_);
    if (depth_ > 2 * kChatDepthMax) {
        return unsupported("an expression", "is nested too deep at line");
    }
    uint32_t node = parse_or();
    while (accept_word("if")) {
        const uint32_t condition = parse_or();
        uint32_t otherwise = kNoNode;
        if (accept_word("else")) {
            otherwise = parse_expression();
        }
        node = add(ChatOp::kChoose, condition, node, otherwise);
    }
    return node;
}

uint32_t Parser::parse_or() noexcept
{
    uint32_t node = parse_and();
    while (accept_word("or")) {
        const uint32_t right = parse_and();
        node = add(ChatOp::kOr, node, right);
    }
    return node;
}

uint32_t Parser::parse_and() noexcept
{
    uint32_t node = parse_not();
    while (accept_word("and")) {
        const uint32_t right = parse_not();
        node = add(ChatOp::kAnd, node, right);
    }
    return node;
}

uint32_t Parser::parse_not() noexcept
{
    if (!is_word("not")) {
        return parse_compare();
    }
    DepthGuard guard(&depth_);
    if (depth_ > 2 * kChatDepthMax) {
        return unsupported("not", "is nested too deep at line");
    }
    lex();
    const uint32_t value = parse_not();
    return add(ChatOp::kNot, value);
}

uint32_t Parser::parse_compare() noexcept
{
    static constexpr NamedId kSigns[] = {
        {"==", id_of(ChatCompare::kEqual)},  {"!=", id_of(ChatCompare::kUnequal)},
        {"<", id_of(ChatCompare::kLess)},    {"<=", id_of(ChatCompare::kLessEqual)},
        {">", id_of(ChatCompare::kGreater)}, {">=", id_of(ChatCompare::kGreaterEqual)}};
    uint32_t node = parse_add();
    bool compared = false;
    while (!failed()) {
        uint32_t compare = token_.kind == Lex::kSign ? find_id(kSigns, token_.text) : 0;
        if (compare != 0) {
            lex();
        } else if (accept_word("in")) {
            compare = id_of(ChatCompare::kIn);
        } else if (is_word("not")) {
            lex();
            if (!accept_word("in")) {
                return refuse("in", "is missing behind not at line");
            }
            compare = id_of(ChatCompare::kNotIn);
        } else {
            return node;
        }
        if (compared) {
            return unsupported("a chain", "of comparisons is not supported, line");
        }
        compared = true;
        const uint32_t right = parse_add();
        node = add(ChatOp::kCompare, node, right, compare);
    }
    return kNoNode;
}

uint32_t Parser::parse_add() noexcept
{
    uint32_t node = parse_join();
    while (!failed() && (is("+") || is("-"))) {
        if (accept("-")) {
            const uint32_t right = parse_join();
            node = add(ChatOp::kSubtract, node, right);
            continue;
        }
        // Neighbouring additions become one node, so that long texts are not copied at each sign.
        Chain chain;
        append(&chain, add(ChatOp::kArgument, 0, node));
        for (uint32_t count = 1; count < kChatOperandsMax && accept("+"); count++) {
            const uint32_t operand = parse_join();
            append(&chain, add(ChatOp::kArgument, 0, operand));
        }
        node = add(ChatOp::kAdd, chain.head);
    }
    return node;
}

uint32_t Parser::parse_join() noexcept
{
    uint32_t node = parse_multiply();
    while (!failed() && is("~")) {
        Chain chain;
        append(&chain, add(ChatOp::kArgument, 0, node));
        for (uint32_t count = 1; count < kChatOperandsMax && accept("~"); count++) {
            const uint32_t operand = parse_multiply();
            append(&chain, add(ChatOp::kArgument, 0, operand));
        }
        node = add(ChatOp::kJoin, chain.head);
    }
    return node;
}

uint32_t Parser::parse_multiply() noexcept
{
    uint32_t node = parse_unary(true);
    while (!failed()) {
        if (is("/") || is("**")) {
            return unsupported(token_.text, "is an operator that is not supported, line");
        }
        const ChatOp op = is("*")    ? ChatOp::kMultiply
                          : is("//") ? ChatOp::kDivide
                          : is("%")  ? ChatOp::kModulo
                                     : ChatOp::kNone;
        if (op == ChatOp::kNone) {
            return node;
        }
        lex();
        const uint32_t right = parse_unary(true);
        node = add(op, node, right);
    }
    return kNoNode;
}

uint32_t Parser::parse_unary(bool with_filter) noexcept
{
    DepthGuard guard(&depth_);
    if (depth_ > 2 * kChatDepthMax) {
        return unsupported("an expression", "is nested too deep at line");
    }
    uint32_t node = kNoNode;
    if (accept("-")) {
        const uint32_t value = parse_unary(false);
        node = add(ChatOp::kNegate, value);
    } else if (accept("+")) {
        node = parse_unary(false);
    } else {
        node = parse_primary();
    }
    node = parse_postfix(node);
    return with_filter ? parse_filters(node) : node;
}

uint32_t Parser::parse_constant() noexcept
{
    const std::string_view word = token_.text;
    ChatOp op = ChatOp::kNone;
    if (word == "true" || word == "True") {
        op = ChatOp::kTrue;
    } else if (word == "false" || word == "False") {
        op = ChatOp::kFalse;
    } else if (word == "none" || word == "None") {
        op = ChatOp::kNull;
    }
    const uint32_t node = op == ChatOp::kNone ? add(ChatOp::kName, name_id(word)) : add(op);
    if (!failed()) {
        lex();
    }
    return node;
}

uint32_t Parser::parse_integer() noexcept
{
    uint64_t value = 0;
    for (const char digit : token_.text) {
        if (digit == '_') {
            continue;
        }
        if (value > (UINT64_C(1) << 53)) {
            return unsupported(token_.text, "is too large a number at line");
        }
        value = value * 10 + static_cast<uint64_t>(digit - '0');
    }
    const uint32_t node =
        add(ChatOp::kInteger, static_cast<uint32_t>(value), static_cast<uint32_t>(value >> 32));
    lex();
    if (is(".")) {
        return unsupported("a fraction", "is not supported, line");
    }
    return node;
}

// The escapes of a string literal, decoded into the pool.
uint32_t Parser::parse_string() noexcept
{
    const uint32_t begin = p_->pool_bytes;
    // Neighbouring literals are one.
    while (!failed() && token_.kind == Lex::kString) {
        const std::string_view text = token_.text;
        for (size_t i = 0; i < text.size(); i++) {
            char byte = text[i];
            if (byte == '\\') {
                i++;
                static constexpr char kFrom[] = "ntrbf\\'\"\n";
                static constexpr char kTo[] = "\n\t\r\b\f\\'\"";
                const char* const found = std::strchr(kFrom, text[i]);
                if (text[i] == '\0' || found == nullptr) {
                    return unsupported(text.substr(i - 1, 2), "is an escape not supported, line");
                }
                if (*found == '\n') {
                    continue;
                }
                byte = kTo[found - kFrom];
            }
            p_->pool[p_->pool_bytes++] = byte;
        }
        lex();
    }
    return add(ChatOp::kString, begin, p_->pool_bytes - begin);
}

uint32_t Parser::parse_list(std::string_view end) noexcept
{
    Chain chain;
    while (!failed() && !is(end)) {
        const uint32_t value = parse_expression();
        append(&chain, add(ChatOp::kArgument, 0, value));
        if (!is(end)) {
            expect(",");
        }
    }
    expect(end);
    return add(ChatOp::kList, chain.head);
}

uint32_t Parser::parse_dict() noexcept
{
    Chain chain;
    while (!failed() && !is("}")) {
        const uint32_t key = parse_expression();
        append(&chain, add(ChatOp::kArgument, 0, key));
        expect(":");
        const uint32_t value = parse_expression();
        append(&chain, add(ChatOp::kArgument, 0, value));
        if (!is("}")) {
            expect(",");
        }
    }
    expect("}");
    return add(ChatOp::kDict, chain.head);
}

// Behind "(": an expression in brackets, or a tuple, which is as good as a list here.
uint32_t Parser::parse_group() noexcept
{
    Chain chain;
    bool tuple = false;
    uint32_t node = kNoNode;
    while (!failed() && !is(")")) {
        node = parse_expression();
        append(&chain, add(ChatOp::kArgument, 0, node));
        if (!is(")")) {
            expect(",");
            tuple = true;
        }
    }
    expect(")");
    return tuple || node == kNoNode ? add(ChatOp::kList, chain.head) : node;
}

uint32_t Parser::parse_primary() noexcept
{
    if (token_.kind == Lex::kString) {
        return parse_string();
    }
    if (token_.kind == Lex::kInteger) {
        return parse_integer();
    }
    if (token_.kind == Lex::kName) {
        return parse_constant();
    }
    if (accept("[")) {
        return parse_list("]");
    }
    if (accept("{")) {
        return parse_dict();
    }
    if (accept("(")) {
        return parse_group();
    }
    return refuse("an expression", "is missing at line");
}

uint32_t Parser::parse_arguments() noexcept
{
    Chain chain;
    while (!failed() && !is(")")) {
        uint32_t name = kNameNone;
        if (is("*") || is("**")) {
            return unsupported(token_.text, "in a call is not supported, line");
        }
        uint32_t value = parse_expression();
        if (!failed() && is("=") && p_->nodes[value].op == ChatOp::kName) {
            name = p_->nodes[value].a;
            lex();
            value = parse_expression();
        }
        append(&chain, add(ChatOp::kArgument, name, value));
        if (!is(")")) {
            expect(",");
        }
    }
    expect(")");
    return chain.head;
}

uint32_t Parser::parse_member(uint32_t node) noexcept
{
    if (token_.kind == Lex::kInteger) {
        const uint32_t index = parse_integer();
        return add(ChatOp::kIndex, node, index);
    }
    const std::string_view name = expect_name();
    if (failed()) {
        return kNoNode;
    }
    if (!is("(")) {
        return add(ChatOp::kMember, node, name_id(name));
    }
    const uint32_t method = find_id(kMethods, name);
    if (method == 0) {
        return unsupported(name, "is a method that is not supported, line");
    }
    lex();
    const uint32_t arguments = parse_arguments();
    return add(ChatOp::kMethod, node, method, arguments);
}

uint32_t Parser::parse_subscript(uint32_t node) noexcept
{
    uint32_t parts[3] = {};
    uint32_t part = 0;
    bool slice = false;
    while (!failed() && !is("]")) {
        if (accept(":")) {
            slice = true;
            part++;
            if (part > 2) {
                return refuse("a slice", "has too many parts at line");
            }
            continue;
        }
        if (parts[part] != kNoNode) {
            return refuse("]", "is missing at line");
        }
        parts[part] = parse_expression();
    }
    expect("]");
    if (slice) {
        return add(ChatOp::kSlice, node, parts[0], parts[1], parts[2]);
    }
    if (parts[0] == kNoNode) {
        return refuse("an index", "is missing at line");
    }
    return add(ChatOp::kIndex, node, parts[0]);
}

uint32_t Parser::parse_call(uint32_t node) noexcept
{
    if (p_->nodes[node].op != ChatOp::kName) {
        return unsupported("a call", "of a value is not supported, line");
    }
    const uint32_t name = p_->nodes[node].a;
    const uint32_t line = token_.line;
    const uint32_t arguments = parse_arguments();
    const uint32_t function = find_id(kFunctions, p_->names[name]);
    const uint32_t call = function != 0 ? add(ChatOp::kCall, function, arguments)
                                        : add(ChatOp::kInvoke, name, arguments);
    if (call != kNoNode) {
        p_->nodes[call].line = line;
    }
    return call;
}

uint32_t Parser::parse_postfix(uint32_t node) noexcept
{
    while (!failed()) {
        if (accept(".")) {
            node = parse_member(node);
        } else if (accept("[")) {
            node = parse_subscript(node);
        } else if (accept("(")) {
            node = parse_call(node);
        } else {
            return node;
        }
    }
    return kNoNode;
}

uint32_t Parser::parse_filter(uint32_t node) noexcept
{
    const std::string_view name = expect_name();
    const uint32_t filter = find_id(kFilters, name);
    if (!failed() && filter == 0) {
        return unsupported(name, "is a filter that is not supported, line");
    }
    uint32_t arguments = kNoNode;
    if (accept("(")) {
        arguments = parse_arguments();
    }
    return add(ChatOp::kFilter, node, filter, arguments);
}

uint32_t Parser::parse_test(uint32_t node) noexcept
{
    const bool negated = accept_word("not");
    const std::string_view name = expect_name();
    std::string_view lowered = name;
    lowered = name == "None" ? "none" : name == "True" ? "true" : name == "False" ? "false" : name;
    const uint32_t test = find_id(kTests, lowered);
    if (!failed() && test == 0) {
        return unsupported(name, "is a test that is not supported, line");
    }
    uint32_t argument = kNoNode;
    const bool takes_one = test >= id_of(ChatTest::kDivisibleBy) && test <= id_of(ChatTest::kIn);
    if (takes_one) {
        argument = parse_unary(false);
    }
    const uint32_t with_sign = test | (negated ? id_of(ChatTest::kNot) : 0);
    return add(ChatOp::kTest, node, with_sign, argument);
}

uint32_t Parser::parse_filters(uint32_t node) noexcept
{
    while (!failed()) {
        if (accept("|")) {
            node = parse_filter(node);
        } else if (accept_word("is")) {
            node = parse_test(node);
        } else if (accept("(")) {
            node = parse_call(node);
        } else {
            return node;
        }
    }
    return kNoNode;
}

// A name that is called is a macro of this template, or a function that does not exist here.
void Parser::check_invocations() noexcept
{
    for (uint32_t i = 1; i < p_->nodes_count && !failed(); i++) {
        if (p_->nodes[i].op != ChatOp::kInvoke) {
            continue;
        }
        bool known = false;
        for (uint32_t j = 1; j < p_->nodes_count && !known; j++) {
            known = p_->nodes[j].op == ChatOp::kMacro && p_->nodes[j].a == p_->nodes[i].a;
        }
        if (!known) {
            token_.line = p_->nodes[i].line;
            unsupported(p_->names[p_->nodes[i].a], "is a function that is not supported, line");
        }
    }
}

}  // namespace

uint32_t chat_test_find(std::string_view name) noexcept
{
    return find_id(kTests, name);
}
uint32_t chat_filter_find(std::string_view name) noexcept
{
    return find_id(kFilters, name);
}

int chat_compile(ChatProgram* program, TextReason* reason) noexcept
{
    // A node stands for at least one byte of source, and so does a byte of the pool.
    program->nodes_max = 2 * program->source_bytes + 64;
    program->nodes.reset(new (std::nothrow) ChatNode[program->nodes_max]);
    program->pool.reset(new (std::nothrow) char[program->source_bytes + 1]);
    program->names.reset(new (std::nothrow) std::string_view[kChatNamesMax]);
    if (program->nodes == nullptr || program->pool == nullptr || program->names == nullptr) {
        return text_refuse(reason, AOTX_ERR_SYSTEM, "chat template", "no memory");
    }
    if (const int result = Parser(program, reason).run(); result != AOTX_OK) {
        return result;
    }
    // Keep what is used.
    std::unique_ptr<ChatNode[]> nodes(new (std::nothrow) ChatNode[program->nodes_count]);
    if (nodes == nullptr) {
        return text_refuse(reason, AOTX_ERR_SYSTEM, "chat template", "no memory");
    }
    std::memcpy(nodes.get(), program->nodes.get(), program->nodes_count * sizeof(ChatNode));
    program->nodes = std::move(nodes);
    program->allocation_bytes += program->nodes_count * sizeof(ChatNode) +
                                 2 * uint64_t{program->source_bytes} +
                                 kChatNamesMax * sizeof(std::string_view);
    return AOTX_OK;
}

}  // namespace aotx
