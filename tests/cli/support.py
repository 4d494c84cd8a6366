"""Purpose:  run aotxctl in a scratch folder with a clean environment.
Owns:     the scratch folder of each case.
Thread:   one.
Lifetime: one run."""
import json
import os
import pty
import select
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

PROGRAM = None


class Case(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.folder = Path(self.scratch.name)
        self.environment = {"PATH": os.environ["PATH"], "HOME": self.scratch.name, "TERM": "xterm"}

    def tearDown(self):
        self.scratch.cleanup()

    def run_cli(self, *words, stdin=b"", code=0, **environment):
        done = subprocess.run([PROGRAM, *map(str, words)], cwd=self.folder, input=stdin,
                              capture_output=True, timeout=60, env={**self.environment, **environment})
        said = f"{words}: {done.stdout!r} {done.stderr!r}"
        self.assertEqual(done.returncode, code, said)
        self.assertNotIn(b"\x1b", done.stdout + done.stderr if b"\x1b" not in stdin else b"", said)
        return done

    def on_terminal(self, *words, keys=(), environment=None, until_exit=20.0):
        """Run on a pseudo terminal. keys: (bytes to wait for, bytes to type)."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.folder)
            os.execve(PROGRAM, [PROGRAM, *words], {**self.environment, **(environment or {})})
        seen, keys, deadline = b"", list(keys), time.monotonic() + until_exit
        mark = 0
        while time.monotonic() < deadline:
            if keys and keys[0][0] in seen[mark:]:
                mark = len(seen)
                key = keys.pop(0)[1]
                os.write(terminal, key)
            if not select.select([terminal], [], [], 0.02)[0]:
                continue
            try:
                got = os.read(terminal, 4096)
            except OSError:
                got = b""
            if not got:
                break
            seen += got
        _, status = os.waitpid(pid, 0)
        os.close(terminal)
        return seen, os.waitstatus_to_exitcode(status)

    def json_of(self, *words, **options):
        return json.loads(self.run_cli(*words, "--json", **options).stdout)


def main():
    global PROGRAM
    PROGRAM = str(Path(sys.argv.pop(1)).resolve())
    unittest.main(module="__main__", verbosity=1)
