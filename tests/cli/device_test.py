"""Purpose:  aotxctl against a whole service with a scripted model: the same answers through the gateway and straight
          through service.sock, exact cancellation, a gateway that is killed while its stream is watched.
Owns:     the service of each case.
Thread:   one, beside the service's processes.
Lifetime: one run."""
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import support

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from aotx_service import Service, build_dir, device_kind, scripted_model  # noqa: E402

SLOW = [{"text": f"piece {number} ", "delay_ms": 20} for number in range(60)]
WHOLE = "".join(piece["text"] for piece in SLOW).encode()
FAST = [{"hex": "41e4bda0"}, {"hex": "f09f"}, {"hex": "98800a"}]


class DeviceCase(support.Case):
    def serve(self, pieces=FAST, gateway=None, **more):
        self.service = Service([scripted_model(pieces=pieces, **more)], gateway=gateway)
        self.service.__enter__()
        self.addCleanup(self.service.__exit__, None, None, None)
        self.environment["AOTX_TOKEN"] = self.service.token
        self.gateway = ["--url", f"http://127.0.0.1:{self.service.port}"]
        self.direct = ["--direct", "--config", str(self.service.config), "--principal", "alice"]
        return self.service

    def start(self, *words):
        # Without a buffer here: communicate() would not see what a read had taken into it.
        return subprocess.Popen([support.PROGRAM, *words], env=self.environment, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, bufsize=0)


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
        self.assertEqual(one["device"]["kind"], device_kind())
        for way in (self.gateway, self.direct):
            self.assertEqual(self.json_of("health", *way), {"status": "ok", "device": device_kind()})

    def test_through_a_unix_socket(self):
        service = self.serve(gateway={"bind": f"unix:{self.folder}/http.sock"})
        want = b"A\xe4\xbd\xa0\xf0\x9f\x98\x80\n"
        for way in (["--url", f"unix:{self.folder}/http.sock"], ["--config", str(service.config)]):
            self.assertEqual(self.run_cli("chat", "hi", *way).stdout, want)
            handle = self.run_cli("submit", "hi", *way).stdout.decode().strip()
            self.assertEqual(self.run_cli("watch", handle, *way).stdout, want)
        service.stop()
        self.assertFalse((self.folder / "http.sock").exists())

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


class Conversation(DeviceCase):
    """`aotxctl chat` on a terminal, with a real device behind it."""

    def test_it_remembers_what_was_said(self):
        # The model answers with the tokens that it was fed, so the whole conversation shows.
        self.serve(pieces=[], echo=True, sequence_tokens=4096)
        start, user, assistant, end = 256, 258, 259, 260
        first = [start, user, *b"hi", end, assistant]
        answer = " ".join(map(str, first)).encode()
        second = [*first, *answer, end, user, *b"yo", end, assistant]
        for way in (self.gateway, self.direct):
            seen, code = self.on_terminal("chat", *way, "--max-tokens", "4000", keys=(
                (b"> ", b"hi\n"), (answer + b"\r\n", b"yo\n"),
                (" ".join(map(str, second)).encode() + b"\r\n", b"/exit\n")))
            self.assertEqual(code, 0, seen)

    def test_ctrl_c_ends_the_work_on_the_device_and_the_next_question_is_answered(self):
        self.serve(pieces=[{"text": "tick ", "delay_ms": 5}], repeat=True)
        for way in (self.gateway, self.direct):
            seen, code = self.on_terminal("chat", *way, keys=(
                (b"> ", b"go\n"), (b"tick tick", b"\x03"), (b"cancelled", b"again\n"), (b"tick", b"\x03"),
                (b"cancelled", b"\x04")))
            self.assertEqual(code, 0, seen)
            before = self.json_of("telemetry", *way)["sample"]["tick"]
            time.sleep(0.2)
            self.assertEqual(self.json_of("telemetry", *way)["sample"]["tick"], before, "the device still works")
        # The other way to end, and its code.
        seen, code = self.on_terminal("chat", "once", *self.gateway, keys=((b"tick", b"\x03"),))
        self.assertEqual(code, 19, seen)


