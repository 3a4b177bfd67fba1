"""Series of GPU readings as people record them: nvidia-smi's CSV, `nvidia-smi dmon`, `dcgmi dmon`, DCGM's field names.

Rows come as text by column name, one row a GPU and sample; `dmon_rows` makes such rows of the two dmon tables. What a
column means is declared here by name, whichever tool wrote it; names of the catalogue are understood too.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any, NamedTuple

from collectors.gpu.dcgm_fields import GPU_FIELDS
from collectors.gpu.printed import printed
from collectors.pci import pci_address
from collectors.rates import Value
from schemas.metrics import names

NVIDIA_SMI = {
    "temperature.gpu": "temperature_c",
    "temperature.memory": "memory_temperature_c",
    "power.draw": "power_w",
    "power.draw.instant": "power_w",
    "power.draw.average": "power_average_w",
    "enforced.power.limit": "power_limit_w",
    "power.limit": "power_limit_w",
    "power.default_limit": "power_limit_default_w",
    "clocks.sm": "sm_clock_mhz",
    "clocks.current.sm": "sm_clock_mhz",
    "clocks.mem": "memory_clock_mhz",
    "clocks.current.memory": "memory_clock_mhz",
    "utilization.gpu": "gpu_utilization_pct",
    "utilization.memory": "memory_utilization_pct",
    "memory.used": "memory_used_mib",
    "clocks_throttle_reasons.active": "clocks_event_reasons",
    "clocks_event_reasons.active": "clocks_event_reasons",
    "ecc.errors.corrected.volatile.total": "ecc_sbe_count",
    "ecc.errors.uncorrected.volatile.total": "ecc_dbe_count",
    "ecc.errors.corrected.aggregate.total": "ecc_sbe_lifetime_count",
    "ecc.errors.uncorrected.aggregate.total": "ecc_dbe_lifetime_count",
    "retired_pages.pending": "retirement_pending",
    "remapped_rows.correctable": "remapped_correctable_count",
    "remapped_rows.uncorrectable": "remapped_uncorrectable_count",
    "remapped_rows.pending": "remap_pending",
    "remapped_rows.failure": "remap_failed",
    "pcie.link.gen.current": "pcie_generation",
    "pcie.link.gen.gpucurrent": "pcie_generation",
    "pcie.link.width.current": "pcie_width_lanes",
    "pcie.link.width.max": "pcie_width_most_lanes",
    "mig.mode.current": "mig_enabled",
    "gpu_recovery_action": "recovery_action",
}
"""What `nvidia-smi --help-query-gpu` calls it."""

_REASON = re.compile(r"clocks_(?:throttle|event)_reasons\.(\w+)")

REASONS = {
    "gpu_idle": 0x1, "applications_clocks_setting": 0x2, "sw_power_cap": 0x4, "hw_slowdown": 0x8, "sync_boost": 0x10,
    "sw_thermal_slowdown": 0x20, "hw_thermal_slowdown": 0x40, "hw_power_brake_slowdown": 0x80,
}  # fmt: skip
"""Reasons that nvidia-smi prints one by one, as NVML's bits."""

DMON = {
    # nvidia-smi dmon
    "pwr": "power_w", "gtemp": "temperature_c", "mtemp": "memory_temperature_c", "sm": "gpu_utilization_pct",
    "mem": "memory_utilization_pct", "mclk": "memory_clock_mhz", "pclk": "sm_clock_mhz", "fb": "memory_used_mib",
    "sbecc": "ecc_sbe_count", "dbecc": "ecc_dbe_count", "pci": "pcie_replay_count",
    # dcgmi dmon
    "TMPTR": "temperature_c", "MMTMP": "memory_temperature_c", "POWER": "power_w", "GPUTL": "gpu_utilization_pct",
    "MCUTL": "memory_utilization_pct", "SMCLK": "sm_clock_mhz", "MMCLK": "memory_clock_mhz",
    "FBUSD": "memory_used_mib", "ESVTL": "ecc_sbe_count", "EDVTL": "ecc_dbe_count", "SMACT": "sm_active_ratio",
    "TENSO": "tensor_active_ratio", "DRAMA": "dram_active_ratio", "PCITX": "pcie_tx_bytes_per_s",
    "PCIRX": "pcie_rx_bytes_per_s", "NVLTX": "nvlink_tx_bytes_per_s", "NVLRX": "nvlink_rx_bytes_per_s",
}  # fmt: skip
"""Short names of the two tables."""

