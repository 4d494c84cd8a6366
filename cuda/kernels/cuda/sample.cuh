// Purpose:  choose the next token of every row, where the logits are.
// Owns:     nothing.
// Thread:   device code; 256 threads a block, one block a row.
// Lifetime: one launch.
//
// The rule is the core's: the same bins of the distance from the best, the same order, the same
// exponential. Shares are summed as whole numbers of 2^-43 of the best token's, so that the sums do
// not depend on the order in which threads add: a draw can be replayed, and equals the core's
// unless it falls within about 1e-11 of the border between two tokens.
#pragma once

#include "cuda/core/sample.h"
#include "step.cuh"

namespace aotx {

constexpr uint32_t kSampleThreads = 256;
constexpr uint32_t kSampleWarps = kSampleThreads / 32;
constexpr float kSampleUnit = 0x1p43f;
constexpr uint32_t kSamplePieceTokens = 1024;  // summed by one warp
constexpr uint32_t kSamplePiecesMax = 1024;    // so a vocabulary of up to 2^20

static_assert(sizeof(SampleScratch) <= kSampleScratchBytes);

using SampleMass = unsigned long long;

// What a block shares; the masses of bins and sub-bins are used one after the other.
struct SampleShared {
    SampleMass* bins;   // [kSampleBins]
    SampleMass* subs;   // [kSampleSubBins]
    SampleMass* piece;  // [kSamplePiecesMax]
    float* value;       // [kSampleCandidates]
    int32_t* token;
    float* sorted_value;
    int32_t* sorted_token;
    uint32_t* words;  // [4] counts and answers of thread 0
    SampleLimit* limit;
    SampleMass* masses;  // [2] of the limit's whole and of its bin alone
};

// A candidate is a logit and its token: the larger logit first, the lower token among equals, and a
// logit that is not a number behind all others.
struct Candidate {
    float logit;
    int32_t token;
};

__device__ __forceinline__ bool candidate_before(const Candidate& left, const Candidate& right)
{
    const bool left_good = left.logit == left.logit;
    const bool right_good = right.logit == right.logit;
    if (left_good != right_good) {
        return left_good;
    }
    if (left_good && left.logit != right.logit) {
        return left.logit > right.logit;
    }
    return left.token < right.token;
}

__device__ __forceinline__ Candidate candidate_other(const Candidate& mine, int step)
{
    Candidate other;
    other.logit = __shfl_xor_sync(0xffffffffu, mine.logit, step);
    other.token = __shfl_xor_sync(0xffffffffu, mine.token, step);
    return other;
}

// The best of the block, in every thread.
__device__ __forceinline__ Candidate candidate_best(const float* logits, uint32_t vocab)
{
    CU_SHARED(Candidate, firsts, kSampleWarps);
    Candidate best = {NAN, INT32_MAX};
    for (uint32_t i = threadIdx.x; i < vocab; i += kSampleThreads) {
        const Candidate mine = {logits[i], static_cast<int32_t>(i)};
        best = candidate_before(mine, best) ? mine : best;
    }
    CU_UNROLL
    for (int step = 16; step > 0; step /= 2) {
        const Candidate other = candidate_other(best, step);
        best = candidate_before(other, best) ? other : best;
    }
    if (threadIdx.x % 32u == 0) {
        firsts[threadIdx.x / 32u] = best;
    }
    __syncthreads();
    best = firsts[0];
    for (uint32_t warp = 1; warp < kSampleWarps; warp++) {
        best = candidate_before(firsts[warp], best) ? firsts[warp] : best;
    }
    return best;
}

__device__ __forceinline__ SampleMass sample_mass(float value)
{
    return static_cast<SampleMass>(core_exp(value) * kSampleUnit);
}

// Masses of all bins; of the sub-bins of one bin when sub is true. [all threads]
template <bool sub>
__device__ __forceinline__ void sample_masses(const SampleView& view, uint32_t bin,
                                              SampleMass* masses)
{
    for (uint32_t i = threadIdx.x; i < kSampleBins; i += kSampleThreads) {
        masses[i] = 0;
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < view.vocab; i += kSampleThreads) {
        const float value = core_sample_value(view, i);
        const uint32_t at = core_sample_bin(value);
        const SampleMass mass = sub && at != bin ? 0 : sample_mass(value);
        if (mass != 0) {
            atomicAdd(&masses[sub ? core_sample_sub_bin(value, bin) : at], mass);
        }
    }
    __syncthreads();
}

// The place whose mass, on top of *before, reaches the target; none beyond the last with a mass.
// *before: in what came before, out with all in front of the place. [thread 0]
__device__ __forceinline__ uint32_t sample_reach(const SampleMass* masses, uint32_t count,
                                                 SampleMass target, SampleMass* before)
{
    uint32_t last = 0;
    for (uint32_t i = 0; i < count; i++) {
        last = masses[i] != 0 ? i : last;
    }
    uint32_t at = 0;
    while (at < last && *before + masses[at] < target) {
        *before += masses[at];
        at++;
    }
    return at;
}

// Gather the tokens of one sub-bin and bring them into order. False: too many. [all threads]
__device__ __forceinline__ bool sample_gather(const SampleView& view, uint32_t bin, uint32_t sub,
                                              const SampleShared& shared)
{
    if (threadIdx.x == 0) {
        shared.words[2] = 0;
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < view.vocab; i += kSampleThreads) {
        const float value = core_sample_value(view, i);
        if (core_sample_bin(value) != bin || core_sample_sub_bin(value, bin) != sub) {
            continue;
        }
        const uint32_t place = atomicAdd(&shared.words[2], 1u);
        if (place < kSampleCandidates) {
            shared.value[place] = value;
            shared.token[place] = static_cast<int32_t>(i);
        }
    }
    __syncthreads();
    const uint32_t count = shared.words[2];
    if (count > kSampleCandidates) {
        return false;
    }
    for (uint32_t i = threadIdx.x; i < count; i += kSampleThreads) {
        uint32_t rank = 0;
        for (uint32_t j = 0; j < count; j++) {
            rank += core_sample_before(shared.value[j], shared.token[j], shared.value[i],
                                       shared.token[i])
                        ? 1u
                        : 0u;
        }
        shared.sorted_value[rank] = shared.value[i];
        shared.sorted_token[rank] = shared.token[i];
    }
    __syncthreads();
    return true;
}

// The smallest set of the most likely tokens whose masses reach top_p of the whole: its last token
// in *shared.limit. False: a sub-bin holds too many tokens. [all threads]
__device__ __forceinline__ bool sample_nucleus(const SampleView& view, float top_p,
                                               const SampleShared& shared)
{
    sample_masses<false>(view, 0, shared.bins);
    if (threadIdx.x == 0) {
        SampleMass whole = 0;
        for (uint32_t i = 0; i < kSampleBins; i++) {
            whole += shared.bins[i];
        }
        const SampleMass target =
            static_cast<SampleMass>(static_cast<double>(whole) * static_cast<double>(top_p));
        shared.masses[0] = 0;
        shared.words[0] = sample_reach(shared.bins, kSampleBins, target, &shared.masses[0]);
        shared.masses[1] = target - shared.masses[0];
    }
    __syncthreads();
    const uint32_t bin = shared.words[0];
    sample_masses<true>(view, bin, shared.subs);
    if (threadIdx.x == 0) {
        SampleMass before = 0;
        shared.words[1] = sample_reach(shared.subs, kSampleSubBins, shared.masses[1], &before);
        shared.masses[2] = before;
    }
    __syncthreads();
    const uint32_t sub = shared.words[1];
    if (!sample_gather(view, bin, sub, shared)) {
        return false;
    }
    if (threadIdx.x == 0) {
        SampleMass mass = shared.masses[2];
        const uint32_t count = shared.words[2];
        uint32_t at = 0;
        for (; at < count; at++) {
            mass += sample_mass(shared.sorted_value[at]);
            if (mass >= shared.masses[1]) {
                break;
            }
        }
        at = at < count ? at : count - 1u;
        *shared.limit = {bin, shared.sorted_value[at], shared.sorted_token[at], 0.0, 0.0};
        shared.masses[1] = shared.masses[0] + mass;  // of the whole nucleus
    }
    __syncthreads();
    return true;
}

// The mass of a token if the draw is among its like: of one bin and not behind the limit, or any.
template <bool bounded>
__device__ __forceinline__ SampleMass sample_drawn(const SampleView& view, uint32_t bin,
                                                   const SampleLimit& limit, uint32_t token)
{
    const float value = core_sample_value(view, token);
    if (bounded &&
        (core_sample_bin(value) != bin ||
         core_sample_before(limit.value, limit.token, value, static_cast<int32_t>(token)))) {
        return 0;
    }
    return sample_mass(value);
}

__device__ __forceinline__ SampleMass sample_other(SampleMass mine, int step)
{
    return __shfl_xor_sync(0xffffffffu, mine, step);
}

// Masses of pieces of the vocabulary, a warp a piece. [all threads]
template <bool bounded>
__device__ __forceinline__ void sample_pieces(const SampleView& view, uint32_t bin,
                                              const SampleShared& shared)
{
    const SampleLimit limit = *shared.limit;
    const uint32_t lane = threadIdx.x % 32u;
    for (uint32_t piece = threadIdx.x / 32u; piece * kSamplePieceTokens < view.vocab;
         piece += kSampleWarps) {
        SampleMass mass = 0;
        for (uint32_t i = lane; i < kSamplePieceTokens; i += 32u) {
            const uint32_t token = piece * kSamplePieceTokens + i;
            mass += token < view.vocab ? sample_drawn<bounded>(view, bin, limit, token) : 0;
        }
        CU_UNROLL
        for (int step = 16; step > 0; step /= 2) {
            mass += sample_other(mass, step);
        }
        if (lane == 0) {
            shared.piece[piece] = mass;
        }
    }
    __syncthreads();
}

// The first token, by ID, with which the masses on top of `before` reach the target. [warp 0]
template <bool bounded>
__device__ __forceinline__ int32_t sample_find(const SampleView& view, uint32_t bin,
                                               const SampleLimit& limit, uint32_t piece,
                                               SampleMass before, SampleMass target)
{
    const uint32_t lane = threadIdx.x % 32u;
    int32_t last = limit.token;
    for (uint32_t i = 0; i < kSamplePieceTokens; i += 32u) {
        const uint32_t token = piece * kSamplePieceTokens + i + lane;
        const SampleMass own =
            token < view.vocab ? sample_drawn<bounded>(view, bin, limit, token) : 0;
        SampleMass sum = own;
        CU_UNROLL
        for (int step = 1; step < 32; step *= 2) {
            const SampleMass lower = __shfl_up_sync(0xffffffffu, sum, step);
            sum += lane >= static_cast<uint32_t>(step) ? lower : 0;
        }
        const unsigned found = __ballot_sync(0xffffffffu, own != 0 && before + sum >= target);
        if (found != 0) {
            unsigned first = 0;
            while ((found >> first & 1u) == 0) {
                first++;
            }
            return static_cast<int32_t>(piece * kSamplePieceTokens + i + first);
        }
        before += __shfl_sync(0xffffffffu, sum, 31);
    }
    return last;
}

// Draw by ID: of the whole vocabulary, or of the nucleus, whose bins come first. [all threads]
template <bool bounded>
__device__ __forceinline__ int32_t sample_draw(const SampleView& view, double uniform,
                                               const SampleShared& shared)
{
    if (threadIdx.x == 0) {
        shared.masses[0] = 0;
        if (bounded) {
            const SampleMass target =
                static_cast<SampleMass>(static_cast<double>(shared.masses[1]) * (1.0 - uniform));
            shared.words[0] =
                sample_reach(shared.bins, shared.limit->bin + 1u, target, &shared.masses[0]);
            shared.masses[1] = target;
        }
    }
    __syncthreads();
    const uint32_t bin = bounded ? shared.words[0] : 0u;
    sample_pieces<bounded>(view, bin, shared);
    if (threadIdx.x == 0) {
        const uint32_t pieces = (view.vocab + kSamplePieceTokens - 1u) / kSamplePieceTokens;
        if (!bounded) {
            SampleMass whole = 0;
            for (uint32_t i = 0; i < pieces; i++) {
                whole += shared.piece[i];
            }
            shared.masses[1] =
                static_cast<SampleMass>(static_cast<double>(whole) * (1.0 - uniform));
        }
        shared.words[1] = sample_reach(shared.piece, pieces, shared.masses[1], &shared.masses[0]);
    }
    __syncthreads();
    if (threadIdx.x >= 32u) {
        return 0;
    }
    return sample_find<bounded>(view, bin, *shared.limit, shared.words[1], shared.masses[0],
                                shared.masses[1]);
}

// The token of one row, in thread 0. [all threads]
__device__ __forceinline__ int32_t sample_row(const SampleArgs& args, uint32_t n)
{
    CU_SHARED(SampleMass, bins, kSampleBins);
    CU_SHARED(SampleMass, subs, kSampleSubBins);
    CU_SHARED(SampleMass, piece, kSamplePiecesMax);
    CU_SHARED(SampleMass, masses, 4);
    CU_SHARED(float, value, kSampleCandidates * 2u);
    CU_SHARED(int32_t, token, kSampleCandidates * 2u);
    CU_SHARED(uint32_t, words, 4);
    CU_SHARED(SampleLimit, limit, 1);
    const SampleShared shared = {
        bins,  subs,  piece, value, token, value + kSampleCandidates, token + kSampleCandidates,
        words, limit, masses};
    const float* const logits = args.logits + uint64_t{n} * args.stride;
    const StepChoice choice = args.choices[n];
    const Candidate best = candidate_best(logits, args.vocab);
    if (!(choice.temperature > 0.0f)) {
        return best.token;
    }
    const SampleView view = {logits, args.vocab, best.logit, 1.0f / choice.temperature};
    if (view.best != view.best || view.inverse > 3.0e38f) {
        return best.token;
    }
    if (threadIdx.x == 0) {
        limit[0] = {0, 0.0f, best.token, 0.0, 0.0};
    }
    __syncthreads();
    if (!(choice.top_p < 1.0f)) {
        return sample_draw<false>(view, choice.uniform, shared);
    }
    if (sample_nucleus(view, choice.top_p, shared)) {
        return sample_draw<true>(view, choice.uniform, shared);
    }
    // A crowd of all but equal logits: the core's own function, in its own order.
    return threadIdx.x != 0
               ? 0
               : core_sample(logits, args.vocab, choice.temperature, choice.top_p, choice.uniform,
                             reinterpret_cast<SampleScratch*>(static_cast<uint8_t*>(args.scratch) +
                                                              uint64_t{n} * kSampleScratchBytes));
}

__global__ void __launch_bounds__(kSampleThreads) sample(CU_GRID_CONSTANT const SampleArgs args)
{
    cu_begin();
    const uint32_t n = blockIdx.x;
    if (n < args.counts[1]) {
        const int32_t token = sample_row(args, n);
        if (threadIdx.x == 0) {
            args.tokens[n] = token;
        }
    }
    step_done(args.order, args.ticket, args.host_done);
}

}  // namespace aotx
