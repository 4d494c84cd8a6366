// Purpose:  turn the JSON body of a completion or of a native request into a submission payload.
// Owns:     the payload and the parser's memory of each ChatReader.
// Thread:   one thread an object.
// Lifetime: a ChatRequest is valid until its reader reads the next body or is closed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "aotx/packet.h"
#include "json_fields.h"
#include "refusal.h"
#include "service/config/config.h"

namespace aotx {

constexpr size_t kChatMediaMax = 32;

// A media part that names a source of the device; its digest has to be read before submission.
struct ChatMedia {
    uint8_t id[AOTX_ID_BYTES];
    uint32_t modality;   // enum aotx_modality
    uint32_t digest_at;  // where its 32 bytes stand in the payload
};

struct ChatRequest {
    size_t model = 0;  // index into the configuration's models
    bool stream = false;
    bool include_usage = false;
    bool has_inline_media = false;  // data: or https: parts; their payload parts are not written
    bool has_output_tokens = false;
    uint32_t output_tokens = 0;
    std::string_view output_tokens_name;  // the field that set it
    float temperature = 1.0f;
    float top_p = 1.0f;
    ChatMedia media[kChatMediaMax];
    size_t media_count = 0;
    const uint8_t* payload = nullptr;
    size_t payload_bytes = 0;
};

class ChatReader {
public:
    // Read a body. native: the native route, which takes reusable media parts and no streaming.
    // body is followed by simdjson::SIMDJSON_PADDING readable bytes. On failure the refusal's texts
    // are valid as long as the request would be.
    [[nodiscard]] bool read(std::string_view body, bool native, const Config& config,
                            ChatRequest* request, Refusal* why) noexcept;
    // Give back what a large body took. Called when the request has been used.
    void close() noexcept { document_.close(); }

private:
    bool body_read(const simdjson::dom::object& root);
    bool model_read(const simdjson::dom::element& value);
    bool controls_read(const JsonFields& fields);
    bool output_tokens_read(const JsonFields& fields);
    bool stream_read(const JsonFields& fields);
    bool messages_read(const simdjson::dom::element& value);
    bool message_read(const simdjson::dom::element& value);
    bool content_read(const simdjson::dom::element& value, uint32_t role);
    bool part_read(const simdjson::dom::element& value, uint32_t role);
    bool image_read(const simdjson::dom::element& value);
    bool audio_read(const simdjson::dom::element& value);
    bool media_read(const JsonFields& fields);
    bool part_write(uint32_t kind, const void* bytes, size_t bytes_count);
    bool payload_write(const void* bytes, size_t bytes_count);

    JsonDocument document_;
    JsonReader reader_;
    ChatRequest request_;
    const Config* config_ = nullptr;
    bool native_ = false;
    uint8_t payload_[AOTX_PAYLOAD_BYTES_MAX];
};

}  // namespace aotx
