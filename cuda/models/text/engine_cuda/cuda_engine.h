// Purpose:  the engine that runs steps on a GPU: weights quantised in device memory, keys and
//           values in fixed pages, one program for each width of a step, built once.
// Owns:     the device's memory, stream and programs; the mapped memory through which steps pass.
// Thread:   as StepEngine.
// Lifetime: open -> steps -> destruction; revive between two steps.
//
// After open nothing is allocated, captured or bound anew: a step writes its order into mapped
// memory, launches two programs and waits for one word. Tokens, positions, page lists and counts
// are data in device memory, never parameters.
//
// A step that does not end in its time has lost the device for good (CudaApi::abandon): whatever
// would give it back waits for it, so the engine answers no step any more, is not revived, and
// leaves behind what the device may still touch.
#pragma once

#include <memory>
#include <vector>

#include "cuda/loop/wait.h"
#include "engine/step_engine.h"
#include "engine_cuda/cuda_weights.h"

namespace aotx {

// Offsets of the parts of one piece of memory, counted before it is taken.
struct CudaEngineLayout {
    // device
    uint64_t kv, rows, map, counts, page_table, residual, query, attended, gate, logits, partial,
        tickets, scratch, device_bytes;
    // mapped host memory, and a word that only the host uses
    uint64_t host_rows, host_map, host_changes, host_pages, host_choices, host_done, host_tokens,
        host_logits, host_bell, host_bytes;
};

class CudaEngine final : public StepEngine {
public:
    explicit CudaEngine(const CudaApi* api) noexcept : calls_(api) {}
    ~CudaEngine() override;
    CudaEngine(const CudaEngine&) = delete;
    CudaEngine& operator=(const CudaEngine&) = delete;

    // Null: refused, *reason says why.
    static std::unique_ptr<StepEngine> open(const CudaApi* api, const StepEngineRequest& request,
                                            TextReason* reason) noexcept;

    const char* device() const noexcept override { return "cuda"; }
    KvPages* pages() noexcept override { return &pages_; }
    uint64_t allocation_bytes() const noexcept override;
    bool wide_keys() const noexcept override { return false; }
    bool step(const StepToken* tokens, uint32_t count) noexcept override;
    const float* logits(uint32_t row) const noexcept override;
    bool samples() const noexcept override { return true; }
    bool step_sample(const StepToken* tokens, uint32_t count, const StepDraw* draws,
                     int32_t* chosen) noexcept override;
    bool revive(TextReason* reason) noexcept override;

private:
    // One width of a step: the most rows, and the programs that run one behind the other.
    struct Body {
        uint32_t rows = 0;
        std::vector<void*> executors;
    };
    bool take(const StepEngineRequest& request, TextReason* reason) noexcept;
    bool check(TextReason* reason) noexcept;
    void lay_out() noexcept;
    bool up(TextReason* reason) noexcept;
    void down() noexcept;
    int programs_open() noexcept;
    uint32_t order(const StepToken* tokens, uint32_t count) noexcept;
    bool run(uint32_t count, void* last) noexcept;
    int launch(uint32_t count, void* last) noexcept;
    int wait() noexcept;
    int sleep(uint64_t limit_ns) noexcept;

    template <typename Item>
    Item* on_device(uint64_t offset) const noexcept
    {
        return reinterpret_cast<Item*>(device_ + offset);
    }
    template <typename Item>
    Item* on_host(uint64_t offset) const noexcept
    {
        return reinterpret_cast<Item*>(host_ + offset);
    }

    CudaCalls calls_;
    StepEngineRequest request_;
    ModelShape shape_;
    CudaWeights weights_;
    CudaEngineLayout layout_ = {};
    KvPages pages_;
    uint32_t sequence_pages_ = 0;
    uint32_t logits_stride_ = 0;
    std::unique_ptr<uint32_t[]> seen_;  // [sequences] openings whose page lists the device has

    uint8_t* host_ = nullptr;  // mapped while the device is up
    uint8_t* device_ = nullptr;
    void* stream_ = nullptr;
    std::vector<Body> bodies_;  // in order of rows
    void* give_ = nullptr;      // hands logits out
    void* sample_ = nullptr;    // or chooses tokens
    uint64_t resets_ = 0;       // when the device was brought up
    bool mapped_ = false;
    uint64_t number_ = 0;   // of the last step
    uint32_t faults_ = 0;   // that this engine has reset the device for
    Bell* bell_ = nullptr;  // on the host, rung from the stream behind a long step
};

}  // namespace aotx
