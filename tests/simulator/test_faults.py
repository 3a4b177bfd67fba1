"""The truth table: what each fault shows, and where, read from the sources that agents read."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from watched_fleet import ONSET_S, START_MS, Watched, small, watch

from runtime.errors import UserError
from schemas.causes import CAUSES, Cause
from simulator.faults import FAULTS
from simulator.fleet import SimulatedFleet
from simulator.nvml import NvmlError

RANK, NODE, RACK, LINK = "5", "r01-t02", "r01", "r01-t02/mlx5_1/1"
TARGETS = {"rank": RANK, "node": NODE, "rack": RACK, "link": LINK, "job": "", "cluster": ""}

LATE: list[Cause] = [
    "gpu_degraded", "gpu_contention", "memory_bandwidth", "power_brake", "pcie_degraded", "data_loading",
    "allocator_stall", "work_imbalance",
]  # fmt: skip
"""One rank is steadily late."""

HANGS: list[Cause] = [
    "gpu_memory_error", "gpu_lost", "process_gone", "node_lost", "not_entered", "gpu_stuck", "transport_stalled",
]  # fmt: skip

HARMLESS: list[Cause] = ["leak", "sensor_fault", "clock_wrong", "pipeline"]
"""The job does not feel them."""


@cache
def faulty(cause: Cause, ticks: int = 36, **settings: float) -> Watched:
    """A run that several tests look at: none advances it further."""
    return watch(ticks, fault=cause, target=TARGETS[FAULTS[cause].scope], **settings)


def nvml(watched: Watched, rank: int) -> tuple[Any, int]:
    """The library of a rank's node and the rank's handle."""
    gpu = int(watched.fleet.topology.gpu_of_rank[rank])
    return watched.fleet.nodes[gpu // 4].nvml, gpu


def fields(watched: Watched, rank: int, *ids: int) -> list[int]:
    library, handle = nvml(watched, rank)
    return [answer.value.ullVal for answer in library.nvmlDeviceGetFieldValues(handle, list(ids))]


def waits(watched: Watched, group: int) -> tuple[list[dict[int, int]], list[dict[int, int]]]:
    """Time of a tensor group's ranks in AllReduce, summed over each step, before and after the onset."""
    rounds = watched.stream(watched.fleet.topology.tensor_groups[group].id, "AllReduce")
    steps = [
        {rank: sum(r[rank] for r in rounds[i : i + 3]) for rank in rounds[i]} for i in range(0, len(rounds) - 2, 3)
    ]
    usual = ONSET_S - 2
    return steps[:usual], steps[usual + 3 :]


def shortest(times: dict[int, int]) -> int:
    return min(times, key=lambda rank: times[rank])


@pytest.mark.parametrize("cause", LATE)
def test_a_late_rank_waits_least_and_its_victims_look_slowest(cause: Cause) -> None:
    w = faulty(cause)
    assert w.step_us(after=True) > 1.1 * w.step_us(after=False)
    before, after = waits(w, 1)
    assert sum(shortest(times) == 5 for times in after) > 0.9 * len(after)
    assert sum(shortest(times) == 5 for times in before) < 0.9 * len(before)
    onset_ms = START_MS + (ONSET_S + 4) * 1000
    compute = {
        rank: np.median([s["compute_us"] for s in w.steps if s["rank"] == rank and s["ts_ms"] > onset_ms])
        for rank in range(16)
    }
    if cause != "work_imbalance":
        assert shortest(compute) == 5  # type: ignore[arg-type]


@pytest.mark.parametrize("cause", HANGS)
def test_a_hang_stops_every_rank_within_a_step(cause: Cause) -> None:
    w = faulty(cause)
    last_ms = max(s["ts_ms"] for s in w.steps)
    began_ms = START_MS + ONSET_S * 1000 + (3000 if cause == "gpu_memory_error" else 0)
    assert began_ms - 1100 < last_ms < began_ms + 1200
    assert len({s["step"] for s in w.steps if s["ts_ms"] == last_ms}) == 1
    heard = set(range(16)) - ({4, 5, 6, 7} if cause == "node_lost" else set())
    assert heard <= {s["rank"] for s in w.steps if s["step"] == max(x["step"] for x in w.steps)}


@pytest.mark.parametrize("cause", HARMLESS)
def test_the_job_does_not_feel_what_is_no_part_of_it(cause: Cause) -> None:
    w, healthy = faulty(cause), watch(36)
    assert w.step_us(after=True) == pytest.approx(healthy.step_us(after=True), rel=0.01)


