# ruff: noqa: N802, N815 (the names are NVML's)
"""NVIDIA's management library: the one module that imports pynvml, and what we ask of it.

`NvmlLibrary` lists exactly the functions in use, with pynvml's names, so that a fake can stand in. Numbers (fields,
return codes, sensors) are written here rather than taken from the library: NVIDIA promises that they never change
(nvml.h), and a test compares them with the installed pynvml.

pynvml's errors compare but do not hash, and comparing one with None raises: use `.value` only.
"""

import ctypes
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, Protocol, cast

import numpy as np

Handle = Any
"""pynvml's opaque device handle."""

# What nvmlReturn says (nvml.h, nvmlReturn_t).
SUCCESS = 0
UNINITIALIZED = 1
INVALID_ARGUMENT = 2
NOT_SUPPORTED = 3
NO_PERMISSION = 4
NOT_FOUND = 6
DRIVER_NOT_LOADED = 9
TIMEOUT = 10
LIBRARY_NOT_FOUND = 12
FUNCTION_NOT_FOUND = 13
GPU_IS_LOST = 15
RESET_REQUIRED = 16
LIB_RM_VERSION_MISMATCH = 18
NO_DATA = 21
ARGUMENT_VERSION_MISMATCH = 25
DEPRECATED = 26
NOT_READY = 27
GPU_NOT_FOUND = 28
UNKNOWN = 999

DEVICE_GONE = frozenset((GPU_IS_LOST, RESET_REQUIRED, GPU_NOT_FOUND))
"""Codes that speak of the GPU as a whole."""

DRIVER_GONE = frozenset((UNINITIALIZED, DRIVER_NOT_LOADED, LIB_RM_VERSION_MISMATCH))
"""Codes that speak of the driver as a whole."""

# Arguments of calls that are no fields.
TEMPERATURE_GPU = 0
CLOCK_SM = 1
CLOCK_MEM = 2

ALL_LINKS = 0xFFFFFFFF
"""Scope of the older NVLink traffic fields: all links together."""

GPM_SM_UTIL = 2
GPM_ANY_TENSOR_UTIL = 5
GPM_DRAM_BW_UTIL = 10
GPM_METRICS_GET_VERSION = 1


class FieldValue(Protocol):
    """One answer of nvmlDeviceGetFieldValues: its own return code, and a union read by `valueType`."""

    fieldId: int
    scopeId: int
    valueType: int
    nvmlReturn: int
    value: Any


