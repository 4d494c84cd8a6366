// Purpose:  who a caller is and what its grant says: tokens, the grant file, Host and Origin.
// Owns:     the principals of one gateway, with the grant rows that the file gave them.
// Thread:   the gateway's.
// Lifetime: as long as the gateway; principals never move.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "aotx/packet.h"
#include "service/base/digest.h"
#include "service/config/config.h"

namespace aotx {

constexpr size_t kTokenCharactersMin = 32;
constexpr size_t kTokenCharactersMax = 256;

struct Principal {
    std::string name;
    uint8_t id[AOTX_ID_BYTES] = {};
    // From the grant file; all zero while it has no row for this principal. The device decides: the
    // gateway uses them for a default, and for what it answers itself.
    uint32_t actions = 0;
    uint32_t model_mask = 0;
    uint32_t output_tokens_max = 0;
};

class Access {
public:
    // Take over the principals and their token hashes. Called once.
    void open(const Config& config) noexcept;

    // Read the grant file again. AOTX_OK: revision() and the principals' rows are those of the
    // file. Anything else as file_read_private or a malformed table: what was there stays.
    [[nodiscard]] int grants_load() noexcept;
    uint64_t revision() const noexcept { return revision_; }

    // The principal of an Authorization value, nullptr when there is none. Every configured hash is
    // compared whatever matches, so that the time tells nothing.
    [[nodiscard]] Principal* authenticate(std::string_view authorization) noexcept;

    // Some principal to ask the device as, for what belongs to nobody; nullptr without any.
    [[nodiscard]] Principal* any() noexcept;

private:
    struct TokenHash {
        uint8_t bytes[kSha256Bytes];
        uint32_t principal;
    };

    std::string grants_path_;
    std::vector<Principal> principals_;
    std::vector<TokenHash> hashes_;
    uint64_t revision_ = 0;
};

// Check a whole grant frame as it lies on disk: shape, one revision, no repeated principal.
// AOTX_OK, AOTX_ERR_LENGTH, AOTX_ERR_MAGIC, AOTX_ERR_NONZERO or AOTX_ERR_RANGE.
[[nodiscard]] int grants_check(const void* bytes, size_t bytes_count) noexcept;

// Which names a listener answers for.
struct HostRule {
    bool loopback = true;            // localhost, 127.0.0.1 and [::1] as well
    std::vector<std::string> names;  // exact, without a port; none on another listener: any name
};

// Split "name:port", "[v6]:port" or a bare name. False: no such form.
[[nodiscard]] bool host_split(std::string_view host, std::string_view* name) noexcept;

// Whether the value of a Host header names this listener. The port is not compared: a name is what
// a rebinding attack has to bring, and a forwarded port is legitimate.
[[nodiscard]] bool host_permitted(const HostRule& rule, std::string_view host) noexcept;

// Whether the value of an Origin header is this service itself under a name of the rule.
[[nodiscard]] bool origin_permitted(const HostRule& rule, std::string_view origin) noexcept;

}  // namespace aotx
