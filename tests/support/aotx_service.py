"""Purpose:  a whole service in a scratch folder: configuration, grants, token, aotxd and its gateway.
Owns:     the folder and the processes of each Service.
Thread:   the caller's.
Lifetime: `with Service(...) as service:` starts it and takes everything down again.

Used by the whole-service tests and by the benchmarks. The grant frame is packed here from the contract, not by the
programs under test.
"""
import hashlib
import http.client
import json
import os
import secrets
import signal
import socket
import struct
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODEL_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
ACTIONS_ALL = 0xFF
ROLES_ALL = 0b11100  # language, language-q4, language-audio


def build_dir():
    return Path(os.environ.get("AOTX_BUILD", ROOT / "build")).resolve()


def device_kind():
    """What runs the device core of a Service: the CPU, unless a test is run over another backend."""
    return os.environ.get("AOTX_TEST_DEVICE", "cpu")


def model_path():
    """The real model's file, or None when it is not on this machine."""
    for path in (os.environ.get("AOTX_MODEL"), ROOT / ".aotx" / MODEL_NAME):
        if path and Path(path).is_file():
            return Path(path)
    return None


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Principal:
    def __init__(self, name, actions=ACTIONS_ALL, model_mask=ROLES_ALL, output_tokens=4096, active=128):
        self.name = name
        self.id = hashlib.sha256(name.encode()).digest()[:16]
        self.token = secrets.token_hex(24)
        self.actions, self.model_mask = actions, model_mask
        self.output_tokens, self.active = output_tokens, active

    def row(self, revision):
        return struct.pack("<16sQIIIIIIQQ", self.id, revision, self.actions, self.model_mask, 0, self.output_tokens,
                           self.active, 0, 0, 0)


def grants_frame(principals, revision):
    """A whole GRANTS packet: 128-byte head, then 64 bytes a row."""
    rows = b"".join(principal.row(revision) for principal in principals)
    head = struct.pack("<8sII16sQQ16sQIIffI36s", b"AOTXAPI1", 1, 0, bytes(16), revision, 0, bytes(16), 0, 0,
                       len(principals), 0.0, 0.0, len(rows), bytes(36))
    assert len(head) == 128
    return head + rows


def toml_value(value):
    return json.dumps(value)


class Service:
    """models: list of dicts for [[models]]; sections: {"gateway": {...}} overrides."""

    def __init__(self, models, principals=None, device=None, gateway=None, broker=None, wrap=(), start=True):
        self.folder = tempfile.TemporaryDirectory(prefix="aotx-")
        self.path = Path(self.folder.name)
        self.port = free_port()
        self.principals = principals or [Principal("alice"), Principal("bob")]
        self.token = self.principals[0].token
        self.revision = 1
        self.models = models
        self.wrap = list(wrap)
        self.sections = {
            "device": {"socket_path": str(self.path / "service.sock"), "grants_path": str(self.path / "grants.bin"),
                       "state_dir": str(self.path / "state"), "device": device_kind(),
                       **(device or {})},
            "broker": broker or {},
            "gateway": {"bind": f"127.0.0.1:{self.port}", **(gateway or {})},
        }
        self.process = None
        self.log = open(self.path / "log", "w+b")
        self.config_write()
        self.grants_write()
        (self.path / "state").mkdir(exist_ok=True)
        self.start_wanted = start

    @property
    def config(self):
        return self.path / "aotx.toml"

    @property
    def socket_path(self):
        return self.sections["device"]["socket_path"]

    def config_write(self):
        lines = []
        for section, keys in self.sections.items():
            lines.append(f"[{section}]")
            lines += [f"{key} = {toml_value(value)}" for key, value in keys.items()]
        for model in self.models:
            lines.append("[[models]]")
            lines += [f"{key} = {toml_value(value)}" for key, value in model.items()]
        for principal in self.principals:
            digest = hashlib.sha256(principal.token.encode()).hexdigest()
            lines += ["[[principals]]", f'name = "{principal.name}"', f'id = "{principal.id.hex()}"',
                      f'token_sha256 = ["{digest}"]']
        self.config.write_text("\n".join(lines) + "\n")

    def grants_write(self):
        path = Path(self.sections["device"]["grants_path"])
        path.write_bytes(grants_frame(self.principals, self.revision))
        path.chmod(0o600)

    def start(self, ready_seconds=60, arguments=()):
        self.process = subprocess.Popen(
            [*self.wrap, str(build_dir() / "bin/aotxd"), "--config", str(self.config), *arguments],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        self.wait_ready(ready_seconds)

    def wait_ready(self, seconds=60):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.process and self.process.poll() is not None:
                raise RuntimeError(f"aotxd ended with {self.process.returncode}:\n{self.log_text()}")
            try:
                status, _, _ = self.http("GET", "/readyz", token=None, timeout=5)
                if status == 200:
                    return
            except OSError:
                pass
            time.sleep(0.02)
        raise RuntimeError(f"not ready in {seconds} s:\n{self.log_text()}")

    def log_text(self):
        return (self.path / "log").read_text(errors="replace")[-4000:]

    def gateway_pid(self):
        """The gateway process, a child of aotxd."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        for child in children:
            try:
                if b"aotx-gateway" in Path(f"/proc/{child}/cmdline").read_bytes():
                    return int(child)
            except (FileNotFoundError, ProcessLookupError):
                continue  # it ended between the list and the look
        return None

    def http(self, method, path, body=None, token="", headers=None, timeout=60):
        """(status, headers, bytes) of one request on a connection of its own. token "" is the first principal's."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        bind = self.sections["gateway"]["bind"]
        try:
            if bind.startswith("unix:"):
                connection.sock = socket.socket(socket.AF_UNIX)
                connection.sock.settimeout(timeout)
                connection.sock.connect(bind.removeprefix("unix:"))
            send = dict(headers or {})
            if token is not None:
                send["Authorization"] = f"Bearer {token or self.token}"
            if body is not None and not isinstance(body, (bytes, str)):
                body = json.dumps(body)
            if body is not None:
                send.setdefault("Content-Type", "application/json")
            connection.request(method, path, body=body, headers=send)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def json(self, method, path, body=None, **more):
        status, _, data = self.http(method, path, body, **more)
        return status, json.loads(data) if data else None

    def stop(self, with_signal=signal.SIGTERM, seconds=30):
        if self.process and self.process.poll() is None:
            self.process.send_signal(with_signal)
            try:
                self.process.wait(seconds)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise
        return self.process.returncode if self.process else None

    def __enter__(self):
        if self.start_wanted:
            self.start()
        return self

    def __exit__(self, kind, value, trace):
        try:
            self.stop()
        finally:
            self.log.close()
            self.folder.cleanup()


def scripted_model(alias="test", role="language", **options):
    return {"alias": alias, "role": role, "library": str(build_dir() / "lib/libaotx_scripted.so"),
            "options": json.dumps(options)}


def real_model(alias="smollm2", **keys):
    return {"alias": alias, "role": "language", "library": str(build_dir() / "lib/libaotx_text_gguf.so"),
            "path": str(model_path()), **keys}
