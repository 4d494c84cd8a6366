// Purpose:  a configuration as TOML, a model's options as JSON, and the documentation of every key.
// Owns:     nothing.
// Thread:   any.
// Lifetime: not applicable.
#include <cstdio>

#include "service/config/config.h"
#include "service/config/table.h"

namespace aotx {
namespace {

// A basic string of TOML is also a string of JSON as long as control bytes are written as \u.
std::string quoted(const std::string& text)
{
    std::string out = "\"";
    for (const char character : text) {
        const unsigned char byte = static_cast<unsigned char>(character);
        if (character == '"' || character == '\\') {
            out += '\\';
            out += character;
        } else if (byte < 0x20 || byte == 0x7f) {
            char escape[8];
            std::snprintf(escape, sizeof escape, "\\u%04x", byte);
            out += escape;
        } else {
            out += character;
        }
    }
    return out + "\"";
}

template <typename Section>
std::string value_text(const ConfigKey<Section>& row, const Section& section)
{
    if (const auto* const flag = std::get_if<bool Section::*>(&row.slot)) {
        return section.**flag ? "true" : "false";
    }
    if (const auto* const narrow = std::get_if<uint32_t Section::*>(&row.slot)) {
        return std::to_string(section.**narrow);
    }
    if (const auto* const wide = std::get_if<uint64_t Section::*>(&row.slot)) {
        return std::to_string(section.**wide);
    }
    if (const auto* const text = std::get_if<std::string Section::*>(&row.slot)) {
        return quoted(section.**text);
    }
    std::string out = "[";
    for (const std::string& entry :
         section.*std::get<std::vector<std::string> Section::*>(row.slot)) {
        out += (out.size() == 1 ? "" : ", ") + quoted(entry);
    }
    return out + "]";
}

template <typename Section>
void print_section(const ConfigSection<Section>& about, const Section& section, std::string* out)
{
    *out += about.is_list ? "[[" : "[";
    *out += about.name;
    *out += about.is_list ? "]]\n" : "]\n";
    for (const ConfigKey<Section>& row : about.keys) {
        *out += std::string(row.name) + " = " + value_text(row, section) + "\n";
    }
    *out += "\n";
}

template <typename Section>
std::string range_text(const ConfigKey<Section>& row)
{
    const std::string range = std::to_string(row.minimum) + ".." + std::to_string(row.maximum);
    if (std::holds_alternative<bool Section::*>(row.slot)) {
        return "true or false";
    }
    if (std::holds_alternative<std::vector<std::string> Section::*>(row.slot)) {
        return "strings, " + range;
    }
    if (!std::holds_alternative<std::string Section::*>(row.slot)) {
        return "integer, " + range;
    }
    switch (row.form) {
        case TextForm::Choice: {
            std::string out;
            for (const char* at = row.choices; *at != '\0'; at++) {
                out += *at == '|' ? std::string("`, `") : std::string(1, *at);
            }
            return "`" + out + "`";
        }
        case TextForm::Path:
            return "path, at most " + std::to_string(row.maximum) + " bytes";
        case TextForm::Hex:
            return std::to_string(row.maximum) + " hex digits";
        default:
            return "string, " + range + " bytes";
    }
}

template <typename Section>
void document_section(const ConfigSection<Section>& about, std::string* out)
{
    const Section defaults;
    *out += about.is_list ? "## `[[" : "## `[";
    *out += about.name;
    *out += about.is_list ? "]]`\n\n" : "]`\n\n";
    *out += about.about;
    *out += "\n\n| key | value | default | meaning |\n| --- | --- | --- | --- |\n";
    for (const ConfigKey<Section>& row : about.keys) {
        *out += "| `" + std::string(row.name) + "` | " + range_text(row) + " | ";
        *out += row.is_required ? "required" : "`" + value_text(row, defaults) + "`";
        *out += " | " + std::string(row.about) + " |\n";
    }
    *out += "\n";
}

}  // namespace

std::string config_print(const Config& config) noexcept
{
    std::string out;
    print_section(kDeviceSection, config.device, &out);
    print_section(kBrokerSection, config.broker, &out);
    print_section(kGatewaySection, config.gateway, &out);
    for (const ModelConfig& model : config.models) {
        print_section(kModelSection, model, &out);
    }
    for (const PrincipalConfig& principal : config.principals) {
        print_section(kPrincipalSection, principal, &out);
    }
    return out;
}

std::string model_config_json(const ModelConfig& model, const std::string& device) noexcept
{
    if (!model.options.empty()) {
        return model.options;
    }
    return "{\"model_path\":" + quoted(model.path) +
           ",\"threads\":" + std::to_string(model.threads) +
           ",\"sequences\":" + std::to_string(model.sequences) +
           ",\"kv_tokens\":" + std::to_string(model.kv_tokens) +
           ",\"sequence_tokens\":" + std::to_string(model.sequence_tokens) +
           ",\"step_tokens\":" + std::to_string(model.step_tokens) +
           ",\"activations\":" + quoted(model.activations) +
           (device == "cpu" ? "" : ",\"device\":" + quoted(device)) + "}";
}

std::string config_document() noexcept
{
    std::string out =
        "# Configuration\n\n"
        "One TOML file configures every program. All keys are listed here with their range and\n"
        "default; a key that is not listed is an error that names its line, and so is a value out\n"
        "of its range. A relative path is taken from the directory of the file. `aotxctl check`\n"
        "judges a file, prints it with every value and counts the memory that it asks for; it\n"
        "starts nothing.\n\n"
        "This page is made from the table that the programs read the file with\n"
        "(`service/config/table.cpp`); a test compares the two.\n\n";
    document_section(kDeviceSection, &out);
    document_section(kBrokerSection, &out);
    document_section(kGatewaySection, &out);
    document_section(kModelSection, &out);
    document_section(kPrincipalSection, &out);
    out.pop_back();
    return out;
}

}  // namespace aotx