class NvmlLibrary(Protocol):
    """The part of pynvml in use. Every call may raise `NVMLError`, whose `value` is the return code."""

    NVMLError: type[Exception]
    c_nvmlGpmMetricsGet_t: type[Any]
    """A struct with version, numMetrics, sample1, sample2 and metrics[i].metricId, .nvmlReturn, .value."""

    def nvmlInit(self) -> None: ...
    def nvmlShutdown(self) -> None: ...
    def nvmlSystemGetDriverVersion(self) -> str: ...
    def nvmlDeviceGetCount(self) -> int: ...
    def nvmlDeviceGetHandleByIndex(self, index: int) -> Handle: ...
    def nvmlDeviceGetUUID(self, handle: Handle) -> str: ...
    def nvmlDeviceGetPciInfo(self, handle: Handle) -> Any:
        """With `busId` like "00000009:01:00.0" (str, or bytes)."""
        ...

    def nvmlDeviceGetName(self, handle: Handle) -> str: ...
    def nvmlDeviceGetSerial(self, handle: Handle) -> str: ...
    def nvmlDeviceGetVbiosVersion(self, handle: Handle) -> str: ...
    def nvmlDeviceGetFieldValues(
        self, handle: Handle, field_ids: Sequence[int | tuple[int, int]], /
    ) -> Sequence[FieldValue]: ...
    def nvmlDeviceGetTemperatureV(self, handle: Handle, sensor: int) -> int: ...
    def nvmlDeviceGetMarginTemperature(self, handle: Handle) -> int: ...
    def nvmlDeviceGetClockInfo(self, handle: Handle, kind: int, /) -> int: ...
    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: Handle) -> int: ...
    def nvmlDeviceGetUtilizationRates(self, handle: Handle) -> Any:
        """With `gpu` and `memory` in per cent."""
        ...

    def nvmlDeviceGetMemoryInfo(self, handle: Handle) -> Any:
        """With `used` in bytes."""
        ...

    def nvmlDeviceGetCurrPcieLinkGeneration(self, handle: Handle) -> int: ...
    def nvmlDeviceGetCurrPcieLinkWidth(self, handle: Handle) -> int: ...
    def nvmlDeviceGetMaxPcieLinkWidth(self, handle: Handle) -> int: ...
    def nvmlDeviceGetMigMode(self, handle: Handle) -> Sequence[int]:
        """Current and pending."""
        ...

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: Handle) -> int: ...
    def nvmlDeviceGetMigDeviceHandleByIndex(self, device: Handle, index: int) -> Handle: ...
    def nvmlDeviceGetGpuInstanceId(self, device: Handle) -> int: ...
    def nvmlDeviceGetUnrepairableMemoryFlag_v1(self, device: Handle) -> int: ...
    def nvmlDeviceGetRepairStatus(self, device: Handle) -> Sequence[int]:
        """Whether a repair of a memory channel, and of a compute unit, is pending."""
        ...

    def nvmlDeviceGetGpuFabricInfoV(self, device: Handle) -> Any:
        """With state, status, cliqueId, clusterUuid, healthSummary, healthMask; unlike pynvml's, makes the struct."""
        ...

    def nvmlDeviceGetSramEccErrorStatus(self, device: Handle) -> Any:
        """With volatileCor, volatileUncParity, volatileUncSecDed, bThresholdExceeded; makes the struct too."""
        ...

    def nvmlDeviceGetPlatformInfo(self, device: Handle) -> Any:
        """With chassisSerialNumber, slotNumber, trayIndex, hostId, moduleId (bytes); makes the struct too."""
        ...

    def nvmlDeviceGetComputeRunningProcesses(self, handle: Handle) -> Sequence[Any]:
        """Each with `pid`."""
        ...

    def nvmlGpmQueryDeviceSupport(self, device: Handle) -> Any:
        """With `isSupportedDevice`."""
        ...

    def nvmlGpmSampleAlloc(self) -> Any: ...
    def nvmlGpmSampleFree(self, sample: Any, /) -> None: ...
    def nvmlGpmSampleGet(self, device: Handle, sample: Any, /) -> Any: ...
    def nvmlGpmMigSampleGet(self, device: Handle, instance: int, sample: Any, /) -> Any: ...
    def nvmlGpmMetricsGet(self, metrics: Any, /) -> Any: ...


def load() -> NvmlLibrary:
    """The installed pynvml (distribution nvidia-ml-py). Loading the driver's library is nvmlInit's, which may raise."""
    import pynvml

    return cast(NvmlLibrary, _Pynvml(pynvml))


class _Pynvml:
    """pynvml, but field values are asked with structs made once per list of fields, and the structs of some calls are
    made here rather than by the caller.

    pynvml makes field values anew for each call, a microsecond a field; that alone would take a third of the agent's
    budget.
    """

    def __init__(self, pynvml: Any) -> None:
        self._pynvml = pynvml
        self._prepared: dict[int, tuple[Sequence[int | tuple[int, int]], Any]] = {}

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._pynvml, name)
        setattr(self, name, found)  # the next time it is found without asking here
        return found

    def nvmlDeviceGetFieldValues(self, handle: Handle, field_ids: Sequence[int | tuple[int, int]], /) -> Any:
        prepared = self._prepared.get(id(field_ids))
        if prepared is None or prepared[0] is not field_ids:
            values = self._pynvml.nvmlDeviceGetFieldValues(handle, field_ids)
            if len(self._prepared) > MOST_PREPARED:
                self._prepared.clear()
            self._prepared[id(field_ids)] = (field_ids, values)
            return values
        values = prepared[1]
        code = self._pynvml.nvmlLib.nvmlDeviceGetFieldValues(handle, len(values), values)
        if code != SUCCESS:
            raise self._pynvml.NVMLError(code)
        return values

    def nvmlDeviceGetGpuFabricInfoV(self, device: Handle) -> Any:
        try:
            return self._filled("nvmlDeviceGetGpuFabricInfoV", device, self._pynvml.c_nvmlGpuFabricInfo_v3_t())
        except self._pynvml.NVMLError as error:
            if code_of(error) != ARGUMENT_VERSION_MISMATCH:
                raise
        older = self._filled("nvmlDeviceGetGpuFabricInfoV", device, self._pynvml.c_nvmlGpuFabricInfo_v2_t())
        return _WithoutSummary(older)

    def nvmlDeviceGetSramEccErrorStatus(self, device: Handle) -> Any:
        struct = self._pynvml.c_nvmlEccSramErrorStatus_v1_t()
        return self._filled("nvmlDeviceGetSramEccErrorStatus", device, struct)

    def nvmlDeviceGetPlatformInfo(self, device: Handle) -> Any:
        struct = self._filled("nvmlDeviceGetPlatformInfo", device, self._pynvml.c_nvmlPlatformInfo_v2_t())
        # Past pynvml, which decodes single bytes as text and breaks on those that are none.
        return SimpleNamespace(**{name: object.__getattribute__(struct, name) for name, _ in struct._fields_})

    def _filled(self, name: str, device: Handle, struct: Any) -> Any:
        getattr(self._pynvml, name)(device, ctypes.byref(struct))
        return struct


