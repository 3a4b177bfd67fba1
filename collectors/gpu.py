"""What every GPU of the node says, once a second, through NVML.

Identity is the UUID with the PCI address; the index is only how one asks. A GPU that is lost, or must be reset, keeps
its row (all NaN, counted) and is asked again every 30 s; the others go on. All counters begin a new epoch when a GPU
or the driver comes back.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from collectors import nvml
from collectors.base import Collector, CollectorError, NoData, Reading
from collectors.gpu_device import COLUMNS, Device, Row, raise_if_driver
from collectors.pci import pci_address
from collectors.table import table
from runtime.clock import Clock
from schemas.event import Event
from schemas.frame import Gpu
from schemas.inventory import GpuDescription

if TYPE_CHECKING:  # the sampler process needs none of it
    from collectors.node import Node

RETRY_S = 30.0
"""How often lost GPUs, an unloaded driver and the list of GPUs are looked at again: often enough for a person who
waits after a reset, seldom enough to cost nothing."""


class GpuCollector:
    """Fills section `gpu`: one row per GPU, every column of the catalogue.

    `library` is pynvml or a fake; `clock` gives monotonic time. `known` names GPUs seen by an earlier process of this
    node, so that one that is already lost is named instead of missed.
    """

    name = "gpu"
    interval_s = 1.0

    def __init__(self, library: nvml.NvmlLibrary, clock: Clock, known: Sequence[Gpu] = ()) -> None:
        self._library, self._clock = library, clock
        self._devices = {gpu.uuid: Device(library, gpu) for gpu in known}
        self._open = False
        self._look_at = float("-inf")
        self._down: CollectorError | NoData | None = None
        self.driver = ""

    def collect(self, tick_ms: int) -> Reading:
        """One reading of all GPUs. NoData without a driver, CollectorError where the driver went away."""
        try:
            self._look(self._clock.monotonic())
            readings = [device.read(self._clock.monotonic()) for device in self._devices.values()]
        except self._library.NVMLError as error:
            self._down = self._close(nvml.code_of(error))
            raise self._down from None
        if not readings:
            raise NoData("the driver knows no GPU")
        return self._reading([row for row, _ in readings], [event for _, event in readings if event is not None])

    def open(self) -> None:
        """Open the driver now, since that may take seconds; what goes wrong, the first `collect` says."""
        try:
            self._look(self._clock.monotonic())
        except self._library.NVMLError as error:
            self._down = self._close(nvml.code_of(error))

    def processes(self) -> dict[str, tuple[int, ...]]:
        """Ids of the processes that compute on each GPU, by UUID; a GPU that cannot say now is left out."""
        asked = {uuid: device.processes() for uuid, device in self._devices.items()}
        return {uuid: pids for uuid, pids in asked.items() if pids is not None}

    def descriptions(self) -> tuple[GpuDescription, ...]:
        """What the GPUs are, in the order of their rows."""
        return tuple(device.description for device in self._devices.values())

    def _look(self, now: float) -> None:
        """Open the driver and list its GPUs, now and then."""
        if now < self._look_at:
            if self._down is not None:
                raise self._down.with_traceback(None)
            return
        self._look_at = now + RETRY_S
        if not self._open:
            self._library.nvmlInit()
            self._open = True
            self.driver = nvml.text(self._library.nvmlSystemGetDriverVersion())
        listed = self._listed()
        self._down = None
        for uuid, (handle, gpu) in listed.items():
            device = self._devices.setdefault(uuid, Device(self._library, gpu))
            if device.handle is None or device.state:
                device.begin(handle)
            device.handle, device.listed = handle, True
        for uuid in self._devices.keys() - listed.keys():
            self._devices[uuid].close()
        self._devices = dict(sorted(self._devices.items(), key=lambda item: (item[1].gpu.slot, item[0])))

    def _listed(self) -> dict[str, tuple[nvml.Handle, Gpu]]:
        found = {}
        for index in range(self._library.nvmlDeviceGetCount()):
            try:
                handle = self._library.nvmlDeviceGetHandleByIndex(index)
                uuid = nvml.text(self._library.nvmlDeviceGetUUID(handle))
                pci = pci_address(nvml.text(self._library.nvmlDeviceGetPciInfo(handle).busId))
            except self._library.NVMLError as error:
                raise_if_driver(error)
                continue  # lost, or not ours to see: a known one keeps its row as lost
            found[uuid] = (handle, Gpu(uuid=uuid, pci=pci, slot=index))
        return found

    def _reading(self, rows: list[Row], drafts: list[Event]) -> Reading:
        matrix, missing = table("gpu", tuple(self._devices), COLUMNS, rows)
        gpus = tuple(device.gpu for device in self._devices.values())
        return Reading({"gpu": matrix}, gpus, missing, tuple(drafts))

    def _close(self, code: int) -> CollectorError | NoData:
        """The driver is not there (any more): forget handles and counters, try again later."""
        for device in self._devices.values():
            device.close()
        if self._open:
            self._open = False
            with suppress(self._library.NVMLError):
                self._library.nvmlShutdown()
        if code == nvml.LIBRARY_NOT_FOUND:
            return NoData("no NVIDIA driver on this machine")
        if code == nvml.LIB_RM_VERSION_MISMATCH:
            return self._gone("driver_mismatch", "the NVIDIA driver was changed under this process", restart=True)
        if code in nvml.DRIVER_GONE:
            return self._gone("driver_unloaded", "the NVIDIA driver is not loaded")
        return self._gone(f"nvml_{code}", "the NVIDIA driver does not list its GPUs", kind="collector_failed")

    def _gone(self, code: str, words: str, kind: str = "", restart: bool = False) -> CollectorError:
        nothing = self._reading([dict.fromkeys(COLUMNS, code) for _ in self._devices], [])
        return CollectorError(code, words, kind or code, nothing, restart)


def on_node(node: "Node") -> Collector:
    """In the sampler process: the driver may hang."""
    return node.sampled(GpuCollector.name, GpuCollector.interval_s)
