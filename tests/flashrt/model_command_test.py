"""Purpose:  `aotxctl model` from outside: inspect, diff, run with PNG and numbers, bench, check, and its exit codes.
Owns:     a scratch folder.
Thread:   one.
Lifetime: one run; exit 0 when everything holds.
"""
import json
import struct
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path


def png(path, width, height, colour):
    """An RGB picture of one colour."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = (b"\0" + bytes(colour) * width) * height
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
                     chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def main(aotxctl, reach, scale, letters):
    def model(*words, want=0):
        done = subprocess.run([aotxctl, "model", *words], capture_output=True, text=True)
        assert done.returncode == want, f"{words} answers {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        split = '{"stage_plan":"context_action"}'
        shown = model("inspect", reach, "--config", split)
        for part in ("run by stages", "[0 context | stream 0]", "| from 0", "[1 decode_only | stream 0]", "fingerprint",
                     "rollout_boundary"):
            assert part in shown, part
        document = json.loads(model("inspect", reach, "--json"))
        assert document["ports"][2]["shape"] == [2, 32, 32, 3] and document["authority"] == "stages"

        saved = folder / "before.txt"
        saved.write_text(model("inspect", reach, "--identity"))
        assert "equal" in model("diff", str(saved), reach)
        told = model("diff", str(saved), reach, "--right-config", '{"chunk":12}', want=13)
        assert "chunk_size" in told and "left   10" in told and "right  12" in told and "port:3" in told

        assert "2, 4, 6, -8" in model("run", scale, "--config", '{"gain":2}', "--in", "x=num:1,2,3,-4")
        answer = json.loads(model("run", letters, "--in", "prompt=text:Hello", "--json"))
        assert answer["text"] == "leho" and answer["counts"][11] == 2

        png(folder / "front.png", 40, 30, (255, 0, 0))
        png(folder / "wrist.png", 20, 20, (0, 0, 255))
        words = ["run", reach, "--in", f"images={folder}/front.png,{folder}/wrist.png", "--in", "prompt=text:reach",
                 "--in", "state=num:0,0,0,-1,0,1,0.04"]
        model(*words, "--out", f"actions={folder}/a.txt", "--out", f"actions={folder}/a.bin")
        rows = (folder / "a.txt").read_text().splitlines()
        values = struct.unpack("70f", (folder / "a.bin").read_bytes())
        assert len(rows) == 10 and abs(float(rows[1].split(", ")[0]) - values[7]) < 1e-6
        png(folder / "wrist.png", 20, 20, (0, 255, 0))
        model(*words, "--out", f"actions={folder}/b.bin")
        assert (folder / "a.bin").read_bytes() != (folder / "b.bin").read_bytes()

        measured = json.loads(model("bench", scale, "--config", '{"gain":2}', "--ticks", "50", "--json"))
        assert [row["name"] for row in measured["series"]] == ["set_input x", "get_output y", "tick"]
        assert all(row["p50"] <= row["p99"] <= row["p99.9"] <= row["max"] for row in measured["series"])

        proven = json.loads(model("check", scale, "--config", '{"gain":2}', "--json"))
        assert proven["conforms"] and len(proven["findings"]) > 60
        model("check", "/etc/passwd", want=5)
        model("inspect", "/nowhere.so", want=3)
        model("run", scale, "--config", "{}", want=10)
        model("run", scale, "--config", '{"gain":2}', "--in", "nope=num:1", want=2)
        model("run", scale, "--config", '{"gain":2}', "--in", "x=num:1", want=10)
        model("run", reach, "--in", f"images={saved}.png", want=3)
    print("aotxctl model: everything holds")


if __name__ == "__main__":
    main(*sys.argv[1:])
