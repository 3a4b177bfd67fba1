"""pynvml with a few GPUs of our own making, and every way in which they fail. Numbers are nvml.h's."""

# ruff: noqa: N802
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

UINT, ULONGLONG, SINT = 1, 3, 5
ALL_LINKS = 0xFFFFFFFF


class NvmlError(Exception):
    """Like pynvml's: compares by value, so it does not hash, and comparing with None raises."""

    def __init__(self, value: int) -> None:
        super().__init__(f"code {value}")
        self.value = value

    def __eq__(self, other: Any) -> bool:
        return bool(self.value == other.value)

    __hash__ = None  # type: ignore[assignment]


def hopper() -> dict[int, int]:
    """Counters and gauges of a working H100 by field, per call growing where they do: see FakeGpu.fields."""
    return {
        186: 412_500, 83: 1_000_000_000, 190: 700_000, 82: 71, 74: 5_000_000_000, 269: 0, 270: 0, 271: 0,
        3: 0, 4: 0, 142: 1, 143: 0, 144: 0, 145: 0, 197: 2**41, 198: 2**41, 94: 7, 230: 0, 91: 18,
        138: 2**33, 139: 2**33, 161: 0, 162: 0, 163: 2, 164: 26_562, 165: 1,
        76: 0, 173: 4, 179: 0, 180: 0, 169: 12, 189: 700_000, 194: -2, 5: 9, 6: 0, 306: 0,
    }  # fmt: skip


def blackwell() -> dict[int, int]:
    """The same of a B200, whose NVLink counters are others and per link."""
    fields = {number: value for number, value in hopper().items() if number not in (138, 139, 161, 162, 163)}
    fields |= {202: 2**40, 204: 2**40} | dict.fromkeys(range(206, 216), 0) | {208: 3}
    fields |= {219: 0, 220: NO_ERROR, 221: 5, 222: NO_ERROR, 294: 10**9, 295: 10**3}
    return fields | {235 + n: 10 ** (12 - n) if n < 3 else 0 for n in range(16)}


NO_ERROR = 15 << 8 | 255
"""A packed bit error rate of a link that has seen none."""

PER_LINK = frozenset((*range(161, 166), 202, 204, *range(206, 223), *range(235, 251), 294, 295))
WIDE = frozenset((3, 4, 74, 76, 83, 197, 198, 138, 139, 202, 204, 269, 270, 271, *range(219, 223), *range(235, 251)))
SIGNED = frozenset((194,))


@dataclass
class FakeGpu:
    """One GPU. `fields` may be changed between ticks; `codes` makes one field, or one call by its name, fail."""

    uuid: str
    bus_id: str
    fields: dict[int, int] = field(default_factory=hopper)
    codes: dict[int | str, int] = field(default_factory=dict)
    links: int = 18
    gpm: bool = True
    pids: list[int] = field(default_factory=list)
    temperature_c: int = 55
    utilization: tuple[int, int] = (97, 41)
    blank: frozenset[int] = frozenset()
    name: str = "NVIDIA H100 80GB HBM3"
    width: int = 16
    fabric: SimpleNamespace = field(default_factory=lambda: fabric_info())
    sram: SimpleNamespace = field(default_factory=lambda: sram_errors())
    mig: list["FakeGpu"] = field(default_factory=list)


def fabric_info(
    state: int = 3, status: int = 0, clique: int = 0, uuid: bytes = bytes(16), summary: int = 0, mask: int = 0
) -> SimpleNamespace:
    """What nvmlDeviceGetGpuFabricInfoV fills in: by default, an HGX H100's healthy answer."""
    return SimpleNamespace(
        state=state, status=status, cliqueId=clique, clusterUuid=uuid, healthSummary=summary, healthMask=mask
    )


def sram_errors(correctable: int = 0, parity: int = 0, secded: int = 0, exceeded: int = 0) -> SimpleNamespace:
    return SimpleNamespace(
        volatileCor=correctable, volatileUncParity=parity, volatileUncSecDed=secded, bThresholdExceeded=exceeded
    )


