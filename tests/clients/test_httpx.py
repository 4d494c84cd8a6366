"""Purpose:  httpx and curl against the service: server-sent events as they arrive, both forms of resuming.
Owns:     nothing.
Thread:   pytest's.
Lifetime: one test session.
"""
import base64
import json
import shutil
import subprocess

import httpx
import pytest

MESSAGES = [{"role": "user", "content": "hello"}]


@pytest.fixture
def client(service):
    with httpx.Client(base_url=f"http://127.0.0.1:{service.port}", timeout=60,
                      headers={"Authorization": f"Bearer {service.token}"}) as made:
        yield made


def events(lines):
    """Frames of a stream as dicts of their fields; comment lines stay out."""
    frame = {}
    for line in lines:
        if line == "":
            if frame:
                yield frame
            frame = {}
        elif not line.startswith(":"):
            name, _, value = line.partition(":")
            frame[name] = value.removeprefix(" ")


def submit(client):
    answer = client.post("/aotx/v1/requests", json={"model": "test", "messages": MESSAGES})
    assert answer.status_code == 202
    return answer.json()["id"]


def native_bytes(client, handle, **more):
    with client.stream("GET", f"/aotx/v1/requests/{handle}/events", **more) as stream:
        assert stream.status_code == 200
        assert stream.headers["content-type"].startswith("text/event-stream")
        frames = list(events(stream.iter_lines()))
    assert frames[-1]["event"] == "status"
    assert json.loads(frames[-1]["data"])["state"] == "completed"
    data = b""
    for frame in frames:
        if frame["event"] == "emission":
            emission = json.loads(frame["data"])
            data += base64.b64decode(emission["bytes"], validate=True)
            assert frame["id"] == f"{handle}:{emission['next_cursor']}"
    return data


def test_completion_stream(client, text):
    with client.stream("POST", "/v1/chat/completions",
                       json={"model": "test", "messages": MESSAGES, "stream": True}) as stream:
        assert stream.status_code == 200
        assert stream.headers["x-accel-buffering"] == "no"
        frames = list(events(stream.iter_lines()))
    assert all(set(frame) == {"data"} for frame in frames)
    assert frames[-1]["data"] == "[DONE]"
    chunks = [json.loads(frame["data"]) for frame in frames[:-1]]
    assert "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks) == text


def test_native_events_resume_at_every_byte_in_both_forms(client, text):
    handle = submit(client)
    whole = text.encode()
    assert native_bytes(client, handle) == whole
    for cursor in range(len(whole) + 1):
        assert native_bytes(client, handle, params={"cursor": str(cursor)}) == whole[cursor:]
        assert native_bytes(client, handle, headers={"Last-Event-ID": f"{handle}:{cursor}"}) == whole[cursor:]


def test_resuming_wrongly_is_refused(client, text):
    handle = submit(client)
    assert native_bytes(client, handle) == text.encode()
    path = f"/aotx/v1/requests/{handle}/events"
    both = client.get(path, params={"cursor": "1"}, headers={"Last-Event-ID": f"{handle}:1"})
    beyond = client.get(path, params={"cursor": str(len(text.encode()) + 1)})
    other = client.get(path, headers={"Last-Event-ID": f"req-{'0' * 16}-{'0' * 32}:1"})
    assert (both.status_code, beyond.status_code) == (400, 409)
    assert other.status_code in (400, 404, 410)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl_reads_a_stream(service, text):
    body = json.dumps({"model": "test", "messages": MESSAGES, "stream": True})
    out = subprocess.run(["curl", "-sSN", "--fail", "-H", f"Authorization: Bearer {service.token}", "-H",
                          "Content-Type: application/json", "--data-binary", body,
                          f"http://127.0.0.1:{service.port}/v1/chat/completions"],
                         check=True, capture_output=True, timeout=60).stdout.decode()
    chunks = [json.loads(frame["data"]) for frame in events(out.splitlines()) if frame["data"] != "[DONE]"]
    assert "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks) == text


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl_sends_a_large_body(service, text):
    messages = [{"role": "user", "content": "x" * 20000}]
    out = subprocess.run(["curl", "-sS", "--fail", "-H", f"Authorization: Bearer {service.token}", "-H",
                          "Content-Type: application/json", "--data-binary", "@-",
                          f"http://127.0.0.1:{service.port}/v1/chat/completions"],
                         input=json.dumps({"model": "test", "messages": messages}).encode(), check=True,
                         capture_output=True, timeout=60).stdout
    assert json.loads(out)["choices"][0]["message"]["content"] == text
