"""One HTTP request with an end, however slowly it is answered: each step of it (name and connection, TLS, the request,
the head of the answer, its body) within its time, and never more of the answer than is needed."""

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from http.client import HTTPException, RemoteDisconnected
from typing import NamedTuple

import urllib3
from urllib3 import HTTPConnectionPool, HTTPResponse, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    LocationValueError,
    NameResolutionError,
    NewConnectionError,
)

from alerts.receiver import Answer, Outcome

MOST_BYTES = 256 * 1024
NOT_THE_EVENT = frozenset({404, 405, 407, 408, 410, 421, 425, 426})
"""Said of the address or the moment, perhaps by a proxy on the way, and not of what was sent: that is kept."""

LAST_READ_S = 0.1
"""From the end of a request's time until its connection is reset: to take what has come already."""


class Reply(NamedTuple):
    """What came back: the status, the beginning of the body, how long the receiver asks us to wait."""

    status: int
    body: bytes
    after_s: float = 0.0

    @property
    def text(self) -> str:
        """For logs and terminals: whoever answers may send anything, also what moves a cursor."""
        said = " ".join(self.body[:150].decode("utf-8", "replace").split())
        return f"{self.status} {''.join(filter(str.isprintable, said))}".strip()


class NoReply(Exception):
    """Nothing usable came back; `arrived` False where the request certainly never got there."""

    def __init__(self, why: str, arrived: bool) -> None:
        super().__init__(why)
        self.why, self.arrived = why, arrived

    def answer(self) -> Answer:
        return Answer(Outcome.RETRY, self.why, arrived=self.arrived)


