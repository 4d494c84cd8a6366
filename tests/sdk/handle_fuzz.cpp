// Purpose:  handle parsers: whatever parses is written back as the very same text, so that one
//           identity has one name; what does not parse touches nothing.
// Owns:     nothing. Thread: main. Lifetime: one run.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "aotx/handle.h"

namespace {

void require(bool condition)
{
    if (!condition) {
        std::abort();
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size_bytes)
{
    const char* const text = reinterpret_cast<const char*>(data);
    uint64_t epoch = 1;
    uint64_t cursor = 2;
    uint8_t id[16] = {3};
    char again[AOTX_EVENT_HANDLE_CHARACTERS_MAX + 8];
    if (aotx_request_handle_parse(text, size_bytes, &epoch, id) == AOTX_OK) {
        aotx_request_handle_format(epoch, id, again);
        require(std::memcmp(again, text, size_bytes) == 0);
    } else {
        require(epoch == 1 && id[0] == 3);
    }
    epoch = 1;
    if (aotx_event_handle_parse(text, size_bytes, &epoch, id, &cursor) == AOTX_OK) {
        aotx_request_handle_format(epoch, id, again);
        const std::string tail = ":" + std::to_string(cursor);
        require(size_bytes == AOTX_REQUEST_HANDLE_CHARACTERS + tail.size());
        require(std::memcmp(again, text, AOTX_REQUEST_HANDLE_CHARACTERS) == 0);
        require(std::memcmp(tail.data(), text + AOTX_REQUEST_HANDLE_CHARACTERS, tail.size()) == 0);
    } else {
        require(epoch == 1 && cursor == 2);
    }
    if (aotx_media_handle_parse(text, size_bytes, id) == AOTX_OK) {
        aotx_media_handle_format(id, again);
        require(std::memcmp(again, text, size_bytes) == 0);
    }
    return 0;
}
