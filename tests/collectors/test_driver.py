"""The real pynvml, its structs and unions, over a driver library of our own."""

import os
import time
from pathlib import Path

import numpy as np
import pytest
from nvml_shim import build

from collectors.agent.sampler import Sampler
from collectors.base import CollectorError, NoData, Reading
from collectors.gpu.device import COLUMNS
from runtime.clock import SystemClock
from runtime.health import Counters
from schemas.inventory import Inventory
from schemas.metrics import names


def readings(folder: Path, profile: str, count: int) -> tuple[list[Reading], Reading]:
    """`count` GPU readings with values, a good tenth of a second apart, and one of the jobs.

    The first and the last are of ticks in which everything is due.
    """
    if not build(folder):
        pytest.skip("no C compiler to build a driver library with")
    environment = dict(os.environ) | {"LD_LIBRARY_PATH": str(folder), "NVML_SHIM": profile}
    argument = '{"proc": "/proc", "cluster": "eos"}'
    sampler = Sampler(
        "collectors.gpu.driver:collectors", argument, SystemClock(), Counters(), environment, deadline_s=20, pause_s=0.1
    )
    found: list[Reading] = []
    until = time.monotonic() + 60
    while len(found) < count:
        assert time.monotonic() < until
        try:
            found.append(sampler.ask("gpu", 60_000 if len(found) == count - 1 else 0))
        except (NoData, CollectorError):
            continue
        finally:
            time.sleep(0.12)
    jobs = sampler.ask("jobs", 0)
    sampler.close()
    return found, jobs


@pytest.mark.parametrize(("profile", "nvlink_gbps"), [("hopper", 1.0), ("blackwell", 18.0)])
def test_the_whole_catalogue_comes_through_pynvml(tmp_path: Path, profile: str, nvlink_gbps: float) -> None:
    found, jobs = readings(tmp_path, profile, 5)
    last, slow = found[-2:]
    assert last.missing == {}
    assert list(last.sections) == ["gpu"]
    assert slow.sections["gpu"].columns == names("gpu")
    assert slow.missing == {"unsupported": 8 * 4}  # the shim's driver knows neither retired pages nor repairs
    tiers = dict(zip(names("gpu"), slow.sections["gpu"].values()[0].tolist(), strict=True))
    assert (tiers["pcie_width_lanes"], tiers["fabric_state"], tiers["fabric_fault"]) == (16, 3, 0)
    assert (tiers["slowdown_margin_c"], tiers["power_limit_default_w"]) == (-2, 700)
    assert (tiers["sram_correctable_count"], tiers["sram_threshold_exceeded"], tiers["mig_enabled"]) == (2, 0, 0)
    links = slow.sections["nvlink"]
    assert links.rows[18 + 3] == "GPU-00000000-0000-4000-8000-000000000001/3"
    assert len(links.rows) == 8 * 18
    assert not np.isnan(links.values()).any()
    assert links.column("tx_bytes_per_s")[5] == pytest.approx(1e9, rel=0.2)
    if profile == "blackwell":
        assert links.column("effective_ber_log10")[0] == pytest.approx(-253.8, abs=0.1)
        assert links.column("retransmit_ratio")[0] == pytest.approx(1e-3, rel=0.2)
        assert links.column("fec_0_per_s")[0] == pytest.approx(1e9, rel=0.2)
    else:
        assert {"crc_error_count", "replay_count"} <= set(links.columns)
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
    described = inventory.gpus[3]
    assert (described.serial, described.name) == ("1650000000003", "NVIDIA shim")
    assert (described.chassis, described.chassis_slot, described.chassis_tray) == ("1820325190006", 18, 7)
    assert (described.chassis_host, described.module) == (1, 4)
