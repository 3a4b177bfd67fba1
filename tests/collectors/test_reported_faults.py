"""Faults that neighbouring tools were reported for, through our own parsers, collectors and rules.

Each case names its kind, an input, and the right answer. The kinds' inputs come in our own samples and, where they lie
beside the project, in the gathered reports.
"""

import csv
import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_clock import FakeClock
from fake_nvml import FakeGpu, FakeNvml, blackwell, grow, hopper

from collectors.agent.sampler import Sampler
from collectors.base import CollectorError, Reading, event
from collectors.cooling.redfish_parse import parse
from collectors.gpu.collector import GpuCollector
from collectors.gpu.dcgm import DcgmCollector, DcgmXids
from collectors.gpu.nvlink_fabric import fabric_faults
from collectors.gpu.nvml_events import draft as nvml_draft
from collectors.gpu.recorded import GpuColumns
from collectors.kernel.kmsg import KernelLogCollector
from collectors.kernel.log import parse_line
from collectors.kernel.xid_merge import XidMerge
from collectors.pci import pci_address
from runtime.clock import SystemClock
from runtime.health import Counters
from schemas.event import Event
from schemas.frame import Gpu

HERE = Path(__file__)
OWN = HERE.parents[1] / "data" / "reported_faults.jsonl"
GATHERED = HERE.parents[2] / ".." / "shared/data/gpu/reported_faults.jsonl"
T0 = 1_764_504_000_000

DCGM_NAMES = {
    "mem_temp_c": ("DCGM_FI_DEV_MEMORY_TEMP", "memory_temperature_c"),
    "gpu_temp_c": ("DCGM_FI_DEV_GPU_TEMP", "temperature_c"),
    "power_w": ("DCGM_FI_DEV_POWER_USAGE", "power_w"),
    "gpu_util_pct": ("DCGM_FI_DEV_GPU_UTIL", "gpu_utilization_pct"),
    "util": ("DCGM_FI_PROF_SM_ACTIVE", "sm_active_ratio"),
    "tensor": ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "tensor_active_ratio"),
}


class Node:
    """A fake driver and the real collector, tick by tick."""

    def __init__(self, gpus: list[FakeGpu]) -> None:
        self.library, self.clock = FakeNvml(gpus), FakeClock(T0)
        self.collector = GpuCollector(self.library, self.clock)

    def tick(self, seconds: float = 1.0) -> Reading:
        self.clock.advance(seconds)
        return self.collector.collect(self.clock.now_ms())


def gpu(index: int = 0, **more: Any) -> FakeGpu:
    return FakeGpu(f"GPU-{index}", f"0000000{index}:1B:00.0", **more)


def value(reading: Reading, column: str, row: str = "GPU-0") -> float | None:
    matrix = reading.sections["gpu"]
    found = float(matrix.column(column)[matrix.rows.index(row)])
    return None if math.isnan(found) else float(f"{found:.7g}")  # as many digits as travel


def events(reading: Reading) -> list[Event]:
    return [draft for draft in reading.drafts if isinstance(draft, Event)]


def scrapes(samples: list[dict[str, Any]]) -> list[Reading]:
    """One reading for each set of fields, as a dcgm-exporter would show it; a field that is None is left out."""
    clock, pages = FakeClock(T0), iter(samples)

    def page() -> str:
        labels = f'gpu="0",UUID="GPU-0",tick="{clock.now_ms()}"'
        return "".join(f"{name}{{{labels}}} {told}\n" for name, told in next(pages).items() if told is not None)

    collector = DcgmCollector(page, clock)
    readings = []
    for _ in samples:
        clock.advance(1.0)
        readings.append(collector.collect(clock.now_ms()))
    return readings


def kept_of_dcgm(told: dict[str, Any]) -> dict[str, Any]:
    field, column = DCGM_NAMES[told["metric"]]
    found = [value(reading, column) for reading in scrapes([{field: v} for v in told["values"]])]
    return {"kept": [v for v in found if v is not None]}


def garbage(told: dict[str, Any]) -> dict[str, Any]:
    """Through the driver's call, which hands over whatever it holds."""
    node = Node([gpu()])
    kept, invalid = [], 0
    for number in told["values"]:
        grow(node.library.gpus[0])
        node.library.gpus[0].utilization = (number, 41)
        reading = node.tick()
        invalid += reading.missing.get("out_of_range", 0)
        if (found := value(reading, "gpu_utilization_pct")) is not None:
            kept.append(found)
    return {"kept": kept, "invalid": invalid}


