// Purpose:  fuzz the chunk decoder: however the input and the output are cut, the same body and the
// same end come out.
// Owns:     nothing.
// Thread:   one.
// Lifetime: one input.
//
// Target functions: chunk_decode.
#include <algorithm>
#include <string>

#include "service/base/check.h"
#include "service/gateway/http_chunk.h"

namespace {

struct Decoded {
    int result = AOTX_ERR_NEED_MORE;
    std::string body;
    size_t consumed = 0;
};

Decoded decode(const char* bytes, size_t count, size_t piece, size_t room)
{
    Decoded decoded;
    aotx::ChunkState state;
    std::string out(room, '\0');
    while (decoded.consumed < count &&
           (decoded.result == AOTX_ERR_NEED_MORE || decoded.result == AOTX_ERR_FULL)) {
        const size_t take = std::min(piece, count - decoded.consumed);
        const std::string copy(bytes + decoded.consumed, take);
        size_t consumed = 0;
        size_t produced = 0;
        decoded.result = aotx::chunk_decode(&state, copy.data(), copy.size(), out.data(),
                                            out.size(), &consumed, &produced);
        AOTX_CHECK(consumed <= take);
        AOTX_CHECK(produced <= room);
        AOTX_CHECK(decoded.result != AOTX_ERR_NEED_MORE || consumed == take);
        decoded.body.append(out, 0, produced);
        decoded.consumed += consumed;
    }
    return decoded;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size_bytes)
{
    if (size_bytes < 3) {
        return 0;
    }
    const char* const bytes = reinterpret_cast<const char*>(data) + 2;
    const size_t count = size_bytes - 2;
    const Decoded whole = decode(bytes, count, count, count + 1);
    const Decoded cut = decode(bytes, count, data[0] % 64u + 1u, data[1] % 64u + 1u);
    // A body that goes on may have filled the last portion exactly.
    const bool goes_on = whole.result == AOTX_ERR_NEED_MORE && cut.result == AOTX_ERR_FULL;
    AOTX_CHECK(whole.result == cut.result || goes_on);
    AOTX_CHECK(whole.body == cut.body);
    AOTX_CHECK(whole.consumed == cut.consumed);
    return 0;
}
