"""One GPU: asked once a tick, and what is remembered of it between ticks.

`Device.read` never lets one value spoil another, nor one GPU the next: what fails becomes a reason. Only errors that
speak of the whole driver leave it.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import NamedTuple

from msgspec.structs import replace

from collectors.base import event
from collectors.gpu import nvml
from collectors.gpu.calls import CALLS, Call
from collectors.gpu.description import describe, link_count
from collectors.gpu.fields import (
    FIELD_METRICS,
    MINUTE_FIELDS,
    TEN_SECOND_FIELDS,
    Absent,
    Ask,
    DeviceGone,
    FieldReader,
    raise_if_gone,
    reason_of,
)
from collectors.gpu.gpm import GPM_METRICS, GpmReader
from collectors.gpu.mig import Instance, instances
from collectors.gpu.nvlink import MINUTE_LINKS, TEN_SECOND_LINKS, LinkReader
from collectors.gpu.nvlink_fabric import FabricWatch
from collectors.gpu.plausible import drop_impossible
from collectors.rates import Rates, Value
from schemas.event import Event, Severity
from schemas.frame import Gpu
from schemas.inventory import GpuDescription
from schemas.metrics import names

PERIODS = (10, 60)
"""Seconds between readings of what changes slowly; the rest is read every tick."""

COLUMNS = names("gpu", every_s=1)
FABRIC = ("fabric_state", "fabric_fault")

UNREADABLE_AFTER = 3
"""Unknown errors in a row that make a GPU's telemetry degraded: one may be a busy driver."""

RESET_COUNTERS = 2
"""One counter that falls is that counter's; several in one tick, energy among them, are a reset of the GPU."""

Row = dict[str, Value]
Due = tuple[int, ...]
"""The periods, of PERIODS, that are due in a tick."""


