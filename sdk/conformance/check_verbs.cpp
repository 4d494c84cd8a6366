// Purpose:  the groups that call verbs: refusals, buffers, payloads.
// Owns:     nothing.
// Thread:   one.
// Lifetime: the call.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <memory>

#include "subject.h"

namespace flashrt::conformance {
namespace {

constexpr char kCanary = '\x5a';
constexpr uint64_t kTextBytesFar = UINT64_C(64) << 20;

// Every code that a verb answered passes here.
class Codes {
public:
    int see(int code)
    {
        strange_ = code > 0 || code < FRT_VERB_BACKEND ? code : strange_;
        return code;
    }
    int strange() const { return strange_; }

private:
    int strange_ = 0;
};

bool one_of(int code, std::initializer_list<int> wanted)
{
    for (const int want : wanted) {
        if (code == want) {
            return true;
        }
    }
    return false;
}

std::string error_of(const frt_model_runtime_v1* model)
{
    const char* text = model->verbs.last_error(model->self);
    return text == nullptr ? "(null)" : text;
}

// Stubs are those of the producer, so the original object is asked.
void check_callable(Subject* subject)
{
    const frt_model_runtime_verbs& verbs = subject->adopted.original()->verbs;
    const bool whole = verbs.set_input != nullptr && verbs.get_output != nullptr &&
                       verbs.prepare != nullptr && verbs.step != nullptr &&
                       verbs.last_error != nullptr;
    subject->report->begin("verb.callable");
    subject->report->check("verb.callable", whole, "a verb is NULL");
}

void check_unknown_ports(Subject* subject, Codes* codes)
{
    Report* report = subject->report;
    const frt_model_runtime_v1* model = subject->adopted.runtime();
    const frt_model_runtime_verbs& verbs = model->verbs;
    char byte = kCanary;
    uint64_t written = 0;
    report->begin("verb.unknown_port");
    const uint32_t beyond = static_cast<uint32_t>(model->n_ports);
    bool holds = true;
    for (const uint32_t port : {beyond, beyond + 1, UINT32_MAX}) {
        const int in = codes->see(verbs.set_input(model->self, port, &byte, 1, -1));
        const int out = codes->see(verbs.get_output(model->self, port, &byte, 1, &written, -1));
        // A runtime without inputs or outputs at all answers through its stub.
        holds = holds && one_of(in, {-1, -3}) && one_of(out, {-1, -3});
    }
    report->check("verb.unknown_port", holds && byte == kCanary, "another answer than -1");
    report->begin("verb.error_text");
    const char* text = model->verbs.last_error(model->self);
    report->check("verb.error_text", text != nullptr && text[0] != '\0', "it is %s",
                  text == nullptr ? "NULL" : "empty");
}

void check_directions(Subject* subject, Codes* codes)
{
    Report* report = subject->report;
    const frt_model_runtime_v1* model = subject->adopted.runtime();
    std::string wrong;
    std::string swap;
    std::string null_data;
    char byte = kCanary;
    uint64_t written = 0;
    for (uint32_t at = 0; at < model->n_ports; at++) {
        const frt_runtime_port_desc& port = model->ports[at];
        report->begin("verb.direction");
        const bool in = port.direction == FRT_RT_PORT_IN;
        const int against = in ? model->verbs.get_output(model->self, at, &byte, 1, &written, -1)
                               : model->verbs.set_input(model->self, at, &byte, 1, -1);
        if (!one_of(codes->see(against), {-1, -3})) {
            wrong = std::string("port '") + port.name + "' answers " + std::to_string(against);
        }
        if (!in) {
            continue;
        }
        report->begin("verb.swap");
        const int code = codes->see(model->verbs.set_input(model->self, at, nullptr, 1, -1));
        if (port.update == FRT_RT_PORT_SWAP && code != FRT_VERB_UNSUPPORTED) {
            swap = std::string("port '") + port.name + "' answers " + std::to_string(code);
        }
        if (port.update == FRT_RT_PORT_STAGED && !one_of(code, {-1})) {
            null_data = std::string("port '") + port.name + "' answers " + std::to_string(code);
        }
    }
    report->check("verb.direction", wrong.empty() && byte == kCanary, "%s", wrong.c_str());
    report->check("verb.swap", swap.empty(), "%s", swap.c_str());
    report->check("verb.null_data", null_data.empty(), "%s", null_data.c_str());
}

void check_prepare(Subject* subject, Codes* codes)
{
    const frt_model_runtime_v1* model = subject->adopted.runtime();
    subject->report->begin("verb.prepare");
    const uint32_t beyond = static_cast<uint32_t>(model->exp->n_graphs);
    const int code = codes->see(model->verbs.prepare(model->self, beyond, 0));
    subject->report->check("verb.prepare", one_of(code, {-2, -3}), "graph %u answers %d", beyond,
                           code);
}

// One output port: short, exact, NULL.
void check_output(Subject* subject, uint32_t port, Codes* codes, std::string* need_trouble,
                  std::string* exact_trouble, std::string* null_trouble)
{
    const frt_model_runtime_v1* model = subject->adopted.runtime();
    const frt_model_runtime_verbs& verbs = model->verbs;
    const std::string name = std::string("port '") + model->ports[port].name + "'";
    uint64_t need = 0;
    char byte = kCanary;
    subject->report->begin("output.need");
    const int first = codes->see(verbs.get_output(model->self, port, &byte, 0, &need, -1));
    if (need == 0 || need > kTextBytesFar) {
        if (first != FRT_VERB_OK) {
            *need_trouble = name + " answers " + std::to_string(first) + " and no need";
        }
        return;
    }
    std::string memory(need + 8, kCanary);
    uint64_t written = 0;
    const int brief =
        codes->see(verbs.get_output(model->self, port, memory.data(), need - 1, &written, -1));
    if (first != FRT_VERB_STORAGE || brief != FRT_VERB_STORAGE || written != need ||
        byte != kCanary || memory != std::string(need + 8, kCanary)) {
        *need_trouble = name + " answers " + std::to_string(first) + ", " + std::to_string(brief) +
                        " or copies something";
    }
    subject->report->begin("output.exact");
    const int exact =
        codes->see(verbs.get_output(model->self, port, memory.data(), need, &written, -1));
    if (exact != 0 || written != need || memory.substr(need) != std::string(8, kCanary)) {
        *exact_trouble = name + " answers " + std::to_string(exact) + ", written " +
                         std::to_string(written) + " of " + std::to_string(need);
    }
    subject->report->begin("output.null");
    const int null = codes->see(verbs.get_output(model->self, port, nullptr, need, &written, -1));
    if (!one_of(null, {-1, -5})) {
        *null_trouble = name + " answers " + std::to_string(null);
    }
}

void check_outputs(Subject* subject, Codes* codes)
{
    const frt_model_runtime_v1* model = subject->adopted.runtime();
    std::string need;
    std::string exact;
    std::string null;
    Driver driver(subject);
    if (driver.feed(1).empty()) {
        driver.tick();
    }
    uint32_t outputs = 0;
    for (uint32_t at = 0; at < model->n_ports; at++) {
        const frt_runtime_port_desc& port = model->ports[at];
        if (port.direction == FRT_RT_PORT_OUT && port.update == FRT_RT_PORT_STAGED) {
            check_output(subject, at, codes, &need, &exact, &null);
            outputs++;
        }
    }
    if (outputs == 0) {
        subject->report->skip("output.need", "there is no STAGED output");
        return;
    }
    subject->report->check("output.need", need.empty(), "%s", need.c_str());
    subject->report->check("output.exact", exact.empty(), "%s", exact.c_str());
    subject->report->check("output.null", null.empty(), "%s", null.c_str());
}

struct FrameCase {
    const char* rule;
    int want;
    void (*change)(frt_image_view* view);
};

constexpr FrameCase kFrameCases[] = {
    {"payload.frame_fields", -1, [](frt_image_view* view) { view->struct_size = 47; }},
    {"payload.frame_fields", -1, [](frt_image_view* view) { view->data = nullptr; }},
    {"payload.pixel_format", -4, [](frt_image_view* view) { view->pixel_format = 99; }},
    {"payload.stride", -4, [](frt_image_view* view) { view->stride_bytes = view->width * 3 - 1; }},
    {"payload.stride", -4, [](frt_image_view* view) { view->stride_bytes = -view->width * 3; }},
    {"payload.frame_bytes", -5, [](frt_image_view* view) { view->bytes--; }},
    {"payload.frame_bytes", -5, [](frt_image_view* view) { view->bytes = 0; }},
};

void check_frames(Subject* subject, const Driver& driver, uint32_t port)
{
    Report* report = subject->report;
    const std::string& good = driver.payload(port);
    const uint64_t view_bytes = sizeof(frt_image_view);
    report->begin("payload.frames");
    int code = driver.set(port, good.data(), good.size() - 1);
    report->check("payload.frames", code == FRT_VERB_INVALID, "one byte less answers %d", code);
    report->begin("payload.frame_count");
    const std::string more = good + good.substr(0, view_bytes);
    code = driver.set(port, more.data(), more.size());
    const int fewer = driver.set(port, good.data(), good.size() - view_bytes);
    report->check("payload.frame_count", code == FRT_VERB_SHAPE && fewer == FRT_VERB_SHAPE,
                  "one frame more answers %d, one less %d", code, fewer);
    for (const FrameCase& row : kFrameCases) {
        report->begin(row.rule);
        std::string bytes = good;
        frt_image_view view;
        std::memcpy(&view, bytes.data() + bytes.size() - view_bytes, view_bytes);
        row.change(&view);
        std::memcpy(bytes.data() + bytes.size() - view_bytes, &view, view_bytes);
        code = driver.set(port, bytes.data(), bytes.size());
        report->check(row.rule, code == row.want, "a bad last frame answers %d, not %d", code,
                      row.want);
    }
}

void check_sizes(Subject* subject, const Driver& driver, uint32_t index, std::string* trouble)
{
    const frt_runtime_port_desc& port = subject->adopted.runtime()->ports[index];
    const std::string& good = driver.payload(index);
    if (port.modality == FRT_RT_MOD_TEXT || shape_elements(port) == 0 ||
        dtype_bytes(port.dtype) == 0) {
        return;
    }
    const uint64_t wanted = shape_elements(port) * dtype_bytes(port.dtype);
    const std::string more = good + std::string(dtype_bytes(port.dtype), '\0');
    for (const uint64_t bytes : {wanted - 1, wanted + dtype_bytes(port.dtype), UINT64_C(0)}) {
        if (bytes > more.size() || bytes == wanted) {
            continue;
        }
        subject->report->begin("payload.size");
        const int code = driver.set(index, more.data(), bytes);
        if (!one_of(code, {-1, -4, -5})) {
            *trouble = std::string("port '") + port.name + "': " + std::to_string(bytes) +
                       " bytes answer " + std::to_string(code);
        }
    }
}

// A copy of bytes that ends where memory ends.
class GuardedBytes {
public:
    explicit GuardedBytes(const std::string& bytes)
    {
        const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
        const size_t readable = (bytes.size() + page - 1) / page * page;
        mapped_bytes_ = readable + page;
        void* pages = mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (pages == MAP_FAILED) {
            return;
        }
        pages_ = static_cast<char*>(pages);
        begin_ = pages_ + readable - bytes.size();
        std::memcpy(begin_, bytes.data(), bytes.size());
        mprotect(pages_ + readable, page, PROT_NONE);
    }
    ~GuardedBytes()
    {
        if (pages_ != nullptr) {
            munmap(pages_, mapped_bytes_);
        }
    }
    GuardedBytes(const GuardedBytes&) = delete;
    GuardedBytes& operator=(const GuardedBytes&) = delete;
    // nullptr: no memory.
    const char* begin() const { return begin_; }

private:
    char* pages_ = nullptr;
    char* begin_ = nullptr;
    size_t mapped_bytes_ = 0;
};

// The payload of a port with unreadable memory right behind it and behind its frames' pixels.
void check_bounds(Subject* subject, const Driver& driver, uint32_t index, std::string* trouble)
{
    const frt_runtime_port_desc& port = subject->adopted.runtime()->ports[index];
    std::string bytes = driver.payload(index);
    std::vector<std::unique_ptr<GuardedBytes>> pixels;
    const size_t view_bytes = sizeof(frt_image_view);
    for (size_t at = 0; is_image(port) && at + view_bytes <= bytes.size(); at += view_bytes) {
        frt_image_view view;
        std::memcpy(&view, bytes.data() + at, sizeof view);
        pixels.push_back(std::make_unique<GuardedBytes>(
            std::string(static_cast<const char*>(view.data), view.bytes)));
        view.data = pixels.back()->begin();
        std::memcpy(bytes.data() + at, &view, sizeof view);
    }
    const GuardedBytes guarded(bytes);
    subject->report->begin("payload.bounds");
    const int code = driver.set(index, guarded.begin(), bytes.size());
    if (code != 0) {
        *trouble = std::string("port '") + port.name + "' takes the same bytes elsewhere with " +
                   std::to_string(code);
    }
}

}  // namespace

void check_verbs(Subject* subject)
{
    if (!subject->ready()) {
        return;
    }
    Codes codes;
    check_callable(subject);
    check_unknown_ports(subject, &codes);
    check_directions(subject, &codes);
    check_prepare(subject, &codes);
    check_outputs(subject, &codes);
    subject->report->check("verb.codes", codes.strange() == 0, "a verb answered %d",
                           codes.strange());
}

void check_payloads(Subject* subject)
{
    if (!subject->ready()) {
        return;
    }
    Report* report = subject->report;
    const frt_model_runtime_v1* model = subject->adopted.runtime();
    Driver driver(subject);
    report->begin("payload.accept");
    const std::string refusal = driver.feed(1);
    if (!refusal.empty()) {
        report->warn("payload.accept",
                     "a made-up payload is refused, so give one (--feed port=file): %s",
                     refusal.c_str());
        return;
    }
    report->check("payload.accept", true, " ");
    const std::string text = error_of(model);
    if (text.empty()) {
        report->check("verb.error_cleared", true, " ");
    } else {
        report->warn("verb.error_cleared", "after a success it is '%.100s'", text.c_str());
    }
    std::string sizes;
    std::string bounds;
    for (uint32_t at = 0; at < model->n_ports; at++) {
        const frt_runtime_port_desc& port = model->ports[at];
        if (port.direction != FRT_RT_PORT_IN || port.update != FRT_RT_PORT_STAGED) {
            continue;
        }
        check_bounds(subject, driver, at, &bounds);
        if (is_image(port)) {
            check_frames(subject, driver, at);
        } else {
            check_sizes(subject, driver, at, &sizes);
        }
    }
    report->check("payload.bounds", bounds.empty(), "%s", bounds.c_str());
    report->check("payload.size", sizes.empty(), "%s", sizes.c_str());
}

}  // namespace flashrt::conformance
