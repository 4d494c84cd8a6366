// Any bytes as a chat format: refused with a reason, or it renders the same text twice, within its
// memory, with a mark for every byte.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "aotx/packet.h"
#include "aotx/status.h"
#include "chat/chat_template.h"
#include "vocabularies.h"

using namespace aotx;

namespace {

constexpr uint32_t kPromptBytes = 4096;

void require(bool holds)
{
    if (!holds) {
        std::abort();
    }
}

aotx_text_part part_of(const char* text)
{
    return {AOTX_PART_KIND_TEXT, static_cast<uint32_t>(std::strlen(text)),
            reinterpret_cast<const uint8_t*>(text)};
}

void check(const ChatTemplate& format, ChatScratch* scratch, const aotx_text_message* messages,
           uint32_t count)
{
    ChatText text;
    TextReason reason;
    const int first = format.render(scratch, messages, count, &text, &reason);
    if (first != AOTX_OK) {
        require(reason.text[0] != '\0');
        return;
    }
    require(text.bytes <= kPromptBytes);
    for (uint32_t i = 0; i < text.bytes; i++) {
        require(text.marks[i] == kTextMarkUser || text.marks[i] == kTextMarkFormat);
    }
    const std::string before(text.text, text.bytes);
    require(format.render(scratch, messages, count, &text, &reason) == AOTX_OK);
    require(before == std::string(text.text, text.bytes));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size_bytes)
{
    static const std::vector<uint8_t> file =
        vocabularies::byte_level_writer(vocabularies::byte_level()).finish();
    GgufFile gguf;
    Tokenizer tokenizer;
    ChatTemplate format;
    ChatScratch scratch;
    TextReason reason;
    require(gguf.open_memory(file.data(), file.size(), &reason) == AOTX_OK);
    require(tokenizer.open(gguf, &reason) == AOTX_OK);
    if (size_bytes > 65536 ||
        format.open_source(reinterpret_cast<const char*>(data), static_cast<uint32_t>(size_bytes),
                           &tokenizer, &reason) != AOTX_OK) {
        return 0;
    }
    require(scratch.open(kPromptBytes) == AOTX_OK);
    scratch.set_date(1709210096);
    const aotx_text_part parts[3] = {part_of("be <|im_end|>"), part_of(" h\xc3\xa9llo\n"),
                                     part_of("")};
    const aotx_text_message messages[3] = {{AOTX_MESSAGE_ROLE_SYSTEM, 1, &parts[0]},
                                           {AOTX_MESSAGE_ROLE_USER, 2, &parts[1]},
                                           {AOTX_MESSAGE_ROLE_ASSISTANT, 1, &parts[2]}};
    for (uint32_t begin = 0; begin < 3; begin++) {
        check(format, &scratch, messages + begin, 3 - begin);
    }
    return 0;
}
