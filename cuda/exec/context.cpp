// Purpose:  contexts, streams, events and buffers of flashrt/exec.h.
// Owns:     see objects.h.
// Thread:   one thread at a time per context.
// Lifetime: see objects.h.
#include <cstring>
#include <new>

#include "objects.h"

namespace aotx::exec {

char* name_copy(const char* name)
{
    const size_t bytes = name == nullptr ? 0 : std::strlen(name);
    char* copy = static_cast<char*>(std::malloc(bytes + 1));
    if (copy != nullptr) {
        std::memcpy(copy, name == nullptr ? "" : name, bytes + 1);
    }
    return copy;
}

namespace {

int stream_add(frt_ctx ctx, void* native, bool owned)
{
    return ctx->streams.push({native, owned}) ? static_cast<int>(ctx->streams.count() - 1)
                                              : FRT_ERR_OOM;
}

frt_ctx context_make(const Backend* backend)
{
    if (backend == nullptr || !backend->available()) {
        return nullptr;
    }
    frt_ctx ctx = new (std::nothrow) frt_ctx_s{backend, {}, nullptr, nullptr, nullptr, nullptr};
    if (ctx == nullptr) {
        return nullptr;
    }
    if (frt_ctx_stream(ctx, 0) != 0) {
        frt_ctx_destroy(ctx);
        return nullptr;
    }
    return ctx;
}

frt_buffer buffer_make(frt_ctx ctx, const char* name, void* memory, size_t bytes, bool owned)
{
    char* copy = name_copy(name);
    frt_buffer buffer = copy == nullptr
                            ? nullptr
                            : new (std::nothrow)
                                  frt_buffer_s{ctx, nullptr, nullptr, copy, memory, bytes, owned};
    if (buffer == nullptr) {
        std::free(copy);
        return nullptr;
    }
    chain_add(&ctx->buffers, buffer);
    return buffer;
}

bool range_fits(frt_buffer buffer, size_t offset, size_t bytes)
{
    return offset <= buffer->bytes && bytes <= buffer->bytes - offset;
}

char* at(frt_buffer buffer, size_t offset)
{
    return static_cast<char*>(buffer->memory) + offset;
}

}  // namespace
}  // namespace aotx::exec

using aotx::exec::Backend;
using aotx::exec::Stream;

