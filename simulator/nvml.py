# ruff: noqa: N802, N815 (the names are NVML's)
"""NVIDIA's management library as the simulated GPUs would answer it: pynvml's names, structs and errors.

Nobody may import pynvml for this; its numbers are written here again, as NVIDIA promises that they never change
(nvml.h). A handle is the fleet-wide number of the GPU. The product answers as a GB200: NVLink 5 counters by link, no
older NVLink fields, no retired pages, everything else of Hopper. Its 18 NVLinks answer as one unless asked otherwise:
198 counters of each of 576 GPUs would cost more than the rest of the fleet, and frames carry their sum.
"""

import ctypes
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from simulator.effects import Effects, Floats
from simulator.faults import NVLINK
from simulator.physics import LIMIT_C, MEMORY_MHZ, POWER_LIMIT_W, Physics
from simulator.topology import GPUS_PER_TRAY, PCI, Topology

NOT_SUPPORTED, INVALID_ARGUMENT, NOT_FOUND, GPU_IS_LOST = 3, 2, 6, 15

DRIVER, NAME, VBIOS = "580.95.05", "NVIDIA GB200", "97.00.88.00.0A"

GPM_SM, GPM_TENSOR, GPM_DRAM = 2, 5, 10

_UINT, _ULONGLONG, _INT = 1, 3, 5
"""valueType: which member of the union holds the value."""

FOREIGN_PID = 66_001
PCIE_GENERATION, PCIE_LANES = 5, 16
BROKEN_C = 255
"""What a broken temperature sensor reads."""


_COUNTED = (3, 4, 74, 82, 83, 94, 143, 144, 186, 197, 198, 202, 204, 208, 269, 270, 271)
"""The fields that change, in the order of Board.fields."""

_LIMIT_MW = int(POWER_LIMIT_W * 1000)
_CONSTANT = {5: 0, 6: 0, 76: 0, 142: 0, 145: 0, 169: 0, 173: 0, 179: 0, 180: 0, 188: _LIMIT_MW, 189: _LIMIT_MW}
_CONSTANT |= {190: _LIMIT_MW, 194: -2, 230: 0, 306: 0}
_LINK_COUNT = 91
_LINK_TRAFFIC, _LINK_ERRORS, _RECEIVE_ERRORS = (202, 204), tuple(range(206, 216)), 208
_NO_ERROR_SEEN = 15 << 8 | 255
_LINK_CONSTANT = {164: 53_125, 165: 1, 219: 0, 220: _NO_ERROR_SEEN, 221: 0, 222: _NO_ERROR_SEEN}
_NARROW = frozenset((82, 91, 94, 142, 143, 144, 145, 164, 165, 169, 173, 179, 180, 186, 188, 189, 190, 230, 306))
_SIGNED = frozenset((194,))


class NvmlError(Exception):
    """pynvml's NVMLError: `value` is the return code."""

    def __init__(self, value: int) -> None:
        super().__init__(f"NVML error {value}")
        self.value = value


class Union(ctypes.Union):
    """pynvml's c_nvmlValue_t."""

    _fields_ = (
        ("dVal", ctypes.c_double),
        ("uiVal", ctypes.c_uint),
        ("ulVal", ctypes.c_ulong),
        ("ullVal", ctypes.c_ulonglong),
        ("sllVal", ctypes.c_longlong),
        ("siVal", ctypes.c_int),
        ("usVal", ctypes.c_ushort),
    )


class FieldValue(ctypes.Structure):
    """pynvml's c_nvmlFieldValue_t: 40 bytes, the value in the last 8."""

    _fields_ = (
        ("fieldId", ctypes.c_uint32),
        ("scopeId", ctypes.c_uint32),
        ("timestamp", ctypes.c_int64),
        ("latencyUsec", ctypes.c_int64),
        ("valueType", ctypes.c_uint32),
        ("nvmlReturn", ctypes.c_uint32),
        ("value", Union),
    )