XID = ("DCGM_FI_DEV_XID_ERRORS", "XIDER")
"""The last XID of the GPU, kept for ever."""

GPU_NAMES = ("uuid", "UUID", "gpu_uuid", "index", "gpu", "Entity", "pci.bus_id")
TIMES = {"ts_ms": 1.0, "time_ms": 1.0, "timestamp": 1000.0, "time": 1000.0, "ts": 1000.0}
NODES = ("node", "Hostname", "hostname", "host")

_FLAGS = {"yes": 1.0, "no": 0.0, "active": 1.0, "not active": 0.0, "enabled": 1.0, "disabled": 0.0}
_ACTIONS = {"none": 0.0, "reset": 1.0, "gpu reset": 1.0, "reboot": 2.0, "node reboot": 2.0, "drain p2p": 3.0,
            "drain and reset": 4.0}  # fmt: skip

_CATALOGUE = frozenset(names("gpu"))
LONGEST_NAME, MOST_COLUMNS = 128, 4096
"""A column with a longer name is none of a GPU's, and a table with more columns is cut there: the longest names of
nvidia-smi have 60 letters, and it has about 150."""


class GpuRow(NamedTuple):
    """One GPU at one moment. `ts_ms` is None and `node` "" where the table has no such column; `gpu` is its UUID, else
    its index as "GPU 0"; `values` are by metric of the catalogue, a reason where there is no number."""

    ts_ms: int | None
    node: str
    gpu: str
    pci: str
    slot: int
    values: dict[str, Value]
    xid: int | None


class GpuColumns:
    """What the columns of one table mean."""

    def __init__(self, columns: Iterable[str]) -> None:
        self._metrics: dict[str, tuple[str, str, float]] = {}
        self._reasons: dict[str, int] = {}
        told = (name for name in islice(columns, MOST_COLUMNS) if name and len(name) <= LONGEST_NAME)
        plain = {_name_and_unit(name)[0]: name for name in told}
        for name, column in plain.items():
            unit = _name_and_unit(column)[1]
            if (reason := _REASON.fullmatch(name)) is not None and reason[1] in REASONS:
                self._reasons[column] = REASONS[reason[1]]
            elif (known := _meaning(name)) is not None:
                self._metrics[column] = (known[0], unit, known[1])
        self._time = next((plain[name] for name in TIMES if name in plain), None)
        self._scale = TIMES[_name_and_unit(self._time)[0]] if self._time is not None else 1.0
        self._node = next((plain[name] for name in NODES if name in plain), None)
        self._names = [plain[name] for name in GPU_NAMES if name in plain]
        self._pci = next((plain[name] for name in ("pci.bus_id", "pci_bus_id") if name in plain), None)
        self._index = next((plain[name] for name in ("index", "gpu", "Entity") if name in plain), None)
        self._xid = next((plain[name] for name in XID if name in plain), None)

    @property
    def known(self) -> bool:
        """Whether this is a table of GPUs: who is meant, and something about it."""
        return bool(self._names) and bool(self._metrics or self._reasons or self._xid)

    def row(self, row: Mapping[str, Any]) -> GpuRow | None:
        """One row; None where it does not say whose it is, or when although the table has a time."""
        names_ = [str(row.get(name) or "").strip() for name in self._names]
        name = next((name for name in names_ if name), "")
        ts_ms = moment(row.get(self._time), self._scale) if self._time is not None else None
        if not name or (self._time is not None and ts_ms is None):
            return None
        index = str(row.get(self._index) or "").removeprefix("GPU").strip() if self._index is not None else ""
        slot = int(index) if index.isdecimal() and len(index) < 6 else 0
        values: dict[str, Value] = {}
        for column, (metric, unit, scale) in self._metrics.items():
            value = _value(metric, row.get(column), unit)
            held = values.get(metric)
            if held is None or isinstance(held, str):
                values[metric] = value if isinstance(value, str) else value * scale
        bits = [(bit, str(row.get(column) or "").strip().lower()) for column, bit in self._reasons.items()]
        if bits and "clocks_event_reasons" not in values and any(word in _FLAGS for _, word in bits):
            values["clocks_event_reasons"] = float(sum(bit for bit, word in bits if _FLAGS.get(word)))
        xid = printed(str(row.get(self._xid) or "")) if self._xid is not None else ""
        return GpuRow(
            ts_ms,
            str(row.get(self._node) or "").strip() if self._node is not None else "",
            f"GPU {name}" if name.isdecimal() else name,
            pci_address(str(row.get(self._pci) or "")) if self._pci is not None else "",
            slot,
            values,
            None if isinstance(xid, str) else int(xid),
        )