extern "C" {

frt_ctx frt_ctx_create(void)
{
    const char* wanted = std::getenv("FLASHRT_EXEC_BACKEND");
    if (wanted != nullptr && wanted[0] != '\0') {
        return frt_ctx_create_on(wanted);
    }
    frt_ctx ctx = aotx::exec::context_make(aotx::exec::cuda_backend());
    return ctx != nullptr ? ctx : aotx::exec::context_make(aotx::exec::cpu_backend());
}

frt_ctx frt_ctx_create_on(const char* backend)
{
    if (backend == nullptr) {
        return nullptr;
    }
    const Backend* known[] = {aotx::exec::cpu_backend(), aotx::exec::cuda_backend()};
    for (const Backend* one : known) {
        if (one != nullptr && std::strcmp(one->name(), backend) == 0) {
            return aotx::exec::context_make(one);
        }
    }
    return nullptr;
}

const char* frt_ctx_backend(frt_ctx ctx)
{
    return ctx == nullptr ? "" : ctx->backend->name();
}

void frt_ctx_destroy(frt_ctx ctx)
{
    if (ctx == nullptr) {
        return;
    }
    for (size_t index = 0; index < ctx->streams.count(); index++) {
        if (ctx->streams[index].owned) {
            ctx->backend->stream_sync(ctx->streams[index].native);
        }
    }
    while (ctx->plans != nullptr) {
        frt_plan_destroy(ctx->plans);
    }
    while (ctx->graphs != nullptr) {
        frt_graph_destroy(ctx->graphs);
    }
    while (ctx->events != nullptr) {
        frt_event_destroy(ctx->events);
    }
    while (ctx->buffers != nullptr) {
        frt_buffer buffer = ctx->buffers;
        aotx::exec::chain_remove(&ctx->buffers, buffer);
        if (buffer->owned) {
            ctx->backend->memory_give(buffer->memory);
        }
        std::free(buffer->name);
        delete buffer;
    }
    for (size_t index = 0; index < ctx->streams.count(); index++) {
        if (ctx->streams[index].owned) {
            ctx->backend->stream_end(ctx->streams[index].native);
        }
    }
    delete ctx;
}

int frt_ctx_stream(frt_ctx ctx, int priority)
{
    if (ctx == nullptr) {
        return FRT_ERR_INVALID;
    }
    void* native = nullptr;
    if (ctx->backend->stream_make(priority, &native) != FRT_OK) {
        return FRT_ERR_BACKEND;
    }
    const int stream_id = aotx::exec::stream_add(ctx, native, true);
    if (stream_id < 0) {
        ctx->backend->stream_end(native);
    }
    return stream_id;
}

int frt_ctx_wrap_stream(frt_ctx ctx, void* native)
{
    return ctx == nullptr ? FRT_ERR_INVALID : aotx::exec::stream_add(ctx, native, false);
}

void* frt_ctx_native_stream(frt_ctx ctx, int stream_id)
{
    const Stream* stream = ctx == nullptr ? nullptr : ctx->stream(stream_id);
    return stream == nullptr ? nullptr : stream->native;
}

int frt_stream_sync(frt_ctx ctx, int stream_id)
{
    const Stream* stream = ctx == nullptr ? nullptr : ctx->stream(stream_id);
    return stream == nullptr ? FRT_ERR_INVALID : ctx->backend->stream_sync(stream->native);
}

frt_event frt_ctx_event(frt_ctx ctx)
{
    void* native = nullptr;
    if (ctx == nullptr || ctx->backend->event_make(&native) != FRT_OK) {
        return nullptr;
    }
    frt_event event = new (std::nothrow) frt_event_s{ctx, nullptr, nullptr, native};
    if (event == nullptr) {
        ctx->backend->event_end(native);
        return nullptr;
    }
    aotx::exec::chain_add(&ctx->events, event);
    return event;
}

void frt_event_destroy(frt_event event)
{
    if (event == nullptr) {
        return;
    }
    aotx::exec::chain_remove(&event->ctx->events, event);
    event->ctx->backend->event_end(event->native);
    delete event;
}

int frt_event_record(frt_event event, int stream_id)
{
    const Stream* stream = event == nullptr ? nullptr : event->ctx->stream(stream_id);
    if (stream == nullptr) {
        return FRT_ERR_INVALID;
    }
    return event->ctx->backend->event_record(event->native, stream->native);
}

int frt_stream_wait(frt_ctx ctx, int stream_id, frt_event event)
{
    const Stream* stream = ctx == nullptr ? nullptr : ctx->stream(stream_id);
    if (stream == nullptr || event == nullptr || event->ctx != ctx) {
        return FRT_ERR_INVALID;
    }
    return ctx->backend->stream_wait(stream->native, event->native);
}

frt_buffer frt_buffer_alloc(frt_ctx ctx, const char* name, size_t bytes)
{
    void* memory = ctx == nullptr || bytes == 0 ? nullptr : ctx->backend->memory_take(bytes);
    if (memory == nullptr) {
        return nullptr;
    }
    frt_buffer buffer = aotx::exec::buffer_make(ctx, name, memory, bytes, true);
    if (buffer == nullptr) {
        ctx->backend->memory_give(memory);
    }
    return buffer;
}

frt_buffer frt_buffer_wrap(frt_ctx ctx, const char* name, void* device_pointer, size_t bytes)
{
    if (ctx == nullptr || device_pointer == nullptr) {
        return nullptr;
    }
    return aotx::exec::buffer_make(ctx, name, device_pointer, bytes, false);
}

void* frt_buffer_dptr(frt_buffer buffer)
{
    return buffer == nullptr ? nullptr : buffer->memory;
}
size_t frt_buffer_bytes(frt_buffer buffer)
{
    return buffer == nullptr ? 0 : buffer->bytes;
}
const char* frt_buffer_name(frt_buffer buffer)
{
    return buffer == nullptr ? "" : buffer->name;
}

int frt_buffer_copy(frt_ctx ctx, frt_buffer destination, size_t destination_offset,
                    frt_buffer source, size_t source_offset, size_t bytes, int stream_id)
{
    const Stream* stream = ctx == nullptr ? nullptr : ctx->stream(stream_id);
    if (stream == nullptr || destination == nullptr || source == nullptr ||
        !aotx::exec::range_fits(destination, destination_offset, bytes) ||
        !aotx::exec::range_fits(source, source_offset, bytes)) {
        return FRT_ERR_INVALID;
    }
    return ctx->backend->copy(aotx::exec::at(destination, destination_offset),
                              aotx::exec::at(source, source_offset), bytes, stream->native);
}

int frt_buffer_write(frt_ctx ctx, frt_buffer destination, size_t offset, const void* host,
                     size_t bytes, int stream_id)
{
    const Stream* stream = ctx == nullptr ? nullptr : ctx->stream(stream_id);
    if (stream == nullptr || destination == nullptr || host == nullptr ||
        !aotx::exec::range_fits(destination, offset, bytes)) {
        return FRT_ERR_INVALID;
    }
    return ctx->backend->write(aotx::exec::at(destination, offset), host, bytes, stream->native);
}

int frt_buffer_read(frt_ctx ctx, frt_buffer source, size_t offset, void* host, size_t bytes,
                    int stream_id)
{
    const Stream* stream = ctx == nullptr ? nullptr : ctx->stream(stream_id);
    if (stream == nullptr || source == nullptr || host == nullptr ||
        !aotx::exec::range_fits(source, offset, bytes)) {
        return FRT_ERR_INVALID;
    }
    return ctx->backend->read(host, aotx::exec::at(source, offset), bytes, stream->native);
}

}  // extern "C"
