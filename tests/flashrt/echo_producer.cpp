// Purpose:  a producer that gives back what it was given, in the element type, channels, layout and
//           rate that its configuration asks for: what files become on their way through.
// Owns:     an Echo per runtime.
// Thread:   verbs on one thread; release from any.
// Lifetime: from open until the last release.
//
// Configuration: mode 0 sound, 1 camera frames, 2 pixels of a window; dtype 0..5, channels (0:
// varies), frames (0: varies), planar, rate, batched (one dimension too many), height, width,
// pixel_channels. Port 0 is the input, port 1 the output.
#include <cstring>
#include <string>

#include "flashrt/builder.hpp"
#include "flashrt/config.hpp"

namespace {

enum Number {
    kMode,
    kDtype,
    kChannels,
    kFrames,
    kPlanar,
    kRate,
    kBatched,
    kHeight,
    kWidth,
    kPixel,
    kNumbers
};

struct Echo {
    std::string bytes;
    int64_t numbers[kNumbers] = {};
};

Echo* echo_of(void* self)
{
    return static_cast<Echo*>(self);
}

int set_input(void* self, uint32_t port, const void* data, uint64_t bytes, int)
{
    Echo* echo = echo_of(self);
    if (data == nullptr || port != 0) {
        return FRT_VERB_INVALID;
    }
    if (echo->numbers[kMode] != 1) {
        echo->bytes.assign(static_cast<const char*>(data), bytes);
        return FRT_VERB_OK;
    }
    frt_image_view view;
    if (bytes != sizeof view) {
        return FRT_VERB_SHAPE;
    }
    std::memcpy(&view, data, sizeof view);
    if (view.width != echo->numbers[kWidth] || view.height != echo->numbers[kHeight]) {
        return FRT_VERB_SHAPE;
    }
    echo->bytes.assign(static_cast<const char*>(view.data), view.bytes);
    return FRT_VERB_OK;
}

int get_output(void* self, uint32_t port, void* out, uint64_t capacity, uint64_t* written, int)
{
    const Echo* echo = echo_of(self);
    if (out == nullptr || port != 1) {
        return FRT_VERB_INVALID;
    }
    *written = echo->bytes.size();
    if (capacity < echo->bytes.size()) {
        return FRT_VERB_STORAGE;
    }
    std::memcpy(out, echo->bytes.data(), echo->bytes.size());
    return FRT_VERB_OK;
}

int step(void*)
{
    return FRT_VERB_OK;
}

const char* last_error(void*)
{
    return "refused";
}

void end(void* owner)
{
    delete echo_of(owner);
}

frt_model_runtime_v1* declare(Echo* echo, frt_runtime_builder builder)
{
    const int64_t* n = echo->numbers;
    const bool planar = n[kPlanar] != 0;
    const bool sound = n[kMode] == 0;
    const int64_t frames = n[kFrames] == 0 ? -1 : n[kFrames];
    const int64_t channels = n[kChannels] == 0 ? -1 : n[kChannels];
    const int64_t sound_shape[] = {planar ? channels : frames, planar ? frames : channels, 1};
    const int64_t picture_shape[] = {n[kHeight], n[kWidth], n[kPixel]};
    const uint32_t sound_rank = n[kBatched] != 0 ? 3 : n[kChannels] == 1 ? 1 : 2;
    int code = 0;
    for (const uint32_t direction : {FRT_RT_PORT_IN, FRT_RT_PORT_OUT}) {
        const bool in = direction == FRT_RT_PORT_IN;
        const uint32_t modality = sound                 ? FRT_RT_MOD_AUDIO
                                  : in && n[kMode] == 1 ? FRT_RT_MOD_IMAGE
                                                        : FRT_RT_MOD_TENSOR;
        code |= frt_runtime_builder_add_port(
            builder, in ? "in" : "out", modality, sound ? static_cast<uint32_t>(n[kDtype]) : 0,
            planar ? FRT_RT_LAYOUT_CHW : FRT_RT_LAYOUT_HWC, direction, FRT_RT_PORT_STAGED, 0,
            sound ? sound_shape : picture_shape, sound ? sound_rank : 3,
            static_cast<uint32_t>(n[kRate]), nullptr, 0, 0);
    }
    const frt_model_runtime_verbs verbs = {sizeof verbs, 0,    set_input, get_output,
                                           nullptr,      step, last_error};
    return code != 0 ? nullptr
                     : frt_runtime_builder_finish_model(builder, &verbs, echo, echo, nullptr, end);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int frt_model_runtime_open_v1(
    const char* config_json, frt_model_runtime_v1** out)
{
    static const char* const keys[] = {"mode", "dtype",   "channels", "frames", "planar",
                                       "rate", "batched", "height",   "width",  "pixel_channels"};
    static const int64_t usual[] = {0, 1, 1, 0, 0, 0, 0, 2, 3, 3};
    if (out == nullptr) {
        return FRT_VERB_INVALID;
    }
    *out = nullptr;
    frt::FlatConfig config;
    Echo* echo = new Echo;
    int code = config.parse(config_json);
    for (int at = 0; at < kNumbers && code == 0; at++) {
        code = config.integer(keys[at], usual[at], 0, 1000000, &echo->numbers[at]);
    }
    frt_runtime_builder builder = code == 0 ? frt_model_runtime_builder_create_metadata() : nullptr;
    *out = builder != nullptr ? declare(echo, builder) : nullptr;
    if (*out == nullptr) {
        frt_runtime_builder_destroy(builder);
        delete echo;
        return FRT_VERB_INVALID;
    }
    return FRT_VERB_OK;
}
