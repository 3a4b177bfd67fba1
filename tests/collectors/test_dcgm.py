"""A dcgm-exporter in place of the driver: the same sections, blanks and resets understood, nothing old repeated."""

import math
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from fake_clock import FakeClock

from collectors.base import CollectorError, Reading
from collectors.gpu.dcgm import STALE_S, DcgmCollector, DcgmXids
from collectors.gpu.known import KnownGpus
from collectors.http_text import fetcher
from runtime.health import Counters
from schemas.event import Event
from schemas.frame import Gpu
from schemas.metrics import names

T0 = 1_764_504_000_000
LABELS = (
    'gpu="{i}",UUID="GPU-{i}",pci_bus_id="0000000{i}:1B:00.0",device="nvidia{i}",modelName="NVIDIA H100 80GB HBM3",'
    'Hostname="node-7",DCGM_FI_DRIVER_VERSION="580.95.05"'
)
USUAL = {
    "DCGM_FI_DEV_SM_CLOCK": "1980",
    "DCGM_FI_DEV_MEM_CLOCK": "2619",
    "DCGM_FI_DEV_GPU_TEMP": "55",
    "DCGM_FI_DEV_MEMORY_TEMP": "71",
    "DCGM_FI_DEV_POWER_USAGE": "412.500000",
    "DCGM_FI_DEV_GPU_UTIL": "97",
    "DCGM_FI_DEV_MEM_COPY_UTIL": "41",
    "DCGM_FI_DEV_FB_USED": "61440",
    "DCGM_FI_DEV_XID_ERRORS": "0",
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": "7",
    "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL": "123456",
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": "0",
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": "0.615",
    "DCGM_FI_PROF_DRAM_ACTIVE": "1.004",
    "DCGM_FI_PROF_PCIE_TX_BYTES": "3000000000",
    "DCGM_FI_PROF_NVLINK_TX_BYTES": "18000000000",
}


class Rig:
    """A scrape that a test writes, a clock, and the collector between them."""

    def __init__(self, gpus: int = 2, known: tuple[Gpu, ...] = ()) -> None:
        self.clock = FakeClock(T0)
        self.fields = [dict(USUAL) for _ in range(gpus)]
        self.more = ""
        self.seconds = 0
        self.still = False
        self.collector = DcgmCollector(self.text, self.clock, known)

    def text(self) -> str:
        lines = ["# HELP DCGM_FI_DEV_POWER_VIOLATION Throttling duration due to power constraints (in us)."]
        for i, fields in enumerate(self.fields):
            energy = {} if "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION" in fields else self.energy()
            labels = LABELS.format(i=i)
            lines += [f"{name}{{{labels}}} {value}" for name, value in (fields | energy).items()]
        return "\n".join(lines) + "\n" + self.more

    def energy(self) -> dict[str, str]:
        return {"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": str(10**12 + 400_000 * self.seconds)}

    def tick(self, seconds: int = 1) -> Reading:
        self.clock.advance(seconds)
        self.seconds += 0 if self.still else seconds
        return self.collector.collect(self.clock.now_ms())


def value(reading: Reading, column: str, row: int = 0, section: str = "gpu") -> float:
    return float(reading.sections[section].column(column)[row])


def test_a_scrape_fills_the_same_columns_in_the_same_units() -> None:
    rig = Rig()
    rig.tick()
    reading = rig.tick()
    gpu = reading.sections["gpu"]
    assert gpu.columns == names("gpu", every_s=1)
    assert reading.gpus[1] == Gpu(uuid="GPU-1", pci="0001:1b:00.0", slot=1)
    found = {name: value(reading, name) for name in gpu.columns if not math.isnan(value(reading, name))}
    assert found == pytest.approx(
        {
            "power_w": 412.5,
            "power_average_w": 400.0,
            "temperature_c": 55,
            "memory_temperature_c": 71,
            "sm_clock_mhz": 1980,
            "memory_clock_mhz": 2619,
            "gpu_utilization_pct": 97,
            "memory_utilization_pct": 41,
            "memory_used_mib": 61440,
            "tensor_active_ratio": 0.615,
            "dram_active_ratio": 1.0,
            "remap_failed": 0,
            "pcie_tx_bytes_per_s": 3e9,
            "pcie_replay_count": 7,
            "nvlink_tx_bytes_per_s": 1.8e10,
        }
    )
    assert set(reading.missing) == {"not_exported"}
    assert rig.collector.driver == "580.95.05"
    assert rig.collector.descriptions()[0].name == "NVIDIA H100 80GB HBM3"


