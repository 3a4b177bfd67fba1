"""A local receiver that keeps Events API v2's documented rules over TLS and counts as PagerDuty does."""

import json
import socket
import ssl
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

WORDS = {202: "success", 400: "invalid event", 429: "throttle exceeded"}

ROUTING_KEY = "0123456789abcdef0123456789abcdef"


@dataclass
class PagerDutyReceiver:
    """Answers `behaviour` in turn (the last one for ever): 202, a status, "hang", "reset" (the connection), or "lost"
    (accepted, answer lost); or what `choose` says for each request.

    `keys` are the routing keys that exist; `limit` events of one key in 60 s of `now`, then 429. `opened` and `closed`
    are dedup keys in order; `reopened` what a trigger after a resolve opened a second time.
    """

    folder: Path
    behaviour: list[int | str] = field(default_factory=lambda: [202])
    keys: set[str] = field(default_factory=lambda: {ROUTING_KEY})
    limit: int | None = None
    now: Callable[[], float] = time.monotonic
    choose: Callable[[], int | str] | None = None
    events: list[dict[str, Any]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    opened: list[str] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)
    reopened: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    limited: int = 0
    open_at: dict[str, set[str]] = field(default_factory=dict)

    @property
    def open_now(self) -> set[str]:
        """The dedup keys that are open, of all routing keys."""
        return set().union(*self.open_at.values())

    def __enter__(self) -> "PagerDutyReceiver":
        certificate, key = self.folder / "ca.pem", self.folder / "key.pem"
        _self_signed(certificate, key)
        receiver = self
        self._done = threading.Event()
        self._lock = threading.Lock()
        self._windows: dict[str, deque[float]] = {}

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # Two small writes and Nagle's algorithm would make every answer wait 40 ms.
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status, said = receiver.take(body)
                key = json.loads(body).get("dedup_key")
                if status is None:
                    if said == "reset":
                        linger = struct.pack("ii", 1, 0)
                        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                        self.connection.close()
                    self.close_connection = True
                    return
                answer = json.dumps({"status": WORDS.get(status, "error"), "message": said, "dedup_key": key}).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *args: object) -> None:
                pass

        self._server = _Server(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        self.ca = str(certificate)
        self.url = f"https://127.0.0.1:{self._server.server_port}/v2/enqueue"
        return self

    def __exit__(self, *args: object) -> None:
        self._done.set()
        self._server.shutdown()
        self._server.server_close()

    def take(self, body: bytes) -> tuple[int | None, str]:
        """Status and word for one request; None hangs up without an answer."""
        if self.choose is not None:
            what = self.choose()
        else:
            what = self.behaviour.pop(0) if len(self.behaviour) > 1 else self.behaviour[0]
        if what == "hang":
            self._done.wait(30)
            return None, "hang"
        if what == "reset":
            return None, "reset"
        if what == "lost":
            self._count(body)
            return None, "lost"
        return self._count(body) if what == 202 else (int(what), "as asked for")

    def _count(self, body: bytes) -> tuple[int, str]:
        with self._lock:
            event = json.loads(body)
            wrong = self._wrong(event, len(body))
            if wrong:
                self.refused.append(wrong)
                return 400, f"invalid event: {wrong}"
            routing, key = event["routing_key"], event["dedup_key"]
            if self._full(routing):
                self.limited += 1
                return 429, "throttled"
            self.events.append(event)
            self.bodies.append(body)
            open_now = self.open_at.setdefault(routing, set())
            if event["event_action"] == "trigger" and key not in open_now:
                (self.reopened if key in self.opened else self.opened).append(key)
                open_now.add(key)
            elif event["event_action"] == "resolve":
                (self.closed if key in open_now else self.dropped).append(key)
                open_now.discard(key)
            return 202, "Event processed"

    def _full(self, routing: str) -> bool:
        if self.limit is None:
            return False
        window, now = self._windows.setdefault(routing, deque()), self.now()
        while window and now - window[0] >= 60.0:
            window.popleft()
        if len(window) >= self.limit:
            return True
        window.append(now)
        return False

    def _wrong(self, event: dict[str, Any], size: int) -> str:
        if event.get("routing_key") not in self.keys:
            return "routing_key"
        if event.get("event_action") not in ("trigger", "acknowledge", "resolve"):
            return "event_action"
        if not 0 < len(event.get("dedup_key", "")) <= 255:
            return "dedup_key"
        if size > 512 * 1024:
            return "size"
        return _wrong_payload(event.get("payload", {})) if event["event_action"] == "trigger" else ""

    def wait_for(self, condition: Any, seconds: float = 20) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"not reached in {seconds} s: opened {self.opened}, closed {self.closed}")
            time.sleep(0.02)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # A client that hung up is what we want to see here, no news.
    handle_error = lambda self, request, client_address: None  # noqa: E731


def _wrong_payload(payload: dict[str, Any]) -> str:
    if not 0 < len(payload.get("summary", "")) <= 1024:
        return "summary"
    if not payload.get("source"):
        return "source"
    if payload.get("severity") not in ("critical", "error", "warning", "info"):
        return "severity"
    if "timestamp" in payload and not _is_time(payload["timestamp"]):
        return "timestamp"
    return ""


def _is_time(text: str) -> bool:
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).tzinfo is not None
    except ValueError:
        return False


def _self_signed(certificate_path: Path, key_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "lockstep test receiver")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate_path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key_path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