class Board:
    """What all GPUs of the fleet answer now: made once a tick, read by 144 libraries.

    `fields` (GPUs, len(_COUNTED)) holds the fields; the rest are plain lists by GPU.
    """

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.fields = np.zeros((topology.gpu_count, len(_COUNTED)), dtype=np.uint64)
        self.lost: list[bool] = []
        self.calls: dict[str, list[int]] = {}
        self.gpm: dict[int, list[float]] = {}
        self.pids: list[tuple[int, ...]] = []
        self._own_pids = [
            topology.pid(topology.rank_of_gpu[gpu]) if gpu in topology.rank_of_gpu else 0
            for gpu in range(topology.gpu_count)
        ]

    def update(self, physics: Physics, effects: Effects) -> None:
        """Take over the state at a tick."""
        sensors, counters = physics.sensors, physics.counters
        broken = effects.sensor_broken
        temperature = np.where(broken, BROKEN_C, sensors.temperature_c)
        columns = (
            counters["sbe"], effects.dbe_count, counters["power_cap_ns"],
            np.where(broken, BROKEN_C, sensors.memory_temperature_c), counters["energy_mj"], counters["pcie_replays"],
            effects.remapped_count, np.minimum(effects.remapped_count, 1), sensors.power_w * 1e3,
            counters["pcie_bytes"], counters["pcie_bytes"], counters["nvlink_tx_bytes"], counters["nvlink_rx_bytes"],
            counters["nvlink_errors"], counters["sw_thermal_ns"], counters["hw_thermal_ns"], counters["brake_ns"],
        )  # fmt: skip
        self.fields = np.rint(np.column_stack(columns)).astype(np.uint64)
        self.lost = effects.lost.tolist()
        self.calls = {
            "temperature": _list(temperature),
            "margin": _list(LIMIT_C - temperature),
            "sm_clock": _list(sensors.sm_clock_mhz),
            "reasons": _list(sensors.reasons),
            "gpu": _list(sensors.gpu_utilization_pct),
            "memory": _list(sensors.memory_utilization_pct),
            "used": _list(sensors.memory_used_mib * 2**20),
        }
        self.gpm = {
            GPM_SM: sensors.sm_active_pct.tolist(),
            GPM_TENSOR: sensors.tensor_active_pct.tolist(),
            GPM_DRAM: sensors.dram_active_pct.tolist(),
        }
        gone = effects.gone | effects.lost
        self.pids = [
            ((own,) if own and not gone[gpu] else ()) + ((FOREIGN_PID,) if effects.foreign[gpu] else ())
            for gpu, own in enumerate(self._own_pids)
        ]


class GpmMetrics:
    """pynvml's c_nvmlGpmMetricsGet_t: the caller fills in version, samples and metric ids."""

    def __init__(self) -> None:
        self.version = self.numMetrics = 0
        self.sample1: Any = None
        self.sample2: Any = None
        self.metrics = [SimpleNamespace(metricId=0, nvmlReturn=0, value=0.0) for _ in range(4)]


