// Purpose:  load and drive the producer under test.
// Owns:     see subject.h.
// Thread:   one.
// Lifetime: see subject.h.
#include "subject.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

namespace flashrt::conformance {
namespace {

constexpr int32_t kFrameWidth = 48;
constexpr int32_t kFrameHeight = 36;

template <typename Function>
void find(void* library, const char* name, Function* function)
{
    *function = reinterpret_cast<Function>(dlsym(library, name));
}

// Small values that any consumer of numbers can live with.
void append_element(std::string* bytes, uint32_t dtype, uint64_t index, uint32_t variant)
{
    const uint32_t small = static_cast<uint32_t>((index + variant) % 7);
    const float real = static_cast<float>(small) * 0.125f;
    const uint16_t half = static_cast<uint16_t>(0x2c00 + small);   // F16: a little over 1/16
    const uint16_t brain = static_cast<uint16_t>(0x3d80 + small);  // BF16: the same size
    const int32_t word = static_cast<int32_t>(small);
    const int64_t wide = static_cast<int64_t>(small);
    const uint8_t byte = static_cast<uint8_t>('a' + small);
    const void* sources[] = {&byte, &real, &half, &brain, &word, &wide};
    bytes->append(static_cast<const char*>(sources[dtype]), dtype_bytes(dtype));
}

}  // namespace

uint64_t dtype_bytes(uint32_t dtype)
{
    constexpr uint64_t bytes[] = {1, 4, 2, 2, 4, 8};
    return dtype <= FRT_RT_DTYPE_I64 ? bytes[dtype] : 0;
}

uint64_t shape_elements(const frt_runtime_port_desc& port)
{
    uint64_t elements = 1;
    for (uint32_t at = 0; at < port.rank; at++) {
        elements *= port.shape[at] < 0 ? 0 : static_cast<uint64_t>(port.shape[at]);
    }
    return elements;
}

bool is_image(const frt_runtime_port_desc& port)
{
    return port.modality == FRT_RT_MOD_IMAGE || port.modality == FRT_RT_MOD_DEPTH;
}

void Report::send(const std::string& line)
{
    size_t sent = 0;
    while (descriptor_ >= 0 && sent < line.size()) {
        const ssize_t count = ::write(descriptor_, line.data() + sent, line.size() - sent);
        if (count <= 0) {
            _exit(3);  // the parent is gone
        }
        sent += static_cast<size_t>(count);
    }
}

void Report::begin(const char* rule)
{
    send(std::string("begin\t") + rule + "\n");
}

void Report::write(Verdict verdict, const char* rule, const char* format, va_list arguments)
{
    char text[512] = "";
    std::vsnprintf(text, sizeof text, format, arguments);
    for (char* at = text; *at != '\0'; at++) {
        *at = *at == '\n' || *at == '\t' ? ' ' : *at;
    }
    last_text_ = verdict == Verdict::pass ? "" : text;
    send(std::string(verdict_name(verdict)) + "\t" + rule + "\t" + last_text_ + "\n");
}

bool Report::check(const char* rule, bool holds, const char* format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    write(holds ? Verdict::pass : Verdict::fail, rule, format, arguments);
    va_end(arguments);
    return holds;
}

void Report::warn(const char* rule, const char* format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    write(Verdict::warn, rule, format, arguments);
    va_end(arguments);
}

void Report::skip(const char* rule, const char* format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    write(Verdict::skip, rule, format, arguments);
    va_end(arguments);
}

Subject::~Subject()
{
    adopted.close();
    if (model != nullptr) {
        release(model);
    }
    unload();
}

bool Subject::load()
{
    report->begin("factory.symbol");
    library_ = dlopen(options.library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) {
        const char* text = dlerror();
        report->check("factory.symbol", false, "%s", text == nullptr ? "dlopen failed" : text);
        return false;
    }
    find(library_, FRT_MODEL_RUNTIME_OPEN_V1_SYMBOL, &factory);
    find(library_, "frt_graph_replay", &exec.replay);
    find(library_, "frt_graph_has_variant", &exec.has_variant);
    find(library_, "frt_graph_variant_count", &exec.variant_count);
    find(library_, "frt_buffer_dptr", &exec.dptr);
    find(library_, "frt_buffer_bytes", &exec.buffer_bytes);
    find(library_, "frt_stream_sync", &exec.stream_sync);
    find(library_, "frt_buffer_write", &exec.write);
    find(library_, "frt_buffer_read", &exec.read);
    if (factory == nullptr) {
        report->check("factory.symbol", false, "there is no such symbol");
    }
    return factory != nullptr;
}

frt_model_runtime_v1* Subject::open()
{
    frt_model_runtime_v1* runtime = nullptr;
    if (factory(options.config.c_str(), &runtime) != 0) {
        return nullptr;
    }
    return runtime;
}

bool Subject::ready()
{
    if (!load()) {
        return false;
    }
    report->begin("factory.opens");
    model = open();
    if (model == nullptr) {
        return false;
    }
    if (frt_detail::gate_model_stamp(model) != 0 || model->release == nullptr) {
        model = nullptr;  // nothing about it may be trusted, not even its release
        return false;
    }
    report->begin("lifetime.owner");  // adopting retains
    return adopted.adopt(model) == frt::LoadStatus::loaded;
}

void Subject::release(frt_model_runtime_v1* runtime)
{
    if (runtime == model) {
        model = nullptr;
    }
    runtime->release(runtime->owner);
}

bool Subject::unload()
{
    if (library_ == nullptr) {
        return true;
    }
    dlclose(library_);
    library_ = nullptr;
    void* still = dlopen(options.library.c_str(), RTLD_NOW | RTLD_NOLOAD);
    if (still != nullptr) {
        dlclose(still);
    }
    return still == nullptr;
}

Driver::Driver(Subject* subject) : subject_(subject), model_(subject->adopted.runtime())
{
    payloads_.resize(model_->n_ports);
}

void Driver::make_payload(uint32_t index, uint32_t variant)
{
    const frt_runtime_port_desc& port = model_->ports[index];
    std::string bytes;
    const Feed* feed = given(port);
    if (feed != nullptr) {
        payloads_[index] = feed->bytes;
        return;
    }
    if (is_image(port) && port.update != FRT_RT_PORT_SWAP) {
        const int64_t count = port.rank == 4 && port.shape[0] > 0 ? port.shape[0] : 1;
        for (int64_t frame = 0; frame < count; frame++) {
            std::string pixels(kFrameWidth * kFrameHeight * 3, '\0');
            for (size_t at = 0; at < pixels.size(); at++) {
                pixels[at] = static_cast<char>(at * 31 + static_cast<size_t>(frame) * 7 + variant);
            }
            frames_.push_back(std::move(pixels));
            const frt_image_view view = {sizeof view,
                                         FRT_RT_PIXEL_RGB8,
                                         frames_.back().data(),
                                         frames_.back().size(),
                                         kFrameWidth,
                                         kFrameHeight,
                                         0,
                                         0,
                                         0};
            bytes.append(reinterpret_cast<const char*>(&view), sizeof view);
        }
    } else if (port.modality == FRT_RT_MOD_TEXT) {
        bytes = "reach for item " + std::to_string(variant);
    } else if (dtype_bytes(port.dtype) != 0) {
        const uint64_t elements = shape_elements(port) == 0 ? 4 : shape_elements(port);
        for (uint64_t at = 0; at < elements && at < (UINT64_C(1) << 24); at++) {
            append_element(&bytes, port.dtype, at, variant);
        }
    }
    payloads_[index] = bytes;
}

const Feed* Driver::given(const frt_runtime_port_desc& port) const
{
    for (const Feed& feed : subject_->options.feeds) {
        if (feed.port == port.name) {
            return &feed;
        }
    }
    return nullptr;
}

bool Driver::window_write(uint32_t index) const
{
    const frt_runtime_port_desc& port = model_->ports[index];
    std::string bytes = payloads_[index];
    bytes.resize(port.bytes);
    return port.buffer != nullptr && subject_->exec.write != nullptr &&
           subject_->exec.write(model_->exp->ctx, port.buffer, port.offset, bytes.data(),
                                bytes.size(), 0) == FRT_OK;
}

bool Driver::window_read(uint32_t index, std::string* bytes) const
{
    const frt_runtime_port_desc& port = model_->ports[index];
    bytes->assign(port.bytes, '\0');
    return port.buffer != nullptr && subject_->exec.read != nullptr &&
           subject_->exec.read(model_->exp->ctx, port.buffer, port.offset, bytes->data(),
                               bytes->size(), 0) == FRT_OK;
}

std::string Driver::feed(uint32_t variant)
{
    frames_.clear();
    frames_.reserve(256);  // views point into the strings, which must stay where they are
    for (uint32_t at = 0; at < model_->n_ports; at++) {
        const frt_runtime_port_desc& port = model_->ports[at];
        if (port.direction != FRT_RT_PORT_IN) {
            continue;
        }
        if (is_image(port) && port.update != FRT_RT_PORT_SWAP && given(port) != nullptr &&
            given(port)->is_file) {
            return std::string("port ") + port.name + " takes frames, and a file holds none";
        }
        make_payload(at, variant);
        if (port.update == FRT_RT_PORT_SWAP) {
            // Made-up contents may stay away; what somebody gave may not.
            if (!window_write(at) && given(port) != nullptr) {
                return std::string("port ") + port.name + ": its window cannot be written";
            }
            continue;
        }
        const int code = set(at, payloads_[at].data(), payloads_[at].size());
        if (code != 0 && (port.update == FRT_RT_PORT_STAGED || port.required == 1)) {
            return std::string("port ") + port.name + " answered " + std::to_string(code) + ": " +
                   model_->verbs.last_error(model_->self);
        }
    }
    return "";
}

int Driver::set(uint32_t port, const void* data, uint64_t bytes) const
{
    return model_->verbs.set_input(model_->self, port, data, bytes, -1);
}

void Driver::scribble()
{
    for (std::string& pixels : frames_) {
        pixels.assign(pixels.size(), '\x5a');
    }
    for (std::string& bytes : payloads_) {
        bytes.assign(bytes.size(), '\x5a');
    }
}

int Driver::replay(uint32_t index) const
{
    const frt_runtime_graph_desc& graph = model_->exp->graphs[index];
    const int code = subject_->exec.replay(graph.handle, graph.default_key, graph.stream_id);
    // Waited for, so that order between streams holds and a tick is done when it returns.
    return code != FRT_OK || subject_->exec.stream_sync == nullptr
               ? code
               : subject_->exec.stream_sync(model_->exp->ctx, graph.stream_id);
}

uint64_t Driver::stages() const
{
    switch (subject_->adopted.authority()) {
        case frt::Authority::stages:
            return subject_->exec.replay == nullptr ? 0 : model_->n_stages;
        case frt::Authority::plan:
            return subject_->adopted.plan()->n_stages;
        case frt::Authority::step:
        case frt::Authority::none:
            break;
    }
    return 0;
}

const char* Driver::stage_name(uint64_t index) const
{
    const frt_generic_stage_plan_ext_v1* plan = subject_->adopted.plan();
    return plan != nullptr ? plan->stages[index].name
                           : model_->exp->graphs[model_->stages[index].graph].name;
}

int Driver::run_stage(uint64_t index) const
{
    const frt_generic_stage_plan_ext_v1* plan = subject_->adopted.plan();
    if (plan == nullptr) {
        return replay(model_->stages[index].graph);
    }
    const frt_generic_stage_desc_v1& stage = plan->stages[index];
    if (stage.executor_kind == FRT_GENERIC_STAGE_OPAQUE) {
        return plan->run_opaque(plan->stage_self, stage.executor_ref);
    }
    return subject_->exec.replay == nullptr ? FRT_VERB_UNSUPPORTED : replay(stage.executor_ref);
}

int Driver::tick()
{
    const uint64_t count = stages();
    if (count == 0) {
        return model_->verbs.step(model_->self);
    }
    for (uint64_t at = 0; at < count; at++) {
        const int code = run_stage(at);
        if (code != 0) {
            return code;
        }
    }
    return 0;
}

bool Driver::output(uint32_t index, std::string* bytes)
{
    const frt_runtime_port_desc& port = model_->ports[index];
    if (port.direction != FRT_RT_PORT_OUT) {
        return false;
    }
    if (port.update == FRT_RT_PORT_SWAP) {
        return window_read(index, bytes);
    }
    char none = 0;
    uint64_t need = 0;
    const int code = model_->verbs.get_output(model_->self, index, &none, 0, &need, -1);
    if ((code != FRT_VERB_STORAGE && code != FRT_VERB_OK) || need > (UINT64_C(1) << 30)) {
        return false;
    }
    bytes->assign(need, '\0');
    return model_->verbs.get_output(model_->self, index, bytes->data(), need, &need, -1) == 0;
}

std::vector<std::string> Driver::outputs()
{
    std::vector<std::string> all;
    for (uint32_t at = 0; at < model_->n_ports; at++) {
        std::string bytes;
        if (output(at, &bytes)) {
            all.push_back(std::move(bytes));
        }
    }
    return all;
}

}  // namespace flashrt::conformance
