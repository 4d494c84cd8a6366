// Purpose:  text_provider.hpp: a runtime of the plain level around a class, its order and refusals.
// Owns:     nothing.
// Thread:   main.
// Lifetime: one run.
#include "aotx/text_provider.hpp"

#include <catch2/catch.hpp>
#include <string>

namespace {

int alive = 0;

// Says its prompt, a byte a token, then "no" codes on demand: a prompt that begins with '!' is not
// taken, '?' fails at the second token, '#' is full there.
class Echo final : public aotx::TextProvider {
public:
    Echo() { alive++; }
    ~Echo() override { alive--; }
    int begin(const char* prompt, uint64_t prompt_bytes) noexcept override
    {
        prompt_ = prompt;
        bytes_ = prompt_bytes;
        at_ = 0;
        return bytes_ != 0 && prompt[0] == '!' ? FRT_VERB_SHAPE : FRT_VERB_OK;
    }
    int next(aotx::TextToken* token) noexcept override
    {
        if (at_ == bytes_) {
            return aotx::kTextEnded;
        }
        if (at_ == 1 && prompt_[0] == '?') {
            return FRT_VERB_BACKEND;
        }
        if (at_ == 1 && prompt_[0] == '#') {
            return FRT_VERB_STORAGE;
        }
        *token = {prompt_[at_], prompt_ + at_, 1};
        at_++;
        return aotx::kTextToken;
    }
    const char* reason() const noexcept override { return "as it was told"; }

private:
    const char* prompt_ = nullptr;
    uint64_t bytes_ = 0;
    uint64_t at_ = 0;
};

enum Port : uint32_t { kPrompt, kNextToken, kIsEog, kText };
enum Stage : uint32_t { kReset, kPrefill, kDecode };

class Opened {
public:
    explicit Opened(uint64_t prompt_bytes = 8, uint64_t text_bytes = 4)
    {
        REQUIRE(aotx::text_provider_open(new Echo, {"echo/1", prompt_bytes, text_bytes}, &model) ==
                FRT_VERB_OK);
        const void* table = nullptr;
        REQUIRE(model->query_extension(model, FRT_EXT_GENERIC_STAGE_PLAN_V1, 1, &table) == 0);
        plan = static_cast<const frt_generic_stage_plan_ext_v1*>(table);
        REQUIRE(plan->n_stages == 3);
    }
    ~Opened() { model->release(model->owner); }
    int prompt(const std::string& text)
    {
        return model->verbs.set_input(model->self, kPrompt, text.data(), text.size(), -1);
    }
    int run(uint32_t stage) { return plan->run_opaque(plan->stage_self, stage); }
    std::string text()
    {
        char bytes[64] = {};
        uint64_t written = 0;
        REQUIRE(model->verbs.get_output(model->self, kText, bytes, sizeof bytes, &written, -1) ==
                FRT_VERB_OK);
        return std::string(bytes, written);
    }
    int32_t number(uint32_t port)
    {
        int32_t value = -1;
        uint64_t written = 0;
        REQUIRE(model->verbs.get_output(model->self, port, &value, sizeof value, &written, -1) ==
                FRT_VERB_OK);
        REQUIRE(written == 4);
        return value;
    }
    std::string error() { return model->verbs.last_error(model->self); }

    frt_model_runtime_v1* model = nullptr;
    const frt_generic_stage_plan_ext_v1* plan = nullptr;
};

}  // namespace

TEST_CASE("ports and stages have the names that the service looks for")
{
    const Opened opened;
    const char* const ports[] = {"prompt", "next_token", "is_eog", "text"};
    REQUIRE(opened.model->n_ports == 4);
    for (uint32_t i = 0; i < 4; i++) {
        CHECK(std::string(opened.model->ports[i].name) == ports[i]);
        CHECK(opened.model->ports[i].update == FRT_RT_PORT_STAGED);
    }
    const char* const stages[] = {"reset", "prefill", "decode"};
    for (uint32_t i = 0; i < 3; i++) {
        CHECK(std::string(opened.plan->stages[i].name) == stages[i]);
        CHECK(opened.plan->stages[i].executor_kind == FRT_GENERIC_STAGE_OPAQUE);
    }
}

TEST_CASE("an answer grows token by token, ends, and stays ended")
{
    Opened opened;
    CHECK(opened.run(kDecode) == FRT_VERB_INVALID);
    CHECK(opened.error() == "decode comes after prefill");
    REQUIRE(opened.run(kReset) == FRT_VERB_OK);
    REQUIRE(opened.prompt("ab") == FRT_VERB_OK);
    CHECK(opened.run(kDecode) == FRT_VERB_INVALID);
    REQUIRE(opened.run(kPrefill) == FRT_VERB_OK);
    CHECK(opened.text().empty());
    const char* const texts[] = {"a", "ab", "ab", "ab"};
    for (uint32_t i = 0; i < 4; i++) {
        REQUIRE(opened.run(kDecode) == FRT_VERB_OK);
        CHECK(opened.text() == texts[i]);
        CHECK(opened.number(kIsEog) == (i < 2 ? 0 : 1));
        CHECK(opened.number(kNextToken) == (i == 0 ? 'a' : 'b'));
    }
    REQUIRE(opened.run(kPrefill) == FRT_VERB_OK);  // the same prompt again
    CHECK(opened.text().empty());
    CHECK(opened.number(kIsEog) == 0);
    REQUIRE(opened.prompt("") == FRT_VERB_OK);
    REQUIRE(opened.run(kPrefill) == FRT_VERB_OK);
    REQUIRE(opened.run(kDecode) == FRT_VERB_OK);
    CHECK(opened.number(kIsEog) == 1);
}

