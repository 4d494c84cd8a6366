// Purpose:  open a chat format, give out scratches, render and encode in one.
// Owns:     programs and scratches.
// Thread:   as chat_template.h.
// Lifetime: as chat_template.h.
#include "chat/chat_template.h"

#include <cstring>
#include <new>

#include "aotx/packet.h"
#include "aotx/status.h"
#include "chat/chat_program.h"

namespace aotx {

namespace {

constexpr char kKeyTemplate[] = "tokenizer.chat_template";
constexpr char kChatMl[] =
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] "
    "+ '<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ "
    "'<|im_start|>assistant\n' "
    "}}{% endif %}";
constexpr uint32_t kPromptBytesMaxMax = 1u << 26;
constexpr uint32_t kArenaBytes = 1u << 19;  // beside six bytes for each of a prompt

// Line breaks become '\n', and one at the very end goes.
uint32_t normalise(const char* source, uint32_t bytes, char* out) noexcept
{
    uint32_t length = 0;
    for (uint32_t i = 0; i < bytes; i++) {
        if (source[i] == '\r') {
            i += i + 1 < bytes && source[i + 1] == '\n' ? 1 : 0;
            out[length++] = '\n';
        } else {
            out[length++] = source[i];
        }
    }
    return length != 0 && out[length - 1] == '\n' ? length - 1 : length;
}

std::string_view token_text(const Tokenizer& tokenizer, int32_t token) noexcept
{
    const uint8_t* bytes = nullptr;
    uint32_t count = 0;
    if (!tokenizer.token_bytes(token, &bytes, &count)) {
        return {};
    }
    return {reinterpret_cast<const char*>(bytes), count};
}

aotx_text_part text_part(const char* text) noexcept
{
    return {AOTX_PART_KIND_TEXT, static_cast<uint32_t>(std::strlen(text)),
            reinterpret_cast<const uint8_t*>(text)};
}

}  // namespace

ChatScratch::ChatScratch() noexcept = default;
ChatScratch::~ChatScratch() = default;

int ChatScratch::open(uint32_t prompt_bytes_max) noexcept
{
    AOTX_TEXT_CHECK(memory_ == nullptr);
    if (prompt_bytes_max > kPromptBytesMaxMax) {
        return AOTX_ERR_RANGE;
    }
    std::unique_ptr<ChatScratchMemory> memory(new (std::nothrow) ChatScratchMemory);
    const uint64_t bytes = 8 * uint64_t{prompt_bytes_max} + kArenaBytes + 64;
    if (memory == nullptr) {
        return AOTX_ERR_SYSTEM;
    }
    memory->block.reset(new (std::nothrow) uint8_t[bytes]);
    if (memory->block == nullptr) {
        return AOTX_ERR_SYSTEM;
    }
    const uintptr_t address = reinterpret_cast<uintptr_t>(memory->block.get());
    memory->arena = memory->block.get() + (64 - address % 64) % 64;
    memory->arena_bytes = 6 * prompt_bytes_max + kArenaBytes;
    memory->text = reinterpret_cast<char*>(memory->arena + memory->arena_bytes);
    memory->marks = memory->arena + memory->arena_bytes + prompt_bytes_max;
    memory->prompt_bytes_max = prompt_bytes_max;
    memory->allocation_bytes = bytes + sizeof(ChatScratchMemory);
    memory_ = std::move(memory);
    return AOTX_OK;
}

uint64_t ChatScratch::allocation_bytes() const noexcept
{
    return memory_ == nullptr ? 0 : memory_->allocation_bytes;
}

void ChatScratch::set_date(int64_t seconds) noexcept
{
    memory_->date_seconds = seconds;
}

ChatTemplate::ChatTemplate() noexcept = default;
ChatTemplate::~ChatTemplate() = default;

void ChatTemplate::close() noexcept
{
    program_.reset();
}

bool ChatTemplate::present() const noexcept
{
    return program_ != nullptr;
}

uint64_t ChatTemplate::allocation_bytes() const noexcept
{
    return program_ == nullptr ? 0 : program_->allocation_bytes;
}

int ChatTemplate::open(const GgufFile& file, Tokenizer* tokenizer, TextReason* reason) noexcept
{
    std::string_view source;
    const int result = file.get_string(kKeyTemplate, &source, reason);
    if (result != AOTX_OK && result != AOTX_ERR_NOT_FOUND) {
        return result;
    }
    if (source.empty()) {
        const bool chat_ml = tokenizer->find("<|im_start|>", 12) != kTokenNone &&
                             tokenizer->find("<|im_end|>", 10) != kTokenNone;
        if (!chat_ml) {
            return AOTX_OK;
        }
        source = kChatMl;
    }
    if (source.size() > kChatSourceBytesMax) {
        return text_refuse_number(reason, AOTX_ERR_RANGE, kKeyTemplate, "longer than 262144 bytes,",
                                  source.size());
    }
    return open_source(source.data(), static_cast<uint32_t>(source.size()), tokenizer, reason);
}

