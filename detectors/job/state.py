"""What a job's detector saves and continues from: learning in pieces, decisions whole."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

from detectors.episode import Episode
from detectors.job.arrival import StreamArrival
from detectors.job.groups import Stream
from detectors.job.past import Past
from detectors.job.shift import ShiftWatch
from detectors.job.stalls import StallWatch
from detectors.job.steps import StepDetector
from detectors.state import StateError, unpack
from schemas.collective import Function

PIECE_BYTES = 256 * 1024
"""Half of what a state value may weigh."""


class _Stream(msgspec.Struct, array_like=True):
    communicator: str
    function: Function
    size: int
    block: bool
    lateness: dict[str, Any]
    transfer: dict[str, Any]


class _Base(msgspec.Struct, kw_only=True):
    version: Literal[1] = 1
    steps: dict[str, dict[str, Any]]
    shift: dict[str, dict[str, Any]]
    seen: int
    pending: tuple[Episode, ...]
    pieces: int
    stalls: dict[str, Any] | None = None


class _Piece(msgspec.Struct, kw_only=True):
    version: Literal[1] = 1
    streams: list[_Stream]


class _Decisions(msgspec.Struct, kw_only=True):
    version: Literal[1] = 1
    episodes: tuple[Episode, ...]
    newest: list[tuple[str, str, int, int]]


class JobLearning(msgspec.Struct):
    """The pasts of all streams and of the steps, and windows that have not opened a verdict."""

    streams: list[_Stream]
    steps: dict[str, dict[str, Any]]
    shift: dict[str, dict[str, Any]]
    seen: int
    pending: tuple[Episode, ...]
    stalls: dict[str, Any] | None = None

    @classmethod
    def of(
        cls, streams: Mapping[Stream, StreamArrival], steps: StepDetector, pending: Iterable[Episode]
    ) -> "JobLearning":
        """What the parts know now."""
        return cls(
            [_Stream(*stream, a.lateness.state(), a.transfer.state()) for stream, a in streams.items()],
            {name: getattr(steps, name).state() for name in StepDetector.PASTS},
            {name: getattr(steps.shift, name).state() for name in ShiftWatch.PASTS},
            steps.shift.seen,
            tuple(pending),
            steps.stalls.state(),
        )

    def pieces(self) -> dict[str, bytes]:
        """Key "" and numbered ones, each under PIECE_BYTES (a single stream of 2^14 ranks is the largest part)."""
        out: dict[str, bytes] = {}
        held: list[_Stream] = []
        weight = 0
        for stream in self.streams:
            size = 4 * len(stream.lateness["c"]) + 200
            if held and weight + size > PIECE_BYTES:
                out[f"streams/{len(out)}"] = msgspec.msgpack.encode(_Piece(streams=held))
                held, weight = [], 0
            held.append(stream)
            weight += size
        if held:
            out[f"streams/{len(out)}"] = msgspec.msgpack.encode(_Piece(streams=held))
        base = _Base(
            steps=self.steps,
            shift=self.shift,
            seen=self.seen,
            pending=self.pending,
            pieces=len(out),
            stalls=self.stalls,
        )
        out[""] = msgspec.msgpack.encode(base)
        return out

    @classmethod
    def read(cls, pieces: Mapping[str, bytes]) -> "JobLearning":
        """From saved pieces; none at all is an empty learning, a missing numbered one only what it held."""
        if "" not in pieces:
            return cls([], {}, {}, 0, ())
        base = unpack(pieces[""], _Base)
        keys = [f"streams/{i}" for i in range(base.pieces)]
        streams = [s for key in keys if key in pieces for s in unpack(pieces[key], _Piece).streams]
        return cls(streams, base.steps, base.shift, base.seen, base.pending, base.stalls)

    def restore(self, streams: dict[Stream, StreamArrival], steps: StepDetector) -> None:
        """Put the pasts back; raises StateError where they make no sense."""
        try:
            for s in self.streams:
                lateness = Past.of(s.lateness)
                arrival = StreamArrival(lateness.size)
                arrival.lateness, arrival.transfer = lateness, Past.of(s.transfer)
                streams[Stream(s.communicator, s.function, s.size, s.block)] = arrival
            for name, state in self.steps.items():
                setattr(steps, name, Past.of(state))
            for name, state in self.shift.items():
                setattr(steps.shift, name, Past.of(state))
            steps.shift.seen = self.seen
            if self.stalls is not None:
                steps.stalls = StallWatch.of(self.stalls)
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(f"a job's learning that cannot be continued: {error!r}") from None


def encode_decisions(episodes: tuple[Episode, ...], newest: Mapping[tuple[str, str], tuple[int, int]]) -> bytes:
    """Open and lately closed verdicts, and the newest frame of every node, so that a repeat says nothing."""
    rows = [(topic, node, run_id, seq) for (topic, node), (run_id, seq) in newest.items()]
    return msgspec.msgpack.encode(_Decisions(episodes=episodes, newest=rows))


def decode_decisions(data: bytes | None) -> tuple[tuple[Episode, ...], dict[tuple[str, str], tuple[int, int]]]:
    """What `encode_decisions` wrote; nothing for None."""
    if data is None:
        return (), {}
    saved = unpack(data, _Decisions)
    return saved.episodes, {(topic, node): (run_id, seq) for topic, node, run_id, seq in saved.newest}
