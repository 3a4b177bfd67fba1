"""What a simulated fleet is made of and what goes wrong in it."""

from typing import Annotated

import msgspec
from msgspec import Meta

from runtime.errors import UserError
from runtime.settings import Positive
from simulator.topology import GPUS_PER_TRAY, Topology


class FleetSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Size, pace and fault of a simulated fleet.

    `speed` is event seconds per real second. `fault` is a name of `simulator.faults.FAULTS` ("" = healthy), put in
    `onset_s` seconds of event time after the start at `target` (a rank; or node, rack or link where the cause has
    that scope; "" = chosen from the seed) for `duration_s` (None = for ever). `severity` None is the fault's own.
    `ticks` 0 runs until stopped; a tick is one second of event time. `step_s` is a healthy training step. `start_ms`
    0 starts now.
    """

    racks: Annotated[int, Meta(ge=1, le=64)] = 8
    trays: Annotated[int, Meta(ge=1, le=18)] = 18
    job_size: Annotated[int, Meta(ge=4)] = 512
    seed: Annotated[int, Meta(ge=0)] = 7
    speed: Positive = 1.0
    fault: str = ""
    target: str = ""
    severity: Positive | None = None
    onset_s: Annotated[float, Meta(ge=0)] = 60.0
    duration_s: Positive | None = None
    step_s: Annotated[float, Meta(ge=0.05, le=60)] = 0.96
    ticks: Annotated[int, Meta(ge=0)] = 0
    start_ms: Annotated[int, Meta(ge=0)] = 0

    def topology(self) -> Topology:
        """The fleet's shape; raises UserError where the job does not fill whole trays alike in every rack."""
        per_rack, rest = divmod(self.job_size, self.racks)
        if rest or per_rack % GPUS_PER_TRAY or per_rack > self.trays * GPUS_PER_TRAY:
            most = self.racks * self.trays * GPUS_PER_TRAY
            raise UserError(
                f"--job-size {self.job_size}: give a multiple of {self.racks * GPUS_PER_TRAY} up to {most} "
                f"(whole trays of {GPUS_PER_TRAY} GPUs, alike in all {self.racks} racks)"
            )
        return Topology(self.racks, self.trays, self.job_size, self.seed)