def counter_reset(told: dict[str, Any]) -> dict[str, Any]:
    one = gpu(fields=blackwell(), links=1)
    node, rates, falls = Node([one]), [], []
    for i, (count, at_s) in enumerate(zip(told["nvlink_xmit_bytes"], told["t_s"], strict=True)):
        one.fields[202] = count
        reading = node.tick(1.0 if i == 0 else at_s - told["t_s"][i - 1])
        rates.append(value(reading, "nvlink_tx_bytes_per_s"))
        if reading.missing.get("counter_fell"):
            falls.append(i)
    return {"rate": rates, "reset_at": falls[0]}


def power_spike(told: dict[str, Any]) -> dict[str, Any]:
    one = gpu()
    node, watts = Node([one]), []
    for energy in told["energy_mj"]:
        one.fields[83] = energy
        watts.append(value(node.tick(), "power_average_w"))
    return {"power_w": watts}


def none_times_100(told: dict[str, Any]) -> dict[str, Any]:
    (reading,) = scrapes([{DCGM_NAMES[name][0]: number for name, number in told["fields"].items()}])
    found = {name: value(reading, DCGM_NAMES[name][1]) for name in told["fields"]}
    return {
        "kept": {name: number for name, number in found.items() if number is not None},
        "absent": [name for name, number in found.items() if number is None],
    }


def xid_two_sources(told: dict[str, Any]) -> dict[str, Any]:
    merge, out = XidMerge(), []
    at = sorted({*(line[0] for line in told["kmsg"]), *(line[0] for line in told["nvml"])})
    for now_s in (*at, at[-1] + 10):
        lines = [xid_line(address, code) for s, address, code in told["kmsg"] if s == now_s]
        library = [
            nvml_draft(code, Gpu(uuid=who.partition("@")[0], pci=pci_address(who.partition("@")[2])))
            for s, who, code in told["nvml"]
            if s == now_s
        ]
        out += merge.merge(lines, library, now_s)
    return {"events": len(out)}


def xid_line(address: str, code: int) -> Event:
    found = parse_line(f"NVRM: Xid (PCI:{address}): {code}, pid=10, name=a, text")
    assert found is not None
    return event(found.kind, code=found.code, pci=found.pci, severity=found.severity, detail=found.detail)


def nonfatal_145(told: dict[str, Any]) -> dict[str, Any]:
    found = parse_line(told["line"])
    assert found is not None
    pid = found.detail.get("pid", "")
    return {
        "xid": found.code,
        "unit": found.detail["unit"],
        "severity": found.detail["fatal"] if "fatal" in found.detail else found.detail["word"].lower(),
        "link": int(found.detail["link"]),
        "pid": int(pid) if pid.isdecimal() else None,
    }


def kmsg_time(told: dict[str, Any], folder: Path) -> dict[str, Any]:
    class Lines:
        def read(self) -> list[tuple[str, bytes]]:
            text = "NVRM: Xid (PCI:0000:04:00): 31, pid=1, name=a, text"
            return [("kmsg", f"4,{seq},{round(s * 1e6)},-;{text}\n".encode()) for seq, s in told["lines"]]

    clock = FakeClock(T0, told["agent_start_monotonic"])
    collector = KernelLogCollector(Lines(), told["boot_id"], clock, folder / "mark")
    clock.advance(max(1.0, told["lines"][-1][1] - told["agent_start_monotonic"]))
    found = events(collector.collect(T0))
    historic = [e for e in found if "historic" in e.detail]
    return {"historic": len(historic), "new": len(found) - len(historic)}


