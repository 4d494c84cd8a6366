#!/usr/bin/env python3
"""Purpose:  compare our tokenizer with llama.cpp's over any model or vocabulary file: every token's bytes and flags, and
          the strings of strings.py. --pre NAME compares under another pre-tokenizer than the file names.
Owns:     files in a temporary folder.
Thread:   one.
Lifetime: one run, by hand: compare_peer.py DUMP_TOKENS MODEL.gguf... [--pre NAME]... (needs llama-cpp-python)
"""
import argparse
import ctypes
import struct
import subprocess
import tempfile
from pathlib import Path

import llama_cpp

import strings

PIECE_BYTES = 4096
ATTR_UNKNOWN, ATTR_CONTROL = 1, 8
END, CONTROL = 1, 2
PRE = b"tokenizer.ggml.pre"


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, form):
        value = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return value

    def bytes(self, count):
        self.at += count
        return self.data[self.at - count:self.at]


def with_pre(path, pre, folder):
    """A copy of a vocabulary-only file that names another pre-tokenizer."""
    data = Path(path).read_bytes()
    at = data.index(struct.pack("<Q", len(PRE)) + PRE) + 8 + len(PRE) + 4
    length, = struct.unpack_from("<Q", data, at)
    copy = folder / f"{Path(path).stem}-{pre}.gguf"
    copy.write_bytes(data[:at] + struct.pack("<Q", len(pre)) + pre.encode() + data[at + 8 + length:])
    return copy


def compare(dump, path, rows, folder):
    done = subprocess.run([dump, str(path), str(folder / "strings"), str(folder / "out")], capture_output=True, text=True)
    if done.returncode:
        return print(f"{path}: {done.stderr.strip()}")
    reader = Reader((folder / "out").read_bytes())
    model = llama_cpp.Llama(model_path=str(path), vocab_only=True, verbose=False)
    vocab = llama_cpp.llama_model_get_vocab(model._model.model)
    size, = reader.take("<I")
    wrong_tokens = int(size != llama_cpp.llama_vocab_n_tokens(vocab))
    buffer = ctypes.create_string_buffer(PIECE_BYTES)
    for token in range(size):
        flags, length = reader.take("<II")
        ours = reader.bytes(length)
        count = llama_cpp.llama_token_to_piece(vocab, token, buffer, PIECE_BYTES, 0, True)
        attributes = llama_cpp.llama_vocab_get_attr(vocab, token)
        want = (END if llama_cpp.llama_vocab_is_eog(vocab, token) else 0) | \
            (CONTROL if attributes & (ATTR_UNKNOWN | ATTR_CONTROL) else 0)
        wrong_tokens += int(flags != want or ours != buffer.raw[:max(count, 0)])
    wrong_strings = 0
    for flags, text in rows:
        count, = reader.take("<I")
        ours = list(reader.take(f"<{count}i")) if count != 0xFFFFFFFF else None
        room = 2 * len(text) + 16
        theirs = (llama_cpp.llama_token * room)()
        count = llama_cpp.llama_tokenize(vocab, text, len(text), theirs, room, bool(flags & strings.ADD_START),
                                         bool(flags & strings.PARSE_SPECIAL))
        if ours != list(theirs[:count]):
            wrong_strings += 1
            if wrong_strings <= 5:
                print(f"  {text!r}: {ours} instead of {list(theirs[:count])}")
    print(f"{path}: {size} tokens, {wrong_tokens} differ; {len(rows)} strings, {wrong_strings} differ")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("dump")
    parser.add_argument("models", nargs="+")
    parser.add_argument("--pre", action="append", default=[])
    arguments = parser.parse_args()
    rows = list(strings.rows())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with open(folder / "strings", "wb") as out:
            for flags, text in rows:
                out.write(struct.pack("<II", len(text), flags) + text)
        for path in arguments.models:
            for copy in [with_pre(path, pre, folder) for pre in arguments.pre] or [path]:
                compare(arguments.dump, copy, rows, folder)


main()