def test_what_the_exporter_has_not_read_anew_is_not_repeated() -> None:
    rig = Rig()
    rig.tick()
    rig.still = True
    again = rig.tick()
    assert again.sections == {}
    assert again.missing == {"not_new": 2}
    assert [gpu.uuid for gpu in again.gpus] == ["GPU-0", "GPU-1"]
    rig.still = False
    rig.seconds += 1
    assert value(rig.tick(), "power_average_w") == pytest.approx(400)  # over both seconds


def test_an_exporter_that_never_reads_anew_is_stalled_and_recovers_by_itself() -> None:
    rig = Rig()
    rig.tick()
    rig.still = True
    with pytest.raises(CollectorError) as raised:
        rig.tick(round(STALE_S) + 1)
    assert (raised.value.code, raised.value.kind) == ("stalled", "collector_stalled")
    rig.still = False
    assert value(rig.tick(), "power_w") == 412.5


@pytest.mark.parametrize("blank", ["9223372036854775794", "9.223372036854776e+18", "140737488355330.0", "2147483634"])
def test_a_blank_of_dcgm_is_missing(blank: str) -> None:
    rig = Rig()
    rig.fields[0]["DCGM_FI_DEV_MEMORY_TEMP"] = blank
    reading = rig.tick()
    assert math.isnan(value(reading, "memory_temperature_c"))
    assert value(reading, "memory_temperature_c", 1) == 71
    assert reading.missing["blank"] == 1


@pytest.mark.parametrize(
    ("field", "column", "text"),
    [
        ("GPU_UTIL", "gpu_utilization_pct", "131072"),
        ("GPU_TEMP", "temperature_c", "255"),
        ("MEMORY_TEMP", "memory_temperature_c", "0"),
        ("POWER_USAGE", "power_w", "-12.5"),
        ("POWER_USAGE", "power_w", "3690000000000.0"),
    ],
)
def test_what_cannot_be_is_missing_and_costs_only_itself(field: str, column: str, text: str) -> None:
    rig = Rig()
    rig.fields[0][f"DCGM_FI_DEV_{field}"] = text
    reading = rig.tick()
    assert math.isnan(value(reading, column))
    assert reading.missing["out_of_range"] == 1
    assert value(reading, "sm_clock_mhz") == 1980


def test_energy_that_falls_begins_a_new_epoch() -> None:
    rig = Rig(1)
    watts = []
    for energy in (1000, 401_000, 801_000, 120, 400_120):
        rig.fields[0]["DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"] = str(energy)
        watts.append(value(rig.tick(), "power_average_w"))
    assert [w if w == w else None for w in watts] == [None, 400, 400, None, 400]


def test_energy_that_leaps_is_no_power() -> None:
    rig = Rig(1)
    rig.fields[0]["DCGM_FI_DEV_ENFORCED_POWER_LIMIT"] = "700"
    for energy in (10**9, 10**9 + 400_000, 10**9 + 2_400_000):
        rig.fields[0]["DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"] = str(energy)
        reading = rig.tick()
    assert math.isnan(value(reading, "power_average_w"))
    assert reading.missing["out_of_range"] == 1


def test_throttling_is_in_the_unit_that_its_help_text_names() -> None:
    rig = Rig(1)
    for count in (0, 250_000):
        rig.fields[0]["DCGM_FI_DEV_POWER_VIOLATION"] = str(count)
        reading = rig.tick()
    assert value(reading, "power_cap_share") == pytest.approx(0.25)


def test_an_xid_is_news_only_when_the_gauge_changes() -> None:
    rig = Rig()
    rig.fields[1]["DCGM_FI_DEV_XID_ERRORS"] = "31"  # from before we came
    xids = DcgmXids(rig.collector)
    rig.tick()
    told = list(xids.collect(T0).drafts)
    for code in ("79", "79", "79"):
        rig.fields[0]["DCGM_FI_DEV_XID_ERRORS"] = code
        rig.tick()
        told += xids.collect(T0).drafts
    assert [(e.kind, e.code, e.gpu, e.pci, e.severity) for e in told if isinstance(e, Event)] == [
        ("xid", 79, "GPU-0", "0000:1b:00.0", "critical")
    ]


