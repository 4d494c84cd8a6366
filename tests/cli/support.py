"""Purpose:  run aotxctl in a scratch folder with a clean environment.
Owns:     the scratch folder of each case.
Thread:   one.
Lifetime: one run."""
import json
import os
import subprocess
import sys
import tempfile
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

    def json_of(self, *words, **options):
        return json.loads(self.run_cli(*words, "--json", **options).stdout)


def main():
    global PROGRAM
    PROGRAM = str(Path(sys.argv.pop(1)).resolve())
    unittest.main(module="__main__", verbosity=1)
