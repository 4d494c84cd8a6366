// Purpose:  bodies by tables: what becomes a submission, what is refused and which field it names;
// UTF-8 in every cut; JSON text.
// Owns:     nothing.
// Thread:   the test's.
// Lifetime: one run.
#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <string>

#include "guard_page.h"
#include "service/gateway/chat_request.h"
#include "service/gateway/utf8.h"

namespace {

aotx::Config config_make()
{
    aotx::Config config;
    aotx::ModelConfig model;
    model.alias = "tiny";
    model.role = "language";
    config.models = {model, model};
    config.models[1].alias = "other";
    return config;
}

struct Read {
    bool good = false;
    aotx::ChatRequest request;
    uint32_t status = 0;
    std::string code;
    std::string param;
    std::string payload;
};

Read read(const std::string& body, bool native = false)
{
    static const aotx::Config config = config_make();
    static const auto reader = std::make_unique<aotx::ChatReader>();
    // The parser may read the padding and nothing behind it.
    const std::string padded = body + std::string(simdjson::SIMDJSON_PADDING, '\xff');
    const GuardCopy copy(padded.data(), padded.size());
    Read result;
    aotx::Refusal why;
    result.good = reader->read({copy.begin(), body.size()}, native, config, &result.request, &why);
    if (result.good) {
        result.payload.assign(reinterpret_cast<const char*>(result.request.payload),
                              result.request.payload_bytes);
    } else {
        result.status = why.status;
        result.code = std::string(why.code);
        result.param = std::string(why.param);
    }
    reader->close();
    return result;
}

const std::string kMessages = "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]";

std::string with(const std::string& more)
{
    return "{\"model\":\"tiny\"," + kMessages + (more.empty() ? "" : ",") + more + "}";
}

std::string message(const std::string& inside)
{
    return "{\"model\":\"tiny\",\"messages\":[" + inside + "]}";
}

std::string part(const std::string& inside)
{
    return message("{\"role\":\"user\",\"content\":[" + inside + "]}");
}

std::string repeat(const std::string& text, size_t times)
{
    std::string joined;
    for (size_t i = 0; i < times; i++) {
        joined += text;
    }
    return joined;
}

}  // namespace

TEST_CASE("bodies that are taken")
{
    const Read plain = read(with(""));
    REQUIRE(plain.good);
    CHECK(plain.request.model == 0);
    CHECK(plain.request.temperature == 1.0f);
    CHECK(plain.request.top_p == 1.0f);
    CHECK_FALSE(plain.request.stream);
    CHECK_FALSE(plain.request.has_output_tokens);
    CHECK(plain.payload == std::string("\1\0\0\0\1\0\0\0\1\0\0\0\0\0\0\0\2\0\0\0hi", 22));

    const Read full = read(
        " {\"stream_options\":{\"include_usage\":true},\"stream\":true,\"temperature\":0,"
        "\"top_p\":0.5,\"max_completion_tokens\":9,\"n\":1,\"modalities\":[\"text\"],"
        "\"store\":false,\"model\":\"other\"," +
        kMessages + "}\r\n");
    REQUIRE(full.good);
    CHECK(full.request.model == 1);
    CHECK(full.request.stream);
    CHECK(full.request.include_usage);
    CHECK(full.request.temperature == 0.0f);
    CHECK(full.request.top_p == 0.5f);
    CHECK(full.request.output_tokens == 9);

    const Read parts = read(message(
        "{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"assistant\",\"content\":[{\"type\":"
        "\"text\",\"text\":\"\"},{\"text\":\"\\u4f60\\ud83d\\ude00\\u0000\",\"type\":\"text\"}]}"));
    REQUIRE(parts.good);
    CHECK(parts.payload == std::string("\2\0\0\0"
                                       "\0\0\0\0\1\0\0\0\0\0\0\0\1\0\0\0s"
                                       "\2\0\0\0\2\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x8\0\0\0"
                                       "\xe4\xbd\xa0\xf0\x9f\x98\x80\0",
                                       4 + 17 + 8 + 8 + 8 + 8));

    const std::string id = "media-0123456789abcdef0123456789abcdef";
    const Read media =
        read(part("{\"type\":\"media\",\"media_id\":\"" + id + "\",\"modality\":\"audio\"}"), true);
    REQUIRE(media.good);
    REQUIRE(media.request.media_count == 1);
    CHECK(media.request.media[0].digest_at == 4 + 8 + 8);
    CHECK(media.request.media[0].id[15] == 0xef);
    CHECK(media.payload.size() == 4 + 8 + 8 + 32);

    CHECK(read(part("{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:image/jpeg;base64,"
                    "/9j/4A==\",\"detail\":\"auto\"}}"))
              .request.has_inline_media);
    CHECK(read(part("{\"type\":\"input_audio\",\"input_audio\":{\"data\":\"" +
                    repeat("QUJD", 3000) + "\",\"format\":\"wav\"}}"))
              .request.has_inline_media);
    for (const char* more : {"\"temperature\":2", "\"temperature\":1e-3", "\"top_p\":1",
                             "\"max_tokens\":4294967295", "\"stream\":null", "\"n\":null"}) {
        INFO(more);
        CHECK(read(with(more)).good);
    }
}

