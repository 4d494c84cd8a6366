// Purpose:  every kind of weight on a card, through the whole text runtime, on small random models.
// Owns:     a model file in the temporary folder, for one kind each.
// Thread:   main and the runtimes' own.
// Lifetime: one run.
#include <unistd.h>

#include <cstring>

#include "device_text.h"
#include "tests/text/numerics/tiny_model.h"

using aotx::WeightType;
using aotx_test::TinyModel;
using aotx_test::TinyShape;

namespace {

// Random weights make attention much sharper than trained ones, so 16-bit keys show more.
constexpr double kTolerance = 4e-2;

std::string model_write(WeightType type)
{
    const bool wide = aotx::weight_format(type).source_elements == 256;
    TinyShape shape = {"llama", type, type, 64, 96, 4, 2, 16, 16, false, false, false, 1.0f};
    if (wide) {
        shape.embedding = 256;
        shape.feed_forward = 512;
        shape.head_size = 64;
        shape.rotated = 64;
    }
    const TinyModel model(shape, 5, true);
    const char* const folder = std::getenv("TMPDIR");
    std::string path = std::string(folder == nullptr ? "/tmp" : folder) + "/aotx_kind_XXXXXX";
    const int fd = mkstemp(path.data());
    const ssize_t bytes = static_cast<ssize_t>(model.bytes());
    if (fd < 0 || write(fd, model.data(), model.bytes()) != bytes) {
        std::printf("no file for a model\n");
        std::exit(1);
    }
    close(fd);
    return path;
}

std::vector<int32_t> tokens_make(uint32_t count, uint32_t seed)
{
    std::vector<int32_t> tokens;
    for (uint32_t i = 0; i < count; i++) {
        tokens.push_back(static_cast<int32_t>((seed + i * 37u) % TinyModel::kVocab));
    }
    return tokens;
}

void open_sequence(const Runtime& runtime, uint32_t sequence)
{
    must(runtime.text->sequence_open(runtime.text->self, sequence, 80), "sequence_open");
}

// A prompt, then single tokens, on both: from the wide products to the narrow ones.
void check_logits(const Runtime& cpu, const Runtime& card, Judged* judged)
{
    open_sequence(cpu, 0);
    open_sequence(card, 0);
    std::vector<int32_t> next = tokens_make(43, 11);
    for (uint32_t i = 0; i < 4; i++) {
        const float* const want = cpu.feed(0, next);
        next = {judge(want, card.feed(0, next), cpu.vocab(), judged)};
    }
    must(cpu.text->sequence_close(cpu.text->self, 0), "sequence_close");
    must(card.text->sequence_close(card.text->self, 0), "sequence_close");
}

// The same tokens alone, and in a step with two others. True: the same bits.
bool check_company(const Runtime& card)
{
    const uint32_t vocab = card.vocab();
    const std::vector<int32_t> tokens = tokens_make(5, 3);
    const std::vector<int32_t> others = tokens_make(30, 8);
    open_sequence(card, 0);
    const float* const at = card.feed(0, tokens);
    const std::vector<float> alone(at, at + vocab);
    for (uint32_t sequence = 1; sequence < 4; sequence++) {
        open_sequence(card, sequence);
    }
    aotx_text_row rows[3] = {{1, 30, others.data(), 1, 0, nullptr},
                             {2, 5, tokens.data(), 1, 0, nullptr},
                             {3, 1, others.data(), 1, 0, nullptr}};
    must(card.text->step(card.text->self, rows, 3), "step");
    const bool same = std::memcmp(rows[1].logits, alone.data(), vocab * sizeof(float)) == 0;
    for (uint32_t sequence = 0; sequence < 4; sequence++) {
        must(card.text->sequence_close(card.text->self, sequence), "sequence_close");
    }
    return same;
}

}  // namespace

int check_kinds()
{
    const std::string common =
        "\"threads\":2,\"sequences\":4,\"kv_tokens\":512,\"step_tokens\":64,";
    uint32_t kinds = 0;
    uint32_t bad = 0;
    double worst = 0;
    for (const WeightType type : aotx_test::kAllTypes) {
        const std::string path = model_write(type);
        Judged judged;
        bool same = false;
        {
            const Runtime cpu(path, common + "\"activations\":\"float\"");
            const Runtime card(path, common + "\"device\":\"" + device_name() + "\"");
            check_logits(cpu, card, &judged);
            same = check_company(card);
        }
        unlink(path.c_str());
        kinds++;
        worst = judged.deviation <= worst ? worst : judged.deviation;
        if (!(judged.deviation <= kTolerance) || !same) {
            bad++;
            std::printf("type %u: deviation %.1e, %s bits in company\n",
                        static_cast<uint32_t>(type), judged.deviation, same ? "same" : "other");
        }
    }
    std::printf("%u kinds, %u bad; largest deviation %.1e of %.0e allowed\n", kinds, bad, worst,
                kTolerance);
    return bad == 0 && kinds > 0 ? 0 : 1;
}
