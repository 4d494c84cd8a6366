"""Purpose:  what aotxctl does without a service: tokens, grant files, packets, help, usage.
Owns:     nothing.
Thread:   one.
Lifetime: one run."""
import hashlib
import os
import stat
import struct
import subprocess

import support


def frame(operation, payload=b"", **words):
    head = bytearray(128)
    head[0:8] = b"AOTXAPI1"
    struct.pack_into("<I", head, 8, operation)
    struct.pack_into("<I", head, 88, len(payload))
    for at, (form, value) in words.get("at", {}).items():
        struct.pack_into(form, head, at, value)
    return bytes(head) + payload


class Token(support.Case):
    def test_new_token_and_its_hash(self):
        made = self.json_of("token", "new", "--name", "laptop")
        self.assertEqual(hashlib.sha256(made["token"].encode()).hexdigest(), made["token_sha256"])
        self.assertTrue(32 <= len(made["token"]) <= 256)
        self.assertRegex(made["id"], "^[0-9a-f]{32}$")
        self.assertNotEqual(made["token"], self.json_of("token", "new")["token"])

    def test_token_file_is_private_and_never_written_over(self):
        block = self.run_cli("token", "new", "--name", "laptop", "--out", "t").stdout.decode()
        path = self.folder / "t"
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)
        token = path.read_text().strip()
        self.assertIn(hashlib.sha256(token.encode()).hexdigest(), block)
        self.assertNotIn(token, block)
        self.run_cli("token", "new", "--out", "t", code=3)
        self.assertEqual(path.read_text().strip(), token)

    def test_refused_arguments(self):
        self.run_cli("token", "new", "--id", "0" * 32, code=2)
        self.run_cli("token", "new", "--id", "A" * 32, code=2)
        self.run_cli("token", "new", "--name", 'a"b', code=2)


class Grants(support.Case):
    def setUp(self):
        super().setUp()
        block = self.run_cli("token", "new", "--name", "laptop", "--out", "token").stdout.decode()
        (self.folder / "aotx.toml").write_text(block + "\n[device]\ngrants_path = \"g.bin\"\n")

    def test_the_file_is_the_frame_of_the_contract(self):
        self.run_cli("grants", "make", "--config", "aotx.toml", "--actions", "infer,telemetry",
                     "--models", "language", "--output-tokens", "100", "--active-requests", "3",
                     "--pages", "7", "--media-objects", "2", "--media-bytes", "5000000000")
        text = (self.folder / "aotx.toml").read_text()
        principal = bytes.fromhex(text.split('id = "')[1][:32])
        row = principal + struct.pack("<QIIIIIIQQ", 1, 9, 4, 7, 100, 3, 2, 5000000000, 0)
        want = frame(1, row, at={32: ("<Q", 1), 76: ("<I", 1)})
        self.assertEqual((self.folder / "g.bin").read_bytes(), want)
        self.assertEqual(stat.S_IMODE((self.folder / "g.bin").stat().st_mode), 0o600)

    def test_revisions_only_rise(self):
        for revision in ("1", "2", "3"):
            made = self.json_of("grants", "make", "--config", "aotx.toml")
            self.assertEqual(made["revision"], revision)
        self.run_cli("grants", "make", "--config", "aotx.toml", "--revision", "3", code=2)
        self.assertEqual(self.json_of("grants", "make", "--config", "aotx.toml", "--revision",
                                      "18446744073709551615")["revision"], "18446744073709551615")

    def test_shown_rows_make_the_same_file(self):
        self.run_cli("grants", "make", "--config", "aotx.toml")
        shown = self.run_cli("grants", "show", "g.bin", "--json").stdout
        self.run_cli("grants", "make", "--file", "-", "--out", "copy.bin", stdin=shown)
        self.assertEqual((self.folder / "g.bin").read_bytes(), (self.folder / "copy.bin").read_bytes())

    def test_what_the_device_would_refuse_is_not_written(self):
        rows = (("--actions", "fetch"), ("--output-tokens", "0"), ("--principal", "0" * 32),
                ("--principal", "1" * 32, "--principal", "1" * 32), ("--actions", "fly"), ("--models", "x"))
        for words in rows:
            self.run_cli("grants", "make", "--config", "aotx.toml", *words, code=2)
            self.assertFalse((self.folder / "g.bin").exists())
        self.run_cli("grants", "make", "--config", "aotx.toml", "--principal", "nobody", code=3)

    def test_a_foreign_file_is_left_alone(self):
        (self.folder / "g.bin").write_bytes(b"something else")
        self.run_cli("grants", "make", "--config", "aotx.toml", code=3)
        self.run_cli("grants", "show", "g.bin", code=3)
        self.assertEqual((self.folder / "g.bin").read_bytes(), b"something else")

    def test_deeply_nested_input_is_refused_quickly(self):
        for text in (b"[" * 100000 + b"]" * 100000, b'{"rows":' + b"[" * 3000, b'{"a":' * 5000):
            self.run_cli("grants", "make", "--file", "-", "--out", "x", stdin=text, code=3)


