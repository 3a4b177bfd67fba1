"""What every form of recorded GPU readings becomes: one node at one moment, with what happened on it."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from collectors.base import event
from collectors.kernel.xid import parse as parse_xid
from lockstep.analyze.recording import CLUSTER, Input
from schemas import Event, NodeFrame

NONSENSE = ("out_of_range", "unreadable")
"""Values that are counted as skipped; what a GPU does not have is no nonsense."""


class Sample(NamedTuple):
    """One node at one moment, and the events that its readings tell."""

    ts_ms: int
    frame: NodeFrame
    events: list[Event]


def sample(input_: Input, frame: NodeFrame, drafts: Iterable[Event]) -> Sample:
    """The sample of a frame, counted in its file; drafts get the frame's place and time."""
    input_.records += len(frame.gpus)
    for reason in NONSENSE:
        for _ in range(frame.missing.get(reason, 0)):
            input_.skip(reason)
    place: Mapping[str, Any] = {"cluster": CLUSTER, "node": frame.node, "ts_ms": frame.ts_ms, "run_id": frame.run_id}
    events = [msgspec.structs.replace(d, **place, seq=frame.seq * 1000 + n) for n, d in enumerate(drafts)]
    return Sample(frame.ts_ms, frame, events)


def last_xid(code: int, gpu: str) -> Event:
    """The XID that a gauge holds: it happened, but it is not told when."""
    known = parse_xid(f"NVRM: Xid (PCI:0000:00:00): {code}")
    text = f"XID {code} is the last one of this GPU; when it was is not recorded"
    return event("xid", severity=known.severity if known else "warning", code=code, gpu=gpu, text=text)


def listed(samples: Iterable[Sample]) -> Iterator[dict[str, Any]]:
    """Plain values for `--events`."""
    for ts_ms, frame, events in samples:
        matrix = frame.sections["gpu"]
        for gpu, row in zip(matrix.rows, matrix.values().tolist(), strict=True):
            values = {name: value for name, value in zip(matrix.columns, row, strict=True) if value == value}
            yield {"event": "gpu", "ts_ms": ts_ms, "node": frame.node, "gpu": gpu, **values}
        for happened in events:
            told = {"code": happened.code, "gpu": happened.gpu, "severity": happened.severity}
            yield {"event": happened.kind, "ts_ms": ts_ms, "node": frame.node, **told, "detail": happened.text}
