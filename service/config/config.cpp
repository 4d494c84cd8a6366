// Purpose:  read a configuration through the table, and judge what the table cannot.
// Owns:     nothing.
// Thread:   any.
// Lifetime: not applicable.
#include "service/config/config.h"

#include <arpa/inet.h>
#include <limits.h>
#include <stdlib.h>

#include <cstring>
#include <set>

#include "aotx/handle.h"
#include "aotx/packet.h"
#include "aotx/status.h"
#include "service/base/check.h"
#include "service/base/file.h"
#include "service/config/parse.h"
#include "service/config/table.h"

#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 1
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

namespace aotx {
namespace {

// Where a value stands, for its error.
struct Place {
    const char* table;
    const char* key;
    uint32_t line;
};

int refuse(std::string* error, const Place& place, int status, const std::string& reason)
{
    *error = "line " + std::to_string(place.line) + ": " + place.table;
    if (place.key[0] != '\0') {
        *error += std::string(".") + place.key;
    }
    *error += ": " + reason;
    return status;
}

int refuse_whole(std::string* error, const char* where, const std::string& reason)
{
    *error = std::string(where) + ": " + reason;
    return AOTX_ERR_RANGE;
}

uint32_t line_of(const toml::node& node)
{
    return node.source().begin.line;
}

template <typename Section>
int set_number(const ConfigKey<Section>& row, const Place& place, const toml::node& node,
               uint64_t* value, std::string* error)
{
    const toml::value<int64_t>* const number = node.as_integer();
    if (number == nullptr) {
        return refuse(error, place, AOTX_ERR_SYNTAX, "must be an integer");
    }
    const int64_t given = number->get();
    if (given < 0 || static_cast<uint64_t>(given) < row.minimum ||
        static_cast<uint64_t>(given) > row.maximum) {
        return refuse(error, place, AOTX_ERR_RANGE,
                      std::to_string(given) + " is not in " + std::to_string(row.minimum) + ".." +
                          std::to_string(row.maximum));
    }
    *value = static_cast<uint64_t>(given);
    return AOTX_OK;
}

template <typename Section>
int set_text(const ConfigKey<Section>& row, const Place& place, const toml::node& node,
             std::string_view directory, uint64_t minimum, uint64_t maximum, std::string* value,
             std::string* error)
{
    const toml::value<std::string>* const text = node.as_string();
    if (text == nullptr) {
        return refuse(error, place, AOTX_ERR_SYNTAX, "must be a string");
    }
    std::string given = text->get();
    const char* const reason = text_check(row.form, row.choices, directory, &given);
    if (reason != nullptr) {
        return refuse(error, place, AOTX_ERR_RANGE, reason);
    }
    if (given.size() < minimum || given.size() > maximum) {
        return refuse(error, place, AOTX_ERR_RANGE,
                      "is " + std::to_string(given.size()) + " bytes long, not " +
                          std::to_string(minimum) + ".." + std::to_string(maximum));
    }
    *value = std::move(given);
    return AOTX_OK;
}

template <typename Section>
int set_list(const ConfigKey<Section>& row, const Place& place, const toml::node& node,
             std::string_view directory, std::vector<std::string>* values, std::string* error)
{
    const toml::array* const array = node.as_array();
    if (array == nullptr) {
        return refuse(error, place, AOTX_ERR_SYNTAX, "must be an array of strings");
    }
    if (array->size() < row.minimum || array->size() > row.maximum) {
        return refuse(error, place, AOTX_ERR_RANGE,
                      "has " + std::to_string(array->size()) + " entries, not " +
                          std::to_string(row.minimum) + ".." + std::to_string(row.maximum));
    }
    std::vector<std::string> given;
    const uint64_t characters_min = row.form == TextForm::Hex ? 64 : 1;
    const uint64_t characters_max = row.form == TextForm::Hex ? 64 : 260;
    for (const toml::node& entry : *array) {
        std::string value;
        const Place entry_place = {place.table, place.key, line_of(entry)};
        const int status = set_text(row, entry_place, entry, directory, characters_min,
                                    characters_max, &value, error);
        if (status != AOTX_OK) {
            return status;
        }
        given.push_back(std::move(value));
    }
    *values = std::move(given);
    return AOTX_OK;
}

template <typename Section>
int set_key(const ConfigKey<Section>& row, const Place& place, const toml::node& node,
            std::string_view directory, Section* section, std::string* error)
{
    if (const auto* const flag = std::get_if<bool Section::*>(&row.slot)) {
        if (!node.is_boolean()) {
            return refuse(error, place, AOTX_ERR_SYNTAX, "must be true or false");
        }
        section->** flag = node.as_boolean()->get();
        return AOTX_OK;
    }
    if (const auto* const text = std::get_if<std::string Section::*>(&row.slot)) {
        return set_text(row, place, node, directory, row.minimum, row.maximum, &(section->**text),
                        error);
    }
    if (const auto* const list = std::get_if<std::vector<std::string> Section::*>(&row.slot)) {
        return set_list(row, place, node, directory, &(section->**list), error);
    }

    uint64_t value = 0;
    const int status = set_number(row, place, node, &value, error);
    if (status != AOTX_OK) {
        return status;
    }
    if (const auto* const narrow = std::get_if<uint32_t Section::*>(&row.slot)) {
        AOTX_CHECK(value <= UINT32_MAX);
        section->** narrow = static_cast<uint32_t>(value);
    } else {
        section->*std::get<uint64_t Section::*>(row.slot) = value;
    }
    return AOTX_OK;
}

// Defaults of path keys are relative like written ones.
template <typename Section>
void complete_paths(const ConfigSection<Section>& about, std::string_view directory,
                    Section* section)
{
    for (const ConfigKey<Section>& row : about.keys) {
        const auto* const text = std::get_if<std::string Section::*>(&row.slot);
        if (text != nullptr && row.form == TextForm::Path) {
            AOTX_CHECK(text_check(row.form, row.choices, directory, &(section->**text)) == nullptr);
        }
    }
}

template <typename Section>
int read_section(const ConfigSection<Section>& about, const toml::table& table,
                 std::string_view directory, Section* section, std::string* error)
{
    for (const auto& [name, node] : table) {
        const ConfigKey<Section>* found = nullptr;
        for (const ConfigKey<Section>& row : about.keys) {
            found = name.str() == row.name ? &row : found;
        }
        if (found == nullptr) {
            const std::string key(name.str());
            return refuse(error, {about.name, key.c_str(), name.source().begin.line},
                          AOTX_ERR_SYNTAX, "unknown key");
        }
        const Place place = {about.name, found->name, line_of(node)};
        const int status = set_key(*found, place, node, directory, section, error);
        if (status != AOTX_OK) {
            return status;
        }
    }
    for (const ConfigKey<Section>& row : about.keys) {
        if (row.is_required && !table.contains(row.name)) {
            return refuse(error, {about.name, row.name, line_of(table)}, AOTX_ERR_SYNTAX,
                          "is required");
        }
    }
    complete_paths(about, directory, section);
    return AOTX_OK;
}

template <typename Section>
int read_one(const ConfigSection<Section>& about, const toml::node& node,
             std::string_view directory, Section* section, std::string* error)
{
    const toml::table* const table = node.as_table();
    if (table == nullptr) {
        return refuse(error, {about.name, "", line_of(node)}, AOTX_ERR_SYNTAX, "must be a table");
    }
    return read_section(about, *table, directory, section, error);
}

template <typename Section>
int read_list(const ConfigSection<Section>& about, const toml::node& node,
              std::string_view directory, size_t entries_max, std::vector<Section>* sections,
              std::string* error)
{
    const toml::array* const array = node.as_array();
    if (array == nullptr) {
        return refuse(error, {about.name, "", line_of(node)}, AOTX_ERR_SYNTAX,
                      "must be an array of tables");
    }
    if (array->size() > entries_max) {
        return refuse(error, {about.name, "", line_of(node)}, AOTX_ERR_RANGE,
                      "has more than " + std::to_string(entries_max) + " entries");
    }
    for (const toml::node& entry : *array) {
        Section section;
        const int status = read_one(about, entry, directory, &section, error);
        if (status != AOTX_OK) {
            return status;
        }
        sections->push_back(std::move(section));
    }
    return AOTX_OK;
}

int read_table(const toml::table& top, std::string_view directory, Config* config,
               std::string* error)
{
    for (const auto& [name, node] : top) {
        int status = AOTX_ERR_SYNTAX;
        if (name.str() == kDeviceSection.name) {
            status = read_one(kDeviceSection, node, directory, &config->device, error);
        } else if (name.str() == kBrokerSection.name) {
            status = read_one(kBrokerSection, node, directory, &config->broker, error);
        } else if (name.str() == kGatewaySection.name) {
            status = read_one(kGatewaySection, node, directory, &config->gateway, error);
        } else if (name.str() == kModelSection.name) {
            status =
                read_list(kModelSection, node, directory, kConfigModelsMax, &config->models, error);
        } else if (name.str() == kPrincipalSection.name) {
            status = read_list(kPrincipalSection, node, directory, kConfigPrincipalsMax,
                               &config->principals, error);
        } else {
            const std::string key(name.str());
            return refuse(error, {key.c_str(), "", name.source().begin.line}, AOTX_ERR_SYNTAX,
                          "unknown table or key");
        }
        if (status != AOTX_OK) {
            return status;
        }
    }
    // Sections that the file leaves out still have default paths.
    complete_paths(kDeviceSection, directory, &config->device);
    complete_paths(kGatewaySection, directory, &config->gateway);
    return AOTX_OK;
}

int judge_gateway(const Config& config, std::string* error)
{
    const GatewayConfig& gateway = config.gateway;
    if (gateway.certificate_path.empty() != gateway.key_path.empty()) {
        return refuse_whole(error, "gateway", "certificate_path and key_path go together");
    }
    if (gateway.certificate_path.empty() && !address_is_loopback(gateway.bind)) {
        return refuse_whole(error, "gateway.bind",
                            "an address other than loopback needs certificate_path and key_path");
    }
    if (gateway.wire_connections >= config.device.mailboxes) {
        return refuse_whole(error, "gateway.wire_connections",
                            "must be below device.mailboxes, of which one is the control mailbox");
    }
    if (gateway.body_credit_bytes < gateway.json_bytes) {
        return refuse_whole(error, "gateway.body_credit_bytes", "must be at least json_bytes");
    }
    return AOTX_OK;
}

int judge_models(const Config& config, std::string* error)
{
    std::set<std::string> aliases;
    std::set<std::string> roles;
    const ModelConfig defaults;
    for (const ModelConfig& model : config.models) {
        const std::string where = "models \"" + model.alias + "\"";
        if (!aliases.insert(model.alias).second) {
            return refuse_whole(error, where.c_str(), "alias is used twice");
        }
        if (!roles.insert(model.role).second) {
            return refuse_whole(error, where.c_str(), "role is used twice");
        }
        if (model.options.empty()) {
            if (model.path.empty()) {
                return refuse_whole(error, where.c_str(), "needs path, or options");
            }
            if (model.sequence_tokens > model.kv_tokens) {
                return refuse_whole(error, where.c_str(), "sequence_tokens is above kv_tokens");
            }
            if (model.step_tokens < model.sequences) {
                return refuse_whole(error, where.c_str(), "step_tokens is below sequences");
            }
        } else if (model.threads != defaults.threads || model.sequences != defaults.sequences ||
                   model.kv_tokens != defaults.kv_tokens ||
                   model.sequence_tokens != defaults.sequence_tokens ||
                   model.step_tokens != defaults.step_tokens ||
                   model.activations != defaults.activations) {
            return refuse_whole(error, where.c_str(),
                                "with options, the keys of the GGUF text runtime have no effect "
                                "and must be left out");
        }
    }
    return AOTX_OK;
}

int judge_principals(const Config& config, std::string* error)
{
    std::set<std::string> names;
    std::set<std::string> ids;
    std::set<std::string> hashes;
    if (config.principals.size() > config.device.principals) {
        return refuse_whole(error, "principals", "more entries than device.principals");
    }
    for (const PrincipalConfig& principal : config.principals) {
        const std::string where = "principals \"" + principal.name + "\"";
        if (!names.insert(principal.name).second) {
            return refuse_whole(error, where.c_str(), "name is used twice");
        }
        if (!ids.insert(principal.id).second) {
            return refuse_whole(error, where.c_str(), "id is used twice");
        }
        if (principal.id.find_first_not_of('0') == std::string::npos) {
            return refuse_whole(error, where.c_str(), "id is all zero");
        }
        for (const std::string& hash : principal.token_sha256) {
            if (!hashes.insert(hash).second) {
                return refuse_whole(error, where.c_str(), "a token hash is used twice");
            }
        }
    }
    return AOTX_OK;
}

}  // namespace

int config_parse(std::string_view text, std::string_view directory, Config* config,
                 std::string* error) noexcept
{
    AOTX_CHECK(!directory.empty() && directory.front() == '/');
    const toml::parse_result result = toml::parse(text);
    if (!result) {
        *error = "line " + std::to_string(result.error().source().begin.line) + ": " +
                 std::string(result.error().description());
        return AOTX_ERR_SYNTAX;
    }
    Config given;
    int status = read_table(result.table(), directory, &given, error);
    for (const auto judge : {judge_gateway, judge_models, judge_principals}) {
        status = status == AOTX_OK ? judge(given, error) : status;
    }
    if (status == AOTX_OK) {
        *config = std::move(given);
    }
    return status;
}

int config_load(const char* path, Config* config, std::string* error) noexcept
{
    std::string text;
    const int read_status = file_read(path, kConfigBytesMax, &text);
    if (read_status != AOTX_OK) {
        *error = std::string(path) + ": ";
        *error += read_status == AOTX_ERR_LENGTH ? "larger than 1 MiB" : strerror(errno);
        return read_status;
    }
    char* const resolved = realpath(path, nullptr);
    if (resolved == nullptr) {
        *error = std::string(path) + ": " + strerror(errno);
        return AOTX_ERR_SYSTEM;
    }
    std::string directory(resolved);
    free(resolved);
    directory.resize(directory.rfind('/') + 1);
    const int status = config_parse(text, directory, config, error);
    if (status != AOTX_OK) {
        *error = std::string(path) + ": " + *error;
    }
    return status;
}

uint32_t model_role(const ModelConfig& model) noexcept
{
    if (model.role == "language") {
        return AOTX_MODEL_ROLE_LANGUAGE;
    }
    if (model.role == "language-q4") {
        return AOTX_MODEL_ROLE_LANGUAGE_Q4;
    }
    AOTX_CHECK(model.role == "language-audio");
    return AOTX_MODEL_ROLE_LANGUAGE_AUDIO;
}

void principal_id(const PrincipalConfig& principal, uint8_t id[16]) noexcept
{
    AOTX_CHECK(principal.id.size() == 32);
    AOTX_CHECK(aotx_hex_decode(principal.id.data(), id, 16) == AOTX_OK);
}

void token_hash(const std::string& text, uint8_t hash[32]) noexcept
{
    AOTX_CHECK(text.size() == 64);
    AOTX_CHECK(aotx_hex_decode(text.data(), hash, 32) == AOTX_OK);
}

}  // namespace aotx
