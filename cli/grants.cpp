// Purpose:  `aotxctl grants`: make the grant file that the device loads, and show one.
// Owns:     nothing.
// Thread:   main.
// Lifetime: not applicable.
#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "aotx/grants.h"
#include "aotx/handle.h"
#include "aotx/names.h"
#include "cli/connection.h"
#include "cli/context.h"
#include "cli/failure.h"
#include "cli/terminal.h"
#include "service/base/file.h"

namespace aotx::cli {
namespace {

struct MakeArguments {
    std::string config;
    std::string out;
    std::string file;
    std::vector<std::string> principals;
    std::vector<std::string> actions = {"infer", "telemetry"};
    std::vector<std::string> models = {"language", "language-q4", "language-audio"};
    uint64_t revision = 0;
    uint32_t pages = 0;
    uint32_t output_tokens = 4096;
    uint32_t active_requests = 0;
    uint32_t media_objects = 0;
    uint64_t media_bytes = 0;
};

struct ShowArguments {
    std::string file;
    std::string config;
};

constexpr uint32_t kActiveRequestsDefault = 16;
constexpr unsigned kGrantFileMode = 0600;

std::string hex(const uint8_t* bytes, size_t bytes_count)
{
    std::string text(2 * bytes_count, '0');
    aotx_hex_encode(bytes, bytes_count, text.data());
    return text;
}

uint32_t actions_of(const std::vector<std::string>& names)
{
    uint32_t actions = 0;
    for (const std::string& name : names) {
        uint32_t bit = 1;
        while (bit <= AOTX_ACTION_POLICY_MANAGE && name != aotx_action_name(bit)) {
            bit <<= 1;
        }
        if (bit > AOTX_ACTION_POLICY_MANAGE) {
            throw Failure(kExitUsage, "no action has the name " + name +
                                          " (infer, upload, fetch, telemetry, shared_read, "
                                          "shared_write, shared_manage, policy_manage)");
        }
        actions |= bit;
    }
    return actions;
}

uint32_t models_of(const std::vector<std::string>& names)
{
    uint32_t mask = 0;
    for (const std::string& name : names) {
        uint32_t role = AOTX_MODEL_ROLE_LANGUAGE;
        while (role <= AOTX_MODEL_ROLE_LANGUAGE_AUDIO && name != aotx_model_role_name(role)) {
            role++;
        }
        if (role > AOTX_MODEL_ROLE_LANGUAGE_AUDIO) {
            throw Failure(kExitUsage, "no model role has the name " + name +
                                          " (language, language-q4, language-audio)");
        }
        mask |= 1u << role;
    }
    return mask;
}

std::vector<std::string> texts(const JsonValue& row, const char* name)
{
    std::vector<std::string> values;
    const JsonValue* const list = row.find(name);
    if (list == nullptr || !list->is_list()) {
        throw Failure(kExitInput, std::string("a grant row has no list ") + name);
    }
    for (const JsonValue& entry : list->items) {
        values.push_back(entry.text);
    }
    return values;
}

uint32_t narrow(const JsonValue& row, const char* name)
{
    const uint64_t value = row.number_of(name);
    if (value > UINT32_MAX) {
        throw Failure(kExitInput, std::string(name) + " is above 4294967295");
    }
    return static_cast<uint32_t>(value);
}

aotx_grant_row row_of_json(const JsonValue& json, const std::optional<Config>& config)
{
    aotx_grant_row row = {};
    find_principal(config, json.text_of("principal"), row.principal);
    row.actions = actions_of(texts(json, "actions"));
    row.model_mask = models_of(texts(json, "models"));
    row.pages_max = narrow(json, "pages");
    row.output_tokens_max = narrow(json, "output_tokens");
    row.active_requests_max = narrow(json, "active_requests");
    row.media_objects_max = narrow(json, "media_objects");
    row.media_bytes_max = json.number_of("media_bytes");
    return row;
}

std::vector<aotx_grant_row> rows_of_file(const std::string& path,
                                         const std::optional<Config>& config)
{
    const JsonDocument document(read_source(path, 1 << 22), kExitInput, path);
    const JsonValue* const list = document.root().find("rows");
    if (list == nullptr || !list->is_list()) {
        throw Failure(kExitInput, path + " has no list named rows");
    }
    std::vector<aotx_grant_row> rows;
    for (const JsonValue& entry : list->items) {
        rows.push_back(row_of_json(entry, config));
    }
    return rows;
}

std::vector<aotx_grant_row> rows_of_options(const MakeArguments& arguments,
                                            const std::optional<Config>& config)
{
    std::vector<std::string> names = arguments.principals;
    if (names.empty() && config) {
        for (const PrincipalConfig& principal : config->principals) {
            names.push_back(principal.id);
        }
    }
    if (names.empty()) {
        throw Failure(kExitUsage, "whom to grant? --principal, or a --config that has principals");
    }
    uint32_t active = arguments.active_requests;
    if (active == 0) {
        const uint32_t ceiling = config ? config->device.active_requests : kActiveRequestsDefault;
        active = std::min(kActiveRequestsDefault, ceiling);
    }
    std::vector<aotx_grant_row> rows;
    for (const std::string& name : names) {
        aotx_grant_row row = {};
        find_principal(config, name, row.principal);
        row.actions = actions_of(arguments.actions);
        row.model_mask = models_of(arguments.models);
        row.pages_max = arguments.pages;
        row.output_tokens_max = arguments.output_tokens;
        row.active_requests_max = active;
        row.media_objects_max = arguments.media_objects;
        row.media_bytes_max = arguments.media_bytes;
        rows.push_back(row);
    }
    return rows;
}

// Revision of the grant file at path; 0 when there is none.
uint64_t present_revision(const std::string& path)
{
    std::string text;
    const int result = file_read(path.c_str(), AOTX_PACKET_BYTES_MAX, &text);
    if (result == AOTX_ERR_NOT_FOUND) {
        return 0;
    }
    aotx_request_head head = {};
    if (result != AOTX_OK || aotx_grants_check(reinterpret_cast<const uint8_t*>(text.data()),
                                               text.size(), &head) != AOTX_OK) {
        throw Failure(kExitInput, path + " is there and is no grant file; it is left alone");
    }
    return head.grant_revision;
}

int grants_make(const Context& context, const MakeArguments& arguments)
{
    const std::optional<Config> config = find_config(arguments.config);
    const std::string out = !arguments.out.empty() ? arguments.out
                            : config               ? config->device.grants_path
                                                   : "";
    if (out.empty()) {
        throw Failure(kExitUsage, "where to? --out FILE, or a --config that names grants_path");
    }
    const std::vector<aotx_grant_row> rows = arguments.file.empty()
                                                 ? rows_of_options(arguments, config)
                                                 : rows_of_file(arguments.file, config);
    const uint64_t before = present_revision(out);
    const uint64_t revision = arguments.revision == 0 ? before + 1 : arguments.revision;
    if (revision <= before) {
        throw Failure(kExitUsage, "the present file has revision " + std::to_string(before) +
                                      ", and a device takes only a higher one");
    }
    std::vector<uint8_t> frame(AOTX_PACKET_BYTES_MAX);
    size_t frame_bytes = 0;
    const int result = aotx_grants_build(revision, rows.data(), static_cast<uint32_t>(rows.size()),
                                         frame.data(), &frame_bytes);
    if (result == AOTX_ERR_SYNTAX) {
        throw Failure(kExitUsage, "two rows name one principal");
    }
    if (result != AOTX_OK) {
        throw Failure(kExitUsage, std::string("these grants would be refused: ") +
                                      aotx_result_text(result) +
                                      " (fetch needs upload; tokens and requests are above 0)");
    }
    const std::string_view bytes(reinterpret_cast<const char*>(frame.data()), frame_bytes);
    if (file_replace(out, bytes, kGrantFileMode) != AOTX_OK) {
        throw Failure(kExitInput, out + ": " + std::strerror(errno));
    }
    if (context.json) {
        JsonWriter json;
        json.begin_object().key("file").text(out).key("revision").decimal(revision);
        json.key("rows").number(rows.size()).end_object();
        print_json(json.str());
    } else {
        print_text(escape_controls(out, false) + ": revision " + std::to_string(revision) + ", " +
                   std::to_string(rows.size()) + (rows.size() == 1 ? " row\n" : " rows\n"));
    }
    return kExitDone;
}

void write_row(JsonWriter* json, const aotx_grant_row& row, const std::string& name)
{
    json->begin_object().key("principal").text(hex(row.principal, sizeof row.principal));
    json->key("name");
    name.empty() ? json->null() : json->text(name);
    json->key("actions").begin_array();
    for (uint32_t bit = 1; bit <= AOTX_ACTION_POLICY_MANAGE; bit <<= 1) {
        if ((row.actions & bit) != 0) {
            json->text(aotx_action_name(bit));
        }
    }
    json->end_array().key("models").begin_array();
    for (uint32_t role = AOTX_MODEL_ROLE_LANGUAGE; role <= AOTX_MODEL_ROLE_LANGUAGE_AUDIO; role++) {
        if ((row.model_mask & (1u << role)) != 0) {
            json->text(aotx_model_role_name(role));
        }
    }
    json->end_array().key("pages").number(row.pages_max);
    json->key("output_tokens").number(row.output_tokens_max);
    json->key("active_requests").number(row.active_requests_max);
    json->key("media_objects").number(row.media_objects_max);
    json->key("media_bytes").decimal(row.media_bytes_max).end_object();
}

std::string name_of(const std::optional<Config>& config, const uint8_t id[16])
{
    if (config) {
        for (const PrincipalConfig& principal : config->principals) {
            if (principal.id == hex(id, AOTX_ID_BYTES)) {
                return principal.name;
            }
        }
    }
    return {};
}

int grants_show(const Context& context, const ShowArguments& arguments)
{
    const std::optional<Config> config = find_config(arguments.config);
    const std::string path = !arguments.file.empty() ? arguments.file
                             : config                ? config->device.grants_path
                                                     : "";
    if (path.empty()) {
        throw Failure(kExitUsage, "which file? name one, or a --config that names grants_path");
    }
    const std::string text = read_source(path, AOTX_PACKET_BYTES_MAX);
    const uint8_t* const bytes = reinterpret_cast<const uint8_t*>(text.data());
    aotx_request_head head = {};
    const int result = aotx_grants_check(bytes, text.size(), &head);
    if (result != AOTX_OK) {
        throw Failure(kExitInput, path + " is no grant file: " + aotx_result_text(result));
    }
    JsonWriter json;
    json.begin_object().key("schema").text("aotx.grants.v1");
    json.key("revision").decimal(head.grant_revision).key("rows").begin_array();
    for (uint32_t i = 0; i < head.count; i++) {
        aotx_grant_row row = {};
        aotx_grant_row_get(bytes + AOTX_HEAD_BYTES, i, &row);
        write_row(&json, row, name_of(config, row.principal));
    }
    json.end_array().end_object();
    print_document(context, json.str(), "the grant file");
    return kExitDone;
}

void add_make(Command& grants, Context& context)
{
    const auto arguments = std::make_shared<MakeArguments>();
    Command make = grants.add(
        context, "make", "write a grant file; the old one is replaced whole or not at all",
        "  aotxctl grants make --config aotx.toml\n"
        "  aotxctl grants make --config aotx.toml --principal laptop --output-tokens 1024\n"
        "  aotxctl grants make --file grants.json --out grants.bin\n"
        "A running service takes the new file on SIGHUP.\n",
        [&context, arguments]() { return grants_make(context, *arguments); });
    make.option("--config", &arguments->config, "configuration: principals, grants_path");
    make.option("--out", &arguments->out, "file to write; grants_path of the configuration");
    make.option("--file", &arguments->file, "rows as 'grants show --json' prints them, or -");
    make.option("--revision", &arguments->revision, "default: one above the present file's");
    make.option("--principal", &arguments->principals,
                "name or 32 hex digits, repeatable; default: all of the configuration");
    make.option("--actions", &arguments->actions, "comma separated")
        .split_at_commas()
        .show_default();
    make.option("--models", &arguments->models, "roles").split_at_commas().show_default();
    make.option("--pages", &arguments->pages, "KV pages a request may hold; 0: the device's");
    make.option("--output-tokens", &arguments->output_tokens, "of one answer").show_default();
    make.option("--active-requests", &arguments->active_requests,
                "at one time; default 16, or the device's ceiling if lower");
    make.option("--media-objects", &arguments->media_objects, "sources kept").show_default();
    make.option("--media-bytes", &arguments->media_bytes, "of all sources").show_default();
}

}  // namespace

void add_grants_command(Command& program, Context& context)
{
    Command grants = program.add_family("grants", "make and show grant files");
    add_make(grants, context);
    const auto arguments = std::make_shared<ShowArguments>();
    Command show = grants.add(
        context, "show", "what a grant file says",
        "  aotxctl grants show grants.bin\n  aotxctl grants show --config aotx.toml --json\n",
        [&context, arguments]() { return grants_show(context, *arguments); });
    show.option("file", &arguments->file, "grant file, or -");
    show.option("--config", &arguments->config, "configuration: names, grants_path");
}

}  // namespace aotx::cli