class Packet(support.Case):
    def test_binary_and_hex_say_the_same(self):
        payload = struct.pack("<IIIII", 1, 1, 1, 0, 2) + b"hi"
        words = {32: ("<Q", 5), 40: ("<Q", 9), 63: ("<B", 1), 72: ("<I", 2), 76: ("<I", 64),
                 80: ("<f", 0.5), 84: ("<f", 1.0)}
        packet = frame(3, payload, at=words)
        (self.folder / "p").write_bytes(packet)
        seen = self.json_of("packet", "decode", "p")
        self.assertEqual(seen, self.json_of("packet", "decode", "--hex", packet.hex(" ")))
        self.assertEqual(seen, self.json_of("packet", "decode", "-", stdin=packet.hex().encode()))
        self.assertEqual(seen["head"]["operation"], "submit")
        self.assertEqual(seen["head"]["runtime_epoch"], "9")
        self.assertEqual(seen["head"]["count"], 64)
        self.assertEqual(seen["head"]["temperature"], 0.5)
        self.assertEqual(seen["head"]["model_role"], "language")
        self.assertEqual(seen["payload"]["messages"][0]["role"], "user")
        self.assertEqual(seen["payload"]["messages"][0]["parts"][0]["text"], "hi")
        self.assertEqual(seen["check"], "ok")

    def test_a_broken_packet_is_printed_and_named(self):
        packet = bytearray(frame(2))
        packet[100] = 1
        seen = self.json_of("packet", "decode", "--hex", packet.hex(), code=3)
        self.assertIn("zero", seen["check"])
        self.assertIn("zero_92", seen["head"])
        for cut in range(0, 128, 9):
            self.run_cli("packet", "decode", "-", stdin=bytes(packet[:cut]), code=3)

    def test_replies(self):
        information = struct.pack("<II", 1, 17) + bytes(36) + struct.pack("<I", 1) + bytes(144)
        information += struct.pack("<II", 2, 1) + bytes(range(32))
        seen = self.json_of("packet", "decode", "--hex", frame(200, information).hex(),
                            "--reply-to", "information")
        self.assertEqual(seen["payload"]["execution_slots_plus_one"], 17)
        self.assertEqual(seen["payload"]["rows"][0]["role"], "language")
        window = self.json_of("packet", "decode", "--hex", frame(200, b"\xff", at={12: ("<I", 3)}).hex())
        self.assertEqual(window["head"]["phase"], "running")
        self.assertEqual(window["payload"]["base64"], "/w==")

    def test_hex_that_is_none(self):
        for text in ("zz", "0", "41 4"):
            self.run_cli("packet", "decode", "--hex", text, code=3)
        self.run_cli("packet", "decode", code=2)


class Program(support.Case):
    def commands(self):
        return (("token", "new"), ("grants", "make"), ("grants", "show"), ("packet", "decode"), ("check",))

    def test_every_command_explains_itself_with_examples(self):
        for words in self.commands():
            text = self.run_cli(*words, "--help").stdout.decode()
            self.assertIn("Examples:\n  aotxctl " + " ".join(words), text)

    def test_usage_is_code_2_and_one_line(self):
        for words in ((), ("fly",), ("token",), ("token", "new", "--fly"), ("grants", "make", "--pages", "x")):
            done = self.run_cli(*words, code=2)
            self.assertEqual(done.stdout, b"")
            self.assertEqual(done.stderr.count(b"\n"), 1)

    def test_wrong_configuration_names_its_line(self):
        (self.folder / "aotx.toml").write_text("[device]\nspin_us = 5\nflying = true\n")
        done = self.run_cli("check", "--config", "aotx.toml", code=3)
        self.assertIn(b"line 3", done.stderr)
        said = self.json_of("check", "--config", "aotx.toml", code=3)
        self.assertEqual(said["error"]["exit_code"], 3)

    def test_closed_descriptors(self):
        for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
            script = f'"{support.PROGRAM}" token new --out "$1" {closed}'
            path = self.folder / f"t{abs(hash(closed))}"
            done = subprocess.run(["sh", "-c", script, "sh", str(path)], capture_output=True, timeout=60)
            self.assertTrue(path.read_text().startswith("aotx-"), closed)
            self.assertEqual(done.returncode, 0, closed)

    def test_a_full_disk_is_no_success(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([support.PROGRAM, "token", "new"], stdout=full, stderr=subprocess.PIPE,
                                  env=self.environment, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"standard output", done.stderr)


if __name__ == "__main__":
    support.main()
