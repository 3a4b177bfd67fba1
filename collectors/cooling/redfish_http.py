"""Plain GETs to one controller over one kept connection, bounded in time, size and depth.

Controllers are small computers: some answer 503 with a page, some send a byte a second, some close in the middle, some
leave a session behind for every log-in until no more fit. So: one connection, one session, one request at a time, a
deadline over each whole request, and no following of redirects to anybody else (a token would go with them).
"""

import asyncio
import base64
import hashlib
import ssl
import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

LARGEST = 4 << 20
"""Bytes of one answer. The largest real ones, sensors of a whole baseboard expanded, are about half a megabyte."""

HEADERS = 64
REDIRECTS = 3


class RedfishError(Exception):
    """A request that came to nothing: `code` is one word, counted and named in the event."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


class Response(NamedTuple):
    """An answer; header names in small letters."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Login(NamedTuple):
    """Who asks. Never shown."""

    user: str
    password: str
    basic: bool = False

    def __repr__(self) -> str:
        return "Login(***)"


class Client:
    """One controller at `url` ("https://10.0.3.1"). Not for several tasks at a time.

    `context` is None for plain HTTP; `fingerprint` the SHA-256 of the certificate that must be shown, "" for none.
    """

    def __init__(
        self,
        url: str,
        login: Login | None,
        context: ssl.SSLContext | None,
        fingerprint: str = "",
        timeout_s: float = 5.0,
        largest: int = LARGEST,
    ) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port or (80 if context is None else 443)
        self._netloc = parts.netloc.rpartition("@")[2]
        self._login, self._context = login, context
        self._fingerprint = fingerprint.removeprefix("sha256:").replace(":", "").lower()
        self._timeout_s, self._largest = timeout_s, largest
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._token, self._session = "", ""
        self._basic = bool(login and login.basic)

    async def get(self, uri: str) -> Any:
        """The JSON document at `uri`. Raises RedfishError, "not_found" among its codes."""
        for _ in range(REDIRECTS + 1):
            response = await self._asked("GET", uri)
            if response.status in (301, 302, 303, 307, 308):
                uri = self._elsewhere(response.headers.get("location", ""))
                continue
            return _document(response)
        raise RedfishError("redirects", f"redirected more than {REDIRECTS} times")

    async def close(self) -> None:
        """End the session, so that the next one finds a place, and the connection. Never raises."""
        try:
            if self._session:
                await self._whole(self._request("DELETE", self._session))
        except RedfishError:
            pass
        self._token, self._session = "", ""
        self.drop()

    def drop(self) -> None:
        """Let go of the connection, whatever is still in it."""
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None

    async def _asked(self, method: str, uri: str) -> Response:
        """One request with whatever log-in it needs; a session that the controller forgot is replaced once."""
        if self._login is not None and not self._basic and not self._token:
            await self._log_in()
        response = await self._whole(self._request(method, uri))
        if response.status == 401 and self._login is not None and not self._basic:
            await self._log_in()
            response = await self._whole(self._request(method, uri))
        return response

    async def _log_in(self) -> None:
        assert self._login is not None
        old, self._token, self._session = self._session, "", ""
        body = msgspec.json.encode({"UserName": self._login.user, "Password": self._login.password})
        response = await self._whole(self._request("POST", "/redfish/v1/SessionService/Sessions", body))
        if response.status in (404, 405, 501):  # no sessions here
            self._basic = True
            return
        if response.status in (400, 401, 403):
            raise RedfishError("unauthorized", "the controller refuses user and password")
        token = response.headers.get("x-auth-token", "")
        if response.status not in (200, 201, 202) or not token.isprintable() or not token:
            raise RedfishError(f"http_{response.status}", f"log-in was answered with status {response.status}")
        self._token = token
        location = urlsplit(response.headers.get("location", "")).path
        self._session = location if location.startswith("/") and " " not in location else ""
        if old and old != self._session:
            await self._whole(self._request("DELETE", old))

    async def _whole(self, request: bytes) -> Response:
        """One exchange within the deadline, on the kept connection or, if that one was closed meanwhile, on a new
        one."""
        kept = self._streams is not None
        try:
            async with asyncio.timeout(self._timeout_s):
                try:
                    return await self._exchange(request)
                except (ConnectionError, asyncio.IncompleteReadError) as error:
                    unanswered = not isinstance(error, asyncio.IncompleteReadError) or not error.partial
                    self.drop()
                    if not (kept and unanswered):
                        raise
                    return await self._exchange(request)
        except TimeoutError:
            self.drop()
            raise RedfishError("timeout", f"no whole answer within {self._timeout_s:g} s") from None
        except RedfishError:
            self.drop()
            raise
        except asyncio.IncompleteReadError:
            self.drop()
            raise RedfishError("cut", "the connection was closed in the middle of an answer") from None
        except ssl.SSLError as error:  # before ValueError, which a refused certificate is too
            self.drop()
            raise RedfishError("tls", f"TLS: {error.reason or error}"[:200]) from None
        except (asyncio.LimitOverrunError, ValueError) as error:
            self.drop()
            raise RedfishError("not_http", f"the answer is no HTTP: {error}"[:200]) from None
        except OSError as error:
            self.drop()
            raise RedfishError("unreachable", f"no connection: {error.strerror or error}"[:200]) from None
        except asyncio.CancelledError:
            self.drop()
            raise

    async def _exchange(self, request: bytes) -> Response:
        reader, writer = self._streams or await self._connected()
        writer.write(request)
        await writer.drain()
        response = await _response(reader, self._largest)
        framed = "content-length" in response.headers or "transfer-encoding" in response.headers
        if response.headers.get("connection", "").lower() == "close" or not framed:
            self.drop()
        return response

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(self._host, self._port, ssl=self._context)
        self._streams = reader, writer
        if self._fingerprint:
            shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True) or b""
            if hashlib.sha256(shown).hexdigest() != self._fingerprint:
                raise RedfishError("tls", "the controller shows another certificate than the one that was pinned")
        return self._streams

    def _request(self, method: str, uri: str, body: bytes = b"") -> bytes:
        lines = [
            f"{method} {uri} HTTP/1.1",
            f"Host: {self._netloc}",
            "Accept: application/json",
            "Accept-Encoding: identity",
            "OData-Version: 4.0",
            "User-Agent: lockstep",
        ]
        if body:
            lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        if self._token:
            lines.append(f"X-Auth-Token: {self._token}")
        elif self._basic and self._login is not None:
            word = base64.b64encode(f"{self._login.user}:{self._login.password}".encode()).decode()
            lines.append(f"Authorization: Basic {word}")
        return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace") + body

    def _elsewhere(self, location: str) -> str:
        parts = urlsplit(location)
        scheme = "http" if self._context is None else "https"
        if (parts.netloc and parts.netloc.rpartition("@")[2] != self._netloc) or (
            parts.scheme and parts.scheme != scheme
        ):
            raise RedfishError("redirects", f"redirected to {parts.scheme}://{parts.netloc}: give that as its url")
        if not parts.path.startswith("/") or not location.isprintable() or " " in location:
            raise RedfishError("redirects", "redirected to nowhere")
        return parts.path + ("?" + parts.query if parts.query else "")


