"""Purpose:  the golden packets of tests/sdk/golden through `packet decode`: every named value comes out as written.
Owns:     nothing.
Thread:   one.
Lifetime: one run.

A line of a golden file is: offset, hex, two blanks, name = JSON value. Names with a blank in them, and zero bytes,
have no field of their own."""
import json
import re
from pathlib import Path

import support

GOLDEN = Path(__file__).resolve().parents[1] / "sdk/golden"
REPLY_TO = {"information_reply": "information", "telemetry_reply": "telemetry", "media_read_reply": "media_read",
            "media_list_reply": "media_list", "policy_reply": "policy", "watch_reply": "watch",
            "device_reply": "device"}


def lines_of(path):
    at = 0
    for line in path.read_text().splitlines():
        if line.startswith("#"):
            continue
        offset, data, name, value = re.fullmatch(r"(\d+) +([0-9a-f]+)  (.+?) = (.*)", line).groups()
        assert int(offset) == at, f"{path.name}: {line} is not at {at}"
        data = bytes.fromhex(data)
        yield at, data, name, value
        at += len(data)


def found(document, name):
    for step in re.findall(r"\w+|\[\d+\]", name):
        document = document[int(step[1:-1])] if step[0] == "[" else document[step]
    return document


class Golden(support.Case):
    def test_every_value_comes_out_as_written(self):
        paths = sorted(GOLDEN.glob("*.txt"))
        self.assertGreaterEqual(len(paths), 25)
        for path in paths:
            rows = list(lines_of(path))
            packet = b"".join(row[1] for row in rows)
            words = ["packet", "decode", "-"]
            if path.stem in REPLY_TO:
                words += ["--reply-to", REPLY_TO[path.stem]]
            seen = self.json_of(*words, stdin=packet.hex().encode())
            self.assertEqual(seen["check"], "ok", path.name)
            self.assertEqual(seen.get("payload", {}).get("payload_check", "ok"), "ok", path.name)
            for at, data, name, value in rows:
                with self.subTest(packet=path.name, at=at, field=name):
                    if "zero_" in name:
                        self.assertEqual(data, bytes(len(data)))
                    elif " " not in name:
                        part = seen["head"] if at < 128 else seen["payload"]
                        self.assertEqual(found(part, name), json.loads(value))


if __name__ == "__main__":
    support.main()
