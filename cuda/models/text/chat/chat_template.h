// Purpose:  the model file's own chat format: a strict subset of Jinja, compiled at open and
//           evaluated over a fixed arena. Every byte of the result says whether the format or a
//           message wrote it, so that special tokens never come out of message text.
// Owns:     the compiled program; a ChatScratch owns what rendering writes to.
// Thread:   open on one thread; afterwards read-only and for any thread, one scratch each.
// Lifetime: open -> render -> close. The GgufFile and the Tokenizer given to open outlive it.
#pragma once

#include <cstdint>

#include "aotx/text_runtime.h"
#include "file/gguf.h"
#include "reason.h"
#include "tokenizer/tokenizer.h"

namespace aotx {

struct ChatProgram;
struct ChatScratchMemory;

// The result of one rendering: text and one TextMark per byte, both inside the scratch and valid
// until its next use.
struct ChatText {
    const char* text = nullptr;
    const uint8_t* marks = nullptr;
    uint32_t bytes = 0;
};

class ChatScratch {
public:
    ChatScratch() noexcept;
    ~ChatScratch();
    ChatScratch(const ChatScratch&) = delete;
    ChatScratch& operator=(const ChatScratch&) = delete;

    // Room for a result of prompt_bytes_max bytes and the values on the way to it.
    // AOTX_ERR_SYSTEM: no memory.
    [[nodiscard]] int open(uint32_t prompt_bytes_max) noexcept;
    uint64_t allocation_bytes() const noexcept;
    // The moment that formats which tell the date believe in, seconds since 1970; 0: the clock.
    void set_date(int64_t seconds) noexcept;

private:
    friend class ChatTemplate;
    std::unique_ptr<ChatScratchMemory> memory_;
};

class ChatTemplate {
public:
    ChatTemplate() noexcept;
    ~ChatTemplate();
    ChatTemplate(const ChatTemplate&) = delete;
    ChatTemplate& operator=(const ChatTemplate&) = delete;

    // Compile the file's tokenizer.chat_template and render one probe with it. A file without one
    // gets ChatML when its vocabulary has both marks of that format; otherwise present() is false.
    // AOTX_ERR_SYNTAX not a template; AOTX_ERR_RANGE a feature that this subset lacks, or a
    // template that fails on a plain user message; AOTX_ERR_SYSTEM no memory. reason names the
    // feature and its line. Tells the tokenizer the format's own tokens (mark_structure).
    [[nodiscard]] int open(const GgufFile& file, Tokenizer* tokenizer, TextReason* reason) noexcept;
    // The same from source text that the caller keeps alive.
    [[nodiscard]] int open_source(const char* source, uint32_t source_bytes, Tokenizer* tokenizer,
                                  TextReason* reason) noexcept;
    void close() noexcept;

    bool present() const noexcept;
    uint64_t allocation_bytes() const noexcept;

    // Apply the format with the opening of an answer behind it. Parts of one message are joined
    // with a line break. AOTX_ERR_RANGE: null or empty input, a role or kind out of range;
    // AOTX_ERR_STATE: no format, a media part, or an order of messages that the format refuses,
    // reason (may be null) carries its words; AOTX_ERR_FULL: over the scratch. [hot: no allocation]
    [[nodiscard]] int render(ChatScratch* scratch, const aotx_text_message* messages,
                             uint32_t messages_count, ChatText* text,
                             TextReason* reason) const noexcept;

private:
    int probe(Tokenizer* tokenizer, TextReason* reason) noexcept;

    std::unique_ptr<ChatProgram> program_;
};

// Render and encode in one: what aotx_text_runtime_v1.render does. Exactly one start token when the
// file wants one. Results as ChatTemplate::render and Tokenizer::encode. [hot]
[[nodiscard]] int chat_encode(const ChatTemplate& format, ChatScratch* chat_scratch,
                              const Tokenizer& tokenizer, TokenizerScratch* scratch,
                              const aotx_text_message* messages, uint32_t messages_count,
                              int32_t* tokens, uint32_t capacity, uint32_t* count,
                              TextReason* reason) noexcept;

}  // namespace aotx
