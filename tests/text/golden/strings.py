#!/usr/bin/env python3
"""Purpose:  the strings over which tokenization is compared: reproducible from a seed, so only the results are kept.
Owns:     nothing.
Thread:   one.
Lifetime: imported by make_golden.py; `strings.py FILE` writes the strings for a reader in another language:
          per string u32 length, u32 flags (1 special tokens are parsed, 2 start and end are added), the bytes.

Every Unicode script that Python knows by character names, and the newer ones by their blocks; runs of blanks, digits,
contractions, emoji, broken UTF-8, code, and the spellings of special tokens. The generator is a plain 64-bit LCG, so
that it never changes with Python.
"""
import struct
import sys
import unicodedata

COUNT = 10500
PARSE_SPECIAL = 1
ADD_START = 2

WORDS = ("the of and to in is you that it he was for on are as with his they I at be this have from or one had by "
         "word but not what all were we when your can said there use an each which she do how their if will up "
         "other about out many then them these so some her would make like him into time has look two more write "
         "go see number no way could people my than first water been call who oil its now find long down day did "
         "get come made may part Straße naïve façade coöperate jalapeño Zürich Ångström œuvre smörgåsbord").split()
CONTRACTIONS = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'T", "'RE", "'Ve", "'lL", "’s", "'", "''", "'x",
                "'rE", "don't", "I'M", "we'LL", "'tis", "rock'n'roll"]
BLANKS = [" ", "  ", "   ", "\t", "\n", "\r\n", "\n\n", " \n", "\n ", "\u00a0", "\u2003", "\u3000", "\u0085", "\u200b",
          "\u2028", "\u2029", "\v", "\f", "\u1680", "\u202f", "\u205f", " \t ", "\n\n\n", "        ", "\r", "\r\r\n"]
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<s>", "</s>", "<unk>", "<|begin_of_text|>", "<|eot_id|>",
            "<|start_header_id|>", "<|end_header_id|>", "[INST]", "[/INST]", "<<SYS>>", "<start_of_turn>",
            "<end_of_turn>", "<bos>", "<eos>", "<repo_name>", "<file_sep>", "<jupyter_start>", "<|user|>",
            "<|assistant|>", "<|system|>", "<|im_start", "im_end|>", "<|im_start|><|im_start|>", "<|im_<|im_end|>",
            "<0x0A>", "<0xFF>", "<pad>", "<mask>", "\u2581", "\u2581the", "\u0120", "\u0120the", "[EMPTY_3]"]
EMOJI = ["\U0001f600", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea", "\u2764\ufe0f",
         "\U0001f44d\U0001f3fd", "\U0001f3f4\U000e0067\U000e0062\U000e007f", "\u263a", "\U0001fae8", "1\ufe0f\u20e3"]
DIGITS = ["0", "7", "42", "123", "1234", "12345", "1234567890", "3.14159", "1,000,000", "0x1F", "\u0661\u0662\u0663",
          "\u0967\u0968", "\u00bd", "\u2163", "\u2460", "\U0001d7d8", "1e-9", "2026-11-30", "192.168.0.1", "\u00b2\u00b3"]
CODE = ["int main(void) { return 0; }", "def f(x):\n    return x**2\n", "a[i]+=b[i]<<2;", "SELECT * FROM t WHERE a='b';",
        "{\"key\": [1, 2, null]}", "<div class=\"x\">&nbsp;</div>", "#include <stdio.h>\n\n", "x = y if z else w  # why",
        "\\frac{a}{b}", "$HOME/.config", "https://example.org/a?b=c&d=%20#e", "user@example.org", "C:\\Users\\x",
        "->", "=>", "!=", "===", "...", "--", "/* */", "//", "``", "```python\n", "~~", "^^", "|>", "<|", "||", "$$"]
BROKEN = [b"\x80", b"\xff", b"\xc3", b"\xe2\x82", b"\xf0\x9f\x98", b"\xc0\x80", b"\xed\xa0\x80", b"\xfe", b"\xc3\x28",
          b"\xe2\x28\xa1", b"\xf8\x88\x80\x80\x80", b"\xbf\xbf", b"abc\xffdef", b"\x00", b"\x01\x02\x7f"]

