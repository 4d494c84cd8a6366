// Purpose:  fuzz the UTF-8 decoder: the text does not depend on the cut, is valid, and valid input
// passes unchanged.
// Owns:     nothing.
// Thread:   one.
// Lifetime: one input.
//
// Target functions: utf8_step, utf8_end, Text::append_json.
#include <simdjson.h>

#include <string>

#include "service/base/check.h"
#include "service/gateway/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size_bytes)
{
    if (size_bytes < 1) {
        return 0;
    }
    const uint8_t* const bytes = data + 1;
    const size_t count = size_bytes - 1;
    const size_t cut = data[0] % (count + 1);
    aotx::Utf8State whole_state;
    aotx::Utf8State part_state;
    aotx::Text whole;
    aotx::Text part;
    aotx::utf8_step(&whole_state, bytes, count, &whole);
    aotx::utf8_end(&whole_state, &whole);
    aotx::utf8_step(&part_state, bytes, cut, &part);
    aotx::utf8_step(&part_state, bytes + cut, count - cut, &part);
    aotx::utf8_end(&part_state, &part);
    AOTX_CHECK(whole.view() == part.view());
    AOTX_CHECK(simdjson::validate_utf8(whole.data(), whole.size()));
    const char* const text = reinterpret_cast<const char*>(bytes);
    if (simdjson::validate_utf8(text, count)) {
        AOTX_CHECK(whole.view() == std::string_view(text, count));
    }
    aotx::Text json;
    json.append_json_string(whole.view());
    for (const char byte : json.view()) {
        AOTX_CHECK(static_cast<unsigned char>(byte) >= 0x20);
    }
    return 0;
}
