"""/proc: parsers on literal text, and the collector on a small tree."""

import math
from pathlib import Path

import pytest
from fake_clock import FakeClock

from collectors.base import NoData
from collectors.host.collector import (
    HostCollector,
    parse_cpu,
    parse_diskstats,
    parse_loadavg,
    parse_meminfo,
    parse_pressure,
)


def test_busy_contains_steal_and_not_idle_nor_waiting() -> None:
    assert parse_cpu("cpu  46698 0 8287 273047 1062 0 667 1558 0 0\ncpu0 1 2 3 4\n") == (57210, 1558, 331319, 1062)


def test_an_old_kernel_without_steal() -> None:
    assert parse_cpu("cpu 1 2 3 4 5 6 7\n") == (19, 0, 28, 5)


@pytest.mark.parametrize("text", ["", "intr 1 2 3", "cpu", "cpu a b c d"])
def test_no_cpu_line(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_cpu(text)


def test_load_and_runnable() -> None:
    assert parse_loadavg("191.03 180.20 150.00 225/4012 998877\n") == (191.03, 225)


def test_memory_in_mib_and_counts_without_a_unit_left_out() -> None:
    text = "MemTotal:       2113502740 kB\nMemAvailable:   1900000000 kB\nHugePages_Total:       0\n"
    assert parse_meminfo(text) == {"MemTotal": 2113502740 / 1024, "MemAvailable": 1900000000 / 1024}


def test_pressure_takes_some() -> None:
    text = "some avg10=1.50 avg60=0.40 avg300=0.09 total=123\nfull avg10=0.90 avg60=0.1 avg300=0.01 total=99\n"
    assert parse_pressure(text) == 1.5


def test_disks_without_what_is_no_hardware() -> None:
    text = (
        "   7       0 loop0 10 0 20 3 0 0 0 0 0 999 3\n"
        " 259       0 nvme0n1 75968 9895 7223274 50815 18899 46370 5674328 25745 0 20064 80843\n"
        " 254       0 vda 1 2 3 4 5 6 7 8 9 50 11 12 13 14 15 16 17\n"
    )
    assert parse_diskstats(text) == {"nvme0n1": (20064, 94867, 76560), "vda": (50, 6, 12)}


FILES = {
    "stat": "cpu  1000 0 500 8000 500 0 0 0 0 0\nprocs_running 6\nprocs_blocked 2\n",
    "vmstat": "nr_free_pages 1\noom_kill 3\n",
    "loadavg": "4.00 3.00 2.00 6/900 12345\n",
    "meminfo": "MemTotal: 1048576 kB\nMemAvailable: 524288 kB\nSwapTotal: 4096 kB\nSwapFree: 1024 kB\n",
    "pressure/cpu": "some avg10=2.00 avg60=0 avg300=0 total=1\n",
    "pressure/memory": "some avg10=0.00 avg60=0 avg300=0 total=1\nfull avg10=0.00 avg60=0 avg300=0 total=1\n",
    "pressure/io": "some avg10=7.25 avg60=0 avg300=0 total=1\nfull avg10=6.50 avg60=0 avg300=0 total=1\n",
    "diskstats": " 259 0 nvme0n1 1 0 8 1 2 0 16 2 0 1000 3\n 259 5 nvme1n1 1 0 8 1 2 0 16 2 0 2000 3\n",
}


def write(proc: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (proc / name).parent.mkdir(parents=True, exist_ok=True)
        (proc / name).write_text(text)


def readings(reading: object) -> dict[str, float]:
    matrix = reading.sections["host"]  # type: ignore[attr-defined]
    assert matrix.rows == ("node-7",)
    return dict(zip(matrix.columns, matrix.values()[0].tolist(), strict=True))


def test_a_tick_is_compared_with_the_one_before(tmp_path: Path) -> None:
    write(tmp_path, FILES)
    clock = FakeClock()
    collector = HostCollector(tmp_path, "node-7", clock)
    first = collector.collect(0)
    assert first.missing == {"first_reading": 5}
    clock.advance(2.0)
    write(
        tmp_path,
        {
            "stat": "cpu  1100 0 540 8040 510 0 0 10 0 0\nprocs_running 6\nprocs_blocked 2\n",
            "diskstats": " 259 0 nvme0n1 5 0 8 9 8 0 16 14 0 1100 3\n 259 5 nvme1n1 1 0 8 1 2 0 16 2 0 3000 3\n",
        },
    )
    second = collector.collect(2000)
    assert second.missing == {}
    assert readings(second) == pytest.approx(
        {
            "cpu_utilization_pct": 75.0,
            "cpu_steal_pct": 5.0,
            "load_1m": 4.0,
            "runnable_count": 6.0,
            "memory_available_mib": 512.0,
            "memory_total_mib": 1024.0,
            "cpu_pressure_pct": 2.0,
            "memory_pressure_pct": 0.0,
            "io_pressure_pct": 7.25,
            "disk_busy_pct": 50.0,
            "disk_wait_ms": 2.0,
            "cpu_iowait_pct": 5.0,
            "blocked_count": 2.0,
            "swap_used_mib": 3.0,
            "oom_kill_count": 3.0,
            "memory_full_pressure_pct": 0.0,
            "io_full_pressure_pct": 6.5,
        }
    )


def test_counters_that_fall_give_no_rate(tmp_path: Path) -> None:
    write(tmp_path, FILES)
    clock = FakeClock()
    collector = HostCollector(tmp_path, "node-7", clock)
    collector.collect(0)
    clock.advance(1.0)
    write(tmp_path, {"stat": "cpu  10 0 5 80 5 0 0 0 0 0\n", "diskstats": " 259 0 nvme0n1 1 0 8 1 2 0 16 2 0 10 3\n"})
    found = readings(collector.collect(1000))
    assert math.isnan(found["cpu_utilization_pct"])
    assert math.isnan(found["disk_busy_pct"])
    assert found["load_1m"] == 4.0


def test_a_file_that_is_absent_or_odd_costs_its_own_columns(tmp_path: Path) -> None:
    write(tmp_path, FILES | {"pressure/io": "nonsense\n", "meminfo": ""})
    (tmp_path / "pressure/cpu").unlink()
    reading = HostCollector(tmp_path, "node-7", FakeClock()).collect(0)
    assert reading.missing == {"first_reading": 5, "unsupported": 6}
    assert readings(reading)["load_1m"] == 4.0


def test_no_proc_is_no_data(tmp_path: Path) -> None:
    with pytest.raises(NoData):
        HostCollector(tmp_path, "node-7", FakeClock()).collect(0)


def test_this_machines_own_proc_can_be_read() -> None:
    clock = FakeClock()
    collector = HostCollector(Path("/proc"), "node-7", clock)
    collector.collect(0)
    clock.advance(1.0)
    found = readings(collector.collect(1000))
    assert found["memory_total_mib"] > found["memory_available_mib"] > 0
