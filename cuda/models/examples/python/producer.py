"""Purpose:  a producer written in Python: the builder through ctypes, verbs as Python methods.
Owns:     every live producer, in `_alive`, until the runtime's last reference goes.
Thread:   verbs from one driver thread at a time; the last release may come from any thread, native ones included:
          ctypes takes the interpreter's lock inside the callback.
Lifetime: from open_runtime until the last release.

The layout below mirrors flashrt/model_runtime.h; layout_check compares it with what the C side says. A verb's
exception becomes -1 and its text the last error; a missing verb answers -3; short capacity answers -5.
"""
import ctypes as c

STAGED, IN, OUT = 1, 0, 1
TENSOR, F32, FLAT = 0, 1, 0

SET_INPUT = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_uint32, c.c_void_p, c.c_uint64, c.c_int)
GET_OUTPUT = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_uint32, c.c_void_p, c.c_uint64, c.POINTER(c.c_uint64), c.c_int)
PREPARE = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_uint32, c.c_uint64)
STEP = c.CFUNCTYPE(c.c_int, c.c_void_p)
LAST_ERROR = c.CFUNCTYPE(c.c_void_p, c.c_void_p)
OWNER = c.CFUNCTYPE(None, c.c_void_p)


class Verbs(c.Structure):
    _fields_ = [("struct_size", c.c_uint32), ("reserved", c.c_uint32), ("set_input", SET_INPUT),
                ("get_output", GET_OUTPUT), ("prepare", PREPARE), ("step", STEP), ("last_error", LAST_ERROR)]


class Export(c.Structure):
    _fields_ = [("abi_version", c.c_uint32), ("struct_size", c.c_uint32), ("ctx", c.c_void_p),
                ("streams", c.c_void_p), ("n_streams", c.c_uint64), ("graphs", c.c_void_p), ("n_graphs", c.c_uint64),
                ("buffers", c.c_void_p), ("n_buffers", c.c_uint64), ("capsule_regions", c.c_void_p),
                ("n_capsule_regions", c.c_uint64), ("fingerprint", c.c_uint64), ("identity", c.c_char_p),
                ("manifest_json", c.c_char_p), ("owner", c.c_void_p), ("retain", OWNER), ("release", OWNER)]


class Port(c.Structure):
    _fields_ = [("name", c.c_char_p), ("modality", c.c_uint32), ("dtype", c.c_uint32), ("layout", c.c_uint32),
                ("direction", c.c_uint32), ("update", c.c_uint32), ("required", c.c_uint32),
                ("shape", c.POINTER(c.c_int64)), ("rank", c.c_uint32), ("cadence_hint_hz", c.c_uint32),
                ("buffer", c.c_void_p), ("offset", c.c_uint64), ("bytes", c.c_uint64)]


class Runtime(c.Structure):
    _fields_ = [("abi_version", c.c_uint32), ("struct_size", c.c_uint32), ("exp", c.POINTER(Export)),
                ("ports", c.POINTER(Port)), ("n_ports", c.c_uint64), ("stages", c.c_void_p), ("n_stages", c.c_uint64),
                ("self", c.c_void_p), ("verbs", Verbs), ("owner", c.c_void_p), ("retain", OWNER), ("release", OWNER),
                ("query_extension", c.c_void_p)]


SIZES = {"verbs": (Verbs, 48), "export": (Export, 128), "port": (Port, 72), "runtime": (Runtime, 136)}
_alive = {}
# One callback for all, never freed: a closure must not vanish while it runs.
_release = OWNER(lambda owner: _alive.pop(owner, None))


def layout_check():
    """Raise unless every mirror has the size that the ABI fixes."""
    for name, (mirror, want) in SIZES.items():
        if c.sizeof(mirror) != want:
            raise RuntimeError(f"{name}: {c.sizeof(mirror)} bytes, the ABI says {want}")


