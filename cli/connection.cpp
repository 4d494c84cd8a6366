// Purpose:  find the service and the credential.
// Owns:     nothing.
// Thread:   main.
// Lifetime: not applicable.
#include "cli/connection.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "aotx/handle.h"
#include "aotx/packet.h"
#include "cli/context.h"
#include "cli/failure.h"

namespace aotx::cli {
namespace {

constexpr const char* kConfigDefault = "/etc/aotx/aotx.toml";
constexpr const char* kUrlDefault = "http://127.0.0.1:8081";
constexpr size_t kTokenCharactersMin = 32;
constexpr size_t kTokenCharactersMax = 256;

std::string environment(const char* name)
{
    const char* const value = std::getenv(name);
    return value == nullptr ? std::string() : std::string(value);
}

std::string trimmed(const std::string& text)
{
    const size_t begin = text.find_first_not_of(" \t\r\n");
    if (begin == std::string::npos) {
        return {};
    }
    return text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

// A token goes into a header line, so that nothing else may be in it.
std::string checked_token(const std::string& text, const std::string& source)
{
    const std::string token = trimmed(text);
    bool fits = token.size() >= kTokenCharactersMin && token.size() <= kTokenCharactersMax;
    for (const char c : token) {
        fits = fits && c > 0x20 && c < 0x7f;
    }
    if (!fits) {
        throw Failure(kExitInput, source + " holds no token of 32 to 256 characters");
    }
    return token;
}

}  // namespace

void add_connection_options(Command* command, ConnectionOptions* options)
{
    const char* const http = "Through the gateway";
    const char* const local = "Straight to the device";
    command->option("--url", &options->url, "base URL of the gateway, unix:PATH, or $AOTX_URL")
        .group(http);
    command->option("--token-file", &options->token_file, "file with the token, or $AOTX_TOKEN")
        .group(http);
    command->option("--ca", &options->ca_file, "certificates to trust, PEM").group(http);
    command->option("--config", &options->config, "configuration of the service").group(http);
    command->option("--socket", &options->socket, "path of service.sock").group(local);
    command->flag("--direct", &options->direct, "use service.sock of the configuration")
        .group(local);
    command
        ->option("--principal", &options->principal, "name in the configuration or 32 hex digits")
        .group(local);
    command->option("--grants", &options->grants, "grant file that is installed").group(local);
    command->option("--revision", &options->revision, "grant revision instead of a grant file")
        .group(local);
}

std::string config_path(const std::string& given)
{
    if (!given.empty()) {
        return given;
    }
    const std::string named = environment("AOTX_CONFIG");
    if (!named.empty()) {
        return named;
    }
    return ::access(kConfigDefault, R_OK) == 0 ? kConfigDefault : "";
}

std::optional<Config> find_config(const std::string& given)
{
    const std::string path = config_path(given);
    if (path.empty()) {
        return std::nullopt;
    }
    Config config;
    std::string error;
    if (config_load(path.c_str(), &config, &error) != AOTX_OK) {
        throw Failure(kExitInput, error);
    }
    return config;
}

Config need_config(const std::string& given)
{
    std::optional<Config> config = find_config(given);
    if (!config) {
        throw Failure(kExitUsage, "which configuration? --config FILE or $AOTX_CONFIG names it");
    }
    return *config;
}

void find_principal(const std::optional<Config>& config, const std::string& given, uint8_t id[16])
{
    if (given.size() == 2 * AOTX_ID_BYTES &&
        aotx_hex_decode(given.data(), id, AOTX_ID_BYTES) == AOTX_OK) {
        return;
    }
    if (config) {
        for (const PrincipalConfig& principal : config->principals) {
            if (principal.name == given || (given.empty() && config->principals.size() == 1)) {
                principal_id(principal, id);
                return;
            }
        }
    }
    if (given.empty()) {
        throw Failure(kExitUsage, "which principal? --principal takes its name or 32 hex digits");
    }
    throw Failure(kExitInput, "no principal has the name " + given);
}

std::string find_url(const ConnectionOptions& options, const std::optional<Config>& config)
{
    std::string url = options.url.empty() ? environment("AOTX_URL") : options.url;
    if (url.empty() && config && address_is_unix(config->gateway.bind)) {
        url = config->gateway.bind;
    } else if (url.empty() && config) {
        const char* const scheme = config->gateway.certificate_path.empty() ? "http" : "https";
        url = std::string(scheme) + "://" + config->gateway.bind;
        // A wildcard is where a service listens and no place to connect to.
        const size_t any = url.find("://0.0.0.0:");
        if (any != std::string::npos) {
            url.replace(any + 3, std::strlen("0.0.0.0"), "127.0.0.1");
        }
        const size_t any6 = url.find("://[::]:");
        if (any6 != std::string::npos) {
            url.replace(any6 + 3, std::strlen("[::]"), "[::1]");
        }
    }
    if (url.empty()) {
        url = kUrlDefault;
    }
    if (address_is_unix(url)) {
        return url;
    }
    if (url.rfind("http://", 0) != 0 && url.rfind("https://", 0) != 0) {
        throw Failure(kExitUsage, "--url starts with http://, https:// or unix:");
    }
    while (!url.empty() && url.back() == '/') {
        url.pop_back();
    }
    // The base URL of standard clients ends in /v1; both forms are understood.
    if (url.size() > 3 && url.compare(url.size() - 3, 3, "/v1") == 0) {
        url.resize(url.size() - 3);
    }
    return url;
}

std::string find_token(const ConnectionOptions& options)
{
    if (!options.token_file.empty()) {
        return checked_token(read_source(options.token_file, 4096), options.token_file);
    }
    const std::string token = environment("AOTX_TOKEN");
    if (!token.empty()) {
        return checked_token(token, "$AOTX_TOKEN");
    }
    const std::string named = environment("AOTX_TOKEN_FILE");
    if (!named.empty()) {
        return checked_token(read_source(named, 4096), named);
    }
    const std::string path = config_path(options.config);
    const size_t slash = path.rfind('/');
    const std::string beside =
        path.empty() ? "" : (slash == std::string::npos ? "" : path.substr(0, slash + 1)) + "token";
    if (!beside.empty() && ::access(beside.c_str(), R_OK) == 0) {
        return checked_token(read_source(beside, 4096), beside);
    }
    return {};
}

}  // namespace aotx::cli