class FakeNvml:
    """The library as one node sees it: the GPUs of `node` on a Board."""

    NVMLError: type[Exception] = NvmlError
    c_nvmlGpmMetricsGet_t: type[Any] = GpmMetrics

    def __init__(self, board: Board, node: int, links: int = 1) -> None:
        self._board, self._topology, self._links = board, board.topology, links
        self._first = node * GPUS_PER_TRAY
        self._answers: dict[int, _Answers] = {}

    def nvmlInit(self) -> None:
        """Nothing to load."""

    def nvmlShutdown(self) -> None:
        self._answers.clear()

    def nvmlSystemGetDriverVersion(self) -> str:
        return DRIVER

    def nvmlDeviceGetCount(self) -> int:
        return GPUS_PER_TRAY

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        if not 0 <= index < GPUS_PER_TRAY:
            raise NvmlError(INVALID_ARGUMENT)
        return self._here(self._first + index)

    def nvmlDeviceGetUUID(self, handle: int) -> str:
        return self._topology.uuids[self._here(handle)]

    def nvmlDeviceGetPciInfo(self, handle: int) -> SimpleNamespace:
        return SimpleNamespace(busId="0000" + PCI[self._here(handle) % GPUS_PER_TRAY])

    def nvmlDeviceGetName(self, handle: int) -> str:
        self._here(handle)
        return NAME

    def nvmlDeviceGetSerial(self, handle: int) -> str:
        return self._topology.serials[self._here(handle)]

    def nvmlDeviceGetVbiosVersion(self, handle: int) -> str:
        self._here(handle)
        return VBIOS

    def nvmlDeviceGetFieldValues(self, handle: int, asks: Sequence[int | tuple[int, int]]) -> Any:
        """An array of FieldValue, used again by the next call. Succeeds for a lost GPU too, with 15 in every value."""
        answers = self._answers.get(handle)
        if answers is None or answers.asks != asks:
            answers = self._answers[handle] = _Answers(asks, self._links)
        if self._board.lost[handle]:
            return answers.lost
        answers.refresh(self._board, handle)
        return answers.values

    def nvmlDeviceGetTemperatureV(self, handle: int, sensor: int) -> int:
        return self._call("temperature", handle)

    def nvmlDeviceGetMarginTemperature(self, handle: int) -> int:
        return self._call("margin", handle)

    def nvmlDeviceGetClockInfo(self, handle: int, kind: int) -> int:
        return self._call("sm_clock", handle) if kind == 1 else int(MEMORY_MHZ)

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: int) -> int:
        return self._call("reasons", handle)

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> SimpleNamespace:
        return SimpleNamespace(gpu=self._call("gpu", handle), memory=self._call("memory", handle))

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> SimpleNamespace:
        return SimpleNamespace(used=self._call("used", handle))

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[SimpleNamespace]:
        return [SimpleNamespace(pid=pid, usedGpuMemory=None) for pid in self._board.pids[self._here(handle)]]

    def nvmlDeviceGetCurrPcieLinkGeneration(self, handle: int) -> int:
        self._here(handle)
        return PCIE_GENERATION

    def nvmlDeviceGetCurrPcieLinkWidth(self, handle: int) -> int:
        self._here(handle)
        return PCIE_LANES

    def nvmlDeviceGetMaxPcieLinkWidth(self, handle: int) -> int:
        self._here(handle)
        return PCIE_LANES

    def nvmlDeviceGetMigMode(self, handle: int) -> tuple[int, int]:
        self._here(handle)
        return 0, 0

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: int) -> int:
        self._here(handle)
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, device: int, index: int) -> int:
        raise NvmlError(NOT_FOUND)

    def nvmlDeviceGetGpuInstanceId(self, device: int) -> int:
        raise NvmlError(NOT_FOUND)

    def nvmlDeviceGetUnrepairableMemoryFlag_v1(self, device: int) -> int:
        self._here(device)
        return 0

    def nvmlDeviceGetRepairStatus(self, device: int) -> tuple[int, int]:
        self._here(device)
        return 0, 0

    def nvmlDeviceGetGpuFabricInfoV(self, device: int) -> SimpleNamespace:
        """Joined and healthy: every rack is one NVLink domain."""
        rack = int(self._topology.rack_of_gpu[self._here(device)])
        return SimpleNamespace(
            state=3,
            status=0,
            cliqueId=rack + 1,
            clusterUuid=bytes([rack % 255 + 1]) * 16,
            healthSummary=1,
            healthMask=0x1AA,
        )

    def nvmlDeviceGetSramEccErrorStatus(self, device: int) -> SimpleNamespace:
        self._here(device)
        return SimpleNamespace(volatileCor=0, volatileUncParity=0, volatileUncSecDed=0, bThresholdExceeded=0)

    def nvmlDeviceGetPlatformInfo(self, device: int) -> SimpleNamespace:
        gpu = self._here(device)
        node = gpu // GPUS_PER_TRAY
        tray = node % self._topology.trays + 1
        return SimpleNamespace(
            chassisSerialNumber=self._topology.rack_names[self._topology.rack_of_gpu[gpu]].encode(),
            slotNumber=bytes([tray]),
            trayIndex=bytes([tray]),
            hostId=b"\x01",
            moduleId=bytes([gpu % GPUS_PER_TRAY + 1]),
        )

    def nvmlGpmMigSampleGet(self, device: int, instance: int, sample: SimpleNamespace) -> SimpleNamespace:
        raise NvmlError(NOT_SUPPORTED)

    def nvmlGpmQueryDeviceSupport(self, device: int) -> SimpleNamespace:
        return SimpleNamespace(isSupportedDevice=1)

    def nvmlGpmSampleAlloc(self) -> SimpleNamespace:
        return SimpleNamespace(gpu=-1)

    def nvmlGpmSampleFree(self, sample: SimpleNamespace) -> None:
        """Memory is Python's."""

    def nvmlGpmSampleGet(self, device: int, sample: SimpleNamespace) -> SimpleNamespace:
        sample.gpu = self._here(device)
        return sample

    def nvmlGpmMetricsGet(self, metrics: GpmMetrics) -> GpmMetrics:
        """The averages since the last tick, in per cent: a tick is what lies between two samples."""
        for metric in metrics.metrics[: metrics.numMetrics]:
            column = self._board.gpm.get(metric.metricId)
            metric.nvmlReturn = 0 if column else NOT_SUPPORTED
            metric.value = column[metrics.sample2.gpu] if column else 0.0
        return metrics

    def _here(self, handle: int) -> int:
        if self._board.lost[handle]:
            raise NvmlError(GPU_IS_LOST)
        return handle

    def _call(self, name: str, handle: int) -> int:
        if self._board.lost[handle]:
            raise NvmlError(GPU_IS_LOST)
        return self._board.calls[name][handle]


