// Purpose:  where the service is and who asks: the options that all commands of a service share,
//           completed from the environment and the configuration.
// Owns:     the option values; the loaded configuration.
// Thread:   main.
// Lifetime: one run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/command.h"
#include "service/config/config.h"

namespace aotx::cli {

struct ConnectionOptions {
    std::string url;         // of the gateway
    std::string token_file;  // holds the token
    std::string ca_file;     // certificates to trust instead of the system's
    std::string socket;      // service.sock
    bool direct = false;     // service.sock of the configuration instead of the gateway
    std::string config;      // configuration file
    std::string principal;   // name or 32 hex digits, for service.sock
    std::string grants;      // grant file, for service.sock
    uint64_t revision = 0;   // grant revision instead of a grant file
};

void add_connection_options(Command* command, ConnectionOptions* options);

// --config, $AOTX_CONFIG or /etc/aotx/aotx.toml, the first that is there; nothing when none is.
// Throws Failure when one was named but cannot be read.
std::optional<Config> find_config(const std::string& given);

// The same, where a command cannot do without.
Config need_config(const std::string& given);

// The path that find_config takes, or an empty one.
std::string config_path(const std::string& given);

// 16 bytes of a principal named by its name in the configuration or by 32 hex digits.
void find_principal(const std::optional<Config>& config, const std::string& given, uint8_t id[16]);

// http(s)://address of the gateway; from --url, $AOTX_URL, the configuration, else the default.
std::string find_url(const ConnectionOptions& options, const std::optional<Config>& config);

// The token: --token-file, $AOTX_TOKEN, $AOTX_TOKEN_FILE, or the file "token" beside the
// configuration. Empty when there is none. Throws Failure when a named file cannot be read or holds
// no token.
std::string find_token(const ConnectionOptions& options);

}  // namespace aotx::cli
