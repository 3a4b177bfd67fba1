"""What every GPU of the node says through NVML: every second, and more every ten seconds and every minute.

Identity is the UUID with the PCI address; the index is only how one asks. A GPU that is lost, or must be reset, keeps
its row (all NaN, counted) and is asked again every 30 s; the others go on. All counters begin a new epoch when a GPU
or the driver comes back.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from collectors.base import Collector, CollectorError, NoData, Reading, add_missing, event
from collectors.gpu import nvml
from collectors.gpu.device import COLUMNS, PERIODS, Device, Due, Row, Told, columns_of, raise_if_driver
from collectors.pci import pci_address
from collectors.rates import Value
from collectors.table import table, table_of_columns
from runtime.clock import Clock
from schemas.event import Event
from schemas.frame import Gpu
from schemas.inventory import GpuDescription
from schemas.matrix import Matrix
from schemas.metrics import names

if TYPE_CHECKING:  # the sampler process needs none of it
    from collectors.agent.node import Node

RETRY_S = 30.0
"""How often lost GPUs, an unloaded driver and the list of GPUs are looked at again: often enough for a person who
waits after a reset, seldom enough to cost nothing."""


class GpuCollector:
    """Fills section `gpu`, one row per GPU and MIG instance, and `nvlink`, one row per link ("UUID/3").

    Columns that are read every ten seconds or every minute are there in those ticks only: what is old is not repeated.

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
        self._periods: dict[int, int] = {}
        self._news: list[Event] = []
        self._looked = False
        self.driver = ""

    def collect(self, tick_ms: int) -> Reading:
        """One reading of all GPUs. NoData without a driver, CollectorError where the driver went away."""
        try:
            self._look(self._clock.monotonic())
            due = self._due(tick_ms)
            told = [device.read(self._clock.monotonic(), due) for device in self._devices.values()]
        except self._library.NVMLError as error:
            self._down = self._close(nvml.code_of(error))
            raise self._down from None
        if not told:
            raise NoData("the driver knows no GPU")
        return self._reading(told, due)

    def open(self) -> None:
        """Open the driver now, since that may take seconds; what goes wrong, the first `collect` says."""
        try:
            self._look(self._clock.monotonic())
        except self._library.NVMLError as error:
            self._down = self._close(nvml.code_of(error))

    def processes(self) -> dict[str, tuple[int, ...]]:
        """Ids of the processes that compute on each GPU or MIG instance, by UUID; what cannot say now is left out."""
        asked = [device.processes() or {} for device in self._devices.values()]
        return {uuid: pids for some in asked for uuid, pids in some.items()}

    def descriptions(self) -> tuple[GpuDescription, ...]:
        """What the GPUs are, in the order of their rows."""
        return tuple(device.description for device in self._devices.values())

    def handles(self) -> dict[str, tuple[nvml.Handle, Gpu]]:
        """The GPUs that can be asked, by UUID."""
        return {uuid: (d.handle, d.gpu) for uuid, d in self._devices.items() if d.handle is not None}

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
            self._version(nvml.text(self._library.nvmlSystemGetDriverVersion()))
        listed = self._listed()
        self._down = None
        for uuid, (handle, gpu) in listed.items():
            if uuid not in self._devices and self._looked:
                self._say("gpu_added", gpu, f"a GPU that was not here before, as number {gpu.slot}")
            device = self._devices.setdefault(uuid, Device(self._library, gpu))
            if device.gpu.slot != gpu.slot:
                self._say("gpu_renumbered", gpu, f"number {device.gpu.slot} before, {gpu.slot} now")
            device.place(gpu)
            if device.handle is None or device.state:
                device.begin(handle)
            device.handle, device.listed = handle, True
        places = {gpu.pci for _, gpu in listed.values() if gpu.pci}
        for uuid in self._devices.keys() - listed.keys():
            self._devices[uuid].close()
            if self._devices[uuid].gpu.pci in places:  # another one is in its place: it was taken out, not lost
                del self._devices[uuid]
        self._devices = dict(sorted(self._devices.items(), key=lambda item: (item[1].gpu.slot, item[0])))
        self._looked = True

    def _version(self, driver: str) -> None:
        if self.driver and driver != self.driver:
            text = f"driver {self.driver} before, {driver} now"
            self._news.append(event("driver_changed", text=text, detail={"before": self.driver, "now": driver}))
        self.driver = driver

    def _say(self, kind: str, gpu: Gpu, text: str) -> None:
        self._news.append(event(kind, gpu=gpu.uuid, pci=gpu.pci, text=text))

    def _due(self, tick_ms: int) -> Due:
        """Which slow periods begin with this tick: each once, whichever way the clock steps."""
        now = {period: tick_ms // (1000 * period) for period in PERIODS}
        due = tuple(period for period in PERIODS if self._periods.get(period) != now[period])
        self._periods = now
        return due

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

    def _reading(self, told: list[Told], due: Due) -> Reading:
        rows: dict[Gpu, Row] = {}
        for device, said in zip(self._devices.values(), told, strict=True):
            rows |= {device.gpu: said.row} | dict(said.parts)
        matrix, missing = table("gpu", [gpu.uuid for gpu in rows], columns_of(due), list(rows.values()))
        sections = {"gpu": matrix}
        if any(said.links for said in told):
            sections["nvlink"], without = self._links(told)
            missing = add_missing([missing, without])
        drafts = (*self._news, *(draft for said in told for draft in said.events))
        self._news = []
        return Reading(sections, tuple(rows), missing, drafts)

    def _links(self, told: list[Told]) -> tuple[Matrix, dict[str, int]]:
        """Section nvlink: the columns that any GPU has."""
        counts = [len(next(iter(said.links.values()), ())) for said in told]
        names_of = [f"{uuid}/{i}" for uuid, count in zip(self._devices, counts, strict=True) for i in range(count)]
        had = [name for name in names("nvlink") if any(name in said.links for said in told)]
        columns: dict[str, list[Value]] = {name: [] for name in had}
        for said, count in zip(told, counts, strict=True):
            for name in had:
                columns[name] += said.links.get(name) or ["unsupported"] * count
        if any("unsupported" in column for column in columns.values()):
            # Some products count more links than they have: what tells nothing is none.
            kept = [i for i in range(len(names_of)) if any(c[i] != "unsupported" for c in columns.values())]
            names_of = [names_of[i] for i in kept]
            columns = {name: [column[i] for i in kept] for name, column in columns.items()}
        return table_of_columns("nvlink", names_of, columns)

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
        nothing = self._reading([Told(dict.fromkeys(COLUMNS, code)) for _ in self._devices], ())
        return CollectorError(code, words, kind or code, nothing, restart)


def on_node(node: "Node") -> Collector:
    """In the sampler process: the driver may hang."""
    return node.sampled(GpuCollector.name, GpuCollector.interval_s)
