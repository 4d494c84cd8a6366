// The chat format: what it renders, what it refuses, and who wrote which byte.
#include "chat/chat_template.h"

#include <catch2/catch.hpp>

#include "aotx/packet.h"
#include "aotx/status.h"
#include "vocabularies.h"

using namespace aotx;
using vocabularies::byte_level;
using vocabularies::byte_level_writer;

namespace {

struct Message {
    uint32_t role;
    std::string text;
};
using Messages = std::vector<Message>;

constexpr uint32_t kSystem = AOTX_MESSAGE_ROLE_SYSTEM;
constexpr uint32_t kUser = AOTX_MESSAGE_ROLE_USER;
constexpr uint32_t kAssistant = AOTX_MESSAGE_ROLE_ASSISTANT;

// A format over the byte-level vocabulary, whose start token is <|begin|> and end <|im_end|>.
struct Chat {
    std::vector<uint8_t> file;
    GgufFile gguf;
    Tokenizer tokenizer;
    ChatTemplate format;
    ChatScratch scratch;
    TokenizerScratch tokens_scratch;
    TextReason reason;
    int opened = 0;
    ChatText text;

    explicit Chat(const std::string& source, uint32_t prompt_bytes_max = 8192, bool add_bos = false)
    {
        GgufWriter writer = byte_level_writer(byte_level());
        writer.add_bool("tokenizer.ggml.add_bos_token", add_bos);
        file = writer.finish();
        REQUIRE(gguf.open_memory(file.data(), file.size(), &reason) == AOTX_OK);
        REQUIRE(tokenizer.open(gguf, &reason) == AOTX_OK);
        REQUIRE(scratch.open(prompt_bytes_max) == AOTX_OK);
        REQUIRE(tokens_scratch.open(prompt_bytes_max) == AOTX_OK);
        opened = format.open_source(source.data(), static_cast<uint32_t>(source.size()), &tokenizer,
                                    &reason);
    }

    int render(const Messages& messages)
    {
        std::vector<aotx_text_part> parts;
        std::vector<aotx_text_message> rows;
        parts.reserve(messages.size());
        for (const Message& message : messages) {
            parts.push_back({AOTX_PART_KIND_TEXT, static_cast<uint32_t>(message.text.size()),
                             reinterpret_cast<const uint8_t*>(message.text.data())});
            rows.push_back({message.role, 1, &parts.back()});
        }
        return format.render(&scratch, rows.data(), static_cast<uint32_t>(rows.size()), &text,
                             &reason);
    }
    std::string rendered(const Messages& messages)
    {
        const int result = render(messages);
        return result == AOTX_OK ? std::string(text.text, text.bytes)
                                 : "refused: " + std::string(reason.text);
    }
    // u for bytes of messages, f for bytes of the format.
    std::string marks() const
    {
        std::string shown;
        for (uint32_t i = 0; i < text.bytes; i++) {
            shown += text.marks[i] == kTextMarkUser ? 'u' : 'f';
        }
        return shown;
    }
    std::vector<int32_t> encoded(const Messages& messages)
    {
        REQUIRE(render(messages) == AOTX_OK);
        TextInput input;
        input.text = text.text;
        input.marks = text.marks;
        input.bytes = text.bytes;
        input.add_start_if_absent = true;
        std::vector<int32_t> tokens(text.bytes + 2);
        uint32_t count = 0;
        REQUIRE(tokenizer.encode(&tokens_scratch, input, tokens.data(),
                                 static_cast<uint32_t>(tokens.size()), &count) == AOTX_OK);
        tokens.resize(count);
        return tokens;
    }
};

// What {{ expression }} shows, with the value of `x` = the first message's text.
std::string shown(const std::string& expression, const std::string& x = "Hi there")
{
    Chat chat("{% set x = messages[0].content %}{{ " + expression + " }}");
    if (chat.opened != AOTX_OK) {
        return "refused: " + std::string(chat.reason.text);
    }
    return chat.rendered({{kUser, x}});
}

const Messages kTalk = {{kSystem, "Be kind."}, {kUser, "Hi"}, {kAssistant, "Yo"}, {kUser, "Bye"}};
const Messages kAsk = {{kUser, "Hi"}};
const Messages kTurns = {{kUser, "Hi"}, {kAssistant, "Yo"}, {kUser, "Bye"}};

constexpr char kChatMl[] =
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] "
    "+ '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|im_start|>assistant\\n' }}{% endif %}";

