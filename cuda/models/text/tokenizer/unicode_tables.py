#!/usr/bin/env python3
"""Purpose:  write unicode_table.h, the character classes that pre-tokenizers ask for (Unicode 15.1).
Owns:     nothing; prints to standard output.
Thread:   one.
Lifetime: one run, by hand, when the Unicode version moves: python3 unicode_tables.py > unicode_table.h

Python's own database may be older than 15.1; LATER lists what versions 15.0 and 15.1 assigned (DerivedAge of the
Unicode Character Database), so that any Python with 14.0 or later writes the same file.
"""
import sys
import unicodedata

LAST = 0x10FFFF
CLASSES = {"N": 2, "L": 4, "Z": 8, "M": 16, "P": 32, "S": 64, "C": 128}
UNASSIGNED = 1
LATER = [  # first, last, major class
    (0x0CF3, 0x0CF3, "M"), (0x0ECE, 0x0ECE, "M"), (0x2FFC, 0x2FFF, "S"), (0x31EF, 0x31EF, "S"),
    (0x10EFD, 0x10EFF, "M"), (0x1123F, 0x11240, "L"), (0x11241, 0x11241, "M"), (0x11B00, 0x11B09, "P"),
    (0x11F00, 0x11F01, "M"), (0x11F02, 0x11F02, "L"), (0x11F03, 0x11F03, "M"), (0x11F04, 0x11F10, "L"),
    (0x11F12, 0x11F33, "L"), (0x11F34, 0x11F3A, "M"), (0x11F3E, 0x11F42, "M"), (0x11F43, 0x11F4F, "P"),
    (0x11F50, 0x11F59, "N"), (0x1342F, 0x1342F, "L"), (0x13439, 0x1343F, "C"), (0x13440, 0x13440, "M"),
    (0x13441, 0x13446, "L"), (0x13447, 0x13455, "M"), (0x1B132, 0x1B132, "L"), (0x1B155, 0x1B155, "L"),
    (0x1D2C0, 0x1D2D3, "N"), (0x1DF25, 0x1DF2A, "L"), (0x1E030, 0x1E06D, "L"), (0x1E08F, 0x1E08F, "M"),
    (0x1E4D0, 0x1E4EB, "L"), (0x1E4EC, 0x1E4EF, "M"), (0x1E4F0, 0x1E4F9, "N"), (0x1F6DC, 0x1F6DC, "S"),
    (0x1F774, 0x1F776, "S"), (0x1F77B, 0x1F77F, "S"), (0x1F7D9, 0x1F7D9, "S"), (0x1FA75, 0x1FA77, "S"),
    (0x1FA87, 0x1FA88, "S"), (0x1FAAD, 0x1FAAF, "S"), (0x1FABB, 0x1FABD, "S"), (0x1FABF, 0x1FABF, "S"),
    (0x1FACE, 0x1FACF, "S"), (0x1FADA, 0x1FADB, "S"), (0x1FAE8, 0x1FAE8, "S"), (0x1FAF7, 0x1FAF8, "S"),
    (0x2B739, 0x2B739, "L"), (0x2EBF0, 0x2EE5D, "L"), (0x31350, 0x323AF, "L"),
]


def classes():
    rows = []
    for code in range(LAST + 1):
        category = unicodedata.category(chr(code))
        rows.append(UNASSIGNED if category == "Cn" else CLASSES[category[0]])
    for first, last, major in LATER:
        for code in range(first, last + 1):
            rows[code] = CLASSES[major]
    return rows


def main():
    if tuple(map(int, unicodedata.unidata_version.split("."))) > (15, 1, 0):
        sys.exit("this Python knows characters that 15.1 did not: use an older one")
    rows = classes()
    starts = [code for code in range(LAST + 1) if code == 0 or rows[code] != rows[code - 1]]
    print("// Purpose:  character classes of Unicode 15.1; written by unicode_tables.py, not by hand.")
    print("// Owns:     nothing.")
    print("// Thread:   any.")
    print("// Lifetime: constant.")
    print("#pragma once")
    print()
    print("#include <cstdint>")
    print()
    print("namespace aotx {")
    print()
    print("// First character of a run << 8 | its class; a run ends where the next begins.")
    print(f"constexpr uint32_t kUnicodeRunsCount = {len(starts)};")
    print("// clang-format off")
    print("constexpr uint32_t kUnicodeRuns[kUnicodeRunsCount] = {")
    for row in range(0, len(starts), 8):
        print("    " + ", ".join(f"0x{code << 8 | rows[code]:08x}" for code in starts[row:row + 8]) + ",")
    print("};")
    print("// clang-format on")
    print()
    print("}  // namespace aotx")


main()