TEST_CASE("bodies that are refused, with the field that is wrong")
{
    struct Row {
        std::string body;
        const char* param;
        const char* code = "invalid_field";
        uint32_t status = 400;
        bool native = false;
    };
    const std::string id = "media-0123456789abcdef0123456789abcdef";
    const std::string media = "{\"type\":\"media\",\"media_id\":\"" + id + "\",\"modality\":";
    const Row rows[] = {
        {"", ""},
        {" ", ""},
        {"[]", ""},
        {"\"a\"", ""},
        {"null", ""},
        {"{", ""},
        {"{}", "model"},
        {"{}{}", ""},
        {with("") + "x", ""},
        {"\xef\xbb\xbf" + with(""), ""},
        {"{\"model\":\"tiny\"}", "messages"},
        {"{" + kMessages + "}", "model"},
        {"{\"model\":1," + kMessages + "}", "model"},
        {"{\"model\":\"none\"," + kMessages + "}", "model", "model_not_found", 404},
        {with("\"unknown\":1"), "unknown"},
        {with("\"stop\":[]"), "stop"},
        {with("\"model\":\"tiny\""), "model"},
        {with("\"mo\\u0064el\":\"tiny\""), "model"},
        {with("\"stream\":1"), "stream"},
        {with("\"stream\":\"true\""), "stream"},
        {with("\"stream\":true"), "stream", "invalid_field", 400, true},
        {with("\"stream_options\":{}"), "stream_options"},
        {with("\"stream\":false,\"stream_options\":{\"include_usage\":true}"), "stream_options"},
        {with("\"stream\":true,\"stream_options\":true"), "stream_options"},
        {with("\"stream\":true,\"stream_options\":{\"x\":1}"), "stream_options.x"},
        {with("\"stream\":true,\"stream_options\":{\"include_usage\":1}"),
         "stream_options.include_usage"},
        {with("\"temperature\":-0.1"), "temperature"},
        {with("\"temperature\":2.1"), "temperature"},
        {with("\"temperature\":\"1\""), "temperature"},
        {with("\"temperature\":NaN"), ""},
        {with("\"temperature\":Infinity"), ""},
        {with("\"temperature\":1e999"), ""},
        {with("\"temperature\":01"), ""},
        {with("\"top_p\":0"), "top_p"},
        {with("\"top_p\":1e-60"), "top_p"},
        {with("\"top_p\":1.5"), "top_p"},
        {with("\"max_tokens\":0"), "max_tokens"},
        {with("\"max_tokens\":-1"), "max_tokens"},
        {with("\"max_tokens\":5.0"), "max_tokens"},
        {with("\"max_tokens\":1e1"), "max_tokens"},
        {with("\"max_tokens\":4294967296"), "max_tokens"},
        {with("\"max_tokens\":18446744073709551616"), ""},
        {with("\"max_completion_tokens\":true"), "max_completion_tokens"},
        {with("\"max_tokens\":1,\"max_completion_tokens\":1"), "max_tokens"},
        {with("\"n\":2"), "n"},
        {with("\"n\":1.0"), "n"},
        {with("\"store\":true"), "store"},
        {with("\"modalities\":[]"), "modalities"},
        {with("\"modalities\":[\"audio\"]"), "modalities"},
        {with("\"modalities\":[\"text\",\"text\"]"), "modalities"},
        {"{\"model\":\"tiny\",\"messages\":[]}", "messages"},
        {"{\"model\":\"tiny\",\"messages\":{}}", "messages"},
        {message(repeat("{\"role\":\"user\",\"content\":\"a\"},", 64) +
                 "{\"role\":\"user\",\"content\":\"a\"}"),
         "messages"},
        {message("1"), "messages[0]"},
        {message("{\"role\":\"user\"}"), "messages[0].content"},
        {message("{\"content\":\"a\"}"), "messages[0].role"},
        {message("{\"role\":\"tool\",\"content\":\"a\"}"), "messages[0].role"},
        {message("{\"role\":\"user\",\"content\":\"a\",\"name\":\"b\"}"), "messages[0].name"},
        {message("{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"user\",\"content\":1}"),
         "messages[1].content"},
        {message("{\"role\":\"user\",\"content\":[]}"), "messages[0].content"},
        {part(repeat("{\"type\":\"text\",\"text\":\"\"},", 32) +
              "{\"type\":\"text\",\"text\":\"\"}"),
         "messages[0].content"},
        {part("{\"type\":\"text\"}"), "messages[0].content[0].text"},
        {part("{\"type\":\"text\",\"text\":1}"), "messages[0].content[0].text"},
        {part("{\"text\":\"a\"}"), "messages[0].content[0].type"},
        {part("{\"type\":\"video\"}"), "messages[0].content[0].type"},
        {part("{\"type\":\"text\",\"text\":\"a\",\"image_url\":{}}"),
         "messages[0].content[0].text"},
        {part(media + "\"image\"}"), "messages[0].content[0].type"},
        {part(media + "\"video\"}"), "messages[0].content[0].modality", "invalid_field", 400, true},
        {part("{\"type\":\"media\",\"media_id\":\"" + id + "\"}"),
         "messages[0].content[0].media_id", "invalid_field", 400, true},
        {part("{\"type\":\"media\",\"media_id\":\"media-1\",\"modality\":\"image\"}"),
         "messages[0].content[0].media_id", "invalid_field", 400, true},
        {message("{\"role\":\"system\",\"content\":[" + media + "\"image\"}]}"),
         "messages[0].content[0].type", "invalid_field", 400, true},
        {part("{\"type\":\"image_url\",\"image_url\":\"a\"}"), "messages[0].content[0].image_url"},
        {part("{\"type\":\"image_url\",\"image_url\":{\"url\":\"http://a/\"}}"),
         "messages[0].content[0].image_url.url"},
        {part("{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:image/png;base64,AAAA\"}}"),
         "messages[0].content[0].image_url.url"},
        {part("{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:image/jpeg;base64,A\"}}"),
         "messages[0].content[0].image_url.url"},
        {part("{\"type\":\"image_url\",\"image_url\":{\"url\":\"https://a/\",\"detail\":\"low\"}}"),
         "messages[0].content[0].image_url.detail"},
        {part("{\"type\":\"input_audio\",\"input_audio\":{\"data\":\"AAAA\",\"format\":\"mp3\"}}"),
         "messages[0].content[0].input_audio.format"},
        {part("{\"type\":\"input_audio\",\"input_audio\":{\"data\":\"" + std::string(4092, 'A') +
              "AA==" + "AAAA\",\"format\":\"wav\"}}"),
         "messages[0].content[0].input_audio.data"},
        {message("{\"role\":\"user\",\"content\":\"\\ud800\"}"), ""},
        {message("{\"role\":\"user\",\"content\":\"\\udc00\"}"), ""},
        {message("{\"role\":\"user\",\"content\":\"\\ud83dx\"}"), ""},
        {with("\"\\udc00\":1"), ""},
        {message("{\"role\":\"user\",\"content\":\"\xff\"}"), ""},
        {message("{\"role\":\"user\",\"content\":\"\xed\xa0\x80\"}"), ""},
        {message("{\"role\":\"user\",\"content\":\"a\nb\"}"), ""},
        {message("{\"role\":\"user\",\"content\":\"" + std::string(65408, 'a') + "\"}"), "messages",
         "frame_limit", 413},
        {"{\"model\":\"tiny\",\"x\":" + repeat("[", 100000) + repeat("]", 100000) + "}", ""},
        {with("\"stop\":" + repeat("[", 3000)), ""},
        {repeat("{\"a\":", 5000), ""},
        {repeat("[", 9) + repeat("]", 9), ""},
        {with("\"x\":" + repeat("{\"a\":", 8) + "1" + repeat("}", 8)), ""},
        {with("\"x\":" + repeat("{\"a\":", 7) + "1" + repeat("}", 7)), "x"},
    };
    for (const Row& row : rows) {
        INFO(row.body.substr(0, 200));
        const Read result = read(row.body, row.native);
        REQUIRE_FALSE(result.good);
        CHECK(result.param == row.param);
        CHECK(result.code == row.code);
        CHECK(result.status == row.status);
    }
    // A long name is cut between two characters.
    CHECK(read(with("\"x" + repeat("\xc3\xa9", 40) + "\":1")).param ==
          "x" + repeat("\xc3\xa9", 31));
    const std::string deep =
        with("\"stream\":true,\"stream_options\":{\"" + repeat("\xf0\x9f\x98\x80", 40) + "\":1}");
    CHECK(read(deep).param == "stream_options." + repeat("\xf0\x9f\x98\x80", 16));
    std::string keys;
    for (int i = 0; i < 129; i++) {
        keys += (i == 0 ? "\"k" : ",\"k") + std::to_string(i) + "\":1";
    }
    CHECK(read("{" + keys + "}").param.empty());  // refused as a whole, before any field
}

