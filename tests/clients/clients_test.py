#!/usr/bin/env python3
"""Purpose:  stock clients against the whole service: the openai package, httpx reading events, and curl.
Owns:     one service a scenario, with the scripted model.
Thread:   one, and one more where two clients have to be there at once.
Lifetime: one run; exit 0 good, 1 failed, 77 when a client is not installed on this machine.

The scripted model says what a real one might, in pieces that cut characters; so expected values come from the script.
What needs no stock client stands in tests/service.
"""
import base64
import json
import os
import shutil
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from aotx_service import Principal, Service, scripted_model  # noqa: E402

try:
    import httpx
    import openai
except ImportError as missing:
    print(f"clients: {missing}; skipped")
    sys.exit(77)

WANTED_MAJOR = os.environ.get("AOTX_OPENAI_MAJOR", openai.__version__.split(".")[0])
if openai.__version__.split(".")[0] != WANTED_MAJOR:
    print(f"clients: openai {openai.__version__} is here and not {WANTED_MAJOR}; skipped")
    sys.exit(77)

SMILE = "\U0001F600\u4f60"
# A smile and a Chinese character cut inside, and a byte that nothing follows.
PIECES = [{"hex": "f09f"}, {"hex": "9880"}, {"hex": "e4"}, {"hex": "bda0"}, {"hex": "e4"}]
MESSAGES = [{"role": "user", "content": "hello"}]


def alias_models():
    return [scripted_model("pieces", pieces=PIECES)]


