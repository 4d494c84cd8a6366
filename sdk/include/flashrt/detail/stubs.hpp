// Purpose:  the answers of verbs that a producer does not have, so that every entry is callable.
// Owns:     nothing.
// Thread:   any.
// Lifetime: not applicable.
#ifndef FLASHRT_DETAIL_STUBS_HPP
#define FLASHRT_DETAIL_STUBS_HPP

#include "declarations.hpp"

extern "C++" {

namespace frt_detail FRT_HIDDEN {

inline int stub_set_input(void*, uint32_t, const void*, uint64_t, int)
{
    return FRT_VERB_UNSUPPORTED;
}
inline int stub_get_output(void*, uint32_t, void*, uint64_t, uint64_t*, int)
{
    return FRT_VERB_UNSUPPORTED;
}
inline int stub_prepare(void*, uint32_t, frt_shape_key)
{
    return FRT_VERB_UNSUPPORTED;
}
inline int stub_step(void*)
{
    return FRT_VERB_UNSUPPORTED;
}
inline const char* stub_last_error(void*)
{
    return "this runtime does not implement the verb that was called";
}

// Absent verbs become stubs, so that every entry can be called.
inline void fill_stubs(frt_model_runtime_verbs* verbs)
{
    verbs->struct_size = sizeof *verbs;
    verbs->reserved = 0;
    verbs->set_input = verbs->set_input != nullptr ? verbs->set_input : stub_set_input;
    verbs->get_output = verbs->get_output != nullptr ? verbs->get_output : stub_get_output;
    verbs->prepare = verbs->prepare != nullptr ? verbs->prepare : stub_prepare;
    verbs->step = verbs->step != nullptr ? verbs->step : stub_step;
    verbs->last_error = verbs->last_error != nullptr ? verbs->last_error : stub_last_error;
}

}  // namespace FRT_HIDDEN
}  // extern "C++"

#endif