int ChatTemplate::open_source(const char* source, uint32_t source_bytes, Tokenizer* tokenizer,
                              TextReason* reason) noexcept
{
    AOTX_TEXT_CHECK(program_ == nullptr);
    if (source_bytes > kChatSourceBytesMax) {
        return text_refuse(reason, AOTX_ERR_RANGE, kKeyTemplate, "longer than 262144 bytes");
    }
    std::unique_ptr<ChatProgram> program(new (std::nothrow) ChatProgram);
    if (program != nullptr) {
        program->source.reset(new (std::nothrow) char[source_bytes + 1]);
    }
    if (program == nullptr || program->source == nullptr) {
        return text_refuse(reason, AOTX_ERR_SYSTEM, kKeyTemplate, "no memory");
    }
    program->source_bytes = normalise(source, source_bytes, program->source.get());
    program->allocation_bytes = sizeof(ChatProgram);
    program->bos_text = token_text(*tokenizer, tokenizer->bos());
    program->eos_text = token_text(*tokenizer, tokenizer->eos());
    if (const int result = chat_compile(program.get(), reason); result != AOTX_OK) {
        return result;
    }
    program_ = std::move(program);
    const int result = probe(tokenizer, reason);
    if (result != AOTX_OK) {
        close();
    }
    return result;
}

// A format that cannot take one message of a user is useless: refuse it now and not at each
// request. What it writes for three roles names its own tokens to the tokenizer.
int ChatTemplate::probe(Tokenizer* tokenizer, TextReason* reason) noexcept
{
    ChatScratch scratch;
    if (scratch.open(program_->source_bytes + 65536) != AOTX_OK) {
        return text_refuse(reason, AOTX_ERR_SYSTEM, kKeyTemplate, "no memory");
    }
    tokenizer->mark_structure(program_->pool.get(), program_->pool_bytes);
    const aotx_text_part parts[4] = {text_part("system"), text_part("question"),
                                     text_part("answer"), text_part("question")};
    const aotx_text_message messages[4] = {{AOTX_MESSAGE_ROLE_SYSTEM, 1, &parts[0]},
                                           {AOTX_MESSAGE_ROLE_USER, 1, &parts[1]},
                                           {AOTX_MESSAGE_ROLE_ASSISTANT, 1, &parts[2]},
                                           {AOTX_MESSAGE_ROLE_USER, 1, &parts[3]}};
    ChatText text;
    // Formats may refuse a system message; a conversation without one, and its first message, not.
    if (render(&scratch, messages, 4, &text, nullptr) == AOTX_OK) {
        tokenizer->mark_structure(text.text, text.bytes);
    }
    if (render(&scratch, messages + 1, 3, &text, nullptr) == AOTX_OK) {
        tokenizer->mark_structure(text.text, text.bytes);
    }
    const int result = render(&scratch, messages + 1, 1, &text, reason);
    if (result != AOTX_OK) {
        return result == AOTX_ERR_SYSTEM ? result : AOTX_ERR_RANGE;
    }
    tokenizer->mark_structure(text.text, text.bytes);
    return AOTX_OK;
}

int ChatTemplate::render(ChatScratch* scratch, const aotx_text_message* messages,
                         uint32_t messages_count, ChatText* text, TextReason* reason) const noexcept
{
    if (messages == nullptr || messages_count == 0) {
        return text_refuse(reason, AOTX_ERR_RANGE, "messages", "there are none");
    }
    if (program_ == nullptr) {
        return text_refuse(reason, AOTX_ERR_STATE, kKeyTemplate, "the model file has none");
    }
    return chat_evaluate(*program_, scratch->memory_.get(), messages, messages_count, text, reason);
}

int chat_encode(const ChatTemplate& format, ChatScratch* chat_scratch, const Tokenizer& tokenizer,
                TokenizerScratch* scratch, const aotx_text_message* messages,
                uint32_t messages_count, int32_t* tokens, uint32_t capacity, uint32_t* count,
                TextReason* reason) noexcept
{
    *count = 0;
    ChatText text;
    const int result = format.render(chat_scratch, messages, messages_count, &text, reason);
    if (result != AOTX_OK) {
        return result;
    }
    TextInput input;
    input.text = text.text;
    input.marks = text.marks;
    input.bytes = text.bytes;
    input.add_start_if_absent = true;
    const int encoded = tokenizer.encode(scratch, input, tokens, capacity, count);
    if (encoded != AOTX_OK) {
        return text_refuse(reason, encoded, "prompt", "longer than this model takes");
    }
    return AOTX_OK;
}

}  // namespace aotx
