// Purpose:  load the model of a command and gather its inputs.
// Owns:     see target.h.
// Thread:   main.
// Lifetime: see target.h.
#include "cli/model/target.h"

#include <cstring>

#include "cli/failure.h"
#include "cli/model/media.h"
#include "cli/model/wav.h"
#include "cuda/loop/runtime_status.h"

namespace aotx::cli {
namespace {

constexpr size_t kInputBytesMax = size_t{1} << 30;

bool ends_with(const std::string& text, const char* end)
{
    const size_t bytes = std::strlen(end);
    return text.size() >= bytes && text.compare(text.size() - bytes, bytes, end) == 0;
}

template <size_t count>
const char* word(const char* const (&words)[count], uint32_t value)
{
    return value < count ? words[value] : "?";
}

// "-4 (a payload has another shape)".
std::string code_text(CodeSpace space, int code)
{
    return std::to_string(code) + " (" + code_meaning(space, code).text + ")";
}

// Whether a port takes frt_image_view structs, whose pointers only pictures can fill.
bool takes_frames(const frt_runtime_port_desc& desc)
{
    return desc.update != FRT_RT_PORT_SWAP &&
           (desc.modality == FRT_RT_MOD_IMAGE || desc.modality == FRT_RT_MOD_DEPTH);
}

// One picture as the elements of a U8 [height, width, channels] port, which has no frame structs.
std::string window_pixels(const std::string& file, const frt_runtime_port_desc& desc)
{
    const bool fits = desc.dtype == FRT_RT_DTYPE_U8 && desc.rank == 3 &&
                      desc.layout != FRT_RT_LAYOUT_CHW &&
                      (desc.shape[2] == 1 || desc.shape[2] == 3 || desc.shape[2] == 4);
    if (!fits) {
        throw Failure(kExitUsage, std::string("port '") + desc.name +
                                      "' takes no PNG: " + update_word(desc.update) + " " +
                                      modality_word(desc.modality) + " " + dtype_word(desc.dtype) +
                                      " " + shape_text(desc) + "; give raw bytes");
    }
    const Picture picture =
        png_read(read_source(file, kInputBytesMax), static_cast<uint32_t>(desc.shape[2]), file);
    if ((desc.shape[0] >= 0 && desc.shape[0] != picture.height) ||
        (desc.shape[1] >= 0 && desc.shape[1] != picture.width)) {
        throw Failure(kExitInput, file + ": the picture has " + std::to_string(picture.height) +
                                      " rows of " + std::to_string(picture.width) +
                                      " pixels and the port takes " + shape_text(desc));
    }
    return picture.pixels;
}

// "a,b,c" to its parts.
std::vector<std::string> split(const std::string& text)
{
    std::vector<std::string> parts;
    size_t at = 0;
    while (at <= text.size()) {
        const size_t comma = text.find(',', at);
        parts.push_back(text.substr(at, comma - at));
        at = comma == std::string::npos ? text.size() + 1 : comma + 1;
    }
    return parts;
}

}  // namespace

const char* modality_word(uint32_t modality)
{
    static const char* const words[] = {"TENSOR", "IMAGE", "TEXT",  "STATE",
                                        "ACTION", "AUDIO", "DEPTH", "FORCE"};
    return word(words, modality);
}

const char* dtype_word(uint32_t dtype)
{
    static const char* const words[] = {"U8", "F32", "F16", "BF16", "I32", "I64"};
    return word(words, dtype);
}

const char* layout_word(uint32_t layout)
{
    static const char* const words[] = {"FLAT", "HWC", "NHWC", "CHW", "NCHW"};
    return word(words, layout);
}

const char* direction_word(uint32_t direction)
{
    static const char* const words[] = {"IN", "OUT"};
    return word(words, direction);
}

const char* update_word(uint32_t update)
{
    static const char* const words[] = {"SWAP", "STAGED", "SETUP"};
    return word(words, update);
}

std::string shape_text(const frt_runtime_port_desc& port)
{
    std::string text = "[";
    for (uint32_t axis = 0; axis < port.rank; axis++) {
        text += (axis == 0 ? "" : ", ") + std::to_string(port.shape[axis]);
    }
    return text + "]";
}

void add_target_options(Command* command, TargetArguments* arguments, bool with_inputs)
{
    command->option("library", &arguments->library, "shared object of the producer").required();
    command->option("--config", &arguments->config, "configuration for its factory, JSON")
        .show_default();
    if (with_inputs) {
        command->option(
            "--in", &arguments->inputs,
            "PORT=SOURCE; a source is a file (.png, several with commas; .wav; else "
            "raw bytes), text:WORDS or num:1,2,3; ports without one get made-up values");
    }
}

Target::Target(const TargetArguments& arguments)
{
    options_.library = arguments.library;
    options_.config = arguments.config;
    // A name without a slash would be looked for among the system's libraries.
    if (options_.library.find('/') == std::string::npos) {
        options_.library = "./" + options_.library;
    }
    subject_ = std::make_unique<flashrt::conformance::Subject>(options_, &report_);
    if (!subject_->load()) {
        throw Failure(kExitInput, report_.last_text());
    }
    frt_model_runtime_v1* runtime = nullptr;
    const int code = subject_->factory(options_.config.c_str(), &runtime);
    if (code != 0 || runtime == nullptr) {
        throw Failure(kExitRefused, "the producer answers " + code_text(CodeSpace::verb, code) +
                                        " to this configuration");
    }
    const frt::LoadStatus status = subject_->adopted.adopt(runtime);
    if (status != frt::LoadStatus::loaded) {
        throw Failure(kExitProtocol, std::string("this is no runtime to work with: ") +
                                         subject_->adopted.reason() +
                                         " ('aotxctl model check' tells everything)");
    }
    subject_->model = runtime;
    for (const std::string& input : arguments.inputs) {
        add_feed(input);
        check_window(options_.feeds.back());
    }
    driver_ = std::make_unique<flashrt::conformance::Driver>(subject_.get());
}

uint32_t Target::port(const std::string& name) const
{
    std::string names;
    for (uint32_t at = 0; at < model()->n_ports; at++) {
        if (name == model()->ports[at].name) {
            return at;
        }
        names += (at == 0 ? "" : ", ") + std::string(model()->ports[at].name);
    }
    throw Failure(kExitUsage, "there is no port '" + name + "'; there are " + names);
}

std::string Target::error() const
{
    return model()->verbs.last_error(model()->self);
}

std::string Target::tick_code_text(int code) const
{
    switch (subject_->adopted.authority()) {
        case frt::Authority::stages:
            return code_text(subject_->exec.replay != nullptr ? CodeSpace::exec : CodeSpace::verb,
                             code);
        case frt::Authority::plan:
            return code_text(CodeSpace::opaque, code);
        default:
            return code_text(CodeSpace::verb, code);
    }
}

void Target::check_window(const flashrt::conformance::Feed& feed) const
{
    const frt_runtime_port_desc& desc = model()->ports[port(feed.port)];
    // Bytes may leave the rest of their window zero; elements come whole or not at all.
    const bool fits = feed.bytes.size() == desc.bytes ||
                      (desc.dtype == FRT_RT_DTYPE_U8 && feed.bytes.size() < desc.bytes);
    if (desc.update == FRT_RT_PORT_SWAP && !fits) {
        throw Failure(kExitInput, "port '" + feed.port + "' is a window of " +
                                      std::to_string(desc.bytes) + " bytes, and " +
                                      std::to_string(feed.bytes.size()) + " are given");
    }
}

void Target::add_sound(const std::string& name, const std::string& file,
                       const frt_runtime_port_desc& desc)
{
    const SoundForm form = sound_form(desc);
    const std::string bytes = read_source(file, kInputBytesMax);
    const Wav wav = wav_parse(bytes, file);
    options_.feeds.push_back({name, wav_elements(wav, form, file), false});
    // Inputs of several rates leave no answer to what an output's is.
    const bool agrees = !has_rate_ || input_rate_ == wav.frames_per_second;
    input_rate_ = agrees ? wav.frames_per_second : 0;
    has_rate_ = true;
}

void Target::add_feed(const std::string& input)
{
    const size_t equals = input.find('=');
    if (equals == std::string::npos) {
        throw Failure(kExitUsage, "--in takes PORT=SOURCE");
    }
    const std::string name = input.substr(0, equals);
    const std::string source = input.substr(equals + 1);
    const frt_runtime_port_desc& desc = model()->ports[port(name)];
    if (takes_frames(desc) && !ends_with(source, ".png")) {
        throw Failure(kExitUsage, "port '" + name + "' takes pictures: give .png files");
    }
    if (source.compare(0, 5, "text:") == 0) {
        options_.feeds.push_back({name, source.substr(5), false});
        return;
    }
    if (source.compare(0, 4, "num:") == 0) {
        options_.feeds.push_back({name, numbers_read(source.substr(4), desc.dtype, name), false});
        return;
    }
    if (ends_with(source, ".wav")) {
        add_sound(name, source, desc);
        return;
    }
    if (!ends_with(source, ".png")) {
        options_.feeds.push_back({name, read_source(source, kInputBytesMax), false});
        return;
    }
    add_pictures(name, source, desc);
}

void Target::add_pictures(const std::string& name, const std::string& source,
                          const frt_runtime_port_desc& desc)
{
    if (!takes_frames(desc)) {
        options_.feeds.push_back({name, window_pixels(source, desc), false});
        return;
    }
    std::string views;
    for (const std::string& file : split(source)) {
        Picture picture = png_read(read_source(file, kInputBytesMax), 3, file);
        // On the heap whatever its size, so that moving the string moves no pixel.
        pixels_.push_back(std::move(picture.pixels));
        pixels_.back().reserve(64);
        const frt_image_view view = {sizeof view,
                                     FRT_RT_PIXEL_RGB8,
                                     nullptr,
                                     pixels_.back().size(),
                                     static_cast<int32_t>(picture.width),
                                     static_cast<int32_t>(picture.height),
                                     0,
                                     0,
                                     0};
        views.append(reinterpret_cast<const char*>(&view), sizeof view);
        const char* data = pixels_.back().data();
        std::memcpy(views.data() + views.size() - sizeof view + offsetof(frt_image_view, data),
                    &data, sizeof data);
    }
    options_.feeds.push_back({name, views, false});
}

}  // namespace aotx::cli
