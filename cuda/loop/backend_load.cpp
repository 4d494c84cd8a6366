// Purpose:  find and load the shared object of a GPU backend.
// Owns:     nothing; the object stays loaded for the life of the process.
// Thread:   main.
// Lifetime: before loop_open.
#include <dlfcn.h>
#include <libgen.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstring>

#include "loop_backend.h"

namespace aotx {

namespace {

constexpr const char* kObjectName = "libaotx_cuda.so";

void* load_beside(char* place, size_t place_bytes)
{
    char program[PATH_MAX] = {};
    if (readlink("/proc/self/exe", program, sizeof program - 1) <= 0) {
        return nullptr;
    }
    const char* const folder = dirname(program);
    static const char* const places[] = {"", "../lib/", "../lib/aotx/"};
    for (const char* const inside : places) {
        std::snprintf(place, place_bytes, "%s/%s%s", folder, inside, kObjectName);
        if (access(place, R_OK) == 0) {
            return dlopen(place, RTLD_NOW | RTLD_LOCAL);
        }
    }
    return dlopen(kObjectName, RTLD_NOW | RTLD_LOCAL);
}

}  // namespace

const LoopBackend* loop_backend_load(const char* path, char* reason, size_t reason_bytes) noexcept
{
    char place[PATH_MAX + 64] = {};
    void* const object =
        path != nullptr ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : load_beside(place, sizeof place);
    if (object == nullptr) {
        const char* const why = dlerror();
        std::snprintf(reason, reason_bytes, "the CUDA backend is not installed (%s)",
                      why == nullptr ? kObjectName : why);
        return nullptr;
    }
    const auto open = reinterpret_cast<LoopBackendOpen>(dlsym(object, kLoopBackendSymbol));
    if (open == nullptr) {
        std::snprintf(reason, reason_bytes, "%s has no %s", path != nullptr ? path : kObjectName,
                      kLoopBackendSymbol);
        dlclose(object);
        return nullptr;
    }
    const LoopBackend* const backend = open(reason, reason_bytes);
    if (backend != nullptr && backend->version != kLoopBackendVersion) {
        std::snprintf(reason, reason_bytes, "the CUDA backend is of another version");
        return nullptr;
    }
    return backend;
}

}  // namespace aotx
