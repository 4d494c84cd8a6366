// Purpose:  load the model runtimes that the configuration names.
// Owns:     the loaded runtimes and their libraries.
// Thread:   main.
// Lifetime: from start until after the loop is closed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "flashrt/loader.hpp"
#include "service/config/config.h"

namespace aotx {

struct Model {
    std::unique_ptr<frt::LoadedModel> loaded;
    uint32_t role = 0;
    uint8_t sha256[32] = {};
    uint64_t mapped_bytes = 0;  // of the model file, as the runtime tells
};

// Where a library is: a path as it stands; a name beside the running program's libraries
// (../lib, ../lib/aotx or its own directory), and as it stands when it is in none.
[[nodiscard]] std::string library_path(const std::string& library) noexcept;

// Directory of the running program, with a slash behind it.
[[nodiscard]] std::string program_directory() noexcept;

// Open every model of the configuration. device: what runs their steps, "cpu", "cuda" (or they are
// refused) or "auto". AOTX_ERR_RUNTIME: one cannot be loaded; *error names it and says why; models
// then holds those before it.
[[nodiscard]] int models_load(const Config& config, const std::string& device,
                              std::vector<Model>* models, std::string* error) noexcept;

}  // namespace aotx
