#!/usr/bin/env python3
"""Record what llama.cpp answers, and how far it is from F32.

usage: make_golden.py MODEL REFERENCE OUT STATES
  MODEL      the GGUF file
  REFERENCE  the program text_reference of this build
  OUT        tests/text/golden/numerics.txt
  STATES     tests/text/golden/numerics_states.bin
Needs llama-cpp-python and numpy; runs for many minutes; never part of CI.

For every prompt: the tokens, 64 greedy tokens of llama.cpp (one thread, 512-token batches), and for
each of those 64 positions the largest difference between llama.cpp's logits and those of a plain
F32 computation of the same dequantised weights, over the 16 likeliest tokens of the latter. For the
first and the last position also, over the whole vocabulary, the largest difference and the root of
the mean square, and in STATES what F32 multiplies with the output matrix there: f32, little endian,
[prompts][2][embedding]. From a state anyone computes all F32 logits of its position.
"""
import hashlib
import subprocess
import sys
import tempfile

import llama_cpp
import numpy as np

ANSWER_TOKENS = 64
TOP = 16
WHOLE = (0, ANSWER_TOKENS - 1)  # positions compared over the whole vocabulary
SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"

CHAT = [
    "What is the capital of France?",
    "Name three rivers of Europe.",
    "Explain in two sentences why the sky is blue.",
    "Write a haiku about a lighthouse in winter.",
    "How many legs do six spiders have together?",
    "Translate to German: The train arrives at noon.",
    "List the planets of the solar system in order.",
    "What does a compiler do?",
    "Give me a recipe for pancakes.",
    "Who wrote the play Hamlet?",
    "Sort these numbers: 14, 3, 99, 27, 8.",
    "What is the difference between a list and a tuple in Python?",
    "Tell me a short story about a clockmaker.",
    "Why do cats purr?",
    "Quelle est la capitale de l'Italie ?",
    "Erkläre mir bitte, was ein Vulkan ist.",
    "¿Cuántos días tiene un año bisiesto?",
    "Какая планета самая большая?",
    "请用一句话介绍长城。",
    "日本の首都はどこですか。",
    "ما هي عاصمة مصر؟",
    "भारत की राजधानी क्या है?",
    "Ποια είναι η πρωτεύουσα της Ελλάδας;",
    "한국의 수도는 어디입니까?",
    "What do these mean: 🙂🚀🌧️?",
    "Answer with one emoji: how is the weather? ☀️🌧️❄️",
    "hi",
    "Write a C function that reverses a string in place.",
]

RAW = [
    "The quick brown fox",
    "Once upon a time, in a village by the sea,",
    "def fibonacci(n):\n    ",
    "import os\nimport sys\n\ndef main():\n",
    "1, 2, 3, 5, 8, 13,",
    "Dear Sir or Madam,\n\nI am writing to",
    "# Installation\n\nTo install the package, run",
    "<html>\n<head>\n<title>",
    "SELECT name, age FROM people WHERE",
    "In 1969, the first",
    "La pluie tombait sur les toits de",
    "Es war einmal ein König, der",
    "В начале было",
    "昔々あるところに",
    "😀 😃 😄 😁",
    "a",
    "The ingredients are:\n- flour\n- sugar\n-",
    "   leading spaces and\ttabs\n\n\nand lines",
]


def long_text(seed, words_count):
    """Our own sentences in a fixed order that depends on the seed, without repetition in a row."""
    subjects = ["The miller", "A young engineer", "The harbour master", "My neighbour",
                "The old teacher", "A travelling clockmaker", "The night watch", "Her brother"]
    verbs = ["repaired", "described", "counted", "painted", "measured", "forgot", "carried", "sold"]
    objects = ["seven lanterns", "a wooden bridge", "the northern road", "two sacks of grain",
               "an unfinished map", "the bell of the tower", "a letter without a name",
               "the smallest boat"]
    ends = ["before the rain came", "while the market was open", "although nobody had asked",
            "in the second week of May", "because the winter had been long",
            "after the ferry had left", "with great care", "for the third time"]
    text = []
    state = seed
    count = 0
    while count < words_count:
        state = (state * 1103515245 + 12345) % (1 << 31)
        pick = [(state >> shift) % 8 for shift in (4, 9, 14, 19)]
        sentence = "%s %s %s %s." % (subjects[pick[0]], verbs[pick[1]], objects[pick[2]],
                                     ends[pick[3]])
        count += len(sentence.split())
        text.append(sentence)
    return " ".join(text)


