"""Who may speak to the engine: one user, and no page of a browser."""

import base64
import binascii
import hmac
from collections.abc import Mapping
from urllib.parse import urlsplit

from storage.engine.errors import AUTHENTICATION_FAILED, ClickHouseError
from storage.engine.settings import LOOPBACK


class Access:
    """The user and password that a request must bring, empty for no password."""

    def __init__(self, user: str, password: str) -> None:
        self._user, self._password = user, password

    def check(self, given: Mapping[str, str], headers: Mapping[str, str]) -> None:
        """Raise ClickHouseError (516) unless the URL's parameters or the headers name our user and password.

        Without a password only loopback is served, where any page in a browser could send a request as well: what
        comes for a name other than the machine's own, or from a page of another site, is refused.
        """
        user, password = credentials(given, headers)
        if not (_same(user, self._user) & _same(password, self._password)):
            raise ClickHouseError(
                AUTHENTICATION_FAILED,
                f"{user}: Authentication failed: password is incorrect, or there is no user with such name.",
            )
        if not self._password and from_a_page(headers):
            raise ClickHouseError(AUTHENTICATION_FAILED, "Requests from a web page need a password on the engine")


def credentials(given: Mapping[str, str], headers: Mapping[str, str]) -> tuple[str, str]:
    """User and password of a request: X-ClickHouse-User and -Key, else Basic authorization, else the URL's."""
    if "X-ClickHouse-User" in headers or "X-ClickHouse-Key" in headers:
        return headers.get("X-ClickHouse-User", "default"), headers.get("X-ClickHouse-Key", "")
    scheme, _, encoded = headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "basic":
        try:
            user, _, password = base64.b64decode(encoded, validate=True).decode("utf-8", "replace").partition(":")
        except binascii.Error:
            raise ClickHouseError(AUTHENTICATION_FAILED, "Basic authorization is no base64") from None
        return user or "default", password
    if scheme:
        raise ClickHouseError(AUTHENTICATION_FAILED, f"{scheme} authorization is not supported: use Basic")
    return given.get("user", "default"), given.get("password", "")


def from_a_page(headers: Mapping[str, str]) -> bool:
    """Whether a browser sends this for a page of another site, or for a name that was made to point at this machine.

    >>> from_a_page({"Host": "127.0.0.1:8123"}), from_a_page({"Host": "evil.example"})
    (False, True)
    """
    names = [urlsplit(f"//{headers.get('Host', '127.0.0.1')}").hostname]
    if "Origin" in headers:
        names.append(urlsplit(headers["Origin"]).hostname)
    foreign = any(name not in LOOPBACK for name in names)
    return foreign or headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin")


def _same(given: str, right: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), right.encode("utf-8", "surrogateescape"))
