// Purpose:  the runtime's configuration: what is taken, what is refused and with which words.
// Owns:     nothing.
// Thread:   main.
// Lifetime: one run.
#include "config.h"

#include <catch2/catch.hpp>
#include <cstring>

#include "aotx/status.h"

using namespace aotx;

TEST_CASE("a full configuration is taken as written")
{
    TextConfig config;
    TextReason reason;
    const char* const text =
        "{ \"model_path\" : \"/a b\\u00e9\\n\\\"\\ud83d\\ude00\", \"threads\":2,\"sequences\":3,"
        "\"kv_tokens\":64,\"sequence_tokens\":32,\"step_tokens\":8,\"activations\":\"float\","
        "\"device\":\"auto\" } ";
    REQUIRE(text_config_parse(text, &config, &reason) == AOTX_OK);
    CHECK(config.model_path == "/a b\xc3\xa9\n\"\xf0\x9f\x98\x80");
    CHECK(config.threads == 2);
    CHECK(config.sequences == 3);
    CHECK(config.kv_tokens == 64);
    CHECK(config.sequence_tokens == 32);
    CHECK(config.step_tokens == 8);
    CHECK(config.activations == ActivationMode::kFloat);
    CHECK(config.device == DeviceChoice::kAuto);
    for (size_t cut = 0; cut + 2 < std::strlen(text); cut++) {
        const std::string part(text, cut);
        CHECK(text_config_parse(part.c_str(), &config, &reason) != AOTX_OK);
    }
}

TEST_CASE("what a configuration does not say has its default")
{
    TextConfig config;
    TextReason reason;
    REQUIRE(text_config_parse("{\"model_path\":\"m\"}", &config, &reason) == AOTX_OK);
    CHECK(config.threads == 0);
    CHECK(config.sequences == 32);
    CHECK(config.kv_tokens == 16384);
    CHECK(config.sequence_tokens == 0);
    CHECK(config.step_tokens == 256);
    CHECK(config.activations == ActivationMode::kQuantised);
    CHECK(config.device == DeviceChoice::kCpu);
}

TEST_CASE("anything else is refused and names the key")
{
    const struct {
        const char* text;
        int status;
        const char* words;
    } rows[] = {
        {"", AOTX_ERR_SYNTAX, "config"},
        {"[]", AOTX_ERR_SYNTAX, "config"},
        {"{}", AOTX_ERR_NOT_FOUND, "model_path"},
        {"{\"model_path\":\"m\"} x", AOTX_ERR_SYNTAX, "behind"},
        {"{\"model_path\":\"m\",}", AOTX_ERR_SYNTAX, "config"},
        {"{\"model_path\":\"m\",\"model_path\":\"m\"}", AOTX_ERR_RANGE, "model_path"},
        {"{\"model_path\":\"\"}", AOTX_ERR_RANGE, "model_path"},
        {"{\"model_path\":7}", AOTX_ERR_RANGE, "model_path"},
        {"{\"model_path\":\"\\u0000\"}", AOTX_ERR_RANGE, "model_path"},
        {"{\"model_path\":\"\\ud800\"}", AOTX_ERR_RANGE, "model_path"},
        {"{\"n_ctx\":7}", AOTX_ERR_RANGE, "n_ctx"},
        {"{\"threads\":-1}", AOTX_ERR_RANGE, "threads"},
        {"{\"threads\":1.0}", AOTX_ERR_RANGE, "threads"},
        {"{\"threads\":01}", AOTX_ERR_RANGE, "threads"},
        {"{\"threads\":257}", AOTX_ERR_RANGE, "threads"},
        {"{\"threads\":99999999999999999999}", AOTX_ERR_RANGE, "threads"},
        {"{\"sequences\":0}", AOTX_ERR_RANGE, "sequences"},
        {"{\"kv_tokens\":31}", AOTX_ERR_RANGE, "kv_tokens"},
        {"{\"activations\":\"int8\"}", AOTX_ERR_RANGE, "activations"},
        {"{\"device\":\"gpu\"}", AOTX_ERR_RANGE, "device"},
        {"{\"device\":1}", AOTX_ERR_RANGE, "device"},
        {"{\"model_path\":\"m\",\"step_tokens\":31}", AOTX_ERR_RANGE, "step_tokens"},
    };
    for (const auto& row : rows) {
        INFO(row.text);
        TextConfig config;
        TextReason reason;
        CHECK(text_config_parse(row.text, &config, &reason) == row.status);
        CHECK(std::strstr(reason.text, row.words) != nullptr);
        CHECK(config.model_path.empty());
    }
    TextConfig config;
    TextReason reason;
    CHECK(text_config_parse(nullptr, &config, &reason) == AOTX_ERR_SYNTAX);
}
