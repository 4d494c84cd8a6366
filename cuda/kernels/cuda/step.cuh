// Purpose:  the two ends of a step towards the host: take its order from mapped memory, give its
// logits back there.
// Owns:     nothing.
// Thread:   device code; 128 threads a block.
// Lifetime: one launch.
//
// What changes from step to step crosses here and nowhere else, so every other kernel reads device
// memory alone and keeps the arguments that it was built with.
#pragma once

#include "aotx/mailbox.h"
#include "port.h"
#include "text_args.h"

namespace aotx {

constexpr uint32_t kStepThreads = 128;

// Rows, wanted rows and counts by block 0; page lists of newly opened sequences by all.
__global__ void __launch_bounds__(kStepThreads) step_take(CU_GRID_CONSTANT const StepTakeArgs args)
{
    cu_begin();
    const StepOrder order = *args.order;
    if (blockIdx.x == 0) {
        for (uint32_t i = threadIdx.x; i < order.count; i += kStepThreads) {
            args.rows[i] = args.host_rows[i];
        }
        for (uint32_t i = threadIdx.x; i < order.wanted; i += kStepThreads) {
            args.map[i] = args.host_map[i];
        }
        if (threadIdx.x == 0) {
            args.counts[0] = order.count;
            args.counts[1] = order.wanted;
        }
    }
    for (uint32_t change = 0; change < order.changes; change++) {
        const StepChange at = args.host_changes[change];
        const uint64_t line = uint64_t{at.sequence} * args.sequence_pages;
        for (uint32_t i = blockIdx.x * kStepThreads + threadIdx.x; i < at.pages;
             i += gridDim.x * kStepThreads) {
            args.page_table[line + i] = args.host_pages[line + i];
        }
    }
}

// Tell the host that the step is done, once every block has written its part.
__device__ __forceinline__ void step_done(const StepOrder* order, uint32_t* ticket, uint64_t* done)
{
    __threadfence_system();
    __syncthreads();
    if (threadIdx.x == 0 && cu_take_ticket(ticket) + 1u == gridDim.x) {
        *ticket = 0;
        __threadfence_system();
        aotx_word_store(done, order->number);
    }
}

__global__ void __launch_bounds__(kStepThreads) step_give(CU_GRID_CONSTANT const StepGiveArgs args)
{
    cu_begin();
    const uint64_t words = uint64_t{args.counts[1]} * args.stride / 4u;
    for (uint64_t i = uint64_t{blockIdx.x} * kStepThreads + threadIdx.x; i < words;
         i += uint64_t{gridDim.x} * kStepThreads) {
        cu_write16(args.host_logits + i * 4u, cu_read16(args.logits + i * 4u));
    }
    step_done(args.order, args.ticket, args.host_done);
}

}  // namespace aotx
