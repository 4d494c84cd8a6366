// Purpose:  attention of every token of a step over its sequence's pages.
// Owns:     nothing.
// Thread:   device code; 128 threads a block, one block for a token, a kv head and a split.
// Lifetime: one launch.
//
// Tiles of 64 positions go round the splits by their place in the sequence, so the work and the
// order
// of every sum depend on the position alone. The block that finishes a token's last split merges.
#pragma once

#include "matmul.cuh"

namespace aotx {

constexpr uint32_t kAttentionThreads = 128;
constexpr uint32_t kAttentionItems = kAttentionItemsMax / kAttentionThreads;

struct AttentionPlace {
    TextRow row;
    uint32_t n;  // row of the step
    uint32_t kv_head;
    uint32_t heads;  // query heads of this kv head
    uint32_t head_size;
    uint32_t splits;  // that have work
};

// Scores of one tile: dot products of the queries with the keys, -infinity behind the token itself.
__device__ __forceinline__ void attention_scores(const AttentionArgs& args,
                                                 const AttentionPlace& place, uint32_t first,
                                                 const float* query, float* scores)
{
    for (uint32_t item = threadIdx.x; item < place.heads * kAttentionTile;
         item += kAttentionThreads) {
        const uint32_t position = first + item % kAttentionTile;
        float sum = -INFINITY;
        if (position <= place.row.position) {
            TextRow at = place.row;
            at.position = position;
            const uint16_t* const key =
                args.kv.pages + kv_place(args.kv, args.layer, at, place.kv_head, 0);
            const float* const head = query + item / kAttentionTile * place.head_size;
            sum = 0.0f;
            for (uint32_t d = 0; d < place.head_size; d += 8u) {
                const uint4 words = cu_read16(key + d);
                const uint32_t pairs[4] = {words.x, words.y, words.z, words.w};
                CU_UNROLL
                for (uint32_t i = 0; i < 4; i++) {
                    sum = fmaf(head[d + i * 2u], cu_half_to_float(static_cast<uint16_t>(pairs[i])),
                               sum);
                    sum = fmaf(head[d + i * 2u + 1u],
                               cu_half_to_float(static_cast<uint16_t>(pairs[i] >> 16u)), sum);
                }
            }
        }
        scores[item] = sum;
    }
}

// Turn scores into weights, one warp a head; keeps the running largest and sum of each head and the
// factor by which what was summed before shrinks.
__device__ __forceinline__ void attention_weights(const AttentionPlace& place, float* scores,
                                                  float* largest, float* total, float* shrink)
{
    const uint32_t lane = threadIdx.x % 32u;
    for (uint32_t head = threadIdx.x / 32u; head < place.heads; head += kAttentionThreads / 32u) {
        float* const line = scores + head * kAttentionTile;
        float best = fmaxf(line[lane], line[lane + 32u]);
        CU_UNROLL
        for (int step = 16; step > 0; step /= 2) {
            best = fmaxf(best, __shfl_xor_sync(0xffffffffu, best, step));
        }
        const float before = largest[head];
        best = fmaxf(best, before);
        const float low = cu_exp(line[lane] - best);
        const float high = cu_exp(line[lane + 32u] - best);
        float sum = low + high;
        CU_UNROLL
        for (int step = 16; step > 0; step /= 2) {
            sum += __shfl_xor_sync(0xffffffffu, sum, step);
        }
        line[lane] = low;
        line[lane + 32u] = high;
        __syncwarp();
        if (lane == 0) {
            shrink[head] = cu_exp(before - best);
            total[head] = total[head] * shrink[head] + sum;
            largest[head] = best;
        }
    }
}

// Add the tile's values, weighed, to the sums that each thread keeps.
__device__ __forceinline__ void attention_values(const AttentionArgs& args,
                                                 const AttentionPlace& place, uint32_t first,
                                                 const float* weights, const float* shrink,
                                                 float* sums)
{
    const uint32_t left = place.row.position + 1u - first;
    const uint32_t positions = left < kAttentionTile ? left : kAttentionTile;
    CU_UNROLL
    for (uint32_t i = 0; i < kAttentionItems; i++) {
        const uint32_t item = threadIdx.x + i * kAttentionThreads;
        if (item >= place.heads * place.head_size) {
            continue;
        }
        const uint32_t head = item / place.head_size;
        float sum = sums[i] * shrink[head];
        for (uint32_t page = 0; page * kKvPageTokens < positions; page++) {
            TextRow at = place.row;
            at.position = first + page * kKvPageTokens;
            const uint16_t* const value = args.kv.pages +
                                          kv_place(args.kv, args.layer, at, place.kv_head, 1) +
                                          item % place.head_size;
            const uint32_t rest = positions - page * kKvPageTokens;
            const uint32_t tokens = rest < kKvPageTokens ? rest : kKvPageTokens;
            const float* const line = weights + head * kAttentionTile + page * kKvPageTokens;
            for (uint32_t t = 0; t < tokens; t++) {
                sum = fmaf(line[t], cu_half_to_float(value[t * place.head_size]), sum);
            }
        }
        sums[i] = sum;
    }
}

__device__ __forceinline__ float* attention_partial(const AttentionArgs& args,
                                                    const AttentionPlace& place, uint32_t head,
                                                    uint32_t split)
{
    const uint64_t query_head = place.kv_head * place.heads + head;
    return args.partial +
           ((uint64_t{place.n} * args.query_heads + query_head) * kAttentionSplits + split) *
               (place.head_size + 2u);
}

// Join the splits of a token in their order.
__device__ __forceinline__ void attention_merge(const AttentionArgs& args,
                                                const AttentionPlace& place)
{
    for (uint32_t item = threadIdx.x; item < place.heads * place.head_size;
         item += kAttentionThreads) {
        const uint32_t head = item / place.head_size;
        const uint32_t d = item % place.head_size;
        float best = -INFINITY;
        for (uint32_t split = 0; split < place.splits; split++) {
            best = fmaxf(best, attention_partial(args, place, head, split)[0]);
        }
        float total = 0.0f;
        float sum = 0.0f;
        for (uint32_t split = 0; split < place.splits; split++) {
            const float* const part = attention_partial(args, place, head, split);
            const float factor = cu_exp(part[0] - best);
            total = fmaf(part[1], factor, total);
            sum = fmaf(part[2u + d], factor, sum);
        }
        const uint64_t line = uint64_t{place.n} * args.query_heads * place.head_size;
        args.output[line + place.kv_head * place.heads * place.head_size + item] = sum / total;
    }
}

// Write what this split found; the block that comes last for its token merges them all.
__device__ __forceinline__ void attention_give(const AttentionArgs& args,
                                               const AttentionPlace& place, uint32_t split,
                                               const float* largest, const float* total,
                                               const float* sums)
{
    CU_SHARED(uint32_t, ticket, 1);
    CU_UNROLL
    for (uint32_t i = 0; i < kAttentionItems; i++) {
        const uint32_t item = threadIdx.x + i * kAttentionThreads;
        if (item < place.heads * place.head_size) {
            float* const part = attention_partial(args, place, item / place.head_size, split);
            part[2u + item % place.head_size] = sums[i];
        }
    }
    if (threadIdx.x < place.heads) {
        float* const part = attention_partial(args, place, threadIdx.x, split);
        part[0] = largest[threadIdx.x];
        part[1] = total[threadIdx.x];
    }
    __syncthreads();
    uint32_t* const counter = args.tickets + place.n * args.kv.kv_heads + place.kv_head;
    if (threadIdx.x == 0) {
        ticket[0] = cu_take_ticket(counter);
    }
    __syncthreads();
    if (ticket[0] + 1u != place.splits) {
        return;
    }
    attention_merge(args, place);
    if (threadIdx.x == 0) {
        *counter = 0;
    }
}

__global__ void __launch_bounds__(kAttentionThreads)
    attention(CU_GRID_CONSTANT const AttentionArgs args)
{
    cu_begin();
    AttentionPlace place;
    place.n = blockIdx.x;
    if (place.n >= *args.count) {
        return;
    }
    place.row = args.rows[place.n];
    place.kv_head = blockIdx.y;
    place.heads = args.query_heads / args.kv.kv_heads;
    place.head_size = args.kv.head_size;
    const uint32_t tiles = place.row.position / kAttentionTile + 1u;
    place.splits = tiles < kAttentionSplits ? tiles : kAttentionSplits;
    const uint32_t split = blockIdx.z;
    if (split >= place.splits) {
        return;
    }
    CU_SHARED(float, query, kAttentionItemsMax);
    CU_SHARED(float, scores, kAttentionHeadsMax* kAttentionTile);
    CU_SHARED(float, largest, kAttentionHeadsMax);
    CU_SHARED(float, total, kAttentionHeadsMax);
    CU_SHARED(float, shrink, kAttentionHeadsMax);
    const uint32_t items = place.heads * place.head_size;
    const float* const line =
        args.query + (uint64_t{place.n} * args.kv.kv_heads + place.kv_head) * items;
    for (uint32_t item = threadIdx.x; item < items; item += kAttentionThreads) {
        query[item] = line[item];
    }
    if (threadIdx.x < place.heads) {
        largest[threadIdx.x] = -INFINITY;
        total[threadIdx.x] = 0.0f;
    }
    float sums[kAttentionItems] = {};
    for (uint32_t tile = split; tile < tiles; tile += kAttentionSplits) {
        __syncthreads();
        attention_scores(args, place, tile * kAttentionTile, query, scores);
        __syncthreads();
        attention_weights(place, scores, largest, total, shrink);
        __syncthreads();
        attention_values(args, place, tile * kAttentionTile, scores, shrink, sums);
    }
    attention_give(args, place, split, largest, total, sums);
}

}  // namespace aotx
