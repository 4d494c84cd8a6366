/* Purpose:  a whole host in plain C11: load a producer, feed every input it can make up, tick once,
 *           print what comes out. It needs the headers and nothing else.
 * Owns:     the library and one reference to the runtime during main.
 * Thread:   main.
 * Lifetime: the process. Exit 0: everything ran; 1: the producer is refused or fails; 2: usage.
 * Build:    cc -std=c11 -I INCLUDE host.c -ldl -o host && ./host ./libmine.so '{}' */
#include <dlfcn.h>
#include <flashrt/model_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE_BYTES_MAX = 4096, PAYLOAD_BYTES_MAX = 1 << 24 };

static int fail(const char* what)
{
    fprintf(stderr, "host: %s\n", what);
    return 1;
}

/* A size that some version may have: not too small, not absurd, not ending inside a field. */
static int is_size(uint32_t size, uint32_t needed)
{
    return size >= needed && size <= SIZE_BYTES_MAX && size % 8 == 0;
}

/* Everything that must hold before a field behind the gate is believed. NULL: it does. */
static const char* gate(const frt_model_runtime_v1* runtime)
{
    if (runtime == NULL || runtime->abi_version != FRT_MODEL_RUNTIME_ABI_VERSION ||
        !is_size(runtime->struct_size, FRT_MODEL_RUNTIME_V1_BASE_SIZE)) {
        return "the runtime is of another version or size";
    }
    if (runtime->exp == NULL || runtime->retain == NULL || runtime->release == NULL ||
        !is_size(runtime->verbs.struct_size, sizeof(frt_model_runtime_verbs))) {
        return "exp, retain, release or the verbs are not there";
    }
    if (runtime->exp->abi_version != FRT_RUNTIME_ABI_VERSION ||
        !is_size(runtime->exp->struct_size, sizeof(frt_runtime_export_v1)) ||
        runtime->exp->identity == NULL) {
        return "the export is of another version or size, or has no identity";
    }
    if ((runtime->n_ports > 0 && runtime->ports == NULL) ||
        (runtime->n_stages > 0 && runtime->stages == NULL)) {
        return "there is a count and no array";
    }
    return NULL;
}

/* The generic plan, or NULL. The tail is looked at only where the size says that it is there. */
static const frt_generic_stage_plan_ext_v1* plan_of(const frt_model_runtime_v1* runtime)
{
    const void* table = NULL;
    if (runtime->struct_size < FRT_MODEL_RUNTIME_V1_QUERY_EXTENSION_SIZE ||
        runtime->query_extension == NULL ||
        runtime->query_extension(runtime, FRT_EXT_GENERIC_STAGE_PLAN_V1,
                                 FRT_GENERIC_STAGE_PLAN_ABI_VERSION, &table) != FRT_VERB_OK) {
        return NULL;
    }
    return (const frt_generic_stage_plan_ext_v1*)table;
}

/* Whether stages name the graphs of a runtime that holds some: a host that is shown resources and
 * not told what to run over them can neither order nor snapshot that work. */
static int runs_what_it_holds(const frt_model_runtime_v1* runtime)
{
    const frt_generic_stage_plan_ext_v1* plan = plan_of(runtime);
    int named = runtime->exp->ctx == NULL || runtime->n_stages > 0;
    for (uint64_t at = 0; plan != NULL && at < plan->n_stages; at++) {
        named = named || plan->stages[at].executor_kind == FRT_GENERIC_STAGE_GRAPH;
    }
    return named;
}

/* Bytes that a port takes: its fixed shape, or one element of a dimension that varies. */
static uint64_t payload_bytes(const frt_runtime_port_desc* port)
{
    static const uint64_t each[] = {1, 4, 2, 2, 4, 8};
    uint64_t bytes = port->dtype <= FRT_RT_DTYPE_I64 ? each[port->dtype] : 0;
    for (uint32_t at = 0; at < port->rank && bytes <= PAYLOAD_BYTES_MAX; at++) {
        bytes *= port->shape[at] < 0 ? 1u : (uint64_t)port->shape[at];
    }
    return bytes <= PAYLOAD_BYTES_MAX ? bytes : 0;
}