TEST_CASE("the longest text that fits a submission is taken")
{
    const size_t room = AOTX_PAYLOAD_BYTES_MAX - 4 - 8 - 8;
    CHECK(read(message("{\"role\":\"user\",\"content\":\"" + std::string(room, 'a') + "\"}")).good);
    CHECK_FALSE(
        read(message("{\"role\":\"user\",\"content\":\"" + std::string(room + 1, 'a') + "\"}"))
            .good);
}

TEST_CASE("no prefix of a body is a body")
{
    const std::string body = with("\"temperature\":0.5,\"stream\":true");
    for (size_t cut = 0; cut < body.size(); cut++) {
        CHECK_FALSE(read(body.substr(0, cut)).good);
    }
}

namespace {

// Decode with every possible single cut, and byte by byte; all must agree.
std::string decode(const std::string& bytes)
{
    std::string first;
    for (size_t cut = 0; cut <= bytes.size() + 1; cut++) {
        aotx::Utf8State state;
        aotx::Text text;
        const bool bytewise = cut == bytes.size() + 1;
        for (size_t at = 0; at < bytes.size();) {
            const size_t take = bytewise ? 1 : (at < cut ? cut : bytes.size() - at);
            const GuardCopy copy(bytes.data() + at, take);
            aotx::utf8_step(&state, copy.bytes(), take, &text);
            at += take;
        }
        aotx::utf8_end(&state, &text);
        if (cut == 0) {
            first = std::string(text.view());
        }
        CHECK(text.view() == first);
    }
    return first;
}

}  // namespace

