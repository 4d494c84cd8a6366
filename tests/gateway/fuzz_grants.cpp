// Purpose:  fuzz the grant file's check: what passes has rows that a table can hold.
// Owns:     nothing.
// Thread:   one.
// Lifetime: one input.
//
// Target functions: grants_check.
#include <cstring>

#include "aotx/status.h"
#include "service/base/check.h"
#include "service/gateway/access.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size_bytes)
{
    if (aotx::grants_check(data, size_bytes) != AOTX_OK) {
        return 0;
    }
    aotx_request_head head;
    AOTX_CHECK(size_bytes >= sizeof head);
    std::memcpy(&head, data, sizeof head);
    AOTX_CHECK(head.count <= AOTX_GRANT_ROWS_MAX);
    AOTX_CHECK(size_bytes == sizeof head + head.count * sizeof(aotx_grant_row));
    return 0;
}
