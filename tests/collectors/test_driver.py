"""The real pynvml, its structs and unions, over a driver library of our own."""

import os
import time
from pathlib import Path

import numpy as np
import pytest
from nvml_shim import build

from collectors.base import CollectorError, NoData, Reading
from collectors.gpu_device import COLUMNS
from collectors.sampler import Sampler
from runtime.clock import SystemClock
from runtime.health import Counters
from schemas.inventory import Inventory


def readings(folder: Path, profile: str, count: int) -> tuple[list[Reading], Reading]:
    """`count` GPU readings with values, a good tenth of a second apart, and one of the jobs."""
    if not build(folder):
        pytest.skip("no C compiler to build a driver library with")
    environment = dict(os.environ) | {"LD_LIBRARY_PATH": str(folder), "NVML_SHIM": profile}
    argument = '{"proc": "/proc", "cluster": "eos"}'
    sampler = Sampler(
        "collectors.driver:collectors", argument, SystemClock(), Counters(), environment, deadline_s=20, pause_s=0.1
    )
    found: list[Reading] = []
    until = time.monotonic() + 60
    while len(found) < count:
        assert time.monotonic() < until
        try:
            found.append(sampler.ask("gpu", 0))
        except (NoData, CollectorError):
            continue
        finally:
            time.sleep(0.12)
    jobs = sampler.ask("jobs", 0)
    sampler.close()
    return found, jobs


@pytest.mark.parametrize(("profile", "nvlink_gbps"), [("hopper", 1.0), ("blackwell", 18.0)])
def test_the_whole_catalogue_comes_through_pynvml(tmp_path: Path, profile: str, nvlink_gbps: float) -> None:
    found, jobs = readings(tmp_path, profile, 4)
    last = found[-1]
    assert last.missing == {}
    gpu = last.sections["gpu"]
    assert gpu.rows[5] == "GPU-00000000-0000-4000-8000-000000000005"
    assert last.gpus[5].pci == "0005:1b:00.0"
    assert not np.isnan(gpu.values()).any()
    row = dict(zip(COLUMNS, gpu.select(COLUMNS)[5].tolist(), strict=True))
    assert row["power_w"] == 412.5
    assert row["temperature_c"] == 55
    assert row["thermal_margin_c"] == 32
    assert row["memory_used_mib"] == 61440
    assert (row["sm_active_ratio"], row["tensor_active_ratio"], row["dram_active_ratio"]) == pytest.approx(
        (0.2, 0.5, 1)
    )
    # Rates depend on when exactly the library looked at its clock.
    assert row["power_average_w"] == pytest.approx(400, rel=0.1)
    assert row["power_cap_share"] == pytest.approx(0.1, rel=0.1)
    assert row["pcie_tx_bytes_per_s"] == pytest.approx(3e9, rel=0.1)
    assert row["nvlink_tx_bytes_per_s"] == pytest.approx(nvlink_gbps * 1e9, rel=0.1)
    (inventory,) = [draft for draft in jobs.drafts if isinstance(draft, Inventory)]
    assert inventory.driver == "580.95.05"
    assert (inventory.gpus[3].serial, inventory.gpus[3].name) == ("1650000000003", "NVIDIA shim")
