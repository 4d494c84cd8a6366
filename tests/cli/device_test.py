"""Purpose:  aotxctl against a whole service with a scripted model: the same answers through the gateway and straight
          through service.sock, exact cancellation, a gateway that is killed while its stream is watched.
Owns:     the service of each case.
Thread:   one, beside the service's processes.
Lifetime: one run."""
import os
import signal
import subprocess
import sys
from pathlib import Path

import support

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from aotx_service import Service, build_dir, scripted_model  # noqa: E402

SLOW = [{"text": f"piece {number} ", "delay_ms": 20} for number in range(60)]
WHOLE = "".join(piece["text"] for piece in SLOW).encode()
FAST = [{"hex": "41e4bda0"}, {"hex": "f09f"}, {"hex": "98800a"}]


class DeviceCase(support.Case):
    def serve(self, pieces=FAST, **more):
        self.service = Service([scripted_model(pieces=pieces, **more)])
        self.service.__enter__()
        self.addCleanup(self.service.__exit__, None, None, None)
        self.environment["AOTX_TOKEN"] = self.service.token
        self.gateway = ["--url", f"http://127.0.0.1:{self.service.port}"]
        self.direct = ["--direct", "--config", str(self.service.config), "--principal", "alice"]
        return self.service

    def start(self, *words):
        return subprocess.Popen([support.PROGRAM, *words], env=self.environment, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)


class BothWays(DeviceCase):
    def test_the_same_documents(self):
        self.serve()
        handle = self.run_cli("submit", "hi", *self.gateway).stdout.decode().strip()
        want = b"A\xe4\xbd\xa0\xf0\x9f\x98\x80\n"
        for way in (self.gateway, self.direct):
            self.assertEqual(self.run_cli("watch", handle, *way).stdout, want)
            self.assertEqual(self.run_cli("read", handle, *way).stdout, want)
            self.assertEqual(self.run_cli("read", handle, "--cursor", "5", *way).stdout, want[5:])
            self.assertEqual(self.run_cli("watch", handle + ":5", *way).stdout, want[5:])
            self.assertEqual(self.run_cli("chat", "hi", *way).stdout, want)
        self.assertEqual(self.json_of("read", handle, *self.gateway), self.json_of("read", handle, *self.direct))
        one, two = (self.json_of("capabilities", *way) for way in (self.gateway, self.direct))
        self.assertEqual(one["runtime_epoch"], two["runtime_epoch"])
        for name, value in two["limits"].items():
            self.assertEqual(one["limits"][name], value, name)
        self.assertEqual([model["id"] for model in one["models"]], [model["id"] for model in two["models"]])
        self.assertEqual(self.run_cli("models", *self.gateway).stdout, self.run_cli("models", *self.direct).stdout)
        self.assertEqual(one["device"], two["device"])
        self.assertEqual(one["device"]["kind"], "cpu")
        for way in (self.gateway, self.direct):
            self.assertEqual(self.json_of("health", *way), {"status": "ok", "device": "cpu"})

    def test_refusals(self):
        self.serve()
        handle = self.run_cli("submit", "hi", *self.direct).stdout.decode().strip()
        bob = [*self.direct[:-1], "bob"]
        ended = "req-" + "0" * 15 + "1" + handle[20:]
        for verb in ("read", "cancel", "watch"):
            self.run_cli(verb, handle, *bob, code=12)
            self.run_cli(verb, handle[:-1] + ("0" if handle[-1] != "0" else "1"), *self.gateway, code=12)
            self.run_cli(verb, ended, *self.direct, code=14)
            self.run_cli(verb, ended, *self.gateway, code=14)
        self.run_cli("read", handle, "--cursor", "9999", *self.direct, code=13)
        self.run_cli("read", handle, "--cursor", "9999", *self.gateway, code=13)
        self.run_cli("models", *self.direct, "--revision", "7", code=11)
        self.run_cli("models", *self.gateway, AOTX_TOKEN="x" * 40, code=11)
        self.run_cli("chat", "hi", "--model", "none", *self.direct, code=12)
        self.run_cli("chat", "hi", "--model", "none", *self.gateway, code=12)
        self.run_cli("chat", "see [image: here", *self.gateway, code=10)
        self.run_cli("chat", "see [image: here", *self.direct, code=2)
        self.run_cli("models", "--socket", str(self.folder / "none.sock"), "--principal", "1" * 32, "--revision", "1",
                     code=4)


class Following(DeviceCase):
    def test_ctrl_c_cancels_exactly_this_request(self):
        self.serve(pieces=SLOW)
        for way in (self.gateway, self.direct):
            other = self.run_cli("submit", "other", *way).stdout.decode().strip()
            child = self.start("chat", "mine", *way)
            self.assertEqual(child.stdout.read(8), WHOLE[:8])
            child.send_signal(signal.SIGINT)
            child.communicate(timeout=30)
            self.assertEqual(child.returncode, 19)
            self.assertEqual(self.run_cli("watch", other, *way).stdout, WHOLE)

    def test_leaving_a_watch_leaves_the_request(self):
        self.serve(pieces=SLOW)
        for way in (self.gateway, self.direct):
            handle = self.run_cli("submit", "x", *way).stdout.decode().strip()
            child = self.start("watch", handle, *way)
            self.assertEqual(child.stdout.read(8), WHOLE[:8])
            child.send_signal(signal.SIGINT)
            child.communicate(timeout=30)
            self.assertEqual(child.returncode, 130)
            self.assertEqual(self.run_cli("watch", handle, *way).stdout, WHOLE)

    def test_a_killed_gateway_costs_no_byte(self):
        service = self.serve(pieces=SLOW)
        handle = self.run_cli("submit", "x", *self.gateway).stdout.decode().strip()
        child = self.start("watch", handle, *self.gateway)
        start = child.stdout.read(8)
        os.kill(service.gateway_pid(), signal.SIGKILL)
        rest, errors = child.communicate(timeout=30)
        self.assertEqual(start + rest, WHOLE, errors)
        self.assertEqual(child.returncode, 0)

    def test_a_restarted_device_ends_the_watch(self):
        service = self.serve(pieces=SLOW)
        handle = self.run_cli("submit", "x", *self.direct).stdout.decode().strip()
        child = self.start("watch", handle, *self.direct)
        child.stdout.read(8)
        service.process.kill()
        service.process.wait()
        child.communicate(timeout=30)
        self.assertEqual(child.returncode, 4)
        service.start()
        self.run_cli("read", handle, *self.direct, code=14)

    def test_check_prints_the_budget_and_starts_nothing(self):
        service = self.serve()
        program = ["--program", str(build_dir() / "bin/aotxd")]
        budget = self.json_of("check", "--config", service.config, *program)
        self.assertEqual(sum(line["bytes"] for line in budget["budget"]), budget["total_bytes"])
        self.assertIn(str(budget["total_bytes"]).encode(),
                      self.run_cli("check", "--config", service.config, *program).stdout)


if __name__ == "__main__":
    if not (build_dir() / "bin/aotxd").is_file():
        print("no aotxd in", build_dir())
        sys.exit(77)
    support.main()
