#!/usr/bin/env python3
"""Purpose:  write the seeds of the fuzz targets of this folder: model files, texts and chat formats.
Owns:     the files under corpus/ whose names begin with seed_; what fuzzing finds is added beside them by hand.
Thread:   one.
Lifetime: one run, by hand: python3 make_corpus.py
"""
import struct
from pathlib import Path

HERE = Path(__file__).parent / "corpus"
U32, STRING, ARRAY, BOOL, I32, F32 = 4, 8, 9, 7, 5, 6


def string(text):
    data = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(data)) + data


def key(name, kind, value):
    return string(name) + struct.pack("<I", kind) + value


def strings(name, values):
    return key(name, ARRAY, struct.pack("<IQ", STRING, len(values)) + b"".join(map(string, values)))


def numbers(name, kind, code, values):
    return key(name, ARRAY, struct.pack("<IQ", kind, len(values)) + struct.pack(f"<{len(values)}{code}", *values))


def tensor(name, kind, dims, offset):
    return string(name) + struct.pack("<I", len(dims)) + struct.pack(f"<{len(dims)}Q", *dims) + \
        struct.pack("<IQ", kind, offset)


def model(keys, tensors=(), data=b"", version=3, lie=0):
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors) + lie, len(keys)) + b"".join(keys) + b"".join(tensors)
    return head + (b"\0" * (-len(head) % 32) + data if tensors else b"")


def byte_spelling(byte):
    shown = [b for b in range(256) if 0x21 <= b <= 0x7E or 0xA1 <= b <= 0xAC or 0xAE <= b]
    hidden = [b for b in range(256) if b not in shown]
    return chr(byte if byte in shown else 256 + hidden.index(byte))


def byte_level(template):
    tokens = [byte_spelling(b) for b in range(256)] + ["<|im_start|>", "<|im_end|>", "he", "llo", "ll"]
    return [key("tokenizer.ggml.model", STRING, string("gpt2")), key("tokenizer.ggml.pre", STRING, string("llama-bpe")),
            strings("tokenizer.ggml.tokens", tokens),
            numbers("tokenizer.ggml.token_type", I32, "i", [1] * 256 + [3, 3] + [1] * 3),
            strings("tokenizer.ggml.merges", ["h e", "l l", "ll o"]),
            key("tokenizer.ggml.bos_token_id", U32, struct.pack("<I", 256)),
            key("tokenizer.chat_template", STRING, string(template))]


def pieces():
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)] + ["\u2581", "a", "b", "ab"]
    return [key("tokenizer.ggml.model", STRING, string("llama")), strings("tokenizer.ggml.tokens", tokens),
            numbers("tokenizer.ggml.scores", F32, "f", [-float(i) for i in range(len(tokens))]),
            numbers("tokenizer.ggml.token_type", I32, "i", [2, 3, 3] + [6] * 256 + [1] * 4),
            key("tokenizer.ggml.add_space_prefix", BOOL, b"\1")]


CHATML = "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>\\n' }}{% endfor %}"
FORMATS = [
    CHATML,
    "{%- set ns = namespace(a='', b=0) -%}{% for m in messages %}{% if loop.first and m.role == 'system' %}"
    "{% set ns.a = m.content | trim %}{% elif m.role != 'user' or not loop.last %}{{ m.content.strip() }}{% else %}"
    "{{ loop.index0 % 2 }}{{ m['content'][1:-1] | tojson }}{% endif %}{%- endfor %}{{ ns.a ~ ns.b }}",
    "{% macro f(a, b=1) %}<{{ a }}{{ b }}>{% endmacro %}{% set t %}{{ f('x', b=2) }}{% endset %}{{ t.split('x') | join }}",
    "{% if messages[0]['role'] == 'system' %}{% set l = messages[1:] %}{% else %}{% set l = messages[::-1] %}{% endif %}"
    "{% for m in l if m.content %}{% if m.content is string and 'q' not in m.content %}{{ m | tojson(indent=2) }}"
    "{% continue %}{% endif %}{{ raise_exception('no') }}{% endfor %}",
    "{# c -#}\n {{- {'a': [1, (2, 3)], 'b': none}['a'][1] | list | length -}} {%+ if tools is none +%}\n{% endif %}",
    "{{ strftime_now('%Y-%m-%d') ~ range(3) | map('string') | reject('equalto', '1') | join(',') | indent(2) | upper }}",
    "{{ 'a\\n\\t\\'b' \"c\" + bos_token.replace('|', '', 1) + (x | default('d')) if messages is iterable else eos_token }}",
    "{% for k, v in messages[0].items() %}{{ k.title() ~ v.lower().rsplit(' ', 1)[0] }}{% break %}{% endfor %}",
    "{{ (((((1 + 2) * 3) // 2) - -4) % 5) | int is divisibleby 2 }}{% generation %}{{ 'é😀'[1:] }}{% endgeneration %}",
    "{{ 1.5 }}", "{% include 'a' %}", "{{ x", "{% if %}", "{{ nothing.a }}",
]
TEXTS = [b"", b"hello world", b"I'm 12345 !!  \n\n x\r\n", "naïve 中文 かな ١٢٣ 😀\u3000\u00a0".encode(), b"\xff\xc3\x28\xed\xa0\x80",
         b"<|im_end|><|begin|><tool>a<|im_<|im_end|>", b"aaaaabababababbbaaab" * 8, b" " * 70, "▁a ▁▁b".encode(),
         b"HelloWorld'LL don't x=.abc/\n/`|<>", b"<s></s><unk><0x41>ab", b"hello" * 40]


def write(folder, rows):
    path = HERE / folder
    path.mkdir(parents=True, exist_ok=True)
    for number, row in enumerate(rows):
        (path / f"seed_{number:02d}").write_bytes(row)


def main():
    f32 = struct.pack("<8f", *range(8))
    good = [key("general.architecture", STRING, string("llama")), key("general.alignment", U32, struct.pack("<I", 32))]
    two = [tensor("a", 0, [4, 2], 0), tensor("b", 2, [32], 32)]
    write("gguf", [
        model(good, two, f32 + b"\0" * 32), model(byte_level(CHATML)), model(pieces()), model(good, version=2),
        model(byte_level(FORMATS[1])), model(good, two, f32), model(good + good), model(good, [two[0], two[0]], f32 * 2),
        model(good, [tensor("a", 0, [2**42 + 1, 2**22], 0)], f32), model(good, [tensor("a", 255, [4], 0)], f32),
        model([key("k", ARRAY, struct.pack("<IQ", ARRAY, 1) * 40)]), model([], lie=1 << 60), b"GGUF", b"",
        model([key("k", STRING, struct.pack("<Q", 1 << 63))]), model([key("k", BOOL, b"\2")]),
    ])
    write("tokenizer", [bytes([number % 9 | (number % 2) << 7]) + text
                        for number, text in enumerate(TEXTS + TEXTS[::-1] + TEXTS)])
    write("chat", [text.encode() for text in FORMATS])


main()