class FakeNvml:
    """The library. `codes` makes a whole call fail by its name; `asked` counts calls; `on_call` may do anything."""

    NVMLError = NvmlError

    def __init__(self, gpus: Sequence[FakeGpu]) -> None:
        self.gpus = list(gpus)
        self.codes: dict[str, int] = {}
        self.asked: dict[str, int] = {}
        self.asks: list[list[tuple[int, int]]] = []
        self.on_call: Callable[[str], None] = lambda name: None
        self.opened = False
        self.driver = "580.95.05"

    class c_nvmlGpmMetricsGet_t:  # noqa: N801
        def __init__(self) -> None:
            self.version = self.numMetrics = 0
            self.sample1 = self.sample2 = None
            self.metrics = [SimpleNamespace(metricId=0, nvmlReturn=0, value=0.0) for _ in range(8)]

    def nvmlInit(self) -> None:
        self._called("nvmlInit")
        self.opened = True

    def nvmlShutdown(self) -> None:
        self._called("nvmlShutdown")
        self.opened = False

    def nvmlSystemGetDriverVersion(self) -> str:
        self._called("nvmlSystemGetDriverVersion")
        return self.driver

    def nvmlDeviceGetCount(self) -> int:
        self._called("nvmlDeviceGetCount")
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeGpu:
        return self._device("nvmlDeviceGetHandleByIndex", self.gpus[index])

    def nvmlDeviceGetUUID(self, handle: FakeGpu) -> str:
        return self._device("nvmlDeviceGetUUID", handle).uuid

    def nvmlDeviceGetPciInfo(self, handle: FakeGpu) -> Any:
        return SimpleNamespace(busId=self._device("nvmlDeviceGetPciInfo", handle).bus_id.encode())

    def nvmlDeviceGetName(self, handle: FakeGpu) -> str:
        self._device("nvmlDeviceGetName", handle)
        return handle.name

    def nvmlDeviceGetSerial(self, handle: FakeGpu) -> str:
        return "S" + self._device("nvmlDeviceGetSerial", handle).uuid[-1]

    def nvmlDeviceGetVbiosVersion(self, handle: FakeGpu) -> str:
        self._device("nvmlDeviceGetVbiosVersion", handle)
        return "96.00.89.00.01"

    def nvmlDeviceGetFieldValues(self, handle: FakeGpu, asks: Sequence[int | tuple[int, int]]) -> Any:
        gpu = self._device("nvmlDeviceGetFieldValues", handle, lost_is_told=False)
        pairs = [ask if isinstance(ask, tuple) else (ask, 0) for ask in asks]
        self.asks.append(pairs)
        return [self._value(gpu, number, scope) for number, scope in pairs]

    def nvmlDeviceGetTemperatureV(self, handle: FakeGpu, sensor: int) -> int:
        return self._device("nvmlDeviceGetTemperatureV", handle).temperature_c

    def nvmlDeviceGetMarginTemperature(self, handle: FakeGpu) -> int:
        self._device("nvmlDeviceGetMarginTemperature", handle)
        return 32

    def nvmlDeviceGetClockInfo(self, handle: FakeGpu, kind: int) -> int:
        self._device("nvmlDeviceGetClockInfo", handle)
        return {1: 1980, 2: 2619}[kind]

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: FakeGpu) -> int:
        self._device("nvmlDeviceGetCurrentClocksEventReasons", handle)
        return 4

    def nvmlDeviceGetUtilizationRates(self, handle: FakeGpu) -> Any:
        gpu = self._device("nvmlDeviceGetUtilizationRates", handle)
        return SimpleNamespace(gpu=gpu.utilization[0], memory=gpu.utilization[1])

    def nvmlDeviceGetMemoryInfo(self, handle: FakeGpu) -> Any:
        self._device("nvmlDeviceGetMemoryInfo", handle)
        return SimpleNamespace(used=60 << 30, total=80 << 30, free=20 << 30)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: FakeGpu) -> Any:
        gpu = self._device("nvmlDeviceGetComputeRunningProcesses", handle)
        return [SimpleNamespace(pid=pid, usedGpuMemory=None) for pid in gpu.pids]

    def nvmlDeviceGetCurrPcieLinkGeneration(self, handle: FakeGpu) -> int:
        self._device("nvmlDeviceGetCurrPcieLinkGeneration", handle)
        return 5

    def nvmlDeviceGetCurrPcieLinkWidth(self, handle: FakeGpu) -> int:
        return self._device("nvmlDeviceGetCurrPcieLinkWidth", handle).width

    def nvmlDeviceGetMaxPcieLinkWidth(self, handle: FakeGpu) -> int:
        self._device("nvmlDeviceGetMaxPcieLinkWidth", handle)
        return 16

    def nvmlDeviceGetMigMode(self, handle: FakeGpu) -> list[int]:
        return [int(bool(self._device("nvmlDeviceGetMigMode", handle).mig))] * 2

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: FakeGpu) -> int:
        self._device("nvmlDeviceGetMaxMigDeviceCount", handle)
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, device: FakeGpu, index: int) -> FakeGpu:
        gpu = self._device("nvmlDeviceGetMigDeviceHandleByIndex", device)
        if index >= len(gpu.mig):
            raise NvmlError(6)
        return gpu.mig[index]

    def nvmlDeviceGetGpuInstanceId(self, device: FakeGpu) -> int:
        self._device("nvmlDeviceGetGpuInstanceId", device)
        return 7

    def nvmlDeviceGetUnrepairableMemoryFlag_v1(self, device: FakeGpu) -> int:
        self._device("nvmlDeviceGetUnrepairableMemoryFlag_v1", device)
        return 0

    def nvmlDeviceGetRepairStatus(self, device: FakeGpu) -> list[int]:
        self._device("nvmlDeviceGetRepairStatus", device)
        return [0, 0]

    def nvmlDeviceGetGpuFabricInfoV(self, device: FakeGpu) -> Any:
        return self._device("nvmlDeviceGetGpuFabricInfoV", device).fabric

    def nvmlDeviceGetSramEccErrorStatus(self, device: FakeGpu) -> Any:
        return self._device("nvmlDeviceGetSramEccErrorStatus", device).sram

    def nvmlDeviceGetPlatformInfo(self, device: FakeGpu) -> Any:
        self._device("nvmlDeviceGetPlatformInfo", device)
        return SimpleNamespace(
            chassisSerialNumber=b"1820325190006",
            slotNumber=b"\x12",
            trayIndex=b"\x07",
            hostId=b"\x01",
            moduleId=b"\x02",
        )

    def nvmlGpmQueryDeviceSupport(self, device: FakeGpu) -> Any:
        return SimpleNamespace(isSupportedDevice=int(self._device("nvmlGpmQueryDeviceSupport", device).gpm))

    def nvmlGpmSampleAlloc(self) -> Any:
        self._called("nvmlGpmSampleAlloc")
        return SimpleNamespace(taken=0)

    def nvmlGpmSampleFree(self, sample: Any) -> None:
        self._called("nvmlGpmSampleFree")

    def nvmlGpmSampleGet(self, device: FakeGpu, sample: Any) -> Any:
        self._device("nvmlGpmSampleGet", device)
        sample.taken += 1
        return sample

    def nvmlGpmMigSampleGet(self, device: FakeGpu, instance: int, sample: Any) -> Any:
        self._device("nvmlGpmMigSampleGet", device)
        sample.taken += 1
        return sample

    def nvmlGpmMetricsGet(self, metrics: Any) -> Any:
        self._called("nvmlGpmMetricsGet")
        assert metrics.version == 1
        assert metrics.sample1.taken
        assert metrics.sample2.taken
        for metric in metrics.metrics[: metrics.numMetrics]:
            metric.nvmlReturn, metric.value = 0, {2: 88.0, 5: 61.5, 10: 100.4}[metric.metricId]
        return metrics

    def _called(self, name: str) -> None:
        self.asked[name] = self.asked.get(name, 0) + 1
        self.on_call(name)
        if name in self.codes:
            raise NvmlError(self.codes[name])

    def _device(self, name: str, gpu: FakeGpu, lost_is_told: bool = True) -> FakeGpu:
        """The call's own code, then the GPU's; a lost GPU's field values are told one by one (as on NVIDIA's mock)."""
        self._called(name)
        code = gpu.codes.get(name, gpu.codes.get("all", 0) if lost_is_told else 0)
        if code:
            raise NvmlError(code)
        return gpu

    @staticmethod
    def _value(gpu: FakeGpu, number: int, scope: int) -> Any:
        code = gpu.codes.get(number, gpu.codes.get("all", 0))
        if number not in gpu.fields:
            code = code or 3
        elif number in PER_LINK and scope >= gpu.links:
            code = code or 2
        kind = ULONGLONG if number in WIDE else SINT if number in SIGNED else UINT
        raw = gpu.fields.get(number, 0)
        if number in gpu.blank:
            raw = 2**64 - 1 if kind == ULONGLONG else 2**32 - 1
        union = SimpleNamespace(**{{UINT: "uiVal", SINT: "siVal"}.get(kind, "ullVal"): raw})
        return SimpleNamespace(fieldId=number, scopeId=scope, valueType=kind, nvmlReturn=code, value=union)


def eight() -> FakeNvml:
    """A healthy HGX H100 node."""
    return FakeNvml([FakeGpu(f"GPU-{i}", f"0000000{i}:1B:00.0") for i in range(8)])


def grow(gpu: FakeGpu, seconds: float = 1.0) -> None:
    """What a second of work adds to the counters: 400 J, 3 GB PCIe, 1 MiB a link, a tenth of it power capped."""
    steps = {83: 400_000, 197: 3 * 10**9, 198: 10**9, 74: 10**8, 138: 1024, 139: 1024, 202: 1 << 20, 204: 1 << 20}
    for number, step in steps.items():
        if number in gpu.fields:
            gpu.fields[number] += round(step * seconds)
