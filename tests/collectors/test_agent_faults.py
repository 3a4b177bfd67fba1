"""One agent and what breaks around it: the other collectors stay on time, it is said once, and it ends by itself."""

import errno
import os
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from fake_clock import FakeClock
from fake_nvml import eight
from fake_sender import FakeSender
from inspector_lines import operation

from collectors.agent.clock_watch import ClockWatch
from collectors.agent.core import AgentCore, Identity
from collectors.agent.delivery import Delivery
from collectors.agent.pace import ticks
from collectors.agent.sampler import SampledCollector, Sampler
from collectors.agent.spool import Spool
from collectors.agent.spool_watch import SpoolWatch
from collectors.base import Collector, Reading
from collectors.gpu.collector import GpuCollector
from collectors.lines import FolderLines
from collectors.nccl.collectives import CollectiveReducer, CollectivesCollector
from runtime.clock import SystemClock
from runtime.health import Counters
from schemas.codec import decode
from schemas.collective import CollectiveFrame
from schemas.event import Event
from schemas.frame import NodeFrame
from schemas.matrix import Matrix
from schemas.record import NodeRecord

SUPPORT = Path(__file__).parents[1] / "support"
IDENTITY = Identity(cluster="c", node="n1")
T0 = 1_764_504_000_000


class Beat:
    """Another collector of the agent: a number in every tick."""

    name = "beat"
    interval_s = 1.0

    def collect(self, tick_ms: int) -> Reading:
        return Reading({"host": Matrix.of(["n1"], ["load_1m"], [[1.0]])})


class Leaping(SystemClock):
    """The machine's clock, which a test moves on besides."""

    def __init__(self) -> None:
        self._more_s = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self._more_s

    def leap(self, seconds: float) -> None:
        self._more_s += seconds


def events(records: list[NodeRecord]) -> list[tuple[str, str]]:
    """Kind and GPU of what is said of collectors and GPUs."""
    told = [r for r in records if isinstance(r, Event) and r.kind.startswith(("collector_", "gpu_"))]
    return [(e.kind, e.gpu) for e in told]


def beats(records: list[NodeRecord]) -> list[int]:
    return [r.ts_ms for r in records if isinstance(r, NodeFrame) and "host" in r.sections]


@pytest.fixture
def sampler(tmp_path: Path) -> Iterator[tuple[Sampler, Leaping]]:
    clock = Leaping()
    environment = dict(os.environ) | {"PYTHONPATH": str(SUPPORT)}
    made = Sampler(
        "sampler_factories:obedient", str(tmp_path), clock, Counters(), environment, deadline_s=0.5, pause_s=0.05
    )
    yield made, clock
    made.close()


def test_a_driver_call_that_hangs_60_s_holds_up_nobody_is_said_once_and_ends_by_itself(
    tmp_path: Path, sampler: tuple[Sampler, Leaping]
) -> None:
    made, clock = sampler
    gpu: Collector = SampledCollector(made, "gpu", 1.0)
    core = AgentCore(IDENTITY, [gpu, Beat()], 1, clock, Counters())
    records: list[NodeRecord] = []
    second = 0

    def tick() -> list[NodeRecord]:
        nonlocal second
        second += 1
        said = core.tick(T0 + 1000 * second)
        records.extend(said)
        return said

    def until(kind: str) -> None:
        end = time.monotonic() + 60
        while kind not in [name for name, _ in events(records)]:
            tick()
            assert time.monotonic() < end
            time.sleep(0.02)

    while not any(isinstance(r, NodeFrame) and r.gpus for r in records):
        tick()
        time.sleep(0.02)
    (tmp_path / "hang").touch()
    before = len(records)
    for _ in range(60):
        clock.leap(1.0)
        began = time.monotonic()
        said = tick()
        assert time.monotonic() - began < 5  # one deadline at most, however long the call hangs
        assert beats(said) == [T0 + 1000 * second]
    assert events(records[before:]) == [("collector_stalled", "")]
    (tmp_path / "hang").unlink()
    until("collector_recovered")
    assert events(records[before:]) == [("collector_stalled", ""), ("collector_recovered", "")]
    assert beats(records) == [T0 + 1000 * n for n in range(1, second + 1)]


