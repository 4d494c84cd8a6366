// Purpose:  the long operations of the gateway: answers that follow a request of the device.
// Owns:     the table of them; the output that a plain completion gathers.
// Thread:   the gateway's.
// Lifetime: a row is in use from admission to the end of its answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "access.h"
#include "aotx/packet.h"
#include "deadline.h"
#include "text.h"
#include "utf8.h"

namespace aotx {

struct Connection;

enum class WorkKind : uint8_t {
    Plain,   // gathers the output, answers once
    Stream,  // server-sent events of /v1
    Events   // server-sent events of the native route
};

struct Work {
    uint32_t index = 0;
    uint32_t generation = 0;  // odd while in use
    WorkKind kind = WorkKind::Plain;
    bool include_usage = false;
    bool finish_sent = false;
    Connection* connection = nullptr;
    Principal* principal = nullptr;
    uint64_t revision = 0;
    uint64_t epoch = 0;
    uint8_t id[AOTX_ID_BYTES] = {};
    uint64_t cursor = 0;  // first output byte not yet taken
    uint32_t known_phase = 0;
    uint32_t known_cancel_requested = 0;
    uint32_t model_role = 0;
    size_t model = 0;  // index into the configuration's models
    uint64_t created = 0;
    Utf8State utf8;
    Text output;
    DeadlineNode heartbeat;

    bool used() const noexcept { return generation % 2 == 1; }
};

// What the device tells about a request, by a reply or by a watch.
struct WorkNews {
    uint32_t phase = 0;
    uint32_t model_role = 0;
    uint32_t output_bytes = 0;
    uint32_t prompt_tokens = 0;
    uint32_t sampled_tokens = 0;
    uint32_t finish = 0;
    uint32_t failure_status = 0;
    uint32_t cancel_requested = 0;
    const uint8_t* data = nullptr;  // output from the work's cursor on
    size_t data_bytes = 0;

    bool terminal() const noexcept { return phase >= AOTX_PHASE_COMPLETED; }
};

class WorkTable {
public:
    void open(size_t rows_count) noexcept;

    // A free row with everything as at first, nullptr when all are in use.
    [[nodiscard]] Work* acquire() noexcept;
    void release(Work* work) noexcept;
    // The row if that use of it still goes on.
    [[nodiscard]] Work* find(uint32_t index, uint32_t generation) noexcept;

    size_t used_count() const noexcept { return used_.size(); }
    // Rows in use, in no order; valid until the next acquire or release.
    Work* used(size_t i) noexcept { return &rows_[used_[i]]; }

private:
    std::unique_ptr<Work[]> rows_;
    size_t rows_count_ = 0;
    std::vector<uint32_t> free_;
    std::vector<uint32_t> used_;
    std::vector<uint32_t> place_;  // of a row in used_
};

}  // namespace aotx
