"""The detectors of one partition, one per key: made or restored, checkpointed, and reset when they fail."""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, Protocol, TypeVar

from runtime.health import Counters
from runtime.log import Repeats
from schemas import Finding
from streams.lane import Key, Write
from streams.state import Saved, States

log = logging.getLogger(__name__)


class Detector(Protocol):
    """What is kept of a detector. `learning` is one piece or several by name; `restore` may repeat last words."""

    def learning(self) -> Any: ...
    def decisions(self) -> bytes: ...
    def restore(self, learning: Any, decisions: bytes | None) -> Iterable[Finding] | None: ...


D = TypeVar("D", bound=Detector)


class Detectors(Generic[D]):
    """Detectors by key. `make` makes one that knows nothing; `pieces` says that its learning has several.

    `again` holds the last words of restored detectors, to be sent once more: one that a kill kept from leaving
    arrives by this, the others are repeats with the same identity.
    """

    def __init__(
        self,
        make: Callable[[Key], D],
        saved: Mapping[Key, Saved],
        states: States,
        counters: Counters,
        *,
        pieces: bool = False,
    ) -> None:
        self._make, self._states, self._counters, self._pieces = make, states, counters, pieces
        self._detectors: dict[Key, D] = {}
        self._seen_ms: dict[Key, int] = {}
        self._repeats = Repeats()
        self.again: list[Finding] = []
        for key, one in saved.items():
            self._restore(key, one)

    def of(self, key: Key, ts_ms: int) -> D:
        """The key's detector, made where there is none; `ts_ms` says when it was last needed."""
        self._seen_ms[key] = ts_ms
        detector = self._detectors.get(key)
        if detector is None:
            detector = self._detectors[key] = self._make(key)
        return detector

    def writes(self, key: Key, ts_ms: int, decided: bool) -> tuple[Write, ...]:
        """What must be stored after an update: decisions where something was decided, all where it is time."""
        detector, due = self._detectors[key], self._states.due(key, ts_ms)
        writes: tuple[Write, ...] = ()
        if decided or due:
            writes = self._states.write(key, "decisions", {"": detector.decisions()}, ts_ms)
        if due:
            learning = detector.learning()
            writes += self._states.write(key, "learning", learning if self._pieces else {"": learning}, ts_ms)
        return writes

    def failed(self, key: Key, error: Exception) -> tuple[Write, ...]:
        """Forget a key whose detector raised; the others go on."""
        self._counters.add("errors", 1, "detector_failed")
        self._repeats.log(log, logging.ERROR, "failed", f"detector of {key.name} reset: {_where(error)}")
        return self._forget(key)

    def forget_before(self, ts_ms: int) -> tuple[Write, ...]:
        """Forget the keys not needed since `ts_ms`."""
        gone = [key for key, seen_ms in self._seen_ms.items() if seen_ms < ts_ms]
        return tuple(write for key in gone for write in self._forget(key))

    def __len__(self) -> int:
        return len(self._detectors)

    def _forget(self, key: Key) -> tuple[Write, ...]:
        self._detectors.pop(key, None)
        self._seen_ms.pop(key, None)
        return self._states.forget(key)

    def _restore(self, key: Key, saved: Saved) -> None:
        detector = self._make(key)
        learning: Any = saved.of("learning") if self._pieces else saved.of("learning").get("")
        try:
            self.again.extend(detector.restore(learning, saved.of("decisions").get("")) or ())
        except Exception as error:
            self._counters.add("errors", 1, "state_unreadable")
            log.error("the state of %s cannot be read, it starts from nothing: %s", key.name, _where(error))
            return
        self._detectors[key] = detector
        self._seen_ms[key] = saved.ts_ms


def _where(error: Exception) -> str:
    """The error and the innermost line it came from."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f" ({trace.tb_frame.f_code.co_filename.rsplit('/', 1)[-1]}:{trace.tb_lineno})" if trace else ""
    return f"{type(error).__name__}: {error}{place}"