def test_a_lost_gpu_is_said_once_its_neighbours_go_on_and_it_comes_back_by_itself() -> None:
    library, clock = eight(), FakeClock(T0)
    core = AgentCore(IDENTITY, [GpuCollector(library, clock), Beat()], 1, clock, Counters())
    records: list[NodeRecord] = []

    def run(seconds: int) -> None:
        for _ in range(seconds):
            clock.advance(1.0)
            records.extend(core.tick(clock.now_ms()))

    run(3)
    gone = library.gpus[5]
    gone.codes["all"] = 15
    run(40)
    assert events(records) == [("gpu_lost", "GPU-5")]
    last = next(r for r in reversed(records) if isinstance(r, NodeFrame))
    values = last.sections["gpu"].column("power_w")
    assert [bool(value == value) for value in values] == [n != 5 for n in range(8)]
    del gone.codes["all"]
    run(40)
    assert events(records) == [("gpu_lost", "GPU-5"), ("gpu_back", "GPU-5")]
    assert len(beats(records)) == 83


@pytest.mark.parametrize("cut", [1, 2])
def test_an_inspector_file_cut_in_the_middle_of_a_utf8_character_is_read_when_the_rest_comes(
    tmp_path: Path, cut: int
) -> None:
    counters = Counters()
    collector = CollectivesCollector(FolderLines(tmp_path, counters), CollectiveReducer(settle_ms=0))
    core = AgentCore(IDENTITY, [collector, Beat()], 1, FakeClock(T0), counters)
    core.tick(T0)
    first, second = operation(sn=0, name="größe"), operation(sn=1, name="größe")
    place = second.replace(b"\\u00f6", "ö".encode()).replace(b"\\u00df", "ß".encode())
    middle = place.index("ö".encode()) + 1 if cut == 1 else place.index("ß".encode()) + 1
    with (tmp_path / "n1-pid7.log").open("ab") as file:
        file.write(first + b"\n" + place[:middle])
        file.flush()
        records = core.tick(T0 + 1000)
        file.write(place[middle:] + b"\n")
        file.flush()
        records += core.tick(T0 + 2000)
    frames = [r for r in records if isinstance(r, CollectiveFrame)]
    assert [o.sn for frame in frames for o in frame.operations] == [0, 1]
    assert {c.name for frame in frames for c in frame.communicators} == {"größe"}
    assert [r.missing for r in records if isinstance(r, NodeFrame)] == [{}, {}]
    assert events(records) == []


def test_an_inspector_file_that_ends_in_the_middle_of_a_character_costs_that_line_only(tmp_path: Path) -> None:
    counters = Counters()
    collector = CollectivesCollector(FolderLines(tmp_path, counters), CollectiveReducer(settle_ms=0))
    core = AgentCore(IDENTITY, [collector], 1, FakeClock(T0), counters)
    core.tick(T0)
    whole = operation(sn=0)
    torn = operation(sn=1, name="x").replace(b'"x"', b'"\xc3')
    (tmp_path / "n1-pid7.log").write_bytes(whole + b"\n" + torn + b"\n" + operation(sn=2) + b"\n")
    records = core.tick(T0 + 1000)
    (frame,) = [r for r in records if isinstance(r, CollectiveFrame)]
    assert [o.sn for o in frame.operations] == [0, 2]
    (node,) = [r for r in records if isinstance(r, NodeFrame)]
    assert node.missing == {"nccl_broken": 1}


def test_a_full_spool_disk_stops_no_tick_and_no_record_while_the_broker_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="collectors")
    counters, clock, sender = Counters(), FakeClock(T0), FakeSender()
    core = AgentCore(IDENTITY, [Beat()], 1, clock, counters)
    spool = Spool(tmp_path, 1 << 20, counters)
    delivery = Delivery(spool, counters, clock, sender)
    full = True
    write = Path.open

    def open_(self: Path, mode: str = "r", *more: object, **named: object) -> object:
        if full and mode == "wb" and self.suffix == ".spool":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(self, mode, *more, **named)  # type: ignore[arg-type, call-overload]

    monkeypatch.setattr(Path, "open", open_)
    for second in range(1, 31):
        full = second <= 20
        clock.advance(1.0)
        delivery.accept(core.tick(T0 + 1000 * second))
        delivery.pump()
    delivery.close(1.0)
    assert len(sender.received) == 31  # the start and thirty ticks
    counted = counters.labelled()
    assert counted[("errors", "spool_write")] == 21
    assert not any(name == "dropped" for name, _ in counted)
    said = [record.getMessage() for record in caplog.records if record.name == "collectors.agent.spool"]
    assert said == [
        f"spool {tmp_path} takes nothing (No space left on device): records wait in memory",
        f"spool {tmp_path} takes records again",
    ]
    assert list(tmp_path.glob("*.spool"))  # from when there was room again


