#!/usr/bin/env python3
"""Purpose:  the whole service from outside: what survives what, what is told to whom, what is left behind.
Owns:     the services it starts.
Thread:   main.
Lifetime: one run; AOTX_BUILD names the build folder.
"""
import base64
import http.client
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from aotx_service import Principal, Service, build_dir, grants_frame, scripted_model  # noqa: E402

MESSAGES = [{"role": "user", "content": "hello"}]
PATIENCE_S = 60


def eventually(condition, what):
    """Wait until condition() is true; only a broken service makes this take long."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not within {PATIENCE_S} s: {what}")
        time.sleep(0.02)


def numbered(count, delay_ms=0):
    """Pieces that differ, so that a lost or repeated one shows."""
    return [{"text": f"<{number}>", "delay_ms": delay_ms} for number in range(count)]


def text_of(count):
    return "".join(f"<{number}>" for number in range(count)).encode()


def submit(service, **more):
    status, answer = service.json("POST", "/aotx/v1/requests", {"model": "test", "messages": MESSAGES}, **more)
    assert status == 202, (status, answer)
    return answer["id"]


class Events:
    """The event stream of one request: emitted bytes and the last cursor, as far as they came."""

    def __init__(self, service, handle, cursor=0):
        self.connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=PATIENCE_S)
        self.connection.request("GET", f"/aotx/v1/requests/{handle}/events",
                                headers={"Authorization": f"Bearer {service.token}",
                                         "Last-Event-ID": f"{handle}:{cursor}"})
        self.answer = self.connection.getresponse()
        self.status = self.answer.status
        self.data, self.cursor, self.state = b"", cursor, None

    def frames(self):
        frame = {}
        for raw in self.answer:
            line = raw.decode().rstrip("\r\n")
            if line == "":
                if frame:
                    yield frame
                frame = {}
            elif not line.startswith(":"):
                name, _, value = line.partition(":")
                frame[name] = value.removeprefix(" ")

    def read(self, bytes_wanted=None):
        """Read until so many bytes came and keep the connection, or to its end, however it ends."""
        try:
            for frame in self.frames():
                body = json.loads(frame["data"])
                if frame["event"] == "emission":
                    self.data += base64.b64decode(body["bytes"])
                    self.cursor = int(body["next_cursor"])
                elif frame["event"] == "status":
                    self.state = body["state"]
                if bytes_wanted is not None and len(self.data) >= bytes_wanted:
                    return self
        except (OSError, http.client.HTTPException):
            pass
        self.answer.close()
        self.connection.close()
        return self


def running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class Survival(unittest.TestCase):
    def test_a_killed_gateway_is_replaced_and_the_stream_goes_on_at_its_cursor(self):
        count = 150
        with Service([scripted_model(pieces=numbered(count, delay_ms=10))]) as service:
            handle = submit(service)
            device_pid = service.process.pid
            first = Events(service, handle).read(bytes_wanted=20)
            self.assertGreaterEqual(len(first.data), 20)
            gateway_pid = service.gateway_pid()
            os.kill(gateway_pid, signal.SIGKILL)
            first.read()
            self.assertNotIn(first.state, ("completed", "failed", "cancelled"))
            eventually(lambda: service.gateway_pid() not in (None, gateway_pid), "another gateway")
            service.wait_ready()
            second = Events(service, handle, first.cursor).read()
            self.assertEqual(second.status, 200)
            self.assertEqual(first.data + second.data, text_of(count))
            self.assertEqual(second.state, "completed")
            self.assertEqual(service.process.pid, device_pid)
            self.assertIsNone(service.process.poll())

    def test_after_a_killed_device_old_handles_are_gone_and_the_service_comes_back(self):
        with Service([scripted_model(pieces=numbered(3))]) as service:
            handle = submit(service)
            self.assertEqual(Events(service, handle).read().state, "completed")
            gateway_pid = service.gateway_pid()
            service.stop(signal.SIGKILL)
            eventually(lambda: not running(gateway_pid), "the gateway follows its device process")
            service.start()
            for method, path in (("GET", ""), ("GET", "?cursor=0"), ("POST", "/cancel"), ("GET", "/events")):
                body = {} if method == "POST" else None
                status, answer = service.json(method, f"/aotx/v1/requests/{handle}{path}", body)
                self.assertEqual(status, 410, (method, path, answer))
            fresh = submit(service)
            self.assertGreater(int(fresh[4:20], 16), int(handle[4:20], 16))
            self.assertEqual(Events(service, fresh).read().data, text_of(3))

    def test_a_gateway_that_keeps_dying_is_started_again_each_time(self):
        with Service([scripted_model(pieces=numbered(1))]) as service:
            for _ in range(3):
                gateway_pid = service.gateway_pid()
                os.kill(gateway_pid, signal.SIGKILL)
                eventually(lambda: service.gateway_pid() not in (None, gateway_pid), "another gateway")
                service.wait_ready()
            self.assertEqual(Events(service, submit(service)).read().data, text_of(1))

    def test_a_gateway_alone_waits_for_its_device(self):
        with Service([scripted_model(pieces=numbered(1))], start=False) as service:
            gateway = subprocess.Popen([str(build_dir() / "bin/aotx-gateway"), "--config", str(service.config)],
                                       stdin=subprocess.DEVNULL, stdout=service.log, stderr=service.log)
            try:
                eventually(lambda: self.health(service) == 200, "the gateway answers without a device")
                self.assertEqual(service.http("GET", "/readyz", token=None)[0], 503)
                service.start(arguments=["--no-gateway"])
                self.assertIsNone(service.gateway_pid())
                self.assertEqual(Events(service, submit(service)).read().data, text_of(1))
            finally:
                gateway.terminate()
                gateway.wait(PATIENCE_S)

    @staticmethod
    def health(service):
        try:
            return service.http("GET", "/healthz", token=None)[0]
        except OSError:
            return None


class Start(unittest.TestCase):
    def test_check_prints_a_budget_that_adds_up_and_starts_nothing(self):
        with Service([scripted_model(pieces=numbered(1))], start=False) as service:
            command = [str(build_dir() / "bin/aotxd"), "--config", str(service.config), "--check"]
            report = subprocess.run([*command, "--json"], capture_output=True, check=True, timeout=PATIENCE_S)
            budget = json.loads(report.stdout)
            self.assertGreater(len(budget["budget"]), 5)
            self.assertEqual(sum(line["bytes"] for line in budget["budget"]), budget["total_bytes"])
            text = subprocess.run(command, capture_output=True, check=True, timeout=PATIENCE_S).stdout.decode()
            self.assertRegex(text, rf"\n  sum +{budget['total_bytes']} ")
            for line in budget["budget"]:
                self.assertRegex(text, rf"\n  {re.escape(line['name'])} +{line['bytes']}\n")
            self.assertFalse(Path(service.socket_path).exists())
            self.assertFalse((service.path / "state/epoch").exists())
            # Once it runs it has taken what was announced, to the byte.
            service.start()
            sample = service.json("GET", "/aotx/v1/telemetry")[1]["sample"]
            self.assertEqual(sample["service_allocation_bytes"], str(budget["total_bytes"]))

    def test_what_cannot_be_served_ends_the_start_with_a_reason(self):
        with tempfile.TemporaryDirectory() as other:
            # A head that promises 2^60 tensors and nothing behind it.
            Path(f"{other}/model.gguf").write_bytes(struct.pack("<4sIQQ", b"GGUF", 3, 1 << 60, 0))
            text = build_dir() / "lib/libaotx_text_gguf.so"
            broken = {"library": str(text), "path": f"{other}/model.gguf", "options": ""}
            rows = [
                *([(4, "tensor_count", {}, broken)] if text.is_file() else []),  # sanitizer builds lack it
                (3, "device.wrong: unknown key", {"device": {"wrong": 1}}, {}),
                (4, "cannot open shared object", {}, {"library": f"{other}/none.so"}),
                (4, "answered -", {}, {"options": json.dumps({"fail_open": True})}),
            ]
            for code, words, sections, model in rows:
                with Service([{**scripted_model(), **model}], start=False, **sections) as service:
                    done = subprocess.run([str(build_dir() / "bin/aotxd"), "--config", str(service.config)],
                                          capture_output=True, timeout=PATIENCE_S)
                    self.assertEqual(done.returncode, code, done.stderr)
                    self.assertIn(words, done.stderr.decode())
                    self.assertEqual(done.stdout, b"")
                    self.assertFalse(Path(service.socket_path).exists())

    def test_grants_that_others_can_write_stop_the_start(self):
        with Service([scripted_model()], start=False) as service:
            (service.path / "grants.bin").chmod(0o666)
            done = subprocess.run([str(build_dir() / "bin/aotxd"), "--config", str(service.config)],
                                  capture_output=True, timeout=PATIENCE_S)
            self.assertEqual(done.returncode, 4)
            self.assertIn(b"writable by nobody else", done.stderr)

    def test_one_state_directory_serves_one_process(self):
        with Service([scripted_model(pieces=numbered(1))]) as service:
            done = subprocess.run([str(build_dir() / "bin/aotxd"), "--config", str(service.config)],
                                  capture_output=True, timeout=PATIENCE_S)
            self.assertEqual(done.returncode, 4)
            self.assertIn(b"another device process uses it", done.stderr)
            self.assertEqual(Events(service, submit(service)).read().data, text_of(1))

    def test_an_epoch_that_cannot_be_stored_stops_the_start(self):
        with Service([scripted_model()], start=False) as service:
            (service.path / "state/epoch.new").mkdir()
            done = subprocess.run([str(build_dir() / "bin/aotxd"), "--config", str(service.config)],
                                  capture_output=True, timeout=PATIENCE_S)
            self.assertEqual(done.returncode, 4)
            self.assertIn(b"epoch: cannot be written", done.stderr)

    def test_the_supervisor_hears_when_it_serves_and_when_it_stops(self):
        with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
            supervisor.bind(f"{folder}/notify")
            supervisor.settimeout(PATIENCE_S)
            wrap = ["env", f"NOTIFY_SOCKET={folder}/notify"]
            with Service([scripted_model()], wrap=wrap) as service:
                self.assertEqual(supervisor.recv(100), b"READY=1")
                self.assertEqual(service.http("GET", "/healthz", token=None)[0], 200)
            self.assertEqual(supervisor.recv(100), b"STOPPING=1")


class Stop(unittest.TestCase):
    def test_a_stop_leaves_nothing_behind(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with Service([scripted_model(pieces=numbered(1))]) as service:
                gateway_pid = service.gateway_pid()
                self.assertEqual(service.stop(number), 0)
                self.assertFalse(Path(service.socket_path).exists())
                self.assertFalse(running(gateway_pid))
                left = {entry.name for entry in service.path.iterdir()}
                self.assertEqual(left, {"aotx.toml", "grants.bin", "log", "state"})

    def test_a_gateway_may_be_told_again_and_again_to_stop(self):
        with Service([scripted_model(pieces=numbered(1))]) as service:
            for _ in range(3):
                gateway_pid = service.gateway_pid()
                try:
                    while True:
                        os.kill(gateway_pid, signal.SIGTERM)
                        os.kill(gateway_pid, signal.SIGHUP)
                except ProcessLookupError:
                    pass
                eventually(lambda: service.gateway_pid() not in (None, gateway_pid), "another gateway")
                self.assertNotRegex(service.log_text(), r"gateway ended with (signal|status [1-9])")
                service.wait_ready()

    def test_a_stop_lets_an_answer_end(self):
        count = 50
        with Service([scripted_model(pieces=numbered(count, delay_ms=20))], device={"stop_seconds": 60}) as service:
            events = Events(service, submit(service)).read(bytes_wanted=6)
            service.process.send_signal(signal.SIGTERM)
            events.read()
            self.assertEqual(events.data, text_of(count))
            self.assertEqual(service.process.wait(PATIENCE_S), 0)


class Grants(unittest.TestCase):
    def test_a_reload_replaces_the_grants_or_leaves_them(self):
        with Service([scripted_model(pieces=numbered(2))]) as service:
            path = service.path / "grants.bin"
            old = submit(service)
            # The same file again is no news, and no failure.
            service.process.send_signal(signal.SIGHUP)
            eventually(lambda: "revision 1 are installed already" in service.log_text(), "it is told so")
            self.assertEqual(Events(service, old).read().state, "completed")
            # A file that cannot be used: the installed grants stay.
            good = path.read_bytes()
            path.write_bytes(good[:-1])
            service.process.send_signal(signal.SIGHUP)
            eventually(lambda: "the installed grants stay" in service.log_text(), "the refusal is logged")
            self.assertEqual(Events(service, old).read().data, text_of(2))
            # A new revision without the first principal: its calls end, the other's go on.
            alice, bob = service.principals
            service.revision += 1
            path.write_bytes(grants_frame([bob], service.revision))
            service.process.send_signal(signal.SIGHUP)
            eventually(lambda: "revision 2 installed" in service.log_text(), "the new grants")
            eventually(lambda: service.http("GET", "/v1/models", token=bob.token)[0] == 200, "the gateway follows")
            self.assertEqual(service.http("GET", "/v1/models", token=alice.token)[0], 403)
            self.refused_body_is_no_request(service, alice.token, bob.token)
            self.assertEqual(service.http("GET", f"/aotx/v1/requests/{old}", token=bob.token)[0], 404)
            handle = submit(service, token=bob.token)
            service.token = bob.token
            self.assertEqual(Events(service, handle).read().data, text_of(2))


    def refused_body_is_no_request(self, service, revoked, valid):
        """A body that is a request, sent with a token that lost its grant, then a real request."""
        inner = b"GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        with socket.create_connection(("127.0.0.1", service.port), timeout=PATIENCE_S) as client:
            client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                           b"Content-Type: application/json\r\nContent-Length: 44\r\n"
                           b"Authorization: Bearer " + revoked.encode() + b"\r\n\r\n" + inner)
            client.sendall(b"GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
                           b"Authorization: Bearer " + valid.encode() + b"\r\n\r\n")
            answers = b""
            while got := client.recv(65536):
                answers += got
        statuses = re.findall(rb"HTTP/1.1 (\d+) ", answers)
        self.assertIn(statuses[0], (b"400", b"403"))
        self.assertTrue(statuses[1:] == [b"200"] or b"Connection: close" in answers, answers)


class Isolation(unittest.TestCase):
    def test_a_handle_of_another_is_like_one_that_never_was(self):
        with Service([scripted_model(pieces=numbered(2))],
                     principals=[Principal("alice"), Principal("bob")]) as service:
            handle = submit(service)
            bob = service.principals[1].token
            never = handle[:21] + "f" * 32
            for suffix in ("", "?cursor=0", "/events"):
                theirs = service.http("GET", f"/aotx/v1/requests/{handle}{suffix}", token=bob)
                nobodys = service.http("GET", f"/aotx/v1/requests/{never}{suffix}", token=bob)
                self.assertEqual(theirs[0], 404)
                self.assertEqual((theirs[0], theirs[2]), (nobodys[0], nobodys[2]))
            self.assertEqual(service.http("POST", f"/aotx/v1/requests/{handle}/cancel", {}, token=bob)[0], 404)
            self.assertEqual(Events(service, handle).read().data, text_of(2))


if __name__ == "__main__":
    unittest.main(verbosity=2)
