#!/usr/bin/env python3
"""Purpose:  the whole service over the execution shim: which device serves and why, faults, restarts, a stop under load.
Owns:     nothing; each Service has a scratch folder.
Thread:   one.
Lifetime: one run. AOTX_BUILD names the folder in which libaotx_cuda.so is the shim.

AOTX_FAKE_* tell the shim what machine to pretend; see fake_cuda.cpp."""
import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from aotx_service import Service, build_dir, scripted_model  # noqa: E402
from tiny_model import tiny_model_write  # noqa: E402

PATIENCE_S = 60
NO_GPU = [
    ({"CUDA_LAUNCH_BLOCKING": "1"}, "CUDA_LAUNCH_BLOCKING is set; the loop cannot run with it, unset it", 3),
    ({"AOTX_FAKE_DRIVER": "0"}, "no CUDA driver (35)", 3),
    ({"AOTX_FAKE_DRIVER": "12020"}, "the CUDA driver serves 12.2, this build needs 13.0 or later", 3),
    ({"AOTX_FAKE_COUNT": "0"}, "a CUDA driver, but no GPU (100)", 3),
    ({"AOTX_FAKE_REFUSE": "1"}, "out of memory", 4),
]


class Choice(unittest.TestCase):
    def test_auto_takes_the_gpu_and_says_so(self):
        for device in ("auto", "cuda"):
            with Service([scripted_model()], device={"device": device}) as service:
                self.assertEqual(service.json("GET", "/readyz", token=None)[1], {"status": "ready", "device": "cuda"})
                said = service.json("GET", "/aotx/v1/capabilities")[1]["device"]
                self.assertEqual(said, {"kind": "cuda", "name": "a pretended GPU", "restarts": 0, "reason": None})
                self.assertIn(b'aotx_device_info{kind="cuda"} 1', service.http("GET", "/metrics")[2])

    def test_auto_falls_back_to_the_cpu_and_says_why(self):
        for environment, why, _ in NO_GPU:
            with self.subTest(why), mock.patch.dict(os.environ, environment):
                with Service([scripted_model()], device={"device": "auto"}) as service:
                    self.assertEqual(service.json("GET", "/readyz", token=None)[1],
                                     {"status": "ready", "device": "cpu"})
                    said = service.json("GET", "/aotx/v1/capabilities")[1]["device"]
                    self.assertEqual(said["kind"], "cpu")
                    self.assertIn(why, said["reason"])
                    self.assertIn(f"{said['reason']}; the CPU backend serves", service.log_text())
                    self.assertIsNone(service.process.poll())

    def test_this_build_as_it_is_says_why_without_naming_a_place(self):
        # Without the shim: whatever this machine has, the answer is one of the two.
        with mock.patch.dict(os.environ, {"AOTX_BUILD": str(build_dir().parent)}):
            with Service([scripted_model()], device={"device": "auto"}) as service:
                said = service.json("GET", "/aotx/v1/capabilities")[1]["device"]
                if said["kind"] == "cuda":
                    self.assertIsNone(said["reason"])
                else:
                    self.assertRegex(said["reason"], "CUDA|GPU")
                    self.assertNotIn("/", said["reason"])
                    self.assertIn("; the CPU backend serves", service.log_text())

    def test_cuda_insists_and_ends_with_the_reason(self):
        for environment, why, code in NO_GPU:
            with self.subTest(why), Service([scripted_model()], device={"device": "cuda"}, start=False) as service:
                done = subprocess.run([str(build_dir() / "bin/aotxd"), "--config", str(service.config)],
                                      capture_output=True, timeout=PATIENCE_S, env={**os.environ, **environment})
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertIn(why, done.stderr.decode())

    def test_every_loading_mode_starts(self):
        for mode in ("LAZY", "EAGER"):
            with mock.patch.dict(os.environ, {"CUDA_MODULE_LOADING": mode}):
                with Service([scripted_model()], device={"device": "cuda"}) as service:
                    status, answer = service.json("POST", "/v1/chat/completions", {
                        "model": "test", "messages": [{"role": "user", "content": "hi"}]})
                    self.assertEqual(status, 200, answer)
                    self.assertEqual("CUDA_MODULE_LOADING=LAZY is overruled" in service.log_text(), mode == "LAZY")