@pytest.mark.parametrize("cause", list(FAULTS))
def test_before_the_onset_nothing_differs_from_a_healthy_fleet(cause: Cause) -> None:
    onset_s = 4
    ill = SimulatedFleet(small(fault=cause, onset_s=onset_s), start_ms=START_MS)
    well = SimulatedFleet(small(), start_ms=START_MS)
    for _ in range(onset_s):
        ill.advance()
        well.advance()
        for a, b in zip(ill.nodes, well.nodes, strict=True):
            assert a.inspector.read() == b.inspector.read()
            assert a.steps.read() == b.steps.read()
            assert a.kernel.read() == b.kernel.read()
            assert (a.proc / "stat").read_bytes() == (b.proc / "stat").read_bytes()
            assert [a.nvml.nvmlDeviceGetTemperatureV(a.nvml.nvmlDeviceGetHandleByIndex(i), 0) for i in range(4)] == [
                b.nvml.nvmlDeviceGetTemperatureV(b.nvml.nvmlDeviceGetHandleByIndex(i), 0) for i in range(4)
            ]
        assert [ill.racks.sections(rack) for rack in (0, 1)] == [well.racks.sections(rack) for rack in (0, 1)]


ENDING: list[Cause] = [
    "gpu_degraded",
    "fabric_link",
    "thermal_throttle",
    "not_entered",
    "gpu_stuck",
    "transport_stalled",
]


@pytest.mark.parametrize("cause", ENDING)
def test_a_fault_ends_after_its_duration_and_the_job_is_well_again(cause: Cause) -> None:
    w = faulty(cause, ticks=ONSET_S + 50, duration_s=8)
    recent = [s["step_us"] for s in w.steps if s["ts_ms"] > START_MS + (ONSET_S + 40) * 1000]
    assert np.median(recent) == pytest.approx(w.step_us(after=False), rel=0.02)


def test_every_fault_is_a_known_cause_with_its_own_truth() -> None:
    assert set(FAULTS) <= set(CAUSES)
    filled = {
        "rank": {"rank", "node", "gpu", "rack"},
        "link": {"rank", "node", "gpu", "rack", "link"},
        "node": {"node", "rack"},
        "rack": {"rack"},
    }
    for cause, fault in FAULTS.items():
        truth = SimulatedFleet(small(fault=cause), start_ms=START_MS).truth
        said = {name for name in ("rank", "node", "gpu", "rack", "link") if getattr(truth, name) is not None}
        assert said == filled.get(fault.scope, set())
        assert (truth.fault, truth.onset_ms) == (cause, START_MS + ONSET_S * 1000)


def test_gpu_degraded_keeps_its_clock_and_wakes_no_reason() -> None:
    w = faulty("gpu_degraded")
    library, handle = nvml(w, 5)
    assert library.nvmlDeviceGetClockInfo(handle, 1) > 1880
    assert library.nvmlDeviceGetCurrentClocksEventReasons(handle) & ~0x4 == 0


def test_gpu_contention_shows_a_foreign_process_and_its_memory() -> None:
    w = faulty("gpu_contention")
    used = [nvml(w, rank)[0].nvmlDeviceGetMemoryInfo(nvml(w, rank)[1]).used for rank in (4, 5)]
    assert used[1] > used[0] + 5 * 2**30
    library, handle = nvml(w, 5)
    assert len(library.nvmlDeviceGetComputeRunningProcesses(handle)) == 2
    pid = library.nvmlDeviceGetComputeRunningProcesses(handle)[1].pid
    assert b"SLURM" not in (w.fleet.nodes[1].proc / str(pid) / "environ").read_bytes()


def test_memory_bandwidth_keeps_the_memory_busy() -> None:
    w = faulty("memory_bandwidth")
    memory = [nvml(w, rank)[0].nvmlDeviceGetUtilizationRates(nvml(w, rank)[1]).memory for rank in (4, 5)]
    assert memory[1] > 1.5 * memory[0]


def test_thermal_throttle_is_hot_slow_and_says_why() -> None:
    w = faulty("thermal_throttle", ticks=ONSET_S + 100)
    assert w.step_us(after=True) > 1.1 * w.step_us(after=False)
    library, handle = nvml(w, 5)
    assert library.nvmlDeviceGetTemperatureV(handle, 0) > 87
    assert library.nvmlDeviceGetMarginTemperature(handle) < 0
    assert library.nvmlDeviceGetCurrentClocksEventReasons(handle) & 0x60 == 0x60
    assert library.nvmlDeviceGetClockInfo(handle, 1) == pytest.approx(1920 / 1.25, rel=0.05)
    assert min(fields(w, 5, 269, 270)) > 20e9
    assert fields(w, 4, 269, 270) == [0, 0]


