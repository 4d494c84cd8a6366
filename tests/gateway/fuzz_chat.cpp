// Purpose:  fuzz bodies: what is accepted is a submission payload that adds up, of valid UTF-8, and
// what is refused names a status and a code.
// Owns:     the reader.
// Thread:   one.
// Lifetime: one input; the reader lives as long as the process.
//
// Target functions: ChatReader::read, JsonDocument::open, json_fields_read.
#include <cstring>
#include <memory>
#include <string>

#include "service/base/check.h"
#include "service/gateway/chat_request.h"
#include "service/gateway/utf8.h"

namespace {

uint32_t word(const aotx::ChatRequest& request, size_t* at)
{
    uint32_t value = 0;
    AOTX_CHECK(request.payload_bytes - *at >= sizeof value);
    std::memcpy(&value, request.payload + *at, sizeof value);
    *at += sizeof value;
    return value;
}

void payload_check(const aotx::ChatRequest& request)
{
    size_t at = 0;
    size_t digests = 0;
    const uint32_t messages = word(request, &at);
    AOTX_CHECK(messages >= 1 && messages <= AOTX_SUBMIT_MESSAGES_MAX);
    for (uint32_t i = 0; i < messages; i++) {
        const uint32_t role = word(request, &at);
        const uint32_t parts = word(request, &at);
        AOTX_CHECK(role <= AOTX_MESSAGE_ROLE_ASSISTANT);
        AOTX_CHECK(parts >= 1 && parts <= AOTX_SUBMIT_PARTS_MAX);
        if (request.has_inline_media) {
            return;  // such parts are not written
        }
        for (uint32_t part = 0; part < parts; part++) {
            const uint32_t kind = word(request, &at);
            const uint32_t bytes = word(request, &at);
            AOTX_CHECK(bytes <= request.payload_bytes - at);
            if (kind == AOTX_PART_KIND_TEXT) {
                aotx::Utf8State state;
                aotx::Text text;
                aotx::utf8_step(&state, request.payload + at, bytes, &text);
                aotx::utf8_end(&state, &text);
                AOTX_CHECK(text.size() == bytes);
                AOTX_CHECK(bytes == 0 ||
                           std::memcmp(text.data(), request.payload + at, bytes) == 0);
            } else {
                AOTX_CHECK(bytes == AOTX_DIGEST_BYTES);
                AOTX_CHECK(role == AOTX_MESSAGE_ROLE_USER);
                AOTX_CHECK(request.media[digests].digest_at == at);
                digests++;
            }
            at += bytes;
        }
    }
    AOTX_CHECK(at == request.payload_bytes);
    AOTX_CHECK(digests == request.media_count);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size_bytes)
{
    static const auto reader = std::make_unique<aotx::ChatReader>();
    static aotx::Config config;
    if (config.models.empty()) {
        aotx::ModelConfig model;
        model.alias = "tiny";
        model.role = "language";
        config.models.push_back(model);
    }
    if (size_bytes < 1) {
        return 0;
    }
    std::string body(reinterpret_cast<const char*>(data) + 1, size_bytes - 1);
    const size_t length = body.size();
    body.append(simdjson::SIMDJSON_PADDING, '\0');
    aotx::ChatRequest request;
    aotx::Refusal why;
    if (reader->read({body.data(), length}, data[0] % 2 == 1, config, &request, &why)) {
        payload_check(request);
        AOTX_CHECK(request.temperature >= 0.0f && request.temperature <= 2.0f);
        AOTX_CHECK(request.top_p > 0.0f && request.top_p <= 1.0f);
        AOTX_CHECK(!request.has_output_tokens || request.output_tokens != 0);
    } else {
        AOTX_CHECK(why.status >= 400 && why.status < 600);
        aotx::Text text;
        aotx::refusal_write(why, &text);
    }
    reader->close();
    return 0;
}
