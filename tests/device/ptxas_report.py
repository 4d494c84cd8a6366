#!/usr/bin/env python3
"""Purpose:  compile every kernel file for every architecture and hold what ptxas says of each kernel (registers,
          spills, stack, shared memory) against the golden file beside this script.
Owns:     nothing; objects go to a scratch folder.
Thread:   --jobs compilers at a time.
Lifetime: one run; exit 0 when the report is inside its allowances, 1 with one line a breach, 77 without nvcc.

Usage: ptxas_report.py [--arch 90]... [--jobs N] [--seconds S] [--write]
  --seconds  begin no further architecture when so many have passed, and say which were left out.
  --write    replace the golden lines of the given architectures by what was found.
Rules:     spills and stack are 0 unless the allowance says otherwise, with its reason; registers may grow by no more
           than ALLOWANCE_REGISTERS over the golden value; shared memory is equal.
"""
import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
GOLDEN = Path(__file__).with_name("ptxas_golden.txt")
SOURCES = ["cuda/kernels/cuda/kernels_text.cu", "cuda/loop/cuda_tick.cu"]
# Compiled without a report: what uses the kernels beside the backend, and the host side that names CUDA's headers.
USERS = ["tests/device/device_check.cu", "cuda/loop/cuda_runtime.cpp"]
ARCHITECTURES = ["80", "90", "120", "100", "89", "86"]  # in the order in which a short of time leaves them out last
ALLOWANCE_REGISTERS = 8  # compilers differ a little from release to release; a lost tile costs far more
# kernel: (spill bytes, stack bytes, reason). Hot kernels have none.
ALLOWANCES = {
    "tick": (4096, 4096, "one thread runs the core's bookkeeping once a tick; it moves packets, not weights"),
    "tick_build": (4096, 4096, "runs once, before the loop"),
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


def find_nvcc():
    return shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")


def compile_one(source, arch, scratch, nvcc):
    includes = [f"-I{TOP}", f"-I{TOP}/sdk/include", f"-I{Path(nvcc).resolve().parents[1]}/include/cccl"]
    what = ["-Xptxas", "-v", "-cubin"] if source in SOURCES else [
        "-c", f"-DAOTX_CUDA_CODES={arch}", f"-DAOTX_CUDA_PTX={arch}"]
    command = [nvcc, "-std=c++20", "-O3", "--expt-relaxed-constexpr", *includes, *what, f"-arch=sm_{arch}",
               str(TOP / source), "-o", f"{scratch}/{Path(source).stem}.{arch}.o"]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        raise RuntimeError(f"{source} for sm_{arch}: nvcc failed\n{run.stderr}")
    return report_of(run.stderr, arch) if source in SOURCES else {}


def compile_all(architectures, jobs, seconds, nvcc):
    """(rows, architectures that no time was left for)"""
    began = time.monotonic()
    found, left_out = {}, []

    def one(arch):
        if seconds is not None and time.monotonic() - began > seconds:
            left_out.append(arch)
            return {}
        rows = {}
        for source in SOURCES + (USERS if arch == architectures[0] else []):
            rows.update(compile_one(source, arch, scratch, nvcc))
        return rows

    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(jobs) as pool:
        for rows in pool.map(one, architectures):
            found.update(rows)
    return found, left_out


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
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    nvcc = find_nvcc()
    if nvcc is None:
        print("skipped: no nvcc, neither in PATH nor in /usr/local/cuda/bin; no kernel was compiled for a GPU")
        return 77
    try:
        found, left_out = compile_all(arguments.arch or ARCHITECTURES, arguments.jobs, arguments.seconds, nvcc)
    except RuntimeError as error:
        print(error)
        return 1
    golden = golden_read()
    if arguments.write:
        kept = {key: row for key, row in golden.items() if key[0] not in {arch for arch, _ in found}}
        golden = {**kept, **found}
        golden_write(golden)
    problems = list(breaches(found, golden))
    for line in problems:
        print(line)
    if left_out:
        print(f"not compiled, {arguments.seconds:g} seconds were over: {' '.join('sm_' + arch for arch in left_out)}")
    done = sorted({int(arch) for arch, _ in found})
    print(f"ptxas_report: {len(found)} kernels for {' '.join(f'sm_{arch}' for arch in done)}, {len(problems)} breaches")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
