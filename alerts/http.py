"""One HTTP request with an end: never longer than its time, never more of the answer than is needed."""

import time
from collections.abc import Mapping
from typing import NamedTuple

import urllib3

from alerts.receiver import Answer, Outcome

MOST_BYTES = 256 * 1024


class Reply(NamedTuple):
    """What came back: the status, the beginning of the body, how long the receiver asks us to wait."""

    status: int
    body: bytes
    after_s: float = 0.0

    @property
    def text(self) -> str:
        said = " ".join(self.body[:150].decode("utf-8", "replace").split())
        return f"{self.status} {said}".strip()


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

    def send(self, method: str, url: str, body: bytes | None, headers: Mapping[str, str] | None = None) -> Reply:
        """One request. Raises NoReply; a redirect is an answer, not followed."""
        sent = {"Content-Type": "application/json", "User-Agent": "lockstep"} | dict(headers or {})
        deadline = time.monotonic() + self._timeout_s
        try:
            response = self._pool.request(
                method, url, body=body, headers=sent, preload_content=False, redirect=False, retries=False
            )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise NoReply(type(error).__name__, not _never_arrived(error)) from None
        except ValueError as error:  # a URL or header that cannot be sent
            raise NoReply(f"{type(error).__name__}: {error}"[:100], False) from None
        parts, size = [], 0
        try:
            while size < MOST_BYTES and (part := response.read(16 * 1024)):
                parts.append(part)
                size += len(part)
                if time.monotonic() > deadline:
                    break
        except (urllib3.exceptions.HTTPError, OSError):
            pass  # the status is there, which is what counts
        (response.release_conn if not response.connection or size < MOST_BYTES else response.close)()
        return Reply(response.status, b"".join(parts), _seconds(response.headers.get("Retry-After", "")))


def judge(reply: Reply, *accepted: int) -> Answer:
    """What a status means for the event: accepted, not us, never, later, or much later."""
    if reply.status in (accepted or range(200, 300)):
        return Answer(Outcome.DELIVERED, reply.text)
    if reply.status == 429:
        return Answer(Outcome.RETRY_LATE, reply.text, after_s=reply.after_s, arrived=False)
    if reply.status in (401, 403):
        return Answer(Outcome.KEY_REFUSED, reply.text, arrived=False)
    if 400 <= reply.status < 500 and reply.status != 408:
        return Answer(Outcome.REJECTED, reply.text)
    return Answer(Outcome.RETRY, reply.text, after_s=reply.after_s)


def _never_arrived(error: Exception) -> bool:
    before = (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError, ConnectionRefusedError)
    return isinstance(error, before) or "CERTIFICATE_VERIFY_FAILED" in str(error)


def _seconds(retry_after: str) -> float:
    """Retry-After in seconds, at most an hour; its form as a date is left alone."""
    return min(float(retry_after), 3600.0) if retry_after.isdecimal() else 0.0
