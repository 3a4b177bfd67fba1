"""`lockstep analyze` on recorded GPU readings: scrapes, nvidia-smi's CSV, dmon tables."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lockstep.analyze import analyze, events
from lockstep.analyze.recognise import recognise

REAL = Path(__file__).parents[2] / ".." / "shared" / "data" / "gpu"
needs_real = pytest.mark.skipif(not REAL.is_dir(), reason="shared/data is not beside the project")
T0_S = 1_800_000_000

Fields = dict[str, str]


def scrape(change: Callable[[str, int, Fields], None], samples: int = 1, nodes: tuple[str, ...] = ("n1",)) -> str:
    """Scrapes one after another, two GPUs a node, with the samples' times."""
    lines = ["# HELP DCGM_FI_DEV_GPU_TEMP GPU temperature (in C)."]
    for at in range(samples):
        for node in nodes:
            for gpu in range(2):
                fields = {
                    "GPU_TEMP": "55", "MEMORY_TEMP": "9223372036854775794", "POWER_USAGE": f"{400 + at % 3}",
                    "SM_CLOCK": "1980", "GPU_UTIL": "97", "XID_ERRORS": "0", "CLOCKS_EVENT_REASONS": "4",
                    "ECC_DBE_VOL_TOTAL": "0", "ROW_REMAP_FAILURE": "0",
                }  # fmt: skip
                change(f"{node}/{gpu}", at, fields)
                labels = f'{{gpu="{gpu}",UUID="GPU-{node}-{gpu}",Hostname="{node}"}}'
                lines += [f"DCGM_FI_DEV_{k}{labels} {v} {(T0_S + at) * 1000}" for k, v in fields.items()]
    return "\n".join(lines) + "\n"


def put(where: str, since: int = 0, **values: str) -> Callable[[str, int, Fields], None]:
    return lambda who, at, fields: fields.update(values) if who == where and at >= since else None


def told(path: Path) -> list[tuple[str, str | None, str | None]]:
    found: list[tuple[str, str | None, str | None]] = []
    for incident in analyze([path]).to_json()["incidents"]:
        found += [(incident["cause"], c["node"], c["gpu"]) for c in incident["culprits"]]
    return found


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_a_healthy_scrape_of_several_nodes(tmp_path: Path) -> None:
    path = write(tmp_path / "s", scrape(lambda *_: None, nodes=("n1", "n2")))
    assert recognise(path) == "dcgm"
    report = analyze([path])
    assert report.healthy
    assert report.inputs[0].records == 4
    assert "not judged: changes on 2 nodes" in report.inputs[0].notes[0]


@pytest.mark.parametrize(
    ("values", "cause"),
    [
        ({"ECC_DBE_VOL_TOTAL": "3"}, "gpu_memory_error"),
        ({"ROW_REMAP_FAILURE": "1"}, "gpu_memory_error"),
        ({"XID_ERRORS": "79"}, "gpu_lost"),
        ({"CLOCKS_EVENT_REASONS": "64"}, "thermal_throttle"),
        ({"CLOCKS_EVENT_REASONS": "128"}, "power_brake"),
    ],
)
def test_what_one_scrape_tells(tmp_path: Path, values: Fields, cause: str) -> None:
    path = write(tmp_path / "s", scrape(put("n2/1", **values), nodes=("n1", "n2")))
    assert told(path) == [(cause, "n2", "GPU-n2-1")]


@pytest.mark.parametrize("values", [{"XID_ERRORS": "13"}, {"CLOCKS_EVENT_REASONS": "4"}, {"GPU_UTIL": "4294967295"}])
def test_what_is_no_fault_of_the_hardware(tmp_path: Path, values: Fields) -> None:
    assert told(write(tmp_path / "s", scrape(put("n1/0", **values)))) == []


def test_a_value_out_of_its_range_is_counted(tmp_path: Path) -> None:
    report = analyze([write(tmp_path / "s", scrape(put("n1/0", GPU_UTIL="131072")))])
    assert report.inputs[0].reasons == {"out_of_range": 1}


def test_an_error_counter_that_grows_in_a_series(tmp_path: Path) -> None:
    path = write(tmp_path / "s", scrape(put("n1/1", since=5, ECC_DBE_VOL_TOTAL="1"), samples=10))
    (incident,) = analyze([path]).to_json()["incidents"]
    assert (incident["cause"], incident["culprits"][0]["gpu"]) == ("gpu_memory_error", "GPU-n1-1")
    assert incident["detected"]["ts"] == "2027-01-15T08:00:05.000Z"


def smi(seconds: int, clock: Callable[[int, int], float], gpus: int = 4) -> str:
    rng = np.random.default_rng(1)
    lines = ["timestamp, index, uuid, clocks.sm [MHz], power.draw [W], utilization.gpu [%], temperature.gpu"]
    for at in range(seconds):
        for gpu in range(gpus):
            when = f"2026/11/30 16:{at // 60:02}:{at % 60:02}.{gpu:03}"
            power, heat = 650 + rng.normal(0, 8), 60 + gpu + rng.normal(0, 0.4)
            values = f"{clock(at, gpu):.0f} MHz, {power:.2f} W, 99 %, {heat:.0f}"
            lines.append(f"{when}, {gpu}, GPU-{gpu}, {values}")
    return "\n".join(lines) + "\n"


def test_a_gpu_slower_than_its_neighbours_all_along(tmp_path: Path) -> None:
    path = write(tmp_path / "smi.csv", smi(20, lambda at, gpu: 1400 if gpu == 2 else 1980))
    assert recognise(path) == "dcgm"
    assert told(path) == [("gpu_degraded", None, "GPU-2")]


def test_a_healthy_series_is_quiet(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    path = write(tmp_path / "smi.csv", smi(150, lambda at, gpu: 1980 - 15 * int(rng.integers(0, 3))))
    report = analyze([path])
    assert report.healthy
    assert report.inputs[0].notes == []


def test_a_lost_gpu_in_a_series(tmp_path: Path) -> None:
    last = "16:00:04.001, 1, GPU-1, "
    text = smi(5, lambda at, gpu: 1980).replace(f"{last}1980 MHz", f"{last}[GPU is lost]")
    assert told(write(tmp_path / "smi.csv", text)) == [("gpu_lost", None, "GPU-1")]


def test_a_dmon_table(tmp_path: Path) -> None:
    lines = ["#Entity   SMCLK   POWER   GPUTL", "ID                W       %"]
    lines += [f"GPU {g}     {1400 if g == 1 else 1980}   650.0   99" for _ in range(12) for g in range(4)]
    path = write(tmp_path / "dmon.txt", "\n".join(lines) + "\n")
    assert recognise(path) == "dcgm"
    assert told(path) == [("gpu_degraded", None, "GPU 1")]


def test_readings_are_listed(tmp_path: Path) -> None:
    listed: list[dict[str, Any]] = list(events([write(tmp_path / "s", scrape(put("n1/0", XID_ERRORS="79")))]))
    assert listed[0]["temperature_c"] == 55.0
    assert [e["code"] for e in listed if e["event"] == "xid"] == [79]


@needs_real
def test_the_real_scrape_with_a_blank_is_healthy() -> None:
    report = analyze([REAL / "dcgm_exporter" / "readme_scrape.prom"])
    assert report.healthy
