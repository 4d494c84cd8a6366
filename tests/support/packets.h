// Purpose:  packets of the protocol as tests of the core and of the loop build them.
// Owns:     nothing.
// Thread:   any.
// Lifetime: not applicable.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "aotx/packet.h"
#include "aotx/packet_check.h"

namespace packet_test {

using Bytes = std::vector<uint8_t>;

struct Id {
    uint8_t bytes[16] = {};
    bool operator<(const Id& other) const { return std::memcmp(bytes, other.bytes, 16) < 0; }
    bool operator==(const Id& other) const { return std::memcmp(bytes, other.bytes, 16) == 0; }
};

inline Id id_of(uint64_t number)
{
    Id id;
    std::memcpy(id.bytes, &number, sizeof number);
    id.bytes[15] = 1;
    return id;
}

inline aotx_request_head head_of(uint32_t operation, const Id& principal, uint64_t revision)
{
    aotx_request_head head;
    aotx_request_head_begin(&head, operation, principal.bytes, revision);
    return head;
}

inline Bytes packet_of(aotx_request_head head, const Bytes& payload)
{
    head.payload_bytes = static_cast<uint32_t>(payload.size());
    const uint8_t* const bytes = reinterpret_cast<const uint8_t*>(&head);
    Bytes packet(bytes, bytes + sizeof head);
    packet.insert(packet.end(), payload.begin(), payload.end());
    return packet;
}

// Everything that a principal can be given, with room for 64 requests.
inline aotx_grant_row grant_of(const Id& principal, uint64_t revision, uint32_t output_tokens_max)
{
    aotx_grant_row row = {};
    std::memcpy(row.principal, principal.bytes, 16);
    row.revision = revision;
    row.actions = AOTX_ACTION_MASK_ALL;
    row.model_mask = AOTX_MODEL_MASK_LANGUAGE;
    row.output_tokens_max = output_tokens_max;
    row.active_requests_max = 64;
    return row;
}

inline Bytes grants_packet(uint64_t revision, const std::vector<aotx_grant_row>& rows)
{
    aotx_request_head head;
    aotx_request_head_begin(&head, AOTX_OPERATION_GRANTS, nullptr, revision);
    head.count = static_cast<uint32_t>(rows.size());
    Bytes payload(rows.size() * sizeof(aotx_grant_row));
    if (!rows.empty()) {
        std::memcpy(payload.data(), rows.data(), payload.size());
    }
    return packet_of(head, payload);
}

}  // namespace packet_test