class EveryVerb(DeviceCase):
    """What no verb may do without a terminal: ask, colour, or wait for somebody to type."""

    FORMS = ('"$@" >out 2>err <&-', '"$@" >out 2>err', 'TERM=dumb "$@" >out 2>err', 'NO_COLOR=1 "$@" >out 2>err',
             '"$@" 2>&1 | cat >out')
    ESC = b"\x1b]0;title\x07\x1b[2J"

    def verbs(self, way):
        config = ["--config", str(self.service.config)]
        handle = self.run_cli("submit", "x", *way).stdout.decode().strip()
        self.run_cli("watch", handle, "--json", *way)
        grants = str(self.service.sections["device"]["grants_path"])
        library = str(build_dir() / "lib/libaotx_scripted.so")
        reach = str(build_dir() / "lib/libaotx_reach.so")
        return [["submit", "x", *way], ["cancel", handle, *way], ["models", *way], ["capabilities", *way],
                ["telemetry", *way], ["health", *way], ["token", "new"], ["grants", "show", grants],
                ["grants", "make", *config, "--out", str(self.folder / "made.bin")], ["packet", "decode", grants],
                ["check", *config, "--program", str(build_dir() / "bin/aotxd")], ["model", "inspect", library],
                ["model", "check", library], ["model", "diff", library, library],
                ["model", "run", reach, "--ticks", "2"], ["model", "bench", reach, "--ticks", "20"], ["chat", "x", *way], ["read", handle, *way], ["watch", handle, *way]]

    def test_no_verb_writes_escapes_or_waits(self):
        self.serve(pieces=FAST)
        for way in (self.gateway, self.direct):
            for verb in self.verbs(way):
                for more in ([], ["--json"]):
                    # Every form for one way and kind of output, the strictest for the others.
                    for form in self.FORMS if way is self.gateway and not more else self.FORMS[:1]:
                        done = subprocess.run(["sh", "-c", form, "sh", support.PROGRAM, *verb, *more],
                                              cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
                        out = (self.folder / "out").read_bytes()
                        said = f"{form} {verb} {more}: {done.returncode} {out[:200]}"
                        self.assertEqual(done.returncode, 0, said)
                        self.assertNotIn(b"\x1b", out + (self.folder / "err").read_bytes(), said)
                        self.assertEqual(done.stdout + done.stderr, b"", said)
                        if more and "cat" not in form:
                            for line in out.splitlines() if verb[0] == "watch" else [out]:
                                json.loads(line)

    def test_no_verb_shows_a_terminal_what_a_model_wrote_as_it_is(self):
        self.serve(pieces=[{"hex": self.ESC.hex()}])
        shown = b"\\x1b]0;title\\x07\\x1b[2J"
        for way in (self.gateway, self.direct):
            for verb in self.verbs(way):
                for more in ([], ["--json"]):
                    environments = ({}, {"TERM": "dumb"}, {"NO_COLOR": "1"})
                    for environment in environments if way is self.gateway and not more else environments[:1]:
                        seen, code = self.on_terminal(*verb, *more, environment=environment)
                        self.assertEqual((code, b"\x1b" in seen), (0, False), (verb, more, seen))
                        if verb[0] in ("chat", "read", "watch") and not more:
                            self.assertIn(shown, seen)
                if verb[0] in ("chat", "read", "watch"):
                    done = subprocess.run([support.PROGRAM, *verb], env=self.environment, capture_output=True,
                                          timeout=60)
                    self.assertIn(self.ESC, done.stdout)  # in a pipe bytes pass as they are
                    self.assertNotIn(b"\x1b", done.stderr)

    def test_every_verb_explains_itself(self):
        self.serve()
        for verb in self.verbs(self.gateway):
            words = verb[:2] if verb[0] in ("token", "grants", "packet", "model") else verb[:1]
            text = self.run_cli(*words, "--help").stdout.decode()
            self.assertIn("Examples:\n  aotxctl " + " ".join(words), text)
            self.assertIn("--json", text)


if __name__ == "__main__":
    if not (build_dir() / "bin/aotxd").is_file():
        print("no aotxd in", build_dir())
        sys.exit(77)
    support.main()
