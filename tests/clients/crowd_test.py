#!/usr/bin/env python3
"""Purpose:  a crowd at the gateway: idle connections, heads that never end, and streams; health is answered all the
          same, by one thread and little memory.
Owns:     one service and the sockets of the crowd.
Thread:   one.
Lifetime: one run; exit 0 good, 1 failed.

usage: crowd_test.py [--figures]   --figures prints latencies of health before and during, for docs/measured.md.
"""
import http.client
import json
import resource
import selectors
import socket
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from aotx_service import Principal, Service, scripted_model  # noqa: E402

IDLE, SLOW, STREAMS = 1000, 1000, 200
BYTES_A_CONNECTION_MAX = 16 * 1024


def status_kib(pid, field):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])
    return 0


def health(port, rounds):
    """Microseconds of each answer, on new connections and on one that stays."""
    taken = []
    kept = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    for i in range(rounds):
        connection = kept if i % 2 else http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        begin = time.perf_counter_ns()
        connection.request("GET", "/healthz")
        answer = connection.getresponse()
        assert answer.status == 200 and answer.read() == b'{"status":"ok"}'
        taken.append((time.perf_counter_ns() - begin) // 1000)
        if connection is not kept:
            connection.close()
    kept.close()
    return sorted(taken)


def spread(taken):
    return f"p50 {taken[len(taken) // 2]} us, p99 {taken[len(taken) * 99 // 100]} us, max {taken[-1]} us"


def connect(port):
    return socket.create_connection(("127.0.0.1", port), timeout=20)


def main():
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    model = scripted_model("slow", pieces=[{"text": "tick ", "delay_ms": 50}], repeat=True, sequences=256)
    device = {"requests": 512, "execution_slots": 256, "active_requests": 512}
    gateway = {"connections": 4096, "work": 512, "header_seconds": 300, "idle_seconds": 300}
    principals = [Principal("alice", output_tokens=4000, active=512)]
    with Service([model], principals=principals, device=device, gateway=gateway) as service:
        pid = service.gateway_pid()
        before = health(service.port, 400)
        rss_before = status_kib(pid, "VmRSS")
        crowd = [connect(service.port) for _ in range(IDLE)]
        slow = [connect(service.port) for _ in range(SLOW)]
        body = json.dumps({"model": "slow", "messages": [{"role": "user", "content": "hi"}], "stream": True})
        ask = (f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {service.token}\r\n"
               f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}").encode()
        streams = [connect(service.port) for _ in range(STREAMS)]
        for stream in streams:
            stream.sendall(ask)
        for i, one in enumerate(slow):
            one.sendall(b"GET /healthz HTTP/1.1\r\nX-Slow: "[: i % 30 + 1])
        seen = {stream: b"" for stream in streams}
        readable = selectors.DefaultSelector()
        for stream in streams:
            readable.register(stream, selectors.EVENT_READ)
        end = time.monotonic() + 60
        while any(b"tick" not in text for text in seen.values()) and time.monotonic() < end:
            for key, _ in readable.select(1):
                seen[key.fileobj] += key.fileobj.recv(65536)
        started = sum(b"tick" in text for text in seen.values())
        during = []
        for part in range(10):
            for one in slow:
                one.sendall(b"x")
            for key, _ in readable.select(0):
                key.fileobj.recv(1 << 20)
            during += health(service.port, 40)
        rss = status_kib(pid, "VmRSS")
        threads = status_kib(pid, "Threads")
        open_now = IDLE + SLOW + STREAMS
        each = (rss - rss_before) * 1024 / open_now
        if "--figures" in sys.argv:
            print(f"health alone:      {spread(before)}")
            print(f"health in a crowd: {spread(sorted(during))}")
            print(f"gateway: {rss_before} KiB alone, {rss} KiB with {open_now} connections, "
                  f"{each:.0f} bytes each, {threads} thread(s)")
        assert started == STREAMS, f"{started} of {STREAMS} streams began"
        assert threads == 1, f"{threads} threads"
        assert each <= BYTES_A_CONNECTION_MAX, f"{each:.0f} bytes a connection"
        for one in crowd + slow + streams:
            one.close()
    print(f"crowd: {len(during)} of {len(during)} health checks answered")


if __name__ == "__main__":
    main()
