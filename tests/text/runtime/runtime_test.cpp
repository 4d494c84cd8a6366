// Purpose:  the real model through the shared object, as a host would load it: an answer that makes
//           sense, the contract's refusals, and rows that do not feel their company.
// Owns:     nothing.
// Thread:   main.
// Lifetime: one run. Needs the model file: $AOTX_MODEL or .aotx/SmolLM2-135M-Instruct.Q4_1.gguf.
#include <dlfcn.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "aotx/packet.h"
#include "aotx/text_runtime.h"
#include "flashrt/model_runtime.h"

namespace {

std::string model_path()
{
    const char* const given = std::getenv("AOTX_MODEL");
    const std::string path = given != nullptr ? given : ".aotx/SmolLM2-135M-Instruct.Q4_1.gguf";
    FILE* const file = std::fopen(path.c_str(), "rb");
    if (file == nullptr) {
        return "";
    }
    std::fclose(file);
    return path;
}

// The runtime of the shared object next to this program.
struct Opened {
    frt_model_runtime_v1* model = nullptr;
    const aotx_text_runtime_v1* text = nullptr;
    const frt_generic_stage_plan_ext_v1* plan = nullptr;

    explicit Opened(const std::string& settings)
    {
        void* const library = dlopen(AOTX_TEXT_GGUF_LIBRARY, RTLD_NOW | RTLD_LOCAL);
        REQUIRE(library != nullptr);
        const auto open = reinterpret_cast<int (*)(const char*, frt_model_runtime_v1**)>(
            dlsym(library, FRT_MODEL_RUNTIME_OPEN_V1_SYMBOL));
        REQUIRE(open != nullptr);
        const std::string config =
            "{\"model_path\":\"" + model_path() + "\",\"kv_tokens\":4096," + settings + "}";
        REQUIRE(open(config.c_str(), &model) == 0);
        const void* table = nullptr;
        REQUIRE(model->query_extension(model, AOTX_TEXT_RUNTIME_EXTENSION_ID, 1, &table) == 0);
        text = static_cast<const aotx_text_runtime_v1*>(table);
        REQUIRE(model->query_extension(model, FRT_EXT_GENERIC_STAGE_PLAN_V1, 1, &table) == 0);
        plan = static_cast<const frt_generic_stage_plan_ext_v1*>(table);
    }
    ~Opened() { model->release(model->owner); }

    int32_t best(const float* logits) const
    {
        int32_t at = 0;
        for (uint32_t i = 1; i < text->properties->vocab_size; i++) {
            at = logits[i] > logits[at] ? static_cast<int32_t>(i) : at;
        }
        return at;
    }

    std::vector<int32_t> render(const char* question) const
    {
        const aotx_text_part part = {AOTX_PART_KIND_TEXT,
                                     static_cast<uint32_t>(std::strlen(question)),
                                     reinterpret_cast<const uint8_t*>(question)};
        const aotx_text_message message = {AOTX_MESSAGE_ROLE_USER, 1, &part};
        std::vector<int32_t> tokens(4096);
        uint32_t count = 0;
        REQUIRE(text->render(text->self, &message, 1, tokens.data(), 4096, &count) == 0);
        tokens.resize(count);
        return tokens;
    }

    // Feed and return the logits of the last token.
    std::vector<float> feed(uint32_t sequence, const std::vector<int32_t>& tokens) const
    {
        aotx_text_row row = {sequence, static_cast<uint32_t>(tokens.size()), tokens.data(), 1, 0,
                             nullptr};
        REQUIRE(text->step(text->self, &row, 1) == 0);
        return {row.logits, row.logits + text->properties->vocab_size};
    }

    std::string answer(const char* question, uint32_t tokens_max) const
    {
        std::string out;
        const std::vector<int32_t> prompt = render(question);
        REQUIRE(text->sequence_open(text->self, 0, 512) == 0);
        int32_t next = best(feed(0, prompt).data());
        for (uint32_t i = 0; i < tokens_max; i++) {
            const uint8_t* bytes = nullptr;
            uint32_t count = 0;
            uint32_t flags = 0;
            REQUIRE(text->token_bytes(text->self, next, &bytes, &count, &flags) == 0);
            if ((flags & AOTX_TEXT_TOKEN_END) != 0) {
                break;
            }
            out.append(reinterpret_cast<const char*>(bytes), count);
            next = best(feed(0, {next}).data());
        }
        REQUIRE(text->sequence_close(text->self, 0) == 0);
        return out;
    }
};

}  // namespace

