"""Purpose:  a tiny random language model as a GGUF file, for tests that need the real runtime and no real model.
Owns:     nothing; the caller names the file.
Thread:   any.
Lifetime: one call.
"""
import random
import struct

VOCAB, SIZE, WIDE, HEADS, LAYERS = 64, 32, 48, 2, 2
TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
U32, I32, F32, STRING, ARRAY = 4, 5, 6, 8, 9


def text(value):
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def value_of(kind, value):
    if kind == STRING:
        return text(value)
    return struct.pack({U32: "<I", I32: "<i", F32: "<f"}[kind], value)


def key(name, kind, value, element=None):
    if element is None:
        return text(name) + struct.pack("<I", kind) + value_of(kind, value)
    items = b"".join(value_of(element, item) for item in value)
    return text(name) + struct.pack("<IIQ", kind, element, len(value)) + items


def keys():
    # One token for every text that is not known; the others are words that only answers hold.
    return [
        key("general.architecture", STRING, "llama"),
        key("llama.block_count", U32, LAYERS),
        key("llama.context_length", U32, 256),
        key("llama.embedding_length", U32, SIZE),
        key("llama.feed_forward_length", U32, WIDE),
        key("llama.attention.head_count", U32, HEADS),
        key("llama.attention.layer_norm_rms_epsilon", F32, 1e-5),
        key("tokenizer.ggml.model", STRING, "llama"),
        key("tokenizer.ggml.tokens", ARRAY, ["<unk>"] + [f"w{i}." for i in range(1, VOCAB)], STRING),
        key("tokenizer.ggml.token_type", ARRAY, [2] + [1] * (VOCAB - 1), I32),
        key("tokenizer.ggml.scores", ARRAY, [0.0] * VOCAB, F32),
        key("tokenizer.chat_template", STRING, TEMPLATE),
    ]


def shapes():
    yield "token_embd.weight", (SIZE, VOCAB)
    yield "output_norm.weight", (SIZE,)
    for i in range(LAYERS):
        for name in ("attn_norm", "ffn_norm"):
            yield f"blk.{i}.{name}.weight", (SIZE,)
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            yield f"blk.{i}.{name}.weight", (SIZE, SIZE)
        yield f"blk.{i}.ffn_gate.weight", (SIZE, WIDE)
        yield f"blk.{i}.ffn_up.weight", (SIZE, WIDE)
        yield f"blk.{i}.ffn_down.weight", (WIDE, SIZE)


def tiny_model_write(path, seed=7):
    """Write the model. The same seed gives the same file."""
    chance = random.Random(seed)
    infos, data, count = b"", b"", 0
    for name, dims in shapes():
        elements = dims[0] * (dims[1] if len(dims) == 2 else 1)
        middle, spread = (1.0, 0.2) if len(dims) == 1 else (0.0, 0.6)
        infos += text(name) + struct.pack("<I", len(dims)) + struct.pack(f"<{len(dims)}Q", *dims)
        infos += struct.pack("<IQ", 0, len(data))
        data += struct.pack(f"<{elements}f", *(middle + chance.uniform(-spread, spread) for _ in range(elements)))
        data += bytes(-len(data) % 32)
        count += 1
    pairs = keys()
    head = b"GGUF" + struct.pack("<IQQ", 3, count, len(pairs)) + b"".join(pairs) + infos
    path.write_bytes(head + bytes(-len(head) % 32) + data)
