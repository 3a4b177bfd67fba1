"""streams.rack: what the cooling and power of a rack measured becomes findings."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from schemas import Finding, RackFrame, Record
from streams.acknowledge import Token
from streams.keyed import Detector, Detectors
from streams.lane import Key, Step
from streams.partition import Surroundings
from streams.state import Saved, States

TOPICS = ("rack-frames",)


class Verdict(Protocol):
    """What a rack's detector says of one frame."""

    @property
    def findings(self) -> tuple[Finding, ...]: ...


class Rack(Detector, Protocol):
    """The detector of one rack."""

    def update(self, frame: RackFrame, /) -> Verdict: ...


class RackPartition:
    """Every rack has a detector, for good: racks are few."""

    def __init__(
        self, number: int, saved: Mapping[Key, Saved], around: Surroundings, make: Callable[[Key], Rack]
    ) -> None:
        self._around = around
        self._racks = Detectors(make, saved, States(saved, around.checkpoint_ms), around.counters)

    def restored(self) -> Step:
        return Step(findings=self._racks.again)

    def take(self, record: Record, token: Token, lag_s: float) -> Sequence[Step]:
        if not isinstance(record, RackFrame):
            return (Step((token,)),)
        key = Key(record.cluster, record.rack)
        try:
            findings = self._racks.of(key, record.ts_ms).update(record).findings
            writes = self._racks.writes(key, record.ts_ms, bool(findings))
        except Exception as error:
            letter = self._around.letter(token, record, "detector_failed", repr(error))
            return (Step((token,), (letter,), self._racks.failed(key, error), (), (key,)),)
        return (Step((token,), (), writes, findings, (key,) if findings else ()),)

    def tick(self) -> Sequence[Step]:
        return ()

    def ahead(self) -> Collection[str]:
        return ()

    def close(self) -> None: ...