/* Zeros, or a word of text, into every STAGED input; pictures are left to hosts that have some. */
static int feed(const frt_model_runtime_v1* runtime)
{
    static unsigned char zeros[PAYLOAD_BYTES_MAX];
    for (uint32_t at = 0; at < runtime->n_ports; at++) {
        const frt_runtime_port_desc* port = &runtime->ports[at];
        const int is_text = port->modality == FRT_RT_MOD_TEXT;
        const void* data = is_text ? (const void*)"hello" : (const void*)zeros;
        const uint64_t bytes = is_text ? 5 : payload_bytes(port);
        if (port->direction != FRT_RT_PORT_IN || port->update != FRT_RT_PORT_STAGED ||
            port->modality == FRT_RT_MOD_IMAGE || port->modality == FRT_RT_MOD_DEPTH) {
            continue;
        }
        if (runtime->verbs.set_input == NULL ||
            runtime->verbs.set_input(runtime->self, at, data, bytes, -1) != FRT_VERB_OK) {
            return fail(port->name);
        }
    }
    return 0;
}

/* One tick by whatever runs this model. Stages over graphs need the execution layer, which this
 * host does not link, so it asks the producer to fire them. */
static int tick(const frt_model_runtime_v1* runtime)
{
    const frt_generic_stage_plan_ext_v1* plan = plan_of(runtime);
    if (plan == NULL) {
        return runtime->verbs.step != NULL ? runtime->verbs.step(runtime->self) : 1;
    }
    int code = FRT_VERB_OK;
    for (uint64_t at = 0; at < plan->n_stages && code == FRT_VERB_OK; at++) {
        const frt_generic_stage_desc_v1* stage = &plan->stages[at];
        code = stage->executor_kind == FRT_GENERIC_STAGE_OPAQUE
                   ? plan->run_opaque(plan->stage_self, stage->executor_ref)
                   : 1;
    }
    return code;
}

/* The size first, then the bytes. */
static int read_outputs(const frt_model_runtime_v1* runtime)
{
    for (uint32_t at = 0; at < runtime->n_ports; at++) {
        const frt_runtime_port_desc* port = &runtime->ports[at];
        uint64_t need = 0;
        char none = 0;
        if (port->direction != FRT_RT_PORT_OUT || port->update != FRT_RT_PORT_STAGED ||
            runtime->verbs.get_output == NULL) {
            continue;
        }
        const int code = runtime->verbs.get_output(runtime->self, at, &none, 0, &need, -1);
        void* bytes = need > 0 && need <= PAYLOAD_BYTES_MAX ? malloc(need) : NULL;
        if ((code != FRT_VERB_STORAGE && code != FRT_VERB_OK) ||
            (bytes != NULL &&
             runtime->verbs.get_output(runtime->self, at, bytes, need, &need, -1) != 0)) {
            free(bytes);
            return fail(port->name);
        }
        printf("%s: %llu bytes\n", port->name, (unsigned long long)need);
        free(bytes);
    }
    return 0;
}

static int use(frt_model_runtime_v1* runtime)
{
    const char* refusal = gate(runtime);
    if (refusal != NULL) {
        return fail(refusal); /* not even its release can be believed */
    }
    int code =
        runs_what_it_holds(runtime) ? feed(runtime) : fail("a context whose graphs no stage names");
    if (code == 0 && tick(runtime) != FRT_VERB_OK) {
        code = fail(runtime->verbs.last_error != NULL ? runtime->verbs.last_error(runtime->self)
                                                      : "a tick fails");
    }
    code = code == 0 ? read_outputs(runtime) : code;
    runtime->release(runtime->owner); /* its own owner, never the struct */
    return code;
}

int main(int argc, char** argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: host LIBRARY CONFIGURATION\n");
        return 2;
    }
    void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        return fail(dlerror());
    }
    frt_model_runtime_open_v1_fn open_runtime = NULL;
    void* symbol = dlsym(library, FRT_MODEL_RUNTIME_OPEN_V1_SYMBOL);
    memcpy(&open_runtime, &symbol, sizeof symbol);
    frt_model_runtime_v1* runtime = NULL;
    if (open_runtime == NULL || open_runtime(argv[2], &runtime) != FRT_VERB_OK) {
        return fail("the producer refuses");
    }
    const int code = use(runtime);
    dlclose(library); /* last, when nothing of the producer is left */
    return code;
}
