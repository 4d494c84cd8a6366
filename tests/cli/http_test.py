"""Purpose:  aotxctl against a scripted gateway: documents, errors, streams, resuming, terminals, Ctrl-C.
Owns:     nothing.
Thread:   one, beside the gateway's.
Lifetime: one run."""
import json
import signal
import subprocess

import support
from fake_gateway import Gateway, handle_of

ESC = b"\x1b]0;title\x07\x1b[2J"


class HttpCase(support.Case):
    def serve(self, **options):
        self.gateway = Gateway(**options)
        self.addCleanup(self.gateway.close)
        self.environment["AOTX_URL"] = self.gateway.url
        self.environment["AOTX_TOKEN"] = self.gateway.token
        return self.gateway


class Documents(HttpCase):
    def test_documents(self):
        self.serve()
        self.assertEqual(self.run_cli("models").stdout, b"small\n")
        self.assertEqual(self.json_of("models")["data"][0]["id"], "small")
        self.assertEqual(self.json_of("telemetry")["sample"]["tick"], "12")
        self.assertIn(b"tick: 12", self.run_cli("telemetry").stdout)
        self.assertEqual(self.json_of("health")["status"], "ok")
        text = self.run_cli("capabilities").stdout
        self.assertIn(b"name: a\\x1b[31mb\\xc2\\x9bc", text)
        raw = self.run_cli("capabilities", "--json").stdout
        self.assertIn(b"a\\u001b[31mb\\u009bc", raw)

    def test_token_sources(self):
        gateway = self.serve()
        del self.environment["AOTX_TOKEN"]
        self.assertIn(b"no token", self.run_cli("models", code=11).stderr)
        self.assertNotIn(b"no token", self.run_cli("models", code=11, AOTX_TOKEN="x" * 40).stderr)
        (self.folder / "t").write_text(gateway.token + "\n")
        self.run_cli("models", "--token-file", "t")
        self.run_cli("models", AOTX_TOKEN_FILE=str(self.folder / "t"))
        self.run_cli("models", "--token-file", "absent", code=3)
        self.run_cli("models", AOTX_TOKEN="short", code=3)
        self.run_cli("models", AOTX_TOKEN="x" * 40 + "\r\nHost: evil", code=3)
        (self.folder / "aotx.toml").write_text(f'[gateway]\nbind = "{gateway.url[7:]}"\n')
        (self.folder / "token").write_text(gateway.token)
        self.run_cli("models", "--config", str(self.folder / "aotx.toml"))

    def test_no_proxy_sees_the_token(self):
        self.serve()
        self.run_cli("models", http_proxy="http://127.0.0.1:1", ALL_PROXY="http://127.0.0.1:1")

    def test_errors_have_exit_codes(self):
        rows = ((400, 10), (401, 11), (403, 11), (404, 12), (409, 13), (410, 14), (413, 15), (429, 16), (503, 17),
                (500, 17), (504, 18), (408, 18), (418, 10))
        for status, code in rows:
            self.serve(refuse={"/v1/models": (status, "some_code")})
            done = self.run_cli("models", code=code)
            self.assertIn(str(status).encode(), done.stderr)
            said = self.json_of("models", code=code)
            self.assertEqual(said["error"]["status"], status)
            self.assertEqual(said["error"]["code"], "some_code")

    def test_nobody_listens(self):
        self.run_cli("models", "--url", "http://127.0.0.1:1", code=4)
        self.run_cli("models", "--url", "ftp://x", code=2)
        self.run_cli("chat", "hi", "--url", "http://127.0.0.1:1", code=4)


