// Purpose:  the loaded model of one command, its ports by name, and words for the ABI's numbers.
// Owns:     a Target owns the library, the runtime and the bytes of its inputs.
// Thread:   main.
// Lifetime: one command.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/context.h"
#include "conformance/subject.h"

namespace aotx::cli {

// What every model command is given.
struct TargetArguments {
    std::string library;
    std::string config = "{}";
    std::vector<std::string> inputs;  // PORT=SOURCE
};

// Add the options of TargetArguments to a command; inputs only where with_inputs is set.
void add_target_options(Command* command, TargetArguments* arguments, bool with_inputs);

class Target {
public:
    // Load and adopt; throws Failure with the loader's reason.
    explicit Target(const TargetArguments& arguments);

    const frt_model_runtime_v1* model() const { return subject_->adopted.runtime(); }
    const flashrt::conformance::Subject& subject() const { return *subject_; }
    flashrt::conformance::Driver& driver() { return *driver_; }
    // Throws Failure when there is no such port.
    uint32_t port(const std::string& name) const;
    // The model's last error, for messages.
    std::string error() const;
    // Samples a second of the WAV inputs; 0 when there are none or they differ.
    uint32_t input_rate() const { return input_rate_; }
    // What a tick answered, with its meaning in the space of what runs this model.
    std::string tick_code_text(int code) const;

private:
    void add_feed(const std::string& input);
    // Throws Failure for a payload that does not fill the window it goes into.
    void check_window(const flashrt::conformance::Feed& feed) const;
    void add_sound(const std::string& name, const std::string& file,
                   const frt_runtime_port_desc& desc);
    void add_pictures(const std::string& name, const std::string& source,
                      const frt_runtime_port_desc& desc);

    flashrt::conformance::Options options_;
    flashrt::conformance::Report report_{-1};
    std::unique_ptr<flashrt::conformance::Subject> subject_;
    std::unique_ptr<flashrt::conformance::Driver> driver_;
    uint32_t input_rate_ = 0;
    bool has_rate_ = false;
    std::vector<std::string> pixels_;  // behind the frt_image_view arrays
};

// "?" for a number that has no word.
const char* modality_word(uint32_t modality);
const char* dtype_word(uint32_t dtype);
const char* layout_word(uint32_t layout);
const char* direction_word(uint32_t direction);
const char* update_word(uint32_t update);

// "[2, 32, 32, 3]".
std::string shape_text(const frt_runtime_port_desc& port);

}  // namespace aotx::cli