def library(path="libflashrt_runtime.so"):
    """The builder library with its signatures."""
    lib = c.CDLL(path)
    lib.frt_model_runtime_builder_create_metadata.restype = c.c_void_p
    lib.frt_runtime_builder_destroy.argtypes = [c.c_void_p]
    lib.frt_runtime_builder_add_identity.argtypes = [c.c_void_p, c.c_char_p, c.c_char_p]
    lib.frt_runtime_builder_add_port.argtypes = (
        [c.c_void_p, c.c_char_p] + [c.c_uint32] * 6 + [c.POINTER(c.c_int64), c.c_uint32, c.c_uint32, c.c_void_p,
                                                       c.c_uint64, c.c_uint64])
    lib.frt_runtime_builder_finish_model.argtypes = [c.c_void_p, c.POINTER(Verbs), c.c_void_p, c.c_void_p, OWNER,
                                                     OWNER]
    lib.frt_runtime_builder_finish_model.restype = c.POINTER(Runtime)
    lib.frt_runtime_refusal.restype = c.c_char_p
    return lib


class Mean:
    """out = the mean of the inputs so far, four values at a time. Any class with these methods serves."""
    VALUES = 4

    def __init__(self):
        self.sums = [0.0] * self.VALUES
        self.count = 0
        self.pending = None
        self.out = bytes(4 * self.VALUES)

    def set_input(self, port, data):
        if port != 0 or len(data) != 4 * self.VALUES:
            raise ValueError("port 0 takes four f32 values")
        self.pending = (c.c_float * self.VALUES).from_buffer_copy(data)

    def get_output(self, port):
        if port != 1:
            raise ValueError("port 1 is the output")
        return self.out

    def step(self):
        if self.pending is None:
            raise ValueError("nothing was written yet")
        self.count += 1
        self.sums = [total + value for total, value in zip(self.sums, self.pending)]
        self.out = bytes((c.c_float * self.VALUES)(*[total / self.count for total in self.sums]))


class _Adapter:
    """Python methods as C verbs. Holds the callbacks, which must outlive the runtime."""

    def __init__(self, model):
        self.model = model
        self.error = c.create_string_buffer(256)
        self.verbs = Verbs(c.sizeof(Verbs), 0, SET_INPUT(self._set_input), GET_OUTPUT(self._get_output), PREPARE(),
                           STEP(self._step), LAST_ERROR(lambda _: c.addressof(self.error)))

    def _guard(self, call):
        try:
            code = call()
            self.error.value = b"" if code == 0 else b"the buffer is smaller than the payload"
            return code
        except Exception as problem:  # nothing may cross into C
            self.error.value = str(problem).encode()[:255]
            return -1

    def _set_input(self, _, port, data, count, stream):
        def call():
            if data is None and count > 0:
                raise ValueError("the payload is NULL")
            self.model.set_input(port, c.string_at(data, count) if count else b"")
            return 0
        return self._guard(call)

    def _get_output(self, _, port, out, capacity, written, stream):
        def call():
            payload = self.model.get_output(port)
            if out is None or not written:
                raise ValueError("out or written is NULL")
            written[0] = len(payload)
            if capacity < len(payload):
                return -5
            c.memmove(out, payload, len(payload))
            return 0
        return self._guard(call)

    def _step(self, _):
        def call():
            self.model.step()
            return 0
        return self._guard(call)


def open_runtime(lib, model=None):
    """A model runtime around a Python object, with one reference that the caller must release."""
    layout_check()
    adapter = _Adapter(model or Mean())
    builder = lib.frt_model_runtime_builder_create_metadata()
    shape = (c.c_int64 * 1)(Mean.VALUES)
    codes = [lib.frt_runtime_builder_add_identity(builder, b"model", type(adapter.model).__name__.encode())]
    for name, direction in ((b"x", IN), (b"mean", OUT)):
        codes.append(lib.frt_runtime_builder_add_port(builder, name, TENSOR, F32, FLAT, direction, STAGED,
                                                      int(direction == IN), shape, 1, 0, None, 0, 0))
    owner = id(adapter)
    _alive[owner] = adapter
    runtime = lib.frt_runtime_builder_finish_model(builder, c.byref(adapter.verbs), None, owner, OWNER(),
                                                   _release)
    if any(codes) or not runtime:
        del _alive[owner]
        lib.frt_runtime_builder_destroy(builder)
        raise RuntimeError(lib.frt_runtime_refusal().decode())
    return runtime