def test_power_brake_holds_the_clock_and_cools_the_gpu() -> None:
    w = faulty("power_brake")
    library, handle = nvml(w, 5)
    assert library.nvmlDeviceGetClockInfo(handle, 1) == pytest.approx(1920 / 1.5, rel=0.05)
    assert library.nvmlDeviceGetCurrentClocksEventReasons(handle) & 0x88 == 0x88
    assert fields(w, 5, 271)[0] > 20e9
    assert fields(w, 5, 186)[0] < 0.8 * 1150e3


def test_gpu_memory_error_counts_says_three_xids_and_ends_the_process() -> None:
    w = faulty("gpu_memory_error")
    sbe, dbe, remapped, pending = fields(w, 5, 3, 4, 143, 144)
    assert (sbe > 50, dbe, remapped, pending) == (True, 1, 1, 1)
    xids = [line.split(b"): ")[1].split(b",")[0] for _, node, line in w.kernel if b"Xid" in line and node == NODE]
    assert xids == [b"48", b"63", b"94"]
    assert nvml(w, 5)[0].nvmlDeviceGetComputeRunningProcesses(nvml(w, 5)[1]) == []


def test_gpu_lost_answers_15_everywhere_and_says_xid_79_once() -> None:
    w = faulty("gpu_lost")
    library, handle = nvml(w, 5)
    for ask in (library.nvmlDeviceGetUUID, library.nvmlDeviceGetMemoryInfo, library.nvmlDeviceGetPciInfo):
        with pytest.raises(NvmlError) as caught:
            ask(handle)
        assert caught.value.value == 15
    assert {a.nvmlReturn for a in library.nvmlDeviceGetFieldValues(handle, [186, (202, 0)])} == {15}
    assert library.nvmlDeviceGetCount() == 4
    lines = [line for _, _, line in w.kernel if b"Xid" in line]
    assert len(lines) == 1
    assert b"(PCI:0009:01:00): 79," in lines[0]


def test_nvlink_fault_slows_its_tensor_group_flat_and_counts_errors() -> None:
    w = faulty("nvlink_fault")
    before, after = waits(w, 1)
    shortest_us = [np.median([min(times.values()) for times in part]) for part in (before, after)]
    assert shortest_us[1] > 3.5 * shortest_us[0]
    spread = [np.median([max(t.values()) - min(t.values()) for t in part]) for part in (before, after)]
    assert spread[1] < 2 * spread[0]
    sibling = waits(w, 0)
    assert np.median([min(t.values()) for t in sibling[1]]) < 1.1 * np.median([min(t.values()) for t in sibling[0]])
    assert fields(w, 5, 208)[0] > 100
    assert fields(w, 4, 208)[0] == 0
    assert sum(b"): 74," in line for _, _, line in w.kernel) == 1


def test_fabric_link_slows_one_data_group_flat() -> None:
    w = faulty("fabric_link")
    for slot, data in enumerate(w.fleet.topology.data_groups):
        rounds = w.stream(data.id, "ReduceScatter")
        before, after = rounds[: ONSET_S - 2], rounds[ONSET_S + 2 :]
        grown = np.median([min(r.values()) for r in after]) / np.median([min(r.values()) for r in before])
        assert grown == pytest.approx(3.0 if slot == 1 else 1.0, rel=0.1)
        spread = [np.median([max(r.values()) - min(r.values()) for r in part]) for part in (before, after)]
        assert spread[1] < spread[0] + 2000


@pytest.mark.parametrize(("cause", "slow"), [("fabric_congestion", {1, 2, 3, 4}), ("collective_configuration", {0, 1})])
def test_a_network_wide_trouble_slows_every_data_group(cause: Cause, slow: set[int]) -> None:
    w = faulty(cause)
    for data in w.fleet.topology.data_groups:
        rounds = w.stream(data.id, "AllGather")
        grown = min(min(r.values()) for r in rounds[ONSET_S + 6 :]) / min(
            min(r.values()) for r in rounds[: ONSET_S - 2]
        )
        assert grown > 1.5


