#!/usr/bin/env python3
"""Purpose:  what a client is told, over the whole service: how answers end, how characters are cut, what a heartbeat
          looks like, what happens to the work of a client that leaves, what a handle in a wrong form is.
Owns:     the services it starts.
Thread:   main.
Lifetime: one run; AOTX_BUILD names the build folder.
"""
import base64
import http.client
import json
import re
import signal
import socket
import struct
import sys
import threading
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from aotx_service import Principal, Service, scripted_model  # noqa: E402

MESSAGES = [{"role": "user", "content": "hello"}]
PATIENCE_S = 60
ROLES = ("language", "language-q4", "language-audio")
# A smile, a Chinese character, and the first byte of another one that nothing follows.
CUT_BYTES = bytes.fromhex("f09f9880e4bda0e4")
CUT_TEXT = "\U0001F600\u4f60\ufffd"


def eventually(condition, what):
    end = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not within {PATIENCE_S} s: {what}")
        time.sleep(0.01)


def pieces_of(data, size):
    return [data[at:at + size].hex() for at in range(0, len(data), size)]


class Chat:
    """One call of /v1/chat/completions on a socket of its own, so that a test sees and decides every byte."""

    def __init__(self, service, model="test", **fields):
        body = json.dumps({"model": model, "messages": MESSAGES, **fields}).encode()
        self.socket = socket.create_connection(("127.0.0.1", service.port), timeout=PATIENCE_S)
        self.socket.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
                            b"Content-Type: application/json\r\nAuthorization: Bearer " + service.token.encode() +
                            b"\r\nContent-Length: " + str(len(body)).encode() + b"\r\n\r\n" + body)
        self.bytes = b""

    def read_until(self, wanted):
        while wanted not in self.bytes:
            got = self.socket.recv(65536)
            if not got:
                raise AssertionError(f"ended before {wanted}: {self.bytes}")
            self.bytes += got
        return self

    def handle(self):
        self.read_until(b"\r\n\r\n")
        return re.search(rb"X-Request-ID: (\S+)\r\n", self.bytes).group(1).decode()

    def reset(self):
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def whole(self):
        """(status, body) once the service has closed."""
        while got := self.socket.recv(65536):
            self.bytes += got
        self.socket.close()
        head, _, rest = self.bytes.partition(b"\r\n\r\n")
        if b"Transfer-Encoding: chunked" in head:
            body = b""
            while rest:
                length, _, rest = rest.partition(b"\r\n")
                body += rest[:int(length, 16)]
                rest = rest[int(length, 16) + 2:]
            rest = body
        return int(head.split()[1]), rest


def frames_strict(body):
    """The frames of a /v1 stream, read as strictly as any official client does: everything that ends with a blank
    line must be one data line of JSON, or the end mark. What is no frame is returned beside them."""
    *blocks, rest = body.decode("utf-8").split("\n\n")
    assert rest == "", f"unended: {rest!r}"
    frames, comments = [], []
    for block in blocks:
        data = []
        for line in block.split("\n"):
            if line.startswith(":"):
                comments.append(line)
            else:
                assert line.startswith("data: "), f"no data line: {block!r}"
                data.append(line[6:])
        assert len(data) == 1, f"not one data line: {block!r}"
        frames.append(data[0])
    parsed = [json.loads(frame) for frame in frames if frame != "[DONE]"]
    return parsed, frames[-1] == "[DONE]", comments


def text_of(chunks):
    return "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks
                   if chunk.get("choices"))


def reasons_of(chunks):
    return [chunk["choices"][0]["finish_reason"] for chunk in chunks
            if chunk.get("choices") and chunk["choices"][0]["finish_reason"] is not None]


