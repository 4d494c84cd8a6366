#!/usr/bin/env python3
"""Purpose:  the house rules that a machine can keep: who may include whom, what the hot rooms may use, how long
          a line and a function may be, what every file says at its top.
Owns:     nothing; reads the files that git tracks or would track.
Thread:   one.
Lifetime: one run; exit 0 when the tree keeps every rule, 1 with one line a breach.

`tidy.py --self-test` plants a breach of every rule in a scratch tree and fails unless each one is reported.
"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

TOP = {"CMakeLists.txt", "sdk", "service", "cuda", "cli", "tests", "packaging", "docs", "README.md", ".ci",
       ".gitignore", ".clang-format", "LICENSE"}
CODE = {".h", ".hpp", ".c", ".cpp", ".cu", ".cuh"}
COLUMNS_MAX = 100
FUNCTION_LINES_MAX = 70

# room -> folders of the project that its files may include, besides its own; sdk is reached as <aotx/...>.
ROOMS = {
    "sdk/include/aotx": ["aotx", "cuda/atomic"],
    "sdk/include/flashrt": ["flashrt"],
    "cuda/core": ["aotx"],
    "cuda/kernels": ["aotx", "flashrt", "cuda/core"],
    "cuda/exec": ["aotx", "flashrt"],
    "cuda/loop": ["aotx", "flashrt", "cuda/core", "cuda/kernels"],
    "cuda/models": ["aotx", "flashrt", "cuda/kernels", "cuda/loop/cuda_api.h", "cuda/loop/wait.h"],
    "service/base": ["aotx"],
    "service/config": ["aotx", "service/base"],
    "service/broker": ["aotx", "service/base", "service/config", "cuda/loop/loop.h", "flashrt"],
    "service/gateway": ["aotx", "service/base", "service/config"],
    "service/aotxd": ["aotx", "flashrt", "service", "cuda/loop"],
    "cli": ["aotx", "flashrt", "service/base", "service/config", "cuda/exec",
            "cuda/loop/runtime_status.h"],
}
# What conveniences in C++ (.hpp) of a room may include besides.
ROOMS_CPP = {"sdk/include/aotx": ["flashrt"]}
FOLDERS = ("aotx/", "flashrt/", "cuda/", "service/", "cli/", "tests/")

HOT = ("cuda/core/", "cuda/kernels/")
HEAP = re.compile(r"\b(malloc|calloc|realloc|free|strdup)\s*\(|\bnew\s+[A-Za-z_]|"
                  r"\bstd::(vector|string|function|map|unordered_map|deque|list|shared_ptr|make_unique)\b")
CORE_HEADERS = re.compile(r"#\s*include\s*<(?!cstdint|cstddef|stdint\.h|stddef\.h|aotx/|flashrt/|cuda/atomic)")
STRICT = ("cuda/", "service/")
THROWS = re.compile(r"\b(throw|try|dynamic_cast|typeid)\b")
BANNED = [
    (re.compile(r"\b(strcpy|strcat|sprintf|gets|strtok)\s*\("), "unbounded or hidden-state C string call"),
    (re.compile(r"#\s*include\s*<(assert\.h|cassert)>"), "assert vanishes in a release build; use the room's CHECK"),
    (re.compile(r"\b(TODO|FIXME|XXX|HACK)\b"), "leftover"),
    (re.compile(r"\b(usleep|sleep_for)\s*\("), "no timed poll in a service"),
]
LEAD = ("Purpose:", "Owns:", "Thread:", "Lifetime:")


def tracked(root):
    out = subprocess.run(["git", "-C", str(root), "ls-files", "-co", "--exclude-standard"],
                         capture_output=True, text=True, check=True)
    return [name for name in out.stdout.splitlines() if (root / name).is_file()]


def room_of(name):
    fitting = [room for room in ROOMS if name.startswith(room + "/")]
    return max(fitting, key=len) if fitting else None


def included_path(name, target):
    """The project path that an include names, or None for a library's header."""
    if target.startswith(FOLDERS):
        return target
    if "/" not in target:
        return None  # a neighbour in the same folder, or a system header
    return None


