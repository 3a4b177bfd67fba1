"""Recordings of the topics: what agents sent, through the same partitions as in a worker.

Files may hold one topic each, or several. They are read side by side in the order of their times, as a consumer that
was never behind would have read them; ticks, silence and clocks are judged by the same watermarks.
"""

import heapq
from collections.abc import Callable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any

from lockstep.analyze.recording import TICK_MS, Input, Progress, Run
from lockstep.replay.recording import read_recording
from runtime.errors import UserError
from runtime.health import Counters
from schemas import Finding, Inventory
from schemas.readable import readable
from schemas.record import Record
from schemas.topics import JOB_TOPICS

MEASURED = frozenset(("node-frames", "events", "rack-frames", *JOB_TOPICS))
"""Topics that detection reads. Recorded findings count only where none of these is there to judge anew."""

JUDGED = frozenset(("collectives", "steps", "findings"))
"""Topics of which a straggler or hang can be told."""


def read(inputs: list[Input], progress: Progress) -> Iterator[Run]:
    """One run per cluster."""
    first: dict[str, set[str]] = {}
    for input_ in inputs:
        for record in _records(input_, lambda *_: None, counted=False):
            first.setdefault(record.cluster, set()).add(record.topic)
    measured = {cluster for cluster, topics in first.items() if topics & MEASURED}
    for number, cluster in enumerate(sorted(first)):
        streams = [_timed(input_, cluster, progress, counted=not number) for input_ in inputs]
        records = heapq.merge(*streams, key=itemgetter(0))
        yield Run(None, "", True, _ticks(records, cluster in measured), cluster)
    if any(not topics & JUDGED for topics in first.values()):
        inputs[0].notes = [*inputs[0].notes, "not judged: stragglers and hangs (no collectives or steps)"]


def decoded(input_: Input) -> Iterator[dict[str, Any]]:
    """Every record of one file: plain values, matrices by name."""
    for record in _records(input_, lambda *_: None, counted=False):
        yield {"event": record.topic, **readable(record)}


def _records(input_: Input, progress: Progress, counted: bool) -> Iterator[Record]:
    """The file's records; where it is broken it ends, and says so."""
    number = 0
    try:
        for number, record in enumerate(read_recording(input_.path), 1):
            if number % 50_000 == 0:
                progress(f"judging {input_.path.name}", number)
            yield record
    except UserError as error:
        if counted:
            input_.skip("broken")
            input_.notes = [*input_.notes, f"read up to record {number} only: {error}"]
    if counted:
        input_.records = number


def _timed(input_: Input, cluster: str, progress: Progress, counted: bool) -> Iterator[tuple[int, Record]]:
    """The records of one cluster, each with the newest time of its file so far."""
    newest = 0
    for record in _records(input_, progress, counted):
        if record.cluster == cluster:
            newest = max(newest, record.ts_ms // TICK_MS * TICK_MS)
            yield newest, record


def _ticks(records: Iterator[tuple[int, Record]], judge: bool) -> Iterator[tuple[int, list[Finding | Inventory]]]:
    """What the detectors say tick by tick; recorded findings instead, where there is nothing to judge."""
    worker = _worker() if judge else None
    for tick, part in groupby(records, key=itemgetter(0)):
        now = [record for _, record in part]
        said: list[Finding | Inventory] = [r for r in now if isinstance(r, Inventory)]
        made = worker(r for r in now if not isinstance(r, Finding)) if worker is not None else now
        said += (r for r in made if isinstance(r, Finding))
        yield tick, said


def _worker() -> Callable[[Iterator[Record]], Iterator[Record]]:
    # Faust is imported with it, which takes a second that other kinds need not wait.
    from streams.in_memory import InMemory
    from streams.plan import detection, load_model

    plan = {name: agent for name, agent in detection(load_model("")).items() if name != "incident"}
    return InMemory(plan, Counters()).take
