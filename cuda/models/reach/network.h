// Purpose:  the computation of the reach example: a small vision-language-action network with fixed
//           weights, in plain float, in a fixed order of operations.
// Owns:     nothing; Network is plain data that the runtime object holds.
// Thread:   one at a time per Network.
// Lifetime: weights are made once at open.
//
// Sizes are those of an example: it shows real ports and real stages, not a real robot.
#pragma once

#include <cstddef>
#include <cstdint>

namespace aotx::reach {

constexpr uint32_t kViewsMax = 3;
constexpr uint32_t kImageSide = 32;  // pixels, after resizing
constexpr uint32_t kPatchSide = 8;   // pixels
constexpr uint32_t kChannels = 3;
constexpr uint32_t kPatches = (kImageSide / kPatchSide) * (kImageSide / kPatchSide);  // per view
constexpr uint32_t kPatchValues = kPatchSide * kPatchSide * kChannels;
constexpr uint32_t kWidth = 32;         // of every token vector
constexpr uint32_t kPromptBytes = 128;  // longest prompt
constexpr uint32_t kTextTokens = 16;    // a prompt is folded into so many
constexpr uint32_t kStateValues = 7;
constexpr uint32_t kRobotValues = 7;    // per action row, as the robot takes it
constexpr uint32_t kActionValues = 16;  // per action row, inside the model
constexpr uint32_t kChunkMax = 64;      // action rows
constexpr uint32_t kStepsMax = 32;      // of the flow from noise to action
constexpr uint32_t kTokensMax = kViewsMax * kPatches + kTextTokens + 1;
constexpr uint32_t kImageValues = kImageSide * kImageSide * kChannels;  // per view

struct Weights {
    float patch[kPatchValues][kWidth];
    float text[256][kWidth];
    float state[kStateValues][kWidth];
    float query[kWidth][kWidth];
    float key[kWidth][kWidth];
    float value[kWidth][kWidth];
    float action_in[kActionValues][kWidth];
    float action_query[kWidth][kWidth];
    float action_out[kWidth][kActionValues];
};

// Numbers of the deployment, fixed at open.
struct Shape {
    uint32_t views;
    uint32_t chunk;
    uint32_t steps;
    uint32_t prefix;  // rows that a real-time-chunking plan keeps from the previous chunk

    uint32_t tokens() const { return views * kPatches + kTextTokens + 1; }
};

// The windows that stages read and write. All are f32 besides text.
struct Windows {
    const float* images;    // [views, side, side, 3], -1..1
    const uint8_t* text;    // [kPromptBytes], zero behind the prompt
    const float* state;     // [kStateValues], -1..1
    const float* noise;     // [chunk, kActionValues]
    const float* previous;  // [chunk, kActionValues], the chunk before
    float* context;         // [tokens, 2 * kWidth], keys and values for the action stage
    float* actions;         // [chunk, kActionValues], the model's own action space
    float* scratch;         // [2 * kTokensMax * kWidth]
};

// Fill the weights from a seed: the same bytes on every machine.
void weights_make(uint64_t seed, Weights* weights);

// Images, text and state to context.
void context_run(const Weights& weights, const Shape& shape, const Windows& windows);

// Context and noise to actions. keep_prefix pins the first shape.prefix rows to `previous`.
void action_run(const Weights& weights, const Shape& shape, const Windows& windows,
                bool keep_prefix);

}  // namespace aotx::reach