# Scripts of Unicode 15 and 16, whose names Python does not know yet: letters, marks and digits of each block.
NEWER = {"KAWI": (0x11F00, 0x11F59), "NAG": (0x1E4D0, 0x1E4F9), "TODHRI": (0x105C0, 0x105F3),
         "GARAY": (0x10D40, 0x10D85), "TULU": (0x11380, 0x113D5), "SUNUWAR": (0x11BC0, 0x11BF9),
         "GURUNG": (0x16100, 0x16139), "KIRAT": (0x16D40, 0x16D79), "OL": (0x1E5D0, 0x1E5FA)}


class Random:
    def __init__(self, seed):
        self.state = seed

    def below(self, limit):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) & 0xFFFFFFFFFFFFFFFF
        return (self.state >> 33) % limit

    def pick(self, rows):
        return rows[self.below(len(rows))]


def scripts():
    """Characters by the first word of their names, which is the script for most of them."""
    rows = {}
    for code in range(0x20, 0x110000):
        if 0xD800 <= code <= 0xDFFF or 0xE000 <= code <= 0xF8FF or code >= 0xF0000:
            continue
        name = unicodedata.name(chr(code), "")
        if name:
            rows.setdefault(name.split()[0].split("-")[0], []).append(chr(code))
    for key, (first, last) in NEWER.items():
        rows.setdefault(key + " NEWER", [chr(code) for code in range(first, last + 1)])
    return [rows[key] for key in sorted(rows)]


def phrase(random, families):
    kind = random.below(12)
    if kind == 0:
        return " ".join(random.pick(WORDS) for _ in range(1 + random.below(12)))
    if kind == 1:
        family = random.pick(families)
        return "".join(random.pick(family) for _ in range(1 + random.below(24)))
    if kind == 2:
        family = random.pick(families)
        return " ".join("".join(random.pick(family) for _ in range(1 + random.below(6)))
                        for _ in range(1 + random.below(6)))
    if kind == 3:
        return "".join(random.pick(BLANKS) for _ in range(1 + random.below(8)))
    if kind == 4:
        return random.pick(WORDS) + random.pick(CONTRACTIONS)
    if kind == 5:
        return random.pick(SPECIALS)
    if kind == 6:
        return "".join(random.pick(EMOJI) for _ in range(1 + random.below(4)))
    if kind == 7:
        return random.pick(DIGITS) + random.pick(["", " ", ".", "%", random.pick(DIGITS)])
    if kind == 8:
        return random.pick(CODE)
    if kind == 9:
        return chr(random.pick([0x21, 0x2E, 0x2D, 0x5F, 0x61, 0x41, 0x30, 0x3D, 0x4E00, 0xE9])) * (1 + random.below(70))
    if kind == 10:
        word = random.pick(WORDS)
        return random.pick([word.upper(), word.title(), word.swapcase(), word + random.pick(WORDS).title()])
    return random.pick(BLANKS) + random.pick(WORDS) + random.pick(BLANKS)


def rows():
    """(flags, bytes) of every string, in order."""
    random = Random(20261130)
    families = scripts()
    yield 0, b""
    yield ADD_START, b""
    # Every script once by itself, whole or its first 64 characters.
    for number, family in enumerate(families):
        text = "".join(family[:64]).encode()
        yield number % 4, text
    fixed = WORDS + CONTRACTIONS + BLANKS + SPECIALS + EMOJI + DIGITS + CODE
    for text in fixed:
        yield PARSE_SPECIAL, text.encode()
        yield 0, (text + text).encode()
        yield ADD_START, (" " + text + " ").encode()
    for text in BROKEN:
        yield 0, text
        yield PARSE_SPECIAL, b"caf\xc3\xa9 " + text + b" end"
    total = 2 + len(families) + 3 * len(fixed) + 2 * len(BROKEN)
    while total < COUNT:
        parts = []
        for _ in range(1 + random.below(6)):
            parts.append(phrase(random, families).encode())
            if random.below(2):
                parts.append(random.pick(BLANKS).encode())
            if random.below(40) == 0:
                parts.append(random.pick(BROKEN))
        yield random.below(4), b"".join(parts)
        total += 1


def main():
    with open(sys.argv[1], "wb") as out:
        for flags, text in rows():
            out.write(struct.pack("<II", len(text), flags) + text)


if __name__ == "__main__":
    main()
