// Purpose:  the configuration: defaults, ranges, refusals with their line, printing, document.
// Owns:     nothing.
// Thread:   main.
// Lifetime: one run.
#include "service/config/config.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

#include "aotx/packet.h"
#include "aotx/status.h"
#include "guard_page.h"

using namespace aotx;

namespace {

const char* const kModel =
    "[[models]]\nalias = \"small\"\nrole = \"language\"\npath = \"a.gguf\"\n";
const char* const kId = "000102030405060708090a0b0c0d0e0f";
const char* const kHash = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

std::string principal(const char* name, const char* id, const char* hash)
{
    return std::string("[[principals]]\nname = \"") + name + "\"\nid = \"" + id +
           "\"\ntoken_sha256 = [\"" + hash + "\"]\n";
}

}  // namespace

TEST_CASE("an empty configuration has the documented defaults")
{
    Config config;
    std::string error;
    REQUIRE(config_parse("", "/etc/aotx", &config, &error) == AOTX_OK);
    CHECK(config.device.socket_path == "/etc/aotx/service.sock");
    CHECK(config.device.device == "auto");
    CHECK(config.device.mailboxes == 128);
    CHECK(config.device.principals == 256);
    CHECK(config.device.requests == 128);
    CHECK(config.device.output_bytes == 65536);
    CHECK(config.device.request_seconds == 300);
    CHECK(config.device.upload_seconds == 120);
    CHECK(config.gateway.bind == "127.0.0.1:8081");
    CHECK(config.gateway.connections == 128);
    CHECK(config.gateway.body_readers == 8);
    CHECK(config.gateway.work == 64);
    CHECK(config.gateway.json_bytes == 8 * 1024 * 1024);
    CHECK(config.gateway.upload_bytes == 32 * 1024 * 1024);
    CHECK(config.gateway.body_credit_bytes == 64 * 1024 * 1024);
    CHECK(config.gateway.header_seconds == 10);
    CHECK(config.gateway.body_seconds == 60);
    CHECK(config.gateway.write_seconds == 10);
    CHECK(config.gateway.operation_seconds == 300);
    CHECK(config.gateway.event_bytes == 65536);
    CHECK(config.gateway.fetches == 4);
    CHECK(config.gateway.program_path.empty());
    CHECK(config.models.empty());
    CHECK(config.principals.empty());
}

TEST_CASE("values are read and relative paths completed")
{
    const std::string text =
        std::string("[device]\nsocket_path = \"run/s\"\nmailboxes = 1024\n") +
        "[gateway]\nenabled = false\nhosts = [\"box.example\", \"[::1]:80\"]\n" + kModel +
        principal("me", kId, kHash);
    Config config;
    std::string error;
    INFO(error);
    REQUIRE(config_parse(text, "/srv/", &config, &error) == AOTX_OK);
    CHECK(config.device.socket_path == "/srv/run/s");
    CHECK(config.device.mailboxes == 1024);
    CHECK_FALSE(config.gateway.enabled);
    CHECK(config.gateway.hosts == std::vector<std::string>{"box.example", "[::1]:80"});
    REQUIRE(config.models.size() == 1);
    CHECK(config.models[0].path == "/srv/a.gguf");
    CHECK(config.models[0].library == "libaotx_text_gguf.so");
    CHECK(model_role(config.models[0]) == AOTX_MODEL_ROLE_LANGUAGE);
    REQUIRE(config.principals.size() == 1);
    uint8_t id[16];
    principal_id(config.principals[0], id);
    CHECK(id[0] == 0);
    CHECK(id[15] == 15);
    uint8_t hash[32];
    token_hash(config.principals[0].token_sha256[0], hash);
    CHECK(hash[1] == 0x11);
    CHECK(hash[31] == 0xff);
}

