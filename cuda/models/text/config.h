// Purpose:  the strict configuration of the text runtime: one flat JSON object.
// Owns:     the values.
// Thread:   any.
// Lifetime: parsed once at open.
#pragma once

#include <cstdint>
#include <string>

#include "reason.h"

namespace aotx {

// How activations meet quantised weights.
enum class ActivationMode : uint32_t {
    kFloat = 0,     // f32 activations and keys; the reference of this machine
    kQuantised = 1  // 8-bit codes in blocks of 32, f16 keys and values
};

// What computes the steps.
enum class DeviceChoice : uint32_t {
    kCpu = 0,
    kCuda = 1,  // or refuse to open
    kAuto = 2   // a usable GPU, else the CPU
};

struct TextConfig {
    std::string model_path;        // required
    uint32_t threads = 0;          // 0..256; 0: one for each core that this process may use
    uint32_t sequences = 32;       // 1..4096
    uint32_t kv_tokens = 16384;    // 32..2^26; tokens that all sequences together can hold
    uint32_t sequence_tokens = 0;  // 0: the smaller of the model's context and kv_tokens
    uint32_t step_tokens = 256;    // 1..8192, at least sequences
    ActivationMode activations = ActivationMode::kQuantised;  // of the CPU; the GPU has one way
    DeviceChoice device = DeviceChoice::kCpu;
};

// Parse config_json (null counts as an empty text). AOTX_ERR_SYNTAX not one flat JSON object;
// AOTX_ERR_RANGE an unknown or doubled key, a wrong type or a value out of range;
// AOTX_ERR_NOT_FOUND a required key is missing. reason names the key. *config is written only on
// AOTX_OK.
[[nodiscard]] int text_config_parse(const char* config_json, TextConfig* config,
                                    TextReason* reason) noexcept;

}  // namespace aotx