@pytest.mark.parametrize("cause", ["host_cpu", "host_memory", "host_io"])
def test_a_host_fault_makes_the_whole_tray_late_and_shows_on_the_host(cause: Cause) -> None:
    w = faulty(cause)
    for data in w.fleet.topology.data_groups:
        after = w.stream(data.id, "ReduceScatter")[ONSET_S + 4 :]
        assert sum(shortest(r) // 4 == 1 for r in after) > 0.9 * len(after)
    proc, other = w.fleet.nodes[1].proc, w.fleet.nodes[0].proc
    kind = cause.removeprefix("host_")

    def pressure(root: Any) -> float:
        return float((root / f"pressure/{kind}").read_text().split("avg10=")[1].split()[0])

    assert pressure(proc) > 20 > 5 > pressure(other)


def test_host_memory_leaves_little_available() -> None:
    w = faulty("host_memory")
    lines = (w.fleet.nodes[1].proc / "meminfo").read_text().splitlines()
    kb = {line.split(":")[0]: int(line.split()[1]) for line in lines}
    total, available = kb["MemTotal"], kb["MemAvailable"]
    assert available < 0.08 * total


def test_python_stall_comes_in_bursts() -> None:
    w = faulty("python_stall", ticks=60)
    data = np.array([s["data_us"] for s in w.steps if s["rank"] == 5 and s["ts_ms"] > START_MS + ONSET_S * 1000])
    assert 0.2 < (data > 100_000).mean() < 0.5


def test_sporadic_stall_is_rare() -> None:
    w = faulty("sporadic_stall", ticks=160)
    steps = np.array([s["step_us"] for s in w.steps if s["rank"] == 0 and s["ts_ms"] > START_MS + ONSET_S * 1000])
    assert 0.01 < (steps > 1.2 * np.median(steps)).mean() < 0.12


def test_allocator_stall_is_named_in_the_ranks_own_report() -> None:
    w = faulty("allocator_stall")
    late = [s for s in w.steps if s["ts_ms"] > START_MS + (ONSET_S + 3) * 1000]
    assert all((s["frag_stall_us"] > 100_000) == (s["rank"] == 5) for s in late)


def test_imbalances_are_told_by_the_reported_work() -> None:
    late_ms = START_MS + (ONSET_S + 3) * 1000

    def work(cause: Cause) -> dict[int, set[int]]:
        by_rank: dict[int, set[int]] = {}
        for s in faulty(cause).steps:
            if s["ts_ms"] > late_ms:
                by_rank.setdefault(s["rank"], set()).add(s["work"])
        return by_rank

    one, wandering, everyone = work("work_imbalance"), work("sequence_imbalance"), work("workload_change")
    assert {rank for rank, values in one.items() if max(values) > 9000} == {5}
    assert all(len(values) > 5 for values in wandering.values())
    assert all(min(values) > 10_000 for values in everyone.values())


def test_workload_change_slows_all_alike() -> None:
    w = faulty("workload_change")
    assert w.step_us(after=True) > 1.2 * w.step_us(after=False)
    spread = [np.median([max(t.values()) - min(t.values()) for t in part]) for part in waits(w, 1)]
    assert spread[1] < 1.6 * spread[0]


def utilization(w: Watched) -> list[int]:
    return [nvml(w, r)[0].nvmlDeviceGetUtilizationRates(nvml(w, r)[1]).gpu for r in range(16)]


def test_who_has_not_entered_idles_while_all_others_spin() -> None:
    w = faulty("not_entered")
    assert utilization(w) == [0 if rank == 5 else 100 for rank in range(16)]
    library, handle = nvml(w, 4)
    power = fields(w, 4, 186)[0]
    assert 380e3 < power < 480e3
    assert fields(w, 5, 186)[0] < 250e3
    tray = w.fleet.topology.tensor_groups[1]
    others = w.fleet.topology.tensor_groups[0]
    last = {g.id: max(sn for id_, _, sn in w.rounds if id_ == g.id) for g in (tray, others)}
    assert last[others.id] == last[tray.id] + 2
    assert library.nvmlDeviceGetComputeRunningProcesses(handle)


def test_gpu_stuck_spins_everywhere_and_says_xid_109_later() -> None:
    w = faulty("gpu_stuck")
    assert utilization(w) == [100] * 16
    said = [tick for tick, node, line in w.kernel if b"): 109," in line and node == NODE]
    assert said == [ONSET_S + 7]


def test_transport_stalled_stops_one_data_group_only() -> None:
    w = faulty("transport_stalled")
    last = [
        max(sn for id_, f, sn in w.rounds if id_ == g.id and f == "ReduceScatter") for g in w.fleet.topology.data_groups
    ]
    assert last[0] == last[2] == last[3] == last[1] + 1
    assert utilization(w) == [100] * 16


def test_process_gone_leaves_no_process_behind() -> None:
    w = faulty("process_gone")
    assert nvml(w, 5)[0].nvmlDeviceGetComputeRunningProcesses(nvml(w, 5)[1]) == []
    pid = w.fleet.topology.pid(5)
    with pytest.raises(FileNotFoundError):
        (w.fleet.nodes[1].proc / str(pid) / "stat").read_bytes()
    assert (w.fleet.nodes[1].proc / str(w.fleet.topology.pid(4)) / "stat").read_bytes()


def test_silence_is_of_the_node_or_of_most_of_the_fleet() -> None:
    assert [i for i in range(6) if faulty("node_lost").fleet.silent(i)] == [1]
    assert sum(faulty("pipeline").fleet.silent(i) for i in range(6)) == 4


def test_a_wrong_clock_moves_the_nodes_ticks_and_lines() -> None:
    w = faulty("clock_wrong")
    assert w.fleet.node_tick_ms(1) - w.fleet.tick_ms == 120_000
    assert w.fleet.node_tick_ms(0) == w.fleet.tick_ms
    late = [s for s in w.steps if s["ts_ms"] > START_MS + 100_000]
    assert {s["rank"] for s in late} == {4, 5, 6, 7}


def test_a_broken_sensor_reads_nonsense_on_a_cool_gpu() -> None:
    library, handle = nvml(faulty("sensor_fault"), 5)
    assert library.nvmlDeviceGetTemperatureV(handle, 0) == 255


def rack(w: Watched, number: int) -> dict[str, Any]:
    return w.fleet.racks.sections(number)


def test_a_leak_is_at_one_detector_of_its_tray() -> None:
    leak = rack(faulty("leak"), 0)["leak"]
    assert [row for row, wet in zip(leak.rows, leak.column("leak_detected"), strict=True) if wet] == [
        "r01-t02/LeakDetector_0_Manifold"
    ]


COOLING: dict[Cause, Callable[[Any, Any], bool]] = {
    "coolant_flow": lambda ill, well: ill["loop"].column("flow_lpm")[0] < 0.4 * well["loop"].column("flow_lpm")[0],
    "coolant_temperature": lambda ill, well: (
        ill["loop"].column("supply_c")[0] > well["loop"].column("supply_c")[0] + 18
    ),
    "pump_fan": lambda ill, well: ill["cdu"].column("pump_speed_pct")[0] == 0 < well["cdu"].column("pump_speed_pct")[0],
}


@pytest.mark.parametrize("cause", list(COOLING))
def test_a_cooling_fault_shows_in_its_rack_and_warms_all_its_gpus(cause: Cause) -> None:
    w = faulty(cause, ticks=ONSET_S + 90)
    assert COOLING[cause](rack(w, 0), rack(w, 1))

    def warmth(number: int) -> list[int]:
        nodes = w.fleet.nodes[number * 3 : number * 3 + 2]
        return [
            n.nvml.nvmlDeviceGetTemperatureV(n.nvml.nvmlDeviceGetHandleByIndex(slot), 0)
            for n in nodes
            for slot in range(4)
        ]

    least = 1 if cause == "pump_fan" else 4  # the standby pump takes over
    assert all(ill > well + least for ill, well in zip(warmth(0), warmth(1), strict=True))


def test_severity_scales_the_damage() -> None:
    mild, bad = (faulty("gpu_degraded", severity=s).step_us(after=True) for s in (1.1, 2.0))
    assert 1.3 < bad / mild < 2.0


def test_a_severity_may_be_given_as_the_part_that_is_lost() -> None:
    assert FAULTS["gpu_degraded"].severity_of(0.3) == FAULTS["gpu_degraded"].severity_of(1.3) == 1.3
    assert FAULTS["gpu_degraded"].severity_of(None) == FAULTS["gpu_degraded"].severity
    assert FAULTS["clock_wrong"].severity_of(0.5) == 0.5


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"fault": "gpu_tired"}, "not a fault that can be simulated; choose from gpu_degraded"),
        ({"target": "5"}, "needs a --fault"),
        ({"fault": "gpu_degraded", "target": "9" * 5000}, "the job has ranks 0 to"),
    ],
)
def test_a_fault_nobody_knows_is_one_line(settings: dict[str, str], says: str) -> None:
    with pytest.raises(UserError, match=says) as caught:
        SimulatedFleet(small(**settings), start_ms=START_MS)
    assert "\n" not in str(caught.value)