TEST_CASE("the capital of France is Paris, whatever the activations and threads")
{
    if (model_path().empty()) {
        WARN("no model file: skipped");
        return;
    }
    for (const char* settings :
         {"\"threads\":1", "\"threads\":2", "\"threads\":1,\"activations\":\"float\""}) {
        INFO(settings);
        const Opened runtime(settings);
        CHECK(runtime.answer("What is the capital of France?", 32).find("Paris") !=
              std::string::npos);
    }
}

TEST_CASE("a row has the same bits alone and in company")
{
    if (model_path().empty()) {
        WARN("no model file: skipped");
        return;
    }
    const Opened runtime("\"threads\":2,\"sequences\":8,\"step_tokens\":96");
    const aotx_text_runtime_v1* const text = runtime.text;
    const std::vector<int32_t> prompt = runtime.render("Name three rivers of Europe.");
    REQUIRE(text->sequence_open(text->self, 0, 256) == 0);
    std::vector<std::vector<float>> alone;
    for (uint32_t i = 0; i < 8; i++) {
        alone.push_back(runtime.feed(0, i == 0 ? prompt : std::vector<int32_t>{prompt[i]}));
    }
    for (uint32_t sequence = 1; sequence < 8; sequence++) {
        REQUIRE(text->sequence_open(text->self, sequence, 256) == 0);
    }
    // The same tokens in sequence 5, while others prefill and decode around it and its own prompt
    // comes in three chunks.
    const std::vector<int32_t> other = runtime.render("Hello!");
    uint32_t done = 0;
    for (uint32_t i = 0; i < 10; i++) {
        aotx_text_row rows[3] = {};
        const uint32_t left = static_cast<uint32_t>(prompt.size()) - done;
        const uint32_t chunk = left == 0 ? 1 : (i < 2 ? 11 : left);
        const int32_t* const at = left == 0 ? &prompt[i - 2] : prompt.data() + done;
        rows[0] = {1 + i % 3, i % 2 == 0 ? 20u : 1u, other.data(), i % 2, 0, nullptr};
        rows[1] = {5, chunk, at, left <= chunk ? 1u : 0u, 0, nullptr};
        rows[2] = {7, 2, other.data() + 3, 1, 0, nullptr};
        REQUIRE(text->step(text->self, rows, 3) == 0);
        done += left == 0 ? 0 : chunk;
        if (rows[1].logits != nullptr) {
            INFO("step " << i);
            CHECK(std::memcmp(rows[1].logits, alone[i - 2].data(),
                              alone[0].size() * sizeof(float)) == 0);
        }
    }
    for (uint32_t sequence = 0; sequence < 8; sequence++) {
        const int code = text->sequence_close(text->self, sequence);
        CHECK(code == 0);
    }
}

