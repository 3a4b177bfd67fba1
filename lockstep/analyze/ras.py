"""RAS snapshots: files of one or several answers, put in the order of their times."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from collectors.nccl.ras import MOST_BYTES, BadRas, parse
from detectors.hang.ras import FROZEN_MS, RasDetector, Snapshot
from lockstep.analyze.files import DAMAGED, open_bytes
from lockstep.analyze.judge import CLUSTER
from lockstep.analyze.recording import Input
from runtime.errors import UserError
from schemas.finding import Finding

APART_MS = 15_000
"""Snapshots without a time are numbered by this: it is how often they should be taken."""


class Story(NamedTuple):
    """What the snapshots of one folder say: findings by moment, whether the moments are real ones, and notes."""

    ticks: list[tuple[int, list[Finding]]]
    timed: bool
    notes: list[str]


def load(input_: Input) -> list[Snapshot]:
    """The snapshots of one file, as far as it can be read."""
    try:
        found = parse(_read(input_.path))
    except BadRas as error:
        input_.skip("broken")
        input_.notes.append(str(error))
        return []
    input_.records = len(found.snapshots) or len(found.notes)
    input_.notes += found.notes[:20]
    return found.snapshots


def decoded(input_: Input) -> Iterator[dict[str, Any]]:
    """Every snapshot's communicators, one record each. Raises UserError where the file is no answer of RAS."""
    try:
        found = parse(_read(input_.path))
    except BadRas as error:
        raise UserError(f"{input_.path}: {error}") from None
    for number, snapshot in enumerate(found.snapshots):
        head = {"snapshot": number, "ts": snapshot.ts_ms}
        for communicator in snapshot.communicators:
            yield {"event": "communicator", **head, **msgspec.to_builtins(communicator)}
        for (host, pid), words in snapshot.lost:
            yield {"event": "peer_dead", **head, "host": host, "pid": pid, "text": words}


def judge(snapshots: dict[Path, list[Snapshot]]) -> Story:
    """All snapshots of one place in time order; those without a time by the numbers in their files' names."""
    flat = [(s, path, n) for path, some in snapshots.items() for n, s in enumerate(some)]
    stamped = sorted((x for x in flat if x[0].ts_ms is not None), key=lambda x: (x[0].ts_ms, _natural(x[1]), x[2]))
    bare = sorted((x for x in flat if x[0].ts_ms is None), key=lambda x: (_natural(x[1]), x[2]))
    ticks: list[tuple[int, list[Finding]]] = []
    notes: list[str] = []
    last = max((s.ts_ms or 0 for s, _, _ in stamped), default=0)
    for order, start in ((stamped, 0), (bare, last)):
        detector = RasDetector(CLUSTER)
        for number, (snapshot, _, _) in enumerate(order, 1):
            ts_ms = snapshot.ts_ms if snapshot.ts_ms is not None else start + number * APART_MS
            ticks.append((ts_ms, detector.update(snapshot, ts_ms)))
        for job, quiet_ms in detector.standing().items():
            notes.append(
                f"not judged: {job}: all counts are equal and none moved for {quiet_ms / 1000:g} s: idle, or stuck on "
                "the GPUs; RAS alone cannot tell"
            )
    if not flat:
        notes.append("not judged: standstills: there is no communicator's state in it")
    elif sum(bool(snapshot.communicators) for snapshot, _, _ in flat) < 2:
        notes.append(
            f"not judged: standstills: one snapshot; two at least {FROZEN_MS // 1000} s apart show whose count stands"
        )
    return Story(ticks, bool(stamped), notes)


def _natural(path: Path) -> tuple[str, list[tuple[int, int, str]]]:
    parts = re.split(r"(\d+)", path.name)
    return str(path.parent), [(1, int(p[:18]), "") if p.isdigit() else (0, 0, p) for p in parts]


def _read(path: Path) -> bytes:
    try:
        with open_bytes(path) as file:
            return file.read(MOST_BYTES + 1)
    except DAMAGED as error:
        raise BadRas(f"cannot be read: {error}") from None
