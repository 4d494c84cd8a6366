// Rendering and encoding take no memory: the allocator is replaced by one that counts.
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>

#include "aotx/packet.h"
#include "aotx/status.h"
#include "chat/chat_template.h"
#include "vocabularies.h"

// Sanitizers bring an allocator of their own; then nothing is counted.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define AOTX_COUNTS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define AOTX_COUNTS 0
#endif
#endif
#if !defined(AOTX_COUNTS)
#define AOTX_COUNTS 1
#endif

namespace {
uint64_t calls = 0;
}

#if AOTX_COUNTS
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* block, size_t bytes);
void __libc_free(void* block);
void* malloc(size_t bytes)
{
    calls++;
    return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes)
{
    calls++;
    return __libc_calloc(count, bytes);
}
void* realloc(void* block, size_t bytes)
{
    calls++;
    return __libc_realloc(block, bytes);
}
void free(void* block)
{
    calls++;
    __libc_free(block);
}
}
#endif

using namespace aotx;

namespace {

int fail(const char* what)
{
    std::fprintf(stderr, "%s\n", what);
    return 1;
}

constexpr char kFormat[] =
    "{%- set ns = namespace(count=0) -%}{% macro line(m) %}{{ m.role | upper }}: {{ m.content | "
    "trim }}{% endmacro %}{% for m in messages %}{% set ns.count = ns.count + 1 %}{{ line(m) + "
    "'<|im_end|>' ~ ns.count }}{{ m.content.split(' ') | tojson }}{% endfor %}"
    "{{ strftime_now('%d %b %Y') }}";

struct Subject {
    std::vector<uint8_t> file;
    GgufFile gguf;
    Tokenizer tokenizer;
    ChatTemplate format;
    ChatScratch chat_scratch;
    TokenizerScratch scratch;
    TextReason reason;

    bool open(const GgufWriter& writer)
    {
        file = writer.finish();
        return gguf.open_memory(file.data(), file.size(), &reason) == AOTX_OK &&
               tokenizer.open(gguf, &reason) == AOTX_OK &&
               format.open_source(kFormat, sizeof kFormat - 1, &tokenizer, &reason) == AOTX_OK &&
               chat_scratch.open(65536) == AOTX_OK && scratch.open(65536) == AOTX_OK;
    }
};

// Calls of the allocator during rounds of rendering and encoding.
uint64_t count_calls(Subject* subject, const std::string& text, int32_t* tokens, bool* good)
{
    const aotx_text_part part = {AOTX_PART_KIND_TEXT, static_cast<uint32_t>(text.size()),
                                 reinterpret_cast<const uint8_t*>(text.data())};
    const aotx_text_message messages[2] = {{AOTX_MESSAGE_ROLE_SYSTEM, 1, &part},
                                           {AOTX_MESSAGE_ROLE_USER, 1, &part}};
    const uint64_t before = calls;
    for (int round = 0; round < 100; round++) {
        uint32_t count = 0;
        *good = *good && chat_encode(subject->format, &subject->chat_scratch, subject->tokenizer,
                                     &subject->scratch, messages, 2, tokens, 65536, &count,
                                     &subject->reason) == AOTX_OK;
        TextInput input;
        input.text = text.data();
        input.bytes = static_cast<uint32_t>(text.size());
        input.parse_special = true;
        *good = *good && subject->tokenizer.encode(&subject->scratch, input, tokens, 65536,
                                                   &count) == AOTX_OK;
    }
    return calls - before;
}

}  // namespace

int main()
{
    static Subject bytes;
    static Subject pieces;
    static int32_t tokens[65536];
    if (!bytes.open(vocabularies::byte_level_writer(vocabularies::byte_level())) ||
        !pieces.open(vocabularies::pieces_writer(vocabularies::pieces()))) {
        return fail("the vocabularies do not open");
    }
    std::string text;
    for (int i = 0; i < 200; i++) {
        text += "hello  world<|im_end|> ab \xc3\xa9 1234\n";
    }
    const uint64_t start = calls;
    bool good = true;
    uint64_t counted = count_calls(&bytes, text, tokens, &good);
    counted += count_calls(&pieces, text, tokens, &good);
    if (!good) {
        return fail(bytes.reason.text[0] != '\0' ? bytes.reason.text : pieces.reason.text);
    }
    if (AOTX_COUNTS != 0 && start == 0) {
        return fail("the counting allocator is not in use");
    }
    std::printf("%llu calls of the allocator\n", static_cast<unsigned long long>(counted));
    return counted == 0 ? 0 : 1;
}
