// Purpose:  the builder as a shared object, for C and for languages that call C.
// Owns:     nothing.
// Thread:   see flashrt/builder.hpp.
// Lifetime: see flashrt/builder.hpp.
#define FRT_BUILDER_SHARED_LIBRARY
#include "flashrt/builder.hpp"
