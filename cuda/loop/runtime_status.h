// Purpose:  what the codes of a model runtime become on the device: one table for every space of
//           codes, so that no two places translate one failure differently.
// Owns:     the table.
// Thread:   any.
// Lifetime: constant.
//
// The same number means other things in other spaces: -4 is a shape to a verb and a failed capture
// to the execution layer. So a code is never passed on without its space. docs/providers.md holds
// this table for people, and a test compares the two.
#pragma once

#include <cstdint>

#include "aotx/status.h"
#include "flashrt/exec.h"
#include "flashrt/loader.hpp"
#include "flashrt/model_runtime.h"

namespace aotx {

// Who answered with a code. Append only.
enum class CodeSpace : uint32_t {
    verb = 0,  // set_input, get_output, prepare, step of the runtime; render of the text extension
    opaque = 1,  // run_opaque of a generic plan
    decode = 2,  // run_opaque of the stage "decode" of a plain language runtime
    open = 3,    // sequence_open of the text extension
    step = 4,    // step, step_sample and token_bytes of the text extension
    exec = 5,    // the execution layer: enum frt_status
    load = 6     // the loader: frt::LoadStatus
};

// status: AOTX_STATUS_NONE lets the request go on, anything else ends it with that status.
struct CodeMeaning {
    CodeSpace space;
    int code;
    uint32_t status;
    const char* text;
};

inline constexpr CodeMeaning kCodeMeanings[] = {
    {CodeSpace::verb, FRT_VERB_OK, AOTX_STATUS_NONE, "done"},
    {CodeSpace::verb, FRT_VERB_INVALID, AOTX_STATUS_UNAVAILABLE, "an argument is invalid"},
    {CodeSpace::verb, FRT_VERB_NOT_FOUND, AOTX_STATUS_UNAVAILABLE,
     "a graph, key or file is missing"},
    {CodeSpace::verb, FRT_VERB_UNSUPPORTED, AOTX_STATUS_UNAVAILABLE,
     "the runtime does not do that"},
    {CodeSpace::verb, FRT_VERB_SHAPE, AOTX_STATUS_TOO_LARGE, "a payload has another shape"},
    {CodeSpace::verb, FRT_VERB_STORAGE, AOTX_STATUS_TOO_LARGE, "a buffer is too small"},
    {CodeSpace::verb, FRT_VERB_BACKEND, AOTX_STATUS_UNAVAILABLE, "the device or the engine failed"},

    {CodeSpace::opaque, FRT_VERB_OK, AOTX_STATUS_NONE, "done"},
    {CodeSpace::opaque, FRT_VERB_INVALID, AOTX_STATUS_UNAVAILABLE, "the stage was not ready"},
    {CodeSpace::opaque, FRT_VERB_NOT_FOUND, AOTX_STATUS_UNAVAILABLE, "there is no such stage"},
    {CodeSpace::opaque, FRT_VERB_UNSUPPORTED, AOTX_STATUS_UNAVAILABLE, "the stage is not offered"},
    {CodeSpace::opaque, FRT_VERB_SHAPE, AOTX_STATUS_UNAVAILABLE, "an input has another shape"},
    {CodeSpace::opaque, FRT_VERB_STORAGE, AOTX_STATUS_UNAVAILABLE, "the stage has no room"},
    {CodeSpace::opaque, FRT_VERB_BACKEND, AOTX_STATUS_UNAVAILABLE,
     "the device or the engine failed"},

    {CodeSpace::decode, FRT_VERB_OK, AOTX_STATUS_NONE, "one token more"},
    {CodeSpace::decode, FRT_VERB_STORAGE, AOTX_STATUS_OK, "the context is full: finish length"},

    {CodeSpace::open, FRT_VERB_OK, AOTX_STATUS_NONE, "the sequence is open"},
    {CodeSpace::open, FRT_VERB_STORAGE, AOTX_STATUS_TOO_MANY, "no pages now: the request waits"},

    {CodeSpace::step, FRT_VERB_OK, AOTX_STATUS_NONE, "done"},

    {CodeSpace::exec, FRT_OK, AOTX_STATUS_NONE, "done"},
    {CodeSpace::exec, FRT_ERR_INVALID, AOTX_STATUS_UNAVAILABLE, "a handle or stream is invalid"},
    {CodeSpace::exec, FRT_ERR_NO_VARIANT, AOTX_STATUS_UNAVAILABLE, "no variant under this key"},
    {CodeSpace::exec, FRT_ERR_UNBOUND, AOTX_STATUS_UNAVAILABLE, "a port is not bound"},
    {CodeSpace::exec, FRT_ERR_CAPTURE, AOTX_STATUS_UNAVAILABLE, "nothing could be captured"},
    {CodeSpace::exec, FRT_ERR_BACKEND, AOTX_STATUS_UNAVAILABLE, "the device failed"},
    {CodeSpace::exec, FRT_ERR_OOM, AOTX_STATUS_UNAVAILABLE, "no memory"},

    {CodeSpace::load, static_cast<int>(frt::LoadStatus::loaded), AOTX_STATUS_NONE, "loaded"},
    {CodeSpace::load, static_cast<int>(frt::LoadStatus::arguments), AOTX_STATUS_UNAVAILABLE,
     "a path or a configuration is missing"},
    {CodeSpace::load, static_cast<int>(frt::LoadStatus::library), AOTX_STATUS_UNAVAILABLE,
     "the file cannot be loaded"},
    {CodeSpace::load, static_cast<int>(frt::LoadStatus::symbol), AOTX_STATUS_UNAVAILABLE,
     "the file is no producer"},
    {CodeSpace::load, static_cast<int>(frt::LoadStatus::factory), AOTX_STATUS_UNAVAILABLE,
     "the producer refuses"},
    {CodeSpace::load, static_cast<int>(frt::LoadStatus::gate), AOTX_STATUS_UNAVAILABLE,
     "version, size or a field is wrong"},
    {CodeSpace::load, static_cast<int>(frt::LoadStatus::authority), AOTX_STATUS_UNAVAILABLE,
     "nothing runs the model, or two things do"},
    {CodeSpace::load, static_cast<int>(frt::LoadStatus::memory), AOTX_STATUS_UNAVAILABLE,
     "no memory"},
};

// Codes that a space does not name: other producers invent some, and all of them are failures.
inline constexpr CodeMeaning kCodeUnknown = {CodeSpace::verb, 0, AOTX_STATUS_UNAVAILABLE,
                                             "a code outside the contract"};

// The row of a code, never null. [hot]
constexpr const CodeMeaning& code_meaning(CodeSpace space, int code) noexcept
{
    for (const CodeMeaning& row : kCodeMeanings) {
        if (row.space == space && row.code == code) {
            return row;
        }
    }
    return kCodeUnknown;
}

// What a code becomes: AOTX_STATUS_NONE, or the status that ends the request. [hot]
constexpr uint32_t device_status(CodeSpace space, int code) noexcept
{
    return code_meaning(space, code).status;
}

}  // namespace aotx