TEST_CASE("bytes become valid text in every cut")
{
    const std::string bad = "\xef\xbf\xbd";
    struct Row {
        std::string bytes;
        std::string text;
    };
    const Row rows[] = {
        {"", ""},
        {"plain", "plain"},
        {std::string("\0", 1), std::string("\0", 1)},
        {"\xf0\x9f\x98\x80\xe4\xbd\xa0\xe4", "\xf0\x9f\x98\x80\xe4\xbd\xa0" + bad},
        {"\xc3\xa4\xdf\xbf", "\xc3\xa4\xdf\xbf"},
        {"\xee\x80\x80\xef\xbf\xbf", "\xee\x80\x80\xef\xbf\xbf"},
        {"\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf"},
        {"\x80", bad},
        {"\xff"
         "a",
         bad + "a"},
        {"\xc0\x80", bad + bad},            // overlong
        {"\xe0\x80\x80", bad + bad + bad},  // overlong
        {"\xf0\x80\x80\x80", bad + bad + bad + bad},
        {"\xed\xa0\x80", bad + bad + bad},            // surrogate
        {"\xf4\x90\x80\x80", bad + bad + bad + bad},  // above U+10FFFF
        {"\xf5\x80", bad + bad},
        {"\xe4\xbd"
         "a",
         bad + "a"},  // one for the broken piece
        {"\xf0\x9f\x98", bad},
        {"\xf0\x9f\xe4\xbd\xa0", bad + "\xe4\xbd\xa0"},
        {"\xc3\xc3\xa4", bad + "\xc3\xa4"},
        {"a\xe4", "a" + bad},
    };
    for (const Row& row : rows) {
        CHECK(decode(row.bytes) == row.text);
    }
}

