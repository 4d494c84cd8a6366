// Purpose:  what a builder collects: descriptor lists, their copied strings, and the check of every
//           single declaration, with the reason of a refusal.
// Owns:     each builder owns its lists and every block in `owned`.
// Thread:   one builder, one thread at a time; the refusal text is per thread.
// Lifetime: from create until destroy, or until the runtime object it turned into is freed.
//
// C++17, no exceptions and no RTTI needed; memory comes from malloc, and its lack is a refusal.
#ifndef FLASHRT_DETAIL_DECLARATIONS_HPP
#define FLASHRT_DETAIL_DECLARATIONS_HPP

#include "../model_runtime.h"

extern "C++" {

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Hidden: two shared objects built from different versions of this code must not share symbols.
// Types stay visible, because a user's own class may hold one.
#define FRT_HIDDEN __attribute__((visibility("hidden")))
#define FRT_VISIBLE __attribute__((visibility("default")))

namespace frt_detail FRT_HIDDEN {

// A struct_size above this is a lie, not a newer version: 8 bytes a field leave room for hundreds.
constexpr uint32_t kStructSizeMax = 4096;
constexpr uint32_t kRoleBits =
    FRT_RT_ROLE_INPUT | FRT_RT_ROLE_OUTPUT | FRT_RT_ROLE_STATE | FRT_RT_ROLE_SCRATCH;
constexpr uint32_t kRegionBits = FRT_RT_REGION_SNAPSHOT | FRT_RT_REGION_RESTORE;
// Longer names could be cut in the fixed-width records of older identity writers.
constexpr size_t kRegionNameBytesMax = 109;
constexpr size_t kPortNameBytesMax = 98;
// Extension IDs below this are assigned by the ABI.
constexpr uint64_t kOwnExtensionIdMin = UINT64_C(1) << 32;

constexpr size_t kRefusalBytes = 320;

inline char* refusal_text()
{
    static thread_local char text[kRefusalBytes] = {};
    return text;
}

// Write the reason and answer -1.
__attribute__((format(printf, 1, 2))) inline int refuse(const char* format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(refusal_text(), kRefusalBytes, format, arguments);
    va_end(arguments);
    return -1;
}

inline int refuse_memory()
{
    return refuse("out of memory");
}

// A growing array of plain rows. The row type holds no resources of its own.
template <typename Row>
struct FRT_VISIBLE List {
    Row* rows = nullptr;
    size_t count = 0;
    size_t capacity = 0;

    bool push(const Row& row)
    {
        if (count == capacity) {
            const size_t wanted = capacity == 0 ? 8 : capacity * 2;
            void* grown = realloc(rows, wanted * sizeof(Row));
            if (grown == nullptr) {
                return false;
            }
            rows = static_cast<Row*>(grown);
            capacity = wanted;
        }
        rows[count] = row;
        count++;
        return true;
    }
    // What the ABI wants for an empty array: NULL.
    const Row* array() const { return count == 0 ? nullptr : rows; }
};

// Text that grows; `failed` stays set once memory ran out.
struct FRT_VISIBLE Text {
    List<char> bytes;
    bool failed = false;

    void add(const char* text, size_t text_bytes)
    {
        for (size_t at = 0; at < text_bytes && !failed; at++) {
            failed = !bytes.push(text[at]);
        }
    }
    void add(const char* text) { add(text, strlen(text)); }
    void add_unsigned(uint64_t value)
    {
        char digits[24];
        snprintf(digits, sizeof digits, "%llu", static_cast<unsigned long long>(value));
        add(digits);
    }
    void add_signed(int64_t value)
    {
        char digits[24];
        snprintf(digits, sizeof digits, "%lld", static_cast<long long>(value));
        add(digits);
    }
};

struct FRT_VISIBLE Extension {
    uint64_t id;
    uint32_t version;
    const void* table;
};

}  // namespace FRT_HIDDEN

struct FRT_VISIBLE frt_runtime_builder_s {
    frt_ctx ctx = nullptr;
    bool metadata = false;
    frt_detail::List<frt_runtime_stream_desc> streams;
    frt_detail::List<frt_runtime_graph_desc> graphs;
    frt_detail::List<frt_runtime_buffer_desc> buffers;
    frt_detail::List<frt_runtime_region_desc> regions;
    frt_detail::List<frt_runtime_port_desc> ports;
    frt_detail::List<frt_runtime_stage_desc> stages;
    frt_detail::List<frt_generic_stage_desc_v1> generic_stages;
    frt_detail::List<frt_detail::Extension> extensions;
    frt_detail::Text pairs;  // the "key=value" lines of the identity
    const char* manifest = nullptr;
    bool plan_started = false;  // a generic stage or its runner was given
    void* stage_self = nullptr;
    int (*run_opaque)(void* stage_self, uint32_t executor_ref) = nullptr;
    frt_detail::List<void*> owned;  // strings and arrays that the rows above point at
};

namespace frt_detail FRT_HIDDEN {

using Builder = frt_runtime_builder_s;

inline Builder* builder_new(frt_ctx ctx, bool metadata)
{
    void* memory = malloc(sizeof(Builder));
    if (memory == nullptr) {
        refuse_memory();
        return nullptr;
    }
    // Every member is plain data whose default is zero, so no constructor needs to run.
    memset(memory, 0, sizeof(Builder));
    Builder* builder = static_cast<Builder*>(memory);
    builder->ctx = ctx;
    builder->metadata = metadata;
    return builder;
}

inline void builder_free(Builder* builder)
{
    if (builder == nullptr) {
        return;
    }
    for (size_t at = 0; at < builder->owned.count; at++) {
        free(builder->owned.rows[at]);
    }
    free(builder->owned.rows);
    free(builder->streams.rows);
    free(builder->graphs.rows);
    free(builder->buffers.rows);
    free(builder->regions.rows);
    free(builder->ports.rows);
    free(builder->stages.rows);
    free(builder->generic_stages.rows);
    free(builder->extensions.rows);
    free(builder->pairs.bytes.rows);
    free(builder);
}

// Copy bytes into a block that the builder owns, a NUL behind them. nullptr: no memory.
inline void* keep(Builder* builder, const void* data, size_t bytes)
{
    char* copy = static_cast<char*>(malloc(bytes + 1));
    if (copy == nullptr) {
        return nullptr;
    }
    if (bytes != 0 && data != nullptr) {
        memcpy(copy, data, bytes);
    }
    copy[bytes] = '\0';
    if (!builder->owned.push(copy)) {
        free(copy);
        return nullptr;
    }
    return copy;
}

inline const char* keep_text(Builder* builder, const char* text)
{
    // Callers have refused NULL; a compiler that inlines them cannot always see it.
    return text == nullptr ? nullptr : static_cast<const char*>(keep(builder, text, strlen(text)));
}

// One array of `count` elements; success with a null array when there are none.
template <typename Element>
inline bool keep_array(Builder* builder, const Element* from, uint64_t count, const Element** to)
{
    *to = nullptr;
    if (count == 0) {
        return true;
    }
    if (count > SIZE_MAX / sizeof(Element) / 2) {
        return false;
    }
    *to = static_cast<const Element*>(
        keep(builder, from, static_cast<size_t>(count) * sizeof(Element)));
    return *to != nullptr;
}

inline bool has_control_byte(const char* text)
{
    for (; *text != '\0'; text++) {
        const unsigned char byte = static_cast<unsigned char>(*text);
        if (byte < 0x20 || byte == 0x7f) {
            return true;
        }
    }
    return false;
}

// Length in bytes of the well-formed UTF-8 character at text, 0 when it is malformed: overlong,
// surrogate, above U+10FFFF or cut. text ends with a NUL, which no continuation matches.
inline size_t utf8_character_bytes(const unsigned char* text)
{
    const unsigned char lead = text[0];
    if (lead < 0x80) {
        return 1;
    }
    size_t bytes = 0;
    unsigned char low = 0x80;
    unsigned char high = 0xbf;
    if (lead >= 0xc2 && lead <= 0xdf) {
        bytes = 2;
    } else if (lead >= 0xe0 && lead <= 0xef) {
        bytes = 3;
        low = lead == 0xe0 ? 0xa0 : 0x80;
        high = lead == 0xed ? 0x9f : 0xbf;
    } else if (lead >= 0xf0 && lead <= 0xf4) {
        bytes = 4;
        low = lead == 0xf0 ? 0x90 : 0x80;
        high = lead == 0xf4 ? 0x8f : 0xbf;
    } else {
        return 0;
    }
    if (text[1] < low || text[1] > high) {
        return 0;
    }
    for (size_t at = 2; at < bytes; at++) {
        if (text[at] < 0x80 || text[at] > 0xbf) {
            return 0;
        }
    }
    return bytes;
}

inline bool is_utf8(const char* text)
{
    const unsigned char* at = reinterpret_cast<const unsigned char*>(text);
    while (*at != 0) {
        const size_t bytes = utf8_character_bytes(at);
        if (bytes == 0) {
            return false;
        }
        at += bytes;
    }
    return true;
}

// The rules that every name shares. `rows` are those already declared of the same kind.
template <typename Row>
inline int check_name(const char* kind, const char* name, size_t bytes_max, const Row* rows,
                      size_t count)
{
    if (name == nullptr) {
        return refuse("%s name is NULL", kind);
    }
    const size_t bytes = strlen(name);
    if (bytes == 0) {
        return refuse("%s name is empty", kind);
    }
    if (bytes > bytes_max) {
        return refuse("%s name holds %zu bytes, at most %zu", kind, bytes, bytes_max);
    }
    if (has_control_byte(name)) {
        return refuse("%s name holds a control character", kind);
    }
    for (size_t at = 0; at < count; at++) {
        if (strcmp(rows[at].name, name) == 0) {
            return refuse("%s name '%.100s' is declared twice", kind, name);
        }
    }
    return 0;
}

// offset + bytes inside a buffer of that handle, when one is declared; undeclared buffers have no
// known size. rows: the declared buffers.
inline int check_window(const char* kind, const char* name, frt_buffer buffer, uint64_t offset,
                        uint64_t bytes, const frt_runtime_buffer_desc* rows, uint64_t count)
{
    if (bytes > UINT64_MAX - offset) {
        return refuse("%s '%.100s': offset + bytes overflows", kind, name);
    }
    for (uint64_t at = 0; buffer != nullptr && at < count; at++) {
        if (rows[at].handle == buffer && offset + bytes > rows[at].bytes) {
            return refuse("%s '%.100s': the window ends at byte %llu of a buffer of %llu", kind,
                          name, static_cast<unsigned long long>(offset + bytes),
                          static_cast<unsigned long long>(rows[at].bytes));
        }
    }
    return 0;
}

inline int check_port_enums(const frt_runtime_port_desc& port)
{
    const struct {
        const char* field;
        uint32_t value;
        uint32_t value_max;
    } fields[] = {
        {"modality", port.modality, FRT_RT_MOD_FORCE},
        {"dtype", port.dtype, FRT_RT_DTYPE_I64},
        {"layout", port.layout, FRT_RT_LAYOUT_NCHW},
        {"direction", port.direction, FRT_RT_PORT_OUT},
        {"update", port.update, FRT_RT_PORT_SETUP},
        {"required", port.required, 1},
    };
    for (const auto& field : fields) {
        if (field.value > field.value_max) {
            return refuse("port '%.100s': %s is %u, at most %u", port.name, field.field,
                          field.value, field.value_max);
        }
    }
    return 0;
}

// Every rule of a port that does not look at other objects, besides its name.
inline int check_port(const frt_runtime_port_desc& port, bool metadata)
{
    if (check_port_enums(port) != 0) {
        return -1;
    }
    if (port.rank > 0 && port.shape == nullptr) {
        return refuse("port '%.100s': rank is %u and shape is NULL", port.name, port.rank);
    }
    for (uint32_t at = 0; at < port.rank; at++) {
        if (port.shape[at] < -1) {
            return refuse("port '%.100s': dimension %u is below -1", port.name, at);
        }
    }
    const bool has_window = port.buffer != nullptr || port.offset != 0 || port.bytes != 0;
    if (metadata && (has_window || port.update == FRT_RT_PORT_SWAP)) {
        return refuse("port '%.100s': a metadata runtime has no windows and no SWAP ports",
                      port.name);
    }
    if (port.update == FRT_RT_PORT_SWAP && (port.buffer == nullptr || port.bytes == 0)) {
        return refuse("port '%.100s': a SWAP port is a window, and this one has none", port.name);
    }
    return 0;
}

// Dependencies of stage `index`: earlier stages; strictly increasing when the plan says so.
inline int check_after(const char* kind, uint64_t index, const uint32_t* after, uint32_t count,
                       bool increasing)
{
    if (count > 0 && after == nullptr) {
        return refuse("%s %llu: %u dependencies and no array", kind,
                      static_cast<unsigned long long>(index), count);
    }
    for (uint32_t at = 0; at < count; at++) {
        if (after[at] >= index) {
            return refuse("%s %llu depends on %u, which is not an earlier stage", kind,
                          static_cast<unsigned long long>(index), after[at]);
        }
        if (increasing && at > 0 && after[at] <= after[at - 1]) {
            return refuse("%s %llu: dependencies are not strictly increasing", kind,
                          static_cast<unsigned long long>(index));
        }
    }
    return 0;
}

// One stage of a generic plan, ours or a foreign one. `earlier` are the stages before it.
inline int check_generic_stage(const frt_generic_stage_desc_v1& stage, uint64_t graphs_count,
                               const frt_generic_stage_desc_v1* earlier, uint64_t index)
{
    if (check_name("generic stage", stage.name, FRT_GENERIC_STAGE_NAME_MAX_BYTES, earlier,
                   static_cast<size_t>(index)) != 0) {
        return -1;
    }
    if (!is_utf8(stage.name)) {
        return refuse("generic stage %llu: the name is not UTF-8",
                      static_cast<unsigned long long>(index));
    }
    if (stage.executor_kind > FRT_GENERIC_STAGE_OPAQUE) {
        return refuse("generic stage '%.100s': executor kind is %u", stage.name,
                      stage.executor_kind);
    }
    if (stage.executor_kind == FRT_GENERIC_STAGE_GRAPH && stage.executor_ref >= graphs_count) {
        return refuse("generic stage '%.100s' names graph %u of %llu", stage.name,
                      stage.executor_ref, static_cast<unsigned long long>(graphs_count));
    }
    return check_after("generic stage", index, stage.after, stage.n_after, true);
}

}  // namespace FRT_HIDDEN
}  // extern "C++"

#endif