def test_a_full_spool_disk_is_one_event_and_its_end_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, sender = FakeClock(T0), FakeSender()
    core, spool = AgentCore(IDENTITY, [Beat()], 1, clock, Counters()), Spool(tmp_path, 1 << 20, Counters())
    watch, delivery = SpoolWatch(spool), Delivery(spool, Counters(), clock, sender)
    write = Spool._begin_segment

    def begin(self: Spool, first: int) -> None:
        if 3 <= second <= 20:
            self._end_segment()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(self, first)

    monkeypatch.setattr(Spool, "_begin_segment", begin)
    for second in range(1, 31):
        if second == 3:
            spool._end_segment()  # as when the write itself fails
        clock.advance(1.0)
        delivery.accept(core.tick(T0 + 1000 * second))
        delivery.pump()
        for change in watch.changes():
            core.say(change)
    delivery.close(1.0)
    said = [r for r in (decode(value, topic) for topic, _, value in sender.received) if isinstance(r, Event)]
    assert [(r.kind, r.ts_ms - T0) for r in said[1:]] == [("spool_unwritable", 4000), ("spool_writable", 22_000)]
    assert said[1].severity == "warning"
    assert "No space left on device" in said[1].text


def test_a_spool_that_gives_up_records_says_so_once_and_how_many_when_it_has_room_again(tmp_path: Path) -> None:
    clock, counters = FakeClock(T0), Counters()
    core, spool = AgentCore(IDENTITY, [Beat()], 1, clock, counters), Spool(tmp_path, 16 * 4096, counters, 100)
    watch, delivery = SpoolWatch(spool), Delivery(spool, counters, clock)  # no broker
    said: list[Event] = []

    def tick(second: int) -> None:
        clock.advance(1.0)
        delivery.accept(core.tick(T0 + 1000 * second))
        delivery.pump()
        changes = watch.changes()
        said.extend(changes)
        for change in changes:
            core.say(change)

    for second in range(1, 2001):
        tick(second)
    assert [event.kind for event in said] == ["spool_full"]
    delivery.connect(sender := FakeSender())
    for second in range(2001, 2011):
        tick(second)
    assert [event.kind for event in said] == ["spool_full", "spool_room"]
    given_up = int(counters.totals()["dropped{spool_full}"])
    assert given_up > 500
    assert said[1].detail == {"given_up": str(given_up)}
    assert said[1].text == f"the agent's spool has room again; {given_up} records were given up"
    arrived = [r for r in (decode(value, topic) for topic, _, value in sender.received) if isinstance(r, Event)]
    assert [r.kind for r in arrived] == ["spool_room"]  # the first word was among the oldest
    delivery.close(1.0)


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_clock_that_jumps_an_hour_is_said_once_and_costs_no_collector_a_turn_and_no_record_its_number(
    hours: int,
) -> None:
    clock, counters = FakeClock(T0), Counters()
    watch = ClockWatch(clock)
    slow = Beat()
    slow.name, slow.interval_s = "slow", 10.0
    core = AgentCore(IDENTITY, [Beat(), slow], 1, clock, counters)
    lates: list[int] = []
    records: list[NodeRecord] = []
    for number, tick_ms in enumerate(islice(ticks(clock, 1.0, lambda: False, lates.append), 60)):
        if stepped := watch.stepped():
            core.say(stepped)
        records += core.tick(tick_ms)
        if number == 29:
            clock.step(3600 * hours)
    frames = [r for r in records if isinstance(r, NodeFrame)]
    assert len(beats(records)) == len(frames) == 60
    assert [r.seq for r in records] == list(range(1, len(records) + 1))
    steps = [b - a for a, b in zip(beats(records), beats(records)[1:], strict=False)]
    assert sorted(set(steps)) in ([-3599_000, 1000], [1000, 3601_000])
    assert counters.labelled()[("received", "slow")] >= 6
    assert lates == []
    (said,) = [event for event in records if isinstance(event, Event) and event.kind != "agent_started"]
    assert (said.kind, said.severity, said.detail) == ("clock_stepped", "warning", {"step_s": str(3600 * hours)})
    assert said.text == f"the node's clock was set {'forward' if hours > 0 else 'back'} by 3600 s"


def test_a_clock_that_is_only_corrected_and_one_that_was_read_in_two_moments_were_not_set() -> None:
    clock = FakeClock(T0)
    watch = ClockWatch(clock)
    for _ in range(3600):
        clock.advance(1.0)
        clock.step(0.0005)
        assert watch.stepped() is None
    held_up = clock.now_ms
    clock.now_ms = lambda: (clock.advance(7.0), held_up())[1]  # type: ignore[method-assign]
    assert watch.stepped() is None
    clock.now_ms = held_up  # type: ignore[method-assign]
    assert watch.stepped() is None
