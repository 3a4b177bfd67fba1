"""Scrapes of dcgm-exporters, of any number of nodes and one after another, through the live collector."""

from collections.abc import Iterable, Iterator

from collectors.base import CollectorError
from collectors.gpu.dcgm import XID, DcgmCollector
from collectors.gpu.printed import printed
from collectors.prometheus_text import Sample as Series
from collectors.prometheus_text import parse
from lockstep.analyze.files import lines
from lockstep.analyze.gpu_samples import Sample, last_xid, sample
from lockstep.analyze.recording import CLUSTER, TICK_MS, Input
from lockstep.analyze.steps import ONLY_NODE
from schemas import Event, NodeFrame


def read_scrapes(inputs: Iterable[Input]) -> Iterator[Sample]:
    """Every scrape of every node in the order of the files: a series that comes again begins its node's next one."""
    nodes: dict[str, _Exporter] = {}
    said: dict[str, None] = {}
    for input_ in inputs:
        for raw in lines(input_.path):
            line = raw.decode("utf-8", "replace").strip()
            if line.startswith("#") or not line:
                said[line] = None
                continue
            found = parse(line).samples
            if not found:
                input_.skip("unreadable")
                continue
            node = found[0].labels.get("Hostname") or found[0].labels.get("hostname") or ONLY_NODE
            exporter = nodes.setdefault(node, _Exporter(node))
            if exporter.has(found[0]):
                yield from exporter.end(said)
            exporter.take(input_, line, found[0])
    for exporter in nodes.values():
        yield from exporter.end(said)


class _Recorded:
    """The clock of a recording; where samples say no time it stands still, and there are no rates."""

    def __init__(self) -> None:
        self.ts_ms = 0

    def now_ms(self) -> int:
        return self.ts_ms

    def monotonic(self) -> float:
        return self.ts_ms / 1000

    def sleep(self, seconds: float) -> None:
        """A recording waits for nobody."""


class _Exporter:
    """The scrapes of one node."""

    def __init__(self, node: str) -> None:
        self._node, self._clock, self._seq = node, _Recorded(), 0
        self._input: Input | None = None
        self._lines: list[str] = []
        self._held: dict[str, Series] = {}
        self._text = ""
        self._collector = DcgmCollector(lambda: self._text, self._clock)

    def has(self, series: Series) -> bool:
        return _key(series) in self._held

    def take(self, input_: Input, line: str, series: Series) -> None:
        self._input = input_
        self._held[_key(series)] = series
        self._lines.append(line)

    def end(self, said: Iterable[str]) -> Iterator[Sample]:
        """The scrape held so far as a sample; none where the collector finds nothing new in it."""
        if self._input is None:
            return
        times = [int(stamp) for line in self._lines if (stamp := _stamp(line))]
        self._clock.ts_ms = max([self._clock.ts_ms, *times])
        self._text = "\n".join([*said, *self._lines])
        xids = [s for s in self._held.values() if s.name == XID] if not self._seq else []
        self._lines, self._held = [], {}
        try:
            reading = self._collector.collect(self._clock.ts_ms)
        except CollectorError as error:
            self._input.skip(error.code)
            return
        if "gpu" not in reading.sections:
            return
        self._seq += 1
        frame = NodeFrame(
            cluster=CLUSTER,
            ts_ms=self._clock.ts_ms if times else self._seq * TICK_MS,
            node=self._node,
            run_id=1,
            seq=self._seq,
            gpus=reading.gpus,
            sections=reading.sections,
            missing=reading.missing,
        )
        drafts = [draft for draft in reading.drafts if isinstance(draft, Event)]
        yield sample(self._input, frame, [*drafts, *_first_xids(xids)])


def _first_xids(found: Iterable[Series]) -> Iterator[Event]:
    for series in found:
        value, gpu = printed(series.value), series.labels.get("UUID", "")
        if gpu and not isinstance(value, str) and value > 0:
            yield last_xid(int(value), gpu)


def _key(series: Series) -> str:
    return f"{series.name}{sorted(series.labels.items())}"


def _stamp(line: str) -> str:
    """The time at the end of a sample's line (milliseconds), "" where there is none."""
    words = line.rpartition("}")[2].split()
    return words[1] if len(words) == 2 and words[1].isdecimal() else ""