class Stock(unittest.TestCase):
    """One service for all: nothing here leaves anything behind."""

    @classmethod
    def setUpClass(cls):
        cls.service = Service(alias_models())
        cls.service.start()
        cls.base = f"http://127.0.0.1:{cls.service.port}"
        cls.client = openai.OpenAI(base_url=cls.base + "/v1", api_key=cls.service.token, max_retries=0)
        cls.headers = {"Authorization": f"Bearer {cls.service.token}"}

    @classmethod
    def tearDownClass(cls):
        cls.service.__exit__(None, None, None)

    def test_models(self):
        models = self.client.models.list()
        self.assertEqual([model.id for model in models.data], ["pieces"])
        self.assertEqual(models.data[0].owned_by, "aotx")

    def test_chat_plain(self):
        answer = self.client.chat.completions.create(model="pieces", messages=MESSAGES, max_tokens=64)
        self.assertEqual(answer.choices[0].message.content, SMILE + "\ufffd")
        self.assertEqual(answer.choices[0].finish_reason, "stop")
        self.assertEqual(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens)
        self.assertTrue(answer.id.startswith("chatcmpl-"))

    def test_chat_raw_response(self):
        raw = self.client.chat.completions.with_raw_response.create(model="pieces", messages=MESSAGES)
        handle = raw.headers["x-request-id"]
        answer = raw.parse()
        self.assertEqual("chatcmpl-" + handle[21:], answer.id)
        self.assertEqual((raw.status_code, raw.headers["cache-control"]), (200, "no-store"))
        window = httpx.get(f"{self.base}/aotx/v1/requests/{handle}", headers=self.headers).json()
        self.assertEqual(window["state"], "completed")
        self.assertEqual(base64.b64decode(window["output"]["bytes"]), bytes.fromhex("f09f9880e4bda0e4"))

    def test_chat_stream_equals_plain(self):
        plain = self.client.chat.completions.create(model="pieces", messages=MESSAGES)
        stream = self.client.chat.completions.create(model="pieces", messages=MESSAGES, stream=True,
                                                     stream_options={"include_usage": True})
        chunks = list(stream)
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        self.assertEqual(text, plain.choices[0].message.content)
        reasons = [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices]
        self.assertEqual([reason for reason in reasons if reason], ["stop"])
        self.assertEqual(chunks[0].choices[0].delta.role, "assistant")
        self.assertEqual(len({chunk.id for chunk in chunks}), 1)
        self.assertEqual(chunks[-1].choices, [])
        self.assertEqual(chunks[-1].usage, plain.usage)
        self.assertTrue(all(chunk.usage is None for chunk in chunks[:-1]))

    def test_usage_only_when_asked(self):
        for options in (openai.NOT_GIVEN, {"include_usage": False}):
            chunks = list(self.client.chat.completions.create(model="pieces", messages=MESSAGES, stream=True,
                                                              stream_options=options))
            self.assertTrue(all(chunk.choices and chunk.usage is None for chunk in chunks))
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.chat.completions.create(model="pieces", messages=MESSAGES, stream=False,
                                                stream_options={"include_usage": True})
        self.assertEqual(caught.exception.param, "stream_options")

    def test_length(self):
        for stream in (False, True):
            answer = self.client.chat.completions.create(model="pieces", messages=MESSAGES, max_tokens=2, stream=stream)
            reason = [c.choices[0].finish_reason for c in answer][-1] if stream else answer.choices[0].finish_reason
            self.assertEqual(reason, "length")
            if not stream:
                self.assertEqual(answer.usage.completion_tokens, 2)

    def test_errors_are_the_packages_own(self):
        bad = openai.OpenAI(base_url=self.base + "/v1", api_key="x" * 40, max_retries=0)
        with self.assertRaises(openai.AuthenticationError) as caught:
            bad.models.list()
        self.assertEqual(caught.exception.code, "invalid_api_key")
        with self.assertRaises(openai.NotFoundError) as caught:
            self.client.chat.completions.create(model="none", messages=MESSAGES)
        self.assertEqual(caught.exception.code, "model_not_found")
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.chat.completions.create(model="pieces", messages=MESSAGES, stop=["x"])
        self.assertEqual(caught.exception.param, "stop")
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.chat.completions.create(model="pieces", messages=MESSAGES, temperature=3)
        self.assertEqual(caught.exception.param, "temperature")
        with self.assertRaises(openai.NotFoundError) as caught:
            self.client.embeddings.create(model="pieces", input="x")
        self.assertEqual(caught.exception.code, "route_not_found")

    def test_fields_that_are_refused_are_named(self):
        for field, value in (("temperature", 2.5), ("top_p", 0), ("n", 2), ("logit_bias", {"1": 1}), ("stop", ["x"]),
                             ("seed", 1), ("tools", []), ("max_completion_tokens", 5000)):
            with self.subTest(field), self.assertRaises(openai.BadRequestError) as caught:
                self.client.chat.completions.create(model="pieces", messages=MESSAGES, **{field: value})
            self.assertEqual((caught.exception.param, caught.exception.code), (field, "invalid_field"))

    def test_many_calls_on_one_connection(self):
        for _ in range(50):
            answer = self.client.chat.completions.create(model="pieces", messages=MESSAGES)
            self.assertEqual(answer.choices[0].message.content, SMILE + "\ufffd")

    def test_async_client(self):
        import asyncio

        async def ask():
            async with openai.AsyncOpenAI(base_url=self.base + "/v1", api_key=self.service.token) as client:
                stream = await client.chat.completions.create(model="pieces", messages=MESSAGES, stream=True)
                return "".join([c.choices[0].delta.content or "" async for c in stream])

        async def many():
            return await asyncio.gather(*(ask() for _ in range(16)))

        self.assertEqual(asyncio.run(many()), [SMILE + "\ufffd"] * 16)

    def events(self, handle, headers=None, query=""):
        """(event, id, data) of every frame of an event stream."""
        frames = []
        with httpx.stream("GET", f"{self.base}/aotx/v1/requests/{handle}/events{query}", timeout=30,
                          headers={**self.headers, **(headers or {})}) as answer:
            self.assertEqual(answer.status_code, 200)
            self.assertEqual(answer.headers["content-type"], "text/event-stream")
            frame = {}
            for line in answer.iter_lines():
                if line == "" and frame:
                    frames.append((frame.get("event"), frame.get("id"), json.loads(frame["data"])))
                    frame = {}
                elif line and not line.startswith(":"):
                    name, value = line.split(": ", 1)
                    frame[name] = value
        return frames

    def test_httpx_events_resume_at_every_byte(self):
        body = {"model": "pieces", "messages": MESSAGES}
        admitted = httpx.post(f"{self.base}/aotx/v1/requests", headers=self.headers, json=body)
        self.assertEqual(admitted.status_code, 202)
        handle = admitted.json()["id"]
        whole = bytes.fromhex("f09f9880e4bda0e4")
        frames = self.events(handle)
        joined = b"".join(base64.b64decode(data["bytes"]) for event, _, data in frames if event == "emission")
        self.assertEqual(joined, whole)
        self.assertEqual([data["state"] for event, _, data in frames if event == "status"][-1], "completed")
        for cursor in range(len(whole) + 1):
            for headers, query in ({"Last-Event-ID": f"{handle}:{cursor}"}, ""), ({}, f"?cursor={cursor}"):
                frames = self.events(handle, headers, query)
                rest = b"".join(base64.b64decode(data["bytes"]) for event, _, data in frames if event == "emission")
                self.assertEqual(rest, whole[cursor:])

        path = f"{self.base}/aotx/v1/requests/{handle}/events"
        for headers, query, status in (({"Last-Event-ID": f"{handle}:1"}, "?cursor=1", 400), ({}, "?cursor=9", 409),
                                       ({"Last-Event-ID": f"{handle}:9"}, "", 409),
                                       ({"Last-Event-ID": f"{handle[:-1]}x:1"}, "", 400)):
            refused = httpx.get(path + query, headers={**self.headers, **headers})
            self.assertEqual(refused.status_code, status, (headers, query))

    def test_native_windows(self):
        body = {"model": "pieces", "messages": MESSAGES}
        handle = httpx.post(f"{self.base}/aotx/v1/requests", headers=self.headers, json=body).json()["id"]
        self.events(handle)
        whole = bytes.fromhex("f09f9880e4bda0e4")
        for cursor in range(len(whole) + 1):
            answer = httpx.get(f"{self.base}/aotx/v1/requests/{handle}?cursor={cursor}", headers=self.headers).json()
            self.assertEqual(base64.b64decode(answer["output"]["bytes"]), whole[cursor:])
            self.assertEqual(answer["output"]["next_cursor"], str(len(whole)))
        beyond = httpx.get(f"{self.base}/aotx/v1/requests/{handle}?cursor=99", headers=self.headers)
        self.assertEqual(beyond.status_code, 409)

    def test_somebody_else(self):
        body = {"model": "pieces", "messages": MESSAGES}
        handle = httpx.post(f"{self.base}/aotx/v1/requests", headers=self.headers, json=body).json()["id"]
        other = {"Authorization": f"Bearer {self.service.principals[1].token}"}
        never = "req-" + handle[4:20] + "-" + "0" * 31 + "1"
        for suffix, method in ("", "GET"), ("?cursor=0", "GET"), ("/events", "GET"), ("/cancel", "POST"):
            send = {"json": {}} if method == "POST" else {}
            foreign = httpx.request(method, f"{self.base}/aotx/v1/requests/{handle}{suffix}", headers=other, **send)
            unknown = httpx.request(method, f"{self.base}/aotx/v1/requests/{never}{suffix}", headers=other, **send)
            self.assertEqual((foreign.status_code, foreign.text), (404, unknown.text))
        self.assertEqual(self.events(handle)[-1][2]["state"], "completed")

    @unittest.skipUnless(shutil.which("curl"), "no curl")
    def test_curl(self):
        def curl(*arguments, data=None):
            ran = subprocess.run(["curl", "-sS", "-N", "-m", "30", "-H", self.bearer(), *arguments], input=data,
                                 capture_output=True, check=True)
            return ran.stdout.decode()

        body = json.dumps({"model": "pieces", "messages": MESSAGES, "stream": True})
        chat = self.base + "/v1/chat/completions"
        out = curl("-H", "Content-Type: application/json", "-d", body, chat)
        self.assertTrue(out.endswith("data: [DONE]\n\n"))
        # Two transfers on one connection, the second a body in chunks.
        out = curl("-H", "Content-Type: application/json", "-H", "Transfer-Encoding: chunked", "-d", body, chat,
                   "-o", "/dev/null", "--next", "-sS", "-w", "%{http_code} %{num_connects}", self.base + "/healthz")
        self.assertTrue(out.endswith("200 0"), out)
        # A large body makes curl expect a go-ahead, which nobody here gives; without that it is judged.
        fits, large = (json.dumps({"model": "pieces", "messages": [{"role": "user", "content": "x" * size}]}).encode()
                       for size in (3000, 3_000_000))
        post = ["-H", "Content-Type: application/json", "--data-binary", "@-", "-w", " %{http_code}", chat]
        self.assertTrue(curl(*post, data=fits).endswith(" 200"))
        self.assertTrue(curl(*post, data=large).endswith(" 417"))
        self.assertTrue(curl("-H", "Expect:", *post, data=large).endswith(" 413"))

    def bearer(self):
        return f"Authorization: Bearer {self.service.token}"

    def test_capabilities_and_telemetry(self):
        capabilities = httpx.get(f"{self.base}/aotx/v1/capabilities", headers=self.headers).json()
        self.assertEqual(capabilities["schema"], "aotx.capabilities.v1")
        for name in ("execution_slots", "wrapped_prompt_bytes", "sequence_tokens", "request_entries", "output_bytes",
                     "service_channels", "output_tokens", "kv_pages_per_request", "active_requests", "media_objects",
                     "private_media_objects", "image_pixels", "image_dimension", "image_patches",
                     "image_feature_rows", "audio_source_frames", "audio_feature_rows", "device_request_seconds",
                     "device_upload_seconds", "principal_entries", "media_references", "connections", "body_readers",
                     "json_bytes", "upload_bytes", "body_credit", "work", "fetches", "write_seconds", "body_seconds",
                     "header_seconds", "operation_seconds", "event_bytes", "wire_connections"):
            self.assertIsInstance(capabilities["limits"][name], int, name)
        self.assertIsInstance(capabilities["limits"]["private_media_bytes"], str)
        for name in ("control_selection", "chat_completions", "streaming", "private_media", "https_import",
                     "telemetry", "continuing_ccir", "persistent_requests", "embeddings", "responses", "tools",
                     "expression", "presence"):
            self.assertIsInstance(capabilities["features"][name], bool, name)
        telemetry = httpx.get(f"{self.base}/aotx/v1/telemetry", headers=self.headers).json()
        self.assertEqual(telemetry["schema"], "aotx.telemetry.v1")
        self.assertGreater(int(telemetry["sample"]["service_allocation_bytes"]), 0)
        policy = httpx.get(f"{self.base}/aotx/v1/policy", headers=self.headers).json()
        self.assertEqual(policy["state"], "off")
        metrics = httpx.get(f"{self.base}/metrics", headers=self.headers).text
        self.assertIn("aotx_device_up 1\n", metrics)