TEST_CASE("refused verbs change nothing")
{
    if (model_path().empty()) {
        WARN("no model file: skipped");
        return;
    }
    const Opened runtime("\"threads\":1,\"sequences\":4,\"step_tokens\":16");
    const aotx_text_runtime_v1* const text = runtime.text;
    const aotx_text_properties& properties = *text->properties;
    CHECK(properties.pages_count == 128);
    CHECK(properties.sequence_tokens_max == 4096);
    CHECK(text->sequence_open(text->self, 4, 1) == -1);
    CHECK(text->sequence_open(text->self, 0, 0) == -4);
    CHECK(text->sequence_open(text->self, 0, 4097) == -4);
    CHECK(text->sequence_close(text->self, 0) == -1);
    CHECK(text->sequence_open(text->self, 0, 33) == 0);
    CHECK(text->sequence_open(text->self, 0, 33) == -1);
    CHECK(text->sequence_open(text->self, 1, 4096) == -5);
    CHECK(std::strlen(runtime.model->verbs.last_error(runtime.model->self)) > 0);
    CHECK(text->sequence_open(text->self, 1, 126 * 32) == 0);
    CHECK(text->sequence_close(text->self, 1) == 0);

    const int32_t tokens[40] = {1, 2, 3};
    const int32_t foreign = static_cast<int32_t>(properties.vocab_size);
    const int32_t negative = -1;
    const struct {
        const char* name;
        aotx_text_row row;
        int code;
    } rows[] = {
        {"closed", {1, 1, tokens, 0, 0, nullptr}, -1},
        {"out of range", {9, 1, tokens, 0, 0, nullptr}, -1},
        {"no tokens", {0, 0, tokens, 0, 0, nullptr}, -1},
        {"null tokens", {0, 1, nullptr, 0, 0, nullptr}, -1},
        {"flag 2", {0, 1, tokens, 2, 0, nullptr}, -1},
        {"reserved", {0, 1, tokens, 0, 1, nullptr}, -1},
        {"foreign token", {0, 1, &foreign, 0, 0, nullptr}, -1},
        {"negative token", {0, 1, &negative, 0, 0, nullptr}, -1},
        {"over the step", {0, 17, tokens, 0, 0, nullptr}, -4},
    };
    for (const auto& row : rows) {
        INFO(row.name);
        aotx_text_row copy = row.row;
        CHECK(text->step(text->self, &copy, 1) == row.code);
    }
    CHECK(text->step(text->self, nullptr, 1) == -1);
    aotx_text_row twice[2] = {{0, 1, tokens, 0, 0, nullptr}, {0, 1, tokens, 0, 0, nullptr}};
    CHECK(text->step(text->self, twice, 2) == -1);
    for (uint32_t i = 0; i < 2; i++) {
        aotx_text_row row = {0, 16, tokens, 0, 0, nullptr};
        CHECK(text->step(text->self, &row, 1) == 0);
    }
    aotx_text_row row = {0, 2, tokens, 0, 0, nullptr};
    CHECK(text->step(text->self, &row, 1) == -5);
    row.tokens_count = 1;
    CHECK(text->step(text->self, &row, 1) == 0);
}

TEST_CASE("the plain ports tell the same story as the batched verbs")
{
    if (model_path().empty()) {
        WARN("no model file: skipped");
        return;
    }
    const Opened runtime("\"threads\":1");
    frt_model_runtime_v1* const model = runtime.model;
    const std::string want = runtime.answer("What is the capital of France?", 8);
    const std::vector<int32_t> prompt = runtime.render("What is the capital of France?");
    CHECK(runtime.plan->run_opaque(runtime.plan->stage_self, 1) == -1);
    CHECK(runtime.plan->run_opaque(runtime.plan->stage_self, 2) == -1);
    CHECK(model->verbs.set_input(model->self, 1, prompt.data(), prompt.size() * 4, -1) == 0);
    CHECK(model->verbs.set_input(model->self, 1, prompt.data(), 3, -1) == -4);
    CHECK(runtime.plan->run_opaque(runtime.plan->stage_self, 1) == 0);
    int32_t is_end = 0;
    for (uint32_t i = 0; i < 8 && is_end == 0; i++) {
        CHECK(runtime.plan->run_opaque(runtime.plan->stage_self, 2) == 0);
        uint64_t written = 0;
        CHECK(model->verbs.get_output(model->self, 4, &is_end, sizeof is_end, &written, -1) == 0);
    }
    char out[256] = {};
    uint64_t written = 0;
    CHECK(model->verbs.get_output(model->self, 5, out, 1, &written, -1) == -5);
    CHECK(written == want.size());
    CHECK(model->verbs.get_output(model->self, 5, out, sizeof out, &written, -1) == 0);
    CHECK(std::string(out, written) == want);
    CHECK(runtime.plan->run_opaque(runtime.plan->stage_self, 0) == 0);
    CHECK(runtime.plan->run_opaque(runtime.plan->stage_self, 3) == -2);
}