TEST_CASE("what the provider refuses is passed on with its reason")
{
    const struct {
        const char* prompt;
        int prefill, first, second;
    } rows[] = {
        {"!x", FRT_VERB_SHAPE, FRT_VERB_INVALID, FRT_VERB_INVALID},
        {"?x", FRT_VERB_OK, FRT_VERB_OK, FRT_VERB_BACKEND},
        {"#x", FRT_VERB_OK, FRT_VERB_OK, FRT_VERB_STORAGE},
    };
    for (const auto& row : rows) {
        INFO(row.prompt);
        Opened opened;
        REQUIRE(opened.prompt(row.prompt) == FRT_VERB_OK);
        CHECK(opened.run(kPrefill) == row.prefill);
        CHECK(opened.run(kDecode) == row.first);
        CHECK(opened.run(kDecode) == row.second);
        if (row.prefill == FRT_VERB_OK) {
            CHECK(opened.error() == "as it was told");
        }
        REQUIRE(opened.prompt("a") == FRT_VERB_OK);  // and the next one is served
        REQUIRE(opened.run(kPrefill) == FRT_VERB_OK);
        REQUIRE(opened.run(kDecode) == FRT_VERB_OK);
        CHECK(opened.text() == "a");
        CHECK(opened.error().empty());
    }
}

TEST_CASE("bounds hold: prompt, answer, buffers, ports, stages")
{
    Opened opened(4, 2);
    CHECK(opened.prompt("abcde") == FRT_VERB_STORAGE);
    REQUIRE(opened.prompt("abcd") == FRT_VERB_OK);
    const frt_model_runtime_verbs& verbs = opened.model->verbs;
    CHECK(verbs.set_input(opened.model->self, kPrompt, nullptr, 1, -1) == FRT_VERB_INVALID);
    CHECK(verbs.set_input(opened.model->self, kText, "a", 1, -1) == FRT_VERB_INVALID);
    REQUIRE(opened.run(kPrefill) == FRT_VERB_OK);
    REQUIRE(opened.run(kDecode) == FRT_VERB_OK);
    REQUIRE(opened.run(kDecode) == FRT_VERB_OK);
    CHECK(opened.run(kDecode) == FRT_VERB_STORAGE);  // the answer is full
    CHECK(opened.text() == "ab");
    char byte = 'z';
    uint64_t written = 0;
    CHECK(verbs.get_output(opened.model->self, kText, &byte, 1, &written, -1) == FRT_VERB_STORAGE);
    CHECK(written == 2);
    CHECK(byte == 'z');
    CHECK(verbs.get_output(opened.model->self, kPrompt, &byte, 1, &written, -1) ==
          FRT_VERB_INVALID);
    CHECK(verbs.get_output(opened.model->self, 4, &byte, 1, &written, -1) == FRT_VERB_INVALID);
    CHECK(verbs.get_output(opened.model->self, kText, nullptr, 1, &written, -1) ==
          FRT_VERB_INVALID);
    CHECK(verbs.get_output(opened.model->self, kText, &byte, 1, nullptr, -1) == FRT_VERB_INVALID);
    CHECK(opened.run(3) == FRT_VERB_NOT_FOUND);
}

TEST_CASE("the provider goes with the last reference, and with a refusal")
{
    REQUIRE(alive == 0);
    {
        Opened opened;
        opened.model->retain(opened.model->owner);
        opened.model->release(opened.model->owner);
        CHECK(alive == 1);
    }
    CHECK(alive == 0);
    frt_model_runtime_v1* model = reinterpret_cast<frt_model_runtime_v1*>(&alive);
    CHECK(aotx::text_provider_open(new Echo, {"echo/1", 0, 1}, &model) == FRT_VERB_INVALID);
    CHECK(model == nullptr);
    CHECK(aotx::text_provider_open(new Echo, {"echo/1", 1, 0}, &model) == FRT_VERB_INVALID);
    CHECK(aotx::text_provider_open(new Echo, {nullptr, 1, 1}, &model) == FRT_VERB_INVALID);
    CHECK(aotx::text_provider_open(new Echo, {"echo/1", 1, 1}, nullptr) == FRT_VERB_INVALID);
    CHECK(aotx::text_provider_open(nullptr, {"echo/1", 1, 1}, &model) == FRT_VERB_BACKEND);
    CHECK(model == nullptr);
    CHECK(alive == 0);
}