def test_a_gpu_that_is_no_longer_exported_keeps_its_row() -> None:
    rig = Rig()
    rig.tick()
    del rig.fields[1]
    reading = rig.tick()
    assert reading.sections["gpu"].rows == ("GPU-0", "GPU-1")
    assert math.isnan(value(reading, "power_w", 1))


def events(reading: Reading) -> list[tuple[str, str, str, str]]:
    found = [draft for draft in reading.drafts if isinstance(draft, Event)]
    return [(event.kind, event.severity, event.gpu, event.pci) for event in found]


def test_a_gpu_that_three_scrapes_lack_is_lost_once_and_back_when_one_has_it() -> None:
    rig = Rig()
    rig.tick()
    gone = rig.fields.pop()
    assert [events(rig.tick()) for _ in range(4)] == [[], [], [("gpu_lost", "critical", "GPU-1", "0001:1b:00.0")], []]
    assert rig.tick().missing["lost"] == len(names("gpu"))
    rig.fields.append(gone)
    assert events(rig.tick()) == [("gpu_back", "info", "GPU-1", "0001:1b:00.0")]
    assert events(rig.tick()) == []


def test_a_scrape_that_stays_the_same_loses_no_gpu() -> None:
    rig = Rig()
    rig.tick()
    rig.fields.pop()
    rig.tick()
    rig.still = True
    assert [events(rig.tick()) for _ in range(5)] == [[]] * 5


def test_a_gpu_lost_while_no_agent_ran_is_missed_at_the_next_start() -> None:
    known = (Gpu(uuid="GPU-0", pci="0000:1b:00.0", slot=0), Gpu(uuid="GPU-9", pci="0009:1b:00.0", slot=9))
    rig = Rig(known=known)
    said = [events(rig.tick()) for _ in range(3)]
    assert said == [[], [], [("gpu_lost", "critical", "GPU-9", "0009:1b:00.0")]]
    reading = rig.tick()
    assert reading.sections["gpu"].rows == ("GPU-0", "GPU-1", "GPU-9")
    assert [(d.uuid, d.name) for d in rig.collector.descriptions()] == [
        ("GPU-0", "NVIDIA H100 80GB HBM3"),
        ("GPU-9", ""),
        ("GPU-1", "NVIDIA H100 80GB HBM3"),
    ]


def test_the_gpus_of_an_exporter_are_kept_over_a_restart_of_the_agent(tmp_path: Path) -> None:
    rig = Rig()
    before = KnownGpus(tmp_path / "gpus", rig.clock, Counters())
    before.load()
    before.note(rig.tick())
    later = Rig(gpus=1, known=KnownGpus(tmp_path / "gpus", rig.clock, Counters()).load())
    readings = [later.tick() for _ in range(3)]
    assert [events(reading) for reading in readings][-1] == [("gpu_lost", "critical", "GPU-1", "0001:1b:00.0")]
    assert readings[-1].sections["gpu"].rows == ("GPU-0", "GPU-1")


def test_a_gpu_in_whose_place_another_one_is_was_taken_out_and_is_forgotten() -> None:
    rig = Rig(known=(Gpu(uuid="GPU-old", pci="0001:1b:00.0", slot=1),))
    assert [events(rig.tick()) for _ in range(4)] == [[]] * 4
    assert [gpu.uuid for gpu in rig.tick().gpus] == ["GPU-0", "GPU-1"]
    assert [d.uuid for d in rig.collector.descriptions()] == ["GPU-0", "GPU-1"]


def test_an_exporter_whose_address_is_none_is_unreachable() -> None:
    with pytest.raises(CollectorError, match=r"unreachable: dcgm-exporter at http://127\.0\.0\.1:99999/"):
        fetcher("http://127.0.0.1:99999/", "dcgm-exporter", 0.5)()


def test_mig_instances_have_rows_of_their_own_and_their_parent_no_utilisation() -> None:
    rig = Rig(1)
    part = LABELS.format(i=1) + ',GPU_I_PROFILE="1g.10gb",GPU_I_ID="{id}"'
    rig.more = "".join(
        f"{field}{{{part.replace('{id}', id_)}}} {value}\n"
        for id_, used in (("7", "1000"), ("8", "2000"))
        for field, value in {
            "DCGM_FI_DEV_FB_USED": used,
            "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": "0.5",
            "DCGM_FI_DEV_GPU_UTIL": "0",
            "DCGM_FI_DEV_GPU_TEMP": "40",
        }.items()
    )
    reading = rig.tick()
    assert reading.sections["gpu"].rows == ("GPU-0", "GPU-1", "GPU-1/gi7", "GPU-1/gi8")
    assert [gpu.parent for gpu in reading.gpus] == ["", "", "GPU-1", "GPU-1"]
    assert math.isnan(value(reading, "gpu_utilization_pct", 1))
    assert value(reading, "temperature_c", 1) == 40
    assert value(reading, "memory_used_mib", 3) == 2000
    assert value(reading, "tensor_active_ratio", 2) == 0.5