class Requests(HttpCase):
    def test_submit_read_cancel(self):
        gateway = self.serve(pieces=[(b"The capital is Paris.",)])
        handle = self.run_cli("submit", "Where?", "--max-tokens", "9", "--temperature", "0.25", "--top-p", "0.5",
                              "--system", "brief").stdout.decode().strip()
        self.assertEqual(handle, handle_of(1))
        self.assertEqual(gateway.requests[1].body, {
            "model": "small", "max_tokens": 9, "temperature": 0.25, "top_p": 0.5,
            "messages": [{"role": "system", "content": "brief"}, {"role": "user", "content": "Where?"}]})
        self.assertEqual(self.run_cli("read", handle).stdout, b"The capital is Paris.")
        self.assertEqual(self.run_cli("read", handle, "--cursor", "15").stdout, b"Paris.")
        self.assertEqual(self.json_of("read", handle)["output"]["next_cursor"], "4")
        self.assertEqual(self.run_cli("cancel", handle).stdout, b"running, cancellation requested\n")
        self.run_cli("read", handle_of(9), code=12)

    def test_bodies_and_messages_from_files(self):
        gateway = self.serve()
        body = b'{"model":"m","messages":[{"role":"user","content":"x"}],"n":1}'
        self.run_cli("submit", "--file", "-", stdin=body)
        self.assertEqual(gateway.requests[1].body, json.loads(body))
        self.run_cli("submit", "--messages", "-", "--model", "m", stdin=b'[{"role":"user","content":[{"type":"text",'
                     b'"text":"a"},{"type":"text","text":"b"}]}]')
        self.assertEqual(gateway.requests[2].body["messages"], [{"role": "user", "content": "ab"}])
        for text in (b"[" * 100000, b"{}", b'[{"role":"robot","content":"x"}]', b"\xff"):
            self.run_cli("submit", "--messages", "-", stdin=text, code=3)
        for text in (b'{"model":"m","x":' + b"[" * 100000 + b"]" * 100000 + b"}", b'{"messages":' + b"[" * 3000,
                     b'{"a":' * 5000):
            self.run_cli("submit", "--file", "-", stdin=text, code=3)

    def test_a_wrong_handle_goes_nowhere(self):
        gateway = self.serve()
        for handle in ("x", handle_of(1)[:-1], handle_of(1) + "0", handle_of(10).upper(), "../v1/models"):
            for verb in ("read", "watch", "cancel"):
                self.run_cli(verb, handle, code=2)
        self.assertEqual(gateway.asked, [])

    def test_messages_that_are_none(self):
        self.serve()
        self.run_cli("chat", "-", stdin=b"", code=2)
        self.run_cli("chat", stdin=b"\n", code=2)
        self.run_cli("chat", stdin=b"\xff\xfe", code=2)
        self.run_cli("chat", "a", "--message", "b", code=2)
        self.run_cli("chat", "a", "--temperature", "3", code=2)
        self.run_cli("chat", "a", "--top-p", "0", code=2)


class Streams(HttpCase):
    def test_watch_resumes_at_every_byte(self):
        text = "aé😀\n".encode()
        for cut in range(1, len(text)):
            gateway = self.serve(pieces=[(text[:3], text[3:])], cuts=[cut])
            handle = self.run_cli("submit", "x").stdout.decode().strip()
            self.assertEqual(self.run_cli("watch", handle).stdout, text)
            events = [asked for asked in gateway.asked if asked[1].startswith(f"/aotx/v1/requests/{handle}/events")]
            self.assertEqual(len(events), 2)
            self.assertEqual(events[1][2]["Last-Event-ID"], f"{handle}:{cut}")

    def test_watch_from_a_cursor(self):
        gateway = self.serve(pieces=[(b"abc", b"def")])
        handle = self.run_cli("submit", "x").stdout.decode().strip()
        self.assertEqual(self.run_cli("watch", handle + ":2").stdout, b"cdef")
        self.assertEqual(self.run_cli("watch", handle, "--cursor", "4").stdout, b"ef")
        self.run_cli("watch", handle + ":2", "--cursor", "4", code=2)
        lines = [json.loads(line) for line in self.run_cli("watch", handle, "--json").stdout.splitlines()]
        self.assertEqual([line["schema"] for line in lines],
                         ["aotx.request.v1", "aotx.emission.v1", "aotx.emission.v1", "aotx.request.v1"])

    def test_a_gateway_that_stays_away(self):
        gateway = self.serve(cuts=[2] + [0] * 20)
        handle = self.run_cli("submit", "x").stdout.decode().strip()
        gateway.refuse = {}
        done = self.run_cli("watch", handle, code=4)
        self.assertEqual(done.stdout, b"Pa")
        self.assertIn(f"{handle}:2".encode(), done.stderr)

    def test_ends_have_exit_codes(self):
        for end, code in (("completed", 0), ("failed", 17), ("cancelled", 19)):
            self.serve(end=end)
            self.assertEqual(self.run_cli("chat", "x", code=code).stdout, b"Paris\n")

    def test_chat_once(self):
        gateway = self.serve(pieces=[(b"Par", b"is\n")])
        self.assertEqual(self.run_cli("chat", "Where?").stdout, b"Paris\n")
        self.assertEqual(self.run_cli("chat", stdin=b"Where\nnow?\n").stdout, b"Paris\n")
        self.assertEqual(gateway.requests[2].body["messages"], [{"role": "user", "content": "Where\nnow?"}])
        said = self.json_of("chat", "--message", "Where?")
        self.assertEqual((said["text"], said["state"], said["finish_reason"]), ("Paris\n", "completed", "stop"))
        done = self.run_cli("chat", "Where?", "--stats")
        self.assertIn(b"5 prompt tokens, 3 sampled", done.stderr)

    def test_control_bytes_pass_a_pipe_and_not_a_terminal(self):
        self.serve(pieces=[(b"a" + ESC[:3], ESC[3:] + b"\xc2", b"\x9bz\xf0\x9f", b"\x98\x80")])
        done = subprocess.run([support.PROGRAM, "chat", "x"], env=self.environment, capture_output=True, timeout=60)
        self.assertEqual(done.stdout, b"a" + ESC + b"\xc2\x9bz\xf0\x9f\x98\x80\n")
        seen, code = self.on_terminal("chat", "x")
        self.assertEqual(code, 0)
        self.assertIn(b"a\\x1b]0;title\\x07\\x1b[2J\\xc2\\x9bz\xf0\x9f\x98\x80", seen)
        self.assertNotIn(b"\x1b", seen)
        seen, code = self.on_terminal("chat", "x", "--raw")
        self.assertIn(ESC, seen)


