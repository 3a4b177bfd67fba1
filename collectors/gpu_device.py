"""One GPU: asked once a tick, and what is remembered of it between ticks.

`Device.read` never lets one value spoil another, nor one GPU the next: what fails becomes a reason. Only errors that
speak of the whole driver leave it.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress

from collectors import nvml
from collectors.base import event
from collectors.gpm import GPM_METRICS, GpmReader
from collectors.gpu_fields import LINK_COUNT, Absent, DeviceGone, FieldReader, raise_if_gone, reason_of
from collectors.rates import Rates, Value
from schemas.event import Event, Severity
from schemas.frame import Gpu
from schemas.inventory import GpuDescription
from schemas.metrics import names

COLUMNS = names("gpu")

UNREADABLE_AFTER = 3
"""Unknown errors in a row that make a GPU's telemetry degraded: one may be a busy driver."""

MIB = 1 << 20

Row = dict[str, Value]
Call = Callable[[nvml.NvmlLibrary, nvml.Handle], Sequence[Value]]


def _utilization(library: nvml.NvmlLibrary, handle: nvml.Handle) -> Sequence[Value]:
    rates = library.nvmlDeviceGetUtilizationRates(handle)
    return rates.gpu, rates.memory


CALLS: dict[tuple[str, ...], Call] = {
    ("temperature_c",): lambda lib, h: (lib.nvmlDeviceGetTemperatureV(h, nvml.TEMPERATURE_GPU),),
    ("thermal_margin_c",): lambda lib, h: (lib.nvmlDeviceGetMarginTemperature(h),),
    ("sm_clock_mhz",): lambda lib, h: (lib.nvmlDeviceGetClockInfo(h, nvml.CLOCK_SM),),
    ("memory_clock_mhz",): lambda lib, h: (lib.nvmlDeviceGetClockInfo(h, nvml.CLOCK_MEM),),
    ("clocks_event_reasons",): lambda lib, h: (lib.nvmlDeviceGetCurrentClocksEventReasons(h),),
    ("gpu_utilization_pct", "memory_utilization_pct"): _utilization,
    ("memory_used_mib",): lambda lib, h: (lib.nvmlDeviceGetMemoryInfo(h).used / MIB,),
}
"""What is cheap and no field. PCIe throughput is not here: that call measures for 20 ms."""

EPISODES: dict[str, tuple[str, Severity, str]] = {
    "lost": ("gpu_lost", "critical", "the GPU no longer answers on its bus"),
    "reset_required": ("gpu_reset_required", "critical", "the driver wants this GPU reset"),
    "unreadable": ("gpu_unreadable", "warning", "the driver answers with unknown errors for this GPU"),
}


