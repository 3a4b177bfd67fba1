"""GPU readings that somebody recorded: scrapes of a dcgm-exporter, nvidia-smi's CSV, dmon tables.

Everything goes through the detector of a node, as live. What one sample tells (`detectors.node.snapshot`) is told of
each node's first one; changes need a series.
"""

import heapq
from collections.abc import Iterator
from operator import attrgetter
from typing import Any

from collectors.gpu.recorded import scrape_like
from detectors.episode import Episodes
from detectors.node.detector import NodeDetector
from detectors.node.snapshot import LASTING, MOMENTARY, slow_clocks, snapshot
from lockstep.analyze.files import head
from lockstep.analyze.gpu_samples import Sample, listed
from lockstep.analyze.gpu_series import read_series
from lockstep.analyze.recording import CLUSTER, Input, Progress, Run
from lockstep.analyze.scrapes import read_scrapes
from lockstep.analyze.steps import ONLY_NODE
from schemas import Finding, NodeFrame

SERIES = 60
"""Samples of a node from which changes against its own past can be told: a baseline's warm-up and some more."""

EPOCH_MS = 1_000_000_000_000
"""A time from here on is a moment (after 2001), else samples were only counted."""


def read(inputs: list[Input], progress: Progress) -> Iterator[Run]:
    """One run: all nodes of the files."""
    first = next(_samples([Input(i.path, i.kind) for i in inputs], lambda *_: None), None)
    timed = first is not None and first.ts_ms >= EPOCH_MS
    yield Run(None, "", timed, _ticks(inputs, _samples(inputs, progress)))


def decoded(input_: Input) -> Iterator[dict[str, Any]]:
    """Every GPU of every sample: its readings by metric; and what happened."""
    return listed(_samples([input_], lambda *_: None))


def _samples(inputs: list[Input], progress: Progress) -> Iterator[Sample]:
    """All samples in the order of their times; a table that names no node is a node, called like its file."""
    scrapes = [i for i in inputs if scrape_like(head(i.path))]
    tables = [i for i in inputs if i not in scrapes]
    series = [read_series(i, ONLY_NODE if len(tables) == 1 else i.path.stem, progress) for i in tables]
    return heapq.merge(read_scrapes(scrapes), *series, key=attrgetter("ts_ms"))


def _ticks(inputs: list[Input], samples: Iterator[Sample]) -> Iterator[tuple[int, list[Finding]]]:
    # Faust is imported with it, which takes a second that other kinds need not wait.
    from streams.plan import load_model

    model, episodes = load_model(""), Episodes(CLUSTER)
    nodes: dict[str, NodeDetector] = {}
    count: dict[str, int] = {}
    newest: dict[str, NodeFrame] = {}
    tick = 0
    for ts_ms, frame, events in samples:
        tick, node = max(tick, ts_ms), frame.node
        count[node] = count.get(node, 0) + 1
        newest[node] = frame
        detector = nodes.setdefault(node, NodeDetector(CLUSTER, node, model))
        said = snapshot(episodes, frame, LASTING) if count[node] == 1 else []
        said += detector.update(frame).findings
        said += (finding for happened in events for finding in detector.note(happened))
        yield tick, [*said, *slow_clocks(episodes, frame)]
    alone = [finding for node, n in count.items() if n == 1 for finding in snapshot(episodes, newest[node], MOMENTARY)]
    if alone:
        yield tick, alone
    short = [node for node, n in count.items() if n < SERIES]
    if short:
        who = f"{len(short)} nodes" if len(short) > 1 else "a node" if short[0] == ONLY_NODE else f"node {short[0]}"
        note = f"not judged: changes on {who} with fewer than {SERIES} samples; only what a sample tells by itself"
        inputs[0].notes = [*inputs[0].notes, note]