TEST_CASE("JSON text: what has to be escaped is, and nothing else")
{
    aotx::Text text;
    text.append_json_string(std::string_view("a\"\\/\b\f\n\r\t\x01\x1f\x7f\0\xc3\xa4", 15));
    CHECK(text.view() == "\"a\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u001f\\u007f\\u0000\xc3\xa4\"");
    text.clear();
    text.append_decimal(0);
    text.append(' ');
    text.append_decimal(UINT64_MAX);
    CHECK(text.view() == "0 18446744073709551615");
}

TEST_CASE("every code of the table has its status, type and words")
{
    for (int code = 0; code <= static_cast<int>(aotx::Code::HeaderLimit); code++) {
        const aotx::Refusal why = aotx::refusal(static_cast<aotx::Code>(code));
        CHECK(why.status >= 400);
        CHECK(why.status <= 505);
        CHECK_FALSE(why.code.empty());
        CHECK_FALSE(why.message.empty());
        CHECK(aotx::status_reason(why.status) != "Status");
        aotx::Text text;
        aotx::refusal_write(why, &text);
        const std::string json(text.view());
        const std::string type = why.status == 401   ? "authentication_error"
                                 : why.status == 403 ? "permission_error"
                                 : why.status == 429 ? "rate_limit_error"
                                 : why.status < 500  ? "invalid_request_error"
                                                     : "server_error";
        CHECK(json.find("\"type\":\"" + type + "\",\"param\":null,\"code\":\"" +
                        std::string(why.code) + "\"}}") != std::string::npos);
    }
    for (const uint32_t status : {400u, 403u, 404u, 409u, 410u, 413u, 429u, 503u, 504u}) {
        const aotx::Refusal why = aotx::refusal_of_device(status);
        CHECK(why.status == status);
        CHECK(why.code == "device_refused");
    }
    for (const uint32_t status : {0u, 1u, 200u, 202u, 302u, 405u, 500u, 1000u}) {
        CHECK(aotx::refusal_of_device(status).code == "invalid_device_response");
    }
}
