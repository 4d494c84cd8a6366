"""Purpose:  build, prove and run what docs/producers.md prints.
Owns:     a scratch folder.
Thread:   one.
Lifetime: one run; exit 0 when the page works as printed.
"""
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path


def main(page, include, library_folder, check, aotxctl=""):
    text = Path(page).read_text()
    sources = dict(re.findall(r"```c file=(\S+)\n(.*?)```", text, re.S))
    assert sources, "the page holds a program"
    shell = [line for block in re.findall(r"```sh\n(.*?)```", text, re.S)
             for line in block.replace("\\\n", " ").splitlines()]
    for line in "".join(sources.values()).splitlines():
        assert len(line) <= 100, f"{len(line)} columns: {line}"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, source in sources.items():
            (folder / file).write_text(source)
        for line in shell:
            words = {"cc ": f"cc -Wall -Wextra -Wpedantic -Wconversion -Werror -I{include} -L{library_folder} "
                            f"-Wl,-rpath,{library_folder} ",
                     "flashrt-check ": check + " ", "aotxctl ": aotxctl + " "}
            program = next((word for word in words if line.startswith(word)), None)
            assert program, f"the test does not know {line}"
            if program == "aotxctl " and aotxctl == "":
                continue
            command = words[program] + line[len(program):].replace("--ticks 100000", "--ticks 100")
            done = subprocess.run(["sh", "-c", command], cwd=folder, capture_output=True, text=True)
            assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
            if "model run" in line:
                assert "0.100000001, -0.100000001, 0.0500000007, 0, 0, 0" in done.stdout, done.stdout
                again = subprocess.run(["sh", "-c", command + " --json"], cwd=folder, capture_output=True, text=True)
                assert abs(json.loads(again.stdout)["action"][0] - 0.1) < 1e-6
        if aotxctl:
            assert (folder / "ticks.svg").read_text().startswith("<svg ")
    print(f"docs: {len(shell)} commands of the page work as printed")


if __name__ == "__main__":
    main(*sys.argv[1:])
