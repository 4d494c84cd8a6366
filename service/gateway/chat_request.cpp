// Purpose:  turn the JSON body of a completion or of a native request into a submission payload;
// see chat_request.h.
// Owns:     nothing of its own.
// Thread:   one thread an object.
// Lifetime: not applicable.
#include "chat_request.h"

#include <cstring>

#include "aotx/handle.h"
#include "service/base/base64.h"
#include "service/base/check.h"

namespace aotx {
namespace {

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::object;

enum BodyField : size_t {
    kModel,
    kMessages,
    kStream,
    kStreamOptions,
    kTemperature,
    kTopP,
    kMaxTokens,
    kMaxCompletionTokens,
    kN,
    kModalities,
    kStore
};
constexpr std::string_view kBodyNames[] = {
    "model",       "messages",   "stream",     "stream_options",
    "temperature", "top_p",      "max_tokens", "max_completion_tokens",
    "n",           "modalities", "store"};

enum MessageField : size_t { kRole, kContent };
constexpr std::string_view kMessageNames[] = {"role", "content"};

enum PartField : size_t { kType, kText, kImageUrl, kInputAudio, kMediaId, kModality };
constexpr std::string_view kPartNames[] = {"type",        "text",     "image_url",
                                           "input_audio", "media_id", "modality"};

constexpr std::string_view kJpegPrefix = "data:image/jpeg;base64,";
constexpr std::string_view kHttpsPrefix = "https://";

bool string_get(const element& value, std::string_view* text)
{
    return value.get_string().get(*text) == simdjson::SUCCESS;
}

bool bool_get(const element& value, bool* flag)
{
    return value.get_bool().get(*flag) == simdjson::SUCCESS;
}

// A number, written as an integer or not.
bool number_get(const element& value, double* number)
{
    return value.is_number() && value.get_double().get(*number) == simdjson::SUCCESS;
}

// An integer written as one: 5 and not 5.0.
bool integer_get(const element& value, uint64_t* number)
{
    return value.is_uint64() && value.get_uint64().get(*number) == simdjson::SUCCESS;
}

// Whether a text is base64, without keeping its bytes.
bool is_base64(std::string_view text)
{
    constexpr size_t piece_characters = 4096;
    uint8_t bytes[base64_bytes_max(piece_characters)];
    if (text.empty()) {
        return false;
    }
    while (!text.empty()) {
        const std::string_view piece = text.substr(0, piece_characters);
        text.remove_prefix(piece.size());
        size_t bytes_count = 0;
        if (base64_decode(piece.data(), piece.size(), bytes, &bytes_count) != AOTX_OK) {
            return false;
        }
        if (!text.empty() && piece.back() == '=') {
            return false;
        }
    }
    return true;
}

bool role_get(std::string_view name, uint32_t* role)
{
    if (name == "system") {
        *role = AOTX_MESSAGE_ROLE_SYSTEM;
    } else if (name == "user") {
        *role = AOTX_MESSAGE_ROLE_USER;
    } else if (name == "assistant") {
        *role = AOTX_MESSAGE_ROLE_ASSISTANT;
    } else {
        return false;
    }
    return true;
}

}  // namespace

bool ChatReader::read(std::string_view body, bool native, const Config& config,
                      ChatRequest* request, Refusal* why) noexcept
{
    document_.close();
    reader_ = JsonReader();
    request_ = ChatRequest();
    config_ = &config;
    native_ = native;
    object root;
    if (!document_.open(body, &reader_, &root) || !body_read(root)) {
        *why = reader_.refusal;
        return false;
    }
    request_.payload = payload_;
    *request = request_;
    return true;
}

bool ChatReader::body_read(const object& root)
{
    JsonFields fields;
    if (!json_fields_read(root, kBodyNames, std::size(kBodyNames), &reader_, &fields)) {
        return false;
    }
    if (!fields.has(kModel)) {
        return reader_.fail("A model is required.", "model");
    }
    if (!fields.has(kMessages)) {
        return reader_.fail("Messages are required.", "messages");
    }
    return stream_read(fields) && controls_read(fields) && output_tokens_read(fields) &&
           messages_read(fields.values[kMessages]) && model_read(fields.values[kModel]);
}

bool ChatReader::model_read(const element& value)
{
    std::string_view alias;
    if (!string_get(value, &alias)) {
        return reader_.fail("The model must be a string.", "model");
    }
    for (size_t i = 0; i < config_->models.size(); i++) {
        if (config_->models[i].alias == alias) {
            request_.model = i;
            return true;
        }
    }
    return reader_.fail(refusal(Code::ModelNotFound, "No such model is available.", "model"));
}

bool ChatReader::stream_read(const JsonFields& fields)
{
    if (fields.has(kStream) && !bool_get(fields.values[kStream], &request_.stream)) {
        return reader_.fail("Must be true or false.", "stream");
    }
    if (native_ && request_.stream) {
        return reader_.fail("This route does not stream; read the request's events.", "stream");
    }
    if (!fields.has(kStreamOptions)) {
        return true;
    }
    if (!request_.stream) {
        return reader_.fail("Only a streamed answer takes stream_options.", "stream_options");
    }
    object options;
    if (fields.values[kStreamOptions].get_object().get(options) != simdjson::SUCCESS) {
        return reader_.fail("Must be an object.", "stream_options");
    }
    constexpr std::string_view names[] = {"include_usage"};
    const size_t before = reader_.path.enter("stream_options");
    JsonFields inner;
    if (!json_fields_read(options, names, std::size(names), &reader_, &inner)) {
        return false;
    }
    if (inner.has(0) && !bool_get(inner.values[0], &request_.include_usage)) {
        return reader_.fail("Must be true or false.", "include_usage");
    }
    reader_.path.leave(before);
    return true;
}

bool ChatReader::controls_read(const JsonFields& fields)
{
    double number = 1.0;
    if (fields.has(kTemperature)) {
        if (!number_get(fields.values[kTemperature], &number) || !(number >= 0.0) ||
            !(number <= static_cast<double>(AOTX_OUTPUT_TEMPERATURE_MAX))) {
            return reader_.fail("Must be a number from 0 to 2.", "temperature");
        }
        request_.temperature = static_cast<float>(number);
    }
    if (fields.has(kTopP)) {
        if (!number_get(fields.values[kTopP], &number) || !(static_cast<float>(number) > 0.0f) ||
            !(number <= 1.0)) {
            return reader_.fail("Must be a number above 0 and at most 1.", "top_p");
        }
        request_.top_p = static_cast<float>(number);
    }
    uint64_t count = 0;
    if (fields.has(kN) && (!integer_get(fields.values[kN], &count) || count != 1)) {
        return reader_.fail("Only one choice is offered.", "n");
    }
    bool store = false;
    if (fields.has(kStore) && (!bool_get(fields.values[kStore], &store) || store)) {
        return reader_.fail("Answers are not stored.", "store");
    }
    if (!fields.has(kModalities)) {
        return true;
    }
    array list;
    std::string_view name;
    if (fields.values[kModalities].get_array().get(list) != simdjson::SUCCESS || list.size() != 1 ||
        !string_get(list.at(0).value_unsafe(), &name) || name != "text") {
        return reader_.fail("Only text is produced.", "modalities");
    }
    return true;
}

bool ChatReader::output_tokens_read(const JsonFields& fields)
{
    if (fields.has(kMaxTokens) && fields.has(kMaxCompletionTokens)) {
        return reader_.fail("Give one token limit, not two.", "max_tokens");
    }
    const size_t index = fields.has(kMaxTokens) ? kMaxTokens : kMaxCompletionTokens;
    if (!fields.has(index)) {
        return true;
    }
    uint64_t count = 0;
    if (!integer_get(fields.values[index], &count) || count == 0 || count > UINT32_MAX) {
        return reader_.fail("Must be an integer above 0.", kBodyNames[index]);
    }
    request_.has_output_tokens = true;
    request_.output_tokens = static_cast<uint32_t>(count);
    request_.output_tokens_name = kBodyNames[index];
    return true;
}

bool ChatReader::messages_read(const element& value)
{
    array list;
    if (value.get_array().get(list) != simdjson::SUCCESS || list.size() == 0 ||
        list.size() > AOTX_SUBMIT_MESSAGES_MAX) {
        return reader_.fail("Must be an array of 1 to 64 messages.", "messages");
    }
    const size_t before = reader_.path.enter("messages");
    const uint32_t count = static_cast<uint32_t>(list.size());
    if (!payload_write(&count, sizeof count)) {
        return false;
    }
    size_t index = 0;
    for (const element message : list) {
        const size_t inner = reader_.path.enter(index++);
        if (!message_read(message)) {
            return false;
        }
        reader_.path.leave(inner);
    }
    reader_.path.leave(before);
    return true;
}

bool ChatReader::message_read(const element& value)
{
    object message;
    JsonFields fields;
    if (value.get_object().get(message) != simdjson::SUCCESS) {
        return reader_.fail("Must be an object.");
    }
    if (!json_fields_read(message, kMessageNames, std::size(kMessageNames), &reader_, &fields)) {
        return false;
    }
    std::string_view name;
    uint32_t role = 0;
    if (!fields.has(kRole) || !string_get(fields.values[kRole], &name) || !role_get(name, &role)) {
        return reader_.fail("Must be system, user or assistant.", "role");
    }
    if (!fields.has(kContent)) {
        return reader_.fail("Content is required.", "content");
    }
    const size_t before = reader_.path.enter("content");
    const bool good = content_read(fields.values[kContent], role);
    if (good) {
        reader_.path.leave(before);
    }
    return good;
}

bool ChatReader::content_read(const element& value, uint32_t role)
{
    std::string_view text;
    aotx_submit_message head = {role, 1};
    if (string_get(value, &text)) {
        return payload_write(&head, sizeof head) &&
               part_write(AOTX_PART_KIND_TEXT, text.data(), text.size());
    }
    array parts;
    if (value.get_array().get(parts) != simdjson::SUCCESS || parts.size() == 0 ||
        parts.size() > AOTX_SUBMIT_PARTS_MAX) {
        return reader_.fail("Must be a string or an array of 1 to 32 parts.");
    }
    head.parts_count = static_cast<uint32_t>(parts.size());
    if (!payload_write(&head, sizeof head)) {
        return false;
    }
    size_t index = 0;
    for (const element part : parts) {
        const size_t inner = reader_.path.enter(index++);
        if (!part_read(part, role)) {
            return false;
        }
        reader_.path.leave(inner);
    }
    return true;
}

bool ChatReader::part_read(const element& value, uint32_t role)
{
    object part;
    JsonFields fields;
    if (value.get_object().get(part) != simdjson::SUCCESS) {
        return reader_.fail("Must be an object.");
    }
    if (!json_fields_read(part, kPartNames, std::size(kPartNames), &reader_, &fields)) {
        return false;
    }
    std::string_view type;
    if (!fields.has(kType) || !string_get(fields.values[kType], &type)) {
        return reader_.fail("A part needs a type.", "type");
    }
    const uint32_t others = fields.present & ~(1u << kType);
    if (type == "text") {
        std::string_view text;
        if (others != 1u << kText || !string_get(fields.values[kText], &text)) {
            return reader_.fail("A text part holds a text and nothing else.", "text");
        }
        return part_write(AOTX_PART_KIND_TEXT, text.data(), text.size());
    }
    const bool known = type == "image_url" || type == "input_audio" || (native_ && type == "media");
    if (!known) {
        return reader_.fail("No such type of part.", "type");
    }
    if (role != AOTX_MESSAGE_ROLE_USER) {
        return reader_.fail("Only user messages take media.", "type");
    }
    if (type == "image_url") {
        return others == 1u << kImageUrl ? image_read(fields.values[kImageUrl])
                                         : reader_.fail("Must hold image_url only.", "image_url");
    }
    if (type == "input_audio") {
        return others == 1u << kInputAudio
                   ? audio_read(fields.values[kInputAudio])
                   : reader_.fail("Must hold input_audio only.", "input_audio");
    }
    return others == (1u << kMediaId | 1u << kModality)
               ? media_read(fields)
               : reader_.fail("A media part holds media_id and modality.", "media_id");
}

bool ChatReader::image_read(const element& value)
{
    constexpr std::string_view names[] = {"url", "detail"};
    constexpr size_t url_bytes_max = 2048;
    const size_t before = reader_.path.enter("image_url");
    object image;
    JsonFields fields;
    if (value.get_object().get(image) != simdjson::SUCCESS) {
        return reader_.fail("Must be an object.");
    }
    if (!json_fields_read(image, names, std::size(names), &reader_, &fields)) {
        return false;
    }
    std::string_view text;
    if (fields.has(1) && (!string_get(fields.values[1], &text) || text != "auto")) {
        return reader_.fail("Only auto is offered.", "detail");
    }
    if (!fields.has(0) || !string_get(fields.values[0], &text)) {
        return reader_.fail("A URL is required.", "url");
    }
    const bool inline_jpeg = text.substr(0, kJpegPrefix.size()) == kJpegPrefix &&
                             is_base64(text.substr(kJpegPrefix.size()));
    const bool https =
        text.substr(0, kHttpsPrefix.size()) == kHttpsPrefix && text.size() <= url_bytes_max;
    if (!inline_jpeg && !https) {
        return reader_.fail("Must be a base64 JPEG data URL or an https URL.", "url");
    }
    request_.has_inline_media = true;
    reader_.path.leave(before);
    return true;
}

bool ChatReader::audio_read(const element& value)
{
    constexpr std::string_view names[] = {"data", "format"};
    const size_t before = reader_.path.enter("input_audio");
    object audio;
    JsonFields fields;
    if (value.get_object().get(audio) != simdjson::SUCCESS) {
        return reader_.fail("Must be an object.");
    }
    if (!json_fields_read(audio, names, std::size(names), &reader_, &fields)) {
        return false;
    }
    std::string_view text;
    if (!fields.has(1) || !string_get(fields.values[1], &text) || text != "wav") {
        return reader_.fail("Only wav is offered.", "format");
    }
    if (!fields.has(0) || !string_get(fields.values[0], &text) || !is_base64(text)) {
        return reader_.fail("Must be base64.", "data");
    }
    request_.has_inline_media = true;
    reader_.path.leave(before);
    return true;
}

bool ChatReader::media_read(const JsonFields& fields)
{
    std::string_view text;
    ChatMedia media = {};
    if (!string_get(fields.values[kMediaId], &text) ||
        aotx_media_handle_parse(text.data(), text.size(), media.id) != AOTX_OK) {
        return reader_.fail("Must be a media handle.", "media_id");
    }
    if (!string_get(fields.values[kModality], &text) || (text != "image" && text != "audio")) {
        return reader_.fail("Must be image or audio.", "modality");
    }
    if (request_.media_count == kChatMediaMax) {
        return reader_.fail(refusal(Code::MediaLimit, "Too many media parts.", "messages"));
    }
    const bool image = text == "image";
    media.modality = image ? AOTX_MODALITY_IMAGE : AOTX_MODALITY_AUDIO;
    const uint8_t digest[AOTX_DIGEST_BYTES] = {};
    if (!part_write(image ? AOTX_PART_KIND_IMAGE : AOTX_PART_KIND_AUDIO, digest, sizeof digest)) {
        return false;
    }
    media.digest_at = static_cast<uint32_t>(request_.payload_bytes - sizeof digest);
    request_.media[request_.media_count++] = media;
    return true;
}

bool ChatReader::part_write(uint32_t kind, const void* bytes, size_t bytes_count)
{
    const size_t counted = bytes_count < UINT32_MAX ? bytes_count : UINT32_MAX;
    const aotx_submit_part head = {kind, static_cast<uint32_t>(counted)};
    return payload_write(&head, sizeof head) && payload_write(bytes, bytes_count);
}

bool ChatReader::payload_write(const void* bytes, size_t bytes_count)
{
    AOTX_CHECK(request_.payload_bytes <= sizeof payload_);
    if (bytes_count > sizeof payload_ - request_.payload_bytes) {
        return reader_.fail(
            refusal(Code::FrameLimit, "The messages do not fit one submission.", "messages"));
    }
    if (bytes_count != 0) {
        std::memcpy(payload_ + request_.payload_bytes, bytes, bytes_count);
    }
    request_.payload_bytes += bytes_count;
    return true;
}

}  // namespace aotx
