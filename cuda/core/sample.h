// Purpose:  choose a token from logits: temperature, top_p, replayable draws.
// Owns:     nothing; the caller lends the scratch.
// Thread:   any, one scratch each; pure functions of their arguments.
// Lifetime: one token.
#pragma once

#include "bytes.h"
#include "check.h"

namespace aotx {

constexpr uint32_t kSampleBins = 512;         // of the distance from the best logit
constexpr float kSampleBinsPerNat = 16.0f;    // so the bins span 32 nats: a share below 1e-13
constexpr uint32_t kSampleCandidates = 512;   // of one sub-bin, ordered at a time
constexpr uint32_t kSampleChunkTokens = 128;  // whose shares are computed together
constexpr uint32_t kSampleChunks = 2048;      // the last one holds whatever is left

struct SampleScratch {
    double bin_mass[kSampleBins];
    double sub_mass[kSampleBins];
    double chunk_mass[kSampleChunks];
    float share[kSampleChunkTokens];
    float value[kSampleCandidates];  // scaled logit minus the best
    int32_t token[kSampleCandidates];
};

// e^x for x <= 0, to a few units in the last place; 0 below -87. The same arithmetic on the host
// and on the device, so a draw does not depend on who makes it.
AOTX_INLINE float core_exp(float x)
{
    // Select instead of branch, so that a loop over many becomes vector code.
    const float bounded = x > -87.0f ? x : -87.0f;
    const float scaled = bounded * 1.44269504f;
    const int32_t whole = static_cast<int32_t>(scaled - 0.5f);
    const float n = static_cast<float>(whole);
    const float r = (bounded - n * 0.693359375f) - n * -2.12194440e-4f;
    float sum = 1.9875691500e-4f;
    sum = sum * r + 1.3981999507e-3f;
    sum = sum * r + 8.3334519073e-3f;
    sum = sum * r + 4.1665795894e-2f;
    sum = sum * r + 1.6666665459e-1f;
    sum = sum * r + 5.0000001201e-1f;
    sum = sum * r * r + r + 1.0f;
    const float power = sum * core_bits_float(static_cast<uint32_t>(whole + 127) << 23u);
    return x > -87.0f ? power : 0.0f;
}

// A uniform number in [0, 1) from a counter: the same for the same seed, request and token index.
AOTX_INLINE double core_uniform(uint64_t seed, const uint8_t id[16], uint32_t token_index)
{
    const uint64_t key[2] = {seed, 0x616f747853414d50u};
    const uint64_t words[3] = {core_load64(id), core_load64(id + 8), token_index};
    return static_cast<double>(core_siphash(key, words, 3) >> 11u) * 0x1.0p-53;
}

constexpr uint32_t kArgmaxLanes = 16;

// The token of the largest logit, the lower ID among equals. NaN is never larger than anything.
AOTX_INLINE int32_t core_argmax(const float* logits, uint32_t vocab)
{
    // Lanes find the value, a second look finds its first place: both are vector code, a running
    // index is not.
    float lane[kArgmaxLanes];
    for (uint32_t i = 0; i < kArgmaxLanes; i++) {
        lane[i] = -3.4e38f;
    }
    uint32_t at = 0;
    for (; at + kArgmaxLanes <= vocab; at += kArgmaxLanes) {
        for (uint32_t i = 0; i < kArgmaxLanes; i++) {
            lane[i] = logits[at + i] > lane[i] ? logits[at + i] : lane[i];
        }
    }
    float best = -3.4e38f;
    for (; at < vocab; at++) {
        best = logits[at] > best ? logits[at] : best;
    }
    for (uint32_t i = 0; i < kArgmaxLanes; i++) {
        best = lane[i] > best ? lane[i] : best;
    }
    for (uint32_t i = 0; i < vocab; i++) {
        if (logits[i] == best) {
            return static_cast<int32_t>(i);
        }
    }
    // Nothing above the floor: the first that is a number, or token 0.
    for (uint32_t i = 0; i < vocab; i++) {
        if (logits[i] == logits[i]) {
            return static_cast<int32_t>(i);
        }
    }
    return 0;
}

// Bin of a distance below the best; the last bin holds everything further away.
AOTX_INLINE uint32_t core_sample_bin(float value)
{
    const float bin = -value * kSampleBinsPerNat;
    if (!(bin >= 0.0f)) {
        return 0;
    }
    return bin < static_cast<float>(kSampleBins - 1u) ? static_cast<uint32_t>(bin)
                                                      : kSampleBins - 1u;
}

// What one draw works on.
struct SampleView {
    const float* logits;
    uint32_t vocab;
    float best;
    float inverse;  // 1 / temperature
};

AOTX_INLINE float core_sample_value(const SampleView& view, uint32_t token)
{
    const float value = (view.logits[token] - view.best) * view.inverse;
    return value == value ? value : -1.0e30f;
}

// Shares of the tokens from first on, kSampleChunkTokens or to the end, into scratch->share.
// Returns how many.
AOTX_INLINE uint32_t core_sample_shares(const SampleView& view, uint32_t first,
                                        SampleScratch* scratch)
{
    const uint32_t left = view.vocab - first;
    if (left < kSampleChunkTokens) {
        for (uint32_t i = 0; i < left; i++) {
            scratch->share[i] = core_exp(core_sample_value(view, first + i));
        }
        return left;
    }
    // The same with a fixed length, which is what makes it vector code.
    const float* const logits = view.logits + first;
    for (uint32_t i = 0; i < kSampleChunkTokens; i++) {
        const float value = (logits[i] - view.best) * view.inverse;
        scratch->share[i] = core_exp(value == value ? value : -1.0e30f);
    }
    return kSampleChunkTokens;
}

// Share of every bin, in one pass. Returns the whole mass.
AOTX_INLINE double core_sample_bins(const SampleView& view, SampleScratch* scratch)
{
    for (uint32_t i = 0; i < kSampleBins; i++) {
        scratch->bin_mass[i] = 0.0;
    }
    for (uint32_t first = 0; first < view.vocab; first += kSampleChunkTokens) {
        const uint32_t count = core_sample_shares(view, first, scratch);
        for (uint32_t i = 0; i < count; i++) {
            const uint32_t bin = core_sample_bin(core_sample_value(view, first + i));
            scratch->bin_mass[bin] += static_cast<double>(scratch->share[i]);
        }
    }
    double mass = 0.0;
    for (uint32_t i = 0; i < kSampleBins; i++) {
        mass += scratch->bin_mass[i];
    }
    return mass;
}

// Sum of the shares in scratch->share.
AOTX_INLINE double core_sample_sum(const SampleScratch& scratch, uint32_t count)
{
    double lane[4] = {0.0, 0.0, 0.0, 0.0};  // an addition need not wait for the one before
    for (uint32_t i = 0; i < count; i++) {
        lane[i % 4u] += static_cast<double>(scratch.share[i]);
    }
    return (lane[0] + lane[1]) + (lane[2] + lane[3]);
}

// A draw from the whole vocabulary: no nucleus, so no bins. Shares are summed by chunks of IDs,
// then the chunk in which they reach (1 - uniform) of the whole is walked.
AOTX_INLINE int32_t core_sample_whole(const SampleView& view, double uniform,
                                      SampleScratch* scratch)
{
    double mass = 0.0;
    for (uint32_t i = 0; i < kSampleChunks; i++) {
        scratch->chunk_mass[i] = 0.0;
    }
    for (uint32_t first = 0; first < view.vocab; first += kSampleChunkTokens) {
        const uint32_t chunk = first / kSampleChunkTokens;
        const uint32_t count = core_sample_shares(view, first, scratch);
        const double sum = core_sample_sum(*scratch, count);
        scratch->chunk_mass[chunk < kSampleChunks ? chunk : kSampleChunks - 1u] += sum;
        mass += sum;
    }
    const double target = mass * (1.0 - uniform);
    double sum = 0.0;
    uint32_t chunk = 0;
    while (chunk + 1u < kSampleChunks && sum + scratch->chunk_mass[chunk] < target) {
        sum += scratch->chunk_mass[chunk];
        chunk++;
    }
    // Rounding may leave the target a hair above the whole mass: then the last token with a share.
    int32_t last = -1;
    for (uint32_t first = chunk * kSampleChunkTokens; first < view.vocab;
         first += kSampleChunkTokens) {
        const uint32_t count = core_sample_shares(view, first, scratch);
        for (uint32_t i = 0; i < count; i++) {
            sum += static_cast<double>(scratch->share[i]);
            last = scratch->share[i] > 0.0f ? static_cast<int32_t>(first + i) : last;
            if (scratch->share[i] > 0.0f && sum >= target) {
                return last;
            }
        }
    }
    return last;
}

// Is (value, token) before (other_value, other_token): larger first, lower ID among equals?
AOTX_INLINE bool core_sample_before(float value, int32_t token, float other_value,
                                    int32_t other_token)
{
    return value > other_value || (value == other_value && token < other_token);
}

// The last token of a nucleus: a token belongs to it when it is not behind (value, token).
struct SampleLimit {
    uint32_t bin;
    float value;
    int32_t token;
    double mass;      // of the whole nucleus
    double bin_mass;  // of the part that lies in bin
};

constexpr uint32_t kSampleSubBins = kSampleBins;

// Bin of a distance inside its bin, for a closer look at the one bin that a limit crosses.
AOTX_INLINE uint32_t core_sample_sub_bin(float value, uint32_t bin)
{
    const float inside =
        (-value * kSampleBinsPerNat - static_cast<float>(bin)) * static_cast<float>(kSampleSubBins);
    if (!(inside >= 0.0f)) {
        return 0;
    }
    return inside < static_cast<float>(kSampleSubBins - 1u) ? static_cast<uint32_t>(inside)
                                                            : kSampleSubBins - 1u;
}

// The next tokens of one sub-bin in order, behind (after_value, after_token): at most
// kSampleCandidates of them, sorted. Returns how many.
AOTX_INLINE uint32_t core_sample_collect(const SampleView& view, uint32_t bin, uint32_t sub_bin,
                                         const SampleLimit& after, SampleScratch* scratch)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < view.vocab; i++) {
        const float value = core_sample_value(view, i);
        const int32_t token = static_cast<int32_t>(i);
        if (core_sample_bin(value) != bin || core_sample_sub_bin(value, bin) != sub_bin ||
            !core_sample_before(after.value, after.token, value, token)) {
            continue;
        }
        if (count == kSampleCandidates &&
            !core_sample_before(value, token, scratch->value[count - 1u],
                                scratch->token[count - 1u])) {
            continue;
        }
        uint32_t at = count < kSampleCandidates ? count++ : count - 1u;
        for (; at > 0 &&
               core_sample_before(value, token, scratch->value[at - 1u], scratch->token[at - 1u]);
             at--) {
            scratch->value[at] = scratch->value[at - 1u];
            scratch->token[at] = scratch->token[at - 1u];
        }
        scratch->value[at] = value;
        scratch->token[at] = token;
    }
    return count;
}

