"""Purpose:  the Python producer as a C consumer sees it: verbs through C pointers, releases from other threads.
Owns:     nothing.
Thread:   the main one, and eight that release.
Lifetime: one run; exit 0 when everything holds.
"""
import ctypes as c
import gc
import importlib.util
import struct
import sys
import threading
import weakref


def load(path):
    spec = importlib.util.spec_from_file_location("producer", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main(producer_path, library_path, native_path):
    producer = load(producer_path)
    lib = producer.library(library_path)
    native = c.CDLL(native_path)
    native.release_from_threads.argtypes = [c.c_void_p, c.c_void_p, c.c_uint32]

    model = producer.Mean()
    gone = weakref.ref(model)
    runtime = producer.open_runtime(lib, model)
    del model
    table = runtime.contents
    assert table.abi_version == 1 and table.struct_size == 136 and table.n_ports == 2
    assert table.exp.contents.identity == (b"frt-runtime-identity-v1\nmodel=Mean\nport:0:x:0:1:0:0:1:1:4:-1:0:0\n"
                                           b"port:1:mean:0:1:0:1:1:0:4:-1:0:0\n")
    verbs, self = table.verbs, table.self
    error = lambda: c.string_at(verbs.last_error(self))
    assert verbs.step(self) == -1 and error() == b"nothing was written yet"
    assert verbs.set_input(self, 0, struct.pack("4f", 1, 2, 3, 4), 16, -1) == 0 and error() == b""
    assert verbs.step(self) == 0
    assert verbs.set_input(self, 0, struct.pack("4f", 3, 2, 1, 0), 16, -1) == 0
    assert verbs.step(self) == 0
    written = c.c_uint64(0)
    out = c.create_string_buffer(16)
    assert verbs.get_output(self, 1, c.addressof(out), 15, c.byref(written), -1) == -5 and written.value == 16
    assert verbs.get_output(self, 1, c.addressof(out), 16, c.byref(written), -1) == 0
    assert struct.unpack("4f", out.raw) == (2, 2, 2, 2)
    assert verbs.set_input(self, 7, None, 0, -1) == -1 and error()
    assert verbs.prepare(self, 0, 0) == -3  # a missing verb is a stub

    for _ in range(8):
        table.retain(table.owner)
    for _ in range(4):  # Python threads first, then threads that the interpreter has never seen
        thread = threading.Thread(target=lambda: table.release(table.owner))
        thread.start()
        thread.join()
    assert gone() is not None
    release = c.cast(table.release, c.c_void_p)
    native.release_from_threads(release, table.owner, 5)
    gc.collect()
    assert gone() is None, "the last release frees the Python objects"
    print("python producer: everything holds")


if __name__ == "__main__":
    main(*sys.argv[1:])
