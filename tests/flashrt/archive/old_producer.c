/* Purpose:  a producer built against the archived layout alone: its struct ends at 128 bytes, and
 *           right behind it lies memory that nobody may read.
 * Owns:     one page pair per runtime.
 * Thread:   one.
 * Lifetime: until the last release. */
#include "model_runtime_2026.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct Old {
    old_export exp;
    old_port port;
    int references;
    float x;
    int64_t shape[1];
} Old;

static int set_input(void* self, uint32_t port, const void* data, uint64_t bytes, int stream)
{
    (void)stream;
    if (port != 0 || bytes != sizeof(float) || data == NULL) {
        return -1;
    }
    memcpy(&((Old*)self)->x, data, sizeof(float));
    return 0;
}

static int step(void* self)
{
    ((Old*)self)->x *= 2.0f;
    return 0;
}

static int get_output(void* self, uint32_t port, void* out, uint64_t capacity, uint64_t* written,
                      int stream)
{
    (void)port;
    (void)stream;
    *written = sizeof(float);
    if (capacity < sizeof(float)) {
        return -5;
    }
    memcpy(out, &((Old*)self)->x, sizeof(float));
    return 0;
}

static const char* last_error(void* self)
{
    (void)self;
    return "";
}

static void retain(void* owner)
{
    ((Old*)owner)->references++;
}

static void release(void* owner)
{
    Old* old = (Old*)owner;
    old->references--;
    if (old->references == 0) {
        munmap(old, 2 * (size_t)sysconf(_SC_PAGESIZE));
    }
}

__attribute__((visibility("default"))) int frt_model_runtime_open_v1(const char* config_json,
                                                                     old_runtime** out);

__attribute__((visibility("default"))) int frt_model_runtime_open_v1(const char* config_json,
                                                                     old_runtime** out)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    (void)config_json;
    *out = NULL;
    char* pages =
        (char*)mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED || mprotect(pages + page, page, PROT_NONE) != 0) {
        return -6;
    }
    Old* old = (Old*)pages;
    old_runtime* runtime = (old_runtime*)(pages + page - sizeof(old_runtime));
    old->references = 1;
    old->shape[0] = 1;
    old->exp.abi_version = 1;
    old->exp.struct_size = sizeof(old_export);
    old->exp.identity = "frt-runtime-identity-v1\n";
    old->exp.owner = old;
    old->exp.retain = retain;
    old->exp.release = release;
    old->port.name = "x";
    old->port.dtype = 1;
    old->port.update = 1;
    old->port.shape = old->shape;
    old->port.rank = 1;
    runtime->abi_version = 1;
    runtime->struct_size = sizeof(old_runtime);
    runtime->exp = &old->exp;
    runtime->ports = &old->port;
    runtime->n_ports = 1;
    runtime->self = old;
    runtime->verbs.struct_size = sizeof(old_verbs);
    runtime->verbs.set_input = set_input;
    runtime->verbs.get_output = get_output;
    runtime->verbs.step = step;
    runtime->verbs.last_error = last_error;
    runtime->owner = old;
    runtime->retain = retain;
    runtime->release = release;
    *out = runtime;
    return 0;
}