class Faults(unittest.TestCase):
    def test_a_gpu_that_keeps_failing_comes_back_three_times_and_then_stays_down(self):
        endless = scripted_model(pieces=[{"hex": "61", "delay_ms": 1}], repeat=True)
        with mock.patch.dict(os.environ, {"AOTX_FAKE_FAIL_EVERY": "400"}):
            with Service([endless], device={"device": "cuda"}) as service:
                seen = []
                end = time.monotonic() + PATIENCE_S
                while time.monotonic() < end:
                    status, ready = service.json("GET", "/readyz", token=None)
                    if status == 503 and "stays down" in service.log_text():
                        break
                    status, told = service.json("GET", "/aotx/v1/capabilities")
                    if status == 200:
                        seen.append(told["device"]["restarts"])
                    # While grants are being installed again 403 and 410 are answers too.
                    status, _ = service.json("POST", "/aotx/v1/requests", {
                        "model": "test", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 50})
                    self.assertIn(status, (202, 403, 410, 429, 503))
                log = (service.path / "log").read_text()
                for restart in (1, 2, 3):
                    self.assertIn(f"the GPU is back, restart {restart} of 3", log)
                    self.assertIn(restart, seen)
                self.assertEqual(seen, sorted(seen))
                self.assertEqual(log.count("the GPU failed: "), 4)
                self.assertEqual(service.json("GET", "/readyz", token=None)[0], 503)
                self.assertEqual(service.http("GET", "/healthz", token=None)[0], 200)
                self.assertEqual(service.json("GET", "/aotx/v1/capabilities")[0], 503)
                self.assertEqual(service.stop(), 0)

    def test_running_answers_end_with_503(self):
        endless = scripted_model(pieces=[{"hex": "61", "delay_ms": 5}], repeat=True)
        with mock.patch.dict(os.environ, {"AOTX_FAKE_FAIL_EVERY": "200"}):
            with Service([endless], device={"device": "cuda"}) as service:
                status, answer = service.json("POST", "/v1/chat/completions", {
                    "model": "test", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 2000})
                self.assertEqual(status, 503, answer)
                self.assertEqual(answer["error"]["type"], "server_error")

    def test_sigterm_while_the_loop_runs(self):
        endless = scripted_model(pieces=[{"hex": "61", "delay_ms": 1}], repeat=True)
        with Service([endless], device={"device": "cuda"}) as service:
            for _ in range(4):
                status, answer = service.json("POST", "/aotx/v1/requests", {
                    "model": "test", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4000})
                self.assertEqual(status, 202, answer)
            self.assertEqual(service.stop(), 0)


class TextModel(unittest.TestCase):
    """A GGUF model whose steps run on the GPU, like the core."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="aotx-")
        self.addCleanup(self.folder.cleanup)
        self.model = {"alias": "test", "role": "language", "library": "libaotx_text_gguf.so",
                      "path": str(Path(self.folder.name) / "tiny.gguf"), "threads": 1, "sequences": 4,
                      "kv_tokens": 1024, "sequence_tokens": 128, "step_tokens": 32}
        tiny_model_write(Path(self.model["path"]))

    def ask(self, service, prompt, **more):
        status, answer = service.json("POST", "/v1/chat/completions", {
            "model": "test", "messages": [{"role": "user", "content": prompt}], "max_tokens": 6, "temperature": 0,
            **more})
        return status, answer["choices"][0]["message"]["content"] if status == 200 else answer

    def test_the_gpu_answers_as_the_cpu_does(self):
        prompts = ["hi", "a longer prompt, in more than one chunk of thirty-two tokens", "?"]
        told = {}
        for device in ("cpu", "cuda"):
            with Service([self.model], device={"device": device}) as service:
                told[device] = [self.ask(service, prompt) for prompt in prompts]
                drawn = self.ask(service, "hi", temperature=1.0, top_p=0.9)
                self.assertEqual(drawn[0], 200, drawn)
                self.assertEqual("the GPU runs the steps" in service.log_text(), device == "cuda")
        self.assertEqual(told["cuda"], told["cpu"])
        self.assertEqual([status for status, _ in told["cuda"]], [200] * 3)
        self.assertEqual(len({answer for _, answer in told["cuda"]}), 3)

    def test_after_a_fault_the_weights_are_back(self):
        with mock.patch.dict(os.environ, {"AOTX_FAKE_FAIL_EVERY": "300"}):
            with Service([self.model], device={"device": "cuda"}) as service:
                before = self.ask(service, "hi")
                self.assertEqual(before[0], 200, before)
                end = time.monotonic() + PATIENCE_S
                while "the GPU is back, restart 1" not in service.log_text() and time.monotonic() < end:
                    self.ask(service, "hi")
                after = self.ask(service, "hi")
                while after[0] != 200 and time.monotonic() < end:
                    after = self.ask(service, "hi")
                self.assertEqual(after, before)


if __name__ == "__main__":
    unittest.main(verbosity=2)
