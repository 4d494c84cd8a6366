// Purpose:  fuzz the head parser: a head that arrives in two parts is judged as one that arrives
// whole, and what is accepted keeps the promises that smuggling would need broken.
// Owns:     nothing.
// Thread:   one.
// Lifetime: one input.
//
// Target functions: http_head_parse, target_find, query_read, host_permitted, origin_permitted.
#include <cstdlib>
#include <cstring>
#include <string>

#include "service/base/check.h"
#include "service/gateway/access.h"
#include "service/gateway/http_head.h"
#include "service/gateway/target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size_bytes)
{
    if (size_bytes < 2) {
        return 0;
    }
    const char* const bytes = reinterpret_cast<const char*>(data) + 2;
    const size_t count = size_bytes - 2;
    const size_t cut = (data[0] * 256u + data[1]) % (count + 1);
    aotx::HttpScan whole_scan;
    aotx::HttpScan part_scan;
    aotx::HttpHead whole;
    aotx::HttpHead part;
    aotx::HttpFault whole_fault = aotx::HttpFault::None;
    aotx::HttpFault part_fault = aotx::HttpFault::None;
    const int want = aotx::http_head_parse(bytes, count, &whole_scan, &whole, &whole_fault);
    int got = aotx::http_head_parse(bytes, cut, &part_scan, &part, &part_fault);
    if (got == AOTX_ERR_NEED_MORE) {
        got = aotx::http_head_parse(bytes, count, &part_scan, &part, &part_fault);
    }
    AOTX_CHECK(got == want);
    AOTX_CHECK(whole_fault == part_fault);
    if (want != AOTX_OK) {
        return 0;
    }
    AOTX_CHECK(whole.head_bytes == part.head_bytes);
    AOTX_CHECK(whole.head_bytes <= count);
    AOTX_CHECK(std::memcmp(bytes + whole.head_bytes - 4, "\r\n\r\n", 4) == 0);
    AOTX_CHECK(!(whole.chunked && whole.has_length));
    AOTX_CHECK(whole.path.front() == '/');
    AOTX_CHECK(whole.host.data() != nullptr);
    const std::string head(bytes, whole.head_bytes);
    AOTX_CHECK(head.find('\0') == std::string::npos);
    const aotx::Target target = aotx::target_find(whole.method, whole.path);
    bool has_cursor = false;
    uint64_t cursor = 0;
    static_cast<void>(aotx::query_read(target.route, whole, &has_cursor, &cursor));
    aotx::HostRule rule;
    if (aotx::host_permitted(rule, whole.host)) {
        AOTX_CHECK(whole.host.find("evil") == std::string_view::npos);
    }
    static_cast<void>(aotx::origin_permitted(rule, whole.origin));
    return 0;
}
