"""Receivers of alerts on this machine, each counting as its original does: what is open, what was closed."""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

Handled = tuple[int, dict[str, str], bytes]


@dataclass
class Request:
    """One request as it came."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class HttpReceiver:
    """Answers each request with what `answer` says; while `trouble` has a status, with that. "hang" does not answer,
    "lost" lets it be handled and hangs up."""

    answer: Callable[[Request], Handled]
    trouble: list[int | str] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)

    def __enter__(self) -> "HttpReceiver":
        receiver = self
        self._done = threading.Event()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                parts = urlsplit(self.path)
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                request = Request(self.command, parts.path, parse_qs(parts.query), dict(self.headers.items()), body)
                trouble = receiver.trouble.pop(0) if receiver.trouble else ""
                if trouble == "hang":
                    receiver._done.wait(30)
                    return
                if isinstance(trouble, int):
                    status, headers, said = trouble, receiver.headers, b"trouble"
                else:
                    receiver.requests.append(request)
                    status, headers, said = receiver.answer(request)
                if trouble == "lost":
                    return
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

            def do_GET(self) -> None:
                self.do_POST()

            def log_message(self, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        return self

    def __exit__(self, *args: object) -> None:
        self._done.set()
        self._server.shutdown()
        self._server.server_close()


class SlackChannel:
    """Slack's methods as documented: `messages` by ts, `edits` in order. `history` False is a token without that scope;
    `error` is answered instead of anything."""

    def __init__(self) -> None:
        self.messages: dict[str, dict[str, Any]] = {}
        self.edits: list[str] = []
        self.history, self.error = True, ""

    def answer(self, request: Request) -> Handled:
        said = self._said(request)
        return 200, {"Content-Type": "application/json"}, json.dumps(said).encode()

    def _said(self, request: Request) -> dict[str, Any]:
        method = request.path.rpartition("/")[2]
        if request.headers.get("Authorization") != "Bearer xoxb-test":
            return {"ok": False, "error": "invalid_auth"}
        if self.error:
            return {"ok": False, "error": self.error}
        if method == "conversations.history":
            found = [{"ts": ts} | message for ts, message in reversed(self.messages.items())]
            return {"ok": True, "messages": found} if self.history else {"ok": False, "error": "missing_scope"}
        message = request.json
        if message["channel"] not in ("C01", "alerts"):
            return {"ok": False, "error": "channel_not_found"}
        if len(message["text"]) > 4000 or len(message["blocks"]) > 50:
            return {"ok": False, "error": "msg_too_long"}
        if any(len(block["text"]["text"]) > 3000 for block in message["blocks"]):
            return {"ok": False, "error": "invalid_blocks"}
        if method == "chat.update" and message["ts"] not in self.messages:
            return {"ok": False, "error": "message_not_found"}
        ts = message.get("ts") or f"1700000000.{len(self.messages):06}"
        self.messages[ts] = {key: message[key] for key in ("text", "blocks", "metadata")}
        if method == "chat.update":
            self.edits.append(ts)
        return {"ok": True, "channel": "C01", "ts": ts}


class AlertmanagerLike:
    """Alertmanager's API for what only its shape is needed; `alerts` by their labels."""

    def __init__(self) -> None:
        self.alerts: dict[str, dict[str, Any]] = {}

    def answer(self, request: Request) -> Handled:
        if request.path != "/api/v2/alerts":
            return 404, {}, b""
        if request.method == "POST":
            for alert in request.json:
                self.alerts[json.dumps(alert["labels"], sort_keys=True)] = alert
            return 200, {}, b""
        wanted = request.query["filter"][0].partition("=")[2].strip('"')
        found = [a for a in self.alerts.values() if a["labels"]["incident"] == wanted]
        return 200, {}, json.dumps(found).encode()