class Conversation(HttpCase):
    def test_it_remembers_clears_and_exits(self):
        gateway = self.serve(pieces=[(b"one",), (b"two",), (b"three",)])
        seen, code = self.on_terminal("chat", "--system", "s", keys=(
            (b"> ", b"first\n"), (b"one", b"second\n"), (b"two", b"/clear\nthird\n"), (b"three", b"/exit\n")))
        self.assertEqual(code, 0, seen)
        roles = [[m["content"] for m in gateway.requests[n].body["messages"]] for n in (1, 2, 3)]
        self.assertEqual(roles, [["s", "first"], ["s", "first", "one", "second"], ["s", "third"]])

    def test_ctrl_c_cancels_the_answer_and_keeps_the_conversation(self):
        gateway = self.serve(pieces=[(b"half",), (b"whole",)], hold=True)
        seen, code = self.on_terminal("chat", keys=(
            (b"> ", b"first\n"), (b"half", b"\x03"), (b"cancelled", b"second\n"), (b"whole", b"\x03"),
            (b"cancelled", b"\x04")))
        self.assertEqual(code, 0, seen)
        cancels = [path for verb, path, _, _ in gateway.asked if path.endswith("/cancel")]
        self.assertEqual(cancels, [f"/aotx/v1/requests/{handle_of(n)}/cancel" for n in (1, 2)])
        self.assertEqual([m["content"] for m in gateway.requests[2].body["messages"]], ["first", "half", "second"])

    def test_ctrl_c_at_the_prompt_exits(self):
        gateway = self.serve()
        seen, code = self.on_terminal("chat", keys=((b"> ", b"\x03"),))
        self.assertEqual(code, 130)
        self.assertEqual(gateway.requests, {})

    def test_ctrl_c_without_a_terminal_cancels_too(self):
        gateway = self.serve(pieces=[(b"half",)], hold=True)
        child = subprocess.Popen([support.PROGRAM, "chat", "x"], env=self.environment, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE)
        self.assertEqual(child.stdout.read(4), b"half")
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=20)
        self.assertEqual(child.returncode, 19)
        self.assertTrue(gateway.requests[1].cancelled.is_set())

    def test_a_failed_exchange_leaves_no_trace(self):
        gateway = self.serve(pieces=[(b"one",)])
        gateway.refuse = {"/aotx/v1/requests": (429, "transport_limit")}
        seen, code = self.on_terminal("chat", keys=((b"> ", b"first\n"), (b"transport_limit", b"\x04")))
        self.assertEqual(code, 0)
        self.assertEqual(gateway.requests, {})

    def test_colour_is_asked_for(self):
        self.serve()
        for environment, want in (({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)):
            seen, _ = self.on_terminal("chat", keys=((b"> ", b"\x04"),), environment=environment)
            self.assertEqual(b"\x1b" in seen, want, environment)

    def test_closed_input_does_not_hang(self):
        self.serve()
        done = subprocess.run(["sh", "-c", f'"{support.PROGRAM}" chat <&-'], env=self.environment,
                              capture_output=True, timeout=20)
        self.assertEqual(done.returncode, 2)


if __name__ == "__main__":
    support.main()
