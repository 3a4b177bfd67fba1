"""One controller, polled for ever: find what it has, read it, say once what is wrong, come back by itself."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

from collectors.cooling.redfish_http import RedfishError
from collectors.cooling.redfish_parse import kind_of, parse
from collectors.cooling.redfish_row import Row
from collectors.cooling.redfish_targets import Target
from collectors.cooling.redfish_tree import MOST_RESOURCES, ROOT, look
from collectors.cooling.redfish_values import get
from schemas.metrics import Section

DISCOVER_S = 1800.0
"""From one look at the whole tree to the next: parts are replaced by people."""

STRIKES = 3
"""Requests in a row that fail before the controller itself is given up for this poll."""

AT_ONCE = frozenset(("unreachable", "unauthorized", "tls", "redirects"))
"""What is wrong with every request alike."""

ITS_OWN = frozenset(("not_found", "forbidden"))
"""What is wrong with one resource only."""

LONGEST_PAUSE_S = 60.0
LOCKED_OUT_S = 300.0
"""After a refused password: most controllers lock a user out after a few of them, for minutes."""

LEAST_PAUSE_S = 1.0
"""A controller that needs longer than the interval for a poll is left alone for this long, or the interval."""

CLOSE_S = 2.0

EXPAND_FROM = 3
"""Members from which one expanded request is worth trying."""

ORDER: dict[Section, int] = {"leak": 0, "loop": 1, "cdu": 2, "fan": 3, "shelf": 4}
"""Leaks are read first."""

SENSORS = 9
"""What has only sensors: a baseboard has hundreds of them, each a request."""

SENSORS_S = 60.0
"""From reading to reading of those; NVIDIA's infra-controller takes the same."""


class Getter(Protocol):
    """What a poller needs of a client."""

    async def get(self, uri: str) -> Any: ...
    async def close(self) -> None: ...


class Found(NamedTuple):
    """What was read from one controller just now; `failed` counts resources that did not answer, by code."""

    target: Target
    rows: tuple[Row, ...] = ()
    failed: dict[str, int] = {}


class Word(NamedTuple):
    """The controller's trouble has changed: `code` "" is the end of it."""

    target: Target
    code: str
    text: str


Publish = Callable[[Found | Word], None]


class Poller:
    """Polls `target` through `client` every `interval_s` and hands what it finds to `publish`."""

    def __init__(
        self,
        target: Target,
        client: Getter,
        publish: Publish,
        interval_s: float,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._target, self._client, self._publish = target, client, publish
        self._interval_s, self._sleep = interval_s, sleep
        self._plan: dict[str, int] = {}
        self._plan_until = self._sensors_at = float("-inf")
        self._expand = False
        self._strikes = self._fails = 0
        self._trouble = ""

    async def run(self) -> None:
        """Until cancelled; the session is then ended."""
        try:
            while True:
                await self._sleep(await self.cycle())
        finally:
            with suppress(TimeoutError, RedfishError):
                async with asyncio.timeout(CLOSE_S):
                    await self._client.close()

    async def cycle(self) -> float:
        """One poll; returns the seconds until the next."""
        now = asyncio.get_running_loop().time
        begun_s, self._strikes = now(), 0
        try:
            if begun_s >= self._plan_until:
                await self._discover()
                self._plan_until, self._sensors_at = begun_s + DISCOVER_S, begun_s + SENSORS_S
            else:
                sensors_too = begun_s >= self._sensors_at
                await self._read(sensors_too)
                if sensors_too:
                    self._sensors_at = begun_s + SENSORS_S
        except RedfishError as error:
            return self._failed(error.code, str(error), now() - begun_s)
        except Exception as error:  # whatever a controller sends, the others are polled on
            return self._failed("crashed", f"{type(error).__name__}: {error}", now() - begun_s)
        self._fails = 0
        took_s = now() - begun_s
        self._found([Row("bmc", "", {"answers": 1.0, "poll_s": took_s}, "")])
        self._say("", "answers again")
        return max(min(LEAST_PAUSE_S, self._interval_s), self._interval_s - took_s)

    async def _discover(self) -> None:
        """Walk the tree from its root; what is read on the way counts as a reading."""
        root = await self._client.get(ROOT)
        features = get(get(root, "ProtocolFeaturesSupported"), "ExpandQuery")
        self._expand = get(features, "NoLinks") is True or get(features, "Levels") is True
        seen, plan = {ROOT, ROOT.rstrip("/")}, dict[str, int]()
        queue = deque((uri, False) for uri in look(root, ROOT).follow)
        while queue and len(seen) < MOST_RESOURCES:
            uri, attempted = queue.popleft()
            if uri.rstrip("/") in seen:
                continue
            seen.add(uri.rstrip("/"))
            document = await self._fetch(uri)
            if document is None:
                continue
            uri, document = await self._expanded(uri, document)
            here = look(document, uri)
            # Depth first: what hangs together is read together, leak detectors among the first.
            queue.extendleft((u, False) for u in reversed(here.follow))
            if not attempted:
                queue.extend((u, True) for u in here.attempt)
            if here.readings:
                rows = parse(document, uri)
                plan[uri] = min((ORDER.get(row.section, SENSORS) for row in rows), default=SENSORS)
                self._found(rows)
        self._plan = dict(sorted(plan.items(), key=lambda item: item[1]))

    async def _expanded(self, uri: str, document: Any) -> tuple[str, Any]:
        """A collection with its members in one request, where the controller can do that."""
        members = get(document, "Members")
        if not self._expand or not isinstance(members, list) or len(members) < EXPAND_FROM:
            return uri, document
        if kind_of(document) != "Collection" or look(document, uri).readings:
            return uri, document
        whole_uri = f"{uri}?$expand=.($levels=1)"
        try:
            whole = await self._client.get(whole_uri)
        except RedfishError:
            self._expand = False
            return uri, document
        return (whole_uri, whole) if look(whole, uri).readings else (uri, document)

    async def _read(self, sensors_too: bool) -> None:
        for uri, order in list(self._plan.items()):
            if order == SENSORS and not sensors_too:
                continue
            document = await self._fetch(uri)
            if document is not None:
                self._found(parse(document, uri))

    async def _fetch(self, uri: str) -> Any:
        """The document, or None where this one did not come. Raises where the controller as a whole does not answer."""
        try:
            document = await self._client.get(uri)
        except RedfishError as error:
            if error.code not in ITS_OWN:
                self._strikes += 1
                if error.code in AT_ONCE or self._strikes >= STRIKES:
                    raise
            if uri in self._plan:
                self._publish(Found(self._target, failed={error.code: 1}))
            return None
        self._strikes = 0
        return document

    def _found(self, rows: list[Row]) -> None:
        if rows:
            self._publish(Found(self._target, tuple(rows)))

    def _failed(self, code: str, text: str, took_s: float) -> float:
        self._fails += 1
        self._found([Row("bmc", "", {"answers": 0.0, "poll_s": took_s}, "")])
        self._say(code, text)
        if code == "unauthorized":
            return LOCKED_OUT_S
        return float(min(self._interval_s * 2 ** min(self._fails - 1, 10), max(LONGEST_PAUSE_S, self._interval_s)))

    def _say(self, code: str, text: str) -> None:
        if code != self._trouble:
            self._trouble = code
            self._publish(Word(self._target, code, text))
