"""What the management controllers of a rack say of its cooling and power, through Redfish.

The agent with the rack role polls its list of controllers (`redfish_targets`), each in a task of its own in one thread,
so that a controller which answers late, wrongly or never costs the others, and the agent's tick, nothing. A frame holds
what was read since the last one; the time is the agent's (controllers' clocks are often wrong).
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from collectors.base import UNSTAMPED, NoData, Reading, add_missing, event
from collectors.cooling.redfish_http import Client
from collectors.cooling.redfish_poll import Found, Getter, Poller, Word
from collectors.cooling.redfish_targets import Target
from collectors.rates import Value
from collectors.table import table
from schemas.event import Event
from schemas.frame import RackFrame
from schemas.matrix import Matrix
from schemas.metrics import Section, names
from schemas.record import NodeRecord

logger = logging.getLogger(__name__)

MOST_WAITING = 100_000
"""Results that wait for the agent's next tick; the oldest go. A rack's controllers give some thousands a poll."""

CLOSE_S = 5.0


class Board:
    """What pollers have found and the agent has not fetched yet. Safe between threads."""

    def __init__(self) -> None:
        self._items: deque[Found | Word] = deque(maxlen=MOST_WAITING)

    def put(self, item: Found | Word) -> None:
        self._items.append(item)

    def take(self) -> list[Found | Word]:
        """Everything so far, the oldest first."""
        taken = []
        with suppress(IndexError):
            while True:
                taken.append(self._items.popleft())
        return taken


class RedfishCollector:
    """Drafts a RackFrame for every rack of which something was read, and an event where a controller's trouble begins,
    changes or ends. `connect` makes the client of a target (tests give others)."""

    name = "redfish"
    interval_s = 1.0

    def __init__(
        self,
        targets: Sequence[Target],
        interval_s: float,
        connect: Callable[[Target], Getter] | None = None,
    ) -> None:
        self._targets, self._poll_s = tuple(targets), interval_s
        self._connect = connect or client_of
        self._board = Board()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._ready = threading.Event()

    def collect(self, tick_ms: int) -> Reading:
        """What has come since the last tick; never waits. NoData before anything came."""
        if self._thread is None or not self._thread.is_alive():
            self._start()
        items = self._board.take()
        if not items:
            raise NoData("no controller has answered yet")
        drafts: list[NodeRecord] = []
        for word in (item for item in items if isinstance(item, Word)):
            drafts.append(told := said(word))
            logger.log(logging.WARNING if word.code else logging.INFO, "collector=redfish: %s", told.text)
        found = [item for item in items if isinstance(item, Found)]
        drafts += frames(found)
        return Reading(drafts=tuple(drafts))

    def close(self) -> None:
        """End the polls and their sessions on the controllers."""
        if self._thread is None or self._loop is None:
            return
        with suppress(RuntimeError):  # the loop is over already
            self._loop.call_soon_threadsafe(lambda: [task.cancel() for task in self._tasks])
        self._thread.join(CLOSE_S)

    def _start(self) -> None:
        self._ready.clear()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._poll()), name="redfish", daemon=True)
        self._thread.start()
        self._ready.wait(CLOSE_S)

    async def _poll(self) -> None:
        pollers = [Poller(t, self._connect(t), self._board.put, self._poll_s) for t in self._targets]
        self._loop = asyncio.get_running_loop()
        self._tasks = [self._loop.create_task(poller.run()) for poller in pollers]
        self._ready.set()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def client_of(target: Target) -> Client:
    """The client of a real controller."""
    return Client(target.url, target.login, target.context, target.fingerprint, target.timeout_s)


def said(word: Word) -> Event:
    """The event of a change in a controller's trouble."""
    target = word.target
    detail = {"collector": "redfish", "bmc": target.name, "rack": target.rack, "code": word.code}
    if not word.code:
        return event("collector_recovered", text=f"controller {target.name} answers again", detail=detail)
    text = f"controller {target.name}: {word.text}"
    return event("collector_failed", severity="warning", text=text, detail=detail)


def frames(found: Iterable[Found]) -> list[RackFrame]:
    """One unstamped frame for each rack."""
    racks: dict[str, list[Found]] = {}
    for item in found:
        racks.setdefault(item.target.rack, []).append(item)
    return [_frame(rack, items) for rack, items in racks.items()]


def _frame(rack: str, items: list[Found]) -> RackFrame:
    rows: dict[Section, dict[str, dict[str, Value]]] = {}
    for item in items:
        for row in item.rows:
            name = item.target.name if row.section == "bmc" else item.target.prefix + row.name
            known = rows.setdefault(row.section, {}).setdefault(name, {})
            for column, value in row.values.items():
                # One condition is shown in several places: the first number holds.
                if isinstance(known.get(column, ""), str):
                    known[column] = value
    sections: dict[str, Matrix] = {}
    missing = [item.failed for item in items]
    for section, by_name in rows.items():
        used = {column for values in by_name.values() for column in values}
        columns = tuple(name for name in names(section) if name in used)
        filled = [{column: values.get(column, float("nan")) for column in columns} for values in by_name.values()]
        sections[section], lost = table(section, tuple(by_name), columns, filled)
        missing.append(lost)
    return RackFrame(**UNSTAMPED, ts_ms=0, rack=rack, sections=sections, missing=add_missing(missing))