def hang_stale(told: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Time is scaled: a call that hangs, hangs until it is let go."""
    environment = dict(os.environ) | {"PYTHONPATH": str(HERE.parents[1] / "support")}
    sampler = Sampler(
        "sampler_factories:obedient", str(folder), SystemClock(), Counters(), environment, deadline_s=0.5, pause_s=0.05
    )
    ready(sampler)
    stalled, emitted = [], []
    for i, duration_s in enumerate(told["call_durations_s"]):
        if duration_s > told["deadline_s"]:
            (folder / "hang").touch()
            with pytest.raises(CollectorError, match="stalled"):
                sampler.ask("gpu", i)
            stalled.append(i)
            (folder / "hang").unlink()
        else:
            assert ready(sampler, i).sections["gpu"].values()[0, 0] == i, "an old value under a new tick"
            emitted.append(i)
    sampler.close()
    return {"stalled_at": stalled[0], "values_emitted": emitted}


def ready(sampler: Sampler, tick_ms: int = 0) -> Reading:
    clock = SystemClock()
    until_s = clock.monotonic() + 30
    while clock.monotonic() < until_s:
        try:
            return sampler.ask("gpu", tick_ms)
        except Exception:
            clock.sleep(0.02)
    raise AssertionError("the sampler never answers")


def na_text(told: dict[str, Any]) -> dict[str, Any]:
    query = ["index", "name", "temperature.gpu", "power.draw [W]"]
    columns, answer = GpuColumns(query), {}
    for cells in csv.reader(told["csv"].splitlines(), skipinitialspace=True):
        row = columns.row(dict(zip(query, cells, strict=True)))
        assert row is not None
        found = {"temp": row.values["temperature_c"], "power": row.values["power_w"]}
        state = next((v for v in found.values() if v in ("lost", "reset_required")), None)
        numbers = {name: None if isinstance(v, str) else v for name, v in found.items()}
        answer[f"gpu{row.slot}"] = {"state": state} if state else numbers
    return answer


def nvlink_index_36(told: dict[str, Any]) -> dict[str, Any]:
    count = told["link_count_field_91"]
    one = gpu(fields=blackwell() | {91: count}, links=count)
    node = Node([one])
    answers = {int(link): code for link, code in told["returns"].items()}
    real = FakeNvml._value

    def told_by_link(of: FakeGpu, number: int, scope: int) -> Any:
        answer = real(of, number, scope)
        if number in range(201, 223):
            answer.nvmlReturn = answers.get(scope, answer.nvmlReturn)
        return answer

    node.library._value = told_by_link  # type: ignore[method-assign]
    node.tick()
    reading = node.tick(10.0)
    assert max(scope for _, scope in node.library.asks[-1]) == count - 1
    links = reading.sections["nvlink"]
    return {"links_sampled": sum(not math.isnan(v) for v in links.column("receive_error_count").tolist())}


def mig(told: dict[str, Any]) -> dict[str, Any]:
    parts = [FakeGpu(name.partition("@")[0], "00000000:1B:00.0") for name in told["instances"]]
    node = Node([gpu(mig=parts, codes={"nvmlDeviceGetUtilizationRates": 3})])
    reading = node.tick()
    series = [listed.uuid for listed in reading.gpus if listed.parent == "GPU-0"]
    return {"parent_util": value(reading, "gpu_utilization_pct"), "series": len(series)}


def redfish_null(told: list[dict[str, Any]]) -> list[str | None]:
    """The type and unit are what every Redfish sensor has."""
    answer: list[str | None] = []
    for document in told:
        sensor = {"@odata.type": "#Sensor.v1_7_0.Sensor", "ReadingType": "Temperature", "ReadingUnits": "Cel"}
        (row,) = parse(sensor | document, "/redfish/v1/Chassis/HGX/Sensors/GPU_0_TEMP_1")
        margin, alarm = row.values.get("margin_c", row.values.get("temperature_c")), row.values["alarm_code"]
        word = {0.0: "ok", 1.0: "warning", 2.0: "critical"}.get(alarm if isinstance(alarm, float) else -1)
        answer.append(None if isinstance(margin, str | None) else f"margin {margin:g} {word}")
    return answer


def leak_state_word(told: list[dict[str, Any]]) -> list[str]:
    answer = []
    for document in told:
        (row,) = parse(document, "/redfish/v1/Chassis/1/ThermalSubsystem/LeakDetection/LeakDetectors/1")
        answer.append(
            "sensor_fault"
            if row.values["sensor_failed"] == 1
            else "leak"
            if row.values["leak_detected"] == 1
            else "no_leak"
        )
    return answer


def driver_mismatch(told: dict[str, Any]) -> dict[str, Any]:
    node = Node([gpu(0), gpu(1)])
    node.tick()
    node.library.codes["nvmlInit"] = told["nvmlInit"]
    for one in node.library.gpus:
        one.codes["nvmlDeviceGetFieldValues"] = 18 if told["nvmlInit"] == 18 else 1
    with pytest.raises(CollectorError) as raised:
        node.tick()
    assert raised.value.restart == (told["nvmlInit"] == 18)
    partial = raised.value.partial
    assert partial is not None
    named = {listed.uuid for listed in partial.gpus}
    lost = [e for e in events(partial) if e.kind == "gpu_lost"]
    return {"state": raised.value.code, "gpus_missing": named != {"GPU-0", "GPU-1"} or bool(lost)}


def gpu_lost_one(told: dict[str, Any]) -> dict[str, Any]:
    node = Node([gpu(int(index)) for index in told["handles"]])
    node.tick()
    for index, state in told["handles"].items():
        if state != "ok":
            one = node.library.gpus[int(index)]
            one.codes |= {186: 15, 83: 15} | dict.fromkeys(("nvmlDeviceGetUUID", "nvmlDeviceGetHandleByIndex"), 15)
    reading = node.tick()
    return {
        "reading": [i for i in told["handles"] if value(reading, "power_w", f"GPU-{i}") is not None],
        "lost": [e.gpu.removeprefix("GPU-") for e in events(reading) if e.kind == "gpu_lost"],
    }


def index_renumber(told: dict[str, Any]) -> dict[str, Any]:
    places = dict(zip(told["before"].values(), range(9), strict=False))
    boards = {uuid: FakeGpu(uuid, f"0000000{i}:1B:00.0") for uuid, i in places.items()}
    node = Node([boards[uuid] for uuid in told["before"].values()])
    node.tick()
    node.library.gpus = [boards[uuid] for uuid in told["after"].values()]
    found: list[Event] = []
    for _ in range(35):
        for board in boards.values():
            board.fields[83] += 400_000
        reading = node.tick()
        found += events(reading)
    return {
        "renumbered": [e.gpu for e in found if e.kind == "gpu_renumbered"],
        "continued": [u for u in told["before"].values() if value(reading, "power_average_w", u) == 400],
        "lost": [e.gpu for e in found if e.kind == "gpu_lost"],
    }


def sticky_xid(told: dict[str, Any]) -> dict[str, Any]:
    clock, gauge = FakeClock(T0), iter(told["gauge"])
    labels = 'gpu="0",UUID="GPU-0"'
    collector = DcgmCollector(
        lambda: f"DCGM_FI_DEV_XID_ERRORS{{{labels}}} {next(gauge)}\nDCGM_FI_DEV_GPU_TEMP{{{labels}}} {len(found)}0\n",
        clock,
    )
    xids, found = DcgmXids(collector), [0]
    codes = []
    for _ in told["gauge"]:
        clock.advance(1.0)
        found.append(0)
        collector.collect(clock.now_ms())
        codes += [e.code for e in events(xids.collect(clock.now_ms()))]
    return {"events": codes}


def fabric_states(told: list[dict[str, Any]]) -> list[str]:
    answer = []
    for one in told:
        uuid = bytes.fromhex(one.get("uuid", "00")) * 16
        waiting_s = one.get("waiting_s", 0.0)
        faults = fabric_faults(
            one["product"], one["state"], one.get("status", 0), one.get("clique", 0), uuid, 0, 0, waiting_s
        )
        waits = faults is None and one["state"] != 0
        answer.append("wait" if waits else "skip" if faults is None else "unhealthy" if faults else "healthy")
    return answer


KINDS: dict[str, Callable[..., Any]] = {
    "blank_int64": kept_of_dcgm,
    "util_garbage": garbage,
    "counter_reset": counter_reset,
    "power_spike": power_spike,
    "none_times_100": none_times_100,
    "xid_two_sources": xid_two_sources,
    "nonfatal_145": nonfatal_145,
    "kmsg_time": kmsg_time,
    "hang_stale": hang_stale,
    "na_text": na_text,
    "nvlink_index_36": nvlink_index_36,
    "mig": mig,
    "redfish_null": redfish_null,
    "leak_state_word": leak_state_word,
    "driver_mismatch": driver_mismatch,
    "gpu_lost_one": gpu_lost_one,
    "index_renumber": index_renumber,
    "sticky_xid": sticky_xid,
    "fabric_states": fabric_states,
}
"""Kind of a fault to how its input goes through our code; those that need a folder take it second."""

NEED_A_FOLDER = (kmsg_time, hang_stale)


def cases(path: Path) -> list[Any]:
    if not path.exists():
        return []
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [pytest.param(case, id=f"{case['id']}-{i}") for i, case in enumerate(lines)]


def answer(case: dict[str, Any], folder: Path) -> Any:
    kind = KINDS[case["id"]]
    return kind(case["input"], folder) if kind in NEED_A_FOLDER else kind(case["input"])


@pytest.mark.parametrize("case", cases(OWN))
def test_a_fault_of_a_known_kind_gets_the_right_answer(case: dict[str, Any], tmp_path: Path) -> None:
    assert answer(case, tmp_path) == case["expect"]


@pytest.mark.skipif(not GATHERED.exists(), reason="the public data sets are not beside the project")
@pytest.mark.parametrize("case", cases(GATHERED))
def test_a_reported_fault_gets_the_right_answer(case: dict[str, Any], tmp_path: Path) -> None:
    assert answer(case, tmp_path) == case["expect"]


def test_hoppers_own_links_are_read_by_their_own_fields() -> None:
    node = Node([gpu(fields=hopper())])
    node.tick()
    links = node.tick(10.0).sections["nvlink"]
    assert {"crc_error_count", "replay_count", "recovery_count"} <= set(links.columns)
    assert "receive_error_count" not in links.columns
