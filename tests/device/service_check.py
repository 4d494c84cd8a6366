#!/usr/bin/env python3
"""Purpose:  the steps of run.sh that need a whole service: an operation's round trip, an idle device, a busy stop.
Owns:     a Service in a scratch folder for each step.
Thread:   one.
Lifetime: one step; exit 0 when it holds, 1 with the reason in the last line, 77 when it cannot be told.

usage: AOTX_BUILD=build-device AOTX_TEST_DEVICE=cuda service_check.py operation|idle|stop [BENCH_OPERATION]
The last line is what the table shows. With another device or build folder the same steps run there.
"""
import os
import re
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from aotx_service import Service, build_dir, device_kind, scripted_model  # noqa: E402

ROUND_TRIP_US = 30.0
IDLE_S = 5
ENDLESS = {"pieces": [{"hex": "61", "delay_ms": 1}], "repeat": True}


def serving(service):
    """The device that serves, as capabilities tell; it must be the one that was asked for."""
    device = service.json("GET", "/aotx/v1/capabilities")[1]["device"]
    if device["kind"] != device_kind():
        raise RuntimeError(f"{device['kind']} serves: {device['reason']}")
    return device["name"]


def operation(bench):
    with Service([scripted_model()]) as service:
        name = serving(service)
        done = subprocess.run([bench, service.socket_path, str(service.path / "grants.bin"), "11", "-1", "-1"],
                              capture_output=True, text=True, timeout=60)
        print(done.stdout, done.stderr, sep="")
        found = re.search(r"median of .*echo p50 ([\d.]+) us, service p50 ([\d.]+) us", done.stdout)
        if done.returncode != 0 or not found:
            raise RuntimeError(f"bench_operation ended with {done.returncode}")
        echo, service_us = (float(word) for word in found.groups())
    good = service_us < ROUND_TRIP_US
    print(f"round trip p50 {service_us} us, bare echo {echo} us, wanted under {ROUND_TRIP_US:g} us; {name}")
    return 0 if good or os.environ.get("AOTX_DEVICE_DRY") else 1


def cpu_seconds(pid):
    words = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def gpu_percent():
    """What the card's own counter says was used in the last moments, or None where it cannot be asked."""
    try:
        done = subprocess.run(["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "-i", "0"],
                              capture_output=True, text=True, timeout=10)
        return int(done.stdout.strip())
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None


def idle():
    with Service([scripted_model()]) as service:
        name = serving(service)
        status, answer = service.json("POST", "/v1/chat/completions", {
            "model": "test", "messages": [{"role": "user", "content": "hi"}]})
        if status != 200:
            raise RuntimeError(f"a completion answered {status}: {answer}")
        time.sleep(2)  # let the card's counter forget the start
        before, ticks = cpu_seconds(service.process.pid), service.json("GET", "/aotx/v1/telemetry")[1]["sample"]["tick"]
        seen = []
        end = time.monotonic() + IDLE_S
        while time.monotonic() < end:
            seen.append(gpu_percent())
            time.sleep(0.5)
        used = cpu_seconds(service.process.pid) - before
        moved = int(service.json("GET", "/aotx/v1/telemetry")[1]["sample"]["tick"]) - int(ticks)
    most = None if None in seen else max(seen)
    gpu = "not told by this machine" if most is None else f"at most {most} %"
    print(f"idle for {IDLE_S} s: GPU use {gpu}, {used * 1000:.0f} ms of CPU, {moved} steps; {name}")
    return 0 if most in (None, 0) and used < 0.05 * IDLE_S and moved == 0 else 1


def stop():
    with Service([scripted_model(**ENDLESS)]) as service:
        name = serving(service)
        for _ in range(8):
            status, answer = service.json("POST", "/aotx/v1/requests", {
                "model": "test", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4000})
            if status != 202:
                raise RuntimeError(f"a submission answered {status}: {answer}")
        began = time.monotonic()
        code = service.stop()
        took = time.monotonic() - began
    print(f"SIGTERM with 8 requests running: exit {code} after {took:.2f} s; {name}")
    return 0 if code == 0 and took < 10 else 1


def main():
    steps = {"operation": lambda: operation(sys.argv[2] if len(sys.argv) > 2 else build_dir() / "bin/bench_operation"),
             "idle": idle, "stop": stop}
    if len(sys.argv) < 2 or sys.argv[1] not in steps:
        print(__doc__.split("usage: ")[1].split("\n")[0])
        return 2
    try:
        return steps[sys.argv[1]]()
    except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
        print(str(error).replace("\n", " "))
        return 1


if __name__ == "__main__":
    sys.exit(main())
