"""Purpose:  a scripted gateway: answers aotxctl over real HTTP, cuts streams where a case says so, and keeps
          what it was asked.
Owns:     its listening socket and threads.
Thread:   one a connection.
Lifetime: one case."""
import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

EPOCH = 7


def handle_of(number):
    return f"req-{EPOCH:016x}-{number:032x}"


class Request:
    def __init__(self, number, body, pieces, end):
        self.number, self.body, self.pieces, self.end = number, body, pieces, end
        self.cancelled = threading.Event()
        self.output = b"".join(pieces)

    def document(self, state, flag=False):
        return {"schema": "aotx.request.v1", "id": handle_of(self.number), "runtime_epoch": str(EPOCH),
                "model_role": 2, "state": state, "cancel_requested": flag or self.cancelled.is_set(),
                "status": {"cancelled": 409, "failed": 503}.get(state, 0), "persistence": "ephemeral",
                "usage": {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8},
                "finish_reason": "stop" if state == "completed" else None}


class Gateway:
    """pieces: output of each request in turn; cuts: bytes after which an event connection is closed, in turn;
    hold: stream the first piece, then wait for a cancellation."""

    def __init__(self, pieces=((b"Paris",),), cuts=(), hold=False, end="completed", refuse=None, token="t" * 40):
        self.pieces, self.cuts, self.hold, self.end = list(pieces), list(cuts), hold, end
        self.refuse = refuse or {}
        self.token = token
        self.requests, self.asked = {}, []
        gateway = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *words):
                pass

            def do_GET(self):
                gateway.answer(self, None)

            def do_POST(self):
                gateway.answer(self, self.rfile.read(int(self.headers.get("Content-Length", 0))))

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def send(self, http, status, document, **headers):
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        http.send_response(status)
        http.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            http.send_header(name.replace("_", "-"), value)
        http.end_headers()
        http.wfile.write(body)

    def error(self, http, status, code, **headers):
        kind = "invalid_request_error"
        self.send(http, status, {"error": {"message": f"no: {code}", "type": kind, "param": None, "code": code}},
                  **headers)

    def answer(self, http, body):
        self.asked.append((http.command, http.path, dict(http.headers), body))
        path = http.path.split("?")[0]
        if path in self.refuse:
            status, code = self.refuse[path]
            return self.error(http, status, code)
        if path == "/healthz":
            return self.send(http, 200, {"status": "ok"})
        if http.headers.get("Authorization") != "Bearer " + self.token:
            return self.error(http, 401, "invalid_api_key")
        if path == "/v1/models":
            return self.send(http, 200, {"object": "list", "data": [{"id": "small", "object": "model"}]})
        if path == "/aotx/v1/capabilities":
            return self.send(http, 200, {"schema": "aotx.capabilities.v1", "models": [], "limits": {"work": 64},
                                         "lineage": None, "name": "a\u001b[31mb\u009bc"})
        if path == "/aotx/v1/telemetry":
            return self.send(http, 200, {"schema": "aotx.telemetry.v1", "sample": {"tick": "12"}})
        if path == "/aotx/v1/requests":
            number = len(self.requests) + 1
            pieces = self.pieces[min(number, len(self.pieces)) - 1]
            self.requests[number] = Request(number, json.loads(body), pieces, self.end)
            return self.send(http, 202, {"schema": "aotx.admission.v1", "id": handle_of(number),
                                         "runtime_epoch": str(EPOCH), "state": "accepted",
                                         "persistence": "ephemeral", "media": []})
        parts = path.split("/")
        found = [r for r in self.requests.values() if len(parts) > 4 and parts[4] == handle_of(r.number)]
        if not found:
            return self.error(http, 404, "route_not_found")
        if path.endswith("/cancel"):
            found[0].cancelled.set()
            return self.send(http, 200, found[0].document("running", True))
        if path.endswith("/events"):
            return self.events(http, found[0])
        cursor = int(http.path.partition("cursor=")[2] or 0)
        window = found[0].output[cursor:cursor + 4]
        document = found[0].document("completed")
        document["output"] = {"encoding": "base64", "bytes": base64.b64encode(window).decode(),
                              "cursor": str(cursor), "next_cursor": str(cursor + len(window)),
                              "total_bytes": str(len(found[0].output))}
        return self.send(http, 200, document)

    def events(self, http, request):
        cursor = int(http.path.partition("cursor=")[2] or 0)
        last = http.headers.get("Last-Event-ID")
        if last is not None:
            assert last.startswith(handle_of(request.number) + ":"), last
            cursor = int(last.rsplit(":", 1)[1])
        http.send_response(200)
        http.send_header("Content-Type", "text/event-stream")
        http.send_header("Connection", "close")
        http.end_headers()
        http.close_connection = True
        cut = self.cuts.pop(0) if self.cuts else None
        self.event(http, "status", request.document("running"), None)
        sent, at = 0, 0
        for piece in request.pieces:
            start, at = at, at + len(piece)
            piece = piece[max(0, cursor - start):]
            if not piece:
                continue
            if cut is not None:
                piece = piece[:cut - sent]
            if piece:
                self.emission(http, request, cursor, piece)
                cursor += len(piece)
                sent += len(piece)
            if cut is not None and sent >= cut:
                return
            if self.hold:
                request.cancelled.wait(20)
                break
        state = "cancelled" if request.cancelled.is_set() else request.end
        http.wfile.write(b": still here\n\n")
        self.event(http, "status", request.document(state), None)

    def emission(self, http, request, cursor, piece):
        name = f"{handle_of(request.number)}:{cursor + len(piece)}"
        self.event(http, "emission", {
            "schema": "aotx.emission.v1", "request_id": handle_of(request.number), "runtime_epoch": str(EPOCH),
            "source_kind": "model", "model_role": 2, "offset": str(cursor), "next_cursor": str(cursor + len(piece)),
            "encoding": "base64", "bytes": base64.b64encode(piece).decode()}, name)

    def event(self, http, name, document, event_id):
        text = f"event: {name}\n" + (f"id: {event_id}\n" if event_id else "")
        http.wfile.write((text + f"data: {json.dumps(document)}\n\n").encode())
        http.wfile.flush()
