"""What a GPU is, asked once whenever it is found: serial, product, firmware, place in chassis and rack, links."""

from collections.abc import Callable
from typing import TypeVar

from collectors.gpu import nvml
from collectors.gpu.fields import LINK_COUNT
from schemas.frame import Gpu
from schemas.inventory import GpuDescription

T = TypeVar("T")


def describe(library: nvml.NvmlLibrary, handle: nvml.Handle, gpu: Gpu, before: GpuDescription) -> GpuDescription:
    """The description of `gpu`; what it does not tell now stays as it was `before`."""
    place = _asked(library, lambda: library.nvmlDeviceGetPlatformInfo(handle))
    return GpuDescription(
        uuid=gpu.uuid,
        pci=gpu.pci,
        slot=gpu.slot,
        serial=_word(library, library.nvmlDeviceGetSerial, handle) or before.serial,
        name=_word(library, library.nvmlDeviceGetName, handle) or before.name,
        vbios=_word(library, library.nvmlDeviceGetVbiosVersion, handle) or before.vbios,
        chassis=_ascii(place.chassisSerialNumber) if place is not None else before.chassis,
        chassis_slot=_byte(place.slotNumber) if place is not None else before.chassis_slot,
        chassis_tray=_byte(place.trayIndex) if place is not None else before.chassis_tray,
        chassis_host=_byte(place.hostId) if place is not None else before.chassis_host,
        module=_byte(place.moduleId) if place is not None else before.module,
    )


def link_count(library: nvml.NvmlLibrary, handle: nvml.Handle) -> int:
    """How many NVLinks the GPU has (NVML's own maximum is 36, whatever the product); 0 where it does not say."""
    answers = _asked(library, lambda: library.nvmlDeviceGetFieldValues(handle, [LINK_COUNT]))
    if answers is None or answers[0].nvmlReturn != nvml.SUCCESS:
        return 0
    return int(nvml.number(answers[0]) or 0)


def _asked(library: nvml.NvmlLibrary, ask: Callable[[], T]) -> T | None:
    """The answer; None where this GPU has none."""
    try:
        return ask()
    except library.NVMLError as error:
        if nvml.code_of(error) in nvml.DRIVER_GONE:
            raise
        return None


def _word(library: nvml.NvmlLibrary, ask: Callable[[nvml.Handle], str | bytes], handle: nvml.Handle) -> str:
    return nvml.text(_asked(library, lambda: ask(handle)) or "")


def _ascii(raw: bytes) -> str:
    return bytes(raw).split(b"\0")[0].decode("ascii", errors="replace").strip()


def _byte(raw: bytes | int) -> int:
    """A single byte as pynvml gives it (bytes of length one)."""
    return raw if isinstance(raw, int) else int.from_bytes(raw[:1], "little")
