// Purpose:  load model runtimes, see models.h.
// Owns:     nothing.
// Thread:   main.
// Lifetime: at start.
#include "service/aotxd/models.h"

#include <errno.h>
#include <limits.h>
#include <unistd.h>

#include <cstring>

#include "aotx/status.h"
#include "aotx/text_runtime.h"
#include "cuda/loop/runtime_status.h"
#include "service/base/check.h"
#include "service/base/digest.h"

namespace aotx {
namespace {

const aotx_text_properties* text_properties(const frt_model_runtime_v1* runtime) noexcept
{
    const void* table = nullptr;
    if (runtime->query_extension(runtime, AOTX_TEXT_RUNTIME_EXTENSION_ID,
                                 AOTX_TEXT_RUNTIME_ABI_VERSION, &table) != 0 ||
        table == nullptr) {
        return nullptr;
    }
    return static_cast<const aotx_text_runtime_v1*>(table)->properties;
}

bool is_zero(const uint8_t* bytes, size_t count) noexcept
{
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    return true;
}

int model_load(const ModelConfig& config, const std::string& device, Model* model,
               std::string* error)
{
    const std::string path = library_path(config.library);
    const std::string json = model_config_json(config, device);
    model->role = model_role(config);
    model->loaded = std::make_unique<frt::LoadedModel>();
    const frt::LoadStatus loaded = model->loaded->open(path.c_str(), json.c_str());
    if (device_status(CodeSpace::load, static_cast<int>(loaded)) != AOTX_STATUS_NONE) {
        *error = "model \"" + config.alias + "\": " + path + ": " + model->loaded->reason();
        return AOTX_ERR_RUNTIME;
    }

    const aotx_text_properties* const text = text_properties(model->loaded->runtime());
    if (text != nullptr) {
        std::memcpy(model->sha256, text->sha256, sizeof model->sha256);
        model->mapped_bytes = text->mapped_bytes;
    }
    if (is_zero(model->sha256, sizeof model->sha256) && !config.path.empty() &&
        sha256_file(config.path.c_str(), model->sha256) != AOTX_OK) {
        *error = "model \"" + config.alias + "\": " + config.path + ": " + strerror(errno);
        return AOTX_ERR_RUNTIME;
    }
    return AOTX_OK;
}

}  // namespace

std::string program_directory() noexcept
{
    char path[PATH_MAX];
    const ssize_t characters = readlink("/proc/self/exe", path, sizeof path);
    AOTX_CHECK(characters > 0 && characters < static_cast<ssize_t>(sizeof path));
    const std::string whole(path, static_cast<size_t>(characters));
    return whole.substr(0, whole.rfind('/') + 1);
}

std::string library_path(const std::string& library) noexcept
{
    if (library.find('/') != std::string::npos) {
        return library;
    }
    const std::string directory = program_directory();
    for (const char* const place : {"../lib/", "../lib/aotx/", ""}) {
        const std::string path = directory + place + library;
        if (access(path.c_str(), R_OK) == 0) {
            return path;
        }
    }
    return library;
}

int models_load(const Config& config, const std::string& device, std::vector<Model>* models,
                std::string* error) noexcept
{
    for (const ModelConfig& model : config.models) {
        models->emplace_back();
        const int status = model_load(model, device, &models->back(), error);
        if (status != AOTX_OK) {
            return status;
        }
    }
    return AOTX_OK;
}

}  // namespace aotx
