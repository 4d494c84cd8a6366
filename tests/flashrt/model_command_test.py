"""Purpose:  `aotxctl model` from outside: what inspect, diff, run, bench and check print, in both forms; PNG and WAV on
          their way in and out; files that lie; exit codes; no escape code in a pipe.
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

U8, F32, F16, BF16, I32, I64 = range(6)
LIST5 = b"LIST" + struct.pack("<I", 5) + b"hello\0"
MONO16 = (1, 1, 16000, 16)  # kind, channels, rate, bits


def png(path, width, height, colour):
    """A picture of one colour: grey, RGB or RGBA by its length."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = (b"\0" + bytes(colour) * width) * height
    kind = {1: 0, 3: 2, 4: 6}[len(colour)]
    path.write_bytes(b"\x89PNG\r\n\x1a\n" +
                     chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)) +
                     chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def png_pixels(data):
    """Width, height, channels and rows of an 8-bit PNG whose filters are plain (none, sub, up, average or Paeth)."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, packed = 8, b""
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + size]
        assert struct.unpack(">I", data[at + 8 + size:at + 12 + size])[0] == zlib.crc32(kind + body)
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack(">IIBB", body[:10])
            assert depth == 8
        packed += body if kind == b"IDAT" else b""
        at += 12 + size
    channels = {0: 1, 2: 3, 6: 4}[colour]
    raw, stride, out = zlib.decompress(packed), width * channels, bytearray()
    above = bytearray(stride)
    for row in range(height):
        kind, line = raw[row * (stride + 1)], bytearray(raw[row * (stride + 1) + 1:(row + 1) * (stride + 1)])
        for i in range(stride):
            left = line[i - channels] if i >= channels else 0
            corner = above[i - channels] if i >= channels else 0
            paeth = min((left, above[i], corner), key=lambda v: abs(left + above[i] - corner - v))
            line[i] = (line[i] + [0, left, above[i], (left + above[i]) // 2, paeth][kind]) & 255
        out, above = out + line, line
    return width, height, channels, bytes(out)


def chunk(name, data, size=None, pad=True):
    size = len(data) if size is None else size
    return name + struct.pack("<I", size) + data + (b"\0" if pad and len(data) % 2 else b"")


def fmt(kind, channels, rate, bits, block=None, extensible=False):
    block = channels * bits // 8 if block is None else block
    tail = b""
    if extensible:
        tail = struct.pack("<HHIH", 22, bits, 0, kind) + b"\0\0\0\0\x10\0\x80\0\0\xaa\0\x38\x9b\x71"
        kind = 0xfffe
    return chunk(b"fmt ", struct.pack("<HHIIHH", kind, channels, rate, rate * block, block, bits) + tail)


def riff(*chunks, size=None, magic=b"RIFF"):
    body = b"WAVE" + b"".join(chunks)
    return magic + struct.pack("<I", len(body) if size is None else size) + body


def wav(form, samples, letter):
    return riff(fmt(*form), chunk(b"data", struct.pack(f"<{len(samples)}{letter}", *samples)))


def wav_parts(data):
    """(kind, channels, rate, bits) and the samples of a file that we wrote."""
    assert data[:4] == b"RIFF" and struct.unpack("<I", data[4:8])[0] == len(data) - 8 and data[8:16] == b"WAVEfmt "
    kind, channels, rate, per_second, block, bits = struct.unpack("<HHIIHH", data[20:36])
    assert block == channels * bits // 8 and per_second == rate * block and data[36:40] == b"data"
    size = struct.unpack("<I", data[40:44])[0]
    letter = {(1, 8): "B", (1, 32): "i", (3, 32): "f"}[kind, bits]
    assert len(data) == 44 + size + size % 2
    return (kind, channels, rate, bits), list(struct.unpack(f"<{size // (bits // 8)}{letter}", data[44:44 + size]))


class Test:
    def __init__(self, folder, programs):
        self.folder = folder
        self.aotxctl, self.reach, self.scale, self.letters, self.echo, self.broken = programs
        self.said = b""

    def model(self, *words, want=0):
        done = subprocess.run([self.aotxctl, "model", *map(str, words)], capture_output=True, timeout=120)
        assert done.returncode == want, f"{words} answers {done.returncode}\n{done.stdout}{done.stderr}"
        assert b"\x1b" not in done.stdout + done.stderr, f"an escape code in a pipe: {words}"
        self.said = done.stderr.decode()
        return done.stdout.decode()

    def inspect(self):
        shown = self.model("inspect", self.reach, "--config", '{"stage_plan":"context_action"}')
        for part in ("run by stages", "[0 context | stream 0]", "| from 0", "     v\n", "[1 decode_only | stream 0]",
                     "stream  0 main, priority 0", "region  rollout_boundary", "snapshot restore", "graph   context",
                     "buffer  ", "IN  STAGED IMAGE  F32  NHWC [2, 32, 32, 3]", "required", "30 Hz", "window ",
                     "manifest ", "fingerprint ", "frt-runtime-identity-v1\n", "stage:1:"):
            assert part in shown, part
        document = json.loads(self.model("inspect", self.reach, "--json"))
        assert document["abi_version"] == 1 and document["struct_size"] == 136 and document["authority"] == "stages"
        assert document["ports"][2]["shape"] == [2, 32, 32, 3] and document["ports"][2]["required"] is True
        assert document["identity"].startswith("frt-runtime-identity-v1\n") and len(document["fingerprint"]) == 16
        plan = self.model("inspect", self.letters)
        assert "run by generic plan, metadata only" in plan and "[0 count | OPAQUE" in plan and "| from 0" in plan, plan
        stages = json.loads(self.model("inspect", self.letters, "--json"))["stages"]
        assert [row["name"] for row in stages] == ["count", "rank"] and stages[1]["after"] == [0]
        assert "run by step" in self.model("inspect", self.scale, "--config", '{"gain":2}')

    def diff(self):
        saved = self.folder / "before.txt"
        saved.write_text(self.model("inspect", self.reach, "--identity"))
        assert self.model("diff", saved, self.reach) == "equal: state of one is accepted by the other\n"
        assert json.loads(self.model("diff", saved, self.reach, "--json")) == {"equal": True, "differences": []}
        told = self.model("diff", saved, self.reach, "--right-config", '{"chunk":12}', want=13)
        for part in ("chunk_size   (a property", "left   10", "right  12", "port:3   (the schema", "refused"):
            assert part in told, part
        rows = json.loads(self.model("diff", saved, self.reach, "--right-config", '{"chunk":12}', "--json", want=13))
        assert not rows["equal"] and {"record": "chunk_size", "left": "10", "right": "12",
                                      "meaning": "a property that the producer declares"} in rows["differences"]
        lines = saved.read_text().splitlines()
        saved.write_text("\n".join([lines[0], lines[2], lines[1], *lines[3:], ""]))
        assert "their order differs" in self.model("diff", saved, self.reach, want=13)

    def numbers_and_pictures(self):
        assert "2, 4, 6, -8" in self.model("run", self.scale, "--config", '{"gain":2}', "--in", "x=num:1,2,3,-4")
        answer = json.loads(self.model("run", self.letters, "--in", "prompt=text:Hello", "--json"))
        assert answer["text"] == "leho" and answer["counts"][11] == 2
        front, wrist = self.folder / "front.png", self.folder / "wrist.png"
        png(front, 40, 30, (255, 0, 0))
        png(wrist, 20, 20, (0, 0, 255))
        words = ["run", self.reach, "--in", f"images={front},{wrist}", "--in", "prompt=text:reach",
                 "--in", "state=num:0,0,0,-1,0,1,0.04"]
        self.model(*words, "--out", f"actions={self.folder}/a.txt", "--out", f"actions={self.folder}/a.bin")
        rows = (self.folder / "a.txt").read_text().splitlines()
        values = struct.unpack("70f", (self.folder / "a.bin").read_bytes())
        assert len(rows) == 10 and abs(float(rows[1].split(", ")[0]) - values[7]) < 1e-6
        png(wrist, 20, 20, (0, 255, 0))
        self.model(*words, "--out", f"actions={self.folder}/b.bin")
        assert (self.folder / "a.bin").read_bytes() != (self.folder / "b.bin").read_bytes()
        # A raw window takes elements, not frames.
        self.model("run", self.reach, "--config", '{"io":"raw"}', "--in", f"images={front}", want=2)
        assert "takes no PNG: SWAP TENSOR F32" in self.said, self.said
        # Windows: elements whole, bytes up to the end.
        noise = self.folder / "noise.bin"
        noise.write_bytes(struct.pack("160f", *(0.01 * i for i in range(160))))
        self.model(*words, "--in", f"noise={noise}", "--out", f"actions={self.folder}/c.bin")
        assert (self.folder / "c.bin").read_bytes() != (self.folder / "b.bin").read_bytes()
        self.model(*words, "--in", "noise=num:1,2", want=3)
        assert "port 'noise' is a window of 640 bytes, and 8 are given" in self.said, self.said
        self.model("run", self.reach, "--config", '{"io":"raw"}', "--in", "prompt=text:reach")
        self.model("run", self.reach, "--config", '{"io":"raw"}', "--in", "prompt=text:" + "r" * 129, want=3)
        shown = self.folder / "shown.png"
        for mode, colour in ((1, (9, 8, 7)), (2, (9,)), (2, (9, 8, 7)), (2, (9, 8, 7, 99))):
            png(front, 3, 2, colour)
            config = json.dumps({"mode": mode, "pixel_channels": len(colour)})
            self.model("run", self.echo, "--config", config, "--in", f"in={front}", "--out", f"out={shown}")
            assert png_pixels(shown.read_bytes()) == (3, 2, len(colour), bytes(colour) * 6)
        png(front, 4, 2, (9, 8, 7))
        self.model("run", self.echo, "--config", '{"mode":2}', "--in", f"in={front}", want=3)
        assert "2 rows of 4 pixels" in self.said, self.said
        self.model("run", self.scale, "--config", '{"gain":2}', "--out", f"y={shown}", want=2)
        for damage in (front.read_bytes()[:40], b"", b"no picture"):
            front.write_bytes(damage)
            self.model("run", self.echo, "--config", '{"mode":2}', "--in", f"in={front}", want=3)

    def sound(self, config, data, want=0, rate=(), out="out.wav"):
        """Through the echo; the file that comes out, or what is said when it is refused."""
        given, answer = self.folder / "in.wav", self.folder / out
        given.write_bytes(data)
        self.model("run", self.echo, "--config", json.dumps(config), "--in", f"in={given}", "--out", f"out={answer}",
                   *rate, want=want)
        return self.said if want else answer.read_bytes()

    def sound_forms(self):
        four = [0, 16384, -32768, 32767]
        exact = [0.0, 0.5, -1.0, 32767 / 32768]
        source = wav(MONO16, four, "h")
        # Each element type in the file's own form, in the rate of the port.
        for dtype, form, samples in (
                (F32, (3, 1, 16000, 32), exact), (I32, (1, 1, 16000, 32), [v << 16 for v in four]),
                (U8, (1, 1, 16000, 8), [128, 192, 0, 255]), (F16, (3, 1, 16000, 32), [0.0, 0.5, -1.0, 1.0]),
                (BF16, (3, 1, 16000, 32), [0.0, 0.5, -1.0, 1.0])):
            assert wav_parts(self.sound({"dtype": dtype, "rate": 16000}, source)) == (form, samples), dtype
        self.sound({"dtype": dtype, "rate": 16000}, source, out="raw.bin")
        assert (self.folder / "raw.bin").read_bytes() == struct.pack("<4H", 0, 0x3f00, 0xbf80, 0x3f80)
        assert "no samples" in self.sound({"dtype": I64}, source, want=2)
        # Every kind of sample in, exact where it can be.
        for form, letter, samples, values in (
                ((1, 1, 16000, 8), "B", [128, 0, 255, 64], [0.0, -1.0, 127 / 128, -0.5]),
                ((1, 1, 16000, 32), "i", [0, -2**31, 2**30, 2**31 - 128], [0.0, -1.0, 0.5, (2**31 - 128) / 2**31]),
                ((3, 1, 16000, 32), "f", [0.0, -1.5, 0.25, 1.0], [0.0, -1.5, 0.25, 1.0]),
                ((3, 1, 16000, 64), "d", [0.0, -1.5, 0.25, 1.0], [0.0, -1.5, 0.25, 1.0])):
            assert wav_parts(self.sound({"rate": 16000}, wav(form, samples, letter)))[1] == values, form
        three = b"".join(struct.pack("<i", v)[:3] for v in (0, 2**22, -2**23, 2**23 - 1))
        got = wav_parts(self.sound({"rate": 16000}, riff(fmt(1, 1, 16000, 24), chunk(b"data", three))))[1]
        assert got == [0.0, 0.5, -1.0, (2**23 - 1) / 2**23]
        assert wav_parts(self.sound({"dtype": U8, "rate": 8000},
                                    wav((3, 1, 8000, 32), [2.0, -2.0, 0.0], "f")))[1] == [255, 0, 128]
        assert "not a number" in self.sound({"rate": 8000}, wav((3, 1, 8000, 32), [0.0, float("nan")], "f"), want=3)

    def sound_channels_and_rate(self):
        pairs = [0, 8192, 16384, -8192, -16384, 24576]
        stereo = wav((1, 2, 44100, 16), pairs, "h")
        values = [v / 32768 for v in pairs]
        for config in ({"channels": 2, "rate": 44100}, {"channels": 2, "planar": 1, "rate": 44100},
                       {"channels": 2, "planar": 1, "frames": 3}):
            assert wav_parts(self.sound(config, stereo)) == ((3, 2, 44100, 32), values), config
        self.sound({"channels": 2, "planar": 1}, stereo, out="raw.bin")
        planes = struct.unpack("<6f", (self.folder / "raw.bin").read_bytes())
        assert list(planes) == values[0::2] + values[1::2]
        assert "2 channels and the port takes 1" in self.sound({}, stereo, want=3)
        assert "44100 samples a second and the port takes 16000; resample" in self.sound(
            {"channels": 2, "rate": 16000}, stereo, want=3)
        assert "3 frames and the port takes 4" in self.sound({"channels": 2, "frames": 4}, stereo, want=3)
        assert "does not state its channels" in self.sound({"channels": 0}, stereo, want=2)
        assert "3 dimensions" in self.sound({"batched": 1}, stereo, want=2)
        # A cadence that is none of sound leaves the rate to the input, or to the one who asks.
        assert wav_parts(self.sound({"channels": 2, "rate": 50}, stereo))[0][2] == 44100
        assert wav_parts(self.sound({"channels": 2}, stereo, rate=("--rate", "8000")))[0][2] == 8000
        out = self.folder / "out.wav"
        self.model("run", self.scale, "--config", '{"gain":2}', "--in", "x=num:0,1,2,3", "--out", f"y={out}", want=2)
        assert "give --rate" in self.said, self.said
        self.model("run", self.scale, "--config", '{"gain":2}', "--in", "x=num:0,1,2,3", "--out", f"y={out}",
                   "--rate", "24000")
        assert wav_parts(out.read_bytes()) == ((3, 1, 24000, 32), [0, 2, 4, 6])
        self.model("run", self.letters, "--in", f"prompt={out}", want=2)
        assert "not sound" in self.said, self.said

    def sound_files_that_lie(self):
        head, four = fmt(*MONO16), chunk(b"data", struct.pack("<4h", 0, 1, 2, 3))
        for name, data, frames in (
                ("LIST of odd size before data", riff(head, LIST5, four), 4),
                ("extensible format of 40 bytes", riff(fmt(*MONO16, extensible=True), four), 4),
                ("sizes of FFFFFFFF", riff(head, chunk(b"data", bytes(100), 0xffffffff), size=0xffffffff), 50),
                ("open end inside a frame", riff(head, chunk(b"data", bytes(101), 0xffffffff, pad=False)), 50),
                ("8 bits, odd size, no pad at the end",
                 riff(fmt(1, 1, 16000, 8), chunk(b"data", bytes(9), pad=False)), 9),
                ("RIFF size of 0", riff(head, four, size=0), 4),
                ("a cut chunk behind the data", riff(head, four, chunk(b"LIST", b"abc", 500, pad=False)), 4),
                ("a few bytes behind the data", riff(head, four, b"\0\0\0"), 4)):
            form, samples = wav_parts(self.sound({"rate": 16000}, data))
            assert len(samples) == frames, (name, form, samples)
        assert len(riff(head, LIST5, four)) == 66
        whole = riff(head, four)
        for name, data, text in (
                ("a junk chunk of FFFFFFF8", riff(head, chunk(b"junk", b"", 0xfffffff8), four), "'junk' states 42949"),
                ("a junk chunk of FFFFFFFF", riff(head, chunk(b"junk", b"", 0xffffffff), four), "'junk' states 42949"),
                ("data larger than the file", riff(head, chunk(b"data", bytes(8), 10, pad=False)), "'data' states 10"),
                ("channels 0", riff(fmt(1, 0, 16000, 16), four), "0 channels"),
                ("65 channels", riff(fmt(1, 65, 16000, 16), four), "65 channels"),
                ("block size 0", riff(fmt(*MONO16, block=0), four), "block size is 0, not 2"),
                ("block size of another form", riff(fmt(*MONO16, block=4), four), "block size is 4, not 2"),
                ("rate 0", riff(fmt(1, 1, 0, 16), four), "rate is 0"),
                ("rate FFFFFFFF", riff(head.replace(struct.pack("<I", 16000), b"\xff" * 4), four), "rate is"),
                ("12 bits", riff(fmt(1, 1, 16000, 12, block=2), four), "12 bits"),
                ("0 bits", riff(fmt(1, 1, 16000, 0), four), "0 bits"),
                ("mu-law", riff(fmt(7, 1, 8000, 8), four), "kind 7"),
                ("a cut extensible format", riff(chunk(b"fmt ", fmt(0xfffe, 1, 16000, 16)[8:]), four), "extensible"),
                ("a format of 15 bytes", riff(chunk(b"fmt ", fmt(*MONO16)[8:23]), four), "15 bytes of 16"),
                ("two formats", riff(head, head, four), "two format chunks"),
                ("two data chunks", riff(head, four, four), "two data chunks"),
                ("data before the format", riff(four, head), "data before the format"),
                ("no format", riff(LIST5), "no format chunk"),
                ("no data", riff(head), "no data chunk"),
                ("empty data", riff(head, chunk(b"data", b"")), "no samples"),
                ("half a frame", riff(head, chunk(b"data", b"\0\0\0")), "inside a frame"),
                ("RF64", riff(head, four, magic=b"RF64"), "RF64"),
                ("big endian", riff(head, four, magic=b"RIFX"), "no WAV file"),
                ("empty", b"", "no WAV file"), ("text", b"hello, this is text", "no WAV file")):
            assert text in self.sound({}, data, want=3), (name, self.said)
        for cut in range(len(whole)):
            self.sound({}, whole[:cut], want=3)

    def number_forms(self):
        out = self.folder / "out.bin"

        def through(dtype, text, want=0):
            self.model("run", self.echo, "--config", json.dumps({"dtype": dtype}), "--in", f"in=num:{text}",
                       "--out", f"out={out}", want=want)
            return self.said if want else out.read_bytes()
        assert through(U8, "0,255,7") == bytes([0, 255, 7])
        assert through(I32, "-2147483648,2147483647") == struct.pack("<2i", -2**31, 2**31 - 1)
        assert through(I64, "9223372036854775807,-9223372036854775808") == struct.pack("<2q", 2**63 - 1, -2**63)
        assert through(F32, "0.1,-1e30,inf") == struct.pack("<3f", 0.1, -1e30, float("inf"))
        # Halves and bfloat16: nearest, ties to even, subnormal, largest, beyond.
        assert through(F16, "1,2049,2051,5.9604645e-08,65504,65519.9,65520,-0") == struct.pack(
            "<8H", 0x3c00, 0x6800, 0x6802, 0x0001, 0x7bff, 0x7bff, 0x7c00, 0x8000)
        assert through(BF16, "1,1.00390625,1.01171875,-inf") == struct.pack("<4H", 0x3f80, 0x3f80, 0x3f82, 0xff80)
        for dtype, text, part in ((U8, "256", "outside 0 to 255"), (U8, "-1", "outside 0"), (U8, "1.5", "whole"),
                                  (I32, "2147483648", "outside -2147483648"), (I64, "9223372036854775808", "outside"),
                                  (I64, "x", "whole number"), (F32, "1;2", "a number"), (F32, ",1", "a number")):
            assert part in through(dtype, text, want=2), (text, self.said)

    def bench(self):
        svg = self.folder / "ticks.svg"
        words = ("bench", self.scale, "--config", '{"gain":2}', "--ticks", "50")
        table = self.model(*words, "--svg", svg).splitlines()
        columns = ["p50", "p90", "p99", "p99.9", "max", "mean", "jitter"]
        assert table[0].split() == ["hot,", "microseconds"] + columns, table
        assert table[4].split() == ["cold,", "microseconds"] + columns, table
        assert [line[:28].strip() for line in table[1:4] + table[5:]] == [
            "set_input x", "get_output y", "tick", "last_error"], table
        assert all(len(line[28:].split()) == 7 for line in table)
        drawn = svg.read_text()
        assert drawn.startswith("<svg ") and drawn.endswith("</svg>\n") and drawn.count('fill="#3b6ea5"') == 60
        assert all(f">{name} " in drawn for name in ("p50", "p90", "p99", "p99.9", "max")) and "50 ticks" in drawn
        measured = json.loads(self.model(*words, "--json"))
        assert measured["ticks"] == 50 and measured["unit"] == "us"
        assert [row["name"] for row in measured["series"]] == ["set_input x", "get_output y", "tick", "last_error"]
        assert [row["phase"] for row in measured["series"]] == ["hot", "hot", "hot", "cold"]
        assert all(row["p50"] <= row["p90"] <= row["p99"] <= row["p99.9"] <= row["max"] and row["jitter"] >= 0 and
                   0 <= row["mean"] <= row["max"] for row in measured["series"])
        # Stages by their names, step next to them, and prepare for each graph, whoever runs the model.
        def beside_the_tick(library, config):
            series = json.loads(self.model("bench", library, "--config", config, "--ticks", "3", "--json"))["series"]
            return [(row["phase"], row["name"]) for row in series
                    if row["name"].split()[0] not in ("set_input", "get_output", "tick")]
        split, two = '{"stage_plan":"context_action"}', '{"stage_plan":"context_action","streams":2}'
        prepared = [("cold", f"prepare {graph}") for graph in ("infer", "context", "decode_only")]
        stages = [("stage", "stage context"), ("stage", "stage decode_only")]
        step, last = [("hot", "step")], [("cold", "last_error")]
        for library, config, want in (
                (self.reach, split, step + stages + prepared + last),
                (self.reach, two, stages + prepared + last),  # step leaves two streams to the host
                (self.broken, '{"break":"suite.mixed"}',
                 step + [("stage", "stage run"), ("stage", "stage finish"), ("cold", "prepare run")] + last),
                (self.letters, "{}", step + [("stage", "stage count"), ("stage", "stage rank")] + last)):
            assert sorted(beside_the_tick(library, config)) == sorted(want), (config, self.said)
        # SETUP ports belong outside ticks: they are no hot verb.
        measured = json.loads(self.model("bench", self.broken, "--ticks", "5", "--json"))
        names = [row["name"] for row in measured["series"]]
        assert "set_input x" in names and "set_input mode" not in names, names
        self.model(*words, "--svg", "/nowhere/ticks.svg", want=3)
        self.model("bench", self.scale, "--config", '{"gain":2}', "--ticks", "0", want=2)

    def check(self):
        good = ("check", self.scale, "--config", '{"gain":2}')
        proven = json.loads(self.model(*good, "--json"))
        assert proven["conforms"] and len(proven["findings"]) == 71
        assert all(set(row) == {"rule", "verdict", "says", "seen"} for row in proven["findings"])
        short = self.model(*good).splitlines()
        assert len(short) == 1 and " rules hold, 0 broken, 0 warnings, " in short[0], short
        whole = self.model(*good, "--all")
        assert "pass  factory.symbol           the shared object exports" in whole and "skip  " in whole
        bad = ("check", self.broken, "--config", '{"break":"graph.stream"}')
        told = self.model(*bad, want=5)
        assert told.splitlines()[0] == "FAIL  graph.stream             every graph's stream is in the stream table"
        assert "        -> graph 'run' replays on stream 3" in told and "1 broken" in told, told
        rows = json.loads(self.model(*bad, "--json", want=5))
        assert not rows["conforms"] and [row["rule"] for row in rows["findings"] if row["verdict"] == "FAIL"] == [
            "graph.stream"]
        self.model("check", "/etc/passwd", want=5)
        self.model(*good, "--ticks", "0", want=2)  # no tick at all would hold every hot rule

    def refusals(self):
        self.model("inspect", "/nowhere.so", want=3)
        self.model("run", self.scale, "--config", "{}", want=10)
        assert "answers -1 (an argument is invalid) to this configuration" in self.said, self.said
        self.model("run", self.broken, "--config", '{"break":"tick.runs"}', want=17)
        assert "tick 0 answers -5 (the device failed)" in self.said, self.said
        self.model("run", self.scale, "--config", '{"gain":2}', "--in", "nope=num:1", want=2)
        self.model("run", self.scale, "--config", '{"gain":2}', "--in", "x=num:1", want=10)
        self.model("run", self.scale, "--config", '{"gain":2}', "--in", "x=num:1,two", want=2)
        self.model("run", self.reach, "--in", f"images={self.folder}/none.png", want=3)
        for source in ("num:1,2", "text:x", self.scale):  # bytes in a frame's place would be followed as pointers
            self.model("run", self.reach, "--in", f"images={source}", want=2)
            assert "takes pictures" in self.said, self.said


def main(*programs):
    with tempfile.TemporaryDirectory() as name:
        test = Test(Path(name), programs)
        for part in (test.inspect, test.diff, test.numbers_and_pictures, test.number_forms, test.sound_forms,
                     test.sound_channels_and_rate, test.sound_files_that_lie, test.bench, test.check, test.refusals):
            part()
    print("aotxctl model: everything holds")


if __name__ == "__main__":
    main(*sys.argv[1:])