class Told(NamedTuple):
    """What one GPU gave in a tick: its row, its links' columns (only what was due), its MIG instances' rows, events."""

    row: Row
    links: Mapping[str, Sequence[Value]] = {}
    parts: Sequence[tuple[Gpu, Row]] = ()
    events: Sequence[Event] = ()


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
        self._gpm: GpmReader | None = None
        self._parts: list[Instance] = []
        self._parts_known = False
        self._forget(0)

    def begin(self, handle: nvml.Handle) -> None:
        """The GPU is here, or here again: a new epoch of everything counted and remembered."""
        self.close()
        self.handle = handle
        self.description = describe(self._library, handle, self.gpu, self.description)
        self._forget(link_count(self._library, handle))

    def place(self, gpu: Gpu) -> None:
        """Where the driver lists it now: numbers change when another GPU goes, and with them nothing else."""
        if gpu != self.gpu:
            self.gpu, self.description = gpu, replace(self.description, pci=gpu.pci, slot=gpu.slot)

    def close(self) -> None:
        """Forget the handle; the driver may be gone already."""
        if self._gpm is not None:
            with suppress(self._library.NVMLError):
                self._gpm.close()
        for part in self._parts:
            part.close()
        self.handle = self._gpm = None
        self._parts, self._parts_known = [], False

    def read(self, now: float, due: Due = ()) -> Told:
        """Every column of section gpu that is due (a number or why not), and draft events where something changed.

        Raises NVMLError only where the driver as a whole is gone.
        """
        before, listed = self.state, self.listed
        self.listed = False
        columns = columns_of(due)
        if self.handle is None:
            self.state, told = "lost", Told(dict.fromkeys(columns, "lost"))
        elif before in ("lost", "reset_required") and not listed:
            return Told(dict.fromkeys(columns, before))
        else:
            told = self._ask(self.handle, columns, due, now)
        return told._replace(events=[*self._episode(before), *told.events])

    def processes(self) -> dict[str, tuple[int, ...]] | None:
        """Ids of the processes that compute on this GPU and on its MIG instances, by UUID; None where it cannot say."""
        if self.handle is None or self.state:
            return None
        asked = {self.gpu.uuid: self.handle} | {part.gpu.uuid: part.handle for part in self._parts}
        try:
            return {
                uuid: tuple(sorted({int(p.pid) for p in self._library.nvmlDeviceGetComputeRunningProcesses(handle)}))
                for uuid, handle in asked.items()
            }
        except self._library.NVMLError:
            return None

    def _forget(self, links: int) -> None:
        rates = Rates()
        self._absent = Absent()
        self._fabric = FabricWatch(self.description.name)
        self._readers = {
            1: FieldReader(FIELD_METRICS, links, rates),
            10: FieldReader(TEN_SECOND_FIELDS, links, rates),
            60: FieldReader(MINUTE_FIELDS, links, rates),
        }
        self._link_readers = {
            10: LinkReader(TEN_SECOND_LINKS, links),
            60: LinkReader(MINUTE_LINKS, links),
        }
        self._joined: dict[Due, tuple[list[list[Ask]], list[Ask]]] = {}

    def _ask(self, handle: nvml.Handle, columns: Sequence[str], due: Due, now: float) -> Told:
        try:
            row, links = self._fields(handle, due, now)
            for period in (1, *due):
                for filled, call in CALLS[period].items():
                    row.update(self._call(filled, call, handle, now))
            row.update(self._call(tuple(GPM_METRICS), self._read_gpm, handle, now))
            events = self._conditioned(row)
            if 10 in due:
                row.update(self._call(FABRIC, lambda lib, h: self._read_fabric(lib, h, now), handle, now))
                events += self._fabric.news(self.gpu)
                events += self._look_for_parts(handle, row["mig_enabled"])
            parts = [(part.gpu, part.read()) for part in self._parts]
        except DeviceGone as gone:
            return self._gone(gone.code, columns)
        except self._library.NVMLError as error:
            raise_if_driver(error)
            code = nvml.code_of(error)
            if code in nvml.DEVICE_GONE:
                return self._gone(code, columns)
            self._failures += 1
            if self._failures >= UNREADABLE_AFTER:
                self.state = "unreadable"
            return Told(dict.fromkeys(columns, reason_of(code)))
        self._failures, self.state = 0, ""
        return Told(row, links, parts, events)

    def _fields(self, handle: nvml.Handle, due: Due, now: float) -> tuple[Row, dict[str, list[Value]]]:
        """All fields that are due, in one call."""
        readers: list[FieldReader | LinkReader] = [self._readers[period] for period in (1, *due)]
        readers += [self._link_readers[period] for period in due]
        lists = [reader.asks(now) for reader in readers]
        known = self._joined.get(due)
        if known is None or any(a is not b for a, b in zip(known[0], lists, strict=True)):
            # One reader's list is asked as it is: the library prepares what it is asked for by the list itself.
            known = lists, lists[0] if len(lists) == 1 else [ask for asks in lists for ask in asks]
            self._joined[due] = known
        codes, numbers = nvml.decoded(self._library.nvmlDeviceGetFieldValues(handle, known[1]))
        row: Row = {}
        links: dict[str, list[Value]] = {}
        at = 0
        for reader, asks in zip(readers, lists, strict=True):
            end = at + len(asks)
            if isinstance(reader, FieldReader):
                row |= reader.take(codes[at:end], numbers[at:end], now)
            else:
                links |= reader.take(codes[at:end], numbers[at:end], now)
            at = end
        return row, links

    def _conditioned(self, row: Row) -> list[Event]:
        """Take out what cannot be, and tell a reset by the counters that began anew."""
        drop_impossible(row)
        if row["power_average_w"] != "counter_fell" or list(row.values()).count("counter_fell") < RESET_COUNTERS:
            return []
        text = "the GPU's counters began anew: it was reset, or its driver loaded again"
        return [event("gpu_reset", gpu=self.gpu.uuid, pci=self.gpu.pci, text=text)]

    def _gone(self, code: int, columns: Sequence[str]) -> Told:
        self.state = "reset_required" if code == nvml.RESET_REQUIRED else "lost"
        return Told(dict.fromkeys(columns, self.state))

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

    def _read_fabric(self, library: nvml.NvmlLibrary, handle: nvml.Handle, now: float) -> Sequence[Value]:
        return self._fabric.read(library.nvmlDeviceGetGpuFabricInfoV(handle), now)

    def _look_for_parts(self, handle: nvml.Handle, enabled: Value) -> list[Event]:
        """The MIG instances as they are now, and an event where they are others than before."""
        before, known = self._parts, self._parts_known
        try:
            now = instances(self._library, handle, self.gpu) if enabled == 1 else []
        except self._library.NVMLError as error:
            raise_if_driver(error)
            raise_if_gone(nvml.code_of(error))
            return []
        self._parts_known = True
        if [part.gpu.uuid for part in now] == [part.gpu.uuid for part in before]:
            for part in now:
                part.close()
            return []
        for part in before:
            part.close()
        self._parts = now
        if not known:
            return []
        detail = {"before": _names(before), "now": _names(now)}
        text = f"MIG instances changed: {len(before)} before, {len(now)} now"
        return [event("mig_changed", gpu=self.gpu.uuid, pci=self.gpu.pci, text=text, detail=detail)]

    def _episode(self, before: str) -> list[Event]:
        if self.state == before:
            return []
        uuid, pci = self.gpu.uuid, self.gpu.pci
        if not self.state:
            return [event("gpu_back", gpu=uuid, pci=pci, text=f"the GPU answers again after {EPISODES[before][0]}")]
        kind, severity, text = EPISODES[self.state]
        return [event(kind, severity=severity, gpu=uuid, pci=pci, text=text)]


@cache
def columns_of(due: Due) -> tuple[str, ...]:
    """The columns of section gpu in a tick."""
    return (*COLUMNS, *(name for period in due for name in names("gpu", period)))


def raise_if_driver(error: Exception) -> None:
    """Let through what speaks of the driver as a whole rather than of one GPU or value."""
    if nvml.code_of(error) in nvml.DRIVER_GONE:
        raise error


def _names(parts: Sequence[Instance]) -> str:
    return ",".join(part.gpu.uuid for part in parts)
