// Purpose:  arguments of the transformer kernels, one struct a kernel: what the host writes once
// when the program is built. Everything that changes from step to step lies in device memory.
// Owns:     nothing; every pointer is device memory of the sealed layout.
// Thread:   built on the main thread, then constant.
// Lifetime: as long as the program.
#pragma once

#include "weights.h"

namespace aotx {

constexpr uint32_t kKvPageTokens = 16;
constexpr uint32_t kAttentionTile = 64;        // tokens that one block weighs at a time
constexpr uint32_t kAttentionSplits = 16;      // blocks that share a row's tokens: tile i to i % 16
constexpr uint32_t kAttentionHeadsMax = 16;    // query heads of one kv head
constexpr uint32_t kAttentionItemsMax = 2048;  // query heads of one kv head, times head size

// One token of a step. Rows of a step are dense; their count lies in device memory.
struct TextRow {
    int32_t token;
    uint32_t sequence;
    uint32_t position;  // in its sequence, from 0
    uint32_t zero_12;
};

// The paged cache: f16 [layers][pages][kv heads][key, value][page tokens][head size].
struct KvView {
    uint16_t* pages;
    const int32_t* page_table;  // [sequences][sequence_pages]
    uint32_t sequence_pages;
    uint32_t pages_count;
    uint32_t kv_heads;
    uint32_t head_size;
};

// What the host asks of one step, in mapped host memory, written before the launch.
struct StepOrder {
    uint32_t count;    // rows
    uint32_t wanted;   // rows of logits
    uint32_t changes;  // sequences whose page lists are new
    uint32_t zero_12;
    uint64_t number;  // of the step, given back when it is done
    uint64_t zero_24[5];
};

struct StepChange {
    uint32_t sequence;
    uint32_t pages;  // that it holds
};

struct StepTakeArgs {
    const StepOrder* order;          // host, as all that is named so
    const TextRow* host_rows;        // [count]
    const uint32_t* host_map;        // [wanted]
    const StepChange* host_changes;  // [changes]
    const int32_t* host_pages;       // [sequences][sequence_pages]
    TextRow* rows;
    uint32_t* map;
    uint32_t* counts;  // [2] of rows and of rows of logits
    int32_t* page_table;
    uint32_t sequence_pages;
    uint32_t zero_76;
};

struct StepGiveArgs {
    const StepOrder* order;  // host
    const float* logits;     // f32 [wanted][stride]
    const uint32_t* counts;
    uint32_t* ticket;     // zero between launches
    float* host_logits;   // f32 [wanted][stride]
    uint64_t* host_done;  // the order's number, when everything else is there
    uint32_t stride;      // a multiple of 4
    uint32_t zero_52;
};

struct EmbedArgs {
    WeightView table;
    const TextRow* rows;
    const uint32_t* count;
    float* output;  // f32 [rows][columns]
    float scale;
    uint32_t zero_52;
};

enum MatmulFinish : uint32_t {
    kFinishStore = 0,  // output = value
    kFinishAdd = 1,    // output += value
    kFinishUp = 2,     // output = silu(output) * value, where the gates were stored before
    kFinishGate = 3,   // rows of a tile are 8 gates and their 8 ups: output = silu(gate) * up
    kFinishQkv = 4     // rotate and append to the cache
};

struct MatmulArgs {
    WeightView weight;
    const float* input;         // f32 [rows][input_stride]
    const uint32_t* input_map;  // null, or which input row the n-th output row reads
    const uint32_t* count;      // rows of this step
    const float* norm;          // null, or f32 [columns]: the input is RMS-normed first
    float* output;              // f32 [rows][output_stride]
    uint32_t input_stride;
    uint32_t output_stride;
    uint32_t finish;
    float epsilon;
    // kFinishQkv alone:
    KvView kv;
    const TextRow* rows;
    const float* turns;   // f32 [positions][rope_size / 2][cosine, sine]
    const float* bias;    // null, or f32 [query, key and value rows]
    uint32_t row_offset;  // of this matrix in query, key, value rows
    uint32_t query_heads;
    uint32_t rope_size;
    uint32_t layer;
    float query_scale;
    uint32_t zero_164;
};

struct AttentionArgs {
    KvView kv;
    const float* query;  // f32 [rows][query_heads * head_size], scaled
    const TextRow* rows;
    const uint32_t* count;
    float* partial;     // f32 [rows][query_heads][splits][head_size + 2]
    uint32_t* tickets;  // [rows][kv_heads], zero between launches
    float* output;      // f32 [rows][query_heads * head_size]
    uint32_t query_heads;
    uint32_t layer;
};

// How the token of one row of logits is chosen, in mapped host memory.
struct StepChoice {
    float temperature;  // 0: the likeliest
    float top_p;
    double uniform;  // the draw, in [0, 1)
};

struct SampleArgs {
    const StepOrder* order;     // host
    const StepChoice* choices;  // host, [wanted]
    const float* logits;        // f32 [wanted][stride]
    const uint32_t* counts;
    uint32_t* ticket;     // zero between launches
    void* scratch;        // SampleScratch [blocks]
    int32_t* tokens;      // host, out
    uint64_t* host_done;  // the order's number, when every token is there
    uint32_t vocab;
    uint32_t stride;
};

constexpr uint32_t kSampleScratchBytes = 29184;  // of one row

}  // namespace aotx
