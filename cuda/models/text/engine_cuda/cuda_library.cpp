// Purpose:  find and load the shared object of the CUDA engine.
// Owns:     see cuda_library.h.
// Thread:   see cuda_library.h.
// Lifetime: see cuda_library.h.
#include "engine_cuda/cuda_library.h"

#include <dlfcn.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstring>
#include <string>

namespace aotx {

namespace {

std::string folder_of(const char* path)
{
    const std::string whole = path == nullptr ? "" : path;
    const size_t slash = whole.rfind('/');
    return slash == std::string::npos ? "" : whole.substr(0, slash + 1);
}

// The folder of the object that holds this code, then the program's.
void* load_beside()
{
    Dl_info info = {};
    char program[PATH_MAX] = {};
    std::string folders[2];
    if (dladdr(reinterpret_cast<const void*>(&cuda_library_find), &info) != 0) {
        folders[0] = folder_of(info.dli_fname);
    }
    if (readlink("/proc/self/exe", program, sizeof program - 1) > 0) {
        folders[1] = folder_of(program);
    }
    for (const std::string& folder : folders) {
        for (const char* const inside : {"", "../", "../lib/", "../lib/aotx/"}) {
            const std::string place = folder + inside + kTextEngineObject;
            if (!folder.empty() && access(place.c_str(), R_OK) == 0) {
                return dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
            }
        }
    }
    return dlopen(kTextEngineObject, RTLD_NOW | RTLD_LOCAL);
}

}  // namespace

TextEngineOpen cuda_library_find(TextReason* reason) noexcept
{
    void* const object = load_beside();
    if (object == nullptr) {
        std::snprintf(reason->text, sizeof reason->text,
                      "the CUDA backend is not installed (%.180s)", dlerror());
        return nullptr;
    }
    const auto open = reinterpret_cast<TextEngineOpen>(dlsym(object, kTextEngineSymbol));
    if (open == nullptr) {
        std::snprintf(reason->text, sizeof reason->text, "%s has no %s", kTextEngineObject,
                      kTextEngineSymbol);
    }
    return open;
}

}  // namespace aotx
