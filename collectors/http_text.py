"""One page of text over HTTP, with every way of failing told apart. Never through a proxy, never redirected."""

import contextlib
import http.client
from collections.abc import Callable
from urllib.parse import urlsplit

from collectors.base import CollectorError

LARGEST = 16 << 20
"""Bytes of an answer: 72 GPUs with all their links come to a few MiB."""


def fetcher(url: str, who: str, timeout_s: float) -> Callable[[], str]:
    """Reads `url` (http or https) at each call; raises CollectorError naming `who`."""
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")

    def fetch() -> str:
        try:
            connection = kind(parts.hostname or "", parts.port, timeout=timeout_s)
            with contextlib.closing(connection):
                connection.request("GET", path, headers={"Accept": "text/plain", "Connection": "close"})
                with connection.getresponse() as answer:
                    status, reason, body = answer.status, answer.reason, answer.read(LARGEST + 1)
        except TimeoutError:
            raise CollectorError("timeout", f"{who} gives no answer in {timeout_s:g} s") from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise CollectorError("unreachable", f"{who} at {url}: {error or type(error).__name__}") from None
        if status != http.client.OK:
            raise CollectorError(f"http_{status}", f"{who} answers {status} {reason}")
        if len(body) > LARGEST:
            raise CollectorError("too_large", f"{who} answers with more than {LARGEST >> 20} MiB")
        return body.decode("utf-8", errors="replace")

    return fetch