class _Answers:
    """The structs that answer one list of asks, and which of them change from tick to tick."""

    def __init__(self, asks: Sequence[int | tuple[int, int]], links: int) -> None:
        self.asks = list(asks)
        told = [ask if isinstance(ask, tuple) else (ask, 0) for ask in asks]
        self.values, self.lost = (FieldValue * len(told))(), (FieldValue * len(told))()
        changing: list[tuple[int, int, int]] = []
        for i, (field, scope) in enumerate(told):
            kind = _INT if field in _SIGNED else _UINT if field in _NARROW else _ULONGLONG
            code = _code(field, scope, links)
            number = links if field == _LINK_COUNT else _CONSTANT.get(field, _LINK_CONSTANT.get(field, 0))
            union = Union(siVal=number) if kind == _INT else Union(ullVal=number)
            self.values[i] = FieldValue(field, scope, 0, 40, kind, code, union)
            self.lost[i] = FieldValue(field, scope, 0, 40, kind, GPU_IS_LOST)
            if code == 0 and _changes(field, scope, links):
                changing.append((i, _COUNTED.index(field), links if field in _LINK_TRAFFIC else 1))
        table = np.array(changing, dtype=np.int64).reshape(-1, 3)
        self._rows, self._columns, self._parts = table[:, 0], table[:, 1], table[:, 2].astype(np.uint64)
        self._numbers = (
            np.frombuffer(cast(bytes, self.values), dtype="<u8").reshape(-1, 5)[:, 4] if told else np.zeros(0, "<u8")
        )

    def refresh(self, board: Board, gpu: int) -> None:
        self._numbers[self._rows] = board.fields[gpu, self._columns] // self._parts


def _code(field: int, scope: int, links: int) -> int:
    if field in _LINK_TRAFFIC or field in _LINK_ERRORS or field in _LINK_CONSTANT:
        return 0 if scope < links else INVALID_ARGUMENT
    return 0 if field in _COUNTED or field in _CONSTANT or field == _LINK_COUNT else NOT_SUPPORTED


def _changes(field: int, scope: int, links: int) -> bool:
    """Error counters of all links stay zero but the one that a fault spoils."""
    if field in _LINK_ERRORS:
        return (field, scope) == (_RECEIVE_ERRORS, min(NVLINK, links - 1))
    return field in _COUNTED


def _list(values: Floats) -> list[int]:
    whole: list[int] = np.rint(values).astype(np.int64).tolist()
    return whole
