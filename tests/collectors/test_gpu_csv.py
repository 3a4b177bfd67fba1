"""Tables of GPU readings in the forms that nvidia-smi and dcgmi print."""

import csv
import io

import pytest

from collectors.gpu.recorded import GpuColumns, GpuRow, dmon_like, dmon_rows, looks_like, moment, scrape_like

SMI = """timestamp, index, uuid, pci.bus_id, temperature.gpu, power.draw [W], clocks.current.sm [MHz], utilization.gpu [%], clocks_throttle_reasons.active, remapped_rows.failure
2026/11/30 16:00:00.500, 0, GPU-a, 00000000:1B:00.0, 55, 401.22 W, 1980 MHz, 97 %, 0x0000000000000004, No
2026/11/30 16:00:00.502, 1, GPU-b, 00000000:43:00.0, [N/A], ERR!, [Not Supported], [GPU is lost], [N/A], Yes
"""  # noqa: E501 - a line as the tool prints it


def rows(text: str) -> list[GpuRow]:
    found = list(csv.DictReader(io.StringIO(text), skipinitialspace=True))
    columns = GpuColumns(found[0])
    assert columns.known
    return [row for line in found if (row := columns.row(line)) is not None]


def test_what_nvidia_smi_prints() -> None:
    first, second = rows(SMI)
    assert (first.gpu, first.pci, first.slot, first.ts_ms) == ("GPU-a", "0000:1b:00.0", 0, 1796054400500)
    assert first.values == {
        "temperature_c": 55.0, "power_w": 401.22, "sm_clock_mhz": 1980.0, "gpu_utilization_pct": 97.0,
        "clocks_event_reasons": 4.0, "remap_failed": 0.0,
    }  # fmt: skip
    assert second.values == {
        "temperature_c": "unsupported", "power_w": "unknown_error", "sm_clock_mhz": "unsupported",
        "gpu_utilization_pct": "lost", "clocks_event_reasons": "unsupported", "remap_failed": 1.0,
    }  # fmt: skip


def test_units_of_the_heading_count_where_values_have_none() -> None:
    (row,) = rows("uuid, power.draw [mW], memory.used [GiB]\nGPU-a, 401220, 2\n")
    assert row.values == {"power_w": pytest.approx(401.22), "memory_used_mib": 2048.0}
    assert row.ts_ms is None


def test_reasons_printed_one_by_one_become_bits() -> None:
    head = "index, clocks_event_reasons.sw_power_cap, clocks_event_reasons.hw_thermal_slowdown"
    (row,) = rows(f"{head}\n0, Active, Not Active\n")
    assert row.values == {"clocks_event_reasons": 4.0}
    assert row.gpu == "GPU 0"


def test_fields_of_dcgm_as_columns() -> None:
    (row,) = rows(
        "timestamp,Hostname,gpu,UUID,DCGM_FI_DEV_GPU_TEMP,DCGM_FI_DEV_XID_ERRORS\n1800000000,n1,3,GPU-x,60,79\n"
    )
    assert (row.node, row.gpu, row.slot, row.xid, row.values) == ("n1", "GPU-x", 3, 79, {"temperature_c": 60.0})


def test_a_row_that_says_no_gpu_or_no_time_is_none() -> None:
    columns = GpuColumns(["timestamp", "uuid", "temperature.gpu"])
    assert columns.row({"timestamp": "soon", "uuid": "GPU-a", "temperature.gpu": "3"}) is None
    assert columns.row({"timestamp": "2026/11/30 16:00:00", "uuid": "", "temperature.gpu": "3"}) is None


def test_other_tables_are_not_taken_for_gpus() -> None:
    assert not GpuColumns(["worker", "gpu", "time", "batch_time_norm"]).known
    assert not GpuColumns(["step", "rank", "step_us"]).known


DCGMI = """#Entity   TMPTR   POWER   GPUTL
ID        C       W       %
GPU 0     41      71.2    0
GPU 1     42      N/A     99
GPU 0     41
"""
SMI_DMON = """#Date       Time        gpu   pwr gtemp mtemp    sm   mem  mclk  pclk
#YYYYMMDD   HH:MM:SS    Idx     W     C     C     %     %   MHz   MHz
 20261130   16:00:00      0    43    35     -     0     0  2505  1075
"""


def test_both_dmon_tables() -> None:
    found = [row and GpuColumns(row).row(row) for _, row in dmon_rows(DCGMI.splitlines())]
    assert [row and (row.gpu, row.values["power_w"]) for row in found] == [
        ("GPU 0", 71.2),
        ("GPU 1", "unsupported"),
        None,
    ]
    ((line, row),) = dmon_rows(SMI_DMON.splitlines())
    assert line == 3
    assert row is not None
    one = GpuColumns(row).row(row)
    assert one is not None
    assert (one.ts_ms, one.values["sm_clock_mhz"], one.values["memory_temperature_c"]) == (
        1796054400000,
        1075.0,
        "blank",
    )


def test_what_a_file_is_by_its_beginning() -> None:
    scrape = b'# HELP DCGM_FI_DEV_GPU_TEMP GPU temperature (in C).\nDCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-a"} 60\n'
    assert scrape_like(scrape)
    assert dmon_like(DCGMI.encode())
    assert dmon_like(SMI_DMON.encode())
    assert not looks_like(b"# a comment about gpu things\nhello\n")
    assert not looks_like(b"# DCGM FIELD, Prometheus metric type, help message\nDCGM_FI_DEV_DEC_UTIL ,  gauge, x\n")


@pytest.mark.parametrize("text", ["", "-1", "1e300", "nan", "yesterday", None])
def test_no_moment(text: str | None) -> None:
    assert moment(text, 1000.0) is None
