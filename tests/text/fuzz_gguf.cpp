// Any bytes as a model file: refused with a reason, or every view lies inside them; and what the
// tokenizer and the chat format then build from it is refused or works.
#include <cstdint>
#include <cstdlib>

#include "aotx/packet.h"
#include "aotx/status.h"
#include "chat/chat_template.h"
#include "file/gguf.h"
#include "tokenizer/tokenizer.h"

using namespace aotx;

namespace {

void require(bool holds)
{
    if (!holds) {
        std::abort();
    }
}

void check_tensors(const GgufFile& file, const uint8_t* data, size_t bytes)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < file.tensors_count(); i++) {
        const GgufTensor& tensor = file.tensor(i);
        require(tensor.data >= data && tensor.data + tensor.bytes <= data + bytes);
        require(file.find_tensor(tensor.name) == &tensor);
        require(tensor.elements % gguf_block(tensor.type).elements == 0);
        sum += tensor.bytes;
        volatile uint8_t last = tensor.data[tensor.bytes - 1];
        (void)last;
    }
    require(sum <= bytes);  // they do not overlap
}

void check_text(const GgufFile& file)
{
    Tokenizer tokenizer;
    TextReason reason;
    if (tokenizer.open(file, &reason) != AOTX_OK) {
        require(reason.text[0] != '\0');
        return;
    }
    TokenizerScratch scratch;
    ChatScratch chat_scratch;
    require(scratch.open(512) == AOTX_OK && chat_scratch.open(512) == AOTX_OK);
    TextInput input;
    input.text = "a b <s> \xc3\xa9";
    input.bytes = 10;
    input.parse_special = true;
    int32_t tokens[2048];
    uint32_t count = 0;
    require(tokenizer.encode(&scratch, input, tokens, 2048, &count) == AOTX_OK);
    for (uint32_t i = 0; i < count; i++) {
        require(tokens[i] >= 0 && static_cast<uint32_t>(tokens[i]) < tokenizer.vocab_size());
    }
    ChatTemplate format;
    if (format.open(file, &tokenizer, &reason) != AOTX_OK || !format.present()) {
        return;
    }
    const aotx_text_part part = {AOTX_PART_KIND_TEXT, 2, reinterpret_cast<const uint8_t*>("hi")};
    const aotx_text_message message = {AOTX_MESSAGE_ROLE_USER, 1, &part};
    (void)chat_encode(format, &chat_scratch, tokenizer, &scratch, &message, 1, tokens, 2048, &count,
                      &reason);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size_bytes)
{
    GgufFile file;
    TextReason reason;
    if (file.open_memory(data, size_bytes, &reason) != AOTX_OK) {
        require(reason.text[0] != '\0');
        return 0;
    }
    check_tensors(file, data, size_bytes);
    check_text(file);
    return 0;
}
