"""`lockstep agent`."""

from collectors.service import AgentSettings, run
from lockstep.options import service_command

command = service_command(
    "agent",
    AgentSettings,
    run,
    does="The agent of a node: collect and publish.",
    example="lockstep agent --broker kafka-1:9092 --cluster eos",
)
