/* Purpose:  the model runtime layout as it was before its first tail, frozen for compatibility
 *           tests. Never edit: whoever built against it once must keep working.
 * Owns:     nothing.
 * Thread:   not applicable.
 * Lifetime: not applicable. */
#ifndef FLASHRT_ARCHIVED_MODEL_RUNTIME_H
#define FLASHRT_ARCHIVED_MODEL_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

typedef struct old_export {
    uint32_t abi_version;
    uint32_t struct_size;
    void* ctx;
    const void* streams;
    uint64_t n_streams;
    const void* graphs;
    uint64_t n_graphs;
    const void* buffers;
    uint64_t n_buffers;
    const void* capsule_regions;
    uint64_t n_capsule_regions;
    uint64_t fingerprint;
    const char* identity;
    const char* manifest_json;
    void* owner;
    void (*retain)(void* owner);
    void (*release)(void* owner);
} old_export;

typedef struct old_port {
    const char* name;
    uint32_t modality;
    uint32_t dtype;
    uint32_t layout;
    uint32_t direction;
    uint32_t update;
    uint32_t required;
    const int64_t* shape;
    uint32_t rank;
    uint32_t cadence_hint_hz;
    void* buffer;
    uint64_t offset;
    uint64_t bytes;
} old_port;

typedef struct old_verbs {
    uint32_t struct_size;
    uint32_t reserved;
    int (*set_input)(void* self, uint32_t port, const void* data, uint64_t bytes, int stream);
    int (*get_output)(void* self, uint32_t port, void* out, uint64_t capacity, uint64_t* written,
                      int stream);
    int (*prepare)(void* self, uint32_t graph, uint64_t key);
    int (*step)(void* self);
    const char* (*last_error)(void* self);
} old_verbs;

typedef struct old_runtime {
    uint32_t abi_version;
    uint32_t struct_size;
    const old_export* exp;
    const old_port* ports;
    uint64_t n_ports;
    const void* stages;
    uint64_t n_stages;
    void* self;
    old_verbs verbs;
    void* owner;
    void (*retain)(void* owner);
    void (*release)(void* owner);
} old_runtime;

typedef int (*old_open)(const char* config_json, old_runtime** out);

#endif
