// Purpose:  WAV files as elements of a port, and back: the port's element type, channels and rate.
// Owns:     nothing.
// Thread:   main.
// Lifetime: not applicable.
//
// What is read: PCM of 8, 16, 24 or 32 bits and floats of 32 or 64, plain or extensible, `fmt `
// once and before `data`, `data` once, other chunks anywhere with their pad byte. A data size of
// FFFFFFFF (a recorder that never came back) means all that is left of the file. Everything else is
// refused with the field in the text: a chunk that leaves the file, a second `data` or `fmt `, no
// channels, rate or block size, data that ends inside a frame, RF64. The RIFF size is not believed
// and not used. Nothing larger than the samples themselves is ever allocated.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "flashrt/model_runtime.h"

namespace aotx::cli {

// A parsed file; data points into its bytes.
struct Wav {
    uint32_t channels;
    uint32_t frames_per_second;
    uint32_t sample_bits;
    bool is_float;
    uint64_t frames;
    std::string_view data;
};

// How a port holds sound. Shape [frames] or none is one channel; [frames, channels] interleaves,
// [channels, frames] with layout CHW or NCHW keeps each channel together.
struct SoundForm {
    uint32_t dtype;     // U8: 0..255 around 128; I32: full scale; floats: -1..1
    uint32_t channels;  // 0: any
    bool planar;
    uint64_t frames;             // 0: any
    uint32_t frames_per_second;  // 0: not stated
};

// An AUDIO port states its rate in cadence_hint_hz; values below this are how often it is written.
constexpr uint32_t kSoundRateMin = 4000;

// Throws Failure for a port that cannot hold sound, and says why.
SoundForm sound_form(const frt_runtime_port_desc& port);

// Throws Failure. what names the source in every text.
Wav wav_parse(std::string_view bytes, const std::string& what);

// The elements of a port from a file; throws Failure where rate, channels or frames differ from
// what the port states, or where a sample is no number. Nothing is resampled and nothing mixed.
std::string wav_elements(const Wav& wav, const SoundForm& form, const std::string& what);

// A file from a port's elements: 8-bit PCM from U8, 32-bit PCM from I32, 32-bit floats from floats.
// form.channels and form.frames_per_second are not 0. Throws Failure when the payload ends inside a
// frame or is too long for a WAV file.
std::string wav_write(std::string_view elements, const SoundForm& form, const std::string& what);

}  // namespace aotx::cli
