// Purpose:  the reach network; see network.h.
// Owns:     nothing.
// Thread:   one at a time per Network.
// Lifetime: see network.h.
#include "network.h"

#include <cmath>

namespace aotx::reach {
namespace {

// A generator with a written rule, so that weights do not depend on a library.
uint64_t next_word(uint64_t* state)
{
    *state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t word = *state;
    word = (word ^ (word >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    word = (word ^ (word >> 27)) * UINT64_C(0x94d049bb133111eb);
    return word ^ (word >> 31);
}

// Uniform in -limit..limit with 24 bits, exact in float.
void fill(float* values, size_t count, float limit, uint64_t* state)
{
    for (size_t at = 0; at < count; at++) {
        const float unit = static_cast<float>(next_word(state) >> 40) / 16777216.0f;
        values[at] = (unit * 2.0f - 1.0f) * limit;
    }
}

// to[columns] += from[rows] * matrix[rows][columns], in index order.
template <uint32_t columns>
void add_product(const float* from, uint32_t rows, const float (*matrix)[columns], float* to)
{
    for (uint32_t row = 0; row < rows; row++) {
        for (uint32_t column = 0; column < columns; column++) {
            to[column] += from[row] * matrix[row][column];
        }
    }
}

void zero(float* values, uint32_t count)
{
    for (uint32_t at = 0; at < count; at++) {
        values[at] = 0.0f;
    }
}

void patch_embed(const Weights& weights, const float* image, uint32_t patch, float* token)
{
    const uint32_t per_row = kImageSide / kPatchSide;
    const uint32_t top = patch / per_row * kPatchSide;
    const uint32_t left = patch % per_row * kPatchSide;
    float values[kPatchValues];
    uint32_t at = 0;
    for (uint32_t y = 0; y < kPatchSide; y++) {
        for (uint32_t x = 0; x < kPatchSide * kChannels; x++) {
            values[at] = image[((top + y) * kImageSide + left) * kChannels + x];
            at++;
        }
    }
    zero(token, kWidth);
    add_product<kWidth>(values, kPatchValues, weights.patch, token);
}

// Byte i of the prompt goes to text token i % kTextTokens.
void text_embed(const Weights& weights, const uint8_t* text, uint32_t index, float* token)
{
    zero(token, kWidth);
    for (uint32_t at = index; at < kPromptBytes && text[at] != 0; at += kTextTokens) {
        const float place = 1.0f / static_cast<float>(1 + at / kTextTokens);
        for (uint32_t column = 0; column < kWidth; column++) {
            token[column] += weights.text[text[at]][column] * place;
        }
    }
}

void embed_all(const Weights& weights, const Shape& shape, const Windows& windows, float* tokens)
{
    uint32_t token = 0;
    for (uint32_t view = 0; view < shape.views; view++) {
        for (uint32_t patch = 0; patch < kPatches; patch++) {
            patch_embed(weights, windows.images + view * kImageValues, patch,
                        tokens + token * kWidth);
            token++;
        }
    }
    for (uint32_t index = 0; index < kTextTokens; index++) {
        text_embed(weights, windows.text, index, tokens + token * kWidth);
        token++;
    }
    zero(tokens + token * kWidth, kWidth);
    add_product<kWidth>(windows.state, kStateValues, weights.state, tokens + token * kWidth);
}

// out[kWidth] = sum over tokens of softmax(query . key) * value. context rows are key then value.
void attend(const float* query, const float* context, uint32_t tokens, float* out)
{
    float scores[kTokensMax];
    float highest = -INFINITY;
    const float scale = 1.0f / std::sqrt(static_cast<float>(kWidth));
    for (uint32_t token = 0; token < tokens; token++) {
        float score = 0.0f;
        for (uint32_t at = 0; at < kWidth; at++) {
            score += query[at] * context[token * 2 * kWidth + at];
        }
        scores[token] = score * scale;
        highest = scores[token] > highest ? scores[token] : highest;
    }
    float sum = 0.0f;
    for (uint32_t token = 0; token < tokens; token++) {
        scores[token] = std::exp(scores[token] - highest);
        sum += scores[token];
    }
    zero(out, kWidth);
    for (uint32_t token = 0; token < tokens; token++) {
        const float part = scores[token] / sum;
        for (uint32_t at = 0; at < kWidth; at++) {
            out[at] += part * context[token * 2 * kWidth + kWidth + at];
        }
    }
}

void keys_and_values(const Weights& weights, const float* tokens, uint32_t count, float* context)
{
    for (uint32_t token = 0; token < count; token++) {
        float* key = context + token * 2 * kWidth;
        zero(key, 2 * kWidth);
        add_product<kWidth>(tokens + token * kWidth, kWidth, weights.key, key);
        add_product<kWidth>(tokens + token * kWidth, kWidth, weights.value, key + kWidth);
    }
}

}  // namespace

void weights_make(uint64_t seed, Weights* weights)
{
    uint64_t state = seed;
    const float narrow = 0.25f;
    fill(&weights->patch[0][0], sizeof weights->patch / sizeof(float), 0.08f, &state);
    fill(&weights->text[0][0], sizeof weights->text / sizeof(float), 0.5f, &state);
    fill(&weights->state[0][0], sizeof weights->state / sizeof(float), 0.5f, &state);
    fill(&weights->query[0][0], sizeof weights->query / sizeof(float), narrow, &state);
    fill(&weights->key[0][0], sizeof weights->key / sizeof(float), narrow, &state);
    fill(&weights->value[0][0], sizeof weights->value / sizeof(float), narrow, &state);
    fill(&weights->action_in[0][0], sizeof weights->action_in / sizeof(float), narrow, &state);
    fill(&weights->action_query[0][0], sizeof weights->action_query / sizeof(float), narrow,
         &state);
    fill(&weights->action_out[0][0], sizeof weights->action_out / sizeof(float), narrow, &state);
}

void context_run(const Weights& weights, const Shape& shape, const Windows& windows)
{
    float* tokens = windows.scratch;
    float* mixed = windows.scratch + kTokensMax * kWidth;
    const uint32_t count = shape.tokens();
    embed_all(weights, shape, windows, tokens);
    keys_and_values(weights, tokens, count, windows.context);
    for (uint32_t token = 0; token < count; token++) {
        float query[kWidth] = {};
        float seen[kWidth];
        add_product<kWidth>(tokens + token * kWidth, kWidth, weights.query, query);
        attend(query, windows.context, count, seen);
        for (uint32_t at = 0; at < kWidth; at++) {
            mixed[token * kWidth + at] = tokens[token * kWidth + at] + seen[at];
        }
    }
    keys_and_values(weights, mixed, count, windows.context);
}

void action_run(const Weights& weights, const Shape& shape, const Windows& windows,
                bool keep_prefix)
{
    const uint32_t pinned = keep_prefix ? shape.prefix : 0;
    const float step = 1.0f / static_cast<float>(shape.steps);
    for (uint32_t row = 0; row < shape.chunk; row++) {
        float* action = windows.actions + row * kActionValues;
        const float* start = row < pinned ? windows.previous : windows.noise;
        for (uint32_t at = 0; at < kActionValues; at++) {
            action[at] = start[row * kActionValues + at];
        }
        if (row < pinned) {
            continue;
        }
        for (uint32_t turn = 0; turn < shape.steps; turn++) {
            float hidden[kWidth] = {};
            float query[kWidth] = {};
            float seen[kWidth];
            float velocity[kActionValues] = {};
            add_product<kWidth>(action, kActionValues, weights.action_in, hidden);
            hidden[turn % kWidth] += static_cast<float>(row + 1) * step;
            add_product<kWidth>(hidden, kWidth, weights.action_query, query);
            attend(query, windows.context, shape.tokens(), seen);
            for (uint32_t at = 0; at < kWidth; at++) {
                seen[at] = std::tanh(seen[at] + hidden[at]);
            }
            add_product<kActionValues>(seen, kWidth, weights.action_out, velocity);
            for (uint32_t at = 0; at < kActionValues; at++) {
                action[at] += (velocity[at] - action[at]) * step;
            }
        }
    }
}

}  // namespace aotx::reach
