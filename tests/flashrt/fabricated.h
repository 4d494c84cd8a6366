// Purpose:  made-up handles and a counted owner, for tests that build objects without any device.
// Owns:     nothing.
// Thread:   counters may be read when the threads of a test are joined.
// Lifetime: the test.
#pragma once

#include <atomic>
#include <cstdint>

#include "flashrt/model_runtime.h"

// A handle that nobody may follow.
template <typename Handle>
Handle fabricated(uintptr_t number)
{
    return reinterpret_cast<Handle>(number * 64);
}

struct Owner {
    std::atomic<int> retained{0};
    std::atomic<int> released{0};
    std::atomic<int>* clock = nullptr;  // ticks at every release of any owner that shares it
    int released_at = 0;

    static void retain(void* owner) { static_cast<Owner*>(owner)->retained++; }
    static void release(void* owner)
    {
        Owner* self = static_cast<Owner*>(owner);
        self->released++;
        if (self->clock != nullptr) {
            self->released_at = ++*self->clock;
        }
    }
};

namespace fabricated_verbs {
inline int set_input(void* self, uint32_t, const void*, uint64_t, int)
{
    return self == nullptr ? 0 : *static_cast<int*>(self);
}
inline int get_output(void*, uint32_t, void*, uint64_t, uint64_t*, int)
{
    return 0;
}
inline int prepare(void*, uint32_t, frt_shape_key)
{
    return 0;
}
inline int step(void*)
{
    return 0;
}
inline const char* last_error(void* self)
{
    return self == nullptr ? "" : "the base's text";
}
inline int run_opaque(void* stage_self, uint32_t executor_ref)
{
    return *static_cast<int*>(stage_self) + static_cast<int>(executor_ref);
}
}  // namespace fabricated_verbs

inline frt_model_runtime_verbs all_verbs()
{
    using namespace fabricated_verbs;
    return {48, 0, set_input, get_output, prepare, step, last_error};
}
