"""What dcgm-exporter's fields mean in the catalogue's terms.

Kind and unit are declared here, field by field: the exporter's own counters file calls rates counters and the other way
round. DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL is not used, because it is one or the other by version.
"""

import re
from typing import NamedTuple

MICROSECONDS, NANOSECONDS, MILLI = 1e-6, 1e-9, 1e-3


class DcgmField(NamedTuple):
    """A column, and how its value is made: times `scale`, or its growth per second; several fields of one column are
    added up if `add`, else the first that is there is taken."""

    column: str
    scale: float = 1.0
    rate: bool = False
    add: bool = False


_GPU = {
    "POWER_USAGE_INSTANT": DcgmField("power_w"),
    "POWER_USAGE": DcgmField("power_w"),
    "TOTAL_ENERGY_CONSUMPTION": DcgmField("power_average_w", MILLI, rate=True),
    "ENFORCED_POWER_LIMIT": DcgmField("power_limit_w"),
    "POWER_MGMT_LIMIT": DcgmField("power_limit_w"),
    "POWER_MGMT_LIMIT_DEF": DcgmField("power_limit_default_w"),
    "GPU_TEMP": DcgmField("temperature_c"),
    "MEMORY_TEMP": DcgmField("memory_temperature_c"),
    "GPU_TEMP_LIMIT": DcgmField("thermal_margin_c"),
    "SM_CLOCK": DcgmField("sm_clock_mhz"),
    "MEM_CLOCK": DcgmField("memory_clock_mhz"),
    "CLOCKS_EVENT_REASONS": DcgmField("clocks_event_reasons"),
    "CLOCK_THROTTLE_REASONS": DcgmField("clocks_event_reasons"),
    "CLOCKS_EVENT_REASON_SW_POWER_CAP_NS": DcgmField("power_cap_share", NANOSECONDS, rate=True),
    "CLOCKS_EVENT_REASON_SYNC_BOOST_NS": DcgmField("sync_boost_share", NANOSECONDS, rate=True),
    "CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS": DcgmField("software_thermal_share", NANOSECONDS, rate=True),
    "CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS": DcgmField("hardware_thermal_share", NANOSECONDS, rate=True),
    "CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS": DcgmField("power_brake_share", NANOSECONDS, rate=True),
    "POWER_VIOLATION": DcgmField("power_cap_share", NANOSECONDS, rate=True),
    "THERMAL_VIOLATION": DcgmField("hardware_thermal_share", NANOSECONDS, rate=True),
    "SYNC_BOOST_VIOLATION": DcgmField("sync_boost_share", NANOSECONDS, rate=True),
    "GPU_UTIL": DcgmField("gpu_utilization_pct"),
    "MEM_COPY_UTIL": DcgmField("memory_utilization_pct"),
    "FB_USED": DcgmField("memory_used_mib"),
    "ECC_SBE_VOL_TOTAL": DcgmField("ecc_sbe_count"),
    "ECC_DBE_VOL_TOTAL": DcgmField("ecc_dbe_count"),
    "ECC_SBE_AGG_TOTAL": DcgmField("ecc_sbe_lifetime_count"),
    "ECC_DBE_AGG_TOTAL": DcgmField("ecc_dbe_lifetime_count"),
    "RETIRED_SBE": DcgmField("retired_page_count", add=True),
    "RETIRED_DBE": DcgmField("retired_page_count", add=True),
    "RETIRED_PENDING": DcgmField("retirement_pending"),
    "CORRECTABLE_REMAPPED_ROWS": DcgmField("remapped_correctable_count"),
    "UNCORRECTABLE_REMAPPED_ROWS": DcgmField("remapped_uncorrectable_count"),
    "ROW_REMAP_PENDING": DcgmField("remap_pending"),
    "ROW_REMAP_FAILURE": DcgmField("remap_failed"),
    "PCIE_REPLAY_COUNTER": DcgmField("pcie_replay_count"),
    "PCIE_LINK_GEN": DcgmField("pcie_generation"),
    "PCIE_LINK_WIDTH": DcgmField("pcie_width_lanes"),
    "PCIE_MAX_LINK_WIDTH": DcgmField("pcie_width_most_lanes"),
    "MIG_MODE": DcgmField("mig_enabled"),
    "GET_GPU_RECOVERY_ACTION": DcgmField("recovery_action"),
    "NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL": DcgmField("nvlink_error_count", add=True),
    "NVLINK_CRC_DATA_ERROR_COUNT_TOTAL": DcgmField("nvlink_error_count", add=True),
    "NVLINK_REPLAY_ERROR_COUNT_TOTAL": DcgmField("nvlink_error_count", add=True),
    "NVLINK_RECOVERY_ERROR_COUNT_TOTAL": DcgmField("nvlink_error_count", add=True),
    "NVLINK_COUNT_RX_MALFORMED_PACKET_ERRORS": DcgmField("nvlink_error_count", add=True),
    "NVLINK_COUNT_RX_BUFFER_OVERRUN_ERRORS": DcgmField("nvlink_error_count", add=True),
    "NVLINK_COUNT_RX_ERRORS": DcgmField("nvlink_error_count", add=True),
    "NVLINK_COUNT_RX_REMOTE_ERRORS": DcgmField("nvlink_error_count", add=True),
    "NVLINK_COUNT_LOCAL_LINK_INTEGRITY_ERRORS": DcgmField("nvlink_error_count", add=True),
    "NVLINK_COUNT_TX_DISCARDS": DcgmField("nvlink_error_count", add=True),
    "NVLINK_COUNT_TX_BYTES": DcgmField("nvlink_tx_bytes_per_s", rate=True),
    "NVLINK_COUNT_RX_BYTES": DcgmField("nvlink_rx_bytes_per_s", rate=True),
}