def _name_and_unit(column: str) -> tuple[str, str]:
    """A heading of nvidia-smi and the unit at its end.

    >>> _name_and_unit("power.draw [W]"), _name_and_unit("ts")
    (('power.draw', 'W'), ('ts', ''))
    """
    name, opened, unit = column.strip().partition("[")
    return (name.strip(), unit[:-1]) if opened and unit.endswith("]") else (column.strip(), "")


def _meaning(name: str) -> tuple[str, float] | None:
    """The metric of a column's name and its scale; None for one that says nothing of a GPU's state."""
    if name in NVIDIA_SMI or name in DMON:
        return NVIDIA_SMI.get(name) or DMON[name], 1.0
    if name in _CATALOGUE:
        return name, 1.0
    field = GPU_FIELDS.get(name)
    return (field.column, field.scale) if field is not None and not (field.rate or field.add) else None


def _value(metric: str, told: Any, unit: str) -> Value:
    if told is None or told == "":
        return "blank"
    if isinstance(told, bool | int | float):
        return printed(repr(float(told)))
    text = told.strip()
    low = text.strip("[]").lower()
    if metric == "recovery_action" and low in _ACTIONS:
        return _ACTIONS[low]
    if low in _FLAGS:
        return _FLAGS[low]
    bare = text.replace(".", "", 1).isdecimal()
    return printed(f"{text} {unit}" if unit and bare else text)


def moment(told: Any, scale: float) -> int | None:
    """A time as milliseconds: a number times `scale` (to milliseconds), or a date as nvidia-smi or ISO 8601 has it, UTC
    where it says nothing else.

    >>> moment("2026/11/30 16:00:00.500", 1000.0), moment("1800000000", 1000.0), moment("soon", 1.0)
    (1796054400500, 1800000000000, None)
    """
    text = str(told if told is not None else "").strip()
    try:
        number = float(text) * scale
        return int(number) if 0 <= number < 1e15 else None
    except ValueError:
        pass
    try:
        at = datetime.fromisoformat(text.replace("/", "-"))
        return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


def scrape_like(start: bytes) -> bool:
    """Whether a file that begins so is a dcgm-exporter's scrape."""
    return (
        re.search(rb"^(?:# (?:HELP|TYPE) DCGM_(?:FI|EXP)_\w+ |DCGM_(?:FI|EXP)_\w+\{)", start, re.MULTILINE) is not None
    )


def dmon_like(start: bytes) -> bool:
    """Whether a file that begins so is a dmon table."""
    said = (dmon_header(line) for line in start.decode("utf-8", "replace").splitlines()[:5])
    return any(found is not None and GpuColumns(found).known for found in said)


def looks_like(start: bytes) -> bool:
    """Whether a file that begins so holds GPU readings by other marks than the columns of a plain table."""
    return scrape_like(start) or dmon_like(start)


def dmon_header(line: str) -> Sequence[str] | None:
    """The column names of a dmon table's heading ("# gpu  pwr ...", "#Entity  TMPTR ..."); None for any other line."""
    if not line.startswith("#"):
        return None
    found = line[1:].split()
    return found if found and {"gpu", "Entity"} & set(found) and len(found) > 1 else None


def dmon_rows(lines: Iterable[str]) -> Iterator[tuple[int, Mapping[str, str] | None]]:
    """The rows of a dmon table by column name with their line, headings and units left out; None for a broken one."""
    heading: Sequence[str] = ()
    for number, line in enumerate(lines, 1):
        if (found := dmon_header(line)) is not None:
            heading = found
        elif line.strip() and not line.startswith("#") and not line.startswith("ID "):
            values = re.sub(r"^(\s*)GPU\s+(?=\d)", r"\1", line).split()
            if not heading or len(values) != len(heading):
                yield number, None
                continue
            row = dict(zip(heading, values, strict=True))
            if {"Date", "Time"} <= row.keys():
                date = row["Date"]
                row["timestamp"] = f"{date[:4]}-{date[4:6]}-{date[6:]} {row['Time']}"
            yield number, {name: "" if value == "-" else value for name, value in row.items()}