class _WithoutSummary:
    """Fabric info of a driver that does not know the health summary yet."""

    healthSummary = 0

    def __init__(self, info: Any) -> None:
        self._info = info

    def __getattr__(self, name: str) -> Any:
        return getattr(self._info, name)


MOST_PREPARED = 1024
"""Lists of fields kept: three a GPU and a few more."""


def driver_version(library: NvmlLibrary | None = None) -> str | None:
    """The driver's version, None where there is no driver. May hang with it: not for the agent's own process."""
    library = library or load()
    try:
        library.nvmlInit()
        version = library.nvmlSystemGetDriverVersion()
        library.nvmlShutdown()
    except library.NVMLError:
        return None
    return text(version)


def text(value: str | bytes) -> str:
    """NVML's words are str or bytes, by call and version."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def code_of(error: Exception) -> int:
    """The return code in an NVMLError."""
    return int(getattr(error, "value", UNKNOWN))


_UNION = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")

_BLANK_32 = 0x7FFFFFF0
_BLANK_64 = 0x7FFFFFFFFFFFFFF0
_BLANK_DOUBLE = 140737488355328.0


def decoded(values: Sequence[FieldValue]) -> tuple[list[int], list[int | float | None]]:
    """Return codes and numbers (see `number`; meaningless where the code is an error) of one call's answers.

    The library's own array is read as a whole: attribute by attribute it costs ten times as much.
    """
    if not isinstance(values, ctypes.Array):
        told = [(value.nvmlReturn, number(value) if value.nvmlReturn == SUCCESS else None) for value in values]
        return [code for code, _ in told], [found for _, found in told]
    table = np.frombuffer(cast(bytes, values), dtype=_FIELD_VALUE)
    kinds, bits = table["type"], table["value"]
    narrow = kinds == 1
    whole = np.where(narrow, bits & 0xFFFFFFFF, bits)
    numbers: list[int | float | None] = whole.tolist()
    # What may be a blank, or is neither of the two usual types, is looked at singly; there is hardly ever any.
    odd = (whole >= np.where(narrow, _BLANK_32, _BLANK_64)) | ((kinds | 2) != 3)
    codes: list[int] = table["code"].tolist()
    if odd.any():
        for i in odd.nonzero()[0].tolist():
            numbers[i] = number(values[i]) if codes[i] == SUCCESS else None
    return codes, numbers


_FIELD_VALUE = np.dtype(
    [
        ("field", "<u4"),
        ("scope", "<u4"),
        ("timestamp", "<i8"),
        ("latency", "<i8"),
        ("type", "<u4"),
        ("code", "<u4"),
        ("value", "<u8"),
    ]
)
"""nvmlFieldValue_t as nvml.h lays it out; a test compares it with pynvml's struct."""


def number(value: FieldValue) -> int | float | None:
    """The value in full width; None where it is one of the library's marks for "no value".

    Marks: all bits set, and the blanks that DCGM writes (dcgm_structs.h: int32 from 0x7ffffff0, int64 from
    9223372036854775792, double from 140737488355328).
    """
    kind = value.valueType
    raw: int | float = getattr(value.value, _UNION[kind])
    if kind == 0:
        return None if raw >= _BLANK_DOUBLE else raw
    if kind in (1, 5):
        return None if raw == 0xFFFFFFFF or _BLANK_32 <= raw <= 0x7FFFFFFF else raw
    return None if raw >= _BLANK_64 else raw