def _document(response: Response) -> Any:
    if response.status in (404, 410):
        raise RedfishError("not_found", "no such resource")
    if response.status == 401:
        raise RedfishError("unauthorized", "the controller refuses user and password")
    if response.status == 403:
        raise RedfishError("forbidden", "this user may not read it")
    if response.status != 200:
        raise RedfishError(f"http_{response.status}", f"answered with status {response.status}")
    try:
        return msgspec.json.decode(response.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        start = response.body[:40].decode("ascii", "replace").strip()
        raise RedfishError("not_json", f"the answer is no JSON: it begins with {start!r}") from None


async def _response(reader: asyncio.StreamReader, largest: int) -> Response:
    """One HTTP/1.x answer. ValueError where it is none, RedfishError where it is too large."""
    while True:
        status = await reader.readuntil(b"\n")
        words = status.split(None, 2)
        if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():
            raise ValueError("no status line")
        code = int(words[1])
        headers: dict[str, str] = {}
        while line := (await reader.readuntil(b"\n")).strip():
            name, colon, value = line.decode("latin-1").partition(":")
            if not colon or len(headers) >= HEADERS:
                raise ValueError("bad headers")
            headers[name.strip().lower()] = value.strip()
        if code >= 200:
            break
    if code in (204, 304):
        return Response(code, headers | {"content-length": "0"}, b"")
    body = await _body(reader, headers, largest)
    if headers.get("content-encoding", "").lower() in ("gzip", "deflate"):
        unpacker = zlib.decompressobj(47)
        try:
            body = unpacker.decompress(body, largest)
        except zlib.error:
            raise RedfishError("not_json", "the answer is packed and damaged") from None
        if unpacker.unconsumed_tail:
            raise RedfishError("too_large", f"the answer has more than {largest} bytes unpacked")
    return Response(code, headers, body)


async def _body(reader: asyncio.StreamReader, headers: Mapping[str, str], largest: int) -> bytes:
    if "chunked" in headers.get("transfer-encoding", "").lower():
        parts: list[bytes] = []
        left = largest
        while size := int((await reader.readuntil(b"\n")).split(b";")[0], 16):
            left -= size
            if left < 0 or size < 0:
                raise RedfishError("too_large", f"the answer has more than {largest} bytes")
            parts.append(await reader.readexactly(size))
            await reader.readuntil(b"\n")
        while (await reader.readuntil(b"\n")).strip():
            pass
        return b"".join(parts)
    if "content-length" in headers:
        size = int(headers["content-length"])
        if not 0 <= size <= largest:
            raise RedfishError("too_large", f"the answer has {size} bytes, more than {largest}")
        return await reader.readexactly(size)
    parts, got = [], 0
    while received := await reader.read(65536):
        got += len(received)
        if got > largest:
            raise RedfishError("too_large", f"the answer has more than {largest} bytes")
        parts.append(received)
    return b"".join(parts)
