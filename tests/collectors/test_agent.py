"""The agent's core: schedule, isolation, stamping, and one whole tick as a golden file."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from fake_clock import FakeClock
from fake_nvml import eight, grow

from collectors.agent.core import AgentCore, Identity
from collectors.base import UNSTAMPED, Collector, CollectorError, NoData, Reading, blank, event
from collectors.gpu.collector import GpuCollector
from collectors.host.collector import HostCollector
from collectors.job.jobs import JobsCollector
from collectors.job.processes import Processes
from collectors.kernel.kmsg import KernelLogCollector, KmsgFile
from runtime.health import Counters
from schemas.codec import decode, encode, to_json
from schemas.event import Event
from schemas.frame import Gpu, NodeFrame, RackFrame
from schemas.inventory import Inventory
from schemas.matrix import Matrix
from schemas.record import NodeRecord

T0 = 1_764_504_000_000
HERE = Path(__file__).parent
GOLDEN = HERE.parent / "golden" / "agent_tick.json"
IDENTITY = Identity(cluster="eos", node="node-7", rack="r01", tray=3)


class Scripted:
    """A collector that does what the test says, turn by turn; the last word holds."""

    def __init__(self, name: str, *turns: Reading | Exception, interval_s: float = 1.0) -> None:
        self.name, self.interval_s = name, interval_s
        self.turns = list(turns) or [Reading()]
        self.ticks: list[int] = []

    def collect(self, tick_ms: int) -> Reading:
        self.ticks.append(tick_ms)
        turn = self.turns.pop(0) if len(self.turns) > 1 else self.turns[0]
        if isinstance(turn, Exception):
            raise turn
        return turn


class Rig:
    def __init__(self, *collectors: Collector) -> None:
        self.clock, self.counters = FakeClock(T0), Counters()
        self.core = AgentCore(IDENTITY, collectors, 77, self.clock, self.counters)
        self.records: list[NodeRecord] = []

    def tick(self, tick_ms: int) -> list[NodeRecord]:
        self.records = self.core.tick(tick_ms)
        return self.records

    def frame(self, tick_ms: int) -> NodeFrame:
        (frame,) = [record for record in self.tick(tick_ms) if isinstance(record, NodeFrame)]
        return frame

    def events(self) -> list[str]:
        return [record.kind for record in self.records if isinstance(record, Event)]


def gpu_reading(*uuids: str, power_w: float = 400.0) -> Reading:
    matrix = Matrix.of(uuids, ["power_w"], [[power_w] for _ in uuids])
    return Reading({"gpu": matrix}, tuple(Gpu(uuid=uuid, pci=f"000{i}:01:00.0") for i, uuid in enumerate(uuids)))


def test_every_record_is_stamped_and_numbered_upwards() -> None:
    rig = Rig(Scripted("a", Reading(drafts=(event("one", ts_ms=T0 - 5), event("two")))))
    records = rig.tick(T0) + rig.tick(T0 + 1000)
    assert {(r.cluster, r.node, r.run_id) for r in records} == {("eos", "node-7", 77)}
    assert [r.seq for r in records] == list(range(1, 8))
    assert [type(r).__name__ for r in records] == [
        "Event",
        "Event",
        "Event",
        "NodeFrame",
        "Event",
        "Event",
        "NodeFrame",
    ]
    assert [r.ts_ms for r in records[:4]] == [T0, T0 - 5, T0, T0]
    for record in records:
        assert decode(encode(record), record.topic) == record


def test_the_agents_start_is_an_event_and_only_once() -> None:
    rig = Rig()
    rig.tick(T0)
    assert rig.events() == ["agent_started"]
    rig.tick(T0 + 1000)
    assert rig.events() == []


def test_a_frame_comes_every_tick_even_with_nothing_in_it() -> None:
    rig = Rig(Scripted("a", NoData("nothing")))
    frame = rig.frame(T0)
    assert (frame.sections, frame.gpus, frame.missing) == ({}, (), {})
    assert (frame.rack, frame.tray, frame.ts_ms) == ("r01", 3, T0)


def test_a_collector_runs_once_in_each_of_its_intervals_whichever_way_the_clock_steps() -> None:
    fast, slow = Scripted("fast"), Scripted("slow", interval_s=10.0)
    rig = Rig(fast, slow)
    for second in (0, 1, 2, 9, 10, 11, 3600, 3601, 5):
        rig.tick(T0 + 1000 * second)
    assert len(fast.ticks) == 9
    assert slow.ticks == [T0, T0 + 10_000, T0 + 3_600_000, T0 + 5_000]


@pytest.mark.parametrize("failure", [ValueError("what"), KeyError("x"), CollectorError("broken", "it"), NoData("no")])
def test_whatever_one_collector_does_the_others_go_on(failure: Exception) -> None:
    rig = Rig(Scripted("bad", failure), Scripted("gpu", gpu_reading("GPU-0")), Scripted("worse", RuntimeError()))
    for i in range(3):
        frame = rig.frame(T0 + 1000 * i)
        assert frame.sections["gpu"].rows == ("GPU-0",)
    assert rig.counters.totals()["errors{worse}"] == 3
    assert rig.counters.totals()["received{gpu}"] == 3
    assert rig.counters.gauges()["collector_gpu_success"] == 1.0
    assert rig.counters.gauges()["collector_worse_success"] == 0.0


def test_durations_are_measured() -> None:
    rig = Rig()

    class Slow(Scripted):
        def collect(self, tick_ms: int) -> Reading:
            rig.clock.advance(0.25)
            return super().collect(tick_ms)

    rig.core = AgentCore(IDENTITY, [Slow("slow")], 1, rig.clock, rig.counters)
    rig.tick(T0)
    assert rig.counters.gauges()["collector_slow_duration_s"] == pytest.approx(0.25)


def test_an_episode_of_failing_is_one_event_at_each_end_and_one_when_it_changes() -> None:
    stalled = CollectorError("stalled", "no answer", "collector_stalled")
    died = CollectorError("sampler_died", "status 9")
    rig = Rig(Scripted("gpu", Reading(), stalled, stalled, died, Reading(), Reading()))
    seen = []
    for i in range(6):
        rig.tick(T0 + 1000 * i)
        seen.append(rig.events())
    assert seen == [["agent_started"], ["collector_stalled"], [], ["collector_failed"], ["collector_recovered"], []]


def test_a_stalled_tick_names_the_gpus_and_repeats_no_value() -> None:
    good = gpu_reading("GPU-0", "GPU-1", power_w=412.5)
    stalled = CollectorError("stalled", "no answer", "collector_stalled", blank(good, "timeout"))
    rig = Rig(Scripted("gpu", good, stalled))
    rig.tick(T0)
    frame = rig.frame(T0 + 1000)
    assert [gpu.uuid for gpu in frame.gpus] == ["GPU-0", "GPU-1"]
    assert np.isnan(frame.sections["gpu"].values()).all()
    assert frame.missing == {"timeout": 2}


def test_jobs_are_joined_to_gpus_and_held_for_their_interval_only() -> None:
    claim = Reading(gpus=(Gpu(uuid="GPU-1", job="slurm:eos/71/0", rank=9),))
    jobs = Scripted("jobs", claim, claim, CollectorError("broken", "x"), interval_s=5.0)
    rig = Rig(Scripted("gpu", gpu_reading("GPU-0", "GPU-1")), jobs)
    expected = (
        Gpu(uuid="GPU-0", pci="0000:01:00.0"),
        Gpu(uuid="GPU-1", pci="0001:01:00.0", job="slurm:eos/71/0", rank=9),
    )
    for second in range(10):
        assert rig.frame(T0 + 1000 * second).gpus == expected
    assert {gpu.job for gpu in rig.frame(T0 + 10_000).gpus} == {""}


def test_two_collectors_may_fill_one_section() -> None:
    cpu = Reading({"host": Matrix.of(["node-7"], ["load_1m", "node_power_w"], [[4.0, np.nan]])}, missing={"a": 1})
    bmc = Reading(
        {"host": Matrix.of(["node-7"], ["node_power_w", "load_1m"], [[6200.0, 5.0]])}, missing={"a": 2, "b": 1}
    )
    frame = Rig(Scripted("host", cpu), Scripted("bmc", bmc)).frame(T0)
    host = frame.sections["host"]
    assert (host.columns, host.values().tolist()) == (("load_1m", "node_power_w"), [[4.0, 6200.0]])
    assert frame.missing == {"a": 3, "b": 1}


def test_a_kernel_line_is_about_the_gpu_at_its_address_and_the_rank_that_works_there() -> None:
    claim = Reading(gpus=(Gpu(uuid="GPU-1", job="j", rank=9),))
    lines = Reading(drafts=(event("xid", code=79, pci="0001:01:00.0"), event("xid", code=79, pci="0009:01:00.0")))
    rig = Rig(Scripted("kernel", lines), Scripted("gpu", gpu_reading("GPU-0", "GPU-1")), Scripted("jobs", claim))
    rig.tick(T0)
    known, unknown = [record for record in rig.records if isinstance(record, Event) and record.kind == "xid"]
    assert (known.gpu, known.job, known.rank) == ("GPU-1", "j", 9)
    assert (unknown.gpu, unknown.job, unknown.rank) == ("", "", None)


def test_inventory_and_rack_frames_get_the_nodes_place() -> None:
    drafts = (Inventory(**UNSTAMPED, ts_ms=0), RackFrame(**UNSTAMPED, ts_ms=0, rack="-"))
    rig = Rig(Scripted("a", Reading(drafts=drafts)))
    rig.tick(T0)
    inventory, rack = rig.records[-2:]
    assert isinstance(inventory, Inventory)
    assert (inventory.rack, inventory.tray) == ("r01", 3)
    assert isinstance(rack, RackFrame)
    assert rack.rack == "r01"


def environment(proc: Path, pid: int, **variables: str) -> None:
    folder = proc / str(pid)
    folder.mkdir(parents=True)
    (folder / "stat").write_text(f"{pid} (python) S " + "1 " * 18 + "100 0 0\n")
    (folder / "environ").write_bytes(b"".join(f"{k}={v}\0".encode() for k, v in variables.items()))


def test_one_whole_tick_is_the_golden_one(tmp_path: Path) -> None:
    """Eight GPUs, one of them lost, a job, /proc and a kernel log, read by the real collectors.

    LOCKSTEP_UPDATE_GOLDEN=1 writes the file anew: read the difference before committing it.
    """
    proc = tmp_path / "proc"
    (proc / "pressure").mkdir(parents=True)
    (proc / "stat").write_text("cpu  1000 0 500 8000 500 0 0 0 0 0\n")
    (proc / "loadavg").write_text("4.00 3.00 2.00 6/900 12345\n")
    (proc / "meminfo").write_text("MemTotal: 1048576 kB\nMemAvailable: 524288 kB\n")
    (proc / "pressure" / "io").write_text("some avg10=7.25 avg60=0 avg300=0 total=1\n")
    (proc / "diskstats").write_text(" 259 0 nvme0n1 1 0 8 1 2 0 16 2 0 1000 3\n")
    library = eight()
    for i, gpu in enumerate(library.gpus):
        gpu.pids = [100 + i]
        environment(proc, 100 + i, SLURM_JOB_ID="71", SLURM_RESTART_COUNT="1", RANK=str(56 + i))
    log = tmp_path / "kmsg"
    log.write_bytes(b"")
    clock, counters = FakeClock(T0, 171_168.0), Counters()
    gpus = GpuCollector(library, clock)
    core = AgentCore(
        IDENTITY,
        [
            gpus,
            JobsCollector(gpus, Processes(proc, "eos")),
            HostCollector(proc, "node-7", clock),
            KernelLogCollector(KmsgFile(log), "boot-1", clock, tmp_path / "mark"),
        ],
        run_id=1_764_504_000,
        clock=clock,
        counters=counters,
    )
    core.tick(T0)
    clock.advance(1.0)
    for gpu in library.gpus:
        grow(gpu)
    library.gpus[5].codes["all"] = 15
    (proc / "stat").write_text("cpu  1075 0 500 8020 505 0 0 0 0 0\n")
    (proc / "diskstats").write_text(" 259 0 nvme0n1 1 0 8 1 2 0 16 2 0 1125 3\n")
    log.write_text(
        "4,4103,171168500000,-;NVRM: Xid (PCI:0005:1b:00): 79, pid=105, name=python, GPU has fallen off the bus.\n"
    )
    tick = json.dumps([to_json(record) for record in core.tick(T0 + 1000)], indent=1) + "\n"
    if os.environ.get("LOCKSTEP_UPDATE_GOLDEN"):
        GOLDEN.write_text(tick)
    assert json.loads(tick) == json.loads(GOLDEN.read_text())
