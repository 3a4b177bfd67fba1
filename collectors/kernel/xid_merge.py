"""XIDs from the kernel log and from the driver's library, each once.

The kernel's line says more and has an identity of its own, so it goes out at once; what the library tells waits for a
moment for its line. One of the library's cancels one line of the same GPU and code: the same code twice stays two
events, and a line that the kernel left out (its rate limit) is told by the library.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from collectors.base import Collector, CollectorError, NoData, Reading
from runtime.clock import Clock
from schemas.event import Event

WINDOW_S = 2.5
"""Both sources are read once a second, so that the two words on one XID are at most two readings apart."""

Key = tuple[str, int | None]


class XidMerge:
    """Decides which of the library's XIDs are new. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._lines: list[tuple[Key, float]] = []
        self._floods: dict[Key, float] = {}
        self._held: list[tuple[Event, float]] = []

    def merge(self, lines: Sequence[Event], told: Sequence[Event], now_s: float) -> list[Event]:
        """The kernel's events of this tick, and those of the library's that have no line."""
        self._lines = [(key, at) for key, at in self._lines if now_s - at <= WINDOW_S]
        self._floods = {key: at for key, at in self._floods.items() if now_s - at <= WINDOW_S}
        for line in lines:
            if line.kind in ("xid", "gpu_lost") and "historic" not in line.detail:
                self._lines.append((_key(line), now_s))
                if "folded" in line.detail:
                    self._floods[_key(line)] = now_s
        self._held += [(event, now_s) for event in told]
        waiting: list[tuple[Event, float]] = []
        alone: list[Event] = []
        for event, since_s in self._held:
            key = _key(event)
            match = next((i for i, (line, _) in enumerate(self._lines) if line == key), None)
            if match is not None:
                del self._lines[match]
            elif key in self._floods:
                continue
            elif now_s - since_s >= WINDOW_S:
                alone.append(event)
            else:
                waiting.append((event, since_s))
        self._held = waiting
        return [*lines, *alone]


def _key(event: Event) -> Key:
    """PCI address without its function, and code; a fall without an XID counts as 79."""
    return event.pci.rpartition(".")[0], event.code


class MergedCollector:
    """The kernel log's collector together with the library's XIDs."""

    interval_s = 1.0

    def __init__(self, kernel: Collector, library: Collector, clock: Clock) -> None:
        self._kernel, self._library, self._clock = kernel, library, clock
        self._merge = XidMerge()

    @property
    def name(self) -> str:
        return self._kernel.name

    def collect(self, tick_ms: int) -> Reading:
        """Events of both. What stops the kernel log is raised with the library's events still in it; what stops the
        library is the GPU collector's to say."""
        trouble: CollectorError | None = None
        try:
            reading = self._kernel.collect(tick_ms)
        except NoData:
            reading = Reading()
        except CollectorError as error:
            reading, trouble = error.partial or Reading(), error
        told: tuple[Event, ...] = ()
        try:
            drafts = self._library.collect(tick_ms).drafts
            told = tuple(draft for draft in drafts if isinstance(draft, Event))
        except (NoData, CollectorError):
            pass
        # An XID of the library belongs to the tick in which it was told.
        told = tuple(replace(event, ts_ms=event.ts_ms or tick_ms) for event in told)
        lines = [draft for draft in reading.drafts if isinstance(draft, Event)]
        merged = replace(reading, drafts=tuple(self._merge.merge(lines, told, self._clock.monotonic())))
        if trouble is not None:
            raise CollectorError(trouble.code, trouble.text, trouble.kind, merged, trouble.restart)
        return merged
