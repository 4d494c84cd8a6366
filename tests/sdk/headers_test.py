#!/usr/bin/env python3
"""Purpose:  the SDK's headers under strict compilers: each alone, twice, first, last, inside a user's extern "C", after
          macros named min and max, linked from two files; and one table of sizes, alignments and offsets from all.
Owns:     a scratch folder.
Thread:   compilers run on as many threads as there are CPUs.
Lifetime: one run; exit 0 when everything holds, 77 when the compiler that was asked for is not there.

headers_test.py host|nvcc|self-test [header folder]
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WARNINGS = "-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wundef -Werror".split()
C_STANDARDS = ("c11", "c17")
CPP_STANDARDS = ("c++17", "c++20", "c++2b")
SKIPPED = 77
failures = []


def headers(include, suffix):
    found = sorted(str(path.relative_to(include)) for path in include.rglob("*" + suffix))
    assert found, f"no {suffix} under {include}"
    return found


def run(command, what):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0 or done.stderr.strip():
        failures.append(f"{what}\n  {' '.join(map(str, command))}\n{done.stderr[:2000]}")
        return None
    return done.stdout


def macros(text):
    return ("#define min(a, b) ((a) < (b) ? (a) : (b))\n#define max(a, b) ((a) > (b) ? (a) : (b))\n" + text +
            "#if !defined(min) || !defined(max)\n#error \"a header took the user's macros away\"\n#endif\n")


def variants(header, cpp, plain_c):
    """(name, text) of the ways in which a user may include one header."""
    line = f'#include "{header}"\n'
    last = "#include <limits.h>\n#include <math.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
    if cpp:
        last += "#include <atomic>\n#include <memory>\n#include <string>\n"
    yield "first and alone", line + "int user_symbol;\n"
    yield "twice and last", last + line + line + "int user_symbol;\n"
    if cpp and plain_c:
        yield "inside extern C, with min and max", macros('extern "C" {\n' + line + "}\n" + line)
    elif plain_c:
        yield "with min and max", macros(line) + "int user_symbol;\n"


def compile_all(include, folder):
    jobs = []
    plain = headers(include, ".h")
    for cpp in (False, True):
        sources = plain + (headers(include, ".hpp") if cpp else [])
        for header in sources:
            for number, (name, text) in enumerate(variants(header, cpp, header.endswith(".h"))):
                path = folder / (header.replace("/", "_") + f"_{number}" + (".cpp" if cpp else ".c"))
                path.write_text(text)
                for compiler in (("g++", "clang++") if cpp else ("gcc", "clang")):
                    for standard in (CPP_STANDARDS if cpp else C_STANDARDS):
                        command = [compiler, "-std=" + standard, f"-I{include}", *WARNINGS, "-fsyntax-only", path]
                        jobs.append((command, f"{header} {name}: {compiler} -std={standard}"))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda job: run(*job), jobs))
    print(f"headers: {len(jobs)} compilations, {len(failures)} failed")


def link_twice(include, folder):
    """Two files that include everything and use it link into one program."""
    every = "".join(f'#include "{header}"\n' for header in headers(include, ".h"))
    hpp = "".join(f'#include "{header}"\n' for header in headers(include, ".hpp"))
    body = ("{\n    aotx_request_head head;\n    const uint8_t id[16] = {1};\n"
            "    char text[AOTX_REQUEST_HANDLE_CHARACTERS];\n"
            "    aotx_request_head_begin(&head, AOTX_OPERATION_READ, id, 1);\n"
            "    aotx_request_handle_format(7, id, text);\n"
            "    return aotx_request_shape_check(&head) == AOTX_OK ? (int)text[0] : 0;\n}\n")
    for suffix, compilers, extra in ((".c", ("gcc", "clang"), ""), (".cpp", ("g++", "clang++"), hpp)):
        one, two = folder / ("one" + suffix), folder / ("two" + suffix)
        one.write_text(every + extra + "int other(void);\nint other(void)\n" + body)
        two.write_text(every + extra + "int other(void);\nstatic int here(void)\n" + body +
                       "int main(void)\n{\n    return here() == other() ? 0 : 1;\n}\n")
        for compiler in compilers:
            program = folder / f"linked_{compiler}"
            standard = "c11" if suffix == ".c" else "c++17"
            built = run([compiler, "-std=" + standard, f"-I{include}", *WARNINGS, one, two, "-o", program],
                        f"two files: {compiler}")
            if built is not None:
                run([program], f"two files run: {compiler}")


def fields(include):
    """(type, field, offset, size) as the headers assert them."""
    rows = []
    for header in headers(include, ".h"):
        text = (include / header).read_text()
        rows += [(header, *found) for found in
                 re.findall(r"^(?:AOTX|FRT)_FIELD\((\w+),\s*(\w+),\s*(\w+),\s*(\w+)\)", text, re.M)]
    assert len(rows) > 200, len(rows)
    return rows


def table_source(include, rows):
    types = list(dict.fromkeys(row[1] for row in rows))
    lines = [f'#include "{header}"' for header in headers(include, ".h")]
    lines += ["#include <stdio.h>", "#if defined(__cplusplus)", "#define ALIGN(type) alignof(type)", "#else",
              "#define ALIGN(type) _Alignof(type)", "#endif", "int main(void)", "{"]
    for name in types:
        lines.append(f'    printf("{name} %d %d\\n", (int)sizeof({name}), (int)ALIGN({name}));')
    for _, name, field, _, _ in rows:
        lines.append(f'    printf("{name}.{field} %d %d\\n", (int)offsetof({name}, {field}), '
                     f"(int)sizeof((({name}*)0)->{field}));")
    return "\n".join(lines + ["    return 0;", "}", ""])


def layout_tables(include, folder, compilers):
    """The table of every compiler, asserted to be one, and to say what the headers assert."""
    rows = fields(include)
    text = table_source(include, rows)
    tables = {}
    for compiler, standard, flags in compilers:
        suffix = ".cu" if compiler == "nvcc" else ".cpp" if "++" in compiler else ".c"
        path = folder / ("table" + suffix)
        path.write_text(text)
        program = folder / "table"
        name = f"{compiler} -std={standard} {' '.join(flags)}"
        if run([compiler, "-std=" + standard, f"-I{include}", *flags, path, "-o", program], name) is not None:
            tables[name] = run([program], name)
    first = next(iter(tables.values()))
    for name, table in tables.items():
        if table != first:
            failures.append(f"{name} prints another table than {next(iter(tables))}")
    seen = dict((line.split()[0], line.split()[1:]) for line in first.splitlines())
    for header, name, field, offset, size in rows:
        if offset.isdigit() and seen[f"{name}.{field}"] != [offset, size]:
            failures.append(f"{header} {name}.{field} is at {seen[f'{name}.{field}']}, not {offset} {size}")
    print(f"layout: {len(seen)} lines, equal from {len(tables)} builds")
    return seen


def host_layout(include, folder):
    builds = [(compiler, standard, flags) for compiler, standard in
              (("gcc", "c11"), ("clang", "c17"), ("g++", "c++17"), ("clang++", "c++2b"))
              for flags in ((), ("-fshort-enums",))]
    layout_tables(include, folder, builds)


def host(include, folder):
    compile_all(include, folder)
    link_twice(include, folder)
    host_layout(include, folder)


def device_table(include, folder, rows, seen):
    """The same numbers from the device compiler: constants of a device array, read out of the PTX."""
    types = list(dict.fromkeys(row[1] for row in rows))
    values = [f"(unsigned)sizeof({name})" for name in types] + [f"(unsigned)alignof({name})" for name in types]
    values += [f"(unsigned)offsetof({name}, {field})" for _, name, field, _, _ in rows]
    text = "".join(f'#include "{header}"\n' for header in headers(include, ".h"))
    text += "extern \"C\" __device__ const unsigned layout_table[] = {" + ",\n".join(values) + "};\n"
    text += "extern \"C\" __global__ void user(unsigned at, unsigned* out) { *out = layout_table[at]; }\n"
    source, ptx = folder / "device.cu", folder / "device.ptx"
    source.write_text(text)
    if run(["nvcc", "-std=c++17", f"-I{include}", "-ptx", source, "-o", ptx], "device table") is None:
        return
    found = re.search(r"layout_table\[(\d+)\] = \{([^}]*)\}", ptx.read_text())
    numbers = [int(word) for word in found.group(2).replace("\n", " ").split(",")]
    if int(found.group(1)) == 4 * len(values):  # written byte by byte
        numbers = [int.from_bytes(bytes(numbers[at:at + 4]), "little") for at in range(0, len(numbers), 4)]
    numbers += [0] * (len(values) - len(numbers))  # trailing zeros are left out
    want = [int(seen[name][0]) for name in types] + [int(seen[name][1]) for name in types]
    want += [int(seen[f"{name}.{field}"][0]) for _, name, field, _, _ in rows]
    if numbers != want:
        failures.append("the device compiler lays the structures out otherwise")
    print(f"device: {len(values)} numbers from PTX")


def nvcc(include, folder):
    if shutil.which("nvcc") is None and Path("/usr/local/cuda/bin/nvcc").is_file():
        os.environ["PATH"] += ":/usr/local/cuda/bin"
    if shutil.which("nvcc") is None:
        print("headers: no nvcc")
        return SKIPPED
    strict = ["-Werror", "all-warnings", "-Xcompiler", "-Wall,-Wextra,-Wconversion,-Wshadow,-Werror"]
    every = headers(include, ".h")
    use = ("__global__ void user(uint8_t* bytes, int* out)\n{\n    aotx_request_head head;\n    uint32_t media;\n"
           "    out[0] = aotx_request_check(bytes, 128, &head);\n    out[1] = aotx_submit_check(bytes, 64, &media);\n"
           "    out[2] = aotx_grants_check(bytes, 192, &head);\n    out[3] = aotx_request_shape_check(&head);\n"
           "    out[4] = aotx_mailbox_take((aotx_mailbox*)bytes);\n    aotx_mailbox_reply((aotx_mailbox*)bytes, 128);\n"
           "    aotx_fence_full();\n}\n")
    texts = {"all headers on the device": macros("".join(f'#include "{h}"\n' for h in every)) + use,
             "inside extern C": 'extern "C" {\n' + "".join(f'#include "{h}"\n' for h in every) + "}\n" + use}
    for header in every:
        texts[header] = f'#include "{header}"\n#include "{header}"\nint user_symbol;\n'
    for number, (name, text) in enumerate(texts.items()):
        path = folder / f"n{number}.cu"
        path.write_text(text)
        for standard in ("c++17", "c++20") if number < 2 else ("c++17",):
            run(["nvcc", "-std=" + standard, f"-I{include}", *strict, "-c", path, "-o", folder / "n.o"],
                f"nvcc -std={standard}: {name}")
    seen = layout_tables(include, folder, [("g++", "c++17", ()), ("nvcc", "c++17", ()), ("nvcc", "c++20", ())])
    device_table(include, folder, fields(include), seen)
    return 0


PLANTED = [  # what a user would meet, and the check that must report it
    ("a comparison of signs", "static inline int planted(int a, unsigned b) { return a < b; }", compile_all),
    ("a missing include", "static inline size_t planted(void) { return 0; }", compile_all),
    ("an undefined macro", "#if AOTX_PLANTED\n#endif", compile_all),
    ("a macro taken away", "#undef min", compile_all),
    ("a function without inline", "int planted(void);\nint planted(void) { return 1; }", link_twice),
    ("an enum as a field", '#include "aotx/base.h"\nenum planted_enum { PLANTED_A = 1 };\n'
     "#define PLANTED_BYTES sizeof(enum planted_enum)\ntypedef struct planted { enum planted_enum field; } planted;\n"
     "AOTX_FIELD(planted, field, 0, PLANTED_BYTES);", host_layout),
]


def self_test(include, folder):
    """Every planted fault must be reported, or the checks above prove nothing."""
    global failures
    missed = []
    for number, (name, text, check) in enumerate(PLANTED):
        copy, scratch = folder / f"sdk{number}", folder / f"scratch{number}"
        scratch.mkdir()
        if check is compile_all:
            copy.mkdir()
        else:
            shutil.copytree(include, copy)
        (copy / "aotx").mkdir(exist_ok=True)
        (copy / "aotx/planted.h").write_text(f"#ifndef PLANTED_H\n#define PLANTED_H\n{text}\n#endif\n")
        (copy / "aotx/planted.hpp").write_text("")
        failures = []
        check(copy, scratch)
        if not failures:
            missed.append(name)
    failures = [f"not reported: {name}" for name in missed]
    print(f"self-test: {len(PLANTED) - len(missed)} of {len(PLANTED)} planted faults reported")


def main():
    include = Path(sys.argv[2]) if len(sys.argv) > 2 else ROOT / "sdk/include"
    with tempfile.TemporaryDirectory() as folder:
        result = {"host": host, "nvcc": nvcc, "self-test": self_test}[sys.argv[1]](include, Path(folder)) or 0
    for failure in failures[:20]:
        print(failure)
    return 1 if failures else result


if __name__ == "__main__":
    sys.exit(main())