def test_links_come_by_name_or_by_label() -> None:
    rig = Rig(1)
    labels = LABELS.format(i=0)
    rig.more = (
        f"DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L3{{{labels}}} 2\n"
        f"DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_L3{{{labels}}} 1\n"
        f"DCGM_FI_PROF_NVLINK_L3_TX_BYTES{{{labels}}} 1000\n"
        f'DCGM_FI_DEV_NVLINK_COUNT_EFFECTIVE_BER_FLOAT{{{labels},nvlink="4"}} 1.5e-254\n'
    )
    reading = rig.tick()
    assert reading.sections["nvlink"].rows == ("GPU-0/3", "GPU-0/4")
    assert value(reading, "crc_error_count", 0, "nvlink") == 3
    assert value(reading, "tx_bytes_per_s", 0, "nvlink") == 1000
    assert value(reading, "effective_ber_log10", 1, "nvlink") == pytest.approx(-253.8, abs=0.1)


def test_lines_of_cpus_switches_and_rubbish_are_no_gpus() -> None:
    rig = Rig(1)
    rig.more = 'DCGM_FI_DEV_CPU_TEMP_CURRENT{cpu="0",Hostname="n"} 40\n...\nDCGM_FI_DEV_FB_USED{nvswitch="0"} 1\n'
    reading = rig.tick()
    assert reading.sections["gpu"].rows == ("GPU-0",)
    assert reading.missing["unreadable"] == 1


def test_a_page_that_is_no_scrape_is_an_error() -> None:
    with pytest.raises(CollectorError, match="no_metrics"):
        DcgmCollector(lambda: "<html><body>it works</body></html>", FakeClock(T0)).collect(T0)


SCRAPE = Path(__file__).parents[2] / ".." / "shared/data/gpu/dcgm_exporter/readme_scrape.prom"


@pytest.mark.skipif(not SCRAPE.exists(), reason="the public data sets are not beside the project")
def test_the_exporters_own_example_is_understood() -> None:
    reading = DcgmCollector(SCRAPE.read_text, FakeClock(T0)).collect(T0)
    assert reading.sections["gpu"].rows == ("GPU-00000000-0000-4000-8000-000000000008",)
    assert (value(reading, "sm_clock_mhz"), value(reading, "memory_clock_mhz")) == (139, 405)
    assert math.isnan(value(reading, "memory_temperature_c"))
    assert (reading.missing["blank"], reading.missing["unreadable"]) == (1, 2)


class Page(BaseHTTPRequestHandler):
    """An exporter's page, or what stands in its place."""

    status, body = 200, b"DCGM_FI_DEV_GPU_TEMP 1\n"
    hang = threading.Event()

    def do_GET(self) -> None:
        if self.path == "/hang":
            Page.hang.wait(5)
            return
        self.send_response(503 if self.path == "/busy" else 200)
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@pytest.fixture
def page() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever)
    Page.hang.clear()
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    Page.hang.set()
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_page_is_read(page: str) -> None:
    assert fetcher(f"{page}/metrics", "dcgm-exporter", 2.0)() == "DCGM_FI_DEV_GPU_TEMP 1\n"


@pytest.mark.parametrize(("path", "code"), [("/busy", "http_503"), ("/hang", "timeout")])
def test_every_way_of_failing_has_its_name(page: str, path: str, code: str) -> None:
    with pytest.raises(CollectorError) as raised:
        fetcher(f"{page}{path}", "dcgm-exporter", 0.2)()
    assert raised.value.code == code


def test_nobody_there_is_unreachable(page: str) -> None:
    with pytest.raises(CollectorError, match=r"unreachable: dcgm-exporter at http://127\.0\.0\.1:1/"):
        fetcher("http://127.0.0.1:1/", "dcgm-exporter", 0.5)()