// Walk one sub-bin in order until limit->bin_mass reaches target, or to its end.
AOTX_INLINE void core_sample_walk(const SampleView& view, uint32_t sub_bin, double target,
                                  SampleLimit* limit, SampleScratch* scratch)
{
    SampleLimit after = {limit->bin, 1.0f, -1, 0.0, 0.0};
    for (;;) {
        const uint32_t count = core_sample_collect(view, limit->bin, sub_bin, after, scratch);
        for (uint32_t i = 0; i < count; i++) {
            limit->bin_mass += static_cast<double>(core_exp(scratch->value[i]));
            limit->value = scratch->value[i];
            limit->token = scratch->token[i];
            if (limit->bin_mass >= target) {
                return;
            }
        }
        if (count < kSampleCandidates) {
            return;
        }
        after.value = scratch->value[count - 1u];
        after.token = scratch->token[count - 1u];
    }
}

// Shares of the sub-bins of one bin.
AOTX_INLINE void core_sample_sub_bins(const SampleView& view, uint32_t bin, SampleScratch* scratch)
{
    for (uint32_t i = 0; i < kSampleSubBins; i++) {
        scratch->sub_mass[i] = 0.0;
    }
    for (uint32_t i = 0; i < view.vocab; i++) {
        const float value = core_sample_value(view, i);
        if (core_sample_bin(value) == bin) {
            scratch->sub_mass[core_sample_sub_bin(value, bin)] +=
                static_cast<double>(core_exp(value));
        }
    }
}