class Case(unittest.TestCase):
    def serve(self, models, principals=None, **sections):
        self.service = Service(models, principals, **sections)
        self.addCleanup(self.service.__exit__, None, None, None)
        self.service.start()
        return self.service

    def submit(self, model="test", **fields):
        status, answer = self.service.json("POST", "/aotx/v1/requests",
                                           {"model": model, "messages": MESSAGES, **fields})
        self.assertEqual(status, 202, answer)
        return answer["id"]

    def request(self, handle, suffix=""):
        status, answer = self.service.json("GET", f"/aotx/v1/requests/{handle}{suffix}")
        self.assertEqual(status, 200, answer)
        return answer

    def cancel(self, handle):
        status, answer = self.service.json("POST", f"/aotx/v1/requests/{handle}/cancel", {})
        self.assertEqual(status, 200, answer)
        return answer

    def ended(self, handle):
        eventually(lambda: self.request(handle)["state"] in ("completed", "failed", "cancelled"), "an end")
        return self.request(handle)

    def tick(self):
        return int(self.service.json("GET", "/aotx/v1/telemetry")[1]["sample"]["tick"])


class Endings(Case):
    """Each ending streamed, plain and native: one reason, the same in all three, and never stop for an error."""

    def expect(self, model, text, reason, tokens, fields, name):
        with self.subTest(name, model=model):
            status, body = Chat(self.service, model, **fields).whole()
            self.assertEqual(status, 200, body)
            answer = json.loads(body)
            self.assertEqual(answer["choices"][0]["message"]["content"], text)
            self.assertEqual(answer["choices"][0]["finish_reason"], reason)
            self.assertEqual(answer["usage"]["completion_tokens"], tokens)
            status, body = Chat(self.service, model, stream=True, stream_options={"include_usage": True},
                                **fields).whole()
            chunks, done, _ = frames_strict(body)
            self.assertEqual((status, text_of(chunks), reasons_of(chunks), done), (200, text, [reason], True))
            self.assertEqual((chunks[-1]["choices"], chunks[-1]["usage"]), ([], answer["usage"]))
            self.assertEqual(reasons_of(chunks[-2:-1]), [reason])
            ended = self.ended(self.submit(model, **fields))
            self.assertEqual((ended["state"], ended["finish_reason"], ended["usage"]),
                             ("completed", reason, answer["usage"]))

    def test_limits_and_ends(self):
        for level in ("batched", "plain"):
            self.serve([scripted_model("endless", ROLES[0], level=level, pieces=["61"], repeat=True),
                        scripted_model("four", ROLES[1], level=level, pieces=["61"] * 4),
                        scripted_model("five", ROLES[2], level=level, pieces=["61"] * 5)])
            five = {"max_tokens": 5}
            self.expect("endless", "aaaaa", "length", 5, five, level)
            self.expect("four", "aaaa", "stop", 4, five, level)
            self.expect("five", "aaaaa", "length", 5, five, level)  # the limit came before its end did
            self.expect("five", "aaaaa", "stop", 5, {"max_completion_tokens": 6}, level)
            self.service.stop()

    def test_a_full_context_is_a_length(self):
        self.serve([scripted_model(pieces=["61"], repeat=True, sequence_tokens=64)])
        _, body = Chat(self.service, max_tokens=1).whole()
        room = 64 - json.loads(body)["usage"]["prompt_tokens"]
        self.expect("test", "a" * room, "length", room, {}, "context")

    def test_a_stop_string_is_refused_and_never_ignored(self):
        self.serve([scripted_model(pieces=["61"] * 4)])
        for stream in (False, True):
            status, body = Chat(self.service, stop=["a"], stream=stream).whole()
            self.assertEqual((status, json.loads(body)["error"]["param"]), (400, "stop"))

    def expect_error(self, chat, stream, status, code):
        got, body = chat.whole()
        if stream:
            chunks, done, _ = frames_strict(body)
            self.assertEqual((got, done, reasons_of(chunks)), (200, False, []))
            self.assertEqual(chunks[-1]["error"]["code"], code)
        else:
            self.assertEqual((got, json.loads(body)["error"]["code"]), (status, code))

    def test_a_cancellation_is_an_error(self):
        self.serve([scripted_model(pieces=[{"hex": "61", "delay_ms": 5}], repeat=True)])
        chat = Chat(self.service, stream=True)
        handle = chat.handle()
        chat.read_until(b'"content":"a')
        self.cancel(handle)
        self.expect_error(chat, True, 409, "request_cancelled")
        self.assertEqual(self.request(handle)["state"], "cancelled")

    def test_a_withdrawn_grant_is_an_error(self):
        # The one way to end a plain call from outside: its handle is told with its answer only.
        self.serve([scripted_model(pieces=[{"hex": "61", "delay_ms": 5}], repeat=True)])
        chats = [(stream, Chat(self.service, stream=stream)) for stream in (False, True)]
        chats[1][1].read_until(b'"content":"a')
        eventually(lambda: b"aotx_gateway_work 2\n" in self.service.http("GET", "/metrics")[2], "both are at work")
        self.service.revision += 1
        self.service.grants_write()
        self.service.process.send_signal(signal.SIGHUP)
        for stream, chat in chats:
            self.expect_error(chat, stream, 403, "device_refused")

    def test_an_input_too_long_for_the_model_is_an_error_of_the_input(self):
        self.serve([scripted_model(pieces=["61"], sequence_tokens=64)])
        for stream in (False, True):
            chat = Chat(self.service, stream=stream, messages=[{"role": "user", "content": "x" * 200}])
            self.expect_error(chat, stream, 413, "context_limit")

    def test_a_fault_is_an_error(self):
        for level in ("batched", "plain"):
            for stream in (False, True):
                self.serve([scripted_model(level=level, pieces=["61"], repeat=True, fail_step=4)])
                self.expect_error(Chat(self.service, stream=stream), stream, 503, "request_failed")
                # Only that request: the next one is answered.
                self.assertEqual(Chat(self.service, max_tokens=2).whole()[0], 200)
                self.service.stop()


