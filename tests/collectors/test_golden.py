"""What each collector makes of samples of its formats, as golden files: a change in any number is seen.

The samples are those from which the fuzzer starts (`bench/fuzz/seeds.py`). LOCKSTEP_UPDATE_GOLDEN=1 writes the files
anew: read the difference before committing it. A whole tick of GPUs, jobs, host and kernel log is the agent's golden
file, cooling and Redfish have their own.
"""

import json
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fake_clock import FakeClock
from msgspec.structs import replace

from bench.fuzz import seeds
from collectors.base import Collector, CollectorError, NoData
from collectors.gpu.dcgm import DcgmCollector
from collectors.host.clock_sync import STATUS_NANOSECONDS, ClockSyncCollector, Timex
from collectors.host.collector import HostCollector
from collectors.host.fabric import FabricCollector
from collectors.host.hwmon import HwmonCollector
from collectors.host.rank_states import RankStatesCollector
from collectors.job.processes import Processes, Work
from collectors.job.steps import StepsCollector
from collectors.kernel.kmsg import KernelLogCollector
from collectors.kernel.log_line import parse_log_line
from collectors.nccl.collectives import CollectiveReducer, CollectivesCollector
from collectors.nccl.comma import parse as parse_comma
from collectors.nccl.flight_recorder import parse as parse_flight
from collectors.nccl.inspector_metrics import means
from collectors.nccl.job_logs import JobLogsCollector
from collectors.nccl.nccl_tests import parse as parse_nccl_tests
from collectors.nccl.ras import parse as parse_ras
from schemas.codec import to_json
from schemas.matrix import Matrix

T0 = 1_796_000_000_000
GOLDEN = Path(__file__).parents[1] / "golden" / "collectors"


class Lines:
    """A LineSource that has these lines, once."""

    def __init__(self, *samples: bytes) -> None:
        self._lines = [("rank-pid7", line) for sample in samples for line in sample.splitlines()]

    def read(self) -> list[tuple[str, bytes]]:
        lines, self._lines = self._lines, []
        return lines


def tree(root: Path, files: Mapping[str, bytes]) -> Path:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return root


def ticks(collector: Collector, clock: FakeClock, between: Callable[[], object] = lambda: None) -> list[Any]:
    """Two ticks of a collector, a second apart, as plain values."""
    said: list[Any] = []
    for number in range(2):
        try:
            reading = collector.collect(T0 + 1000 * number)
            said.append(
                {
                    "sections": {name: table(matrix) for name, matrix in reading.sections.items()},
                    "gpus": msgspec.to_builtins(reading.gpus),
                    "missing": reading.missing,
                    "drafts": [to_json(replace(d, cluster="c", node="n", ts_ms=d.ts_ms or T0)) for d in reading.drafts],
                }
            )
        except (NoData, CollectorError) as error:
            said.append(f"{type(error).__name__}: {error}")
        between()
        clock.advance(1.0)
    return said


def table(matrix: Matrix) -> dict[str, dict[str, float | None]]:
    """Rows by name and column; what is missing is null."""
    return {
        row: {c: None if math.isnan(v) else v for c, v in zip(matrix.columns, values, strict=True)}
        for row, values in zip(matrix.rows, matrix.values().tolist(), strict=True)
    }


def nccl(_: Path, clock: FakeClock) -> Any:
    return ticks(CollectivesCollector(Lines(*seeds.INSPECTOR), CollectiveReducer(settle_ms=0)), clock)


def steps(_: Path, clock: FakeClock) -> Any:
    return ticks(StepsCollector(Lines(*seeds.STEP_LINES), lambda _: "job-of-the-source"), clock)


def job_logs(_: Path, clock: FakeClock) -> Any:
    return ticks(JobLogsCollector(Lines(seeds.JOB_LOG), lambda: {7: Work("slurm:c/71/0", 1)}), clock)


def kernel(root: Path, clock: FakeClock) -> Any:
    records = Lines(*(line for line in seeds.KMSG.splitlines() if not line.startswith(b" ")))
    return ticks(KernelLogCollector(records, "boot-1", clock, root / "mark"), clock)


