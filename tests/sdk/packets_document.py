#!/usr/bin/env python3
"""Purpose:  docs/packets.md: every wire structure and enum, printed from the headers, so that it cannot drift.
Owns:     docs/packets.md.
Thread:   one.
Lifetime: one run; --check exits 1 when the document differs, --write replaces it.

Offsets and sizes are the ones that AOTX_FIELD asserts, so the compiler has proved them."""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = ROOT / "sdk/include/aotx"
DOCUMENT = ROOT / "docs/packets.md"
LEAD = """# Packets

Every structure and every value of the broker protocol. This page is printed from `sdk/include/aotx` by
`tests/sdk/packets_document.py --write`, and a test compares the two. What the fields are for, in which order a
packet is judged, and what each operation answers is in [protocol.md](protocol.md). Bytes of every kind of packet
stand in `tests/sdk/golden/`, and `aotxctl packet decode` reads any other.

All integers are little endian. A field named `zero_N` must be zero: receivers check it.
"""


def joined(comment):
    """A comment's words without its frame."""
    text = re.sub(r"^\s*/?\*+/?", "", comment, flags=re.M).replace("*/", "")
    return " ".join(text.split()).replace("|", "\\|")


def comment_above(text, at):
    """The comment that ends right above a position; only macro lines may lie between."""
    before = re.sub(r"(\n#define [^\n]*)+\n$", "\n", text[:at])
    found = re.search(r"/\*((?:(?!\*/).)*)\*/\s*$", before, re.S)
    return joined(found.group(0)) if found else ""


def members(body):
    """(declaration, comment) of every member, in order; a comment stands behind its member."""
    for line in re.finditer(r"^\s*([^\n/]+?)[;,]?\s*(?:/\*((?:(?!\*/).)*)\*/)?\s*$", body, re.M | re.S):
        if line.group(1).strip():
            yield line.group(1).strip(), joined(line.group(2) or "")


def enums(text):
    for found in re.finditer(r"^enum (\w+) \{(.*?)\};", text, re.M | re.S):
        name, body = found.groups()
        rows = []
        for value in re.finditer(r"(\w+)\s*=\s*(-?\w+),?(?:[ \t]*/\*((?:(?!\*/).)*)\*/)?", body, re.S):
            rows.append((value.group(2), value.group(1), joined(value.group(3) or "")))
        yield found.start(), f"### enum {name}", comment_above(text, found.start()), ("value", "name", ""), rows


def structs(text):
    asserted = {(t, f): (o, s) for t, f, o, s in re.findall(r"^AOTX_FIELD\((\w+), (\w+), (\d+), (\d+)\)", text, re.M)}
    for found in re.finditer(r"^typedef struct (\w+) \{(.*?)^\} \1;", text, re.M | re.S):
        name, body = found.groups()
        rows = []
        for declaration, comment in members(body):
            kind, field = re.fullmatch(r"(.+?)\s*(\w+)(?:\[\d+\])?", declaration).groups()
            offset, size = asserted.pop((name, field))
            count = re.search(r"\[\d+\]", declaration)
            rows.append((offset, size, f"`{field}`", kind + (count.group(0) if count else ""), comment))
        size = re.search(rf"^AOTX_SIZE\({name}, (\d+)\)", text, re.M).group(1)
        head = ("offset", "bytes", "field", "type", "")
        yield found.start(), f"### {name} ({size} bytes)", comment_above(text, found.start()), head, rows
    assert not asserted, f"fields without a member: {asserted}"


def section(title, file):
    text = (INCLUDE / file).read_text()
    out = [f"\n## {title}"]
    for _, heading, about, head, rows in sorted(list(enums(text)) + list(structs(text))):
        out += ["", heading, ""] + ([about, ""] if about else [])
        out += ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
        out += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(out) + "\n"


def document():
    return (LEAD + section("Packets and payloads", "packet.h") + section("The mapped ring", "mailbox.h") +
            section("Statuses", "status.h"))


def main():
    text = document()
    if sys.argv[1:] == ["--write"]:
        DOCUMENT.write_text(text)
        return 0
    if not DOCUMENT.is_file() or DOCUMENT.read_text() != text:
        print("docs/packets.md differs from the headers; tests/sdk/packets_document.py --write makes it anew")
        return 1
    print(f"docs/packets.md: {len(text.splitlines())} lines, as the headers say")
    return 0


if __name__ == "__main__":
    sys.exit(main())