class Characters(Case):
    def test_every_cut_gives_the_same_text(self):
        cuts = [["f09f", "9880", "e4", "bda0", "e4"]] + [pieces_of(CUT_BYTES, size) for size in (1, 2, 3, 5, 8)]
        for three in (cuts[:3], cuts[3:]):
            # A delay, so that the pieces reach the stream one by one.
            models = [scripted_model(role, role, pieces=[{"hex": piece, "delay_ms": 2} for piece in cut])
                      for role, cut in zip(ROLES, three)]
            self.serve(models)
            for role, cut in zip(ROLES, three):
                with self.subTest(cut=cut):
                    status, body = Chat(self.service, role).whole()
                    self.assertEqual((status, json.loads(body)["choices"][0]["message"]["content"]), (200, CUT_TEXT))
                    chunks, done, _ = frames_strict(Chat(self.service, role, stream=True).whole()[1])
                    self.assertEqual((text_of(chunks), done, reasons_of(chunks)), (CUT_TEXT, True, ["stop"]))
                    self.windows(self.submit(role))
            self.service.stop()

    def windows(self, handle):
        """Native windows at every offset carry raw bytes, also while the answer grows."""
        whole = b""
        while True:
            state = self.request(handle, f"?cursor={len(whole)}")
            whole += base64.b64decode(state["output"]["bytes"], validate=True)
            self.assertEqual(CUT_BYTES[:len(whole)], whole)
            if state["state"] == "completed" and state["output"]["next_cursor"] == state["output"]["total_bytes"]:
                break
        self.assertEqual(whole, CUT_BYTES)
        for offset in range(len(CUT_BYTES) + 1):
            output = self.request(handle, f"?cursor={offset}")["output"]
            self.assertEqual(base64.b64decode(output["bytes"]), CUT_BYTES[offset:])
            self.assertEqual((output["cursor"], output["next_cursor"]), (str(offset), str(len(CUT_BYTES))))

    def test_a_reader_that_falls_behind_loses_no_part_of_a_character(self):
        # More than a packet, an event and the sockets hold, so that windows are cut where it pleases them.
        text = "\u4f60\U0001F600\u00e9a" * 30000
        piece = text.encode()[:3001]  # not a whole number of characters
        whole = piece * 100
        self.serve([scripted_model(pieces=[piece.hex()], repeat=100)],
                   device={"output_bytes": 1048576}, gateway={"event_bytes": 4096})
        late = Chat(self.service, stream=True)
        handle = late.handle()
        self.ended(handle)
        chunks, done, _ = frames_strict(late.whole()[1])
        self.assertEqual((text_of(chunks) == whole.decode(errors="replace"), done), (True, True))
        plain = json.loads(Chat(self.service).whole()[1])
        self.assertTrue(plain["choices"][0]["message"]["content"] == text_of(chunks))
        # Windows that follow one another, from a cursor inside a character on.
        joined, cursor = b"", 2
        while cursor < len(whole):
            output = self.request(handle, f"?cursor={cursor}")["output"]
            joined += base64.b64decode(output["bytes"])
            cursor = int(output["next_cursor"])
        self.assertTrue(joined == whole[2:])