TEST_CASE("refusals name the line, the key and the reason")
{
    const std::string two_models =
        std::string(kModel) + "[[models]]\nalias = \"other\"\nrole = \"language\"\npath = \"b\"\n";
    const std::string long_socket = "[device]\nsocket_path = \"/" + std::string(107, 'a') + "\"\n";
    const struct {
        std::string text;
        int status;
        const char* error;
    } rows[] = {
        {"[device]\nmailbox = 3\n", AOTX_ERR_SYNTAX, "line 2: device.mailbox: unknown key"},
        {"\n\n[devices]\n", AOTX_ERR_SYNTAX, "line 3: devices: unknown table or key"},
        {"stray = 1\n", AOTX_ERR_SYNTAX, "line 1: stray: unknown table or key"},
        {"device = 1\n", AOTX_ERR_SYNTAX, "line 1: device: must be a table"},
        {"[models]\nalias = \"a\"\n", AOTX_ERR_SYNTAX,
         "line 1: models: must be an array of tables"},
        {"models = [1]\n", AOTX_ERR_SYNTAX, "line 1: models: must be a table"},
        {"[device]\nmailboxes = 1\n", AOTX_ERR_RANGE,
         "line 2: device.mailboxes: 1 is not in 2..1024"},
        {"[device]\nmailboxes = 1025\n", AOTX_ERR_RANGE,
         "line 2: device.mailboxes: 1025 is not in 2..1024"},
        {"[device]\nmailboxes = -9223372036854775808\n", AOTX_ERR_RANGE,
         "line 2: device.mailboxes: -9223372036854775808 is not in 2..1024"},
        {"[device]\nmailboxes = \"3\"\n", AOTX_ERR_SYNTAX,
         "line 2: device.mailboxes: must be an integer"},
        {"[device]\nmailboxes = 3.0\n", AOTX_ERR_SYNTAX,
         "line 2: device.mailboxes: must be an integer"},
        {"[device]\ndevice = \"gpu\"\n", AOTX_ERR_RANGE,
         "line 2: device.device: is none of the choices"},
        {"[device]\ndevice = \"\"\n", AOTX_ERR_RANGE,
         "line 2: device.device: is none of the choices"},
        {"[device]\ndevice = true\n", AOTX_ERR_SYNTAX, "line 2: device.device: must be a string"},
        {long_socket, AOTX_ERR_RANGE, "line 2: device.socket_path: is 108 bytes long, not 1..107"},
        {"[device]\nsocket_path = \"a\\u0000b\"\n", AOTX_ERR_RANGE,
         "line 2: device.socket_path: holds a zero byte"},
        {"[gateway]\nenabled = 1\n", AOTX_ERR_SYNTAX,
         "line 2: gateway.enabled: must be true or false"},
        {"[gateway]\nhosts = \"a\"\n", AOTX_ERR_SYNTAX,
         "line 2: gateway.hosts: must be an array of strings"},
        {"[gateway]\nhosts = [\"a b\"]\n", AOTX_ERR_RANGE,
         "line 2: gateway.hosts: must be a host name with an optional port"},
        {"[gateway]\nhosts = [\n\"a\",\n\"b:99999\"]\n", AOTX_ERR_RANGE,
         "line 4: gateway.hosts: must be a host name with an optional port"},
        {"[device]\ncpus = \"0,0\"\n", AOTX_ERR_RANGE,
         "line 2: device.cpus: must be processor numbers as \"0\", \"0,2\" or \"1-3\""},
        {"[broker]\ncpus = 1\n", AOTX_ERR_SYNTAX, "line 2: broker.cpus: must be a string"},
        {"[gateway]\nbind = \"localhost:1\"\n", AOTX_ERR_RANGE,
         "line 2: gateway.bind: must be an IPv4 address or an IPv6 address in brackets, then "
         "\":\" and a port"},
        {"[gateway]\nbind = \"0.0.0.0:80\"\n", AOTX_ERR_RANGE,
         "gateway.bind: an address other than loopback needs certificate_path and key_path"},
        {"[gateway]\nkey_path = \"k\"\n", AOTX_ERR_RANGE,
         "gateway: certificate_path and key_path go together"},
        {"[device]\nmailboxes = 8\n", AOTX_ERR_RANGE,
         "gateway.wire_connections: must be below device.mailboxes, of which one is the control "
         "mailbox"},
        {"[[models]]\nalias = \"a\"\nrole = \"language\"\n", AOTX_ERR_RANGE,
         "models \"a\": needs path, or options"},
        {"\n[[models]]\nrole = \"language\"\npath = \"p\"\n", AOTX_ERR_SYNTAX,
         "line 2: models.alias: is required"},
        {"[[models]]\nalias = \"a\"\nrole = \"mind\"\n", AOTX_ERR_RANGE,
         "line 3: models.role: is none of the choices"},
        {"[[models]]\nalias = \"a b\"\nrole = \"language\"\n", AOTX_ERR_RANGE,
         "line 2: models.alias: may hold A-Z a-z 0-9 . _ : / - only"},
        {two_models, AOTX_ERR_RANGE, "models \"other\": role is used twice"},
        {std::string(kModel) + "options = \"{}\"\nthreads = 2\n", AOTX_ERR_RANGE,
         "models \"small\": with options, the keys of the GGUF text runtime have no effect and "
         "must be left out"},
        {std::string(kModel) + "sequences = 64\nstep_tokens = 32\n", AOTX_ERR_RANGE,
         "models \"small\": step_tokens is below sequences"},
        {principal("a", kId, kHash) + principal("b", kId, kHash), AOTX_ERR_RANGE,
         "principals \"b\": id is used twice"},
        {principal("a", "00000000000000000000000000000000", kHash), AOTX_ERR_RANGE,
         "principals \"a\": id is all zero"},
        {principal("a", "000102030405060708090A0B0C0D0E0F", kHash), AOTX_ERR_RANGE,
         "line 3: principals.id: must be lower-case hex digits"},
        {principal("a", "00", kHash), AOTX_ERR_RANGE,
         "line 3: principals.id: is 2 bytes long, not 32..32"},
        {principal("a", kId, "00"), AOTX_ERR_RANGE,
         "line 4: principals.token_sha256: is 2 bytes long, not 64..64"},
        {principal("a", kId, kHash) + principal("b", "00000000000000000000000000000001", kHash),
         AOTX_ERR_RANGE, "principals \"b\": a token hash is used twice"},
    };
    for (const auto& row : rows) {
        Config config;
        config.device.mailboxes = 77;
        std::string error;
        INFO(row.text);
        CHECK(config_parse(row.text, "/", &config, &error) == row.status);
        CHECK(error == row.error);
        CHECK(config.device.mailboxes == 77);
    }
}

