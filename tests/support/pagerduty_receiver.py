"""A local receiver that keeps Events API v2's documented rules over TLS and counts as PagerDuty does."""

import json
import ssl
import threading
import time
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

ROUTING_KEY = "0123456789abcdef0123456789abcdef"


@dataclass
class PagerDutyReceiver:
    """Answers `behaviour` in turn (the last one for ever): 202, a status, "hang", or "lost" (accepted, answer lost)."""

    folder: Path
    behaviour: list[int | str] = field(default_factory=lambda: [202])
    events: list[dict[str, Any]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    opened: list[str] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)
    open_now: set[str] = field(default_factory=set)

    def __enter__(self) -> "PagerDutyReceiver":
        certificate, key = self.folder / "ca.pem", self.folder / "key.pem"
        _self_signed(certificate, key)
        receiver = self
        self._done = threading.Event()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = receiver.take(body)
                if status is None:
                    self.close_connection = True
                    return
                self.send_response(status)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.ca = str(certificate)
        self.url = f"https://127.0.0.1:{self._server.server_port}/v2/enqueue"
        return self

    def __exit__(self, *args: object) -> None:
        self._done.set()
        self._server.shutdown()
        self._server.server_close()

    def take(self, body: bytes) -> int | None:
        """The status for one request; None hangs up without an answer."""
        what = self.behaviour.pop(0) if len(self.behaviour) > 1 else self.behaviour[0]
        if what == "hang":
            self._done.wait(30)
            return None
        if what == "lost":
            self._count(body)
            return None
        status = self._count(body) if what == 202 else int(what)
        return status

    def _count(self, body: bytes) -> int:
        event = json.loads(body)
        wrong = _wrong(event, len(body))
        if wrong:
            self.refused.append(wrong)
            return 400
        self.events.append(event)
        self.bodies.append(body)
        key = event["dedup_key"]
        if event["event_action"] == "trigger" and key not in self.open_now:
            self.open_now.add(key)
            self.opened.append(key)
        elif event["event_action"] == "resolve" and key in self.open_now:
            self.open_now.remove(key)
            self.closed.append(key)
        return 202

    def wait_for(self, condition: Any, seconds: float = 20) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"not reached in {seconds} s: opened {self.opened}, closed {self.closed}")
            time.sleep(0.02)


def _wrong(event: dict[str, Any], size: int) -> str:
    if event.get("routing_key") != ROUTING_KEY:
        return "routing_key"
    if event.get("event_action") not in ("trigger", "acknowledge", "resolve"):
        return "event_action"
    if not 0 < len(event.get("dedup_key", "")) <= 255:
        return "dedup_key"
    if size > 512 * 1024:
        return "size"
    if event["event_action"] != "trigger":
        return ""
    payload = event.get("payload", {})
    if not 0 < len(payload.get("summary", "")) <= 1024:
        return "summary"
    if not payload.get("source"):
        return "source"
    if payload.get("severity") not in ("critical", "error", "warning", "info"):
        return "severity"
    return ""


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