def host(root: Path, clock: FakeClock) -> Any:
    tree(root, seeds.HOST)
    later = seeds.HOST | {
        "stat": b"cpu  40 1 14 120 9 0 0 3 3 0\nprocs_running 3\nprocs_blocked 2\n",
        "diskstats": b"259 0 nvme0n1 5 0 8 9 6 0 16 12 0 840 3\n",
    }
    return ticks(HostCollector(root, "n", clock), clock, lambda: tree(root, later))


def hwmon(root: Path, clock: FakeClock) -> Any:
    chip = root / "class/hwmon/hwmon0"
    tree(chip, seeds.HWMON)
    return ticks(HwmonCollector(root, "n"), clock, lambda: tree(chip, {"fan2_input": b"0\n"}))


def fabric(root: Path, clock: FakeClock) -> Any:
    device = root / "class/infiniband/mlx5_0"
    tree(device, seeds.PORT | {"ports/1/counters/port_xmit_data": b"1000000\n"})
    later = {"ports/1/counters/port_xmit_data": b"3000000\n", "ports/1/counters/link_downed": b"3\n"}
    return ticks(FabricCollector(root, clock), clock, lambda: tree(device, later))


def ranks(root: Path, clock: FakeClock) -> Any:
    tree(root / "7", seeds.PROCESS)
    return ticks(RankStatesCollector(root, "n", Processes(root, "c").ranks, clock), clock)


def clock_(_: Path, clock: FakeClock) -> Any:
    return ticks(ClockSyncCollector("n", lambda: Timex(0, STATUS_NANOSECONDS, -125_000, 480)), clock)


def dcgm(_: Path, clock: FakeClock) -> Any:
    pages = iter([seeds.DCGM[0].decode(), seeds.DCGM[0].replace(b"58413337500", b"58413838500").decode()])
    return ticks(DcgmCollector(lambda: next(pages), clock), clock)


COLLECTORS: dict[str, Callable[[Path, FakeClock], Any]] = {
    "nccl": nccl, "steps": steps, "job_logs": job_logs, "kernel": kernel, "host": host, "hwmon": hwmon,
    "fabric": fabric, "ranks": ranks, "clock": clock_, "dcgm": dcgm,
}  # fmt: skip

PARSERS: dict[str, Callable[[], Any]] = {
    "ras": lambda: [parse_ras(sample) for sample in seeds.RAS],
    "flight_recorder": lambda: [parse_flight(sample, "rank_1", T0) for sample in seeds.FLIGHT],
    "nccl_tests": lambda: [parse_nccl_tests(sample) for sample in seeds.NCCL_TESTS],
    "inspector_metrics": lambda: [list(means(sample.decode())) for sample in seeds.INSPECTOR_METRICS],
    "comma": lambda: [parse_comma(sample) for sample in seeds.COMMA],
    "log_line": lambda: [
        parse_log_line(line, T0) for sample in seeds.KERNEL_LOG for line in sample.decode().splitlines()
    ],
}
"""What is read beside the ticks, or by `analyze` only."""


def check(name: str, found: Any) -> None:
    text = json.dumps(msgspec.to_builtins(found), indent=1) + "\n"
    if os.environ.get("LOCKSTEP_UPDATE_GOLDEN"):
        GOLDEN.mkdir(exist_ok=True)
        (GOLDEN / f"{name}.json").write_text(text)
    assert json.loads(text) == json.loads((GOLDEN / f"{name}.json").read_text())


@pytest.mark.parametrize("name", COLLECTORS)
def test_what_a_collector_makes_of_its_samples(name: str, tmp_path: Path) -> None:
    check(name, COLLECTORS[name](tmp_path, FakeClock(T0, 171_168.0)))


@pytest.mark.parametrize("name", PARSERS)
def test_what_a_parser_makes_of_its_samples(name: str) -> None:
    check(name, PARSERS[name]())


def test_every_golden_file_is_looked_at() -> None:
    assert {path.stem for path in GOLDEN.glob("*.json")} == COLLECTORS.keys() | PARSERS.keys()
