"""The agent for a person who looks: the same collectors and records, shown instead of sent.

Nothing is kept or taken from an agent that runs beside: no spool, no run number, no place in the kernel log.
"""

import tempfile
import threading
from collections.abc import Callable, Mapping
from itertools import islice

from msgspec.structs import replace

from collectors.agent.core import AgentCore, beside
from collectors.agent.pace import ticks
from collectors.agent.service import ONCE_TICKS, StoppedClock, assembled
from collectors.agent.settings import AgentSettings, Machine
from runtime.health import Counters
from schemas.event import Event
from schemas.frame import NodeFrame
from schemas.record import NodeRecord


def look(
    settings: AgentSettings,
    stop: threading.Event,
    machine: Machine,
    environment: Mapping[str, str],
    show: Callable[[NodeRecord], None],
    once: bool,
) -> None:
    """Show the records of every tick until `stop`; with `once` those of a few ticks, and of their frames one with what
    was read last of everything.

    The socket for steps stays with the agent that has it.
    """
    counters, clock = Counters(), StoppedClock(stop)
    with tempfile.TemporaryDirectory(prefix="lockstep-look-") as folder:
        quiet = replace(settings, spool_dir=folder, steps_socket="")
        node, collectors = assembled(quiet, machine, environment, clock, counters)
        core = AgentCore(node.identity, collectors, clock.now_ms(), clock, counters)
        node.gpu_of = core.gpu_of
        seen: NodeFrame | None = None
        try:
            moments = ticks(clock, settings.interval_s, stop.is_set, lambda _: None)
            for count, tick_ms in enumerate(islice(moments, ONCE_TICKS if once else None), start=1):
                if once and count == ONCE_TICKS:
                    core.all_due()  # what was asked while the sampler process was still starting, too
                for record in core.tick(tick_ms):
                    if once and isinstance(record, NodeFrame):
                        seen = _over(record, seen)
                    elif not _is_start(record):
                        show(record)
            if seen is not None:
                show(seen)
        finally:
            node.close()


def _over(now: NodeFrame, before: NodeFrame | None) -> NodeFrame:
    """The frame with what was not due in it as it was before."""
    if before is None:
        return now
    sections = before.sections | now.sections
    both = {name: beside(now.sections[name], before.sections[name]) for name in before.sections.keys() & now.sections}
    return replace(now, sections=sections | both)


def _is_start(record: NodeRecord) -> bool:
    return isinstance(record, Event) and record.kind == "agent_started"