def chat(user, system=SYSTEM):
    return ("<|im_start|>system\n%s<|im_end|>\n<|im_start|>user\n%s<|im_end|>\n"
            "<|im_start|>assistant\n" % (system, user))


def prompts():
    for i, text in enumerate(CHAT):
        yield "chat-%02d" % i, chat(text)
    for i, text in enumerate(RAW):
        yield "raw-%02d" % i, text
    yield "chat-system", chat("Greet me.", "You answer in rhymes and never use the letter z.")
    yield "chat-turns", (chat("My name is Ada.") + "Hello Ada!<|im_end|>\n<|im_start|>user\n"
                         "What is my name?<|im_end|>\n<|im_start|>assistant\n")
    yield "raw-medium", long_text(1, 200)
    yield "chat-medium", chat("Summarise this text.\n\n" + long_text(2, 240))
    yield "raw-long", long_text(3, 940)
    yield "chat-long", chat("Summarise this text in one sentence.\n\n" + long_text(4, 960))
    yield "chat-long-question", chat(long_text(5, 930) + "\n\nWho is named first above?")


def answer(model, tokens):
    """Greedy tokens and, for each, the logits that it was chosen from."""
    model.reset()
    vocab = model.n_vocab()
    model.eval(tokens)
    chosen = []
    logits = np.empty((ANSWER_TOKENS, vocab), dtype=np.float32)
    for i in range(ANSWER_TOKENS):
        logits[i] = np.ctypeslib.as_array(model._ctx.get_logits(), shape=(vocab,))
        chosen.append(int(np.argmax(logits[i])))
        if i + 1 < ANSWER_TOKENS:
            model.eval([chosen[-1]])
    return chosen, logits


def record(out, name, tokens, chosen, peer, exact):
    deviations = []
    for i in range(ANSWER_TOKENS):
        top = np.argsort(-exact[i], kind="stable")[:TOP]
        deviations.append(float(np.max(np.abs(peer[i][top] - exact[i][top]))))
    out.write("prompt %s\n" % name)
    out.write("tokens %d %s\n" % (len(tokens), " ".join(map(str, tokens))))
    out.write("greedy %d %s\n" % (len(chosen), " ".join(map(str, chosen))))
    out.write("deviation %d %s\n" % (len(deviations), " ".join("%.6g" % d for d in deviations)))
    for i in WHOLE:
        difference = peer[i].astype(np.float64) - exact[i]
        out.write("peer %d %.9g %.9g\n" % (i, np.max(np.abs(difference)),
                                          np.sqrt(np.mean(difference * difference))))
    out.flush()


def main(model_path, reference, out_path, states_path):
    model = llama_cpp.Llama(model_path, n_ctx=2048, n_threads=1, n_threads_batch=1, n_batch=512,
                            n_ubatch=512, verbose=False)
    with open(model_path, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    with open(out_path, "w", encoding="ascii") as out, open(states_path, "wb") as states_out, \
            tempfile.TemporaryDirectory() as folder:
        out.write("# Recorded by tests/text/numerics/make_golden.py with llama-cpp-python %s.\n"
                  % llama_cpp.__version__)
        out.write("# Model sha256 %s\n" % digest)
        for name, text in prompts():
            tokens = model.tokenize(text.encode("utf-8"), add_bos=False, special=True)
            chosen, peer = answer(model, tokens)
            fed = tokens + chosen[:-1]
            line = "%d %d %s\n" % (len(tokens) - 1, len(fed), " ".join(map(str, fed)))
            subprocess.run([reference, model_path, folder + "/logits", folder + "/states"],
                           input=line.encode(), check=True)
            exact = np.fromfile(folder + "/logits", dtype=np.float32)
            states = np.fromfile(folder + "/states", dtype=np.float32).reshape(ANSWER_TOKENS, -1)
            states[list(WHOLE)].tofile(states_out)
            record(out, name, tokens, chosen, peer, exact.reshape(ANSWER_TOKENS, -1))
            print(name, len(tokens), flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])
