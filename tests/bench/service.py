#!/usr/bin/env python3
"""Purpose:  the service's speed as ratios against floors that run in the same minutes: bare SEQPACKET echo, a plain
          epoll server, nginx, and the runtime's own offline speed.
Owns:     every process that it starts; all of them listen on loopback.
Thread:   one; load comes from wrk and bench_stream.
Lifetime: one run of some minutes. Prints a table a section; docs/measured.md holds the figures.

usage: AOTX_BUILD=build python3 tests/bench/service.py [operation] [http] [token] [first] [stream] [load] [memory]
Needs a build with -DAOTX_BENCH=ON, wrk and nginx; stream also needs the real model.
"""
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from aotx_service import Principal, Service, build_dir, free_port, model_path, real_model, scripted_model  # noqa: E402

ROUNDS = int(os.environ.get("AOTX_BENCH_ROUNDS", "5"))


def median(values):
    return statistics.median(values)


def run_text(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def cpu_name():
    return re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text()).group(1)


def wrk(url, connections, seconds=2, token=None):
    """(requests a second, p50 us, p99 us) of one wrk run with one thread."""
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency", url]
    if token:
        command[1:1] = ["-H", f"Authorization: Bearer {token}"]
    text = run_text(*command)
    if "Non-2xx" in text:
        raise RuntimeError(text)
    unit = {"us": 1, "ms": 1000, "s": 1000000}

    def latency(percent):
        number, kind = re.search(percent + r"%\s+([\d.]+)(us|ms|s)", text).groups()
        return float(number) * unit[kind]
    return float(re.search(r"Requests/sec:\s+([\d.]+)", text).group(1)), latency("50"), latency("99")


def bench_operation():
    """The echo runs where the broker does, so that the ratio compares programs and not placements."""
    for name, broker_cpu, client_cpu in (("one core", 0, 0), ("two cores", 1, 0), ("as the kernel likes", -1, -1)):
        with Service([scripted_model()], broker={"cpus": str(broker_cpu)} if broker_cpu >= 0 else {}) as service:
            print(f"{name}: " + run_text(
                build_dir() / "bin/bench_operation", service.socket_path, service.path / "grants.bin",
                ROUNDS * 2 + 1, client_cpu, broker_cpu).splitlines()[-1])


class Nginx:
    """nginx with one worker that answers the gateway's /healthz body itself."""

    def __init__(self, port):
        self.folder = tempfile.TemporaryDirectory()
        path = Path(self.folder.name)
        (path / "nginx.conf").write_text(
            f"worker_processes 1; daemon off; pid {path}/pid; error_log {path}/error crit;"
            "events { worker_connections 1024; }"
            f"http {{ access_log off; keepalive_requests 100000000; server {{ listen 127.0.0.1:{port};"
            " location / { return 200 '{\"status\":\"ok\"}'; } } }")
        self.process = subprocess.Popen(["nginx", "-p", str(path), "-c", str(path / "nginx.conf")],
                                        stderr=subprocess.DEVNULL)

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.folder.cleanup()


def native_request(service, tokens=8):
    """The path of a completed native request."""
    status, answer = service.json("POST", "/aotx/v1/requests", {
        "model": "test", "max_tokens": tokens, "messages": [{"role": "user", "content": "hello"}]})
    assert status == 202, answer
    path = "/aotx/v1/requests/" + answer["id"]
    for _ in range(500):
        status, state = service.json("GET", path)
        if state["state"] in ("completed", "failed", "cancelled"):
            return path
        time.sleep(0.01)
    raise RuntimeError("the request does not end")


def bench_http():
    floor_port, nginx_port = free_port(), free_port()
    floor = subprocess.Popen([str(build_dir() / "bin/floor_http"), str(floor_port)])
    nginx = Nginx(nginx_port)
    try:
        with Service([scripted_model()]) as service:
            path = native_request(service)
            base = f"http://127.0.0.1:{service.port}"
            health, read_one, read_many = [], [], []
            for _ in range(ROUNDS):
                peer = wrk(f"http://127.0.0.1:{nginx_port}/", 32)
                own = wrk(base + "/healthz", 32)
                health.append((own[0] / peer[0], own, peer))
                bare = wrk(f"http://127.0.0.1:{floor_port}/", 1)
                own = wrk(base + path, 1, token=service.token)
                read_one.append((own[1] / bare[1], own, bare))
                bare = wrk(f"http://127.0.0.1:{floor_port}/", 32)
                own = wrk(base + path, 32, token=service.token)
                read_many.append((own[0] / bare[0], own, bare))
        for name, rows, column in (("/healthz at 32, rate / nginx", health, 0),
                                   ("native read at 1, p50 / plain epoll", read_one, 1),
                                   ("native read at 32, rate / plain epoll", read_many, 0)):
            print(f"{name}: ratio {median([row[0] for row in rows]):.2f} "
                  f"(own {median([row[1][column] for row in rows]):.0f}, "
                  f"floor {median([row[2][column] for row in rows]):.0f}; "
                  f"{'us' if column == 1 else 'requests/s'}; {ROUNDS} rounds, "
                  f"{min(row[0] for row in rows):.2f}-{max(row[0] for row in rows):.2f})")
    finally:
        floor.terminate()
        nginx.stop()


