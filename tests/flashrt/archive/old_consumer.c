/* Purpose:  a consumer built against the archived layout alone, in its two kinds: one that asks for
 *           the prefix, and one that asked for the exact size and has to be rebuilt.
 * Owns:     the loaded library during the call.
 * Thread:   one.
 * Lifetime: the call. */
#include "old_consumer.h"

#include <dlfcn.h>
#include <string.h>

#include "model_runtime_2026.h"

int old_consumer_run(const char* library, const char* config_json, int exact_size, float x,
                     float* y)
{
    int code = 2;
    old_runtime* runtime = NULL;
    void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        return 1;
    }
    old_open open_runtime = NULL;
    void* symbol = dlsym(handle, "frt_model_runtime_open_v1");
    memcpy(&open_runtime, &symbol, sizeof symbol);
    if (open_runtime != NULL && open_runtime(config_json, &runtime) == 0) {
        const uint32_t size = runtime->struct_size;
        float values[4] = {x, x, x, x};
        uint64_t written = 0;
        code = 3;
        if (runtime->abi_version == 1 && size >= sizeof(old_runtime) &&
            (exact_size == 0 || size == sizeof(old_runtime))) {
            const uint64_t bytes = (uint64_t)runtime->ports[0].shape[0] * sizeof(float);
            const uint32_t output = runtime->n_ports > 1 ? 1 : 0;
            code = runtime->verbs.set_input(runtime->self, 0, values, bytes, -1) |
                   runtime->verbs.step(runtime->self) |
                   runtime->verbs.get_output(runtime->self, output, values, sizeof values, &written,
                                             -1);
            *y = values[0];
        }
        runtime->release(runtime->owner);
    }
    dlclose(handle);
    return code;
}
