#!/usr/bin/env python3
"""Purpose:  compile every kernel file for every architecture and hold what ptxas says of each kernel (registers,
          spills, stack, shared memory) against the golden file beside this script.
Owns:     nothing; objects go to a scratch folder.
Thread:   one nvcc at a time.
Lifetime: one run; exit 0 when the report is inside its allowances, 1 with one line a breach, 77 without nvcc.

Usage: ptxas_report.py [--arch 90]... [--write]
  --write  replace the golden lines of the given architectures by what was found.
Rules:     spills and stack are 0 unless the allowance says otherwise, with its reason; registers may grow by no more
           than ALLOWANCE_REGISTERS over the golden value; shared memory is equal.
"""
import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
GOLDEN = Path(__file__).with_name("ptxas_golden.txt")
SOURCES = ["cuda/kernels/cuda/kernels_text.cu", "cuda/loop/cuda_tick.cu"]
ARCHITECTURES = ["80", "86", "89", "90", "100", "120"]
ALLOWANCE_REGISTERS = 8  # compilers differ a little from release to release; a lost tile costs far more
# kernel: (spill bytes, stack bytes, reason). Hot kernels have none.
ALLOWANCES = {
    "tick": (4096, 4096, "one thread runs the core's bookkeeping once a tick; it moves packets, not weights"),
    "tick_build": (4096, 4096, "runs once, before the loop"),
    "sample": (256, 256, "a draw with a temperature is one thread's walk over the vocabulary"),
}
KINDS = {0: "f32", 1: "f16", 2: "q4_0", 3: "q4_1", 6: "q5_0", 7: "q5_1", 8: "q8_0", 10: "q2k", 11: "q3k", 12: "q4k",
         13: "q5k", 14: "q6k", 30: "bf16"}


def name_of(mangled):
    found = re.search(r"6matmulILj(\d+)ELj(\d+)E", mangled)
    if found:
        return f"matmul_{KINDS[int(found.group(1))]}_{'narrow' if found.group(2) == '1' else 'wide'}"
    found = re.match(r"_ZN4aotx(\d+)", mangled)
    start = found.end()
    return mangled[start:start + int(found.group(1))]


def report_of(text, arch):
    rows = {}
    name = None
    for line in text.splitlines():
        found = re.search(r"Compiling entry function '(\S+)' for", line)
        if found:
            name = name_of(found.group(1))
            rows[name] = {"stack": 0, "spill": 0, "registers": 0, "shared": 0}
        found = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line)
        if found and name:
            rows[name]["stack"] = int(found.group(1))
            rows[name]["spill"] = int(found.group(2)) + int(found.group(3))
        found = re.search(r"Used (\d+) registers", line)
        if found and name:
            rows[name]["registers"] = int(found.group(1))
            shared = re.search(r"(\d+) bytes smem", line)
            rows[name]["shared"] = int(shared.group(1)) if shared else 0
    return {(arch, kernel): row for kernel, row in rows.items()}


def compile_one(source, arch, scratch, nvcc):
    includes = [f"-I{TOP}", f"-I{TOP}/sdk/include", f"-I{Path(nvcc).resolve().parents[1]}/include/cccl"]
    command = [nvcc, "-std=c++20", "-O3", "--expt-relaxed-constexpr", *includes, "-Xptxas", "-v", "-cubin",
               f"-arch=sm_{arch}", str(TOP / source), "-o", f"{scratch}/out.cubin"]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"{source} for sm_{arch}: nvcc failed\n{run.stderr}")
    return report_of(run.stderr, arch)


def golden_read():
    rows = {}
    for line in GOLDEN.read_text().splitlines() if GOLDEN.exists() else []:
        if line and not line.startswith("#"):
            arch, kernel, registers, spill, stack, shared = line.split()
            rows[(arch, kernel)] = {"registers": int(registers), "spill": int(spill), "stack": int(stack),
                                    "shared": int(shared)}
    return rows


def golden_write(rows):
    lines = ["# What ptxas says of every kernel: architecture, kernel, registers, spill bytes, stack bytes, shared bytes.",
             "# Written by ptxas_report.py --write; allowances and their reasons are in that script."]
    for (arch, kernel), row in sorted(rows.items(), key=lambda item: (int(item[0][0]), item[0][1])):
        lines.append(f"{arch} {kernel} {row['registers']} {row['spill']} {row['stack']} {row['shared']}")
    GOLDEN.write_text("\n".join(lines) + "\n")


def breaches(found, golden):
    for key, row in sorted(found.items()):
        spill, stack, _ = ALLOWANCES.get(key[1], (0, 0, ""))
        where = f"sm_{key[0]} {key[1]}"
        if row["spill"] > spill:
            yield f"{where}: {row['spill']} bytes spilled, allowed {spill}"
        if row["stack"] > stack:
            yield f"{where}: {row['stack']} bytes of stack, allowed {stack}"
        if key not in golden:
            yield f"{where}: not in the golden file"
            continue
        if row["registers"] > golden[key]["registers"] + ALLOWANCE_REGISTERS:
            yield f"{where}: {row['registers']} registers, golden {golden[key]['registers']}"
        if row["shared"] != golden[key]["shared"]:
            yield f"{where}: {row['shared']} bytes of shared memory, golden {golden[key]['shared']}"
    for key in sorted(golden):
        if key not in found and key[0] in {arch for arch, _ in found}:
            yield f"sm_{key[0]} {key[1]}: in the golden file, but no such kernel"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--arch", action="append")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        print("ptxas_report: no nvcc, nothing was checked")
        return 77
    found = {}
    with tempfile.TemporaryDirectory() as scratch:
        for arch in arguments.arch or ARCHITECTURES:
            for source in SOURCES:
                found.update(compile_one(source, arch, scratch, nvcc))
    golden = golden_read()
    if arguments.write:
        kept = {key: row for key, row in golden.items() if key[0] not in {arch for arch, _ in found}}
        golden = {**kept, **found}
        golden_write(golden)
    problems = list(breaches(found, golden))
    for line in problems:
        print(line)
    print(f"ptxas_report: {len(found)} kernels, {len(problems)} breaches")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
