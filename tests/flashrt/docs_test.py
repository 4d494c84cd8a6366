"""Purpose:  follow docs/producers.md to the letter: one shell runs every command that the page prints, in its order.
Owns:     a scratch folder.
Thread:   one.
Lifetime: one run; exit 0 when the page works as printed. docs_test.py PAGE BUILD_FOLDER
"""
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]


def shell(script, folder):
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    done = subprocess.run(["sh", "-eu", "-c", script], cwd=folder, capture_output=True, text=True, timeout=120,
                          env=environment)
    assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
    return done.stdout


def main(page, build):
    text = Path(page).read_text()
    sources = dict(re.findall(r"```c file=(\S+)\n(.*?)```", text, re.S))
    blocks = re.findall(r"```sh\n(.*?)```", text, re.S)
    assert sources and len(blocks) >= 4, "the page holds a program, and how to build, prove and run it"
    for line in "".join(sources.values()).splitlines():
        assert len(line) <= 100, f"{len(line)} columns: {line}"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "build").symlink_to(build)
        for file, source in sources.items():
            (folder / file).write_text(source)
        # Fewer ticks prove the command as well; nothing else is changed.
        script = "".join(blocks).replace("--ticks 100000", "--ticks 100")
        told = shell(script, folder)
        assert "0.100000001, -0.100000001, 0.0500000007, 0, 0, 0" in told and "0 broken, 0 warnings" in told, told
        assert "run by step, metadata only" in told and "equal: state of one is accepted by the other" in told, told
        assert "p99.9" in told and (folder / "ticks.svg").read_text().startswith("<svg ")
        run = next(line for block in blocks for line in block.replace("\\\n", " ").splitlines() if "model run" in line)
        answer = json.loads(shell(blocks[0].split("\n", 1)[1] + run + " --json", folder))
        assert abs(answer["action"][0] - 0.1) < 1e-6
        strict = ["cc", "-std=c11", "-fsyntax-only", *STRICT, f"-I{folder}/aotx/include", *sources]
        subprocess.run(strict, cwd=folder, check=True)
    commands = sum(not line.startswith(" ") for block in blocks for line in block.splitlines())
    print(f"docs: {commands} commands of the page work as printed")


if __name__ == "__main__":
    main(*sys.argv[1:])
