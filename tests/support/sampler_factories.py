"""Collectors for sampler processes under test; what they do is said by the argument and by files."""

import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from fake_nvml import eight

from collectors.base import Collector, CollectorError, NoData, Reading, event
from collectors.gpu import driver
from schemas.frame import Gpu
from schemas.matrix import Matrix


class Obedient:
    """Reads the tick as a number; `folder`/NAME files make it hang, die or fail."""

    interval_s = 1.0

    def __init__(self, name: str, folder: Path, known: tuple[Gpu, ...]) -> None:
        self.name, self._folder, self._known = name, folder, known

    def collect(self, tick_ms: int) -> Reading:
        print("drivers print to standard output")
        if self._ordered("hang"):
            while self._ordered("hang"):
                time.sleep(0.01)
        if self._ordered("sleep_for_ever"):
            time.sleep(3600)
        if self._ordered("die"):
            os._exit(3)
        if self._ordered("no_data"):
            raise NoData("nothing here")
        if self._ordered("crash"):
            raise ValueError("what is this")
        if self._ordered("restart"):
            raise CollectorError("driver_mismatch", "changed", "driver_mismatch", restart=True)
        matrix = Matrix.of(["GPU-0"], ["power_w"], [[float(tick_ms)]])
        draft = event("pid", text=str(os.getpid()), detail={"known": ",".join(gpu.uuid for gpu in self._known)})
        return Reading({"gpu": matrix}, (Gpu(uuid="GPU-0", pci="0000:1b:00.0"),), {"blank": 1}, (draft,))

    def _ordered(self, what: str) -> bool:
        return (self._folder / what).exists()


def obedient(argument: str, known: tuple[Gpu, ...]) -> Mapping[str, Collector]:
    """Two collectors, "gpu" and "jobs", that obey the files of the folder `argument`."""
    folder = Path(argument)
    if (folder / "slow_start").exists():
        time.sleep(1.0)
    if (folder / "cannot_start").exists():
        sys.exit(1)
    return {name: Obedient(name, folder, known) for name in ("gpu", "jobs")}


def fake_driver(argument: str, known: tuple[Gpu, ...]) -> Mapping[str, Collector]:
    """The real collectors over eight fake GPUs; argument as for the real driver, with `pids` beside."""
    library = eight()
    for gpu, pid in zip(library.gpus, json.loads(os.environ.get("FAKE_PIDS", "[]")), strict=False):
        gpu.pids = [pid]
    return driver.over(library, argument, known)
