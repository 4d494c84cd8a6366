// Purpose:  find the special tokens of a text, longest spelling first, as the reference does: each
//           spelling in turn claims its occurrences from left to right in what is still free.
// Owns:     nothing.
// Thread:   any, one scratch each.
// Lifetime: one text.
#include <cstring>

#include "reason.h"
#include "tokenizer/tokenizer_tables.h"

namespace aotx {

namespace {

// Blanks of the C locale, which strip left and right.
bool is_blank(char byte) noexcept
{
    return byte == ' ' || (byte >= 9 && byte <= 13);
}

// Whether the text of this token may become it at this place.
bool allowed(const TokenizerTables& tables, uint32_t token, const TextInput& input,
             uint32_t begin) noexcept
{
    const uint16_t kind = tables.kinds[token];
    const bool special = (kind & (kKindControl | kKindUnknown)) != 0;
    if (input.marks == nullptr) {
        return !special || input.parse_special;
    }
    if (!special && (kind & kKindStructure) == 0) {
        return true;
    }
    const size_t bytes = tables.texts[token].size();
    return std::memchr(input.marks + begin, kTextMarkUser, bytes) == nullptr;
}

// Spellings in by_text order that share the first `depth` bytes with the text at one place.
struct Range {
    uint32_t low;
    uint32_t high;
};

int byte_at(const TokenizerTables& tables, uint32_t row, uint32_t depth) noexcept
{
    const std::string_view text =
        tables.text(static_cast<uint32_t>(tables.specials[tables.specials_by_text[row]]));
    return depth < text.size() ? static_cast<uint8_t>(text[depth]) : -1;
}

// First row of the range whose byte at depth is at least `byte`.
uint32_t lower_row(const TokenizerTables& tables, Range range, uint32_t depth, int byte) noexcept
{
    while (range.low < range.high) {
        const uint32_t middle = range.low + (range.high - range.low) / 2;
        if (byte_at(tables, middle, depth) < byte) {
            range.low = middle + 1;
        } else {
            range.high = middle;
        }
    }
    return range.low;
}

// Note every spelling that occurs at `place` in seen. True when there is one.
bool note_place(const TokenizerTables& tables, const TextInput& input, uint32_t place,
                uint64_t* seen) noexcept
{
    bool any = false;
    const int first = static_cast<uint8_t>(input.text[place]);
    Range range = {tables.special_first[first], tables.special_first[first + 1]};
    for (uint32_t depth = 1; range.low < range.high; depth++) {
        // Rows that end here sort first.
        while (range.low < range.high && byte_at(tables, range.low, depth) < 0) {
            const uint32_t order = tables.specials_by_text[range.low];
            seen[order / 64] |= UINT64_C(1) << (order % 64);
            any = true;
            range.low++;
        }
        if (place + depth >= input.bytes) {
            break;
        }
        const int byte = static_cast<uint8_t>(input.text[place + depth]);
        const uint32_t low = lower_row(tables, range, depth, byte);
        range.high = lower_row(tables, {low, range.high}, depth, byte + 1);
        range.low = low;
    }
    return any;
}

void take_blanks(const TextInput& input, uint32_t begin, uint32_t end, uint16_t kind,
                 TokenizerScratchMemory* scratch) noexcept
{
    if ((kind & kKindStripLeft) != 0) {
        for (uint32_t i = begin; i > 0; i--) {
            if (scratch->taken[i - 1] != 0 || !is_blank(input.text[i - 1])) {
                break;
            }
            scratch->taken[i - 1] = 1;
        }
    }
    if ((kind & kKindStripRight) != 0) {
        for (uint32_t i = end; i < input.bytes; i++) {
            if (scratch->taken[i] != 0 || !is_blank(input.text[i])) {
                break;
            }
            scratch->taken[i] = 1;
        }
    }
}

// Claim the free occurrences of one token from left to right.
void claim(const TokenizerTables& tables, uint32_t token, const TextInput& input,
           TokenizerScratchMemory* scratch) noexcept
{
    const std::string_view text = tables.text(token);
    const uint32_t bytes = static_cast<uint32_t>(text.size());
    uint32_t place = 0;
    while (place + bytes <= input.bytes) {
        const void* const found =
            memmem(input.text + place, input.bytes - place, text.data(), text.size());
        if (found == nullptr) {
            return;
        }
        place = static_cast<uint32_t>(static_cast<const char*>(found) - input.text);
        const bool free = std::memchr(scratch->taken + place, 1, bytes) == nullptr;
        if (!free || !allowed(tables, token, input, place)) {
            place++;
            continue;
        }
        std::memset(scratch->taken + place, 1, bytes);
        scratch->special_at[place] = static_cast<int32_t>(token);
        take_blanks(input, place, place + bytes, tables.kinds[token], scratch);
        place += bytes;
    }
}

}  // namespace

void find_specials(const TokenizerTables& tables, const TextInput& input,
                   TokenizerScratchMemory* scratch) noexcept
{
    AOTX_TEXT_CHECK(input.bytes <= scratch->text_bytes_max);
    std::memset(scratch->taken, 0, input.bytes);
    std::memset(scratch->special_at, 0xff, input.bytes * sizeof(int32_t));
    uint64_t* const seen = scratch->special_seen;
    const uint32_t words = (tables.specials_count + 63) / 64;
    std::memset(seen, 0, words * sizeof(uint64_t));
    bool any = false;
    for (uint32_t place = 0; place < input.bytes; place++) {
        any |= note_place(tables, input, place, seen);
    }
    if (!any) {
        return;
    }
    for (uint32_t order = 0; order < tables.specials_count; order++) {
        if ((seen[order / 64] >> (order % 64) & 1) != 0) {
            claim(tables, static_cast<uint32_t>(tables.specials[order]), input, scratch);
        }
    }
}

}  // namespace aotx
