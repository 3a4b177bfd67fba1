"""The collectors that talk to the GPU driver, made in the sampler process."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec

from collectors.base import Collector
from collectors.gpu import nvml
from collectors.gpu.collector import GpuCollector
from collectors.gpu.nvml_events import EventLibrary, NvmlEvents, tells_events
from collectors.job.jobs import JobsCollector
from collectors.job.processes import Processes
from runtime.clock import SystemClock
from schemas.frame import Gpu

if TYPE_CHECKING:
    from collectors.gpu.dcgm import DcgmCollector

DCGM_TIMEOUT_S = 0.5
"""An exporter answers from memory; what is slower than half a tick comes too late for it."""


def collectors(argument: str, known: tuple[Gpu, ...]) -> Mapping[str, Collector]:
    """GPU and jobs collectors on the installed driver, or on a dcgm-exporter where `argument` names one.

    `argument` is JSON with `proc`, `cluster`, `job_mapping`, `cooling_loop` and `dcgm_url`.
    """
    url = msgspec.json.decode(argument, type=dict[str, str]).get("dcgm_url")
    if not url:
        return over(nvml.load(), argument, known)
    # Imported only here: the sampler process counts against the agent's memory.
    from collectors.gpu.dcgm import DcgmCollector, DcgmXids
    from collectors.http_text import fetcher

    gpus = DcgmCollector(fetcher(url, "dcgm-exporter", DCGM_TIMEOUT_S), SystemClock(), known)
    return {**_both(gpus, argument), "xids": DcgmXids(gpus)}


def over(library: nvml.NvmlLibrary, argument: str, known: tuple[Gpu, ...]) -> Mapping[str, Collector]:
    """The same on any library: the jobs collector asks through the GPU collector's handles."""
    gpus = GpuCollector(library, SystemClock(), known)
    gpus.open()
    xids = {"xids": NvmlEvents(cast(EventLibrary, library), gpus.handles)} if tells_events(library) else {}
    return {**_both(gpus, argument), **xids}


def _both(gpus: "GpuCollector | DcgmCollector", argument: str) -> Mapping[str, Collector]:
    told = msgspec.json.decode(argument, type=dict[str, str])
    cluster, mapping = told["cluster"], told.get("job_mapping")
    processes = Processes(Path(told["proc"]), cluster)
    nics = Path(told["sys"]) / "class/infiniband" if "sys" in told else None
    unit = told.get("cooling_loop", "")
    jobs = JobsCollector(gpus, processes, cluster, Path(mapping) if mapping else None, nics, unit)
    return {"gpu": gpus, "jobs": jobs}