_PROFILING = {
    "SM_ACTIVE": DcgmField("sm_active_ratio"),
    "PIPE_TENSOR_ACTIVE": DcgmField("tensor_active_ratio"),
    "DRAM_ACTIVE": DcgmField("dram_active_ratio"),
    "PCIE_TX_BYTES": DcgmField("pcie_tx_bytes_per_s"),
    "PCIE_RX_BYTES": DcgmField("pcie_rx_bytes_per_s"),
    "NVLINK_TX_BYTES": DcgmField("nvlink_tx_bytes_per_s"),
    "NVLINK_RX_BYTES": DcgmField("nvlink_rx_bytes_per_s"),
}

GPU_FIELDS: dict[str, DcgmField] = {
    **{f"DCGM_FI_DEV_{name}": field for name, field in _GPU.items()},
    **{f"DCGM_FI_PROF_{name}": field for name, field in _PROFILING.items()},
}
"""Fields of a GPU, by preference where two fill one column."""

LINK_FIELDS: dict[str, DcgmField] = {
    "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT": DcgmField("crc_error_count", add=True),
    "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT": DcgmField("crc_error_count", add=True),
    "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT": DcgmField("replay_count"),
    "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT": DcgmField("recovery_count"),
    "DCGM_FI_DEV_NVLINK_COUNT_TX_BYTES": DcgmField("tx_bytes_per_s", rate=True),
    "DCGM_FI_DEV_NVLINK_COUNT_RX_BYTES": DcgmField("rx_bytes_per_s", rate=True),
    "DCGM_FI_DEV_NVLINK_COUNT_RX_MALFORMED_PACKET_ERRORS": DcgmField("malformed_count"),
    "DCGM_FI_DEV_NVLINK_COUNT_RX_BUFFER_OVERRUN_ERRORS": DcgmField("overrun_count"),
    "DCGM_FI_DEV_NVLINK_COUNT_RX_ERRORS": DcgmField("receive_error_count"),
    "DCGM_FI_DEV_NVLINK_COUNT_RX_REMOTE_ERRORS": DcgmField("remote_error_count"),
    "DCGM_FI_DEV_NVLINK_COUNT_RX_GENERAL_ERRORS": DcgmField("general_error_count"),
    "DCGM_FI_DEV_NVLINK_COUNT_LOCAL_LINK_INTEGRITY_ERRORS": DcgmField("integrity_error_count"),
    "DCGM_FI_DEV_NVLINK_COUNT_TX_DISCARDS": DcgmField("discard_count"),
    "DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_SUCCESSFUL_EVENTS": DcgmField("recovered_count"),
    "DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS": DcgmField("recovery_failed_count"),
    "DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS": DcgmField("recovery_count"),
    "DCGM_FI_DEV_NVLINK_COUNT_EFFECTIVE_ERRORS": DcgmField("effective_error_count"),
    "DCGM_FI_DEV_NVLINK_COUNT_RX_SYMBOL_ERRORS": DcgmField("symbol_error_count"),
    "DCGM_FI_DEV_NVLINK_COUNT_EFFECTIVE_BER_FLOAT": DcgmField("effective_ber_log10"),
    "DCGM_FI_DEV_NVLINK_COUNT_SYMBOL_BER_FLOAT": DcgmField("symbol_ber_log10"),
    "DCGM_FI_PROF_NVLINK_TX_BYTES": DcgmField("tx_bytes_per_s"),
    "DCGM_FI_PROF_NVLINK_RX_BYTES": DcgmField("rx_bytes_per_s"),
}
"""Fields of one link: by a label, or by a name that says which ("..._COUNT_L3", "NVLINK_L3_TX_BYTES")."""

_NAMED_LINK = re.compile(r"_L(\d+)(?=_|$)")
_LINK_LABELS = ("nvlink", "link", "nvlink_id")


def link_of(name: str, labels: dict[str, str]) -> tuple[str, str]:
    """The field's name without its link, and the link ("" where the whole GPU is meant).

    >>> link_of("DCGM_FI_PROF_NVLINK_L3_TX_BYTES", {}), link_of("DCGM_FI_DEV_GPU_UTIL", {"gpu": "0"})
    (('DCGM_FI_PROF_NVLINK_TX_BYTES', '3'), ('DCGM_FI_DEV_GPU_UTIL', ''))
    """
    if (found := _NAMED_LINK.search(name)) is not None:
        return name[: found.start()] + name[found.end() :], found[1]
    return name, next((labels[label] for label in _LINK_LABELS if labels.get(label, "").isdecimal()), "")


def scale_of(field: DcgmField, said: str) -> float:
    """The scale, by what the help text says of the unit: throttling was microseconds before it was nanoseconds."""
    if field.scale == NANOSECONDS and re.search(r"\(in (us|µs|microseconds)\)", said):
        return MICROSECONDS
    return field.scale
