"""The MIG instances of one GPU: rows of their own, by their UUIDs.

GPU instance ids are used again after a reconfiguration, UUIDs name one instance. NVML tells only memory and GPM of an
instance; utilisation belongs to neither it nor its parent.
"""

from contextlib import suppress

from collectors.gpu import nvml
from collectors.gpu.calls import MIB
from collectors.gpu.fields import raise_if_gone, reason_of
from collectors.gpu.gpm import GPM_METRICS, GpmReader
from collectors.rates import Value
from schemas.frame import Gpu
from schemas.metrics import names


class Instance:
    """One instance: `read` gives its row of section `gpu`."""

    def __init__(self, library: nvml.NvmlLibrary, parent: nvml.Handle, handle: nvml.Handle, gpu: Gpu, id_: int) -> None:
        self._library, self.handle, self.gpu = library, handle, gpu
        self._gpm = GpmReader(library, parent, id_)

    def read(self) -> dict[str, Value]:
        """Memory and activity; the rest is not an instance's own."""
        row: dict[str, Value] = dict.fromkeys(names("gpu"), "unsupported")
        try:
            row["memory_used_mib"] = self._library.nvmlDeviceGetMemoryInfo(self.handle).used / MIB
        except self._library.NVMLError as error:
            row["memory_used_mib"] = _reason(error)
        try:
            row |= self._gpm.read()
        except self._library.NVMLError as error:
            row |= dict.fromkeys(GPM_METRICS, _reason(error))
        return row

    def close(self) -> None:
        with suppress(self._library.NVMLError):
            self._gpm.close()


def instances(library: nvml.NvmlLibrary, parent: nvml.Handle, gpu: Gpu) -> list[Instance]:
    """The instances that `parent` has now; raises the library's NVMLError where it cannot say."""
    found: list[Instance] = []
    for index in range(library.nvmlDeviceGetMaxMigDeviceCount(parent)):
        try:
            handle = library.nvmlDeviceGetMigDeviceHandleByIndex(parent, index)
            uuid = nvml.text(library.nvmlDeviceGetUUID(handle))
            id_ = library.nvmlDeviceGetGpuInstanceId(handle)
        except library.NVMLError as error:
            if nvml.code_of(error) not in (nvml.NOT_FOUND, nvml.INVALID_ARGUMENT):
                raise
            continue
        part = Gpu(uuid=uuid, pci=gpu.pci, slot=gpu.slot, parent=gpu.uuid)
        found.append(Instance(library, parent, handle, part, id_))
    return found


def _reason(error: Exception) -> str:
    code = nvml.code_of(error)
    raise_if_gone(code)
    return reason_of(code)
