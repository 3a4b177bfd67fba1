# ruff: noqa: N802 (the names are NVML's)
"""XIDs as the driver's library tells them, in the sampler process: some drivers log a code in one place only.

Asked once a second without waiting. Events from before the registration are not kept, and the set dies with the
driver: it is made anew whenever the GPUs' handles are others.
"""

import ctypes
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from collectors.base import NoData, Reading, event
from collectors.gpu import nvml
from collectors.gpu.device import raise_if_driver
from schemas.event import Event
from schemas.frame import Gpu
from schemas.xid import xid

XID_EVENT = 0x8
"""nvmlEventTypeXidCriticalError."""

UNKNOWN_XID = 999
"""What the library says where it cannot tell the code."""

MOST_A_TICK = 256
"""A flood is told by the kernel log too; the rest waits in the driver."""

Handles = Callable[[], Mapping[str, tuple[nvml.Handle, Gpu]]]
"""The GPUs that answer: handle and description by UUID."""


class EventLibrary(Protocol):
    """The part of pynvml in use here; every call may raise `NVMLError`."""

    NVMLError: type[Exception]

    def nvmlEventSetCreate(self) -> Any: ...
    def nvmlEventSetFree(self, event_set: Any) -> None: ...
    def nvmlDeviceGetSupportedEventTypes(self, handle: nvml.Handle) -> int: ...
    def nvmlDeviceRegisterEvents(self, handle: nvml.Handle, types: int, event_set: Any) -> None: ...
    def nvmlEventSetWait_v2(self, event_set: Any, timeout_ms: int) -> Any:
        """With device, eventType, eventData (the XID); raises "timeout" where nothing happened."""
        ...


def tells_events(library: object) -> bool:
    """Whether a library has these functions at all; the simulator's has not."""
    return hasattr(library, "nvmlEventSetCreate")


class NvmlEvents:
    """Drafts of `xid` events, one for each that the library tells. `handles` are the GPU collector's."""

    name = "xids"
    interval_s = 1.0

    def __init__(self, library: EventLibrary, handles: Handles) -> None:
        self._library, self._handles = library, handles
        self._set: Any = None
        self._known: dict[object, Gpu] = {}

    def collect(self, tick_ms: int) -> Reading:
        """What happened since the last call. NoData where no GPU tells events."""
        try:
            self._register()
            drafts = self._told()
        except self._library.NVMLError as error:
            self._forget()
            raise NoData(f"the driver tells no events (code {nvml.code_of(error)})") from None
        return Reading(drafts=tuple(drafts))

    def _register(self) -> None:
        now = {address(handle): gpu for handle, gpu in self._handles().values()}
        if self._set is not None and now.keys() == self._known.keys():
            return
        self._forget()
        self._known = now
        made, registered = self._library.nvmlEventSetCreate(), 0
        for handle, _ in self._handles().values():
            try:
                if self._library.nvmlDeviceGetSupportedEventTypes(handle) & XID_EVENT:
                    self._library.nvmlDeviceRegisterEvents(handle, XID_EVENT, made)
                    registered += 1
            except self._library.NVMLError as error:
                raise_if_driver(error)
        self._set = made
        if not registered:
            raise NoData("no GPU here tells events")

    def _told(self) -> list[Event]:
        drafts: list[Event] = []
        while len(drafts) < MOST_A_TICK:
            try:
                data = self._library.nvmlEventSetWait_v2(self._set, 0)
            except self._library.NVMLError as error:
                if nvml.code_of(error) == nvml.TIMEOUT:
                    break
                raise
            code, gpu = int(data.eventData), self._known.get(address(data.device))
            if data.eventType & XID_EVENT and gpu is not None and code != UNKNOWN_XID:
                drafts.append(draft(code, gpu))
        return drafts

    def _forget(self) -> None:
        made, self._set = self._set, None
        if made is not None:
            try:
                self._library.nvmlEventSetFree(made)
            except self._library.NVMLError:
                return  # it died with the driver


def draft(code: int, gpu: Gpu) -> Event:
    """An XID without the text of a kernel line."""
    facts = xid(code)
    detail = {"source": "nvml", "cause": facts.cause, "action": facts.action}
    detail |= {name: value for name, value in (("then", facts.then), ("name", facts.name)) if value}
    return event(
        "xid",
        severity=facts.severity,
        code=code,
        gpu=gpu.uuid,
        pci=gpu.pci,
        text=f"XID {code} told by the driver's library{facts.name and f': {facts.name}'}",
        detail=detail,
    )


def address(handle: nvml.Handle) -> object:
    """What makes two of pynvml's handles the same device."""
    try:
        return ctypes.cast(handle, ctypes.c_void_p).value
    except ctypes.ArgumentError:
        return handle
