// Purpose:  the one configuration file of all programs: its values, and how to read, print and
// document them.
// Owns:     the values of each Config.
// Thread:   any; a Config is read once at start and then constant.
// Lifetime: as long as its owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace aotx {

constexpr size_t kConfigBytesMax = 1 << 20;
constexpr size_t kSocketPathBytesMax = 107;  // of sockaddr_un, without its terminator
constexpr size_t kConfigModelsMax = 8;
constexpr size_t kConfigPrincipalsMax = 1022;  // rows that one grant frame can hold
constexpr size_t kTokenHashesMax = 4;          // of one principal, for rotation

// Ranges, units and meanings stand in the table of config.cpp, from which docs/configuration.md is
// made; the initial values here are the defaults.
struct DeviceConfig {
    std::string socket_path = "service.sock";
    std::string grants_path = "grants.bin";
    std::string state_dir = "state";
    std::string device = "auto";
    uint32_t mailboxes = 128;
    uint32_t principals = 256;
    uint32_t requests = 128;
    uint32_t prompts = 0;
    uint32_t output_bytes = 65536;
    uint32_t prompt_bytes = 65408;
    uint32_t execution_slots = 16;
    uint32_t active_requests = 128;
    uint32_t request_seconds = 300;
    uint32_t upload_seconds = 120;
    uint32_t stop_seconds = 10;
    uint32_t spin_us = 20;
    std::string cpus;  // empty: wherever the kernel likes, as in the two below
};

struct BrokerConfig {
    uint32_t spin_us = 20;
    std::string cpus;
};

// What stands before a socket's path where an address and port could stand.
constexpr std::string_view kUnixAddress = "unix:";

inline bool address_is_unix(std::string_view address) noexcept
{
    return address.substr(0, kUnixAddress.size()) == kUnixAddress;
}

struct GatewayConfig {
    bool enabled = true;
    std::string program_path;  // empty: aotx-gateway beside the running program
    std::string bind = "127.0.0.1:8081";
    std::string certificate_path;
    std::string key_path;
    std::vector<std::string> hosts;
    uint32_t connections = 128;
    uint32_t body_readers = 8;
    uint32_t json_bytes = 8 << 20;
    uint32_t upload_bytes = 32 << 20;
    uint64_t body_credit_bytes = 64 << 20;
    uint32_t work = 64;
    uint32_t fetches = 4;
    uint32_t wire_connections = 34;
    uint32_t header_seconds = 10;
    uint32_t body_seconds = 60;
    uint32_t write_seconds = 10;
    uint32_t idle_seconds = 75;
    uint32_t operation_seconds = 300;
    uint32_t heartbeat_seconds = 15;
    uint32_t event_bytes = 65536;
    uint32_t spin_us = 0;
    std::string cpus;
};

struct ModelConfig {
    std::string alias;
    std::string role;  // "language", "language-q4" or "language-audio"; model_role() has the number
    std::string library = "libaotx_text_gguf.so";
    std::string path;
    std::string options;
    uint64_t published_at = 0;
    uint32_t threads = 0;
    uint32_t sequences = 32;
    uint32_t kv_tokens = 16384;
    uint32_t sequence_tokens = 0;
    uint32_t step_tokens = 256;
    std::string activations = "quantised";
};

struct PrincipalConfig {
    std::string name;
    std::string id;
    std::vector<std::string> token_sha256;
};

struct Config {
    DeviceConfig device;
    BrokerConfig broker;
    GatewayConfig gateway;
    std::vector<ModelConfig> models;
    std::vector<PrincipalConfig> principals;
};

// Parse the text of a configuration. Relative paths are taken from directory, which must be
// absolute. AOTX_ERR_SYNTAX: no TOML, an unknown or missing key, or a value of another type;
// AOTX_ERR_RANGE: a value out of its range, or values that do not fit each other. On failure
// *config is untouched and *error reads "line N: <table>.<key>: <reason>".
[[nodiscard]] int config_parse(std::string_view text, std::string_view directory, Config* config,
                               std::string* error) noexcept;

// Read and parse a file. As config_parse; AOTX_ERR_NOT_FOUND and AOTX_ERR_SYSTEM when it cannot be
// read. *error begins with the path.
[[nodiscard]] int config_load(const char* path, Config* config, std::string* error) noexcept;

// enum aotx_model_role of a model; its role text has passed config_parse.
[[nodiscard]] uint32_t model_role(const ModelConfig& model) noexcept;

// What a model's library is opened with: options as they stand when the model has them, else the
// JSON of the GGUF text runtime's keys. device: what is to run the steps, "cpu", "cuda" or "auto";
// it is named only when it is not the CPU.
[[nodiscard]] std::string model_config_json(const ModelConfig& model,
                                            const std::string& device) noexcept;

// The 16 bytes of a principal's ID; its text has passed config_parse.
void principal_id(const PrincipalConfig& principal, uint8_t id[16]) noexcept;

// The 32 bytes of one token hash; its text has passed config_parse.
void token_hash(const std::string& text, uint8_t hash[32]) noexcept;

// The whole configuration as TOML with every value written out; parsing it gives the same Config.
[[nodiscard]] std::string config_print(const Config& config) noexcept;

// docs/configuration.md: every key with type, range, default and meaning.
[[nodiscard]] std::string config_document() noexcept;

}  // namespace aotx