TEST_CASE("broken TOML names its line")
{
    for (const char* const text :
         {"[device]\nmailboxes = \n", "[device]\nmailboxes = 2\nmailboxes = 3\n"}) {
        Config config;
        std::string error;
        CHECK(config_parse(text, "/", &config, &error) == AOTX_ERR_SYNTAX);
        CHECK(error.rfind("line ", 0) == 0);
    }
}

TEST_CASE("loopback addresses need no certificate")
{
    for (const char* const bind :
         {"127.0.0.1:0", "127.9.8.7:80", "[::1]:65535", "unix:/run/a/http.sock"}) {
        Config config;
        std::string error;
        const std::string text = std::string("[gateway]\nbind = \"") + bind + "\"\n";
        CHECK(config_parse(text, "/", &config, &error) == AOTX_OK);
    }
    for (const char* const bind :
         {"10.0.0.1:80", "[::]:80", "[::ffff:127.0.0.1]:80", "127.0.0.1:65536", "127.0.0.1",
          "::1:80", "unix:", "unix:a.sock"}) {
        Config config;
        std::string error;
        const std::string text = std::string("[gateway]\nbind = \"") + bind + "\"\n";
        CHECK(config_parse(text, "/", &config, &error) == AOTX_ERR_RANGE);
    }
}

TEST_CASE("any prefix of a configuration is judged without reading past it")
{
    const std::string text = std::string("[device]\nmailboxes = 64\n") + kModel +
                             principal("me", kId, kHash) + "[gateway]\nhosts = [\"a\"]\n";
    for (size_t cut = 0; cut <= text.size(); cut++) {
        const GuardCopy copy(text.data(), cut);
        Config config;
        std::string error;
        const int status =
            config_parse(std::string_view(copy.begin(), copy.size_bytes()), "/", &config, &error);
        CHECK((status == AOTX_OK || !error.empty()));
    }
}

TEST_CASE("nesting without end is refused")
{
    Config config;
    std::string error;
    const std::string text = "x = " + std::string(100000, '[');
    CHECK(config_parse(text, "/", &config, &error) == AOTX_ERR_SYNTAX);
}

TEST_CASE("a printed configuration reads back as the same one")
{
    const std::string text =
        std::string("[device]\nspin_us = 7\ncpus = \"0-3\"\n") +
        "[[models]]\nalias = \"s\"\nrole = \"language-q4\"\nlibrary = \"x.so\"\n" +
        "options = '{\"a\": \"\\n\\\"\"}'\n" + kModel + principal("me", kId, kHash);
    Config config;
    std::string error;
    REQUIRE(config_parse(text, "/base", &config, &error) == AOTX_OK);
    const std::string printed = config_print(config);
    Config again;
    INFO(printed);
    REQUIRE(config_parse(printed, "/elsewhere", &again, &error) == AOTX_OK);
    CHECK(config_print(again) == printed);
    CHECK(again.device.spin_us == 7);
    CHECK(again.device.cpus == "0-3");
    CHECK(again.models[0].options == "{\"a\": \"\\n\\\"\"}");
}

TEST_CASE("a model's library is opened with its options, or with the runtime's keys")
{
    ModelConfig model;
    model.path = "/m/\"x\".gguf";
    CHECK(
        model_config_json(model, "cpu") ==
        "{\"model_path\":\"/m/\\\"x\\\".gguf\",\"threads\":0,\"sequences\":32,\"kv_tokens\":16384,"
        "\"sequence_tokens\":0,\"step_tokens\":256,\"activations\":\"quantised\"}");
    model.options = "{\"pieces\":[]}";
    CHECK(model_config_json(model, "cuda") == "{\"pieces\":[]}");
}

TEST_CASE("docs/configuration.md is what the table says")
{
    std::ifstream in("docs/configuration.md", std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    CHECK(text.str() == config_document());
}
