#!/usr/bin/env python3
"""Purpose:  the text runtime against llama.cpp on the same file with the same threads, round by round in one run.
Owns:     the peer's model and contexts.
Thread:   one, plus those of both engines.
Lifetime: one run of some minutes. Prints medians and ratios; docs/measured.md holds the figures.

usage: AOTX_BUILD=build AOTX_MODEL=file PYTHON tests/bench/peer_text.py [THREADS ...]
PYTHON is an interpreter with llama-cpp-python (built for this machine); the peer has no place in CI.
"""
import ctypes
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from aotx_service import build_dir, model_path  # noqa: E402

import llama_cpp  # noqa: E402

ROUNDS = int(os.environ.get("AOTX_BENCH_ROUNDS", "5"))
PROMPT, DECODE = 256, 64


class Peer:
    """llama.cpp through its C interface: the same tokens, the same batches, greedy."""

    def __init__(self, path):
        llama_cpp.llama_backend_init()
        self.model = llama_cpp.llama_model_load_from_file(str(path).encode(), llama_cpp.llama_model_default_params())
        self.vocab = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self.model))

    def context(self, threads, sequences):
        options = llama_cpp.llama_context_default_params()
        options.n_ctx = sequences * (PROMPT + DECODE + 32)
        options.n_batch, options.n_ubatch, options.n_seq_max = 512, 512, sequences
        options.n_threads = options.n_threads_batch = threads
        return llama_cpp.llama_init_from_model(self.model, options)

    def decode(self, context, rows):
        """rows: (token, position, sequence, wants logits)."""
        batch = llama_cpp.llama_batch_init(len(rows), 0, 1)
        batch.n_tokens = len(rows)
        for i, (token, position, sequence, wants) in enumerate(rows):
            batch.token[i], batch.pos[i], batch.n_seq_id[i] = token, position, 1
            batch.seq_id[i][0], batch.logits[i] = sequence, wants
        code = llama_cpp.llama_decode(context, batch)
        llama_cpp.llama_batch_free(batch)
        assert code == 0, code

    def run(self, threads, sequences):
        context = self.context(threads, sequences)
        prompt = [[100 + (s * 131 + i) * 2654435761 % 2**32 % (self.vocab - 200) for i in range(PROMPT)]
                  for s in range(sequences)]
        begin = time.monotonic()
        for s in range(sequences):
            self.decode(context, [(prompt[s][i], i, s, i == PROMPT - 1) for i in range(PROMPT)])
        prefill = time.monotonic() - begin
        tokens = [1] * sequences
        begin = time.monotonic()
        for step in range(DECODE):
            self.decode(context, [(tokens[s], PROMPT + step, s, True) for s in range(sequences)])
            llama_cpp.llama_synchronize(context)
        decode = time.monotonic() - begin
        llama_cpp.llama_free(context)
        return sequences * PROMPT / prefill, sequences * DECODE / decode


def own_run(threads, sequences, activations="quantised"):
    text = subprocess.run([str(build_dir() / "bin/bench_text"), str(build_dir() / "lib/libaotx_text_gguf.so"),
                           str(model_path()), str(threads), str(PROMPT), str(DECODE), str(sequences), activations],
                          check=True, capture_output=True, text=True).stdout
    answer = json.loads(text)
    return answer["prefill_per_second"], answer["decode_per_second"]


def main():
    peer = Peer(model_path())
    for threads in [int(word) for word in sys.argv[1:]] or [1, 2]:
        for sequences in (1, 4, 16):
            rows = [(own_run(threads, sequences), peer.run(threads, sequences)) for _ in range(ROUNDS)]
            for column, name in ((0, "prefill"), (1, "decode")):
                own = statistics.median(row[0][column] for row in rows)
                other = statistics.median(row[1][column] for row in rows)
                ratio = statistics.median(row[0][column] / row[1][column] for row in rows)
                print(f"{threads} threads, {sequences} sequences, {name}: own {own:.0f} tok/s, llama.cpp {other:.0f}, "
                      f"ratio {ratio:.2f}", flush=True)


if __name__ == "__main__":
    llama_cpp.llama_log_set(ctypes.cast(None, llama_cpp.llama_log_callback), ctypes.c_void_p(0))
    main()
