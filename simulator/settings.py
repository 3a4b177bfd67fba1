"""What a simulated fleet is made of and what goes wrong in it."""

from typing import Annotated

import msgspec
from msgspec import Meta

from runtime.errors import UserError
from runtime.settings import Positive
from simulator.topology import GPUS_PER_TRAY, Topology


class FleetSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Size, pace and fault of a simulated fleet; a tick is one second of event time.

    `severity` None is the fault's own, `duration_s` None for ever, `start_ms` 0 the moment it starts.
    """

    racks: Annotated[int, Meta(ge=1, le=64, description="NVL72 racks")] = 8
    trays: Annotated[int, Meta(ge=1, le=18, description="Trays of 4 GPUs in a rack")] = 18
    job_size: Annotated[int, Meta(ge=4, description="Ranks of the training job, one a GPU")] = 512
    seed: Annotated[int, Meta(ge=0, description="The same seed gives the same run")] = 7
    speed: Annotated[float, Meta(gt=0, description="Simulated seconds per second")] = 1.0
    fault: Annotated[str, Meta(description="What goes wrong: a cause")] = ""
    target: Annotated[
        str, Meta(description="Where: a rank, or a node, rack or link where the cause has that scope; else by the seed")
    ] = ""
    severity: Annotated[
        Positive | None, Meta(description="How hard: 1.3, or 0.3, is a third slower; see --list-faults")
    ] = None
    onset_s: Annotated[float, Meta(ge=0, description="Simulated seconds before the fault begins")] = 60.0
    duration_s: Annotated[Positive | None, Meta(description="Simulated seconds the fault lasts; else for ever")] = None
    step_s: Annotated[float, Meta(ge=0.05, le=60, description="Seconds of a healthy training step")] = 0.96
    ras: Annotated[bool, Meta(description="NCCL's RAS is asked when the job stands still")] = False
    ticks: Annotated[int, Meta(ge=0, description="Stop after so many simulated seconds; 0 is never")] = 0
    start_ms: Annotated[int, Meta(ge=0, description="Simulated clock at the start, ms since 1970; 0 is now")] = 0

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
