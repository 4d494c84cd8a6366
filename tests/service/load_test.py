#!/usr/bin/env python3
"""Purpose:  the service under many connections: it answers, its memory and descriptors stay bounded, idle is idle.
Owns:     the services it starts and every connection to them.
Thread:   main.
Lifetime: one run; AOTX_BUILD names the build folder. Nothing here measures time.
"""
import array
import json
import os
import re
import resource
import selectors
import socket
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from aotx_service import Principal, Service, scripted_model  # noqa: E402

MESSAGES = [{"role": "user", "content": "hello"}]
IDLE, SLOW, STREAMS = 1000, 1000, 200
CONNECTION_BYTES_MAX = 16 * 1024
SANITIZED = bool(os.environ.get("AOTX_BUILD", "").endswith(("asan", "tsan")))


def resident_bytes(pid):
    text = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"^VmRSS:\s+(\d+) kB", text, re.M).group(1)) * 1024


def threads(pid):
    return len(os.listdir(f"/proc/{pid}/task"))


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def switches(pid):
    """Context switches of every thread of a process: a thread that never runs makes none."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        for line in (task / "status").read_text().splitlines():
            if "ctxt_switches" in line:
                total += int(line.split()[1])
    return total


def chat(service, stream=False):
    body = json.dumps({"model": "test", "messages": MESSAGES, "stream": stream}).encode()
    return (f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{service.port}\r\n"
            f"Authorization: Bearer {service.token}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n").encode() + body


def settled(value):
    """The value once it has stopped changing, for what goes down a moment after its cause."""
    last = value()
    for _ in range(50):
        time.sleep(0.1)
        now = value()
        if now == last:
            return now
        last = now
    return last


class Load(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = IDLE + SLOW + STREAMS + 300
        if hard != resource.RLIM_INFINITY and hard < wanted:
            raise unittest.SkipTest(f"needs {wanted} descriptors, the limit is {hard}")
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))

    def test_health_is_answered_beside_idle_slow_and_streaming_connections(self):
        # The streams last until the test ends them, with one piece every 200 ms each.
        model = scripted_model(pieces=[{"text": "x", "delay_ms": 200}], repeat=True, sequences=256,
                               step_tokens=8192, sequence_tokens=1024)
        limits = {"connections": IDLE + SLOW + STREAMS + 100, "work": STREAMS + 10, "header_seconds": 300,
                  "idle_seconds": 600}
        device = {"requests": 256, "execution_slots": 256, "active_requests": 512}
        with Service([model], [Principal("alice", active=512)], gateway=limits, device=device) as service:
            gateway = service.gateway_pid()
            self.health(service, 20)
            before = resident_bytes(gateway)
            threads_before = threads(gateway)
            held = [self.connect(service) for _ in range(IDLE)]
            for _ in range(SLOW):
                slow = self.connect(service)
                slow.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127")
                held.append(slow)
            self.health(service, 20)
            streams = [self.connect(service) for _ in range(STREAMS)]
            for stream in streams:
                stream.sendall(chat(service, stream=True))
            self.read_each(streams, b'"content":"x"')
            for round_number in range(20):
                held[IDLE + round_number].sendall(b".0.0.1")
                self.health(service, 5)
            # Every stream is still alive after all this.
            self.read_each(streams, b'"content":"x"')
            self.assertEqual(threads(gateway), threads_before)
            self.assertEqual(threads_before, 1)
            per_connection = (resident_bytes(gateway) - before) / (IDLE + SLOW + STREAMS)
            if not SANITIZED:
                self.assertLessEqual(per_connection, CONNECTION_BYTES_MAX)
            for connection in held + streams:
                connection.close()
            self.health(service, 20)

    def connect(self, service):
        return socket.create_connection(("127.0.0.1", service.port), timeout=60)

    def health(self, service, times):
        for _ in range(times):
            self.assertEqual(service.http("GET", "/healthz", token=None)[0], 200)

    def read_each(self, streams, wanted):
        """Read until every stream has brought the wanted bytes anew."""
        waiting = {stream: b"" for stream in streams}
        with selectors.DefaultSelector() as selector:
            for stream in streams:
                selector.register(stream, selectors.EVENT_READ)
            while waiting:
                found = selector.select(60)
                self.assertTrue(found, f"{len(waiting)} streams are silent")
                for key, _ in found:
                    stream = key.fileobj
                    got = stream.recv(65536)
                    self.assertTrue(got, f"a stream ended: {waiting.get(stream)}")
                    if stream in waiting:
                        waiting[stream] += got
                        if wanted in waiting[stream]:
                            del waiting[stream]

    def test_descriptors_and_threads_come_back(self):
        with Service([scripted_model(pieces=[{"text": "x"}])]) as service:
            pids = (service.process.pid, service.gateway_pid())
            self.ask(service, 20)
            before = [(settled(lambda: descriptors(pid)), threads(pid)) for pid in pids]
            for _ in range(5):
                connections = [self.connect(service) for _ in range(60)]
                for number, connection in enumerate(connections):
                    request = chat(service, stream=number % 2 == 0)
                    # Whole, cut off in the body, cut off in the head, or nothing at all.
                    connection.sendall(request[:(len(request), len(request) - 5, 30, 0)[number % 4]])
                for connection in connections:
                    connection.close()
                self.ask(service, 5)
            after = [(settled(lambda: descriptors(pid)), threads(pid)) for pid in pids]
            self.assertEqual(before, after)

    def test_descriptors_that_peers_send_are_not_kept(self):
        with Service([scripted_model(pieces=[{"text": "x"}])]) as service:
            pid = service.process.pid
            self.ask(service, 5)
            before = settled(lambda: descriptors(pid))
            self.descriptors_send(service, 1000)
            self.assertEqual(settled(lambda: descriptors(pid)), before)
            # Again with hardly any descriptor left for what arrives.
            _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (before + 3, hard))
            self.descriptors_send(service, 1000)
            self.assertEqual(settled(lambda: descriptors(pid)), before)
            self.ask(service, 5)

    def descriptors_send(self, service, times):
        with open("/dev/null", "rb") as file:
            for number in range(times):
                with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as peer:
                    peer.settimeout(60)
                    peer.connect(service.socket_path)
                    carried = array.array("i", [file.fileno()] * (1 + number % 3))
                    peer.sendmsg([b"A" * (1, 128, 200)[number % 3]],
                                 [(socket.SOL_SOCKET, socket.SCM_RIGHTS, carried)])
                    try:
                        self.assertEqual(peer.recv(1), b"")  # dropped
                    except ConnectionResetError:
                        pass

    def test_memory_stays_where_it_was(self):
        with Service([scripted_model(pieces=[{"text": "x" * 50}], sequence_tokens=512)]) as service:
            pids = (service.process.pid, service.gateway_pid())
            self.ask(service, 300)  # more than the table retains, so that every part has been used
            before = [resident_bytes(pid) for pid in pids]
            self.ask(service, 2000)
            after = [resident_bytes(pid) for pid in pids]
            if not SANITIZED:  # their quarantine keeps what was freed
                for was, now in zip(before, after):
                    self.assertLessEqual(now, 1.05 * was)

    def ask(self, service, times):
        connection = self.connect(service)
        for _ in range(times):
            connection.sendall(chat(service))
            answer = b""
            while b'"total_tokens"' not in answer or not answer.rstrip().endswith(b"}"):
                got = connection.recv(65536)
                self.assertTrue(got)
                answer += got
            self.assertTrue(answer.startswith(b"HTTP/1.1 200 "), answer)
        connection.close()

    def test_an_idle_service_does_not_run(self):
        with Service([scripted_model(pieces=[{"text": "x"}])]) as service:
            self.ask(service, 20)
            idle = self.connect(service)
            pids = (service.process.pid, service.gateway_pid())
            time.sleep(0.5)
            before = sum(switches(pid) for pid in pids)
            time.sleep(2)
            self.assertLessEqual(sum(switches(pid) for pid in pids) - before, 10)
            idle.close()


if __name__ == "__main__":
    unittest.main(verbosity=2)
