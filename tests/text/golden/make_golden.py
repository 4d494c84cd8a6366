#!/usr/bin/env python3
"""Purpose:  write the golden tokenization of a model file: the strings of strings.py and what llama.cpp makes of each.
Owns:     the output file.
Thread:   one.
Lifetime: one run, by hand: make_golden.py MODEL.gguf smollm2_tokens.bin (needs the package llama-cpp-python).

The file: the bytes AOTXTOK1, u32 count, then per string u16 length << 2 | flags, u16 tokens, u32 FNV-1a of the token
numbers as little-endian i32, and the string's bytes. flags as in strings.py.
"""
import hashlib
import struct
import sys

import llama_cpp

import strings


def fnv(data):
    value = 0x811C9DC5
    for byte in data:
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return value


def main():
    model_path, out_path = sys.argv[1:3]
    model = llama_cpp.Llama(model_path=model_path, vocab_only=True, verbose=False)
    rows = list(strings.rows())
    out = bytearray(b"AOTXTOK1" + struct.pack("<I", len(rows)))
    for flags, text in rows:
        tokens = model.tokenize(text, add_bos=bool(flags & strings.ADD_START),
                                special=bool(flags & strings.PARSE_SPECIAL)) if text else []
        packed = struct.pack(f"<{len(tokens)}i", *tokens)
        out += struct.pack("<HHI", len(text) << 2 | flags, len(tokens), fnv(packed)) + text
    with open(out_path, "wb") as file:
        file.write(out)
    with open(model_path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    print(f"{len(rows)} strings, {len(out)} bytes; llama-cpp-python {llama_cpp.__version__}; model sha256 {digest}")


main()