class Heartbeats(Case):
    def test_no_frame_of_v1_is_without_data(self):
        pieces = [{"text": "a", "delay_ms": 2600}, {"text": "b", "delay_ms": 2600}]
        self.serve([scripted_model(pieces=pieces)], gateway={"heartbeat_seconds": 1})
        chat = Chat(self.service, stream=True, stream_options={"include_usage": True})
        status, body = chat.whole()
        chunks, done, comments = frames_strict(body)
        self.assertEqual((status, text_of(chunks), reasons_of(chunks), done), (200, "ab", ["stop"], True))
        # At least one in each silence, each a line of its own that no blank line ends.
        self.assertGreaterEqual(len(comments), 2)
        self.assertEqual(set(comments), {": keep-alive"})
        self.assertNotIn(b": keep-alive\n\n", body)
        for field in (b"id:", b"retry:", b"event:"):
            self.assertFalse([line for line in body.split(b"\n") if line.startswith(field)])


class Leaving(Case):
    """What becomes of the work of a client that leaves. The contract: a disconnect never cancels admitted work."""

    def serve_one_slot(self, pieces_ms=20, **options):
        model = scripted_model(pieces=[{"hex": "61", "delay_ms": pieces_ms}], repeat=True, sequences=1, **options)
        return self.serve([model], device={"execution_slots": 1})

    def test_queued_work_goes_on_when_its_client_leaves_and_ends_by_a_cancel_without_a_step(self):
        self.serve_one_slot()
        first = self.submit()
        eventually(lambda: self.request(first)["state"] == "running", "the slot is taken")
        left, cancelled = (Chat(self.service, stream=True, max_tokens=3) for _ in range(2))
        handles = [left.handle(), cancelled.handle()]
        last = self.submit(max_tokens=1)
        self.assertEqual([self.request(handle)["state"] for handle in handles], ["queued", "queued"])
        left.reset()
        cancelled.reset()
        answer = self.cancel(handles[1])
        self.assertEqual((answer["state"], answer["usage"]["total_tokens"]), ("cancelled", 0))
        self.assertEqual(self.request(first)["state"], "running")
        self.cancel(first)
        self.assertEqual(self.ended(last)["state"], "completed")
        kept = self.ended(handles[0])
        self.assertEqual((kept["state"], kept["output"]["bytes"]), ("completed", base64.b64encode(b"aaa").decode()))
        self.assertEqual(self.request(handles[1])["usage"]["total_tokens"], 0)

    def test_a_cancel_in_prefill_frees_the_slot(self):
        # A prompt of some 2000 tokens at one a step: steps are counted, not time.
        self.serve_one_slot(pieces_ms=0, step_tokens=1, prefill_us_per_token=5000)
        before = self.tick()
        chat = Chat(self.service, stream=True, max_tokens=1, messages=[{"role": "user", "content": "x" * 2000}])
        handle = chat.handle()
        eventually(lambda: self.tick() > before + 5, "prefill")
        chat.reset()
        eventually(lambda: self.cancel(handle)["state"] == "cancelled", "the end")
        self.assertEqual(self.ended(self.submit(max_tokens=1))["state"], "completed")
        self.assertLess(self.tick() - before, 1500)

    def test_plain_work_goes_on_when_its_client_leaves(self):
        self.serve_one_slot(pieces_ms=5)
        before = self.tick()
        chat = Chat(self.service, max_tokens=50)
        eventually(lambda: self.tick() > before + 5, "it runs")
        chat.reset()
        self.assertEqual(self.ended(self.submit(max_tokens=1))["state"], "completed")
        self.assertGreaterEqual(self.tick() - before, 50)
        self.assertIn(b"aotx_gateway_work 0\n", self.service.http("GET", "/metrics")[2])

    def test_a_client_that_only_stopped_sending_gets_its_answer(self):
        self.serve_one_slot(pieces_ms=5)
        for stream in (False, True):
            chat = Chat(self.service, stream=stream, max_tokens=20)
            chat.socket.shutdown(socket.SHUT_WR)
            status, body = chat.whole()
            text = text_of(frames_strict(body)[0]) if stream else json.loads(body)["choices"][0]["message"]["content"]
            self.assertEqual((status, text), (200, "a" * 20))

    def test_a_cancel_may_come_twice_and_too_late(self):
        self.serve_one_slot(pieces_ms=5)
        handle = self.submit()
        for _ in range(2):
            self.assertTrue(self.cancel(handle)["cancel_requested"])
        self.assertEqual(self.ended(handle)["state"], "cancelled")
        self.assertEqual(self.cancel(handle)["state"], "cancelled")
        done = self.submit(max_tokens=1)
        self.assertEqual(self.ended(done)["state"], "completed")
        late = self.cancel(done)
        self.assertEqual((late["state"], late["finish_reason"], late["status"]), ("completed", "length", 0))

    def test_native_work_goes_on_when_its_readers_leave(self):
        self.serve_one_slot(pieces_ms=5)
        handle = self.submit(max_tokens=50)
        for suffix in ("/events", ""):
            reader = socket.create_connection(("127.0.0.1", self.service.port), timeout=PATIENCE_S)
            reader.sendall(f"GET /aotx/v1/requests/{handle}{suffix} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                           f"Authorization: Bearer {self.service.token}\r\n\r\n".encode())
            reader.recv(1)
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            reader.close()
        self.assertEqual((self.ended(handle)["state"], self.request(handle)["usage"]["completion_tokens"]),
                         ("completed", 50))


class Resuming(Case):
    """A native client that is killed, and comes back at every byte of an answer that is still being made."""

    PIECES = ["61", "c3a9", "e4bda0", "f09f9880", "62"]
    WHOLE = bytes.fromhex("".join(PIECES))

    def events(self, handle, resume):
        """Yield (bytes, ID) of each emission."""
        with socket.create_connection(("127.0.0.1", self.service.port), timeout=PATIENCE_S) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # leaving is a reset
            client.sendall(f"GET /aotx/v1/requests/{handle}/events HTTP/1.0\r\nHost: 127.0.0.1\r\n"
                           f"Last-Event-ID: {resume}\r\nAuthorization: Bearer {self.service.token}\r\n\r\n".encode())
            lines = {}
            for line in client.makefile("rb"):
                name, _, value = line.decode().rstrip("\n").partition(": ")
                lines[name] = value
                if line == b"\n" and lines.get("event") == "emission":
                    yield base64.b64decode(json.loads(lines["data"])["bytes"]), lines["id"]
                    lines = {}

    def test_every_byte(self):
        self.serve([scripted_model(pieces=[{"hex": piece, "delay_ms": 10} for piece in self.PIECES])])
        for cursor in range(len(self.WHOLE) + 1):
            handle = self.submit()
            # The first life ends as soon as this byte has come, the second starts there, wherever it lies.
            first, last = b"", f"{handle}:0"
            for data, name in self.events(handle, last) if cursor else ():
                first += data
                last = name
                if len(first) >= cursor:
                    break
            self.assertEqual(first, self.WHOLE[:len(first)])
            self.assertEqual(last, f"{handle}:{len(first)}")
            again = b"".join(data for data, _ in self.events(handle, f"{handle}:{cursor}"))
            self.assertEqual(again, self.WHOLE[cursor:])
            self.assertEqual(b"".join(data for data, _ in self.events(handle, last)), self.WHOLE[len(first):])


class Reuse(Case):
    def test_2000_answers_over_few_rows_reach_their_own_principal_alone(self):
        # The model answers with the tokens that it was fed: the principal's own marker, or somebody else's.
        self.serve([scripted_model(echo=True, sequences=2)], [Principal("alice", active=4), Principal("bob", active=4)],
                   device={"requests": 4, "execution_slots": 2, "active_requests": 4})
        failures = []

        def rounds(principal, marker):
            connection = http.client.HTTPConnection("127.0.0.1", self.service.port, timeout=PATIENCE_S)
            for number in range(1000):
                text = marker * (1 + number % 50) + str(number)
                body = {"model": "test", "messages": [{"role": "user", "content": text}]}
                connection.request("POST", "/v1/chat/completions", json.dumps(body), {
                    "Authorization": f"Bearer {principal.token}", "Content-Type": "application/json"})
                answer = json.loads(connection.getresponse().read())
                fed = [256, 258, *text.encode(), 260, 259]
                if (answer["choices"][0]["message"]["content"] != " ".join(map(str, fed))
                        or answer["usage"]["prompt_tokens"] != len(fed)):
                    failures.append((principal.name, number, answer))
                    break
            connection.close()

        threads = [threading.Thread(target=rounds, args=pair) for pair in zip(self.service.principals, "AB")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])


