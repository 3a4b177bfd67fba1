"""`lockstep writer`."""

from lockstep.options import service_command
from storage.service import WriterSettings, run

command = service_command(
    "writer",
    WriterSettings,
    run,
    does="Write the topics into ClickHouse. Start up to as many as there are partitions, each with its own --slot.",
    example="lockstep writer --broker kafka-1:9092 --clickhouse-host ch-1",
)
