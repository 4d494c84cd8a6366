// Purpose:  the canonical identity string and its hash, byte for byte as consumers compare them.
// Owns:     nothing.
// Thread:   any; one builder, one thread at a time.
// Lifetime: the text belongs to the caller.
#ifndef FLASHRT_DETAIL_IDENTITY_HPP
#define FLASHRT_DETAIL_IDENTITY_HPP

#include "declarations.hpp"

extern "C++" {

namespace frt_detail FRT_HIDDEN {

inline uint64_t fnv1a_64(const void* data, size_t bytes)
{
    const unsigned char* at = static_cast<const unsigned char*>(data);
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t index = 0; index < bytes; index++) {
        hash ^= at[index];
        hash *= UINT64_C(0x100000001b3);
    }
    return hash;
}

// ":<value>", the shape of most fields.
inline void add_field(Text* text, uint64_t value)
{
    text->add(":");
    text->add_unsigned(value);
}

// First buffer of that handle, -1 when the port has none or it was not declared.
inline int64_t buffer_index(const Builder& builder, frt_buffer handle)
{
    for (size_t at = 0; handle != nullptr && at < builder.buffers.count; at++) {
        if (builder.buffers.rows[at].handle == handle) {
            return static_cast<int64_t>(at);
        }
    }
    return -1;
}

inline void add_graph_records(const Builder& builder, Text* text)
{
    for (size_t at = 0; at < builder.graphs.count; at++) {
        text->add("graph:");
        text->add(builder.graphs.rows[at].name);
        text->add(":");
        text->add_signed(builder.graphs.rows[at].stream_id);
        text->add("\n");
    }
}

inline void add_region_records(const Builder& builder, Text* text)
{
    for (size_t at = 0; at < builder.regions.count; at++) {
        const frt_runtime_region_desc& region = builder.regions.rows[at];
        text->add("region");
        add_field(text, at);
        text->add(":");
        text->add(region.name);
        add_field(text, region.offset);
        add_field(text, region.bytes);
        add_field(text, region.flags);
        text->add("\n");
    }
}

inline void add_port_records(const Builder& builder, Text* text)
{
    for (size_t at = 0; at < builder.ports.count; at++) {
        const frt_runtime_port_desc& port = builder.ports.rows[at];
        text->add("port");
        add_field(text, at);
        text->add(":");
        text->add(port.name);
        add_field(text, port.modality);
        add_field(text, port.dtype);
        add_field(text, port.layout);
        add_field(text, port.direction);
        add_field(text, port.update);
        add_field(text, port.required);
        text->add(":");
        for (uint32_t dimension = 0; dimension < port.rank; dimension++) {
            text->add(dimension == 0 ? "" : ",");
            text->add_signed(port.shape[dimension]);
        }
        text->add(":");
        text->add_signed(buffer_index(builder, port.buffer));
        add_field(text, port.offset);
        add_field(text, port.bytes);
        text->add("\n");
    }
}

inline void add_after(Text* text, const uint32_t* after, uint32_t count)
{
    text->add(":");
    for (uint32_t at = 0; at < count; at++) {
        text->add(at == 0 ? "" : ",");
        text->add_unsigned(after[at]);
    }
    text->add("\n");
}

inline void add_stage_records(const Builder& builder, Text* text)
{
    for (size_t at = 0; at < builder.stages.count; at++) {
        const frt_runtime_stage_desc& stage = builder.stages.rows[at];
        text->add("stage");
        add_field(text, at);
        add_field(text, stage.graph);
        add_after(text, stage.after, stage.n_after);
    }
    for (size_t at = 0; at < builder.generic_stages.count; at++) {
        const frt_generic_stage_desc_v1& stage = builder.generic_stages.rows[at];
        text->add("gstage-v1");
        add_field(text, at);
        add_field(text, strlen(stage.name));
        text->add(":");
        text->add(stage.name);
        add_field(text, stage.executor_kind);
        add_field(text, stage.executor_ref);
        add_field(text, stage.n_after);
        add_after(text, stage.after, stage.n_after);
    }
}

// The whole string; malloc'd, NUL behind. nullptr: no memory. *bytes excludes the NUL.
inline char* identity_text(const Builder& builder, size_t* bytes)
{
    Text text;
    text.add("frt-runtime-identity-v1\n");
    text.add(builder.pairs.bytes.rows, builder.pairs.bytes.count);
    add_graph_records(builder, &text);
    add_region_records(builder, &text);
    add_port_records(builder, &text);
    add_stage_records(builder, &text);
    text.add("", 1);
    if (text.failed) {
        free(text.bytes.rows);
        return nullptr;
    }
    *bytes = text.bytes.count - 1;
    return text.bytes.rows;
}

}  // namespace FRT_HIDDEN
}  // extern "C++"

#endif
