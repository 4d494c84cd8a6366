/* Purpose:  the smallest producer, in C from the public headers: y = gain * x, four values each.
 * Owns:     a Scale per runtime, freed by the last release.
 * Thread:   verbs from one driver thread at a time; release from any.
 * Lifetime: from frt_model_runtime_open_v1 until the last reference goes.
 *
 * Configuration: {"gain": number}. It has no graphs, so it is a metadata runtime whose authority is
 * step alone. Link libflashrt_runtime.so for the builder. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flashrt/model_runtime.h"

#define VALUES 4

typedef struct Scale {
    float gain;
    float x[VALUES];
    float y[VALUES];
    const char* error; /* static texts, so that no failure allocates */
} Scale;

static int fail(Scale* scale, int code, const char* text)
{
    scale->error = text;
    return code;
}

static int set_input(void* self, uint32_t port, const void* data, uint64_t bytes, int stream)
{
    Scale* scale = (Scale*)self;
    if (port != 0 || stream != -1 || data == NULL) {
        return fail(scale, FRT_VERB_INVALID, "only port 0 on stream -1 takes input");
    }
    if (bytes != sizeof scale->x) {
        return fail(scale, FRT_VERB_SHAPE, "x is four f32 values");
    }
    memcpy(scale->x, data, sizeof scale->x);
    return fail(scale, FRT_VERB_OK, "");
}

static int get_output(void* self, uint32_t port, void* out, uint64_t capacity, uint64_t* written,
                      int stream)
{
    Scale* scale = (Scale*)self;
    if (port != 1 || stream != -1 || out == NULL || written == NULL) {
        return fail(scale, FRT_VERB_INVALID, "only port 1 on stream -1 has output");
    }
    *written = sizeof scale->y;
    if (capacity < sizeof scale->y) {
        return fail(scale, FRT_VERB_STORAGE, "y needs 16 bytes");
    }
    memcpy(out, scale->y, sizeof scale->y);
    return fail(scale, FRT_VERB_OK, "");
}

static int step(void* self)
{
    Scale* scale = (Scale*)self;
    for (int i = 0; i < VALUES; i++) {
        scale->y[i] = scale->gain * scale->x[i];
    }
    return fail(scale, FRT_VERB_OK, "");
}

static const char* last_error(void* self)
{
    return ((Scale*)self)->error;
}

/* Declarations in, runtime out; NULL when any of them is refused. */
static frt_model_runtime_v1* declare(frt_runtime_builder builder, Scale* scale)
{
    static const int64_t shape[] = {VALUES};
    static const frt_model_runtime_verbs verbs = {
        sizeof(frt_model_runtime_verbs), 0, set_input, get_output, NULL, step, last_error};
    char gain[32];
    snprintf(gain, sizeof gain, "%.9g", (double)scale->gain);
    if (frt_runtime_builder_add_identity(builder, "model", "scale") != 0 ||
        frt_runtime_builder_add_identity(builder, "gain", gain) != 0 ||
        frt_runtime_builder_add_port(builder, "x", FRT_RT_MOD_TENSOR, FRT_RT_DTYPE_F32,
                                     FRT_RT_LAYOUT_FLAT, FRT_RT_PORT_IN, FRT_RT_PORT_STAGED, 1,
                                     shape, 1, 0, NULL, 0, 0) != 0 ||
        frt_runtime_builder_add_port(builder, "y", FRT_RT_MOD_TENSOR, FRT_RT_DTYPE_F32,
                                     FRT_RT_LAYOUT_FLAT, FRT_RT_PORT_OUT, FRT_RT_PORT_STAGED, 0,
                                     shape, 1, 0, NULL, 0, 0) != 0) {
        return NULL;
    }
    return frt_runtime_builder_finish_model(builder, &verbs, scale, scale, NULL, free);
}

__attribute__((visibility("default"))) int frt_model_runtime_open_v1(const char* config_json,
                                                                     frt_model_runtime_v1** out)
{
    float gain = 0;
    char behind = 0;
    if (out == NULL) {
        return FRT_VERB_INVALID;
    }
    *out = NULL;
    if (config_json == NULL || sscanf(config_json, " { \"gain\" : %f } %c", &gain, &behind) != 1) {
        return FRT_VERB_INVALID;
    }
    Scale* scale = (Scale*)calloc(1, sizeof(Scale));
    frt_runtime_builder builder = frt_model_runtime_builder_create_metadata();
    if (scale != NULL && builder != NULL) {
        scale->gain = gain;
        scale->error = "";
        *out = declare(builder, scale);
    }
    if (*out == NULL) {
        frt_runtime_builder_destroy(builder);
        free(scale);
        return FRT_VERB_BACKEND;
    }
    return FRT_VERB_OK;
}