def stream_run(service, clients, tokens, requests, mode, words=20, model="smollm2"):
    return json.loads(run_text(build_dir() / "bin/bench_stream", service.port, service.token, model, clients, tokens,
                               requests, mode, words))


def offline_run(model, threads, prompt_tokens, tokens):
    return json.loads(run_text(build_dir() / "bin/bench_text", build_dir() / "lib/libaotx_text_gguf.so", model,
                               threads, prompt_tokens, tokens, 1))


def stepper_ms(service):
    """Processor time that the thread which runs the model has taken so far."""
    for task in Path(f"/proc/{service.process.pid}/task").iterdir():
        if (task / "comm").read_text().strip() == "aotx-stepper":
            return int((task / "schedstat").read_text().split()[0]) / 1e6
    raise RuntimeError("no stepper")


def bench_token():
    """What the service adds to a streamed token: a small model of random weights, one thread, the runtime alone and
    the whole service in turn. Time on the clock, and processor time of the thread that runs the model."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "random.gguf"
        run_text(build_dir() / "bin/bench_model", path)
        tokens = 1000
        small = {**real_model(alias="random", threads=1), "path": str(path)}
        with Service([small], broker={"cpus": "1"}, gateway={"cpus": "1"}) as service:
            rows = []
            for _ in range(ROUNDS * 2 + 1):
                offline = offline_run(path, 1, 100, tokens)
                alone, alone_busy = offline["token_ms"] * 1000, offline["token_processor_ms"] * 1000
                begin = stepper_ms(service)
                through = stream_run(service, 1, tokens, 1, "stream", 20, model="random")["token_ms_p50"] * 1000
                busy = (stepper_ms(service) - begin) * 1000 / tokens
                rows.append((through - alone, through, alone, busy - alone_busy))
        print(f"one streamed token through the service minus the runtime alone: {median([row[0] for row in rows]):.1f} us "
              f"({min(row[0] for row in rows):.1f} to {max(row[0] for row in rows):.1f}; "
              f"{median([row[1] for row in rows]):.1f} and {median([row[2] for row in rows]):.1f} us, "
              f"{len(rows)} rounds of {tokens} tokens); processor time of the model's thread, prefill included: "
              f"{median([row[3] for row in rows]):+.1f} us ({min(row[3] for row in rows):.1f} to "
              f"{max(row[3] for row in rows):.1f})")


def bench_stream():
    with Service([real_model(threads=int(os.environ.get("AOTX_BENCH_THREADS", "2")))],
                 device={"execution_slots": 32}) as service:
        rows = []
        for number in range(ROUNDS):
            one = stream_run(service, 1, 64, 2, "stream", 20)
            many = stream_run(service, 32, 64, 32, "stream", 5)
            plain = stream_run(service, 32, 64, 32, "plain", 5)
            rows.append((one, many, plain))
            print(f"round {number}: 1 client first {one['first_ms_p50']:.1f} ms, token {one['token_ms_p50']:.3f} ms; "
                  f"32 clients stream {many['tokens_per_second']:.0f} tok/s, plain {plain['tokens_per_second']:.0f}, "
                  f"ratio {many['tokens_per_second'] / plain['tokens_per_second']:.3f}")
        print("32 clients, stream / plain: ratio "
              f"{median([many['tokens_per_second'] / plain['tokens_per_second'] for _, many, plain in rows]):.3f}")


def bench_first():
    """Time to the first token through the whole service, beside the runtime's own prefill of as many tokens."""
    threads = int(os.environ.get("AOTX_BENCH_THREADS", "2"))
    with Service([real_model(threads=threads)]) as service:
        words = 90
        prompt = stream_run(service, 1, 1, 1, "plain", words)["prompt_tokens"]
        rows = []
        for _ in range(ROUNDS):
            own = prompt * 1000 / offline_run(model_path(), threads, prompt, 1)["prefill_per_second"]
            first = stream_run(service, 1, 2, 3, "stream", words)["first_ms_p50"]
            rows.append(((first - 0.3) / own, first, own))
        print(f"time to first token, {prompt} tokens of prompt, {threads} threads: (it - 0.3 ms) / own prefill "
              f"{median([row[0] for row in rows]):.2f} ({min(row[0] for row in rows):.2f} to "
              f"{max(row[0] for row in rows):.2f}); {median([row[1] for row in rows]):.1f} and "
              f"{median([row[2] for row in rows]):.1f} ms, {ROUNDS} rounds")


