// Purpose:  the producer under test inside a child process, and how groups report on it.
// Owns:     a Subject owns its library handle and the runtimes that it opened.
// Thread:   one.
// Lifetime: one group of checks.
#pragma once

#include <cstdarg>
#include <string>
#include <vector>

#include "conformance.h"
#include "flashrt/exec.h"
#include "flashrt/loader.hpp"

namespace flashrt::conformance {

// Writes findings to the parent, one line each. A rule is announced before it is checked, so that
// the parent knows which one a crash belongs to.
class Report {
public:
    // A descriptor below 0 keeps nothing but last_text.
    explicit Report(int descriptor) : descriptor_(descriptor) {}

    void begin(const char* rule);
    // Announce, then record a pass or a failure with its text.
    __attribute__((format(printf, 4, 5))) bool check(const char* rule, bool holds,
                                                     const char* format, ...);
    __attribute__((format(printf, 3, 4))) void warn(const char* rule, const char* format, ...);
    __attribute__((format(printf, 3, 4))) void skip(const char* rule, const char* format, ...);

    // The text of the most recent finding.
    const std::string& last_text() const { return last_text_; }

private:
    void write(Verdict verdict, const char* rule, const char* format, va_list arguments);
    void send(const std::string& line);

    int descriptor_;
    std::string last_text_;
};

// The exec functions that the producer itself uses; its handles belong to that library. NULL where
// it links none.
struct ExecFunctions {
    int (*replay)(frt_graph graph, frt_shape_key key, int stream_id) = nullptr;
    int (*has_variant)(frt_graph graph, frt_shape_key key) = nullptr;
    size_t (*variant_count)(frt_graph graph) = nullptr;
    void* (*dptr)(frt_buffer buffer) = nullptr;
    size_t (*buffer_bytes)(frt_buffer buffer) = nullptr;
    int (*stream_sync)(frt_ctx ctx, int stream_id) = nullptr;
    int (*write)(frt_ctx ctx, frt_buffer to, size_t offset, const void* host, size_t bytes,
                 int stream_id) = nullptr;
    int (*read)(frt_ctx ctx, frt_buffer from, size_t offset, void* host, size_t bytes,
                int stream_id) = nullptr;
};

class Subject {
public:
    Subject(const Options& given, Report* reporter) : options(given), report(reporter) {}
    ~Subject();
    Subject(const Subject&) = delete;
    Subject& operator=(const Subject&) = delete;

    // dlopen and dlsym; false after reporting under factory.symbol.
    bool load();
    // A new runtime whose stamp may be trusted, or nullptr. Not reported.
    frt_model_runtime_v1* open();
    // load, open and adopt; false when there is nothing that further checks could use.
    bool ready();
    void release(frt_model_runtime_v1* runtime);
    // Close the library; true when it left the process.
    bool unload();

    const Options& options;
    Report* report;
    frt_model_runtime_open_v1_fn factory = nullptr;
    ExecFunctions exec;
    frt_model_runtime_v1* model = nullptr;  // opened by ready()
    frt::LoadedModel adopted;               // the same, behind the loader's gates

private:
    void* library_ = nullptr;
};

// One input of every port and one tick, as a host does them.
class Driver {
public:
    explicit Driver(Subject* subject);

    // Write every input that can be written; `variant` picks other values. "", or the text of a
    // refusal.
    std::string feed(uint32_t variant);
    // One tick by the model's authority.
    int tick();
    // How many stages a tick fires here; 0 when it calls step, also for want of the execution
    // layer.
    uint64_t stages() const;
    // The name of a stage: its own in a plan, else its graph's. Borrowed from the model.
    const char* stage_name(uint64_t index) const;
    // Fire one stage and wait for it; stages are fired in order. index < stages().
    int run_stage(uint64_t index) const;
    // Every readable output behind the last tick, in port order.
    std::vector<std::string> outputs();
    // One output; false when it cannot be read.
    bool output(uint32_t port, std::string* bytes);
    int set(uint32_t port, const void* data, uint64_t bytes) const;
    // The bytes that feed writes into a port.
    const std::string& payload(uint32_t port) const { return payloads_[port]; }
    // Overwrite the memory that the last feed handed over.
    void scribble();

private:
    void make_payload(uint32_t port, uint32_t variant);
    int replay(uint32_t graph) const;
    // The port's payload where it came with the options, else nullptr.
    const Feed* given(const frt_runtime_port_desc& port) const;
    bool window_write(uint32_t port) const;
    bool window_read(uint32_t port, std::string* bytes) const;

    Subject* subject_;
    const frt_model_runtime_v1* model_;
    std::vector<std::string> payloads_;
    std::vector<std::string> frames_;  // pixels behind image payloads
};

// Bytes of one element, 0 for an unknown dtype.
uint64_t dtype_bytes(uint32_t dtype);
// Elements of a fixed shape; 0 when a dimension varies.
uint64_t shape_elements(const frt_runtime_port_desc& port);
bool is_image(const frt_runtime_port_desc& port);

// The groups, each in a process of its own.
void check_factory(Subject* subject);
void check_layout(Subject* subject);
void check_declarations(Subject* subject);
void check_authority(Subject* subject);
void check_verbs(Subject* subject);
void check_payloads(Subject* subject);
void check_running(Subject* subject);
void check_lifetime(Subject* subject);

// Names of the dynamic symbols that a shared object defines; empty when it cannot be read.
std::vector<std::string> exported_symbols(const std::string& path);

}  // namespace flashrt::conformance