// The smallest set of the most likely tokens whose shares reach target.
AOTX_INLINE SampleLimit core_sample_nucleus(const SampleView& view, double target,
                                            SampleScratch* scratch)
{
    SampleLimit limit = {0, 0.0f, 0, 0.0, 0.0};
    uint32_t last = 0;
    for (uint32_t i = 0; i < kSampleBins; i++) {
        last = scratch->bin_mass[i] > 0.0 ? i : last;
    }
    double before = 0.0;
    while (limit.bin < last && before + scratch->bin_mass[limit.bin] < target) {
        before += scratch->bin_mass[limit.bin];
        limit.bin++;
    }
    core_sample_sub_bins(view, limit.bin, scratch);
    uint32_t last_sub = 0;
    for (uint32_t i = 0; i < kSampleSubBins; i++) {
        last_sub = scratch->sub_mass[i] > 0.0 ? i : last_sub;
    }
    const double inside = target - before;
    uint32_t sub = 0;
    while (sub < last_sub && limit.bin_mass + scratch->sub_mass[sub] < inside) {
        limit.bin_mass += scratch->sub_mass[sub];
        sub++;
    }
    core_sample_walk(view, sub, inside, &limit, scratch);
    limit.mass = before + limit.bin_mass;
    return limit;
}

// The token at which the shares of the nucleus reach target: bins from the best down, inside a bin
// by ID, because any fixed order draws alike and this one needs no sorting.
AOTX_INLINE int32_t core_sample_draw(const SampleView& view, const SampleLimit& limit,
                                     double target, const SampleScratch& scratch)
{
    uint32_t bin = 0;
    double sum = 0.0;
    while (bin < limit.bin && sum + scratch.bin_mass[bin] < target) {
        sum += scratch.bin_mass[bin];
        bin++;
    }
    // Rounding may leave the target a hair above the whole mass: then the last token of the bin.
    int32_t last = limit.token;
    for (uint32_t i = 0; i < view.vocab; i++) {
        const float value = core_sample_value(view, i);
        const int32_t token = static_cast<int32_t>(i);
        if (core_sample_bin(value) != bin ||
            core_sample_before(limit.value, limit.token, value, token)) {
            continue;
        }
        const double share = static_cast<double>(core_exp(value));
        sum += share;
        last = share > 0.0 ? token : last;
        if (share > 0.0 && sum >= target) {
            return token;
        }
    }
    return last;
}

// Choose a token. uniform in [0, 1). The vocabulary is never sorted: its shares fall into bins of
// distance from the best, and only a small part of the one bin that top_p crosses is ordered.
AOTX_INLINE int32_t core_sample(const float* logits, uint32_t vocab, float temperature, float top_p,
                                double uniform, SampleScratch* scratch)
{
    AOTX_CORE_CHECK(vocab > 0);
    const int32_t best = core_argmax(logits, vocab);
    if (!(temperature > 0.0f)) {
        return best;
    }
    const SampleView view = {logits, vocab, logits[best], 1.0f / temperature};
    if (view.best != view.best || view.inverse > 3.0e38f) {
        return best;
    }
    if (!(top_p < 1.0f)) {
        const int32_t token = core_sample_whole(view, uniform, scratch);
        return token < 0 ? best : token;
    }
    const double mass = core_sample_bins(view, scratch);
    const SampleLimit limit = core_sample_nucleus(view, mass * static_cast<double>(top_p), scratch);
    return core_sample_draw(view, limit, limit.mass * (1.0 - uniform), *scratch);
}

}  // namespace aotx
