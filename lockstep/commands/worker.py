"""`lockstep worker`."""

from lockstep.options import service_command
from streams.service import WorkerSettings, run

command = service_command(
    "worker",
    WorkerSettings,
    run,
    does="Detection. Start up to as many as there are partitions, each with its own --slot.",
    example="lockstep worker --broker kafka-1:9092 --slot 0",
)
