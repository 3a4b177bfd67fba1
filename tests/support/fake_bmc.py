"""A management controller that answers Redfish over HTTP, and misbehaves when told to."""

import json
import socket
import ssl
import struct
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PASSWORD = "s3cret-of-the-bmc"


class FakeBmc:
    """Serves `tree` (path to document) on a free port. `mode` is how it answers now:

    well, http_503, html, never, drip, reset, cut, forget (401 for every token given before), refuse, loop, away, huge,
    deep, empty. `sessions` are those open now, `most` how many fit; `asked` counts paths.
    """

    def __init__(self, tree: dict[str, Any], mode: str = "well", most: int = 4, tls: ssl.SSLContext | None = None):
        self.tree, self.mode, self.most = tree, mode, most
        self.sessions: list[str] = []
        self.asked: Counter[str] = Counter()
        self.logins = 0
        self.gone = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._tls = tls is not None
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    def __enter__(self) -> "FakeBmc":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.gone.set()
        self._server.shutdown()
        self._thread.join(5)
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away is what some tests are about."""


def _handler(bmc: FakeBmc) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 20

        def log_message(self, *_: object) -> None: ...

        def do_POST(self) -> None:
            said = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self._odd():
                return
            bmc.logins += 1
            if bmc.mode == "refuse" or said.get("Password") != PASSWORD:
                return self._answer(401, {})
            if len(bmc.sessions) >= bmc.most:
                return self._answer(503, {"error": {"message": "maximum number of user sessions"}})
            token = f"token-{bmc.logins}"
            bmc.sessions.append(token)
            self._answer(201, {}, {"X-Auth-Token": token, "Location": f"/redfish/v1/SessionService/Sessions/{token}"})

        def do_DELETE(self) -> None:
            token = self.path.rpartition("/")[2]
            if token in bmc.sessions:
                bmc.sessions.remove(token)
            self._answer(204, None)

        def do_GET(self) -> None:
            path = self.path.partition("?")[0].rstrip("/")
            bmc.asked[path] += 1
            if self._odd():
                return
            if bmc.mode == "forget":
                bmc.sessions.clear()
                bmc.mode = "well"
            if self.headers.get("X-Auth-Token") not in bmc.sessions:
                return self._answer(401, {})
            if bmc.mode == "loop":
                return self._answer(302, {}, {"Location": self.path})
            if bmc.mode == "away":
                return self._answer(302, {}, {"Location": "http://127.0.0.1:1/redfish/v1"})
            document = bmc.tree.get(path)
            self._answer(200 if document is not None else 404, document if document is not None else {})

        def _odd(self) -> bool:
            """Answer as `mode` says, if it says something odd."""
            if bmc.mode == "http_503":
                self._raw(503, b"<html>busy</html>", "text/html")
            elif bmc.mode == "html":
                self._raw(200, b"<!DOCTYPE html><title>Log in</title>", "text/html")
            elif bmc.mode == "huge":
                self._raw(200, b'{"a": "' + b"x" * (5 << 20) + b'"}')
            elif bmc.mode == "deep":
                self._raw(200, b"[" * 200_000)
            elif bmc.mode == "empty":
                self._raw(200, b"")
            elif bmc.mode == "never":
                bmc.gone.wait(20)
                self.close_connection = True
            elif bmc.mode == "drip":
                self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
                while not bmc.gone.is_set() and bmc.mode == "drip":
                    self.wfile.write(b" ")
                    time.sleep(0.02)
                self.close_connection = True
            elif bmc.mode == "cut":
                self.wfile.write(b'HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n{"Members": [')
                self.close_connection = True
            elif bmc.mode == "reset":
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.connection.close()
                self.close_connection = True
            else:
                return False
            return True

        def _raw(self, status: int, body: bytes, kind: str = "application/json") -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _answer(self, status: int, document: Any, headers: dict[str, str] | None = None) -> None:
            body = b"" if document is None else json.dumps(document).encode()
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler
