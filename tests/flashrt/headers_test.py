"""Purpose:  every public header of flashrt under strict compilers: alone, twice, inside extern "C", after min and
          max macros, from two files; and the same layout table from C, C++ and nvcc, also with short enums.
Owns:     a scratch folder.
Thread:   one.
Lifetime: one run; exit 0 when everything holds, 77 when no compiler is there.
"""
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Wundef", "-Werror"]
C_HEADERS = ["exec.h", "runtime.h", "model_runtime.h", "cpu_recorder.h"]
CPP_HEADERS = ["builder.hpp", "loader.hpp", "stage_plan.hpp", "config.hpp"]
C_STANDARDS = ["c11", "c17"]
CPP_STANDARDS = {"g++": ["c++17", "c++20", "c++23"], "clang++": ["c++17", "c++20", "c++2b"]}
MACROS = "#define min(a, b) ((a) < (b) ? (a) : (b))\n#define max(a, b) ((a) > (b) ? (a) : (b))\n"
failures = []


def run(what, command, text=None):
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    if done.returncode != 0:
        failures.append(f"{what}: {' '.join(command)}\n{done.stderr[:2000]}")
    return done.stdout


def compile_text(what, compiler, standard, text, extra=()):
    language = "c" if standard.startswith("c1") else "c++"
    run(what, [compiler, f"-std={standard}", "-x", language, *WARNINGS, *extra, f"-I{INCLUDE}", "-fsyntax-only", "-"],
        text)


def forms(header):
    line = f"#include <flashrt/{header}>\n"
    yield "alone", line
    yield "twice", line + line
    yield "after min and max macros", MACROS + line
    yield 'inside extern "C"', f'#ifdef __cplusplus\nextern "C" {{\n#endif\n{line}#ifdef __cplusplus\n}}\n#endif\n'


def check_forms():
    for compiler in ("gcc", "clang"):
        for standard in C_STANDARDS if shutil.which(compiler) else ():
            for header in C_HEADERS:
                for form, text in forms(header):
                    compile_text(f"{header} {form}", compiler, standard, text + "int main(void) { return 0; }\n")
    for compiler, standards in CPP_STANDARDS.items():
        for standard in standards if shutil.which(compiler) else ():
            for header in C_HEADERS + CPP_HEADERS:
                for form, text in forms(header):
                    strict = ["-fno-exceptions", "-fno-rtti"] if form == "twice" else []
                    compile_text(f"{header} {form}", compiler, standard, text, strict)


def structs():
    """(struct, [fields]) of every FRT_FIELD in the headers."""
    table = {}
    for header in C_HEADERS:
        text = (INCLUDE / "flashrt" / header).read_text()
        for struct in re.findall(r"^FRT_SIZE\((\w+),", text, re.M):
            table[struct] = re.findall(r"^FRT_FIELD\(" + struct + r", (\w+),", text, re.M)
            body = re.search(r"typedef struct " + struct + r" \{(.*?)\n\} " + struct + ";", text, re.S)
            declared = re.sub(r"/\*.*?\*/", "", body.group(1), flags=re.S).count(";")
            if declared != len(table[struct]):
                failures.append(f"{struct}: {declared} fields, {len(table[struct])} of them asserted")
    return table


def layout_program(table):
    lines = [f"#include <flashrt/{header}>" for header in C_HEADERS] + ["#include <stdio.h>", "int main(void) {"]
    for struct, fields in table.items():
        lines.append(f'printf("{struct} %zu\\n", sizeof({struct}));')
        for field in fields:
            lines.append(f'printf("{struct}.{field} %zu %zu\\n", offsetof({struct}, {field}), '
                         f"sizeof((({struct}*)0)->{field}));")
    return "\n".join(lines + ["return 0; }", ""])


def check_layouts(folder):
    text = layout_program(structs())
    builds = []
    for extra in ([], ["-fshort-enums"]):
        builds += [(c, ["-x", "c", "-std=c11"] + extra) for c in ("gcc", "clang")]
        builds += [(c, ["-x", "c++", "-std=c++17"] + extra) for c in ("g++", "clang++")]
    nvcc = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
    if nvcc:
        builds.append((nvcc, ["-x", "cu", "-std=c++17"]))
    source = folder / "layout.c"
    source.write_text(text)
    tables = {}
    for compiler, options in builds:
        if shutil.which(compiler):
            program = folder / "layout"
            run("layout", [compiler, *options, f"-I{INCLUDE}", str(source), "-o", str(program)])
            tables[f"{compiler} {options}"] = run("layout", [str(program)])
    if len(set(tables.values())) != 1:
        failures.append("layout tables differ: " + ", ".join(tables))
    print(f"headers: {len(tables)} layout tables of {len(text.splitlines())} lines are equal")


def check_two_files(folder):
    includes = "".join(f"#include <flashrt/{header}>\n" for header in CPP_HEADERS)
    (folder / "one.cpp").write_text(includes + "int two();\nint main() { return two() + (int)("
                                    "frt_runtime_fingerprint(\"\", 0) != 0xcbf29ce484222325ull); }\n")
    (folder / "two.cpp").write_text(includes + "int two();\nint two() { frt_runtime_builder b = "
                                    "frt_model_runtime_builder_create_metadata(); int code = "
                                    "frt_runtime_builder_add_identity(b, \"k\", \"v\"); "
                                    "frt_runtime_builder_destroy(b); return code; }\n")
    for compiler in ("g++", "clang++"):
        if shutil.which(compiler):
            program = folder / "linked"
            run("two files", [compiler, "-std=c++17", f"-I{INCLUDE}", str(folder / "one.cpp"), str(folder / "two.cpp"),
                              "-o", str(program)])
            run("two files", [str(program)])


def check_device_code(folder):
    nvcc = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
    if nvcc is None:
        return
    text = "".join(f"#include <flashrt/{header}>\n" for header in C_HEADERS + CPP_HEADERS)
    text += "__global__ void sizes(unsigned long* out) { *out = sizeof(frt_model_runtime_v1); }\n"
    (folder / "device.cu").write_text(text)
    run("nvcc", [nvcc, "-std=c++17", f"-I{INCLUDE}", "-c", str(folder / "device.cu"), "-o", str(folder / "device.o")])


def main(include):
    global INCLUDE
    INCLUDE = Path(include)
    if shutil.which("gcc") is None and shutil.which("clang") is None:
        return 77
    with tempfile.TemporaryDirectory() as name:
        check_forms()
        check_layouts(Path(name))
        check_two_files(Path(name))
        check_device_code(Path(name))
    for failure in failures:
        print("FAILED", failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
