"""A detector of a node or rack, and beside it the watch of its slow trends, as one: what a worker keeps for a key.

They share the key, the records and the saved state, and nothing else: what is open of a drift neither freezes baselines
nor explains an alarm.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Generic, Literal, Protocol, TypeVar

import msgspec

from detectors.drift.gpu import GpuDrift
from detectors.drift.rack import RackDrift
from detectors.node.detector import NodeDetector
from detectors.rack.detector import RackDetector
from detectors.state import StateError, unpack
from schemas.event import Event
from schemas.finding import Finding

D = TypeVar("D", bound="Detector")
T = TypeVar("T", bound="Detector")


class Detector(Protocol):
    """What a worker keeps for a key. The first of two gives verdicts with `findings`, the second gives findings."""

    def update(self, frame: Any, /) -> Any: ...
    def learning(self) -> bytes: ...
    def decisions(self) -> bytes: ...
    def restore(self, learning: bytes | None, decisions: bytes | None) -> Iterable[Finding]: ...


class _Saved(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    version: Literal[1] = 1
    own: bytes
    drift: bytes


class WithDrift(Generic[D, T]):
    """The two together; called as `own` alone would be."""

    def __init__(self, own: D, drift: T) -> None:
        self.own, self.drift = own, drift

    def update(self, frame: Any) -> Any:
        verdict = self.own.update(frame)
        said = self.drift.update(frame)
        return msgspec.structs.replace(verdict, findings=(*verdict.findings, *said)) if said else verdict

    def learning(self) -> bytes:
        return msgspec.msgpack.encode(_Saved(own=self.own.learning(), drift=self.drift.learning()))

    def decisions(self) -> bytes:
        return msgspec.msgpack.encode(_Saved(own=self.own.decisions(), drift=self.drift.decisions()))

    def restore(self, learning: bytes | None, decisions: bytes | None) -> tuple[Finding, ...]:
        """What was saved before there were trends is `own`'s alone. Raises StateError where `own` cannot continue.
        Trends that cannot begin anew: a page that is open is worth more than they are."""
        learned, decided = _parts(learning), _parts(decisions)
        again = tuple(self.own.restore(learned[0], decided[0]))
        with suppress(StateError):
            return (*again, *self.drift.restore(learned[1], decided[1]))
        return again


class NodeWithDrift(WithDrift[NodeDetector, GpuDrift]):
    """A node and its GPUs' trends."""

    def note(self, event: Event) -> tuple[Finding, ...]:
        self.drift.note(event)
        return self.own.note(event)


class RackWithDrift(WithDrift[RackDetector, RackDrift]):
    """A rack and its cooling's trends."""


def _parts(saved: bytes | None) -> tuple[bytes | None, bytes | None]:
    if saved is None:
        return None, None
    try:
        both = unpack(saved, _Saved)
    except StateError:
        return saved, None
    return both.own, both.drift