class Slow(unittest.TestCase):
    """A model that is silent for a while, with a heartbeat every second."""

    def test_heartbeats_do_not_end_a_stream(self):
        pieces = [{"text": "a", "delay_ms": 3500}, {"text": "b", "delay_ms": 2500}]
        with Service([scripted_model("slow", pieces=pieces)], gateway={"heartbeat_seconds": 1}) as service:
            client = openai.OpenAI(base_url=f"http://127.0.0.1:{service.port}/v1", api_key=service.token)
            stream = client.chat.completions.create(model="slow", messages=MESSAGES, stream=True)
            self.assertEqual("".join(chunk.choices[0].delta.content or "" for chunk in stream), "ab")


class Endless(unittest.TestCase):
    """A model that never ends: limits, cancellation, restarts."""

    def setUp(self):
        model = scripted_model("endless", pieces=[{"text": "ab", "delay_ms": 5}], repeat=True)
        self.service = Service([model], principals=[Principal("alice", output_tokens=20000)])
        self.service.start()
        self.addCleanup(self.service.__exit__, None, None, None)
        self.base = f"http://127.0.0.1:{self.service.port}"
        self.headers = {"Authorization": f"Bearer {self.service.token}"}
        self.client = openai.OpenAI(base_url=self.base + "/v1", api_key=self.service.token, max_retries=0)

    def test_cancel_is_an_error_in_the_stream(self):
        stream = self.client.chat.completions.with_streaming_response.create(
            model="endless", messages=MESSAGES, stream=True)
        with stream as raw:
            handle = raw.headers["x-request-id"]
            canceller = threading.Timer(0.3, lambda: httpx.post(
                f"{self.base}/aotx/v1/requests/{handle}/cancel", headers=self.headers, json={}))
            canceller.start()
            lines = [line for line in raw.iter_lines() if line]
            canceller.join()
        self.assertIn('"code":"request_cancelled"', lines[-1])
        self.assertNotIn('"finish_reason":"', "".join(lines))
        for _ in range(2):  # again, and after the end
            again = httpx.post(f"{self.base}/aotx/v1/requests/{handle}/cancel", headers=self.headers, json={})
            self.assertEqual((again.status_code, again.json()["state"]), (200, "cancelled"))

    def test_gateway_killed_in_a_stream(self):
        body = {"model": "endless", "messages": MESSAGES, "max_tokens": 400}
        handle = httpx.post(f"{self.base}/aotx/v1/requests", headers=self.headers, json=body).json()["id"]
        got, cursor = b"", 0
        gateway = self.service.gateway_pid()
        try:
            with httpx.stream("GET", f"{self.base}/aotx/v1/requests/{handle}/events", headers=self.headers,
                              timeout=30) as answer:
                for line in answer.iter_lines():
                    if line.startswith("data: ") and "emission" in line:
                        event = json.loads(line[6:])
                        got += base64.b64decode(event["bytes"])
                        cursor = int(event["next_cursor"])
                        if len(got) > 20 and gateway is not None:
                            os.kill(gateway, 9)
                            gateway = None  # lines that had arrived before are still read
        except httpx.HTTPError:
            pass
        self.assertLess(len(got), 800)
        end = time.monotonic() + 30
        while time.monotonic() < end:
            try:
                with httpx.stream("GET", f"{self.base}/aotx/v1/requests/{handle}/events?cursor={cursor}",
                                  headers=self.headers, timeout=30) as answer:
                    for line in answer.iter_lines():
                        if line.startswith("data: ") and "emission" in line:
                            got += base64.b64decode(json.loads(line[6:])["bytes"])
                break
            except httpx.ConnectError:
                time.sleep(0.05)
        self.assertEqual(got, b"ab" * 400)


if __name__ == "__main__":
    unittest.main(verbosity=2)
