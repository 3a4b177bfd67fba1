"""The collectors that talk to the GPU driver, made in the sampler process."""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from collectors import nvml
from collectors.base import Collector
from collectors.gpu import GpuCollector
from collectors.jobs import JobsCollector
from collectors.processes import Processes
from runtime.clock import SystemClock
from schemas.frame import Gpu


def collectors(argument: str, known: tuple[Gpu, ...]) -> Mapping[str, Collector]:
    """GPU and jobs collectors on the installed driver; `argument` is JSON with `proc`, `cluster` and `job_mapping`."""
    return over(nvml.load(), argument, known)


def over(library: nvml.NvmlLibrary, argument: str, known: tuple[Gpu, ...]) -> Mapping[str, Collector]:
    """The same on any library: the jobs collector asks through the GPU collector's handles."""
    told = msgspec.json.decode(argument, type=dict[str, str])
    gpus = GpuCollector(library, SystemClock(), known)
    gpus.open()
    cluster, mapping = told["cluster"], told.get("job_mapping")
    processes = Processes(Path(told["proc"]), cluster)
    return {"gpu": gpus, "jobs": JobsCollector(gpus, processes, cluster, Path(mapping) if mapping else None)}