def include_breaches(name, text):
    room = room_of(name)
    if room is None:
        return
    may = ROOMS[room] + (ROOMS_CPP.get(room, []) if name.endswith(".hpp") else [])
    for number, line in enumerate(text.splitlines(), 1):
        found = re.match(r'\s*#\s*include\s*["<]([^">]+)[">]', line)
        if not found:
            continue
        path = included_path(name, found.group(1))
        if path is None or path.startswith(room + "/"):
            continue
        if not any(path == allowed or path.startswith(allowed + "/") for allowed in may):
            yield f"{name}:{number} {room} may not include {path}"


def bare(line):
    """A line without its string literals and its comment."""
    line = re.sub(r'"(\\.|[^"\\])*"', '""', line)
    line = re.sub(r"'(\\.|[^'\\])'", "''", line)
    return re.sub(r"//.*|/\*.*?\*/", "", line)


def code_lines(text):
    """(number, line without comments and strings) of every line outside block comments."""
    inside = False
    for number, line in enumerate(text.splitlines(), 1):
        if inside:
            if "*/" not in line:
                continue
            line = line.split("*/", 1)[1]
            inside = False
        line = bare(line)
        if "/*" in line:
            line = line.split("/*", 1)[0]
            inside = True
        yield number, line


def function_breaches(name, text):
    depth, start, opener = 0, None, ""
    for number, line in code_lines(text):
        opens, closes = line.count("{"), line.count("}")
        outer = re.match(r"\s*((inline\s+)?namespace\b|extern\b.*\{\s*$)", line)
        if outer and opens > closes:
            continue
        if depth == 0 and "(" in line and not line.lstrip().startswith("#"):
            opener = line.strip()[:60]
        if depth == 0 and opens > closes and not re.match(r"\s*(typedef\s+)?(struct|class|enum|union)\b", line):
            start = number if "=" not in line else None
        depth = max(depth + opens - closes, 0)
        if depth == 0 and start is not None:
            if number - start > FUNCTION_LINES_MAX:
                yield f"{name}:{start} function of {number - start} lines: {opener}"
            start = None


def line_breaches(name, text):
    strict = name.startswith(STRICT)
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > COLUMNS_MAX:
            yield f"{name}:{number} {len(line)} columns"
        if line.rstrip() != line:
            yield f"{name}:{number} trailing blanks"
    for number, line in code_lines(text):
        for pattern, why in BANNED:
            if pattern.search(line):
                yield f"{name}:{number} {why}: {line.strip()[:60]}"
        if strict and THROWS.search(line):
            yield f"{name}:{number} no exceptions or RTTI here: {line.strip()[:60]}"
        if name.startswith(HOT) and HEAP.search(line):
            yield f"{name}:{number} heap in a hot room: {line.strip()[:60]}"
        if name.startswith("cuda/core/") and CORE_HEADERS.search(line):
            yield f"{name}:{number} the core uses no library: {line.strip()[:60]}"


def lead_breaches(name, text):
    lead = text[:1500]
    missing = [word for word in LEAD if word not in lead]
    if missing:
        yield f"{name}:1 the file's lead lacks {' '.join(missing)}"


# State of a function that walks or builds a packet, never bytes that two programs exchange.
NO_LAYOUT = {"aotx_submit_builder", "aotx_submit_walker"}
DECLARES = re.compile(r"(typedef )?(struct|enum|class) \w+[^;]*\{$|enum class \w+[^;]*\{$")


def public_breaches(name, text):
    """Every field of a C structure has its layout asserted; what a public header declares has a comment above."""
    if not name.startswith("sdk/include/") or "/detail/" in name:
        return
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        if DECLARES.match(line) and not re.match(r"\s*(//.*|.*\*/|template.*)$", lines[number - 2]):
            yield f"{name}:{number} a public declaration has no comment"
    for found in re.finditer(r"^typedef struct (\w+) \{(.*?)^\} \1;", text, re.M | re.S):
        body = re.sub(r"/\*.*?\*/", "", found.group(2), flags=re.S)
        for member in ([] if found.group(1) in NO_LAYOUT else body.split(";")[:-1]):
            pointer = re.search(r"\(\*(\w+)\)\s*\(", member)
            field = pointer or re.search(r"(\w+)\s*(\[[^\]]*\]\s*)*$", member)
            if f"FIELD({found.group(1)}, {field.group(1)}," not in text:
                yield f"{name} {found.group(1)}.{field.group(1)} has no layout assert"


