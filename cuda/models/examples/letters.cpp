// Purpose:  a metadata-only provider with a generic plan: text in, two OPAQUE stages, a table and a
//           text out. What an engine that brings its own scheduler looks like to a host.
// Owns:     a Letters per runtime, freed by the last release.
// Thread:   verbs and stages from one driver thread at a time; release from any.
// Lifetime: from open until the last reference goes.
//
// Configuration: {} or {"prompt_bytes": 1..65536}.
#include <cstring>
#include <new>

#include "flashrt/builder.hpp"
#include "flashrt/config.hpp"

namespace {

constexpr uint32_t kLetters = 26;
// What the plan passes to the runner; the host hands it back unchanged.
constexpr uint32_t kRefCount = 37;
constexpr uint32_t kRefRank = 4;
enum PortIndex : uint32_t { kPortPrompt = 0, kPortCounts = 1, kPortText = 2 };

struct Letters {
    char* prompt;
    uint64_t prompt_bytes_max;
    uint64_t prompt_bytes;
    int64_t counts[kLetters];
    char ranked[kLetters];
    uint64_t ranked_bytes;
    const char* error;  // static texts
};

int fail(Letters* letters, int code, const char* text)
{
    letters->error = text;
    return code;
}

int set_input(void* self, uint32_t port, const void* data, uint64_t bytes, int stream)
{
    Letters* letters = static_cast<Letters*>(self);
    if (port != kPortPrompt || stream != -1 || (data == nullptr && bytes > 0)) {
        return fail(letters, FRT_VERB_INVALID, "only the prompt port on stream -1 takes input");
    }
    if (bytes > letters->prompt_bytes_max) {
        return fail(letters, FRT_VERB_SHAPE, "the prompt is longer than prompt_bytes");
    }
    if (bytes > 0) {
        std::memcpy(letters->prompt, data, bytes);
    }
    letters->prompt_bytes = bytes;
    return fail(letters, FRT_VERB_OK, "");
}

int get_output(void* self, uint32_t port, void* out, uint64_t capacity, uint64_t* written,
               int stream)
{
    Letters* letters = static_cast<Letters*>(self);
    if ((port != kPortCounts && port != kPortText) || stream != -1 || out == nullptr ||
        written == nullptr) {
        return fail(letters, FRT_VERB_INVALID, "only counts and text on stream -1 are outputs");
    }
    const bool counts = port == kPortCounts;
    *written = counts ? sizeof letters->counts : letters->ranked_bytes;
    if (capacity < *written) {
        return fail(letters, FRT_VERB_STORAGE, "the buffer is smaller than the payload");
    }
    const void* from = counts ? static_cast<const void*>(letters->counts) : letters->ranked;
    std::memcpy(out, from, *written);
    return fail(letters, FRT_VERB_OK, "");
}

void count(Letters* letters)
{
    std::memset(letters->counts, 0, sizeof letters->counts);
    for (uint64_t at = 0; at < letters->prompt_bytes; at++) {
        const char letter = static_cast<char>(letters->prompt[at] | 0x20);
        if (letter >= 'a' && letter <= 'z') {
            letters->counts[letter - 'a']++;
        }
    }
}

// The letters that occur, most frequent first, ties in the order of the alphabet.
void rank(Letters* letters)
{
    letters->ranked_bytes = 0;
    int64_t below = INT64_MAX;
    while (below > 0) {
        int64_t highest = 0;
        for (const int64_t value : letters->counts) {
            highest = value < below && value > highest ? value : highest;
        }
        for (uint32_t at = 0; highest > 0 && at < kLetters; at++) {
            if (letters->counts[at] == highest) {
                letters->ranked[letters->ranked_bytes] = static_cast<char>('a' + at);
                letters->ranked_bytes++;
            }
        }
        below = highest;
    }
}

int run_stage(void* stage_self, uint32_t executor_ref)
{
    Letters* letters = static_cast<Letters*>(stage_self);
    if (executor_ref != kRefCount && executor_ref != kRefRank) {
        return fail(letters, FRT_VERB_NOT_FOUND, "there is no such stage");
    }
    if (executor_ref == kRefCount) {
        count(letters);
    } else {
        rank(letters);
    }
    return fail(letters, FRT_VERB_OK, "");
}

// A convenience next to the plan: the same work in the plan's order.
int step(void* self)
{
    const int code = run_stage(self, kRefCount);
    return code != FRT_VERB_OK ? code : run_stage(self, kRefRank);
}

const char* last_error(void* self)
{
    return static_cast<Letters*>(self)->error;
}

void letters_free(void* owner)
{
    Letters* letters = static_cast<Letters*>(owner);
    delete[] letters->prompt;
    delete letters;
}

int declare(frt_runtime_builder builder, Letters* letters)
{
    const int64_t any[] = {-1};
    const int64_t table[] = {kLetters};
    const uint32_t after[] = {0};
    int code = frt_runtime_builder_add_identity(builder, "model", "letters");
    code |= frt_runtime_builder_add_identity(builder, "producer", "aotx.letters/1");
    code |= frt_runtime_builder_add_port(builder, "prompt", FRT_RT_MOD_TEXT, FRT_RT_DTYPE_U8,
                                         FRT_RT_LAYOUT_FLAT, FRT_RT_PORT_IN, FRT_RT_PORT_STAGED, 1,
                                         any, 1, 0, nullptr, 0, 0);
    code |= frt_runtime_builder_add_port(builder, "counts", FRT_RT_MOD_TENSOR, FRT_RT_DTYPE_I64,
                                         FRT_RT_LAYOUT_FLAT, FRT_RT_PORT_OUT, FRT_RT_PORT_STAGED, 0,
                                         table, 1, 0, nullptr, 0, 0);
    code |= frt_runtime_builder_add_port(builder, "text", FRT_RT_MOD_TEXT, FRT_RT_DTYPE_U8,
                                         FRT_RT_LAYOUT_FLAT, FRT_RT_PORT_OUT, FRT_RT_PORT_STAGED, 0,
                                         any, 1, 0, nullptr, 0, 0);
    code |= frt_runtime_builder_add_generic_stage(builder, "count", FRT_GENERIC_STAGE_OPAQUE,
                                                  kRefCount, nullptr, 0);
    code |= frt_runtime_builder_add_generic_stage(builder, "rank", FRT_GENERIC_STAGE_OPAQUE,
                                                  kRefRank, after, 1);
    code |= frt_runtime_builder_set_generic_stage_runner(builder, letters, run_stage);
    return code;
}

frt_model_runtime_v1* letters_open(int64_t prompt_bytes)
{
    Letters* letters = new (std::nothrow) Letters{};
    frt_runtime_builder builder = frt_model_runtime_builder_create_metadata();
    frt_model_runtime_v1* runtime = nullptr;
    if (letters != nullptr && builder != nullptr) {
        letters->error = "";
        letters->prompt_bytes_max = static_cast<uint64_t>(prompt_bytes);
        letters->prompt = new (std::nothrow) char[letters->prompt_bytes_max];
        if (letters->prompt != nullptr && declare(builder, letters) == 0) {
            const frt_model_runtime_verbs verbs = {sizeof verbs, 0,    set_input, get_output,
                                                   nullptr,      step, last_error};
            runtime = frt_runtime_builder_finish_model(builder, &verbs, letters, letters, nullptr,
                                                       letters_free);
        }
    }
    if (runtime == nullptr) {
        frt_runtime_builder_destroy(builder);
        if (letters != nullptr) {
            letters_free(letters);
        }
    }
    return runtime;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int frt_model_runtime_open_v1(
    const char* config_json, frt_model_runtime_v1** out)
{
    if (out == nullptr) {
        return FRT_VERB_INVALID;
    }
    *out = nullptr;
    frt::FlatConfig config;
    int64_t prompt_bytes = 0;
    if (config.parse(config_json) != 0 ||
        config.integer("prompt_bytes", 4096, 1, 65536, &prompt_bytes) != 0 ||
        config.finish() != 0) {
        return FRT_VERB_INVALID;
    }
    *out = letters_open(prompt_bytes);
    return *out == nullptr ? FRT_VERB_BACKEND : FRT_VERB_OK;
}