class Http:
    """Connections of one receiver, kept open between requests; `ca` is a file, "" the system's authorities."""

    def __init__(self, ca: str, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._pool = urllib3.PoolManager(
            ca_certs=ca or None, timeout=urllib3.Timeout(total=timeout_s), retries=False, maxsize=2
        )
        self._pool.pool_classes_by_scheme = {"http": _PlainPool, "https": _TlsPool}

    def send(
        self, method: str, url: str, body: bytes | None, headers: Mapping[str, str] | None = None,
        most_bytes: int = MOST_BYTES,
    ) -> Reply:  # fmt: skip
        """One request. Raises NoReply; a redirect is an answer, not followed."""
        sent = {"Content-Type": "application/json", "User-Agent": "lockstep"} | dict(headers or {})
        deadline = time.monotonic() + self._timeout_s
        try:
            response = self._pool.request(
                method, url, body=body, headers=sent, preload_content=False, redirect=False, retries=False
            )
        except (HTTPError, OSError) as error:
            raise NoReply(self._plainly(error, time.monotonic() >= deadline), not _never_arrived(error)) from None
        except ValueError:  # its words would have the header in them, and that the token
            raise NoReply("its address, token or password has letters that cannot be sent", False) from None
        # What is left unread must not be the beginning of the next answer: such a connection is not used again.
        parts, size, whole = [], 0, False
        with contextlib.suppress(HTTPError, OSError):  # the status is there, which is what counts
            while size < most_bytes and time.monotonic() < deadline:
                part = response.read1(16 * 1024)
                if not part:
                    whole = True
                    break
                parts.append(part)
                size += len(part)
        (response.release_conn if whole else response.close)()
        return Reply(response.status, b"".join(parts), _seconds(response.headers.get("Retry-After", "")))

    def _plainly(self, error: Exception, late: bool) -> str:
        """What went wrong in words; no address, whose path may be a secret."""
        if isinstance(error, NameResolutionError):
            return "its name is not known to DNS"
        if isinstance(error, LocationValueError):
            return "its address has a host or port that cannot be"
        causes = (error, error.__cause__, *error.args)
        for cause in causes:
            if isinstance(cause, ssl.SSLCertVerificationError):
                return f"its certificate is not trusted: {cause.verify_message}"
        if isinstance(error, ConnectTimeoutError) and not isinstance(error, NewConnectionError):
            return f"not reached in {self._timeout_s:g} s"
        if late:  # whichever came first: the socket's own timeout, or that it was cut
            return f"no answer in {self._timeout_s:g} s"
        for cause in causes:
            if isinstance(cause, ssl.SSLError) and cause.reason:
                return f"it does not speak our TLS: {cause.reason.replace('_', ' ').lower()}"
            if isinstance(cause, RemoteDisconnected):
                return "it hung up without an answer"
            if isinstance(cause, HTTPException):
                return "its answer is no HTTP"
        said = next((cause.strerror for cause in causes if isinstance(cause, OSError) and cause.strerror), "")
        return said or type(error).__name__


@contextlib.contextmanager
def _ending(connection: HTTPConnection) -> Iterator[None]:
    """Cuts the connection when its timeout has passed. A socket's own timeout begins anew with every byte, so an answer
    that drips would never end."""
    # The plain socket's shutdown: the one of TLS would take the session from under the thread that reads.
    cut = threading.Timer(connection.timeout or 0.0, _shut, (connection.sock,))
    cut.daemon = True
    cut.start()
    try:
        yield
    finally:
        cut.cancel()


def _shut(link: socket.socket) -> None:
    # Reading ends first: what has come is then the whole answer. Both ways at once, and the next byte to come makes
    # the kernel reset the connection, and a status that is there is lost. Who floods us is reset a moment later.
    with contextlib.suppress(OSError):  # it has gone by itself
        socket.socket.shutdown(link, socket.SHUT_RD)
        time.sleep(LAST_READ_S)
        socket.socket.shutdown(link, socket.SHUT_RDWR)


def _soon(connect: Callable[[], socket.socket], timeout_s: float) -> socket.socket:
    """What `connect` returns, within its time: a name server that is silent, and many addresses behind one name, each
    take their own. What comes later is closed unused: it must not carry a request that was given up."""
    made: list[socket.socket] = []
    failed: list[BaseException] = []
    settled, done = threading.Lock(), threading.Event()
    given_up = False

    def reach() -> None:
        try:
            link = connect()
        except BaseException as error:
            failed.append(error)
        else:
            with settled:
                (link.close if given_up else lambda: made.append(link))()
        done.set()

    threading.Thread(target=reach, daemon=True).start()
    done.wait(timeout_s)
    with settled:
        given_up = True
    if made:
        return made[0]
    raise failed[0] if failed else ConnectTimeoutError("not reached in time")


class _Plain(HTTPConnection):
    def _new_conn(self) -> socket.socket:
        return _soon(super()._new_conn, self.timeout or 0.0)

    def getresponse(self) -> HTTPResponse:  # type: ignore[override]  # as urllib3 itself
        with _ending(self):
            return super().getresponse()


class _Tls(HTTPSConnection):
    def _new_conn(self) -> socket.socket:
        return _soon(super()._new_conn, self.timeout or 0.0)

    def connect(self) -> None:
        try:
            super().connect()
        except OSError as error:  # of TLS: nothing of the request was sent
            raise NewConnectionError(self, "no TLS") from error

    def getresponse(self) -> HTTPResponse:  # type: ignore[override]
        with _ending(self):
            return super().getresponse()


class _PlainPool(HTTPConnectionPool):
    ConnectionCls = _Plain


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _Tls


def judge(reply: Reply, *accepted: int) -> Answer:
    """What a status means for the event: accepted, not us, never, later, or much later."""
    if reply.status in (accepted or range(200, 300)):
        return Answer(Outcome.DELIVERED, reply.text)
    if reply.status == 429:
        return Answer(Outcome.RETRY_LATE, reply.text, after_s=reply.after_s, arrived=False)
    if reply.status in (401, 403):
        return Answer(Outcome.KEY_REFUSED, reply.text, arrived=False)
    if 400 <= reply.status < 500 and reply.status not in NOT_THE_EVENT:
        return Answer(Outcome.REJECTED, reply.text)
    return Answer(Outcome.RETRY, reply.text, after_s=reply.after_s)


def _never_arrived(error: Exception) -> bool:
    return isinstance(error, NewConnectionError | ConnectTimeoutError | ConnectionRefusedError | LocationValueError)


def _seconds(retry_after: str) -> float:
    """Retry-After in seconds, at most an hour; its form as a date is left alone."""
    return min(float(retry_after), 3600.0) if retry_after.isdecimal() else 0.0
