// Purpose:  a whole text runtime of the plain level: it answers with the prompt read backwards.
// Owns:     nothing of its own; the prompt belongs to the runtime around it.
// Thread:   one driver thread at a time.
// Lifetime: from open to the last release.
// Build:    c++ -std=c++17 -shared -fPIC -fvisibility=hidden -I INCLUDE text_runtime.cpp \
//               -o libreverse.so
#include "aotx/text_provider.hpp"
#include "flashrt/config.hpp"

namespace {

class Reverse final : public aotx::TextProvider {
public:
    int begin(const char* prompt, uint64_t prompt_bytes) noexcept override
    {
        prompt_ = prompt;
        left_ = prompt_bytes;
        return FRT_VERB_OK;
    }

    int next(aotx::TextToken* token) noexcept override
    {
        if (left_ == 0) {
            return aotx::kTextEnded;
        }
        left_--;
        *token = {prompt_[left_], prompt_ + left_, 1};  // a byte is a token
        return aotx::kTextToken;
    }

private:
    const char* prompt_ = nullptr;
    uint64_t left_ = 0;
};

}  // namespace

extern "C" __attribute__((visibility("default"))) int frt_model_runtime_open_v1(
    const char* config_json, frt_model_runtime_v1** out)
{
    frt::FlatConfig config;  // this one takes no keys: "{}"
    if (out != nullptr) {
        *out = nullptr;
    }
    if (config.parse(config_json) != 0 || config.finish() != 0) {
        return FRT_VERB_INVALID;
    }
    const aotx::TextProviderLimits limits = {"reverse/1", 65536, 65536};
    return aotx::text_provider_open(new (std::nothrow) Reverse, limits, out);
}
