"""The list of controllers that an agent with the rack role polls: a TOML file, credentials apart from it."""

import ssl
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from collectors.cooling.redfish_http import Login
from runtime.errors import UserError
from runtime.settings import Positive
from schemas.record import Name


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One [[bmc]] of the file. What is not given is taken from the top of the file."""

    name: Annotated[str, Meta(min_length=1, max_length=100, pattern=r"^[^/:\s]+$")]
    url: Annotated[str, Meta(pattern=r"^https?://[^/\s@]+/?$")]
    node: str = ""
    rack: str | None = None
    user: str | None = None
    password_file: str | None = None
    password_env: str | None = None
    basic: bool | None = None
    ca: str | None = None
    fingerprint: Annotated[str, Meta(pattern=r"^(sha256:)?([0-9A-Fa-f]{2}:?){32}$")] = ""
    insecure: bool | None = None
    timeout_s: Positive | None = None


class Listing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file: what holds for all controllers, and the controllers."""

    bmc: Annotated[list[Entry], Meta(min_length=1)]
    rack: str = ""
    user: str = ""
    password_file: str = ""
    password_env: str = ""
    basic: bool = False
    ca: str = ""
    insecure: bool = False
    timeout_s: Positive = 5.0


class Target(NamedTuple):
    """One controller, ready to be asked. `login` shows no password when printed."""

    name: str
    url: str
    node: str
    rack: Name
    login: Login | None
    context: ssl.SSLContext | None
    fingerprint: str
    timeout_s: float

    @property
    def prefix(self) -> str:
        """Before the names of its rows: a node's controller speaks of that node, another one of itself."""
        return f"{self.node}/" if self.node else f"{self.name}:"


def load(path: Path, rack: str, environment: Mapping[str, str]) -> list[Target]:
    """The controllers in the file at `path`; `rack` is the agent's own, for those that name none.

    Raises UserError with file, entry and what to do where something cannot be used. No password is in any text.
    """
    try:
        listing = msgspec.convert(tomllib.loads(path.read_text("utf-8")), Listing)
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read ({error}); give the list of controllers by --bmc-targets") from None
    except RecursionError:
        raise UserError(f"{path}: nested too deep for a list of controllers") from None
    except ValueError as error:  # no TOML, another schema, a date or number that cannot be
        raise UserError(f"{path}: {error}") from None
    names = [entry.name for entry in listing.bmc]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UserError(f"{path}: two controllers are named {twice!r}; give each a name of its own")
    return [_target(path, entry, listing, rack, environment) for entry in listing.bmc]


def _target(path: Path, entry: Entry, listing: Listing, rack: str, environment: Mapping[str, str]) -> Target:
    def given(name: str) -> Any:
        own = getattr(entry, name)
        return getattr(listing, name) if own is None else own

    where = f"{path}: bmc {entry.name!r}"
    of_rack = given("rack") or rack
    if not of_rack:
        raise UserError(f"{where} has no rack; give rack = in the file, or --rack to the agent")
    login = _login(where, given, environment)
    if entry.url.startswith("http://") and login is not None and not given("insecure"):
        raise UserError(f"{where}: a password over plain http; use https, or say insecure = true")
    return Target(
        name=entry.name,
        url=entry.url.rstrip("/"),
        node=entry.node,
        rack=of_rack,
        login=login,
        context=_context(where, entry, given) if entry.url.startswith("https://") else None,
        fingerprint=entry.fingerprint if entry.url.startswith("https://") else "",
        timeout_s=given("timeout_s"),
    )


def _login(where: str, given: Any, environment: Mapping[str, str]) -> Login | None:
    user, file, variable = given("user"), given("password_file"), given("password_env")
    if not user:
        return None
    if variable:
        if variable not in environment:
            raise UserError(f"{where}: no variable {variable} in the environment; it holds the password")
        return Login(user, environment[variable], given("basic"))
    if not file:
        raise UserError(f"{where}: user without password; give password_file or password_env")
    try:
        return Login(user, Path(file).read_text("utf-8").rstrip("\r\n"), given("basic"))
    except (OSError, UnicodeDecodeError):
        raise UserError(f"{where}: password file {file} cannot be read") from None


def _context(where: str, entry: Entry, given: Any) -> ssl.SSLContext:
    """A pinned certificate needs no authority; "insecure" takes any."""
    ca = given("ca")
    try:
        context = ssl.create_default_context(cafile=ca or None)
    except (OSError, ssl.SSLError):
        raise UserError(f"{where}: {ca} is no file of certificates") from None
    if given("insecure") or entry.fingerprint:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context