constexpr char kDefaultSystem[] =
    "{%- if messages[0]['role'] == 'system' %}\n"
    "    {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}\n"
    "{%- else %}\n"
    "    {{- '<|im_start|>system\\nDefault.<|im_end|>\\n' }}\n"
    "{%- endif %}\n"
    "{%- for message in messages %}\n"
    "    {%- if (message.role == \"user\") or (message.role == \"system\" and not loop.first) or "
    "(message.role == \"assistant\" and not message.tool_calls) %}\n"
    "        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' "
    "}}\n"
    "    {%- elif message.role == \"tool\" %}\n"
    "        {{- raise_exception('no tools') }}\n"
    "    {%- endif %}\n"
    "{%- endfor %}\n"
    "{%- if add_generation_prompt %}\n"
    "    {{- '<|im_start|>assistant\\n' }}\n"
    "{%- endif %}\n";

constexpr char kBracketTurns[] =
    "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}"
    "{% set system_message = messages[0]['content'] %}{% else %}"
    "{% set loop_messages = messages %}{% set system_message = false %}{% endif %}"
    "{% for message in loop_messages %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Roles must alternate') }}{% endif %}"
    "{% if loop.index0 == 0 and system_message != false %}"
    "{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}"
    "{% else %}{% set content = message['content'] %}{% endif %}"
    "{% if message['role'] == 'user' %}"
    "{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}"
    "{% elif message['role'] == 'assistant' %}"
    "{{ ' ' + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}";

constexpr char kHeaders[] =
    "{% set loop_messages = messages %}{% for message in loop_messages %}"
    "{% set content = '<|h|>' + message['role'] + '<|/h|>\\n\\n' + message['content'] | trim + "
    "'<|eot|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}"
    "{{ content }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|h|>assistant<|/h|>\\n\\n' }}{% endif %}";

constexpr char kNoSystem[] =
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}"
    "{{ raise_exception('System role not supported') }}{% endif %}"
    "{% for message in messages %}"
    "{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}"
    "{% set role = message['role'] %}{% endif %}"
    "{{ '<turn>' + role + '\\n' + message['content'] | trim + '</turn>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{'<turn>model\\n'}}{% endif %}";

constexpr char kLines[] =
    "{% for message in messages %}\n"
    "{% if message['role'] == 'user' %}\n"
    "{{ '<|user|>\\n' + message['content'] + eos_token }}\n"
    "{% elif message['role'] == 'system' %}\n"
    "{{ '<|system|>\\n' + message['content'] + eos_token }}\n"
    "{% elif message['role'] == 'assistant' %}\n"
    "{{ '<|assistant|>\\n'  + message['content'] + eos_token }}\n"
    "{% endif %}\n"
    "{% if loop.last and add_generation_prompt %}\n"
    "{{ '<|assistant|>' }}\n"
    "{% endif %}\n"
    "{% endfor %}";

constexpr char kNamespace[] =
    "{%- set ns = namespace(system='', found=false) -%}\n"
    "{%- for m in messages if m.role == 'system' -%}\n"
    "{%- set ns.system = ns.system ~ m.content -%}{%- set ns.found = true -%}\n"
    "{%- endfor -%}\n"
    "{{- ns.system -}}{%- if ns.found %}|{% endif -%}\n"
    "{%- for m in messages if m.role != 'system' -%}\n"
    "{{- m.role[0] ~ loop.index ~ '/' ~ loop.length ~ ':' ~ m.content ~ ';' -}}\n"
    "{%- endfor -%}";

}  // namespace

