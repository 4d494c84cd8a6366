// Purpose:  where the weights of a model lie in device memory, and how they get there: matrices in
//           the tile order of the CUDA kernels, still quantised, those that one launch multiplies
//           joined to one.
// Owns:     the plan; device memory is the engine's.
// Thread:   plan and upload on one thread, packing on the workers that are lent.
// Lifetime: plan at open; upload at open and at each revival.
#pragma once

#include <cstdint>
#include <vector>

#include "cuda/kernels/cuda/text_args.h"
#include "cuda/loop/cuda_api.h"
#include "engine/step_engine.h"

namespace aotx {

constexpr uint64_t kNoOffset = ~0ull;

enum class RowOrder : uint32_t {
    kPlain = 0,
    kTurned = 1,  // pairs that are halves of a head apart in the file become neighbours
    kGate = 2,    // of a tile of 16 rows the first 8 are gates, the others their ups
    kUp = 3
};

// Rows of one matrix of the file inside a matrix of the device.
struct WeightPiece {
    const MatrixSource* source;
    uint32_t first;  // row of the device matrix (kGate, kUp: always 0)
    RowOrder order;
};

struct DeviceMatrix {
    uint32_t kind = 0;  // enum WeightKind
    uint32_t rows = 0;
    uint32_t columns = 0;
    uint64_t offset = kNoOffset;  // in the device's memory
    uint64_t bytes = 0;
    WeightPiece pieces[3] = {};
    uint32_t pieces_count = 0;
};

struct DeviceLayer {
    DeviceMatrix qkv[3];       // what has the same type lies in one
    uint32_t qkv_row[3] = {};  // first query, key or value row of each
    uint32_t qkv_count = 0;
    DeviceMatrix attention_output;
    DeviceMatrix gate[2];  // one: gates and ups in turns; two: gates, then ups
    uint32_t gate_count = 0;
    DeviceMatrix down;
    uint64_t attention_norm = kNoOffset;
    uint64_t feed_forward_norm = kNoOffset;
    uint64_t bias = kNoOffset;  // f32 [query, key and value rows], or none
};

class CudaWeights {
public:
    // Lay everything out from offset 0. False: a shape or type that the kernels do not take; reason
    // names it.
    [[nodiscard]] bool plan(const ModelSource& source, uint32_t sequence_tokens,
                            TextReason* reason) noexcept;

    // Pack and bring over. device: [bytes()]. A CUDA code, or -1 with *reason for a weight that the
    // device cannot hold.
    [[nodiscard]] int upload(const CudaApi& api, const StepWorkers& workers, uint8_t* device,
                             TextReason* reason) const noexcept;

    uint64_t bytes() const noexcept { return bytes_; }
    const DeviceLayer& layer(uint32_t index) const noexcept { return layers_[index]; }
    const DeviceMatrix& embedding() const noexcept
    {
        return embedding_.offset == kNoOffset ? output_ : embedding_;
    }
    const DeviceMatrix& output() const noexcept { return output_; }
    uint64_t output_norm() const noexcept { return output_norm_; }
    uint64_t turns() const noexcept { return turns_; }  // f32 [positions][rotated / 2][2]

private:
    uint64_t place(uint64_t bytes) noexcept;
    bool add_matrix(DeviceMatrix* matrix, TextReason* reason) noexcept;
    bool plan_layer(const LayerSource& from, DeviceLayer* layer, TextReason* reason) noexcept;
    bool plan_qkv(const LayerSource& from, DeviceLayer* layer, TextReason* reason) noexcept;
    bool plan_gate(const LayerSource& from, DeviceLayer* layer, TextReason* reason) noexcept;
    int upload_matrix(const CudaApi& api, const StepWorkers& workers, const DeviceMatrix& matrix,
                      uint8_t* device, TextReason* reason) const noexcept;
    int upload_layer(const CudaApi& api, const StepWorkers& workers, uint32_t index,
                     uint8_t* device, TextReason* reason) const noexcept;
    int upload_bias(const CudaApi& api, uint32_t index, uint8_t* device) const noexcept;
    int upload_turns(const CudaApi& api, uint8_t* device) const noexcept;

    const ModelSource* source_ = nullptr;
    uint32_t sequence_tokens_ = 0;
    std::vector<DeviceLayer> layers_;
    DeviceMatrix embedding_;  // none: the output matrix is the embedding
    DeviceMatrix output_;
    uint64_t output_norm_ = kNoOffset;
    uint64_t turns_ = kNoOffset;
    uint64_t bytes_ = 0;
};

}  // namespace aotx