class Device:
    """Identity, handle, epoch and state ("" or a key of EPISODES) of one GPU.

    `listed` is set by whoever lists the driver's GPUs: one that is lost is asked only right after a listing.
    """

    def __init__(self, library: nvml.NvmlLibrary, gpu: Gpu) -> None:
        self._library, self.gpu = library, gpu
        self.state = ""
        self.handle: nvml.Handle | None = None
        self.listed = False
        self.description = GpuDescription(uuid=gpu.uuid, pci=gpu.pci, slot=gpu.slot)
        self._failures = 0
        self._absent = Absent()
        self._fields = FieldReader(0, Rates())
        self._gpm: GpmReader | None = None

    def begin(self, handle: nvml.Handle) -> None:
        """The GPU is here, or here again: a new epoch of everything counted and remembered."""
        self.close()
        self.handle, self._absent = handle, Absent()
        self.description = GpuDescription(
            uuid=self.gpu.uuid,
            pci=self.gpu.pci,
            slot=self.gpu.slot,
            serial=self._word(self._library.nvmlDeviceGetSerial) or self.description.serial,
            name=self._word(self._library.nvmlDeviceGetName) or self.description.name,
            vbios=self._word(self._library.nvmlDeviceGetVbiosVersion) or self.description.vbios,
        )
        self._fields = FieldReader(self._links(), Rates())

    def close(self) -> None:
        """Forget the handle; the driver may be gone already."""
        if self._gpm is not None:
            with suppress(self._library.NVMLError):
                self._gpm.close()
        self.handle = self._gpm = None

    def read(self, now: float) -> tuple[Row, Event | None]:
        """Every column of section gpu (a number or why not), and a draft event where an episode begins or ends.

        Raises NVMLError only where the driver as a whole is gone.
        """
        before, listed = self.state, self.listed
        self.listed = False
        if self.handle is None:
            self.state, row = "lost", _all("lost")
        elif before in ("lost", "reset_required") and not listed:
            return _all(before), None
        else:
            row = self._ask(self.handle, now)
        return row, self._episode(before)

    def processes(self) -> tuple[int, ...] | None:
        """Ids of the processes that compute on this GPU; None where it cannot say."""
        if self.handle is None or self.state:
            return None
        try:
            running = self._library.nvmlDeviceGetComputeRunningProcesses(self.handle)
        except self._library.NVMLError:
            return None
        return tuple(sorted({int(process.pid) for process in running}))

    def _ask(self, handle: nvml.Handle, now: float) -> Row:
        try:
            row = self._fields.read(lambda asks: self._library.nvmlDeviceGetFieldValues(handle, asks), now)
            for columns, call in CALLS.items():
                row.update(self._call(columns, call, handle, now))
            row.update(self._call(tuple(GPM_METRICS), self._read_gpm, handle, now))
        except DeviceGone as gone:
            return self._gone(gone.code)
        except self._library.NVMLError as error:
            raise_if_driver(error)
            code = nvml.code_of(error)
            if code in nvml.DEVICE_GONE:
                return self._gone(code)
            self._failures += 1
            if self._failures >= UNREADABLE_AFTER:
                self.state = "unreadable"
            return _all(reason_of(code))
        self._failures, self.state = 0, ""
        return row

    def _gone(self, code: int) -> Row:
        self.state = "reset_required" if code == nvml.RESET_REQUIRED else "lost"
        return _all(self.state)

    def _call(self, columns: tuple[str, ...], call: Call, handle: nvml.Handle, now: float) -> Row:
        if self._absent(columns, now):
            return dict.fromkeys(columns, "unsupported")
        try:
            return dict(zip(columns, call(self._library, handle), strict=True))
        except self._library.NVMLError as error:
            raise_if_driver(error)
            code = nvml.code_of(error)
            raise_if_gone(code)
            reason = reason_of(code)
            if reason == "unsupported":
                self._absent.add(columns, now)
            return dict.fromkeys(columns, reason)

    def _read_gpm(self, library: nvml.NvmlLibrary, handle: nvml.Handle) -> Sequence[Value]:
        if self._gpm is None:
            self._gpm = GpmReader(library, handle)
        return tuple(self._gpm.read().values())

    def _episode(self, before: str) -> Event | None:
        if self.state == before:
            return None
        uuid, pci = self.gpu.uuid, self.gpu.pci
        if not self.state:
            return event("gpu_back", gpu=uuid, pci=pci, text=f"the GPU answers again after {EPISODES[before][0]}")
        kind, severity, text = EPISODES[self.state]
        return event(kind, severity=severity, gpu=uuid, pci=pci, text=text)

    def _links(self) -> int:
        try:
            (answer,) = self._library.nvmlDeviceGetFieldValues(self.handle, [LINK_COUNT])
        except self._library.NVMLError as error:
            raise_if_driver(error)
            return 0
        return int(nvml.number(answer) or 0) if answer.nvmlReturn == nvml.SUCCESS else 0

    def _word(self, ask: Callable[[nvml.Handle], str]) -> str:
        try:
            return nvml.text(ask(self.handle))
        except self._library.NVMLError as error:
            raise_if_driver(error)
            return ""


def raise_if_driver(error: Exception) -> None:
    """Let through what speaks of the driver as a whole rather than of one GPU or value."""
    if nvml.code_of(error) in nvml.DRIVER_GONE:
        raise error


def _all(reason: str) -> Row:
    return dict.fromkeys(COLUMNS, reason)
