#!/usr/bin/env python3
"""Purpose:  the whole service with the real model: a sensible answer, streamed, in the memory that was announced.
Owns:     the service it starts.
Thread:   main.
Lifetime: one run; exit 77 when the model file is not here. AOTX_BUILD names the build folder.
"""
import json
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from aotx_service import Service, build_dir, model_path, real_model  # noqa: E402

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
ALLOWANCE_BYTES = 48 << 20
SANITIZED = bool(os.environ.get("AOTX_BUILD", "").endswith(("asan", "tsan")))


class RealModel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.service = Service([real_model()])
        cls.service.start(ready_seconds=120)

    @classmethod
    def tearDownClass(cls):
        cls.service.__exit__(None, None, None)

    def ask(self, **fields):
        return self.service.http("POST", "/v1/chat/completions",
                                 {"model": "smollm2", "messages": QUESTION, "temperature": 0, "max_tokens": 48,
                                  **fields}, timeout=240)

    def test_the_capital_of_france(self):
        status, _, body = self.ask()
        self.assertEqual(status, 200, body)
        answer = json.loads(body)
        self.assertIn("Paris", answer["choices"][0]["message"]["content"])
        self.assertGreater(answer["usage"]["prompt_tokens"], 10)
        # The same question streamed gives the same text, in more than one piece.
        status, _, body = self.ask(stream=True)
        frames = [line[6:] for line in body.decode().split("\n") if line.startswith("data: ")]
        self.assertEqual(frames[-1], "[DONE]")
        pieces = [json.loads(frame)["choices"][0]["delta"].get("content") for frame in frames[:-1]]
        pieces = [piece for piece in pieces if piece]
        self.assertGreater(len(pieces), 3)
        self.assertEqual("".join(pieces), answer["choices"][0]["message"]["content"])

    def test_resident_memory_is_what_the_budget_says(self):
        if SANITIZED:
            self.skipTest("a sanitizer's own memory is not ours")
        self.ask()
        report = subprocess.run([str(build_dir() / "bin/aotxd"), "--config", str(self.service.config), "--check",
                                 "--json"], capture_output=True, check=True, timeout=120)
        budget = json.loads(report.stdout)["total_bytes"]
        text = Path(f"/proc/{self.service.process.pid}/status").read_text()
        resident = int(re.search(r"^VmRSS:\s+(\d+) kB", text, re.M).group(1)) * 1024
        self.assertLessEqual(resident, model_path().stat().st_size + budget + ALLOWANCE_BYTES)


if __name__ == "__main__":
    if model_path() is None:
        print("skipped: the model file is not here; packaging/fetch_model.sh fetches it")
        sys.exit(77)
    unittest.main(verbosity=2)