TEST_CASE("common formats render as their authors mean")
{
    struct Row {
        const char* name;
        const char* source;
        const Messages* messages;
        const char* want;
    };
    const Row rows[] = {
        {"ChatML", kChatMl, &kAsk, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"},
        {"ChatML, a talk", kChatMl, &kTalk,
         "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
         "<|im_start|>assistant\nYo<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n"
         "<|im_start|>assistant\n"},
        {"default system", kDefaultSystem, &kAsk,
         "<|im_start|>system\nDefault.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
         "<|im_start|>assistant\n"},
        {"own system", kDefaultSystem, &kTalk,
         "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
         "<|im_start|>assistant\nYo<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n"
         "<|im_start|>assistant\n"},
        {"bracketed turns", kBracketTurns, &kTalk,
         "<|begin|>[INST] <<SYS>>\nBe kind.\n<</SYS>>\n\nHi [/INST] Yo <|im_end|>"
         "<|begin|>[INST] Bye [/INST]"},
        {"bracketed turns, no system", kBracketTurns, &kAsk, "<|begin|>[INST] Hi [/INST]"},
        {"headers", kHeaders, &kTalk,
         "<|begin|><|h|>system<|/h|>\n\nBe kind.<|eot|><|h|>user<|/h|>\n\nHi<|eot|>"
         "<|h|>assistant<|/h|>\n\nYo<|eot|><|h|>user<|/h|>\n\nBye<|eot|>"
         "<|h|>assistant<|/h|>\n\n"},
        {"turns without system", kNoSystem, &kTurns,
         "<|begin|><turn>user\nHi</turn>\n<turn>model\nYo</turn>\n<turn>user\nBye</turn>\n"
         "<turn>model\n"},
        {"lines", kLines, &kTalk,
         "<|system|>\nBe kind.<|im_end|>\n<|user|>\nHi<|im_end|>\n<|assistant|>\nYo<|im_end|>\n"
         "<|user|>\nBye<|im_end|>\n<|assistant|>\n"},
        {"namespace and filtered loops", kNamespace, &kTalk, "Be kind.|u1/3:Hi;a2/3:Yo;u3/3:Bye;"},
    };
    for (const Row& row : rows) {
        INFO(row.name);
        Chat chat(row.source);
        INFO(chat.reason.text);
        REQUIRE(chat.opened == AOTX_OK);
        CHECK(chat.rendered(*row.messages) == row.want);
    }
}

TEST_CASE("a conversation that the format refuses is refused in its words")
{
    Chat chat(kNoSystem);
    CHECK(chat.render(kTalk) == AOTX_ERR_STATE);
    CHECK(std::string(chat.reason.text).find("System role not supported") == 0);
    CHECK(chat.render(kTurns) == AOTX_OK);
    Chat turns(kBracketTurns);
    CHECK(turns.render({{kUser, "a"}, {kUser, "b"}}) == AOTX_ERR_STATE);
    CHECK(std::string(turns.reason.text).find("Roles must alternate") == 0);
}

TEST_CASE("expressions")
{
    struct Row {
        const char* expression;
        const char* want;
    };
    const Row rows[] = {
        {"1 + 2 * 3", "7"},
        {"7 // 2 ~ '/' ~ 7 % 3", "3/1"},
        {"-7 // 2 ~ '/' ~ -7 % 3", "-4/2"},
        {"'a' + 'b' ~ 1", "ab1"},
        {"'a' 'b'", "ab"},
        {"\"it's\"", "it's"},
        {"'a\\tb\\\\n'", "a\tb\\n"},
        {"none ~ true ~ false", "NoneTrueFalse"},
        {"nothing", ""},
        {"nothing is defined", "False"},
        {"x is defined and x is string", "True"},
        {"nothing is not defined", "True"},
        {"tools is none", "True"},
        {"(nothing or 'b') ~ ('a' and 'c')", "bc"},
        {"not x == 'y'", "True"},
        {"'a' if x == 'y' else 'b'", "b"},
        {"'a' if false", ""},
        {"1 < 2 and 2 >= 2 and 'a' != 'b'", "True"},
        {"'there' in x", "True"},
        {"'q' not in x", "True"},
        {"'a' in ['a', 'b']", "True"},
        {"'k' in {'k': 1}", "True"},
        {"{'k': 'v'}['k'] ~ {'k': 'w'}.k", "vw"},
        {"{'k': 'v'}.get('z', 'd')", "d"},
        {"[1, 2, 3][-1]", "3"},
        {"[1, 2, 3][1:] | join('-')", "2-3"},
        {"[1, 2, 3][::-1] | join('-')", "3-2-1"},
        {"[1, 2, 3][5:] | length", "0"},
        {"('a', 'b') | join", "ab"},
        {"x[3:]", "there"},
        {"x[:-1]", "Hi ther"},
        {"x[0]", "H"},
        {"x | length", "8"},
        {"'h\xc3\xa9'[1:] ~ ('h\xc3\xa9' | length)",
         "\xc3\xa9"
         "2"},
        {"x.split(' ') | last", "there"},
        {"'a--b--c'.split('--', 1) | join('+')", "a+b--c"},
        {"'a b  c'.split() | join('+')", "a+b+c"},
        {"' a '.strip() ~ '|' ~ ' b '.lstrip() ~ '|' ~ ' c '.rstrip()", "a|b | c"},
        {"'xxaxx'.strip('x')", "a"},
        {"' \\n a \\t' | trim", "a"},
        {"x.upper() ~ x.lower()", "HI THEREhi there"},
        {"'ab cd' | title ~ ('AB' | capitalize)", "Ab CdAb"},
        {"x.startswith('Hi') ~ x.endswith('Hi')", "TrueFalse"},
        {"x.replace('e', 'EE')", "Hi thEErEE"},
        {"x.replace('e', '', 1)", "Hi thre"},
        {"nothing | default('d')", "d"},
        {"'' | default('d') ~ ('' | default('e', true))", "e"},
        {"['b', 'a'] | first ~ (['b', 'a'] | reverse | first)", "ba"},
        {"'12' | int + 1", "13"},
        {"range(3) | join ~ (range(1, 6, 2) | join)", "012135"},
        {"{'b': 1, 'a': [true, none]} | tojson", "{\"b\": 1, \"a\": [true, null]}"},
        {"'q\"\\n<' | tojson", "\"q\\\"\\n<\""},
        {"[1, {'a': 2}] | tojson(indent=2)", "[\n  1,\n  {\n    \"a\": 2\n  }\n]"},
        {"{'b': 1, 'A': 2} | dictsort | length", "2"},
        {"['a', 'b'] | map('upper') | join", "AB"},
        {"['a', 'b'] | reject('equalto', 'a') | join", "b"},
        {"messages | selectattr('role', 'equalto', 'user') | list | length", "1"},
        {"messages | map(attribute='content') | join", "Hi there"},
        {"3 is odd ~ (4 is divisibleby 2)", "TrueTrue"},
        {"messages[0] is mapping ~ (messages is iterable)", "TrueTrue"},
        {"messages[0].get('content')", "Hi there"},
        {"messages[0]['tool_calls'] is defined", "False"},
    };
    for (const Row& row : rows) {
        INFO(row.expression);
        CHECK(shown(row.expression) == row.want);
    }
}

TEST_CASE("statements")
{
    struct Row {
        const char* source;
        const char* want;
    };
    const Row rows[] = {
        {"{% if false %}a{% elif true %}b{% else %}c{% endif %}", "b"},
        {"{% for i in [1, 2, 3] %}{% if i == 2 %}{% continue %}{% endif %}{{ i }}{% endfor %}",
         "13"},
        {"{% for i in [1, 2, 3] %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}", "1"},
        {"{% for i in [] %}a{% else %}none{% endfor %}", "none"},
        {"{% for k, v in {'a': 1}.items() %}{{ k }}={{ v }}{% endfor %}", "a=1"},
        {"{% for c in 'ab' %}{{ loop.index0 }}{{ c }}{{ loop.last }}{% endfor %}", "0aFalse1bTrue"},
        {"{% for a in [1, 2] %}{% for b in [3, 4] %}{{ a }}{{ b }}{{ loop.index }} {% endfor %}"
         "{{ loop.index }};{% endfor %}",
         "131 142 1;231 242 2;"},
        {"{% set x = 1 %}{% for i in [1] %}{% set x = 2 %}{% endfor %}{{ x }}", "1"},
        {"{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}", "2"},
        {"{% set x %}a{{ 1 }}b{% endset %}[{{ x }}]", "[a1b]"},
        {"{% macro m(a, b='d') %}<{{ a }}{{ b }}>{% endmacro %}{{ m('x') }}{{ m('y', b='z') }}",
         "<xd><yz>"},
        {"{# nothing #}a{# {{ x }} #}b", "ab"},
        {"a{% generation %}b{% endgeneration %}c", "abc"},
    };
    for (const Row& row : rows) {
        INFO(row.source);
        Chat chat(row.source);
        INFO(chat.reason.text);
        REQUIRE(chat.opened == AOTX_OK);
        CHECK(chat.rendered(kAsk) == row.want);
    }
}

TEST_CASE("blanks beside tags")
{
    struct Row {
        const char* source;
        const char* want;
    };
    const Row rows[] = {
        {"a\n{% if true %}\nb\n{% endif %}\nc", "a\nb\nc"},
        {"a\n  {% if true %}\n  b\n  {% endif %}\nc", "a\n  b\nc"},
        {"a {%- if true -%} b {%- endif -%} c", "abc"},
        {"a\n\n{{- 'b' -}}\n\nc", "abc"},
        {"a {{ 'b' }}\nc", "a b\nc"},
        {"  {% if true %}a{% endif %}", "a"},
        {"x  {% if true %}a{% endif %}", "x  a"},
        {"a\n  {%+ if true %}b{% endif %}", "a\n  b"},
        {"a{% if true +%}\nb{% endif %}", "a\nb"},
        {"a\n  {# c #}\nb", "a\nb"},
        {"a\n", "a"},
        {"a\n\n", "a\n"},
        {"a\r\nb\r\n", "a\nb"},
    };
    for (const Row& row : rows) {
        INFO(row.source);
        Chat chat(row.source);
        INFO(chat.reason.text);
        REQUIRE(chat.opened == AOTX_OK);
        CHECK(chat.rendered(kAsk) == row.want);
    }
}

TEST_CASE("what the subset lacks is refused at open with its name and line")
{
    struct Row {
        const char* source;
        const char* named;
    };
    const Row rows[] = {
        {"{% include 'a' %}", "include"},
        {"\n{% import 'a' as b %}", "import"},
        {"{% extends 'a' %}", "extends"},
        {"{% raw %}{% endraw %}", "raw"},
        {"{% call f() %}{% endcall %}", "call"},
        {"{% filter upper %}a{% endfilter %}", "filter"},
        {"{{ x | wordcount }}", "wordcount"},
        {"{{ x.format(1) }}", "format"},
        {"{{ cycler('a') }}", "cycler"},
        {"{{ x is callable }}", "callable"},
        {"{{ 1.5 }}", "fraction"},
        {"{{ 1 / 2 }}", "/"},
        {"{{ 2 ** 3 }}", "**"},
        {"{{ 1 < 2 < 3 }}", "comparisons"},
        {"{% set a, b = 1, 2 %}", "set"},
        {"{% for a in b recursive %}{% endfor %}", "recursive"},
        {"{{ 'a\\x41' }}", "\\x"},
        {"{{ f(*a) }}", "*"},
    };
    for (const Row& row : rows) {
        INFO(row.source);
        Chat chat(row.source);
        CHECK(chat.opened == AOTX_ERR_RANGE);
        CHECK_FALSE(chat.format.present());
        INFO(chat.reason.text);
        CHECK(std::string(chat.reason.text).find(row.named) != std::string::npos);
        CHECK(std::string(chat.reason.text).find("line") != std::string::npos);
    }
}

TEST_CASE("what is no template is refused at open")
{
    const char* const sources[] = {
        "{{ ",           "{{ x",          "{{ x }",           "{% if x %}",
        "{% if %}",      "{% endif %}",   "{% for x %}",      "{% else %}",
        "{{ 'a }}",      "{{ x. }}",      "{{ (1 }}",         "{{ [1, }}",
        "{# a",          "{{ }}",         "{{ 1 2 }}",        "{% set %}",
        "{% set x = %}", "{{ x[ }}",      "{{ {'a' 1} }}",    "{% for i in [1] %}",
        "{% break %}",   "{{ a not b }}", "{% macro m %}",    "{% if x %}{% endfor %}",
        "{{ x | }}",     "{{ x is }}",    "{{ x[1:2:3:4] }}", "{% 1 %}",
    };
    for (const char* const source : sources) {
        INFO(source);
        Chat chat(source);
        CHECK(chat.opened != AOTX_OK);
        CHECK(chat.reason.text[0] != '\0');
    }
}

TEST_CASE("a template that fails on a plain question is refused at open")
{
    Chat chat("{{ nothing.member }}");
    CHECK(chat.opened == AOTX_ERR_RANGE);
    Chat refusing("{{ raise_exception('never') }}");
    CHECK(refusing.opened == AOTX_ERR_RANGE);
    CHECK(std::string(refusing.reason.text).find("never") == 0);
}

TEST_CASE("every prefix of a template is refused or harmless")
{
    const std::string source = kDefaultSystem;
    for (size_t cut = 0; cut < source.size(); cut += 3) {
        Chat chat(source.substr(0, cut));
        if (chat.opened == AOTX_OK) {
            chat.render(kTalk);
        }
    }
}

TEST_CASE("every byte knows who wrote it")
{
    Chat chat("<{{ messages[0].content }}|{{ messages[0].role }}>");
    CHECK(chat.rendered({{kUser, "abc"}}) == "<abc|user>");
    CHECK(chat.marks() == "fuuuffffff");
    struct Row {
        const char* expression;
        const char* want;
        const char* marks;
    };
    const Row rows[] = {
        {"'a' + x + 'b'", "aXYb", "fuuf"},
        {"x[1:] ~ 1", "Y1", "uf"},
        {"(' ' + x + ' ') | trim", "XY", "uu"},
        {"x.replace('X', 'zz')", "zzY", "ffu"},
        {"('-' + x).split('X') | join('+')", "-+Y", "ffu"},
        {"x.lower() + bos_token[:2]", "xy<|", "uuff"},
        {"x | tojson", "\"XY\"", "fuuf"},
        {"('a\n' + x) | indent(2, true)", "  a\n  XY", "ffffffuu"},
        {"[x, 'a'] | join(x)", "XYXYa", "uuuuf"},
    };
    for (const Row& row : rows) {
        INFO(row.expression);
        Chat one(std::string("{% set x = messages[0].content %}{{ ") + row.expression + " }}");
        INFO(one.reason.text);
        REQUIRE(one.opened == AOTX_OK);
        CHECK(one.rendered({{kUser, "XY"}}) == row.want);
        CHECK(one.marks() == row.marks);
    }
    Chat captured(
        "{% set t %}<{{ messages[0].content }}>{% endset %}"
        "{% macro m(a) %}[{{ a }}]{% endmacro %}{{ t }}{{ m(t) }}");
    CHECK(captured.rendered({{kUser, "x"}}) == "<x>[<x>]");
    CHECK(captured.marks() == "fufffuff");
}

TEST_CASE("message text never becomes a special token, whatever the format does with it")
{
    const char* const sources[] = {
        kChatMl,
        "{% for m in messages %}{{ m.content | trim }}{% endfor %}",
        "{% set t = '' %}{% for m in messages %}{{ t + m.content.strip() ~ '' }}{% endfor %}",
        "{% for m in messages %}{{ m.content.split('q') | join('') }}{% endfor %}",
        "{% for m in messages %}{{ m.content | tojson }}{% endfor %}",
        "{% macro e(c) %}{{ c }}{% endmacro %}{% for m in messages %}{{ e(m.content) }}{% endfor "
        "%}",
        // The format's own half does not complete a message's half.
        "{% for m in messages %}{{ '<|im' + m.content + '|>' }}{% endfor %}",
    };
    for (const char* const source : sources) {
        INFO(source);
        Chat chat(source);
        REQUIRE(chat.opened == AOTX_OK);
        const std::vector<int32_t> plain = chat.encoded({{kUser, "x"}});
        const auto specials = [](const std::vector<int32_t>& tokens) {
            size_t count = 0;
            for (const int32_t token : tokens) {
                count += token == 256 || token == 257 ? 1 : 0;
            }
            return count;
        };
        for (const char* const text :
             {"<|im_end|>", "<|begin|>", " <|im_end|><|begin|> ", "_end", "<|im_<|im_end|>end|>"}) {
            INFO(text);
            CHECK(specials(chat.encoded({{kUser, text}})) == specials(plain));
        }
    }
}

TEST_CASE("exactly one start token")
{
    const std::vector<int32_t> with_start = {256, 'x'};
    Chat both("{{ bos_token }}{{ messages[0].content }}", 8192, true);
    CHECK(both.encoded({{kUser, "x"}}) == with_start);
    Chat file_only("{{ messages[0].content }}", 8192, true);
    CHECK(file_only.encoded({{kUser, "x"}}) == with_start);
    Chat format_only("{{ '<|begin|>' }}{{ messages[0].content }}", 8192, false);
    CHECK(format_only.encoded({{kUser, "x"}}) == with_start);
    // Text that spells the start token is text, and nothing of it is lost.
    const std::vector<int32_t> spelled = file_only.encoded({{kUser, "<|begin|>"}});
    CHECK(spelled.size() == 10);
    CHECK(spelled[0] == 256);
    CHECK(spelled[1] == '<');
    CHECK(both.encoded({{kUser, "<|begin|>"}}) == spelled);
}

TEST_CASE("parts join with a line break, media parts are refused")
{
    Chat chat("{{ messages[0].content }}");
    const std::string one = "a";
    const std::string two = "b";
    const auto part = [](const std::string& text) {
        return aotx_text_part{AOTX_PART_KIND_TEXT, static_cast<uint32_t>(text.size()),
                              reinterpret_cast<const uint8_t*>(text.data())};
    };
    aotx_text_part parts[3] = {part(one), part(two), part("")};
    aotx_text_message message = {kUser, 2, parts};
    REQUIRE(chat.format.render(&chat.scratch, &message, 1, &chat.text, nullptr) == AOTX_OK);
    CHECK(std::string(chat.text.text, chat.text.bytes) == "a\nb");
    CHECK(chat.marks() == "uuu");
    parts[1].kind = AOTX_PART_KIND_IMAGE;
    CHECK(chat.format.render(&chat.scratch, &message, 1, &chat.text, nullptr) == AOTX_ERR_STATE);
    parts[1].kind = 3;
    CHECK(chat.format.render(&chat.scratch, &message, 1, &chat.text, nullptr) == AOTX_ERR_RANGE);
    parts[1] = {AOTX_PART_KIND_TEXT, 5, nullptr};
    CHECK(chat.format.render(&chat.scratch, &message, 1, &chat.text, nullptr) == AOTX_ERR_RANGE);
    message.parts_count = 0;
    CHECK(chat.format.render(&chat.scratch, &message, 1, &chat.text, nullptr) == AOTX_ERR_RANGE);
    message = {3, 1, parts};
    CHECK(chat.format.render(&chat.scratch, &message, 1, &chat.text, nullptr) == AOTX_ERR_RANGE);
    CHECK(chat.format.render(&chat.scratch, nullptr, 1, &chat.text, nullptr) == AOTX_ERR_RANGE);
    CHECK(chat.format.render(&chat.scratch, &message, 0, &chat.text, nullptr) == AOTX_ERR_RANGE);
}

TEST_CASE("a rendering stays within its memory, its text and its steps")
{
    Chat small(kChatMl, 96);
    CHECK(small.render({{kUser, std::string(20, 'x')}}) == AOTX_OK);
    CHECK(small.render({{kUser, std::string(60, 'x')}}) == AOTX_ERR_FULL);
    CHECK(small.render(kAsk) == AOTX_OK);
    Chat doubling(
        "{% if messages[0].content == 'go' %}{% set ns = namespace(x='ab') %}"
        "{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}{% endif %}");
    REQUIRE(doubling.opened == AOTX_OK);
    CHECK(doubling.render({{kUser, "go"}}) == AOTX_ERR_FULL);
    Chat endless(
        "{% if messages[0].content == 'go' %}{% for a in range(10000) %}"
        "{% for b in range(10000) %}{% if a == b + 1 %}{% endif %}{% endfor %}"
        "{% endfor %}{% endif %}");
    REQUIRE(endless.opened == AOTX_OK);
    CHECK(endless.render({{kUser, "go"}}) == AOTX_ERR_FULL);
    Chat recursion(
        "{% macro m(n) %}{{ m(n + 1) }}{% endmacro %}"
        "{% if messages[0].content == 'go' %}{{ m(0) }}{% endif %}");
    REQUIRE(recursion.opened == AOTX_OK);
    CHECK(recursion.render({{kUser, "go"}}) == AOTX_ERR_FULL);
    CHECK(recursion.render(kAsk) == AOTX_OK);
}

TEST_CASE("nesting has an end")
{
    const auto nested = [](size_t depth, const std::string& open, const std::string& close) {
        std::string source = "{{ ";
        for (size_t i = 0; i < depth; i++) {
            source += open;
        }
        source += "1";
        for (size_t i = 0; i < depth; i++) {
            source += close;
        }
        return source + " }}";
    };
    CHECK(Chat(nested(30, "(", ")")).opened == AOTX_OK);
    CHECK(Chat(nested(20000, "(", ")")).opened != AOTX_OK);
    CHECK(Chat(nested(20000, "[", "]")).opened != AOTX_OK);
    CHECK(Chat(nested(20000, "not ", "")).opened != AOTX_OK);
    CHECK(Chat(nested(20000, "- ", "")).opened != AOTX_OK);
    std::string blocks;
    for (int i = 0; i < 5000; i++) {
        blocks += "{% if true %}";
    }
    CHECK(Chat(blocks).opened != AOTX_OK);
    std::string branches = "{% if false %}";
    for (int i = 0; i < 5000; i++) {
        branches += "{% elif false %}";
    }
    Chat many(branches + "{% else %}x{% endif %}");
    REQUIRE(many.opened == AOTX_OK);
    CHECK(many.rendered(kAsk) == "x");
}

TEST_CASE("formats that tell the date")
{
    Chat chat("{{ strftime_now('%d %b %Y, %A %H:%M:%S %j %%') }}");
    REQUIRE(chat.opened == AOTX_OK);
    chat.scratch.set_date(1709210096);
    CHECK(chat.rendered(kAsk) == "29 Feb 2024, Thursday 12:34:56 060 %");
    chat.scratch.set_date(1);
    CHECK(chat.rendered(kAsk) == "01 Jan 1970, Thursday 00:00:01 001 %");
    CHECK(Chat("{{ strftime_now('%Q') }}").opened == AOTX_ERR_RANGE);
}

TEST_CASE("a file without a format gets ChatML when its vocabulary speaks it")
{
    vocabularies::Vocabulary v = byte_level();
    GgufWriter plain = byte_level_writer(v);
    const std::vector<uint8_t> plain_file = plain.finish();
    v.add("<|im_start|>", vocabularies::kControl);
    GgufWriter speaking = byte_level_writer(v);
    const std::vector<uint8_t> speaking_file = speaking.finish();
    for (const bool speaks : {false, true}) {
        const std::vector<uint8_t>& file = speaks ? speaking_file : plain_file;
        GgufFile gguf;
        Tokenizer tokenizer;
        ChatTemplate format;
        ChatScratch scratch;
        TextReason reason;
        ChatText text;
        REQUIRE(gguf.open_memory(file.data(), file.size(), &reason) == AOTX_OK);
        REQUIRE(tokenizer.open(gguf, &reason) == AOTX_OK);
        REQUIRE(format.open(gguf, &tokenizer, &reason) == AOTX_OK);
        REQUIRE(scratch.open(1024) == AOTX_OK);
        CHECK(format.present() == speaks);
        const aotx_text_part part = {AOTX_PART_KIND_TEXT, 1, reinterpret_cast<const uint8_t*>("x")};
        const aotx_text_message message = {kUser, 1, &part};
        const int result = format.render(&scratch, &message, 1, &text, &reason);
        CHECK(result == (speaks ? AOTX_OK : AOTX_ERR_STATE));
    }
}
