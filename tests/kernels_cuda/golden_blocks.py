"""Purpose:  write golden_blocks.txt: for every tensor type of a GGUF file one row of 512 weights, as the file's
          bytes and as the floats that the reference decoder of the `gguf` Python package (0.19) makes of them.
Owns:     nothing.
Thread:   one.
Lifetime: run by hand when a type is added: python golden_blocks.py > golden_blocks.txt
"""
import numpy
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType as Type
from gguf.quants import dequantize

TYPES = [Type.F32, Type.F16, Type.BF16, Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q8_0, Type.Q2_K, Type.Q3_K,
         Type.Q4_K, Type.Q5_K, Type.Q6_K]
# Offsets of the half-precision scales in a block: random bytes there could be infinities.
HALVES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
          "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}

random = numpy.random.default_rng(20240917)
for kind in TYPES:
    columns, size = GGML_QUANT_SIZES[kind]
    blocks = 512 // columns
    if kind == Type.F32:
        raw = random.normal(size=512).astype(numpy.float32).view(numpy.uint8)
    elif kind == Type.F16:
        raw = random.normal(size=512).astype(numpy.float16).view(numpy.uint8)
    elif kind == Type.BF16:
        raw = (random.normal(size=512).astype(numpy.float32).view(numpy.uint32) >> 16).astype(numpy.uint16).view(
            numpy.uint8)
    else:
        raw = random.integers(0, 256, size=(blocks, size), dtype=numpy.uint8)
        for offset in HALVES[kind.name]:
            scales = (random.normal(size=blocks) * 0.01).astype(numpy.float16)
            raw[:, offset:offset + 2] = scales.view(numpy.uint8).reshape(blocks, 2)
        raw = raw.reshape(-1)
    values = dequantize(raw.reshape(1, -1), kind).astype(numpy.float32).reshape(-1)
    print(kind.name, int(kind), raw.tobytes().hex(), values.astype("<f4").tobytes().hex())