class Handles(Case):
    def test_every_form_of_a_handle_is_answered_like_one_that_never_was(self):
        self.serve([scripted_model(pieces=["616263"])], [Principal("alice"), Principal("bob")])
        handle = self.submit()
        alice, bob = (principal.token for principal in self.service.principals)
        never = handle[:21] + "f" * 32
        forms = (handle.upper(), "REQ" + handle[3:], "%72" + handle[1:], handle.replace("-", "%2d"),
                 handle[:-1] + ("0" if handle[-1] != "0" else "1"), handle[:-1], handle + "0", handle + "%00", "x")
        ways = (("GET", ""), ("GET", "?cursor=0"), ("GET", "/events"), ("GET", "/events?cursor=0"),
                ("POST", "/cancel"))

        def ask(token, method, form, suffix):
            body = {} if method == "POST" else None
            status, _, data = self.service.http(method, f"/aotx/v1/requests/{form}{suffix}", body, token=token)
            return status, data

        for method, suffix in ways:
            want = ask(bob, method, never, suffix)
            self.assertEqual(want[0], 404)
            for form in (handle, *forms):
                self.assertEqual(ask(bob, method, form, suffix), want, (method, form, suffix))
            for form in forms:
                self.assertEqual(ask(alice, method, form, suffix), want, (method, form, suffix))
            # A slash too many is another route, whoever asks.
            slash = ask(bob, method, handle + "/", suffix)
            self.assertEqual((slash[0], slash), (404, ask(bob, method, never + "/", suffix)))
        for token in (alice, bob):
            media = [{"type": "media", "media_id": "media-" + "1" * 32, "modality": "image"}]
            status, answer = self.service.json("POST", "/aotx/v1/requests", {
                "model": "test", "messages": [{"role": "user", "content": media}]}, token=token)
            self.assertEqual((status, answer["error"]["code"]), (503, "device_refused"))
        self.assertEqual(base64.b64decode(self.ended(handle)["output"]["bytes"]), b"abc")


if __name__ == "__main__":
    unittest.main(verbosity=2)
