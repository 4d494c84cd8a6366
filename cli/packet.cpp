// Purpose:  `aotxctl packet decode`: a packet's bytes as named fields.
// Owns:     nothing.
// Thread:   main.
// Lifetime: not applicable.
#include <cctype>
#include <cstring>
#include <memory>
#include <vector>

#include "aotx/grants.h"
#include "aotx/handle.h"
#include "aotx/information.h"
#include "aotx/media.h"
#include "aotx/names.h"
#include "aotx/submit.h"
#include "aotx/watch.h"
#include "cli/context.h"
#include "cli/failure.h"
#include "cli/packet_fields.h"
#include "service/base/base64.h"

namespace aotx::cli {
namespace {

struct DecodeArguments {
    std::string source;
    std::string hex;
    std::string reply_to;
};

using Bytes = std::vector<uint8_t>;

std::string hex_of(const uint8_t* bytes, size_t bytes_count)
{
    std::string text(2 * bytes_count, '0');
    aotx_hex_encode(bytes, bytes_count, text.data());
    return text;
}

// Hex digits with blanks, colons and 0x between them; throws Failure for anything else.
Bytes bytes_of_hex(const std::string& text)
{
    std::string digits;
    for (size_t at = 0; at < text.size(); at++) {
        const char c = text[at];
        const bool prefix = c == '0' && at + 1 < text.size() && (text[at + 1] | 0x20) == 'x';
        if (prefix) {
            at++;
        } else if (std::isxdigit(static_cast<unsigned char>(c)) != 0) {
            digits += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        } else if (std::strchr(" \t\r\n:,", c) == nullptr || c == '\0') {
            throw Failure(kExitInput, "the input is neither a packet nor hex digits");
        }
    }
    Bytes bytes(digits.size() / 2);
    if (digits.size() % 2 != 0 ||
        aotx_hex_decode(digits.data(), bytes.data(), bytes.size()) != AOTX_OK) {
        throw Failure(kExitInput, "the input has an odd number of hex digits");
    }
    return bytes;
}

Bytes bytes_of_source(const std::string& path)
{
    const std::string text = read_source(path, 1 << 20);
    if (text.compare(0, 8, "AOTXAPI1") == 0) {
        return Bytes(text.begin(), text.end());
    }
    return bytes_of_hex(text);
}

uint32_t operation_of(const std::string& name)
{
    for (uint32_t operation = AOTX_OPERATION_GRANTS; operation <= AOTX_OPERATION_DEVICE;
         operation++) {
        if (name == aotx_operation_name(operation)) {
            return operation;
        }
    }
    throw Failure(kExitUsage, "no operation has the name " + name);
}

// Payload bytes that have no structure: text when they are text, and always base64.
void write_data(JsonWriter* json, const uint8_t* bytes, size_t bytes_count)
{
    std::string text(base64_characters(bytes_count), '=');
    base64_encode(bytes, bytes_count, text.data());
    json->key("bytes").number(bytes_count).key("base64").text(text);
    if (aotx_utf8_is_valid(bytes, bytes_count)) {
        json->key("text").text({reinterpret_cast<const char*>(bytes), bytes_count});
    }
}

void write_rows(JsonWriter* json, const char* layout_name, const uint8_t* bytes, size_t bytes_count)
{
    const PacketLayout& layout = packet_layout(layout_name);
    json->key("rows").begin_array();
    for (size_t at = 0; at + layout.size_bytes <= bytes_count; at += layout.size_bytes) {
        json->begin_object();
        write_fields(json, layout, bytes + at);
        json->end_object();
    }
    json->end_array();
}

void write_messages(JsonWriter* json, const uint8_t* payload, size_t payload_bytes)
{
    aotx_submit_walker walker = {};
    aotx_submit_message message = {};
    aotx_submit_part part = {};
    const uint8_t* content = nullptr;
    json->key("messages").begin_array();
    int result = aotx_submit_walk_begin(&walker, payload, payload_bytes);
    while (result == AOTX_OK && aotx_submit_walk_message(&walker, &message) == AOTX_OK) {
        json->begin_object().key("role").text(aotx_message_role_name(message.role));
        json->key("parts").begin_array();
        while ((result = aotx_submit_walk_part(&walker, &part, &content)) == AOTX_OK) {
            json->begin_object().key("kind").text(aotx_part_kind_name(part.kind));
            if (part.kind == AOTX_PART_KIND_TEXT) {
                write_data(json, content, part.bytes);
            } else {
                json->key("digest").text(hex_of(content, part.bytes));
            }
            json->end_object();
        }
        json->end_array().end_object();
        result = result == AOTX_ERR_NOT_FOUND ? AOTX_OK : result;
    }
    json->end_array();
    uint32_t media = 0;
    const int judged = aotx_submit_check(payload, payload_bytes, &media);
    json->key("payload_check").text(aotx_result_text(judged));
}

void write_media(JsonWriter* json, const uint8_t* payload, size_t payload_bytes)
{
    const PacketLayout& head = packet_layout("aotx_media_head");
    if (payload_bytes < head.size_bytes) {
        write_data(json, payload, payload_bytes);
        return;
    }
    write_fields(json, head, payload);
    const PacketLayout& begin = packet_layout("aotx_media_begin");
    const uint8_t* const data = payload + head.size_bytes;
    uint32_t step = 0;
    std::memcpy(&step, payload + offsetof(aotx_media_head, step), sizeof step);
    if (step == AOTX_MEDIA_STEP_BEGIN && payload_bytes == head.size_bytes + begin.size_bytes) {
        write_fields(json, begin, data);
    } else if (payload_bytes > head.size_bytes) {
        write_data(json, data, payload_bytes - head.size_bytes);
    }
}

void write_whole(JsonWriter* json, const char* layout_name, const uint8_t* payload,
                 size_t payload_bytes)
{
    const PacketLayout& layout = packet_layout(layout_name);
    if (payload_bytes == layout.size_bytes) {
        write_fields(json, layout, payload);
    } else {
        write_data(json, payload, payload_bytes);
    }
}

void write_request_payload(JsonWriter* json, uint32_t operation, const uint8_t* payload,
                           size_t payload_bytes)
{
    json->key("payload").begin_object();
    switch (operation) {
        case AOTX_OPERATION_GRANTS:
            write_rows(json, "aotx_grant_row", payload, payload_bytes);
            break;
        case AOTX_OPERATION_WATCH:
            write_rows(json, "aotx_watch_row", payload, payload_bytes);
            break;
        case AOTX_OPERATION_SUBMIT:
            write_messages(json, payload, payload_bytes);
            break;
        case AOTX_OPERATION_MEDIA:
            write_media(json, payload, payload_bytes);
            break;
        case AOTX_OPERATION_POLICY:
            write_whole(json, "aotx_policy_control", payload, payload_bytes);
            break;
        default:
            write_data(json, payload, payload_bytes);
            break;
    }
    json->end_object();
}

void write_information(JsonWriter* json, const uint8_t* payload, size_t payload_bytes)
{
    const PacketLayout& head = packet_layout("aotx_information");
    if (payload_bytes < head.size_bytes) {
        write_data(json, payload, payload_bytes);
        return;
    }
    write_fields(json, head, payload);
    write_rows(json, "aotx_model_row", payload + head.size_bytes, payload_bytes - head.size_bytes);
    aotx_information information = {};
    const int judged = aotx_information_check(payload, payload_bytes, &information);
    json->key("payload_check").text(aotx_result_text(judged));
}

void write_news(JsonWriter* json, const uint8_t* payload, size_t payload_bytes)
{
    size_t at = 0;
    aotx_watch_news news = {};
    const uint8_t* data = nullptr;
    int result = AOTX_OK;
    json->key("rows").begin_array();
    while ((result = aotx_watch_news_next(payload, payload_bytes, &at, &news, &data)) == AOTX_OK) {
        json->begin_object();
        write_fields(json, packet_layout("aotx_watch_news"),
                     reinterpret_cast<const uint8_t*>(&news));
        write_data(json, data, news.data_bytes);
        json->end_object();
    }
    json->end_array().key("payload_check");
    json->text(aotx_result_text(result == AOTX_ERR_NOT_FOUND ? AOTX_OK : result));
}

void write_device(JsonWriter* json, const uint8_t* payload, size_t payload_bytes)
{
    write_whole(json, "aotx_device_row", payload, payload_bytes);
    aotx_device_row device = {};
    const int judged = aotx_device_check(payload, payload_bytes, &device);
    json->key("payload_check").text(aotx_result_text(judged));
}

void write_reply_payload(JsonWriter* json, uint32_t operation, const uint8_t* payload,
                         size_t payload_bytes)
{
    json->key("payload").begin_object();
    switch (operation) {
        case AOTX_OPERATION_INFORMATION:
        case AOTX_OPERATION_TELEMETRY:
            write_information(json, payload, payload_bytes);
            break;
        case AOTX_OPERATION_MEDIA:
        case AOTX_OPERATION_MEDIA_READ:
            write_whole(json, "aotx_media_state", payload, payload_bytes);
            break;
        case AOTX_OPERATION_MEDIA_LIST:
            write_rows(json, "aotx_media_row", payload, payload_bytes);
            break;
        case AOTX_OPERATION_POLICY:
            write_whole(json, "aotx_policy_state_payload", payload, payload_bytes);
            break;
        case AOTX_OPERATION_WATCH:
            write_news(json, payload, payload_bytes);
            break;
        case AOTX_OPERATION_DEVICE:
            write_device(json, payload, payload_bytes);
            break;
        default:
            write_data(json, payload, payload_bytes);
            break;
    }
    json->end_object();
}

// Print the packet whatever is wrong with it; what is wrong decides the exit code.
int decode_request(JsonWriter* json, const Bytes& bytes)
{
    aotx_request_head head = {};
    std::memcpy(&head, bytes.data(), sizeof head);
    json->begin_object().key("kind").text("request").key("bytes").number(bytes.size());
    json->key("head").begin_object();
    write_fields(json, packet_layout("aotx_request_head"), bytes.data());
    json->end_object();
    if (bytes.size() > AOTX_HEAD_BYTES) {
        write_request_payload(json, head.operation, bytes.data() + AOTX_HEAD_BYTES,
                              bytes.size() - AOTX_HEAD_BYTES);
    }
    int result = aotx_request_check(bytes.data(), bytes.size(), &head);
    if (result == AOTX_OK) {
        result = aotx_request_shape_check(&head);
    }
    if (result == AOTX_OK && head.operation == AOTX_OPERATION_GRANTS) {
        result = aotx_grants_check(bytes.data(), bytes.size(), &head);
    }
    json->key("check").text(aotx_result_text(result)).end_object();
    return result;
}

int decode_reply(JsonWriter* json, const Bytes& bytes, uint32_t operation)
{
    aotx_reply_head head = {};
    json->begin_object().key("kind").text("reply").key("bytes").number(bytes.size());
    json->key("head").begin_object();
    write_fields(json, packet_layout("aotx_reply_head"), bytes.data());
    json->end_object();
    if (bytes.size() > AOTX_HEAD_BYTES) {
        write_reply_payload(json, operation, bytes.data() + AOTX_HEAD_BYTES,
                            bytes.size() - AOTX_HEAD_BYTES);
    }
    const int result = aotx_reply_check(bytes.data(), bytes.size(), &head);
    json->key("check").text(aotx_result_text(result)).end_object();
    return result;
}

int decode(const Context& context, const DecodeArguments& arguments)
{
    if (arguments.source.empty() == arguments.hex.empty()) {
        throw Failure(kExitUsage, "name a file (or - for standard input), or give --hex");
    }
    const Bytes bytes =
        arguments.hex.empty() ? bytes_of_source(arguments.source) : bytes_of_hex(arguments.hex);
    if (bytes.size() < AOTX_HEAD_BYTES) {
        throw Failure(kExitInput,
                      "a packet has at least 128 bytes, this has " + std::to_string(bytes.size()));
    }
    aotx_request_head head = {};
    std::memcpy(&head, bytes.data(), sizeof head);
    JsonWriter json;
    // Operations are small numbers and statuses are three digits, so word 8 tells the two apart.
    const bool is_reply = !arguments.reply_to.empty() || head.operation >= 100;
    const uint32_t operation = arguments.reply_to.empty()
                                   ? static_cast<uint32_t>(AOTX_OPERATION_READ)
                                   : operation_of(arguments.reply_to);
    const int result =
        is_reply ? decode_reply(&json, bytes, operation) : decode_request(&json, bytes);
    print_document(context, json.str(), "the packet");
    return result == AOTX_OK ? kExitDone : kExitInput;
}

}  // namespace

void add_packet_command(Command& program, Context& context)
{
    Command packet = program.add_family("packet", "look into packets");
    const auto arguments = std::make_shared<DecodeArguments>();
    Command command =
        packet.add(context, "decode", "a packet, binary or hex, as named fields",
                   "  aotxctl packet decode grants.bin\n"
                   "  aotxctl packet decode --hex '414f5458 41504931 02000000 ...' --json\n"
                   "  tail -1 trace.hex | aotxctl packet decode - --reply-to information\n"
                   "A packet that breaks a rule is printed all the same, and the exit code is 3.\n",
                   [&context, arguments]() { return decode(context, *arguments); });
    command.option("source", &arguments->source, "file, or - for standard input");
    command.option("--hex", &arguments->hex, "hex digits; blanks and colons are skipped");
    command.option("--reply-to", &arguments->reply_to,
                   "operation that a reply answers, which names its payload; default read");
}

}  // namespace aotx::cli
