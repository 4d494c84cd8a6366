// Purpose:  the JSON reader behind options.h: just what the options need, strict.
// Owns:     nothing.
// Thread:   the opening thread.
// Lifetime: one call.
#include "options.h"

#include <cstring>

namespace aotx_scripted {

namespace {

class Reader {
public:
    explicit Reader(const char* text) : at_(text) {}

    const char* reason() const { return reason_; }
    bool fail(const char* reason)
    {
        if (reason_ == nullptr) {
            reason_ = reason;
        }
        return false;
    }
    bool take(char wanted)
    {
        blanks();
        if (*at_ != wanted) {
            return false;
        }
        at_++;
        return true;
    }
    bool expect(char wanted)
    {
        return take(wanted) || fail("the options are not well-formed JSON");
    }
    bool end()
    {
        blanks();
        return *at_ == '\0' || fail("bytes follow the options");
    }
    char peek()
    {
        blanks();
        return *at_;
    }
    bool text(std::string* out);
    bool number(uint64_t highest, uint64_t* out);
    bool boolean(bool* out);

private:
    void blanks() { at_ += std::strspn(at_, " \t\r\n"); }
    bool escape(std::string* out);

    const char* at_;
    const char* reason_ = nullptr;
};

bool Reader::escape(std::string* out)
{
    static const char names[] = "\"\\/bfnrt";
    static const char values[] = "\"\\/\b\f\n\r\t";
    const char* const found = *at_ == '\0' ? nullptr : std::strchr(names, *at_);
    if (found == nullptr) {
        return fail("an escape that the options do not take");
    }
    out->push_back(values[found - names]);
    at_++;
    return true;
}

bool Reader::text(std::string* out)
{
    if (!expect('"')) {
        return false;
    }
    out->clear();
    while (*at_ != '"') {
        if (static_cast<unsigned char>(*at_) < 0x20) {
            return fail("a string does not end");
        }
        if (*at_ == '\\') {
            at_++;
            if (!escape(out)) {
                return false;
            }
            continue;
        }
        out->push_back(*at_);
        at_++;
    }
    at_++;
    return true;
}

bool Reader::number(uint64_t highest, uint64_t* out)
{
    blanks();
    if (*at_ < '0' || *at_ > '9') {
        return fail("a number was expected");
    }
    uint64_t value = 0;
    while (*at_ >= '0' && *at_ <= '9') {
        value = value * 10u + static_cast<uint64_t>(*at_ - '0');
        if (value > highest) {
            return fail("a number is too large");
        }
        at_++;
    }
    *out = value;
    return true;
}

bool Reader::boolean(bool* out)
{
    blanks();
    const bool yes = std::strncmp(at_, "true", 4) == 0;
    if (!yes && std::strncmp(at_, "false", 5) != 0) {
        return fail("true or false was expected");
    }
    at_ += yes ? 4 : 5;
    *out = yes;
    return true;
}

int hex_digit(char digit)
{
    const char lower = static_cast<char>(digit | 0x20);
    if (digit >= '0' && digit <= '9') {
        return digit - '0';
    }
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

bool hex_decode(const std::string& text, std::string* bytes)
{
    bytes->clear();
    for (size_t i = 0; i + 1 < text.size(); i += 2) {
        const int high = hex_digit(text[i]);
        const int low = hex_digit(text[i + 1]);
        if (high < 0 || low < 0) {
            return false;
        }
        bytes->push_back(static_cast<char>(high * 16 + low));
    }
    return text.size() % 2 == 0;
}

bool base64_decode(const std::string& text, std::string* bytes)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    bytes->clear();
    uint32_t bits = 0;
    int held = 0;
    for (const char digit : text) {
        if (digit == '=') {
            break;
        }
        const char* const found = digit == '\0' ? nullptr : std::strchr(digits, digit);
        if (found == nullptr) {
            return false;
        }
        bits = (bits << 6u) | static_cast<uint32_t>(found - digits);
        held += 6;
        if (held >= 8) {
            held -= 8;
            bytes->push_back(static_cast<char>((bits >> held) & 0xffu));
        }
    }
    return text.size() % 4 == 0;
}

constexpr uint64_t kDelayMsMax = 3600000;

bool read_piece_field(Reader* reader, const std::string& key, Piece* piece)
{
    std::string text;
    if (key == "delay_ms") {
        uint64_t value = 0;
        const bool good = reader->number(kDelayMsMax, &value);
        piece->delay_ms = static_cast<uint32_t>(value);
        return good;
    }
    if (key != "hex" && key != "base64" && key != "text") {
        return reader->fail("a piece has an unknown key");
    }
    if (!reader->text(&text)) {
        return false;
    }
    if (key == "text") {
        piece->bytes = text;
        return true;
    }
    const bool good =
        key == "hex" ? hex_decode(text, &piece->bytes) : base64_decode(text, &piece->bytes);
    return good || reader->fail("a piece is not hex or base64");
}

bool read_piece(Reader* reader, Piece* piece)
{
    std::string text;
    if (reader->peek() == '"') {
        return reader->text(&text) &&
               (hex_decode(text, &piece->bytes) || reader->fail("a piece is not hex"));
    }
    if (!reader->expect('{')) {
        return false;
    }
    do {
        if (!reader->text(&text) || !reader->expect(':') ||
            !read_piece_field(reader, text, piece)) {
            return false;
        }
    } while (reader->take(','));
    return reader->expect('}');
}

bool read_pieces(Reader* reader, std::vector<Piece>* pieces)
{
    pieces->clear();
    if (!reader->expect('[')) {
        return false;
    }
    if (reader->take(']')) {
        return true;
    }
    do {
        Piece piece;
        if (!read_piece(reader, &piece)) {
            return false;
        }
        pieces->push_back(piece);
    } while (reader->take(','));
    return reader->expect(']');
}

bool read_delays(Reader* reader, std::vector<uint32_t>* delays)
{
    if (!reader->expect('[')) {
        return false;
    }
    if (reader->take(']')) {
        return true;
    }
    do {
        uint64_t value = 0;
        if (!reader->number(kDelayMsMax, &value)) {
            return false;
        }
        delays->push_back(static_cast<uint32_t>(value));
    } while (reader->take(','));
    return reader->expect(']');
}

struct NumberKey {
    const char* name;
    uint32_t ScriptOptions::*field;
    uint64_t highest;
};

constexpr NumberKey kNumbers[] = {
    {"prefill_us_per_token", &ScriptOptions::prefill_us_per_token, 1000000},
    {"step_us", &ScriptOptions::step_us, 10000000},
    {"sequences", &ScriptOptions::sequences, 4096},
    {"sequence_tokens", &ScriptOptions::sequence_tokens, 1u << 20},
    {"step_tokens", &ScriptOptions::step_tokens, 1u << 20},
    {"step_rows", &ScriptOptions::step_rows, 4096},
    {"page_tokens", &ScriptOptions::page_tokens, 1u << 20},
    {"kv_tokens", &ScriptOptions::kv_tokens, 1u << 30},
    {"prompt_bytes", &ScriptOptions::prompt_bytes, 1u << 20},
};

bool read_repeat(Reader* reader, ScriptOptions* options)
{
    const char next = reader->peek();
    if (next == 't' || next == 'f') {
        bool forever = false;
        if (!reader->boolean(&forever)) {
            return false;
        }
        options->repeat = forever ? kRepeatForever : options->repeat;
        return true;
    }
    return reader->number(1u << 30, &options->repeat);
}

bool read_level(Reader* reader, ScriptOptions* options)
{
    std::string text;
    if (!reader->text(&text)) {
        return false;
    }
    options->plain = text == "plain";
    return options->plain || text == "batched" ||
           reader->fail("level is neither batched nor plain");
}

bool read_field(Reader* reader, const std::string& key, ScriptOptions* options,
                std::vector<uint32_t>* delays)
{
    for (const NumberKey& number : kNumbers) {
        if (key == number.name) {
            uint64_t value = 0;
            const bool good = reader->number(number.highest, &value);
            options->*number.field = static_cast<uint32_t>(value);
            return good;
        }
    }
    if (key == "level") {
        return read_level(reader, options);
    }
    if (key == "pieces") {
        return read_pieces(reader, &options->pieces);
    }
    if (key == "delays_ms") {
        return read_delays(reader, delays);
    }
    if (key == "repeat") {
        return read_repeat(reader, options);
    }
    if (key == "fail_step") {
        return reader->number(UINT32_MAX, &options->fail_step);
    }
    bool forever = false;
    if (key == "never_end") {
        const bool good = reader->boolean(&forever);
        options->repeat = forever ? kRepeatForever : options->repeat;
        return good;
    }
    bool* const flag = key == "echo"          ? &options->echo
                       : key == "fail_render" ? &options->fail_render
                       : key == "fail_open"   ? &options->fail_open
                       : key == "samples"     ? &options->samples
                                              : nullptr;
    return flag != nullptr ? reader->boolean(flag) : reader->fail("an unknown option");
}

bool read_object(Reader* reader, ScriptOptions* options, std::vector<uint32_t>* delays)
{
    std::vector<std::string> seen;
    std::string key;
    if (!reader->expect('{')) {
        return false;
    }
    if (reader->take('}')) {
        return reader->end();
    }
    do {
        if (!reader->text(&key) || !reader->expect(':')) {
            return false;
        }
        for (const std::string& other : seen) {
            if (other == key) {
                return reader->fail("an option is given twice");
            }
        }
        seen.push_back(key);
        if (!read_field(reader, key, options, delays)) {
            return false;
        }
    } while (reader->take(','));
    return reader->expect('}') && reader->end();
}

void default_pieces(std::vector<Piece>* pieces)
{
    for (const char* text : {"This", " answer", " is", " scripted", "."}) {
        Piece piece;
        piece.bytes = text;
        pieces->push_back(piece);
    }
}

}  // namespace

bool options_read(const char* json, ScriptOptions* options, const char** reason)
{
    std::vector<uint32_t> delays;
    default_pieces(&options->pieces);
    Reader reader(json == nullptr || *json == '\0' ? "{}" : json);
    if (!read_object(&reader, options, &delays)) {
        *reason = reader.reason();
        return false;
    }
    for (size_t i = 0; i < delays.size() && i < options->pieces.size(); i++) {
        options->pieces[i].delay_ms = delays[i];
    }
    if (options->step_rows == 0) {
        options->step_rows = options->sequences;
    }
    if (options->kv_tokens == 0) {
        options->kv_tokens = options->sequences * options->sequence_tokens;
    }
    if (options->sequences == 0 || options->sequence_tokens == 0 || options->page_tokens == 0 ||
        options->step_tokens < options->sequences || options->kv_tokens < options->page_tokens) {
        *reason = "a capacity is 0, or step_tokens is below sequences";
        return false;
    }
    return true;
}

}  // namespace aotx_scripted