def check(root):
    rows = []
    for name in tracked(root):
        if name.split("/")[0] not in TOP:
            rows.append(f"{name} is not at home at the top")
        path = root / name
        if path.suffix not in CODE:
            continue
        text = path.read_text(errors="replace")
        rows += include_breaches(name, text)
        rows += line_breaches(name, text)
        rows += public_breaches(name, text)
        if not name.startswith("tests/"):
            rows += function_breaches(name, text)
            rows += lead_breaches(name, text)
    return rows


GOOD_LEAD = "// Purpose:  a.\n// Owns:     a.\n// Thread:   a.\n// Lifetime: a.\n"
PLANTED = [  # file, text, what the report must contain
    ("cuda/core/a.h", GOOD_LEAD + '#include "service/base/check.h"\n', "cuda/core may not include"),
    ("service/gateway/a.cpp", GOOD_LEAD + '#include "cuda/loop/loop.h"\n', "service/gateway may not include"),
    ("service/broker/a.cpp", GOOD_LEAD + '#include "cuda/core/core.h"\n', "service/broker may not include"),
    ("sdk/include/aotx/a.h", GOOD_LEAD + '#include "flashrt/exec.h"\n', "sdk/include/aotx may not include"),
    ("cuda/core/b.h", GOOD_LEAD + "#include <vector>\n", "the core uses no library"),
    ("cuda/kernels/a.h", GOOD_LEAD + "auto* p = malloc(4);\n", "heap in a hot room"),
    ("service/base/a.cpp", GOOD_LEAD + "void f() { throw 1; }\n", "no exceptions"),
    ("service/base/b.cpp", GOOD_LEAD + "#include <cassert>\n", "assert vanishes"),
    ("service/base/c.cpp", GOOD_LEAD + "int x = 0;  " + "y" * 100 + "\n", "columns"),
    ("service/base/d.cpp", GOOD_LEAD + "int x = 0; \n", "trailing blanks"),
    ("service/base/e.cpp", GOOD_LEAD + "int f(int a)\n{\n" + "    a++;\n" * 80 + "}\n", "function of 81 lines"),
    ("service/base/f.cpp", "int x = 0;\n", "lead lacks"),
    ("service/base/g.cpp", GOOD_LEAD + "int TODO = 0;\n", "leftover"),
    ("service/base/h.cpp", GOOD_LEAD + "void f() { usleep(5); }\n", "no timed poll"),
    ("sdk/include/aotx/b.h", GOOD_LEAD + "/* A. */\ntypedef struct a_s {\n    int (*f)(int a);\n} a_s;\n",
     "a_s.f has no layout assert"),
    ("sdk/include/aotx/c.h", GOOD_LEAD + "\ntypedef struct a_s {\n    int b;\n} a_s;\nAOTX_FIELD(a_s, b, 0, 4);\n",
     "no comment"),
    ("scratch/a.txt", "x\n", "not at home at the top"),
]


def self_test():
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        subprocess.run(["git", "init", "-q", str(root)], check=True)
        for name, text, _ in PLANTED:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        rows = check(root)
        for name, _, want in PLANTED:
            if not any(row.startswith(name) and want in row for row in rows):
                print(f"self-test: {name}: no report of '{want}'")
                failed += 1
        clean = root / "service/base/clean.cpp"
        clean.write_text(GOOD_LEAD + "int f(int a)\n{\n    return a; /* try to throw: only a comment */\n}\n")
        extra = [row for row in check(root) if "clean.cpp" in row]
        if extra:
            print("self-test: a clean file is reported:", extra)
            failed += 1
    print(f"tidy self-test: {len(PLANTED) + 1 - failed} of {len(PLANTED) + 1} hold")
    return 1 if failed else 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    rows = check(Path(__file__).resolve().parents[2])
    for row in rows:
        print(row)
    print(f"tidy: {len(rows)} breaches")
    return 1 if rows else 0


if __name__ == "__main__":
    sys.exit(main())
