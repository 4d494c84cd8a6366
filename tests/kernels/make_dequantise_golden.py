#!/usr/bin/env python3
"""Record golden/dequantise.txt: random blocks of every weight type and the floats they stand for.

usage: make_dequantise_golden.py OUT
Needs the gguf Python package (its numpy dequantisers are the judge); never part of CI.
A line: type number, name, the bytes of two blocks in hex, then their values as hex floats.
"""
import sys

import gguf
import numpy as np

TYPES = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K",
         "Q5_K", "Q6_K"]
# Where the f16 scales of a block lie.
SCALES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82],
          "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}


def blocks(name, random):
    elements, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]]
    if elements == 1:
        values = random.standard_normal(32).astype(np.float32)
        if name == "F16":
            return values.astype(np.float16).view(np.uint8)
        if name == "BF16":
            return (values.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
        return values.view(np.uint8)
    data = random.integers(0, 256, (2, size), dtype=np.uint8)
    for at in SCALES[name]:
        scales = (random.standard_normal(2) * 0.05).astype(np.float16)
        data[:, at:at + 2] = scales.view(np.uint8).reshape(2, 2)
    return data.reshape(-1)


def main(path):
    random = np.random.default_rng(20)
    with open(path, "w", encoding="ascii") as out:
        out.write("# Recorded by make_dequantise_golden.py with the gguf Python package.\n")
        for name in TYPES:
            kind = gguf.GGMLQuantizationType[name]
            data = blocks(name, random)
            values = gguf.quants.dequantize(data, kind).reshape(-1)
            words = " ".join("%.9g" % value for value in values)
            out.write("%d %s %s %s\n" % (kind.value, name, data.tobytes().hex(), words))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
