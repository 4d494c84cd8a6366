// Purpose:  parse the configuration without accepting anything that it does not say.
// Owns:     nothing.
// Thread:   any.
// Lifetime: not applicable.
#include "config.h"

#include <cstring>
#include <string_view>

#include "aotx/status.h"

namespace aotx {

namespace {

constexpr uint32_t kKeysCount = 8;
constexpr size_t kStringBytesMax = 4096;

enum Key : uint32_t {
    kModelPath = 0,
    kThreads = 1,
    kSequences = 2,
    kKvTokens = 3,
    kSequenceTokens = 4,
    kStepTokens = 5,
    kActivations = 6,
    kDevice = 7
};

struct NumberRule {
    const char* name;
    uint32_t low;
    uint32_t high;
};

constexpr NumberRule kRules[kKeysCount] = {
    {"model_path", 0, 0},
    {"threads", 0, 256},
    {"sequences", 1, 4096},
    {"kv_tokens", 32, 1u << 26},
    {"sequence_tokens", 0, 1u << 26},
    {"step_tokens", 1, 8192},
    {"activations", 0, 0},
    {"device", 0, 0},
};

struct Reader {
    const char* at;
    const char* end;
    TextReason* reason;
};

int refuse(Reader* in, int status, std::string_view field, const char* what)
{
    return text_refuse(in->reason, status, field, what);
}

void skip_blanks(Reader* in)
{
    while (in->at < in->end && std::strchr(" \t\r\n", *in->at) != nullptr) {
        in->at++;
    }
}

bool take(Reader* in, char wanted)
{
    skip_blanks(in);
    if (in->at == in->end || *in->at != wanted) {
        return false;
    }
    in->at++;
    return true;
}

// Four hex digits behind "\u". False when they are not.
bool take_hex(Reader* in, uint32_t* unit)
{
    if (in->end - in->at < 4) {
        return false;
    }
    *unit = 0;
    for (uint32_t i = 0; i < 4; i++) {
        const char c = *in->at++;
        const uint32_t digit = c >= '0' && c <= '9'   ? static_cast<uint32_t>(c - '0')
                               : c >= 'a' && c <= 'f' ? static_cast<uint32_t>(c - 'a' + 10)
                               : c >= 'A' && c <= 'F' ? static_cast<uint32_t>(c - 'A' + 10)
                                                      : 16u;
        if (digit == 16) {
            return false;
        }
        *unit = *unit * 16 + digit;
    }
    return true;
}

void append_utf8(std::string* out, uint32_t code)
{
    if (code < 0x80) {
        out->push_back(static_cast<char>(code));
        return;
    }
    if (code < 0x800) {
        out->push_back(static_cast<char>(0xc0 | (code >> 6)));
    } else if (code < 0x10000) {
        out->push_back(static_cast<char>(0xe0 | (code >> 12)));
        out->push_back(static_cast<char>(0x80 | ((code >> 6) & 63)));
    } else {
        out->push_back(static_cast<char>(0xf0 | (code >> 18)));
        out->push_back(static_cast<char>(0x80 | ((code >> 12) & 63)));
        out->push_back(static_cast<char>(0x80 | ((code >> 6) & 63)));
    }
    out->push_back(static_cast<char>(0x80 | (code & 63)));
}

// What follows a backslash. False for anything that JSON does not know; a path holds no zero byte.
bool take_escape(Reader* in, std::string* out)
{
    if (in->at == in->end) {
        return false;
    }
    const char c = *in->at++;
    static constexpr char kNames[] = "\"\\/bfnrt";
    static constexpr char kValues[] = "\"\\/\b\f\n\r\t";
    if (c != 'u') {
        const char* const name = c == 0 ? nullptr : std::strchr(kNames, c);
        if (name == nullptr) {
            return false;
        }
        out->push_back(kValues[name - kNames]);
        return true;
    }
    uint32_t unit = 0;
    if (!take_hex(in, &unit) || unit == 0 || (unit >= 0xdc00 && unit < 0xe000)) {
        return false;
    }
    if (unit >= 0xd800 && unit < 0xdc00) {
        uint32_t low = 0;
        if (in->end - in->at < 6 || in->at[0] != '\\' || in->at[1] != 'u') {
            return false;
        }
        in->at += 2;
        if (!take_hex(in, &low) || low < 0xdc00 || low >= 0xe000) {
            return false;
        }
        unit = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
    }
    append_utf8(out, unit);
    return true;
}

bool take_string(Reader* in, std::string* out)
{
    out->clear();
    if (!take(in, '"')) {
        return false;
    }
    while (in->at < in->end && out->size() <= kStringBytesMax) {
        const char c = *in->at++;
        if (c == '"') {
            return true;
        }
        if (static_cast<unsigned char>(c) < 0x20) {
            return false;
        }
        if (c != '\\') {
            out->push_back(c);
        } else if (!take_escape(in, out)) {
            return false;
        }
    }
    return false;
}

// A whole number without sign, fraction, exponent or leading zero.
bool take_number(Reader* in, uint64_t* value)
{
    skip_blanks(in);
    const char* const begin = in->at;
    *value = 0;
    while (in->at < in->end && *in->at >= '0' && *in->at <= '9') {
        if (in->at - begin >= 10) {
            return false;
        }
        *value = *value * 10 + static_cast<uint64_t>(*in->at++ - '0');
    }
    const bool leading_zero = in->at - begin > 1 && *begin == '0';
    const bool goes_on = in->at < in->end && std::strchr(".eE+-", *in->at) != nullptr;
    return in->at != begin && !leading_zero && !goes_on;
}

int read_text(Reader* in, uint32_t key, TextConfig* config)
{
    const char* const name = kRules[key].name;
    std::string text;
    if (!take_string(in, &text)) {
        return refuse(in, AOTX_ERR_RANGE, name, "is not a string");
    }
    if (key == kModelPath) {
        config->model_path = text;
        return text.empty() ? refuse(in, AOTX_ERR_RANGE, name, "is empty") : AOTX_OK;
    }
    if (key == kDevice) {
        if (text != "cpu" && text != "cuda" && text != "auto") {
            return refuse(in, AOTX_ERR_RANGE, name, "is neither cpu, cuda nor auto");
        }
        config->device = text == "cpu"    ? DeviceChoice::kCpu
                         : text == "cuda" ? DeviceChoice::kCuda
                                          : DeviceChoice::kAuto;
        return AOTX_OK;
    }
    if (text != "quantised" && text != "float") {
        return refuse(in, AOTX_ERR_RANGE, name, "is neither quantised nor float");
    }
    config->activations = text == "float" ? ActivationMode::kFloat : ActivationMode::kQuantised;
    return AOTX_OK;
}

int read_value(Reader* in, uint32_t key, TextConfig* config)
{
    const NumberRule& rule = kRules[key];
    if (key == kModelPath || key == kActivations || key == kDevice) {
        return read_text(in, key, config);
    }
    uint64_t number = 0;
    if (!take_number(in, &number)) {
        return refuse(in, AOTX_ERR_RANGE, rule.name, "is not a whole number");
    }
    if (number < rule.low || number > rule.high) {
        return text_refuse_number(in->reason, AOTX_ERR_RANGE, rule.name,
                                  "is out of range:", number);
    }
    uint32_t* const fields[kKeysCount] = {nullptr,
                                          &config->threads,
                                          &config->sequences,
                                          &config->kv_tokens,
                                          &config->sequence_tokens,
                                          &config->step_tokens,
                                          nullptr,
                                          nullptr};
    *fields[key] = static_cast<uint32_t>(number);
    return AOTX_OK;
}

int read_member(Reader* in, bool* seen, TextConfig* config)
{
    std::string name;
    if (!take_string(in, &name) || !take(in, ':')) {
        return refuse(in, AOTX_ERR_SYNTAX, "config", "is not a JSON object of names and values");
    }
    for (uint32_t key = 0; key < kKeysCount; key++) {
        if (name != kRules[key].name) {
            continue;
        }
        if (seen[key]) {
            return refuse(in, AOTX_ERR_RANGE, name, "is given twice");
        }
        seen[key] = true;
        return read_value(in, key, config);
    }
    return refuse(in, AOTX_ERR_RANGE, name, "is not a key of this runtime");
}

}  // namespace

int text_config_parse(const char* config_json, TextConfig* config, TextReason* reason) noexcept
{
    const char* const text = config_json == nullptr ? "" : config_json;
    Reader in = {text, text + std::strlen(text), reason};
    TextConfig read;
    bool seen[kKeysCount] = {};
    if (!take(&in, '{')) {
        return refuse(&in, AOTX_ERR_SYNTAX, "config", "is not a JSON object");
    }
    bool more = !take(&in, '}');
    while (more) {
        const int status = read_member(&in, seen, &read);
        if (status != AOTX_OK) {
            return status;
        }
        more = take(&in, ',');
        if (!more && !take(&in, '}')) {
            return refuse(&in, AOTX_ERR_SYNTAX, "config", "lacks its closing brace");
        }
    }
    skip_blanks(&in);
    if (in.at != in.end) {
        return refuse(&in, AOTX_ERR_SYNTAX, "config", "has text behind its end");
    }
    if (!seen[kModelPath]) {
        return refuse(&in, AOTX_ERR_NOT_FOUND, "model_path", "is missing");
    }
    if (read.step_tokens < read.sequences) {
        return refuse(&in, AOTX_ERR_RANGE, "step_tokens", "is below sequences");
    }

    *config = read;
    return AOTX_OK;
}

}  // namespace aotx
