// Purpose:  who a caller is and what its grant says; see access.h.
// Owns:     nothing of its own.
// Thread:   the gateway's.
// Lifetime: not applicable.
#include "access.h"

#include <cstring>

#include "http_head.h"
#include "service/base/check.h"
#include "service/base/file.h"

namespace aotx {
namespace {

constexpr size_t kNoPrincipal = ~static_cast<size_t>(0);

bool is_zero(const uint8_t* bytes, size_t bytes_count)
{
    uint8_t any = 0;
    for (size_t i = 0; i < bytes_count; i++) {
        any = static_cast<uint8_t>(any | bytes[i]);
    }
    return any == 0;
}

bool is_token_text(std::string_view token)
{
    for (const char byte : token) {
        if (byte <= 0x20 || byte >= 0x7f) {
            return false;
        }
    }
    return token.size() >= kTokenCharactersMin && token.size() <= kTokenCharactersMax;
}

bool is_digits(std::string_view text)
{
    for (const char digit : text) {
        if (digit < '0' || digit > '9') {
            return false;
        }
    }
    return !text.empty();
}

aotx_grant_row grant_row(const void* bytes, size_t index)
{
    aotx_grant_row row;
    std::memcpy(&row, static_cast<const uint8_t*>(bytes) + AOTX_HEAD_BYTES + index * sizeof row,
                sizeof row);
    return row;
}

bool name_is_loopback(std::string_view name)
{
    return text_equal_fold(name, "localhost") || name == "127.0.0.1" || name == "[::1]";
}

}  // namespace

void Access::open(const Config& config) noexcept
{
    AOTX_CHECK(principals_.empty());
    grants_path_ = config.device.grants_path;
    for (const PrincipalConfig& from : config.principals) {
        Principal principal;
        principal.name = from.name;
        principal_id(from, principal.id);
        for (const std::string& text : from.token_sha256) {
            TokenHash hash = {};
            token_hash(text, hash.bytes);
            hash.principal = static_cast<uint32_t>(principals_.size());
            hashes_.push_back(hash);
        }
        principals_.push_back(principal);
    }
}

int Access::grants_load() noexcept
{
    std::string text;
    const int read = file_read_private(grants_path_.c_str(), AOTX_PACKET_BYTES_MAX, &text);
    if (read != AOTX_OK) {
        return read;
    }
    const int checked = grants_check(text.data(), text.size());
    if (checked != AOTX_OK) {
        return checked;
    }
    aotx_request_head head;
    std::memcpy(&head, text.data(), sizeof head);

    revision_ = head.grant_revision;
    for (Principal& principal : principals_) {
        principal.actions = 0;
        principal.model_mask = 0;
        principal.output_tokens_max = 0;
        for (size_t i = 0; i < head.count; i++) {
            const aotx_grant_row row = grant_row(text.data(), i);
            if (std::memcmp(row.principal, principal.id, sizeof row.principal) == 0) {
                principal.actions = row.actions;
                principal.model_mask = row.model_mask;
                principal.output_tokens_max = row.output_tokens_max;
            }
        }
    }
    return AOTX_OK;
}

Principal* Access::authenticate(std::string_view authorization) noexcept
{
    constexpr std::string_view scheme = "Bearer ";
    if (authorization.size() <= scheme.size() ||
        !text_equal_fold(authorization.substr(0, scheme.size()), scheme)) {
        return nullptr;
    }
    const std::string_view token = authorization.substr(scheme.size());
    if (!is_token_text(token)) {
        return nullptr;
    }
    uint8_t digest[kSha256Bytes];
    sha256(token.data(), token.size(), digest);
    size_t found = kNoPrincipal;
    for (const TokenHash& hash : hashes_) {
        const bool equal = equal_in_constant_time(hash.bytes, digest, sizeof digest);
        const size_t mask = equal ? ~static_cast<size_t>(0) : 0;
        found = (found & ~mask) | (hash.principal & mask);
    }
    return found == kNoPrincipal ? nullptr : &principals_[found];
}

Principal* Access::any() noexcept
{
    return principals_.empty() ? nullptr : principals_.data();
}

int grants_check(const void* bytes, size_t bytes_count) noexcept
{
    aotx_request_head head;
    if (bytes_count < sizeof head) {
        return AOTX_ERR_LENGTH;
    }
    std::memcpy(&head, bytes, sizeof head);
    if (head.magic != AOTX_MAGIC || head.operation != AOTX_OPERATION_GRANTS) {
        return AOTX_ERR_MAGIC;
    }
    if (head.count > AOTX_GRANT_ROWS_MAX ||
        head.payload_bytes != head.count * sizeof(aotx_grant_row) ||
        bytes_count != sizeof head + head.payload_bytes) {
        return AOTX_ERR_LENGTH;
    }
    if (head.zero_12 != 0 || !is_zero(head.zero_92, sizeof head.zero_92)) {
        return AOTX_ERR_NONZERO;
    }
    for (size_t i = 0; i < head.count; i++) {
        const aotx_grant_row row = grant_row(bytes, i);
        if (row.revision != head.grant_revision || is_zero(row.principal, sizeof row.principal) ||
            row.actions == 0 || (row.actions & ~AOTX_ACTION_MASK_ALL) != 0 ||
            (row.model_mask & ~AOTX_MODEL_MASK_LANGUAGE) != 0 || row.output_tokens_max == 0 ||
            row.active_requests_max == 0) {
            return AOTX_ERR_RANGE;
        }
        if (row.zero_56 != 0) {
            return AOTX_ERR_NONZERO;
        }
        for (size_t other = 0; other < i; other++) {
            const aotx_grant_row before = grant_row(bytes, other);
            if (std::memcmp(before.principal, row.principal, sizeof row.principal) == 0) {
                return AOTX_ERR_RANGE;
            }
        }
    }
    return AOTX_OK;
}

bool host_split(std::string_view host, std::string_view* name) noexcept
{
    size_t end = host.find(':');
    if (!host.empty() && host.front() == '[') {
        end = host.find(']');
        if (end == std::string_view::npos) {
            return false;
        }
        end++;
    }
    const std::string_view rest = end >= host.size() ? std::string_view() : host.substr(end);
    const std::string_view before = host.substr(0, end);
    if (before.empty()) {
        return false;
    }
    if (!rest.empty() && (rest.front() != ':' || !is_digits(rest.substr(1)))) {
        return false;
    }
    *name = before;
    return true;
}

bool host_permitted(const HostRule& rule, std::string_view host) noexcept
{
    std::string_view name;
    if (!host_split(host, &name)) {
        return false;
    }
    if (rule.loopback && name_is_loopback(name)) {
        return true;
    }
    for (const std::string& permitted : rule.names) {
        if (text_equal_fold(name, permitted)) {
            return true;
        }
    }
    return !rule.loopback && rule.names.empty();
}

bool origin_permitted(const HostRule& rule, std::string_view origin) noexcept
{
    constexpr std::string_view schemes[] = {"http://", "https://"};
    for (const std::string_view scheme : schemes) {
        if (origin.substr(0, scheme.size()) != scheme) {
            continue;
        }
        // Without a list of names any Host passes, but a foreign page is still foreign.
        HostRule strict = rule;
        strict.loopback = rule.loopback || rule.names.empty();
        return host_permitted(strict, origin.substr(scheme.size()));
    }
    return false;
}

}  // namespace aotx