def open_connection(port):
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def health_times(port, count):
    """Milliseconds of /healthz on new connections; an unanswered one raises."""
    times = []
    for _ in range(count):
        begin = time.monotonic()
        connection = socket.create_connection(("127.0.0.1", port), timeout=10)
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        data = b""
        while part := connection.recv(4096):
            data += part
        connection.close()
        assert data.startswith(b"HTTP/1.1 200"), data[:100]
        times.append((time.monotonic() - begin) * 1000)
        time.sleep(0.005)
    return sorted(times)


def resident_bytes(pid):
    text = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", text).group(1)) * 1024


def bench_load():
    """200 streams of ten pieces a second each, read by a process of their own, beside connections that say nothing and
    connections that never end their head."""
    script = scripted_model(pieces=[{"text": "x", "delay_ms": 100}], repeat=True, sequences=256, step_tokens=8192,
                            sequence_tokens=1024)
    with Service([script], principals=[Principal("alice", active=512)],
                 gateway={"connections": 4096, "work": 512, "header_seconds": 300, "idle_seconds": 600},
                 device={"requests": 512, "active_requests": 512, "execution_slots": 256}) as service:
        gateway = service.gateway_pid()
        unloaded = health_times(service.port, 1000)
        before = resident_bytes(gateway)
        held = [open_connection(service.port) for _ in range(2000)]
        for connection in held[1000:]:
            connection.sendall(b"G")
        streams = subprocess.Popen([str(build_dir() / "bin/bench_stream"), str(service.port), service.token, "test",
                                    "200", "300", "200", "stream", "5"], stdout=subprocess.PIPE, text=True)
        time.sleep(3)
        times = health_times(service.port, 1000)
        after = resident_bytes(gateway)
        threads = len(list(Path(f"/proc/{gateway}/task").iterdir()))
        if streams.poll() is not None:
            raise RuntimeError("the streams ended before the measurement did")
        found = json.loads(streams.communicate()[0])
        print(f"load: 1000 idle, 1000 slow, 200 streams ({found['failed']} failed, {found['tokens_per_second']:.0f} "
              f"pieces/s), {threads} gateway thread; all of {len(times)} /healthz answered, p50 "
              f"{unloaded[500]:.2f} -> {times[500]:.2f} ms, p99 {unloaded[990]:.2f} -> {times[990]:.2f} ms "
              f"(ratio {times[990] / unloaded[990]:.2f}); {(after - before) / 2200 / 1024:.1f} KiB a connection")
        for connection in held:
            connection.close()


def bench_memory():
    with Service([scripted_model()], device={"requests": 64}) as service:
        pids = {"aotxd": service.process.pid, "aotx-gateway": service.gateway_pid()}
        sizes = {}
        for count, upto in ((100, 100), (9900, 10000)):
            stream_run(service, 8, 8, count, "plain", 5, model="test")
            sizes[upto] = {name: resident_bytes(pid) for name, pid in pids.items()}
        for name in pids:
            print(f"memory: {name} {sizes[100][name] >> 10} KiB after 100 requests, {sizes[10000][name] >> 10} KiB "
                  f"after 10000, ratio {sizes[10000][name] / sizes[100][name]:.3f}")
    with Service([real_model(threads=2)]) as service:
        stream_run(service, 16, 64, 32, "stream", 5)
        budget = json.loads(run_text(build_dir() / "bin/aotxd", "--config", service.config, "--check", "--json"))
        bound = model_path().stat().st_size + budget["total_bytes"]
        resident = resident_bytes(service.process.pid)
        print(f"memory: aotxd with the real model {resident >> 20} MiB resident after 32 requests; file and printed "
              f"budget {bound >> 20} MiB, and 48 MiB more are allowed")


SECTIONS = {"operation": bench_operation, "http": bench_http, "token": bench_token, "first": bench_first,
            "stream": bench_stream, "load": bench_load, "memory": bench_memory}


def main():
    names = sys.argv[1:] or list(SECTIONS)
    commit = run_text("git", "-C", Path(__file__).parent, "rev-parse", "--short", "HEAD").strip()
    print(f"{cpu_name()}, {os.cpu_count()} cores, commit {commit}, {time.strftime('%Y-%m-%d')}")
    for name in names:
        if name not in SECTIONS:
            sys.exit(f"unknown section {name}; known: {' '.join(SECTIONS)}")
        SECTIONS[name]()


if __name__ == "__main__":
    main()
