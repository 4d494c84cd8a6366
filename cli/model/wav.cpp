// Purpose:  read and write WAV files, see wav.h.
// Owns:     nothing.
// Thread:   main.
// Lifetime: not applicable.
#include "cli/model/wav.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "cli/failure.h"
#include "cli/model/bytes.h"
#include "cli/model/media.h"

namespace aotx::cli {
namespace {

constexpr uint16_t kKindPcm = 1;
constexpr uint16_t kKindFloat = 3;
constexpr uint16_t kKindExtensible = 0xfffe;
constexpr uint32_t kBytesUnknown = 0xffffffff;
constexpr uint32_t kChannelsMax = 64;
constexpr uint32_t kRateMax = 1000 * 1000;
constexpr size_t kFirstChunkAt = 12;
constexpr size_t kChunkHeadBytes = 8;
constexpr double kFullScale = 2147483648.0;
// Behind the two bytes of the kind in the sub-format of an extensible file.
constexpr std::string_view kSubFormatTail(
    "\x00\x00\x00\x00\x10\x00\x80\x00\x00\xaa\x00\x38\x9b\x71", 14);

[[noreturn]] void refuse(const std::string& what, const std::string& why)
{
    throw Failure(kExitInput, what + ": " + why);
}

// Four letters for a message; the caller's text is escaped when it is printed.
std::string letters(std::string_view name)
{
    return "'" + std::string(name) + "'";
}

// Kind, channels, rate and bits of a `fmt ` chunk.
Wav parse_format(std::string_view format, const std::string& what)
{
    if (format.size() < 16) {
        refuse(what, "the format chunk holds " + std::to_string(format.size()) + " bytes of 16");
    }
    uint16_t kind = value_at<uint16_t>(format, 0);
    if (kind == kKindExtensible) {
        if (format.size() < 40 || format.substr(26, 14) != kSubFormatTail) {
            refuse(what, "the extensible format is cut, or its sub-format is not understood");
        }
        kind = value_at<uint16_t>(format, 24);
    }
    Wav wav = {value_at<uint16_t>(format, 2),
               value_at<uint32_t>(format, 4),
               value_at<uint16_t>(format, 14),
               kind == kKindFloat,
               0,
               {}};
    const uint32_t block_bytes = value_at<uint16_t>(format, 12);
    const uint32_t bits = wav.sample_bits;
    const bool is_pcm = kind == kKindPcm && (bits == 8 || bits == 16 || bits == 24 || bits == 32);
    if (!is_pcm && !(wav.is_float && (bits == 32 || bits == 64))) {
        refuse(what, "samples of kind " + std::to_string(kind) + " with " + std::to_string(bits) +
                         " bits are not understood");
    }
    if (wav.channels == 0 || wav.channels > kChannelsMax) {
        refuse(what, "it has " + std::to_string(wav.channels) + " channels");
    }
    if (wav.frames_per_second == 0 || wav.frames_per_second > kRateMax) {
        refuse(what, "its rate is " + std::to_string(wav.frames_per_second) + " a second");
    }
    if (block_bytes != wav.channels * bits / 8) {
        refuse(what, "its block size is " + std::to_string(block_bytes) + ", not " +
                         std::to_string(wav.channels * bits / 8));
    }
    return wav;
}

void take_data(Wav* wav, std::string_view data, bool is_open_ended, const std::string& what)
{
    const uint64_t frame_bytes = uint64_t{wav->channels} * wav->sample_bits / 8;
    if (data.size() % frame_bytes != 0 && !is_open_ended) {
        refuse(what, "the data ends inside a frame");
    }
    wav->frames = data.size() / frame_bytes;
    wav->data = data.substr(0, wav->frames * frame_bytes);
    if (wav->frames == 0) {
        refuse(what, "it holds no samples");
    }
}

// Sample `index` as -1..1.
double sample_at(const Wav& wav, uint64_t index)
{
    const uint32_t bytes = wav.sample_bits / 8;
    const char* at = wav.data.data() + index * bytes;
    if (wav.is_float && bytes == 8) {
        double value = 0;
        std::memcpy(&value, at, sizeof value);
        return value;
    }
    if (wav.is_float) {
        float value = 0;
        std::memcpy(&value, at, sizeof value);
        return static_cast<double>(value);
    }
    if (bytes == 1) {
        return (static_cast<double>(static_cast<uint8_t>(*at)) - 128.0) / 128.0;
    }
    uint32_t word = 0;
    std::memcpy(reinterpret_cast<char*>(&word) + (4 - bytes), at, bytes);
    return static_cast<double>(static_cast<int32_t>(word)) / kFullScale;
}

void append_sample(std::string* elements, double value, uint32_t dtype)
{
    switch (dtype) {
        case FRT_RT_DTYPE_U8:
            append_value(elements, static_cast<uint8_t>(std::clamp(
                                       std::nearbyint(value * 128.0) + 128.0, 0.0, 255.0)));
            return;
        case FRT_RT_DTYPE_I32:
            append_value(elements,
                         static_cast<int32_t>(std::clamp(std::nearbyint(value * kFullScale),
                                                         -kFullScale, kFullScale - 1.0)));
            return;
        case FRT_RT_DTYPE_F16:
            append_value(elements, half_of_float(static_cast<float>(value)));
            return;
        case FRT_RT_DTYPE_BF16:
            append_value(elements, brain_of_float(static_cast<float>(value)));
            return;
        default:
            append_value(elements, static_cast<float>(value));
    }
}

uint32_t element_bytes(uint32_t dtype)
{
    return dtype == FRT_RT_DTYPE_U8                                  ? 1
           : dtype == FRT_RT_DTYPE_F16 || dtype == FRT_RT_DTYPE_BF16 ? 2
                                                                     : 4;
}

// Element `index` of a payload in the file's own form.
void append_element(std::string* data, std::string_view elements, uint64_t index, uint32_t dtype)
{
    const uint32_t bytes = element_bytes(dtype);
    const std::string_view one = elements.substr(index * bytes, bytes);
    if (dtype == FRT_RT_DTYPE_F16) {
        append_value(data, float_of_half(value_at<uint16_t>(one, 0)));
    } else if (dtype == FRT_RT_DTYPE_BF16) {
        append_value(data, float_of_brain(value_at<uint16_t>(one, 0)));
    } else {
        data->append(one);
    }
}

uint64_t fixed(int64_t dimension)
{
    return dimension > 0 ? static_cast<uint64_t>(dimension) : 0;
}

}  // namespace

SoundForm sound_form(const frt_runtime_port_desc& port)
{
    const std::string what = std::string("port '") + port.name + "'";
    if (port.modality == FRT_RT_MOD_TEXT || port.modality == FRT_RT_MOD_IMAGE ||
        port.modality == FRT_RT_MOD_DEPTH) {
        throw Failure(kExitUsage, what + " carries text or pictures, not sound");
    }
    if (port.dtype > FRT_RT_DTYPE_I32) {
        throw Failure(kExitUsage, what + " holds elements for which WAV has no samples");
    }
    SoundForm form = {port.dtype, 1, false, 0, 0};
    if (port.rank == 1) {
        form.frames = fixed(port.shape[0]);
    } else if (port.rank == 2) {
        form.planar = port.layout == FRT_RT_LAYOUT_CHW || port.layout == FRT_RT_LAYOUT_NCHW;
        form.frames = fixed(port.shape[form.planar ? 1 : 0]);
        const uint64_t channels = fixed(port.shape[form.planar ? 0 : 1]);
        if (channels > kChannelsMax) {
            throw Failure(kExitUsage, what + " has " + std::to_string(channels) +
                                          " channels; WAV files are read and written up to 64");
        }
        form.channels = static_cast<uint32_t>(channels);
    } else if (port.rank > 2) {
        throw Failure(kExitUsage, what + " has " + std::to_string(port.rank) +
                                      " dimensions; sound has frames, or frames and channels");
    }
    const bool stated = port.modality == FRT_RT_MOD_AUDIO && port.cadence_hint_hz >= kSoundRateMin;
    form.frames_per_second = stated ? port.cadence_hint_hz : 0;
    return form;
}

Wav wav_parse(std::string_view bytes, const std::string& what)
{
    if (bytes.size() >= 4 && bytes.substr(0, 4) == "RF64") {
        refuse(what, "RF64 is not read; write a plain WAV file");
    }
    if (bytes.size() < kFirstChunkAt || bytes.substr(0, 4) != "RIFF" ||
        bytes.substr(8, 4) != "WAVE") {
        refuse(what, "this is no WAV file");
    }
    Wav wav = {};
    bool has_data = false;
    size_t at = kFirstChunkAt;
    while (bytes.size() - at >= kChunkHeadBytes) {
        const std::string_view name = bytes.substr(at, 4);
        const uint32_t stated_bytes = value_at<uint32_t>(bytes, at + 4);
        const size_t left_bytes = bytes.size() - at - kChunkHeadBytes;
        const bool is_open_ended = name == "data" && stated_bytes == kBytesUnknown;
        const size_t chunk_bytes = is_open_ended ? left_bytes : stated_bytes;
        if (chunk_bytes > left_bytes) {
            if (has_data) {
                break;  // a cut tail behind the sound does not make it unreadable
            }
            refuse(what, "chunk " + letters(name) + " states " + std::to_string(stated_bytes) +
                             " bytes, and " + std::to_string(left_bytes) + " are left");
        }
        const std::string_view chunk = bytes.substr(at + kChunkHeadBytes, chunk_bytes);
        if (name == "fmt ") {
            if (wav.channels != 0) {
                refuse(what, "there are two format chunks");
            }
            wav = parse_format(chunk, what);
        } else if (name == "data") {
            if (has_data || wav.channels == 0) {
                refuse(what,
                       has_data ? "there are two data chunks" : "there is data before the format");
            }
            take_data(&wav, chunk, is_open_ended, what);
            has_data = true;
        }
        // An odd chunk has a pad byte, which the last one of a file may lack.
        at += kChunkHeadBytes + chunk_bytes;
        at += chunk_bytes % 2 != 0 && at < bytes.size() ? 1 : 0;
    }
    if (!has_data) {
        refuse(what, wav.channels == 0 ? "there is no format chunk" : "there is no data chunk");
    }
    return wav;
}

std::string wav_elements(const Wav& wav, const SoundForm& form, const std::string& what)
{
    if (form.frames_per_second != 0 && form.frames_per_second != wav.frames_per_second) {
        refuse(what, "it holds " + std::to_string(wav.frames_per_second) +
                         " samples a second and the port takes " +
                         std::to_string(form.frames_per_second) + "; resample it first");
    }
    if (form.channels != 0 && form.channels != wav.channels) {
        refuse(what, "it has " + std::to_string(wav.channels) + " channels and the port takes " +
                         std::to_string(form.channels));
    }
    if (form.frames != 0 && form.frames != wav.frames) {
        refuse(what, "it holds " + std::to_string(wav.frames) + " frames and the port takes " +
                         std::to_string(form.frames));
    }
    std::string elements;
    elements.reserve(wav.frames * wav.channels * element_bytes(form.dtype));
    for (uint64_t at = 0; at < wav.frames * wav.channels; at++) {
        const uint64_t index = form.planar ? at % wav.frames * wav.channels + at / wav.frames : at;
        const double value = sample_at(wav, index);
        if (std::isnan(value)) {
            refuse(what, "frame " + std::to_string(index / wav.channels) + " is not a number");
        }
        append_sample(&elements, value, form.dtype);
    }
    return elements;
}

std::string wav_write(std::string_view elements, const SoundForm& form, const std::string& what)
{
    const bool is_float = form.dtype != FRT_RT_DTYPE_U8 && form.dtype != FRT_RT_DTYPE_I32;
    const uint32_t sample_bytes = form.dtype == FRT_RT_DTYPE_U8 ? 1 : 4;
    const uint64_t samples = elements.size() / element_bytes(form.dtype);
    if (elements.size() % (uint64_t{element_bytes(form.dtype)} * form.channels) != 0) {
        refuse(what,
               "the output ends inside a frame of " + std::to_string(form.channels) + " channels");
    }
    const uint64_t data_bytes = samples * sample_bytes;
    if (data_bytes > UINT32_MAX - 64) {
        refuse(what, "the output is too long for a WAV file");
    }
    std::string bytes = "RIFF";
    const uint32_t pad_bytes = static_cast<uint32_t>(data_bytes % 2);
    append_value(&bytes, static_cast<uint32_t>(36 + data_bytes + pad_bytes));
    bytes += "WAVEfmt ";
    append_value(&bytes, uint32_t{16});
    append_value(&bytes, is_float ? kKindFloat : kKindPcm);
    append_value(&bytes, static_cast<uint16_t>(form.channels));
    append_value(&bytes, form.frames_per_second);
    append_value(&bytes, form.frames_per_second * form.channels * sample_bytes);
    append_value(&bytes, static_cast<uint16_t>(form.channels * sample_bytes));
    append_value(&bytes, static_cast<uint16_t>(sample_bytes * 8));
    bytes += "data";
    append_value(&bytes, static_cast<uint32_t>(data_bytes));
    const uint64_t frames = samples / form.channels;
    for (uint64_t at = 0; at < samples; at++) {
        const uint64_t index = form.planar ? at % form.channels * frames + at / form.channels : at;
        append_element(&bytes, elements, index, form.dtype);
    }
    bytes.append(pad_bytes, '\0');
    return bytes;
}

}  // namespace aotx::cli
